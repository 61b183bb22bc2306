/* SPDX-License-Identifier: MIT */
/*
 * GStreamer: makes a frame from a GstBuffer of dma-bufs and the caps of its pad.
 * Header-only; needs GStreamer 1.20 or newer (1.24 for caps with format=DMA_DRM),
 * its libraries, and more than bare C11 (-std=gnu11 or _GNU_SOURCE):
 * pkg-config gstreamer-video-1.0 gstreamer-allocators-1.0.
 *
 *	GstSample *sample = gst_app_sink_pull_sample(sink);
 *	struct dlbuf_gstreamer_format format;
 *	struct dlbuf_frame frame;
 *
 *	if (dlbuf_gstreamer_caps(gst_sample_get_caps(sample), &format))
 *		errx(1, "%s", dlbuf_last_error());
 *	format.orientation = dlbuf_gstreamer_orientation(sink);
 *	if (dlbuf_gstreamer_frame(gst_sample_get_buffer(sample), &format, &frame))
 *		errx(1, "%s", dlbuf_last_error());
 *	gst_sample_unref(sample);
 *	if (dlbuf_import_frame(dev, &frame, NULL, tensors, &ntensors)) {
 *		dlbuf_frame_drop(&frame);
 *		errx(1, "%s", dlbuf_last_error());
 *	}
 *
 * The pipeline needs four things:
 *   - caps of dma-bufs, see dlbuf_gstreamer_device_caps(). With format=DMA_DRM an
 *     element never falls back to system memory; with plain caps v4l2src does so when
 *     its pool runs low because you hold frames
 *   - an announcement that you read GstVideoMeta: dlbuf_gstreamer_announce(sink).
 *     Without it v4l2src copies each frame whose pitch is not GStreamer's own into
 *     system memory
 *   - max-buffers of an appsink, 1 for example: by default its queue has no limit, so it
 *     takes all of a camera's buffers while you work, and v4l2src copies into system
 *     memory
 *   - dlbuf_device_trim(dev, 0) when the caps have changed or the pipeline has stopped:
 *     until then a device keeps its imports of the old buffers, and with them the memory
 *
 * The lease is a reference to the GstBuffer. The buffer returns to its pool, and
 * to the camera, when the last tensor is deleted and its work is complete.
 */
#ifndef DLBUF_INTEROP_GSTREAMER_H
#define DLBUF_INTEROP_GSTREAMER_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <gst/allocators/gstdmabuf.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include <dlbuf/frame.h>
#include <dlbuf/interop/shared.h>

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
	/*
	 * It is in a tag, not in caps: set it to dlbuf_gstreamer_orientation().
	 */
	enum dlbuf_orientation orientation;
	int is_bayer;		/* each buffer has its own pitch */
};

static inline int dlbuf_gstreamer_bayer_caps_(const GstStructure *s,
					      struct dlbuf_gstreamer_format *f)
{
	const char *name = gst_structure_get_string(s, "format");
	const char *colour = gst_structure_get_string(s, "colorimetry");
	int width, height;

	f->code = dlbuf_code_named_(name, DLBUF_CODE_GSTREAMER, &f->code_space);
	if (!f->code)
		return dlbuf_fail(-EOPNOTSUPP, "V4L2 has no code for "
				  "video/x-bayer,format=%s", name ? name : "(none)");
	if (!gst_structure_get_int(s, "width", &width) ||
	    !gst_structure_get_int(s, "height", &height) || width <= 0 ||
	    height <= 0)
		return dlbuf_fail(-EINVAL, "the caps say no size");
	/* A mosaic has rows like a grey picture, but with the producer's pitch. */
	if (!gst_video_info_set_format(&f->info, strlen(name) > 4 ?
				       GST_VIDEO_FORMAT_GRAY16_LE : GST_VIDEO_FORMAT_GRAY8,
				       (guint)width, (guint)height))
		return dlbuf_fail(-EINVAL, "GStreamer refuses pictures of %dx%d",
				  width, height);
	f->is_bayer = 1;
	memset(&f->info.colorimetry, 0, sizeof(f->info.colorimetry));
	if (colour)
		gst_video_colorimetry_from_string(&f->info.colorimetry, colour);
	f->info.colorimetry.matrix = GST_VIDEO_COLOR_MATRIX_RGB;
	return 0;
}

/* Caps with a memory feature other than SystemMemory do not describe the memory's layout. */
static inline uint64_t dlbuf_gstreamer_modifier_(const GstCapsFeatures *features)
{
	guint i, n = features ? gst_caps_features_get_size(features) : 0;

	for (i = 0; i < n; i++) {
		const gchar *name = gst_caps_features_get_nth(features, i);

		if (g_str_has_prefix(name, "memory:") &&
		    strcmp(name, GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY))
			return DLBUF_MOD_INVALID;
	}
	return DLBUF_MOD_LINEAR;
}

