// SPDX-License-Identifier: MIT
/*
 * CUDA: an import is the first of several paths that the driver takes, an access
 * is a wait of the stream for the fences, and an event of its end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../select.h"
#include "cuda.h"

static int attribute(const struct cuda_api *cu, int which, cuda_device gpu)
{
	int value = 0;

	/* What a driver is too old to know it has not got. */
	if (CUDA_RESULT(cu, DeviceGetAttribute, &value, which, gpu))
		return 0;
	return value;
}

static int describe_gpu(const struct cuda_api *cu, struct cuda_gpu *gpu)
{
	struct dlbuf_device_info *info = &gpu->info;
	struct cuda_uuid uuid = { { 0 } };
	int ret;

	ret = CUDA_CALL(cu, DeviceGetName, info->description,
			sizeof(info->description), gpu->handle);
	if (!ret)
		ret = CUDA_CALL(cu, DriverGetVersion, &gpu->version);
	/* The younger one tells the parts of a GPU (MIG) apart. */
	if (!ret)
		ret = cu->DeviceGetUuid_v2 ?
		      CUDA_CALL(cu, DeviceGetUuid_v2, &uuid, gpu->handle) :
		      CUDA_CALL(cu, DeviceGetUuid, &uuid, gpu->handle);
	if (ret)
		return ret;
	memcpy(info->uuid, &uuid, sizeof(info->uuid));
	snprintf(info->driver, sizeof(info->driver), "CUDA %d.%d",
		 gpu->version / 1000, gpu->version % 1000 / 10);
	snprintf(info->name, sizeof(info->name), "cuda:%d", gpu->ordinal);
	snprintf(info->backend, sizeof(info->backend), "cuda");
	info->size = sizeof(*info);
	info->device = (DLDevice){ kDLCUDA, gpu->ordinal };
	info->pitch_align = 256;
	info->offset_align = 256;
	return 0;
}

int cuda_gpu_probe(const struct cuda_api *cu, int ordinal, struct cuda_gpu *gpu)
{
	int ret;

	*gpu = (struct cuda_gpu){ .ordinal = ordinal };
	ret = CUDA_CALL(cu, DeviceGet, &gpu->handle, ordinal);
	if (!ret)
		ret = describe_gpu(cu, gpu);
	if (ret)
		return ret;
#define ATTRIBUTE(field, name) \
	gpu->field = attribute(cu, CUABI_ATTR_##name, gpu->handle)
	ATTRIBUTE(integrated, INTEGRATED);
	ATTRIBUTE(registers, HOST_REGISTER_SUPPORTED);
	ATTRIBUTE(registers_read_only, READ_ONLY_HOST_REGISTER_SUPPORTED);
	ATTRIBUTE(coherent, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	ATTRIBUTE(timelines, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
	ATTRIBUTE(exports, DMA_BUF_SUPPORTED);
	ATTRIBUTE(exports_host, HOST_ALLOC_DMA_BUF_SUPPORTED);
#undef ATTRIBUTE
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
		return fail(-ENOMEM, "no memory for a device");
	}
	dev->cu = *cu;
	dev->gpu = *gpu;
	dev->context = context;
	dev->primary = primary;
	dev->queue.registers = gpu->registers;
	dev->queue.registers_read_only = gpu->registers_read_only;
	dev->queue.coherent = gpu->coherent;
	dev->queue.believed = gpu->integrated;
	dev->queue.base.dl.device_id = gpu->ordinal;
	snprintf(dev->queue.base.name, sizeof(dev->queue.base.name), "cuda:%d",
		 gpu->ordinal);
	queue_init(&dev->queue, &cuda_ops);
	ret = queue_enter(&dev->queue, &scope);
	if (ret) {
		queue_unref(&dev->queue);
		return ret;
	}
	dev->queue.waits_for_words = cu->StreamWaitValue32 &&
				     queue_try_words(&dev->queue);
	queue_open_bridge(&dev->queue, gpu->info.uuid,
		flags & DLBUF_DEVICE_NO_BRIDGE ? "DLBUF_DEVICE_NO_BRIDGE" :
		gpu->timelines ? NULL :
		"the driver shares no timeline semaphores");
	queue_leave(&dev->queue, &scope);
	*out = dev;
	return 0;
}

static int select_gpu(const struct cuda_api *cu, const char *text,
		      struct cuda_gpu *gpu)
{
	struct selector s;
	int ret, n = 0;

	ret = selector_parse("cuda", text, &s);
	if (!ret)
		ret = count_gpus(cu, &n);
	for (int i = 0; !ret && i < n; i++) {
		ret = cuda_gpu_probe(cu, i, gpu);
		if (!ret && selector_matches(&s, i, &gpu->info))
			return 0;
	}
	return ret ? ret : fail(-ENODEV, "cuda: none of %d devices is '%s'", n,
				text);
}

/* The context that the thread works with, if it is this GPU's. */
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
		/* As a device is without Vulkan: opening tells for sure. */
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
	const struct dlbuf_device_info *known = &cuda_device_of(dev)->gpu.info;

	memcpy(info->description, known->description,
	       sizeof(info->description));
	memcpy(info->driver, known->driver, sizeof(info->driver));
	memcpy(info->uuid, known->uuid, sizeof(info->uuid));
	info->pitch_align = known->pitch_align;
	info->offset_align = known->offset_align;
	if (dev->acquire_sync == DLBUF_SYNC_BLOCKS)
		snprintf(info->reason, sizeof(info->reason), "blocks: the driver"
			 "'s streams do not wait for memory, and %.180s",
			 queue_device_of(dev)->caps.why_not);
}

const struct backend cuda_backend = {
	.name = "cuda",
	.type = kDLCUDA,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.import_size = sizeof(struct queue_import),
	.each = cuda_each,
	.open = cuda_open,
	.forked = cuda_forked,
	.close = queue_close,
	.describe = cuda_describe,
	.import = queue_import,
	.unimport = queue_unimport,
	.stream = queue_stream,
	.acquire = queue_acquire,
	.release = queue_release,
	.wait = queue_wait,
	.alloc = cuda_alloc,
	.export = cuda_export,
};
