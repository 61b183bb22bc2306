// SPDX-License-Identifier: MIT
/*
 * The shared library opens nothing, starts nothing and loads nothing until it
 * is asked to: not when it is loaded, and not when the CPU device is opened.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <libgen.h>

#include "ktap.h"

#include <dlbuf/dlbuf.h>

static void *lib;

/* build/libdlbuf.so of build/tests/unit/quiet. */
static void load(void)
{
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	KTAP_KEEPS(KTAP_HEAP, "the dynamic loader's own");
	REQUIRE(n > 0);
	exe[n] = '\0';
	snprintf(path, sizeof(path), "%s/../../libdlbuf.so", dirname(exe));
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		ktap_note(__FILE__, __LINE__, "%s", dlerror());
	REQUIRE(lib);
}

static void *symbol(const char *name)
{
	void *sym = dlsym(lib, name);

	CHECK_MSG(sym, "%s", name);
	if (!sym)
		ktap_leave();
	return sym;
}

static unsigned int count(const char *path)
{
	DIR *dir = opendir(path);
	unsigned int n = 0;

	REQUIRE(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static unsigned int threads(void)
{
	return count("/proc/self/task");
}

static unsigned int fds(void)
{
	return count("/proc/self/fd");
}

/* Files that are mapped, libdlbuf itself not among them. */
static unsigned int files(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128], last[PATH_MAX + 128] = "";
	unsigned int n = 0;

	REQUIRE(maps);
	while (fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		if (!path || !strcmp(path, last) || strstr(path, "libdlbuf"))
			continue;
		strcpy(last, path);
		n++;
	}
	fclose(maps);
	return n;
}

TEST(loading_and_opening_the_cpu)
{
	unsigned int t = threads(), f = fds(), m = files();
	int (*open_device)(const char *, const void *, void **);
	void (*close_device)(void *);
	void *dev = NULL;
	int ret;

	load();
	CHECK_EQ(threads(), t);
	CHECK_EQ(fds(), f);
	CHECK_EQ(files(), m);
	open_device = (int (*)(const char *, const void *, void **))
		      symbol("dlbuf_device_open");
	close_device = (void (*)(void *))symbol("dlbuf_device_close");
	ret = open_device("cpu", NULL, &dev);
#ifdef CONFIG_BACKEND_CPU
	CHECK_EQ(ret, 0);
#else
	CHECK_EQ(ret, -ENOSYS);
#endif
	CHECK_EQ(threads(), t);
	CHECK_EQ(fds(), f);
	CHECK_EQ(files(), m);
	close_device(dev);
	dlclose(lib);
}

/* The counter works: a driver that is requested does load. */
TEST(asking_for_more)
{
	unsigned int m = files();
	/* Comes with glibc, and nothing has loaded it yet. */
	void *other = dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL);

	KTAP_KEEPS(KTAP_HEAP, "the dynamic loader's own");
	if (!other)
		SKIP("no libanl.so.1 to load");
	CHECK(files() > m);
	dlclose(other);
}

KTAP_MAIN()
