/* SPDX-License-Identifier: MIT */
/*
 * The inner loops, in the vector extensions of GNU C. A file that defines LANES and KERNELS
 * includes this one. The compiler vectorises the plain loops (-O3). The gathers of AVX2 are not
 * used: they need fewer instructions, but more time.
 */
#include <string.h>

#include "prepare.h"

typedef float vf __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4), aligned(4)));
typedef float v4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef uint8_t vb __attribute__((vector_size(16), aligned(1)));
typedef uint16_t vw __attribute__((vector_size(16), aligned(2)));

/* For functions whose branches the compiler does not see to be constant otherwise. */
#define INLINE static inline __attribute__((always_inline))

static inline vf vf_load(const float *p)
{
	return *(const vf *)p;
}

/* The four bytes at a place; the first one is the lowest. */
static inline int32_t word_at(const uint8_t *at)
{
	int32_t word;

	memcpy(&word, at, 4);
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : (int32_t)__builtin_bswap32(word);
}

#if LANES == 8
#define FROM(load, row, at)							\
	{ load(row + at[0]), load(row + at[1]), load(row + at[2]), load(row + at[3]),	\
	  load(row + at[4]), load(row + at[5]), load(row + at[6]), load(row + at[7]) }
#else
#define FROM(load, row, at)							\
	{ load(row + at[0]), load(row + at[1]), load(row + at[2]), load(row + at[3]) }
#endif

static inline vi gather_bytes(const uint8_t *row, const int32_t *at)
{
	return (vi)FROM(word_at, row, at);
}

/* The two words at a place; the first one is the lower half. */
static inline int32_t words_at(const uint16_t *at)
{
	uint32_t words;

	memcpy(&words, at, 4);
	if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		words = words << 16 | words >> 16;
	return (int32_t)words;
}

static inline vi gather_words(const uint16_t *row, const int32_t *at)
{
	return (vi)FROM(words_at, row, at);
}

