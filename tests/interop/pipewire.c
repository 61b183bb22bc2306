// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/pipewire.h: SPA's structs over udmabufs and syncobjs, word by
 * word, and a daemon's camera (tests/interop/session): every byte against the
 * dma-buf's own mapping, leases that fire on other threads and too late.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <pipewire/pipewire.h>
#include <spa/param/buffers.h>
#include <spa/param/video/format-utils.h>

#include "interop/picture.h"

/* Who queues what where, which is the adapter's to get right. */
static int queue_buffer(struct pw_stream *stream, struct pw_buffer *buffer);
#define pw_stream_queue_buffer queue_buffer
#include <dlbuf/interop/pipewire.h>
#undef pw_stream_queue_buffer

#include <dlbuf/dlbuf.h>

static unsigned int queued;
static pid_t queued_on;
static struct pw_buffer *queued_last;

static pid_t thread(void)
{
	return syscall(SYS_gettid);
}

static int queue_buffer(struct pw_stream *stream, struct pw_buffer *buffer)
{
	queued++;
	queued_on = thread();
	queued_last = buffer;
	return stream ? pw_stream_queue_buffer(stream, buffer) : 0;
}

static void init(void)
{
	KTAP_KEEPS(KTAP_HEAP, "PipeWire's types and plugins");
	pw_init(NULL, NULL);
}

/* ---- words */

TEST(formats)
{
	/* What SPA says of each, in memory order; words by their own name. */
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
	static const struct {
		struct spa_video_info_raw info;
		struct dlbuf_colour want;
	} cases[] = {
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_BT709,
		    .transfer_function = SPA_VIDEO_TRANSFER_BT709,
		    .color_matrix = SPA_VIDEO_COLOR_MATRIX_BT709,
		    .color_range = SPA_VIDEO_COLOR_RANGE_16_235,
		    .chroma_site = SPA_VIDEO_CHROMA_SITE_MPEG2 },
		  COLOUR(1, 1, 1 + 1, DLBUF_RANGE_LIMITED, 1) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_SMPTE170M,
		    .transfer_function = SPA_VIDEO_TRANSFER_SRGB,
		    .color_matrix = SPA_VIDEO_COLOR_MATRIX_BT601,
		    .color_range = SPA_VIDEO_COLOR_RANGE_0_255,
		    .chroma_site = SPA_VIDEO_CHROMA_SITE_JPEG },
		  COLOUR(6, 13, 6 + 1, DLBUF_RANGE_FULL, 2) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_BT2020,
		    .transfer_function = SPA_VIDEO_TRANSFER_BT2020_12,
		    .color_matrix = SPA_VIDEO_COLOR_MATRIX_BT2020,
		    .chroma_site = SPA_VIDEO_CHROMA_SITE_DV },
		  COLOUR(9, 15, 9 + 1, 0, 3) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_SMPTE240M,
		    .transfer_function = SPA_VIDEO_TRANSFER_SMPTE240M,
		    .color_matrix = SPA_VIDEO_COLOR_MATRIX_SMPTE240M,
		    .chroma_site = SPA_VIDEO_CHROMA_SITE_V_COSITED },
		  COLOUR(7, 7, 7 + 1, 0, 4) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_BT470M,
		    .transfer_function = SPA_VIDEO_TRANSFER_GAMMA22,
		    .color_matrix = SPA_VIDEO_COLOR_MATRIX_FCC },
		  COLOUR(4, 4, 4 + 1, 0, 0) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_BT470BG,
		    .transfer_function = SPA_VIDEO_TRANSFER_GAMMA28,
		    .color_matrix = SPA_VIDEO_COLOR_MATRIX_RGB },
		  COLOUR(5, 5, 0 + 1, 0, 0) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_FILM,
		    .transfer_function = SPA_VIDEO_TRANSFER_GAMMA10 },
		  COLOUR(8, 8, 0, 0, 0) },
		{ { .transfer_function = SPA_VIDEO_TRANSFER_LOG100 },
		  COLOUR(0, 9, 0, 0, 0) },
		{ { .transfer_function = SPA_VIDEO_TRANSFER_LOG316 },
		  COLOUR(0, 10, 0, 0, 0) },
		{ { .color_primaries = SPA_VIDEO_COLOR_PRIMARIES_ADOBERGB,
		    .transfer_function = SPA_VIDEO_TRANSFER_ADOBERGB },
		  COLOUR(0, 0, 0, 0, 0) },
		/* Of a later PipeWire. */
		{ { .color_primaries = 99, .transfer_function = 99,
		    .color_matrix = 99 }, COLOUR(0, 0, 0, 0, 0) },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_colour c = dlbuf_pipewire_colour_(&cases[i].info);

		CHECK_COLOUR(i, &c, cases[i].want);
	}
}

