// SPDX-License-Identifier: MIT
/* The functions of dlbuf/levelzero.h in a library without Level Zero. */
#include <dlbuf/levelzero.h>

#include "../../system/absent.h"

#define WHAT "backend levelzero"

ABSENT(WHAT, dlbuf_device_wrap_levelzero, (void *context, void *device,
					   const struct dlbuf_device_opts *opts,
					   struct dlbuf_device **out))
ABSENT(WHAT, dlbuf_levelzero_get_device,
       (struct dlbuf_device *dev, struct dlbuf_levelzero_device *levelzero))
