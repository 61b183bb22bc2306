// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/pipewire.h: SPA's structs over udmabufs and syncobjs, word by
 * word. pipewire_stream.c has the streams.
 */
#include <fcntl.h>

#include <spa/param/buffers.h>
#include <spa/param/video/format-utils.h>

#include "interop/pipewire.h"

/* ---- words */

TEST(formats)
{
	/* SPA's channels of each format, in memory order; words have their own names. */
	static const struct {
		enum spa_video_format format;
		const char *channels, *drm_name;
	} want[] = {
		{ SPA_VIDEO_FORMAT_NV12, "Y,UV", "NV12" },
		{ SPA_VIDEO_FORMAT_NV21, "Y,VU", "NV21" },
		{ SPA_VIDEO_FORMAT_NV16, "Y,UV", "NV16" },
		{ SPA_VIDEO_FORMAT_NV61, "Y,VU", "NV61" },
		{ SPA_VIDEO_FORMAT_NV24, "Y,UV", "NV24" },
		{ SPA_VIDEO_FORMAT_P010_10LE, "Y,UV", "P010" },
		{ SPA_VIDEO_FORMAT_I420, "Y,U,V", "YUV420" },
		{ SPA_VIDEO_FORMAT_YV12, "Y,V,U", "YVU420" },
		{ SPA_VIDEO_FORMAT_Y41B, "Y,U,V", "YUV411" },
		{ SPA_VIDEO_FORMAT_Y42B, "Y,U,V", "YUV422" },
		{ SPA_VIDEO_FORMAT_Y444, "Y,U,V", "YUV444" },
		{ SPA_VIDEO_FORMAT_YUV9, "Y,U,V", "YUV410" },
		{ SPA_VIDEO_FORMAT_YVU9, "Y,V,U", "YVU410" },
		{ SPA_VIDEO_FORMAT_I420_10LE, "Y,U,V", "S010" },
		{ SPA_VIDEO_FORMAT_I422_10LE, "Y,U,V", "S210" },
		{ SPA_VIDEO_FORMAT_Y444_10LE, "Y,U,V", "S410" },
		{ SPA_VIDEO_FORMAT_I420_12LE, "Y,U,V", "S012" },
		{ SPA_VIDEO_FORMAT_I422_12LE, "Y,U,V", "S212" },
		{ SPA_VIDEO_FORMAT_Y444_12LE, "Y,U,V", "S412" },
		{ SPA_VIDEO_FORMAT_YUY2, "YUYV", "YUYV" },
		{ SPA_VIDEO_FORMAT_YVYU, "YVYU", "YVYU" },
		{ SPA_VIDEO_FORMAT_UYVY, "UYVY", "UYVY" },
		{ SPA_VIDEO_FORMAT_VYUY, "VYUY", "VYUY" },
		{ SPA_VIDEO_FORMAT_v308, "YUV", "VUY888" },
		{ SPA_VIDEO_FORMAT_RGB, "RGB", "BGR888" },
		{ SPA_VIDEO_FORMAT_BGR, "BGR", "RGB888" },
		{ SPA_VIDEO_FORMAT_RGBx, "RGBX", "XBGR8888" },
		{ SPA_VIDEO_FORMAT_BGRx, "BGRX", "XRGB8888" },
		{ SPA_VIDEO_FORMAT_xRGB, "XRGB", "BGRX8888" },
		{ SPA_VIDEO_FORMAT_xBGR, "XBGR", "RGBX8888" },
		{ SPA_VIDEO_FORMAT_RGBA, "RGBA", "ABGR8888" },
		{ SPA_VIDEO_FORMAT_BGRA, "BGRA", "ARGB8888" },
		{ SPA_VIDEO_FORMAT_ARGB, "ARGB", "BGRA8888" },
		{ SPA_VIDEO_FORMAT_ABGR, "ABGR", "RGBA8888" },
		{ SPA_VIDEO_FORMAT_RGBA_F16, "RGBA", "ABGR16161616F" },
		{ SPA_VIDEO_FORMAT_RGBA_F32, "RGBA", "ABGR32323232F" },
		{ SPA_VIDEO_FORMAT_RGB16, "W", "RGB565" },
		{ SPA_VIDEO_FORMAT_BGR16, "W", "BGR565" },
		{ SPA_VIDEO_FORMAT_RGB15, "W", "XRGB1555" },
		{ SPA_VIDEO_FORMAT_BGR15, "W", "XBGR1555" },
		{ SPA_VIDEO_FORMAT_xRGB_210LE, "W", "XRGB2101010" },
		{ SPA_VIDEO_FORMAT_xBGR_210LE, "W", "XBGR2101010" },
		{ SPA_VIDEO_FORMAT_RGBx_102LE, "W", "RGBX1010102" },
		{ SPA_VIDEO_FORMAT_BGRx_102LE, "W", "BGRX1010102" },
		{ SPA_VIDEO_FORMAT_ARGB_210LE, "W", "ARGB2101010" },
		{ SPA_VIDEO_FORMAT_ABGR_210LE, "W", "ABGR2101010" },
		{ SPA_VIDEO_FORMAT_RGBA_102LE, "W", "RGBA1010102" },
		{ SPA_VIDEO_FORMAT_BGRA_102LE, "W", "BGRA1010102" },
		{ SPA_VIDEO_FORMAT_GRAY8, "Y", NULL },
		{ SPA_VIDEO_FORMAT_GRAY16_LE, "Y", NULL },
		{ SPA_VIDEO_FORMAT_AYUV, "AYUV", NULL },
	};
	unsigned int n = 0;

	for (int f = 0; f <= SPA_VIDEO_FORMAT_BGRA_102LE; f++) {
		enum dlbuf_code_space space;
		DLBUF_INFO(dlbuf_format_info, info);
		uint32_t code = dlbuf_code_named_(dlbuf_pipewire_name_(f),
						  DLBUF_CODE_GSTREAMER, &space);
		size_t i;

		for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
			if ((int)want[i].format == f)
				break;
		CHECK_MSG(!!code == (i < sizeof(want) / sizeof(want[0])),
			  "format %d", f);
		if (!code || i == sizeof(want) / sizeof(want[0]))
			continue;
		n++;
		CHECK_OK(dlbuf_format_find(code, 0, space, &info));
		CHECK_STR(info.channels, want[i].channels);
		if (want[i].drm_name)
			CHECK_STR(info.drm_name, want[i].drm_name);
	}
	CHECK_EQ(n, sizeof(want) / sizeof(want[0]));
}

