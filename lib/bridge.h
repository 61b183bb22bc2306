/* SPDX-License-Identifier: MIT */
/*
 * The bridge: a Vulkan device that brings dma-bufs and fences to an API of the
 * same GPU that takes neither, by objects which both can share (OPAQUE_FD).
 * Vulkan's half of it; the other API's is that backend's.
 *
 * Everything here may be called from any thread. Errors are as for the device:
 * -ENODEV, -EOPNOTSUPP, -ENOMEM, -EIO, with a sentence.
 */
#ifndef DLBUF_LIB_BRIDGE_H
#define DLBUF_LIB_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

struct bridge;

/* What a bridge can do; asked of the driver when it is opened. */
struct bridge_caps {
	bool buffers;		/* dma-bufs in, memory out as OPAQUE_FD */
	bool fences_in;		/* a sync_file to a timeline's value */
	bool fences_out;	/* a timeline's value to a sync_file */
	char why_not[256];	/* the sentence behind the first that it cannot */
};

/*
 * Opens the Vulkan device whose deviceUUID is uuid, with an instance, a device
 * and a queue of its own. *out is new. -ENODEV: no Vulkan, or no device of that
 * UUID; -EOPNOTSUPP: it can do none of the three.
 */
int bridge_open(const uint8_t uuid[16], struct bridge **out,
		       struct bridge_caps *caps);

/* Its links and buffers are gone already, and with them what was under way. */
void bridge_close(struct bridge *bridge);

/*
 * A timeline semaphore that both sides know. One use of it is one value: the
 * side that signals it signals `value`, the other waits for that.
 *
 * A link is handed out only when all of its earlier values have been reached,
 * because values of a timeline have to be signalled in order, and several
 * streams may be under way at once.
 */
struct bridge_link {
	uint64_t value;		/* of this use */
	/*
	 * Of a new link the semaphore as an OPAQUE_FD, which the caller takes
	 * (to give it to the other API) and replaces by -1; else -1.
	 */
	int fd;
	void *user;		/* the caller's, kept with the link; NULL at first */
	bool theirs;		/* the caller's: the other API signals this value */
};

/* A link for one use, whose value is one more than the last. */
int bridge_link_get(struct bridge *bridge, struct bridge_link **out);

/*
 * Gives a link back after both sides were told to signal and to wait. It is
 * handed out again when its value has been reached.
 */
void bridge_link_put(struct bridge *bridge, struct bridge_link *link);

/*
 * Gives a link back whose value nobody will signal: signals it from the host,
 * so that no waiter is left behind.
 */
void bridge_link_abandon(struct bridge *bridge,
			 struct bridge_link *link);

/*
 * The other API signals nothing any more: what it was to signal of links that
 * were given back is signalled from the host.
 */
void bridge_links_abandon(struct bridge *bridge);

/*
 * Destroys all links after their values were reached, waiting for those; calls
 * fn for each first, for its user part. At the end, after the buffers and
 * before the close.
 */
void bridge_links_free(struct bridge *bridge,
		       void (*fn)(struct bridge_link *link, void *data),
		       void *data);

/* A dma-buf, and memory of as many bytes that the other API can share. */
struct bridge_buffer;

/*
 * Imports a dma-buf, borrowed (the driver is given a duplicate), and allocates
 * memory on the device for a copy of it. *fd is new: that memory as an
 * OPAQUE_FD, of *allocated bytes (the allocation's size, at least `bytes`, which
 * the importing API has to be told), dedicated says whether it is a dedicated
 * allocation.
 */
int bridge_buffer_create(struct bridge *bridge, int dma_buf,
				uint64_t bytes,
				struct bridge_buffer **out, int *fd,
				uint64_t *allocated, bool *dedicated);

/* Waits for its copies. */
void bridge_buffer_destroy(struct bridge_buffer *buffer);

/*
 * Submits: after fence (a sync_file, borrowed; -1: at once), copy the dma-buf
 * into the memory, then signal link's value. Acquires the dma-buf from the
 * foreign queue family and releases it again; the memory goes to the external
 * family for the other API. buffer NULL: no copy, only the fence becomes the
 * value. Does not block. On failure nothing was submitted and the value will
 * not be signalled. Without caps.fences_in fence has to be -1.
 */
int bridge_in(struct bridge *bridge,
		     struct bridge_buffer *buffer, int fence,
		     struct bridge_link *link);

/*
 * Submits: after link's value, which the other API has been told to signal,
 * copy the memory back into the dma-buf. *fence is a new sync_file of that, or
 * -1 when it is complete. buffer NULL: no copy, the value becomes a fence.
 * Does not block where caps.fences_out; else waits for the end (and *fence is
 * -1). On failure nothing is under way.
 */
int bridge_out(struct bridge *bridge,
		      struct bridge_buffer *buffer,
		      struct bridge_link *link, int *fence);

#endif /* DLBUF_LIB_BRIDGE_H */
