// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/gstreamer.h in pipelines: a camera's buffers, its own and imported
 * ones, against gst_video_frame_map() of the same, and frames of ours into elements.
 */
#include <fcntl.h>
#include <sys/ioctl.h>

#include <linux/videodev2.h>

#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>

#include "interop/gstreamer.h"

/* ---- a pool of udmabufs, for an element that asks for one */

struct pool {
	GstBufferPool parent;
	GstAllocator *allocator;
	GstVideoInfo info;
	guint made;
};

typedef struct {
	GstBufferPoolClass parent;
} PoolClass;
typedef struct pool Pool;

static GType pool_get_type(void);
G_DEFINE_TYPE(Pool, pool, GST_TYPE_BUFFER_POOL)

static const gchar **pool_options(GstBufferPool *bp)
{
	static const gchar *options[] = { GST_BUFFER_POOL_OPTION_VIDEO_META,
					  NULL };

	return options;
}

static GstFlowReturn pool_alloc(GstBufferPool *bp, GstBuffer **out,
				GstBufferPoolAcquireParams *params)
{
	struct pool *pool = (struct pool *)bp;
	struct dlbuf_udmabuf buf;
	GstVideoInfo *i = &pool->info;

	if (dlbuf_udmabuf_create(GST_VIDEO_INFO_SIZE(i), NULL, &buf))
		return GST_FLOW_ERROR;
	close(buf.memfd);
	*out = gst_buffer_new();
	gst_buffer_append_memory(*out, gst_dmabuf_allocator_alloc(
		pool->allocator, buf.fd, GST_VIDEO_INFO_SIZE(i)));
	gst_buffer_add_video_meta_full(*out, GST_VIDEO_FRAME_FLAG_NONE,
				       GST_VIDEO_INFO_FORMAT(i),
				       GST_VIDEO_INFO_WIDTH(i),
				       GST_VIDEO_INFO_HEIGHT(i),
				       GST_VIDEO_INFO_N_PLANES(i), i->offset,
				       i->stride);
	pool->made++;
	return GST_FLOW_OK;
}

static void pool_finalize(GObject *object)
{
	struct pool *pool = (struct pool *)object;

	G_OBJECT_CLASS(pool_parent_class)->finalize(object);
	gst_object_unref(pool->allocator);
}

static void pool_class_init(PoolClass *class)
{
	GST_BUFFER_POOL_CLASS(class)->alloc_buffer = pool_alloc;
	GST_BUFFER_POOL_CLASS(class)->get_options = pool_options;
	G_OBJECT_CLASS(class)->finalize = pool_finalize;
}

static void pool_init(Pool *pool)
{
	pool->allocator = gst_dmabuf_allocator_new();
}

/* Answers upstream's ALLOCATION query with it. */
static gboolean propose(GstElement *sink, GstQuery *query, gpointer data)
{
	Pool **pool = data;
	GstStructure *config;
	GstCaps *c;

	gst_query_parse_allocation(query, &c, NULL);
	if (!*pool) {
		*pool = g_object_new(pool_get_type(), NULL);
		if (!gst_video_info_from_caps(&(*pool)->info, c))
			return FALSE;
		config = gst_buffer_pool_get_config(GST_BUFFER_POOL(*pool));
		gst_buffer_pool_config_set_params(config, c,
			GST_VIDEO_INFO_SIZE(&(*pool)->info), 4, 0);
		gst_buffer_pool_config_add_option(config,
			GST_BUFFER_POOL_OPTION_VIDEO_META);
		gst_buffer_pool_set_config(GST_BUFFER_POOL(*pool), config);
	}
	gst_query_add_allocation_pool(query, GST_BUFFER_POOL(*pool),
				      GST_VIDEO_INFO_SIZE(&(*pool)->info), 4, 0);
	gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
	return TRUE;
}

/* ---- the camera */

/* The adapter's lease, counted. */
struct lease {
	struct stream *s;
	void (*release)(void *data);
	void *data;
};

static void on_release(void *data)
{
	struct lease *l = data;

	__atomic_add_fetch(&l->s->released, 1, __ATOMIC_RELAXED);
	l->release(l->data);
	free(l);
}

static struct lease *count_lease(struct stream *s, struct dlbuf_frame *f)
{
	struct lease *l = malloc(sizeof(*l));

