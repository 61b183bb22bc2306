/* SPDX-License-Identifier: MIT */
/*
 * The inner loops for plans from bytes to bytes, in fixed point. After the point, samples have 7
 * bits, weights 15, the matrix 13, and results 5. A file that defines KERNELS includes this one:
 * for NEON, or for x86, where WIDE is 16 with AVX2 and 8 with SSE4.1.
 */
#include <string.h>

#include "prepare.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define WIDE 8
#elif WIDE == 16
#define X86(name) _mm256_##name
typedef __m256i vx;
#else
#define X86(name) _mm_##name
typedef __m128i vx;
#endif

typedef uint8_t vb __attribute__((vector_size(16), aligned(1)));
typedef int16_t vs __attribute__((vector_size(WIDE * 2), aligned(2)));
typedef uint8_t vt __attribute__((vector_size(WIDE * 2), aligned(1)));
typedef uint16_t vu __attribute__((vector_size(WIDE * 2), aligned(2)));

/*
 * MULTIPLY(a, b) is (a * b + 2^14) >> 15. LEFTS and RIGHTS are the first and the last 8 of each 16
 * bytes, times 2^7. FOUND() looks bytes up by their indices, within each 16 bytes. RESULTS() are
 * x >> 5, limited to bytes of 0 to 255. With flip 128 these become signed bytes.
 */
#ifdef __aarch64__
#define MULTIPLY(a, b) ((vs)vqrdmulhq_s16((int16x8_t)(a), (int16x8_t)(b)))
#define LEFTS(t) ((vs)vshll_n_u8(vget_low_u8((uint8x16_t)(t)), 7))
#define RIGHTS(t) ((vs)vshll_high_n_u8((uint8x16_t)(t), 7))
#define WIDENED(p) ((vs)vshll_n_u8(vld1_u8(p), 7))
#define AT_LEAST(a, b) ((vs)vmaxq_s16((int16x8_t)(a), (int16x8_t)(b)))
#define AT_MOST(a, b) ((vs)vminq_s16((int16x8_t)(a), (int16x8_t)(b)))
#define ZIP_LOW(a, b) ((vs)vzip1q_s16((int16x8_t)(a), (int16x8_t)(b)))
#define ZIP_HIGH(a, b) ((vs)vzip2q_s16((int16x8_t)(a), (int16x8_t)(b)))
#define MEAN(a, b) ((vt)vrhaddq_u8((uint8x16_t)(a), (uint8x16_t)(b)))
#define PICK(mask, a, b) ((vt)vbslq_u8((uint8x16_t)(mask), (uint8x16_t)(a), (uint8x16_t)(b)))
/* The number of vectors of results that are stored at once. */
#define STEP 2
#define FOUND(v, at) ((vb)vqtbl1q_u8((uint8x16_t)(v), (uint8x16_t)(at)))
#define EACH_STEP(f) f(0) f(1)
#define RESULTS(x, flip) veorq_u8(vqshrun_high_n_s16(vqshrun_n_s16((int16x8_t)(x)[0], 5), \
						     (int16x8_t)(x)[1], 5), vdupq_n_u8(flip))

static inline void store_results(uint8_t *dst, const vs x[STEP], uint8_t flip)
{
	vst1q_u8(dst, RESULTS(x, flip));
}

static inline __attribute__((always_inline))
void store_pixels(uint8_t *dst, const vs x[STEP], const vs y[STEP], const vs z[STEP],
				uint8_t flip)
{
	uint8x16x3_t v;

	v.val[0] = RESULTS(x, flip);
	v.val[1] = RESULTS(y, flip);
	v.val[2] = RESULTS(z, flip);
	vst3q_u8(dst, v);
}

static inline void store_vectors(uint8_t *dst, vt x, vt y, vt z)
{
	uint8x16x3_t v = { { (uint8x16_t)x, (uint8x16_t)y, (uint8x16_t)z } };

	/* A macro in clang, for which the commas above would be its own. */
	vst3q_u8(dst, v);
}

#else
#define MULTIPLY(a, b) ((vs)X86(mulhrs_epi16)((vx)(a), (vx)(b)))
#define LEFTS(t) ((vs)X86(srli_epi16)(X86(unpacklo_epi8)((vx){ 0 }, (vx)(t)), 1))
#define RIGHTS(t) ((vs)X86(srli_epi16)(X86(unpackhi_epi8)((vx){ 0 }, (vx)(t)), 1))
#define WIDENED(p) \
	((vs)X86(slli_epi16)(X86(cvtepu8_epi16)(_mm_loadu_si128((const __m128i *)(p))), 7))
#define AT_LEAST(a, b) ((vs)X86(max_epi16)((vx)(a), (vx)(b)))
#define AT_MOST(a, b) ((vs)X86(min_epi16)((vx)(a), (vx)(b)))
#define ZIP_LOW(a, b) ((vs)X86(unpacklo_epi16)((vx)(a), (vx)(b)))
#define ZIP_HIGH(a, b) ((vs)X86(unpackhi_epi16)((vx)(a), (vx)(b)))
#define MEAN(a, b) ((vt)X86(avg_epu8)((vx)(a), (vx)(b)))
#define PICK(mask, a, b) ((vt)X86(blendv_epi8)((vx)(b), (vx)(a), (vx)(mask)))
#define STEP 1
#define FOUND(v, at) ((vb)_mm_shuffle_epi8((__m128i)(v), (__m128i)(at)))
#define EACH_STEP(f) f(0)
/* Each 16 bytes have 8 results of x, then 8 results of y. */
#define RESULTS(x, y, flip) \
	((vt)X86(packus_epi16)((vx)((x)[0] >> 5), (vx)((y)[0] >> 5)) ^ (flip))

static inline void store_results(uint8_t *dst, const vs x[STEP], uint8_t flip)
{
	vt v = RESULTS(x, x, flip);

	memcpy(dst, &v, 8);
	if (WIDE == 16)
		memcpy(dst + 8, (char *)&v + 16, 8);
}

