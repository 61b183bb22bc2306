/* SPDX-License-Identifier: MIT */
/* A dma-buf as the kernel shows it: what an fd is, before anybody imports it. */
#ifndef DLBUF_BUFFER_H
#define DLBUF_BUFFER_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_buffer_info {
	size_t size;		/* of this struct, set by the caller */
	/*
	 * Which dma-buf it is. Two fds with the same pair are the same
	 * dma-buf. Two with different pairs may still share memory: each
	 * VIDIOC_EXPBUF of one V4L2 buffer makes a new dma-buf.
	 */
	uint64_t dev;
	uint64_t ino;
	uint64_t bytes;		/* size of the dma-buf, whole pages */
	uint32_t access;	/* dlbuf_access, by how the fd was opened */
	uint32_t reserved;
};

/*
 * Says what dma-buf an fd is.
 *
 * fd is borrowed. Does not block.
 * -EBADF   not open, or not a dma-buf; the sentence says what it is instead
 * -EINVAL  info is NULL or its size is not set
 */
DLBUF_API int dlbuf_buffer_query(int fd, struct dlbuf_buffer_info *info);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_BUFFER_H */
