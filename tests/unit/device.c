// SPDX-License-Identifier: MIT
/* Devices by name, and drivers that are not there. */
#include "ktap.h"

#include <ctype.h>

#include <dlbuf/dlbuf.h>

#include "system/internal.h"

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
		CHECK_ERR_SAYS(opened(names[i]), -EINVAL, "no backend is named");
	}
	/* The sentence lists the existing devices. */
#ifdef CONFIG_BACKEND_CPU
	CHECK_SAYS(" cpu");
#endif
#ifdef CONFIG_BACKEND_VULKAN
	CHECK_SAYS(" vulkan");
#endif
#ifdef CONFIG_BACKEND_CPU
	CHECK_ERR_SAYS(opened("cpu:"), -EINVAL, "'cpu:' names no device after the colon");
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
	CHECK_ERR_SAYS(opened("cpu"), -ENOSYS, "cpu is not built");
	CHECK_ERR(opened("cpu:0"), -ENOSYS);
	return;
#endif
	CHECK_OK(opened("cpu"));
	CHECK_OK(opened("cpu:0"));
	CHECK_ERR_SAYS(opened("cpu:1"), -ENODEV, "cpu:1");
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

/* The backends of this build. */
static const char *const backends[] = {
#define BACKEND(name) #name,
#define BACKEND_OFF(name)
#include "generated/backends.h"
	NULL
};

#define BACKENDS ((int)ARRAY_SIZE(backends) - 1)

static bool is_built(const char *name)
{
	for (int i = 0; i < BACKENDS; i++)
		if (!strcmp(backends[i], name))
			return true;
	return false;
}

static const struct driver {
	const char *name, *variable, *library, *broken;
} drivers[] = {
	{ "vulkan", "DLBUF_VULKAN_LIBRARY", "libvulkan.so.1", "vk" },
	{ "cuda", "DLBUF_CUDA_LIBRARY", "libcuda.so.1", "cuda: libc.so.6 has no cu" },
};

/* The device of this number, with this file as the driver's library. */
static int opened_from(const struct driver *d, const char *file, const char *number)
{
	char name[40];

	KTAP_KEEPS(KTAP_HEAP, "the environment, dlerror()'s text");
	setenv(d->variable, file, 1);
	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_DEBUG);
	warnings = 0;
	snprintf(name, sizeof(name), "%s%s", d->name, number);
	return opened(name);
}

/* Absent is silence: the machine has no such driver. Present and broken is a warning. */
TEST(libraries)
{
	static const char *const numbers[] = { "", ":0", ":llvmpipe" };

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		const struct driver *d = &drivers[i];
		bool built = is_built(d->name);
		char file[60], says[80];

		snprintf(file, sizeof(file), "/nonexistent/%s", d->library);
		if (built)
			snprintf(says, sizeof(says), "%s: %s", d->name, file);
		else
			snprintf(says, sizeof(says), "%s is not built", d->name);
		for (size_t n = 0; n < ARRAY_SIZE(numbers); n++) {
			CHECK_ERR_SAYS(opened_from(d, file, numbers[n]), built ? -ENODEV : -ENOSYS,
				       says);
			CHECK_EQ(warnings, 0);
		}
		CHECK_ERR_SAYS(opened_from(d, file, ":"), built ? -EINVAL : -ENOSYS,
			       built ? "names no device after the colon" : says);
		if (!built)
			continue;
		CHECK_ERR_SAYS(opened_from(d, "libc.so.6", ""), -EIO, d->broken);
		CHECK_EQ(warnings, 1);
		CHECK_MSG(strstr(warning, "libc.so.6"), "%s", warning);
	}
}

#ifdef CONFIG_BACKEND_VULKAN
TEST(vulkan_without_a_driver)
{
	setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
	setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
	/* The name that the loader has; without it the library is absent. */
	CHECK_ERR_SAYS(opened_from(&drivers[0], "libvulkan.so.1", ""), -ENODEV, "vulkan");
	CHECK_EQ(warnings, 0);
}
#endif

/* ---------------------------------------------------------------- each */

struct seen {
	int n, absent;
};

static void drivers_absent(void)
{
	char name[40];

	KTAP_KEEPS(KTAP_HEAP, "the environment, dlerror()'s text");
	for (int i = 0; i < BACKENDS; i++) {
		snprintf(name, sizeof(name), "DLBUF_%s_LIBRARY", backends[i]);
		for (char *c = name; *c; c++)
			*c = (char)toupper(*c);
		setenv(name, "/nonexistent/driver.so.1", 1);
	}
}

static int see(const struct dlbuf_device_info *info, void *data)
{
	struct seen *s = data;

	CHECK_EQ(info->size, sizeof(*info));
	CHECK(info->name[0]);
	CHECK_STR(info->backend, backends[s->n++]);
	CHECK(info->device.device_type);
	CHECK_EQ(info->device.device_type == kDLCPU,
		 !strcmp(info->backend, "cpu") || !strcmp(info->backend, "gles"));
	if (info->status) {
		s->absent++;
		CHECK_EQ(info->status, -ENODEV);
		CHECK(info->reason[0]);
		CHECK(!strpbrk(info->reason, "\n"));
	} else {
		CHECK_STR(info->backend, "cpu");
		CHECK_STR(info->reason, "");
	}
	return 0;
}

TEST(each_tells_of_the_absent_too)
{
	struct seen s = { 0 };
	int cpu = 0;

	drivers_absent();
	CHECK_OK(dlbuf_device_each(see, &s));
#ifdef CONFIG_BACKEND_CPU
	cpu = 1;
#endif
	CHECK_EQ(s.n, BACKENDS);
	CHECK_EQ(s.absent, BACKENDS - cpu);
	/* An error that was reported is no further failure. */
	CHECK_STR(dlbuf_last_error(), "");
}

static int stop(const struct dlbuf_device_info *info, void *data)
{
	++*(int *)data;
	return -4321;
}

TEST(each_ends_when_told)
{
	int n = 0, want = BACKENDS > 0;

	drivers_absent();
	CHECK_EQ(dlbuf_device_each(stop, &n), want ? -4321 : 0);
	CHECK_EQ(n, want);
}

KTAP_MAIN()
