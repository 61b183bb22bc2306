// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/ffmpeg.h: descriptors word by word; real dma-bufs through it
 * against FFmpeg's own mapping, its copy and its conversion of the same frame;
 * frames of VA-API (with a driver of our own) and of Vulkan.
 *
 *	cc ffmpeg.c $(pkg-config --cflags --libs dlbuf libswscale)
 */
#include <strings.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <libavutil/imgutils.h>
#include <libavutil/log.h>
#include <libswscale/swscale.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/ffmpeg.h>

#include "doubles/va.h"
#include "interop/picture.h"

#define DRM(a, b, c, d) DLBUF_FOURCC(a, b, c, d)
#define R8 DRM('R', '8', ' ', ' ')
#define GR88 DRM('G', 'R', '8', '8')
#define RG88 DRM('R', 'G', '8', '8')
#define R16 DRM('R', '1', '6', ' ')
#define GR1616 DRM('G', 'R', '3', '2')
#define NV12 DRM('N', 'V', '1', '2')
#define NONE AV_PIX_FMT_NONE

/* ---- descriptors */

static AVDRMFrameDescriptor one_layer(void)
{
	AVDRMFrameDescriptor d = {
		.nb_objects = 1,
		.objects = { { .fd = 7 } },
		.nb_layers = 1,
		.layers = { {
			.format = NV12,
			.nb_planes = 2,
			.planes = { { .offset = 64, .pitch = 64 },
				    { .offset = 4096, .pitch = 128 } },
		} },
	};

	return d;
}

static AVDRMFrameDescriptor layers_of(const uint32_t *codes, int n)
{
	AVDRMFrameDescriptor d = one_layer();

	d.nb_layers = n;
	for (int i = 0; i < n; i++) {
		d.layers[i].format = codes[i];
		d.layers[i].nb_planes = 1;
		d.layers[i].planes[0].offset = 1000 * i;
		d.layers[i].planes[0].pitch = 64 + i;
	}
	return d;
}
#define LAYERS(...)                                                          \
	layers_of((const uint32_t[]){ __VA_ARGS__ },                         \
		  sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static AVFrame *frame_of(AVDRMFrameDescriptor *d)
{
	AVFrame *av = av_frame_alloc();

	REQUIRE(av);
	av->format = AV_PIX_FMT_DRM_PRIME;
	av->width = 60;
	av->height = 32;
	av->data[0] = (uint8_t *)d;
	return av;
}

/* The frame of one_layer(). */
static const struct dlbuf_frame nv12 = PICTURE(60, 32, NV12, DLBUF_CODE_DRM, 2,
	.planes = { { .fd = 7, .offset = 64, .pitch = 64 },
		    { .fd = 7, .offset = 4096, .pitch = 128 } },
	.field = DLBUF_FIELD_NONE, .fence = -1);

TEST(layer)
{
	AVDRMFrameDescriptor d = one_layer();
	AVFrame *av = frame_of(&d);
	struct dlbuf_frame f, want = nv12;

	CHECK_OK(dlbuf_ffmpeg_frame(av, NONE, &f));
	CHECK_FRAME(&f, want);
	CHECK(!f.release);
	/* A pitch may be negative: FFmpeg turns pictures over that way. */
	d.layers[0].planes[1].pitch = -128;
	want.planes[1].pitch = -128;
	d.objects[0].format_modifier = DLBUF_MOD_INVALID;
	want.modifier = DLBUF_MOD_INVALID;
	CHECK_OK(dlbuf_ffmpeg_frame(av, NONE, &f));
	CHECK_FRAME(&f, want);
	av_frame_free(&av);
}

/* Layers alike, pictures not: the software's format decides. */
TEST(layers)
{
	static const struct {
		enum AVPixelFormat sw;
		uint32_t drm;
		int n;
		uint32_t codes[3];
	} rows[] = {
		{ AV_PIX_FMT_NV12, NV12, 2, { R8, GR88 } },
		{ AV_PIX_FMT_NV12, NV12, 2, { R8, RG88 } },
		{ AV_PIX_FMT_NV21, DRM('N', 'V', '2', '1'), 2, { R8, GR88 } },
		{ AV_PIX_FMT_NV16, DRM('N', 'V', '1', '6'), 2, { R8, GR88 } },
		{ AV_PIX_FMT_NV24, DRM('N', 'V', '2', '4'), 2, { R8, GR88 } },
		{ AV_PIX_FMT_NV42, DRM('N', 'V', '4', '2'), 2, { R8, GR88 } },
		{ AV_PIX_FMT_P010, DRM('P', '0', '1', '0'), 2, { R16, GR1616 } },
		{ AV_PIX_FMT_P012, DRM('P', '0', '1', '2'), 2, { R16, GR1616 } },
		{ AV_PIX_FMT_P016, DRM('P', '0', '1', '6'), 2, { R16, GR1616 } },
		{ AV_PIX_FMT_P210, DRM('P', '2', '1', '0'), 2, { R16, GR1616 } },
		{ AV_PIX_FMT_YUV420P, DRM('Y', 'U', '1', '2'), 3, { R8, R8, R8 } },
		{ AV_PIX_FMT_YUV422P, DRM('Y', 'U', '1', '6'), 3, { R8, R8, R8 } },
		{ AV_PIX_FMT_YUV444P, DRM('Y', 'U', '2', '4'), 3, { R8, R8, R8 } },
		{ AV_PIX_FMT_YUV411P, DRM('Y', 'U', '1', '1'), 3, { R8, R8, R8 } },
		{ AV_PIX_FMT_YUV410P, DRM('Y', 'U', 'V', '9'), 3, { R8, R8, R8 } },
	};
	struct dlbuf_frame f;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		AVDRMFrameDescriptor d = layers_of(rows[i].codes, rows[i].n);
		AVFrame *av = frame_of(&d);

		if (CHECK_OK(dlbuf_ffmpeg_frame(av, rows[i].sw, &f))) {
			CHECK_MSG(f.code == rows[i].drm, "row %zu", i);
			CHECK_EQ(f.nplanes, rows[i].n);
			CHECK_EQ(f.planes[1].offset, 1000);
			CHECK_EQ(f.planes[1].pitch, 65);
		}
		av_frame_free(&av);
	}
}