#define BOTH(...) { __VA_ARGS__, __VA_ARGS__ }

/*
 * Stores 8 pixels of each 16 bytes, where xy has 8 values of x, then of y, and z begins with 8. The
 * pixels of the next 16 bytes are `next` bytes behind.
 */
static inline __attribute__((always_inline))
void store_eights(uint8_t *dst, size_t next, vt xy, vt z)
{
	static const uint8_t tables[4][32] = {
		BOTH(0, 8, 128, 1, 9, 128, 2, 10, 128, 3, 11, 128, 4, 12, 128, 5),
		BOTH(128, 128, 0, 128, 128, 1, 128, 128, 2, 128, 128, 3, 128, 128, 4, 128),
		BOTH(13, 128, 6, 14, 128, 7, 15, 128, 0, 0, 0, 0, 0, 0, 0, 0),
		BOTH(128, 5, 128, 128, 6, 128, 128, 7, 0, 0, 0, 0, 0, 0, 0, 0),
	};
	vt parts[2];

	for (int i = 0; i < 2; i++)
		parts[i] = (vt)X86(shuffle_epi8)((vx)xy, (vx)*(const vt *)tables[2 * i]) |
			(vt)X86(shuffle_epi8)((vx)z, (vx)*(const vt *)tables[2 * i + 1]);
	for (int i = 0; i < WIDE / 8; i++) {
		memcpy(dst + i * next, (char *)&parts[0] + 16 * i, 16);
		memcpy(dst + i * next + 16, (char *)&parts[1] + 16 * i, 8);
	}
}

static inline __attribute__((always_inline))
void store_pixels(uint8_t *dst, const vs x[STEP], const vs y[STEP], const vs z[STEP],
				uint8_t flip)
{
	store_eights(dst, 24, RESULTS(x, y, flip), RESULTS(z, z, flip));
}

static inline void store_vectors(uint8_t *dst, vt x, vt y, vt z)
{
	store_eights(dst, 48, (vt)X86(unpacklo_epi64)((vx)x, (vx)y), z);
	store_eights(dst + 24, 48, (vt)X86(unpackhi_epi64)((vx)x, (vx)y),
		     (vt)X86(unpackhi_epi64)((vx)z, (vx)z));
}
#endif

/* The number of results that are stored at once. */
#define AT_ONCE (STEP * WIDE)

static inline vs vs_load(const int16_t *p)
{
	return *(const vs *)p;
}

static inline vs between_two(vs a, vs b, vs weight)
{
	return a + MULTIPLY(b - a, weight);
}

/* Register k of the bytes of 8 outputs: `unit` (2, 4 or 8) bytes at the place of each output. */
static inline vb unit_bytes(const uint8_t *row, const int32_t *at, int unit, int k)
{
	typedef uint16_t eight __attribute__((vector_size(16)));
	typedef uint32_t four __attribute__((vector_size(16)));
	typedef uint64_t two __attribute__((vector_size(16)));
	typedef uint16_t __attribute__((aligned(1), may_alias)) u16;
	typedef uint32_t __attribute__((aligned(1), may_alias)) u32;
	typedef uint64_t __attribute__((aligned(1), may_alias)) u64;

#define UNIT(type, i) *(const type *)(row + at[k * 16 / (int)sizeof(type) + (i)])
	if (unit == 8)
		return (vb)(two){ UNIT(u64, 0), UNIT(u64, 1) };
	if (unit == 4)
		return (vb)(four){ UNIT(u32, 0), UNIT(u32, 1), UNIT(u32, 2), UNIT(u32, 3) };
	return (vb)(eight){ UNIT(u16, 0), UNIT(u16, 1), UNIT(u16, 2), UNIT(u16, 3),
			    UNIT(u16, 4), UNIT(u16, 5), UNIT(u16, 6), UNIT(u16, 7) };
#undef UNIT
}

#define IS_WINDOW(load) ((load) < BYTES_OF_2)
#define UNIT(load) (2 << ((load) - BYTES_OF_2))
#define NREGS(load) (1 << (load) % 3)

/* Finds for each component the loaded bytes at idx + moves[component], within each 16 bytes. */
static inline __attribute__((always_inline))
void find_bytes(vt found[], const uint8_t *row, const int32_t *at, enum byte_load load, vt idx,
		const uint8_t moves[], int count)
{
#define WHERE(c) (count > 1 ? idx + moves[c] : idx)
#ifdef __aarch64__
#define UNITS(n, k) (uint8x16_t)unit_bytes(row, at, n, k)
#define FIND(lookup, type, ...)							\
	do {									\
		const type from = __VA_ARGS__;					\
		for (int c = 0; c < count; c++)					\
			found[c] = (vt)lookup(from, (uint8x16_t)WHERE(c));	\
	} while (0)
	if (load == BYTES_16)
		FIND(vqtbl1q_u8, uint8x16_t, vld1q_u8(row + at[0]));
	else if (load == BYTES_32)
		FIND(vqtbl2q_u8, uint8x16x2_t, vld1q_u8_x2(row + at[0]));
	else if (load == BYTES_64)
		FIND(vqtbl4q_u8, uint8x16x4_t, vld1q_u8_x4(row + at[0]));
	else if (load == BYTES_OF_2)
		FIND(vqtbl1q_u8, uint8x16_t, UNITS(2, 0));
	else if (load == BYTES_OF_4)
		FIND(vqtbl2q_u8, uint8x16x2_t, { { UNITS(4, 0), UNITS(4, 1) } });
	else
		FIND(vqtbl4q_u8, uint8x16x4_t,
		     { { UNITS(8, 0), UNITS(8, 1), UNITS(8, 2), UNITS(8, 3) } });
#undef UNITS
#undef FIND
#else
#define PART(i) (IS_WINDOW(load) ? *(const vb *)(row + at[i] + 16 * k) : \
		 unit_bytes(row, at + 8 * (i), UNIT(load), k))
	vt from[4];

	for (int k = 0; k < NREGS(load); k++)
