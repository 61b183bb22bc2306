/* SPDX-License-Identifier: MIT */
/* An import: a whole dma-buf, imported by one device. */
#ifndef DLBUF_LIB_IMPORT_H
#define DLBUF_LIB_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/tensor.h>

#include "../dmabuf/buffer.h"

struct dlbuf_device;

/*
 * The cache keeps imports, and tensors share them. A backend embeds struct import as
 * the first member of its own struct, which has backend->import_size bytes.
 */
struct import {
	struct dlbuf_device *dev;
	struct buffer_id id;	/* id.access: the access that the import allows */
	int fd;			/* ours, a duplicate of the caller's */
	uint32_t fd_access;	/* the access that fd allows; id.access or more */
	uint32_t paths;		/* PATH_BIT()s that may be tried */
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
	/*
	 * How a release handles fences: like the device, unless the backend sets a lesser kind.
	 */
	enum dlbuf_sync release_sync;

	/* For waits_implicitly, atomic; see pending_may_wait(). */
	uint32_t unlooked;	/* acquires that need not look at the fences */
	uint32_t quiet;		/* looks since one found a pending fence */
	uint32_t added;		/* fences_count() at the last look */

	/* Counts tensors and calls that use it. Atomic; to and from 0 under cache.lock. */
	unsigned int refs;
	/* Fields of the cache, under cache.lock. */
	bool listed;		/* in the table */
	bool gone;		/* being destroyed: only cache_find_all() finds it */
	bool staging;		/* made by the library for copies; found by its size */
	bool own;		/* memory that the device allocated; never idle */
	/* For a dying import. Only the thread that tries to free it uses these. */
	bool held;		/* set by unimport(): kept only for other holders of the dma-buf */
	uint64_t looked;	/* time of the last try */
	/*
	 * Atomic. If set, the import is destroyed with its last user. Set when the
	 * import is made or forgotten; cleared by a request without PATHS_BRIEF.
	 */
	bool brief;
	uint64_t used;		/* clock of the cache at the last use */
	int last_fd;		/* number of the caller's fd at the last import, or -1 */
	struct import *hash_next;
	struct import *lru_prev, *lru_next;	/* lru_next also for `gone` imports */
};

/* Whether a release of the import gives an eventfd and no sync_file. */
#define import_gives_event(imp) ((imp)->release_sync == DLBUF_SYNC_EVENT)

/* Sets of paths. */
#define PATH_BIT DLBUF_PATH_BIT
#define PATHS_SHARED \
	(PATH_BIT(DLBUF_PATH_DIRECT) | PATH_BIT(DLBUF_PATH_HOST))
/*
 * PATH_BIT(0), which is no path. An import that is made for such a request is destroyed
 * with its last user.
 */
#define PATHS_BRIEF 1u
#define PATHS_COPIED \
	(PATH_BIT(DLBUF_PATH_BRIDGE) | PATH_BIT(DLBUF_PATH_COPY))
/* The paths of a backend. */
#define PATHS_OF(backend) \
	((backend)->paths ? (backend)->paths : PATH_BIT(DLBUF_PATH_DIRECT))

/*
 * Identifies the buffer of fd, and decides the access of its import: `access`, or if
 * that is 0 all that fd allows. *fd_access becomes the access that fd allows.
 * -EBADF   not a dma-buf
 * -EACCES  fd does not allow this access
 */
int import_identify(int fd, uint32_t access, struct buffer_id *id,
		    uint32_t *fd_access);

/*
 * Makes an import with one user, outside the cache. fd is duplicated and must be the
 * buffer `id`. paths: PATH_BIT()s that may be tried, and PATHS_BRIEF. end: least bytes
 * of the buffer.
 * -EBADF   fd was replaced meanwhile
 * -ERANGE  the buffer is shorter
 * and the errors of backend->import()
 */
int import_create(struct dlbuf_device *dev, int fd, const struct buffer_id *id,
		  uint32_t fd_access, uint32_t paths, uint64_t end,
		  struct import **out);

/* Makes an import of device memory of at least `bytes` bytes. */
int import_alloc(struct dlbuf_device *dev, uint64_t bytes, struct import **out);

/* A zeroed struct with one user and without an fd. NULL: no memory. */
struct import *import_new(struct dlbuf_device *dev);

/* -ERANGE: tensors of the import may not use bytes up to `end`. */
int import_too_small(const struct import *imp, uint64_t end);
static inline int import_fits(const struct import *imp, uint64_t end)
{
	return end <= imp->bytes && imp->bytes - end >= imp->unusable ? 0 :
	       import_too_small(imp, end);
}

/*
 * Destroys an import that nobody uses, now or on "dlbuf-events" when its work is over.
 * Until then it holds a reference to its device. Calls the driver. If the library's thread
 * cannot be started, it waits for the work, but not for others that hold the dma-buf.
 */
void import_destroy(struct import *imp);

/*
 * Tries again to free imports that could not be freed. Without `all`, checks at most
 * MAX_LOOKS imports whose dma-buf others hold.
 */
void import_destroy_again(bool all);

/* In the child of a fork(). */
void import_forked(void);

#endif /* DLBUF_LIB_IMPORT_H */
