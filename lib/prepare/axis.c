// SPDX-License-Identifier: MIT
/* The places and weights of the samples along one axis: docs/prepare.md, "Filters". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../system/internal.h"
#include "../system/sys.h"
#include "prepare.h"

double prepare_floor(double x)
{
	double whole;

	/* Such values are whole numbers that may not fit an int64_t. */
	if (x >= 0x1p62 || x <= -0x1p62)
		return x;
	whole = (double)(int64_t)x;
	return whole > x ? whole - 1 : whole;
}

double prepare_round(double x)
{
	double below = prepare_floor(x), part = x - below;

	if (part != .5)
		return part < .5 ? below : below + 1;
	return (int64_t)below % 2 ? below + 1 : below;
}

/* sin(pi * x) for 0 <= x <= 3, to 1e-12 */
static double sin_pi(double x)
{
	const double pi = 3.14159265358979323846;
	double sign = 1, term, sum, square;

	while (x > .5) {
		x = x - 1;
		sign = -sign;
	}
	x *= pi;
	square = x * x;
	term = sum = x;
	for (int i = 2; i < 20; i += 2) {
		term *= -square / (i * (i + 1));
		sum += term;
	}
	return sign * sum;
}

static double sinc(double x)
{
	return x < 1e-9 ? 1 : sin_pi(x) / (3.14159265358979323846 * x);
}

int prepare_grow(void **memory, size_t *room, struct arena *arena)
{
	size_t bytes = arena->taken;

	if (bytes > *room) {
		free(*memory);
		*memory = fault_hit() ? NULL : aligned_alloc(32, bytes);
		*room = *memory ? bytes : 0;
	}
	ASAN_UNPOISON_MEMORY_REGION(*memory, *room);
	*arena = (struct arena){ .memory = *memory };
	return *room ? 0 : fail(-ENOMEM, "no memory for %zu bytes of a plan", bytes);
}

static double kernel(enum dlbuf_filter filter, double x)
{
	const double a = -.5;

	if (x < 0)
		x = -x;
	switch (filter) {
	case DLBUF_FILTER_TRIANGLE:
		return x < 1 ? 1 - x : 0;
	case DLBUF_FILTER_CUBIC:
		if (x < 1)
			return ((a + 2) * x - (a + 3)) * x * x + 1;
		return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
	case DLBUF_FILTER_LANCZOS3:
		return x < 3 ? sinc(x) * sinc(x / 3) : 0;
	default:
		return 0;
	}
}

static double support_of(enum dlbuf_filter filter)
{
	return filter == DLBUF_FILTER_TRIANGLE ? 1 : filter == DLBUF_FILTER_CUBIC ? 2 : 3;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
	return x < low ? low : x > high ? high : x;
}

/* The samples [begin, end) of one output, limited to [low, high), and what their weights need. */
struct window {
	int64_t begin, end, low, high;
	double centre, scale, part;
};

static struct window window_of(enum dlbuf_filter filter, double from, double scale, uint32_t i,
			       int64_t low, int64_t high)
{
	struct window w = { .low = low, .high = high, .centre = from + (i + .5) * scale,
		.scale = scale > 1 ? scale : 1 };
	double a, b;

	switch (filter) {
	case DLBUF_FILTER_NEAREST:
		/* A position on a border belongs to the sample behind it, in spite of rounding. */
		w.begin = clamp((int64_t)prepare_floor(w.centre + 1e-9), low, high - 1);
		w.end = w.begin + 1;
		return w;
	case DLBUF_FILTER_BILINEAR:
		w.begin = (int64_t)prepare_floor(w.centre - .5);
		w.part = w.centre - .5 - w.begin;
		if (w.begin < low || w.begin >= high - 1) {
			w.begin = clamp(w.begin, low, high - 1);
			w.part = 0;
		}
		w.end = w.begin + (w.part ? 2 : 1);
		return w;
	case DLBUF_FILTER_AREA:
		a = prepare_floor(from + i * scale);
		b = -prepare_floor(-(from + (i + 1) * scale));
		break;
	default:
		a = prepare_floor(w.centre - support_of(filter) * w.scale + .5);
		b = prepare_floor(w.centre + support_of(filter) * w.scale + .5);
	}
	w.begin = clamp((int64_t)a, low, high - 1);
	w.end = clamp((int64_t)b, w.begin + 1, high);
	return w;
}