	REQUIRE(l);
	*l = (struct lease){ s, f->release, f->release_data };
	f->release = on_release;
	f->release_data = l;
	return l;
}

static void one_sample(struct stream *s, GstSample *sample)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	GstBuffer *b = gst_sample_get_buffer(sample);
	struct dlbuf_gstreamer_format format;
	GstVideoFrame mapped;
	struct dlbuf_frame f;
	struct lease *l;
	uint32_t n = 0;

	REQUIRE(!dlbuf_gstreamer_caps(gst_sample_get_caps(sample), &format));
	CHECK_EQ(format.modifier, DLBUF_MOD_LINEAR);
	REQUIRE(!dlbuf_gstreamer_frame(b, &format, &f));
	CHECK_EQ(f.clock, DLBUF_CLOCK_STREAM);
	CHECK(f.flags & DLBUF_FRAME_SEQUENCE && !(f.flags & DLBUF_FRAME_READ_ONLY));
	l = count_lease(s, &f);
	REQUIRE_OK(dlbuf_import_frame(s->dev, &f, NULL, t, &n));
	CHECK_EQ(n, f.nplanes);
	REQUIRE(gst_video_frame_map(&mapped, &format.info, b, GST_MAP_READ));
	for (uint32_t i = 0; i < n; i++) {
		CHECK_OK(dlbuf_acquire(t[i], DLBUF_READ, NULL, NULL));
		check_rows(&t[i]->dl_tensor,
			   GST_VIDEO_FRAME_PLANE_DATA(&mapped, i),
			   GST_VIDEO_FRAME_PLANE_STRIDE(&mapped, i));
		CHECK_OK(dlbuf_release(t[i], NULL, NULL));
	}
	gst_video_frame_unmap(&mapped);
	/* Only the lease still holds the buffer. */
	CHECK(l->data == b);
	gst_sample_unref(sample);
	s->sampled++;
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(s->released, s->sampled - 1);
		t[i]->deleter(t[i]);
	}
	CHECK_EQ(s->released, s->sampled);
}

/*
 * Ten of a camera with few buffers: they do come back. Its size is one that
 * has padding.
 */
static void camera(const char *text)
{
	struct stream s;

	start(&s, "v4l2src io-mode=dmabuf", text);
	play(&s);
	for (int i = 0; i < 10; i++)
		one_sample(&s, pull(&s));
	stop(&s);
}

TEST(camera_frames)
{
	camera("video/x-raw,format=NV12,width=640,height=360");
	camera("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,"
	       "width=640,height=360");
	camera("video/x-raw,format=YUY2,width=320,height=180");
	camera("video/x-raw,format=RGB,width=320,height=180");
}

/* ---- the way back */

/* A picture of ours: YUV 4:2:0 with padding, whose tensors have shades that move. */
struct ours {
	struct dlbuf_udmabuf buf;
	struct dlbuf_frame frame;
	uint32_t width, height, pitch;
	unsigned int released;	/* atomic */
	void (*release)(void *data);
	void *data;
};

static void on_ours(void *data)
{
	struct ours *o = data;

	__atomic_add_fetch(&o->released, 1, __ATOMIC_SEQ_CST);
	o->release(o->data);
}

static uint8_t shade(uint32_t x, uint32_t y, uint32_t plane, uint32_t number)
{
	return plane ? 128 + x / 8 - y / 8 : 40 + x / 2 + y / 4 + 5 * number;
}