/*
 * Reads the caps of a GstSample or of a CAPS event. They are borrowed.
 *
 * The modifier depends on the caps:
 *   format=DMA_DRM (1.24)              the modifier in drm-format
 *   video/x-raw in system memory       LINEAR: gst_video_frame_map() shows linear
 *                                      rows of any memory
 *   memory:DMABuf with another format  INVALID: before 1.24 caps have no modifier.
 *                                      dlbuf_import_frame() refuses INVALID. Set
 *                                      format->modifier to DLBUF_MOD_LINEAR if
 *                                      you know that the element, e.g. v4l2src,
 *                                      is linear
 *
 * Does not block. *format is written on success only. Returns 0, or, with an error text in
 * dlbuf_last_error(),
 * -EINVAL      not caps of one raw picture: not fixed, not video/x-raw or
 *              video/x-bayer, or without a size
 * -EOPNOTSUPP  neither DRM nor V4L2 has a code for the format (planar RGB,
 *              big-endian, v210); or a buffer is more than one picture
 *              (interlace-mode=fields, multiview-mode=separated)
 *
 * Specification: GStreamer's "Raw Video Media Types" and "DMA buffers".
 */
static inline int dlbuf_gstreamer_caps(const GstCaps *caps,
				       struct dlbuf_gstreamer_format *format)
{
	struct dlbuf_gstreamer_format f;
	const GstStructure *s;
	int ret;

	if (!caps || !gst_caps_is_fixed(caps))
		return dlbuf_fail(-EINVAL, "the caps are %s", caps ? "not fixed" : "NULL");
	memset(&f, 0, sizeof(f));
	gst_video_info_init(&f.info);
	s = gst_caps_get_structure(caps, 0);
	f.modifier = dlbuf_gstreamer_modifier_(gst_caps_get_features(caps, 0));
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
		/* Offsets and pitches of the planes, if the buffers have no GstVideoMeta. */
		if (f.modifier != DLBUF_MOD_LINEAR ||
		    !gst_video_info_dma_drm_to_video_info(&drm, &f.info))
			f.info = drm.vinfo;
	} else
#endif
	{
		if (!gst_video_info_from_caps(&f.info, caps))
			return dlbuf_fail(-EINVAL, "GStreamer cannot read the "
					  "caps of video/x-raw");
		f.code = dlbuf_code_named_(gst_video_format_to_string(
						   GST_VIDEO_INFO_FORMAT(&f.info)),
					   DLBUF_CODE_GSTREAMER, &f.code_space);
	}
	if (GST_VIDEO_INFO_WIDTH(&f.info) <= 0 || GST_VIDEO_INFO_HEIGHT(&f.info) <= 0)
		return dlbuf_fail(-EINVAL, "the caps say no size");
	if (!f.code)
		return dlbuf_fail(-EOPNOTSUPP, "neither DRM nor V4L2 has a code "
				  "for GStreamer's %s", gst_video_format_to_string(
					  GST_VIDEO_INFO_FORMAT(&f.info)));
	if (GST_VIDEO_INFO_INTERLACE_MODE(&f.info) ==
	    GST_VIDEO_INTERLACE_MODE_FIELDS)
		return dlbuf_fail(-EOPNOTSUPP, "a buffer of interlace-mode=fields "
				  "is more than one picture");
	if (GST_VIDEO_INFO_MULTIVIEW_MODE(&f.info) == GST_VIDEO_MULTIVIEW_MODE_SEPARATED)
		return dlbuf_fail(-EOPNOTSUPP, "a buffer of multiview-mode=separated is "
				  "more than one picture");
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
		const char *name = gst_video_format_to_string(formats[i]);

		if (dlbuf_is_named_(f, name, DLBUF_CODE_GSTREAMER))
			dlbuf_gstreamer_append_(&lists->raw, name);
	}
	return 0;
}

/*
 * Makes caps of all frames that the device imports, for the sink pad or the caps of an
 * appsink: video/x-raw(memory:DMABuf) with format=DMA_DRM and each fourcc and modifier
 * (1.24), or before 1.24 with the linear formats; then video/x-raw with the linear
 * formats, for elements that output dma-bufs as system memory (v4l2src io-mode=dmabuf).
 *
 * flags selects DLBUF_DEVICE_FORMAT_...; 0 selects all. With COPY the import needs
 * DLBUF_IMPORT_MAY_COPY. *caps is new: gst_caps_unref(). Call gst_init() before. Calls the
 * driver. Returns 0, or the errors of dlbuf_device_formats(), or
 * -EOPNOTSUPP  the device imports no format in the way that flags selects
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
	if (!ret && !gst_value_list_get_size(&lists.drm) &&
	    !gst_value_list_get_size(&lists.raw))
		ret = dlbuf_fail(-EOPNOTSUPP, "the device imports no frames in this way");
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
		if (!GST_BUFFER_FLAG_IS_SET(buffer, GST_VIDEO_BUFFER_FLAG_ONEFIELD))
			return DLBUF_FIELD_UNKNOWN;
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
		/* The caps do not have the order; each buffer may have it. */
		if (top)
			return DLBUF_FIELD_INTERLACED_TB;
		return is_interlaced ? DLBUF_FIELD_INTERLACED_BT :
				       DLBUF_FIELD_INTERLACED;
	default:
		return DLBUF_FIELD_UNKNOWN;
	}
}

