/* SPDX-License-Identifier: MIT */
/*
 * GStreamer: makes a frame from a GstBuffer of dma-bufs and the caps of its pad.
 * Header-only; needs GStreamer 1.20 or newer (1.24 for caps with format=DMA_DRM)
 * and its libraries: pkg-config gstreamer-video-1.0 gstreamer-allocators-1.0.
 *
 *	GstSample *sample = gst_app_sink_pull_sample(sink);
 *	struct dlbuf_gstreamer_format format;
 *	struct dlbuf_frame frame;
 *
 *	dlbuf_gstreamer_caps(gst_sample_get_caps(sample), &format);
 *	dlbuf_gstreamer_frame(gst_sample_get_buffer(sample), &format, &frame);
 *	gst_sample_unref(sample);
 *	if (dlbuf_import_frame(dev, &frame, NULL, tensors, &ntensors))
 *		frame.release(frame.release_data);
 *
 * The lease is a reference to the GstBuffer. The buffer returns to its pool, and
 * to the camera, when the last tensor is deleted and its work is complete.
 */
#ifndef DLBUF_INTEROP_GSTREAMER_H
#define DLBUF_INTEROP_GSTREAMER_H

#include <errno.h>
#include <string.h>

#include <gst/allocators/gstdmabuf.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include <dlbuf/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The format of caps, from dlbuf_gstreamer_caps(). Valid until the caps change. */
struct dlbuf_gstreamer_format {
	GstVideoInfo info;
	uint32_t code;
	enum dlbuf_code_space code_space;
	/* You may set it if you know it, see dlbuf_gstreamer_caps(). */
	uint64_t modifier;
};

/*
 * Returns DRM's code of the same bytes. If DRM has none, or means another format
 * by it (AYUV), returns V4L2's. 0: neither has one.
 */
