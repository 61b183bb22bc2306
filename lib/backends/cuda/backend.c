// SPDX-License-Identifier: MIT
/*
 * CUDA: finds and opens devices. An import takes the first path that the driver
 * accepts. An acquire makes the stream wait for the fences, a release records an
 * event. Both are in lib/queue, which calls ops.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

static int attribute(const struct cuda_api *cu, int which, cuda_device gpu)
{
	int value = 0;

	/* A driver that does not know the attribute lacks the feature. */
	if (CUDA_RESULT(cu, DeviceGetAttribute, &value, which, gpu))
		return 0;
	return value;
}
#define HAS(name) attribute(cu, CUABI_ATTR_##name, gpu->handle)

int cuda_gpu_probe(const struct cuda_api *cu, int ordinal, struct cuda_gpu *gpu)
{
	struct dlbuf_device_info *info = &gpu->info;
	struct cuda_uuid *uuid = (struct cuda_uuid *)info->uuid;
	int ret;

	*gpu = (struct cuda_gpu){
		.ordinal = ordinal,
		.info = {
			.size = sizeof(*info),
			.backend = "cuda",
			.device = { kDLCUDA, ordinal },
			.pitch_align = 256,
			.offset_align = 256,
		},
	};
	ret = CUDA_CALL(cu, DeviceGet, &gpu->handle, ordinal);
	if (!ret)
		ret = CUDA_CALL(cu, DeviceGetName, info->description,
				sizeof(info->description), gpu->handle);
	if (!ret)
		ret = CUDA_CALL(cu, DriverGetVersion, &gpu->version);
	/* The newer call also distinguishes MIG instances of a GPU. */
	if (!ret)
		ret = cu->DeviceGetUuid_v2 ?
		      CUDA_CALL(cu, DeviceGetUuid_v2, uuid, gpu->handle) :
		      CUDA_CALL(cu, DeviceGetUuid, uuid, gpu->handle);
	if (ret)
		return ret;
	snprintf(info->driver, sizeof(info->driver), "CUDA %d.%d",
		 gpu->version / 1000, gpu->version % 1000 / 10);
	snprintf(info->name, sizeof(info->name), "cuda:%d", ordinal);
	gpu->place.pci = PCI_ADDRESS(HAS(PCI_DOMAIN_ID), HAS(PCI_BUS_ID),
				     HAS(PCI_DEVICE_ID), 0);
	return 0;
}

static int count_gpus(const struct cuda_api *cu, int *n)
{
	int ret = CUDA_CALL(cu, DeviceGetCount, n);

	if (!ret && *n <= 0)
		ret = fail(-ENODEV, "cuda: the driver has no device");
	return ret;
}

/* ---------------------------------------------------------------- devices */

int cuda_device_create(const struct cuda_api *cu, const struct cuda_gpu *gpu,
		       cuda_context context, bool primary, uint32_t flags,
		       struct cuda_device **out)
{
	struct cuda_device *dev = sys_calloc(1, sizeof(*dev));
	struct queue_scope scope;
	int ret;

