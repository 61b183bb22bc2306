// SPDX-License-Identifier: MIT
/*
 * prepare: the cost of making a model's input from a decoded frame in memory, by dlbuf and
 * by the libraries that programs in C and C++ use: libyuv with a loop to floats, zimg,
 * OpenCV. bench/media/prepare.py has the usual code in Python, for the same cases.
 *
 *	prepare time [CASE...]		nanoseconds of the CPU, the best of many
 *	prepare count [CASE...]		instructions, under qemu-user with bench/media/counter.c
 *	prepare list [CASE...]		the cases, for prepare.py
 *
 * CASE is a pattern of names, as the shell's. bench/media/count builds it, runs it on each
 * machine and prints the ratios. The loops are built by gcc -O3; one also for x86-64-v3.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include <libyuv.h>
#include <opencv2/core/version.hpp>
#include <zimg.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/prepare.h>

#include "../bench.h"
#include "counter.h"
#include "prepare.h"

#define TRIES 400
#define LEAST 15
#define ENOUGH 300000000		/* nanoseconds for a peer of a case */
#define FRAMES 5			/* of a call */
#define CC DLBUF_FOURCC
#define TILES (-1)
#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

static const struct kind {
	const char *name;
	uint32_t code;
	int nplanes;
	struct {
		int sub;		/* pixels for a group: along both axes, or across */
		int values;		/* in a group */
	} planes[3];
	int bytes;			/* of a value */
	bool in_a_row;			/* no subsampling of rows */
} kinds[] = {
	[NV12] = { "NV12", CC('N', 'V', '1', '2'), 2, { { 1, 1 }, { 2, 2 } }, 1, false },
	[P010] = { "P010", CC('P', '0', '1', '0'), 2, { { 1, 1 }, { 2, 2 } }, 2, false },
	[I420] = { "I420", CC('Y', 'U', '1', '2'), 3, { { 1, 1 }, { 2, 1 }, { 2, 1 } }, 1, false },
	[YUYV] = { "YUYV", CC('Y', 'U', 'Y', 'V'), 1, { { 2, 4 } }, 1, true },
	[XRGB] = { "XRGB", CC('X', 'R', '2', '4'), 1, { { 1, 4 } }, 1, true },
	[RGB] = { "RGB", CC('B', 'G', '2', '4'), 1, { { 1, 3 } }, 1, true },
	[BAYER] = { "Bayer8", CC('R', 'G', 'G', 'B'), 1, { { 1, 1 } }, 1, true },
	[BAYER10] = { "Bayer10", CC('R', 'G', '1', '0'), 1, { { 1, 1 } }, 2, true },
};

