// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/gstreamer.h: against GStreamer's own tables of formats and
 * layouts, and buffers of udmabufs. gstreamer_stream.c has the pipelines,
 * gstreamer_prepare.c the element.
 */
#include "interop/gstreamer.h"

/* ---- formats */

/* A value for each component, of 8 bits. */
static guint value_of(char letter)
{
	switch (letter) {
	case 'Y': case 'R': return 0x31;
	case 'U': case 'G': return 0x52;
	case 'V': case 'B': return 0x73;
	case 'A': return 0x94;
	default: return 0;
	}
}

/* A plane of groups of these values, as dlbuf's table says they are. */
static const char *fill(guint8 *data, gsize bytes, const char *channels,
			const struct dlbuf_format_info *ours)
{
	gsize n = strcspn(channels, ","), size = ours->dtype.bits / 8;

	for (gsize i = 0; i < bytes / size; i++) {
		guint v = value_of(channels[i % n]) << (ours->depth - 8) <<
			  ours->shift;

		data[i * size] = v;
		if (size > 1)
			data[i * size + 1] = v >> 8;
	}
	return channels + n + (channels[n] == ',');
}

/* Written by dlbuf's table, read by GStreamer's converter. */
static void check_format(const GstVideoFormatInfo *info,
			 const struct dlbuf_format_info *ours)
{
	const char *s = ours->channels, *letters = strpbrk(s, "RGB") ? "ARGB" :
								       "AYUV";
	guint16 line[8 * 4] = { 0 };
	gpointer data[GST_VIDEO_MAX_PLANES] = { NULL };
	GstVideoInfo vi;
	guint8 *bytes;

	CHECK_MSG(GST_VIDEO_FORMAT_INFO_N_PLANES(info) == ours->nplanes, "%s",
		  info->name);
	gst_video_info_set_format(&vi, info->format, 8, 8);
	bytes = g_malloc0(GST_VIDEO_INFO_SIZE(&vi));
	for (guint p = 0; p < ours->nplanes; p++) {
		gsize begin = vi.offset[p], end = p + 1 < ours->nplanes ?
			vi.offset[p + 1] : GST_VIDEO_INFO_SIZE(&vi);

		data[p] = bytes + begin;
		s = fill(data[p], end - begin, s, ours);
	}
	info->unpack_func(info, GST_VIDEO_PACK_FLAG_NONE, line, data,
			  vi.stride, 0, 0, 8);
	for (guint i = 0; i < 4; i++) {
		const GstVideoFormatInfo *to =
			gst_video_format_get_info(info->unpack_format);
		guint got = GST_VIDEO_FORMAT_INFO_DEPTH(to, 0) == 8 ?
			    ((guint8 *)line)[3 * 4 + i] : line[3 * 4 + i] >> 8;

		if (strchr(ours->channels, letters[i]))
			CHECK_MSG(got == value_of(letters[i]),
				  "%s: %c of '%s' is %02x", info->name,
				  letters[i], ours->channels, got);
	}
	g_free(bytes);
}

TEST(formats)
{
	guint n, none = 0, words = 0, same = 0;
	const GstVideoFormat *f;

	init();
	f = gst_video_formats_raw(&n);
	for (guint i = 0; i < n; i++) {
		const GstVideoFormatInfo *info = gst_video_format_get_info(f[i]);
		DLBUF_INFO(dlbuf_format_info, ours);
		enum dlbuf_code_space space;
		uint32_t code = dlbuf_code_named_(info->name, DLBUF_CODE_GSTREAMER, &space);
		guint32 drm = gst_video_dma_drm_fourcc_from_format(f[i]);

		/*
		 * GRAY16_BE is DRM's R16 to it, which is little-endian; and GRAY8 R8, as
		 * long as it does not know Y8.
		 */
		if (f[i] == GST_VIDEO_FORMAT_GRAY16_BE || f[i] == GST_VIDEO_FORMAT_GRAY8)
			drm = 0;
		if (!code) {
			none++;
			CHECK_MSG(!drm || GST_VIDEO_FORMAT_INFO_IS_TILED(info),
				  "%s is %.4s to GStreamer", info->name,
				  (const char *)&drm);
			continue;
		}
		if (!CHECK_OK(dlbuf_format_find(code, DLBUF_MOD_LINEAR, space,
						&ours)))
			continue;
		if (drm && space == DLBUF_CODE_DRM) {
			same++;
			CHECK_MSG(code == drm, "%s is %.4s, %.4s to GStreamer",
				  info->name, (const char *)&code,
				  (const char *)&drm);
		}
		if (ours.reason)
			words++;
		else
			check_format(info, &ours);
	}
	ktap_note(NULL, 0, "%u formats: %u have no code, %u are refused by "
		  "reason, %u have GStreamer's own code", n, none, words, same);
	CHECK(n > 100);
	CHECK(same > 20);
}