TEST(colour)
{
	/* SPA's names, and the colour that they mean. */
#define ROW(primaries, transfer, matrix, range, site, ...)			\
	{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_##primaries,		\
	    .transfer_function = SPA_VIDEO_TRANSFER_##transfer,			\
	    .color_matrix = SPA_VIDEO_COLOR_MATRIX_##matrix,			\
	    .color_range = SPA_VIDEO_COLOR_RANGE_##range,			\
	    .chroma_site = SPA_VIDEO_CHROMA_SITE_##site }, COLOUR(__VA_ARGS__) }
	static const struct {
		struct spa_video_info_raw info;
		struct dlbuf_colour want;
	} cases[] = {
		ROW(BT709, BT709, BT709, 16_235, MPEG2, 1, 1, 1 + 1, DLBUF_RANGE_LIMITED, 1),
		ROW(SMPTE170M, SRGB, BT601, 0_255, JPEG, 6, 13, 6 + 1, DLBUF_RANGE_FULL, 2),
		ROW(BT2020, BT2020_12, BT2020, UNKNOWN, DV, 9, 15, 9 + 1, 0, 3),
		ROW(SMPTE240M, SMPTE240M, SMPTE240M, UNKNOWN, V_COSITED, 7, 7, 7 + 1, 0, 4),
		ROW(BT470M, GAMMA22, FCC, UNKNOWN, UNKNOWN, 4, 4, 4 + 1, 0, 0),
		ROW(BT470BG, GAMMA28, RGB, UNKNOWN, UNKNOWN, 5, 5, 0 + 1, 0, 0),
		ROW(FILM, GAMMA10, UNKNOWN, UNKNOWN, UNKNOWN, 8, 8, 0, 0, 0),
		ROW(UNKNOWN, LOG100, UNKNOWN, UNKNOWN, UNKNOWN, 0, 9, 0, 0, 0),
		ROW(UNKNOWN, LOG316, UNKNOWN, UNKNOWN, UNKNOWN, 0, 10, 0, 0, 0),
		ROW(ADOBERGB, ADOBERGB, UNKNOWN, UNKNOWN, UNKNOWN, 0, 0, 0, 0, 0),
		/* A value of a later PipeWire. */
		{ { .color_primaries = 99, .transfer_function = 99, .color_matrix = 99 },
		  COLOUR(0, 0, 0, 0, 0) },
	};
#undef ROW

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_colour c = dlbuf_pipewire_colour_(&cases[i].info);

		CHECK_COLOUR(i, &c, cases[i].want);
	}
}