/* ---- structs */

struct made {
	struct spa_video_info_raw info;
	struct spa_chunk chunks[6];
	struct spa_data datas[6];
	struct spa_meta metas[3];
	struct spa_meta_header header;
	struct spa_meta_region crop;
	struct spa_meta_sync_timeline sync;
	struct spa_buffer buffer;
	struct pw_buffer pw;
};

static void make(struct made *m, enum spa_video_format format, uint32_t n)
{
	*m = (struct made){
		.info = {
			.format = format,
			.flags = SPA_VIDEO_FLAG_MODIFIER,
			.size = SPA_RECTANGLE(64, 32),
		},
		.header = { .flags = 0, .pts = 40000000, .seq = 7 },
	};
	for (uint32_t i = 0; i < n; i++) {
		m->chunks[i] = (struct spa_chunk){ .size = 64 * 32,
						   .stride = 64 };
		m->datas[i] = (struct spa_data){
			.type = SPA_DATA_DmaBuf,
			.fd = 100 + i,
			.maxsize = 1 << 16,
			.chunk = &m->chunks[i],
		};
	}
	m->metas[0] = (struct spa_meta){ SPA_META_Header, sizeof(m->header),
					 &m->header };
	m->metas[1] = (struct spa_meta){ SPA_META_VideoCrop, sizeof(m->crop),
					 &m->crop };
	m->metas[2] = (struct spa_meta){ SPA_META_SyncTimeline,
					 sizeof(m->sync), &m->sync };
	m->buffer = (struct spa_buffer){ 2, n, m->metas, m->datas };
	m->pw.buffer = &m->buffer;
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
	m->buffer.n_metas = 3;
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
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
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
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_EQ(f.nplanes, 2);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, l, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(l[1].layout.byte_offset, 64 * 32);
	m.chunks[0].size--;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_ERR(dlbuf_frame_layouts(&f, NULL, l, &n), -ERANGE);
	m.chunks[0].size = 64 * 32;
	CHECK_ERR(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -ERANGE);
	make(&m, SPA_VIDEO_FORMAT_Y42B, 1);
	m.chunks[0].size = 64 * 64;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, l, &n));
	CHECK_EQ(n, 3);
	CHECK_EQ(l[2].strides[0], 32);
	make(&m, SPA_VIDEO_FORMAT_I420_10LE, 1);
	m.info.size = SPA_RECTANGLE(30, 31);
	m.chunks[0].size = 64 * 31 + 2 * 32 * 16;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, l, &n));
	CHECK_EQ(n, 3);
	CHECK_EQ(l[2].layout.byte_offset, 64 * 31 + 32 * 16);
	CHECK_EQ(l[2].strides[0], 16);
	make(&m, SPA_VIDEO_FORMAT_I420, 1);
	m.chunks[0].stride = 63;
	CHECK_ERR(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EOPNOTSUPP);
}

/* What producers say of the bytes: nothing, too little, or a number that is no size. */
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
		/* Of compositors. */
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
		CHECK_MSG(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f) == cases[i].ret,
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
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_FRAME(&f, want);
	want.planes[0].bytes = 64 * 32;
	m.chunks[0].flags = 0;
	m.header.flags = SPA_META_HEADER_FLAG_CORRUPTED;
	m.header.pts = -1;
	m.info.interlace_mode = SPA_VIDEO_INTERLACE_MODE_MIXED;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	want.timestamp_ns = 0;
	want.clock = DLBUF_CLOCK_NONE;
	want.field = DLBUF_FIELD_UNKNOWN;
	CHECK_FRAME(&f, want);
	m.buffer.n_metas = 0;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_EQ(f.flags, 0);
	CHECK_EQ(f.clock, DLBUF_CLOCK_NONE);
}

TEST(modifiers)
{
	struct dlbuf_frame f;
	struct made m;

	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.info.modifier = 0x0100000000000002;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_EQ(f.modifier, 0x0100000000000002);
	m.info.flags = 0;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_EQ(f.modifier, DLBUF_MOD_INVALID);
	m.datas[0].flags = SPA_DATA_FLAG_READABLE | SPA_DATA_FLAG_MAPPABLE;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), 0);
	CHECK_EQ(f.modifier, DLBUF_MOD_LINEAR);
	m.info.flags = SPA_VIDEO_FLAG_MODIFIER |
		       SPA_VIDEO_FLAG_MODIFIER_FIXATION_REQUIRED;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EINVAL);
}

