// SPDX-License-Identifier: MIT
/*
 * CUDA: finds and opens devices. An import takes the first path that the driver
 * accepts. An acquire makes the stream wait for the fences, a release records an
 * event. Both are in lib/queue, which calls ops.c.
 */
#include <errno.h>
#include <stdio.h>

#include "cuda.h"

static int attribute(const struct cuda_api *cu, int which, cuda_device gpu)
{
	int value = 0;

	/* A driver that does not know the attribute lacks the feature. */
	if (CUDA_RESULT(cu, DeviceGetAttribute, &value, which, gpu))
		return 0;
	return value;
}
#define HAS(name) attribute(cu, CUABI_ATTR_##name, dev->handle)

int cuda_count(struct queue_device *base, unsigned int *n)
{
	struct cuda_api *cu = &to_cuda(base)->cu;
	int devices = 0, ret = cuda_load(cu);

	if (!ret)
		ret = CUDA_CALL(cu, DeviceGetCount, &devices);
	*n = devices > 0 ? devices : 0;
	return ret;
}

int cuda_probe(struct queue_device *base, unsigned int n)
{
	struct cuda_device *dev = to_cuda(base);
	struct dlbuf_device_info *info = &base->info;
	struct cuda_uuid *uuid = (struct cuda_uuid *)info->uuid;
	const struct cuda_api *cu = &dev->cu;
	int ret;

	info->pitch_align = 256;
	info->offset_align = 256;
	/* Assumes that there is no bridge, because only opening the device finds it. */
	if (cu->StreamWaitValue32)
		info->acquire = DLBUF_SYNC_FENCE;
	ret = CUDA_CALL(cu, DeviceGet, &dev->handle, n);
	if (!ret)
		ret = CUDA_CALL(cu, DeviceGetName, info->description,
				sizeof(info->description), dev->handle);
	if (!ret)
		ret = CUDA_CALL(cu, DriverGetVersion, &dev->version);
	/* The newer call also distinguishes MIG instances of a GPU. */
	if (!ret)
		ret = cu->DeviceGetUuid_v2 ?
		      CUDA_CALL(cu, DeviceGetUuid_v2, uuid, dev->handle) :
		      CUDA_CALL(cu, DeviceGetUuid, uuid, dev->handle);
	if (ret)
		return ret;
	snprintf(info->driver, sizeof(info->driver), "CUDA %d.%d",
		 dev->version / 1000, dev->version % 1000 / 10);
	base->place.pci = PCI_ADDRESS(HAS(PCI_DOMAIN_ID), HAS(PCI_BUS_ID),
				      HAS(PCI_DEVICE_ID), 0);
	return 0;
}

bool cuda_is_green(const struct cuda_api *cu)
{
	cuda_context regular;
	cuda_green green;

	return cu->StreamGetCtx_v2 &&
	       !cu->StreamGetCtx_v2(CUABI_STREAM_LEGACY, &regular, &green) && green;
}

/* Opens the thread's current context, if it belongs to this GPU; or the primary one. */
static int find_context(struct cuda_device *dev)
{
	const struct cuda_api *cu = &dev->cu;
	cuda_device of;
	int ret;

	if (!dev->queue.base.wrapped && !cu->CtxGetCurrent(&dev->context) && dev->context &&
	    !cu->CtxGetDevice(&of) && of == dev->handle &&
	    !cuda_is_green(cu))
		return 0;
	ret = CUDA_CALL(cu, DevicePrimaryCtxRetain, &dev->context, dev->handle);
	dev->primary = !ret;
	return ret;
}

int cuda_start(struct queue_device *base, uint32_t flags)
{
	struct cuda_device *dev = to_cuda(base);
	const struct cuda_api *cu = &dev->cu;
	int ret = 0;

	dev->exports = HAS(DMA_BUF_SUPPORTED);
	dev->exports_host = HAS(HOST_ALLOC_DMA_BUF_SUPPORTED);
	base->orphans = true;
	base->slow_query = true; /* 1257 ns and 97 on an H200 */
	base->registers = HAS(HOST_REGISTER_SUPPORTED);
	base->registers_read_only = HAS(READ_ONLY_HOST_REGISTER_SUPPORTED);
	base->coherent = HAS(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	base->believed = HAS(INTEGRATED);
	base->flushes = cu->FlushGPUDirectRDMAWrites &&
		HAS(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
		CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST &&
		HAS(GPU_DIRECT_RDMA_WRITES_ORDERING) <
		CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
	base->waits_for_words = cu->StreamWaitValue32;
	base->no_bridge = flags & DLBUF_DEVICE_NO_BRIDGE ? "DLBUF_DEVICE_NO_BRIDGE" :
		HAS(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) ? NULL :
		"the driver shares no timeline semaphores";
	if (!dev->context)
		ret = find_context(dev);
	base->context = dev->context;
	return ret;
}

QUEUE_BACKEND(cuda,
	.type = kDLCUDA,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.alloc = queue_alloc,
	.export = queue_export,
#ifdef CONFIG_PREPARE_CUDA
	QUEUE_PROGRAMS
#endif
);
