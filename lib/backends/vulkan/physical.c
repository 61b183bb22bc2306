// SPDX-License-Identifier: MIT
/* Opens the loader, and finds which physical devices import dma-bufs. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "../../system/dl.h"
#include "../../system/node.h"
#include "vulkan.h"

/* VK_DRIVER_ID_MESA_VENUS, newer than the oldest headers that dlbuf builds with. */
#define DRIVER_VENUS 22

static int too_old(const char *what)
{
	return fail(-EOPNOTSUPP, "vulkan: %s is of Vulkan 1.0, dlbuf needs 1.1", what);
}

static int loader_version(struct vulkan_instance *inst)
{
	uint32_t version = VK_API_VERSION_1_0;
	int ret;

	/* A loader of Vulkan 1.0 does not have this function. */
	if (inst->vk.EnumerateInstanceVersion) {
		ret = VULKAN_CALL(&inst->vk, EnumerateInstanceVersion, &version);
		if (ret)
			return ret;
	}
	if (version < VK_API_VERSION_1_1)
		return too_old("the loader");
	inst->version = version < VK_API_VERSION_1_2 ? VK_API_VERSION_1_1 :
						       VK_API_VERSION_1_2;
	return 0;
}

static int create_instance(struct vulkan_instance *inst)
{
	VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.pEngineName = "dlbuf",
		.apiVersion = inst->version,
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app,
	};

	return VULKAN_CALL(&inst->vk, CreateInstance, &info, NULL,
			   &inst->handle);
}

int vulkan_instance_open(struct vulkan_instance *inst)
{
	int ret;

	*inst = (struct vulkan_instance){ 0 };
	ret = dl_open("vulkan", "libvulkan.so.1\0", "vkGetInstanceProcAddr\0",
		      &inst->vk.GetInstanceProcAddr, &inst->library);
	if (ret)
		return ret;
	ret = vulkan_load(&inst->vk, VULKAN_LOADER, NULL, NULL);
	if (!ret)
		ret = loader_version(inst);
	if (!ret)
		ret = create_instance(inst);
	if (vulkan_warn(ret))
		goto err_library;
	ret = vulkan_load(&inst->vk, VULKAN_INSTANCE, inst->handle, NULL);
	if (ret)
		goto err_instance;
	return 0;

err_instance:
	if (inst->vk.DestroyInstance)
		inst->vk.DestroyInstance(inst->handle, NULL);
err_library:
	dlclose(inst->library);
	return ret;
}

void vulkan_instance_close(struct vulkan_instance *inst)
{
	inst->vk.DestroyInstance(inst->handle, NULL);
	dlclose(inst->library);
}

int vulkan_physical_list(const struct vulkan_instance *inst,
			 VkPhysicalDevice *list, uint32_t *n)
{
	VkResult result;

	*n = VULKAN_MAX_DEVICES;
	result = VULKAN_RESULT(&inst->vk, EnumeratePhysicalDevices,
			       inst->handle, n, list);
	/* The loader returns this if drivers are installed but find no device. */
	if (result == VK_ERROR_INITIALIZATION_FAILED)
		return fail(-ENODEV, "vulkan: vkEnumeratePhysicalDevices: %s: "
			    "no driver has a device",
			    vulkan_result_name(result));
	if (result != VK_INCOMPLETE && result != VK_SUCCESS)
		return vulkan_check(result,
				    VULKAN_FUNCTION(EnumeratePhysicalDevices));
	if (!*n)
		return fail(-ENODEV, "vulkan: no driver has a device");
	return 0;
}

static const struct {
	uint32_t bit;
	bool enable;		/* when a device is created */
	char name[35];		/* not a pointer: no relocation */
} extensions[] = {
	{ EXT_MEMORY_FD, true, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME },
	{ EXT_DMA_BUF, true, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME },
	{ EXT_FOREIGN, true, VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME },
	{ EXT_SEMAPHORE_FD, true, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME },
	{ EXT_ADDRESS, true, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME },
	{ EXT_MODIFIER, true, VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME },
	/* VK_EXT_image_drm_format_modifier needs this one on Vulkan 1.1. */
	{ EXT_FORMAT_LIST, true, VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME },
	/* The bridge uses this one. */
	{ EXT_TIMELINE, true, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME },
	{ EXT_DRIVER_PROPERTIES, false,
	  VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME },
	{ EXT_PCI, false, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME },
	{ EXT_DRM, false, "VK_EXT_physical_device_drm" },
	{ EXT_MAINTENANCE4, false, "VK_KHR_maintenance4" },
};