/* Finds the plane's dma-buf. On entry plane->offset counts from the start of the GstBuffer. */
static inline int dlbuf_gstreamer_plane_(GstBuffer *buffer, struct dlbuf_frame *frame,
					 struct dlbuf_plane *plane)
{
	gsize offset = (gsize)plane->offset, skip;
	guint index, length;
	GstMemory *mem;

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
	plane->bytes = mem->size - skip;
	/*
	 * READ_ONLY also if several buffers share the memory, or if an element reads it at the
	 * moment. The lock is for both accesses: during a lock only for writing a reader behind
	 * a tee could not map the memory.
	 */
	if (gst_memory_lock(mem, GST_LOCK_FLAG_READWRITE))
		gst_memory_unlock(mem, GST_LOCK_FLAG_READWRITE);
	else
		frame->flags |= DLBUF_FRAME_READ_ONLY;
	return 0;
}

/*
 * Computes the pitch of a mosaic without a GstVideoMeta. Elements differ in the pitch:
 * v4l2src uses the driver's, others a multiple of 4. But all have whole rows and
 * nothing after them. A buffer of whole pages may also divide into whole rows, but
 * then the pitch is seldom a round number.
 */
static inline int dlbuf_gstreamer_bayer_pitch_(GstBuffer *buffer, const GstVideoInfo *info,
					       int *pitch)
{
	gsize bytes = gst_buffer_get_size(buffer);
	gsize rows = (gsize)GST_VIDEO_INFO_HEIGHT(info);
	gsize row = (gsize)GST_VIDEO_INFO_WIDTH(info) *
		    (gsize)GST_VIDEO_INFO_COMP_PSTRIDE(info, 0), align;

	for (align = 1; align <= 256; align *= 2)
		if ((row + align - 1) / align * align * rows == bytes &&
		    bytes / rows <= G_MAXINT) {
			*pitch = (int)(bytes / rows);
			return 0;
		}
	return dlbuf_fail(-EOPNOTSUPP, "the pitch is not known: the GstBuffer has no "
			  "GstVideoMeta, and its %zu bytes are not %zu rows of %zu bytes, "
			  "alone or up to a multiple of 4 to 256", (size_t)bytes,
			  (size_t)rows, (size_t)row);
}

/*
 * Answers an ALLOCATION query: offers GstVideoMeta and GstVideoCropMeta, so the element
 * that fills the buffers may use any pitch and offset, and crop. Call it in an element's
 * propose_allocation() or an appsink's callback of that name; otherwise see
 * dlbuf_gstreamer_announce().
 *
 * query is borrowed. Does not block. Returns 0, or
 * -EINVAL  query is not an ALLOCATION query
 */
static inline int dlbuf_gstreamer_allocation(GstQuery *query)
{
	guint i;

	if (!query || GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION)
		return dlbuf_fail(-EINVAL, "the query is not ALLOCATION");
	if (!gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, &i))
		gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
	if (!gst_query_find_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, &i))
		gst_query_add_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, NULL);
	return 0;
}

static inline GstPadProbeReturn dlbuf_gstreamer_probe_(GstPad *pad, GstPadProbeInfo *info,
						       gpointer data)
{
	(void)pad, (void)data;
	if (GST_QUERY_TYPE(GST_PAD_PROBE_INFO_QUERY(info)) == GST_QUERY_ALLOCATION)
		dlbuf_gstreamer_allocation(GST_PAD_PROBE_INFO_QUERY(info));
	return GST_PAD_PROBE_OK;
}

/*
 * Answers each ALLOCATION query of a sink, an appsink for example. Call it once, before
 * the pipeline plays. The probe that it adds stays as long as the sink's pad.
 *
 * sink is borrowed. Does not block. Returns 0, or
 * -EINVAL  sink has no pad called "sink"
 */
