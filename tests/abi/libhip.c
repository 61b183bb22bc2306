// SPDX-License-Identifier: MIT
/*
 * AMD's own library on a machine without a device: it has the functions that
 * dlbuf requires, and dlbuf's error is right. tests/abi/hip builds and runs
 * this.
 */
#include <dlfcn.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/dlbuf.h>

#include "backends/hip/api.h"

static int bad;

#define CHECK(cond, ...)						\
	do {								\
		if (!(cond)) {						\
			printf("%s: ", #cond);				\
			printf(__VA_ARGS__);				\
			putchar('\n');					\
			bad = 1;					\
		}							\
	} while (0)

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void check_open(void)
{
	struct dlbuf_device *dev = NULL;
	const char *said;
	int ret;

	ret = dlbuf_device_open("hip:0", NULL, &dev);
	said = dlbuf_last_error();
	CHECK(ret == -ENODEV, "%d", ret);
	/* HIP 5.7 has another number for it. */
	CHECK(!strcmp(said, "hip: hipInit: hipErrorNoDevice (100), no ROCm-capable "
		      "device is detected") ||
	      !strcmp(said, "hip: hipInit: hipErrorInvalidDevice (101), invalid "
		      "device ordinal"), "%s", said);
}

static int see(const struct dlbuf_device_info *info, void *data)
{
	if (strcmp(info->backend, "hip"))
		return 0;
	++*(int *)data;
	CHECK(info->status == -ENODEV, "%d", info->status);
	CHECK(strstr(info->reason, "hip: hipInit: "), "%s", info->reason);
	return 0;
}

enum { NEEDED, OPTIONAL };

static const struct {
	const char *name;
	int needed;
} functions[] = {
#define X(name, needed, params) { "hip" #name, needed },
	HIP_FUNCTIONS(X)
#undef X
};

/* The library that dlbuf has loaded, by its soname. */
static void *library(int major)
{
	char soname[40];

	snprintf(soname, sizeof(soname), "libamdhip64.so.%d", major);
	return dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
}

/* libhip [MAJOR]: of two that are installed, the application has loaded this one. */
int main(int argc, char **argv)
{
	int n = 0, fds, version = 0, major = argc > 1 ? atoi(argv[1]) : 5;
	char soname[40];
	void *lib;

	if (argc > 1) {
		snprintf(soname, sizeof(soname), "libamdhip64.so.%d", major);
		CHECK(dlopen(soname, RTLD_NOW), "%s", dlerror());
	}
	check_open();
	if (argc > 1) {
		CHECK(!library(major + 1), "%d is loaded, too", major + 1);
		return bad;
	}
	while (!(lib = library(major)) && major < 20)
		major++;
	CHECK(lib, "dlbuf has loaded no libamdhip64");
	for (size_t i = 0; lib && i < ARRAY_SIZE(functions); i++) {
		void *sym = dlsym(lib, functions[i].name);

		CHECK(sym || functions[i].needed == OPTIONAL, "no %s",
		      functions[i].name);
		if (!sym)
			printf("# no %s, optional\n", functions[i].name);
	}
	if (lib) {
		hip_result (*fn)(int *) =
			(hip_result (*)(int *))dlsym(lib, "hipRuntimeGetVersion");

		CHECK(!fn(&version) || !version, "%d", version);
		printf("# libamdhip64.so.%d, of HIP %d\n", major, version);
		CHECK(!version || version / 10000000 == major, "%d", version);
	}
	CHECK(hsa_export_find(), "no hsa_amd_portable_export_dmabuf()");
	fds = count_fds();
	for (int i = 0; i < 3; i++)
		check_open();
	CHECK(!dlbuf_device_each(see, &n), "%s", dlbuf_last_error());
	CHECK(n == 1, "%d", n);
	CHECK(count_fds() == fds, "%d, and %d before", count_fds(), fds);
	return bad;
}
