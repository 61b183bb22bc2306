// SPDX-License-Identifier: MIT
/*
 * CUDA: an import is the first of several paths that the driver takes, an access
 * is a wait of the stream for the fences, and an event of its end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

/* ---------------------------------------------------------------- contexts */

int cuda_enter(struct cuda_device *dev, struct cuda_scope *scope)
{
	cuda_context current = NULL;
	int ret;

	scope->mode = CUABI_STREAM_CAPTURE_MODE_RELAXED;
	scope->pushed = false;
	ret = CUDA_CALL(&dev->cu, CtxGetCurrent, &current);
	if (!ret && current != dev->context) {
		ret = CUDA_CALL(&dev->cu, CtxPushCurrent, dev->context);
		scope->pushed = !ret;
	}
	/* Fails where there is no capture to speak of, which is as good. */
	if (!ret)
		dev->cu.ThreadExchangeStreamCaptureMode(&scope->mode);
	return ret;
}

void cuda_enter_to_free(struct cuda_device *dev, struct cuda_scope *scope)
{
	cuda_context current = NULL;

	scope->mode = CUABI_STREAM_CAPTURE_MODE_RELAXED;
	dev->cu.CtxGetCurrent(&current);
	scope->pushed = current != dev->context &&
			!dev->cu.CtxPushCurrent(dev->context);
	dev->cu.ThreadExchangeStreamCaptureMode(&scope->mode);
}

void cuda_leave(struct cuda_device *dev, const struct cuda_scope *scope)
{
	int mode = scope->mode;
	cuda_context popped;

	dev->cu.ThreadExchangeStreamCaptureMode(&mode);
	if (scope->pushed)
		dev->cu.CtxPopCurrent(&popped);
}

int cuda_done(struct cuda_device *dev, cuda_result result, const char *call)
{
	if (cuda_is_lost(result))
		cuda_lost(dev);
	return cuda_check(&dev->cu, result, call);
}

int cuda_done_locked(struct cuda_device *dev, cuda_result result,
		     const char *call)
{
	if (cuda_is_lost(result))
		cuda_lost_locked(dev);
	return cuda_check(&dev->cu, result, call);
}

/* ---------------------------------------------------------------- devices */

void cuda_ref(struct cuda_device *dev)
{
	__atomic_fetch_add(&dev->refs, 1, __ATOMIC_RELAXED);
}

