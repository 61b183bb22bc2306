/* SPDX-License-Identifier: MIT */
/*
 * Vulkan: the buffer of a tensor, and devices around your own VkDevice.
 *
 * DLPack does not define `data` of a kDLVulkan tensor. In dlbuf it points to a
 * struct dlbuf_vulkan_buffer: the whole dma-buf as one VkBuffer. byte_offset is
 * where the tensor begins in it. The struct is peeked and lives as long as the
 * tensor. A tensor without elements has data == NULL, as DLPack requires.
 *
 * The VkBuffer has the usages TRANSFER_SRC, TRANSFER_DST, STORAGE_BUFFER,
 * UNIFORM_BUFFER, and SHADER_DEVICE_ADDRESS if the device has it. It is exclusive
 * to one queue family at a time: dlbuf_acquire() and dlbuf_release() transfer it
 * between the device and the foreign queue family. After an acquire, all stages of
 * later submissions to that queue may use it without a further barrier. If you
 * release on another queue than you acquired on, order that queue after your work
 * on the first one.
 *
 * Your own submits. A submit costs far more than the library's own code, so an application
 * that submits by itself should use dlbuf_acquire_fence() and dlbuf_release_fence(), with
 * the barriers in its own submit. On lavapipe such an access executes 1.03 times as many
 * instructions as the same Vulkan calls by hand. dlbuf_acquire() and dlbuf_release() are a
 * submit each, and an access with them executes 2.24 times as many
 * (docs/generated/performance.md). The barriers are:
 *
 *	before your commands  srcQueueFamilyIndex VK_QUEUE_FAMILY_FOREIGN_EXT,
 *			      dstQueueFamilyIndex your queue's family, srcAccessMask 0,
 *			      and a stage that the semaphore wait has too
 *	after them	      the other way, dstAccessMask 0
 *
 * Both barriers are for the whole VkBuffer. Use the family of the queue that you
 * submit to: so one dlbuf device serves the queues of all families. Without
 * VK_EXT_queue_family_foreign use VK_QUEUE_FAMILY_EXTERNAL for FOREIGN_EXT.
 * examples/wrap.c is such a program. dlbuf_acquire_all() and dlbuf_release_all()
 * are one submit each, for up to 16 buffers.
 *
 * This header needs the Vulkan headers, 1.2 or newer. The library needs libvulkan
 * only when a Vulkan device is opened.
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
	VkDeviceAddress address;	/* of buffer, 0 if it has none */
	VkDevice device;
};

/* Returns the VkBuffer of a kDLVulkan tensor of dlbuf; NULL without elements. */
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
	 * For wrapping only. The extensions that the device was created with:
	 * dlbuf uses no others. NULL means the two that dlbuf requires. Devices
	 * that dlbuf opens have all extensions of this list that the driver has.
	 *
	 *   VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf
	 *	required
	 *   VK_KHR_external_semaphore_fd
	 *	without it the device is DLBUF_SYNC_BLOCKS: your threads wait for
	 *	fences, and dlbuf_acquire_fence() is refused
	 *   VK_EXT_queue_family_foreign
	 *	without it barriers name VK_QUEUE_FAMILY_EXTERNAL, which by the
	 *	specification means only users of the same driver
	 *   VK_EXT_image_drm_format_modifier, and VK_KHR_image_format_list before
	 *   Vulkan 1.2
	 *	without them the device reads no tiled frames
	 *   VK_KHR_buffer_device_address before Vulkan 1.2, and its feature
	 *	without them the buffers have no address; see
	 *	buffer_device_address
	 *   VK_KHR_driver_properties before Vulkan 1.2
	 *	without it dlbuf_device_info.driver is empty
	 */
	const char *const *extensions;
	uint32_t nextensions;
	/*
	 * Input: the feature bufferDeviceAddress is enabled, the only feature that
	 * dlbuf uses. Output: the buffers have addresses, except for dma-bufs that the
	 * driver imports only without an address (ANV, if an earlier import of the
	 * dma-buf had none).
	 */
	VkBool32 buffer_device_address;
	/*
	 * For wrapping only; may be NULL. dlbuf calls them around each use of a
	 * queue, because only one thread at a time may use a VkQueue. While it
	 * holds the lock it only submits, and waits for the device only after a
	 * failure. NULL: see dlbuf_vulkan_lock_queue().
	 */
	void (*lock_queue)(void *lock_data, VkQueue queue);
	void (*unlock_queue)(void *lock_data, VkQueue queue);
	void *lock_data;
};