/* ---- caps */

TEST(modifiers)
{
	const uint32_t nv12 = DLBUF_FOURCC('N', 'V', '1', '2');
	const struct {
		const char *caps;
		uint32_t code, nplanes;
		uint64_t modifier;
	} rows[] = {
		{ NV12_CAPS, nv12, 2, DLBUF_MOD_LINEAR },
		{ "video/x-raw(memory:DMABuf),format=NV12" SIZE, nv12, 2,
		  DLBUF_MOD_INVALID },
		{ DMA_DRM "NV12" SIZE, nv12, 2, DLBUF_MOD_LINEAR },
		/* Features that do not name memory. */
		{ "video/x-raw(format:Interlaced),format=NV12,interlace-mode=alternate" SIZE,
		  nv12, 2, DLBUF_MOD_LINEAR },
		{ "video/x-raw(memory:SystemMemory,meta:GstVideoOverlayComposition),format=NV12"
		  SIZE, nv12, 2, DLBUF_MOD_LINEAR },
		{ "video/x-raw(meta:GstVideoOverlayComposition,memory:DMABuf),format=NV12"
		  SIZE, nv12, 2, DLBUF_MOD_INVALID },
		{ DMA_DRM "NV12:0x0100000000000002" SIZE, nv12, 0,
		  0x0100000000000002 },
		/* A code that GStreamer has no format for. */
		{ DMA_DRM "BG48" SIZE, DLBUF_FOURCC('B', 'G', '4', '8'), 0,
		  DLBUF_MOD_LINEAR },
	};
	struct dlbuf_gstreamer_format f;

	init();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_EQ(caps(rows[i].caps, &f), 0);
		CHECK_EQ(f.code, rows[i].code);
		CHECK_EQ(f.code_space, DLBUF_CODE_DRM);
		CHECK_EQ(f.modifier, rows[i].modifier);
		CHECK_EQ(GST_VIDEO_INFO_N_PLANES(&f.info), rows[i].nplanes);
	}
}

/* The caps of a device that only reads rows: all formats, DMA_DRM first. */
TEST(caps_of_a_device)
{
	/* The caps contain the elements' formats, and no other modifiers. */
	static const struct {
		const char *caps;
		bool other;
	} rows[] = {
		{ NV12_CAPS, false },
		{ "video/x-raw,format={GRAY8,v308},width=64", false },
#if GST_CHECK_VERSION(1, 24, 0)
		{ DMA_DRM "NV12,width=64,height=64", false },
		{ DMA_DRM "NV12:0x0100000000000002", true },
#endif
	};
	struct dlbuf_device *dev AUTO_DEV = open_cpu();
	GstCaps *made = NULL, *want;

	init();
	REQUIRE(!dlbuf_gstreamer_device_caps(dev, 0, &made));
	CHECK_EQ(gst_caps_get_size(made), 2);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		want = gst_caps_from_string(rows[i].caps);
		CHECK_MSG(!gst_caps_can_intersect(made, want) == rows[i].other,
			  "%s", rows[i].caps);
		gst_caps_unref(want);
	}
	gst_caps_unref(made);
	CHECK_EQ(dlbuf_gstreamer_device_caps(NULL, 0, &made), -EINVAL);
	/* The CPU makes no copies. */
	CHECK_EQ(dlbuf_gstreamer_device_caps(dev, DLBUF_DEVICE_FORMAT_COPY, &made),
		 -EOPNOTSUPP);
}

TEST(refused_caps)
{
	static const struct {
		const char *text;
		int ret;
	} refused[] = {
		{ "audio/x-raw,format=S16LE,rate=8000,channels=1", -EINVAL },
		{ "video/x-raw,format=NV12,width=[1,9],height=2", -EINVAL },
		{ "video/x-raw,format=NV12", -EINVAL },
		{ "video/x-raw,format=NV12,width=-5,height=2", -EINVAL },
		{ "video/x-bayer,format=rggb,width=2,height=2;"
		  "video/x-bayer,format=bggr,width=2,height=2", -EINVAL },
		{ "image/jpeg,width=2,height=2", -EINVAL },
		{ "video/x-raw,format=v210,width=6,height=2", -EOPNOTSUPP },
		{ "video/x-raw,format=GBR,width=6,height=2", -EOPNOTSUPP },
		{ "video/x-raw,format=GRAY16_BE,width=6,height=2",
		  -EOPNOTSUPP },
		{ NV12_CAPS ",interlace-mode=fields", -EOPNOTSUPP },
		{ NV12_CAPS ",multiview-mode=separated,views=2", -EOPNOTSUPP },
		{ "video/x-bayer,format=rggb16be,width=2,height=2",
		  -EOPNOTSUPP },
		{ "video/x-bayer,format=rgbg,width=2,height=2", -EOPNOTSUPP },
		{ "video/x-bayer,width=2,height=2", -EOPNOTSUPP },
		{ "video/x-bayer,format=rggb,width=0,height=2", -EINVAL },
		{ "video/x-bayer,format=rggb,width=2", -EINVAL },
	};
	struct dlbuf_gstreamer_format f = { .code = 1 };

	init();
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int ret = caps(refused[i].text, &f);

		CHECK_MSG(ret == refused[i].ret, "%s: %d", refused[i].text, ret);
	}
	CHECK_EQ(dlbuf_gstreamer_caps(NULL, &f), -EINVAL);
	CHECK_EQ(f.code, 1);
}

