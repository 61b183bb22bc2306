// SPDX-License-Identifier: MIT
/* Makes tensors of a frame: the cropped planes, a view of them, the tensors. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <dlbuf/fence.h>

#include "../access/lease.h"
#include "../access/pending.h"
#include "../dmabuf/fence.h"
#include "../import/backend.h"
#include "../import/cache.h"
#include "../import/layout.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../tensor/tensor.h"
#include "detile.h"
#include "format.h"
#include "frame.h"

#define NATIVE_BITS (__BYTE_ORDER == __LITTLE_ENDIAN ? 64 : 8)

int frame_bad_unused(const struct dlbuf_frame *f)
{
	const uint32_t unknown = f->flags & ~FRAME_FLAGS;
	const uint8_t *colour = f->colour.reserved;

	if (unknown)
		return unknown_flags("frame", unknown);
	if (f->reserved)
		return fail(-EINVAL, "the frame's reserved is 0x%x: it must be 0", f->reserved);
	if (f->reserved2)
		return fail(-EINVAL, "the frame's reserved2 is not NULL");
	if (colour[0] || colour[1])
		return fail(-EINVAL, "the frame's colour.reserved is { %u, %u }: it must be 0",
			    colour[0], colour[1]);
	for (uint32_t i = 0; i < f->nplanes && i < DLBUF_MAX_PLANES; i++)
		if (f->planes[i].reserved)
			return fail(-EINVAL, "the frame's plane %u has a reserved of 0x%x: it must "
				    "be 0", i, f->planes[i].reserved);
	return 0;
}

int frame_find_format(const struct dlbuf_frame *f, const struct format **out,
		      bool *linear)
{
	int ret = frame_check_unused(f);
	bool alias;

	if (ret)
		return ret;
	if (f->code_space < DLBUF_CODE_DRM ||
	    f->code_space > DLBUF_CODE_LIBCAMERA)
		return fail(-EINVAL, "the frame's code space %d is not DRM, "
			    "V4L2 or libcamera", f->code_space);
	if ((uint32_t)f->orientation > DLBUF_ORIENTATION_TRANSVERSE)
		return fail(-EINVAL, "the frame's orientation is %d: 0 to 7 are possible",
			    f->orientation);
	*out = format_find(f->code, f->modifier, f->code_space, &alias);
	if (!*out && f->code & 1u << 31)
		return fail(-EOPNOTSUPP, "dlbuf does not know the big-endian "
			    "format %s",
			    code_text(f->code & ~(1u << 31)).s);
	if (!*out)
		return fail(-EINVAL, "%s has no format %s that dlbuf knows",
			    code_space_name(f->code_space),
			    code_text(f->code).s);
	*linear = alias || f->modifier == DLBUF_MOD_LINEAR;
	return 0;
}

/* The error for a view that the format does not have; lists those that it has. */
static int no_view(const struct format *f, enum dlbuf_view view)
{
	const char *reason = format_reason(f);
	uint32_t views = format_views(f);
	char list[96] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < DLBUF_NVIEWS; i++) {
		if (views & 1u << i)
			n += snprintf(list + n, sizeof(list) - n, "%s%s",
				      n ? ", " : "", dlbuf_view_name(i));
	}
	return fail(-EOPNOTSUPP, "format %s has no view \"%s\"%s%s, only: %s",
		    format_name(f), dlbuf_view_name(view), reason ? ": " : "",
		    reason ? reason : "", list);
}

/* Fills in the fields of p that depend on the format. picture_of() sets the rest. */
static int fill_by_format(const struct dlbuf_frame *f, enum dlbuf_view view,
		       struct picture *p)
{
	const struct format_fields *fields;
	const struct format *format;
	uint32_t hsub, bits;
	bool linear;
	int ret;

	ret = frame_find_format(f, &format, &linear);
	if (ret)
		return ret;
	if (!(format_views(format) & 1u << view))
		return no_view(format, view);
	if (!f->nplanes || f->nplanes > DLBUF_MAX_PLANES)
		return fail(-EINVAL, "the frame has %u planes, 1 to %d "
			    "are possible", f->nplanes, DLBUF_MAX_PLANES);
	p->format = format;
	p->value = format->bits / 8;
	if (view == DLBUF_VIEW_BYTES)
		return 0;
	p->nplanes = format_planes(format, p->format_planes);
	if (f->modifier == DLBUF_MOD_INVALID)
		return fail(-EOPNOTSUPP, "the frame's modifier is INVALID, "
			    "which means unknown: say LINEAR if it is");
	if (!linear)
		return fail(-EOPNOTSUPP, "modifier 0x%016llx is not linear: "
			    "tensors need a copy, which "
			    "the option MAY_COPY allows",
			    (unsigned long long)f->modifier);
	if (!f->width || !f->height)
		return fail(-EINVAL, "the frame is %ux%u pixels large", f->width,
			    f->height);
	/* Packed 4:2:2 shares chroma between two pixels of one group. */
	hsub = p->format_planes[0].hsub;
	if (f->width % hsub)
		return fail(-EINVAL, "a width of %u is not a multiple of %u, "
			    "as %s needs", f->width, hsub, format_name(format));
	if (f->nplanes > p->nplanes)
		return fail(-EINVAL, "the frame has %u planes, %s has %u",
			    f->nplanes, format_name(format), p->nplanes);
	bits = format->bits;
	if (view == DLBUF_VIEW_WORDS)
		bits *= p->format_planes[0].channels;
	/* Words that begin with their highest byte are big-endian. */
	fields = bits > NATIVE_BITS ? format_fields(format) : NULL;
	if (bits > NATIVE_BITS && view != DLBUF_VIEW_ROWS && !(fields && fields->swapped))
		return fail(-EOPNOTSUPP, "%s is little-endian, DLPack has "
			    "native byte order only", format_name(format));
	return 0;
}

