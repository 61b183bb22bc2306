/* SPDX-License-Identifier: MIT */
/*
 * Vulkan's functions, found at run time: the one list of them, and the one
 * way to call those that can fail.
 */
#ifndef DLBUF_VULKAN_API_H
#define DLBUF_VULKAN_API_H

#include <stdbool.h>

#include <vulkan/vulkan_core.h>

#include "../../sys.h"

/*
 * X(level, name, needed): where vkName comes from and whether dlbuf can do
 * without it. LOADER needs nothing, INSTANCE an instance, DEVICE a device.
 */
#define VULKAN_FUNCTIONS(X)						\
	X(LOADER, CreateInstance, NEEDED)				\
	X(LOADER, EnumerateInstanceVersion, OPTIONAL)			\
	X(INSTANCE, DestroyInstance, NEEDED)				\
	X(INSTANCE, EnumeratePhysicalDevices, NEEDED)			\
	X(INSTANCE, EnumerateDeviceExtensionProperties, NEEDED)		\
	X(INSTANCE, GetPhysicalDeviceProperties, NEEDED)		\
	X(INSTANCE, GetPhysicalDeviceProperties2, NEEDED)		\
	X(INSTANCE, GetPhysicalDeviceFeatures2, NEEDED)			\
	X(INSTANCE, GetPhysicalDeviceMemoryProperties, NEEDED)		\
	X(INSTANCE, GetPhysicalDeviceQueueFamilyProperties, NEEDED)	\
	X(INSTANCE, GetPhysicalDeviceFormatProperties2, NEEDED)		\
	X(INSTANCE, GetPhysicalDeviceImageFormatProperties2, NEEDED)	\
	X(INSTANCE, GetPhysicalDeviceExternalBufferProperties, NEEDED)	\
	X(INSTANCE, GetPhysicalDeviceExternalSemaphoreProperties, NEEDED) \
	X(INSTANCE, CreateDevice, NEEDED)				\
	X(INSTANCE, GetDeviceProcAddr, NEEDED)				\
	X(DEVICE, DestroyDevice, NEEDED)				\
	X(DEVICE, DeviceWaitIdle, NEEDED)				\
	X(DEVICE, GetDeviceQueue, NEEDED)				\
	X(DEVICE, CreateBuffer, NEEDED)					\
	X(DEVICE, DestroyBuffer, NEEDED)				\
	X(DEVICE, GetBufferMemoryRequirements2, NEEDED)			\
	X(DEVICE, CreateImage, NEEDED)					\
	X(DEVICE, DestroyImage, NEEDED)					\
	X(DEVICE, GetImageMemoryRequirements2, NEEDED)			\
	X(DEVICE, BindImageMemory, NEEDED)				\
	X(DEVICE, GetMemoryFdPropertiesKHR, NEEDED)			\
	X(DEVICE, GetMemoryFdKHR, OPTIONAL)				\
	X(DEVICE, AllocateMemory, NEEDED)				\
	X(DEVICE, FreeMemory, NEEDED)					\
	X(DEVICE, BindBufferMemory, NEEDED)				\
	X(DEVICE, GetBufferDeviceAddress, OPTIONAL)			\
	X(DEVICE, GetBufferDeviceAddressKHR, OPTIONAL)			\
	X(DEVICE, CreateCommandPool, NEEDED)				\
	X(DEVICE, DestroyCommandPool, NEEDED)				\
	X(DEVICE, AllocateCommandBuffers, NEEDED)			\
	X(DEVICE, FreeCommandBuffers, NEEDED)				\
	X(DEVICE, BeginCommandBuffer, NEEDED)				\
	X(DEVICE, EndCommandBuffer, NEEDED)				\
	X(DEVICE, CmdPipelineBarrier, NEEDED)				\
	X(DEVICE, CmdCopyImageToBuffer, NEEDED)				\
	X(DEVICE, CmdCopyBuffer, OPTIONAL)				\
	X(DEVICE, CreateFence, NEEDED)					\
	X(DEVICE, DestroyFence, NEEDED)					\
	X(DEVICE, ResetFences, NEEDED)					\
	X(DEVICE, GetFenceStatus, NEEDED)				\
	X(DEVICE, WaitForFences, NEEDED)				\
	X(DEVICE, CreateSemaphore, NEEDED)				\
	X(DEVICE, DestroySemaphore, NEEDED)				\
	X(DEVICE, ImportSemaphoreFdKHR, OPTIONAL)			\
	X(DEVICE, GetSemaphoreFdKHR, OPTIONAL)				\
	X(DEVICE, GetSemaphoreCounterValue, OPTIONAL)			\
	X(DEVICE, GetSemaphoreCounterValueKHR, OPTIONAL)		\
	X(DEVICE, WaitSemaphores, OPTIONAL)				\
	X(DEVICE, WaitSemaphoresKHR, OPTIONAL)				\
	X(DEVICE, SignalSemaphore, OPTIONAL)				\
	X(DEVICE, SignalSemaphoreKHR, OPTIONAL)				\
	X(DEVICE, QueueSubmit, NEEDED)					\
	X(DEVICE, QueueWaitIdle, NEEDED)

enum vulkan_level {
	VULKAN_LOADER,
	VULKAN_INSTANCE,
	VULKAN_DEVICE,
};

struct vulkan_api {
	PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(level, name, needed) PFN_vk##name name;
	VULKAN_FUNCTIONS(X)
#undef X
};

/*
 * Fills in the functions of one level; the levels below are there already.
 * instance and device as far as the level needs them. -EOPNOTSUPP names what
 * is missing.
 */
int vulkan_load(struct vulkan_api *vk, enum vulkan_level level,
		VkInstance instance, VkDevice device);

/* "VK_ERROR_DEVICE_LOST", or "a VkResult" for one that has no name here. */
const char *vulkan_result_name(VkResult result);

/* The index of a function; GetInstanceProcAddr has none. */
#define VULKAN_FUNCTION(name) \
	(offsetof(struct vulkan_api, name) / sizeof(PFN_vkVoidFunction) - 1)

const char *vulkan_name(size_t function);

/* 0 for VK_SUCCESS, else the errno for it, with the sentence. */
int vulkan_check(VkResult result, size_t function);

/*
 * Passes a result on; a driver that is there and fails at being opened is
 * worth a warning. Absent is not broken, nor is a device that cannot.
 */
int vulkan_warn(int ret);

/* Calls what returns VkResult, or lets the fault injection fail it. */
#define VULKAN_RESULT(vk, name, ...) \
	(fault_hit() ? VK_ERROR_OUT_OF_HOST_MEMORY : (vk)->name(__VA_ARGS__))

/* The same, as 0 or a negative errno with the sentence. */
#define VULKAN_CALL(vk, name, ...) \
	vulkan_check(VULKAN_RESULT(vk, name, __VA_ARGS__), VULKAN_FUNCTION(name))

#endif /* DLBUF_VULKAN_API_H */
