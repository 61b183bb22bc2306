// SPDX-License-Identifier: MIT
/* Runs a plan on the CPU: row after row of the scaled picture, each source row read once. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../system/internal.h"
#include "prepare.h"

const struct prepare_kernels *prepare_choose(const struct byte_kernels **bytes)
{
#if defined(__x86_64__)
	/* __builtin_cpu_supports() would bring a constructor. */
	const unsigned int needed = bit_FMA | bit_AVX | bit_OSXSAVE | bit_F16C;
	unsigned int a, b, c, d, low, high;

	*bytes = NULL;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1))
		return &prepare_kernels;
	*bytes = &byte_kernels_sse41;
	if ((c & needed) != needed)
		return &prepare_kernels;
	/* The kernel keeps the registers' upper halves. */
	__asm__ ("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
	if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
		return &prepare_kernels;
	*bytes = &byte_kernels_avx2;
	return &prepare_kernels_avx2;
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	*bytes = &byte_kernels_neon;
	return &prepare_kernels;
#else
	*bytes = NULL;
	return &prepare_kernels;
#endif
}

static uint32_t value_bytes(enum sample sample)
{
	return sample == SAMPLE_U8 ? 1 : sample == SAMPLE_F32 ? 4 : 2;
}

static uint32_t store_bytes(enum store store)
{
	return store <= STORE_I8 ? 1 : store == STORE_F32 ? 4 : 2;
}

/* Components i and i + 1 are the values of one pair after the other: U and V. */
static bool paired(const struct source *s, uint32_t i)
{
	const struct component *c = &s->components[i], *next = c + 1;

	if (s->split)
		return s->pairs && i == 1;
	return i + 1 < s->ncomponents && next->plane == c->plane && c->step == 2 &&
		next->step == 2 && (next->first ^ c->first) == 1 && next->fine == c->fine;
}

/* Bytes from one sample of a component to the next: those of a word. */
static uint32_t word_bytes(const struct source *s, const struct component *c)
{
	return s->group.words ? s->group.bytes : c->step * value_bytes(s->sample);
}

/* Bytes of a row of n values of a ring. */
static size_t ring_row_bytes(const struct source *s, uint32_t n)
{
	return ((size_t)n + PREPARE_STRIP) * value_bytes(s->rows);
}

/* Values of a row of floats: whole vectors. */
static size_t row_of(const struct dlbuf_prepare *p)
{
	return ((size_t)p->width + 15) & ~(size_t)15;
}

/* Values of a mosaic's row before and behind its samples: whole vectors, and a part of a group. */
#define WIDE_MORE 28

/* The values of a plane's row that the components read, and how many rows are kept. */
static void find_ring(struct dlbuf_prepare *p, uint32_t plane)
{
	const struct source *s = &p->source;
	struct ring *r = &p->rings[plane];
	uint32_t begin = UINT32_MAX, end = 0, parts = 0;
	bool narrow = s->rows <= SAMPLE_U16;

	for (uint32_t i = 0; i < s->ncomponents; i++) {
		const struct component *c = &s->components[i];
		const struct axis *x = &p->x[c->fine];
		uint32_t step = p->split ? word_bytes(s, c) : c->step;
		uint32_t first = p->split ? 0 : c->first;
		uint32_t last = first + x->high * step - (p->split ? 0 : step - 1);

		if (c->plane != plane)
			continue;
		first += x->low * step;
		begin = first < begin ? first : begin;
		end = last > end ? last : end;
		r->axis = c->fine;
		narrow &= x->taps <= 2 && p->y[c->fine].taps <= 2;
		if (s->pairs && i) {
			p->origins[i] = (int64_t)parts - 2 * (int64_t)x->low + (c->first > 1);
			parts += i == 2 ? (2 * (x->high - x->low) + 15) & ~15u : 0;
			continue;
		}
		p->origins[i] = (int64_t)parts - x->low;
		parts += (x->high - x->low + 15) & ~15u;
	}
	if (!end)
		return;
	narrow |= p->ngroups > 0;
	if (s->packed.samples && !s->mosaic)
		begin -= begin % s->packed.samples;
	r->begin = begin;
	r->copied = end - begin;
	r->n = p->split ? parts : end - begin;
	/* A mosaic has a sample more at both sides, and begins within a group. */
	if (s->packed.samples) {
		uint32_t n = (s->mosaic ? r->copied + s->packed.samples + 1 : r->n);

		r->copied = (n + s->packed.samples - 1) / s->packed.samples * s->packed.bytes;
	} else if (s->group.words && !p->split) {
		r->copied = ((end - 1) / s->group.values - begin / s->group.values + 1) *
			s->group.words * s->group.bytes;
	}
	for (uint32_t i = 0; i < s->ncomponents && !p->split; i++)
		if (s->components[i].plane == plane)
			p->origins[i] = (int64_t)s->components[i].first - begin;
	r->direct = narrow;
	r->slots = p->wide.found ? p->wide.slots : narrow ? p->y[r->axis].taps : PREPARE_ROWS;
	r->bytes = PART_BYTES(ring_row_bytes(s, r->n));
	/* Whole groups of PREPARE_ROWS; of the first and last only a part may be needed. */
	r->scaled = narrow ? 0 : (p->y[r->axis].taps + 2 * PREPARE_ROWS - 2) & ~(PREPARE_ROWS - 1u);
}

