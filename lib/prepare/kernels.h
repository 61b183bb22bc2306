/* SPDX-License-Identifier: MIT */
/*
 * The inner loops, in GNU C's vector extensions. A file that defines LANES and KERNELS
 * includes it; GATHER and GATHER_BYTES may be the processor's own. The compiler makes vectors
 * of the plain loops by itself (-O3).
 */
#include <string.h>

#ifndef __clang__
/* Vectors are passed in inline functions only. */
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include "prepare.h"

typedef float vf __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4), aligned(4)));
typedef float v4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef uint8_t vb __attribute__((vector_size(16), aligned(1)));
typedef uint16_t vw __attribute__((vector_size(16), aligned(2)));

static inline vf vf_load(const float *p)
{
	return *(const vf *)p;
}

#ifndef GATHER
static inline vf GATHER(const float *row, const int32_t *at)
{
	return (vf){ row[at[0]], row[at[1]], row[at[2]], row[at[3]] };
}

/* Four bytes of a place; the first is the lowest. */
static inline int32_t word_at(const uint8_t *at)
{
	int32_t word;

	memcpy(&word, at, 4);
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : (int32_t)__builtin_bswap32(word);
}

static inline vi GATHER_BYTES(const uint8_t *row, const int32_t *at)
{
	return (vi){ word_at(row + at[0]), word_at(row + at[1]), word_at(row + at[2]),
		     word_at(row + at[3]) };
}

/* Two words of a place; the first is the lower half. */
static inline int32_t words_at(const uint16_t *at)
{
	return (int32_t)(at[0] | (uint32_t)at[1] << 16);
}

static inline vi GATHER_WORDS(const uint16_t *row, const int32_t *at)
{
	return (vi){ words_at(row + at[0]), words_at(row + at[1]), words_at(row + at[2]),
		     words_at(row + at[3]) };
}
#endif

/* The bytes of LANES places: by loads and shuffles, which are faster, where a table has them. */
static inline vi bytes_at(const uint8_t *row, const int32_t *at, const uint8_t *shuffles)
{
#ifdef SPREAD
	if (shuffles)
		return SPREAD(row, at, shuffles);
#endif
	(void)shuffles;
	return GATHER_BYTES(row, at);
}

/*
 * dst = or += a row, weighted. The compiler makes better vectors of these loops than of
 * conversions by hand, if each is a function.
 */
#define ADD_ROW(name, type, value)								\
	static __attribute__((noinline)) void name(float *restrict dst, const type *restrict row,	\
						   uint32_t n, float w, uint32_t shift, bool first)	\
	{											\
		(void)shift;									\
		if (first)									\
			for (uint32_t i = 0; i < n; i++)					\
				dst[i] = (float)(value) * w;					\
		else										\
			for (uint32_t i = 0; i < n; i++)					\
				dst[i] += (float)(value) * w;					\
	}
ADD_ROW(add_bytes, uint8_t, row[i])
ADD_ROW(add_words, uint16_t, row[i] >> shift)
ADD_ROW(add_floats, float, row[i])

/* Four rows at once: the sum stays in registers. */
static __attribute__((noinline)) void add_four(float *restrict dst, const void *const rows[],
					       uint32_t n, const float w[], bool first)
{
	const float *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2],
		*restrict d = rows[3];
	const float wa = w[0], wb = w[1], wc = w[2], wd = w[3];

	if (first)
		for (uint32_t i = 0; i < n; i++)
			dst[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
	else
		for (uint32_t i = 0; i < n; i++)
			dst[i] += a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
}

