/* SPDX-License-Identifier: MIT */
/*
 * CUDA: what its streams are here, wrapping a context of your own.
 *
 * A tensor's data is a device address (kDLCUDA). Streams are as DLPack has them:
 * 1 and NULL are the legacy default stream, 2 is the per-thread one, else it is
 * a CUstream (or cudaStream_t); -1 asks for no order at all: nobody waits, and
 * the work on the tensor is the caller's to wait for.
 *
 * Paths, in the order in which they are tried; dlbuf_probe() says what a device
 * makes of a dma-buf:
 *   direct   cuImportExternalMemory() of the dma-buf, on Jetson Thor and later.
 *            Older Jetsons copy; NvBufSurface and EGL are an application's way
 *   host     the pages behind it registered with cuMemHostRegister(): a udmabuf
 *            whose memfd is known, or a dma-buf whose mapping can be pinned; where
 *            the GPU walks the CPU's page tables any mapping. It is known while
 *            the memfd of dlbuf_udmabuf_create() or dlbuf_udmabuf_remember() is
 *            open, and to dlbuf_alloc() and pools that have this device among
 *            theirs; not of a udmabuf that another process sent
 *   bridge   a Vulkan device of the same GPU imports it and copies it, GPU to GPU
 *   copy     through pinned memory, by the CPU and the GPU's copy engine
 * The last two only with DLBUF_IMPORT_MAY_COPY. They copy the whole buffer on
 * the stream of the acquire, one for writing included, since what is not written
 * has to stay; and on the stream of the release where that was writing.
 *
 * Order. A stream waits for the dma-buf's fences by itself: through a Vulkan
 * timeline semaphore where there is such a device, else by
 * cuStreamWaitValue32() on a word that a thread of dlbuf's sets. Releases give a
 * sync_file where the Vulkan driver makes one of a value that is yet to come,
 * else an event (DLBUF_SYNC_EVENT). A stream that is being captured into a graph
 * is refused with -EBUSY: acquire before the capture or around the launch. A
 * tensor that is deleted while it is acquired on such a stream ends its access when
 * the capture has ended; on a stream that was destroyed, when all work of the
 * context is over; on the per-thread stream, after those of all threads, because
 * the deletion may be on another one.
 *
 * Specification: CUDA driver API, DLPack's and the array API's words on streams.
 */
#ifndef DLBUF_CUDA_H
#define DLBUF_CUDA_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of `stream`, for dlbuf_acquire() and dlbuf_release(). */
#define DLBUF_CUDA_STREAM_LEGACY	((void *)1)
#define DLBUF_CUDA_STREAM_PER_THREAD	((void *)2)
#define DLBUF_CUDA_STREAM_NO_ORDER	((void *)-1)

/*
 * A device around the application's CUcontext, for one that is not the primary
 * context, which dlbuf_device_open("cuda:0") takes unless the thread has a
 * context of that device current: then it takes that.
 *
 * context is borrowed and has to live until the last tensor over the device is
 * deleted. opts are borrowed. *out is new.
 * -EINVAL  NULL, or not a context
 * -ENOSYS  CUDA is not built in
 * -ENODEV, -EIO as dlbuf_device_open()
 */
DLBUF_API int dlbuf_device_wrap_cuda(void *context,
				     const struct dlbuf_device_opts *opts,
				     struct dlbuf_device **out);

struct dlbuf_cuda_device {
	size_t size;		/* of this struct, set by the caller */
	void *context;		/* CUcontext, peeked */
	int ordinal;		/* CUdevice, by CUDA's own numbers */
	int driver;		/* its version: 13000 is CUDA 13.0 */
};

/* What is behind a device. -EINVAL: not a CUDA device, or size not set. */
DLBUF_API int dlbuf_cuda_get_device(struct dlbuf_device *dev,
				    struct dlbuf_cuda_device *cuda);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_CUDA_H */
