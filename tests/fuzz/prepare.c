// SPDX-License-Identifier: MIT
/*
 * Any options, frame and tensor: a plan has the sizes of docs/prepare.md, or is refused where the
 * header says so. The tensor has the values of tests/unit/prepare_reference.h, and no byte beside
 * them changes. Crops equal the results of plans of their own. Frames of dma-bufs, which memfds
 * replace, give the same values as tensors of their planes.
 *
 *	build/.../tests/fuzz/prepare -max_total_time=60 tests/fuzz/corpus/prepare
 */
#include "ktap.h"

/* The reference is the unit's; its cases do not run here. */
#undef TEST
#define TEST(name) __attribute__((unused)) static void name##_case(void)
#undef KTAP_MAIN
#define KTAP_MAIN()
#include "../unit/prepare.c"

#undef CHECK
#include "fuzz.h"
#include "memory.h"

#define CHECK_CODE(ret, a, b) CHECK(((ret) == (a) || (ret) == (b)) && dlbuf_last_error()[0])

/* Larger tensors are planned and not made. */
#define MOST_VALUES 60000
#define GUARD 64

struct choice {
	struct run r;			/* its options have the colours of both */
	struct dlbuf_prepare_opts o;	/* the plan's */
	struct scene scene;
	struct dlbuf_frame frame;
	bool spoilt, any_format, known_matrix;
};

/* ------------------------------------------------------------ the choices */

static uint32_t side(struct input *in)
{
	uint32_t n = byte(in);

	return n < 224 ? 1 + n % 48 : 1 + n % 32 * 12;
}

/* A part of an axis: whole pixels, eighths, any fraction, or very little. */
static void part(struct input *in, uint32_t all, double *from, double *length)
{
	uint32_t how = byte(in) % 4, a = byte(in) << 8, b;

	a |= byte(in);
	b = byte(in) << 8;
	b |= byte(in);
	*from = how == 0 ? a % all : how == 1 ? a % (all * 8) / 8. : a / 65536. * all;
	*length = how == 0 ? 1 + b % (all - (uint32_t)*from) :
		  how == 3 ? (1 + b % 2048) / 1024. : (1 + b) / 65536. * (all - *from);
	/* Half of them end with the picture. */
	if (how == 1 || *from + *length > all)
		*length = all - *from;
}

/* The colours of the frame and of the options; returns which of them count. */
static struct dlbuf_colour get_colour(struct input *in, struct choice *c)
{
	static const uint8_t known[] = { 0, 1, 2, 3, 5, 6, 7, 8, 9, 10 };
	struct dlbuf_colour *colour[] = { &c->frame.colour, &c->o.colour }, both = { 0 };

	for (int i = 0; i < 2; i++) {
		uint32_t n = byte(in);

		colour[i]->matrix = n < 250 ? known[n % ARRAY_SIZE(known)] : byte(in);
		colour[i]->range = byte(in) % 3;
		colour[i]->chroma_site = byte(in) % 7;
		if (colour[i]->matrix)
			both.matrix = colour[i]->matrix;
		if (colour[i]->range)
			both.range = colour[i]->range;
		if (colour[i]->chroma_site)
			both.chroma_site = colour[i]->chroma_site;
	}
	c->known_matrix = both.matrix <= 10 && both.matrix != 4;
	return both;
}

static void get_size(struct input *in, struct dlbuf_prepare_opts *o)
{
	uint32_t n = byte(in);

	o->rule = n % 8 < 3 ? DLBUF_SIZE_EXACT : n % 8 - 2;
	o->fit = n / 8 % 3;
	if (!o->rule || n & 128) {
		o->width = side(in);
		o->height = side(in);
	}
	if (o->rule == DLBUF_SIZE_SHORTEST || o->rule == DLBUF_SIZE_BOTH)
		o->shortest = side(in);
	if (o->rule == DLBUF_SIZE_LONGEST || o->rule == DLBUF_SIZE_BOTH)
		o->longest = side(in);
	if (o->rule == DLBUF_SIZE_PIXELS) {
		n = byte(in);
		o->multiple = n % 33;
		o->max_pixels = n & 64 ? side(in) * side(in) : 0;
		o->min_pixels = n & 128 || !o->max_pixels ? side(in) * side(in) : 0;
	}
	if (o->rule == DLBUF_SIZE_SCALED) {
		o->scaled_width = side(in);
		o->scaled_height = side(in);
	}
	if (byte(in) & 1)
		o->crop_pct = (1 + byte(in)) / 256.;
}