static void make_ours(struct ours *o, struct dlbuf_device *cpu, uint32_t width,
		      uint32_t height, uint32_t number)
{
	uint32_t pitch = width % 64 ? (width + 127) / 64 * 64 : width, half = (height + 1) / 2, n;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = PICTURE(width, height, DLBUF_FOURCC('Y', 'U', '1', '2'),
		DLBUF_CODE_DRM, 3, .fence = -1);

	*o = (struct ours){ .width = width, .height = height, .pitch = pitch };
	o->buf = udmabuf_of(pitch * (height + half));
	f.planes[0] = (struct dlbuf_plane){ .fd = o->buf.fd, .pitch = pitch };
	for (uint32_t p = 1; p < 3; p++)
		f.planes[p] = (struct dlbuf_plane){ .fd = o->buf.fd, .pitch = pitch / 2,
			.offset = pitch * height + (p - 1) * pitch / 2 * half };
	REQUIRE_OK(dlbuf_import_frame(cpu, &f, NULL, t, &n));
	for (uint32_t p = 0; p < n; p++) {
		const DLTensor *l = &t[p]->dl_tensor;

		CHECK_OK(dlbuf_acquire(t[p], DLBUF_WRITE, NULL, NULL));
		for (int64_t y = 0; y < l->shape[0]; y++)
			for (int64_t x = 0; x < l->shape[1]; x++)
				((uint8_t *)l->data)[y * l->strides[0] + x] =
					shade(x, y, p, number);
		CHECK_OK(dlbuf_release(t[p], NULL, NULL));
	}
	o->frame = (struct dlbuf_frame){ .size = sizeof(f), .width = width, .height = height,
		.code = f.code, .code_space = f.code_space, .clock = DLBUF_CLOCK_STREAM,
		.timestamp_ns = number * 40000000ll, .sequence = number,
		.flags = DLBUF_FRAME_SEQUENCE };
	REQUIRE_OK(dlbuf_frame_from_tensors(t, n, 0, &o->frame));
	while (n--)
		t[n]->deleter(t[n]);
	o->release = o->frame.release;
	o->data = o->frame.release_data;
	o->frame.release = on_ours;
	o->frame.release_data = o;
}

/*
 * The buffer has the frame's values: the planes of the crop, the time. The lease fires with the
 * last memory.
 */
TEST(out)
{
	static const struct dlbuf_frame none;
	struct dlbuf_gstreamer_format format;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	struct dlbuf_frame back, sent;
	GstMemory *kept;
	GstBuffer *b;
	GstCaps *c;
	struct ours o;

	init();
	make_ours(&o, cpu, 33, 17, 3);
	o.frame.crop = (struct dlbuf_rect){ 2, 4, 20, 9 };
	o.frame.colour = (struct dlbuf_colour)COLOUR(1, 1, 1 + 1, DLBUF_RANGE_LIMITED, 2 + 1);
	o.frame.field = DLBUF_FIELD_INTERLACED_TB;
	sent = o.frame;
	REQUIRE_OK(dlbuf_gstreamer_frame_caps(&o.frame, 25, 1, 0, &c));
	REQUIRE_OK(dlbuf_gstreamer_caps(c, &format));
	gst_caps_unref(c);
	REQUIRE_OK(dlbuf_gstreamer_buffer(&o.frame, &b));
	CHECK(!memcmp(&o.frame, &none, sizeof(none)));
	CHECK_EQ(gst_buffer_n_memory(b), 1);
	REQUIRE_OK(dlbuf_gstreamer_frame(b, &format, &back));
	CHECK_EQ(back.nplanes, 3);
	CHECK(back.width == 20 && back.height == 9 && !back.crop.width);
	CHECK_EQ(format.info.width, 20);
	for (uint32_t p = 0; p < 3; p++) {
		CHECK_EQ(back.planes[p].offset, sent.planes[p].offset +
			 (p ? 2 * sent.planes[p].pitch + 1 : 4 * sent.planes[p].pitch + 2));
		CHECK_EQ(back.planes[p].pitch, sent.planes[p].pitch);
	}
	CHECK_EQ(back.timestamp_ns, 120000000);
	CHECK_EQ(back.sequence, 3);
	CHECK_EQ(back.field, DLBUF_FIELD_INTERLACED_TB);
	CHECK_COLOUR(0, &back.colour, sent.colour);
	CHECK_EQ(back.flags, DLBUF_FRAME_SEQUENCE);
	dlbuf_frame_drop(&back);
	/* A part of the memory outlives the buffer. */
	kept = gst_memory_share(gst_buffer_peek_memory(b, 0), 64, 64);
	gst_buffer_unref(b);
	CHECK_EQ(o.released, 0);
	gst_memory_unref(kept);
	CHECK_EQ(o.released, 1);
	dlbuf_udmabuf_close(&o.buf);
	gst_object_unref(gst_dmabuf_allocator_new());
}