TEST(bayer)
{
	static const struct {
		const char *format, *channels;
		uint8_t bits, depth;
	} cases[] = {
		{ "bggr", "BG/GR", 8, 8 },
		{ "gbrg", "GB/RG", 8, 8 },
		{ "grbg", "GR/BG", 8, 8 },
		{ "rggb", "RG/GB", 8, 8 },
		{ "bggr10le", "BG/GR", 16, 10 },
		{ "gbrg10le", "GB/RG", 16, 10 },
		{ "grbg10le", "GR/BG", 16, 10 },
		{ "rggb10le", "RG/GB", 16, 10 },
		{ "grbg12le", "GR/BG", 16, 12 },
		{ "rggb14le", "RG/GB", 16, 14 },
		{ "bggr16le", "BG/GR", 16, 16 },
		{ "rggb16le", "RG/GB", 16, 16 },
	};

	init();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_gstreamer_format f;
		DLBUF_INFO(dlbuf_format_info, info);
		char text[128];

		snprintf(text, sizeof(text),
			 "video/x-bayer,format=%s,width=322,height=180",
			 cases[i].format);
		REQUIRE(!caps(text, &f));
		REQUIRE_OK(dlbuf_format_find(f.code, 0, f.code_space, &info));
		CHECK_STR(info.channels, cases[i].channels);
		CHECK_EQ(info.dtype.bits, cases[i].bits);
		CHECK_EQ(info.depth, cases[i].depth);
		CHECK_EQ(f.modifier, DLBUF_MOD_LINEAR);
		/* These caps have no colour. */
		CHECK_EQ(dlbuf_gstreamer_colour_(&f.info).matrix, 1);
		CHECK_EQ(dlbuf_gstreamer_colour_(&f.info).primaries, 0);
		CHECK_EQ(dlbuf_gstreamer_colour_(&f.info).range, 0);
		strcat(text, ",colorimetry=1:1:5:1");
		REQUIRE(!caps(text, &f));
		CHECK_EQ(dlbuf_gstreamer_colour_(&f.info).matrix, 1);
		CHECK_EQ(dlbuf_gstreamer_colour_(&f.info).primaries, 1);
		CHECK_EQ(dlbuf_gstreamer_colour_(&f.info).range, DLBUF_RANGE_FULL);
	}
}

/* ---- buffers: udmabufs as GstMemory */

static void drop(struct dlbuf_frame *f)
{
	dlbuf_frame_drop(f);
	CHECK(!f->release);
	dlbuf_frame_drop(f);
}

static bool is_clear(const struct dlbuf_frame *f)
{
	static const struct dlbuf_frame none;

	return !memcmp(f, &none, sizeof(none));
}

/* Elements differ in the pitch of a mosaic, and only the buffer's size says which it is. */
TEST(pitch_of_bayer)
{
	static const struct {
		const char *format;
		gsize bytes;
		int64_t pitch;	/* 0: refused */
	} cases[] = {
		{ "rggb", 642 * 362, 642 },
		{ "rggb", 644 * 362, 644 },	/* a multiple of 4 */
		{ "rggb", 768 * 362, 768 },	/* of 256 */
		{ "rggb", 896 * 362, 0 },	/* whole rows by chance: whole pages, perhaps */
		{ "rggb", 642 * 362 + 100, 0 },
		{ "rggb", 641 * 362, 0 },
		{ "rggb10le", 1284 * 362, 1284 },
		{ "rggb10le", 1288 * 362, 1288 },
		{ "rggb10le", 642 * 362, 0 },
	};
	struct dlbuf_gstreamer_format format;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	struct dlbuf_frame f;
	uint32_t n;

	init();
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		GstBuffer *b = gst_buffer_new();
		GstVideoMeta *meta;
		char text[128];

		snprintf(text, sizeof(text), "video/x-bayer,format=%s,width=642,height=362",
			 cases[i / 2].format);
		REQUIRE(!caps(text, &format));
		gst_buffer_append_memory(b, memory(cases[i / 2].bytes));
		/* As v4l2src makes it: GStreamer has no such format, so there are no planes. */
		if (i % 2) {
			meta = gst_buffer_add_video_meta(b, GST_VIDEO_FRAME_FLAG_NONE,
							 GST_VIDEO_FORMAT_ENCODED, 642, 362);
			REQUIRE(meta && !meta->n_planes);
		}
		if (!cases[i / 2].pitch) {
			CHECK_EQ(dlbuf_gstreamer_frame(b, &format, &f), -EOPNOTSUPP);
			CHECK_SAYS("the pitch is not known");
			CHECK(is_clear(&f));
		} else if (CHECK_OK(dlbuf_gstreamer_frame(b, &format, &f))) {
			CHECK_EQ(f.planes[0].pitch, cases[i / 2].pitch);
			CHECK_OK(dlbuf_import_frame(cpu, &f, NULL, t, &n));
			t[0]->deleter(t[0]);
		}
		gst_buffer_unref(b);
	}
}