static void get_values(struct input *in, struct dlbuf_prepare_opts *o)
{
	static const double scales[] = { 0, 0, 1, 1 / 255., 1 / 127.5, -1 / 255., .5, 2 };
	uint32_t n = byte(in);

	o->dtype = types[byte(in) % ARRAY_SIZE(types)];
	o->scale = scales[n % 8];
	for (int i = 0; i < 3; i++) {
		o->pad[i] = byte(in);
		/* A part of full scale, so that a float has enough digits. */
		o->mean[i] = n & 8 ? byte(in) * fabs(o->scale ? o->scale :
						     o->dtype.bits == 8 ? 1 : 1 / 255.) : 0;
		o->std[i] = n & 16 ? (1 + byte(in)) / 64. : 0;
	}
	if (o->dtype.bits == 8) {
		o->quant_scale = n & 32 ? (16 + byte(in)) / 32. : 0;
		o->zero_point = (n & 64 ? byte(in) : 0) - (n & 128 ? 128 : 0);
	}
}

/* One field with a value that no plan takes. */
static void spoil(struct input *in, struct dlbuf_prepare_opts *o)
{
	const double values[] = { NAN, INFINITY, -INFINITY, 1e300, -1e300 };
	double *doubles[] = { &o->crop_x, &o->crop_y, &o->crop_width, &o->crop_height,
		&o->crop_pct, &o->pad[0], &o->pad[2], &o->scale, &o->mean[1], &o->std[0],
		&o->std[2], &o->quant_scale };
	uint32_t n = byte(in), more = 1 + byte(in);

	switch (n % 8) {
	case 0: o->turn = 3 + more; break;
	case 1: o->filter = 5 + more; break;
	case 2: o->flags |= 64u << more % 26; break;
	case 3: o->dtype.lanes += more; break;
	case 4: o->zero_point = 256 + more; break;
	case 5: o->colour.chroma_site = 6 + more % 200; break;
	default: *doubles[n / 8 % ARRAY_SIZE(doubles)] = values[more % ARRAY_SIZE(values)];
	}
}

static uint32_t codes[2][512], ncodes[2];

static int collect(const struct dlbuf_format_info *info, void *data)
{
	(void)data;
	if (info->drm_code)
		codes[0][ncodes[0]++] = info->drm_code;
	if (info->v4l2_code)
		codes[1][ncodes[1]++] = info->v4l2_code;
	return 0;
}

static void get_choice(struct input *in, struct choice *c)
{
	uint32_t how = byte(in), w, h, n;
	const struct layout *l = &layouts[byte(in) % ARRAY_SIZE(layouts)];

	*c = (struct choice){ .o.size = sizeof(c->o), .any_format = how % 8 == 7 };
	state = byte(in) * 77777;
	w = side(in);
	h = side(in);
	scene_make(&c->scene, l, w, h);
	c->frame = c->scene.frame;
	if (c->any_format) {
		n = byte(in);
		c->frame.code_space = n & 1 ? V4L2 : DRM;
		n = n << 8 | byte(in);
		c->frame.code = codes[n >> 8 & 1][(n >> 1) % ncodes[n >> 8 & 1]];
	}
	/* The planes are those of the visible picture. */
	if (how & 16) {
		uint32_t first = c->frame.crop.x;

		c->frame.crop = (struct dlbuf_rect){ byte(in), byte(in), w, h };
		/* The planes begin with a group. */
		if (l->packed)
			c->frame.crop.x = c->frame.crop.x / 4 * 4 + first % 4;
		c->scene.frame.crop = c->frame.crop;
		c->frame.width = w + c->frame.crop.x + byte(in) % 4;
		c->frame.height = h + c->frame.crop.y + byte(in) % 4;
	}
	get_size(in, &c->o);
	n = byte(in);
	if (how & 32) {
		part(in, w, &c->o.crop_x, &c->o.crop_width);
		part(in, h, &c->o.crop_y, &c->o.crop_height);
	}
	c->o.filter = n % 6;
	c->o.turn = n >> 6;
	c->o.flags = byte(in) % 64;
	c->o.channels = n / 6 % 3;
	get_values(in, &c->o);
	c->r = (struct run){ l, c->scene.w, c->scene.h, c->o, false };
	c->r.o.colour = get_colour(in, c);
	if (how >= 248) {
		c->spoilt = true;
		spoil(in, &c->o);
	}
}

