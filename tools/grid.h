/* SPDX-License-Identifier: MIT */
/*
 * Reads again the JSON that `dmabuf-test matrix` has written. docs/matrix.schema.json
 * describes it. Strings that are absent read as "", so that a file that somebody has
 * edited is no danger.
 */
#ifndef DMABUF_TEST_GRID_H
#define DMABUF_TEST_GRID_H

#include <stdint.h>

#include "json.h"
#include "out.h"

struct grid {
	const cJSON *json;		/* borrowed */
	uint32_t nexporters, nimporters;
	const cJSON **exporters, **importers;
	const cJSON **cells;		/* by grid_cell() */
};

/* Reads a file and checks that it is a matrix; *json is new. 0 or a status. */
int grid_read(const char *path, cJSON **json);

/* Opens a matrix, which is called `name` in a failure. Returns 0 or a status. */
int grid_open(struct grid *grid, const cJSON *json, const char *name);
void grid_close(struct grid *grid);

/* NULL: there is no such cell. */
const cJSON *grid_cell(const struct grid *grid, uint32_t exporter,
		       uint32_t importer);

/* An absent exporter or importer has no cells: its row or column would be empty. */
bool grid_has_row(const struct grid *grid, uint32_t exporter);
bool grid_has_column(const struct grid *grid, uint32_t importer);

/* An object's member, its text, its number. False: there is no number. */
const cJSON *member(const cJSON *object, const char *name);
const char *member_text(const cJSON *object, const char *name);
bool member_number(const cJSON *object, const char *name, double *n);
bool member_true(const cJSON *object, const char *name);

/* The costs of a cell and their units, in the order of the schema. */
extern const struct cost {
	const char *key, *title;
	bool rate;		/* bytes per second, more is better; else ns */
} cost_kinds[];
extern const uint32_t ncost_kinds;
/*
 * The entry of a cell's costs for the next larger size than *bytes, which is 0 at first
 * and becomes this size; NULL: there is none.
 */
const cJSON *next_cost(const cJSON *cell, double *bytes);
/* Sizes of one cell. Further ones are ignored. */
#define MAX_SIZES 64
struct text text_cost(const struct cost *cost, double value);

/* "4 KiB"; whole numbers only. */
struct text text_size(double bytes);

#endif /* DMABUF_TEST_GRID_H */
