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

/* ---- jobs */

/* One without a copy: nothing was submitted, or the copy was taken off. */
static void job_destroy(struct vulkan_device *dev, struct vulkan_job *job)
{
	struct vulkan_api *vk = &dev->instance.vk;

	vk->DestroyFence(dev->handle, job->done, NULL);
	vk->DestroySemaphore(dev->handle, job->wait, NULL);
	vk->DestroySemaphore(dev->handle, job->signal, NULL);
	free(job);
}

void vulkan_jobs_free(struct vulkan_device *dev)
{
	while (dev->free_jobs) {
		struct vulkan_job *job = dev->free_jobs;

		dev->free_jobs = job->next;
		job_destroy(dev, job);
	}
}

static int job_create(struct vulkan_device *dev, struct vulkan_job **out)
{
	struct vulkan_api *vk = &dev->instance.vk;
	VkFenceCreateInfo fence = {
		.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
	};
	VkExportSemaphoreCreateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
		.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT,
	};
	VkSemaphoreCreateInfo plain = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
	}, exported = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
		.pNext = &export,
	};
	struct vulkan_job *job = sys_calloc(1, sizeof(*job));
	int ret;

	if (!job)
		return fail(-ENOMEM, "vulkan: no memory for a job");
	ret = VULKAN_CALL(vk, CreateFence, dev->handle, &fence, NULL,
			  &job->done);
	if (!ret && dev->physical.waits)
		ret = VULKAN_CALL(vk, CreateSemaphore, dev->handle, &plain,
				  NULL, &job->wait);
	if (!ret && dev->physical.signals)
		ret = VULKAN_CALL(vk, CreateSemaphore, dev->handle, &exported,
				  NULL, &job->signal);
	if (ret)
		job_destroy(dev, job);
	else
		*out = job;
	return ret;
}

/* Under dev->lock: a job that is over is for the next one, unless it broke. */
static void job_recycle(struct vulkan_device *dev, struct vulkan_job *job)
{
	vulkan_copy_free(dev, job->copy);
	job->copy = NULL;
	if (VULKAN_RESULT(&dev->instance.vk, ResetFences, dev->handle, 1,
			  &job->done) != VK_SUCCESS) {
		job_destroy(dev, job);
		return;
	}
	job->next = dev->free_jobs;
	dev->free_jobs = job;
}

/* Under dev->lock: takes back those of an import that are over. */
static void jobs_reap(struct vulkan_device *dev, struct vulkan_import *vi)
{
	struct vulkan_job **p = &vi->jobs, *job;

	while ((job = *p)) {
		/* An error is no answer: a lost device's go with the import. */
		if (dev->instance.vk.GetFenceStatus(dev->handle, job->done) !=
		    VK_SUCCESS) {
			p = &job->next;
			continue;
		}
		*p = job->next;
		job_recycle(dev, job);
	}
}

static int job_get(struct vulkan_device *dev, struct vulkan_import *vi,
		   struct vulkan_job **out)
{
	struct vulkan_job *job;

	pthread_mutex_lock(&dev->lock);
	jobs_reap(dev, vi);
	job = dev->free_jobs;
	if (job)
		dev->free_jobs = job->next;
	pthread_mutex_unlock(&dev->lock);
	if (!job)
		return job_create(dev, out);
	*out = job;
	return 0;
}

/* What was submitted is under way until its fence says otherwise. */
static void job_put(struct vulkan_device *dev, struct vulkan_import *vi,
		    struct vulkan_job *job)
{
	pthread_mutex_lock(&dev->lock);
	job->next = vi->jobs;
	vi->jobs = job;
	pthread_mutex_unlock(&dev->lock);
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

void vulkan_sync_finish(struct vulkan_import *vi)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);
	struct vulkan_job *job;

	/* Nobody else knows the import any more. */
	for (job = vi->jobs; job; job = job->next)
		if (VULKAN_RESULT(&dev->instance.vk, WaitForFences, dev->handle,
				  1, &job->done, VK_TRUE, UINT64_MAX) !=
		    VK_SUCCESS)
			drain(dev, job->queue);
	pthread_mutex_lock(&dev->lock);
	while ((job = vi->jobs)) {
		vi->jobs = job->next;
		job_recycle(dev, job);
	}
	pthread_mutex_unlock(&dev->lock);
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
	int ret;

	job->queue = queue;
	dev->lock_queue(dev->lock_data, queue);
	ret = VULKAN_CALL(&dev->instance.vk, QueueSubmit, queue, 1, &info,
			  job->done);
	dev->unlock_queue(dev->lock_data, queue);
	return ret;
}

