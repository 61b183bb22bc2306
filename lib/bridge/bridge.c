// SPDX-License-Identifier: MIT
/*
 * The bridge's Vulkan device: finds it by its UUID, opens it with timeline semaphores,
 * and queries which objects it can share with another API.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

#define USAGE (VK_BUFFER_USAGE_TRANSFER_SRC_BIT | \
	       VK_BUFFER_USAGE_TRANSFER_DST_BIT)

#define EXTENSIONS (EXT_MEMORY_FD | EXT_DMA_BUF | EXT_FOREIGN | \
		    EXT_SEMAPHORE_FD | EXT_TIMELINE)

static int no_such_device(const uint8_t uuid[16], uint32_t n)
{
	char hex[2 * VK_UUID_SIZE + 1];

	for (size_t i = 0; i < VK_UUID_SIZE; i++)
		snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
	return fail(-ENODEV, "vulkan: none of %u devices has the deviceUUID %s",
		    n, hex);
}

/* HIP does not report the function of a PCI address. */
static bool is_at(const struct vulkan_physical *p, uint64_t pci)
{
	return (p->place.pci & ~7ull) == (pci & ~7ull);
}

/*
 * Without a uuid the device is found by `pci`. *imports is 0, or the error with its text
 * if it cannot import dma-bufs.
 */
static int find_device(struct vulkan_device *dev, const uint8_t *uuid,
		       uint64_t pci, int *imports)
{
	VkPhysicalDevice list[VULKAN_MAX_DEVICES];
	struct vulkan_physical *p = &dev->physical;
	int ret, first = 0;
	char why[256];
	uint32_t n;

	ret = vulkan_physical_list(&dev->instance, list, &n);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n; i++) {
		*p = (struct vulkan_physical){ .handle = list[i], .index = i };
		ret = vulkan_physical_probe(&dev->instance, p);
		if (ret && ret != -EOPNOTSUPP) {
			/* The device that could not be queried may be the one with that UUID. */
			if (!first)
				snprintf(why, sizeof(why), "%s",
					 dlbuf_last_error());
			first = first ? first : ret;
			continue;
		}
		if (uuid ? memcmp(p->info.uuid, uuid, VK_UUID_SIZE) :
			   !is_at(p, pci))
			continue;
		*imports = ret;
		return 0;
	}
	if (first)
		return fail(first, "%s", why);
	return uuid ? no_such_device(uuid, n) :
	       fail(-ENODEV, "vulkan: none of %u devices is at PCI address "
		    "%04x:%02x:%02x", n, (unsigned int)(pci >> 16 & 0xffff),
		    (unsigned int)(pci >> 8 & 0xff),
		    (unsigned int)(pci >> 3 & 0x1f));
}

static int has_timelines(const struct vulkan_device *dev)
{
	const struct vulkan_physical *p = &dev->physical;
	VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
	};
	VkPhysicalDeviceFeatures2 features = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
		.pNext = &timeline,
	};

	if (p->version >= VK_API_VERSION_1_2 || p->extensions & EXT_TIMELINE)
		dev->instance.vk.GetPhysicalDeviceFeatures2(p->handle,
							    &features);
	if (timeline.timelineSemaphore)
		return 0;
	return fail(-EOPNOTSUPP, "vulkan: %s has no timeline semaphores",
		    p->info.description);
}

static int shares_timelines(const struct vulkan_device *dev)
{
	const struct vulkan_physical *p = &dev->physical;
	VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
	};

	if (!(p->extensions & EXT_SEMAPHORE_FD))
		return vulkan_lacks(p, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME,
				    "which shares timelines");
	if (vulkan_semaphore_features(&dev->instance, p, &type,
			VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT) &
	    VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT &&
	    dev->instance.vk.GetSemaphoreFdKHR)
		return 0;
	return vulkan_refuses(p, VULKAN_FUNCTION(
			GetPhysicalDeviceExternalSemaphoreProperties),
			"timelines are not exportable as OPAQUE_FD");
}

