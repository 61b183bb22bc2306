// SPDX-License-Identifier: MIT
/*
 * Acquire and release on a stream. Some memory needs more than fences: memory that is a copy,
 * memory that needs begin() and end() of the driver, and host memory of a device that is a CPU.
 */
#include <errno.h>
#include <stdio.h>

#include <linux/dma-buf.h>

#include "../dmabuf/fence.h"
#include "engine.h"

/* ---------------------------------------------------------------- begin, end */

static int begin_first(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret;

	if (m->copied)
		return queue_copy_in(m, stream, fence);
	ret = queue_work_order(m, stream);
	if (!ret)
		ret = queue_wait_fence(dev, stream, fence);
	if (ret || m->held)
		return ret;
	ret = dev->ops->begin(m, stream);
	m->held = !ret;
	m->held_for = 0;
	return ret;
}

static int record_begun(struct queue_memory *m, void *stream, int ret)
{
	if (!ret)
		ret = queue_work_mark(m->dev, &m->begun, stream);
	/* Calls before the failed one may have put work on the stream. */
	if (ret && queue_work_add(m, DLBUF_RW, stream))
		queue_set_unsure(m->dev);
	return ret;
}

/*
 * Accesses that overlap share one copy, or one begin(): the first access makes it, and
 * the streams of the others wait for it.
 */
static int access_begin(struct queue_memory *m, uint32_t access, void *stream,
		       int fence)
{
	struct queue_device *dev = m->dev;
	bool first;
	int ret;

	pthread_mutex_lock(&m->order_lock);
	pthread_mutex_lock(&dev->lock);
	first = !m->open;
	pthread_mutex_unlock(&dev->lock);
	ret = queue_work_await(dev, m->begun, stream);
	if (!ret)
		ret = first ? record_begun(m, stream, begin_first(m, stream, fence)) :
			      queue_wait_fence(dev, stream, fence);
	if (!ret) {
		pthread_mutex_lock(&dev->lock);
		m->open++;
		pthread_mutex_unlock(&dev->lock);
		m->held_for |= access;
		if (m->copied)
			cache_count_copy(&dev->base.cache, first ? m->base.bytes : 0);
	}
	pthread_mutex_unlock(&m->order_lock);
	return ret;
}

/*
 * The last access that ends calls end(), after the work of all the others. So each
 * access adds its work before the next one ends.
 */
static int access_end(struct queue_memory *m, void *stream)
{
	struct queue_device *dev = m->dev;
	int ret = 0;
	bool last;

	pthread_mutex_lock(&m->order_lock);
	pthread_mutex_lock(&dev->lock);
	last = !--m->open;
	pthread_mutex_unlock(&dev->lock);
	if (!last)
		ret = queue_work_add(m, DLBUF_READ, stream);
	if (last && m->held) {
		ret = queue_work_await(dev, m->begun, stream);
		if (!ret)
			ret = queue_work_order(m, stream);
		if (!ret)
			ret = dev->ops->end(m, m->held_for, stream);
		m->held = ret;
		ret = record_begun(m, stream, ret);
	}
	pthread_mutex_unlock(&m->order_lock);
	return ret;
}

void queue_access_failed(struct queue_memory *m)
{
	log_at(DLBUF_LOG_ERROR, "%s: %s", m->dev->base.name, dlbuf_last_error());
	__atomic_store_n(&m->failed, true, __ATOMIC_RELEASE);
}

int queue_access_check(struct queue_memory *m)
{
	/* Two threads may both get the error. Some CPUs lack an exchange of bytes. */
	if (!__atomic_load_n(&m->failed, __ATOMIC_ACQUIRE))
		return 0;
	__atomic_store_n(&m->failed, false, __ATOMIC_RELAXED);
	return fail(-EIO, "%s: the last access to this dma-buf failed on the stream",
		    m->dev->base.name);
}

void queue_access_over(struct queue_memory *m)
{
	pthread_mutex_lock(&m->dev->lock);
	m->open--;
	pthread_mutex_unlock(&m->dev->lock);
}

/* ---------------------------------------------------------------- the CPU */

#if defined(__x86_64__) || defined(__i386__)
#define SHARED_CACHES true	/* devices read and write through the CPU's caches */
#else
#define SHARED_CACHES false
#endif

/*
 * START begins with the CPU's caches, and then waits for all fences that the dma-buf has.
 * The stream has waited for those of the acquire. Other fences were added later, perhaps
 * by work that waits for this function: then START would never return. So it is left out.
 */
void queue_cpu_start(struct queue_memory *m, uint32_t access)
{
	int ret = bracket_idle(m->base.fd, DMA_BUF_SYNC_START | access);

	if (!ret)
		__atomic_store_n(&m->unstarted, true, __ATOMIC_RELAXED);
	if (!ret && access & DLBUF_READ && !SHARED_CACHES)
		ret = fail(-EIO, "a fence of later work was on the dma-buf when this access "
			   "began: the CPU's caches may have old bytes");
	if (ret < 0)
		queue_access_failed(m);
}