/* ---- structs */

static int describe(const struct made *m, struct dlbuf_frame *f)
{
	return dlbuf_pipewire_describe(&m->buffer, &m->info, -1, f);
}

static void add_timelines(struct made *m, int acquire, int release)
{
	for (int i = 0; i < 2; i++)
		m->datas[m->buffer.n_datas++] = (struct spa_data){
			.type = SPA_DATA_SyncObj,
			.fd = i ? release : acquire,
		};
	m->sync.acquire_point = 5;
	m->sync.release_point = 9;
	m->buffer.n_metas = 4;
}

TEST(describe)
{
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	struct dlbuf_frame f;
	struct made m;
	uint32_t n = 0;

	make(&m, SPA_VIDEO_FORMAT_NV12, 2);
	m.datas[1].mapoffset = 8192;
	m.chunks[1].offset = (1 << 16) + 256;
	m.chunks[1].stride = 128;
	m.chunks[1].size = 500;
	CHECK_EQ(describe(&m, &f), 0);
	/* An offset is modulo maxsize, from where it would be mapped. */
	CHECK_FRAME(&f, FRAME(64, 32, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_DRM, 2,
		.planes = { PLANE(100, 0, 64, 64 * 32),
			    PLANE(101, 8192 + 256, 128, 500) },
		.flags = DLBUF_FRAME_SEQUENCE, .sequence = 7,
		.timestamp_ns = 40000000, .clock = DLBUF_CLOCK_UNKNOWN,
		.field = DLBUF_FIELD_NONE, .order = DLBUF_ORDER_IMPLICIT,
		.fence = -1));
	CHECK(!f.release);

	/* One dma-buf with all planes, also where V4L2 has no such format. */
	make(&m, SPA_VIDEO_FORMAT_NV12, 1);
	m.chunks[0].size = 64 * 48;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_EQ(f.nplanes, 2);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, l, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(l[1].layout.byte_offset, 64 * 32);
	m.chunks[0].size--;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_ERR(dlbuf_frame_layouts(&f, NULL, l, &n), -ERANGE);
	m.chunks[0].size = 64 * 32;
	CHECK_ERR(describe(&m, &f), -ERANGE);
	make(&m, SPA_VIDEO_FORMAT_Y42B, 1);
	m.chunks[0].size = 64 * 64;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, l, &n));
	CHECK_EQ(n, 3);
	CHECK_EQ(l[2].strides[0], 32);
	make(&m, SPA_VIDEO_FORMAT_I420_10LE, 1);
	m.info.size = SPA_RECTANGLE(30, 31);
	m.chunks[0].size = 64 * 31 + 2 * 32 * 16;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, l, &n));
	CHECK_EQ(n, 3);
	CHECK_EQ(l[2].layout.byte_offset, 64 * 31 + 32 * 16);
	CHECK_EQ(l[2].strides[0], 16);
	make(&m, SPA_VIDEO_FORMAT_I420, 1);
	m.chunks[0].stride = 63;
	CHECK_ERR(describe(&m, &f), -EOPNOTSUPP);
}

