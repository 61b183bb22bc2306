// SPDX-License-Identifier: MIT
/* Frames into layouts: pure arithmetic. */
#include "ktap.h"

#include <dlbuf/layout.h>

#include "frame.h"
#include "internal.h"

#define DRM(a, b, c, d) DLBUF_CODE_DRM, DLBUF_FOURCC(a, b, c, d)
#define V4L2(a, b, c, d) DLBUF_CODE_V4L2, DLBUF_FOURCC(a, b, c, d)

/* One plane: what its tensor has to look like, and where it begins. */
struct want {
	int ndim;
	int64_t shape[3], strides[3];
	uint64_t offset;
};

struct row {
	const char *what;
	enum dlbuf_code_space space;
	uint32_t code;
	uint32_t width, height, nplanes;
	struct dlbuf_plane planes[4];
	uint32_t nwant;
	struct want want[4];
};

static const struct row rows[] = {
	{ "grey of DRM", DRM('R', '8', ' ', ' '), 5, 3, 1,
	  { { 3, 0, 0, 16 } },
	  1, { { 2, { 3, 5 }, { 16, 1 }, 0 } } },
	{ "grey of V4L2", V4L2('G', 'R', 'E', 'Y'), 5, 3, 1,
	  { { 3, 0, 7, 5 } },
	  1, { { 2, { 3, 5 }, { 5, 1 }, 7 } } },
	{ "BGR888, an odd pitch", DRM('B', 'G', '2', '4'), 5, 3, 1,
	  { { 3, 0, 64, 17 } },
	  1, { { 3, { 3, 5, 3 }, { 17, 3, 1 }, 64 } } },
	{ "RGB3", V4L2('R', 'G', 'B', '3'), 5, 3, 1,
	  { { 3, 0, 0, 15 } },
	  1, { { 3, { 3, 5, 3 }, { 15, 3, 1 }, 0 } } },
	{ "RGB888", DRM('R', 'G', '2', '4'), 1, 1, 1,
	  { { 3, 0, 0, 3 } },
	  1, { { 3, { 1, 1, 3 }, { 3, 3, 1 }, 0 } } },
	{ "BGR3", V4L2('B', 'G', 'R', '3'), 1, 1, 1,
	  { { 3, 0, 0, 3 } },
	  1, { { 3, { 1, 1, 3 }, { 3, 3, 1 }, 0 } } },
	{ "XRGB8888 of DRM", DRM('X', 'R', '2', '4'), 640, 480, 1,
	  { { 3, 0, 4096, 2560 } },
	  1, { { 3, { 480, 640, 4 }, { 2560, 4, 1 }, 4096 } } },
	{ "XR24 of V4L2", V4L2('X', 'R', '2', '4'), 640, 480, 1,
	  { { 3, 0, 0, 4096 } },
	  1, { { 3, { 480, 640, 4 }, { 4096, 4, 1 }, 0 } } },
	{ "YUYV", V4L2('Y', 'U', 'Y', 'V'), 640, 480, 1,
	  { { 3, 0, 0, 1280 } },
	  1, { { 3, { 480, 320, 4 }, { 1280, 4, 1 }, 0 } } },
	{ "YUYV of DRM", DRM('Y', 'U', 'Y', 'V'), 2, 1, 1,
	  { { 3, 0, 0, 4 } },
	  1, { { 3, { 1, 1, 4 }, { 4, 4, 1 }, 0 } } },
	{ "NV12 in two planes", DRM('N', 'V', '1', '2'), 640, 480, 2,
	  { { 3, 0, 0, 640 }, { 4, 0, 4096, 704 } },
	  2, { { 2, { 480, 640 }, { 640, 1 }, 0 },
	       { 3, { 240, 320, 2 }, { 704, 2, 1 }, 4096 } } },
	{ "NV12 of V4L2 in one plane", V4L2('N', 'V', '1', '2'), 640, 480, 1,
	  { { 3, 0, 128, 768 } },
	  2, { { 2, { 480, 640 }, { 768, 1 }, 128 },
	       { 3, { 240, 320, 2 }, { 768, 2, 1 }, 128 + 768 * 480 } } },
	{ "NV12 of V4L2 in two", V4L2('N', 'V', '1', '2'), 640, 480, 2,
	  { { 3, 0, 0, 768 }, { 3, 0, 400000, 640 } },
	  2, { { 2, { 480, 640 }, { 768, 1 }, 0 },
	       { 3, { 240, 320, 2 }, { 640, 2, 1 }, 400000 } } },
	{ "NV12 of odd width and height", DRM('N', 'V', '1', '2'), 641, 481, 2,
	  { { 3, 0, 0, 656 }, { 3, 0, 315536, 656 } },
	  2, { { 2, { 481, 641 }, { 656, 1 }, 0 },
	       { 3, { 241, 321, 2 }, { 656, 2, 1 }, 315536 } } },
	{ "NV12 of one pixel, in one plane", V4L2('N', 'V', '1', '2'), 1, 1, 1,
	  { { 3, 0, 0, 2 } },
	  2, { { 2, { 1, 1 }, { 2, 1 }, 0 },
	       { 3, { 1, 1, 2 }, { 2, 2, 1 }, 2 } } },
	{ "bottom up", DRM('X', 'R', '2', '4'), 16, 9, 1,
	  { { 3, 0, 512, -64 } },
	  1, { { 3, { 9, 16, 4 }, { -64, 4, 1 }, 512 } } },
	{ "NV12 bottom up", DRM('N', 'V', '1', '2'), 16, 4, 2,
	  { { 3, 0, 48, -16 }, { 3, 0, 80, -16 } },
	  2, { { 2, { 4, 16 }, { -16, 1 }, 48 },
	       { 3, { 2, 8, 2 }, { -16, 2, 1 }, 80 } } },
	{ "as large as the numbers go", DRM('X', 'R', '2', '4'), UINT32_MAX,
	  UINT32_MAX, 1, { { 3, 0, 0, 17179869180ll } },
	  1, { { 3, { UINT32_MAX, UINT32_MAX, 4 }, { 17179869180ll, 4, 1 },
		 0 } } },
};

