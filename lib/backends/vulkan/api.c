// SPDX-License-Identifier: MIT
/* Loads Vulkan's functions, and turns its results into errnos. */
#include <errno.h>
#include <string.h>

#include "../../internal.h"
#include "api.h"

static const struct {
	const char *name;
	size_t offset;
	enum vulkan_level level;
	enum { OPTIONAL, NEEDED } needed;
} functions[] = {
#define X(level, name, needed) \
	{ "vk" #name, offsetof(struct vulkan_api, name), VULKAN_##level, needed },
	VULKAN_FUNCTIONS(X)
#undef X
};

int vulkan_load(struct vulkan_api *vk, enum vulkan_level level,
		VkInstance instance, VkDevice device)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		const char *name = functions[i].name;
		PFN_vkVoidFunction fn;

		if (functions[i].level != level)
			continue;
		/* These are the driver's own functions, without the loader in between. */
		if (level == VULKAN_DEVICE)
			fn = vk->GetDeviceProcAddr(device, name);
		else
			fn = vk->GetInstanceProcAddr(instance, name);
		if (!fn && functions[i].needed == NEEDED)
			return fail(-EOPNOTSUPP, "vulkan: there is no %s", name);
		memcpy((char *)vk + functions[i].offset, &fn, sizeof(fn));
	}
	return 0;
}

const char *vulkan_result_name(VkResult result)
{
	static const struct {
		VkResult result;
		const char *name;
	} names[] = {
#define NAME(r) { r, #r }
		NAME(VK_NOT_READY),
		NAME(VK_TIMEOUT),
		NAME(VK_INCOMPLETE),
		NAME(VK_ERROR_OUT_OF_HOST_MEMORY),
		NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY),
		NAME(VK_ERROR_INITIALIZATION_FAILED),
		NAME(VK_ERROR_DEVICE_LOST),
		NAME(VK_ERROR_MEMORY_MAP_FAILED),
		NAME(VK_ERROR_LAYER_NOT_PRESENT),
		NAME(VK_ERROR_EXTENSION_NOT_PRESENT),
		NAME(VK_ERROR_FEATURE_NOT_PRESENT),
		NAME(VK_ERROR_INCOMPATIBLE_DRIVER),
		NAME(VK_ERROR_TOO_MANY_OBJECTS),
		NAME(VK_ERROR_FORMAT_NOT_SUPPORTED),
		NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE),
		NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS),
		NAME(VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT),
#undef NAME
		/* Newer than the oldest headers that dlbuf builds with. */
		{ (VkResult)-13, "VK_ERROR_UNKNOWN" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].result == result)
			return names[i].name;
	return "a VkResult";
}

static int errno_of(VkResult result)
{
	switch (result) {
	case VK_ERROR_OUT_OF_HOST_MEMORY:
	case VK_ERROR_OUT_OF_DEVICE_MEMORY:
		return -ENOMEM;
	case VK_ERROR_INCOMPATIBLE_DRIVER: /* the loader found no driver */
		return -ENODEV;
	case VK_ERROR_INVALID_EXTERNAL_HANDLE: /* the driver does not accept this dma-buf */
	case VK_ERROR_EXTENSION_NOT_PRESENT:
	case VK_ERROR_FEATURE_NOT_PRESENT:
	case VK_ERROR_FORMAT_NOT_SUPPORTED:
	case VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

int vulkan_check(VkResult result, const char *function)
{
	if (result == VK_SUCCESS)
		return 0;
	return fail(errno_of(result), "vulkan: %s: %s (%d)", function,
		    vulkan_result_name(result), result);
}

int vulkan_warn(int ret)
{
	if (ret == -EIO)
		log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
	return ret;
}
