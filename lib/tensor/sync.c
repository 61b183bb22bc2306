// SPDX-License-Identifier: MIT
/* Acquire and release of one tensor. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <dlbuf/fence.h>
#include <dlbuf/sync.h>

#include "../access/lease.h"
#include "../access/pending.h"
#include "../import/backend.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "sync.h"
#include "tensor.h"

/* START was interrupted, or the exporter is busy: tries again until the deadline. */
__attribute__((noinline))
static int begin_again(struct import *imp, uint32_t access, const struct access_stream *stream,
		       const struct dlbuf_acquire_opts *o)
{
	NOT_CANCELLED;
	const struct wait wait = sync_wait_of(imp->dev, o);
	struct timespec pause = PAUSE_FIRST;
	int ret;

	for (int i = 1; o->deadline_ns || i < BRACKET_TRIES; i++) {
		ret = fence_wait_buffer(imp->fd, access, wait.deadline_ns,
					wait.damaged);
		if (ret >= 0)
			ret = imp->dev->backend->acquire(imp, access, stream, -1);
		if (ret != -EAGAIN)
			return ret;
		if (!pause_until(&pause, wait.deadline_ns))
			return fail(-ETIME, "%s: DMA_BUF_IOCTL_SYNC START gave "
				    "EINTR or EAGAIN until the deadline",
				    imp->dev->name);
	}
	return fail(-EIO, "%s: DMA_BUF_IOCTL_SYNC START gave EINTR or EAGAIN %d "
		    "times", imp->dev->name, BRACKET_TRIES);
}

static inline int begin_now(struct import *imp, uint32_t access, const struct access_stream *stream,
			    int fence, const struct dlbuf_acquire_opts *o)
{
	const struct backend *backend = imp->dev->backend;
	int ret = backend->acquire(imp, access, stream, fence);

	return ret == -EAGAIN && backend->waits_implicitly ?
	       begin_again(imp, access, stream, o) : ret;
}

int sync_begin(struct import *imp, uint32_t access, const struct access_stream *stream, int fence,
	       const struct dlbuf_acquire_opts *o)
{
	return begin_now(imp, access, stream, fence, o);
}

/*
 * Takes the fence if it has signalled, or also a pending one with in_any_case. -1: there is none.
 */
static int before_take(struct tensor *t, bool in_any_case)
{
	int fence = __atomic_exchange_n(&t->before, 0, __ATOMIC_ACQ_REL);

	if (!fence)
		return -1;
	if (in_any_case || fence_signalled(fence))
		return fence;
	fence_join_at(&t->before, fence);
	return -1;
}

/* Reports the error once. ret: this error, if it has been reported, or another one. */
static int report_before(struct tensor *t, int ret, bool damaged)
{
	/* With `damaged` a pending fence is dropped too: its error is accepted in advance. */
	int fence = !ret || ret == -EIO ? before_take(t, damaged && !ret) : -1;

	if (fence != -1) {
		if (!ret && !damaged)
			ret = fence_check(fence);
		close(fence);
	}
	return ret || damaged || !t->lease || !t->lease->unreported.frame ? ret :
	       fence_check(t->lease->unreported.frame);
}

static inline int report_all(DLManagedTensorVersioned *const tensors[], size_t n, int ret,
			     bool damaged)
{
	for (size_t i = 0; i < n; i++)
		if (before_any(tensor_at(tensors, i)))
			ret = report_before(tensor_at(tensors, i), ret, damaged);
	return ret;
}

int sync_wait(DLManagedTensorVersioned *const tensors[], size_t n,
	      const struct use *uses, uint32_t nuses, const struct wait *wait,
	      int *fence)
{
	/* Reports once before the wait, and once the fences that failed during it. */
	int ret = report_all(tensors, n, 0, wait->damaged);

	if (ret)
		return ret;
	ret = pending_before(uses, nuses, wait, fence);
	ret = report_all(tensors, n, ret, wait->damaged);
	if (ret && fence && *fence != -1) {
		close(*fence);
		*fence = -1;
	}
	return ret;
}

static int wait_itself(int fence, const struct wait *wait)
{
	int ret = dlbuf_fence_wait(fence, wait->deadline_ns);

	return ret || wait->damaged ? ret : fence_check(fence);
}

__attribute__((noinline))
bool sync_waited(int *ret, int *fence, const struct wait *wait)
{
	NOT_CANCELLED;
	forget_failure();
	*ret = wait_itself(*fence, wait);
	close(*fence);
	*fence = -1;
	return !*ret;
}

