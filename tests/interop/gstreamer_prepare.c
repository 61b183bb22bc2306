// SPDX-License-Identifier: MIT
/* The element dlbufprepare, beside an appsink that has the same pictures, and alone. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gst/app/gstappsrc.h>

#include "interop/gstreamer.h"

#define PREPARE(...) { .size = sizeof(struct dlbuf_prepare_opts), __VA_ARGS__ }
#define F32 .dtype = { kDLFloat, 32, 1 }
#define TEE " ! tee name=t t. ! queue max-size-buffers=1 ! appsink name=raw sync=false " \
	"max-buffers=1 t. ! queue max-size-buffers=1 ! dlbufprepare "

struct preparation {
	const char *source, *text, *properties, *types, *dimensions;
	struct dlbuf_prepare_opts opts;
};

/* Next to this program: the folder has the elements for which the build found headers. */
static void load_element(void)
{
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	GstPlugin *plugin;
	GError *e = NULL;

	init();
	REQUIRE(n > 0);
	path[n] = 0;
	strcpy(strrchr(path, '/'), "/gstreamer-1.0/libgstdlbuf.so");
	plugin = gst_plugin_load_file(path, &e);
	CHECK_MSG(plugin, "%s", e ? e->message : path);
	REQUIRE(plugin);
	gst_object_unref(plugin);
}

static void start_prepare(struct stream *s, GstElement **raw, const char *source,
			  const char *text, const char *properties)
{
	char line[640];

	load_element();
	snprintf(line, sizeof(line), "%s" TEE "name=e %s", text, properties);
	start(s, source, line);
	*raw = gst_bin_get_by_name(GST_BIN(s->pipeline), "raw");
	play(s);
}

static void stop_prepare(struct stream *s, GstElement *raw)
{
	gst_object_unref(raw);
	stop(s);
}

static void nothing(DLManagedTensorVersioned *self)
{
}

#define TENSOR(p, type, n, s, steps) { .version = { DLPACK_MAJOR_VERSION, \
	DLPACK_MINOR_VERSION }, .deleter = nothing, .dl_tensor = { .data = p, \
	.device = { kDLCPU, 0 }, .ndim = n, .dtype = type, .shape = s, .strides = steps } }

/* The same preparation by hand, of memory that GStreamer maps. */
static void *by_hand(GstSample *sample, const struct dlbuf_prepare_opts *opts,
		     struct dlbuf_prepare_info *info)
{
	DLBUF_INFO(dlbuf_format_info, f);
	int64_t shape[DLBUF_MAX_PLANES][3], steps[DLBUF_MAX_PLANES][3], sides[3];
	DLManagedTensorVersioned planes[DLBUF_MAX_PLANES], *list[DLBUF_MAX_PLANES];
	struct dlbuf_gstreamer_format format;
	struct dlbuf_prepare *plan = NULL;
	bool nhwc = opts->flags & DLBUF_PREPARE_NHWC;
	GstVideoFrame v;
	void *values;

	REQUIRE_OK(dlbuf_gstreamer_caps(gst_sample_get_caps(sample), &format));
	REQUIRE_OK(dlbuf_format_find(format.code, format.modifier, format.code_space, &f));
	REQUIRE(gst_video_frame_map(&v, &format.info, gst_sample_get_buffer(sample),
				    GST_MAP_READ));
	struct dlbuf_frame frame = FRAME(v.info.width, v.info.height, format.code,
		format.code_space, f.nplanes, .modifier = format.modifier,
		.colour = dlbuf_gstreamer_colour_(&format.info));
	REQUIRE_OK(dlbuf_prepare_create(NULL, &frame, opts, &plan));
	*info = (struct dlbuf_prepare_info){ .size = sizeof(*info) };
	REQUIRE_OK(dlbuf_prepare_get_info(plan, info));
	for (uint32_t i = 0; i < f.nplanes; i++) {
		const struct dlbuf_format_plane *p = &f.planes[i];

		memcpy(shape[i], (int64_t[]){ (v.info.height + p->vsub - 1) / p->vsub,
			(v.info.width + p->hsub - 1) / p->hsub, p->channels }, sizeof(shape[i]));
		memcpy(steps[i], (int64_t[]){ GST_VIDEO_FRAME_PLANE_STRIDE(&v, i) * 8 /
			f.dtype.bits, p->channels, 1 }, sizeof(steps[i]));
		planes[i] = (DLManagedTensorVersioned)TENSOR(GST_VIDEO_FRAME_PLANE_DATA(&v, i),
			f.dtype, p->channels > 1 ? 3 : 2, shape[i], steps[i]);
		list[i] = &planes[i];
	}
	sides[0] = nhwc ? info->height : info->channels;
	sides[1] = nhwc ? info->width : info->height;
	sides[2] = nhwc ? info->channels : info->width;
	values = malloc(sides[0] * sides[1] * sides[2] * opts->dtype.bits / 8);
	REQUIRE(values);
	DLManagedTensorVersioned out = TENSOR(values, opts->dtype, 3, sides, NULL);
	CHECK_OK(dlbuf_prepare_tensors(plan, list, f.nplanes, NULL, &out));
	gst_video_frame_unmap(&v);
	dlbuf_prepare_destroy(plan);
	return values;
}

/* GStreamer's metadata: whose headers the build need not have. */
struct tensor_meta {
	GstMeta meta;
	gsize n;
	struct {
		GQuark id;
		int layout, type;
		GstBuffer *data;
		int order;
		gsize ndim;
		gsize dims[];
	} **tensors;
};

static void check_metas(GstBuffer *b, const struct dlbuf_prepare_info *i, gsize bytes)
{
	GType type = g_type_from_name("GstTensorMetaAPI");
	GstCustomMeta *place = gst_buffer_get_custom_meta(b, "DlbufPrepareMeta");
	guint width, height, turn;
	gint left, top;
	gdouble x, w;
	struct tensor_meta *t;

	REQUIRE(place && gst_structure_get(gst_custom_meta_get_structure(place),
		"scaled-width", G_TYPE_UINT, &width, "scaled-height", G_TYPE_UINT, &height,
		"left", G_TYPE_INT, &left, "top", G_TYPE_INT, &top,
		"turn", G_TYPE_UINT, &turn, "crop-x", G_TYPE_DOUBLE, &x, "crop-width",
		G_TYPE_DOUBLE, &w, NULL));
	CHECK(width == i->scaled_width && height == i->scaled_height);
	CHECK(left == i->left && top == i->top && x == i->crop_x);
	/* The crop is of the stored picture, and the one by hand may be of the upright one. */
	CHECK(w == ((turn ^ i->turn) & 1 ? i->crop_height : i->crop_width));
	/* GStreamer before 1.26 has none. */
	if (!type)
		return;
	t = (struct tensor_meta *)gst_buffer_get_meta(b, type);
	REQUIRE(t && t->n == 1 && t->tensors[0]->ndim == 4);
	CHECK(!strcmp(g_quark_to_string(t->tensors[0]->id), "input"));
	CHECK_EQ(t->tensors[0]->dims[0], 1);
	CHECK_EQ(t->tensors[0]->dims[1] * t->tensors[0]->dims[2] * t->tensors[0]->dims[3],
		 i->channels * i->width * i->height);
	CHECK_EQ(gst_buffer_get_size(t->tensors[0]->data), bytes);
	CHECK(gst_buffer_peek_memory(t->tensors[0]->data, 0) == gst_buffer_peek_memory(b, 0));
}

