/* SPDX-License-Identifier: MIT */
/*
 * Where the rows of each V4L2 format lie, in this tool's own words. It is
 * written apart from the library's table, so that the one checks the other.
 */
#ifndef DMABUF_TEST_ROWS_H
#define DMABUF_TEST_ROWS_H

#include <stdint.h>

#include "v4l2.h"

/* Rows of bytes, each `pitch` after the one before. */
struct rows {
	uint64_t offset;	/* bytes, to the first */
	uint64_t pitch;
	uint32_t rows;
	uint32_t bytes;		/* of one row that mean something */
};

struct plane_rows {
	uint32_t memory;	/* which dma-buf of the buffer's */
	struct rows rows;
};

/*
 * How many tensors a frame of this format is; 0: not known here. whole: rows
 * with their padding, of a format whose values are not seen as such.
 */
uint32_t rows_nplanes(const struct camera *cam, enum dlbuf_view view,
		      bool whole);

/*
 * Those tensors as rows of buffer `index`. Returns -1, or the plane that is
 * not within its buffer.
 */
int rows_of_buffer(const struct camera *cam, uint32_t index,
		   enum dlbuf_view view, bool whole,
		   struct plane_rows out[DLBUF_MAX_PLANES]);

#endif /* DMABUF_TEST_ROWS_H */
