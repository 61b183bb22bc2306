// SPDX-License-Identifier: MIT
/* Dma-bufs that a device has seen before. */
#include <errno.h>
#include <string.h>

#include "backend.h"
#include "cache.h"
#include "internal.h"
#include "layout.h"
#include "path.h"
#include "sys.h"

void cache_init(struct cache *cache, uint32_t max_idle)
{
	*cache = (struct cache){
		.nbuckets = CACHE_BUCKETS,
		.max_idle = max_idle,
	};
	cache->buckets = cache->first_buckets;
	pthread_mutex_init(&cache->lock, NULL);
}

void cache_finish(struct cache *cache)
{
	if (cache->buckets != cache->first_buckets)
		free(cache->buckets);
	pthread_mutex_destroy(&cache->lock);
}

static struct import **bucket(struct cache *cache, const struct buffer_id *id)
{
	/* Inode numbers of dma-bufs count up; a factor spreads what shares bits. */
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

/* An import of that buffer, for that access and made by one of these paths. */
static struct import *table_find(struct cache *cache,
				 const struct buffer_id *id, uint32_t paths)
{
	struct import *imp = *bucket(cache, id);

	while (imp && !(same_buffer(&imp->id, id) &&
			imp->id.access == id->access &&
			PATH_BIT(imp->path) & paths))
		imp = imp->hash_next;
	return imp;
}

static struct import **recent(struct cache *cache, int fd)
{
	return &cache->recent[(unsigned int)fd % CACHE_RECENT];
}

/* Under the lock: no guess leads to imp any more. */
static void forget(struct cache *cache, struct import *imp)
{
	struct import **p = recent(cache, imp->last_fd);

	if (*p == imp)
		*p = NULL;
	imp->last_fd = -1;
}

static void table_remove(struct cache *cache, struct import *imp)
{
	struct import **p = bucket(cache, &imp->id);

	cache->nimports--;
	if (imp->staging)
		return;
	forget(cache, imp);
	while (*p != imp)
		p = &(*p)->hash_next;
	*p = imp->hash_next;
}

/* Keeps chains short. Without memory for it they grow, which is all. */
static void table_grow(struct cache *cache)
{
	size_t old = cache->nbuckets;
	struct import **from = cache->buckets;
	struct import **to = sys_calloc(old * 4, sizeof(*to));

	if (!to)
		return;
	cache->buckets = to;
	cache->nbuckets = old * 4;
	for (size_t i = 0; i < old; i++) {
		while (from[i]) {
			struct import *imp = from[i];
			struct import **p = bucket(cache, &imp->id);

			from[i] = imp->hash_next;
			imp->hash_next = *p;
			*p = imp;
		}
	}
	if (from != cache->first_buckets)
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
	cache->nimports++;
}

/*
 * Takes one idle import out of the cache, or NULL: the least recently used
 * one if more than max are idle or it is stale, or of the staging buffers if
 * there are too many of those: they are large, and nobody else has them. The
 * caller destroys it after dropping the lock, because drivers take their time.
 */
static struct import *evict_one(struct cache *cache, uint32_t max)
{
	struct import *imp = cache->idle_last;

