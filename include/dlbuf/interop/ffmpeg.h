/* SPDX-License-Identifier: MIT */
/*
 * FFmpeg: makes a frame from an AVFrame in a device's memory. Header-only; needs
 * libavutil's headers (57 or newer: FFmpeg 5), libavutil, and more than bare C11
 * (-std=gnu11 or _GNU_SOURCE).
 *
 *	struct dlbuf_frame frame;
 *
 *	... avcodec_receive_frame(codec, av) ...
 *	if (dlbuf_ffmpeg_map(av, DLBUF_READ, &frame) ||
 *	    dlbuf_import_frame(dev, &frame, NULL, tensors, &ntensors)) {
 *		dlbuf_frame_drop(&frame);
 *		errx(1, "%s", dlbuf_last_error());
 *	}
 *	av_frame_unref(av);
 *
 * dlbuf_ffmpeg_map() accepts each hardware frame that FFmpeg can map to dma-bufs,
 * and keeps a reference to it as the frame's lease. dlbuf_ffmpeg_frame() only
 * describes a frame of AV_PIX_FMT_DRM_PRIME.
 */
#ifndef DLBUF_INTEROP_FFMPEG_H
#define DLBUF_INTEROP_FFMPEG_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <libavutil/display.h>
#include <libavutil/frame.h>
#include <libavutil/hwcontext.h>
#include <libavutil/hwcontext_drm.h>
#include <libavutil/mathematics.h>
#include <libavutil/pixdesc.h>
#include <libavutil/version.h>

#ifdef __cplusplus
}
#endif

#include <dlbuf/frame.h>
#include <dlbuf/interop/shared.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline const char *dlbuf_ffmpeg_name_(enum AVPixelFormat format)
{
	const char *name = av_get_pix_fmt_name(format);

	return name ? name : "unknown";
}

/* Adds one plane: its object, offset and pitch. */
static inline int dlbuf_ffmpeg_plane_(const AVDRMFrameDescriptor *desc,
				      const AVDRMPlaneDescriptor *p,
				      struct dlbuf_frame *f)
{
	struct dlbuf_plane *plane = &f->planes[f->nplanes];
	const AVDRMObjectDescriptor *object;

	if (f->nplanes == DLBUF_MAX_PLANES)
		return dlbuf_fail(-EINVAL, "the AVFrame has more than %d planes",
				  DLBUF_MAX_PLANES);
	if (p->object_index < 0 || p->object_index >= desc->nb_objects)
		return dlbuf_fail(-EINVAL, "plane %u of the AVFrame is in "
				  "object %d of %d", f->nplanes,
				  p->object_index, desc->nb_objects);
	if (p->offset < 0)
		return dlbuf_fail(-EINVAL, "plane %u of the AVFrame begins %lld "
				  "bytes before its object", f->nplanes,
				  -(long long)p->offset);
	object = &desc->objects[p->object_index];
	if (!f->nplanes)
		f->modifier = object->format_modifier;
	if (object->format_modifier != f->modifier)
		return dlbuf_fail(-EOPNOTSUPP, "the AVFrame's planes have "
				  "different modifiers, 0x%llx and 0x%llx",
				  (unsigned long long)f->modifier,
				  (unsigned long long)object->format_modifier);
	plane->fd = object->fd;
	plane->offset = (uint64_t)p->offset;
	plane->pitch = p->pitch;
	/* 0 means that the size is unknown. */
	if (object->size && plane->offset >= object->size)
		return dlbuf_fail(-ERANGE, "plane %u of the AVFrame begins at byte %llu of "
				  "an object of %zu", f->nplanes,
				  (unsigned long long)plane->offset, object->size);
	if (object->size)
		plane->bytes = object->size - plane->offset;
	f->nplanes++;
	return 0;
}