/* Sizes that producers fill in: none, too small, or a number that is no size. */
TEST(chunks)
{
	static const struct {
		uint32_t size, flags;
		int32_t stride;
		int ret;
		int64_t pitch;
		uint64_t bytes;
		uint32_t damaged;
	} cases[] = {
		{ 0, 0, 256, -ENODATA, 0, 0, 0 },
		{ 0, SPA_CHUNK_FLAG_CORRUPTED, 256, -ENODATA, 0, 0, 0 },
		{ 256 * 32, SPA_CHUNK_FLAG_EMPTY, 256, -ENODATA, 0, 0, 0 },
		{ 256 * 32, 0, 256, 0, 256, 256 * 32, 0 },
		{ 1280, 0, 256, 0, 256, 1280, 0 },
		{ 1280, SPA_CHUNK_FLAG_CORRUPTED, 256, 0, 256, 0, DLBUF_FRAME_DAMAGED },
		/* Values of compositors. */
		{ 1, 0, 256, 0, 256, 0, 0 },
		{ 9, 0, 256, 0, 256, 0, 0 },
		/* Without a stride: rows of the size. */
		{ 260 * 32, 0, 0, 0, 260, 260 * 32, 0 },
		{ 260 * 32 + 1, 0, 0, 0, 0, 260 * 32 + 1, 0 },
		{ 256 * 32, 0, -256, 0, -256, 256 * 32, 0 },
	};
	struct dlbuf_frame f;
	struct made m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
		m.chunks[0] = (struct spa_chunk){ 0, cases[i].size, cases[i].stride,
						  (int32_t)cases[i].flags };
		m.buffer.n_metas = 0;
		CHECK_MSG(describe(&m, &f) == cases[i].ret,
			  "case %zu: %s", i, dlbuf_last_error());
		CHECK_MSG(f.planes[0].pitch == cases[i].pitch, "case %zu: %lld", i,
			  (long long)f.planes[0].pitch);
		CHECK_MSG(f.planes[0].bytes == cases[i].bytes, "case %zu: %llu", i,
			  (unsigned long long)f.planes[0].bytes);
		CHECK_EQ(f.flags, cases[i].damaged);
	}
}

TEST(metas)
{
	struct dlbuf_frame f, want = PICTURE(64, 32,
		DLBUF_FOURCC('X', 'B', '2', '4'), DLBUF_CODE_DRM, 1,
		.planes = { PLANE(100, 0, 64, 0) },
		.flags = DLBUF_FRAME_SEQUENCE | DLBUF_FRAME_DAMAGED,
		.crop = { 4, 6, 20, 10 }, .sequence = 7,
		.timestamp_ns = 40000000, .clock = DLBUF_CLOCK_UNKNOWN,
		.field = DLBUF_FIELD_INTERLACED, .order = DLBUF_ORDER_IMPLICIT,
		.fence = -1);
	struct made m;

	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.crop.region = SPA_REGION(4, 6, 20, 10);
	m.chunks[0].flags = SPA_CHUNK_FLAG_CORRUPTED;
	m.info.interlace_mode = SPA_VIDEO_INTERLACE_MODE_INTERLEAVED;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_FRAME(&f, want);
	want.planes[0].bytes = 64 * 32;
	m.chunks[0].flags = 0;
	m.header.flags = SPA_META_HEADER_FLAG_CORRUPTED;
	m.header.pts = -1;
	m.info.interlace_mode = SPA_VIDEO_INTERLACE_MODE_MIXED;
	CHECK_EQ(describe(&m, &f), 0);
	want.timestamp_ns = 0;
	want.clock = DLBUF_CLOCK_NONE;
	want.field = DLBUF_FIELD_UNKNOWN;
	CHECK_FRAME(&f, want);
	m.buffer.n_metas = 0;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_EQ(f.flags, 0);
	CHECK_EQ(f.clock, DLBUF_CLOCK_NONE);
}

/* SPA's header: a flip at the vertical axis, then turns counter-clockwise, were applied. */
TEST(transforms)
{
	static const enum dlbuf_orientation undo[] = {
		[SPA_META_TRANSFORMATION_None] = DLBUF_ORIENTATION_NONE,
		[SPA_META_TRANSFORMATION_90] = DLBUF_ORIENTATION_TURN_90,
		[SPA_META_TRANSFORMATION_180] = DLBUF_ORIENTATION_TURN_180,
		[SPA_META_TRANSFORMATION_270] = DLBUF_ORIENTATION_TURN_270,
		[SPA_META_TRANSFORMATION_Flipped] = DLBUF_ORIENTATION_FLIP_X,
		[SPA_META_TRANSFORMATION_Flipped90] = DLBUF_ORIENTATION_TRANSPOSE,
		[SPA_META_TRANSFORMATION_Flipped180] = DLBUF_ORIENTATION_FLIP_Y,
		[SPA_META_TRANSFORMATION_Flipped270] = DLBUF_ORIENTATION_TRANSVERSE,
	};
	struct dlbuf_frame f;
	struct made m;

	for (uint32_t i = 0; i < 8; i++) {
		make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
		m.transform.transform = i;
		CHECK_OK(describe(&m, &f));
		CHECK_EQ(f.orientation, undo[i]);
	}
	m.buffer.n_metas = 2;
	CHECK_OK(describe(&m, &f));
	CHECK_EQ(f.orientation, 0);
}