TEST(refused)
{
	static const struct {
		enum AVPixelFormat sw;
		uint32_t second;
		int err;
		const char *says;
	} rows[] = {
		/* It could be NV12, NV21, NV16 ... */
		{ NONE, GR88, -EOPNOTSUPP, "sw_format" },
		{ AV_PIX_FMT_GBRP, GR88, -EOPNOTSUPP, "gbrp" },
		{ AV_PIX_FMT_YUV420P, GR88, -EINVAL, "3 planes" },
		{ AV_PIX_FMT_P010, GR88, -EINVAL, "layer 0" },
		{ AV_PIX_FMT_NV12, R8, -EINVAL, "layer 1" },
	};
	AVDRMFrameDescriptor d = LAYERS(R8, GR88);
	struct dlbuf_frame f = { .width = 77 };
	AVFrame *av = frame_of(&d);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		d = LAYERS(R8, rows[i].second);
		CHECK_ERR_SAYS(dlbuf_ffmpeg_frame(av, rows[i].sw, &f), rows[i].err, rows[i].says);
	}
	/* A descriptor, changed: the refusal of its frame. */
#define REFUSED(err, says, sw, descriptor, ...)					\
	do {									\
		d = descriptor;							\
		__VA_ARGS__;							\
		CHECK_ERR_SAYS(dlbuf_ffmpeg_frame(av, sw, &f), err, says);	\
	} while (0)
#define NV12_REFUSED(err, says, ...) \
	REFUSED(err, says, AV_PIX_FMT_NV12, LAYERS(R8, GR88), __VA_ARGS__)
	NV12_REFUSED(-EOPNOTSUPP, "modifiers", d.nb_objects = 2, d.objects[1].format_modifier = 1,
		     d.layers[1].planes[0].object_index = 1);
	NV12_REFUSED(-EINVAL, "object 2 of 2", d.nb_objects = 2,
		     d.layers[1].planes[0].object_index = 2);
	NV12_REFUSED(-EINVAL, "object -1 of 1", d.layers[1].planes[0].object_index = -1);
	NV12_REFUSED(-EINVAL, "1 bytes before", d.layers[0].planes[0].offset = -1);
	/* As many planes as it should have, in too few layers. */
	REFUSED(-EINVAL, "layer 1 of 2", AV_PIX_FMT_YUV420P, LAYERS(R8, R8),
		d.layers[1].nb_planes = 2);
	for (int n = 0; n < 6; n += 5) {
		REFUSED(-EINVAL, "", NONE, one_layer(), d.nb_objects = n);
		REFUSED(-EINVAL, "", NONE, one_layer(), d.nb_layers = n);
		REFUSED(-EINVAL, "", NONE, one_layer(), d.layers[0].nb_planes = n);
	}
	/* A plane ends with its object, if the decoder knows how large that is. */
	NV12_REFUSED(-ERANGE, "", d.objects[0].size = d.layers[1].planes[0].offset);
	d.objects[0].size++;
	CHECK_OK(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NV12, &f));
	CHECK_EQ(f.planes[1].bytes, 1);
	d.objects[0].size = 0;
	CHECK_OK(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NV12, &f));
	CHECK_EQ(f.planes[1].bytes, 0);
	/* The program made this one by hand and frees it by hand: no lease can keep it. */
	CHECK_ERR(dlbuf_ffmpeg_lease(av, &f), -EINVAL);
	CHECK_ERR(dlbuf_ffmpeg_map(av, DLBUF_READ, &f), -EOPNOTSUPP);
	d = one_layer();
	av->width = -60;
	CHECK_ERR_SAYS(dlbuf_ffmpeg_frame(av, NONE, &f), -EINVAL, "-60");
	av->width = 60;
	av->format = AV_PIX_FMT_NV12;
	CHECK_ERR_SAYS(dlbuf_ffmpeg_frame(av, NONE, &f), -EINVAL, "nv12");
	av->format = AV_PIX_FMT_DRM_PRIME;
	av->data[0] = NULL;
	CHECK_ERR(dlbuf_ffmpeg_frame(av, NONE, &f), -EINVAL);
	CHECK(!f.width && !f.release);
	av_frame_free(&av);
}

TEST(crops)
{
	AVDRMFrameDescriptor d = one_layer();
	AVFrame *av = frame_of(&d);
	struct dlbuf_frame f, want = nv12;

	av->crop_left = 2;
	av->crop_right = 4;
	av->crop_top = 6;
	av->crop_bottom = 8;
	CHECK_OK(dlbuf_ffmpeg_frame(av, NONE, &f));
	want.crop = (struct dlbuf_rect){ 2, 6, 54, 18 };
	CHECK_FRAME(&f, want);
	av->crop_right = 58;
	CHECK_ERR(dlbuf_ffmpeg_frame(av, NONE, &f), -EINVAL);
	/* A sum that wraps. */
	av->crop_right = SIZE_MAX;
	CHECK_ERR(dlbuf_ffmpeg_frame(av, NONE, &f), -EINVAL);
	av->crop_right = 0;
	av->crop_top = 24;
	CHECK_ERR(dlbuf_ffmpeg_frame(av, NONE, &f), -EINVAL);
	av_frame_free(&av);
}

