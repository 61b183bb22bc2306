// SPDX-License-Identifier: MIT
/* Pictures in a tool without libpng. */
#include "picture.h"
#include "tool.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int png_write(struct outfile *out, uint32_t width, uint32_t height, bool grey,
	      png_row_fn row, void *data)
{
	return fail(STATUS_SYSTEM, "%s: dmabuf-test was built without libpng",
		    out->path);
}
