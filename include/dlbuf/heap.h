/* SPDX-License-Identifier: MIT */
/*
 * dma-heaps: the kernel's own allocator of dma-bufs, one node per heap under
 * /dev/dma_heap. Which heap suits which device is policy; none lists its
 * constraints.
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
	const char *name;	/* of the dma-buf, 31 bytes; NULL: none */
	uint32_t access;	/* DLBUF_READ or DLBUF_RW (0) of the new fd */
	uint32_t flags;		/* none yet */
};

/*
 * Allocates a zero-filled dma-buf of at least `bytes` bytes from a heap,
 * "system" or any other name in /dev/dma_heap. *fd is new and close-on-exec.
 * -EINVAL  bytes is 0, a name with a slash, bad opts
 * -ENODEV  no such heap
 * -EACCES  it may not be opened
 * -ENOMEM, -EIO  the kernel refused; the sentence has the call and the code
 */
DLBUF_API int dlbuf_heap_alloc(const char *heap, uint64_t bytes,
			       const struct dlbuf_heap_opts *opts, int *fd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_HEAP_H */