/* DMA_DRM, memory for reading, fields; frames that caps or buffers cannot describe. */
TEST(out_of_other_kinds)
{
	static const struct {
		enum dlbuf_field field, back;
		int ret;
	} fields[] = {
		{ DLBUF_FIELD_UNKNOWN, DLBUF_FIELD_NONE, 0 },
		{ DLBUF_FIELD_NONE, DLBUF_FIELD_NONE, 0 },
		{ DLBUF_FIELD_TOP, 0, -EOPNOTSUPP },
		{ DLBUF_FIELD_BOTTOM, 0, -EOPNOTSUPP },
		{ DLBUF_FIELD_INTERLACED, DLBUF_FIELD_INTERLACED, 0 },
		{ DLBUF_FIELD_INTERLACED_BT, DLBUF_FIELD_INTERLACED_BT, 0 },
		{ DLBUF_FIELD_SEQ_TB, 0, -EOPNOTSUPP },
	};
	struct dlbuf_gstreamer_format format;
	struct dlbuf_lease *lease = NULL;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	struct dlbuf_frame f, back;
	GstBuffer *b;
	GstCaps *c;
	struct ours o;

	init();
	make_ours(&o, cpu, 62, 48, 0);
	REQUIRE_OK(dlbuf_lease_create(o.frame.release, o.frame.release_data, &lease));
	o.frame.release = NULL;
	o.frame.lease = lease;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		f = o.frame;
		f.field = fields[i].field;
		f.timestamp_ns = i ? (int64_t)i : -5;
		CHECK_EQ(dlbuf_gstreamer_frame_caps(&f, 0, 1, 0, &c), fields[i].ret);
		CHECK_EQ(dlbuf_gstreamer_buffer(&f, &b), fields[i].ret);
		if (fields[i].ret)
			continue;
		REQUIRE_OK(dlbuf_gstreamer_caps(c, &format));
		REQUIRE_OK(dlbuf_gstreamer_frame(b, &format, &back));
		CHECK_EQ(back.field, fields[i].back);
		CHECK_EQ(back.clock, i ? DLBUF_CLOCK_STREAM : DLBUF_CLOCK_NONE);
		dlbuf_frame_drop(&back);
		gst_buffer_unref(b);
		gst_caps_unref(c);
	}
	/* One lease for all of them, and this. */
	f = o.frame;
	f.flags |= DLBUF_FRAME_READ_ONLY;
	REQUIRE_OK(dlbuf_gstreamer_frame_caps(&f, 0, 1, 1, &c));
	REQUIRE_OK(dlbuf_gstreamer_caps(c, &format));
	CHECK_EQ(format.code, DLBUF_FOURCC('Y', 'U', '1', '2'));
	CHECK_EQ(format.modifier, DLBUF_MOD_LINEAR);
	gst_caps_unref(c);
	REQUIRE_OK(dlbuf_gstreamer_buffer(&f, &b));
	CHECK_ERR(dlbuf_gstreamer_buffer(&f, &b), -EINVAL);
	REQUIRE_OK(dlbuf_gstreamer_frame(b, &format, &back));
	CHECK(back.flags & DLBUF_FRAME_READ_ONLY);
	dlbuf_frame_drop(&back);
	dlbuf_lease_drop(lease);
	CHECK_EQ(o.released, 0);
	f = o.frame;
	f.lease = NULL;
	f.modifier = 0x0100000000000001;	/* Intel's X tiles */
	REQUIRE_OK(dlbuf_gstreamer_frame_caps(&f, 0, 1, 1, &c));
	REQUIRE_OK(dlbuf_gstreamer_caps(c, &format));
	CHECK_EQ(format.modifier, f.modifier);
	gst_caps_unref(c);
	CHECK_ERR(dlbuf_gstreamer_frame_caps(&f, 0, 1, 0, &c), -EOPNOTSUPP);
	f.modifier = DLBUF_MOD_INVALID;
	CHECK_ERR(dlbuf_gstreamer_frame_caps(&f, 0, 1, 1, &c), -EOPNOTSUPP);
	CHECK_ERR(dlbuf_gstreamer_buffer(&f, &b), -EOPNOTSUPP);
	f.modifier = DLBUF_MOD_LINEAR;
	f.orientation = DLBUF_ORIENTATION_TURN_90;
	CHECK_ERR_SAYS(dlbuf_gstreamer_buffer(&f, &b), -EOPNOTSUPP, "the tag image-orientation");
	f.orientation = DLBUF_ORIENTATION_NONE;
	CHECK_ERR(dlbuf_gstreamer_frame_caps(&f, 25, 0, 0, &c), -EINVAL);
	CHECK_ERR(dlbuf_gstreamer_frame_caps(&f, -1, 1, 0, &c), -EINVAL);
	f.code = DLBUF_FOURCC('R', 'G', '8', '8');
	CHECK_ERR(dlbuf_gstreamer_buffer(&f, &b), -EINVAL);
	CHECK_ERR(dlbuf_gstreamer_frame_caps(&f, 0, 1, 0, &c), -EOPNOTSUPP);
	f.nplanes = 1;
	f.width = 16;
	CHECK_ERR(dlbuf_gstreamer_buffer(&f, &b), -EOPNOTSUPP);
	/* The buffer was all that had a share of the lease. */
	gst_buffer_unref(b);
	CHECK_EQ(o.released, 1);
	/* V4L2's one plane for all three. */
	f = (struct dlbuf_frame)PICTURE(62, 48, DLBUF_FOURCC('Y', 'U', '1', '2'), DLBUF_CODE_V4L2,
		1, .fence = -1, .planes = { { .fd = o.buf.fd, .pitch = 64 } });
	REQUIRE_OK(dlbuf_gstreamer_buffer(&f, &b));
	CHECK_EQ(gst_buffer_get_video_meta(b)->n_planes, 3);
	CHECK_EQ(gst_buffer_get_video_meta(b)->offset[2], 64 * 48 + 32 * 24);
	gst_buffer_unref(b);
	dlbuf_udmabuf_close(&o.buf);
	gst_object_unref(gst_dmabuf_allocator_new());
}