#if WIDE == 8
		from[k] = PART(0);
#else
		from[k] = (vt)_mm256_set_m128i((__m128i)PART(1), (__m128i)PART(0));
#endif
	for (int c = 0; c < count; c++) {
		vt where = WHERE(c);

		found[c] = (vt)X86(shuffle_epi8)((vx)from[0], (vx)where);
		/* A byte of an index whose highest bit is set finds 0. */
		for (int k = 0; k < NREGS(load) && NREGS(load) > 1; k++) {
			vx mine = X86(adds_epu8)((vx)(where - (uint8_t)(16 * k)),
						 X86(set1_epi8)(0x70));
			vt part = (vt)X86(shuffle_epi8)((vx)from[k], mine);

			found[c] = k ? found[c] | part : part;
		}
	}
#undef PART
#endif
#undef WHERE
}

/* Two rows of a plane with a weight, or one row. */
struct two_rows {
	const uint8_t *a, *b;
	vs weight_b;
};

/* Computes the components of a group at the outputs from i on. */
static inline __attribute__((always_inline))
void samples_at(vs out[], const struct byte_group *g, size_t i, struct two_rows from,
		enum byte_load load, int count, bool two, bool taps)
{
	const int32_t *at = g->places + (IS_WINDOW(load) ? i / 8 : i);
	vt idx = *(const vt *)(g->lookups + (IS_WINDOW(load) ? 2 * i : 0)), a[3], b[3];

	find_bytes(a, from.a, at, load, idx, g->moves, count);
	if (two)
		find_bytes(b, from.b, at, load, idx, g->moves, count);
	for (int c = 0; c < count; c++) {
		vs left = LEFTS(a[c]), right;

		if (two)
			left = between_two(left, LEFTS(b[c]), from.weight_b);
		if (taps) {
			right = RIGHTS(a[c]);
			if (two)
				right = between_two(right, RIGHTS(b[c]), from.weight_b);
			left = between_two(left, right, vs_load(g->weights + i));
		}
		out[c] = left;
	}
}

static inline __attribute__((always_inline))
void samples_of(int16_t *const dst[], const struct byte_group *g, size_t n, struct two_rows from,
		enum byte_load load, int count, bool two, bool taps)
{
	/* A local copy: no store to a row can change it. */
	const struct byte_group copy = *g;

	for (size_t i = 0; i < n; i += WIDE) {
		vs out[3];

		samples_at(out, &copy, i, from, load, count, two, taps);
		for (int c = 0; c < count; c++)
			*(vs *)(dst[c] + i) = out[c];
	}
}

/* The outputs are consecutive samples. */
static inline void samples_copied(int16_t *restrict dst, size_t n, const struct byte_source *from,
				  size_t at)
{
	for (size_t i = 0; i < n; i += WIDE) {
		vs v = WIDENED(from->a + at + i);

		if (from->weight_b)
			v = between_two(v, WIDENED(from->b + at + i), (vs){ 0 } + from->weight_b);
		*(vs *)(dst + i) = v;
	}
}

static void samples(int16_t *const dst[], const struct byte_group *g, uint32_t n,
		    const struct byte_source *source)
{
	const struct two_rows from = { source->a, source->b, (vs){ 0 } + source->weight_b };

	/* bytes.c makes no other groups. */
#define CASE(load, count)								\
	case (load) * 4 + (count):							\
		if (source->weight_b)							\
			samples_of(dst, g, n, from, load, count, true, true);		\
		else if (g->taps)							\
			samples_of(dst, g, n, from, load, count, false, true);		\
		else									\
			samples_of(dst, g, n, from, load, count, false, false);		\
		break;
	switch ((int)g->load * 4 + g->count) {
	CASE(BYTES_16, 1)
	CASE(BYTES_16, 2)
	CASE(BYTES_32, 1)
	CASE(BYTES_32, 2)
	CASE(BYTES_64, 1)
	CASE(BYTES_64, 2)
	CASE(BYTES_OF_2, 1)
	CASE(BYTES_OF_4, 1)
	CASE(BYTES_OF_4, 3)
	CASE(BYTES_OF_8, 1)
	CASE(BYTES_OF_8, 3)
	default:
		samples_copied(dst[0], n, source, g->places[0]);
	}
#undef CASE
}

/* to[i][j] = from[j][i] */
static inline __attribute__((always_inline)) void turn(vs *to, const vs from[WIDE])
{
	vs a[WIDE], b[WIDE];

#if WIDE == 16
	for (int i = 0; i < 8; i++) {
		b[i] = (vs)_mm256_permute2x128_si256((vx)from[i], (vx)from[i + 8], 0x20);
		b[i + 8] = (vs)_mm256_permute2x128_si256((vx)from[i], (vx)from[i + 8], 0x31);
	}
#else
	memcpy(b, from, sizeof(b));
#endif
#define ZIPPED(to, from)							\
	for (int i = 0; i < WIDE; i += 8)					\
		for (int k = 0; k < 4; k++) {					\
			(to)[i + 2 * k] = ZIP_LOW((from)[i + k], (from)[i + k + 4]);	\
			(to)[i + 2 * k + 1] = ZIP_HIGH((from)[i + k], (from)[i + k + 4]);	\
		}
	ZIPPED(a, b)
	ZIPPED(b, a)
	ZIPPED(to, b)
#undef ZIPPED
}