int frame_crop(const struct dlbuf_frame *f, struct dlbuf_rect *crop)
{
	static const struct dlbuf_rect all;

	*crop = f->crop;
	if (!memcmp(crop, &all, sizeof(all))) {
		*crop = (struct dlbuf_rect){ 0, 0, f->width, f->height };
		return 0;
	}
	if (!crop->width || !crop->height || crop->x >= f->width ||
	    crop->y >= f->height || crop->width > f->width - crop->x ||
	    crop->height > f->height - crop->y)
		return fail(-EINVAL, "the crop of %ux%u at %u,%u is not inside "
			    "the frame of %ux%u", crop->width, crop->height,
			    crop->x, crop->y, f->width, f->height);
	return 0;
}

/*
 * Gets plane i of the frame. If the frame has one plane for a format of several, the
 * other planes follow it in memory: each begins where the previous one ends. The pitch of
 * such a plane has the same ratio to the pitch of luma as the values of a row have. So
 * NV12 has the pitch of luma, I420 half of it, and NV24 twice.
 */
static int plane_of(const struct dlbuf_frame *f, const struct picture *pic,
		    uint32_t i, struct dlbuf_plane *out)
{
	const struct format *format = pic->format;
	uint64_t end = f->planes[0].offset;
	int64_t luma = f->planes[0].pitch;

	if (i < f->nplanes) {
		*out = f->planes[i];
		return 0;
	}
	if (f->code_space == DLBUF_CODE_DRM || f->nplanes != 1)
		return fail(-EINVAL, "format %s has %u planes, the frame "
			    "has %u",
			    format_name(format), pic->nplanes,
			    f->nplanes);
	if (luma <= 0)
		return fail(-EINVAL, "the other planes of %s cannot follow one "
			    "with a pitch of %lld", format_name(format),
			    (long long)luma);
	for (uint32_t j = 0; j <= i; j++) {
		struct dlbuf_format_plane p = pic->format_planes[j];
		uint64_t pitch, bytes;

		if (__builtin_mul_overflow((uint64_t)luma, p.channels, &pitch) ||
		    __builtin_mul_overflow(pitch / p.hsub, format_groups(f->height, p.vsub),
					   &bytes) ||
		    (int64_t)pitch < 0)
			return fail(-EOVERFLOW, "the planes of %ux%u pixels "
				    "with a pitch of %lld do not fit 64 bits",
				    f->width, f->height, (long long)luma);
		if (pitch % p.hsub)
			return fail(-EOPNOTSUPP, "a pitch of %lld does not "
				    "divide by %u for plane %u of %s",
				    (long long)luma, p.hsub, j,
				    format_name(format));
		*out = (struct dlbuf_plane){
			.fd = f->planes[0].fd,
			.offset = end,
			.pitch = pitch / p.hsub,
		};
		if (__builtin_add_overflow(end, bytes, &end))
			return fail(-EOVERFLOW, "the planes of %ux%u pixels "
				    "with a pitch of %lld do not fit 64 bits",
				    f->width, f->height, (long long)luma);
	}
	return 0;
}

/* Moves the start of a plane to the first row and column of the crop. */
static int plane_crop(const struct dlbuf_plane *plane, uint32_t i, uint32_t row,
		      uint64_t column_bytes, uint64_t *offset)
{
	int64_t rows, at;

	if (__builtin_mul_overflow(plane->pitch, (int64_t)row, &rows) ||
	    __builtin_add_overflow(rows, (int64_t)column_bytes, &rows) ||
	    plane->offset > INT64_MAX ||
	    __builtin_add_overflow((int64_t)plane->offset, rows, &at))
		return fail(-EOVERFLOW, "plane %u: the offset of the crop does "
			    "not fit 64 bits", i);
	if (at < 0)
		return fail(-ERANGE, "plane %u: the crop begins %llu bytes "
			    "before the buffer", i, -(unsigned long long)at);
	*offset = at;
	return 0;
}

