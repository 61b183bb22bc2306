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
 * for everybody), and for one that you have, then makes the memory visible to
 * the device. Release ends the access, makes your writes visible to others,
 * and puts a fence of your work on the dma-buf, for which others wait in turn.
 *
 * Who waits depends on the device, and its info says so:
 *
 *	DLBUF_SYNC_FENCE   the device: neither call blocks. The CPU and every
 *	                   driver that looks at the dma-buf's fences see yours.
 *	                   (Copies by the CPU, path `copy`, give events.)
 *	DLBUF_SYNC_EVENT   release returns at once and an event tells when the
 *	                   work is complete. The kernel lets no program make a
 *	                   fence, so there is none on the dma-buf.
 *	DLBUF_SYNC_BLOCKS  the calling thread. The CPU is one.
 *
 * `stream` is the device's queue: a VkQueue for Vulkan; NULL is the device's
 * default, and the only value for the CPU.
 *
 * Tensors and streams. Each tensor over a buffer is acquired for itself;
 * readers may overlap, and so may those that do not mind each other's writes:
 * the fences order accesses of different devices and processes, and a device
 * orders its own by its streams. Deleting a tensor that is still acquired
 * releases it, on the stream of the acquire: a framework may delete a tensor
 * while its kernels still run, as long as they were submitted.
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
	/*
	 * A sync_file to wait for besides those of the dma-buf; borrowed. 0 and
	 * -1 are none (so that zeroed options are the default: a sync_file
	 * whose fd is 0 has to be duplicated).
	 */
	int fence;
	uint32_t flags;		/* DLBUF_ACQUIRE_* */
};

/*
 * Accepts a buffer whose producer's fence ended with an error. Without it the
 * call fails with -EIO where it has waited for such a fence, or `fence` is one.
 */
#define DLBUF_ACQUIRE_DAMAGED 1u

/*
 * Begins an access. A tensor has one access at a time; for two, share it.
 *
 * tensor and opts are borrowed. CPU: blocks until the fences have signalled,
 * then DMA_BUF_IOCTL_SYNC with START. Vulkan: submits to `stream` a wait for
 * the fences and the barrier that acquires the buffer from the foreign queue
 * family; where the driver has no SYNC_FD semaphores, blocks for the fences
 * before. A device that waits itself does not look at the deadline; on a
 * kernel without sync_file the call has to wait, and does.
 * -EINVAL  not a tensor of dlbuf, access not READ, WRITE or RW, a stream for
 *          a device without streams, bad opts
 * -EBADF   opts->fence is not open
 * -EACCES  access that the tensor does not allow
 * -EBUSY   the tensor is acquired already
 * -ETIME   the deadline passed; nothing is acquired
 * -EIO     the kernel or the driver failed, the device is lost, or a fence that
 *          was waited for ended with an error; nothing is acquired
 */
DLBUF_API int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
			    void *stream, const struct dlbuf_acquire_opts *opts);

/*
 * Ends the access that dlbuf_acquire() began: work submitted to `stream` so
 * far is what the others wait for. It is ended even when this fails; then the
 * call has waited until the device was done with the buffer, or lost.
 *
 * tensor is borrowed. fence may be NULL; otherwise *fence is a new fd that
 * signals when that work is complete: a sync_file, or an eventfd on a device
 * of DLBUF_SYNC_EVENT; -1 when it is complete already, always on a device of
 * DLBUF_SYNC_BLOCKS. Close it. Blocks where the device does, and where the
 * kernel cannot take the fence (before 6.0).
 * -EINVAL  not a tensor of dlbuf, or not acquired
 * -EIO     the kernel or the driver failed
 */
DLBUF_API int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream,
			    int *fence);

/*
 * The same pair for applications that wait and signal by themselves.
 *
 * Begins an access without waiting or submitting: *fence, new, is what your
 * work has to wait for, -1 when there is nothing. What else the device's API
 * asks for, such as Vulkan's barrier from the foreign queue family, is yours.
 * Blocks on a kernel without sync_file (before 6.0, or so configured). Deleting
 * the tensor without a release means that the work is complete.
 * -EOPNOTSUPP  the CPU: it needs the kernel's bracket
 * and as dlbuf_acquire().
 */
DLBUF_API int dlbuf_acquire_fence(DLManagedTensorVersioned *tensor,
				  uint32_t access, int *fence);

/*
 * Ends an access, however it began, with a fence of the work: a sync_file,
 * borrowed, or -1 when it is complete. It goes on the dma-buf, and the lease
 * waits for it.
 * -EINVAL  also: fence is not a sync_file; the access has not ended
 * -EBADF   fence is not open; the access has not ended
 * -EOPNOTSUPP  the CPU, as above
 */
DLBUF_API int dlbuf_release_fence(DLManagedTensorVersioned *tensor, int fence);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SYNC_H */
