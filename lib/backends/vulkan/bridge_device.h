/* SPDX-License-Identifier: MIT */
/* What the files of the bridge share. */
#ifndef DLBUF_VULKAN_BRIDGE_DEVICE_H
#define DLBUF_VULKAN_BRIDGE_DEVICE_H

#include "../../bridge.h"
#include "vulkan.h"

struct link {
	struct bridge_link base;
	VkSemaphore timeline;
	struct link *next;
};

struct bridge {
	struct vulkan_device *dev; /* nothing of its base is used */
	/*
	 * What goes out waits for the other API and must not hold up what goes
	 * in: two queues, where there are two.
	 */
	VkQueue in, out;
	pthread_mutex_t in_lock, out_lock;
	bool links;		/* timelines can be shared */
	bool memory;		/* dma-bufs come in, memory can be shared ... */
	bool dedicated_only;	/* ... as dedicated allocations */
	struct vulkan_job *jobs; /* of fences; a buffer has its own */
	struct link *idle;	/* given back; under dev->lock */
};

/*
 * The bridge whatever it can: its own fields say what, and caps what of it is
 * of use to another API. Tests play that API on drivers that share nothing:
 * their links have no fd.
 */
int vulkan_bridge_create(const uint8_t uuid[16], struct bridge **out,
			 struct bridge_caps *caps);

/* Tries whether a timeline's value makes a fence. 0, or why not. */
int vulkan_bridge_try_out(struct bridge *bridge);

/* A timeline at 0; shared: one that can be exported as an OPAQUE_FD. */
int vulkan_timeline_create(struct vulkan_device *dev, bool shared,
			   VkSemaphore *out);

/* From the host: sets it, waits for it. */
int vulkan_timeline_signal(struct vulkan_device *dev, VkSemaphore timeline,
			   uint64_t value);
int vulkan_timeline_wait(struct vulkan_device *dev, VkSemaphore timeline,
			 uint64_t value);

/* What a submit waits for and signals, if not NULL; a value of a timeline. */
struct vulkan_submit {
	VkCommandBuffer cmd;
	VkSemaphore wait, signal;
	uint64_t wait_value, signal_value;
};

int vulkan_bridge_submit(struct bridge *bridge, struct vulkan_job *job,
			 VkQueue queue, const struct vulkan_submit *s);

#endif /* DLBUF_VULKAN_BRIDGE_DEVICE_H */