static struct dlbuf_frame frame_of(const struct row *r)
{
	struct dlbuf_frame f = {
		.size = sizeof(f),
		.width = r->width,
		.height = r->height,
		.code = r->code,
		.code_space = r->space,
		.nplanes = r->nplanes,
	};

	memcpy(f.planes, r->planes, sizeof(f.planes));
	return f;
}

static void check_row(const struct row *r)
{
	struct plane_layout planes[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = frame_of(r);
	uint32_t n = 77;

	if (!CHECK_OK(frame_layouts(&f, planes, &n)) ||
	    !CHECK_EQ(n, r->nwant))
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct want *w = &r->want[i];
		const DLTensor *l = &planes[i].layout;
		uint64_t first, end;

		CHECK_EQ(planes[i].fd,
			 f.planes[i < r->nplanes ? i : 0].fd);
		CHECK(!l->data);
		CHECK_EQ(l->ndim, w->ndim);
		CHECK_EQ(l->dtype.code, kDLUInt);
		CHECK_EQ(l->dtype.bits, 8);
		CHECK_EQ(l->dtype.lanes, 1);
		CHECK_EQ(l->byte_offset, w->offset);
		for (int d = 0; d < w->ndim; d++) {
			CHECK_EQ(l->shape[d], w->shape[d]);
			CHECK_EQ(l->strides[d], w->strides[d]);
		}
		if (r->width < 10000)
			CHECK_OK(dlbuf_layout_extent(l, &first, &end));
	}
}

TEST(table)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int before = ktap.result->failures;

		check_row(&rows[i]);
		if (ktap.result->failures != before)
			ktap_note(__FILE__, __LINE__, "that was: %s",
				  rows[i].what);
	}
}

/* ---------------------------------------------------------------- refusals */

/* 640x480 NV12 in two planes, to be made wrong. */
static struct dlbuf_frame nv12(void)
{
	return (struct dlbuf_frame){
		.size = sizeof(struct dlbuf_frame),
		.width = 640,
		.height = 480,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'),
		.code_space = DLBUF_CODE_DRM,
		.nplanes = 2,
		.planes = { { 3, 0, 0, 640 }, { 3, 0, 307200, 640 } },
	};
}

static int layouts(const struct dlbuf_frame *f)
{
	struct plane_layout planes[DLBUF_MAX_PLANES];
	uint32_t n = 77;
	int ret = frame_layouts(f, planes, &n);

	CHECK_EQ(n, ret ? 77 : 2);
	return ret;
}

TEST(a_code_needs_its_space)
{
	struct dlbuf_frame f = nv12();

	CHECK_OK(layouts(&f));
	f.code_space = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.code_space = 3;
	CHECK_ERR(layouts(&f), -EINVAL);
	/* RGB3 is V4L2's word only. */
	f.code_space = DLBUF_CODE_DRM;
	f.code = DLBUF_FOURCC('R', 'G', 'B', '3');
	CHECK_ERR(layouts(&f), -EINVAL);
	CHECK_SAYS("DRM");
	CHECK_SAYS("RGB3");
	f.code_space = DLBUF_CODE_V4L2;
	f.code = DLBUF_FOURCC('B', 'G', '2', '4');
	CHECK_ERR(layouts(&f), -EINVAL);
	CHECK_SAYS("V4L2");
}

