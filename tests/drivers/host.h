/* SPDX-License-Identifier: MIT */
/*
 * Replacements for devices that only the lab has: /dev/udmabuf and dma-heaps make memfds
 * that identify themselves as dma-bufs; pipes are sync_files. No fence is pending.
 */
#ifndef DRIVERS_HOST_H
#define DRIVERS_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* An fd, new, for a node of an exporter; or -1. */
int host_open(const char *path, int flags);

/* An ioctl of an exporter or a dma-buf, if *ours. */
int host_ioctl(int fd, unsigned long request, void *arg, bool *ours);
bool host_is_dma_buf(int fd);
/* A new one of the stub's own. */
int host_dma_buf(const char *name, uint64_t bytes);
/* A new one, of work that has ended; or -1. */
int host_sync_file(void);
bool host_is_sync_file(int fd);

/* 0 or a negative errno. */
int host_syncobj(unsigned long request, void *arg);

#endif /* DRIVERS_HOST_H */
