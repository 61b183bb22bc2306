/* SPDX-License-Identifier: MIT */
/*
 * Driver libraries, opened at run time by SONAME.
 *
 * The environment variable DLBUF_<BACKEND>_LIBRARY names another file instead;
 * setuid programs ignore it.
 */
#ifndef DLBUF_LIB_DL_H
#define DLBUF_LIB_DL_H

/* In a list of symbols: table gets NULL if the library lacks the next one. */
#define DL_OPTIONAL "?"

/*
 * Opens the first of sonames that exists, RTLD_NOW and RTLD_LOCAL, and writes the
 * addresses of symbols to table, a struct of pointers in the same order. Both are
 * lists for FOR_EACH_STRING(). Absent is -ENODEV; present without a required
 * symbol is -EIO and a warning. *handle is new, for dlclose().
 */
int dl_open(const char *backend, const char *sonames, const char *symbols,
	    void *table, void **handle);

/* The name of the n-th symbol. */
const char *dl_name(const char *symbols, size_t n);

#endif /* DLBUF_LIB_DL_H */
