/* SPDX-License-Identifier: MIT */
/*
 * The import cache of one device: a table of imports by the dma-buf's identity,
 * and a list of the idle ones in the order of their last use.
 *
 * An import in use is in the table only. One without a user is idle: it stays
 * until it is used again, pushed out by a bound, or not used by the last
 * CACHE_STALE imports. A brief one, of dlbuf_recv() or dlbuf_alloc(), goes with
 * its last user. The import's fd keeps the kernel from giving the inode number to
 * another buffer, so that equal identity means the same buffer.
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
#include <stdint.h>

#include "buffer.h"

struct dlbuf_device;
struct dlbuf_device_opts;
struct dlbuf_device_stats;
struct import;

#define CACHE_MAX_IDLE 256	/* the most by default; fewer with few fds */
#define CACHE_MEMORY_SHARE 8	/* idle bytes by default: memory / this */
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
	uint64_t max_idle_bytes;
	uint32_t nstaging;	/* idle ones */
	uint64_t clock;		/* counts imports */
	uint64_t hits, misses, evictions;
	uint64_t copies, copied_bytes;
	size_t tensors;		/* atomic; not every CPU has 64 bits of that */
	uint64_t live_bytes, idle_bytes;
};

/* opts: checked, a copy of ours. */
void cache_init(struct cache *cache, const struct dlbuf_device_opts *opts);
void cache_finish(struct cache *cache);

/*
 * The import of the dma-buf that fd is, found or made, with one more user. fd
 * is duplicated. access: what the import shall allow, 0 for all that fd does.
 * paths: PATH_BIT()s by which it may have been made, and PATHS_BRIEF. end: bytes
 * that the buffer has to have. Errors as import_identify() and import_create().
 */
int cache_get(struct dlbuf_device *dev, int fd, uint32_t access, uint32_t paths,
	      uint64_t end, struct import **out);

/*
 * Adds an import that import_create() or import_alloc() has made. A staging
 * buffer is not in the table.
 */
void cache_add(struct cache *cache, struct import *imp);

/*
 * The imports of a buffer, with one more user each: writes as many as fit, and
 * returns how many there are.
 */
size_t cache_find_all(struct cache *cache, const struct buffer_id *id,
		      struct import *found[], size_t room);

/*
 * An idle staging buffer of at least so many bytes, and less than twice as many,
 * with one user; NULL where there is none. Earlier work may still read it: who
 * writes to it waits for that.
 */
struct import *cache_take_staging(struct cache *cache, uint64_t bytes);

/* One more user of an import that has one. */
void cache_ref(struct import *imp);

/* One user less; may undo the import, and the device with it. */
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

/* One frame was copied, for the statistics. */
void cache_count_copy(struct cache *cache, uint64_t bytes);

/* One tensor more or less, for the statistics. */
void cache_count_tensor(struct cache *cache, int change);

void cache_get_stats(struct cache *cache, struct dlbuf_device_stats *stats);

#endif /* DLBUF_CACHE_H */
