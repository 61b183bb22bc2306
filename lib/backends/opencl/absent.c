// SPDX-License-Identifier: MIT
/* The functions of dlbuf/opencl.h in a library without OpenCL. */
#include <dlbuf/opencl.h>

#include "../../system/absent.h"

#define WHAT "backend opencl"

ABSENT(WHAT, dlbuf_device_wrap_opencl, (const struct dlbuf_opencl_device *cl,
					const struct dlbuf_device_opts *opts,
					struct dlbuf_device **out))
ABSENT(WHAT, dlbuf_opencl_get_device, (struct dlbuf_device *dev,
				       struct dlbuf_opencl_device *cl))
ABSENT(WHAT, dlbuf_opencl_get_buffer, (const DLManagedTensorVersioned *tensor,
				       struct dlbuf_opencl_buffer *buffer))
