// SPDX-License-Identifier: MIT
/* CUDA's memory as a dma-buf: what others have allocated, and our own. */
#include <errno.h>

#include <dlbuf/layout.h>

#include "../../fence.h"
#include "cuda.h"

/* Whole blocks of the driver's, so that nobody else's bytes are in the dma-buf. */
#define BLOCK (2u << 20)

static int check_exports(const struct cuda_device *dev)
{
	if (!dev->cu.MemGetHandleForAddressRange)
		return fail(-EOPNOTSUPP, "cuda: %s has no "
			    "cuMemGetHandleForAddressRange()",
			    dev->gpu.info.driver);
	return 0;
}

/* As a new fd of 3 or more. */
static int get_handle(struct cuda_device *dev, cuda_pointer p, size_t bytes,
		      uint32_t flags, int *out)
{
	unsigned long long how = flags & DLBUF_EXPORT_PCIE ?
		CUABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE : 0;
	int fd = -1, ret;

	ret = CUDA_DO(dev, MemGetHandleForAddressRange, &fd, p, bytes,
		      CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, how);
	return ret ? ret : raise_fd(fd, out);
}

/* ---------------------------------------------------------------- others' */

struct range {
	cuda_pointer start, base;
	size_t bytes, size;	/* of the tensor, of its allocation */
	bool host;
};

static int pointer_is(struct cuda_device *dev, cuda_pointer p, int attribute,
		      void *value)
{
	if (CUDA_RESULT(&dev->cu, PointerGetAttribute, value, attribute, p))
		return fail(-EINVAL, "%#llx is no memory of CUDA's: freed, or "
			    "never allocated", (unsigned long long)p);
	return 0;
}

/* Memory that the driver moves about, or gives out of a pool. */
static int check_kind(struct cuda_device *dev, cuda_pointer p, struct range *r)
{
	unsigned int type = 0, managed = 0;
	void *pool = NULL;
	int ordinal = -1, ret;

	ret = pointer_is(dev, p, CUABI_POINTER_MEMORY_TYPE, &type);
	if (!ret)
		ret = pointer_is(dev, p, CUABI_POINTER_DEVICE_ORDINAL, &ordinal);
	if (!ret)
		ret = pointer_is(dev, p, CUABI_POINTER_IS_MANAGED, &managed);
	if (ret)
		return ret;
	r->host = type == CUABI_MEMORYTYPE_HOST;
	if (managed)
		return fail(-EOPNOTSUPP, "cuda: managed memory has no dma-buf");
	if (!r->host && ordinal != dev->gpu.ordinal)
		return fail(-EINVAL, "the memory is of cuda:%d, not of %s",
			    ordinal, dev->queue.base.name);
	/* Drivers before 11.3 do not know the word. */
	if (!dev->cu.PointerGetAttribute(&pool, CUABI_POINTER_MEMPOOL_HANDLE,
					 p) && pool)
		return fail(-EOPNOTSUPP, "cuda: memory of a pool "
			    "(cudaMallocAsync) has no dma-buf");
	if (r->host ? dev->gpu.version >= 13000 && !dev->gpu.exports_host :
		      !dev->gpu.exports)
		return fail(-EOPNOTSUPP, "cuda: %s exports no %s memory "
			    "(attribute %d)", dev->gpu.info.driver,
			    r->host ? "host" : "device", r->host ?
			    CUABI_ATTR_HOST_ALLOC_DMA_BUF_SUPPORTED :
			    CUABI_ATTR_DMA_BUF_SUPPORTED);
	return 0;
}

/* What is documented for memory of the device, and else for any. */
static bool find_allocation(struct cuda_device *dev, cuda_pointer p,
			    struct range *r)
{
	return !CUDA_RESULT(&dev->cu, MemGetAddressRange, &r->base, &r->size,
			    p) ||
	       (!CUDA_RESULT(&dev->cu, PointerGetAttribute, &r->base,
			     CUABI_POINTER_RANGE_START_ADDR, p) &&
		!CUDA_RESULT(&dev->cu, PointerGetAttribute, &r->size,
			     CUABI_POINTER_RANGE_SIZE, p));
}

/* The bytes of the tensor, all of one allocation. */
static int find_range(struct cuda_device *dev, const DLTensor *t,
		      struct range *r)
{
	cuda_pointer p = (uintptr_t)t->data + t->byte_offset;
	uint64_t first, end;
	DLTensor layout = *t;
	int ret;

