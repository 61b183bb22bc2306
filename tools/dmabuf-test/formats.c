// SPDX-License-Identifier: MIT
/*
 * dmabuf-test formats: the library's table of formats, and the tensors of a
 * frame in each. All data comes from the library: there is no list here.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "names.h"
#include "opts.h"
#include "out.h"
#include "tool.h"

/*
 * Numbers that represent symbols. Only a height of 8 * 1013 and a width of 8 *
 * 1009 give multiples of these primes, so a number of the library shows which
 * symbol it contains. If only the producer knows a pitch or a number of bytes,
 * these larger numbers are used.
 */
#define SOME_H 8104
#define SOME_W 8072
#define SOME_PITCH 1000000007
#define SOME_BYTES 1000000009

struct command {
	int view;		/* -1: planes, or with --json all */
	unsigned long width, height;	/* 0: symbols */
	bool mapped, refused;
	struct json_to json;
	char **names;
	int nnames;
};

struct listing {
	const struct command *cmd;
	struct table table;
	cJSON *array;		/* NULL: text */
	/* The name to find, and how well the best format matches it. */
	const char *name;
	enum name_match best;
};

/* The tensors of a view of a frame; n 0: none, with the error text. */
struct tensors {
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	uint32_t n;
	const char *why;	/* valid on this thread until the next call */
};

/* ---------------------------------------------------------------- tensors */

/*
 * Rows without padding, one plane after another. The bytes of a row are unknown
 * for formats whose pixels share bytes, and similar ones.
 */
static struct dlbuf_frame frame_of(const struct dlbuf_format_info *info,
				   uint32_t width, uint32_t height)
{
	bool known = !info->reason || info->views & 1u << DLBUF_VIEW_WORDS;
	struct dlbuf_frame f = {
		.size = sizeof(f),
		.width = width,
		.height = height,
		.code = info->drm_code ? info->drm_code : info->v4l2_code,
		.code_space = info->drm_code ? DLBUF_CODE_DRM : DLBUF_CODE_V4L2,
		.modifier = DLBUF_MOD_LINEAR,
		.nplanes = info->nplanes,
	};
	uint64_t offset = 0;

	for (uint32_t i = 0; i < info->nplanes; i++) {
		const struct dlbuf_format_plane *p = &info->planes[i];
		uint64_t columns = (width + p->hsub - 1) / p->hsub;
		uint64_t rows = (height + p->vsub - 1) / p->vsub;

		f.planes[i].fd = -1;
		f.planes[i].offset = offset;
		f.planes[i].pitch = known ? columns * p->channels *
				    (p->bits / 8) : SOME_PITCH;
		offset += known ? f.planes[i].pitch * rows : 0;
	}
	return f;
}

/* Filled in place, because a layout points into itself. */
static void tensors_of(const struct dlbuf_format_info *info,
		       enum dlbuf_view view, uint32_t width, uint32_t height,
		       struct tensors *out)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .view = view);
	struct dlbuf_frame frame = frame_of(info, width, height);

	/*
	 * Only the view BYTES has as many bytes as the frame's planes; for others the number
	 * would be a limit.
	 */
	for (uint32_t i = 0; i < frame.nplanes && view == DLBUF_VIEW_BYTES; i++)
		frame.planes[i].bytes = SOME_BYTES;
	out->n = 0;
	out->why = "";
	if (dlbuf_frame_layouts(&frame, &opts, out->layouts, &out->n))
		out->why = dlbuf_last_error();
}

static bool has_view(const struct dlbuf_format_info *info, enum dlbuf_view view)
{
	return info->views & 1u << view;
}

/* ---------------------------------------------------------------- text */

/* "3W/2"; false: n is no simple multiple of the symbol's number. */
static bool put_multiple(struct text *out, int64_t n, int64_t of, char symbol)
{
	char times[8] = "", by[8] = "";

	for (int div = 1; div <= 8; div *= 2) {
		if (n * div % of || n * div / of > 64)
			continue;
		if (n * div / of > 1)
			snprintf(times, sizeof(times), "%d",
				 (int)(n * div / of));
		if (div > 1)
			snprintf(by, sizeof(by), "/%d", div);
		snprintf(out->s, sizeof(out->s), "%s%c%s", times, symbol, by);
		return true;
	}
	return false;
}

static struct text text_number(const struct command *cmd, int64_t n)
{
	struct text t;

