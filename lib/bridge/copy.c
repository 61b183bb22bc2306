// SPDX-License-Identifier: MIT
/*
 * The bridge's buffers. A buffer has a dma-buf and memory that the other API shares;
 * submits copy one into the other. Each copy begins and ends with ownership transfers:
 * of the dma-buf from and to the foreign queue family, and of the memory from and to
 * the external queue family (other APIs on the same device).
 */
#include <errno.h>

#include "../dmabuf/fence.h"
#include "device.h"

struct bound {
	VkBuffer buffer;
	VkDeviceMemory memory;
};

struct bridge_buffer {
	struct bridge *bridge;
	uint64_t bytes;
	struct bound dma_buf, shared;
	VkCommandBuffer cmds[2];	/* in, out */
	struct vulkan_job *jobs;	/* running submits; under dev->lock */
};

/* ---- memory */

static void unbind(struct vulkan_device *dev, struct bound *b)
{
	dev->instance.vk.DestroyBuffer(dev->handle, b->buffer, NULL);
	vulkan_free_memory(dev, b->memory);
}

/* Prefers device memory, because the other API may read it often. */
static int shared_type(struct vulkan_device *dev, uint32_t wanted,
		       uint32_t *type)
{
	uint32_t types;
	int ret = vulkan_types(dev, wanted, UINT32_MAX, &types);

	if (ret)
		return ret;
	if (types & dev->physical.local_types)
		types &= dev->physical.local_types;
	*type = __builtin_ctz(types);
	return 0;
}

static int allocate_shared(struct bridge *bridge, struct bound *b,
			   uint64_t *allocated, bool *is_dedicated)
{
	struct vulkan_device *dev = bridge->dev;
	VkMemoryDedicatedAllocateInfo dedicated = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
		.buffer = b->buffer,
	};
	VkExportMemoryAllocateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
		.handleTypes = bridge->handle,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &export,
	};
	VkMemoryRequirements reqs;
	int ret;

	*is_dedicated = bridge->dedicated_only;
	reqs = vulkan_needs(dev, b->buffer, VK_NULL_HANDLE, is_dedicated);
	*allocated = info.allocationSize = reqs.size;
	if (*is_dedicated)
		export.pNext = &dedicated;
	ret = shared_type(dev, reqs.memoryTypeBits, &info.memoryTypeIndex);
	return ret ? ret : VULKAN_CALL(&dev->instance.vk, AllocateMemory,
				       dev->handle, &info, NULL, &b->memory);
}

static int export_shared(struct bridge *bridge, VkDeviceMemory memory, int *out)
{
	struct vulkan_device *dev = bridge->dev;
	VkMemoryGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
		.memory = memory,
		.handleType = bridge->handle,
	};
	int fd, ret;

	ret = VULKAN_CALL(&dev->instance.vk, GetMemoryFdKHR, dev->handle, &info,
			  &fd);
	return ret ? ret : raise_fd(fd, out);
}

/* unbind() undoes this, also after a failure. */
static int share(struct bridge_buffer *buffer, int *fd,
		 uint64_t *allocated, bool *dedicated)
{
	struct vulkan_device *dev = buffer->bridge->dev;
	struct bound *b = &buffer->shared;
	int ret;

	ret = vulkan_buffer_create(dev, buffer->bridge->handle, buffer->bytes, false,
				   &b->buffer);
	if (!ret)
		ret = allocate_shared(buffer->bridge, b, allocated, dedicated);
	if (!ret)
		ret = VULKAN_CALL(&dev->instance.vk, BindBufferMemory,
				  dev->handle, b->buffer, b->memory, 0);
	return ret ? ret : export_shared(buffer->bridge, b->memory, fd);
}

/* ---- commands */

/* The first command buffer copies in, the second one out. */
static void record_copy(VkCommandBuffer cmd, uint32_t n, void *data)
{
	struct bridge_buffer *b = data;
	struct vulkan_device *dev = b->bridge->dev;
	const VkBufferCopy whole = { .size = b->bytes };
	struct vulkan_owned both[] = {
		{ b->dma_buf.buffer, dev->foreign, 0 },
		{ b->shared.buffer, bridge_family(b->bridge), 0 },
	};

	both[n].access = VK_ACCESS_TRANSFER_READ_BIT;
	both[!n].access = VK_ACCESS_TRANSFER_WRITE_BIT;
	vulkan_transfer(dev, cmd, true, VK_PIPELINE_STAGE_TRANSFER_BIT, both, 2, NULL, 0);
	dev->instance.vk.CmdCopyBuffer(cmd, both[n].buffer, both[!n].buffer, 1, &whole);
	vulkan_transfer(dev, cmd, false, VK_PIPELINE_STAGE_TRANSFER_BIT, both, 2, NULL, 0);
}

/* ---- buffers */

static int share_memory(struct bridge_buffer *buffer, int dma_buf, int *fd,
			uint64_t *allocated, bool *dedicated)
{
	struct vulkan_device *dev = buffer->bridge->dev;
	bool address;
	int ret;

	ret = vulkan_import_dma_buf(dev, dma_buf, buffer->bytes, 0,
				    &buffer->dma_buf.buffer,
				    &buffer->dma_buf.memory, &address);
	if (ret)
		return ret;
	ret = share(buffer, fd, allocated, dedicated);
	if (ret)
		goto err;
	pthread_mutex_lock(&dev->lock);
	/* The command buffers may be submitted again while the first submit still runs. */
	ret = vulkan_record(dev, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, record_copy,
			    buffer, 2, buffer->cmds);
	pthread_mutex_unlock(&dev->lock);
	if (!ret)
		return 0;
	close(*fd);
err:
	unbind(dev, &buffer->shared);
	unbind(dev, &buffer->dma_buf);
	return ret;
}

