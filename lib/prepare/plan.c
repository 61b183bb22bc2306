// SPDX-License-Identifier: MIT
/* Plans: checks the options, and computes sizes, places, tables. docs/prepare.md has them. */
#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../frame/frame.h"
#include "../import/backend.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "options.h"
#include "prepare.h"

/* Sides of frames: tables are as long. */
#define FRAME_MAX (1 << 20)

#define KNOWN_FLAGS (DLBUF_PREPARE_NHWC | DLBUF_PREPARE_TOP_LEFT | DLBUF_PREPARE_NO_ENLARGE | \
		     DLBUF_PREPARE_FLIP_X | DLBUF_PREPARE_FLIP_Y | DLBUF_PREPARE_CUT_ROUND | \
		     DLBUF_PREPARE_EXACT)

/*
 * Prints a number with the fewest digits, 10 or more, that read back as the same double. Its
 * decimal point is a point, also where the program's locale has another one.
 */
static struct number {
	char s[32];
} number(double x)
{
	const char *point = nl_langinfo(RADIXCHAR);
	struct number n;
	int digits = 10;
	char *at;

	do
		snprintf(n.s, sizeof(n.s), "%.*g", digits, x);
	while (++digits <= 17 && strtod(n.s, NULL) != x);
	at = *point ? strstr(n.s, point) : NULL;
	if (at) {
		*at = '.';
		memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
	}
	return n;
}

/* NaN is in no range. */
static int in_range(const char *what, double value, double low, double high)
{
	if (value >= low && value <= high)
		return 0;
	if (low == high)
		return fail(-EINVAL, "%s is %s; it must be %s", what, number(value).s,
			    number(low).s);
	return fail(-EINVAL, "%s is %s; it can be %s to %s", what, number(value).s, number(low).s,
		    number(high).s);
}

/* Options that are not 0 are used instead of the frame's. */
#define COLOUR(field) (o->colour.field ? o->colour.field : f->colour.field)

static const struct option {
	char name[20];
	uint16_t at;
	uint8_t kind, n;
	bool or_zero;
	double low, high;
} options[] = {
#define OPTION(field, name, kind, n, low, high, or_zero) \
	{ name, offsetof(struct dlbuf_prepare_opts, field), PREPARE_##kind, n, or_zero, \
	  (double)(low), (double)(high) },
	PREPARE_OPTIONS(OPTION)
#undef OPTION
};

static double value_of(const struct dlbuf_prepare_opts *o, const struct option *option, int i)
{
	const void *at = (const char *)o + option->at;

	switch (option->kind) {
	case PREPARE_I32:
		return ((const int32_t *)at)[i];
	case PREPARE_U32:
		return ((const uint32_t *)at)[i];
	case PREPARE_U64:
		return (double)((const uint64_t *)at)[i];
	}
	return ((const double *)at)[i];
}

/* Checks the first n options of the table. */
static int check_options(const struct dlbuf_prepare_opts *o, size_t n)
{
	int ret = 0;

	for (size_t k = 0; k < n; k++) {
		for (int i = 0; i < options[k].n && !ret; i++) {
			double value = value_of(o, &options[k], i);

			if (!options[k].or_zero || value != 0)
				ret = in_range(options[k].name, value, options[k].low,
					       options[k].high);
		}
	}
	return ret;
}

static int check_numbers(const struct dlbuf_frame *f, const struct dlbuf_prepare_opts *o)
{
	const struct {
		const char *name;
		uint32_t value, high;
	} numbers[] = {
		{ "colour.range", COLOUR(range), DLBUF_RANGE_FULL },
		{ "colour.chroma_site", COLOUR(chroma_site), 6 },
		{ "colour.hue", COLOUR(hue), DLBUF_HUE_256 },
		{ "colour.reserved", o->colour.reserved[0] | o->colour.reserved[1], 0 },
		{ "reserved", o->reserved, 0 },
	};
	int ret = check_options(o, ARRAY_SIZE(options));

	for (size_t i = 0; i < ARRAY_SIZE(numbers) && !ret; i++)
		ret = in_range(numbers[i].name, numbers[i].value, 0, numbers[i].high);
	if (!ret && o->flags & ~KNOWN_FLAGS)
		return unknown_flags("prepare", o->flags & ~KNOWN_FLAGS);
	return ret;
}

