// SPDX-License-Identifier: MIT
/*
 * Events of streams. An event of Level Zero is a flag: it must be reset before it is
 * signalled again, and a command whose wait has not ended yet would then wait for the
 * next signal. So each event_record() takes another flag, a moment. A moment is reused
 * when its flag is set and each wait for it has ended. Each wait therefore signals a
 * moment of its own, which refers to the moment that it waits for.
 */
#include <errno.h>

#include "levelzero.h"

#define POOL_EVENTS 32

struct moment {
	ze_event_handle_t event;
	struct moment *awaits;	/* of a wait: what it is for, a reference */
	void *list;		/* on which it was recorded last; atomic */
	unsigned int refs;	/* under dev->lock */
	struct moment *next;	/* in dev->ended or dev->free */
};

struct moments {
	ze_event_pool_handle_t pool;
	struct moments *next;
	unsigned int n;		/* events that exist */
	struct moment at[POOL_EVENTS];
};

/* ---------------------------------------------------------------- moments */

/* The event is signalled already, or will be. Without references it can be reaped. */
static void moment_put(struct levelzero_device *dev, struct moment *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&dev->lock);
	if (!--m->refs) {
		m->next = dev->ended;
		dev->ended = m;
	}
	pthread_mutex_unlock(&dev->lock);
}

/*
 * On a lost device no wait ends any more, and nothing waits there. The device may
 * be closed already, so queue_lost() is not called.
 */
static bool moment_is_over(struct levelzero_device *dev, const struct moment *m)
{
	ze_result_t result;

	if (__atomic_load_n(&dev->queue.lost, __ATOMIC_ACQUIRE))
		return true;
	result = LZ_RESULT(&dev->lz, EventQueryStatus, m->event);
	return !result || levelzero_is_lost(result);
}

/*
 * Moves moments that are over from `ended` to `free`. Returns whether none is left. It
 * calls the driver without the lock.
 */
static bool moments_reap(struct levelzero_device *dev)
{
	struct moment *list, *m, **to;
	bool some, none;

	do {
		pthread_mutex_lock(&dev->lock);
		list = dev->ended;
		dev->ended = NULL;
		pthread_mutex_unlock(&dev->lock);
		some = false;
		while ((m = list)) {
			list = m->next;
			to = moment_is_over(dev, m) ? &dev->free : &dev->ended;
			if (to == &dev->free) {
				moment_put(dev, m->awaits);
				m->awaits = NULL;
				some = true;
			}
			pthread_mutex_lock(&dev->lock);
			m->next = *to;
			*to = m;
			pthread_mutex_unlock(&dev->lock);
		}
		pthread_mutex_lock(&dev->lock);
		none = !dev->ended;
		pthread_mutex_unlock(&dev->lock);
	} while (some && !none);
	return none;
}

static int add_pool(struct levelzero_device *dev)
{
	const ze_event_pool_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
		.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
		.count = POOL_EVENTS,
	};
	struct moments *pool = sys_calloc(1, sizeof(*pool));
	int ret;

	if (!pool)
		return -ENOMEM;
	ret = LZ_DO(&dev->queue, EventPoolCreate, dev->context, &desc, 0, NULL,
		    &pool->pool);
	if (ret) {
		free(pool);
		return ret;
	}
	pthread_mutex_lock(&dev->lock);
	pool->next = dev->pools;
	dev->pools = pool;
	pthread_mutex_unlock(&dev->lock);
	return 0;
}

static int moment_create(struct levelzero_device *dev, struct moment **out)
{
	ze_event_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
		.signal = ZE_EVENT_SCOPE_FLAG_HOST,
		.wait = ZE_EVENT_SCOPE_FLAG_HOST,
	};
	struct moments *pool;
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	while (!ret && (!dev->pools || dev->pools->n == POOL_EVENTS)) {
		pthread_mutex_unlock(&dev->lock);
		ret = add_pool(dev);
		pthread_mutex_lock(&dev->lock);
	}
	pool = dev->pools;
	if (!ret)
		desc.index = pool->n++;
	pthread_mutex_unlock(&dev->lock);
	if (ret)
		return ret;
	*out = &pool->at[desc.index];
	return LZ_DO(&dev->queue, EventCreate, pool->pool, &desc,
		     &(*out)->event);
}

