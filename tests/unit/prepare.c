// SPDX-License-Identifier: MIT
/* Preparation against docs/prepare.md, computed in double precision, pixel by pixel. */
#include "ktap.h"

#include <math.h>
#include <sys/mman.h>

#include <dlbuf/prepare.h>

#include "import/backend.h"
#include "prepare/prepare.h"
#include "system/internal.h"
#include "system/sys.h"
#include "prepare_reference.h"

/* Options of one call. */
#define RUN_OPTS struct dlbuf_prepare_run_opts
#define RUN(...) (&(RUN_OPTS){ .size = sizeof(RUN_OPTS), __VA_ARGS__ })

/* ---------------------------------------------------------- the comparison */

static const DLDataType types[] = {
	{ kDLFloat, 32, 1 }, { kDLUInt, 8, 1 }, { kDLInt, 8, 1 }, { kDLFloat, 16, 1 },
	{ kDLBfloat, 16, 1 },
};

static double read_value(const char *at, DLDataType t)
{
	uint16_t v;
	uint32_t b;
	float f;

	if (t.bits == 8)
		return t.code == kDLInt ? (double)*(const int8_t *)at : *(const uint8_t *)at;
	memcpy(&v, at, 2);
	if (t.code == kDLBfloat) {
		b = (uint32_t)v << 16;
		memcpy(&f, &b, 4);
		return (double)f;
	}
	if (t.bits == 16) {
		double m = (v & 0x7c00) ? ldexp(1024 + (v & 1023), (v >> 10 & 31) - 25) :
			ldexp(v & 1023, -24);

		return v & 0x8000 ? -m : m;
	}
	memcpy(&f, at, 4);
	return (double)f;
}

/* The allowed difference of a value of the type from the real number r of the range `full`. */
static double tolerance(DLDataType t, double r, double full)
{
	if (t.bits == 8)
		return .5 + 1e-3;
	if (t.code == kDLBfloat)
		return fabs(r) / 256 + 1e-5 * full;
	if (t.bits == 16)
		return fabs(r) / 2048 + ldexp(1, -25) + 1e-5 * full;
	return 1e-5 * full;
}

struct run {
	const struct layout *l;
	uint32_t w, h;
	struct dlbuf_prepare_opts o;
	bool crops;
	int orientation;
};

static double worst_of_bytes, worst_of_wide;

/* Compares an image; returns how many values are wrong. The largest error is *worst. */
static int compare_image(const struct run *r, const struct dlbuf_prepare_info *info,
			 const struct scaled components[3], int n, const char *image, bool bytes,
			 double *worst_byte, double *worst)
{
	const struct dlbuf_prepare_opts *o = &r->o;
	DLDataType t = o->dtype.bits ? o->dtype : types[0];
	int64_t C = info->channels, H = info->height, W = info->width;
	int wrong = 0;
	double full;

	for (int64_t y = 0; y < H && !wrong; y++) {
		for (int64_t x = 0; x < W; x++) {
			int64_t X = x - info->left, Y = y - info->top, i, j,
				wT = info->scaled_width, hT = info->scaled_height;
			double rgb[3] = { 0 };
			bool bar = X < 0 || Y < 0 || X >= wT || Y >= hT;

			if (info->flags & DLBUF_PREPARE_FLIP_X)
				X = wT - 1 - X;
			if (info->flags & DLBUF_PREPARE_FLIP_Y)
				Y = hT - 1 - Y;
			i = info->turn == 0 ? X : info->turn == 1 ? Y :
			    info->turn == 2 ? wT - 1 - X : hT - 1 - Y;
			j = info->turn == 0 ? Y : info->turn == 1 ? wT - 1 - X :
			    info->turn == 2 ? hT - 1 - Y : X;
			if (!bar)
				reference(components, n, o, i, j, rgb);
			for (int c = 0; c < C; c++) {
				int64_t at = o->flags & DLBUF_PREPARE_NHWC ? (y * W + x) * C + c :
					(c * H + y) * W + x;
				double got = read_value(image + at * (t.bits / 8), t), want, err;
				double scale = o->scale ? o->scale : t.bits == 8 ? 1 : 1 / 255.;
				double std = o->std[c] ? o->std[c] : 1;
				int from = o->channels == DLBUF_CHANNELS_BGR ? 2 - c : c;

				want = ((bar ? o->pad[c] : 255 * rgb[from]) * scale -
					o->mean[c]) / std;
				full = fabs(255 * scale / std);
				if (t.bits == 8) {
					want = want / (o->quant_scale ? o->quant_scale : 1) +
						o->zero_point;
					want = fmin(fmax(want, t.code == kDLInt ? -128 : 0),
						    t.code == kDLInt ? 127 : 255);
				}
				err = fabs(got - want);
				if (t.bits == 32 && err / full > *worst)
					*worst = err / full;
				if (bytes && err > *worst_byte)
					*worst_byte = err;
				if (!(err <= (bytes ? 2 / 3. : tolerance(t, want, full))) &&
				    wrong++ < 3)
					ktap_note(NULL, 0,
						  "%s %ux%u filter %d: %lld,%lld channel %d "
						  "is %g, not %g", r->l->name, r->w, r->h,
						  o->filter, (long long)x, (long long)y, c,
						  got, want);
			}
		}
	}
	return wrong;
}

/*
 * The same crop by a plan of the whole picture, after it and before it: another size of all
 * tables. It has threads, sometimes more than rows. out has 3 images.
 */
static int compare_crops(const struct run *r, const struct scene *s,
			 const struct dlbuf_prepare *like,
			 const struct dlbuf_prepare_info *info, struct plane_tensors *planes,
			 DLManagedTensorVersioned *out, const char *image, size_t bytes)
{
	struct dlbuf_crop crops[3] = {
		{ info->crop_x, info->crop_y, info->crop_width, info->crop_height },
	};
	struct dlbuf_prepare_info infos[3] = { { .size = sizeof(infos[0]) } };
	struct dlbuf_prepare_opts o = r->o;
	const char *data = out->dl_tensor.data;
	struct dlbuf_prepare *plan;
	int wrong;

	crops[2] = crops[0];
	o.crop_x = o.crop_y = o.crop_width = o.crop_height = 0;
	o.threads = noise() % 6;
	if (!CHECK(!dlbuf_prepare_create(NULL, &s->frame, &o, &plan)))
		return 1;
	plan->kernels = like->kernels;
	plan->byte_kernels = like->byte_kernels;
	wrong = !CHECK(!dlbuf_prepare_tensors(plan, planes->list, s->nplanes,
					      RUN(.crops = crops, .ncrops = 3, .infos = infos),
					      out)) ||
		!CHECK(!memcmp(data, image, bytes) && !memcmp(data + 2 * bytes, image, bytes)) ||
		!CHECK(!memcmp(&infos[0], info, sizeof(*info)) &&
		       !memcmp(&infos[2], info, sizeof(*info)) && infos[1].crop_width == r->w);
	dlbuf_prepare_destroy(plan);
	return wrong;
}