static int shares_memory(struct bridge *bridge)
{
	const struct vulkan_device *dev = bridge->dev;
	const struct vulkan_physical *p = &dev->physical;
	VkExternalMemoryFeatureFlags features;

	features = vulkan_memory_features(&dev->instance, p, USAGE,
					  bridge->handle);
	bridge->dedicated_only =
		features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
	if (features & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT &&
	    dev->instance.vk.GetMemoryFdKHR)
		return 0;
	return vulkan_refuses(p, VULKAN_FUNCTION(
			GetPhysicalDeviceExternalBufferProperties),
			"memory is not exportable to the other API");
}

static int takes_fences(const struct vulkan_device *dev)
{
	if (dev->physical.waits)
		return 0;
	return vulkan_refuses(&dev->physical, VULKAN_FUNCTION(
			GetPhysicalDeviceExternalSemaphoreProperties),
			"SYNC_FD is not importable");
}

static int find_functions(struct vulkan_device *dev)
{
	struct vulkan_api *vk = &dev->instance.vk;

	/* Loaders return functions of Vulkan versions that the device does not have. */
	if (dev->physical.version < VK_API_VERSION_1_2) {
		vk->GetSemaphoreCounterValue = vk->GetSemaphoreCounterValueKHR;
		vk->WaitSemaphores = vk->WaitSemaphoresKHR;
		vk->SignalSemaphore = vk->SignalSemaphoreKHR;
	}
	if (vk->GetSemaphoreCounterValue && vk->WaitSemaphores &&
	    vk->SignalSemaphore)
		return 0;
	return fail(-EOPNOTSUPP, "vulkan: %s has no timeline semaphores",
		    dev->physical.info.description);
}

static pthread_mutex_t *lock_of(struct bridge *bridge, VkQueue queue)
{
	return queue == bridge->out ? &bridge->out_lock : &bridge->in_lock;
}

static void lock_queue(void *data, VkQueue queue)
{
	pthread_mutex_lock(lock_of(data, queue));
}

static void unlock_queue(void *data, VkQueue queue)
{
	pthread_mutex_unlock(lock_of(data, queue));
}

static void get_queues(struct bridge *bridge)
{
	struct vulkan_device *dev = bridge->dev;
	const struct vulkan_physical *p = &dev->physical;
	struct vulkan_api *vk = &dev->instance.vk;

	vk->GetDeviceQueue(dev->handle, p->family, 0, &bridge->in);
	bridge->out = bridge->in;
	if (p->queues > 1)
		vk->GetDeviceQueue(dev->handle, p->family, 1, &bridge->out);
	dev->queue = bridge->in;
	dev->lock_queue = lock_queue;
	dev->unlock_queue = unlock_queue;
	dev->lock_data = bridge;
}

/* Keeps the error text of the first missing capability. */
static bool can(struct bridge_caps *caps, int ret)
{
	if (!ret)
		return true;
	if (!caps->why_not[0])
		snprintf(caps->why_not, sizeof(caps->why_not), "%s",
			 dlbuf_last_error());
	forget_failure();
	return false;
}

static int find_caps(struct bridge *bridge,
		     struct bridge_caps *caps)
{
	struct vulkan_device *dev = bridge->dev;
	int ret;

	bridge->memory = bridge->memory && can(caps, shares_memory(bridge));
	if (bridge->handle != VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT) {
		dev->physical.waits = dev->physical.signals = false;
		caps->buffers = bridge->memory;
		return 0;
	}
	bridge->links = can(caps, shares_timelines(dev));
	dev->physical.waits = can(caps, takes_fences(dev));
	ret = vulkan_bridge_try_out(bridge);
	if (ret && ret != -EOPNOTSUPP)
		return ret;
	dev->physical.signals = can(caps, ret);
	caps->buffers = bridge->links && bridge->memory;
	caps->fences_in = bridge->links && dev->physical.waits;
	caps->fences_out = bridge->links && dev->physical.signals;
	return 0;
}

