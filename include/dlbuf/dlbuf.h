/* SPDX-License-Identifier: MIT */
/*
 * dlbuf puts DLPack tensors around Linux DMA-BUF file descriptors.
 *
 * Read this page, then the header of each noun as you need it:
 *
 *   base.h     versions, errors and their sentence, ownership, log
 *   dlpack.h   DLPack's structs: the tensor itself
 *   buffer.h   what dma-buf an fd is
 *   layout.h   which bytes of it are a tensor
 *   device.h   who imports it: "cpu", "vulkan:0"
 *   tensor.h   fd -> tensor
 *   sync.h     acquire and release
 *   fence.h    sync_files; syncobj.h turns drm_syncobjs into them
 *   format.h   pixel formats, as tensors or why not
 *   frame.h    a camera's frame -> a tensor per plane
 *   alloc.h    new dma-bufs; udmabuf.h and heap.h are the two who make them
 *   socket.h   tensors and frames to another process
 *   pool.h     buffers for a camera to capture into
 *   export.h   a dma-buf of memory that a device has
 *   cuda.h     CUDA's streams and paths; wrapping your own context
 *   vulkan.h   what a Vulkan tensor holds; wrapping your own VkDevice
 *              (not included here: it needs the Vulkan headers)
 *   interop/   V4L2's, GStreamer's, PipeWire's buffers -> frames
 *              (header-only, each needs its producer's headers)
 *
 * The whole of it, for a 1920x1080 grey image in the dma-buf `fd`:
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
 *	... t->dl_tensor.data is the image ...
 *	dlbuf_release(t, NULL, NULL);
 *	t->deleter(t);
 *	dlbuf_device_close(cpu);
 */
#ifndef DLBUF_H
#define DLBUF_H

#include <dlbuf/alloc.h>
#include <dlbuf/base.h>
#include <dlbuf/buffer.h>
#include <dlbuf/cuda.h>
#include <dlbuf/device.h>
#include <dlbuf/export.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/fence.h>
#include <dlbuf/format.h>
#include <dlbuf/frame.h>
#include <dlbuf/heap.h>
#include <dlbuf/layout.h>
#include <dlbuf/pool.h>
#include <dlbuf/socket.h>
#include <dlbuf/sync.h>
#include <dlbuf/syncobj.h>
#include <dlbuf/tensor.h>
#include <dlbuf/udmabuf.h>

#endif /* DLBUF_H */
