// SPDX-License-Identifier: MIT
/* The function of dlbuf/hip.h in a library without HIP. */
#include <dlbuf/hip.h>

#include "../../system/absent.h"

ABSENT("backend hip", dlbuf_hip_get_device, (struct dlbuf_device *dev,
					     struct dlbuf_hip_device *hip))
