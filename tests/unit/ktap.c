// SPDX-License-Identifier: MIT
/*
 * The harness itself: it notices each fault. Each case runs another one, which
 * is wrong on purpose, in a process of its own and reads the harness's report.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "common.h"
#include "ktap.h"

static char output[16384];
/* Still reachable, as LeakSanitizer requires. */
static struct ktap_case_entry *outer_cases;

static const char *pattern;	/* of cases, behind the option */

/* Runs fn as the only case; the exit status, with what was printed. */
static int run(ktap_fn fn, const char *option)
{
	char *argv[] = { (char *)"ktap", (char *)option, (char *)"1", NULL };
	size_t n = 0;
	ssize_t got;
	int fds[2], status = -1;
	pid_t pid;

	REQUIRE(!pipe(fds));
	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid) {
		close(fds[0]);
		dup2(fds[1], 1);
		close(fds[1]);
		outer_cases = ktap.cases;
		ktap.cases = NULL;
		ktap.ncases = 0;
		ktap.patience = 1;
		ktap.prefix[0] = '\0';
		ktap_case("inner", fn, NULL);
		if (!option || strcmp(option, "--timeout"))
			argv[option ? 2 : 1] = (char *)pattern;
		_exit(ktap_run(option ? 2 : 1, argv));
	}
	close(fds[1]);
	while ((got = read(fds[0], output + n, sizeof(output) - 1 - n)) > 0)
		n += got;
	output[n] = '\0';
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHECK_FAILS(fn, option, text)                                        \
	do {                                                                 \
		CHECK_EQ(run(fn, option), KTAP_FAIL);                        \
		CHECK_MSG(strstr(output, "not ok 1 - inner\n"), "%s", output); \
		CHECK_MSG(strstr(output, text), "%s", output);               \
	} while (0)

static void good(void *arg)
{
	int fd AUTO_FD = eventfd(0, EFD_CLOEXEC);
	void *p = malloc(100), *q = NULL;

	CHECK(fd >= 0);
	CHECK_EQ(UINT64_MAX, ~0ull);
	CHECK_EQ(INT64_MIN, -INT64_MAX - 1);
	CHECK_STR("a", "a");
	p = realloc(p, 100000);
	REQUIRE(!posix_memalign(&q, 64, 640));
	free(q);
	free(p);
}

TEST(passes)
{
	CHECK_EQ(run(good, NULL), KTAP_PASS);
	CHECK_STR(output, "KTAP version 1\n1..1\nok 1 - inner\n"
		  "# Totals: pass:1 fail:0 skip:0\n");
	CHECK_EQ(run(good, "--no-fork"), KTAP_PASS);
}

static void false_check(void *arg)
{
	CHECK(1 + 1 == 3);
	CHECK_EQ(-1, UINT64_MAX);
	CHECK_EQ(7u, 8);
	CHECK_STR("a", "b");
	CHECK_OK(5);
}

TEST(sees_a_false_check)
{
	CHECK_FAILS(false_check, NULL, "ktap.c:");
	CHECK(strstr(output, "1 + 1 == 3\n"));
	CHECK(strstr(output, "-1 is -1, not UINT64_MAX, 18446744073709551615"));
	CHECK(strstr(output, "7u is 7, not 8, 8\n"));
	CHECK(strstr(output, "'a', not \"b\", 'b'\n"));
	CHECK(strstr(output, "5 is 5: not 0\n"));
	CHECK_FAILS(false_check, "--no-fork", "1 + 1 == 3\n");
}

static void required(void *arg)
{
	REQUIRE(0 > 1);
	abort();
}

TEST(requires)
{
	CHECK_FAILS(required, NULL, "0 > 1\n");
	CHECK(!strstr(output, "killed"));
}

static void fd_leak(void *arg)
{
	CHECK(eventfd(0, EFD_CLOEXEC) >= 0);
}

TEST(sees_an_fd_leak)
{
	CHECK_FAILS(fd_leak, NULL, "leaks 1 fd: ");
	CHECK_MSG(strstr(output, "eventfd"), "%s", output);
	CHECK_FAILS(fd_leak, "--no-fork", "leaks 1 fd: ");
}