static inline int dlbuf_gstreamer_announce(GstElement *sink)
{
	GstPad *pad = gst_element_get_static_pad(sink, "sink");

	if (!pad)
		return dlbuf_fail(-EINVAL, "the element has no pad called sink");
	gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, dlbuf_gstreamer_probe_,
			  NULL, NULL);
	gst_object_unref(pad);
	return 0;
}

/*
 * Reads the orientation of tags, if there is one. In GStreamer's names the flip is before the
 * turn.
 */
static inline int dlbuf_gstreamer_tag_(const GstTagList *tags,
				       enum dlbuf_orientation *orientation)
{
	static const struct {
		const char *name;
		enum dlbuf_orientation orientation;
	} words[] = {
		{ "rotate-0", DLBUF_ORIENTATION_NONE },
		{ "rotate-90", DLBUF_ORIENTATION_TURN_90 },
		{ "rotate-180", DLBUF_ORIENTATION_TURN_180 },
		{ "rotate-270", DLBUF_ORIENTATION_TURN_270 },
		{ "flip-rotate-0", DLBUF_ORIENTATION_FLIP_X },
		{ "flip-rotate-90", DLBUF_ORIENTATION_TRANSVERSE },
		{ "flip-rotate-180", DLBUF_ORIENTATION_FLIP_Y },
		{ "flip-rotate-270", DLBUF_ORIENTATION_TRANSPOSE },
	};
	const gchar *word;
	guint i;

	if (!gst_tag_list_peek_string_index(tags, GST_TAG_IMAGE_ORIENTATION, 0, &word))
		return 0;
	for (i = 0; i < G_N_ELEMENTS(words); i++) {
		if (strcmp(word, words[i].name))
			continue;
		*orientation = words[i].orientation;
		return 1;
	}
	return 0;
}

/*
 * Finds the tag image-orientation that has arrived at a sink, an appsink for example: the
 * stream's tag, otherwise the whole file's. NONE: there is no tag. If the tag changes in
 * the middle of a stream, the result may already belong to a later sample.
 *
 * sink is borrowed. Does not block.
 */
static inline enum dlbuf_orientation dlbuf_gstreamer_orientation(GstElement *sink)
{
	GstPad *pad = gst_element_get_static_pad(sink, "sink");
	enum dlbuf_orientation found = DLBUF_ORIENTATION_NONE;
	int is_streams = 0;
	GstTagList *tags;
	GstEvent *event;
	guint i;

	for (i = 0; pad && (event = gst_pad_get_sticky_event(pad, GST_EVENT_TAG, i)); i++) {
		gst_event_parse_tag(event, &tags);
		if (!is_streams && dlbuf_gstreamer_tag_(tags, &found))
			is_streams = gst_tag_list_get_scope(tags) == GST_TAG_SCOPE_STREAM;
		gst_event_unref(event);
	}
	if (pad)
		gst_object_unref(pad);
	return found;
}

static inline void dlbuf_gstreamer_release_(void *buffer)
{
	gst_buffer_unref((GstBuffer *)buffer);
}

/*
 * Fills in offsets and pitches of a buffer's planes, size, format, crop and colour. `offset`
 * counts from the start of the GstBuffer, and fds are not set.
 */
static inline int dlbuf_gstreamer_places_(GstBuffer *buffer,
					  const struct dlbuf_gstreamer_format *format,
					  struct dlbuf_frame *f)
{
	const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
	const GstVideoCropMeta *crop = gst_buffer_get_video_crop_meta(buffer);
	const GstVideoInfo *info = &format->info;
	int pitch = 0, ret;
	uint32_t i;

