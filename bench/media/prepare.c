// SPDX-License-Identifier: MIT
/*
 * prepare: what a model's input costs of a decoded frame in memory: dlbuf's, and libyuv's
 * with a loop to floats, which is the best that programs in C do today. The same work as
 * bench/media/prepare.py, with what people write in Python.
 *
 *	bench/prepare
 *
 * Counted is the CPU time of this process: under -icount, instructions. The loops are built
 * with the library's own flags.
 */
#include <string.h>

#include <libyuv.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/prepare.h>

#include "../bench.h"

#define FRAMES 5

static uint64_t cpu_time(void)
{
	struct timespec t;

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
	return w->code == DLBUF_FOURCC('P', '0', '1', '0') ? 2 : 1;
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

static void make(struct work *w)
{
	DLBUF_OPTS(dlbuf_frame, frame, .width = w->width, .height = w->height, .code = w->code,
		   .code_space = DLBUF_CODE_DRM);
	const uint32_t n = w->width * w->height, bytes = value_bytes(w);
	const int64_t ow = w->opts.width, oh = w->opts.height;
	uint32_t seed = 1;

	for (int i = 0; i < 2; i++) {
		w->planes[i] = memory(n * bytes);
		w->narrow[i] = memory(n);
		w->scaled[i] = memory(n);
		for (uint32_t j = 0; j < n * bytes; j++)
			w->planes[i][j] = (seed = seed * 1664525 + 1013904223) >> 24;
	}
	w->rgb = memory(n * 3);
	w->out = memory(ow * oh * 3 * sizeof(float));
	if (dlbuf_prepare_create(NULL, &frame, &w->opts, &w->plan))
		errx(1, "%s", dlbuf_last_error());
	memcpy(w->shapes, (int64_t[3][3]){
		{ w->height, w->width }, { w->height / 2, w->width / 2, 2 },
		{ is_packed(w) ? oh : 3, is_packed(w) ? ow : oh, is_packed(w) ? 3 : ow } },
	       sizeof(w->shapes));
	describe(w, 0, bytes * 8, false, w->planes[0], 2);
	describe(w, 1, bytes * 8, false, w->planes[1], 3);
	describe(w, 2, is_packed(w) ? 8 : 32, !is_packed(w), w->out, 3);
}

static void by_dlbuf(struct work *w)
{
	DLManagedTensorVersioned *planes[] = { &w->tensors[0], &w->tensors[1] };

	if (dlbuf_prepare_tensors(w->plan, planes, 2, &w->tensors[2], 0, 0))
		errx(1, "%s", dlbuf_last_error());
}

/* What a compiler makes fast: three rows of bytes to three planes of floats, or of bytes. */
static void to_floats(const uint8_t *restrict rgb, float *restrict r, float *restrict g,
		      float *restrict b, int n)
{
	for (int i = 0; i < n; i++) {
		r[i] = rgb[i * 3] * (1 / 255.f);
		g[i] = rgb[i * 3 + 1] * (1 / 255.f);
		b[i] = rgb[i * 3 + 2] * (1 / 255.f);
	}
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

		to_floats(w->rgb + (size_t)row * sw * 3, to, to + (size_t)oh * ow,
			  to + (size_t)oh * ow * 2, sw);
	}
}

static uint64_t measure(struct work *w, void (*fn)(struct work *w))
{
	uint64_t times[FRAMES];

	fn(w);
	for (int i = 0; i < FRAMES; i++) {
		uint64_t t = cpu_time();

		fn(w);
		times[i] = cpu_time() - t;
	}
	return median(times, FRAMES);
}

int main(int argc, char **argv)
{
#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')
#define FITS { .size = sizeof(struct dlbuf_prepare_opts), .width = 640, .height = 640, \
	       .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 } }
	struct work works[] = {
		{ .table = "1920x1080, NV12, to 640x360 in 640x640, float32, NCHW", .code = NV12,
		  .width = 1920, .height = 1080, .opts = FITS, .scaled_width = 640, .scaled_height = 360 },
		{ .table = "1920x1080, NV12, to 608x342, float32, NCHW", .code = NV12,
		  .width = 1920, .height = 1080, .opts = { .size = sizeof(struct dlbuf_prepare_opts),
		  .width = 608, .height = 342 }, .scaled_width = 608, .scaled_height = 342 },
		{ .table = "1920x1080, NV12, to 640x360 in 640x640, uint8, NHWC", .code = NV12,
		  .width = 1920, .height = 1080, .opts = FITS, .scaled_width = 640, .scaled_height = 360 },
		{ .table = "3840x2160, P010, to 640x360 in 640x640, float32, NCHW",
		  .code = DLBUF_FOURCC('P', '0', '1', '0'), .width = 3840, .height = 2160, .opts = FITS,
		  .scaled_width = 640, .scaled_height = 360 },
	};

	(void)argc;
	fix_addresses(argv);
	works[2].opts.dtype = (DLDataType){ kDLUInt, 8, 1 };
	works[2].opts.flags = DLBUF_PREPARE_NHWC;
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		struct work *w = &works[i];
		uint64_t hand, own;
		char table[128];

		make(w);
		hand = measure(w, by_libyuv);
		own = measure(w, by_dlbuf);
		snprintf(table, sizeof(table), "cpu: a model's input of %s", w->table);
		printf("%s\n  %-58s %12llu\n  %-58s %12llu %6.2f\n", table,
		       "libyuv: scaled, to RGB, a loop", (unsigned long long)hand,
		       "dlbuf_prepare_tensors()", (unsigned long long)own, (double)own / hand);
		record("hand", hand, table, "libyuv: scaled, to RGB, a loop");
		record("dlbuf", own, table, "dlbuf_prepare_tensors()");
		dlbuf_prepare_destroy(w->plan);
	}
	return 0;
}
