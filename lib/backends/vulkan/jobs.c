// SPDX-License-Identifier: MIT
/* Commands, running submits, and sync_files in semaphores. */
#include <errno.h>

#include "../../dmabuf/fence.h"
#include "../../dmabuf/memory.h"
#include "vulkan.h"

/* ---- commands */

int vulkan_record(struct vulkan_device *dev, VkCommandBufferUsageFlags usage,
		  record_fn fn, void *data, uint32_t n, VkCommandBuffer *out)
{
	struct vulkan_api *vk = &dev->instance.vk;
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = dev->pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = n,
	};
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = usage,
	};
	int ret;

	ret = VULKAN_CALL(vk, AllocateCommandBuffers, dev->handle, &info, out);
	if (ret) {
		out[0] = NULL;
		return ret;
	}
	for (uint32_t i = 0; !ret && i < n; i++) {
		ret = VULKAN_CALL(vk, BeginCommandBuffer, out[i], &begin);
		if (ret)
			break;
		fn(out[i], i, data);
		ret = VULKAN_CALL(vk, EndCommandBuffer, out[i]);
	}
	if (ret) {
		vk->FreeCommandBuffers(dev->handle, dev->pool, n, out);
		out[0] = NULL;
	}
	return ret;
}

/*
 * The barrier of an acquire must come after the submit's wait for the fences. It does
 * if it shares a stage with the wait, and both name all stages. Reads need no flush.
 */
void vulkan_transfer(struct vulkan_device *dev, VkCommandBuffer cmd, bool acquire,
		     VkPipelineStageFlags stages, const struct vulkan_owned *buffers,
		     uint32_t n, const VkImageMemoryBarrier *images, uint32_t nimages)
{
	const VkAccessFlags writes = VK_ACCESS_MEMORY_WRITE_BIT |
				     VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT;
	const uint32_t own = dev->physical.family;
	VkBufferMemoryBarrier list[MAX_BRACKETS];

	for (uint32_t i = 0; i < n; i++)
		list[i] = (VkBufferMemoryBarrier){
			.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
			.srcAccessMask = acquire ? 0 : buffers[i].access & writes,
			.dstAccessMask = acquire ? buffers[i].access : 0,
			.srcQueueFamilyIndex = acquire ? buffers[i].other : own,
			.dstQueueFamilyIndex = acquire ? own : buffers[i].other,
			.buffer = buffers[i].buffer,
			.size = VK_WHOLE_SIZE,
		};
	dev->instance.vk.CmdPipelineBarrier(cmd,
		acquire ? VK_PIPELINE_STAGE_ALL_COMMANDS_BIT : stages,
		acquire ? stages : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
		0, 0, NULL, n, list, nimages, images);
}

/* ---- the lock of queues */

/*
 * One lock for each VkDevice, because several devices of dlbuf may be wrapped around one
 * VkDevice, and then use the same queues.
 */
struct vulkan_queue_lock {
	pthread_mutex_t mutex;
	VkDevice device;
	unsigned int users;	/* devices of dlbuf */
	struct vulkan_queue_lock *next;
};

/*
 * Under memory_lock(), which is free again in a child of fork(). The child keeps the
 * parent's entries, as it keeps the devices.
 */
static struct vulkan_queue_lock *queue_locks;

static void lock_own(void *data, VkQueue queue)
{
	struct vulkan_queue_lock *l = data;

	(void)queue;
	pthread_mutex_lock(&l->mutex);
}

static void unlock_own(void *data, VkQueue queue)
{
	struct vulkan_queue_lock *l = data;

	(void)queue;
	pthread_mutex_unlock(&l->mutex);
}

/*
 * The lock is recursive: the application may delete an acquired tensor while it holds
 * the queue, and the deleter then releases the tensor on that queue.
 */
static struct vulkan_queue_lock *lock_create(VkDevice device)
{
	struct vulkan_queue_lock *l = sys_calloc(1, sizeof(*l));
	pthread_mutexattr_t attr;

	if (!l)
		return NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&l->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	l->device = device;
	l->next = queue_locks;
	queue_locks = l;
	return l;
}

int vulkan_lock_get(struct vulkan_device *dev)
{
	struct vulkan_queue_lock *l;

	memory_lock();
	for (l = queue_locks; l && l->device != dev->handle; l = l->next)
		;
	if (!l)
		l = lock_create(dev->handle);
	if (l)
		l->users++;
	memory_unlock();
	if (!l)
		return -ENOMEM;
	dev->lock_queue = lock_own;
	dev->unlock_queue = unlock_own;
	dev->lock_data = l;
	return 0;
}

