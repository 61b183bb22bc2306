/* SPDX-License-Identifier: MIT */
/*
 * The import cache of one device: dma-bufs seen before, by identity.
 *
 * An import in use is in the table only; one without a user is in the list
 * of idle ones too, until it is used again, pushed out by the bound, or not
 * used by the last CACHE_STALE imports; a brief one, of dlbuf_recv() or
 * dlbuf_alloc(), goes with its last user. Its fd keeps the inode number from
 * being given to another buffer, so that equal identity is the same buffer.
 *
 * Buffers of the library's own that frames are copied into are imports too,
 * but nobody else has them: they are not in the table, and an idle one is for
 * the next copy that fits.
 *
 * Before the identity comes a guess: a number that meant one import twice in
 * a row probably does again, and one system call (F_DUPFD_QUERY, Linux 6.10)
 * tells for sure. Without it, or when it says no, two say who the buffer is.
 */
#ifndef DLBUF_CACHE_H
#define DLBUF_CACHE_H

#include <pthread.h>
#include <stdint.h>

#include "buffer.h"

struct dlbuf_device;
struct dlbuf_device_stats;
struct import;

#define CACHE_MAX_IDLE 256	/* default bound */
#define CACHE_STALE 1024	/* imports */
#define CACHE_MAX_STAGING 8	/* idle ones, of the bound */
#define CACHE_BUCKETS 64	/* to begin with */
#define CACHE_RECENT 512	/* fd numbers with a guess */

struct cache {
	pthread_mutex_t lock;
	struct import **buckets;
	size_t nbuckets;	/* power of two */
	struct import *first_buckets[CACHE_BUCKETS];
	struct import *recent[CACHE_RECENT];	/* by fd number */
	struct import *idle_first, *idle_last; /* last used first */
	uint32_t nidle, nimports, max_idle;
	uint32_t nstaging;	/* idle ones */
	uint64_t clock;		/* counts imports */
	uint64_t hits, tensors;	/* atomic */
	uint64_t misses, evictions;
	uint64_t copies, copied_bytes;	/* atomic */
	uint64_t live_bytes, idle_bytes;
};

void cache_init(struct cache *cache, uint32_t max_idle);
void cache_finish(struct cache *cache);

/*
 * The import of the dma-buf that fd is, found or made, with one more user. fd
 * is duplicated. access: what the import shall allow, 0 for all that fd does.
 * paths: PATH_BIT()s by which it may have been made, and PATHS_BRIEF. end: bytes
 * that the buffer has to have.
 * -EBADF   not a dma-buf
 * -EACCES  fd was not opened for that
 * -ERANGE  the buffer is shorter
 * and what backend->import() says.
 */
int cache_get(struct dlbuf_device *dev, int fd, uint32_t access, uint32_t paths,
	      uint64_t end, struct import **out);

/*
 * Makes an import that the cache does not keep, to see whether it can be made,
 * and undoes it.
 */
int cache_try(struct dlbuf_device *dev, int fd, uint32_t access, uint32_t paths);

/*
 * A new import of memory that the device allocates, of at least so many bytes,
 * with one user. It is found by its dma-buf while it is used, and not kept idle:
 * nobody else may have that memory imported.
 */
int cache_alloc(struct dlbuf_device *dev, uint64_t bytes, struct import **out);

/*
 * The imports of a buffer that are there, with one more user each; at most max.
 */
size_t cache_find_all(struct cache *cache, const struct buffer_id *id,
		      struct import *found[], size_t max);

/*
 * An idle staging buffer of at least so many bytes, and not twice as many, with
 * one user; NULL where there is none. What was read from it may still be under
 * way: whoever writes to it waits for its fences.
 */
struct import *cache_take_staging(struct cache *cache, uint64_t bytes);

/*
 * Makes a staging buffer of a new dma-buf, with one user. fd is duplicated.
 * What backend->import() says.
 */
int cache_add_staging(struct dlbuf_device *dev, int fd, struct import **out);

/* One more user of an import that has one. */
void cache_ref(struct import *imp);

/* One user less; may give the import up, and the device with it. */
void cache_unref(struct import *imp);

/* Drops idle imports, the least recently used first, until max_idle are left. */
void cache_trim(struct dlbuf_device *dev, uint32_t max_idle);

/* One frame was copied, for the statistics. */
void cache_count_copy(struct cache *cache, uint64_t bytes);

/* One tensor more or less, for the statistics. */
void cache_count_tensor(struct cache *cache, int change);

void cache_get_stats(struct cache *cache, struct dlbuf_device_stats *stats);

#endif /* DLBUF_CACHE_H */