/* Another device than the CPU computes values that differ by up to a unit or 2e-5. */
static bool is_alike(const struct preparation *p, const void *a, const void *b, gsize bytes)
{
	const unsigned char *x = a, *y = b;
	const float *f = a, *g = b;
	bool is_float = p->opts.dtype.bits == 32;
	gsize n = is_float ? bytes / sizeof(float) : bytes, i = 0;

	if (!p->properties || !strstr(p->properties, "device="))
		return !memcmp(a, b, bytes);
	while (i < n && (is_float ? f[i] - g[i] < 2e-5f && g[i] - f[i] < 2e-5f :
				    abs(x[i] - y[i]) <= 1))
		i++;
	return i == n;
}

/* The tensor as a picture, for elements that take no tensors. */
static void check_picture(const struct preparation *p, GstSample *sample, const char *values)
{
	GstVideoInfo info;
	GstVideoFrame v;
	int row;

	REQUIRE(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
	REQUIRE(gst_video_frame_map(&v, &info, gst_sample_get_buffer(sample), GST_MAP_READ));
	row = info.width * GST_VIDEO_INFO_N_COMPONENTS(&info);
	for (int y = 0; y < info.height; y++)
		CHECK(is_alike(p, (char *)GST_VIDEO_FRAME_PLANE_DATA(&v, 0) +
			       y * GST_VIDEO_FRAME_PLANE_STRIDE(&v, 0), values + y * row, row));
	gst_video_frame_unmap(&v);
}

/* One picture, and its tensor. */
/* The next tensor is that of the picture (taken). */
static void check_tensor(struct stream *s, GstSample *sample, const struct preparation *p)
{
	GstSample *tensor = pull(s);
	struct dlbuf_prepare_info info;
	const GstStructure *c;
	GstMapInfo map;
	GstBuffer *b;
	void *values;

	REQUIRE(sample && tensor);
	b = gst_sample_get_buffer(tensor);
	c = gst_caps_get_structure(gst_sample_get_caps(tensor), 0);
	CHECK_EQ(GST_BUFFER_PTS(b), GST_BUFFER_PTS(gst_sample_get_buffer(sample)));
	values = by_hand(sample, &p->opts, &info);
	if (gst_structure_has_name(c, "video/x-raw")) {
		check_picture(p, tensor, values);
		goto out;
	}
	CHECK(gst_structure_has_name(c, "other/tensors"));
	if (p->dimensions)
		CHECK_MSG(!g_strcmp0(gst_structure_get_string(c, "dimensions"), p->dimensions) &&
			  !g_strcmp0(gst_structure_get_string(c, "types"), p->types),
			  "%s", gst_structure_get_string(c, "dimensions"));
	REQUIRE(gst_buffer_map(b, &map, GST_MAP_READ));
	CHECK_EQ(map.size, info.width * info.height * info.channels * p->opts.dtype.bits / 8);
	CHECK(is_alike(p, map.data, values, map.size));
	gst_buffer_unmap(b, &map);
	check_metas(b, &info, map.size);
out:
	free(values);
	gst_sample_unref(sample);
	gst_sample_unref(tensor);
}

static GstSample *pull_picture(GstElement *sink)
{
	return gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 300 * GST_SECOND);
}

static void one_pair(struct stream *s, GstElement *raw, const struct preparation *p)
{
	check_tensor(s, pull_picture(raw), p);
}

/* Each kind of picture and memory, against the same call by hand. */
TEST(prepare_values)
{
	static const struct preparation runs[] = {
		{ "videotestsrc", "video/x-raw,format=I420,width=321,height=243",
		  "width=64 height=48 fit=letterbox pad-colour=114", "float32", "64:48:3:1",
		  PREPARE(.width = 64, .height = 48, .fit = DLBUF_FIT_LETTERBOX,
			  .pad = { 114, 114, 114 }, F32) },
		{ "videotestsrc pattern=ball", "video/x-raw,format=NV12,width=322,height=180",
		  "width=50 height=40 fit=crop crop-pct=0.9 layout=nhwc channels=bgr type=uint8 "
		  "filter=area", "uint8", "3:50:40:1",
		  PREPARE(.width = 50, .height = 40, .fit = DLBUF_FIT_CROP, .crop_pct = .9,
			  .flags = DLBUF_PREPARE_NHWC, .channels = DLBUF_CHANNELS_BGR,
			  .filter = DLBUF_FILTER_AREA, .dtype = { kDLUInt, 8, 1 }) },
		{ "videotestsrc", "video/x-raw,format=NV12,width=322,height=180",
		  "width=51 height=40 layout=nhwc channels=bgr type=uint8 ! "
		  "video/x-raw,format=BGR", NULL, NULL,
		  PREPARE(.width = 51, .height = 40, .flags = DLBUF_PREPARE_NHWC,
			  .channels = DLBUF_CHANNELS_BGR, .dtype = { kDLUInt, 8, 1 }) },
		{ "videotestsrc", "video/x-raw,format=YUY2,width=160,height=90",
		  "width=30 height=52 turn=1 flip-x=true filter=cubic type=float16 "
		  "mean=0.485,0.456,0.406 std=0.229,0.224,0.225", "float16", "30:52:3:1",
		  PREPARE(.width = 30, .height = 52, .turn = 1, .flags = DLBUF_PREPARE_FLIP_X,
			  .filter = DLBUF_FILTER_CUBIC, .dtype = { kDLFloat, 16, 1 },
			  .mean = { .485, .456, .406 }, .std = { .229, .224, .225 }) },
		{ "videotestsrc", "video/x-raw,format=RGB,width=33,height=17",
		  "width=20 height=10 crop=1.5,2,20,9 type=int8 quant-scale=2 zero-point=-10 "
		  "threads=3",
		  "int8", "20:10:3:1",
		  PREPARE(.width = 20, .height = 10, .crop_x = 1.5, .crop_y = 2,
			  .crop_width = 20, .crop_height = 9, .dtype = { kDLInt, 8, 1 },
			  .quant_scale = 2, .zero_point = -10) },
		{ "videotestsrc", "video/x-raw,format=P010_10LE,width=322,height=182",
		  "rule=shortest shortest=60 channels=grey", "float32", "106:60:1:1",
		  PREPARE(.rule = DLBUF_SIZE_SHORTEST, .shortest = 60,
			  .channels = DLBUF_CHANNELS_GREY, F32) },
		{ "videotestsrc", "video/x-bayer,format=rggb,width=322,height=182",
		  "width=40 height=30", "float32", "40:30:3:1",
		  PREPARE(.width = 40, .height = 30, F32) },
		{ "videotestsrc", "video/x-raw,format=RGB,width=120,height=67",
		  "rule=scaled scaled-width=51 scaled-height=45 width=30 height=40 cut=round",
		  "float32", "30:40:3:1",
		  PREPARE(.rule = DLBUF_SIZE_SCALED, .scaled_width = 51, .scaled_height = 45,
			  .width = 30, .height = 40, .flags = DLBUF_PREPARE_CUT_ROUND, F32) },
		{ "videotestsrc", "video/x-raw,format=BGR10A2_LE,width=33,height=17",
		  "width=20 height=10", "float32", "20:10:3:1",
		  PREPARE(.width = 20, .height = 10, F32) },
		{ "v4l2src io-mode=dmabuf", "video/x-raw,format=RGB16,width=320,height=180",
		  "width=20 height=10", "float32", "20:10:3:1",
		  PREPARE(.width = 20, .height = 10, F32) },
		{ "v4l2src io-mode=dmabuf", "video/x-raw,format=NV12,width=640,height=360",
		  "width=64 height=64 fit=letterbox", "float32", "64:64:3:1",
		  PREPARE(.width = 64, .height = 64, .fit = DLBUF_FIT_LETTERBOX, F32) },
		{ "v4l2src io-mode=dmabuf", DMA_DRM "NV12,width=640,height=360",
		  "width=64 height=64 fit=letterbox timeout=300000000000", "float32", "64:64:3:1",
		  PREPARE(.width = 64, .height = 64, .fit = DLBUF_FIT_LETTERBOX, F32) },
		{ "v4l2src io-mode=dmabuf", DMA_DRM "YUYV,width=320,height=180",
		  "width=64 height=64", "float32", "64:64:3:1",
		  PREPARE(.width = 64, .height = 64, F32) },
	};
	struct stream s;
	GstElement *raw;

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		start_prepare(&s, &raw, runs[i].source, runs[i].text, runs[i].properties);
		for (int j = 0; j < 3; j++)
			one_pair(&s, raw, &runs[i]);
		stop_prepare(&s, raw);
	}
}