/* Takes n parts, and returns the first. */
static void *take_array(struct arena *from, uint32_t n, size_t bytes)
{
	void *first = n ? prepare_part(from, bytes) : NULL;

	while (n-- > 1)
		prepare_part(from, bytes);
	return first;
}

/* Takes the memory of a band. */
static void band_init(const struct dlbuf_prepare *p, struct band *b, struct arena *from)
{
	const struct source *s = &p->source;
	size_t row = row_of(p) * sizeof(float), widest = 0, taps = 0, fetched = 0;

	prepare_bytes_band(p, b, from);
	for (uint32_t i = 0; i < s->nplanes; i++) {
		const struct ring *r = &p->rings[i];

		b->rows[i] = take_array(from, r->slots, ring_row_bytes(s, r->n));
		b->held[i] = prepare_part(from, r->slots * sizeof(**b->held));
		fetched = r->copied > fetched ? r->copied : fetched;
		if (r->direct)
			continue;
		widest = r->n > widest ? r->n : widest;
		taps = p->y[r->axis].taps > taps ? p->y[r->axis].taps : taps;
	}
	b->window = prepare_part(from, taps * sizeof(*b->window));
	b->weights = prepare_part(from, taps * sizeof(*b->weights));
	if (widest)
		b->columns = prepare_part(from, (widest + PREPARE_STRIP) * PREPARE_ROWS *
					  sizeof(float));
	b->converted = prepare_part(from, p->store == STORE_F32 ? 0 : row / 2);
	if (s->group.words || s->packed.samples || p->split)
		b->fetched = prepare_part(from, fetched + PREPARE_STRIP);
	b->wide_held = prepare_part(from, s->mosaic ? 3 * sizeof(*b->wide_held) : 0);
	b->sampled_held = prepare_part(from, 6 * sizeof(*b->sampled_held));
	for (uint32_t i = 0; i < 3; i++) {
		if (s->mosaic)
			b->wide[i] = prepare_part(from, (p->x[0].high - p->x[0].low + WIDE_MORE) *
						  value_bytes(s->rows));
		for (int k = 0; k < 2; k++)
			b->sampled[k][i] = prepare_part(from, row);
		b->in[i] = prepare_part(from, row);
		b->out[i] = prepare_part(from, row);
		if (i < s->ncomponents)
			b->scaled[i] = take_array(from, p->rings[s->components[i].plane].scaled,
						  row);
	}
}

/* Values from one sample of a component to the next in a row of a ring. */
static int32_t value_step(const struct dlbuf_prepare *p, const struct component *c)
{
	return !p->split ? c->step : p->source.pairs && c->fine ? 2 : 1;
}

/* Each of these values has a table for SHUFFLE, behind the component's places. */
#define VALUES_OF_A_PLACE 4

/*
 * Finds where the values of each place lie in the bytes behind the first of its 4 places. Returns
 * the number of windows of 16 bytes that contain them; 0: more than `most`, or more than
 * VALUES_OF_A_PLACE values.
 */
static uint32_t find_shuffles(const int32_t *places, uint32_t n, int32_t reach, int32_t value,
			      int32_t most, uint8_t *to)
{
	int32_t far = 0;

	if (reach >= VALUES_OF_A_PLACE)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		int32_t at = (places[i] - places[i & ~3u]) * value;

		far = at + (reach + 1) * value > far ? at + (reach + 1) * value : far;
		if (far > 16 * most)
			return 0;
		/* The rest of 32 bits becomes 0. Machines with the other order have no shuffles. */
		for (int k = 0; k <= reach; k++, at += value) {
			uint32_t word = value == 1 ? 0x80808000 | (uint32_t)at :
				0x80800100 + (uint32_t)at * 0x101;

			memcpy(to + ((size_t)k * n + i) * 4, &word, 4);
		}
	}
	/* For words there is code for `most` windows only. */
	return (uint32_t)(value > 1 ? most : (far + 15) / 16);
}

