// SPDX-License-Identifier: MIT
/* The command line of a command: parser and help text, made from its table. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <dlbuf/base.h>

#include "opts.h"
#include "out.h"
#include "tool.h"

#define MAX_OPTS 32

bool verbose;

static const struct opt common[] = {
	{ 'v', "verbose", NULL, "also print the messages of the library",
	  .kind = OPT_FLAG },
	{ 'h', "help", NULL, "this text", .kind = OPT_FLAG },
	OPT_END,
};

static const struct opt *opt_at(const struct cmdline *line, size_t i)
{
	size_t n = 0;

	while (line->opts[n].name)
		n++;
	return i < n ? &line->opts[i] :
	       i - n < ARRAY_SIZE(common) - 1 ? &common[i - n] : NULL;
}

/* ---------------------------------------------------------------- the help */

static int put_option(const struct opt *o, char *s, size_t size)
{
	bool optional = o->kind == OPT_JSON_TO;
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	return snprintf(s, size, "  %s--%s%s%s%s", letter, o->name,
			optional ? "[=" : o->value ? " " : "",
			o->value ? o->value : "", optional ? "]" : "");
}

static void print_option(const struct opt *o, int width)
{
	const char *line = o->help, *end;
	char s[80];

	put_option(o, s, sizeof(s));
	for (; line; line = end ? end + 1 : NULL, *s = '\0') {
		end = strchr(line, '\n');
		printf("%-*s  %.*s\n", width, s,
		       (int)(end ? end - line : (long)strlen(line)), line);
	}
}

static void print_help(const struct cmdline *line)
{
	const struct opt *o;
	int width = 0, n;
	char s[80];

	printf("usage: dmabuf-test %s [OPTION]...%s%s\n\n%s\n", line->name,
	       line->operands ? " " : "", line->operands ? line->operands : "",
	       line->about);
	for (size_t i = 0; (o = opt_at(line, i)); i++) {
		n = put_option(o, s, sizeof(s));
		width = n > width ? n : width;
	}
	for (size_t i = 0; (o = opt_at(line, i)); i++)
		print_option(o, width);
	printf("\n%s", line->end);
}

/* ---------------------------------------------------------------- the parser */

static int set_json(struct json_to *to, const char *value)
{
	struct outfile out;
	struct stat st;
	int status = json_check();

	to->want = true;
	to->path = value;
	if (status || !value || (!stat(value, &st) && !S_ISREG(st.st_mode)))
		return status;
	/* Reports a path that cannot be written at once. */
	status = outfile_open(&out, value);
	outfile_abort(&out);
	return status;
}

static int set(const struct opt *o, void *command)
{
	void *to = (char *)command + o->to;
	char name[32];

	/*
	 * Empty, as from a variable that is not set. Other kinds report the value that they need.
	 */
	if ((o->kind == OPT_TEXT || o->kind == OPT_LIST || o->kind == OPT_JSON_TO) && optarg && !*optarg)
		return fail(STATUS_USAGE, "--%s: the value is empty", o->name);
	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)to = true;
		return 0;
	case OPT_TEXT:
	case OPT_LIST:
		*(const char **)to = optarg;
		return 0;
	case OPT_NUMBER:
		snprintf(name, sizeof(name), "--%s", o->name);
		return parse_number(name, optarg, o->low, o->high, to);
	case OPT_JSON_TO:
		return set_json(to, optarg);
	case OPT_CALL:
		return o->call(command, optarg);
	}
	return 0;
}

/* getopt_long()'s, whose values are 256 + the index. */
static void make_table(const struct cmdline *line, struct option *options,
		       char *letters)
{
	const struct opt *o;
	size_t n = 0;

	*letters++ = ':';
	for (; (o = opt_at(line, n)) && n < MAX_OPTS; n++) {
		int arg = o->kind == OPT_JSON_TO ? optional_argument :
			  o->value ? required_argument : no_argument;

		options[n] = (struct option){ o->name, arg, NULL, 256 + (int)n };
		if (o->letter)
			*letters++ = o->letter;
		for (int i = 0; o->letter && i < arg; i++)
			*letters++ = ':';
	}
	options[n] = (struct option){ 0 };
	*letters = '\0';
}

/* NULL: getopt_long() took none. */
static const struct opt *opt_of(const struct cmdline *line, int c)
{
	const struct opt *o;

	if (c >= 256)
		return opt_at(line, c - 256);
	for (size_t i = 0; (o = opt_at(line, i)); i++)
		if (o->letter == c && c != ':' && c != '?')
			return o;
	return NULL;
}

static void be_verbose(void)
{
	verbose = true;
	setenv("DLBUF_LOG", "info", 0);
	dlbuf_log_set(NULL, NULL, DLBUF_LOG_INFO);
}

int opts_parse(const struct cmdline *line, void *command, int argc, char **argv)
{
	struct option options[MAX_OPTS + 1];
	char letters[3 * MAX_OPTS + 2];
	bool seen[MAX_OPTS] = { false };
	const struct opt *o;
	int c, status = 0;

	if (completing()) {
		complete_options(line);
		return STATUS_DONE;
	}
	make_table(line, options, letters);
	opterr = 0;
	while (!status &&
	       (c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		o = opt_of(line, c);
		if (!o)
			return fail_option(c, line->name, argv);
		if (o == &common[0]) {
			be_verbose();
		} else if (o == &common[1]) {
			print_help(line);
			return STATUS_DONE;
		} else if (o->kind == OPT_LIST && seen[o - line->opts]) {
			status = fail(STATUS_USAGE, "--%s is given twice; one list has all, "
				      "separated by commas", o->name);
		} else {
			seen[o - line->opts] = true;
			status = set(o, command);
		}
	}
	if (!status && !line->operands && optind < argc)
		return fail(STATUS_USAGE, "%s takes no '%s'", line->name,
			    argv[optind]);
	return status;
}

/* ---------------------------------------------------------------- --json */

bool json_alone(const struct json_to *to)
{
	return to->want && !to->path;
}

int json_put(const struct json_to *to, const cJSON *root)
{
	struct outfile out;
	int status;

	if (!to->path)
		return json_write(root, stdout, "standard output");
	status = outfile_open(&out, to->path);
	if (status)
		return status;
	status = json_write(root, out.f, to->path);
	if (!status)
		return outfile_commit(&out);
	outfile_abort(&out);
	return status;
}