	memset(f, 0, sizeof(*f));
	f->size = sizeof(*f);
	if (!gst_buffer_get_size(buffer))
		return dlbuf_fail(-ENODATA, "the GstBuffer is empty");
	/* A meta without planes is of a format that GStreamer does not know: ignore it. */
	if (meta && !meta->n_planes)
		meta = NULL;
	f->width = meta ? meta->width : (uint32_t)GST_VIDEO_INFO_WIDTH(info);
	f->height = meta ? meta->height : (uint32_t)GST_VIDEO_INFO_HEIGHT(info);
	if (GST_VIDEO_INFO_INTERLACE_MODE(info) ==
	    GST_VIDEO_INTERLACE_MODE_ALTERNATE)
		f->height = f->height / 2 + f->height % 2;
	f->code = format->code;
	f->code_space = format->code_space;
	f->modifier = format->modifier;
	f->nplanes = meta ? meta->n_planes : GST_VIDEO_INFO_N_PLANES(info);
#if GST_CHECK_VERSION(1, 24, 0)
	if (!meta && GST_VIDEO_INFO_FORMAT(info) == GST_VIDEO_FORMAT_DMA_DRM)
		return dlbuf_fail(-EOPNOTSUPP, "the places of the planes are not known: "
				  "the GstBuffer has no GstVideoMeta");
#endif
	if (!f->nplanes || f->nplanes > DLBUF_MAX_PLANES)
		return dlbuf_fail(-EOPNOTSUPP, "a GstBuffer of %u planes",
				  f->nplanes);
	if (format->is_bayer && !meta) {
		ret = dlbuf_gstreamer_bayer_pitch_(buffer, info, &pitch);
		if (ret)
			return ret;
	}
	for (i = 0; i < f->nplanes; i++) {
		f->planes[i].offset = meta ? meta->offset[i] : GST_VIDEO_INFO_PLANE_OFFSET(info, i);
		f->planes[i].pitch = meta ? meta->stride[i] : pitch ? pitch :
				     GST_VIDEO_INFO_PLANE_STRIDE(info, i);
	}
	if (crop) {
		/* In a frame, a crop of all zeroes means no crop. */
		if (!crop->width || !crop->height)
			return dlbuf_fail(-EINVAL, "the GstVideoCropMeta of %ux%u at %u,%u has "
					  "no pixels", crop->width, crop->height, crop->x,
					  crop->y);
		f->crop.x = crop->x;
		f->crop.y = crop->y;
		f->crop.width = crop->width;
		f->crop.height = crop->height;
	}
	f->colour = dlbuf_gstreamer_colour_(info);
	f->orientation = format->orientation;
	return 0;
}

/*
 * Describes a buffer as a frame. Where each value comes from:
 *   planes     GstVideoMeta, or the caps if the buffer has none; a dma-buf
 *              for each memory of the buffer. The offsets of GstVideoMeta
 *              include its alignment
 *   crop       GstVideoCropMeta
 *   orientation  format->orientation
 *   colour     the caps, or GStreamer's defaults for the height
 *   timestamp  PTS, nanoseconds of the stream
 *   sequence   offset of the buffer
 *   order      IMPLICIT: a producer that has fences adds them to the dma-buf
 *   height     with interlace-mode=alternate that of one field
 *
 * The lease is a reference to the buffer; release() drops it. If the frame is not
 * imported, or dlbuf_import_frame() fails, call dlbuf_frame_drop(&frame).
 * The fds belong to the memories and are borrowed as long as the lease is held.
 * buffer and format are borrowed for the call. The thread that fires the lease
 * returns the buffer to its pool, which means VIDIOC_QBUF for a camera; the pools
 * of GStreamer do not block there.
 *
 * Does not block. *frame is written completely; on failure it is all
 * zeroes. Returns 0, or
 * -ENODATA     the buffer is empty
 * -EINVAL      the buffer's GstVideoCropMeta has no pixels
 * -EBADF       a plane is in memory that is not a dma-buf
 * -ERANGE      a plane begins after the buffer
 * -EOPNOTSUPP  the planes' places are unknown: the buffer has no GstVideoMeta, and
 *              the format is not linear or not one of GStreamer; or it is Bayer, and
 *              the buffer's size does not match the rows with a usual pitch
 */
static inline int dlbuf_gstreamer_frame(GstBuffer *buffer,
					const struct dlbuf_gstreamer_format *format,
					struct dlbuf_frame *frame)
{
	struct dlbuf_frame f;
	uint32_t i;
	int ret = dlbuf_gstreamer_places_(buffer, format, &f);