static int find_store(DLDataType t, enum store *store)
{
	static const struct {
		uint8_t code, bits, store;
	} types[] = {
		{ kDLUInt, 8, STORE_U8 }, { kDLInt, 8, STORE_I8 }, { kDLFloat, 16, STORE_F16 },
		{ kDLBfloat, 16, STORE_BF16 }, { kDLFloat, 32, STORE_F32 },
	};

	if (!t.code && !t.bits && !t.lanes)
		t = (DLDataType){ kDLFloat, 32, 1 };
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (t.code == types[i].code && t.bits == types[i].bits && t.lanes == 1) {
			*store = types[i].store;
			return 0;
		}
	}
	return fail(-EINVAL, "dtype %s is not uint8, int8, float16, bfloat16 or float32",
		    prepare_dtype(t).s);
}

/* A size by the rules, as a whole number of pixels. */
struct scaled {
	double width, height;
};

static int need(const char *rule, const char *field, uint64_t value)
{
	return value ? 0 : fail(-EINVAL, "the rule %s needs %s", rule, field);
}

static void at_least(struct scaled *s, double side)
{
	s->width = s->width < side ? side : s->width;
	s->height = s->height < side ? side : s->height;
}

/* A sum or a product as a double: x87 computes on with more bits. */
static double rounded(double x)
{
	volatile double d = x;

	return d;
}

/* Rounded as sqrt() of libm: one bit more or less can be a multiple of pixels. x is normal. */
static double root(double x)
{
	const uint64_t one = 1ull << 52;
	uint64_t bits, rest, q = 0, s = 0;
	double power;
	int e;

	memcpy(&bits, &x, sizeof(bits));
	e = (int)(bits >> 52) - 1023;
	rest = ((bits & (one - 1)) | one) << (1 + (e & 1));
	for (uint64_t bit = one << 1; bit; bit >>= 1) {
		if (s + bit <= rest) {
			rest -= s + bit;
			s += 2 * bit;
			q += bit;
		}
		rest <<= 1;
	}
	q += q & 1;
	bits = (uint64_t)(1023 - 52 + (e - (e & 1)) / 2) << 52;
	memcpy(&power, &bits, sizeof(power));
	return (double)(q >> 1) * power;
}

/* The shorter side becomes `side`; the other is rounded down as int() of Python is. */
static void shorter(struct scaled *s, double w, double h, double side)
{
	if (w <= h)
		*s = (struct scaled){ side, prepare_floor(rounded(side * h) / w) };
	else
		*s = (struct scaled){ prepare_floor(rounded(side * w) / h), side };
}

static void longer(struct scaled *s, double w, double h, double side)
{
	if (w >= h)
		*s = (struct scaled){ side, prepare_floor(rounded(side * h) / w) };
	else
		*s = (struct scaled){ prepare_floor(rounded(side * w) / h), side };
}

/* smart_resize() of vision-language models. */
static void by_pixels(const struct dlbuf_prepare_opts *o, double w, double h, struct scaled *s)
{
	double m = o->multiple ? o->multiple : 1, beta;

	s->width = prepare_round(w / m) * m;
	s->height = prepare_round(h / m) * m;
	/* transformers always has a minimum: it enlarges to it what has a side of 0. */
	if (!o->min_pixels)
		at_least(s, m);
	if (o->max_pixels && s->width * s->height > (double)o->max_pixels) {
		beta = root(w * h / (double)o->max_pixels);
		s->width = prepare_floor(w / beta / m) * m;
		s->height = prepare_floor(h / beta / m) * m;
	} else if (s->width * s->height < (double)o->min_pixels) {
		beta = root((double)o->min_pixels / (w * h));
		s->width = -prepare_floor(-(w * beta / m)) * m;
		s->height = -prepare_floor(-(h * beta / m)) * m;
	}
	at_least(s, m);
}

/* Finds the size of the scaled picture of w x h pixels, and of the tensor. */
static int find_sizes(const struct dlbuf_prepare_opts *o, double w, double h,
		      struct scaled *s, struct scaled *tensor)
{
	double r, pct = o->crop_pct ? o->crop_pct : 1;
	int ret;

