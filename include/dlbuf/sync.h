/* SPDX-License-Identifier: MIT */
/*
 * Acquire and release: order your work with that of the other users of a dma-buf.
 *
 *	dlbuf_acquire(t, DLBUF_READ, stream, NULL);
 *	... work on the tensor, on `stream` ...
 *	dlbuf_release(t, stream, NULL);
 *
 * Acquire waits for the fences of the dma-buf that conflict with the access (a
 * reader waits for writers, a writer for readers and writers) and for a fence of
 * the caller. Then it makes the memory visible to the device. Release makes your
 * writes visible to the other users and adds a fence of your work to the dma-buf,
 * for which they wait.
 *
 * The device decides who waits; dlbuf_device_info says which it is:
 *
 *	DLBUF_SYNC_FENCE   The device waits, and neither call blocks. The
 *			   kernel has a fence of your work, so the CPU and
 *			   every driver that uses the dma-buf's fences wait
 *			   for it. (On the path `copy` releases are EVENT.)
 *	DLBUF_SYNC_EVENT   Release does not block. An event tells the library
 *			   when the work is complete. The dma-buf has no fence
 *			   of the work, because the kernel lets no program make
 *			   one.
 *	DLBUF_SYNC_BLOCKS  The calling thread waits. The CPU does this.
 *
 * `stream` is a queue of the device: a VkQueue for Vulkan, a CUstream for CUDA.
 * NULL is the default stream, and the only one of the CPU.
 *
 * Tensors and streams. Each tensor of a buffer is acquired on its own. Accesses
 * of several tensors may overlap: fences order different devices and processes,
 * and on one device its streams order the work. If a tensor is deleted while it
 * is acquired, it is released on the stream of the acquire. So a framework may
 * delete a tensor while its kernels still run, if they were submitted before.
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
	 * CLOCK_MONOTONIC nanoseconds. A call that must block longer fails with
	 * -ETIME. 0 means no deadline; a time in the past means: try without
	 * waiting. It is a time and not a duration, so that the planes of a frame
	 * can share one.
	 */
	uint64_t deadline_ns;
	/*
	 * A sync_file to wait for besides the fences of the dma-buf; borrowed. 0
	 * and -1 mean none. 0 is included so that zeroed options are the defaults:
	 * duplicate a sync_file whose fd is 0.
	 */
	int fence;
	uint32_t flags;		/* DLBUF_ACQUIRE_* */
};

/*
 * Accepts a buffer although the producer's fence ended with an error. Without
 * this flag the call fails with -EIO if it waited for such a fence, or if
 * opts.fence is one.
 */
#define DLBUF_ACQUIRE_DAMAGED 1u

/*
 * Begins an access. A tensor has one access at a time. For a second access make a
 * second tensor with dlbuf_tensor_share().
 *
 * tensor and opts are borrowed.
 *
 * CPU: blocks until the fences have signalled, then calls DMA_BUF_IOCTL_SYNC with
 * START. With a deadline START runs on a thread of its own, because START waits
 * without a limit.
 *
 * Vulkan: submits to `stream` a wait for the fences and the barrier that acquires
 * the buffer from the foreign queue family. If the driver has no SYNC_FD
 * semaphores, the call blocks for the fences first.
 *
 * A device that waits by itself ignores the deadline. On a kernel without
 * sync_file the call has to wait, and uses the deadline.
 * -EINVAL  not a tensor of dlbuf, access not READ, WRITE or RW, a stream for a
 *          device without streams, bad opts
 * -EBADF   opts->fence is not open
 * -EACCES  the tensor does not allow this access
 * -EBUSY   the tensor is already acquired
 * -ETIME   the deadline passed; nothing is acquired
 * -EIO     the kernel or the driver failed, the device is lost, or a fence that
 *          the call waited for ended with an error; nothing is acquired
 */
DLBUF_API int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
			    void *stream, const struct dlbuf_acquire_opts *opts);

/*
 * Ends the access that dlbuf_acquire() began. The other users wait for the work
 * that was submitted to `stream` before this call. If the kernel or the driver
 * fails, the access ends too; the call has then waited until the device was done
 * with the buffer, or the device is lost. If an argument is refused, nothing
 * changes and the access continues.
 *
 * tensor is borrowed. fence may be NULL. Otherwise *fence is new: an fd that
 * becomes readable when the work is complete. It is an eventfd if
 * dlbuf_device_info.release is DLBUF_SYNC_EVENT or the tensor's path is `copy`,
 * otherwise a sync_file. It is -1 if the work is complete already, which is always
 * so on a device with DLBUF_SYNC_BLOCKS. Close it.
 *
 * Blocks if the device does, and if the kernel cannot add the fence to the
 * dma-buf (before 6.0).
 * -EINVAL  not a tensor of dlbuf, not acquired, not a stream of the device, or
 *          not that of dlbuf_acquire_all(); an access continues
 * -EBUSY   the stream is being captured into a graph, or fence is not NULL and
 *          others that were acquired together with the tensor are still acquired;
 *          the access continues
 * -EIO     the kernel or the driver failed; the access has ended
 */
