/* SPDX-License-Identifier: MIT */
/* What the adapters' tests compare: whole frames, colours, the rows of a picture. */
#ifndef TESTS_PICTURE_H
#define TESTS_PICTURE_H

#include <string.h>

#include "common.h"
#include "ktap.h"

#define FRAME(...) ((struct dlbuf_frame)PICTURE(__VA_ARGS__))

#define PLANE(number, at, row, most)						\
	{ .fd = (number), .offset = (at), .pitch = (row), .bytes = (most) }
#define COLOUR(p, t, m, r, site)						\
	{ .primaries = (p), .transfer = (t), .matrix = (m), .range = (r),	\
	  .chroma_site = (site) }

/* All fields, by value, but for the lease. */
#define CHECK_FRAME(got, want) check_frame(__FILE__, __LINE__, got, want)

static inline void check_field(const char *file, int line, const char *name, int i,
			       uint64_t got, uint64_t want)
{
	ktap_check(file, line, got == want, "%s of %d: 0x%llx, not 0x%llx", name, i,
		   (unsigned long long)got, (unsigned long long)want);
}
#define SAME(i, field) \
	check_field(file, line, #field, i, (uint64_t)got->field, (uint64_t)want.field)

static inline void check_colour(const char *file, int line, int i,
				const struct dlbuf_colour *got,
				struct dlbuf_colour want)
{
	SAME(i, primaries);
	SAME(i, transfer);
	SAME(i, matrix);
	SAME(i, range);
	SAME(i, chroma_site);
	SAME(i, hue);
}

/* Of the row i of a table. */
#define CHECK_COLOUR(i, got, want) \
	check_colour(__FILE__, __LINE__, (int)(i), got, want)

static inline void check_frame(const char *file, int line,
			       const struct dlbuf_frame *got,
			       struct dlbuf_frame want)
{
	SAME(0, size);
	SAME(0, width);
	SAME(0, height);
	SAME(0, code);
	SAME(0, code_space);
	SAME(0, modifier);
	SAME(0, nplanes);
	SAME(0, flags);
	for (int i = 0; i < DLBUF_MAX_PLANES; i++) {
		SAME(i, planes[i].fd);
		SAME(i, planes[i].offset);
		SAME(i, planes[i].pitch);
		SAME(i, planes[i].bytes);
	}
	SAME(0, crop.x);
	SAME(0, crop.y);
	SAME(0, crop.width);
	SAME(0, crop.height);
	check_colour(file, line, 0, &got->colour, want.colour);
	SAME(0, timestamp_ns);
	SAME(0, sequence);
	SAME(0, clock);
	SAME(0, field);
	SAME(0, order);
	SAME(0, fence);
}

/* How many rows of a plane differ from those at `want`. */
static inline uint64_t rows_differ(const DLTensor *t, const uint8_t *want, int64_t pitch)
{
	const uint8_t *at = (const uint8_t *)t->data + t->byte_offset;
	size_t value = t->dtype.bits / 8;
	size_t row = t->shape[1] * (t->ndim > 2 ? t->shape[2] : 1) * value;
	uint64_t bad = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		bad += !!memcmp(at + y * t->strides[0] * (int64_t)value,
				want + y * pitch, row);
	return bad;
}

/* None does, and they are not all 0. */
static inline void check_rows(const DLTensor *t, const uint8_t *want, int64_t pitch)
{
	static const uint8_t zeros[1 << 16] = { 0 };

	CHECK_EQ(rows_differ(t, want, pitch), 0);
	CHECK(rows_differ(t, zeros, 0) > 0);
}

static inline void delete_tensors(DLManagedTensorVersioned **t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		t[i]->deleter(t[i]);
}

#endif /* TESTS_PICTURE_H */
