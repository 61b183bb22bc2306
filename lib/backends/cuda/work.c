// SPDX-License-Identifier: MIT
/*
 * Work that was released. Each is an event on its stream, for those who order
 * themselves behind it here; where somebody asked it also writes to an eventfd,
 * from a function that the stream calls.
 *
 * That function is called before the event is recorded, so that an event which
 * is over means that nothing of the work will be touched any more; and it is not
 * called when the context is lost, which cuda_lost() makes up for.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>

#include "../../event.h"
#include "../../fence.h"
#include "cuda.h"

/*
 * An eventfd that counts down by one for each reader stays readable for all of
 * them: the library waits for it, and the caller may read his.
 */
#define FOR_EVER (UINT64_MAX - 1)

static void tell(int *eventfd)
{
	int fd = __atomic_exchange_n(eventfd, -1, __ATOMIC_ACQ_REL);
	uint64_t n = FOR_EVER;
	ssize_t written;

	if (fd < 0)
		return;
	written = write(fd, &n, sizeof(n));
	(void)written;
	close(fd);
}

/* On a thread of the driver's: no call of CUDA. */
static void work_done(void *data)
{
	struct cuda_work *work = data;

	tell(&work->eventfd);
}

void cuda_lost_locked(struct cuda_device *dev)
{
	for (struct cuda_work *w = dev->all_works; w; w = w->all)
		tell(&w->eventfd);
	dev->lost = true;
	cuda_bridge_lost(dev);
}

void cuda_lost(struct cuda_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	cuda_lost_locked(dev);
	pthread_mutex_unlock(&dev->lock);
}

/* Under the lock. */
static int work_get(struct cuda_device *dev, struct cuda_work **out)
{
	struct cuda_work *work = dev->free_works;
	int ret;

	if (work) {
		dev->free_works = work->next;
		*out = work;
		return 0;
	}
	work = sys_calloc(1, sizeof(*work));
	if (!work)
		return fail(-ENOMEM, "no memory for an event");
	ret = CUDA_DO_LOCKED(dev, EventCreate, &work->event,
			     CUABI_EVENT_DISABLE_TIMING |
			     CUABI_EVENT_BLOCKING_SYNC);
	if (ret) {
		free(work);
		return ret;
	}
	work->eventfd = -1;
	work->all = dev->all_works;
	dev->all_works = work;
	*out = work;
	return 0;
}

void cuda_set_unsure(struct cuda_device *dev)
{
	__atomic_store_n(&dev->unsure, true, __ATOMIC_RELEASE);
}

void cuda_settle(struct cuda_device *dev)
{
	if (__atomic_exchange_n(&dev->unsure, false, __ATOMIC_ACQ_REL))
		dev->cu.CtxSynchronize();
}

static void work_put(struct cuda_device *dev, struct cuda_work *work)
{
	pthread_mutex_lock(&dev->lock);
	work->next = dev->free_works;
	dev->free_works = work;
	pthread_mutex_unlock(&dev->lock);
}

/* Two fds of one eventfd: the caller's, and one for the work to write to. */
static int make_eventfds(struct cuda_work *work, int *out)
{
	int fd = fault_hit() ? -1 : eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE |
					    EFD_NONBLOCK);
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

static int record(struct cuda_device *dev, struct cuda_work *work,
		  cuda_stream stream, int *fence)
{
	int fd = -1, ret = 0;

	if (fence)
		ret = make_eventfds(work, &fd);
	if (!ret && fence)
		ret = CUDA_DO(dev, LaunchHostFunc, stream, work_done, work);
	if (!ret)
		ret = CUDA_DO(dev, EventRecord, work->event, stream);
	if (!ret && fence)
		*fence = fd;
	else if (fd >= 0)
		close(fd);
	return ret;
}

int cuda_work_add(struct cuda_import *ci, uint32_t access, cuda_stream stream,
		  int *fence)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);
	struct cuda_work *work = NULL;
	int ret;

	cuda_work_reap(ci);
	pthread_mutex_lock(&dev->lock);
	ret = work_get(dev, &work);
	pthread_mutex_unlock(&dev->lock);
	if (ret)
		goto wait;
	work->access = access;
	work->users = 0;
	ret = record(dev, work, stream, fence);
	if (ret)
		goto wait;
	pthread_mutex_lock(&dev->lock);
	work->next = ci->works;
	ci->works = work;
	pthread_mutex_unlock(&dev->lock);
	return 0;

