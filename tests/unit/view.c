// SPDX-License-Identifier: MIT
/* Views of a frame, and crops of it: pure arithmetic. */
#include "common.h"
#include "ktap.h"

#include <dlbuf/frame.h>
#include <dlbuf/layout.h>

#include "system/internal.h"

#define CC DLBUF_FOURCC

struct want {
	int ndim;
	int64_t shape[4], strides[4];
	uint64_t offset;
	uint8_t bits;
};

struct row {
	const char *what;
	enum dlbuf_code_space space;
	uint32_t code;
	enum dlbuf_view view;
	uint32_t width, height, nplanes;
	struct { uint64_t offset; int64_t pitch; uint64_t bytes; } planes[3];
	struct dlbuf_rect crop;
	uint32_t flags;
	uint32_t nwant;		/* 0: refused */
	struct want want[4];
};

#define DRM DLBUF_CODE_DRM
#define V4L2 DLBUF_CODE_V4L2

static const struct row rows[] = {
	/* Colour: without alpha or padding, at any position. */
	{ "colour of XRGB8888", DRM, CC('X', 'R', '2', '4'), DLBUF_VIEW_COLOUR,
	  6, 4, 1, { { 0, 32, 0 } }, { 0 }, 0,
	  1, { { 3, { 4, 6, 3 }, { 32, 4, 1 }, 0, 8 } } },
	{ "colour of BGRX8888", DRM, CC('B', 'X', '2', '4'), DLBUF_VIEW_COLOUR,
	  6, 4, 1, { { 64, 32, 0 } }, { 0 }, 0,
	  1, { { 3, { 4, 6, 3 }, { 32, 4, 1 }, 65, 8 } } },
	{ "colour of ABGR16161616", DRM, CC('A', 'B', '4', '8'),
	  DLBUF_VIEW_COLOUR, 6, 4, 1, { { 0, 64, 0 } }, { 0 }, 0,
	  1, { { 3, { 4, 6, 3 }, { 32, 4, 1 }, 0, 16 } } },
	{ "no colour of NV12", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_COLOUR,
	  6, 4, 2, { { 0, 6, 0 }, { 24, 6, 0 } }, { 0 }, 0, 0, { { 0 } } },
	/* Luma. */
	{ "luma of YUYV", DRM, CC('Y', 'U', 'Y', 'V'), DLBUF_VIEW_LUMA,
	  6, 4, 1, { { 0, 16, 0 } }, { 0 }, 0,
	  1, { { 2, { 4, 6 }, { 16, 2 }, 0, 8 } } },
	{ "luma of UYVY", DRM, CC('U', 'Y', 'V', 'Y'), DLBUF_VIEW_LUMA,
	  6, 4, 1, { { 8, 16, 0 } }, { 0 }, 0,
	  1, { { 2, { 4, 6 }, { 16, 2 }, 9, 8 } } },
	{ "luma of Y210", DRM, CC('Y', '2', '1', '0'), DLBUF_VIEW_LUMA,
	  6, 4, 1, { { 0, 24, 0 } }, { 0 }, 0,
	  1, { { 2, { 4, 6 }, { 12, 2 }, 0, 16 } } },
	{ "luma of NV12", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_LUMA,
	  5, 3, 2, { { 0, 8, 0 }, { 24, 8, 0 } }, { 0 }, 0,
	  1, { { 2, { 3, 5 }, { 8, 1 }, 0, 8 } } },
	{ "no luma of Y41P, unevenly spaced", V4L2, CC('Y', '4', '1', 'P'),
	  DLBUF_VIEW_LUMA, 8, 4, 1, { { 0, 12, 0 } }, { 0 }, 0, 0, { { 0 } } },
	{ "no luma of RGB", DRM, CC('R', 'G', '2', '4'), DLBUF_VIEW_LUMA,
	  8, 4, 1, { { 0, 24, 0 } }, { 0 }, 0, 0, { { 0 } } },
	/* Components. */
	{ "components of YUYV", DRM, CC('Y', 'U', 'Y', 'V'),
	  DLBUF_VIEW_COMPONENTS, 6, 4, 1, { { 0, 16, 0 } }, { 0 }, 0,
	  3, { { 2, { 4, 6 }, { 16, 2 }, 0, 8 },
	       { 2, { 4, 3 }, { 16, 4 }, 1, 8 },
	       { 2, { 4, 3 }, { 16, 4 }, 3, 8 } } },
	{ "components of NV21", DRM, CC('N', 'V', '2', '1'),
	  DLBUF_VIEW_COMPONENTS, 5, 3, 2, { { 0, 8, 0 }, { 24, 8, 0 } }, { 0 },
	  0, 3, { { 2, { 3, 5 }, { 8, 1 }, 0, 8 },
		  { 2, { 2, 3 }, { 8, 2 }, 24, 8 },
		  { 2, { 2, 3 }, { 8, 2 }, 25, 8 } } },
	{ "components of XBGR8888", DRM, CC('X', 'B', '2', '4'),
	  DLBUF_VIEW_COMPONENTS, 6, 4, 1, { { 0, 32, 0 } }, { 0 }, 0,
	  3, { { 2, { 4, 6 }, { 32, 4 }, 0, 8 },
	       { 2, { 4, 6 }, { 32, 4 }, 1, 8 },
	       { 2, { 4, 6 }, { 32, 4 }, 2, 8 } } },
	/* Colour filter arrays. */
	{ "cells of SRGGB8", V4L2, CC('R', 'G', 'G', 'B'), DLBUF_VIEW_CFA,
	  6, 4, 1, { { 0, 8, 0 } }, { 0 }, 0,
	  1, { { 4, { 2, 3, 2, 2 }, { 16, 2, 8, 1 }, 0, 8 } } },
	{ "cells of SRGGB10", V4L2, CC('R', 'G', '1', '0'), DLBUF_VIEW_CFA,
	  6, 4, 1, { { 2, 16, 0 } }, { 0 }, 0,
	  1, { { 4, { 2, 3, 2, 2 }, { 16, 2, 8, 1 }, 2, 16 } } },
	{ "cells of an odd width", V4L2, CC('R', 'G', 'G', 'B'), DLBUF_VIEW_CFA,
	  5, 4, 1, { { 0, 8, 0 } }, { 0 }, 0, 0, { { 0 } } },
	{ "a mosaic cut out of phase", V4L2, CC('R', 'G', 'G', 'B'),
	  DLBUF_VIEW_PLANES, 6, 4, 1, { { 0, 8, 0 } }, { 1, 0, 4, 4 }, 0,
	  0, { { 0 } } },
	{ "a mosaic cut in phase", V4L2, CC('R', 'G', 'G', 'B'),
	  DLBUF_VIEW_CFA, 6, 4, 1, { { 0, 8, 0 } }, { 2, 2, 4, 2 }, 0,
	  1, { { 4, { 1, 2, 2, 2 }, { 16, 2, 8, 1 }, 18, 8 } } },
	/* Stacked. */
	{ "NV12 stacked", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_STACKED,
	  6, 4, 2, { { 16, 8, 0 }, { 48, 8, 0 } }, { 0 }, 0,
	  1, { { 2, { 6, 6 }, { 8, 1 }, 16, 8 } } },
	{ "NV12 stacked, to the last byte", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_STACKED,
	  6, 4, 2, { { 16, 8, 30 }, { 48, 8, 14 } }, { 0 }, 0,
	  1, { { 2, { 6, 6 }, { 8, 1 }, 16, 8 } } },
	{ "NV12 stacked, short of luma", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_STACKED,
	  6, 4, 2, { { 16, 8, 29 }, { 48, 8, 14 } }, { 0 }, 0, 0, { { 0 } } },
	{ "NV12 stacked, short of chroma", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_STACKED,
	  6, 4, 2, { { 16, 8, 30 }, { 48, 8, 13 } }, { 0 }, 0, 0, { { 0 } } },
	{ "NV12 stacked, of V4L2", V4L2, CC('N', 'V', '1', '2'),
	  DLBUF_VIEW_STACKED, 6, 4, 1, { { 0, 8, 0 } }, { 0 }, 0,
	  1, { { 2, { 6, 6 }, { 8, 1 }, 0, 8 } } },
	{ "P010 stacked", DRM, CC('P', '0', '1', '0'), DLBUF_VIEW_STACKED,
	  6, 4, 2, { { 0, 16, 0 }, { 64, 16, 0 } }, { 0 }, 0,
	  1, { { 2, { 6, 6 }, { 8, 1 }, 0, 16 } } },
	{ "NV12 with a gap", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_STACKED,
	  6, 4, 2, { { 0, 8, 0 }, { 40, 8, 0 } }, { 0 }, 0, 0, { { 0 } } },
	{ "NV12 of odd height has a row more", DRM, CC('N', 'V', '1', '2'),
	  DLBUF_VIEW_STACKED, 6, 3, 2, { { 0, 8, 0 }, { 24, 8, 0 } }, { 0 }, 0,
	  1, { { 2, { 5, 6 }, { 8, 1 }, 0, 8 } } },
	{ "I420 stacked, compact", DRM, CC('Y', 'U', '1', '2'),
	  DLBUF_VIEW_STACKED, 8, 4, 3, { { 0, 8, 0 }, { 32, 4, 0 }, { 40, 4, 0 } },
	  { 0 }, 0, 1, { { 2, { 6, 8 }, { 8, 1 }, 0, 8 } } },
	{ "I420 stacked, with padding", DRM, CC('Y', 'U', '1', '2'),
	  DLBUF_VIEW_STACKED, 6, 4, 3, { { 0, 8, 0 }, { 32, 4, 0 }, { 40, 4, 0 } },
	  { 0 }, 0, 0, { { 0 } } },
	/* Words, rows, bytes. */
	{ "words of RGB565", DRM, CC('R', 'G', '1', '6'), DLBUF_VIEW_WORDS,
	  6, 4, 1, { { 0, 16, 0 } }, { 0 }, 0,
	  1, { { 2, { 4, 6 }, { 8, 1 }, 0, 16 } } },
	{ "words of XRGB8888", DRM, CC('X', 'R', '2', '4'), DLBUF_VIEW_WORDS,
	  6, 4, 1, { { 0, 32, 0 } }, { 0 }, 0,
	  1, { { 2, { 4, 6 }, { 8, 1 }, 0, 32 } } },
	{ "words at an odd offset", DRM, CC('X', 'R', '2', '4'),
	  DLBUF_VIEW_WORDS, 6, 4, 1, { { 2, 32, 0 } }, { 0 }, 0, 0, { { 0 } } },
	{ "RGB565 as planes", DRM, CC('R', 'G', '1', '6'), DLBUF_VIEW_PLANES,
	  6, 4, 1, { { 0, 16, 0 } }, { 0 }, 0, 0, { { 0 } } },
	{ "rows of RAW10 are whole pitches", V4L2, CC('p', 'R', 'A', 'A'),
	  DLBUF_VIEW_ROWS, 8, 4, 1, { { 0, 16, 0 } }, { 0 }, 0,
	  1, { { 2, { 4, 16 }, { 16, 1 }, 0, 8 } } },
	{ "a piece of RAW10's rows", V4L2, CC('p', 'R', 'A', 'A'),
	  DLBUF_VIEW_ROWS, 8, 4, 1, { { 0, 16, 0 } }, { 4, 0, 4, 4 }, 0,
	  0, { { 0 } } },
	{ "some of RAW10's rows", V4L2, CC('p', 'R', 'A', 'A'),
	  DLBUF_VIEW_ROWS, 8, 4, 1, { { 0, 16, 0 } }, { 0, 1, 8, 2 }, 0,
	  1, { { 2, { 2, 16 }, { 16, 1 }, 16, 8 } } },
	{ "rows of RGB565 are its pixels' bytes", DRM, CC('R', 'G', '1', '6'),
	  DLBUF_VIEW_ROWS, 6, 4, 1, { { 0, 16, 0 } }, { 2, 0, 3, 4 }, 0,
	  1, { { 2, { 4, 6 }, { 16, 1 }, 4, 8 } } },
	{ "rows of RGB565 with alpha beside it", DRM, CC('R', '5', 'A', '8'),
	  DLBUF_VIEW_ROWS, 6, 4, 2, { { 0, 16, 0 }, { 64, 8, 0 } }, { 0 }, 0,
	  2, { { 2, { 4, 16 }, { 16, 1 }, 0, 8 },
	       { 2, { 4, 8 }, { 8, 1 }, 64, 8 } } },
	{ "cells too far apart", V4L2, CC('R', 'G', 'G', 'B'), DLBUF_VIEW_CFA,
	  6, 4, 1, { { 0, INT64_MAX - 7, 0 } }, { 0 }, 0, 0, { { 0 } } },
	{ "rows of P010 are its pixels' bytes", DRM, CC('P', '0', '1', '0'),
	  DLBUF_VIEW_ROWS, 6, 4, 2, { { 0, 16, 0 }, { 64, 16, 0 } }, { 0 }, 0,
	  2, { { 2, { 4, 12 }, { 16, 1 }, 0, 8 },
	       { 2, { 2, 12 }, { 16, 1 }, 64, 8 } } },
	{ "bytes of a JPEG", V4L2, CC('M', 'J', 'P', 'G'), DLBUF_VIEW_BYTES,
	  0, 0, 1, { { 0, 0, 4711 } }, { 0 }, 0,
	  1, { { 1, { 4711 }, { 1 }, 0, 8 } } },
	{ "bytes that nobody counted", V4L2, CC('M', 'J', 'P', 'G'),
	  DLBUF_VIEW_BYTES, 0, 0, 1, { { 0, 0, 0 } }, { 0 }, 0, 0, { { 0 } } },
	/* Crops. */
	{ "1080 lines of 1088", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_PLANES,
	  1920, 1088, 2, { { 0, 2048, 0 }, { 2228224, 2048, 0 } },
	  { 0, 0, 1920, 1080 }, 0,
	  2, { { 2, { 1080, 1920 }, { 2048, 1 }, 0, 8 },
	       { 3, { 540, 960, 2 }, { 2048, 2, 1 }, 2228224, 8 } } },
	{ "all of them", DRM, CC('N', 'V', '1', '2'), DLBUF_VIEW_PLANES,
	  1920, 1088, 2, { { 0, 2048, 0 }, { 2228224, 2048, 0 } },
	  { 0, 0, 0, 0 }, 0,
	  2, { { 2, { 1088, 1920 }, { 2048, 1 }, 0, 8 },
	       { 3, { 544, 960, 2 }, { 2048, 2, 1 }, 2228224, 8 } } },
	{ "a piece, odd to the right", DRM, CC('N', 'V', '1', '2'),
	  DLBUF_VIEW_PLANES, 16, 8, 2, { { 0, 16, 0 }, { 128, 16, 0 } },
	  { 4, 2, 5, 3 }, 0,
	  2, { { 2, { 3, 5 }, { 16, 1 }, 36, 8 },
	       { 3, { 2, 3, 2 }, { 16, 2, 1 }, 148, 8 } } },
	{ "a piece that splits chroma", DRM, CC('N', 'V', '1', '2'),
	  DLBUF_VIEW_PLANES, 16, 8, 2, { { 0, 16, 0 }, { 128, 16, 0 } },
	  { 3, 2, 4, 4 }, 0, 0, { { 0 } } },
	{ "a piece bottom up", DRM, CC('X', 'R', '2', '4'), DLBUF_VIEW_PLANES,
	  8, 4, 1, { { 96, -32, 0 } }, { 1, 1, 2, 2 }, 0,
	  1, { { 3, { 2, 2, 4 }, { -32, 4, 1 }, 68, 8 } } },
	{ "a piece before the buffer", DRM, CC('X', 'R', '2', '4'),
	  DLBUF_VIEW_PLANES, 8, 4, 1, { { 32, -32, 0 } }, { 0, 2, 2, 2 }, 0,
	  0, { { 0 } } },
	{ "a piece of YUYV", DRM, CC('Y', 'U', 'Y', 'V'), DLBUF_VIEW_PLANES,
	  8, 4, 1, { { 0, 16, 0 } }, { 2, 1, 4, 2 }, 0,
	  1, { { 3, { 2, 2, 4 }, { 16, 4, 1 }, 20, 8 } } },
	{ "half a group of YUYV", DRM, CC('Y', 'U', 'Y', 'V'),
	  DLBUF_VIEW_PLANES, 8, 4, 1, { { 0, 16, 0 } }, { 2, 1, 3, 2 }, 0,
	  0, { { 0 } } },
	{ "a piece outside", DRM, CC('Y', 'U', 'Y', 'V'), DLBUF_VIEW_PLANES,
	  8, 4, 1, { { 0, 16, 0 } }, { 4, 0, 6, 2 }, 0, 0, { { 0 } } },
	{ "a piece that wraps", DRM, CC('Y', 'U', 'Y', 'V'), DLBUF_VIEW_PLANES,
	  8, 4, 1, { { 0, 16, 0 } }, { 4, 0, UINT32_MAX - 2, 2 }, 0,
	  0, { { 0 } } },
	{ "a piece of nothing", DRM, CC('Y', 'U', 'Y', 'V'), DLBUF_VIEW_PLANES,
	  8, 4, 1, { { 0, 16, 0 } }, { 4, 0, 0, 2 }, 0, 0, { { 0 } } },
};