void vulkan_lock_put(struct vulkan_device *dev)
{
	struct vulkan_queue_lock **p = &queue_locks, *l = dev->lock_data;

	if (dev->lock_queue != lock_own)
		return;
	memory_lock();
	if (!--l->users) {
		while (*p != l)
			p = &(*p)->next;
		*p = l->next;
		pthread_mutex_destroy(&l->mutex);
		free(l);
	}
	memory_unlock();
}

/* ---- jobs */

void vulkan_job_destroy(struct vulkan_device *dev, struct vulkan_job *job)
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
		vulkan_job_destroy(dev, job);
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
		return -ENOMEM;
	ret = VULKAN_CALL(vk, CreateFence, dev->handle, &fence, NULL,
			  &job->done);
	if (!ret && dev->physical.waits)
		ret = VULKAN_CALL(vk, CreateSemaphore, dev->handle, &plain,
				  NULL, &job->wait);
	if (!ret && dev->physical.signals)
		ret = VULKAN_CALL(vk, CreateSemaphore, dev->handle, &exported,
				  NULL, &job->signal);
	if (ret)
		vulkan_job_destroy(dev, job);
	else
		*out = job;
	return ret;
}

/* Under dev->lock: a completed job is used again, unless it failed. */
static void job_recycle(struct vulkan_device *dev, struct vulkan_job *job)
{
	if (job->copy)
		vulkan_copy_free(dev, job->copy);
	job->copy = NULL;
	if (job->binding)
		vulkan_binding_put(job->binding);
	job->binding = NULL;
	if (VULKAN_RESULT(&dev->instance.vk, ResetFences, dev->handle, 1,
			  &job->done) != VK_SUCCESS) {
		vulkan_job_destroy(dev, job);
		return;
	}
	job->next = dev->free_jobs;
	dev->free_jobs = job;
}

/* Under dev->lock. */
static void reap_jobs(struct vulkan_device *dev, struct vulkan_job **list)
{
	struct vulkan_job **p = list, *job;

	while ((job = *p)) {
		/*
		 * On an error the job stays: the jobs of a lost device are freed with the list.
		 */
		if (job->waiters ||
		    dev->instance.vk.GetFenceStatus(dev->handle, job->done) !=
		    VK_SUCCESS) {
			p = &job->next;
			continue;
		}
		*p = job->next;
		job_recycle(dev, job);
	}
}

void vulkan_jobs_reap(struct vulkan_device *dev, struct vulkan_job **list)
{
	pthread_mutex_lock(&dev->lock);
	reap_jobs(dev, list);
	pthread_mutex_unlock(&dev->lock);
}

int vulkan_job_get(struct vulkan_device *dev, struct vulkan_job **list,
		   struct vulkan_job **out)
{
	struct vulkan_job *job;

	pthread_mutex_lock(&dev->lock);
	reap_jobs(dev, list);
	job = dev->free_jobs;
	if (job)
		dev->free_jobs = job->next;
	pthread_mutex_unlock(&dev->lock);
	if (!job)
		return job_create(dev, out);
	*out = job;
	return 0;
}

void vulkan_job_put(struct vulkan_device *dev, struct vulkan_job **list,
		    struct vulkan_job *job)
{
	pthread_mutex_lock(&dev->lock);
	job->next = *list;
	*list = job;
	pthread_mutex_unlock(&dev->lock);
}

int vulkan_job_submit(struct vulkan_device *dev, struct vulkan_job *job,
		      VkQueue queue, const struct vulkan_submit *s)
{
	VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = s->wait != VK_NULL_HANDLE,
		.pWaitSemaphoreValues = &s->wait_value,
		.signalSemaphoreValueCount = s->signal != VK_NULL_HANDLE,
		.pSignalSemaphoreValues = &s->signal_value,
	};
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = s->wait_value || s->signal_value ? &values : NULL,
		.waitSemaphoreCount = values.waitSemaphoreValueCount,
		.pWaitSemaphores = &s->wait,
		.pWaitDstStageMask = &all,
		.commandBufferCount = s->cmd != NULL,
		.pCommandBuffers = &s->cmd,
		.signalSemaphoreCount = values.signalSemaphoreValueCount,
		.pSignalSemaphores = &s->signal,
	};
	int ret;

	job->queue = queue;
	dev->lock_queue(dev->lock_data, queue);
	ret = VULKAN_CALL(&dev->instance.vk, QueueSubmit, queue, 1, &info,
			  job->done);
	dev->unlock_queue(dev->lock_data, queue);
	return ret;
}

