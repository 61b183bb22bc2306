// SPDX-License-Identifier: MIT
/* Acquire and release on a stream. */
#include <errno.h>
#include <stdio.h>

#include "../dmabuf/fence.h"
#include "queue.h"

static bool is_no_order(const struct queue_device *dev, const void *handle)
{
	return handle && handle == dev->ops->no_order;
}

int queue_stream(struct dlbuf_device *base, void *handle, bool ends)
{
	struct queue_device *dev = queue_device_of(base);
	struct queue_scope scope;
	void *stream;
	int ret;

	if (is_no_order(dev, handle))
		return STREAM_UNORDERED;
	ret = queue_enter(dev, &scope);
	if (!ret) {
		ret = queue_find_stream(dev, handle, ends, &stream);
		queue_leave(dev, &scope);
	}
	/*
	 * A lost device does not refuse the stream: the access ends, and release() returns the
	 * error.
	 */
	return ends && __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE) ? 0 : ret;
}

int queue_begin_on(struct queue_memory *m, uint32_t access, void *stream, int fence)
{
	/* The flush must run after the fence's work, and no stream can flush. */
	if (m->flushes)
		return fence == -1 ? m->dev->ops->flush(m->dev) : -EAGAIN;
	if (m->copied || m->passes)
		return queue_access_begin(m, access, stream, fence);
	return m->synced ? queue_cpu_begin(m, access, stream, fence) :
			   queue_wait_fence(m->dev, stream, fence);
}

int queue_acquire(struct import *imp, uint32_t access, void *handle, int fence)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	void *stream;
	int ret;

	if (is_no_order(m->dev, handle))
		return !m->copied ? 0 :
		       fail(-EINVAL, "%s: a copy is made on a stream, and this handle "
			    "is none", m->dev->base.name);
	/* The usual case needs no driver call. */
	if (fence == -1 && !m->copied && !m->passes && !m->flushes)
		return m->synced ? queue_cpu_begin(m, access, NULL, -1) : 0;
	ret = queue_enter(m->dev, &scope);
	if (ret)
		return ret;
	ret = queue_find_stream(m->dev, handle, false, &stream);
	if (!ret)
		ret = queue_begin_on(m, access, stream, fence);
	queue_leave(m->dev, &scope);
	return ret;
}

/* Puts the end of an access on the stream. *out is a fence of the bridge's copy back, or -1. */
static int end_use(struct queue_use *use, void *stream, int *out)
{
	struct queue_memory *m = use->m;
	bool writes = m->copied && use->access & DLBUF_WRITE;
	int ret = 0;

	if (writes)
		ret = queue_copy_out(m, stream, out);
	else if (m->passes)
		ret = queue_access_end(m, stream);
	else if (m->synced)
		ret = queue_cpu_end(m, use->access, stream);
	use->copies = writes && m->buffer && *out != -1;
	return ret;
}

int queue_end_on(struct queue_use *uses, uint32_t n, uint32_t nworks, void *stream, int *fence,
		 int *end)
{
	struct queue_device *dev = uses->m->dev;
	bool shares = false;
	int out = -1, ret = 0, err;

	for (uint32_t i = 0; i < n; i++) {
		err = end_use(&uses[i], stream, &out);
		ret = ret ? ret : err;
		shares |= uses[i].m->buffer && uses[i].access & DLBUF_WRITE;
	}
	/* If the bridge made the copy, -1 means that the copy is complete. */
	if (!ret && fence && !shares)
		ret = dev->gives_fences ? dev->ops->export_fence(dev, stream, &out) :
					  queue_bridge_out(dev, NULL, stream, &out);
	/* Adds the work also after a failure, because the stream may have it already. */
	err = queue_work_add_all(uses, nworks, stream, 0, ret ? NULL : end);
	if (ret)
		dev->ops->finish(dev, stream);
	if (!ret && fence)
		*fence = out;
	else if (out != -1)
		close(out);
	return ret ? ret : err;
}