static int grid_of(const struct dlbuf_frame *f, const struct dlbuf_rect *crop,
		   uint32_t i, struct picture *pic)
{
	struct dlbuf_format_plane p = pic->format_planes[i];
	uint32_t value = pic->value, group = p.channels * value;
	struct dlbuf_plane plane = { 0 };
	struct grid *out = &pic->planes[i];
	uint64_t row;
	int ret;

	ret = plane_of(f, pic, i, &plane);
	if (ret)
		return ret;
	if (value > 1 && (plane.pitch % value || plane.offset % value))
		return fail(-EOPNOTSUPP, "plane %u: a pitch of %lld and an "
			    "offset of %llu bytes are not whole %u-bit values",
			    i, (long long)plane.pitch,
			    (unsigned long long)plane.offset, p.bits);
	out->columns = format_groups(crop->width, p.hsub);
	row = (uint64_t)(crop->width == f->width ? out->columns :
						   format_groups(f->width, p.hsub)) * group;
	if (plane.pitch < (int64_t)row && plane.pitch > -(int64_t)row)
		return fail(-EINVAL, "plane %u: a pitch of %lld bytes is less "
			    "than the %llu of a row", i, (long long)plane.pitch,
			    (unsigned long long)row);
	out->fd = plane.fd;
	out->pitch = plane.pitch;
	out->offset = plane.offset;
	out->rows = format_groups(crop->height, p.vsub);
	out->channels = p.channels;
	out->hsub = p.hsub;
	if (!(crop->x | crop->y) && plane.offset <= INT64_MAX)
		return 0;
	ret = frame_crop_begins(crop, &p, i);
	if (ret)
		return ret;
	return plane_crop(&plane, i, crop->y / p.vsub,
			  (uint64_t)(crop->x / p.hsub) * group, &out->offset);
}

