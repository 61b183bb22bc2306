// SPDX-License-Identifier: MIT
/* Finds pending work on dma-bufs, waits for it, and adds fences of new work. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/fence.h>

#include "../dmabuf/fence.h"
#include "../import/backend.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "pending.h"

static int check_error(int fence, const struct wait *wait)
{
	return wait->damaged || fence == -1 ? 0 : fence_check(fence);
}

static bool same_use(const struct use *a, const struct use *b)
{
	if (a->imp && b->imp)
		return a->imp == b->imp;
	return a->id && b->id ? buffer_same(a->id, b->id) : a->fd == b->fd;
}

void use_add(struct use uses[], uint32_t *n, struct use use)
{
	uint32_t i = 0;

	while (i < *n && !same_use(&uses[i], &use))
		i++;
	if (i == *n)
		uses[(*n)++] = use;
	uses[i].access |= use.access;
}

/*
 * Merges `fence` (taken) into `*sum` unless it has signalled. `*sum` starts as -1. A
 * merged fence does not have the error of one that signalled before.
 */
static int add_fence(int *sum, int fence, const struct wait *wait)
{
	int ret = fence_signalled(fence), both = -1;

	if (!ret && *sum == -1) {
		*sum = fence;
		return 0;
	}
	if (!ret)
		ret = dlbuf_fence_merge(*sum, fence, &both);
	if (lacks_room(ret)) {
		forget_failure();
		ret = dlbuf_fence_wait(fence, wait->deadline_ns);
		ret = ret ? ret : 1;
	}
	if (ret > 0)
		ret = check_error(fence, wait);
	if (both != -1) {
		ret = check_error(*sum, wait);
		if (!ret)
			ret = check_error(fence, wait);
		close(*sum);
		*sum = both;
	}
	if (fence != -1)
		close(fence);
	return ret;
}

static int add_buffer(int *sum, const struct use *use, const struct wait *wait)
{
	int fence, ret;

	/* Most buffers are idle: one poll() shows it. */
	ret = fence_buffer_idle(use->fd, use->access);
	if (ret)
		return ret < 0 ? ret : 0;
	ret = dlbuf_fence_export(use->fd, use->access, &fence);
	if (!ret)
		return add_fence(sum, fence, wait);
	if (ret != -EOPNOTSUPP && !lacks_room(ret))
		return ret;
	/* A kernel without sync_file, or no fd for one: the calling thread waits instead. */
	forget_failure();
	ret = fence_wait_buffer(use->fd, use->access, wait->deadline_ns, false);
	return ret < 0 ? ret : 0;
}

static int add_callers(int *sum, const struct wait *wait)
{
	int dup = sys_dup(wait->fence), ret;

	/* No fd is left. pending_before() reports the fence's error. */
	if (dup < 0)
		return dlbuf_fence_wait(wait->fence, wait->deadline_ns);
	/* Checks again, because a thread may have replaced the number since the first check. */
	ret = fence_check_file(dup);
	if (!ret)
		return add_fence(sum, dup, wait);
	close(dup);
	return ret;
}

/* ---------------------------------------------------------------- no fences */

/* All imports of a buffer by one device. */
struct found {
	struct import *few[8], **all;
	size_t n;
};

static int find_imports(struct found *f, struct dlbuf_device *dev,
			const struct buffer_id *id)
{
	size_t room = ARRAY_SIZE(f->few), n;

	f->all = f->few;
	for (;;) {
		n = cache_find_all(&dev->cache, id, f->all, room);
		f->n = n < room ? n : room;
		if (n <= room)
			return 0;
		/* Tries again with more room: a buffer has one import per access and path. */
		while (f->n)
			cache_unref(f->all[--f->n]);
		if (f->all != f->few)
			free(f->all);
		room = 2 * n;
		f->all = sys_calloc(room, sizeof(*f->all));
		if (!f->all)
			return -ENOMEM;
	}
}

static int each_of_device(struct dlbuf_device *dev, const struct buffer_id *id,
			  pending_fn fn, void *data)
{
	struct found f;
	int ret = find_imports(&f, dev, id);

	if (ret)
		return ret;
	for (size_t i = 0; i < f.n; i++) {
		if (!ret && import_gives_event(f.all[i]))
			ret = fn(f.all[i], data);
		cache_unref(f.all[i]);
	}
	if (f.all != f.few)
		free(f.all);
	return ret;
}

int pending_each_unfenced(const struct use *use, const struct dlbuf_device *but,
			  pending_fn fn, void *data)
{
	const struct buffer_id *id = use->id;
	struct dlbuf_device *dev = NULL;
	struct buffer_id own;
	int ret = 0;

	if (!devices_unfenced())
		return 0;
	if (!id) {
		ret = buffer_identify(use->fd, &own);
		id = &own;
	}
	while (!ret && (dev = device_next(dev)))
		if (dev != but && dev->backend->wait)
			ret = each_of_device(dev, id, fn, data);
	if (dev)
		device_unref(dev);
	return ret;
}

struct until {
	uint32_t access;
	uint64_t deadline_ns;
};

static int wait_for_import(struct import *imp, void *data)
{
	const struct until *u = data;

	return imp->dev->backend->wait(imp, u->access, u->deadline_ns);
}

int pending_wait_unfenced(const struct use *use, const struct dlbuf_device *but,
			  uint64_t deadline_ns)
{
	struct until u = { use->access, deadline_ns };

	return pending_each_unfenced(use, but, wait_for_import, &u);
}

/* ---------------------------------------------------------------- failed work */

