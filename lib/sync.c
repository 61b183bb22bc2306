// SPDX-License-Identifier: MIT
/* Acquire and release, up to the backend. */
#include <errno.h>

#include <dlbuf/sync.h>

#include "backend.h"
#include "internal.h"
#include "tensor.h"

int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
		  void *stream, const struct dlbuf_acquire_opts *opts)
{
	const struct backend *backend;
	struct dlbuf_acquire_opts o;
	struct tensor *t;
	uint32_t free = 0;
	int ret;

	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = OPTS_GET(&o, opts, "dlbuf_acquire_opts");
	if (ret)
		return ret;
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	if (access & ~t->imp->id.access)
		return fail(-EACCES, "the tensor is %s",
			    t->imp->id.access & DLBUF_READ ? "read-only" :
			    "write-only");
	backend = t->imp->dev->backend;
	if (stream && !backend->streams)
		return fail(-EINVAL, "device %s has no streams",
			    t->imp->dev->name);
	if (!__atomic_compare_exchange_n(&t->acquired, &free, access, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return fail(-EBUSY, "the tensor is acquired already: release "
			    "it, or share it for a second user");
	ret = backend->acquire(t->imp, access, stream, o.deadline_ns);
	if (ret)
		__atomic_store_n(&t->acquired, 0, __ATOMIC_RELEASE);
	else
		t->stream = stream;
	return ret;
}

int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream, int *fence)
{
	const struct backend *backend;
	struct tensor *t;
	uint32_t access;
	int ret, out = -1;

	ret = tensor_of(tensor, &t);
	if (ret)
		return ret;
	backend = t->imp->dev->backend;
	if (stream && !backend->streams)
		return fail(-EINVAL, "device %s has no streams",
			    t->imp->dev->name);
	access = __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL);
	if (!access)
		return fail(-EINVAL, "the tensor is not acquired");
	ret = backend->release(t->imp, access, stream, fence ? &out : NULL);
	if (!ret && fence)
		*fence = out;
	return ret;
}
