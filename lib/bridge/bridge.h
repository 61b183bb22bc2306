/* SPDX-License-Identifier: MIT */
/*
 * The bridge connects dma-bufs and sync_files to a GPU API that accepts neither
 * (CUDA on most GPUs). A Vulkan device of the same GPU imports them, and shares memory
 * and timeline semaphores with the other API as OPAQUE_FDs. This header is Vulkan's
 * half; the other half is in that API's backend.
 *
 * All functions may be called from any thread. They return -ENODEV, -EOPNOTSUPP,
 * -ENOMEM or -EIO with an error text.
 */
#ifndef DLBUF_LIB_BRIDGE_H
#define DLBUF_LIB_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

struct bridge;

/* The capabilities of a bridge. Queried when it is opened. */
struct bridge_caps {
	bool buffers;		/* imports dma-bufs, exports memory as OPAQUE_FD */
	bool fences_in;		/* makes a timeline's value wait for a sync_file */
	bool fences_out;	/* makes a sync_file of a timeline's value */
	char why_not[256];	/* error text of the first missing capability */
};

/*
 * Opens the Vulkan device whose deviceUUID is uuid, with its own VkInstance, VkDevice
 * and VkQueues. *out is new.
 *
 * uuid is NULL for an API that shares neither UUIDs nor semaphores (HIP). Then the device
 * is found by its PCI address (select.h), without comparing the function number. Memory
 * is shared as dma-bufs, there are no links, and bridge_copy() makes the copies. Only
 * caps->buffers may be true.
 *
 * -ENODEV      no Vulkan, or no device with that UUID
 * -EOPNOTSUPP  the device has none of the three capabilities
 */
int bridge_open(const uint8_t *uuid, uint64_t pci, struct bridge **out,
		struct bridge_caps *caps);

/* The caller has destroyed all buffers and links before. */
void bridge_close(struct bridge *bridge);

/*
 * A link is a timeline semaphore that both APIs have. Each use of a link has the next
 * value: one API signals `value`, the other one waits for it.
 *
 * Values of a timeline must be signalled in order, and several streams may run at the
 * same time. So a link is used again only after its earlier values were reached.
 */
struct bridge_link {
	uint64_t value;		/* for this use */
	/*
	 * A new link has the semaphore as an OPAQUE_FD here. The caller takes it,
	 * for the other API, and sets this to -1. Otherwise -1.
	 */
	int fd;
	void *user;		/* for the caller; NULL in a new link */
	bool theirs;		/* set by the caller: the other API signals this value */
};

/* Gets a link for one use, with the next value. */
int bridge_link_get(struct bridge *bridge, struct bridge_link **out);

/*
 * Gives a link back, after one API was asked to signal the value and the other one to
 * wait for it. The link is used again after its value was reached.
 */
void bridge_link_put(struct bridge *bridge, struct bridge_link *link);

/*
 * Gives a link back whose value will not be signalled. Signals the value on the host,
 * so that every wait ends.
 */
void bridge_link_abandon(struct bridge *bridge,
			 struct bridge_link *link);

/*
 * For a lost device of the other API, which signals nothing any more. Signals on the
 * host the value of every link that this device should have signalled (`theirs`),
 * whether the link was given back or not.
 */
void bridge_links_abandon(struct bridge *bridge);

/*
 * Waits until the values of all links were reached, calls fn for each link, which frees
 * `user`, and destroys the links. Called after the buffers were destroyed and before
 * bridge_close().
 */
void bridge_links_free(struct bridge *bridge,
		       void (*fn)(struct bridge_link *link, void *data),
		       void *data);

/* A dma-buf, and memory for a copy of it that the other API shares. */
struct bridge_buffer;

/*
 * Imports a dma-buf, borrowed, and allocates device memory for a copy of it. *fd is
 * new: that memory as an OPAQUE_FD (without a uuid: as a dma-buf). The API that
 * imports it needs its size, *allocated (at least `bytes`), and whether it is a
 * dedicated allocation.
 */
int bridge_buffer_create(struct bridge *bridge, int dma_buf,
				uint64_t bytes,
				struct bridge_buffer **out, int *fd,
				uint64_t *allocated, bool *dedicated);

/*
 * Copies the dma-buf into the memory (in), or the other way, and waits for the copy.
 * May be called from a host function of the other API's streams.
 */
int bridge_copy(struct bridge_buffer *buffer, bool in);

/* Whether a copy of the buffer runs or waits. Does not wait. */
bool bridge_copies(struct bridge_buffer *buffer);

/* Waits for the buffer's copies, and destroys it. */
void bridge_buffer_destroy(struct bridge_buffer *buffer);

/*
 * Submits a copy of the dma-buf into the memory. It waits for `fence`, a sync_file,
 * borrowed (-1: it does not wait), and signals the link's value after the copy. The
 * submit has the ownership transfers of the dma-buf (foreign queue family) and of the
 * memory (external family). With buffer NULL there is no copy: the value is signalled
 * after the fence. Does not block. After a failure nothing is submitted and the value
 * will not be signalled. Without caps.fences_in the fence must be -1.
 */
int bridge_in(struct bridge *bridge,
		     struct bridge_buffer *buffer, int fence,
		     struct bridge_link *link);

/*
 * Submits a copy of the memory back into the dma-buf, after the link's value, which the
 * other API was asked to signal. *fence is a new sync_file of the copy, or -1 if the
 * copy is complete. With buffer NULL there is no copy: *fence is a sync_file of the
 * value. With caps.fences_out the call does not block; without, it waits for the copy
 * and *fence is -1. After a failure nothing runs.
 */
int bridge_out(struct bridge *bridge,
		      struct bridge_buffer *buffer,
		      struct bridge_link *link, int *fence);

#endif /* DLBUF_LIB_BRIDGE_H */