/* Several layers together form one picture of the software format. */
static inline int dlbuf_ffmpeg_layers_(const AVDRMFrameDescriptor *desc,
				       enum AVPixelFormat sw_format,
				       struct dlbuf_frame *f)
{
	struct dlbuf_format_info info;
	enum dlbuf_code_space space;
	int i, j, ret;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	for (i = 0; i < desc->nb_layers; i++) {
		const AVDRMLayerDescriptor *layer = &desc->layers[i];

		if (layer->nb_planes < 1 ||
		    layer->nb_planes > AV_DRM_MAX_PLANES ||
		    (layer->nb_planes > 1 && desc->nb_layers > 1))
			return dlbuf_fail(-EINVAL, "layer %d of %d of the "
					  "AVFrame has %d planes", i,
					  desc->nb_layers, layer->nb_planes);
		for (j = 0; j < layer->nb_planes; j++) {
			ret = dlbuf_ffmpeg_plane_(desc, &layer->planes[j], f);
			if (ret)
				return ret;
		}
	}
	if (desc->nb_layers == 1) {
		f->code = desc->layers[0].format;
		return 0;
	}
	if (sw_format == AV_PIX_FMT_NONE)
		return dlbuf_fail(-EOPNOTSUPP, "the AVFrame has %d layers and no "
				  "hw_frames_ctx whose sw_format says what they "
				  "are together", desc->nb_layers);
	f->code = dlbuf_code_named_(dlbuf_ffmpeg_name_(sw_format), DLBUF_CODE_FFMPEG,
				    &space);
	if (!f->code || space != DLBUF_CODE_DRM ||
	    dlbuf_format_find(f->code, f->modifier, DLBUF_CODE_DRM, &info))
		return dlbuf_fail(-EOPNOTSUPP, "no DRM format has the planes of "
				  "FFmpeg's %s", dlbuf_ffmpeg_name_(sw_format));
	if (info.nplanes != f->nplanes)
		return dlbuf_fail(-EINVAL, "the AVFrame has %d layers, %s has %u "
				  "planes", desc->nb_layers,
				  dlbuf_ffmpeg_name_(sw_format), info.nplanes);
	for (i = 0; i < desc->nb_layers; i++)
		if (!dlbuf_layer_is_plane_(desc->layers[i].format, f->code,
					   (uint32_t)i))
			return dlbuf_fail(-EINVAL, "layer %d of the AVFrame, "
					  "0x%08x, is not plane %d of %s", i,
					  desc->layers[i].format, i,
					  dlbuf_ffmpeg_name_(sw_format));
	return 0;
}

/* FFmpeg uses the code points of H.273. Unknown values (2, 3) give 0. */
static inline uint8_t dlbuf_ffmpeg_point_(int value)
{
	return value == 1 || (value > 3 && value < 255) ? (uint8_t)value : 0;
}

static inline void dlbuf_ffmpeg_colour_(const AVFrame *av,
					enum AVPixelFormat sw_format,
					struct dlbuf_colour *c)
{
	c->primaries = dlbuf_ffmpeg_point_((int)av->color_primaries);
	c->transfer = dlbuf_ffmpeg_point_((int)av->color_trc);
	if (av->colorspace == AVCOL_SPC_RGB ||
	    dlbuf_ffmpeg_point_((int)av->colorspace))
		c->matrix = (uint8_t)(av->colorspace + 1);
	if (av->color_range == AVCOL_RANGE_MPEG)
		c->range = DLBUF_RANGE_LIMITED;
	/* The J in the format's name means full range. */
	if (av->color_range == AVCOL_RANGE_JPEG ||
	    sw_format == AV_PIX_FMT_YUVJ420P ||
	    sw_format == AV_PIX_FMT_YUVJ422P ||
	    sw_format == AV_PIX_FMT_YUVJ444P)
		c->range = DLBUF_RANGE_FULL;
	if (av->chroma_location > AVCHROMA_LOC_UNSPECIFIED &&
	    av->chroma_location < AVCHROMA_LOC_NB)
		c->chroma_site = (uint8_t)av->chroma_location;
}

