/* SPDX-License-Identifier: MIT */
/*
 * V4L2: makes a frame from the format and a buffer of a camera or a codec.
 * Header-only; needs only the kernel's headers (4.20 or newer).
 *
 *	struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
 *	struct dlbuf_frame frame;
 *
 *	ioctl(video, VIDIOC_G_FMT, &fmt);
 *	... VIDIOC_EXPBUF with O_RDWR, once per buffer ...
 *	ioctl(video, VIDIOC_DQBUF, &buf);
 *	if (dlbuf_v4l2_frame(&fmt, &buf, &fds[buf.index], &frame))
 *		errx(1, "%s", dlbuf_last_error());
 *	frame.release = queue_again;	// VIDIOC_QBUF
 *	frame.release_data = &buffers[buf.index];
 *	if (dlbuf_import_frame(dev, &frame, NULL, tensors, &ntensors)) {
 *		dlbuf_frame_drop(&frame);
 *		errx(1, "%s", dlbuf_last_error());
 *	}
 *
 * V4L2 adds no fences to its dma-bufs. VIDIOC_DQBUF returns when the pixels are
 * complete; no fence orders the capture. Do not queue the buffer before the
 * lease fires.
 */
#ifndef DLBUF_INTEROP_V4L2_H
#define DLBUF_INTEROP_V4L2_H

#include <errno.h>
#include <string.h>
#include <time.h> /* for videodev2.h under -std=c11 */
#include <unistd.h>

#include <linux/videodev2.h>

#include <dlbuf/frame.h>
#include <dlbuf/interop/shared.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Code points of H.273; 0 for values that H.273 lacks: Adobe's RGB, raw. */
static inline uint8_t dlbuf_v4l2_primaries_(uint32_t colorspace)
{
	switch (colorspace) {
	case V4L2_COLORSPACE_REC709:
	case V4L2_COLORSPACE_JPEG:
	case V4L2_COLORSPACE_SRGB:
		return 1;
	case V4L2_COLORSPACE_470_SYSTEM_M:
		return 4;
	case V4L2_COLORSPACE_470_SYSTEM_BG:
		return 5;
	case V4L2_COLORSPACE_SMPTE170M:
		return 6;
	case V4L2_COLORSPACE_SMPTE240M:
		return 7;
	case V4L2_COLORSPACE_BT2020:
		return 9;
	case V4L2_COLORSPACE_DCI_P3:
		return 11;
	default:
		return 0;
	}
}

static inline uint8_t dlbuf_v4l2_transfer_(uint32_t xfer_func, uint32_t enc)
{
	switch (xfer_func) {
	case V4L2_XFER_FUNC_709:
		/* xvYCC is this curve, continued below 0 and above 1. */
		return enc == V4L2_YCBCR_ENC_XV601 ||
		       enc == V4L2_YCBCR_ENC_XV709 ? 11 : 1;
	case V4L2_XFER_FUNC_SRGB:
		return 13;
	case V4L2_XFER_FUNC_SMPTE240M:
		return 7;
	case V4L2_XFER_FUNC_NONE:
		return 8;
	case V4L2_XFER_FUNC_DCI_P3:
		return 17;
	case V4L2_XFER_FUNC_SMPTE2084:
		return 16;
	default:
		return 0;
	}
}

/* Returns the code point plus 1, as in struct dlbuf_colour. */
static inline uint8_t dlbuf_v4l2_matrix_(uint32_t enc)
{
	switch (enc) {
	case V4L2_YCBCR_ENC_709:
	case V4L2_YCBCR_ENC_XV709:
		return 1 + 1;
	case V4L2_YCBCR_ENC_XV601:
		return 5 + 1;
	case V4L2_YCBCR_ENC_601:
	case V4L2_YCBCR_ENC_SYCC:
		return 6 + 1;
	case V4L2_YCBCR_ENC_SMPTE240M:
		return 7 + 1;
	case V4L2_YCBCR_ENC_BT2020:
		return 9 + 1;
	case V4L2_YCBCR_ENC_BT2020_CONST_LUM:
		return 10 + 1;
	default:
		return 0;
	}
}

