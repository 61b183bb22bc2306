// SPDX-License-Identifier: MIT
/* Completions for shells: commands, options, and known values. */
#include <glob.h>
#include <string.h>

#include <dlbuf/dlbuf.h>

#include "names.h"
#include "opts.h"
#include "survey.h"
#include "tool.h"

static char **words;
static int nwords;
/* The text before the part that is completed: "--device=cpu,". */
static int kept;

static const char *last(void)
{
	return words[nwords - 1];
}

void complete_begin(int argc, char **argv)
{
	words = argv;
	nwords = argc;
}

bool completing(void)
{
	return words != NULL;
}

void complete_word(const char *candidate)
{
	if (!strncmp(candidate, last() + kept, strlen(last() + kept)))
		printf("%.*s%s\n", kept, last(), candidate);
}

/* The text after the last comma. */
static void keep_list(void)
{
	const char *comma = strrchr(last() + kept, ',');

	if (comma)
		kept = (int)(comma + 1 - last());
}

static void complete_devices(void)
{
	char name[64];

	keep_list();
	for (size_t i = 0; backends[i]; i++) {
		snprintf(name, sizeof(name), "%s%s", backends[i],
			 strcmp(backends[i], "cpu") ? ":0" : "");
		complete_word(name);
	}
}

static int complete_exporter(const struct dlbuf_exporter_info *info, void *data)
{
	(void)data;
	if (!info->status)
		complete_word(info->name);
	return 0;
}

static void complete_nodes(void)
{
	glob_t g;

	if (!glob("/dev/video*", 0, NULL, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			complete_word(g.gl_pathv[i]);
	globfree(&g);
}

static int complete_format(const struct dlbuf_format_info *info, void *data)
{
	(void)data;
	complete_word(format_title(info));
	return 0;
}

/* Values, by their names in the help text; the shell completes files. */
static void complete_value(const char *name, const char *value)
{
	if (!strcmp(name, "device"))
		complete_devices();
	if (!strcmp(name, "exporter") || !strcmp(value, "EXPORTER")) {
		keep_list();
		dlbuf_exporter_each(complete_exporter, NULL);
	}
	if (strstr(value, "NODE"))
		complete_nodes();
	if (strstr(value, "FORMAT"))
		dlbuf_format_each(complete_format, NULL);
	for (int i = 0; strstr(value, "VIEW") && i < DLBUF_NVIEWS; i++)
		complete_word(dlbuf_view_name(i));
}

/* The option whose value the last word is; NULL: it is an operand. */
static const struct opt *opt_before(const struct cmdline *line)
{
	const char *before = nwords > 1 ? words[nwords - 2] : "";
	const char *equals = strchr(last(), '=');
	const struct opt *o;

	for (o = line->opts; o->name; o++) {
		const char letter[] = { '-', o->letter, '\0' };
		size_t len = strlen(o->name);

		if (!strncmp(last(), "--", 2) && equals &&
		    equals - last() == (long)len + 2 &&
		    !strncmp(last() + 2, o->name, len)) {
			kept = (int)len + 3;
			return o;
		}
		if (o->value && o->kind != OPT_JSON_TO &&
		    (!strcmp(before, letter) ||
		     (!strncmp(before, "--", 2) && !strcmp(before + 2, o->name))))
			return o;
	}
	return NULL;
}

void complete_options(const struct cmdline *line)
{
	const struct opt *o = opt_before(line);
	char name[64];

	if (o) {
		complete_value(o->name, o->value ? o->value : "");
		return;
	}
	if (last()[0] != '-') {
		complete_value("", line->operands ? line->operands : "");
		return;
	}
	for (o = line->opts; o->name; o++) {
		snprintf(name, sizeof(name), "--%s", o->name);
		complete_word(name);
	}
	complete_word("--verbose");
	complete_word("--help");
}