int sync_follow(DLManagedTensorVersioned *const tensors[], size_t n, int ret, int fence,
		const struct wait *wait)
{
	for (size_t i = 0; i < n && fence != -1 && !ret && !wait->damaged; i++) {
		struct tensor *t = tensor_at(tensors, i);
		int its = i + 1 < n ? sys_dup(fence) : fence;

		if (!i || t->lease != tensor_at(tensors, i - 1)->lease)
			lease_follow(t->lease, fence);
		if (its < 0) {
			ret = wait_itself(fence, &(struct wait){ .dev = wait->dev });
			continue;
		}
		fence_join_at(&t->before, its);
		fence = i + 1 < n ? fence : -1;
	}
	if (fence != -1)
		close(fence);
	return ret;
}

/*
 * Begins an access that may have to wait for fences. Not inline, so that the usual case
 * of dlbuf_acquire() needs less stack.
 */
__attribute__((noinline))
static int begin_after(struct tensor *t, uint32_t access, const struct access_stream *stream,
		       const struct dlbuf_acquire_opts *o)
{
	NOT_CANCELLED;
	struct import *imp = t->imp;
	DLManagedTensorVersioned *tensor = &t->versioned;
	const struct use use = sync_use(imp, access);
	const struct wait wait = sync_wait_of(imp->dev, o);
	int fence = -1, ret;

	ret = sync_wait(&tensor, 1, &use, 1, &wait, &fence);
	if (ret)
		return ret;
	do
		ret = sync_begin(imp, access, stream, fence, o);
	while (sync_again(&ret, &fence, &wait));
	return sync_begun(&tensor, 1, ret, fence, &wait);
}

static inline int begin(struct tensor *t, uint32_t access, const struct access_stream *stream,
			bool ordered, const struct dlbuf_acquire_opts *o)
{
	if (!ordered || (sync_backend_waits(t->imp->dev, o) && !sync_looks(t, NULL)))
		return begin_now(t->imp, access, stream, -1, o);
	return begin_after(t, access, stream, o);
}

int sync_no_streams(const struct dlbuf_device *dev)
{
	return fail(-EINVAL, "device %s has no streams", dev->name);
}

/* Only devices with queues have streams that must be kept. */
#ifdef CONFIG_QUEUE
#define KEPT(stream) (stream)
#else
#define KEPT(stream) ((void *)NULL)
#endif

/* Not inline: the CPU has no streams. */
__attribute__((noinline))
static int keep_stream(struct tensor *t)
{
	struct dlbuf_device *dev = t->imp->dev;
	int ret = dev->backend->keep ? dev->backend->keep(dev, t->stream) : 0;

	if (ret)
		__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
	return ret;
}

int sync_set_acquired(struct tensor *t, uint32_t access, void *stream)
{
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&t->acquired, &none, access, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return fail(-EBUSY, "the tensor is acquired already: release it, or "
			    "share it for a second user");
	t->stream = stream;
	t->by_fence = false;
	return KEPT(stream) ? keep_stream(t) : 0;
}

void sync_drop_stream(const struct tensor *t, void *kept)
{
	struct dlbuf_device *dev = t->imp->dev;

	if (KEPT(kept) && dev->backend->drop)
		dev->backend->drop(dev, kept);
}

void sync_drop(struct tensor *t)
{
	sync_drop_stream(t, t->stream);
	__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
}

int sync_opts_get(const struct dlbuf_acquire_opts *opts,
		  struct dlbuf_acquire_opts *o)
{
	int ret = OPTS_GET(o, opts, "dlbuf_acquire_opts");

	if (!ret && o->flags & ~DLBUF_ACQUIRE_DAMAGED)
		ret = unknown_flags("acquire", o->flags & ~DLBUF_ACQUIRE_DAMAGED);
	if (!ret && o->fence && o->fence != -1)
		ret = fence_check_file(o->fence);
	return ret;
}

int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
		  void *stream, const struct dlbuf_acquire_opts *opts)
{
	static const struct dlbuf_acquire_opts none;
	const struct dlbuf_acquire_opts *o = &none;
	struct dlbuf_acquire_opts given;
	struct access_stream on;
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
	ret = tensor_check_access(t, access);
	if (!ret)
		ret = order = sync_check_stream(t, stream, false, &on);
	if (ret >= 0)
		ret = sync_set_acquired(t, access, stream);
	if (ret)
		return ret;
	do
		ret = begin(t, access, &on, order != STREAM_UNORDERED, o);
	while (ret && device_relieve(ret, &tried));
	if (ret)
		sync_drop(t);
	return ret;
}

static inline int release_now(struct tensor *t, uint32_t access, const struct access_stream *stream,
			      int *out)
{
	struct dlbuf_device *dev = t->imp->dev;
	bool event = import_gives_event(t->imp);
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
		ret = pending_after(t->imp->fd, &t->imp->id, access, fence);
	/* If the fence may signal early, the lease waits for the device's own event. */
	if (end != -1)
		lease_hold_take(t->lease, end, dev);
	if (ret || !out) {
		if (fence != -1)
			lease_hold_take(end != -1 ? NULL : t->lease, fence, dev);
		lease_failed(t->lease, ret);
		return ret;
	}
	if (end == -1)
		lease_hold(t->lease, fence, dev);
	*out = fence;
	return 0;
}

