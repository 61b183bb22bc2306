/* SPDX-License-Identifier: MIT */
/*
 * Allocates dma-bufs: for a tensor to compute into, or as buffers that a camera
 * captures into. A tensor in new memory, and the dma-buf for other users:
 *
 *	int64_t shape[] = { 480, 640, 3 };
 *	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 }, .shape = shape };
 *	DLBUF_INFO(dlbuf_tensor_info, info);
 *	DLManagedTensorVersioned *t;
 *
 *	if (dlbuf_alloc(&dev, 1, &layout, NULL, &t) || dlbuf_tensor_get_info(t, &info))
 *		errx(1, "%s", dlbuf_last_error());
 *	share(info.fd);	// peeked: open as long as t lives
 */
#ifndef DLBUF_ALLOC_H
#define DLBUF_ALLOC_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of one exporter, for dlbuf_alloc_opts.report. */
struct dlbuf_alloc_report {
	size_t size;
	char exporter[64];	/* for dlbuf_alloc_opts.exporter */
	/*
	 * The party that refused the buffer: a device or a V4L2 node of the call, e.g.
	 * "vulkan:0" or "/dev/video0". Empty if the exporter itself failed, or if nobody
	 * refused.
	 */
	char party[64];
	int status;		/* 0: this exporter was chosen; else the error */
	char reason[512];	/* error text of status */
	uint32_t reserved;	/* 0 */
};
typedef void (*dlbuf_alloc_fn)(const struct dlbuf_alloc_report *report,
			       void *data);

struct dlbuf_alloc_opts {
	size_t size;
	/*
	 * The exporter: "udmabuf", "udmabuf:2M" (2 MiB pages), "heap:system" or
	 * another dma-heap. With devices also "device": the first device that can
	 * allocate makes the memory, and the others import it. With V4L2 nodes also
	 * "v4l2": the first node's driver makes the memory (VIDIOC_EXPBUF).
	 *
	 * NULL tries exporters in this order, until every party (device or V4L2 node of
	 * the call) imports the buffer without a copy:
	 *   - "device", if one device is the only party
	 *   - the one that a device prefers (Hexagon: "heap:system")
	 *   - "udmabuf": devices that can only register host memory reach its pages, too
	 *   - "heap:system", then the other dma-heaps by name, if the CPU can map
	 *     their memory. Nodes without an IOMMU need a heap of physically
	 *     contiguous memory (CMA)
	 *   - "v4l2" and "device"
	 * Exporters that a party of the call has refused before, in this process,
	 * are tried last. So a later call for the same parties begins with the
	 * exporter that was chosen before. A refusal changes only this order,
	 * and is forgotten when the party accepts that exporter.
	 */
	const char *exporter;
	const char *name;	/* for the kernel's lists, 31 bytes; NULL: none */
	uint32_t flags;		/* none yet */
	/*
	 * V4L2 nodes that must import the buffer, too: fds of opened nodes,
	 * borrowed. The buffer is for the node's capture queue, or for its
	 * output queue if the node does not capture. The node's current format
	 * determines the least size of the buffer: set it before.
	 *
	 * Each buffer is tried for real: VIDIOC_REQBUFS of one buffer of
	 * V4L2_MEMORY_DMABUF, VIDIOC_QBUF, VIDIOC_REQBUFS of 0. The node is then
	 * as before, and no frame is captured. A node has buffers if it streams,
	 * or if a program has requested them. Such a node is left as it is, and
	 * the call returns -EBUSY.
	 */
	size_t nv4l2;
	const int *v4l2;
	/*
	 * Called for each exporter that is tried, with the result, on this
	 * thread. report is peeked and valid during the callback, which must not
	 * call the library. NULL: none.
	 */
	dlbuf_alloc_fn report;
	void *report_data;
};

/*
 * Makes a zero-filled dma-buf that is large enough for layout, and a tensor of
 * it on each device. It tries the exporters in order and keeps the first buffer
 * that all devices and V4L2 nodes can import without a copy.
 *
 * devs, layout and opts are borrowed. tensors[i] is new and is on devs[i].
 * Either all tensors are made or none.
 *
 * The dma-buf lives as long as the tensors; dlbuf_tensor_get_info() has its fd.
 * After the last tensor the devices do not keep the import, unless another call
 * imported the dma-buf in between. With the exporter "device" (CUDA, HIP, Level Zero) the
 * memory belongs to the first device, which does not import it; the other devices do.
 * Usually the CPU cannot map it. It is freed when nobody else holds the dma-buf: no fd,
 * mapping or import, in any process. The reason: drivers allocate freed memory again
 * together with its dma-buf, so a holder of the dma-buf would see the next owner's bytes.
 * Until then a thread of the library checks /proc/self/fdinfo four times a second, more
 * rarely with more than 32 such dma-bufs. Without that file the exporter refuses. If the
 * thread cannot be started, because the last tensor was deleted while the process had no
 * free fd, the next deletion, dlbuf_device_trim(), drain() or close() checks. The library
 * learns from a device's first allocation how many users a dma-buf has when nobody else
 * holds it: do not fork() in another thread during that call. May block while drivers
 * allocate and map.
 * -EINVAL      no device, bad layout or opts, no such exporter
 * -ENOSYS      the exporter, or V4L2 nodes, are not built into this library
 * -ENODEV      the exporter is absent; the error text names its device node
 * -EACCES      the process may not open the exporter's node
 * -EBUSY       a V4L2 node has buffers, see opts
 * -EBADF, -ENOTTY  an fd of opts->v4l2 is not open, or not a V4L2 node
 * -EOPNOTSUPP, -EIO  an exporter is present and failed, or makes buffers that are
 *              too small, or a party refused its buffer
 * and the errors of dlbuf_layout_extent() and dlbuf_import(). If every exporter
 * fails, the error text names each with the party and the reason, as far as it has
 * room; opts->report gets all reasons. The error is that of the first exporter
 * that is present.
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
	uint32_t reserved;	/* 0 */
};

/*
 * Calls fn for each exporter of this build: for each page size of udmabuf and
 * each dma-heap of this machine. Each one is tested by allocating one page. An
 * absent exporter is reported once, with status and reason.
 *
 * info is peeked and valid during the callback. If fn returns non-zero, the walk
 * ends and this function returns that value.
 * -EINVAL  fn is NULL
 */
typedef int (*dlbuf_exporter_fn)(const struct dlbuf_exporter_info *info,
				 void *data);
DLBUF_API int dlbuf_exporter_each(dlbuf_exporter_fn fn, void *data);

/*
 * Makes a dma-buf and does not import it, for example for a camera that captures
 * into it. opts->exporter is required, or opts->v4l2: then exporters are tried as in
 * dlbuf_alloc(). bytes is rounded up to whole pages of the exporter. *fd is new,
 * close-on-exec, O_RDWR. Errors as for dlbuf_alloc().
 */
DLBUF_API int dlbuf_alloc_fd(uint64_t bytes, const struct dlbuf_alloc_opts *opts,
			     int *fd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_ALLOC_H */