static void fd_closed(void *arg)
{
	CHECK(!close(*(int *)arg));
}

static int victim;
static void close_victim(void *arg)
{
	fd_closed(&victim);
}

TEST(sees_a_foreign_fd_closed)
{
	victim = eventfd(0, EFD_CLOEXEC);
	CHECK_FAILS(close_victim, NULL, "has closed 1 fd not its own: ");
	close(victim);
}

static void replace_victim(void *arg)
{
	int fd AUTO_FD = memfd_create("other", MFD_CLOEXEC);

	CHECK_EQ(dup2(fd, victim), victim);
}

TEST(sees_an_fd_replaced)
{
	victim = eventfd(0, EFD_CLOEXEC);
	CHECK_FAILS(replace_victim, NULL, "leaks 1 fd: ");
	CHECK_MSG(strstr(output, "has closed 1 fd"), "%s", output);
	close(victim);
}

static void map_leak(void *arg)
{
	int fd AUTO_FD = memfd_create("leaked", MFD_CLOEXEC);

	CHECK(!ftruncate(fd, 8192));
	CHECK(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
}

TEST(sees_a_mapping_leak)
{
	CHECK_FAILS(map_leak, NULL, "leaks mappings of dma-bufs or memfds: ");
}

static void *volatile leaked; /* or clang leaves malloc() out */
static void heap_leak(void *arg)
{
	leaked = malloc(24);
	CHECK(leaked);
	leaked = NULL;
}

TEST(sees_a_heap_leak)
{
	if (KTAP_COUNTS_HEAP)
		CHECK_FAILS(heap_leak, NULL, "leaks 1 blocks of the heap, ");
	else if (KTAP_ASAN)
		CHECK_FAILS(heap_leak, NULL, "a sanitizer's report");
	else
		SKIP("nothing looks after the heap in this build");
}

static bool looked; /* atomic */

/* The harness's, between two counts of the process's resources. */
int usleep(useconds_t us)
{
	__atomic_store_n(&looked, true, __ATOMIC_RELEASE);
	sched_yield();
	return 0;
}

static void *lets_go_late(void *arg)
{
	UNTIL(__atomic_load_n(&looked, __ATOMIC_ACQUIRE));
	close((int)(intptr_t)arg);
	return NULL;
}

static void slow_end(void *arg)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t thread;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack");
	ktap.patience = 0;
	CHECK(fd >= 0);
	CHECK_EQ(pthread_create(&thread, NULL, lets_go_late,
				(void *)(intptr_t)fd), 0);
	pthread_detach(thread);
}

TEST(waits_for_threads_that_end)
{
	CHECK_EQ(run(slow_end, NULL), KTAP_PASS);
}

static void keeper(void *arg)
{
	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS, "to see that it is allowed");
	CHECK(eventfd(0, EFD_CLOEXEC) >= 0);
	map_leak(NULL);
}

TEST(allows_what_is_declared)
{
	CHECK_EQ(run(keeper, NULL), KTAP_PASS);
}

static void unchecked(void *arg)
{
}

TEST(sees_a_case_without_checks)
{
	CHECK_FAILS(unchecked, NULL, "has checked nothing\n");
}

