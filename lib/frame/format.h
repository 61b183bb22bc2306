/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FORMAT_H
#define DLBUF_LIB_FORMAT_H

#include <stdbool.h>

#include <dlbuf/format.h>

/* Why a format has no view PLANES. */
enum reason {
	NO_REASON,
	BITS,
	PACKED,
	ENDIAN,
	LINES,
	UNDOCUMENTED,
	TILED,
	COMPRESSED,
	VENDOR,
	RADIO,
	METADATA,
};

/* One row of formats.h; strings are offsets, so that rows need no relocation. */
struct format {
	uint32_t drm, v4l2;	/* 0: that code space has no code for it */
	uint16_t drm_name, v4l2_name, channels;
	uint8_t type, bits;	/* of a value: DLDataTypeCode, 8 to 32 */
	uint8_t depth, shift;
	uint8_t hsub, vsub;	/* of the planes after the first */
	uint8_t reason;
};

/* The components of a word that is a pixel, from its highest bit down. */
struct format_fields {
	char letters[5];
	uint8_t bits[4];
	bool swapped;		/* the highest byte is the first in memory */
};

/*
 * Samples of MIPI CSI-2: a group has the high bytes of its samples, then their low bits, those of
 * the first sample lowest.
 */
struct format_packed {
	char letters[6];	/* as channels */
	uint8_t depth;
};

/*
 * Finds a format; NULL: the code space has no such code. *alias: the modifier was part
 * of the code (libcamera's packed formats), and does not mean a tiled layout.
 */
const struct format *format_find(uint32_t code, uint64_t modifier,
				 enum dlbuf_code_space space, bool *alias);

/* "DRM", "V4L2", "libcamera", "GStreamer", "FFmpeg"; "unknown" for another number. */
const char *code_space_name(enum dlbuf_code_space space);

const char *format_name(const struct format *format);
const char *format_reason(const struct format *format);
uint32_t format_views(const struct format *format);
/* The first of PLANES, WORDS, ROWS that the format has; BYTES: it has no rows. */
enum dlbuf_view format_rows_view(const struct format *format);
bool format_is_mosaic(const struct format *format);

/* The bit fields of the first plane; NULL: its values are whole elements, or unknown. */
const struct format_fields *format_fields(const struct format *format);

/* NULL: the format does not have samples of MIPI CSI-2. */
const struct format_packed *format_packed(const struct format *format);

/* The plane's channels in memory order, and their number. */
const char *format_channels(const struct format *format, uint32_t plane,
			    uint32_t *n);

/* Fills in the planes, and returns their number. */
uint32_t format_planes(const struct format *format,
		       struct dlbuf_format_plane planes[DLBUF_MAX_PLANES]);

/* Groups of pixels, of which the last may be partial: values of a subsampled plane. */
static inline uint64_t format_groups(uint64_t pixels, uint32_t per_group)
{
	return pixels / per_group + (pixels % per_group != 0);
}

/*
 * Finds a component in a group of n values: the first one, and the step to the next.
 * Returns their number, or 0 if they are not evenly spaced.
 */
uint32_t format_find_component(const char *channels, uint32_t n, char which,
			       uint32_t *first, uint32_t *step);

#endif /* DLBUF_LIB_FORMAT_H */
