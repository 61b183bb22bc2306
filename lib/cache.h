/* SPDX-License-Identifier: MIT */
/*
 * The import cache of one device: dma-bufs seen before, by identity.
 *
 * An import in use is in the table only; one without a user is in the list
 * of idle ones too, until it is used again, pushed out by the bound, or not
 * used by the last CACHE_STALE imports. Its fd keeps the inode number from
 * being given to another buffer, so that equal identity is the same buffer.
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
#define CACHE_BUCKETS 64	/* to begin with */

struct cache {
	pthread_mutex_t lock;
	struct import **buckets;
	size_t nbuckets;	/* power of two */
	struct import *first_buckets[CACHE_BUCKETS];
	struct import *idle_first, *idle_last; /* last used first */
	uint32_t nidle, nimports, max_idle;
	uint64_t clock;		/* counts imports */
	uint64_t hits, misses, evictions, tensors;
	uint64_t live_bytes, idle_bytes;
};

void cache_init(struct cache *cache, uint32_t max_idle);
void cache_finish(struct cache *cache);

/*
 * The import of the dma-buf that fd is, found or made, with one more user.
 * fd is duplicated. id is what buffer_identify() said, with id->access
 * narrowed to what the import shall allow. -ERANGE when the buffer has fewer
 * than end bytes.
 */
int cache_get(struct dlbuf_device *dev, int fd, const struct buffer_id *id,
	      uint64_t end, struct import **out);

/* One more user of an import that has one. */
void cache_ref(struct import *imp);

/* One user less; may give the import up, and the device with it. */
void cache_unref(struct import *imp);

/* Drops idle imports, the least recently used first, until max_idle are left. */
void cache_trim(struct dlbuf_device *dev, uint32_t max_idle);

/* One tensor more or less, for the statistics. */
void cache_count_tensor(struct cache *cache, int change);

void cache_get_stats(struct cache *cache, struct dlbuf_device_stats *stats);

#endif /* DLBUF_CACHE_H */
