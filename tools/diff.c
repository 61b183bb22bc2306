// SPDX-License-Identifier: MIT
/*
 * dmabuf-test diff: two matrices, of two machines, kernels or drivers. What differs is
 * collected as JSON, of which the table is another view.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/base.h>

#include "grid.h"
#include "opts.h"
#include "tool.h"

enum verdict { OTHER, BETTER, WORSE };
static const char *const verdicts[] = { "changed", "better", "worse" };

struct diff {
	struct grid a, b;
	double factor;
	struct json_to json;
	cJSON *out;
	unsigned int counts[ARRAY_SIZE(verdicts)];
};

static enum verdict less_is_better(double a, double b)
{
	return b < a ? BETTER : b > a ? WORSE : OTHER;
}

static const char *result_of(const cJSON *cell)
{
	return cell ? member_text(cell, "result") : "absent";
}

/* The first of several lists of words that has this one; n: none has. */
static int rank_of(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n && *word; i++)
		if (strstr(words[i], word))
			return i;
	return n;
}

/* The rank of a result. A refused or a skipped cell harms nobody, and serves nobody. */
static int result_rank(const cJSON *cell)
{
	static const char *const ranks[] = {
		"ok", "refused skipped absent", "failed", "leaked", "wrong",
		"hung", "crashed",
	};

	return rank_of(ranks, ARRAY_SIZE(ranks), result_of(cell));
}

static int path_rank(const cJSON *cell)
{
	static const char *const ranks[] = { "direct kernel", "host", "bridge",
					     "copy" };

	return rank_of(ranks, ARRAY_SIZE(ranks), member_text(cell, "path"));
}

/* A new object at the end of a list, with its verdict, which is counted. */
static cJSON *add(struct diff *d, const char *list, enum verdict verdict)
{
	cJSON *o = cJSON_CreateObject();

	d->counts[verdict]++;
	cJSON_AddItemToArray(cJSON_GetObjectItem(d->out, list), o);
	cJSON_AddStringToObject(o, "verdict", verdicts[verdict]);
	return o;
}

/* ---------------------------------------------------------------- comparing */

static void compare_machine(struct diff *d)
{
	const cJSON *a = member(d->a.json, "machine");
	const cJSON *b = member(d->b.json, "machine"), *item;

	cJSON_ArrayForEach(item, b) {
		const cJSON *other = member(a, item->string);
		cJSON *o;

		if (cJSON_Compare(item, other, true))
			continue;
		o = add(d, "machine", OTHER);
		cJSON_AddStringToObject(o, "what", item->string);
		cJSON_AddItemToObject(o, "a", other ? cJSON_Duplicate(other, true) :
				      cJSON_CreateNull());
		cJSON_AddItemToObject(o, "b", cJSON_Duplicate(item, true));
	}
}

static const cJSON *named(const cJSON **items, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(member_text(items[i], "name"), name))
			return items[i];
	return NULL;
}

/* An exporter or importer that is not there, or does not work, says why. */
static const char *state_of(const cJSON *item, bool *works)
{
	double status = 0;

	*works = item && (!member_number(item, "status", &status) || !status);
	return !item ? "absent" : *works ? "works" : member_text(item, "reason");
}

static void compare_items(struct diff *d, const char *list, const cJSON *a,
			  const cJSON *b)
{
	static const char *const strings[] = { "driver", "description" };
	bool worked, works;
	const char *before = state_of(a, &worked), *after = state_of(b, &works);
	const char *name = member_text(a ? a : b, "name");
	cJSON *o;

	if (strcmp(before, after)) {
		o = add(d, list, less_is_better(!worked, !works));
		cJSON_AddStringToObject(o, "name", name);
		cJSON_AddStringToObject(o, "a", before);
		cJSON_AddStringToObject(o, "b", after);
	}
	for (size_t i = 0; a && b && i < ARRAY_SIZE(strings); i++) {
		before = member_text(a, strings[i]);
		after = member_text(b, strings[i]);
		if (!strcmp(before, after))
			continue;
		o = add(d, list, OTHER);
		cJSON_AddStringToObject(o, "name", name);
		cJSON_AddStringToObject(o, "a", before);
		cJSON_AddStringToObject(o, "b", after);
	}
}

