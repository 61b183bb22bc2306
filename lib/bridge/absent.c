// SPDX-License-Identifier: MIT
/* No device has a bridge, in a library without Vulkan. */
#include "../system/absent.h"
#include "bridge.h"

#define WHAT "backend vulkan"

int bridge_open(const uint8_t *uuid, uint64_t pci, struct bridge **out,
		struct bridge_caps *caps)
{
	return fail(-ENOSYS, WHAT " is not built into this library");
}

/* Never called: bridge_open() gives no bridge. */
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
NO(bridge_copy, (struct bridge_buffer *b, bool in))
bool bridge_copies(struct bridge_buffer *b) { return false; }
NO(bridge_in, (struct bridge *b, struct bridge_buffer *p, int f,
	       struct bridge_link *l))
NO(bridge_out, (struct bridge *b, struct bridge_buffer *p,
		struct bridge_link *l, int *f))
