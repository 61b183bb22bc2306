// SPDX-License-Identifier: MIT
/* Lists the exporters and the importers of the matrix, in a process that ends. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "matrix.h"
#include "out.h"
#include "survey.h"

/* Drivers that run on the CPU. Some take any fd that can be mapped: no proof of an import. */
static const char *const software[] = {
	"llvmpipe", "lavapipe", "softpipe", "SwiftShader", "Portable Computing Language", "PoCL",
};

void child_send_party(int fd, const char *list, const struct party *p)
{
	char reason[512];
	cJSON *o = cJSON_CreateObject();

	snprintf(reason, sizeof(reason), "%s",
		 p->reason ? reason_of(p->name, p->reason) : "");
	make_printable(reason);
	cJSON_AddStringToObject(o, "name", p->name);
	cJSON_AddStringToObject(o, "kind", p->kind);
	cJSON_AddStringToObject(o, "node", p->node ? p->node : "");
	cJSON_AddStringToObject(o, "driver", p->driver ? p->driver : "");
	if (!strcmp(list, "importers")) {
		cJSON_AddStringToObject(o, "description",
					p->description ? p->description : "");
		cJSON_AddBoolToObject(o, "software", p->software);
	}
	cJSON_AddBoolToObject(o, "double", p->is_double);
	cJSON_AddNumberToObject(o, "status", p->status);
	cJSON_AddStringToObject(o, "reason", p->status ? reason : "");
	child_send(fd, list, o);
}

static int send_exporter(const struct dlbuf_exporter_info *info, void *data)
{
	int *fd = data;
	char kind[32];

	/* The word before the colon. */
	snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(info->name, ":"), info->name);
	child_send_party(*fd, "exporters", &(struct party){
		.name = info->name, .node = info->node, .status = info->status,
		.kind = kind, .reason = info->reason });
	return 0;
}

/* A double of a driver (tests/doubles) exports fake_NAME; this looks for it. */
static int is_fake(struct dl_phdr_info *info, size_t size, void *data)
{
	void *lib = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	bool found = lib && *info->dlpi_name && dlsym(lib, data);

	(void)size;
	if (lib)
		dlclose(lib);
	return found;
}

static bool has_double(const char *backend)
{
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "fake_%s", backend);
	return dl_iterate_phdr(is_fake, symbol);
}

static bool is_software(const struct dlbuf_device_info *info)
{
	for (size_t i = 0; i < ARRAY_SIZE(software); i++)
		if (strcasestr(info->description, software[i]) ||
		    strcasestr(info->driver, software[i]))
			return true;
	return false;
}

/* The device's own memory as an exporter. */
static void send_own(int fd, const struct dlbuf_device_info *info, bool is_double)
{
	char name[64], why[512] = "";
	struct buffer b;
	int status;

	snprintf(name, sizeof(name), "device:%s", info->name);
	fail_divert(why, sizeof(why));
	status = buffer_open(&b, name, 4096);
	fail_divert(NULL, 0);
	if (!status)
		buffer_close(&b);
	child_send_party(fd, "exporters", &(struct party){
		.name = name, .kind = "device", .driver = info->driver,
		.is_double = is_double, .status = status ? -EOPNOTSUPP : 0, .reason = why });
}

/* A device as dlbuf_device_each() reports it, or only its name if nothing else is known. */
static int send_device(const struct dlbuf_device_info *from, void *data)
{
	struct dlbuf_device_info info = *from;
	struct dlbuf_device *dev = NULL;
	struct party p = { .name = info.name, .kind = "device" };
	int *fd = data;

	if (!info.status)
		info.status = dlbuf_device_open(info.name, NULL, &dev);
	if (dev)
		dlbuf_device_get_info(dev, &info);
	else if (info.status == -EINVAL)
		return 0;
	else if (!from->status)
		snprintf(info.reason, sizeof(info.reason), "%s", dlbuf_last_error());
	/* The name as the user gave it, "vulkan:llvmpipe" for instance. */
	memcpy(info.name, from->name, sizeof(info.name));
	make_printable(info.description);
	make_printable(info.driver);
	p.driver = info.driver;
	p.description = info.description;
	p.reason = info.reason;
	p.status = info.status;
	p.software = is_software(&info);
	snprintf(info.backend, sizeof(info.backend), "%.*s",
		 (int)strcspn(info.name, ":"), info.name);
	p.is_double = has_double(info.backend);
	child_send_party(*fd, "importers", &p);
	dlbuf_device_close(dev);
	if (dev)
		send_own(*fd, &info, p.is_double);
	return 0;
}

static bool has_wildcards(const char *list)
{
	return strpbrk(list, "*?[") || !strcmp(list, "all");
}

/* The devices of the backend that a LIST names, and those whose memory it names. */
static void send_named(int fd, const char *backend, const char *list)
{
	char *copy = strdup(list), *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		struct dlbuf_device_info info = { .size = sizeof(info) };

		if (!strncmp(name, "device:", 7))
			name += 7;
		snprintf(info.name, sizeof(info.name), "%s", name);
		if (strlen(backend) == strcspn(name, ":") &&
		    !strncmp(name, backend, strlen(backend)))
			send_device(&info, &fd);
	}
	free(copy);
}

/* Loads only the drivers that were asked for, because another one may crash. */
static void list_devices(int fd, const char *backend, const char *devices,
			 const char *exporters)
{
	if (has_wildcards(devices) || has_wildcards(exporters)) {
		backend_each(backend, send_device, &fd);
	} else {
		send_named(fd, backend, devices);
		send_named(fd, backend, exporters);
	}
}

int matrix_list_main(int fd, char **argv)
{
	const char *what = argv[0];

	if (!strcmp(what, "exporters")) {
		dlbuf_exporter_each(send_exporter, &fd);
		drm_list(fd, true);
		v4l2_list(fd, true);
	} else if (!strcmp(what, "nodes")) {
		v4l2_list(fd, false);
		drm_list(fd, false);
	} else {
		list_devices(fd, what, argv[1], argv[2]);
	}
	return CHILD_WELL;
}
