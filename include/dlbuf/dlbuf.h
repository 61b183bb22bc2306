/* SPDX-License-Identifier: MIT */
/*
 * dlbuf gives you the memory of a Linux dma-buf file descriptor as a DLPack tensor.
 * A DLPack tensor is a struct with a pointer, a device, a type, a shape and strides.
 * Frameworks such as PyTorch and NumPy use it without a copy.
 *
 * All headers use these words:
 *
 *   device      a processor that dlbuf opens through an API: "cpu", "vulkan:0",
 *               "cuda:0"; also called an importer, because it imports dma-bufs
 *   exporter    a driver that allocates dma-bufs: udmabuf, a dma-heap
 *   path        the way in which a device imports a dma-buf. `direct`: the API
 *               imports it. `host`: the API uses the CPU's pages. `bridge`: a GPU
 *               copies the bytes. `copy`: the CPU copies them. The last two need
 *               DLBUF_IMPORT_MAY_COPY.
 *   producer    the code or the driver that fills a buffer: a camera, a decoder
 *   lease       a callback that the producer gives to dlbuf. dlbuf calls it once,
 *               when nothing uses the buffer any more: the lease fires.
 *
 * base.h defines five words of ownership: borrowed, duplicated, taken, new and
 * peeked. Read it next. This file includes all headers of this list:
 *
 *   base.h      version, error codes and error text, ownership, log
 *   dlpack.h    the structs of DLPack: the tensor
 *   buffer.h    identifies the dma-buf behind an fd
 *   layout.h    describes which bytes of a dma-buf are a tensor
 *   device.h    opens an importer: "cpu", "vulkan:0", "cuda:0"; the paths that it has
 *   tensor.h    makes a tensor from an fd
 *   sync.h      acquire and release: orders your work with the other users
 *   fence.h     sync_file fds; callbacks in the main loop of the application
 *   syncobj.h   converts drm_syncobjs to sync_files and back
 *   format.h    pixel formats and their tensors
 *   frame.h     makes a tensor per plane from a frame of a camera; leases that
 *               several devices share; the formats that a device accepts
 *   camera.h    opens a V4L2 camera; the lease of each frame gives the frame's
 *               buffer back to the camera
 *   prepare.h   makes a model's input of a frame: crop, scale, colours, normalisation
 *   alloc.h     allocates dma-bufs, also for tests: memfd pages, a dma-heap, memory of a
 *               device
 *   udmabuf.h   for programs that need the memfd behind a udmabuf
 *   pool.h      allocates buffers that a camera captures into
 *   export.h    makes a dma-buf of memory that CUDA, HIP or Level Zero allocated
 *   socket.h    sends tensors and frames to another process
 *   cuda.h      CUDA: streams, paths, your own CUcontext
 *   gles.h      GLES: preparation by EGL, your own EGLDisplay
 *   hexagon.h   Hexagon DSPs: FastRPC's map of a tensor, your own fastrpc fd
 *   hip.h       HIP: streams, paths
 *   levelzero.h Level Zero: streams, paths, your own ze_context_handle_t
 *   opencl.h    OpenCL: the cl_mem of a tensor, your own cl_context
 *   vpi.h       Verilog simulators: a test bench reads and writes tensors
 *
 * This file does not include these, because they need headers of other projects:
 *
 *   vulkan.h    Vulkan: the VkBuffer of a tensor, your own VkDevice
 *   interop/    makes frames from buffers of V4L2, GStreamer, PipeWire,
 *               libcamera, FFmpeg and VA-API
 *
 * An example, from open to close: a grey image of 1920x1080 pixels in the dma-buf
 * `fd`:
 *
 *	struct dlbuf_device *cpu;
 *	DLManagedTensorVersioned *t;
 *	int64_t shape[] = { 1080, 1920 };
 *	DLTensor layout = { .ndim = 2, .shape = shape,
 *			    .dtype = { kDLUInt, 8, 1 } };
 *
 *	if (dlbuf_device_open("cpu", NULL, &cpu) ||
 *	    dlbuf_import(cpu, fd, &layout, NULL, &t) ||
 *	    dlbuf_acquire(t, DLBUF_READ, NULL, NULL))
 *		errx(1, "%s", dlbuf_last_error());
 *	printf("%p points to the pixels\n", t->dl_tensor.data);
 *	dlbuf_release(t, NULL, NULL);
 *	t->deleter(t);
 *	dlbuf_device_close(cpu);
 *
 * A process can load the library twice: libdlbuf.so, and the library inside the
 * Python package. The two share nothing. Each refuses the other's tensors (-EINVAL),
 * and has its own imports, error texts and log. Between the two, only the kernel's
 * fences order accesses, as between two processes. Accesses by the CPU and work on a
 * device with DLBUF_SYNC_EVENT (see sync.h) have no fence, so the other library does
 * not wait for them. The Python package can use libdlbuf.so instead (DLBUF_SYSTEM in
 * python/README.md).
 */
#ifndef DLBUF_H
#define DLBUF_H

#include <dlbuf/alloc.h>
#include <dlbuf/base.h>
#include <dlbuf/buffer.h>
#include <dlbuf/camera.h>
#include <dlbuf/cuda.h>
#include <dlbuf/device.h>
#include <dlbuf/export.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/fence.h>
#include <dlbuf/format.h>
#include <dlbuf/frame.h>
#include <dlbuf/gles.h>
#include <dlbuf/hexagon.h>
#include <dlbuf/hip.h>
#include <dlbuf/layout.h>
#include <dlbuf/levelzero.h>
#include <dlbuf/opencl.h>
#include <dlbuf/pool.h>
#include <dlbuf/prepare.h>
#include <dlbuf/socket.h>
#include <dlbuf/sync.h>
#include <dlbuf/syncobj.h>
#include <dlbuf/tensor.h>
#include <dlbuf/udmabuf.h>
#include <dlbuf/vpi.h>

#endif /* DLBUF_H */
