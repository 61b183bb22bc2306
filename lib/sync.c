// SPDX-License-Identifier: MIT
/* Acquire and release: states, fences in and out, leases that wait. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <dlbuf/sync.h>

#include "backend.h"
#include "buffer.h"
#include "event.h"
#include "fence.h"
#include "internal.h"
#include "sync.h"
#include "sys.h"
#include "tensor.h"

/*
 * Takes what is pending of one fence (taken) into the sum, which -1 begins. A
 * signalled one adds nothing.
 */
static int add_fence(int *sum, int fence)
{
	int ret = fence_signalled(fence), both = -1;

	if (ret || *sum == -1) {
		if (!ret)
			*sum = fence;
		else if (fence != -1)
			close(fence);
		return ret < 0 ? ret : 0;
	}
	ret = dlbuf_fence_merge(*sum, fence, &both);
	close(fence);
	if (ret)
		return ret;
	close(*sum);
	*sum = both;
	return 0;
}

/* Takes the dma-buf's fences for an access into the sum. */
static int add_buffer(int *sum, int fd, uint32_t access, uint64_t deadline_ns)
{
	int fence, ret;

	ret = dlbuf_fence_export(fd, access, &fence);
	if (!ret)
		return add_fence(sum, fence);
	if (ret != -EOPNOTSUPP)
		return ret;
	/* A kernel without sync_file: what is left is to block. */
	forget_failure();
	return fence_wait_buffer(fd, access, deadline_ns);
}

/* As one sync_file: the dma-buf's fences for an access, and the caller's. */
static int collect(struct import *imp, uint32_t access, int explicit,
		   uint64_t deadline_ns, int *out)
{
	int sum = -1, ret;

	ret = add_buffer(&sum, imp->fd, access, deadline_ns);
	if (!ret && explicit != -1) {
		int dup = sys_dup(explicit);

		ret = dup < 0 ? fail_errno("fence %d: fcntl(F_DUPFD_CLOEXEC)",
					   explicit) : add_fence(&sum, dup);
	}
	if (ret && sum != -1)
		close(sum);
	if (!ret)
		*out = sum;
	return ret;
}

/* Where the device cannot: the caller waits. */
static int wait_here(struct import *imp, uint32_t access, int explicit,
		     uint64_t deadline_ns)
{
	int ret = dlbuf_fence_wait(explicit, deadline_ns);

	if (ret || (imp->dev->backend->waits_implicitly && !deadline_ns))
		return ret;
	return fence_wait_buffer(imp->fd, access, deadline_ns);
}

static struct {
	pthread_mutex_t lock;
	struct dlbuf_device *first;
	unsigned int n;		/* atomic: without one nobody takes the lock */
} unfenced = { .lock = PTHREAD_MUTEX_INITIALIZER };

void sync_add_device(struct dlbuf_device *dev)
{
	pthread_mutex_lock(&unfenced.lock);
	dev->next = unfenced.first;
	unfenced.first = dev;
	__atomic_add_fetch(&unfenced.n, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&unfenced.lock);
}

void sync_remove_device(struct dlbuf_device *dev)
{
	struct dlbuf_device **p = &unfenced.first;

	pthread_mutex_lock(&unfenced.lock);
	while (*p != dev)
		p = &(*p)->next;
	*p = dev->next;
	__atomic_sub_fetch(&unfenced.n, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&unfenced.lock);
}

/* What was released of it is on no dma-buf. */
static bool gives_events(const struct import *imp)
{
	return imp->release_sync == DLBUF_SYNC_EVENT;
}

#define MAX_UNFENCED 16		/* imports of a buffer: devices times accesses */

/*
 * The last user of an import ends its device, which takes the list's lock: so
 * what was found is given back without it.
 */
int sync_wait_devices(const struct buffer_id *id, const struct dlbuf_device *but,
		      uint32_t access, uint64_t deadline_ns)
{
	struct import *found[MAX_UNFENCED];
	size_t n = 0;
	int ret = 0;

	if (!__atomic_load_n(&unfenced.n, __ATOMIC_ACQUIRE))
		return 0;
	pthread_mutex_lock(&unfenced.lock);
	for (struct dlbuf_device *dev = unfenced.first; dev; dev = dev->next)
		if (dev != but)
			n += cache_find_all(&dev->cache, id, found + n,
					    MAX_UNFENCED - n);
	pthread_mutex_unlock(&unfenced.lock);
	for (size_t i = 0; i < n; i++) {
		if (!ret && gives_events(found[i]))
			ret = found[i]->dev->backend->wait(found[i], access,
							   deadline_ns);
		cache_unref(found[i]);
	}
	return ret;
}

int sync_wait_fd(int fd, uint32_t access, uint64_t deadline_ns)
{
	struct buffer_id id;
	int ret;

	if (!__atomic_load_n(&unfenced.n, __ATOMIC_ACQUIRE))
		return 0;
	ret = buffer_identify(fd, &id);
	return ret ? ret : sync_wait_devices(&id, NULL, access, deadline_ns);
}

static int begin(struct import *imp, uint32_t access, void *stream,
		 bool ordered, const struct dlbuf_acquire_opts *o)
{
	int explicit = o->fence ? o->fence : -1, fence = -1, ret;
	const struct backend *backend = imp->dev->backend;

	if (!ordered)
		return backend->acquire(imp, access, stream, -1);
	ret = sync_wait_devices(&imp->id, imp->dev, access, o->deadline_ns);
	if (ret)
		return ret;
	if (imp->dev->acquire_sync == DLBUF_SYNC_FENCE)
		ret = collect(imp, access, explicit, o->deadline_ns, &fence);
	else
		ret = wait_here(imp, access, explicit, o->deadline_ns);
	if (!ret)
		ret = backend->acquire(imp, access, stream, fence);
	if (fence != -1)
		close(fence);
	return ret;
}

