// SPDX-License-Identifier: MIT
/*
 * Accesses to a tensor's memory by a Vulkan device: vkCmdCopyBuffer between the
 * tensor's buffer and a staging buffer, on the device's default queue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/vulkan.h>

#include "access.h"

#define FUNCTIONS(X)						\
	X(AllocateCommandBuffers) X(AllocateMemory)		\
	X(BeginCommandBuffer) X(BindBufferMemory)		\
	X(CmdCopyBuffer) X(CmdPipelineBarrier)			\
	X(CreateBuffer) X(CreateCommandPool) X(CreateFence)	\
	X(DestroyBuffer) X(DestroyCommandPool) X(DestroyFence)	\
	X(EndCommandBuffer) X(FreeMemory)			\
	X(GetBufferMemoryRequirements) X(GetFenceStatus)	\
	X(GetPhysicalDeviceMemoryProperties)			\
	X(MapMemory) X(QueueSubmit) X(WaitForFences)

struct copy {
	struct dlbuf_device *dlbuf;
	struct dlbuf_vulkan_device dev;
#define X(name) PFN_vk##name name;
	FUNCTIONS(X)
#undef X
	VkBuffer staging;
	VkDeviceMemory memory;
	void *map;
	VkCommandPool pool;
	VkCommandBuffer cmd;
	VkFence fence;
};

static int load(struct copy *c, DLManagedTensorVersioned *t)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	int ret = dlbuf_tensor_get_info(t, &info);

	if (ret)
		return ret;
	c->dlbuf = info.device;
	c->dev.size = sizeof(c->dev);
	ret = dlbuf_vulkan_get_device(info.device, &c->dev);
	if (ret)
		return ret;
#define X(name)								\
	c->name = (PFN_vk##name)c->dev.get_instance_proc_addr(		\
			c->dev.instance, "vk" #name);			\
	if (!c->name)							\
		return -ENOENT;
	FUNCTIONS(X)
#undef X
	return 0;
}

/* Prefers cached memory: the CPU reads other memory of a GPU slowly. */
static int find_host_memory(struct copy *c, uint32_t types, uint32_t *type)
{
	const VkMemoryPropertyFlags wanted =
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
		VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties memory;
	int ret = -ENOENT;

	c->GetPhysicalDeviceMemoryProperties(c->dev.physical_device, &memory);
	for (uint32_t i = memory.memoryTypeCount; i--;) {
		const VkMemoryPropertyFlags has = memory.memoryTypes[i].propertyFlags;

		if (!(types & 1u << i) || wanted & ~has)
			continue;
		*type = i;
		ret = 0;
		if (has & VK_MEMORY_PROPERTY_HOST_CACHED_BIT)
			break;
	}
	return ret;
}

static int make_staging(struct copy *c, size_t bytes)
{
	VkBufferCreateInfo buffer = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = bytes,
		.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
			 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
	};
	VkMemoryAllocateInfo memory = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	};
	VkMemoryRequirements reqs;

	if (c->CreateBuffer(c->dev.device, &buffer, NULL, &c->staging))
		return -EIO;
	c->GetBufferMemoryRequirements(c->dev.device, c->staging, &reqs);
	memory.allocationSize = reqs.size;
	if (find_host_memory(c, reqs.memoryTypeBits, &memory.memoryTypeIndex))
		return -ENOENT;
	if (c->AllocateMemory(c->dev.device, &memory, NULL, &c->memory) ||
	    c->BindBufferMemory(c->dev.device, c->staging, c->memory, 0) ||
	    c->MapMemory(c->dev.device, c->memory, 0, VK_WHOLE_SIZE, 0, &c->map))
		return -EIO;
	return 0;
}

static int make_commands(struct copy *c)
{
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.queueFamilyIndex = c->dev.queue_family,
	};
	VkCommandBufferAllocateInfo cmd = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1,
	};
	VkFenceCreateInfo fence = {
		.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
	};

	if (c->CreateCommandPool(c->dev.device, &pool, NULL, &c->pool))
		return -EIO;
	cmd.commandPool = c->pool;
	if (c->AllocateCommandBuffers(c->dev.device, &cmd, &c->cmd) ||
	    c->CreateFence(c->dev.device, &fence, NULL, &c->fence))
		return -EIO;
	return 0;
}

