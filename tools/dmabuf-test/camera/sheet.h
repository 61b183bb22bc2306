/* SPDX-License-Identifier: MIT */
/* A contact sheet: small pictures side by side, with their names. */
#ifndef DMABUF_TEST_SHEET_H
#define DMABUF_TEST_SHEET_H

#include <stdint.h>

#include "picture.h"

/* No wider than this, and no higher than it is wide. */
#define THUMB_WIDTH 160u

struct thumb {
	uint32_t width, height;
	uint8_t *rgb;		/* NULL: nothing was drawn */
};

/* Makes a picture small, by the mean of its pixels. -1: no memory. */
int thumb_draw(struct thumb *thumb, const struct picture *picture);

struct sheet_cell {
	struct thumb thumb;
	char text[2][40];	/* lines */
};

struct sheet {
	struct sheet_cell *cells;
	uint32_t n;
};

/* Takes the thumb, whose fields are then zero; without a picture it is grey. */
int sheet_add(struct sheet *sheet, struct thumb *thumb, const char *first,
	      const char *second);
int sheet_save(const struct sheet *sheet, struct outfile *out);
void sheet_free(struct sheet *sheet);

/* FONT_HEIGHT rows of FONT_WIDTH bits (font.c). */
#define FONT_WIDTH 5
#define FONT_HEIGHT 7
const uint8_t *font_glyph(char c);

#endif /* DMABUF_TEST_SHEET_H */
