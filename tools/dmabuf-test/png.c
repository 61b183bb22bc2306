// SPDX-License-Identifier: MIT
/* A picture as a PNG file, by libpng. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "picture.h"
#include "tool.h"

static void on_error(png_structp png, png_const_charp text)
{
	/* png_write() prints the error text. */
	(void)text;
	longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
	(void)png, (void)text;
}

/*
 * A separate function: variables that change between setjmp() and longjmp() are
 * lost unless they are volatile, and none changes here.
 */
static bool write_all(png_structp png, png_infop info, FILE *f, uint32_t width,
		      uint32_t height, bool grey, png_row_fn row, void *data,
		      uint8_t *buffer)
{
	if (setjmp(png_jmpbuf(png)))
		return false;
	png_init_io(png, f);
	png_set_IHDR(png, info, width, height, 8,
		     grey ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
		     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		     PNG_FILTER_TYPE_DEFAULT);
	/* For a test pattern a slow compression saves little. */
	png_set_compression_level(png, 3);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
	png_write_info(png, info);
	for (uint32_t y = 0; y < height; y++) {
		row(data, y, buffer);
		png_write_row(png, buffer);
	}
	png_write_end(png, info);
	return true;
}

int png_write(struct outfile *out, uint32_t width, uint32_t height, bool grey,
	      png_row_fn row, void *data)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL,
						  on_error, on_warning);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	uint8_t *buffer = malloc((size_t)width * (grey ? 1 : 3));
	bool done = info && buffer &&
		    write_all(png, info, out->f, width, height, grey, row, data,
			      buffer);
	int err = errno;

	free(buffer);
	png_destroy_write_struct(&png, &info);
	if (done)
		return 0;
	if (ferror(out->f))
		return fail(STATUS_SYSTEM, "%s cannot be written: %s",
			    out->path, strerror(err));
	return fail(STATUS_SYSTEM, "libpng cannot make a picture of %ux%u",
		    width, height);
}
