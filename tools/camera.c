// SPDX-License-Identifier: MIT
/* dmabuf-test camera: the command. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "report.h"
#include "tool.h"
#include "verify.h"

static const char camera_usage[] =
"usage: dmabuf-test camera [OPTION]... [NODE]\n"
"\n"
"Takes frames from the V4L2 node NODE (/dev/video0), imports each into every\n"
"device, reduces all of its bytes there, and compares the result with the\n"
"camera's own mapping. A buffer goes back to the camera when its last tensor\n"
"is deleted.\n"
"\n"
"  -d, --device LIST       devices, by commas (cpu,vulkan:0)\n"
"  -n, --frames N          how many frames (60)\n"
"  -s, --size WxH          pixels (1280x720)\n"
"  -f, --format NAME       a V4L2 code or a name of dlbuf's (NV12)\n"
"  -r, --rate FPS          frames a second to ask the camera for (as it is)\n"
"  -b, --buffers N         buffers that the camera cycles through (4)\n"
"  -i, --import EXPORTER   capture into buffers of this exporter, udmabuf or\n"
"                          heap:system for instance, not into the camera's own\n"
"  -m, --moving            a frame that is the same as the one before is wrong\n"
"  -p, --png FILE          save the last frame as a picture\n"
"  -j, --json[=FILE]       the report as JSON, to FILE or instead of the table\n"
"  -q, --quiet             no table, no progress: the exit status tells\n"
"  -t, --timeout SECONDS   longest wait for a frame or a device (10)\n"
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
	{ "rate", required_argument, NULL, 'r' },
	{ "buffers", required_argument, NULL, 'b' },
	{ "import", required_argument, NULL, 'i' },
	{ "moving", no_argument, NULL, 'm' },
	{ "png", required_argument, NULL, 'p' },
	{ "json", optional_argument, NULL, 'j' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "timeout", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

struct command {
	const char *node, *devices, *exporter, *png, *json;
	struct dlbuf_format_info format;
	unsigned long frames, width, height, buffers, timeout;
	double rate;
	bool moving, quiet, want_json, help;

	struct outfile png_out, json_out;
};

/* ---------------------------------------------------------------- options */

static int by_name(const struct dlbuf_format_info *info, void *data)
{
	struct command *cmd = data;
	const char *name = cmd->format.name;

	if (!info->v4l2_code || (strcasecmp(info->name, name) &&
				 strcasecmp(text_code(info->v4l2_code).s, name)))
		return 0;
	cmd->format = *info;
	return 1;
}

static int put_name(const struct dlbuf_format_info *info, void *data)
{
	char *list = data;
	size_t len = strlen(list);

	if (info->v4l2_code)
		snprintf(list + len, 512 - len, "%s%s", len ? ", " : "",
			 text_code(info->v4l2_code).s);
	return 0;
}

static int parse_format(struct command *cmd, const char *name)
{
	char list[512] = "";

	cmd->format = (struct dlbuf_format_info){ .name = name };
	if (dlbuf_format_each(by_name, cmd) == 1)
		return 0;
	dlbuf_format_each(put_name, list);
	return fail(STATUS_USAGE, "no format is named '%s'; there are %s", name,
		    list);
}

static int parse_size(struct command *cmd, const char *s)
{
	char c;

	/* %lu takes a minus sign and spaces. */
	if (strspn(s, "0123456789x") == strlen(s) && *s != 'x' &&
	    strlen(s) < 16 &&
	    sscanf(s, "%lux%lu%c", &cmd->width, &cmd->height, &c) == 2 &&
	    cmd->width && cmd->width <= 65536 && cmd->height &&
	    cmd->height <= 65536)
		return 0;
	return fail(STATUS_USAGE, "--size is WxH in pixels, 1280x720 for "
		    "instance, not '%s'", s);
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
		return parse_size(cmd, optarg);
	case 'f':
		return parse_format(cmd, optarg);
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
	case 'p':
		cmd->png = optarg;
		return 0;
	case 'j':
		cmd->want_json = true;
		cmd->json = optarg;
		return 0;
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
	       (opt = getopt_long(argc, argv, ":d:n:s:f:r:b:i:mp:j::qt:h",
				  options, NULL)) != -1)
		status = parse_option(cmd, opt, argv);
	if (status || cmd->help)
		return status;
	if (argc - optind > 1)
		return fail(STATUS_USAGE, "one camera at a time, not also '%s'",
			    argv[optind + 1]);
	if (optind < argc)
		cmd->node = argv[optind];
	if (!cmd->format.v4l2_code)
		status = parse_format(cmd, "NV12");
	return status;
}