/* Each format that the last param offers is imported, in one dma-buf and in one for each plane. */
static void offered(struct dlbuf_device *dev, const struct spa_pod *last)
{
	const struct spa_pod_prop *p = spa_pod_find_prop(last, NULL, SPA_FORMAT_VIDEO_format);
	const uint32_t *ids = SPA_POD_CHOICE_VALUES(&p->value);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_udmabuf buf;
	uint32_t n;

	if (dlbuf_udmabuf_create(1 << 20, NULL, &buf))
		SKIP("%s", dlbuf_last_error());
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
			CHECK_OK(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f));
			if (!CHECK_MSG(!dlbuf_import_frame(dev, &f, NULL, t, &n), "%s of %u: %s",
				       name, datas, dlbuf_last_error()))
				continue;
			while (n--)
				t[n]->deleter(t[n]);
		}
	}
	dlbuf_udmabuf_close(&buf);
}

/* Every format with its modifiers, then all without; a format of a producer fits. */
TEST(params_of_a_device)
{
	static uint8_t space[1 << 16], other[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *params[64];
	struct dlbuf_device *dev = NULL;
	uint32_t n = 64, few = 3, nv12 = 0, linear = 0;

	REQUIRE(!dlbuf_device_open("cpu", NULL, &dev));
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
	dlbuf_device_close(dev);
}

TEST(refused)
{
	struct dlbuf_frame f = { .width = 1 };
	struct made m;

	make(&m, SPA_VIDEO_FORMAT_v210, 1);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f),
		 -EOPNOTSUPP);
	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.info.interlace_mode = SPA_VIDEO_INTERLACE_MODE_FIELDS;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f),
		 -EOPNOTSUPP);
	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.datas[0].type = SPA_DATA_MemFd;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EBADF);
	make(&m, SPA_VIDEO_FORMAT_RGBx, 0);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EINVAL);
	make(&m, SPA_VIDEO_FORMAT_RGBx, 5);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EINVAL);
	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.crop.region = SPA_REGION(-4, 6, 20, 10);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EINVAL);
	m.crop.region = SPA_REGION(4, -6, 20, 10);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EINVAL);
	/* A release point that nobody could signal. */
	make(&m, SPA_VIDEO_FORMAT_RGBx, 1);
	m.buffer.n_metas = 3;
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, 0, &f), -EINVAL);
	add_timelines(&m, 0, 0);
	CHECK_EQ(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), -EINVAL);
	CHECK_EQ(f.width, 0);
}

/* ---- explicit synchronisation */

static int timeline_node(void)
{
	for (int i = 0; i < 8; i++) {
		struct drm_get_cap cap = {
			.capability = DRM_CAP_SYNCOBJ_TIMELINE,
		};
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, DRM_IOCTL_GET_CAP, &cap) && cap.value)
			return fd;
		close(fd);
	}
	SKIP("no DRM driver here has timelines (lab --gpu)");
}

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

/* The number that the next handle has: what is left behind has one. */
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

/* ---- a daemon's camera */

#define HELD 2

enum what { SAME_THREAD, OTHER_THREAD, KEEP };

struct held {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
};

struct client {
	struct pw_main_loop *loop;
	struct pw_stream *stream;
	struct spa_source *timer;
	struct dlbuf_pipewire *pw;
	struct dlbuf_device *dev;
	struct spa_video_info_raw info;
	enum what what;
	unsigned int frames, want, added;
	uint64_t sequence;
	bool late, mappable;
	struct held held[HELD];
	pthread_t thread;
	bool joinable;
	struct held job;
};

static void delete(struct held *h)
{
	delete_tensors(h->t, h->n);
	h->n = 0;
}

static void *delete_there(void *data)
{
	delete(data);
	return NULL;
}

static void join(struct client *c)
{
	if (c->joinable)
		CHECK_EQ(pthread_join(c->thread, NULL), 0);
	c->joinable = false;
}

/* Against a mapping of the dma-buf that dlbuf has nothing to do with. */
static void compare(const struct held *h, const struct spa_data *d)
{
	size_t bytes = d->mapoffset + d->maxsize;
	uint8_t *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, (int)d->fd, 0);
	const uint8_t *at = map + d->mapoffset + d->chunk->offset % d->maxsize;

	if (!CHECK(map != MAP_FAILED))
		return;
	for (uint32_t i = 0; i < h->n; i++) {
		CHECK_OK(dlbuf_acquire(h->t[i], DLBUF_READ, NULL, NULL));
		check_rows(&h->t[i]->dl_tensor, at, d->chunk->stride);
		at += h->t[i]->dl_tensor.shape[0] * d->chunk->stride;
		CHECK_OK(dlbuf_release(h->t[i], NULL, NULL));
	}
	munmap(map, bytes);
}

