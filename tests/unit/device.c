// SPDX-License-Identifier: MIT
/* Devices by name, and drivers that are not there. */
#include "ktap.h"

#include <ctype.h>

#include <dlbuf/dlbuf.h>

#include "internal.h"

static int opened(const char *name)
{
	struct dlbuf_device *dev = NULL;
	int ret = dlbuf_device_open(name, NULL, &dev);

	CHECK(!ret == !!dev);
	dlbuf_device_close(dev);
	return ret;
}

TEST(names_of_no_backend)
{
	static const char *const names[] = {
		"", ":", ":0", "nope", "nope:0", "CPU", "Cpu", "cp", "cpux",
		"cpu0", " cpu", "cpu ", "cpu,vulkan", "vulka", "vulkan0",
		"/dev/dri/card0", "\n", "cpu\n",
	};
	char longer[5000];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		CHECK_ERR(opened(names[i]), -EINVAL);
		CHECK_SAYS("no backend is named");
	}
	/* The sentence has what there is, to choose from. */
#ifdef CONFIG_BACKEND_CPU
	CHECK_SAYS(" cpu");
#endif
#ifdef CONFIG_BACKEND_VULKAN
	CHECK_SAYS(" vulkan");
#endif
	memset(longer, 'c', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	CHECK_ERR(opened(longer), -EINVAL);
}

TEST(null_arguments)
{
	struct dlbuf_device *dev = NULL;

	CHECK_ERR(dlbuf_device_open(NULL, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_open("cpu", NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_each(NULL, NULL), -EINVAL);
	CHECK(!dev);
	dlbuf_device_close(NULL);
	dlbuf_device_trim(NULL, 0);
}

TEST(cpu)
{
	struct dlbuf_device_info info = { .size = sizeof(info) };
	struct dlbuf_device_stats stats = { .size = sizeof(stats), .hits = 9 };
	struct dlbuf_device *dev;

#ifndef CONFIG_BACKEND_CPU
	CHECK_ERR(opened("cpu"), -ENOSYS);
	CHECK_SAYS("cpu is not built");
	CHECK_ERR(opened("cpu:0"), -ENOSYS);
	return;
#endif
	CHECK_OK(opened("cpu"));
	CHECK_OK(opened("cpu:0"));
	CHECK_ERR(opened("cpu:1"), -ENODEV);
	CHECK_SAYS("cpu:1");
	CHECK_ERR(opened("cpu:intel"), -ENODEV);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, "cpu");
	CHECK_STR(info.backend, "cpu");
	CHECK(info.description[0]);
	CHECK_EQ(info.device.device_type, kDLCPU);
	CHECK_EQ(info.device.device_id, 0);
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	CHECK_EQ(info.release, DLBUF_SYNC_BLOCKS);
	CHECK_EQ(info.status, 0);
	CHECK_STR(info.reason, "");
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.hits + stats.misses + stats.evictions + stats.live +
		 stats.idle + stats.tensors, 0);
	dlbuf_device_trim(dev, 0);
	dlbuf_device_close(dev);
}

/* ---------------------------------------------------------------- absent */

static int warnings;
static char warning[512];

static void count_warnings(void *data, enum dlbuf_log_level level,
			   const char *text)
{
	if (level <= DLBUF_LOG_WARN) {
		warnings++;
		snprintf(warning, sizeof(warning), "%s", text);
	}
}

/* Opening with this file as the driver's library. */
static int opened_from(const char *backend, const char *variable,
		       const char *file)
{
	KTAP_KEEPS(KTAP_HEAP, "the environment, dlerror()'s text");
	setenv(variable, file, 1);
	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_DEBUG);
	warnings = 0;
	return opened(backend);
}

static int vulkan_from(const char *file)
{
	return opened_from("vulkan", "DLBUF_VULKAN_LIBRARY", file);
}

static int cuda_from(const char *file)
{
	return opened_from("cuda", "DLBUF_CUDA_LIBRARY", file);
}

#ifndef CONFIG_BACKEND_VULKAN
TEST(vulkan_not_built)
{
	CHECK_ERR(vulkan_from("libvulkan.so.1"), -ENOSYS);
	CHECK_SAYS("vulkan is not built");
	CHECK_ERR(opened("vulkan:0"), -ENOSYS);
	CHECK_ERR(opened("vulkan:"), -ENOSYS);
	CHECK_EQ(warnings, 0);
}
#else
/* Absent is silence: the machine has no such driver, nothing is broken. */
TEST(vulkan_library_absent)
{
	CHECK_ERR(vulkan_from("/nonexistent/libvulkan.so.1"), -ENODEV);
	CHECK_SAYS("/nonexistent/libvulkan.so.1");
	CHECK_EQ(warnings, 0);
	/* And is so again. */
	CHECK_ERR(opened("vulkan:0"), -ENODEV);
	CHECK_ERR(opened("vulkan:llvmpipe"), -ENODEV);
}