/* FFmpeg's own words: turned clockwise by an angle, then flipped. */
TEST(orientations)
{
	static const struct {
		double angle;
		int hflip, vflip;
		enum dlbuf_orientation want;
	} cases[] = {
		{ 0, 0, 0, DLBUF_ORIENTATION_NONE }, { 90, 0, 0, DLBUF_ORIENTATION_TURN_90 },
		{ 180, 0, 0, DLBUF_ORIENTATION_TURN_180 },
		{ -90, 0, 0, DLBUF_ORIENTATION_TURN_270 },
		{ 270, 0, 0, DLBUF_ORIENTATION_TURN_270 }, { 0, 1, 0, DLBUF_ORIENTATION_FLIP_X },
		{ 90, 1, 0, DLBUF_ORIENTATION_TRANSPOSE }, { 0, 0, 1, DLBUF_ORIENTATION_FLIP_Y },
		{ 270, 1, 0, DLBUF_ORIENTATION_TRANSVERSE }, { 180, 1, 1, DLBUF_ORIENTATION_NONE },
	};
	AVDRMFrameDescriptor d = one_layer();
	AVFrame *av = frame_of(&d);
	AVFrameSideData *side;
	struct dlbuf_frame f;

	CHECK_OK(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NONE, &f));
	CHECK_EQ(f.orientation, DLBUF_ORIENTATION_NONE);
	side = av_frame_new_side_data(av, AV_FRAME_DATA_DISPLAYMATRIX, 9 * sizeof(int32_t));
	REQUIRE(side);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		av_display_rotation_set((int32_t *)side->data, cases[i].angle);
		av_display_matrix_flip((int32_t *)side->data, cases[i].hflip, cases[i].vflip);
		CHECK_OK(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NONE, &f));
		CHECK_MSG(f.orientation == cases[i].want, "case %zu: %d", i, f.orientation);
	}
	av_display_rotation_set((int32_t *)side->data, 30);
	CHECK_ERR(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NONE, &f), -EOPNOTSUPP);
	CHECK_SAYS("no turn by quarters");
	memset(side->data, 0, side->size);
	CHECK_ERR(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_NONE, &f), -EOPNOTSUPP);
	av_frame_free(&av);
}

TEST(colours)
{
	static const struct {
		int primaries, transfer, space, range, location;
		struct dlbuf_colour want;
	} rows[] = {
		{ AVCOL_PRI_UNSPECIFIED, AVCOL_TRC_UNSPECIFIED,
		  AVCOL_SPC_UNSPECIFIED, 0, 0, { 0 } },
		{ AVCOL_PRI_BT2020, AVCOL_TRC_SMPTE2084, AVCOL_SPC_BT2020_NCL,
		  AVCOL_RANGE_MPEG, AVCHROMA_LOC_TOPLEFT,
		  COLOUR(9, 16, 9 + 1, DLBUF_RANGE_LIMITED, 2 + 1) },
		{ AVCOL_PRI_BT709, AVCOL_TRC_BT709, AVCOL_SPC_RGB,
		  AVCOL_RANGE_JPEG, 0, COLOUR(1, 1, 0 + 1, DLBUF_RANGE_FULL, 0) },
		{ AVCOL_PRI_RESERVED, AVCOL_TRC_RESERVED0, AVCOL_SPC_RESERVED,
		  0, AVCHROMA_LOC_NB, { 0 } },
	};
	AVDRMFrameDescriptor d = one_layer();
	AVFrame *av = frame_of(&d);
	struct dlbuf_frame f;

	/* av_frame_alloc() says that nothing is specified. */
	CHECK_OK(dlbuf_ffmpeg_frame(av, NONE, &f));
	CHECK_COLOUR(-1, &f.colour, rows[0].want);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		av->color_primaries = rows[i].primaries;
		av->color_trc = rows[i].transfer;
		av->colorspace = rows[i].space;
		av->color_range = rows[i].range;
		av->chroma_location = rows[i].location;
		CHECK_OK(dlbuf_ffmpeg_frame(av, NONE, &f));
		CHECK_COLOUR(i, &f.colour, rows[i].want);
	}
	d = LAYERS(R8, R8, R8);
	CHECK_OK(dlbuf_ffmpeg_frame(av, AV_PIX_FMT_YUVJ420P, &f));
	CHECK_EQ(f.code, DRM('Y', 'U', '1', '2'));
	CHECK_EQ(f.colour.range, DLBUF_RANGE_FULL);
	av_frame_free(&av);
}

TEST(time_fields_damage)
{
	enum {
		I = AV_FRAME_FLAG_INTERLACED,
		TOP = AV_FRAME_FLAG_TOP_FIELD_FIRST,
	};
	static const struct {
		int64_t pts;
		int base, flags, errors;
		int64_t ns;
		enum dlbuf_field field;
		uint32_t damaged;
	} rows[] = {
		/* Without a base ticks are no time. */
		{ 90090, 0, 0, 0, 0, DLBUF_FIELD_NONE, 0 },
		{ 90090, 90000, 0, 0, 1001000000, DLBUF_FIELD_NONE, 0 },
		{ -90000, 90000, 0, 0, -1000000000, DLBUF_FIELD_NONE, 0 },
		{ AV_NOPTS_VALUE, 90000, 0, 0, 0, DLBUF_FIELD_NONE, 0 },
		{ AV_NOPTS_VALUE, 1, TOP, 0, 0, DLBUF_FIELD_NONE, 0 },
		{ AV_NOPTS_VALUE, 1, I, 0, 0, DLBUF_FIELD_INTERLACED_BT, 0 },
		{ AV_NOPTS_VALUE, 1, I | TOP, 0, 0, DLBUF_FIELD_INTERLACED_TB, 0 },
		{ AV_NOPTS_VALUE, 1, AV_FRAME_FLAG_CORRUPT, 0, 0,
		  DLBUF_FIELD_NONE, DLBUF_FRAME_DAMAGED },
		{ AV_NOPTS_VALUE, 1, 0, FF_DECODE_ERROR_MISSING_REFERENCE, 0,
		  DLBUF_FIELD_NONE, DLBUF_FRAME_DAMAGED },
	};
	AVDRMFrameDescriptor d = one_layer();
	AVFrame *av = frame_of(&d);
	struct dlbuf_frame f, want = nv12;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		av->pts = rows[i].pts;
		av->time_base = (AVRational){ !!rows[i].base, rows[i].base };
		av->flags = rows[i].flags;
		av->decode_error_flags = rows[i].errors;
		want.timestamp_ns = rows[i].ns;
		want.clock = rows[i].ns ? DLBUF_CLOCK_STREAM : DLBUF_CLOCK_NONE;
		want.field = rows[i].field;
		want.flags = rows[i].damaged;
		CHECK_OK(dlbuf_ffmpeg_frame(av, NONE, &f));
		CHECK_FRAME(&f, want);
	}
	av_frame_free(&av);
}

