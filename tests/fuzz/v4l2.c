// SPDX-License-Identifier: MIT
/*
 * The adapter of V4L2: any format and buffer of a driver, and any crop. Its frame is refused by the
 * library, or each element of its tensors is in the buffers, and is read and written.
 *
 *	build/.../tests/fuzz/v4l2 -max_total_time=60 tests/fuzz/corpus/v4l2
 */
#include <dlbuf/interop/v4l2.h>

#include "memory.h"

static uint32_t codes[512], ncodes;

static int collect(const struct dlbuf_format_info *info, void *data)
{
	(void)data;
	if (info->v4l2_code)
		codes[ncodes++] = info->v4l2_code;
	if (info->v4l2_multi_code)
		codes[ncodes++] = info->v4l2_multi_code;
	return 0;
}

static uint32_t code(struct input *in)
{
	uint8_t n = byte(in);

	return n == 255 ? number(in) : codes[(n << 8 | byte(in)) % ncodes];
}

static void get_format(struct input *in, struct v4l2_format *fmt)
{
	static const uint32_t types[] = {
		V4L2_BUF_TYPE_VIDEO_CAPTURE, V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE,
		V4L2_BUF_TYPE_VIDEO_OUTPUT, V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE,
	};
	uint8_t bits = byte(in);

	*fmt = (struct v4l2_format){ .type = bits < 250 ? types[bits % 4] : bits };
	if (bits < 250 && bits & 1) {
		struct v4l2_pix_format_mplane *mp = &fmt->fmt.pix_mp;

		mp->pixelformat = code(in);
		mp->width = number(in);
		mp->height = number(in);
		mp->num_planes = byte(in) % 6;
		mp->colorspace = byte(in) % 16;
		mp->ycbcr_enc = byte(in);
		mp->quantization = byte(in);
		mp->xfer_func = byte(in);
		mp->field = byte(in) % 12;
		for (unsigned int i = 0; i < 4; i++) {
			mp->plane_fmt[i].bytesperline = number(in);
			mp->plane_fmt[i].sizeimage = byte(in) & 1 ? number(in) : 8192;
		}
		return;
	}
	fmt->fmt.pix = (struct v4l2_pix_format){
		.pixelformat = code(in), .width = number(in), .height = number(in),
		.bytesperline = number(in), .sizeimage = byte(in) & 1 ? number(in) : 8192,
		.colorspace = byte(in) % 16, .ycbcr_enc = byte(in), .quantization = byte(in),
		.xfer_func = byte(in), .field = byte(in) % 12,
	};
}

static void get_buffer(struct input *in, const struct v4l2_format *fmt, struct v4l2_buffer *buf,
		       struct v4l2_plane planes[VIDEO_MAX_PLANES])
{
	uint8_t bits = byte(in);

	*buf = (struct v4l2_buffer){
		.type = bits & 1 ? fmt->type : byte(in), .bytesused = number(in),
		.length = number(in), .flags = number(in), .sequence = byte(in),
		.field = byte(in) % 12,
		.timestamp = { .tv_sec = byte(in), .tv_usec = byte(in) },
	};
	if (buf->type != V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE &&
	    buf->type != V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE)
		return;
	buf->m.planes = bits & 2 ? planes : NULL;
	buf->length = byte(in) % (VIDEO_MAX_PLANES + 1);
	for (unsigned int i = 0; i < buf->length; i++)
		planes[i] = (struct v4l2_plane){ .bytesused = number(in), .length = number(in),
						 .data_offset = byte(in) & 1 ? number(in) : 0 };
}

static void check_import(const struct dlbuf_frame *f, const struct dlbuf_import_opts *o)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	unsigned int fired = memory.fired;
	uint32_t n, want;
	bool good = frame_is_good(f, o, l, &want);

	CHECK(!dlbuf_import_frame(memory.cpu, f, o, t, &n) == good);
	if (!good)
		return;
	CHECK(n == want);
	touch_frame(t, l, n, 0);
	while (n)
		n--, t[n]->deleter(t[n]);
	CHECK(memory.fired == fired + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dlbuf_import_opts o = { .size = sizeof(o) };
	struct input in = { data, data + size };
	struct v4l2_plane planes[VIDEO_MAX_PLANES];
	struct v4l2_format fmt;
	struct v4l2_buffer buf;
	struct v4l2_rect r;
	struct dlbuf_frame f;
	unsigned int fds;
	uint8_t bits;
	int ret;

	memory_begin();
	if (!ncodes)
		dlbuf_format_each(collect, NULL);
	fds = memory_settle();
	bits = byte(&in);
	get_format(&in, &fmt);
	get_buffer(&in, &fmt, &buf, planes);
	ret = dlbuf_v4l2_frame(&fmt, bits & 1 ? &buf : NULL, memory.fds, &f);
	CHECK(ret == 0 || ret == -EINVAL || ret == -ENODATA);
	if (ret) {
		CHECK(dlbuf_last_error()[0] && !f.nplanes && !f.size);
		return 0;
	}
	CHECK(f.nplanes >= 1 && f.nplanes <= DLBUF_MAX_PLANES && f.code_space == DLBUF_CODE_V4L2);
	if (bits & 2) {
		r = (struct v4l2_rect){ number(&in), number(&in), number(&in), number(&in) };
		ret = dlbuf_v4l2_crop(&r, &f);
		CHECK(ret == 0 || ret == -EINVAL);
	}
	f.release = fire;
	o.view = bits >> 2 & 15;
	check_import(&f, &o);
	CHECK(memory_settle() == fds);
	return 0;
}