static inline uint32_t dlbuf_gstreamer_code_(GstVideoFormat format,
					     enum dlbuf_code_space *space)
{
	*space = DLBUF_CODE_DRM;
	switch (format) {
	case GST_VIDEO_FORMAT_NV12:
		return DLBUF_FOURCC('N', 'V', '1', '2');
	case GST_VIDEO_FORMAT_NV21:
		return DLBUF_FOURCC('N', 'V', '2', '1');
	case GST_VIDEO_FORMAT_NV16:
		return DLBUF_FOURCC('N', 'V', '1', '6');
	case GST_VIDEO_FORMAT_NV61:
		return DLBUF_FOURCC('N', 'V', '6', '1');
	case GST_VIDEO_FORMAT_NV24:
		return DLBUF_FOURCC('N', 'V', '2', '4');
	case GST_VIDEO_FORMAT_P010_10LE:
		return DLBUF_FOURCC('P', '0', '1', '0');
	case GST_VIDEO_FORMAT_P012_LE:
		return DLBUF_FOURCC('P', '0', '1', '2');
	case GST_VIDEO_FORMAT_P016_LE:
		return DLBUF_FOURCC('P', '0', '1', '6');
	case GST_VIDEO_FORMAT_NV12_10LE40:
		return DLBUF_FOURCC('N', 'V', '1', '5');

	case GST_VIDEO_FORMAT_I420:
		return DLBUF_FOURCC('Y', 'U', '1', '2');
	case GST_VIDEO_FORMAT_YV12:
		return DLBUF_FOURCC('Y', 'V', '1', '2');
	case GST_VIDEO_FORMAT_Y41B:
		return DLBUF_FOURCC('Y', 'U', '1', '1');
	case GST_VIDEO_FORMAT_Y42B:
		return DLBUF_FOURCC('Y', 'U', '1', '6');
	case GST_VIDEO_FORMAT_Y444:
		return DLBUF_FOURCC('Y', 'U', '2', '4');
	case GST_VIDEO_FORMAT_YUV9:
		return DLBUF_FOURCC('Y', 'U', 'V', '9');
	case GST_VIDEO_FORMAT_YVU9:
		return DLBUF_FOURCC('Y', 'V', 'U', '9');
	case GST_VIDEO_FORMAT_I420_10LE:
		return DLBUF_FOURCC('S', '0', '1', '0');
	case GST_VIDEO_FORMAT_I422_10LE:
		return DLBUF_FOURCC('S', '2', '1', '0');
	case GST_VIDEO_FORMAT_Y444_10LE:
		return DLBUF_FOURCC('S', '4', '1', '0');
	case GST_VIDEO_FORMAT_I420_12LE:
		return DLBUF_FOURCC('S', '0', '1', '2');
	case GST_VIDEO_FORMAT_I422_12LE:
		return DLBUF_FOURCC('S', '2', '1', '2');
	case GST_VIDEO_FORMAT_Y444_12LE:
		return DLBUF_FOURCC('S', '4', '1', '2');
	case GST_VIDEO_FORMAT_Y444_16LE:
		return DLBUF_FOURCC('S', '4', '1', '6');

	case GST_VIDEO_FORMAT_YUY2:
		return DLBUF_FOURCC('Y', 'U', 'Y', 'V');
	case GST_VIDEO_FORMAT_YVYU:
		return DLBUF_FOURCC('Y', 'V', 'Y', 'U');
	case GST_VIDEO_FORMAT_UYVY:
		return DLBUF_FOURCC('U', 'Y', 'V', 'Y');
	case GST_VIDEO_FORMAT_VYUY:
		return DLBUF_FOURCC('V', 'Y', 'U', 'Y');
	case GST_VIDEO_FORMAT_Y210:
		return DLBUF_FOURCC('Y', '2', '1', '0');
	case GST_VIDEO_FORMAT_Y212_LE:
		return DLBUF_FOURCC('Y', '2', '1', '2');
	case GST_VIDEO_FORMAT_Y410:
		return DLBUF_FOURCC('Y', '4', '1', '0');
	case GST_VIDEO_FORMAT_Y412_LE:
		return DLBUF_FOURCC('Y', '4', '1', '2');
#if GST_CHECK_VERSION(1, 26, 0)
	case GST_VIDEO_FORMAT_Y216_LE:
		return DLBUF_FOURCC('Y', '2', '1', '6');
	case GST_VIDEO_FORMAT_Y416_LE:
		return DLBUF_FOURCC('Y', '4', '1', '6');
#endif
	case GST_VIDEO_FORMAT_VUYA:
		return DLBUF_FOURCC('A', 'Y', 'U', 'V');
	case GST_VIDEO_FORMAT_v308:
		return DLBUF_FOURCC('V', 'U', '2', '4');

	/* DRM names the channels from the highest bit down. */
	case GST_VIDEO_FORMAT_RGB:
		return DLBUF_FOURCC('B', 'G', '2', '4');
	case GST_VIDEO_FORMAT_BGR:
		return DLBUF_FOURCC('R', 'G', '2', '4');
	case GST_VIDEO_FORMAT_BGRx:
		return DLBUF_FOURCC('X', 'R', '2', '4');
	case GST_VIDEO_FORMAT_RGBx:
		return DLBUF_FOURCC('X', 'B', '2', '4');
	case GST_VIDEO_FORMAT_xRGB:
		return DLBUF_FOURCC('B', 'X', '2', '4');
	case GST_VIDEO_FORMAT_xBGR:
		return DLBUF_FOURCC('R', 'X', '2', '4');
	case GST_VIDEO_FORMAT_BGRA:
		return DLBUF_FOURCC('A', 'R', '2', '4');
	case GST_VIDEO_FORMAT_RGBA:
		return DLBUF_FOURCC('A', 'B', '2', '4');
	case GST_VIDEO_FORMAT_ARGB:
		return DLBUF_FOURCC('B', 'A', '2', '4');
	case GST_VIDEO_FORMAT_ABGR:
		return DLBUF_FOURCC('R', 'A', '2', '4');
	case GST_VIDEO_FORMAT_RGBA64_LE:
		return DLBUF_FOURCC('A', 'B', '4', '8');
	case GST_VIDEO_FORMAT_BGRA64_LE:
		return DLBUF_FOURCC('A', 'R', '4', '8');
	case GST_VIDEO_FORMAT_BGR10A2_LE:
		return DLBUF_FOURCC('A', 'R', '3', '0');
	case GST_VIDEO_FORMAT_RGB10A2_LE:
		return DLBUF_FOURCC('A', 'B', '3', '0');
	case GST_VIDEO_FORMAT_RGB16:
		return DLBUF_FOURCC('R', 'G', '1', '6');
	case GST_VIDEO_FORMAT_BGR16:
		return DLBUF_FOURCC('B', 'G', '1', '6');
	case GST_VIDEO_FORMAT_RGB15:
		return DLBUF_FOURCC('X', 'R', '1', '5');
	case GST_VIDEO_FORMAT_BGR15:
		return DLBUF_FOURCC('X', 'B', '1', '5');
	default:
		break;
	}
	*space = DLBUF_CODE_V4L2;
	switch (format) {
	case GST_VIDEO_FORMAT_GRAY8:
		return DLBUF_FOURCC('G', 'R', 'E', 'Y');
	case GST_VIDEO_FORMAT_GRAY16_LE:
		return DLBUF_FOURCC('Y', '1', '6', ' ');
#if GST_CHECK_VERSION(1, 26, 0)
	case GST_VIDEO_FORMAT_GRAY10_LE16:
		return DLBUF_FOURCC('Y', '1', '0', ' ');
#endif
	case GST_VIDEO_FORMAT_AYUV:
		return DLBUF_FOURCC('A', 'Y', 'U', 'V');
	default:
		return 0;
	}
}