#define HD 1920, 1080
#define UHD 3840, 2160
#define BOX 640, 640
#define U8 true
#define F32 false
static struct work works[] = {
#define CASE(n, kind, ...) { .name = n, .format = kind, __VA_ARGS__ }
	CASE("bayer-640-u8", BAYER, HD, BOX, U8, .letterbox = true),
	CASE("bayer-same-u8", BAYER, HD, HD, U8),
	CASE("bayer10-640-f32", BAYER10, HD, BOX, F32, .letterbox = true),
	CASE("xrgb-640-u8", XRGB, HD, BOX, U8, .letterbox = true),
	CASE("xrgb-640-f32", XRGB, HD, BOX, F32, .letterbox = true),
	CASE("xrgb-same-u8", XRGB, BOX, BOX, U8),
	CASE("yuyv-640-u8", YUYV, 1280, 720, BOX, U8, .letterbox = true),
	CASE("yuyv-640-f32", YUYV, 1280, 720, BOX, F32, .letterbox = true),
	CASE("yuyv-same-u8", YUYV, 640, 480, 640, 480, U8),
	CASE("nv12-same-u8", NV12, BOX, BOX, U8),
	CASE("nv12-same-f32", NV12, BOX, BOX, F32),
	CASE("nv12-640-u8", NV12, HD, BOX, U8, .letterbox = true),
	CASE("nv12-640-u8-stretch", NV12, HD, BOX, U8),
	CASE("nv12-300-u8-stretch", NV12, 640, 480, 300, 300, U8),
	CASE("nv12-4k-640-u8", NV12, UHD, BOX, U8, .letterbox = true),
	CASE("nv12-640-f32", NV12, HD, BOX, F32, .letterbox = true),
	CASE("nv12-608x342-f32", NV12, HD, 608, 342, F32),
	CASE("nv12-224-f32-normalised", NV12, HD, 224, 224, F32, .normalised = true),
	CASE("nv12-224-f32-triangle", NV12, HD, 224, 224, F32, .filter = DLBUF_FILTER_TRIANGLE),
	CASE("nv12-crops-u8", NV12, HD, 112, 112, U8, .crops = 64),
	CASE("nv12-crops-f32", NV12, HD, 112, 112, F32, .crops = 64),
	CASE("nv12-tiles-f32", NV12, HD, BOX, F32, .crops = TILES),
	CASE("p010-640-f32", P010, UHD, BOX, F32, .letterbox = true),
	CASE("rgb-640-u8", RGB, HD, BOX, U8),
	CASE("rgb-640-f32", RGB, HD, BOX, F32),
	CASE("i420-640-f32-triangle", I420, HD, BOX, F32, .filter = DLBUF_FILTER_TRIANGLE),
	CASE("i420-640-f32-cubic", I420, HD, BOX, F32, .filter = DLBUF_FILTER_CUBIC),
	CASE("i420-640-f32-lanczos3", I420, HD, BOX, F32, .filter = DLBUF_FILTER_LANCZOS3),
	CASE("rgb-640-f32-triangle", RGB, HD, BOX, F32, .filter = DLBUF_FILTER_TRIANGLE),
	CASE("rgb-640-f32-cubic", RGB, HD, BOX, F32, .filter = DLBUF_FILTER_CUBIC),
	CASE("rgb-640-u8-triangle", RGB, HD, BOX, U8, .filter = DLBUF_FILTER_TRIANGLE),
	CASE("rgb-640-u8-cubic", RGB, HD, BOX, U8, .filter = DLBUF_FILTER_CUBIC),
};

static const double mean[3] = { .485, .456, .406 }, deviation[3] = { .229, .224, .225 };
static bool timed;

static void *memory(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		err(1, "memory");
	memset(p, 0, bytes);
	return p;
}

/* ---------------------------------------------------------------- dlbuf */

static struct dlbuf_prepare *plan;
static DLManagedTensorVersioned planes[3], image;
static DLManagedTensorVersioned *plane_of[3] = { &planes[0], &planes[1], &planes[2] };
static int64_t shapes[4][4];
static struct dlbuf_crop *crops;

static DLManagedTensorVersioned tensor(void *data, int64_t *shape, int ndim, int code, int bytes)
{
	return (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.dl_tensor = { .data = data, .device = { kDLCPU, 0 }, .ndim = ndim, .shape = shape,
			       .dtype = { code, bytes * 8, 1 } },
	};
}

/* A smooth picture, for which the libraries' results are about equal. */
static void fill(void *plane, int width, int height, int values, int scale, int bytes)
{
	for (int i = 0; i < width * height * values; i++) {
		int v = 100 + i / values % width * 40 / width + i / values / width * 30 / height;

		if (bytes == 1)
			((uint8_t *)plane)[i] = v;
		else
			((uint16_t *)plane)[i] = v * scale;
	}
}

static bool make_plan(struct work *w)
{
	DLBUF_OPTS(dlbuf_frame, frame, .width = w->width, .height = w->height,
		   .code = kinds[w->format].code,
		   .code_space = w->format >= BAYER ? DLBUF_CODE_V4L2 : DLBUF_CODE_DRM);
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = w->out_width, .height = w->out_height,
		   .fit = w->letterbox ? DLBUF_FIT_LETTERBOX : DLBUF_FIT_STRETCH,
		   .pad = { 114, 114, 114 }, .filter = w->filter);

	if (w->bytes) {
		opts.dtype = (DLDataType){ kDLUInt, 8, 1 };
		opts.flags = DLBUF_PREPARE_NHWC;
	}
	if (w->normalised) {
		memcpy(opts.mean, mean, sizeof(mean));
		memcpy(opts.std, deviation, sizeof(deviation));
	}
	dlbuf_prepare_destroy(plan);
	if (dlbuf_prepare_create(NULL, &frame, &opts, &plan))
		errx(1, "%s: %s", w->name, dlbuf_last_error());
	return true;
}

