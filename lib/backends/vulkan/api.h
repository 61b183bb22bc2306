/* SPDX-License-Identifier: MIT */
/*
 * Vulkan, loaded at run time: the list of its functions, and the macros that call
 * those that can fail.
 */
#ifndef DLBUF_VULKAN_API_H
#define DLBUF_VULKAN_API_H

#include <stdbool.h>

#include <vulkan/vulkan_core.h>

#include "../../system/sys.h"

/*
 * X(level, name, needed): the object that is required to look up vkName, and whether
 * dlbuf requires the function. LOADER needs nothing, INSTANCE an instance, DEVICE a
 * device.
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
	X(DEVICE, GetImageSubresourceLayout, NEEDED)			\
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
	X(DEVICE, CmdCopyBuffer, NEEDED)				\
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
	X(DEVICE, QueueWaitIdle, NEEDED)				\
	X(DEVICE, CreateShaderModule, OPTIONAL)				\
	X(DEVICE, DestroyShaderModule, OPTIONAL)			\
	X(DEVICE, CreateDescriptorSetLayout, OPTIONAL)			\
	X(DEVICE, DestroyDescriptorSetLayout, OPTIONAL)			\
	X(DEVICE, CreatePipelineLayout, OPTIONAL)			\
	X(DEVICE, DestroyPipelineLayout, OPTIONAL)			\
	X(DEVICE, CreateComputePipelines, OPTIONAL)			\
	X(DEVICE, DestroyPipeline, OPTIONAL)				\
	X(DEVICE, CreateDescriptorPool, OPTIONAL)			\
	X(DEVICE, DestroyDescriptorPool, OPTIONAL)			\
	X(DEVICE, AllocateDescriptorSets, OPTIONAL)			\
	X(DEVICE, UpdateDescriptorSets, OPTIONAL)			\
	X(DEVICE, MapMemory, OPTIONAL)					\
	X(DEVICE, CmdBindPipeline, OPTIONAL)				\
	X(DEVICE, CmdBindDescriptorSets, OPTIONAL)			\
	X(DEVICE, CmdPushConstants, OPTIONAL)				\
	X(DEVICE, CmdDispatch, OPTIONAL)

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
 * Looks up the functions of one level, after those of the levels below. instance and
 * device may be NULL if the level does not need them.
 * -EOPNOTSUPP  a required function is missing; the error text names it
 */
int vulkan_load(struct vulkan_api *vk, enum vulkan_level level,
		VkInstance instance, VkDevice device);

/* For example "VK_ERROR_DEVICE_LOST"; "a VkResult" if dlbuf has no name for it. */
const char *vulkan_result_name(VkResult result);

/* The index of a function; GetInstanceProcAddr has none. */
#define VULKAN_FUNCTION(name) \
	(offsetof(struct vulkan_api, name) / sizeof(PFN_vkVoidFunction) - 1)

const char *vulkan_name(size_t function);

/* Returns 0 for VK_SUCCESS, else an errno with an error text. */
int vulkan_check(VkResult result, size_t function);

/*
 * Returns ret, and logs a warning if it means that an installed driver failed. A
 * missing driver and a device without a required feature are not failures.
 */
int vulkan_warn(int ret);

/* Calls a function that returns VkResult, unless the fault injection fails it. */
#define VULKAN_RESULT(vk, name, ...) \
	(fault_hit() ? VK_ERROR_OUT_OF_HOST_MEMORY : (vk)->name(__VA_ARGS__))

/* The same; returns 0, or a negative errno with an error text. */
#define VULKAN_CALL(vk, name, ...) __extension__ ({			\
	VkResult called = VULKAN_RESULT(vk, name, __VA_ARGS__);		\
	called ? vulkan_check(called, VULKAN_FUNCTION(name)) : 0; })

#endif /* DLBUF_VULKAN_API_H */
