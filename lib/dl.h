/* SPDX-License-Identifier: MIT */
/*
 * Driver libraries, opened at run time by SONAME.
 *
 * A library of names: "libNAME.so.1", "libNAME.so" tried in order. An
 * environment variable DLBUF_<BACKEND>_LIBRARY names another file instead;
 * setuid programs do not look at it.
 */
#ifndef DLBUF_LIB_DL_H
#define DLBUF_LIB_DL_H

#include <stdbool.h>
#include <stddef.h>

struct dl_symbol {
	const char *name;
	size_t offset;		/* of the pointer in the caller's table */
	bool optional;		/* NULL where the library has not got it */
};

/*
 * Opens the first of sonames (ended by NULL) that there is, RTLD_NOW and
 * RTLD_LOCAL, and fills table with the symbols. Absent is -ENODEV; present
 * without a required symbol is -EIO and a warning. *handle is new, for
 * dlclose().
 */
int dl_open(const char *backend, const char *const *sonames,
	    const struct dl_symbol *symbols, size_t nsymbols, void *table,
	    void **handle);

#endif /* DLBUF_LIB_DL_H */