/* ---- real dma-bufs */

#define WIDTH 100
#define HEIGHT 50
#define PITCH 128

struct real {
	AVDRMFrameDescriptor desc;
	struct dlbuf_udmabuf buf;
	AVBufferRef *device, *frames;
	AVFrame *av;
	struct dlbuf_device *cpu;
	unsigned int freed;
};

static void on_free(void *opaque, uint8_t *data)
{
	struct real *r = opaque;

	r->freed++;
}

/* FFmpeg needs a device for a pool, but a DRM one need not be a device. */
static void open_device(struct real *r, const char *node)
{
	AVHWDeviceContext *ctx;

	if (node) {
		REQUIRE(!av_hwdevice_ctx_create(&r->device, AV_HWDEVICE_TYPE_DRM,
						node, NULL, 0));
		return;
	}
	r->device = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_DRM);
	REQUIRE(r->device);
	ctx = (AVHWDeviceContext *)r->device->data;
	((AVDRMDeviceContext *)ctx->hwctx)->fd = -1;
	REQUIRE(!av_hwdevice_ctx_init(r->device));
}

/*
 * An NV12 picture with the pattern, as one layer or as one for each plane. No
 * pool has made it, so that its last reference is seen to go.
 */
static void real_open(struct real *r, int layers, const char *node)
{
	AVHWFramesContext *ctx;
	uint8_t *p;

	*r = (struct real){ .desc = one_layer() };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &r->cpu));
	r->buf = udmabuf_of(PITCH * HEIGHT * 3 / 2);
	p = mmap(NULL, r->buf.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		 r->buf.memfd, 0);
	REQUIRE(p != MAP_FAILED);
	for (size_t i = 0; i < r->buf.bytes; i++)
		p[i] = va_pattern(i);
	munmap(p, r->buf.bytes);

	if (layers == 2)
		r->desc = LAYERS(R8, GR88);
	r->desc.objects[0].fd = r->buf.fd;
	r->desc.objects[0].size = r->buf.bytes;
	r->desc.layers[0].planes[0] = (AVDRMPlaneDescriptor){
		.pitch = PITCH };
	*(layers == 2 ? &r->desc.layers[1].planes[0] :
			&r->desc.layers[0].planes[1]) = (AVDRMPlaneDescriptor){
		.offset = PITCH * HEIGHT, .pitch = PITCH };
	open_device(r, node);
	r->frames = av_hwframe_ctx_alloc(r->device);
	REQUIRE(r->frames);
	ctx = (AVHWFramesContext *)r->frames->data;
	ctx->format = AV_PIX_FMT_DRM_PRIME;
	ctx->sw_format = AV_PIX_FMT_NV12;
	ctx->width = WIDTH;
	ctx->height = HEIGHT;
	REQUIRE(!av_hwframe_ctx_init(r->frames));
	r->av = frame_of(&r->desc);
	r->av->width = WIDTH;
	r->av->height = HEIGHT;
	r->av->buf[0] = av_buffer_create((uint8_t *)&r->desc, sizeof(r->desc),
					 on_free, r, 0);
	r->av->hw_frames_ctx = av_buffer_ref(r->frames);
	REQUIRE(r->av->buf[0] && r->av->hw_frames_ctx);
}

static void real_close(struct real *r)
{
	av_frame_free(&r->av);
	CHECK_EQ(r->freed, 1);
	av_buffer_unref(&r->frames);
	av_buffer_unref(&r->device);
	dlbuf_device_close(r->cpu);
	dlbuf_udmabuf_close(&r->buf);
}

/* The planes of *want, of FFmpeg's memory, against the tensors. */
static uint64_t differ(DLManagedTensorVersioned *const *t, const AVFrame *want)
{
	uint64_t bad = 0;

	for (int i = 0; i < 2; i++) {
		const DLTensor *d = &t[i]->dl_tensor;

		CHECK_OK(dlbuf_acquire(t[i], DLBUF_READ, NULL, NULL));
		CHECK_EQ(d->shape[0], i ? (want->height + 1) / 2 : want->height);
		CHECK_EQ(d->shape[1] * (i + 1), (want->width + 1) / 2 * 2);
		bad += rows_differ(d, want->data[i], want->linesize[i]);
		CHECK_OK(dlbuf_release(t[i], NULL, NULL));
	}
	return bad;
}

static void import(struct dlbuf_device *cpu, struct dlbuf_frame *frame,
		   DLManagedTensorVersioned **t)
{
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_import_frame(cpu, frame, NULL, t, &n));
	REQUIRE(n == 2);
}

/* The way back: an AVFrame of the tensors, in the same pool, as FFmpeg downloads it. */
static void back_to_ffmpeg(struct real *r, DLManagedTensorVersioned *const *t)
{
	AVFrame *made, *copy = av_frame_alloc();
	DLBUF_INFO(dlbuf_frame, frame);

	frame.code = NV12;
	frame.code_space = DLBUF_CODE_DRM;
	REQUIRE_OK(dlbuf_frame_from_tensors(t, 2, 0, &frame));
	REQUIRE_OK(dlbuf_ffmpeg_avframe(&frame, &made));
	made->hw_frames_ctx = av_buffer_ref(r->frames);
	REQUIRE(!av_hwframe_transfer_data(copy, made, 0));
	CHECK_EQ(differ(t, copy), 0);
	av_frame_free(&made);
	av_frame_free(&copy);
}

