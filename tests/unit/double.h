/* SPDX-License-Identifier: MIT */
/* Shared by tests on any double of a driver. */
#ifndef UNIT_DOUBLE_H
#define UNIT_DOUBLE_H

#include <dlfcn.h>
#include <unistd.h>

#include "common.h"
#include "eventfd.h"

/* Loads tests/doubles/NAME, which the library finds by a variable, too. */
static inline void *double_open(const char *name, const char *variable)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 40);
	void *lib;

	REQUIRE(n > 0);
	path[n] = '\0';
	snprintf(strrchr(path, '/'), 40, "/../doubles/%s", name);
	setenv(variable, path, 1);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(lib);
	return lib;
}

/* A case between the includer's begin(), with these words, and its end(). */
#define DOUBLE_CASE(name, ...) TEST_BETWEEN(name, begin(__VA_ARGS__), end())

/* A stream that the backend was not asked about. */
#define ON(s) (&(struct access_stream){ .handle = (s) })

static inline int pending_fence(void)
{
	return new_event(0);
}

static inline void signal_fence(int fd)
{
	signal_event(fd);
}

#endif /* UNIT_DOUBLE_H */