DLBUF_API int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream,
			    int *fence);

/*
 * dlbuf_acquire() for n tensors of one device, for example the planes of a frame:
 * all of them are acquired, or none. Waits once, for all of them together; a
 * device that waits by itself waits for one merged fence.
 *
 * Tensors of one dma-buf, of the same frame, are one access of the device: on the
 * CPU they have one DMA_BUF_IOCTL_SYNC bracket. This access ends when the last of
 * them is released, by any of the functions or by its deletion. So:
 *   - Other users wait for the work of all of them until then.
 *   - dlbuf_release_all() of all of them takes any stream. Released one by one,
 *     or in parts, they end on the stream of the acquire.
 *   - Only the last release gives a fence. Before, fence must be NULL.
 * Each tensor may be used and released on a thread of its own.
 *
 * tensors and opts are borrowed. n may be 0, which does nothing. Blocks as
 * dlbuf_acquire() does. The errors are those of dlbuf_acquire(), and nothing is
 * acquired after any of them:
 * -EINVAL  also: tensors of several devices
 * -EBUSY   also: a tensor is in the list twice
 * -ENOMEM  no memory
 * -ENOSYS  not built into this library
 */
DLBUF_API int dlbuf_acquire_all(DLManagedTensorVersioned *const tensors[],
				size_t n, uint32_t access, void *stream,
				const struct dlbuf_acquire_opts *opts);

/*
 * dlbuf_release() for n tensors of one device, however each was acquired. All
 * accesses end, also if the kernel or the driver fails for one of them; -EIO
 * reports the first failure, and *fence is not written. If an argument is refused,
 * all accesses continue.
 *
 * tensors are borrowed. fence may be NULL. Otherwise *fence is new: one fd that
 * becomes readable when the work on all tensors is complete, or -1. It is a
 * sync_file, an eventfd if dlbuf_device_info.release is DLBUF_SYNC_EVENT, or an
 * eventfd if the path of a tensor is `copy`. Close it. n may be 0; then *fence is
 * -1.
 *
 * Blocks as dlbuf_release() does, and if the process has no fd or memory left for
 * the one fd.
 * -EINVAL  also: tensors of several devices, or one is in the list twice; some
 *          tensors that were acquired together, on another stream than that of
 *          the acquire
 * -EBUSY   also: fence is not NULL, and other tensors that were acquired together
 *          with some of these are still acquired
 * -EIO     as above
 * -ENOSYS  not built into this library
 */
DLBUF_API int dlbuf_release_all(DLManagedTensorVersioned *const tensors[],
				size_t n, void *stream, int *fence);

/*
 * What to poll after -ETIME: an fd that becomes readable (POLLIN) when everything
 * is complete that dlbuf_acquire(tensor, access) would wait for now. This includes
 * work of this process that has no fence (DLBUF_SYNC_EVENT). Work that is submitted
 * later is not included. Readable does not mean successful: acquire reports fences
 * that ended with an error.
 *
 * tensor is borrowed, and may be acquired or not. *fd is new, or -1 if nothing is
 * pending. Poll and close it, and do nothing else with it: it may be a sync_file,
 * an eventfd or a dma-buf. On a kernel without sync_file it includes work that is
 * submitted later.
 *
 * Does not block.
 * -EINVAL  not a tensor of dlbuf, access not READ, WRITE or RW, fd is NULL
 * -EACCES  the tensor does not allow this access
 * -ENOMEM, -EMFILE  no memory, no fd
 * -EIO     the kernel or the driver failed
 * -ENOSYS  not built into this library
 */
DLBUF_API int dlbuf_pending(DLManagedTensorVersioned *tensor, uint32_t access,
			    int *fd);

/*
 * Begins an access without waiting and without submitting anything, for
 * applications that wait and signal by themselves. *fence is new: your work must
 * wait for it. -1 means that there is nothing to wait for. You must also do what
 * the device's API requires, e.g. Vulkan's barrier from the foreign queue family.
 *
 * Blocks on a kernel without sync_file (before 6.0, or configured so). If the
 * tensor is deleted without a release, dlbuf assumes that the work is complete.
 * -EOPNOTSUPP  the CPU: it needs DMA_BUF_IOCTL_SYNC
 * and the errors of dlbuf_acquire().
 */
DLBUF_API int dlbuf_acquire_fence(DLManagedTensorVersioned *tensor,
				  uint32_t access, int *fence);

/*
 * Ends an access of either kind, with a fence of your work: a sync_file,
 * borrowed, or -1 if the work is complete. The fence is added to the dma-buf, and
 * the lease waits for it.
 * -EINVAL  also: fence is not a sync_file; the access has not ended
 * -EBADF   fence is not open; the access has not ended
 * -EOPNOTSUPP  the CPU, as above
 */
DLBUF_API int dlbuf_release_fence(DLManagedTensorVersioned *tensor, int fence);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SYNC_H */
