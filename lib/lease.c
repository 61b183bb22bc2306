// SPDX-License-Identifier: MIT
/* Leases: the release callback of a frame, which fires once. */
#include <errno.h>
#include <unistd.h>

#include <dlbuf/fence.h>

#include "event.h"
#include "internal.h"
#include "lease.h"
#include "sys.h"

struct lease *lease_create(size_t room)
{
	struct lease *lease = sys_calloc(1, sizeof(*lease) + room);

	if (lease)
		lease->refs = 1;
	return lease;
}

void lease_ref(struct lease *lease)
{
	__atomic_add_fetch(&lease->refs, 1, __ATOMIC_RELAXED);
}

void lease_unref(struct lease *lease)
{
	if (!lease || __atomic_sub_fetch(&lease->refs, 1, __ATOMIC_ACQ_REL))
		return;
	NOT_CANCELLED;
	if (lease->release)
		lease->release(lease->data);
	free(lease);
}

static void signalled(void *lease)
{
	lease_unref(lease);
}

/* After no event could be made. */
static void wait_here(int fence)
{
	log_at(DLBUF_LOG_INFO, "a lease waits for a fence: %s",
	       dlbuf_last_error());
	dlbuf_fence_wait(fence, 0);
}

void lease_hold_take(struct lease *lease, int fence)
{
	if (fence == -1)
		return;
	if (lease) {
		lease_ref(lease);
		if (!event_add_take(fence, signalled, lease))
			return;
		wait_here(fence);
		lease_unref(lease);
	}
	close(fence);
}

void lease_hold(struct lease *lease, int fence)
{
	int dup;

	if (!lease || fence == -1)
		return;
	dup = sys_dup(fence);
	if (dup >= 0) {
		lease_hold_take(lease, dup);
		return;
	}
	fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fence);
	wait_here(fence);
}
