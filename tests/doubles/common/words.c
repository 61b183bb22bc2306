// SPDX-License-Identifier: MIT
/* See words.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

static bool apply(const char *word, const struct word *table, size_t n)
{
	while (n && strcmp(word, table->name))
		table++, n--;
	for (int i = 0; n && i < 2; i++)
		if (table->sets[i])
			*table->sets[i] = true;
	if (n && table->number)
		*table->number = table->value;
	return n;
}

void words_apply(const char *words, const struct word *table, size_t n,
		 void (*other)(const char *word))
{
	char *all = strdup(words ? words : ""), *rest = NULL;

	for (char *w = strtok_r(all, ",", &rest); w; w = strtok_r(NULL, ",", &rest))
		if (!apply(w, table, n) && other)
			other(w);
	free(all);
}

const struct result_text *text_of(const struct result_text *table, size_t n,
				  int result)
{
	for (; n; n--, table++)
		if (table->result == result)
			return table;
	return NULL;
}
