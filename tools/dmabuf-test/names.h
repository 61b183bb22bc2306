/* SPDX-License-Identifier: MIT */
/* Formats as people write them: names and codes, of DRM's and of V4L2's. */
#ifndef DMABUF_TEST_NAMES_H
#define DMABUF_TEST_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/format.h>

/*
 * How well a name means a format; 0: not at all. A code as it is written
 * means more than a name, since codes differ in nothing but case (pgAA, pGAA),
 * and a name more than a code that is right but for its case.
 */
enum name_match {
	NAME_NOT = 0,
	NAME_LOOSE_CODE = 1,
	NAME_NAME = 2,
	NAME_CODE = 3,
};
enum name_match name_match(const struct dlbuf_format_info *info,
			   const char *name);

/* What one calls it: DRM's name, else V4L2's. */
const char *format_title(const struct dlbuf_format_info *info);

/*
 * The format that a camera's user means, and the V4L2 code to ask the camera
 * for: V4L2's codes and names come before DRM's. False: V4L2 has no such.
 */
bool camera_format_named(const char *name, struct dlbuf_format_info *info,
			 uint32_t *code);

/* A code's letters: "NV12", "Y16-BE". */
struct camera_code {
	char s[8];
} camera_code(uint32_t code);

/* Both, where they differ: "NV12", "YUV420 (YU12)". For people, not for JSON. */
struct format_text {
	char s[64];
} format_text(const struct dlbuf_format_info *info, uint32_t code);

/* "planes", "words"; -1: no view is called that. */
int view_named(const char *name);

#endif /* DMABUF_TEST_NAMES_H */
