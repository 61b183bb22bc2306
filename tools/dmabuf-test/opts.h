/* SPDX-License-Identifier: MIT */
/*
 * The command line of a command: one table, of which the parser, the help text and
 * the completions are made. An option that several commands have is a macro here, so
 * that its name and its help text are the same in all of them.
 */
#ifndef DMABUF_TEST_OPTS_H
#define DMABUF_TEST_OPTS_H

#include <stdbool.h>
#include <stddef.h>

#include "json.h"

/* An option sets this in the command's struct. */
enum opt_kind {
	OPT_FLAG,	/* bool */
	OPT_TEXT,	/* const char *, borrowed */
	OPT_LIST,	/* the same, at most once: a second would replace the first */
	OPT_NUMBER,	/* unsigned long, of low to high */
	OPT_JSON_TO,	/* struct json_to */
	OPT_CALL,	/* call(the command's struct, value) */
};

struct opt {
	char letter;		/* 0: none */
	const char *name;
	/* The value's name in the help text; NULL: the option has none. */
	const char *value;
	/* Lines of at most 50 columns; NULL: an old spelling, not shown. */
	const char *help;
	enum opt_kind kind;
	size_t to;		/* offsetof() */
	unsigned long low, high;
	int (*call)(void *command, const char *value);
};

struct cmdline {
	const char *name;
	/* Arguments in the usage, "[CASE]..."; NULL: the command takes none. */
	const char *operands;
	/* Text before the options, and after them: notes and the exit status. */
	const char *about, *end;
	const struct opt *opts;	/* ends with { 0 }; -v and -h are added */
};

/* --json[=FILE]. Without a file the JSON is the only output. */
struct json_to {
	bool want;
	const char *path;	/* NULL: standard output */
};

#define OPT_DEVICE(type, member, standard) \
	{ 'd', "device", "LIST", \
	  "devices, separated by commas (" standard "); also by\n" \
	  "part of the name, uuid=, pci=01:00.0 or\n" \
	  "drm=/dev/dri/NODE instead of the number", \
	  .kind = OPT_LIST, .to = offsetof(type, member) }
#define OPT_EXPORTER(type, member, standard) \
	{ 'e', "exporter", "LIST", \
	  "exporters, separated by commas (" standard ")", \
	  .kind = OPT_LIST, .to = offsetof(type, member) }
#define OPT_JSON(type, member) \
	{ 'j', "json", "FILE", \
	  "the results as JSON, to FILE or instead of the text", \
	  .kind = OPT_JSON_TO, .to = offsetof(type, member) }
#define OPT_END { .name = NULL }

/* -v: the library's messages, too; a command may print more of its own. */
extern bool verbose;

/*
 * Parses argv into `command`, the struct that the offsets are of. 0: optind is that of
 * the first operand. Otherwise a status to return: STATUS_DONE when the help was
 * printed.
 */
int opts_parse(const struct cmdline *line, void *command, int argc,
	       char **argv);

/* Whether JSON is written to standard output, so that no text is. */
bool json_alone(const struct json_to *to);

/* Writes root to its destination, a file completely or not at all. */
int json_put(const struct json_to *to, const cJSON *root);

/*
 * `dmabuf-test --complete WORDS...`, for the shells: prints what the last word may
 * become. main() announces the words, and prints the commands for the first one or
 * calls the words' command with --help: opts_parse() then completes instead.
 */
void complete_begin(int argc, char **argv);
bool completing(void);
void complete_word(const char *candidate);
void complete_options(const struct cmdline *line);

#endif /* DMABUF_TEST_OPTS_H */
