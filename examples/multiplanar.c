// SPDX-License-Identifier: MIT
/*
 * A camera of V4L2's multi-planar API, as those of most boards: each plane of NV12M is a dma-buf
 * of its own. Prints the means of Y, U and V. The driver makes the buffers; pool.c shows buffers
 * of the application.
 *
 *	cc multiplanar.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/v4l2.h>

#define BUFFERS 4
#define FRAMES 10

struct buffer {
	uint32_t index;
	int fds[DLBUF_MAX_PLANES];
};

static int video;
static struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE };
static struct buffer buffers[BUFFERS];

/* The lease of a frame. The driver fills in the planes' sizes. */
static void queue(void *data)
{
	struct buffer *b = data;
	struct v4l2_plane planes[VIDEO_MAX_PLANES] = { { 0 } };
	struct v4l2_buffer buf = { .index = b->index, .type = fmt.type, .m.planes = planes,
				   .memory = V4L2_MEMORY_MMAP, .length = VIDEO_MAX_PLANES };

	if (ioctl(video, VIDIOC_QBUF, &buf))
		warn("VIDIOC_QBUF");
}

/* NV12M, or NV12 with both planes in one dma-buf. */
static void set_format(const char *node)
{
	static const uint32_t codes[] = { V4L2_PIX_FMT_NV12M, V4L2_PIX_FMT_NV12 };

	video = open(node, O_RDWR | O_CLOEXEC);
	if (video < 0 || ioctl(video, VIDIOC_G_FMT, &fmt))
		err(1, "%s: no multi-planar camera", node);
	for (int i = 0; i < 2; i++) {
		fmt.fmt.pix_mp.pixelformat = codes[i];
		if (ioctl(video, VIDIOC_S_FMT, &fmt))
			err(1, "%s: VIDIOC_S_FMT", node);
		if (fmt.fmt.pix_mp.pixelformat == codes[i])
			return;
	}
	errx(1, "%s has neither NV12M nor NV12", node);
}

static void make_buffers(const char *node)
{
	struct v4l2_requestbuffers req = { .count = BUFFERS, .type = fmt.type,
					   .memory = V4L2_MEMORY_MMAP };

	if (ioctl(video, VIDIOC_REQBUFS, &req))
		err(1, "%s: VIDIOC_REQBUFS", node);
	if (req.count != BUFFERS)
		errx(1, "%s wants %u buffers", node, req.count);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		buffers[i].index = i;
		for (uint32_t plane = 0; plane < fmt.fmt.pix_mp.num_planes; plane++) {
			struct v4l2_exportbuffer export = { .index = i, .plane = plane,
				.type = fmt.type, .flags = O_RDWR | O_CLOEXEC };

			if (ioctl(video, VIDIOC_EXPBUF, &export))
				err(1, "%s: VIDIOC_EXPBUF", node);
			buffers[i].fds[plane] = export.fd;
		}
		queue(&buffers[i]);
	}
}

/* The mean of a channel: 0 of [H, W], or 0 or 1 of [H, W, 2]. */
static double mean(const DLTensor *t, int channel)
{
	double sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] + x * t->strides[1] +
						    channel];
	return sum / (double)(t->shape[0] * t->shape[1]);
}

static void show(struct dlbuf_device *cpu, const struct dlbuf_frame *frame)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	if (dlbuf_import_frame(cpu, frame, NULL, t, &n) ||
	    dlbuf_acquire_all(t, n, DLBUF_READ, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	printf("frame %" PRIu64 " in %u dma-bufs: Y %.1f, U %.1f, V %.1f\n", frame->sequence,
	       frame->nplanes, mean(&t[0]->dl_tensor, 0), mean(&t[1]->dl_tensor, 0),
	       mean(&t[1]->dl_tensor, 1));
	while (n--)
		t[n]->deleter(t[n]); /* the last one calls queue() */
}

int main(int argc, char **argv)
{
	const char *node = argc > 1 ? argv[1] : "/dev/video0";
	enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	struct v4l2_plane planes[VIDEO_MAX_PLANES];
	struct dlbuf_device *cpu;
	struct dlbuf_frame frame;

	if (dlbuf_device_open("cpu", NULL, &cpu))
		errx(1, "%s", dlbuf_last_error());
	set_format(node);
	make_buffers(node);
	if (ioctl(video, VIDIOC_STREAMON, &type))
		err(1, "%s: VIDIOC_STREAMON", node);
	for (int i = 0; i < FRAMES; i++) {
		struct v4l2_buffer buf = { .type = fmt.type, .memory = V4L2_MEMORY_MMAP,
					   .m.planes = planes, .length = VIDEO_MAX_PLANES };

		if (ioctl(video, VIDIOC_DQBUF, &buf))
			err(1, "%s: VIDIOC_DQBUF", node);
		if (dlbuf_v4l2_frame(&fmt, &buf, buffers[buf.index].fds, &frame))
			errx(1, "%s", dlbuf_last_error());
		frame.release = queue;
		frame.release_data = &buffers[buf.index];
		show(cpu, &frame);
	}
	ioctl(video, VIDIOC_STREAMOFF, &type);
	for (int i = 0; i < BUFFERS; i++)
		for (uint32_t plane = 0; plane < fmt.fmt.pix_mp.num_planes; plane++)
			close(buffers[i].fds[plane]);
	dlbuf_device_close(cpu); /* drops its imports, which keep the buffers' memory */
	close(video);
	return 0;
}