/* Takes the tables of the kernels, and the bands' memory. */
static void take_parts(struct dlbuf_prepare *p, struct arena *from)
{
	size_t table = ((size_t)p->width + 7) / 8 * 8 * sizeof(**p->places);
	struct band none;

	prepare_bytes_tables(p, from);
	for (uint32_t i = 0; i < p->source.ncomponents && !p->ngroups; i++) {
		p->places[i] = prepare_part(from, table);
		p->shuffles[i] = prepare_part(from, p->kernels->windows ?
					      VALUES_OF_A_PLACE * table : 0);
	}
	p->bands = prepare_part(from, p->nbands * sizeof(*p->bands));
	for (uint32_t i = 0; i < p->nbands; i++)
		band_init(p, p->bands ? &p->bands[i] : &none, from);
}

int prepare_scratch(struct dlbuf_prepare *p)
{
	uint32_t n = (p->width + 7) / 8 * 8;
	struct arena arena = { .taken = 0 };
	size_t total;

	p->row = PART_BYTES(row_of(p) * sizeof(float)) / sizeof(float);
	prepare_bytes_find(p);
	p->split = p->source.split && !p->ngroups;
	for (uint32_t i = 0; i < p->source.nplanes; i++)
		find_ring(p, i);
	p->nbands = p->opts.threads < p->height ? p->opts.threads : p->height;
	p->nbands = p->nbands ? p->nbands : 1;
	take_parts(p, &arena);
	total = arena.taken;
	if (prepare_grow(&p->scratch, &p->room, &arena))
		return -ENOMEM;
	/* The bytes behind a row are read, not used. */
	memset(p->scratch, 0, total);
	take_parts(p, &arena);
	if (p->ngroups)
		prepare_bytes_fill(p);
	for (uint32_t i = 0; i < p->source.ncomponents && !p->ngroups; i++) {
		const struct component *c = &p->source.components[i];
		int32_t step = value_step(p, c);

		p->paired[i] = paired(&p->source, i);
		for (uint32_t j = 0; j < n; j++)
			p->places[i][j] = p->x[c->fine].first[j] * step;
		p->windows[i] = find_shuffles(p->places[i], n, p->paired[i] ? 3 : step,
					      (int32_t)value_bytes(p->source.rows),
					      (int32_t)p->kernels->windows, p->shuffles[i]);
	}
	return 0;
}

static uint32_t word_at(const uint8_t *at, uint32_t bytes, bool swapped)
{
	uint32_t word = 0;

	for (uint32_t i = 0; i < bytes; i++)
		word |= (uint32_t)at[i] << 8 * (swapped ? bytes - 1 - i : i);
	return word;
}

/* Copies a part of a row that is not made of numbers as they are; the memory may be uncached. */
static const void *copy_row(const struct band *b, const void *from, size_t bytes)
{
	return memcpy(b->fetched, from, bytes);
}

/*
 * The samples low - 1 to high of a mosaic's row; returns the place of `low`. The picture is
 * mirrored at its borders, which keeps the pattern.
 */
static const char *wide_row(const struct dlbuf_prepare *p, const struct band *b, const char *data,
			    int64_t pitch, int64_t row)
{
	const struct source *s = &p->source;
	uint32_t low = p->x[0].low, high = p->x[0].high;
	uint32_t each = p->mosaic ? 1 : value_bytes(s->rows);
	uint32_t begin = low ? low - 1 : 0, end = high < s->width ? high + 1 : high, lead = 0;
	char *dst = b->wide[row % 3], *at;

	if (s->packed.samples)
		lead = (s->packed.skip + begin) % s->packed.samples;
	at = dst + (8 + lead + low - begin) * each;
	if (b->wide_held[row % 3] == row)
		return at;
	b->wide_held[row % 3] = row;
	data += row * pitch;
	if (s->packed.samples) {
		uint32_t groups = (lead + end - begin + s->packed.samples - 1) / s->packed.samples;

		data += (size_t)((s->packed.skip + begin) / s->packed.samples) * s->packed.bytes;
		data = copy_row(b, data, (size_t)groups * s->packed.bytes);
	} else {
		data += (size_t)begin * value_bytes(s->sample);
	}
	if (p->mosaic)
		memcpy(dst + 8, data, end - begin);
	else
		p->kernels->widen(dst + 8 * each, data, lead + end - begin, s);
	if (!low)
		memcpy(at - each, at + each, each);
	at += (size_t)(high - low) * each;
	if (high == s->width)
		memcpy(at, at - 2 * each, each);
	return at - (size_t)(high - low) * each;
}

