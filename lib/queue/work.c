// SPDX-License-Identifier: MIT
/*
 * Work that was released. Each is an event on its stream, for those who order
 * themselves behind it here; where somebody asked it also writes to an eventfd,
 * from a function that the stream calls, or else by "dlbuf-events", which polls.
 *
 * That function is called before the event is recorded, so that an event which
 * is over means that nothing of the work will be touched any more; and it is not
 * called when the device is lost, which queue_lost() makes up for.
 *
 * Drivers are asked without the lock: who asks about a work holds a reference.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>

#include "../fence.h"
#include "queue.h"

/*
 * An eventfd that counts down by one for each reader stays readable for all of
 * them: the library waits for it, and the caller may read his.
 */
#define FOR_EVER (UINT64_MAX - 1)

struct queue_work {
	void *event;
	uint32_t access;
	int eventfd;		/* atomic; to write to, -1: nobody asks, or done */
	bool late;		/* atomic; handle's stream is to record the event */
	void *handle;
	/* Under dev->lock. */
	unsigned int refs;	/* the list's, and those who ask about it */
	bool listed;
	bool polled;		/* counted in dev->npolled */
	struct queue_work *next;	/* of a list, or of those that are free */
	struct queue_work *all;	/* of the device; for good */
};

/* Also called on a thread of the driver's: makes no call of it. */
static void tell(void *data)
{
	struct queue_work *work = data;
	int fd = __atomic_exchange_n(&work->eventfd, -1, __ATOMIC_ACQ_REL);
	uint64_t n = FOR_EVER;
	ssize_t written;

	if (fd < 0)
		return;
	written = write(fd, &n, sizeof(n));
	(void)written;
	close(fd);
}

static bool is_lost(const struct queue_device *dev)
{
	return __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE);
}

static bool is_late(const struct queue_work *work)
{
	return __atomic_load_n(&work->late, __ATOMIC_ACQUIRE);
}

int queue_work_get(struct queue_device *dev, struct queue_work **out)
{
	struct queue_work *work;
	int ret;

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
	ret = dev->ops->event_create(dev, &work->event);
	if (ret) {
		free(work);
		return ret;
	}
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
	__atomic_store_n(&work->late, false, __ATOMIC_RELAXED);
	work->next = dev->free_works;
	dev->free_works = work;
}

void queue_work_put(struct queue_device *dev, struct queue_work *work)
{
	pthread_mutex_lock(&dev->lock);
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

/* Under the lock: it is over. Takes the list's reference. */
static void list_remove(struct queue_device *dev, struct queue_work **list,
			struct queue_work *work)
{
	while (*list != work)
		list = &(*list)->next;
	*list = work->next;
	work->listed = false;
	dev->npolled -= work->polled;
	work->polled = false;
	tell(work);
	put_locked(dev, work);
}

/* A stream that could not be given the event is asked again. */
static bool record_late(struct queue_device *dev, struct queue_work *work)
{
	void *stream;
	int ret;

	ret = dev->ops->stream(dev, work->handle, true, &stream);
	if (ret == -EBUSY) {
		forget_failure();
		return false;
	}
	if (!ret)
		ret = dev->ops->event_record(dev, work->event, stream);
	if (!ret) {
		__atomic_store_n(&work->late, false, __ATOMIC_RELEASE);
		return false;
	}
	/* The stream is gone, its work perhaps not. */
	return !dev->ops->finish_all(dev);
}

/* Without the lock, with a reference: 0, QUEUE_PENDING or an error. */
static int query(struct queue_device *dev, struct queue_work *work)
{
	if (is_lost(dev))
		return 0;
	if (is_late(work) && record_late(dev, work))
		return 0;
	return is_late(work) ? QUEUE_PENDING :
			       dev->ops->event_query(dev, work->event);
}

static bool is_over(struct queue_device *dev, struct queue_work *work)
{
	/* An error is no answer, but that of a device that is lost is. */
	return !query(dev, work) || is_lost(dev);
}

/*
 * Calls fn for each work of a list, without the lock, up to the first error.
 * Takes those off for which fn returns QUEUE_OVER.
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
		/* Where somebody else has taken it off, what follows may be, too. */
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
	none = !*works;
	pthread_mutex_unlock(&dev->lock);
	return none;
}

