// SPDX-License-Identifier: MIT
/*
 * dlbufprepare: a GStreamer element that makes a model's input of each picture, by
 * dlbuf/prepare.h. docs/gstreamer.md describes it.
 *
 * Pictures in dma-bufs are read where they are; the lease of the frame is a reference to the
 * GstBuffer until then. Other memory is mapped, plane by plane. All work is done on the
 * streaming thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

#include <gst/base/gstbasetransform.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/gstreamer.h>

#include "pool.h"

#define PACKAGE "dlbuf"
#define TRANSFORM_META "DlbufPrepareMeta"

GST_DEBUG_CATEGORY_STATIC(debug);
#define GST_CAT_DEFAULT debug

/*
 * GstTensorMeta of GStreamer 1.26 or newer, by its ABI: the package of its headers depends on
 * those of many codecs, and a plugin built with 1.22 finds it on a newer system. All NULL: it
 * is absent.
 */
static struct {
	void *(*add)(GstBuffer *buffer);
	void (*set)(void *meta, guint n, void **tensors);
	void *(*tensor)(GQuark id, int type, GstBuffer *data, int order, gsize n, gsize *dims);
} analytics;

#define ROW_MAJOR 0

/* The dtypes of a plan: NNStreamer's name, GstTensorDataType. */
static const struct {
	DLDataType dtype;
	const char *name;
	int type;
} types[] = {
	{ { kDLFloat, 32, 1 }, "float32", 11 },
	{ { kDLFloat, 16, 1 }, "float16", 10 },
	{ { kDLBfloat, 16, 1 }, "bfloat16", 13 },
	{ { kDLUInt, 8, 1 }, "uint8", 6 },
	{ { kDLInt, 8, 1 }, "int8", 1 },
};

/* The values of the properties. */
struct options {
	struct dlbuf_prepare_opts opts;
	gint rule, fit, cut, filter, channels, layout, type;
	guint64 timeout;
	gchar *tensor_id, *device;
};

struct prepare {
	GstBaseTransform parent;
	struct options set;		/* the object's lock */
	gboolean is_started;		/* likewise: set does not change */
	/* Used by the streaming thread, from start() to stop(). */
	struct options used;
	struct dlbuf_device *cpu;
	/* Prepares: the CPU, or another device, which reads and writes dma-bufs only. */
	struct dlbuf_device *dev;
	/* device=auto has chosen, for pictures of these caps. */
	gboolean is_chosen;
	GstBufferPool *pool;		/* of the other device; NULL until a picture needs it */
	/*
	 * From the tags of the file (0) and of the stream (1). The stream's counts if it has_one.
	 */
	enum dlbuf_orientation orientations[2];
	gboolean has_one;
	struct dlbuf_gstreamer_format format;
	struct dlbuf_format_info layout;
	struct dlbuf_frame kind;	/* frame of the plan: only its description is used */
	struct dlbuf_device *plan_dev;	/* peeked */
	struct dlbuf_prepare *plan;
	struct dlbuf_prepare_info info;
	int64_t shape[4], strides[4];
	gsize bytes;
	gboolean is_picture;		/* the output is video/x-raw, and no tensor */
};

typedef struct {
	GstBaseTransformClass parent;
} DlbufPrepareClass;
typedef struct prepare DlbufPrepare;

static GType element_get_type(void);
G_DEFINE_TYPE(DlbufPrepare, element, GST_TYPE_BASE_TRANSFORM)

/* ---------------------------------------------------------------- properties */

static const GEnumValue rules[] = {
	{ DLBUF_SIZE_EXACT, "width x height, as fit says", "exact" },
	{ DLBUF_SIZE_SHORTEST, "The shorter side becomes shortest", "shortest" },
	{ DLBUF_SIZE_LONGEST, "The longer side becomes longest", "longest" },
	{ DLBUF_SIZE_BOTH, "shortest, or longest if the longer side would be more", "both" },
	{ DLBUF_SIZE_PIXELS, "min-pixels to max-pixels, sides a multiple", "pixels" },
	{ DLBUF_SIZE_SCALED, "scaled-width x scaled-height", "scaled" },
	{ 0, NULL, NULL },
};
static const GEnumValue fits[] = {
	{ DLBUF_FIT_STRETCH, "The aspect may change", "stretch" },
	{ DLBUF_FIT_LETTERBOX, "All of the picture, with bars", "letterbox" },
	{ DLBUF_FIT_CROP, "The centre of the picture", "crop" },
	{ 0, NULL, NULL },
};
static const GEnumValue cuts[] = {
	{ 0, "Rounded down", "floor" },
	{ DLBUF_PREPARE_CUT_ROUND, "Rounded half to even, as torchvision's", "round" },
	{ 0, NULL, NULL },
};
static const GEnumValue filters[] = {
	{ DLBUF_FILTER_BILINEAR, "OpenCV's INTER_LINEAR, YOLO", "bilinear" },
	{ DLBUF_FILTER_NEAREST, "The sample that has the position", "nearest" },
	{ DLBUF_FILTER_AREA, "OpenCV's INTER_AREA", "area" },
	{ DLBUF_FILTER_TRIANGLE, "Pillow's BILINEAR", "triangle" },
	{ DLBUF_FILTER_CUBIC, "Pillow's BICUBIC", "cubic" },
	{ DLBUF_FILTER_LANCZOS3, "Pillow's LANCZOS", "lanczos3" },
	{ 0, NULL, NULL },
};
static const GEnumValue orders[] = {
	{ DLBUF_CHANNELS_RGB, "Red, green, blue", "rgb" },
	{ DLBUF_CHANNELS_BGR, "Blue, green, red", "bgr" },
	{ DLBUF_CHANNELS_GREY, "Luma", "grey" },
	{ 0, NULL, NULL },
};
static const GEnumValue layouts[] = {
	{ 0, "[1, C, H, W]", "nchw" },
	{ DLBUF_PREPARE_NHWC, "[1, H, W, C]", "nhwc" },
	{ 0, NULL, NULL },
};
static const GEnumValue dtypes[] = {
	{ 0, "32-bit float", "float32" },
	{ 1, "16-bit float", "float16" },
	{ 2, "Brain float", "bfloat16" },
	{ 3, "Unsigned byte", "uint8" },
	{ 4, "Signed byte", "int8" },
	{ 0, NULL, NULL },
};

/*
 * The position of a property in struct options; `n` is the count of numbers of a LIST, or a
 * flag's bit.
 */
