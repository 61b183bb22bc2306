/* SPDX-License-Identifier: MIT */
/*
 * Makes three channels in float32 from three components of bytes, which are scaled in fixed point
 * without rounding. bytes.h includes this file.
 */
typedef float vq __attribute__((vector_size(WIDE * 2), aligned(4)));

/* The low half (k = 0) or the high half (k = 1) of a vector of samples, as floats. */
#if defined(__aarch64__)
#define HALF(x, k) ((vq)vcvtq_f32_s32((k) ? vmovl_high_s16((int16x8_t)(x)) : \
				      vmovl_s16(vget_low_s16((int16x8_t)(x)))))
#define KEEP(x) __asm__ ("" : "+w" (x))
#define LIMITED(x, low, high) \
	((vq)vminnmq_f32(vmaxnmq_f32((float32x4_t)(x), (float32x4_t)(low)), (float32x4_t)(high)))
#else
#define HALF(x, k) ((vq)_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32((k) ? \
	_mm256_extracti128_si256((vx)(x), 1) : _mm256_castsi256_si128((vx)(x)))))
#define KEEP(x) __asm__ ("" : "+x" (x))
#define LIMITED(x, low, high) \
	((vq)_mm256_min_ps(_mm256_max_ps((__m256)(x), (__m256)(low)), (__m256)(high)))
#endif

/*
 * Weights of two rows, whose sum is 128. A single row counts as two rows of weight 64, because 128
 * does not fit a signed byte.
 */
struct parts {
	vt a, b;
};

static inline struct parts parts_of(int b)
{
	b = b ? b : 64;
	return (struct parts){ (vt){ 0 } + (uint8_t)(128 - b), (vt){ 0 } + (uint8_t)b };
}

/* The weighted sums of the first 8, and of the last 8, of each 16 bytes of two rows. */
#ifdef __aarch64__
#define BLEND_LEFTS(x, y, w)							\
	((vs)vmlal_u8(vmull_u8(vget_low_u8((uint8x16_t)(x)),			\
			       vget_low_u8((uint8x16_t)(w).a)),			\
		      vget_low_u8((uint8x16_t)(y)), vget_low_u8((uint8x16_t)(w).b)))
#define BLEND_RIGHTS(x, y, w)							\
	((vs)vmlal_high_u8(vmull_high_u8((uint8x16_t)(x), (uint8x16_t)(w).a),	\
			   (uint8x16_t)(y), (uint8x16_t)(w).b))
#else
#define BLEND(half, x, y, w) \
	((vs)X86(maddubs_epi16)(X86(half)((vx)(x), (vx)(y)), X86(half)((vx)(w).a, (vx)(w).b)))
#define BLEND_LEFTS(x, y, w) BLEND(unpacklo_epi8, x, y, w)
#define BLEND_RIGHTS(x, y, w) BLEND(unpackhi_epi8, x, y, w)
#endif

/* The components that are sums of two rows. */
enum float_pairs {
	PAIRS_NONE,
	PAIRS_CHROMA,
	PAIRS_ALL,
};

/* As struct values; all places of a vector are equal. */
struct float_vectors {
	vq matrix[3][4], low[3], high[3];
};

/*
 * The values in the order R, G, B of the rows. The matrix is divided by 128, because samples have 7
 * bits after the point.
 */
static struct float_vectors in_order(const struct values *from, float *const out[3], float *to[3])
{
	struct float_vectors v;

	for (int c = 0; c < 3; c++) {
		int i = from->reversed ? 2 - c : c;

		for (int j = 0; j < 4; j++)
			v.matrix[c][j] = (vq){ 0 } + from->matrix[i][j] / (j < 3 ? 128 : 1);
		v.low[c] = (vq){ 0 } + from->low[i];
		v.high[c] = (vq){ 0 } + from->high[i];
		to[c] = out[i];
	}
	return v;
}

/* Computes the channels of half a vector of samples. */
static inline __attribute__((always_inline))
void float_values(float *const out[3], const vs x[3], size_t i, int k,
		  const struct float_vectors *v, enum byte_kind kind)
{
	vq f[3], same;

	for (int j = 0; j < 3; j++)
		f[j] = HALF(x[j], k);
	same = f[0] * v->matrix[0][0];
	/* Without this the compiler would multiply again for each sum. */
	if (kind == BYTES_YUV)
		KEEP(same);
	for (int c = 0; c < 3; c++) {
		vq sum = v->matrix[c][3];
		int j = kind == BYTES_EACH ? c : 0;

		sum += kind == BYTES_YUV ? same : f[j] * v->matrix[c][j];
		if (kind == BYTES_ANY || (kind == BYTES_YUV && c > 0))
			sum += f[1] * v->matrix[c][1];
		if (kind == BYTES_ANY || (kind == BYTES_YUV && c < 2))
			sum += f[2] * v->matrix[c][2];
		*(vq *)(out[c] + i + k * WIDE / 2) = LIMITED(sum, v->low[c], v->high[c]);
	}
}

