// SPDX-License-Identifier: MIT
/* The checksum on the CPU, of a tensor's own data, shape and strides. */
#include "reduce.h"
#include "tool.h"

static int cpu_open(struct dlbuf_device *dev, void **ctx)
{
	(void)dev;
	*ctx = NULL;
	return 0;
}

static void cpu_close(void *ctx)
{
	(void)ctx;
}

static int cpu_reduce(void *ctx, DLManagedTensorVersioned *const tensors[],
		      uint32_t n, uint64_t timeout_ns, struct checksum out[])
{
	(void)ctx, (void)timeout_ns;
	for (uint32_t i = 0; i < n; i++) {
		const DLTensor *t = &tensors[i]->dl_tensor;
		struct rows rows;

		if (rows_of(t, &rows))
			return fail(STATUS_SYSTEM, "plane %u on cpu has "
				    "strides that are not rows", i);
		out[i] = checksum_rows(t->data, &rows);
	}
	return 0;
}

const struct reducer cpu_reducer = {
	.type = kDLCPU,
	.open = cpu_open,
	.close = cpu_close,
	.reduce = cpu_reduce,
};