TEST(unknown_codes)
{
	struct dlbuf_frame f = nv12();

	f.code = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.code = 0x7fffffff;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.code = 1;
	f.code_space = DLBUF_CODE_V4L2;
	CHECK_ERR(layouts(&f), -EINVAL);
}

TEST(big_endian)
{
	struct dlbuf_frame f = nv12();

	f.code |= 1u << 31;
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
	CHECK_SAYS("big-endian");
	CHECK_SAYS("NV12");
	f.code_space = DLBUF_CODE_V4L2;
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
}

TEST(modifiers)
{
	struct dlbuf_frame f = nv12();

	f.modifier = DLBUF_MOD_INVALID;
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
	CHECK_SAYS("INVALID");
	f.modifier = 0x0100000000000001; /* Intel's X tiling */
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
	CHECK_SAYS("0x0100000000000001");
	f.modifier = UINT64_MAX;
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
	f.modifier = DLBUF_MOD_LINEAR;
	CHECK_OK(layouts(&f));
}

TEST(sizes)
{
	struct dlbuf_frame f = nv12();

	f.width = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f = nv12();
	f.height = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	/* Two pixels share a group of packed 4:2:2. */
	f = nv12();
	f.code = DLBUF_FOURCC('Y', 'U', 'Y', 'V');
	f.width = 639;
	f.planes[0].pitch = 1280;
	CHECK_ERR(layouts(&f), -EINVAL);
	CHECK_SAYS("639");
}

TEST(planes)
{
	struct dlbuf_frame f = nv12();

	f.nplanes = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.nplanes = 5;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.nplanes = UINT32_MAX;
	CHECK_ERR(layouts(&f), -EINVAL);
	/* DRM gives each plane its own offset and pitch. */
	f.nplanes = 1;
	CHECK_ERR(layouts(&f), -EINVAL);
	CHECK_SAYS("2 planes");
}

TEST(pitches)
{
	struct dlbuf_frame f = nv12();

	f.planes[0].pitch = 639;
	CHECK_ERR(layouts(&f), -EINVAL);
	CHECK_SAYS("plane 0");
	f.planes[0].pitch = -639;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.planes[0].pitch = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.planes[0].pitch = INT64_MIN;
	CHECK_OK(layouts(&f));
	f = nv12();
	f.planes[1].pitch = 639;
	CHECK_ERR(layouts(&f), -EINVAL);
	CHECK_SAYS("plane 1");
	/* Rows of chroma are as long as luma's, rounded up to pairs. */
	f = nv12();
	f.width = 639;
	CHECK_OK(layouts(&f));
	f.planes[1].pitch = 639;
	CHECK_ERR(layouts(&f), -EINVAL);
}

TEST(one_plane_of_v4l2)
{
	struct dlbuf_frame f = nv12();

	f.code_space = DLBUF_CODE_V4L2;
	f.nplanes = 1;
	CHECK_OK(layouts(&f));
	/* Where would the chroma of an upside down image be? */
	f.planes[0].pitch = -640;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.planes[0].pitch = INT64_MAX;
	CHECK_ERR(layouts(&f), -EOVERFLOW);
	f.planes[0].pitch = 640;
	f.planes[0].offset = UINT64_MAX - 1000;
	CHECK_ERR(layouts(&f), -EOVERFLOW);
}