static inline enum dlbuf_field dlbuf_v4l2_field_(uint32_t field)
{
	switch (field) {
	case V4L2_FIELD_NONE:
		return DLBUF_FIELD_NONE;
	case V4L2_FIELD_TOP:
		return DLBUF_FIELD_TOP;
	case V4L2_FIELD_BOTTOM:
		return DLBUF_FIELD_BOTTOM;
	case V4L2_FIELD_INTERLACED:
		return DLBUF_FIELD_INTERLACED;
	case V4L2_FIELD_INTERLACED_TB:
		return DLBUF_FIELD_INTERLACED_TB;
	case V4L2_FIELD_INTERLACED_BT:
		return DLBUF_FIELD_INTERLACED_BT;
	case V4L2_FIELD_SEQ_TB:
		return DLBUF_FIELD_SEQ_TB;
	case V4L2_FIELD_SEQ_BT:
		return DLBUF_FIELD_SEQ_BT;
	default:
		return DLBUF_FIELD_UNKNOWN;
	}
}

static inline int dlbuf_v4l2_is_multi_(uint32_t type)
{
	return type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE ||
	       type == V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE;
}

/*
 * Translates the four colour values of V4L2. A value of _DEFAULT means the default
 * that V4L2 documents for the colorspace; luma alone (GREY) is not YCbCr, so its default
 * is the full range, as in the test driver vivid. If the colorspace is _DEFAULT, the
 * colour is unknown and the result is 0. The siting of chroma is 0, because V4L2 does
 * not report it.
 *
 * code is the V4L2 format. RGB and Bayer have no YCbCr encoding. For a format that
 * is neither strided RGB nor YUV (JPEG), only explicit values count.
 *
 * Pure, cannot fail. Specification: "Colorspaces" of the V4L2 documentation,
 * ITU-T H.273.
 */
static inline struct dlbuf_colour
dlbuf_v4l2_colour(uint32_t code, uint32_t colorspace, uint32_t ycbcr_enc,
		  uint32_t quantization, uint32_t xfer_func)
{
	const char *channels = dlbuf_format_channels(code, DLBUF_MOD_LINEAR,
						     DLBUF_CODE_V4L2);
	struct dlbuf_format_info info;
	struct dlbuf_colour c;
	int rgb = 0, yuv = 0, hsv = 0, luma = channels && channels[0] == 'Y' && !channels[1];

	memset(&c, 0, sizeof(c));
	/* A word of bit fields has its channels in its name: "RGB565". */
	if (channels && channels[0] == 'W' && !channels[1]) {
		memset(&info, 0, sizeof(info));
		info.size = sizeof(info);
		if (!dlbuf_format_find(code, DLBUF_MOD_LINEAR, DLBUF_CODE_V4L2, &info))
			channels = info.v4l2_name;
	}
	for (; channels && *channels && !yuv && !rgb && !hsv; channels++) {
		yuv = *channels == 'Y';
		rgb = *channels == 'G';
		hsv = *channels == 'H';
	}
	if (colorspace) {
		if (!ycbcr_enc)
			ycbcr_enc = V4L2_MAP_YCBCR_ENC_DEFAULT(colorspace);
		if (!xfer_func)
			xfer_func = V4L2_MAP_XFER_FUNC_DEFAULT(colorspace);
		if (!quantization && (yuv || rgb || hsv))
			quantization = V4L2_MAP_QUANTIZATION_DEFAULT(
				!yuv || luma, colorspace, ycbcr_enc);
	}
	c.primaries = dlbuf_v4l2_primaries_(colorspace);
	c.transfer = dlbuf_v4l2_transfer_(xfer_func, ycbcr_enc);
	if (yuv)
		c.matrix = dlbuf_v4l2_matrix_(ycbcr_enc);
	else if (rgb)
		c.matrix = 0 + 1;
	/* The encoding of HSV is in the field of the YCbCr encoding. */
	if (hsv && ycbcr_enc == V4L2_HSV_ENC_180)
		c.hue = DLBUF_HUE_180;
	else if (hsv && ycbcr_enc == V4L2_HSV_ENC_256)
		c.hue = DLBUF_HUE_256;
	if (quantization == V4L2_QUANTIZATION_FULL_RANGE)
		c.range = DLBUF_RANGE_FULL;
	else if (quantization == V4L2_QUANTIZATION_LIM_RANGE)
		c.range = DLBUF_RANGE_LIMITED;
	return c;
}