TEST(modifiers)
{
	struct dlbuf_frame f;
	struct made m;

	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.info.modifier = 0x0100000000000002;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_EQ(f.modifier, 0x0100000000000002);
	m.info.flags = 0;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_EQ(f.modifier, DLBUF_MOD_INVALID);
	m.datas[0].flags = SPA_DATA_FLAG_READABLE | SPA_DATA_FLAG_MAPPABLE;
	CHECK_EQ(describe(&m, &f), 0);
	CHECK_EQ(f.modifier, DLBUF_MOD_LINEAR);
	m.info.flags = SPA_VIDEO_FLAG_MODIFIER |
		       SPA_VIDEO_FLAG_MODIFIER_FIXATION_REQUIRED;
	CHECK_EQ(describe(&m, &f), -EINVAL);
}

/* Each format that the last param offers is imported, in one dma-buf and in one for each plane. */
static void offered(struct dlbuf_device *dev, const struct spa_pod *last)
{
	const struct spa_pod_prop *p = spa_pod_find_prop(last, NULL, SPA_FORMAT_VIDEO_format);
	const uint32_t *ids = SPA_POD_CHOICE_VALUES(&p->value);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_udmabuf buf AUTO_UDMABUF = udmabuf_of(1 << 20);
	uint32_t n;

	for (uint32_t i = 1; i < SPA_POD_CHOICE_N_VALUES(&p->value); i++) {
		const char *name = dlbuf_pipewire_name_(ids[i]);
		DLBUF_INFO(dlbuf_format_info, info);

		REQUIRE_OK(dlbuf_format_find_name(name, DLBUF_CODE_GSTREAMER, &info));
		for (uint32_t datas = 1; datas <= info.nplanes;
		     datas += info.nplanes > 1 ? info.nplanes - 1 : 1) {
			struct dlbuf_frame f;
			struct made m;

			make(&m, ids[i], datas);
			m.info.size = SPA_RECTANGLE(62, 31);
			for (uint32_t j = 0; j < datas; j++) {
				m.datas[j].fd = buf.fd;
				m.datas[j].maxsize = 0;
				m.datas[j].mapoffset = j << 16;
				m.chunks[j].stride = 1024;
				m.chunks[j].size = 1024 * (datas > 1 ? 31 : 31 * 4);
			}
			CHECK_OK(describe(&m, &f));
			if (!CHECK_MSG(!dlbuf_import_frame(dev, &f, NULL, t, &n), "%s of %u: %s",
				       name, datas, dlbuf_last_error()))
				continue;
			while (n--)
				t[n]->deleter(t[n]);
		}
	}
}