static inline void dlbuf_ffmpeg_time_(const AVFrame *av, struct dlbuf_frame *f)
{
	AVRational ns;

	if (av->pts == AV_NOPTS_VALUE || av->time_base.num <= 0 ||
	    av->time_base.den <= 0)
		return;
	ns.num = 1;
	ns.den = 1000000000;
	f->timestamp_ns = av_rescale_q(av->pts, av->time_base, ns);
	f->clock = DLBUF_CLOCK_STREAM;
}

static inline enum dlbuf_field dlbuf_ffmpeg_field_(const AVFrame *av)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
	int interlaced = !!(av->flags & AV_FRAME_FLAG_INTERLACED);
	int top_first = !!(av->flags & AV_FRAME_FLAG_TOP_FIELD_FIRST);
#else
	int interlaced = av->interlaced_frame;
	int top_first = av->top_field_first;
#endif

	if (!interlaced)
		return DLBUF_FIELD_NONE;
	return top_first ? DLBUF_FIELD_INTERLACED_TB :
			   DLBUF_FIELD_INTERLACED_BT;
}

/* Computes where a step to the right and a step down lead: a, b, c and d of FFmpeg's matrix. */
static inline void dlbuf_ffmpeg_steps_(uint32_t orientation, int steps[4])
{
	/* Turns only: a flip exchanges left and right afterwards. */
	static const int turns[4][4] = {
		{ 1, 0, 0, 1 }, { 0, 1, -1, 0 }, { -1, 0, 0, -1 }, { 0, -1, 1, 0 },
	};
	int i;

	for (i = 0; i < 4; i++)
		steps[i] = turns[orientation & 3][i] * (orientation & 4 && !(i & 1) ? -1 : 1);
}

static inline int dlbuf_ffmpeg_sign_(int32_t value)
{
	return (value > 0) - (value < 0);
}

/* Reads the orientation from the display matrix, which is side data of the AVFrame. */
static inline int dlbuf_ffmpeg_orientation_(const AVFrame *av, struct dlbuf_frame *f)
{
	const AVFrameSideData *side = av_frame_get_side_data(av, AV_FRAME_DATA_DISPLAYMATRIX);
	int32_t m[9];
	int steps[4];
	uint32_t i;

	if (!side || side->size < sizeof(m))
		return 0;
	memcpy(m, side->data, sizeof(m));
	for (i = 0; i < 8; i++) {
		dlbuf_ffmpeg_steps_(i, steps);
		if (dlbuf_ffmpeg_sign_(m[0]) != steps[0] || dlbuf_ffmpeg_sign_(m[1]) != steps[1] ||
		    dlbuf_ffmpeg_sign_(m[3]) != steps[2] || dlbuf_ffmpeg_sign_(m[4]) != steps[3])
			continue;
		f->orientation = (enum dlbuf_orientation)i;
		return 0;
	}
	return dlbuf_fail(-EOPNOTSUPP, "the AVFrame's display matrix, %d %d %d %d, is no turn by "
			  "quarters: remove AV_FRAME_DATA_DISPLAYMATRIX to have the picture as it "
			  "is stored", m[0], m[1], m[3], m[4]);
}

