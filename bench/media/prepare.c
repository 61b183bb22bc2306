// SPDX-License-Identifier: MIT
/*
 * prepare: what a model's input costs of a decoded frame in memory: dlbuf's, and libyuv's
 * with a loop to floats, which is the best that programs in C do today. The same work as
 * bench/media/prepare.py, with what people write in Python.
 *
 *	bench/prepare		in the lab: the CPU time of this process, under -icount instructions
 *	bench/prepare time	on a machine: nanoseconds of the CPU, the best of many; and with
 *				threads, those of a clock
 *
 * The loops are built with the library's own flags; one also for x86-64-v3.
 */
#include <string.h>

#include <libyuv.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/prepare.h>

#include "../bench.h"

#define FRAMES 5
#define TRIES 200
#define CC DLBUF_FOURCC
#define NV12 CC('N', 'V', '1', '2')
#define RGB CC('B', 'G', '2', '4')

static bool timed, wall;
static const char *unit = "cpu";

static uint64_t cpu_time(void)
{
	struct timespec t;

	if (wall)
		return now();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *memory(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		err(1, "memory");
	memset(p, 0, bytes);
	return p;
}

/* A picture, and what becomes of it. */
struct work {
	const char *table;
	uint32_t code, width, height;
	struct dlbuf_prepare_opts opts;
	uint32_t scaled_width, scaled_height;	/* of the picture in the tensor, for libyuv */
	uint8_t *planes[2];
	void *out;
	bool fast;				/* the loop for x86-64-v3 */
	/* libyuv's */
	uint8_t *narrow[2], *scaled[2], *rgb;
	/* dlbuf's */
	struct dlbuf_prepare *plan;
	DLManagedTensorVersioned tensors[3];
	int64_t shapes[3][3];
};

static bool is_packed(const struct work *w)
{
	return w->opts.flags & DLBUF_PREPARE_NHWC;
}

static unsigned int value_bytes(const struct work *w)
{
	return w->code == CC('P', '0', '1', '0') ? 2 : 1;
}

static void describe(struct work *w, uint32_t i, uint8_t bits, bool floats, void *data, int ndim)
{
	w->tensors[i] = (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.dl_tensor = {
			.data = data, .device = { kDLCPU, 0 }, .ndim = ndim,
			.dtype = { floats ? kDLFloat : kDLUInt, bits, 1 }, .shape = w->shapes[i],
		},
	};
}

static void make_plan(struct work *w)
{
	DLBUF_OPTS(dlbuf_frame, frame, .width = w->width, .height = w->height, .code = w->code,
		   .code_space = DLBUF_CODE_DRM);

	dlbuf_prepare_destroy(w->plan);
	if (dlbuf_prepare_create(NULL, &frame, &w->opts, &w->plan))
		errx(1, "%s", dlbuf_last_error());
}

static void make(struct work *w)
{
	const uint32_t n = w->width * w->height, bytes = value_bytes(w);
	const int64_t ow = w->opts.width, oh = w->opts.height;
	uint32_t seed = 1;

	for (int i = 0; i < 2; i++) {
		w->planes[i] = memory(n * bytes * (w->code == RGB ? 3 : 1));
		w->narrow[i] = memory(n);
		w->scaled[i] = memory(n);
		for (uint32_t j = 0; j < n * bytes * (w->code == RGB ? 3 : 1); j++)
			w->planes[i][j] = (seed = seed * 1664525 + 1013904223) >> 24;
	}
	w->rgb = memory(n * 3);
	w->out = memory(ow * oh * 3 * sizeof(float));
	make_plan(w);
	memcpy(w->shapes, (int64_t[3][3]){
		{ w->height, w->width, 3 }, { w->height / 2, w->width / 2, 2 },
		{ is_packed(w) ? oh : 3, is_packed(w) ? ow : oh, is_packed(w) ? 3 : ow } },
	       sizeof(w->shapes));
	describe(w, 0, bytes * 8, false, w->planes[0], w->code == RGB ? 3 : 2);
	describe(w, 1, bytes * 8, false, w->planes[1], 3);
	describe(w, 2, is_packed(w) ? 8 : 32, !is_packed(w), w->out, 3);
}

static void by_dlbuf(struct work *w)
{
	DLManagedTensorVersioned *planes[] = { &w->tensors[0], &w->tensors[1] };

	if (dlbuf_prepare_tensors(w->plan, planes, w->code == RGB ? 1 : 2, &w->tensors[2], 0, 0))
		errx(1, "%s", dlbuf_last_error());
}

/* What a compiler makes fast: three rows of bytes to three planes of floats, or of bytes. */
static inline __attribute__((always_inline)) void
to_floats(const uint8_t *restrict rgb, float *restrict r, float *restrict g,
		      float *restrict b, int n)
{
	for (int i = 0; i < n; i++) {
		r[i] = rgb[i * 3] * (1 / 255.f);
		g[i] = rgb[i * 3 + 1] * (1 / 255.f);
		b[i] = rgb[i * 3 + 2] * (1 / 255.f);
	}
}

static __attribute__((noinline)) void to_floats_here(const uint8_t *rgb, float *r, float *g,
						     float *b, int n)
{
	to_floats(rgb, r, g, b, n);
}

#ifdef __x86_64__
__attribute__((target("arch=x86-64-v3")))
#endif
static __attribute__((noinline)) void to_floats_v3(const uint8_t *rgb, float *r, float *g,
						   float *b, int n)
{
	to_floats(rgb, r, g, b, n);
}

static void by_libyuv(struct work *w)
{
	const int width = w->width, height = w->height, sw = w->scaled_width, sh = w->scaled_height;
	const int ow = w->opts.width, oh = w->opts.height;
	const int left = (ow - sw) / 2, top = (oh - sh) / 2;
	uint8_t *y = w->planes[0], *uv = w->planes[1];
	float *out = w->out;

	if (value_bytes(w) == 2) {
		/* To bytes first: libyuv scales no rows of pairs of 16 bits. */
		Convert16To8Plane((uint16_t *)y, width, w->narrow[0], width, 256, width, height);
		Convert16To8Plane((uint16_t *)uv, width, w->narrow[1], width, 256, width, height / 2);
		y = w->narrow[0];
		uv = w->narrow[1];
	}
	if (NV12Scale(y, width, uv, width, width, height, w->scaled[0], sw, w->scaled[1], sw, sw, sh,
		      kFilterBilinear))
		errx(1, "NV12Scale");
	if (is_packed(w)) {
		memset(out, 114, (size_t)ow * oh * 3);
		NV12ToRAW(w->scaled[0], sw, w->scaled[1], sw,
			  (uint8_t *)out + ((size_t)top * ow + left) * 3, ow * 3, sw, sh);
		return;
	}
	NV12ToRAW(w->scaled[0], sw, w->scaled[1], sw, w->rgb, sw * 3, sw, sh);
	for (int c = 0; c < 3; c++)
		for (int row = 0; row < oh; row++)
			if (row < top || row >= top + sh)
				for (int x = 0; x < ow; x++)
					out[((size_t)c * oh + row) * ow + x] = 114 / 255.f;
	for (int row = 0; row < sh; row++) {
		float *to = out + (size_t)(top + row) * ow + left;

		(w->fast ? to_floats_v3 : to_floats_here)(w->rgb + (size_t)row * sw * 3, to, to + (size_t)oh * ow,
			  to + (size_t)oh * ow * 2, sw);
	}
}

static uint64_t measure(struct work *w, void (*fn)(struct work *w))
{
	uint64_t times[TRIES];
	int n = timed ? TRIES : FRAMES;

	fn(w);
	for (int i = 0; i < n; i++) {
		uint64_t t = cpu_time();

		fn(w);
		times[i] = cpu_time() - t;
	}
	return timed ? minimum(times, n) : median(times, n);
}

static void show(const struct work *w, const char *who, const char *what, uint64_t value)
{
	char table[128];

	snprintf(table, sizeof(table), "%s: a model's input of %s", unit, w->table);
	printf("%-12llu %s (%s)\n", (unsigned long long)value, what, table);
	record(who, value, table, "%s", what);
}

/* Measures what a call costs besides its pixels, of which the frame has a few only. */
struct calls {
	struct dlbuf_device *dev;
	struct dlbuf_frame frame;
	struct dlbuf_prepare_opts opts;
	struct dlbuf_prepare *plan;
	DLManagedTensorVersioned *planes[DLBUF_MAX_PLANES], out;
};

static void by_call(struct work *w, void (*fn)(struct calls *c), struct calls *c, const char *who,
		    const char *what)
{
	uint64_t times[FRAMES];

	for (int i = -40; i < FRAMES; i++) {
		uint64_t t = cpu_time();

		fn(c);
		t = cpu_time() - t;
		if (i >= 0)
			times[i] = t;
	}
	show(w, who, what, median(times, FRAMES));
}

static void call_tensors(struct calls *c)
{
	if (dlbuf_prepare_tensors(c->plan, c->planes, 2, &c->out, 0, 0))
		errx(1, "%s", dlbuf_last_error());
}

static void call_frame(struct calls *c)
{
	if (dlbuf_prepare_frame(c->plan, &c->frame, &c->out, 0, 0))
		errx(1, "%s", dlbuf_last_error());
}

static void call_once(struct calls *c)
{
	if (dlbuf_prepare_once(c->dev, &c->frame, &c->opts, &c->out, 0, 0, NULL))
		errx(1, "%s", dlbuf_last_error());
}

static void measure_calls(void)
{
	static float values[3 * 8 * 8];
	struct work w = { .table = "16x16, NV12, to 8x8: the calls" };
	struct calls c = {
		.frame = { .size = sizeof(c.frame), .width = 16, .height = 16, .code = NV12,
			   .code_space = DLBUF_CODE_DRM, .nplanes = 2 },
		.opts = { .size = sizeof(c.opts), .width = 8, .height = 8 },
		.out = { .version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
			 .dl_tensor = { .data = values, .device = { kDLCPU, 0 }, .ndim = 3,
					.dtype = { kDLFloat, 32, 1 },
					.shape = (int64_t[]){ 3, 8, 8 } } },
	};
	DLBUF_OPTS(dlbuf_import_opts, import, .access = DLBUF_READ);
	DLBUF_OPTS(dlbuf_alloc_opts, alloc, .exporter = "udmabuf");
	uint32_t n = 2;
	int fd;

	if (dlbuf_device_open("cpu", NULL, &c.dev) || dlbuf_alloc_fd(4096, &alloc, &fd))
		errx(1, "%s", dlbuf_last_error());
	for (uint64_t i = 0; i < 2; i++)
		c.frame.planes[i] = (struct dlbuf_plane){ .fd = fd, .pitch = 16, .offset = i * 256 };
	if (dlbuf_import_frame(c.dev, &c.frame, &import, c.planes, &n) ||
	    dlbuf_prepare_create(c.dev, &c.frame, &c.opts, &c.plan))
		errx(1, "%s", dlbuf_last_error());
	by_call(&w, call_tensors, &c, "floor", "dlbuf_prepare_tensors(), imported before");
	by_call(&w, call_frame, &c, "dlbuf", "dlbuf_prepare_frame()");
	by_call(&w, call_once, &c, "dlbuf", "dlbuf_prepare_once(), of a kind before");
	while (n--)
		c.planes[n]->deleter(c.planes[n]);
	dlbuf_prepare_destroy(c.plan);
	dlbuf_device_close(c.dev);
	close(fd);
}

int main(int argc, char **argv)
{
#define FITS { .size = sizeof(struct dlbuf_prepare_opts), .width = 640, .height = 640, \
	       .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 } }
