/* SPDX-License-Identifier: MIT */
/* Formats as people write them: names and codes of DRM and V4L2. */
#ifndef DMABUF_TEST_NAMES_H
#define DMABUF_TEST_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/format.h>

/*
 * How well a name means a format; 0: not at all. An exact code is better than a
 * name, because some codes differ only in case (pgAA, pGAA), and a name is
 * better than a code in another case.
 */
enum name_match {
	NAME_NOT = 0,
	NAME_LOOSE_CODE = 1,
	NAME_NAME = 2,
	NAME_CODE = 3,
};
enum name_match name_match(const struct dlbuf_format_info *info,
			   const char *name);

/* The usual name: DRM's, otherwise V4L2's. */
const char *format_title(const struct dlbuf_format_info *info);

/*
 * The format that a camera's user means, and the V4L2 code to ask the camera
 * for: V4L2's codes and names have priority over DRM's. False: V4L2 has no such format.
 */
bool camera_format_named(const char *name, struct dlbuf_format_info *info,
			 uint32_t *code);

/* A code's letters: "NV12", "Y16-BE". */
struct camera_code {
	char s[8];
} camera_code(uint32_t code);

/* The name, and the code if it differs: "NV12", "YUV420 (YU12)". For people, not for JSON. */
struct format_text {
	char s[64];
} format_text(const struct dlbuf_format_info *info, uint32_t code);

/* "planes", "words"; -1: no view is called that. */
int view_named(const char *name);

#endif /* DMABUF_TEST_NAMES_H */
