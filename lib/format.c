// SPDX-License-Identifier: MIT
/*
 * The formats: one row each, for every code space. A plane is a grid of
 * groups; a group covers hsub x vsub pixels and holds `channels` values of
 * `bits` bits. Its tensor is [rows, columns, channels], without the last
 * dimension where that is 1.
 *
 * The same bytes have different codes in the two spaces, and the same code
 * different bytes: 'RGB3' of V4L2 is R, G, B in memory, which DRM calls
 * BGR888, 'BG24', because DRM names channels from the highest bit down.
 */
#include <errno.h>

#include "format.h"
#include "internal.h"

#define CC DLBUF_FOURCC

static const struct format formats[] = {
	{ "R8", CC('R', '8', ' ', ' '), CC('G', 'R', 'E', 'Y'), "Y",
	  1, { { 1, 8, 1, 1 } } },
	{ "BGR888", CC('B', 'G', '2', '4'), CC('R', 'G', 'B', '3'), "R G B",
	  1, { { 3, 8, 1, 1 } } },
	{ "RGB888", CC('R', 'G', '2', '4'), CC('B', 'G', 'R', '3'), "B G R",
	  1, { { 3, 8, 1, 1 } } },
	{ "XRGB8888", CC('X', 'R', '2', '4'), CC('X', 'R', '2', '4'), "B G R X",
	  1, { { 4, 8, 1, 1 } } },
	{ "YUYV", CC('Y', 'U', 'Y', 'V'), CC('Y', 'U', 'Y', 'V'), "Y Cb Y Cr",
	  1, { { 4, 8, 2, 1 } } },
	{ "NV12", CC('N', 'V', '1', '2'), CC('N', 'V', '1', '2'), "Y, Cb Cr",
	  2, { { 1, 8, 1, 1 }, { 2, 8, 2, 2 } } },
};

const struct format *format_find(uint32_t code, enum dlbuf_code_space space)
{
	for (size_t i = 0; code && i < ARRAY_SIZE(formats); i++)
		if (code == (space == DLBUF_CODE_DRM ? formats[i].drm :
						       formats[i].v4l2))
			return &formats[i];
	return NULL;
}

static struct dlbuf_format_info info_of(const struct format *f)
{
	struct dlbuf_format_info info = {
		.size = sizeof(info),
		.name = f->name,
		.drm_code = f->drm,
		.v4l2_code = f->v4l2,
		.nplanes = f->nplanes,
		.channel_names = f->channel_names,
	};

	for (uint32_t i = 0; i < f->nplanes; i++)
		info.planes[i] = f->planes[i];
	return info;
}

int dlbuf_format_find(uint32_t code, enum dlbuf_code_space space,
		      struct dlbuf_format_info *info)
{
	const struct format *f;
	struct dlbuf_format_info out;

	if (space != DLBUF_CODE_DRM && space != DLBUF_CODE_V4L2)
		return fail(-EINVAL, "code space %d is neither DRM nor V4L2",
			    space);
	f = format_find(code, space);
	if (!f)
		return fail(-EINVAL, "%s has no format %s that dlbuf maps",
			    space == DLBUF_CODE_DRM ? "DRM" : "V4L2",
			    code_text(code).s);
	out = info_of(f);
	return INFO_PUT(info, &out, "dlbuf_format_info");
}

int dlbuf_format_each(dlbuf_format_fn fn, void *data)
{
	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		struct dlbuf_format_info info = info_of(&formats[i]);
		int ret = fn(&info, data);

		if (ret)
			return ret;
	}
	return 0;
}
