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
	case (unit) * 4 + (count):							\
		if (b)									\
			samples_of(dst, g, n, a, b, weight_b, unit, count, true);	\
		else									\
			samples_of(dst, g, n, a, a, 0, unit, count, false);		\
		break;
	switch (g->unit * 4 + g->count) {
	CASE(0, 1)
	CASE(0, 2)
	CASE(0, 3)
	CASE(2, 1)
	CASE(4, 1)
	CASE(4, 2)
	CASE(8, 1)
	CASE(8, 2)
	CASE(8, 3)
	default:
		samples_copied(dst[0], n, a + g->places[0], b ? b + g->places[0] : NULL, weight_b);
	}
#undef CASE
}

static void between(int16_t *restrict dst, const int16_t *a, const int16_t *b, int16_t weight_b,
		    uint32_t n)
{
	for (size_t i = 0; i < n; i += WIDE)
		*(vs *)(dst + i) = between_two(vs_load(a + i), vs_load(b + i), (vs){ 0 } + weight_b);
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
void results_at(uint8_t *const dst[], const int16_t *const in[], size_t i, size_t to,
		const struct byte_values *v, uint32_t nout, bool pixels)
{
	vs y[3][STEP];

	for (int k = 0; k < STEP; k++) {
		vs x[3], first = { 0 };

		for (int j = 0; j < (v->kind == BYTES_ONE ? 1 : 3); j++)
			x[j] = vs_load(in[j] + i + k * WIDE);
		if (v->kind == BYTES_YUV)
			first = MULTIPLY(x[0], (vs){ 0 } + v->matrix[0][0]);
		for (uint32_t c = 0; c < nout; c++)
			y[c][k] = channel(x, v, c, first);
	}
	if (!pixels)
		for (uint32_t c = 0; c < nout; c++)
			store_row(dst[c] + to, y[c], v->flip);
	else if (v->reversed)
		store_pixels(dst[0] + 3 * to, y[2], y[1], y[0], v->flip);
	else
		store_pixels(dst[0] + 3 * to, y[0], y[1], y[2], v->flip);
}

static inline __attribute__((always_inline))
void results_of(uint8_t *const dst[], const int16_t *const in[], size_t n,
		const struct byte_values *v, enum byte_kind kind, uint32_t nout, bool pixels)
{
	const size_t at_once = STEP * WIDE, bytes = pixels ? 3 : 1;
	/* Copies, which no store to a row can change. */
	struct byte_values copy = *v;
	const int16_t *const from[3] = { in[0], in[kind == BYTES_ONE ? 0 : 1], in[kind == BYTES_ONE ? 0 : 2] };
	uint8_t *const to[3] = { dst[0], dst[nout - 1 ? 1 : 0], dst[nout - 1 ? 2 : 0] };
	uint8_t last[3][3 * STEP * WIDE], *const rest[3] = { last[0], last[1], last[2] };
	size_t i = 0;

	copy.kind = kind;
	for (; i + at_once <= n; i += at_once)
		results_at(to, from, i, i, &copy, nout, pixels);
	if (i == n)
		return;
	results_at(rest, from, i, 0, &copy, nout, pixels);
	for (uint32_t c = 0; c < (pixels ? 1 : nout); c++)
		memcpy(to[c] + i * bytes, last[c], (n - i) * bytes);
}

static void results(uint8_t *const dst[], const int16_t *const in[], uint32_t n,
		    const struct byte_values *v, uint32_t nout, bool pixels)
{
#define CASE(which)							\
	case (which) * 2:						\
		results_of(dst, in, n, v, which, 3, false);		\
		break;							\
	case (which) * 2 + 1:						\
		results_of(dst, in, n, v, which, 3, true);		\
		break;
	if (nout == 1) {
		if (v->kind == BYTES_ONE)
			results_of(dst, in, n, v, BYTES_ONE, 1, false);
		else
			results_of(dst, in, n, v, BYTES_ANY, 1, false);
		return;
	}
	switch (v->kind * 2 + pixels) {
	CASE(BYTES_ANY)
	CASE(BYTES_ONE)
	CASE(BYTES_EACH)
	CASE(BYTES_YUV)
	}
#undef CASE
}
#define BYTE_KERNELS , samples, between, results
#else
#define BYTE_KERNELS , NULL, NULL, NULL
#endif