/* ---------------------------------------- docs/prepare.md, "Sizes", by libm */

struct size {
	double w, h;
};

static struct size follow(double w, double h, double to, bool shorter)
{
	bool first = shorter ? w <= h : w >= h;

	return first ? (struct size){ to, floor(to * h / w) } :
		(struct size){ floor(to * w / h), to };
}

static struct size by_budget(const struct dlbuf_prepare_opts *o, double w, double h)
{
	double m = o->multiple ? o->multiple : 1, b;
	struct size s = { rint(w / m) * m, rint(h / m) * m };

	if (!o->min_pixels)
		s = (struct size){ fmax(s.w, m), fmax(s.h, m) };
	if (o->max_pixels && s.w * s.h > o->max_pixels) {
		b = sqrt(w * h / o->max_pixels);
		s = (struct size){ floor(w / b / m) * m, floor(h / b / m) * m };
	} else if (s.w * s.h < o->min_pixels) {
		b = sqrt(o->min_pixels / (w * h));
		s = (struct size){ ceil(w * b / m) * m, ceil(h * b / m) * m };
	}
	return (struct size){ fmax(s.w, m), fmax(s.h, m) };
}

static double begin_of(const struct dlbuf_prepare_opts *o, double tensor, double scaled)
{
	if (scaled > tensor)
		return -(o->flags & DLBUF_PREPARE_CUT_ROUND ? rint((scaled - tensor) / 2) :
			 floor((scaled - tensor) / 2));
	return o->flags & DLBUF_PREPARE_TOP_LEFT ? 0 : floor((tensor - scaled) / 2);
}

/* Whether there is such a plan, and its sizes. */
static bool model(const struct dlbuf_prepare_opts *o, double w, double h,
		  struct dlbuf_prepare_info *i)
{
	double crop[] = { o->crop_x, o->crop_y, o->crop_width, o->crop_height }, r;
	struct size s, t = { o->width, o->height };

	if (!crop[0] && !crop[1] && !crop[2] && !crop[3]) {
		crop[2] = w;
		crop[3] = h;
	}
	if (crop[2] < 1 / 1024. || crop[3] < 1 / 1024. || crop[0] + crop[2] > w ||
	    crop[1] + crop[3] > h)
		return false;
	w = crop[o->turn % 2 ? 3 : 2];
	h = crop[o->turn % 2 ? 2 : 3];
	r = fmin(t.w / w, t.h / h);
	if (o->flags & DLBUF_PREPARE_NO_ENLARGE)
		r = fmin(r, 1);
	switch (o->rule) {
	case DLBUF_SIZE_EXACT:
		s = t;
		if (o->fit == DLBUF_FIT_LETTERBOX)
			s = (struct size){ rint(w * r), rint(h * r) };
		if (o->fit == DLBUF_FIT_CROP)
			s = follow(w, h, floor(fmax(t.w, t.h) / (o->crop_pct ? o->crop_pct : 1)),
				   true);
		break;
	case DLBUF_SIZE_SHORTEST: s = follow(w, h, o->shortest, true); break;
	case DLBUF_SIZE_LONGEST: s = follow(w, h, o->longest, false); break;
	case DLBUF_SIZE_BOTH:
		s = follow(w, h, o->shortest, true);
		if (fmax(s.w, s.h) > o->longest)
			s = follow(w, h, o->longest, false);
		break;
	case DLBUF_SIZE_PIXELS:
		if (o->max_pixels && o->min_pixels > o->max_pixels)
			return false;
		s = by_budget(o, w, h);
		break;
	default: s = (struct size){ o->scaled_width, o->scaled_height };
	}
	s = (struct size){ fmax(s.w, 1), fmax(s.h, 1) };
	if (!t.w)
		t = s;
	if (fmax(fmax(s.w, s.h), fmax(t.w, t.h)) > 32768)
		return false;
	*i = (struct dlbuf_prepare_info){ .size = sizeof(*i), .width = t.w, .height = t.h,
		.channels = o->channels == DLBUF_CHANNELS_GREY ? 1 : 3, .scaled_width = s.w,
		.scaled_height = s.h, .left = begin_of(o, t.w, s.w), .top = begin_of(o, t.h, s.h),
		.crop_x = crop[0], .crop_y = crop[1], .crop_width = crop[2], .crop_height = crop[3],
		.turn = o->turn,
		.flags = o->flags & (DLBUF_PREPARE_FLIP_X | DLBUF_PREPARE_FLIP_Y) };
	return true;
}

