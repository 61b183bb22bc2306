/* SPDX-License-Identifier: MIT */
/*
 * A double of libvulkan.so.1 for cases that no driver of the lab has: devices
 * that lack features, calls that fail, and checks of lifetimes. Each object
 * must be destroyed once, by the function for its type, and not while the
 * device may still use it; an fd that is passed to an import is the double's
 * from then on. An image is made by the rules of
 * VK_EXT_image_drm_format_modifier, is acquired with its contents, copied from
 * in the right layout and released again.
 *
 * The device executes submissions in order, and only during some calls: a wait,
 * vkGetFenceStatus() unless it is busy, run(). A semaphore's SYNC_FD is anything
 * that poll() takes: the double waits for fds to become readable and returns
 * eventfds, to which it writes, or (sync_files) fences of vgem, which the kernel
 * accepts.
 *
 * Objects that are shared with another API: a timeline is a memfd of 4096 bytes with its
 * value as a uint64_t at the beginning, which both sides read and write
 * atomically, and memory is a memfd, too. A copy of buffers copies from one
 * memory into the other, be that a dma-buf or shared, when the device does it.
 * If the other side never calls this one, a thread executes the device's ready
 * work (threaded).
 */
#ifndef FAKE_VULKAN_H
#define FAKE_VULKAN_H

#include <vulkan/vulkan_core.h>

#include "common/driver.h"

enum fake_kind {
	FAKE_INSTANCE,
	FAKE_DEVICE,
	FAKE_BUFFER,
	FAKE_MEMORY,
	FAKE_POOL,
	FAKE_COMMANDS,
	FAKE_FENCE,
	FAKE_SEMAPHORE,
	FAKE_IMAGE,
	FAKE_KINDS
};

/* A modifier that the device has; it lists each modifier for every format. */
struct fake_modifier {
	uint64_t modifier;
	uint32_t compression;	/* planes of it in memory, besides the format's */
	bool no_copy;		/* not a source of copies */
	bool no_import;
};

struct fake_physical {
	const char *name;
	uint32_t version;
	const char *extensions[16];	/* up to the first NULL */
	uint8_t uuid;			/* its first byte */
	uint32_t pci;			/* the bus, 0010:BUS:03.1 */
	int primary, render;		/* minors of DRM nodes; 0: none */
	bool address;			/* has bufferDeviceAddress */
	bool no_import;
	bool no_import_with_address;
	bool dedicated_only;
	bool prefers_dedicated;
	bool no_compute;
	bool sync_fd_in, sync_fd_out;	/* semaphores: into them, out of them */
	uint64_t granularity;		/* of memory requirements */
	uint64_t prefetch;		/* bytes that it reads ahead, as V3DV does */
	bool one_address;		/* ANV: a dma-buf has an address, or none */
	bool apart;			/* imports are copies of the dma-buf */
	uint32_t buffer_types, fd_types; /* of the eight memory types */
	uint32_t full_types;		/* whose heap is full, for imports too, as ANV's */
	uint64_t max_buffer;		/* with VK_KHR_maintenance4 */
	VkDriverId driver;
	struct fake_modifier modifiers[12]; /* with the extension */
	unsigned int nmodifiers;
	bool no_planar;			/* lists them and makes no such image */
	bool image_dedicated_only;
	bool image_prefers_dedicated;
	bool own_pitch;			/* NVK: another one ends the process */
	bool no_offset;			/* NVK, Honeykrisp: it is ignored */
	bool no_pitch;			/* VeriSilicon, Honeykrisp */
	bool tells_no_offset;		/* Turnip: which it follows */
	bool tells_first;		/* lavapipe: of all planes what the first has */
	bool no_memory;			/* ANV's word for a pitch that it cannot read */
	uint32_t max_image;		/* texels, each way */
	uint32_t image_types;		/* as buffer_types */
	uint64_t copy_align;
	bool timeline;			/* has timeline semaphores */
	bool timeline_out, memory_out;	/* as OPAQUE_FD */
	bool dma_buf_out;		/* memory, as memfds in place of dma-bufs */
	bool shared_dedicated_only;
	bool host_memory;		/* of the types 2 on only 5 is local */
	uint32_t queues;		/* of the family that computes; 0: 1 */
};

/* The memory of an image, and its copies. */
struct fake_image {
	VkFormat format;
	uint32_t width, height;
	uint64_t modifier;
	uint32_t nlayouts;
	VkSubresourceLayout layouts[4];
	uint64_t bound;			/* where in the memory */
	uint32_t nregions;
	VkBufferImageCopy regions[4];
};

struct fake_vulkan {
	DRIVER;
	/* The machine to be. */
	uint32_t loader_version;	/* 0: no vkEnumerateInstanceVersion */
	unsigned int nphysical;
	struct fake_physical physical[4];
	const char *without;		/* this function there is not */
	bool busy;			/* done with nothing before a wait */
	bool no_fd;			/* vkGetSemaphoreFdKHR gives -1 */
	bool sync_files;		/* SYNC_FDs are sync_files, by vgem */
	unsigned int export_blocks;	/* number of SYNC_FDs that wait for their work */
	bool export_early;		/* a SYNC_FD that does not wait for it */
	bool export_late;		/* one that does not signal with it */
	bool threaded;			/* a device made now works by itself */
	uint64_t shrinks;		/* its shared memory is so much smaller */

	/* Counts of the double. */
	unsigned int submits, waits, drains;
	unsigned int imports, exports;	/* of semaphores */
	unsigned int semaphores_in, semaphores_out; /* of the last submit */
	unsigned int barriers;		/* of its command buffer */
	VkBufferMemoryBarrier barrier;	/* the last that was submitted */
	VkPipelineStageFlags src_stage, dst_stage;
	VkQueue queue;			/* of the last submit */
	unsigned int copies, signals;	/* of buffers; from the host */
	uint32_t api_version;		/* of the last instance */
	uint32_t enabled;		/* extensions of the last device */
	bool address_enabled;
	struct fake_image images[4];	/* since nimages was set to 0 */
	unsigned int nimages;
	VkImageMemoryBarrier image_barriers[2]; /* of the last image: first, last */
	uint32_t memory_type;		/* of the last allocation */
	bool dedicated, address_memory;
	/* Makes the device execute the work that is ready. */
	void (*run)(void);
};

/* The one there is; all zero but for one able device after a reset. */
typedef struct fake_vulkan *(*fake_vulkan_fn)(bool reset);

#endif /* FAKE_VULKAN_H */