static int picture_of(const struct dlbuf_frame *f, struct picture *p)
{
	struct dlbuf_rect crop;
	uint32_t hsub;
	int ret = frame_crop(f, &crop);

	if (ret)
		return ret;
	if ((crop.x % 2 || crop.y % 2) && format_is_mosaic(p->format))
		return fail(-EOPNOTSUPP, "the crop begins at %u,%u, where the "
			    "mosaic of %s does not", crop.x, crop.y,
			    format_name(p->format));
	hsub = p->format_planes[0].hsub;
	if (crop.width % hsub)
		return fail(-EOPNOTSUPP, "the crop is %u pixels wide, %s comes "
			    "in groups of %u", crop.width,
			    format_name(p->format), hsub);
	p->width = crop.width;
	p->height = crop.height;
	p->cropped = crop.width != f->width || crop.height != f->height;
	for (uint32_t i = 0; i < p->nplanes; i++) {
		ret = grid_of(f, &crop, i, p);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Writes a layout with the shape [rows, columns], or [rows, columns, channels]. A value
 * has `bytes` bytes, and `step` values are between two columns.
 */
static void put_layout(struct dlbuf_frame_layout *out, const struct picture *p,
		       uint32_t plane, uint32_t first, uint64_t columns, uint32_t step,
		       uint32_t channels)
{
	const struct grid *g = &p->planes[plane];

	*out = (struct dlbuf_frame_layout){
		.layout = {
			.ndim = channels ? 3 : 2,
			.dtype = { p->format->type, p->format->bits, 1 },
			.shape = out->shape,
			.strides = out->strides,
			.byte_offset = g->offset + (uint64_t)first * p->value,
		},
		.shape = { g->rows, columns, channels },
		.strides = { g->pitch / p->value, step, 1 },
		.plane = plane,
		.fd = g->fd,
	};
}

static int view_planes(const struct picture *p, struct dlbuf_frame_layout *out,
		       uint32_t *n)
{
	for (uint32_t i = 0; i < p->nplanes; i++) {
		const struct grid *g = &p->planes[i];

		put_layout(&out[i], p, i, 0, g->columns, g->channels,
			   g->channels > 1 ? g->channels : 0);
	}
	*n = p->nplanes;
	return 0;
}

static int view_colour(const struct picture *p, struct dlbuf_frame_layout *out,
		       uint32_t *n)
{
	uint32_t letters;
	const char *s = format_channels(p->format, 0, &letters);

	put_layout(out, p, 0, letters == 4 && strchr("AX", s[0]), p->planes[0].columns,
		   letters, 3);
	*n = 1;
	return 0;
}

static void put_component(struct dlbuf_frame_layout *out,
			  const struct picture *p, uint32_t plane, char which)
{
	uint32_t letters, first = 0, step = 1, count;
	const char *s = format_channels(p->format, plane, &letters);

	count = format_find_component(s, letters, which, &first, &step);
	put_layout(out, p, plane, first, (uint64_t)p->planes[plane].columns * count,
		   step, 0);
}

static int view_luma(const struct picture *p, struct dlbuf_frame_layout *out,
		     uint32_t *n)
{
	put_component(out, p, 0, 'Y');
	*n = 1;
	return 0;
}

static int view_components(const struct picture *p,
			   struct dlbuf_frame_layout *out, uint32_t *n)
{
	uint32_t total = 0, letters;

	for (uint32_t i = 0; i < p->nplanes; i++) {
		const char *s = format_channels(p->format, i, &letters);

		for (uint32_t j = 0; j < letters; j++)
			if (s[j] != 'X' && strchr(s, s[j]) == s + j)
				put_component(&out[total++], p, i, s[j]);
	}
	*n = total;
	return 0;
}

/* Cells of 2x2 values. The format has the pattern of a cell. */
static int view_cfa(const struct picture *p, struct dlbuf_frame_layout *out,
		    uint32_t *n)
{
	int64_t pitch = p->planes[0].pitch / p->value, two;

	if (__builtin_mul_overflow(pitch, 2, &two))
		return fail(-EOVERFLOW, "two rows of %lld bytes do not fit 64 "
			    "bits", (long long)p->planes[0].pitch);
	if (p->width % 2 || p->height % 2)
		return fail(-EOPNOTSUPP, "%ux%u pixels are no whole number of "
			    "2x2 cells", p->width, p->height);
	put_layout(out, p, 0, 0, p->width / 2, 2, 2);
	out->layout.ndim = 4;
	out->shape[0] = p->height / 2;
	out->shape[3] = 2;
	out->strides[0] = two;
	out->strides[2] = pitch;
	out->strides[3] = 1;
	*n = 1;
	return 0;
}

static int view_stacked(const struct picture *p,
			struct dlbuf_frame_layout *out, uint32_t *n)
{
	const struct grid *first = &p->planes[0];
	uint64_t width = (uint64_t)first->columns * p->value;
	bool one_pitch = true, compact = true;
	uint64_t end = first->offset, rows = 0, bytes = 0;

	for (uint32_t i = 0; i < p->nplanes; i++) {
		const struct grid *g = &p->planes[i];
		uint64_t row = (uint64_t)g->columns * g->channels * p->value;
		uint64_t size;

		if (g->fd != first->fd || g->offset != end || g->pitch < 0 ||
		    __builtin_mul_overflow((uint64_t)g->pitch,
					   (uint64_t)g->rows, &size) ||
		    __builtin_add_overflow(end, size, &end))
			return fail(-EOPNOTSUPP, "plane %u%s does not follow the "
				    "one before in the same dma-buf, as view "
				    "\"stacked\" needs", i,
				    p->cropped ? " of the crop" : "");
		one_pitch &= g->pitch == first->pitch && row == width;
		compact &= g->pitch == (int64_t)row;
		rows += g->rows;
		bytes += size;
	}
	if (!one_pitch && compact && !(bytes % width))
		rows = bytes / width;
	else if (!one_pitch)
		return fail(-EOPNOTSUPP, "the planes of %s have different "
			    "pitches and padding, view \"stacked\" needs one "
			    "pitch or none", format_name(p->format));
	put_layout(out, p, 0, 0, first->columns, 1, 0);
	out->shape[0] = rows;
	*n = 1;
	return 0;
}

static int view_words(const struct picture *p, struct dlbuf_frame_layout *out,
		      uint32_t *n)
{
	const struct grid *g = &p->planes[0];
	uint32_t word = g->channels * p->value;

	if (g->pitch % word || g->offset % word)
		return fail(-EOPNOTSUPP, "a pitch of %lld and an offset of "
			    "%llu bytes are not whole %u-bit words",
			    (long long)g->pitch, (unsigned long long)g->offset,
			    word * 8);
	put_layout(out, p, 0, 0, g->columns, 1, 0);
	out->layout.dtype.bits = word * 8;
	out->strides[0] = g->pitch / word;
	*n = 1;
	return 0;
}

/*
 * If pixels share bytes, the table of formats does not say how many bytes a row has. So
 * the tensor has the whole pitch, and rows cannot be cropped.
 */
static int view_rows(const struct dlbuf_frame *f, const struct picture *p,
		     struct dlbuf_frame_layout *out, uint32_t *n)
{
	bool whole = p->format->reason > BITS ||
		     (p->format->reason && p->nplanes > 1);

	if (whole && p->width != f->width)
		return fail(-EOPNOTSUPP, "a row of %s cannot be cropped to %u "
			    "of %u pixels: %s", format_name(p->format),
			    p->width, f->width, format_reason(p->format));
	for (uint32_t i = 0; i < p->nplanes; i++) {
		const struct grid *g = &p->planes[i];

		if (whole && g->pitch <= 0)
			return fail(-EOPNOTSUPP, "plane %u: rows of %lld bytes "
				    "cannot be shown whole", i,
				    (long long)g->pitch);
		put_layout(&out[i], p, i, 0, whole ? (uint64_t)g->pitch :
			   (uint64_t)g->columns * g->channels * p->value, 1, 0);
		out[i].layout.dtype = (DLDataType){ kDLUInt, 8, 1 };
		out[i].strides[0] = g->pitch;
	}
	*n = p->nplanes;
	return 0;
}

static int view_bytes(const struct dlbuf_frame *f,
		      struct dlbuf_frame_layout *out, uint32_t *n)
{
	for (uint32_t i = 0; i < f->nplanes; i++) {
		const struct dlbuf_plane *plane = &f->planes[i];

		if (!plane->bytes || plane->bytes > INT64_MAX)
			return fail(-EINVAL, "plane %u: the frame does not say "
				    "how many bytes are in it", i);
		out[i] = (struct dlbuf_frame_layout){
			.plane = i,
			.fd = plane->fd,
			.shape = { plane->bytes },
			.strides = { 1 },
			.layout = {
				.ndim = 1,
				.dtype = { kDLUInt, 8, 1 },
				.shape = out[i].shape,
				.strides = out[i].strides,
				.byte_offset = plane->offset,
			},
		};
	}
	*n = f->nplanes;
	return 0;
}

/* The end of the frame's bytes of a layout in the dma-buf; UINT64_MAX: unknown. */
static uint64_t limit_of(const struct dlbuf_frame *f, const struct dlbuf_frame_layout *layout)
{
	const struct dlbuf_plane *p = &f->planes[layout->plane < f->nplanes ? layout->plane : 0];
	uint64_t limit;

	return !p->bytes || __builtin_add_overflow(p->offset, p->bytes, &limit) ?
	       UINT64_MAX : limit;
}

static int check_limit(uint32_t plane, uint64_t end, uint64_t limit)
{
	if (end > limit)
		return fail(-ERANGE, "plane %u ends at byte %llu of its dma-buf, the frame's "
			    "bytes at %llu", plane, (unsigned long long)end,
			    (unsigned long long)limit);
	return 0;
}

int frame_part_of(const struct dlbuf_frame_layout *layout, uint32_t access, uint64_t limit,
		  struct frame_part *part)
{
	int ret = layout_extent(&layout->layout, &part->first, &part->end);

	part->access = access;
	return ret ? ret : check_limit(layout->plane, part->end, limit);
}

static int check_bytes(const struct dlbuf_frame *f,
		       const struct dlbuf_frame_layout *layouts, uint32_t n)
{
	struct frame_part part;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		uint64_t limit = limit_of(f, &layouts[i]);

		if (limit != UINT64_MAX)
			ret = frame_part_of(&layouts[i], 0, limit, &part);
	}
	return ret;
}

static int view_of(const struct dlbuf_frame *f, const struct picture *p,
		   enum dlbuf_view view, struct dlbuf_frame_layout *out, uint32_t *n)
{
	int ret;

	switch (view) {
	case DLBUF_VIEW_PLANES:
		return view_planes(p, out, n);
	case DLBUF_VIEW_COLOUR:
		return view_colour(p, out, n);
	case DLBUF_VIEW_LUMA:
		return view_luma(p, out, n);
	case DLBUF_VIEW_COMPONENTS:
		return view_components(p, out, n);
	case DLBUF_VIEW_CFA:
		return view_cfa(p, out, n);
	case DLBUF_VIEW_STACKED:
		/* Its one tensor has several planes. */
		ret = view_planes(p, out, n);
		if (!ret)
			ret = check_bytes(f, out, *n);
		return ret ? ret : view_stacked(p, out, n);
	case DLBUF_VIEW_WORDS:
		return view_words(p, out, n);
	case DLBUF_VIEW_ROWS:
	case DLBUF_VIEW_BYTES:
		break;
	}
	return view_rows(f, p, out, n);
}

/* frame_layouts() without the check of the planes' bytes. */
static int find_layouts(const struct dlbuf_frame *frame, const struct dlbuf_import_opts *opts,
			struct dlbuf_frame_layout out[DLBUF_MAX_PLANES], uint32_t *n)
{
	struct picture p;
	int ret = fill_by_format(frame, opts->view, &p);

	if (ret)
		return ret;
	if (opts->view == DLBUF_VIEW_BYTES)
		return view_bytes(frame, out, n);
	ret = picture_of(frame, &p);
	return ret ? ret : view_of(frame, &p, opts->view, out, n);
}

/* Whether the planes' bytes are still to be checked: BYTES and STACKED check them themselves. */
static bool has_limits(const struct dlbuf_import_opts *opts)
{
	return opts->view != DLBUF_VIEW_BYTES && opts->view != DLBUF_VIEW_STACKED;
}

int frame_layouts(const struct dlbuf_frame *frame,
		  const struct dlbuf_import_opts *opts,
		  struct dlbuf_frame_layout out[DLBUF_MAX_PLANES], uint32_t *n)
{
	uint32_t made = 0;
	int ret = find_layouts(frame, opts, out, &made);

	if (!ret && has_limits(opts))
		ret = check_bytes(frame, out, made);
	if (!ret)
		*n = made;
	return ret;
}

int dlbuf_frame_layouts(const struct dlbuf_frame *frame,
			const struct dlbuf_import_opts *opts,
			struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES],
			uint32_t *nlayouts)
{
	const struct dlbuf_frame *f = frame;
	struct dlbuf_import_opts o;
	struct dlbuf_frame own;
	int ret = 0;

	if (!frame || !layouts || !nlayouts)
		return fail(-EINVAL, "%s is NULL", !frame ? "frame" :
			    !layouts ? "layouts" : "nlayouts");
	/* Usually the frame needs no copy. */
	if (frame->size != sizeof(own)) {
		ret = OPTS_GET(&own, frame, "dlbuf_frame");
		f = &own;
	}
	if (!ret)
		ret = import_opts_get(opts, &o);
	return ret ? ret : frame_layouts(f, &o, layouts, nlayouts);
}

