// SPDX-License-Identifier: MIT
/*
 * Matrices, ranges, depths and chroma sites of a preparation against zimg's, which has them in
 * floats. The size stays, so only chroma is scaled.
 *
 *	cc zimg.c $(pkg-config --cflags --libs dlbuf zimg)
 */
#include <zimg.h>

#include <dlbuf/prepare.h>

#include "ktap.h"

#define W 64
#define H 48
#define N (W * H)

/* Rows of zimg begin at multiples of 64 bytes: so do those of 64 values. */
static _Alignas(64) uint16_t planes[3][N];
static _Alignas(64) float theirs[3][N], ours[3][N];

static const struct picture {
	uint32_t code, depth, hsub, vsub;
} pictures[] = {
	{ DLBUF_FOURCC('Y', 'U', '1', '2'), 8, 2, 2 },
	{ DLBUF_FOURCC('Y', 'U', '1', '6'), 8, 2, 1 },
	{ DLBUF_FOURCC('Y', 'U', '2', '4'), 8, 1, 1 },
	{ DLBUF_FOURCC('S', '0', '1', '0'), 10, 2, 2 },
	{ DLBUF_FOURCC('S', '2', '1', '0'), 10, 2, 1 },
	{ DLBUF_FOURCC('S', '0', '1', '2'), 12, 2, 2 },
	{ DLBUF_FOURCC('S', '4', '1', '6'), 16, 1, 1 },
};

/* Any values, also those that no range has. */
static void make_planes(const struct picture *p)
{
	uint32_t state = p->code;

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < N; k++) {
			state = state * 1664525 + 1013904223;
			planes[i][k] = state >> (32 - p->depth);
		}
		for (int k = 0; k < N && p->depth == 8; k++)
			((uint8_t *)planes[i])[k] = planes[i][k];
	}
}

static void ignore(DLManagedTensorVersioned *t)
{
	(void)t;
}

static void by_dlbuf(const struct picture *p, struct dlbuf_colour colour)
{
	struct dlbuf_frame f = { .size = sizeof(f), .width = W, .height = H, .code = p->code,
		.code_space = DLBUF_CODE_DRM, .colour = colour };
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = W, .height = H);
	DLManagedTensorVersioned t[4], *list[3];
	int64_t shape[2][2] = { { H, W }, { H / p->vsub, W / p->hsub } }, strides[] = { W, 1 };
	int64_t made[] = { 3, H, W };
	struct dlbuf_prepare *plan;

	for (int i = 0; i < 4; i++)
		t[i] = (DLManagedTensorVersioned){
			.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = ignore,
			.dl_tensor = { .data = i < 3 ? (void *)planes[i] : ours,
				.device = { kDLCPU, 0 }, .ndim = i < 3 ? 2 : 3,
				.shape = i < 3 ? shape[i > 0] : made,
				.strides = i < 3 ? strides : NULL,
				.dtype = { i < 3 ? kDLUInt : kDLFloat,
					i == 3 ? 32 : p->depth > 8 ? 16 : 8, 1 } },
		};
	for (int i = 0; i < 3; i++)
		list[i] = &t[i];
	REQUIRE_OK(dlbuf_prepare_create(NULL, &f, &opts, &plan));
	REQUIRE_OK(dlbuf_prepare_tensors(plan, list, 3, NULL, &t[3]));
	dlbuf_prepare_destroy(plan);
}

