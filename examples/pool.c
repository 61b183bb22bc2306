// SPDX-License-Identifier: MIT
/*
 * A V4L2 camera captures into udmabufs of a pool. A device, the consumer, has imported them
 * before the first frame, and nothing is copied. Each buffer goes back to the camera when the
 * consumer's last tensor of it is deleted.
 *
 * dlbuf_camera_open() with the exporter "udmabuf" does the same in one call. This program is for
 * applications that make V4L2's calls themselves.
 *
 *	cc pool.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0 [DEVICE]
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
#define FRAMES 20

static int video;
static struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
static int fds[BUFFERS];

/* The lease of a frame, on a thread of the library: `data` is the fd of the buffer. */
static void queue(void *data)
{
	int *fd = data;
	struct v4l2_buffer buf = { .index = (uint32_t)(fd - fds), .type = fmt.type,
				   .memory = V4L2_MEMORY_DMABUF, .m.fd = *fd };

	if (ioctl(video, VIDIOC_QBUF, &buf))
		warn("VIDIOC_QBUF");
}

/* The camera's format, and buffers that both the camera and the device can use. */
static struct dlbuf_pool *make_pool(struct dlbuf_device *dev, const char *node)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .exporter = "udmabuf", .buffers = BUFFERS,
		   .code_space = DLBUF_CODE_V4L2, .v4l2 = &video, .nv4l2 = 1);
	struct v4l2_requestbuffers req = { .count = BUFFERS, .type = fmt.type,
					   .memory = V4L2_MEMORY_DMABUF };
	struct dlbuf_pool *pool;

	video = open(node, O_RDWR | O_CLOEXEC);
	if (video < 0 || ioctl(video, VIDIOC_G_FMT, &fmt))
		err(1, "%s: no single-planar camera", node);
	opts.code = fmt.fmt.pix.pixelformat;
	opts.width = fmt.fmt.pix.width;
	opts.height = fmt.fmt.pix.height;
	/* Sets the camera's format again: with the pitch of the buffers. */
	if (dlbuf_pool_create(&dev, 1, &opts, &pool))
		errx(1, "%s", dlbuf_last_error());
	if (ioctl(video, VIDIOC_G_FMT, &fmt) || ioctl(video, VIDIOC_REQBUFS, &req))
		err(1, "%s", node);
	if (req.count != BUFFERS)
		errx(1, "%s wants %u buffers", node, req.count);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		DLBUF_INFO(dlbuf_frame, frame);

		if (dlbuf_pool_frame(pool, i, &frame))
			errx(1, "%s", dlbuf_last_error());
		fds[i] = frame.planes[0].fd;
		queue(&fds[i]);
	}
	return pool;
}

static void consume(struct dlbuf_device *dev, const struct dlbuf_frame *frame)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	if (dlbuf_import_frame(dev, frame, NULL, t, &n) ||
	    dlbuf_acquire_all(t, n, DLBUF_READ, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	/* The device reads t[0]->dl_tensor here, and t[1] if the format has a second plane. */
	printf("frame %" PRIu64 ": %" PRId64 " rows\n", frame->sequence,
	       t[0]->dl_tensor.shape[0]);
	while (n--)
		t[n]->deleter(t[n]); /* the last one calls queue() */
}

int main(int argc, char **argv)
{
	enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	DLBUF_INFO(dlbuf_device_stats, stats);
	struct dlbuf_device *dev;
	struct dlbuf_pool *pool;
	struct dlbuf_frame frame;

	if (dlbuf_device_open(argc > 2 ? argv[2] : "cpu", NULL, &dev))
		errx(1, "%s", dlbuf_last_error());
	pool = make_pool(dev, argc > 1 ? argv[1] : "/dev/video0");
	if (ioctl(video, VIDIOC_STREAMON, &type))
		err(1, "VIDIOC_STREAMON");
	for (int i = 0; i < FRAMES; i++) {
		struct v4l2_buffer buf = { .type = fmt.type, .memory = V4L2_MEMORY_DMABUF };

		if (ioctl(video, VIDIOC_DQBUF, &buf))
			err(1, "VIDIOC_DQBUF");
		if (dlbuf_v4l2_frame(&fmt, &buf, &fds[buf.index], &frame))
			errx(1, "%s", dlbuf_last_error());
		frame.release = queue;
		frame.release_data = &fds[buf.index];
		consume(dev, &frame);
	}
	/* After this call no lease is left. */
	if (dlbuf_device_drain(dev, 0) || dlbuf_device_get_stats(dev, &stats))
		errx(1, "%s", dlbuf_last_error());
	printf("%d buffers, %" PRIu64 " imports\n", BUFFERS, stats.misses);
	ioctl(video, VIDIOC_STREAMOFF, &type);
	dlbuf_pool_destroy(pool);
	close(video);
	dlbuf_device_close(dev);
	return 0;
}
