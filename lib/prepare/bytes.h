/* SPDX-License-Identifier: MIT */
/*
 * The inner loops for bytes that become bytes, in fixed point: rows of samples have 7 bits after
 * the point, weights 15, the matrix 13, and results 5. kernels.h includes it. Processors without
 * the instructions take the loops of floats.
 */
#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WIDE 8
#elif LANES == 8
#define WIDE 16
#define X86(name) _mm256_##name
typedef __m256i vx;
#elif defined(SSE41)
#define WIDE 8
#define X86(name) _mm_##name
typedef __m128i vx;
#endif

#ifdef WIDE
typedef int16_t vs __attribute__((vector_size(WIDE * 2), aligned(2)));
typedef uint8_t vt __attribute__((vector_size(WIDE * 2), aligned(1)));
typedef uint8_t half __attribute__((vector_size(WIDE), aligned(1)));

/* Bytes of WIDE outputs; each 16 bytes of a register are of 8 outputs. */
struct regs {
	vt r[4];
};

/*
 * MULTIPLY(a, b) is (a * b + 2^14) >> 15. LEFTS and RIGHTS are the first and the last 8 of each 16
 * bytes, times 2^7. lookup() finds bytes idx[i] of n registers, within each 16 bytes. The results
 * that are stored are x >> 5, as bytes of 0 to 255, and with flip 128 as signed ones.
 */
#ifdef __aarch64__
#define MULTIPLY(a, b) ((vs)vqrdmulhq_s16((int16x8_t)(a), (int16x8_t)(b)))
#define LEFTS(t) ((vs)vshll_n_u8(vget_low_u8((uint8x16_t)(t)), 7))
#define RIGHTS(t) ((vs)vshll_high_n_u8((uint8x16_t)(t), 7))
#define AT_LEAST(a, b) ((vs)vmaxq_s16((int16x8_t)(a), (int16x8_t)(b)))
#define AT_MOST(a, b) ((vs)vminq_s16((int16x8_t)(a), (int16x8_t)(b)))
/* Vectors of results that are stored at once. */
#define STEP 2
#define RESULTS(x, flip) veorq_u8(vqshrun_high_n_s16(vqshrun_n_s16((int16x8_t)(x)[0], 5), \
						     (int16x8_t)(x)[1], 5), vdupq_n_u8(flip))

static inline vt lookup(const struct regs *f, int n, vt idx)
{
	uint8x16x2_t two = { { (uint8x16_t)f->r[0] } };
	uint8x16x4_t four;

	if (n == 1)
		return (vt)vqtbl1q_u8(two.val[0], (uint8x16_t)idx);
	two.val[1] = (uint8x16_t)f->r[1];
	if (n == 2)
		return (vt)vqtbl2q_u8(two, (uint8x16_t)idx);
	for (int k = 0; k < 4; k++)
		four.val[k] = (uint8x16_t)f->r[k];
	return (vt)vqtbl4q_u8(four, (uint8x16_t)idx);
}

static inline void store_row(uint8_t *dst, const vs x[STEP], uint8_t flip)
{
	vst1q_u8(dst, RESULTS(x, flip));
}

static inline void store_pixels(uint8_t *dst, const vs x[STEP], const vs y[STEP], const vs z[STEP],
				uint8_t flip)
{
	uint8x16x3_t v;

	v.val[0] = RESULTS(x, flip);
	v.val[1] = RESULTS(y, flip);
	v.val[2] = RESULTS(z, flip);
	vst3q_u8(dst, v);
}
#else
#define MULTIPLY(a, b) ((vs)X86(mulhrs_epi16)((vx)(a), (vx)(b)))
#define LEFTS(t) ((vs)X86(srli_epi16)(X86(unpacklo_epi8)((vx){ 0 }, (vx)(t)), 1))
#define RIGHTS(t) ((vs)X86(srli_epi16)(X86(unpackhi_epi8)((vx){ 0 }, (vx)(t)), 1))
#define AT_LEAST(a, b) ((vs)X86(max_epi16)((vx)(a), (vx)(b)))
#define AT_MOST(a, b) ((vs)X86(min_epi16)((vx)(a), (vx)(b)))
#define STEP 1
/* Of x and of y, 8 and 8 in each 16 bytes. */
#define RESULTS(x, y, flip) \
	((vt)X86(packus_epi16)((vx)((x)[0] >> 5), (vx)((y)[0] >> 5)) ^ (flip))