static bool same_info(const struct dlbuf_prepare_info *a, const struct dlbuf_prepare_info *b)
{
	/* There is a gap before crop_x. */
	return !memcmp(a, b, offsetof(struct dlbuf_prepare_info, top) + sizeof(a->top)) &&
		!memcmp(&a->crop_x, &b->crop_x,
			sizeof(*a) - offsetof(struct dlbuf_prepare_info, crop_x));
}

/* The centre of a pixel of the tensor is where its samples are around. */
static void check_map(const struct dlbuf_prepare_info *i, uint32_t x, uint32_t y)
{
	double sx = x, sy = y, w = i->scaled_width, h = i->scaled_height, fx, fy, a, b;

	dlbuf_prepare_map(i, i->left + (x + .5), i->top + (y + .5), &fx, &fy);
	if (i->flags & DLBUF_PREPARE_FLIP_X)
		sx = w - 1 - sx;
	if (i->flags & DLBUF_PREPARE_FLIP_Y)
		sy = h - 1 - sy;
	a = i->turn == 0 ? sx : i->turn == 1 ? sy : i->turn == 2 ? w - 1 - sx : h - 1 - sy;
	b = i->turn == 0 ? sy : i->turn == 1 ? w - 1 - sx : i->turn == 2 ? h - 1 - sy : sx;
	a = i->crop_x + (a + .5) * i->crop_width / (i->turn % 2 ? h : w);
	b = i->crop_y + (b + .5) * i->crop_height / (i->turn % 2 ? w : h);
	CHECK(fabs(a - fx) < 1e-9 * (1 + i->crop_x + i->crop_width));
	CHECK(fabs(b - fy) < 1e-9 * (1 + i->crop_y + i->crop_height));
}

/* ------------------------------------------------------------- the tensors */

/* Images with steps of any order, size and sign, in memory that is not theirs alone. */
struct target {
	DLManagedTensorVersioned t;
	int64_t shape[4], strides[4];
	uint8_t *memory;
	size_t bytes;
};

static void target_make(struct input *in, struct target *t, const struct dlbuf_prepare_info *i,
			const struct dlbuf_prepare_opts *o, uint32_t n)
{
	bool nhwc = o->flags & DLBUF_PREPARE_NHWC;
	int64_t c = i->channels, h = i->height, w = i->width, used = 1, begin = 0;
	const int64_t shape[] = { n, nhwc ? h : c, nhwc ? w : h, nhwc ? c : w };
	uint32_t how = byte(in), value = o->dtype.bits / 8;
	bool done[4] = { false };

	memcpy(t->shape, shape, sizeof(shape));
	for (int k = 0; k < 4; k++) {
		int d = 3 - k;

		if (how & 64)
			d = byte(in) % 4;
		while (done[d])
			d = (d + 1) % 4;
		done[d] = true;
		t->strides[d] = used + (how & 32 ? byte(in) % 4 : 0);
		used = t->strides[d] * shape[d];
		if (how >> d & 1) {
			begin += t->strides[d] * (shape[d] - 1);
			t->strides[d] = -t->strides[d];
		}
	}
	t->bytes = 2 * GUARD + used * value;
	t->memory = aligned_alloc(GUARD, (t->bytes + GUARD - 1) / GUARD * GUARD);
	memset(t->memory, 0x5a, t->bytes);
	t->t = (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, .deleter = ignore,
		.dl_tensor = { .data = t->memory, .device = { kDLCPU, 0 }, .ndim = 4,
			.dtype = o->dtype, .shape = t->shape, .strides = t->strides,
			.byte_offset = GUARD + begin * value },
	};
	if (how < 32) {
		t->t.dl_tensor.strides = NULL;
		t->t.dl_tensor.byte_offset = GUARD;
	}
}

