/* SPDX-License-Identifier: MIT */
/*
 * The kernel's virtual camera, as small as tests need it: NV12, the driver's
 * own buffers, each exported once and mapped as the dma-buf that it is. A
 * failure ends the case, so these belong on its own thread; vivid_queue() says
 * 0 or a negative errno, on any.
 */
#ifndef TESTS_LAB_VIVID_H
#define TESTS_LAB_VIVID_H

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <linux/dma-buf.h>
#include <linux/videodev2.h>

#include <dlbuf/interop/v4l2.h>

#include "../cts/cts.h"

#define VIVID_MAX 8u

struct vivid {
	int fd;
	struct v4l2_format fmt;
	double fps;		/* that it promises */
	uint32_t n;		/* buffers */
	int fds[VIVID_MAX];
	uint8_t *map[VIVID_MAX];
	size_t bytes;		/* of one */
	unsigned int queued;	/* atomic; successful VIDIOC_QBUFs */
};

static inline int vivid_node(void)
{
	for (int i = 0; i < 16; i++) {
		struct v4l2_capability cap = { 0 };
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/video%d", i);
		fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, VIDIOC_QUERYCAP, &cap) &&
		    !strcmp((char *)cap.driver, "vivid") &&
		    cap.device_caps & V4L2_CAP_VIDEO_CAPTURE &&
		    cap.device_caps & V4L2_CAP_STREAMING)
			return fd;
		close(fd);
	}
	SKIP("there is no vivid camera");
}

static inline void vivid_ioctl(struct vivid *v, unsigned long request,
			       void *arg, const char *name)
{
	if (ioctl(v->fd, request, arg) < 0)
		FATAL("%s: %s", name, strerror(errno));
}
#define VIVID_IOCTL(v, request, arg) vivid_ioctl(v, request, arg, #request)

static inline void vivid_export(struct vivid *v, uint32_t i)
{
	struct v4l2_exportbuffer exp = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.index = i,
		.flags = O_RDWR | O_CLOEXEC,
	};
	void *map;

	VIVID_IOCTL(v, VIDIOC_EXPBUF, &exp);
	v->fds[i] = exp.fd;
	map = mmap(NULL, v->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, exp.fd,
		   0);
	if (map == MAP_FAILED)
		FATAL("mmap of buffer %u: %s", i, strerror(errno));
	v->map[i] = map;
}

static inline int vivid_queue(struct vivid *v, uint32_t index)
{
	struct v4l2_buffer buf = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_MMAP,
		.index = index,
	};

	if (ioctl(v->fd, VIDIOC_QBUF, &buf) < 0)
		return -errno;
	__atomic_add_fetch(&v->queued, 1, __ATOMIC_RELAXED);
	return 0;
}

/* At this rate, or the next one that it has; starts. */
static inline void vivid_open(struct vivid *v, uint32_t width, uint32_t height,
			      uint32_t fps, uint32_t n)
{
	struct v4l2_requestbuffers req = {
		.count = n,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_MMAP,
	};
	struct v4l2_streamparm parm = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	*v = (struct vivid){ .fd = vivid_node() };
	v->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	v->fmt.fmt.pix.width = width;
	v->fmt.fmt.pix.height = height;
	v->fmt.fmt.pix.pixelformat = V4L2_PIX_FMT_NV12;
	VIVID_IOCTL(v, VIDIOC_S_FMT, &v->fmt);
	if (v->fmt.fmt.pix.pixelformat != V4L2_PIX_FMT_NV12)
		FATAL("vivid has no NV12");
	parm.parm.capture.timeperframe = (struct v4l2_fract){ 1, fps };
	VIVID_IOCTL(v, VIDIOC_S_PARM, &parm);
	v->fps = (double)parm.parm.capture.timeperframe.denominator /
		 parm.parm.capture.timeperframe.numerator;
	v->bytes = v->fmt.fmt.pix.sizeimage;
	VIVID_IOCTL(v, VIDIOC_REQBUFS, &req);
	if (req.count != n || n > VIVID_MAX)
		FATAL("vivid gave %u buffers of %u", req.count, n);
	v->n = n;
	for (uint32_t i = 0; i < n; i++) {
		vivid_export(v, i);
		CHECK_EQ(vivid_queue(v, i), 0);
	}
	VIVID_IOCTL(v, VIDIOC_STREAMON, &type);
}

/* False: no frame for so long that no buffer will be returned any more. */
static inline bool vivid_dequeue(struct vivid *v, struct v4l2_buffer *buf)
{
	struct pollfd p = { .fd = v->fd, .events = POLLIN };

	do {
		if (poll(&p, 1, 300000) <= 0)
			return false;
		*buf = (struct v4l2_buffer){
			.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
			.memory = V4L2_MEMORY_MMAP,
		};
		if (!ioctl(v->fd, VIDIOC_DQBUF, buf))
			return true;
	} while (errno == EAGAIN);
	FATAL("VIDIOC_DQBUF: %s", strerror(errno));
}

/* Buffer `index` as a frame, without a lease. */
static inline struct dlbuf_frame vivid_frame(const struct vivid *v,
					     uint32_t index)
{
	struct dlbuf_frame frame;

	CHECK_EQ(dlbuf_v4l2_frame(&v->fmt, NULL, &v->fds[index], &frame), 0);
	return frame;
}

/* The CPU's bracket around an access to map[index]. */
static inline void vivid_sync(struct vivid *v, uint32_t index, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	if (ioctl(v->fds[index], DMA_BUF_IOCTL_SYNC, &sync))
		CHECK_MSG(false, "DMA_BUF_IOCTL_SYNC: %s", strerror(errno));
}

/* The camera goes; its buffers stay for owners of their fds or mappings. */
static inline void vivid_stop(struct vivid *v)
{
	struct v4l2_requestbuffers none = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_MMAP,
	};
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	VIVID_IOCTL(v, VIDIOC_STREAMOFF, &type);
	VIVID_IOCTL(v, VIDIOC_REQBUFS, &none);
	close(v->fd);
	v->fd = -1;
}

static inline void vivid_close(struct vivid *v)
{
	if (v->fd >= 0)
		vivid_stop(v);
	for (uint32_t i = 0; i < v->n; i++) {
		munmap(v->map[i], v->bytes);
		close(v->fds[i]);
	}
	v->n = 0;
}

#endif /* TESTS_LAB_VIVID_H */
