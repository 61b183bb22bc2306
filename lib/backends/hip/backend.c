// SPDX-License-Identifier: MIT
/*
 * HIP: finds and opens devices. An import takes the first path that the driver
 * accepts. An acquire makes the stream wait for the fences, a release records an
 * event. Both are in lib/queue, which calls ops.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hip.h"

static int attribute(const struct hip_api *hip, int which, int ordinal)
{
	int value = 0;

	return HIP_RESULT(hip, DeviceGetAttribute, &value, which, ordinal) ? 0 :
									 value;
}

static int gpu_probe(const struct hip_api *hip, int ordinal, struct hip_gpu *gpu)
{
	struct dlbuf_device_info *info = &gpu->info;
	int ret;

	*gpu = (struct hip_gpu){
		.ordinal = ordinal,
		.info = {
			.size = sizeof(*info),
			.backend = "hip",
			.device = { kDLROCM, ordinal },
			.pitch_align = 256,
			.offset_align = 256,
		},
	};
	ret = HIP_CALL(hip, DeviceGetName, info->description,
		       sizeof(info->description), ordinal);
	if (!ret)
		ret = HIP_CALL(hip, RuntimeGetVersion, &gpu->version);
	if (!ret)
		ret = HIP_CALL(hip, DeviceGetUuid, (struct hip_uuid *)info->uuid,
			       ordinal);
	if (ret)
		return ret;
	snprintf(info->driver, sizeof(info->driver), "HIP %d.%d",
		 gpu->version / 10000000, gpu->version % 10000000 / 100000);
	snprintf(info->name, sizeof(info->name), "hip:%d", ordinal);
	gpu->place.pci = PCI_ADDRESS(
		attribute(hip, HIPABI_ATTR_PCI_DOMAIN_ID, ordinal),
		attribute(hip, HIPABI_ATTR_PCI_BUS_ID, ordinal),
		attribute(hip, HIPABI_ATTR_PCI_DEVICE_ID, ordinal), 0);
	return 0;
}

static int count_gpus(const struct hip_api *hip, int *n)
{
	int ret = HIP_CALL(hip, GetDeviceCount, n);

	if (!ret && *n <= 0)
		ret = fail(-ENODEV, "hip: the driver has no device");
	return ret;
}

/* ---------------------------------------------------------------- devices */

static int device_create(const struct hip_api *hip, const struct hip_gpu *gpu,
			 uint32_t flags, struct hip_device **out)
{
	struct hip_device *dev = sys_calloc(1, sizeof(*dev));
	struct queue_scope scope;
	int ret;

	if (!dev)
		return -ENOMEM;
	dev->hip = *hip;
	dev->gpu = *gpu;
	dev->hsa_export = hsa_export_find();
	/* hipHostRegister() refuses read-only memory: its flag for it is unused. */
	dev->queue.registers = true;
	dev->queue.base.dl.device_id = gpu->ordinal;
	memcpy(dev->queue.base.name, gpu->info.name, sizeof(gpu->info.name));
	queue_init(&dev->queue, &hip_ops);
	ret = queue_enter(&dev->queue, &scope);
	if (ret) {
		queue_unref(&dev->queue);
		return ret;
	}
	dev->queue.waits_for_words = hip->StreamWaitValue32 &&
				     queue_try_words(&dev->queue);
	/* RADV's deviceUUID is not HIP's. */
	queue_open_bridge_pci(&dev->queue, gpu->place.pci,
			      flags & DLBUF_HIP_NO_BRIDGE ?
			      "DLBUF_HIP_NO_BRIDGE" : NULL);
	queue_leave(&dev->queue, &scope);
	*out = dev;
	return 0;
}

static int select_gpu(const struct hip_api *hip, const char *text,
		      struct hip_gpu *gpu)
{
	struct selector s;
	int ret, n;

	ret = count_gpus(hip, &n);
	if (!ret)
		ret = selector_begin(&s, "hip", text, n);
	if (ret)
		return ret;
	while (selector_next(&s))
		if (selector_takes(&s, gpu_probe(hip, s.at, gpu), &gpu->info,
				   &gpu->place))
			return 0;
	return selector_none(&s);
}

static int hip_open(const char *selector, const struct dlbuf_device_opts *opts,
		    struct dlbuf_device **out)
{
	struct hip_device *dev;
	struct hip_api hip;
	struct hip_gpu gpu;
	int ret;

	ret = hip_load(&hip);
	if (!ret)
		ret = select_gpu(&hip, selector, &gpu);
	if (!ret)
		ret = device_create(&hip, &gpu, opts->flags, &dev);
	if (!ret)
		*out = &dev->queue.base;
	return ret;
}

static int hip_each(const struct backend *backend, dlbuf_device_fn fn, void *data)
{
	struct hip_api hip;
	struct hip_gpu gpu;
	int ret, n = 0;

	(void)backend;
	ret = hip_load(&hip);
	if (!ret)
		ret = count_gpus(&hip, &n);
	for (int i = 0; !ret && i < n; i++) {
		ret = gpu_probe(&hip, i, &gpu);
		if (ret)
			break;
		gpu.info.acquire = hip.StreamWaitValue32 ? DLBUF_SYNC_FENCE :
							   DLBUF_SYNC_BLOCKS;
		gpu.info.release = DLBUF_SYNC_EVENT;
		ret = fn(&gpu.info, data);
	}
	return ret;
}

static void hip_describe(struct dlbuf_device *dev, struct dlbuf_device_info *info)
{
	queue_describe(dev, &hip_device_of(dev)->gpu.info, info);
}

const struct backend hip_backend = {
	.name = "hip",
	.type = kDLROCM,
	.flags = DLBUF_HIP_NO_BRIDGE,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.import_size = sizeof(struct queue_import),
	.each = hip_each,
	.open = hip_open,
	.close = queue_close,
	.describe = hip_describe,
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