static double psnr(GstSample *sample, uint32_t number)
{
	GstVideoFrame v;
	GstVideoInfo info;
	double sum = 0;

	REQUIRE(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
	REQUIRE(gst_video_frame_map(&v, &info, gst_sample_get_buffer(sample), GST_MAP_READ));
	for (int y = 0; y < info.height; y++)
		for (int x = 0; x < info.width; x++) {
			const uint8_t *row = (const uint8_t *)GST_VIDEO_FRAME_PLANE_DATA(&v, 0) +
					     y * GST_VIDEO_FRAME_PLANE_STRIDE(&v, 0);
			double d = (double)row[x] - shade(x, y, 0, number);

			sum += d * d;
		}
	gst_video_frame_unmap(&v);
	sum /= info.width * info.height;
	return sum ? 65025 / sum : 65025;
}

/*
 * Tensors into an encoder and out of a decoder: the output looks like the input (a ratio of
 * 1,000 is 30 dB). Once with another size in the middle, which theoraenc 1.26 does not
 * survive, from any memory. Once stopped with frames in it.
 */
TEST(encoded)
{
	enum { N = 8 };
	static const struct {
		const char *codec;
		int resized, pulled;
	} runs[] = {
		{ "theoraenc quality=60 ! theoradec", N, N },
		{ "jpegenc quality=95 ! jpegdec", N / 2, N },
		{ "jpegenc quality=95 ! jpegdec", N / 2, 2 },
	};
	char text[256];
	struct ours o[N];
	GstElement *pipeline, *src, *sink;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	GstSample *sample;
	GstBuffer *b;
	GstCaps *c;

	init();
	for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
		snprintf(text, sizeof(text), "appsrc name=src format=time ! %s ! "
			 "appsink name=sink sync=false", runs[r].codec);
		pipeline = gst_parse_launch(text, NULL);
		REQUIRE(pipeline);
		src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
		sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
		gst_element_set_state(pipeline, GST_STATE_PLAYING);
		for (int i = 0; i < N; i++) {
			bool large = i < runs[r].resized;

			make_ours(&o[i], cpu, large ? 322 : 158, large ? 182 : 90, i);
			if (!i || i == runs[r].resized) {
				REQUIRE_OK(dlbuf_gstreamer_frame_caps(&o[i].frame, 25, 1, 0, &c));
				gst_app_src_set_caps(GST_APP_SRC(src), c);
				gst_caps_unref(c);
			}
			REQUIRE_OK(dlbuf_gstreamer_buffer(&o[i].frame, &b));
			CHECK_EQ(gst_app_src_push_buffer(GST_APP_SRC(src), b), GST_FLOW_OK);
		}
		gst_app_src_end_of_stream(GST_APP_SRC(src));
		for (int i = 0; i < runs[r].pulled; i++) {
			sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink),
							      300 * GST_SECOND);
			REQUIRE(sample);
			CHECK_MSG(psnr(sample, i) > 1000, "frame %d: %f", i, psnr(sample, i));
			gst_sample_unref(sample);
		}
		gst_element_set_state(pipeline, GST_STATE_NULL);
		gst_object_unref(src);
		gst_object_unref(sink);
		gst_object_unref(pipeline);
		for (int i = 0; i < N; i++) {
			CHECK_EQ(o[i].released, 1);
			dlbuf_udmabuf_close(&o[i].buf);
		}
	}
}

