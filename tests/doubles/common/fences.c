// SPDX-License-Identifier: MIT
/* See fences.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fences.h"
#include "objects.h"
#include "vgem.h"

/* The double's end of a fence; the fence, or -1 without room for it. */
static int keep_end(int fence, int end, uint32_t number, struct teller *t)
{
	*t = (struct teller){ fcntl(end, F_DUPFD_CLOEXEC, 3), number };
	if (t->fd >= 0)
		return fence;
	if (fence >= 0)
		close(fence);
	return -1;
}

static int eventfd_new(bool over, struct teller *t)
{
	int fd = eventfd(over, EFD_CLOEXEC);

	return over ? fd : keep_end(fd, fd, 0, t);
}

/* A vgem node for each, so that closing it is all there is to do. */
static int sync_file_new(bool over, struct teller *t)
{
	int drm = vgem_open(), fd = -1;
	uint32_t fence = 0;

	if (drm >= 0 && vgem_fence_create(drm, &fence, &fd))
		fd = -1;
	if (fd >= 0 && over)
		vgem_fence_signal(drm, fence);
	else if (fd >= 0)
		fd = keep_end(fd, drm, fence, t);
	if (drm >= 0)
		close(drm);
	return fd;
}

int fence_new(bool plain, bool over, struct teller *t)
{
	return plain ? eventfd_new(over, t) : sync_file_new(over, t);
}

/* A vgem fence signals by itself after ten seconds; then ETIMEDOUT is no error here. */
void fence_tell(struct teller *t)
{
	uint64_t one = 1;
	int ret;

	if (t->fd < 0)
		return;
	ret = t->fence ? vgem_fence_signal(t->fd, t->fence) :
			 (int)write(t->fd, &one, sizeof(one));
	if (close(t->fd) || (ret < 0 && errno != ETIMEDOUT))
		wrong("a sync_file of ours was closed by somebody else");
	t->fd = -1;
}

bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}
