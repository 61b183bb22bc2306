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
 * glibc and without a sanitizer, at the heap: what is left over, or missing,
 * fails the case. So does a case that checks nothing. A case that uses what lasts
 * only for some time says so with ktap_lasts(): if it fails later than that, it runs
 * again, three times at most.
 *
 * A program that makes its cases at run time has a main() of its own:
 *
 *	ktap_prefix("cts@%s", device);
 *	ktap_case("import", import_case, &formats[i]);
 *	return ktap_run(argc, argv);
 *
 * KTAP_ALLOCS(expr), where KTAP_COUNTS_HEAP is 1, is how often a call that gives 0
 * has allocated.
 *
 * Several files of one program may include this one: they share its state.
 * C++ may too, in GNU's dialect.
 *
 * Output is KTAP version 1; the exit status 0, 1 when a case failed, 4 when
 * all were skipped, 2 for wrong usage. Arguments: names of the cases to run,
 * with shell wildcards; --list; --no-fork, for debuggers; --timeout SECONDS.
 */
#ifndef DLBUF_TESTS_KTAP_H
#define DLBUF_TESTS_KTAP_H

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dlbuf/base.h>

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

/* CHECK() with values in its message: CHECK_MSG(a < b, "a %d, b %d", a, b). */
#define CHECK_MSG(cond, fmt, ...)                                            \
	ktap_check(__FILE__, __LINE__, !!(cond), "%s: " fmt, #cond,          \
		   ##__VA_ARGS__)

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

/* What the last error said contains this. */
#define CHECK_SAYS(part)                                                     \
	ktap_check(__FILE__, __LINE__, !!strstr(dlbuf_last_error(), part),   \
		   "'%s' says nothing of '%s'", dlbuf_last_error(), part)

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

/* What a process holds. */
struct ktap_holdings {
	unsigned int nfds;
	struct {
		int fd;
		char target[60];
	} fds[512];
	unsigned long long map_bytes;	/* of dma-bufs and memfds */
	long heap_blocks, heap_bytes;
};

/* What a case tells its parent, in memory that both see. */
struct ktap_result {
	unsigned int checks, failures;	/* atomic */
	unsigned int keeps;
	bool skipped, finished;
	int64_t lasts_ns;	/* CLOCK_MONOTONIC, or 0 */
	char reason[256];
};

/* Weak: one for all files of a program. */
struct ktap_state {
	char prefix[64];
	struct ktap_case_entry *cases;
	unsigned int ncases;
	unsigned int timeout;
	unsigned int patience;	/* seconds, for threads that end */
	bool fork;
	struct ktap_result *result;
	void (*prepare)(void), (*tidy)(void);
	struct ktap_holdings before, after;
	long heap_blocks, heap_bytes;	/* atomic */
	sigjmp_buf leave;
};
extern struct ktap_state ktap;
__attribute__((weak)) struct ktap_state ktap = { .timeout = 600, .patience = 60, .fork = true };

/* ---------------------------------------------------------------- printing */

/* "# file:line: text", on one line whatever the text. */
__attribute__((format(printf, 3, 4)))
static inline void ktap_note(const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	if (file)
		printf("# %s:%d: %s\n", file, line, text);
	else
		printf("# %s\n", text);
	fflush(stdout);
}

__attribute__((format(printf, 4, 5)))
static inline bool ktap_check(const char *file, int line, bool held,
			      const char *fmt, ...)
{
	char text[900];
	va_list ap;

	__atomic_add_fetch(&ktap.result->checks, 1, __ATOMIC_RELAXED);
	if (held)
		return true;
	__atomic_add_fetch(&ktap.result->failures, 1, __ATOMIC_RELAXED);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ktap_note(file, line, "%s", text);
	return false;
}

struct ktap_int {
	unsigned long long value;
	bool negative;
};

static inline struct ktap_int ktap_int_of(unsigned long long value,
					  bool is_signed)
{
	return (struct ktap_int){ value, is_signed && (long long)value < 0 };
}

#define KTAP_INT(x)                                                          \
	ktap_int_of((unsigned long long)(x),                                    \
		 (__typeof__((x) + 0))-1 < (__typeof__((x) + 0))1)

static inline bool ktap_check_eq(const char *file, int line, struct ktap_int a,
				 struct ktap_int b, const char *atext,
				 const char *btext)
{
	/* "-" and the magnitude; INT64_MIN comes out right too. */
	return ktap_check(file, line,
			  a.value == b.value && a.negative == b.negative,
			  "%s is %s%llu, not %s, %s%llu", atext,
			  a.negative ? "-" : "",
			  a.negative ? -a.value : a.value, btext,
			  b.negative ? "-" : "",
			  b.negative ? -b.value : b.value);
}

static inline bool ktap_check_str(const char *file, int line, const char *a,
				  const char *b, const char *atext,
				  const char *btext)
{
	return ktap_check(file, line, a && b && !strcmp(a, b),
			  "%s is '%s', not %s, '%s'", atext, a ? a : "(null)",
			  btext, b ? b : "(null)");
}

static inline bool ktap_check_ok(const char *file, int line, int ret,
				 const char *text)
{
	return ktap_check(file, line, !ret, "%s is %d: %s", text, ret,
			  ret < 0 ? dlbuf_last_error() : "not 0");
}

/* lib/internal.h; not there for a program linked with the public library. */
extern void forget_failure(void) __attribute__((weak));

static inline void ktap_forget(void)
{
	if (forget_failure)
		forget_failure();
}

static inline bool ktap_check_err(const char *file, int line, int ret, int err,
				  const char *text, const char *errtext)
{
	const char *said = dlbuf_last_error();

	if (ret != err)
		return ktap_check(file, line, false, "%s is %d, not %s: %s",
				  text, ret, errtext, ret < 0 ? said : "");
	for (const char *c = said; *c; c++)
		if ((unsigned char)*c < ' ')
			return ktap_check(file, line, false,
					  "%s: a control character in '%s'",
					  text, said);
	return ktap_check(file, line, said[0], "%s failed without a sentence",
			  text);
}

static inline __attribute__((noreturn)) void ktap_leave(void)
{
	siglongjmp(ktap.leave, 1);
}

__attribute__((format(printf, 1, 2), noreturn))
static inline void ktap_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ktap.result->reason, sizeof(ktap.result->reason), fmt, ap);
	va_end(ap);
	for (char *c = ktap.result->reason; *c; c++)
		if ((unsigned char)*c < ' ' || *c == '#')
			*c = ' ';
	ktap.result->skipped = true;
	ktap_leave();
}