int bridge_buffer_create(struct bridge *bridge, int dma_buf,
				uint64_t bytes,
				struct bridge_buffer **out, int *fd,
				uint64_t *allocated, bool *dedicated)
{
	struct bridge_buffer *buffer = sys_calloc(1, sizeof(*buffer));
	uint64_t size;
	bool alone;
	int ret, new;

	if (!buffer)
		return -ENOMEM;
	buffer->bridge = bridge;
	buffer->bytes = bytes;
	ret = share_memory(buffer, dma_buf, &new, &size, &alone);
	if (ret) {
		free(buffer);
		return ret;
	}
	*out = buffer;
	*fd = new;
	*allocated = size;
	*dedicated = alone;
	return 0;
}

bool bridge_copies(struct bridge_buffer *buffer)
{
	struct vulkan_device *dev = buffer->bridge->dev;
	bool runs;

	pthread_mutex_lock(&dev->lock);
	runs = vulkan_jobs_run(dev, buffer->jobs, NULL);
	pthread_mutex_unlock(&dev->lock);
	return runs;
}

void bridge_buffer_destroy(struct bridge_buffer *buffer)
{
	struct vulkan_device *dev = buffer->bridge->dev;

	vulkan_jobs_finish(dev, &buffer->jobs);
	pthread_mutex_lock(&dev->lock);
	dev->instance.vk.FreeCommandBuffers(dev->handle, dev->pool, 2,
					     buffer->cmds);
	pthread_mutex_unlock(&dev->lock);
	unbind(dev, &buffer->shared);
	unbind(dev, &buffer->dma_buf);
	free(buffer);
}

/* ---- submits */

int bridge_copy(struct bridge_buffer *buffer, bool in)
{
	struct bridge *bridge = buffer->bridge;
	struct vulkan_device *dev = bridge->dev;
	struct vulkan_job *job;
	int ret;

	ret = vulkan_job_get(dev, &buffer->jobs, &job);
	if (ret)
		return ret;
	ret = vulkan_job_submit(dev, job, bridge->in,
				   &(struct vulkan_submit){
		.cmd = buffer->cmds[!in],
	});
	if (ret) {
		vulkan_job_destroy(dev, job);
		return ret;
	}
	ret = vulkan_job_wait(dev, job);
	vulkan_job_put(dev, &buffer->jobs, job);
	return ret;
}

int bridge_in(struct bridge *bridge,
		     struct bridge_buffer *buffer, int fence,
		     struct bridge_link *base)
{
	struct vulkan_device *dev = bridge->dev;
	struct link *link = container_of(base, struct link, base);
	struct vulkan_job **jobs = buffer ? &buffer->jobs : &bridge->jobs;
	struct vulkan_job *job;
	int ret;

	if (fence != -1 && !dev->physical.waits)
		return fail(-EOPNOTSUPP, "vulkan: %s does not wait for fences",
			    dev->physical.info.description);
	ret = vulkan_job_get(dev, jobs, &job);
	if (ret)
		return ret;
	if (fence != -1)
		ret = vulkan_import_fence(dev, fence, job->wait);
	if (!ret)
		ret = vulkan_job_submit(dev, job, bridge->in,
					   &(struct vulkan_submit){
			.cmd = buffer ? buffer->cmds[0] : NULL,
			.wait = fence != -1 ? job->wait : VK_NULL_HANDLE,
			.signal = link->timeline,
			.signal_value = base->value,
		});
	/* The semaphore has a payload that nothing waits for, so it cannot be used again. */
	if (ret)
		vulkan_job_destroy(dev, job);
	else
		vulkan_job_put(dev, jobs, job);
	return ret;
}

int bridge_out(struct bridge *bridge,
		      struct bridge_buffer *buffer,
		      struct bridge_link *base, int *fence)
{
	struct vulkan_device *dev = bridge->dev;
	struct link *link = container_of(base, struct link, base);
	struct vulkan_job **jobs = buffer ? &buffer->jobs : &bridge->jobs;
	struct vulkan_job *job;
	int ret;

	*fence = -1;
	ret = vulkan_job_get(dev, jobs, &job);
	if (ret)
		return ret;
	ret = vulkan_job_submit(dev, job, bridge->out,
				   &(struct vulkan_submit){
		.cmd = buffer ? buffer->cmds[1] : NULL,
		.wait = link->timeline,
		.wait_value = base->value,
		.signal = job->signal,
	});
	if (ret) {
		vulkan_job_destroy(dev, job);
		return ret;
	}
	ret = job->signal ? vulkan_export_fence(dev, job, fence) :
			    vulkan_job_wait(dev, job);
	if (!ret) {
		vulkan_job_put(dev, jobs, job);
		return 0;
	}
	/* The semaphore may be signalled with nothing that waits for it. */
	vulkan_job_finish(dev, job);
	vulkan_job_destroy(dev, job);
	return ret;
}