/* ---------------------------------------------------------------- telling */

/* Two fds of one eventfd: the caller's, and one for the work to write to. */
static int make_eventfds(struct queue_work *work, int *out)
{
	int fd = sys_eventfd(EFD_SEMAPHORE | EFD_NONBLOCK);
	int ret, high;

	if (fd < 0)
		return fail_errno("eventfd()");
	ret = raise_fd(fd, &high);
	if (ret)
		return ret;
	fd = sys_dup(high);
	if (fd < 0) {
		ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
		close(high);
		return ret;
	}
	__atomic_store_n(&work->eventfd, fd, __ATOMIC_RELEASE);
	*out = high;
	return 0;
}

/* On "dlbuf-events": whoever asked is told, and nobody else asks the driver. */
static bool poll_works(struct event_call *call)
{
	struct queue_device *dev = container_of(call, struct queue_device,
						polling);
	struct queue_scope scope;
	struct queue_work *work;
	bool none;

	queue_enter_to_free(dev, &scope);
	pthread_mutex_lock(&dev->lock);
	for (work = dev->all_works; work; work = work->all) {
		if (!work->polled)
			continue;
		work->refs++;
		pthread_mutex_unlock(&dev->lock);
		none = is_over(dev, work);
		if (none)
			tell(work);
		pthread_mutex_lock(&dev->lock);
		if (none && work->polled) {
			work->polled = false;
			dev->npolled--;
		}
		put_locked(dev, work);
	}
	none = !dev->npolled;
	pthread_mutex_unlock(&dev->lock);
	queue_leave(dev, &scope);
	if (none)
		queue_unref(dev);
	return none;
}

static int begin_to_poll(struct queue_device *dev, struct queue_work *work)
{
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->npolled)
		ret = event_promise();
	if (!ret && !dev->npolled++) {
		queue_ref(dev);
		dev->polling.fn = poll_works;
		event_post(&dev->polling);
	}
	work->polled = !ret;
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

/* ---------------------------------------------------------------- ends */

static int record(struct queue_device *dev, struct queue_work *work,
		  void *stream, int *eventfd)
{
	/* Whoever finds out that late work is over tells. */
	bool late = is_late(work), calls = dev->ops->call_host && !late;
	int ret = 0;

	if (eventfd)
		ret = make_eventfds(work, eventfd);
	if (!ret && eventfd && calls)
		ret = dev->ops->call_host(dev, stream, tell, work);
	if (!ret && !late)
		ret = dev->ops->event_record(dev, work->event, stream);
	if (!ret && eventfd && !calls)
		ret = begin_to_poll(dev, work);
	return ret;
}

int queue_work_add(struct queue_memory *m, uint32_t access, void *stream,
		   bool late, int *eventfd)
{
	struct queue_device *dev = m->dev;
	struct queue_work *work;
	int ret;

	if (eventfd)
		*eventfd = -1;
	queue_reap(dev, &m->works);
	ret = queue_work_get(dev, &work);
	if (!ret) {
		work->access = access;
		work->handle = stream;
		__atomic_store_n(&work->late, late, __ATOMIC_RELEASE);
		ret = record(dev, work, stream, eventfd);
		if (!ret) {
			list_add(dev, &m->works, work);
			return 0;
		}
	}
	/* Without an event: the work is over when this comes back. */
	log_at(DLBUF_LOG_INFO, "%s: waiting for a stream: %s", dev->base.name,
	       dlbuf_last_error());
	if (eventfd && *eventfd >= 0) {
		close(*eventfd);
		*eventfd = -1;
	}
	ret = late ? dev->ops->finish_all(dev) : dev->ops->finish(dev, stream);
	if (ret)
		queue_set_unsure(dev);
	if (!work)
		return ret;
	tell(work);
	/* The stream may have been given the function, and has called it. */
	if (!ret)
		queue_work_put(dev, work);
	else if (late)
		list_add(dev, &m->works, work);
	return ret;
}

