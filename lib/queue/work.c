// SPDX-License-Identifier: MIT
/*
 * Released work. Each release records an event on its stream; later accesses on
 * this device wait for that event. If a caller or a lease asked for an fd, the
 * work also writes to an eventfd. The stream calls a host function that does so;
 * on drivers without host functions the thread "dlbuf-events" polls the event.
 *
 * The host function is put on the stream before the event is recorded. So once the
 * event is complete, nothing uses the struct any more. After a loss the function does
 * nothing, and queue_works_lost() writes to the eventfd.
 *
 * The driver is called without dev->lock. A thread that asks the driver about a
 * work holds a reference to it. A work is a point of a stream, which is recorded once: its
 * event is reused when there is no reference.
 */
#include <errno.h>
#include <sched.h>

#include "../access/pending.h"
#include "../dmabuf/fence.h"
#include "engine.h"

struct queue_work {
	void *event;		/* the driver's; NULL: never recorded */
	struct queue_work *of;	/* atomic; whose event it shares, with a reference; or NULL */
	uint32_t access;
	struct buffer_id id;	/* with access: what it works on */
	int eventfd;		/* atomic; written at the end, or -1: not asked, or done */
	int state;		/* atomic; whether the event is recorded */
	void *handle;
	/* Under dev->lock. */
	unsigned int refs;	/* of the list, and of threads that query the work */
	bool listed;
	struct bridge_buffer *copies;	/* whose copies come after the event, or NULL */
	uint64_t until;		/* GONE: over after this wait for all streams */
	bool polled;		/* counted in dev->npolled */
	uint64_t wait;		/* its number, while it is in dev->waits; or 0 */
	struct queue_work *next;	/* in a list, or in the free list */
	struct queue_work *all;	/* all works of the device, until it closes */
};

/*
 * An event is recorded once, by the one thread that has the work then. LATE: the stream
 * may take it later; TRIED: a thread tries. GONE: it never will.
 */
enum { RECORDED, NEW, LATE, TRIED, GONE };

/* ---------------------------------------------------------------- the driver */

int queue_enter(struct queue_device *dev, struct queue_scope *scope)
{
	return dev->ops->enter ? dev->ops->enter(dev, scope, false) : 0;
}

void queue_enter_to_free(struct queue_device *dev, struct queue_scope *scope)
{
	if (dev->ops->enter)
		dev->ops->enter(dev, scope, true);
}

void queue_leave(struct queue_device *dev, const struct queue_scope *scope)
{
	if (dev->ops->leave)
		dev->ops->leave(dev, scope);
}

int queue_failed(struct queue_device *dev, int error)
{
	const struct queue_ops *ops = dev->ops;
	void *event = NULL, *stream = NULL;
	int ret = 0;

	if (error != -EIO && error != -ENODEV)
		return error;
	if (!ops->event_create)
		ret = ops->stream(dev, NULL, false, &stream);
	if (!ret)
		ret = ops->event_create ? ops->event_create(dev, &event) :
					  ops->event_record(dev, &event, stream);
	if (!ret)
		ops->event_destroy(dev, event);
	else if (ret == error)
		queue_lost(dev);
	return error;
}

int queue_find_stream(struct queue_device *dev, void *handle, bool ends, void **stream)
{
	int ret = dev->ops->stream(dev, handle, ends, stream);

	return ret ? queue_failed(dev, ret) : 0;
}

/* ---------------------------------------------------------------- works */

/* Whether its eventfd was written, or none was asked for. */
static bool has_told(const struct queue_work *work)
{
	return __atomic_load_n(&work->eventfd, __ATOMIC_ACQUIRE) < 0;
}

/* May run on a thread of the driver, so it makes no driver call. */
static void signal_work(void *data)
{
	struct queue_work *work = data;

	if (!has_told(work))
		fence_event_signal(__atomic_exchange_n(&work->eventfd, -1, __ATOMIC_ACQ_REL));
}

