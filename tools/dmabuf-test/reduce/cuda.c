// SPDX-License-Identifier: MIT
/*
 * The checksum of what a CUDA device's copy engine reads: there is no compiler
 * for its own code here. The driver is the one that dlbuf has loaded.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/cuda.h>

#include "reduce.h"
#include "tool.h"

struct cuda {
	int (*push)(void *context);
	int (*pop)(void **context);
	/* Of the legacy default stream, over when it returns. */
	int (*copy)(void *to, uint64_t from, size_t bytes);
	void *library, *context;
};

static int load(struct cuda *cu)
{
	const struct {
		const char *name;
		void *fn;
	} list[] = {
		{ "cuCtxPushCurrent_v2", &cu->push },
		{ "cuCtxPopCurrent_v2", &cu->pop },
		{ "cuMemcpyDtoH_v2", &cu->copy },
	};
	const char *file = secure_getenv("DLBUF_CUDA_LIBRARY");

	cu->library = dlopen(file && *file ? file : "libcuda.so.1", RTLD_NOW);
	if (!cu->library)
		return fail(STATUS_ABSENT, "%s", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		void *symbol = dlsym(cu->library, list[i].name);

		if (!symbol)
			return fail(STATUS_ABSENT, "%s", dlerror());
		memcpy(list[i].fn, &symbol, sizeof(symbol));
	}
	return 0;
}

static void cuda_close(void *ctx)
{
	struct cuda *cu = ctx;

	if (cu->library)
		dlclose(cu->library);
	free(cu);
}

static int cuda_open(struct dlbuf_device *dev, void **ctx)
{
	struct dlbuf_cuda_device info = { .size = sizeof(info) };
	struct cuda *cu = calloc(1, sizeof(*cu));
	int status = 0;

	if (!cu)
		return fail(STATUS_SYSTEM, "no memory for a CUDA device");
	if (dlbuf_cuda_get_device(dev, &info))
		status = fail(STATUS_SYSTEM, "%s", dlbuf_last_error());
	if (!status)
		status = load(cu);
	if (status) {
		cuda_close(cu);
		return status;
	}
	cu->context = info.context;
	*ctx = cu;
	return 0;
}

static int reduce_one(struct cuda *cu, const DLTensor *t, uint32_t plane,
		      struct checksum *out)
{
	struct rows rows;
	size_t bytes;
	void *copy;
	int result;

	if (rows_of(t, &rows))
		return fail(STATUS_SYSTEM, "plane %u on cuda has strides that "
			    "are not rows", plane);
	bytes = rows.rows ? (rows.rows - 1) * rows.pitch + rows.bytes : 0;
	copy = malloc(bytes ? bytes : 1);
	if (!copy)
		return fail(STATUS_SYSTEM, "no memory for a plane");
	result = bytes ? cu->copy(copy, (uintptr_t)t->data + rows.offset,
				  bytes) : 0;
	rows.offset = 0;
	if (!result)
		*out = checksum_rows(copy, &rows);
	free(copy);
	return result ? fail(STATUS_SYSTEM, "cuMemcpyDtoH of plane %u: %d",
			     plane, result) : 0;
}

static int cuda_reduce(void *ctx, DLManagedTensorVersioned *const tensors[],
		       uint32_t n, uint64_t timeout_ns, struct checksum out[])
{
	struct cuda *cu = ctx;
	void *popped;
	int status = 0;

	(void)timeout_ns; /* a copy has no deadline */
	if (cu->push(cu->context))
		return fail(STATUS_SYSTEM, "cuCtxPushCurrent failed");
	for (uint32_t i = 0; i < n && !status; i++)
		status = reduce_one(cu, &tensors[i]->dl_tensor, i, &out[i]);
	cu->pop(&popped);
	return status;
}

const struct reducer cuda_reducer = {
	.type = kDLCUDA,
	.open = cuda_open,
	.close = cuda_close,
	.reduce = cuda_reduce,
};