/* For 4 * WIDE values of the rows, computes `rows` sums of samples, less 128. */
static inline void turned_sums(int16_t *turned, const struct byte_sum sums[], uint32_t rows,
			       size_t at)
{
	vs v[4][WIDE] = { { { 0 } } };

	for (uint32_t j = 0; j < rows; j++) {
		const struct byte_sum s = sums[j];
		const vs middle = (vs){ 0 } - (128 << 7);
		vs a = middle, b = middle, c = middle, d = middle;

		for (uint32_t k = 0; k < s.n; k++) {
			const uint8_t *row = s.rows[k] + at;
			const vs w = (vs){ 0 } + s.weights[k];

			a += MULTIPLY(WIDENED(row), w);
			b += MULTIPLY(WIDENED(row + WIDE), w);
			c += MULTIPLY(WIDENED(row + 2 * WIDE), w);
			d += MULTIPLY(WIDENED(row + 3 * WIDE), w);
		}
		v[0][j] = a;
		v[1][j] = b;
		v[2][j] = c;
		v[3][j] = d;
	}
	for (int i = 0; i < 4; i++)
		turn((vs *)(turned + (at + i * WIDE) * WIDE), v[i]);
}

static inline __attribute__((always_inline))
void wide_of(int16_t *const dst[], size_t to, const struct byte_group *g, size_t n, uint32_t taps,
	     size_t step, const struct byte_sum sums[], uint32_t rows, int16_t *turned, int count)
{
	const size_t move[3] = { g->moves[0] * WIDE, g->moves[1] * WIDE, g->moves[2] * WIDE };
	const uint8_t most = g->moves[1] > g->moves[2] ? g->moves[1] : g->moves[2];
	const uint8_t end = g->moves[0] > most ? g->moves[0] : most;
	const int32_t *places = g->places;
	const int16_t *w = g->weights;
	size_t done = 0;

	for (size_t i = 0; i < n; i += WIDE) {
		size_t last = (size_t)places[i + WIDE - 1] + (taps - 1) * step + end;
		vs v[3][WIDE], x[WIDE];

		for (; done <= last; done += 4 * WIDE)
			turned_sums(turned, sums, rows, done);
		for (int j = 0; j < WIDE; j++) {
			const int16_t *from = turned + (size_t)places[i + j] * WIDE;
			vs sum[3] = { { 0 } };

			for (uint32_t k = 0; k < taps; k++, from += step * WIDE)
				for (int c = 0; c < count; c++)
					sum[c] += MULTIPLY(vs_load(from + move[c]),
							   (vs){ 0 } + w[k]);
			w += taps;
			for (int c = 0; c < count; c++)
				v[c][j] = sum[c];
		}
		for (int c = 0; c < count; c++) {
			turn(x, v[c]);
			for (uint32_t j = 0; j < rows; j++)
				*(vs *)(dst[c] + j * to + i) = x[j];
		}
	}
}

static void wide(int16_t *const dst[], size_t to, const struct byte_group *g, uint32_t n,
		 uint32_t taps, uint32_t step, const struct byte_sum sums[], uint32_t rows,
		 int16_t *turned)
{
	if (g->count == 1)
		wide_of(dst, to, g, n, taps, step, sums, rows, turned, 1);
	else
		wide_of(dst, to, g, n, taps, step, sums, rows, turned, 3);
}

/* Computes channel c at WIDE places. */
static inline vs channel(const vs in[3], const struct byte_values *to, uint32_t c, vs first)
{
	const int16_t *m = to->matrix[c];
	vs v = (vs){ 0 } + to->offset[c];

#define TERM(j) v += MULTIPLY(in[j], (vs){ 0 } + m[j]);
	switch (to->kind) {
	case BYTES_ONE:
		TERM(0)
		break;
	case BYTES_EACH:
		TERM(c)
		break;
	case BYTES_YUV:
	case BYTES_BGR_OF_YUV:
		v += first;
		if (c != (to->kind == BYTES_YUV ? 2 : 0))
			TERM(2)
		if (c != (to->kind == BYTES_YUV ? 0 : 2))
			TERM(1)
		break;
	default:
		TERM(0)
		TERM(1)
		TERM(2)
	}
#undef TERM
	if (to->clamps)
		v = AT_MOST(AT_LEAST(v, (vs){ 0 } + to->low[c]), (vs){ 0 } + to->high[c]);
	return v;
}

/* Computes all channels at WIDE places. */
static inline void channels(vs y[][STEP], int k, const vs x[3], const struct byte_values *v,
			    uint32_t nout)
{
	vs first = { 0 };

	if (v->kind >= BYTES_YUV)
		first = MULTIPLY(x[0], (vs){ 0 } + v->matrix[0][0]);
	for (uint32_t c = 0; c < nout; c++)
		y[c][k] = channel(x, v, c, first);
}

static inline vs row_samples(const struct byte_row *r, size_t i, bool pair)
{
	vs x = vs_load(r->a + i);

	return pair ? between_two(x, vs_load(r->b + i), (vs){ 0 } + r->weight_b) : x;
}

static inline __attribute__((always_inline))
void results_of(uint8_t *const dst[], const struct byte_row in[], size_t n,
		const struct byte_values *v, enum byte_kind kind, uint32_t nout, bool pixels,
		bool pairs)
{
	const size_t bytes = pixels ? 3 : 1;
	/* Local copies: no store to a row can change these. */
	struct byte_values copy = *v;
	const int one = kind == BYTES_ONE ? 0 : 1;
	const struct byte_row from[3] = { in[0], in[one], in[2 * one] };
	uint8_t last[3][3 * AT_ONCE];
	uint8_t *const few[3] = { last[0], last[1], last[2] };
	uint8_t *const whole[3] = { dst[0], dst[nout - 1 ? 1 : 0], dst[nout - 1 ? 2 : 0] };
	uint8_t *const *to = n < AT_ONCE ? few : whole;

	copy.kind = kind;
	/* The last vectors may include values of the ones before again. */
	for (size_t i = 0; ; i = i + 2 * AT_ONCE <= n ? i + AT_ONCE : n - AT_ONCE) {
		vs y[3][STEP], x[3];

#define ONE(k)									\
		for (int j = 0; j < (kind == BYTES_ONE ? 1 : 3); j++)		\
			x[j] = row_samples(&from[j], i + (k) * WIDE, pairs);		\
		channels(y, k, x, &copy, nout);
		EACH_STEP(ONE)
#undef ONE
		for (uint32_t c = 0; c < nout && !pixels; c++)
			store_results(to[c] + i, y[c], copy.flip);
		if (pixels)
			store_pixels(to[0] + 3 * i, y[0], y[1], y[2], copy.flip);
		if (i + AT_ONCE >= n)
			break;
	}
	for (uint32_t c = 0; c < (pixels ? 1 : nout) && n < AT_ONCE; c++)
		memcpy(dst[c], last[c], n * bytes);
}

