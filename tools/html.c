// SPDX-License-Identifier: MIT
/* A matrix as a page of HTML. What never changes of it is in html_head.html. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "html.h"
#include "tool.h"

static const char head[] =
#include "html_head.html.h"
;

/* Results as the schema orders them; html_head.html has a mark and a colour of each. */
static const struct { const char *name, *meaning; } results[] = {
	{ "ok", "every check passed" },
	{ "wrong", "a byte differs: the data is not to be relied on" },
	{ "refused", "the driver does not take such a buffer, and says so" },
	{ "failed", "a call failed that should not" },
	{ "leaked", "file descriptors or memory were not given back" },
	{ "crashed", "the process of this cell was ended by a signal" },
	{ "hung", "no answer within the time limit" },
	{ "skipped", "not tried, for the reason given" },
};

static const struct { const char *name, *meaning; } paths[] = {
	{ "direct", "the importer's API takes the dma-buf" },
	{ "host", "the pages of the dma-buf are registered with the device" },
	{ "bridge", "a GPU copies the bytes" },
	{ "copy", "the CPU copies the bytes" },
	{ "kernel", "a driver of the kernel imports the dma-buf" },
};

/* ---------------------------------------------------------------- text */

static void put_escaped(FILE *f, const char *s)
{
	for (; *s; s++) {
		switch (*s) {
		case '&':
			fputs("&amp;", f);
			break;
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		case '\'':
			fputs("&#39;", f);
			break;
		default:
			putc((unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s, f);
		}
	}
}

/* printf() that knows %s, which it escapes, %d, %u and %g. Nothing else prints strings. */
__attribute__((format(printf, 2, 3)))
static void put(FILE *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			putc(*fmt, f);
			continue;
		}
		switch (*++fmt) {
		case 's':
			put_escaped(f, va_arg(ap, const char *));
			break;
		case 'd':
		case 'u':
			fprintf(f, "%d", va_arg(ap, int));
			break;
		case 'g':
			fprintf(f, "%.10g", va_arg(ap, double));
			break;
		}
	}
	va_end(ap);
}

/* A long name may break behind these. */
static void put_name(FILE *f, const char *name)
{
	for (; *name; name++) {
		char s[2] = { *name };

		put_escaped(f, s);
		if (strchr(":/,", *name) && name[1] != '/')
			fputs("<wbr>", f);
	}
}

/* The known result that a file's text is, so that it can be part of an id. */
static const char *result_of(const cJSON *o)
{
	const char *name = member_text(o, "result");

	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		if (!strcmp(name, results[i].name))
			return results[i].name;
	return "failed";
}

static void put_result(FILE *f, const char *result)
{
	put(f, "<svg class=mark aria-hidden=true><use href=\"#m-%s\"/></svg>"
	    "%s", result, result);
}

static void put_flags(FILE *f, const cJSON *importer)
{
	if (member_true(importer, "software"))
		put(f, " <i class=flag title=\"It computes on the CPU: that it "
		    "takes a buffer does not show that hardware would\">"
		    "software</i>");
	if (member_true(importer, "double"))
		put(f, " <i class=\"flag double\" title=\"A test's replacement "
		    "of a driver: not hardware\">double</i>");
}

/* ---------------------------------------------------------------- machine */

static void put_fact(FILE *f, const char *name, const char *value)
{
	if (*value)
		put(f, "<div><dt>%s<dd>%s</div>\n", name, value);
}

/* Each driver once. */
static void put_drivers(FILE *f, const struct grid *grid)
{
	const char *seen[2 * 256];
	uint32_t n = 0;

	for (uint32_t i = 0; i < grid->nexporters + grid->nimporters; i++) {
		const char *driver = member_text(i < grid->nexporters ?
			grid->exporters[i] :
			grid->importers[i - grid->nexporters], "driver");
		uint32_t k = 0;

		while (k < n && strcmp(seen[k], driver))
			k++;
		if (k < n || !*driver)
			continue;
		put(f, n ? ", %s" : "<div class=wide><dt>Drivers<dd>%s", driver);
		seen[n++] = driver;
	}
	if (n)
		put(f, "</div>\n");
}

