// SPDX-License-Identifier: MIT
/* dmabuf-test list: the exporters, importers and cameras of this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "child.h"
#include "names.h"
#include "opts.h"
#include "out.h"
#include "survey.h"
#include "tool.h"
#include "camera/v4l2.h"

struct command {
	struct json_to json;
	unsigned long timeout;
};

static const struct opt options[] = {
	{ 't', "timeout", "SECONDS", "how long a driver may take before it hangs (60)",
	  .kind = OPT_NUMBER, .to = offsetof(struct command, timeout),
	  .low = 1, .high = 3600 },
	OPT_JSON(struct command, json),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "list",
	.about =
"Lists the exporters of dma-bufs, the importers with their capabilities, paths and\n"
"modifiers of frames, and the cameras of this machine, with the reason for each that\n"
"is absent or refused. Allocates a page from each exporter, opens each importer, and\n"
"tries each of its paths. The drivers of each importer run in a process of their own:\n"
"one that crashes or hangs costs its own lines.\n",
	.end =
"Exit status: 0, 2 bad usage, 3 interrupted, or the output could not be written.\n",
	.opts = options,
};

/* The results, as tables and as JSON. */
struct listing {
	struct table exporters, importers, paths, modifiers, cameras;
	cJSON *root, *json;		/* json: the current list */
	cJSON *json_paths, *json_modifiers;	/* of the last importer */
	struct sample *sample;
};

/* A message of a child that runs the drivers of a backend; the importer is the first message. */
struct message {
	enum { IMPORTER, PATH, MODIFIER } kind;
	struct dlbuf_device_info importer;
	char what[32];		/* the path or the modifier */
	int status;
	char text[8192];	/* reason why a path does not work, or the formats */
};

/* A dma-buf to try the importers with. */
struct sample {
	struct dlbuf_udmabuf buf;
	char exporter[64];	/* "": there is none */
	int status;		/* status of udmabuf, if the exporter is another one */
	char reason[512];
};

static int sample_of(const struct dlbuf_exporter_info *info, void *data)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = info->name);
	struct sample *s = data;

	if (info->status || dlbuf_alloc_fd(1, &opts, &s->buf.fd))
		return 0;
	snprintf(s->exporter, sizeof(s->exporter), "%s", info->name);
	return 1;
}

/*
 * Makes a dma-buf of udmabuf, whose memfd is then known: devices that only
 * register host memory need it. Without udmabuf the first exporter that works
 * makes the dma-buf.
 */
static void sample_open(struct sample *s)
{
	*s = (struct sample){ 0 };
	s->status = dlbuf_udmabuf_create(1, NULL, &s->buf);
	if (!s->status) {
		snprintf(s->exporter, sizeof(s->exporter), "udmabuf");
		return;
	}
	snprintf(s->reason, sizeof(s->reason), "no dma-buf to try with: %s",
		 dlbuf_last_error());
	s->buf = (struct dlbuf_udmabuf){ .fd = -1, .memfd = -1 };
	dlbuf_exporter_each(sample_of, s);
}

static void sample_close(struct sample *s)
{
	if (!s->status)
		dlbuf_udmabuf_close(&s->buf);
	else if (s->buf.fd >= 0)
		close(s->buf.fd);
}

static const char *sync_name(enum dlbuf_sync sync)
{
	switch (sync) {
	case DLBUF_SYNC_BLOCKS:
		return "blocks";
	case DLBUF_SYNC_EVENT:
		return "event";
	case DLBUF_SYNC_FENCE:
		return "fence";
	}
	return "";
}

/* The kernel's fdinfo of a dma-buf of the exporter. */
static void add_fdinfo(cJSON *o, const struct dlbuf_exporter_info *info)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = info->name);
	char path[64], text[1024] = "";
	FILE *f;
	int fd;

	if (!info->status && !dlbuf_alloc_fd(1, &opts, &fd)) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		f = fopen(path, "re");
		if (f) {
			text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
			fclose(f);
		}
		close(fd);
	}
	cJSON_AddStringToObject(o, "fdinfo", text);
}

static int add_exporter(const struct dlbuf_exporter_info *info, void *data)
{
	struct listing *list = data;
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", info->name);
	cJSON_AddStringToObject(o, "node", info->node);
	cJSON_AddNumberToObject(o, "status", info->status);
	cJSON_AddStringToObject(o, "reason", info->reason);
	add_fdinfo(o, info);
	cJSON_AddItemToArray(list->json, o);
	table_cell(&list->exporters, "%s", info->name);
	table_cell(&list->exporters, "%s", info->node);
	table_cell(&list->exporters, "%s", info->status ? info->reason : "yes");
	return 0;
}

