// SPDX-License-Identifier: MIT
/*
 * Begin and end of an access: the buffer is handed over between the foreign
 * queue family, which is everybody else, and ours, in a submit that waits for
 * the producers' fences and one that makes a fence of the work before it. A
 * device without SYNC_FD semaphores has its caller wait, in the core before
 * and here behind.
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
 * The acquire comes after the submit's wait for the fences: a barrier is
 * ordered behind a semaphore only by a stage that the wait names, and it names
 * all. Earlier work on the queue is in that as well.
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
		VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
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

static void barriers_free(struct vulkan_device *dev, struct vulkan_import *vi)
{
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

void vulkan_sync_finish(struct vulkan_import *vi)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);

	vulkan_jobs_finish(dev, &vi->jobs);
	barriers_free(dev, vi);
}

/* ---- begin and end */

static int submit(struct vulkan_device *dev, VkQueue queue, VkCommandBuffer cmd,
		  struct vulkan_job *job, VkSemaphore wait, VkSemaphore signal)
{
	VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.waitSemaphoreCount = wait != VK_NULL_HANDLE,
		.pWaitSemaphores = &wait,
		.pWaitDstStageMask = &all,
		.commandBufferCount = 1,
		.pCommandBuffers = &cmd,
		.signalSemaphoreCount = signal != VK_NULL_HANDLE,
		.pSignalSemaphores = &signal,
	};

	return vulkan_job_submit(dev, job, queue, &info);
}

int vulkan_acquire(struct import *imp, uint32_t access, void *stream,
		   int fence)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	struct vulkan_barriers barriers;
	struct vulkan_job *job;
	int ret;

	ret = get_barriers(dev, vi, access, &barriers);
	if (!ret)
		ret = vulkan_job_get(dev, &vi->jobs, &job);
	if (ret)
		return ret;
	if (fence != -1)
		ret = vulkan_import_fence(dev, fence, job->wait);
	if (!ret)
		ret = submit(dev, stream ? stream : dev->queue,
			     barriers.acquire, job,
			     fence != -1 ? job->wait : VK_NULL_HANDLE,
			     VK_NULL_HANDLE);
	/* A semaphore that holds a fence nobody waits for is of no more use. */
	if (ret)
		vulkan_job_destroy(dev, job);
	else
		vulkan_job_put(dev, &vi->jobs, job);
	return ret;
}

int vulkan_release(struct import *imp, uint32_t access, void *stream,
		   int *fence, int *end)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	VkQueue queue = stream ? stream : dev->queue;
	struct vulkan_barriers barriers;
	struct vulkan_job *job = NULL;
	int ret;

	(void)end;
	*fence = -1;
	/* They are there, unless the access began without a submit of ours. */
	ret = get_barriers(dev, vi, access, &barriers);
	if (!ret)
		ret = vulkan_job_get(dev, &vi->jobs, &job);
	if (!ret)
		ret = submit(dev, queue, barriers.release, job, VK_NULL_HANDLE,
			     job->signal);
	if (!ret)
		ret = job->signal ? vulkan_export_fence(dev, job, fence) :
				    vulkan_job_wait(dev, job);
	if (!ret) {
		vulkan_job_put(dev, &vi->jobs, job);
		return 0;
	}
	/* The semaphore may hold a signal that nobody has taken. */
	vulkan_drain(dev, queue);
	if (job)
		vulkan_job_destroy(dev, job);
	return ret;
}

/* An error is an answer here: a device that is lost is done with everything. */
static bool is_busy(struct vulkan_device *dev)
{
	bool busy = false;

	pthread_mutex_lock(&dev->lock);
	for (struct vulkan_import *vi = dev->imports; vi; vi = vi->next)
		for (struct vulkan_job *job = vi->jobs; job; job = job->next)
			busy |= dev->instance.vk.GetFenceStatus(
				dev->handle, job->done) == VK_NOT_READY;
	pthread_mutex_unlock(&dev->lock);
	return busy;
}

int vulkan_drain_device(struct dlbuf_device *base, uint64_t deadline_ns)
{
	struct timespec pause = PAUSE_FIRST;

	while (is_busy(vulkan_device(base)))
		if (!pause_until(&pause, deadline_ns))
			return fail(-ETIME, "%s: work was not complete at the "
				    "deadline", base->name);
	return 0;
}

int vulkan_submit_copy(struct vulkan_import *vi, struct vulkan_copy *copy,
		       int fence, int *done)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);
	struct vulkan_job *job;
	int ret;

	*done = -1;
	ret = vulkan_job_get(dev, &vi->jobs, &job);
	if (ret)
		return ret;
	if (fence != -1)
		ret = vulkan_import_fence(dev, fence, job->wait);
	if (!ret)
		ret = submit(dev, dev->queue, copy->cmd, job,
			     fence != -1 ? job->wait : VK_NULL_HANDLE,
			     job->signal);
	if (ret) {
		vulkan_job_destroy(dev, job);
		return ret;
	}
	ret = job->signal ? vulkan_export_fence(dev, job, done) :
			    vulkan_job_wait(dev, job);
	if (ret) {
		vulkan_drain(dev, dev->queue);
		vulkan_job_destroy(dev, job);
		return ret;
	}
	job->copy = copy;
	vulkan_job_put(dev, &vi->jobs, job);
	/*
	 * A driver that had to finish it to give a fence is done with the
	 * images, which hold the producer's memory.
	 */
	vulkan_jobs_reap(dev, &vi->jobs);
	return 0;
}