static void put_machine(FILE *f, const struct grid *grid)
{
	const cJSON *machine = member(grid->json, "machine");
	const cJSON *options = member(grid->json, "options");
	const char *board = member_text(machine, "board");
	const char *cpu = member_text(machine, "cpu");
	double cpus, memory;

	put(f, "<header><p class=over>dma-buf matrix<h1>%s</h1>\n<dl class=facts>\n",
	    *board ? board : *cpu ? cpu : "A machine");
	put(f, "<div><dt>Kernel<dd>%s %s</div>\n", member_text(machine, "kernel"),
	    member_text(machine, "arch"));
	if (member_number(machine, "cpus", &cpus))
		put(f, "<div><dt>CPU<dd>%s, %g CPUs</div>\n", cpu, cpus);
	if (member_number(machine, "memory_bytes", &memory))
		put_fact(f, "Memory", text_size(memory).s);
	put_fact(f, "Distribution", member_text(machine, "distribution"));
	put(f, "<div><dt>Measured<dd>%s%s%s</div>\n", member_text(grid->json, "time"),
	    member_true(options, "quick") ? ", quick" : "",
	    member_true(options, "dangerous") ? ", dangerous pairs too" : "");
	put_drivers(f, grid);
	put(f, "</dl></header>\n");
}

/* ---------------------------------------------------------------- cells */

static uint32_t count_of(const struct grid *grid, const char *result)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < grid->nexporters * grid->nimporters; i++)
		n += grid->cells[i] && !strcmp(result_of(grid->cells[i]), result);
	return n;
}

static void put_legend(FILE *f, const struct grid *grid)
{
	put(f, "<ul class=legend>\n");
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		uint32_t n = count_of(grid, results[i].name);

		put(f, "<li class=\"%s\" title=\"%s\"><span class=\"chip r-%s\">",
		    n ? "" : "none", results[i].meaning, results[i].name);
		put_result(f, results[i].name);
		put(f, "</span> %u\n", n);
	}
	put(f, "</ul>\n<details class=words><summary>What the words mean</summary><dl>\n");
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		put(f, "<dt>%s<dd>%s\n", results[i].name, results[i].meaning);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		put(f, "<dt>%s<dd>path: %s\n", paths[i].name, paths[i].meaning);
	put(f, "</dl></details>\n");
}

static void put_checks(FILE *f, const cJSON *cell)
{
	const cJSON *list = member(cell, "checks"), *check;

	if (!cJSON_GetArraySize(list))
		return;
	put(f, "<h4>Checks</h4><ul class=checks>\n");
	cJSON_ArrayForEach(check, list) {
		put(f, "<li><span class=\"chip r-%s\">", result_of(check));
		put_result(f, result_of(check));
		put(f, "</span><span>%s <small>%s</small></span>\n",
		    member_text(check, "name"), member_text(check, "reason"));
	}
	put(f, "</ul>\n");
}

static void put_costs(FILE *f, const cJSON *cell)
{
	const cJSON *sizes[MAX_SIZES];
	double bytes = 0, n;
	int nsizes = 0;

	while (nsizes < MAX_SIZES && (sizes[nsizes] = next_cost(cell, &bytes)))
		nsizes++;
	if (!nsizes)
		return;
	put(f, "<h4>Costs</h4><div class=scroll><table class=figures><tr><th>");
	for (int k = 0; k < nsizes; k++)
		put(f, "<th>%s", member_number(sizes[k], "bytes", &n) ? text_size(n).s : "");
	for (uint32_t i = 0; i < ncost_kinds; i++) {
		put(f, "\n<tr><th>%s", cost_kinds[i].title);
		for (int k = 0; k < nsizes; k++)
			put(f, "<td>%s", member_number(sizes[k], cost_kinds[i].key, &n) ?
			    text_cost(&cost_kinds[i], n).s : "-");
	}
	put(f, "</table></div>\n");
}