int frame_attach_fence(const struct dlbuf_frame *f)
{
	struct use uses[DLBUF_MAX_PLANES];
	uint32_t n = 0;

	if (frame_fence(f) == -1)
		return 0;
	for (uint32_t i = 0; i < f->nplanes; i++)
		use_add(uses, &n, (struct use){ .fd = f->planes[i].fd });
	for (uint32_t i = 0; i < n; i++) {
		int ret = dlbuf_fence_import(uses[i].fd, DLBUF_WRITE, f->fence);

		if (ret == -EOPNOTSUPP) {
			ret = fence_check_file(f->fence);
			return ret ? ret : dlbuf_fence_wait(f->fence, 0);
		}
		if (ret)
			return ret;
	}
	return 0;
}

/* State of frame_tensors(). */
struct making {
	struct lease *lease;
	size_t room;		/* bytes in the lease for each tensor */
	struct tensor *tensors[DLBUF_MAX_PLANES];
};

/*
 * Makes the lease, with a reference for each tensor. Layouts of a peer's message have up to
 * DLBUF_MAX_NDIM dimensions, those of a frame up to 4.
 */
static int making_begin(struct making *m, const struct dlbuf_frame_layout layouts[],
			uint32_t n)
{
	int32_t ndim = 0;

	for (uint32_t i = 0; i < n; i++)
		ndim = layouts[i].layout.ndim > ndim ? layouts[i].layout.ndim : ndim;
	m->room = tensor_size(ndim);
	m->lease = lease_create(n * m->room);
	if (!m->lease)
		return -ENOMEM;
	m->lease->refs = n;
	return 0;
}

