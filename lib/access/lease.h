/* SPDX-License-Identifier: MIT */
/* Leases call the release callback of a frame, once. */
#ifndef DLBUF_LIB_LEASE_H
#define DLBUF_LIB_LEASE_H

#include <stddef.h>

#include <dlbuf/dlpack.h>
#include <dlbuf/frame.h>

struct dlbuf_device;

/*
 * Errors that are not reported yet. The kernel removes a fence that has signalled from its
 * dma-bufs, and the error with it. So a waiter keeps a duplicate of the fence:
 *
 * - tensor.before has the fences that its accesses wait for, and those that dlbuf_pending()
 *   has returned. The next call of the tensor reports their error, once. The tensor's end
 *   gives the error to the lease, or without a lease to the log
 * - `frame` is the frame's own fence. Each acquire reports its error
 * - `work` has the fences of all accesses, see lease_follow()
 * - `error` is the first error of the work, and at the end of the two fences. The end reports
 *   it: dlbuf_lease_result()
 */
struct unreported {
	int frame;	/* a sync_file, owned; 0: none */
	int work;	/* the same; atomic */
	int error;	/* atomic */
};

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
	struct unreported unreported;
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