	if (!dev) {
		if (primary)
			cu->DevicePrimaryCtxRelease(gpu->handle);
		return -ENOMEM;
	}
	dev->cu = *cu;
	dev->gpu = *gpu;
	dev->context = context;
	dev->primary = primary;
	dev->exports = HAS(DMA_BUF_SUPPORTED);
	dev->exports_host = HAS(HOST_ALLOC_DMA_BUF_SUPPORTED);
	dev->queue.registers = HAS(HOST_REGISTER_SUPPORTED);
	dev->queue.registers_read_only = HAS(READ_ONLY_HOST_REGISTER_SUPPORTED);
	dev->queue.coherent = HAS(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	dev->queue.believed = HAS(INTEGRATED);
	dev->queue.flushes = cu->FlushGPUDirectRDMAWrites &&
		HAS(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
		CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST &&
		HAS(GPU_DIRECT_RDMA_WRITES_ORDERING) <
		CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
	dev->queue.base.dl.device_id = gpu->ordinal;
	memcpy(dev->queue.base.name, gpu->info.name, sizeof(gpu->info.name));
	queue_init(&dev->queue, &cuda_ops);
	ret = queue_enter(&dev->queue, &scope);
	if (ret) {
		queue_unref(&dev->queue);
		return ret;
	}
	dev->queue.waits_for_words = cu->StreamWaitValue32 &&
				     queue_try_words(&dev->queue);
	queue_open_bridge(&dev->queue, gpu->info.uuid,
		flags & DLBUF_CUDA_NO_BRIDGE ? "DLBUF_CUDA_NO_BRIDGE" :
		HAS(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) ? NULL :
		"the driver shares no timeline semaphores");
	queue_leave(&dev->queue, &scope);
	*out = dev;
	return 0;
}

static int select_gpu(const struct cuda_api *cu, const char *text,
		      struct cuda_gpu *gpu)
{
	struct selector s;
	int ret, n;

	ret = count_gpus(cu, &n);
	if (!ret)
		ret = selector_begin(&s, "cuda", text, n);
	if (ret)
		return ret;
	while (selector_next(&s))
		if (selector_takes(&s, cuda_gpu_probe(cu, s.at, gpu),
				   &gpu->info, &gpu->place))
			return 0;
	return selector_none(&s);
}

/* Finds the thread's current context, if it belongs to this GPU. */
static bool current_context(const struct cuda_api *cu, cuda_device gpu,
			    cuda_context *ctx)
{
	cuda_device of;

	return !cu->CtxGetCurrent(ctx) && *ctx && !cu->CtxGetDevice(&of) &&
	       of == gpu;
}

static int cuda_open(const char *selector, const struct dlbuf_device_opts *opts,
		     struct dlbuf_device **out)
{
	struct cuda_device *dev;
	struct cuda_api cu;
	struct cuda_gpu gpu;
	cuda_context ctx;
	bool primary;
	int ret;

	ret = cuda_load(&cu);
	if (!ret)
		ret = select_gpu(&cu, selector, &gpu);
	if (ret)
		return ret;
	primary = !current_context(&cu, gpu.handle, &ctx);
	if (primary) {
		ret = CUDA_CALL(&cu, DevicePrimaryCtxRetain, &ctx, gpu.handle);
		if (ret)
			return ret;
	}
	ret = cuda_device_create(&cu, &gpu, ctx, primary, opts->flags, &dev);
	if (!ret)
		*out = &dev->queue.base;
	return ret;
}

static int cuda_each(const struct backend *backend, dlbuf_device_fn fn,
		     void *data)
{
	struct cuda_api cu;
	struct cuda_gpu gpu;
	int ret, n = 0;

	(void)backend;
	ret = cuda_load(&cu);
	if (!ret)
		ret = count_gpus(&cu, &n);
	for (int i = 0; !ret && i < n; i++) {
		ret = cuda_gpu_probe(&cu, i, &gpu);
		if (ret)
			break;
		/* Assumes that there is no bridge: only opening the device finds one. */
		gpu.info.acquire = cu.StreamWaitValue32 ? DLBUF_SYNC_FENCE :
							  DLBUF_SYNC_BLOCKS;
		gpu.info.release = DLBUF_SYNC_EVENT;
		ret = fn(&gpu.info, data);
	}
	return ret;
}

static void cuda_describe(struct dlbuf_device *dev,
			  struct dlbuf_device_info *info)
{
	queue_describe(dev, &cuda_device_of(dev)->gpu.info, info);
}

const struct backend cuda_backend = {
	.name = "cuda",
	.type = kDLCUDA,
	.flags = DLBUF_CUDA_NO_BRIDGE,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.import_size = sizeof(struct queue_import),
	.each = cuda_each,
	.open = cuda_open,
	.close = queue_close,
	.describe = cuda_describe,
	.import = queue_import,
	.unimport = queue_unimport,
	.stream = queue_stream,
	.acquire = queue_acquire,
	.release = queue_release,
	.wait = queue_wait,
	.pending = queue_pending,
	.drain = queue_drain,
	.alloc = queue_alloc,
	.export = queue_export,
};