/* Takes image `index` out, in C order, and leaves 0x5a. */
static void target_take(struct target *t, uint32_t index, char *to)
{
	uint32_t value = t->t.dl_tensor.dtype.bits / 8;
	const int64_t *n = t->shape, *s = t->strides;
	const int64_t plain[] = { n[1] * n[2] * n[3], n[2] * n[3], n[3], 1 };

	s = t->t.dl_tensor.strides ? s : plain;
	for (int64_t a = 0; a < n[1]; a++) {
		for (int64_t b = 0; b < n[2]; b++) {
			for (int64_t c = 0; c < n[3]; c++, to += value) {
				uint8_t *at = t->memory + t->t.dl_tensor.byte_offset + value *
					(index * s[0] + a * s[1] + b * s[2] + c * s[3]);

				memcpy(to, at, value);
				memset(at, 0x5a, value);
			}
		}
	}
}

static bool untouched(const struct target *t)
{
	return t->memory[0] == 0x5a && !memcmp(t->memory, t->memory + 1, t->bytes - 1);
}

/* ------------------------------------------------------------- the checks */

static void check_values(struct choice *c, struct dlbuf_prepare *plan, struct plane_tensors *planes,
			 struct target *t, uint32_t index, char *image)
{
	int n = c->r.l->at[1].plane < 0 ? 1 : 3;
	struct scaled components[3];
	double worst = 0;

	for (int i = 0; i < n; i++)
		scaled_make(&components[i], &c->scene, i, &c->r.o, &plan->info);
	for (int plain = 1; plain >= 0; plain--) {
		plan->kernels = prepare_choose(&plan->byte_kernels);
		if (plain) {
			plan->kernels = &prepare_kernels;
			plan->byte_kernels = older_bytes();
		}
		prepare_scratch(plan);
		CHECK(!dlbuf_prepare_tensors(plan, planes->list, c->scene.nplanes,
					     RUN(.index = index), &t->t));
		target_take(t, index, image);
		CHECK(untouched(t));
		CHECK(!compare_image(&c->r, &plan->info, components, n, image,
				     plan->ngroups && !plan->in_floats, &worst_of_bytes, &worst));
	}
	for (int i = 0; i < n; i++)
		scaled_free(&components[i]);
}

/* An import refuses crops that split a mosaic, or odd widths of packed pixels. */
static bool may_be_refused(const struct choice *c, const struct dlbuf_frame *f)
{
	uint32_t group = pixels_of(c->r.l, 0);

	return (c->r.l->mosaic && (f->crop.x % 2 || f->crop.y % 2)) ||
	       f->width % group || f->crop.x % group || c->scene.w % group;
}

/* The same picture in dma-bufs, with other pitches, at its place in the frame. */
static void check_frame(struct input *in, struct choice *c, struct dlbuf_prepare *plan,
			struct target *t, uint32_t index, const char *image)
{
	size_t bytes = (size_t)plan->info.width * plan->info.height * plan->info.channels *
		       (c->o.dtype.bits / 8);
	struct dlbuf_prepare_info info = { .size = sizeof(info) }, want = info;
	unsigned int fired = __atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST);
	struct dlbuf_frame f = c->frame;
	const struct layout *l = c->r.l;
	const struct scene *s = &c->scene;
	int value = abs(l->bits) / 8, ret;
	char *again;

	/* V4L2's planes of several buffers have other codes. */
	if (l->space == V4L2 && s->nplanes > 1)
		return;
	f.nplanes = s->nplanes;
	f.order = DLBUF_ORDER_COMPLETE;
	f.release = fire;
	for (int i = 0; i < s->nplanes; i++) {
		int hs = l->packed ? l->packed : pixels_of(l, i), vs = i ? l->vsub : 1;
		size_t group = l->packed ? l->packed * l->depth / 8 : l->groups[i] * value;
		/* A packed row begins with the group of the first pixel. */
		size_t row = up((l->packed ? f.crop.x % hs : 0) + s->w, hs) * group;
		size_t pitch = (up(f.width, hs) * group + 63) / 64 * 64 + 64 * (byte(in) % 2);
		uint8_t *at = memory.bytes[i] + f.crop.y / vs * pitch + f.crop.x / hs * group;

		if (pitch * up(f.height, vs) > MEMORY_BYTES)
			return;
		f.planes[i] = (struct dlbuf_plane){ .fd = memory.fds[i], .pitch = pitch };
		for (uint32_t y = 0; y < up(s->h, vs); y++)
			memcpy(at + y * pitch, s->planes[i] + y * s->pitches[i], row);
	}
	again = malloc(bytes);
	ret = dlbuf_prepare_frame(plan, &f,
				  RUN(.index = index, .infos = byte(in) & 1 ? &info : NULL), &t->t);
	CHECK(!ret || (may_be_refused(c, &f) && (ret == -EINVAL || ret == -EOPNOTSUPP)));
	if (!ret) {
		target_take(t, index, again);
		CHECK(!memcmp(again, image, bytes));
		CHECK(!dlbuf_prepare_get_info(plan, &want));
		CHECK(!info.width || same_info(&info, &want));
	}
	CHECK(untouched(t));
	free(again);
	CHECK(__atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST) == fired + !ret);
}