	switch (o->rule) {
	case DLBUF_SIZE_SHORTEST:
		ret = need("shortest", "shortest", o->shortest);
		shorter(s, w, h, o->shortest);
		break;
	case DLBUF_SIZE_LONGEST:
		ret = need("longest", "longest", o->longest);
		longer(s, w, h, o->longest);
		break;
	case DLBUF_SIZE_BOTH:
		ret = need("both", "shortest and longest", o->shortest && o->longest);
		shorter(s, w, h, o->shortest);
		if ((s->width > s->height ? s->width : s->height) > o->longest)
			longer(s, w, h, o->longest);
		break;
	case DLBUF_SIZE_PIXELS:
		ret = need("pixels", "min_pixels or max_pixels", o->min_pixels | o->max_pixels);
		if (!ret && o->max_pixels && o->min_pixels > o->max_pixels)
			ret = fail(-EINVAL, "min_pixels is more than max_pixels");
		if (!ret)
			by_pixels(o, w, h, s);
		break;
	case DLBUF_SIZE_SCALED:
		ret = need("scaled", "scaled_width and scaled_height",
			   (uint64_t)o->scaled_width * o->scaled_height);
		*s = (struct scaled){ o->scaled_width, o->scaled_height };
		break;
	default:
		ret = need("exact", "width and height", (uint64_t)o->width * o->height);
		*s = (struct scaled){ o->width, o->height };
	}
	if (ret)
		return ret;
	*tensor = *s;
	at_least(tensor, 1);
	if (o->rule != DLBUF_SIZE_EXACT) {
		*s = *tensor;
		if (!o->width && !o->height)
			return 0;
		/* The tensor is a part in the middle of the scaled picture. */
		*tensor = (struct scaled){ o->width, o->height };
		return o->width && o->height ? 0 :
		       fail(-EINVAL, "width is %u and height %u; with a rule for the size both are "
			    "0, or none", o->width, o->height);
	}
	if (o->fit == DLBUF_FIT_LETTERBOX) {
		r = o->width / w < o->height / h ? o->width / w : o->height / h;
		if (o->flags & DLBUF_PREPARE_NO_ENLARGE && r > 1)
			r = 1;
		*s = (struct scaled){ prepare_round(w * r), prepare_round(h * r) };
		at_least(s, 1);
	} else if (o->fit == DLBUF_FIT_CROP) {
		double side = o->width > o->height ? o->width : o->height;

		shorter(s, w, h, prepare_floor(side / pct));
	}
	return 0;
}

/* Finds where the scaled picture begins in the tensor; negative: a part is cut. */
static int32_t place(const struct dlbuf_prepare_opts *o, double tensor, double scaled)
{
	double cut = (scaled - tensor) / 2;

	if (cut > 0)
		return -(int32_t)(o->flags & DLBUF_PREPARE_CUT_ROUND ? prepare_round(cut) :
				  prepare_floor(cut));
	return o->flags & DLBUF_PREPARE_TOP_LEFT ? 0 :
	       (int32_t)prepare_floor((tensor - scaled) / 2);
}

static int check_side(const char *what, const struct scaled *s)
{
	return s->width <= PREPARE_MAX && s->height <= PREPARE_MAX ? 0 :
	       fail(-EINVAL, "the %s is %.0fx%.0f pixels, %d a side are possible", what, s->width,
		    s->height, PREPARE_MAX);
}

/*
 * The turn and the flips from the stored picture to the tensor: those that make it upright,
 * then the caller's. A flip before a turn is the same flip after a turn in the other direction.
 */
static void set_turn(struct dlbuf_prepare *p)
{
	uint32_t first = p->like.orientation, turn = p->opts.turn;
	bool flip = first & DLBUF_ORIENTATION_FLIP_X;

	p->info.turn = (first + (flip ? 4 - turn : turn)) % 4;
	p->info.flags = p->opts.flags & (DLBUF_PREPARE_FLIP_X | DLBUF_PREPARE_FLIP_Y);
	p->info.flags ^= flip ? DLBUF_PREPARE_FLIP_X : 0;
}

