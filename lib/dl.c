// SPDX-License-Identifier: MIT
/* Opens driver libraries at run time. */
#include <ctype.h>
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

int dl_open(const char *backend, const char *const *sonames,
	    const struct dl_symbol *symbols, size_t nsymbols, void *table,
	    void **handle)
{
	char variable[64];
	const char *file = NULL, *said;
	void *lib = NULL;

	fork_watch();
	snprintf(variable, sizeof(variable), "DLBUF_%s_LIBRARY", backend);
	for (char *c = variable; *c; c++)
		*c = toupper((unsigned char)*c);
	file = secure_getenv(variable);
	if (file) {
		lib = try_open(file);
	} else {
		for (; *sonames && !lib; sonames++) {
			file = *sonames;
			lib = try_open(file);
		}
	}
	if (!lib) {
		said = dlerror();
		return fail(-ENODEV, "%s: %s", backend,
			    said ? said : "the driver library was not loaded");
	}
	for (size_t i = 0; i < nsymbols; i++) {
		void *sym = dlsym(lib, symbols[i].name);

		if (!sym && !symbols[i].optional) {
			log_at(DLBUF_LOG_WARN, "%s: %s has no %s", backend, file,
			       symbols[i].name);
			fail(-EIO, "%s: %s has no %s", backend, file,
			     symbols[i].name);
			dlclose(lib);
			return -EIO;
		}
		memcpy((char *)table + symbols[i].offset, &sym, sizeof(sym));
	}
	*handle = lib;
	return 0;
}