enum kind { UINT, UINT64, INT, DOUBLE, LIST, FLAG, ENUM, STRING };
#define AT(field) offsetof(struct options, field)
static const struct property {
	const char *name, *blurb;
	enum kind kind;
	size_t at;
	guint n;
	const char *word;		/* an ENUM's name, a STRING's default */
	const GEnumValue *values;
} properties[] = {
	{ "width", "Width of the tensor, in pixels", UINT, AT(opts.width) },
	{ "height", "Height of the tensor, in pixels", UINT, AT(opts.height) },
	{ "rule", "Size of the scaled picture", ENUM, AT(rule), 0, "DlbufPrepareRule", rules },
	{ "shortest", "Shorter side for rule", UINT, AT(opts.shortest) },
	{ "longest", "Longer side for rule", UINT, AT(opts.longest) },
	{ "min-pixels", "Fewest pixels for rule=pixels (0: no limit)", UINT64,
	  AT(opts.min_pixels) },
	{ "max-pixels", "Most pixels for rule=pixels (0: no limit)", UINT64,
	  AT(opts.max_pixels) },
	{ "multiple", "Both sides are multiples, for rule=pixels (0: 1)", UINT,
	  AT(opts.multiple) },
	{ "scaled-width", "Width of the scaled picture for rule=scaled", UINT,
	  AT(opts.scaled_width) },
	{ "scaled-height", "Height of the scaled picture for rule=scaled", UINT,
	  AT(opts.scaled_height) },
	{ "fit", "Place of the picture in width x height", ENUM, AT(fit), 0, "DlbufPrepareFit",
	  fits },
	{ "crop-pct", "Part of the scaled picture that fit=crop keeps (0: 1)", DOUBLE,
	  AT(opts.crop_pct) },
	{ "cut", "Where the cut of a larger picture begins", ENUM, AT(cut), 0, "DlbufPrepareCut",
	  cuts },
	{ "top-left", "fit=letterbox: all bars right and below", FLAG, AT(opts.flags),
	  DLBUF_PREPARE_TOP_LEFT },
	{ "no-enlarge", "fit=letterbox: never larger than it is", FLAG, AT(opts.flags),
	  DLBUF_PREPARE_NO_ENLARGE },
	{ "crop", "Part of the picture: \"x,y,width,height\" in pixels, with fractions", LIST,
	  AT(opts.crop_x), 4 },
	{ "turn", "Quarter turns clockwise, 0 to 3", UINT, AT(opts.turn) },
	{ "flip-x", "Exchange left and right, after the turn", FLAG, AT(opts.flags),
	  DLBUF_PREPARE_FLIP_X },
	{ "flip-y", "Exchange top and bottom, after the turn", FLAG, AT(opts.flags),
	  DLBUF_PREPARE_FLIP_Y },
	{ "filter", "Weights of the samples", ENUM, AT(filter), 0, "DlbufPrepareFilter", filters },
	{ "channels", "Channels of the tensor", ENUM, AT(channels), 0, "DlbufPrepareChannels",
	  orders },
	{ "layout", "Dimensions of the tensor", ENUM, AT(layout), 0, "DlbufPrepareLayout",
	  layouts },
	{ "type", "Type of the values", ENUM, AT(type), 0, "DlbufPrepareType", dtypes },
	{ "pad-colour", "Colour of the bars, 0 to 255: one number, or \"r,g,b\" in the order of "
	  "the channels", LIST, AT(opts.pad), 3 },
	{ "scale", "A value of 0 to 255 becomes (v * scale - mean) / std (0: 1/255 for floats, 1 "
	  "for integers)", DOUBLE, AT(opts.scale) },
	{ "mean", "One number, or one per channel: \"0.485,0.456,0.406\"", LIST, AT(opts.mean), 3 },
	{ "std", "One number, or one per channel (0: 1)", LIST, AT(opts.std), 3 },
	{ "quant-scale", "uint8 and int8: the value is divided by it (0: 1)", DOUBLE,
	  AT(opts.quant_scale) },
	{ "zero-point", "uint8 and int8: added to the value", INT, AT(opts.zero_point) },
	{ "exact", "Bytes on the CPU are within half a unit of the definition, not two thirds", FLAG,
	  AT(opts.flags), DLBUF_PREPARE_EXACT },
	{ "threads", "Threads that share the rows of a picture (0: 1), 64 at most", UINT,
	  AT(opts.threads) },
	{ "timeout", "Longest wait for a picture in a dma-buf to be complete, in nanoseconds "
	  "(0: no limit)", UINT64, AT(timeout) },
	{ "tensor-id", "id of the tensor in GstTensorMeta (GStreamer 1.26): the model's name of "
	  "its input", STRING, AT(tensor_id), 0, "input" },
	{ "device", "Device that prepares pictures in dma-bufs: \"cpu\", \"gles:0\"; \"auto\" is "
	  "the fastest. The output is memory of the CPU", STRING, AT(device), 0, "cpu" },
};

/* The library's error text: its options have '_' where the properties have '-'. */
static gchar *sentence(void)
{
	GString *said = g_string_new(dlbuf_last_error());

	for (guint i = 0; i < G_N_ELEMENTS(properties); i++) {
		gchar *option = g_strdelimit(g_strdup(properties[i].name), "-", '_');

		g_string_replace(said, option, properties[i].name, 0);
		g_free(option);
	}
	return g_string_free(said, FALSE);
}

#define FAIL(self, domain, code) do {						\
	gchar *said_ = sentence();						\
	GST_ELEMENT_ERROR(self, domain, code, ("%s", said_), (NULL));		\
	g_free(said_);								\
} while (0)