TEST(a_layout_that_cannot_be)
{
	struct plane_layout planes[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = nv12();
	uint32_t n;

	/* frame_layouts() leaves the bounds to the layout's own check. */
	f.planes[0].pitch = INT64_MAX;
	REQUIRE_OK(frame_layouts(&f, planes, &n));
	CHECK_ERR(dlbuf_layout_check(&planes[0].layout, UINT64_MAX),
		  -EOVERFLOW);
	f = nv12();
	f.planes[0].pitch = -640;
	REQUIRE_OK(frame_layouts(&f, planes, &n));
	CHECK_ERR(dlbuf_layout_check(&planes[0].layout, UINT64_MAX), -ERANGE);
}

/* ---------------------------------------------------------------- the table */

static struct dlbuf_format_info formats[256];
static int nformats;

static int collect(const struct dlbuf_format_info *info, void *data)
{
	(void)data;
	formats[nformats] = *info;
	return ++nformats == 256 ? 1 : 0;
}

TEST(the_table_is_sound)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	CHECK(nformats >= 6);
	for (int i = 0; i < nformats; i++) {
		const struct dlbuf_format_info *f = &formats[i];

		CHECK(f->name && f->name[0]);
		CHECK(f->channel_names && f->channel_names[0]);
		CHECK(f->drm_code || f->v4l2_code);
		CHECK(f->nplanes >= 1 && f->nplanes <= DLBUF_MAX_PLANES);
		CHECK(!((f->drm_code | f->v4l2_code) & 1u << 31));
		for (uint32_t p = 0; p < f->nplanes; p++) {
			CHECK(f->planes[p].channels >= 1);
			CHECK(f->planes[p].bits == 8 ||
			      f->planes[p].bits == 16 ||
			      f->planes[p].bits == 32);
			CHECK(f->planes[p].hsub >= 1);
			CHECK(f->planes[p].vsub >= 1);
		}
		for (int j = 0; j < i; j++) {
			CHECK(strcmp(formats[j].name, f->name));
			CHECK(!f->drm_code || f->drm_code != formats[j].drm_code);
			CHECK(!f->v4l2_code ||
			      f->v4l2_code != formats[j].v4l2_code);
		}
	}
}

TEST(every_format_is_found_by_its_codes)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	for (int i = 0; i < nformats; i++) {
		const struct dlbuf_format_info *f = &formats[i];
		struct dlbuf_format_info got = { .size = sizeof(got) };

		if (f->drm_code) {
			CHECK_OK(dlbuf_format_find(f->drm_code, DLBUF_CODE_DRM,
						   &got));
			CHECK_STR(got.name, f->name);
		}
		if (f->v4l2_code) {
			CHECK_OK(dlbuf_format_find(f->v4l2_code,
						   DLBUF_CODE_V4L2, &got));
			CHECK_STR(got.name, f->name);
		}
	}
}

/* Each format: a frame of odd and even sizes, packed tightly. */
TEST(every_format_fills_its_frame)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	for (int i = 0; i < nformats; i++)
	for (uint32_t width = 1; width <= 9; width++)
	for (uint32_t height = 1; height <= 5; height++) {
		const struct dlbuf_format_info *f = &formats[i];
		struct plane_layout planes[DLBUF_MAX_PLANES];
		struct dlbuf_frame frame = {
			.width = width,
			.height = height,
			.code = f->drm_code ? f->drm_code : f->v4l2_code,
			.code_space = f->drm_code ? DLBUF_CODE_DRM :
						    DLBUF_CODE_V4L2,
			.nplanes = f->nplanes,
		};
		uint64_t at = 0, first, end;
		uint32_t n;
		int ret;

		for (uint32_t p = 0; p < f->nplanes; p++) {
			const struct dlbuf_format_plane *g = &f->planes[p];
			uint32_t columns = (width + g->hsub - 1) / g->hsub;

			frame.planes[p] = (struct dlbuf_plane){
				.offset = at,
				.pitch = columns * g->channels * g->bits / 8,
			};
			at += frame.planes[p].pitch *
			      ((height + g->vsub - 1) / g->vsub);
		}
		ret = frame_layouts(&frame, planes, &n);
		if (width % f->planes[0].hsub) {
			CHECK_EQ(ret, -EINVAL);
			continue;
		}
		if (!CHECK_OK(ret) || !CHECK_EQ(n, f->nplanes))
			return;
		for (uint32_t p = 0; p < n; p++) {
			uint64_t next = p + 1 < n ? frame.planes[p + 1].offset :
						    at;

			CHECK_OK(dlbuf_layout_extent(&planes[p].layout, &first,
						     &end));
			CHECK_EQ(first, frame.planes[p].offset);
			CHECK_EQ(end, next);
		}
	}
}

static int stop_at_two(const struct dlbuf_format_info *info, void *data)
{
	(void)info;
	return ++*(int *)data == 2 ? -12345 : 0;
}

TEST(walks_end_when_told)
{
	int n = 0;

	CHECK_EQ(dlbuf_format_each(stop_at_two, &n), -12345);
	CHECK_EQ(n, 2);
	CHECK_ERR(dlbuf_format_each(NULL, NULL), -EINVAL);
}

TEST(formats_not_found)
{
	struct dlbuf_format_info info = { .size = sizeof(info), .nplanes = 9 };

	CHECK_ERR(dlbuf_format_find(0, DLBUF_CODE_DRM, &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(DLBUF_FOURCC('R', 'G', '1', '6'),
				    DLBUF_CODE_DRM, &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(DLBUF_FOURCC('N', 'V', '1', '2'), 0, &info),
		  -EINVAL);
	CHECK_EQ(info.nplanes, 9);
}

KTAP_MAIN()