/* Sums of so many rows, or of more, that plans have computed of rows scaled along x. */
static bool reached_sum[10];

/* The cases of bytes.h that a plan in fixed point has run. */
static bool reached_load[BYTES_IN_ORDER + 1][4], reached_kind[BYTES_BGR_OF_YUV + 1][2],
	reached_direct[2];
static bool reached_pairs[2][2][2][2][2], reached_copied[2];
/* Rows of a mosaic in a tensor: planes; pixels of R, G, B; of B, G, R. */
static bool reached_mosaic[3];
/* And those of floats.h: rows as they are or sums of two. */
static bool reached_floats[BYTES_YUV + 1][2], reached_direct_floats[3];

/* The loops that a plan runs, for 3 channels of NHWC with `pixels`. */
enum path {
	PATH_FLOATS,
	PATH_WIDE,
	PATH_BYTES,
	PATH_WIDE_BYTES,
	PATH_DIRECT,
	PATH_PAIRS,
	PATH_COPIED,
	PATH_MOSAIC,
	PATH_EXACT,
	PATH_EXACT_DIRECT,
};

static enum path path_of(const struct dlbuf_prepare *p, bool pixels)
{
	if (!p->ngroups)
		return p->rings[0].direct ? PATH_FLOATS : PATH_WIDE;
	if (p->wide.found)
		return PATH_WIDE_BYTES;
	if (p->mosaic)
		return PATH_MOSAIC;
	if (p->in_floats)
		return p->direct ? PATH_EXACT_DIRECT : PATH_EXACT;
	return !pixels ? PATH_BYTES : p->pairs.found ? PATH_PAIRS : p->copied ? PATH_COPIED :
		p->direct ? PATH_DIRECT : PATH_BYTES;
}

/* Comparisons of plans that have taken each path, and of each layout in fixed point. */
static uint32_t taken[PATH_EXACT_DIRECT + 1], fixed_of[ARRAY_SIZE(layouts)];

static void reach_floats(const struct dlbuf_prepare *p)
{
	const float (*m)[4] = p->values.matrix;
	const struct axis *y = &p->y[p->source.components[p->source.ncomponents - 1].fine];
	enum byte_kind kind = BYTES_ANY;
	int zeros = 0, pairs = 0;

	for (int c = 0; c < 3; c++)
		for (int j = 0; j < 3; j++)
			zeros += !m[c][j];
	for (uint32_t i = 0; i < y->n; i++)
		pairs |= y->taps > 1 && y->high - y->low < y->n &&
			 y->weights[((y->n + 7) & ~7u) + i];
	if (zeros == 6)
		kind = BYTES_EACH;
	else if (zeros == 2 && m[0][0] == m[1][0] && m[0][0] == m[2][0])
		kind = BYTES_YUV;
	reached_floats[kind][pairs] = true;
	if (p->direct)
		reached_direct_floats[p->groups[1].kept ? 0 :
				      p->groups[0].taps || p->y[0].taps > 1 ? 2 : 1] = true;
}

static void reach(const struct dlbuf_prepare *p)
{
	const struct byte_pairs *q = &p->pairs;

	for (uint32_t i = 0; i < p->ngroups; i++)
		reached_load[p->groups[i].load][p->groups[i].count] = true;
	if (p->ngroups && p->in_floats)
		reach_floats(p);
	if (p->ngroups && !p->in_floats)
		reached_kind[p->byte_values.kind][p->nhwc && p->nout == 3] = true;
	if (p->ngroups && !p->in_floats && p->direct)
		reached_direct[p->groups[1].kept] = true;
	if (p->ngroups && p->copied)
		reached_copied[p->groups[0].load == BYTES_OF_4] = true;
	if (p->ngroups && p->mosaic)
		reached_mosaic[!p->nhwc ? 0 : p->byte_values.reversed ? 2 : 1] = true;
	if (p->ngroups && q->found)
		reached_pairs[q->packed][q->chroma_first][q->halved][q->moved]
			     [q->v_first == (p->byte_values.kind == BYTES_YUV)] = true;
	for (uint32_t i = 0; i < p->source.nplanes; i++) {
		const struct axis *y = &p->y[p->rings[i].axis];

		for (uint32_t j = 0; j < y->n && p->rings[i].scaled; j++) {
			uint32_t rows = 0;

			for (uint32_t k = 0; k < y->taps; k++)
				rows += y->weights[k * ((y->n + 7) & ~7u) + j] != 0;
			reached_sum[rows < 9 ? rows : 9] = true;
		}
	}
}

/* The loops for bytes that a processor without AVX2 has. */
static const struct byte_kernels *older_bytes(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("sse4.1") ? &byte_kernels_sse41 : NULL;
#else
	return NULL;
#endif
}

