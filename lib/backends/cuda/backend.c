// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <errno.h>

#include "../../backend.h"
#include "api.h"

BACKEND_DECLARE(cuda);

static int cuda_each(const struct backend *backend, dlbuf_device_fn fn,
		     void *data)
{
	struct cuda_api cu;
	void *library = NULL;
	int ret = cuda_load(&cu, &library);

	(void)backend, (void)fn, (void)data;
	if (ret)
		return ret;
	dlclose(library);
	return fail(-ENODEV, "cuda: being written");
}

static int cuda_open(const char *selector, struct dlbuf_device **out)
{
	struct cuda_api cu;
	void *library = NULL;
	int ret = cuda_load(&cu, &library);

	(void)selector, (void)out;
	if (ret)
		return ret;
	dlclose(library);
	return fail(-ENODEV, "cuda: being written");
}

static void cuda_close(struct dlbuf_device *dev)
{
	(void)dev;
}

static void cuda_describe(struct dlbuf_device *dev, struct dlbuf_device_info *i)
{
	(void)dev, (void)i;
}

static int cuda_import(struct import *imp)
{
	(void)imp;
	return fail(-EIO, "cuda: being written");
}

static void cuda_unimport(struct import *imp)
{
	(void)imp;
}

static int cuda_acquire(struct import *imp, uint32_t access, void *s, int fence)
{
	(void)imp, (void)access, (void)s, (void)fence;
	return 0;
}

static int cuda_release(struct import *imp, uint32_t access, void *s, int *f)
{
	(void)imp, (void)access, (void)s, (void)f;
	return 0;
}

const struct backend cuda_backend = {
	.name = "cuda", .type = kDLCUDA, .streams = true,
	.import_size = sizeof(struct import),
	.each = cuda_each, .open = cuda_open, .close = cuda_close,
	.describe = cuda_describe, .import = cuda_import,
	.unimport = cuda_unimport, .acquire = cuda_acquire,
	.release = cuda_release,
};