/*
 * Formats that caps offer have to be taken: each linear format of them, at a size of no round
 * numbers, with GStreamer's rows.
 */
TEST(offered_formats)
{
	gint comp[GST_VIDEO_MAX_COMPONENTS];
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_gstreamer_format format;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	const GValue *list;
	GstCaps *made = NULL;
	struct dlbuf_frame f;
	uint32_t n;

	init();
	REQUIRE_OK(dlbuf_gstreamer_device_caps(cpu, 0, &made));
	list = gst_structure_get_value(gst_caps_get_structure(made, 1), "format");
	REQUIRE(gst_value_list_get_size(list) > 40);
	for (guint i = 0; i < gst_value_list_get_size(list); i++) {
		const char *name = g_value_get_string(gst_value_list_get_value(list, i));
		GstBuffer *b = gst_buffer_new();
		char text[128];

		snprintf(text, sizeof(text), "video/x-raw,format=%s,width=322,height=181", name);
		REQUIRE(!caps(text, &format));
		gst_buffer_append_memory(b, memory(GST_VIDEO_INFO_SIZE(&format.info)));
		CHECK_OK(dlbuf_gstreamer_frame(b, &format, &f));
		if (!CHECK_MSG(!dlbuf_import_frame(cpu, &f, NULL, t, &n), "%s: %s", name,
			       dlbuf_last_error())) {
			dlbuf_frame_drop(&f);
			n = 0;
		} else {
			CHECK_EQ(n, GST_VIDEO_INFO_N_PLANES(&format.info));
		}
		while (n--) {
			gst_video_format_info_component(format.info.finfo, n, comp);
			CHECK_MSG(t[n]->dl_tensor.shape[0] ==
				  GST_VIDEO_INFO_COMP_HEIGHT(&format.info, comp[0]), "%s", name);
			t[n]->deleter(t[n]);
		}
		gst_buffer_unref(b);
	}
	gst_caps_unref(made);
}

TEST(allocation)
{
	GstQuery *query;
	GstCaps *c;

	init();
	c = gst_caps_from_string(NV12_CAPS);
	query = gst_query_new_allocation(c, FALSE);
	CHECK_OK(dlbuf_gstreamer_allocation(query));
	CHECK_OK(dlbuf_gstreamer_allocation(query));
	CHECK_EQ(gst_query_get_n_allocation_metas(query), 2);
	CHECK(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL));
	CHECK(gst_query_find_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, NULL));
	gst_query_unref(query);
	query = gst_query_new_caps(c);
	CHECK_ERR(dlbuf_gstreamer_allocation(query), -EINVAL);
	CHECK_ERR(dlbuf_gstreamer_allocation(NULL), -EINVAL);
	gst_query_unref(query);
	gst_caps_unref(c);
}

