// SPDX-License-Identifier: MIT
/* dmabuf-test list: who makes dma-bufs here, who imports them, which cameras. */
#include <dirent.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/dlbuf.h>

#include "out.h"
#include "tool.h"
#include "v4l2.h"

static const char list_usage[] =
"usage: dmabuf-test list [OPTION]\n"
"\n"
"The exporters of dma-bufs, the importers with what they can do, and the\n"
"cameras of this machine; what is absent with the reason. Each exporter is\n"
"tried with one page, each importer is opened.\n"
"\n"
"  -j, --json    as JSON\n"
"  -h, --help    this text\n"
"\n"
"Exit status: 0, 2 bad usage, 3 the output could not be written.\n";

static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* A table or an array, whichever is wanted. */
struct listing {
	struct table table;
	cJSON *json;		/* NULL: the table */
};

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

static void add_importer_json(const struct dlbuf_device_info *info,
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
}

static int add_importer(const struct dlbuf_device_info *from, void *data)
{
	struct dlbuf_device_info info = *from;
	struct listing *list = data;

	make_printable(info.description);
	make_printable(info.driver);
	if (list->json) {
		add_importer_json(&info, list->json);
		return 0;
	}
	table_cell(&list->table, "%s", info.name);
	table_cell(&list->table, "%s", info.status ? "-" :
		   sync_name(info.acquire));
	table_cell(&list->table, "%s", info.status ? "-" :
		   sync_name(info.release));
	table_cell(&list->table, "%s%s%s", info.status ? info.reason :
		   info.description, !info.status && info.driver[0] ? ", " : "",
		   info.status ? "" : info.driver);
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
					     text_code(codes[i]).s));
		else if (len < size)
			len += snprintf(list + len, size - len, "%s%s",
					len ? " " : "", text_code(codes[i]).s);
	}
}

static void add_camera(const struct camera *cam, struct listing *list)
{
	char formats[2048] = "none that dlbuf maps";
	cJSON *o;

	if (!list->json) {
		put_formats(cam, formats, sizeof(formats), NULL);
		table_cell(&list->table, "%s", cam->node);
		table_cell(&list->table, "%s (%s)", cam->card, cam->driver);
		table_cell(&list->table, "%s", formats);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "node", cam->node);
	cJSON_AddStringToObject(o, "card", cam->card);
	cJSON_AddStringToObject(o, "driver", cam->driver);
	cJSON_AddStringToObject(o, "bus", cam->bus);
	put_formats(cam, NULL, 0, cJSON_AddArrayToObject(o, "formats"));
	cJSON_AddItemToArray(list->json, o);
}

/* What is no camera is listed too, with the sentence that says why. */
static void probe_camera(const char *name, struct listing *list)
{
	char node[300], reason[512] = "";
	struct camera cam;
	cJSON *o;
	int status;

	snprintf(node, sizeof(node), "/dev/%s", name);
	fail_divert(reason, sizeof(reason));
	status = camera_open(&cam, node);
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

static void heads(struct listing *list, const char *title,
		  const char *const heads[], unsigned int n)
{
	list->table = (struct table){ .ncolumns = n };
	printf("%s%s%s\n", style(STYLE_BOLD), title, style(STYLE_OFF));
	for (unsigned int i = 0; i < n; i++)
		table_cell(&list->table, "%s", heads[i]);
}

static int list_text(void)
{
	static const char *const exporters[] = { "name", "node", "works" };
	static const char *const importers[] = { "name", "acquire", "release",
						 "device" };
	static const char *const cameras[] = { "node", "camera",
					       "formats that dlbuf maps" };
	struct listing list = { .json = NULL };
	int n;

	heads(&list, "Exporters: who makes dma-bufs", exporters, 3);
	dlbuf_exporter_each(add_exporter, &list);
	table_print(&list.table);
	heads(&list, "\nImporters: who takes them", importers, 4);
	dlbuf_device_each(add_importer, &list);
	table_print(&list.table);
	heads(&list, "\nCameras", cameras, 3);
	n = add_cameras(&list);
	if (n <= 0) {
		table_cell(&list.table, "-");
		table_cell(&list.table, "-");
		table_cell(&list.table, "there is no /dev/video*");
	}
	table_print(&list.table);
	return 0;
}

static int list_json(void)
{
	cJSON *root = cJSON_CreateObject();
	struct listing list = { 0 };
	int status;

	cJSON_AddStringToObject(root, "dlbuf", dlbuf_version());
	list.json = cJSON_AddArrayToObject(root, "exporters");
	dlbuf_exporter_each(add_exporter, &list);
	list.json = cJSON_AddArrayToObject(root, "importers");
	dlbuf_device_each(add_importer, &list);
	list.json = cJSON_AddArrayToObject(root, "cameras");
	add_cameras(&list);
	status = json_write(root, stdout, "standard output");
	cJSON_Delete(root);
	return status;
}

int list_main(int argc, char **argv)
{
	bool json = false;
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":jh", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(list_usage, stdout);
			return 0;
		default:
			return fail_option(opt, "list", argv);
		}
	}
	if (optind < argc)
		return fail(STATUS_USAGE, "list takes no '%s'", argv[optind]);
	return json ? list_json() : list_text();
}