/* The work that has the event. */
static const struct queue_work *point_of(const struct queue_work *work)
{
	const struct queue_work *of = __atomic_load_n(&work->of, __ATOMIC_ACQUIRE);

	return of ? of : work;
}

static int state_of(const struct queue_work *work)
{
	return __atomic_load_n(&point_of(work)->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct queue_work *work, int state)
{
	__atomic_store_n(&work->state, state, __ATOMIC_RELEASE);
}

static int record_event(struct queue_device *dev, struct queue_work *work,
			void *stream)
{
	int ret = dev->ops->event_record(dev, &work->event, stream);

	if (!ret)
		set_state(work, RECORDED);
	return ret;
}

int queue_work_get(struct queue_device *dev, struct queue_work **out)
{
	struct queue_work *work;
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	work = dev->free_works;
	if (work) {
		dev->free_works = work->next;
		work->refs = 1;
	}
	pthread_mutex_unlock(&dev->lock);
	*out = work;
	if (work)
		return 0;
	work = sys_calloc(1, sizeof(*work));
	if (!work)
		return -ENOMEM;
	if (dev->ops->event_create)
		ret = dev->ops->event_create(dev, &work->event);
	if (ret) {
		free(work);
		return ret;
	}
	work->state = NEW;
	work->eventfd = -1;
	work->refs = 1;
	pthread_mutex_lock(&dev->lock);
	work->all = dev->all_works;
	dev->all_works = work;
	pthread_mutex_unlock(&dev->lock);
	*out = work;
	return 0;
}

/* Under the lock. */
static void put_locked(struct queue_device *dev, struct queue_work *work)
{
	if (--work->refs)
		return;
	if (work->of)
		put_locked(dev, work->of);
	work->of = NULL;
	set_state(work, NEW);
	work->access = 0;
	work->next = dev->free_works;
	dev->free_works = work;
}

struct queue_work *queue_work_ref(struct queue_device *dev, struct queue_work *work)
{
	pthread_mutex_lock(&dev->lock);
	if (work)
		work->refs++;
	pthread_mutex_unlock(&dev->lock);
	return work;
}

void queue_work_put(struct queue_device *dev, struct queue_work *work)
{
	pthread_mutex_lock(&dev->lock);
	if (work)
		put_locked(dev, work);
	pthread_mutex_unlock(&dev->lock);
}

static void list_add(struct queue_device *dev, struct queue_work **list,
		     struct queue_work *work)
{
	pthread_mutex_lock(&dev->lock);
	work->listed = true;
	work->next = *list;
	*list = work;
	pthread_mutex_unlock(&dev->lock);
}

/*
 * Under the lock. Removes a work that is over from the list, with the list's reference. On a
 * lost device its bytes may not be written: the next acquire of the dma-buf, on any device,
 * returns -EIO, also after this device was closed.
 */
static void list_remove(struct queue_device *dev, struct queue_work **list,
			struct queue_work *work)
{
	while (*list != work)
		list = &(*list)->next;
	*list = work->next;
	work->listed = false;
	work->copies = NULL;
	dev->npolled -= work->polled;
	work->polled = false;
	if (work->wait)
		queue_gate_passed(dev);
	work->wait = 0;
	if (dev->lost && work->access & work->id.access & DLBUF_WRITE)
		pending_failed(&work->id);
	signal_work(work);
	put_locked(dev, work);
}

/*
 * The stream was destroyed. The handle is not used again, because it may name another stream now.
 */
static void set_gone(struct queue_device *dev, struct queue_work *work)
{
	pthread_mutex_lock(&dev->lock);
	work->until = dev->finish.begun + 1;
	set_state(work, GONE);
	pthread_mutex_unlock(&dev->lock);
}

static bool is_finished(struct queue_device *dev, struct queue_work *work)
{
	bool finished;

	pthread_mutex_lock(&dev->lock);
	finished = queue_finished(dev, work->until);
	pthread_mutex_unlock(&dev->lock);
	return finished;
}

/* Tries again to record the event on a stream that refused it. True: the work is over. */
static bool record_late(struct queue_device *dev, struct queue_work *work)
{
	int late = LATE, ret;
	void *stream;

	if (!__atomic_compare_exchange_n(&work->state, &late, TRIED, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return late == GONE && is_finished(dev, work);
	ret = queue_find_stream(dev, work->handle, true, &stream);
	if (!ret)
		ret = record_event(dev, work, stream);
	if (!ret)
		return false;
	forget_failure();
	if (ret != -EBUSY && dev->orphans) {
		set_gone(dev, work);
		return is_finished(dev, work);
	}
	set_state(work, LATE);
	return ret == -EINVAL;
}

/* The buffer is freed after the work has left its list, so the lock keeps it. */
static bool still_copies(struct queue_device *dev, const struct queue_work *work)
{
	bool copies;

	pthread_mutex_lock(&dev->lock);
	copies = work->copies && bridge_copies(work->copies);
	pthread_mutex_unlock(&dev->lock);
	return copies;
}

/* Without the lock, with a reference. Returns 0, QUEUE_PENDING or an error. */
static int query_work(struct queue_device *dev, struct queue_work *work)
{
	int ret = QUEUE_PENDING;

	if (__atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE))
		return queue_is_dead(dev) ? 0 : QUEUE_PENDING;
	if (state_of(work) != RECORDED && record_late(dev, work))
		return 0;
	if (state_of(work) == RECORDED)
		ret = dev->ops->event_query(dev, point_of(work)->event);
	if (ret < 0)
		return queue_failed(dev, ret);
	return !ret && still_copies(dev, work) ? QUEUE_PENDING : ret;
}

static bool is_over(struct queue_device *dev, struct queue_work *work)
{
	/* After an error the work may still run, unless the device is lost. */
	return !query_work(dev, work) || queue_is_dead(dev);
}

/*
 * Calls fn for each work of a list, without the lock, up to the first error. If fn
 * returns QUEUE_OVER, the work is removed from the list.
 */
#define QUEUE_OVER 1

static int each(struct queue_device *dev, struct queue_work **list,
		int (*fn)(struct queue_device *dev, struct queue_work *work,
			  void *data),
		void *data)
{
	struct queue_work *work, *next;
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	for (work = *list; work && ret >= 0; work = next) {
		work->refs++;
		pthread_mutex_unlock(&dev->lock);
		ret = fn(dev, work, data);
		pthread_mutex_lock(&dev->lock);
		/* If another thread removed it, its `next` may be stale: start again. */
		next = work->listed ? work->next : *list;
		if (ret == QUEUE_OVER && work->listed)
			list_remove(dev, list, work);
		put_locked(dev, work);
	}
	pthread_mutex_unlock(&dev->lock);
	return ret < 0 ? ret : 0;
}

static int over(struct queue_device *dev, struct queue_work *work, void *data)
{
	(void)data;
	return is_over(dev, work) ? QUEUE_OVER : 0;
}

bool queue_reap(struct queue_device *dev, struct queue_work **works)
{
	bool none;

	each(dev, works, over, NULL);
	pthread_mutex_lock(&dev->lock);
	none = !*works && !queue_is_unsure(dev) && !(dev->lost && dev->calls);
	pthread_mutex_unlock(&dev->lock);
	return none;
}

/* ---------------------------------------------------------------- eventfds */

/* Makes two fds of one eventfd: one for the caller, one that the work writes to. */
static int make_eventfds(struct queue_work *work, int *out)
{
	int writer, ret = fence_event(&writer, out);

	if (!ret)
		__atomic_store_n(&work->eventfd, writer, __ATOMIC_RELEASE);
	return ret;
}

/* Whether a host function of the stream writes to the eventfd. */
static bool is_called(const struct queue_device *dev, const struct queue_work *work,
		      int state)
{
	return dev->ops->call_host && state_of(work) == state && !work->copies;
}

/* Works that one eventfd waits for, with a reference to each. */
struct watched {
	struct queue_work *work;
	struct watched *next;
};

struct watch {
	struct event_call call;
	struct queue_device *dev;	/* with a reference */
	int writer;		/* of the eventfd */
	struct watched *first;
};

/* Drops works that are over, or all; true: none is left. */
static bool unwatch(struct queue_device *dev, struct watched **first, bool all)
{
	struct watched **p = first, *w;

	while ((w = *p)) {
		if (!all && !is_over(dev, w->work)) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		queue_work_put(dev, w->work);
		free(w);
	}
	return !*first;
}

/* On "dlbuf-events": writes to the eventfd when all its works are over. */
static bool poll_watch(struct event_call *call)
{
	struct watch *w = container_of(call, struct watch, call);
	struct queue_device *dev = w->dev;
	struct queue_scope scope;
	bool none;

	queue_enter_to_free(dev, &scope);
	none = unwatch(dev, &w->first, false);
	queue_leave(dev, &scope);
	if (!none)
		return false;
	fence_event_signal(w->writer);
	free(w);
	queue_unref(dev);
	return true;
}

/*
 * On "dlbuf-events": polls the events of works that have an eventfd. If host functions
 * write to all of these, the polling is slow, and only detects the loss of a device: a lost
 * device drops the functions, and there may be no other call that notices the loss.
 */
static bool poll_works(struct event_call *call)
{
	struct queue_device *dev = container_of(call, struct queue_device,
						polling);
	struct queue_scope scope;
	struct queue_work *work;
	bool none, slow = true;

	queue_enter_to_free(dev, &scope);
	pthread_mutex_lock(&dev->lock);
	for (work = dev->all_works; work; work = work->all) {
		if (!work->polled)
			continue;
		work->refs++;
		pthread_mutex_unlock(&dev->lock);
		none = has_told(work) || is_over(dev, work);
		if (none)
			signal_work(work);
		pthread_mutex_lock(&dev->lock);
		if (none && work->polled) {
			work->polled = false;
			dev->npolled--;
		}
		slow &= !work->polled || is_called(dev, work, RECORDED);
		put_locked(dev, work);
	}
	call->slow = slow;
	none = !dev->npolled;
	if (none)
		dev->polls = false;
	pthread_mutex_unlock(&dev->lock);
	queue_leave(dev, &scope);
	if (none)
		queue_unref(dev);
	return none;
}

static int poll_work(struct queue_device *dev, struct queue_work *work)
{
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->polls) {
		ret = event_promise();
		if (!ret) {
			dev->polls = true;
			queue_ref(dev);
			dev->polling.fn = poll_works;
			event_post(&dev->polling);
		}
	} else if (dev->polling.slow && !is_called(dev, work, RECORDED)) {
		event_kick();
	}
	work->polled = !ret;
	dev->npolled += work->polled;
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

/* ---------------------------------------------------------------- ends */

static int record_end(struct queue_device *dev, struct queue_work *work,
		      void *stream, int *eventfd)
{
	/* Late work has no host function: the polling thread writes the eventfd. */
	bool late = state_of(work) != NEW, calls = is_called(dev, work, NEW);
	int ret = 0;

	if (eventfd)
		ret = make_eventfds(work, eventfd);
	if (!ret && eventfd && calls)
		ret = queue_call_host(dev, stream, signal_work, work);
	if (!ret && !late)
		ret = record_event(dev, work, stream);
	if (!ret && eventfd)
		ret = poll_work(dev, work);
	return ret;
}

/* Whether every polled work has written its eventfd; poll_works() ends at its next call. */
static bool polls_in_vain(struct queue_device *dev)
{
	bool vain;

	pthread_mutex_lock(&dev->lock);
	vain = dev->polls;
	for (struct queue_work *w = dev->all_works; w && vain; w = w->all)
		vain = !w->polled || has_told(w);
	pthread_mutex_unlock(&dev->lock);
	return vain;
}

int queue_poll_end(struct queue_device *dev)
{
	int ret = 0;

	while (!ret && !event_is_here() && polls_in_vain(dev)) {
		event_kick();
		ret = event_turn();
		sched_yield();
	}
	return ret;
}

/*
 * Removes earlier work of this stream, because the new work runs after it. The handle may
 * name another stream by now, so the stream waits for the old work: on the same stream
 * this wait has no effect.
 */
static int supersede(struct queue_device *dev, struct queue_work *old, void *data)
{
	const struct queue_work *by = data;

	if (state_of(old) != RECORDED || !has_told(old) || old->handle != by->handle ||
	    old->access & ~by->access)
		return 0;
	return dev->ops->stream_wait(dev, by->handle, point_of(old)->event) ? 0 : QUEUE_OVER;
}

/* Gets a work for the use, which shares the event of `of`, if that is not NULL. */
static int get_for(const struct queue_use *use, void *stream, bool late, struct queue_work *of,
		   struct queue_work **out)
{
	struct queue_work by = { .access = use->access, .handle = stream }, *work;
	struct queue_device *dev = use->m->dev;
	int ret;

	if (dev->slow_query && !late)
		each(dev, &use->m->works, supersede, &by);
	each(dev, &use->m->works, over, NULL);
	ret = queue_work_get(dev, out);
	if (ret)
		return ret;
	work = *out;
	work->access = use->access;
	work->id = use->m->base.id;
	work->handle = stream;
	work->copies = use->copies ? use->m->buffer : NULL;
	__atomic_store_n(&work->of, queue_work_ref(dev, of), __ATOMIC_RELEASE);
	return 0;
}

int queue_work_add_all(const struct queue_use *uses, uint32_t n, void *stream, int late,
		       int *eventfd)
{
	struct queue_work *works[QUEUE_MAX_USES] = { NULL }, *work;
	struct queue_device *dev = uses->m->dev;
	int ret = 0;

	if (eventfd)
		*eventfd = -1;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = get_for(&uses[i], stream, late, works[0], &works[i]);
	work = works[0];
	if (!ret) {
		if (late && late != -EBUSY && dev->orphans)
			set_gone(dev, work);
		else if (late)
			set_state(work, LATE);
		ret = record_end(dev, work, stream, eventfd);
	}
	for (uint32_t i = 0; i < n && !ret; i++)
		list_add(dev, &uses[i].m->works, works[i]);
	if (!ret)
		return 0;
	for (uint32_t i = 1; i < n; i++)
		queue_work_put(dev, works[i]);
	/* No event could be made: waits until the work is complete. */
	log_at(DLBUF_LOG_INFO, "%s: waiting for a stream: %s", dev->base.name,
	       dlbuf_last_error());
	if (eventfd && *eventfd >= 0) {
		close(*eventfd);
		*eventfd = -1;
	}
	ret = late ? dev->ops->finish_all(dev) : dev->ops->finish(dev, stream);
	/*
	 * Host functions that run on a lost device keep the memory; this does not wait for them.
	 */
	if (ret)
		queue_set_unsure(dev);
	if (!work)
		return ret;
	work->copies = NULL;
	signal_work(work);
	/* If the stream had the host function, it has called it by now. */
	if (!ret)
		queue_work_put(dev, work);
	else if (late)
		list_add(dev, &uses->m->works, work);
	return ret;
}

int queue_work_add(struct queue_memory *m, uint32_t access, void *stream)
{
	return queue_work_add_all(&(struct queue_use){ m, access, false }, 1, stream, 0, NULL);
}

/*
 * Tries to record the event of late work. RECORDED: the event is recorded, or the work is over.
 */
static int stays_late(struct queue_device *dev, struct queue_work *work)
{
	return state_of(work) != RECORDED && !is_over(dev, work) ? state_of(work) :
								   RECORDED;
}

/* Few APIs have a wait with a timeout, so this polls, with growing pauses. */
static int wait_until(struct queue_device *dev, struct queue_work *work,
		      uint64_t deadline_ns)
{
	struct timespec pause = PAUSE_FIRST;
	int ret;

	if (!deadline_ns && state_of(work) == RECORDED && dev->ops->event_wait)
		return queue_failed(dev, dev->ops->event_wait(dev, point_of(work)->event));
	for (;;) {
		ret = query_work(dev, work);
		if (ret <= 0)
			return ret;
		if (!deadline_ns && state_of(work) == LATE)
			return fail(-EBUSY, "%s: work on the dma-buf ends on a "
				    "stream that is being captured",
				    dev->base.name);
		if (!pause_until(&pause, deadline_ns))
			return fail(-ETIME, "%s: the device's work on the dma-buf "
				    "was not complete at the deadline",
				    dev->base.name);
	}
}

int queue_work_await(struct queue_device *dev, struct queue_work *work, void *stream)
{
	return work && state_of(work) == RECORDED ?
	       dev->ops->stream_wait(dev, stream, point_of(work)->event) : 0;
}

int queue_work_mark(struct queue_device *dev, struct queue_work **at, void *stream)
{
	struct queue_work *work, *last = *at;
	int ret = queue_work_get(dev, &work);

	if (ret)
		return ret;
	ret = record_event(dev, work, stream);
	if (!ret)
		*at = work;
	queue_work_put(dev, ret ? work : last);
	return ret;
}

int queue_work_end(struct queue_device *dev, struct queue_work *work)
{
	int ret = work ? wait_until(dev, work, 0) : 0;

	queue_work_put(dev, work);
	return ret;
}

static int order_after(struct queue_device *dev, struct queue_work *work, void *stream)
{
	int late = stays_late(dev, work);

	if (late == LATE)
		return fail(-EBUSY, "%s: an access ends on a stream that is "
			    "being captured", dev->base.name);
	if (late != RECORDED)
		return wait_until(dev, work, 0);
	return queue_work_await(dev, work, stream);
}

int queue_work_order(struct queue_memory *m, void *stream)
{
	return each(m->dev, &m->works, order_after, stream);
}

struct waiting {
	uint32_t access;
	uint64_t deadline_ns;
	struct watched *watched;
};

/* A reader waits for writers, a writer for readers and writers. */
static bool conflicts(const struct waiting *w, const struct queue_work *work)
{
	return (w->access | work->access) & DLBUF_WRITE;
}

static int wait_for_work(struct queue_device *dev, struct queue_work *work, void *data)
{
	struct waiting *w = data;
	int ret = 0;

	if (!is_over(dev, work)) {
		if (!conflicts(w, work))
			return 0;
		ret = wait_until(dev, work, w->deadline_ns);
	}
	return ret && !queue_is_dead(dev) ? ret : QUEUE_OVER;
}

int queue_work_wait(struct queue_memory *m, uint32_t access,
		    uint64_t deadline_ns)
{
	struct waiting w = { access, deadline_ns, NULL };

	return each(m->dev, &m->works, wait_for_work, &w);
}

int queue_wait(struct import *imp, uint32_t access, uint64_t deadline_ns)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	int ret;

	ret = queue_enter(m->dev, &scope);
	if (ret)
		return ret;
	ret = queue_work_wait(m, access, deadline_ns);
	queue_leave(m->dev, &scope);
	return ret;
}

static int watch_add(struct queue_device *dev, struct queue_work *work,
		     void *data)
{
	struct waiting *waiting = data;
	struct watched *w;

	if (is_over(dev, work))
		return QUEUE_OVER;
	if (!conflicts(waiting, work))
		return 0;
	w = sys_calloc(1, sizeof(*w));
	if (!w)
		return fail(-ENOMEM, "no memory to wait for work");
	*w = (struct watched){ queue_work_ref(dev, work), waiting->watched };
	waiting->watched = w;
	return 0;
}

/* Begins to poll for the works of the list, which it takes on success. */
static int watch_begin(struct queue_device *dev, struct watched *first, int *out)
{
	struct watch *w = sys_calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return fail(-ENOMEM, "no memory to wait for work");
	*w = (struct watch){ .call.fn = poll_watch, .dev = dev, .first = first };
	ret = fence_event(&w->writer, out);
	if (ret) {
		free(w);
		return ret;
	}
	ret = event_promise();
	if (!ret) {
		queue_ref(dev);
		event_post(&w->call);
		return 0;
	}
	close(w->writer);
	close(*out);
	*out = -1;
	free(w);
	return ret;
}

int queue_pending(struct import *imp, uint32_t access, int *out)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct waiting waiting = { .access = access };
	struct queue_device *dev = m->dev;
	struct queue_scope scope;
	int ret;

	*out = -1;
	ret = queue_enter(dev, &scope);
	if (ret)
		return ret;
	ret = each(dev, &m->works, watch_add, &waiting);
	if (!ret && waiting.watched)
		ret = watch_begin(dev, waiting.watched, out);
	if (ret)
		unwatch(dev, &waiting.watched, true);
	queue_leave(dev, &scope);
	return ret;
}

