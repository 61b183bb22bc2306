/* SPDX-License-Identifier: MIT */
/* The pool of dlbufprepare for tensors of another device than the CPU. */
#ifndef DLBUF_GSTREAMER_POOL_H
#define DLBUF_GSTREAMER_POOL_H

#include <gst/gst.h>

#include <dlbuf/dlbuf.h>

/*
 * A tensor of another device than the CPU, in an output buffer's memory, which the CPU maps. The
 * CPU's access lasts from the end of the work until the buffer is used again, because elements
 * after this one map plain memory and begin none.
 */
struct shared_tensor {
	DLManagedTensorVersioned *on_device, *on_cpu;
	gboolean is_acquired;		/* on_cpu; the element's, which acquires and releases */
};

/* The tensors of a pool. The devices are borrowed until shared_pool_drop(). */
struct shared_kind {
	struct dlbuf_device *dev, *cpu;
	DLDataType dtype;
	int64_t shape[4], strides[4];
	gsize bytes;
};

/*
 * A new pool, which is active and allocates buffers when they are acquired, or NULL. If it cannot
 * allocate one, dlbuf_last_error() of the thread has the reason.
 */
GstBufferPool *shared_pool_new(const struct shared_kind *kind);

/* Takes the pool and sets it to NULL. NULL is nothing. */
void shared_pool_drop(GstBufferPool **pool);

/* The tensor of a pool's buffer, peeked; NULL for other buffers. */
struct shared_tensor *shared_tensor_of(GstBuffer *buffer);

#endif /* DLBUF_GSTREAMER_POOL_H */
