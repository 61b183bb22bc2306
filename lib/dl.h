/* SPDX-License-Identifier: MIT */
/*
 * Driver libraries, opened at run time by SONAME. The environment variable
 * DLBUF_<BACKEND>_LIBRARY names another file instead; setuid programs ignore it.
 */
#ifndef DLBUF_LIB_DL_H
#define DLBUF_LIB_DL_H

#include <stdbool.h>
#include <stddef.h>

struct dl_symbol {
	const char *name;
	size_t offset;		/* of the pointer in the caller's table */
	bool optional;		/* NULL if the library does not have it */
};

/*
 * Opens the first of sonames (ended by NULL) that is installed, with RTLD_NOW and
 * RTLD_LOCAL, and writes its symbols to table. *handle is new, for dlclose().
 * -ENODEV  none is installed
 * -EIO     a required symbol is missing; also logs a warning
 */
int dl_open(const char *backend, const char *const *sonames,
	    const struct dl_symbol *symbols, size_t nsymbols, void *table,
	    void **handle);

#endif /* DLBUF_LIB_DL_H */
