// SPDX-License-Identifier: MIT
/*
 * The functions of dlbuf/vulkan.h and of the bridge in a library without Vulkan.
 * dlbuf/vulkan.h is not included, because Vulkan's headers may not be installed.
 */
#include "../../absent.h"
#include "../../bridge.h"

#define WHAT "backend vulkan"

ABSENT(WHAT, dlbuf_device_wrap_vulkan, (const void *vk, const void *opts,
					void **out))
ABSENT(WHAT, dlbuf_vulkan_get_device, (void *dev, void *vk))
ABSENT(WHAT, dlbuf_vulkan_image_create, (void *tensor, uint32_t usage,
					 void *image))
ABSENT(WHAT, dlbuf_vulkan_lock_queue, (void *dev, void *queue))
ABSENT(WHAT, dlbuf_vulkan_unlock_queue, (void *dev, void *queue))

int bridge_open(const uint8_t uuid[16], struct bridge **out,
		struct bridge_caps *caps)
{
	return fail(-ENOSYS, WHAT " is not built into this library");
}

int bridge_open_pci(uint64_t pci, struct bridge **out, struct bridge_caps *caps)
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
NO(bridge_in, (struct bridge *b, struct bridge_buffer *p, int f,
	       struct bridge_link *l))
NO(bridge_out, (struct bridge *b, struct bridge_buffer *p,
		struct bridge_link *l, int *f))