/* The format of video/x-bayer: the first two rows of the mosaic, and the depth. */
static inline uint32_t dlbuf_gstreamer_bayer_(const char *name,
					      GstVideoFormat *like)
{
	static const struct {
		char name[8];
		char code[5][4];	/* of 8, 10, 12, 14 and 16 bits */
	} patterns[] = {
		{ "bggr", { { 'B', 'A', '8', '1' }, { 'B', 'G', '1', '0' },
			    { 'B', 'G', '1', '2' }, { 'B', 'G', '1', '4' },
			    { 'B', 'Y', 'R', '2' } } },
		{ "gbrg", { { 'G', 'B', 'R', 'G' }, { 'G', 'B', '1', '0' },
			    { 'G', 'B', '1', '2' }, { 'G', 'B', '1', '4' },
			    { 'G', 'B', '1', '6' } } },
		{ "grbg", { { 'G', 'R', 'B', 'G' }, { 'B', 'A', '1', '0' },
			    { 'B', 'A', '1', '2' }, { 'G', 'R', '1', '4' },
			    { 'G', 'R', '1', '6' } } },
		{ "rggb", { { 'R', 'G', 'G', 'B' }, { 'R', 'G', '1', '0' },
			    { 'R', 'G', '1', '2' }, { 'R', 'G', '1', '4' },
			    { 'R', 'G', '1', '6' } } },
	};
	static const char depths[][8] = { "", "10le", "12le", "14le", "16le" };
	size_t i, j;

	if (!name)
		return 0;
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (strncmp(name, patterns[i].name, 4))
			continue;
		for (j = 0; j < sizeof(depths) / sizeof(depths[0]); j++) {
			const char *c = patterns[i].code[j];

			if (strcmp(name + 4, depths[j]))
				continue;
			*like = j ? GST_VIDEO_FORMAT_GRAY16_LE :
				    GST_VIDEO_FORMAT_GRAY8;
			return DLBUF_FOURCC(c[0], c[1], c[2], c[3]);
		}
	}
	return 0;
}

static inline int dlbuf_gstreamer_bayer_caps_(const GstStructure *s,
					      struct dlbuf_gstreamer_format *f)
{
	GstVideoFormat like = GST_VIDEO_FORMAT_UNKNOWN;
	int width, height;

	f->code_space = DLBUF_CODE_V4L2;
	f->code = dlbuf_gstreamer_bayer_(gst_structure_get_string(s, "format"),
					 &like);
	if (!f->code)
		return dlbuf_fail(-EOPNOTSUPP, "V4L2 has no code for "
				  "video/x-bayer,format=%s",
				  gst_structure_get_string(s, "format"));
	if (!gst_structure_get_int(s, "width", &width) ||
	    !gst_structure_get_int(s, "height", &height) || width <= 0 ||
	    height <= 0)
		return dlbuf_fail(-EINVAL, "the caps say no size");
	/* Rows of a mosaic have the layout of rows of a grey picture. */
	if (!gst_video_info_set_format(&f->info, like, (guint)width,
				       (guint)height))
		return dlbuf_fail(-EINVAL, "GStreamer refuses pictures of %dx%d",
				  width, height);
	memset(&f->info.colorimetry, 0, sizeof(f->info.colorimetry));
	f->info.colorimetry.matrix = GST_VIDEO_COLOR_MATRIX_RGB;
	return 0;
}