/* The tag, read as GStreamer itself reads it. The stream's comes before the file's. */
TEST(orientations)
{
	static const struct {
		GstVideoOrientationMethod method;
		enum dlbuf_orientation orientation;
	} same[] = {
		{ GST_VIDEO_ORIENTATION_IDENTITY, DLBUF_ORIENTATION_NONE },
		{ GST_VIDEO_ORIENTATION_90R, DLBUF_ORIENTATION_TURN_90 },
		{ GST_VIDEO_ORIENTATION_180, DLBUF_ORIENTATION_TURN_180 },
		{ GST_VIDEO_ORIENTATION_90L, DLBUF_ORIENTATION_TURN_270 },
		{ GST_VIDEO_ORIENTATION_HORIZ, DLBUF_ORIENTATION_FLIP_X },
		{ GST_VIDEO_ORIENTATION_VERT, DLBUF_ORIENTATION_FLIP_Y },
		{ GST_VIDEO_ORIENTATION_UL_LR, DLBUF_ORIENTATION_TRANSPOSE },
		{ GST_VIDEO_ORIENTATION_UR_LL, DLBUF_ORIENTATION_TRANSVERSE },
	};
	static const char *const words[] = { "rotate-0", "rotate-90", "rotate-180", "rotate-270",
		"flip-rotate-0", "flip-rotate-90", "flip-rotate-180", "flip-rotate-270" };
	GstVideoOrientationMethod method;
	GstElement *sink;
	unsigned int seen = 0;
	GstTagList *tags;
	GstPad *pad;

	init();
	sink = gst_element_factory_make("fakesink", NULL);
	REQUIRE(sink);
	gst_object_ref_sink(sink);
	pad = gst_element_get_static_pad(sink, "sink");
	gst_pad_set_active(pad, TRUE);
	gst_pad_store_sticky_event(pad, gst_event_new_stream_start("s"));
	CHECK_EQ(dlbuf_gstreamer_orientation(sink), DLBUF_ORIENTATION_NONE);
	for (size_t i = 0; i < 8; i++) {
		size_t k = 0;

		tags = gst_tag_list_new(GST_TAG_IMAGE_ORIENTATION, words[i], NULL);
		gst_pad_store_sticky_event(pad, gst_event_new_tag(tags));
		REQUIRE(gst_video_orientation_from_tag(tags, &method));
		while (same[k].method != method)
			k++;
		CHECK_MSG(dlbuf_gstreamer_orientation(sink) == same[k].orientation, "%s", words[i]);
		seen |= 1u << same[k].orientation;
	}
	CHECK_EQ(seen, 255);
	/* The file's tag, in either order. */
	tags = gst_tag_list_new(GST_TAG_IMAGE_ORIENTATION, "rotate-90", NULL);
	gst_tag_list_set_scope(tags, GST_TAG_SCOPE_GLOBAL);
	gst_pad_store_sticky_event(pad, gst_event_new_tag(tags));
	CHECK_EQ(dlbuf_gstreamer_orientation(sink), DLBUF_ORIENTATION_TRANSPOSE);
	gst_pad_store_sticky_event(pad,
				   gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "t", NULL)));
	CHECK_EQ(dlbuf_gstreamer_orientation(sink), DLBUF_ORIENTATION_TURN_90);
	gst_object_unref(pad);
	gst_object_unref(sink);
}

/* The metadata of a buffer. */
TEST(buffer)
{
	struct dlbuf_gstreamer_format format;
	struct dlbuf_frame f, want;
	GstVideoCropMeta *crop;
	GstMemory *m;
	GstBuffer *b;

	init();
	REQUIRE(!caps(NV12_CAPS ",colorimetry=bt709,chroma-site=mpeg2",
		      &format));
	m = memory(1 << 20);
	b = buffer_of(m);
	REQUIRE(!dlbuf_gstreamer_frame(b, &format, &f));
	want = FRAME(322, 180, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
		.planes = { PLANE(gst_dmabuf_memory_get_fd(m), 0, 324, 1 << 20),
			    PLANE(gst_dmabuf_memory_get_fd(m), 324 * 180, 324,
				  (1 << 20) - 324 * 180) },
		.colour = COLOUR(1, 1, 1 + 1, DLBUF_RANGE_LIMITED, 1),
		.field = DLBUF_FIELD_NONE, .order = DLBUF_ORDER_IMPLICIT,
		.fence = -1);
	CHECK_FRAME(&f, want);
	CHECK_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(b), 2);
	CHECK(locked > 0);
	CHECK_EQ(not_read, 0);
	drop(&f);
	CHECK_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(b), 1);

	GST_BUFFER_PTS(b) = 40 * GST_MSECOND;
	GST_BUFFER_OFFSET(b) = 7;
	GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_CORRUPTED);
	crop = gst_buffer_add_video_crop_meta(b);
	crop->x = 2;
	crop->y = 4;
	crop->width = 300;
	crop->height = 100;
	format.orientation = want.orientation = DLBUF_ORIENTATION_FLIP_Y;
	REQUIRE(!dlbuf_gstreamer_frame(b, &format, &f));
	want.timestamp_ns = 40000000;
	want.clock = DLBUF_CLOCK_STREAM;
	want.sequence = 7;
	want.flags = DLBUF_FRAME_SEQUENCE | DLBUF_FRAME_DAMAGED;
	want.crop = (struct dlbuf_rect){ 2, 4, 300, 100 };
	CHECK_FRAME(&f, want);
	drop(&f);
	gst_buffer_unref(b);
}

