/* SPDX-License-Identifier: MIT */
/* Shared by the files of the Hexagon backend. */
#ifndef DLBUF_HEXAGON_BACKEND_H
#define DLBUF_HEXAGON_BACKEND_H

#include <dlbuf/hexagon.h>

#include "../../import/backend.h"
#include "api.h"

struct hexagon_device {
	struct dlbuf_device base;
	struct hexagon_api api;
	/* A duplicate of the application's fastrpc fd; -1: the library is used. */
	int node;
};

/* The way in which the DSP knows the buffer, besides its registration. */
enum hexagon_map {
	HEXAGON_UNMAPPED,	/* remote calls map it, by its registration */
	HEXAGON_BY_FD,		/* fastrpc_mmap() */
	HEXAGON_BY_KERNEL,	/* FASTRPC_IOCTL_MEM_MAP */
};

/*
 * The tuple (base.data, size, fd) is exactly that of the registration and of the map.
 * FastRPC aborts the process if a registration ends with another size.
 */
struct hexagon_import {
	struct import base;
	size_t size;
	int fd;			/* base.fd, or another fd of the same dma-buf */
	bool registered;
	enum hexagon_map map;
	uint64_t dsp;		/* address of the first byte on the DSP; 0: unknown */
};

static inline struct hexagon_device *hexagon_device_of(struct dlbuf_device *dev)
{
	return container_of(dev, struct hexagon_device, base);
}

static inline struct hexagon_import *hexagon_import_of(struct import *imp)
{
	return container_of(imp, struct hexagon_import, base);
}

BACKEND_DECLARE(hexagon);

/* A device without api and node. The name ends with `of`. */
struct hexagon_device *hexagon_device_new(const char *of, int domain);

/* import.c */
int hexagon_import(struct import *imp);
bool hexagon_unimport(struct import *imp, bool wait);

/* kernel.c: all ioctls */
int hexagon_kernel_map(struct hexagon_import *hi);
int hexagon_kernel_unmap(struct hexagon_import *hi);
/* START and END of DMA_BUF_IOCTL_SYNC, for that access. */
int hexagon_bracket(const struct import *imp, uint32_t access);

#endif /* DLBUF_HEXAGON_BACKEND_H */
