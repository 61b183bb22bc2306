// SPDX-License-Identifier: MIT
/*
 * HIP: finds and opens devices. An import takes the first path that the driver
 * accepts. An acquire makes the stream wait for the fences, a release records an
 * event. Both are in lib/queue, which calls ops.c.
 */
#include <errno.h>
#include <stdio.h>

#include "hip.h"

static int attribute(const struct hip_api *hip, int which, int ordinal)
{
	int value = 0;

	return HIP_RESULT(hip, DeviceGetAttribute, &value, which, ordinal) ? 0 :
									 value;
}

int hip_count(struct queue_device *base, unsigned int *n)
{
	struct hip_api *hip = &to_hip(base)->hip;
	int devices = 0, ret = hip_load(hip);

	if (!ret)
		ret = HIP_CALL(hip, GetDeviceCount, &devices);
	*n = devices > 0 ? devices : 0;
	return ret;
}

int hip_probe(struct queue_device *base, unsigned int n)
{
	struct hip_device *dev = to_hip(base);
	struct dlbuf_device_info *info = &base->info;
	const struct hip_api *hip = &dev->hip;
	int ret;

	dev->ordinal = n;
	info->pitch_align = 256;
	info->offset_align = 256;
	if (hip->StreamWaitValue32)
		info->acquire = DLBUF_SYNC_FENCE;
	ret = HIP_CALL(hip, DeviceGetName, info->description,
		       sizeof(info->description), n);
	if (!ret)
		ret = HIP_CALL(hip, RuntimeGetVersion, &dev->version);
	if (!ret)
		ret = HIP_CALL(hip, DeviceGetUuid, (struct hip_uuid *)info->uuid,
			       n);
	if (ret)
		return ret;
	snprintf(info->driver, sizeof(info->driver), "HIP %d.%d",
		 dev->version / 10000000, dev->version % 10000000 / 100000);
	base->place.pci = PCI_ADDRESS(
		attribute(hip, HIPABI_ATTR_PCI_DOMAIN_ID, n),
		attribute(hip, HIPABI_ATTR_PCI_BUS_ID, n),
		attribute(hip, HIPABI_ATTR_PCI_DEVICE_ID, n), 0);
	return 0;
}

int hip_start(struct queue_device *base, uint32_t flags)
{
	struct hip_device *dev = to_hip(base);

	dev->hsa_export = hsa_export_find();
	/* The runtime waits for device 0 when an import of any device is freed. */
	base->context = &hip_ops;
	/* hipHostRegister() refuses read-only memory: its flag for it is unused. */
	base->registers = true;
	base->orphans = true;
	/* The driver keeps a freed part of a block for the next allocation. */
	base->least = 2 * FRAGMENT;
	base->waits_for_words = dev->hip.StreamWaitValue32;
	if (flags & DLBUF_DEVICE_NO_BRIDGE)
		base->no_bridge = "DLBUF_DEVICE_NO_BRIDGE";
	return 0;
}

QUEUE_BACKEND(hip,
	.type = kDLROCM,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.alloc = queue_alloc,
	.export = queue_export,
#ifdef CONFIG_PREPARE_HIP
	QUEUE_PROGRAMS
#endif
);