/* Planes in memories of their own, and in a part of one. */
TEST(memories)
{
	const gsize offset[GST_VIDEO_MAX_PLANES] = { 256, 1 << 17 };
	const gint stride[GST_VIDEO_MAX_PLANES] = { 512, 640 };
	struct dlbuf_gstreamer_format format;
	struct dlbuf_frame f;
	GstMemory *y, *whole, *part;
	GstBuffer *b;

	init();
	REQUIRE(!caps(NV12_CAPS, &format));
	y = memory(1 << 17);
	b = buffer_of(y);
	/* The part of the second dma-buf from 8192 on. */
	whole = memory(1 << 17);
	part = gst_memory_share(whole, 8192, (1 << 17) - 8192);
	gst_memory_unref(whole);
	gst_buffer_append_memory(b, part);
	gst_buffer_add_video_meta_full(b, GST_VIDEO_FRAME_FLAG_NONE,
				       GST_VIDEO_FORMAT_NV12, 300, 170, 2,
				       offset, stride);
	REQUIRE(!dlbuf_gstreamer_frame(b, &format, &f));
	CHECK_FRAME(&f, FRAME(300, 170, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_DRM, 2,
		.planes = { PLANE(gst_dmabuf_memory_get_fd(y), 256, 512, (1 << 17) - 256),
			    PLANE(gst_dmabuf_memory_get_fd(part), 8192, 640, (1 << 17) - 8192) },
		.colour = COLOUR(6, 6, 6 + 1, DLBUF_RANGE_LIMITED, 2),
		.field = DLBUF_FIELD_NONE, .order = DLBUF_ORDER_IMPLICIT,
		.fence = -1,
		/* gst_memory_share() makes it so. */
		.flags = DLBUF_FRAME_READ_ONLY));
	drop(&f);
	gst_buffer_unref(b);
}

/* A plane ends with its memory: bytes after it belong to another plane or to none. */
TEST(planes_in_parts)
{
	static const gsize rows[][2] = { { 24, 48 }, { 36, 30 }, { 48, 24 }, { 48, 23 } };
	static const int want[] = { -ERANGE, -ERANGE, 0, -ERANGE };
	const gsize offset[GST_VIDEO_MAX_PLANES] = { 0, 64 * 48 };
	const gint stride[GST_VIDEO_MAX_PLANES] = { 64, 64 };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_gstreamer_format format;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	struct dlbuf_frame f;
	uint32_t n;

	init();
	REQUIRE(!caps("video/x-raw,format=NV12,width=62,height=48", &format));
	for (size_t i = 0; i < 2 * sizeof(want) / sizeof(want[0]); i++) {
		GstBuffer *buffer = gst_buffer_new();

		gst_buffer_append_memory(buffer, memory(64 * rows[i / 2][0]));
		gst_buffer_append_memory(buffer, memory(64 * rows[i / 2][1]));
		if (i % 2)
			gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE,
				GST_VIDEO_FORMAT_NV12, 62, 48, 2, offset, stride);
		if (CHECK_OK(dlbuf_gstreamer_frame(buffer, &format, &f))) {
			CHECK_EQ(dlbuf_import_frame(cpu, &f, NULL, t, &n), want[i / 2]);
			for (uint32_t p = 0; !want[i / 2] && p < 2; p++)
				t[p]->deleter(t[p]);
			if (want[i / 2])
				drop(&f);
		}
		CHECK_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(buffer), 1);
		gst_buffer_unref(buffer);
	}
}