/* Polls, and dispatches if the application runs the loop: a stream may wait for a user event. */
static int drain_work(struct queue_device *dev, struct queue_work *work,
		      uint64_t deadline_ns)
{
	struct timespec pause = PAUSE_FIRST;
	int ret = 0;

	while (!ret && !is_over(dev, work)) {
		if (!deadline_ns && state_of(work) == LATE)
			return wait_until(dev, work, 0);
		ret = event_turn();
		if (!ret && !pause_until(&pause, deadline_ns))
			ret = wait_until(dev, work, deadline_ns);
	}
	return ret;
}

/* Waits for all works that have a user: on a list, or not added to one yet. */
int queue_work_drain(struct queue_device *dev, uint64_t deadline_ns)
{
	struct queue_work *work;
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	for (work = dev->all_works; work && !ret; work = work->all) {
		if (!work->refs)
			continue;
		work->refs++;
		pthread_mutex_unlock(&dev->lock);
		ret = drain_work(dev, work, deadline_ns);
		pthread_mutex_lock(&dev->lock);
		put_locked(dev, work);
	}
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

int queue_wait_begun(struct queue_device *dev, struct queue_work *work, void *stream,
		     uint64_t n)
{
	int ret = record_event(dev, work, stream);

	if (ret) {
		queue_set_unsure(dev);
		queue_work_put(dev, work);
		return ret;
	}
	work->wait = n;
	list_add(dev, &dev->waits, work);
	return 0;
}

bool queue_waits_stand(struct queue_device *dev, uint64_t next)
{
	const struct queue_work *w;

	each(dev, &dev->waits, over, NULL);
	pthread_mutex_lock(&dev->lock);
	for (w = dev->waits; w && w->wait >= next; )
		w = w->next;
	pthread_mutex_unlock(&dev->lock);
	return w;
}

static int finish_work(struct queue_device *dev, struct queue_work *work, void *data)
{
	(void)data;
	if (stays_late(dev, work) == LATE)
		queue_set_unsure(dev);
	else
		wait_until(dev, work, 0);
	return QUEUE_OVER;
}

/* Errors do not matter here: a lost device runs only host functions. */
void queue_work_finish(struct queue_device *dev, struct queue_work **works)
{
	each(dev, works, finish_work, NULL);
	queue_wait_dead(dev);
}

void queue_works_lost(struct queue_device *dev)
{
	for (struct queue_work *w = dev->all_works; w; w = w->all)
		signal_work(w);
}

void queue_works_free(struct queue_device *dev)
{
	struct queue_work *work;

	while ((work = dev->all_works)) {
		dev->all_works = work->all;
		if (work->event)
			dev->ops->event_destroy(dev, work->event);
		free(work);
	}
}
