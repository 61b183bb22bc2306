// SPDX-License-Identifier: MIT
/* Loads Vulkan's functions, and turns its results into errnos. */
#include <errno.h>
#include <string.h>

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "api.h"

/* In the order of struct vulkan_api: DL_OPTIONAL, the level, the name. */
static const char functions[] =
#define LOADER "0"
#define INSTANCE "1"
#define DEVICE "2"
#define NEEDED ""
#define OPTIONAL DL_OPTIONAL
#define X(level, name, needed) needed level "vk" #name "\0"
	VULKAN_FUNCTIONS(X);
#undef X

int vulkan_load(struct vulkan_api *vk, enum vulkan_level level,
		VkInstance instance, VkDevice device)
{
	/* GetInstanceProcAddr is the first function of the struct, and not in the list. */
	char *slot = (char *)vk;

	FOR_EACH_STRING(f, functions) {
		bool optional = *f == DL_OPTIONAL[0];
		const char *name = f + optional;
		PFN_vkVoidFunction fn;

		slot += sizeof(fn);
		if (*name++ - '0' != (int)level)
			continue;
		/* These are the driver's own functions, without the loader in between. */
		if (level == VULKAN_DEVICE)
			fn = vk->GetDeviceProcAddr(device, name);
		else
			fn = vk->GetInstanceProcAddr(instance, name);
		if (!fn && !optional)
			return fail(-EOPNOTSUPP, "vulkan: there is no %s", name);
		memcpy(slot, &fn, sizeof(fn));
	}
	return 0;
}

const char *vulkan_name(size_t function)
{
	return dl_name(functions, function) + 1;
}

#define RESULTS(X) \
	X(VK_NOT_READY) \
	X(VK_TIMEOUT) \
	X(VK_INCOMPLETE) \
	X(VK_ERROR_OUT_OF_HOST_MEMORY) \
	X(VK_ERROR_OUT_OF_DEVICE_MEMORY) \
	X(VK_ERROR_INITIALIZATION_FAILED) \
	X(VK_ERROR_DEVICE_LOST) \
	X(VK_ERROR_MEMORY_MAP_FAILED) \
	X(VK_ERROR_LAYER_NOT_PRESENT) \
	X(VK_ERROR_EXTENSION_NOT_PRESENT) \
	X(VK_ERROR_FEATURE_NOT_PRESENT) \
	X(VK_ERROR_INCOMPATIBLE_DRIVER) \
	X(VK_ERROR_TOO_MANY_OBJECTS) \
	X(VK_ERROR_FORMAT_NOT_SUPPORTED) \
	X(VK_ERROR_INVALID_EXTERNAL_HANDLE) \
	X(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS) \
	X(VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT)

const char *vulkan_result_name(VkResult result)
{
	static const VkResult results[] = {
#define X(name) name,
		RESULTS(X)
		/* Newer than the oldest headers that dlbuf builds with. */
		(VkResult)-13
	};
#undef X
#define X(name) #name "\0"
	const VkResult *r = results;

	FOR_EACH_STRING(name, RESULTS(X) "VK_ERROR_UNKNOWN\0")
		if (*r++ == result)
			return name;
#undef X
	return "a VkResult";
}

static int errno_of(VkResult result)
{
	switch (result) {
	case VK_ERROR_OUT_OF_HOST_MEMORY:
	case VK_ERROR_OUT_OF_DEVICE_MEMORY:
		return -ENOMEM;
	case VK_ERROR_TOO_MANY_OBJECTS: /* no fd is left, or no allocation */
		return -EMFILE;
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

int vulkan_check(VkResult result, size_t function)
{
	if (result == VK_SUCCESS)
		return 0;
	return fail(errno_of(result), "vulkan: %s: %s (%d)",
		    vulkan_name(function), vulkan_result_name(result), result);
}

int vulkan_warn(int ret)
{
	if (ret == -EIO)
		log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
	return ret;
}
