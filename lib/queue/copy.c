// SPDX-License-Identifier: MIT
/*
 * Tensors that are copies. An acquire copies the dma-buf into the tensor on its
 * stream; a writer's release copies it back on its stream. With a bridge, a GPU
 * copies. Without one, the CPU copies through pinned memory. If the CPU copies, or the
 * bridge shares no semaphores, the stream calls a host function, so that no thread of
 * the caller's waits.
 *
 * Before it copies in, a copy waits for the fences that the dma-buf had at the acquire. It
 * waits for no other fence, and copying back waits for none. A later fence may belong to
 * work after the copy, on this stream or on one that waits for it: see queue_cpu_start(). A
 * release of these imports adds no fence to the dma-buf, so that the next copy does not
 * find such a fence.
 */
#include <errno.h>
#include <string.h>

#include "../dmabuf/fence.h"
#include "engine.h"

/* The bytes are copied in any case. */
static void copy_bytes(struct queue_memory *m, uint32_t access, void *to,
		       const void *from)
{
	queue_cpu_start(m, access);
	memcpy(to, from, m->base.bytes);
	queue_cpu_stop(m, access);
}

/* The driver calls these on its own threads, so they make no driver call. */
static void from_buffer(void *data)
{
	struct queue_memory *m = data;

	copy_bytes(m, DLBUF_READ, m->staging, m->map);
}

static void to_buffer(void *data)
{
	struct queue_memory *m = data;

	copy_bytes(m, DLBUF_WRITE, m->map, m->staging);
}

static void copy_by_bridge(struct queue_memory *m, bool in)
{
	if (bridge_copy(m->buffer, in))
		queue_access_failed(m);
}

static void bridge_from_buffer(void *data)
{
	copy_by_bridge(data, true);
}

static void bridge_to_buffer(void *data)
{
	copy_by_bridge(data, false);
}

static int copy_by_host(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret;

	ret = queue_access_check(m);
	if (!ret)
		ret = queue_work_order(m, stream);
	if (!ret)
		ret = queue_wait_fence(dev, stream, fence);
	if (!ret)
		ret = queue_call_host(dev, stream, m->buffer ?
					  bridge_from_buffer : from_buffer, m);
	return ret || m->buffer ? ret : dev->ops->copy(m, stream, false);
}

/*
 * The bridge does not know which streams still read the tensor's memory, and its
 * copy overwrites that memory. So the caller waits for these streams first. There
 * are none if the producer has had the buffer since then.
 */
static int copy_by_gpu(struct queue_memory *m, void *stream, int fence)
{
	struct queue_device *dev = m->dev;
	int ret = queue_work_wait(m, DLBUF_RW, 0);

	/* The bridge's queue cannot wait for a sync_file; the stream can. */
	if (!ret && !dev->caps.fences_in && fence != -1)
		return -EAGAIN;
	return ret ? ret : queue_bridge_in(dev, m->buffer, stream, fence);
}

int queue_copy_in(struct queue_memory *m, void *stream, int fence)
{
	return m->buffer && m->dev->ops->semaphore_use ?
	       copy_by_gpu(m, stream, fence) : copy_by_host(m, stream, fence);
}

int queue_copy_out(struct queue_memory *m, void *stream, int *fence)
{
	const struct queue_ops *ops = m->dev->ops;
	int ret;

	if (m->buffer && ops->semaphore_use)
		return queue_bridge_out(m->dev, m->buffer, stream, fence);
	ret = m->buffer ? queue_access_check(m) : ops->copy(m, stream, true);
	return ret ? ret : queue_call_host(m->dev, stream, m->buffer ?
					  bridge_to_buffer : to_buffer, m);
}
