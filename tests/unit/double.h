/* SPDX-License-Identifier: MIT */
/* What tests on a double of a driver share, whichever it is. */
#ifndef UNIT_DOUBLE_H
#define UNIT_DOUBLE_H

#include "ktap.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

/* What stands for a sync_file: an eventfd that nobody has written to. */
static inline int pending_fence(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	REQUIRE(fd >= 0);
	return fd;
}

static inline void signal_fence(int fd)
{
	uint64_t one = 1;

	CHECK_EQ(write(fd, &one, sizeof(one)), sizeof(one));
}

#endif /* UNIT_DOUBLE_H */
