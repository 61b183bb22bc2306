// SPDX-License-Identifier: MIT
/* Accesses to a tensor's memory by a CUDA device, on the legacy default stream. */
#define LIBRARY "libcuda.so.1"
#define VARIABLE "DLBUF_CUDA_LIBRARY"
#define DOUBLE "fake_cuda"
#define STREAM ((void *)1)
#define CALLS "cuMemHostAlloc", "cuMemFreeHost", "cuMemcpyDtoHAsync_v2",	\
	"cuMemcpyHtoDAsync_v2", "cuEventCreate", "cuEventDestroy_v2",		\
	"cuEventRecord", "cuEventQuery", "cuEventSynchronize"

#include "driver.h"

#include <dlbuf/cuda.h>

static struct {
	int (*push)(void *ctx);
	int (*pop)(void **ctx);
} cu;

static int load_scope(void)
{
	static const char *const names[] = {
		"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
	};

	return load_symbols(names, &cu, 2);
}

static int enter(struct dlbuf_device *dev, void **scope)
{
	DLBUF_INFO(dlbuf_cuda_device, cuda);
	int ret = dlbuf_cuda_get_device(dev, &cuda);

	return ret ? ret : cu.push(cuda.context) ? -EIO : 0;
}

static void leave(void **scope)
{
	cu.pop(scope);
}

ACCESS(cuda, "cuMemcpyDtoHAsync");
