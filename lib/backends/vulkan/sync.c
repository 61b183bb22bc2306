// SPDX-License-Identifier: MIT
/*
 * Begin and end of an access. The calling thread waits for the fences, then
 * the buffer is handed over between the foreign queue family, which is
 * everybody else, and ours. The end waits for the device, so that whoever
 * comes next needs no fence of ours.
 *
 * Two tensors over one buffer may have an access each at the same time. Each
 * brings its own pair of barriers; who owns the buffer in between is not
 * counted, because to a driver a transfer of a buffer is a matter of caches.
 *
 * This is all that a coherent machine needs. DMA_BUF_IOCTL_SYNC is no part of
 * it: the ioctl brackets the CPU's accesses, and its users are on the CPU.
 */
#include <errno.h>

#include "../../fence.h"
#include "vulkan.h"

static VkAccessFlags accesses(uint32_t access)
{
	return (access & DLBUF_READ ? VK_ACCESS_MEMORY_READ_BIT : 0) |
	       (access & DLBUF_WRITE ? VK_ACCESS_MEMORY_WRITE_BIT : 0);
}

/*
 * The acquire waits for nothing on the queue, where unrelated work may be:
 * what it has to come after is complete, or was waited for on the host.
 */
static void record_acquire(struct vulkan_device *dev, struct vulkan_import *vi,
			   uint32_t access, VkCommandBuffer cmd)
{
	VkBufferMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
		.dstAccessMask = accesses(access),
		.srcQueueFamilyIndex = dev->foreign,
		.dstQueueFamilyIndex = dev->physical.family,
		.buffer = vi->buffer.buffer,
		.size = VK_WHOLE_SIZE,
	};

	dev->instance.vk.CmdPipelineBarrier(cmd,
		VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
		VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, NULL, 1, &barrier, 0,
		NULL);
}

/* The release comes after all of the queue; reading leaves nothing to flush. */
static void record_release(struct vulkan_device *dev, struct vulkan_import *vi,
			   uint32_t access, VkCommandBuffer cmd)
{
	VkBufferMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
		.srcAccessMask = accesses(access & DLBUF_WRITE),
		.srcQueueFamilyIndex = dev->physical.family,
		.dstQueueFamilyIndex = dev->foreign,
		.buffer = vi->buffer.buffer,
		.size = VK_WHOLE_SIZE,
	};

	dev->instance.vk.CmdPipelineBarrier(cmd,
		VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
		VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, NULL, 1, &barrier,
		0, NULL);
}

typedef void (*record_fn)(struct vulkan_device *dev, struct vulkan_import *vi,
			  uint32_t access, VkCommandBuffer cmd);

static int record(struct vulkan_device *dev, struct vulkan_import *vi,
		  uint32_t access, VkCommandBuffer cmd, record_fn fn)
{
	struct vulkan_api *vk = &dev->instance.vk;
	/* Two tensors over one buffer may be acquired at the same time. */
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
	};
	int ret;

	ret = VULKAN_CALL(vk, BeginCommandBuffer, cmd, &begin);
	if (ret)
		return ret;
	fn(dev, vi, access, cmd);
	return VULKAN_CALL(vk, EndCommandBuffer, cmd);
}

/* Under dev->lock, as all that touches the pool. */
static int record_barriers(struct vulkan_device *dev, struct vulkan_import *vi,
			   uint32_t access, struct vulkan_barriers *out)
{
	struct vulkan_api *vk = &dev->instance.vk;
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = dev->pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 2,
	};
	VkCommandBuffer cmd[2];
	int ret;

	ret = VULKAN_CALL(vk, AllocateCommandBuffers, dev->handle, &info, cmd);
	if (ret)
		return ret;
	ret = record(dev, vi, access, cmd[0], record_acquire);
	if (!ret)
		ret = record(dev, vi, access, cmd[1], record_release);
	if (ret) {
		vk->FreeCommandBuffers(dev->handle, dev->pool, 2, cmd);
		return ret;
	}
	*out = (struct vulkan_barriers){ .acquire = cmd[0], .release = cmd[1] };
	return 0;
}

/*
 * The barriers for an access, recorded once. Those of the release as well:
 * an access that has begun must not lack the memory to end.
 */
