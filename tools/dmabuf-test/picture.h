/* SPDX-License-Identifier: MIT */
/* A frame as a picture. */
#ifndef DMABUF_TEST_PICTURE_H
#define DMABUF_TEST_PICTURE_H

#include <dlbuf/format.h>
#include <dlbuf/frame.h>

#include "out.h"

/*
 * Saves a frame as an 8-bit PNG, by the library's preparation. The tensors are the whole
 * frame, on the CPU, of the format's view PLANES, WORDS or ROWS, and stay the caller's.
 * *undrawn becomes NULL, or the reason why there is no picture, valid until the next call. out
 * stays open, to be committed.
 */
int picture_save(struct outfile *out, const struct dlbuf_frame *frame,
		 const struct dlbuf_format_info *format,
		 DLManagedTensorVersioned *const tensors[], uint32_t n, const char **undrawn);

/* An 8-bit PNG of any rows (png.c). */
typedef void (*png_row_fn)(void *data, uint32_t y, uint8_t *row);
int png_write(struct outfile *out, uint32_t width, uint32_t height, bool grey,
	      png_row_fn row, void *data);

#endif /* DMABUF_TEST_PICTURE_H */
