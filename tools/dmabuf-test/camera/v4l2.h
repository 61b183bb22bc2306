/* SPDX-License-Identifier: MIT */
/*
 * A camera of dlbuf/camera.h, and the same buffers by V4L2 itself: the reference
 * that tensors are compared with, which does not use dlbuf.
 */
#ifndef DMABUF_TEST_V4L2_H
#define DMABUF_TEST_V4L2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/videodev2.h>

#include <dlbuf/camera.h>

struct camera_plane {
	int fd;			/* the dma-buf, peeked */
	void *map;		/* the reference */
	size_t bytes;		/* of map */
	uint32_t data_offset;	/* of the frame in it now */
	uint32_t bytesused;	/* where it ends */
};

struct camera {
	struct dlbuf_camera *cam;	/* NULL: closed */
	struct dlbuf_camera_info info;
	const char *node;		/* borrowed */
	bool imports;			/* buffers of an exporter */

	struct v4l2_format fmt;
	uint32_t colorspace, ycbcr_enc, quantization;
	uint32_t nplanes;	/* dma-bufs per buffer */
	uint32_t pitch[DLBUF_MAX_PLANES], size[DLBUF_MAX_PLANES];
	uint32_t data_offset[DLBUF_MAX_PLANES];	/* of the last frame */
	struct camera_plane buffers[VIDEO_MAX_FRAME][DLBUF_MAX_PLANES];

	uint64_t dequeued;
	uint64_t dropped;	/* by gaps of the sequence numbers */
	uint64_t flagged;	/* V4L2_BUF_FLAG_ERROR */
	uint64_t sequence;	/* of the last frame */
};

/*
 * Whether the camera can export a buffer. No frame is taken. Buffers and the stream of an
 * open camera are left as they are.
 */
bool camera_exports(const char *node);

/*
 * Opens the camera; its names can be printed. Without DLBUF_CAMERA_PROBE it also
 * maps the buffers. node is borrowed until camera_close(); on failure nothing is
 * left open.
 */
int camera_open(struct camera *cam, const char *node,
		const struct dlbuf_camera_opts *opts);

/*
 * Unmaps and closes. The camera's description and the counts stay readable.
 */
void camera_close(struct camera *cam);

/* Lists the codes that it captures in; returns their number, at most max. */
uint32_t camera_formats(const struct camera *cam, uint32_t codes[],
			uint32_t max);

/* Calls fn for each /dev/videoN, in order; returns their number. */
int camera_nodes(void (*fn)(const char *node, void *data), void *data);

/* Whether the node has the multi-planar API. */
bool camera_is_multi(const struct camera *cam);

/* Waits for a frame, of buffer *index, until timeout_ms have passed. */
int camera_wait(struct camera *cam, int timeout_ms, struct dlbuf_frame *frame,
		uint32_t *index);

/*
 * For an access to buffers[index][].map; flags: DMA_BUF_SYNC_... The kernel keeps
 * the driver's own buffers coherent between dequeue and queue; those of an
 * exporter need the bracket.
 */
int camera_map_sync(struct camera *cam, uint32_t index, uint64_t flags);

#endif /* DMABUF_TEST_V4L2_H */
