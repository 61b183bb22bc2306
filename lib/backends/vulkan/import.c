// SPDX-License-Identifier: MIT
/* Imports a dma-buf: a VkBuffer that is bound to the imported memory. */
#include <errno.h>
#include <fcntl.h>

#include "vulkan.h"

#define DMA_BUF VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT

int vulkan_buffer_create(struct vulkan_device *dev,
			 VkExternalMemoryHandleTypeFlags handle, uint64_t bytes,
			 bool address, VkBuffer *out)
{
	VkExternalMemoryBufferCreateInfo external = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
		.handleTypes = handle,
	};
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.pNext = &external,
		.size = bytes,
		.usage = dev->usage,
		.sharingMode = VK_SHARING_MODE_EXCLUSIVE,
	};

	if (!address)
		info.usage &= ~VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
	/* RADV and Turnip do not check it. */
	if (bytes > dev->physical.max_buffer)
		return fail(-EOPNOTSUPP, "vulkan: a VkBuffer has %llu bytes at most, the "
			    "dma-buf has %llu",
			    (unsigned long long)dev->physical.max_buffer,
			    (unsigned long long)bytes);
	return VULKAN_CALL(&dev->instance.vk, CreateBuffer, dev->handle, &info,
			   NULL, out);
}

/* Requirements of a buffer for its memory. */
struct needs {
	uint32_t types;
	bool dedicated;
	uint64_t bytes;
};

int vulkan_types(const struct vulkan_device *dev, uint32_t wanted, uint32_t memory,
		 uint32_t *types)
{
	*types = wanted & memory & dev->physical.memory_types;
	return *types ? 0 :
	       fail(-EOPNOTSUPP, "vulkan: no memory type fits the resource (0x%x), its "
		    "memory (0x%x) and without a condition (0x%x)", wanted, memory,
		    dev->physical.memory_types);
}

int vulkan_memory_types(struct vulkan_device *dev, int dma_buf,
			uint32_t wanted, uint32_t *types)
{
	VkMemoryFdPropertiesKHR fd = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR,
	};
	int ret;

	/* This call does not take the fd. */
	ret = VULKAN_CALL(&dev->instance.vk, GetMemoryFdPropertiesKHR,
			  dev->handle, DMA_BUF, dma_buf, &fd);
	return ret ? ret : vulkan_types(dev, wanted, fd.memoryTypeBits, types);
}

VkMemoryRequirements vulkan_needs(struct vulkan_device *dev, VkBuffer buffer,
				  VkImage image, bool *alone)
{
	VkBufferMemoryRequirementsInfo2 of_buffer = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
		.buffer = buffer,
	};
	VkImageMemoryRequirementsInfo2 of_image = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_REQUIREMENTS_INFO_2,
		.image = image,
	};
	VkMemoryDedicatedRequirements wants = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS,
	};
	VkMemoryRequirements2 reqs = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2,
		.pNext = &wants,
	};

	if (image)
		dev->instance.vk.GetImageMemoryRequirements2(dev->handle, &of_image,
							     &reqs);
	else
		dev->instance.vk.GetBufferMemoryRequirements2(dev->handle, &of_buffer,
							      &reqs);
	*alone |= wants.requiresDedicatedAllocation || wants.prefersDedicatedAllocation;
	return reqs.memoryRequirements;
}

static int find_needs(struct vulkan_device *dev, VkBuffer buffer, int dma_buf,
		      uint64_t bytes, struct needs *needs)
{
	VkMemoryRequirements reqs;

	needs->dedicated = dev->physical.dedicated_only;
	reqs = vulkan_needs(dev, buffer, VK_NULL_HANDLE, &needs->dedicated);
	/*
	 * Drivers round the size up to their own page size. A dma-buf that is
	 * shorter cannot be imported; some drivers do not check that.
	 */
	if (reqs.size > bytes)
		return fail(-EOPNOTSUPP, "vulkan: a VkBuffer over the dma-buf "
			    "needs %llu bytes, the dma-buf has %llu; allocate "
			    "it in multiples of %llu",
			    (unsigned long long)reqs.size, (unsigned long long)bytes,
			    (unsigned long long)reqs.alignment);
	needs->bytes = reqs.size;
	return vulkan_memory_types(dev, dma_buf, reqs.memoryTypeBits, &needs->types);
}

/*
 * Finds how many bytes the memory must have in addition to a buffer of whole pages. With
 * V3DV of Mesa 25 these are 256, because its GPU reads up to 64 bytes after the end.
 */