static void make(struct work *w)
{
	const struct kind *k = &kinds[w->format];
	DLBUF_INFO(dlbuf_prepare_info, info);
	uint32_t n = w->crops > 0 ? w->crops : 1;

	make_plan(w);
	if (dlbuf_prepare_get_info(plan, &info))
		errx(1, "%s: %s", w->name, dlbuf_last_error());
	if (w->crops == TILES && dlbuf_prepare_tiles(plan, 0, 0, 0, 0, NULL, 0, &n))
		errx(1, "%s: %s", w->name, dlbuf_last_error());
	w->images = n;
	crops = memory(n * sizeof(*crops));
	w->sources = memory(n * sizeof(*w->sources));
	w->picture = (struct rect){ info.left, info.top, info.scaled_width, info.scaled_height };
	if (w->crops == TILES && dlbuf_prepare_tiles(plan, 0, 0, 0, 0, crops, n, &n))
		errx(1, "%s: %s", w->name, dlbuf_last_error());
	for (uint32_t i = 0; i < n; i++) {
		/* Boxes of 80 to 204 x 120 to 244, even, as libyuv's chroma requires. */
		if (w->crops > 0)
			crops[i] = (struct dlbuf_crop){ i % 8 * 200, i / 8 * 100, 80 + i % 32 * 4,
							120 + i * 7 % 32 * 4 };
		else if (!w->crops)
			crops[i] = (struct dlbuf_crop){ 0, 0, w->width, w->height };
		w->sources[i] =
			(struct rect){ crops[i].x, crops[i].y, crops[i].width, crops[i].height };
	}
	for (int i = 0; i < k->nplanes; i++) {
		int width = w->width / k->planes[i].sub, values = k->planes[i].values;
		int height = w->height / (k->in_a_row ? 1 : k->planes[i].sub);

		w->planes[i] = memory((size_t)width * height * values * k->bytes);
		fill(w->planes[i], width, height, values, w->format == BAYER10 ? 4 : 256, k->bytes);
		memcpy(shapes[i], (int64_t[]){ height, width, values }, sizeof(int64_t[3]));
		planes[i] = tensor(w->planes[i], shapes[i], values == 1 ? 2 : 3, kDLUInt, k->bytes);
	}
	w->out = memory((size_t)n * w->out_width * w->out_height * 3 * (w->bytes ? 1 : 4));
	memcpy(shapes[3], w->bytes ? (int64_t[]){ n, w->out_height, w->out_width, 3 } :
	       (int64_t[]){ n, 3, w->out_height, w->out_width }, sizeof(shapes[3]));
	image = tensor(w->out, shapes[3], 4, w->bytes ? kDLUInt : kDLFloat, w->bytes ? 1 : 4);
	for (int c = 0; c < 3; c++) {
		double full = w->format == BAYER10 ? 1023 : 255;

		w->factor[c] = 1 / full / (w->normalised ? deviation[c] : 1);
		w->offset[c] = w->normalised ? -mean[c] / deviation[c] : 0;
	}
}

static void destroy(struct work *w)
{
	for (int i = 0; i < 3; i++)
		free(w->planes[i]);
	free(w->out);
	free(w->sources);
	free(crops);
}

static bool by_dlbuf(struct work *w)
{
	int n = kinds[w->format].nplanes;
	DLBUF_OPTS(dlbuf_prepare_run_opts, opts, .crops = crops, .ncrops = w->images);

	if (dlbuf_prepare_tensors(plan, plane_of, n, w->crops ? &opts : NULL, &image))
		errx(1, "%s: %s", w->name, dlbuf_last_error());
	return true;
}

/* ---------------------------------------------------------------- libyuv */

/* A row of pixels to three rows of floats, as a compiler makes it fast. */
static inline __attribute__((always_inline)) void
to_floats(const uint8_t *restrict rgb, float *restrict r, float *restrict g, float *restrict b,
	  int n, const float *factor, const float *offset)
{
	const float m[3] = { factor[0], factor[1], factor[2] };
	const float a[3] = { offset[0], offset[1], offset[2] };

	for (int i = 0; i < n; i++) {
		r[i] = rgb[i * 3] * m[0] + a[0];
		g[i] = rgb[i * 3 + 1] * m[1] + a[1];
		b[i] = rgb[i * 3 + 2] * m[2] + a[2];
	}
}