/* Copies, and makes the staging buffer's bytes visible to the host. */
static int record(struct copy *c, VkBuffer from, VkBuffer to,
		  const VkBufferCopy *region)
{
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};
	VkMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT,
	};

	if (c->BeginCommandBuffer(c->cmd, &begin))
		return -EIO;
	c->CmdCopyBuffer(c->cmd, from, to, 1, region);
	c->CmdPipelineBarrier(c->cmd, VK_PIPELINE_STAGE_TRANSFER_BIT,
			      VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
			      NULL, 0, NULL);
	return c->EndCommandBuffer(c->cmd) ? -EIO : 0;
}

static int submit(struct copy *c)
{
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1,
		.pCommandBuffers = &c->cmd,
	};
	VkResult result;

	dlbuf_vulkan_lock_queue(c->dlbuf, c->dev.queue);
	result = c->QueueSubmit(c->dev.queue, 1, &info, c->fence);
	dlbuf_vulkan_unlock_queue(c->dlbuf, c->dev.queue);
	return result ? -EIO : 0;
}

static int wait_for(struct copy *c)
{
	VkResult result;

	/* Waits in steps of a second: V3DV does not end waits when its device is lost. */
	do
		result = c->WaitForFences(c->dev.device, 1, &c->fence, VK_TRUE, 1000000000);
	while (result == VK_TIMEOUT);
	return result ? -EIO : 0;
}

static void finish(struct copy *c)
{
	if (!c->WaitForFences) /* nothing was made */
		return;
	c->DestroyFence(c->dev.device, c->fence, NULL);
	c->DestroyCommandPool(c->dev.device, c->pool, NULL);
	c->DestroyBuffer(c->dev.device, c->staging, NULL);
	c->FreeMemory(c->dev.device, c->memory, NULL);
}

/* Submits a write of the bytes at src, or without src a read. */
static int start(struct copy *c, DLManagedTensorVersioned *t, uint64_t offset,
		 size_t bytes, const void *src)
{
	const struct dlbuf_vulkan_buffer *buffer =
		dlbuf_vulkan_buffer_of(&t->dl_tensor);
	VkBufferCopy region = {
		.srcOffset = src ? 0 : offset,
		.dstOffset = src ? offset : 0,
		.size = bytes,
	};
	int ret;

	if (!buffer)
		return -EINVAL;
	ret = load(c, t);
	if (!ret)
		ret = make_staging(c, bytes);
	if (!ret)
		ret = make_commands(c);
	if (!ret && src)
		memcpy(c->map, src, bytes);
	if (!ret)
		ret = src ? record(c, c->staging, buffer->buffer, &region) :
			    record(c, buffer->buffer, c->staging, &region);
	return ret ? ret : submit(c);
}

/* Either dst or src. */
static int copy(DLManagedTensorVersioned *t, uint64_t offset, size_t bytes,
		void *dst, const void *src)
{
	struct copy c = { 0 };
	int ret = start(&c, t, offset, bytes, src);

	if (!ret)
		ret = wait_for(&c);
	if (!ret && dst)
		memcpy(dst, c.map, bytes);
	finish(&c);
	return ret;
}

static int vulkan_submit_read(DLManagedTensorVersioned *t, uint64_t offset,
			      size_t bytes, void **job)
{
	struct copy *c = calloc(1, sizeof(*c));
	int ret = c ? start(c, t, offset, bytes, NULL) : -ENOMEM;

	if (ret) {
		if (c)
			finish(c);
		free(c);
		return ret;
	}
	*job = c;
	return 0;
}

static bool vulkan_job_done(void *job)
{
	struct copy *c = job;

	return c->GetFenceStatus(c->dev.device, c->fence) != VK_NOT_READY;
}

static int vulkan_finish_read(void *job, void *dst, size_t bytes)
{
	struct copy *c = job;
	int ret = wait_for(c);

	if (!ret)
		memcpy(dst, c->map, bytes);
	finish(c);
	free(c);
	return ret;
}

static int vulkan_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		       size_t bytes)
{
	return copy(t, offset, bytes, dst, NULL);
}

static int vulkan_write(DLManagedTensorVersioned *t, uint64_t offset,
			const void *src, size_t bytes)
{
	return copy(t, offset, bytes, NULL, src);
}

const struct access access_vulkan = {
	.backend = "vulkan",
	.reads_by = "vkCmdCopyBuffer",
	.read = vulkan_read,
	.write = vulkan_write,
	.submit_read = vulkan_submit_read,
	.job_done = vulkan_job_done,
	.finish_read = vulkan_finish_read,
};