/*
 * Describes an AVFrame of AV_PIX_FMT_DRM_PRIME as a frame: planes, modifier, crop,
 * orientation (AV_FRAME_DATA_DISPLAYMATRIX), colour, field, the time if pts and
 * time_base are set, and the decoder's error flags.
 *
 * A descriptor with one layer has the format of the picture. A descriptor with
 * several layers has one image per plane, e.g. R8 and GR88, which could be NV12 or
 * NV21. Then the format is sw_format, or if that is AV_PIX_FMT_NONE the format
 * of av->hw_frames_ctx. A frame that av_hwframe_map() made of a VA-API frame
 * has several layers and no hw_frames_ctx: pass the sw_format of the source.
 *
 * av is borrowed. *frame borrows its fds: keep av until the frame is imported.
 * *frame is written completely, on failure with zeroes. It has no lease: set one with
 * dlbuf_ffmpeg_lease(). The order is UNKNOWN: FFmpeg leaves the order to each
 * decoder, and some return the frame before the hardware is done. An acquire always
 * waits for the fences of the dma-buf.
 *
 * Pure. Returns 0, or, with an error text in dlbuf_last_error(),
 * -EINVAL      not DRM_PRIME; no, or more than 4, layers, planes or objects; a
 *              plane in no object or before its start; a crop that leaves no
 *              pixels; layers that are not the planes of sw_format
 * -ERANGE      a plane begins after its object
 * -EOPNOTSUPP  objects with different modifiers; several layers and sw_format is unknown or
 *              DRM has no such format; a display matrix that is no turn by quarters
 * dlbuf_import_frame() checks the format itself.
 *
 * Units: offsets and pitches of AVDRMFrameDescriptor are bytes, and signed. A negative
 * pitch is allowed; a negative offset is refused. A plane ends where its object ends.
 * The size of an object is 0 if the decoder does not know the size.
 *
 * Specification: libavutil/hwcontext_drm.h, libavutil/frame.h; ITU-T H.273.
 */
static inline int dlbuf_ffmpeg_frame(const AVFrame *av,
				     enum AVPixelFormat sw_format,
				     struct dlbuf_frame *frame)
{
	const AVDRMFrameDescriptor *desc;
	struct dlbuf_frame f;
	uint64_t x, y;
	int ret;

	memset(frame, 0, sizeof(*frame));
	if (av->format != AV_PIX_FMT_DRM_PRIME || !av->data[0])
		return dlbuf_fail(-EINVAL, "the AVFrame is of %s, not of "
				  "drm_prime", dlbuf_ffmpeg_name_(
					  (enum AVPixelFormat)av->format));
	desc = (const AVDRMFrameDescriptor *)(const void *)av->data[0];
	if (desc->nb_objects < 1 || desc->nb_objects > AV_DRM_MAX_PLANES ||
	    desc->nb_layers < 1 || desc->nb_layers > AV_DRM_MAX_PLANES)
		return dlbuf_fail(-EINVAL, "the AVFrame has %d objects and %d "
				  "layers", desc->nb_objects, desc->nb_layers);
	if (av->width <= 0 || av->height <= 0)
		return dlbuf_fail(-EINVAL, "the AVFrame is %d pixels wide and %d "
				  "high", av->width, av->height);
	if (sw_format == AV_PIX_FMT_NONE && av->hw_frames_ctx)
		sw_format = ((const AVHWFramesContext *)(const void *)
			     av->hw_frames_ctx->data)->sw_format;

	memset(&f, 0, sizeof(f));
	f.size = sizeof(f);
	f.width = (uint32_t)av->width;
	f.height = (uint32_t)av->height;
	f.code_space = DLBUF_CODE_DRM;
	f.fence = -1;
	ret = dlbuf_ffmpeg_layers_(desc, sw_format, &f);
	if (!ret)
		ret = dlbuf_ffmpeg_orientation_(av, &f);
	if (ret)
		return ret;

	/* The crop values are size_t, and their sums may wrap. */
	x = (uint64_t)av->crop_left + av->crop_right;
	y = (uint64_t)av->crop_top + av->crop_bottom;
	if (av->crop_left > f.width || av->crop_right > f.width ||
	    av->crop_top > f.height || av->crop_bottom > f.height ||
	    x >= f.width || y >= f.height)
		return dlbuf_fail(-EINVAL, "the AVFrame is cropped to nothing");
	if (x || y) {
		f.crop.x = (uint32_t)av->crop_left;
		f.crop.y = (uint32_t)av->crop_top;
		f.crop.width = f.width - (uint32_t)x;
		f.crop.height = f.height - (uint32_t)y;
	}
	dlbuf_ffmpeg_colour_(av, sw_format, &f.colour);
	dlbuf_ffmpeg_time_(av, &f);
	f.field = dlbuf_ffmpeg_field_(av);
	if (av->flags & AV_FRAME_FLAG_CORRUPT || av->decode_error_flags)
		f.flags |= DLBUF_FRAME_DAMAGED;
	*frame = f;
	return 0;
}