#define LOOP(name)                                                                                 \
	static __attribute__((noinline)) void name(const uint8_t *rgb, float *r, float *g,         \
						   float *b, int n, const float *factor,           \
						   const float *offset)                            \
	{                                                                                          \
		to_floats(rgb, r, g, b, n, factor, offset);                                        \
	}
LOOP(any_loop)
#ifdef __x86_64__
__attribute__((target("arch=x86-64-v3")))
LOOP(avx2_loop)
#endif

static uint8_t *scratch(int i, size_t size)
{
	static struct {
		uint8_t *p;
		size_t size;
	} kept[8];

	if (kept[i].size < size) {
		free(kept[i].p);
		kept[i].p = memory(size);
		kept[i].size = size;
	}
	return kept[i].p;
}

/* A part of the frame as RGB. libyuv calls that RAW, and its YUV is BT.601 of limited range. */
static void picture_of(const struct work *w, const struct rect *r, uint8_t *rgb, int stride)
{
	const int width = r->width, height = r->height;
	const int sw = w->picture.width, sh = w->picture.height;
	const enum FilterMode filter = w->filter ? kFilterBox : kFilterBilinear;
	const bool same = width == sw && height == sh;
	const size_t size = (size_t)sw * sh;
	const uint8_t *p[3];
	int pitch[3], status = 0;

	for (int i = 0; i < kinds[w->format].nplanes; i++) {
		const struct kind *k = &kinds[w->format];
		int sub = k->planes[i].sub, group = k->planes[i].values * k->bytes;

		pitch[i] = w->width / sub * group;
		p[i] = w->planes[i] + r->y / (k->in_a_row ? 1 : sub) * pitch[i] +
		       r->x / sub * group;
	}
	switch (w->format) {
	case YUYV: {
		uint8_t *y = scratch(0, (size_t)width * height);
		uint8_t *uv = scratch(1, (size_t)width * height);

		status = YUY2ToNV12(p[0], pitch[0], y, width, uv, width, width, height);
		p[0] = y;
		p[1] = uv;
		pitch[0] = pitch[1] = width;
		goto nv12;
	}
	case P010:
		/* To bytes first: libyuv scales no rows of pairs of 16 bits. */
		for (int i = 0; i < 2; i++) {
			uint8_t *to = scratch(i, (size_t)width * height);

			Convert16To8Plane((const uint16_t *)p[i], pitch[i] / 2, to, width, 256,
					  width, height / (i + 1));
			p[i] = to;
			pitch[i] = width;
		}
		goto nv12;
	case NV12: nv12:
		if (!same) {
			uint8_t *y = scratch(2, size), *uv = scratch(3, size);

			status = NV12Scale(p[0], pitch[0], p[1], pitch[1], width, height, y, sw, uv,
					   sw, sw, sh, filter);
			p[0] = y;
			p[1] = uv;
			pitch[0] = pitch[1] = sw;
		}
		status |= NV12ToRAW(p[0], pitch[0], p[1], pitch[1], rgb, stride, sw, sh);
		break;
	default:
		if (!same) {
			uint8_t *to = scratch(2, size * 4);

			status = ARGBScale(p[0], pitch[0], width, height, to, sw * 4, sw, sh,
					   filter);
			p[0] = to;
			pitch[0] = sw * 4;
		}
		status |= ARGBToRAW(p[0], pitch[0], rgb, stride, sw, sh);
	}
	if (status)
		errx(1, "%s: libyuv failed", w->name);
}

static void grey(float *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = 114 / 255.f;
}

static bool libyuv_and(struct work *w, typeof(any_loop) *loop)
{
	const int width = w->out_width, height = w->out_height, top = w->picture.y;
	const int end = top + w->picture.height, n = w->picture.width;
	const size_t pixels = (size_t)width * height;

	if (w->format == I420 || w->format >= RGB || w->filter > DLBUF_FILTER_TRIANGLE)
		return false;
	for (int i = 0; i < w->images; i++) {
		if (w->bytes) {
			uint8_t *out = (uint8_t *)w->out + i * pixels * 3;

			memset(out, 114, (size_t)top * width * 3);
			memset(out + (size_t)end * width * 3, 114,
			       (size_t)(height - end) * width * 3);
			picture_of(w, &w->sources[i], out + (size_t)top * width * 3, width * 3);
			continue;
		}
		uint8_t *rgb = scratch(4, pixels * 3);
		float *out = (float *)w->out + i * pixels * 3;

		picture_of(w, &w->sources[i], rgb, n * 3);
		for (int c = 0; c < 3; c++) {
			grey(out + c * pixels, (size_t)top * width);
			grey(out + c * pixels + (size_t)end * width,
			     (size_t)(height - end) * width);
		}
		for (int row = 0; row < w->picture.height; row++) {
			float *to = out + (size_t)(top + row) * width;

			loop(rgb + (size_t)row * n * 3, to, to + pixels, to + pixels * 2, n,
			     w->factor, w->offset);
		}
	}
	return true;
}

