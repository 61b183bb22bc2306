/* SPDX-License-Identifier: MIT */
/*
 * The tests' harness, in the manner of the kernel's kselftest.
 *
 *	#include "ktap.h"
 *
 *	TEST(pipe_is_no_dma_buf)
 *	{
 *		int fds[2];
 *
 *		REQUIRE(!pipe(fds));
 *		CHECK_ERR(dlbuf_buffer_query(fds[0], &info), -EBADF);
 *		close(fds[0]);
 *		close(fds[1]);
 *	}
 *	KTAP_MAIN()
 *
 * Cases run in the order of their definition, each in a child of its own with
 * a time limit, so that a crash or a hang is one case's failure. Around each
 * the harness looks at open fds, at mappings of dma-bufs and memfds and, with
 * glibc and without a sanitizer, at the heap: a remaining or a missing resource
 * fails the case. So does a case without checks. A case that uses a resource with
 * a limited life calls ktap_lasts(): if it fails later than that, it runs again,
 * ten times at most: a busy machine may be late more than once.
 *
 * A program that makes its cases at run time has a main() of its own:
 *
 *	ktap_prefix("cts@%s", device);
 *	ktap_case("import", import_case, &formats[i]);
 *	return ktap_run(argc, argv);
 *
 * KTAP_ALLOCS(expr), if KTAP_COUNTS_HEAP is 1, is the number of allocations of a
 * call that returns 0.
 *
 * A program is linked with ktap.o. C++ may include this, too, in GNU's dialect.
 *
 * Output is KTAP version 1; the exit status 0, 1 when a case failed, 4 when
 * all were skipped, 2 for wrong usage. Arguments: names of the cases to run,
 * with shell wildcards; --list; --no-fork, for debuggers; --timeout SECONDS.
 */
#ifndef DLBUF_TESTS_KTAP_H
#define DLBUF_TESTS_KTAP_H

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__has_feature)
#define KTAP_FEATURE(x) __has_feature(x)
#else
#define KTAP_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || KTAP_FEATURE(address_sanitizer)
#define KTAP_ASAN 1
#else
#define KTAP_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || KTAP_FEATURE(thread_sanitizer)
#define KTAP_TSAN 1
#else
#define KTAP_TSAN 0
#endif
#if defined(__GLIBC__) && !KTAP_ASAN && !KTAP_TSAN
#define KTAP_COUNTS_HEAP 1
#else
#define KTAP_COUNTS_HEAP 0
#endif

#define KTAP_PASS 0
#define KTAP_FAIL 1
#define KTAP_USAGE 2
#define KTAP_SKIP 4

/* ---------------------------------------------------------------- cases */

typedef void (*ktap_fn)(void *arg);

