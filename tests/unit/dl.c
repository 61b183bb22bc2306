// SPDX-License-Identifier: MIT
/* Driver libraries: absent, other than expected, named by the environment. */
#include <dlfcn.h>
#include <sys/resource.h>

#include "ktap.h"

#include "system/dl.h"
#include "system/internal.h"

/* From the C library, which every machine has, and from nowhere. */
struct table {
	int (*abs)(int n);
	long (*labs)(long n);
	void (*no_such_function)(void);
};

#define SYMBOLS "abs\0" DL_OPTIONAL "labs\0" DL_OPTIONAL "dlbuf_no_such_function\0"
#define REQUIRED "abs\0" "dlbuf_no_such_function\0"
#define LIBC "libdlbuf-no-such.so.9\0" "libc.so.6\0"
#define NONE_ELSE "libdlbuf-no-such.so.9\0"
#define NONE "libdlbuf-no-such.so.9\0" "libdlbuf-no-such.so\0"

static int warnings;

static void count_warnings(void *data, enum dlbuf_log_level level,
			   const char *text)
{
	warnings += level <= DLBUF_LOG_WARN;
}

static int open_it(const char *sonames, const char *symbols, struct table *t,
		   void **lib)
{
	KTAP_KEEPS(KTAP_HEAP, "the environment, dlerror()'s text");
	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_DEBUG);
	return dl_open("test", sonames, symbols, t, lib);
}

TEST(the_first_that_is_there)
{
	struct table t = { .no_such_function = abort };
	void *lib = NULL;

	CHECK_OK(open_it(LIBC, SYMBOLS, &t, &lib));
	REQUIRE(lib && t.abs && t.labs);
	CHECK(!t.no_such_function);
	CHECK_EQ(t.abs(-5), 5);
	CHECK_EQ(t.labs(-5), 5);
	CHECK_EQ(warnings, 0);
	dlclose(lib);
}

TEST(none_is_there)
{
	struct table t = { 0 };
	void *lib = NULL;

	CHECK_ERR(open_it(NONE, SYMBOLS, &t, &lib), -ENODEV);
	/* The error names all libraries, because any of them would do. */
	CHECK_SAYS("test: none of these is installed: libdlbuf-no-such.so.9 "
		   "libdlbuf-no-such.so");
	CHECK(!lib);
	CHECK_EQ(warnings, 0);
	CHECK_ERR(open_it(NONE_ELSE, SYMBOLS, &t, &lib), -ENODEV);
	CHECK_SAYS("test: libdlbuf-no-such.so.9: cannot open");
}

/* A library that is there says more than one that is not. */
TEST(the_first_that_is_there_is_broken)
{
	char path[] = "/tmp/dlbuf-unit-XXXXXX", names[80] = { 0 };
	int fd = mkstemp(path);
	struct table t = { 0 };
	void *lib = NULL;
	size_t n;

	REQUIRE(fd >= 0);
	CHECK_EQ(write(fd, "no ELF here\n", 12), 12);
	close(fd);
	n = snprintf(names, sizeof(names), "libdlbuf-no-such.so.9%c%s", 0, path) + 1;
	memcpy(names + n, "libdlbuf-no-such.so", 20);
	CHECK_ERR_SAYS(open_it(names, SYMBOLS, &t, &lib), -ENODEV, path);
	unlink(path);
	CHECK(!lib);
}

TEST(a_required_symbol_is_missing)
{
	struct table t = { 0 };
	void *lib = NULL;

	CHECK_ERR_SAYS(open_it(LIBC, REQUIRED, &t, &lib), -EIO, "libc.so.6");
	CHECK_SAYS("dlbuf_no_such_function");
	CHECK(!lib);
	CHECK_EQ(warnings, 1);
}

TEST(the_environment_names_another)
{
	struct table t = { 0 };
	void *lib = NULL;

	setenv("DLBUF_TEST_LIBRARY", "libc.so.6", 1);
	CHECK_OK(open_it(NONE, SYMBOLS, &t, &lib));
	REQUIRE(lib);
	dlclose(lib);
	lib = NULL;
	/* And no other than that. */
	setenv("DLBUF_TEST_LIBRARY", "/nonexistent/driver.so", 1);
	CHECK_ERR_SAYS(open_it(LIBC, SYMBOLS, &t, &lib), -ENODEV, "/nonexistent/driver.so");
	CHECK(!lib);
}

/* It may be installed, and can be opened later. */
TEST(no_fd_is_left)
{
	struct rlimit old, none = { 0 };
	struct table t = { 0 };
	void *lib = NULL;

	REQUIRE(!getrlimit(RLIMIT_NOFILE, &old));
	none.rlim_max = old.rlim_max;
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &none));
	CHECK_ERR(open_it("libutil.so.1\0", SYMBOLS, &t, &lib), -EMFILE);
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &old));
	CHECK_SAYS("Too many open files");
	CHECK(!lib);
	CHECK_ERR(open_it(NONE, SYMBOLS, &t, &lib), -ENODEV);
}

TEST(a_file_that_is_no_library)
{
	char path[] = "/tmp/dlbuf-unit-XXXXXX";
	int fd = mkstemp(path);
	struct table t = { 0 };
	void *lib = NULL;

	REQUIRE(fd >= 0);
	CHECK_EQ(write(fd, "no ELF here\n", 12), 12);
	close(fd);
	setenv("DLBUF_TEST_LIBRARY", path, 1);
	CHECK_ERR_SAYS(open_it(LIBC, SYMBOLS, &t, &lib), -ENODEV, path);
	unlink(path);
	CHECK(!lib);
}

KTAP_MAIN()