static bool by_zimg(const struct picture *p, struct dlbuf_colour colour)
{
	static const int sites[] = { 0, ZIMG_CHROMA_LEFT, ZIMG_CHROMA_CENTER, ZIMG_CHROMA_TOP_LEFT,
		ZIMG_CHROMA_TOP, ZIMG_CHROMA_BOTTOM_LEFT, ZIMG_CHROMA_BOTTOM };
	size_t value = p->depth > 8 ? 2 : 1, bytes = 0;
	zimg_graph_builder_params params;
	zimg_image_format from, to;
	zimg_image_buffer_const src = { .version = ZIMG_API_VERSION };
	zimg_image_buffer dst = { .version = ZIMG_API_VERSION };
	zimg_filter_graph *graph;
	char why[256];
	void *tmp;
	int ret;

	zimg_image_format_default(&from, ZIMG_API_VERSION);
	from.width = W;
	from.height = H;
	from.color_family = ZIMG_COLOR_YUV;
	to = from;
	from.pixel_type = value == 2 ? ZIMG_PIXEL_WORD : ZIMG_PIXEL_BYTE;
	from.depth = p->depth;
	from.subsample_w = p->hsub / 2;
	from.subsample_h = p->vsub / 2;
	from.matrix_coefficients = colour.matrix - 1;
	from.pixel_range = colour.range == DLBUF_RANGE_FULL ? ZIMG_RANGE_FULL : ZIMG_RANGE_LIMITED;
	from.chroma_location = sites[colour.chroma_site];
	to.pixel_type = ZIMG_PIXEL_FLOAT;
	to.color_family = ZIMG_COLOR_RGB;
	to.matrix_coefficients = ZIMG_MATRIX_RGB;
	to.pixel_range = ZIMG_RANGE_FULL;
	zimg_graph_builder_params_default(&params, ZIMG_API_VERSION);
	params.resample_filter = params.resample_filter_uv = ZIMG_RESIZE_BILINEAR;
	graph = zimg_filter_graph_build(&from, &to, &params);
	if (!graph || zimg_filter_graph_get_tmp_size(graph, &bytes)) {
		zimg_get_last_error(why, sizeof(why));
		ktap_note(NULL, 0, "zimg: %s", why);
		return false;
	}
	for (int i = 0; i < 3; i++) {
		src.plane[i].data = planes[i];
		src.plane[i].stride = W * value;
		src.plane[i].mask = dst.plane[i].mask = ZIMG_BUFFER_MAX;
		dst.plane[i].data = theirs[i];
		dst.plane[i].stride = W * sizeof(float);
	}
	tmp = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	ret = zimg_filter_graph_process(graph, &src, &dst, tmp, NULL, NULL, NULL, NULL);
	free(tmp);
	zimg_filter_graph_free(graph);
	return !ret;
}

/* zimg does not limit R, G and B. */
static double difference(void)
{
	double worst = 0;

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < N; k++) {
			double want = theirs[i][k] < 0 ? 0 : theirs[i][k] > 1 ? 1 :
				(double)theirs[i][k];
			double d = want - (double)ours[i][k];

			d = d < 0 ? -d : d;
			worst = d <= worst ? worst : d;
		}
	}
	return worst;
}

TEST(colours)
{
	/* H.273's, plus 1. */
	static const uint8_t matrices[] = { 2, 5, 6, 7, 8, 9, 10 };
	double most = 0;

	for (size_t k = 0; k < sizeof(pictures) / sizeof(*pictures); k++) {
		const struct picture *p = &pictures[k];

		make_planes(p);
		for (size_t m = 0; m < sizeof(matrices); m++) {
			for (int n = 0; n < 12; n++) {
				struct dlbuf_colour c = { .matrix = matrices[m], .range = n % 2 + 1,
					.chroma_site = n / 2 + 1 };
				double worst;

				by_dlbuf(p, c);
				REQUIRE(by_zimg(p, c));
				worst = difference();
				if (!CHECK(worst < 2e-6))
					ktap_note(NULL, 0, "%.4s: matrix %u, range %u, site %u: %g",
						  (char *)&p->code, c.matrix - 1, c.range,
						  c.chroma_site - 1, worst);
				most = worst > most ? worst : most;
			}
		}
	}
	ktap_note(NULL, 0, "zimg %d: at most %g of full scale", (int)ZIMG_API_VERSION, most);
}

KTAP_MAIN()