/* "1,2,3"; one number is used for all, except in a crop. NULL: all 0. */
static gboolean parse(const char *text, double *numbers, guint n)
{
	double parsed[4] = { 0 };
	const char *p = text ? text : "";
	gchar *end;
	guint i;

	/* g_ascii_strtod() also reads hexadecimal numbers. */
	if (text && (!*text || strpbrk(text, "xX")))
		return FALSE;
	for (i = 0; i < n && *p; i++) {
		parsed[i] = g_ascii_strtod(p, &end);
		if (end == p || (*end && (*end != ',' || !end[1])))
			return FALSE;
		p = *end ? end + 1 : end;
	}
	if (*p || (i && i < n && (i > 1 || n == 4)))
		return FALSE;
	for (guint j = 0; j < n; j++)
		numbers[j] = i == 1 ? parsed[0] : parsed[j];
	return TRUE;
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
	const struct property *p = &properties[id - 1];
	DlbufPrepare *self = (DlbufPrepare *)object;
	void *at = (char *)&self->set + p->at;
	gboolean is_good;

	GST_OBJECT_LOCK(self);
	if (self->is_started) {
		GST_OBJECT_UNLOCK(self);
		GST_WARNING_OBJECT(self, "%s is not changed: it can be set in NULL and READY",
				   p->name);
		return;
	}
	switch (p->kind) {
	case UINT: *(guint *)at = g_value_get_uint(value); break;
	case UINT64: *(guint64 *)at = g_value_get_uint64(value); break;
	case INT: *(gint *)at = g_value_get_int(value); break;
	case DOUBLE: *(double *)at = g_value_get_double(value); break;
	case ENUM: *(gint *)at = g_value_get_enum(value); break;
	case FLAG:
		*(guint32 *)at &= ~p->n;
		*(guint32 *)at |= g_value_get_boolean(value) ? p->n : 0;
		break;
	case LIST:
		/* A property cannot fail: start() does. */
		is_good = parse(g_value_get_string(value), at, p->n);
		g_object_set_data_full(object, p->name, is_good ? NULL :
				       g_value_dup_string(value), g_free);
		break;
	case STRING:
		g_free(*(gchar **)at);
		*(gchar **)at = g_value_dup_string(value);
		break;
	}
	GST_OBJECT_UNLOCK(self);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
	const struct property *p = &properties[id - 1];
	DlbufPrepare *self = (DlbufPrepare *)object;
	const void *at = (const char *)&self->set + p->at;
	GString *text;

	GST_OBJECT_LOCK(self);
	switch (p->kind) {
	case UINT: g_value_set_uint(value, *(const guint *)at); break;
	case UINT64: g_value_set_uint64(value, *(const guint64 *)at); break;
	case INT: g_value_set_int(value, *(const gint *)at); break;
	case DOUBLE: g_value_set_double(value, *(const double *)at); break;
	case ENUM: g_value_set_enum(value, *(const gint *)at); break;
	case FLAG: g_value_set_boolean(value, !!(*(const guint32 *)at & p->n)); break;
	case STRING: g_value_set_string(value, *(gchar *const *)at); break;
	case LIST:
		text = g_string_new(NULL);
		for (guint i = 0; i < p->n; i++) {
			char number[G_ASCII_DTOSTR_BUF_SIZE];

			g_string_append_printf(text, "%s%s", i ? "," : "", g_ascii_dtostr(
				number, sizeof(number), ((const double *)at)[i]));
		}
		g_value_take_string(value, g_string_free(text, FALSE));
		break;
	}
	GST_OBJECT_UNLOCK(self);
}

static GParamSpec *spec_of(const struct property *p)
{
	const GParamFlags flags = (GParamFlags)(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
						GST_PARAM_MUTABLE_READY);
	const char *n = p->name, *b = p->blurb;
	GType type;

	switch (p->kind) {
	case UINT: return g_param_spec_uint(n, n, b, 0, G_MAXUINT, 0, flags);
	case UINT64: return g_param_spec_uint64(n, n, b, 0, G_MAXUINT64, 0, flags);
	case INT: return g_param_spec_int(n, n, b, G_MININT, G_MAXINT, 0, flags);
	case DOUBLE: return g_param_spec_double(n, n, b, -G_MAXDOUBLE, G_MAXDOUBLE, 0, flags);
	case FLAG: return g_param_spec_boolean(n, n, b, FALSE, flags);
	case LIST: return g_param_spec_string(n, n, b, p->n == 4 ? "0,0,0,0" : "0,0,0", flags);
	case STRING: return g_param_spec_string(n, n, b, p->word, flags);
	case ENUM: break;
	}
	type = g_enum_register_static(p->word, p->values);
	gst_type_mark_as_plugin_api(type, 0);
	return g_param_spec_enum(n, n, b, type, 0, flags);
}

/* ---------------------------------------------------------------- caps */

struct lists {
	GValue raw, bayer, drm;
};

/* Whether the library can prepare a square of this format. The check is that of a plan. */
static int plans(uint32_t code, enum dlbuf_code_space space, const struct dlbuf_prepare_opts *opts)
{
	struct dlbuf_frame frame = { .size = sizeof(frame), .width = 16, .height = 16,
		.code = code, .code_space = space };
	struct dlbuf_prepare_opts o = *opts;
	struct dlbuf_prepare *plan;
	int ret;

	if (o.crop_x >= 0 && o.crop_y >= 0 && o.crop_width >= 0 && o.crop_height >= 0)
		o.crop_x = o.crop_y = o.crop_width = o.crop_height = 0;
	ret = dlbuf_prepare_create(NULL, &frame, &o, &plan);
	if (!ret)
		dlbuf_prepare_destroy(plan);
	return ret;
}

static gboolean is_prepared(uint32_t code, enum dlbuf_code_space space)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 16, .height = 16);

	return !plans(code, space, &opts);
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

/*
 * Linear pictures. Caps of memory:DMABuf without a modifier, as before GStreamer 1.24, are not
 * among them, because the layout of the picture is unknown.
 */
static GstCaps *sink_caps(void)
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

/* Finds the caps of the outputs that pictures of these caps can become. */
static void append_results(DlbufPrepare *self, const GstStructure *in, GstCaps *caps)
{
	const GValue *rate = gst_structure_get_value(in, "framerate");
	GstStructure *s = gst_structure_from_string(TENSORS, NULL), *picture = NULL;

	GST_OBJECT_LOCK(self);
	gst_structure_set(s, "types", G_TYPE_STRING, types[self->set.type].name, NULL);
	if (self->set.layout && types[self->set.type].dtype.code == kDLUInt)
		picture = gst_structure_new("video/x-raw", "format", G_TYPE_STRING,
					    pictures[self->set.channels], NULL);
	GST_OBJECT_UNLOCK(self);
	if (rate)
		gst_structure_set_value(s, "framerate", rate);
	if (rate && picture)
		gst_structure_set_value(picture, "framerate", rate);
	gst_caps_append_structure(caps, s);
	if (picture)
		gst_caps_append_structure(caps, picture);
}

static GstCaps *transform_caps(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps,
			       GstCaps *filter)
{
	GstCaps *result, *both;

	if (direction == GST_PAD_SRC) {
		result = gst_pad_get_pad_template_caps(trans->sinkpad);
	} else {
		result = gst_caps_new_empty();
		for (guint i = 0; i < gst_caps_get_size(caps); i++)
			append_results((DlbufPrepare *)trans, gst_caps_get_structure(caps, i),
				       result);
		result = gst_caps_simplify(result);
	}
	if (!filter)
		return result;
	both = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
	gst_caps_unref(result);
	return both;
}

static gboolean is_auto(const DlbufPrepare *self)
{
	return !g_strcmp0(self->used.device, "auto");
}

