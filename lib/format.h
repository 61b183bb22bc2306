/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FORMAT_H
#define DLBUF_LIB_FORMAT_H

#include <dlbuf/frame.h>

struct format {
	const char *name;
	uint32_t drm, v4l2;	/* 0 where that space has no code for it */
	const char *channel_names;
	uint32_t nplanes;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES];
};

/* NULL when there is no such code in that space. */
const struct format *format_find(uint32_t code, enum dlbuf_code_space space);

#endif /* DLBUF_LIB_FORMAT_H */
