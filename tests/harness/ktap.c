// SPDX-License-Identifier: MIT
/* The functions that ktap.h declares. */
#include "ktap.h"

#include <dirent.h>
#include <fnmatch.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/time.h>

struct ktap_state ktap = { .timeout = 600, .fork = true };

/* ---------------------------------------------------------------- printing */

void ktap_note(const char *file, int line, const char *fmt, ...)
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

bool ktap_check(const char *file, int line, bool held, const char *fmt, ...)
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

bool ktap_check_eq(const char *file, int line, struct ktap_int a, struct ktap_int b,
		   const char *atext, const char *btext)
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

bool ktap_check_str(const char *file, int line, const char *a, const char *b,
		    const char *atext, const char *btext)
{
	return ktap_check(file, line, a && b && !strcmp(a, b),
			  "%s is '%s', not %s, '%s'", atext, a ? a : "(null)",
			  btext, b ? b : "(null)");
}

bool ktap_check_ok(const char *file, int line, int ret, const char *text)
{
	return ktap_check(file, line, !ret, "%s is %d: %s", text, ret,
			  ret < 0 ? dlbuf_last_error() : "not 0");
}

/* lib/system/internal.h; not there for a program linked with the public library. */
extern void forget_failure(void) __attribute__((weak));

void ktap_forget(void)
{
	if (forget_failure)
		forget_failure();
}

bool ktap_check_err(const char *file, int line, int ret, int err, const char *text,
		    const char *errtext)
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

