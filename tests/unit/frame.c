// SPDX-License-Identifier: MIT
/* Frames into layouts: pure arithmetic. */
#include "common.h"
#include "ktap.h"

#include <dlbuf/layout.h>

#include "frame/detile.h"
#include "frame/frame.h"
#include "system/internal.h"

#define DRM(a, b, c, d) DLBUF_CODE_DRM, DLBUF_FOURCC(a, b, c, d)
#define V4L2(a, b, c, d) DLBUF_CODE_V4L2, DLBUF_FOURCC(a, b, c, d)

/* One plane: the expected tensor, and its offset. */
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
	  { { 3, 0, 0, 16, 0 } },
	  1, { { 2, { 3, 5 }, { 16, 1 }, 0 } } },
	{ "grey of V4L2", V4L2('G', 'R', 'E', 'Y'), 5, 3, 1,
	  { { 3, 0, 7, 5, 0 } },
	  1, { { 2, { 3, 5 }, { 5, 1 }, 7 } } },
	{ "BGR888, an odd pitch", DRM('B', 'G', '2', '4'), 5, 3, 1,
	  { { 3, 0, 64, 17, 0 } },
	  1, { { 3, { 3, 5, 3 }, { 17, 3, 1 }, 64 } } },
	{ "RGB3", V4L2('R', 'G', 'B', '3'), 5, 3, 1,
	  { { 3, 0, 0, 15, 0 } },
	  1, { { 3, { 3, 5, 3 }, { 15, 3, 1 }, 0 } } },
	{ "RGB888", DRM('R', 'G', '2', '4'), 1, 1, 1,
	  { { 3, 0, 0, 3, 0 } },
	  1, { { 3, { 1, 1, 3 }, { 3, 3, 1 }, 0 } } },
	{ "BGR3", V4L2('B', 'G', 'R', '3'), 1, 1, 1,
	  { { 3, 0, 0, 3, 0 } },
	  1, { { 3, { 1, 1, 3 }, { 3, 3, 1 }, 0 } } },
	{ "XRGB8888 of DRM", DRM('X', 'R', '2', '4'), 640, 480, 1,
	  { { 3, 0, 4096, 2560, 0 } },
	  1, { { 3, { 480, 640, 4 }, { 2560, 4, 1 }, 4096 } } },
	{ "XR24 of V4L2", V4L2('X', 'R', '2', '4'), 640, 480, 1,
	  { { 3, 0, 0, 4096, 0 } },
	  1, { { 3, { 480, 640, 4 }, { 4096, 4, 1 }, 0 } } },
	{ "YUYV", V4L2('Y', 'U', 'Y', 'V'), 640, 480, 1,
	  { { 3, 0, 0, 1280, 0 } },
	  1, { { 3, { 480, 320, 4 }, { 1280, 4, 1 }, 0 } } },
	{ "YUYV of DRM", DRM('Y', 'U', 'Y', 'V'), 2, 1, 1,
	  { { 3, 0, 0, 4, 0 } },
	  1, { { 3, { 1, 1, 4 }, { 4, 4, 1 }, 0 } } },
	{ "NV12 in two planes", DRM('N', 'V', '1', '2'), 640, 480, 2,
	  { { 3, 0, 0, 640, 0 }, { 4, 0, 4096, 704, 0 } },
	  2, { { 2, { 480, 640 }, { 640, 1 }, 0 },
	       { 3, { 240, 320, 2 }, { 704, 2, 1 }, 4096 } } },
	{ "NV12 of V4L2 in one plane", V4L2('N', 'V', '1', '2'), 640, 480, 1,
	  { { 3, 0, 128, 768, 0 } },
	  2, { { 2, { 480, 640 }, { 768, 1 }, 128 },
	       { 3, { 240, 320, 2 }, { 768, 2, 1 }, 128 + 768 * 480 } } },
	{ "NV12 of V4L2 in two", V4L2('N', 'V', '1', '2'), 640, 480, 2,
	  { { 3, 0, 0, 768, 0 }, { 3, 0, 400000, 640, 0 } },
	  2, { { 2, { 480, 640 }, { 768, 1 }, 0 },
	       { 3, { 240, 320, 2 }, { 640, 2, 1 }, 400000 } } },
	{ "NV12 of odd width and height", DRM('N', 'V', '1', '2'), 641, 481, 2,
	  { { 3, 0, 0, 656, 0 }, { 3, 0, 315536, 656, 0 } },
	  2, { { 2, { 481, 641 }, { 656, 1 }, 0 },
	       { 3, { 241, 321, 2 }, { 656, 2, 1 }, 315536 } } },
	{ "NV12 of one pixel, in one plane", V4L2('N', 'V', '1', '2'), 1, 1, 1,
	  { { 3, 0, 0, 2, 0 } },
	  2, { { 2, { 1, 1 }, { 2, 1 }, 0 },
	       { 3, { 1, 1, 2 }, { 2, 2, 1 }, 2 } } },
	{ "I420 of V4L2 in one plane", V4L2('Y', 'U', '1', '2'), 6, 4, 1,
	  { { 3, 0, 16, 8, 0 } },
	  3, { { 2, { 4, 6 }, { 8, 1 }, 16 },
	       { 2, { 2, 3 }, { 4, 1 }, 16 + 32 },
	       { 2, { 2, 3 }, { 4, 1 }, 16 + 32 + 8 } } },
	{ "NV24 of V4L2 in one plane", V4L2('N', 'V', '2', '4'), 6, 4, 1,
	  { { 3, 0, 0, 8, 0 } },
	  2, { { 2, { 4, 6 }, { 8, 1 }, 0 },
	       { 3, { 4, 6, 2 }, { 16, 2, 1 }, 32 } } },
	{ "NV12M of V4L2", V4L2('N', 'M', '1', '2'), 6, 4, 2,
	  { { 3, 0, 0, 8, 0 }, { 4, 0, 0, 16, 0 } },
	  2, { { 2, { 4, 6 }, { 8, 1 }, 0 },
	       { 3, { 2, 3, 2 }, { 16, 2, 1 }, 0 } } },
	{ "bottom up", DRM('X', 'R', '2', '4'), 16, 9, 1,
	  { { 3, 0, 512, -64, 0 } },
	  1, { { 3, { 9, 16, 4 }, { -64, 4, 1 }, 512 } } },
	{ "NV12 bottom up", DRM('N', 'V', '1', '2'), 16, 4, 2,
	  { { 3, 0, 48, -16, 0 }, { 3, 0, 80, -16, 0 } },
	  2, { { 2, { 4, 16 }, { -16, 1 }, 48 },
	       { 3, { 2, 8, 2 }, { -16, 2, 1 }, 80 } } },
	{ "as large as the numbers go", DRM('X', 'R', '2', '4'), UINT32_MAX,
	  UINT32_MAX, 1, { { 3, 0, 0, 17179869180ll, 0 } },
	  1, { { 3, { UINT32_MAX, UINT32_MAX, 4 }, { 17179869180ll, 4, 1 },
		 0 } } },
};

