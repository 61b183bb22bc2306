// SPDX-License-Identifier: MIT
/*
 * Accesses to memory that needs more than fences: memory that is a copy, memory that
 * needs begin() and end() of the driver, and host memory of a device that is a CPU.
 */
#include <errno.h>

#include <linux/dma-buf.h>

#include "../dmabuf/fence.h"
#include "queue.h"

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
int queue_access_begin(struct queue_memory *m, uint32_t access, void *stream,
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
int queue_access_end(struct queue_memory *m, void *stream)
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
int queue_cpu_begin(struct queue_memory *m, uint32_t access, void *stream,
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
int queue_cpu_end(struct queue_memory *m, uint32_t access, void *stream)
{
	if (access & DLBUF_WRITE)
		return queue_call_host(m->dev, stream, end_write, m);
	bracket(m->base.fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return 0;
}
