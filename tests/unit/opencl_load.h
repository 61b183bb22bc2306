/* SPDX-License-Identifier: MIT */
/*
 * The double of an OpenCL driver (tests/doubles/opencl.h), behind the real loader, and
 * the functions of both. Without a loader the double is opened by itself.
 */
#ifndef UNIT_OPENCL_LOAD_H
#define UNIT_OPENCL_LOAD_H

#include "double.h"
#include "emulated.h"
#include "doubles/opencl.h"

static struct fake_opencl *fake;
#define SETTLE() fake->settle()
#include "counts.h"
static fake_opencl_fn fake_fn;
static cl_platform_id platform;
static struct {
#define X(name) __typeof__(cl##name) *name;
	FAKE_OPENCL_FUNCTIONS(X)
	/* Functions of extensions; those that the machine lacks are NULL. */
	FAKE_OPENCL_EXTENSIONS(X)
#undef X
} cl;

static inline void load_extensions(void)
{
#define X(name)								\
	cl.name = (__typeof__(cl.name))					\
		cl.GetExtensionFunctionAddressForPlatform(platform, "cl" #name);
	FAKE_OPENCL_EXTENSIONS(X)
#undef X
}

static inline void load_functions(void *loader)
{
#define X(name)								\
	cl.name = (__typeof__(cl.name))dlsym(loader, "cl" #name);	\
	REQUIRE(cl.name);
	FAKE_OPENCL_FUNCTIONS(X)
#undef X
}

/* With a driver of these words. */
static inline void load(const char *words)
{
	void *icd, *loader;

	setenv("FAKE_OPENCL", words, 1);
	setenv("OCL_ICD_PLATFORM_SORT", "none", 1);
	icd = double_open("libopencl.so", "OCL_ICD_VENDORS");
	fake_fn = (fake_opencl_fn)dlsym(icd, "fake_opencl");
	REQUIRE(fake_fn);
	loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!loader) {
		loader = icd;
		setenv("DLBUF_OPENCL_LIBRARY", getenv("OCL_ICD_VENDORS"), 1);
	}
	load_functions(loader);
	fake = fake_fn(true);
	if (!cl.GetPlatformIDs(1, &platform, NULL))
		load_extensions();
	fake->calls = 0;
}

#endif /* UNIT_OPENCL_LOAD_H */