/* Takes dev, and drops the plan of the device before. A second device of the CPU is closed. */
static void use_device(DlbufPrepare *self, struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_info, info);

	shared_pool_drop(&self->pool);
	self->is_chosen = FALSE;
	if (self->dev != self->cpu) {
		dlbuf_prepare_destroy(self->plan);
		self->plan = NULL;
		dlbuf_device_close(self->dev);
		self->dev = self->cpu;
	}
	if (dev == self->cpu || dlbuf_device_get_info(dev, &info))
		return;
	GST_INFO_OBJECT(self, "%s prepares pictures in dma-bufs", info.name);
	if (!strcmp(info.backend, "cpu"))
		dlbuf_device_close(dev);
	else
		self->dev = dev;
}

static gboolean is_same_kind(const struct dlbuf_frame *a, const struct dlbuf_frame *b)
{
	return a->width == b->width && a->height == b->height && a->code == b->code &&
		a->orientation == b->orientation && a->code_space == b->code_space &&
		a->modifier == b->modifier &&
		!memcmp(&a->crop, &b->crop, sizeof(a->crop)) &&
		!memcmp(&a->colour, &b->colour, sizeof(a->colour));
}

/* Makes a plan for such frames, unless it exists, and the shape and size of its tensor. */
static int make_plan(DlbufPrepare *self, struct dlbuf_device *dev, const struct dlbuf_frame *frame)
{
	const struct options *o = &self->used;
	struct dlbuf_prepare *plan;
	uint32_t c, h, w;
	int ret;

	if (self->plan && self->plan_dev == dev && is_same_kind(frame, &self->kind))
		return 0;
	ret = dlbuf_prepare_create(dev, frame, &o->opts, &plan);
	if (ret)
		return ret;
	dlbuf_prepare_destroy(self->plan);
	self->plan = plan;
	self->plan_dev = dev;
	self->kind = *frame;
	self->info = (struct dlbuf_prepare_info){ .size = sizeof(self->info) };
	dlbuf_prepare_get_info(plan, &self->info);
	GST_DEBUG_OBJECT(self, "a plan: %gx%g pixels at %g,%g become %ux%u at %d,%d",
			 self->info.crop_width, self->info.crop_height, self->info.crop_x,
			 self->info.crop_y, self->info.scaled_width, self->info.scaled_height,
			 self->info.left, self->info.top);
	c = self->info.channels;
	h = self->info.height;
	w = self->info.width;
	self->shape[0] = 1;
	self->shape[1] = o->layout ? h : c;
	self->shape[2] = o->layout ? w : h;
	self->shape[3] = o->layout ? c : w;
	return 0;
}

/* The same for a picture, whose size and crop can differ from the caps. */
static int keep_plan(DlbufPrepare *self, struct dlbuf_device *dev, const struct dlbuf_frame *frame)
{
	int64_t h = self->shape[2], w = self->shape[3], first = self->shape[1];
	int ret = make_plan(self, dev, frame);

	if (!ret && (first != self->shape[1] || h != self->shape[2] || w != self->shape[3]))
		return dlbuf_fail(-EINVAL, "a %s of %ux%u pixels needs a tensor of another size "
				  "than the picture of the caps",
				  frame->crop.width ? "crop" : "picture",
				  frame->crop.width ? frame->crop.width : frame->width,
				  frame->crop.width ? frame->crop.height : frame->height);
	return ret;
}

/* A frame as caps describe it, without planes. */
static struct dlbuf_frame frame_of(const struct dlbuf_gstreamer_format *f)
{
	return (struct dlbuf_frame){ .size = sizeof(struct dlbuf_frame),
		.width = GST_VIDEO_INFO_WIDTH(&f->info),
		.height = GST_VIDEO_INFO_FIELD_HEIGHT(&f->info), .code = f->code,
		.code_space = f->code_space, .modifier = f->modifier,
		.orientation = f->orientation, .colour = dlbuf_gstreamer_colour_(&f->info) };
}

static int plan_of_caps(DlbufPrepare *self, const GstCaps *caps)
{
	struct dlbuf_gstreamer_format format;
	struct dlbuf_frame frame;
	int ret = dlbuf_gstreamer_caps(caps, &format);

	if (ret)
		return ret;
	format.orientation = self->orientations[self->has_one];
	frame = frame_of(&format);
	/* device=auto chooses when the first picture in a dma-buf is there. */
	ret = make_plan(self, is_auto(self) ? self->cpu : self->dev, &frame);
	if (ret)
		return ret;
	self->format = format;
	self->layout = (struct dlbuf_format_info){ .size = sizeof(self->layout) };
	return dlbuf_format_find(format.code, format.modifier, format.code_space, &self->layout);
}

/* The colours of a picture are the input's, as R, G and B or luma of full range. */
static void describe_picture(const DlbufPrepare *self, GstStructure *s)
{
	const struct options *o = &self->used;
	const struct dlbuf_prepare_info *i = &self->info;
	const GstVideoInfo *info = &self->format.info;
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
	gst_structure_set(s, "width", G_TYPE_INT, (int)self->shape[2], "height", G_TYPE_INT,
			  (int)self->shape[1], "interlace-mode", G_TYPE_STRING, "progressive",
			  "colorimetry", G_TYPE_STRING, colour, "pixel-aspect-ratio",
			  GST_TYPE_FRACTION, n, d, NULL);
	g_free(colour);
}