static struct {
	pthread_mutex_t lock;
	unsigned int n;		/* entries; atomic */
	unsigned int next;
	struct buffer_id at[256];	/* access is 0: no entry */
} unfinished = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* An entry counts as a device without fences, so that every acquire looks for failed work. */
static void count(int n)
{
	__atomic_add_fetch(&unfinished.n, n, __ATOMIC_RELEASE);
	__atomic_add_fetch(&devices_nunfenced, n, __ATOMIC_RELEASE);
}

static void forked(enum fork_side side)
{
	if (side != FORK_CHILD)
		return;
	pthread_mutex_init(&unfinished.lock, NULL);
	unfinished.n = 0;
	memset(unfinished.at, 0, sizeof(unfinished.at));
}

static struct fork_handler fork_handler = { .fn = forked };

static bool is_noted(const struct buffer_id *f, const struct buffer_id *id)
{
	return buffer_same(f, id) && f->access;
}

void pending_failed(const struct buffer_id *id)
{
	struct buffer_id *f = unfinished.at;

	fork_handle(&fork_handler);
	pthread_mutex_lock(&unfinished.lock);
	while (f < unfinished.at + ARRAY_SIZE(unfinished.at) && !is_noted(f, id))
		f++;
	if (f == unfinished.at + ARRAY_SIZE(unfinished.at))
		f = &unfinished.at[unfinished.next++ % ARRAY_SIZE(unfinished.at)];
	count(!f->access);
	*f = *id;
	pthread_mutex_unlock(&unfinished.lock);
}

int pending_report(int fd, const struct buffer_id *id)
{
	struct buffer_id own;
	bool any = false;

	if (!__atomic_load_n(&unfinished.n, __ATOMIC_ACQUIRE) ||
	    (!id && buffer_identify(fd, &own)))
		return 0;
	id = id ? id : &own;
	pthread_mutex_lock(&unfinished.lock);
	for (size_t i = 0; i < ARRAY_SIZE(unfinished.at); i++) {
		struct buffer_id *f = &unfinished.at[i];

		if (is_noted(f, id)) {
			any = true;
			f->access = 0;
			count(-1);
		}
	}
	pthread_mutex_unlock(&unfinished.lock);
	return any ? fail(-EIO, "a device was lost, or a simulation ended before it was "
			  "done with the buffer: its work is not complete") : 0;
}

/* ---------------------------------------------------------------- before, after */

/*
 * Merges the fences that conflict with the uses, and wait->fence, into one sync_file: *out
 * is new, or -1.
 */
static int collect(const struct use *uses, uint32_t n, const struct wait *wait, int *out)
{
	int sum = -1, ret = 0;

	for (uint32_t i = 0; !ret && i < n; i++)
		ret = add_buffer(&sum, &uses[i], wait);
	if (!ret && wait->fence != -1)
		ret = add_callers(&sum, wait);
	if (!ret)
		*out = sum;
	else if (sum != -1)
		close(sum);
	return ret;
}

static int wait_for_use(const struct use *use, const struct wait *wait)
{
	struct import *imp = use->imp;
	uint32_t added = imp ? fences_count(use->id) : 0, quiet;
	int ret = fence_wait_buffer(use->fd, use->access, wait->deadline_ns,
				    wait->damaged);

	if (imp && ret >= 0) {
		quiet = ret ? 0 : __atomic_load_n(&imp->quiet, __ATOMIC_RELAXED) + 1;
		__atomic_store_n(&imp->added, added, __ATOMIC_RELAXED);
		__atomic_store_n(&imp->quiet, quiet, __ATOMIC_RELAXED);
		__atomic_store_n(&imp->unlooked, quiet < QUIET_LOOKS ? 0 :
				 QUIET_ACQUIRES, __ATOMIC_RELAXED);
	}
	return ret < 0 ? ret : 0;
}

/* Waits on the calling thread, for a device that cannot wait. */
static int wait_here(const struct use *uses, uint32_t n, const struct wait *wait)
{
	int ret = dlbuf_fence_wait(wait->fence, wait->deadline_ns);

	if (!ret)
		ret = check_error(wait->fence, wait);
	for (uint32_t i = 0; !ret && i < n; i++)
		ret = wait_for_use(&uses[i], wait);
	return ret;
}

int pending_before(const struct use *uses, uint32_t n, const struct wait *wait,
		   int *fence)
{
	struct dlbuf_device *dev = wait->dev;
	bool waits = dev && (wait->here || dev->acquire_sync != DLBUF_SYNC_FENCE);
	int out = -1, ret = 0;

	for (uint32_t i = 0; !ret && i < n; i++) {
		if (dev && dev->backend->look && uses[i].imp)
			dev->backend->look(uses[i].imp);
		/* Failed work counts as a device without fences. */
		if (!devices_unfenced())
			continue;
		ret = pending_wait_unfenced(&uses[i], wait->own ? NULL : dev,
					    wait->deadline_ns);
		/* A device that waits for the fences by itself reports its own failed work. */
		if (!ret && (fence || !dev) && pending_report(uses[i].fd, uses[i].id) &&
		    !wait->damaged)
			ret = -EIO;
	}
	if (!ret && fence)
		ret = waits ? wait_here(uses, n, wait) : collect(uses, n, wait, &out);
	if (!ret)
		ret = check_error(wait->fence, wait);
	if (!ret && fence)
		*fence = out;
	else if (out != -1)
		close(out);
	return ret;
}

int pending_after(int fd, const struct buffer_id *id, uint32_t access, int fence)
{
	int ret;

	if (fence == -1)
		return 0;
	ret = fence_import(fd, id, access, fence);
	if (!ret)
		return 0;
	/* The dma-buf cannot have the fence, so this thread waits for it. */
	if (ret == -EOPNOTSUPP) {
		forget_failure();
		ret = 0;
	}
	dlbuf_fence_wait(fence, 0);
	return ret;
}