static void put_wrong(FILE *f, const cJSON *wrong)
{
	double offset;

	if (member_number(wrong, "offset", &offset))
		put(f, "<p>Check <b>%s</b>: at byte %g the importer reads "
		    "<code>%s</code>; <code>%s</code> was written.\n",
		    member_text(wrong, "check"), offset,
		    member_text(wrong, "got"), member_text(wrong, "expected"));
}

static void put_soak(FILE *f, const cJSON *soak)
{
	double runs, seconds, errors;

	if (member_number(soak, "runs", &runs) &&
	    member_number(soak, "seconds", &seconds) &&
	    member_number(soak, "errors", &errors))
		put(f, "<p>Repeated %g times in %g s, with %g errors.\n", runs,
		    seconds, errors);
}

static void put_path(FILE *f, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (!strcmp(path, paths[i].name))
			put(f, "<p>Path <b>%s</b>: %s.\n", path, paths[i].meaning);
}

/* A click shows this. The link that closes it leads nowhere, so that nothing scrolls. */
static void put_panel(FILE *f, const struct grid *grid, uint32_t e, uint32_t i)
{
	const cJSON *cell = grid_cell(grid, e, i);
	const char *reason = member_text(cell, "reason");
	double n;

	put(f, "<aside id=c%u-%u><a class=close href=\"#closed\" "
	    "aria-label=Close>&times;</a><p class=over>", e, i);
	put(f, "%s &rarr; %s", member_text(cell, "exporter"), member_text(cell, "importer"));
	put_flags(f, grid->importers[i]);
	put(f, "<h3><span class=\"chip r-%s\">", result_of(cell));
	put_result(f, result_of(cell));
	put(f, "</span></h3>\n<p class=reason>%s\n", *reason ? reason :
	    "Every check passed.");
	put_path(f, member_text(cell, "path"));
	put_wrong(f, member(cell, "wrong"));
	if (member_number(cell, "signal", &n))
		put(f, "<p>Signal %g (%s).\n", n, strsignal((int)n));
	put_soak(f, member(cell, "soak"));
	put_checks(f, cell);
	put_costs(f, cell);
	if (member_number(cell, "seconds", &n) && n >= .001)
		put(f, "<p class=hint>This cell took %g s.\n", n);
	put(f, "</aside>");
}

static void put_cell(FILE *f, const struct grid *grid, uint32_t e, uint32_t i)
{
	const cJSON *cell = grid_cell(grid, e, i);

	if (!cell) {
		put(f, "<td>\n");
		return;
	}
	put(f, "<td><a class=\"cell r-%s\" href=\"#c%u-%u\" title=\"%s\"><b>",
	    result_of(cell), e, i, member_text(cell, "reason"));
	put_result(f, result_of(cell));
	/* An ok with a reason is less than an ok. */
	put(f, "</b><small>%s%s%s</small></a>", member_text(cell, "path"),
	    !strcmp(result_of(cell), "ok") && *member_text(cell, "reason") ? ", with a note" : "",
	    member_true(grid->importers[i], "double") ? " (double)" : "");
	put_panel(f, grid, e, i);
	put(f, "\n");
}

