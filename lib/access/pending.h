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

#include "../dmabuf/fence.h"
#include "../import/import.h"

/* An intended access to a dma-buf. */
struct use {
	int fd;
	uint32_t access;
	const struct buffer_id *id;	/* NULL: identified if that is needed */
	struct import *imp;		/* its import by the device that waits, or NULL */
};

/*
 * Adds a use to the list, or its access to the use that the list has of the same import; of
 * the same dma-buf, if one has no import; or of the same fd, if one has no id.
 */
void use_add(struct use uses[], uint32_t *n, struct use use);

/* Conditions of a wait. For a plain wait all fields are 0, and fence is -1. */
struct wait {
	struct dlbuf_device *dev;	/* will use the buffers; NULL: another program */
	int fence;		/* the caller's sync_file, borrowed, or -1 */
	uint64_t deadline_ns;	/* CLOCK_MONOTONIC, 0: none */
	bool damaged;		/* accept fences that ended with an error */
	bool here;		/* this thread waits, also if the device could */
	bool own;		/* also for dev's own work without a fence, on any stream */
};

/*
 * Orders work of wait->dev after all pending work that conflicts with the uses. For a
 * device that waits by itself, and for another program, *fence is a new sync_file of this
 * work, or -1 if nothing is pending. For other devices, and on a kernel without sync_file,
 * the call waits, and *fence is -1. fence NULL: the user waits for the fences; the call
 * waits only for work without a fence.
 * -ETIME  the deadline passed
 * -EIO    a fence ended with an error, or the kernel failed
 * -EBADF  wait->fence is not open
 */
int pending_before(const struct use *uses, uint32_t n, const struct wait *wait,
		   int *fence);

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

/*
 * Notes that work without a fence did not write all of its bytes. With more than 256
 * buffers the oldest note is dropped. The caller may hold locks of a device.
 */
void pending_failed(const struct buffer_id *id);

/*
 * Reports it once, after a wait for that work: 0, or -EIO with the error text. If there is
 * none, this is one load. id may be NULL.
 */
int pending_report(int fd, const struct buffer_id *id);

/*
 * Adds the fence of work, borrowed, to a dma-buf, so that other users wait for it. If
 * the kernel cannot add it, waits for it. -1: the work is complete. id may be NULL.
 */
int pending_after(int fd, const struct buffer_id *id, uint32_t access, int fence);

/*
 * Whether an acquire without a deadline looks at the fences before START. START waits for
 * them, but reports no error, and the kernel removes them. A look costs as much as the
 * bracket, and most dma-bufs never have a fence. So only these acquires look: the first
 * QUIET_LOOKS of an import, and as many after one that had to wait; the next one after this
 * process added a writer's fence; and one in 64 of the others.
 */
#define QUIET_LOOKS 32
#define QUIET_ACQUIRES 63
static inline bool pending_may_wait(struct import *imp)
{
	uint32_t n = __atomic_load_n(&imp->unlooked, __ATOMIC_RELAXED);

	if (!n || fences_count(&imp->id) !=
	    __atomic_load_n(&imp->added, __ATOMIC_RELAXED))
		return true;
	__atomic_store_n(&imp->unlooked, n - 1, __ATOMIC_RELAXED);
	return false;
}

#endif /* DLBUF_LIB_PENDING_H */
