/* SPDX-License-Identifier: MIT */
/*
 * Pools: dma-bufs of one size and format, for a camera or a decoder that captures
 * into the application's buffers (V4L2_MEMORY_DMABUF, libcamera, GStreamer). Each
 * device imports all buffers beforehand, so the first frame is as cheap as the
 * others.
 *
 *	int video = open("/dev/video0", O_RDWR | O_CLOEXEC);
 *	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = 640, .height = 360,
 *		   .code = V4L2_PIX_FMT_NV12, .code_space = DLBUF_CODE_V4L2, .buffers = 4,
 *		   .v4l2 = &video, .nv4l2 = 1);	// gets the format, and imports
 *	struct v4l2_requestbuffers req = { .count = 4, .memory = V4L2_MEMORY_DMABUF,
 *					   .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
 *	struct dlbuf_pool *pool;
 *
 *	if (dlbuf_pool_create(&dev, 1, &opts, &pool))
 *		errx(1, "%s", dlbuf_last_error());
 *	ioctl(video, VIDIOC_REQBUFS, &req);
 *	for (uint32_t i = 0; i < req.count; i++) {
 *		struct v4l2_buffer buf = { .index = i, .memory = V4L2_MEMORY_DMABUF,
 *					   .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
 *		DLBUF_INFO(dlbuf_frame, frame);
 *
 *		dlbuf_pool_frame(pool, i, &frame);
 *		buf.m.fd = frame.planes[0].fd;
 *		ioctl(video, VIDIOC_QBUF, &buf);
 *	}
 */
#ifndef DLBUF_POOL_H
#define DLBUF_POOL_H

#include <dlbuf/alloc.h>
#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_pool;

#define DLBUF_POOL_MAX_BUFFERS 1024

struct dlbuf_pool_opts {
	size_t size;
	const char *exporter;	/* as in dlbuf_alloc_opts */
	const char *name;	/* for the kernel's lists, 31 bytes; NULL: none */
	uint32_t width, height;	/* pixels */
	uint32_t code;
	enum dlbuf_code_space code_space;
	uint32_t buffers;	/* 1 to DLBUF_POOL_MAX_BUFFERS */
	uint32_t flags;		/* DLBUF_POOL_... */
	/*
	 * Alignment in bytes, powers of two, of every row and every plane. 0 means
	 * what the devices prefer (dlbuf_device_info), or 64 without devices. With
	 * a code of V4L2 or libcamera, planes in one dma-buf always follow one
	 * another without a gap, because these APIs cannot describe a gap.
	 */
	uint32_t pitch_align, offset_align;
	/*
	 * Set these if the producer has fixed them: the bytes of a row of the
	 * first plane (V4L2's bytesperline), and the least size of a buffer
	 * (sizeimage). 0: not fixed. Formats without rows of whole bytes need
	 * them.
	 */
	uint64_t pitch, bytes;
	/*
	 * V4L2 nodes that capture into the buffers or output them, as in
	 * dlbuf_alloc_opts. The code must then be a code of V4L2. The library asks
	 * every node for the frames (VIDIOC_TRY_FMT). If a node wants another
	 * pitch than the devices prefer, the node's pitch is used. The buffers are
	 * as large as the node with the largest sizeimage needs.
	 * dlbuf_pool_create() sets the format (VIDIOC_S_FMT), which the node
	 * keeps, and tries every buffer.
	 */
	size_t nv4l2;
	const int *v4l2;
	dlbuf_alloc_fn report;	/* as in dlbuf_alloc_opts; after the first buffer only failures */
	void *report_data;
};

#define DLBUF_POOL_PLANE_FDS 1u	/* a dma-buf per plane: V4L2's NV12M */

struct dlbuf_pool_info {
	size_t size;		/* of this struct, set by the caller */
	uint32_t buffers;
	uint32_t nplanes;	/* of the format */
	uint32_t nfds;		/* dma-bufs per buffer: 1 or nplanes */
	uint32_t reserved;
	uint64_t pitch[DLBUF_MAX_PLANES];	/* bytes */
	uint64_t offset[DLBUF_MAX_PLANES];	/* bytes, in its dma-buf */
	uint64_t bytes[DLBUF_MAX_PLANES];	/* of each dma-buf, as requested */
	char exporter[64];	/* exporter of the buffers; "": there are no buffers yet */
};

/*
 * Computes the layout that dlbuf_pool_create() would use with the same arguments,
 * so that you can ask a producer for this layout before there are buffers.
 * If the producer then changes the pitch or the size, set pitch and bytes of opts to
 * its values.
 *
 * Fills in *info; set its size before: DLBUF_INFO(dlbuf_pool_info, info). devs and
 * opts are borrowed. exporter is ignored. Does not allocate, call a driver or
 * block, except that it asks V4L2 nodes (VIDIOC_TRY_FMT), also while they stream.
 * This does not change the nodes.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW as for dlbuf_pool_create(), except an exporter
 * that does not exist
 * -EBADF, -ENOTTY  as for dlbuf_alloc()
 */
DLBUF_API int dlbuf_pool_layout(struct dlbuf_device *const devs[], size_t ndevs,
				const struct dlbuf_pool_opts *opts,
				struct dlbuf_pool_info *info);

/*
 * Allocates the buffers and imports each one on all devices, which keep the
 * imports until the pool is destroyed. With ndevs 0 it only allocates. One exporter
 * makes all buffers, see dlbuf_alloc_opts: if a party refuses a later buffer, another
 * exporter makes all of them again.
 *
 * devs and opts are borrowed, *pool is new. May block while the kernel allocates
 * memory.
 * -EINVAL      no such format or exporter, no size, an alignment that is not a
 *              power of two, a pitch or bytes less than a frame needs, too few
 *              or too many buffers
 * -EOPNOTSUPP  the format has no rows, and opts has no pitch or bytes; or a V4L2
 *              node does not take such frames, or two want different pitches
 * -EBUSY       a V4L2 node has buffers
 * -EOVERFLOW   the frame's bytes do not fit 64 bits
 * and the errors of dlbuf_alloc().
 */
DLBUF_API int dlbuf_pool_create(struct dlbuf_device *const devs[], size_t ndevs,
				const struct dlbuf_pool_opts *opts,
				struct dlbuf_pool **pool);

/*
 * Destroys the pool (taken; NULL does nothing) and closes its fds. Tensors of its
 * buffers stay valid and keep the memory alive. The caches of all devices drop imports
 * without a tensor, as dlbuf_device_forget() does. May block while drivers unmap.
 */
DLBUF_API void dlbuf_pool_destroy(struct dlbuf_pool *pool);

/* Describes the layout of the buffers. -EINVAL: NULL, or size not set. */
DLBUF_API int dlbuf_pool_get_info(struct dlbuf_pool *pool,
				  struct dlbuf_pool_info *info);

/*
 * Describes a buffer as a linear frame: its format, size and planes. The fds are
 * peeked and valid while the pool lives: duplicate an fd that must live longer.
 * Set the frame's metadata and the lease afterwards.
 *
 * Fills in *frame; set its size before: DLBUF_INFO(dlbuf_frame, f). Pure; may be
 * called from any thread.
 * -EINVAL  NULL, size not set, or no buffer of that index
 */
DLBUF_API int dlbuf_pool_frame(struct dlbuf_pool *pool, uint32_t index,
			       struct dlbuf_frame *frame);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_POOL_H */
