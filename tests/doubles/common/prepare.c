// SPDX-License-Identifier: MIT
/* See prepare.h. */
#include <string.h>
#include <sys/types.h>

#include "prepare.h"

const char prepare_text[] =
#define PROGRAM(...) #__VA_ARGS__
#include "../../../lib/prepare/kernel.h"
	;

typedef uint8_t uchar;

static uint32_t item_x, item_y;

static float as_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint32_t as_uint(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

#define KERNEL static
#define FUNCTION static
#define GLOBAL
#define AS_FLOAT as_float
#define AS_UINT as_uint
/* Without libm: the sum has no room for a fraction. */
#define RINT(f) ((f) + 0x1.8p23f - 0x1.8p23f)
#define ITEM_X item_x
#define ITEM_Y item_y
#undef PROGRAM
#define PROGRAM(...) __VA_ARGS__
#include "../../../lib/prepare/kernel.h"

_Static_assert(sizeof(struct run) == PREPARE_RUN_BYTES, "");

void prepare_kernel(uint8_t *const buffers[PREPARE_BUFFERS], const void *run, uint32_t items_x,
		    uint32_t items_y)
{
	struct run r;

	memcpy(&r, run, sizeof(r));
	for (item_y = 0; item_y < items_y; item_y++)
		for (item_x = 0; item_x < items_x; item_x++)
			prepare(buffers[0], buffers[1], buffers[2], buffers[3],
				(const struct program *)buffers[4], r);
}