static void against_ffmpeg(int layers, const char *node)
{
	AVFrame *map = av_frame_alloc(), *copy = av_frame_alloc();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	struct real r;

	real_open(&r, layers, node);
	REQUIRE(map && copy);
	REQUIRE_OK(dlbuf_ffmpeg_frame(r.av, NONE, &frame));
	CHECK_EQ(frame.code, NV12);
	import(r.cpu, &frame, t);

	map->format = AV_PIX_FMT_NV12;
	REQUIRE(!av_hwframe_map(map, r.av, AV_HWFRAME_MAP_READ));
	CHECK_EQ(map->data[0][0], va_pattern(0));
	CHECK_EQ(differ(t, map), 0);
	REQUIRE(!av_hwframe_transfer_data(copy, r.av, 0));
	CHECK_EQ(copy->format, AV_PIX_FMT_NV12);
	CHECK_EQ(differ(t, copy), 0);
	/* And the comparison sees differences. */
	copy->data[1][copy->linesize[1] * 24 + 99] ^= 1;
	CHECK_EQ(differ(t, copy), 1);
	back_to_ffmpeg(&r, t);

	delete_tensors(t, 2);
	av_frame_free(&map);
	av_frame_free(&copy);
	real_close(&r);
}

TEST(pixels_of_one_layer)
{
	against_ffmpeg(1, NULL);
}

/* The sw_format comes from the frame's own pool here. */
TEST(pixels_of_two_layers)
{
	against_ffmpeg(2, NULL);
}

TEST(pixels_with_a_drm_node)
{
	if (access("/dev/dri/renderD128", R_OK | W_OK))
		SKIP("there is no /dev/dri/renderD128");
	against_ffmpeg(2, "/dev/dri/renderD128");
}

/* FFmpeg's own converter reads through the tensors' pointers and strides. */
TEST(swscale_reads_the_tensors)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	AVFrame *map = av_frame_alloc();
	struct SwsContext *sws = sws_getContext(WIDTH, HEIGHT, AV_PIX_FMT_NV12,
						WIDTH, HEIGHT, AV_PIX_FMT_RGB24,
						SWS_POINT, NULL, NULL, NULL);
	static uint8_t rgb[2][HEIGHT * WIDTH * 3 + 64];
	const uint8_t *from[4] = { NULL };
	int pitches[4] = { 0 }, out = WIDTH * 3;
	struct dlbuf_frame frame;
	struct real r;

	real_open(&r, 2, NULL);
	REQUIRE(sws && map);
	REQUIRE_OK(dlbuf_ffmpeg_frame(r.av, NONE, &frame));
	import(r.cpu, &frame, t);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(dlbuf_acquire(t[i], DLBUF_READ, NULL, NULL));
		from[i] = t[i]->dl_tensor.data;
		pitches[i] = t[i]->dl_tensor.strides[0];
	}
	CHECK_EQ(sws_scale(sws, from, pitches, 0, HEIGHT,
			   (uint8_t *[]){ rgb[0] }, &out), HEIGHT);
	map->format = AV_PIX_FMT_NV12;
	REQUIRE(!av_hwframe_map(map, r.av, AV_HWFRAME_MAP_READ));
	CHECK_EQ(sws_scale(sws, (const uint8_t **)map->data, map->linesize, 0,
			   HEIGHT, (uint8_t *[]){ rgb[1] }, &out), HEIGHT);
	CHECK(!memcmp(rgb[0], rgb[1], sizeof(rgb[0])));
	CHECK(rgb[0][0] || rgb[0][1] || rgb[0][2]);
	delete_tensors(t, 2);
	sws_freeContext(sws);
	av_frame_free(&map);
	real_close(&r);
}

/* The tensors show the crop of FFmpeg's frame. */
TEST(cropped)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	struct real r;

	real_open(&r, 1, NULL);
	r.av->crop_left = 10;
	r.av->crop_top = 4;
	r.av->crop_bottom = 6;
	REQUIRE_OK(dlbuf_ffmpeg_frame(r.av, NONE, &frame));
	import(r.cpu, &frame, t);
	CHECK_EQ(t[0]->dl_tensor.shape[0], HEIGHT - 10);
	CHECK_EQ(t[0]->dl_tensor.shape[1], WIDTH - 10);
	CHECK_EQ(*(uint8_t *)t[0]->dl_tensor.data, va_pattern(4 * PITCH + 10));
	CHECK_EQ(*(uint8_t *)t[1]->dl_tensor.data,
		 va_pattern(PITCH * HEIGHT + 2 * PITCH + 10));
	delete_tensors(t, 2);
	real_close(&r);
}

/* The decoder's reference goes first, the tensors one by one, then the lease. */
TEST(lease)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	struct real r;

	real_open(&r, 2, NULL);
	REQUIRE_OK(dlbuf_ffmpeg_map(r.av, DLBUF_READ, &frame));
	CHECK(frame.release);
	import(r.cpu, &frame, t);
	av_frame_free(&r.av);
	CHECK_EQ(r.freed, 0);
	t[0]->deleter(t[0]);
	CHECK_EQ(r.freed, 0);
	CHECK_OK(dlbuf_acquire(t[1], DLBUF_READ, NULL, NULL));
	CHECK_EQ(*(uint8_t *)t[1]->dl_tensor.data, va_pattern(PITCH * HEIGHT));
	t[1]->deleter(t[1]);
	CHECK_EQ(r.freed, 1);
	real_close(&r);
}

/* An import that fails leaves the lease with the caller. */
TEST(lease_of_a_refused_frame)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	struct real r;
	uint32_t n;

	real_open(&r, 1, NULL);
	r.desc.objects[0].format_modifier = DLBUF_MOD_INVALID;
	REQUIRE_OK(dlbuf_ffmpeg_map(r.av, DLBUF_READ, &frame));
	CHECK_ERR(dlbuf_import_frame(r.cpu, &frame, NULL, t, &n), -EOPNOTSUPP);
	av_frame_unref(r.av);
	CHECK_EQ(r.freed, 0);
	frame.release(frame.release_data);
	CHECK_EQ(r.freed, 1);
	real_close(&r);
}

/* ---- names */