struct mosaic_row prepare_mosaic_row(const struct dlbuf_prepare *p, const struct band *b,
				     const void *data, int64_t pitch, int64_t row)
{
	const struct source *s = &p->source;
	const char *cell = s->pattern + row % 2 * 2;

	return (struct mosaic_row){
		.rows = { wide_row(p, b, data, pitch, row ? row - 1 : 1),
			  wide_row(p, b, data, pitch, row),
			  wide_row(p, b, data, pitch, row + 1 < s->height ? row + 1 : row - 1) },
		.green_first = cell[p->x[0].low % 2] == 'G',
		.red = cell[0] == 'R' || cell[1] == 'R',
	};
}

/* A row of sums for each of R, G and B from a mosaic. */
static void demosaic(const struct dlbuf_prepare *p, const struct band *b, char *dst,
		     const char *data, int64_t pitch, int64_t row)
{
	const struct source *s = &p->source;
	const struct mosaic_row from = prepare_mosaic_row(p, b, data, pitch, row);
	size_t part = (size_t)p->rings[0].n / 3 * value_bytes(s->rows);

	p->kernels->mosaic(dst + (from.red ? 0 : 2) * part, dst + part,
			   dst + (from.red ? 2 : 0) * part, from.rows,
			   p->x[0].high - p->x[0].low, from.green_first, s->rows);
}

/* H, S and V of 8 bits to R, G and B of 0 to 255. */
static void make_rgb(float *row, uint32_t n, float turn)
{
	for (const float *end = row + n; row < end; row += 3) {
		float h = row[0] * 6 / turn, s = row[1] / 255, v = row[2];

		/* Each of R, G and B is a trapezium over the circle of hues. */
		for (int c = 0; c < 3; c++) {
			float k = h + (float)(5 - 2 * c), d;

			k -= (float)((int)(k / 6) * 6);
			d = k < 4 - k ? k : 4 - k;
			row[c] = v - v * s * (d < 0 ? 0 : d > 1 ? 1 : d);
		}
	}
}

/* Makes a row of values of n groups of words, whose first one is `first` of the plane's row. */
static void unpack_row(const struct dlbuf_prepare *p, uint32_t plane, float *dst,
		       const uint8_t *groups, uint32_t first, uint32_t n)
{
	const struct source *s = &p->source;
	const struct ring *r = &p->rings[plane];
	uint32_t bytes = s->group.bytes;

	for (const struct component *c = s->components; c < s->components + s->ncomponents; c++) {
		uint32_t mask = (1u << c->depth) - 1, flip = s->group.negative ? mask / 2 + 1 : 0;
		int64_t at = c->first + (int64_t)first * s->group.values - r->begin;

		for (uint32_t i = 0; i < n * c->count && c->plane == plane; i++, at += c->step) {
			const uint8_t *word = groups + (i / c->count * s->group.words +
							c->at[i % c->count]) * (size_t)bytes;

			if (at < 0 || at >= r->n)
				continue;
			dst[at] = (float)((word_at(word, bytes, s->group.swapped) >> c->shift &
					   mask) ^ flip);
		}
	}
	if (s->group.turn)
		make_rgb(dst, r->n, s->group.turn);
}

/* Makes a row of each component of a plane's words, which begin with byte `begin` of the row. */
static void split_row(const struct dlbuf_prepare *p, uint32_t plane, char *dst, const char *words)
{
	const struct source *s = &p->source;
	uint32_t value = value_bytes(s->sample);

	for (uint32_t i = 0; i < s->ncomponents; i++) {
		const struct component *c = &s->components[i];
		const struct axis *x = &p->x[c->fine];
		uint32_t bytes = word_bytes(s, c), n = x->high - x->low, first = c->first;
		const char *from = words + (size_t)x->low * bytes - p->rings[plane].begin;
		uint32_t mask = (1u << c->depth) - 1, flip = s->group.negative ? mask / 2 + 1 : 0;
		int64_t at = p->origins[i] + (int64_t)x->low * value_step(p, c);

		if (c->plane != plane || (s->pairs && i == 2))
			continue;
		/* The second component of pairs is in the words behind those of the first. */
		if (s->pairs) {
			at -= i && first > 1;
			first %= 2;
			n *= bytes / (2 * value);
			bytes = 2 * value;
		}
		if (!s->group.words)
			first = 8 * (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ?
				     bytes - value * (first + 1) : value * first);
		first = c->shift + (s->group.words ? 0 : first);
		p->kernels->split(dst + at * value_bytes(s->rows), from, n, bytes,
				  s->rows == SAMPLE_U8, first, mask, flip);
	}
}

