// SPDX-License-Identifier: MIT
/* dlbufprepare's caps: the pictures that it takes, and what becomes of them. */
#include <dlbuf/interop/gstreamer.h>

#include "caps.h"

struct lists {
	GValue raw, bayer, drm;
};

static gboolean is_prepared(uint32_t code, enum dlbuf_code_space space)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 16, .height = 16);

	return !options_plan(code, space, &opts);
}

static int add_name(const char *name, enum dlbuf_code_space space,
		    const struct dlbuf_format_info *info, void *data)
{
	struct lists *lists = data;

	if (space != DLBUF_CODE_GSTREAMER ||
	    !(info->drm_code ? is_prepared(info->drm_code, DLBUF_CODE_DRM) :
			       is_prepared(info->v4l2_code, DLBUF_CODE_V4L2)))
		return 0;
	if (strchr(info->channels, '/'))
		dlbuf_gstreamer_append_(&lists->bayer, name);
	else if (gst_video_format_from_string(name) != GST_VIDEO_FORMAT_UNKNOWN)
		dlbuf_gstreamer_append_(&lists->raw, name);
	return 0;
}

static int add_drm(const struct dlbuf_format_info *info, void *data)
{
#if GST_CHECK_VERSION(1, 24, 0)
	struct lists *lists = data;
	gchar *name;

	if (info->drm_code && is_prepared(info->drm_code, DLBUF_CODE_DRM)) {
		name = gst_video_dma_drm_fourcc_to_string(info->drm_code, DLBUF_MOD_LINEAR);
		if (name)
			dlbuf_gstreamer_append_(&lists->drm, name);
		g_free(name);
	}
#endif
	return 0;
}

static void append(GstCaps *caps, const char *name, const char *memory, const char *field,
		   const GValue *list)
{
	GstStructure *s;

	if (!gst_value_list_get_size(list))
		return;
	s = gst_structure_new(name, "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height",
			      GST_TYPE_INT_RANGE, 1, G_MAXINT, "framerate",
			      GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, NULL);
	if (memory)
		gst_structure_set(s, "format", G_TYPE_STRING, "DMA_DRM", NULL);
	gst_structure_set_value(s, field, list);
	gst_caps_append_structure_full(caps, s, memory ?
		gst_caps_features_new(memory, NULL) : NULL);
}

GstCaps *caps_of_pictures(void)
{
	GstCaps *caps = gst_caps_new_empty();
	struct lists lists = { .raw = G_VALUE_INIT };

	g_value_init(&lists.raw, GST_TYPE_LIST);
	g_value_init(&lists.bayer, GST_TYPE_LIST);
	g_value_init(&lists.drm, GST_TYPE_LIST);
	dlbuf_format_names(add_name, &lists);
	dlbuf_format_each(add_drm, &lists);
	append(caps, "video/x-raw", GST_CAPS_FEATURE_MEMORY_DMABUF, "drm-format", &lists.drm);
	append(caps, "video/x-raw", NULL, "format", &lists.raw);
	append(caps, "video/x-bayer", NULL, "format", &lists.bayer);
	g_value_unset(&lists.raw);
	g_value_unset(&lists.bayer);
	g_value_unset(&lists.drm);
	return caps;
}

#define TENSORS "other/tensors,format=(string)static,num_tensors=(int)1"

/* The formats of a tensor [1, H, W, C] of uint8, by enum dlbuf_channels. */
static const char *const pictures[] = { "RGB", "BGR", "GRAY8" };

GstCaps *caps_of_outputs(void)
{
	return gst_caps_from_string(TENSORS
		",types=(string){float32,float16,bfloat16,uint8,int8},framerate=(fraction)[0/1,max];"
		"video/x-raw,format=(string){RGB,BGR,GRAY8},width=(int)[1,max],height=(int)[1,max],"
		"framerate=(fraction)[0/1,max]");
}

gboolean caps_is_picture(const GstStructure *output)
{
	return gst_structure_has_name(output, "video/x-raw");
}

