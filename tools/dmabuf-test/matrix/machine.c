// SPDX-License-Identifier: MIT
/* Describes the machine, without anything that is private to its owner. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "matrix.h"
#include "out.h"

/* The text behind `key` in the first line of a file that has it; "" for none. */
static struct line {
	char s[160];
} line_of(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	struct line t = { "" };
	char line[512], *value;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, key, strlen(key));
		value = line + strlen(key);
		value += strspn(value, "\"\t :=");
		value[strcspn(value, "\"\n")] = '\0';
		if (found)
			snprintf(t.s, sizeof(t.s), "%.*s", (int)sizeof(t.s) - 1, value);
	}
	if (f)
		fclose(f);
	make_printable(t.s);
	return t;
}

static struct line board(void)
{
	struct line vendor = line_of("/sys/class/dmi/id/sys_vendor", "");
	struct line t = line_of("/sys/firmware/devicetree/base/model", "");

	if (*t.s || !*vendor.s)
		return t;
	snprintf(t.s, sizeof(t.s), "%.70s %.80s", vendor.s,
		 line_of("/sys/class/dmi/id/product_name", "").s);
	return t;
}

cJSON *machine_json(void)
{
	cJSON *o = cJSON_CreateObject();
	struct utsname name;

	if (uname(&name))
		return o;
	cJSON_AddStringToObject(o, "kernel", name.release);
	cJSON_AddStringToObject(o, "arch", name.machine);
	cJSON_AddStringToObject(o, "board", board().s);
	cJSON_AddStringToObject(o, "cpu", line_of("/proc/cpuinfo", "model name").s);
	cJSON_AddNumberToObject(o, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
	cJSON_AddNumberToObject(o, "memory_bytes", (double)sysconf(_SC_PHYS_PAGES) *
				sysconf(_SC_PAGESIZE));
	cJSON_AddStringToObject(o, "distribution",
				line_of("/etc/os-release", "PRETTY_NAME").s);
	return o;
}