/*
 * Reads the caps of a GstSample or of a CAPS event. They are borrowed.
 *
 * The modifier depends on the caps:
 *   format=DMA_DRM (1.24)              the modifier in drm-format
 *   video/x-raw in system memory       LINEAR: gst_video_frame_map() shows linear
 *                                      rows, whatever memory holds them
 *   memory:DMABuf with another format  INVALID: before 1.24 caps do not say it.
 *                                      dlbuf_import_frame() refuses INVALID. Set
 *                                      format->modifier to DLBUF_MOD_LINEAR if
 *                                      you know that the element, e.g. v4l2src,
 *                                      is linear
 *
 * Pure. *format is written on success only. Returns 0, or, with an error text in
 * dlbuf_last_error(),
 * -EINVAL      not caps of one raw picture: not fixed, not video/x-raw or
 *              video/x-bayer, or without a size
 * -EOPNOTSUPP  neither DRM nor V4L2 has a code for the format (planar RGB,
 *              big-endian, v210); or each field in a buffer has an id of its own
 *              (interlace-mode=fields)
 *
 * Specification: GStreamer's "Raw Video Media Types" and "DMA buffers".
 */
static inline int dlbuf_gstreamer_caps(const GstCaps *caps,
				       struct dlbuf_gstreamer_format *format)
{
	struct dlbuf_gstreamer_format f;
	const GstCapsFeatures *features;
	const GstStructure *s;
	int ret;

	if (!caps || !gst_caps_is_fixed(caps))
		return dlbuf_fail(-EINVAL, "the caps are not fixed");
	memset(&f, 0, sizeof(f));
	gst_video_info_init(&f.info);
	s = gst_caps_get_structure(caps, 0);
	features = gst_caps_get_features(caps, 0);
	f.modifier = !features || gst_caps_features_is_equal(features,
			GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY) ?
		     DLBUF_MOD_LINEAR : DLBUF_MOD_INVALID;
	if (gst_structure_has_name(s, "video/x-bayer")) {
		ret = dlbuf_gstreamer_bayer_caps_(s, &f);
		if (ret)
			return ret;
		*format = f;
		return 0;
	}
	if (!gst_structure_has_name(s, "video/x-raw"))
		return dlbuf_fail(-EINVAL, "the caps are of %s, not of video/x-raw "
				  "or video/x-bayer", gst_structure_get_name(s));
#if GST_CHECK_VERSION(1, 24, 0)
	if (gst_video_is_dma_drm_caps(caps)) {
		GstVideoInfoDmaDrm drm;

		if (!gst_video_info_dma_drm_from_caps(&drm, caps))
			return dlbuf_fail(-EINVAL, "GStreamer cannot read the "
					  "DMA_DRM caps");
		f.code = drm.drm_fourcc;
		f.code_space = DLBUF_CODE_DRM;
		f.modifier = drm.drm_modifier;
		/* The places of the planes, if the buffers have no GstVideoMeta. */
		if (f.modifier != DLBUF_MOD_LINEAR ||
		    !gst_video_info_dma_drm_to_video_info(&drm, &f.info))
			f.info = drm.vinfo;
	} else
#endif
	{
		if (!gst_video_info_from_caps(&f.info, caps))
			return dlbuf_fail(-EINVAL, "GStreamer cannot read the "
					  "caps of video/x-raw");
		f.code = dlbuf_gstreamer_code_(GST_VIDEO_INFO_FORMAT(&f.info),
					       &f.code_space);
	}
	if (!f.code)
		return dlbuf_fail(-EOPNOTSUPP, "neither DRM nor V4L2 has a code "
				  "for GStreamer's %s", gst_video_format_to_string(
					  GST_VIDEO_INFO_FORMAT(&f.info)));
	if (GST_VIDEO_INFO_INTERLACE_MODE(&f.info) ==
	    GST_VIDEO_INTERLACE_MODE_FIELDS)
		return dlbuf_fail(-EOPNOTSUPP, "a buffer of interlace-mode=fields "
				  "is more than one picture");
	*format = f;
	return 0;
}

/* Formats for caps. */
struct dlbuf_gstreamer_lists_ {
	GValue drm, raw;
	uint32_t flags;
};

static inline void dlbuf_gstreamer_append_(GValue *list, const char *s)
{
	GValue v = G_VALUE_INIT;

	g_value_init(&v, G_TYPE_STRING);
	g_value_set_string(&v, s);
	gst_value_list_append_and_take_value(list, &v);
}

