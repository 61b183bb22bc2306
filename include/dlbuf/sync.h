/* SPDX-License-Identifier: MIT */
/*
 * Acquire and release: order your work with that of the other users of a dma-buf.
 *
 *	if (dlbuf_acquire(t, DLBUF_READ, stream, NULL))
 *		errx(1, "%s", dlbuf_last_error());
 *	work(&t->dl_tensor, stream);	// yours, submitted to `stream`; the CPU just works
 *	dlbuf_release(t, stream, NULL);
 *
 * Acquire waits for the fences of the dma-buf that conflict with the access (a
 * reader waits for writers, a writer for readers and writers) and for a fence of
 * the caller. Then it makes the memory visible to the device. Release makes your
 * writes visible to the other users. On a device whose release is FENCE (see below)
 * it also adds a fence of your work to the dma-buf. The other users wait for this
 * fence.
 *
 * The device decides who waits. dlbuf_device_info.acquire and .release are one of:
 *
 *	DLBUF_SYNC_FENCE   Acquire: the device waits, and the call does not block,
 *			   except in the cases that dlbuf_acquire() names.
 *			   Release: the dma-buf gets a fence of your work, so the
 *			   CPU and every driver that uses the dma-buf's fences
 *			   wait for it; the call does not block. (On the path
 *			   `copy`, release is EVENT.)
 *	DLBUF_SYNC_EVENT   Only for release: the call does not block. The device's
 *			   event shows when the work is complete. The dma-buf gets
 *			   no fence, because a program cannot turn such an event
 *			   into a fence.
 *	DLBUF_SYNC_BLOCKS  The calling thread waits. The CPU does this.
 *
 * `stream` is a queue of the device: a VkQueue for Vulkan, a CUstream for CUDA.
 * NULL is the default stream; the CPU has no other. The handle is trusted: OpenCL and
 * CUDA detect a queue of another device, Vulkan cannot.
 *
 * Tensors and streams. Each tensor of a buffer is acquired on its own, or several
 * with dlbuf_acquire_all(). Two tensors of one buffer may be acquired at the same
 * time. Fences order the work of different devices and processes. Work on several
 * streams of one device is ordered by the application. If a tensor is deleted while
 * it is acquired, the deletion releases it on the stream of the acquire. So a
 * framework may delete a tensor while its GPU jobs still run, if it has submitted
 * these jobs before the deletion.
 */
#ifndef DLBUF_SYNC_H
#define DLBUF_SYNC_H

#include <dlbuf/base.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A value of `stream` for CUDA, HIP and Level Zero: the caller has ordered the work itself,
 * as DLPack's stream -1 means. An acquire of a tensor that is a copy refuses it.
 */
#define DLBUF_STREAM_NO_ORDER ((void *)-1)

struct dlbuf_acquire_opts {
	size_t size;
	/*
	 * CLOCK_MONOTONIC nanoseconds. A call that must block longer fails with
	 * -ETIME. 0 means no deadline; a time in the past means: try without
	 * waiting. It is a time and not a duration, so that the planes of a frame
	 * can share one deadline.
	 */
	uint64_t deadline_ns;
	/*
	 * A sync_file to wait for, in addition to the fences of the dma-buf;
	 * borrowed. 0 and -1 mean none, see base.h. The call checks that it is a
	 * sync_file. The eventfd of a release (DLBUF_SYNC_EVENT) is not a
	 * sync_file, and is not needed: an acquire waits for such work of this
	 * process.
	 */
	int fence;
	uint32_t flags;		/* DLBUF_ACQUIRE_* */
};

/*
 * Accepts a buffer although work before the access failed: without this flag, fences
 * that end with an error are reported.
 *
 * Reported by dlbuf_acquire() (-EIO, nothing is acquired): opts.fence and the frame's own
 * fence, if they failed before; every fence that the call waited for on this thread; the
 * fences that dlbuf_pending() reported last; and the fences of an earlier access of
 * this tensor, if no other call has reported them.
 *
 * Reported by dlbuf_release() (-EIO, the access has ended): fences that the device waits
 * for (DLBUF_SYNC_FENCE) and that failed before the release. If such a fence is still
 * pending at the release and fails later, a sync_file that the release returns ends with
 * its error, and the next acquire of the tensor and dlbuf_lease_result() report it. On
 * such a device the work is already submitted when a fence fails, and runs: the caller
 * must discard its results. The caller must check the fence of dlbuf_acquire_fence()
 * with dlbuf_fence_status(): if it fails later, no call of the tensor reports its error.
 *
 * Not reported:
 *   - a fence of the dma-buf that failed before the call, because the kernel removes
 *     fences when they signal. So after -ETIME a second call does not report a fence that
 *     has failed meanwhile, unless dlbuf_pending() was called before it failed
 *   - a fence that the calling thread waited for while no fd was left, because the kernel
 *     reports its error only by a sync_file
 *   - on the CPU, a fence of an acquire that does not look at the fences first: START
 *     waits for the fence, but does not report its error. A look costs as much as START
 *     and END together, so an acquire always looks only if it has a deadline. To be sure,
 *     set one: UINT64_MAX. Without a deadline it looks if this process added a fence of a
 *     writer since the last look, or if one of the last acquires had to wait
 */