/* The caps have all known values, so that the next element adds no wrong ones. */
static GstCaps *fixate_caps(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps,
			    GstCaps *other)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	GstCaps *all, *peer, *result = NULL;
	gchar *dimensions, *peer_text, *text;

	if (direction != GST_PAD_SINK || !self->cpu || !gst_caps_is_fixed(caps))
		return gst_caps_fixate(other);
	gst_caps_unref(other);
	if (plan_of_caps(self, caps)) {
		FAIL(self, STREAM, FORMAT);
		return gst_caps_new_empty();
	}
	/* Innermost first, as NNStreamer has them. */
	dimensions = g_strdup_printf("%d:%d:%d:1", (int)self->shape[3], (int)self->shape[2],
				     (int)self->shape[1]);
	all = transform_caps(trans, direction, caps, NULL);
	for (guint i = 0; i < gst_caps_get_size(all); i++) {
		GstStructure *s = gst_caps_get_structure(all, i);

		if (gst_structure_has_name(s, "video/x-raw"))
			describe_picture(self, s);
		else
			gst_structure_set(s, "dimensions", G_TYPE_STRING, dimensions, NULL);
		if (!gst_structure_has_field(s, "framerate"))
			gst_structure_set(s, "framerate", GST_TYPE_FRACTION, 0, 1, NULL);
	}
	g_free(dimensions);
	/* In the next element's order; after a capsfilter `other` does not have that order. */
	peer = gst_pad_peer_query_caps(trans->srcpad, NULL);
	if (gst_caps_is_any(peer))
		result = gst_caps_copy_nth(all, 0);
	for (guint p = 0; p < gst_caps_get_size(peer) && !result; p++) {
		GstCaps *one = gst_caps_copy_nth(peer, p);

		/* NNStreamer compares them by itself: "3:2:2" is "3:2:2:1". */
		gst_structure_remove_field(gst_caps_get_structure(one, 0), "dimensions");
		for (guint i = 0; i < gst_caps_get_size(all) && !result; i++) {
			result = gst_caps_copy_nth(all, i);
			if (!gst_caps_is_subset(result, one))
				gst_clear_caps(&result);
		}
		gst_caps_unref(one);
	}
	if (!result) {
		text = gst_caps_to_string(all);
		peer_text = gst_caps_to_string(peer);
		GST_ELEMENT_ERROR(self, CORE, NEGOTIATION, ("the output has the caps %s, the next "
				  "element takes %s", text, peer_text), (NULL));
		g_free(text);
		g_free(peer_text);
		result = gst_caps_new_empty();
	}
	gst_caps_unref(peer);
	gst_caps_unref(all);
	return result;
}

static gboolean set_caps(GstBaseTransform *trans, GstCaps *in, GstCaps *out)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	int64_t step;
	int i;

	/* Drops imports of the old buffers, which keep their memory. */
	dlbuf_device_trim(self->cpu, 0);
	dlbuf_device_trim(self->dev, 0);
	if (is_auto(self))
		use_device(self, self->cpu);
	else
		shared_pool_drop(&self->pool);
	if (plan_of_caps(self, in)) {
		FAIL(self, STREAM, FORMAT);
		return FALSE;
	}
	self->is_picture = gst_structure_has_name(gst_caps_get_structure(out, 0), "video/x-raw");
	for (i = 3, step = 1; i >= 0; step *= self->shape[i--]) {
		/* GStreamer's pictures have rows of whole words. */
		if (self->is_picture && i == 1)
			step = GST_ROUND_UP_4(step);
		self->strides[i] = step;
	}
	self->bytes = (gsize)step * types[self->used.type].dtype.bits / 8;
	return TRUE;
}

/*
 * The tag image-orientation, which comes after the caps. The output is upright, and its tag
 * is rotate-0. A plan for it, and caps of another size, are made when the next picture
 * comes.
 */
static gboolean sink_event(GstBaseTransform *trans, GstEvent *event)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	enum dlbuf_orientation orientation, before = self->orientations[self->has_one];
	guint32 seqnum = gst_event_get_seqnum(event);
	GstTagList *tags;
	gboolean is_streams;

	if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START) {
		memset(self->orientations, 0, sizeof(self->orientations));
		self->has_one = FALSE;
	} else if (GST_EVENT_TYPE(event) == GST_EVENT_TAG) {
		gst_event_parse_tag(event, &tags);
		if (dlbuf_gstreamer_tag_(tags, &orientation)) {
			is_streams = gst_tag_list_get_scope(tags) == GST_TAG_SCOPE_STREAM;
			self->orientations[is_streams] = orientation;
			self->has_one |= is_streams;
			tags = gst_tag_list_copy(tags);
			gst_tag_list_add(tags, GST_TAG_MERGE_REPLACE, GST_TAG_IMAGE_ORIENTATION,
					 "rotate-0", NULL);
			gst_event_unref(event);
			event = gst_event_new_tag(tags);
			gst_event_set_seqnum(event, seqnum);
		}
	}
	if (self->orientations[self->has_one] != before)
		gst_base_transform_reconfigure_src(trans);
	return GST_BASE_TRANSFORM_CLASS(element_parent_class)->sink_event(trans, event);
}

/* ---------------------------------------------------------------- buffers */

static gboolean propose_allocation(GstBaseTransform *trans, GstQuery *decided, GstQuery *query)
{
	return !dlbuf_gstreamer_allocation(query);
}

/* A pool of buffers of the tensor's size. */
static gboolean decide_allocation(GstBaseTransform *trans, GstQuery *query)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	GstAllocationParams params;
	GstBufferPool *pool;
	GstStructure *config;
	GstCaps *caps;

	gst_query_parse_allocation(query, &caps, NULL);
	gst_allocation_params_init(&params);
	params.align = 63;
	pool = gst_buffer_pool_new();
	config = gst_buffer_pool_get_config(pool);
	gst_buffer_pool_config_set_params(config, caps, (guint)self->bytes, 0, 0);
	gst_buffer_pool_config_set_allocator(config, NULL, &params);
	if (self->bytes > G_MAXUINT || !gst_buffer_pool_set_config(pool, config)) {
		gst_object_unref(pool);
		return FALSE;
	}
	while (gst_query_get_n_allocation_pools(query))
		gst_query_remove_nth_allocation_pool(query, 0);
	gst_query_add_allocation_pool(query, pool, (guint)self->bytes, 0, 0);
	gst_object_unref(pool);
	return TRUE;
}

static gboolean transform_size(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps,
			       gsize size, GstCaps *other, gsize *other_size)
{
	*other_size = ((DlbufPrepare *)trans)->bytes;
	return direction == GST_PAD_SINK;
}

static void nothing(DLManagedTensorVersioned *self)
{
}

/* A tensor of borrowed memory, for one call. strides may be NULL. */
static DLManagedTensorVersioned wrap(void *data, DLDataType dtype, int ndim, int64_t *shape,
				     int64_t *strides)
{
	return (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, .deleter = nothing,
		.dl_tensor = { .data = data, .device = { kDLCPU, 0 }, .ndim = ndim,
			.dtype = dtype, .shape = shape, .strides = strides } };
}

/* CLOCK_MONOTONIC nanoseconds; 0: none. */
static uint64_t deadline_of(const DlbufPrepare *self)
{
	struct timespec now;
	uint64_t ns;

	if (!self->used.timeout)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * GST_SECOND + (uint64_t)now.tv_nsec;
	return self->used.timeout > UINT64_MAX - ns ? 0 : ns + self->used.timeout;
}

