// SPDX-License-Identifier: MIT
/*
 * Tensors that are copies. An acquire copies the dma-buf into the tensor on its
 * stream; a writer's release copies it back on its stream. With a bridge, a GPU
 * copies. Without one, the CPU copies through pinned memory: the stream calls
 * from_buffer() or to_buffer() below, so that no thread of the caller's waits.
 *
 * These functions call DMA_BUF_IOCTL_SYNC, which waits for the fences of the
 * dma-buf. If the dma-buf had a fence of work that the same stream runs after the
 * function, the stream would wait for itself. So a release of these imports puts
 * no fence on the dma-buf.
 */
#include <errno.h>
#include <string.h>

#include <linux/dma-buf.h>

#include "../fence.h"
#include "queue.h"

/* No caller is there to get an error. The bytes are copied in any case. */
static void copy_bytes(struct queue_memory *m, uint64_t access, void *to,
		       const void *from)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | access };

	sys_ioctl(m->fd, DMA_BUF_IOCTL_SYNC, &sync);
	memcpy(to, from, m->bytes);
	sync.flags = DMA_BUF_SYNC_END | access;
	sys_ioctl(m->fd, DMA_BUF_IOCTL_SYNC, &sync);
}

/* The driver calls these on its own threads, so they make no driver call. */
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
 * The bridge does not know which streams still read the tensor's memory, and its
 * copy overwrites that memory. So the caller waits for these streams first. There
 * are none if the producer had the buffer since.
 */
static int copy_by_gpu(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret = queue_work_wait(m, DLBUF_RW, 0);

	/* The bridge's queue cannot wait for a sync_file; the stream can. */
	if (!ret && !dev->caps.fences_in) {
		ret = dlbuf_fence_wait(fence, 0);
		fence = -1;
	}
	return ret ? ret : queue_bridge_in(dev, m->buffer, stream, fence);
}

int queue_copy_in(struct queue_memory *m, void *stream, int fence)
{
	return m->buffer ? copy_by_gpu(m, stream, fence) :
			   copy_by_cpu(m, stream, fence);
}

int queue_copy_out(struct queue_memory *m, void *stream, int *fence)
{
	int ret;

	if (m->buffer)
		return queue_bridge_out(m->dev, m->buffer, stream, fence);
	ret = m->dev->ops->copy(m, stream, true);
	return ret ? ret : m->dev->ops->call_host(m->dev, stream, to_buffer, m);
}
