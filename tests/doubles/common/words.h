/* SPDX-License-Identifier: MIT */
/* The words of an environment variable that say what a double is to be. */
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
 * Applies words, separated by commas (NULL: none). Those that are not in the table go to
 * other(), if there is one, and mean nothing else.
 */
void words_apply(const char *words, const struct word *table, size_t n,
		 void (*other)(const char *word));

#endif /* FAKE_WORDS_H */
