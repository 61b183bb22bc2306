// SPDX-License-Identifier: MIT
/* Acquire and release of one tensor. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <dlbuf/fence.h>
#include <dlbuf/sync.h>

#include "backend.h"
#include "fork.h"
#include "internal.h"
#include "lease.h"
#include "pending.h"
#include "sync.h"
#include "sys.h"
#include "tensor.h"

int sync_begin(struct import *imp, uint32_t access, void *stream, int fence,
	       uint64_t deadline_ns)
{
	const struct backend *backend = imp->dev->backend;

	return backend->waits_implicitly && deadline_ns ?
	       bounded_acquire(imp, access, deadline_ns) :
	       backend->acquire(imp, access, stream, fence);
}

/*
 * Begins an access that may have to wait for fences. Not inline, so that the usual case
 * of dlbuf_acquire() needs less stack.
 */
__attribute__((noinline))
static int begin_after(struct import *imp, uint32_t access, void *stream,
		       const struct dlbuf_acquire_opts *o)
{
	NOT_CANCELLED;
	const struct use use = { imp->fd, access, &imp->id };
	const struct wait wait = sync_wait_of(o);
	int fence, ret;

	ret = pending_before(imp->dev, &use, 1, &wait, &fence);
	if (ret)
		return ret;
	ret = sync_begin(imp, access, stream, fence, wait.deadline_ns);
	if (fence != -1)
		close(fence);
	return ret;
}

static inline int begin(struct import *imp, uint32_t access, void *stream,
		 bool ordered, const struct dlbuf_acquire_opts *o)
{
	const struct backend *backend = imp->dev->backend;

	if (!ordered || sync_backend_waits(imp->dev, o))
		return backend->acquire(imp, access, stream, -1);
	return begin_after(imp, access, stream, o);
}

static int bad_access(const struct tensor *t, uint32_t access)
{
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	return fail(-EACCES, "the tensor is %s", t->imp->id.access & DLBUF_READ ?
		    "read-only" : "write-only");
}

int sync_check_access(const struct tensor *t, uint32_t access)
{
	return access && !(access & ~t->imp->id.access) ? 0 :
	       bad_access(t, access);
}

static int no_streams(const struct dlbuf_device *dev)
{
	return fail(-EINVAL, "device %s has no streams", dev->name);
}

int sync_check_stream(const struct tensor *t, void *stream, bool ends)
{
	struct dlbuf_device *dev = t->imp->dev;

	if (dev->backend->stream)
		return dev->backend->stream(dev, stream, ends);
	return stream ? no_streams(dev) : 0;
}