/*
 * Each plane may have just the bytes that its tensors show, and none less. Planes that are
 * derived lie in the first.
 */
static void check_bytes(const struct dlbuf_frame *frame, const struct dlbuf_import_opts *opts,
			const struct dlbuf_frame_layout *layouts, uint32_t n)
{
	struct dlbuf_frame_layout out[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = *frame;
	uint64_t first, end, bytes;

	for (uint32_t i = 0; i < n; i++) {
		struct dlbuf_plane *p = &f.planes[layouts[i].plane < f.nplanes ?
						  layouts[i].plane : 0];

		CHECK_OK(dlbuf_layout_extent(&layouts[i].layout, &first, &end));
		bytes = end > p->offset ? end - p->offset : 0;
		p->bytes = bytes > p->bytes ? bytes : p->bytes;
	}
	CHECK_OK(dlbuf_frame_layouts(&f, opts, out, &n));
	for (uint32_t i = 0; i < f.nplanes; i++) {
		if (f.planes[i].bytes < 2)
			continue;
		f.planes[i].bytes--;
		CHECK_ERR(dlbuf_frame_layouts(&f, opts, out, &n), -ERANGE);
		CHECK_SAYS("the frame's bytes");
		f.planes[i].bytes++;
	}
}

static void check_row(const struct row *r)
{
	struct dlbuf_import_opts opts = {
		.size = sizeof(opts), .view = r->view, .flags = r->flags,
	};
	struct dlbuf_frame f = PICTURE(r->width, r->height, r->code, r->space,
		r->nplanes, .crop = r->crop);
	struct dlbuf_frame_layout out[DLBUF_MAX_PLANES];
	uint32_t n = 77;
	int ret;

	for (uint32_t i = 0; i < r->nplanes; i++)
		f.planes[i] = (struct dlbuf_plane){
			.fd = 3, .offset = r->planes[i].offset,
			.pitch = r->planes[i].pitch,
			.bytes = r->planes[i].bytes,
		};
	ret = dlbuf_frame_layouts(&f, &opts, out, &n);
	if (!r->nwant) {
		CHECK(ret < 0);
		CHECK_EQ(n, 77);
		return;
	}
	/* Larger values are little-endian in memory, and a DLTensor's native. */
	if (__BYTE_ORDER == __BIG_ENDIAN && r->want[0].bits > 8) {
		CHECK_EQ(ret, -EOPNOTSUPP);
		return;
	}
	if (!CHECK_OK(ret) || !CHECK_EQ(n, r->nwant))
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct want *w = &r->want[i];
		const DLTensor *l = &out[i].layout;

		CHECK_EQ(l->ndim, w->ndim);
		CHECK_EQ(l->byte_offset, w->offset);
		CHECK_EQ(l->dtype.code, kDLUInt);
		CHECK_EQ(l->dtype.bits, w->bits);
		for (int d = 0; d < w->ndim; d++) {
			CHECK_EQ(l->shape[d], w->shape[d]);
			CHECK_EQ(l->strides[d], w->strides[d]);
		}
	}
	if (r->view != DLBUF_VIEW_BYTES && r->view != DLBUF_VIEW_STACKED)
		check_bytes(&f, &opts, out, n);
}