static inline void dlbuf_ffmpeg_release_(void *av)
{
	AVFrame *frame = (AVFrame *)av;

	av_frame_free(&frame);
}

/*
 * Sets the lease of *frame to a new reference to av. The decoder does not reuse the
 * buffer before the last tensor is deleted and the last access is complete.
 *
 * av is borrowed: you may unref or free it afterwards. The lease drops the new
 * reference. If dlbuf_import_frame() fails, it does not call the lease: call
 * dlbuf_frame_drop(frame). FFmpeg frees the buffer when its last reference is
 * dropped, on the thread that calls the lease; FFmpeg's pools and decoders
 * allow any thread.
 * -EINVAL  av has no reference to its data (buf[0]), so a lease could not free it
 * On failure *frame is unchanged.
 */
static inline int dlbuf_ffmpeg_lease(const AVFrame *av,
				     struct dlbuf_frame *frame)
{
	AVFrame *ref;

	if (!av->buf[0])
		return dlbuf_fail(-EINVAL, "the AVFrame has no reference to its data "
				  "(buf[0]): a lease cannot keep it");
	ref = av_frame_clone(av);
	if (!ref)
		return dlbuf_fail(-ENOMEM, "av_frame_clone failed");
	frame->release = dlbuf_ffmpeg_release_;
	frame->release_data = ref;
	return 0;
}

/* AVERROR(errno) is -errno. FFmpeg's own codes, made of letters, are far below any -errno. */
static inline int dlbuf_ffmpeg_fail_(int err, const char *call, const char *what)
{
	char text[AV_ERROR_MAX_STRING_SIZE] = "";
	int ret = -EIO;

	av_strerror(err, text, sizeof(text));
	if (err == AVERROR(ENOSYS))
		ret = -EOPNOTSUPP;
	else if (err == AVERROR(ENOMEM))
		ret = -ENOMEM;
	return dlbuf_fail(ret, "%s of %s: %s", call, what, text);
}

/*
 * Describes a hardware frame, if FFmpeg can map it to dma-bufs: those of VA-API
 * and Vulkan are mapped, those of AV_PIX_FMT_DRM_PRIME are used directly. The
 * lease holds the mapping and a reference to av.
 *
 * av is borrowed, as for dlbuf_ffmpeg_lease(). The fds in *frame live until the
 * lease is called: dlbuf_frame_drop() if dlbuf_import_frame() fails. May block in
 * the driver. On failure *frame is all zeroes. access is DLBUF_READ, DLBUF_WRITE
 * or DLBUF_RW: the access of the mapping. A frame of DRM_PRIME has the access of
 * its fds.
 * -EOPNOTSUPP  also: FFmpeg cannot map this kind of frame to DRM_PRIME
 * -EIO         FFmpeg or the driver failed; the error text has its words
 * and the errors of dlbuf_ffmpeg_frame() and dlbuf_ffmpeg_lease()
 */
static inline int dlbuf_ffmpeg_map(const AVFrame *av, uint32_t access,
				   struct dlbuf_frame *frame)
{
	enum AVPixelFormat sw_format = AV_PIX_FMT_NONE;
	struct dlbuf_frame f;
	AVFrame *map;
	int ret;

