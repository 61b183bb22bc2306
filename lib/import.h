/* SPDX-License-Identifier: MIT */
/* One dma-buf, imported whole by one device: made, undone. */
#ifndef DLBUF_LIB_IMPORT_H
#define DLBUF_LIB_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/tensor.h>

#include "buffer.h"

struct dlbuf_device;

/*
 * The cache keeps imports and tensors share them. A backend embeds struct import
 * as the first member of its own struct, of backend->import_size bytes.
 */
struct import {
	struct dlbuf_device *dev;
	struct buffer_id id;	/* id.access: what the import allows */
	int fd;			/* ours, a duplicate of the caller's */
	uint32_t fd_access;	/* how it was opened; id.access or more */
	uint32_t paths;		/* PATH_BIT()s: those that may be tried */
	uint64_t bytes;

	/* Filled in by backend->import(). */
	uint64_t unusable;	/* bytes at the end: see import_fits() */
	enum dlbuf_path path;
	/*
	 * Base of the buffer: an address to which offsets are added, or with
	 * `opaque` a handle, and offsets go into byte_offset.
	 */
	void *data;
	bool opaque;
	/* Kind of fence that a release gives: the device's, unless the backend sets less. */
	enum dlbuf_sync release_sync;

	/* Tensors and calls that use it: atomic, to and from 0 under cache.lock. */
	unsigned int refs;
	/* The cache's, under cache.lock. */
	bool staging;		/* of ours, for copies: found by its size */
	bool own;		/* memory that the device has allocated; never idle */
	/*
	 * Atomic: goes with its last user. Set when it is made or forgotten,
	 * cleared by the next request that keeps its import.
	 */
	bool brief;
	uint64_t used;		/* clock of the cache at the last use */
	int last_fd;		/* the caller's number at the last import, or -1 */
	struct import *hash_next;
	struct import *lru_prev, *lru_next;
};

/* Sets of paths. */
#define PATH_BIT DLBUF_PATH_BIT
#define PATHS_SHARED \
	(PATH_BIT(DLBUF_PATH_DIRECT) | PATH_BIT(DLBUF_PATH_HOST))
/*
 * PATH_BIT(0), which is no path: an import that is made for this request goes
 * with its last user.
 */
#define PATHS_BRIEF 1u
#define PATHS_COPIED \
	(PATH_BIT(DLBUF_PATH_BRIDGE) | PATH_BIT(DLBUF_PATH_COPY))
/* The paths of a backend. */
#define PATHS_OF(backend) \
	((backend)->paths ? (backend)->paths : PATH_BIT(DLBUF_PATH_DIRECT))

/*
 * Identifies fd and the access of its import. access: what it shall allow, 0
 * for all that fd does; *fd_access: how fd was opened.
 * -EBADF   not a dma-buf
 * -EACCES  fd was not opened for that
 */
int import_identify(int fd, uint32_t access, struct buffer_id *id,
		    uint32_t *fd_access);

/*
 * Makes an import with one user, which no cache knows. fd is duplicated and has
 * to be the buffer `id`; paths: PATH_BIT()s that may be tried, and PATHS_BRIEF; end: bytes that
 * the buffer has to have.
 * -EBADF   fd was replaced meanwhile
 * -ERANGE  the buffer is shorter
 * and what backend->import() says.
 */
int import_create(struct dlbuf_device *dev, int fd, const struct buffer_id *id,
		  uint32_t fd_access, uint32_t paths, uint64_t end,
		  struct import **out);

/* Makes an import of at least so many bytes that the device allocates. */
int import_alloc(struct dlbuf_device *dev, uint64_t bytes, struct import **out);

/* -ERANGE where bytes up to `end` are more than tensors of the import may use. */
int import_fits(const struct import *imp, uint64_t end);

/* Undoes either. Calls the driver. */
void import_destroy(struct import *imp);

#endif /* DLBUF_LIB_IMPORT_H */