/* Component k of FFmpeg's, which are R, G, B, A or Y, U, V, A, against ours. */
static void check_component(const char *name, const AVPixFmtDescriptor *d, int k,
			    const struct dlbuf_format_info *info)
{
	const char *letters = d->flags & AV_PIX_FMT_FLAG_RGB ? "RGBA" :
			      d->nb_components == 1 ? "R" : "YUVA";
	const AVComponentDescriptor *c = &d->comp[k];
	const struct dlbuf_format_plane *p = &info->planes[c->plane];
	const char *ours = info->channels;
	int at = c->offset / (info->dtype.bits / 8);

	for (int i = c->plane; i; i--)
		ours = strchr(ours, ',') + 1;
	CHECK_MSG(ours[at] == letters[k] || (d->nb_components == 1 && ours[at] == 'Y'),
		  "%s: %s, component %d at %d", name, info->channels, k, at);
	CHECK_MSG(c->depth == info->depth && c->shift == info->shift, "%s: %d bits, shift %d",
		  name, c->depth, c->shift);
	/* In packed 4:2:2 a group is of two pixels, and has Y twice. */
	CHECK_MSG(c->step * p->hsub == p->channels * info->dtype.bits / 8 ||
		  c->step * 8 == p->channels * info->dtype.bits, "%s: step %d", name, c->step);
	if (info->nplanes > 1 && k && k < 3)
		CHECK_MSG(p->hsub == 1 << d->log2_chroma_w && p->vsub == 1 << d->log2_chroma_h,
			  "%s: %ux%u", name, p->hsub, p->vsub);
}

static int check_name(const char *name, enum dlbuf_code_space space,
		      const struct dlbuf_format_info *info, void *data)
{
	enum AVPixelFormat id = av_get_pix_fmt(name);
	const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(id);
	unsigned int *counts = data;
	char pattern[8];

	if (space != DLBUF_CODE_FFMPEG)
		return 0;
	/* FFmpeg 8 has ayuv. */
	if (!d && !strcmp(name, "ayuv"))
		return 0;
	if (!CHECK_MSG(d, "FFmpeg has no %s", name))
		return 0;
	CHECK_MSG(av_pix_fmt_count_planes(id) == (int)info->nplanes, "%s: %u planes", name,
		  info->nplanes);
	CHECK_MSG(!(d->flags & AV_PIX_FMT_FLAG_BE), "%s is big-endian", name);
	if (d->flags & AV_PIX_FMT_FLAG_BAYER) {
		snprintf(pattern, sizeof(pattern), "%.2s/%.2s", name + 6, name + 8);
		CHECK_MSG(!strcasecmp(pattern, info->channels), "%s: %s", name, info->channels);
		counts[0]++;
	} else if (info->reason) {
		/* Words: their bits are in DRM's name. */
		CHECK_MSG(av_get_padded_bits_per_pixel(d) ==
			  info->planes[0].channels * info->planes[0].bits, "%s", name);
		counts[1]++;
	} else {
		for (int k = 0; k < d->nb_components; k++)
			check_component(name, d, k, info);
		counts[2]++;
	}
	return 0;
}

/* Each name of FFmpeg's that the library knows means the same bytes to both. */
TEST(names)
{
	unsigned int counts[3] = { 0 };

	CHECK_OK(dlbuf_format_names(check_name, counts));
	CHECK_MSG(counts[0] == 8 && counts[1] > 5 && counts[2] > 50, "%u, %u, %u", counts[0],
		  counts[1], counts[2]);
}

/* ---- the way back */

static unsigned int given_back;

static void on_given_back(void *data)
{
	given_back++;
}

/* The frame becomes an AVFrame and a frame again, with equal values. */
TEST(out)
{
	struct dlbuf_frame f = FRAME(33, 17, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
		.crop = { 2, 4, 20, 10 }, .colour = COLOUR(9, 16, 10, DLBUF_RANGE_LIMITED, 3),
		.field = DLBUF_FIELD_INTERLACED_TB, .timestamp_ns = 1234567, .fence = -1,
		.clock = DLBUF_CLOCK_STREAM, .flags = DLBUF_FRAME_DAMAGED,
		.release = on_given_back), back, want = f, none = { 0 }, sent;
	struct dlbuf_udmabuf a AUTO_UDMABUF = udmabuf_of(8192), b AUTO_UDMABUF = udmabuf_of(4096);
	AVFrame *av, *clone;

	f.planes[0] = (struct dlbuf_plane){ .fd = a.fd, .offset = 64, .pitch = 48 };
	f.planes[1] = (struct dlbuf_plane){ .fd = b.fd, .pitch = 64 };
	sent = f;
	REQUIRE_OK(dlbuf_ffmpeg_avframe(&f, &av));
	CHECK(!memcmp(&f, &none, sizeof(f)));
	REQUIRE_OK(dlbuf_ffmpeg_frame(av, NONE, &back));
	want.planes[0] = (struct dlbuf_plane){ back.planes[0].fd, 0, 64, 48, 8192 - 64 };
	want.planes[1] = (struct dlbuf_plane){ back.planes[1].fd, 0, 0, 64, 4096 };
	CHECK(back.planes[0].fd != a.fd && back.planes[0].fd != back.planes[1].fd);
	CHECK_FRAME(&back, want);
	clone = av_frame_clone(av);
	av_frame_free(&av);
	CHECK_EQ(given_back, 0);
	av_frame_free(&clone);
	CHECK_EQ(given_back, 1);

	/* Both in one object; and layouts that FFmpeg cannot describe. */
	sent.planes[1].fd = a.fd;
	f = sent;
	REQUIRE_OK(dlbuf_ffmpeg_avframe(&f, &av));
	CHECK_EQ(((AVDRMFrameDescriptor *)av->data[0])->nb_objects, 1);
	CHECK(av_frame_is_writable(av));
	av_frame_free(&av);
	CHECK_EQ(given_back, 2);
	f = sent;
	f.flags = DLBUF_FRAME_READ_ONLY;
	f.modifier = 0x0100000000000001;	/* Intel's X tiles */
	REQUIRE_OK(dlbuf_ffmpeg_avframe(&f, &av));
	CHECK(!av_frame_is_writable(av));
	CHECK_EQ(((AVDRMFrameDescriptor *)av->data[0])->objects[0].format_modifier,
		 0x0100000000000001);
	av_frame_free(&av);
	CHECK_EQ(given_back, 3);
	for (int i = 0; i < 8; i++) {
		f = sent;
		f.orientation = i;
		REQUIRE_OK(dlbuf_ffmpeg_avframe(&f, &av));
		REQUIRE_OK(dlbuf_ffmpeg_frame(av, NONE, &back));
		CHECK_EQ(back.orientation, i);
		CHECK_EQ(!!av_frame_get_side_data(av, AV_FRAME_DATA_DISPLAYMATRIX), !!i);
		av_frame_free(&av);
	}
	CHECK_EQ(given_back, 11);
	f = sent;
	f.crop.x = 14;
	CHECK_ERR(dlbuf_ffmpeg_avframe(&f, &av), -EINVAL);
	f.crop.x = 2;
	f.planes[1].fd = -1;
	CHECK_ERR(dlbuf_ffmpeg_avframe(&f, &av), -EBADF);
	f = sent;
	f.field = DLBUF_FIELD_SEQ_TB;
	CHECK_ERR(dlbuf_ffmpeg_avframe(&f, &av), -EOPNOTSUPP);
	f.field = DLBUF_FIELD_NONE;
	f.code = DLBUF_FOURCC('R', 'G', 'G', 'B');
	f.code_space = DLBUF_CODE_V4L2;
	f.nplanes = 1;
	CHECK_ERR(dlbuf_ffmpeg_avframe(&f, &av), -EOPNOTSUPP);
	CHECK(f.release && given_back == 11);
}

