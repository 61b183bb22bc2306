// SPDX-License-Identifier: MIT
/* The conformance suite's driver: which device, which cases. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cts.h"

const char *cts_device = "cpu";
const struct access *cts_access;

static const struct access *const accesses[] = {
#define BACKEND(name) &access_##name,
#define BACKEND_OFF(name)
#include "generated/backends.h"
};

static void prepare(void)
{
	if (cts_access->prepare && cts_access->prepare())
		KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the driver's");
}

int main(int argc, char **argv)
{
	size_t n;

	/* --device NAME comes first; the rest is the harness's. */
	if (argc > 2 && !strcmp(argv[1], "--device")) {
		cts_device = argv[2];
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
	ktap_around(prepare, cts_tidy);
	cts_cases_import();
	cts_cases_input();
	cts_cases_cache();
	cts_cases_tensor();
	cts_cases_sync();
	cts_cases_failed();
	cts_cases_together();
	cts_cases_frame();
	cts_cases_tiled();
	cts_cases_lease();
	cts_cases_socket();
	cts_cases_alloc();
	cts_cases_pool();
	cts_cases_path();
	cts_cases_fork();
	cts_cases_fault();
	return ktap_run(argc, argv);
}
