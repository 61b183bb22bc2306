// SPDX-License-Identifier: MIT
/* dmabuf-test camera: the command. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "camera.h"
#include "names.h"
#include "tool.h"

/* ---------------------------------------------------------------- options */

static int set_format(void *data, const char *name)
{
	struct command *cmd = data;

	cmd->all = !strcasecmp(name, "all");
	if (cmd->all || camera_format_named(name, &cmd->format, &cmd->code))
		return 0;
	return fail(STATUS_USAGE, "V4L2 has no format named '%s'; see "
		    "dmabuf-test formats", name);
}

/* The comparison needs whole rows. */
static int set_view(void *data, const char *name)
{
	struct command *cmd = data;

	cmd->view = view_named(name);
	if (cmd->view == DLBUF_VIEW_PLANES || cmd->view == DLBUF_VIEW_WORDS ||
	    cmd->view == DLBUF_VIEW_ROWS || cmd->view == DLBUF_VIEW_BYTES)
		return 0;
	return fail(STATUS_USAGE, "--view is planes, words, rows or bytes, not "
		    "'%s'", name);
}

static int set_rate(void *data, const char *s)
{
	struct command *cmd = data;
	char *end;

	cmd->rate = strtod(s, &end);
	/* strtod() takes spaces, signs, exponents and hexadecimal numbers. */
	if (strspn(s, "0123456789.") == strlen(s) && !*end &&
	    cmd->rate >= 0.001 && cmd->rate <= 100000)
		return 0;
	return fail(STATUS_USAGE, "--rate is frames a second, 30 or 12.5 for "
		    "instance, not '%s'", s);
}

static int set_size(void *data, const char *s)
{
	struct command *cmd = data;

	return parse_size("--size", s, 65536, &cmd->width, &cmd->height);
}

static int set_input(void *data, const char *s)
{
	struct command *cmd = data;

	cmd->input_asked = true;
	cmd->input_width = cmd->input_height = 0;
	/* The library's limit of a tensor's side. */
	return strcmp(s, "none") ? parse_size("--prepare", s, 32768, &cmd->input_width,
					      &cmd->input_height) : 0;
}

#define TO(member) .to = offsetof(struct command, member)

static const struct opt options[] = {
	OPT_DEVICE(struct command, devices, "all that work"),
	{ 'n', "frames", "N", "how many frames (60)", OPT_NUMBER,
	  TO(frames), 1, 1000000 },
	{ 's', "size", "WxH", "pixels (1280x720)", OPT_CALL, .call = set_size },
	{ 'f', "format", "FORMAT", "a name or a code, of V4L2 or DRM (NV12), or all\n"
	  "that the camera has, one after another", OPT_CALL,
	  .call = set_format },
	{ 0, "view", "VIEW", "planes, words, rows or bytes (the first one of\n"
	  "them that the format has)", OPT_CALL, .call = set_view },
	{ 'r', "rate", "FPS", "frames a second to ask the camera for (no change)",
	  OPT_CALL, .call = set_rate },
	{ 'b', "buffers", "N", "buffers that the camera cycles through (4)",
	  OPT_NUMBER, TO(buffers), 1, VIDEO_MAX_FRAME },
	{ 'e', "exporter", "EXPORTER", "capture into buffers of this exporter, not into\n"
	  "the camera's own", OPT_TEXT, TO(exporter) },
	{ 'm', "moving", NULL, "a frame that is the same as the one before is\n"
	  "wrong", TO(moving) },
	{ 'w', "written", NULL, "fill each buffer before the camera gets it\n"
	  "again; bytes that still have the filling are\n"
	  "wrong: not written by the camera, or stale in a\n"
	  "cache of the CPU", TO(written) },
	{ 'p', "png", "FILE", "save the last frame as a picture", OPT_TEXT, TO(png) },
	{ 'o', "save", "DIR", "save the last frame there, as a picture and as\n"
	  "the bytes of its buffer, CODE.png and CODE.raw;\n"
	  "of all formats also a page of the pictures,\n"
	  "index.html", OPT_TEXT, TO(save) },
	{ 'i', "prepare", "WxH", "size of the model's input that each device makes of\n"
	  "each frame, if it can, to be compared (640x640; with\n"
	  "--format all none); none makes no inputs. With\n"
	  "--format all a format without one is no failure: it is\n"
	  "named, with the reason", OPT_CALL, .call = set_input },
	{ 0, "input", "FILE", "save the last frame and its input as a picture, with\n"
	  "boxes around red areas: found in the input, mapped to\n"
	  "the frame", OPT_TEXT, TO(input) },
	OPT_JSON(struct command, json),
	{ 'q', "quiet", NULL, "no table, no progress: only the exit status",
	  TO(quiet) },
	{ 't', "timeout", "SECONDS", "longest wait for a frame or a device (60)",
	  OPT_NUMBER, TO(timeout), 1, 3600 },
	OPT_END,
};