static inline int
dlbuf_gstreamer_add_(const struct dlbuf_device_format *f, void *data)
{
	struct dlbuf_gstreamer_lists_ *lists =
		(struct dlbuf_gstreamer_lists_ *)data;
	const GstVideoFormat *formats;
	guint i, n;

	if (lists->flags && !(f->flags & lists->flags))
		return 0;
#if GST_CHECK_VERSION(1, 24, 0)
	if (f->code_space == DLBUF_CODE_DRM) {
		gchar *s = gst_video_dma_drm_fourcc_to_string(f->code,
							      f->modifier);

		if (s)
			dlbuf_gstreamer_append_(&lists->drm, s);
		g_free(s);
	}
#endif
	if (f->modifier != DLBUF_MOD_LINEAR)
		return 0;
	formats = gst_video_formats_raw(&n);
	for (i = 0; i < n; i++) {
		struct dlbuf_format_info info;
		enum dlbuf_code_space space;
		uint32_t code = dlbuf_gstreamer_code_(formats[i], &space);

		info.size = sizeof(info);
		if (code && !dlbuf_format_find(code, 0, space, &info) &&
		    f->code == (info.drm_code ? info.drm_code : info.v4l2_code))
			dlbuf_gstreamer_append_(&lists->raw,
				gst_video_format_to_string(formats[i]));
	}
	return 0;
}

/*
 * Makes caps of all frames that the device imports, for the sink pad or the caps of an
 * appsink: video/x-raw(memory:DMABuf) with format=DMA_DRM and each fourcc and modifier
 * (1.24), or before 1.24 with the linear formats; then video/x-raw with the linear
 * formats, for elements that give dma-bufs as system memory (v4l2src io-mode=dmabuf).
 *
 * flags: DLBUF_DEVICE_FORMAT_... that are wanted; 0: all. With COPY the import needs
 * DLBUF_IMPORT_MAY_COPY. *caps is new: gst_caps_unref(). Call gst_init() before. Calls the
 * driver. Returns 0, or the errors of dlbuf_device_formats().
 *
 * Specification: GStreamer's "DMA buffers".
 */
static inline int dlbuf_gstreamer_device_caps(struct dlbuf_device *dev,
					      uint32_t flags, GstCaps **caps)
{
	struct dlbuf_gstreamer_lists_ lists;
	GstStructure *s;
	GstCaps *c;
	int ret;

	memset(&lists, 0, sizeof(lists));
	lists.flags = flags;
	g_value_init(&lists.drm, GST_TYPE_LIST);
	g_value_init(&lists.raw, GST_TYPE_LIST);
	ret = dlbuf_device_formats(dev, dlbuf_gstreamer_add_, &lists);
	if (!ret) {
		c = gst_caps_new_empty();
		s = gst_structure_new_empty("video/x-raw");
#if GST_CHECK_VERSION(1, 24, 0)
		gst_structure_set(s, "format", G_TYPE_STRING, "DMA_DRM", NULL);
		gst_structure_set_value(s, "drm-format", &lists.drm);
#else
		gst_structure_set_value(s, "format", &lists.raw);
#endif
		gst_caps_append_structure_full(c, s, gst_caps_features_new(
			GST_CAPS_FEATURE_MEMORY_DMABUF, NULL));
		s = gst_structure_new_empty("video/x-raw");
		gst_structure_set_value(s, "format", &lists.raw);
		gst_caps_append_structure(c, s);
		*caps = c;
	}
	g_value_unset(&lists.drm);
	g_value_unset(&lists.raw);
	return ret;
}