static int find_geometry(struct dlbuf_prepare *p)
{
	const struct dlbuf_prepare_opts *o = &p->opts;
	struct dlbuf_prepare_info *i = &p->info;
	double w = p->source.width, h = p->source.height, a, b;
	struct scaled s = { 0 }, tensor = { 0 };
	int ret;

	bool all = !o->crop_x && !o->crop_y && !o->crop_width && !o->crop_height;

	if (w > FRAME_MAX || h > FRAME_MAX)
		return fail(-EINVAL, "the frame is %.0fx%.0f pixels, %d a side are possible", w, h,
			    FRAME_MAX);
	i->crop_x = o->crop_x;
	i->crop_y = o->crop_y;
	i->crop_width = all ? w : o->crop_width;
	i->crop_height = all ? h : o->crop_height;
	/* Shorter ones would have no pixels in the arithmetic. */
	if (i->crop_width < PREPARE_MIN_SIDE || i->crop_height < PREPARE_MIN_SIDE ||
	    rounded(i->crop_x + i->crop_width) > w || rounded(i->crop_y + i->crop_height) > h)
		return fail(-EINVAL, "the crop of %sx%s at %s,%s is not inside the picture of "
			    "%.0fx%.0f, or smaller than 1/1024 of a pixel", number(i->crop_width).s,
			    number(i->crop_height).s, number(i->crop_x).s, number(i->crop_y).s,
			    w, h);
	set_turn(p);
	a = i->turn % 2 ? i->crop_height : i->crop_width;
	b = i->turn % 2 ? i->crop_width : i->crop_height;
	ret = find_sizes(o, a, b, &s, &tensor);
	if (ret)
		return ret;
	ret = check_side("tensor", &tensor);
	if (!ret)
		ret = check_side("scaled picture", &s);
	if (ret)
		return ret;
	i->width = (uint32_t)tensor.width;
	i->height = (uint32_t)tensor.height;
	i->scaled_width = (uint32_t)s.width;
	i->scaled_height = (uint32_t)s.height;
	i->left = place(o, tensor.width, s.width);
	i->top = place(o, tensor.height, s.height);
	i->channels = o->channels == DLBUF_CHANNELS_GREY ? 1 : 3;
	return 0;
}

/* The part of an axis of the scaled picture that is in the tensor. */
static void visible(int32_t at, uint32_t scaled, uint32_t tensor, bool reversed,
		    uint32_t *begin, uint32_t *n)
{
	int64_t low = at < 0 ? -(int64_t)at : 0;
	int64_t high = (int64_t)tensor - at < scaled ? (int64_t)tensor - at : scaled;

	*begin = reversed ? scaled - high : low;
	*n = high - low;
}

static uint32_t above(double x)
{
	return (uint32_t)-prepare_floor(-x);
}

/* The axes of luma and chroma in one direction. */
static int find_axes(enum dlbuf_filter filter, double from, double length, uint32_t all,
		     uint32_t begin, uint32_t n, uint32_t sub, double site, struct axis out[2])
{
	uint32_t low = (uint32_t)prepare_floor(from), high = above(rounded(from + length));
	double move = site * (sub - 1) / 2;
	int ret = prepare_axis(filter, from, length, all, begin, n, low, high, &out[0]);

	if (!ret && sub)
		ret = prepare_axis(filter, (from + move) / sub, length / sub, all, begin, n,
				   low / sub, above(rounded(from + length) / sub), &out[1]);
	return ret;
}

int prepare_axes(struct dlbuf_prepare *p)
{
	const struct dlbuf_prepare_opts *o = &p->opts;
	const struct dlbuf_prepare_info *i = &p->info;
	const struct component *fine = NULL;
	bool odd = i->turn % 2;
	uint32_t begin[2], n[2];
	double x, y;
	int ret;

	/* The axes of the tensor; turned by a quarter, its columns are rows of the frame. */
	p->back_x = (i->turn == 1 || i->turn == 2) ^ !!(i->flags & DLBUF_PREPARE_FLIP_X);
	p->back_y = (i->turn == 2 || i->turn == 3) ^ !!(i->flags & DLBUF_PREPARE_FLIP_Y);
	visible(i->left, i->scaled_width, i->width, p->back_x, &begin[odd], &n[odd]);
	visible(i->top, i->scaled_height, i->height, p->back_y, &begin[!odd], &n[!odd]);
	p->left = begin[0];
	p->top = begin[1];
	p->width = n[0];
	p->height = n[1];
	for (uint32_t c = 0; c < p->source.ncomponents; c++)
		if (p->source.components[c].fine)
			fine = &p->source.components[c];
	prepare_site(&p->like, &o->colour, &x, &y);
	ret = find_axes(o->filter, i->crop_x, i->crop_width,
			odd ? i->scaled_height : i->scaled_width, p->left, p->width,
			fine ? fine->hsub : 0, x, p->x);
	if (!ret)
		ret = find_axes(o->filter, i->crop_y, i->crop_height,
				odd ? i->scaled_width : i->scaled_height, p->top, p->height,
				fine ? fine->vsub : 0, y, p->y);
	return ret;
}

