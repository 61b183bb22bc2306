/* SPDX-License-Identifier: MIT */
/* Compares a list of codes, made from a header, with the library's table. */
#include <stdio.h>
#include <stdint.h>
#include <string.h>

#include <dlbuf/format.h>

struct code {
	enum dlbuf_code_space space;
	uint32_t code;
	const char *name;
	uint64_t modifier;
};

static const char *spelled(uint32_t code)
{
	static char s[24];
	uint32_t c = code & ~(1u << 31);

	snprintf(s, sizeof(s), "'%c%c%c%c'%s", c & 255, c >> 8 & 255,
		 c >> 16 & 255, c >> 24, c == code ? "" : " big-endian");
	return s;
}

static int check(const struct code *codes, size_t n)
{
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		const struct code *c = &codes[i];
		struct dlbuf_format_info f = { .size = sizeof(f) };
		const char *space = c->space == DLBUF_CODE_DRM ? "DRM" :
				    c->space == DLBUF_CODE_V4L2 ? "V4L2" : "libcamera";
		const char *name;

		if (dlbuf_format_find(c->code, c->modifier, c->space, &f)) {
			printf("%s has a new format, %s %s\n", space, c->name,
			       spelled(c->code));
			status = 1;
			continue;
		}
		/* libcamera's names are its own. */
		if (c->space == DLBUF_CODE_LIBCAMERA)
			continue;
		name = c->space == DLBUF_CODE_DRM ? f.drm_name :
		       f.v4l2_multi_code == c->code ? f.v4l2_multi_name :
		       f.v4l2_name;
		if (strcmp(name, c->name)) {
			printf("%s's %s %s is %s here\n", space, c->name,
			       spelled(c->code), name);
			status = 1;
		}
	}
	return status;
}