/* Fills in the part of a frame that comes from the buffer. */
static inline int dlbuf_v4l2_buffer_(const struct v4l2_format *fmt,
				     const struct v4l2_buffer *buf,
				     struct dlbuf_frame *frame)
{
	int multi = dlbuf_v4l2_is_multi_(fmt->type), empty = 1;
	uint32_t i;

	if (buf->type != fmt->type)
		return dlbuf_fail(-EINVAL, "the buffer is of type %u, the format "
				  "of %u", buf->type, fmt->type);
	if (multi && (!buf->m.planes || buf->length < frame->nplanes))
		return dlbuf_fail(-EINVAL, "the buffer has %u planes, the "
				  "format %u", buf->m.planes ?
				  buf->length : 0, frame->nplanes);
	for (i = 0; i < frame->nplanes; i++) {
		const struct v4l2_plane *p = multi ? &buf->m.planes[i] : NULL;
		uint32_t used = p ? p->bytesused : buf->bytesused;
		uint32_t offset = p ? p->data_offset : 0;

		/* bytesused counts from the start of the buffer. */
		empty &= used <= offset;
		if (used <= offset || buf->flags & V4L2_BUF_FLAG_ERROR)
			used = p ? p->length : buf->length;
		frame->planes[i].offset = offset;
		frame->planes[i].bytes = used > offset ? used - offset : 0;
	}
	/* An application that sets bytesused of an output to 0 means all of it. */
	if (empty && (fmt->type == V4L2_BUF_TYPE_VIDEO_CAPTURE ||
		      fmt->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE))
		return dlbuf_fail(-ENODATA, "the buffer is empty%s",
				  buf->flags & V4L2_BUF_FLAG_LAST ?
				  ", it is the last one" : "");
	frame->timestamp_ns = (int64_t)buf->timestamp.tv_sec * 1000000000 +
			      (int64_t)buf->timestamp.tv_usec * 1000;
	/* A copied timestamp is the one that the application gave the codec. */
	frame->clock = (buf->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) ==
		       V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC ?
		       DLBUF_CLOCK_MONOTONIC : DLBUF_CLOCK_UNKNOWN;
	frame->sequence = buf->sequence;
	frame->flags |= DLBUF_FRAME_SEQUENCE;
	if (buf->flags & V4L2_BUF_FLAG_ERROR)
		frame->flags |= DLBUF_FRAME_DAMAGED;
	frame->field = dlbuf_v4l2_field_(buf->field);
	return 0;
}

