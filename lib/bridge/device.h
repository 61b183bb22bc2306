/* SPDX-License-Identifier: MIT */
/* Shared by the files of the bridge. */
#ifndef DLBUF_VULKAN_BRIDGE_DEVICE_H
#define DLBUF_VULKAN_BRIDGE_DEVICE_H

#include "../backends/vulkan/vulkan.h"
#include "bridge.h"

struct link {
	struct bridge_link base;
	VkSemaphore timeline;
	struct link *next;
};

struct bridge {
	struct vulkan_device *dev; /* its base is not used */
	/*
	 * Submits on `out` wait for the other API. They must not delay those on
	 * `in`, so these are two queues if the family has two.
	 */
	VkQueue in, out;
	pthread_mutex_t in_lock, out_lock;
	/* OPAQUE_FD, or DMA_BUF for an API that shares no semaphores. */
	VkExternalMemoryHandleTypeFlagBits handle;
	bool links;		/* timelines can be shared */
	bool memory;		/* imports dma-bufs and shares memory ... */
	bool dedicated_only;	/* ... as dedicated allocations */
	struct vulkan_job *jobs; /* submits of fences; a buffer has its own list */
	struct link *idle;	/* links to use again; under dev->lock */
	struct link *used;	/* links that a caller has; under dev->lock */
};

/*
 * Makes the bridge with the capabilities of the device. The fields of struct bridge
 * describe them; caps has those that another API can use. On drivers that share
 * nothing, tests act as that API; links then have no fd.
 */
int vulkan_bridge_create(const uint8_t *uuid, uint64_t pci, struct bridge **out,
			 struct bridge_caps *caps);

/* Gives the queue family that owns the shared memory while the other API uses it. */
static inline uint32_t bridge_family(const struct bridge *bridge)
{
	return bridge->handle == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT ?
	       VK_QUEUE_FAMILY_EXTERNAL : bridge->dev->foreign;
}

/* Tries to make a sync_file from a timeline's value. Returns 0, or the error. */
int vulkan_bridge_try_out(struct bridge *bridge);

/* Makes a timeline semaphore at 0; shared: exportable as an OPAQUE_FD. */
int vulkan_timeline_create(struct vulkan_device *dev, bool shared,
			   VkSemaphore *out);

/* Signals and waits on the host. */
int vulkan_timeline_signal(struct vulkan_device *dev, VkSemaphore timeline,
			   uint64_t value);
int vulkan_timeline_wait(struct vulkan_device *dev, VkSemaphore timeline,
			 uint64_t value);

#endif /* DLBUF_VULKAN_BRIDGE_DEVICE_H */