	memset(frame, 0, sizeof(*frame));
	for (i = 0; !ret && i < f.nplanes; i++)
		ret = dlbuf_gstreamer_plane_(buffer, &f, &f.planes[i]);
	if (ret)
		return ret;
	f.field = dlbuf_gstreamer_field_(&format->info, buffer);
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

/* ---- from a frame to a buffer */

static inline GstVideoFormat dlbuf_gstreamer_format_of_(const struct dlbuf_frame *frame)
{
	struct dlbuf_device_format f;
	struct dlbuf_format_info info;
	const GstVideoFormat *formats;
	guint i, n;

	memset(&info, 0, sizeof(info));
	memset(&f, 0, sizeof(f));
	info.size = sizeof(info);
	if (dlbuf_format_find(frame->code, frame->modifier, frame->code_space, &info))
		return GST_VIDEO_FORMAT_UNKNOWN;
	f.code_space = info.drm_code ? DLBUF_CODE_DRM : DLBUF_CODE_V4L2;
	f.code = info.drm_code ? info.drm_code : info.v4l2_code;
	formats = gst_video_formats_raw(&n);
	for (i = 0; i < n; i++)
		if (dlbuf_is_named_(&f, gst_video_format_to_string(formats[i]),
				    DLBUF_CODE_GSTREAMER))
			return formats[i];
	return GST_VIDEO_FORMAT_UNKNOWN;
}

#define dlbuf_gstreamer_no_format_ "GStreamer has no GstVideoFormat for the frame's format"

static inline int dlbuf_gstreamer_one_picture_(const struct dlbuf_frame *frame)
{
	if (frame->field <= DLBUF_FIELD_NONE || (frame->field >= DLBUF_FIELD_INTERLACED &&
						 frame->field <= DLBUF_FIELD_INTERLACED_BT))
		return 0;
	return dlbuf_fail(-EOPNOTSUPP, "a single field, or fields one after the other "
			  "(field %d), are no picture of GStreamer's", (int)frame->field);
}

static inline GstVideoChromaSite dlbuf_gstreamer_site_(uint8_t chroma_site)
{
	switch (chroma_site) {
	case 0 + 1:
		return GST_VIDEO_CHROMA_SITE_H_COSITED;
	case 1 + 1:
		return GST_VIDEO_CHROMA_SITE_NONE;
	case 2 + 1:
		return GST_VIDEO_CHROMA_SITE_COSITED;
	case 3 + 1:
		return GST_VIDEO_CHROMA_SITE_V_COSITED;
	default:
		return GST_VIDEO_CHROMA_SITE_UNKNOWN;
	}
}

/*
 * Makes the caps of frames like this one, for an appsrc: video/x-raw with the frame's
 * format, size (of the crop, if it has one), colour and interlacing, and the rate
 * fps_n/fps_d (0/1: none). With is_drm the caps are video/x-raw(memory:DMABuf) with
 * format=DMA_DRM and the frame's modifier (1.24), for elements that import dma-bufs.
 *
 * frame is borrowed, *caps is new: gst_caps_unref(). Does not block. Returns 0, or
 * -EOPNOTSUPP  GStreamer has no GstVideoFormat for it (Bayer, for example); a modifier
 *              other than LINEAR without is_drm; DMA_DRM before 1.24; a single field, or
 *              fields one after the other
 * -EINVAL      GStreamer refuses the size; the rate is not a number
 */
static inline int dlbuf_gstreamer_frame_caps(const struct dlbuf_frame *frame, int fps_n,
					     int fps_d, int is_drm, GstCaps **caps)
{
	GstVideoFormat format = dlbuf_gstreamer_format_of_(frame);
	uint32_t width = frame->crop.width ? frame->crop.width : frame->width;
	uint32_t height = frame->crop.height ? frame->crop.height : frame->height;
	const struct dlbuf_colour *c = &frame->colour;
	GstVideoInfo info;
	int ret;

	if (format == GST_VIDEO_FORMAT_UNKNOWN)
		return dlbuf_fail(-EOPNOTSUPP, "%s", dlbuf_gstreamer_no_format_);
	ret = dlbuf_gstreamer_one_picture_(frame);
	if (ret)
		return ret;
	if (frame->modifier == DLBUF_MOD_INVALID ||
	    (!is_drm && frame->modifier != DLBUF_MOD_LINEAR))
		return dlbuf_fail(-EOPNOTSUPP, "caps%s do not say the modifier 0x%llx",
				  is_drm ? "" : " without DMA_DRM",
				  (unsigned long long)frame->modifier);
	if (fps_n < 0 || fps_d <= 0)
		return dlbuf_fail(-EINVAL, "%d/%d is no rate: 0/1 is none", fps_n, fps_d);
	gst_video_info_init(&info);
	if (!width || !height || !gst_video_info_set_format(&info, format, width, height))
		return dlbuf_fail(-EINVAL, "GStreamer refuses pictures of %ux%u", width, height);
	info.fps_n = fps_n;
	info.fps_d = fps_d;
	/*
	 * Removes the colour that GStreamer has guessed: caps have only the colour that the frame
	 * has.
	 */
	memset(&info.colorimetry, 0, sizeof(info.colorimetry));
	info.chroma_site = GST_VIDEO_CHROMA_SITE_UNKNOWN;
	if (c->primaries)
		info.colorimetry.primaries = gst_video_color_primaries_from_iso(c->primaries);
	if (c->transfer)
		info.colorimetry.transfer = gst_video_transfer_function_from_iso(c->transfer);
	if (c->matrix)
		info.colorimetry.matrix = gst_video_color_matrix_from_iso(c->matrix - 1u);
	if (c->range)
		info.colorimetry.range = c->range == DLBUF_RANGE_FULL ?
			GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
	if (c->chroma_site)
		info.chroma_site = dlbuf_gstreamer_site_(c->chroma_site);
	if (frame->field >= DLBUF_FIELD_INTERLACED && frame->field <= DLBUF_FIELD_INTERLACED_BT) {
		info.interlace_mode = GST_VIDEO_INTERLACE_MODE_INTERLEAVED;
		GST_VIDEO_INFO_FIELD_ORDER(&info) =
			frame->field == DLBUF_FIELD_INTERLACED_TB ?
			GST_VIDEO_FIELD_ORDER_TOP_FIELD_FIRST :
			frame->field == DLBUF_FIELD_INTERLACED_BT ?
			GST_VIDEO_FIELD_ORDER_BOTTOM_FIELD_FIRST :
			GST_VIDEO_FIELD_ORDER_UNKNOWN;
	}
	if (is_drm) {
#if GST_CHECK_VERSION(1, 24, 0)
		GstVideoInfoDmaDrm drm;

		if (gst_video_info_dma_drm_from_video_info(&drm, &info, frame->modifier)) {
			*caps = gst_video_info_dma_drm_to_caps(&drm);
			return 0;
		}
#endif
		return dlbuf_fail(-EOPNOTSUPP, "GStreamer has no DMA_DRM for this format");
	}
	*caps = gst_video_info_to_caps(&info);
	return 0;
}

/* All memories of a frame share this; the last one that is freed calls release. */
struct dlbuf_gstreamer_held_ {
	gint refs;
	void (*release)(void *release_data);
	void *release_data;
};

static inline void dlbuf_gstreamer_unhold_(gpointer data)
{
	struct dlbuf_gstreamer_held_ *held = (struct dlbuf_gstreamer_held_ *)data;

	if (!g_atomic_int_dec_and_test(&held->refs))
		return;
	if (held->release)
		held->release(held->release_data);
	g_free(held);
}

/*
 * Number of bytes of plane i's dma-buf that the picture uses. It is less than the dma-buf,
 * which has whole pages: v4l2sink passes the size of the memory as bytesused, and a driver
 * refuses more than its sizeimage.
 */
static inline gsize dlbuf_gstreamer_bytes_(const struct dlbuf_frame *e, uint32_t i)
{
	uint64_t all = e->planes[i].offset + e->planes[i].bytes, used = 0;
	struct dlbuf_format_info info;
	uint32_t j;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	if (e->modifier != DLBUF_MOD_LINEAR ||
	    dlbuf_format_find(e->code, e->modifier, e->code_space, &info))
		return (gsize)all;
	for (j = 0; j < e->nplanes; j++) {
		const struct dlbuf_plane *p = &e->planes[j];
		uint64_t end = p->offset + (uint64_t)p->pitch * dlbuf_plane_rows_(e, &info, j);

		if (p->fd == e->planes[i].fd && (p->pitch <= 0 || end > used))
			used = p->pitch <= 0 ? all : end;
	}
	return (gsize)(used < all ? used : all);
}

/* Adds the dma-buf of plane i at the end of the buffer. */
static inline int dlbuf_gstreamer_add_memory_(GstAllocator *allocator,
					      const struct dlbuf_frame *e, uint32_t i,
					      struct dlbuf_gstreamer_held_ *held,
					      GstBuffer *buffer)
{
	int dup = fcntl(e->planes[i].fd, F_DUPFD_CLOEXEC, 3);
	GstMemory *memory;

	if (dup < 0)
		return dlbuf_fail(-errno, "fd %d: %s", e->planes[i].fd, strerror(errno));
	memory = gst_dmabuf_allocator_alloc(allocator, dup, dlbuf_gstreamer_bytes_(e, i));
	if (e->flags & DLBUF_FRAME_READ_ONLY)
		GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_READONLY);
	g_atomic_int_inc(&held->refs);
	gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory),
				  g_quark_from_static_string("dlbuf-frame"), held,
				  dlbuf_gstreamer_unhold_);
	gst_buffer_append_memory(buffer, memory);
	return 0;
}

