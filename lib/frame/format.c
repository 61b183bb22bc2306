// SPDX-License-Identifier: MIT
/* Looks up formats in the table of formats.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../system/internal.h"
#include "format.h"

#define CC DLBUF_FOURCC
#define BE(a, b, c, d) (CC(a, b, c, d) | 1u << 31)

/* libcamera's modifiers; in drm_fourcc.h they belong to GPU vendors. */
#define CSI2_PACKED (11ull << 56 | 1)
#define IPU3_PACKED (1ull << 56 | 13)
#define PISP_COMP1 (12ull << 56 | 1)

/* All names and channels in one string, and the offset of each. */
static const struct strings {
	char none[1];
#define F(d, dc, v, vc, value, h, vs, ch) \
	char d##_drm[sizeof(#d)], d##_v4l2[sizeof(#v)], d##_ch[sizeof(ch)];
#define FD(d, dc, value, h, vs, ch) char d##_drm[sizeof(#d)], d##_ch[sizeof(ch)];
#define FV(v, vc, value, h, vs, ch) \
	char V4L2_##v##_v4l2[sizeof(#v)], V4L2_##v##_ch[sizeof(ch)];
#define R(d, dc, v, vc, value, h, vs, ch, why) \
	char d##_drm[sizeof(#d)], d##_v4l2[sizeof(#v)], d##_ch[sizeof(ch)];
#define RD(d, dc, value, h, vs, ch, why) \
	char d##_drm[sizeof(#d)], d##_ch[sizeof(ch)];
#define RV(v, vc, value, h, vs, ch, why) \
	char V4L2_##v##_v4l2[sizeof(#v)], V4L2_##v##_ch[sizeof(ch)];
#define M(v, vc, row) char M_##v[sizeof(#v)];
#include "formats.h"
} strings = {
	"",
#define F(d, dc, v, vc, value, h, vs, ch) #d, #v, ch,
#define FD(d, dc, value, h, vs, ch) #d, ch,
#define FV(v, vc, value, h, vs, ch) #v, ch,
#define R(d, dc, v, vc, value, h, vs, ch, why) #d, #v, ch,
#define RD(d, dc, value, h, vs, ch, why) #d, ch,
#define RV(v, vc, value, h, vs, ch, why) #v, ch,
#define M(v, vc, row) #v,
#include "formats.h"
};

#define AT(member) offsetof(struct strings, member)
_Static_assert(sizeof(strings) <= UINT16_MAX, "offsets of strings have 16 bits");

/* A value: type, bits, how many of the bits are used, and their shift. */
#define U8 kDLUInt, 8, 8, 0
#define U16 kDLUInt, 16, 16, 0
#define U32 kDLUInt, 32, 32, 0
#define S8 kDLInt, 8, 8, 0
#define S16 kDLInt, 16, 16, 0
#define F16 kDLFloat, 16, 16, 0
#define F32 kDLFloat, 32, 32, 0
#define LOW10 kDLUInt, 16, 10, 0
#define LOW12 kDLUInt, 16, 12, 0
#define LOW14 kDLUInt, 16, 14, 0
#define HIGH10 kDLUInt, 16, 10, 6
#define HIGH12 kDLUInt, 16, 12, 4