/*
 * Makes a dlbuf device of the application's VkDevice, so that the imported
 * VkBuffers belong to that VkDevice.
 *
 * The handles in vk are borrowed and must outlive the device and its tensors. They are
 * trusted, as is the queue family: Vulkan cannot check them. The call copies vk
 * itself with its extensions. opts are borrowed. *out is new; close it with
 * dlbuf_device_close(), which does not destroy your handles. The call submits
 * nothing. So, unlike dlbuf_device_open(), it does not test whether imports share
 * the memory of the dma-bufs.
 * -EINVAL  a handle is missing, api_version is below 1.1, bad opts
 * -EOPNOTSUPP  the device lacks a feature; the error text names it
 * -EIO     the driver failed
 */
DLBUF_API int dlbuf_device_wrap_vulkan(const struct dlbuf_vulkan_device *vk,
				       const struct dlbuf_device_opts *opts,
				       struct dlbuf_device **out);

/*
 * Returns the Vulkan handles of a device, for example to run shaders on its tensors. They
 * are peeked and live as long as the device.
 * -EINVAL  not a Vulkan device, or size not set
 */
DLBUF_API int dlbuf_vulkan_get_device(struct dlbuf_device *dev,
				      struct dlbuf_vulkan_device *vk);

/* An image of a tensor. */
struct dlbuf_vulkan_image {
	size_t size;			/* of this struct, set by the caller */
	VkDevice device;
	VkImage image;
	VkDeviceMemory memory;		/* bound to image */
	VkFormat format;		/* UNORM, SFLOAT for float16 */
	uint32_t width, height;
	uint32_t reserved;		/* 0 */
};

/*
 * Makes a VkImage of a tensor's memory, without a copy: for samplers, storage images and
 * blits, with these usages (TRANSFER, SAMPLED, STORAGE, COLOR_ATTACHMENT, INPUT_ATTACHMENT).
 * A read-only tensor also gives an image: do not write to it. The tensor is [H, W] or [H, W, C],
 * with C of 1, 2 or 4, of uint8 or uint16, or 4 of float16: for example a plane of NV12, an RGBA
 * frame, or a crop of one. The channels are in the order of memory, so a view of BGRA needs a
 * swizzle. The image has one level and layer, and VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT with
 * the modifier LINEAR. Drivers may want the offset and pitch aligned (dlbuf_device_info).
 *
 * tensor is borrowed. image->image and image->memory are new: destroy them with
 * vkDestroyImage() and vkFreeMemory() when your work is complete, and before you destroy
 * the VkDevice. The tensor may be deleted earlier. A frame's lease does not wait for the
 * image.
 *
 *	DLBUF_INFO(dlbuf_vulkan_image, image);
 *	int fence, done;
 *
 *	if (dlbuf_acquire_fence(tensor, DLBUF_READ, &fence) ||
 *	    dlbuf_vulkan_image_create(tensor, VK_IMAGE_USAGE_SAMPLED_BIT, &image))
 *		errx(1, "%s", dlbuf_last_error());
 *	done = draw(&image, fence);	// yours: waits for fence, and exports one
 *	if (dlbuf_release_fence(tensor, done))
 *		errx(1, "%s", dlbuf_last_error());
 *
 * dlbuf_acquire() transfers the tensor's VkBuffer and not the image. Use the fence
 * functions, and transfer the image in your submit: from VK_QUEUE_FAMILY_FOREIGN_EXT and
 * VK_IMAGE_LAYOUT_GENERAL before your commands, and back to both after them.
 * Never use VK_IMAGE_LAYOUT_UNDEFINED, which may discard the contents.
 * Does not wait for the device.
 * -EINVAL  not a tensor of dlbuf on a Vulkan device, no usage, size is not set
 * -EOPNOTSUPP  the device lacks VK_EXT_image_drm_format_modifier, or makes no such
 *          image of this shape, type, pitch or usage; the error text says which
 * -ERANGE  the driver needs more bytes after the image than the dma-buf has
 * -EIO     the driver failed
 */
DLBUF_API int dlbuf_vulkan_image_create(DLManagedTensorVersioned *tensor,
					VkImageUsageFlags usage,
					struct dlbuf_vulkan_image *image);

/*
 * Locks and unlocks a queue. Only one thread at a time may use a VkQueue, so call these
 * around your own use of a queue if other threads may be inside dlbuf with the same
 * device. On a device that was wrapped with lock_queue they call lock_queue and
 * unlock_queue.
 *
 * Without lock_queue there is one lock for each VkDevice: for all its queues, and
 * for all dlbuf devices that wrap it without lock_queue. The thread that holds the
 * lock may take it again: it may acquire, release and delete tensors meanwhile. May
 * block while another thread submits. -EINVAL: not a Vulkan device.
 */
DLBUF_API int dlbuf_vulkan_lock_queue(struct dlbuf_device *dev, VkQueue queue);
DLBUF_API int dlbuf_vulkan_unlock_queue(struct dlbuf_device *dev, VkQueue queue);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_VULKAN_H */