/* Every format with its modifiers, then all without; a format of a producer fits. */
TEST(params_of_a_device)
{
	static uint8_t space[1 << 16], other[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *params[64];
	struct dlbuf_device *dev AUTO_DEV = open_cpu();
	uint32_t n = 64, few = 3, nv12 = 0, linear = 0;

	REQUIRE(!dlbuf_pipewire_device_params(dev, 0, &b, params, &n));
	CHECK_MSG(n > 38 && n < 64, "%u", n);
	for (uint32_t i = 0; i < n; i++) {
		const struct spa_pod_prop *format =
			spa_pod_find_prop(params[i], NULL, SPA_FORMAT_VIDEO_format);
		const struct spa_pod_prop *modifier =
			spa_pod_find_prop(params[i], NULL,
					  SPA_FORMAT_VIDEO_modifier);
		uint32_t id = 0;

		REQUIRE(format);
		CHECK_EQ(!modifier, i == n - 1);
		spa_pod_get_id(&format->value, &id);
		if (!modifier)
			continue;
		CHECK_EQ(modifier->flags, SPA_POD_PROP_FLAG_MANDATORY |
			 SPA_POD_PROP_FLAG_DONT_FIXATE);
		nv12 += id == SPA_VIDEO_FORMAT_NV12;
		/* LINEAR is the default, and the only one of the CPU. */
		CHECK_EQ(SPA_POD_CHOICE_N_VALUES(&modifier->value), 2);
		linear += *(int64_t *)SPA_POD_CHOICE_VALUES(&modifier->value) ==
			  0;
	}
	CHECK_EQ(nv12, 1);
	CHECK_EQ(linear, n - 1);
	offered(dev, params[n - 1]);
	/* The CPU makes no copies, so that there is nothing to offer. */
	spa_pod_builder_init(&b, space, sizeof(space));
	CHECK_ERR(dlbuf_pipewire_device_params(dev, DLBUF_DEVICE_FORMAT_COPY, &b, params, &n),
		  -EOPNOTSUPP);
	CHECK_EQ(b.state.offset, 0);
	spa_pod_builder_init(&b, other, sizeof(other));
	CHECK_EQ(dlbuf_pipewire_device_params(dev, 0, &b, params, &n), -ENOSPC);
	CHECK_EQ(b.state.offset, 0);
	spa_pod_builder_init(&b, space, sizeof(space));
	CHECK_EQ(dlbuf_pipewire_device_params(dev, 0, &b, params, &few),
		 -ENOSPC);
	CHECK_EQ(b.state.offset, 0);
	CHECK_EQ(few, 3);
}

TEST(refused)
{
	struct dlbuf_frame f = { .width = 1 };
	struct made m;

	/* A buffer with n dma-bufs, changed: the refusal of its frame. */
#define REFUSED(err, says, format, n, ...)					\
	do {									\
		make(&m, SPA_VIDEO_FORMAT_##format, n);				\
		__VA_ARGS__;							\
		CHECK_ERR_SAYS(describe(&m, &f), err, says);			\
	} while (0)
	REFUSED(-EOPNOTSUPP, "", v210, 1, (void)0);
	REFUSED(-EOPNOTSUPP, "", RGBx, 1, m.info.interlace_mode = SPA_VIDEO_INTERLACE_MODE_FIELDS);
	REFUSED(-EBADF, "", RGBx, 1, m.datas[0].type = SPA_DATA_MemFd);
	REFUSED(-EINVAL, "", RGBx, 0, (void)0);
	REFUSED(-EINVAL, "", RGBx, 5, (void)0);
	REFUSED(-EINVAL, "", RGBx, 1, m.crop.region = SPA_REGION(-4, 6, 20, 10));
	REFUSED(-EINVAL, "", RGBx, 1, m.crop.region = SPA_REGION(4, -6, 20, 10));
	REFUSED(-EINVAL, "transform is 8", RGBx, 1, m.transform.transform = 8);
	/* A release point that could not be signalled. */
	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.buffer.n_metas = 4;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, 0, &f), -EINVAL);
	add_timelines(&m, 0, 0);
	CHECK_EQ(describe(&m, &f), -EINVAL);
	CHECK_EQ(f.width, 0);
}

/* ---- explicit synchronisation */

/* The producer's end: another opening of the node, and the fd that it sends. */
static uint32_t timeline(int drm, int *fd)
{
	struct drm_syncobj_create c = { 0 };
	struct drm_syncobj_handle h = { 0 };

	REQUIRE(!ioctl(drm, DRM_IOCTL_SYNCOBJ_CREATE, &c));
	h.handle = c.handle;
	REQUIRE(!ioctl(drm, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &h));
	*fd = h.fd;
	return c.handle;
}

/* The number of the next handle: a handle that is left behind has one. */
static uint32_t next_handle(int drm)
{
	struct drm_syncobj_create c = { 0 };

	REQUIRE(!ioctl(drm, DRM_IOCTL_SYNCOBJ_CREATE, &c));
	dlbuf_pipewire_forget_(drm, c.handle);
	return c.handle;
}

