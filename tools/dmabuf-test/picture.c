// SPDX-License-Identifier: MIT
/* The picture of a frame: see picture.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/prepare.h>

#include "names.h"
#include "picture.h"
#include "tool.h"

static void copy_row(void *data, uint32_t y, uint8_t *row)
{
	const DLTensor *t = data;
	size_t bytes = (size_t)t->shape[1] * t->shape[2];

	memcpy(row, (const uint8_t *)t->data + y * bytes, bytes);
}

/* "format MJPEG cannot be prepared: it is compressed": the last part, where there is a format. */
static const char *last_reason(void)
{
	static char why[512];
	const char *colon = strstr(dlbuf_last_error(), ": ");

	snprintf(why, sizeof(why), "%s", colon ? colon + 2 : dlbuf_last_error());
	return why;
}

int picture_save(struct outfile *out, const struct dlbuf_frame *frame,
		 const struct dlbuf_format_info *format,
		 DLManagedTensorVersioned *const tensors[], uint32_t n, const char **undrawn)
{
	/* The name of a word of bit fields has its letters, too. */
	bool grey = !strpbrk(format->reason ? format_title(format) : format->channels, "GUH");
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = frame->width, .height = frame->height,
		   .flags = DLBUF_PREPARE_NHWC, .dtype = { kDLUInt, 8, 1 },
		   .channels = grey ? DLBUF_CHANNELS_GREY : DLBUF_CHANNELS_RGB);
	int64_t shape[] = { frame->height, frame->width, grey ? 1 : 3 };
	DLManagedTensorVersioned picture = {
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.dl_tensor = { .device = { kDLCPU, 0 }, .ndim = 3, .dtype = opts.dtype,
			       .shape = shape },
	};
	/* The file has the rows of the frame. */
	struct dlbuf_frame stored = *frame;
	struct dlbuf_prepare *plan;
	int ret;

	stored.orientation = DLBUF_ORIENTATION_NONE;
	ret = dlbuf_prepare_create(NULL, &stored, &opts, &plan);
	*undrawn = NULL;
	if (ret == -EOPNOTSUPP || ret == -ENOSYS) {
		*undrawn = last_reason();
		return 0;
	}
	if (ret)
		return fail_dlbuf(ret);
	picture.dl_tensor.data = malloc((size_t)shape[0] * shape[1] * shape[2]);
	if (!picture.dl_tensor.data) {
		dlbuf_prepare_destroy(plan);
		return fail(STATUS_SYSTEM, "no memory for a picture");
	}
	ret = dlbuf_prepare_tensors(plan, tensors, n, NULL, &picture);
	ret = ret ? fail_dlbuf(ret) : png_write(out, frame->width, frame->height, grey, copy_row,
						&picture.dl_tensor);
	free(picture.dl_tensor.data);
	dlbuf_prepare_destroy(plan);
	return ret;
}
