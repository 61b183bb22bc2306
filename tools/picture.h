/* SPDX-License-Identifier: MIT */
/*
 * What the bytes of each V4L2 format are, in this tool's own words: where its
 * rows lie and what colour they are. It is written apart from the library's
 * table, so that the one checks the other.
 */
#ifndef DMABUF_TEST_PICTURE_H
#define DMABUF_TEST_PICTURE_H

#include <stdint.h>

#include "out.h"
#include "v4l2.h"

/* Rows of bytes, each `pitch` after the one before. */
struct rows {
	uint64_t offset;	/* bytes, to the first */
	uint64_t pitch;
	uint32_t rows;
	uint32_t bytes;		/* of one row that mean something */
};

struct picture;

/* NULL: no such format here yet. */
const struct picture *picture_find(uint32_t v4l2_code);

/* How many planes of pixels, which may share one dma-buf. */
uint32_t picture_nplanes(const struct picture *picture);

/*
 * Where plane `plane` lies: in which of the camera's dma-bufs per buffer, and
 * its rows there. -1: the camera's buffer cannot hold it.
 */
int picture_plane(const struct picture *picture, const struct camera *cam,
		  const struct camera_plane buffer[], uint32_t plane,
		  uint32_t *memory, struct rows *rows);

/* The pixels of a frame: first byte and pitch of each plane. */
struct pixels {
	const uint8_t *data[DLBUF_MAX_PLANES];
	int64_t pitch[DLBUF_MAX_PLANES];
};

/*
 * Writes it as an 8-bit PNG, grey or RGB, in the colours that the camera says
 * its format has. out stays open, to be committed.
 */
int picture_save(const struct picture *picture, const struct camera *cam,
		 const struct pixels *pixels, struct outfile *out);

/* The same for a picture that is converted already (png.c). */
typedef void (*png_row_fn)(void *data, uint32_t y, uint8_t *row);
int png_write(struct outfile *out, uint32_t width, uint32_t height, bool grey,
	      png_row_fn row, void *data);

#endif /* DMABUF_TEST_PICTURE_H */