static int check_access(const struct tensor *t, uint32_t access)
{
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	if (access & ~t->imp->id.access)
		return fail(-EACCES, "the tensor is %s",
			    t->imp->id.access & DLBUF_READ ? "read-only" :
			    "write-only");
	return 0;
}

/* May be STREAM_UNORDERED. */
static int check_stream(const struct tensor *t, void *stream, bool ends)
{
	struct dlbuf_device *dev = t->imp->dev;

	if (dev->backend->stream)
		return dev->backend->stream(dev, stream, ends);
	return stream ? fail(-EINVAL, "device %s has no streams", dev->name) : 0;
}

static int set_acquired(struct tensor *t, uint32_t access)
{
	uint32_t none = 0;

	if (__atomic_compare_exchange_n(&t->acquired, &none, access, false,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	return fail(-EBUSY, "the tensor is acquired already: release it, or "
		    "share it for a second user");
}

int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
		  void *stream, const struct dlbuf_acquire_opts *opts)
{
	struct dlbuf_acquire_opts o;
	struct tensor *t;
	int ret, order = 0;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = OPTS_GET(&o, opts, "dlbuf_acquire_opts");
	if (ret)
		return ret;
	if (o.flags)
		return fail(-EINVAL, "acquire flags 0x%x are unknown", o.flags);
	ret = check_access(t, access);
	if (!ret)
		ret = order = check_stream(t, stream, false);
	if (ret >= 0)
		ret = set_acquired(t, access);
	if (ret)
		return ret;
	t->stream = stream;
	ret = begin(t->imp, access, stream, order != STREAM_UNORDERED, &o);
	if (ret)
		__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
	return ret;
}

int sync_before(struct dlbuf_device *dev, const struct sync_use *uses,
		uint32_t n, int *fence)
{
	int sum = -1, ret = 0;

	for (uint32_t i = 0; !ret && i < n; i++)
		ret = dev->acquire_sync == DLBUF_SYNC_FENCE ?
			add_buffer(&sum, uses[i].fd, uses[i].access, 0) :
			fence_wait_buffer(uses[i].fd, uses[i].access, 0);
	if (!ret)
		*fence = sum;
	else if (sum != -1)
		close(sum);
	return ret;
}

static void lease_done(void *lease)
{
	lease_unref(lease);
}

void lease_hold(struct lease *lease, int fence)
{
	if (!lease || fence == -1)
		return;
	__atomic_add_fetch(&lease->refs, 1, __ATOMIC_RELAXED);
	if (!event_add(fence, lease_done, lease))
		return;
	log_at(DLBUF_LOG_INFO, "waiting for a fence: %s", dlbuf_last_error());
	dlbuf_fence_wait(fence, 0);
	lease_unref(lease);
}

/*
 * What every end of an access does with its fence: on the dma-buf with it,
 * for others to wait for. Without the ioctl nobody can, so it is waited for.
 */
static int publish(int fd, uint32_t access, int fence)
{
	int ret;

	if (fence == -1)
		return 0;
	ret = dlbuf_fence_import(fd, access, fence);
	if (ret) {
		if (ret == -EOPNOTSUPP) {
			forget_failure();
			ret = 0;
		}
		dlbuf_fence_wait(fence, 0);
	}
	return ret;
}

void sync_after(const struct sync_use *uses, uint32_t n, int fence)
{
	for (uint32_t i = 0; i < n; i++)
		if (publish(uses[i].fd, uses[i].access, fence))
			log_at(DLBUF_LOG_INFO, "waited for a copy: %s",
			       dlbuf_last_error());
}

int tensor_release(struct tensor *t, uint32_t access, void *stream, int *out)
{
	struct dlbuf_device *dev = t->imp->dev;
	bool asked = out || t->lease || !gives_events(t->imp);
	int fence = -1, end = -1, ret;

	ret = dev->backend->release(t->imp, access, stream,
				    asked ? &fence : NULL,
				    t->lease ? &end : NULL);
	if (!ret && !gives_events(t->imp))
		ret = publish(t->imp->fd, access, fence);
	lease_hold(t->lease, end != -1 ? end : fence);
	if (end != -1)
		close(end);
	if (!ret && out)
		*out = fence;
	else if (fence != -1)
		close(fence);
	return ret;
}

int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream, int *fence)
{
	struct tensor *t;
	uint32_t access;
	int ret;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_stream(t, stream, true);
	if (ret < 0)
		return ret;
	access = __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL);
	if (!access)
		return fail(-EINVAL, "the tensor is not acquired");
	return tensor_release(t, access, stream, fence);
}

static int check_fences(const struct tensor *t)
{
	/* A copy of a frame is made by its import, any other by the acquire. */
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
	struct tensor *t;
	int out = -1, ret;

	if (!fence)
		return fail(-EINVAL, "fence is NULL");
	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_fences(t);
	if (!ret)
		ret = check_access(t, access);
	if (!ret)
		ret = set_acquired(t, access);
	if (ret)
		return ret;
	t->stream = NULL;
	ret = sync_wait_devices(&t->imp->id, t->imp->dev, access, 0);
	if (!ret)
		ret = collect(t->imp, access, -1, 0, &out);
	if (ret)
		__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
	else
		*fence = out;
	return ret;
}

int dlbuf_release_fence(DLManagedTensorVersioned *tensor, int fence)
{
	struct tensor *t;
	uint32_t access;
	int both, ret;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_fences(t);
	/* Looked at before it counts: a wrong fd must not end the access. */
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
	ret = publish(t->imp->fd, access, both);
	lease_hold(t->lease, both);
	if (both != -1)
		close(both);
	return ret;
}