/* The options of a caller that wants the planes unchanged. */
static const struct dlbuf_import_opts whole = { .size = sizeof(whole) };

static struct dlbuf_frame frame_of(const struct row *r)
{
	struct dlbuf_frame f = PICTURE(r->width, r->height, r->code, r->space,
		r->nplanes);

	memcpy(f.planes, r->planes, sizeof(f.planes));
	return f;
}

static void check_row(const struct row *r)
{
	struct dlbuf_frame_layout planes[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = frame_of(r);
	uint32_t n = 77;

	if (!CHECK_OK(frame_layouts(&f, &whole, planes, &n)) ||
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
	return (struct dlbuf_frame)PICTURE(640, 480,
		DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
		.planes = { { 3, 0, 0, 640, 0 }, { 3, 0, 307200, 640, 0 } });
}

static int layouts(const struct dlbuf_frame *f)
{
	struct dlbuf_frame_layout planes[DLBUF_MAX_PLANES];
	uint32_t n = 77;
	int ret = frame_layouts(f, &whole, planes, &n);

	CHECK_EQ(n, ret ? 77 : 2);
	return ret;
}

TEST(a_code_needs_its_space)
{
	struct dlbuf_frame f = nv12();

	CHECK_OK(layouts(&f));
	f.code_space = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.code_space = 4;
	CHECK_ERR(layouts(&f), -EINVAL);
	/* RGB3 is V4L2's word only. */
	f.code_space = DLBUF_CODE_DRM;
	f.code = DLBUF_FOURCC('R', 'G', 'B', '3');
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "DRM");
	CHECK_SAYS("RGB3");
	f.code_space = DLBUF_CODE_V4L2;
	f.code = DLBUF_FOURCC('B', 'G', '2', '4');
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "V4L2");
}