static int prepare_frame(DlbufPrepare *self, struct dlbuf_device *dev, GstBuffer *in,
			 uint64_t deadline, DLManagedTensorVersioned *out)
{
	DLBUF_OPTS(dlbuf_prepare_run_opts, opts);
	struct dlbuf_frame frame;
	int ret = dlbuf_gstreamer_frame(in, &self->format, &frame);

	if (ret)
		return ret;
	opts.deadline_ns = deadline;
	ret = keep_plan(self, dev, &frame);
	if (!ret)
		ret = dlbuf_prepare_frame(self->plan, &frame, &opts, out);
	if (ret)
		dlbuf_frame_drop(&frame);
	return ret;
}

static void log_trial(const struct dlbuf_prepare_trial *trial, void *self)
{
	if (trial->status)
		GST_INFO_OBJECT(self, "%s is excluded: %s", trial->name, trial->reason);
	else
		GST_INFO_OBJECT(self, "%s takes %.3f ms", trial->name, (double)trial->ns / 1e6);
}

static int choose_device(DlbufPrepare *self, GstBuffer *in)
{
	struct dlbuf_device *dev;
	struct dlbuf_frame frame;
	int ret = dlbuf_gstreamer_frame(in, &self->format, &frame);

	if (ret)
		return ret;
	ret = dlbuf_prepare_fastest(&frame, &self->used.opts, deadline_of(self), log_trial, self,
				    &dev);
	dlbuf_frame_drop(&frame);
	if (ret)
		return ret;
	use_device(self, dev);
	self->is_chosen = TRUE;
	return 0;
}

static gboolean is_dmabuf(GstBuffer *buffer)
{
	return gst_buffer_n_memory(buffer) &&
		gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0));
}

/* The other device's pool, unless there is one; NULL after a failure. */
static void make_pool(DlbufPrepare *self)
{
	struct shared_kind kind = {
		.dev = self->dev, .cpu = self->cpu, .bytes = self->bytes,
		.dtype = types[self->used.type].dtype,
	};

	if (self->pool)
		return;
	memcpy(kind.shape, self->shape, sizeof(kind.shape));
	memcpy(kind.strides, self->strides, sizeof(kind.strides));
	self->pool = shared_pool_new(&kind);
}

/* The CPU writes to buffers of the usual pool, another device to dma-bufs. */
static GstFlowReturn prepare_output_buffer(GstBaseTransform *trans, GstBuffer *in, GstBuffer **out)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	gboolean is_empty = !gst_buffer_get_size(in);

	if (!is_empty && is_auto(self) && !self->is_chosen && is_dmabuf(in) &&
	    choose_device(self, in)) {
		FAIL(self, STREAM, FAILED);
		return GST_FLOW_ERROR;
	}
	if (is_empty || self->dev == self->cpu || (is_auto(self) && !is_dmabuf(in)))
		return GST_BASE_TRANSFORM_CLASS(element_parent_class)->prepare_output_buffer(
			trans, in, out);
	if (!is_dmabuf(in)) {
		GST_ELEMENT_ERROR(self, STREAM, FAILED, ("device=%s reads dma-bufs, and the picture is "
				  "in other memory: v4l2src io-mode=dmabuf makes dma-bufs, device=cpu and "
				  "device=auto read both", self->used.device), (NULL));
		return GST_FLOW_ERROR;
	}
	make_pool(self);
	if (!self->pool || gst_buffer_pool_acquire_buffer(self->pool, out, NULL) != GST_FLOW_OK) {
		FAIL(self, RESOURCE, NO_SPACE_LEFT);
		return GST_FLOW_ERROR;
	}
	GST_BASE_TRANSFORM_GET_CLASS(trans)->copy_metadata(trans, in, *out);
	return GST_FLOW_OK;
}

/* GStreamer's own mapping would only log a warning about such a buffer. */
static int check_meta(const DlbufPrepare *self, GstBuffer *in)
{
	const GstVideoMeta *meta = gst_buffer_get_video_meta(in);
	const GstVideoInfo *info = &self->format.info;

	/* GStreamer has no format for a mosaic: its meta may be of any, and without planes. */
	if (!meta || (self->format.is_bayer && !meta->n_planes) ||
	    ((self->format.is_bayer || meta->format == GST_VIDEO_INFO_FORMAT(info)) &&
	     meta->n_planes == GST_VIDEO_INFO_N_PLANES(info) &&
	     meta->width >= (guint)GST_VIDEO_INFO_WIDTH(info) &&
	     meta->height >= (guint)GST_VIDEO_INFO_HEIGHT(info)))
		return 0;
	return dlbuf_fail(-EINVAL, "the GstVideoMeta is of %s, %ux%u pixels and %u planes, and not "
			  "as the caps", gst_video_format_to_string(meta->format), meta->width,
			  meta->height, meta->n_planes);
}

/* Maps a plane, which must be in the buffer, and finds its part in the visible picture. */
static int map_plane(DlbufPrepare *self, GstBuffer *in, const struct dlbuf_frame *frame, guint i,
		     GstMapInfo *map, int64_t shape[3], int64_t strides[3],
		     DLManagedTensorVersioned *plane)
{
	const struct dlbuf_format_plane *p = &self->layout.planes[i];
	const int value = self->layout.dtype.bits / 8, sample = p->channels * value;
	const int64_t pitch = frame->planes[i].pitch;
	const uint64_t offset = frame->planes[i].offset;
	const gsize size = gst_buffer_get_size(in);
	struct dlbuf_rect r = frame->crop;
	uint64_t row = ((uint64_t)frame->width + p->hsub - 1) / p->hsub * sample, bytes;
	guint index, n;
	gsize skip;

	if (!r.width)
		r = (struct dlbuf_rect){ 0, 0, frame->width, frame->height };
	if (pitch % value || offset % value)
		return dlbuf_fail(-EOPNOTSUPP, "plane %u: a pitch of %lld and an offset of %llu "
				  "bytes are not whole %u-bit values", i, (long long)pitch,
				  (unsigned long long)offset, p->bits);
	if (pitch < (int64_t)row)
		return dlbuf_fail(-EINVAL, "plane %u: a pitch of %lld bytes is less than the %llu "
				  "of a row", i, (long long)pitch, (unsigned long long)row);
	bytes = (dlbuf_plane_rows_(frame, &self->layout, i) - 1) * pitch + row;
	if (offset > size || bytes > size - offset ||
	    !gst_buffer_find_memory(in, offset, bytes, &index, &n, &skip))
		return dlbuf_fail(-ERANGE, "plane %u of %llu bytes begins at byte %llu, the "
				  "GstBuffer ends at %zu", i, (unsigned long long)bytes,
				  (unsigned long long)offset, (size_t)size);
	GST_LOG_OBJECT(self, "plane %u is mapped", i);
	if (n > 1)
		GST_DEBUG_OBJECT(self, "plane %u is copied: it is in %u memories", i, n);
	if (!gst_buffer_map_range(in, index, n, map, GST_MAP_READ))
		return dlbuf_fail(-EIO, "plane %u: GStreamer cannot map its memory", i);
	shape[0] = (r.height + p->vsub - 1) / p->vsub;
	shape[1] = (r.width + p->hsub - 1) / p->hsub;
	shape[2] = p->channels;
	strides[0] = pitch / value;
	strides[1] = p->channels;
	strides[2] = 1;
	*plane = wrap((char *)map->data + skip + (gssize)(r.y / p->vsub) * pitch +
		      (gssize)(r.x / p->hsub) * sample, self->layout.dtype,
		      p->channels > 1 ? 3 : 2, shape, strides);
	return 0;
}

