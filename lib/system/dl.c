// SPDX-License-Identifier: MIT
/* Opens driver libraries at run time. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dl.h"
#include "fork.h"
#include "internal.h"
#include "sys.h"

static int has_interpreter(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			return 1;
	return 0;
}

/*
 * In a static program dlopen() loads a second C library, which crashes with glibc, or
 * fails with musl. In every other program, the program or its C library has an
 * interpreter, also if the interpreter was started as a command.
 */
static bool is_static(void)
{
	return !dl_iterate_phdr(has_interpreter, NULL);
}

void *dl_loaded(const char *soname)
{
	return is_static() ? NULL :
	       dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

/* The reason why no library was loaded: dlerror()'s text about the first one that is present. */
struct refusal {
	bool there;
	char why[256];
};

static void *try_open(const char *file, struct refusal *r)
{
	void *lib = fault_hit() ? NULL : dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const char *said = lib ? NULL : dlerror(), *name;
	bool there;

	if (lib || r->there)
		return lib;
	if (!said)
		said = "the driver library was not loaded";
	/*
	 * If a library that it needs is missing, glibc's dlerror() names that one. musl's names both,
	 * this file at the end. Only the missing one has a colon after its name.
	 */
	name = strstr(said, file);
	there = !name || name[strlen(file)] != ':' || !strstr(said, strerror(ENOENT));
	if (there || !*r->why)
		snprintf(r->why, sizeof(r->why), "%s", said);
	r->there = there;
	return NULL;
}

/* Tests whether no fd is left, because dlopen() does not set errno. */
static bool no_fd_left(void)
{
	int fd = sys_open("/dev/null", O_RDONLY);

	if (fd < 0)
		return errno == EMFILE;
	close(fd);
	return false;
}

/* If all names are absent, the text lists them, because any of them may be installed. */
static void put_names(struct refusal *r, const char *sonames)
{
	size_t n = snprintf(r->why, sizeof(r->why), "none of these is installed:");

	FOR_EACH_STRING(soname, sonames)
		if (n < sizeof(r->why))
			n += snprintf(r->why + n, sizeof(r->why) - n, " %s",
				      soname);
}

int dl_open(const char *backend, const char *sonames, const char *symbols,
	    void *table, void **handle)
{
	char variable[64], *slot = table;
	struct refusal refusal = { 0 };
	const char *file = NULL;
	void *lib = NULL;

	if (is_static())
		return fail(-ENODEV, "%s: this program is linked statically, and only "
			    "a dynamic one can load a driver", backend);
	fork_watch();
	snprintf(variable, sizeof(variable), "DLBUF_%s_LIBRARY", backend);
	for (char *c = variable; *c; c++)
		if (*c >= 'a' && *c <= 'z')
			*c += 'A' - 'a';
	file = secure_getenv(variable);
	if (file && *file) {
		lib = try_open(file, &refusal);
	} else {
		FOR_EACH_STRING(soname, sonames) {
			file = soname;
			lib = try_open(file, &refusal);
			if (lib)
				break;
		}
		if (!refusal.there && file != sonames)
			put_names(&refusal, sonames);
	}
	if (!lib)
		return fail(no_fd_left() ? -EMFILE : -ENODEV, "%s: %s", backend,
			    refusal.why);
	FOR_EACH_STRING(symbol, symbols) {
		bool optional = *symbol == DL_OPTIONAL[0];
		void *sym = dlsym(lib, symbol + optional);

		if (!sym && !optional) {
			fail(-EIO, "%s: %s has no %s", backend, file, symbol);
			log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
			dlclose(lib);
			return -EIO;
		}
		memcpy(slot, &sym, sizeof(sym));
		slot += sizeof(sym);
	}
	*handle = lib;
	return 0;
}

const char *dl_name(const char *symbols, size_t n)
{
	while (n--)
		symbols += strlen(symbols) + 1;
	return symbols + (*symbols == DL_OPTIONAL[0]);
}
