// SPDX-License-Identifier: MIT
/* A dma-buf as a VkBuffer bound to imported memory. */
#include <errno.h>

#include "vulkan.h"

static int create_buffer(struct vulkan_device *dev, struct vulkan_import *vi)
{
	VkExternalMemoryBufferCreateInfo external = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
		.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
	};
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.pNext = &external,
		.size = vi->base.bytes,
		.usage = dev->usage,
		.sharingMode = VK_SHARING_MODE_EXCLUSIVE,
	};

	return VULKAN_CALL(&dev->instance.vk, CreateBuffer, dev->handle, &info,
			   NULL, &vi->buffer.buffer);
}

/* What the memory behind the buffer has to be. */
struct needs {
	uint32_t type;
	bool dedicated;
};

static int find_memory_type(struct vulkan_device *dev,
			    struct vulkan_import *vi, uint32_t buffer_types,
			    uint32_t *type)
{
	VkMemoryFdPropertiesKHR fd = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR,
	};
	uint32_t types;
	int ret;

	/* Looks at the fd and does not take it. */
	ret = VULKAN_CALL(&dev->instance.vk, GetMemoryFdPropertiesKHR,
			  dev->handle,
			  VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
			  vi->base.fd, &fd);
	if (ret)
		return ret;
	types = buffer_types & fd.memoryTypeBits & dev->physical.memory_types;
	if (!types)
		return fail(-EOPNOTSUPP, "vulkan: no memory type is for the "
			    "buffer (0x%x), for the dma-buf (0x%x) and without"
			    " a condition (0x%x)", buffer_types,
			    fd.memoryTypeBits, dev->physical.memory_types);
	*type = __builtin_ctz(types);
	return 0;
}

static int find_needs(struct vulkan_device *dev, struct vulkan_import *vi,
		      struct needs *needs)
{
	VkBufferMemoryRequirementsInfo2 info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
		.buffer = vi->buffer.buffer,
	};
	VkMemoryDedicatedRequirements dedicated = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS,
	};
	VkMemoryRequirements2 reqs = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2,
		.pNext = &dedicated,
	};

	dev->instance.vk.GetBufferMemoryRequirements2(dev->handle, &info, &reqs);
	/*
	 * Drivers round up to their own page. Memory that is not there cannot
	 * be imported: some of them look and refuse, the others do not look.
	 */
	if (reqs.memoryRequirements.size > vi->base.bytes)
		return fail(-EOPNOTSUPP, "vulkan: a VkBuffer over the dma-buf "
			    "needs %llu bytes, the dma-buf has %llu; allocate "
			    "it in multiples of %llu",
			    (unsigned long long)reqs.memoryRequirements.size,
			    (unsigned long long)vi->base.bytes,
			    (unsigned long long)reqs.memoryRequirements.alignment);
	needs->dedicated = dev->physical.dedicated_only ||
			   dedicated.requiresDedicatedAllocation ||
			   dedicated.prefersDedicatedAllocation;
	return find_memory_type(dev, vi, reqs.memoryRequirements.memoryTypeBits,
				&needs->type);
}

static int import_memory(struct vulkan_device *dev, struct vulkan_import *vi,
			 const struct needs *needs)
{
	VkImportMemoryFdInfoKHR import = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
		.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
	};
	VkMemoryDedicatedAllocateInfo dedicated = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
		.buffer = vi->buffer.buffer,
	};
	VkMemoryAllocateFlagsInfo flags = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
		.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &import,
		.allocationSize = vi->base.bytes,
		.memoryTypeIndex = needs->type,
	};
	int fd, ret;

	if (needs->dedicated) {
		dedicated.pNext = info.pNext;
		info.pNext = &dedicated;
	}
	if (dev->physical.address) {
		flags.pNext = info.pNext;
		info.pNext = &flags;
	}
	fd = sys_dup(vi->base.fd);
	if (fd < 0)
		return fail_errno("vulkan: fcntl(F_DUPFD_CLOEXEC)");
	import.fd = fd;
	ret = VULKAN_CALL(&dev->instance.vk, AllocateMemory, dev->handle, &info,
			  NULL, &vi->buffer.memory);
	if (!ret)
		fd = -1; /* the driver's now */
	else
		close(fd);
	return ret;
}

static void find_buffer_address(struct vulkan_device *dev,
				struct vulkan_import *vi)
{
	VkBufferDeviceAddressInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
		.buffer = vi->buffer.buffer,
	};

	if (dev->physical.address)
		vi->buffer.address = dev->instance.vk.GetBufferDeviceAddress(
			dev->handle, &info);
}

int vulkan_import_buffer(struct import *imp)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	struct vulkan_api *vk = &dev->instance.vk;
	struct needs needs;
	int ret;

	ret = create_buffer(dev, vi);
	if (ret)
		return ret;
	ret = find_needs(dev, vi, &needs);
	if (!ret)
		ret = import_memory(dev, vi, &needs);
	if (ret)
		goto err_buffer;
	ret = VULKAN_CALL(vk, BindBufferMemory, dev->handle, vi->buffer.buffer,
			  vi->buffer.memory, 0);
	if (ret)
		goto err_memory;
	find_buffer_address(dev, vi);
	vi->buffer.size = imp->bytes;
	vi->buffer.device = dev->handle;
	imp->data = &vi->buffer;
	imp->path = DLBUF_PATH_DIRECT;
	return 0;

err_memory:
	vk->FreeMemory(dev->handle, vi->buffer.memory, NULL);
err_buffer:
	vk->DestroyBuffer(dev->handle, vi->buffer.buffer, NULL);
	return ret;
}

void vulkan_unimport_buffer(struct import *imp)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	struct vulkan_api *vk = &dev->instance.vk;

	vulkan_sync_finish(vi);
	vk->DestroyBuffer(dev->handle, vi->buffer.buffer, NULL);
	/* Closes the driver's duplicate too. */
	vk->FreeMemory(dev->handle, vi->buffer.memory, NULL);
}