static void blend(float *restrict dst, uint32_t n, const void *const rows[],
		  const float weights[], uint32_t nrows, enum sample sample, uint32_t shift)
{
	/* The rows have room behind them. */
	n = (n + 7) & ~7u;
	for (uint32_t k = 0; k < nrows; k++) {
		if (sample == SAMPLE_F32 && k + 1 < nrows) {
			/* In the place of a row that is not there: one of numbers, times 0. */
			const void *four[4] = { rows[k], rows[k + 1], rows[k], rows[k] };
			float w[4] = { weights[k], weights[k + 1] };

			for (uint32_t j = 2; j < 4 && k + j < nrows; j++) {
				four[j] = rows[k + j];
				w[j] = weights[k + j];
			}
			add_four(dst, four, n, w, !k);
			k += 3;
		} else if (sample == SAMPLE_U8)
			add_bytes(dst, rows[k], n, weights[k], 0, !k);
		else if (sample == SAMPLE_U16)
			add_words(dst, rows[k], n, weights[k], shift, !k);
		else
			add_floats(dst, rows[k], n, weights[k], 0, !k);
	}
}

static void scale(float *restrict dst, const struct axis *axis, const int32_t *places,
		  const float *row, int32_t step)
{
	uint32_t padded = (axis->n + 7) & ~7u;

	for (uint32_t i = 0; i < padded; i += LANES) {
		const float *w = axis->weights + i;
		vf sum = GATHER(row, places + i);

		if (axis->taps > 1) {
			sum *= vf_load(w);
			for (uint32_t k = 1; k < axis->taps; k++) {
				w += padded;
				sum += GATHER(row + (size_t)k * step, places + i) * vf_load(w);
			}
		}
		*(vf *)(dst + i) = sum;
	}
}

#if LANES == 8
/* Each output's sum is a vector, in a register of its own. */
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define PAIRS(a, b) (__builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) + \
		     __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15))
#define FOURS(a, b) (__builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + \
		     __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15))

static void scale_wide(float *restrict dst, const struct axis *axis, const float *row)
{
	size_t stride = axis->stride, k;
	const float *w = axis->groups;

	for (uint32_t i = 0; i < axis->n; i += 8) {
		const int32_t *first = axis->first + i;
		vf low, high;
#define BEGIN(j) const float *a##j = row + first[j]; vf s##j = { 0 };
#define EIGHT(j) s##j += vf_load(a##j + k) * vf_load(w + 8 * j);
#define FOUR(j) s##j += __builtin_shufflevector(*(const v4 *)(a##j + k) * *(const v4 *)(w + 4 * j), \
						(v4){ 0 }, 0, 1, 2, 3, 4, 5, 6, 7);
		EACH(BEGIN)
		for (k = 0; k + 8 <= stride; k += 8, w += 64) {
			EACH(EIGHT)
		}
		if (k < stride) {
			EACH(FOUR)
			w += 32;
		}
		low = FOURS(PAIRS(s0, s1), PAIRS(s2, s3));
		high = FOURS(PAIRS(s4, s5), PAIRS(s6, s7));
		*(vf *)(dst + i) = __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11) +
			__builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
	}
}
#else
static void scale_wide(float *restrict dst, const struct axis *axis, const float *row)
{
	size_t stride = axis->stride, k;

	for (uint32_t i = 0; i < axis->n; i += 4) {
		const int32_t *first = axis->first + i;
		/* Half of a group of 8 outputs. */
		const float *w = axis->groups + (i & ~7u) * stride + (i & 4) * 8;
		v4 s[4] = { { 0 } }, ab, cd;

		for (k = 0; k + 8 <= stride; k += 8, w += 64) {
			for (int j = 0; j < 4; j++) {
				const float *v = row + first[j] + k;

				s[j] += *(const v4 *)v * *(const v4 *)(w + 8 * j);
				s[j] += *(const v4 *)(v + 4) * *(const v4 *)(w + 8 * j + 4);
			}
		}
		w -= (i & 4) * 4;
		for (int j = 0; j < 4 && k < stride; j++)
			s[j] += *(const v4 *)(row + first[j] + k) * *(const v4 *)(w + 4 * j);
		ab = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5) +
			__builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
		cd = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5) +
			__builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
		*(v4 *)(dst + i) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
			__builtin_shufflevector(ab, cd, 2, 3, 6, 7);
	}
}
#endif

/* A row that is kept: the values of a component, as floats. */
static void split(float *restrict dst, const void *row, uint32_t n, int32_t step,
		  enum sample sample, uint32_t shift)
{
	const uint8_t *bytes = row;
	const uint16_t *words = row;
	uint32_t i = 0;

