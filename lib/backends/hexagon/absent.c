// SPDX-License-Identifier: MIT
/* The functions of dlbuf/hexagon.h in a library without Hexagon. */
#include <dlbuf/hexagon.h>

#include "../../system/absent.h"

ABSENT("backend hexagon", dlbuf_device_wrap_hexagon,
       (int fd, int domain, const struct dlbuf_device_opts *opts,
	struct dlbuf_device **out))
ABSENT("backend hexagon", dlbuf_hexagon_get_buffer,
       (const DLManagedTensorVersioned *tensor,
	struct dlbuf_hexagon_buffer *buffer))
