/* SPDX-License-Identifier: MIT */
/*
 * A camera: a V4L2 capture node, single- or multi-planar, whose buffers are
 * dma-bufs: the driver's own, exported once each, or others that it captures
 * into. For dmabuf-test and the Python package; it uses dlbuf's public API.
 *
 * Functions return 0 or a negative errno with a sentence in dlbuf_last_error().
 * The caller serialises them. Only camera_queue() may run on another thread
 * than camera_dequeue() at the same time.
 */
#ifndef V4L2_CAMERA_H
#define V4L2_CAMERA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/videodev2.h>

#include <dlbuf/frame.h>

struct camera_plane {
	int fd;			/* the dma-buf; -1: none */
	void *map;		/* of camera_map(), or NULL */
	size_t bytes;		/* of map */
	uint32_t data_offset;	/* of the frame in it now */
	uint32_t bytesused;	/* where it ends */
};

struct camera {
	int fd;			/* non-blocking; -1: closed */
	const char *node;	/* borrowed */
	bool absent;		/* a call failed: the machine lacks this */
	char driver[17], card[33], bus[33];
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

	uint64_t dequeued;
	uint64_t dropped;	/* by gaps of the sequence numbers */
	uint64_t flagged;	/* V4L2_BUF_FLAG_ERROR */
	uint32_t sequence;	/* of the last frame */
};

/* node is borrowed until camera_close(). On failure nothing is left open. */
int camera_open(struct camera *cam, const char *node);

/* The codes that it captures in; returns how many, at most max. */
uint32_t camera_formats(const struct camera *cam, uint32_t codes[],
			uint32_t max);

/* A code's letters: "NV12", "Y16-BE". */
struct camera_code {
	char s[8];
} camera_code(uint32_t code);

/*
 * A 0 leaves the code, width or height as it is. The driver may change the
 * size: cam->width and height are what it made.
 */
int camera_set_format(struct camera *cam, uint32_t code, uint32_t width,
		      uint32_t height);

/*
 * Asks for this many frames a second; 0 leaves the rate alone. cam->rate is
 * then what the driver made of it. After the format, on which it depends.
 */
int camera_set_rate(struct camera *cam, double rate);

/* Sets *crop to where in a buffer the picture is, if that is not all of it. */
void camera_crop(const struct camera *cam, struct v4l2_rect *crop);

/*
 * Buffers of this V4L2_MEMORY_*; the driver may change the number. Each is then
 * given its dma-bufs: by camera_export(), or for _DMABUF by the caller, who
 * sets buffers[index][].fd, taken, of cam->size[] bytes.
 */
int camera_request(struct camera *cam, uint32_t memory, uint32_t n);
int camera_export(struct camera *cam, uint32_t index);

/* Maps a buffer for reading, without dlbuf. */
int camera_map(struct camera *cam, uint32_t index);

/* Queues every buffer and starts. */
int camera_start(struct camera *cam);

/* Never blocks. -EAGAIN, without a sentence: poll() cam->fd for POLLIN. */
int camera_dequeue(struct camera *cam, uint32_t *index);
int camera_queue(struct camera *cam, uint32_t index);

/* A buffer as a frame without a lease; its fds are borrowed. */
int camera_frame(const struct camera *cam, uint32_t index,
		 struct dlbuf_frame *frame);

/* Closes and unmaps the dma-bufs of one buffer. */
void camera_forget(struct camera *cam, uint32_t index);

/* Stops, and gives the buffers back to the driver. */
void camera_stop(struct camera *cam);

/*
 * Gives everything back. What the camera is and what was counted stays
 * readable.
 */
void camera_close(struct camera *cam);

#endif /* V4L2_CAMERA_H */