/* Without a START before, udmabuf refuses END (EINVAL). */
void queue_cpu_stop(struct queue_memory *m, uint32_t access)
{
	if (!bracket(m->base.fd, DMA_BUF_SYNC_END | access) ||
	    (errno == EINVAL && __atomic_load_n(&m->unstarted, __ATOMIC_RELAXED)))
		return;
	fail_errno("DMA_BUF_IOCTL_SYNC");
	queue_access_failed(m);
}

/* The driver calls these on its own threads, so they make no driver call. */
static void start_read(void *m)
{
	queue_cpu_start(m, DLBUF_READ);
}

static void start_write(void *m)
{
	queue_cpu_start(m, DLBUF_RW);
}

static void end_write(void *m)
{
	queue_cpu_stop(m, DLBUF_RW);
}

/* With a fence, the producer has not written yet: then the stream makes the call. */
static int cpu_begin(struct queue_memory *m, uint32_t access, void *stream,
		    int fence)
{
	bool writes = access & DLBUF_WRITE;
	int ret = queue_access_check(m);

	if (ret)
		return ret;
	if (fence == -1)
		return bracket(m->base.fd, DMA_BUF_SYNC_START | (writes ?
			       DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ)) ?
		       fail(-EIO, "%s: DMA_BUF_IOCTL_SYNC START: %m",
			    m->dev->base.name) : 0;
	ret = queue_wait_fence(m->dev, stream, fence);
	return ret ? ret : queue_call_host(m->dev, stream, writes ?
						  start_write : start_read, m);
}

/*
 * The end of a read changes no bytes, so it need not wait for the stream. If the stream has
 * not made the call of START yet, udmabuf refuses END (EINVAL).
 */
static int cpu_end(struct queue_memory *m, uint32_t access, void *stream)
{
	if (access & DLBUF_WRITE)
		return queue_call_host(m->dev, stream, end_write, m);
	bracket(m->base.fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return 0;
}

/* ---------------------------------------------------------------- acquire, release */

static bool is_no_order(const struct queue_device *dev, const void *handle)
{
	return handle && handle == dev->ops->no_order;
}

int queue_stream(struct dlbuf_device *base, struct access_stream *stream, bool ends)
{
	struct queue_device *dev = queue_device_of(base);
	struct queue_scope scope;
	int ret;

	if (is_no_order(dev, stream->handle))
		return STREAM_UNORDERED;
	ret = queue_enter(dev, &scope);
	if (!ret) {
		ret = queue_find_stream(dev, stream->handle, ends, &stream->found);
		stream->asked = true;
		stream->refused = ret;
		queue_leave(dev, &scope);
	}
	/*
	 * A lost device does not refuse the stream: the access ends, and release_on() returns the
	 * error.
	 */
	return ends && __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE) ? 0 : ret;
}

/* The driver's stream. queue_stream() has found it, except when a tensor is deleted. */
static int stream_of(struct queue_device *dev, const struct access_stream *stream, bool ends,
		     void **out)
{
	if (!stream->asked)
		return queue_find_stream(dev, stream->handle, ends, out);
	*out = stream->found;
	return stream->refused;
}

int queue_begin_on(struct queue_memory *m, uint32_t access, void *stream, int fence)
{
	/* The flush must run after the fence's work, and no stream can flush. */
	if (m->flushes)
		return fence == -1 ? m->dev->ops->flush(m->dev) : -EAGAIN;
	if (m->copied || m->passes)
		return access_begin(m, access, stream, fence);
	return m->synced ? cpu_begin(m, access, stream, fence) :
			   queue_wait_fence(m->dev, stream, fence);
}

int queue_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		  int fence)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	void *own;
	int ret;

	if (is_no_order(m->dev, stream->handle))
		return !m->copied ? 0 :
		       fail(-EINVAL, "%s: a copy is made on a stream, and this handle "
			    "is none", m->dev->base.name);
	/* The usual case needs no driver call. */
	if (fence == -1 && !m->copied && !m->passes && !m->flushes)
		return m->synced ? cpu_begin(m, access, NULL, -1) : 0;
	ret = queue_enter(m->dev, &scope);
	if (ret)
		return ret;
	ret = stream_of(m->dev, stream, false, &own);
	if (!ret)
		ret = queue_begin_on(m, access, own, fence);
	queue_leave(m->dev, &scope);
	return ret;
}

/* Puts the end of an access on the stream. *out is a fence of the bridge's copy back, or -1. */
static int end_use(struct queue_use *use, void *stream, int *out)
{
	struct queue_memory *m = use->m;
	bool writes = m->copied && use->access & DLBUF_WRITE;
	int ret = 0;

	if (writes)
		ret = queue_copy_out(m, stream, out);
	else if (m->passes)
		ret = access_end(m, stream);
	else if (m->synced)
		ret = cpu_end(m, use->access, stream);
	use->copies = writes && m->buffer && *out != -1;
	return ret;
}

