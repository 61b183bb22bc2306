// SPDX-License-Identifier: MIT
/* dlbuf/hip.h: the HIP numbers of a device. */
#include <errno.h>

#include "hip.h"

int dlbuf_hip_get_device(struct dlbuf_device *base, struct dlbuf_hip_device *hip)
{
	struct hip_device *dev;
	int ret = device_check(base);

	if (ret)
		return ret;
	if (base->backend != &hip_backend)
		return fail(-EINVAL, "%s is not a HIP device", base->name);
	dev = hip_device_of(base);
	return INFO_PUT(hip, (&(struct dlbuf_hip_device){
		.ordinal = dev->ordinal,
		.runtime = dev->version,
	}), "dlbuf_hip_device");
}