/* Memory that others have too: its tensors cannot be written. */
TEST(read_only_memory)
{
	DLBUF_OPTS(dlbuf_import_opts, write, .access = DLBUF_RW);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_gstreamer_format format;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	struct dlbuf_frame f;
	GstMemory *mem;
	GstBuffer *b, *copy;
	uint32_t n;

	init();
	REQUIRE(!caps("video/x-raw,format=GRAY8,width=62,height=48", &format));
	mem = memory(1 << 13);
	GST_MINI_OBJECT_FLAG_SET(mem, GST_MEMORY_FLAG_READONLY);
	b = buffer_of(mem);
	REQUIRE_OK(dlbuf_gstreamer_frame(b, &format, &f));
	CHECK_EQ(f.flags, DLBUF_FRAME_READ_ONLY);
	CHECK_ERR(dlbuf_import_frame(cpu, &f, &write, t, &n), -EACCES);
	if (CHECK_OK(dlbuf_import_frame(cpu, &f, NULL, t, &n))) {
		CHECK(t[0]->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
		CHECK_ERR(dlbuf_acquire(t[0], DLBUF_WRITE, NULL, NULL), -EACCES);
		t[0]->deleter(t[0]);
	}
	gst_buffer_unref(b);

	/* One memory of two buffers. */
	b = buffer_of(memory(1 << 13));
	REQUIRE_OK(dlbuf_gstreamer_frame(b, &format, &f));
	CHECK_EQ(f.flags, 0);
	dlbuf_frame_drop(&f);
	copy = gst_buffer_copy(b);
	REQUIRE_OK(dlbuf_gstreamer_frame(b, &format, &f));
	CHECK_EQ(f.flags, DLBUF_FRAME_READ_ONLY);
	dlbuf_frame_drop(&f);
	gst_buffer_unref(copy);
	gst_buffer_unref(b);
}

TEST(refused_buffers)
{
	const gsize offset[GST_VIDEO_MAX_PLANES] = { 0, 1 << 20 };
	const gint stride[GST_VIDEO_MAX_PLANES] = { 324, 324 };
	struct dlbuf_gstreamer_format format, tiled;
	struct dlbuf_frame f = { .width = 1 };
	GstVideoCropMeta *crop;
	GstBuffer *b;

	init();
	REQUIRE(!caps(NV12_CAPS, &format));
	b = gst_buffer_new();
	CHECK_EQ(dlbuf_gstreamer_frame(b, &format, &f), -ENODATA);
	gst_buffer_unref(b);
	b = gst_buffer_new_allocate(NULL, 1 << 17, NULL);
	CHECK_EQ(dlbuf_gstreamer_frame(b, &format, &f), -EBADF);
	CHECK(is_clear(&f));
	CHECK_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(b), 1);
	gst_buffer_unref(b);

	b = buffer_of(memory(1 << 20));
	/* The number and the offsets of the planes are unknown. */
	REQUIRE(!caps("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format="
		      "NV12:0x0100000000000002,width=322,height=180", &tiled));
	CHECK_EQ(dlbuf_gstreamer_frame(b, &tiled, &f), -EOPNOTSUPP);
	/* A frame's crop of zeroes is none. */
	crop = gst_buffer_add_video_crop_meta(b);
	crop->x = crop->y = crop->width = crop->height = 0;
	CHECK_EQ(dlbuf_gstreamer_frame(b, &format, &f), -EINVAL);
	CHECK(is_clear(&f));
	crop->width = crop->height = 2;
	gst_buffer_add_video_meta_full(b, GST_VIDEO_FRAME_FLAG_NONE,
				       GST_VIDEO_FORMAT_NV12, 322, 180, 2,
				       offset, stride);
	CHECK_EQ(dlbuf_gstreamer_frame(b, &format, &f), -ERANGE);
	CHECK_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(b), 1);
	CHECK(is_clear(&f));
	gst_buffer_unref(b);
}

TEST(fields)
{
	enum {
		I = GST_VIDEO_BUFFER_FLAG_INTERLACED,
		TFF = GST_VIDEO_BUFFER_FLAG_TFF,
		TOP = GST_VIDEO_BUFFER_FLAG_TOP_FIELD,
		BOTTOM = GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD,
	};
	static const struct {
		const char *caps;
		guint flags;
		enum dlbuf_field field;
		uint32_t height;
	} cases[] = {
		{ "progressive", 0, DLBUF_FIELD_NONE, 181 },
		{ "mixed", 0, DLBUF_FIELD_NONE, 181 },
		{ "mixed", I | TFF, DLBUF_FIELD_INTERLACED_TB, 181 },
		{ "mixed", I, DLBUF_FIELD_INTERLACED_BT, 181 },
		{ "interleaved", 0, DLBUF_FIELD_INTERLACED, 181 },
		{ "interleaved", I | TFF, DLBUF_FIELD_INTERLACED_TB, 181 },
		{ "interleaved", I, DLBUF_FIELD_INTERLACED_BT, 181 },
		{ "interleaved,field-order=top-field-first", I,
		  DLBUF_FIELD_INTERLACED_TB, 181 },
		{ "interleaved,field-order=bottom-field-first", TFF,
		  DLBUF_FIELD_INTERLACED_BT, 181 },
		{ "alternate", I | TOP, DLBUF_FIELD_TOP, 91 },
		{ "alternate", I | BOTTOM, DLBUF_FIELD_BOTTOM, 91 },
		{ "alternate", I, DLBUF_FIELD_UNKNOWN, 91 },
	};

	init();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_gstreamer_format format;
		struct dlbuf_frame f;
		GstBuffer *b;
		char text[256];

		snprintf(text, sizeof(text), "video/x-raw%s,format=GRAY8,"
			 "width=64,height=181,interlace-mode=%s",
			 cases[i].height == 91 ? "(format:Interlaced)" : "",
			 cases[i].caps);
		REQUIRE(!caps(text, &format));
		b = buffer_of(memory(1 << 16));
		GST_BUFFER_FLAG_SET(b, cases[i].flags);
		REQUIRE(!dlbuf_gstreamer_frame(b, &format, &f));
		CHECK_MSG(f.field == cases[i].field, "case %zu: %d", i, f.field);
		CHECK_MSG(f.height == cases[i].height, "case %zu: %u", i,
			  f.height);
		drop(&f);
		gst_buffer_unref(b);
	}
}