	if (cache->nstaging > CACHE_MAX_STAGING)
		while (!imp->staging)
			imp = imp->lru_prev;
	else if (!imp || (cache->nidle <= max &&
			  cache->clock - imp->used <= CACHE_STALE))
		return NULL;
	idle_remove(cache, imp);
	table_remove(cache, imp);
	cache->evictions++;
	return imp;
}

static void import_destroy(struct import *imp)
{
	imp->dev->backend->unimport(imp);
	close(imp->fd);
	free(imp);
}

/* Fills in what an import is of; what the backend adds comes after. */
static int import_identify(struct import *imp, int fd,
			   const struct buffer_id *id, uint64_t end)
{
	struct buffer_id again;
	int ret;

	/*
	 * From here on it is our own duplicate that is looked at. Another
	 * thread of the caller may have closed and reused the number between
	 * buffer_identify() and the duplicate: then it is another buffer, and
	 * remembering it under the first one's identity would be fatal.
	 */
	ret = buffer_identify(imp->fd, &again);
	if (ret)
		return ret;
	if (again.dev != id->dev || again.ino != id->ino ||
	    again.access != imp->fd_access)
		return fail(-EBADF, "fd %d was closed or replaced during the "
			    "import", fd);
	ret = buffer_size(imp->fd, fd, &imp->bytes);
	return ret ? ret : layout_fits(end, imp->bytes);
}

static int import_create(struct dlbuf_device *dev, int fd,
			 const struct buffer_id *id, uint32_t fd_access,
			 uint32_t paths, uint64_t end, struct import **out)
{
	struct import *imp;
	int ret;

	paths &= PATHS_OF(dev->backend);
	if (!paths)
		return fail(-EOPNOTSUPP, "%s imports by none of the paths that "
			    "are wanted", dev->name);
	imp = sys_calloc(1, dev->backend->import_size);
	if (!imp)
		return fail(-ENOMEM, "no memory for an import");
	imp->dev = dev;
	imp->id = *id;
	imp->fd_access = fd_access;
	imp->paths = paths;
	imp->release_sync = dev->release_sync;
	imp->last_fd = -1;
	imp->refs = 1;
	imp->fd = sys_dup(fd);
	if (imp->fd < 0) {
		ret = fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
		goto err_free;
	}
	ret = import_identify(imp, fd, id, end);
	if (!ret)
		ret = path_import(imp);
	if (ret)
		goto err_close;
	*out = imp;
	return 0;

err_close:
	close(imp->fd);
err_free:
	free(imp);
	return ret;
}

/* Under the lock: one more user of imp, which may have been idle. */
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
 * Under the lock: an import that comes twice in a row by one fd number is
 * worth a guess the next time that number comes.
 */
static void remember(struct cache *cache, struct import *imp, int fd)
{
	if (imp->last_fd == fd) {
		*recent(cache, fd) = imp;
		return;
	}
	forget(cache, imp);
	imp->last_fd = fd;
}

/* Whether a request by an fd of the import's own file means this import. */
static bool same_access(const struct import *imp, uint32_t access)
{
	if (access == DLBUF_READ)
		return imp->id.access == DLBUF_READ;
	return imp->id.access == imp->fd_access &&
	       !(access & ~imp->fd_access);
}

/*
 * The import that this fd number meant the last times, if it still does: one
 * system call says that the number is the same open file as our duplicate,
 * and so has the same identity and the same mode. NULL: look closer.
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
		use(cache, imp);
		old = evict_one(cache, UINT32_MAX);
	}
	pthread_mutex_unlock(&cache->lock);
	if (old)
		import_destroy(old);
	if (!imp)
		return NULL;
	if (buffer_same_file(fd, imp->fd)) {
		__atomic_add_fetch(&cache->hits, 1, __ATOMIC_RELAXED);
		return imp;
	}
	pthread_mutex_lock(&cache->lock);
	forget(cache, imp);
	pthread_mutex_unlock(&cache->lock);
	cache_unref(imp);
	return NULL;
}

/* By identity; NULL: not seen before. */
static struct import *find(struct cache *cache, int fd,
			   const struct buffer_id *id, uint32_t paths,
			   bool counted)
{
	struct import *imp, *old = NULL;

	pthread_mutex_lock(&cache->lock);
	cache->clock += !counted;
	imp = table_find(cache, id, paths);
	if (imp) {
		use(cache, imp);
		remember(cache, imp, fd);
		__atomic_add_fetch(&cache->hits, 1, __ATOMIC_RELAXED);
		old = evict_one(cache, UINT32_MAX);
	}
	pthread_mutex_unlock(&cache->lock);
	if (old)
		import_destroy(old);
	return imp;
}

/* A new import into the table, or the one that another thread has put there. */
static struct import *insert(struct cache *cache, struct import *imp, int fd)
{
	struct import *other;