static void results(uint8_t *const dst[], const struct byte_row in[], uint32_t n,
		    const struct byte_values *v, uint32_t nout, bool pixels)
{
	const struct byte_row *last = &in[v->kind == BYTES_ONE ? 0 : 2];
	bool pairs = in[0].weight_b || last->weight_b;

#define CASES(kind, nout, pixels)							\
	if (pairs)									\
		results_of(dst, in, n, v, kind, nout, pixels, true);			\
	else										\
		results_of(dst, in, n, v, kind, nout, pixels, false);			\
	break;
	switch (nout == 1 ? v->kind == BYTES_ONE : 2 + v->kind * 2 + pixels) {
	case 0:
		CASES(BYTES_ANY, 1, false)
	case 1:
		CASES(BYTES_ONE, 1, false)
	default:
		CASES(BYTES_ANY, 3, false)
	case 3 + BYTES_ANY * 2:
		CASES(BYTES_ANY, 3, true)
	case 2 + BYTES_ONE * 2:
		CASES(BYTES_ONE, 3, false)
	case 3 + BYTES_ONE * 2:
		CASES(BYTES_ONE, 3, true)
	case 2 + BYTES_EACH * 2:
		CASES(BYTES_EACH, 3, false)
	case 3 + BYTES_EACH * 2:
		CASES(BYTES_EACH, 3, true)
	case 2 + BYTES_YUV * 2:
		CASES(BYTES_YUV, 3, false)
	case 3 + BYTES_YUV * 2:
		CASES(BYTES_YUV, 3, true)
	case 3 + BYTES_BGR_OF_YUV * 2:
		CASES(BYTES_BGR_OF_YUV, 3, true)
	}
#undef CASES
}

/* Pixels of NV12 and similar formats, which are computed without intermediate rows. */
enum direct {
	SAME,		/* luma is not scaled, chroma is in kept rows */
	KEPT,		/* luma is scaled, chroma is in kept rows */
	LUMA_OF_ONE,	/* luma is one sample of one row, chroma is scaled */
	LUMA_OF_TWO,	/* luma and chroma are scaled */
};

static inline __attribute__((always_inline))
void pixels_at(vs x[3], const struct byte_group g[2], const struct byte_row rows[2],
	       const uint8_t *whole, size_t at, struct two_rows y0, struct two_rows uv,
	       enum direct how)
{
	if (how == SAME)
		x[0] = WIDENED(whole + at);
	else
		samples_at(&x[0], &g[0], at, y0, BYTES_32, 1, how != LUMA_OF_ONE,
			   how != LUMA_OF_ONE);
	if (how >= LUMA_OF_ONE) {
		samples_at(&x[1], &g[1], at, uv, BYTES_32, 2, true, true);
		return;
	}
	x[1] = row_samples(&rows[0], at, true);
	x[2] = row_samples(&rows[1], at, true);
}

static inline __attribute__((always_inline))
void direct_of(uint8_t *dst, const struct byte_group g[2], const struct byte_source from[2],
	       const struct byte_row kept[2], size_t n, const struct byte_values *v,
	       enum byte_kind kind, enum direct how)
{
	const struct byte_group groups[2] = { g[0], g[1] };
	const struct byte_row rows[2] = { kept[0], kept[1] };
	const struct two_rows y0 = { from[0].a, from[0].b, (vs){ 0 } + from[0].weight_b };
	const struct two_rows uv = { from[1].a, from[1].b, (vs){ 0 } + from[1].weight_b };
	const uint8_t *whole = from[0].a + groups[0].places[0];
	struct byte_values copy = *v;
	uint8_t last[3 * AT_ONCE];

	copy.kind = kind;
	for (size_t i = 0; i < n; i += AT_ONCE) {
		vs y[3][STEP], x[3];

#define ONE(k)									\
		pixels_at(x, groups, rows, whole, i + (k) * WIDE, y0, uv, how);	\
		channels(y, k, x, &copy, 3);
		EACH_STEP(ONE)
#undef ONE
		store_pixels(i + AT_ONCE <= n ? dst + 3 * i : last, y[0], y[1], y[2], copy.flip);
	}
	if (n % AT_ONCE)
		memcpy(dst + n / AT_ONCE * AT_ONCE * 3, last, n % AT_ONCE * 3);
}

static void direct(uint8_t *dst, const struct byte_group g[2], const struct byte_source from[2],
		   const struct byte_row kept[2], uint32_t n, const struct byte_values *v)
{
#define CASES(kind)								\
	if (kept[0].a && g[0].load == BYTES_IN_ORDER)				\
		direct_of(dst, g, from, kept, n, v, kind, SAME);		\
	else if (kept[0].a)							\
		direct_of(dst, g, from, kept, n, v, kind, KEPT);		\
	else if (!g[0].taps && !from[0].weight_b)				\
		direct_of(dst, g, from, kept, n, v, kind, LUMA_OF_ONE);		\
	else									\
		direct_of(dst, g, from, kept, n, v, kind, LUMA_OF_TWO);
	if (v->kind == BYTES_YUV) {
		CASES(BYTES_YUV)
	} else {
		CASES(BYTES_BGR_OF_YUV)
	}
#undef CASES
}

