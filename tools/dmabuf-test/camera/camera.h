/* SPDX-License-Identifier: MIT */
/* Shared by the parts of dmabuf-test camera. */
#ifndef DMABUF_TEST_CAMERA_H
#define DMABUF_TEST_CAMERA_H

#include "names.h"
#include "opts.h"
#include "out.h"
#include "report.h"
#include "verify.h"

struct command {
	const char *node, *devices, *exporter, *png, *save, *input;
	/* One format and its V4L2 code, or all formats of the camera. */
	struct dlbuf_format_info format;
	uint32_t code;
	bool all;
	int view;		/* -1: the view that shows most of a format */
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
 * Fails if an earlier option has the same file: the file that is written last would replace
 * the other. --save counts as the last option.
 */
int check_file(const struct command *cmd, const char *option, const char *path);

/* ---- take.c */

/* Finds out whether the camera can export its buffers before the devices are opened. */
int camera_look(const struct command *cmd);

/*
 * Takes frames of cmd's camera in v->format, requested as `code`, on the open
 * devices. The camera is closed in every case.
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
 * Takes frames in each format of the camera: prints a line each, or makes json,
 * which is new. cmd->png_out gets the page of the pictures.
 */
int all_formats(struct command *cmd, struct verify *v, cJSON **json);

#endif /* DMABUF_TEST_CAMERA_H */
