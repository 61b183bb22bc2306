// SPDX-License-Identifier: MIT
/* Reads again the JSON that `dmabuf-test matrix` has written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "tool.h"

#define FORMAT 1
/* A cell is about 3 KB, a machine has some hundred. */
#define MAX_BYTES (16u << 20)
#define MAX_NAMES 256

const struct cost cost_kinds[] = {
	{ "first_import_ns", "first import", false },
	{ "cached_import_ns", "cached import", false },
	{ "acquire_release_ns", "acquire + release", false },
	{ "read_bytes_per_s", "read", true },
	{ "write_bytes_per_s", "write", true },
};
const uint32_t ncost_kinds = ARRAY_SIZE(cost_kinds);

const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *member_text(const cJSON *object, const char *name)
{
	const char *s = cJSON_GetStringValue(member(object, name));

	return s ? s : "";
}

bool member_number(const cJSON *object, const char *name, double *n)
{
	const cJSON *item = member(object, name);

	if (!cJSON_IsNumber(item))
		return false;
	*n = item->valuedouble;
	return true;
}

bool member_true(const cJSON *object, const char *name)
{
	return cJSON_IsTrue(member(object, name));
}

const cJSON *next_cost(const cJSON *cell, double *bytes)
{
	const cJSON *list = member(cell, "costs"), *entry, *next = NULL;
	double n, least = 0;

	cJSON_ArrayForEach(entry, list) {
		if (!member_number(entry, "bytes", &n) || n <= *bytes ||
		    (next && n >= least))
			continue;
		next = entry;
		least = n;
	}
	*bytes = least;
	return next;
}

struct text text_size(double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	struct text t;
	size_t unit = 0;

	for (; unit + 1 < ARRAY_SIZE(units) && bytes >= 1024; bytes /= 1024)
		unit++;
	snprintf(t.s, sizeof(t.s), "%.4g %s", bytes, units[unit]);
	return t;
}

struct text text_cost(const struct cost *cost, double value)
{
	static const char *const units[][4] = {
		{ "us", "ms", "s", "ks" }, { "kB/s", "MB/s", "GB/s", "TB/s" },
	};
	struct text t;
	size_t unit = 0;

	for (value /= 1e3; unit + 1 < ARRAY_SIZE(units[0]) && value >= 999.5; value /= 1e3)
		unit++;
	snprintf(t.s, sizeof(t.s), "%.3g %s", value, units[cost->rate][unit]);
	return t;
}

/* The whole file, with a 0 behind it. */
static int read_file(const char *path, char **text, size_t *size)
{
	FILE *f = fopen(path, "re");
	int status = 0;

	if (!f)
		return fail(STATUS_SYSTEM, "%s: %s", path, strerror(errno));
	*text = malloc(MAX_BYTES + 1);
	errno = 0;
	*size = *text ? fread(*text, 1, MAX_BYTES + 1, f) : 0;
	if (!*text || ferror(f))
		status = fail(STATUS_SYSTEM, "%s: %s", path, strerror(errno));
	else if (*size > MAX_BYTES)
		status = fail(STATUS_SYSTEM, "%s is larger than %u MiB, which "
			      "no matrix is", path, MAX_BYTES >> 20);
	else
		(*text)[*size] = '\0';
	fclose(f);
	return status;
}

/* True if the end of the file is missing: a string or a bracket is open. */
static bool is_cut(const char *s)
{
	bool string = false;
	long depth = 0;

	for (; *s; s++) {
		if (*s == '"')
			string = !string;
		else if (string && *s == '\\' && s[1])
			s++;
		else if (!string)
			depth += strchr("[{", *s) ? 1 : strchr("]}", *s) ? -1 : 0;
	}
	return string || depth > 0;
}

static int parse(const char *path, const char *text, size_t size, cJSON **json)
{
	const char *end = text;
	double format;

	*json = cJSON_ParseWithLengthOpts(text, size + 1, &end, true);
	if (!*json && !size)
		return fail(STATUS_SYSTEM, "%s is empty", path);
	if (!*json && is_cut(text))
		return fail(STATUS_SYSTEM, "%s is not complete: it ends within "
			    "a value", path);
	if (!*json)
		return fail(STATUS_SYSTEM, "%s is not JSON, or nested too "
			    "deeply: see byte %zu", path, (size_t)(end - text));
	if (strcmp(member_text(*json, "dmabuf_test"), "matrix"))
		return fail(STATUS_SYSTEM, "%s is not a matrix: it has no "
			    "\"dmabuf_test\": \"matrix\"", path);
	if (!member_number(*json, "format", &format))
		return fail(STATUS_SYSTEM, "%s has no number of its format", path);
	if (format != FORMAT)
		return fail(STATUS_SYSTEM, "%s has format %g; this dmabuf-test "
			    "reads format %d", path, format, FORMAT);
	return 0;
}