static inline __attribute__((always_inline))
vb four_pixels(const int32_t *places, const uint8_t *row, size_t i, vb order, uint8_t flip)
{
	vb v = places ? unit_bytes(row, places + i, 4, 0) : *(const vb *)(row + 4 * i);

	return FOUND(v, order) ^ flip;
}

/* Copies pixels, 16 at once. Returns how many; they may be fewer than n. */
static inline __attribute__((always_inline))
size_t sixteens(uint8_t *dst, const int32_t *places, const uint8_t *row, size_t n,
		const uint8_t order[48], uint8_t flip)
{
	const vb how = *(const vb *)order;
	size_t i = 0;

#ifdef __aarch64__
	/* Each 16 bytes of the pixels are in 32 bytes of the words. */
	const vb second = *(const vb *)(order + 16) - 16, third = *(const vb *)(order + 32) - 32;
	const size_t whole = places ? 0 : n & ~(size_t)15;
	vb v[3];

	for (const uint8_t *end = row + 4 * whole; row < end; row += 64, dst += 48) {
		uint8x16x2_t a = vld1q_u8_x2(row), b = vld1q_u8_x2(row + 16);
		uint8x16x2_t c = vld1q_u8_x2(row + 32);

		v[0] = (vb)vqtbl2q_u8(a, (uint8x16_t)how) ^ flip;
		v[1] = (vb)vqtbl2q_u8(b, (uint8x16_t)second) ^ flip;
		v[2] = (vb)vqtbl2q_u8(c, (uint8x16_t)third) ^ flip;
		for (int k = 0; k < 3; k++)
			*(vb *)(dst + 16 * k) = v[k];
	}
	if (!places)
		return whole;
#endif
	/* Each store of 4 pixels writes 4 bytes too many. The next store overwrites them. */
	for (; i + 18 <= n; i += 16)
		for (size_t k = i; k < i + 16; k += 4)
			*(vb *)(dst + 3 * k) = four_pixels(places, row, k, how, flip);
	return i;
}

static void copied(uint8_t *dst, const int32_t *places, const uint8_t *row, uint32_t n,
		   const uint8_t order[48], uint8_t flip)
{
	const vb how = *(const vb *)order;
	size_t i;
	vb v;

	if (places)
		i = sixteens(dst, places, row, n, order, flip);
	else if (flip)
		i = sixteens(dst, NULL, row, n, order, flip);
	else
		i = sixteens(dst, NULL, row, n, order, 0);
	for (; i + 4 < n; i += 4) {
		v = four_pixels(places, row, i, how, flip);
		memcpy(dst + 3 * i, &v, 12);
	}
	if (i == n)
		return;
	i = n < 4 ? 0 : n - 4;
	v = four_pixels(places, row, i, how, flip);
	memcpy(dst + 3 * i, &v, n < 4 ? 3 * n : 12);
}

/* The mean of 4 bytes, rounded half up. */
static inline vt mean_of_4(vt a, vt b, vt c, vt d)
{
	vt x = MEAN(a, b), y = MEAN(c, d);

	/* Means are rounded up. If that of x and y was, x and y must have been exact. */
	return MEAN(x, y) - (((a ^ b) | (c ^ d)) & (x ^ y) & 1);
}

static inline __attribute__((always_inline))
void mosaic_of(uint8_t *const dst[3], const struct mosaic_row *from, size_t n, uint8_t flip,
	       bool pixels, bool back)
{
	const uint8_t *up = from->rows[0], *at = from->rows[1], *down = from->rows[2];
	/* The samples that are not green. */
	const vt mask = (vt)((vu){ 0 } + (uint16_t)(from->green_first ? 0xff00 : 0x00ff));
	const size_t at_once = sizeof(vt), each = pixels ? 3 : 1, rest = n % at_once;
	uint8_t *const whole[3] = { dst[0], dst[pixels ? 0 : 1], dst[pixels ? 0 : 2] };
	uint8_t last[3][3 * sizeof(vt)];

	for (size_t i = 0; i < n; i += at_once) {
		bool ends = i + at_once > n;
#define LOAD(row) (*(const vt *)((row) + i))
		vt here = LOAD(at), left = LOAD(at - 1), right = LOAD(at + 1);
		vt above = LOAD(up), below = LOAD(down), v[3];

		v[0] = PICK(mask, here, MEAN(left, right)) ^ flip;
		v[1] = PICK(mask, mean_of_4(left, right, above, below), here) ^ flip;
		v[2] = PICK(mask, mean_of_4(LOAD(up - 1), LOAD(up + 1), LOAD(down - 1),
					    LOAD(down + 1)), MEAN(above, below)) ^ flip;
#undef LOAD
		if (pixels)
			store_vectors(ends ? last[0] : whole[0] + 3 * i, v[back ? 2 : 0], v[1],
				    v[back ? 0 : 2]);
		for (int c = 0; c < 3 && !pixels; c++)
			*(vt *)(ends ? last[c] : whole[c] + i) = v[c];
	}
	for (int c = 0; c < (pixels ? 1 : 3) && rest; c++)
		memcpy(whole[c] + (n - rest) * each, last[c], rest * each);
}

static void mosaic(uint8_t *const to[3], const struct mosaic_row *from, uint32_t n, bool pixels,
		   bool back, uint8_t flip)
{
	if (!pixels)
		mosaic_of(to, from, n, flip, false, false);
	else if (back)
		mosaic_of(to, from, n, flip, true, true);
	else
		mosaic_of(to, from, n, flip, true, false);
}

/* These loops are large. With SSE4.1 the loops for other sources are used in their place. */
#if defined(__aarch64__) || WIDE == 16
/* Kinds of pairs. NEON has code for each kind. On x86 the last three are variables. */
struct pairs_are {
	bool packed, halved, chroma_first, moved, swapped;
};