/* Descriptors and frames of no decoder, both ways. */
TEST(random)
{
	static const uint32_t layers[] = { R8, GR88, RG88, R16, GR1616, NV12, 0 };
	unsigned int frames = 0, outs = 0, before = given_back;
	struct dlbuf_udmabuf u AUTO_UDMABUF = udmabuf_of(1 << 20);

	for (unsigned int i = 0; i < random_rounds(); i++) {
		AVDRMFrameDescriptor d = dice(2) ? one_layer() : LAYERS(R8, GR88);
		AVFrame *av = frame_of(&d), *made;
		struct dlbuf_frame f;

		MAY_CHANGE(d.nb_objects, (int)edge());
		MAY_CHANGE(d.nb_layers, (int)edge());
		for (int j = 0; j < AV_DRM_MAX_PLANES; j++) {
			MAY_CHANGE(d.objects[j].size, edge());
			MAY_CHANGE(d.objects[j].format_modifier, edge());
			MAY_CHANGE(d.layers[j].nb_planes, (int)edge());
			MAY_CHANGE(d.layers[j].format, layers[dice(7)]);
			for (int k = 0; k < AV_DRM_MAX_PLANES; k++) {
				AVDRMPlaneDescriptor *p = &d.layers[j].planes[k];

				MAY_CHANGE(p->object_index, (int)dice(8) - 2);
				MAY_CHANGE(p->offset, (int32_t)edge());
				MAY_CHANGE(p->pitch, (int32_t)edge());
			}
		}
		MAY_CHANGE(av->width, (int)edge());
		MAY_CHANGE(av->height, (int)edge());
		MAY_CHANGE(av->crop_left, edge());
		MAY_CHANGE(av->crop_bottom, dice(2) ? edge() : SIZE_MAX - dice(64));
		MAY_CHANGE(av->pts, (int64_t)edge() << dice(32));
		MAY_CHANGE(av->time_base.num, (int)edge());
		MAY_CHANGE(av->time_base.den, (int)edge());
		MAY_CHANGE(av->color_primaries, (int)edge());
		MAY_CHANGE(av->colorspace, (int)edge());
		memset(&f, 0xff, sizeof(f));
		frames += check_random(dlbuf_ffmpeg_frame(av, dice(2) ? AV_PIX_FMT_NV12 : NONE, &f),
				       &f);
		av->data[0] = NULL;
		av_frame_free(&av);
		f = FRAME(64, 32, NV12, DLBUF_CODE_DRM, 2, .fence = -1, .release = on_given_back,
			.planes = { { .fd = u.fd, .pitch = 128 },
				{ .fd = u.fd, .offset = 4096, .pitch = 128 } });
		spoil(&f, u.fd);
		if (!dlbuf_ffmpeg_avframe(&f, &made)) {
			outs++;
			av_frame_free(&made);
		}
	}
	CHECK_MSG(frames > random_rounds() / 50 && outs > random_rounds() / 10, "%u, %u", frames,
		  outs);
	CHECK_EQ(given_back - before, outs);
}

/* ---- other hardware */

TEST(no_mapping)
{
	AVFrame *av = av_frame_alloc();
	struct dlbuf_frame f = { .width = 77 };
	struct real r;

	REQUIRE(av);
	av->format = AV_PIX_FMT_NV12;
	av->width = av->height = 16;
	CHECK_ERR_SAYS(dlbuf_ffmpeg_map(av, DLBUF_READ, &f), -EINVAL, "no hardware's");
	CHECK_ERR(dlbuf_ffmpeg_map(av, 0, &f), -EINVAL);
	/* A pool of DRM's whose frame says that it is something else. */
	real_open(&r, 1, NULL);
	r.av->format = AV_PIX_FMT_VAAPI;
	CHECK_ERR(dlbuf_ffmpeg_map(r.av, DLBUF_READ, &f), -EOPNOTSUPP);
	CHECK_SAYS("av_hwframe_map of vaapi");
	CHECK(!f.width && !f.release);
	real_close(&r);
	av_frame_free(&av);
}

static AVFrame *hardware_frame(enum AVHWDeviceType type, const char *node,
			       enum AVPixelFormat format,
			       enum AVPixelFormat sw_format)
{
	AVBufferRef *device = NULL, *frames;
	AVFrame *av = av_frame_alloc();
	AVHWFramesContext *ctx;
	char text[AV_ERROR_MAX_STRING_SIZE] = "";
	int ret;