static inline struct dlbuf_colour
dlbuf_gstreamer_colour_(const GstVideoInfo *info)
{
	const GstVideoColorimetry *from = &info->colorimetry;
	struct dlbuf_colour c;
	guint matrix;

	memset(&c, 0, sizeof(c));
	if (from->range == GST_VIDEO_COLOR_RANGE_0_255)
		c.range = DLBUF_RANGE_FULL;
	else if (from->range == GST_VIDEO_COLOR_RANGE_16_235)
		c.range = DLBUF_RANGE_LIMITED;
	/* 2 means "unspecified" in H.273. */
	c.primaries = (uint8_t)gst_video_color_primaries_to_iso(from->primaries);
	if (c.primaries == 2)
		c.primaries = 0;
	c.transfer = (uint8_t)gst_video_transfer_function_to_iso(from->transfer);
	if (c.transfer == 2)
		c.transfer = 0;
	matrix = gst_video_color_matrix_to_iso(from->matrix);
	if (matrix != 2)
		c.matrix = (uint8_t)(matrix + 1);
	switch ((unsigned int)info->chroma_site &
		~(unsigned int)GST_VIDEO_CHROMA_SITE_ALT_LINE) {
	case GST_VIDEO_CHROMA_SITE_H_COSITED:
		c.chroma_site = 0 + 1;
		break;
	case GST_VIDEO_CHROMA_SITE_NONE:
		c.chroma_site = 1 + 1;
		break;
	case GST_VIDEO_CHROMA_SITE_COSITED:
		c.chroma_site = 2 + 1;
		break;
	case GST_VIDEO_CHROMA_SITE_V_COSITED:
		c.chroma_site = 3 + 1;
		break;
	default:
		break;
	}
	return c;
}

static inline enum dlbuf_field
dlbuf_gstreamer_field_(const GstVideoInfo *info, GstBuffer *buffer)
{
	gboolean top = GST_BUFFER_FLAG_IS_SET(buffer,
					      GST_VIDEO_BUFFER_FLAG_TFF);
	gboolean is_interlaced = GST_BUFFER_FLAG_IS_SET(buffer,
					GST_VIDEO_BUFFER_FLAG_INTERLACED);

	switch (GST_VIDEO_INFO_INTERLACE_MODE(info)) {
	case GST_VIDEO_INTERLACE_MODE_PROGRESSIVE:
		return DLBUF_FIELD_NONE;
	case GST_VIDEO_INTERLACE_MODE_ALTERNATE:
		return top ? DLBUF_FIELD_TOP : DLBUF_FIELD_BOTTOM;
	case GST_VIDEO_INTERLACE_MODE_MIXED:
		if (!is_interlaced)
			return DLBUF_FIELD_NONE;
		return top ? DLBUF_FIELD_INTERLACED_TB :
			     DLBUF_FIELD_INTERLACED_BT;
	case GST_VIDEO_INTERLACE_MODE_INTERLEAVED:
		if (GST_VIDEO_INFO_FIELD_ORDER(info) ==
		    GST_VIDEO_FIELD_ORDER_TOP_FIELD_FIRST)
			return DLBUF_FIELD_INTERLACED_TB;
		if (GST_VIDEO_INFO_FIELD_ORDER(info) ==
		    GST_VIDEO_FIELD_ORDER_BOTTOM_FIELD_FIRST)
			return DLBUF_FIELD_INTERLACED_BT;
		/* The caps do not say it; each buffer may. */
		if (top)
			return DLBUF_FIELD_INTERLACED_TB;
		return is_interlaced ? DLBUF_FIELD_INTERLACED_BT :
				       DLBUF_FIELD_INTERLACED;
	default:
		return DLBUF_FIELD_UNKNOWN;
	}
}

static inline int dlbuf_gstreamer_plane_(GstBuffer *buffer, gsize offset,
					 int stride, struct dlbuf_plane *plane)
{
	guint index, length;
	GstMemory *mem;
	gsize skip;

	if (!gst_buffer_find_memory(buffer, offset, 1, &index, &length, &skip))
		return dlbuf_fail(-ERANGE, "a plane begins at byte %zu, beyond "
				  "the GstBuffer", (size_t)offset);
	mem = gst_buffer_peek_memory(buffer, index);
	if (!gst_is_dmabuf_memory(mem))
		return dlbuf_fail(-EBADF, "the GstBuffer's memory is of %s, no "
				  "dma-buf", mem->allocator ?
				  mem->allocator->mem_type : "no allocator");
	plane->fd = gst_dmabuf_memory_get_fd(mem);
	/* The memory may be a part of the dma-buf. */
	plane->offset = mem->offset + skip;
	plane->pitch = stride;
	plane->bytes = mem->size - skip;
	return 0;
}

static inline void dlbuf_gstreamer_release_(void *buffer)
{
	gst_buffer_unref((GstBuffer *)buffer);
}

