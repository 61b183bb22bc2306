// SPDX-License-Identifier: MIT
/*
 * dmabuf-test alloc: finds one buffer for several devices and V4L2 nodes, and
 * prints how. The library does the work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "../../lib/system/node.h"
#include "names.h"
#include "opts.h"
#include "out.h"
#include "survey.h"
#include "tool.h"

#define MAX_PARTIES 16

struct party {
	char *name;
	struct dlbuf_device *dev;	/* NULL: a V4L2 node */
	int fd;				/* of the node, or -1 */
	char path[16];			/* how it imports the buffer; "": it does not */
	uint64_t copied;		/* bytes */
};

struct command {
	const char *parties, *format, *exporter;
	unsigned long width, height;
	struct json_to json_to;

	struct party party[MAX_PARTIES];
	struct dlbuf_device *devs[MAX_PARTIES];
	int nodes[MAX_PARTIES];
	size_t n, ndevs, nnodes;
	struct dlbuf_format_info info;
	uint32_t code;
	struct dlbuf_pool *pool;
	struct dlbuf_pool_info buffer;
	unsigned int ntrials, nrefused;	/* trials; number of them that a party refused */
	char failed[640];	/* the last exporter that made no buffer */
	struct table trials;
	cJSON *json, *tried;
};

static int set_size(void *data, const char *s)
{
	struct command *cmd = data;

	return parse_size("--size", s, 65536, &cmd->width, &cmd->height);
}

static const struct opt options[] = {
	{ 'F', "for", "LIST", "devices, and V4L2 nodes by their paths, separated by\n"
	  "commas (cpu)", .kind = OPT_LIST,
	  .to = offsetof(struct command, parties) },
	{ 'f', "format", "FORMAT", "a format of V4L2 (NV12)", .kind = OPT_TEXT,
	  .to = offsetof(struct command, format) },
	{ 's', "size", "WxH", "the frame's size in pixels (640x360)",
	  .kind = OPT_CALL, .call = set_size },
	{ 'e', "exporter", "NAME", "try only this exporter", .kind = OPT_TEXT,
	  .to = offsetof(struct command, exporter) },
	OPT_JSON(struct command, json_to),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "alloc",
	.about =
"Allocates one frame that all parties (devices and V4L2 nodes) import without a\n"
"copy, and shows how: each exporter that was tried, which party refused its buffer\n"
"and why, and the pitch, offsets and size that were negotiated. A V4L2 node is set\n"
"to the format, and must not be in use.\n",
	.end =
"Exit status: 0 there is such a buffer, 1 a party refused each one, 2 bad usage, 3 a\n"
"device or a node failed, 4 skipped: a device, a node, the format or each exporter is\n"
"absent on this machine.\n",
	.opts = options,
};

/* ---------------------------------------------------------------- parties */