static void halves(float *dst, const uint16_t *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t sign = (uint32_t)(from[i] & 0x8000) << 16, rest = from[i] & 0x7fff, bits;
		float f;

		if (rest >= 0x7c00) {
			bits = 0x7f800000 | (rest & 0x3ff) << 13;
		} else {
			/* A product corrects the exponent's bias; subnormals become right, too. */
			bits = rest << 13;
			memcpy(&f, &bits, 4);
			f *= 0x1p112f;
			memcpy(&bits, &f, 4);
		}
		bits |= sign;
		memcpy(dst + i, &bits, 4);
	}
}

/* NaN becomes 0, infinity the largest half: infinity times 0 would be NaN. */
static void make_finite(float *row, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		float v = row[i] == row[i] ? row[i] : 0;

		v = v > 65504 ? 65504 : v;
		row[i] = v < -65504 ? -65504 : v;
	}
}

/*
 * The values of a plane's row, in the place of one before `oldest` if it is not there yet. The
 * memory may be uncached, so it is read once, in order.
 */
const void *prepare_fetch(const struct dlbuf_prepare *p, const struct band *b, uint32_t plane,
			  const void *data, int64_t pitch, int64_t row, int64_t oldest)
{
	const struct ring *r = &p->rings[plane];
	int64_t *held = b->held[plane];
	uint32_t value = value_bytes(p->source.sample), slot = 0;
	const char *from = (const char *)data + row * pitch + (size_t)r->begin * value;
	char *dst;

	for (uint32_t i = 0; i < r->slots; i++) {
		if (held[i] == row)
			return b->rows[plane] + i * r->bytes;
		if (held[i] < oldest)
			slot = i;
	}
	held[slot] = row;
	dst = b->rows[plane] + slot * r->bytes;
	if (p->source.mosaic) {
		demosaic(p, b, dst, data, pitch, row);
	} else if (p->source.packed.samples) {
		uint32_t samples = p->source.packed.samples;
		size_t bytes = p->source.packed.bytes;

		from = (const char *)data + row * pitch + r->begin / samples * bytes;
		from = copy_row(b, from, (r->n + samples - 1) / samples * bytes);
		p->kernels->widen(dst, from, r->n, &p->source);
	} else if (p->split) {
		from = (const char *)data + row * pitch + r->begin;
		split_row(p, plane, dst, copy_row(b, from, r->copied));
	} else if (p->source.group.words) {
		uint32_t values = p->source.group.values;
		uint32_t first = r->begin / values;
		uint32_t n = (r->begin + r->n + values - 1) / values - first;
		size_t bytes = (size_t)p->source.group.words * p->source.group.bytes;

		from = (const char *)data + row * pitch + first * bytes;
		unpack_row(p, plane, (float *)dst, copy_row(b, from, n * bytes), first, n);
	} else if (p->source.sample == SAMPLE_F16) {
		halves((float *)dst, (const uint16_t *)(const void *)from, r->n);
	} else {
		memcpy(dst, from, (size_t)r->n * value);
	}
	if (p->source.sample >= SAMPLE_F16)
		make_finite((float *)dst, r->n);
	return dst;
}

/* Rows that rows.c makes have been shifted. */
static uint32_t row_shift(const struct source *s)
{
	return s->split ? 0 : s->shift;
}

/*
 * How far a band is in a plane whose outputs need more than two rows. Rows that outputs need are
 * counted; `scaled` of them are scaled along x.
 */
struct progress {
	uint32_t scaled;
	uint32_t y, first;	/* an output, and the count before its first row */
};

/* Goes on to output y. */
static void proceed(const struct axis *axis, uint32_t y, struct progress *at)
{
	for (; at->y < y; at->y++) {
		uint32_t more = (uint32_t)(axis->first[at->y + 1] - axis->first[at->y]);

		at->first += more < axis->taps ? more : axis->taps;
	}
}

/*
 * Scales the next PREPARE_ROWS needed rows of a plane along x, for outputs at.y to `last`.
 */
