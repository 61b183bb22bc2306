/* SPDX-License-Identifier: MIT */
/* Comparisons for the adapters' tests: whole frames, colours, the rows of a picture. */
#ifndef TESTS_PICTURE_H
#define TESTS_PICTURE_H

#include <stdlib.h>
#include <string.h>

#include <dlbuf/layout.h>

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

/* The name of row i of a table. */
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
	SAME(0, orientation);
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

/* The number of a plane's rows that differ from those at `want`. */
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

/* libva's driver is next to the program. */
static inline void va_driver_beside_this(void)
{
	char self[4096] = "", *slash;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 && (slash = strrchr(self, '/')))
		*slash = '\0';
	setenv("LIBVA_DRIVERS_PATH", self, 1);
}

/* The device "cpu", new. */
static inline struct dlbuf_device *open_cpu(void)
{
	struct dlbuf_device *cpu = NULL;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	return cpu;
}

/* Memory as a camera's; skips the case where the kernel has no udmabuf. */
static inline struct dlbuf_udmabuf udmabuf_of(uint64_t bytes)
{
	struct dlbuf_udmabuf buf;

	if (dlbuf_udmabuf_create(bytes, NULL, &buf))
		SKIP("%s", dlbuf_last_error());
	return buf;
}
#define AUTO_UDMABUF __attribute__((cleanup(dlbuf_udmabuf_close)))

static inline void delete_tensors(DLManagedTensorVersioned **t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		t[i]->deleter(t[i]);
}

/* ---- at random */

/* The number of descriptors; DLBUF_RANDOM sets another one. */
static inline unsigned int random_rounds(void)
{
	const char *n = getenv("DLBUF_RANDOM");

	return n ? (unsigned int)atoi(n) : 100000;
}

static inline uint32_t dice(uint32_t sides)
{
	static uint64_t s = 88172645463325252ull;

	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return (uint32_t)(s >> 16) % sides;
}

/* A number at which something changes; sometimes any other. */
static inline uint32_t edge(void)
{
	static const uint32_t edges[] = { 0, 1, 2, 3, 4, 5, 7, 63, 64, 66, 128, 180, 322, 4096,
		6144, 65535, 65536, 1u << 20, INT32_MAX, 1u << 31, UINT32_MAX };

	return dice(8) ? edges[dice(sizeof(edges) / sizeof(edges[0]))] : dice(UINT32_MAX);
}

/* Mostly as before. */
#define MAY_CHANGE(field, value)						\
	do {									\
		if (!dice(4))							\
			(field) = (value);					\
	} while (0)

/*
 * Checks an adapter's frame: zeroes after a failure; otherwise no view has bytes beyond
 * its plane's. Returns whether it is a frame.
 */
static inline bool check_random(int ret, const struct dlbuf_frame *f)
{
	static const struct dlbuf_frame none = { .size = 0 };
	struct dlbuf_import_opts opts;
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	struct dlbuf_frame cropped = *f;
	uint64_t first, end;
	uint32_t n;

	memset(&opts, 0, sizeof(opts));
	opts.size = sizeof(opts);
	opts.view = (enum dlbuf_view)dice(DLBUF_NVIEWS);
	if (dice(2))
		memset(&cropped.crop, 0, sizeof(cropped.crop));
	if (ret)
		return !CHECK(ret < 0 && !memcmp(f, &none, sizeof(none)));
	if (dlbuf_frame_layouts(&cropped, &opts, l, &n) || opts.view == DLBUF_VIEW_STACKED)
		return true;
	for (uint32_t i = 0; i < n; i++) {
		const struct dlbuf_plane *p = &f->planes[l[i].plane < f->nplanes ?
							 l[i].plane : 0];

		if (p->bytes && p->offset + p->bytes > p->offset &&
		    !dlbuf_layout_extent(&l[i].layout, &first, &end))
			CHECK(end <= p->offset + p->bytes);
	}
	return true;
}

#ifndef __cplusplus

/* Makes a frame that no producer would send. */
static inline void spoil(struct dlbuf_frame *f, int fd)
{
	uint32_t i = dice(DLBUF_MAX_PLANES);

	MAY_CHANGE(f->planes[i].fd, dice(3) ? fd : -1);
	MAY_CHANGE(f->planes[i].offset, edge());
	MAY_CHANGE(f->planes[i].pitch, (int32_t)edge());
	MAY_CHANGE(f->nplanes, dice(6));
	MAY_CHANGE(f->width, edge());
	MAY_CHANGE(f->height, edge());
	MAY_CHANGE(f->crop.width, edge());
	MAY_CHANGE(f->crop.x, edge());
	MAY_CHANGE(f->timestamp_ns, (int64_t)edge() << dice(32));
	MAY_CHANGE(f->clock, dice(6));
	MAY_CHANGE(f->field, dice(9));
	MAY_CHANGE(f->flags, dice(8));
	MAY_CHANGE(f->colour.primaries, dice(256));
	MAY_CHANGE(f->colour.transfer, dice(256));
	MAY_CHANGE(f->colour.matrix, dice(256));
	MAY_CHANGE(f->colour.range, dice(4));
	MAY_CHANGE(f->colour.chroma_site, dice(256));
}

#endif /* __cplusplus */

#endif /* TESTS_PICTURE_H */