#define NV12_DMABUF "v4l2src io-mode=dmabuf", "video/x-raw,format=NV12,width=640,height=360"

/* Without its threads, which would be counted as left over, and without other drivers. */
static void use_llvmpipe(void)
{
	static const char *const env[][2] = { { "LP_NUM_THREADS", "0" },
		{ "MESA_SHADER_CACHE_DIR", "/tmp/mesa" },
		{ "DLBUF_CUDA_LIBRARY", "none" }, { "DLBUF_HIP_LIBRARY", "none" },
		{ "DLBUF_LEVELZERO_LIBRARY", "none" }, { "DLBUF_OPENCL_LIBRARY", "none" },
		{ "DLBUF_VULKAN_LIBRARY", "none" }, { "GST_GL_PLATFORM", "egl" },
		{ "GST_GL_WINDOW", "surfaceless" }, { "GST_GL_API", "gles2" } };
	struct dlbuf_device *dev;

	for (size_t i = 0; i < sizeof(env) / sizeof(env[0]); i++)
		REQUIRE(!setenv(env[i][0], env[i][1], 1));
	/* Also that of a device that is refused. */
	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "EGL's drivers stay in the process");
	if (!dlbuf_device_open("gles:0", NULL, &dev))
		dlbuf_device_close(dev);
	if (dlbuf_device_open("gles:software", NULL, &dev))
		SKIP("%s", dlbuf_last_error());
	dlbuf_device_close(dev);
}

/* On another device, by its name and by device=auto, which also reads what is in no dma-buf. */
TEST(prepare_device)
{
	static const struct preparation runs[] = {
		{ NV12_DMABUF, "width=64 height=48 fit=letterbox device=gles:software", "float32",
		  "64:48:3:1", PREPARE(.width = 64, .height = 48, .fit = DLBUF_FIT_LETTERBOX, F32) },
		{ NV12_DMABUF, "width=51 height=40 layout=nhwc channels=bgr type=uint8 "
		  "device=gles:software ! video/x-raw,format=BGR", NULL, NULL,
		  PREPARE(.width = 51, .height = 40, .flags = DLBUF_PREPARE_NHWC,
			  .channels = DLBUF_CHANNELS_BGR, .dtype = { kDLUInt, 8, 1 }) },
		{ NV12_DMABUF, "width=64 height=64 device=auto", "float32", "64:64:3:1",
		  PREPARE(.width = 64, .height = 64, F32) },
		{ "videotestsrc", "video/x-raw,format=NV12,width=64,height=48",
		  "width=64 height=64 device=auto", "float32", "64:64:3:1",
		  PREPARE(.width = 64, .height = 64, F32) },
		{ "videotestsrc", "video/x-raw,format=NV12,width=64,height=48",
		  "width=64 height=64 device=cpu:0", "float32", "64:64:3:1",
		  PREPARE(.width = 64, .height = 64, F32) },
	};
	struct stream s;
	GstElement *raw;

	use_llvmpipe();
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		start_prepare(&s, &raw, runs[i].source, runs[i].text, runs[i].properties);
		for (int j = 0; j < 4; j++)
			one_pair(&s, raw, &runs[i]);
		stop_prepare(&s, raw);
	}
}

#define RGBA_DMABUF "v4l2src io-mode=dmabuf", "video/x-raw,format=RGBA,width=640,height=360"
/*
 * Between glupload and gldownload an element draws. Without one, GStreamer 1.26 maps the memory of
 * an imported dma-buf and reads nothing into it.
 */
#define GLUPLOAD " ! tee name=g g. ! queue max-size-buffers=1 ! glupload ! " \
	"gleffects effect=identity ! gldownload ! video/x-raw,format=RGBA ! " \
	"appsink name=gl sync=false max-buffers=1 g. ! queue max-size-buffers=1"

/*
 * Hides the DRM nodes from this process: GStreamer takes the first, which is vgem's, and there
 * llvmpipe (Mesa 25.0.7) crashes when it draws an imported dma-buf.
 */
static void hide_nodes(void)
{
	if (access("/dev/dri", F_OK))
		return;
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev/dri", "tmpfs", 0, NULL))
		SKIP("no mounts of its own here: %s", strerror(errno));
}

static void check_alike(GstSample *a, GstSample *b)
{
	GstBuffer *one = gst_sample_get_buffer(a), *other = gst_sample_get_buffer(b);
	GstMapInfo map;

	CHECK_EQ(GST_BUFFER_PTS(one), GST_BUFFER_PTS(other));
	REQUIRE(gst_buffer_map(one, &map, GST_MAP_READ));
	CHECK_EQ(map.size, 640 * 360 * 4);
	CHECK_EQ(gst_buffer_get_size(other), map.size);
	CHECK(!gst_buffer_memcmp(other, 0, map.data, map.size));
	gst_buffer_unmap(one, &map);
}

