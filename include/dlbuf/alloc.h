/* SPDX-License-Identifier: MIT */
/*
 * Allocates dma-bufs: for a tensor to compute into, or as buffers that a camera
 * captures into.
 */
#ifndef DLBUF_ALLOC_H
#define DLBUF_ALLOC_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_alloc_opts {
	size_t size;
	/*
	 * The exporter: "udmabuf", "udmabuf:2M" (2 MiB pages), "heap:system" or
	 * another dma-heap. dlbuf_alloc() also has "device": memory of the first
	 * device itself, which the other devices import. NULL tries "device" if
	 * there is one device, then "udmabuf", then "heap:system".
	 */
	const char *exporter;
	const char *name;	/* for the kernel's lists, 31 bytes; NULL: none */
	uint32_t flags;		/* none yet */
};

/*
 * Makes a zero-filled dma-buf that is large enough for layout, and a tensor of
 * it on each device. It tries the exporters in order and keeps the first buffer
 * that all devices can import.
 *
 * devs, layout and opts are borrowed. tensors[i] is new and is on devs[i].
 * Either all tensors are made or none.
 *
 * The dma-buf lives as long as the tensors; dlbuf_tensor_get_info() has its fd.
 * After the last tensor the devices do not keep the import, unless another call
 * imported the dma-buf in between. With the exporter "device" (CUDA) the memory
 * belongs to the first device, which does not import it; the other devices do.
 * Usually the CPU cannot map it.
 * -EINVAL  no device, bad layout or opts, no such exporter
 * -ENOSYS  the exporter is not built into this library
 * -ENODEV  the exporter is absent; the error text names its device node
 * -EIO     an exporter is present and failed, or a device refused every buffer
 * and the errors of dlbuf_layout_extent().
 */
DLBUF_API int dlbuf_alloc(struct dlbuf_device *const devs[], size_t ndevs,
			  const DLTensor *layout,
			  const struct dlbuf_alloc_opts *opts,
			  DLManagedTensorVersioned *tensors[]);

struct dlbuf_exporter_info {
	size_t size;
	char name[64];		/* for dlbuf_alloc_opts.exporter */
	char node[64];		/* "/dev/udmabuf" */
	int status;		/* 0, or the error if it cannot be used */
	char reason[256];	/* error text of status */
};

/*
 * Calls fn for each exporter of this build: for each page size of udmabuf and
 * each dma-heap of this machine. Each one is tested by allocating one page. An
 * absent exporter is reported once, with status and reason.
 *
 * info is peeked and valid during the callback. If fn returns non-zero, the walk
 * ends and this function returns that value.
 */
typedef int (*dlbuf_exporter_fn)(const struct dlbuf_exporter_info *info,
				 void *data);
DLBUF_API int dlbuf_exporter_each(dlbuf_exporter_fn fn, void *data);

/*
 * Makes a dma-buf and does not import it, for example for a camera that captures
 * into it. opts->exporter is required. bytes is rounded up to whole pages of the
 * exporter. *fd is new, close-on-exec, O_RDWR. Errors as for dlbuf_alloc().
 */
DLBUF_API int dlbuf_alloc_fd(uint64_t bytes, const struct dlbuf_alloc_opts *opts,
			     int *fd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_ALLOC_H */