/* Makes a tensor. If the previous tensor has the same dma-buf, it shares the import. */
static int make_tensor(struct making *m, struct dlbuf_device *dev,
		       const struct dlbuf_frame_layout layouts[], uint32_t i,
		       const struct frame_part *part, uint32_t paths)
{
	struct import *imp = NULL;
	int ret;

	for (uint32_t j = 0; j < i && !imp; j++)
		if (layouts[j].fd == layouts[i].fd)
			imp = m->tensors[j]->imp;
	if (imp) {
		ret = import_fits(imp, part->end);
		if (!ret)
			cache_ref(imp);
	} else {
		ret = cache_get(dev, layouts[i].fd, part->access, paths, part->end, &imp);
	}
	if (ret == -ERANGE)
		return fail(ret, "plane %u, fd %d: %s", layouts[i].plane,
			    layouts[i].fd, dlbuf_last_error());
	if (ret)
		return ret;
	/* Cannot fail, because it has room. */
	return tensor_create(imp, &layouts[i].layout, part->first, part->end, m->lease,
			     m->lease->room + i * m->room, &m->tensors[i]);
}

/*
 * Whether the tensors need a copy. Other errors of the frame are found later. The view
 * BYTES never needs a copy.
 */
static bool needs_copy(const struct dlbuf_frame *f,
		       const struct dlbuf_import_opts *o,
		       const struct format **format)
{
	bool linear;

	if (o->view == DLBUF_VIEW_BYTES || f->modifier == DLBUF_MOD_INVALID)
		return false;
	if (frame_find_format(f, format, &linear)) {
		forget_failure();
		return false;
	}
	return !linear || (detile_linear && o->flags & DLBUF_IMPORT_MAY_COPY);
}

int frame_tensors(struct dlbuf_device *dev,
		  const struct dlbuf_frame_layout layouts[],
		  const struct frame_part parts[], uint32_t paths, uint32_t n,
		  void (*release)(void *data), void *release_data,
		  DLManagedTensorVersioned *tensors[])
{
	struct making m;
	uint32_t i;
	int ret = making_begin(&m, layouts, n);

	if (ret)
		return ret;
	for (i = 0; i < n; i++) {
		ret = make_tensor(&m, dev, layouts, i, &parts[i], paths);
		if (ret)
			goto err;
	}
	for (i = 0; i < n; i++)
		tensors[i] = &m.tensors[i]->versioned;
	m.lease->release = release;
	m.lease->data = release_data;
	return 0;

err:
	while (i--)
		m.tensors[i]->versioned.deleter(&m.tensors[i]->versioned);
	/* References of the tensors that were not made are left, so it has not fired. */
	free(m.lease);
	return ret;
}