static bool by_libyuv(struct work *w)
{
	return libyuv_and(w, any_loop);
}

static bool by_libyuv_avx2(struct work *w)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2") && !w->bytes && libyuv_and(w, avx2_loop);
#else
	(void)w;
	return false;
#endif
}

/* ---------------------------------------------------------------- zimg */

static bool by_zimg(struct work *w)
{
	static zimg_filter_graph *graph;
	static const struct work *of;
	static void *tmp;
	zimg_image_buffer_const from = { .version = ZIMG_API_VERSION };
	zimg_image_buffer to = { .version = ZIMG_API_VERSION };

	if (w->format != I420)
		return false;
	if (of != w) {
		zimg_image_format in, out;
		zimg_graph_builder_params params;
		size_t size;

		zimg_image_format_default(&in, ZIMG_API_VERSION);
		zimg_image_format_default(&out, ZIMG_API_VERSION);
		zimg_graph_builder_params_default(&params, ZIMG_API_VERSION);
		in.width = w->width;
		in.height = w->height;
		in.pixel_type = ZIMG_PIXEL_BYTE;
		in.subsample_w = in.subsample_h = 1;
		in.color_family = ZIMG_COLOR_YUV;
		in.matrix_coefficients = ZIMG_MATRIX_BT470_BG;
		in.pixel_range = ZIMG_RANGE_LIMITED;
		out.width = w->out_width;
		out.height = w->out_height;
		out.pixel_type = ZIMG_PIXEL_FLOAT;
		out.color_family = ZIMG_COLOR_RGB;
		out.matrix_coefficients = ZIMG_MATRIX_RGB;
		params.resample_filter = w->filter == DLBUF_FILTER_TRIANGLE ? ZIMG_RESIZE_BILINEAR :
					 w->filter == DLBUF_FILTER_CUBIC ? ZIMG_RESIZE_BICUBIC :
					 ZIMG_RESIZE_LANCZOS;
		params.filter_param_a = w->filter == DLBUF_FILTER_CUBIC ? 0 : 3;
		params.filter_param_b = .5;
		params.resample_filter_uv = params.resample_filter;
		params.filter_param_a_uv = params.filter_param_a;
		params.filter_param_b_uv = params.filter_param_b;
		params.cpu_type = ZIMG_CPU_AUTO;
		zimg_filter_graph_free(graph);
		graph = zimg_filter_graph_build(&in, &out, &params);
		if (!graph || zimg_filter_graph_get_tmp_size(graph, &size))
			errx(1, "%s: zimg failed", w->name);
		free(tmp);
		tmp = memory(size);
		of = w;
	}
	for (int i = 0; i < 3; i++) {
		from.plane[i].data = w->planes[i];
		from.plane[i].stride = w->width / (i ? 2 : 1);
		from.plane[i].mask = to.plane[i].mask = ZIMG_BUFFER_MAX;
		to.plane[i].data = (float *)w->out + (size_t)i * w->out_width * w->out_height;
		to.plane[i].stride = w->out_width * sizeof(float);
	}
	if (zimg_filter_graph_process(graph, &from, &to, tmp, NULL, NULL, NULL, NULL))
		errx(1, "%s: zimg failed", w->name);
	return true;
}

/* ---------------------------------------------------------------- figures */

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Instructions so far. */
static uint64_t counted(void)
{
	static int fds[2];
	uint64_t n;

	if (!fds[1] && pipe2(fds, O_NONBLOCK))
		err(1, "pipe2");
	syscall(SYS_getppid, COUNTER, fds[1]);
	if (read(fds[0], &n, sizeof(n)) != sizeof(n))
		errx(1, "no plugin counts here: see bench/media/count");
	return n;
}

