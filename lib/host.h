/* SPDX-License-Identifier: MIT */
/* The pages behind a dma-buf, as the CPU sees them. */
#ifndef DLBUF_LIB_HOST_H
#define DLBUF_LIB_HOST_H

#include <stdbool.h>

struct import;

/*
 * Maps all of a dma-buf, for imp->id.access and reading. *map is new, for
 * munmap(). -EOPNOTSUPP: the exporter maps nothing; -ENOMEM.
 */
int host_map(const struct import *imp, void **map);

/*
 * The same for a driver that pins pages: of a udmabuf it maps the memfd, where
 * that is known (memory.h), because the udmabuf's own mapping cannot be pinned.
 */
int host_map_pages(const struct import *imp, void **map, bool *by_memfd);

/* Touches each page of a mapping, for devices that do not fault pages in. */
void host_prefault(const struct import *imp, void *map);

#endif /* DLBUF_LIB_HOST_H */