/* Runs it by this processor's code and by that for others. */
static int compare(const struct run *r, double *worst)
{
	const struct {
		const struct prepare_kernels *kernels;
		const struct byte_kernels *bytes;
	} others[] = { { NULL, NULL }, { &prepare_kernels, older_bytes() },
		{ &prepare_kernels, NULL } };
	struct dlbuf_prepare_info info = { .size = sizeof(info) };
	int n = r->l->at[1].plane < 0 ? 1 : 3, wrong = 0;
	DLDataType t = r->o.dtype.bits ? r->o.dtype : types[0];
	bool nhwc = r->o.flags & DLBUF_PREPARE_NHWC;
	struct scaled components[3];
	struct plane_tensors planes;
	struct dlbuf_prepare *plan;
	struct scene s;

	scene_make(&s, r->l, r->w, r->h);
	s.frame.orientation = r->orientation;
	if (dlbuf_prepare_create(NULL, &s.frame, &r->o, &plan)) {
		ktap_note(NULL, 0, "%s: %s", r->l->name, dlbuf_last_error());
		scene_free(&s);
		return 1;
	}
	dlbuf_prepare_get_info(plan, &info);
	for (int c = 0; c < n; c++)
		scaled_make(&components[c], &s, c, &r->o, &info);
	int64_t C = info.channels, H = info.height, W = info.width;
	int64_t shape[4] = { 3, nhwc ? H : C, nhwc ? W : H, nhwc ? C : W };
	size_t image = C * H * W * (t.bits / 8);
	char *data = malloc(3 * image), *first = malloc(image);
	DLManagedTensorVersioned out = {
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, .deleter = ignore,
		.dl_tensor = { .data = data, .device = { kDLCPU, 0 }, .ndim = 4, .dtype = t,
			.shape = shape },
	};

	scene_tensors(&s, &planes);
	for (size_t k = 0; k < ARRAY_SIZE(others) && !wrong; k++) {
		if (k && plan->kernels == others[k].kernels &&
		    plan->byte_kernels == others[k].bytes)
			continue;
		if (k) {
			plan->kernels = others[k].kernels;
			plan->byte_kernels = others[k].bytes;
			CHECK(!prepare_scratch(plan));
		}
		memset(data, 0x5a, 3 * image);
		if (dlbuf_prepare_tensors(plan, planes.list, s.nplanes, RUN(.index = 1), &out)) {
			ktap_note(NULL, 0, "%s: %s", r->l->name, dlbuf_last_error());
			wrong = 1;
		}
		for (size_t i = 0; i < image && !wrong; i++)
			wrong += data[i] != 0x5a || data[i + 2 * image] != 0x5a;
		if (!wrong)
			wrong = compare_image(r, &info, components, n, data + image,
					      plan->ngroups && !plan->in_floats &&
					      !plan->mosaic,
					      plan->wide.found ? &worst_of_wide : &worst_of_bytes,
					      worst);
		reach(plan);
		taken[path_of(plan, nhwc && C == 3)]++;
		for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
			fixed_of[i] += r->l == &layouts[i] && plan->ngroups && !plan->in_floats;
		memcpy(first, data + image, image);
		if (!wrong && r->crops)
			wrong = compare_crops(r, &s, plan, &info, &planes, &out, first, image);
	}
	free(first);
	free(data);
	for (int c = 0; c < n; c++)
		scaled_free(&components[c]);
	dlbuf_prepare_destroy(plan);
	scene_free(&s);
	return wrong;
}

TEST(formats_and_filters)
{
	static const struct {
		uint32_t w, h, ow, oh;
	} sizes[] = { { 34, 22, 17, 11 }, { 58, 30, 12, 9 }, { 22, 10, 51, 37 }, { 36, 18, 36, 18 },
		      { 8, 6, 72, 63 } };
	double worst = 0;

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		for (int filter = 0; filter <= DLBUF_FILTER_LANCZOS3; filter++) {
			for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
				struct run r = { &layouts[i], sizes[k].w + 1, sizes[k].h + 1, {
					.size = sizeof(r.o), .width = sizes[k].ow,
					.height = sizes[k].oh, .filter = filter }, false };

				state = i * 1000 + filter * 10 + k;
				CHECK(!compare(&r, &worst));
			}
		}
	}
	for (int n = 1; n < 10; n++)
		CHECK_MSG(reached_sum[n], "sums of %d rows", n);
	ktap_note(NULL, 0,
		  "largest error of float32: %.1e of full scale; of bytes in fixed point: %.3f",
		  worst, worst_of_bytes);
}

/* Bytes in fixed point: each way to load samples, each kind of matrix, one sample and two. */
TEST(bytes)
{
	static const struct {
		uint32_t w, h, ow, oh;
	} sizes[] = { { 34, 22, 17, 11 }, { 58, 30, 12, 9 }, { 22, 10, 51, 37 }, { 36, 18, 36, 18 },
		      { 130, 20, 40, 12 }, { 96, 60, 32, 20 }, { 260, 12, 20, 5 },
		      { 40, 9, 131, 9 } };
	/* The first cubic one has a crop of few pixels. */
	static const int filters[] = { DLBUF_FILTER_BILINEAR, DLBUF_FILTER_NEAREST,
		DLBUF_FILTER_AREA, DLBUF_FILTER_CUBIC, DLBUF_FILTER_CUBIC, DLBUF_FILTER_TRIANGLE };
	const struct byte_kernels *fixed;
	double worst = 0;

	/* Processors without the loops have only floats, which other cases compare. */
	prepare_choose(&fixed);
	for (size_t i = 0; fixed && i < ARRAY_SIZE(layouts); i++) {
		for (size_t k = 0; layouts[i].bits == 8 && k < 2 * ARRAY_SIZE(sizes); k++) {
			for (size_t f = 0; f < ARRAY_SIZE(filters); f++) {
				uint32_t n = i + k + f, odd = k % 2;
				struct run r = { &layouts[i], sizes[k / 2].w + odd,
					sizes[k / 2].h + odd, {
					.size = sizeof(r.o), .width = sizes[k / 2].ow,
						.height = sizes[k / 2].oh,
					.filter = filters[f], .dtype = types[1 + n % 5 / 4],
					.channels = n % 3,
					.flags = n / 3 % 2 ? DLBUF_PREPARE_NHWC : 0 },
					(n / 3 + f) % 3 == 0 };

				r.o.zero_point = r.o.dtype.code == kDLInt ? -128 : 0;
				/* Sums beyond 16 bits. */
				if (n % 7 == 0) {
					r.o.quant_scale = .588;
					r.o.mean[0] = r.o.mean[1] = r.o.mean[2] = -90;
				}
				/* Two samples, whose weights are not from 0 to 1. */
				if (f == 3) {
					r.o.crop_x = 2.05;
					r.o.crop_y = 4.3;
					r.o.crop_width = r.o.crop_height = 1.5;
				}
				/* A weight that is 1 in 16 bits. */
				if (n % 5 == 3 && !filters[f] && r.w > r.o.width + 2) {
					r.o.crop_x = 1.999995;
					r.o.crop_width = r.o.width;
					r.o.crop_height = r.h;
				}
				/* YCgCo */
				r.o.colour.matrix = k % 3 == 2 ? 9 : 0;
				state = n;
				CHECK(!compare(&r, &worst));
			}
		}
	}
	ktap_note(NULL, 0,
		  "largest error of bytes in fixed point: %.3f, of wide filters %.3f; plans by "
		  "samples and matrix: %u, without rows between: %u, pairs: %u, copies: %u, "
		  "wide filters: %u",
		  worst_of_bytes, worst_of_wide, taken[PATH_BYTES], taken[PATH_DIRECT],
		  taken[PATH_PAIRS], taken[PATH_COPIED], taken[PATH_WIDE_BYTES]);
	for (size_t i = 0; fixed && i < ARRAY_SIZE(layouts); i++) {
		const struct layout *l = &layouts[i];

		if (l->bits == 8 && !l->mosaic && !l->packed && !l->hsv && !l->order)
			CHECK_MSG(fixed_of[i] >= 2 * ARRAY_SIZE(sizes), "%s: %u plans", l->name,
				  fixed_of[i]);
	}
	for (int load = 0; load <= BYTES_IN_ORDER; load++)
		for (int n = 1; n < 4; n++)
			if (n == 1 || (n == 2 && load < BYTES_OF_2) ||
			    (n == 3 && (load == BYTES_OF_4 || load == BYTES_OF_8)))
				CHECK_MSG(reached_load[load][n] == !!fixed,
					  "load %d of %d components", load, n);
	for (int kind = 0; kind <= BYTES_BGR_OF_YUV; kind++)
		for (int pixels = 0; pixels < 2; pixels++)
			CHECK_MSG(reached_kind[kind][pixels] == !!fixed, "kind %d, pixels %d", kind,
				  pixels);
	CHECK(!fixed == !taken[PATH_WIDE_BYTES]);
	CHECK_EQ(reached_direct[0] + reached_direct[1], fixed ? 2 : 0);
	CHECK_EQ(reached_copied[0] + reached_copied[1], fixed ? 2 : 0);
}

