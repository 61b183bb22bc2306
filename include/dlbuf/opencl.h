/* SPDX-License-Identifier: MIT */
/*
 * OpenCL: the cl_mem of a tensor, devices around your own context.
 *
 * The data of a kDLOpenCL tensor is always a cl_mem: the whole dma-buf as one buffer.
 * byte_offset is where the tensor begins in it. The data is never an SVM address. A
 * tensor without elements has data == NULL, as DLPack requires. Pass the cl_mem to kernels
 * and commands between dlbuf_acquire() and dlbuf_release().
 *
 * A stream is a cl_command_queue of the device's context, in order or out of order.
 * NULL is the device's default queue. An acquire puts its waits on the queue, for all
 * commands that you enqueue later. A release covers all commands that you have enqueued
 * before, and flushes the queue. The library retains the queue from the acquire until the
 * access has ended, so you may call clReleaseCommandQueue() earlier.
 *
 * Paths. An import tries them in this order. dlbuf_probe() reports which of them work
 * for a dma-buf:
 *
 *   direct   the driver imports the dma-buf, by the first of these that it has:
 *            cl_qcom_dmabuf_host_ptr, cl_khr_external_memory with the handle type
 *            DMA_BUF, cl_arm_import_memory_dma_buf. The first one may need bytes after
 *            the buffer: allocate with dlbuf_alloc(), or allocate one page more
 *   host     CL_MEM_USE_HOST_PTR over the memory of the dma-buf. A CPU device uses the
 *            mapping of any dma-buf. A GPU needs the memfd of a udmabuf (see
 *            dlbuf_udmabuf_remember()). The library tests this when it opens the
 *            device: a driver that copies such memory does not have this path
 *   copy     through memory of the host; needs DLBUF_IMPORT_MAY_COPY. Each acquire
 *            copies the whole buffer in, each release of a writer copies it out, on
 *            the queue
 *
 * The library makes these calls in an access; do not make them yourself:
 *
 *   cl_khr_external_memory  clEnqueueAcquireExternalMemObjectsKHR() and Release
 *   host, on a GPU          the buffer is mapped between accesses: acquire is
 *                           clEnqueueUnmapMemObject(), release clEnqueueMapBuffer()
 *   host, on a CPU          DMA_BUF_IOCTL_SYNC
 *
 * Order. A queue waits for the fences of the dma-buf without blocking the caller: by a
 * semaphore with cl_khr_external_semaphore_sync_fd, otherwise by a user event that a
 * thread of dlbuf completes. A release makes a sync_file with that extension,
 * otherwise an event (DLBUF_SYNC_EVENT). Events need callbacks, which a driver runs
 * on its own thread, so a callback of yours that blocks may delay leases.
 *
 * "opencl:1.0" is device 0 of platform 1, as clinfo(1) numbers them. "opencl:2" is the
 * third device of all platforms. A part of "PLATFORM NAME: DEVICE NAME" works too.
 *
 * The tests run PoCL and Mesa's rusticl on llvmpipe, by the paths host and copy. The
 * extensions of other drivers were tested with a fake driver only, not on hardware.
 *
 * Specification: OpenCL 1.2 to 3.0, cl_khr_external_memory,
 * cl_khr_external_semaphore_sync_fd, cl_arm_import_memory, cl_qcom_ext_host_ptr.
 */
#ifndef DLBUF_OPENCL_H
#define DLBUF_OPENCL_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The OpenCL handles are void *, so that this header does not need OpenCL's. */
struct dlbuf_opencl_device {
	size_t size;		/* of this struct, set by the caller */
	void *platform;		/* cl_platform_id */
	void *device;		/* cl_device_id */
	void *context;		/* cl_context */
	void *queue;		/* cl_command_queue: the default stream */
};

/*
 * Makes a device around the application's context. cl->context is required.
 * cl->device may be NULL if the context has one device. cl->queue may be NULL: then the
 * library makes a queue, which is in order. cl->platform is not used.
 *
 * cl and opts are borrowed. The library retains the context and the queue until the
 * device is closed and its last tensor deleted. *out is new. May block.
 * -EINVAL  NULL, a device or queue that is not of the context, bad opts
 * -ENODEV  there is no OpenCL library
 * -ESTALE  a parent process has used OpenCL before fork()
 * -EIO     the driver failed
 */
DLBUF_API int dlbuf_device_wrap_opencl(const struct dlbuf_opencl_device *cl,
				       const struct dlbuf_device_opts *opts,
				       struct dlbuf_device **out);

/*
 * Reports the OpenCL handles of dev. They are peeked and live as long as dev and its tensors.
 * -EINVAL: not an OpenCL device, or size not set.
 */
DLBUF_API int dlbuf_opencl_get_device(struct dlbuf_device *dev,
				      struct dlbuf_opencl_device *cl);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_OPENCL_H */
