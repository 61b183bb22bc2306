/* SPDX-License-Identifier: MIT */
/* Output: tables, progress, JSON, files that are complete or absent. */
#ifndef DMABUF_TEST_OUT_H
#define DMABUF_TEST_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <dlbuf/dlpack.h>

#include "json.h"

void out_init(void);

/* Escape sequences if standard output is a terminal, otherwise "". */
enum style { STYLE_OFF, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD };
const char *style(enum style s);

/*
 * Cells in reading order, the first row being the heads. The last column is
 * not padded and may be long. A bit of `right` aligns its column right.
 */
struct table {
	unsigned int ncolumns;
	unsigned int right;
	unsigned int ncells, max;
	struct table_cell {
		char *text;
		enum style style;
	} *cells;
};

__attribute__((format(printf, 2, 3)))
void table_cell(struct table *table, const char *fmt, ...);
/* Sets the colour of the cell that was added last. */
void table_style(struct table *table, enum style s);
/* Prints and frees the cells. */
void table_print(struct table *table);

/* A duration in the unit that reads best. */
struct text {
	char s[24];
};
struct text text_ns(uint64_t ns);
/* "uint8", "float16". */
struct text text_dtype(DLDataType type);
/* "[720, 1280]" */
void put_dims(char *s, size_t size, const int64_t *dims, int n);

/* Makes a driver's string safe to print: ASCII without control characters. */
void make_printable(char *s);

/* A reason without the "NAME: " at its beginning, to print beside the name. */
const char *reason_of(const char *name, const char *reason);

/*
 * One line that is redrawn, only on a terminal: the progress of a count, and later
 * the time that the rest will take.
 */
void progress(const char *what, uint64_t done, uint64_t total);
void progress_clear(void);

/*
 * A file that appears completely, under its name and with the mode of the file that it
 * replaces, or not at all. It has no name until it is complete, so a killed process leaves
 * nothing. If the file system cannot do this, the file is written beside the name and
 * renamed. A path that is no regular file (/dev/null, a pipe) is written to, because a
 * rename would replace it.
 */
struct outfile {
	FILE *f;
	char *path;
	char *temp;	/* NULL: it has no name, or is written in place */
	bool nameless;
};

/* Returns 0, or a status if the path cannot be written. path is borrowed. */
int outfile_open(struct outfile *out, const char *path);
/* Writes all of the text into the file, which stays open and without a name. */
int outfile_flush(struct outfile *out);
/* Makes the file visible, or removes it; both end the use of `out`. */
int outfile_commit(struct outfile *out);
void outfile_abort(struct outfile *out);

#endif /* DMABUF_TEST_OUT_H */