/*
 * Each width: two pixels for each sample of chroma, and words of 4 bytes, at the size of the frame
 * and at half of it.
 */
TEST(pairs)
{
	const struct byte_kernels *fixed;
	double worst = 0;

	prepare_choose(&fixed);
	for (uint32_t i = 0; fixed && i < ARRAY_SIZE(layouts) * 2 * 100; i++) {
		uint32_t w = i % 100 + 1, half = i / 100 % 2, n = i / 200 + w;
		struct run r = { &layouts[i / 200], half ? 2 * w : w, half ? 8 : 5, {
			.size = sizeof(r.o), .width = w, .height = half ? 4 - (n % 7 == 0) : 5,
			.dtype = types[1 + n % 5 / 4], .channels = n % 2 ? DLBUF_CHANNELS_BGR : 0,
			.flags = DLBUF_PREPARE_NHWC, .colour.chroma_site = n / 2 % 4 }, true };

		r.o.zero_point = r.o.dtype.code == kDLInt ? -128 : 0;
		/* A part, which begins with the second sample of chroma. */
		if (n % 3 == 0 && w > 8) {
			r.o.crop_x = 2;
			r.o.crop_width = r.w - 6;
			r.o.crop_height = r.h;
			r.o.width = half ? w - 3 : w - 6;
		}
		state = i;
		if (half && r.l->at[0].step == 4)
			r.o.filter = DLBUF_FILTER_NEAREST;
		if ((r.l->hsub == 2 || r.l->at[0].step == 4) && r.l->bits == 8)
			CHECK(!compare(&r, &worst));
	}
	ktap_note(NULL, 0,
		  "largest error of bytes in fixed point: %.3f; plans of pairs: %u, of copies: %u",
		  worst_of_bytes, taken[PATH_PAIRS], taken[PATH_COPIED]);
	for (uint32_t k = 0; k < 32; k++)
		if (k & 16 || !(k & 8))
			CHECK_MSG((fixed && (k & 16 ? !!fixed->pairs : fixed->planar)) ==
				  reached_pairs[k >> 4][k >> 3 & 1][k >> 2 & 1][k >> 1 & 1][k & 1],
				  "pairs %u", k);
}

/*
 * A mosaic of bytes at its own size: each pattern, each width, in a part that begins anywhere. The
 * means are exact, so compare() allows half a unit.
 */
TEST(mosaics)
{
	static const struct {
		uint32_t code;
		const char *mosaic;
	} patterns[] = { { CC('R','G','G','B'), "RGGB" }, { CC('B','A','8','1'), "BGGR" },
		{ CC('G','B','R','G'), "GBRG" }, { CC('G','R','B','G'), "GRBG" } };
	const struct byte_kernels *fixed;
	double worst = 0;

	prepare_choose(&fixed);
	for (uint32_t i = 0; i < ARRAY_SIZE(patterns) * 2 * 99; i++) {
		uint32_t p = i / 198, part = i / 99 % 2, w = i % 99 + 2, n = i + w / 7;
		struct layout l = { .name = patterns[p].mosaic, .code = patterns[p].code,
			.space = V4L2, .depth = 8, .bits = 8, .hsub = 1, .vsub = 1,
			.at = { { 0, 0, 1 } }, .groups = { 1 }, .mosaic = patterns[p].mosaic };
		struct run r = { &l, part ? w + 1 + n % 3 : w, part ? 9 : 2 + n % 4, {
			.size = sizeof(r.o), .dtype = types[1 + n % 5 / 4],
			.channels = n % 2 ? DLBUF_CHANNELS_BGR : 0,
			.flags = n / 2 % 2 ? DLBUF_PREPARE_NHWC : 0,
			.turn = n / 4 % 8 == 7 ? 1 + n / 32 % 3 : 0 }, true };

		r.o.zero_point = r.o.dtype.code == kDLInt ? -128 : 0;
		if (part) {
			r.o.crop_x = n % 2;
			r.o.crop_y = n / 2 % 2;
			r.o.crop_width = w;
			r.o.crop_height = 6 + n / 3 % 2;
		}
		r.o.width = w;
		r.o.height = part ? 6 + n / 3 % 2 : r.h;
		if (r.o.turn % 2) {
			r.o.width = r.o.height;
			r.o.height = w;
		}
		state = i;
		CHECK(!compare(&r, &worst));
	}
	ktap_note(NULL, 0, "plans of mosaics: %u", taken[PATH_MOSAIC]);
	CHECK(!fixed || taken[PATH_MOSAIC] >= ARRAY_SIZE(patterns) * 2 * 99);
	for (int how = 0; how < 3; how++)
		CHECK_MSG(reached_mosaic[how] == !!fixed, "mosaics, order %d", how);
}

/*
 * Outputs beyond the last sample repeat it, where a narrow picture or crop becomes wider. No loop
 * may take them for samples that follow each other.
 */
TEST(narrow)
{
	static const struct {
		double x, width;	/* of the crop; 0: none */
		uint32_t w, out;
	} crops[] = {
		{ 0, 0, 1, 1 }, { 0, 0, 1, 4 }, { 0, 0, 1, 40 }, { 0, 0, 2, 5 }, { 0, 0, 3, 4 },
		{ 0, 0, 3, 17 }, { 0, 0, 5, 6 }, { 7, 1, 60, 8 }, { 8, 1, 60, 33 },
		{ 58, 2, 60, 3 }, { 12.61, 3.39, 17, 4 }, { 2.25, 5.75, 8, 7 },
		{ 20.5, 2.5, 40, 4 }, { 6.75, 1.25, 8, 2 },
	};
	double worst = 0;

	for (uint32_t i = 0, n = 0; i < ARRAY_SIZE(layouts); i++)
		for (uint32_t k = 0; k < 2 * ARRAY_SIZE(crops); k++, n++) {
			uint32_t c = k / 2, h = 2 + n % 5;
			struct run r = { &layouts[i], crops[c].w, h, {
				.size = sizeof(r.o), .width = crops[c].out, .height = h,
				.filter = k % 2 ? DLBUF_FILTER_NEAREST : DLBUF_FILTER_BILINEAR,
				.dtype = types[1 + n % 5 / 4],
				.channels = n % 2 ? DLBUF_CHANNELS_BGR : 0,
				.flags = n % 3 ? DLBUF_PREPARE_NHWC : 0, .crop_x = crops[c].x,
				.crop_width = crops[c].width, .crop_height = crops[c].width ?
				h : 0 } };

			state = n;
			r.o.zero_point = r.o.dtype.code == kDLInt ? -128 : 0;
			if (r.l->bits == 8 && (!r.l->mosaic || r.w > 1))
				CHECK_MSG(!compare(&r, &worst), "%s, crop %u", r.l->name, c);
		}
}