/* Beside GStreamer's own elements of GL, whose context is current on a thread of theirs. */
TEST(prepare_beside_glupload)
{
	static const struct preparation run = { RGBA_DMABUF GLUPLOAD,
		"width=64 height=48 device=gles:software", "float32", "64:48:3:1",
		PREPARE(.width = 64, .height = 48, F32) };
	GstElement *raw, *gl;
	struct stream s;

	hide_nodes();
	use_llvmpipe();
	start_prepare(&s, &raw, run.source, run.text, run.properties);
	gl = gst_bin_get_by_name(GST_BIN(s.pipeline), "gl");
	REQUIRE(gl);
	for (int j = 0; j < 3; j++) {
		GstSample *picture = pull_picture(raw), *theirs = pull_picture(gl);

		REQUIRE(picture && theirs);
		check_alike(picture, theirs);
		gst_sample_unref(theirs);
		check_tensor(&s, picture, &run);
	}
	gst_object_unref(gl);
	/* Mesa keeps fds of GStreamer's display. */
	gst_element_set_state(s.pipeline, GST_STATE_NULL);
	s.fds = count_fds();
	stop_prepare(&s, raw);
}

static void push_to(struct stream *s, const char *properties, const char *behind);
static GstSample *push_one(struct stream *s, const char *caps_text, GstBuffer *b, char said[256]);
static GstBuffer *in_parts(const gsize sizes[4]);

#define NV12_32X16 "video/x-raw,format=NV12,width=32,height=16,framerate=25/1"

static const char *const orientations[] = {
	[DLBUF_ORIENTATION_NONE] = "rotate-0", [DLBUF_ORIENTATION_TURN_90] = "rotate-90",
	[DLBUF_ORIENTATION_TURN_180] = "rotate-180", [DLBUF_ORIENTATION_TURN_270] = "rotate-270",
	[DLBUF_ORIENTATION_FLIP_X] = "flip-rotate-0",
	[DLBUF_ORIENTATION_TRANSPOSE] = "flip-rotate-270",
	[DLBUF_ORIENTATION_FLIP_Y] = "flip-rotate-180",
	[DLBUF_ORIENTATION_TRANSVERSE] = "flip-rotate-90",
};

/* The picture that GStreamer's own element turns by the tag is the tensor, also in a dma-buf. */
TEST(prepare_orientations)
{
	static const struct {
		const char *source, *text;
	} runs[] = {
		{ "videotestsrc", "video/x-raw,format=RGB,width=52,height=30" },
		{ "v4l2src io-mode=dmabuf", "video/x-raw,format=RGB,width=320,height=180" },
	};
	static const struct preparation p = { .opts = PREPARE(.rule = DLBUF_SIZE_LONGEST,
		.longest = 50, .flags = DLBUF_PREPARE_NHWC | DLBUF_PREPARE_EXACT,
		.dtype = { kDLUInt, 8, 1 }) };

	for (int i = 0; i < 2 * 8; i++) {
		const char *word = orientations[i % 8];
		GstElement *raw;
		GstTagList *tags;
		GstEvent *event;
		struct stream s;
		char line[448], *seen = NULL;
		GstPad *pad;

		load_element();
		snprintf(line, sizeof(line),
			 "%s ! taginject tags=image-orientation=%s ! tee name=t t. ! "
			 "queue max-size-buffers=1 ! videoflip video-direction=auto ! "
			 "appsink name=raw sync=false max-buffers=1 t. ! "
			 "queue max-size-buffers=1 ! dlbufprepare name=e rule=longest longest=50 "
			 "type=uint8 layout=nhwc exact=true", runs[i / 8].text, word);
		start(&s, runs[i / 8].source, line);
		raw = gst_bin_get_by_name(GST_BIN(s.pipeline), "raw");
		play(&s);
		for (int j = 0; j < 2; j++)
			one_pair(&s, raw, &p);
		/* The output is upright. */
		pad = gst_element_get_static_pad(s.sink, "sink");
		event = gst_pad_get_sticky_event(pad, GST_EVENT_TAG, 0);
		REQUIRE(event);
		gst_event_parse_tag(event, &tags);
		CHECK(gst_tag_list_get_string(tags, GST_TAG_IMAGE_ORIENTATION, &seen));
		CHECK_STR(seen, "rotate-0");
		CHECK_EQ(dlbuf_gstreamer_orientation(s.sink), DLBUF_ORIENTATION_NONE);
		g_free(seen);
		gst_event_unref(event);
		gst_object_unref(pad);
		stop_prepare(&s, raw);
	}
}

/* A tag in the middle of a stream, of the stream and of the file; the next stream has none. */
TEST(prepare_orientation_changes)
{
	static const struct {
		int orientation;	/* of a tag before the picture, or -1 */
		GstTagScope scope;
		bool is_new;		/* a new stream begins */
		guint width, height, turn;
	} steps[] = {
		{ -1, GST_TAG_SCOPE_STREAM, false, 50, 25, 0 },
		{ DLBUF_ORIENTATION_TURN_90, GST_TAG_SCOPE_GLOBAL, false, 25, 50, 1 },
		{ DLBUF_ORIENTATION_TURN_180, GST_TAG_SCOPE_STREAM, false, 50, 25, 2 },
		/* The stream's own counts. */
		{ DLBUF_ORIENTATION_TURN_270, GST_TAG_SCOPE_GLOBAL, false, 50, 25, 2 },
		{ DLBUF_ORIENTATION_TURN_270, GST_TAG_SCOPE_STREAM, false, 25, 50, 3 },
		{ -1, GST_TAG_SCOPE_STREAM, true, 50, 25, 0 },
	};
	struct stream s;
	char said[256];
	GstElement *src;

	push_to(&s, "rule=longest longest=50 type=uint8 layout=nhwc", "");
	src = gst_bin_get_by_name(GST_BIN(s.pipeline), "src");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		GstPad *pad = gst_element_get_static_pad(src, "src");
		const GstStructure *place;
		GstTagList *tags;
		GstSample *sample;
		guint w, h, turn;

		if (steps[i].is_new)
			CHECK(gst_pad_push_event(pad, gst_event_new_stream_start("another")));
		if (steps[i].orientation >= 0) {
			tags = gst_tag_list_new(GST_TAG_IMAGE_ORIENTATION,
						orientations[steps[i].orientation], NULL);
			gst_tag_list_set_scope(tags, steps[i].scope);
			CHECK(gst_pad_push_event(pad, gst_event_new_tag(tags)));
		}
		/* Other tags change nothing. */
		tags = gst_tag_list_new(GST_TAG_TITLE, "t", NULL);
		CHECK(gst_pad_push_event(pad, gst_event_new_tag(tags)));
		gst_object_unref(pad);
		sample = push_one(&s, NV12_32X16, in_parts((gsize[4]){ 768 }), said);
		CHECK_MSG(sample, "%zu: %s", i, said);
		REQUIRE(sample);
		place = gst_custom_meta_get_structure(gst_buffer_get_custom_meta(
			gst_sample_get_buffer(sample), "DlbufPrepareMeta"));
		REQUIRE(gst_structure_get(place, "width", G_TYPE_UINT, &w, "height",
					  G_TYPE_UINT, &h, "turn", G_TYPE_UINT, &turn, NULL));
		CHECK_MSG(w == steps[i].width && h == steps[i].height && turn == steps[i].turn,
			  "%zu: %ux%u, turn %u", i, w, h, turn);
		gst_sample_unref(sample);
	}
	gst_object_unref(src);
	stop(&s);
}