static double weight_of(enum dlbuf_filter filter, const struct window *w, double from,
			double scale, uint32_t i, int64_t j)
{
	double a, b;

	switch (filter) {
	case DLBUF_FILTER_NEAREST:
		return 1;
	case DLBUF_FILTER_BILINEAR:
		return j == w->begin ? 1 - w->part : w->part;
	case DLBUF_FILTER_AREA:
		a = from + i * scale;
		b = a + scale;
		/* The first and the last sample also count for the part beyond them. */
		return (b < j + 1 || j == w->high - 1 ? b : j + 1) - (a > j || j == w->low ? a : j);
	default:
		return kernel(filter, (j + .5 - w->centre) / w->scale);
	}
}

static int grow(struct axis *a, size_t padded, uint32_t taps)
{
	size_t first = padded * sizeof(*a->first), weights = padded * taps * sizeof(*a->weights);
	struct arena arena = { .taken = PART_BYTES(first) + PART_BYTES(weights) };

	if (prepare_grow(&a->memory, &a->room, &arena))
		return -ENOMEM;
	a->first = prepare_part(&arena, first);
	a->weights = prepare_part(&arena, weights);
	return 0;
}

/* As prepare_axis(), for DLBUF_FILTER_BILINEAR, in one pass: for small crops its cost matters. */
static void bilinear_axis(const struct axis_of *of, double scale, struct axis *out)
{
	const int32_t low = (int32_t)of->low, last = (int32_t)of->high - 1;
	uint32_t padded = (of->n + 7) & ~7u;
	float *left = out->weights, *right = left + padded;
	int32_t *to = out->first;
	bool two = false;

	for (uint32_t i = 0; i < padded; i++) {
		uint32_t at = of->begin + (i < of->n ? i : of->n - 1);
		double centre = of->from + (at + .5) * scale - .5, part;
		int32_t first = (int32_t)centre;

		/* prepare_floor() without a call: samples' numbers fit. */
		first -= first > centre;
		part = centre - first;
		/* The sample at the border is repeated. */
		if (first < low || first >= last) {
			first = first < low ? low : last;
			part = 0;
		}
		two |= part != 0;
		to[i] = first;
		left[i] = (float)(1 - part);
		right[i] = (float)part;
	}
	out->n = of->n;
	out->taps = two ? 2 : 1;
	/*
	 * Every output has `taps` samples. So outputs at the end of the row begin earlier, with
	 * weight 0 there.
	 */
	for (uint32_t i = padded; out->taps == 2 && i-- && out->first[i] == last;) {
		out->first[i]--;
		left[i] = 0;
		right[i] = 1;
	}
	out->low = (uint32_t)out->first[0];
	out->high = (uint32_t)out->first[padded - 1] + out->taps;
}

int prepare_axis(enum dlbuf_filter filter, double from, double length, uint32_t all,
		 uint32_t begin, uint32_t n, uint32_t low, uint32_t high, struct axis *out)
{
	const struct axis_of of = { from, length, all, begin, n, low, high };
	double scale = length / all;
	uint32_t taps = 1, padded = (n + 7) & ~7u;
	struct window w;

	if (!memcmp(&out->of, &of, offsetof(struct axis_of, high) + sizeof(of.high)))
		return 0;
	out->of = (struct axis_of){ 0 };
	if (filter == DLBUF_FILTER_BILINEAR) {
		if (grow(out, padded, 2))
			return -ENOMEM;
		bilinear_axis(&of, scale, out);
		out->of = of;
		return 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		w = window_of(filter, from, scale, begin + i, low, high);
		if (w.end - w.begin > taps)
			taps = w.end - w.begin;
	}
	if (grow(out, padded, taps))
		return -ENOMEM;
	out->n = n;
	out->taps = taps;
	out->low = high;
	out->high = low;
	for (uint32_t i = 0; i < padded; i++) {
		double sum = 0;
		int64_t first;

		w = window_of(filter, from, scale, begin + (i < n ? i : n - 1), low, high);
		/* As above, outputs at the end of the row begin earlier. */
		first = w.begin < (int64_t)high - taps ? w.begin : (int64_t)high - taps;
		out->first[i] = (int32_t)first;
		for (int64_t j = w.begin; j < w.end; j++)
			sum += weight_of(filter, &w, from, scale, begin + (i < n ? i : n - 1), j);
		for (uint32_t k = 0; k < taps; k++) {
			int64_t j = first + k;

			out->weights[(size_t)k * padded + i] = j < w.begin || j >= w.end ? 0 :
				(float)(weight_of(filter, &w, from, scale,
						  begin + (i < n ? i : n - 1), j) / sum);
		}
		if (first < out->low)
			out->low = (uint32_t)first;
		if (first + taps > out->high)
			out->high = (uint32_t)(first + taps);
	}
	out->of = of;
	return 0;
}
