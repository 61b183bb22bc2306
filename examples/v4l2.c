// SPDX-License-Identifier: MIT
/*
 * A camera's frames as tensors: prints how bright ten of them are. Nothing is
 * copied, and each buffer is queued again when its tensors are gone.
 *
 *	cc v4l2.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/v4l2.h>

#define NBUFFERS 4

static struct buffer {
	int video, fd;
	struct v4l2_buffer v4l2;
} buffers[NBUFFERS];

/* The last use of the frame is over: the camera may write into it again. */
static void queue(void *data)
{
	struct buffer *b = data;

	if (ioctl(b->video, VIDIOC_QBUF, &b->v4l2))
		warn("VIDIOC_QBUF");
}

static void start(int video, struct v4l2_format *fmt)
{
	struct v4l2_requestbuffers req = { .count = NBUFFERS,
		.type = fmt->type, .memory = V4L2_MEMORY_MMAP };

	if (ioctl(video, VIDIOC_G_FMT, fmt) ||
	    ioctl(video, VIDIOC_REQBUFS, &req) || req.count != NBUFFERS)
		err(1, "no buffers");
	for (uint32_t i = 0; i < NBUFFERS; i++) {
		struct v4l2_exportbuffer exp = { .type = fmt->type, .index = i,
						 .flags = O_RDWR | O_CLOEXEC };

		if (ioctl(video, VIDIOC_EXPBUF, &exp))
			err(1, "VIDIOC_EXPBUF");
		buffers[i].video = video;
		buffers[i].fd = exp.fd;
		buffers[i].v4l2.type = fmt->type;
		buffers[i].v4l2.memory = V4L2_MEMORY_MMAP;
		buffers[i].v4l2.index = i;
		queue(&buffers[i]);
	}
	if (ioctl(video, VIDIOC_STREAMON, &fmt->type))
		err(1, "VIDIOC_STREAMON");
}

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

int main(int argc, char **argv)
{
	struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA);
	int video = open(argc > 1 ? argv[1] : "/dev/video0", O_RDWR);
	struct dlbuf_device *cpu;

	if (video < 0)
		err(1, "%s", argc > 1 ? argv[1] : "/dev/video0");
	if (dlbuf_device_open("cpu", NULL, &cpu))
		errx(1, "%s", dlbuf_last_error());
	start(video, &fmt);
	for (int n = 0; n < 10; n++) {
		struct v4l2_buffer buf = { .type = fmt.type,
					   .memory = V4L2_MEMORY_MMAP };
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame frame;
		uint32_t nt;

		if (ioctl(video, VIDIOC_DQBUF, &buf) ||
		    dlbuf_v4l2_frame(&fmt, &buf, &buffers[buf.index].fd, &frame))
			err(1, "no frame");
		frame.release = queue;
		frame.release_data = &buffers[buf.index];
		if (dlbuf_import_frame(cpu, &frame, &luma, t, &nt) ||
		    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
			errx(1, "%s", dlbuf_last_error());
		printf("frame %" PRIu64 ": %.1f\n", frame.sequence,
		       mean(&t[0]->dl_tensor));
		t[0]->deleter(t[0]); /* releases it, too */
	}
	dlbuf_device_close(cpu);
	return 0;
}