uint32_t vulkan_extension(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
		if (!strcmp(extensions[i].name, name))
			return extensions[i].bit;
	return 0;
}

/* The name of one of the extensions in bits. */
static const char *extension_name(uint32_t bits)
{
	size_t i = 0;

	while (!(extensions[i].bit & bits))
		i++;
	return extensions[i].name;
}

uint32_t vulkan_extension_names(uint32_t bits, const char **names)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
		if (extensions[i].enable && extensions[i].bit & bits)
			names[n++] = extensions[i].name;
	return n;
}

int vulkan_lacks(const struct vulkan_physical *p, const char *extension,
		 const char *more)
{
	if (p->given)
		return fail(-EOPNOTSUPP, "vulkan: %s: %s, %s, is not among the "
			    "extensions given", p->info.description, extension,
			    more);
	return fail(-EOPNOTSUPP, "vulkan: %s lacks %s, %s", p->info.description,
		    extension, more);
}

int vulkan_refuses(const struct vulkan_physical *p, size_t function,
		   const char *what)
{
	return fail(-EOPNOTSUPP, "vulkan: %s: %s: %s", p->info.description,
		    vulkan_name(function), what);
}

static int list_extensions(const struct vulkan_instance *inst,
			   struct vulkan_physical *p)
{
	VkExtensionProperties *list;
	uint32_t n = 0;
	int ret;

	ret = VULKAN_CALL(&inst->vk, EnumerateDeviceExtensionProperties,
			  p->handle, NULL, &n, NULL);
	if (ret)
		return ret;
	list = sys_calloc(n ? n : 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	ret = VULKAN_CALL(&inst->vk, EnumerateDeviceExtensionProperties,
			  p->handle, NULL, &n, list);
	for (uint32_t i = 0; !ret && i < n; i++)
		p->extensions |= vulkan_extension(list[i].extensionName);
	free(list);
	return ret;
}

/* At least a cache line of the CPU, because the CPU may read the rows too. */
static uint32_t alignment(VkDeviceSize limit)
{
	return limit > 64 && limit <= 65536 ? limit : 64;
}

static void find_place(const struct vulkan_instance *inst,
		       struct vulkan_physical *p)
{
	VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
	};
	VkPhysicalDeviceProperties2 properties = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
		.pNext = &pci,
	};

	if (p->extensions & EXT_PCI) {
		inst->vk.GetPhysicalDeviceProperties2(p->handle, &properties);
		p->place.pci = PCI_ADDRESS(pci.pciDomain, pci.pciBus,
					   pci.pciDevice, pci.pciFunction);
	}
#ifdef VK_EXT_physical_device_drm /* newer than the oldest headers that dlbuf builds with */
	if (p->extensions & EXT_DRM) {
		VkPhysicalDeviceDrmPropertiesEXT drm = {
			.sType =
			VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRM_PROPERTIES_EXT,
		};

		properties.pNext = &drm;
		inst->vk.GetPhysicalDeviceProperties2(p->handle, &properties);
		if (drm.hasPrimary)
			p->place.drm[0] = makedev(drm.primaryMajor,
						  drm.primaryMinor);
		if (drm.hasRender)
			p->place.drm[1] = makedev(drm.renderMajor,
						  drm.renderMinor);
	}
#endif
}

int vulkan_physical_describe(const struct vulkan_instance *inst,
			     struct vulkan_physical *p)
{
	VkPhysicalDeviceDriverProperties driver = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
	};
	VkPhysicalDeviceIDProperties id = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
	};
	VkPhysicalDeviceProperties2 properties = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
		.pNext = &id,
	};
	const VkPhysicalDeviceLimits *limits = &properties.properties.limits;
	struct dlbuf_device_info *info = &p->info;

	/* Vulkan 1.0 also has this call, and its version goes into the error text. */
	inst->vk.GetPhysicalDeviceProperties(p->handle, &properties.properties);
	p->version = properties.properties.apiVersion;
	if (p->version > inst->version)
		p->version = inst->version;
	snprintf(info->description, sizeof(info->description), "%.127s",
		 properties.properties.deviceName);
	if (p->version < VK_API_VERSION_1_1)
		return too_old(info->description);
	if (p->version < VK_API_VERSION_1_2 &&
	    !(p->extensions & EXT_FORMAT_LIST))
		p->extensions &= ~(uint32_t)EXT_MODIFIER;

	if (p->version >= VK_API_VERSION_1_2 ||
	    p->extensions & EXT_DRIVER_PROPERTIES)
		id.pNext = &driver;
	p->max_buffer = UINT64_MAX;