	/* The rows have room behind them. */
	n = (n + 7) & ~7u;
	if (sample == SAMPLE_U8 && step == 1)
		add_bytes(dst, bytes, n, 1, 0, true);
#ifdef SPREAD
	int32_t at[LANES];
	uint8_t how[LANES][4];

	for (int32_t j = 0; j < LANES; j++) {
		at[j] = j * step;
		/* 128: no byte. */
		memcpy(how[j], (const uint8_t[]){ (uint8_t)(j % 4 * step), 128, 128, 128 }, 4);
	}
	for (; i < n && sample == SAMPLE_U8 && step > 1; i += LANES)
		*(vf *)(dst + i) = __builtin_convertvector(SPREAD(bytes + (size_t)i * step, at, how[0]), vf);
#endif
	for (; i < n && sample == SAMPLE_U8 && step > 1; i++)
		dst[i] = bytes[(size_t)i * step];
	for (; i < n && sample == SAMPLE_U16; i++)
		dst[i] = (float)(words[(size_t)i * step] >> shift);
}

static void pick(float *restrict dst, const float *restrict row, uint32_t n, int32_t step)
{
	for (uint32_t i = 0; i < n && step == 2; i += 4)
		*(v4 *)(dst + i) = __builtin_shufflevector(*(const v4 *)(row + 2 * i),
							   *(const v4 *)(row + 2 * i + 4), 0, 2, 4, 6);
	for (uint32_t i = 0; i < n && step != 2; i++)
		dst[i] = row[i * step];
}

static inline vf byte_of(vi word, int n)
{
	return __builtin_convertvector(word >> 8 * n & 255, vf);
}

/* Between two samples of a row that are step bytes apart. */
static inline vf across(vi word, int at, int step, vf weight, bool two)
{
	vf v = byte_of(word, at);

	return two ? v + (byte_of(word, at + step) - v) * weight : v;
}

static inline void bilinear_of(float *restrict dst, float *restrict dst2, const struct axis *axis,
			       const int32_t *places, const uint8_t *shuffles, const uint8_t *a,
			       const uint8_t *b, float weight_b, int32_t step, bool two_taps,
			       bool two_rows, bool pair)
{
	uint32_t padded = (axis->n + 7) & ~7u;
	const float *second = axis->weights + (two_taps ? padded : 0);

	for (uint32_t i = 0; i < padded; i += LANES) {
		const uint8_t *how = shuffles ? shuffles + 4 * i : NULL;
		vi word = bytes_at(a, places + i, how);
		vf w = vf_load(second + i), v = across(word, 0, step, w, two_taps), v2 = v;

		if (pair)
			v2 = across(word, 1, 2, w, two_taps);
		if (two_rows) {
			word = bytes_at(b, places + i, how);
			v += (across(word, 0, step, w, two_taps) - v) * weight_b;
			if (pair)
				v2 += (across(word, 1, 2, w, two_taps) - v2) * weight_b;
		}
		*(vf *)(dst + i) = v;
		if (pair)
			*(vf *)(dst2 + i) = v2;
	}
}

/* Two samples, or two components, of words. */
struct two {
	vf v, v2;
};

static inline struct two words_across(const uint16_t *row, const int32_t *places, uint32_t shift,
				      vf weight, bool two_taps, bool pair)
{
	const int32_t mask = 0xffff >> shift;
	vi word = GATHER_WORDS(row, places);
	struct two t = { __builtin_convertvector(word >> shift & mask, vf),
			 __builtin_convertvector(word >> (16 + shift) & mask, vf) };

	if (two_taps && !pair) {
		t.v += (t.v2 - t.v) * weight;
	} else if (two_taps) {
		word = GATHER_WORDS(row + 2, places);
		t.v += (__builtin_convertvector(word >> shift & mask, vf) - t.v) * weight;
		t.v2 += (__builtin_convertvector(word >> (16 + shift) & mask, vf) - t.v2) * weight;
	}
	return t;
}

