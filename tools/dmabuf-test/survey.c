// SPDX-License-Identifier: MIT
/* Looks for devices, each backend in a process of its own. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/base.h>

#include "child.h"
#include "out.h"
#include "survey.h"
#include "tool.h"

#define BACKEND(name) #name,
#define BACKEND_OFF(name)
const char *const backends[] = {
#include <generated/backends.h>
	NULL
};

#define MAX_DEVICES 64

struct found {
	const char *backend;
	struct dlbuf_device_info info[MAX_DEVICES];
	unsigned int n;
};

static int keep(const struct dlbuf_device_info *info, void *data)
{
	struct found *f = data;

	if (!strcmp(info->backend, f->backend) && f->n < MAX_DEVICES)
		f->info[f->n++] = *info;
	return 0;
}

static void variable_of(char s[64], const char *backend)
{
	snprintf(s, 64, "DLBUF_%s_LIBRARY", backend);
	for (; *s; s++)
		*s = toupper(*s);
}

void backend_each(const char *backend, dlbuf_device_fn fn, void *data)
{
	static struct found found;
	const char *before[ARRAY_SIZE(backends)];
	char variable[64];

	for (size_t i = 0; backends[i]; i++) {
		variable_of(variable, backends[i]);
		before[i] = getenv(variable);
		if (strcmp(backends[i], backend))
			setenv(variable, "/nonexistent", 1);
	}
	found = (struct found){ .backend = backend };
	dlbuf_device_each(keep, &found);
	/* A device may import by another backend's driver: CUDA by Vulkan's. */
	for (size_t i = 0; backends[i]; i++) {
		variable_of(variable, backends[i]);
		if (!before[i])
			unsetenv(variable);
		else
			setenv(variable, before[i], 1);
	}
	for (unsigned int i = 0; i < found.n; i++)
		if (fn(&found.info[i], data))
			break;
}

static int send_info(const struct dlbuf_device_info *info, void *data)
{
	int *fd = data;

	return write(*fd, info, sizeof(*info)) == sizeof(*info) ? 0 : -EIO;
}

/* Opened, which shows more than a list does. */
static int send_opened(const struct dlbuf_device_info *from, void *data)
{
	struct dlbuf_device_info info = *from;
	struct dlbuf_device *dev;

	if (!info.status)
		info.status = dlbuf_device_open(info.name, NULL, &dev);
	else
		return send_info(&info, data);
	if (info.status) {
		snprintf(info.reason, sizeof(info.reason), "%s",
			 dlbuf_last_error());
	} else {
		dlbuf_device_get_info(dev, &info);
		dlbuf_device_close(dev);
	}
	return send_info(&info, data);
}

/* All devices of a backend, or the device of this name. */
static int survey(const char *name, bool backend, int limit_ms,
		  dlbuf_device_fn fn, void *data)
{
	struct dlbuf_device_info info = { .size = sizeof(info) };
	int fd, got, status = 0;
	struct child_end end;
	pid_t pid = child_start(&fd);

	if (pid < 0)
		return STATUS_SYSTEM;
	if (!pid) {
		snprintf(info.name, sizeof(info.name), "%s", name);
		if (backend)
			backend_each(name, send_opened, &fd);
		else
			send_opened(&info, &fd);
		_exit(CHILD_WELL);
	}
	while (!status &&
	       (got = child_receive(fd, &info, sizeof(info), limit_ms)) > 0) {
		make_printable(info.reason);
		status = fn(&info, data);
	}
	close(fd);
	end = child_reap(pid, !status && got < 0, limit_ms);
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted");
	if (status || !*end.text)
		return status;
	if (!backend)
		return fail(STATUS_SYSTEM, "looking for %s: %s", name, end.text);
	info = (struct dlbuf_device_info){ .size = sizeof(info), .status = -EIO };
	snprintf(info.name, sizeof(info.name), "%s", name);
	snprintf(info.reason, sizeof(info.reason), "%s", end.text);
	return fn(&info, data);
}

int survey_devices(const char *names, int limit_ms, dlbuf_device_fn fn, void *data)
{
	char *copy, *rest, *name;
	int status = 0;

	if (!strcmp(names, "all")) {
		for (size_t i = 0; !status && backends[i]; i++)
			status = survey(backends[i], true, limit_ms, fn, data);
		return status;
	}
	copy = rest = strdup(names);
	if (!copy)
		return fail(STATUS_SYSTEM, "no memory for the devices");
	while (!status && (name = strsep(&rest, ",")))
		status = survey(name, false, limit_ms, fn, data);
	free(copy);
	return status;
}