/* Another size in the middle, a seek, the end; the pool's buffers are used again. */
TEST(prepare_stream)
{
	static const struct preparation p = { .opts = PREPARE(.rule = DLBUF_SIZE_LONGEST,
		.longest = 50, F32) };
	void *seen[4] = { NULL };
	GstElement *raw, *filter;
	GstSample *sample;
	struct stream s;
	GstCaps *c;
	int n = 0;

	start_prepare(&s, &raw, "videotestsrc num-buffers=40", "capsfilter name=f "
		      "caps=video/x-raw,format=I420,width=160,height=90",
		      "rule=longest longest=50");
	filter = gst_bin_get_by_name(GST_BIN(s.pipeline), "f");
	for (int i = 0; i < 12; i++) {
		if (i == 3) {
			c = gst_caps_from_string("video/x-raw,format=NV12,width=90,height=121");
			g_object_set(filter, "caps", c, NULL);
			gst_caps_unref(c);
		}
		if (i == 9)
			CHECK(gst_element_seek_simple(s.pipeline, GST_FORMAT_TIME,
						      GST_SEEK_FLAG_FLUSH, GST_SECOND));
		one_pair(&s, raw, &p);
	}
	gst_object_unref(filter);
	while ((sample = gst_app_sink_try_pull_sample(GST_APP_SINK(raw), 300 * GST_SECOND))) {
		gst_sample_unref(sample);
		sample = pull(&s);
		void *memory = gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0);

		CHECK_EQ(gst_buffer_get_size(gst_sample_get_buffer(sample)), 37 * 50 * 3 * 4);
		for (n = 0; n < 4 && seen[n] && seen[n] != memory; n++)
			;
		CHECK(n < 4);
		if (n < 4)
			seen[n] = memory;
		gst_sample_unref(sample);
	}
	CHECK(!gst_app_sink_try_pull_sample(GST_APP_SINK(s.sink), 300 * GST_SECOND));
	CHECK(gst_app_sink_is_eos(GST_APP_SINK(s.sink)));
	stop_prepare(&s, raw);
}

/* The element's error has the library's sentence. */
TEST(prepare_refuses)
{
	static const struct {
		const char *properties, *said;
		enum { STREAM, LIBRARY } domain;	/* LIBRARY: at the start */
	} runs[] = {
		{ "width=8 height=8 crop=300,0,100,10", "crop", STREAM },
		{ "name=e", "the rule exact needs width and height", LIBRARY },
		{ "width=8 height=8 std=1e-30", "std", LIBRARY },
		{ "width=-1 height=8", "4294967295x8 pixels, 32768 a side", LIBRARY },
		{ "width=8 height=8 crop=-1,0,4,4", "the x of crop is -1", LIBRARY },
		{ "width=8 height=8 pad-colour=300", "the colour of pad is 300", LIBRARY },
		{ "width=8 height=8 fit=crop crop-pct=2", "crop-pct is 2", LIBRARY },
		{ "rule=pixels", "rule pixels needs min-pixels or max-pixels", LIBRARY },
		{ "rule=scaled", "needs scaled-width and scaled-height", LIBRARY },
		{ "width=8 height=8 type=uint8 quant-scale=-1", "quant-scale is -1", LIBRARY },
		{ "width=8 height=8 type=uint8 zero-point=300", "zero-point is 300", LIBRARY },
		{ "width=8 height=8 crop=\"\"", "crop=\"\" is not 4 numbers", LIBRARY },
		{ "width=8 height=8 mean=\"\"", "mean=\"\" is not 1 number, or 3", LIBRARY },
		{ "width=8 height=8 crop=0x1,0,4,4", "crop=\"0x1,0,4,4\"", LIBRARY },
		{ "width=8 height=8 crop=\"10 10 50 50\"",
		  "crop=\"10 10 50 50\" is not 4 numbers with commas", LIBRARY },
		{ "width=8 height=8 crop=1,2,3", "crop=\"1,2,3\" is not 4 numbers", LIBRARY },
		{ "width=8 height=8 mean=foo", "mean=\"foo\" is not 1 number, or 3", LIBRARY },
		{ "width=8 height=8 pad-colour=a pad-colour=1,2", "pad-colour=\"1,2\"", LIBRARY },
		{ "width=8 height=8 quant-scale=2", "for the types uint8 and int8", LIBRARY },
		{ "width=8 height=8 type=float16 zero-point=1", "for the types", LIBRARY },
		{ "width=8 height=8 device=nowhere:0", "no backend is named 'nowhere'", LIBRARY },
		{ "width=8 height=8 device=hexagon:0", "hexagon", LIBRARY },
		/* A mended value is no error. */
		{ "width=8 height=8 mean=foo mean=1 crop=9,9", "crop=\"9,9\"", LIBRARY },
	};
	GstMessage *m;
	struct stream s;
	GError *e;
	GstBus *bus;

	load_element();
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text), "video/x-raw,format=NV12,width=320,height=180 ! "
			 "dlbufprepare %s", runs[i].properties);
		start(&s, "videotestsrc", text);
		s.fds = count_fds();
		CHECK_EQ(gst_element_set_state(s.pipeline, GST_STATE_PLAYING) ==
			 GST_STATE_CHANGE_FAILURE, runs[i].domain == LIBRARY);
		bus = gst_element_get_bus(s.pipeline);
		m = gst_bus_timed_pop_filtered(bus, 300 * GST_SECOND, GST_MESSAGE_ERROR);
		REQUIRE(m);
		gst_message_parse_error(m, &e, NULL);
		CHECK_MSG(strstr(e->message, runs[i].said), "%s", e->message);
		CHECK_EQ(g_error_matches(e, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS),
			 runs[i].domain == LIBRARY);
		g_error_free(e);
		gst_message_unref(m);
		gst_object_unref(bus);
		stop(&s);
	}
}

/* The first pipelines of two pages, as they are printed there. */
TEST(prepare_as_printed)
{
	static const char *const pages[] = { "docs/gstreamer.md", "examples/README.md" };
	char line[256], *path, folder[512] = "";
	struct stat st;

	REQUIRE(readlink("/proc/self/exe", folder, sizeof(folder) - 64) > 0);
	strcpy(strrchr(folder, '/'), "/gstreamer-1.0");
	setenv("GST_PLUGIN_PATH", folder, 1);
	for (int i = 0; i < 2; i++) {
		FILE *page = fopen(pages[i], "r");

		REQUIRE(page);
		line[0] = 0;
		while (!strstr(line, "gst-launch-1.0 ") && fgets(line, sizeof(line), page))
			;
		fclose(page);
		/* The page names the folder of its own build in front of it. */
		path = strstr(line, "gst-launch-1.0 ");
		REQUIRE(path);
		CHECK_OK(system(path));
	}
	path = strstr(line, "location=");
	REQUIRE(path);
	path[strcspn(path, "\n")] = 0;
	CHECK_OK(stat(path + strlen("location="), &st));
	CHECK_EQ(st.st_size, 3 * 640 * 640 * 4);
}