static int prepare_planes(DlbufPrepare *self, GstBuffer *in, DLManagedTensorVersioned *out)
{
	DLManagedTensorVersioned planes[DLBUF_MAX_PLANES], *list[DLBUF_MAX_PLANES];
	int64_t shape[DLBUF_MAX_PLANES][3], strides[DLBUF_MAX_PLANES][3];
	GstMapInfo maps[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	guint n = 0;
	int ret = check_meta(self, in);

	if (!ret)
		ret = dlbuf_gstreamer_places_(in, &self->format, &frame);
	if (!ret)
		ret = keep_plan(self, self->cpu, &frame);
	while (!ret && n < self->layout.nplanes) {
		list[n] = &planes[n];
		ret = map_plane(self, in, &frame, n, &maps[n], shape[n], strides[n], &planes[n]);
		n += !ret;
	}
	if (!ret)
		ret = dlbuf_prepare_tensors(self->plan, list, n, NULL, out);
	while (n--)
		gst_buffer_unmap(in, &maps[n]);
	return ret;
}

/*
 * Adds the position of the picture, so that elements can map positions in the tensor back to it.
 */
static void add_transform(const DlbufPrepare *self, GstBuffer *out)
{
	GstCustomMeta *meta = gst_buffer_add_custom_meta(out, TRANSFORM_META);
	const struct dlbuf_prepare_info *i = &self->info;

	gst_structure_set(gst_custom_meta_get_structure(meta),
		"width", G_TYPE_UINT, i->width, "height", G_TYPE_UINT, i->height,
		"scaled-width", G_TYPE_UINT, i->scaled_width,
		"scaled-height", G_TYPE_UINT, i->scaled_height,
		"left", G_TYPE_INT, i->left, "top", G_TYPE_INT, i->top,
		"crop-x", G_TYPE_DOUBLE, i->crop_x, "crop-y", G_TYPE_DOUBLE, i->crop_y,
		"crop-width", G_TYPE_DOUBLE, i->crop_width,
		"crop-height", G_TYPE_DOUBLE, i->crop_height, "turn", G_TYPE_UINT, i->turn,
		"flip-x", G_TYPE_BOOLEAN, !!(i->flags & DLBUF_PREPARE_FLIP_X),
		"flip-y", G_TYPE_BOOLEAN, !!(i->flags & DLBUF_PREPARE_FLIP_Y), NULL);
}

/* The same memory as GStreamer's own tensor. */
static void add_tensor(const DlbufPrepare *self, GstBuffer *out)
{
	gsize dims[4] = { 1, (gsize)self->shape[1], (gsize)self->shape[2], (gsize)self->shape[3] };
	GstBuffer *data;
	void **tensors;

	if (!analytics.tensor || self->is_picture)
		return;
	data = gst_buffer_new();
	tensors = g_new(void *, 1);
	gst_buffer_append_memory(data, gst_memory_ref(gst_buffer_peek_memory(out, 0)));
	tensors[0] = analytics.tensor(
		g_quark_from_string(self->used.tensor_id ? self->used.tensor_id : ""),
		types[self->used.type].type, data, ROW_MAJOR, 4, dims);
	analytics.set(analytics.add(out), 1, tensors);
}

/* Prepares on the other device, and waits for it: elements after this one wait for no fence. */
static int transform_shared(DlbufPrepare *self, GstBuffer *in, struct shared_tensor *t)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .fence = -1, .deadline_ns = deadline_of(self));
	int ret;

	if (t->is_acquired) {
		ret = dlbuf_release(t->on_cpu, NULL, NULL);
		if (ret)
			return ret;
		t->is_acquired = FALSE;
	}
	ret = prepare_frame(self, self->dev, in, opts.deadline_ns, t->on_device);
	if (!ret)
		ret = dlbuf_acquire(t->on_cpu, DLBUF_READ | DLBUF_WRITE, NULL, &opts);
	t->is_acquired = !ret;
	return ret;
}

static int transform_mapped(DlbufPrepare *self, GstBuffer *in, GstBuffer *out)
{
	DLManagedTensorVersioned tensor;
	GstMapInfo map;
	int ret;

	if (!gst_buffer_map(out, &map, GST_MAP_WRITE))
		return dlbuf_fail(-EIO, "cannot map the tensor");
	tensor = wrap(map.data, types[self->used.type].dtype, 4, self->shape,
		      self->strides);
	/* A picture's rows end with bytes that are no values. */
	for (gssize y = 0, row = self->shape[2] * self->shape[3]; self->is_picture &&
	     y < self->shape[1]; y++)
		memset(map.data + y * self->strides[1] + row, 0, self->strides[1] - row);
	ret = is_dmabuf(in) ? prepare_frame(self, self->cpu, in, deadline_of(self), &tensor) :
			      prepare_planes(self, in, &tensor);
	gst_buffer_unmap(out, &map);
	return ret;
}

static GstFlowReturn transform(GstBaseTransform *trans, GstBuffer *in, GstBuffer *out)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	struct shared_tensor *shared = shared_tensor_of(out);

	/* An empty buffer: the camera has lost a frame. */
	if (!gst_buffer_get_size(in))
		return GST_BASE_TRANSFORM_FLOW_DROPPED;
	if (shared ? transform_shared(self, in, shared) : transform_mapped(self, in, out)) {
		FAIL(self, STREAM, FAILED);
		return GST_FLOW_ERROR;
	}
	add_transform(self, out);
	add_tensor(self, out);
	return GST_FLOW_OK;
}

/* ---------------------------------------------------------------- the element */

/*
 * Refuses values that the library would not notice (texts that are no numbers, and values that
 * it ignores), and values that it refuses for every picture. Whether a crop fits depends on the
 * picture.
 */