	pthread_mutex_lock(&cache->lock);
	cache->misses++;
	other = table_find(cache, &imp->id, PATH_BIT(imp->path));
	if (other) {
		use(cache, other);
	} else {
		table_insert(cache, imp);
		cache->live_bytes += imp->bytes;
		imp->used = cache->clock;
		imp->last_fd = fd;
		imp->dev->refs++;
	}
	pthread_mutex_unlock(&cache->lock);
	if (!other)
		return imp;
	/* One import per buffer is enough. */
	import_destroy(imp);
	return other;
}

/*
 * The one that was used last: those that are not needed any more get stale.
 * Exclusive to the caller, because nobody else had it.
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
	old = evict_one(cache, UINT32_MAX);
	pthread_mutex_unlock(&cache->lock);
	if (old)
		import_destroy(old);
	return imp;
}

int cache_add_staging(struct dlbuf_device *dev, int fd, struct import **out)
{
	struct cache *cache = &dev->cache;
	struct buffer_id id;
	struct import *imp;
	int ret;

	ret = buffer_identify(fd, &id);
	if (!ret)
		ret = import_create(dev, fd, &id, id.access, PATHS_SHARED, 0,
				    &imp);
	if (ret)
		return ret;
	imp->staging = true;
	pthread_mutex_lock(&cache->lock);
	cache->nimports++;
	cache->live_bytes += imp->bytes;
	imp->used = cache->clock;
	dev->refs++;
	pthread_mutex_unlock(&cache->lock);
	*out = imp;
	return 0;
}

static int not_opened_for(int fd, uint32_t access)
{
	uint64_t bytes;
	/* What is no dma-buf at all is told so first. */
	int ret = buffer_size(fd, fd, &bytes);

	return ret ? ret : fail(-EACCES, "fd %d was not opened for %s", fd,
				access & DLBUF_WRITE ? "writing" : "reading");
}

/* Who the buffer is and what the import will allow. */
static int identify(int fd, uint32_t access, struct buffer_id *id,
		    uint32_t *fd_access)
{
	int ret = buffer_identify(fd, id);

	if (ret)
		return ret;
	*fd_access = id->access;
	if (access & ~id->access)
		return not_opened_for(fd, access & ~id->access);
	/* Memory that is only written has to be mapped readable all the same. */
	if (access == DLBUF_READ)
		id->access = DLBUF_READ;
	return 0;
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
	ret = identify(fd, access, &id, &fd_access);
	if (ret)
		return ret;
	imp = find(cache, fd, &id, paths, counted);
	if (imp)
		goto found;
	/* Unlocked: others need not wait for the driver. */
	ret = import_create(dev, fd, &id, fd_access, paths, end, &imp);
	if (ret)
		return ret;
	imp = insert(cache, imp, fd);
	log_at(DLBUF_LOG_DEBUG, "%s: imported dma-buf %llu, %llu bytes, %s",
	       dev->name, (unsigned long long)id.ino,
	       (unsigned long long)imp->bytes, dlbuf_path_name(imp->path));
	*out = imp;
	return 0;

found:
	ret = layout_fits(end, imp->bytes);
	if (ret)
		cache_unref(imp);
	else
		*out = imp;
	return ret;
}

int cache_try(struct dlbuf_device *dev, int fd, uint32_t access, uint32_t paths)
{
	struct buffer_id id;
	struct import *imp;
	uint32_t fd_access;
	int ret;

	ret = identify(fd, access, &id, &fd_access);
	if (!ret)
		ret = import_create(dev, fd, &id, fd_access, paths, 0, &imp);
	if (!ret)
		import_destroy(imp);
	return ret;
}