int grid_read(const char *path, cJSON **json)
{
	char *text = NULL;
	size_t size = 0;
	int status = read_file(path, &text, &size);
	struct grid grid;

	*json = NULL;
	if (!status)
		status = parse(path, text, size, json);
	free(text);
	if (!status)
		status = grid_open(&grid, *json, path);
	if (!status) {
		grid_close(&grid);
	} else {
		cJSON_Delete(*json);
		*json = NULL;
	}
	return status;
}

/* Counts the entries of a list that have a name, in *items. */
static int open_list(const cJSON *json, const char *key, const char *name,
		     const cJSON ***items, uint32_t *n)
{
	const cJSON *list = member(json, key), *item;
	int size = cJSON_GetArraySize(list);

	if (!cJSON_IsArray(list))
		return fail(STATUS_SYSTEM, "%s has no list of %s", name, key);
	if (size > MAX_NAMES)
		return fail(STATUS_SYSTEM, "%s has %d %s; the most are %d",
			    name, size, key, MAX_NAMES);
	*items = calloc(size + 1, sizeof(**items));
	if (!*items)
		return fail(STATUS_SYSTEM, "no memory for %s", name);
	cJSON_ArrayForEach(item, list) {
		if (!*member_text(item, "name"))
			return fail(STATUS_SYSTEM, "%s: one of the %s has no "
				    "name", name, key);
		(*items)[(*n)++] = item;
	}
	return 0;
}

static uint32_t find(const cJSON **items, uint32_t n, const char *name)
{
	uint32_t i = 0;

	while (i < n && strcmp(member_text(items[i], "name"), name))
		i++;
	return i;
}

static int open_cells(struct grid *grid, const char *name)
{
	const cJSON *list = member(grid->json, "cells"), *cell;

	if (!cJSON_IsArray(list))
		return fail(STATUS_SYSTEM, "%s has no list of cells", name);
	grid->cells = calloc(grid->nexporters * grid->nimporters + 1,
			     sizeof(*grid->cells));
	if (!grid->cells)
		return fail(STATUS_SYSTEM, "no memory for %s", name);
	cJSON_ArrayForEach(cell, list) {
		uint32_t e = find(grid->exporters, grid->nexporters,
				  member_text(cell, "exporter"));
		uint32_t i = find(grid->importers, grid->nimporters,
				  member_text(cell, "importer"));

		if (e == grid->nexporters || i == grid->nimporters)
			return fail(STATUS_SYSTEM, "%s has a cell whose "
				    "exporter or importer is not listed", name);
		grid->cells[e * grid->nimporters + i] = cell;
	}
	return 0;
}

int grid_open(struct grid *grid, const cJSON *json, const char *name)
{
	int status;

	*grid = (struct grid){ .json = json };
	status = open_list(json, "exporters", name, &grid->exporters,
			   &grid->nexporters);
	if (!status)
		status = open_list(json, "importers", name, &grid->importers,
				   &grid->nimporters);
	if (!status)
		status = open_cells(grid, name);
	if (status)
		grid_close(grid);
	return status;
}

void grid_close(struct grid *grid)
{
	free(grid->exporters);
	free(grid->importers);
	free(grid->cells);
	*grid = (struct grid){ 0 };
}

const cJSON *grid_cell(const struct grid *grid, uint32_t exporter,
		       uint32_t importer)
{
	return grid->cells[exporter * grid->nimporters + importer];
}

static bool has_cells(const struct grid *grid, uint32_t first, uint32_t step, uint32_t n)
{
	while (n--)
		if (grid->cells[first + n * step])
			return true;
	return false;
}

bool grid_has_row(const struct grid *grid, uint32_t exporter)
{
	return has_cells(grid, exporter * grid->nimporters, 1, grid->nimporters);
}

bool grid_has_column(const struct grid *grid, uint32_t importer)
{
	return has_cells(grid, importer, grid->nimporters, grid->nexporters);
}