wait:
	/* Without an event: the work is over when this comes back. */
	log_at(DLBUF_LOG_INFO, "%s: waiting for a stream: %s", dev->base.name,
	       dlbuf_last_error());
	if (fence)
		*fence = -1;
	ret = CUDA_DO(dev, StreamSynchronize, stream);
	if (ret)
		cuda_set_unsure(dev);
	if (work)
		tell(&work->eventfd);
	/* The stream may have been given the function, and has called it. */
	if (work && !ret)
		work_put(dev, work);
	return ret;
}

/* Under the lock. */
static bool is_over(struct cuda_device *dev, struct cuda_work *work)
{
	cuda_result result;

	if (work->users)
		return false;
	result = CUDA_RESULT(&dev->cu, EventQuery, work->event);
	if (cuda_is_lost(result))
		cuda_lost_locked(dev);
	else if (result != CUABI_SUCCESS)
		return false;
	tell(&work->eventfd);
	return true;
}

static bool reap(struct cuda_device *dev, struct cuda_work **works)
{
	struct cuda_work **p = works, *work;
	bool none;

	pthread_mutex_lock(&dev->lock);
	while ((work = *p)) {
		if (!is_over(dev, work)) {
			p = &work->next;
			continue;
		}
		*p = work->next;
		work->next = dev->free_works;
		dev->free_works = work;
	}
	none = !*works;
	pthread_mutex_unlock(&dev->lock);
	return none;
}

bool cuda_work_reap(struct cuda_import *ci)
{
	return reap(to_cuda(ci->base.dev), &ci->works);
}

int cuda_work_order(struct cuda_import *ci, cuda_stream stream)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	for (struct cuda_work *w = ci->works; w && !ret; w = w->next)
		ret = CUDA_DO_LOCKED(dev, StreamWaitEvent, stream, w->event, 0);
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CUDA has no wait with an end: asks, less and less often. */
static int wait_until(struct cuda_device *dev, cuda_event event,
		      uint64_t deadline_ns)
{
	struct timespec pause = { .tv_nsec = 10000 };
	cuda_result result;

	for (;;) {
		result = CUDA_RESULT(&dev->cu, EventQuery, event);
		if (result != CUABI_NOT_READY)
			return cuda_done(dev, result, "cuEventQuery");
		if (now() >= deadline_ns)
			return fail(-ETIME, "%s: work of it on the dma-buf was "
				    "not over at the deadline", dev->base.name);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 1000000)
			pause.tv_nsec *= 2;
	}
}

/* A reader waits for writers, a writer for everybody. */
static struct cuda_work *find_conflict(struct cuda_import *ci, uint32_t access)
{
	struct cuda_work *w = ci->works;

	while (w && !((access | w->access) & DLBUF_WRITE))
		w = w->next;
	return w;
}

int cuda_work_wait(struct cuda_import *ci, uint32_t access,
		   uint64_t deadline_ns)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);
	struct cuda_work *work;
	int ret = 0;

	while (!ret && !cuda_work_reap(ci)) {
		pthread_mutex_lock(&dev->lock);
		work = find_conflict(ci, access);
		if (work)
			work->users++;
		pthread_mutex_unlock(&dev->lock);
		if (!work)
			break;
		ret = deadline_ns ? wait_until(dev, work->event, deadline_ns) :
		      CUDA_DO(dev, EventSynchronize, work->event);
		pthread_mutex_lock(&dev->lock);
		work->users--;
		pthread_mutex_unlock(&dev->lock);
	}
	return ret;
}

/* ---------------------------------------------------------------- flags */

