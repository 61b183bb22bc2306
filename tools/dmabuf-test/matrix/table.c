// SPDX-License-Identifier: MIT
/* The matrix as a table that fits a terminal, and as KTAP. */
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#include "out.h"

#define COLUMNS 80

const cJSON *member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

const char *member_text(const cJSON *o, const char *name)
{
	const char *s = cJSON_GetStringValue(member(o, name));

	return s ? s : "";
}

bool member_true(const cJSON *o, const char *name)
{
	return cJSON_IsTrue(member(o, name));
}

double get_number(const cJSON *o, const char *name)
{
	const cJSON *n = member(o, name);

	return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static bool is(const cJSON *o, const char *name, const char *value)
{
	return !strcmp(member_text(o, name), value);
}

/* ---------------------------------------------------------------- table */

static const cJSON *cell_of(const cJSON *matrix, const cJSON *e, const cJSON *i)
{
	const cJSON *c;

	cJSON_ArrayForEach(c, member(matrix, "cells"))
		if (is(c, "exporter", member_text(e, "name")) &&
		    is(c, "importer", member_text(i, "name")))
			return c;
	return NULL;
}

/* "video0", "card0*": the importer's column. The star is that of the legend. */
static struct text head_of(const cJSON *importer)
{
	const char *node = strrchr(member_text(importer, "node"), '/');
	struct text t;

	snprintf(t.s, sizeof(t.s), "%.20s%s", node ? node + 1 : member_text(importer, "name"),
		 member_true(importer, "double") ? "**" :
		 member_true(importer, "software") ? "*" : "");
	return t;
}

/* The cell's word in the table: the path, if all is ok. */
static const char *word_of(const cJSON *cell)
{
	const char *path = member_text(cell, "path");

	return !cell ? "" : is(cell, "result", "ok") ? *path ? path : "ok" :
	       is(cell, "result", "skipped") ? "-" : member_text(cell, "result");
}

const cJSON *party_named(const cJSON *list, const char *name)
{
	const cJSON *o;

	cJSON_ArrayForEach(o, list)
		if (is(o, "name", name))
			return o;
	return NULL;
}

/* The result of a double proves nothing about a driver. */
static bool of_double(const cJSON *matrix, const cJSON *cell)
{
	const cJSON *e = party_named(member(matrix, "exporters"), member_text(cell, "exporter"));
	const cJSON *i = party_named(member(matrix, "importers"), member_text(cell, "importer"));

	return member_true(e, "double") || member_true(i, "double");
}

static enum style style_of(const cJSON *cell)
{
	return !cell || is(cell, "result", "skipped") ? STYLE_DIM :
	       is(cell, "result", "ok") ? STYLE_GOOD :
	       is(cell, "result", "refused") ? STYLE_OFF : STYLE_BAD;
}

static size_t longest(size_t n, const char *s)
{
	return strlen(s) > n ? strlen(s) : n;
}

/* The width of an importer's column, with the space between columns. */
static size_t width_of(const cJSON *matrix, const cJSON *importer)
{
	size_t n = longest(0, head_of(importer).s);
	const cJSON *e;

	cJSON_ArrayForEach(e, member(matrix, "exporters"))
		n = longest(n, word_of(cell_of(matrix, e, importer)));
	return n + 2;
}

/* Prints a table of as many importers from `first` on as fit; returns the next one. */
static const cJSON *put_block(const cJSON *matrix, const cJSON *first)
{
	struct table t = { .ncolumns = 1 };
	size_t width = strlen("exporter") + 2;
	const cJSON *e, *i, *end = first;
	bool any;

	cJSON_ArrayForEach(e, member(matrix, "exporters"))
		if (!get_number(e, "status"))
			width = longest(width, member_text(e, "name"));
	for (width += 2; end; end = end->next) {
		if (get_number(end, "status"))
			continue;
		width += width_of(matrix, end);
		if (width > COLUMNS && t.ncolumns > 1)
			break;
		t.ncolumns++;
	}
	if (t.ncolumns == 1)
		return end;
	table_cell(&t, "exporter");
	for (i = first; i != end; i = i->next)
		if (!get_number(i, "status"))
			table_cell(&t, "%s", head_of(i).s);
	cJSON_ArrayForEach(e, member(matrix, "exporters")) {
		any = false;
		for (i = first; i != end && !any; i = i->next)
			any = cell_of(matrix, e, i);
		if (!any)
			continue;
		table_cell(&t, "%s", member_text(e, "name"));
		for (i = first; i != end; i = i->next) {
			if (get_number(i, "status"))
				continue;
			table_cell(&t, "%s", word_of(cell_of(matrix, e, i)));
			if (!of_double(matrix, cell_of(matrix, e, i)))
				table_style(&t, style_of(cell_of(matrix, e, i)));
		}
	}
	table_print(&t);
	putchar('\n');
	return end;
}

/* One sentence, from column 4 on, in lines that fit. */
static void put_wrapped(const char *text)
{
	int column = 4;

	fputs("    ", stdout);
	while (*text) {
		int n = strcspn(text, " ");

		if (column > 4 && column + n > COLUMNS) {
			fputs("\n    ", stdout);
			column = 4;
		}
		printf("%.*s", n, text);
		column += n;
		text += n;
		for (; *text == ' '; text++)
			if (column++ < COLUMNS)
				putchar(' ');
	}
	putchar('\n');
}

/* The cells with this result and reason, in one paragraph. */
static void put_reason(const cJSON *first)
{
	const char *result = member_text(first, "result"), *why = member_text(first, "reason");
	const cJSON *c;
	int column = 0;

	printf("%s%s%s", style(style_of(first)), result,
	       style_of(first) == STYLE_OFF ? "" : style(STYLE_OFF));
	column += strlen(result);
	for (c = first; c; c = c->next) {
		int n = strlen(member_text(c, "exporter")) + strlen(member_text(c, "importer"));

		if (!is(c, "result", result) || !is(c, "reason", why))
			continue;
		if (column + n + 6 > COLUMNS)
			column = printf("\n  ") - 1;
		column += printf("  %s > %s", member_text(c, "exporter"),
				 member_text(c, "importer"));
	}
	putchar('\n');
	put_wrapped(why);
}

static void put_reasons(const cJSON *matrix, bool verbose)
{
	const cJSON *c, *before;

	cJSON_ArrayForEach(c, member(matrix, "cells")) {
		bool seen = !*member_text(c, "reason") || (is(c, "result", "ok") && !verbose &&
							is(c, "path", "direct"));

		cJSON_ArrayForEach(before, member(matrix, "cells")) {
			if (before == c)
				break;
			seen |= is(before, "result", member_text(c, "result")) &&
				is(before, "reason", member_text(c, "reason"));
		}
		if (!seen)
			put_reason(c);
	}
}

static void put_absent(const cJSON *list)
{
	const cJSON *o;
	char text[700];

	cJSON_ArrayForEach(o, list) {
		if (!get_number(o, "status"))
			continue;
		printf("%sabsent%s  %s\n", style(STYLE_DIM), style(STYLE_OFF),
		       member_text(o, "name"));
		snprintf(text, sizeof(text), "%s", member_text(o, "reason"));
		put_wrapped(text);
	}
}

static bool is_there(const cJSON *list)
{
	const cJSON *o;

	cJSON_ArrayForEach(o, list)
		if (!get_number(o, "status"))
			return true;
	return false;
}

static void put_importers(const cJSON *matrix)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, member(matrix, "importers")) {
		if (get_number(i, "status"))
			continue;
		printf("  %s: %.60s%s%s\n", head_of(i).s, *member_text(i, "description") ?
		       member_text(i, "description") : member_text(i, "driver"),
		       member_true(i, "software") ? ", software" : "",
		       member_true(i, "double") ? ", a double of a driver" : "");
	}
}

