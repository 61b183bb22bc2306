// SPDX-License-Identifier: MIT
/*
 * Plans: options and tensors that are refused, sizes, tiles, frames of another kind, values by
 * hand.
 */
#include "ktap.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dlbuf/prepare.h>

#include "import/backend.h"
#include "prepare/prepare.h"
#include "system/fork.h"
#include "system/internal.h"
#include "system/sys.h"
#define CC DLBUF_FOURCC
#define DRM DLBUF_CODE_DRM
#define V4L2 DLBUF_CODE_V4L2

static const DLDataType types[] = {
	{ kDLFloat, 32, 1 }, { kDLUInt, 8, 1 },
};

static void ignore(DLManagedTensorVersioned *t)
{
	(void)t;
}

/* Options of one call. */
#define RUN_OPTS struct dlbuf_prepare_run_opts
#define RUN(...) (&(RUN_OPTS){ .size = sizeof(RUN_OPTS), __VA_ARGS__ })
#define OPTS(...) \
	{ .size = sizeof(struct dlbuf_prepare_opts), .width = 8, .height = 8, __VA_ARGS__ }

TEST(options_that_are_refused)
{
	static const struct {
		int ret;
		const char *why;
		struct dlbuf_prepare_opts o;
	} rows[] = {
		{ -EINVAL, "the rule exact needs width and height", { .size = sizeof(rows[0].o) } },
		{ -EINVAL, "width and height", { .size = sizeof(rows[0].o), .width = 8 } },
		{ -EINVAL, "the x of crop is -1; it can be 0 to 1000000000",
		  OPTS(.crop_x = -1, .crop_width = 4, .crop_height = 4) },
		{ -EINVAL, "not inside", OPTS(.crop_x = 15, .crop_width = 4, .crop_height = 4) },
		{ -EINVAL, "not inside", OPTS(.crop_width = 4) },
		{ -EINVAL, "not inside", OPTS(.crop_x = .5) },
		{ -EINVAL, "the width of crop is nan", OPTS(.crop_width = NAN, .crop_height = 4) },
		{ -EINVAL, "1/1024", OPTS(.crop_y = 1, .crop_width = 8, .crop_height = 1e-16) },
		{ -EINVAL, "1/1024", OPTS(.crop_x = 3, .crop_width = 1e-16, .crop_height = 4) },
		{ -EINVAL, "std", OPTS(.std = { 0, 5e-324 }) },
		{ -EINVAL, "quant_scale", OPTS(.quant_scale = 5e-324) },
		{ -EINVAL, "colour.range", OPTS(.colour.range = 9) },
		{ -EINVAL, "colour.chroma_site", OPTS(.colour.chroma_site = 99) },
		{ -EINVAL, "colour.hue", OPTS(.colour.hue = 3) },
		{ -EINVAL, "colour.reserved", OPTS(.colour.reserved = { 0, 1 }) },
		{ -EINVAL, "threads is 65; it can be 0 to 64", OPTS(.threads = 65) },
		{ -EINVAL, "threads is 4294967295; ", OPTS(.threads = UINT32_MAX) },
		{ -EINVAL, "zero_point is -2147483648; it can be -256 ",
		  OPTS(.zero_point = INT32_MIN) },
		{ -EINVAL, "the crop of 16.000000001x12 at 0.1,0 ",
		  OPTS(.crop_x = .1, .crop_width = 16 + 1e-9, .crop_height = 12) },
		{ -EINVAL, "crop_pct is 1.5; it can be 0.0009765625 to 1", OPTS(.crop_pct = 1.5) },
		{ -EINVAL, "crop_pct", OPTS(.crop_pct = NAN) },
		{ -EINVAL, "crop_pct", OPTS(.fit = DLBUF_FIT_CROP, .crop_pct = 1e-18) },
		{ -EINVAL, "1/1024", OPTS(.crop_height = 5) },
		{ -EINVAL, "both are 0, or none", { .size = sizeof(rows[0].o), .width = 8,
			.rule = DLBUF_SIZE_SCALED, .scaled_width = 3, .scaled_height = 3 } },
		{ -EINVAL, "32768", OPTS(.rule = DLBUF_SIZE_SHORTEST, .shortest = UINT32_MAX,
			.crop_width = 8, .crop_height = 1. / 1024) },
		{ -EINVAL, "rule is -1", OPTS(.rule = -1) },
		{ -EINVAL, "reserved is 1; it must be 0", OPTS(.reserved = 1) },
		{ -EINVAL, "scale", OPTS(.scale = INFINITY) },
		{ -EINVAL, "mean", OPTS(.mean = { 0, 0, NAN }) },
		{ -EINVAL, "std", OPTS(.std = { -1 }) },
		{ -EINVAL, "the colour of pad is 256", OPTS(.pad = { 0, 0, 256 }) },
		{ -EINVAL, "turn", OPTS(.turn = 4) },
		{ -EINVAL, "filter", OPTS(.filter = 6) },
		{ -EINVAL, "fit", OPTS(.fit = 3) },
		{ -EINVAL, "rule", OPTS(.rule = 6) },
		{ -EINVAL, "scaled_width", OPTS(.rule = DLBUF_SIZE_SCALED, .scaled_height = 3) },
		{ -EINVAL, "channels", OPTS(.channels = 3) },
		{ -EINVAL, "quant_scale", OPTS(.quant_scale = -1) },
		{ -EINVAL, "zero_point", OPTS(.zero_point = 1000) },
		{ -EINVAL, "flags", OPTS(.flags = 1u << 31) },
		{ -EINVAL, "dtype float64 ", OPTS(.dtype = { kDLFloat, 64, 1 }) },
		{ -EINVAL, "dtype", OPTS(.dtype = { kDLFloat, 32, 2 }) },
		{ -EINVAL, "shortest", OPTS(.rule = DLBUF_SIZE_SHORTEST) },
		{ -EINVAL, "longest", OPTS(.rule = DLBUF_SIZE_LONGEST) },
		{ -EINVAL, "shortest and longest", OPTS(.rule = DLBUF_SIZE_BOTH, .shortest = 3) },
		{ -EINVAL, "min_pixels", OPTS(.rule = DLBUF_SIZE_PIXELS) },
		{ -EINVAL, "min_pixels", OPTS(.rule = DLBUF_SIZE_PIXELS, .min_pixels = 9,
					      .max_pixels = 8) },
		{ -EINVAL, "32768", { .size = sizeof(rows[0].o), .width = 32769, .height = 8 } },
		{ -EINVAL, "32768", OPTS(.rule = DLBUF_SIZE_SHORTEST, .shortest = 32768) },
		{ -EOPNOTSUPP, "matrix", OPTS(.colour.matrix = 15) },
	};
	static const uint32_t codes[] = { CC('N','V','1','2'), CC('R','G','B','3'),
		CC('G','R','E','Y'), CC('B','A','8','1'), CC('p','B','A','A') };
	struct dlbuf_frame f = { .size = sizeof(f), .width = 16, .height = 12,
		.code = CC('N','V','1','2'), .code_space = DRM };
	struct dlbuf_prepare *plan = NULL;
	struct dlbuf_device *dev = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!CHECK_ERR(dlbuf_prepare_create(NULL, &f, &rows[i].o, &plan), rows[i].ret) ||
		    !CHECK(strstr(dlbuf_last_error(), rows[i].why)))
			ktap_note(NULL, 0, "row %zu, %s: %s", i, rows[i].why, dlbuf_last_error());
	}
	for (size_t i = 0; i < 2; i++) {
		struct dlbuf_prepare_opts o = OPTS(.fit = 0);

		f.colour.reserved[i] = 1;
		CHECK_ERR(dlbuf_prepare_create(NULL, &f, &o, &plan), -EINVAL);
		CHECK_SAYS("colour.reserved");
		f.colour.reserved[i] = 0;
	}
	CHECK(!plan);
	/* Only YUV needs the matrix. */
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		struct dlbuf_frame any = { .size = sizeof(any), .width = 16, .height = 12,
			.code = codes[i], .code_space = V4L2,
			.colour = { .primaries = 255, .transfer = 255, .matrix = 200 } };
		struct dlbuf_prepare_opts o = OPTS(.fit = 0);
		int ret = dlbuf_prepare_create(NULL, &any, &o, &plan);

		CHECK_EQ(ret, i ? 0 : -EOPNOTSUPP);
		if (!ret)
			dlbuf_prepare_destroy(plan);
	}
	CHECK_ERR_SAYS(dlbuf_prepare_create(NULL, NULL, &rows[0].o, &plan), -EINVAL, "frame is NULL");
	CHECK_ERR_SAYS(dlbuf_prepare_create(NULL, &f, NULL, &plan), -EINVAL, "opts is NULL");
	CHECK_ERR_SAYS(dlbuf_prepare_create(NULL, &f, &rows[0].o, NULL), -EINVAL, "plan is NULL");
	CHECK_ERR_SAYS(dlbuf_prepare_fastest(&f, NULL, 0, NULL, NULL, &dev), -EINVAL, "opts is NULL");
	dlbuf_prepare_destroy(NULL);
	CHECK_ERR(dlbuf_prepare_get_info(NULL, NULL), -EINVAL);
	f = (struct dlbuf_frame){ .size = sizeof(f), .width = 16, .height = 1,
		.code = CC('R','G','G','B'), .code_space = V4L2 };
	CHECK_ERR(dlbuf_prepare_create(NULL, &f, &rows[0].o, &plan), -EINVAL);
	CHECK_SAYS("a mosaic has 2x2");
}