/*
 * Bytes whose samples need no rounding, with a matrix in floats; wider and narrower than vectors.
 */
TEST(bytes_in_floats)
{
	static const struct {
		uint32_t w, h, ow, oh;
	} sizes[] = { { 34, 20, 34, 20 }, { 48, 16, 16, 8 }, { 40, 12, 20, 24 },
		{ 108, 60, 36, 20 },
		      { 6, 4, 6, 8 }, { 54, 8, 18, 6 }, { 60, 24, 40, 16 }, { 20, 8, 40, 9 } };
	const struct byte_kernels *fixed;
	double worst = 0;

	prepare_choose(&fixed);
	for (uint32_t i = 0, n = 0; fixed && i < ARRAY_SIZE(layouts); i++) {
		for (uint32_t k = 0; layouts[i].bits == 8 && k < 4 * ARRAY_SIZE(sizes); k++, n++) {
			struct run r = { &layouts[i], sizes[k / 4].w, sizes[k / 4].h, {
				.size = sizeof(r.o), .width = sizes[k / 4].ow,
					.height = sizes[k / 4].oh,
				.filter = n % 7 ? DLBUF_FILTER_BILINEAR : DLBUF_FILTER_NEAREST,
				.dtype = types[n % 3 ? 0 : n / 3 % 5],
				.channels = n % 5 ? 0 : n / 5 % 3,
				.flags = (n / 4 % 2 ? DLBUF_PREPARE_NHWC : 0) |
				DLBUF_PREPARE_EXACT }, true };

			r.o.zero_point = r.o.dtype.code == kDLInt ? -128 : 0;
			if (n % 4 == 1) {
				memcpy(r.o.mean, (double[]){ .485, .456, .406 }, sizeof(double[3]));
				memcpy(r.o.std, (double[]){ .229, .224, .225 }, sizeof(double[3]));
			}
			r.o.colour.matrix = k % 9 == 8 ? 9 : 0;
			state = n;
			CHECK(!compare(&r, &worst));
		}
	}
	ktap_note(NULL, 0, "largest error of float32: %.1e of full scale", worst);
	for (int kind = 0; kind <= BYTES_YUV; kind++)
		for (int pairs = 0; pairs < 2; pairs++)
			CHECK_MSG(reached_floats[kind][pairs] == (kind != BYTES_ONE && fixed &&
				fixed->floats), "kind %d, pairs %d", kind, pairs);
	for (int how = 0; how < 3; how++)
		CHECK_MSG(reached_direct_floats[how] == (fixed && fixed->floats),
			  "direct, %d samples of luma", how);
}