static uint64_t measure(struct work *w, bool (*fn)(struct work *w))
{
	uint64_t times[TRIES], sum = 0, t;
	int n = 0;

	if (!timed) {
		uint64_t cost = counted();

		cost = counted() - cost;
		t = counted();
		fn(w);
		return counted() - t - cost;
	}
	for (; n < TRIES && (n < LEAST || sum < ENOUGH); sum += times[n++]) {
		t = cpu_time();
		fn(w);
		times[n] = cpu_time() - t;
	}
	return minimum(times, n);
}

static const char *const filters[] = {
	"bilinear", "nearest", "area", "triangle", "cubic", "lanczos3",
};

static const char *title(const struct work *w)
{
	static char text[160];
	const char *parts = w->crops == TILES ? "tiles to " : w->crops ? "64 crops to " : "to ";
	int n = snprintf(text, sizeof(text), "%dx%d, %s, %s", w->width, w->height,
			 kinds[w->format].name, parts);

	if (w->letterbox)
		n += snprintf(text + n, sizeof(text) - n, "%dx%d in ", w->picture.width,
			      w->picture.height);
	snprintf(text + n, sizeof(text) - n, "%dx%d, %s, %s%s", w->out_width, w->out_height,
		 filters[w->filter], w->bytes ? "uint8, NHWC" : "float32, NCHW",
		 w->normalised ? ", mean and std" : "");
	return text;
}

static const struct {
	const char *name;
	bool (*fn)(struct work *w);
} peers[] = {
	{ "dlbuf", by_dlbuf },
	{ "dlbuf, its plan, once", make_plan },
	{ "libyuv " TEXT(LIBYUV_VERSION), by_libyuv },
	{ "libyuv " TEXT(LIBYUV_VERSION) ", AVX2 loop", by_libyuv_avx2 },
	{ "OpenCV " CV_VERSION ", C++", by_opencv },
	{ "zimg", by_zimg },
};

/*
 * QEMU 7.2 computes wrong values with AVX2 for dlbuf's kernel at 4K; the counts are right.
 * QEMU 10 and processors compute the other libraries' values.
 */
static bool emulated_avx2(void)
{
#ifdef __x86_64__
	return !timed && __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

/* The mean difference of the result from dlbuf's, in units of 1/255. */
static double difference(const struct work *w, const void *dlbuf, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += w->bytes ? abs(((uint8_t *)dlbuf)[i] - ((uint8_t *)w->out)[i]) :
		       fabsf(((float *)dlbuf)[i] - ((float *)w->out)[i]) / w->factor[0];
	return sum / n * (w->format == BAYER10 ? 255 / 1023. : 1);
}

static void run(struct work *w)
{
	size_t n = (size_t)w->images * w->out_width * w->out_height * 3;
	size_t bytes = n * (w->bytes ? 1 : 4);
	void *dlbuf = memory(bytes);

	for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++) {
		if (!peers[i].fn(w))
			continue;
		if (!i)
			memcpy(dlbuf, w->out, bytes);
		if (peers[i].fn != make_plan && difference(w, dlbuf, n) > 4 && !emulated_avx2())
			errx(1, "%s: the result of %s differs by %.1f of 255 on average", w->name,
			     peers[i].name, difference(w, dlbuf, n));
		printf("%s\t%s\t%s\t%llu\n", w->name, title(w), peers[i].name,
		       (unsigned long long)measure(w, peers[i].fn));
		fflush(stdout);
		memset(w->out, 0, bytes);
	}
	free(dlbuf);
}

int main(int argc, char **argv)
{
	bool list = argc > 1 && !strcmp(argv[1], "list"), any = false;

	timed = argc > 1 && !strcmp(argv[1], "time");
	if (argc < 2 || (!list && !timed && strcmp(argv[1], "count")))
		errx(2, "usage: prepare time|count|list [CASE...]");
	for (struct work *w = works; w < works + sizeof(works) / sizeof(*works); w++) {
		bool wanted = argc == 2;

		for (int i = 2; i < argc; i++)
			wanted |= !fnmatch(argv[i], w->name, 0);
		if (!wanted)
			continue;
		any = true;
		make(w);
		if (list)
			printf("%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", w->name, title(w),
			       kinds[w->format].name, filters[w->filter], w->width, w->height,
			       w->out_width, w->out_height, w->bytes, w->picture.height, w->crops);
		else
			run(w);
		destroy(w);
	}
	if (!any)
		errx(1, "no such case; prepare list shows all");
	return 0;
}