/* ---------------------------------------------------------------- importers, in a child */

/* State for the messages about one device. */
struct prober {
	int fd;
	struct message *m;
};

static void send_message(const struct prober *p, int kind, const char *what,
			 int status, const char *text)
{
	struct message *m = p->m;
	ssize_t n;

	m->kind = kind;
	m->status = status;
	snprintf(m->what, sizeof(m->what), "%s", what);
	snprintf(m->text, sizeof(m->text), "%s", text);
	make_printable(m->text);
	n = write(p->fd, m, offsetof(struct message, text) + strlen(m->text) + 1);
	(void)n;
}

static int send_path(const struct dlbuf_path_info *info, void *data)
{
	send_message(data, PATH, dlbuf_path_name(info->path), info->status,
		     info->reason);
	return 0;
}

/* "-" is no path: no path could be tried. */
static void send_paths(struct dlbuf_device *dev, struct prober *p,
		       const struct sample *sample)
{
	int ret;

	if (!sample->exporter[0]) {
		send_message(p, PATH, "-", sample->status, sample->reason);
		return;
	}
	ret = dlbuf_probe(dev, sample->buf.fd, 0, send_path, p);
	if (ret)
		send_message(p, PATH, "-", ret, dlbuf_last_error());
}

#define MAX_MODIFIERS 128

/* The modifiers of a device besides LINEAR, each with its formats. */
struct modifiers {
	struct {
		uint64_t modifier;
		char *formats;	/* separated by spaces */
	} list[MAX_MODIFIERS];
	uint32_t n;
};

static void add_format(struct modifiers *m, uint64_t modifier, const char *name)
{
	char *formats;
	uint32_t i = 0;

	while (i < m->n && m->list[i].modifier != modifier)
		i++;
	if (i == MAX_MODIFIERS ||
	    asprintf(&formats, "%s%s%s", i < m->n ? m->list[i].formats : "",
		     i < m->n ? " " : "", name) < 0)
		return;
	if (i < m->n)
		free(m->list[i].formats);
	else
		m->list[m->n++].modifier = modifier;
	m->list[i].formats = formats;
}

static int add_modifier(const struct dlbuf_device_format *f, void *data)
{
	if (f->modifier != DLBUF_MOD_LINEAR)
		add_format(data, f->modifier, f->name);
	return 0;
}

static void send_modifiers(struct dlbuf_device *dev, struct prober *p)
{
	struct modifiers m = { .n = 0 };
	char text[24];

	dlbuf_device_formats(dev, add_modifier, &m);
	for (uint32_t i = 0; i < m.n; i++) {
		snprintf(text, sizeof(text), "0x%016llx",
			 (unsigned long long)m.list[i].modifier);
		send_message(p, MODIFIER, text, 0, m.list[i].formats);
		free(m.list[i].formats);
	}
}

/* Opens the device, because only an open device knows how it waits. NULL: info has the reason. */
static struct dlbuf_device *open_importer(struct dlbuf_device_info *info)
{
	struct dlbuf_device *dev = NULL;

	if (info->status)
		return NULL;
	info->status = dlbuf_device_open(info->name, NULL, &dev);
	if (!info->status) {
		dlbuf_device_get_info(dev, info);
		return dev;
	}
	snprintf(info->reason, sizeof(info->reason), "%s", dlbuf_last_error());
	return NULL;
}

struct child {
	int fd;
	const struct sample *sample;
};

static int send_importer(const struct dlbuf_device_info *from, void *data)
{
	static struct message m;
	const struct child *child = data;
	struct prober p = { .fd = child->fd, .m = &m };
	struct dlbuf_device *dev;

	m.importer = *from;
	dev = open_importer(&m.importer);
	send_message(&p, IMPORTER, "", 0, "");
	if (dev) {
		send_paths(dev, &p, child->sample);
		send_modifiers(dev, &p);
	}
	dlbuf_device_close(dev);
	return 0;
}

/* ---------------------------------------------------------------- importers, here */

static void add_importer_json(const struct dlbuf_device_info *info,
			      struct listing *list)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", info->name);
	cJSON_AddStringToObject(o, "backend", info->backend);
	cJSON_AddStringToObject(o, "description", info->description);
	cJSON_AddStringToObject(o, "driver", info->driver);
	cJSON_AddNumberToObject(o, "device_type", info->device.device_type);
	cJSON_AddNumberToObject(o, "device_id", info->device.device_id);
	cJSON_AddStringToObject(o, "acquire", sync_name(info->acquire));
	cJSON_AddStringToObject(o, "release", sync_name(info->release));
	cJSON_AddNumberToObject(o, "status", info->status);
	cJSON_AddStringToObject(o, "reason",
				reason_of(info->name, info->reason));
	list->json_paths = cJSON_AddArrayToObject(o, "paths");
	list->json_modifiers = cJSON_AddArrayToObject(o, "modifiers");
	cJSON_AddItemToArray(list->json, o);
}