/* Each layout of bit fields and of samples that share bytes. The bits between are noise. */
TEST(bit_fields)
{
#define BITS(a, an, b, bn, c, cn) { { a, an }, { b, bn }, { c, cn } }
	static const struct {
		const char *codes;	/* of four letters each */
		struct layout l;
	} rows[] = {
		{ "RGB8", { .space = DRM, .bits = 8, .field = BITS(5, 3, 2, 3, 0, 2) } },
		{ "BGR8", { .space = DRM, .bits = 8, .field = BITS(0, 3, 3, 3, 6, 2) } },
		{ "XR12AR12", { .space = DRM, .bits = 16, .field = BITS(8, 4, 4, 4, 0, 4) } },
		{ "XB12AB12", { .space = DRM, .bits = 16, .field = BITS(0, 4, 4, 4, 8, 4) } },
		{ "RX12RA12", { .space = DRM, .bits = 16, .field = BITS(12, 4, 8, 4, 4, 4) } },
		{ "BX12BA12", { .space = DRM, .bits = 16, .field = BITS(4, 4, 8, 4, 12, 4) } },
		{ "XR15AR15", { .space = DRM, .bits = 16, .field = BITS(10, 5, 5, 5, 0, 5) } },
		{ "XB15AB15", { .space = DRM, .bits = 16, .field = BITS(0, 5, 5, 5, 10, 5) } },
		{ "RX15RA15", { .space = DRM, .bits = 16, .field = BITS(11, 5, 6, 5, 1, 5) } },
		{ "BX15BA15", { .space = DRM, .bits = 16, .field = BITS(1, 5, 6, 5, 11, 5) } },
		{ "BG16", { .space = DRM, .bits = 16, .field = BITS(0, 5, 5, 6, 11, 5) } },
		{ "R5A8", { .space = DRM, .bits = 16, .rows = true, .groups = { 0, 1 },
			.field = BITS(11, 5, 5, 6, 0, 5) } },
		{ "B5A8", { .space = DRM, .bits = 16, .rows = true, .groups = { 0, 1 },
			.field = BITS(0, 5, 5, 6, 11, 5) } },
		{ "XR30AR30", { .space = DRM, .bits = 32, .field = BITS(20, 10, 10, 10, 0, 10) } },
		{ "XB30AB30", { .space = DRM, .bits = 32, .field = BITS(0, 10, 10, 10, 20, 10) } },
		{ "RX30RA30", { .space = DRM, .bits = 32, .field = BITS(22, 10, 12, 10, 2, 10) } },
		{ "BX30BA30", { .space = DRM, .bits = 32, .field = BITS(2, 10, 12, 10, 22, 10) } },
		{ "XY30", { .space = DRM, .bits = 32, .yuv = true,
			.field = BITS(0, 10, 10, 10, 20, 10) } },
		{ "XV30", { .space = DRM, .bits = 32, .yuv = true,
			.field = BITS(10, 10, 0, 10, 20, 10) } },
		{ "R444", { .space = V4L2, .bits = 16, .field = BITS(8, 4, 4, 4, 0, 4) } },
		{ "RGBO", { .space = V4L2, .bits = 16, .field = BITS(10, 5, 5, 5, 0, 5) } },
		{ "Y444", { .space = V4L2, .bits = 16, .yuv = true,
			.field = BITS(8, 4, 4, 4, 0, 4) } },
		{ "YUVO", { .space = V4L2, .bits = 16, .yuv = true,
			.field = BITS(10, 5, 5, 5, 0, 5) } },
		{ "YUVP", { .space = V4L2, .bits = 16, .yuv = true,
			.field = BITS(11, 5, 5, 6, 0, 5) } },
		{ "BGRH", { .space = V4L2, .bits = 32, .swapped = true,
			.field = BITS(14, 6, 20, 6, 26, 6) } },
#ifdef CONFIG_FORMATS_ALL
		{ "RGBQAR1\xb5XR1\xb5", { .space = V4L2, .bits = 16, .swapped = true, .rows = true,
			.field = BITS(10, 5, 5, 5, 0, 5) } },
		{ "RGBR", { .space = V4L2, .bits = 16, .swapped = true, .rows = true,
			.field = BITS(11, 5, 5, 6, 0, 5) } },
		{ "Y16\xa0", { .space = V4L2, .bits = 16, .swapped = true, .rows = true,
			.field = BITS(0, 16, 0, 0, 0, 0) } },
#endif
#define CSI2(d, ...) \
	{ .space = V4L2, .bits = 8, .depth = d, .packed = d == 12 ? 2 : 4, .rows = true, \
	  __VA_ARGS__ }
#define PATTERN(d, m) CSI2(d, .mosaic = m, .at = { { 0, 0, 1 } })
		{ "pRAA", PATTERN(10, "RGGB") }, { "pBAA", PATTERN(10, "BGGR") },
		{ "pGAA", PATTERN(10, "GBRG") }, { "pgAA", PATTERN(10, "GRBG") },
		{ "pRCC", PATTERN(12, "RGGB") }, { "pBCC", PATTERN(12, "BGGR") },
		{ "pGCC", PATTERN(12, "GBRG") }, { "pgCC", PATTERN(12, "GRBG") },
		{ "pREE", PATTERN(14, "RGGB") }, { "pBEE", PATTERN(14, "BGGR") },
		{ "pGEE", PATTERN(14, "GBRG") }, { "pgEE", PATTERN(14, "GRBG") },
		{ "Y10P", CSI2(10, .at = { { 0, 0, 1 }, { .plane = -1 } }) },
		{ "Y12P", CSI2(12, .at = { { 0, 0, 1 }, { .plane = -1 } }) },
		{ "Y14P", CSI2(14, .at = { { 0, 0, 1 }, { .plane = -1 } }) },
		/* Without fields: other formats that consist of groups. */
		{ "HSV3", { .space = V4L2, .bits = 8, .depth = 8, .hsv = true,
			.at = { { 0, 0, 3 }, { 0, 1, 3 }, { 0, 2, 3 } }, .groups = { 3 } } },
		{ "TD08", { .space = V4L2, .bits = 8, .depth = 8, .negative = true,
			.at = { { 0, 0, 1 }, { .plane = -1 } } } },
		{ "Z16 TU16", { .space = V4L2, .bits = 16, .depth = 16,
			.at = { { 0, 0, 1 }, { .plane = -1 } } } },
	};
	double worst = 0;
	int i = 0;

	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		for (const char *c = rows[k].codes; *c; c += 4, i++) {
			struct layout l = rows[k].l;
			struct run r = { &l, 23, 11,
				{ .size = sizeof(r.o), .width = 17, .height = 9, .filter = i % 6,
				  .channels = i % 4 ? 0 : DLBUF_CHANNELS_GREY,
				.crop_x = 2.5, .crop_y = 1, .crop_width = 19.5,
				.crop_height = 9 }, true };

			l.name = c;
			l.code = CC((unsigned char)c[0], (unsigned char)c[1], (unsigned char)c[2],
				    (unsigned char)c[3]);
			l.hsub = l.vsub = 1;
			l.groups[0] = l.groups[0] ? l.groups[0] : 1;
			for (int j = 0; j < 3 && l.field[0].depth; j++) {
				l.at[j].step = 1;
				l.at[j].plane = l.field[j].depth ? 0 : -1;
			}
			state = i;
			CHECK(!compare(&r, &worst));
		}
	}
}

#define GUARDED (64 << 10)

/*
 * Whether a width differs from narrower ones. Loops for bytes take up to 64 columns at once. Without
 * these the widest loops take 32 columns, and a strip has 128 (PREPARE_STRIP).
 */
static bool differs(uint32_t w)
{
	const struct byte_kernels *fixed;

	prepare_choose(&fixed);
	return fixed || w <= 40 || (w >= 125 && w <= 136);
}

