/* SPDX-License-Identifier: MIT */
/* Leases call the release callback of a frame, once. */
#ifndef DLBUF_LIB_LEASE_H
#define DLBUF_LIB_LEASE_H

#include <stddef.h>

#include <dlbuf/dlpack.h>
#include <dlbuf/frame.h>

struct dlbuf_device;

/*
 * A lease is shared by the tensors of a frame. It fires, and calls the callback, when
 * the last tensor is deleted and all fences given to lease_hold() have signalled. The
 * structs of the tensors are in `room`, so a frame is one allocation.
 */
struct lease {
	unsigned int refs;	/* atomic */
	unsigned int generation;	/* fork_generation when the lease was made */
	void (*release)(void *data);	/* or NULL */
	void *data;
	int before;	/* the frame's fence, owned; 0: none. dma-bufs do not keep its error */
	int behind;	/* atomic; the fence of lease_follow(), owned; 0: none */
	int error;	/* atomic; the first error of the work, for dlbuf_lease_result() */
	_Alignas(8) unsigned char room[];
};

/*
 * Makes a lease without a callback, with one reference and `room` zeroed bytes. NULL:
 * no memory; the error text is set.
 */
struct lease *lease_create(size_t room);

void lease_ref(struct lease *lease);

/* Notes an error of the work that the lease waits for. lease may be NULL. */
void lease_failed(struct lease *lease, int err);

/* Drops a reference. The last one fires the lease. NULL does nothing. */
void lease_unref(struct lease *lease);

/*
 * Delays the lease until the fence has signalled: adds an event, or if that fails waits
 * for the fence. fence is borrowed; -1: none. lease may be NULL. dev is the device whose
 * work signals the fence, for event_awaits().
 */
void lease_hold(struct lease *lease, int fence, const struct dlbuf_device *dev);

/* The same; fence is taken, so the event needs no new fd. */
void lease_hold_take(struct lease *lease, int fence,
		     const struct dlbuf_device *dev);

/*
 * The device waits for this fence before the work that the lease waits for: the lease gets
 * the fence's error. A fence that is still pending when the lease fires means that the device
 * is lost and has not waited: then the lease's error is -EIO. fence is borrowed; -1: none. If
 * no fd is free, the error is not noticed. lease may be NULL.
 */
void lease_follow(struct lease *lease, int fence);

/*
 * If the frame has a shared lease, takes a reference of it, and sets the frame's release
 * callback so that it drops the reference. frame is the core's copy. If the caller fails
 * after this, it must drop frame->lease.
 * -EINVAL  the frame also has a release callback
 * -ESTALE  the lease belongs to the parent process
 */
int lease_share(struct dlbuf_frame *frame);

/*
 * For Python's garbage collector: points to the number of users of a tensor's lease,
 * which are tensors and events. Atomic; valid until the lease's callback has returned.
 * NULL: the tensor has no lease.
 */
const unsigned int *tensor_lease_users(const DLManagedTensorVersioned *tensor);

#endif /* DLBUF_LIB_LEASE_H */