/*
 * pair_bytes() finds the bytes of WIDE pairs: both of luma, or both of chroma; with `packed` luma's
 * and then chroma's. pair_value() is a byte times 2^7, of two rows or of one. towards(a, b, n) is n
 * quarters of the way from a to b.
 */
#ifdef __aarch64__
#define SWAPS_AT_LAST true
#define PLANAR true
typedef uint8x8_t pair_byte;

static inline void pair_bytes(pair_byte out[], const uint8_t *row, struct pairs_are how)
{
	if (how.packed) {
		uint8x8x4_t v = vld4_u8(row);

		for (int i = 0; i < 4; i++)
			out[(i & 1) == how.chroma_first ? i / 2 : 2 + i / 2] = v.val[i];
	} else {
		uint8x8x2_t v = vld2_u8(row);

		out[0] = v.val[0];
		out[1] = v.val[1];
	}
}

static inline vs pair_value(pair_byte a, pair_byte b, int16_t weight_b, bool two)
{
	return two ? (vs)vmlal_u8(vmull_u8(a, vdup_n_u8((uint8_t)(128 - weight_b))), b,
				  vdup_n_u8((uint8_t)weight_b)) : (vs)vshll_n_u8(a, 7);
}

/* x[c] are the even and the odd outputs; with `halved` the second vector follows the first. */
static inline __attribute__((always_inline))
void store_pairs(uint8_t *dst, vs x[3][2], uint8_t flip, struct pairs_are how)
{
	const uint8x16_t order = { 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15 };
	uint8x16x3_t v;

	for (int c = 0; c < 3; c++) {
		v.val[c] = RESULTS(x[how.swapped ? 2 - c : c], flip);
		if (!how.halved)
			v.val[c] = vqtbl1q_u8(v.val[c], order);
	}
	vst3q_u8(dst, v);
}

static inline vs towards(vs a, vs b, int quarters)
{
	return !quarters ? a : quarters == 2 ? (vs)vrhaddq_s16((int16x8_t)a, (int16x8_t)b) :
		(vs)vrsraq_n_s16((int16x8_t)a, (int16x8_t)(b - a), 2);
}
#else
#define SWAPS_AT_LAST false
#define PLANAR false
typedef vt pair_byte;

static inline void pair_bytes(pair_byte out[], const uint8_t *row, struct pairs_are how)
{
#define EVERY(n)								\
	BOTH(0, 128, n, 128, 2 * n, 128, 3 * n, 128, 4 * n, 128, 5 * n, 128, 6 * n, 128, 7 * n, 128)
	static const uint8_t tables[2][32] = { EVERY(2), EVERY(4) };
#undef EVERY
	const uint8_t luma = how.chroma_first, first = !luma + 2 * how.swapped;
	const uint8_t moves[2][4] = { { how.swapped, !how.swapped },
				      { luma, luma + 2, first, first ^ 2 } };
	const int32_t at[9] = { 0, how.packed ? 32 : 16 };

	find_bytes(out, row, at, how.packed ? BYTES_32 : BYTES_16, *(const vt *)tables[how.packed],
		   moves[how.packed], how.packed ? 4 : 2);
}

static inline vs pair_value(pair_byte a, pair_byte b, int16_t weight_b, bool two)
{
	return two ? (vs)a * (int16_t)(128 - weight_b) + (vs)b * weight_b : (vs)a << 7;
}

#define FIRST_OF_PAIRS(a, b) \
	__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define SECOND_OF_PAIRS(a, b) \
	__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

static inline __attribute__((always_inline))
void store_pairs(uint8_t *dst, vs x[3][2], uint8_t flip, struct pairs_are how)
{
	vs part[3];

	for (int i = 0; i < (how.halved ? 1 : 2); i++) {
		for (int c = 0; c < 3; c++)
			part[c] = how.halved ? x[c][0] : i ? SECOND_OF_PAIRS(x[c][0], x[c][1]) :
				FIRST_OF_PAIRS(x[c][0], x[c][1]);
		store_pixels(dst + 3 * WIDE * i, &part[0], &part[1], &part[2], flip);
	}
}

static inline vs towards(vs a, vs b, int quarters)
{
	return between_two(a, b, (vs){ 0 } + (int16_t)(quarters << 13));
}
#endif

#if WIDE == 8
#define BEHIND(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8)
#define BEFORE(a, b) __builtin_shufflevector(a, b, 7, 8, 9, 10, 11, 12, 13, 14)
#else
#define BEHIND(a, b) \
	__builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#define BEFORE(a, b)								\
	__builtin_shufflevector(a, b, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, \
				30)
#endif

/* The rows of a line of pairs, and its constants. */
struct pairs_from {
	struct byte_source luma, chroma;
	int16_t weights[2], gain, terms[4], offset[3];
};

/* Computes the part of luma in the channels. */
static inline __attribute__((always_inline))
void luma_of(vs out[2], const pair_byte a[], const pair_byte b[], const struct pairs_from *f,
	     struct pairs_are how)
{
	for (int i = 0; i < 2; i++)
		out[i] = pair_value(a[i], b[i], f->weights[0], how.halved);
	if (how.halved)
		out[0] = (vs)(((vu)out[0] + (vu)out[1]) >> 1);
	for (int i = 0; i < 2; i++)
		out[i] = MULTIPLY(out[i], (vs){ 0 } + f->gain);
}

/*
 * Computes, for the pairs from k on, the part of chroma in each channel, with the channel's offset.
 * With `packed` also computes the part of luma.
 */