TEST(formats_that_are_refused)
{
	static const struct {
		uint32_t code;
		int space;
		const char *why;
	} rows[] = {
		{ CC('M','J','P','G'), V4L2, "compressed" },
		{ CC('P','A','L','8'), V4L2, "palette" },
		{ CC('U','V','8',' '), V4L2, "no colours" }, { CC('a','R','A','8'), V4L2, "A-law" },
		{ CC('R','G','8','8'), DRM, "no colours" },
		{ CC('D','8',' ',' '), DRM, "no colours" },
		{ CC('Y','P','A','4'), DRM, "share bytes" },
	};
	struct dlbuf_prepare_opts o = OPTS(.fit = 0);
	struct dlbuf_prepare *plan;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlbuf_frame f = { .size = sizeof(f), .width = 16, .height = 12,
			.code = rows[i].code, .code_space = rows[i].space };

		if (!CHECK_ERR(dlbuf_prepare_create(NULL, &f, &o, &plan), -EOPNOTSUPP) ||
		    !CHECK(strstr(dlbuf_last_error(), rows[i].why)))
			ktap_note(NULL, 0, "%s: %s", rows[i].why, dlbuf_last_error());
	}
}

/* The producer's description of its frame. */
TEST(frames_that_are_refused)
{
	static const struct {
		uint32_t code;
		int space, ret;
		const char *why;
		struct dlbuf_rect crop;
		struct dlbuf_colour colour;
	} rows[] = {
		{ CC('N','V','1','2'), DRM, 0, "", { 2, 4, 7, 5 }, { 0 } },
		{ CC('N','V','1','2'), DRM, -EOPNOTSUPP, "1,0, inside a sample of plane 1",
		  { 1, 0, 8, 8 }, { 0 } },
		{ CC('N','V','1','2'), DRM, -EOPNOTSUPP, "0,3, inside a sample of plane 1",
		  { 0, 3, 8, 8 }, { 0 } },
		{ CC('Y','U','Y','V'), DRM, 0, "", { 2, 1, 8, 8 }, { 0 } },
		{ CC('Y','U','Y','V'), DRM, -EOPNOTSUPP, "1,1, inside a sample of plane 0",
		  { 1, 1, 8, 8 }, { 0 } },
		{ CC('R','G','G','B'), V4L2, 0, "", { 1, 1, 8, 8 }, { 0 } },
		{ CC('N','V','1','2'), DRM, -EINVAL, "colour.range is 3; ", { 0 }, { .range = 3 } },
		{ CC('N','V','1','2'), DRM, -EINVAL, "colour.range is 255; ", { 0 },
		  { .range = 255 } },
		{ CC('N','V','1','2'), DRM, -EINVAL, "colour.chroma_site is 7; ", { 0 },
		  { .chroma_site = 7 } },
		{ CC('H','S','V','3'), V4L2, -EINVAL, "colour.hue is 3; ", { 0 }, { .hue = 3 } },
		{ CC('N','V','1','2'), DRM, -EOPNOTSUPP, "matrix 14 ", { 0 }, { .matrix = 15 } },
	};
	struct dlbuf_prepare *plan;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlbuf_frame f = { .size = sizeof(f), .width = 16, .height = 12,
			.crop = rows[i].crop, .colour = rows[i].colour, .code = rows[i].code,
			.code_space = rows[i].space };
		struct dlbuf_prepare_opts o = OPTS(.fit = 0);
		int ret = dlbuf_prepare_create(NULL, &f, &o, &plan);

		if (!CHECK(ret == rows[i].ret) ||
		    (ret && !CHECK(strstr(dlbuf_last_error(), rows[i].why))))
			ktap_note(NULL, 0, "row %zu, %s: %s", i, rows[i].why, dlbuf_last_error());
		if (!ret)
			dlbuf_prepare_destroy(plan);
		/* Options are used instead. */
		o.colour = (struct dlbuf_colour){ .matrix = 2, .range = 1, .chroma_site = 1,
			.hue = 1 };
		ret = dlbuf_prepare_create(NULL, &f, &o, &plan);
		CHECK(!ret || rows[i].crop.width);
		if (!ret)
			dlbuf_prepare_destroy(plan);
	}
}

/* A picture of 16x12 pixels in memory. */
static uint8_t grey_pixels[12][16];
static DLManagedTensorVersioned grey = {
	.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
	.dl_tensor = { .data = grey_pixels, .ndim = 2, .device = { kDLCPU, 0 },
		.dtype = { kDLUInt, 8, 1 }, .shape = (int64_t[]){ 12, 16 } },
}, *grey_list[] = { &grey };
static const struct dlbuf_frame grey_frame = { .size = sizeof(grey_frame), .width = 16,
	.height = 12, .code = CC('G','R','E','Y'), .code_space = V4L2 };

#define ALL { .x = 0 }

TEST(crops_that_are_refused)
{
	static const struct {
		const char *why;
		struct dlbuf_crop crops[3];
		int64_t index;
		struct dlbuf_prepare_opts o;
	} rows[] = {
		{ "", { ALL, { 0, 0, 8, 8 }, { 15.5, 0, .5, 12 } }, 1,
		  OPTS(.crop_x = 1, .crop_width = 4, .crop_height = 4) },
		{ "crop 1: the crop of 8x8 at 8.5,0", { ALL, { 8.5, 0, 8, 8 } }, 0, OPTS() },
		{ "crop 2: ", { ALL, { 8, 4, 8, 8 }, { 0, 0, 4, 0 } }, 0, OPTS() },
		{ "crop 0: ", { { NAN, 0, 8, 8 } }, 0, OPTS() },
		{ "crop 0: ", { { 0, -1, 8, 8 } }, 0, OPTS() },
		{ "crop 2: image 4 of a tensor of 4", { ALL }, 2, OPTS() },
		/* A crop without an image is not read: the array may end before it. */
		{ "crop 2: image 4 of a tensor of 4", { ALL, ALL, { NAN, 0, 8, 8 } }, 2, OPTS() },
		{ "crop 0: image -1", { ALL }, -1, OPTS() },
		/* The shape of the result is the crop's. */
		{ "crop 1: the tensor's images are 3 x 8 x 8", { { 0, 0, 8, 8 }, { 0, 0, 8, 4 } },
		  0, { .size = sizeof(rows[0].o), .rule = DLBUF_SIZE_LONGEST, .longest = 8 } },
	};
	struct dlbuf_prepare_info infos[3] = { { .size = sizeof(infos[0]) } };
	static float memory[4 * 192];
	DLManagedTensorVersioned out = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = memory, .ndim = 4, .device = { kDLCPU, 0 },
			.dtype = types[0], .shape = (int64_t[]){ 4, 3, 8, 8 } },
	};
	const struct dlbuf_crop *crops = rows[0].crops;
	const struct dlbuf_prepare_run_opts no_size = { .index = 0 };
	const struct {
		const char *why;
		size_t size;
		const struct dlbuf_prepare_run_opts *opts;
		DLManagedTensorVersioned *out;
	} calls[] = {
		{ "crops is NULL, and ncrops is 1", 0, RUN(.ncrops = 1), &out },
		{ "ncrops is 0", 0, RUN(.crops = crops), &out },
		{ "the tensor is NULL", 0, RUN(.crops = crops, .ncrops = 1), NULL },
		{ "the tensor is NULL", 0, NULL, NULL },
		{ "a size of 0", 0, RUN(.crops = crops, .ncrops = 1, .infos = infos), &out },
		{ "a size of 0", 0, RUN(.infos = infos), &out },
		/* The infos after the first would not be aligned. */
		{ "a size of 13", 13, RUN(.crops = crops, .ncrops = 2, .infos = infos), &out },
		{ "struct dlbuf_prepare_run_opts has a size of 0", 0, &no_size, &out },
	};
	struct dlbuf_prepare *plan = NULL;

	memset(grey_pixels, 1, sizeof(grey_pixels));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool fine = !*rows[i].why;
		int ret;

		memset(memory, 0, sizeof(memory));
		dlbuf_prepare_destroy(plan);
		REQUIRE(!dlbuf_prepare_create(NULL, &grey_frame, &rows[i].o, &plan));
		ret = dlbuf_prepare_tensors(plan, grey_list, 1,
					    RUN(.crops = rows[i].crops, .ncrops = 3, .infos = infos,
						.index = rows[i].index), &out);
		if (!CHECK(ret == (fine ? 0 : -EINVAL)) ||
		    (ret && !CHECK(strstr(dlbuf_last_error(), rows[i].why) == dlbuf_last_error())))
			ktap_note(NULL, 0, "row %zu, %s: %s", i, rows[i].why, dlbuf_last_error());
		for (size_t k = 0; k < ARRAY_SIZE(memory); k++)
			CHECK(!memory[k] == (!fine || k < 192));
	}
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		infos[0].size = calls[i].size;
		CHECK_ERR(dlbuf_prepare_tensors(plan, grey_list, 1, calls[i].opts, calls[i].out),
			  -EINVAL);
		CHECK_SAYS(calls[i].why);
	}
	dlbuf_prepare_destroy(plan);
}