void caps_append_outputs(GstCaps *caps, const GstStructure *in, const struct options *o)
{
	const GValue *rate = gst_structure_get_value(in, "framerate");
	GstStructure *s = gst_structure_from_string(TENSORS, NULL), *picture = NULL;

	gst_structure_set(s, "types", G_TYPE_STRING, value_types[o->type].name, NULL);
	if (o->layout && value_types[o->type].dtype.code == kDLUInt)
		picture = gst_structure_new("video/x-raw", "format", G_TYPE_STRING,
					    pictures[o->channels], NULL);
	if (rate)
		gst_structure_set_value(s, "framerate", rate);
	if (rate && picture)
		gst_structure_set_value(picture, "framerate", rate);
	gst_caps_append_structure(caps, s);
	if (picture)
		gst_caps_append_structure(caps, picture);
}

/* The colours of a picture are the input's, as R, G and B or luma of full range. */
static void describe_picture(GstStructure *s, const GstVideoInfo *info, const struct options *o,
			     const struct dlbuf_prepare_info *i)
{
	GstVideoColorimetry c = info->colorimetry;
	double aspect = (double)GST_VIDEO_INFO_PAR_N(info) / GST_VIDEO_INFO_PAR_D(info);
	double w = i->scaled_width, h = i->scaled_height;
	gchar *colour;
	gint n, d;

	/* The other rules keep the aspect, except for rounding. */
	if (o->rule == DLBUF_SIZE_SCALED || (o->rule == DLBUF_SIZE_EXACT && !o->fit))
		aspect *= i->crop_width / i->crop_height * (i->turn % 2 ? w / h : h / w);
	gst_util_double_to_fraction(i->turn % 2 ? 1 / aspect : aspect, &n, &d);
	c.range = GST_VIDEO_COLOR_RANGE_0_255;
	if (o->channels != DLBUF_CHANNELS_GREY)
		c.matrix = GST_VIDEO_COLOR_MATRIX_RGB;
	else if (c.matrix <= GST_VIDEO_COLOR_MATRIX_RGB)
		c.matrix = GST_VIDEO_COLOR_MATRIX_BT601;
	colour = gst_video_colorimetry_to_string(&c);
	gst_structure_set(s, "width", G_TYPE_INT, (int)i->width, "height", G_TYPE_INT,
			  (int)i->height, "interlace-mode", G_TYPE_STRING, "progressive",
			  "colorimetry", G_TYPE_STRING, colour, "pixel-aspect-ratio",
			  GST_TYPE_FRACTION, n, d, NULL);
	g_free(colour);
}

/* Innermost first, as NNStreamer has them. */
static void describe_tensor(GstStructure *s, const struct options *o,
			    const struct dlbuf_prepare_info *i)
{
	gchar *dimensions = o->layout ?
		g_strdup_printf("%u:%u:%u:1", i->channels, i->width, i->height) :
		g_strdup_printf("%u:%u:%u:1", i->width, i->height, i->channels);

	gst_structure_set(s, "dimensions", G_TYPE_STRING, dimensions, NULL);
	g_free(dimensions);
}

void caps_describe(GstCaps *outputs, const GstVideoInfo *in, const struct options *o,
		   const struct dlbuf_prepare_info *info)
{
	for (guint i = 0; i < gst_caps_get_size(outputs); i++) {
		GstStructure *s = gst_caps_get_structure(outputs, i);

		if (caps_is_picture(s))
			describe_picture(s, in, o, info);
		else
			describe_tensor(s, o, info);
		if (!gst_structure_has_field(s, "framerate"))
			gst_structure_set(s, "framerate", GST_TYPE_FRACTION, 0, 1, NULL);
	}
}

GstCaps *caps_choose(const GstCaps *outputs, const GstCaps *peer)
{
	GstCaps *result = gst_caps_is_any(peer) ? gst_caps_copy_nth(outputs, 0) : NULL;

	for (guint p = 0; p < gst_caps_get_size(peer) && !result; p++) {
		GstCaps *one = gst_caps_copy_nth(peer, p);

		/* NNStreamer compares them by itself: "3:2:2" is "3:2:2:1". */
		gst_structure_remove_field(gst_caps_get_structure(one, 0), "dimensions");
		for (guint i = 0; i < gst_caps_get_size(outputs) && !result; i++) {
			result = gst_caps_copy_nth(outputs, i);
			if (!gst_caps_is_subset(result, one))
				gst_clear_caps(&result);
		}
		gst_caps_unref(one);
	}
	return result;
}