	if (n == SOME_PITCH || n == SOME_BYTES)
		snprintf(t.s, sizeof(t.s), n == SOME_PITCH ? "pitch" : "bytes");
	else if (cmd->width || n < SOME_W / 8 ||
		 (!put_multiple(&t, n, SOME_W, 'W') &&
		  !put_multiple(&t, n, SOME_H, 'H')))
		snprintf(t.s, sizeof(t.s), "%lld", (long long)n);
	return t;
}

static size_t put_numbers(const struct command *cmd, char *s, size_t size,
			  const int64_t *n, int count)
{
	size_t len = snprintf(s, size, "[");

	for (int i = 0; i < count && len < size; i++)
		len += snprintf(s + len, size - len, "%s%s", i ? ", " : "",
				text_number(cmd, n[i]).s);
	if (len < size)
		len += snprintf(s + len, size - len, "]");
	return len;
}

/* "[H, W] / [W, 1]": shape and strides. */
static void put_layout(const struct command *cmd, char *s, size_t size,
		       const DLTensor *t)
{
	size_t len = put_numbers(cmd, s, size, t->shape, t->ndim);

	if (len < size)
		len += snprintf(s + len, size - len, " / ");
	if (len < size)
		put_numbers(cmd, s + len, size - len, t->strides, t->ndim);
}

static void text_tensors(const struct command *cmd,
			 const struct dlbuf_format_info *info,
			 enum dlbuf_view view, struct tensors *out)
{
	tensors_of(info, view, cmd->width ? cmd->width : SOME_W,
		   cmd->height ? cmd->height : SOME_H, out);
}

struct name {
	char s[48];
};

static struct name text_name(const char *name, uint32_t code)
{
	struct name t = { "-" };

	if (name)
		snprintf(t.s, sizeof(t.s), "%s '%s'", name, camera_code(code).s);
	return t;
}

/* "8", "10 low": the number of significant bits of a value, and their place. */
static struct text text_bits(const struct dlbuf_format_info *info)
{
	struct text t;

	snprintf(t.s, sizeof(t.s), "%u%s", info->depth,
		 info->depth == info->dtype.bits ? "" :
		 info->shift ? " high" : " low");
	return t;
}

/* Without `without`, and without the one that all have. */
static void put_views(char *s, size_t size, uint32_t views, int without)
{
	size_t len = 0;

	*s = '\0';
	for (int i = 0; i < DLBUF_NVIEWS && len < size; i++)
		if (views >> i & 1 && i != without)
			len += snprintf(s + len, size - len, "%s%s",
					len ? " " : "", dlbuf_view_name(i));
}

/* The reason without tensors: the format's own reason is shorter than a call's error text. */
static const char *why_not(const struct dlbuf_format_info *info,
			   enum dlbuf_view view, const struct tensors *t)
{
	if (has_view(info, view))
		return t->why;
	return info->reason ? info->reason : "it has no such view";
}

static void add_row(struct listing *list, const struct dlbuf_format_info *info)
{
	const struct command *cmd = list->cmd;
	enum dlbuf_view view = cmd->view < 0 ? DLBUF_VIEW_PLANES : cmd->view;
	char what[512] = "", views[128];
	struct tensors t;
	size_t len = 0;

	text_tensors(cmd, info, view, &t);
	for (uint32_t i = 0; i < t.n && len < sizeof(what); i++) {
		if (i)
			len += snprintf(what + len, sizeof(what) - len, ", ");
		put_layout(cmd, what + len, sizeof(what) - len,
			   &t.layouts[i].layout);
		len = strlen(what);
	}
	table_cell(&list->table, "%s", text_name(info->drm_name,
						 info->drm_code).s);
	table_cell(&list->table, "%s", text_name(info->v4l2_name,
						 info->v4l2_code).s);
	table_cell(&list->table, "%s", text_name(info->v4l2_multi_name,
						 info->v4l2_multi_code).s);
	table_cell(&list->table, "%s", info->reason ? "-" : info->channels);
	table_cell(&list->table, "%s", info->reason ? "-" : text_bits(info).s);
	table_cell(&list->table, "%s", t.n ?
		   text_dtype(t.layouts[0].layout.dtype).s : "-");
	table_cell(&list->table, "%s", t.n ? what : why_not(info, view, &t));
	if (!t.n)
		table_style(&list->table, STYLE_DIM);
	put_views(views, sizeof(views), info->views, view);
	table_cell(&list->table, "%s", views);
}

