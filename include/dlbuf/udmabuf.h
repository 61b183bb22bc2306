/* SPDX-License-Identifier: MIT */
/*
 * udmabuf: makes a dma-buf of the pages of a memfd. Devices that import dma-bufs
 * use the dma-buf. Devices that only register host memory use the mapping of the
 * memfd, which can be pinned. The mapping of the dma-buf cannot be pinned: CUDA,
 * HIP, io_uring and O_DIRECT refuse it. Both mappings show the same pages, so
 * dlbuf keeps the memfd beside the dma-buf. To allocate a dma-buf without its memfd,
 * use dlbuf_alloc_fd() with the exporter "udmabuf".
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
	const char *name;	/* name of memfd and dma-buf, 31 bytes; NULL: "dlbuf" */
	uint32_t flags;		/* DLBUF_UDMABUF_* */
	uint32_t reserved;	/* 0 */
};

/*
 * Uses 2 MiB pages of the kernel's pool (vm.nr_hugepages). Do not set it for a
 * driver that writes through the kernel's own mapping: on Linux 6.12 vivid
 * captured only the first 4 KiB of such a buffer.
 */
#define DLBUF_UDMABUF_2M 1u

struct dlbuf_udmabuf {
	int fd;			/* the dma-buf, O_RDWR */
	/*
	 * The memfd, sealed against shrinking and growing. While it is open,
	 * devices that only register host memory can import the dma-buf.
	 */
	int memfd;
	uint64_t bytes;		/* size of the dma-buf and of the memfd, whole pages */
};

/*
 * Makes a zero-filled udmabuf of at least `bytes` bytes. Both fds in *out are new
 * and close-on-exec. They are independent: you may close either one first.
 * -EINVAL  bytes is 0, bad opts
 * -ENODEV  no /dev/udmabuf
 * -EACCES  no permission to open /dev/udmabuf
 * -EOPNOTSUPP  the kernel refuses the size (module parameter size_limit_mb)
 * -ENOMEM  also: not enough 2 MiB pages in the pool (vm.nr_hugepages)
 * -EIO     the kernel failed; the error text has the call and the code
 */
DLBUF_API int dlbuf_udmabuf_create(uint64_t bytes,
				   const struct dlbuf_udmabuf_opts *opts,
				   struct dlbuf_udmabuf *out);

/* Closes both fds (taken) and sets them to -1. NULL does nothing. */
DLBUF_API void dlbuf_udmabuf_close(struct dlbuf_udmabuf *buf);

/*
 * Registers memfd, from its start to its end, as the memory of a udmabuf that
 * another program made. Devices that only register host memory (CUDA) can then
 * import the udmabuf while this memfd is open. dlbuf_udmabuf_create() registers
 * its memfd itself.
 *
 * Both fds are borrowed and not duplicated: when memfd is closed, dlbuf drops
 * the registration. dlbuf cannot check that memfd is the right one: with a
 * wrong memfd a device sees wrong bytes.
 * -EBADF   fd is not a dma-buf, memfd is not a memfd
 * -EINVAL  the sizes differ
 */
DLBUF_API int dlbuf_udmabuf_remember(int fd, int memfd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_UDMABUF_H */
