/* SPDX-License-Identifier: MIT */
/*
 * The words of an environment variable that choose the behaviour of a double; and
 * the driver's descriptions of its results.
 */
#ifndef FAKE_WORDS_H
#define FAKE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct word {
	const char *name;
	bool *sets[2];			/* to true */
	unsigned int *number, value;	/* or this to that */
};

/*
 * Applies words, separated by commas (NULL: none). Words that are not in the table are
 * passed to other(), if there is one.
 */
void words_apply(const char *words, const struct word *table, size_t n,
		 void (*other)(const char *word));

/* The driver's name of a result. */
struct result_text {
	int result;
	const char *name, *text;
};

/* NULL: it knows no such result. */
const struct result_text *text_of(const struct result_text *table, size_t n,
				  int result);
#define TEXT_OF(table, result) \
	text_of(table, sizeof(table) / sizeof(*(table)), result)

#endif /* FAKE_WORDS_H */
