/* SPDX-License-Identifier: MIT */
/*
 * The positions of the rows of each V4L2 format. This table is independent of
 * the library's, so that each checks the other.
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
	uint32_t bytes;		/* significant bytes of a row */
};

struct plane_rows {
	uint32_t memory;	/* which dma-buf of the buffer's */
	struct rows rows;
};

/*
 * The number of tensors of a frame in this format; 0: unknown. whole: rows with
 * their padding, for a view that does not show single values.
 */
uint32_t rows_nplanes(const struct camera *cam, enum dlbuf_view view,
		      bool whole);

/*
 * Describes those tensors as rows of buffer `index`. Returns -1, or the number
 * of a plane that is not inside its buffer.
 */
int rows_of_buffer(const struct camera *cam, uint32_t index,
		   enum dlbuf_view view, bool whole,
		   struct plane_rows out[DLBUF_MAX_PLANES]);

#endif /* DMABUF_TEST_ROWS_H */
