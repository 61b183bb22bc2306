// SPDX-License-Identifier: MIT
/* dmabuf-test camera --format all: each format that the camera has. */
#include <stdlib.h>
#include <string.h>

#include "camera.h"
#include "names.h"
#include "tool.h"

#define MAX_FORMATS 512

enum result { RESULT_OK, RESULT_WRONG, RESULT_REFUSED, RESULT_FAILED };

static const char *const result_names[] = { "ok", "wrong", "refused", "failed" };

static const char page[] =
"<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>A camera's formats</title>\n"
"<meta name=viewport content=\"width=device-width\">\n<style>\n"
"body { background: #181818; color: #999; font: 14px system-ui, sans-serif; display: grid; gap: 12px;\n"
"\tgrid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); }\n"
"figure { margin: 0 } img { width: 100%; display: block } b { color: #eee; display: block }\n</style>\n";

struct run {
	struct command *cmd;
	struct verify *v;
	cJSON *formats;
	uint32_t count[ARRAY_SIZE(result_names)];
	uint32_t by_view[DLBUF_NVIEWS];	/* number of ok formats by view */
	uint32_t inputs[MAX_DEVICES];
	uint64_t bytes_copied;
};

static enum result result_of(int status)
{
	switch (status) {
	case STATUS_VERIFIED:
		return RESULT_OK;
	case STATUS_MISMATCH:
		return RESULT_WRONG;
	case STATUS_REFUSED:
		return RESULT_REFUSED;
	}
	return RESULT_FAILED;
}

static uint64_t bytes_copied(const struct verify *v)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < v->ndevices; i++)
		n += v->devices[i].bytes_copied;
	return n;
}

/* "uint8 [720, 1280], [360, 640, 2]" */
static void put_tensors(const struct device *d, char *s, size_t size)
{
	size_t len = 0;

	for (uint32_t i = 0; i < d->nplanes && len < size; i++) {
		const DLTensor *t = &d->dl[i];

		if (i)
			len += snprintf(s + len, size - len, ", ");
		else
			len += snprintf(s + len, size - len, "%s ",
					text_dtype(t->dtype).s);
		if (len < size)
			put_dims(s + len, size - len, t->shape, t->ndim);
		len = strlen(s);
	}
}

/* If a device makes no input of an ok format, this is no failure, but the device is named. */
static void print_refused(const struct device *d)
{
	if (*d->input.refused)
		printf("           %s prepares no input: %s\n", d->info.name, d->input.refused);
}

/* Fixed widths: each line is printed as soon as its format is done. */
static void print_line(const struct run *run, uint32_t code, enum result result,
		       const char *reason)
{
	const struct verify *v = run->v;
	const struct dlbuf_camera_info *cam = &v->cam->info;
	char what[256] = "";

	if (result == RESULT_OK)
		put_tensors(&v->devices[0], what, sizeof(what));
	if (*what && (cam->width != run->cmd->width || cam->height != run->cmd->height))
		snprintf(what + strlen(what), sizeof(what) - strlen(what),
			 " (%lux%lu was asked for)", run->cmd->width, run->cmd->height);
	progress_clear();
	printf("  %s%-7s%s  %-7s  %-12s  %-6s  %s%s%s\n",
	       style(result == RESULT_OK ? STYLE_GOOD : STYLE_BAD),
	       result_names[result], style(STYLE_OFF), camera_code(code).s,
	       format_title(&v->format), dlbuf_view_name(v->view),
	       result == RESULT_OK ? what : reason,
	       result == RESULT_OK && v->format.reason ? "; " : "",
	       result == RESULT_OK && v->format.reason ? v->format.reason : "");
	for (uint32_t i = 0; result == RESULT_OK && i < v->ndevices; i++)
		print_refused(&v->devices[i]);
	fflush(stdout);
}

static void add_json(struct run *run, uint32_t code, enum result result,
		     const char *reason)
{
	struct report r = camera_report(run->cmd, run->v);
	cJSON *o = result == RESULT_OK || result == RESULT_WRONG ?
		   report_json(&r) : cJSON_CreateObject();

	cJSON_AddStringToObject(o, "code", camera_code(code).s);
	cJSON_AddStringToObject(o, "name", format_title(&run->v->format));
	cJSON_AddStringToObject(o, "result", result_names[result]);
	cJSON_AddStringToObject(o, "reason", result == RESULT_OK ?
				run->v->format.reason ? run->v->format.reason :
				"" : reason);
	cJSON_AddItemToArray(run->formats, o);
}

/* Adds the format's picture to the page. An ok format that cannot be drawn has none. */
static void add_picture(struct run *run, uint32_t code, enum result result)
{
	const struct camera_code name = file_code(code);
	const char *title = format_title(&run->v->format);
	FILE *f = run->cmd->png_out.f;

	if (!f)
		return;
	fputs("<figure>", f);
	if (result == RESULT_OK && !run->v->undrawn && run->v->view != DLBUF_VIEW_BYTES)
		fprintf(f, "<img src=%s.png alt=\"\" loading=lazy>", name.s);
	fprintf(f, "<figcaption><b>%s</b> %s %s</figcaption></figure>\n", *title ? title : name.s,
		name.s, result == RESULT_OK ? dlbuf_view_name(run->v->view) :
		result_names[result]);
}

static int take(struct run *run, uint32_t code)
{
	struct verify *v = run->v;
	int status;

	verify_reset(v);
	v->format = (struct dlbuf_format_info){ .size = sizeof(v->format) };
	v->view = DLBUF_VIEW_PLANES;
	v->png = NULL;
	if (dlbuf_format_find(code, 0, DLBUF_CODE_V4L2, &v->format))
		return fail(STATUS_REFUSED, "%s", dlbuf_last_error());
	status = camera_take(run->cmd, code, v);
	return status ? status : verify_status(v);
}

