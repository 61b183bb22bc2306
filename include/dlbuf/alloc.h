/* SPDX-License-Identifier: MIT */
/*
 * New dma-bufs, for when nobody else makes one: a tensor to compute into, or
 * buffers for a camera that captures into what it is given.
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
	 * Who makes it: "udmabuf", "udmabuf:2M" (2 MiB pages), "heap:system"
	 * or another dma-heap; "device", of dlbuf_alloc() only: memory of the
	 * first device's own, which the others import. NULL tries "device" where
	 * there is one device, then "udmabuf", then "heap:system".
	 */
	const char *exporter;
	const char *name;	/* shown by the kernel, 31 bytes; NULL: none */
	uint32_t flags;		/* none yet */
};

/*
 * Makes a dma-buf that all the named devices can import, large enough for
 * layout, zero-filled, and a tensor of it on each: the exporters are tried in
 * order and the first whose buffer every device takes is kept.
 *
 * devs, layout and opts are borrowed. tensors[i], on devs[i], is new. All or
 * none. The dma-buf itself lives as long as the tensors, and is not kept idle
 * after them unless it was imported meanwhile; its fd is in
 * dlbuf_tensor_get_info(). Memory of a device's own (CUDA) is imported there by
 * nobody else, and cannot be mapped by the CPU as a rule.
 * -EINVAL  no device, bad layout or opts, no such exporter
 * -ENOSYS  the exporter is not built into this library
 * -ENODEV  the exporter is absent (the sentence names the device node)
 * -EIO     an exporter is there and failed, or a device refused every buffer
 * and what dlbuf_layout_extent() says.
 */
DLBUF_API int dlbuf_alloc(struct dlbuf_device *const devs[], size_t ndevs,
			  const DLTensor *layout,
			  const struct dlbuf_alloc_opts *opts,
			  DLManagedTensorVersioned *tensors[]);

struct dlbuf_exporter_info {
	size_t size;
	char name[64];		/* what dlbuf_alloc_opts.exporter takes */
	char node[64];		/* "/dev/udmabuf" */
	int status;		/* 0, or why it cannot be used */
	char reason[256];	/* the sentence behind status */
};

/*
 * Calls fn for each exporter of this build: each page size of udmabuf and
 * each dma-heap of this machine. One that is absent is reported once, with
 * status and reason. info is peeked, for the call only. A non-zero result of
 * fn ends the walk and is returned. Each is tried with one page.
 */
typedef int (*dlbuf_exporter_fn)(const struct dlbuf_exporter_info *info,
				 void *data);
DLBUF_API int dlbuf_exporter_each(dlbuf_exporter_fn fn, void *data);

/*
 * Makes a dma-buf by exporter name without importing it anywhere: for a
 * camera that captures into it. bytes is rounded up to the exporter's pages.
 * opts->exporter is required. *fd is new, close-on-exec, O_RDWR.
 * Errors as for dlbuf_alloc().
 */
DLBUF_API int dlbuf_alloc_fd(uint64_t bytes, const struct dlbuf_alloc_opts *opts,
			     int *fd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_ALLOC_H */
