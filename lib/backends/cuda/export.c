// SPDX-License-Identifier: MIT
/* Finds the memory that CUDA can export as a dma-buf: see queue/export.c. */
#include <errno.h>

#include "cuda.h"

static bool knows(struct cuda_device *dev, cuda_pointer p, int attribute,
		  void *value)
{
	return !CUDA_RESULT(&dev->cu, PointerGetAttribute, value, attribute, p);
}

/*
 * Finds the whole range that cuMemAlloc() allocated or cuMemAddressReserve() reserved.
 * cuMemGetAddressRange() is not enough: in memory mapped by cuMemMap() (PyTorch's
 * expandable segments) it finds only one of the mapped pieces.
 */
static bool find_range(struct cuda_device *dev, cuda_pointer p,
		       struct queue_range *r)
{
	cuda_pointer base;
	size_t bytes;
	bool found = (knows(dev, p, CUABI_POINTER_RANGE_START_ADDR, &base) &&
		      knows(dev, p, CUABI_POINTER_RANGE_SIZE, &bytes)) ||
		     !CUDA_RESULT(&dev->cu, MemGetAddressRange, &base, &bytes, p);

	if (found)
		*r = (struct queue_range){ base, bytes };
	return found;
}

/* Refuses managed memory, which the driver moves, and memory of a pool. */
int cuda_range(struct queue_device *base, DLDeviceType on, uintptr_t p,
	       struct queue_range *r)
{
	struct cuda_device *dev = to_cuda(base);
	unsigned int type = 0, managed = 0;
	void *pool = NULL;
	int ordinal = -1;
	bool host;

	if (on != kDLCUDA && on != kDLCUDAHost)
		return fail(-EINVAL, "the tensor is on a device of DLPack's type "
			    "%d, not on %s", on, base->base.name);
	if (!dev->cu.MemGetHandleForAddressRange)
		return fail(-EOPNOTSUPP, "cuda: %s has no "
			    "cuMemGetHandleForAddressRange()",
			    dev->queue.info.driver);
	if (!knows(dev, p, CUABI_POINTER_MEMORY_TYPE, &type) ||
	    !knows(dev, p, CUABI_POINTER_DEVICE_ORDINAL, &ordinal) ||
	    !knows(dev, p, CUABI_POINTER_IS_MANAGED, &managed) ||
	    !find_range(dev, p, r))
		return fail(-EINVAL, "%#llx is not CUDA memory: freed, or "
			    "never allocated", (unsigned long long)p);
	host = type == CUABI_MEMORYTYPE_HOST;
	if (managed)
		return fail(-EOPNOTSUPP, "cuda: managed memory has no dma-buf");
	if (!host && ordinal != dev->queue.base.dl.device_id)
		return fail(-EINVAL, "the memory is of cuda:%d, not of %s",
			    ordinal, base->base.name);
	/* Drivers before 11.3 do not know the attribute. */
	if (!dev->cu.PointerGetAttribute(&pool, CUABI_POINTER_MEMPOOL_HANDLE,
					 p) && pool)
		return fail(-EOPNOTSUPP, "cuda: memory of a pool "
			    "(cudaMallocAsync) has no dma-buf");
	if (host ? dev->version >= 13000 && !dev->exports_host :
		   !dev->exports)
		return fail(-EOPNOTSUPP, "cuda: %s exports no %s memory "
			    "(attribute %d)", dev->queue.info.driver,
			    host ? "host" : "device",
			    host ? CUABI_ATTR_HOST_ALLOC_DMA_BUF_SUPPORTED :
				   CUABI_ATTR_DMA_BUF_SUPPORTED);
	return 0;
}

int cuda_export(struct queue_device *dev, struct queue_range *pages,
		uint32_t flags, int *fd)
{
	cuda_result result = CUDA_RESULT(&to_cuda(dev)->cu, MemGetHandleForAddressRange,
		fd, pages->base, pages->bytes, CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
		flags & DLBUF_EXPORT_PCIE ?
		CUABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE : 0);
	int ret = cuda_done(dev, result, CUDA_FUNCTION(MemGetHandleForAddressRange));

	/* The arguments are right, so this memory cannot become a dma-buf. */
	return result == CUABI_INVALID_VALUE ? -EOPNOTSUPP : ret;
}