#define WIDE(which) { .size = sizeof(struct dlbuf_prepare_opts), .width = 640, .height = 640, \
		      .filter = which }
	struct work works[] = {
		{ .table = "1920x1080, NV12, to 640x360 in 640x640, float32, NCHW", .code = NV12,
		  .width = 1920, .height = 1080, .opts = FITS, .scaled_width = 640, .scaled_height = 360 },
		{ .table = "1920x1080, NV12, to 608x342, float32, NCHW", .code = NV12,
		  .width = 1920, .height = 1080, .opts = { .size = sizeof(struct dlbuf_prepare_opts),
		  .width = 608, .height = 342 }, .scaled_width = 608, .scaled_height = 342 },
		{ .table = "1920x1080, NV12, to 640x360 in 640x640, uint8, NHWC", .code = NV12,
		  .width = 1920, .height = 1080, .opts = FITS, .scaled_width = 640, .scaled_height = 360 },
		{ .table = "3840x2160, P010, to 640x360 in 640x640, float32, NCHW",
		  .code = CC('P', '0', '1', '0'), .width = 3840, .height = 2160, .opts = FITS,
		  .scaled_width = 640, .scaled_height = 360 },
		{ .table = "1920x1080, RGB, to 640x640, triangle, float32, NCHW", .code = RGB,
		  .width = 1920, .height = 1080, .opts = WIDE(DLBUF_FILTER_TRIANGLE) },
		{ .table = "1920x1080, RGB, to 640x640, cubic, float32, NCHW", .code = RGB,
		  .width = 1920, .height = 1080, .opts = WIDE(DLBUF_FILTER_CUBIC) },
	};

	fix_addresses(argv);
	timed = argc > 1;
	unit = timed ? "time" : "cpu";
	works[2].opts.dtype = (DLDataType){ kDLUInt, 8, 1 };
	works[2].opts.flags = DLBUF_PREPARE_NHWC;
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		struct work *w = &works[i];

		make(w);
		if (w->code != RGB)
			show(w, "hand", is_packed(w) ? "libyuv: scaled, to RGB" :
			     "libyuv: scaled, to RGB, a loop", measure(w, by_libyuv));
		w->fast = true;
		if (w->code != RGB && !is_packed(w))
			show(w, "hand", "libyuv, the loop for x86-64-v3", measure(w, by_libyuv));
		show(w, "dlbuf", "dlbuf_prepare_tensors()", measure(w, by_dlbuf));
		if (!timed)
			show(w, "dlbuf", "dlbuf_prepare_create(), once", measure(w, make_plan));
		for (w->opts.threads = 1; timed && w->opts.threads <= 4; w->opts.threads *= 2) {
			char what[64];

			snprintf(what, sizeof(what), "threads=%u, by the clock", w->opts.threads);
			make_plan(w);
			wall = true;
			show(w, "dlbuf", what, measure(w, by_dlbuf));
			wall = false;
		}
		dlbuf_prepare_destroy(w->plan);
	}
	if (!timed)
		measure_calls();
	return 0;
}
