// SPDX-License-Identifier: MIT
/*
 * Level Zero: finds and opens devices. Streams are immediate command lists. The imports,
 * and the order of the work, are in lib/queue, which calls ops.c and events.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "levelzero.h"

int levelzero_count(struct queue_device *base, unsigned int *n)
{
	struct levelzero_device *dev = to_levelzero(base);
	ze_device_handle_t devices[LEVELZERO_MAX_DEVICES];
	ze_driver_handle_t drivers[16];
	uint32_t ndrivers = ARRAY_SIZE(drivers), more;
	int ret = levelzero_load(&dev->lz);

	if (!ret)
		ret = LZ_CALL(&dev->lz, DriverGet, &ndrivers, drivers);
	for (uint32_t i = 0; !ret && i < ndrivers; i++) {
		more = LEVELZERO_MAX_DEVICES - *n;
		ret = LZ_CALL(&dev->lz, DeviceGet, drivers[i], &more, devices);
		for (uint32_t k = 0; !ret && k < more; k++) {
			dev->list[*n].driver = drivers[i];
			dev->list[(*n)++].device = devices[k];
		}
	}
	return ret;
}

/* The first group of queues that computes; such queues copy, too. */
static int find_group(struct levelzero_device *dev)
{
	ze_command_queue_group_properties_t groups[16];
	uint32_t n = ARRAY_SIZE(groups);
	int ret;

	for (uint32_t i = 0; i < n; i++)
		groups[i] = (ze_command_queue_group_properties_t){
			.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES,
		};
	ret = LZ_CALL(&dev->lz, DeviceGetCommandQueueGroupProperties, dev->handle,
		      &n, groups);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		if (groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE) {
			dev->group = i;
			return 0;
		}
	return fail(-EOPNOTSUPP, "levelzero: %s has no queues that compute",
		    dev->queue.info.description);
}

int levelzero_probe(struct queue_device *base, unsigned int n)
{
	struct levelzero_device *dev = to_levelzero(base);
	ze_device_properties_t props = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES,
	};
	ze_pci_ext_properties_t pci = {
		.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES,
	};
	struct dlbuf_device_info *info = &base->info;
	int ret;

	dev->driver = dev->list[n].driver;
	dev->handle = dev->list[n].device;
	ret = LZ_CALL(&dev->lz, DriverGetApiVersion, dev->driver, &dev->version);
	if (!ret)
		ret = LZ_CALL(&dev->lz, DeviceGetProperties, dev->handle, &props);
	if (ret)
		return ret;
	base->believed = props.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
	memcpy(info->uuid, props.uuid.id, sizeof(info->uuid));
	snprintf(info->description, sizeof(info->description), "%.*s",
		 (int)sizeof(info->description) - 1, props.name);
	snprintf(info->driver, sizeof(info->driver), "Level Zero %u.%u",
		 ZE_MAJOR_VERSION(dev->version), ZE_MINOR_VERSION(dev->version));
	/* A device without an address cannot be selected by it. */
	if (!LZ_RESULT(&dev->lz, DevicePciGetPropertiesExt, dev->handle, &pci))
		base->place.pci = PCI_ADDRESS(pci.address.domain, pci.address.bus,
					      pci.address.device,
					      pci.address.function);
	return find_group(dev);
}

/* ---------------------------------------------------------------- devices */

static void nothing(void *data)
{
	(void)data;
}

/* A loader may have this function although a driver behind it lacks it. */
static bool calls_host(struct levelzero_device *dev)
{
	int ret;

	if (!dev->lz.CommandListAppendHostFunction)
		return false;
	ret = levelzero_ops.call_host(&dev->queue, dev->own, nothing, NULL);
	if (!ret)
		ret = levelzero_finish(&dev->queue, dev->own);
	if (ret) {
		log_at(DLBUF_LOG_INFO, "%s: streams call no host functions: %s",
		       dev->queue.base.name, dlbuf_last_error());
		forget_failure();
	}
	return !ret;
}

/* Both of Intel's functions that register host memory, or none. */
static void find_extensions(struct levelzero_device *dev)
{
	struct levelzero_api *lz = &dev->lz;

	if (!lz->DriverGetExtensionFunctionAddress ||
	    LZ_RESULT(lz, DriverGetExtensionFunctionAddress, dev->driver,
		      "zexDriverImportExternalPointer",
		      (void **)&lz->xDriverImportExternalPointer) ||
	    LZ_RESULT(lz, DriverGetExtensionFunctionAddress, dev->driver,
		      "zexDriverReleaseImportedPointer",
		      (void **)&lz->xDriverReleaseImportedPointer))
		lz->xDriverImportExternalPointer = NULL;
}

int levelzero_start(struct queue_device *base, uint32_t flags)
{
	struct levelzero_device *dev = to_levelzero(base);
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	int ret = 0;

	(void)flags;
	dev->ops = levelzero_ops;
	base->ops = &dev->ops;
	pthread_mutex_init(&dev->lock, NULL);
	pthread_mutex_init(&dev->appending, NULL);
	base->registers = true;
	find_extensions(dev);
	base->registers_read_only = !dev->lz.xDriverImportExternalPointer;
	/* Intel's kernel drivers notice at the first access that pages cannot be pinned. */
	base->memfds_only = true;
	base->no_bridge = "Level Zero imports no semaphores of other APIs";
	if (!base->base.wrapped)
		ret = LZ_CALL(&dev->lz, ContextCreate, dev->driver, &desc,
			      &dev->context);
	if (!ret)
		ret = dev->ops.stream_create(base, (void **)&dev->own);
	if (!ret && !calls_host(dev))
		dev->ops.call_host = NULL;
	return ret;
}

QUEUE_BACKEND(levelzero,
	.type = kDLOneAPI,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.alloc = queue_alloc,
	.export = queue_export,
#ifdef CONFIG_PREPARE_LEVELZERO
	QUEUE_PROGRAMS
#endif
);