static void destroy_device(struct vulkan_device *dev)
{
	struct vulkan_api *vk = &dev->instance.vk;

	vulkan_jobs_free(dev);
	vk->DestroyCommandPool(dev->handle, dev->pool, NULL);
	vk->DestroyDevice(dev->handle, NULL);
}

static int open_vulkan(struct bridge *bridge, const uint8_t *uuid, uint64_t pci,
		       struct bridge_caps *caps)
{
	VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.timelineSemaphore = VK_TRUE,
	};
	struct vulkan_device *dev = bridge->dev;
	int ret, imports;

	ret = find_device(dev, uuid, pci, &imports);
	if (ret)
		return ret;
	bridge->memory = can(caps, imports);
	dev->physical.address = false;
	ret = vulkan_physical_find_queue(&dev->instance, &dev->physical);
	if (!ret)
		ret = has_timelines(dev);
	if (!ret)
		ret = vulkan_device_create(dev, EXTENSIONS, &timeline, 2);
	if (ret)
		return ret;
	ret = find_functions(dev);
	if (!ret) {
		get_queues(bridge);
		ret = vulkan_device_finish(dev);
	}
	if (ret) {
		dev->instance.vk.DestroyDevice(dev->handle, NULL);
		return ret;
	}
	dev->usage = USAGE;
	bridge->memory = bridge->memory && can(caps, vulkan_try_imports(dev));
	ret = find_caps(bridge, caps);
	if (ret)
		destroy_device(dev);
	return ret;
}

static int alloc_bridge(struct bridge **out)
{
	struct bridge *bridge = sys_calloc(1, sizeof(*bridge));
	int ret;

	if (!bridge)
		return -ENOMEM;
	ret = vulkan_device_alloc(&bridge->dev);
	if (ret) {
		free(bridge);
		return ret;
	}
	pthread_mutex_init(&bridge->in_lock, NULL);
	pthread_mutex_init(&bridge->out_lock, NULL);
	*out = bridge;
	return 0;
}

static void free_bridge(struct bridge *bridge)
{
	pthread_mutex_destroy(&bridge->in_lock);
	pthread_mutex_destroy(&bridge->out_lock);
	vulkan_device_free(bridge->dev);
	free(bridge);
}

int vulkan_bridge_create(const uint8_t *uuid, uint64_t pci, struct bridge **out,
			 struct bridge_caps *caps)
{
	struct bridge *bridge;
	int ret;

	*caps = (struct bridge_caps){ 0 };
	ret = alloc_bridge(&bridge);
	if (ret)
		return ret;
	bridge->handle = uuid ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT :
				VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;
	ret = vulkan_instance_open(&bridge->dev->instance);
	if (ret)
		goto err_free;
	ret = vulkan_warn(open_vulkan(bridge, uuid, pci, caps));
	if (ret)
		goto err_instance;
	*out = bridge;
	return 0;

err_instance:
	vulkan_instance_close(&bridge->dev->instance);
err_free:
	free_bridge(bridge);
	return ret;
}

int bridge_open(const uint8_t *uuid, uint64_t pci, struct bridge **out,
		struct bridge_caps *caps)
{
	struct bridge *bridge;
	int ret;

	ret = vulkan_bridge_create(uuid, pci, &bridge, caps);
	if (ret)
		return ret;
	if (!caps->buffers && !caps->fences_in && !caps->fences_out) {
		bridge_close(bridge);
		return fail(-EOPNOTSUPP, "%s", caps->why_not);
	}
	*out = bridge;
	return 0;
}

void bridge_close(struct bridge *bridge)
{
	destroy_device(bridge->dev);
	vulkan_instance_close(&bridge->dev->instance);
	free_bridge(bridge);
}