/*
 * Describes a buffer as a frame. Where each value comes from:
 *   planes     GstVideoMeta, or the caps if the buffer has none; in as many
 *              dma-bufs as the buffer has memories. The offsets of GstVideoMeta
 *              include its alignment
 *   crop       GstVideoCropMeta
 *   timestamp  PTS, nanoseconds of the stream
 *   sequence   offset of the buffer
 *   order      IMPLICIT: a producer with fences adds them to the dma-buf
 *   height     with interlace-mode=alternate that of one field
 *
 * The lease is a reference to the buffer; release() drops it. If the frame is not
 * imported, or dlbuf_import_frame() fails, call frame.release(frame.release_data).
 * The fds belong to the memories and are borrowed as long as the lease is held.
 * buffer and format are borrowed for the call. The thread that fires the lease
 * returns the buffer to its pool, which means VIDIOC_QBUF for a camera; the pools
 * of GStreamer do not block there.
 *
 * Pure, except for the reference. *frame is written completely, and on success
 * only. Returns 0, or
 * -EBADF       a plane is in memory that is not a dma-buf
 * -ERANGE      a plane begins after the buffer
 * -EOPNOTSUPP  the planes' places are unknown: the buffer has no GstVideoMeta, and
 *              the format is not linear or not one of GStreamer
 */
static inline int dlbuf_gstreamer_frame(GstBuffer *buffer,
					const struct dlbuf_gstreamer_format *format,
					struct dlbuf_frame *frame)
{
	const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
	const GstVideoCropMeta *crop = gst_buffer_get_video_crop_meta(buffer);
	const GstVideoInfo *info = &format->info;
	struct dlbuf_frame f;
	uint32_t i;
	int ret;

	memset(&f, 0, sizeof(f));
	f.size = sizeof(f);
	f.width = meta ? meta->width : (uint32_t)GST_VIDEO_INFO_WIDTH(info);
	f.height = meta ? meta->height : (uint32_t)GST_VIDEO_INFO_HEIGHT(info);
	if (GST_VIDEO_INFO_INTERLACE_MODE(info) ==
	    GST_VIDEO_INTERLACE_MODE_ALTERNATE)
		f.height = f.height / 2 + f.height % 2;
	f.code = format->code;
	f.code_space = format->code_space;
	f.modifier = format->modifier;
	f.nplanes = meta ? meta->n_planes : GST_VIDEO_INFO_N_PLANES(info);
#if GST_CHECK_VERSION(1, 24, 0)
	if (!meta && GST_VIDEO_INFO_FORMAT(info) == GST_VIDEO_FORMAT_DMA_DRM)
		return dlbuf_fail(-EOPNOTSUPP, "nobody says where the planes are: "
				  "the GstBuffer has no GstVideoMeta");
#endif
	if (!f.nplanes || f.nplanes > DLBUF_MAX_PLANES)
		return dlbuf_fail(-EOPNOTSUPP, "a GstBuffer of %u planes",
				  f.nplanes);
	for (i = 0; i < f.nplanes; i++) {
		ret = dlbuf_gstreamer_plane_(buffer,
			meta ? meta->offset[i] :
			       GST_VIDEO_INFO_PLANE_OFFSET(info, i),
			meta ? meta->stride[i] :
			       GST_VIDEO_INFO_PLANE_STRIDE(info, i),
			&f.planes[i]);
		if (ret)
			return ret;
	}
	if (crop) {
		f.crop.x = crop->x;
		f.crop.y = crop->y;
		f.crop.width = crop->width;
		f.crop.height = crop->height;
	}
	f.colour = dlbuf_gstreamer_colour_(info);
	f.field = dlbuf_gstreamer_field_(info, buffer);
	if (GST_BUFFER_PTS_IS_VALID(buffer)) {
		f.timestamp_ns = (int64_t)GST_BUFFER_PTS(buffer);
		f.clock = DLBUF_CLOCK_STREAM;
	}
	if (GST_BUFFER_OFFSET_IS_VALID(buffer)) {
		f.sequence = GST_BUFFER_OFFSET(buffer);
		f.flags |= DLBUF_FRAME_SEQUENCE;
	}
	if (GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED))
		f.flags |= DLBUF_FRAME_DAMAGED;
	f.order = DLBUF_ORDER_IMPLICIT;
	f.fence = -1;
	f.release = dlbuf_gstreamer_release_;
	f.release_data = gst_buffer_ref(buffer);
	*frame = f;
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_GSTREAMER_H */