TEST(views)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int before = ktap.result->failures;

		check_row(&rows[i]);
		if (ktap.result->failures != before)
			ktap_note(__FILE__, __LINE__, "that was: %s",
				  rows[i].what);
	}
}

TEST(bad_arguments)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_frame f = PICTURE(4, 4, CC('R', '8', ' ', ' '), DRM, 1,
		.planes = { { .pitch = 4 } });
	struct dlbuf_frame_layout out[DLBUF_MAX_PLANES];
	uint32_t n;

	CHECK_OK(dlbuf_frame_layouts(&f, NULL, out, &n));
	CHECK_ERR(dlbuf_frame_layouts(NULL, &opts, out, &n), -EINVAL);
	CHECK_ERR(dlbuf_frame_layouts(&f, &opts, NULL, &n), -EINVAL);
	CHECK_ERR(dlbuf_frame_layouts(&f, &opts, out, NULL), -EINVAL);
	opts.view = DLBUF_NVIEWS;
	CHECK_ERR(dlbuf_frame_layouts(&f, &opts, out, &n), -EINVAL);
	opts.view = UINT32_MAX;
	CHECK_ERR(dlbuf_frame_layouts(&f, &opts, out, &n), -EINVAL);
	opts.view = 0;
	opts.flags = 1u << 31;
	CHECK_ERR(dlbuf_frame_layouts(&f, &opts, out, &n), -EINVAL);
	opts.flags = 0;
	f.size = 0;
	CHECK_ERR(dlbuf_frame_layouts(&f, &opts, out, &n), -EINVAL);
}

KTAP_MAIN()
