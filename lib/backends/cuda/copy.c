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

#include "../../fence.h"
#include "cuda.h"

static void bracket(struct cuda_memory *m, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	/* Who could be told? The bytes are copied either way. */
	sys_ioctl(m->fd, DMA_BUF_IOCTL_SYNC, &sync);
}

/* On threads of the driver's: no call of CUDA. */
static void from_buffer(void *data)
{
	struct cuda_memory *m = data;

	bracket(m, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	memcpy(m->staging, m->map, m->bytes);
	bracket(m, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
}

static void to_buffer(void *data)
{
	struct cuda_memory *m = data;

	bracket(m, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);
	memcpy(m->map, m->staging, m->bytes);
	bracket(m, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE);
}

int cuda_copy_import(struct cuda_import *ci)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	int prot = PROT_READ |
		   (ci->base.id.access & DLBUF_WRITE ? PROT_WRITE : 0);
	int ret;

	m->fd = sys_dup(ci->base.fd);
	if (m->fd < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	m->map = sys_mmap(m->bytes, prot, m->fd);
	if (m->map == MAP_FAILED) {
		m->map = NULL;
		return fail(errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP,
			    "mmap() of the dma-buf: %s", strerror(errno));
	}
	ret = CUDA_DO(dev, MemHostAlloc, &m->staging, m->bytes,
		      CUABI_MEMHOSTALLOC_PORTABLE);
	if (!ret)
		ret = CUDA_DO(dev, MemAlloc, &m->pointer, m->bytes);
	return ret;
}

static int copy_by_cpu(struct cuda_import *ci, cuda_stream stream, int fence)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	int ret;

	ret = cuda_work_order(ci, stream);
	if (!ret)
		ret = cuda_wait_fence(dev, stream, fence);
	if (!ret)
		ret = CUDA_DO(dev, LaunchHostFunc, stream, from_buffer, m);
	return ret ? ret : CUDA_DO(dev, MemcpyHtoDAsync, m->pointer, m->staging,
				   m->bytes, stream);
}

/*
 * Vulkan's copy writes what streams may still read; it does not know of them.
 * A buffer that comes back from its producer has none left.
 */
static int copy_by_gpu(struct cuda_import *ci, cuda_stream stream, int fence)
{
	struct cuda_device *dev = ci->memory->dev;
	int ret = cuda_work_wait(ci, DLBUF_RW, 0);

	/* One that its queue cannot wait for: streams can, but not Vulkan. */
	if (!ret && !dev->caps.fences_in) {
		ret = dlbuf_fence_wait(fence, 0);
		fence = -1;
	}
	return ret ? ret : cuda_bridge_in(dev, ci->memory->buffer, stream,
					  fence);
}

static int copy_first(struct cuda_import *ci, cuda_stream stream, int fence)
{
	struct cuda_device *dev = ci->memory->dev;
	int ret;

	ret = ci->memory->buffer ? copy_by_gpu(ci, stream, fence) :
				   copy_by_cpu(ci, stream, fence);
	if (!ret)
		ret = CUDA_DO(dev, EventRecord, ci->copied, stream);
	/* What the stream was told before that failed uses the memory. */
	if (ret && cuda_work_add(ci, DLBUF_RW, stream, NULL))
		cuda_set_unsure(dev);
	return ret;
}

/*
 * Accesses that overlap see one copy: the first makes it, the others' streams
 * wait for it.
 */
int cuda_copy_in(struct cuda_import *ci, cuda_stream stream, int fence)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	bool first;
	int ret;

	pthread_mutex_lock(&m->copying);
	pthread_mutex_lock(&dev->lock);
	first = !ci->open;
	pthread_mutex_unlock(&dev->lock);
	ret = CUDA_DO(dev, StreamWaitEvent, stream, ci->copied, 0);
	if (!ret)
		ret = first ? copy_first(ci, stream, fence) :
			      cuda_wait_fence(dev, stream, fence);
	if (!ret) {
		pthread_mutex_lock(&dev->lock);
		ci->open++;
		pthread_mutex_unlock(&dev->lock);
		cache_count_copy(&dev->base.cache, first ? m->bytes : 0);
	}
	pthread_mutex_unlock(&m->copying);
	return ret;
}

int cuda_copy_out(struct cuda_import *ci, cuda_stream stream, int *fence)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	int ret;

	if (m->buffer)
		return cuda_bridge_out(dev, m->buffer, stream, fence);
	ret = CUDA_DO(dev, MemcpyDtoHAsync, m->staging, m->pointer, m->bytes,
		      stream);
	return ret ? ret : CUDA_DO(dev, LaunchHostFunc, stream, to_buffer, m);
}
