// SPDX-License-Identifier: MIT
/* Accesses to a tensor's memory by a HIP device, on the default stream. */
#define LIBRARY "libamdhip64.so"
#define VARIABLE "DLBUF_HIP_LIBRARY"
#define DOUBLE "fake_hip"
#define STREAM NULL
#define CALLS "hipHostMalloc", "hipHostFree", "hipMemcpyDtoHAsync",		\
	"hipMemcpyHtoDAsync", "hipEventCreateWithFlags", "hipEventDestroy",	\
	"hipEventRecord", "hipEventQuery", "hipEventSynchronize"

#include "driver.h"

#include <dlbuf/hip.h>

static struct {
	int (*get)(int *device);
	int (*set)(int device);
} hip;

static int load_scope(void)
{
	static const char *const names[] = { "hipGetDevice", "hipSetDevice" };

	return load_symbols(names, &hip, 2);
}

static int enter(struct dlbuf_device *dev, void **scope)
{
	DLBUF_INFO(dlbuf_hip_device, of);
	int before, ret = dlbuf_hip_get_device(dev, &of);

	if (ret || hip.get(&before) || hip.set(of.ordinal))
		return ret ? ret : -EIO;
	*scope = (void *)(intptr_t)before;
	return 0;
}

static void leave(void **scope)
{
	hip.set((int)(intptr_t)*scope);
}

ACCESS(hip, "hipMemcpyDtoHAsync");
