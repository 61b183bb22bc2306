// SPDX-License-Identifier: MIT
/* dmabuf-test list: who makes dma-bufs here, who imports them, which cameras. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "opts.h"
#include "out.h"
#include "tool.h"
#include "names.h"
#include "v4l2.h"

struct command {
	struct json_to json;
};

static const struct opt options[] = {
	OPT_JSON(struct command, json),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "list",
	.about =
"Lists the exporters of dma-bufs, the importers with their capabilities, paths and\n"
"modifiers of frames, and the cameras of this machine, with the reason for each that\n"
"is absent or refused. Allocates a page from each exporter, opens each importer, and\n"
"tries each of its paths.\n",
	.end =
"Exit status: 0, 2 bad usage, 3 the output could not be written.\n",
	.opts = options,
};

/* A table or an array, whichever is wanted. */
struct listing {
	struct table table;
	cJSON *json;		/* NULL: the table */
	struct table paths, modifiers;	/* of the importers' */
	struct sample *sample;
};

/* A dma-buf to try the importers with. */
struct sample {
	struct dlbuf_udmabuf buf;
	char exporter[64];	/* "": there is none */
	int status;		/* of udmabuf, where it is not that */
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
 * Of udmabuf, whose memfd is known then: devices that only register host memory
 * want it. Where there is none, of the first exporter that works.
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

static int add_exporter(const struct dlbuf_exporter_info *info, void *data)
{
	struct listing *list = data;

	if (list->json) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "name", info->name);
		cJSON_AddStringToObject(o, "node", info->node);
		cJSON_AddNumberToObject(o, "status", info->status);
		cJSON_AddStringToObject(o, "reason", info->reason);
		cJSON_AddItemToArray(list->json, o);
		return 0;
	}
	table_cell(&list->table, "%s", info->name);
	table_cell(&list->table, "%s", info->node);
	table_cell(&list->table, "%s", info->status ? info->reason : "yes");
	return 0;
}

/* ---------------------------------------------------------------- paths */

struct prober {
	const char *device;
	struct table *table;
	cJSON *json;		/* NULL: the table */
};

static void put_path(struct prober *p, const char *path, int status,
		     const char *said)
{
	char reason[512];
	cJSON *o;

	snprintf(reason, sizeof(reason), "%s", said);
	make_printable(reason);
	if (!p->json) {
		table_cell(p->table, "%s", p->device);
		table_cell(p->table, "%s", path);
		table_cell(p->table, "%s", status ? reason : "yes");
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "path", path);
	cJSON_AddNumberToObject(o, "status", status);
	cJSON_AddStringToObject(o, "reason", reason);
	cJSON_AddItemToArray(p->json, o);
}

static int add_path(const struct dlbuf_path_info *info, void *data)
{
	put_path(data, dlbuf_path_name(info->path), info->status, info->reason);
	return 0;
}

/* "-" is no path: that none could be tried. */
static void add_paths(struct dlbuf_device *dev, struct prober *p,
		      const struct sample *sample)
{
	int ret;

	if (!sample->exporter[0]) {
		put_path(p, "-", sample->status, sample->reason);
		return;
	}
	ret = dlbuf_probe(dev, sample->buf.fd, 0, add_path, p);
	if (ret)
		put_path(p, "-", ret, dlbuf_last_error());
}

/* ---------------------------------------------------------------- modifiers */

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

static void put_modifier(const char *modifier, char *formats, cJSON *array)
{
	cJSON *o = cJSON_CreateObject(), *names;
	char *name;

	cJSON_AddStringToObject(o, "modifier", modifier);
	names = cJSON_AddArrayToObject(o, "formats");
	while ((name = strsep(&formats, " ")))
		cJSON_AddItemToArray(names, cJSON_CreateString(name));
	cJSON_AddItemToArray(array, o);
}

/* LINEAR is every device's, for all formats, and no line of the JSON. */
static void add_modifiers(struct dlbuf_device *dev, const char *name,
			  struct table *table, cJSON *array)
{
	struct modifiers m = { .n = 0 };