int vulkan_find_slack(struct vulkan_device *dev)
{
	const uint64_t bytes = 1 << 16;
	VkMemoryRequirements reqs;
	VkBuffer buffer;
	bool alone = false;
	int ret = vulkan_buffer_create(dev, DMA_BUF, bytes, false, &buffer);

	if (ret)
		return ret;
	reqs = vulkan_needs(dev, buffer, VK_NULL_HANDLE, &alone);
	dev->instance.vk.DestroyBuffer(dev->handle, buffer, NULL);
	/* A larger difference comes from alignment. */
	if (reqs.size > bytes && reqs.alignment < bytes)
		dev->base.slack = reqs.size - bytes;
	return 0;
}

/*
 * V3DV of Mesa 25 closes the kernel's handle of a dma-buf after it has forgotten the buffer,
 * and a thread that imports the dma-buf meanwhile gets the same handle, which is then closed.
 * So its imports and their ends do not run at once.
 */
static void serialise(struct vulkan_device *dev, int (*fn)(pthread_mutex_t *))
{
	if (dev->physical.driver == VK_DRIVER_ID_MESA_V3DV)
		fn(&dev->lock);
}

void vulkan_free_memory(struct vulkan_device *dev, VkDeviceMemory memory)
{
	serialise(dev, pthread_mutex_lock);
	dev->instance.vk.FreeMemory(dev->handle, memory, NULL);
	serialise(dev, pthread_mutex_unlock);
}

/*
 * allocationSize is what the resource needs, and not the size of the dma-buf: V3DV of Mesa
 * 25 adds what its GPU reads ahead to allocationSize, and refuses a dma-buf that is smaller.
 * ANV counts it in the heap of the memory's type, also if the dma-buf is elsewhere: another
 * type may have room.
 */
int vulkan_import_memory(struct vulkan_device *dev, int dma_buf, uint64_t bytes,
			 uint32_t types, bool address, const void *next,
			 VkDeviceMemory *out)
{
	VkMemoryAllocateFlagsInfo flags = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
		.pNext = next,
		.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
	};
	VkImportMemoryFdInfoKHR import = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
		.pNext = address ? &flags : next,
		.handleType = DMA_BUF,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &import,
		.allocationSize = bytes,
	};
	VkResult result;
	int ret;

	import.fd = sys_dup(dma_buf);
	if (import.fd < 0)
		return fail_errno("vulkan: fcntl(F_DUPFD_CLOEXEC)");
	info.memoryTypeIndex = __builtin_ctz(types);
	serialise(dev, pthread_mutex_lock);
	result = VULKAN_RESULT(&dev->instance.vk, AllocateMemory, dev->handle, &info,
			       NULL, out);
	serialise(dev, pthread_mutex_unlock);
	if (result == VK_SUCCESS)
		return 0;
	sys_close_refused(import.fd, dma_buf);
	types &= types - 1;
	if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY && types)
		return vulkan_import_memory(dev, dma_buf, bytes, types, address, next, out);
	ret = vulkan_check(result, VULKAN_FUNCTION(AllocateMemory));
	if (ret == -EOPNOTSUPP)
		/* Drivers that map the memory map it for writing. */
		fail(ret, "vulkan: vkAllocateMemory: %s%s%s", vulkan_result_name(result),
		     !address && dev->physical.address ?
		     ", with a device address and without" : "",
		     (fcntl(dma_buf, F_GETFL) & O_ACCMODE) == O_RDONLY ?
		     " (the fd is read-only)" : "");
	return ret;
}

static int import_memory(struct vulkan_device *dev, VkBuffer buffer,
			 int dma_buf, const struct needs *needs, bool address,
			 VkDeviceMemory *out)
{
	VkMemoryDedicatedAllocateInfo dedicated = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
		.buffer = buffer,
	};

	return vulkan_import_memory(dev, dma_buf, needs->bytes, needs->types, address,
				    needs->dedicated ? &dedicated : NULL, out);
}

static int try_import(struct vulkan_device *dev, int dma_buf, uint64_t bytes,
		      uint64_t unusable, bool address, VkBuffer *buffer,
		      VkDeviceMemory *memory)
{
	struct vulkan_api *vk = &dev->instance.vk;
	struct needs needs;
	int ret;

	ret = vulkan_buffer_create(dev, DMA_BUF, bytes - unusable, address, buffer);
	if (ret)
		return ret;
	ret = find_needs(dev, *buffer, dma_buf, bytes, &needs);
	if (!ret)
		ret = import_memory(dev, *buffer, dma_buf, &needs, address, memory);
	if (ret)
		goto err_buffer;
	ret = VULKAN_CALL(vk, BindBufferMemory, dev->handle, *buffer, *memory,
			  0);
	if (ret)
		goto err_memory;
	return 0;

err_memory:
	vulkan_free_memory(dev, *memory);
err_buffer:
	vk->DestroyBuffer(dev->handle, *buffer, NULL);
	return ret;
}