/* vivid's HDMI, which has pictures of any size. */
static bool has_hdmi(const char *node)
{
	struct v4l2_capability caps = { .capabilities = 0 };
	int fd = open(node, O_RDWR | O_CLOEXEC), hdmi = 3;
	bool has = fd >= 0 && !ioctl(fd, VIDIOC_QUERYCAP, &caps) &&
		   !strcmp((const char *)caps.driver, "vivid") &&
		   caps.device_caps & V4L2_CAP_VIDEO_CAPTURE && !ioctl(fd, VIDIOC_S_INPUT, &hdmi);

	if (fd >= 0)
		close(fd);
	return has;
}

/* An element that imports dma-bufs: whole pages are more than the picture's bytes. */
TEST(out_to_v4l2sink)
{
	int fd = -1, hdmi = 1;
	char text[256], node[32];
	GstElement *pipeline, *src;
	struct dlbuf_device *cpu AUTO_DEV = open_cpu();
	GstMessage *message;
	struct ours o[3];
	GstBuffer *b;
	GstCaps *c;
	GstBus *bus;

	init();
	for (int i = 0; i < 16 && fd < 0; i++) {
		struct v4l2_capability cap = { 0 };

		snprintf(node, sizeof(node), "/dev/video%d", i);
		fd = open(node, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, VIDIOC_QUERYCAP, &cap) &&
		    cap.device_caps & V4L2_CAP_VIDEO_OUTPUT)
			break;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	if (fd < 0)
		SKIP("there is no vivid with an output");
	CHECK_EQ(ioctl(fd, VIDIOC_S_OUTPUT, &hdmi), 0);
	close(fd);
	snprintf(text, sizeof(text), "appsrc name=src format=time ! v4l2sink device=%s "
		 "io-mode=dmabuf-import sync=false", node);
	pipeline = gst_parse_launch(text, NULL);
	REQUIRE(pipeline);
	src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
	gst_element_set_state(pipeline, GST_STATE_PLAYING);
	for (int i = 0; i < 3; i++) {
		make_ours(&o[i], cpu, 1280, 720, i);
		if (!i) {
			REQUIRE_OK(dlbuf_gstreamer_frame_caps(&o[i].frame, 60, 1, 0, &c));
			gst_app_src_set_caps(GST_APP_SRC(src), c);
			gst_caps_unref(c);
		}
		REQUIRE_OK(dlbuf_gstreamer_buffer(&o[i].frame, &b));
		CHECK_EQ(gst_buffer_get_size(b), 1280 * 720 * 3 / 2);
		gst_app_src_push_buffer(GST_APP_SRC(src), b);
	}
	gst_app_src_end_of_stream(GST_APP_SRC(src));
	bus = gst_element_get_bus(pipeline);
	message = gst_bus_timed_pop_filtered(bus, 300 * GST_SECOND,
					     GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
	CHECK(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS);
	if (message)
		gst_message_unref(message);
	gst_object_unref(bus);
	gst_element_set_state(pipeline, GST_STATE_NULL);
	gst_object_unref(src);
	gst_object_unref(pipeline);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(o[i].released, 1);
		dlbuf_udmabuf_close(&o[i].buf);
	}
}

/*
 * A pitch that is not GStreamer's own: the frames stay dma-bufs, because the sink has
 * announced that it reads GstVideoMeta.
 */