/* Gives a moment with one reference, whose event is not signalled. */
static int moment_get(struct levelzero_device *dev, struct moment **out)
{
	struct moment *m;
	int ret;

	moments_reap(dev);
	pthread_mutex_lock(&dev->lock);
	m = dev->free;
	if (m)
		dev->free = m->next;
	pthread_mutex_unlock(&dev->lock);
	ret = m ? LZ_DO(&dev->queue, EventHostReset, m->event) :
		  moment_create(dev, &m);
	/* A moment that fails is left alone until the device is freed. */
	if (!ret)
		m->refs = 1;
	*out = m;
	return ret;
}

/* ---------------------------------------------------------------- on streams */

int levelzero_barrier(struct queue_device *base, void *stream,
		      ze_event_handle_t signal, ze_event_handle_t wait)
{
	struct levelzero_device *dev = to_levelzero(base);
	int ret;

	levelzero_append_begin(dev, stream);
	ret = LZ_DO(base, CommandListAppendBarrier, stream, signal, !!wait,
		    wait ? &wait : NULL);
	levelzero_append_end(dev, stream);
	return ret;
}

static int moment_record(struct levelzero_device *dev, struct moment *m, void *stream,
			 ze_event_handle_t wait)
{
	__atomic_store_n(&m->list, stream, __ATOMIC_RELEASE);
	return levelzero_barrier(&dev->queue, stream, m->event, wait);
}

/* ---------------------------------------------------------------- events */

/* The moment when all commands that are on the stream are complete. */
int levelzero_event_record(struct queue_device *base, void **event, void *stream)
{
	struct levelzero_device *dev = to_levelzero(base);
	struct moment *m;
	int ret = moment_get(dev, &m);

	if (!ret)
		ret = moment_record(dev, m, stream, NULL);
	if (ret)
		return ret;
	moment_put(dev, *event);
	*event = m;
	return 0;
}

int levelzero_event_query(struct queue_device *dev, void *event)
{
	ze_result_t result = LZ_RESULT(&to_levelzero(dev)->lz, EventQueryStatus,
				       ((struct moment *)event)->event);

	return result == ZE_RESULT_NOT_READY ? QUEUE_PENDING :
	       levelzero_done(dev, result, LZ_FUNCTION(EventQueryStatus));
}

int levelzero_event_wait(struct queue_device *dev, void *event)
{
	return LZ_DO(dev, EventHostSynchronize, ((struct moment *)event)->event,
		     UINT64_MAX);
}

int levelzero_stream_wait(struct queue_device *base, void *stream, void *event)
{
	struct levelzero_device *dev = to_levelzero(base);
	struct moment *m = event, *passed;
	int ret = moment_get(dev, &passed);

	if (!ret)
		ret = moment_record(dev, passed, stream, m->event);
	if (ret)
		return ret;
	pthread_mutex_lock(&dev->lock);
	m->refs++;
	pthread_mutex_unlock(&dev->lock);
	passed->awaits = m;
	moment_put(dev, passed);
	return 0;
}

void levelzero_event_destroy(struct queue_device *dev, void *event)
{
	moment_put(to_levelzero(dev), event);
}

int levelzero_user_event_create(struct queue_device *dev, void **event)
{
	return moment_get(to_levelzero(dev), (struct moment **)event);
}

/* No fault is injected here, because a stream's wait would never end. */
void levelzero_user_event_set(struct queue_device *dev, void *event)
{
	struct moment *m = event;

	levelzero_done(dev, to_levelzero(dev)->lz.EventHostSignal(m->event),
		       LZ_FUNCTION(EventHostSignal));
}

/* ---------------------------------------------------------------- finish */

/* Loaders since 1.10 have a function for this, if the driver has it. */
int levelzero_finish(struct queue_device *base, void *stream)
{
	struct levelzero_device *dev = to_levelzero(base);
	ze_result_t result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
	void *m = NULL;
	int ret;

	if (dev->lz.CommandListHostSynchronize)
		result = LZ_RESULT(&dev->lz, CommandListHostSynchronize, stream,
				   UINT64_MAX);
	if (result != ZE_RESULT_ERROR_UNSUPPORTED_FEATURE)
		return levelzero_done(base, result,
				      LZ_FUNCTION(CommandListHostSynchronize));
	ret = levelzero_event_record(base, &m, stream);
	if (ret)
		return ret;
	ret = levelzero_event_wait(base, m);
	moment_put(dev, m);
	return ret;
}