static inline int64_t ktap_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* What the case uses lasts so long from now; the first one counts. */
static inline void ktap_lasts(int64_t ns)
{
	int64_t none = 0;

	__atomic_compare_exchange_n(&ktap.result->lasts_ns, &none, ktap_now_ns() + ns,
				    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static inline void ktap_keeps(unsigned int what)
{
	ktap.result->keeps |= what;
}

/* ---------------------------------------------------------------- the heap */

#if KTAP_COUNTS_HEAP
/*
 * glibc's way of replacing malloc. Its own statistics count a freed block in
 * a thread's cache as used, and so cannot tell a leak.
 */
#include <malloc.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

/* Calls of this thread that gave memory. */
extern __thread unsigned long ktap_allocs;
__attribute__((weak)) __thread unsigned long ktap_allocs;

static inline void *ktap_heap_count(void *p, int sign)
{
	if (p) {
		__atomic_add_fetch(&ktap.heap_blocks, sign, __ATOMIC_RELAXED);
		ktap_allocs += sign > 0;
		__atomic_add_fetch(&ktap.heap_bytes,
				   sign * (long)malloc_usable_size(p),
				   __ATOMIC_RELAXED);
	}
	return p;
}

__attribute__((weak)) void *malloc(size_t size)
{
	return ktap_heap_count(__libc_malloc(size), 1);
}

__attribute__((weak)) void *calloc(size_t n, size_t size)
{
	return ktap_heap_count(__libc_calloc(n, size), 1);
}

__attribute__((weak)) void free(void *p)
{
	__libc_free(ktap_heap_count(p, -1));
}

__attribute__((weak)) void *realloc(void *p, size_t size)
{
	void *other;

	ktap_heap_count(p, -1);
	other = __libc_realloc(p, size);
	if (!other && size)
		ktap_heap_count(p, 1);
	return ktap_heap_count(other, 1);
}

__attribute__((weak)) void *memalign(size_t align, size_t size)
{
	return ktap_heap_count(__libc_memalign(align, size), 1);
}

__attribute__((weak)) void *aligned_alloc(size_t align, size_t size)
{
	return ktap_heap_count(__libc_memalign(align, size), 1);
}

__attribute__((weak)) int posix_memalign(void **p, size_t align, size_t size)
{
	void *other;

	if (align % sizeof(void *) || !align || (align & (align - 1)))
		return EINVAL;
	other = __libc_memalign(align, size);
	if (!other)
		return ENOMEM;
	*p = ktap_heap_count(other, 1);
	return 0;
}
#endif

#if KTAP_COUNTS_HEAP
#define KTAP_ALLOCS(expr)                                                    \
	({                                                                   \
		unsigned long ktap_n = ktap_allocs;                          \
		ktap_check_ok(__FILE__, __LINE__, expr, #expr);              \
		ktap_allocs - ktap_n;                                        \
	})
#else
#define KTAP_ALLOCS(expr) (SKIP("nothing counts allocations in this build"), 0)
#endif

/* ---------------------------------------------------------------- leaks */

static inline void ktap_look(struct ktap_holdings *h)
{
	char line[1024], path[32];
	struct dirent *e;
	DIR *dir = opendir("/proc/self/fd");
	FILE *maps = fopen("/proc/self/maps", "re");

	if (!dir || !maps) {
		fprintf(stderr, "the tests need /proc\n");
		exit(KTAP_USAGE);
	}
	h->nfds = 0;
	while ((e = readdir(dir))) {
		int fd = atoi(e->d_name);
		ssize_t n;

		if (e->d_name[0] == '.' || fd == dirfd(dir) ||
		    fd == fileno(maps) ||
		    h->nfds == sizeof(h->fds) / sizeof(h->fds[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, h->fds[h->nfds].target,
			     sizeof(h->fds[0].target) - 1);
		h->fds[h->nfds].target[n < 0 ? 0 : n] = '\0';
		h->fds[h->nfds++].fd = fd;
	}
	closedir(dir);

	h->map_bytes = 0;
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long from, to;

		if ((strstr(line, " /dmabuf") || strstr(line, " /memfd:")) &&
		    sscanf(line, "%llx-%llx", &from, &to) == 2)
			h->map_bytes += to - from;
	}
	fclose(maps);
	h->heap_blocks = __atomic_load_n(&ktap.heap_blocks, __ATOMIC_RELAXED);
	h->heap_bytes = __atomic_load_n(&ktap.heap_bytes, __ATOMIC_RELAXED);
}

int ktap_first_failure(int err, const char *fmt, ...)
	__asm__("dlbuf_fail") __attribute__((weak));

/* The fds that a has and b has not, as one text; how many. */
static inline unsigned int ktap_fds_beyond(const struct ktap_holdings *a,
					   const struct ktap_holdings *b,
					   char *text, size_t size)
{
	unsigned int found = 0;
	size_t n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < a->nfds; i++) {
		unsigned int j;

		for (j = 0; j < b->nfds; j++)
			if (a->fds[i].fd == b->fds[j].fd &&
			    !strcmp(a->fds[i].target, b->fds[j].target))
				break;
		if (j < b->nfds)
			continue;
		found++;
		if (n < size)
			n += snprintf(text + n, size - n, "%s%d -> %s",
				      n ? ", " : "", a->fds[i].fd,
				      a->fds[i].target);
	}
	return found;
}

static inline bool ktap_heap_differs(void)
{
	return ktap.before.heap_blocks != ktap.after.heap_blocks ||
	       ktap.before.heap_bytes != ktap.after.heap_bytes;
}

static inline bool ktap_holds_other(unsigned int keeps)
{
	const struct ktap_holdings *a = &ktap.before, *b = &ktap.after;
	char text[400];

	return (!(keeps & KTAP_FDS) &&
		(ktap_fds_beyond(a, b, text, sizeof(text)) ||
		 ktap_fds_beyond(b, a, text, sizeof(text)))) ||
	       (!(keeps & KTAP_MAPS) && a->map_bytes != b->map_bytes) ||
	       (!(keeps & KTAP_HEAP) && ktap_heap_differs());
}

/* The process has threads beside this one. */
static inline bool ktap_has_threads(void)
{
	struct stat st;

	return !stat("/proc/self/task", &st) && st.st_nlink > 3;
}

static inline void ktap_check_leaks(void)
{
	const struct ktap_holdings *a = &ktap.before, *b = &ktap.after;
	unsigned int keeps = ktap.result->keeps, n, *failures;
	char text[400];

	failures = &ktap.result->failures;
	/*
	 * A thread frees what is its own after the last that a case sees of it. What
	 * is seen is final if there was no thread before the look.
	 */
	for (int64_t end = ktap_now_ns() + ktap.patience * 1000000000LL;;) {
		bool threads = ktap_has_threads();

		ktap_look(&ktap.after);
		if (!threads || !ktap_holds_other(keeps) || ktap_now_ns() > end)
			break;
		usleep(1000);
	}
	if (!(keeps & KTAP_FDS)) {
		n = ktap_fds_beyond(b, a, text, sizeof(text));
		if (n) {
			ktap_note(NULL, 0, "leaks %u fd%s: %s", n,
				  n > 1 ? "s" : "", text);
			++*failures;
		}
		n = ktap_fds_beyond(a, b, text, sizeof(text));
		if (n) {
			ktap_note(NULL, 0, "has closed %u fd%s not its own: %s",
				  n, n > 1 ? "s" : "", text);
			++*failures;
		}
	}
	if (!(keeps & KTAP_MAPS) && a->map_bytes != b->map_bytes) {
		ktap_note(NULL, 0, "leaks mappings of dma-bufs or memfds: %llu "
			  "bytes before, %llu after", a->map_bytes,
			  b->map_bytes);
		++*failures;
	}
	if (!(keeps & KTAP_HEAP) && ktap_heap_differs()) {
		ktap_note(NULL, 0, "leaks %ld blocks of the heap, %ld bytes",
			  b->heap_blocks - a->heap_blocks,
			  b->heap_bytes - a->heap_bytes);
		++*failures;
	}
}

/* ---------------------------------------------------------------- running */

/* Adds a case; name is copied. */
static inline void ktap_case(const char *name, ktap_fn fn, void *arg)
{
	unsigned int n = ktap.ncases;

	if (!(n & (n - 1)))
		ktap.cases = (struct ktap_case_entry *)
			realloc(ktap.cases, (n ? 2 * n : 1) *
					    sizeof(ktap.cases[0]));
	if (!ktap.cases)
		abort();
	ktap.cases[n].name = strdup(name);
	ktap.cases[n].fn = fn;
	ktap.cases[n].arg = arg;
	ktap.ncases++;
}

/* Stands before every name in the output, with a slash. */
__attribute__((format(printf, 1, 2)))
static inline void ktap_prefix(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ktap.prefix, sizeof(ktap.prefix) - 1, fmt, ap);
	va_end(ap);
	strcat(ktap.prefix, "/");
}

/*
 * What is called in a case's process before what it holds is looked at, and
 * after it has passed; NULL: nothing. For what a driver keeps for good, and what
 * the cases' own helpers do.
 */
static inline void ktap_around(void (*before)(void), void (*after)(void))
{
	ktap.prepare = before;
	ktap.tidy = after;
}

static inline void ktap_run_here(const struct ktap_case_entry *c)
{
	if (ktap.prepare)
		ktap.prepare();
	/* A thread's first failure allocates its sentence. */
	if (ktap_first_failure)
		ktap_first_failure(-EINVAL, "%s", "");
	ktap_look(&ktap.before);
	if (!sigsetjmp(ktap.leave, 1)) {
		c->fn(c->arg);
		if (ktap.tidy)
			ktap.tidy();
		/* A failed case has more to tell than what it left behind. */
		if (!ktap.result->failures)
			ktap_check_leaks();
		if (!ktap.result->checks) {
			ktap_note(NULL, 0, "has checked nothing");
			ktap.result->failures++;
		}
	}
	ktap.result->finished = true;
}

static inline void ktap_alarm(int sig)
{
	(void)sig; /* waitpid() returns, that is all */
}

static inline void ktap_run_child(const struct ktap_case_entry *c)
{
	struct sigaction alarmed;
	struct itimerval limit = {
		.it_interval = { .tv_sec = 1 }, /* it may come before waitpid() */
		.it_value = { .tv_sec = ktap.timeout },
	}, off = { .it_value = { .tv_sec = 0 } };
	bool killed = false;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		ktap_note(NULL, 0, "fork(): %s", strerror(errno));
		return;
	}
	if (!pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ktap_run_here(c);
		/* Not _exit(): sanitizers and coverage report at exit. */
		exit(0);
	}
	setpgid(pid, pid);
	memset(&alarmed, 0, sizeof(alarmed));
	alarmed.sa_handler = ktap_alarm;
	sigaction(SIGALRM, &alarmed, NULL);
	setitimer(ITIMER_REAL, &limit, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
		killed = true;
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	/* Children of the case's own do not outlive it. */
	kill(-pid, SIGKILL);
	if (killed)
		ktap_note(NULL, 0, "did not end within %u s", ktap.timeout);
	else if (WIFSIGNALED(status))
		ktap_note(NULL, 0, "killed by signal %d, %s", WTERMSIG(status),
			  strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		ktap_note(NULL, 0, "exited with status %d%s",
			  WEXITSTATUS(status), ktap.result->finished ?
			  " after its end: a sanitizer's report?" : "");
	else if (!ktap.result->finished)
		ktap_note(NULL, 0, "ended the process before its own end");
	if (killed || status)
		ktap.result->finished = false;
}

static inline bool ktap_chosen(const char *name, char **patterns)
{
	if (!*patterns)
		return true;
	for (; *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

static inline int ktap_usage(const char *said, const char *what)
{
	fprintf(stderr, "%s%s\n"
		"usage: [--list] [--no-fork] [--timeout SECONDS] [CASE...]\n",
		said, what);
	return KTAP_USAGE;
}

/* Runs the cases that the arguments name, or all; the exit status. */
static inline int ktap_run(int argc, char **argv)
{
	unsigned int chosen = 0, done = 0, failed = 0, skipped = 0;
	bool list = false;

	(void)argc;
	for (argv++; *argv && **argv == '-'; argv++) {
		if (!strcmp(*argv, "--list"))
			list = true;
		else if (!strcmp(*argv, "--no-fork"))
			ktap.fork = false;
		else if (!strcmp(*argv, "--timeout") && argv[1])
			ktap.timeout = atoi(*++argv);
		else
			return ktap_usage("no such option: ", *argv);
	}
	for (unsigned int i = 0; i < ktap.ncases; i++) {
		if (!ktap_chosen(ktap.cases[i].name, argv))
			continue;
		chosen++;
		if (list)
			printf("%s%s\n", ktap.prefix, ktap.cases[i].name);
	}
	if (list)
		return KTAP_PASS;
	if (!chosen)
		return ktap_usage("no such case: ", *argv ? *argv : "none");

	ktap.result = (struct ktap_result *)
		mmap(NULL, sizeof(*ktap.result), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ktap.result == MAP_FAILED)
		return ktap_usage("mmap: ", strerror(errno));
	printf("KTAP version 1\n1..%u\n", chosen);
	for (unsigned int i = 0; i < ktap.ncases; i++) {
		const struct ktap_case_entry *c = &ktap.cases[i];
		struct ktap_result *r = ktap.result;
		bool bad, again;
		int tries = 0;

		if (!ktap_chosen(c->name, argv))
			continue;
		do {
			*r = (struct ktap_result){ .checks = 0 };
			if (ktap.fork)
				ktap_run_child(c);
			else
				ktap_run_here(c);
			bad = !r->finished || r->failures;
			again = bad && r->lasts_ns && ktap_now_ns() > r->lasts_ns &&
				++tries < 3;
			if (again)
				ktap_note(NULL, 0, "failed after something that it uses had expired: again");
		} while (again);
		if (!bad && r->skipped)
			printf("ok %u - %s%s # SKIP %s\n", ++done, ktap.prefix,
			       c->name, r->reason);
		else
			printf("%s %u - %s%s\n", bad ? "not ok" : "ok", ++done,
			       ktap.prefix, c->name);
		fflush(stdout);
		failed += bad;
		skipped += !bad && r->skipped;
	}
	printf("# Totals: pass:%u fail:%u skip:%u\n",
	       done - failed - skipped, failed, skipped);
	fflush(stdout);
	munmap(ktap.result, sizeof(*ktap.result));
	return failed ? KTAP_FAIL : skipped == done ? KTAP_SKIP : KTAP_PASS;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_TESTS_KTAP_H */