/* ---------------------------------------------------------------- the run */

/* Before the camera is: a path that cannot be written is known at once. */
static int open_files(struct command *cmd)
{
	int status = 0;

	if (cmd->png)
		status = outfile_open(&cmd->png_out, cmd->png);
	if (!status && cmd->json)
		status = outfile_open(&cmd->json_out, cmd->json);
	return status;
}

static int capture(struct command *cmd, struct verify *v)
{
	struct camera *cam = v->cam;
	int status;

	v->picture = picture_find(cmd->format.v4l2_code);
	if (!v->picture)
		return fail(STATUS_ABSENT, "dmabuf-test does not know %s yet",
			    cmd->format.name);
	status = verify_open_devices(v, cmd->devices);
	if (status)
		return status;
	v->fds_before = count_fds();
	status = camera_open(cam, cmd->node);
	if (status)
		return status;
	status = camera_set_format(cam, cmd->format.v4l2_code, cmd->width,
				   cmd->height);
	if (!status)
		status = camera_set_rate(cam, cmd->rate);
	if (!status)
		status = camera_alloc(cam, cmd->buffers, cmd->exporter);
	if (!status)
		status = verify_run(v);
	camera_close(cam);
	return status ? status : verify_finish(v);
}

static int write_json(struct command *cmd, const struct report *r)
{
	FILE *f = cmd->json ? cmd->json_out.f : stdout;
	cJSON *json = report_json(r);
	int status = json_write(json, f, cmd->json ? cmd->json :
				"standard output");

	cJSON_Delete(json);
	if (!status && cmd->json)
		status = outfile_flush(&cmd->json_out);
	return status;
}

static int report(struct command *cmd, struct verify *v)
{
	struct report r = {
		.verify = v,
		.exporter = cmd->exporter,
		.png = cmd->png,
		.asked_width = cmd->width,
		.asked_height = cmd->height,
		.asked_rate = cmd->rate,
	};
	int status = 0;

	if (cmd->png)
		status = outfile_flush(&cmd->png_out);
	if (!status && cmd->want_json)
		status = write_json(cmd, &r);
	/* When one cannot be written, the other does not appear either. */
	if (!status && cmd->png)
		status = outfile_commit(&cmd->png_out);
	if (!status && cmd->json)
		status = outfile_commit(&cmd->json_out);
	if (!status && !cmd->quiet && (!cmd->want_json || cmd->json))
		report_print(&r);
	return status ? status : verify_status(v);
}

static int run(struct command *cmd)
{
	struct camera cam = { .fd = -1 };
	struct verify v = {
		.cam = &cam,
		.format = cmd->format,
		.frames = cmd->frames,
		.timeout_ns = cmd->timeout * 1000000000ull,
		.moving = cmd->moving,
		.quiet = cmd->quiet,
		.png = cmd->png ? &cmd->png_out : NULL,
	};
	int status = open_files(cmd);

	if (!status)
		status = capture(cmd, &v);
	if (!status)
		status = report(cmd, &v);
	verify_close_devices(&v);
	/* What was not committed disappears. */
	outfile_abort(&cmd->png_out);
	outfile_abort(&cmd->json_out);
	return status;
}

int camera_main(int argc, char **argv)
{
	struct command cmd = {
		.node = "/dev/video0",
		.devices = "cpu,vulkan:0",
		.frames = 60,
		.width = 1280,
		.height = 720,
		.buffers = 4,
		.timeout = 10,
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