static const struct cmdline usage = {
	.name = "camera",
	.operands = "[NODE]",
	.about =
"Takes frames from the V4L2 node NODE (/dev/video0), imports each into every\n"
"device and reads all of its bytes with the device's own API. They are compared\n"
"with what the CPU reads afterwards, without dlbuf: in a mapping of the node, or\n"
"with --exporter of the dma-buf. The device may read them with a copy engine; that\n"
"its computation reads the frame is shown by the model's input that it makes, see\n"
"--prepare. For the device cpu this is the same memory behind the same cache:\n"
"equal bytes show that the tensor is in the right place, not that the camera's\n"
"writes are visible; --written shows that. A buffer goes back to the camera when\n"
"its last tensor is deleted. Without --device each device is used that works and takes\n"
"the camera's buffers; the others are named.\n",
	.end =
"Exit status: 0 all verified, 1 a verification failed, 2 bad usage, 3 the\n"
"camera, a device or a file failed, 4 skipped: the node, a device, the format\n"
"or the exporter is absent on this machine.\n",
	.opts = options,
};

/* The path of a file, with a folder without links and dots. NULL: there is no folder. */
static char *place_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, slash + 1 - path) : strdup("."), *place = NULL;
	char *real = folder ? realpath(folder, NULL) : NULL;

	if (real && asprintf(&place, "%s/%s", real, slash ? slash + 1 : path) < 0)
		place = NULL;
	free(folder);
	free(real);
	return place;
}

/* A device or a pipe is written in place, so /dev/null may have all of them. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;
	bool there = !stat(a, &x), same;
	char *p, *q;

	if (there && !S_ISREG(x.st_mode))
		return false;
	if (there && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino)
		return true;
	p = place_of(a);
	q = place_of(b);
	same = p && q && !strcmp(p, q);
	free(p);
	free(q);
	return same;
}

int check_file(const struct command *cmd, const char *option, const char *path)
{
	const struct {
		const char *option, *path;
	} files[] = { { "--png", cmd->png }, { "--input", cmd->input }, { "--json", cmd->json.path } };

	for (size_t i = 0; path && i < ARRAY_SIZE(files) && strcmp(files[i].option, option); i++)
		if (files[i].path && is_same_file(files[i].path, path))
			return fail(STATUS_USAGE, "%s and %s are the same file, %s",
				    files[i].option, option, path);
	return 0;
}

static int parse(struct command *cmd, int argc, char **argv)
{
	int status = opts_parse(&usage, cmd, argc, argv);

	if (status)
		return status;
	if (argc - optind > 1)
		return fail(STATUS_USAGE, "one camera at a time, not also '%s'",
			    argv[optind + 1]);
	if (optind < argc)
		cmd->node = argv[optind];
	if (cmd->all && cmd->png)
		return fail(STATUS_USAGE, "--png is one picture; of all formats --save DIR "
			    "makes a page");
	if (cmd->input && cmd->all)
		return fail(STATUS_USAGE, "--input is the picture of one format");
	if (!cmd->input_asked && !cmd->all)
		cmd->input_width = cmd->input_height = 640;
	if (cmd->input && !cmd->input_width)
		return fail(STATUS_USAGE, "--input is the picture of --prepare WxH");
	return cmd->code || cmd->all ? 0 : set_format(cmd, "NV12");
}

/* ---------------------------------------------------------------- the run */

/* The page of the pictures replaces --png's file. */
static int index_open(struct command *cmd)
{
	char path[4096];
	int status;

	snprintf(path, sizeof(path), "%s/index.html", cmd->save);
	status = check_file(cmd, "--save", path);
	return status ? status : outfile_open(&cmd->png_out, path);
}

/*
 * Opens the files before the camera, so that a path that cannot be written is reported at once.
 */
