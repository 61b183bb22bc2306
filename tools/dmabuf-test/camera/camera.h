/* SPDX-License-Identifier: MIT */
/* dmabuf-test camera: what its parts share. */
#ifndef DMABUF_TEST_CAMERA_H
#define DMABUF_TEST_CAMERA_H

#include "names.h"
#include "opts.h"
#include "out.h"
#include "report.h"
#include "verify.h"

struct command {
	const char *node, *devices, *exporter, *png, *save, *input;
	/* One format and its V4L2 code, or all that the camera has. */
	struct dlbuf_format_info format;
	uint32_t code;
	bool all;
	int view;		/* -1: what shows most of a format */
	unsigned long frames, width, height, buffers, timeout;
	unsigned long input_width, input_height;
	bool input_asked;	/* on the command line */
	double rate;
	bool moving, written, quiet;
	struct json_to json;

	struct outfile input_out;
	struct outfile png_out, json_out;	/* png_out: of all formats, the page of pictures */
};

/* ---- command.c */

/*
 * Fails if the file of this option is that of another one that comes before it: the last one
 * to be written would replace the others. --save comes after all.
 */
int check_file(const struct command *cmd, const char *option, const char *path);

/* ---- take.c */

/* Finds out whether the camera can export its buffers before the devices are opened. */
int camera_look(const struct command *cmd);

/*
 * Frames of cmd's camera in v->format, asked for as `code`, on the devices
 * that are open; whatever happens, the camera is closed.
 */
int camera_take(const struct command *cmd, uint32_t code, struct verify *v);

/* check_file() of a format's files below --save. */
int check_saved(const struct command *cmd, uint32_t code);

/* The names of a format's files. */
struct camera_code file_code(uint32_t code);

/* The report of a run. */
struct report camera_report(const struct command *cmd, struct verify *v);

/* ---- formats.c */

/*
 * Each format that the camera has: a line each, or json, which is new
 * and to be freed. cmd->png_out gets the page of their pictures.
 */
int all_formats(struct command *cmd, struct verify *v, cJSON **json);

#endif /* DMABUF_TEST_CAMERA_H */