/* Each crop equals the result of a plan of its own, or all are refused and nothing is written. */
static void check_crops(struct input *in, struct choice *c, struct dlbuf_prepare *plan,
			struct plane_tensors *planes)
{
	struct dlbuf_prepare_info infos[4] = { { .size = sizeof(infos[0]) } }, want[4];
	uint32_t n = 1 + byte(in) % 3, index = byte(in) % 2, bad = 0;
	size_t bytes = (size_t)plan->info.width * plan->info.height * plan->info.channels *
		       (c->o.dtype.bits / 8);
	char *one = malloc(bytes), *image = malloc(bytes);
	struct dlbuf_crop crops[4];
	struct target t, alone;
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		struct dlbuf_prepare_opts o = c->o;

		part(in, c->scene.w, &o.crop_x, &o.crop_width);
		part(in, c->scene.h, &o.crop_y, &o.crop_height);
		if (byte(in) == 255)
			o.crop_x += 100;
		crops[i] = (struct dlbuf_crop){ o.crop_x, o.crop_y, o.crop_width, o.crop_height };
		bad += !model(&o, c->scene.w, c->scene.h, &want[i]) ||
			want[i].width != plan->info.width || want[i].height != plan->info.height;
	}
	target_make(in, &t, &plan->info, &c->o, index + n);
	ret = dlbuf_prepare_tensors(plan, planes->list, c->scene.nplanes,
				    RUN(.crops = crops, .ncrops = n, .infos = infos,
					.index = index), &t.t);
	if (bad) {
		CHECK(ret == -EINVAL && dlbuf_last_error()[0] && untouched(&t));
	} else {
		CHECK(!ret);
		for (uint32_t i = 0; i < n; i++) {
			struct dlbuf_prepare_opts o = c->o;
			struct dlbuf_prepare *other;

			CHECK(same_info(&infos[i], &want[i]));
			target_take(&t, index + i, image);
			o.crop_x = crops[i].x;
			o.crop_y = crops[i].y;
			o.crop_width = crops[i].width;
			o.crop_height = crops[i].height;
			CHECK(!dlbuf_prepare_create(NULL, &c->frame, &o, &other));
			target_make(&(struct input){ 0 }, &alone, &other->info, &o, 1);
			CHECK(!dlbuf_prepare_tensors(other, planes->list, c->scene.nplanes, NULL,
						     &alone.t));
			target_take(&alone, 0, one);
			CHECK(!memcmp(image, one, bytes));
			free(alone.memory);
			dlbuf_prepare_destroy(other);
		}
		CHECK(untouched(&t));
	}
	free(t.memory);
	free(image);
	free(one);
}

