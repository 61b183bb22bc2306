/* SPDX-License-Identifier: MIT */
/*
 * Shared by tests of the rules of a driver, a double or a real one: a call, its result,
 * and the number of rules that it breaks. `fake` is the double's struct, or NULL for a
 * real driver, of which only results are compared.
 */
#ifndef UNIT_RULES_H
#define UNIT_RULES_H

#include <signal.h>
#include <sys/wait.h>

#include "ktap.h"

#define OK(call) CHECK_EQ(call, 0)
#define BREAKS(wrongs, code, call)					\
	do {								\
		unsigned int wrong_ = fake ? fake->wrong : 0;		\
									\
		CHECK_EQ(call, code);					\
		if (!fake)						\
			break;						\
		CHECK_EQ(fake->wrong, wrong_ + (wrongs));		\
		fake->wrong = wrong_;					\
	} while (0)
/* The API leaves it undefined, so that no real driver is asked. */
#define UNDEFINED(code, call)						\
	do {								\
		if (fake)						\
			BREAKS(1, code, call);				\
	} while (0)

/* Loads the double NAME, a library of tests/doubles. */
#define LOAD(name, NAME, words)						\
	do {								\
		setenv("FAKE_" NAME, words, 1);				\
		fake_lib = double_open("lib" #name ".so",		\
				       "DLBUF_" NAME "_LIBRARY");	\
		fake_fn = (fake_##name##_fn)dlsym(fake_lib, "fake_" #name); \
		REQUIRE(fake_fn);					\
		fake = fake_fn(true);					\
	} while (0)

/* No rule was broken, and nothing is left. */
#define UNLOAD()							\
	do {								\
		CHECK_EQ(fake->wrong, 0);				\
		nothing_left();						\
		fake_fn(true);						\
		dlclose(fake_lib);					\
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