static void add_row(struct table *table, const char *a, const char *b,
		    const char *c)
{
	table_cell(table, "%s", a);
	table_cell(table, "%s", b);
	table_cell(table, "%s", c);
}

static void add_importer(const struct dlbuf_device_info *from,
			 struct listing *list)
{
	struct dlbuf_device_info info = *from;

	make_printable(info.description);
	make_printable(info.driver);
	make_printable(info.reason);
	add_importer_json(&info, list);
	add_row(&list->importers, info.name,
		info.status ? "-" : sync_name(info.acquire),
		info.status ? "-" : sync_name(info.release));
	if (info.status)
		table_cell(&list->importers, "%s",
			   reason_of(info.name, info.reason));
	else
		table_cell(&list->importers, "%s%s%s%s%s", info.description,
			   info.driver[0] ? ", " : "", info.driver,
			   info.reason[0] ? "; " : "", info.reason);
	/* Every device has LINEAR for all formats, so it has no line in the JSON. */
	if (!info.status)
		add_row(&list->modifiers, info.name, "LINEAR", "all");
}

static void add_path(const struct message *m, struct listing *list)
{
	cJSON *o = cJSON_CreateObject();

	add_row(&list->paths, m->importer.name, m->what,
		m->status ? m->text : "yes");
	cJSON_AddStringToObject(o, "path", m->what);
	cJSON_AddNumberToObject(o, "status", m->status);
	cJSON_AddStringToObject(o, "reason", m->text);
	cJSON_AddItemToArray(list->json_paths, o);
}

static void put_modifier(struct message *m, struct listing *list)
{
	cJSON *o = cJSON_CreateObject(), *names;
	char *rest = m->text, *name;

	add_row(&list->modifiers, m->importer.name, m->what, m->text);
	cJSON_AddStringToObject(o, "modifier", m->what);
	names = cJSON_AddArrayToObject(o, "formats");
	while ((name = strsep(&rest, " ")))
		cJSON_AddItemToArray(names, cJSON_CreateString(name));
	cJSON_AddItemToArray(list->json_modifiers, o);
}

static void add_message(struct message *m, struct listing *list)
{
	if (m->kind == IMPORTER)
		add_importer(&m->importer, list);
	else if (m->kind == PATH)
		add_path(m, list);
	else
		put_modifier(m, list);
}

/* If a driver crashes or hangs, one more line has this reason. */
static void add_ended(const char *backend, const char *why, struct listing *list)
{
	struct dlbuf_device_info info = { .status = -EIO };

	snprintf(info.name, sizeof(info.name), "%s", backend);
	snprintf(info.backend, sizeof(info.backend), "%s", backend);
	snprintf(info.reason, sizeof(info.reason), "%s", why);
	add_importer(&info, list);
}

static int add_backend(const char *backend, struct listing *list, int limit_ms)
{
	static struct message m;
	struct child child = { .sample = list->sample };
	struct child_end end;
	ssize_t got;
	int fd;
	pid_t pid = child_start(&fd);

	if (pid < 0)
		return STATUS_SYSTEM;
	if (!pid) {
		child.fd = fd;
		backend_each(backend, send_importer, &child);
		_exit(CHILD_WELL);
	}
	while ((got = child_receive(fd, &m, sizeof(m), limit_ms)) > 0)
		add_message(&m, list);
	close(fd);
	end = child_reap(pid, got < 0, limit_ms);
	if (*end.text && !interrupted)
		add_ended(backend, end.text, list);
	return 0;
}

static int add_importers(struct listing *list, int limit_ms)
{
	int status = 0;

	for (size_t i = 0; !status && !interrupted && backends[i]; i++)
		status = add_backend(backends[i], list, limit_ms);
	return status;
}

/* ---------------------------------------------------------------- cameras */

/* The camera's formats that dlbuf maps, as text and into an array. */
static void put_formats(const struct camera *cam, char *list, size_t size,
			cJSON *array)
{
	uint32_t codes[256], n = camera_formats(cam, codes, ARRAY_SIZE(codes));
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct dlbuf_format_info info = { .size = sizeof(info) };

		if (dlbuf_format_find(codes[i], 0, DLBUF_CODE_V4L2, &info) ||
		    info.reason)
			continue;
		cJSON_AddItemToArray(array, cJSON_CreateString(
				     camera_code(codes[i]).s));
		if (len < size)
			len += snprintf(list + len, size - len, "%s%s",
					len ? " " : "",
					format_text(&info, codes[i]).s);
	}
}