/* Puts a sync_file (borrowed) into a semaphore, for one wait. */
static int import_fence(struct vulkan_device *dev, int fence,
			VkSemaphore semaphore)
{
	VkImportSemaphoreFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
		.semaphore = semaphore,
		.flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT,
		.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT,
		.fd = sys_dup(fence),
	};
	int ret;

	if (info.fd < 0)
		return fail_errno("fence %d: fcntl(F_DUPFD_CLOEXEC)", fence);
	ret = VULKAN_CALL(&dev->instance.vk, ImportSemaphoreFdKHR, dev->handle,
			  &info);
	if (ret)
		close(info.fd); /* the driver takes it with success only */
	return ret;
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
		ret = job_get(dev, vi, &job);
	if (ret)
		return ret;
	if (fence != -1)
		ret = import_fence(dev, fence, job->wait);
	if (!ret)
		ret = submit(dev, stream ? stream : dev->queue,
			     barriers.acquire, job,
			     fence != -1 ? job->wait : VK_NULL_HANDLE,
			     VK_NULL_HANDLE);
	/* A semaphore that holds a fence nobody waits for is of no more use. */
	if (ret)
		job_destroy(dev, job);
	else
		job_put(dev, vi, job);
	return ret;
}

/* The work up to the submit as a sync_file; -1: it is complete. */
static int export_fence(struct vulkan_device *dev, struct vulkan_job *job,
			int *fence)
{
	VkSemaphoreGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
		.semaphore = job->signal,
		.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT,
	};
	int fd = -1, high, ret;

	ret = VULKAN_CALL(&dev->instance.vk, GetSemaphoreFdKHR, dev->handle,
			  &info, &fd);
	if (ret || fd < 0 || fd >= 3) {
		*fence = ret ? -1 : fd;
		return ret;
	}
	high = sys_dup(fd);
	close(fd);
	if (high < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	*fence = high;
	return 0;
}

static int wait_for(struct vulkan_device *dev, struct vulkan_job *job)
{
	return VULKAN_CALL(&dev->instance.vk, WaitForFences, dev->handle, 1,
			   &job->done, VK_TRUE, UINT64_MAX);
}

int vulkan_release(struct import *imp, uint32_t access, void *stream,
		   int *fence)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	VkQueue queue = stream ? stream : dev->queue;
	struct vulkan_barriers barriers;
	struct vulkan_job *job = NULL;
	int ret;

	*fence = -1;
	/* They are there, unless the access began without a submit of ours. */
	ret = get_barriers(dev, vi, access, &barriers);
	if (!ret)
		ret = job_get(dev, vi, &job);
	if (!ret)
		ret = submit(dev, queue, barriers.release, job, VK_NULL_HANDLE,
			     job->signal);
	if (!ret)
		ret = job->signal ? export_fence(dev, job, fence) :
				    wait_for(dev, job);
	if (!ret) {
		job_put(dev, vi, job);
		return 0;
	}
	/* The semaphore may hold a signal that nobody has taken. */
	drain(dev, queue);
	if (job)
		job_destroy(dev, job);
	return ret;
}

int vulkan_submit_copy(struct vulkan_import *vi, struct vulkan_copy *copy,
		       int fence, int *done)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);
	struct vulkan_job *job;
	int ret;

	*done = -1;
	ret = job_get(dev, vi, &job);
	if (ret)
		return ret;
	if (fence != -1)
		ret = import_fence(dev, fence, job->wait);
	if (!ret)
		ret = submit(dev, dev->queue, copy->cmd, job,
			     fence != -1 ? job->wait : VK_NULL_HANDLE,
			     job->signal);
	if (ret) {
		job_destroy(dev, job);
		return ret;
	}
	ret = job->signal ? export_fence(dev, job, done) : wait_for(dev, job);
	if (ret) {
		drain(dev, dev->queue);
		job_destroy(dev, job);
		return ret;
	}
	job->copy = copy;
	job_put(dev, vi, job);
	/*
	 * A driver that had to finish it to give a fence is done with the
	 * images, which hold the producer's memory.
	 */
	pthread_mutex_lock(&dev->lock);
	jobs_reap(dev, vi);
	pthread_mutex_unlock(&dev->lock);
	return 0;
}