/* Memory between pages that cannot be used. */
static char *guarded(void)
{
	char *p = mmap(NULL, 3 * GUARDED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(p != MAP_FAILED && !mprotect(p + GUARDED, GUARDED, PROT_READ | PROT_WRITE));
	return p + GUARDED;
}

/*
 * Where planes and tensor are in their areas; this processor's kernels, those of older ones,
 * floats alone.
 */
enum { AT_BEGINNING = 1, AT_END = 2, OWN = 4, OLDER = 8, FLOATS = 16 };

/* Runs a plan of w x h pixels in each of these ways; returns its path with the first kernels. */
static enum path between_pages(char *const areas[4], const struct layout *l, uint32_t w, uint32_t h,
			       const struct dlbuf_prepare_opts *o, int ways)
{
	const struct {
		int way;
		const struct prepare_kernels *kernels;
		const struct byte_kernels *bytes;
	} kernels[] = { { OLDER, &prepare_kernels, older_bytes() }, { FLOATS, &prepare_kernels, NULL } };
	bool nhwc = o->flags & DLBUF_PREPARE_NHWC;
	uint32_t C = o->channels == DLBUF_CHANNELS_GREY ? 1 : 3, W = o->width, H = o->height;
	uint32_t size = C * W * H * (o->dtype.bits / 8);
	int64_t shape[3] = { nhwc ? H : C, nhwc ? W : H, nhwc ? C : W };
	DLManagedTensorVersioned out = {
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, .deleter = ignore,
		.dl_tensor = { .ndim = 3, .device = { kDLCPU, 0 }, .dtype = o->dtype, .shape = shape },
	};
	struct plane_tensors planes;
	struct dlbuf_prepare *plan;
	enum path path = PATH_FLOATS;
	struct scene s;
	bool ran = false;

	scene_make(&s, l, w, h);
	scene_tensors(&s, &planes);
	REQUIRE(!dlbuf_prepare_create(NULL, &s.frame, o, &plan));
	for (size_t i = 0; i <= ARRAY_SIZE(kernels); i++) {
		if (!(ways & (i ? kernels[i - 1].way : OWN)))
			continue;
		if (i) {
			/* Not every processor has three sets of kernels. */
			if (ran && plan->kernels == kernels[i - 1].kernels &&
			    plan->byte_kernels == kernels[i - 1].bytes)
				continue;
			plan->kernels = kernels[i - 1].kernels;
			plan->byte_kernels = kernels[i - 1].bytes;
			REQUIRE(!prepare_scratch(plan));
		}
		for (int at = AT_BEGINNING; at <= AT_END; at <<= 1) {
			if (!(ways & at))
				continue;
			for (int k = 0; k < s.nplanes; k++) {
				char *p = areas[k] + (at == AT_END ? GUARDED - s.sizes[k] : 0);

				planes.t[k].dl_tensor.data = memcpy(p, s.planes[k], s.sizes[k]);
			}
			out.dl_tensor.data = areas[3] + (at == AT_END ? GUARDED - size : 0);
			CHECK(!dlbuf_prepare_tensors(plan, planes.list, s.nplanes, NULL, &out));
		}
		if (!ran)
			path = path_of(plan, nhwc && C == 3);
		ran = true;
	}
	dlbuf_prepare_destroy(plan);
	scene_free(&s);
	return path;
}

/* No kernel reads beyond a plane, or writes beyond a tensor: at its end, and at its beginning. */
TEST(planes_between_pages)
{
	char *areas[] = { guarded(), guarded(), guarded(), guarded() };

	/* Formats share kernels: each width of each has one of the four kinds of run. */
	for (uint32_t i = 0; i < ARRAY_SIZE(layouts) * 200; i++) {
		const struct layout *l = &layouts[i / 200];
		uint32_t w = i % 200 + 1, way = i / 200 + w / 3;
		DLDataType t = types[w % 5];
		struct dlbuf_prepare_opts o = { .size = sizeof(o), .height = w / 4 % 2 ? 3 : 4,
			.width = w / 7 % 2 ? w : w * 2 / 3 + 1, .dtype = t,
			.filter = way & 2 ? DLBUF_FILTER_BILINEAR : w % 6,
			.flags = w / 2 & 1 ? DLBUF_PREPARE_NHWC : 0,
			.channels = w % 3 ? 0 : DLBUF_CHANNELS_GREY,
			.zero_point = t.code == kDLInt ? -128 : 0 };

		state = i;
		if (differs(w) && (!l->mosaic || w > 1))
			between_pages(areas, l, w, 4, &o, AT_BEGINNING | AT_END |
				      (!(way & 1) ? OWN : way & 4 ? OLDER : FLOATS));
	}
	for (size_t k = 0; k < ARRAY_SIZE(areas); k++)
		munmap(areas[k] - GUARDED, 3 * GUARDED);
}

/* The same for each kernel, and each width of a picture that it is for. */
TEST(widths_between_pages)
{
	enum { F32, U8, I8, F16, BILINEAR = DLBUF_FILTER_BILINEAR, NEAREST = DLBUF_FILTER_NEAREST,
		CUBIC = DLBUF_FILTER_CUBIC, TRIANGLE = DLBUF_FILTER_TRIANGLE };
	static const struct {
		const char *name;
		uint32_t num, den, h, oh;	/* w columns are made of w * num / den */
		int filter, type;
		bool nhwc;
		enum path path;
		uint32_t least;		/* narrower ones take another path */
	} rows[] = {
		{ "NV12", 1, 1, 4, 4, BILINEAR, U8, true, PATH_PAIRS, 1 },
		{ "NV21", 1, 1, 4, 4, BILINEAR, I8, true, PATH_PAIRS, 1 },
		{ "NV21", 2, 1, 8, 4, BILINEAR, I8, true, PATH_PAIRS, 1 },
		{ "YUYV", 1, 1, 3, 3, BILINEAR, U8, true, PATH_PAIRS, 1 },
		{ "VYUY", 2, 1, 4, 2, BILINEAR, U8, true, PATH_PAIRS, 1 },
		{ "XRGB8888", 1, 1, 3, 3, BILINEAR, U8, true, PATH_COPIED, 1 },
		{ "XRGB8888", 1, 1, 3, 3, NEAREST, I8, true, PATH_COPIED, 1 },
		{ "RGBX8888", 7, 1, 3, 2, NEAREST, I8, true, PATH_COPIED, 4 },
		{ "NV12", 3, 2, 6, 4, BILINEAR, U8, true, PATH_DIRECT, 2 },
		{ "NV16", 5, 3, 4, 4, NEAREST, U8, true, PATH_DIRECT, 2 },
		{ "NV21", 4, 3, 8, 6, BILINEAR, I8, true, PATH_DIRECT, 1 },
		{ "NV12", 1, 1, 4, 4, BILINEAR, F32, false, PATH_EXACT_DIRECT, 1 },
		{ "NV12", 3, 1, 12, 4, BILINEAR, F32, false, PATH_EXACT_DIRECT, 2 },
		{ "NV21", 2, 1, 8, 4, BILINEAR, F16, true, PATH_EXACT_DIRECT, 1 },
		{ "NV24", 1, 1, 3, 3, BILINEAR, F16, true, PATH_EXACT, 1 },
		{ "YUV420", 2, 1, 8, 4, BILINEAR, F32, false, PATH_EXACT, 1 },
		{ "BGR888", 1, 1, 3, 3, BILINEAR, F32, false, PATH_EXACT, 1 },
		{ "NV12", 5, 1, 6, 4, BILINEAR, U8, false, PATH_BYTES, 1 },
		{ "YVU410", 3, 2, 8, 5, BILINEAR, U8, true, PATH_BYTES, 1 },
		{ "YUYV", 3, 2, 3, 2, BILINEAR, U8, false, PATH_BYTES, 1 },
		{ "BGR888", 3, 2, 3, 2, BILINEAR, U8, true, PATH_BYTES, 1 },
		{ "BGR888", 9, 1, 3, 2, BILINEAR, U8, true, PATH_BYTES, 1 },
		{ "AYUV", 3, 2, 3, 2, BILINEAR, I8, true, PATH_BYTES, 1 },
		{ "GREY", 20, 1, 3, 2, BILINEAR, U8, false, PATH_BYTES, 1 },
		{ "NV12", 5, 3, 24, 9, TRIANGLE, U8, true, PATH_WIDE, 1 },
		{ "BGR888", 3, 2, 19, 7, CUBIC, U8, true, PATH_WIDE_BYTES, 1 },
		{ "XRGB8888", 7, 4, 20, 9, CUBIC, U8, false, PATH_WIDE_BYTES, 1 },
		{ "GREY", 5, 3, 70, 21, TRIANGLE, I8, false, PATH_WIDE_BYTES, 1 },
		{ "YUYV", 1, 1, 9, 20, CUBIC, F32, false, PATH_WIDE, 1 },
		{ "P010", 3, 1, 24, 5, TRIANGLE, F32, false, PATH_WIDE, 1 },
		{ "Y210", 4, 3, 18, 9, TRIANGLE, F16, true, PATH_WIDE, 1 },
		{ "XBGR16161616", 3, 2, 17, 7, CUBIC, F32, false, PATH_WIDE, 1 },
		{ "BGR323232F", 3, 2, 17, 7, CUBIC, F32, false, PATH_WIDE, 1 },
		{ "P010", 1, 1, 4, 4, BILINEAR, F32, false, PATH_FLOATS, 1 },
		{ "P010", 3, 2, 4, 3, BILINEAR, U8, true, PATH_FLOATS, 1 },
		{ "Y210", 3, 2, 3, 2, BILINEAR, F32, false, PATH_FLOATS, 1 },
		{ "XBGR16161616", 3, 2, 3, 2, BILINEAR, F32, true, PATH_FLOATS, 1 },
		{ "RGB565", 3, 2, 3, 2, BILINEAR, U8, true, PATH_FLOATS, 1 },
		{ "SRGGB8", 1, 1, 4, 4, BILINEAR, U8, true, PATH_MOSAIC, 2 },
		{ "SRGGB8", 1, 1, 3, 3, NEAREST, I8, false, PATH_MOSAIC, 2 },
		{ "SRGGB8", 3, 2, 4, 4, BILINEAR, U8, true, PATH_FLOATS, 2 },
		{ "SGBRG10", 3, 2, 5, 4, BILINEAR, F32, false, PATH_FLOATS, 2 },
		{ "SGRBG12", 2, 1, 8, 4, BILINEAR, U8, true, PATH_FLOATS, 2 },
		{ "SBGGR16", 3, 2, 5, 4, BILINEAR, F32, false, PATH_WIDE, 2 },
		{ "SBGGR10P", 3, 2, 5, 4, BILINEAR, U8, true, PATH_FLOATS, 2 },
		{ "SGRBG12P", 1, 1, 5, 5, BILINEAR, F32, false, PATH_FLOATS, 2 },
		{ "SGBRG14P", 2, 1, 6, 3, BILINEAR, U8, true, PATH_FLOATS, 2 },
		{ "SBGGR10P", 3, 2, 17, 6, CUBIC, U8, true, PATH_WIDE, 2 },
		{ "Y10P", 3, 2, 5, 4, BILINEAR, F32, false, PATH_FLOATS, 1 },
	};
	char *areas[] = { guarded(), guarded(), guarded(), guarded() };
	const struct byte_kernels *fixed;

	prepare_choose(&fixed);
	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		const struct layout *l = layouts;
		enum path want = rows[r].path, got;
		uint32_t widths = 0;

		while (strcmp(l->name, rows[r].name))
			l++;
		/* AVX2 makes planar pairs as fast by the other loops. */
		if (want == PATH_PAIRS && l->groups[1] && fixed && !fixed->planar)
			want = PATH_DIRECT;
		for (uint32_t w = 1; w <= 200; w++) {
			uint32_t n = (w * rows[r].num + rows[r].den - 1) / rows[r].den;
			DLDataType t = types[rows[r].type];
			struct dlbuf_prepare_opts o = { .size = sizeof(o), .width = w,
				.height = rows[r].oh, .dtype = t, .filter = rows[r].filter,
				.flags = rows[r].nhwc ? DLBUF_PREPARE_NHWC : 0,
				.zero_point = t.code == kDLInt ? -128 : 0 };

			state = w;
			if (!differs(w) || (n < 2 && l->mosaic))
				continue;
			got = between_pages(areas, l, n, rows[r].h, &o, AT_END | OWN | OLDER | FLOATS);
			widths += w >= rows[r].least && got == want;
		}
		/* Other processors have floats alone. */
		if (fixed && fixed->floats)
			CHECK_MSG(widths == 201 - rows[r].least, "row %zu, %s: %u widths", r,
				  l->name, widths);
	}
	for (size_t k = 0; k < ARRAY_SIZE(areas); k++)
		munmap(areas[k] - GUARDED, 3 * GUARDED);
}

