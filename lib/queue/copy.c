// SPDX-License-Identifier: MIT
/*
 * Tensors that are copies: the buffer is copied in on the stream of an acquire,
 * and out again on that of a writer's release. By a GPU where there is a bridge,
 * else by the CPU through pinned memory: the stream calls a function of ours
 * that copies between the mapping and that memory, so that nobody waits.
 *
 * That function's bracket waits for the fences on the dma-buf. One of work that
 * is behind the function on its stream would be waited for for ever, so that no
 * release of these imports gives a fence.
 */
#include <errno.h>
#include <string.h>

#include <linux/dma-buf.h>

#include "../fence.h"
#include "queue.h"

/* Nobody can be told of an error. The bytes are copied either way. */
static void copy_bytes(struct queue_memory *m, uint64_t access, void *to,
		       const void *from)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | access };

	sys_ioctl(m->fd, DMA_BUF_IOCTL_SYNC, &sync);
	memcpy(to, from, m->bytes);
	sync.flags = DMA_BUF_SYNC_END | access;
	sys_ioctl(m->fd, DMA_BUF_IOCTL_SYNC, &sync);
}

/* On threads of the driver's: no call of it. */
static void from_buffer(void *data)
{
	struct queue_memory *m = data;

	copy_bytes(m, DMA_BUF_SYNC_READ, m->staging, m->map);
}

static void to_buffer(void *data)
{
	struct queue_memory *m = data;

	copy_bytes(m, DMA_BUF_SYNC_WRITE, m->map, m->staging);
}

static int copy_by_cpu(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret;

	ret = queue_work_order(m, stream);
	if (!ret)
		ret = queue_wait_fence(dev, stream, fence);
	if (!ret)
		ret = dev->ops->call_host(dev, stream, from_buffer, m);
	return ret ? ret : dev->ops->copy(m, stream, false);
}

/*
 * The bridge's copy writes what streams may still read; it does not know of them.
 * A buffer that comes back from its producer has none left.
 */
static int copy_by_gpu(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret = queue_work_wait(m, DLBUF_RW, 0);

	/* One that its queue cannot wait for: streams can, but not the bridge. */
	if (!ret && !dev->caps.fences_in) {
		ret = dlbuf_fence_wait(fence, 0);
		fence = -1;
	}
	return ret ? ret : queue_bridge_in(dev, m->buffer, stream, fence);
}

static int copy_first(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret;

	ret = m->buffer ? copy_by_gpu(m, stream, fence) :
			  copy_by_cpu(m, stream, fence);
	if (!ret)
		ret = dev->ops->event_record(dev, m->copy_done, stream);
	/* Calls before the failed one may have put work on the stream that uses the memory. */
	if (ret && queue_work_add(m, DLBUF_RW, stream, false, NULL))
		queue_set_unsure(dev);
	return ret;
}

/*
 * Accesses that overlap see one copy: the first makes it, the others' streams
 * wait for it.
 */
int queue_copy_in(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	bool first;
	int ret;

	pthread_mutex_lock(&m->copying);
	pthread_mutex_lock(&dev->lock);
	first = !m->open;
	pthread_mutex_unlock(&dev->lock);
	ret = dev->ops->stream_wait(dev, stream, m->copy_done);
	if (!ret)
		ret = first ? copy_first(m, stream, fence) :
			      queue_wait_fence(dev, stream, fence);
	if (!ret) {
		pthread_mutex_lock(&dev->lock);
		m->open++;
		pthread_mutex_unlock(&dev->lock);
		cache_count_copy(&dev->base.cache, first ? m->bytes : 0);
	}
	pthread_mutex_unlock(&m->copying);
	return ret;
}

int queue_copy_out(struct queue_memory *m, void *stream, int *fence)
{
	int ret;

	if (m->buffer)
		return queue_bridge_out(m->dev, m->buffer, stream, fence);
	ret = m->dev->ops->copy(m, stream, true);
	return ret ? ret : m->dev->ops->call_host(m->dev, stream, to_buffer, m);
}