static void put_matrix(FILE *f, const struct grid *grid)
{
	put(f, "<section><h2>Who takes whose buffers</h2>\n");
	put_legend(f, grid);
	put(f, "<div class=\"scroll frame\" role=region tabindex=0 aria-label=Matrix>"
	    "<table class=matrix>\n<thead><tr><th class=corner>exporter "
	    "<span>importer</span>\n");
	for (uint32_t i = 0; i < grid->nimporters; i++) {
		if (!grid_has_column(grid, i))
			continue;
		put(f, "<th scope=col>");
		put_name(f, member_text(grid->importers[i], "name"));
		put_flags(f, grid->importers[i]);
		put(f, "\n");
	}
	put(f, "<tbody>\n");
	for (uint32_t e = 0; e < grid->nexporters; e++) {
		if (!grid_has_row(grid, e))
			continue;
		put(f, "<tr><th scope=row>");
		put_name(f, member_text(grid->exporters[e], "name"));
		put_flags(f, grid->exporters[e]);
		put(f, "<small>%s</small>\n", member_text(grid->exporters[e], "driver"));
		for (uint32_t i = 0; i < grid->nimporters; i++)
			if (grid_has_column(grid, i))
				put_cell(f, grid, e, i);
	}
	put(f, "</table></div>\n<p class=hint>A row is an exporter, a column an importer. "
	    "A click on a cell, or Enter, shows its reason, its checks and its costs.\n"
	    "</section>\n");
}

/* ---------------------------------------------------------------- reasons */

static bool same_reason(const cJSON *a, const cJSON *b)
{
	return a && b && result_of(a) == result_of(b) &&
	       !strcmp(member_text(a, "reason"), member_text(b, "reason"));
}

/* One reason of cells with this result, at the first cell that has it. */
static void put_reason(FILE *f, const struct grid *grid, uint32_t n, const char *result)
{
	uint32_t cells = grid->nexporters * grid->nimporters;
	const cJSON *cell = grid->cells[n];

	if (!cell || !*member_text(cell, "reason") || strcmp(result_of(cell), result))
		return;
	for (uint32_t i = 0; i < n; i++)
		if (same_reason(cell, grid->cells[i]))
			return;
	put(f, "<tr><td><span class=\"chip r-%s\">", result_of(cell));
	put_result(f, result_of(cell));
	put(f, "</span><td>%s<td><ul class=pairs>", member_text(cell, "reason"));
	for (uint32_t i = n; i < cells; i++)
		if (same_reason(cell, grid->cells[i]))
			put(f, "<li><a href=\"#c%u-%u\">%s &rarr; %s</a>",
			    i / grid->nimporters, i % grid->nimporters,
			    member_text(grid->cells[i], "exporter"),
			    member_text(grid->cells[i], "importer"));
	put(f, "</ul>\n");
}

static void put_reasons(FILE *f, const struct grid *grid)
{
	put(f, "<section><h2>Reasons</h2><div class=\"scroll frame\"><table class=list>\n"
	    "<thead><tr><th>result<th>reason<th>exporter &rarr; importer\n<tbody>\n");
	/* The notes of what is ok come last. */
	for (size_t k = 1; k <= ARRAY_SIZE(results); k++)
		for (uint32_t i = 0; i < grid->nexporters * grid->nimporters; i++)
			put_reason(f, grid, i, results[k % ARRAY_SIZE(results)].name);
	put(f, "</table></div></section>\n");
}

/* ---------------------------------------------------------------- plots */

#define PLOT_WIDTH 300
#define PLOT_HEIGHT 210
#define LEFT 62
#define RIGHT 12
#define TOP 10
#define BOTTOM 26
#define MARKS 6			/* html_head.html has as many, and 8 colours */

/* The range of all cells, so that one importer's plot compares with the next one's. */
struct axes {
	double low, high;	/* log10 of a cost, whole decades */
	double first, last;	/* log2 of the bytes */
};

static bool point_of(const cJSON *entry, const char *key, double *x, double *y)
{
	double bytes, value;

	if (!member_number(entry, "bytes", &bytes) || bytes < 1 ||
	    !member_number(entry, key, &value) || value < 1e-3)
		return false;
	*x = log2(bytes);
	*y = log10(value);
	return *x < 64 && *y < 24;
}

