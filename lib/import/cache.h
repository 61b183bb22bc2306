/* SPDX-License-Identifier: MIT */
/*
 * The import cache of one device: a table of imports by the dma-buf's identity,
 * and a list of the idle ones in the order of their last use.
 *
 * An import in use is in the table only. One without a user is idle: it stays
 * until it is used again, pushed out by a bound, or not used by the last
 * CACHE_STALE imports. A brief import, of dlbuf_recv() or dlbuf_alloc(), is
 * destroyed with its last user. An import that is being destroyed stays in the table
 * until its work without a fence is over: cache_find_all() finds it, cache_get()
 * does not. The import's fd keeps the kernel from giving the inode number to another
 * buffer, so that equal identity means the same buffer.
 *
 * Staging buffers, which frames are copied into, are imports too. Only the
 * library knows them, so they are not in the table: an idle one serves the next
 * copy that fits.
 *
 * Before the identity is looked at, the cache guesses: an fd number that meant
 * one import twice in a row probably means it again, and one system call
 * (F_DUPFD_QUERY, Linux 6.10) confirms that. Otherwise fstat() and F_GETFL
 * identify the buffer.
 */
#ifndef DLBUF_CACHE_H
#define DLBUF_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../dmabuf/buffer.h"

struct dlbuf_device;
struct dlbuf_device_opts;
struct dlbuf_device_stats;
struct import;

#define CACHE_MAX_IDLE 256	/* default bound; less if RLIMIT_NOFILE is low */
#define CACHE_MEMORY_SHARE 8	/* idle bytes by default: memory / this */
#define CACHE_STALE 1024	/* imports; 4 times max_idle if that is more */
#define CACHE_MAX_STAGING 8	/* idle ones; part of the bound */
#define CACHE_BUCKETS 64	/* of a new table */
#define CACHE_GUESSES 8		/* fd numbers that have a guess, for each bucket */

struct cache {
	pthread_mutex_t lock;
	struct import **buckets, **recent;	/* recent: guesses, by fd number */
	size_t nbuckets;	/* power of two */
	/* A table that has grown is like this one: the buckets, then the guesses. */
	struct import *first_table[CACHE_BUCKETS * (1 + CACHE_GUESSES)];
	struct import *idle_first, *idle_last; /* last used first */
	uint32_t nidle, nimports, max_idle;
	uint64_t max_idle_bytes;
	uint32_t nstaging;	/* idle ones */
	uint64_t clock;		/* counts imports */
	uint64_t stale;		/* an import is stale after so many later imports */
	uint64_t hits, misses, evictions;
	uint64_t copies, copied_bytes;
	size_t tensors;		/* atomic, for lib/tensor; some CPUs lack 64-bit atomics */
	uint64_t live_bytes, idle_bytes;
};

/* opts: the core's copy, checked. */
void cache_init(struct cache *cache, const struct dlbuf_device_opts *opts);
void cache_finish(struct cache *cache);

/*
 * Finds the import of a dma-buf, or makes it, and adds a user. fd is duplicated.
 * access: what the import must allow; 0: all that fd allows. paths: PATH_BIT()s that
 * are acceptable, and PATHS_BRIEF. end: least bytes of the buffer. Errors as for
 * import_identify() and import_create().
 */
int cache_get(struct dlbuf_device *dev, int fd, uint32_t access, uint32_t paths,
	      uint64_t end, struct import **out);

/*
 * Adds an import that import_create() or import_alloc() has made. A staging
 * buffer is not in the table.
 */
void cache_add(struct cache *cache, struct import *imp);

/*
 * Finds all imports of a buffer and adds a user to each. Writes as many as fit, and
 * returns their number.
 */
size_t cache_find_all(struct cache *cache, const struct buffer_id *id,
		      struct import *found[], size_t room);

/*
 * For unimport(), when the work of imp is over: removes imp from the table. False: a thread
 * that has found imp by cache_find_all() still uses it.
 */
bool cache_unlist(struct import *imp);

/*
 * Takes an idle staging buffer of at least `bytes` and less than twice that. It then
 * has one user. NULL: there is none. Earlier work may still read the buffer, and the
 * caller must wait for that work before writing.
 */
struct import *cache_take_staging(struct cache *cache, uint64_t bytes);

/* Adds a user to an import that has one. */
void cache_ref(struct import *imp);

/* Removes a user. May destroy the import, and the device with it. */
void cache_unref(struct import *imp);

/*
 * Drops idle imports, the least recently used first, until max_idle are left.
 * Returns how many it dropped.
 */
uint32_t cache_trim(struct dlbuf_device *dev, uint32_t max_idle);

/*
 * Drops the imports of a buffer: idle ones now, those in use with their last
 * user.
 */
void cache_forget(struct dlbuf_device *dev, const struct buffer_id *id);

/* Counts a copied frame in the statistics. */
void cache_count_copy(struct cache *cache, uint64_t bytes);

void cache_get_stats(struct cache *cache, struct dlbuf_device_stats *stats);

#endif /* DLBUF_CACHE_H */
