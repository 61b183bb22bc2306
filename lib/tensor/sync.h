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
int tensor_release(struct tensor *t, uint32_t access, const struct access_stream *stream, int *out);

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

/* Asks the device about the caller's stream: -EINVAL, -EBUSY, or STREAM_UNORDERED. */
int sync_no_streams(const struct dlbuf_device *dev) __attribute__((cold));
static inline int sync_check_stream(const struct tensor *t, void *handle, bool ends,
				    struct access_stream *stream)
{
	struct dlbuf_device *dev = t->imp->dev;

	stream->handle = handle;
	stream->asked = false;
	if (dev->backend->stream) {
		NOT_CANCELLED;
		return dev->backend->stream(dev, stream, ends);
	}
	return handle ? sync_no_streams(dev) : 0;
}

/*
 * Marks the tensor as acquired on this stream, which is kept. -EBUSY: it is already.
 * sync_drop() ends this, if the access has not begun.
 */
int sync_set_acquired(struct tensor *t, uint32_t access, void *stream);
void sync_drop(struct tensor *t);

/*
 * The only way to wait before a use: for dlbuf_acquire(), and for all others that use
 * buffers. pending_before() for the uses, and the errors of earlier waits of n tensors,
 * which are reported once: -EIO, before the wait if they are known. Each call reports the
 * error of a frame's fence.
 */
int sync_wait(DLManagedTensorVersioned *const tensors[], size_t n,
	      const struct use *uses, uint32_t nuses, const struct wait *wait,
	      int *fence);

/*
 * After a call of the device that has to wait for *fence: whether to call again without the
 * fence, because the device could not wait for it, and this thread has. The second call
 * needs no fd or memory for the wait.
 */
bool sync_waited(int *ret, int *fence, const struct wait *wait);
static inline bool sync_again(int *ret, int *fence, const struct wait *wait)
{
	return *fence != -1 && (*ret == -EAGAIN || lacks_room(*ret)) &&
	       sync_waited(ret, fence, wait);
}

/*
 * After accesses have begun, or have failed with ret: takes the fence that the device waits
 * for. The next call of each tensor, and its lease, report the fence's error. Returns ret, or
 * -EIO: no fd was left, this thread has waited, and the fence has failed.
 */
int sync_follow(DLManagedTensorVersioned *const tensors[], size_t n, int ret, int fence,
		const struct wait *wait);
static inline int sync_begun(DLManagedTensorVersioned *const tensors[], size_t n, int ret,
			     int fence, const struct wait *wait)
{
	return fence == -1 ? ret : sync_follow(tensors, n, ret, fence, wait);
}

/*
 * together.c, for tensors with t->together. together_check() checks that one call may
 * release n tensors of the bracket (-EINVAL, -EBUSY); `fence` is not NULL if the caller
 * wants a fence. together_release() is tensor_release(): the last tensor ends the
 * bracket.
 */
int together_check(const struct tensor *t, unsigned int n, const void *stream,
		   bool fence);
int together_release(struct tensor *t, uint32_t access, const struct access_stream *stream,
		     int *out);

/* After an access: lets the backend drop the stream `kept`, which may be NULL. */
void sync_drop_stream(const struct tensor *t, void *kept);

/* Calls the backend's acquire(), after pending_before(), which gave `fence`. */
int sync_begin(struct import *imp, uint32_t access, const struct access_stream *stream, int fence,
	       const struct dlbuf_acquire_opts *o);

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

static inline struct wait sync_wait_of(struct dlbuf_device *dev,
				       const struct dlbuf_acquire_opts *o)
{
	return (struct wait){
		.dev = dev,
		.fence = o->fence ? o->fence : -1,
		.deadline_ns = o->deadline_ns,
		.damaged = o->flags & DLBUF_ACQUIRE_DAMAGED,
	};
}

#endif /* DLBUF_LIB_SYNC_H */
