// SPDX-License-Identifier: MIT
/* dmabuf-test camera: the command. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "camera.h"
#include "names.h"
#include "tool.h"

static const char camera_usage[] =
"usage: dmabuf-test camera [OPTION]... [NODE]\n"
"\n"
"Takes frames from the V4L2 node NODE (/dev/video0), imports each into every\n"
"device and reduces all of its bytes there. The result is compared with what the\n"
"CPU reads afterwards, without dlbuf: in a mapping of the node, or with --import\n"
"of the dma-buf. To the device cpu this is the same memory behind the same cache:\n"
"equal bytes show that the tensor is in the right place, not that the camera's\n"
"writes are visible; --written shows that. A buffer goes back to the camera when\n"
"its last tensor is deleted.\n"
"\n"
"  -d, --device LIST       devices, by commas (cpu,vulkan:0); also by part of the\n"
"                          name, uuid=, pci=01:00.0 or drm=/dev/dri/NODE instead\n"
"                          of the number\n"
"  -n, --frames N          how many frames (60)\n"
"  -s, --size WxH          pixels (1280x720)\n"
"  -f, --format NAME       a name or a code, of V4L2 or DRM (NV12), or all that\n"
"                          the camera has, one after another\n"
"  -v, --view VIEW         planes, words, rows or bytes (the first one of them\n"
"                          that the format has)\n"
"  -r, --rate FPS          frames a second to ask the camera for (as it is)\n"
"  -b, --buffers N         buffers that the camera cycles through (4)\n"
"  -i, --import EXPORTER   capture into buffers of this exporter, udmabuf or\n"
"                          heap:system for instance, not into the camera's own\n"
"  -m, --moving            a frame that is the same as the one before is wrong\n"
"  -w, --written           fill each buffer before the camera gets it again; bytes\n"
"                          that still have the filling are wrong: not written by\n"
"                          the camera, or stale in a cache of the CPU\n"
"  -p, --png FILE          save the last frame as a picture; of all formats a\n"
"                          sheet of small ones\n"
"  -o, --save DIR          save the last frame there, as a picture and as the\n"
"                          bytes of its buffer, CODE.png and CODE.raw\n"
"  -j, --json[=FILE]       the report as JSON, to FILE or instead of the table\n"
"  -q, --quiet             no table, no progress: the exit status tells\n"
"  -t, --timeout SECONDS   longest wait for a frame or a device (60)\n"
"  -h, --help              this text\n"
"\n"
"Exit status: 0 all verified, 1 a verification failed, 2 bad usage, 3 the\n"
"camera, a device or a file failed, 4 skipped: the node, a device, the format\n"
"or the exporter is absent on this machine.\n";

static const struct option options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "frames", required_argument, NULL, 'n' },
	{ "size", required_argument, NULL, 's' },
	{ "format", required_argument, NULL, 'f' },
	{ "view", required_argument, NULL, 'v' },
	{ "rate", required_argument, NULL, 'r' },
	{ "buffers", required_argument, NULL, 'b' },
	{ "import", required_argument, NULL, 'i' },
	{ "moving", no_argument, NULL, 'm' },
	{ "written", no_argument, NULL, 'w' },
	{ "png", required_argument, NULL, 'p' },
	{ "save", required_argument, NULL, 'o' },
	{ "json", optional_argument, NULL, 'j' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "timeout", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* ---------------------------------------------------------------- options */

static int parse_format(struct command *cmd, const char *name)
{
	cmd->all = !strcasecmp(name, "all");
	if (cmd->all || camera_format_named(name, &cmd->format, &cmd->code))
		return 0;
	return fail(STATUS_USAGE, "V4L2 has no format named '%s'; see "
		    "dmabuf-test formats", name);
}

/* Whole rows are what is compared. */
static int parse_view(struct command *cmd, const char *name)
{
	cmd->view = view_named(name);
	if (cmd->view == DLBUF_VIEW_PLANES || cmd->view == DLBUF_VIEW_WORDS ||
	    cmd->view == DLBUF_VIEW_ROWS || cmd->view == DLBUF_VIEW_BYTES)
		return 0;
	return fail(STATUS_USAGE, "--view is planes, words, rows or bytes, not "
		    "'%s'", name);
}