/* Processors whose sums have more bits than a double do not find them larger. */
TEST(crops_that_end_with_the_picture)
{
	struct dlbuf_frame f = grey_frame;
	struct dlbuf_prepare *plan;

	f.width = 640;
	f.height = 1;
	for (int i = 1; i < 600; i++) {
		struct dlbuf_prepare_opts o = OPTS(.crop_x = i / 1.001,
						   .crop_width = 640 - o.crop_x,
			.crop_y = i / 1001., .crop_height = 1 - o.crop_y);
		volatile double x = o.crop_x + o.crop_width, y = o.crop_y + o.crop_height;

		if (x > 640 || y > 1)
			continue;
		REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
		CHECK(plan->x[0].high <= 640 && plan->y[0].high <= 1);
		dlbuf_prepare_destroy(plan);
	}
}

/* One value has no next. */
TEST(strides_of_axes_of_one)
{
	static int64_t ones[] = { 1, 1, 1, 1 }, strides[] = { INT64_MAX, INT64_MAX, INT64_MIN,
		INT64_MAX };
	struct dlbuf_prepare_opts o = OPTS(.channels = DLBUF_CHANNELS_GREY, .scale = 1);
	struct dlbuf_frame f = grey_frame;
	DLManagedTensorVersioned from = grey, out = grey;
	float value = 0;
	struct dlbuf_prepare *plan;

	f.height = 1;
	o.width = o.height = 1;
	memset(grey_pixels, 7, sizeof(grey_pixels));
	from.dl_tensor.shape = (int64_t[]){ 1, 16 };
	from.dl_tensor.strides = (int64_t[]){ INT64_MAX, 1 };
	out.dl_tensor = (DLTensor){ .data = &value, .ndim = 4, .device = { kDLCPU, 0 },
		.dtype = types[0], .shape = ones, .strides = strides };
	REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
	CHECK(!dlbuf_prepare_tensors(plan, (DLManagedTensorVersioned *[]){ &from }, 1, NULL, &out));
	CHECK(value == 7);
	dlbuf_prepare_destroy(plan);
	/* A pixel of two bytes is no axis of one. */
	f = (struct dlbuf_frame){ .size = sizeof(f), .width = 1, .height = 1,
		.code = CC('R','5','A','8'), .code_space = DRM };
	from.dl_tensor.shape = (int64_t[]){ 1, 2 };
	from.dl_tensor.strides = (int64_t[]){ 2, 2 };
	REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
	CHECK_ERR(dlbuf_prepare_tensors(plan, (DLManagedTensorVersioned *[]){ &from, &from }, 2,
					NULL, &out), -EOPNOTSUPP);
	CHECK_SAYS("plane 0 are not rows");
	dlbuf_prepare_destroy(plan);
}

/* Every pixel is in a tile, each tile inside, and each shares enough with one before it. */
TEST(tiles_cover_the_picture)
{
	static const struct {
		uint32_t w, h, tile_w, tile_h, over_x, over_y, turn, n;
		int ret;
	} rows[] = {
		{ 100, 60, 32, 32, 8, 4, 0, 4 * 2, 0 }, { 100, 60, 33, 60, 32, 59, 0, 68, 0 },
		{ 16, 12, 0, 0, 0, 0, 0, 2 * 2, 0 }, { 16, 12, 0, 6, 1, 0, 1, 3 * 2, 0 },
		{ 16, 12, 40, 5, 3, 1, 0, 3, 0 }, { 15, 12, 15, 12, 3, 11, 0, 1, 0 },
		{ 17, 1, 16, 16, 0, 0, 0, 2, 0 }, { 16, 12, 8, 8, 8, 0, 0, 0, -EINVAL },
		{ 16, 12, 8, 8, 0, 9, 0, 0, -EINVAL },
		{ 70000, 70000, 8, 8, 7, 7, 0, 0, -EINVAL },
	};
	struct dlbuf_crop crops[80];
	struct dlbuf_prepare *plan;
	uint32_t n;

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		struct dlbuf_prepare_opts o = OPTS(.turn = rows[r].turn);
		uint32_t w = rows[r].w, h = rows[r].h, tw = rows[r].tile_w, th = rows[r].tile_h;
		struct dlbuf_frame f = grey_frame;
		static uint8_t seen[100][100];

		f.width = w;
		f.height = h;
		o.width = rows[r].turn ? 6 : 8;
		REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
		if (!CHECK(dlbuf_prepare_tiles(plan, tw, th, rows[r].over_x, rows[r].over_y, crops,
					       ARRAY_SIZE(crops), &n) == rows[r].ret) ||
					       rows[r].ret) {
			dlbuf_prepare_destroy(plan);
			continue;
		}
		CHECK_EQ(n, rows[r].n);
		tw = tw ? tw : 8;
		th = th ? th : rows[r].turn ? 6 : 8;
		memset(seen, 0, sizeof(seen));
		for (uint32_t i = 0; i < n; i++) {
			const struct dlbuf_crop *c = &crops[i];
			bool left = !c->x, top = !c->y;

			CHECK(c->width == fmin(tw, w) && c->height == fmin(th, h));
			REQUIRE(c->x >= 0 && c->y >= 0 && c->x + c->width <= w &&
				c->y + c->height <= h);
			for (uint32_t k = 0; k < i; k++) {
				left |= crops[k].y == c->y && crops[k].x < c->x &&
					crops[k].x + crops[k].width >= c->x + rows[r].over_x;
				top |= crops[k].x == c->x && crops[k].y < c->y &&
					crops[k].y + crops[k].height >= c->y + rows[r].over_y;
			}
			CHECK(left && top);
			for (uint32_t y = 0; y < c->height; y++)
				memset(&seen[(int)c->y + y][(int)c->x], 1, (size_t)c->width);
		}
		for (uint32_t y = 0; y < h; y++)
			CHECK(!memchr(seen[y], 0, w));
		n = 0;
		CHECK(!dlbuf_prepare_tiles(plan, tw, th, rows[r].over_x, rows[r].over_y, NULL,
					   0, &n));
		CHECK_EQ(n, rows[r].n);
		CHECK_ERR(dlbuf_prepare_tiles(plan, tw, th, rows[r].over_x, rows[r].over_y, crops,
					      n - 1, &n), -ENOSPC);
		dlbuf_prepare_destroy(plan);
	}
	CHECK_ERR(dlbuf_prepare_tiles(NULL, 1, 1, 0, 0, NULL, 0, &n), -EINVAL);
}