int vulkan_import_dma_buf(struct vulkan_device *dev, int dma_buf,
			  uint64_t bytes, uint64_t unusable, VkBuffer *buffer,
			  VkDeviceMemory *memory, bool *address)
{
	int ret;

	*address = dev->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
	do
		ret = try_import(dev, dma_buf, bytes, unusable, *address, buffer, memory);
	while (vulkan_import_again(ret, address));
	return ret;
}

static void find_buffer_address(struct vulkan_device *dev,
				struct vulkan_import *vi)
{
	VkBufferDeviceAddressInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
		.buffer = vi->buffer.buffer,
	};

	vi->buffer.address = dev->instance.vk.GetBufferDeviceAddress(dev->handle, &info);
}

int vulkan_import_buffer(struct import *imp)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	bool address;
	int ret;

	if (imp->bytes > dev->base.slack)
		imp->unusable = dev->base.slack;
	ret = vulkan_import_dma_buf(dev, imp->fd, imp->bytes, imp->unusable,
				    &vi->buffer.buffer, &vi->buffer.memory, &address);
	if (ret)
		return ret;
	if (address)
		find_buffer_address(dev, vi);
	vi->buffer.size = imp->bytes - imp->unusable;
	vi->buffer.device = dev->handle;
	imp->data = &vi->buffer;
	imp->opaque = true;
	pthread_mutex_lock(&dev->lock);
	vi->serial = ++dev->serial;
	vi->next = dev->imports;
	vi->prev = &dev->imports;
	if (vi->next)
		vi->next->prev = &vi->next;
	dev->imports = vi;
	pthread_mutex_unlock(&dev->lock);
	return 0;
}

bool vulkan_unimport_buffer(struct import *imp, bool wait)
{
	struct vulkan_device *dev = vulkan_device(imp->dev);
	struct vulkan_import *vi = vulkan_import(imp);
	struct vulkan_api *vk = &dev->instance.vk;

	/* The application's handles need not live longer than the device and its tensors. */
	wait |= __atomic_load_n(&dev->shut, __ATOMIC_ACQUIRE);
	if (!wait && vulkan_is_busy(dev, vi))
		return false;
	pthread_mutex_lock(&dev->lock);
	*vi->prev = vi->next;
	if (vi->next)
		vi->next->prev = vi->prev;
	pthread_mutex_unlock(&dev->lock);
	vulkan_sync_finish(vi);
	vk->DestroyBuffer(dev->handle, vi->buffer.buffer, NULL);
	/* This also closes the driver's fd. */
	vulkan_free_memory(dev, vi->buffer.memory);
	return true;
}

/* ---- the trial */

#define HALF (TRIAL_PAGE / 2)
/* Less than a half, by more than drivers leave out at the end of a buffer. */
#define TRIED (HALF / 2)

static void copy_half(VkCommandBuffer cmd, uint32_t n, void *data)
{
	const struct vulkan_import *vi = data;
	struct vulkan_device *dev = vulkan_device(vi->base.dev);
	const VkBufferCopy region = { 0, HALF, TRIED };
	const struct vulkan_owned all = {
		vi->buffer.buffer, dev->foreign,
		VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
	};

	(void)n;
	for (int acquire = 1; acquire >= 0; acquire--) {
		if (!acquire)
			dev->instance.vk.CmdCopyBuffer(cmd, all.buffer, all.buffer, 1,
						       &region);
		vulkan_transfer(dev, cmd, acquire, VK_PIPELINE_STAGE_TRANSFER_BIT, &all, 1,
				NULL, 0);
	}
}

/* The device copies the bytes that the CPU has written to the part that the CPU reads. */
int vulkan_try_buffer(struct dlbuf_device *dev, const struct trial_buffer *t, bool *shares)
{
	struct vulkan_import vi = {
		.base = { .dev = dev, .fd = t->fd, .bytes = TRIAL_PAGE },
	};
	struct vulkan_copy *copy = sys_calloc(1, sizeof(*copy));
	int done = -1, ret = copy ? vulkan_import_buffer(&vi.base) : -ENOMEM;

	if (ret) {
		free(copy);
		return ret;
	}
	ret = trial_by_cpu(t, 0, TRIED, 1, NULL);
	if (!ret)
		ret = vulkan_submit_copy(&vi, copy, copy_half, &vi, -1, &done);
	else
		free(copy);
	vulkan_unimport_buffer(&vi.base, true);
	if (done != -1)
		close(done);
	return ret ? ret : trial_by_cpu(t, HALF, TRIED, 1, shares);
}

int vulkan_try_imports(struct vulkan_device *dev)
{
	bool apart = false;
	int ret = trial_run(&dev->base, vulkan_try_buffer, &apart);

	return ret < 0 ? ret : apart ? trial_apart() : 0;
}