/*
 * Makes a buffer of a frame, for an appsrc, without a copy. The buffer has the frame's
 * dma-bufs as GstMemory, a GstVideoMeta with the offsets and pitches of the planes, the PTS
 * if the clock is STREAM, the sequence as offset, and the flags of interlaced and damaged
 * frames. If the frame has a crop, the buffer has only the picture inside, because most
 * elements ignore GstVideoCropMeta. The memory of a READ_ONLY frame has
 * GST_MEMORY_FLAG_READONLY.
 *
 *	DLBUF_INFO(dlbuf_frame, frame);
 *	frame.code = DLBUF_FOURCC('N', 'V', '1', '2');
 *	frame.code_space = DLBUF_CODE_DRM;
 *	if (dlbuf_frame_from_tensors(tensors, 2, 0, &frame) ||
 *	    dlbuf_gstreamer_frame_caps(&frame, 25, 1, 0, &caps) ||
 *	    dlbuf_gstreamer_buffer(&frame, &buffer))
 *		errx(1, "%s", dlbuf_last_error());
 *	gst_app_src_set_caps(src, caps);
 *	gst_app_src_push_buffer(src, buffer);
 *
 * On success the frame is taken, and *frame becomes all zeroes. When GStreamer has freed
 * the last of the memories, on any thread, the frame's release is called, or the buffer's
 * share of the frame's lease is dropped. On failure the frame is yours. *buffer is new:
 * gst_buffer_unref(). The fds are duplicated.
 *
 * Blocks until the frame's fence, or the fences that its producer has added to the dma-bufs,
 * have signalled, because elements that map or import a dma-buf do not always wait for
 * fences. Call gst_init() before. Returns 0, or
 * -EOPNOTSUPP  GStreamer has no GstVideoFormat for it; a pitch beyond its numbers; a
 *              single field, or fields one after the other; an orientation, which a
 *              GstBuffer cannot have: send the tag image-orientation, and set
 *              orientation to 0
 * -EIO         the work on the frame failed
 * and the errors of dlbuf_frame_expand()
 */