#ifdef VK_KHR_maintenance4 /* newer than the oldest headers that dlbuf builds with */
	VkPhysicalDeviceMaintenance4PropertiesKHR limit = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES_KHR,
		.pNext = &id,
		.maxBufferSize = UINT64_MAX,
	};

	if (p->extensions & EXT_MAINTENANCE4)
		properties.pNext = &limit;
#endif
	inst->vk.GetPhysicalDeviceProperties2(p->handle, &properties);
#ifdef VK_KHR_maintenance4
	p->max_buffer = limit.maxBufferSize;
#endif
	if (driver.driverName[0])
		snprintf(info->driver, sizeof(info->driver), "%.63s%s%.63s",
			 driver.driverName, driver.driverInfo[0] ? " " : "",
			 driver.driverInfo);
	p->driver = driver.driverID;
	memcpy(info->uuid, id.deviceUUID, sizeof(info->uuid));
	info->pitch_align = alignment(limits->optimalBufferCopyRowPitchAlignment);
	info->offset_align =
		alignment(limits->minStorageBufferOffsetAlignment >
			  limits->optimalBufferCopyOffsetAlignment ?
			  limits->minStorageBufferOffsetAlignment :
			  limits->optimalBufferCopyOffsetAlignment);
	return 0;
}

int vulkan_physical_find_queue(const struct vulkan_instance *inst,
			       struct vulkan_physical *p)
{
	VkQueueFamilyProperties families[32];
	uint32_t n = ARRAY_SIZE(families);

	inst->vk.GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, families);
	for (uint32_t i = 0; i < n; i++) {
		if (families[i].queueCount &&
		    families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
			p->family = i;
			p->queues = families[i].queueCount;
			return 0;
		}
	}
	return fail(-EOPNOTSUPP, "vulkan: %s has no queue that computes",
		    p->info.description);
}

static void find_address(const struct vulkan_instance *inst,
			 struct vulkan_physical *p)
{
	VkPhysicalDeviceBufferDeviceAddressFeatures address = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
	};
	VkPhysicalDeviceFeatures2 features = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
		.pNext = &address,
	};

	if (p->version < VK_API_VERSION_1_2 && !(p->extensions & EXT_ADDRESS))
		return;
	inst->vk.GetPhysicalDeviceFeatures2(p->handle, &features);
	p->address = address.bufferDeviceAddress;
}

/*
 * Leaves out memory types that may only be used under a condition: protected memory,
 * and AMD's DEVICE_COHERENT, which requires that its feature is enabled.
 */
static void find_memory_types(const struct vulkan_instance *inst,
			      struct vulkan_physical *p)
{
	const VkMemoryPropertyFlags plain =
		VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
		VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
		VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
	VkPhysicalDeviceMemoryProperties memory;

	inst->vk.GetPhysicalDeviceMemoryProperties(p->handle, &memory);
	for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
		VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;

		if (flags & ~plain)
			continue;
		p->memory_types |= 1u << i;
		if (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
			p->local_types |= 1u << i;
	}
}

VkExternalMemoryFeatureFlags
vulkan_memory_features(const struct vulkan_instance *inst,
		       const struct vulkan_physical *p,
		       VkBufferUsageFlags usage,
		       VkExternalMemoryHandleTypeFlagBits type)
{
	VkPhysicalDeviceExternalBufferInfo info = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
		.usage = usage,
		.handleType = type,
	};
	VkExternalBufferProperties properties = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES,
	};

	inst->vk.GetPhysicalDeviceExternalBufferProperties(p->handle, &info,
							   &properties);
	return properties.externalMemoryProperties.externalMemoryFeatures;
}

static VkExternalMemoryFeatureFlags
dma_buf_features(const struct vulkan_instance *inst,
		 const struct vulkan_physical *p, VkBufferUsageFlags usage)
{
	return vulkan_memory_features(inst, p, usage,
		VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT);
}

int vulkan_physical_can_import(const struct vulkan_instance *inst,
			       struct vulkan_physical *p)
{
	uint32_t lacking = VULKAN_EXT_REQUIRED & ~p->extensions;
	VkExternalMemoryFeatureFlags features = 0;

