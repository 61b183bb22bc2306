/* SPDX-License-Identifier: MIT */
/* CPU mappings of dma-bufs, and accesses of the CPU to them. */
#ifndef DLBUF_LIB_HOST_H
#define DLBUF_LIB_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct access_stream;
struct import;

/*
 * Maps a whole dma-buf, for reading and imp->id.access. *map is new, for munmap().
 * -EOPNOTSUPP  the exporter has no mmap()
 * -ENOMEM
 */
int host_map(const struct import *imp, void **map);

/*
 * The same for a driver that pins pages, and for `access`. For a udmabuf it maps the
 * memfd, if that is known (memory.h), because the mapping of a udmabuf cannot be pinned.
 */
int host_map_pages(const struct import *imp, uint32_t access, void **map,
		   bool *by_memfd);

/* Touches each page of a mapping, for devices that cannot handle page faults. */
void host_prefault(const struct import *imp, void *map);

/*
 * Functions of struct backend, for devices whose tensors are the CPU's mapping. An acquire and a
 * release call DMA_BUF_IOCTL_SYNC, whose START also waits for the fences (waits_implicitly).
 */
int host_import(struct import *imp);
bool host_unimport(struct import *imp, bool wait);
int host_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		 int fence);
int host_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		 int *fence, int *end);

#endif /* DLBUF_LIB_HOST_H */
