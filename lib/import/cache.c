// SPDX-License-Identifier: MIT
/* The import cache: see cache.h. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "../system/internal.h"
#include "../system/sys.h"
#include "backend.h"
#include "cache.h"
#include "layout.h"

/* An eighth of the machine's memory. */
static uint64_t default_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) /
	       CACHE_MEMORY_SHARE;
}

/* Each idle import has an fd: at most a quarter of RLIMIT_NOFILE. */
static uint32_t default_count(void)
{
	struct rlimit fds;

	if (getrlimit(RLIMIT_NOFILE, &fds) || fds.rlim_cur / 4 > CACHE_MAX_IDLE)
		return CACHE_MAX_IDLE;
	return fds.rlim_cur / 4;
}

void cache_init(struct cache *cache, const struct dlbuf_device_opts *opts)
{
	bool keeps = !(opts->flags & DLBUF_DEVICE_NO_CACHE);

	*cache = (struct cache){
		.nbuckets = CACHE_BUCKETS,
		.max_idle = !keeps ? 0 : opts->cache_max_idle ?
			    opts->cache_max_idle : default_count(),
		.max_idle_bytes = opts->cache_max_bytes ?
				  opts->cache_max_bytes : default_bytes(),
	};
	cache->buckets = cache->first_table;
	cache->recent = cache->buckets + CACHE_BUCKETS;
	/* A pool that may stay idle as a whole is used in turns. */
	cache->stale = cache->max_idle > CACHE_STALE / 4 ? 4ull * cache->max_idle : CACHE_STALE;
	pthread_mutex_init(&cache->lock, NULL);
}

void cache_finish(struct cache *cache)
{
	if (cache->buckets != cache->first_table)
		free(cache->buckets);
	pthread_mutex_destroy(&cache->lock);
}

static struct import **bucket(struct cache *cache, const struct buffer_id *id)
{
	/* The kernel counts the inode numbers up; the factor spreads them. */
	uint64_t hash = (uint64_t)id->ino * 0x9e3779b97f4a7c15ull;

	return &cache->buckets[(hash >> 32) & (cache->nbuckets - 1)];
}

static bool same_buffer(const struct buffer_id *a, const struct buffer_id *b)
{
	return a->ino == b->ino && a->dev == b->dev;
}

static void idle_insert(struct cache *cache, struct import *imp)
{
	imp->lru_prev = NULL;
	imp->lru_next = cache->idle_first;
	if (cache->idle_first)
		cache->idle_first->lru_prev = imp;
	else
		cache->idle_last = imp;
	cache->idle_first = imp;
	cache->nidle++;
	cache->nstaging += imp->staging;
	cache->idle_bytes += imp->bytes;
}

static void idle_remove(struct cache *cache, struct import *imp)
{
	if (imp->lru_prev)
		imp->lru_prev->lru_next = imp->lru_next;
	else
		cache->idle_first = imp->lru_next;
	if (imp->lru_next)
		imp->lru_next->lru_prev = imp->lru_prev;
	else
		cache->idle_last = imp->lru_prev;
	cache->nidle--;
	cache->nstaging -= imp->staging;
	cache->idle_bytes -= imp->bytes;
}

/* Finds an import of that buffer, for that access, made by one of these paths. */
static struct import *table_find(struct cache *cache,
				 const struct buffer_id *id, uint32_t paths)
{
	struct import *imp = *bucket(cache, id);

	while (imp && !(same_buffer(&imp->id, id) && !imp->gone &&
			imp->id.access == id->access &&
			PATH_BIT(imp->path) & paths))
		imp = imp->hash_next;
	return imp;
}

static struct import **recent(struct cache *cache, int fd)
{
	return &cache->recent[(unsigned int)fd & (cache->nbuckets * CACHE_GUESSES - 1)];
}

/* Under the lock: removes imp from the guesses. */
static void forget_guess(struct cache *cache, struct import *imp)
{
	struct import **p = recent(cache, imp->last_fd);

	if (*p == imp)
		*p = NULL;
	imp->last_fd = -1;
}

static void table_remove(struct cache *cache, struct import *imp)
{
	struct import **p = bucket(cache, &imp->id);

	if (!imp->listed)
		return;
	while (*p != imp)
		p = &(*p)->hash_next;
	*p = imp->hash_next;
	imp->listed = false;
}

/*
 * Keeps the chains short, and prevents fd numbers from sharing a guess. Without memory
 * the table keeps its size, with longer chains.
 */