static inline int dlbuf_gstreamer_buffer(struct dlbuf_frame *frame, GstBuffer **buffer)
{
	gsize offset[GST_VIDEO_MAX_PLANES] = { 0 }, at[DLBUF_MAX_PLANES] = { 0 };
	gint stride[GST_VIDEO_MAX_PLANES] = { 0 };
	struct dlbuf_gstreamer_held_ *held;
	GstAllocator *allocator;
	GstVideoFormat format;
	struct dlbuf_frame e;
	GstBuffer *b;
	uint32_t i, j;
	int ret;

	ret = dlbuf_gstreamer_one_picture_(frame);
	if (!ret && frame->orientation)
		ret = dlbuf_fail(-EOPNOTSUPP, "a GstBuffer does not say orientation %d: send the "
				 "tag image-orientation, and set it to 0", (int)frame->orientation);
	if (!ret)
		ret = dlbuf_frame_expand_(frame, DLBUF_EXPAND_CROPPED, &e);
	if (ret)
		return ret;
	format = dlbuf_gstreamer_format_of_(&e);
	if (format == GST_VIDEO_FORMAT_UNKNOWN)
		ret = dlbuf_fail(-EOPNOTSUPP, "%s", dlbuf_gstreamer_no_format_);
	allocator = gst_dmabuf_allocator_new();
	held = g_new0(struct dlbuf_gstreamer_held_, 1);
	held->refs = 1;
	b = gst_buffer_new();
	for (i = 0; !ret && i < e.nplanes; i++) {
		const struct dlbuf_plane *p = &e.planes[i];

		for (j = 0; j < i && e.planes[j].fd != p->fd; j++)
			;
		at[i] = j < i ? at[j] : gst_buffer_get_size(b);
		offset[i] = at[i] + (gsize)p->offset;
		stride[i] = (gint)p->pitch;
		if (p->pitch > G_MAXINT || p->pitch < G_MININT)
			ret = dlbuf_fail(-EOPNOTSUPP, "a pitch of %lld does not fit 32 bits, as "
					 "GStreamer's", (long long)p->pitch);
		else if (j == i)
			ret = dlbuf_gstreamer_add_memory_(allocator, &e, i, held, b);
	}
	if (!ret)
		ret = dlbuf_frame_wait_(&e);
	gst_object_unref(allocator);
	if (ret) {
		gst_buffer_unref(b);
		dlbuf_gstreamer_unhold_(held);
		dlbuf_frame_drop(&e);
		return ret;
	}
	gst_buffer_add_video_meta_full(b, GST_VIDEO_FRAME_FLAG_NONE, format, e.width, e.height,
				       e.nplanes, offset, stride);
	if (e.clock == DLBUF_CLOCK_STREAM && e.timestamp_ns >= 0)
		GST_BUFFER_PTS(b) = (GstClockTime)e.timestamp_ns;
	if (e.flags & DLBUF_FRAME_SEQUENCE)
		GST_BUFFER_OFFSET(b) = e.sequence;
	if (e.flags & DLBUF_FRAME_DAMAGED)
		GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_CORRUPTED);
	/* INTERLACED without TFF means bottom first, so a frame of unknown order gets no flag. */
	if (e.field == DLBUF_FIELD_INTERLACED_TB || e.field == DLBUF_FIELD_INTERLACED_BT)
		GST_BUFFER_FLAG_SET(b, GST_VIDEO_BUFFER_FLAG_INTERLACED);
	if (e.field == DLBUF_FIELD_INTERLACED_TB)
		GST_BUFFER_FLAG_SET(b, GST_VIDEO_BUFFER_FLAG_TFF);
	dlbuf_frame_take_(frame, &e);
	held->release = e.release;
	held->release_data = e.release_data;
	dlbuf_gstreamer_unhold_(held);
	*buffer = b;
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_GSTREAMER_H */
