// SPDX-License-Identifier: MIT
/* The conformance suite's driver: which device, which paths, which cases. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/trial.h"
#include "cts.h"

const char *cts_device = "cpu";
const struct access *cts_access;
uint32_t cts_paths;
enum dlbuf_sync cts_sync_in, cts_sync_out;

static const struct access *const accesses[] = {
#define BACKEND(name) &access_##name,
#define BACKEND_OFF(name)
#include "generated/backends.h"
};

static void prepare(void)
{
	if (!cts_access->prepare || !cts_access->prepare())
		return;
	/* The lab's drivers open their files when they are loaded. */
	cts_driver_keeps = !cts_access->keeps_fds && !getenv("DLBUF_LAB");
	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the driver's");
}

/* "host,copy" */
static bool read_paths(const char *list)
{
	while (*list) {
		size_t n = strcspn(list, ",");
		enum dlbuf_path path;

		for (path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++)
			if (strlen(dlbuf_path_name(path)) == n &&
			    !strncmp(dlbuf_path_name(path), list, n))
				break;
		if (path > DLBUF_PATH_COPY)
			return false;
		cts_paths |= DLBUF_PATH_BIT(path);
		list += n + (list[n] == ',');
	}
	return cts_paths;
}

/* "blocks,fence": how it acquires and releases */
static bool read_sync(const char *pair)
{
	static const char *const names[] = {
		[DLBUF_SYNC_BLOCKS] = "blocks",
		[DLBUF_SYNC_EVENT] = "event",
		[DLBUF_SYNC_FENCE] = "fence",
	};

	for (int i = DLBUF_SYNC_BLOCKS; i <= DLBUF_SYNC_FENCE; i++) {
		size_t n = strlen(names[i]);

		if (!strncmp(pair, names[i], n) && pair[n] == ',')
			cts_sync_in = i;
		if (strchr(pair, ',') && !strcmp(strchr(pair, ',') + 1, names[i]))
			cts_sync_out = i;
	}
	return cts_sync_in && cts_sync_out;
}

int main(int argc, char **argv)
{
	size_t n;

	/* Options that cts.h declares come first; the others are the harness's. */
	while (argc > 2 && !strncmp(argv[1], "--", 2)) {
		bool known = true;

		if (!strcmp(argv[1], "--device"))
			cts_device = argv[2];
		else if (!strcmp(argv[1], "--paths"))
			known = read_paths(argv[2]);
		else if (!strcmp(argv[1], "--sync"))
			known = read_sync(argv[2]);
		else if (!strcmp(argv[1], "--computes"))
			known = !(cts_computes = strcmp(argv[2], "no"));
		else if (!strcmp(argv[1], "--more"))
			known = (cts_more = atoi(argv[2]));
		else
			break;
		if (!known) {
			fprintf(stderr, "cts: %s is not '%s'\n", argv[1], argv[2]);
			return 2;
		}
		argv[2] = argv[0];
		argv += 2;
		argc -= 2;
	}
	n = strcspn(cts_device, ":");
	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
		if (strlen(accesses[i]->backend) == n &&
		    !strncmp(accesses[i]->backend, cts_device, n))
			cts_access = accesses[i];
	if (!cts_access) {
		fprintf(stderr, "cts: no backend of this build is named '%s'\n",
			cts_device);
		return 2;
	}
	ktap_prefix("cts@%s", cts_access->backend);
	if (!cts_computes) {
		cts_stand_in();
		trial_none = !strcmp(cts_access->backend, "vulkan") ||
			     !strcmp(cts_access->backend, "gles");
		puts("# nothing computes: the CPU moves the bytes of the device's copies, and "
		     "those of frames are not compared");
	}
	ktap_around(prepare, cts_tidy);
	cts_cases_import();
	cts_cases_input();
	cts_cases_cache();
	cts_cases_tensor();
	cts_cases_sync();
	cts_cases_failed();
	cts_cases_start();
	cts_cases_together();
	cts_cases_frame();
	cts_cases_prepare();
	cts_cases_gles();
	cts_cases_driver();
	cts_cases_tiled();
	cts_cases_lease();
	cts_cases_socket();
	cts_cases_alloc();
	cts_cases_pool();
	cts_cases_path();
	cts_cases_fork();
	cts_cases_fault();
	cts_cases_words();
	return ktap_run(argc, argv);
}