static void on_process(void *data)
{
	struct client *c = data;
	struct pw_buffer *b = pw_stream_dequeue_buffer(c->stream);
	struct held h = { .n = 0 };
	struct dlbuf_frame f;
	int ret;

	if (!b)
		return;
	if (c->frames == c->want) {
		/* Not one of those that are counted. */
		pw_stream_queue_buffer(c->stream, b);
		pw_main_loop_quit(c->loop);
		return;
	}
	ret = dlbuf_pipewire_frame(c->pw, b, &c->info, &f);
	if (!CHECK_EQ(ret, 0))
		goto quit;
	CHECK(f.flags & DLBUF_FRAME_SEQUENCE);
	CHECK(!c->frames || f.sequence > c->sequence);
	c->sequence = f.sequence;
	c->mappable = f.modifier == DLBUF_MOD_LINEAR;
	f.modifier = DLBUF_MOD_LINEAR;
	if (!CHECK_OK(dlbuf_import_frame(c->dev, &f, NULL, h.t, &h.n))) {
		f.release(f.release_data);
		goto quit;
	}
	compare(&h, &b->buffer->datas[0]);
	if (c->what == SAME_THREAD) {
		delete(&h);
	} else if (c->what == KEEP) {
		c->held[c->frames] = h;
	} else {
		join(c);
		c->job = h;
		c->joinable = !pthread_create(&c->thread, NULL, delete_there,
					      &c->job);
		CHECK(c->joinable);
	}
	if (++c->frames < c->want || c->what == OTHER_THREAD)
		return;
quit:
	pw_main_loop_quit(c->loop);
}

static void on_param(void *data, uint32_t id, const struct spa_pod *param)
{
	struct client *c = data;
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *params[2];

	if (id != SPA_PARAM_Format || !param)
		return;
	spa_format_video_raw_parse(param, &c->info);
	params[0] = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamBuffers,
		SPA_PARAM_Buffers, SPA_PARAM_BUFFERS_dataType,
		SPA_POD_CHOICE_FLAGS_Int(1 << SPA_DATA_DmaBuf));
	params[1] = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamMeta,
		SPA_PARAM_Meta, SPA_PARAM_META_type, SPA_POD_Id(SPA_META_Header),
		SPA_PARAM_META_size, SPA_POD_Int(sizeof(struct spa_meta_header)));
	pw_stream_update_params(c->stream, params, 2);
}

static void on_add(void *data, struct pw_buffer *buffer)
{
	((struct client *)data)->added++;
}

static void on_remove(void *data, struct pw_buffer *buffer)
{
	dlbuf_pipewire_remove_buffer(((struct client *)data)->pw, buffer);
}

static void on_late(void *data, uint64_t expirations)
{
	struct client *c = data;

	c->late = true;
	pw_main_loop_quit(c->loop);
}

static const struct pw_stream_events events = {
	.version = PW_VERSION_STREAM_EVENTS,
	.param_changed = on_param,
	.add_buffer = on_add,
	.remove_buffer = on_remove,
	.process = on_process,
};

static void start(struct client *c, enum spa_video_format format,
		  enum what what, unsigned int want)
{
	struct timespec limit = { .tv_sec = 300 };
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *param;

	if (!getenv("DLBUF_SESSION"))
		SKIP("there is no PipeWire with a camera (tests/interop/session)");
	init();
	queued = 0;
	*c = (struct client){ .what = what, .want = want };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &c->dev));
	c->loop = pw_main_loop_new(NULL);
	REQUIRE(c->loop);
	c->stream = pw_stream_new_simple(pw_main_loop_get_loop(c->loop),
		"dlbuf-test", pw_properties_new(PW_KEY_MEDIA_TYPE, "Video",
			PW_KEY_MEDIA_CATEGORY, "Capture", NULL), &events, c);
	REQUIRE(c->stream);
	REQUIRE(!dlbuf_pipewire_open(c->stream, pw_main_loop_get_loop(c->loop),
				     -1, &c->pw));
	c->timer = pw_loop_add_timer(pw_main_loop_get_loop(c->loop), on_late, c);
	pw_loop_update_timer(pw_main_loop_get_loop(c->loop), c->timer, &limit,
			     NULL, false);
	param = spa_pod_builder_add_object(&b,
		SPA_TYPE_OBJECT_Format, SPA_PARAM_EnumFormat,
		SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
		SPA_FORMAT_mediaSubtype, SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw),
		SPA_FORMAT_VIDEO_format, SPA_POD_Id(format));
	REQUIRE(!pw_stream_connect(c->stream, PW_DIRECTION_INPUT, PW_ID_ANY,
				   PW_STREAM_FLAG_AUTOCONNECT, &param, 1));
	pw_main_loop_run(c->loop);
	CHECK(!c->late);
	CHECK_EQ(c->frames, want);
}

