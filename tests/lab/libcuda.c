// SPDX-License-Identifier: MIT
/*
 * NVIDIA's own driver library on a machine without a device: the functions of
 * it that dlbuf calls, and dlbuf's error.
 *
 *	tests/guest/lab --with cuda -- libcuda [CASE...]
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/dlbuf.h>

#include "backends/cuda/api.h"
#include "cts/cts.h"

/* util.c's, for the programs that touch memory. */
const char *cts_device = "cpu";
const struct access *cts_access;

static void *library(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		SKIP("%s", dlerror());
	KTAP_KEEPS(KTAP_FDS | KTAP_HEAP, "cuInit()'s, which never gives back");
	return lib;
}

enum { NEEDED, OPTIONAL };

static const struct {
	const char *name;
	int needed;
} functions[] = {
#define X(name, symbol, needed, params) { #symbol, needed },
	CUDA_FUNCTIONS(X)
#undef X
};

static void tell_version(void *lib)
{
	cuda_result (*version)(int *) =
		(cuda_result (*)(int *))dlsym(lib, "cuDriverGetVersion");
	char path[PATH_MAX];
	cuda_result ret;
	Dl_info info;
	int n = 0;

	REQUIRE(version);
	REQUIRE(dladdr((void *)version, &info) &&
		realpath(info.dli_fname, path));
	ret = version(&n);
	CHECK_MSG(!ret && n > 0, "cuDriverGetVersion: %d, %d", ret, n);
	ktap_note(NULL, 0, "%s, of CUDA %d.%d", strrchr(path, '/') + 1,
		  n / 1000, n % 1000 / 10);
}

TEST(symbols)
{
	void *lib = library();
	unsigned int found[2] = { 0 };

	tell_version(lib);
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		int needed = functions[i].needed;
		bool has = dlsym(lib, functions[i].name);

		CHECK_MSG(has || needed == OPTIONAL, "no %s",
			  functions[i].name);
		found[needed] += has;
		ktap_note(NULL, 0, "%s %s%s", functions[i].name,
			  needed == OPTIONAL ? "optional " : "",
			  has ? "yes" : "no");
	}
	ktap_note(NULL, 0, "%u needed and %u optional functions of %zu",
		  found[NEEDED], found[OPTIONAL], ARRAY_SIZE(functions));
}

/* The driver's own answer, for readers of the log. */
TEST(init)
{
	void *lib = library();
	cuda_result (*init)(unsigned int) =
		(cuda_result (*)(unsigned int))dlsym(lib, "cuInit");
	unsigned int fds;
	cuda_result ret;

	REQUIRE(init);
	fds = cts_count_fds();
	for (int i = 0; i < 3; i++) {
		ret = init(0);
		CHECK_EQ(ret, CUABI_NO_DEVICE);
		ktap_note(NULL, 0, "cuInit(0) = %d, %u fds left", ret,
			  cts_count_fds() - fds);
	}
}

static void says_why(const char *said)
{
	CHECK_MSG(strstr(said, "cuda: cuInit: CUDA_ERROR_NO_DEVICE (100), "
			 "no CUDA-capable device is detected"), "%s", said);
	CHECK(!strchr(said, '\n'));
}

TEST(open)
{
	struct dlbuf_device *dev = NULL;
	unsigned int fds;

	dlclose(library());
	CHECK_ERR(dlbuf_device_open("cuda:0", NULL, &dev), -ENODEV);
	says_why(dlbuf_last_error());
	/* The first call's resources belong to the driver; later calls leave nothing. */
	fds = cts_count_fds();
	for (int i = 0; i < 3; i++) {
		CHECK_ERR(dlbuf_device_open("cuda:0", NULL, &dev), -ENODEV);
		CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), -ENODEV);
		says_why(dlbuf_last_error());
		CHECK_EQ(cts_count_fds(), fds);
	}
	CHECK(!dev);
}

static int see(const struct dlbuf_device_info *info, void *data)
{
	if (strcmp(info->backend, "cuda"))
		return 0;
	++*(int *)data;
	CHECK_STR(info->name, "cuda");
	CHECK_EQ(info->device.device_type, kDLCUDA);
	CHECK_EQ(info->status, -ENODEV);
	says_why(info->reason);
	return 0;
}

TEST(each)
{
	unsigned int fds;
	int n = 0;

	dlclose(library());
	CHECK_OK(dlbuf_device_each(see, &n));
	CHECK_EQ(n, 1);
	fds = cts_count_fds();
	CHECK_OK(dlbuf_device_each(see, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(cts_count_fds(), fds);
}

KTAP_MAIN()