TEST(camera_of_odd_width)
{
	static const char *const texts[] = {
		"video/x-raw,format=NV12,width=642,height=362",
		"video/x-raw,format=GRAY8,width=642,height=362",
		"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=642,height=362",
	};
	char source[64], node[32] = "";
	struct stream s;
	GstElement *fake;

	init();
	for (int i = 0; i < 16 && !has_hdmi(node); i++)
		snprintf(node, sizeof(node), "/dev/video%d", i);
	if (!has_hdmi(node))
		SKIP("there is no vivid camera");
	snprintf(source, sizeof(source), "v4l2src io-mode=dmabuf device=%s", node);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		start(&s, source, texts[i]);
		CHECK_OK(dlbuf_gstreamer_announce(s.sink));
		play(&s);
		for (int j = 0; j < 3; j++)
			one_sample(&s, pull(&s));
		stop(&s);
	}
	fake = gst_element_factory_make("fakesrc", NULL);
	CHECK_ERR(dlbuf_gstreamer_announce(fake), -EINVAL);
	gst_object_unref(fake);
}

/* A tensor holds the buffer: the pool waits for it, and works after the deletion. */
TEST(camera_held)
{
	DLManagedTensorVersioned *t[3][DLBUF_MAX_PLANES];
	struct dlbuf_gstreamer_format format;
	struct dlbuf_frame f;
	uint64_t held[3], again;
	struct stream s;
	uint32_t n;

	start(&s, "v4l2src io-mode=dmabuf",
	      "video/x-raw,format=NV12,width=640,height=360");
	play(&s);
	for (int i = 0; i < 3; i++) {
		GstSample *sample = pull(&s);

		REQUIRE(!dlbuf_gstreamer_caps(gst_sample_get_caps(sample),
					      &format));
		REQUIRE(!dlbuf_gstreamer_frame(gst_sample_get_buffer(sample),
					       &format, &f));
		count_lease(&s, &f);
		s.sampled++;
		REQUIRE_OK(dlbuf_import_frame(s.dev, &f, NULL, t[i], &n));
		gst_sample_unref(sample);
		/* A stamp that the camera would draw over. */
		held[i] = 0x5aa5a55adeadbeef + i;
		CHECK_OK(dlbuf_acquire(t[i][0], DLBUF_WRITE, NULL, NULL));
		memcpy(t[i][0]->dl_tensor.data, &held[i], sizeof(held[i]));
		CHECK_OK(dlbuf_release(t[i][0], NULL, NULL));
	}
	/* It goes on with the buffers that it has. */
	for (int i = 0; i < 6; i++)
		gst_sample_unref(pull(&s));
	CHECK_EQ(s.released, 0);
	for (int i = 0; i < 3; i++) {
		CHECK_OK(dlbuf_acquire(t[i][0], DLBUF_READ, NULL, NULL));
		memcpy(&again, t[i][0]->dl_tensor.data, sizeof(again));
		CHECK_EQ(again, held[i]);
		for (uint32_t p = 0; p < n; p++)
			t[i][p]->deleter(t[i][p]);
		CHECK_EQ(s.released, i + 1);
	}
	for (int i = 0; i < 6; i++)
		one_sample(&s, pull(&s));
	stop(&s);
}

/* The camera captures into dlbuf's own buffers. */
TEST(camera_imports)
{
	struct stream s;
	Pool *pool = NULL;

	start(&s, "v4l2src io-mode=dmabuf-import",
	      "video/x-raw,format=NV12,width=640,height=360");
	g_object_set(s.sink, "emit-signals", TRUE, NULL);
	g_signal_connect(s.sink, "propose-allocation", G_CALLBACK(propose),
			 &pool);
	play(&s);
	for (int i = 0; i < 10; i++) {
		GstSample *sample = pull(&s);
		GstBuffer *b = gst_sample_get_buffer(sample);

		CHECK(pool && gst_buffer_peek_memory(b, 0)->allocator ==
			      pool->allocator);
		one_sample(&s, sample);
	}
	CHECK(pool && pool->made >= 4 && pool->made <= 8);
	gst_element_set_state(s.pipeline, GST_STATE_NULL);
	if (pool) {
		gst_buffer_pool_set_active(GST_BUFFER_POOL(pool), FALSE);
		CHECK_EQ(G_OBJECT(pool)->ref_count, 1);
		gst_object_unref(pool);
	}
	stop(&s);
}
