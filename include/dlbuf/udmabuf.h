/* SPDX-License-Identifier: MIT */
/*
 * udmabuf: ordinary memfd pages, seen as a dma-buf by those who import fds
 * and as plain host memory by those who only register host memory. The
 * dma-buf's own mapping cannot be pinned (CUDA, HIP, io_uring and O_DIRECT
 * refuse it); the memfd's can, and shows the same pages. That is why the
 * memfd is kept beside it.
 *
 * Specification: linux/udmabuf.h, memfd_create(2).
 */
#ifndef DLBUF_UDMABUF_H
#define DLBUF_UDMABUF_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_udmabuf_opts {
	size_t size;
	const char *name;	/* of memfd and dma-buf, 31 bytes; NULL: "dlbuf" */
	uint32_t flags;		/* DLBUF_UDMABUF_* */
};

/*
 * 2 MiB pages, from the kernel's pool of them (vm.nr_hugepages). Not for a
 * driver that writes through the kernel's own mapping: with Linux 6.12 vivid,
 * capturing into such a buffer, changed its first 4 KiB only.
 */
#define DLBUF_UDMABUF_2M 1u

struct dlbuf_udmabuf {
	int fd;			/* the dma-buf, O_RDWR */
	/*
	 * Its pages; sealed against shrinking and growing. While it is open the
	 * dma-buf can be imported by devices that only register host memory.
	 */
	int memfd;
	uint64_t bytes;		/* of both, whole pages */
};

/*
 * Makes a zero-filled udmabuf of at least `bytes` bytes. Both fds in *out are
 * new, close-on-exec, and independent: either may be closed first.
 * -EINVAL  bytes is 0, bad opts
 * -ENODEV  no /dev/udmabuf
 * -EACCES  it may not be opened
 * -EOPNOTSUPP  the kernel refuses the size (module parameter size_limit_mb)
 * -ENOMEM  also: not enough 2 MiB pages in the pool (vm.nr_hugepages)
 * -EIO     the kernel failed; the sentence has the call and the code
 */
DLBUF_API int dlbuf_udmabuf_create(uint64_t bytes,
				   const struct dlbuf_udmabuf_opts *opts,
				   struct dlbuf_udmabuf *out);

/* Closes both fds (taken) and sets them to -1. NULL is nothing. */
DLBUF_API void dlbuf_udmabuf_close(struct dlbuf_udmabuf *buf);

/*
 * Says that a udmabuf which somebody else has made is a memfd from the begin to
 * the end, so that devices which only register host memory (CUDA) can import it
 * while this memfd stays open. dlbuf_udmabuf_create() has done so.
 *
 * Both are borrowed and not kept: once the number is closed nothing is known any
 * more. What is said is believed: with a wrong memfd a device sees the wrong
 * bytes.
 * -EBADF   fd is not a dma-buf, memfd is not a memfd
 * -EINVAL  the sizes differ
 */
DLBUF_API int dlbuf_udmabuf_remember(int fd, int memfd);

struct dlbuf_udmabuf_item {
	int memfd;		/* sealed F_SEAL_SHRINK, not F_SEAL_WRITE */
	uint32_t reserved;
	uint64_t offset;	/* bytes, a multiple of the page size */
	uint64_t bytes;		/* likewise */
};

/*
 * Makes one dma-buf of pieces of memfds, in the order given: a planar image
 * whose planes are allocated apart, a ring buffer seen twice. The memfds are
 * borrowed (the kernel keeps their pages). *fd is new, close-on-exec, O_RDWR.
 * -EINVAL  no item, or one that breaks the rules above; the sentence says
 *          which item and rule
 * -EBADF   an item's memfd is not open or not a memfd
 * and as for dlbuf_udmabuf_create().
 */
DLBUF_API int dlbuf_udmabuf_create_list(const struct dlbuf_udmabuf_item *items,
					size_t nitems,
					const struct dlbuf_udmabuf_opts *opts,
					int *fd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_UDMABUF_H */