TEST(explicit_sync)
{
	int drm = timeline_node(), theirs = timeline_node();
	int acquire_fd, release_fd, fence = -1, status = -1;
	uint32_t acquire = timeline(theirs, &acquire_fd);
	uint32_t release = timeline(theirs, &release_fd);
	struct pw_main_loop *loop;
	struct dlbuf_pipewire *pw = NULL;
	struct dlbuf_frame f;
	struct made m;
	uint32_t handle;

	init();
	handle = next_handle(drm);
	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	add_timelines(&m, acquire_fd, release_fd);
	loop = pw_main_loop_new(NULL);
	REQUIRE(loop);
	/* Without a stream of its own: nothing is queued. */
	REQUIRE(!dlbuf_pipewire_open(NULL, pw_main_loop_get_loop(loop), drm,
				     &pw));
	CHECK_ERR(dlbuf_pipewire_open(NULL, pw_main_loop_get_loop(loop), 9999, &pw), -EBADF);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, drm, &f), -EAGAIN);
	CHECK_EQ(dlbuf_pipewire_frame(pw, &m.pw, &m.info, &f), -EAGAIN);
	CHECK_OK(dlbuf_syncobj_import(theirs, acquire, 5, -1));
	REQUIRE(!dlbuf_pipewire_frame(pw, &m.pw, &m.info, &f));
	CHECK_EQ(f.nplanes, 1);
	CHECK_EQ(f.order, DLBUF_ORDER_FENCE);
	CHECK(f.fence >= 0);
	CHECK_OK(dlbuf_fence_status(f.fence, &status));
	CHECK_EQ(status, 1);
	CHECK_EQ(dlbuf_syncobj_export(theirs, release, 9, &fence), -EAGAIN);
	f.release(f.release_data);
	CHECK_OK(dlbuf_syncobj_export(theirs, release, 9, &fence));
	CHECK_OK(dlbuf_fence_status(fence, &status));
	CHECK_EQ(status, 1);
	close(fence);
	CHECK_EQ(dlbuf_syncobj_export(theirs, release, 10, &fence), -EAGAIN);
	/* No syncobj. */
	m.datas[2].fd = 0;
	CHECK_EQ(dlbuf_pipewire_frame(pw, &m.pw, &m.info, &f), -EBADF);
	m.datas[1].fd = 0;
	CHECK_EQ(dlbuf_pipewire_frame(pw, &m.pw, &m.info, &f), -EBADF);
	m.buffer.n_datas = 2;
	CHECK_EQ(dlbuf_pipewire_frame(pw, &m.pw, &m.info, &f), -EINVAL);
	dlbuf_pipewire_close(pw);
	CHECK_EQ(next_handle(drm), handle);
	pw_main_loop_destroy(loop);
	pw_deinit();
	close(acquire_fd);
	close(release_fd);
	close(theirs);
	close(drm);
}

/* A stream asks for all that the adapter reads; without a DRM node for no timelines. */
TEST(params_of_the_buffers)
{
	static const uint32_t metas[] = { SPA_META_Header, SPA_META_VideoCrop,
		SPA_META_VideoTransform, SPA_META_SyncTimeline };
	int drm = timeline_node();
	struct pw_main_loop *loop;
	uint8_t space[1024];

	init();
	loop = pw_main_loop_new(NULL);
	REQUIRE(loop);
	for (uint32_t timelines = 0; timelines < 2; timelines++) {
		struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
		const struct spa_pod *params[6];
		struct dlbuf_pipewire *pw;
		uint32_t n = 6, few = 3, types, type = 0;

		REQUIRE(!dlbuf_pipewire_open(NULL, pw_main_loop_get_loop(loop),
					     timelines ? drm : -1, &pw));
		CHECK_OK(dlbuf_pipewire_buffer_params(pw, &b, params, &n));
		REQUIRE(n == 4 + 2 * timelines);
		for (uint32_t i = 0; i <= timelines; i++) {
			const struct spa_pod_prop *data = spa_pod_find_prop(params[i], NULL,
				SPA_PARAM_BUFFERS_dataType);
			const struct spa_pod_prop *meta = spa_pod_find_prop(params[i], NULL,
				SPA_PARAM_BUFFERS_metaType);

			REQUIRE(data && spa_pod_is_object_id(params[i], SPA_PARAM_Buffers));
			types = *(uint32_t *)SPA_POD_CHOICE_VALUES(&data->value);
			CHECK_EQ(types, 1 << SPA_DATA_DmaBuf);
			CHECK_EQ(!!meta, i < timelines);
			if (meta)
				CHECK(meta->flags == SPA_POD_PROP_FLAG_MANDATORY &&
				      SPA_POD_VALUE(struct spa_pod_int, &meta->value) ==
				      1 << SPA_META_SyncTimeline);
		}
		for (uint32_t i = 0; i < 3 + timelines; i++) {
			const struct spa_pod *param = params[1 + timelines + i];

			CHECK(spa_pod_is_object_id(param, SPA_PARAM_Meta));
			CHECK(!spa_pod_get_id(&spa_pod_find_prop(param, NULL,
				SPA_PARAM_META_type)->value, &type));
			CHECK_EQ(type, metas[i]);
		}
		CHECK_ERR(dlbuf_pipewire_buffer_params(pw, &b, params, &few), -ENOSPC);
		CHECK_EQ(few, 3);
		/* No room, at each place. */
		for (uint32_t bytes = 0; bytes < b.state.offset; bytes += 8) {
			struct spa_pod_builder small = SPA_POD_BUILDER_INIT(space, bytes);

			n = 6;
			CHECK_ERR(dlbuf_pipewire_buffer_params(pw, &small, params, &n), -ENOSPC);
			CHECK(n == 6 && !small.state.offset);
		}
		dlbuf_pipewire_close(pw);
	}
	pw_main_loop_destroy(loop);
	pw_deinit();
	close(drm);
}