static int get_barriers(struct vulkan_device *dev, struct vulkan_import *vi,
			uint32_t access, struct vulkan_barriers *out)
{
	struct vulkan_barriers *b = &vi->barriers[access - 1];
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	if (!b->acquire)
		ret = record_barriers(dev, vi, access, b);
	*out = *b;
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

void vulkan_barriers_free(struct vulkan_import *vi)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);

	pthread_mutex_lock(&dev->lock);
	for (size_t i = 0; i < ARRAY_SIZE(vi->barriers); i++) {
		VkCommandBuffer both[] = { vi->barriers[i].acquire,
					   vi->barriers[i].release };

		if (both[0])
			dev->instance.vk.FreeCommandBuffers(dev->handle,
							    dev->pool, 2, both);
	}
	pthread_mutex_unlock(&dev->lock);
}

static int get_fence(struct vulkan_device *dev, VkFence *out)
{
	VkFenceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
	};
	VkFence fence = VK_NULL_HANDLE;

	pthread_mutex_lock(&dev->lock);
	if (dev->nfences)
		fence = dev->fences[--dev->nfences];
	pthread_mutex_unlock(&dev->lock);
	if (fence) {
		*out = fence;
		return 0;
	}
	return VULKAN_CALL(&dev->instance.vk, CreateFence, dev->handle, &info,
			   NULL, out);
}

/* Takes a signalled fence back; one too many, or one that is broken, goes. */
static void put_fence(struct vulkan_device *dev, VkFence fence)
{
	struct vulkan_api *vk = &dev->instance.vk;
	bool kept = false;

	if (VULKAN_RESULT(vk, ResetFences, dev->handle, 1, &fence) ==
	    VK_SUCCESS) {
		pthread_mutex_lock(&dev->lock);
		kept = dev->nfences < ARRAY_SIZE(dev->fences);
		if (kept)
			dev->fences[dev->nfences++] = fence;
		pthread_mutex_unlock(&dev->lock);
	}
	if (!kept)
		vk->DestroyFence(dev->handle, fence, NULL);
}

static int submit(struct vulkan_device *dev, VkQueue queue,
		  VkCommandBuffer cmd, VkFence fence)
{
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1,
		.pCommandBuffers = &cmd,
	};
	int ret;

	dev->lock_queue(dev->lock_data, queue);
	ret = VULKAN_CALL(&dev->instance.vk, QueueSubmit, queue, 1, &info,
			  fence);
	dev->unlock_queue(dev->lock_data, queue);
	return ret;
}

int vulkan_acquire(struct import *imp, uint32_t access, void *stream,
		   uint64_t deadline_ns)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	struct vulkan_barriers barriers;
	int ret;

	ret = get_barriers(dev, vi, access, &barriers);
	if (!ret)
		ret = fence_wait_buffer(imp->fd, access, deadline_ns);
	if (!ret)
		ret = submit(dev, stream ? stream : dev->queue,
			     barriers.acquire, VK_NULL_HANDLE);
	return ret;
}

/* Submits the release and waits for it. */
static int release_and_wait(struct vulkan_device *dev, VkQueue queue,
			    VkCommandBuffer cmd, VkFence fence)
{
	int ret = submit(dev, queue, cmd, fence);

	if (ret)
		return ret;
	return VULKAN_CALL(&dev->instance.vk, WaitForFences, dev->handle, 1,
			   &fence, VK_TRUE, UINT64_MAX);
}

/*
 * An access ends also where its end fails: what comes next may destroy the
 * buffer, and the device must be done with it. A device that is lost is.
 */
static void drain(struct vulkan_device *dev, VkQueue queue)
{
	dev->lock_queue(dev->lock_data, queue);
	dev->instance.vk.QueueWaitIdle(queue);
	dev->unlock_queue(dev->lock_data, queue);
}

int vulkan_release(struct import *imp, uint32_t access, void *stream,
		   int *fence)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	VkQueue queue = stream ? stream : dev->queue;
	VkFence done = VK_NULL_HANDLE;
	int ret;

	ret = get_fence(dev, &done);
	if (!ret)
		ret = release_and_wait(dev, queue,
				       vi->barriers[access - 1].release, done);
	if (ret) {
		drain(dev, queue);
		if (done)
			dev->instance.vk.DestroyFence(dev->handle, done, NULL);
	} else {
		put_fence(dev, done);
	}
	if (fence)
		*fence = -1;
	return ret;
}