static void table_grow(struct cache *cache)
{
	size_t old = cache->nbuckets, nbuckets = old * 4;
	struct import **from = cache->buckets, **guesses = cache->recent;
	struct import **to = sys_calloc(nbuckets * (1 + CACHE_GUESSES), sizeof(*to));

	if (!to)
		return;
	cache->buckets = to;
	cache->recent = to + nbuckets;
	cache->nbuckets = nbuckets;
	for (size_t i = 0; i < old * CACHE_GUESSES; i++)
		if (guesses[i])
			*recent(cache, guesses[i]->last_fd) = guesses[i];
	for (size_t i = 0; i < old; i++) {
		while (from[i]) {
			struct import *imp = from[i];
			struct import **p = bucket(cache, &imp->id);

			from[i] = imp->hash_next;
			imp->hash_next = *p;
			*p = imp;
		}
	}
	if (from != cache->first_table)
		free(from);
}

static void table_insert(struct cache *cache, struct import *imp)
{
	struct import **p;

	if (cache->nimports >= cache->nbuckets * 2)
		table_grow(cache);
	p = bucket(cache, &imp->id);
	imp->hash_next = *p;
	*p = imp;
	imp->listed = true;
	cache->nimports++;
}

/*
 * The caller destroys it next, and counts as its one user until then. If its work has no
 * fence, cache_find_all() finds it until then.
 */
__attribute__((noinline))
static void take_out(struct cache *cache, struct import *imp)
{
	idle_remove(cache, imp);
	cache->nimports--;
	imp->gone = true;
	__atomic_store_n(&imp->refs, 1, __ATOMIC_RELAXED);
	if (!imp->staging)
		forget_guess(cache, imp);
	if (!import_gives_event(imp))
		table_remove(cache, imp);
}

bool cache_unlist(struct import *imp)
{
	struct cache *cache = &imp->dev->cache;
	bool alone;

	pthread_mutex_lock(&cache->lock);
	alone = __atomic_load_n(&imp->refs, __ATOMIC_ACQUIRE) == 1;
	if (alone)
		table_remove(cache, imp);
	pthread_mutex_unlock(&cache->lock);
	return alone;
}

static struct import *last_staging(struct cache *cache)
{
	struct import *imp = cache->idle_last;

	while (!imp->staging)
		imp = imp->lru_prev;
	return imp;
}

/*
 * Takes idle imports out of the cache: staging buffers above their bound, which are
 * large; then the least recently used imports until all bounds hold; and one stale
 * import. Returns a list by lru_next. destroy_all() destroys it without the lock,
 * because drivers may be slow.
 */
__attribute__((noinline))
static struct import *evict_some(struct cache *cache, uint32_t max)
{
	struct import *gone = NULL, **end = &gone, *imp;

	for (;;) {
		imp = cache->idle_last;
		if (!imp)
			return gone;
		if (cache->nstaging > CACHE_MAX_STAGING)
			imp = last_staging(cache);
		else if (cache->nidle <= max &&
			 cache->idle_bytes <= cache->max_idle_bytes &&
			 (gone || cache->clock - imp->used <= cache->stale))
			return gone;
		take_out(cache, imp);
		cache->evictions++;
		imp->lru_next = NULL;
		*end = imp;
		end = &imp->lru_next;
	}
}

/* Usually there is nothing to evict. */
static inline struct import *evict(struct cache *cache, uint32_t max)
{
	const struct import *oldest = cache->idle_last;

	if (!oldest || (cache->clock - oldest->used <= cache->stale &&
			cache->nidle <= max &&
			cache->idle_bytes <= cache->max_idle_bytes &&
			cache->nstaging <= CACHE_MAX_STAGING))
		return NULL;
	return evict_some(cache, max);
}

static uint32_t destroy_all(struct import *gone)
{
	struct import *imp;
	uint32_t n = 0;

	if (!gone)
		return 0;
	NOT_CANCELLED;
	for (; (imp = gone); n++) {
		gone = imp->lru_next;
		import_destroy(imp);
	}
	return n;
}

/* Under the lock: adds a user of imp, which may have been idle. */
static void use(struct cache *cache, struct import *imp)
{
	if (!__atomic_fetch_add(&imp->refs, 1, __ATOMIC_RELAXED)) {
		idle_remove(cache, imp);
		cache->live_bytes += imp->bytes;
		imp->dev->refs++;
	}
	imp->used = cache->clock;
}

/*
 * Under the lock. If an fd number means the same import twice in a row, guess() tries
 * this import the next time.
 */
static void remember(struct cache *cache, struct import *imp, int fd)
{
	if (imp->last_fd == fd) {
		*recent(cache, fd) = imp;
		return;
	}
	forget_guess(cache, imp);
	imp->last_fd = fd;
}

/* Whether a request with the same open file can use this import. */
static bool same_access(const struct import *imp, uint32_t access)
{
	if (access == DLBUF_READ)
		return imp->id.access == DLBUF_READ;
	return imp->id.access == imp->fd_access &&
	       !(access & ~imp->fd_access);
}

