/* SPDX-License-Identifier: MIT */
/*
 * Driver libraries, opened at run time by SONAME. The environment variable
 * DLBUF_<BACKEND>_LIBRARY names another file instead; setuid programs ignore it.
 */
#ifndef DLBUF_LIB_DL_H
#define DLBUF_LIB_DL_H

#include <stddef.h>

/* Marks a symbol in a list: if the library lacks it, table gets NULL. */
#define DL_OPTIONAL "?"

/*
 * Opens the first of sonames that is installed, with RTLD_NOW and RTLD_LOCAL. Writes the
 * addresses of symbols to table, a struct of pointers in the same order. Both lists are
 * for FOR_EACH_STRING(). *handle is new, for dlclose().
 * -ENODEV  none is installed, or the program is linked statically
 * -EIO     a required symbol is missing; also logs a warning
 */
int dl_open(const char *backend, const char *sonames, const char *symbols,
	    void *table, void **handle);

/* The library if it is loaded, for dlclose(); else NULL. */
void *dl_loaded(const char *soname);

/* The name of the n-th symbol. */
const char *dl_name(const char *symbols, size_t n);

#endif /* DLBUF_LIB_DL_H */