static void stop(struct client *c)
{
	join(c);
	if (c->stream)
		pw_stream_destroy(c->stream);
	c->stream = NULL;
	dlbuf_pipewire_close(c->pw);
	c->pw = NULL;
	dlbuf_device_close(c->dev);
	pw_main_loop_destroy(c->loop);
	pw_deinit();
}

static void camera(enum spa_video_format format)
{
	struct client c;

	start(&c, format, SAME_THREAD, 10);
	/* More than it has buffers: they did come back. */
	CHECK(c.added > 0 && c.added < 10);
	CHECK(queued >= 9);
	CHECK_EQ(queued_on, thread());
	ktap_note(NULL, 0, "%u buffers, %ux%u, %smappable", c.added,
		  c.info.size.width, c.info.size.height,
		  c.mappable ? "" : "not said to be ");
	stop(&c);
}

TEST(camera_frames)
{
	camera(SPA_VIDEO_FORMAT_YUY2);
	camera(SPA_VIDEO_FORMAT_NV12);
}

/* The lease fires elsewhere, the loop queues. */
TEST(other_thread)
{
	struct client c;

	start(&c, SPA_VIDEO_FORMAT_NV12, OTHER_THREAD, 10);
	join(&c);
	pw_loop_enter(pw_main_loop_get_loop(c.loop));
	while (queued < 10)
		pw_loop_iterate(pw_main_loop_get_loop(c.loop), 100);
	pw_loop_leave(pw_main_loop_get_loop(c.loop));
	CHECK_EQ(queued, 10);
	CHECK_EQ(queued_on, thread());
	stop(&c);
}

static void iterate(struct pw_main_loop *loop)
{
	pw_loop_enter(pw_main_loop_get_loop(loop));
	pw_loop_iterate(pw_main_loop_get_loop(loop), 0);
	pw_loop_leave(pw_main_loop_get_loop(loop));
}

/* Leases that fire after the stream, and after everything. */
TEST(too_late)
{
	struct client c;

	start(&c, SPA_VIDEO_FORMAT_NV12, KEEP, HELD);
	CHECK_EQ(queued, 0);
	pw_stream_destroy(c.stream);
	c.stream = NULL;
	delete(&c.held[0]);
	iterate(c.loop);
	CHECK_EQ(queued, 0);
	dlbuf_pipewire_close(c.pw);
	c.pw = NULL;
	pw_main_loop_destroy(c.loop);
	for (uint32_t i = 0; i < c.held[1].n; i++) {
		volatile uint8_t *p = c.held[1].t[i]->dl_tensor.data;

		CHECK_MSG(p[0] || p[2] || p[100], "plane %u", i);
	}
	delete(&c.held[1]);
	CHECK_EQ(queued, 0);
	dlbuf_device_close(c.dev);
	pw_deinit();
}

/* Removed between the lease and the loop. */
TEST(removed_on_the_way)
{
	struct pw_main_loop *loop;
	struct dlbuf_pipewire *pw = NULL;
	struct dlbuf_frame f[2];
	struct made m[2];

	init();
	queued = 0;
	loop = pw_main_loop_new(NULL);
	REQUIRE(loop);
	REQUIRE(!dlbuf_pipewire_open(NULL, pw_main_loop_get_loop(loop), -1,
				     &pw));
	/* Any stream: nothing here is given to it. */
	pw->stream = (struct pw_stream *)1;
	for (int i = 0; i < 2; i++) {
		make(&m[i], SPA_VIDEO_FORMAT_RGBx, 1);
		REQUIRE(!dlbuf_pipewire_frame(pw, &m[i].pw, &m[i].info, &f[i]));
	}
	f[0].release(f[0].release_data);
	f[1].release(f[1].release_data);
	dlbuf_pipewire_remove_buffer(pw, &m[0].pw);
	dlbuf_pipewire_remove_buffer(pw, &m[1].pw);
	iterate(loop);
	CHECK_EQ(queued, 0);
	CHECK(!pw->back && !pw->out);
	CHECK_EQ(pw->refs, 1);
	/* Removed before the lease fires. */
	REQUIRE(!dlbuf_pipewire_frame(pw, &m[0].pw, &m[0].info, &f[0]));
	dlbuf_pipewire_remove_buffer(pw, &m[0].pw);
	f[0].release(f[0].release_data);
	iterate(loop);
	CHECK_EQ(queued, 0);
	/* One that is on its way when all ends. */
	REQUIRE(!dlbuf_pipewire_frame(pw, &m[0].pw, &m[0].info, &f[0]));
	f[0].release(f[0].release_data);
	dlbuf_pipewire_close(pw);
	CHECK_EQ(queued, 0);
	pw_main_loop_destroy(loop);
	pw_deinit();
}