static int open_node(struct party *p)
{
	char who[NODE_ACCESS];
	int err;

	p->fd = open(p->name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (p->fd >= 0)
		return 0;
	err = errno;
	node_access(p->name, err, who);
	return fail(err == ENOENT ? STATUS_ABSENT : STATUS_SYSTEM,
		    "%s cannot be opened: %s%s", p->name, strerror(err), who);
}

static int any_status(const struct dlbuf_device_info *info, void *data)
{
	(void)info, (void)data;
	return 0;
}

static int add_party(struct command *cmd, const char *name)
{
	struct party *p = &cmd->party[cmd->n];
	int status, err;

	if (cmd->n == MAX_PARTIES)
		return fail(STATUS_USAGE, "--for has more than %d parties",
			    MAX_PARTIES);
	p->fd = -1;
	p->name = strdup(name);
	cmd->n++;
	if (name[0] == '/') {
		status = open_node(p);
		if (!status)
			cmd->nodes[cmd->nnodes++] = p->fd;
		return status;
	}
	/* A child opens it first: a driver that crashes does not end this process. */
	status = survey_devices(name, SURVEY_MS, any_status, NULL);
	if (status)
		return status;
	err = dlbuf_device_open(name, NULL, &p->dev);
	if (err)
		return fail_dlbuf(err);
	cmd->devs[cmd->ndevs++] = p->dev;
	return 0;
}

static int open_parties(struct command *cmd)
{
	char *list = strdup(cmd->parties), *rest = list, *name;
	int status = 0;

	while (!status && (name = strsep(&rest, ",")))
		status = add_party(cmd, name);
	free(list);
	return status;
}

static void close_parties(struct command *cmd)
{
	for (size_t i = 0; i < cmd->n; i++) {
		dlbuf_device_close(cmd->party[i].dev);
		if (cmd->party[i].fd >= 0)
			close(cmd->party[i].fd);
		free(cmd->party[i].name);
	}
}

/* ---------------------------------------------------------------- the negotiation */

static void heads(struct table *table, const char *const names[])
{
	for (unsigned int i = 0; i < table->ncolumns; i++)
		table_cell(table, "%s", names[i]);
}

static void add_trial(const struct dlbuf_alloc_report *r, void *data)
{
	static const char *const names[] = { "exporter", "result", "by",
					     "reason" };
	const char *result = !r->status ? "chosen" :
			     r->party[0] ? "refused" : "failed";
	struct command *cmd = data;
	cJSON *o = cJSON_CreateObject();

	cmd->nrefused += r->status && r->party[0];
	if (r->status && !r->party[0])
		snprintf(cmd->failed, sizeof(cmd->failed), "%s: %s", r->exporter,
			 r->reason);
	if (!cmd->ntrials++)
		heads(&cmd->trials, names);
	table_cell(&cmd->trials, "%s", r->exporter);
	table_cell(&cmd->trials, "%s", result);
	table_style(&cmd->trials, r->status ? STYLE_BAD : STYLE_GOOD);
	table_cell(&cmd->trials, "%s", r->party[0] ? r->party : "-");
	table_cell(&cmd->trials, "%s", r->status ? r->reason : "");
	cJSON_AddStringToObject(o, "exporter", r->exporter);
	cJSON_AddStringToObject(o, "result", result);
	cJSON_AddStringToObject(o, "party", r->party);
	cJSON_AddStringToObject(o, "reason", r->reason);
	cJSON_AddItemToArray(cmd->tried, o);
}

/* Imports the buffer again on each device, by the cache, to see the path. */
static int look_at_paths(struct command *cmd)
{
	DLBUF_INFO(dlbuf_frame, frame);
	int err = dlbuf_pool_frame(cmd->pool, 0, &frame);

	for (size_t i = 0; !err && i < cmd->n; i++) {
		DLBUF_OPTS(dlbuf_import_opts, bytes, .view = DLBUF_VIEW_BYTES);
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		DLBUF_INFO(dlbuf_tensor_info, info);
		DLBUF_INFO(dlbuf_device_stats, stats);
		struct party *p = &cmd->party[i];
		uint32_t n = 0;

		if (!p->dev) {
			snprintf(p->path, sizeof(p->path), "kernel");
			continue;
		}
		err = dlbuf_import_frame(p->dev, &frame, &bytes, t, &n);
		if (err)
			break;
		err = dlbuf_tensor_get_info(t[0], &info);
		if (!err)
			err = dlbuf_device_get_stats(p->dev, &stats);
		while (n--)
			t[n]->deleter(t[n]);
		p->copied = stats.copied_bytes;
		snprintf(p->path, sizeof(p->path), "%s",
			 dlbuf_path_name(info.path));
	}
	return err;
}

static int negotiate(struct command *cmd)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .exporter = cmd->exporter,
		   .name = "dmabuf-test", .width = cmd->width,
		   .height = cmd->height, .code = cmd->code,
		   .code_space = DLBUF_CODE_V4L2, .buffers = 1,
		   .v4l2 = cmd->nodes, .nv4l2 = cmd->nnodes,
		   .report = add_trial, .report_data = cmd);
	int err;

	cmd->buffer.size = sizeof(cmd->buffer);
	if (cmd->code == cmd->info.v4l2_multi_code)
		opts.flags = DLBUF_POOL_PLANE_FDS;
	err = dlbuf_pool_create(cmd->devs, cmd->ndevs, &opts, &cmd->pool);
	if (!err)
		err = dlbuf_pool_get_info(cmd->pool, &cmd->buffer);
	return err ? err : look_at_paths(cmd);
}

/* ---------------------------------------------------------------- output */

