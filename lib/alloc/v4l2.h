/* SPDX-License-Identifier: MIT */
/*
 * V4L2 nodes: the ioctls that cameras (camera.c) and allocations for several parties
 * (alloc.c, pool.c) share.
 */
#ifndef DLBUF_LIB_V4L2_H
#define DLBUF_LIB_V4L2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h> /* for videodev2.h under -std=c11 */

#include <linux/videodev2.h>

#include <dlbuf/pool.h>

#define NODE_NAME 48

/* One queue of a node. The user of the struct owns fd and name. */
struct node {
	int fd;
	const char *name;	/* "/dev/video0", for error texts */
	struct v4l2_capability cap;
	struct v4l2_format fmt;	/* its type is the queue's */
	uint32_t memory;	/* V4L2_MEMORY_MMAP or _DMABUF */
	uint64_t frames;	/* captured so far, for an error text */
	char path[NODE_NAME];	/* the name in an array of nodes_open() */
};

/* The error of an ioctl that has set errno. */
int node_failed(const struct node *node, const char *call);

/*
 * Reads the capabilities and chooses the queue: the capture queue, or with `outputs`
 * the output queue if the node does not capture.
 * -EBADF       the fd is not open
 * -ENOTTY      the node is no V4L2 device
 * -EOPNOTSUPP  it has no such queue, or cannot share its buffers
 */
int node_query(struct node *node, bool outputs);

static inline bool node_is_multi(const struct node *node)
{
	return V4L2_TYPE_IS_MULTIPLANAR(node->fmt.type);
}

/* Bytes of a row in the format's memory plane i; below, of the whole plane. */
static inline uint32_t node_pitch(const struct node *node, uint32_t i)
{
	return node_is_multi(node) ?
	       node->fmt.fmt.pix_mp.plane_fmt[i].bytesperline :
	       node->fmt.fmt.pix.bytesperline;
}

static inline uint32_t node_size(const struct node *node, uint32_t i)
{
	return node_is_multi(node) ?
	       node->fmt.fmt.pix_mp.plane_fmt[i].sizeimage :
	       node->fmt.fmt.pix.sizeimage;
}

/* Dma-bufs per buffer: memory planes. */
static inline uint32_t node_nfds(const struct node *node)
{
	return node_is_multi(node) ? node->fmt.fmt.pix_mp.num_planes : 1;
}

/* The members that both APIs have, in different places. */
struct node_format {
	uint32_t code, width, height;
};

struct node_format node_format(const struct node *node);

/*
 * Calls VIDIOC_S_FMT or VIDIOC_TRY_FMT with this format. pitch has one value per dma-buf
 * in bytes, 0: the driver's. node->fmt is the answer; its pitches, size and code may
 * differ. code 0 keeps the node's code.
 * -EOPNOTSUPP  the node does not have the format; the error text lists the formats that it has
 */
int node_set_format(struct node *node, unsigned long request,
		    const struct node_format *format, uint32_t nfds,
		    const uint64_t *pitch);

/* Makes *n buffers, or the number that the driver sets. *n 0 frees all, and never fails. */
int node_request(struct node *node, uint32_t memory, uint32_t *n);
void node_free(const struct node *node);

/* *fd is new: memory plane i of a buffer of V4L2_MEMORY_MMAP. */
int node_export(const struct node *node, uint32_t index, uint32_t i, int *fd);

/* Makes a v4l2_buffer for `index`. planes has room for DLBUF_MAX_PLANES. */
struct v4l2_buffer node_buffer(const struct node *node, uint32_t index,
			       struct v4l2_plane *planes);

/* VIDIOC_QBUF. fds has one dma-buf per memory plane. Returns -1 with errno. */
int node_queue(const struct node *node, uint32_t index, const int fds[]);

/* ---- nodes of the application, as parties of an allocation */

/*
 * Makes an array of n nodes for the fds of a caller, borrowed, with their formats. free()
 * it. n 0 gives NULL.
 * -EINVAL, and the errors of node_query()
 */
int nodes_open(const int *fds, size_t n, struct node **nodes);

static inline const char *node_name(const struct node *node)
{
	return node->path;
}

/* -EBUSY: a node has buffers, so the library cannot try another one. */
int nodes_idle(const struct node *nodes, size_t n);

/* The largest number of bytes that a node's format needs in one dma-buf. */
uint64_t nodes_bytes(const struct node *nodes, size_t n);

/*
 * Queues a buffer of these dma-bufs in the node, which imports them, and frees the queue.
 * A node with more memory planes than dma-bufs gets the last one several times.
 */
int node_try(struct node *node, const int fds[], uint32_t n);

/* *fd is new: memory that the node's driver allocates, for memory plane i. */
int node_alloc(struct node *node, uint64_t bytes, uint32_t i, int *fd);

/*
 * Asks all nodes for the pool's frames with the pitches of info, by VIDIOC_TRY_FMT or
 * VIDIOC_S_FMT. *pitch becomes the first plane's pitch of the last node that answered
 * with another one; otherwise it is unchanged. Raises bytes[i] to what the nodes need of
 * dma-buf i.
 * -EOPNOTSUPP  a node does not take such frames
 */
int nodes_ask(struct node *nodes, size_t n, unsigned long request,
	      const struct dlbuf_pool_opts *o,
	      const struct dlbuf_pool_info *info, uint64_t *pitch,
	      uint64_t bytes[DLBUF_MAX_PLANES]);

#endif /* DLBUF_LIB_V4L2_H */