/* ---- the way back: a source of ours into a sink of ours */

#define OUR_W 318
#define OUR_H 182
#define OUR_PITCH 384
#define OUR_BYTES (OUR_PITCH * (OUR_H + OUR_H / 2))
#define OUR_BUFFERS 4
#define OUR_FRAMES 12

static struct source {
	struct pw_stream *stream;
	struct dlbuf_device *dev;
	struct spa_source *timer;
	unsigned int nbuffers, number, dropped;
	struct ours {
		struct dlbuf_udmabuf buf;
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame frame;	/* that the sink may have */
	} buffers[16];
} source;

static uint8_t shade(int64_t x, int64_t y, uint32_t plane, uint64_t number)
{
	return (uint8_t)(x + 3 * y + 90 * plane + 7 * number);
}

static struct dlbuf_frame our_frame(int fd)
{
	struct dlbuf_frame f = PICTURE(OUR_W, OUR_H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_DRM, 2, .fence = -1,
		.planes = { { .fd = fd, .pitch = OUR_PITCH },
			    { .fd = fd, .offset = OUR_PITCH * OUR_H, .pitch = OUR_PITCH } });

	return f;
}

static void on_our_param(void *data, uint32_t id, const struct spa_pod *param)
{
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *params[2];

	if (id != SPA_PARAM_Format || !param)
		return;
	params[0] = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamBuffers,
		SPA_PARAM_Buffers, SPA_PARAM_BUFFERS_buffers, SPA_POD_Int(OUR_BUFFERS),
		SPA_PARAM_BUFFERS_blocks, SPA_POD_Int(1),
		SPA_PARAM_BUFFERS_size, SPA_POD_Int(OUR_BYTES),
		SPA_PARAM_BUFFERS_stride, SPA_POD_Int(OUR_PITCH),
		SPA_PARAM_BUFFERS_dataType, SPA_POD_CHOICE_FLAGS_Int(1 << SPA_DATA_DmaBuf));
	params[1] = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamMeta,
		SPA_PARAM_Meta, SPA_PARAM_META_type, SPA_POD_Id(SPA_META_Header),
		SPA_PARAM_META_size, SPA_POD_Int(sizeof(struct spa_meta_header)));
	pw_stream_update_params(source.stream, params, 2);
}

static void on_our_add(void *data, struct pw_buffer *buffer)
{
	struct ours *o = &source.buffers[source.nbuffers++];
	struct dlbuf_frame f;
	uint32_t n;

	REQUIRE(source.nbuffers <= 16);
	REQUIRE_OK(dlbuf_udmabuf_create(OUR_BYTES, NULL, &o->buf));
	f = our_frame(o->buf.fd);
	REQUIRE_OK(dlbuf_import_frame(source.dev, &f, NULL, o->t, &n));
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, buffer));
	buffer->user_data = o;
}

static void on_our_remove(void *data, struct pw_buffer *buffer)
{
	struct ours *o = buffer->user_data;

	source.dropped += !!o->frame.release;
	dlbuf_frame_drop(&o->frame);
	delete_tensors(o->t, 2);
	dlbuf_udmabuf_close(&o->buf);
}

static void on_our_process(void *data)
{
	struct pw_buffer *b = pw_stream_dequeue_buffer(source.stream);
	struct ours *o;

	if (!b)
		return;
	/* The sink is done with what was in it. */
	o = b->user_data;
	source.dropped += !!o->frame.release;
	dlbuf_frame_drop(&o->frame);
	for (uint32_t p = 0; p < 2; p++) {
		const DLTensor *l = &o->t[p]->dl_tensor;

		CHECK_OK(dlbuf_acquire(o->t[p], DLBUF_WRITE, NULL, NULL));
		for (int64_t y = 0; y < l->shape[0]; y++)
			for (int64_t x = 0; x < OUR_W; x++)
				((uint8_t *)l->data)[y * OUR_PITCH + x] =
					shade(x, y, p, source.number);
		CHECK_OK(dlbuf_release(o->t[p], NULL, NULL));
	}
	o->frame = (struct dlbuf_frame){ .size = sizeof(o->frame),
		.code = DLBUF_FOURCC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
		.sequence = source.number++, .flags = DLBUF_FRAME_SEQUENCE };
	CHECK_OK(dlbuf_frame_from_tensors(o->t, 2, 0, &o->frame));
	CHECK_OK(dlbuf_pipewire_put(&o->frame, b));
	pw_stream_queue_buffer(source.stream, b);
}

