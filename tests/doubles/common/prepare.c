// SPDX-License-Identifier: MIT
/* See prepare.h. */
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "prepare.h"

const char prepare_text[] =
#define PROGRAM(...) #__VA_ARGS__
#include "../../../lib/prepare/kernel.h"
	;

typedef uint8_t uchar;

static uint32_t item_x, item_y, item_z;

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
#define ITEM_Z item_z
#undef PROGRAM
#define PROGRAM(...) __VA_ARGS__
#include "../../../lib/prepare/kernel.h"

_Static_assert(sizeof(struct run) == PREPARE_RUN_BYTES, "");

/* The first and the last tap of each output. */
static bool reads_within(const struct program *g, const struct run *r, uint c, size_t bytes)
{
	const uint *x = (const uint *)(g + 1) + g->components[c].x;
	const uint *y = (const uint *)(g + 1) + g->components[c].y;
	uint sample = g->bits / 8, step = g->components[c].step * sample;

	for (uint j = 0; j < 2 * y[1]; j++) {
		uint row = y[2 + j / 2] + j % 2 * (y[0] - 1);

		for (uint i = 0; i < 2 * x[1]; i++) {
			uint column = x[2 + i / 2] + i % 2 * (x[0] - 1);
			uint at = r->at[c] + row * r->pitches[c] +
				  g->components[c].first * sample + column * step;

			if (at > bytes || bytes - at < sample)
				return false;
		}
	}
	return true;
}

/* The corners of an image are the ends of the written range. */
static const char *check_image(uint8_t *const buffers[PREPARE_BUFFERS],
			       const size_t bytes[PREPARE_BUFFERS], const struct run *r, uint image)
{
	const size_t skip = (size_t)4 * r->words * image;
	const struct program *g = (const struct program *)(buffers[4] + skip);
	uint value;

	if (bytes[4] < skip + sizeof(*g) || (uintptr_t)g % 4)
		return "there are no tables";
	for (uint c = 0; c < g->ncomponents; c++)
		if (!reads_within(g, r, c, bytes[c]))
			return "it reads beyond a plane";
	value = g->store <= 1 ? 1 : g->store == 4 ? 4 : 2;
	for (uint i = 0; i < 4 * g->nout; i++) {
		uint at = r->to + (i & 1 ? g->width - 1 : 0) * r->step_x +
			  (i & 2 ? g->height - 1 : 0) * r->step_y + i / 4 * r->step_channel +
			  image * r->step_image;

		if (at > bytes[3] || bytes[3] - at < value)
			return "it writes beyond the tensor";
		if (((uintptr_t)buffers[3] + at) % value)
			return "it writes values that are not aligned";
	}
	return NULL;
}

const char *prepare_check(uint8_t *const buffers[PREPARE_BUFFERS],
			  const size_t bytes[PREPARE_BUFFERS], const void *run, uint32_t images)
{
	const char *why = NULL;
	struct run r;

	memcpy(&r, run, sizeof(r));
	for (uint32_t i = 0; i < images && !why; i++)
		why = check_image(buffers, bytes, &r, i);
	return why;
}

void prepare_kernel(uint8_t *const buffers[PREPARE_BUFFERS], const void *run, uint32_t items_x,
		    uint32_t items_y, uint32_t images)
{
	struct run r;

	memcpy(&r, run, sizeof(r));
	for (item_z = 0; item_z < images; item_z++)
		for (item_y = 0; item_y < items_y; item_y++)
			for (item_x = 0; item_x < items_x; item_x++)
				prepare(buffers[0], buffers[1], buffers[2], buffers[3],
					(const uint *)(const void *)buffers[4], r);
}
