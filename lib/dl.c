// SPDX-License-Identifier: MIT
/* Opens driver libraries at run time. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dl.h"
#include "fork.h"
#include "internal.h"
#include "sys.h"

static void *try_open(const char *file)
{
	if (fault_hit())
		return NULL;
	return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

int dl_open(const char *backend, const char *sonames, const char *symbols,
	    void *table, void **handle)
{
	char variable[64], *slot = table;
	const char *file = NULL, *said;
	void *lib = NULL;

	fork_watch();
	snprintf(variable, sizeof(variable), "DLBUF_%s_LIBRARY", backend);
	for (char *c = variable; *c; c++)
		if (*c >= 'a' && *c <= 'z')
			*c += 'A' - 'a';
	file = secure_getenv(variable);
	if (file) {
		lib = try_open(file);
	} else {
		FOR_EACH_STRING(soname, sonames) {
			file = soname;
			lib = try_open(file);
			if (lib)
				break;
		}
	}
	if (!lib) {
		said = dlerror();
		return fail(-ENODEV, "%s: %s", backend,
			    said ? said : "the driver library was not loaded");
	}
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
