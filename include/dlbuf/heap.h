/* SPDX-License-Identifier: MIT */
/*
 * dma-heaps: the kernel's allocator of dma-bufs, with one node per heap in
 * /dev/dma_heap. No heap reports which devices can use its memory: the choice is
 * yours.
 *
 * Specification: linux/dma-heap.h, Documentation/userspace-api/dma-buf-heaps.rst.
 */
#ifndef DLBUF_HEAP_H
#define DLBUF_HEAP_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_heap_opts {
	size_t size;
	const char *name;	/* name of the dma-buf, 31 bytes; NULL: none */
	uint32_t access;	/* access of the fd: DLBUF_READ, DLBUF_RW (0) */
	uint32_t flags;		/* none yet */
};

/*
 * Allocates a zero-filled dma-buf of at least `bytes` bytes. heap is "system" or
 * another name in /dev/dma_heap. *fd is new and close-on-exec.
 * -EINVAL  bytes is 0, a name with a slash, bad opts
 * -ENODEV  no such heap
 * -EACCES  no permission to open the heap's node
 * -ENOMEM, -EIO  the kernel refused; the error text has the call and the code
 */
DLBUF_API int dlbuf_heap_alloc(const char *heap, uint64_t bytes,
			       const struct dlbuf_heap_opts *opts, int *fd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_HEAP_H */