/* A process that is killed while it holds a camera's buffers leaves nothing behind. */
TEST(prepare_killed)
{
	static const struct preparation p = { .opts = PREPARE(.width = 64, .height = 64, F32) };
	static const char source[] = "v4l2src io-mode=dmabuf",
		text[] = DMA_DRM "NV12,width=640,height=360", size[] = "width=64 height=64";
	struct stream s;
	GstElement *raw;
	int ready[2], status;
	pid_t child;
	char byte;

	REQUIRE_OK(pipe(ready));
	child = fork();
	if (!child) {
		start_prepare(&s, &raw, source, text, size);
		one_pair(&s, raw, &p);
		if (write(ready[1], "x", 1) == 1)
			for (;;)
				one_pair(&s, raw, &p);
		_exit(1);
	}
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	CHECK_OK(kill(child, SIGKILL));
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	start_prepare(&s, &raw, source, text, size);
	one_pair(&s, raw, &p);
	stop_prepare(&s, raw);
}

/* ---- the element alone, with buffers of the test's own in the system's memory */

static void push_to(struct stream *s, const char *properties, const char *behind)
{
	char text[400];

	load_element();
	/* GStreamer's own complaints are no answers. */
	g_log_set_always_fatal((GLogLevelFlags)(G_LOG_FATAL_MASK | G_LOG_LEVEL_CRITICAL));
	snprintf(text, sizeof(text), "dlbufprepare name=e %s %s", properties, behind);
	start(s, "appsrc name=src format=time", text);
	play(s);
}

/* One buffer: its tensor, or NULL and the error's sentence. */
static GstSample *push_one(struct stream *s, const char *caps_text, GstBuffer *b, char said[256])
{
	GstElement *src = gst_bin_get_by_name(GST_BIN(s->pipeline), "src");
	GstBus *bus = gst_element_get_bus(s->pipeline);
	GstCaps *c = gst_caps_from_string(caps_text);
	GstSample *sample = NULL;
	GstMessage *m = NULL;
	GError *e;

	REQUIRE(c);
	gst_app_src_set_caps(GST_APP_SRC(src), c);
	gst_caps_unref(c);
	gst_app_src_push_buffer(GST_APP_SRC(src), b);
	said[0] = 0;
	for (int i = 0; i < 30000 && !sample && !m; i++) {
		sample = gst_app_sink_try_pull_sample(GST_APP_SINK(s->sink), 10 * GST_MSECOND);
		m = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
	}
	REQUIRE(sample || m);
	if (m) {
		gst_message_parse_error(m, &e, NULL);
		snprintf(said, 256, "%s", e->message);
		g_error_free(e);
		gst_message_unref(m);
	}
	gst_object_unref(bus);
	gst_object_unref(src);
	return sample;
}

/* A buffer of memories of these sizes, with a byte's place in all of them as its value. */
static GstBuffer *in_parts(const gsize sizes[4])
{
	GstBuffer *b = gst_buffer_new();
	gsize at = 0;

	for (int i = 0; i < 4 && sizes[i]; i++) {
		guint8 *bytes = g_malloc(sizes[i]);

		for (gsize j = 0; j < sizes[i]; j++, at++)
			bytes[j] = (guint8)(at * 2654435761u >> 11);
		gst_buffer_append_memory(b, gst_memory_new_wrapped((GstMemoryFlags)0, bytes,
			sizes[i], 0, sizes[i], bytes, g_free));
	}
	return b;
}

#define BAYER_33X18 "video/x-bayer,format=rggb,width=33,height=18,framerate=25/1"
#define BAYER16_33X18 "video/x-bayer,format=rggb12le,width=33,height=18,framerate=25/1"

static void check_same(GstSample *a, GstSample *b)
{
	GstMapInfo x, y;

	REQUIRE(gst_buffer_map(gst_sample_get_buffer(a), &x, GST_MAP_READ));
	REQUIRE(gst_buffer_map(gst_sample_get_buffer(b), &y, GST_MAP_READ));
	CHECK(x.size == y.size && !memcmp(x.data, y.data, x.size));
	gst_buffer_unmap(gst_sample_get_buffer(a), &x);
	gst_buffer_unmap(gst_sample_get_buffer(b), &y);
}

/*
 * Metas that are wrong, and planes in several memories. A buffer that is not refused gives
 * the same picture as its bytes in one memory.
 */