/* A plan refuses frames that differ from its own in anything but planes, fds and fences. */
TEST(frames_of_another_kind)
{
	static const struct {
		const char *what;
		struct dlbuf_frame f;
	} rows[] = {
#define ROW(what, ...) ROW_(what, __VA_ARGS__)
#define ROW_(what, w, h, c, space, ...)							\
	{ what, { .size = sizeof(rows[0].f), .width = w, .height = h, .code = c,		\
		  .code_space = space, __VA_ARGS__ } }
#define GREY 16, 12, CC('G','R','E','Y'), V4L2
		ROW("size", 16, 13, CC('G','R','E','Y'), V4L2),
			ROW("size", 18, 12, CC('G','R','E','Y'), V4L2),
		ROW("format", 16, 12, CC('Y','1','6',' '), V4L2),
		ROW("format", 16, 12, CC('G','R','E','Y'), DRM),
		ROW("modifier", GREY, .modifier = 1),
		ROW("colour", GREY, .colour.range = DLBUF_RANGE_FULL),
		ROW("orientation", GREY, .orientation = DLBUF_ORIENTATION_TRANSPOSE),
		ROW("crop", GREY, .crop = { 0, 0, 8, 12 }),
#undef GREY
#undef ROW_
#undef ROW
	};
	struct dlbuf_prepare_opts o = OPTS(.fit = 0);
	struct dlbuf_prepare *plan;
	struct dlbuf_frame other;
	struct dlbuf_device *dev;
	char want[64];

	REQUIRE(!dlbuf_device_open("cpu", NULL, &dev));
	REQUIRE(!dlbuf_prepare_create(dev, &grey_frame, &o, &plan));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(want, sizeof(want), "the frame has another %s:", rows[i].what);
		CHECK_ERR_SAYS(dlbuf_prepare_frame(plan, &rows[i].f, NULL, &grey), -EINVAL, want);
	}
	other = grey_frame;
	other.reserved = 1;
	CHECK_ERR(dlbuf_prepare_frame(plan, &other, NULL, &grey), -EINVAL);
	CHECK_SAYS("the frame's reserved is 0x1");
	other = grey_frame;
	other.colour.reserved[1] = 1;
	CHECK_ERR(dlbuf_prepare_frame(plan, &other, NULL, &grey), -EINVAL);
	CHECK_SAYS("the frame's colour.reserved is { 0, 1 }");
	dlbuf_prepare_destroy(plan);
	dlbuf_device_close(dev);
}

static void meet(const void *barrier, uint32_t i)
{
	sigset_t blocked;

	(void)i;
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	CHECK(!sigismember(&blocked, SIGBUS));
	pthread_barrier_wait(*(pthread_barrier_t *const *)barrier);
}

/* More parts than threads, each once; also of a child of fork(), which has no threads. */
static void count(const void *counts, uint32_t i)
{
	__atomic_add_fetch(&(*(unsigned int *const *)counts)[i], 1, __ATOMIC_RELAXED);
}

static void divide(struct prepare_threads *t)
{
	unsigned int counts[100] = { 0 }, *p = counts;

	prepare_divide(t, ARRAY_SIZE(counts), count, &p);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		CHECK_EQ(counts[i], 1);
}

/* Two threads use one plan. Returns how often the plan was free for this one. */
static void *use(void *data)
{
	float memory[192];
	DLManagedTensorVersioned out = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = memory, .ndim = 3, .device = { kDLCPU, 0 },
			.dtype = types[0], .shape = (int64_t[]){ 3, 8, 8 } },
	};
	uintptr_t done = 0;

	for (int i = 0; i < 300 || !done; i++) {
		int ret = dlbuf_prepare_tensors(data, grey_list, 1, NULL, &out);

		CHECK(!ret || ret == -EBUSY);
		done += !ret;
	}
	return (void *)done;
}

TEST(threads_of_a_plan)
{
	struct dlbuf_prepare_opts o = OPTS(.threads = 4);
	pthread_barrier_t barrier, *p = &barrier;
	static float memory[192];
	DLManagedTensorVersioned out = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = memory, .ndim = 3, .device = { kDLCPU, 0 },
			.dtype = types[0], .shape = (int64_t[]){ 3, 8, 8 } },
	};
	struct dlbuf_prepare *plan;
	struct dlbuf_device *dev;
	struct stat before, now;
	int status = -1;
	pthread_t other;
	void *done;
	pid_t pid;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE(!stat("/proc/self/task", &before));
	REQUIRE(!dlbuf_device_open("cpu", NULL, &dev));
	REQUIRE(!dlbuf_prepare_create(dev, &grey_frame, &o, &plan));
	/* TSan starts one of its own. */
	CHECK(KTAP_TSAN || (!stat("/proc/self/task", &now) && now.st_nlink == before.st_nlink + 3));
	/* Each part waits for the others. */
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 100; i++)
		prepare_divide(plan->threads, 4, meet, &p);
	pthread_barrier_destroy(&barrier);
	divide(plan->threads);
	/*
	 * During a call, and in two threads at once: with threads of its own, both would wait for
	 * ever.
	 */
	plan->busy = fork_generation + 1;
	CHECK_ERR(dlbuf_prepare_tensors(plan, grey_list, 1, NULL, &out), -EBUSY);
	CHECK_ERR(dlbuf_prepare_frame(plan, &grey_frame, NULL, &out), -EBUSY);
	plan->busy = 0;
	REQUIRE(!pthread_create(&other, NULL, use, plan));
	CHECK(use(plan));
	CHECK(!pthread_join(other, &done) && done);
	/* A call of the parent's thread goes on while the other one forks. */
	plan->busy = fork_generation + 1;
	pid = fork();
	if (!pid) {
		divide(plan->threads);
		status = dlbuf_prepare_tensors(plan, grey_list, 1, NULL, &out) ||
			dlbuf_prepare_frame(plan, &grey_frame, NULL, &out) != -ESTALE;
		dlbuf_prepare_destroy(plan);
		_exit(status);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_ERR(dlbuf_prepare_tensors(plan, grey_list, 1, NULL, &out), -EBUSY);
	plan->busy = 0;
	dlbuf_prepare_destroy(plan);
	dlbuf_device_close(dev);
	UNTIL(KTAP_TSAN || (!stat("/proc/self/task", &now) && now.st_nlink == before.st_nlink));
}

#ifdef CONFIG_FAULT_INJECTION
TEST(no_memory)
{
	static const struct dlbuf_crop crops[] = { { 0, 0, 2, 2 }, ALL };
	int64_t shape[] = { 2, 3, 8, 8 };
	static float memory[2 * 192];
	DLManagedTensorVersioned out = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = memory, .ndim = 4, .device = { kDLCPU, 0 },
			.dtype = types[0], .shape = shape },
	};
	struct dlbuf_frame f = { .size = sizeof(f), .width = 16, .height = 12,
		.code = CC('N','V','1','2'), .code_space = DRM };
	struct dlbuf_prepare_opts o = OPTS(.threads = 3);
	struct dlbuf_prepare *plan = NULL;
	unsigned long n = 0;
	int ret;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	do {
		fault_at(++n);
		ret = dlbuf_prepare_create(NULL, &f, &o, &plan);
		fault_at(0);
		CHECK(!ret || (ret == -ENOMEM && !plan));
	} while (ret == -ENOMEM);
	/* The plan, the axes of luma and of chroma, the rows, and two threads with their memory. */
	CHECK_EQ(n, 10);
	o.threads = 0;
	dlbuf_prepare_destroy(plan);
	/* Crops need a copy of the plan, two axes and rows; for the larger crop they grow. */
	o.filter = DLBUF_FILTER_AREA;
	n = 0;
	do {
		REQUIRE(!dlbuf_prepare_create(NULL, &grey_frame, &o, &plan));
		fault_at(++n);
		ret = dlbuf_prepare_tensors(plan, grey_list, 1,
					    RUN(.crops = crops, .ncrops = 2), &out);
		fault_at(0);
		CHECK(!ret || ret == -ENOMEM);
		CHECK(!dlbuf_prepare_tensors(plan, grey_list, 1,
					     RUN(.crops = crops, .ncrops = 2), &out));
		dlbuf_prepare_destroy(plan);
	} while (ret == -ENOMEM);
	CHECK_EQ(n, 8);
}
#endif