	ret = av_hwdevice_ctx_create(&device, type, node, NULL, 0);
	if (ret) {
		av_strerror(ret, text, sizeof(text));
		SKIP("no device of %s: %s", av_hwdevice_get_type_name(type),
		     text);
	}
	frames = av_hwframe_ctx_alloc(device);
	REQUIRE(frames && av);
	ctx = (AVHWFramesContext *)frames->data;
	ctx->format = format;
	ctx->sw_format = sw_format;
	ctx->width = WIDTH;
	ctx->height = HEIGHT;
	ret = av_hwframe_ctx_init(frames);
	if (!ret)
		ret = av_hwframe_get_buffer(frames, av, 0);
	if (ret) {
		av_strerror(ret, text, sizeof(text));
		SKIP("no frame of %s: %s", av_hwdevice_get_type_name(type),
		     text);
	}
	av_buffer_unref(&frames);
	av_buffer_unref(&device);
	return av;
}

/* In FFmpeg's memory, nothing like the driver's own pattern. */
static AVFrame *filled(void)
{
	AVFrame *av = av_frame_alloc();

	REQUIRE(av);
	av->format = AV_PIX_FMT_NV12;
	av->width = WIDTH;
	av->height = HEIGHT;
	REQUIRE(!av_frame_get_buffer(av, 0));
	for (int i = 0; i < 2; i++)
		for (int y = 0; y < HEIGHT / (i + 1); y++)
			for (int x = 0; x < WIDTH; x++)
				av->data[i][y * av->linesize[i] + x] =
					va_pattern(y * 1000 + x + i + 5);
	return av;
}

/*
 * FFmpeg's mapping of VA-API: two layers, and no hw_frames_ctx that describes
 * them. FFmpeg writes the surface through an image and dlbuf reads it.
 */
TEST(vaapi)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	AVFrame *av, *map, *fill = filled();
	struct dlbuf_device *cpu;
	struct dlbuf_frame frame;

	KTAP_KEEPS(KTAP_HEAP, "libva keeps its display, libc the environment");
	setenv("LIBVA_DRIVER_NAME", "dlbuf", 1);
	av = hardware_frame(AV_HWDEVICE_TYPE_VAAPI, "/dev/dri/renderD128",
			    AV_PIX_FMT_VAAPI, AV_PIX_FMT_NV12);
	REQUIRE(!av_hwframe_transfer_data(av, fill, 0));
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_ffmpeg_map(av, DLBUF_READ, &frame));
	CHECK_EQ(frame.code, NV12);
	CHECK_EQ(frame.nplanes, 2);
	map = frame.release_data;
	CHECK(!map->hw_frames_ctx);
	CHECK_EQ(((AVDRMFrameDescriptor *)map->data[0])->nb_layers, 2);
	import(cpu, &frame, t);
	av_frame_free(&av);
	CHECK_EQ(t[0]->dl_tensor.strides[0], PITCH);
	CHECK_EQ(differ(t, fill), 0);
	delete_tensors(t, 2);
	av_frame_free(&fill);
	dlbuf_device_close(cpu);
}

/* FFmpeg's metadata of the frame is not in the mapping, and is kept. */
TEST(mappings_keep_properties)
{
	struct dlbuf_frame frame;
	AVFrame *av;

	KTAP_KEEPS(KTAP_HEAP, "libva keeps its display, libc the environment");
	setenv("LIBVA_DRIVER_NAME", "dlbuf", 1);
	av = hardware_frame(AV_HWDEVICE_TYPE_VAAPI, "/dev/dri/renderD128",
			    AV_PIX_FMT_VAAPI, AV_PIX_FMT_NV12);
	av->colorspace = AVCOL_SPC_BT709;
	av->crop_bottom = 2;
	av->pts = 3;
	av->time_base = (AVRational){ 1, 1 };
	REQUIRE_OK(dlbuf_ffmpeg_map(av, DLBUF_RW, &frame));
	CHECK_EQ(frame.colour.matrix, 1 + 1);
	CHECK_EQ(frame.crop.height, HEIGHT - 2);
	CHECK_EQ(frame.timestamp_ns, 3000000000);
	frame.release(frame.release_data);
	av_frame_free(&av);
}

/* If Vulkan's driver can export images with linear rows. */
TEST(vulkan)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	AVFrame *av, *fill = filled();
	struct dlbuf_device *cpu;
	struct dlbuf_frame frame;
	uint32_t n = 0;
	int ret;

	KTAP_KEEPS(KTAP_HEAP | KTAP_FDS | KTAP_MAPS, "Vulkan's drivers do");
	av = hardware_frame(AV_HWDEVICE_TYPE_VULKAN, NULL, AV_PIX_FMT_VULKAN,
			    AV_PIX_FMT_NV12);
	REQUIRE(!av_hwframe_transfer_data(av, fill, 0));
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	ret = dlbuf_ffmpeg_map(av, DLBUF_READ, &frame);
	if (ret) {
		CHECK(ret == -EOPNOTSUPP || ret == -EIO);
		SKIP("%s", dlbuf_last_error());
	}
	ktap_note(NULL, 0, "modifier 0x%llx, %u planes",
		  (unsigned long long)frame.modifier, frame.nplanes);
	ret = dlbuf_import_frame(cpu, &frame, NULL, t, &n);
	if (ret) {
		frame.release(frame.release_data);
		SKIP("%s", dlbuf_last_error());
	}
	REQUIRE(n == 2);
	av_frame_free(&av);
	CHECK_EQ(differ(t, fill), 0);
	delete_tensors(t, n);
	av_frame_free(&fill);
	dlbuf_device_close(cpu);
}

int main(int argc, char **argv)
{
	va_driver_beside_this();
	setenv("LIBVA_MESSAGING_LEVEL", "1", 1);
	av_log_set_level(AV_LOG_ERROR);
	return ktap_run(argc, argv);
}
