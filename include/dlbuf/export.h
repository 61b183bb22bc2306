/* SPDX-License-Identifier: MIT */
/*
 * The other way round: a dma-buf of memory that a device's own API has
 * allocated, a tensor of PyTorch for instance, for those who import fds.
 *
 * A device that can export allocates, too: dlbuf_alloc() with the exporter
 * "device" makes memory of the first of its devices.
 */
#ifndef DLBUF_EXPORT_H
#define DLBUF_EXPORT_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_export_opts {
	size_t size;
	uint32_t flags;		/* DLBUF_EXPORT_... */
};

/*
 * The dma-buf's bytes are reached over PCI Express, also where the GPU has a
 * coherent link to the CPU. CUDA: CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE.
 */
#define DLBUF_EXPORT_PCIE 1u

struct dlbuf_exported {
	size_t size;		/* of this struct, set by the caller */
	int fd;			/* the dma-buf, new */
	uint32_t reserved;
	uint64_t offset;	/* bytes from its begin to the tensor's data */
	uint64_t bytes;		/* of the dma-buf */
};

/*
 * Makes a dma-buf of the memory behind a tensor, whoever made that. dev is the
 * device it lies on; tensor->data with byte_offset is its first element.
 *
 * All arguments are borrowed. out->fd is new, close-on-exec. The dma-buf keeps
 * the memory, not the tensor: its owner may use the bytes for something else
 * once it is deleted. Each call makes another dma-buf. Whole pages of the
 * device's allocation are exported, so that more than the tensor is in it.
 * There are no fences on it: whoever imports it waits for the stream by other
 * means.
 *
 * CUDA: memory of cuMemAlloc() and of cuMemAddressReserve(), on drivers that
 * say so also of cuMemAllocHost(); not of memory pools (cudaMallocAsync), not
 * managed. The kernel's module looks at an importer as if it were a PCI device:
 * never import such a dma-buf into one that is not (vgem, udmabuf, a camera of
 * a system-on-chip).
 * -EINVAL      NULL, bad opts, a tensor of another device, or memory that is not
 *              the device's: freed, foreign, over two allocations
 * -EOPNOTSUPP  the device or its driver exports nothing, or not this memory
 * -EIO         the driver failed
 */
DLBUF_API int dlbuf_export(struct dlbuf_device *dev, const DLTensor *tensor,
			   const struct dlbuf_export_opts *opts,
			   struct dlbuf_exported *out);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_EXPORT_H */
