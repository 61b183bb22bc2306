// SPDX-License-Identifier: MIT
/*
 * Acquire and release. An acquire is a submit that waits for the producers' fences and
 * transfers the buffer from the foreign queue family. A release is a submit that
 * transfers it back and exports a fence of the work before it. Several buffers are one
 * submit, which executes the commands of each. If the device has no
 * SYNC_FD semaphores, the calling thread waits: in the core before an acquire, and here
 * after a release.
 *
 * DMA_BUF_IOCTL_SYNC is not called here, because it is for accesses by the CPU.
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
 * The barrier of the acquire must come after the submit's wait for the fences. It does
 * if it shares a stage with the wait, and both name all stages. So it also comes after
 * earlier work on the queue.
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

/* The barrier of the release comes after all work on the queue. Reads need no flush. */
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
	/* SIMULTANEOUS_USE: two tensors of one buffer may be acquired at the same time. */
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

/* Under dev->lock, which protects the command pool. */
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
 * Gets the barriers of an access, which are recorded once. Those of the release are
 * recorded at the same time, so that the end of an access needs no memory.
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
	vulkan_jobs_finish_together(dev, vi);
	barriers_free(dev, vi);
}

/* ---- begin and end */

static int submit(struct vulkan_device *dev, VkQueue queue,
		  const VkCommandBuffer *cmds, uint32_t ncmds,
		  struct vulkan_job *job, VkSemaphore wait, VkSemaphore signal)
{
	VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.waitSemaphoreCount = wait != VK_NULL_HANDLE,
		.pWaitSemaphores = &wait,
		.pWaitDstStageMask = &all,
		.commandBufferCount = ncmds,
		.pCommandBuffers = cmds,
		.signalSemaphoreCount = signal != VK_NULL_HANDLE,
		.pSignalSemaphores = &signal,
	};

	return vulkan_job_submit(dev, job, queue, &info);
}

/* The list of the job that several imports share, or one has. */
static struct vulkan_job **jobs_of(const struct bracket *b, uint32_t n)
{
	return n > 1 ? &vulkan_device(b->imp->dev)->together :
		       &vulkan_import(b->imp)->jobs;
}

static void put(const struct bracket *b, uint32_t n, struct vulkan_job *job)
{
	for (job->nimports = 0; n > 1 && job->nimports < n; job->nimports++)
		job->imports[job->nimports] =
			vulkan_import(b[job->nimports].imp);
	vulkan_job_put(vulkan_device(b->imp->dev), jobs_of(b, n), job);
}

int vulkan_acquire_all(const struct bracket *b, uint32_t n, void *stream,
		       int fence)
{
	struct vulkan_device *dev = vulkan_device(b->imp->dev);
	VkCommandBuffer cmds[MAX_BRACKETS];
	struct vulkan_barriers barriers;
	struct vulkan_job *job;
	int ret = 0;

	for (uint32_t i = 0; !ret && i < n; i++) {
		ret = get_barriers(dev, vulkan_import(b[i].imp), b[i].access,
				   &barriers);
		cmds[i] = barriers.acquire;
	}
	if (!ret)
		ret = vulkan_job_get(dev, jobs_of(b, n), &job);
	if (ret)
		return ret;
	if (fence != -1)
		ret = vulkan_import_fence(dev, fence, job->wait);
	if (!ret)
		ret = submit(dev, stream ? stream : dev->queue, cmds, n, job,
			     fence != -1 ? job->wait : VK_NULL_HANDLE,
			     VK_NULL_HANDLE);
	/* The semaphore has a payload that nothing will wait for: not usable again. */
	if (ret)
		vulkan_job_destroy(dev, job);
	else
		put(b, n, job);
	return ret;
}

int vulkan_acquire(struct import *imp, uint32_t access, void *stream,
		   int fence)
{
	struct bracket one = { imp, access };

	return vulkan_acquire_all(&one, 1, stream, fence);
}

int vulkan_release_all(const struct bracket *b, uint32_t n, void *stream,
		       int *fence)
{
	struct vulkan_device *dev = vulkan_device(b->imp->dev);
	VkQueue queue = stream ? stream : dev->queue;
	VkCommandBuffer cmds[MAX_BRACKETS];
	struct vulkan_barriers barriers;
	struct vulkan_job *job = NULL;
	int ret = 0;

	*fence = -1;
	/* They are recorded already, unless dlbuf_acquire_fence() began the access. */
	for (uint32_t i = 0; !ret && i < n; i++) {
		ret = get_barriers(dev, vulkan_import(b[i].imp), b[i].access,
				   &barriers);
		cmds[i] = barriers.release;
	}
	if (!ret)
		ret = vulkan_job_get(dev, jobs_of(b, n), &job);
	if (!ret)
		ret = submit(dev, queue, cmds, n, job, VK_NULL_HANDLE,
			     job->signal);
	if (!ret)
		ret = job->signal ? vulkan_export_fence(dev, job, fence) :
				    vulkan_job_wait(dev, job);
	if (!ret) {
		put(b, n, job);
		return 0;
	}
	/* The semaphore may be signalled with nothing that waits for it. */
	vulkan_drain(dev, queue);
	if (job)
		vulkan_job_destroy(dev, job);
	return ret;
}

int vulkan_release(struct import *imp, uint32_t access, void *stream,
		   int *fence, int *end)
{
	struct bracket one = { imp, access };

	(void)end;
	return vulkan_release_all(&one, 1, stream, fence);
}

static bool any_busy(struct vulkan_device *dev, const struct vulkan_job *job)
{
	bool busy = false;

	for (; job && !busy; job = job->next)
		busy = dev->instance.vk.GetFenceStatus(
			dev->handle, job->done) == VK_NOT_READY;
	return busy;
}

/* An error is an answer here: a device that is lost is done with everything. */
static bool is_busy(struct vulkan_device *dev)
{
	bool busy;

	pthread_mutex_lock(&dev->lock);
	busy = any_busy(dev, dev->together);
	for (struct vulkan_import *vi = dev->imports; vi; vi = vi->next)
		busy = busy || any_busy(dev, vi->jobs);
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
		ret = submit(dev, dev->queue, &copy->cmd, 1, job,
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
	 * Some drivers complete the submit before they give a fence. Then its
	 * images, which hold the producer's memory, can be destroyed now.
	 */
	vulkan_jobs_reap(dev, &vi->jobs);
	return 0;
}
