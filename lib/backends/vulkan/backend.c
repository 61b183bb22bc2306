// SPDX-License-Identifier: MIT
/*
 * Vulkan: finds and opens devices. An import is a VkBuffer that is bound to memory
 * imported from the dma-buf. An acquire waits for the fences and transfers the buffer
 * from the foreign queue family; a release transfers it back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../dmabuf/fence.h"
#include "vulkan.h"

static void vulkan_describe(struct dlbuf_device *dev,
			    struct dlbuf_device_info *info)
{
	const struct dlbuf_device_info *known =
		&vulkan_device(dev)->physical.info;

	memcpy(info->description, known->description,
	       sizeof(info->description));
	memcpy(info->driver, known->driver, sizeof(info->driver));
	memcpy(info->reason, known->reason, sizeof(info->reason));
	memcpy(info->uuid, known->uuid, sizeof(info->uuid));
	info->pitch_align = known->pitch_align;
	info->offset_align = known->offset_align;
}

static int each_physical(const struct vulkan_instance *inst,
			 const struct backend *backend, dlbuf_device_fn fn,
			 void *data)
{
	VkPhysicalDevice list[VULKAN_MAX_DEVICES];
	uint32_t n;
	int ret;

	ret = vulkan_warn(vulkan_physical_list(inst, list, &n));
	for (uint32_t i = 0; !ret && i < n; i++) {
		struct vulkan_physical p = { .handle = list[i], .index = i };
		struct dlbuf_device_info *info = &p.info;

		info->status = vulkan_warn(vulkan_physical_probe(inst, &p));
		if (info->status) {
			snprintf(info->reason, sizeof(info->reason), "%s",
				 dlbuf_last_error());
			forget_failure();
		}
		info->size = sizeof(*info);
		snprintf(info->name, sizeof(info->name), "vulkan:%u", i);
		snprintf(info->backend, sizeof(info->backend), "vulkan");
		info->device.device_type = backend->type;
		info->device.device_id = i;
		ret = fn(info, data);
	}
	return ret;
}

static int vulkan_each(const struct backend *backend, dlbuf_device_fn fn,
		       void *data)
{
	struct vulkan_instance inst;
	int ret;

	ret = vulkan_instance_open(&inst);
	if (ret)
		return ret;
	ret = each_physical(&inst, backend, fn, data);
	vulkan_instance_close(&inst);
	return ret;
}

/* ---- devices */

int vulkan_device_alloc(struct vulkan_device **out)
{
	struct vulkan_device *dev = sys_calloc(1, sizeof(*dev));

	if (!dev)
		return -ENOMEM;
	pthread_mutex_init(&dev->lock, NULL);
	*out = dev;
	return 0;
}

void vulkan_device_free(struct vulkan_device *dev)
{
	vulkan_lock_put(dev);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

static int vulkan_stream(struct dlbuf_device *dev, struct access_stream *queue, bool ends)
{
	(void)dev, (void)queue, (void)ends;
	return 0;
}

int vulkan_device_create(struct vulkan_device *dev, uint32_t extensions,
			 const void *features, uint32_t nqueues)
{
	const struct vulkan_physical *p = &dev->physical;
	struct vulkan_api *vk = &dev->instance.vk;
	VkDeviceQueueCreateInfo queue = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueFamilyIndex = p->family,
		.queueCount = p->queues < nqueues ? p->queues : nqueues,
		.pQueuePriorities = (float[]){ 1, 1 },
	};
	const char *names[16];
	VkDeviceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = features,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queue,
		.enabledExtensionCount =
			vulkan_extension_names(p->extensions & extensions, names),
		.ppEnabledExtensionNames = names,
	};
	int ret;

	ret = VULKAN_CALL(vk, CreateDevice, p->handle, &info, NULL, &dev->handle);
	if (ret)
		return ret;
	ret = vulkan_load(vk, VULKAN_DEVICE, dev->instance.handle, dev->handle);
	if (ret && vk->DestroyDevice)
		vk->DestroyDevice(dev->handle, NULL);
	return ret;
}

