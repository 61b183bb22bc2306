/* SPDX-License-Identifier: MIT */
/*
 * Pools: new dma-bufs of one size and format, for a camera or a decoder that
 * captures into what it is given (V4L2_MEMORY_DMABUF, libcamera and GStreamer
 * likewise). Each buffer has been imported by every device that will use it,
 * so that the first frame is as cheap as the last.
 *
 *	const struct dlbuf_pool_opts opts = {
 *		.size = sizeof(opts), .width = 1920, .height = 1080,
 *		.code = V4L2_PIX_FMT_NV12, .code_space = DLBUF_CODE_V4L2,
 *		.buffers = 4,
 *	};
 *	dlbuf_pool_create(devs, 2, &opts, &pool);
 *	dlbuf_pool_get_info(pool, &info);
 *	... VIDIOC_S_FMT asking for info.pitch[0], VIDIOC_REQBUFS ...
 *	dlbuf_pool_frame(pool, i, &frame);
 *	buf.index = i; buf.m.fd = frame.planes[0].fd; ... VIDIOC_QBUF ...
 */
#ifndef DLBUF_POOL_H
#define DLBUF_POOL_H

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
	const char *exporter;	/* as in dlbuf_alloc_opts; NULL tries them */
	const char *name;	/* shown by the kernel, 31 bytes; NULL: none */
	uint32_t width, height;	/* pixels */
	uint32_t code;
	enum dlbuf_code_space code_space;
	uint32_t buffers;	/* 1 to DLBUF_POOL_MAX_BUFFERS */
	uint32_t flags;		/* DLBUF_POOL_... */
	/*
	 * Bytes, powers of two, at which every row and every plane begins; 0
	 * takes what the devices want (dlbuf_device_info), 64 without any. With
	 * a code of V4L2 or libcamera planes in one dma-buf follow one another
	 * without a gap whatever this says, since those have no way to say
	 * where they are.
	 */
	uint32_t pitch_align, offset_align;
	/*
	 * What the producer has decided already: bytes of a row of the first
	 * plane (V4L2's bytesperline), and of a buffer at least (sizeimage). 0:
	 * nothing. Formats without rows of whole bytes need them.
	 */
	uint64_t pitch, bytes;
};

#define DLBUF_POOL_PLANE_FDS 1u	/* a dma-buf per plane: V4L2's NV12M */

/*
 * Makes the buffers and imports them on each of the devices, which keep them
 * until the pool goes. ndevs may be 0, then nobody is asked.
 *
 * devs and opts are borrowed, *pool is new. May block while memory is found.
 * -EINVAL      no such format or exporter, no size, an alignment that is no
 *              power of two, a pitch or bytes less than a frame needs, too few
 *              or too many buffers
 * -EOPNOTSUPP  the format has no rows, and opts no pitch or bytes
 * -EOVERFLOW   the frame's bytes do not fit 64 bits
 * and what dlbuf_alloc() says.
 */
DLBUF_API int dlbuf_pool_create(struct dlbuf_device *const devs[], size_t ndevs,
				const struct dlbuf_pool_opts *opts,
				struct dlbuf_pool **pool);

/*
 * Gives the pool up (taken; NULL is nothing). Tensors over its buffers stay
 * valid and keep the memory; fds that it lent are closed.
 */
DLBUF_API void dlbuf_pool_destroy(struct dlbuf_pool *pool);

struct dlbuf_pool_info {
	size_t size;		/* of this struct, set by the caller */
	uint32_t buffers;
	uint32_t nplanes;	/* of the format */
	uint32_t nfds;		/* dma-bufs in a buffer, 1 or nplanes */
	uint32_t reserved;
	uint64_t pitch[DLBUF_MAX_PLANES];	/* bytes */
	uint64_t offset[DLBUF_MAX_PLANES];	/* bytes, in its dma-buf */
	uint64_t bytes[DLBUF_MAX_PLANES];	/* of each dma-buf, as asked for */
};

/* Says how the buffers are laid out. -EINVAL: NULL, or size not set. */
DLBUF_API int dlbuf_pool_get_info(struct dlbuf_pool *pool,
				  struct dlbuf_pool_info *info);

/*
 * Describes a buffer as a linear frame: its format, size and planes. The fds
 * are peeked, while the pool lives: duplicate what is to live longer. The
 * caller fills in what the producer says of this one frame, and the lease.
 *
 * *frame is written whole. Pure; from any thread.
 * -EINVAL  NULL, or no buffer of that index
 */
DLBUF_API int dlbuf_pool_frame(struct dlbuf_pool *pool, uint32_t index,
			       struct dlbuf_frame *frame);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_POOL_H */