/*
 * Returns the import that this fd number meant the last times, if the number is still
 * the same open file as our duplicate, which one system call shows. Then identity and
 * mode are the same too. NULL: the buffer must be identified.
 */
static struct import *guess(struct cache *cache, int fd, uint32_t access,
			    uint32_t paths, bool *counted)
{
	struct import *imp, *old = NULL;

	pthread_mutex_lock(&cache->lock);
	imp = *recent(cache, fd);
	if (imp && (imp->last_fd != fd || !same_access(imp, access) ||
		    !(PATH_BIT(imp->path) & paths)))
		imp = NULL;
	*counted = imp;
	if (imp) {
		cache->clock++;
		cache->hits++;
		use(cache, imp);
		old = evict(cache, cache->max_idle);
	}
	pthread_mutex_unlock(&cache->lock);
	destroy_all(old);
	if (!imp)
		return NULL;
	if (buffer_same_file(fd, imp->fd))
		return imp;
	pthread_mutex_lock(&cache->lock);
	cache->hits--;
	forget_guess(cache, imp);
	pthread_mutex_unlock(&cache->lock);
	cache_unref(imp);
	return NULL;
}

/* Finds an import by identity; NULL: there is none. */
static struct import *find_import(struct cache *cache, int fd,
				  const struct buffer_id *id, uint32_t paths,
				  bool counted)
{
	struct import *imp, *old = NULL;

	pthread_mutex_lock(&cache->lock);
	cache->clock += !counted;
	imp = table_find(cache, id, paths);
	if (imp) {
		use(cache, imp);
		old = evict(cache, cache->max_idle);
		remember(cache, imp, fd);
		cache->hits++;
	}
	pthread_mutex_unlock(&cache->lock);
	destroy_all(old);
	return imp;
}

/* Under the lock: counts a new import, which is in use. */
static void account(struct cache *cache, struct import *imp)
{
	cache->live_bytes += imp->bytes;
	imp->used = cache->clock;
	imp->dev->refs++;
}

void cache_add(struct cache *cache, struct import *imp)
{
	pthread_mutex_lock(&cache->lock);
	if (imp->staging)
		cache->nimports++;
	else
		table_insert(cache, imp);
	account(cache, imp);
	pthread_mutex_unlock(&cache->lock);
}

/* Adds a new import, or returns the one that another thread added meanwhile. */
static struct import *insert_import(struct cache *cache, struct import *imp, int fd)
{
	struct import *other;

	pthread_mutex_lock(&cache->lock);
	cache->misses++;
	other = table_find(cache, &imp->id, PATH_BIT(imp->path));
	if (other) {
		use(cache, other);
	} else {
		table_insert(cache, imp);
		account(cache, imp);
		imp->last_fd = fd;
	}
	pthread_mutex_unlock(&cache->lock);
	if (!other)
		return imp;
	/* Another thread imported the same buffer first. */
	import_destroy(imp);
	return other;
}

/*
 * Takes the buffer that was used last, so that surplus buffers become stale. It was
 * idle, so the caller is its only user.
 */
struct import *cache_take_staging(struct cache *cache, uint64_t bytes)
{
	struct import *imp, *old;

	pthread_mutex_lock(&cache->lock);
	cache->clock++;
	imp = cache->idle_first;
	while (imp && (!imp->staging || imp->bytes < bytes ||
		       imp->bytes / 2 >= bytes))
		imp = imp->lru_next;
	if (imp)
		use(cache, imp);
	old = evict(cache, cache->max_idle);
	pthread_mutex_unlock(&cache->lock);
	destroy_all(old);
	return imp;
}

/* A request without PATHS_BRIEF makes the cache keep the import. */
static void clear_brief(struct import *imp, uint32_t paths)
{
	if (!(paths & PATHS_BRIEF) &&
	    __atomic_load_n(&imp->brief, __ATOMIC_RELAXED))
		__atomic_store_n(&imp->brief, false, __ATOMIC_RELAXED);
}

int cache_get(struct dlbuf_device *dev, int fd, uint32_t access, uint32_t paths,
	      uint64_t end, struct import **out)
{
	struct cache *cache = &dev->cache;
	struct buffer_id id;
	struct import *imp;
	uint32_t fd_access;
	bool counted;
	int ret;

	imp = guess(cache, fd, access, paths, &counted);
	if (imp)
		goto found;
	ret = import_identify(fd, access, &id, &fd_access);
	if (ret)
		return ret;
	imp = find_import(cache, fd, &id, paths, counted);
	if (imp)
		goto found;
	/* Without the lock, so that no other thread waits for the driver. */
	ret = import_create(dev, fd, &id, fd_access, paths, end, &imp);
	if (ret)
		return ret;
	imp = insert_import(cache, imp, fd);
	log_at(DLBUF_LOG_DEBUG, "%s: imported dma-buf %llu, %llu bytes, %s",
	       dev->name, (unsigned long long)id.ino,
	       (unsigned long long)imp->bytes, dlbuf_path_name(imp->path));
found:
	ret = import_fits(imp, end);
	if (ret) {
		cache_unref(imp);
		return ret;
	}
	clear_brief(imp, paths);
	*out = imp;
	return 0;
}