static void compare_lists(struct diff *d, const char *list, const cJSON **a,
			  uint32_t na, const cJSON **b, uint32_t nb)
{
	for (uint32_t i = 0; i < na; i++)
		compare_items(d, list, a[i],
			      named(b, nb, member_text(a[i], "name")));
	for (uint32_t i = 0; i < nb; i++)
		if (!named(a, na, member_text(b[i], "name")))
			compare_items(d, list, NULL, b[i]);
}

static void add_pair(cJSON *o, const cJSON *cell)
{
	cJSON_AddStringToObject(o, "exporter", member_text(cell, "exporter"));
	cJSON_AddStringToObject(o, "importer", member_text(cell, "importer"));
}

static void add_side(cJSON *o, const char *name, const cJSON *cell)
{
	const char *path = member_text(cell, "path");
	cJSON *side = cJSON_AddObjectToObject(o, name);

	cJSON_AddStringToObject(side, "result", result_of(cell));
	if (*path)
		cJSON_AddStringToObject(side, "path", path);
	else
		cJSON_AddNullToObject(side, "path");
	cJSON_AddStringToObject(side, "reason", member_text(cell, "reason"));
}

static void compare_cost(struct diff *d, const cJSON *cell, const cJSON *entry_a,
			 const cJSON *entry_b, const struct cost *cost)
{
	double bytes, a, b, change;
	cJSON *o;

	if (!member_number(entry_a, cost->key, &a) || a <= 0 ||
	    !member_number(entry_b, cost->key, &b) || b <= 0)
		return;
	change = b > a ? b / a : a / b;
	if (!d->factor || change < d->factor)
		return;
	member_number(entry_b, "bytes", &bytes);
	o = add(d, "costs", cost->rate ? less_is_better(b, a) :
		less_is_better(a, b));
	add_pair(o, cell);
	cJSON_AddNumberToObject(o, "bytes", bytes);
	cJSON_AddStringToObject(o, "what", cost->key);
	cJSON_AddNumberToObject(o, "a", a);
	cJSON_AddNumberToObject(o, "b", b);
	cJSON_AddNumberToObject(o, "factor", change);
}

static void compare_costs(struct diff *d, const cJSON *a, const cJSON *b)
{
	const cJSON *entry_a = NULL, *entry_b;
	double bytes_a = 0, bytes_b = 0;

	for (int i = 0; i < MAX_SIZES && (entry_b = next_cost(b, &bytes_b)); i++) {
		while (bytes_a < bytes_b && (entry_a = next_cost(a, &bytes_a)))
			;
		if (!entry_a)
			return;
		for (uint32_t k = 0; bytes_a == bytes_b && k < ncost_kinds; k++)
			compare_cost(d, b, entry_a, entry_b, &cost_kinds[k]);
	}
}

static void compare_cells(struct diff *d, const cJSON *a, const cJSON *b)
{
	bool same = !strcmp(result_of(a), result_of(b));
	enum verdict verdict;
	cJSON *o;

	if (!a && !b)
		return;
	if (!same || strcmp(member_text(a, "path"), member_text(b, "path"))) {
		verdict = same ? less_is_better(path_rank(a), path_rank(b)) :
				 less_is_better(result_rank(a), result_rank(b));
		o = add(d, "cells", verdict);
		add_pair(o, a ? a : b);
		add_side(o, "a", a);
		add_side(o, "b", b);
	}
	compare_costs(d, a, b);
}

/* Index of a name in a list of the other matrix; -1: it is not there. */
static int index_of(const cJSON **items, uint32_t n, const cJSON *item)
{
	const cJSON *other = named(items, n, member_text(item, "name"));

	for (uint32_t i = 0; i < n; i++)
		if (items[i] == other)
			return i;
	return -1;
}

/* Compares cells of exporters and importers that both have. The others have one line. */
static void compare_all_cells(struct diff *d)
{
	for (uint32_t e = 0; e < d->b.nexporters; e++) {
		int ea = index_of(d->a.exporters, d->a.nexporters, d->b.exporters[e]);

		for (uint32_t i = 0; ea >= 0 && i < d->b.nimporters; i++) {
			int ia = index_of(d->a.importers, d->a.nimporters,
					  d->b.importers[i]);

			if (ia >= 0)
				compare_cells(d, grid_cell(&d->a, ea, ia),
					      grid_cell(&d->b, e, i));
		}
	}
}