	dlbuf_device_formats(dev, add_modifier, &m);
	if (!array) {
		table_cell(table, "%s", name);
		table_cell(table, "LINEAR");
		table_cell(table, "all");
	}
	for (uint32_t i = 0; i < m.n; i++) {
		char text[24];

		snprintf(text, sizeof(text), "0x%016llx",
			 (unsigned long long)m.list[i].modifier);
		if (array) {
			put_modifier(text, m.list[i].formats, array);
		} else {
			table_cell(table, "%s", name);
			table_cell(table, "%s", text);
			table_cell(table, "%s", m.list[i].formats);
		}
		free(m.list[i].formats);
	}
}

/* ---------------------------------------------------------------- importers */

static cJSON *add_importer_json(const struct dlbuf_device_info *info,
				cJSON *array)
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
	cJSON_AddStringToObject(o, "reason", info->reason);
	cJSON_AddItemToArray(array, o);
	return o;
}

static void add_importer_row(const struct dlbuf_device_info *info,
			     struct table *table)
{
	table_cell(table, "%s", info->name);
	table_cell(table, "%s", info->status ? "-" : sync_name(info->acquire));
	table_cell(table, "%s", info->status ? "-" : sync_name(info->release));
	if (info->status)
		table_cell(table, "%s", info->reason);
	else
		table_cell(table, "%s%s%s%s%s", info->description,
			   info->driver[0] ? ", " : "", info->driver,
			   info->reason[0] ? "; " : "", info->reason);
}

/* Opened: only then is it known how it keeps order. NULL: info says why. */
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

static int add_importer(const struct dlbuf_device_info *from, void *data)
{
	struct dlbuf_device_info info = *from;
	struct dlbuf_device *dev = open_importer(&info);
	struct listing *list = data;
	struct prober prober = { .device = info.name, .table = &list->paths };
	cJSON *modifiers = NULL, *o;

	make_printable(info.description);
	make_printable(info.driver);
	make_printable(info.reason);
	if (list->json) {
		o = add_importer_json(&info, list->json);
		prober.json = cJSON_AddArrayToObject(o, "paths");
		modifiers = cJSON_AddArrayToObject(o, "modifiers");
	} else {
		add_importer_row(&info, &list->table);
	}
	if (dev) {
		add_paths(dev, &prober, list->sample);
		add_modifiers(dev, info.name, &list->modifiers, modifiers);
	}
	dlbuf_device_close(dev);
	return 0;
}

/* The camera's formats that dlbuf maps, as text or into an array. */
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
		if (array)
			cJSON_AddItemToArray(array, cJSON_CreateString(
					     camera_code(codes[i]).s));
		else if (len < size)
			len += snprintf(list + len, size - len, "%s%s",
					len ? " " : "", camera_code(codes[i]).s);
	}
}

static void add_camera(const struct camera *cam, struct listing *list)
{
	char formats[2048] = "none that dlbuf maps";
	cJSON *o;

	if (!list->json) {
		put_formats(cam, formats, sizeof(formats), NULL);
		table_cell(&list->table, "%s", cam->node);
		table_cell(&list->table, "%s (%s)", cam->info.card, cam->info.driver);
		table_cell(&list->table, "%s", formats);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "node", cam->node);
	cJSON_AddStringToObject(o, "card", cam->info.card);
	cJSON_AddStringToObject(o, "driver", cam->info.driver);
	cJSON_AddStringToObject(o, "bus", cam->info.bus);
	put_formats(cam, NULL, 0, cJSON_AddArrayToObject(o, "formats"));
	cJSON_AddItemToArray(list->json, o);
}

/* What is no camera is listed too, with the sentence that says why. */
static void probe_camera(const char *name, struct listing *list)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .flags = DLBUF_CAMERA_PROBE);
	char node[300], reason[512] = "";
	struct camera cam;
	cJSON *o;
	int status;

	snprintf(node, sizeof(node), "/dev/%s", name);
	fail_divert(reason, sizeof(reason));
	status = camera_open(&cam, node, &opts);
	fail_divert(NULL, 0);
	if (!status) {
		add_camera(&cam, list);
		camera_close(&cam);
	} else if (list->json) {
		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "node", node);
		cJSON_AddStringToObject(o, "reason", reason);
		cJSON_AddItemToArray(list->json, o);
	} else {
		table_cell(&list->table, "%s", node);
		table_cell(&list->table, "-");
		table_cell(&list->table, "%s", reason);
	}
}

