// SPDX-License-Identifier: MIT
/* The checksum of rows, and who computes it on a device. */
#include <stddef.h>

#include "reduce.h"
#include "tool.h"

int rows_of(const DLTensor *t, struct rows *rows)
{
	uint32_t item = t->dtype.bits / 8 * t->dtype.lanes;
	int64_t compact = 1;

	if (!t->ndim || t->dtype.bits % 8)
		return -1;
	/* One row, of bytes. */
	if (t->ndim == 1) {
		if (t->strides[0] != 1 || t->shape[0] > UINT32_MAX / item)
			return -1;
		*rows = (struct rows){
			.offset = t->byte_offset,
			.rows = 1,
		};
		rows->pitch = rows->bytes = t->shape[0] * item;
		return 0;
	}
	for (int i = t->ndim - 1; i > 0; i--) {
		if (t->strides[i] != compact)
			return -1;
		compact *= t->shape[i];
	}
	if (t->strides[0] < compact || t->shape[0] > UINT32_MAX ||
	    compact > UINT32_MAX / item)
		return -1;
	*rows = (struct rows){
		.offset = t->byte_offset,
		.pitch = (uint64_t)t->strides[0] * item,
		.rows = t->shape[0],
		.bytes = compact * item,
	};
	return 0;
}

struct checksum checksum_rows(const void *base, const struct rows *rows)
{
	const uint8_t *row = (const uint8_t *)base + rows->offset;
	struct checksum c = { 0 };

	for (uint32_t y = 0; y < rows->rows; y++, row += rows->pitch) {
		uint32_t turn = y * 40503u;

		for (uint32_t x = 0; x < rows->bytes; x++) {
			c.sum += row[x];
			c.hash += row[x] * (((x * 2654435761u) ^ turn) | 1);
		}
	}
	return c;
}

const struct reducer *reducer_find(DLDeviceType type)
{
	static const struct reducer *const reducers[] = {
#define REDUCER(name) &name##_reducer,
#include "generated/reducers.h"
	};

	for (size_t i = 0; i < ARRAY_SIZE(reducers); i++)
		if (reducers[i]->type == type)
			return reducers[i];
	return NULL;
}
