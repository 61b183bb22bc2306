/* SPDX-License-Identifier: MIT */
/*
 * The matrix in float32, of bytes that are scaled in fixed point without rounding: bytes.h
 * includes it.
 */
typedef float vq __attribute__((vector_size(WIDE * 2), aligned(4)));

/* Floats of the low half (k = 0) or the high half (k = 1) of a vector of samples. */
#if defined(__aarch64__)
#define HALF(x, k) ((vq)vcvtq_f32_s32((k) ? vmovl_high_s16((int16x8_t)(x)) : vmovl_s16(vget_low_s16((int16x8_t)(x)))))
#define KEEP(x) __asm__ ("" : "+w" (x))
#define LIMITED(x, low, high) \
	((vq)vminnmq_f32(vmaxnmq_f32((float32x4_t)(x), (float32x4_t)(low)), (float32x4_t)(high)))
#else
#if WIDE == 16
#define HALF(x, k) ((vq)_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32((k) ? _mm256_extracti128_si256((vx)(x), 1) : \
							  _mm256_castsi256_si128((vx)(x)))))
typedef __m256 vy;
#else
#define HALF(x, k) ((vq)_mm_cvtepi32_ps(_mm_cvtepi16_epi32((k) ? _mm_srli_si128((vx)(x), 8) : (vx)(x))))
typedef __m128 vy;
#endif
#define KEEP(x) __asm__ ("" : "+x" (x))
#define LIMITED(x, low, high) ((vq)X86(min_ps)(X86(max_ps)((vy)(x), (vy)(low)), (vy)(high)))
#endif

/* Which components are the sum of two rows. */
enum float_pairs {
	PAIRS_NONE,
	PAIRS_CHROMA,
	PAIRS_ALL,
};

/* struct values, in each place of a vector. */
struct float_vectors {
	vq matrix[3][4], low[3], high[3];
};

/* The channels of half a vector of samples. */
static inline __attribute__((always_inline))
void float_values(float *const out[3], uint32_t nout, const vs x[3], size_t i, int k,
		  const struct float_vectors *v, enum byte_kind kind)
{
	vq f[3], same;

	for (int j = 0; j < (kind == BYTES_ONE ? 1 : 3); j++)
		f[j] = HALF(x[j], k);
	same = f[0] * v->matrix[0][0];
	/* The compiler would multiply once for each sum. */
	if (kind == BYTES_YUV)
		KEEP(same);
	for (uint32_t c = 0; c < nout; c++) {
		vq sum = v->matrix[c][3];

		if (kind == BYTES_YUV)
			sum += same;
		else
			sum += f[kind == BYTES_EACH ? c : 0] * v->matrix[c][kind == BYTES_EACH ? c : 0];
		if (kind == BYTES_ANY || (kind == BYTES_YUV && c > 0))
			sum += f[1] * v->matrix[c][1];
		if (kind == BYTES_ANY || (kind == BYTES_YUV && c < 2))
			sum += f[2] * v->matrix[c][2];
		*(vq *)(out[c] + i + k * WIDE / 2) = LIMITED(sum, v->low[c], v->high[c]);
	}
}

static inline __attribute__((always_inline))
void floats_of(float *const out[3], uint32_t nout, const struct byte_row in[3], size_t n,
	       const struct values *to, enum byte_kind kind, enum float_pairs pairs)
{
	/* Copies, which no store to a row can change. */
	const struct byte_row from[3] = { in[0], in[1], in[2] };
	float *const o[3] = { out[0], out[1], out[2] };
	struct float_vectors v;

	for (uint32_t c = 0; c < nout; c++) {
		for (int j = 0; j < 4; j++)
			v.matrix[c][j] = (vq){ 0 } + to->matrix[c][j];
		v.low[c] = (vq){ 0 } + to->low[c];
		v.high[c] = (vq){ 0 } + to->high[c];
	}
	for (size_t i = 0, end = n & ~(WIDE - 1u); ; i = n - WIDE, end = n) {
		for (; i < end; i += WIDE) {
			vs x[3];

			for (int j = 0; j < (kind == BYTES_ONE ? 1 : 3); j++)
				x[j] = row_at(&from[j], i, pairs == PAIRS_ALL || (j && pairs));
			for (int k = 0; k < 2; k++)
				float_values(o, nout, x, i, k, &v, kind);
		}
		/* The last ones again, with those that are left. */
		if (end == n)
			break;
	}
}

static void floats(float *const out[], uint32_t nout, const struct byte_row in[3], uint32_t nin,
		   uint32_t n, const struct values *to)
{
	const int one = nin == 1 ? 0 : 1;
	const struct byte_row from[3] = { in[0], in[one], in[2 * one] };
	float few[3][WIDE], *o[3] = { few[0], few[1], few[2] };
	enum float_pairs pairs = from[0].weight_b ? PAIRS_ALL : from[1].weight_b ? PAIRS_CHROMA : PAIRS_NONE;
	enum byte_kind kind = BYTES_ONE;
	struct values v = *to;
	float (*m)[4] = v.matrix;

	for (uint32_t c = 0; c < nout; c++) {
		/* B, G and R as R, G and B. */
		uint32_t i = to->reversed ? nout - 1 - c : c;

		/* Samples have 7 bits after the point. */
		for (int j = 0; j < 3; j++)
			m[c][j] = to->matrix[i][j] / 128;
		m[c][3] = to->matrix[i][3];
		v.low[c] = to->low[i];
		v.high[c] = to->high[i];
		if (n >= WIDE)
			o[c] = out[i];
	}
	if (nin > 1)
		kind = m[0][1] || m[2][2] ? BYTES_ANY :
			m[0][0] == m[1][0] && m[0][0] == m[2][0] ? BYTES_YUV :
			m[0][2] || m[1][0] || m[1][2] || m[2][0] || m[2][1] ? BYTES_ANY : BYTES_EACH;
#define CASES(nout, kind)						\
	if (pairs)							\
		floats_of(o, nout, from, n < WIDE ? WIDE : n, &v, kind, PAIRS_ALL);	\
	else								\
		floats_of(o, nout, from, n < WIDE ? WIDE : n, &v, kind, PAIRS_NONE);
	if (nout == 1 && kind == BYTES_ONE) {
		CASES(1, BYTES_ONE)
	} else if (nout == 1) {
		CASES(1, BYTES_ANY)
	} else if (kind == BYTES_ONE) {
		CASES(3, BYTES_ONE)
	} else if (kind == BYTES_EACH) {
		CASES(3, BYTES_EACH)
	} else if (kind == BYTES_YUV && pairs == PAIRS_CHROMA) {
		floats_of(o, 3, from, n < WIDE ? WIDE : n, &v, BYTES_YUV, PAIRS_CHROMA);
	} else if (kind == BYTES_YUV) {
		CASES(3, BYTES_YUV)
	} else {
		CASES(3, BYTES_ANY)
	}
#undef CASES
	for (uint32_t c = 0; c < nout && n < WIDE; c++)
		memcpy(out[to->reversed ? nout - 1 - c : c], few[c], n * sizeof(float));
}