/*
 * Describes a buffer of the format fmt as a frame, with the driver's pitches. A
 * single-planar format gives one plane, from which the library derives the others
 * (NV12: both planes in one dma-buf). A multi-planar format gives one plane per
 * dma-buf: one for NV12, two for NV12M. The modifier is LINEAR: V4L2 has no
 * modifiers, its tiled formats have codes of their own. The order is COMPLETE.
 *
 * buf is the result of VIDIOC_DQBUF, with its planes if the queue is multi-planar.
 * It has the timestamp, the sequence number (32 bits of V4L2, which wrap: the frames
 * between two are (uint32_t)(b - a)), the field, the error flag, and where the data begins
 * in each dma-buf. NULL: no capture yet, e.g. to import all buffers beforehand.
 *
 * fmt, buf and fds are borrowed. *frame borrows the fds: keep them open until the
 * frame is imported. fds has one entry per memory plane, in order. *frame is
 * written completely, on failure with zeroes: set the lease afterwards, the crop
 * with dlbuf_v4l2_crop(), and the orientation with dlbuf_v4l2_orientation().
 *
 * A plane has the bytes that the driver has filled, or without buf those of an image. A
 * buffer with V4L2_BUF_FLAG_ERROR is DAMAGED, and its planes have all bytes of the buffer.
 *
 * Call dlbuf_device_trim(dev, 0) before the buffers are freed (VIDIOC_REQBUFS, a change
 * of the format, a source-change event). Otherwise the device keeps its imports and
 * their memory.
 *
 * Pure. Returns 0, or
 * -EINVAL  fmt is not of a video capture or output queue, or has no or more
 *          memory planes than a frame; buf has another type or fewer planes
 * -ENODATA buf has no picture, as the last buffer of a decoder
 * dlbuf_import_frame() checks the format itself.
 *
 * Units: the timestamps of V4L2 are microseconds. The clock is CLOCK_MONOTONIC if
 * the buffer says so, otherwise unknown.
 *
 * Specification: linux/videodev2.h, "Image Formats", "Single- and multi-planar
 * APIs" and "Buffers" of the V4L2 documentation.
 */
static inline int dlbuf_v4l2_frame(const struct v4l2_format *fmt,
				   const struct v4l2_buffer *buf,
				   const int fds[], struct dlbuf_frame *frame)
{
	const struct v4l2_pix_format_mplane *mp = &fmt->fmt.pix_mp;
	const struct v4l2_pix_format *pix = &fmt->fmt.pix;
	int multi = dlbuf_v4l2_is_multi_(fmt->type);
	uint32_t i;
	int ret = 0;

	memset(frame, 0, sizeof(*frame));
	if (!multi && fmt->type != V4L2_BUF_TYPE_VIDEO_CAPTURE &&
	    fmt->type != V4L2_BUF_TYPE_VIDEO_OUTPUT)
		return dlbuf_fail(-EINVAL, "a format of buffer type %u is no "
				  "picture's", fmt->type);
	if (multi && (!mp->num_planes || mp->num_planes > DLBUF_MAX_PLANES))
		return dlbuf_fail(-EINVAL, "a format of %u memory planes",
				  mp->num_planes);
	frame->size = sizeof(*frame);
	frame->width = multi ? mp->width : pix->width;
	frame->height = multi ? mp->height : pix->height;
	frame->code = multi ? mp->pixelformat : pix->pixelformat;
	frame->code_space = DLBUF_CODE_V4L2;
	frame->modifier = DLBUF_MOD_LINEAR;
	frame->nplanes = multi ? mp->num_planes : 1;
	for (i = 0; i < frame->nplanes; i++) {
		frame->planes[i].fd = fds[i];
		frame->planes[i].pitch = multi ? mp->plane_fmt[i].bytesperline :
					    pix->bytesperline;
		frame->planes[i].bytes = multi ? mp->plane_fmt[i].sizeimage : pix->sizeimage;
	}
	if (multi)
		frame->colour = dlbuf_v4l2_colour(frame->code, mp->colorspace,
					     mp->ycbcr_enc, mp->quantization,
					     mp->xfer_func);
	else
		frame->colour = dlbuf_v4l2_colour(frame->code, pix->colorspace,
					     pix->ycbcr_enc, pix->quantization,
					     pix->xfer_func);
	frame->field = dlbuf_v4l2_field_(multi ? mp->field : pix->field);
	frame->order = DLBUF_ORDER_COMPLETE;
	frame->fence = -1;
	if (buf)
		ret = dlbuf_v4l2_buffer_(fmt, buf, frame);
	if (ret)
		memset(frame, 0, sizeof(*frame));
	return ret;
}