static inline __attribute__((always_inline))
void floats_of(float *const out[3], const struct byte_row in[3], size_t n,
	       const struct float_vectors *to, enum byte_kind kind, enum float_pairs pairs)
{
	/* Local copies: no store to a row can change these. */
	const struct byte_row from[3] = { in[0], in[1], in[2] };
	float *const o[3] = { out[0], out[1], out[2] };
	const struct float_vectors v = *to;

	for (size_t i = 0, end = n & ~(WIDE - 1u); ; i = n - WIDE, end = n) {
		for (; i < end; i += WIDE) {
			vs x[3];

			for (int j = 0; j < 3; j++)
				x[j] = row_samples(&from[j], i, pairs == PAIRS_ALL || (j && pairs));
			for (int k = 0; k < 2; k++)
				float_values(o, x, i, k, &v, kind);
		}
		/* The last vector again, so that it includes the remaining values. */
		if (end == n)
			break;
	}
}

static void floats(float *const out[], const struct byte_row in[3], uint32_t n,
		   const struct values *to)
{
	float last[3][WIDE], *few[3] = { last[0], last[1], last[2] }, *whole[3];
	float **o = n < WIDE ? few : whole;
	const struct float_vectors v = in_order(to, out, whole);
	const uint32_t most = n < WIDE ? WIDE : n;
	const bool luma = in[0].weight_b, chroma = in[1].weight_b;
#define M(c, j) v.matrix[c][j][0]

	if (!M(0, 1) && !M(2, 2) && M(0, 0) == M(1, 0) && M(0, 0) == M(2, 0)) {
		if (luma)
			floats_of(o, in, most, &v, BYTES_YUV, PAIRS_ALL);
		else
			floats_of(o, in, most, &v, BYTES_YUV, PAIRS_CHROMA);
	} else if (M(0, 1) || M(0, 2) || M(1, 0) || M(1, 2) || M(2, 0) || M(2, 1)) {
		floats_of(o, in, most, &v, BYTES_ANY, PAIRS_ALL);
	} else if (luma || chroma) {
		floats_of(o, in, most, &v, BYTES_EACH, PAIRS_ALL);
	} else {
		floats_of(o, in, most, &v, BYTES_EACH, PAIRS_NONE);
	}
#undef M
	for (int c = 0; c < 3 && o == few; c++)
		memcpy(whole[c], few[c], n * sizeof(float));
}

/* As pixels_at(), for row weights that are whole 128ths: a byte times its weight is a sample. */
static inline __attribute__((always_inline))
void exact_at(vs x[3], const struct byte_group g[2], const struct byte_row rows[2],
	      const uint8_t *whole, size_t at, struct two_rows y0, struct two_rows uv,
	      struct parts weights, enum direct how)
{
	const int32_t *place = g[1].places + at / 8;
	vt a[2], b[2];

	if (how < LUMA_OF_ONE) {
		pixels_at(x, g, rows, whole, at, y0, uv, how);
		return;
	}
	samples_at(&x[0], &g[0], at, y0, BYTES_32, 1, how != LUMA_OF_ONE, how != LUMA_OF_ONE);
	find_bytes(a, uv.a, place, BYTES_32, *(const vt *)(g[1].lookups + 2 * at), g[1].moves, 2);
	find_bytes(b, uv.b, place, BYTES_32, *(const vt *)(g[1].lookups + 2 * at), g[1].moves, 2);
	for (int c = 0; c < 2; c++)
		x[1 + c] = between_two(BLEND_LEFTS(a[c], b[c], weights),
				       BLEND_RIGHTS(a[c], b[c], weights),
				       vs_load(g[1].weights + at));
}

static inline __attribute__((always_inline))
void direct_floats_of(float *const out[3], const struct byte_group g[2],
		      const struct byte_source from[2], const struct byte_row kept[2], size_t n,
		      const struct float_vectors *to, enum direct how)
{
	const struct byte_group groups[2] = { g[0], g[1] };
	const struct byte_row rows[2] = { kept[0], kept[1] };
	const struct two_rows y0 = { from[0].a, from[0].b, (vs){ 0 } + from[0].weight_b };
	const struct two_rows uv = { from[1].a, from[1].b, (vs){ 0 } + from[1].weight_b };
	const struct parts weights = parts_of(from[1].weight_b / 256);
	const uint8_t *whole = from[0].a + groups[0].places[0];
	const struct float_vectors v = *to;
	float few[3][WIDE], *o[3] = { out[0], out[1], out[2] };
	size_t i = 0, at = 0, end = n & ~(WIDE - 1u);

	for (;;) {
		for (; i < end; i += WIDE, at += WIDE) {
			vs x[3];

			exact_at(x, groups, rows, whole, i, y0, uv, weights, how);
			for (int k = 0; k < 2; k++)
				float_values(o, x, at, k, &v, BYTES_YUV);
		}
		if (i >= n)
			break;
		at = 0;
		end = n;
		for (int c = 0; c < 3; c++)
			o[c] = few[c];
	}
	for (int c = 0; c < 3; c++)
		memcpy(out[c] + n / WIDE * WIDE, few[c], n % WIDE * sizeof(float));
}

static void direct_floats(float *const out[], const struct byte_group g[2],
			  const struct byte_source from[2], const struct byte_row kept[2],
			  uint32_t n, const struct values *to)
{
	float *o[3];
	const struct float_vectors v = in_order(to, out, o);

	if (g[0].load == BYTES_IN_ORDER)
		direct_floats_of(o, g, from, kept, n, &v, SAME);
	else if (!g[0].taps && !from[0].weight_b)
		direct_floats_of(o, g, from, kept, n, &v, LUMA_OF_ONE);
	else
		direct_floats_of(o, g, from, kept, n, &v, LUMA_OF_TWO);
}