/* Each row changes a tensor that fits. */
TEST(tensors_that_are_refused)
{
	static const struct {
		int ret;
		const char *why;
		int ndim;
		int64_t shape[4], strides[4], index;
		DLDataType dtype;
		int device;
		uint64_t flags;
		uint32_t major;
	} rows[] = {
		{ 0, "", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, 0, 0, 0 },
		{ 0, "", 4, { 2, 3, 8, 8 }, { 0 }, 1, { 0 }, 0, 0, 0 },
		{ -EINVAL, "image 2", 4, { 2, 3, 8, 8 }, { 0 }, 2, { 0 }, 0, 0, 0 },
		{ -EINVAL, "image -1", 4, { 2, 3, 8, 8 }, { 0 }, -1, { 0 }, 0, 0, 0 },
		{ -EINVAL, "image 1", 3, { 3, 8, 8 }, { 0 }, 1, { 0 }, 0, 0, 0 },
		{ -EINVAL, "C, H, W", 3, { 8, 8, 3 }, { 0 }, 0, { 0 }, 0, 0, 0 },
		{ -EINVAL, "dimensions", 2, { 8, 8 }, { 0 }, 0, { 0 }, 0, 0, 0 },
		{ -EOPNOTSUPP, "is uint8, the plan's float32", 3, { 3, 8, 8 }, { 0 }, 0,
		  { kDLUInt, 8, 1 }, 0, 0, 0 },
		{ -EOPNOTSUPP, "on another device (2 of DLPack)", 3, { 3, 8, 8 }, { 0 }, 0, { 0 },
		  kDLCUDA, 0, 0 }, { 0, "", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, kDLCUDAHost, 0, 0 },
		{ 0, "", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, kDLROCMHost, 0, 0 },
		{ 0, "", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, kDLTPUHost, 0, 0 },
		{ 0, "", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, kDLCUDAManaged, 0, 0 },
		{ -EACCES, "read-only", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, 0,
		  DLPACK_FLAG_BITMASK_READ_ONLY, 0 },
		{ -EPROTO, "DLPack", 3, { 3, 8, 8 }, { 0 }, 0, { 0 }, 0, 0, 9 },
		{ -EOPNOTSUPP, "one place", 3, { 3, 8, 8 }, { 0, 8, 1 }, 0, { 0 }, 0, 0, 0 },
		{ -EOPNOTSUPP, "one place", 3, { 3, 8, 8 }, { 64, 7, 1 }, 0, { 0 }, 0, 0, 0 },
		{ -EOPNOTSUPP, "one place", 3, { 3, 8, 8 }, { INT64_MIN, 8, 1 }, 0, { 0 },
		  0, 0, 0 },
		{ -EOPNOTSUPP, "one place", 4, { 2, 3, 8, 8 }, { 1, 64, 8, 1 }, 1, { 0 }, 0, 0, 0 },
		{ -EOPNOTSUPP, "one place", 4, { 2, 3, 8, 8 }, { 191, 64, 8, 1 }, 1, { 0 },
		  0, 0, 0 }, { 0, "", 3, { 3, 8, 8 }, { 1, 24, 3 }, 0, { 0 }, 0, 0, 0 },
		{ 0, "", 3, { 3, 8, 8 }, { -64, -8, -1 }, 0, { 0 }, 0, 0, 0 },
	};
	struct dlbuf_frame f = { .size = sizeof(f), .width = 16, .height = 12,
		.code = CC('B','G','2','4'), .code_space = DRM };
	struct dlbuf_prepare_opts o = OPTS(.fit = 0);
	static float memory[3 * 192];
	static uint8_t pixels[16 * 12 * 3];
	int64_t picture[] = { 12, 16, 3 };
	DLManagedTensorVersioned from = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = pixels, .ndim = 3, .device = { kDLCPU, 0 },
			.dtype = { kDLUInt, 8, 1 }, .shape = picture },
	}, *planes[] = { &from };
	struct dlbuf_prepare *plan, *bits;

	REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t shape[4], strides[4];
		DLManagedTensorVersioned t = {
			.version = { rows[i].major ? rows[i].major : DLPACK_MAJOR_VERSION, 0 },
			.flags = rows[i].flags, .deleter = ignore,
			.dl_tensor = { .data = memory + 192, .ndim = rows[i].ndim,
				.device = { rows[i].device ? rows[i].device : kDLCPU, 0 },
				.dtype = rows[i].dtype.bits ? rows[i].dtype : types[0],
				.shape = shape, .strides = rows[i].strides[2] ? strides : NULL },
		};
		int ret;

		memcpy(shape, rows[i].shape, sizeof(shape));
		memcpy(strides, rows[i].strides, sizeof(strides));
		memset(memory, 0, sizeof(memory));
		pixels[0] = 1;
		ret = dlbuf_prepare_tensors(plan, planes, 1, RUN(.index = rows[i].index), &t);
		if (!CHECK(ret == rows[i].ret) ||
		    (ret && !CHECK(strstr(dlbuf_last_error(), rows[i].why))))
			ktap_note(NULL, 0, "row %zu, %s: %s", i, rows[i].why, dlbuf_last_error());
		for (size_t k = 0; ret && k < ARRAY_SIZE(memory); k++)
			CHECK(!memory[k]);
	}
	DLManagedTensorVersioned over = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = memory, .ndim = 3, .device = { kDLCPU, 0 },
			.dtype = types[0], .shape = (int64_t[]){ 3, 8, 8 } },
	};
	static const struct {
		int ret;
		const char *why;
		int ndim;
		int64_t shape[3], strides[3];
		DLDataType dtype;
		int device;
	} plane_rows[] = {
		{ 0, "", 3, { 12, 16, 3 }, { -48, 3, 1 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ 0, "", 3, { 12, 16, 3 }, { 0 }, { kDLUInt, 8, 1 }, kDLCUDAHost },
		{ 0, "", 3, { 12, 16, 3 }, { 0 }, { kDLUInt, 8, 1 }, kDLROCMHost },
		{ 0, "", 3, { 12, 16, 3 }, { 0 }, { kDLUInt, 8, 1 }, kDLTPUHost },
		{ 0, "", 3, { 12, 16, 3 }, { 0 }, { kDLUInt, 8, 1 }, kDLCUDAManaged },
		{ -EINVAL, "shape", 3, { 12, 15, 3 }, { 0 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ -EINVAL, "shape", 3, { 11, 16, 3 }, { 0 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ -EINVAL, "shape", 3, { 12, 16, 4 }, { 0 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ -EINVAL, "shape", 2, { 12, 16 }, { 0 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ -EOPNOTSUPP, "rows", 3, { 12, 16, 3 }, { 64, 4, 1 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ -EOPNOTSUPP, "rows", 3, { 12, 16, 3 }, { 48, 3, 2 }, { kDLUInt, 8, 1 }, kDLCPU },
		{ -EOVERFLOW, "far apart", 3, { 12, 16, 3 }, { INT64_MAX / 2, 3, 1 },
		  { kDLUInt, 8, 1 }, kDLCPU },
		{ -EOVERFLOW, "far apart", 3, { 12, 16, 3 }, { INT64_MIN, 3, 1 }, { kDLUInt, 8, 1 },
		  kDLCPU },
		{ -EOPNOTSUPP, "is int8x2, not uint8", 3, { 12, 16, 3 }, { 0 }, { kDLInt, 8, 2 },
		  kDLCPU },
		{ -EOPNOTSUPP, "on another device (7 of DLPack)", 3, { 12, 16, 3 }, { 0 },
		  { kDLUInt, 8, 1 }, kDLVulkan },
	};

	for (size_t i = 0; i < ARRAY_SIZE(plane_rows); i++) {
		int64_t strides[3];

		memcpy(picture, plane_rows[i].shape, sizeof(picture));
		memcpy(strides, plane_rows[i].strides, sizeof(strides));
		from.dl_tensor.data = plane_rows[i].strides[0] < 0 ? pixels + 11 * 48 : pixels;
		from.dl_tensor.ndim = plane_rows[i].ndim;
		from.dl_tensor.strides = strides[1] ? strides : NULL;
		from.dl_tensor.dtype = plane_rows[i].dtype;
		from.dl_tensor.device.device_type = plane_rows[i].device;
		int ret = dlbuf_prepare_tensors(plan, planes, 1, NULL, &over);

		if (!CHECK(ret == plane_rows[i].ret) ||
		    (ret && !CHECK(strstr(dlbuf_last_error(), plane_rows[i].why))))
			ktap_note(NULL, 0, "plane %zu, %s: %s", i, plane_rows[i].why,
				  dlbuf_last_error());
	}
	/* Rows of bytes: those of a pixel, and padding. */
	f.code = CC('R','5','A','8');
	from.dl_tensor = (DLTensor){ .data = pixels, .ndim = 2, .shape = picture,
		.device = { kDLCPU, 0 }, .dtype = { kDLUInt, 8, 1 } };
	REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &bits));
	picture[0] = 12;
	picture[1] = 33;
	CHECK(!dlbuf_prepare_tensors(bits, (DLManagedTensorVersioned *[]){ &from, &from }, 2, NULL,
				     &over));
	picture[1] = 31;
	CHECK_ERR(dlbuf_prepare_tensors(bits, (DLManagedTensorVersioned *[]){ &from, &from }, 2,
					NULL, &over), -EINVAL);
	dlbuf_prepare_destroy(bits);
	picture[1] = 16;
	from.dl_tensor = (DLTensor){ .data = (char *)(memory + 191) + 3, .ndim = 3,
		.shape = picture, .device = { kDLCPU, 0 }, .dtype = { kDLUInt, 8, 1 } };
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EOPNOTSUPP);
	CHECK(strstr(dlbuf_last_error(), "overlaps"));
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 2, NULL, &over), -EINVAL);
	from.dl_tensor.data = NULL;
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EINVAL);
	from.dl_tensor.data = pixels;
	from.dl_tensor.shape = NULL;
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EINVAL);
	from.dl_tensor.shape = (int64_t[]){ 12, 16, 3 };
	from.dl_tensor.strides = (int64_t[]){ INT64_MAX / 2, 3, 1 };
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EOVERFLOW);
	from.dl_tensor.strides = NULL;
	over.dl_tensor.byte_offset = 2;
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EOPNOTSUPP);
	CHECK_SAYS("4 bytes, and the first begins 2 bytes behind");
	over.dl_tensor.byte_offset = 0;
	over.dl_tensor.data = NULL;
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EINVAL);
	over.dl_tensor.shape = NULL;
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EINVAL);
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, NULL), -EINVAL);
	planes[0] = NULL;
	CHECK_ERR(dlbuf_prepare_tensors(plan, planes, 1, NULL, &over), -EINVAL);
	CHECK_ERR(dlbuf_prepare_tensors(plan, NULL, 1, NULL, &over), -EINVAL);
	CHECK_ERR(dlbuf_prepare_frame(plan, &f, NULL, &over), -EINVAL);
	CHECK_ERR(dlbuf_prepare_frame(NULL, &f, NULL, &over), -EINVAL);
	dlbuf_prepare_destroy(plan);
}

