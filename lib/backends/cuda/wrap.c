// SPDX-License-Identifier: MIT
/* dlbuf/cuda.h: devices for an application's context, and the context of a device. */
#include <errno.h>

#include "cuda.h"

/* Finds the device of a context, which is made current for that. */
static int find(struct queue_device *base, unsigned int n, const void *theirs)
{
	struct cuda_device *dev = to_cuda(base);
	const struct cuda_api *cu = &dev->cu;
	cuda_context popped;
	cuda_device of;
	int ret;

	dev->context = (cuda_context)theirs;
	if (cu->CtxPushCurrent(dev->context))
		return fail(-EINVAL, "context %p is not a CUcontext", theirs);
	ret = CUDA_CALL(cu, CtxGetDevice, &of);
	/* Its memory would be the primary context's: cuda_start() takes that. */
	if (cuda_is_green(cu))
		dev->context = NULL;
	cu->CtxPopCurrent(&popped);
	/* A CUdevice is a handle: the ordinal is the number whose cuDeviceGet() gives it. */
	for (unsigned int i = 0; !ret && i < n; i++) {
		ret = queue_probe(base, i);
		if (!ret && dev->handle == of)
			return 0;
	}
	return ret ? ret : fail(-ENODEV, "cuda: no device has context %p", theirs);
}

int dlbuf_device_wrap_cuda(void *context, const struct dlbuf_device_opts *opts,
			   struct dlbuf_device **out)
{
	NOT_CANCELLED;
	if (!context || !out)
		return fail(-EINVAL, "%s is NULL", context ? "out" : "context");
	return queue_wrap(&cuda_backend, &cuda_ops, find, context, opts, out);
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
		.ordinal = base->dl.device_id,
		.driver = dev->version,
	}), "dlbuf_cuda_device");
}
