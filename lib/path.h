/* SPDX-License-Identifier: MIT */
/* Imports by paths (path.c), and CPU mappings of dma-bufs (host.c). */
#ifndef DLBUF_LIB_PATH_H
#define DLBUF_LIB_PATH_H

#include <stdbool.h>
#include <stdint.h>

struct import;

/*
 * Tries imp->paths in order, and sets (*out)->path to the first one by which the backend
 * imports. Takes imp: each further path is tried with a struct of its own. If none works,
 * the error text has the reason of each path.
 * -EOPNOTSUPP  no path works
 * -ENOMEM, -EMFILE, -ENFILE
 * -ENODEV      the device is lost
 * With a single path the error is the backend's.
 */
int path_import(struct import *imp, struct import **out);

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

#endif /* DLBUF_LIB_PATH_H */