int prepare_tables(struct dlbuf_prepare *p)
{
	int ret = prepare_axes(p);

	if (ret)
		return ret;
#ifdef CONFIG_PREPARE_DEVICE
	if (p->dev && p->dev->backend->program_load)
		return prepare_load(p);
#endif
	return prepare_scratch(p);
}

/* A value of an integer tensor inside its type less the zero point; others as they are. */
static float saturated(const struct dlbuf_prepare *p, double x)
{
	double low = (p->store == STORE_I8 ? -128 : 0) - p->zero_point, high = low + 255;

	if (p->store > STORE_I8)
		return (float)x;
	return (float)(x < low ? low : x > high ? high : x);
}

static void find_values(const struct dlbuf_prepare_opts *o, struct dlbuf_prepare *p)
{
	bool integer = p->store <= STORE_I8;
	double scale = o->scale ? o->scale : integer ? 1 : 1 / 255.;
	double quant = integer && o->quant_scale ? o->quant_scale : 1;
	const struct source *s = &p->source;

	p->nout = p->info.channels;
	p->values.reversed = o->channels == DLBUF_CHANNELS_BGR;
	p->zero_point = o->zero_point;
	for (uint32_t c = 0; c < p->nout; c++) {
		double std = o->std[c] ? o->std[c] : 1;
		double gain = scale / std / quant;
		double bias = -o->mean[c] / std / quant;
		uint32_t from = o->channels == DLBUF_CHANNELS_BGR ? 2 - c : c;

		for (int j = 0; j < 4; j++) {
			double m = p->nout == 3 ? s->matrix[from][j] : .299 * s->matrix[0][j] +
				.587 * s->matrix[1][j] + .114 * s->matrix[2][j];

			p->values.matrix[c][j] = (float)(m * 255 * gain + (j == 3 ? bias : 0));
		}
		p->values.low[c] = saturated(p, gain < 0 ? 255 * gain + bias : bias);
		p->values.high[c] = saturated(p, gain < 0 ? bias : 255 * gain + bias);
		p->pad[c] = saturated(p, o->pad[c] * gain + bias);
	}
}

static int plan_init(const struct dlbuf_frame *f, const struct dlbuf_prepare_opts *o,
		     struct dlbuf_prepare *p)
{
	struct dlbuf_rect crop;
	bool linear;
	int ret = check_numbers(f, o);

	if (!ret)
		ret = find_store(o->dtype, &p->store);
	p->like = *f;
	/* Its planes are not used. */
	p->like.nplanes = 0;
	if (!ret)
		ret = frame_find_format(&p->like, &p->source.format, &linear);
	if (!ret)
		ret = frame_crop(f, &crop);
	if (ret)
		return ret;
	if (!crop.width || !crop.height)
		return fail(-EINVAL, "the frame is %ux%u pixels large", f->width, f->height);
	p->opts = *o;
	p->nhwc = o->flags & DLBUF_PREPARE_NHWC;
	p->source.width = crop.width;
	p->source.height = crop.height;
	ret = prepare_source(f, &o->colour, o->channels == DLBUF_CHANNELS_GREY, &p->source);
	/* A mosaic's pattern can begin anywhere. */
	for (uint32_t i = 0; i < p->source.nplanes && !ret; i++)
		ret = frame_crop_begins(&crop, &p->source.planes[i], i);
	if (!ret)
		ret = find_geometry(p);
	if (ret)
		return ret;
	find_values(o, p);
	return prepare_tables(p);
}

int prepare_crops(struct dlbuf_prepare *p)
{
	struct dlbuf_prepare *c = p->crops;

	if (c)
		return 0;
	c = sys_calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = *p;
	memset(c->x, 0, sizeof(c->x));
	memset(c->y, 0, sizeof(c->y));
	c->scratch = NULL;
	c->room = 0;
	p->crops = c;
	return 0;
}

int prepare_crop(struct dlbuf_prepare *p, const struct dlbuf_crop *crop)
{
	int ret;

	p->opts.crop_x = crop->x;
	p->opts.crop_y = crop->y;
	p->opts.crop_width = crop->width;
	p->opts.crop_height = crop->height;
	/* The table begins with them. */
	ret = check_options(&p->opts, 4);
	return ret ? ret : find_geometry(p);
}