static void scale_rows(const struct dlbuf_prepare *p, const struct band *b, uint32_t plane,
		       const void *data, int64_t pitch, uint32_t last, struct progress at)
{
	const struct source *s = &p->source;
	const struct ring *r = &p->rings[plane];
	const struct axis *axis = &p->y[r->axis];
	const void *rows[PREPARE_ROWS];
	int64_t row, oldest = -1;

	for (uint32_t j = 0; j < PREPARE_ROWS; j++) {
		while (at.y < last && at.scaled + j >= at.first + axis->taps)
			proceed(axis, at.y + 1, &at);
		/* If fewer rows are left, the last one again. */
		rows[j] = j ? rows[j - 1] : NULL;
		if (at.scaled + j >= at.first + axis->taps)
			continue;
		row = axis->first[at.y] + (at.scaled + j - at.first);
		oldest = j ? oldest : row;
		rows[j] = prepare_fetch(p, b, plane, data, pitch, row, oldest);
	}
	p->kernels->columns(b->columns, r->n, rows, s->rows, row_shift(s));
	for (uint32_t i = 0; i < s->ncomponents; i++) {
		const struct component *c = &s->components[i];
		const float *values = b->columns + p->origins[i] * PREPARE_ROWS;

		if (c->plane == plane)
			p->kernels->scale(b->scaled[i] + at.scaled % r->scaled * p->row, p->row,
					  &p->x[c->fine], p->places[i], values, value_step(p, c));
	}
}

/* The components of one plane for output row y, which are sums of rows that are scaled along x. */
static void wide_sums(const struct dlbuf_prepare *p, const struct band *b, uint32_t plane,
		      const void *data, int64_t pitch, uint32_t y, uint32_t last,
		      struct progress *at, const float *in[3])
{
	const struct ring *r = &p->rings[plane];
	const struct axis *axis = &p->y[r->axis];
	uint32_t padded = (axis->n + 7) & ~7u;

	proceed(axis, y, at);
	for (; at->scaled < at->first + axis->taps; at->scaled += PREPARE_ROWS)
		scale_rows(p, b, plane, data, pitch, last, *at);
	for (uint32_t i = 0; i < p->source.ncomponents; i++) {
		uint32_t n = 0;

		if (p->source.components[i].plane != plane)
			continue;
		for (uint32_t k = 0; k < axis->taps; k++) {
			float w = axis->weights[(size_t)k * padded + y];

			if (!w)
				continue;
			b->weights[n] = w;
			b->window[n++] = b->scaled[i] + (at->first + k) % r->scaled * p->row;
		}
		in[i] = b->in[i];
		if (n == 1)
			in[i] = b->window[0];
		else
			p->kernels->sum(b->in[i], b->window, b->weights, n, p->width);
	}
}

/*
 * Component i and its pair, of the weighted sum of two rows of its plane, or with lower NULL of
 * one.
 */
static void sample(const struct dlbuf_prepare *p, uint32_t i, float *const to[], const char *upper,
		   const char *lower, float weight)
{
	const struct source *s = &p->source;
	const struct component *c = &s->components[i];
	const struct axis *x = &p->x[c->fine];
	bool pair = p->paired[i], swapped = pair && c[1].first < c->first;
	int64_t at = (p->origins[i] - swapped) * value_bytes(s->rows);
	float *first = to[i + swapped], *second = pair ? to[i + !swapped] : NULL;
	const void *a = upper + at, *b = lower ? lower + at : NULL;

	p->kernels->bilinear(first, second, x, p->places[i], p->shuffles[i], p->windows[i], a, b,
			     weight, value_step(p, c), s->rows == SAMPLE_U16, row_shift(s));
}

/* The components of one plane that are sums of samples, for output row y. */
static void direct_row(const struct dlbuf_prepare *p, const struct band *b, uint32_t plane,
		       const void *data, int64_t pitch, uint32_t y)
{
	const struct source *s = &p->source;
	const struct axis *axis = &p->y[p->rings[plane].axis];
	uint32_t padded = (axis->n + 7) & ~7u, nrows = 0;
	/* Rows that several outputs need are sampled once. */
	bool kept = axis->taps > 1 && axis->high - axis->low < axis->n;
	const char *rows[2] = { NULL };
	int64_t numbers[2];
	float below = 0;

	for (uint32_t i = 0; i < axis->taps; i++) {
		float w = axis->weights[(size_t)i * padded + y];

		if (!w)
			continue;
		below = nrows ? w : 0;
		numbers[nrows] = axis->first[y] + i;
		rows[nrows] = prepare_fetch(p, b, plane, data, pitch, numbers[nrows],
					    axis->first[y]);
		nrows++;
	}
	for (uint32_t i = 0; i < s->ncomponents; i += 1 + p->paired[i]) {
		if (s->components[i].plane != plane)
			continue;
		if (!kept) {
			sample(p, i, b->in, rows[0], rows[1], below);
			continue;
		}
		for (uint32_t k = 0; k < nrows; k++) {
			uint32_t slot = numbers[k] % 2;

			if (b->sampled_held[slot * 3 + i] != numbers[k])
				sample(p, i, b->sampled[slot], rows[k], NULL, 0);
			b->sampled_held[slot * 3 + i] = numbers[k];
		}
		for (uint32_t c = i; c <= i + p->paired[i]; c++)
			p->kernels->between(b->in[c], b->sampled[numbers[0] % 2][c],
					    b->sampled[numbers[nrows - 1] % 2][c], below, p->width);
	}
}

