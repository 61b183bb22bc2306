/* SPDX-License-Identifier: MIT */
/*
 * Makes a dma-buf of memory that a device's own API allocated, for example of a
 * PyTorch tensor, for programs that import dma-bufs.
 *
 * To allocate new memory of a device as a dma-buf, use dlbuf_alloc() with the
 * exporter "device".
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
	uint32_t reserved;	/* 0 */
};

/*
 * Other devices reach the dma-buf's bytes over PCI Express, even if the GPU has a
 * coherent link to the CPU. CUDA: CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE. HIP 7:
 * hipMemRangeFlagDmaBufMappingTypePcie.
 */
#define DLBUF_EXPORT_PCIE 1u

struct dlbuf_exported {
	size_t size;		/* of this struct, set by the caller */
	int fd;			/* the dma-buf, new */
	uint32_t reserved;
	uint64_t offset;	/* bytes from its start to the tensor's data */
	uint64_t bytes;		/* size of the dma-buf */
};

/*
 * Makes a dma-buf of the memory of a tensor of any producer. dev is the device of
 * that memory. The tensor's first element is at tensor->data plus byte_offset.
 *
 * All arguments are borrowed. out->fd is new, close-on-exec. Each call makes
 * another dma-buf. The dma-buf keeps the memory alive, not the tensor: when the
 * tensor is deleted, its owner may use the memory for other data. The dma-buf has whole
 * pages of the device's allocation, so it may contain more than the tensor. The export is
 * refused if a page of the tensor may also belong to another allocation: if the allocation
 * is no multiple of the page size, or begins inside a page.
 *
 * The dma-buf has no fences: an importer must wait for the stream by other means.
 * If another device writes into it, this device may need a flush
 * (cuFlushGPUDirectRDMAWrites()). dlbuf_acquire() flushes for memory of
 * dlbuf_alloc().
 *
 * CUDA: exports memory of cuMemAlloc() and of cuMemAddressReserve(), and of
 * cuMemAllocHost() if the driver reports support. It cannot export memory pools
 * (cudaMallocAsync) and managed memory. The driver's kernel module treats every
 * importer as a PCI device: never import such a dma-buf into a device that is not
 * one (vgem, udmabuf, a camera of a system-on-chip).
 * HIP: exports memory of hipMalloc(), if the allocation has 2 MiB or more, and host
 * memory if HIP 7 or later exports it. It cannot export managed memory: see dlbuf/hip.h.
 * -EINVAL      NULL, bad opts, a tensor of another device, or memory that the
 *              device did not allocate, that was freed, or that spans two
 *              allocations
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
