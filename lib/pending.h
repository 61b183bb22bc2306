/* SPDX-License-Identifier: MIT */
/*
 * Work that is pending on dma-bufs: sync_files of the kernel, and work of this
 * process that has none. Everything that waits before it uses a buffer, or tells
 * others to wait after it, does so here.
 */
#ifndef DLBUF_LIB_PENDING_H
#define DLBUF_LIB_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "import.h"

/* A dma-buf that somebody is about to use. */
struct use {
	int fd;
	uint32_t access;
	const struct buffer_id *id;	/* NULL: looked up where it matters */
};

/* Conditions of a wait. Zero with fence -1 is a plain wait. */
struct wait {
	int fence;		/* a sync_file of the caller's, borrowed, or -1 */
	uint64_t deadline_ns;	/* CLOCK_MONOTONIC, 0: none */
	bool damaged;		/* a fence that ended with an error will do */
};

/*
 * Orders work of dev after everything pending that the uses have to wait for. On
 * a device that waits by itself *fence is a new sync_file, or -1 where nothing is
 * pending. On others this waits, and *fence is -1; for the fences of the dma-bufs
 * only where dev->backend does not.
 * -ETIME  the deadline passed
 * -EIO    a fence ended with an error, or the kernel failed
 * -EBADF  wait->fence is not open
 */
int pending_before(struct dlbuf_device *dev, const struct use *uses, uint32_t n,
		   const struct wait *wait, int *fence);

/*
 * backend->acquire() on a device that waits by itself, after pending_before(), with
 * an end: -ETIME when the deadline has passed and fences are pending that came
 * meanwhile. Costs a thread.
 */
int bounded_acquire(struct import *imp, uint32_t access, uint64_t deadline_ns);

/*
 * Calls fn for each import of a dma-buf whose work has no fence, of devices other
 * than `but`, which may be NULL, up to the first error. Without such devices this
 * is one load.
 */
typedef int (*pending_fn)(struct import *imp, void *data);
int pending_each_unfenced(const struct use *use, const struct dlbuf_device *but,
			  pending_fn fn, void *data);

/* Waits for the work of this process on them. */
int pending_wait_unfenced(const struct use *use, const struct dlbuf_device *but,
			  uint64_t deadline_ns);

/* Whether a release of the import gives an event and no fence. */
static inline bool pending_is_event(const struct import *imp)
{
	return imp->release_sync == DLBUF_SYNC_EVENT;
}

/*
 * Puts the fence of work, borrowed, on a dma-buf, so that others wait for it.
 * Waits for it where the dma-buf cannot take it. -1 is complete work.
 */
int pending_after(int fd, uint32_t access, int fence);

#endif /* DLBUF_LIB_PENDING_H */