/* A byte of an index whose highest bit is set finds 0. */
static inline vt lookup(const struct regs *f, int n, vt idx)
{
	vt found = { 0 };

	if (n == 1)
		return (vt)X86(shuffle_epi8)((vx)f->r[0], (vx)idx);
	for (int k = 0; k < n; k++) {
		vx at = X86(adds_epu8)((vx)(idx - (uint8_t)(16 * k)), X86(set1_epi8)(0x70));

		found |= (vt)X86(shuffle_epi8)((vx)f->r[k], at);
	}
	return found;
}

static inline void store_row(uint8_t *dst, const vs x[STEP], uint8_t flip)
{
	vt v = RESULTS(x, x, flip);

	memcpy(dst, &v, 8);
	if (WIDE == 16)
		memcpy(dst + 8, (char *)&v + 16, 8);
}

static inline void store_pixels(uint8_t *dst, const vs x[STEP], const vs y[STEP], const vs z[STEP],
				uint8_t flip)
{
#define BOTH(...) { __VA_ARGS__, __VA_ARGS__ }
	static const uint8_t tables[4][32] = {
		BOTH(0, 8, 128, 1, 9, 128, 2, 10, 128, 3, 11, 128, 4, 12, 128, 5),
		BOTH(128, 128, 0, 128, 128, 1, 128, 128, 2, 128, 128, 3, 128, 128, 4, 128),
		BOTH(13, 128, 6, 14, 128, 7, 15, 128, 0, 0, 0, 0, 0, 0, 0, 0),
		BOTH(128, 5, 128, 128, 6, 128, 128, 7, 0, 0, 0, 0, 0, 0, 0, 0),
	};
#undef BOTH
	vt xy = RESULTS(x, y, flip), zz = RESULTS(z, z, flip), parts[2];

	for (int i = 0; i < 2; i++)
		parts[i] = (vt)X86(shuffle_epi8)((vx)xy, (vx)*(const vt *)tables[2 * i]) |
			(vt)X86(shuffle_epi8)((vx)zz, (vx)*(const vt *)tables[2 * i + 1]);
	for (int i = 0; i < WIDE; i += 8) {
		memcpy(dst + 3 * i, (char *)&parts[0] + 2 * i, 16);
		memcpy(dst + 3 * i + 16, (char *)&parts[1] + 2 * i, 8);
	}
}
#endif

static inline vs vs_load(const int16_t *p)
{
	return *(const vs *)p;
}

static inline vs between_two(vs a, vs b, vs weight)
{
	return a + MULTIPLY(b - a, weight);
}

/* Register k of 8 outputs: of each its place's 2, 4 or 8 bytes. */
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