static inline void words_of(float *restrict dst, float *restrict dst2, const struct axis *axis,
			    const int32_t *places, const uint16_t *a, const uint16_t *b,
			    float weight_b, uint32_t shift, bool two_taps, bool two_rows, bool pair)
{
	uint32_t padded = (axis->n + 7) & ~7u;
	const float *second = axis->weights + (two_taps ? padded : 0);

	for (uint32_t i = 0; i < padded; i += LANES) {
		vf w = vf_load(second + i);
		struct two t = words_across(a, places + i, shift, w, two_taps, pair), u;

		if (two_rows) {
			u = words_across(b, places + i, shift, w, two_taps, pair);
			t.v += (u.v - t.v) * weight_b;
			t.v2 += (u.v2 - t.v2) * weight_b;
		}
		*(vf *)(dst + i) = t.v;
		if (pair)
			*(vf *)(dst2 + i) = t.v2;
	}
}

static void bilinear_words(float *dst, float *dst2, const struct axis *axis, const int32_t *places,
			   const uint16_t *a, const uint16_t *b, float weight_b, uint32_t shift)
{
	bool taps = axis->taps > 1;

	if (dst2 && b && taps)
		words_of(dst, dst2, axis, places, a, b, weight_b, shift, true, true, true);
	else if (dst2)
		words_of(dst, dst2, axis, places, a, b ? b : a, weight_b, shift, taps, true, true);
	else if (b && taps)
		words_of(dst, NULL, axis, places, a, b, weight_b, shift, true, true, false);
	else
		words_of(dst, NULL, axis, places, a, b ? b : a, weight_b, shift, taps, true, false);
}

static void bilinear(float *dst, float *dst2, const struct axis *axis, const int32_t *places,
		     const uint8_t *shuffles, const uint8_t *a, const uint8_t *b, float weight_b, int32_t step)
{
#define CASE(taps, rows, pair, step_)							\
	case (taps) * 4 + (rows) * 2 + (pair):						\
		bilinear_of(dst, dst2, axis, places, shuffles, a, b, weight_b, step_,	\
			    taps, rows, pair);						\
		break;
	switch ((axis->taps > 1) * 4 + !!b * 2 + !!dst2) {
	CASE(0, 0, 0, step)
	CASE(0, 0, 1, 2)
	CASE(0, 1, 0, step)
	CASE(0, 1, 1, 2)
	CASE(1, 0, 0, step)
	CASE(1, 0, 1, 2)
	CASE(1, 1, 0, step)
	CASE(1, 1, 1, 2)
	}
#undef CASE
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

/* One channel at LANES places. */
static inline vf colour(const vf in[3], uint32_t nin, const struct values *to, uint32_t c)
{
	const float *m = to->matrix[c];
	const vf zero = { 0 };
	vf v = in[0] * m[0] + m[3];

	if (nin > 1)
		v += in[1] * m[1] + in[2] * m[2];
	return CLAMP(v, zero + to->low[c], zero + to->high[c]);
}

static inline void colours_of(float *const out[], uint32_t nout, const float *const in[],
			      uint32_t nin, uint32_t n, const struct values *to)
{
	/* A copy, which no store to a row can change. */
	const struct values copy = *to;
	const float *a = in[0], *b = in[nin - 1 ? 1 : 0], *d = in[nin - 1 ? 2 : 0];
	float *o[3] = { out[0], out[nout - 1 ? 1 : 0], out[nout - 1 ? 2 : 0] };
	uint32_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		const vf v[3] = { vf_load(a + i), vf_load(b + i), vf_load(d + i) };

		for (uint32_t c = 0; c < nout; c++)
			*(vf *)(o[c] + i) = colour(v, nin, &copy, c);
	}
	for (uint32_t c = 0; c < nout && i < n; c++) {
		const vf v[3] = { vf_load(a + i), vf_load(b + i), vf_load(d + i) };
		vf last = colour(v, nin, &copy, c);

		memcpy(o[c] + i, &last, (n - i) * sizeof(float));
	}
}

static void colours(float *const out[], uint32_t nout, const float *const in[], uint32_t nin,
		    uint32_t n, const struct values *to)
{
	if (nin == 3 && nout == 3)
		colours_of(out, 3, in, 3, n, to);
	else if (nin == 3)
		colours_of(out, 1, in, 3, n, to);
	else
		colours_of(out, nout, in, 1, n, to);
}