/* Not inline: only this case pays for the cancellation state. */
__attribute__((noinline))
static int release_whole(struct tensor *t, uint32_t access, const struct access_stream *stream,
			 int *out)
{
	NOT_CANCELLED;
	return release_now(t, access, stream, out);
}

static inline int release(struct tensor *t, uint32_t access, const struct access_stream *stream,
			  int *out)
{
	if (t->together)
		return together_release(t, access, stream, out);
	/* On the CPU only the bracket is called, which is not a cancellation point. */
	return t->imp->dev->backend->waits_implicitly ?
	       release_now(t, access, stream, out) :
	       release_whole(t, access, stream, out);
}

int tensor_release_before(struct tensor *t, int *out)
{
	NOT_CANCELLED;
	int fence = __atomic_exchange_n(&t->before, 0, __ATOMIC_ACQ_REL);
	int ret = 0, dup;

	/* The last of several tensors has ended the access already. */
	if (!fence)
		return 0;
	if (fence_signalled(fence)) {
		lease_failed(t->lease, fence_error(fence));
		ret = fence_check(fence);
		close(fence);
		return ret;
	}
	/* The caller's fence reports the error, unless it is an eventfd. */
	dup = out && *out != -1 && !import_gives_event(t->imp) ? sys_dup(fence) : -1;
	if (dup != -1)
		*out = fence_join(*out, dup);
	fence_join_at(&t->before, fence);
	return 0;
}

__attribute__((noinline))
static int release_reported(struct tensor *t, uint32_t access, const struct access_stream *stream,
			    int *out)
{
	NOT_CANCELLED;
	int fence = -1, ret = release(t, access, stream, out ? &fence : NULL);

	if (!ret)
		ret = tensor_release_before(t, out ? &fence : NULL);
	if (!ret && out)
		*out = fence;
	else if (fence != -1)
		lease_hold_take(NULL, fence, NULL);
	return ret;
}

int tensor_released(struct tensor *t, uint32_t access, int ret, int fence)
{
	if (!ret)
		ret = pending_after(t->imp->fd, &t->imp->id, access, fence);
	lease_hold(t->lease, fence, t->imp->dev);
	lease_failed(t->lease, ret);
	return ret;
}

int tensor_release(struct tensor *t, uint32_t access, const struct access_stream *stream, int *out)
{
	return __atomic_load_n(&t->before, __ATOMIC_RELAXED) ?
	       release_reported(t, access, stream, out) :
	       release(t, access, stream, out);
}

__attribute__((noinline))
static int release_kept(struct tensor *t, uint32_t access, const struct access_stream *stream,
			int *fence, void *kept)
{
	int ret = tensor_release(t, access, stream, fence);

	sync_drop_stream(t, kept);
	return ret;
}

int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream, int *fence)
{
	struct access_stream on;
	struct tensor *t;
	uint32_t access;
	void *kept;
	int ret;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = sync_check_stream(t, stream, true, &on);
	if (ret >= 0 && t->together)
		ret = together_check(t, 1, stream, fence);
	if (ret < 0)
		return ret;
	kept = t->stream;
	access = __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL);
	if (!access)
		return fail(-EINVAL, "the tensor is not acquired");
	return KEPT(kept) ? release_kept(t, access, &on, fence, kept) :
		      tensor_release(t, access, &on, fence);
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
	struct wait wait = { .fence = -1 };
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
		ret = tensor_check_access(t, access);
	if (!ret)
		ret = sync_set_acquired(t, access, NULL);
	if (ret)
		return ret;
	t->by_fence = true;
	wait.dev = t->imp->dev;
	use = sync_use(t->imp, access);
	do
		ret = sync_wait(&tensor, 1, &use, 1, &wait, &out);
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
	void *kept;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_fences(t);
	/* Checks the fence first, because a wrong fd must not end the access. */
	if (!ret)
		ret = dlbuf_fence_merge(fence, fence, &both);
	if (ret)
		return ret;
	kept = t->stream;
	access = __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL);
	if (!access) {
		if (both != -1)
			close(both);
		return fail(-EINVAL, "the tensor is not acquired");
	}
	ret = pending_after(t->imp->fd, &t->imp->id, access, both);
	/* A merged fence does not have the error of a fence that signalled before. */
	lease_failed(t->lease, fence_error(fence));
	lease_hold_take(t->lease, both, t->imp->dev);
	/* Other tensors of the bracket may have work on the stream. */
	if (t->together)
		last = tensor_release(t, access, &(struct access_stream){ .handle = kept }, NULL);
	sync_drop_stream(t, kept);
	return ret ? ret : last;
}