int vulkan_device_finish(struct vulkan_device *dev)
{
	struct vulkan_physical *p = &dev->physical;
	struct vulkan_api *vk = &dev->instance.vk;
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.queueFamilyIndex = p->family,
	};
	int ret;

	/* Loaders return functions of Vulkan versions that the device does not have. */
	if (p->version < VK_API_VERSION_1_2)
		vk->GetBufferDeviceAddress = vk->GetBufferDeviceAddressKHR;
	if (!vk->GetBufferDeviceAddress)
		p->address = false;
	p->waits &= vk->ImportSemaphoreFdKHR != NULL;
	p->signals &= vk->GetSemaphoreFdKHR != NULL;
	vulkan_physical_say_why(p);
	dev->base.acquire_sync = p->waits ? DLBUF_SYNC_FENCE :
					    DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = p->signals ? DLBUF_SYNC_FENCE :
					      DLBUF_SYNC_BLOCKS;
	dev->usage = VULKAN_USAGE;
	if (p->address)
		dev->usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
	dev->foreign = p->extensions & EXT_FOREIGN ?
		VK_QUEUE_FAMILY_FOREIGN_EXT : VK_QUEUE_FAMILY_EXTERNAL;
	/* An alignment of more than a page would cost more memory than it saves time. */
	dev->base.copy_align = p->info.pitch_align > p->info.offset_align ?
			       p->info.pitch_align : p->info.offset_align;
	if (dev->base.copy_align > 4096)
		dev->base.copy_align = 4096;
	dev->base.dl.device_id = p->index;
	snprintf(dev->base.name, sizeof(dev->base.name), "vulkan:%u", p->index);
	if (p->info.reason[0])
		log_at(DLBUF_LOG_INFO, "%s %s", dev->base.name, p->info.reason);
	ret = dev->lock_queue ? 0 : vulkan_lock_get(dev);
	if (!ret)
		ret = vulkan_find_slack(dev);
	return ret ? ret : VULKAN_CALL(vk, CreateCommandPool, dev->handle, &pool,
				       NULL, &dev->pool);
}

static int open_device(struct vulkan_device *dev, const char *selector)
{
	struct vulkan_api *vk = &dev->instance.vk;
	VkPhysicalDeviceBufferDeviceAddressFeatures address = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
		.bufferDeviceAddress = VK_TRUE,
	};
	int ret;

	ret = vulkan_physical_select(&dev->instance, selector, &dev->physical);
	if (!ret)
		ret = vulkan_device_create(dev, ~(uint32_t)EXT_TIMELINE,
					   dev->physical.address ? &address : NULL, 1);
	if (ret)
		return ret;
	vk->GetDeviceQueue(dev->handle, dev->physical.family, 0, &dev->queue);
	ret = vulkan_device_finish(dev);
	if (!ret) {
		ret = vulkan_try_imports(dev);
		if (!ret)
			return 0;
		vulkan_jobs_free(dev);
		vk->DestroyCommandPool(dev->handle, dev->pool, NULL);
	}
	vk->DestroyDevice(dev->handle, NULL);
	return ret;
}

static int vulkan_open(const char *selector,
		       const struct dlbuf_device_opts *opts,
		       struct dlbuf_device **out)
{
	struct vulkan_device *dev;
	int ret;

	(void)opts;
	ret = vulkan_device_alloc(&dev);
	if (ret)
		return ret;
	ret = vulkan_instance_open(&dev->instance);
	if (ret)
		goto err_free;
	ret = vulkan_warn(open_device(dev, selector));
	if (ret)
		goto err_instance;
	*out = &dev->base;
	return 0;

err_instance:
	vulkan_instance_close(&dev->instance);
err_free:
	vulkan_device_free(dev);
	return ret;
}

/*
 * The application may destroy its handles next, so this waits for the work of all deleted
 * tensors.
 */
static void vulkan_shut(struct dlbuf_device *base)
{
	struct vulkan_device *dev = vulkan_device(base);
	struct timespec pause = PAUSE_FIRST;

	if (!dev->base.wrapped)
		return;
	__atomic_store_n(&dev->shut, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&base->ndying, __ATOMIC_ACQUIRE)) {
		import_destroy_again(false);
		pause_until(&pause, 0);
	}
}

static void vulkan_close(struct dlbuf_device *base)
{
	struct vulkan_device *dev = vulkan_device(base);
	struct vulkan_api *vk = &dev->instance.vk;

	/* Our submits are complete; an application that used our queue may have more. */
	if (!dev->base.wrapped)
		vk->DeviceWaitIdle(dev->handle);
	vulkan_jobs_finish(dev, &dev->together);
	vulkan_jobs_free(dev);
	vulkan_shader_free(dev);
	vk->DestroyCommandPool(dev->handle, dev->pool, NULL);
	if (!dev->base.wrapped) {
		vk->DestroyDevice(dev->handle, NULL);
		vulkan_instance_close(&dev->instance);
	}
	vulkan_device_free(dev);
}

const struct backend vulkan_backend = {
	.name = "vulkan",
	.type = kDLVulkan,
	.import_size = sizeof(struct vulkan_import),
	.each = vulkan_each,
	.open = vulkan_open,
	.shut = vulkan_shut,
	.close = vulkan_close,
	.describe = vulkan_describe,
	.import = vulkan_import_buffer,
	.unimport = vulkan_unimport_buffer,
	.stream = vulkan_stream,
	.acquire = vulkan_acquire,
	.release = vulkan_release,
	.acquire_all = vulkan_acquire_all,
	.release_all = vulkan_release_all,
	.drain = vulkan_drain_device,
	.can_detile = vulkan_can_detile,
	.detile = vulkan_detile,
	.modifiers = vulkan_modifiers,
#ifdef CONFIG_PREPARE_VULKAN
	.program_load = vulkan_program_load,
	.program_run = vulkan_program_run,
	.program_run_all = vulkan_program_run_all,
	.program_drop = vulkan_program_drop,
#endif
};