static inline vt register_of(const uint8_t *row, const int32_t *at, int unit, int k)
{
#define PART(i) (unit ? unit_bytes(row, at + 8 * (i), unit, k) : *(const vb *)(row + at[i] + 16 * k))
#if WIDE == 8
	return PART(0);
#else
	return __builtin_shufflevector(PART(0), PART(1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
				       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
#endif
#undef PART
}

static inline __attribute__((always_inline))
void samples_of(int16_t *const dst[], const struct byte_group *g, size_t n, const uint8_t *a,
		const uint8_t *b, int16_t weight_b, int unit, int count, bool two_rows)
{
	const int nregs = unit ? unit / 2 : 2;
	const vs wb = (vs){ 0 } + weight_b;

	for (size_t i = 0; i < n; i += WIDE) {
		const int32_t *at = g->places + (unit ? i : i / 8);
		vt idx = *(const vt *)(g->lookups + (unit ? 0 : 2 * i));
		vs w = vs_load(g->weights + i);
		struct regs ra, rb;

		for (int k = 0; k < nregs; k++) {
			ra.r[k] = register_of(a, at, unit, k);
			if (two_rows)
				rb.r[k] = register_of(b, at, unit, k);
		}
		for (int c = 0; c < count; c++) {
			vt which = count > 1 ? idx + g->moves[c] : idx, t = lookup(&ra, nregs, which);
			vs left = LEFTS(t), right = RIGHTS(t);

			if (two_rows) {
				t = lookup(&rb, nregs, which);
				left = between_two(left, LEFTS(t), wb);
				right = between_two(right, RIGHTS(t), wb);
			}
			*(vs *)(dst[c] + i) = between_two(left, right, w);
		}
	}
}

/* Outputs that are samples, one after the other. */
static inline void samples_copied(int16_t *restrict dst, size_t n, const uint8_t *a, const uint8_t *b,
				  int16_t weight_b)
{
	const vs wb = (vs){ 0 } + weight_b;

	for (size_t i = 0; i < n; i += WIDE) {
		vs v = __builtin_convertvector(*(const half *)(a + i), vs) << 7;

		if (b)
			v = between_two(v, __builtin_convertvector(*(const half *)(b + i), vs) << 7, wb);
		*(vs *)(dst + i) = v;
	}
}

static void samples(int16_t *const dst[], const struct byte_group *g, uint32_t n, const uint8_t *a,
		    const uint8_t *b, int16_t weight_b)
{
#define CASE(unit, count)								\
	if (b)										\
		samples_of(dst, g, n, a, b, weight_b, unit, count, true);		\
	else										\
		samples_of(dst, g, n, a, a, 0, unit, count, false);
	switch (g->unit) {
	case 0:
		if (g->count == 1) {
			CASE(0, 1)
		} else if (g->count == 2) {
			CASE(0, 2)
		} else {
			CASE(0, 3)
		}
		break;
	case 1:
		samples_copied(dst[0], n, a + g->places[0], b ? b + g->places[0] : NULL, weight_b);
		break;
	case 2:
		CASE(2, 1)
		break;
	case 4:
		CASE(4, g->count)
		break;
	default:
		CASE(8, g->count)
	}
#undef CASE
}

/* Channel c at WIDE places. */
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
		v += first;
		if (c != 2)
			TERM(2)
		if (c != 0)
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

static inline __attribute__((always_inline))
void results_of(uint8_t *const dst[], const struct byte_row in[], size_t n,
		const struct byte_values *v, enum byte_kind kind, uint32_t nout, bool pixels, bool pairs)
{
	const size_t at_once = STEP * WIDE, bytes = pixels ? 3 : 1;
	/* Copies, which no store to a row can change. */
	struct byte_values copy = *v;
	const struct byte_row from[3] = { in[0], in[kind == BYTES_ONE ? 0 : 1], in[kind == BYTES_ONE ? 0 : 2] };
	uint8_t last[3][3 * STEP * WIDE];
	uint8_t *const to[3] = { n < at_once ? last[0] : dst[0], n < at_once ? last[1] : dst[nout - 1 ? 1 : 0],
				 n < at_once ? last[2] : dst[nout - 1 ? 2 : 0] };

	copy.kind = kind;
	/* The last ones can be those before, once more. */
	for (size_t i = 0; ; i = i + 2 * at_once <= n ? i + at_once : n - at_once) {
		vs y[3][STEP];

		for (int k = 0; k < STEP; k++) {
			size_t at = i + k * WIDE;
			vs x[3], first = { 0 };

			for (int j = 0; j < (kind == BYTES_ONE ? 1 : 3); j++) {
				x[j] = vs_load(from[j].a + at);
				if (pairs)
					x[j] = between_two(x[j], vs_load(from[j].b + at),
							   (vs){ 0 } + from[j].weight_b);
			}
			if (kind == BYTES_YUV)
				first = MULTIPLY(x[0], (vs){ 0 } + copy.matrix[0][0]);
			for (uint32_t c = 0; c < nout; c++)
				y[c][k] = channel(x, &copy, c, first);
		}
		for (uint32_t c = 0; c < nout && !pixels; c++)
			store_row(to[c] + i, y[c], copy.flip);
		if (pixels && copy.reversed)
			store_pixels(to[0] + 3 * i, y[2], y[1], y[0], copy.flip);
		else if (pixels)
			store_pixels(to[0] + 3 * i, y[0], y[1], y[2], copy.flip);
		if (i + at_once >= n)
			break;
	}
	for (uint32_t c = 0; c < (pixels ? 1 : nout) && n < at_once; c++)
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
	case 2 + BYTES_ANY * 2:
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
	}
#undef CASES
}
#define BYTE_KERNELS , samples, results
#else
#define BYTE_KERNELS , NULL, NULL
#endif
