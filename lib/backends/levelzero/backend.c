// SPDX-License-Identifier: MIT
/*
 * Level Zero: finds and opens devices. Streams are immediate command lists. The imports,
 * and the order of the work, are in lib/queue, which calls ops.c and events.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "levelzero.h"

int levelzero_devices(const struct levelzero_api *lz,
		      struct levelzero_list *list)
{
	ze_device_handle_t devices[LEVELZERO_MAX_DEVICES];
	ze_driver_handle_t drivers[16];
	uint32_t ndrivers = ARRAY_SIZE(drivers), n;
	int ret = LZ_CALL(lz, DriverGet, &ndrivers, drivers);

	list->n = 0;
	for (uint32_t i = 0; !ret && i < ndrivers; i++) {
		n = LEVELZERO_MAX_DEVICES - list->n;
		ret = LZ_CALL(lz, DeviceGet, drivers[i], &n, devices);
		for (uint32_t k = 0; !ret && k < n; k++) {
			list->at[list->n].driver = drivers[i];
			list->at[list->n++].device = devices[k];
		}
	}
	if (!ret && !list->n)
		ret = fail(-ENODEV, "levelzero: the drivers have no device");
	return ret;
}

/* The first group of queues that computes; such queues copy, too. */
static int find_group(const struct levelzero_api *lz, struct levelzero_gpu *gpu)
{
	ze_command_queue_group_properties_t groups[16];
	uint32_t n = ARRAY_SIZE(groups);
	int ret;

	for (uint32_t i = 0; i < n; i++)
		groups[i] = (ze_command_queue_group_properties_t){
			.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES,
		};
	ret = LZ_CALL(lz, DeviceGetCommandQueueGroupProperties, gpu->handle, &n,
		      groups);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		if (groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE) {
			gpu->group = i;
			return 0;
		}
	return fail(-EOPNOTSUPP, "levelzero: %s has no queues that compute",
		    gpu->info.description);
}

int levelzero_gpu_probe(const struct levelzero_api *lz,
			ze_driver_handle_t driver, ze_device_handle_t device,
			int ordinal, struct levelzero_gpu *gpu)
{
	ze_device_properties_t props = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES,
	};
	ze_pci_ext_properties_t pci = {
		.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES,
	};
	struct dlbuf_device_info *info = &gpu->info;
	int ret;

	*gpu = (struct levelzero_gpu){
		.driver = driver,
		.handle = device,
		.ordinal = ordinal,
		.info = {
			.size = sizeof(*info),
			.backend = "levelzero",
			.device = { kDLOneAPI, ordinal },
			.pitch_align = 64,
			.offset_align = 64,
		},
	};
	ret = LZ_CALL(lz, DriverGetApiVersion, driver, &gpu->version);
	if (!ret)
		ret = LZ_CALL(lz, DeviceGetProperties, device, &props);
	if (ret)
		return ret;
	gpu->integrated = props.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
	memcpy(info->uuid, props.uuid.id, sizeof(info->uuid));
	snprintf(info->description, sizeof(info->description), "%.*s",
		 (int)sizeof(info->description) - 1, props.name);
	snprintf(info->driver, sizeof(info->driver), "Level Zero %u.%u",
		 ZE_MAJOR_VERSION(gpu->version), ZE_MINOR_VERSION(gpu->version));
	snprintf(info->name, sizeof(info->name), "levelzero:%d", ordinal);
	/* A device without an address cannot be selected by it. */
	if (!LZ_RESULT(lz, DevicePciGetPropertiesExt, device, &pci))
		gpu->place.pci = PCI_ADDRESS(pci.address.domain, pci.address.bus,
					     pci.address.device,
					     pci.address.function);
	return find_group(lz, gpu);
}

/* ---------------------------------------------------------------- devices */

static void nothing(void *data)
{
	(void)data;
}

/* A loader has this function without each driver behind it having it. */
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

static int make_own(struct levelzero_device *dev)
{
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	int ret = 0;

	if (!dev->wrapped)
		ret = LZ_CALL(&dev->lz, ContextCreate, dev->gpu.driver, &desc,
			      &dev->context);
	return ret ? ret : levelzero_ops.stream_create(&dev->queue,
						       (void **)&dev->own);
}