	memset(frame, 0, sizeof(*frame));
	if (av->format == AV_PIX_FMT_DRM_PRIME) {
		ret = dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NONE, &f);
		if (!ret)
			ret = dlbuf_ffmpeg_lease(av, &f);
		if (!ret)
			*frame = f;
		return ret;
	}
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return dlbuf_fail(-EINVAL, "access %u is not READ, WRITE or RW",
				  access);
	if (!av->hw_frames_ctx)
		return dlbuf_fail(-EINVAL, "the AVFrame is of %s, which is no "
				  "hardware's", dlbuf_ffmpeg_name_(
					  (enum AVPixelFormat)av->format));
	sw_format = ((const AVHWFramesContext *)(const void *)
		     av->hw_frames_ctx->data)->sw_format;
	map = av_frame_alloc();
	if (!map)
		return dlbuf_fail(-ENOMEM, "av_frame_alloc failed");
	map->format = AV_PIX_FMT_DRM_PRIME;
	ret = av_hwframe_map(map, av,
			     (access & DLBUF_READ ? AV_HWFRAME_MAP_READ : 0) |
			     (access & DLBUF_WRITE ? AV_HWFRAME_MAP_WRITE : 0));
	/* Not all mappings copy colour, time and crop. */
	if (ret >= 0)
		ret = av_frame_copy_props(map, av);
	if (ret < 0) {
		ret = dlbuf_ffmpeg_fail_(ret, "av_hwframe_map",
					 dlbuf_ffmpeg_name_(
						 (enum AVPixelFormat)av->format));
	} else {
		ret = dlbuf_ffmpeg_frame(map, sw_format, &f);
	}
	if (ret) {
		av_frame_free(&map);
		return ret;
	}
	f.release = dlbuf_ffmpeg_release_;
	f.release_data = map;
	*frame = f;
	return 0;
}

/* ---- from a frame to an AVFrame */

/* The AVFrame owns this: the descriptor and the release of the dlbuf_frame. */
struct dlbuf_ffmpeg_held_ {
	AVDRMFrameDescriptor desc;
	void (*release)(void *release_data);
	void *release_data;
};

static inline void dlbuf_ffmpeg_unhold_(void *opaque, uint8_t *data)
{
	struct dlbuf_ffmpeg_held_ *held = (struct dlbuf_ffmpeg_held_ *)opaque;
	int i;

	(void)data;
	for (i = 0; i < held->desc.nb_objects; i++)
		close(held->desc.objects[i].fd);
	if (held->release)
		held->release(held->release_data);
	av_free(held);
}

/* The object of plane i; new, unless an earlier plane has the same fd. */
static inline int dlbuf_ffmpeg_object_(const struct dlbuf_frame *f, uint32_t i,
				       AVDRMFrameDescriptor *desc)
{
	AVDRMObjectDescriptor *object = &desc->objects[desc->nb_objects];
	AVDRMPlaneDescriptor *plane = &desc->layers[0].planes[i];
	int64_t bytes;
	uint32_t j;

	for (j = 0; j < i && f->planes[j].fd != f->planes[i].fd; j++)
		;
	plane->object_index = j < i ? desc->layers[0].planes[j].object_index :
				      desc->nb_objects;
	plane->offset = (ptrdiff_t)f->planes[i].offset;
	plane->pitch = (ptrdiff_t)f->planes[i].pitch;
	if (j < i)
		return 0;
	bytes = lseek(f->planes[i].fd, 0, SEEK_END);
	object->fd = bytes < 0 ? -1 : fcntl(f->planes[i].fd, F_DUPFD_CLOEXEC, 3);
	if (object->fd < 0)
		return dlbuf_fail(-errno, "fd %d: %s", f->planes[i].fd, strerror(errno));
	object->size = (size_t)bytes;
	object->format_modifier = f->modifier;
	desc->nb_objects++;
	return 0;
}

