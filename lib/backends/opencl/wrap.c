// SPDX-License-Identifier: MIT
/* dlbuf/opencl.h: devices of an application's context. */
#include <errno.h>
#include <stdlib.h>

#include "opencl.h"

/* Finds the device in the application's context, and then in the list of all. */
static int find(struct queue_device *base, unsigned int n, const void *data)
{
	struct opencl_device *dev = to_opencl(base);
	const struct dlbuf_opencl_device *theirs = data;
	cl_device_id devices[OPENCL_MAX_DEVICES], device = theirs->device;
	size_t bytes = 0, count, i;
	void *queue;
	int ret;

	ret = OPENCL_CALL(&dev->cl, GetContextInfo, theirs->context,
			  CL_CONTEXT_DEVICES, sizeof(devices), devices, &bytes);
	if (ret)
		return ret;
	count = bytes / sizeof(devices[0]);
	if (!device && count != 1)
		return fail(-EINVAL, "the context has %zu devices: cl.device must "
			    "name one", count);
	for (i = 0; device && i < count && devices[i] != device; i++)
		;
	if (i == count)
		return fail(-EINVAL, "device %p is not of the context",
			    (void *)device);
	device = devices[i];
	for (i = 0; i < n && dev->list[i].device != device; i++)
		;
	if (i == n)
		return fail(-EINVAL, "device %p is a part of a device, which "
			    "dlbuf does not use", (void *)device);
	dev->context = theirs->context;
	ret = queue_probe(base, i);
	if (!ret)
		ret = opencl_ops.stream(base, theirs->queue, false, &queue);
	dev->stream = theirs->queue;
	return ret;
}

int dlbuf_device_wrap_opencl(const struct dlbuf_opencl_device *theirs,
			     const struct dlbuf_device_opts *opts,
			     struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct dlbuf_opencl_device w;
	int ret;

	if (!theirs || !out)
		return fail(-EINVAL, "%s is NULL", theirs ? "out" : "cl");
	ret = OPTS_GET(&w, theirs, "dlbuf_opencl_device");
	if (!ret && !w.context)
		ret = fail(-EINVAL, "cl.context is NULL");
	return ret ? ret : queue_wrap(&opencl_backend, &opencl_ops, find, &w,
				      opts, out);
}

int dlbuf_opencl_get_device(struct dlbuf_device *base,
			    struct dlbuf_opencl_device *cl)
{
	struct opencl_device *dev;
	int ret = device_check(base);

	if (ret)
		return ret;
	if (base->backend != &opencl_backend)
		return fail(-EINVAL, "%s is not an OpenCL device", base->name);
	dev = opencl_device_of(base);
	return INFO_PUT(cl, (&(struct dlbuf_opencl_device){
		.platform = dev->platform,
		.device = dev->device,
		.context = dev->context,
		.queue = dev->stream,
	}), "dlbuf_opencl_device");
}
