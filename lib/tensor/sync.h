/* SPDX-License-Identifier: MIT */
/* The steps of acquire and release, for one tensor and for several. */
#ifndef DLBUF_LIB_SYNC_H
#define DLBUF_LIB_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/sync.h>

#include "../access/lease.h"
#include "../access/pending.h"
#include "../import/backend.h"
#include "../system/sys.h"
#include "tensor.h"

/*
 * Ends an access, after the caller has cleared t->acquired: calls the device, adds the
 * fence to the dma-buf, and makes the lease wait. out may be NULL, as for
 * dlbuf_release(). If the tensor was acquired together with others, only the last one of
 * them does this.
 */
int tensor_release(struct tensor *t, uint32_t access, void *stream, int *out);

/*
 * Two parts of tensor_release(). tensor_released() has the steps after
 * backend->release_all(), which returned ret and gave `fence`, borrowed.
 * tensor_release_before() reports the error of a fence that the access waited for, if
 * that wait is over. If it is pending, the lease waits for the fence, the next call of
 * the tensor reports its error, and *out, a fence or -1, is merged with it. out may be
 * NULL.
 */
int tensor_released(struct tensor *t, uint32_t access, int ret, int fence);
int tensor_release_before(struct tensor *t, int *out);

/* Checks a caller's options and copies them. */
int sync_opts_get(const struct dlbuf_acquire_opts *opts,
		  struct dlbuf_acquire_opts *ours);

/* Checks the access: -EINVAL, -EACCES. */
int sync_bad_access(const struct tensor *t, uint32_t access)
	__attribute__((cold));
static inline int sync_check_access(const struct tensor *t, uint32_t access)
{
	return access && !(access & ~t->imp->id.access) ? 0 :
	       sync_bad_access(t, access);
}

/* Checks the stream: -EINVAL, -EBUSY, or STREAM_UNORDERED. */
int sync_no_streams(const struct dlbuf_device *dev) __attribute__((cold));
static inline int sync_check_stream(const struct tensor *t, void *stream, bool ends)
{
	struct dlbuf_device *dev = t->imp->dev;

	if (dev->backend->stream) {
		NOT_CANCELLED;
		return dev->backend->stream(dev, stream, ends);
	}
	return stream ? sync_no_streams(dev) : 0;
}

/*
 * Marks the tensor as acquired on this stream, which is kept. -EBUSY: it is already.
 * sync_drop() ends this, if the access has not begun.
 */
int sync_set_acquired(struct tensor *t, uint32_t access, void *stream);
void sync_drop(struct tensor *t);

/*
 * Fences of earlier waits whose errors are not reported yet, in tensor.before.
 * before_check() reports the error of a fence that has signalled (-EIO), and keeps a
 * pending fence; with `damaged` it drops both. Each acquire reports the error of a
 * frame's fence.
 */
int before_check(struct tensor *t, bool damaged);
/* The same after a wait that returned ret, which may be the same error. */
int before_told(struct tensor *t, int ret, bool damaged);
static inline bool before_any(const struct tensor *t)
{
	return __atomic_load_n(&t->before, __ATOMIC_RELAXED) ||
	       (t->lease && t->lease->before);
}

/*
 * pending_before() for n tensors of one device, whose dma-bufs are in `uses`. If a fence
 * in tensor.before has failed, the call ends before it waits (-EIO).
 */
int sync_wait(DLManagedTensorVersioned *const tensors[], size_t n,
	      const struct use *uses, uint32_t nuses, const struct wait *wait,
	      int *fence);

/*
 * together.c, for tensors with t->together. together_check() checks that one call may
 * release n tensors of the bracket (-EINVAL, -EBUSY); `fence` is not NULL if the caller
 * wants a fence. together_release() is tensor_release(): the last tensor ends the
 * bracket.
 */
int together_check(const struct tensor *t, unsigned int n, const void *stream,
		   bool fence);
int together_release(struct tensor *t, uint32_t access, void *stream, int *out);

/* After an access: lets the backend drop the stream `kept`, which may be NULL. */
void sync_drop_stream(const struct tensor *t, void *kept);

/* Calls the backend's acquire(), after pending_before(), which gave `fence`. */
int sync_begin(struct import *imp, uint32_t access, void *stream, int fence,
	       const struct dlbuf_acquire_opts *o);

/*
 * After acquire() of a backend: whether the device cannot wait for the fence, so that
 * this thread has to. After the wait acquire() is called again, which then needs no fd or
 * memory for the wait.
 */
static inline bool sync_waits_here(int ret, int fence)
{
	return ret == -EAGAIN || (fence != -1 && lacks_room(ret));
}

/* Waits for that fence. acquire() can then be called again without it. */
int sync_wait_here(int fence, uint64_t deadline_ns, bool damaged);

/* The usual case on the CPU: the backend waits for all pending fences. */
static inline bool sync_backend_waits(const struct dlbuf_device *dev,
				      const struct dlbuf_acquire_opts *o)
{
	return dev->backend->waits_implicitly && !devices_unfenced() &&
	       !o->deadline_ns && (!o->fence || o->fence == -1);
}

/*
 * Whether the acquire must look at the fences first: START waits for them, but reports
 * no error. asked: with several tensors, the import of the previous one, which is not
 * checked again.
 */
static inline bool sync_looks(const struct tensor *t, const struct import *asked)
{
	return before_any(t) ||
	       (t->imp != asked && pending_may_wait(t->imp));
}

static inline struct use sync_use(struct import *imp, uint32_t access)
{
	return (struct use){ imp->fd, access, &imp->id, imp };
}

static inline struct wait sync_wait_of(const struct dlbuf_acquire_opts *o)
{
	return (struct wait){
		.fence = o->fence ? o->fence : -1,
		.deadline_ns = o->deadline_ns,
		.damaged = o->flags & DLBUF_ACQUIRE_DAMAGED,
	};
}

#endif /* DLBUF_LIB_SYNC_H */
