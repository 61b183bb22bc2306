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
	VkCommandBuffer in, out;
	struct vulkan_job *jobs;	/* running submits; under dev->lock */
};

/* ---- memory */

static void unbind(struct vulkan_device *dev, struct bound *b)
{
	struct vulkan_api *vk = &dev->instance.vk;

	vk->DestroyBuffer(dev->handle, b->buffer, NULL);
	vk->FreeMemory(dev->handle, b->memory, NULL);
}

static int create_shared(struct bridge *bridge, uint64_t bytes, VkBuffer *out)
{
	struct vulkan_device *dev = bridge->dev;
	VkExternalMemoryBufferCreateInfo external = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
		.handleTypes = bridge->handle,
	};
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.pNext = &external,
		.size = bytes,
		.usage = dev->usage,
		.sharingMode = VK_SHARING_MODE_EXCLUSIVE,
	};

	return VULKAN_CALL(&dev->instance.vk, CreateBuffer, dev->handle, &info,
			   NULL, out);
}

/* Prefers device memory, because the other API may read it often. */
static int shared_type(struct vulkan_device *dev, uint32_t wanted,
		       uint32_t *type)
{
	uint32_t types = wanted & dev->physical.memory_types;

	if (types & dev->physical.local_types)
		types &= dev->physical.local_types;
	if (!types)
		return fail(-EOPNOTSUPP, "vulkan: no memory type fits a "
			    "shared buffer (0x%x) and without a condition "
			    "(0x%x)", wanted, dev->physical.memory_types);
	*type = __builtin_ctz(types);
	return 0;
}

static int allocate_shared(struct bridge *bridge, struct bound *b,
			   uint64_t *allocated, bool *is_dedicated)
{
	struct vulkan_device *dev = bridge->dev;
	VkBufferMemoryRequirementsInfo2 buffer = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
		.buffer = b->buffer,
	};
	VkMemoryDedicatedRequirements needs = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS,
	};
	VkMemoryRequirements2 reqs = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2,
		.pNext = &needs,
	};
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
	int ret;

	dev->instance.vk.GetBufferMemoryRequirements2(dev->handle, &buffer,
						      &reqs);
	*allocated = info.allocationSize = reqs.memoryRequirements.size;
	*is_dedicated = bridge->dedicated_only ||
			needs.requiresDedicatedAllocation ||
			needs.prefersDedicatedAllocation;
	if (*is_dedicated)
		export.pNext = &dedicated;
	ret = shared_type(dev, reqs.memoryRequirements.memoryTypeBits,
			  &info.memoryTypeIndex);
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

	ret = create_shared(buffer->bridge, buffer->bytes, &b->buffer);
	if (!ret)
		ret = allocate_shared(buffer->bridge, b, allocated, dedicated);
	if (!ret)
		ret = VULKAN_CALL(&dev->instance.vk, BindBufferMemory,
				  dev->handle, b->buffer, b->memory, 0);
	return ret ? ret : export_shared(buffer->bridge, b->memory, fd);
}

/* ---- commands */

/*
 * Transfers both buffers to our queue family, or from it. A buffer that was only read
 * needs no flush when it is released.
 */
static void hand_over(struct bridge_buffer *buffer, VkCommandBuffer cmd,
		      bool in, bool acquire)
{
	struct vulkan_device *dev = buffer->bridge->dev;
	VkBufferMemoryBarrier barriers[2] = {
		{ .buffer = in ? buffer->dma_buf.buffer : buffer->shared.buffer },
		{ .buffer = in ? buffer->shared.buffer : buffer->dma_buf.buffer },
	};

	for (int i = 0; i < 2; i++) {
		VkBufferMemoryBarrier *b = &barriers[i];
		uint32_t other = (i == 0) == in ? dev->foreign :
						  bridge_family(buffer->bridge);
		VkAccessFlags access = i ? VK_ACCESS_TRANSFER_WRITE_BIT :
					   VK_ACCESS_TRANSFER_READ_BIT;

		b->sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
		b->size = VK_WHOLE_SIZE;
		b->srcQueueFamilyIndex = acquire ? other : dev->physical.family;
		b->dstQueueFamilyIndex = acquire ? dev->physical.family : other;
		b->dstAccessMask = acquire ? access : 0;
		b->srcAccessMask = acquire || !i ? 0 : access;
	}
	/* The submit's wait names all stages, so this comes after it. */
	dev->instance.vk.CmdPipelineBarrier(cmd,
		acquire ? VK_PIPELINE_STAGE_ALL_COMMANDS_BIT :
			  VK_PIPELINE_STAGE_TRANSFER_BIT,
		acquire ? VK_PIPELINE_STAGE_TRANSFER_BIT :
			  VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
		0, 0, NULL, 2, barriers, 0, NULL);
}

static int record(struct bridge_buffer *buffer, VkCommandBuffer cmd,
		  bool in)
{
	struct vulkan_api *vk = &buffer->bridge->dev->instance.vk;
	/* It may be submitted again while the first submit still runs. */
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
	};
	VkBufferCopy all = { .size = buffer->bytes };
	VkBuffer dma_buf = buffer->dma_buf.buffer;
	VkBuffer shared = buffer->shared.buffer;
	int ret;

	ret = VULKAN_CALL(vk, BeginCommandBuffer, cmd, &begin);
	if (ret)
		return ret;
	hand_over(buffer, cmd, in, true);
	vk->CmdCopyBuffer(cmd, in ? dma_buf : shared, in ? shared : dma_buf, 1,
			  &all);
	hand_over(buffer, cmd, in, false);
	return VULKAN_CALL(vk, EndCommandBuffer, cmd);
}

/* Under dev->lock, which protects the command pool. */
static int record_both(struct bridge_buffer *buffer)
{
	struct vulkan_device *dev = buffer->bridge->dev;
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
	ret = record(buffer, cmd[0], true);
	if (!ret)
		ret = record(buffer, cmd[1], false);
	if (ret) {
		vk->FreeCommandBuffers(dev->handle, dev->pool, 2, cmd);
		return ret;
	}
	buffer->in = cmd[0];
	buffer->out = cmd[1];
	return 0;
}

/* ---- buffers */

static int fill(struct bridge_buffer *buffer, int dma_buf, int *fd,
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
	ret = record_both(buffer);
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
	ret = fill(buffer, dma_buf, &new, &size, &alone);
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
	VkCommandBuffer both[] = { buffer->in, buffer->out };

	vulkan_jobs_finish(dev, &buffer->jobs);
	pthread_mutex_lock(&dev->lock);
	dev->instance.vk.FreeCommandBuffers(dev->handle, dev->pool, 2, both);
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
	ret = vulkan_bridge_submit(bridge, job, bridge->in,
				   &(struct vulkan_submit){
		.cmd = in ? buffer->in : buffer->out,
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
		ret = vulkan_bridge_submit(bridge, job, bridge->in,
					   &(struct vulkan_submit){
			.cmd = buffer ? buffer->in : NULL,
			.wait = fence != -1 ? job->wait : VK_NULL_HANDLE,
			.signal = link->timeline,
			.signal_value = base->value,
		});
	/* The semaphore has a payload that nothing will wait for: not usable again. */
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
	ret = vulkan_bridge_submit(bridge, job, bridge->out,
				   &(struct vulkan_submit){
		.cmd = buffer ? buffer->out : NULL,
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