/*
 * Values of the tensor's type, in the low bits of each lane; the rest may be anything. Values for
 * integers are inside their type less the zero point (plan.c): this rounds half to even.
 */
static inline vi to_bytes(vf x, int32_t zero_point)
{
	return (vi)(x + 0x1.8p23f) + zero_point;
}

static inline vi to_bfloats(vf x)
{
	return ((vi)x + 0x7fff + ((vi)x >> 16 & 1)) >> 16;
}

#ifndef TO_HALVES
static inline vi TO_HALVES(vf x)
{
	vi sign = (vi)x >> 16 & 0x8000, bits = (vi)x & 0x7fffffff;
	/* Below 2^-14: a sum whose last place is that of a subnormal rounds it. */
	vi small = (vi)((vf)bits + 0.5f) - 0x3f000000, is_small = bits < 0x38800000;
	vi large = bits >= 0x477ff000;

	bits = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
	bits = (small & is_small) | (bits & ~is_small);
	return sign | (0x7c00 & large) | (bits & ~large);
}
#endif

static inline vi to_words(vf x, enum store store)
{
	return store == STORE_F16 ? TO_HALVES(x) : to_bfloats(x);
}

/* Rows of the tensor's type; the steps between its values are rows.c's. */
static void convert(void *restrict dst, const float *restrict row, uint32_t n, enum store store,
		    int32_t zero_point)
{
	typedef uint16_t halves __attribute__((vector_size(LANES * 2), aligned(2)));
	uint8_t *bytes = dst;
	uint16_t *words = dst;
	uint32_t bits;
	float x;

	n = (n + 7) & ~7u;
	if (store == STORE_F16) {
		for (uint32_t i = 0; i < n; i += LANES)
			*(halves *)(words + i) = __builtin_convertvector(TO_HALVES(vf_load(row + i)),
									 halves);
		return;
	}
	/* The compiler makes better vectors of these loops by itself. */
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

/* Two pixels of words of each vector's 4: dst has room for a third of a pixel behind them. */
static inline void put_words(uint16_t *dst, i4 rg, i4 b)
{
	vw low = (vw)__builtin_shufflevector(rg, b, 0, 4, 1, 5);
	vw high = (vw)__builtin_shufflevector(rg, b, 2, 6, 3, 7);

	*(vw *)dst = __builtin_shufflevector(low, low, 0, 1, 2, 4, 5, 6, 6, 6);
	*(vw *)(dst + 6) = __builtin_shufflevector(high, high, 0, 1, 2, 4, 5, 6, 6, 6);
}

/* Four pixels of bytes, and 4 bytes behind them. */
static inline void put_bytes(uint8_t *dst, i4 rgb)
{
#ifdef SHUFFLES
	vb v = (vb)rgb;

	*(vb *)dst = __builtin_shufflevector(v, v, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0);
#else
	for (int j = 0; j < 4; j++) {
		int32_t word = rgb[j];

		memcpy(dst + 3 * j, &word, 4);
	}
#endif
}

/* LANES pixels; what is stored behind them is the next pixels' place. */
static inline void put_pixels(char *dst, const float *const rows[3], uint32_t i, enum store store,
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

static inline void pixels(char *dst, const float *const rows[3], uint32_t n, enum store store,
			  int32_t zero_point)
{
	const size_t bytes = store <= STORE_I8 ? 3 : 6;
	char last[(LANES + 2) * 6];
	uint32_t i = 0;

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

	if (store <= STORE_I8) {
		pixels(dst, rows, n, STORE_U8, zero_point);
		return;
	}
	if (store == STORE_F16) {
		pixels(dst, rows, n, STORE_F16, 0);
		return;
	}
	if (store == STORE_BF16) {
		pixels(dst, rows, n, STORE_BF16, 0);
		return;
	}
	/* The fourth value is the next pixel's place. */
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
	blend, scale, scale_wide, pick, split, bilinear, bilinear_words, colours, convert, interleave,
};