/* ---------------------------------------------------------------- JSON */

static void add_code(cJSON *o, const char *key, const char *name, uint32_t code)
{
	cJSON *c;

	if (!name) {
		cJSON_AddNullToObject(o, key);
		return;
	}
	c = cJSON_AddObjectToObject(o, key);
	cJSON_AddStringToObject(c, "name", name);
	cJSON_AddStringToObject(c, "code", camera_code(code).s);
	cJSON_AddNumberToObject(c, "fourcc", code);
}

static void add_numbers(cJSON *o, const char *key, const int64_t *n, int count)
{
	cJSON *array = cJSON_AddArrayToObject(o, key);

	for (int i = 0; i < count; i++)
		cJSON_AddItemToArray(array, n[i] == SOME_PITCH ||
				     n[i] == SOME_BYTES ? cJSON_CreateNull() :
				     cJSON_CreateNumber(n[i]));
}

static void add_view(cJSON *views, const struct command *cmd,
		     const struct dlbuf_format_info *info, enum dlbuf_view view)
{
	struct tensors t;
	cJSON *array;

	tensors_of(info, view, cmd->width, cmd->height, &t);
	if (!t.n) {
		cJSON_AddStringToObject(views, dlbuf_view_name(view), t.why);
		return;
	}
	array = cJSON_AddArrayToObject(views, dlbuf_view_name(view));
	for (uint32_t i = 0; i < t.n; i++) {
		const DLTensor *dl = &t.layouts[i].layout;
		cJSON *o = cJSON_CreateObject();

		cJSON_AddNumberToObject(o, "plane", t.layouts[i].plane);
		cJSON_AddStringToObject(o, "dtype", text_dtype(dl->dtype).s);
		add_numbers(o, "shape", dl->shape, dl->ndim);
		add_numbers(o, "strides", dl->strides, dl->ndim);
		cJSON_AddNumberToObject(o, "byte_offset", dl->byte_offset);
		cJSON_AddItemToArray(array, o);
	}
}

static void add_json(struct listing *list, const struct dlbuf_format_info *info)
{
	const struct command *cmd = list->cmd;
	cJSON *o = cJSON_CreateObject(), *planes, *views;

	add_code(o, "drm", info->drm_name, info->drm_code);
	add_code(o, "v4l2", info->v4l2_name, info->v4l2_code);
	add_code(o, "v4l2_multiplanar", info->v4l2_multi_name,
		 info->v4l2_multi_code);
	cJSON_AddStringToObject(o, "channels", info->channels);
	cJSON_AddStringToObject(o, "dtype", text_dtype(info->dtype).s);
	cJSON_AddNumberToObject(o, "depth", info->depth);
	cJSON_AddNumberToObject(o, "shift", info->shift);
	if (info->reason)
		cJSON_AddStringToObject(o, "reason", info->reason);
	else
		cJSON_AddNullToObject(o, "reason");
	planes = cJSON_AddArrayToObject(o, "planes");
	for (uint32_t i = 0; i < info->nplanes; i++) {
		cJSON *p = cJSON_CreateObject();

		cJSON_AddNumberToObject(p, "channels", info->planes[i].channels);
		cJSON_AddNumberToObject(p, "bits", info->planes[i].bits);
		cJSON_AddNumberToObject(p, "hsub", info->planes[i].hsub);
		cJSON_AddNumberToObject(p, "vsub", info->planes[i].vsub);
		cJSON_AddItemToArray(planes, p);
	}
	views = cJSON_AddObjectToObject(o, "views");
	for (int i = 0; i < DLBUF_NVIEWS; i++)
		if (has_view(info, i) && (cmd->view < 0 || i == cmd->view))
			add_view(views, cmd, info, i);
	cJSON_AddItemToArray(list->array, o);
}

/* ---------------------------------------------------------------- the walk */

static int add(const struct dlbuf_format_info *info, void *data)
{
	struct listing *list = data;
	const struct command *cmd = list->cmd;
	bool mapped = has_view(info, cmd->view < 0 ? DLBUF_VIEW_PLANES :
						     cmd->view);

	if (list->name && name_match(info, list->name) < list->best)
		return 0;
	if ((cmd->mapped || cmd->refused) && !(mapped ? cmd->mapped :
							cmd->refused))
		return 0;
	if (list->array)
		add_json(list, info);
	else
		add_row(list, info);
	return 0;
}

