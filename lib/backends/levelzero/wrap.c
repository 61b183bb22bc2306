// SPDX-License-Identifier: MIT
/* dlbuf/levelzero.h: devices for an application's context, and the handles of a device. */
#include <errno.h>

#include "levelzero.h"

static bool is_part(const struct levelzero_api *lz, ze_device_handle_t device,
		    ze_device_handle_t part)
{
	ze_device_handle_t parts[LEVELZERO_MAX_DEVICES];
	uint32_t n = ARRAY_SIZE(parts);

	if (LZ_RESULT(lz, DeviceGetSubDevices, device, &n, parts))
		return false;
	while (n--)
		if (parts[n] == part)
			return true;
	return false;
}

/* A part of a device has the number of the device. */
static int find(const struct levelzero_api *lz, ze_device_handle_t device,
		struct levelzero_gpu *gpu)
{
	struct levelzero_list list;
	int ret = levelzero_devices(lz, &list);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < list.n; i++)
		if (list.at[i].device == device ||
		    is_part(lz, list.at[i].device, device))
			return levelzero_gpu_probe(lz, list.at[i].driver, device,
						   i, gpu);
	return fail(-EINVAL, "device %p is not a ze_device_handle_t of this machine",
		    (void *)device);
}

int dlbuf_device_wrap_levelzero(void *context, void *device,
				const struct dlbuf_device_opts *opts,
				struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct levelzero_device *dev;
	struct dlbuf_device_opts o;
	struct levelzero_api lz;
	struct levelzero_gpu gpu;
	int ret;

	if (!context || !device || !out)
		return fail(-EINVAL, "%s is NULL", !context ? "context" :
			    !device ? "device" : "out");
	ret = device_opts_get(&levelzero_backend, &o, opts);
	if (!ret)
		ret = levelzero_load(&lz);
	if (!ret)
		ret = find(&lz, device, &gpu);
	if (!ret)
		ret = LZ_CALL(&lz, ContextGetStatus, context);
	if (!ret)
		ret = levelzero_device_create(&lz, &gpu, context, &dev);
	if (ret)
		return ret;
	device_init(&dev->queue.base, &levelzero_backend, &o);
	log_at(DLBUF_LOG_INFO, "wrapped a ze_context_handle_t as %s",
	       dev->queue.base.name);
	*out = &dev->queue.base;
	return 0;
}

int dlbuf_levelzero_get_device(struct dlbuf_device *base,
			       struct dlbuf_levelzero_device *levelzero)
{
	struct levelzero_device *dev;
	int ret = device_check(base);

	if (ret)
		return ret;
	if (base->backend != &levelzero_backend)
		return fail(-EINVAL, "%s is not a Level Zero device", base->name);
	dev = levelzero_device_of(base);
	return INFO_PUT(levelzero, (&(struct dlbuf_levelzero_device){
		.driver = dev->gpu.driver,
		.context = dev->context,
		.device = dev->gpu.handle,
		.list = dev->own,
		.ordinal = dev->gpu.ordinal,
		.version = dev->gpu.version,
	}), "dlbuf_levelzero_device");
}