static inline __attribute__((always_inline))
void chroma_at(vs out[3], vs luma[2], size_t k, const struct pairs_from *f, struct pairs_are how)
{
	const bool two = how.halved || !how.packed;
	const int at = how.packed ? 2 : 0;
	pair_byte a[4], b[4];
	vs x[2];

	k *= how.packed ? 4 : 2;
	pair_bytes(a, f->chroma.a + k, how);
	if (two)
		pair_bytes(b, f->chroma.b + k, how);
	for (int i = 0; i < 2; i++)
		x[i] = pair_value(a[at + i], b[at + i], f->weights[1], two);
	out[0] = MULTIPLY(x[0], (vs){ 0 } + f->terms[0]) + f->offset[0];
	out[1] = MULTIPLY(x[0], (vs){ 0 } + f->terms[1]) +
		MULTIPLY(x[1], (vs){ 0 } + f->terms[2]) + f->offset[1];
	out[2] = MULTIPLY(x[1], (vs){ 0 } + f->terms[3]) + f->offset[2];
	if (how.packed)
		luma_of(luma, a, b, f, how);
}

/* How far a line of pairs is computed: chroma before the next pairs, theirs, and their luma. */
struct pairs_at {
	vs before[3], now[3], ahead[2];
	size_t k;
};

/* Computes the next WIDE pairs. With `halved` they become vector j. */
static inline __attribute__((always_inline))
void next_pairs(vs out[3][2], int j, struct pairs_at *at, const struct pairs_from *f,
		struct pairs_are how)
{
	const struct pairs_are plain = { .packed = how.packed, .halved = how.halved };
	vs next[3], y[2] = { at->ahead[0], at->ahead[1] };
	pair_byte a[2], b[2];

	if (!how.packed) {
		pair_bytes(a, f->luma.a + 2 * at->k, plain);
		if (how.halved)
			pair_bytes(b, f->luma.b + 2 * at->k, plain);
		luma_of(y, a, b, f, how);
	}
	at->k += WIDE;
	chroma_at(next, at->ahead, at->k, f, how);
	for (int c = 0; c < 3; c++) {
		vs behind = BEHIND(at->now[c], next[c]);
		vs side = how.halved ? behind : BEFORE(at->before[c], at->now[c]);

		out[c][j] = y[0] + towards(at->now[c], side, how.moved);
		if (!how.halved)
			out[c][1] = y[1] + towards(at->now[c], behind, 2 - how.moved);
		at->before[c] = at->now[c];
		at->now[c] = next[c];
	}
}

static inline __attribute__((always_inline))
void pairs_of(uint8_t *dst, size_t n, const struct pairs_from *from, uint8_t flip,
	      struct pairs_are how)
{
	/* A local copy: no store to a row can change it. */
	const struct pairs_from f = *from;
	const size_t at_once = how.halved ? AT_ONCE : 2 * WIDE;
	struct pairs_at at = { .k = 0 };
	uint8_t last[6 * AT_ONCE];
	vs out[3][2];
	size_t i = 0;

	chroma_at(at.now, at.ahead, 0, &f, how);
	for (int c = 0; c < 3; c++)
		at.before[c] = (vs){ 0 } + at.now[c][0];
	/* Two steps at once need no copies of vectors between them. Planar pairs gain most. */
	for (; !how.packed && !how.halved && !flip && i + 2 * at_once <= n; i += 2 * at_once)
		for (int half = 0; half < 2; half++) {
			next_pairs(out, 0, &at, &f, how);
			store_pairs(dst + 3 * (i + half * at_once), out, 0, how);
		}
	for (; i < n; i += at_once) {
		for (int j = 0; j < (how.halved ? STEP : 1); j++)
			next_pairs(out, j, &at, &f, how);
		store_pairs(i + at_once <= n ? dst + 3 * i : last, out, flip, how);
	}
	if (n % at_once)
		memcpy(dst + n / at_once * at_once * 3, last, n % at_once * 3);
}

static void pairs(uint8_t *dst, const struct byte_pairs *q, const struct byte_source from[2],
		  uint32_t n, const struct byte_values *v)
{
	/* swapped: the first chroma byte in memory is not for the first channel. */
	const bool yuv = v->kind == BYTES_YUV, swapped = yuv != q->v_first;
	const bool back = SWAPS_AT_LAST && swapped;
	const int begin = back ? 2 : 0, end = 2 - begin, one = yuv == back ? 1 : 2;
	const struct pairs_from f = {
		.luma = from[0], .chroma = from[1], .gain = v->matrix[1][0],
		.weights = { (int16_t)(from[0].weight_b >> 8), (int16_t)(from[1].weight_b >> 8) },
		.terms = { v->matrix[begin][one], v->matrix[1][one], v->matrix[1][3 - one],
			   v->matrix[end][3 - one] },
		.offset = { v->offset[begin], v->offset[1], v->offset[end] } };

#define CASE(...) pairs_of(dst, n, &f, v->flip, (struct pairs_are){ __VA_ARGS__ })
#ifdef __aarch64__
#define CASES(in_one, half, first)							\
	if (q->packed == in_one && q->halved == half && q->chroma_first == first) {	\
		if (q->moved && swapped)						\
			CASE(in_one, half, first, true, true);				\
		else if (q->moved)							\
			CASE(in_one, half, first, true, false);				\
		else if (swapped)							\
			CASE(in_one, half, first, false, true);				\
		else									\
			CASE(in_one, half, first, false, false);			\
	}
	CASES(false, false, false)
	CASES(false, true, false)
	CASES(true, false, true)
	CASES(true, true, true)
#else
#define CASES(in_one, half, first)							\
	if (q->packed == in_one && q->halved == half)					\
		CASE(in_one, half, q->chroma_first, q->moved, swapped);
#endif
	CASES(true, false, false)
	CASES(true, true, false)
#undef CASES
#undef CASE
}

#define PAIRS PLANAR, pairs
#else
#define PAIRS false, NULL
#endif

/* Processors with SSE4.1 and without AVX2 are rare, so SSE4.1 makes no floats. */
#if defined(__aarch64__) || WIDE == 16
#include "floats.h"
#define FLOATS floats, direct_floats
#else
#define FLOATS NULL, NULL
#endif

const struct byte_kernels KERNELS = { WIDE, wide, samples, results, direct, copied, mosaic,
				      PAIRS, FLOATS };