/* The first of n rows that band b computes; n for the band behind the last. */
static uint32_t band_begin(const struct dlbuf_prepare *p, const struct band *b, uint32_t n)
{
	return (uint32_t)((uint64_t)n * (b - p->bands) / p->nbands);
}

/* Stores a row of the tensor's values, step elements apart. */
static void store(const struct dlbuf_prepare *p, const struct band *b, char *dst, int64_t step,
		  const float *row, uint32_t n)
{
	const void *from = row;

	if (p->store != STORE_F32) {
		p->kernels->convert(b->converted, row, n, p->store, p->zero_point);
		from = b->converted;
	}
	if (step == 1)
		memcpy(dst, from, (size_t)n * store_bytes(p->store));
	else if (p->store <= STORE_I8)
		for (uint32_t i = 0; i < n; i++)
			((uint8_t *)dst)[i * step] = ((const uint8_t *)from)[i];
	else if (p->store != STORE_F32)
		for (uint32_t i = 0; i < n; i++)
			((uint16_t *)(void *)dst)[i * step] = ((const uint16_t *)from)[i];
	else
		for (uint32_t i = 0; i < n; i++)
			((float *)(void *)dst)[i * step] = row[i];
}

/*
 * Fills w x h places of the tensor from x, y with the colour of the bars. Each band fills its part
 * of the rows.
 */
static void fill_bar(const struct dlbuf_prepare *p, const struct band *b, const struct image *image,
		     uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
	const struct steps *st = &image->steps;
	uint32_t bytes = store_bytes(p->store), most = p->width;
	/* Rows without gaps are copies of the first. */
	bool pixels = st->channel == 1 && st->x == (int64_t)p->nout;
	bool copied = pixels || st->x == 1;
	uint32_t first_row = band_begin(p, b, h);

	h = band_begin(p, b + 1, h) - first_row;
	y += first_row;
	for (uint32_t c = 0; c < p->nout && w && h; c++) {
		for (uint32_t i = 0; i < most; i++)
			b->out[0][i] = p->pad[c];
		for (uint32_t j = 0; j < (copied ? 1 : h); j++) {
			for (uint32_t i = 0; i < w; i += most) {
				int64_t at = c * st->channel + (y + j) * st->y + (x + i) * st->x;

				store(p, b, image->data + at * bytes, st->x, b->out[0],
				      w - i < most ? w - i : most);
			}
		}
	}
	for (uint32_t c = 0; c < (pixels ? 1 : p->nout) && copied && w; c++) {
		char *first = image->data + (c * st->channel + y * st->y + x * st->x) * bytes;

		for (uint32_t j = 1; j < h; j++)
			memcpy(first + j * st->y * bytes, first, (size_t)w * st->x * bytes);
	}
}

/* One frame, for all bands. */
struct work {
	const struct dlbuf_prepare *p;
	const void *const *planes;
	const int64_t *pitches;
	const struct image *image;
};

/* The place of an output row of the scaled picture in the tensor, and its steps in elements. */
struct row_at {
	char *data;
	int64_t along, across;
};

static struct row_at row_at(const struct dlbuf_prepare *p, const struct image *image, uint32_t y)
{
	const struct steps *st = &image->steps;
	bool odd = p->info.turn % 2;
	uint32_t w = odd ? p->height : p->width, h = odd ? p->width : p->height;
	uint32_t x0 = p->info.left > 0 ? p->info.left : 0, y0 = p->info.top > 0 ? p->info.top : 0;
	/* Steps from one output to the next, before the turn. */
	int64_t sx = p->back_x ? -st->x : st->x, sy = p->back_y ? -st->y : st->y;
	int64_t across = odd ? sx : sy;
	int64_t at = (x0 + (p->back_x ? w - 1 : 0)) * st->x +
		     (y0 + (p->back_y ? h - 1 : 0)) * st->y + y * across;