/* Tensors show the stored picture, with any orientation. */
TEST(orientations_change_no_tensor)
{
	struct dlbuf_frame_layout upright[DLBUF_MAX_PLANES], planes[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = nv12();
	uint32_t n;

	REQUIRE_OK(frame_layouts(&f, &whole, upright, &n));
	for (int i = 1; i < 8; i++) {
		f.orientation = i;
		REQUIRE_OK(frame_layouts(&f, &whole, planes, &n));
		for (uint32_t k = 0; k < n; k++)
			CHECK(!memcmp(planes[k].shape, upright[k].shape, sizeof(planes[k].shape)) &&
			      !memcmp(planes[k].strides, upright[k].strides,
				      sizeof(planes[k].strides)));
	}
	f.orientation = 8;
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "orientation is 8: 0 to 7 are possible");
	f.orientation = -1;
	CHECK_ERR(layouts(&f), -EINVAL);
}

/* Bits and members without a meaning, which a later version may give one. */
TEST(unused_bits)
{
	const struct dlbuf_frame good = nv12();
	struct dlbuf_frame f;

#define REFUSED(text, change)				\
	do {						\
		f = good;				\
		change;					\
		CHECK_ERR_SAYS(layouts(&f), -EINVAL, text);	\
	} while (0)
	REFUSED("frame flags 0x8 are unknown", f.flags = 0xf);
	REFUSED("frame flags 0x80000000 are unknown", f.flags = 1u << 31);
	REFUSED("the frame's reserved is 0x1: it must be 0", f.reserved = 1);
	REFUSED("reserved2 is not NULL", f.reserved2 = &f);
	REFUSED("colour.reserved is { 2, 0 }: it must be 0", f.colour.reserved[0] = 2);
	REFUSED("colour.reserved is { 0, 3 }: it must be 0", f.colour.reserved[1] = 3);
	REFUSED("plane 0 has a reserved of 0x4: it must be 0", f.planes[0].reserved = 4);
	REFUSED("plane 1 has a reserved of 0x5: it must be 0", f.planes[1].reserved = 5);
#undef REFUSED
	/* Planes that the frame does not have. */
	f = good;
	f.planes[2].reserved = 1;
	f.flags = DLBUF_FRAME_DAMAGED | DLBUF_FRAME_SEQUENCE | DLBUF_FRAME_READ_ONLY;
	CHECK_OK(layouts(&f));
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
	CHECK_ERR_SAYS(layouts(&f), -EOPNOTSUPP, "big-endian");
	CHECK_SAYS("NV12");
	f.code_space = DLBUF_CODE_V4L2;
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
}

TEST(modifiers)
{
	struct dlbuf_frame f = nv12();

	f.modifier = DLBUF_MOD_INVALID;
	CHECK_ERR_SAYS(layouts(&f), -EOPNOTSUPP, "INVALID");
	f.modifier = 0x0100000000000001; /* Intel's X tiling */
	CHECK_ERR_SAYS(layouts(&f), -EOPNOTSUPP, "0x0100000000000001");
	CHECK_SAYS("MAY_COPY");
	f.modifier = UINT64_MAX;
	CHECK_ERR(layouts(&f), -EOPNOTSUPP);
	f.modifier = DLBUF_MOD_LINEAR;
	CHECK_OK(layouts(&f));
}

