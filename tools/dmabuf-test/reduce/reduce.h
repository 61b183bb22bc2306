/* SPDX-License-Identifier: MIT */
/*
 * A plane reduced to two numbers, by reading every byte of it: on the device
 * that it was imported to, and on the CPU, to be compared.
 */
#ifndef DMABUF_TEST_REDUCE_H
#define DMABUF_TEST_REDUCE_H

#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#include "camera/rows.h"

/*
 * Modulo 2^32, over byte b of row y at x:
 *	sum	b
 *	hash	b * (((x * 2654435761) ^ (y * 40503)) | 1)
 * A byte that is missing, doubled or in another place changes one of them.
 */
struct checksum {
	uint32_t sum, hash;
};

/* The rows of a DLPack tensor; -1: its inner dimensions are not compact. */
int rows_of(const DLTensor *tensor, struct rows *rows);

/* Over rows at base. */
struct checksum checksum_rows(const void *base, const struct rows *rows);

struct reducer {
	DLDeviceType type;
	/* What it takes to compute on dev; dev is borrowed until close(). */
	int (*open)(struct dlbuf_device *dev, void **ctx);
	void (*close)(void *ctx);
	/* n acquired tensors, done when it returns; 0 or an exit status. */
	int (*reduce)(void *ctx, DLManagedTensorVersioned *const tensors[],
		      uint32_t n, uint64_t timeout_ns, struct checksum out[]);
};

/* tools/reduce_NAME.c has one for each backend whose devices it can compute on. */
#define REDUCER(name) extern const struct reducer name##_reducer;
#include "generated/reducers.h"
#undef REDUCER

/* NULL: this tool cannot compute on such a device. */
const struct reducer *reducer_find(DLDeviceType type);

#endif /* DMABUF_TEST_REDUCE_H */