/* A sample that is no number, or beyond a half's, is one pixel. */
TEST(floats_without_a_value)
{
	static const struct {
		uint16_t sample;
		float value;
	} rows[] = { { 0x7e00, 0 }, { 0x7c00, 1 }, { 0xfc00, 0 }, { 0x7bff, 1 } };
	struct dlbuf_frame f = { .size = sizeof(f), .width = 5, .height = 3,
		.code = CC('R',' ',' ','H'), .code_space = DRM };

	for (size_t r = 0; r < ARRAY_SIZE(rows) * 6; r++) {
		struct dlbuf_prepare_opts o = OPTS(.filter = r % 6,
						   .channels = DLBUF_CHANNELS_GREY);
		uint16_t pixels[3][5];
		float out[3][5], value = rows[r / 6].value;
		DLManagedTensorVersioned from = {
			.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
			.dl_tensor = { .data = pixels, .ndim = 2, .device = { kDLCPU, 0 },
				.dtype = { kDLFloat, 16, 1 }, .shape = (int64_t[]){ 3, 5 } },
		}, to = from;
		struct dlbuf_prepare *plan;

		for (int i = 0; i < 15; i++)
			pixels[i / 5][i % 5] = i == 7 ? rows[r / 6].sample : 0x3400;
		to.dl_tensor.data = out;
		to.dl_tensor.ndim = 3;
		to.dl_tensor.dtype = (DLDataType){ kDLFloat, 32, 1 };
		to.dl_tensor.shape = (int64_t[]){ 1, 3, 5 };
		o.width = 5;
		o.height = 3;
		REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
		REQUIRE(!dlbuf_prepare_tensors(plan, (DLManagedTensorVersioned *[]){ &from }, 1,
					       NULL, &to));
		for (int i = 0; i < 15; i++)
			if (!CHECK(fabs((double)out[i / 5][i % 5] - (i == 7 ? value : .25)) < 1e-5))
				ktap_note(NULL, 0, "filter %zu, sample 0x%x, pixel %d: %g", r % 6,
					  rows[r / 6].sample, i, (double)out[i / 5][i % 5]);
		dlbuf_prepare_destroy(plan);
	}
}

/* Samples of 16 bits are taken whole: a mosaic's sums of them are not cut. */
TEST(mosaic_of_large_samples)
{
	uint16_t pixels[4][24], samples[] = { 0, 1023, 0x3fff, 0x4000, 0xffff };
	struct dlbuf_frame f = { .size = sizeof(f), .width = 24, .height = 4,
		.code = CC('B','A','1','0'), .code_space = DLBUF_CODE_V4L2 };
	struct dlbuf_prepare_opts o = OPTS(.flags = 0);
	DLManagedTensorVersioned from = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = pixels, .ndim = 2, .device = { kDLCPU, 0 },
			.dtype = { kDLUInt, 16, 1 }, .shape = (int64_t[]){ 4, 24 } },
	}, to = from;
	float out[3][4][24];
	DLManagedTensorVersioned *planes[] = { &from };
	struct dlbuf_prepare *plan;

	to.dl_tensor.data = out;
	to.dl_tensor.ndim = 3;
	to.dl_tensor.dtype = (DLDataType){ kDLFloat, 32, 1 };
	to.dl_tensor.shape = (int64_t[]){ 3, 4, 24 };
	o.width = 24;
	o.height = 4;
	REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
	for (size_t k = 0; k < ARRAY_SIZE(samples); k++) {
		for (int i = 0; i < 4 * 24; i++)
			pixels[i / 24][i % 24] = samples[k];
		REQUIRE(!dlbuf_prepare_tensors(plan, planes, 1, NULL, &to));
		for (int i = 0; i < 3 * 4 * 24; i++)
			CHECK(fabs((double)out[i / 96][i / 24 % 4][i % 24] - (k ? 1 : 0)) < 1e-5);
	}
	dlbuf_prepare_destroy(plan);
}

