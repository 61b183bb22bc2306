// SPDX-License-Identifier: MIT
/* Leases: see lease.h. */
#include <errno.h>
#include <unistd.h>

#include <dlbuf/fence.h>

#include "../dmabuf/fence.h"
#include "../system/event.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "lease.h"

struct lease *lease_create(size_t room)
{
	struct lease *lease = sys_calloc(1, sizeof(*lease) + room);

	if (!lease)
		return NULL;
	lease->refs = 1;
	lease->generation = fork_generation;
	return lease;
}

void lease_ref(struct lease *lease)
{
	__atomic_add_fetch(&lease->refs, 1, __ATOMIC_RELAXED);
}

void lease_failed(struct lease *lease, int err)
{
	int none = 0;

	if (lease && err)
		__atomic_compare_exchange_n(&lease->unreported.error, &none, err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/*
 * The result of the lease whose callback this thread runs. error.c gives the reason for
 * the TLS model.
 */
#ifdef __GLIBC__
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local int result;

int dlbuf_lease_result(void)
{
	return result;
}

/* Not inline, so that a tensor without a lease costs less. */
__attribute__((noinline))
static void end_lease(struct lease *lease)
{
	NOT_CANCELLED;
	int outer = result;

	if (lease->unreported.frame) {
		lease_failed(lease, fence_error(lease->unreported.frame));
		close(lease->unreported.frame);
	}
	if (lease->unreported.work) {
		lease_failed(lease, fence_signalled(lease->unreported.work) ?
			     fence_error(lease->unreported.work) : -EIO);
		close(lease->unreported.work);
	}
	if (lease->release && lease->generation == fork_generation) {
		result = lease->unreported.error;
		lease->release(lease->data);
		result = outer;
	}
}

static void end_and_free(struct lease *lease)
{
	/* Without a callback and without fences there is nothing to report. */
	if (lease->unreported.frame || lease->unreported.work || lease->release)
		end_lease(lease);
	free(lease);
}

void lease_unref(struct lease *lease)
{
	if (lease && !__atomic_sub_fetch(&lease->refs, 1, __ATOMIC_ACQ_REL))
		end_and_free(lease);
}

static void ended(int fence, void *lease)
{
	lease_failed(lease, fence_error(fence));
}

static void signalled(void *lease)
{
	lease_unref(lease);
}

/* No event could be made: waits for the fence. */
static void wait_for_lease(struct lease *lease, int fence)
{
	log_at(DLBUF_LOG_INFO, "a lease waits for a fence: %s",
	       dlbuf_last_error());
	dlbuf_fence_wait(fence, 0);
	lease_failed(lease, fence_error(fence));
}

void lease_hold_take(struct lease *lease, int fence,
		     const struct dlbuf_device *dev)
{
	if (fence == -1)
		return;
	if (lease) {
		lease_ref(lease);
		if (!event_add_take(fence, signalled, lease, dev, ended))
			return;
		wait_for_lease(lease, fence);
		lease_unref(lease);
	}
	close(fence);
}

void lease_hold(struct lease *lease, int fence, const struct dlbuf_device *dev)
{
	int dup;

	if (!lease || fence == -1)
		return;
	dup = sys_dup(fence);
	if (dup >= 0) {
		lease_hold_take(lease, dup, dev);
		return;
	}
	fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fence);
	wait_for_lease(lease, fence);
}

void lease_follow(struct lease *lease, int fence)
{
	int dup = lease && fence != -1 ? sys_dup(fence) : -1;

	if (dup >= 0)
		fence_join_at(&lease->unreported.work, dup);
}

/* ---- struct dlbuf_lease, which imports share: a struct lease without room */

int dlbuf_lease_create(void (*release)(void *data), void *data,
		       struct dlbuf_lease **out)
{
	struct lease *lease;

	if (!release || !out)
		return fail(-EINVAL, "%s is NULL", out ? "release" : "lease");
	fork_watch();
	lease = lease_create(0);
	if (!lease)
		return -ENOMEM;
	lease->release = release;
	lease->data = data;
	*out = (struct dlbuf_lease *)lease;
	return 0;
}

void dlbuf_lease_drop(struct dlbuf_lease *lease)
{
	lease_unref((struct lease *)lease);
}

static void drop(void *lease)
{
	lease_failed(lease, result);
	lease_unref(lease);
}

int lease_share(struct dlbuf_frame *f)
{
	struct lease *lease = (struct lease *)f->lease;

	if (!lease)
		return 0;
	if (f->release)
		return fail(-EINVAL, "the frame has both a lease and a release "
			    "callback");
	if (lease->generation != fork_generation)
		return fail(-ESTALE, "the lease belongs to the process that "
			    "forked this one");
	lease_ref(lease);
	f->release = drop;
	f->release_data = lease;
	return 0;
}