TEST(options)
{
	double worst = 0;

	for (uint32_t seed = 0; seed < 400; seed++) {
		struct run r = { .o.size = sizeof(r.o), .crops = true };
		struct dlbuf_prepare_opts *o = &r.o;

		state = seed * 77777;
		noise();
		r.l = &layouts[noise() % ARRAY_SIZE(layouts)];
		r.w = 8 + noise() % 80;
		r.h = 8 + noise() % 60;
		r.orientation = noise() % 8;
		o->width = 1 + noise() % 50;
		o->height = 1 + noise() % 50;
		o->fit = noise() % 3;
		o->filter = noise() % 6;
		o->turn = noise() % 4;
		o->flags = noise() % 32 | (noise() % 4 ? 0 : DLBUF_PREPARE_EXACT);
		o->channels = noise() % 3;
		o->dtype = types[noise() % 5];
		o->colour.matrix = (const uint8_t[]){ 0, 1, 2, 5, 7, 8, 9, 10 }[noise() % 8];
		o->colour.range = noise() % 3;
		o->colour.chroma_site = noise() % 7;
		if (noise() % 2) {
			o->crop_width = 1 + noise() % (r.w * 8 - 8) / 8.;
			o->crop_height = 1 + noise() % (r.h * 8 - 8) / 8.;
			o->crop_x = (r.w - o->crop_width) * (noise() % 9) / 8;
			o->crop_y = (r.h - o->crop_height) * (noise() % 9) / 8;
		}
		if (noise() % 3 == 0)
			o->crop_pct = .875;
		for (int c = 0; c < 3; c++)
			o->pad[c] = noise() % 256;
		if (o->dtype.bits == 8) {
			o->quant_scale = noise() % 2 ? 2 : 0;
			o->zero_point = o->dtype.code == kDLInt ? -128 : (int)(noise() % 2 * 100);
		} else if (noise() % 2) {
			for (int c = 0; c < 3; c++) {
				o->mean[c] = .4 + c * .05;
				o->std[c] = .2 + c * .01;
			}
		}
		if (!CHECK(!compare(&r, &worst)))
			ktap_note(NULL, 0, "seed %u", seed);
	}
	ktap_note(NULL, 0,
		  "largest error of float32: %.1e of full scale; of bytes in fixed point: %.3f",
		  worst, worst_of_bytes);
}

KTAP_MAIN()