	if (lacking)
		return vulkan_lacks(p, extension_name(lacking),
				    "which imports dma-bufs");
	if (p->address)
		features = dma_buf_features(inst, p, VULKAN_USAGE |
				VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
	if (!(features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)) {
		p->address = false;
		features = dma_buf_features(inst, p, VULKAN_USAGE);
	}
	if (!(features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT))
		return vulkan_refuses(p, VULKAN_FUNCTION(
				GetPhysicalDeviceExternalBufferProperties),
				"dma-bufs are not importable");
	p->dedicated_only =
		features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
	find_memory_types(inst, p);
	return 0;
}

/*
 * Mesa's lavapipe has these semaphores only if it can open /dev/udmabuf, and gives no
 * reason if it cannot.
 */
void vulkan_physical_say_why(struct vulkan_physical *p)
{
	char *reason = p->info.reason;
	const size_t size = sizeof(p->info.reason);
	char who[NODE_ACCESS];
	int n;

	if (p->waits && p->signals)
		return;
	n = snprintf(reason, size, "blocks: %s",
		     !(p->extensions & EXT_SEMAPHORE_FD) ? p->given ?
		     VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME
		     " is not among the extensions given" :
		     "the driver has no VK_KHR_external_semaphore_fd" :
		     p->driver == DRIVER_VENUS ?
		     "the driver waits for sync_files in vkQueueSubmit" :
		     "the driver's semaphores take or give no sync_files");
	if (!strncmp(p->info.description, "llvmpipe", 8) &&
	    (!p->given || p->extensions & EXT_SEMAPHORE_FD) &&
	    access("/dev/udmabuf", R_OK | W_OK)) {
		node_access("/dev/udmabuf", errno, who);
		snprintf(reason + n, size - n, ", as /dev/udmabuf is not to be "
			 "opened: %m%s", who);
	}
}

VkExternalSemaphoreFeatureFlags
vulkan_semaphore_features(const struct vulkan_instance *inst,
			  const struct vulkan_physical *p, const void *next,
			  VkExternalSemaphoreHandleTypeFlagBits type)
{
	VkPhysicalDeviceExternalSemaphoreInfo info = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO,
		.pNext = next,
		.handleType = type,
	};
	VkExternalSemaphoreProperties properties = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES,
	};

	if (p->extensions & EXT_SEMAPHORE_FD)
		inst->vk.GetPhysicalDeviceExternalSemaphoreProperties(p->handle,
			&info, &properties);
	return properties.externalSemaphoreFeatures;
}

void vulkan_physical_find_sync(const struct vulkan_instance *inst,
			       struct vulkan_physical *p)
{
	VkExternalSemaphoreFeatureFlags features = vulkan_semaphore_features(inst, p, NULL,
		VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT);

	/* vkQueueSubmit of Mesa's venus waits for the sync_file, under our queue's lock. */
	p->waits = features & VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT &&
		   p->driver != DRIVER_VENUS;
	p->signals = features & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT;
	p->info.acquire = p->waits ? DLBUF_SYNC_FENCE : DLBUF_SYNC_BLOCKS;
	p->info.release = p->signals ? DLBUF_SYNC_FENCE : DLBUF_SYNC_BLOCKS;
	vulkan_physical_say_why(p);
}

int vulkan_physical_probe(const struct vulkan_instance *inst,
			  struct vulkan_physical *p)
{
	int ret;

	ret = list_extensions(inst, p);
	if (!ret)
		ret = vulkan_physical_describe(inst, p);
	if (ret)
		return ret;
	find_place(inst, p);
	find_address(inst, p);
	vulkan_physical_find_sync(inst, p);
	ret = vulkan_physical_can_import(inst, p);
	return ret ? ret : vulkan_physical_find_queue(inst, p);
}

int vulkan_physical_select(const struct vulkan_instance *inst,
			   const char *selector, struct vulkan_physical *p)
{
	VkPhysicalDevice list[VULKAN_MAX_DEVICES];
	struct selector s;
	uint32_t n;
	int ret;

	ret = vulkan_physical_list(inst, list, &n);
	if (!ret)
		ret = selector_begin(&s, "vulkan", selector, n);
	if (ret)
		return ret;
	while (selector_next(&s)) {
		*p = (struct vulkan_physical){
			.handle = list[s.at], .index = s.at
		};
		if (selector_takes(&s, vulkan_physical_probe(inst, p), &p->info,
				   &p->place))
			return 0;
	}
	return selector_none(&s);
}