/* The rows of a copy of a frame that is not linear. */
TEST(rows_of_a_copy)
{
	static const struct {
		uint32_t code, width, height, align;
		struct {
			int64_t pitch;
			uint64_t offset;
		} planes[3];
		uint64_t bytes;
	} cases[] = {
		{ DLBUF_FOURCC('X', 'R', '2', '4'), 5, 3, 4,
		  { { 20, 0 } }, 60 },
		{ DLBUF_FOURCC('X', 'R', '2', '4'), 5, 3, 256,
		  { { 256, 0 } }, 768 },
		{ DLBUF_FOURCC('X', 'R', '2', '4'), 64, 3, 256,
		  { { 256, 0 } }, 768 },
		{ DLBUF_FOURCC('A', 'B', '4', 'H'), 5, 3, 4,
		  { { 40, 0 } }, 120 },
		/* Three bytes a pixel: no power of two divides by it. */
		{ DLBUF_FOURCC('R', 'G', '2', '4'), 5, 3, 64,
		  { { 192, 0 } }, 576 },
		{ DLBUF_FOURCC('R', 'G', '2', '4'), 65, 1, 64,
		  { { 384, 0 } }, 384 },
		{ DLBUF_FOURCC('N', 'V', '1', '2'), 640, 480, 128,
		  { { 640, 0 }, { 640, 307200 } }, 460800 },
		{ DLBUF_FOURCC('N', 'V', '1', '2'), 641, 481, 128,
		  { { 768, 0 }, { 768, 369408 } }, 554496 },
		{ DLBUF_FOURCC('Y', 'U', '1', '2'), 64, 4, 64,
		  { { 64, 0 }, { 64, 256 }, { 64, 384 } }, 512 },
		{ DLBUF_FOURCC('Y', 'U', 'Y', 'V'), 6, 2, 16,
		  { { 16, 0 } }, 32 },
	};
	struct detile d = { 0 };
	struct dlbuf_frame f;
	uint64_t bytes = 0;
	bool alias;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		f = (struct dlbuf_frame){
			.code = cases[i].code,
			.code_space = DLBUF_CODE_DRM,
			.modifier = 0x0100000000000001,
			.width = cases[i].width,
			.height = cases[i].height,
			.nplanes = 4,
			.crop = { 0, 0, 2, 2 },
		};
		d = (struct detile){ .from = &f };
		d.format = format_find(f.code, 0, DLBUF_CODE_DRM, &alias);
		REQUIRE(d.format);
		CHECK_OK(detile_rows(&d, cases[i].align, &bytes));
		CHECK_EQ(bytes, cases[i].bytes);
		CHECK_EQ(d.to.modifier, DLBUF_MOD_LINEAR);
		CHECK_EQ(d.to.crop.width, 2);
		for (uint32_t j = 0; j < d.to.nplanes; j++) {
			CHECK_EQ(d.to.planes[j].pitch,
				 cases[i].planes[j].pitch);
			CHECK_EQ(d.to.planes[j].offset,
				 cases[i].planes[j].offset);
			CHECK_EQ(d.to.planes[j].fd, -1);
		}
	}
	d.format = format_find(DLBUF_FOURCC('A', 'B', '8', 'F'), 0,
			       DLBUF_CODE_DRM, &alias);
	f.width = f.height = UINT32_MAX;
	CHECK_ERR(detile_rows(&d, 64, &bytes), -EOVERFLOW);
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
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "639");
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
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "2 planes");
}

TEST(pitches)
{
	struct dlbuf_frame f = nv12();

	f.planes[0].pitch = 639;
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "plane 0");
	f.planes[0].pitch = -639;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.planes[0].pitch = 0;
	CHECK_ERR(layouts(&f), -EINVAL);
	f.planes[0].pitch = INT64_MIN;
	CHECK_OK(layouts(&f));
	f = nv12();
	f.planes[1].pitch = 639;
	CHECK_ERR_SAYS(layouts(&f), -EINVAL, "plane 1");
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
	struct dlbuf_frame_layout planes[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = nv12();
	uint64_t first, end;
	uint32_t n;

	/* frame_layouts() leaves the bounds to the layout's own check. */
	f.planes[0].pitch = INT64_MAX;
	REQUIRE_OK(frame_layouts(&f, &whole, planes, &n));
	CHECK_ERR(dlbuf_layout_extent(&planes[0].layout, &first, &end), -EOVERFLOW);
	f = nv12();
	f.planes[0].pitch = -640;
	REQUIRE_OK(frame_layouts(&f, &whole, planes, &n));
	CHECK_ERR(dlbuf_layout_extent(&planes[0].layout, &first, &end), -ERANGE);
}

KTAP_MAIN()