TEST(colour)
{
	static const struct {
		const char *caps;
		struct dlbuf_colour want;
	} cases[] = {
		{ "NV12,colorimetry=bt601,chroma-site=jpeg", COLOUR(6, 6, 7,
		  DLBUF_RANGE_LIMITED, 2) },
		{ "NV12,colorimetry=bt2020,chroma-site=cosited", COLOUR(9, 15, 10,
		  DLBUF_RANGE_LIMITED, 3) },
		{ "NV12,colorimetry=1:4:7:1,chroma-site=v-cosited", COLOUR(1, 13, 7,
		  DLBUF_RANGE_FULL, 4) },
		/* Adobe's RGB has no code points. */
		{ "RGB,colorimetry=1:1:12:8", COLOUR(0, 0, 1, DLBUF_RANGE_FULL, 0) },
		{ "RGB,colorimetry=sRGB", COLOUR(1, 13, 1, DLBUF_RANGE_FULL, 0) },
	};

	init();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_gstreamer_format format;
		struct dlbuf_colour c;
		char text[256];

		snprintf(text, sizeof(text),
			 "video/x-raw,width=64,height=180,format=%s",
			 cases[i].caps);
		REQUIRE(!caps(text, &format));
		c = dlbuf_gstreamer_colour_(&format.info);
		CHECK_COLOUR(i, &c, cases[i].want);
	}
}

/* Metas and frames of no element, both ways: a tenth, because a GstBuffer costs. */
TEST(random)
{
	static const char *const texts[] = {
		"video/x-raw,format=NV12,width=62,height=48",
		"video/x-raw,format=I420,width=33,height=17",
		"video/x-raw,format=YUY2,width=62,height=48,interlace-mode=mixed",
		"video/x-bayer,format=rggb,width=62,height=48", DMA_DRM "NV12,width=62,height=48",
		("video/x-raw(format:Interlaced),format=NV12,width=62,height=49,"
		 "interlace-mode=alternate"),
	};
	enum { NTEXTS = sizeof(texts) / sizeof(texts[0]) };
	struct dlbuf_gstreamer_format formats[NTEXTS];
	unsigned int frames = 0, outs = 0;
	GstMemory *mem;
	int fd;

	init();
	for (int i = 0; i < NTEXTS; i++)
		REQUIRE(!caps(texts[i], &formats[i]));
	mem = memory(1 << 16);
	fd = gst_dmabuf_memory_get_fd(mem);
	for (unsigned int i = 0; i < random_rounds() / 10; i++) {
		struct dlbuf_gstreamer_format *format = &formats[dice(NTEXTS)];
		GstBuffer *b = gst_buffer_new(), *made;
		GstVideoCropMeta *crop;
		struct dlbuf_frame f;
		GstVideoMeta *meta;

		for (uint32_t n = dice(8) ? 1 : dice(3); n; n--)
			gst_buffer_append_memory(b, gst_memory_ref(mem));
		if (dice(2)) {
			meta = gst_buffer_add_video_meta(b, GST_VIDEO_FRAME_FLAG_NONE,
				GST_VIDEO_INFO_FORMAT(&formats[0].info), 62, 48);
			MAY_CHANGE(meta->width, edge());
			MAY_CHANGE(meta->height, edge());
			MAY_CHANGE(meta->n_planes, dice(6));
			for (int p = 0; p < GST_VIDEO_MAX_PLANES; p++) {
				MAY_CHANGE(meta->offset[p], edge());
				MAY_CHANGE(meta->stride[p], (gint)edge());
			}
		}
		if (!dice(4)) {
			crop = gst_buffer_add_video_crop_meta(b);
			crop->x = edge();
			crop->y = edge();
			crop->width = edge();
			crop->height = edge();
		}
		GST_BUFFER_FLAG_SET(b, edge());
		MAY_CHANGE(GST_BUFFER_PTS(b), edge());
		memset(&f, 0xff, sizeof(f));
		if (check_random(dlbuf_gstreamer_frame(b, format, &f), &f))
			frames += !!f.release;
		dlbuf_frame_drop(&f);
		gst_buffer_unref(b);
		f = FRAME(62, 48, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2, .fence = -1,
			.planes = { { .fd = fd, .pitch = 64 },
				{ .fd = fd, .offset = 64 * 48, .pitch = 64 } });
		spoil(&f, fd);
		if (!dlbuf_gstreamer_buffer(&f, &made)) {
			outs++;
			gst_buffer_unref(made);
		}
	}
	CHECK_MSG(frames > random_rounds() / 100 && outs > random_rounds() / 100, "%u, %u", frames,
		  outs);
	gst_memory_unref(mem);
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "gstreamer");
	return ktap_run(argc, argv);
}
