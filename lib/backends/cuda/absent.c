// SPDX-License-Identifier: MIT
/* The functions of dlbuf/cuda.h in a library without CUDA. */
#include <dlbuf/cuda.h>

#include "../../system/absent.h"

#define WHAT "backend cuda"

ABSENT(WHAT, dlbuf_device_wrap_cuda, (void *context,
				      const struct dlbuf_device_opts *opts,
				      struct dlbuf_device **out))
ABSENT(WHAT, dlbuf_cuda_get_device, (struct dlbuf_device *dev,
				     struct dlbuf_cuda_device *cuda))
