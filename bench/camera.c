// SPDX-License-Identifier: MIT
/*
 * camera: the cost of each frame of a camera to a program, without and with
 * dlbuf. Prints lines of letter, nanoseconds a frame, bytes moved a frame, and
 * a description, for bench/media/run.
 *
 *	bench/camera [/dev/videoN [WIDTHxHEIGHT [FRAMES]]]
 *
 * 300 frames, because the first 32 accesses of a buffer look at its fences, too.
 *
 * Counts the CPU time of this process, with the kernel's work for it and
 * without the camera's own: under -icount, instructions.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/v4l2.h>

#include "bench.h"

#define BUFFERS 4
#define MAX_FRAMES 1000

struct camera {
	int fd, fds[BUFFERS];
	struct v4l2_format fmt;
};

struct lease {
	struct camera *cam;
	struct v4l2_buffer buf;
};

static uint64_t times[MAX_FRAMES];
static bool copied;

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void video(struct camera *cam, unsigned long request, void *arg,
		  const char *name)
{
	while (ioctl(cam->fd, request, arg))
		if (errno != EINTR)
			err(1, "%s", name);
}
#define VIDEO(cam, request, arg) video(cam, request, arg, #request)

static void queue(struct camera *cam, struct v4l2_buffer *buf)
{
	VIDEO(cam, VIDIOC_QBUF, buf);
}

static void requeue(void *data)
{
	struct lease *lease = data;

	queue(lease->cam, &lease->buf);
}

static void start(struct camera *cam, const char *node, uint32_t width,
		  uint32_t height)
{
	struct v4l2_requestbuffers req = {
		.count = BUFFERS, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_MMAP,
	};
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	cam->fd = open(node, O_RDWR | O_CLOEXEC);
	if (cam->fd < 0)
		err(1, "%s", node);
	cam->fmt = (struct v4l2_format){
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.fmt.pix = { .width = width, .height = height,
			     .pixelformat = V4L2_PIX_FMT_NV12,
			     .field = V4L2_FIELD_NONE },
	};
	VIDEO(cam, VIDIOC_S_FMT, &cam->fmt);
	if (cam->fmt.fmt.pix.pixelformat != V4L2_PIX_FMT_NV12)
		errx(1, "%s has no NV12", node);
	VIDEO(cam, VIDIOC_REQBUFS, &req);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		struct v4l2_exportbuffer export = {
			.type = type, .index = i, .flags = O_RDWR | O_CLOEXEC,
		};
		struct v4l2_buffer buf = {
			.type = type, .memory = V4L2_MEMORY_MMAP, .index = i,
		};

		VIDEO(cam, VIDIOC_EXPBUF, &export);
		cam->fds[i] = export.fd;
		queue(cam, &buf);
	}
	VIDEO(cam, VIDIOC_STREAMON, &type);
}

static void stop(struct camera *cam)
{
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	VIDEO(cam, VIDIOC_STREAMOFF, &type);
	for (uint32_t i = 0; i < BUFFERS; i++)
		close(cam->fds[i]);
	close(cam->fd);
}

static void bare(struct camera *cam, struct lease *lease,
		 struct dlbuf_device *dev)
{
	(void)dev;
	queue(cam, &lease->buf);
}

/* As a user writes it; the last tensor's end queues the buffer. */
static void tensors(struct camera *cam, struct lease *lease,
		    struct dlbuf_device *dev)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	uint32_t n;

	if (dlbuf_v4l2_frame(&cam->fmt, &lease->buf,
			     &cam->fds[lease->buf.index], &frame))
		errx(1, "%s", dlbuf_last_error());
	frame.release = requeue;
	frame.release_data = lease;
	/* Both planes are in one dma-buf: one acquire is for both. */
	if (dlbuf_import_frame(dev, &frame, NULL, t, &n) ||
	    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL) ||
	    dlbuf_release(t[0], NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	while (n--) {
		copied |= t[n]->flags & DLPACK_FLAG_BITMASK_IS_COPIED;
		t[n]->deleter(t[n]);
	}
}

/* Tensors of a buffer are made once: the remaining cost is the order of accesses. */
static void kept(struct camera *cam, struct lease *lease,
		 struct dlbuf_device *dev)
{
	static DLManagedTensorVersioned *t[BUFFERS][DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	uint32_t i = lease->buf.index, n;

	if (!t[i][0] && (dlbuf_v4l2_frame(&cam->fmt, NULL, &cam->fds[i],
					  &frame) ||
			 dlbuf_import_frame(dev, &frame, NULL, t[i], &n)))
		errx(1, "%s", dlbuf_last_error());
	if (dlbuf_acquire(t[i][0], DLBUF_READ, NULL, NULL) ||
	    dlbuf_release(t[i][0], NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	queue(cam, &lease->buf);
}

/* The cache maintenance that a reader owes the kernel, by hand. */
static void by_hand(struct camera *cam, struct lease *lease,
		    struct dlbuf_device *dev)
{
	struct dma_buf_sync sync = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	int fd = cam->fds[lease->buf.index];

	(void)dev;
	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ;
	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
	queue(cam, &lease->buf);
}

static uint64_t measure(struct camera *cam, unsigned int frames,
			struct dlbuf_device *dev,
			void (*use)(struct camera *cam, struct lease *lease,
				    struct dlbuf_device *dev))
{
	for (unsigned int i = 0; i < frames + 2 * BUFFERS; i++) {
		struct lease lease = {
			.cam = cam,
			.buf = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				 .memory = V4L2_MEMORY_MMAP },
		};
		uint64_t t = cpu_time();

		VIDEO(cam, VIDIOC_DQBUF, &lease.buf);
		use(cam, &lease, dev);
		/* The first of each buffer is another matter: bench/import. */
		if (i >= 2 * BUFFERS)
			times[i - 2 * BUFFERS] = cpu_time() - t;
	}
	return median(times, frames);
}

int main(int argc, char **argv)
{
	const char *node = argc > 1 ? argv[1] : "/dev/video0";
	unsigned int width = 1920, height = 1080, frames = 300;
	uint64_t without, hand, with, keeping;
	struct dlbuf_device *dev;
	struct camera cam;

	fix_addresses(argv);
	if ((argc > 2 && sscanf(argv[2], "%ux%u", &width, &height) != 2) ||
	    (argc > 3 && (sscanf(argv[3], "%u", &frames) != 1 || !frames ||
			  frames > MAX_FRAMES)))
		errx(2, "usage: camera [/dev/videoN [WIDTHxHEIGHT [FRAMES]]]");
	if (dlbuf_device_open("cpu", NULL, &dev))
		errx(1, "%s", dlbuf_last_error());
	start(&cam, node, width, height);
	without = measure(&cam, frames, dev, bare);
	hand = measure(&cam, frames, dev, by_hand);
	with = measure(&cam, frames, dev, tensors);
	keeping = measure(&cam, frames, dev, kept);
	stop(&cam);
	dlbuf_device_close(dev);
	if (copied)
		errx(1, "a frame was copied");
	printf("a\t%llu\t0\tV4L2: DQBUF, QBUF\n", (unsigned long long)without);
	printf("a'\t%llu\t0\tthe same and DMA_BUF_IOCTL_SYNC around it\n",
	       (unsigned long long)hand);
	printf("b\t%llu\t0\tthe same with new dlbuf tensors for each frame\n",
	       (unsigned long long)with);
	printf("b'\t%llu\t0\tthe same with dlbuf tensors kept for each buffer\n",
	       (unsigned long long)keeping);
	return 0;
}