int levelzero_device_create(const struct levelzero_api *lz,
			    const struct levelzero_gpu *gpu,
			    ze_context_handle_t context,
			    struct levelzero_device **out)
{
	struct levelzero_device *dev = sys_calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return -ENOMEM;
	dev->lz = *lz;
	dev->gpu = *gpu;
	dev->context = context;
	dev->wrapped = context;
	dev->ops = levelzero_ops;
	pthread_mutex_init(&dev->lock, NULL);
	pthread_mutex_init(&dev->appending, NULL);
	dev->queue.registers = true;
	dev->queue.registers_read_only = true;
	/* Intel's kernel drivers notice at the first access that pages cannot be pinned. */
	dev->queue.memfds_only = true;
	dev->queue.believed = gpu->integrated;
	dev->queue.base.dl.device_id = gpu->ordinal;
	memcpy(dev->queue.base.name, gpu->info.name, sizeof(gpu->info.name));
	queue_init(&dev->queue, &dev->ops);
	ret = make_own(dev);
	if (ret) {
		queue_unref(&dev->queue);
		return ret;
	}
	if (!calls_host(dev))
		dev->ops.call_host = NULL;
	queue_open_bridge(&dev->queue, NULL, "Level Zero imports no semaphores of "
			  "other APIs");
	*out = dev;
	return 0;
}

static int select_gpu(const struct levelzero_api *lz, const char *text,
		      struct levelzero_gpu *gpu)
{
	struct levelzero_list list;
	struct selector s;
	int ret;

	ret = levelzero_devices(lz, &list);
	if (!ret)
		ret = selector_begin(&s, "levelzero", text, list.n);
	if (ret)
		return ret;
	while (selector_next(&s))
		if (selector_takes(&s, levelzero_gpu_probe(lz,
					list.at[s.at].driver,
					list.at[s.at].device, s.at, gpu),
				   &gpu->info, &gpu->place))
			return 0;
	return selector_none(&s);
}

static int levelzero_open(const char *selector,
			  const struct dlbuf_device_opts *opts,
			  struct dlbuf_device **out)
{
	struct levelzero_device *dev;
	struct levelzero_api lz;
	struct levelzero_gpu gpu;
	int ret;

	(void)opts;
	ret = levelzero_load(&lz);
	if (!ret)
		ret = select_gpu(&lz, selector, &gpu);
	if (!ret)
		ret = levelzero_device_create(&lz, &gpu, NULL, &dev);
	if (!ret)
		*out = &dev->queue.base;
	return ret;
}

static int levelzero_each(const struct backend *backend, dlbuf_device_fn fn,
			  void *data)
{
	struct levelzero_list list;
	struct levelzero_api lz;
	struct levelzero_gpu gpu;
	int ret;

	(void)backend;
	ret = levelzero_load(&lz);
	if (!ret)
		ret = levelzero_devices(&lz, &list);
	for (unsigned int i = 0; !ret && i < list.n; i++) {
		ret = levelzero_gpu_probe(&lz, list.at[i].driver,
					  list.at[i].device, i, &gpu);
		if (ret)
			break;
		gpu.info.acquire = DLBUF_SYNC_FENCE;
		gpu.info.release = DLBUF_SYNC_EVENT;
		ret = fn(&gpu.info, data);
	}
	return ret;
}

static void levelzero_describe(struct dlbuf_device *dev,
			       struct dlbuf_device_info *info)
{
	queue_describe(dev, &levelzero_device_of(dev)->gpu.info, info);
}

const struct backend levelzero_backend = {
	.name = "levelzero",
	.type = kDLOneAPI,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.import_size = sizeof(struct queue_import),
	.each = levelzero_each,
	.open = levelzero_open,
	.close = queue_close,
	.describe = levelzero_describe,
	.import = queue_import,
	.unimport = queue_unimport,
	.stream = queue_stream,
	.acquire = queue_acquire,
	.release = queue_release,
	.wait = queue_wait,
	.pending = queue_pending,
	.drain = queue_drain,
	.alloc = queue_alloc,
	.export = queue_export,
};