TEST(prepare_mapped)
{
	static const struct {
		const char *caps;
		gsize sizes[4];
		struct {
			GstVideoFormat format;
			guint width, height, n;
			gsize offset[4];
			gint stride[4];
		} meta;
		guint crop[4];
		const char *said;
	} runs[] = {
#define META(...) .meta = { GST_VIDEO_FORMAT_NV12, 32, 16, 2, __VA_ARGS__ }
		{ NV12_32X16, { 768 }, META({ 0, 512 }, { 32, 32 }) },
		{ NV12_32X16, { 300, 468 }, META({ 0, 512 }, { 32, 32 }) },
		{ NV12_32X16, { 500, 200, 68 }, META({ 0, 512 }, { 32, 32 }) },
		{ NV12_32X16, { 300, 468 }, .said = NULL },
		{ NV12_32X16, { 767 }, META({ 0, 512 }, { 32, 32 }), .said =
		  "plane 1 of 256 bytes begins at byte 512, the GstBuffer ends at 767" },
		{ NV12_32X16, { 767 }, .said = "the GstBuffer ends at 767" },
		{ NV12_32X16, { 1 }, .said = "the GstBuffer ends at 1" },
		{ NV12_32X16, { 768 }, META({ 5000, 512 }, { 32, 32 }), .said = "at byte 5000" },
		{ NV12_32X16, { 768 }, META({ G_MAXSIZE, 512 }, { 32, 32 }), .said = "byte 1844" },
		{ NV12_32X16, { 768 }, META({ 0, 512 }, { 31, 32 }), .said =
		  "a pitch of 31 bytes is less than the 32 of a row" },
		{ NV12_32X16, { 768 }, META({ 0, 512 }, { 0, 0 }), .said = "a pitch of 0 bytes" },
		{ NV12_32X16, { 768 }, META({ 480, 512 }, { -32, 32 }), .said = "a pitch of -32 " },
		{ NV12_32X16, { 768 }, META({ 0, 512 }, { G_MININT, 32 }), .said = "of -2147" },
		{ NV12_32X16, { 768 }, META({ 0, 512 }, { G_MAXINT, 32 }), .said = "plane 0 of" },
		{ NV12_32X16, { 768 },
		  .meta = { GST_VIDEO_FORMAT_NV12, 16, 8, 2, { 0, 512 }, { 32, 32 } }, .said =
		  "the GstVideoMeta is of NV12, 16x8 pixels and 2 planes, and not as the caps" },
		{ NV12_32X16, { 768 },
		  .meta = { GST_VIDEO_FORMAT_NV21, 32, 16, 2, { 0, 512 }, { 32, 32 } },
		  .said = "the GstVideoMeta is of NV21" },
		{ NV12_32X16, { 768 }, .meta = { GST_VIDEO_FORMAT_NV12, 32, 16, 0, { 0 }, { 32 } },
		  .said = "and 0 planes" },
		{ NV12_32X16, { 768 }, .meta = { GST_VIDEO_FORMAT_NV12, 32, 16, 1, { 0 }, { 32 } },
		  .said = "and 1 planes" },
		{ NV12_32X16, { 768 },
		  .meta = { GST_VIDEO_FORMAT_NV12, 32, 16, 4, { 0, 512 }, { 32, 32, 1, 1 } },
		  .said = "and 4 planes" },
		{ NV12_32X16, { 768 }, .crop = { 3, 2, 4, 4 }, .said = "the crop begins at 3,2, "
		  "inside a sample of plane 1 that covers 2x2 pixels" },
		{ NV12_32X16, { 768 }, .crop = { 2, 2, 0, 4 }, .said = "0x4 at 2,2 has no pixels" },
		{ NV12_32X16, { 768 }, .crop = { 30, 14, 4, 4 }, .said = "not inside" },
		{ BAYER_33X18, { 33 * 18 }, .said = NULL },
		{ BAYER_33X18, { 33 * 9 - 5, 33 * 9 + 5 }, .said = NULL },
		{ BAYER_33X18, { 36 * 18 },
		  .meta = { GST_VIDEO_FORMAT_GRAY8, 33, 18, 1, { 0 }, { 36 } } },
		{ BAYER_33X18, { 35 * 18 }, .said = "the pitch is not known" },
		{ BAYER16_33X18, { 66 * 18 }, .said = NULL },
		{ BAYER16_33X18, { 66 * 5, 66 * 13 }, .said = NULL },
	};
	GstSample *sample, *want;
	struct stream s, plain;
	char said[256];

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		gsize all = 0;
		GstVideoCropMeta *crop;
		GstBuffer *b;

		push_to(&s, "width=9 height=7", "");
		b = in_parts(runs[i].sizes);
		if (runs[i].meta.format) {
			GstVideoMeta *m = gst_buffer_add_video_meta_full(b,
				GST_VIDEO_FRAME_FLAG_NONE, runs[i].meta.format, 32, 16, 1,
				(gsize *)runs[i].meta.offset, (gint *)runs[i].meta.stride);

			m->width = runs[i].meta.width;
			m->height = runs[i].meta.height;
			m->n_planes = runs[i].meta.n;
			memcpy(m->offset, runs[i].meta.offset, sizeof(m->offset));
			memcpy(m->stride, runs[i].meta.stride, sizeof(m->stride));
		}
		if (runs[i].crop[0]) {
			crop = gst_buffer_add_video_crop_meta(b);
			crop->x = runs[i].crop[0];
			crop->y = runs[i].crop[1];
			crop->width = runs[i].crop[2];
			crop->height = runs[i].crop[3];
		}
		sample = push_one(&s, runs[i].caps, b, said);
		if (runs[i].said) {
			CHECK_MSG(!sample && strstr(said, runs[i].said), "%zu: %s", i, said);
		} else {
			CHECK_MSG(sample, "%zu: %s", i, said);
			for (int j = 0; j < 4; j++)
				all += runs[i].sizes[j];
			push_to(&plain, "width=9 height=7", "");
			want = push_one(&plain, runs[i].caps, in_parts((gsize[4]){ all }), said);
			REQUIRE(want && sample);
			check_same(sample, want);
			gst_sample_unref(want);
			stop(&plain);
		}
		if (sample)
			gst_sample_unref(sample);
		stop(&s);
	}
}

/* Packed 4:2:2 that ends within a group of pixels is the same in a dma-buf as in other memory. */
TEST(prepare_packed)
{
	static const struct {
		const char *format;
		guint width, crop[4];
		const char *said;
	} runs[] = {
		{ "YUY2", 32, { 0 }, NULL }, { "YUY2", 33, { 0 }, NULL },
		{ "UYVY", 31, { 0 }, NULL }, { "YUY2", 32, { 2, 1, 7, 5 }, NULL },
		{ "VYUY", 33, { 2, 1, 31, 5 }, NULL }, { "YVYU", 33, { 32, 3, 1, 9 }, NULL },
		{ "YUY2", 33, { 3, 1, 7, 5 }, "the crop begins at 3,1, inside a sample" },
	};
	gsize bytes = 72 * 18;
	guint8 *map;

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		GstSample *sample[2];
		char text[128];

		snprintf(text, sizeof(text),
			 "video/x-raw,format=%s,width=%u,height=18,framerate=25/1", runs[i].format,
			 runs[i].width);
		for (int k = 0; k < 2; k++) {
			const guint *r = runs[i].crop;
			GstVideoCropMeta *crop;
			char said[256];
			struct stream s;
			GstBuffer *b;

			push_to(&s, "width=9 height=7", "");
			b = in_parts((gsize[4]){ bytes });
			if (k) {
				GstBuffer *plain = b;
				GstMemory *m = memory(bytes);

				b = buffer_of(m);
				map = mmap(NULL, bytes, PROT_WRITE, MAP_SHARED,
					   gst_dmabuf_memory_get_fd(m), 0);
				REQUIRE(map != MAP_FAILED);
				gst_buffer_extract(plain, 0, map, bytes);
				munmap(map, bytes);
				gst_buffer_unref(plain);
			}
			gst_buffer_add_video_meta_full(b, GST_VIDEO_FRAME_FLAG_NONE,
				gst_video_format_from_string(runs[i].format), runs[i].width, 18, 1,
				(gsize[GST_VIDEO_MAX_PLANES]){ 0 },
				(gint[GST_VIDEO_MAX_PLANES]){ 72 });
			if (r[2]) {
				crop = gst_buffer_add_video_crop_meta(b);
				crop->x = r[0], crop->y = r[1];
				crop->width = r[2], crop->height = r[3];
			}
			sample[k] = push_one(&s, text, b, said);
			CHECK_MSG(runs[i].said ? !sample[k] && strstr(said, runs[i].said) :
						 !!sample[k],
				  "%zu, %s: %s", i, k ? "dma-buf" : "memory", said);
			stop(&s);
		}
		if (sample[0] && sample[1])
			check_same(sample[0], sample[1]);
		for (int k = 0; k < 2; k++)
			if (sample[k])
				gst_sample_unref(sample[k]);
	}
}