static void compare(struct diff *d)
{
	static const char *const lists[] = { "machine", "exporters", "importers",
					     "cells", "costs" };
	cJSON *counts;

	d->out = cJSON_CreateObject();
	cJSON_AddStringToObject(d->out, "dmabuf_test", "diff");
	cJSON_AddNumberToObject(d->out, "format", 1);
	cJSON_AddStringToObject(d->out, "dlbuf", dlbuf_version());
	cJSON_AddNumberToObject(d->out, "factor", d->factor);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		cJSON_AddArrayToObject(d->out, lists[i]);
	compare_machine(d);
	compare_lists(d, "exporters", d->a.exporters, d->a.nexporters,
		      d->b.exporters, d->b.nexporters);
	compare_lists(d, "importers", d->a.importers, d->a.nimporters,
		      d->b.importers, d->b.nimporters);
	compare_all_cells(d);
	counts = cJSON_AddObjectToObject(d->out, "summary");
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		cJSON_AddNumberToObject(counts, verdicts[i], d->counts[i]);
}

/* ---------------------------------------------------------------- table */

static void put_text(struct table *t, const char *s)
{
	char *copy = strdup(s);

	if (copy)
		make_printable(copy);
	table_cell(t, "%s", copy ? copy : "");
	free(copy);
}

static void put_verdict(struct table *t, const cJSON *o)
{
	const char *verdict = member_text(o, "verdict");

	table_cell(t, "%s", verdict);
	table_style(t, !strcmp(verdict, "worse") ? STYLE_BAD :
		    !strcmp(verdict, "better") ? STYLE_GOOD : STYLE_OFF);
}

static struct table begin(const char *title, const char *const *heads, unsigned int n)
{
	struct table t = { .ncolumns = n };

	printf("\n%s%s%s\n", style(STYLE_BOLD), title, style(STYLE_OFF));
	for (unsigned int i = 0; i < n; i++)
		table_cell(&t, "%s", heads[i]);
	return t;
}

/* A value of the machine, whatever its type. */
static void put_value(struct table *t, const cJSON *value)
{
	char *text = cJSON_IsString(value) ? strdup(value->valuestring) :
		     cJSON_PrintUnformatted(value);

	put_text(t, text ? text : "");
	free(text);
}

static void print_items(const cJSON *list, const char *title, const char *key)
{
	const char *const heads[] = { "", key, "A", "B" };
	struct table t;
	const cJSON *o;

	if (!cJSON_GetArraySize(list))
		return;
	t = begin(title, heads, ARRAY_SIZE(heads));
	cJSON_ArrayForEach(o, list) {
		put_verdict(&t, o);
		put_text(&t, member_text(o, key));
		put_value(&t, member(o, "a"));
		put_value(&t, member(o, "b"));
	}
	table_print(&t);
}

static void put_side(struct table *t, const cJSON *side)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %s", member_text(side, "result"),
		 member_text(side, "path"));
	put_text(t, text);
}

static void print_cells(const cJSON *list)
{
	static const char *const heads[] = { "", "exporter", "importer", "A", "B", "reason" };
	struct table t;
	const cJSON *o;

	if (!cJSON_GetArraySize(list))
		return;
	t = begin("Cells", heads, ARRAY_SIZE(heads));
	cJSON_ArrayForEach(o, list) {
		const cJSON *a = member(o, "a"), *b = member(o, "b");

		put_verdict(&t, o);
		put_text(&t, member_text(o, "exporter"));
		put_text(&t, member_text(o, "importer"));
		put_side(&t, a);
		put_side(&t, b);
		put_text(&t, member_text(*member_text(b, "reason") ? b : a, "reason"));
	}
	table_print(&t);
}

static void put_number(struct table *t, const cJSON *o, const char *key,
		       const struct cost *cost)
{
	double n = 0;

	member_number(o, key, &n);
	table_cell(t, "%s", cost ? text_cost(cost, n).s : text_size(n).s);
}

