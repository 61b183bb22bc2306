/* SPDX-License-Identifier: MIT */
/*
 * Pictures of the formats of prepare_layouts.h, and the definition of docs/prepare.md for them in
 * double precision, pixel by pixel.
 */
#include <math.h>

#include "prepare_layouts.h"

/* ------------------------------------------------------------ the picture */

#define MAX_BYTES (1 << 20)

struct scene {
	const struct layout *l;
	uint32_t w, h;
	char *planes[3];
	int64_t pitches[3];
	size_t sizes[3];
	int nplanes;
	struct dlbuf_frame frame;
};

static uint64_t state;

static uint32_t noise(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

static uint16_t half_of(float f)
{
	uint32_t b;

	/* Positive, normal. */
	memcpy(&b, &f, 4);
	return (uint16_t)((b >> 13) - (112 << 10));
}

static uint32_t up(uint32_t n, uint32_t by)
{
	return (n + by - 1) / by;
}

/* Pixels of a group of a plane. */
static int pixels_of(const struct layout *l, int plane)
{
	return plane || (l->groups[0] == 4 && l->at[0].step == 2 && !l->hsv) ? l->hsub :
		l->order ? 8 : 1;
}

/* A word in memory: an element of a tensor, or bytes. */
static uint32_t ordered(const struct layout *l, uint32_t v)
{
	bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	uint32_t swapped = l->bits == 16 ? (v & 255) << 8 | (v >> 8 & 255) : __builtin_bswap32(v);

	return (big ? l->rows && !l->swapped : l->swapped) ? swapped : v;
}

static void scene_make(struct scene *s, const struct layout *l, uint32_t w, uint32_t h)
{
	int bytes = abs(l->bits) / 8;

	/* A third of all pictures consists of edges: values that are the least and the most. */
	bool edges = noise() % 3 == 0;

	*s = (struct scene){ .l = l, .w = w, .h = h };
	s->frame = (struct dlbuf_frame){ .size = sizeof(s->frame), .width = w, .height = h,
		.code = l->code, .code_space = l->space };
	s->frame.colour.hue = l->hsv ? w % 3 : 0;
	/* The visible picture begins anywhere in the pattern. */
	if (l->mosaic || l->packed) {
		s->frame.crop = (struct dlbuf_rect){ noise() % (l->packed ? 8 : 2),
			noise() % 2, w, h };
		s->frame.width += s->frame.crop.x + noise() % 2;
		s->frame.height += s->frame.crop.y + noise() % 2;
	}
	for (int i = 0; i < 3 && l->groups[i]; i++) {
		int hs = pixels_of(l, i), vs = i ? l->vsub : 1;
		uint32_t n = up(w, hs) * l->groups[i], rows = up(h, vs);

		if (l->packed)
			n = up(w + s->frame.crop.x % l->packed, l->packed) *
			(l->packed * l->depth / 8);
		s->pitches[i] = (int64_t)n * bytes + bytes * (noise() % 5);
		/* The last row ends at the end of the allocation, for the sanitizer. */
		s->sizes[i] = s->pitches[i] * (rows - 1) + (size_t)n * bytes;
		s->planes[i] = malloc(s->sizes[i]);
		s->nplanes++;
		for (uint32_t y = 0; y < rows; y++) {
			for (uint32_t x = 0; x < n; x++) {
				char *at = s->planes[i] + y * s->pitches[i] + (size_t)x * bytes;
				uint32_t v = l->field[0].depth ||
					l->packed ? noise() << 16 ^ noise() :
					noise() % (l->depth ? 1u << l->depth : 1) << l->shift;
				uint32_t full = l->field[0].depth || l->packed ? UINT32_MAX :
					((l->depth ? 1u << l->depth : 1) - 1) << l->shift;
				uint16_t v16 = v = edges ? (noise() & 16 ? full : 0) : v;
				uint8_t v8 = v;
				float f = (noise() % 1000 + 1) / 1000.f;

				if (l->bits == -16)
					v16 = half_of(f);
				memcpy(at, l->bits == 8 ? (void *)&v8 : l->bits == -32 ?
				       (void *)&f : l->bits == 32 ? (void *)&v : (void *)&v16,
				       bytes);
			}
		}
	}
}

/* The scene's planes as tensors of another library. */
struct plane_tensors {
	DLManagedTensorVersioned t[3], *list[3];
	int64_t shape[3][3], strides[3][3];
};

static void ignore(DLManagedTensorVersioned *t)
{
	(void)t;
}

static void scene_tensors(const struct scene *s, struct plane_tensors *p)
{
	const struct layout *l = s->l;

	for (int i = 0; i < s->nplanes; i++) {
		int hs = pixels_of(l, i), vs = i ? l->vsub : 1;
		int64_t shape[] = { up(s->h, vs), up(s->w, hs), l->groups[i] };
		int64_t strides[] = { s->pitches[i] / (abs(l->bits) / 8), l->groups[i], 1 };

		memcpy(p->shape[i], shape, sizeof(shape));
		memcpy(p->strides[i], strides, sizeof(strides));
		p->t[i] = (DLManagedTensorVersioned){
			.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
			.dl_tensor = { .data = s->planes[i], .device = { kDLCPU, 0 },
				.ndim = l->groups[i] > 1 ? 3 : 2,
				.dtype = { l->bits < 0 ? kDLFloat : l->negative ? kDLInt : kDLUInt,
					abs(l->bits), 1 },
				.shape = p->shape[i], .strides = p->strides[i] },
		};
		if (l->rows) {
			p->t[i].dl_tensor.dtype.bits = 8;
			p->shape[i][1] = p->strides[i][0] = s->pitches[i];
		}
		p->list[i] = &p->t[i];
	}
}

static void scene_free(struct scene *s)
{
	for (int i = 0; i < 3; i++)
		free(s->planes[i]);
}

/* As the tables of V4L2's documentation draw a group. */
static double packed_at(const struct scene *s, uint32_t x, uint32_t y)
{
	const uint8_t *b = (const uint8_t *)s->planes[0] + y * s->pitches[0];
	uint32_t n = s->l->packed, i;

	x += s->frame.crop.x % n;
	i = x % n;
	b += x / n * (n * s->l->depth / 8);
	if (s->l->depth == 10)
		return b[i] * 4 + (b[4] >> 2 * i) % 4;
	if (s->l->depth == 12)
		return b[i] * 16 + (i ? b[2] / 16 : b[2] % 16);
	return b[i] * 64 + (i == 0 ? b[4] % 64 : i == 1 ? b[4] / 64 + b[5] % 16 * 4 :
			    i == 2 ? b[5] / 16 + b[6] % 4 * 16 : b[6] / 4);
}

static double value_at(const struct scene *s, int plane, uint32_t x, uint32_t y)
{
	const struct layout *l = s->l;
	const char *at = s->planes[plane] + y * s->pitches[plane] + (size_t)x * (abs(l->bits) / 8);
	uint16_t v;
	float f;

	if (l->packed)
		return packed_at(s, x, y);
	if (l->bits == 8)
		return *(const uint8_t *)at ^ (l->negative ? 128 : 0);
	if (l->bits == -32) {
		memcpy(&f, at, 4);
		return (double)f;
	}
	memcpy(&v, at, 2);
	if (l->bits == -16)
		return ldexp(1 + (v & 1023) / 1024., (v >> 10) - 15);
	return (v >> l->shift) ^ (l->negative ? 32768 : 0);
}

static double field_at(const struct scene *s, int c, int64_t x, int64_t y)
{
	const struct layout *l = s->l;
	const char *at = s->planes[0] + y * s->pitches[0] + x * (l->bits / 8);
	uint16_t v16;
	uint32_t v;

	if (l->bits == 32)
		memcpy(&v, at, 4);
	else
		memcpy(&v16, at, 2);
	v = l->bits == 32 ? v : l->bits == 16 ? v16 : *(const uint8_t *)at;
	return ordered(l, v) >> l->field[c].shift & ((1u << l->field[c].depth) - 1);
}

/* By sectors of the circle of hues, as Python's colorsys. */
static double hsv_at(const struct scene *s, int c, int64_t x, int64_t y)
{
	static const char which[6][4] = { "vtp", "qvp", "pvt", "pqv", "tpv", "vpq" };
	const struct layout *l = s->l;
	double part[3], h, v, f, t;
	int sector;

	for (int i = 0; i < 3; i++)
		part[i] = value_at(s, 0, l->at[i].first + x * l->at[i].step, y);
	h = fmod(part[0] * 6 / (s->frame.colour.hue == DLBUF_HUE_180 ? 180 : 256), 6);
	t = part[1] / 255;
	v = part[2];
	sector = (int)h;
	f = h - sector;
	switch (which[sector][c]) {
	case 'v':
		return v;
	case 'p':
		return v * (1 - t);
	case 'q':
		return v * (1 - t * f);
	}
	return v * (1 - t * (1 - f));
}

/* Sample x of a component whose places in a group are those of its letter. */
static double ordered_at(const struct scene *s, int c, int64_t x, int64_t y)
{
	const char *order = s->l->order;
	int n = 0, groups = s->l->groups[0];
	int64_t at;

	for (const char *o = order; *o; o++)
		n += *o == "YUV"[c];
	at = x / n * groups;
	for (n = x % n; *order != "YUV"[c] || n--; order++)
		at++;
	return value_at(s, 0, at, y);
}

static int64_t mirrored(int64_t j, int64_t n)
{
	return j < 0 ? -j : j >= n ? 2 * n - 2 - j : j;
}

/* docs/prepare.md, "Mosaics": the mean of the nearest samples of the colour. */
static double mosaic_at(const struct scene *s, int c, int64_t x, int64_t y)
{
	static const int rings[3][4][2] = {
		{ { 0, 0 } }, { { 0, -1 }, { 0, 1 }, { -1, 0 }, { 1, 0 } },
		{ { -1, -1 }, { -1, 1 }, { 1, -1 }, { 1, 1 } },
	};

	for (int ring = 0; ring < 3; ring++) {
		double sum = 0;
		int n = 0;

		for (int i = 0; i < (ring ? 4 : 1); i++) {
			int64_t py = mirrored(y + rings[ring][i][0], s->h);
			int64_t px = mirrored(x + rings[ring][i][1], s->w);

			if (s->l->mosaic[(py + s->frame.crop.y) % 2 * 2 +
				(px + s->frame.crop.x) % 2] != "RGB"[c])
				continue;
			sum += value_at(s, 0, px, py);
			n++;
		}
		if (n)
			return sum / n;
	}
	return 0;
}

static double sample(const struct scene *s, int c, int64_t x, int64_t y)
{
	const struct layout *l = s->l;

	if (l->mosaic)
		return mosaic_at(s, c, x, y);
	if (l->field[c].depth)
		return field_at(s, c, x, y);
	if (l->hsv)
		return hsv_at(s, c, x, y);
	if (l->order)
		return ordered_at(s, c, x, y);
	return value_at(s, l->at[c].plane, l->at[c].first + x * l->at[c].step, y);
}

/* ----------------------------------------------------------- the reference */

static double filter_weight(int filter, double from, double scale, int i, int64_t j, int64_t low,
			    int64_t high)
{
	double centre = from + (i + .5) * scale, wide = fmax(scale, 1), x, a = -.5;
	double support = filter == DLBUF_FILTER_TRIANGLE ? 1 : filter == DLBUF_FILTER_CUBIC ? 2 : 3;

	switch (filter) {
	case DLBUF_FILTER_NEAREST:
		return j == (int64_t)fmin(fmax(floor(centre + 1e-9), low), high - 1);
	case DLBUF_FILTER_BILINEAR:
		/* The border's sample is repeated. */
		x = fmin(fmax(centre - .5, low), high - 1);
		return fmax(0, 1 - fabs(x - j));
	case DLBUF_FILTER_AREA:
		return fmax(0, fmin(from + (i + 1) * scale, j == high - 1 ? INFINITY : j + 1) -
			    fmax(from + i * scale, j == low ? -INFINITY : j));
	}
	if (j < floor(centre - support * wide + .5) || j >= floor(centre + support * wide + .5))
		return 0;
	x = fabs((j + .5 - centre) / wide);
	if (filter == DLBUF_FILTER_TRIANGLE)
		return fmax(0, 1 - x);
	if (filter == DLBUF_FILTER_CUBIC)
		return x < 1 ? (a + 2) * x * x * x - (a + 3) * x * x + 1 :
			x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
	if (x < 1e-9)
		return 1;
	return x < 3 ? sin(M_PI * x) / (M_PI * x) * sin(M_PI * x / 3) / (M_PI * x / 3) : 0;
}

/* One axis of one component. */
struct place {
	double from, scale;
	int64_t low, high;
};

static struct place place_of(double from, double length, uint32_t all, int sub, double site)
{
	double move = site * (sub - 1) / 2.;

	return (struct place){
		.from = (from + move) / sub, .scale = length / sub / all,
		.low = (int64_t)floor(from) / sub, .high = (int64_t)ceil((from + length) / sub),
	};
}

/* The samples of one output of an axis: all that have a weight are within [first, end). */
struct weights {
	int64_t first, end;
	double of[];
};

/*
 * Component c of the scaled picture. Weights and sums along x are computed once: each is needed
 * for many outputs, and processors are emulated.
 */
struct scaled {
	const struct scene *s;
	int c, filter;
	struct place x, y;
	struct weights **wx, **wy;	/* of output i; NULL: not computed */
	double **sums;		/* [row]: for each output along x; NaN: not computed */
	uint32_t w, h;
};

static const struct weights *weights_of(const struct scaled *p, const struct place *a,
					struct weights **all, int i)
{
	int64_t n = a->high - a->low;
	struct weights *w = all[i];
	double total = 0;

	if (w)
		return w;
	w = all[i] = malloc(sizeof(*w) + n * sizeof(w->of[0]));
	for (int64_t j = 0; j < n; j++)
		total += w->of[j] = filter_weight(p->filter, a->from, a->scale, i, a->low + j,
						  a->low, a->high);
	for (int64_t j = 0; j < n; j++)
		w->of[j] /= total;
	for (w->first = 0; w->first < n && !w->of[w->first];)
		w->first++;
	for (w->end = n; w->end > w->first && !w->of[w->end - 1];)
		w->end--;
	return w;
}

static double sum_of_row(const struct scaled *p, int i, int64_t row)
{
	double **sums = &p->sums[row], *sum;
	const struct weights *w;

	if (!*sums) {
		*sums = malloc(p->w * sizeof(double));
		for (uint32_t k = 0; k < p->w; k++)
			(*sums)[k] = NAN;
	}
	sum = &(*sums)[i];
	if (!isnan(*sum))
		return *sum;
	*sum = 0;
	w = weights_of(p, &p->x, p->wx, i);
	for (int64_t j = w->first; j < w->end; j++)
		if (w->of[j])
			*sum += w->of[j] * sample(p->s, p->c, p->x.low + j, p->y.low + row);
	return *sum;
}

static double scaled_at(const struct scaled *p, int i, int j)
{
	const struct weights *w = weights_of(p, &p->y, p->wy, j);
	double sum = 0;

	for (int64_t row = w->first; row < w->end; row++)
		if (w->of[row])
			sum += w->of[row] * sum_of_row(p, i, row);
	return sum;
}

static void scaled_make(struct scaled *p, const struct scene *s, int c,
			const struct dlbuf_prepare_opts *o, const struct dlbuf_prepare_info *info)
{
	const struct layout *l = s->l;
	bool odd = info->turn % 2, sub = l->yuv && c && !l->mosaic;
	int site = o->colour.chroma_site;

	if (!site)
		site = o->colour.range == DLBUF_RANGE_FULL ? 2 : 1;
	*p = (struct scaled){ .s = s, .c = c, .filter = o->filter,
		.w = odd ? info->scaled_height : info->scaled_width,
		.h = odd ? info->scaled_width : info->scaled_height };
	p->x = place_of(info->crop_x, info->crop_width, p->w, sub ? l->hsub : 1,
			site == 1 || site == 3 || site == 5);
	p->y = place_of(info->crop_y, info->crop_height, p->h, sub ? l->vsub : 1,
			site <= 2 ? 0 : site <= 4 ? 1 : -1);
	p->wx = calloc(p->w, sizeof(*p->wx));
	p->wy = calloc(p->h, sizeof(*p->wy));
	p->sums = calloc(p->y.high - p->y.low, sizeof(*p->sums));
}

static void free_rows(void *rows, int64_t n)
{
	void **row = rows;

	while (n--)
		free(row[n]);
	free(rows);
}

static void scaled_free(struct scaled *p)
{
	free_rows(p->wx, p->w);
	free_rows(p->wy, p->h);
	free_rows(p->sums, p->y.high - p->y.low);
}

static double clamp01(double x)
{
	return fmin(fmax(x, 0), 1);
}

/* R, G, B of 0 to 1 of the scaled picture's pixel i, j; n components. */
static void reference(const struct scaled components[3], int n, const struct dlbuf_prepare_opts *o,
		      int i, int j, double rgb[3])
{
	/* H.273's matrices, plus 1. */
	static const struct {
		int matrix;
		double kr, kb;
	} matrices[] = { { 2, .2126, .0722 }, { 5, .30, .11 }, { 8, .212, .087 },
			 { 10, .2627, .0593 } };
	enum { IDENTITY = 1, YCGCO = 9 };
	const struct layout *l = components[0].s->l;
	int range = o->colour.range;
	bool limited = !l->hsv && (range == DLBUF_RANGE_LIMITED || (!range && l->yuv && n == 3));
	double v[3], kr = .299, kb = .114;

	for (size_t k = 0; k < ARRAY_SIZE(matrices); k++) {
		if (o->colour.matrix == matrices[k].matrix) {
			kr = matrices[k].kr;
			kb = matrices[k].kb;
		}
	}
	for (int c = 0; c < n; c++) {
		bool chroma = l->yuv && c && o->colour.matrix != IDENTITY;
		int depth = l->field[c].depth ? l->field[c].depth : l->depth;
		double step = depth ? ldexp(1, depth - 8) : 1 / 255.;
		double max = depth ? ldexp(1, depth) - 1 : 1;

		v[c] = scaled_at(&components[c], i, j);
		v[c] -= chroma ? 128 * step : limited ? 16 * step : 0;
		v[c] /= limited ? (chroma && o->colour.matrix != YCGCO ? 224 : 219) * step : max;
	}
	if (n == 1) {
		rgb[0] = rgb[1] = rgb[2] = clamp01(v[0]);
		return;
	}
	if (!l->yuv) {
		memcpy(rgb, v, sizeof(v));
	} else if (o->colour.matrix == IDENTITY) {
		rgb[0] = v[2];
		rgb[1] = v[0];
		rgb[2] = v[1];
	} else if (o->colour.matrix == YCGCO) {
		rgb[0] = v[0] - v[1] + v[2];
		rgb[1] = v[0] + v[1];
		rgb[2] = v[0] - v[1] - v[2];
	} else {
		rgb[0] = v[0] + 2 * (1 - kr) * v[2];
		rgb[2] = v[0] + 2 * (1 - kb) * v[1];
		rgb[1] = (v[0] - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
	}
	if (o->channels == DLBUF_CHANNELS_GREY) {
		double grey = l->yuv && o->colour.matrix != IDENTITY ? v[0] :
			.299 * rgb[0] + .587 * rgb[1] + .114 * rgb[2];

		rgb[0] = rgb[1] = rgb[2] = grey;
	}
	for (int c = 0; c < 3; c++)
		rgb[c] = clamp01(rgb[c]);
}