static void add_camera(const struct camera *cam, struct listing *list)
{
	char formats[4096] = "none that dlbuf maps", name[128];
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "node", cam->node);
	cJSON_AddStringToObject(o, "card", cam->info.card);
	cJSON_AddStringToObject(o, "driver", cam->info.driver);
	cJSON_AddStringToObject(o, "bus", cam->info.bus);
	put_formats(cam, formats, sizeof(formats),
		    cJSON_AddArrayToObject(o, "formats"));
	cJSON_AddItemToArray(list->json, o);
	snprintf(name, sizeof(name), "%s (%s)", cam->info.card, cam->info.driver);
	add_row(&list->cameras, cam->node, name, formats);
}

/* A node that is no camera is listed too, with the reason. */
static void probe_camera(const char *node, void *data)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .flags = DLBUF_CAMERA_PROBE);
	struct listing *list = data;
	char reason[512] = "";
	struct camera cam;
	cJSON *o;
	int status;

	if (interrupted)
		return;
	fail_divert(reason, sizeof(reason));
	status = camera_open(&cam, node, &opts);
	fail_divert(NULL, 0);
	if (!status) {
		add_camera(&cam, list);
		camera_close(&cam);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "node", node);
	cJSON_AddStringToObject(o, "reason", reason);
	cJSON_AddItemToArray(list->json, o);
	add_row(&list->cameras, node, "-", reason);
}

static void add_cameras(struct listing *list)
{
	if (!camera_nodes(probe_camera, list))
		add_row(&list->cameras, "-", "-", "there is no /dev/video*");
}

/* ---------------------------------------------------------------- the command */

static void put_table(const char *title, struct table *table)
{
	printf("%s%s%s\n", style(STYLE_BOLD), title, style(STYLE_OFF));
	table_print(table);
}

static void print(struct listing *list)
{
	const char *exporter = list->sample->exporter;
	char title[128];

	put_table("Exporters: who makes dma-bufs", &list->exporters);
	put_table("\nImporters: who takes them", &list->importers);
	snprintf(title, sizeof(title), "\nPaths: how they take a dma-buf%s%s",
		 exporter[0] ? " of " : "", exporter);
	put_table(title, &list->paths);
	put_table("\nModifiers: which frames they take, others than LINEAR by a copy",
		  &list->modifiers);
	put_table("\nCameras", &list->cameras);
}

static void put_heads(struct listing *list)
{
	list->exporters.ncolumns = list->paths.ncolumns = 3;
	list->modifiers.ncolumns = list->cameras.ncolumns = 3;
	list->importers.ncolumns = 4;
	add_row(&list->exporters, "name", "node", "works");
	add_row(&list->importers, "name", "acquire", "release");
	table_cell(&list->importers, "device");
	add_row(&list->paths, "name", "path", "works");
	add_row(&list->modifiers, "name", "modifier", "formats");
	add_row(&list->cameras, "node", "camera", "formats that dlbuf maps");
}

static int fill(struct listing *list, int limit_ms)
{
	int status;

	put_heads(list);
	cJSON_AddStringToObject(list->root, "dlbuf", dlbuf_version());
	list->json = cJSON_AddArrayToObject(list->root, "exporters");
	dlbuf_exporter_each(add_exporter, list);
	cJSON_AddStringToObject(list->root, "paths_of", list->sample->exporter);
	list->json = cJSON_AddArrayToObject(list->root, "importers");
	status = add_importers(list, limit_ms);
	list->json = cJSON_AddArrayToObject(list->root, "cameras");
	if (!status)
		add_cameras(list);
	return interrupted ? fail(STATUS_SYSTEM, "interrupted") : status;
}

int list_main(int argc, char **argv)
{
	struct command cmd = { .timeout = SURVEY_MS / 1000 };
	struct sample sample;
	struct listing list = { .sample = &sample };
	int status = opts_parse(&usage, &cmd, argc, argv);

	if (status)
		return status;
	sample_open(&sample);
	list.root = cJSON_CreateObject();
	status = fill(&list, cmd.timeout * 1000);
	if (!status && !json_alone(&cmd.json))
		print(&list);
	if (!status && cmd.json.want)
		status = json_put(&cmd.json, list.root);
	cJSON_Delete(list.root);
	sample_close(&sample);
	return status;
}