int sync_set_acquired(struct tensor *t, uint32_t access)
{
	uint32_t none = 0;

	if (__atomic_compare_exchange_n(&t->acquired, &none, access, false,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	return fail(-EBUSY, "the tensor is acquired already: release it, or "
		    "share it for a second user");
}

int sync_opts_get(const struct dlbuf_acquire_opts *opts,
		  struct dlbuf_acquire_opts *o)
{
	int ret = OPTS_GET(o, opts, "dlbuf_acquire_opts");

	if (!ret && o->flags & ~DLBUF_ACQUIRE_DAMAGED)
		ret = unknown_flags("acquire", o->flags & ~DLBUF_ACQUIRE_DAMAGED);
	return ret;
}

int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
		  void *stream, const struct dlbuf_acquire_opts *opts)
{
	static const struct dlbuf_acquire_opts none;
	const struct dlbuf_acquire_opts *o = &none;
	struct dlbuf_acquire_opts given;
	bool tried = false;
	struct tensor *t;
	int ret, order = 0;

	ret = tensor_of(tensor, &t);
	if (!ret && opts) {
		ret = sync_opts_get(opts, &given);
		o = &given;
	}
	if (ret)
		return ret;
	ret = sync_check_access(t, access);
	if (!ret)
		ret = order = sync_check_stream(t, stream, false);
	if (ret >= 0)
		ret = sync_set_acquired(t, access);
	if (ret)
		return ret;
	t->stream = stream;
	t->by_fence = false;
	do
		ret = begin(t->imp, access, stream, order != STREAM_UNORDERED,
			    o);
	while (ret && device_relieve(ret, &tried));
	if (ret)
		__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
	return ret;
}

static inline int release_now(struct tensor *t, uint32_t access, void *stream,
			      int *out)
{
	struct dlbuf_device *dev = t->imp->dev;
	bool event = pending_is_event(t->imp);
	bool asked = out || t->lease || !event;
	int fence = -1, end = -1, ret;

	ret = dev->backend->release(t->imp, access, stream,
				    asked ? &fence : NULL,
				    t->lease ? &end : NULL);
	if (!ret && fence == -1 && end == -1) {
		if (out)
			*out = -1;
		return 0;
	}
	if (!ret && !event)
		ret = pending_after(t->imp->fd, access, fence);
	/* If the fence may signal early, the lease waits for the device's own event. */
	if (end != -1)
		lease_hold_take(t->lease, end, dev);
	if (ret || !out) {
		if (fence != -1)
			lease_hold_take(end != -1 ? NULL : t->lease, fence, dev);
		return ret;
	}
	if (end == -1)
		lease_hold(t->lease, fence, dev);
	*out = fence;
	return 0;
}

/* Not inline: only this case pays for the cancellation state. */
__attribute__((noinline))
static int release_whole(struct tensor *t, uint32_t access, void *stream, int *out)
{
	NOT_CANCELLED;
	return release_now(t, access, stream, out);
}

int tensor_release(struct tensor *t, uint32_t access, void *stream, int *out)
{
	if (t->together)
		return together_release(t, access, stream, out);
	/* On the CPU only the bracket is called, which is not a cancellation point. */
	return t->imp->dev->backend->waits_implicitly ?
	       release_now(t, access, stream, out) :
	       release_whole(t, access, stream, out);
}

int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream, int *fence)
{
	struct tensor *t;
	uint32_t access;
	int ret;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = sync_check_stream(t, stream, true);
	if (ret >= 0 && t->together)
		ret = together_check(t, 1, stream, fence);
	if (ret < 0)
		return ret;
	access = __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL);
	if (!access)
		return fail(-EINVAL, "the tensor is not acquired");
	return tensor_release(t, access, stream, fence);
}

static int check_fences(const struct tensor *t)
{
	/* The import makes the copy of a tiled frame. Other copies are made by acquires. */
	if (PATH_BIT(t->imp->path) & PATHS_COPIED && !t->imp->staging)
		return fail(-EOPNOTSUPP, "the tensor is a copy, which "
			    "dlbuf_acquire() makes");
	if (t->imp->dev->acquire_sync == DLBUF_SYNC_FENCE)
		return 0;
	return fail(-EOPNOTSUPP, "device %s does not wait for fences by itself",
		    t->imp->dev->name);
}

int dlbuf_acquire_fence(DLManagedTensorVersioned *tensor, uint32_t access,
			int *fence)
{
	NOT_CANCELLED;
	const struct wait wait = { .fence = -1 };
	bool tried = false;
	struct tensor *t;
	struct use use;
	int out = -1, ret;

	if (!fence)
		return fail(-EINVAL, "fence is NULL");
	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_fences(t);
	if (!ret)
		ret = sync_check_access(t, access);
	if (!ret)
		ret = sync_set_acquired(t, access);
	if (ret)
		return ret;
	t->stream = NULL;
	t->by_fence = true;
	use = (struct use){ t->imp->fd, access, &t->imp->id };
	do
		ret = pending_before(t->imp->dev, &use, 1, &wait, &out);
	while (device_relieve(ret, &tried));
	if (ret)
		__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
	else
		*fence = out;
	return ret;
}

int dlbuf_release_fence(DLManagedTensorVersioned *tensor, int fence)
{
	NOT_CANCELLED;
	struct tensor *t;
	uint32_t access;
	int both, ret, last = 0;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_fences(t);
	/* Checks the fence first, because a wrong fd must not end the access. */
	if (!ret)
		ret = dlbuf_fence_merge(fence, fence, &both);
	if (ret)
		return ret;
	access = __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL);
	if (!access) {
		if (both != -1)
			close(both);
		return fail(-EINVAL, "the tensor is not acquired");
	}
	ret = pending_after(t->imp->fd, access, both);
	lease_hold_take(t->lease, both, t->imp->dev);
	/* Other tensors of the bracket may have work on the stream. */
	if (t->together)
		last = tensor_release(t, access, t->stream, NULL);
	return ret ? ret : last;
}
