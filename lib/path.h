/* SPDX-License-Identifier: MIT */
/* How a dma-buf gets to a device (path.c), and the pages behind it (host.c). */
#ifndef DLBUF_LIB_PATH_H
#define DLBUF_LIB_PATH_H

#include <stdbool.h>

struct import;

/*
 * Has the backend import by the first of imp->paths that serves; imp->path is
 * that one. Otherwise the sentence has every path's reason. -EOPNOTSUPP, or what
 * the machine lacks now: -ENOMEM, -EMFILE, -ENFILE; -ENODEV: the device is gone.
 * A backend of a single path says it in its own words.
 */
int path_import(struct import *imp);

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

#endif /* DLBUF_LIB_PATH_H */
