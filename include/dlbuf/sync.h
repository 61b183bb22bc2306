/* SPDX-License-Identifier: MIT */
/*
 * Acquire and release: the whole of synchronisation.
 *
 *	dlbuf_acquire(t, DLBUF_READ, stream, NULL);
 *	... work on the tensor, on `stream` ...
 *	dlbuf_release(t, stream, NULL);
 *
 * Acquire orders your work after the producers': it waits for the fences of
 * the dma-buf that the access must wait for (a reader for writers, a writer
 * for everybody), then makes the memory visible to the device. Release ends
 * the access and makes your writes visible to others.
 *
 * `stream` is the device's queue: a VkQueue for Vulkan; NULL is the device's
 * default, and the only value for the CPU.
 */
#ifndef DLBUF_SYNC_H
#define DLBUF_SYNC_H

#include <dlbuf/base.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_acquire_opts {
	size_t size;
	/*
	 * CLOCK_MONOTONIC nanoseconds after which a call that has to block
	 * gives up with -ETIME; 0 means never. A moment in the past asks
	 * without waiting. It is a moment and not a duration so that the
	 * planes of a frame can share one.
	 */
	uint64_t deadline_ns;
};

/*
 * Begins an access. A tensor has one access at a time; for two, share it.
 *
 * tensor and opts are borrowed. CPU: blocks until the fences have signalled,
 * then DMA_BUF_IOCTL_SYNC with START. Vulkan: blocks for the fences, then
 * submits the barrier that acquires the buffer from the foreign queue family
 * to `stream`.
 * -EINVAL  not a tensor of dlbuf, access not READ, WRITE or RW, a stream for
 *          a device without streams, bad opts
 * -EACCES  writing to a read-only tensor
 * -EBUSY   the tensor is acquired already
 * -ETIME   the deadline passed; nothing is acquired
 * -EIO     the kernel or the driver failed; nothing is acquired
 */
DLBUF_API int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
			    void *stream, const struct dlbuf_acquire_opts *opts);

/*
 * Ends the access that dlbuf_acquire() began: work submitted to `stream` so
 * far is what the others will wait for. It is ended even when this fails.
 *
 * tensor is borrowed. fence may be NULL; otherwise *fence is a new sync_file
 * of that work, or -1 when the work is complete already, which it always is
 * on a device whose info says DLBUF_SYNC_BLOCKS.
 * -EINVAL  not a tensor of dlbuf, or not acquired
 * -EIO     the kernel or the driver failed
 *
 * Deleting a tensor that is still acquired releases it, on the stream of the
 * acquire.
 */
DLBUF_API int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream,
			    int *fence);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SYNC_H */