static int one_format(struct run *run, uint32_t code)
{
	char reason[512] = "";
	enum result result;

	fail_divert(reason, sizeof(reason));
	result = result_of(take(run, code));
	fail_divert(NULL, 0);
	if (interrupted)
		return fail(STATUS_SYSTEM, "%s", reason);
	run->count[result]++;
	if (result == RESULT_OK)
		run->by_view[run->v->view]++;
	for (uint32_t i = 0; result == RESULT_OK && i < run->v->ndevices; i++)
		run->inputs[i] += run->v->devices[i].input.ns.n != 0;
	run->bytes_copied += bytes_copied(run->v);
	if (!run->cmd->quiet && !json_alone(&run->cmd->json))
		print_line(run, code, result, reason);
	add_json(run, code, result, reason);
	add_picture(run, code, result);
	return ferror(stdout) ? STATUS_SYSTEM : 0;
}

static void print_summary(const struct run *run, uint32_t n)
{
	const struct verify *v = run->v;
	bool good = run->count[RESULT_OK] == n;
	const char *sep = " (";

	printf("\n%s%s%u of %u formats verified", style(STYLE_BOLD),
	       style(good ? STYLE_GOOD : STYLE_BAD), run->count[RESULT_OK], n);
	for (int i = 0; i < DLBUF_NVIEWS; i++) {
		if (!run->by_view[i])
			continue;
		printf("%s%u by %s", sep, run->by_view[i], dlbuf_view_name(i));
		sep = ", ";
	}
	printf("%s on ", *sep == ',' ? ")" : "");
	for (uint32_t i = 0; i < v->ndevices; i++)
		printf("%s%s", i == 0 ? "" : i + 1 < v->ndevices ? ", " :
		       " and ", v->devices[i].info.name);
	printf(", %llu bytes copied%s\n",
	       (unsigned long long)run->bytes_copied, style(STYLE_OFF));
	for (int i = RESULT_WRONG; i <= RESULT_FAILED; i++)
		if (run->count[i])
			printf("  %s  %u\n", result_names[i], run->count[i]);
	for (uint32_t i = 0; v->input_width && i < v->ndevices; i++)
		printf("  %-7s  %u of %u formats have an input on %s%s\n", i ? "" : "inputs",
		       run->inputs[i], run->count[RESULT_OK], v->devices[i].info.name,
		       run->inputs[i] < run->count[RESULT_OK] ?
		       "; the others' lines say why not" : "");
	report_left_out(v);
	if (run->cmd->save)
		printf("  pictures %s/index.html\n", run->cmd->save);
}

static cJSON *summary(const struct run *run, cJSON *formats)
{
	cJSON *root = cJSON_CreateObject(), *o;

	cJSON_AddStringToObject(root, "dlbuf", dlbuf_version());
	cJSON_AddBoolToObject(root, "verified", !run->count[RESULT_WRONG] &&
			      !run->count[RESULT_FAILED] &&
			      run->count[RESULT_OK]);
	for (size_t i = 0; i < ARRAY_SIZE(result_names); i++)
		cJSON_AddNumberToObject(root, result_names[i], run->count[i]);
	o = cJSON_AddObjectToObject(root, "views");
	for (int i = 0; i < DLBUF_NVIEWS; i++)
		if (run->by_view[i])
			cJSON_AddNumberToObject(o, dlbuf_view_name(i),
						run->by_view[i]);
	o = run->v->input_width ? cJSON_AddObjectToObject(root, "inputs") : NULL;
	for (uint32_t i = 0; o && i < run->v->ndevices; i++)
		cJSON_AddNumberToObject(o, run->v->devices[i].info.name, run->inputs[i]);
	cJSON_AddNumberToObject(root, "bytes_copied", run->bytes_copied);
	cJSON_AddItemToObject(root, "formats", formats);
	report_put_left_out(root, run->v);
	return root;
}

/* The worst result. If all were refused, nothing was verified. */
static int status_of(const struct run *run)
{
	if (run->count[RESULT_WRONG])
		return fail(STATUS_MISMATCH, "%u formats are wrong",
			    run->count[RESULT_WRONG]);
	if (run->count[RESULT_FAILED])
		return fail(STATUS_SYSTEM, "%u formats failed",
			    run->count[RESULT_FAILED]);
	if (!run->count[RESULT_OK])
		return fail(STATUS_ABSENT, "no format could be verified");
	return 0;
}

int all_formats(struct command *cmd, struct verify *v, cJSON **json)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .flags = DLBUF_CAMERA_PROBE);
	struct run run = { .cmd = cmd, .v = v };
	uint32_t codes[MAX_FORMATS], n = 0;
	int status = camera_open(v->cam, cmd->node, &opts);

	if (status)
		return status;
	n = camera_formats(v->cam, codes, MAX_FORMATS);
	camera_close(v->cam);
	if (!n)
		return fail(STATUS_ABSENT, "%s has no list of formats",
			    cmd->node);
	for (uint32_t i = 0; cmd->save && !status && i < n; i++)
		status = check_saved(cmd, codes[i]);
	if (status)
		return status;
	run.formats = cJSON_CreateArray();
	if (cmd->png_out.f)
		fputs(page, cmd->png_out.f);
	for (uint32_t i = 0; !status && i < n; i++)
		status = one_format(&run, codes[i]);
	if (status) {
		cJSON_Delete(run.formats);
		return status;
	}
	*json = summary(&run, run.formats);
	if (!cmd->quiet && !json_alone(&cmd->json))
		print_summary(&run, n);
	return status_of(&run);
}
