// SPDX-License-Identifier: MIT
/*
 * The functions of dlbuf/vulkan.h in a library without Vulkan. dlbuf/vulkan.h is not
 * included, because Vulkan's headers may not be installed.
 */
#include "../../system/absent.h"

#define WHAT "backend vulkan"

ABSENT(WHAT, dlbuf_device_wrap_vulkan, (const void *vk, const void *opts,
					void **out))
ABSENT(WHAT, dlbuf_vulkan_get_device, (void *dev, void *vk))
ABSENT(WHAT, dlbuf_vulkan_image_create, (void *tensor, uint32_t usage,
					 void *image))
ABSENT(WHAT, dlbuf_vulkan_lock_queue, (void *dev, void *queue))
ABSENT(WHAT, dlbuf_vulkan_unlock_queue, (void *dev, void *queue))