/* Whether the stream of work that ends late still takes no event. */
static bool stays_late(struct queue_device *dev, struct queue_work *work)
{
	return is_late(work) && !is_over(dev, work) && is_late(work);
}

static int order(struct queue_device *dev, struct queue_work *work, void *stream)
{
	if (stays_late(dev, work))
		return fail(-EBUSY, "%s: an access ends on a stream that is "
			    "being captured", dev->base.name);
	return dev->ops->stream_wait(dev, stream, work->event);
}

int queue_work_order(struct queue_memory *m, void *stream)
{
	return each(m->dev, &m->works, order, stream);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Few APIs have a wait with an end: asks, less and less often. */
static int wait_until(struct queue_device *dev, struct queue_work *work,
		      uint64_t deadline_ns)
{
	struct timespec pause = { .tv_nsec = 10000 };
	int ret;

	if (!deadline_ns && !is_late(work) && dev->ops->event_wait)
		return dev->ops->event_wait(dev, work->event);
	for (;;) {
		ret = query(dev, work);
		if (ret <= 0)
			return ret;
		if (!deadline_ns && is_late(work))
			return fail(-EBUSY, "%s: work on the dma-buf ends on a "
				    "stream that is being captured",
				    dev->base.name);
		if (deadline_ns && now() >= deadline_ns)
			return fail(-ETIME, "%s: work of it on the dma-buf was "
				    "not over at the deadline", dev->base.name);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 1000000)
			pause.tv_nsec *= 2;
	}
}

struct waiting {
	uint32_t access;
	uint64_t deadline_ns;
};

/* A reader waits for writers, a writer for everybody. */
static int wait_for(struct queue_device *dev, struct queue_work *work, void *data)
{
	const struct waiting *w = data;
	int ret;

	if (is_over(dev, work))
		return QUEUE_OVER;
	if (!((w->access | work->access) & DLBUF_WRITE))
		return 0;
	ret = wait_until(dev, work, w->deadline_ns);
	return ret ? ret : QUEUE_OVER;
}

int queue_work_wait(struct queue_memory *m, uint32_t access,
		    uint64_t deadline_ns)
{
	struct waiting w = { access, deadline_ns };

	return each(m->dev, &m->works, wait_for, &w);
}

int queue_wait_begun(struct queue_device *dev, struct queue_work *work,
		     void *stream)
{
	int ret = dev->ops->event_record(dev, work->event, stream);

	if (ret) {
		queue_set_unsure(dev);
		queue_work_put(dev, work);
		return ret;
	}
	list_add(dev, &dev->waits, work);
	return 0;
}

static int finish(struct queue_device *dev, struct queue_work *work, void *data)
{
	(void)data;
	if (stays_late(dev, work))
		queue_set_unsure(dev);
	else
		wait_until(dev, work, 0);
	return QUEUE_OVER;
}

/* Whatever comes of it: a device that is lost does nothing any more. */
void queue_work_finish(struct queue_device *dev, struct queue_work **works)
{
	each(dev, works, finish, NULL);
}

void queue_works_lost(struct queue_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	for (struct queue_work *w = dev->all_works; w; w = w->all)
		tell(w);
	pthread_mutex_unlock(&dev->lock);
}

void queue_works_free(struct queue_device *dev)
{
	struct queue_work *work;

	while ((work = dev->all_works)) {
		dev->all_works = work->all;
		dev->ops->event_destroy(dev, work->event);
		free(work);
	}
}