/*
 * Sets the frame's crop to a rectangle of VIDIOC_G_SELECTION. The picture's place
 * in the buffer is V4L2_SEL_TGT_COMPOSE of a capture queue and V4L2_SEL_TGT_CROP
 * of an output queue: e.g. 1920x1080 pixels in a decoder's buffer of 1920x1088.
 *
 * rect is borrowed. Pure. Returns 0, or
 * -EINVAL  the rectangle begins left of the buffer or above it
 * dlbuf_import_frame() checks that it is inside the buffer.
 */
static inline int dlbuf_v4l2_crop(const struct v4l2_rect *rect,
				  struct dlbuf_frame *frame)
{
	if (rect->left < 0 || rect->top < 0)
		return dlbuf_fail(-EINVAL, "the crop begins at %d,%d", rect->left,
				  rect->top);
	frame->crop.x = (uint32_t)rect->left;
	frame->crop.y = (uint32_t)rect->top;
	frame->crop.width = rect->width;
	frame->crop.height = rect->height;
	return 0;
}

/* ---- the way back */

#ifndef V4L2_CID_CAMERA_SENSOR_ROTATION /* linux/v4l2-controls.h before 5.8 */
#define V4L2_CID_CAMERA_SENSOR_ROTATION (V4L2_CID_CAMERA_CLASS_BASE + 35)
#endif

/*
 * Computes how to turn the pictures of a camera whose sensor is mounted turned. The arguments
 * are the values of its controls (VIDIOC_G_CTRL; 0 for a control that it does not have):
 * V4L2_CID_CAMERA_SENSOR_ROTATION, and HFLIP and VFLIP, because the sensor flips before the
 * picture is turned. A mirrored picture stays mirrored; both flips together are a half turn,
 * which is subtracted. Without a rotation the program has set the flips on purpose, and the
 * result is NONE.
 *
 * Pure, cannot fail. Units: rotation is in degrees counter-clockwise; a value that is no
 * multiple of 90 means none.
 *
 * Specification: "Camera Control Reference" and "Writing camera sensor drivers" of the V4L2
 * documentation.
 */
static inline enum dlbuf_orientation dlbuf_v4l2_orientation(int32_t rotation, int hflip, int vflip)
{
	uint32_t turn = (uint32_t)(rotation > 0 && rotation < 360 && rotation % 90 == 0 ?
				   4 - rotation / 90 : 0);

	if (!turn)
		return DLBUF_ORIENTATION_NONE;
	if (!hflip != !vflip)
		turn = 4 - turn;
	return (enum dlbuf_orientation)((turn + (vflip ? 2 : 0)) % 4);
}

static inline uint32_t dlbuf_v4l2_field_of_(enum dlbuf_field field)
{
	uint32_t f;

	for (f = V4L2_FIELD_NONE; f <= V4L2_FIELD_INTERLACED_BT; f++)
		if (field && dlbuf_v4l2_field_(f) == field)
			return f;
	return V4L2_FIELD_NONE;
}

/* Memory plane i of a buffer, or the only one. */
static inline int dlbuf_v4l2_memory_(const struct v4l2_format *fmt,
				     const struct dlbuf_frame *f, uint32_t i,
				     struct v4l2_buffer *buf)
{
	const struct v4l2_pix_format_mplane *mp = &fmt->fmt.pix_mp;
	const struct v4l2_pix_format *pix = &fmt->fmt.pix;
	int multi = dlbuf_v4l2_is_multi_(fmt->type);
	uint32_t line = multi ? mp->plane_fmt[i].bytesperline : pix->bytesperline;
	uint32_t image = multi ? mp->plane_fmt[i].sizeimage : pix->sizeimage;
	uint64_t offset = f->planes[i].offset;
	uint64_t bytes = offset + f->planes[i].bytes;