static bool axes_of(const struct grid *grid, const char *key, struct axes *axes)
{
	*axes = (struct axes){ INFINITY, -INFINITY, INFINITY, -INFINITY };
	for (uint32_t i = 0; i < grid->nexporters * grid->nimporters; i++) {
		const cJSON *entry, *list = member(grid->cells[i], "costs");
		double x, y;

		cJSON_ArrayForEach(entry, list) {
			if (!point_of(entry, key, &x, &y))
				continue;
			axes->first = fmin(axes->first, x);
			axes->last = fmax(axes->last, x);
			axes->low = fmin(axes->low, floor(y));
			axes->high = fmax(axes->high, floor(y) + 1);
		}
	}
	return axes->high > axes->low;
}

static double at_x(const struct axes *axes, double x)
{
	double width = PLOT_WIDTH - LEFT - RIGHT;

	if (axes->last <= axes->first)
		return LEFT + width / 2;
	return round(10 * (LEFT + 8 + (width - 16) * (x - axes->first) /
			   (axes->last - axes->first))) / 10;
}

static double at_y(const struct axes *axes, double y)
{
	return round(10 * (TOP + (PLOT_HEIGHT - TOP - BOTTOM) * (axes->high - y) /
			   (axes->high - axes->low))) / 10;
}

static void put_axes(FILE *f, const struct cost *cost, const struct axes *axes)
{
	double decades = ceil((axes->high - axes->low) / 6), x = axes->first;

	for (double y = axes->low; y <= axes->high; y += decades)
		put(f, "<path class=grid d=\"M%d %gH%d\"/><text class=y x=%d y=%g>"
		    "%s</text>\n", LEFT, at_y(axes, y), PLOT_WIDTH - RIGHT,
		    LEFT - 6, at_y(axes, y) + 4, text_cost(cost, pow(10, y)).s);
	for (double step = fmax(2, ceil((axes->last - x) / 4)); x <= axes->last; x += step)
		put(f, "<text class=x x=%g y=%d>%s</text>\n", at_x(axes, x),
		    PLOT_HEIGHT - 8, text_size(exp2(x)).s);
}

/* True if a cell has anything to plot of this cost. */
static bool has_cost(const cJSON *cell, const struct cost *cost)
{
	const cJSON *list = member(cell, "costs"), *entry;
	double x, y;

	cJSON_ArrayForEach(entry, list)
		if (point_of(entry, cost->key, &x, &y))
			return true;
	return false;
}

/* True if an importer has; cost NULL: of any cost. */
static bool has_plot(const struct grid *grid, uint32_t i, const struct cost *cost)
{
	for (uint32_t e = 0; e < grid->nexporters; e++)
		for (uint32_t k = 0; k < ncost_kinds; k++)
			if ((!cost || cost == &cost_kinds[k]) &&
			    has_cost(grid_cell(grid, e, i), &cost_kinds[k]))
				return true;
	return false;
}

static bool has_series(const struct grid *grid, uint32_t e)
{
	for (uint32_t i = 0; i < grid->nimporters; i++)
		for (uint32_t k = 0; k < ncost_kinds; k++)
			if (has_cost(grid_cell(grid, e, i), &cost_kinds[k]))
				return true;
	return false;
}

static void put_series(FILE *f, const struct cost *cost, const struct axes *axes,
		       const cJSON *cell, uint32_t e)
{
	const cJSON *entry;
	double bytes, x, y;

	if (!has_cost(cell, cost))
		return;
	put(f, "<g class=s%u><polyline points=\"", e % 8);
	bytes = 0;
	for (int i = 0; i < MAX_SIZES && (entry = next_cost(cell, &bytes)); i++)
		if (point_of(entry, cost->key, &x, &y))
			put(f, "%g,%g ", at_x(axes, x), at_y(axes, y));
	put(f, "\"/>");
	bytes = 0;
	for (int i = 0; i < MAX_SIZES && (entry = next_cost(cell, &bytes)); i++)
		if (point_of(entry, cost->key, &x, &y))
			put(f, "<use href=\"#p%u\" x=%g y=%g><title>%s, %s: %s</title>"
			    "</use>", e % MARKS, at_x(axes, x), at_y(axes, y),
			    member_text(cell, "exporter"), text_size(exp2(x)).s,
			    text_cost(cost, pow(10, y)).s);
	put(f, "</g>\n");
}