static inline void dlbuf_ffmpeg_props_(const struct dlbuf_frame *f, AVFrame *av)
{
	const struct dlbuf_colour *c = &f->colour;
	int interlaced = f->field >= DLBUF_FIELD_INTERLACED &&
			 f->field <= DLBUF_FIELD_INTERLACED_BT;

	av->width = (int)f->width;
	av->height = (int)f->height;
	if (f->crop.width && f->crop.height) {
		av->crop_left = f->crop.x;
		av->crop_top = f->crop.y;
		av->crop_right = f->width - f->crop.x - f->crop.width;
		av->crop_bottom = f->height - f->crop.y - f->crop.height;
	}
	/* 2 is "unspecified" in H.273, and 0 in struct dlbuf_colour. */
	av->color_primaries = (enum AVColorPrimaries)(c->primaries ? c->primaries : 2);
	av->color_trc = (enum AVColorTransferCharacteristic)(c->transfer ? c->transfer : 2);
	av->colorspace = (enum AVColorSpace)(c->matrix ? c->matrix - 1 : 2);
	if (c->range)
		av->color_range = c->range == DLBUF_RANGE_FULL ? AVCOL_RANGE_JPEG :
								AVCOL_RANGE_MPEG;
	av->chroma_location = (enum AVChromaLocation)c->chroma_site;
	if (f->clock == DLBUF_CLOCK_STREAM) {
		av->pts = f->timestamp_ns;
		av->time_base.num = 1;
		av->time_base.den = 1000000000;
	}
	if (f->flags & DLBUF_FRAME_DAMAGED)
		av->flags |= AV_FRAME_FLAG_CORRUPT;
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
	if (interlaced)
		av->flags |= AV_FRAME_FLAG_INTERLACED;
	if (f->field == DLBUF_FIELD_INTERLACED_TB)
		av->flags |= AV_FRAME_FLAG_TOP_FIELD_FIRST;
#else
	av->interlaced_frame = interlaced;
	av->top_field_first = f->field == DLBUF_FIELD_INTERLACED_TB;
#endif
}

static inline int dlbuf_ffmpeg_matrix_(const struct dlbuf_frame *f, AVFrame *av)
{
	int32_t m[9] = { 0, 0, 0, 0, 0, 0, 0, 0, 1 << 30 };
	AVFrameSideData *side;
	int steps[4];

	if (!f->orientation)
		return 0;
	side = av_frame_new_side_data(av, AV_FRAME_DATA_DISPLAYMATRIX, sizeof(m));
	if (!side)
		return dlbuf_fail(-ENOMEM, "no memory for a display matrix");
	dlbuf_ffmpeg_steps_((uint32_t)f->orientation, steps);
	m[0] = steps[0] * (1 << 16);
	m[1] = steps[1] * (1 << 16);
	m[3] = steps[2] * (1 << 16);
	m[4] = steps[3] * (1 << 16);
	memcpy(side->data, m, sizeof(m));
	return 0;
}

/*
 * Makes an AVFrame of AV_PIX_FMT_DRM_PRIME of a frame, without a copy, for encoders, filters
 * and mappings that take DRM_PRIME. It has one layer of the frame's format, the crop,
 * orientation, colour, field, and the time in nanoseconds if the clock is STREAM. Most
 * consumers need a hw_frames_ctx: make it once, and set it in each AVFrame:
 *
 *	av_hwdevice_ctx_create(&device, AV_HWDEVICE_TYPE_DRM, "/dev/dri/renderD128", NULL, 0);
 *	pool = av_hwframe_ctx_alloc(device);
 *	frames = (AVHWFramesContext *)pool->data;
 *	frames->format = AV_PIX_FMT_DRM_PRIME;
 *	frames->sw_format = AV_PIX_FMT_NV12;
 *	frames->width = width;
 *	frames->height = height;
 *	av_hwframe_ctx_init(pool);
 *	av->hw_frames_ctx = av_buffer_ref(pool);
 *
 * The consumer must apply crop_left and the like itself: av_frame_apply_cropping() cannot
 * move the beginning of a hardware frame. av_frame_is_writable() is false for a READ_ONLY
 * frame. An interlaced frame of unknown order is marked as bottom field first: FFmpeg has
 * no value for unknown.
 *
 * On success the frame is taken, and *frame becomes all zeroes. When FFmpeg has dropped
 * the last reference to the data, on any thread, the frame's release is called, or the
 * AVFrame's share of the frame's lease is dropped. On failure the frame is yours. *av is
 * new: av_frame_free(). The fds are duplicated.
 *
 * Blocks until the frame's fence, or the fences that its producer has added to the dma-bufs,
 * have signalled: FFmpeg does not wait for fences. Returns 0, or
 * -EOPNOTSUPP  DRM has no code for the format; a single field, or fields one after the
 *              other
 * -EINVAL      a size beyond FFmpeg's numbers
 * -EIO         the work on the frame failed
 * and the errors of dlbuf_frame_expand()
 */