static int parse_rate(struct command *cmd, const char *s)
{
	char *end;

	cmd->rate = strtod(s, &end);
	/* strtod() takes spaces, signs, exponents and hexadecimal numbers. */
	if (strspn(s, "0123456789.") == strlen(s) && !*end &&
	    cmd->rate >= 0.001 && cmd->rate <= 100000)
		return 0;
	return fail(STATUS_USAGE, "--rate is frames a second, 30 or 12.5 for "
		    "instance, not '%s'", s);
}

static int parse_option(struct command *cmd, int opt, char **argv)
{
	switch (opt) {
	case 'd':
		cmd->devices = optarg;
		return 0;
	case 'n':
		return parse_number("--frames", optarg, 1, 1000000,
				    &cmd->frames);
	case 's':
		return parse_size(optarg, &cmd->width, &cmd->height);
	case 'f':
		return parse_format(cmd, optarg);
	case 'v':
		return parse_view(cmd, optarg);
	case 'r':
		return parse_rate(cmd, optarg);
	case 'b':
		return parse_number("--buffers", optarg, 1, VIDEO_MAX_FRAME,
				    &cmd->buffers);
	case 'i':
		cmd->exporter = optarg;
		return 0;
	case 'm':
		cmd->moving = true;
		return 0;
	case 'w':
		cmd->written = true;
		return 0;
	case 'p':
		cmd->png = optarg;
		return 0;
	case 'o':
		cmd->save = optarg;
		return 0;
	case 'j':
		cmd->want_json = true;
		cmd->json = optarg;
		return json_check();
	case 'q':
		cmd->quiet = true;
		return 0;
	case 't':
		return parse_number("--timeout", optarg, 1, 3600,
				    &cmd->timeout);
	case 'h':
		cmd->help = true;
		return 0;
	}
	return fail_option(opt, "camera", argv);
}

static int parse(struct command *cmd, int argc, char **argv)
{
	int opt, status = 0;

	opterr = 0;
	while (!status && !cmd->help &&
	       (opt = getopt_long(argc, argv, ":d:n:s:f:v:r:b:i:mwp:o:j::qt:h",
				  options, NULL)) != -1)
		status = parse_option(cmd, opt, argv);
	if (status || cmd->help)
		return status;
	if (argc - optind > 1)
		return fail(STATUS_USAGE, "one camera at a time, not also '%s'",
			    argv[optind + 1]);
	if (optind < argc)
		cmd->node = argv[optind];
	if (!cmd->code && !cmd->all)
		status = parse_format(cmd, "NV12");
	return status;
}

/* ---------------------------------------------------------------- the run */

/* Before the camera is: a path that cannot be written is known at once. */
static int open_files(struct command *cmd)
{
	int status = 0;

	if (cmd->save && mkdir(cmd->save, 0777) && errno != EEXIST)
		return fail(STATUS_SYSTEM, "%s cannot be made: %s", cmd->save,
			    strerror(errno));
	if (cmd->png)
		status = outfile_open(&cmd->png_out, cmd->png);
	if (!status && cmd->json)
		status = outfile_open(&cmd->json_out, cmd->json);
	return status;
}

int saved_open(struct saved *saved, const struct command *cmd,
	       struct verify *v)
{
	struct camera_code name = camera_code(v->cam->info.code);
	char path[4096];
	int status;

	*saved = (struct saved){ 0 };
	if (!cmd->save)
		return 0;
	/* The camera names it: no folders are to be had that way. */
	for (char *c = name.s; *c; c++)
		if (*c == '/' || *c == '.')
			*c = '_';
	snprintf(path, sizeof(path), "%s/%s.raw", cmd->save, name.s);
	status = outfile_open(&saved->raw, path);
	if (status)
		return status;
	v->raw = &saved->raw;
	/* What is only bytes is no picture. */
	if (v->view == DLBUF_VIEW_BYTES || v->png)
		return 0;
	snprintf(path, sizeof(path), "%s/%s.png", cmd->save, name.s);
	status = outfile_open(&saved->png, path);
	if (!status)
		v->png = &saved->png;
	return status;
}