/* Buffers and frames of no node, both ways. */
TEST(random)
{
	unsigned int frames = 0, outs = 0;
	struct dlbuf_udmabuf u AUTO_UDMABUF = udmabuf_of(1 << 20);

	for (unsigned int i = 0; i < random_rounds(); i++) {
		uint32_t n = dice(4) ? 1 + dice(3) : dice(6);
		struct dlbuf_frame f;
		struct made m;

		make(&m, dice(4) ? SPA_VIDEO_FORMAT_NV12 : dice(100), n);
		m.info.flags = dice(4) ? SPA_VIDEO_FLAG_MODIFIER : dice(16);
		MAY_CHANGE(m.info.modifier, edge());
		MAY_CHANGE(m.info.size.width, edge());
		MAY_CHANGE(m.info.size.height, edge());
		MAY_CHANGE(m.info.interlace_mode, dice(5));
		MAY_CHANGE(m.info.color_matrix, edge());
		MAY_CHANGE(m.info.color_primaries, edge());
		MAY_CHANGE(m.info.chroma_site, edge());
		MAY_CHANGE(m.crop.region.position.x, (int32_t)edge());
		MAY_CHANGE(m.crop.region.size.width, edge());
		MAY_CHANGE(m.header.pts, edge());
		MAY_CHANGE(m.transform.transform, dice(2) ? dice(9) : edge());
		for (uint32_t j = 0; j < n && j < 4; j++) {
			m.chunks[j].size = dice(2) ? 4096 : edge();
			MAY_CHANGE(m.chunks[j].offset, edge());
			MAY_CHANGE(m.chunks[j].stride, (int32_t)edge());
			MAY_CHANGE(m.chunks[j].flags, dice(4));
			MAY_CHANGE(m.datas[j].maxsize, edge());
			MAY_CHANGE(m.datas[j].mapoffset, edge());
			MAY_CHANGE(m.datas[j].flags, edge());
			if (!dice(16))
				m.datas[j].type = dice(8);
			if (!dice(32))
				m.datas[j].chunk = NULL;
		}
		memset(&f, 0xff, sizeof(f));
		frames += check_random(describe(&m, &f), &f);
		make(&m, SPA_VIDEO_FORMAT_NV12, 1 + dice(2));
		for (uint32_t j = 0; j < m.buffer.n_datas; j++)
			m.datas[j].type = dice(8) ? ~0u : 1u << dice(6);
		f = FRAME(64, 32, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2, .fence = -1,
			.planes = { { .fd = u.fd, .pitch = 128 },
				{ .fd = u.fd, .offset = 4096, .pitch = 128 } });
		if (dlbuf_pipewire_add_buffer(&f, &m.pw))
			continue;
		spoil(&f, u.fd);
		outs += !dlbuf_pipewire_put(&f, &m.pw);
	}
	CHECK_MSG(frames > random_rounds() / 20 && outs > random_rounds() / 20, "%u, %u", frames,
		  outs);
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "pipewire");
	return ktap_run(argc, argv);
}