static void crash(void *arg)
{
	CHECK(true);
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

TEST(survives_a_crash)
{
	CHECK_FAILS(crash, NULL, "killed by signal 11, ");
}

static void leaver(void *arg)
{
	CHECK(true);
	_exit(0);
}

TEST(sees_an_early_exit)
{
	CHECK_FAILS(leaver, NULL, "ended the process before its own end");
}

static void hang(void *arg)
{
	CHECK(true);
	for (;;)
		pause();
}

TEST(ends_a_hang)
{
	CHECK_FAILS(hang, "--timeout", "did not end within 1 s\n");
}

static void waits(void *arg)
{
	const volatile bool never = false;

	UNTIL(true);
	UNTIL(never);
}

TEST(says_what_a_hang_waits_for)
{
	/* On a slow machine the second may be over before it waits. */
	for (int i = 0; i < 60 && !strstr(output, "waits until"); i++)
		CHECK_EQ(run(waits, "--timeout"), KTAP_FAIL);
	CHECK_MSG(strstr(output, "did not end within 1 s, waits until never\n"),
		  "%s", output);
}

static void skips(void *arg)
{
	SKIP("there is no %s #5\n", "moon");
}

TEST(no_such_case)
{
	CHECK_EQ(run(good, "inner"), KTAP_PASS);
	CHECK_EQ(run(good, "in"), KTAP_USAGE);
}

TEST(skips_with_a_reason)
{
	CHECK_EQ(run(skips, NULL), KTAP_SKIP);
	CHECK_MSG(strstr(output, "ok 1 - inner # SKIP there is no moon  5 \n"),
		  "%s", output);
}

/* The library has never reported such an error; its own place for the text is used. */
static int says(const char *sentence, int err)
{
	strcpy((char *)dlbuf_last_error(), sentence);
	return err;
}

static void silent(void *arg)
{
	CHECK_ERR(says("an older sentence", -EINVAL), -EINVAL);
	CHECK_ERR(-EINVAL, -EINVAL);
}

static void two_lines(void *arg)
{
	CHECK_ERR(says("one\ntwo", -EINVAL), -EINVAL);
}

static void other_code(void *arg)
{
	CHECK_ERR(says("the cause", -EIO), -EINVAL);
}

static void other_text(void *arg)
{
	CHECK_ERR_SAYS(says("the cause", -EIO), -EIO, "the reason");
}

static void other_code_and_text(void *arg)
{
	CHECK_ERR_SAYS(says("the cause", -EIO), -EINVAL, "the cause");
}

TEST(sees_a_bad_error)
{
	CHECK_FAILS(silent, NULL, "-EINVAL failed without a sentence\n");
	CHECK_FAILS(two_lines, NULL, "a control character in 'one two'\n");
	CHECK_FAILS(other_code, NULL, "is -5, not -EINVAL: the cause\n");
	CHECK_FAILS(other_text, NULL, "'the cause' says nothing of 'the reason'\n");
	CHECK_FAILS(other_code_and_text, NULL, "is -5, not -EINVAL: the cause\n");
}

static void *check_many(void *arg)
{
	for (int i = 0; i < 1000; i++)
		CHECK(true);
	return NULL;
}

/* The number of runs in all tries, in memory that they share. */
static int *tries;

static void expired(void *arg)
{
	ktap_lasts(0);
	CHECK(++*tries > 1);
}

static void expired_for_good(void *arg)
{
	ktap_lasts(0);
	++*tries;
	CHECK(false);
}

static void not_expired(void *arg)
{
	ktap_lasts(1000000000000);
	++*tries;
	CHECK(false);
}

/* Once more if it was late and failed, ten times at most. */
TEST(runs_again)
{
	tries = mmap(NULL, sizeof(*tries), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(tries != MAP_FAILED);
	CHECK_EQ(run(expired, NULL), KTAP_PASS);
	CHECK_EQ(*tries, 2);
	*tries = 0;
	CHECK_FAILS(expired_for_good, NULL, "had expired");
	CHECK_EQ(*tries, 10);
	*tries = 0;
	CHECK_FAILS(not_expired, NULL, "false");
	CHECK_EQ(*tries, 1);
	munmap(tries, sizeof(*tries));
}

/* A name that fits nothing, beside one that does, and an option that is too late. */
TEST(refuses_wrong_words)
{
	CHECK_EQ(run(not_expired, "--timeout=1"), KTAP_USAGE);
	CHECK_EQ(run(not_expired, "nosuch"), KTAP_USAGE);
	pattern = "nosuch";
	CHECK_EQ(run(not_expired, "inner"), KTAP_USAGE);
	pattern = "--list";
	CHECK_EQ(run(not_expired, "inner"), KTAP_USAGE);
	CHECK_STR(output, "");
	pattern = NULL;
}

TEST(counts_over_threads)
{
	pthread_t threads[4];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, check_many, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(__atomic_load_n(&ktap.result->checks, __ATOMIC_RELAXED), 4004);
}

KTAP_MAIN()