int dlbuf_prepare_create(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
			 const struct dlbuf_prepare_opts *opts, struct dlbuf_prepare **plan)
{
	struct dlbuf_prepare_opts o;
	struct dlbuf_frame f;
	struct dlbuf_prepare *p;
	int ret;

	if (!frame || !opts || !plan)
		return fail(-EINVAL, "%s is NULL", !frame ? "frame" : !opts ? "opts" : "plan");
	if (dev && device_check(dev))
		return -ESTALE;
	/* A device of the CPU's memory may have a program: a GPU then prepares its frames. */
	if (dev && dev->dl.device_type != kDLCPU && !dev->backend->program_load)
		return fail(-EOPNOTSUPP, "device %s cannot prepare frames, the CPU can", dev->name);
	ret = OPTS_GET(&o, opts, "dlbuf_prepare_opts");
	if (!ret)
		ret = OPTS_GET(&f, frame, "dlbuf_frame");
	if (ret)
		return ret;
	p = sys_calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM, "no memory for a plan");
	fork_watch();
	p->dev = dev;
	if (dev)
		device_ref(dev);
	p->kernels = prepare_choose(&p->byte_kernels);
	ret = plan_init(&f, &o, p);
	if (!ret && o.threads > 1 && !p->program)
		ret = prepare_threads_start(o.threads - 1, &p->threads);
	if (ret) {
		dlbuf_prepare_destroy(p);
		return ret;
	}
	*plan = p;
	return 0;
}

void dlbuf_prepare_destroy(struct dlbuf_prepare *p)
{
	if (!p)
		return;
	/* The copy has no reference of the device, and shares the threads. */
	if (p->crops) {
		p->crops->dev = NULL;
		p->crops->threads = NULL;
	}
	dlbuf_prepare_destroy(p->crops);
	prepare_threads_end(p->threads);
	for (int i = 0; i < 2; i++) {
		free(p->x[i].memory);
		free(p->y[i].memory);
	}
	free(p->scratch);
	/* In a child of fork() they are the parent's. */
	if (p->dev && !device_inherited(p->dev)) {
		if (p->program)
			p->dev->backend->program_drop(p->program);
		device_unref(p->dev);
	}
	free(p);
}

/* The places of tiles along an axis: all of one size, the last moved inside. */
struct tiles {
	uint64_t n, step, size, last;
};

static int find_tiles(const char *what, uint32_t length, uint32_t size, uint32_t overlap,
		      struct tiles *t)
{
	if (overlap >= size)
		return fail(-EINVAL, "tiles of %u pixels of %s cannot share %u", size, what,
			    overlap);
	*t = (struct tiles){
		.n = 1, .step = size - overlap, .size = size < length ? size : length,
	};
	t->last = length - t->size;
	t->n += (t->last + t->step - 1) / t->step;
	return 0;
}

static double tile_at(const struct tiles *t, uint64_t i)
{
	return (double)(i * t->step < t->last ? i * t->step : t->last);
}

int dlbuf_prepare_tiles(const struct dlbuf_prepare *plan, uint32_t width, uint32_t height,
			uint32_t overlap_x, uint32_t overlap_y, struct dlbuf_crop crops[],
			uint32_t room, uint32_t *n)
{
	struct tiles x, y;
	bool odd;
	int ret;

	if (!plan || !n)
		return fail(-EINVAL, "plan or n is NULL");
	odd = plan->info.turn % 2;
	width = width ? width : odd ? plan->info.height : plan->info.width;
	height = height ? height : odd ? plan->info.width : plan->info.height;
	ret = find_tiles("width", plan->source.width, width, overlap_x, &x);
	if (!ret)
		ret = find_tiles("height", plan->source.height, height, overlap_y, &y);
	if (ret)
		return ret;
	if (x.n * y.n > UINT32_MAX)
		return fail(-EINVAL, "%llu x %llu tiles are too many", (unsigned long long)x.n,
			    (unsigned long long)y.n);
	*n = (uint32_t)(x.n * y.n);
	if (!crops)
		return 0;
	if (*n > room)
		return fail(-ENOSPC, "%u tiles, and the array has room for %u", *n, room);
	for (uint32_t i = 0; i < *n; i++)
		crops[i] = (struct dlbuf_crop){ tile_at(&x, i % x.n), tile_at(&y, i / x.n),
			(double)x.size, (double)y.size };
	return 0;
}

int dlbuf_prepare_get_info(const struct dlbuf_prepare *plan, struct dlbuf_prepare_info *info)
{
	if (!plan || !info)
		return fail(-EINVAL, "plan or info is NULL");
	return INFO_PUT(info, &plan->info, "dlbuf_prepare_info");
}
