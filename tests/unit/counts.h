/* SPDX-License-Identifier: MIT */
/*
 * Counts of a double: its objects, and the rules that a case breaks on purpose. The includer has
 * `fake`, the double's struct, and may have SETTLE(), which waits for the double's threads.
 */
#ifndef UNIT_COUNTS_H
#define UNIT_COUNTS_H

#include "ktap.h"

static inline bool nothing_left(void)
{
	bool none = true;

#ifdef SETTLE
	SETTLE();
#endif
	for (int kind = 0; kind < FAKE_KINDS; kind++)
		none &= CHECK_MSG(!fake->live[kind], "%u of kind %d", fake->live[kind], kind);
	return none;
}

/* The case broke the double's rules this many times on purpose. */
static inline void forgive(unsigned int n)
{
	CHECK_EQ(fake->wrong, n);
	fake->wrong = 0;
}

#endif /* UNIT_COUNTS_H */
