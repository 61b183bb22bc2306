/* SPDX-License-Identifier: MIT */
/*
 * V4L2: a camera's format and the dma-bufs of one of its buffers -> a frame.
 * Header-only; needs the kernel's headers and nothing else.
 *
 *	struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
 *	struct dlbuf_frame frame;
 *
 *	ioctl(video, VIDIOC_G_FMT, &fmt);
 *	... VIDIOC_EXPBUF with O_RDWR, once per buffer ...
 *	... VIDIOC_DQBUF ...
 *	dlbuf_v4l2_frame(&fmt, &fds[buf.index], &frame);
 *	frame.release = queue_again;	// VIDIOC_QBUF
 *	frame.release_data = &buffers[buf.index];
 *	dlbuf_import_frame(dev, &frame, NULL, tensors, &ntensors);
 *
 * V4L2 puts no fences on its dma-bufs: VIDIOC_DQBUF is what says that the
 * pixels are there, so do not import order from anywhere else, and do not
 * queue the buffer before the lease fires.
 */
#ifndef DLBUF_INTEROP_V4L2_H
#define DLBUF_INTEROP_V4L2_H

#include <errno.h>
#include <string.h>
#include <time.h> /* for videodev2.h under -std=c11 */

#include <linux/videodev2.h>

#include <dlbuf/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Describes a buffer of the format fmt as a frame, from the driver's own
 * pitches. Single-planar formats give one plane, from which the library
 * derives the rest (NV12: both planes in one dma-buf); multi-planar ones give
 * one plane per dma-buf. The modifier is LINEAR: V4L2 has none, its tilings
 * are formats of their own.
 *
 * fmt and fds are borrowed, and the fds stay borrowed in *frame: keep them
 * open until it has been imported. fds has one entry per memory plane, in
 * order. *frame is written whole: set the lease afterwards, and where a
 * multi-planar driver fills in data_offset add it to planes[i].offset.
 *
 * Pure. 0, or
 * -EINVAL  fmt is not of a video capture or output queue, or has more memory
 *          planes than a frame
 * The format itself is checked by dlbuf_import_frame().
 *
 * Specification: linux/videodev2.h, "Image Formats" and "Single- and
 * multi-planar APIs" of the V4L2 documentation.
 */
static inline int dlbuf_v4l2_frame(const struct v4l2_format *fmt,
				   const int fds[], struct dlbuf_frame *frame)
{
	const struct v4l2_pix_format_mplane *mp = &fmt->fmt.pix_mp;
	const struct v4l2_pix_format *pix = &fmt->fmt.pix;
	int multi = fmt->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE ||
		    fmt->type == V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE;
	uint32_t i;

	if (!multi && fmt->type != V4L2_BUF_TYPE_VIDEO_CAPTURE &&
	    fmt->type != V4L2_BUF_TYPE_VIDEO_OUTPUT)
		return -EINVAL;
	if (multi && (!mp->num_planes || mp->num_planes > DLBUF_MAX_PLANES))
		return -EINVAL;
	memset(frame, 0, sizeof(*frame));
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
	}
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_V4L2_H */