static void put_checks(const cJSON *matrix)
{
	const cJSON *c, *check;

	cJSON_ArrayForEach(c, member(matrix, "cells")) {
		printf("%s%s > %s%s\n", style(STYLE_BOLD), member_text(c, "exporter"),
		       member_text(c, "importer"), style(STYLE_OFF));
		cJSON_ArrayForEach(check, member(c, "checks"))
			printf("  %-13s %-8s %s\n", member_text(check, "name"),
			       member_text(check, "result"), member_text(check, "reason"));
	}
	putchar('\n');
}

void matrix_table(const cJSON *matrix, bool verbose)
{
	const cJSON *i = member(matrix, "importers") ? member(matrix, "importers")->child : NULL;
	const cJSON *n;
	const char *comma = "";

	/* Without cells: prints the reasons instead of a legend. */
	if (!member(matrix, "cells")->child) {
		put_absent(member(matrix, is_there(member(matrix, "exporters")) ?
				  "importers" : "exporters"));
		return;
	}
	if (verbose)
		put_checks(matrix);
	while (i)
		i = put_block(matrix, i);
	puts("A word is the path of the bytes where all is ok: direct, host, bridge, copy or\n"
	     "kernel. '-' is skipped. *: software, some of which takes any fd that can be\n"
	     "mapped, so its ok proves no import. **: a double of a driver, for tests.\n");
	put_importers(matrix);
	putchar('\n');
	put_reasons(matrix, verbose);
	if (verbose) {
		put_absent(member(matrix, "exporters"));
		put_absent(member(matrix, "importers"));
	}
	cJSON_ArrayForEach(n, member(matrix, "summary")) {
		if (!n->valuedouble)
			continue;
		printf("%s%.0f %s", comma, n->valuedouble, n->string);
		comma = ", ";
	}
	putchar('\n');
}

/* ---------------------------------------------------------------- KTAP */

/* Text without characters that would begin a directive of KTAP. */
static struct line {
	char s[640];
} plain(const char *text)
{
	struct line t;

	snprintf(t.s, sizeof(t.s), "%s", text);
	for (char *c = t.s; (c = strchr(c, '#'));)
		*c = ' ';
	return t;
}

void matrix_ktap(const cJSON *matrix)
{
	unsigned int n = 0, passed = 0, skipped = 0;
	const cJSON *c, *check;

	printf("KTAP version 1\n1..%d\n", cJSON_GetArraySize(member(matrix, "cells")));
	cJSON_ArrayForEach(c, member(matrix, "cells")) {
		bool ok = is(c, "result", "ok");
		bool skip = is(c, "result", "skipped") || is(c, "result", "refused");

		cJSON_ArrayForEach(check, member(c, "checks"))
			if (!is(check, "result", "ok"))
				printf("# %s: %s: %s\n", member_text(check, "name"),
				       member_text(check, "result"), member_text(check, "reason"));
		printf("%s %u - %s/%s%s", ok || skip ? "ok" : "not ok", ++n,
		       member_text(c, "exporter"), member_text(c, "importer"),
		       of_double(matrix, c) ? " (a double of a driver)" : "");
		if (skip)
			printf(" # SKIP %s: %s", member_text(c, "result"),
			       plain(member_text(c, "reason")).s);
		else if (!ok)
			printf(" - %s: %s", member_text(c, "result"),
			       plain(member_text(c, "reason")).s);
		putchar('\n');
		passed += ok;
		skipped += skip;
	}
	printf("# Totals: pass:%u fail:%u skip:%u\n", passed, n - passed - skipped, skipped);
}