static void put_plot(FILE *f, const struct grid *grid, uint32_t i,
		     const struct cost *cost)
{
	struct axes axes;

	if (!has_plot(grid, i, cost) || !axes_of(grid, cost->key, &axes))
		return;
	put(f, "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\" role=img "
	    "aria-label=\"%s against size\">\n", cost->title, PLOT_WIDTH, PLOT_HEIGHT,
	    cost->title);
	put_axes(f, cost, &axes);
	for (uint32_t e = 0; e < grid->nexporters; e++)
		put_series(f, cost, &axes, grid_cell(grid, e, i), e);
	put(f, "</svg></figure>\n");
}

static void put_plots(FILE *f, const struct grid *grid)
{
	bool any = false;

	for (uint32_t i = 0; i < grid->nimporters; i++)
		any |= has_plot(grid, i, NULL);
	if (!any)
		return;
	put(f, "<section><h2>Costs against size</h2>\n<ul class=series>\n");
	for (uint32_t e = 0; e < grid->nexporters; e++) {
		if (!has_series(grid, e))
			continue;
		put(f, "<li><svg viewBox=\"-8 -6 16 12\" class=s%u aria-hidden=true>"
		    "<path d=\"M-8 0H8\"/><use href=\"#p%u\"/></svg> ", e % 8, e % MARKS);
		put_name(f, member_text(grid->exporters[e], "name"));
		put(f, "\n");
	}
	put(f, "</ul>\n");
	for (uint32_t i = 0; i < grid->nimporters; i++) {
		if (!has_plot(grid, i, NULL))
			continue;
		put(f, "<div class=\"frame plots\"><h3>%s",
		    member_text(grid->importers[i], "name"));
		put_flags(f, grid->importers[i]);
		put(f, "</h3><div class=row>\n");
		for (uint32_t k = 0; k < ncost_kinds; k++)
			put_plot(f, grid, i, &cost_kinds[k]);
		put(f, "</div></div>\n");
	}
	put(f, "<p class=hint>Both axes are logarithmic, and the same for all "
	    "importers.\n</section>\n");
}

/* ---------------------------------------------------------------- lists */

static void put_list(FILE *f, const char *title, const cJSON **items, uint32_t n)
{
	put(f, "<section><h2>%s</h2><div class=\"scroll frame\"><table class=list>\n"
	    "<thead><tr><th>name<th>node<th>driver<th>here\n<tbody>\n", title);
	for (uint32_t i = 0; i < n; i++) {
		const char *reason = member_text(items[i], "reason");
		const char *description = member_text(items[i], "description");

		put(f, "<tr><th scope=row>%s", member_text(items[i], "name"));
		put_flags(f, items[i]);
		put(f, "<td>%s<td>%s<td>%s%s%s\n", member_text(items[i], "node"),
		    member_text(items[i], "driver"), description,
		    *reason && *description ? ": " : "",
		    *reason ? reason : *description ? "" : "yes");
	}
	put(f, "</table></div></section>\n");
}

int html_write(const cJSON *matrix, FILE *f)
{
	const char *title = member_text(member(matrix, "machine"), "board");
	struct grid grid;
	int status = grid_open(&grid, matrix, "the matrix");

	if (status)
		return status;
	put(f, "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n"
	    "<title>dma-buf matrix%s%s</title>\n", *title ? ": " : "", title);
	fputs(head, f);
	put(f, "<main>\n");
	put_machine(f, &grid);
	put_matrix(f, &grid);
	put_reasons(f, &grid);
	put_plots(f, &grid);
	put_list(f, "Exporters", grid.exporters, grid.nexporters);
	put_list(f, "Importers", grid.importers, grid.nimporters);
	put(f, "</main>\n<footer>Made by dmabuf-test of dlbuf %s.</footer>\n",
	    member_text(matrix, "dlbuf"));
	grid_close(&grid);
	return 0;
}
