/* SPDX-License-Identifier: MIT */
/*
 * Identifies the dma-buf behind an fd, without importing it.
 *
 *	DLBUF_INFO(dlbuf_buffer_info, info);
 *
 *	if (dlbuf_buffer_query(fd, &info))
 *		errx(1, "%s", dlbuf_last_error());
 *	printf("inode %llu, %llu bytes\n", (unsigned long long)info.ino,
 *	       (unsigned long long)info.bytes);
 */
#ifndef DLBUF_BUFFER_H
#define DLBUF_BUFFER_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_buffer_info {
	size_t size;		/* of this struct, set by the caller */
	/*
	 * The identity of the dma-buf. Two fds with the same pair are the same
	 * dma-buf. Different pairs may still share memory: each VIDIOC_EXPBUF of
	 * one V4L2 buffer makes a new dma-buf.
	 */
	uint64_t dev;
	uint64_t ino;
	uint64_t bytes;		/* size of the dma-buf, whole pages */
	uint32_t access;	/* dlbuf_access for which the fd was opened */
	uint32_t reserved;
};

/*
 * Identifies the dma-buf behind an fd.
 *
 * fd is borrowed. Does not block.
 * -EBADF   fd is not open or not a dma-buf; the error text says what it is
 * -EINVAL  info is NULL or its size is not set
 */
DLBUF_API int dlbuf_buffer_query(int fd, struct dlbuf_buffer_info *info);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_BUFFER_H */