/* Level Zero does not know all command lists of a device: these are dlbuf's. */
int levelzero_finish_all(struct queue_device *dev)
{
	return levelzero_finish(dev, to_levelzero(dev)->own);
}

/*
 * Queries all moments of a list whose commands are over, or of all lists: the first query of an
 * event of Intel's driver writes to the list that signalled the event.
 */
static void moments_leave(struct levelzero_device *dev, const void *list)
{
	const struct moments *pool;
	const void *last;
	unsigned int n;

	pthread_mutex_lock(&dev->lock);
	pool = dev->pools;
	while (pool) {
		n = pool->n;
		/* Pools stay, and a moment that was recorded has its event. */
		pthread_mutex_unlock(&dev->lock);
		for (unsigned int i = 0; i < n; i++) {
			last = __atomic_load_n(&pool->at[i].list, __ATOMIC_ACQUIRE);
			if (last && (!list || last == list))
				dev->lz.EventQueryStatus(pool->at[i].event);
		}
		pthread_mutex_lock(&dev->lock);
		pool = pool->next;
	}
	pthread_mutex_unlock(&dev->lock);
}

/* An application may destroy its list next. */
void levelzero_drained(struct queue_device *dev)
{
	moments_leave(to_levelzero(dev), NULL);
}

/* A list whose commands may still run is left alone. */
void levelzero_list_destroy(struct queue_device *dev, void *list)
{
	bool over = __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE);

	/* This call may be the one that detects the loss. */
	for (int tries = 0; !over && tries < 2; tries++)
		over = !levelzero_finish(dev, list) ||
		       __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE);
	if (!over)
		return;
	moments_leave(to_levelzero(dev), list);
	to_levelzero(dev)->lz.CommandListDestroy(list);
}

static void pools_free(struct levelzero_device *dev)
{
	struct moments *pool;

	while ((pool = dev->pools)) {
		dev->pools = pool->next;
		for (unsigned int i = 0; i < pool->n; i++)
			if (pool->at[i].event)
				dev->lz.EventDestroy(pool->at[i].event);
		dev->lz.EventPoolDestroy(pool->pool);
		free(pool);
	}
}

static void device_free(struct levelzero_device *dev)
{
	if (dev->over && dev->own)
		dev->lz.CommandListDestroy(dev->own);
	pools_free(dev);
	if (dev->module)
		dev->lz.ModuleDestroy(dev->module);
	if (dev->over && dev->context && !dev->queue.base.wrapped)
		dev->lz.ContextDestroy(dev->context);
	pthread_mutex_destroy(&dev->lock);
	pthread_mutex_destroy(&dev->appending);
	free(dev);
}

static bool free_later(struct event_call *call)
{
	struct levelzero_device *dev = container_of(call, struct levelzero_device,
						    ending);

	if (!moments_reap(dev))
		return false;
	device_free(dev);
	return true;
}

/* The end of the library's list: waits for it, or puts a moment there. */
static bool list_ends(struct levelzero_device *dev, bool waits)
{
	void *last = NULL;

	if (!dev->own || __atomic_load_n(&dev->queue.lost, __ATOMIC_ACQUIRE))
		return true;
	if (waits)
		return !levelzero_finish(&dev->queue, dev->own);
	if (levelzero_event_record(&dev->queue, &last, dev->own))
		return false;
	moment_put(dev, last);
	return true;
}

/* Waits of the application's streams may not have ended yet. */
void levelzero_destroy(struct queue_device *base)
{
	struct levelzero_device *dev = to_levelzero(base);
	bool now = !event_is_here() && moments_reap(dev);

	for (int tries = 0; !dev->over && tries < 2; tries++)
		dev->over = list_ends(dev, now);
	dev->ending.fn = free_later;
	if (now) {
		device_free(dev);
		return;
	}
	if (!event_promise()) {
		event_post(&dev->ending);
		return;
	}
	forget_failure();
	while (!free_later(&dev->ending))
		;
}