/* Stores vectors s0, s1 ... as columns: value i of vector j to dst[i * to + j]. */
#if LANES == 8
#define EACH(f, s) f(0, s) f(1, s) f(2, s) f(3, s) f(4, s) f(5, s) f(6, s) f(7, s)
#define MIX(m, a, b, ...) const vf m = __builtin_shufflevector(a, b, __VA_ARGS__);
#define ONES(m, a, b)							\
	MIX(m##0, a, b, 0, 8, 1, 9, 4, 12, 5, 13)			\
	MIX(m##1, a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define TWOS(m, a, b)							\
	MIX(m##0, a, b, 0, 1, 8, 9, 4, 5, 12, 13)			\
	MIX(m##1, a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define FOURS(dst, i, a, b)						\
	*(vf *)((dst) + (i) * to) =					\
		__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);	\
	*(vf *)((dst) + ((i) + 4) * to) =				\
		__builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#define STORE_COLUMNS(dst, s)							\
	ONES(s##a, s##0, s##1) ONES(s##b, s##2, s##3)			\
	ONES(s##c, s##4, s##5) ONES(s##d, s##6, s##7)			\
	TWOS(s##a0, s##a0, s##b0) TWOS(s##a1, s##a1, s##b1)		\
	TWOS(s##c0, s##c0, s##d0) TWOS(s##c1, s##c1, s##d1)		\
	FOURS(dst, 0, s##a00, s##c00) FOURS(dst, 1, s##a01, s##c01)		\
	FOURS(dst, 2, s##a10, s##c10) FOURS(dst, 3, s##a11, s##c11)
#else
#define EACH(f, s) f(0, s) f(1, s) f(2, s) f(3, s)
#define STORE_COLUMNS(dst, s)							\
	const vf s##a = __builtin_shufflevector(s##0, s##1, 0, 4, 1, 5);	\
	const vf s##b = __builtin_shufflevector(s##0, s##1, 2, 6, 3, 7);	\
	const vf s##c = __builtin_shufflevector(s##2, s##3, 0, 4, 1, 5);	\
	const vf s##d = __builtin_shufflevector(s##2, s##3, 2, 6, 3, 7);	\
	*(vf *)(dst) = __builtin_shufflevector(s##a, s##c, 0, 1, 4, 5);		\
	*(vf *)((dst) + to) = __builtin_shufflevector(s##a, s##c, 2, 3, 6, 7);	\
	*(vf *)((dst) + 2 * to) = __builtin_shufflevector(s##b, s##d, 0, 1, 4, 5);	\
	*(vf *)((dst) + 3 * to) = __builtin_shufflevector(s##b, s##d, 2, 3, 6, 7);
#endif

/* dst[i * to + j] = from[j * step + i], for LANES x LANES values. */
static inline void turn(float *dst, size_t to, const float *from, size_t step)
{
#define LOAD(j, s) const vf s##j = vf_load(from + j * step);
	EACH(LOAD, s)
	STORE_COLUMNS(dst, s)
}

/* The compiler vectorises these loops better than we do, if each is a function. */
#define TO_FLOATS(name, type, value)						\
	static __attribute__((noinline))					\
	void name(float *restrict dst, const type *restrict row, uint32_t shift)	\
	{									\
		(void)shift;							\
		for (uint32_t i = 0; i < PREPARE_STRIP; i++)			\
			dst[i] = (float)(value);				\
	}
TO_FLOATS(from_bytes, uint8_t, row[i])
TO_FLOATS(from_words, uint16_t, row[i] >> shift)

#define LOW_HALVES(a, b)									\
	__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_HALVES(a, b)									\
	__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

#ifndef WIDE_BYTES
/* Converts bytes LANES * k to LANES * k + LANES - 1 to words. */
static inline vi WIDE_BYTES(vb v, int k)
{
	const vb zero = { 0 };
	vw two = (vw)(k & 2 ? HIGH_HALVES(v, zero) : LOW_HALVES(v, zero)), none = { 0 };

	return (vi)(k & 1 ? __builtin_shufflevector(two, none, 4, 12, 5, 13, 6, 14, 7, 15) :
		    __builtin_shufflevector(two, none, 0, 8, 1, 9, 2, 10, 3, 11));
}
#endif

/* 16 columns of bytes: dst[i * PREPARE_ROWS + j] = rows[j][i]. */
INLINE void byte_columns(float *dst, const uint8_t *const rows[PREPARE_ROWS], size_t at)
{
#define ZIP(to, a, b)				\
	const vb to##0 = LOW_HALVES(a, b), to##1 = HIGH_HALVES(a, b);
#define ROW(j) *(const vb *)(rows[j] + at)
	ZIP(a, ROW(0), ROW(4)) ZIP(b, ROW(1), ROW(5)) ZIP(c, ROW(2), ROW(6)) ZIP(d, ROW(3), ROW(7))
	ZIP(ac0, a0, c0) ZIP(ac1, a1, c1) ZIP(bd0, b0, d0) ZIP(bd1, b1, d1)
	ZIP(e0, ac00, bd00) ZIP(e1, ac01, bd01) ZIP(e2, ac10, bd10) ZIP(e3, ac11, bd11)
	const vb all[8] = { e00, e01, e10, e11, e20, e21, e30, e31 };
#undef ROW
#undef ZIP

	for (int i = 0; i < 8; i++)
		for (int k = 0; k < 16 / LANES; k++)
			*(vf *)(dst + 16 * i + LANES * k) =
				__builtin_convertvector(WIDE_BYTES(all[i], k), vf);
}

static void columns(float *restrict dst, uint32_t n, const void *const rows[PREPARE_ROWS],
		    enum sample sample, uint32_t shift)
{
	float strips[PREPARE_ROWS * PREPARE_STRIP];

	if (sample == SAMPLE_U8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
		const uint8_t *from[PREPARE_ROWS];

		memcpy(from, rows, sizeof(from));
		for (size_t i = 0; i < n; i += 16)
			byte_columns(dst + i * PREPARE_ROWS, from, i);
		return;
	}
	/* The last strip also writes to the room behind the rows. */
	for (uint32_t i = 0; i < n; i += PREPARE_STRIP) {
		for (int j = 0; j < PREPARE_ROWS; j++) {
			float *to = strips + j * PREPARE_STRIP;

			if (sample == SAMPLE_U8)
				from_bytes(to, (const uint8_t *)rows[j] + i, 0);
			else if (sample == SAMPLE_U16)
				from_words(to, (const uint16_t *)rows[j] + i, shift);
			else
				memcpy(to, (const float *)rows[j] + i, PREPARE_STRIP * sizeof(*to));
		}
		for (uint32_t at = 0; at < PREPARE_STRIP && i + at < n; at += LANES)
			for (int j = 0; j < PREPARE_ROWS; j += LANES)
				turn(dst + (size_t)(i + at) * PREPARE_ROWS + j, PREPARE_ROWS,
				     strips + j * PREPARE_STRIP + at, PREPARE_STRIP);
	}
}

/* Sets dst to the weighted sum of `count` rows, or adds the sum to it. */
INLINE void add_rows(float *restrict dst, const float *const rows[], const float w[], int count,
		     bool first, uint32_t n)
{
	const float *from[8];

	for (int k = 0; k < count; k++)
		from[k] = rows[k];
	for (size_t i = 0; i < n; i += 2 * LANES) {
		/* Two independent sums hide the latency of the additions. */
		vf a = vf_load(from[0] + i) * w[0], b = vf_load(from[0] + i + LANES) * w[0];

		if (!first) {
			a += vf_load(dst + i);
			b += vf_load(dst + i + LANES);
		}
		for (int k = 1; k < count; k++) {
			a += vf_load(from[k] + i) * w[k];
			b += vf_load(from[k] + i + LANES) * w[k];
		}
		*(vf *)(dst + i) = a;
		*(vf *)(dst + i + LANES) = b;
	}
}

static void sum(float *restrict dst, const float *const rows[], const float weights[], uint32_t n,
		uint32_t width)
{
	for (uint32_t k = 0, count; k < n; k += count) {
		count = k ? 4 : 8;
		count = n - k < count ? n - k : count;
#define FIRST(c) case c: add_rows(dst, rows, weights, c, true, width); break;
#define MORE(c) case 8 + c: add_rows(dst, rows + k, weights + k, c, false, width); break;
		switch (k ? 8 + count : count) {
		FIRST(1) FIRST(2) FIRST(3) FIRST(4) FIRST(5) FIRST(6) FIRST(7) FIRST(8)
		MORE(1) MORE(2) MORE(3) MORE(4)
		}
#undef MORE
#undef FIRST
	}
}

static void scale(float *restrict dst, size_t to, const struct axis *axis, const int32_t *places,
		  const float *values, int32_t step)
{
	const size_t padded = (axis->n + 7) & ~7u, more = (size_t)step * PREPARE_ROWS;

	for (uint32_t i = 0; i < padded; i += LANES) {
		const float *weights = axis->weights + i;
		uint32_t left = axis->taps;
		size_t at = 0;
#define BEGIN(j, s) const float *from##j = values + (size_t)places[i + j] * PREPARE_ROWS;
#define ZERO(j, s) vf s##j = { 0 };
#define ADD(j, s) s##j += vf_load(from##j + at) * w[j];
#define ADD_HIGH(j, s) s##j += vf_load(from##j + at + LANES) * w[j];
#if LANES == PREPARE_ROWS
#define TAP(k) { const vf w = vf_load(weights + (k) * padded); EACH(ADD, s) at += more; }
#else
#define TAP(k) \
	{ const vf w = vf_load(weights + (k) * padded); EACH(ADD, s) EACH(ADD_HIGH, t) at += more; }
		EACH(ZERO, t)
#endif
		EACH(ZERO, s)
		EACH(BEGIN, s)
		for (; left > 1; left -= 2, weights += 2 * padded) {
			TAP(0)
			TAP(1)
		}
		if (left)
			TAP(0)
		STORE_COLUMNS(dst + i, s)
#if LANES < PREPARE_ROWS
		STORE_COLUMNS(dst + LANES * to + i, t)
#endif
	}
}

/*
 * LANES places of a row of bytes or of 16-bit words, and how the values there are loaded: 4 bytes
 * at each place, or faster, a window of 16 bytes for each 4 places, in which tables find values 0
 * to 3 of each place.
 */
struct places {
	const int32_t *at;
	bool words;
	uint32_t shift;		/* of words */
	uint32_t windows;
	const uint8_t *how;	/* the table of a value; those of the values are `stride` apart */
	size_t stride;
};

/* Without windows and with step > 1, `second` has the words that are `step` behind the places. */
struct values_at {
	vi first, second;
};

INLINE struct values_at load(const void *row, struct places p, int32_t step, bool two)
{
	const uint16_t *words = row;
	const uint8_t *bytes = row;

#ifdef WINDOW
	if (p.windows)
		return (struct values_at){ p.words ? WINDOW(words, p.at) : WINDOW(bytes, p.at),
			p.windows == 1 ? (vi){ 0 } : p.words ? WINDOW(words + 8, p.at) :
			WINDOW(bytes + 16, p.at) };
#endif
	if (!p.words)
		return (struct values_at){ gather_bytes(bytes, p.at), { 0 } };
	return (struct values_at){ gather_words(words, p.at),
		two && step > 1 ? gather_words(words + step, p.at) : (vi){ 0 } };
}

INLINE vf value_of(struct values_at v, int32_t n, int32_t step, struct places p)
{
	const bool behind = step > 1 && n >= step;
	vi x = behind ? v.second : v.first;

	p.how += n * p.stride;
	n -= behind ? step : 0;
#ifdef SHUFFLE_TWO
	if (p.windows > 1)
		x = SHUFFLE_TWO(v.first, v.second, p.how) >> p.shift;
	else
#endif
#ifdef SHUFFLE
	if (p.windows)
		x = SHUFFLE(v.first, p.how) >> p.shift;
	else
#endif
	if (p.words)
		x = x >> (16 * n + p.shift) & (int32_t)(0xffffu >> p.shift);
	else
		x = v.first >> 8 * (n + (behind ? step : 0)) & 255;
	return __builtin_convertvector(x, vf);
}

/* Interpolates between two samples of a row, which are `step` values apart. */
INLINE vf across(struct values_at v, struct places p, int32_t at, int32_t step, vf weight, bool two)
{
	vf x = value_of(v, at, step, p);

	return two ? x + (value_of(v, at + step, step, p) - x) * weight : x;
}

/* The arguments of the kernel bilinear(). */
struct bilinear {
	float *dst, *dst2;
	const struct axis *axis;
	const int32_t *places;
	const uint8_t *shuffles;
	const void *a, *b;
	float weight_b;
	uint32_t shift;
};

INLINE void bilinear_of(const struct bilinear *k, bool words, uint32_t windows, int32_t step,
			bool pair, bool two_taps, bool two_rows)
{
	size_t padded = (k->axis->n + 7) & ~7u;
	const float *second = k->axis->weights + (two_taps ? padded : 0);
	float *restrict dst = k->dst, *restrict dst2 = k->dst2;
	const float weight_b = k->weight_b;
	const void *a = k->a, *b = k->b;
	const uint32_t shift = words ? k->shift : 0;

	for (size_t i = 0; i < padded; i += LANES) {
		const struct places p = { k->places + i, words, shift, windows,
			k->shuffles + (windows ? 4 * i : 0), 4 * padded };
		struct values_at v = load(a, p, step, two_taps);
		vf w = vf_load(second + i), x = across(v, p, 0, step, w, two_taps), y = x;

		if (pair)
			y = across(v, p, 1, step, w, two_taps);
		if (two_rows) {
			v = load(b, p, step, two_taps);
			x += (across(v, p, 0, step, w, two_taps) - x) * weight_b;
			if (pair)
				y += (across(v, p, 1, step, w, two_taps) - y) * weight_b;
		}
		*(vf *)(dst + i) = x;
		if (pair)
			*(vf *)(dst2 + i) = y;
	}
}

#define ONE(words, windows, kind, step, pair, taps, rows)					\
	case (((words) * 3 + (windows)) * 3 + (kind)) * 4 + (taps) * 2 + (rows):		\
		bilinear_of(&k, words, windows, step, pair, taps, rows);			\
		break;
#define CASES(words, windows, kind, step, pair)							\
	ONE(words, windows, kind, step, pair, 0, 0) ONE(words, windows, kind, step, pair, 0, 1)	\
	ONE(words, windows, kind, step, pair, 1, 0) ONE(words, windows, kind, step, pair, 1, 1)

/* Rows have room for whole vectors, so no loop needs a remainder. */
#define IN_ORDER(name, type)								\
static void name(float *restrict dst, const type *restrict row, size_t n, uint32_t shift)	\
{											\
	for (size_t i = 0; i < n; i += 8)						\
		for (size_t j = i; j < i + 8; j++)					\
			dst[j] = (float)(row[j] >> shift);				\
}
IN_ORDER(in_order, uint8_t)
IN_ORDER(in_order_words, uint16_t)

static void bilinear(float *dst, float *dst2, const struct axis *axis, const int32_t *places,
		     const uint8_t *shuffles, uint32_t windows, const void *a, const void *b,
		     float weight_b, int32_t step, bool words, uint32_t shift)
{
	const struct bilinear k = { dst, dst2, axis, places, shuffles, a, b, weight_b, shift };
	uint32_t kind = dst2 ? 2 : words && !windows && step > 1;

	if (axis->taps == 1 && !b && step == 1 &&
	    places[axis->n - 1] - places[0] == (int32_t)axis->n - 1) {
		if (words)
			in_order_words(dst, (const uint16_t *)a + places[0], axis->n, shift);
		else
			in_order(dst, (const uint8_t *)a + places[0], axis->n, 0);
		return;
	}
	switch (((words * 3u + windows) * 3 + kind) * 4 + (axis->taps > 1 ? 2 : 0) + !!b) {
	CASES(0, 0, 0, step, false)
	CASES(0, 0, 2, 2, true)
	CASES(1, 0, 0, 1, false)
	CASES(1, 0, 1, step, false)
	CASES(1, 0, 2, 2, true)
#ifdef SHUFFLE
	CASES(0, 1, 0, step, false)
	CASES(0, 1, 2, 2, true)
#endif
#ifdef SHUFFLE_TWO
	CASES(0, 2, 0, step, false)
	CASES(0, 2, 2, 2, true)
	CASES(1, 2, 0, step, false)
	CASES(1, 2, 2, 2, true)
#elif defined(SHUFFLE)
	CASES(1, 1, 0, step, false)
	CASES(1, 1, 2, 2, true)
#endif
	}
}
#undef CASES
#undef ONE

/*
 * Unpacks samples of `depth` bits of MIPI's groups, 8 at once: the high bytes, and pairs of bytes
 * that contain the low bits, which a product moves to the top.
 */
static void unpack(uint16_t *restrict dst, const uint8_t *restrict src, uint32_t n,
		   uint32_t depth)
{
	const uint32_t low = depth - 8, samples = depth == 12 ? 2 : 4, bytes = samples * depth / 8;
	uint32_t i = 0;

#ifdef SHUFFLE_BYTES
	static const struct {
		uint8_t high[16], pairs[16];
		uint16_t up[8];
	} tables[3] = {
#define HIGH(a, b, c, d, e, f, g, h) \
	{ a, 128, b, 128, c, 128, d, 128, e, 128, f, 128, g, 128, h, 128 }
#define PAIRS(a, b, c, d, e, f, g, h) \
	{ a, a + 1, b, b + 1, c, c + 1, d, d + 1, e, e + 1, f, f + 1, g, g + 1, h, h + 1 }
		{ HIGH(0, 1, 2, 3, 5, 6, 7, 8), PAIRS(4, 4, 4, 4, 9, 9, 9, 9),
		  { 1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 14, 1 << 12, 1 << 10, 1 << 8 } },
		{ HIGH(0, 1, 3, 4, 6, 7, 9, 10), PAIRS(2, 2, 5, 5, 8, 8, 11, 11),
		  { 1 << 12, 1 << 8, 1 << 12, 1 << 8, 1 << 12, 1 << 8, 1 << 12, 1 << 8 } },
		{ HIGH(0, 1, 2, 3, 7, 8, 9, 10), PAIRS(4, 4, 5, 6, 11, 11, 12, 13),
		  { 1 << 10, 1 << 4, 1 << 6, 1 << 8, 1 << 10, 1 << 4, 1 << 6, 1 << 8 } },
	};
	const vb high = *(const vb *)tables[low / 2 - 1].high;
	const vb pairs = *(const vb *)tables[low / 2 - 1].pairs;
	const vw up = *(const vw *)tables[low / 2 - 1].up;

	for (; i < n; i += 8, src += depth) {
		vb v = *(const vb *)src;

		*(vw *)(dst + i) = (vw)SHUFFLE_BYTES(v, high) << low |
			(vw)SHUFFLE_BYTES(v, pairs) * up >> (16 - low);
	}
#endif
	for (; i < n; i += samples, src += bytes) {
		uint32_t rest = 0;

		for (uint32_t k = samples; k < bytes; k++)
			rest |= (uint32_t)src[k] << 8 * (k - samples);
		for (uint32_t k = 0; k < samples; k++, rest >>= low)
			dst[i + k] = (uint16_t)(src[k] << low | (rest & ((1u << low) - 1)));
	}
}

/* Writes whole vectors: both rows have room, and the next component's row is written later. */
#define SPLIT(name, to, from)								\
static inline void name(to *restrict dst, const from *restrict words, uint32_t n,	\
			uint32_t shift, uint32_t mask, uint32_t flip)			\
{											\
	for (size_t i = 0; i < n; i += 32, dst += 32, words += 32)			\
		for (int k = 0; k < 32; k++)						\
			dst[k] = (to)((words[k] >> shift & mask) ^ flip);		\
}
/* A row may begin in the middle of a word, as luma of YUYV does. */
typedef uint32_t word4 __attribute__((aligned(2)));
SPLIT(bytes_of_2, uint8_t, uint16_t)
SPLIT(bytes_of_4, uint8_t, word4)
SPLIT(words_of_2, uint16_t, uint16_t)
SPLIT(words_of_4, uint16_t, word4)

static void split(void *dst, const void *words, uint32_t n, uint32_t bytes, bool to_bytes,
		  uint32_t shift, uint32_t mask, uint32_t flip)
{
	/* Whole bytes are faster if their places are constants. */
#define BYTE(k)										\
	else if (bytes == 4 && to_bytes && mask == 255 && shift == 8 * k && !flip)	\
		bytes_of_4(dst, words, n, 8 * k, 255, 0);
#define LUMA(k)										\
	else if (bytes == 2 && to_bytes && mask == 255 && shift == 8 * k && !flip)	\
		bytes_of_2(dst, words, n, 8 * k, 255, 0);
	if (bytes == 2 && !to_bytes)
		words_of_2(dst, words, n, shift, mask, flip);
	else if (bytes == 4 && !to_bytes)
		words_of_4(dst, words, n, shift, mask, flip);
	BYTE(0) BYTE(1) BYTE(2) BYTE(3) LUMA(0) LUMA(1)
	else if (bytes == 4)
		bytes_of_4(dst, words, n, shift, mask, flip);
	else
		bytes_of_2(dst, words, n, shift, mask, flip);
#undef LUMA
#undef BYTE
}

static void widen(void *restrict dst, const void *restrict src, uint32_t n, const struct source *s)
{
	const uint16_t *words = src;
	const uint8_t *bytes = src;
	uint16_t *to = dst;
	float *floats = dst;

	if (s->packed.samples)
		unpack(to, bytes, n, s->packed.depth);
	else if (s->sample == SAMPLE_U8)
		for (uint32_t i = 0; i < n; i++)
			to[i] = bytes[i];
	else if (s->rows == SAMPLE_F32)
		for (uint32_t i = 0; i < n; i++)
			floats[i] = (float)(words[i] >> s->shift);
	else
		/* The sum of four samples must not wrap. */
		for (uint32_t i = 0; i < n; i++)
			to[i] = words[i] >> s->shift < 0x3fff ? words[i] >> s->shift : 0x3fff;
}

/* In a row of a mosaic every second sample is green. The mask has the other samples. */
#define MOSAIC(name, type, vec, bits)							\
static inline vec name##_pick(vec a, vec b, bits mask)					\
{											\
	return (vec)(((bits)a & mask) | ((bits)b & ~mask));				\
}											\
static void name(type *restrict own, type *restrict green, type *restrict other,	\
		 const void *const rows[3], uint32_t n, bool green_first)		\
{											\
	const type *up = rows[0], *at = rows[1], *down = rows[2];			\
	bits mask;									\
											\
	for (size_t k = 0; k < sizeof(mask) / sizeof(mask[0]); k++)			\
		mask[k] = k % 2 == green_first ? -1 : 0;				\
	for (size_t i = 0; i < n; i += sizeof(vec) / sizeof(type)) {			\
		vec here = *(const vec *)(at + i);					\
		vec sides = *(const vec *)(at + i - 1) + *(const vec *)(at + i + 1);	\
		vec column = *(const vec *)(up + i) + *(const vec *)(down + i);		\
		vec corners = *(const vec *)(up + i - 1) + *(const vec *)(up + i + 1) + \
			*(const vec *)(down + i - 1) + *(const vec *)(down + i + 1);	\
											\
		*(vec *)(own + i) = name##_pick(here * 4, sides * 2, mask);		\
		*(vec *)(green + i) = name##_pick(sides + column, here * 4, mask);	\
		*(vec *)(other + i) = name##_pick(corners, column * 2, mask);		\
	}										\
}
typedef uint16_t vm __attribute__((vector_size(LANES * 4), aligned(2)));
typedef int16_t vs __attribute__((vector_size(LANES * 4), aligned(2)));
MOSAIC(mosaic_words, uint16_t, vm, vs)
MOSAIC(mosaic_floats, float, vf, vi)

static void mosaic(void *own, void *green, void *other, const void *const rows[3], uint32_t n,
		   bool green_first, enum sample sample)
{
	if (sample == SAMPLE_U16)
		mosaic_words(own, green, other, rows, n, green_first);
	else
		mosaic_floats(own, green, other, rows, n, green_first);
}

static void between(float *restrict dst, const float *a, const float *b, float weight, uint32_t n)
{
	for (size_t i = 0; i < n; i += 2 * LANES) {
		vf v = vf_load(a + i), w = vf_load(a + i + LANES);

		*(vf *)(dst + i) = v + (vf_load(b + i) - v) * weight;
		*(vf *)(dst + i + LANES) = w + (vf_load(b + i + LANES) - w) * weight;
	}
}

#ifndef CLAMP
/* NaN becomes low. */
static inline vf CLAMP(vf x, vf low, vf high)
{
	vi keep = x > low;

	x = (vf)(((vi)x & keep) | ((vi)low & ~keep));
	keep = x < high;
	return (vf)(((vi)x & keep) | ((vi)high & ~keep));
}
#endif

/* For each channel the inputs whose entries of the matrix are not 0: bit j is input j. */
#define NEEDS(c0, c1, c2) (c0 | c1 << 4 | c2 << 8)
enum needs {
	NEEDS_EACH = NEEDS(1, 2, 4),
	NEEDS_YUV = NEEDS(5, 7, 3),
	NEEDS_ALL = NEEDS(7, 7, 7),
};

/* Computes all channels at LANES places. */
static inline void colour(float *const out[], uint32_t nout, const float *const in[],
			  uint32_t needs, size_t i, const struct values *to)
{
	const vf v[3] = { vf_load(in[0] + i), vf_load(in[1] + i), vf_load(in[2] + i) };
	const vf zero = { 0 };

	for (uint32_t c = 0; c < nout; c++) {
		vf sum = zero + to->matrix[c][3];

		for (int j = 0; j < 3; j++)
			if (needs >> (4 * c + j) & 1)
				sum += v[j] * to->matrix[c][j];
		*(vf *)(out[c] + i) = CLAMP(sum, zero + to->low[c], zero + to->high[c]);
	}
}

static inline void colours_of(float *const out[], uint32_t nout, const float *const in[],
			      uint32_t needs, uint32_t n, const struct values *to)
{
	/* Local copies: no store to a row can change these. */
	float *const o[3] = { out[0], out[1], out[2] };
	const float *const row[3] = { in[0], in[1], in[2] };
	const struct values copy = *to;
	const size_t whole = n & ~(LANES - 1u);

	for (size_t i = 0; i < whole; i += LANES)
		colour(o, nout, row, needs, i, &copy);
	/* The last vector again, so that it includes the remaining values. */
	if (whole < n)
		colour(o, nout, row, needs, n - LANES, &copy);
}

static void colours(float *const out[], uint32_t nout, const float *const in[], uint32_t nin,
		    uint32_t n, const struct values *to)
{
	const float *row[3] = { in[0], in[nin > 1 ? 1 : 0], in[nin > 1 ? 2 : 0] };
	float *o[3] = { out[0] }, few[3][LANES];
	struct values v = *to;
	uint32_t needs = 0;

	for (uint32_t c = 0; c < nout; c++) {
		/* The order of the rows is R, G, B. */
		uint32_t from = to->reversed ? nout - 1 - c : c;

		memcpy(v.matrix[c], to->matrix[from], sizeof(v.matrix[c]));
		v.low[c] = to->low[from];
		v.high[c] = to->high[from];
		if (nin == 1)
			v.matrix[c][c] = v.matrix[c][0];
		o[c] = n < LANES ? few[c] : out[from];
		for (uint32_t j = 0; j < 3 && nin > 1; j++)
			needs |= (v.matrix[c][j] ? 1u : 0) << (4 * c + j);
	}
	if (nout == 1 && nin == 1)
		colours_of(o, 1, row, NEEDS_EACH, n < LANES ? LANES : n, &v);
	else if (nout == 1)
		colours_of(o, 1, row, NEEDS_ALL, n < LANES ? LANES : n, &v);
	else if (!(needs & ~NEEDS_EACH))
		colours_of(o, 3, row, NEEDS_EACH, n < LANES ? LANES : n, &v);
	else if (!(needs & ~NEEDS_YUV))
		colours_of(o, 3, row, NEEDS_YUV, n < LANES ? LANES : n, &v);
	else
		colours_of(o, 3, row, NEEDS_ALL, n < LANES ? LANES : n, &v);
	for (uint32_t c = 0; c < nout && n < LANES; c++)
		memcpy(out[to->reversed ? nout - 1 - c : c], few[c], n * sizeof(float));
}

/*
 * Convert to the type of the tensor, in the low bits of each lane; the other bits are undefined.
 * plan.c has limited values for integers to the range of the type less the zero point. The addition
 * rounds half to even.
 */
static inline vi to_bytes(vf x, int32_t zero_point)
{
	return (vi)(x + 0x1.8p23f) + zero_point;
}

static inline vi to_bfloats(vf x)
{
	return ((vi)x + 0x7fff + ((vi)x >> 16 & 1)) >> 16;
}

/* LANES values of 16 bits. */
typedef uint16_t halves __attribute__((vector_size(LANES * 2), aligned(2)));

#ifndef TO_HALVES
#define TO_HALVES(x) __builtin_convertvector(WIDE_HALVES(x), halves)
static inline vi WIDE_HALVES(vf x)
{
	vi sign = (vi)x >> 16 & 0x8000, bits = (vi)x & 0x7fffffff;
	/* Below 2^-14: the last place of x + 0.5 is that of a subnormal half. So the sum rounds. */
	vi small = (vi)((vf)bits + 0.5f) - 0x3f000000, is_small = bits < 0x38800000;
	vi large = bits >= 0x477ff000;

	bits = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
	bits = (small & is_small) | (bits & ~is_small);
	return sign | (0x7c00 & large) | (bits & ~large);
}
#endif

static inline vi to_words(vf x, enum store store)
{
	return store == STORE_F16 ? WIDE_HALVES(x) : to_bfloats(x);
}

/* Converts a row to the type of the tensor, without gaps. rows.c sets the values' steps. */
static void convert(void *restrict dst, const float *restrict row, uint32_t n, enum store store,
		    int32_t zero_point)
{
	uint8_t *bytes = dst;
	uint16_t *words = dst;
	uint32_t bits;
	float x;

	n = (n + 7) & ~7u;
	if (store == STORE_F16) {
		for (uint32_t i = 0; i < n; i += LANES)
			*(halves *)(words + i) = TO_HALVES(vf_load(row + i));
		return;
	}
	/* The compiler vectorises these loops better than we do. */
	for (uint32_t i = 0; i < n && store <= STORE_I8; i++) {
		x = row[i] + 0x1.8p23f;
		memcpy(&bits, &x, 4);
		bytes[i] = (uint8_t)(bits + (uint32_t)zero_point);
	}
	for (uint32_t i = 0; i < n && store == STORE_BF16; i++) {
		memcpy(&bits, row + i, 4);
		words[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	}
}

/* Stores 4 pixels of words. Each of the two stores writes 2 words too many. */
static inline void put_words(uint16_t *dst, i4 rg, i4 b)
{
	vw low = (vw)__builtin_shufflevector(rg, b, 0, 4, 1, 5);
	vw high = (vw)__builtin_shufflevector(rg, b, 2, 6, 3, 7);

	*(vw *)dst = __builtin_shufflevector(low, low, 0, 1, 2, 4, 5, 6, 6, 6);
	*(vw *)(dst + 6) = __builtin_shufflevector(high, high, 0, 1, 2, 4, 5, 6, 6, 6);
}

/* Stores 4 pixels of bytes, and writes up to 4 bytes too many. */
static inline void put_bytes(uint8_t *dst, i4 rgb)
{
#ifdef SHUFFLES
	vb v = (vb)rgb;

	*(vb *)dst = __builtin_shufflevector(v, v, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14,
					     0, 0, 0, 0);
#else
	for (int j = 0; j < 4; j++) {
		int32_t word = rgb[j];

		memcpy(dst + 3 * j, &word, 4);
	}
#endif
}

/* Stores LANES pixels. The next store overwrites the bytes that are written behind them. */
static inline void put_pixels(char *dst, const float *const rows[3], size_t i, enum store store,
			      int32_t zero_point)
{
	const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	vf a = vf_load(rows[0] + i), b = vf_load(rows[1] + i), c = vf_load(rows[2] + i);
	vi x, y;
	i4 parts[2][LANES / 4];

	if (store <= STORE_I8) {
		x = (to_bytes(a, zero_point) & 255) << (little ? 0 : 24);
		x |= (to_bytes(b, zero_point) & 255) << (little ? 8 : 16);
		x |= (to_bytes(c, zero_point) & 255) << (little ? 16 : 8);
	} else {
		x = to_words(a, store) & 0xffff;
		y = to_words(b, store);
		x = little ? x | y << 16 : x << 16 | (y & 0xffff);
		y = to_words(c, store);
		y = little ? y : y << 16;
		memcpy(parts[1], &y, sizeof(y));
	}
	memcpy(parts[0], &x, sizeof(x));
	for (int j = 0; j < LANES / 4; j++) {
		if (store <= STORE_I8)
			put_bytes((uint8_t *)dst + 12 * j, parts[0][j]);
		else
			put_words((uint16_t *)(void *)dst + 12 * j, parts[0][j], parts[1][j]);
	}
}

#ifdef PUT_PIXELS
/* The low halves of the words of 8 values, which contain the words or bytes of the tensor. */
static inline uint16x8_t low_words(vi a, vi b)
{
	return vuzp1q_u16(vreinterpretq_u16_s32((int32x4_t)a), vreinterpretq_u16_s32((int32x4_t)b));
}

/* Stores pixels i to i + 7 of the row at dst. */
static inline void put_8_pixels(void *dst, const float *const rows[3], size_t i, enum store store,
				int32_t zero_point)
{
	uint16x8x3_t words;
	uint8x8x3_t bytes;

	if (store == STORE_F32) {
		for (int k = 0; k < 8; k += 4)
			vst3q_f32((float *)dst + 3 * (i + k), ((float32x4x3_t){ {
				  vld1q_f32(rows[0] + i + k), vld1q_f32(rows[1] + i + k),
				  vld1q_f32(rows[2] + i + k) } }));
		return;
	}
	for (int c = 0; c < 3; c++) {
		vf a = vf_load(rows[c] + i), b = vf_load(rows[c] + i + 4);

		if (store == STORE_F16)
			words.val[c] = vreinterpretq_u16_f16(vcvt_high_f16_f32(
				vcvt_f16_f32((float32x4_t)a), (float32x4_t)b));
		else if (store == STORE_BF16)
			words.val[c] = low_words(to_bfloats(a), to_bfloats(b));
		else
			bytes.val[c] = vadd_u8(vmovn_u16(low_words(to_bytes(a, 0), to_bytes(b, 0))),
					       vdup_n_u8((uint8_t)zero_point));
	}
	if (store <= STORE_I8)
		vst3_u8((uint8_t *)dst + 3 * i, bytes);
	else
		vst3q_u16((uint16_t *)dst + 3 * i, words);
}
#endif

static inline void pixels(char *dst, const float *const rows[3], uint32_t n, enum store store,
			  int32_t zero_point)
{
	const size_t bytes = store <= STORE_I8 ? 3 : 6;
	char last[(LANES + 2) * 6];
	size_t i = 0;

	for (; i + LANES + 1 < n; i += LANES)
		put_pixels(dst + i * bytes, rows, i, store, zero_point);
	for (; i < n; i += LANES) {
		put_pixels(last, rows, i, store, zero_point);
		memcpy(dst + i * bytes, last, (n - i < LANES ? n - i : LANES) * bytes);
	}
}

static void interleave(void *dst, const float *const rows[3], uint32_t n, enum store store,
		       int32_t zero_point)
{
	const float *a = rows[0], *b = rows[1], *c = rows[2];
	float *to = dst;
	uint32_t i = 0;

#ifdef PUT_PIXELS
	if (store <= STORE_I8)
		for (; i + 8 <= n; i += 8)
			PUT_PIXELS(dst, rows, i, STORE_U8, zero_point);
	else if (store == STORE_F16)
		for (; i + 8 <= n; i += 8)
			PUT_PIXELS(dst, rows, i, STORE_F16, 0);
	else if (store == STORE_F32)
		for (; i + 8 <= n; i += 8)
			PUT_PIXELS(dst, rows, i, STORE_F32, 0);
	else
		for (; i + 8 <= n; i += 8)
			PUT_PIXELS(dst, rows, i, STORE_BF16, 0);
	if (i == n)
		return;
	dst = (char *)dst + (size_t)i * 3 * (store <= STORE_I8 ? 1 : store < STORE_F32 ? 2 : 4);
	to = dst;
	n -= i;
	rows = (const float *const[]){ a + i, b + i, c + i };
	a = rows[0];
	b = rows[1];
	c = rows[2];
	i = 0;
#endif
	if (store <= STORE_I8) {
		pixels(dst, rows, n, STORE_U8, zero_point);
		return;
	}
	if (store <= STORE_BF16) {
		pixels(dst, rows, n, store == STORE_F16 ? STORE_F16 : STORE_BF16, 0);
		return;
	}
	/* Each store of a pixel writes one value too many. The next store overwrites it. */
	for (; i + 5 <= n; i += 4, to += 12) {
		v4 x = *(const v4 *)(a + i), y = *(const v4 *)(b + i), z = *(const v4 *)(c + i);
		v4 low = __builtin_shufflevector(x, y, 0, 4, 1, 5);
		v4 high = __builtin_shufflevector(x, y, 2, 6, 3, 7);

		*(v4 *)to = __builtin_shufflevector(low, z, 0, 1, 4, 5);
		*(v4 *)(to + 3) = __builtin_shufflevector(low, z, 2, 3, 5, 6);
		*(v4 *)(to + 6) = __builtin_shufflevector(high, z, 0, 1, 6, 7);
		*(v4 *)(to + 9) = __builtin_shufflevector(high, z, 2, 3, 7, 7);
	}
	for (; i < n; i++, to += 3) {
		to[0] = a[i];
		to[1] = b[i];
		to[2] = c[i];
	}
}

const struct prepare_kernels KERNELS = {
#ifdef SHUFFLE_TWO
	2,
#elif defined(SHUFFLE)
	1,
#else
	0,
#endif
	columns, scale, bilinear, split, widen, mosaic, sum, between, colours,
	convert, interleave,
};
