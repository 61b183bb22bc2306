// SPDX-License-Identifier: MIT
/* dlbufprepare's properties: a table of them, and what all have in common. */
#include <errno.h>
#include <string.h>

#include "options.h"

const struct value_type value_types[] = {
	{ { kDLFloat, 32, 1 }, "float32", 11 },
	{ { kDLFloat, 16, 1 }, "float16", 10 },
	{ { kDLBfloat, 16, 1 }, "bfloat16", 13 },
	{ { kDLUInt, 8, 1 }, "uint8", 6 },
	{ { kDLInt, 8, 1 }, "int8", 1 },
};

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

gchar *options_sentence(void)
{
	GString *said = g_string_new(dlbuf_last_error());

	for (guint i = 0; i < G_N_ELEMENTS(properties); i++) {
		gchar *option = g_strdelimit(g_strdup(properties[i].name), "-", '_');

		g_string_replace(said, option, properties[i].name, 0);
		g_free(option);
	}
	return g_string_free(said, FALSE);
}

int options_plan(uint32_t code, enum dlbuf_code_space space, const struct dlbuf_prepare_opts *opts)
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

void options_set(struct options *o, GObject *object, guint id, const GValue *value)
{
	const struct property *p = &properties[id - 1];
	void *at = (char *)o + p->at;
	gboolean is_good;

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
}

void options_get(const struct options *o, guint id, GValue *value)
{
	const struct property *p = &properties[id - 1];
	const void *at = (const char *)o + p->at;
	GString *text;

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

void options_install(GObjectClass *class)
{
	for (guint i = 0; i < G_N_ELEMENTS(properties); i++)
		g_object_class_install_property(class, i + 1, spec_of(&properties[i]));
}

void options_init(struct options *o)
{
	*o = (struct options){ .opts.size = sizeof(o->opts) };
	o->tensor_id = g_strdup("input");
	o->device = g_strdup("cpu");
}

void options_finish(struct options *o)
{
	g_clear_pointer(&o->tensor_id, g_free);
	g_clear_pointer(&o->device, g_free);
}

void options_copy(struct options *to, const struct options *from)
{
	*to = *from;
	to->tensor_id = g_strdup(from->tensor_id);
	to->device = g_strdup(from->device ? from->device : "cpu");
	to->opts.rule = to->rule;
	to->opts.fit = to->fit;
	to->opts.filter = to->filter;
	to->opts.channels = to->channels;
	to->opts.dtype = value_types[to->type].dtype;
	to->opts.flags |= to->layout | to->cut;
}

int options_check(const struct options *o, GObject *object)
{
	gchar *text;
	int ret;

	for (guint i = 0; i < G_N_ELEMENTS(properties); i++) {
		const struct property *p = &properties[i];

		GST_OBJECT_LOCK(object);
		text = g_strdup(g_object_get_data(object, p->name));
		GST_OBJECT_UNLOCK(object);
		if (!text)
			continue;
		ret = dlbuf_fail(-EINVAL, "%s=\"%s\" is not %s with commas between them", p->name,
				 text, p->n == 4 ? "4 numbers" : "1 number, or 3");
		g_free(text);
		return ret;
	}
	if ((o->opts.quant_scale || o->opts.zero_point) && o->opts.dtype.bits != 8)
		return dlbuf_fail(-EINVAL, "quant-scale and zero-point are for the types uint8 "
				  "and int8");
	return options_plan(DLBUF_FOURCC('R', 'G', '2', '4'), DLBUF_CODE_DRM, &o->opts);
}