static void on_our_time(void *data, uint64_t expirations)
{
	pw_stream_trigger_process(source.stream);
}

static const struct pw_stream_events our_events = {
	.version = PW_VERSION_STREAM_EVENTS,
	.param_changed = on_our_param,
	.add_buffer = on_our_add,
	.remove_buffer = on_our_remove,
	.process = on_our_process,
};

static const struct spa_pod *our_format(struct spa_pod_builder *b)
{
	return spa_pod_builder_add_object(b,
		SPA_TYPE_OBJECT_Format, SPA_PARAM_EnumFormat,
		SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
		SPA_FORMAT_mediaSubtype, SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw),
		SPA_FORMAT_VIDEO_format, SPA_POD_Id(SPA_VIDEO_FORMAT_NV12),
		SPA_FORMAT_VIDEO_size, SPA_POD_Rectangle(&SPA_RECTANGLE(OUR_W, OUR_H)),
		SPA_FORMAT_VIDEO_framerate, SPA_POD_Fraction(&SPA_FRACTION(25, 1)));
}

static void on_sink_process(void *data)
{
	struct client *c = data;
	struct pw_buffer *b = pw_stream_dequeue_buffer(c->stream);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	unsigned int wrong = 0;
	struct dlbuf_frame f;
	uint32_t n;

	if (!b)
		return;
	if (!CHECK_OK(dlbuf_pipewire_frame(c->pw, b, &c->info, &f)))
		goto quit;
	CHECK_EQ(f.planes[1].offset, OUR_PITCH * OUR_H);
	CHECK(!c->frames || f.sequence > c->sequence);
	c->sequence = f.sequence;
	if (!CHECK_OK(dlbuf_import_frame(c->dev, &f, NULL, t, &n))) {
		dlbuf_frame_drop(&f);
		goto quit;
	}
	for (uint32_t p = 0; p < n; p++) {
		const DLTensor *l = &t[p]->dl_tensor;

		CHECK_OK(dlbuf_acquire(t[p], DLBUF_READ, NULL, NULL));
		for (int64_t y = 0; y < l->shape[0]; y++)
			for (int64_t x = 0; x < OUR_W; x++)
				wrong += ((uint8_t *)l->data)[y * OUR_PITCH + x] !=
					 shade(x, y, p, f.sequence);
		CHECK_OK(dlbuf_release(t[p], NULL, NULL));
	}
	CHECK_EQ(wrong, 0);
	delete_tensors(t, n);
	if (++c->frames < c->want)
		return;
quit:
	pw_main_loop_quit(c->loop);
}

/* Tensors through PipeWire's daemon, each byte; and what is still out when all ends. */
TEST(source_to_sink)
{
	static const struct pw_stream_events sink_events = {
		.version = PW_VERSION_STREAM_EVENTS,
		.param_changed = on_param,
		.add_buffer = on_add,
		.remove_buffer = on_remove,
		.process = on_sink_process,
	};
	struct timespec limit = { .tv_sec = 300 }, period = { .tv_nsec = 40000000 };
	struct client c = { .want = OUR_FRAMES };
	struct pw_loop *loop;
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *param = our_format(&b);

	if (!getenv("DLBUF_SESSION"))
		SKIP("there is no PipeWire (tests/interop/session)");
	init();
	source = (struct source){ .nbuffers = 0 };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &c.dev));
	source.dev = c.dev;
	c.loop = pw_main_loop_new(NULL);
	loop = pw_main_loop_get_loop(c.loop);
	source.stream = pw_stream_new_simple(loop, "dlbuf-source",
		pw_properties_new(PW_KEY_MEDIA_CLASS, "Video/Source", NULL), &our_events, NULL);
	c.stream = pw_stream_new_simple(loop, "dlbuf-sink",
		pw_properties_new(PW_KEY_MEDIA_TYPE, "Video", PW_KEY_MEDIA_CATEGORY, "Capture",
				  NULL), &sink_events, &c);
	REQUIRE(source.stream && c.stream);
	REQUIRE(!dlbuf_pipewire_open(c.stream, loop, -1, &c.pw));
	c.timer = pw_loop_add_timer(loop, on_late, &c);
	pw_loop_update_timer(loop, c.timer, &limit, NULL, false);
	source.timer = pw_loop_add_timer(loop, on_our_time, NULL);
	pw_loop_update_timer(loop, source.timer, &period, &period, false);
	REQUIRE(!pw_stream_connect(source.stream, PW_DIRECTION_OUTPUT, PW_ID_ANY,
				   PW_STREAM_FLAG_DRIVER | PW_STREAM_FLAG_ALLOC_BUFFERS,
				   &param, 1));
	REQUIRE(!pw_stream_connect(c.stream, PW_DIRECTION_INPUT, PW_ID_ANY,
				   PW_STREAM_FLAG_AUTOCONNECT, &param, 1));
	pw_main_loop_run(c.loop);
	CHECK(!c.late);
	CHECK_EQ(c.frames, OUR_FRAMES);
	CHECK(source.nbuffers > 0 && source.nbuffers < OUR_FRAMES);
	pw_loop_destroy_source(loop, source.timer);
	pw_stream_destroy(c.stream);
	pw_stream_destroy(source.stream);
	/* Each frame came back once, in its turn or at the end. */
	CHECK_EQ(source.dropped, source.number);
	dlbuf_pipewire_close(c.pw);
	dlbuf_device_close(c.dev);
	pw_main_loop_destroy(c.loop);
	pw_deinit();
}

