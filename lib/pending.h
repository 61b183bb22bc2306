/* SPDX-License-Identifier: MIT */
/*
 * Pending work on dma-bufs: the fences of the kernel, and work of this process that has
 * no fence. All code that waits before it uses a buffer, or adds a fence after it, calls
 * these functions.
 */
#ifndef DLBUF_LIB_PENDING_H
#define DLBUF_LIB_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "import.h"

/* An intended access to a dma-buf. */
struct use {
	int fd;
	uint32_t access;
	const struct buffer_id *id;	/* NULL: the function identifies the buffer if it needs to */
};

/* Conditions of a wait. For a plain wait all fields are 0, and fence is -1. */
struct wait {
	int fence;		/* the caller's sync_file, borrowed, or -1 */
	uint64_t deadline_ns;	/* CLOCK_MONOTONIC, 0: none */
	bool damaged;		/* accept fences that ended with an error */
};

/*
 * Orders work of dev after all pending work that conflicts with the uses. For a device
 * that waits by itself, *fence is a new sync_file, or -1 if nothing is pending. For
 * other devices the call waits, and *fence is -1; it leaves the fences of the dma-bufs
 * to the backend if backend->waits_implicitly.
 * -ETIME  the deadline passed
 * -EIO    a fence ended with an error, or the kernel failed
 * -EBADF  wait->fence is not open
 */
int pending_before(struct dlbuf_device *dev, const struct use *uses, uint32_t n,
		   const struct wait *wait, int *fence);

/*
 * Calls backend->acquire() with a deadline, after pending_before(), for a backend with
 * waits_implicitly. Starts a thread.
 * -ETIME  the deadline passed, and fences that were added meanwhile are pending
 */
int bounded_acquire(struct import *imp, uint32_t access, uint64_t deadline_ns);

/*
 * Calls fn for each import of a dma-buf by a device whose work has no fences, up to the
 * first error. Leaves out the device `but`, which may be NULL. If the process has no
 * such device, this is one load.
 */
typedef int (*pending_fn)(struct import *imp, void *data);
int pending_each_unfenced(const struct use *use, const struct dlbuf_device *but,
			  pending_fn fn, void *data);

/* Waits for the work of such devices on a dma-buf. */
int pending_wait_unfenced(const struct use *use, const struct dlbuf_device *but,
			  uint64_t deadline_ns);

/* Whether a release of the import gives an eventfd and no sync_file. */
static inline bool pending_is_event(const struct import *imp)
{
	return imp->release_sync == DLBUF_SYNC_EVENT;
}

/*
 * Adds the fence of work, borrowed, to a dma-buf, so that other users wait for it. If
 * the kernel cannot add it, waits for it. -1: the work is complete.
 */
int pending_after(int fd, uint32_t access, int fence);

#endif /* DLBUF_LIB_PENDING_H */