static int check_properties(DlbufPrepare *self)
{
	const struct dlbuf_prepare_opts *o = &self->used.opts;
	gchar *text;
	int ret;

	for (guint i = 0; i < G_N_ELEMENTS(properties); i++) {
		const struct property *p = &properties[i];

		GST_OBJECT_LOCK(self);
		text = g_strdup(g_object_get_data(G_OBJECT(self), p->name));
		GST_OBJECT_UNLOCK(self);
		if (!text)
			continue;
		ret = dlbuf_fail(-EINVAL, "%s=\"%s\" is not %s with commas between them", p->name,
				 text, p->n == 4 ? "4 numbers" : "1 number, or 3");
		g_free(text);
		return ret;
	}
	if ((o->quant_scale || o->zero_point) && o->dtype.bits != 8)
		return dlbuf_fail(-EINVAL, "quant-scale and zero-point are for the types uint8 "
				  "and int8");
	return plans(DLBUF_FOURCC('R', 'G', '2', '4'), DLBUF_CODE_DRM, o);
}

static gboolean stop(GstBaseTransform *trans)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;

	use_device(self, self->cpu);
	dlbuf_prepare_destroy(self->plan);
	self->plan = NULL;
	dlbuf_device_close(self->cpu);
	self->cpu = self->dev = NULL;
	g_clear_pointer(&self->used.tensor_id, g_free);
	g_clear_pointer(&self->used.device, g_free);
	GST_OBJECT_LOCK(self);
	self->is_started = FALSE;
	GST_OBJECT_UNLOCK(self);
	return TRUE;
}

static gboolean start(GstBaseTransform *trans)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	struct options *o = &self->used;
	struct dlbuf_device *dev;

	GST_OBJECT_LOCK(self);
	*o = self->set;
	o->tensor_id = g_strdup(self->set.tensor_id);
	o->device = g_strdup(self->set.device ? self->set.device : "cpu");
	self->is_started = TRUE;
	GST_OBJECT_UNLOCK(self);
	o->opts.rule = o->rule;
	o->opts.fit = o->fit;
	o->opts.filter = o->filter;
	o->opts.channels = o->channels;
	o->opts.dtype = types[o->type].dtype;
	o->opts.flags |= o->layout | o->cut;
	if (check_properties(self)) {
		FAIL(self, LIBRARY, SETTINGS);
		stop(trans);
		return FALSE;
	}
	if (dlbuf_device_open("cpu", NULL, &self->cpu)) {
		FAIL(self, RESOURCE, OPEN_READ);
		stop(trans);
		return FALSE;
	}
	self->dev = self->cpu;
	if (is_auto(self) || !strcmp(o->device, "cpu"))
		return TRUE;
	if (dlbuf_device_open(o->device, NULL, &dev)) {
		FAIL(self, LIBRARY, SETTINGS);
		stop(trans);
		return FALSE;
	}
	use_device(self, dev);
	return TRUE;
}

static void finalize(GObject *object)
{
	g_free(((DlbufPrepare *)object)->set.tensor_id);
	g_free(((DlbufPrepare *)object)->set.device);
	G_OBJECT_CLASS(element_parent_class)->finalize(object);
}

static void element_init(DlbufPrepare *self)
{
	self->set.opts.size = sizeof(self->set.opts);
	self->set.tensor_id = g_strdup("input");
	self->set.device = g_strdup("cpu");
	gst_base_transform_set_qos_enabled(&self->parent, TRUE);
}

static void element_class_init(DlbufPrepareClass *class)
{
	GstBaseTransformClass *trans = GST_BASE_TRANSFORM_CLASS(class);
	GstElementClass *gst = GST_ELEMENT_CLASS(class);
	GObjectClass *object = G_OBJECT_CLASS(class);
	GstCaps *sink = sink_caps(), *src;

	object->set_property = set_property;
	object->get_property = get_property;
	object->finalize = finalize;
	for (guint i = 0; i < G_N_ELEMENTS(properties); i++)
		g_object_class_install_property(object, i + 1, spec_of(&properties[i]));
	src = gst_caps_from_string(TENSORS ",types=(string){float32,float16,bfloat16,uint8,int8},"
				   "framerate=(fraction)[0/1,max];"
				   "video/x-raw,format=(string){RGB,BGR,GRAY8},width=(int)[1,max],"
				   "height=(int)[1,max],framerate=(fraction)[0/1,max]");
	gst_element_class_add_pad_template(gst, gst_pad_template_new("sink", GST_PAD_SINK,
		GST_PAD_ALWAYS, sink));
	gst_element_class_add_pad_template(gst, gst_pad_template_new("src", GST_PAD_SRC,
		GST_PAD_ALWAYS, src));
	gst_caps_unref(sink);
	gst_caps_unref(src);
	gst_element_class_set_static_metadata(gst, "Pictures to a model's input",
		"Filter/Converter/Video/Tensor",
		"Crops, scales, normalises and lays out pictures as tensors, also from dma-bufs",
		"the authors of dlbuf");
	trans->transform_caps = transform_caps;
	trans->fixate_caps = fixate_caps;
	trans->set_caps = set_caps;
	trans->sink_event = sink_event;
	trans->propose_allocation = propose_allocation;
	trans->decide_allocation = decide_allocation;
	trans->transform_size = transform_size;
	trans->prepare_output_buffer = prepare_output_buffer;
	trans->transform = transform;
	trans->start = start;
	trans->stop = stop;
}

static void find_analytics(void)
{
	void *lib = dlopen("libgstanalytics-1.0.so.0", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return;
	*(void **)&analytics.add = dlsym(lib, "gst_buffer_add_tensor_meta");
	*(void **)&analytics.set = dlsym(lib, "gst_tensor_meta_set");
	*(void **)&analytics.tensor = dlsym(lib, "gst_tensor_new_simple");
	if (!analytics.add || !analytics.set)
		analytics.tensor = NULL;
}

static gboolean plugin_init(GstPlugin *plugin)
{
	static const gchar *tags[] = { NULL };

	GST_DEBUG_CATEGORY_INIT(debug, "dlbufprepare", 0, "pictures to tensors");
	if (!gst_meta_register_custom(TRANSFORM_META, tags, NULL, NULL, NULL))
		return FALSE;
	find_analytics();
	return gst_element_register(plugin, "dlbufprepare", GST_RANK_NONE, element_get_type());
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, dlbuf,
		  "Pictures of a pipeline as tensors", plugin_init,
		  TEXT(DLBUF_VERSION_MAJOR) "." TEXT(DLBUF_VERSION_MINOR) "." TEXT(DLBUF_VERSION_PATCH),
		  "MIT/X11", "dlbuf", "dlbuf")