static int find_best(const struct dlbuf_format_info *info, void *data)
{
	struct listing *list = data;
	enum name_match match = name_match(info, list->name);

	if (match > list->best)
		list->best = match;
	return 0;
}

static void find(struct listing *list, const char *name)
{
	list->name = name;
	list->best = NAME_NOT;
	dlbuf_format_each(find_best, list);
}

/* Checks this before anything is printed. */
static int check_names(const struct command *cmd)
{
	struct listing list = { .cmd = cmd };

	for (int i = 0; i < cmd->nnames; i++) {
		find(&list, cmd->names[i]);
		if (!list.best)
			return fail(STATUS_USAGE, "no format of DRM or V4L2 is "
				    "named '%s'", cmd->names[i]);
	}
	return 0;
}

static void walk(struct listing *list)
{
	const struct command *cmd = list->cmd;

	for (int i = 0; i < cmd->nnames; i++) {
		find(list, cmd->names[i]);
		dlbuf_format_each(add, list);
	}
	if (!cmd->nnames)
		dlbuf_format_each(add, list);
}

static void formats_text(const struct command *cmd)
{
	struct listing list = { .cmd = cmd, .table = { .ncolumns = 8 } };
	static const char *const heads[] = {
		"DRM", "V4L2", "in dma-bufs of their own", "channels", "bits",
		"dtype", "shape / strides", "other views",
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		table_cell(&list.table, "%s", heads[i]);
	walk(&list);
	table_print(&list.table);
}

static int formats_json(const struct command *cmd)
{
	cJSON *root = cJSON_CreateObject();
	struct listing list = { .cmd = cmd };
	int status;

	cJSON_AddStringToObject(root, "dlbuf", dlbuf_version());
	cJSON_AddNumberToObject(root, "width", cmd->width);
	cJSON_AddNumberToObject(root, "height", cmd->height);
	list.array = cJSON_AddArrayToObject(root, "formats");
	walk(&list);
	status = json_put(&cmd->json, root);
	cJSON_Delete(root);
	return status;
}

/* ---------------------------------------------------------------- options */

static int set_view(void *data, const char *name)
{
	struct command *cmd = data;

	cmd->view = view_named(name);
	return cmd->view >= 0 ? 0 :
	       fail(STATUS_USAGE, "no view is named '%s'; see dmabuf-test "
		    "formats --help", name);
}

static int set_size(void *data, const char *s)
{
	struct command *cmd = data;

	return parse_size("--size", s, 65536, &cmd->width, &cmd->height);
}

static const struct opt options[] = {
	{ 0, "view", "VIEW", "the tensors of this view (planes); others are\n"
	  "colour, luma, components, cfa, stacked, words,\n"
	  "rows, bytes", .kind = OPT_CALL, .call = set_view },
	{ 's', "size", "WxH", "numbers for this frame size in pixels, not W\n"
	  "and H", .kind = OPT_CALL, .call = set_size },
	{ 'm', "mapped", NULL, "only formats that have this view",
	  .to = offsetof(struct command, mapped) },
	{ 'r', "refused", NULL, "only formats that do not have it",
	  .to = offsetof(struct command, refused) },
	OPT_JSON(struct command, json),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "formats",
	.operands = "[FORMAT]...",
	.about =
"Lists the pixel formats of DRM and V4L2, with the tensors that dlbuf makes of a\n"
"frame in each format, or the reason why it makes none; those of a FORMAT only, which\n"
"is a name or a four-character code. --json has all that dlbuf knows about a format.\n"
"No dma-buf is needed.\n",
	.end =
"After each shape come the strides, in elements, of rows without padding. JSON is of\n"
"1920x1080 pixels without --size, and of all views without --view.\n"
"\n"
"Exit status: 0, 2 bad usage or no such format, 3 the output could not be\n"
"written.\n",
	.opts = options,
};

int formats_main(int argc, char **argv)
{
	struct command cmd = { .view = -1 };
	int status = opts_parse(&usage, &cmd, argc, argv);

	if (status)
		return status;
	cmd.names = argv + optind;
	cmd.nnames = argc - optind;
	status = check_names(&cmd);
	if (status)
		return status;
	if (!json_alone(&cmd.json))
		formats_text(&cmd);
	if (!cmd.json.want)
		return 0;
	if (!cmd.width) {
		cmd.width = 1920;
		cmd.height = 1080;
	}
	return formats_json(&cmd);
}