	ret = check_kind(dev, p, r);
	if (ret)
		return ret;
	if (!find_allocation(dev, p, r))
		return fail(-EINVAL, "%#llx is in no allocation",
			    (unsigned long long)p);
	layout.data = NULL;
	layout.byte_offset = p - r->base;
	ret = dlbuf_layout_extent(&layout, &first, &end);
	if (ret)
		return ret;
	if (end > r->size)
		return fail(-EINVAL, "the tensor ends %llu bytes after its "
			    "allocation of %zu", (unsigned long long)
			    (end - r->size), r->size);
	r->start = p;
	r->bytes = end - first;
	r->base += first;
	return 0;
}

int cuda_export(struct dlbuf_device *base, const DLTensor *tensor,
		const struct dlbuf_export_opts *opts,
		struct dlbuf_exported *out)
{
	struct cuda_device *dev = cuda_device_of(base);
	cuda_pointer page = sysconf(_SC_PAGESIZE), from, to;
	struct queue_scope scope;
	struct range r;
	int ret;

	if (tensor->device.device_type != kDLCUDA &&
	    tensor->device.device_type != kDLCUDAHost)
		return fail(-EINVAL, "the tensor is on a device of DLPack's type "
			    "%d, not on %s", tensor->device.device_type,
			    base->name);
	ret = check_exports(dev);
	if (!ret)
		ret = queue_enter(&dev->queue, &scope);
	if (ret)
		return ret;
	ret = find_range(dev, tensor, &r);
	if (!ret) {
		from = r.base & ~(page - 1);
		to = (r.base + r.bytes + page - 1) & ~(page - 1);
		ret = get_handle(dev, from, to - from, opts->flags, &out->fd);
		out->offset = r.start - from;
		out->bytes = to - from;
	}
	queue_leave(&dev->queue, &scope);
	return ret;
}

/* ---------------------------------------------------------------- ours */

static int clear(struct cuda_device *dev, struct queue_memory *m)
{
	void *stream;
	int ret = cuda_ops.stream_create(&dev->queue, &stream);

	return ret ? ret : queue_finish_own(&dev->queue, stream,
		CUDA_DO(dev, MemsetD8Async, m->data, 0, m->bytes, stream));
}

static int alloc(struct cuda_device *dev, struct queue_memory *m, int *fd)
{
	int ret = cuda_ops.alloc(m);

	if (ret)
		return ret;
	if (m->data & (sysconf(_SC_PAGESIZE) - 1))
		return fail(-EOPNOTSUPP, "cuda: cuMemAlloc() of %llu bytes gave "
			    "no whole pages", (unsigned long long)m->bytes);
	ret = clear(dev, m);
	return ret ? ret : get_handle(dev, m->data, m->bytes, 0, fd);
}

int cuda_alloc(struct import *imp)
{
	struct cuda_device *dev = cuda_device_of(imp->dev);
	struct queue_scope scope;
	struct queue_memory *m;
	int fd, ret;

	ret = check_exports(dev);
	if (!ret && !dev->gpu.exports)
		ret = fail(-EOPNOTSUPP, "cuda: %s exports no device memory "
			   "(attribute %d)", dev->gpu.info.driver,
			   CUABI_ATTR_DMA_BUF_SUPPORTED);
	if (!ret && imp->bytes > UINT64_MAX - BLOCK)
		ret = fail(-EOVERFLOW, "the size does not fit 64 bits in blocks "
			   "of the driver's");
	if (!ret)
		ret = queue_enter(&dev->queue, &scope);
	if (ret)
		return ret;
	ret = queue_memory_make(&dev->queue,
				(imp->bytes + BLOCK - 1) & ~(uint64_t)(BLOCK - 1),
				&m);
	if (!ret) {
		ret = alloc(dev, m, &fd);
		if (ret)
			queue_memory_drop(m);
	}
	queue_leave(&dev->queue, &scope);
	if (ret)
		return ret;
	container_of(imp, struct queue_import, base)->memory = m;
	imp->fd = fd;
	imp->bytes = m->bytes;
	imp->path = DLBUF_PATH_DIRECT;
	imp->data = (void *)m->data;
	return 0;
}