static void print_costs(const cJSON *list)
{
	static const char *const heads[] = { "", "exporter", "importer", "size",
					     "cost", "A", "B", "factor" };
	struct table t;
	const cJSON *o;

	if (!cJSON_GetArraySize(list))
		return;
	t = begin("Costs", heads, ARRAY_SIZE(heads));
	t.right = 0x68;
	cJSON_ArrayForEach(o, list) {
		const struct cost *cost = cost_kinds;
		double factor = 0;

		while (strcmp(cost->key, member_text(o, "what")))
			cost++;
		put_verdict(&t, o);
		put_text(&t, member_text(o, "exporter"));
		put_text(&t, member_text(o, "importer"));
		put_number(&t, o, "bytes", NULL);
		table_cell(&t, "%s", cost->title);
		put_number(&t, o, "a", cost);
		put_number(&t, o, "b", cost);
		member_number(o, "factor", &factor);
		table_cell(&t, "%.2f", factor);
	}
	table_print(&t);
}

static void print(const struct diff *d)
{
	unsigned int all = d->counts[OTHER] + d->counts[BETTER] + d->counts[WORSE];

	printf("%s%s", style(STYLE_BOLD), d->counts[WORSE] ? style(STYLE_BAD) : "");
	if (all)
		printf("%u worse, %u better, %u changed otherwise",
		       d->counts[WORSE], d->counts[BETTER], d->counts[OTHER]);
	else
		printf("no differences");
	printf("%s\n", style(STYLE_OFF));
	print_items(member(d->out, "machine"), "Machine", "what");
	print_items(member(d->out, "exporters"), "Exporters", "name");
	print_items(member(d->out, "importers"), "Importers", "name");
	print_cells(member(d->out, "cells"));
	print_costs(member(d->out, "costs"));
}

/* ---------------------------------------------------------------- command */

static int parse_factor(const char *s, double *factor)
{
	char *end;

	*factor = strtod(s, &end);
	/* strtod() takes signs, spaces, "inf" and hexadecimal digits. */
	if (strspn(s, "0123456789.") == strlen(s) && *s && !*end &&
	    (!*factor || (*factor > 1 && *factor <= 1e6)))
		return 0;
	return fail(STATUS_USAGE, "--factor is a number above 1, or 0 for no "
		    "comparison of costs, not '%s'", s);
}

static int run(struct diff *d, const char *a, const char *b)
{
	cJSON *json_a = NULL, *json_b = NULL;
	int status = grid_read(a, &json_a);

	if (!status)
		status = grid_read(b, &json_b);
	if (!status)
		status = grid_open(&d->a, json_a, a);
	if (!status)
		status = grid_open(&d->b, json_b, b);
	if (!status) {
		compare(d);
		if (d->json.want)
			status = json_put(&d->json, d->out);
		if (!json_alone(&d->json))
			print(d);
	}
	if (!status && d->counts[WORSE])
		status = STATUS_MISMATCH;
	cJSON_Delete(d->out);
	grid_close(&d->a);
	grid_close(&d->b);
	cJSON_Delete(json_a);
	cJSON_Delete(json_b);
	return status;
}

static int set_factor(void *command, const char *value)
{
	return parse_factor(value, &((struct diff *)command)->factor);
}

static const struct opt options[] = {
	{ 'f', "factor", "N", "report costs that changed by this factor or\nmore (1.5); 0: "
	  "compare no costs", .kind = OPT_CALL, .call = set_factor },
	OPT_JSON(struct diff, json),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "diff",
	.operands = "A.json B.json",
	.about =
"Compares two files of `dmabuf-test matrix --json`: what differs in the machine,\n"
"which exporters and importers appeared or disappeared, which cells have another\n"
"result or path, and which costs changed.\n",
	.opts = options,
	.end =
"Exit status: 0 nothing in B is worse than in A, 1 something is, 2 bad usage,\n"
"3 a file cannot be read or is not a matrix.\n",
};

int diff_main(int argc, char **argv)
{
	struct diff d = { .factor = 1.5 };
	int status = opts_parse(&usage, &d, argc, argv);

	if (status)
		return status;
	if (argc - optind != 2)
		return fail(STATUS_USAGE, "diff compares two files, not %d; see "
			    "dmabuf-test diff --help", argc - optind);
	return run(&d, argv[optind], argv[optind + 1]);
}