/* All 256 values by hand: ONNX's QuantizeLinear, and the identity of H.273. */
TEST(values_by_hand)
{
	static const struct {
		uint32_t code;
		struct dlbuf_prepare_opts o;
	} rows[] = {
		{ CC('B','G','2','4'), OPTS(.flags = DLBUF_PREPARE_NHWC | DLBUF_PREPARE_EXACT,
					    .dtype = { kDLUInt, 8, 1 }, .quant_scale = 2,
					    .zero_point = 1) },
		{ CC('V','U','2','4'), OPTS(.flags = DLBUF_PREPARE_NHWC | DLBUF_PREPARE_EXACT,
					    .dtype = { kDLUInt, 8, 1 },
					    .colour = { .matrix = 1, .range = DLBUF_RANGE_FULL },
					    .channels = DLBUF_CHANNELS_GREY) },
		/* A copy, in fixed point, too. */
		{ CC('B','G','2','4'),
		  OPTS(.flags = DLBUF_PREPARE_NHWC, .dtype = { kDLUInt, 8, 1 }) },
	};
	uint8_t pixels[256][3], out[256][3];

	for (int i = 0; i < 256; i++)
		for (int c = 0; c < 3; c++)
			pixels[i][c] = i * (c + 1);
	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		struct dlbuf_frame f = { .size = sizeof(f), .width = 256, .height = 1,
			.code = rows[r].code, .code_space = DRM };
		struct dlbuf_prepare_opts o = rows[r].o;
		int64_t n = r == 1 ? 1 : 3;
		DLManagedTensorVersioned from = {
			.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
			.dl_tensor = { .data = pixels, .ndim = 3, .device = { kDLCPU, 0 },
				.dtype = types[1], .shape = (int64_t[]){ 1, 256, 3 } },
		}, to = from;
		struct dlbuf_prepare *plan;

		to.dl_tensor.data = out;
		to.dl_tensor.shape = (int64_t[]){ 1, 256, n };
		o.width = 256;
		o.height = 1;
		REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
		REQUIRE(!dlbuf_prepare_tensors(plan, (DLManagedTensorVersioned *[]){ &from }, 1,
					       NULL, &to));
		for (int i = 0; i < 256 && !r; i++)
			for (int c = 0; c < 3; c++)
				CHECK_EQ(out[i][c], fmin(nearbyint(pixels[i][c] / 2.) + 1, 255));
		/* Y, U and V are G, B and R. */
		for (int i = 0; i < 256 && r == 1; i++)
			CHECK(fabs(((uint8_t *)out)[i] -
				   (.299 * pixels[i][2] + .587 * pixels[i][0] +
				    .114 * pixels[i][1])) < .501);
		CHECK(r != 2 || !memcmp(out, pixels, sizeof(out)));
		dlbuf_prepare_destroy(plan);
	}
}

/* The transform goes back: a place of the tensor is where its pixel came from. */
TEST(places_of_the_tensor_map_to_the_frame)
{
	for (uint32_t turn = 0; turn < 4; turn++) {
		for (uint32_t flip = 0; flip < 4; flip++) {
			struct dlbuf_prepare_opts o = OPTS(.fit = DLBUF_FIT_LETTERBOX, .turn = turn,
				.filter = DLBUF_FILTER_NEAREST, .scale = 1);
			struct dlbuf_frame f = { .size = sizeof(f), .width = 16, .height = 12,
				.code = CC('G','R','E','Y'), .code_space = V4L2 };
			struct dlbuf_prepare_info info = { .size = sizeof(info) };
			uint8_t pixels[12][16];
			float out[32][32];
			struct dlbuf_prepare *plan;
			DLManagedTensorVersioned t = {
				.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
				.dl_tensor = { .data = out, .ndim = 3, .device = { kDLCPU, 0 },
					.dtype = types[0], .shape = (int64_t[]){ 1, 32, 32 } },
			};

			DLManagedTensorVersioned from = {
				.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
				.dl_tensor = { .data = pixels, .ndim = 2, .device = { kDLCPU, 0 },
					.dtype = types[1], .shape = (int64_t[]){ 12, 16 } },
			};

			for (int i = 0; i < 12 * 16; i++)
				pixels[i / 16][i % 16] = i + 1;
			o.width = o.height = 32;
			o.flags = flip * DLBUF_PREPARE_FLIP_X;
			o.channels = DLBUF_CHANNELS_GREY;
			REQUIRE(!dlbuf_prepare_create(NULL, &f, &o, &plan));
			REQUIRE(!dlbuf_prepare_get_info(plan, &info));
			REQUIRE(!dlbuf_prepare_tensors(plan,
						       (DLManagedTensorVersioned *[]){ &from }, 1,
						       NULL, &t));
			for (int y = 0; y < 32; y++) {
				for (int x = 0; x < 32; x++) {
					double u, v;

					dlbuf_prepare_map(&info, x + .5, y + .5, &u, &v);
					if (u < 0 || v < 0 || u >= 16 || v >= 12)
						CHECK(out[y][x] == 0);
					else
						CHECK(lrintf(out[y][x]) == pixels[(int)v][(int)u]);
				}
			}
			dlbuf_prepare_destroy(plan);
		}
	}
}

/* A pixel of the upright picture, x, y, by where it is in a stored one of w x h. */
static void stored_place(int orientation, int w, int h, int x, int y, int *sx, int *sy)
{
	const int places[8][2] = {
		[DLBUF_ORIENTATION_NONE] = { x, y },
		[DLBUF_ORIENTATION_TURN_90] = { y, h - 1 - x },
		[DLBUF_ORIENTATION_TURN_180] = { w - 1 - x, h - 1 - y },
		[DLBUF_ORIENTATION_TURN_270] = { w - 1 - y, x },
		[DLBUF_ORIENTATION_FLIP_X] = { w - 1 - x, y },
		[DLBUF_ORIENTATION_TRANSPOSE] = { y, x },
		[DLBUF_ORIENTATION_FLIP_Y] = { x, h - 1 - y },
		[DLBUF_ORIENTATION_TRANSVERSE] = { w - 1 - y, h - 1 - x },
	};

	*sx = places[orientation][0];
	*sy = places[orientation][1];
}

/* Prepares a picture of bytes into out, and gets the plan's description. */
static void prepare_grey(const uint8_t *pixels, int w, int h, int orientation,
			 const struct dlbuf_prepare_opts *o, float *out,
			 struct dlbuf_prepare_info *info)
{
	struct dlbuf_frame f = { .size = sizeof(f), .width = w, .height = h,
		.orientation = orientation, .code = CC('G','R','E','Y'), .code_space = V4L2 };
	DLManagedTensorVersioned from = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = (void *)pixels, .ndim = 2, .device = { kDLCPU, 0 },
			.dtype = types[1], .shape = (int64_t[]){ h, w } },
	}, t = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
		.dl_tensor = { .data = out, .ndim = 3, .device = { kDLCPU, 0 }, .dtype = types[0] },
	};
	struct dlbuf_prepare *plan;

	*info = (struct dlbuf_prepare_info){ .size = sizeof(*info) };
	REQUIRE_OK(dlbuf_prepare_create(NULL, &f, o, &plan));
	REQUIRE_OK(dlbuf_prepare_get_info(plan, info));
	t.dl_tensor.shape = (int64_t[]){ 1, info->height, info->width };
	REQUIRE(info->width * info->height <= 32 * 32);
	CHECK(!dlbuf_prepare_tensors(plan, (DLManagedTensorVersioned *[]){ &from }, 1, NULL, &t));
	dlbuf_prepare_destroy(plan);
}