int ktap_seen(const char *name, const char *file, int line, int ret)
{
	uint32_t what = (uint32_t)line << 12 | (-ret & 0xfff);

	for (struct ktap_call *c = ktap.seen; ret < 0 && c && c < ktap.seen + KTAP_CALLS - 1; c++) {
		const char *of = NULL;

		if (__atomic_compare_exchange_n(&c->name, &of, name, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			__atomic_store_n(&c->file, file, __ATOMIC_RELAXED);
			__atomic_store_n(&c->what, what, __ATOMIC_RELAXED);
			break;
		}
		if (of == name && __atomic_load_n(&c->what, __ATOMIC_RELAXED) == what &&
		    __atomic_load_n(&c->file, __ATOMIC_RELAXED) == file)
			break;
	}
	return ret;
}

void ktap_wait(const struct ktap_place *here)
{
	__atomic_store_n(&ktap.result->waits, here, __ATOMIC_RELAXED);
	if (here)
		sched_yield();
}

void ktap_leave(void)
{
	siglongjmp(ktap.leave, 1);
}

void ktap_skip(const char *fmt, ...)
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

int64_t ktap_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void ktap_lasts(int64_t ns)
{
	int64_t none = 0;

	__atomic_compare_exchange_n(&ktap.result->lasts_ns, &none, ktap_now_ns() + ns,
				    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void ktap_keeps(unsigned int what)
{
	ktap.result->keeps |= what;
}

/* ---------------------------------------------------------------- the heap */

#if KTAP_COUNTS_HEAP
/*
 * glibc's way of replacing malloc. Its own statistics count a freed block in a
 * thread's cache as used, so they cannot show a leak.
 */
#include <malloc.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

__thread unsigned long ktap_allocs;

static void *ktap_heap_count(void *p, int sign)
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

void *malloc(size_t size)
{
	return ktap_heap_count(__libc_malloc(size), 1);
}

void *calloc(size_t n, size_t size)
{
	return ktap_heap_count(__libc_calloc(n, size), 1);
}

void free(void *p)
{
	__libc_free(ktap_heap_count(p, -1));
}

void *realloc(void *p, size_t size)
{
	void *other;

	ktap_heap_count(p, -1);
	other = __libc_realloc(p, size);
	if (!other && size)
		ktap_heap_count(p, 1);
	return ktap_heap_count(other, 1);
}

void *memalign(size_t align, size_t size)
{
	return ktap_heap_count(__libc_memalign(align, size), 1);
}

void *aligned_alloc(size_t align, size_t size)
{
	return ktap_heap_count(__libc_memalign(align, size), 1);
}

int posix_memalign(void **p, size_t align, size_t size)
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

/* ---------------------------------------------------------------- leaks */

void ktap_look(struct ktap_holdings *h)
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
static unsigned int ktap_fds_beyond(const struct ktap_holdings *a,
				    const struct ktap_holdings *b, char *text, size_t size)
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

static bool ktap_heap_differs(void)
{
	return ktap.before.heap_blocks != ktap.after.heap_blocks ||
	       ktap.before.heap_bytes != ktap.after.heap_bytes;
}

static bool ktap_holds_other(unsigned int keeps)
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
static bool ktap_has_threads(void)
{
	struct stat st;

	return !stat("/proc/self/task", &st) && st.st_nlink > 3;
}

static void ktap_check_leaks(void)
{
	const struct ktap_holdings *a = &ktap.before, *b = &ktap.after;
	unsigned int patience = ktap.patience ? ktap.patience : ktap.timeout * 2 / 3;
	unsigned int keeps = ktap.result->keeps, n, *failures;
	char text[400];

	failures = &ktap.result->failures;
	/*
	 * A thread frees its own data after the last event that a case sees of it.
	 * The result is final if no other thread existed before the check.
	 */
	for (int64_t end = ktap_now_ns() + patience * 1000000000LL;;) {
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

void ktap_case(const char *name, ktap_fn fn, void *arg)
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

void ktap_prefix(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ktap.prefix, sizeof(ktap.prefix) - 1, fmt, ap);
	va_end(ap);
	strcat(ktap.prefix, "/");
}

void ktap_around(void (*before)(void), void (*after)(void))
{
	ktap.prepare = before;
	ktap.tidy = after;
}

static void ktap_run_here(const struct ktap_case_entry *c)
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
		/* If a case has failed, its failure is more important than its leaks. */
		if (!ktap.result->failures)
			ktap_check_leaks();
		if (!ktap.result->checks) {
			ktap_note(NULL, 0, "has checked nothing");
			ktap.result->failures++;
		}
	}
	ktap.result->finished = true;
}

static void ktap_alarm(int sig)
{
	(void)sig; /* waitpid() returns, that is all */
}

static void ktap_run_child(const struct ktap_case_entry *c)
{
	struct sigaction alarmed;
	struct itimerval limit = {
		.it_interval = { .tv_sec = 1 }, /* it may come before waitpid() */
		.it_value = { .tv_sec = ktap.timeout },
	}, off = { .it_value = { .tv_sec = 0 } };
	const struct ktap_place *waits;
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
	waits = ktap.result->waits;
	if (killed && waits)
		ktap_note(waits->file, waits->line, "did not end within %u s, waits until %s",
			  ktap.timeout, waits->text);
	else if (killed)
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

static bool ktap_chosen(const char *name, char **patterns)
{
	if (!*patterns)
		return true;
	for (; *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

static int ktap_usage(const char *said, const char *what)
{
	fprintf(stderr, "%s%s\n"
		"usage: [--list] [--no-fork] [--timeout SECONDS] [CASE...]\n",
		said, what);
	return KTAP_USAGE;
}

int ktap_run(int argc, char **argv)
{
	unsigned int chosen = 0, done = 0, failed = 0, skipped = 0;
	size_t shared = sizeof(*ktap.result) + KTAP_CALLS * sizeof(*ktap.seen);
	bool list = false;

	(void)argc;
	for (argv++; *argv && **argv == '-'; argv++) {
		if (!strcmp(*argv, "--list"))
			list = true;
		else if (!strcmp(*argv, "--no-fork"))
			ktap.fork = false;
		else if (!strcmp(*argv, "--timeout")) {
			ktap.timeout = argv[1] ? atoi(*++argv) : 0;
			if ((int)ktap.timeout < 1)
				return ktap_usage("--timeout is a number of seconds", "");
		}
		else
			return ktap_usage("no such option: ", *argv);
	}
	for (char **p = argv; *p; p++) {
		char *one[] = { *p, NULL };
		unsigned int i = 0;

		while (i < ktap.ncases && !ktap_chosen(ktap.cases[i].name, one))
			i++;
		if (i == ktap.ncases)
			return ktap_usage(**p == '-' ? "options come before cases: " :
					  "no such case: ", *p);
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
		return ktap_usage("there is no case", "");

	ktap.result = (struct ktap_result *)
		mmap(NULL, shared, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ktap.result == MAP_FAILED)
		return ktap_usage("mmap: ", strerror(errno));
	ktap.seen = (struct ktap_call *)(ktap.result + 1);
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
			again = r->finished && bad && r->lasts_ns && ktap_now_ns() > r->lasts_ns &&
				++tries < 10;
			if (again)
				ktap_note(NULL, 0,
					  "failed after something that it uses had expired: again");
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
	for (struct ktap_call *c = ktap.seen; getenv("KTAP_SEEN") && c->name; c++)
		printf("# seen %s %d %s:%d\n", c->name, (int)(c->what & 0xfff), c->file,
		       (int)(c->what >> 12));
	printf("# Totals: pass:%u fail:%u skip:%u\n",
	       done - failed - skipped, failed, skipped);
	fflush(stdout);
	munmap(ktap.result, shared);
	return failed ? KTAP_FAIL : skipped == done ? KTAP_SKIP : KTAP_PASS;
}