static int is_video(const struct dirent *d)
{
	return !strncmp(d->d_name, "video", 5) && d->d_name[5] >= '0' &&
	       d->d_name[5] <= '9';
}

static int add_cameras(struct listing *list)
{
	struct dirent **names;
	int n = scandir("/dev", &names, is_video, versionsort);

	for (int i = 0; i < n; i++) {
		probe_camera(names[i]->d_name, list);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return n;
}

static void put_title(const char *title)
{
	printf("%s%s%s\n", style(STYLE_BOLD), title, style(STYLE_OFF));
}

static void begin(struct table *table, const char *const heads[],
		  unsigned int n)
{
	*table = (struct table){ .ncolumns = n };
	for (unsigned int i = 0; i < n; i++)
		table_cell(table, "%s", heads[i]);
}

/* The importers, by which paths they take the sample, and what frames they read. */
static void list_importers(struct listing *list)
{
	static const char *const importers[] = { "name", "acquire", "release",
						 "device" };
	static const char *const paths[] = { "name", "path", "works" };
	static const char *const modifiers[] = { "name", "modifier",
						 "formats" };
	const char *exporter = list->sample->exporter;
	char title[128];

	begin(&list->table, importers, ARRAY_SIZE(importers));
	begin(&list->paths, paths, ARRAY_SIZE(paths));
	begin(&list->modifiers, modifiers, ARRAY_SIZE(modifiers));
	dlbuf_device_each(add_importer, list);
	put_title("\nImporters: who takes them");
	table_print(&list->table);
	snprintf(title, sizeof(title), "\nPaths: how they take a dma-buf%s%s",
		 exporter[0] ? " of " : "", exporter);
	put_title(title);
	table_print(&list->paths);
	put_title("\nModifiers: which frames they take, others than LINEAR by a copy");
	table_print(&list->modifiers);
}

static void list_cameras(struct listing *list)
{
	static const char *const cameras[] = { "node", "camera",
					       "formats that dlbuf maps" };

	put_title("\nCameras");
	begin(&list->table, cameras, ARRAY_SIZE(cameras));
	if (add_cameras(list) <= 0) {
		table_cell(&list->table, "-");
		table_cell(&list->table, "-");
		table_cell(&list->table, "there is no /dev/video*");
	}
	table_print(&list->table);
}

static void list_text(struct sample *sample)
{
	static const char *const exporters[] = { "name", "node", "works" };
	struct listing list = { .sample = sample };

	put_title("Exporters: who makes dma-bufs");
	begin(&list.table, exporters, ARRAY_SIZE(exporters));
	dlbuf_exporter_each(add_exporter, &list);
	table_print(&list.table);
	list_importers(&list);
	list_cameras(&list);
}

static int list_json(const struct json_to *to, struct sample *sample)
{
	struct listing list = { .sample = sample };
	cJSON *root = cJSON_CreateObject();
	int status;

	cJSON_AddStringToObject(root, "dlbuf", dlbuf_version());
	list.json = cJSON_AddArrayToObject(root, "exporters");
	dlbuf_exporter_each(add_exporter, &list);
	cJSON_AddStringToObject(root, "paths_of", sample->exporter);
	list.json = cJSON_AddArrayToObject(root, "importers");
	dlbuf_device_each(add_importer, &list);
	list.json = cJSON_AddArrayToObject(root, "cameras");
	add_cameras(&list);
	status = json_put(to, root);
	cJSON_Delete(root);
	return status;
}

int list_main(int argc, char **argv)
{
	struct command cmd = { 0 };
	struct sample sample;
	int status = opts_parse(&usage, &cmd, argc, argv);

	if (status)
		return status;
	sample_open(&sample);
	if (!json_alone(&cmd.json))
		list_text(&sample);
	if (cmd.json.want)
		status = list_json(&cmd.json, &sample);
	sample_close(&sample);
	return status;
}
