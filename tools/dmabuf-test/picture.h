/* SPDX-License-Identifier: MIT */
/*
 * The colours of a frame, out of its tensors and of what the library says
 * that their values are. There is no code for a format here.
 */
#ifndef DMABUF_TEST_PICTURE_H
#define DMABUF_TEST_PICTURE_H

#include <dlbuf/dlpack.h>
#include <dlbuf/format.h>

#include "out.h"
#include "camera/v4l2.h"

/* One of a pixel's values, for every pixel. */
struct component {
	const uint8_t *data;	/* NULL: the format has it not */
	int64_t pitch;		/* bytes */
	uint32_t hdiv, vdiv;	/* pixels that share a group of values */
	uint32_t group;		/* bytes of a group */
	uint32_t n;		/* how many of it are in a group ... */
	uint8_t at[8];		/* ... and at which bytes */
	uint8_t bytes;		/* of one */
	bool swap;		/* big-endian */
	bool negative;		/* two's complement */
	uint8_t shift, depth;	/* the bits that count */
};

/* Luma, chroma and RGB as the format has them -> RGB of 0..255. */
struct colours {
	float offset;		/* of black */
	float y;		/* scale of luma and of RGB */
	float rv, gu, gv, bu;
	float hue;		/* degrees of a step */
	bool limited;
};

enum picture_kind { PICTURE_GREY, PICTURE_RGB, PICTURE_YUV, PICTURE_HSV,
		    PICTURE_MOSAIC };

struct picture {
	uint32_t width, height;
	enum picture_kind kind;
	struct component c[3];	/* R, G, B; Y, U, V; H, S, V; or the first */
	const char *mosaic;	/* "RG/GB" */
	struct colours colours;
};

/*
 * The tensors of one frame, on the CPU, of the view PLANES, WORDS or ROWS;
 * what they point to stays theirs. Returns NULL, or why it cannot be drawn.
 */
const char *picture_init(struct picture *picture,
			 const struct dlbuf_format_info *info,
			 const struct camera *cam, enum dlbuf_view view,
			 DLManagedTensorVersioned *const tensors[], uint32_t n);

/* Line y as grey where the kind is PICTURE_GREY, else as R, G, B. */
void picture_row(const struct picture *picture, uint32_t y, uint8_t *out);

/* An 8-bit PNG of it. out stays open, to be committed. */
int picture_save(const struct picture *picture, struct outfile *out);

/* The same of any rows (png.c). */
typedef void (*png_row_fn)(void *data, uint32_t y, uint8_t *row);
int png_write(struct outfile *out, uint32_t width, uint32_t height, bool grey,
	      png_row_fn row, void *data);

#endif /* DMABUF_TEST_PICTURE_H */