/* docs/prepare.md, "Tiles" */
static void check_tiles(struct input *in, const struct dlbuf_prepare *plan)
{
	uint64_t size[2] = { side(in), side(in) }, overlap[2] = { byte(in) % 64, byte(in) % 64 },
		n[2];
	const uint64_t length[2] = { plan->source.width, plan->source.height };
	static struct dlbuf_crop crops[4096];
	uint32_t count = 0;
	int ret = dlbuf_prepare_tiles(plan, size[0], size[1], overlap[0], overlap[1], crops,
				      ARRAY_SIZE(crops), &count);

	if (overlap[0] >= size[0] || overlap[1] >= size[1]) {
		CHECK(ret == -EINVAL && dlbuf_last_error()[0]);
		return;
	}
	for (int i = 0; i < 2; i++)
		n[i] = length[i] <= size[i] ? 1 :
			1 + (uint64_t)ceil((double)(length[i] - size[i]) / (size[i] - overlap[i]));
	CHECK(count == n[0] * n[1] && ret == (count > ARRAY_SIZE(crops) ? -ENOSPC : 0));
	for (uint32_t k = 0; k < count && !ret; k++) {
		const uint64_t at[2] = { k % n[0], k / n[0] };
		const double got[2][2] = { { crops[k].x, crops[k].width },
			{ crops[k].y, crops[k].height } };

		for (int i = 0; i < 2; i++) {
			uint64_t one = size[i] < length[i] ? size[i] : length[i];

			CHECK(got[i][1] == one);
			CHECK(got[i][0] == fmin(at[i] * (size[i] - overlap[i]), length[i] - one));
		}
	}
}

/* A tensor or a plane that does not fit: a code of the header's, and nothing is written. */
static void check_refused(struct input *in, struct choice *c, struct dlbuf_prepare *plan,
			  struct plane_tensors *planes, struct target *t, int64_t index)
{
	struct plane_tensors p = *planes;
	uint32_t n = c->scene.nplanes, how = byte(in), which = byte(in) % n, dim = byte(in) % 3;
	DLTensor *d = how & 8 ? &p.t[which].dl_tensor : &t->t.dl_tensor;
	const struct target keep = *t;
	int want = -EINVAL, ret;

	for (uint32_t i = 0; i < n; i++) {
		p.list[i] = &p.t[i];
		p.t[i].dl_tensor.shape = p.shape[i];
		p.t[i].dl_tensor.strides = p.strides[i];
	}
	switch (how & 7) {
	case 0:
		/* Rows of bytes may be longer. */
		if (how & 8 && c->r.l->rows && dim % 2)
			d->shape[1] = 0;
		else
			d->shape[how & 8 ? dim % d->ndim : 1 + dim]++;
		break;
	case 1:
		d->dtype.lanes = 2;
		want = -EOPNOTSUPP;
		break;
	case 2:
		d->device.device_type = kDLCUDA;
		want = -EOPNOTSUPP;
		break;
	case 3:
		d->ndim = 5;
		break;
	case 4:
		p.t[which].version.major = t->t.version.major = DLPACK_MAJOR_VERSION + 1;
		want = -EPROTO;
		break;
	case 5:
		d->data = NULL;
		break;
	case 6:
		if (how & 8) {
			p.list[which] = NULL;
		} else {
			t->t.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
			want = -EACCES;
		}
		break;
	default:
		index = how & 16 ? -1 : t->shape[0];
	}
	ret = dlbuf_prepare_tensors(plan, p.list, n, RUN(.index = index), &t->t);
	CHECK(ret == want && dlbuf_last_error()[0]);
	*t = keep;
	CHECK(untouched(t));
}

/* Formats that have no reference: their values are none beyond the colours, and no NaN. */
static void check_any(struct choice *c, struct dlbuf_prepare *plan, struct target *t,
		      uint32_t index, char *image)
{
	const struct source *s = &plan->source;
	bool rows = s->view == DLBUF_VIEW_ROWS;
	struct plane_tensors p;
	char *bytes_of[3];

	for (uint32_t i = 0; i < s->nplanes; i++) {
		const struct dlbuf_format_plane *f = &s->planes[i];
		int64_t h = up(s->height, f->vsub), w = up(s->width, f->hsub);
		int64_t row = s->packed.samples ? up(s->packed.skip + s->width, s->packed.samples) *
			s->packed.bytes : w * f->channels * (f->bits / 8);
		size_t bytes = h * row;

		bytes_of[i] = malloc(bytes);
		for (size_t k = 0; k < bytes; k++)
			bytes_of[i][k] = noise() >> 8;
		p.shape[i][0] = h;
		p.shape[i][1] = rows ? row : w;
		p.shape[i][2] = f->channels;
		p.t[i] = (DLManagedTensorVersioned){
			.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
			.dl_tensor = { .data = bytes_of[i], .device = { kDLCPU, 0 },
				.ndim = f->channels > 1 && !rows ? 3 : 2, .shape = p.shape[i],
				.dtype = { s->format->type, s->format->bits, 1 } },
		};
		p.list[i] = &p.t[i];
	}
	CHECK(!dlbuf_prepare_tensors(plan, p.list, s->nplanes, RUN(.index = index), &t->t));
	target_take(t, index, image);
	CHECK(untouched(t));
	for (uint32_t i = 0; i < plan->info.width * plan->info.height * plan->info.channels &&
	     c->o.dtype.bits == 32; i++) {
		float v = ((float *)(void *)image)[i];

		CHECK(fabsf(v) < 1e9f);
	}
	for (uint32_t i = 0; i < s->nplanes; i++)
		free(bytes_of[i]);
}