int cache_alloc(struct dlbuf_device *dev, uint64_t bytes, struct import **out)
{
	struct cache *cache = &dev->cache;
	struct import *imp = sys_calloc(1, dev->backend->import_size);
	int ret;

	if (!imp)
		return fail(-ENOMEM, "no memory for an import");
	imp->dev = dev;
	imp->bytes = bytes;
	imp->last_fd = -1;
	imp->refs = 1;
	imp->own = true;
	imp->release_sync = dev->release_sync;
	ret = dev->backend->alloc(imp);
	if (ret)
		goto err_free;
	ret = buffer_identify(imp->fd, &imp->id);
	if (ret)
		goto err_undo;
	imp->fd_access = imp->id.access;
	pthread_mutex_lock(&cache->lock);
	table_insert(cache, imp);
	cache->live_bytes += imp->bytes;
	imp->used = cache->clock;
	dev->refs++;
	pthread_mutex_unlock(&cache->lock);
	*out = imp;
	return 0;

err_undo:
	dev->backend->unimport(imp);
	close(imp->fd);
err_free:
	free(imp);
	return ret;
}

size_t cache_find_all(struct cache *cache, const struct buffer_id *id,
		      struct import *found[], size_t max)
{
	struct import *imp;
	size_t n = 0;

	pthread_mutex_lock(&cache->lock);
	for (imp = *bucket(cache, id); imp && n < max; imp = imp->hash_next) {
		if (!same_buffer(&imp->id, id))
			continue;
		use(cache, imp);
		found[n++] = imp;
	}
	pthread_mutex_unlock(&cache->lock);
	return n;
}

void cache_ref(struct import *imp)
{
	__atomic_fetch_add(&imp->refs, 1, __ATOMIC_RELAXED);
}

/* Where others use it too, nothing changes that the lock is for. */
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
	struct import *old = NULL;
	bool last = false;

	if (unref_not_last(imp))
		return;
	pthread_mutex_lock(&cache->lock);
	if (!__atomic_sub_fetch(&imp->refs, 1, __ATOMIC_ACQ_REL)) {
		cache->live_bytes -= imp->bytes;
		if (imp->own) {
			table_remove(cache, imp);
			old = imp;
		} else {
			idle_insert(cache, imp);
			old = evict_one(cache, cache->max_idle);
		}
		/* The device has to live until the evicted one is gone. */
		if (!old)
			last = !--dev->refs;
	}
	pthread_mutex_unlock(&cache->lock);
	if (old) {
		import_destroy(old);
		device_unref(dev);
	} else if (last) {
		device_destroy(dev);
	}
}

void cache_trim(struct dlbuf_device *dev, uint32_t max_idle)
{
	struct cache *cache = &dev->cache;
	struct import *imp;

	do {
		pthread_mutex_lock(&cache->lock);
		imp = cache->nidle > max_idle ? evict_one(cache, max_idle) : NULL;
		pthread_mutex_unlock(&cache->lock);
		if (imp)
			import_destroy(imp);
	} while (imp);
}

void cache_count_copy(struct cache *cache, uint64_t bytes)
{
	__atomic_add_fetch(&cache->copies, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&cache->copied_bytes, bytes, __ATOMIC_RELAXED);
}

void cache_count_tensor(struct cache *cache, int change)
{
	__atomic_add_fetch(&cache->tensors, change, __ATOMIC_RELAXED);
}

void cache_get_stats(struct cache *cache, struct dlbuf_device_stats *stats)
{
	pthread_mutex_lock(&cache->lock);
	stats->hits = __atomic_load_n(&cache->hits, __ATOMIC_RELAXED);
	stats->misses = cache->misses;
	stats->evictions = cache->evictions;
	stats->live = cache->nimports - cache->nidle;
	stats->idle = cache->nidle;
	stats->live_bytes = cache->live_bytes;
	stats->idle_bytes = cache->idle_bytes;
	stats->tensors = __atomic_load_n(&cache->tensors, __ATOMIC_RELAXED);
	stats->copies = __atomic_load_n(&cache->copies, __ATOMIC_RELAXED);
	stats->copied_bytes = __atomic_load_n(&cache->copied_bytes,
					      __ATOMIC_RELAXED);
	pthread_mutex_unlock(&cache->lock);
}