/* The tensor of a frame with an orientation is that of the upright picture without one. */
TEST(orientations)
{
	static const struct dlbuf_prepare_opts rows[] = {
		{ .size = sizeof(rows[0]), .width = 24, .height = 20 },
		{ .size = sizeof(rows[0]), .width = 24, .height = 20, .fit = DLBUF_FIT_LETTERBOX },
		{ .size = sizeof(rows[0]), .width = 20, .height = 24, .fit = DLBUF_FIT_LETTERBOX,
			.flags = DLBUF_PREPARE_TOP_LEFT },
		{ .size = sizeof(rows[0]), .width = 11, .height = 9, .fit = DLBUF_FIT_CROP,
		  .crop_pct = .875 },
		{ .size = sizeof(rows[0]), .rule = DLBUF_SIZE_SHORTEST, .shortest = 9 },
		{ .size = sizeof(rows[0]), .rule = DLBUF_SIZE_LONGEST, .longest = 30, .width = 32,
		  .height = 16 },
		{ .size = sizeof(rows[0]), .rule = DLBUF_SIZE_BOTH, .shortest = 20, .longest = 21 },
		{ .size = sizeof(rows[0]), .rule = DLBUF_SIZE_PIXELS, .min_pixels = 300,
		  .multiple = 4 },
		{ .size = sizeof(rows[0]), .rule = DLBUF_SIZE_SCALED, .scaled_width = 13,
		  .scaled_height = 7 },
	};
	enum { W = 16, H = 12 };
	uint8_t stored[H * W], upright[H * W];
	static float got[32 * 32], want[32 * 32];

	for (int i = 0; i < H * W; i++)
		stored[i] = i * 2654435761u >> 13;
	/* The turns, flips and crops of the caller in the bits of k. */
	for (size_t i = 0; i < 8 * ARRAY_SIZE(rows) * 32; i++) {
		int orientation = i % 8, k = i / 8 % 32, w = orientation & 1 ? H : W,
			h = orientation & 1 ? W : H;
		struct dlbuf_prepare_opts o = rows[i / 8 / 32], crop;
		struct dlbuf_prepare_info a, b;
		double u, v, uu, vv;
		int x, y, bad = 0;

		for (int j = 0; j < H * W; j++) {
			stored_place(orientation, W, H, j % w, j / w, &x, &y);
			upright[j] = stored[y * W + x];
		}
		o.channels = DLBUF_CHANNELS_GREY;
		o.turn = k % 4;
		o.flags |= k / 4 % 4 * DLBUF_PREPARE_FLIP_X;
		crop = o;
		if (k / 16) {
			/* 9x7 pixels of the upright picture; the crop is of the stored one. */
			o.crop_x = 3, o.crop_y = 2, o.crop_width = 9, o.crop_height = 7;
			stored_place(orientation, W, H, 3, 2, &x, &y);
			stored_place(orientation, W, H, 11, 8, &w, &h);
			crop.crop_x = x < w ? x : w;
			crop.crop_y = y < h ? y : h;
			crop.crop_width = abs(x - w) + 1;
			crop.crop_height = abs(y - h) + 1;
		}
		prepare_grey(upright, orientation & 1 ? H : W, orientation & 1 ? W : H, 0, &o,
			     want, &b);
		prepare_grey(stored, W, H, orientation, &crop, got, &a);
		CHECK(a.width == b.width && a.height == b.height && a.left == b.left &&
		      a.top == b.top);
		CHECK(a.scaled_width == b.scaled_width && a.scaled_height == b.scaled_height);
		for (uint32_t j = 0; j < a.width * a.height; j++)
			bad += !(fabsf(got[j] - want[j]) <= 1e-5f);
		for (uint32_t j = 0; j < a.width * a.height; j++) {
			dlbuf_prepare_map(&a, j % a.width + .5, j / a.width + .5, &u, &v);
			dlbuf_prepare_map(&b, j % a.width + .5, j / a.width + .5, &uu, &vv);
			const double places[8][2] = {
				{ uu, vv }, { vv, H - uu }, { W - uu, H - vv }, { W - vv, uu },
				{ W - uu, vv }, { vv, uu }, { uu, H - vv }, { W - vv, H - uu },
			};

			bad += !(fabs(u - places[orientation][0]) < 1e-9 &&
				 fabs(v - places[orientation][1]) < 1e-9);
		}
		if (!CHECK(!bad))
			ktap_note(NULL, 0,
				  "orientation %d, row %zu, turn %d, flips %d, crop %d: %d values",
				  orientation, i / 8 / 32, k % 4, k / 4 % 4, k / 16, bad);
	}
}

TEST(sizes_by_the_rules)
{
	static const struct {
		uint32_t w, h, want_w, want_h, scaled_w, scaled_h;
		int32_t left, top;
		struct dlbuf_prepare_opts o;
	} rows[] = {
#define RULE(...) { .size = sizeof(struct dlbuf_prepare_opts), __VA_ARGS__ }
		{ 1920, 1080, 640, 640, 640, 360, 0, 140,
		  RULE(.width = 640, .height = 640, .fit = 1) },
		{ 1920, 1080, 640, 640, 640, 360, 0, 0, RULE(.width = 640, .height = 640, .fit = 1,
							     .flags = DLBUF_PREPARE_TOP_LEFT) },
		{ 320, 240, 640, 640, 320, 240, 160, 200,
		  RULE(.width = 640, .height = 640, .fit = 1, .flags = DLBUF_PREPARE_NO_ENLARGE) },
		{ 1000, 667, 224, 224, 335, 224, -55, 0,
		  RULE(.width = 224, .height = 224, .fit = 2) },
		/* 77 * 61.124 / 5.782 is 814 in doubles, and less with more bits. */
		{ 259, 7, 73, 77, 814, 77, -370, 0, RULE(.width = 73, .height = 77, .fit = 2,
							 .crop_x = 197.876,
			.crop_width = 61.123999999999995, .crop_y = 1.218, .crop_height = 5.782) },
		/* timm: 224 / .875 = 256; torchvision's resize of 256 makes 341 of 1000 x 750 */
		{ 1000, 750, 224, 224, 341, 256, -58, -16,
		  RULE(.width = 224, .height = 224, .fit = 2, .crop_pct = .875) },
		{ 640, 480, 341, 256, 341, 256, 0, 0,
		  RULE(.rule = DLBUF_SIZE_SHORTEST, .shortest = 256) },
		{ 640, 480, 256, 192, 256, 192, 0, 0,
		  RULE(.rule = DLBUF_SIZE_LONGEST, .longest = 256) },
		{ 1920, 480, 1333, 333, 1333, 333, 0, 0,
		  RULE(.rule = DLBUF_SIZE_BOTH, .shortest = 800, .longest = 1333) },
		/* Qwen2-VL's smart_resize(height, width, 28, 56 * 56, 14 * 14 * 4 * 1280) */
		{ 1920, 1080, 1316, 728, 1316, 728, 0, 0,
		  RULE(.rule = DLBUF_SIZE_PIXELS, .multiple = 28, .min_pixels = 3136,
		       .max_pixels = 1003520) },
		{ 40, 30, 84, 56, 84, 56, 0, 0, RULE(.rule = DLBUF_SIZE_PIXELS, .multiple = 28,
						     .min_pixels = 3136, .max_pixels = 1003520) },
		/* sqrt(82944 / 50176), rounded otherwise, makes it 112x448. */
		{ 144, 576, 98, 434, 98, 434, 0, 0, RULE(.rule = DLBUF_SIZE_PIXELS, .multiple = 14,
							 .max_pixels = 50176) },
		/* A side under half a multiple: transformers makes it larger, to min_pixels. */
		{ 50, 3, 18, 6, 18, 6, 0, 0, RULE(.rule = DLBUF_SIZE_PIXELS, .multiple = 6,
						  .max_pixels = 22) },
		{ 50, 3, 48, 6, 48, 6, 0, 0, RULE(.rule = DLBUF_SIZE_PIXELS, .multiple = 6,
						  .max_pixels = 288) },
		{ 50, 3, 42, 6, 42, 6, 0, 0, RULE(.rule = DLBUF_SIZE_PIXELS, .multiple = 6,
						  .min_pixels = 100, .max_pixels = 150) },
		/* torchvision: 11 / 2 is rounded to 6, and 105 / 2 to 52 */
		{ 1000, 700, 224, 224, 329, 235, -52, -6,
		  RULE(.rule = DLBUF_SIZE_SCALED, .scaled_width = 329, .scaled_height = 235,
		       .width = 224, .height = 224, .flags = DLBUF_PREPARE_CUT_ROUND) },
		{ 1000, 700, 224, 224, 335, 235, -55, -5,
		  RULE(.rule = DLBUF_SIZE_SCALED, .scaled_width = 335, .scaled_height = 235,
		       .width = 224, .height = 224) },
		{ 640, 480, 256, 192, 256, 192, 0, 0,
		  RULE(.rule = DLBUF_SIZE_SCALED, .scaled_width = 256, .scaled_height = 192) },
		{ 640, 480, 224, 224, 298, 224, -37, 0,
		  RULE(.rule = DLBUF_SIZE_SHORTEST, .shortest = 224, .width = 224, .height = 224) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlbuf_frame f = { .size = sizeof(f), .width = rows[i].w, .height = rows[i].h,
			.code = CC('B','G','2','4'), .code_space = DRM };
		struct dlbuf_prepare_info info = { .size = sizeof(info) };
		struct dlbuf_prepare *plan;

		REQUIRE(!dlbuf_prepare_create(NULL, &f, &rows[i].o, &plan));
		REQUIRE(!dlbuf_prepare_get_info(plan, &info));
		if (!CHECK(info.width == rows[i].want_w && info.height == rows[i].want_h &&
			   info.scaled_width == rows[i].scaled_w && info.left == rows[i].left &&
			   info.scaled_height == rows[i].scaled_h && info.top == rows[i].top))
			ktap_note(NULL, 0, "row %zu: %ux%u, scaled %ux%u at %d,%d", i, info.width,
				  info.height, info.scaled_width, info.scaled_height, info.left,
				  info.top);
		dlbuf_prepare_destroy(plan);
	}
}

KTAP_MAIN()