	return (struct row_at){ image->data + at * store_bytes(p->store), odd ? sy : sx, across };
}

/* Rows of the components, floats or samples of bytes.c, become output row y of the tensor. */
static void store_pixels_row(const struct dlbuf_prepare *p, const struct band *b,
			     const struct image *image, uint32_t y, const float *const in[3],
			     const struct byte_samples *samples)
{
	struct row_at to = row_at(p, image, y);
	int64_t channel = image->steps.channel;
	bool plain = p->store == STORE_F32 && to.along == 1;
	bool pixels = to.along == 3 && channel == 1 && p->nout == 3;
	float *out[3];

	for (uint32_t c = 0; c < 3; c++)
		out[c] = !plain ? b->out[c] : (float *)(void *)to.data + c * channel;
	if (samples && samples->direct)
		p->byte_kernels->direct_floats(out, p->groups, samples->from, &samples->rows[1],
					       p->width, &p->values);
	else if (samples)
		p->byte_kernels->floats(out, samples->rows, p->width, &p->values);
	else
		p->kernels->colours(out, p->nout, in, p->source.ncomponents, p->width, &p->values);
	if (pixels)
		p->kernels->interleave(to.data, (const float *const *)b->out, p->width, p->store,
				       p->zero_point);
	for (uint32_t c = 0; c < p->nout && !plain && !pixels; c++)
		store(p, b, to.data + c * channel * store_bytes(p->store), to.along, b->out[c],
		      p->width);
}

static void band_run(const void *data, uint32_t index)
{
	const struct work *work = data;
	const struct dlbuf_prepare *p = work->p;
	const struct image *image = work->image;
	const struct band *b = &p->bands[index];
	bool odd = p->info.turn % 2;
	uint32_t w = odd ? p->height : p->width, h = odd ? p->width : p->height;
	uint32_t x0 = p->info.left > 0 ? p->info.left : 0, y0 = p->info.top > 0 ? p->info.top : 0;
	uint32_t first = band_begin(p, b, p->height), end = band_begin(p, b + 1, p->height);
	struct row_at to = row_at(p, image, first);
	struct progress at[DLBUF_MAX_PLANES];

	for (uint32_t i = 0; i < p->source.nplanes; i++)
		at[i] = (struct progress){ .y = first };
	for (uint32_t i = 0; i < p->source.nplanes; i++)
		for (uint32_t j = 0; j < p->rings[i].slots; j++)
			b->held[i][j] = -1;
	for (int i = 0; i < 6 && p->ngroups; i++)
		b->numbers[i] = -1;
	for (int i = 0; i < 6; i++)
		b->sampled_held[i] = -1;
	for (uint32_t i = 0; i < 3 && p->source.mosaic; i++)
		b->wide_held[i] = -1;
	fill_bar(p, b, image, 0, 0, p->info.width, y0);
	fill_bar(p, b, image, 0, y0 + h, p->info.width, p->info.height - y0 - h);
	fill_bar(p, b, image, 0, y0, x0, h);
	fill_bar(p, b, image, x0 + w, y0, p->info.width - x0 - w, h);
	for (uint32_t y = first; y < end && p->ngroups; y++, to.data += to.across) {
		struct byte_samples samples;

		prepare_bytes_row(p, b, work->planes, work->pitches, y, (uint8_t *)to.data,
				  to.along, image->steps.channel, &samples);
		if (p->in_floats)
			store_pixels_row(p, b, image, y, NULL, &samples);
	}
	for (uint32_t y = first; y < end && !p->ngroups; y++) {
		const float *in[3] = { b->in[0], b->in[1], b->in[2] };

		for (uint32_t i = 0; i < p->source.nplanes; i++) {
			if (p->rings[i].direct)
				direct_row(p, b, i, work->planes[i], work->pitches[i], y);
			else if (p->rings[i].slots)
				wide_sums(p, b, i, work->planes[i], work->pitches[i], y, end - 1,
					  &at[i], in);
		}
		store_pixels_row(p, b, image, y, in, NULL);
	}
}

void prepare_rows(const struct dlbuf_prepare *p, const void *const planes[],
		  const int64_t pitches[], const struct image *image)
{
	const struct work work = { p, planes, pitches, image };

	prepare_divide(p->threads, p->nbands, band_run, &work);
}