#define DLBUF_ACQUIRE_DAMAGED 1u

/*
 * Begins an access. A tensor has one access at a time. For a second access make a
 * second tensor with dlbuf_tensor_share().
 *
 * tensor and opts are borrowed.
 *
 * CPU: blocks until the fences have signalled, then calls DMA_BUF_IOCTL_SYNC with
 * START. The deadline limits the wait for the fences, and how long START is repeated
 * after EINTR and EAGAIN (without a deadline: 1000 times, a second or two). It does not
 * limit START itself, which the kernel cannot stop: START also waits for fences that
 * somebody adds after the look, and an exporter may be slow. An acquire of an idle
 * buffer needs no memory, fd or thread.
 *
 * Vulkan: submits a wait for the fences, and the barrier that acquires the buffer
 * from the foreign queue family, to `stream`. If the driver has no SYNC_FD
 * semaphores, the call blocks for the fences first.
 *
 * If dlbuf_device_info.acquire is DLBUF_SYNC_FENCE, the device waits by itself, and the
 * deadline is ignored. The calling thread waits nevertheless in these cases:
 *	- until the deadline: for work of another device of this process that gives no
 *	  fence (DLBUF_SYNC_EVENT); on a kernel without sync_file; if there is no
 *	  fd for a sync_file, or no fd or memory for the device's wait; if the device has
 *	  to flush its caches by a call; and on CUDA, HIP and Level Zero, if more than
 *	  eight dropped imports wait for their free: the driver waits for all streams in a
 *	  free, so no stream begins another wait before it. Without a deadline this call then
 *	  never returns if the calling thread itself signals the fence later;
 *	- without a deadline: on OpenCL, CUDA, HIP and Level Zero, if the library's own
 *	  thread cannot watch the fence for the device, because there is no fd, memory
 *	  or thread for that.
 * -EINVAL  not a tensor of dlbuf, access not READ, WRITE or RW, a stream for a
 *          device without streams, bad opts, opts->fence is not a sync_file
 * -EBADF   opts->fence is not open
 * -EACCES  the tensor does not allow this access
 * -EBUSY   the tensor is already acquired
 * -ETIME   the deadline passed; nothing is acquired
 * -EIO     the kernel or the driver failed, the device is lost, or a fence ended
 *          with an error (see DLBUF_ACQUIRE_DAMAGED); nothing is acquired
 */
DLBUF_API int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access,
			    void *stream, const struct dlbuf_acquire_opts *opts);

/*
 * Ends the access that dlbuf_acquire() began. The other users wait for the work
 * that was submitted to `stream` before this call. If the kernel or the driver
 * fails, the access ends too: before the call returns the error, it waits until the
 * device does not use the buffer any more. The call does not wait for a lost device.
 * If an argument is refused, nothing changes and the access continues.
 *
 * tensor is borrowed. fence may be NULL. Otherwise *fence is new: an fd that
 * becomes readable when the work is complete. It is an eventfd if
 * dlbuf_device_info.release is DLBUF_SYNC_EVENT or the tensor's path is `copy`,
 * otherwise a sync_file. It is -1 if the work is complete already, as always on a
 * device with DLBUF_SYNC_BLOCKS. Close the fd.
 *
 * Waits for the work, and *fence is -1, if the device has DLBUF_SYNC_BLOCKS, if the kernel
 * cannot add a fence to a dma-buf (before 6.0), if a call fails (see above), or on a device
 * with DLBUF_SYNC_EVENT if there is no fd or no memory for an eventfd. lavapipe waits in
 * the export of the fence. The deletion of an acquired tensor is a release, and
 * may wait in the same way.
 *
 * Vulkan with DLBUF_SYNC_FENCE: the work before the call may wait only for signals that
 * are submitted already, because Vulkan makes a sync_file only of such work
 * (VUID-VkSemaphoreGetFdInfoKHR-handleType-03254). If the work waits for a timeline value
 * that this thread signals later, the call may never return. In that case submit the
 * signal first; or export a sync_file of your work when it is submitted, and end the
 * access with dlbuf_release_fence(), which submits nothing.
 * -EINVAL  not a tensor of dlbuf, not acquired, or not a stream of the device
 * -EINVAL  dlbuf_acquire_all() acquired the tensor together with others, and this is
 *          not the stream of that call; the access continues
 * -EBUSY   the CUDA stream is being captured into a graph; the access continues
 * -EBUSY   fence is not NULL, and tensors that were acquired together with this one
 *          are still acquired; the access continues
 * -EIO     the kernel or the driver failed, or a fence that the access waited for
 *          ended with an error; the access has ended
 * -EMFILE, -ENOMEM  the device's fence of the work cannot be exported: no fd or no
 *          memory is left; the access has ended
 */
DLBUF_API int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream,
			    int *fence);