int frame_one_fd_each(struct dlbuf_frame *f)
{
	struct buffer_id ids[DLBUF_MAX_PLANES];
	uint32_t same = 1;

	/* Usually all planes have one number, and no system call is needed. */
	while (same < f->nplanes && same < DLBUF_MAX_PLANES &&
	       f->planes[same].fd == f->planes[0].fd)
		same++;
	if (same >= f->nplanes)
		return 0;
	for (uint32_t i = 0; i < f->nplanes && i < DLBUF_MAX_PLANES; i++) {
		uint32_t j = 0;
		int ret = buffer_identify(f->planes[i].fd, &ids[i]);

		if (ret)
			return ret;
		while (ids[j].ino != ids[i].ino || ids[j].dev != ids[i].dev ||
		       ids[j].access != ids[i].access)
			j++;
		f->planes[i].fd = f->planes[j].fd;
	}
	return 0;
}

/*
 * The kernel removes a fence from the dma-bufs when it signals, also with an error. So
 * the tensors' lease keeps the frame's fence, unless it has signalled without an error:
 * then *out is unchanged.
 */
static int keep_fence(int fence, int *out)
{
	if (fence_signalled(fence) > 0 && !fence_error(fence))
		return 0;
	*out = sys_dup(fence);
	return *out < 0 ? fail_errno("fence %d: fcntl(F_DUPFD_CLOEXEC)", fence) : 0;
}

/*
 * A frame whose layouts are known. The next frame of its stream has the same layouts, except
 * for the fds. The device keeps the last frame's layouts while no call uses them. Layouts
 * depend only on the frame, so they never become wrong.
 */
struct known_frame {
	struct dlbuf_frame frame;
	uint32_t view, n;	/* n is 0: nothing is known */
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	struct frame_part parts[DLBUF_MAX_PLANES];
};

static bool is_known(const struct known_frame *k, const struct dlbuf_frame *f, uint32_t view)
{
	const struct dlbuf_frame *known = &k->frame;
	bool same = k->n && k->view == view && known->width == f->width &&
		    known->height == f->height && known->code == f->code &&
		    known->code_space == f->code_space && known->modifier == f->modifier &&
		    known->nplanes == f->nplanes && known->orientation == f->orientation &&
		    known->crop.x == f->crop.x && known->crop.y == f->crop.y &&
		    known->crop.width == f->crop.width && known->crop.height == f->crop.height;

	for (uint32_t i = 0; same && i < f->nplanes; i++)
		same = known->planes[i].offset == f->planes[i].offset &&
		       known->planes[i].pitch == f->planes[i].pitch &&
		       known->planes[i].bytes == f->planes[i].bytes;
	/* The layout of this view depends on which planes have the same fd. */
	return same && view != DLBUF_VIEW_STACKED;
}

static int find_parts(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		      const struct dlbuf_import_opts *o, struct known_frame *k)
{
	const struct format *format = NULL;
	uint32_t n = 0;
	int ret = find_layouts(f, o, k->layouts, &n);

	/* The text names MAY_COPY only if it helps. Calls the function again for that text. */
	if (ret == -EOPNOTSUPP && !(needs_copy(f, o, &format) &&
				    detile_check(dev, f, format) == -EOPNOTSUPP))
		ret = find_layouts(f, o, k->layouts, &n);
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = frame_part_of(&k->layouts[i], 0, has_limits(o) ?
				    limit_of(f, &k->layouts[i]) : UINT64_MAX, &k->parts[i]);
	k->n = ret ? 0 : n;
	k->frame = *f;
	k->view = o->view;
	return ret;
}

/* Fills in *k, which may have the layouts of another frame. */
static int know(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		const struct dlbuf_import_opts *o, struct known_frame *k)
{
	/* find_parts() checks the unused members, too. */
	int ret = is_known(k, f, o->view) ? frame_check_unused(f) : find_parts(dev, f, o, k);

	for (uint32_t i = 0; i < k->n; i++) {
		uint32_t plane = k->layouts[i].plane;

		/* A derived plane is in the dma-buf of the plane before it. */
		k->layouts[i].fd = f->planes[plane < f->nplanes ? plane : 0].fd;
		k->parts[i].access = f->flags & DLBUF_FRAME_READ_ONLY ? DLBUF_READ : o->access;
	}
	return ret;
}