static void print_buffer(struct command *cmd)
{
	static const char *const parties[] = { "party", "path", "bytes copied" };
	static const char *const planes[] = { "plane", "pitch", "offset",
					      "dma-buf", "bytes" };
	struct table p = { .ncolumns = 3 }, l = { .ncolumns = 5 };
	const struct dlbuf_pool_info *b = &cmd->buffer;

	printf("\n%s%s, %lux%lu pixels, by %s%s\n", style(STYLE_BOLD),
	       format_text(&cmd->info, cmd->code).s, cmd->width, cmd->height,
	       b->exporter, style(STYLE_OFF));
	heads(&l, planes);
	for (uint32_t i = 0; i < b->nplanes; i++) {
		uint32_t fd = b->nfds > 1 ? i : 0;

		table_cell(&l, "%u", i);
		table_cell(&l, "%llu", (unsigned long long)b->pitch[i]);
		table_cell(&l, "%llu", (unsigned long long)b->offset[i]);
		table_cell(&l, "%u", fd);
		table_cell(&l, "%llu", (unsigned long long)b->bytes[fd]);
	}
	table_print(&l);
	putchar('\n');
	heads(&p, parties);
	for (size_t i = 0; i < cmd->n; i++) {
		table_cell(&p, "%s", cmd->party[i].name);
		table_cell(&p, "%s", cmd->party[i].path);
		table_cell(&p, "%llu",
			   (unsigned long long)cmd->party[i].copied);
	}
	table_print(&p);
}

static void print(struct command *cmd, bool found)
{
	if (json_alone(&cmd->json_to))
		return;
	if (cmd->ntrials)
		table_print(&cmd->trials);
	if (found)
		print_buffer(cmd);
}

static int put_json(struct command *cmd, bool found)
{
	cJSON *root = cmd->json, *buffer, *list;

	cJSON_AddStringToObject(root, "format", camera_code(cmd->code).s);
	cJSON_AddNumberToObject(root, "width", cmd->width);
	cJSON_AddNumberToObject(root, "height", cmd->height);
	list = cJSON_AddArrayToObject(root, "parties");
	for (size_t i = 0; i < cmd->n; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "name", cmd->party[i].name);
		cJSON_AddStringToObject(o, "kind", cmd->party[i].dev ?
					"device" : "v4l2");
		if (found) {
			cJSON_AddStringToObject(o, "path", cmd->party[i].path);
			cJSON_AddNumberToObject(o, "bytes_copied",
						cmd->party[i].copied);
		}
		cJSON_AddItemToArray(list, o);
	}
	if (!found) {
		cJSON_AddNullToObject(root, "exporter");
		return json_put(&cmd->json_to, root);
	}
	cJSON_AddStringToObject(root, "exporter", cmd->buffer.exporter);
	buffer = cJSON_AddArrayToObject(root, "planes");
	for (uint32_t i = 0; i < cmd->buffer.nplanes; i++) {
		uint32_t fd = cmd->buffer.nfds > 1 ? i : 0;
		cJSON *o = cJSON_CreateObject();

		cJSON_AddNumberToObject(o, "pitch", cmd->buffer.pitch[i]);
		cJSON_AddNumberToObject(o, "offset", cmd->buffer.offset[i]);
		cJSON_AddNumberToObject(o, "dmabuf", fd);
		cJSON_AddNumberToObject(o, "bytes", cmd->buffer.bytes[fd]);
		cJSON_AddItemToArray(buffer, o);
	}
	return json_put(&cmd->json_to, root);
}

static int run(struct command *cmd)
{
	int err, status = open_parties(cmd), json;

	if (status)
		return status;
	cmd->json = cJSON_CreateObject();
	cJSON_AddStringToObject(cmd->json, "dlbuf", dlbuf_version());
	cmd->tried = cJSON_AddArrayToObject(cmd->json, "trials");
	cmd->trials.ncolumns = 4;
	err = negotiate(cmd);
	if (err && cmd->nrefused)
		status = fail(STATUS_MISMATCH, "no exporter's buffer suits all "
			      "parties");
	else if (err && err != -EINVAL && cmd->ntrials)
		status = fail(STATUS_ABSENT, "no exporter can be used; %s",
			      cmd->failed);
	else if (err)
		status = fail_dlbuf(err);
	print(cmd, !err);
	if (cmd->json_to.want) {
		json = put_json(cmd, !err);
		status = status ? status : json;
	}
	cJSON_Delete(cmd->json);
	dlbuf_pool_destroy(cmd->pool);
	return status;
}

int alloc_main(int argc, char **argv)
{
	struct command cmd = { .parties = "cpu", .format = "NV12",
			       .width = 640, .height = 360 };
	int status = opts_parse(&usage, &cmd, argc, argv);

	if (status)
		return status;
	if (!camera_format_named(cmd.format, &cmd.info, &cmd.code))
		return fail(STATUS_USAGE, "V4L2 has no format '%s'; see "
			    "dmabuf-test formats", cmd.format);
	status = run(&cmd);
	close_parties(&cmd);
	return status;
}