/*
 * Waits in steps of a second. Mesa's drivers check at each call whether their device is lost,
 * but if a submit fails on a thread of the driver (V3DV), an unlimited wait never returns.
 */
static VkResult wait_for_fence(struct vulkan_device *dev, VkFence fence)
{
	VkResult result;

	do
		result = VULKAN_RESULT(&dev->instance.vk, WaitForFences, dev->handle, 1, &fence,
				       VK_TRUE, 1000000000);
	while (result == VK_TIMEOUT);
	return result;
}

int vulkan_job_wait(struct vulkan_device *dev, struct vulkan_job *job)
{
	return vulkan_check(wait_for_fence(dev, job->done), VULKAN_FUNCTION(WaitForFences));
}

void vulkan_drain(struct vulkan_device *dev, VkQueue queue)
{
	dev->lock_queue(dev->lock_data, queue);
	dev->instance.vk.QueueWaitIdle(queue);
	dev->unlock_queue(dev->lock_data, queue);
}

void vulkan_job_finish(struct vulkan_device *dev, struct vulkan_job *job)
{
	if (wait_for_fence(dev, job->done) != VK_SUCCESS)
		vulkan_drain(dev, job->queue);
}

void vulkan_jobs_finish(struct vulkan_device *dev, struct vulkan_job **list)
{
	struct vulkan_job *job;

	for (job = *list; job; job = job->next)
		vulkan_job_finish(dev, job);
	pthread_mutex_lock(&dev->lock);
	while ((job = *list)) {
		*list = job->next;
		job_recycle(dev, job);
	}
	pthread_mutex_unlock(&dev->lock);
}

static bool uses(const struct vulkan_job *job, const struct vulkan_import *vi)
{
	uint32_t i = 0;

	while (i < job->nimports && job->imports[i] != vi)
		i++;
	return i < job->nimports;
}

bool vulkan_jobs_run(struct vulkan_device *dev, const struct vulkan_job *job,
		     const struct vulkan_import *of)
{
	for (; job; job = job->next)
		if ((!of || uses(job, of)) &&
		    dev->instance.vk.GetFenceStatus(dev->handle, job->done) ==
		    VK_NOT_READY)
			return true;
	return false;
}

void vulkan_jobs_finish_together(struct vulkan_device *dev,
				 const struct vulkan_import *vi)
{
	struct vulkan_job *job;

	pthread_mutex_lock(&dev->lock);
	for (job = dev->together; job; job = job->next) {
		if (!uses(job, vi))
			continue;
		job->waiters++;
		pthread_mutex_unlock(&dev->lock);
		vulkan_job_finish(dev, job);
		pthread_mutex_lock(&dev->lock);
		job->waiters--;
	}
	reap_jobs(dev, &dev->together);
	pthread_mutex_unlock(&dev->lock);
}

int vulkan_import_fence(struct vulkan_device *dev, int fence,
			VkSemaphore semaphore)
{
	VkImportSemaphoreFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
		.semaphore = semaphore,
		.flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT,
		.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT,
		.fd = sys_dup(fence),
	};
	int spare = sys_dup(fence), ret;

	/* If no fd is left, lavapipe's import succeeds, and the device's wait never ends. */
	if (info.fd < 0 || spare < 0) {
		ret = fail_errno("fence %d: fcntl(F_DUPFD_CLOEXEC)", fence);
		if (info.fd >= 0)
			close(info.fd);
		if (spare >= 0)
			close(spare);
		return ret;
	}
	close(spare);
	ret = VULKAN_CALL(&dev->instance.vk, ImportSemaphoreFdKHR, dev->handle,
			  &info);
	if (ret)
		sys_close_refused(info.fd, fence);
	return ret;
}

int vulkan_export_semaphore(struct vulkan_device *dev, VkSemaphore semaphore,
			    VkExternalSemaphoreHandleTypeFlagBits type, int *out)
{
	VkSemaphoreGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
		.semaphore = semaphore,
		.handleType = type,
	};
	int fd = -1, ret;

	ret = VULKAN_CALL(&dev->instance.vk, GetSemaphoreFdKHR, dev->handle,
			  &info, &fd);
	if (ret)
		return ret;
	if (fd >= 0)
		return raise_fd(fd, out);
	*out = -1;
	return 0;
}

int vulkan_export_fence(struct vulkan_device *dev, struct vulkan_job *job,
			int *fence)
{
	return vulkan_export_semaphore(dev, job->signal,
		VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT, fence);
}