int queue_end_on(struct queue_use *uses, uint32_t n, uint32_t nworks, void *stream, int *fence,
		 int *end)
{
	struct queue_device *dev = uses->m->dev;
	bool shares = false;
	int out = -1, ret = 0, err;

	for (uint32_t i = 0; i < n; i++) {
		err = end_use(&uses[i], stream, &out);
		ret = ret ? ret : err;
		shares |= uses[i].m->buffer && uses[i].access & DLBUF_WRITE;
	}
	/* If the bridge made the copy, -1 means that the copy is complete. */
	if (!ret && fence && !shares)
		ret = dev->gives_fences ? dev->ops->export_fence(dev, stream, &out) :
					  queue_bridge_out(dev, NULL, stream, &out);
	/* Adds the work also after a failure, because the stream may have it already. */
	err = queue_work_add_all(uses, nworks, stream, 0, ret ? NULL : end);
	if (ret)
		dev->ops->finish(dev, stream);
	if (!ret && fence)
		*fence = out;
	else if (out != -1)
		close(out);
	return ret ? ret : err;
}

/* The caller waits for its own work; this waits for the library's copy. */
static int release_unordered(struct queue_memory *m, uint32_t access)
{
	struct queue_device *dev = m->dev;
	struct queue_work *begun;
	int ret;

	pthread_mutex_lock(&m->order_lock);
	begun = queue_work_ref(dev, m->begun);
	pthread_mutex_unlock(&m->order_lock);
	ret = queue_work_end(dev, begun);
	if (ret)
		queue_set_unsure(dev);
	return ret || !(access & DLBUF_WRITE) ? ret :
	       fail(-EINVAL, "%s: a copy is written back on a stream, and this handle "
		    "is none", dev->base.name);
}

static int release_on(struct queue_memory *m, uint32_t access, const struct access_stream *stream,
		      int *fence, int *end)
{
	struct queue_use use = { m, access, false };
	char why[160];
	void *own;
	bool lost;
	int ret;

	if (is_no_order(m->dev, stream->handle))
		return release_unordered(m, access);
	ret = stream_of(m->dev, stream, true, &own);
	if (!ret)
		return queue_end_on(&use, 1, 1, own, fence, end);
	if (m->passes)
		queue_access_over(m);
	if (__atomic_load_n(&m->dev->lost, __ATOMIC_ACQUIRE))
		return ret;
	/*
	 * The core checks streams before a release, so this call comes from the deletion of a
	 * tensor.
	 */
	snprintf(why, sizeof(why), "%s", dlbuf_last_error());
	lost = m->copied && access & DLBUF_WRITE;
	ret = queue_work_add_all(&use, 1, stream->handle, ret, lost ? NULL : end);
	if (!ret)
		forget_failure();
	/* The core logs the error, and reports it to the lease, which does not wait. */
	return ret || !lost ? ret :
	       fail(-EIO, "%s: a copy is not written back: %s", m->dev->base.name, why);
}

int queue_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		  int *fence, int *end)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	int ret;

	if (fence)
		*fence = -1;
	if (is_no_order(m->dev, stream->handle) && !m->copied)
		return 0;
	/* The caller's fence is then an eventfd, and the lease can wait for it too. */
	if (imp->release_sync == DLBUF_SYNC_EVENT) {
		end = fence;
		fence = NULL;
	}
	ret = queue_enter(m->dev, &scope);
	if (!ret) {
		ret = release_on(m, access, stream, fence, end);
		queue_leave(m->dev, &scope);
	} else {
		queue_set_unsure(m->dev);
		if (m->passes)
			queue_access_over(m);
	}
	if (m->copied)
		queue_access_over(m);
	return ret;
}

int queue_drain(struct dlbuf_device *base, uint64_t deadline_ns)
{
	struct queue_device *dev = queue_device_of(base);
	struct timespec pause = PAUSE_FIRST;
	struct queue_scope scope;
	int ret;

	ret = queue_enter(dev, &scope);
	if (ret)
		return ret;
	ret = queue_work_drain(dev, deadline_ns);
	queue_leave(dev, &scope);
	if (!ret)
		ret = queue_poll_end(dev);
	/* The application may destroy the context after this call. */
	while (!ret && (!queue_finish_ended(dev) || queue_gate_frees(dev))) {
		ret = event_turn();
		if (!ret && !pause_until(&pause, deadline_ns))
			ret = fail(-ETIME, "%s: a stream was not idle at the deadline",
				   base->name);
	}
	if (!ret && dev->ops->drained)
		dev->ops->drained(dev);
	return ret;
}