size_t cache_find_all(struct cache *cache, const struct buffer_id *id,
		      struct import *found[], size_t room)
{
	struct import *imp;
	size_t n = 0;

	pthread_mutex_lock(&cache->lock);
	for (imp = *bucket(cache, id); imp; imp = imp->hash_next) {
		if (!same_buffer(&imp->id, id))
			continue;
		if (n < room) {
			use(cache, imp);
			found[n] = imp;
		}
		n++;
	}
	pthread_mutex_unlock(&cache->lock);
	return n;
}

void cache_ref(struct import *imp)
{
	__atomic_fetch_add(&imp->refs, 1, __ATOMIC_RELAXED);
}

/* If there are other users, the count needs no lock. */
static bool unref_not_last(struct import *imp)
{
	unsigned int refs = __atomic_load_n(&imp->refs, __ATOMIC_RELAXED);

	while (refs > 1)
		if (__atomic_compare_exchange_n(&imp->refs, &refs, refs - 1,
						true, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

void cache_unref(struct import *imp)
{
	struct dlbuf_device *dev = imp->dev;
	struct cache *cache = &dev->cache;
	struct import *gone;
	bool last = false;

	if (unref_not_last(imp))
		return;
	pthread_mutex_lock(&cache->lock);
	if (__atomic_sub_fetch(&imp->refs, 1, __ATOMIC_ACQ_REL)) {
		pthread_mutex_unlock(&cache->lock);
		return;
	}
	cache->live_bytes -= imp->bytes;
	idle_insert(cache, imp);
	if (imp->own || __atomic_load_n(&imp->brief, __ATOMIC_RELAXED)) {
		take_out(cache, imp);
		imp->lru_next = NULL;
		gone = imp;
	} else {
		gone = evict(cache, cache->max_idle);
	}
	/* The device must live until these imports are destroyed. */
	if (!gone)
		last = !--dev->refs;
	pthread_mutex_unlock(&cache->lock);
	if (!gone && !last)
		return;
	NOT_CANCELLED;
	if (destroy_all(gone))
		device_unref(dev);
	else
		device_destroy(dev);
}

uint32_t cache_trim(struct dlbuf_device *dev, uint32_t max_idle)
{
	struct cache *cache = &dev->cache;
	struct import *gone;

	pthread_mutex_lock(&cache->lock);
	gone = cache->nidle > max_idle ? evict(cache, max_idle) : NULL;
	pthread_mutex_unlock(&cache->lock);
	return destroy_all(gone);
}

void cache_forget(struct dlbuf_device *dev, const struct buffer_id *id)
{
	struct cache *cache = &dev->cache;
	struct import *imp, *next, *gone = NULL;

	pthread_mutex_lock(&cache->lock);
	for (imp = *bucket(cache, id); imp; imp = next) {
		next = imp->hash_next;
		if (!same_buffer(&imp->id, id))
			continue;
		__atomic_store_n(&imp->brief, true, __ATOMIC_RELAXED);
		if (!__atomic_load_n(&imp->refs, __ATOMIC_RELAXED)) {
			take_out(cache, imp);
			cache->evictions++;
			imp->lru_next = gone;
			gone = imp;
		}
	}
	pthread_mutex_unlock(&cache->lock);
	destroy_all(gone);
}

void cache_count_copy(struct cache *cache, uint64_t bytes)
{
	pthread_mutex_lock(&cache->lock);
	cache->copies++;
	cache->copied_bytes += bytes;
	pthread_mutex_unlock(&cache->lock);
}

void cache_get_stats(struct cache *cache, struct dlbuf_device_stats *stats)
{
	pthread_mutex_lock(&cache->lock);
	stats->hits = cache->hits;
	stats->misses = cache->misses;
	stats->evictions = cache->evictions;
	stats->live = cache->nimports - cache->nidle;
	stats->idle = cache->nidle;
	stats->live_bytes = cache->live_bytes;
	stats->idle_bytes = cache->idle_bytes;
	stats->tensors = __atomic_load_n(&cache->tensors, __ATOMIC_RELAXED);
	stats->copies = cache->copies;
	stats->copied_bytes = cache->copied_bytes;
	pthread_mutex_unlock(&cache->lock);
}