#define TEST(name)                                                           \
	static void name##_case(void *arg);                                  \
	__attribute__((constructor)) static void name##_add(void)            \
	{                                                                    \
		ktap_case(#name, name##_case, NULL);                         \
	}                                                                    \
	static void name##_case(void *arg __attribute__((unused)))

/* A case between these two calls. */
#define TEST_BETWEEN(name, begin, end)                                       \
	static void name##_between(void);                                    \
	TEST(name)                                                           \
	{                                                                    \
		begin;                                                       \
		name##_between();                                            \
		end;                                                         \
	}                                                                    \
	static void name##_between(void)

#define KTAP_MAIN()                                                          \
	int main(int argc, char **argv)                                      \
	{                                                                    \
		return ktap_run(argc, argv);                                 \
	}

/* ---------------------------------------------------------------- checks */

/*
 * CHECK*() go on after a failure and say whether they held; REQUIRE() and
 * REQUIRE_OK() end the case. SKIP(), REQUIRE() and REQUIRE_OK() belong on the
 * case's own thread, the others on any.
 */
#define CHECK(cond)                                                          \
	ktap_check(__FILE__, __LINE__, !!(cond), "%s", #cond)

/*
 * CHECK() with values in its message: CHECK_MSG(a < b, "a %d, b %d", a, b). The condition
 * is evaluated before the values, which may be the error text of a call in it.
 */
#define CHECK_MSG(cond, fmt, ...)                                            \
	({                                                                   \
		bool ktap_held = (cond);                                     \
		ktap_check(__FILE__, __LINE__, ktap_held, "%s: " fmt, #cond, \
			   ##__VA_ARGS__);                                   \
	})

/* Integers of any types: -1 and UINT64_MAX differ. */
#define CHECK_EQ(a, b)                                                       \
	ktap_check_eq(__FILE__, __LINE__, KTAP_INT(a), KTAP_INT(b), #a, #b)

#define CHECK_STR(a, b) ktap_check_str(__FILE__, __LINE__, a, b, #a, #b)

/* 0 of a dlbuf function; prints the sentence when it is not. */
#define CHECK_OK(expr)                                                       \
	ktap_check_ok(__FILE__, __LINE__, expr, #expr)

/* This very negative errno, and a new sentence behind it: one line. */
#define CHECK_ERR(expr, err)                                                 \
	({                                                                   \
		ktap_forget();                                               \
		ktap_check_err(__FILE__, __LINE__, expr, err, #expr, #err);  \
	})

/* The last error text contains this. */
#define CHECK_SAYS(part)                                                     \
	ktap_check(__FILE__, __LINE__, !!strstr(dlbuf_last_error(), part),   \
		   "'%s' says nothing of '%s'", dlbuf_last_error(), part)

/* CHECK_ERR(), and the text contains this. */
#define CHECK_ERR_SAYS(expr, err, part)                                      \
	({                                                                   \
		bool ktap_err;                                               \
									     \
		ktap_forget();                                               \
		ktap_err = ktap_check_err(__FILE__, __LINE__, expr, err,     \
					  #expr, #err);                      \
		ktap_err &= CHECK_SAYS(part);                                \
	})

#define REQUIRE(cond)                                                        \
	do {                                                                 \
		if (!CHECK(cond))                                            \
			ktap_leave();                                        \
	} while (0)

#define REQUIRE_OK(expr)                                                     \
	do {                                                                 \
		if (!CHECK_OK(expr))                                         \
			ktap_leave();                                        \
	} while (0)

/*
 * Waits until the condition holds, on any thread. It has no limit of its own: the
 * harness ends a case that takes too long, and then says which condition it waits for.
 */
#define UNTIL(cond)                                                          \
	do {                                                                 \
		static const struct ktap_place ktap_here = {                 \
			__FILE__, __LINE__, #cond };                         \
									     \
		while (!(cond))                                              \
			ktap_wait(&ktap_here);                               \
		ktap_wait(NULL);                                             \
	} while (0)

/* Ends the case as skipped; the reason is a format and its arguments. */
#define SKIP(...) ktap_skip(__VA_ARGS__)

/* All that is left of a file in a build that has no use for it. */
#define KTAP_SKIPPED(why)                                                    \
	TEST(all)                                                            \
	{                                                                    \
		SKIP(why);                                                   \
	}

/*
 * The case may leave these behind, for a reason that its author knows: a
 * driver that keeps a cache until the process ends.
 */
#define KTAP_FDS 1u
#define KTAP_MAPS 2u
#define KTAP_HEAP 4u
#define KTAP_KEEPS(what, why) ktap_keeps(what)

/* ---------------------------------------------------------------- state */

struct ktap_case_entry {
	char *name;
	ktap_fn fn;
	void *arg;
};

/* The resources of a process. */
struct ktap_holdings {
	unsigned int nfds;
	struct {
		int fd;
		char target[60];
	} fds[512];
	unsigned long long map_bytes;	/* of dma-bufs and memfds */
	long heap_blocks, heap_bytes;
};

struct ktap_place {
	const char *file;
	int line;
	const char *text;
};

/* Results of a case for its parent, in shared memory. */
struct ktap_result {
	unsigned int checks, failures;	/* atomic */
	unsigned int keeps;
	bool skipped, finished;
	int64_t lasts_ns;	/* CLOCK_MONOTONIC, or 0 */
	const struct ktap_place *waits;	/* atomic; of UNTIL(), or NULL */
	char reason[256];
};

#define KTAP_CALLS 4096
struct ktap_call {
	const char *name, *file;
	uint32_t what;	/* line and errno; atomic, as the others */
};

struct ktap_state {
	char prefix[64];
	struct ktap_case_entry *cases;
	unsigned int ncases;
	unsigned int timeout;
	unsigned int patience;	/* seconds, for threads that end; 0: most of timeout */
	bool fork;
	struct ktap_result *result;
	struct ktap_call *seen;	/* KTAP_CALLS of them, or NULL */
	void (*prepare)(void), (*tidy)(void);
	struct ktap_holdings before, after;
	long heap_blocks, heap_bytes;	/* atomic */
	sigjmp_buf leave;
};
extern struct ktap_state ktap;

struct ktap_int {
	unsigned long long value;
	bool negative;
};

static inline struct ktap_int ktap_int_of(unsigned long long value, bool is_signed)
{
	return (struct ktap_int){ value, is_signed && (long long)value < 0 };
}

#define KTAP_INT(x)                                                          \
	ktap_int_of((unsigned long long)(x),                                 \
		    (__typeof__((x) + 0))-1 < (__typeof__((x) + 0))1)

/* ---------------------------------------------------------------- functions */

/* "# file:line: text", on one line with any text. */
__attribute__((format(printf, 3, 4)))
void ktap_note(const char *file, int line, const char *fmt, ...);

__attribute__((format(printf, 4, 5)))
bool ktap_check(const char *file, int line, bool held, const char *fmt, ...);
bool ktap_check_eq(const char *file, int line, struct ktap_int a, struct ktap_int b,
		   const char *atext, const char *btext);
bool ktap_check_str(const char *file, int line, const char *a, const char *b,
		   const char *atext, const char *btext);
bool ktap_check_ok(const char *file, int line, int ret, const char *text);
void ktap_forget(void);
bool ktap_check_err(const char *file, int line, int ret, int err, const char *text,
		   const char *errtext);

/* Lets others run; NULL: the wait is over. */
void ktap_wait(const struct ktap_place *here);

__attribute__((noreturn)) void ktap_leave(void);
__attribute__((format(printf, 1, 2), noreturn))
void ktap_skip(const char *fmt, ...);
/* The resources of this process now. */
void ktap_look(struct ktap_holdings *h);
int64_t ktap_now_ns(void);
/* The resource lives this long from now; the first call counts. */
void ktap_lasts(int64_t ns);
void ktap_keeps(unsigned int what);

/*
 * A call of the library has returned this. With KTAP_SEEN in the environment the end of
 * the run prints each function, negative errno and place: "# seen NAME ERRNO
 * FILE:LINE". tests/abi/errors compares them with the headers. Returns ret.
 */
int ktap_seen(const char *name, const char *file, int line, int ret);

/* Adds a case; name is copied. */
void ktap_case(const char *name, ktap_fn fn, void *arg);
/* Stands before every name in the output, with a slash. */
__attribute__((format(printf, 1, 2)))
void ktap_prefix(const char *fmt, ...);
/*
 * Functions that are called in a case's process before its resources are
 * counted, and after it has passed; NULL: none. For resources that a driver
 * keeps for good, and resources of the cases' own helpers.
 */
void ktap_around(void (*before)(void), void (*after)(void));
/* Runs the cases that the arguments name, or all; the exit status. */
int ktap_run(int argc, char **argv);

#if KTAP_COUNTS_HEAP
/* Calls of this thread that gave memory. */
extern __thread unsigned long ktap_allocs;
#define KTAP_ALLOCS(expr)                                                    \
	({                                                                   \
		unsigned long ktap_n = ktap_allocs;                          \
		ktap_check_ok(__FILE__, __LINE__, expr, #expr);              \
		ktap_allocs - ktap_n;                                        \
	})
#else
#define KTAP_ALLOCS(expr) (SKIP("nothing counts allocations in this build"), 0)
#endif

#ifdef __cplusplus
}
#endif

/*
 * Calls of the functions whose headers come before this one pass through ktap_seen(). A
 * file that includes sources of the library behind this defines KTAP_UNSEEN.
 */
#if !defined(KTAP_UNSEEN) && __has_include(<generated/seen.h>)
#include <generated/seen.h>
#endif
#endif /* DLBUF_TESTS_KTAP_H */