	if (f->planes[i].pitch != (int64_t)line)
		return dlbuf_fail(-EINVAL, "plane %u has a pitch of %lld, the queue's format of "
				  "%u", i, (long long)f->planes[i].pitch, line);
	/* Only a multi-planar buffer may have bytes before the picture. */
	if (offset && !multi)
		return dlbuf_fail(-EOPNOTSUPP, "plane %u begins at byte %llu: a single-planar "
				  "buffer has the picture at its start", i,
				  (unsigned long long)offset);
	if (bytes > UINT32_MAX || bytes < offset + image)
		return dlbuf_fail(-ERANGE, "the dma-buf of plane %u has %llu bytes, the queue's "
				  "format wants %llu", i, (unsigned long long)bytes,
				  (unsigned long long)offset + image);
	if (!multi) {
		buf->m.fd = f->planes[i].fd;
		buf->length = (uint32_t)bytes;
		buf->bytesused = image;
		return 0;
	}
	memset(&buf->m.planes[i], 0, sizeof(buf->m.planes[i]));
	buf->m.planes[i].m.fd = f->planes[i].fd;
	buf->m.planes[i].length = (uint32_t)bytes;
	buf->m.planes[i].data_offset = (uint32_t)offset;
	buf->m.planes[i].bytesused = (uint32_t)offset + image;
	return 0;
}

/*
 * Fills in a buffer that outputs a frame, for VIDIOC_QBUF with V4L2_MEMORY_DMABUF on the
 * OUTPUT queue of a display, an encoder or another memory-to-memory device. fmt is the
 * queue's format (VIDIOC_G_FMT): the frame must have its format, size and pitches.
 *
 *	DLBUF_INFO(dlbuf_frame, frame);
 *	frame.code = V4L2_PIX_FMT_NV12;
 *	frame.code_space = DLBUF_CODE_V4L2;
 *	if (dlbuf_frame_from_tensors(tensors, 2, 0, &frame) ||
 *	    dlbuf_v4l2_output(&fmt, &frame, &buf))
 *		errx(1, "%s", dlbuf_last_error());
 *	ioctl(video, VIDIOC_QBUF, &buf);
 *	... VIDIOC_DQBUF gives the index back: dlbuf_frame_drop(&frames[buf.index]) ...
 *
 * Set buf->index before, and for a multi-planar queue m.planes and length, the number of
 * its elements. The buffer gets the frame's timestamp and field, or the queue's field if
 * the frame's is unknown.
 *
 * V4L2 does not wait for fences. So the call blocks until the frame's fence, or the
 * fences that its producer has added to the dma-bufs, have signalled. fmt and frame are
 * borrowed; buf borrows the fds. The frame is yours until VIDIOC_DQBUF. Returns 0, or
 * one of these; then only buf->m.planes may have changed:
 * -EINVAL      fmt is not of an output queue; the frame has another format, size or pitch;
 *              m.planes has too few elements
 * -EOPNOTSUPP  V4L2 cannot describe the planes: with one memory plane they must follow one
 *              another in one dma-buf, and in a single-planar buffer begin at its start. Or
 *              the frame has a crop, which belongs to the queue (VIDIOC_S_SELECTION), a
 *              modifier, or an orientation: turn the output, and set orientation to 0
 * -ERANGE      a dma-buf is smaller than the format's sizeimage
 * -EIO         the work on the frame failed
 * and the errors of dlbuf_frame_expand()
 */
