/* SPDX-License-Identifier: MIT */
/*
 * Vulkan. DLPack gives `data` of a kDLVulkan tensor no meaning; dlbuf's is
 * this: data points to a struct dlbuf_vulkan_buffer, which is the whole
 * dma-buf as one VkBuffer, and byte_offset is where the tensor begins in it.
 * The struct is peeked: it is the library's and lives as long as the tensor.
 * A tensor without elements has data == NULL, as DLPack asks.
 *
 * The VkBuffer has the usages TRANSFER_SRC, TRANSFER_DST, STORAGE_BUFFER,
 * UNIFORM_BUFFER, and SHADER_DEVICE_ADDRESS where the device has it, is
 * exclusive to one queue family at a time, and is handed over between the
 * device and the rest of the machine by dlbuf_acquire() and dlbuf_release().
 * After an acquire it may be used by any stage of what is submitted to that
 * queue later, without a barrier of yours. A release on another queue than
 * the acquire's is yours to order after your work on the first.
 *
 * Needs the Vulkan headers, 1.2 or newer; the library itself needs neither
 * them nor libvulkan until a Vulkan device is opened.
 *
 * Specification: VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf,
 * VK_EXT_queue_family_foreign, VK_EXT_image_drm_format_modifier.
 */
#ifndef DLBUF_VULKAN_H
#define DLBUF_VULKAN_H

#include <vulkan/vulkan_core.h>

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_vulkan_buffer {
	VkBuffer buffer;
	VkDeviceMemory memory;
	VkDeviceSize size;		/* of buffer, bytes */
	VkDeviceAddress address;	/* of buffer, 0 where there is none */
	VkDevice device;
};

/* The VkBuffer behind a kDLVulkan tensor of dlbuf; NULL without elements. */
static inline const struct dlbuf_vulkan_buffer *
dlbuf_vulkan_buffer_of(const DLTensor *tensor)
{
	return (const struct dlbuf_vulkan_buffer *)tensor->data;
}

struct dlbuf_vulkan_device {
	size_t size;			/* of this struct, set by the caller */
	VkInstance instance;
	VkPhysicalDevice physical_device;
	VkDevice device;
	VkQueue queue;			/* the default stream */
	uint32_t queue_family;		/* of every stream */
	uint32_t api_version;		/* VK_API_VERSION_1_1 or newer */
	PFN_vkGetInstanceProcAddr get_instance_proc_addr;
	/*
	 * Wrapping only, may be NULL: the names of the extensions that the
	 * device was created with. dlbuf needs VK_KHR_external_memory_fd and
	 * VK_EXT_external_memory_dma_buf, and uses VK_EXT_queue_family_foreign
	 * and VK_EXT_image_drm_format_modifier, without which it reads no tiled
	 * frames, where they are in the list. NULL: dlbuf assumes the first two.
	 * Devices that dlbuf opens have all four and
	 * VK_KHR_external_semaphore_fd, as far as the driver has them.
	 */
	const char *const *extensions;
	uint32_t nextensions;
	/*
	 * The bufferDeviceAddress feature was switched on. In an answer: the
	 * buffers have addresses.
	 */
	VkBool32 buffer_device_address;
	/*
	 * Wrapping only, may be NULL: called around each use of a queue by
	 * dlbuf, because Vulkan's queues take one thread at a time. Only
	 * submissions are inside, no waits for the device (except after a
	 * failure). NULL: see dlbuf_vulkan_lock_queue().
	 */
	void (*lock_queue)(void *lock_data, VkQueue queue);
	void (*unlock_queue)(void *lock_data, VkQueue queue);
	void *lock_data;
};

/*
 * Makes a dlbuf device of the application's own VkDevice, so that imported
 * VkBuffers are its own.
 *
 * The handles in vk are borrowed and must outlive the device and its tensors;
 * vk itself, extensions included, is copied. opts are borrowed, *out is new
 * and closed with dlbuf_device_close(), which destroys nothing of yours.
 * -EINVAL  a handle is missing, api_version is below 1.1, bad opts
 * -EOPNOTSUPP  the device lacks what the import needs; the sentence says what
 * -EIO     the driver failed
 */
DLBUF_API int dlbuf_device_wrap_vulkan(const struct dlbuf_vulkan_device *vk,
				       const struct dlbuf_device_opts *opts,
				       struct dlbuf_device **out);

/*
 * The Vulkan handles of a device that dlbuf opened or wrapped, to run shaders
 * on its tensors. They are peeked, and live as long as the device.
 * -EINVAL  not a Vulkan device, or size not set
 */
DLBUF_API int dlbuf_vulkan_get_device(struct dlbuf_device *dev,
				      struct dlbuf_vulkan_device *vk);

/*
 * Vulkan's queues take one thread at a time. Call these around your own use
 * of a queue, when other threads may be inside dlbuf on the same device. On a
 * device wrapped with a lock of the application's they call that.
 *
 * dlbuf's own lock is one for all queues of the device and may be taken again
 * by the thread that holds it: a tensor may be acquired, released and deleted
 * inside. May block while another thread submits. -EINVAL: not a Vulkan
 * device.
 */
DLBUF_API int dlbuf_vulkan_lock_queue(struct dlbuf_device *dev, VkQueue queue);
DLBUF_API int dlbuf_vulkan_unlock_queue(struct dlbuf_device *dev, VkQueue queue);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_VULKAN_H */
