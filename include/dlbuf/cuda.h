/* SPDX-License-Identifier: MIT */
/*
 * CUDA: streams, import paths, and devices around your own context.
 *
 * A tensor's data is a device address (kDLCUDA). Streams are as in DLPack:
 *
 *   NULL, 1  the legacy default stream
 *   2        the per-thread default stream
 *   -1       no order: no call waits, and the caller waits for its own work
 *   other a CUstream or cudaStream_t, also one of a green context (CUDA 12.6) of the
 *            device's primary context; NULL, 1 and 2 are streams of the primary
 *            context
 *
 * Paths. An import tries them in this order. dlbuf_probe() reports which of
 * them work for a dma-buf:
 *
 *   direct   cuImportExternalMemory() of the dma-buf. Works on Jetson Thor and
 *            later. Older Jetsons use a path that copies; there an application
 *            can use NvBufSurface and EGL instead
 *   host     cuMemHostRegister() of the pages behind the dma-buf. Works for a
 *            udmabuf whose memfd the library knows, for a dma-buf whose mapping
 *            can be pinned, and for any mapping if the GPU walks the page tables
 *            of the CPU
 *   bridge   a Vulkan device of the same GPU imports the dma-buf and copies it,
 *            GPU to GPU
 *   copy     the CPU and the GPU's copy engine copy through pinned memory
 *
 * The library knows the memfd of a udmabuf if dlbuf_udmabuf_create() made the
 * udmabuf, or if the caller passed the memfd to dlbuf_udmabuf_remember(), and only
 * while the memfd is open. dlbuf_alloc() and pools know the memfd while they import
 * the buffer on their own devices. The memfd of a udmabuf that another process sent
 * is unknown.
 *
 * bridge and copy need DLBUF_IMPORT_MAY_COPY. Each acquire copies the whole
 * buffer in, on its stream. An acquire for writing also copies in, because bytes
 * that the caller does not write must keep their value. Each release of a writer
 * copies the whole buffer out, on its stream.
 *
 * Order. A stream waits for the fences of the dma-buf without blocking the
 * caller: through a Vulkan timeline semaphore if such a device exists, otherwise
 * by cuStreamWaitValue32() on a word that a thread of dlbuf sets. A release makes
 * a sync_file if the Vulkan driver can export one of a future value, otherwise an
 * event (DLBUF_SYNC_EVENT).
 *
 * Graph capture. A call on a stream that is being captured into a graph returns
 * -EBUSY. While a blocking stream of the context is captured, the driver forbids
 * the legacy stream: calls on it, and releases on the per-thread stream, return
 * -EBUSY too. Acquire before the capture, or around the launch of the graph.
 *
 * Deletion of a tensor that is still acquired ends the access as follows:
 *
 *   its stream is being captured   when the capture has ended
 *   its stream was destroyed       when all work of the context is complete
 *   the per-thread stream          after the per-thread streams of all threads,
 *                                  because another thread may delete the tensor
 *
 * In the first two cases a writer on path `copy` or `bridge` is not copied back: the dma-buf
 * keeps the old bytes, the log says so, and dlbuf_lease_result() is -EIO.
 *
 * Frees. cuMemFree() waits for all streams of the context. So dlbuf frees only while no
 * stream waits for a fence because of an acquire, on any dlbuf device of the context. It
 * does not know which events your own commands wait for.
 *
 * Specification: CUDA driver API; the stream rules of DLPack and of the array
 * API standard.
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

/*
 * Makes a device around the application's CUcontext. Use it for a context that
 * is neither the primary context nor current on this thread:
 * dlbuf_device_open("cuda:0") takes the thread's current context if that belongs
 * to the device, otherwise the primary context. In both functions a green context
 * (cuCtxFromGreenCtx()) means its primary context.
 *
 * context is borrowed and must live until the last tensor of the device is deleted
 * and its work is over (dlbuf_device_drain()). If the device is closed while a stream of
 * another device of the context waits for a fence, it is freed after that wait: then
 * drain the other device before the context ends. opts are borrowed. *out is new.
 * -EINVAL  NULL, not a context, bad opts
 * -ENODEV, -EIO as for dlbuf_device_open()
 */
DLBUF_API int dlbuf_device_wrap_cuda(void *context,
				     const struct dlbuf_device_opts *opts,
				     struct dlbuf_device **out);

struct dlbuf_cuda_device {
	size_t size;		/* of this struct, set by the caller */
	void *context;		/* CUcontext, peeked */
	int ordinal;		/* CUdevice, in CUDA's numbering */
	int driver;		/* driver version: 13000 is CUDA 13.0 */
};

/* Reports the CUDA handles of dev. -EINVAL: not a CUDA device, or size not set. */
DLBUF_API int dlbuf_cuda_get_device(struct dlbuf_device *dev,
				    struct dlbuf_cuda_device *cuda);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_CUDA_H */
