/* SPDX-License-Identifier: MIT */
/* Leases: the release callback of a frame, which fires once. */
#ifndef DLBUF_LIB_LEASE_H
#define DLBUF_LIB_LEASE_H

#include <stddef.h>

#include <dlbuf/dlpack.h>
#include <dlbuf/frame.h>

struct dlbuf_device;

/*
 * Shared by the tensors over a frame. The callback runs when the last tensor is
 * deleted and the last fence that lease_hold() was given has signalled. The
 * memory of the tensors follows in `room`, so that a frame is one allocation.
 */
struct lease {
	unsigned int refs;	/* atomic */
	unsigned int generation;	/* fork_generation when it was made */
	void (*release)(void *data);	/* or NULL */
	void *data;
	_Alignas(8) unsigned char room[];
};

/*
 * A new lease without a callback, with one reference and zeroed room of so many
 * bytes. NULL with a sentence: no memory.
 */
struct lease *lease_create(size_t room);

void lease_ref(struct lease *lease);

/* One reference less; the last one fires the lease. NULL is nothing. */
void lease_unref(struct lease *lease);

/*
 * Lets the lease fire no earlier than the fence signals: by an event, else by
 * waiting for the fence. fence is borrowed, -1 is none; lease may be NULL. It is
 * a fence of dev's work, see event_awaits().
 */
void lease_hold(struct lease *lease, int fence, const struct dlbuf_device *dev);

/* The same; fence is taken, so that the event needs no new fd. */
void lease_hold_take(struct lease *lease, int fence,
		     const struct dlbuf_device *dev);

/*
 * Makes the shared lease of a frame, if it has one, the frame's release, with a
 * reference that release returns. frame is our own copy. A caller that fails
 * afterwards drops frame->lease.
 * -EINVAL  the frame has a release, too
 * -ESTALE  the lease is the parent's
 */
int lease_share(struct dlbuf_frame *frame);

/*
 * How many users the lease of one of our tensors has: tensors, and work that it
 * waits for. Atomic, peeked, valid until the lease's callback has returned. NULL
 * for a tensor without a lease. For Python's garbage collector.
 */
const unsigned int *tensor_lease_users(const DLManagedTensorVersioned *tensor);

#endif /* DLBUF_LIB_LEASE_H */
