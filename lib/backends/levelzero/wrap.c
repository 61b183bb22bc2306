// SPDX-License-Identifier: MIT
/* dlbuf/levelzero.h: devices for an application's context, and the handles of a device. */
#include <errno.h>

#include "levelzero.h"

struct theirs {
	ze_context_handle_t context;
	ze_device_handle_t device;
};

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
static int find(struct queue_device *base, unsigned int n, const void *data)
{
	struct levelzero_device *dev = to_levelzero(base);
	const struct theirs *theirs = data;
	int ret;

	for (unsigned int i = 0; i < n; i++) {
		if (dev->list[i].device != theirs->device &&
		    !is_part(&dev->lz, dev->list[i].device, theirs->device))
			continue;
		dev->list[i].device = theirs->device;
		dev->context = theirs->context;
		ret = queue_probe(base, i);
		return ret ? ret : LZ_CALL(&dev->lz, ContextGetStatus,
					   dev->context);
	}
	return fail(-EINVAL, "device %p is not a ze_device_handle_t of this machine",
		    (void *)theirs->device);
}

int dlbuf_device_wrap_levelzero(void *context, void *device,
				const struct dlbuf_device_opts *opts,
				struct dlbuf_device **out)
{
	NOT_CANCELLED;
	if (!context || !device || !out)
		return fail(-EINVAL, "%s is NULL", !context ? "context" :
			    !device ? "device" : "out");
	return queue_wrap(&levelzero_backend, &levelzero_ops, find,
			  &(struct theirs){ context, device }, opts, out);
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
		.driver = dev->driver,
		.context = dev->context,
		.device = dev->handle,
		.list = dev->own,
		.ordinal = base->dl.device_id,
		.version = dev->version,
	}), "dlbuf_levelzero_device");
}