void cuda_unref(struct cuda_device *dev)
{
	struct cuda_scope scope;

	if (__atomic_sub_fetch(&dev->refs, 1, __ATOMIC_ACQ_REL))
		return;
	cuda_enter_to_free(dev, &scope);
	cuda_settle(dev);
	cuda_bridge_close(dev);
	cuda_egl_close(dev);
	cuda_works_free(dev);
	cuda_flags_free(dev);
	cuda_leave(dev, &scope);
	if (dev->primary)
		dev->cu.DevicePrimaryCtxRelease(dev->gpu.handle);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

int cuda_device_create(const struct cuda_api *cu, const struct cuda_gpu *gpu,
		       cuda_context context, bool primary, uint32_t flags,
		       struct cuda_device **out)
{
	struct cuda_device *dev = sys_calloc(1, sizeof(*dev));
	struct cuda_scope scope;
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
	dev->refs = 1;
	dev->base.dl.device_id = gpu->ordinal;
	snprintf(dev->base.name, sizeof(dev->base.name), "cuda:%d",
		 gpu->ordinal);
	pthread_mutex_init(&dev->lock, NULL);
	ret = cuda_enter(dev, &scope);
	if (ret) {
		cuda_unref(dev);
		return ret;
	}
	dev->memops = cuda_has_memops(dev);
	if (!(flags & DLBUF_DEVICE_NO_BRIDGE))
		cuda_bridge_open(dev);
	else
		snprintf(dev->caps.why_not, sizeof(dev->caps.why_not),
			 "DLBUF_DEVICE_NO_BRIDGE");
	if (flags & DLBUF_DEVICE_EGL)
		cuda_egl_open(dev);
	cuda_leave(dev, &scope);
	dev->base.acquire_sync = dev->caps.fences_in || dev->memops ?
				 DLBUF_SYNC_FENCE : DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = dev->caps.fences_out ? DLBUF_SYNC_FENCE :
							DLBUF_SYNC_EVENT;
	*out = dev;
	return 0;
}

struct selector {
	enum { FIRST, BY_INDEX, BY_UUID, BY_NAME } by;
	const char *text;
	unsigned long index;
	uint8_t uuid[16];
};

static int parse_uuid(const char *hex, uint8_t uuid[16])
{
	size_t n = strlen(hex);

	if (n != 32 || strspn(hex, "0123456789abcdefABCDEF") != n)
		return fail(-EINVAL, "cuda: uuid=%s is not 32 hexadecimal "
			    "digits", hex);
	for (size_t i = 0; i < 16; i++) {
		char byte[3] = { hex[2 * i], hex[2 * i + 1] };

		uuid[i] = strtoul(byte, NULL, 16);
	}
	return 0;
}

static int parse_selector(const char *text, struct selector *s)
{
	*s = (struct selector){ .by = FIRST, .text = text };
	if (!strncmp(text, "uuid=", 5)) {
		s->by = BY_UUID;
		return parse_uuid(text + 5, s->uuid);
	}
	if (*text && strspn(text, "0123456789") == strlen(text)) {
		s->by = BY_INDEX;
		s->index = strtoul(text, NULL, 10);
	} else if (*text) {
		s->by = BY_NAME;
	}
	return 0;
}

static bool selects(const struct selector *s, const struct cuda_gpu *gpu)
{
	switch (s->by) {
	case FIRST:
		return true;
	case BY_INDEX:
		return (unsigned long)gpu->ordinal == s->index;
	case BY_UUID:
		return !memcmp(s->uuid, gpu->info.uuid, sizeof(s->uuid));
	case BY_NAME:
		return strcasestr(gpu->info.description, s->text);
	}
	return false;
}

static int select_gpu(const struct cuda_api *cu, const char *text,
		      struct cuda_gpu *gpu)
{
	struct selector s;
	int ret, n = 0;

	ret = parse_selector(text, &s);
	if (!ret)
		ret = count_gpus(cu, &n);
	for (int i = 0; !ret && i < n; i++) {
		ret = cuda_gpu_probe(cu, i, gpu);
		if (!ret && selects(&s, gpu))
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
		*out = &dev->base;
	return ret;
}

/* What waits for fences keeps the rest until it has seen these signal. */
static void cuda_close(struct dlbuf_device *base)
{
	struct cuda_device *dev = to_cuda(base);
	struct cuda_scope scope;

	cuda_enter_to_free(dev, &scope);
	cuda_waits_finish(dev);
	cuda_leave(dev, &scope);
	cuda_unref(dev);
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
	const struct dlbuf_device_info *known = &to_cuda(dev)->gpu.info;

	memcpy(info->description, known->description,
	       sizeof(info->description));
	memcpy(info->driver, known->driver, sizeof(info->driver));
	memcpy(info->uuid, known->uuid, sizeof(info->uuid));
	info->pitch_align = known->pitch_align;
	info->offset_align = known->offset_align;
	if (dev->acquire_sync == DLBUF_SYNC_BLOCKS)
		snprintf(info->reason, sizeof(info->reason), "blocks: the driver"
			 "'s streams do not wait for memory, and %.180s",
			 to_cuda(dev)->caps.why_not);
}

const struct backend cuda_backend = {
	.name = "cuda",
	.type = kDLCUDA,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.streams = true,
	.import_size = sizeof(struct cuda_import),
	.each = cuda_each,
	.open = cuda_open,
	.forked = cuda_forked,
	.close = cuda_close,
	.describe = cuda_describe,
	.import = cuda_import,
	.unimport = cuda_unimport,
	.check_stream = cuda_check_stream,
	.unordered = cuda_unordered,
	.acquire = cuda_acquire,
	.release = cuda_release,
	.wait = cuda_wait,
	.alloc = cuda_alloc,
	.export = cuda_export,
};
