/* SPDX-License-Identifier: MIT */
/*
 * What the tests of doubles of drivers share: a call, what it returns, and how many
 * rules it breaks. `fake` is the double's struct.
 */
#ifndef UNIT_RULES_H
#define UNIT_RULES_H

#include <signal.h>
#include <sys/wait.h>

#include "ktap.h"

#define OK(call) CHECK_EQ(call, 0)
#define BREAKS(wrongs, code, call)					\
	do {								\
		unsigned int wrong_ = fake->wrong;			\
									\
		CHECK_EQ(call, code);					\
		CHECK_EQ(fake->wrong, wrong_ + (wrongs));		\
		fake->wrong = wrong_;					\
	} while (0)

/* The status of a child that does this. A child that returns exits with 7. */
static inline int child(void (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (!pid) {
		fn();
		_exit(7);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static inline bool returned(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

static inline bool aborted(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif /* UNIT_RULES_H */
