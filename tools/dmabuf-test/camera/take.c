// SPDX-License-Identifier: MIT
/* dmabuf-test camera: the frames of one format, and the files below --save. */
#include <ctype.h>

#include "camera.h"
#include "tool.h"

/* Files of one format. Files that are not committed disappear. */
struct saved {
	struct outfile raw, png;
};

struct camera_code file_code(uint32_t code)
{
	struct camera_code name = camera_code(code);

	/* The name is from the camera, so it must contain no folders and no HTML. */
	for (char *c = name.s; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-')
			*c = '_';
	return name;
}

int check_saved(const struct command *cmd, uint32_t code)
{
	struct camera_code name = file_code(code);
	char path[4096];
	int status;

	snprintf(path, sizeof(path), "%s/%s.raw", cmd->save, name.s);
	status = check_file(cmd, "--save", path);
	/* --png's file is the same picture, under another path or the same. */
	if (status || cmd->png)
		return status;
	snprintf(path, sizeof(path), "%s/%s.png", cmd->save, name.s);
	return check_file(cmd, "--save", path);
}

static int saved_open(struct saved *saved, const struct command *cmd,
		      struct verify *v)
{
	struct camera_code name;
	char path[4096];
	int status;

	*saved = (struct saved){ 0 };
	if (!cmd->save)
		return 0;
	status = check_saved(cmd, v->cam->info.code);
	if (status)
		return status;
	name = file_code(v->cam->info.code);
	snprintf(path, sizeof(path), "%s/%s.raw", cmd->save, name.s);
	status = outfile_open(&saved->raw, path);
	if (status)
		return status;
	v->raw = &saved->raw;
	/* A format that has only the view BYTES has no picture. */
	if (v->view == DLBUF_VIEW_BYTES || v->png)
		return 0;
	snprintf(path, sizeof(path), "%s/%s.png", cmd->save, name.s);
	status = outfile_open(&saved->png, path);
	if (!status)
		v->png = &saved->png;
	return status;
}

static int saved_flush(struct saved *saved)
{
	int status = saved->raw.f ? outfile_flush(&saved->raw) : 0;

	if (!status && saved->png.f)
		status = outfile_flush(&saved->png);
	return status;
}

static int saved_commit(struct saved *saved)
{
	int status = saved->raw.f ? outfile_commit(&saved->raw) : 0;

	if (!status && saved->png.f)
		status = outfile_commit(&saved->png);
	return status;
}

static void saved_abort(struct saved *saved)
{
	outfile_abort(&saved->raw);
	outfile_abort(&saved->png);
}

static int take_open(const struct command *cmd, struct verify *v)
{
	struct saved saved = { 0 };
	int status = saved_open(&saved, cmd, v);

	if (!status)
		status = verify_run(v);
	/* With many formats, only those that can be drawn are drawn. */
	if (!status && v->undrawn && cmd->all)
		outfile_abort(&saved.png);
	else if (!status && v->undrawn)
		status = fail(STATUS_SYSTEM, "no picture of %s: %s",
			      format_title(&v->format), v->undrawn);
	if (!status)
		status = saved_flush(&saved);
	if (!status)
		status = saved_commit(&saved);
	saved_abort(&saved);
	if (v->png == &saved.png)
		v->png = NULL;
	v->raw = NULL;
	return status;
}

static int open_as(struct camera *cam, const struct command *cmd, uint32_t code)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .code = code, .width = cmd->width,
		   .height = cmd->height, .buffers = cmd->buffers,
		   .rate = cmd->rate, .exporter = cmd->exporter);

	return camera_open(cam, cmd->node, &opts);
}

int camera_look(const struct command *cmd)
{
	struct camera cam;
	int status;

	if (cmd->all || cmd->exporter || camera_exports(cmd->node))
		return 0;
	/* Prints the failure. */
	status = open_as(&cam, cmd, cmd->code);
	if (!status)
		camera_close(&cam);
	return status;
}

int camera_take(const struct command *cmd, uint32_t code, struct verify *v)
{
	int status;

	v->view = cmd->view >= 0 ? (enum dlbuf_view)cmd->view :
		  verify_view(&v->format);
	v->fds_before = count_fds();
	status = open_as(v->cam, cmd, code);
	if (status)
		return status;
	verify_leave_out(v);
	status = take_open(cmd, v);
	camera_close(v->cam);
	return status ? status : verify_finish(v);
}

struct report camera_report(const struct command *cmd, struct verify *v)
{
	return (struct report){
		.verify = v,
		.exporter = cmd->exporter,
		.png = cmd->all ? NULL : cmd->png,
		.input = cmd->input,
		.asked_width = cmd->width,
		.asked_height = cmd->height,
		.asked_rate = cmd->rate,
	};
}