/* The caller waits for its own work; this waits for the library's copy. */
static int release_unordered(struct queue_memory *m, uint32_t access)
{
	struct queue_device *dev = m->dev;
	struct queue_work *begun;
	int ret;

	pthread_mutex_lock(&m->order_lock);
	begun = queue_work_ref(dev, m->begun);
	pthread_mutex_unlock(&m->order_lock);
	ret = queue_work_end(dev, begun);
	if (ret)
		queue_set_unsure(dev);
	return ret || !(access & DLBUF_WRITE) ? ret :
	       fail(-EINVAL, "%s: a copy is written back on a stream, and this handle "
		    "is none", dev->base.name);
}

static int release(struct queue_memory *m, uint32_t access, void *handle,
		   int *fence, int *end)
{
	struct queue_use use = { m, access, false };
	char why[160];
	void *stream;
	bool lost;
	int ret;

	if (is_no_order(m->dev, handle))
		return release_unordered(m, access);
	ret = queue_find_stream(m->dev, handle, true, &stream);
	if (!ret)
		return queue_end_on(&use, 1, 1, stream, fence, end);
	if (m->passes)
		queue_access_over(m);
	if (__atomic_load_n(&m->dev->lost, __ATOMIC_ACQUIRE))
		return ret;
	/*
	 * The core checks streams before a release, so this call comes from the deletion of a
	 * tensor.
	 */
	snprintf(why, sizeof(why), "%s", dlbuf_last_error());
	lost = m->copied && access & DLBUF_WRITE;
	ret = queue_work_add_all(&use, 1, handle, ret, lost ? NULL : end);
	if (!ret)
		forget_failure();
	/* The core logs the error, and reports it to the lease, which does not wait. */
	return ret || !lost ? ret :
	       fail(-EIO, "%s: a copy is not written back: %s", m->dev->base.name, why);
}

int queue_release(struct import *imp, uint32_t access, void *handle, int *fence,
		  int *end)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	int ret;

	if (fence)
		*fence = -1;
	if (is_no_order(m->dev, handle) && !m->copied)
		return 0;
	/* The caller's fence is then an eventfd, and the lease can wait for it too. */
	if (imp->release_sync == DLBUF_SYNC_EVENT) {
		end = fence;
		fence = NULL;
	}
	ret = queue_enter(m->dev, &scope);
	if (!ret) {
		ret = release(m, access, handle, fence, end);
		queue_leave(m->dev, &scope);
	} else {
		queue_set_unsure(m->dev);
		if (m->passes)
			queue_access_over(m);
	}
	if (m->copied)
		queue_access_over(m);
	return ret;
}

int queue_wait(struct import *imp, uint32_t access, uint64_t deadline_ns)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	int ret;

	ret = queue_enter(m->dev, &scope);
	if (ret)
		return ret;
	ret = queue_work_wait(m, access, deadline_ns);
	queue_leave(m->dev, &scope);
	return ret;
}

int queue_pending(struct import *imp, uint32_t access, int *fd)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	int ret;

	ret = queue_enter(m->dev, &scope);
	if (ret)
		return ret;
	ret = queue_work_watch(m, access, fd);
	queue_leave(m->dev, &scope);
	return ret;
}

int queue_drain(struct dlbuf_device *base, uint64_t deadline_ns)
{
	struct queue_device *dev = queue_device_of(base);
	struct timespec pause = PAUSE_FIRST;
	struct queue_scope scope;
	int ret;

	ret = queue_enter(dev, &scope);
	if (ret)
		return ret;
	ret = queue_work_drain(dev, deadline_ns);
	queue_leave(dev, &scope);
	if (!ret)
		ret = queue_poll_end(dev);
	/* The application may destroy the context after this call. */
	while (!ret && (!queue_finish_ended(dev) || queue_gate_frees(dev))) {
		ret = event_turn();
		if (!ret && !pause_until(&pause, deadline_ns))
			ret = fail(-ETIME, "%s: a stream was not idle at the deadline",
				   base->name);
	}
	if (!ret && dev->ops->drained)
		dev->ops->drained(dev);
	return ret;
}