/* A property that is set while the element has a plan changes nothing. */
TEST(prepare_set_late)
{
	static const gsize size[4] = { 768 };
	guint width;
	struct stream s;
	GstSample *first, *sample;
	GstElement *e;
	GstPad *pad;
	char said[256], *crop;
	int type;

	push_to(&s, "width=9 height=7", "");
	e = gst_bin_get_by_name(GST_BIN(s.pipeline), "e");
	first = push_one(&s, NV12_32X16, in_parts(size), said);
	REQUIRE(first);
	g_object_set(e, "type", 3, "layout", DLBUF_PREPARE_NHWC, "width", 30, "tensor-id", "other",
		     "crop", "garbage", "no-enlarge", TRUE, NULL);
	pad = gst_element_get_static_pad(e, "src");
	gst_pad_send_event(pad, gst_event_new_reconfigure());
	gst_object_unref(pad);
	sample = push_one(&s, NV12_32X16, in_parts(size), said);
	REQUIRE(sample);
	check_same(sample, first);
	CHECK(gst_caps_is_equal(gst_sample_get_caps(sample), gst_sample_get_caps(first)));
	g_object_get(e, "type", &type, "width", &width, "crop", &crop, NULL);
	CHECK(!type && width == 9 && !strcmp(crop, "0,0,0,0"));
	g_free(crop);
	gst_sample_unref(sample);
	/* Not for the next start either; in READY it is stored. */
	gst_element_set_state(s.pipeline, GST_STATE_READY);
	gst_element_set_state(s.pipeline, GST_STATE_PLAYING);
	sample = push_one(&s, NV12_32X16, in_parts(size), said);
	CHECK_MSG(sample, "%s", said);
	REQUIRE(sample);
	check_same(sample, first);
	gst_sample_unref(sample);
	gst_sample_unref(first);
	gst_element_set_state(s.pipeline, GST_STATE_READY);
	g_object_set(e, "type", 3, NULL);
	gst_element_set_state(s.pipeline, GST_STATE_PLAYING);
	sample = push_one(&s, NV12_32X16, in_parts(size), said);
	REQUIRE(sample);
	CHECK_EQ(gst_buffer_get_size(gst_sample_get_buffer(sample)), 9 * 7 * 3);
	CHECK(!strcmp(gst_structure_get_string(gst_caps_get_structure(gst_sample_get_caps(sample),
		0), "types"), "uint8"));
	gst_sample_unref(sample);
	gst_object_unref(e);
	stop(&s);
}

/* The next element's caps, and the output's caps; NULL: an error that names them. */
TEST(prepare_picture_caps)
{
	static const struct {
		const char *in, *properties, *behind, *out;
	} runs[] = {
#define RGB(width, height, colour, aspect) "video/x-raw,format=RGB,width=" #width ",height=" \
	#height ",framerate=25/1,interlace-mode=progressive,colorimetry=" colour \
	",pixel-aspect-ratio=" #aspect
		{ NV12_32X16 ",colorimetry=bt709", "width=16 height=8", "video/x-raw",
		  RGB(16, 8, "1:1:5:1", 1/1) },
		{ NV12_32X16 ",colorimetry=2:4:0:0", "width=16 height=16", "video/x-raw",
		  RGB(16, 16, "1:1:0:0", 2/1) },
		{ NV12_32X16 ",pixel-aspect-ratio=4/3", "width=16 height=16 fit=letterbox",
		  "video/x-raw,pixel-aspect-ratio=4/3", "video/x-raw,pixel-aspect-ratio=4/3" },
		{ NV12_32X16 ",colorimetry=2:4:7:1,pixel-aspect-ratio=4/3",
		  "width=16 height=17 fit=letterbox", "video/x-raw",
		  RGB(16, 17, "sRGB", 4/3) },
		{ NV12_32X16 ",colorimetry=2:4:7:1,pixel-aspect-ratio=4/3",
		  "width=16 height=16 turn=1", "video/x-raw", RGB(16, 16, "sRGB", 3/8) },
		{ NV12_32X16 ",colorimetry=2:4:7:1", "width=16 height=8 channels=grey",
		  "video/x-raw", "video/x-raw,format=GRAY8,width=16,height=8,framerate=25/1,"
		  "interlace-mode=progressive,colorimetry=1:4:7:1,pixel-aspect-ratio=1/1" },
		{ NV12_32X16, "width=16 height=8", "video/x-raw;other/tensors", "video/x-raw" },
		{ NV12_32X16, "width=16 height=8", "other/tensors;video/x-raw", "other/tensors" },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,format=BGR;other/tensors",
		  "other/tensors" },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,colorimetry=2:1:0:0", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,colorimetry=bt709", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,interlace-mode=mixed", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,multiview-mode=left", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,pixel-aspect-ratio=4/3", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,chroma-site=jpeg", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,foo=bar", NULL },
		{ NV12_32X16, "width=16 height=8", "video/x-raw,width=64", NULL },
		{ NV12_32X16, "width=16 height=8", "other/tensors,foo=bar", NULL },
	};
	char said[256], behind[256], properties[128];
	GstSample *sample;
	struct stream s;
	GstCaps *want, *c;

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		snprintf(behind, sizeof(behind), "! capsfilter caps=\"%s\"", runs[i].behind);
		snprintf(properties, sizeof(properties), "type=uint8 layout=nhwc %s",
			 runs[i].properties);
		push_to(&s, properties, behind);
		sample = push_one(&s, runs[i].in, in_parts((gsize[4]){ 768 }), said);
		if (!runs[i].out) {
			CHECK_MSG(!sample && strstr(said, "the output has the caps"), "%zu: %s", i,
				  said);
		} else {
			REQUIRE(sample);
			want = gst_caps_from_string(runs[i].out);
			c = gst_sample_get_caps(sample);
			CHECK_MSG(gst_caps_is_subset(c, want), "%zu: %s", i,
				  gst_structure_to_string(gst_caps_get_structure(c, 0)));
			gst_caps_unref(want);
		}
		if (sample)
			gst_sample_unref(sample);
		stop(&s);
	}
}

/* No bytes of an older buffer, and no undefined bytes, are between the rows of a picture. */
TEST(prepare_row_padding)
{
	GstSample *sample;
	struct stream s;
	GstMapInfo map;
	char said[256];

	push_to(&s, "type=uint8 layout=nhwc width=19 height=11", "! video/x-raw");
	/* The allocator's memory is seldom zero by itself, after the first use never. */
	for (int i = 0; i < 3; i++) {
		sample = push_one(&s, NV12_32X16, in_parts((gsize[4]){ 768 }), said);
		REQUIRE(sample);
		REQUIRE(gst_buffer_map(gst_sample_get_buffer(sample), &map, GST_MAP_READ));
		CHECK_EQ(map.size, 60 * 11);
		for (int y = 0; y < 11; y++)
			CHECK(!memcmp(map.data + 60 * y + 57, "\0\0", 3));
		memset(map.data, 0xa5, map.size);
		gst_buffer_unmap(gst_sample_get_buffer(sample), &map);
		gst_sample_unref(sample);
	}
	stop(&s);
}
