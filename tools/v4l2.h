/* SPDX-License-Identifier: MIT */
/*
 * A camera: a V4L2 capture node, single- or multi-planar, whose buffers are
 * dma-bufs: the driver's own, exported once each, or ours that it captures
 * into. Functions return 0 or an exit status and have said why (tool.h).
 */
#ifndef DMABUF_TEST_V4L2_H
#define DMABUF_TEST_V4L2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/videodev2.h>

#include <dlbuf/frame.h>

struct camera_plane {
	int fd;			/* the dma-buf */
	void *map;		/* of the V4L2 buffer, not through dlbuf */
	size_t bytes;		/* of map */
	uint32_t data_offset;	/* of the frame in it now */
	uint32_t bytesused;	/* where it ends */
};

struct camera {
	int fd;
	const char *node;	/* borrowed */
	char driver[16], card[32], bus[32];
	uint32_t type;		/* V4L2_BUF_TYPE_VIDEO_CAPTURE or _MPLANE */
	uint32_t memory;	/* V4L2_MEMORY_MMAP or _DMABUF */
	bool streaming;

	struct v4l2_format fmt;
	uint32_t code, width, height;
	uint32_t colorspace, ycbcr_enc, quantization;
	uint32_t nplanes;	/* dma-bufs per buffer */
	uint32_t pitch[DLBUF_MAX_PLANES], size[DLBUF_MAX_PLANES];
	uint32_t data_offset[DLBUF_MAX_PLANES];	/* of the last frame */
	double rate;		/* frames a second, as set; 0: not known */

	uint32_t nbuffers;
	struct camera_plane buffers[VIDEO_MAX_FRAME][DLBUF_MAX_PLANES];
	/* As VIDIOC_DQBUF gave them; type 0: not yet. */
	struct v4l2_buffer taken[VIDEO_MAX_FRAME];
	struct v4l2_plane taken_planes[VIDEO_MAX_FRAME][DLBUF_MAX_PLANES];

	uint64_t queued;	/* successful VIDIOC_QBUFs */
	uint64_t dequeued;
	uint64_t dropped;	/* by gaps of the sequence numbers */
	uint64_t flagged;	/* V4L2_BUF_FLAG_ERROR */
	uint32_t sequence;	/* of the last frame */
};

/* node is borrowed until camera_close(). */
int camera_open(struct camera *cam, const char *node);

/* The codes that it captures in; returns how many, at most max. */
uint32_t camera_formats(const struct camera *cam, uint32_t codes[],
			uint32_t max);

/* The driver may change the size: cam->width and height are what it made. */
int camera_set_format(struct camera *cam, uint32_t code, uint32_t width,
		      uint32_t height);

/*
 * Asks for this many frames a second; 0 leaves the rate alone. cam->rate is
 * then what the driver made of it. After the format, on which it depends.
 */
int camera_set_rate(struct camera *cam, double rate);

/*
 * The driver's buffers, exported; or with an exporter's name buffers of its
 * making, see dlbuf_alloc_opts. The driver may change the number.
 */
int camera_alloc(struct camera *cam, uint32_t nbuffers, const char *exporter);

/* Queues every buffer and starts. */
int camera_start(struct camera *cam);

/* Waits for a frame until timeout_ms have passed without one. */
int camera_dequeue(struct camera *cam, int timeout_ms, uint32_t *index);
int camera_queue(struct camera *cam, uint32_t index);

/*
 * For reading buffers[index][].map. The kernel keeps the driver's own buffers
 * coherent between dequeue and queue; ours need the bracket.
 */
int camera_map_begin(struct camera *cam, uint32_t index);
int camera_map_end(struct camera *cam, uint32_t index);

/* A buffer as a frame without a lease; its fds are borrowed. */
int camera_frame(const struct camera *cam, uint32_t index,
		 struct dlbuf_frame *frame);

/*
 * Stops and gives everything back; says nothing. What the camera is and what
 * was counted stays readable.
 */
void camera_close(struct camera *cam);

#endif /* DMABUF_TEST_V4L2_H */