/* What a buffer cannot have. */
TEST(put_refused)
{
	struct dlbuf_udmabuf a, other;
	struct dlbuf_frame f;
	struct made m;

	if (dlbuf_udmabuf_create(OUR_BYTES, NULL, &a) ||
	    dlbuf_udmabuf_create(OUR_BYTES, NULL, &other))
		SKIP("%s", dlbuf_last_error());
	make(&m, SPA_VIDEO_FORMAT_NV12, 1);
	f = our_frame(a.fd);
	m.datas[0].type = 1u << SPA_DATA_MemFd;
	CHECK_ERR(dlbuf_pipewire_add_buffer(&f, &m.pw), -EOPNOTSUPP);
	m.datas[0].type |= 1u << SPA_DATA_DmaBuf;
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, &m.pw));
	CHECK_EQ(m.datas[0].maxsize, (OUR_BYTES + 4095) / 4096 * 4096);
	m.crop.region = SPA_REGION(1, 1, 1, 1);
	f.crop = (struct dlbuf_rect){ 2, 4, 20, 10 };
	f.flags = DLBUF_FRAME_DAMAGED;
	CHECK_OK(dlbuf_pipewire_put(&f, &m.pw));
	CHECK_EQ(m.chunks[0].stride, OUR_PITCH);
	CHECK_EQ(m.chunks[0].size, OUR_BYTES);
	CHECK_EQ(m.chunks[0].flags, SPA_CHUNK_FLAG_CORRUPTED);
	CHECK_EQ(m.crop.region.position.y, 4);
	f.planes[1].offset += OUR_PITCH;
	CHECK_ERR(dlbuf_pipewire_put(&f, &m.pw), -EOPNOTSUPP);
	f = our_frame(other.fd);
	CHECK_ERR(dlbuf_pipewire_put(&f, &m.pw), -EINVAL);
	CHECK_SAYS("another dma-buf");
	/* A block for each plane, wherever it is. */
	make(&m, SPA_VIDEO_FORMAT_NV12, 2);
	m.datas[0].type = m.datas[1].type = 1u << SPA_DATA_DmaBuf;
	f.planes[1] = (struct dlbuf_plane){ .fd = a.fd, .offset = 4096, .pitch = 512 };
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, &m.pw));
	CHECK_OK(dlbuf_pipewire_put(&f, &m.pw));
	CHECK_EQ(m.chunks[1].offset, 4096);
	CHECK_EQ(m.chunks[1].size, 512 * OUR_H / 2);
	make(&m, SPA_VIDEO_FORMAT_NV12, 3);
	CHECK_ERR(dlbuf_pipewire_add_buffer(&f, &m.pw), -EINVAL);
	CHECK_ERR(dlbuf_pipewire_put(&f, &m.pw), -EINVAL);
	dlbuf_udmabuf_close(&a);
	dlbuf_udmabuf_close(&other);
}

/* Buffers and frames of no node, both ways. */
TEST(random)
{
	unsigned int frames = 0, outs = 0;
	struct dlbuf_udmabuf u;

	if (dlbuf_udmabuf_create(1 << 20, NULL, &u))
		SKIP("%s", dlbuf_last_error());
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
		frames += check_random(dlbuf_pipewire_describe(&m.buffer, &m.info, -1, &f), &f);
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
	dlbuf_udmabuf_close(&u);
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "pipewire");
	return ktap_run(argc, argv);
}
