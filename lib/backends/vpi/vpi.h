/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_VPI_BACKEND_H
#define DLBUF_VPI_BACKEND_H

#include <pthread.h>

#include <dlbuf/vpi.h>

#include "../../import/backend.h"
#include "../../system/internal.h"
#include "../../system/sys.h"

/*
 * A tensor that the simulator has. One byte waits in the simulator's end of a socket. The
 * simulator reads it when the test bench is done with the tensor. If the simulator's end is
 * closed before the byte was read, the kernel reports ECONNRESET at this end (POLLERR): the
 * simulation ended in the middle.
 *
 * fd is a socket, and the simulator holds its other end. fd is readable when all copies
 * of that end are closed: the simulator has closed its copy or has ended, and the
 * previous pass of the same import, which holds a copy, is over. So a pass is over only
 * after all earlier passes, and one fd is enough for all of them. A pass is a user of the
 * import.
 */
struct vpi_pass {
	struct vpi_import *imp;
	struct vpi_pass *before;	/* of the same import */
	uint32_t access;
	bool noted;			/* the failure was noted; under dev->lock */
	int fd;
	int next_end;			/* the end of the pass after this, owned, or -1 */
};

struct vpi_import {
	struct import base;
	struct vpi_pass *last;		/* the last pass that is not over; under dev->lock */
};

/* The head before the tensor's message, in the same packet: see docs/wire.md. */
struct vpi_head {
	uint32_t magic;		/* VPI_MAGIC */
	uint16_t version;
	uint16_t access;
	char name[DLBUF_VPI_MAX_NAME];
};

#define VPI_MAGIC 0x49505644u	/* "DVPI" on little-endian machines */
#define VPI_VERSION 2

struct vpi_device {
	struct dlbuf_device base;
	pthread_mutex_t lock;		/* protects lists of passes */
	bool shut;			/* atomic: the application has closed the device */
	pthread_mutex_t sending;	/* protects what follows; held by a sender that waits */
	/* These change under both locks; they are owned (socket.h). */
	int listener;			/* where simulators attach, or -1 */
	int sock;			/* the simulator's, or -1 */
};

BACKEND_DECLARE(vpi);

static inline struct vpi_device *vpi_device_of(struct dlbuf_device *dev)
{
	return container_of(dev, struct vpi_device, base);
}

static inline struct vpi_import *vpi_import_of(struct import *imp)
{
	return container_of(imp, struct vpi_import, base);
}

/*
 * Begins a pass. *end is new and owned: the simulator's end. When all copies of it are closed the
 * pass is over.
 */
int vpi_pass_begin(struct vpi_import *imp, uint32_t access, int *end);

/* Reads the byte of an end: closing it is no failure then. */
void vpi_pass_complete(int end);

/* Closes the sockets. Called with dev->sending, or by the last user. */
void vpi_end(struct vpi_device *dev);

/* Makes a device. The fds, which are owned, are taken on success. */
int vpi_device_create(const char *name, int listener, int sock,
		      struct vpi_device **out);

/* The socket at which simulators attach to the device of that name. */
int vpi_listen(const char *name, int *listener);

#endif /* DLBUF_VPI_BACKEND_H */