static int open_files(struct command *cmd)
{
	int status;

	if (cmd->save && mkdir(cmd->save, 0777) && errno != EEXIST)
		return fail(STATUS_SYSTEM, "%s cannot be made: %s", cmd->save,
			    strerror(errno));
	status = check_file(cmd, "--input", cmd->input);
	if (!status)
		status = check_file(cmd, "--json", cmd->json.path);
	if (!status && cmd->png)
		status = outfile_open(&cmd->png_out, cmd->png);
	if (!status && cmd->input)
		status = outfile_open(&cmd->input_out, cmd->input);
	if (!status && cmd->save && cmd->all)
		status = index_open(cmd);
	if (!status && cmd->json.path)
		status = outfile_open(&cmd->json_out, cmd->json.path);
	return status;
}

static int write_json(struct command *cmd, const cJSON *json)
{
	const char *path = cmd->json.path;
	int status = json_write(json, path ? cmd->json_out.f : stdout, path ? path :
				"standard output");

	if (!status && path)
		status = outfile_flush(&cmd->json_out);
	return status;
}

/* If one cannot be written, the other does not appear either. */
static int write_files(struct command *cmd, const cJSON *json)
{
	int status = 0;

	if (cmd->png_out.f)
		status = outfile_flush(&cmd->png_out);
	if (!status && cmd->input_out.f)
		status = outfile_flush(&cmd->input_out);
	if (!status && cmd->json.want)
		status = write_json(cmd, json);
	if (!status && cmd->png_out.f)
		status = outfile_commit(&cmd->png_out);
	if (!status && cmd->input_out.f)
		status = outfile_commit(&cmd->input_out);
	if (!status && cmd->json.path)
		status = outfile_commit(&cmd->json_out);
	return status;
}

static int run_one(struct command *cmd, struct verify *v)
{
	struct report r = camera_report(cmd, v);
	cJSON *json;
	int status;

	v->format = cmd->format;
	v->png = cmd->png ? &cmd->png_out : NULL;
	v->input_png = cmd->input ? &cmd->input_out : NULL;
	status = camera_take(cmd, cmd->code, v);
	if (status)
		return status;
	json = report_json(&r);
	status = write_files(cmd, json);
	cJSON_Delete(json);
	if (!status && !cmd->quiet && !json_alone(&cmd->json))
		report_print(&r);
	return status ? status : verify_status(v);
}

static int run_all(struct command *cmd, struct verify *v)
{
	cJSON *json = NULL;
	int status = all_formats(cmd, v, &json), written = 0;

	/* The report has the error, too. */
	if (json)
		written = write_files(cmd, json);
	cJSON_Delete(json);
	return status ? status : written;
}

/* The device whose tensors are drawn. */
static int check_cpu(const struct command *cmd, const struct verify *v)
{
	for (uint32_t i = 0; i < v->ndevices; i++)
		if (v->devices[i].info.device.device_type == kDLCPU)
			return 0;
	if (!cmd->png && !cmd->save)
		return 0;
	return fail(STATUS_USAGE, "a picture is drawn by the CPU, which is not "
		    "among the devices");
}

static int run(struct command *cmd)
{
	struct camera cam = { .node = cmd->node };
	struct verify v = {
		.cam = &cam,
		.frames = cmd->frames,
		.timeout_ns = cmd->timeout * 1000000000ull,
		.moving = cmd->moving,
		.written = cmd->written,
		.input_width = cmd->input_width,
		.input_height = cmd->input_height,
		.input_asked = !cmd->all && (cmd->input_asked || cmd->input),
		.quiet = cmd->quiet,
	};
	int status = open_files(cmd);

	/* Opening all devices is slow, and the camera may not need them. */
	if (!status)
		status = camera_look(cmd);
	if (!status)
		status = verify_open_devices(&v, cmd->devices);
	if (!status)
		status = check_cpu(cmd, &v);
	if (!status)
		status = cmd->all ? run_all(cmd, &v) : run_one(cmd, &v);
	verify_close_devices(&v);
	/* Files that were not committed disappear. */
	outfile_abort(&cmd->png_out);
	outfile_abort(&cmd->input_out);
	outfile_abort(&cmd->json_out);
	return status == STATUS_REFUSED ? STATUS_SYSTEM : status;
}

int camera_main(int argc, char **argv)
{
	struct command cmd = {
		.node = "/dev/video0",
		.view = -1,
		.devices = "all",
		.frames = 60,
		.width = 1280,
		.height = 720,
		.buffers = 4,
		.timeout = 60,
	};
	int status = parse(&cmd, argc, argv);

	if (status)
		return status;
	return run(&cmd);
}