int frame_import(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		 const struct dlbuf_import_opts *o, uint32_t paths,
		 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		 uint32_t *ntensors)
{
	const struct format *format = NULL;
	struct known_frame *k;
	struct dlbuf_frame one;
	int ret, before = 0;

	if ((uint32_t)f->order > DLBUF_ORDER_FENCE)
		return fail(-EINVAL, "the frame's order is %d: 0 to 3 are possible", f->order);
	if (f->flags & DLBUF_FRAME_READ_ONLY && o->access & DLBUF_WRITE)
		return fail(-EACCES, "the frame is read-only: its producer lets others read "
			    "the buffer too");
	if (o->flags & DLBUF_IMPORT_MAY_COPY && needs_copy(f, o, &format))
		return detile_import(dev, f, format, o, tensors, ntensors);
	if (o->view == DLBUF_VIEW_STACKED && f->nplanes > 1) {
		one = *f;
		ret = frame_one_fd_each(&one);
		if (ret)
			return ret;
		f = &one;
	}
	k = __atomic_exchange_n(&dev->last_frame, NULL, __ATOMIC_ACQUIRE);
	if (!k)
		k = sys_calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	ret = know(dev, f, o, k);
	if (!ret && frame_fence(f) != -1) {
		ret = frame_attach_fence(f);
		if (!ret)
			ret = keep_fence(f->fence, &before);
	}
	if (!ret)
		ret = frame_tensors(dev, k->layouts, k->parts, paths, k->n, f->release,
				    f->release_data, tensors);
	if (!ret)
		*ntensors = k->n;
	free(__atomic_exchange_n(&dev->last_frame, k, __ATOMIC_ACQ_REL));
	if (ret) {
		if (before)
			close(before);
		return ret;
	}
	if (before)
		container_of(tensors[0], struct tensor, versioned)->lease->unreported.frame =
			before;
	return 0;
}

/* The caller's walk over formats and modifiers. */
struct walk {
	struct dlbuf_device *dev;
	dlbuf_device_format_fn fn;
	void *data;
	struct dlbuf_device_format f;
	int stopped;		/* the value with which fn ended the walk */
};

static void walk_modifier(uint64_t modifier, uint32_t nplanes, void *data)
{
	struct walk *w = data;

	if (w->stopped || modifier == DLBUF_MOD_LINEAR)
		return;
	w->f.modifier = modifier;
	w->f.nplanes = nplanes;
	w->f.flags = DLBUF_DEVICE_FORMAT_COPY;
	w->stopped = w->fn(&w->f, w->data);
}

static int walk_format(const struct dlbuf_format_info *info, void *data)
{
	struct walk *w = data;
	uint32_t paths = PATHS_OF(w->dev->backend);
	struct dlbuf_frame frame = { .code_space = DLBUF_CODE_DRM };
	const struct format *format;
	bool linear;
	int ret;

	if (info->reason)
		return 0;
	w->f = (struct dlbuf_device_format){
		.size = sizeof(w->f),
		.name = info->drm_name ? info->drm_name : info->v4l2_name,
		.code = info->drm_code ? info->drm_code : info->v4l2_code,
		.code_space = info->drm_code ? DLBUF_CODE_DRM : DLBUF_CODE_V4L2,
		.modifier = DLBUF_MOD_LINEAR,
		.nplanes = info->nplanes,
		.flags = paths & PATHS_SHARED ? DLBUF_DEVICE_FORMAT_DIRECT :
						DLBUF_DEVICE_FORMAT_COPY,
	};
	w->stopped = w->fn(&w->f, w->data);
	if (w->stopped || !info->drm_code)
		return w->stopped;
	frame.code = info->drm_code;
	ret = frame_find_format(&frame, &format, &linear);
	if (!ret)
		ret = detile_modifiers(w->dev, format, walk_modifier, w);
	return ret ? ret : w->stopped;
}

int dlbuf_device_formats(struct dlbuf_device *dev, dlbuf_device_format_fn fn,
			 void *data)
{
	NOT_CANCELLED;
	struct walk w = { .dev = dev, .fn = fn, .data = data };
	int ret = device_check(dev);

	if (!ret && !fn)
		ret = fail(-EINVAL, "fn is NULL");
	return ret ? ret : dlbuf_format_each(walk_format, &w);
}

int frame_import_shared(struct dlbuf_device *dev, const struct dlbuf_frame *f,
			const struct dlbuf_import_opts *o, uint32_t paths,
			DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
			uint32_t *ntensors)
{
	bool tried = false;
	int ret;

	do
		ret = frame_import(dev, f, o, paths, tensors, ntensors);
	while (ret && device_relieve(ret, &tried));
	if (ret)
		dlbuf_lease_drop(f->lease);
	return ret;
}

int dlbuf_import_frame(struct dlbuf_device *dev,
		       const struct dlbuf_frame *frame,
		       const struct dlbuf_import_opts *opts,
		       DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		       uint32_t *ntensors)
{
	const struct dlbuf_frame *f = frame;
	struct dlbuf_import_opts o;
	struct dlbuf_frame own;
	int ret;

	if (!frame || !tensors || !ntensors)
		return fail(-EINVAL, "%s is NULL", !frame ? "frame" :
			    !tensors ? "tensors" : "ntensors");
	ret = device_check(dev);
	if (!ret)
		ret = import_opts_get(opts, &o);
	/* Usually the frame needs no copy. */
	if (!ret && (frame->size != sizeof(own) || frame->lease)) {
		ret = OPTS_GET(&own, frame, "dlbuf_frame");
		if (!ret && own.lease)
			ret = lease_share(&own);
		f = &own;
	}
	return ret ? ret : frame_import_shared(dev, f, &o, import_paths(&o), tensors, ntensors);
}