int cuda_wait_get(struct cuda_device *dev, struct cuda_work **out)
{
	int ret;

	reap(dev, &dev->waits);
	pthread_mutex_lock(&dev->lock);
	ret = work_get(dev, out);
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

void cuda_wait_abandon(struct cuda_device *dev, struct cuda_work *work)
{
	work_put(dev, work);
}

int cuda_wait_begin(struct cuda_device *dev, struct cuda_work *work,
		    cuda_stream stream)
{
	int ret = CUDA_DO(dev, EventRecord, work->event, stream);

	if (ret) {
		cuda_set_unsure(dev);
		work_put(dev, work);
		return ret;
	}
	work->users = 0;
	pthread_mutex_lock(&dev->lock);
	work->next = dev->waits;
	dev->waits = work;
	pthread_mutex_unlock(&dev->lock);
	return 0;
}

/* ---------------------------------------------------------------- the end */

/*
 * What the GPU may still use, given up on the event thread: a stream may be
 * waiting for that, so that it must not wait for the stream.
 */
struct leftover {
	struct cuda_device *dev;
	struct cuda_memory *memory; /* or NULL: flags, of the device */
	struct cuda_work *works;
	struct cuda_work ready;	/* tells the event thread */
};

/* They are over. */
static void put_all(struct cuda_device *dev, struct cuda_work **works)
{
	struct cuda_work *work;

	while ((work = *works)) {
		*works = work->next;
		tell(&work->eventfd);
		work_put(dev, work);
	}
}

/* Whatever comes of it: a context that is lost does nothing any more. */
static void wait_for_all(struct cuda_device *dev, struct cuda_work *works)
{
	for (; works; works = works->next)
		dev->cu.EventSynchronize(works->event);
}

static void leftover_free(void *data)
{
	struct leftover *left = data;
	struct cuda_device *dev = left->dev;
	struct cuda_scope scope;

	/* Whoever has told is done with it. */
	tell(&left->ready.eventfd);
	put_all(dev, &left->works);
	if (left->memory) {
		cuda_enter_to_free(dev, &scope);
		cuda_memory_free(left->memory);
		cuda_leave(dev, &scope);
	}
	free(left);
	cuda_unref(dev);
}

/* A stream of ours, behind the works, calls when they are over. */
static int call_when_over(struct cuda_device *dev, struct leftover *left)
{
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->cleanup)
		ret = CUDA_DO_LOCKED(dev, StreamCreate, &dev->cleanup,
				     CUABI_STREAM_NON_BLOCKING);
	for (struct cuda_work *w = left->works; w && !ret; w = w->next)
		ret = CUDA_DO_LOCKED(dev, StreamWaitEvent, dev->cleanup,
				     w->event, 0);
	/* While it frees the driver may wait for streams that wait for these. */
	for (struct cuda_work *w = dev->waits; w && !ret; w = w->next)
		ret = CUDA_DO_LOCKED(dev, StreamWaitEvent, dev->cleanup,
				     w->event, 0);
	pthread_mutex_unlock(&dev->lock);
	return ret ? ret : CUDA_DO(dev, LaunchHostFunc, dev->cleanup,
				   work_done, &left->ready);
}

/* Under no lock. 0: the event thread will free it. */
static int leave_to_event(struct cuda_device *dev, struct leftover *left)
{
	int fd, ret;

	ret = make_eventfds(&left->ready, &fd);
	if (ret)
		return ret;
	cuda_ref(dev);
	ret = event_add(fd, leftover_free, left);
	if (ret) {
		cuda_unref(dev);
		tell(&left->ready.eventfd);
		goto out;
	}
	/* From here on it is the event's, which has to come. */
	if (call_when_over(dev, left)) {
		wait_for_all(dev, left->works);
		tell(&left->ready.eventfd);
	}
out:
	close(fd);
	return ret;
}

/* False: nobody could be told when they are over. */
static bool leave(struct cuda_device *dev, struct cuda_memory *m,
		  struct cuda_work *works)
{
	struct leftover *left = sys_calloc(1, sizeof(*left));

	if (!left)
		return false;
	*left = (struct leftover){
		.dev = dev, .memory = m, .works = works, .ready.eventfd = -1,
	};
	if (!leave_to_event(dev, left))
		return true;
	forget_failure();
	free(left);
	return false;
}

void cuda_work_finish(struct cuda_import *ci, struct cuda_memory *m)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);

	bool waits = !reap(dev, &dev->waits), over = cuda_work_reap(ci);

	if ((waits || (!over && event_is_here())) && leave(dev, m, ci->works))
		return;
	if (!over) {
		wait_for_all(dev, ci->works);
		put_all(dev, &ci->works);
	}
	cuda_memory_free(m);
}

void cuda_waits_finish(struct cuda_device *dev)
{
	if (reap(dev, &dev->waits) || leave(dev, NULL, dev->waits))
		return;
	wait_for_all(dev, dev->waits);
	put_all(dev, &dev->waits);
}

void cuda_works_free(struct cuda_device *dev)
{
	struct cuda_work *work;

	if (dev->cleanup)
		dev->cu.StreamDestroy(dev->cleanup);
	while ((work = dev->all_works)) {
		dev->all_works = work->all;
		dev->cu.EventDestroy(work->event);
		free(work);
	}
}