static void check_plan(struct input *in, struct choice *c, struct dlbuf_prepare *plan)
{
	struct dlbuf_prepare_info info = { .size = sizeof(info) };
	uint32_t n = 1 + byte(in) % 3, index = byte(in) % n;
	struct plane_tensors planes;
	struct target t;
	size_t values;
	char *image;

	CHECK(!dlbuf_prepare_get_info(plan, &info));
	check_map(&info, byte(in) % info.scaled_width, byte(in) % info.scaled_height);
	check_tiles(in, plan);
	values = (size_t)info.width * info.height * info.channels;
	if (values > MOST_VALUES)
		return;
	image = malloc(values * (c->o.dtype.bits / 8));
	target_make(in, &t, &info, &c->o, n);
	if (c->any_format) {
		check_any(c, plan, &t, index, image);
	} else {
		scene_tensors(&c->scene, &planes);
		t.t.dl_tensor.byte_offset++;
		if (c->o.dtype.bits > 8)
			CHECK(dlbuf_prepare_tensors(plan, planes.list, c->scene.nplanes,
						    RUN(.index = index), &t.t) == -EOPNOTSUPP &&
						    untouched(&t));
		t.t.dl_tensor.byte_offset--;
		check_refused(in, c, plan, &planes, &t, index);
		check_values(c, plan, &planes, &t, index, image);
		check_frame(in, c, plan, &t, index, image);
		check_crops(in, c, plan, &planes);
	}
	free(t.memory);
	free(image);
}

/* Whether the visible picture begins inside a sample. */
static bool splits(const struct choice *c)
{
	const struct layout *l = c->r.l;
	bool split = false;

	for (int i = 0; i < c->scene.nplanes; i++)
		split |= c->frame.crop.x % pixels_of(l, i) || (i && c->frame.crop.y % l->vsub);
	return split;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);

/*
 * Every other input is new: it makes all decisions at once, because coverage does not measure
 * numbers.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
	if (seed % 2)
		return LLVMFuzzerMutate(data, size, most);
	state = seed;
	for (size = 0; size < most && size < 128; size++)
		data[size] = noise() >> 8;
	return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct dlbuf_prepare_info info, got = { .size = sizeof(got) };
	struct dlbuf_prepare *plan = NULL;
	bool good, thin;
	unsigned int fds;
	struct choice c;
	int ret;

	memory_begin();
	if (!ncodes[0])
		dlbuf_format_each(collect, NULL);
	fds = memory_settle();
	get_choice(&in, &c);
	thin = c.scene.w < 2 || c.scene.h < 2;
	good = !c.spoilt && !(thin && c.r.l->mosaic && !c.any_format) &&
		model(&c.o, c.scene.w, c.scene.h, &info);
	ret = dlbuf_prepare_create(memory.cpu, &c.frame, &c.o, &plan);
	CHECK(!ret == !!plan);
	if (ret)
		CHECK_CODE(ret, -EINVAL, -EOPNOTSUPP);
	CHECK(ret == (good && (c.any_format || !splits(&c)) ? 0 : -EINVAL) ||
	      (ret == -EINVAL && thin && c.any_format) ||
	      (ret == -EOPNOTSUPP && (c.any_format || !c.known_matrix || splits(&c))));
	if (!ret) {
		CHECK(!dlbuf_prepare_get_info(plan, &got) && same_info(&got, &info));
		check_plan(&in, &c, plan);
	}
	dlbuf_prepare_destroy(plan);
	scene_free(&c.scene);
	CHECK(memory_settle() == fds);
	return 0;
}
