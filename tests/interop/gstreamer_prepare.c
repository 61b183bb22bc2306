// SPDX-License-Identifier: MIT
/* The element dlbufprepare, beside an appsink that has the same pictures, and alone. */
#include <signal.h>
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

/* Next to this program: the folder has what the build found headers for. */
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
	char line[448];

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
	CHECK_OK(dlbuf_prepare_tensors(plan, list, f.nplanes, &out, 0, 0));
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
	guint width, height;
	gint left, top;
	gdouble x, w;
	struct tensor_meta *t;

	REQUIRE(place && gst_structure_get(gst_custom_meta_get_structure(place),
		"scaled-width", G_TYPE_UINT, &width, "scaled-height", G_TYPE_UINT, &height,
		"left", G_TYPE_INT, &left, "top", G_TYPE_INT, &top,
		"crop-x", G_TYPE_DOUBLE, &x, "crop-width", G_TYPE_DOUBLE, &w, NULL));
	CHECK(width == i->scaled_width && height == i->scaled_height);
	CHECK(left == i->left && top == i->top && x == i->crop_x && w == i->crop_width);
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

/* The tensor as a picture, for elements that take no tensors. */
static void check_picture(GstSample *sample, const char *values)
{
	GstVideoInfo info;
	GstVideoFrame v;
	int row;

	REQUIRE(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
	REQUIRE(gst_video_frame_map(&v, &info, gst_sample_get_buffer(sample), GST_MAP_READ));
	row = info.width * GST_VIDEO_INFO_N_COMPONENTS(&info);
	for (int y = 0; y < info.height; y++)
		CHECK(!memcmp((char *)GST_VIDEO_FRAME_PLANE_DATA(&v, 0) +
			      y * GST_VIDEO_FRAME_PLANE_STRIDE(&v, 0), values + y * row, row));
	gst_video_frame_unmap(&v);
}

/* One picture, and its tensor. */
static void one_pair(struct stream *s, GstElement *raw, const struct preparation *p)
{
	GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(raw), 300 * GST_SECOND);
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
		check_picture(tensor, values);
		goto out;
	}
	CHECK(gst_structure_has_name(c, "other/tensors"));
	if (p->dimensions)
		CHECK_MSG(!g_strcmp0(gst_structure_get_string(c, "dimensions"), p->dimensions) &&
			  !g_strcmp0(gst_structure_get_string(c, "types"), p->types),
			  "%s", gst_structure_get_string(c, "dimensions"));
	REQUIRE(gst_buffer_map(b, &map, GST_MAP_READ));
	CHECK_EQ(map.size, info.width * info.height * info.channels * p->opts.dtype.bits / 8);
	CHECK(!memcmp(map.data, values, map.size));
	gst_buffer_unmap(b, &map);
	check_metas(b, &info, map.size);
out:
	free(values);
	gst_sample_unref(sample);
	gst_sample_unref(tensor);
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
		      "caps=video/x-raw,format=I420,width=160,height=90", "rule=longest longest=50");
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
		{ "name=e", "width and height", STREAM },
		{ "width=8 height=8 crop=300,0,100,10", "crop", STREAM },
		{ "width=8 height=8 std=1e-30", "std", STREAM },
		{ "width=-1 height=8", "4294967295x8 pixels, 32768 a side", STREAM },
		{ "width=8 height=8 crop=\"10 10 50 50\"",
		  "crop=\"10 10 50 50\" is not 4 numbers with commas", LIBRARY },
		{ "width=8 height=8 crop=1,2,3", "crop=\"1,2,3\" is not 4 numbers", LIBRARY },
		{ "width=8 height=8 mean=foo", "mean=\"foo\" is not 1 number, or 3", LIBRARY },
		{ "width=8 height=8 pad-colour=a pad-colour=1,2", "pad-colour=\"1,2\"", LIBRARY },
		{ "width=8 height=8 quant-scale=2", "for the types uint8 and int8", LIBRARY },
		{ "width=8 height=8 type=float16 zero-point=1", "for the types", LIBRARY },
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

/* The pipeline of examples/README.md, as it is printed there. */
TEST(prepare_as_printed)
{
	FILE *page = fopen("examples/README.md", "r");
	char line[256] = "", *path, folder[512] = "";
	struct stat st;

	REQUIRE(page && readlink("/proc/self/exe", folder, sizeof(folder) - 64) > 0);
	while (strncmp(line, "gst-launch-1.0 ", 15) && fgets(line, sizeof(line), page))
		;
	fclose(page);
	strcpy(strrchr(folder, '/'), "/gstreamer-1.0");
	setenv("GST_PLUGIN_PATH", folder, 1);
	CHECK_OK(system(line));
	path = strstr(line, "location=");
	REQUIRE(path);
	path[strcspn(path, "\n")] = 0;
	CHECK_OK(stat(path + strlen("location="), &st));
	CHECK_EQ(st.st_size, 3 * 640 * 640 * 4);
}

/* Who is killed with a camera's buffers in its hands leaves nothing behind. */
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