static const struct format formats[] = {
#define F(d, dc, v, vc, value, h, vs, ch) \
	{ dc, vc, AT(d##_drm), AT(d##_v4l2), AT(d##_ch), value, h, vs, NO_REASON },
#define FD(d, dc, value, h, vs, ch) \
	{ dc, 0, AT(d##_drm), 0, AT(d##_ch), value, h, vs, NO_REASON },
#define FV(v, vc, value, h, vs, ch) \
	{ 0, vc, 0, AT(V4L2_##v##_v4l2), AT(V4L2_##v##_ch), value, h, vs, NO_REASON },
#define R(d, dc, v, vc, value, h, vs, ch, why) \
	{ dc, vc, AT(d##_drm), AT(d##_v4l2), AT(d##_ch), value, h, vs, why },
#define RD(d, dc, value, h, vs, ch, why) \
	{ dc, 0, AT(d##_drm), 0, AT(d##_ch), value, h, vs, why },
#define RV(v, vc, value, h, vs, ch, why) \
	{ 0, vc, 0, AT(V4L2_##v##_v4l2), AT(V4L2_##v##_ch), value, h, vs, why },
#include "formats.h"
};

enum row {
#define F(d, ...) ROW_##d,
#define FD(d, ...) ROW_##d,
#define FV(v, ...) ROW_V4L2_##v,
#define R(d, ...) ROW_##d,
#define RD(d, ...) ROW_##d,
#define RV(v, ...) ROW_V4L2_##v,
#include "formats.h"
};

static const struct {
	uint16_t row;
	struct format_fields fields;
} fields[] = {
#define W(r, letters, ...) { ROW_##r, { letters, { __VA_ARGS__ }, false } },
#define WS(r, letters, ...) { ROW_##r, { letters, { __VA_ARGS__ }, true } },
#include "formats.h"
};

static const struct {
	uint16_t row;
	struct format_packed packed;
} csi2[] = {
#define P(r, letters, depth) { ROW_##r, { letters, depth } },
#include "formats.h"
};

static const struct multi {
	uint32_t code;
	uint16_t name, row;
} multis[] = {
#define M(v, vc, r) { vc, AT(M_##v), ROW_##r },
#include "formats.h"
};

static const struct alias {
	uint32_t code;
	uint16_t row;
	uint64_t modifier;
} aliases[] = {
#define L(name, code, modifier, r) { code, ROW_##r, modifier },
#include "formats.h"
};

/* The names of frameworks that have no codes, and an empty one at the end. */
static const struct foreign {
	char name[16];
	uint16_t row;
} gstreamer[] = {
#define G(name, r) { name, ROW_##r },
#include "formats.h"
	{ "", 0 }
}, ffmpeg[] = {
#define A(name, r) { name, ROW_##r },
#include "formats.h"
	{ "", 0 }
};

static const char *string(uint16_t at)
{
	return (const char *)&strings + at;
}

const char *format_name(const struct format *f)
{
	return string(f->drm ? f->drm_name : f->v4l2_name);
}

const char *format_reason(const struct format *f)
{
	switch ((enum reason)f->reason) {
	case NO_REASON:
		return NULL;
	case BITS:
		return "its components are bit fields of a pixel";
	case PACKED:
		return "its pixels share bytes";
	case ENDIAN:
		return "it is big-endian, and shown as bytes only";
	case LINES:
		return "lines of luma and of chroma take turns";
	case UNDOCUMENTED:
		return "no specification says where its bits are";
	case TILED:
		return "its pixels are in blocks, not in rows";
	case COMPRESSED:
		return "it is compressed";
	case VENDOR:
		return "only the camera's own driver knows its layout";
	case RADIO:
		return "it is radio samples, not a picture";
	case METADATA:
		return "it is metadata, not a picture";
	}
	return "unknown";
}

const char *format_channels(const struct format *f, uint32_t plane, uint32_t *n)
{
	const char *s = string(f->channels);

	while (plane)
		plane -= *s++ == ',';
	*n = 0;
	while (s[*n] && s[*n] != ',')
		++*n;
	return s;
}

const struct format_fields *format_fields(const struct format *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (&formats[fields[i].row] == f)
			return &fields[i].fields;
	return NULL;
}

const struct format_packed *format_packed(const struct format *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(csi2); i++)
		if (&formats[csi2[i].row] == f)
			return &csi2[i].packed;
	return NULL;
}

bool format_is_mosaic(const struct format *f)
{
	return strchr(string(f->channels), '/');
}

/* Values in a group of each plane, 4 bits each, then pixels in a group of the first. */
static uint32_t find_planes(const struct format *f)
{
	const char *first = string(f->channels), *s = first;
	uint32_t n = 0, luma = 0, packed = 0, channels;

	do {
		const char *plane = s;

		while (*s && *s != ',')
			s++;
		channels = s - plane;
		/* A group of packed 4:2:2 has several Y. A mosaic has one plane. */
		for (uint32_t i = 0; !n && i < channels && channels > 1; i++) {
			luma += first[i] == 'Y';
			if (first[i] == '/')
				channels = 1;
		}
		packed |= channels << 4 * n++;
	} while (*s++);
	return packed | (luma > 1 ? luma : 1) << 16;
}

/* Computed once per format, because every frame asks for it. */
uint32_t format_planes(const struct format *f,
		       struct dlbuf_format_plane planes[DLBUF_MAX_PLANES])
{
	static uint32_t known[ARRAY_SIZE(formats)]; /* atomic; 0: not yet */
	uint32_t p = __atomic_load_n(&known[f - formats], __ATOMIC_RELAXED), n = 0;

	if (!p) {
		p = find_planes(f);
		__atomic_store_n(&known[f - formats], p, __ATOMIC_RELAXED);
	}
	planes[0] = (struct dlbuf_format_plane){ p & 15, f->bits, p >> 16, 1 };
	while (p >>= 4, ++n < DLBUF_MAX_PLANES && p & 15)
		planes[n] = (struct dlbuf_format_plane){ p & 15, f->bits, f->hsub, f->vsub };
	return n;
}

uint32_t format_find_component(const char *channels, uint32_t n, char which,
			       uint32_t *first, uint32_t *step)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		if (channels[i] == which && !count++)
			*first = i;
	if (!count || n % count)
		return 0;
	*step = n / count;
	for (uint32_t i = 0; i < count; i++)
		if (*first + i * *step >= n ||
		    channels[*first + i * *step] != which)
			return 0;
	return count;
}

/* Whether every component is evenly spaced, and a frame has room for them. */
static bool has_components(const struct format *f, uint32_t nplanes)
{
	uint32_t total = 0, n, first, step;

	for (uint32_t i = 0; i < nplanes; i++) {
		const char *s = format_channels(f, i, &n);

		for (uint32_t j = 0; j < n; j++) {
			if (s[j] == 'X' || strchr(s, s[j]) != s + j)
				continue;
			if (!format_find_component(s, n, s[j], &first, &step))
				return false;
			total++;
		}
	}
	return total <= DLBUF_MAX_PLANES;
}

static uint32_t find_views(const struct format *f)
{
	uint32_t views = 1u << DLBUF_VIEW_BYTES;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES], p;
	uint32_t nplanes, n, first, step, pixel;
	const char *s;

	if (f->reason >= TILED)
		return views;
	views |= 1u << DLBUF_VIEW_ROWS;
	nplanes = format_planes(f, planes);
	p = planes[0];
	pixel = p.channels * p.bits;
	if ((f->reason == BITS || f->reason == NO_REASON) && nplanes == 1 &&
	    f->type == kDLUInt && p.hsub == 1 && !(pixel & (pixel - 1)))
		views |= 1u << DLBUF_VIEW_WORDS;
	if (f->reason)
		return views;
	views |= 1u << DLBUF_VIEW_PLANES;
	if (format_is_mosaic(f))
		return views | 1u << DLBUF_VIEW_CFA;
	s = format_channels(f, 0, &n);
	if (nplanes == 1 && p.hsub == 1 &&
	    (n == 3 || (n == 4 && (strchr("AX", s[0]) || strchr("AX", s[3])))))
		views |= 1u << DLBUF_VIEW_COLOUR;
	if (format_find_component(s, n, 'Y', &first, &step))
		views |= 1u << DLBUF_VIEW_LUMA;
	if (has_components(f, nplanes))
		views |= 1u << DLBUF_VIEW_COMPONENTS;
	if (nplanes > 1 && n == 1)
		views |= 1u << DLBUF_VIEW_STACKED;
	return views;
}

/* Computed once per format, because every frame asks for it. */
uint32_t format_views(const struct format *f)
{
	static uint16_t known[ARRAY_SIZE(formats)]; /* atomic; 0: not yet */
	uint16_t *views = &known[f - formats];
	uint32_t v = __atomic_load_n(views, __ATOMIC_RELAXED);

	if (!v) {
		v = find_views(f);
		__atomic_store_n(views, v, __ATOMIC_RELAXED);
	}
	return v;
}

enum dlbuf_view format_rows_view(const struct format *f)
{
	static const enum dlbuf_view views[] = { DLBUF_VIEW_PLANES, DLBUF_VIEW_WORDS,
						 DLBUF_VIEW_ROWS };
	size_t i = 0;

	while (i < ARRAY_SIZE(views) && !(format_views(f) & 1u << views[i]))
		i++;
	return i < ARRAY_SIZE(views) ? views[i] : DLBUF_VIEW_BYTES;
}

static const struct format *find_alias(uint32_t code, uint64_t modifier)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (aliases[i].code == code && aliases[i].modifier == modifier)
			return &formats[aliases[i].row];
	return NULL;
}

const struct format *format_find(uint32_t code, uint64_t modifier,
				 enum dlbuf_code_space space, bool *alias)
{
	const struct format *f;

	*alias = false;
	if (!code)
		return NULL;
	if (space == DLBUF_CODE_LIBCAMERA) {
		f = find_alias(code, modifier);
		if (f) {
			*alias = true;
			return f;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (code == (space == DLBUF_CODE_V4L2 ? formats[i].v4l2 :
							formats[i].drm))
			return &formats[i];
	if (space == DLBUF_CODE_V4L2)
		for (size_t i = 0; i < ARRAY_SIZE(multis); i++)
			if (code == multis[i].code)
				return &formats[multis[i].row];
	return NULL;
}

const char *code_space_name(enum dlbuf_code_space space)
{
	switch (space) {
	case DLBUF_CODE_DRM:
		return "DRM";
	case DLBUF_CODE_V4L2:
		return "V4L2";
	case DLBUF_CODE_LIBCAMERA:
		return "libcamera";
	case DLBUF_CODE_GSTREAMER:
		return "GStreamer";
	case DLBUF_CODE_FFMPEG:
		return "FFmpeg";
	}
	return "unknown";
}

const char *dlbuf_view_name(enum dlbuf_view view)
{
	switch (view) {
	case DLBUF_VIEW_PLANES:
		return "planes";
	case DLBUF_VIEW_COLOUR:
		return "colour";
	case DLBUF_VIEW_LUMA:
		return "luma";
	case DLBUF_VIEW_COMPONENTS:
		return "components";
	case DLBUF_VIEW_CFA:
		return "cfa";
	case DLBUF_VIEW_STACKED:
		return "stacked";
	case DLBUF_VIEW_WORDS:
		return "words";
	case DLBUF_VIEW_ROWS:
		return "rows";
	case DLBUF_VIEW_BYTES:
		return "bytes";
	}
	return "unknown";
}

static struct dlbuf_format_info info_of(const struct format *f)
{
	struct dlbuf_format_info info = {
		.size = sizeof(info),
		.drm_name = f->drm ? string(f->drm_name) : NULL,
		.v4l2_name = f->v4l2 ? string(f->v4l2_name) : NULL,
		.drm_code = f->drm,
		.v4l2_code = f->v4l2,
		.dtype = { f->type, f->bits, 1 },
		.depth = f->depth,
		.shift = f->shift,
		.channels = string(f->channels),
		.views = format_views(f),
		.reason = format_reason(f),
	};

	info.nplanes = format_planes(f, info.planes);
	for (size_t i = 0; i < ARRAY_SIZE(multis); i++)
		if (&formats[multis[i].row] == f) {
			info.v4l2_multi_name = string(multis[i].name);
			info.v4l2_multi_code = multis[i].code;
		}
	return info;
}

static bool has_codes(enum dlbuf_code_space space)
{
	return space >= DLBUF_CODE_DRM && space <= DLBUF_CODE_LIBCAMERA;
}

int dlbuf_format_find(uint32_t code, uint64_t modifier,
		      enum dlbuf_code_space space,
		      struct dlbuf_format_info *info)
{
	struct dlbuf_format_info out;
	const struct format *f;
	bool alias;

	if (!has_codes(space))
		return fail(-EINVAL, "code space %d is not DRM, V4L2 or "
			    "libcamera", space);
	f = format_find(code, modifier, space, &alias);
	if (!f)
		return fail(-EINVAL, "%s has no format %s that dlbuf knows",
			    code_space_name(space), code_text(code).s);
	out = info_of(f);
	return INFO_PUT(info, &out, "dlbuf_format_info");
}

const char *dlbuf_format_channels(uint32_t code, uint64_t modifier,
				  enum dlbuf_code_space space)
{
	bool alias;
	const struct format *f = has_codes(space) ?
				 format_find(code, modifier, space, &alias) : NULL;

	return f ? string(f->channels) : NULL;
}

static const struct foreign *names_of(enum dlbuf_code_space space)
{
	return space == DLBUF_CODE_GSTREAMER ? gstreamer : ffmpeg;
}

static const struct format *find_name(const char *name,
				      enum dlbuf_code_space space)
{
	if (space >= DLBUF_CODE_GSTREAMER) {
		for (const struct foreign *f = names_of(space); f->name[0]; f++)
			if (!strcasecmp(name, f->name))
				return &formats[f->row];
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct format *f = &formats[i];

		if (space == DLBUF_CODE_DRM ?
		    f->drm && !strcasecmp(name, string(f->drm_name)) :
		    f->v4l2 && !strcasecmp(name, string(f->v4l2_name)))
			return f;
	}
	for (size_t i = 0; space == DLBUF_CODE_V4L2 && i < ARRAY_SIZE(multis); i++)
		if (!strcasecmp(name, string(multis[i].name)))
			return &formats[multis[i].row];
	return NULL;
}

int dlbuf_format_find_name(const char *name, enum dlbuf_code_space space,
			   struct dlbuf_format_info *info)
{
	struct dlbuf_format_info out;
	const struct format *f;

	if (!name)
		return fail(-EINVAL, "name is NULL");
	if (!space || space == DLBUF_CODE_LIBCAMERA || (unsigned int)space > DLBUF_CODE_FFMPEG)
		return fail(-EINVAL, "code space %d has no names of its own: say DRM, "
			    "V4L2, GStreamer or FFmpeg", space);
	f = find_name(name, space);
	if (!f)
		return fail(-EINVAL, "there is no format %s of %s", name,
			    code_space_name(space));
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

/* The names that a row has itself. */
static int own_names(const struct dlbuf_format_info *info, dlbuf_format_name_fn fn,
		     void *data)
{
	int ret = info->drm_name ? fn(info->drm_name, DLBUF_CODE_DRM, info, data) : 0;

	if (!ret && info->v4l2_name)
		ret = fn(info->v4l2_name, DLBUF_CODE_V4L2, info, data);
	if (!ret && info->v4l2_multi_name)
		ret = fn(info->v4l2_multi_name, DLBUF_CODE_V4L2, info, data);
	return ret;
}

static int foreign_names(enum dlbuf_code_space space, dlbuf_format_name_fn fn, void *data)
{
	int ret = 0;

	for (const struct foreign *f = names_of(space); !ret && f->name[0]; f++) {
		struct dlbuf_format_info info = info_of(&formats[f->row]);

		ret = fn(f->name, space, &info, data);
	}
	return ret;
}

int dlbuf_format_names(dlbuf_format_name_fn fn, void *data)
{
	int ret = 0;

	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	for (size_t i = 0; i < ARRAY_SIZE(formats) && !ret; i++) {
		struct dlbuf_format_info info = info_of(&formats[i]);

		ret = own_names(&info, fn, data);
	}
	if (!ret)
		ret = foreign_names(DLBUF_CODE_GSTREAMER, fn, data);
	return ret ? ret : foreign_names(DLBUF_CODE_FFMPEG, fn, data);
}