/* Present and broken is a warning. */
TEST(vulkan_library_broken)
{
	CHECK_ERR(vulkan_from("libc.so.6"), -EIO);
	CHECK_SAYS("vk");
	CHECK_EQ(warnings, 1);
	CHECK_MSG(strstr(warning, "libc.so.6"), "%s", warning);
}

TEST(vulkan_without_a_driver)
{
	setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
	setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
	/* The name that the loader has; without it the library is absent. */
	CHECK_ERR(vulkan_from("libvulkan.so.1"), -ENODEV);
	CHECK_SAYS("vulkan");
	CHECK_EQ(warnings, 0);
}
#endif

#ifndef CONFIG_BACKEND_CUDA
TEST(cuda_not_built)
{
	CHECK_ERR(cuda_from("libcuda.so.1"), -ENOSYS);
	CHECK_SAYS("cuda is not built");
	CHECK_ERR(opened("cuda:0"), -ENOSYS);
	CHECK_EQ(warnings, 0);
}
#else
TEST(cuda_library_absent)
{
	CHECK_ERR(cuda_from("/nonexistent/libcuda.so.1"), -ENODEV);
	CHECK_SAYS("cuda: /nonexistent/libcuda.so.1");
	CHECK_EQ(warnings, 0);
	CHECK_ERR(opened("cuda:0"), -ENODEV);
	CHECK_ERR(opened("cuda:GeForce"), -ENODEV);
}

TEST(cuda_library_broken)
{
	CHECK_ERR(cuda_from("libc.so.6"), -EIO);
	CHECK_SAYS("cuda: libc.so.6 has no cu");
	CHECK_EQ(warnings, 1);
	CHECK_MSG(strstr(warning, "libc.so.6"), "%s", warning);
}
#endif

/* ---------------------------------------------------------------- each */

static const char *const backends[] = {
#define BACKEND(name) #name,
#define BACKEND_OFF(name)
#include "generated/backends.h"
#undef BACKEND
#undef BACKEND_OFF
};

struct seen {
	unsigned int n, absent, of[ARRAY_SIZE(backends)];
};

static void drivers_absent(void)
{
	char variable[64];

	KTAP_KEEPS(KTAP_HEAP, "the environment, dlerror()'s text");
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		snprintf(variable, sizeof(variable), "DLBUF_%s_LIBRARY",
			 backends[i]);
		for (char *c = variable; *c; c++)
			*c = toupper(*c);
		setenv(variable, "/nonexistent/library.so.1", 1);
	}
}

static int see(const struct dlbuf_device_info *info, void *data)
{
	struct seen *s = data;

	CHECK_EQ(info->size, sizeof(*info));
	CHECK(info->name[0]);
	CHECK(info->device.device_type);
	s->n++;
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
		s->of[i] += !strcmp(info->backend, backends[i]);
	if (info->status) {
		s->absent++;
		CHECK_EQ(info->status, -ENODEV);
		CHECK(info->reason[0]);
		CHECK(!strpbrk(info->reason, "\n"));
	} else {
		CHECK_STR(info->reason, "");
		CHECK_STR(info->backend, "cpu");
	}
	return 0;
}

TEST(each_tells_of_the_absent_too)
{
	struct seen s = { 0 };

	drivers_absent();
	CHECK_OK(dlbuf_device_each(see, &s));
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
		CHECK_EQ(s.of[i], 1);
	CHECK_EQ(s.n, ARRAY_SIZE(backends));
#ifdef CONFIG_BACKEND_CPU
	CHECK_EQ(s.absent, s.n - 1);
#else
	CHECK_EQ(s.absent, s.n);
#endif
	/* What was told is nobody's failure. */
	CHECK_STR(dlbuf_last_error(), "");
}

static int stop(const struct dlbuf_device_info *info, void *data)
{
	++*(int *)data;
	return -4321;
}

TEST(each_ends_when_told)
{
	int n = 0, want = ARRAY_SIZE(backends) > 0;

	drivers_absent();
	CHECK_EQ(dlbuf_device_each(stop, &n), want ? -4321 : 0);
	CHECK_EQ(n, want);
}

KTAP_MAIN()
