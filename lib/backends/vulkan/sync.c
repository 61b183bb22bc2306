// SPDX-License-Identifier: MIT
/*
 * Acquire and release. An acquire is a submit that waits for the producers' fences and
 * transfers the buffer from the foreign queue family. A release is a submit that
 * transfers it back and exports a fence of the work before it. Several buffers are one
 * submit. If the device has no
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

static VkBufferMemoryBarrier barrier_of(const struct bracket *b, bool acquire)
{
	struct vulkan_device *dev = vulkan_device(b->imp->dev);
	uint32_t own = dev->physical.family;

	return (VkBufferMemoryBarrier){
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
		/* Reads need no flush. */
		.srcAccessMask = acquire ? 0 : accesses(b->access & DLBUF_WRITE),
		.dstAccessMask = acquire ? accesses(b->access) : 0,
		.srcQueueFamilyIndex = acquire ? dev->foreign : own,
		.dstQueueFamilyIndex = acquire ? own : dev->foreign,
		.buffer = vulkan_import(b->imp)->buffer.buffer,
		.size = VK_WHOLE_SIZE,
	};
}

/*
 * The barrier of the acquire must come after the submit's wait for the fences. It does
 * if it shares a stage with the wait, and both name all stages. So it also comes after
 * earlier work on the queue. The barrier of the release comes after all work on the
 * queue. Only the application knows which stages these are.
 *
 * SIMULTANEOUS_USE: the barriers of one buffer are recorded once, and are submitted
 * again while the device is behind, or for a second tensor of the buffer.
 */
static int record(struct vulkan_device *dev, const struct bracket *b, uint32_t n,
		  bool acquire, VkCommandBuffer cmd)
{
	struct vulkan_api *vk = &dev->instance.vk;
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = n > 1 ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT :
				 VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
	};
	VkBufferMemoryBarrier list[MAX_BRACKETS];
	int ret;

	for (uint32_t i = 0; i < n; i++)
		list[i] = barrier_of(&b[i], acquire);
	ret = VULKAN_CALL(vk, BeginCommandBuffer, cmd, &begin);
	if (ret)
		return ret;
	vk->CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
		acquire ? VK_PIPELINE_STAGE_ALL_COMMANDS_BIT :
			  VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
		0, 0, NULL, n, list, 0, NULL);
	return VULKAN_CALL(vk, EndCommandBuffer, cmd);
}

/* Under dev->lock, which protects the command pool. */
static int allocate(struct vulkan_device *dev, uint32_t n, VkCommandBuffer *cmd)
{
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = dev->pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = n,
	};

	return VULKAN_CALL(&dev->instance.vk, AllocateCommandBuffers,
			   dev->handle, &info, cmd);
}

/* The same. */
static int record_both(struct vulkan_device *dev, const struct bracket *b,
		       struct vulkan_barriers *out)
{
	VkCommandBuffer cmd[2];
	int ret;

	ret = allocate(dev, 2, cmd);
	if (ret)
		return ret;
	ret = record(dev, b, 1, true, cmd[0]);
	if (!ret)
		ret = record(dev, b, 1, false, cmd[1]);
	if (ret) {
		dev->instance.vk.FreeCommandBuffers(dev->handle, dev->pool, 2,
						    cmd);
		return ret;
	}
	*out = (struct vulkan_barriers){ .acquire = cmd[0], .release = cmd[1] };
	return 0;
}

/*
 * Gets the commands of a submit. The barriers of one import are recorded once, and those
 * of the release at the same time, so that the end of an access needs no memory. Those of
 * several imports are recorded for this submit: *once is new, otherwise NULL. A command
 * buffer for each import would cost drivers more.
 */
static int get_commands(struct vulkan_device *dev, const struct bracket *b,
			uint32_t n, bool acquire, VkCommandBuffer *cmd,
			struct vulkan_copy **once)
{
	struct vulkan_barriers *both =
		&vulkan_import(b->imp)->barriers[b->access - 1];
	struct vulkan_copy *copy = NULL;
	int ret = 0;

	*once = NULL;
	if (n > 1) {
		copy = sys_calloc(1, sizeof(*copy));
		if (!copy)
			return -ENOMEM;
	}
	pthread_mutex_lock(&dev->lock);
	if (copy) {
		ret = allocate(dev, 1, &copy->cmd);
		if (!ret)
			ret = record(dev, b, n, acquire, copy->cmd);
		*cmd = copy->cmd;
	} else {
		if (!both->acquire)
			ret = record_both(dev, b, both);
		*cmd = acquire ? both->acquire : both->release;
	}
	if (ret)
		vulkan_copy_free(dev, copy);
	else
		*once = copy;
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

/* The list of the job that several imports share, or one has. */
static struct vulkan_job **jobs_of(const struct bracket *b, uint32_t n)
{
	return n > 1 ? &vulkan_device(b->imp->dev)->together :
		       &vulkan_import(b->imp)->jobs;
}

static void put(const struct bracket *b, uint32_t n, struct vulkan_job *job,
		struct vulkan_copy *once)
{
	for (job->nimports = 0; n > 1 && job->nimports < n; job->nimports++)
		job->imports[job->nimports] =
			vulkan_import(b[job->nimports].imp);
	job->copy = once;
	vulkan_job_put(vulkan_device(b->imp->dev), jobs_of(b, n), job);
}

/* After a failure. The job's semaphores may have a payload: it is not usable again. */
static void give_up(struct vulkan_device *dev, struct vulkan_job *job,
		    struct vulkan_copy *once)
{
	if (job)
		vulkan_job_destroy(dev, job);
	pthread_mutex_lock(&dev->lock);
	vulkan_copy_free(dev, once);
	pthread_mutex_unlock(&dev->lock);
}

int vulkan_acquire_all(const struct bracket *b, uint32_t n, void *stream,
		       int fence)
{
	struct vulkan_device *dev = vulkan_device(b->imp->dev);
	struct vulkan_job *job = NULL;
	struct vulkan_copy *once;
	VkCommandBuffer cmd;
	int ret;

	ret = get_commands(dev, b, n, true, &cmd, &once);
	if (!ret)
		ret = vulkan_job_get(dev, jobs_of(b, n), &job);
	if (!ret && fence != -1)
		ret = vulkan_import_fence(dev, fence, job->wait);
	if (!ret)
		ret = submit(dev, stream ? stream : dev->queue, cmd, job,
			     fence != -1 ? job->wait : VK_NULL_HANDLE,
			     VK_NULL_HANDLE);
	if (ret)
		give_up(dev, job, once);
	else
		put(b, n, job, once);
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
	struct vulkan_job *job = NULL;
	struct vulkan_copy *once;
	VkCommandBuffer cmd;
	int ret;

	*fence = -1;
	ret = get_commands(dev, b, n, false, &cmd, &once);
	if (!ret)
		ret = vulkan_job_get(dev, jobs_of(b, n), &job);
	if (!ret)
		ret = submit(dev, queue, cmd, job, VK_NULL_HANDLE, job->signal);
	if (!ret)
		ret = job->signal ? vulkan_export_fence(dev, job, fence) :
				    vulkan_job_wait(dev, job);
	if (ret) {
		vulkan_drain(dev, queue);
		give_up(dev, job, once);
	} else {
		put(b, n, job, once);
	}
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
	 * Some drivers complete the submit before they give a fence. Then its
	 * images, which hold the producer's memory, can be destroyed now.
	 */
	vulkan_jobs_reap(dev, &vi->jobs);
	return 0;
}