/*
 * dlbuf_acquire() for n tensors of one device, for example the planes of a frame: all of
 * them are acquired, or none. The call waits once for all of them together; a device
 * that waits by itself waits for one merged fence. On Vulkan the call is one submit for
 * each 16 dma-bufs.
 *
 * If the call acquires several tensors of the same frame and the same dma-buf, they
 * are one access of the device: on the CPU, one START and one END. This access ends
 * when the last of these tensors is released or deleted. So:
 *   - Other users of the dma-buf wait until then, for the work on all of them.
 *   - If one dlbuf_release_all() releases all of them, it may have any stream.
 *     Otherwise each release must have the stream of the acquire.
 *   - Only the last release gives a fence. For the others fence must be NULL.
 * Each tensor may be used and released on another thread.
 *
 * tensors and opts are borrowed. n may be 0, which only checks opts. Blocks as
 * dlbuf_acquire() does. The errors are those of dlbuf_acquire(), and nothing is
 * acquired after any of them:
 * -EINVAL  also: tensors of several devices
 * -EBUSY   also: a tensor is in the list twice
 */
DLBUF_API int dlbuf_acquire_all(DLManagedTensorVersioned *const tensors[],
				size_t n, uint32_t access, void *stream,
				const struct dlbuf_acquire_opts *opts);

/*
 * dlbuf_release() for n tensors of one device, acquired one by one or together. On
 * Vulkan it is one submit for each 16 dma-bufs, and all of these get the fence of the
 * submit. All accesses end, also if the kernel or the driver fails for one of them;
 * -EIO reports the first failure, and *fence is not written. If an argument is
 * refused, all accesses continue.
 *
 * tensors are borrowed. fence may be NULL. Otherwise *fence is new: one fd that
 * becomes readable when the work on all tensors is complete, or -1. It is a
 * sync_file, an eventfd if dlbuf_device_info.release is DLBUF_SYNC_EVENT, or an
 * eventfd if the path of a tensor is `copy`. Close it. n may be 0; then *fence is
 * -1.
 *
 * Blocks as dlbuf_release() does. Also blocks until the work is complete if there is
 * no memory or no fd for *fence.
 * -EINVAL  also: tensors of several devices, or a tensor is in the list twice
 * -EINVAL  also: the list has not all of the tensors that were acquired together,
 *          and stream is not the stream of their acquire
 * -EBUSY   also: fence is not NULL, and a tensor that was acquired together with
 *          one of the list is still acquired and not in the list
 * -EIO     as above
 */
DLBUF_API int dlbuf_release_all(DLManagedTensorVersioned *const tensors[],
				size_t n, void *stream, int *fence);

/*
 * Gives an fd to poll, for example after -ETIME. The fd becomes readable (POLLIN)
 * when everything is complete that dlbuf_acquire(tensor, access) would wait for now.
 * This includes work of this process that has no fence (DLBUF_SYNC_EVENT). Work that
 * is submitted later is not included, except on a kernel without sync_file. Readable
 * does not mean successful: the tensor's next acquire reports fences that ended with
 * an error.
 *
 * tensor is borrowed, and may be acquired or not. *fd is new, or -1 if nothing is
 * pending. Poll and close it, and do nothing else with it: it may be a sync_file,
 * an eventfd or a dma-buf.
 *
 * Does not block.
 * -EINVAL  not a tensor of dlbuf, access not READ, WRITE or RW, fd is NULL
 * -EACCES  the tensor does not allow this access
 * -EIO     the kernel or the driver failed
 */
DLBUF_API int dlbuf_pending(DLManagedTensorVersioned *tensor, uint32_t access,
			    int *fd);

/*
 * Begins an access and submits nothing, for applications that wait and signal by
 * themselves. *fence is new: your work must wait for it. -1 means that there is
 * nothing to wait for. You must also make the calls that the device's API requires,
 * e.g. Vulkan's barrier from the foreign queue family.
 *
 * Does not wait, except on a kernel without sync_file (before 6.0, or configured
 * so), or if no fd is left: then the call blocks until the fences have signalled.
 * If the tensor is deleted without a release, dlbuf assumes that the work is
 * complete.
 * -EOPNOTSUPP  the CPU: it needs DMA_BUF_IOCTL_SYNC
 * and the errors of dlbuf_acquire().
 */
DLBUF_API int dlbuf_acquire_fence(DLManagedTensorVersioned *tensor,
				  uint32_t access, int *fence);

/*
 * Ends an access that dlbuf_acquire() or dlbuf_acquire_fence() began. fence is a
 * sync_file of your work, borrowed, or -1 if the work is complete. The fence is added
 * to the dma-buf, and the frame's lease waits for it.
 * -EINVAL  also: fence is not a sync_file; the access has not ended
 * -EBADF   fence is not open; the access has not ended
 * -EIO     the kernel failed; the access has ended
 * -EOPNOTSUPP  the CPU, as above
 */
DLBUF_API int dlbuf_release_fence(DLManagedTensorVersioned *tensor, int fence);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SYNC_H */
