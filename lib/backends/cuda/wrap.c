// SPDX-License-Identifier: MIT
/* dlbuf/cuda.h: devices for an application's context, and the context of a device. */
#include <errno.h>

#include "cuda.h"

/* Finds the device of a context, which is made current for that. */
static int device_of(const struct cuda_api *cu, cuda_context ctx,
		     struct cuda_gpu *gpu)
{
	cuda_context popped;
	cuda_device of;
	int ret, ordinal = 0;

	if (cu->CtxPushCurrent(ctx))
		return fail(-EINVAL, "context %p is not a CUcontext",
			    (void *)ctx);
	ret = CUDA_CALL(cu, CtxGetDevice, &of);
	cu->CtxPopCurrent(&popped);
	/* A CUdevice is a handle: the ordinal is the number whose cuDeviceGet() gives it. */
	while (!ret) {
		ret = cuda_gpu_probe(cu, ordinal++, gpu);
		if (!ret && gpu->handle == of)
			break;
	}
	return ret;
}

int dlbuf_device_wrap_cuda(void *context, const struct dlbuf_device_opts *opts,
			   struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct dlbuf_device_opts o;
	struct cuda_device *dev;
	struct cuda_api cu;
	struct cuda_gpu gpu;
	int ret;

	if (!context || !out)
		return fail(-EINVAL, "%s is NULL", context ? "out" : "context");
	ret = device_opts_get(&cuda_backend, &o, opts);
	if (!ret)
		ret = cuda_load(&cu);
	if (!ret)
		ret = device_of(&cu, context, &gpu);
	if (!ret)
		ret = cuda_device_create(&cu, &gpu, context, false, o.flags,
					 &dev);
	if (ret)
		return ret;
	device_init(&dev->queue.base, &cuda_backend, &o);
	log_at(DLBUF_LOG_INFO, "wrapped a CUcontext as %s", dev->queue.base.name);
	*out = &dev->queue.base;
	return 0;
}

int dlbuf_cuda_get_device(struct dlbuf_device *base,
			  struct dlbuf_cuda_device *cuda)
{
	struct cuda_device *dev;
	int ret = device_check(base);

	if (ret)
		return ret;
	if (base->backend != &cuda_backend)
		return fail(-EINVAL, "%s is not a CUDA device", base->name);
	dev = cuda_device_of(base);
	return INFO_PUT(cuda, (&(struct dlbuf_cuda_device){
		.context = dev->context,
		.ordinal = dev->gpu.ordinal,
		.driver = dev->gpu.version,
	}), "dlbuf_cuda_device");
}