static inline int dlbuf_v4l2_output(const struct v4l2_format *fmt,
				    const struct dlbuf_frame *frame,
				    struct v4l2_buffer *buf)
{
	int multi = dlbuf_v4l2_is_multi_(fmt->type), ret;
	uint32_t code = multi ? fmt->fmt.pix_mp.pixelformat : fmt->fmt.pix.pixelformat;
	uint32_t width = multi ? fmt->fmt.pix_mp.width : fmt->fmt.pix.width;
	uint32_t height = multi ? fmt->fmt.pix_mp.height : fmt->fmt.pix.height;
	uint32_t memories = multi ? fmt->fmt.pix_mp.num_planes : 1, i;
	uint32_t field = multi ? fmt->fmt.pix_mp.field : fmt->fmt.pix.field;
	struct dlbuf_format_info want, info;
	struct v4l2_buffer b = *buf;
	struct dlbuf_frame e;

	memset(&want, 0, sizeof(want));
	memset(&info, 0, sizeof(info));
	want.size = info.size = sizeof(info);
	if (fmt->type != V4L2_BUF_TYPE_VIDEO_OUTPUT &&
	    fmt->type != V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE)
		return dlbuf_fail(-EINVAL, "a format of buffer type %u is not of an output",
				  fmt->type);
	ret = dlbuf_format_find(code, DLBUF_MOD_LINEAR, DLBUF_CODE_V4L2, &want);
	if (!ret)
		ret = dlbuf_frame_expand_(frame, 0, &e);
	if (ret)
		return ret;
	/* The caller keeps the frame until VIDIOC_DQBUF, so `e` needs no share of its lease. */
	dlbuf_frame_drop(&e);
	ret = dlbuf_format_find(e.code, e.modifier, e.code_space, &info);
	if (ret)
		return ret;
	if (e.modifier != DLBUF_MOD_LINEAR)
		return dlbuf_fail(-EOPNOTSUPP, "V4L2 has no modifiers, and the frame has 0x%llx",
				  (unsigned long long)e.modifier);
	if (e.orientation)
		return dlbuf_fail(-EOPNOTSUPP, "a buffer does not say orientation %d: turn the "
				  "output, and set it to 0", (int)e.orientation);
	if (want.drm_code != info.drm_code || want.v4l2_code != info.v4l2_code ||
	    width != e.width || height != e.height)
		return dlbuf_fail(-EINVAL, "the frame is %s of %ux%u, the queue takes %s of "
				  "%ux%u", info.v4l2_name ? info.v4l2_name : info.drm_name,
				  e.width, e.height, want.v4l2_name, width, height);
	if (e.crop.width && (e.crop.width != width || e.crop.height != height))
		return dlbuf_fail(-EOPNOTSUPP, "a buffer has no crop, and the frame one of "
				  "%ux%u: VIDIOC_S_SELECTION sets the queue's", e.crop.width,
				  e.crop.height);
	if (e.field)
		field = dlbuf_v4l2_field_of_(e.field);
	if (field == V4L2_FIELD_ALTERNATE)
		return dlbuf_fail(-EINVAL, "the queue alternates fields, and the frame does not "
				  "say which one it is");
	if (multi && (!buf->m.planes || buf->length < memories))
		return dlbuf_fail(-EINVAL, "the buffer has %u planes, the format %u",
				  buf->m.planes ? buf->length : 0, memories);
	if (memories != e.nplanes && memories != 1)
		return dlbuf_fail(-EINVAL, "the frame has %u planes, the format %u", e.nplanes,
				  memories);
	ret = memories == 1 ? dlbuf_planes_follow_(&e, &info) : 0;
	for (i = 0; !ret && i < memories; i++)
		ret = dlbuf_v4l2_memory_(fmt, &e, i, &b);
	if (!ret)
		ret = dlbuf_frame_wait_(&e);
	if (ret)
		return ret;
	b.type = fmt->type;
	b.memory = V4L2_MEMORY_DMABUF;
	b.field = field;
	if (multi)
		b.length = memories;
	b.timestamp.tv_sec = e.timestamp_ns / 1000000000;
	b.timestamp.tv_usec = e.timestamp_ns % 1000000000 / 1000;
	*buf = b;
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_V4L2_H */
