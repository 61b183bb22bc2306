// SPDX-License-Identifier: MIT
/* The bridge of a library without Vulkan: there is none, so nothing uses it. */
#ifndef CONFIG_BACKEND_VULKAN
#include <errno.h>

#include "queue.h"

int bridge_open(const uint8_t uuid[16], struct bridge **out,
		struct bridge_caps *caps)
{
	(void)uuid, (void)out, (void)caps;
	return fail(-ENOSYS, "backend vulkan is not built into this library");
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOTHING(name, params) void name params { }
#define NO(name, params) int name params { return -ENOSYS; }

NOTHING(bridge_close, (struct bridge *b))
NOTHING(bridge_link_put, (struct bridge *b, struct bridge_link *l))
NOTHING(bridge_link_abandon, (struct bridge *b, struct bridge_link *l))
NOTHING(bridge_links_abandon, (struct bridge *b))
NOTHING(bridge_links_free,
	(struct bridge *b, void (*fn)(struct bridge_link *l, void *d), void *d))
NOTHING(bridge_buffer_destroy, (struct bridge_buffer *b))
NO(bridge_link_get, (struct bridge *b, struct bridge_link **l))
NO(bridge_buffer_create,
   (struct bridge *b, int fd, uint64_t n, struct bridge_buffer **out, int *f,
    uint64_t *m, bool *d))
NO(bridge_in, (struct bridge *b, struct bridge_buffer *p, int f,
	       struct bridge_link *l))
NO(bridge_out, (struct bridge *b, struct bridge_buffer *p,
		struct bridge_link *l, int *f))
#endif