static inline int dlbuf_ffmpeg_avframe(struct dlbuf_frame *frame, AVFrame **av)
{
	struct dlbuf_ffmpeg_held_ *held = NULL;
	struct dlbuf_format_info info;
	struct dlbuf_frame e;
	AVFrame *out = NULL;
	uint32_t i;
	int ret;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	ret = dlbuf_frame_expand_(frame, 0, &e);
	if (ret)
		return ret;
	ret = dlbuf_format_find(e.code, e.modifier, e.code_space, &info);
	if (!ret && !info.drm_code)
		ret = dlbuf_fail(-EOPNOTSUPP, "DRM has no code for %s", info.v4l2_name);
	if (!ret && e.field > DLBUF_FIELD_NONE &&
	    (e.field < DLBUF_FIELD_INTERLACED || e.field > DLBUF_FIELD_INTERLACED_BT))
		ret = dlbuf_fail(-EOPNOTSUPP, "a single field, or fields one after the other "
				 "(field %d), are no picture of FFmpeg's", (int)e.field);
	if (!ret && (e.width > INT32_MAX || e.height > INT32_MAX))
		ret = dlbuf_fail(-EINVAL, "%ux%u pixels", e.width, e.height);
	if (!ret)
		ret = dlbuf_frame_wait_(&e);
	if (!ret) {
		held = (struct dlbuf_ffmpeg_held_ *)av_mallocz(sizeof(*held));
		ret = held ? 0 : dlbuf_fail(-ENOMEM, "no memory for a descriptor");
	}
	if (ret) {
		dlbuf_frame_drop(&e);
		return ret;
	}
	held->desc.nb_layers = 1;
	held->desc.layers[0].format = info.drm_code;
	held->desc.layers[0].nb_planes = (int)e.nplanes;
	for (i = 0; !ret && i < e.nplanes; i++)
		ret = dlbuf_ffmpeg_object_(&e, i, &held->desc);
	if (!ret)
		out = av_frame_alloc();
	if (out)
		out->buf[0] = av_buffer_create((uint8_t *)&held->desc, sizeof(held->desc),
					       dlbuf_ffmpeg_unhold_, held,
					       e.flags & DLBUF_FRAME_READ_ONLY ?
					       AV_BUFFER_FLAG_READONLY : 0);
	if (!out || !out->buf[0]) {
		av_frame_free(&out);
		dlbuf_ffmpeg_unhold_(held, NULL);
		dlbuf_frame_drop(&e);
		return ret ? ret : dlbuf_fail(-ENOMEM, "no memory for an AVFrame");
	}
	out->format = AV_PIX_FMT_DRM_PRIME;
	out->data[0] = (uint8_t *)&held->desc;
	dlbuf_ffmpeg_props_(&e, out);
	ret = dlbuf_ffmpeg_matrix_(&e, out);
	if (ret) {
		av_frame_free(&out);
		dlbuf_frame_drop(&e);
		return ret;
	}
	dlbuf_frame_take_(frame, &e);
	held->release = e.release;
	held->release_data = e.release_data;
	*av = out;
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_FFMPEG_H */