int saved_flush(struct saved *saved)
{
	int status = saved->raw.f ? outfile_flush(&saved->raw) : 0;

	if (!status && saved->png.f)
		status = outfile_flush(&saved->png);
	return status;
}

int saved_commit(struct saved *saved)
{
	int status = saved->raw.f ? outfile_commit(&saved->raw) : 0;

	if (!status && saved->png.f)
		status = outfile_commit(&saved->png);
	return status;
}

void saved_abort(struct saved *saved)
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
	/* Of many formats those that can be drawn are. */
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

int camera_take(const struct command *cmd, uint32_t code, struct verify *v)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .code = code, .width = cmd->width,
		   .height = cmd->height, .buffers = cmd->buffers,
		   .rate = cmd->rate, .exporter = cmd->exporter);
	int status;

	v->view = cmd->view >= 0 ? (enum dlbuf_view)cmd->view :
		  verify_view(&v->format);
	v->fds_before = count_fds();
	status = camera_open(v->cam, cmd->node, &opts);
	if (status)
		return status;
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
		.asked_width = cmd->width,
		.asked_height = cmd->height,
		.asked_rate = cmd->rate,
	};
}

static int write_json(struct command *cmd, const cJSON *json)
{
	FILE *f = cmd->json ? cmd->json_out.f : stdout;
	int status = json_write(json, f, cmd->json ? cmd->json :
				"standard output");

	if (!status && cmd->json)
		status = outfile_flush(&cmd->json_out);
	return status;
}

/* When one cannot be written, the other does not appear either. */
static int write_files(struct command *cmd, const cJSON *json)
{
	int status = 0;

	if (cmd->png)
		status = outfile_flush(&cmd->png_out);
	if (!status && cmd->want_json)
		status = write_json(cmd, json);
	if (!status && cmd->png)
		status = outfile_commit(&cmd->png_out);
	if (!status && cmd->json)
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
	status = camera_take(cmd, cmd->code, v);
	if (status)
		return status;
	json = report_json(&r);
	status = write_files(cmd, json);
	cJSON_Delete(json);
	if (!status && !cmd->quiet && (!cmd->want_json || cmd->json))
		report_print(&r);
	return status ? status : verify_status(v);
}

static int run_all(struct command *cmd, struct verify *v)
{
	cJSON *json = NULL;
	int status = all_formats(cmd, v, &json), written = 0;

	/* What went wrong is in the report too. */
	if (json)
		written = write_files(cmd, json);
	cJSON_Delete(json);
	return status ? status : written;
}

/* Whose tensors are drawn. */
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
		.quiet = cmd->quiet,
	};
	int status = open_files(cmd);

	if (!status)
		status = verify_open_devices(&v, cmd->devices);
	if (!status)
		status = check_cpu(cmd, &v);
	if (!status)
		status = cmd->all ? run_all(cmd, &v) : run_one(cmd, &v);
	verify_close_devices(&v);
	/* What was not committed disappears. */
	outfile_abort(&cmd->png_out);
	outfile_abort(&cmd->json_out);
	return status == STATUS_REFUSED ? STATUS_SYSTEM : status;
}

int camera_main(int argc, char **argv)
{
	struct command cmd = {
		.node = "/dev/video0",
		.view = -1,
		.devices = "cpu,vulkan:0",
		.frames = 60,
		.width = 1280,
		.height = 720,
		.buffers = 4,
		.timeout = 60,
	};
	int status = parse(&cmd, argc, argv);

	if (status)
		return status;
	if (cmd.help) {
		fputs(camera_usage, stdout);
		return 0;
	}
	return run(&cmd);
}
