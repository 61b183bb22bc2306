/* SPDX-License-Identifier: MIT */
/* Shared by the benchmarks: time, medians, system calls. */
#ifndef BENCH_H
#define BENCH_H

#include <err.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline uint64_t median(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

static inline uint64_t minimum(const uint64_t *v, size_t n)
{
	uint64_t least = v[0];

	for (size_t i = 1; i < n; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

/*
 * Two significant digits, where the kernel's allocators and page tables have a
 * part: they do not repeat to the last instruction, and less so do the
 * machines that the figures are for. The library's own figures are exact.
 */
static inline uint64_t rounded(uint64_t v)
{
	uint64_t unit = 1;

	while (v / unit >= 100)
		unit *= 10;
	return (v + unit / 2) / unit * unit;
}

/*
 * Adds a line to the file that BENCH_FIGURES names, from which tools/docs/performance
 * writes its page. `table` begins with the device and a colon. `who` is hand (the
 * divisor of the table's other lines), dlbuf, today (today's usual way) or floor
 * (the same step without a dma-buf, or without the access).
 */
__attribute__((format(printf, 4, 5)))
static inline void record(const char *who, uint64_t value, const char *table,
			  const char *what, ...)
{
	const char *path = getenv("BENCH_FIGURES");
	FILE *f = path ? fopen(path, "ae") : NULL;
	va_list ap;

	if (path && !f)
		err(1, "%s", path);
	if (!f)
		return;
	fprintf(f, "%s\t%s\t%llu\t", table, who, (unsigned long long)value);
	va_start(ap, what);
	vfprintf(f, what, ap);
	va_end(ap);
	fputc('\n', f);
	if (fclose(f))
		err(1, "%s", path);
}

/* The cost of reading the clock, which is subtracted from every figure. */
static inline uint64_t clock_cost(void)
{
	static uint64_t v[64];

	for (size_t i = 0; i < 64; i++) {
		uint64_t t = now();

		v[i] = now() - t;
	}
	return median(v, 64);
}

/* The cost of a mapping depends on its address. */
static inline void fix_addresses(char **argv)
{
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE) &&
	    personality(ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
}

/* Returns the number of the traced process's next system call, at its beginning. */
static inline long next_syscall(pid_t pid)
{
	struct __ptrace_syscall_info info;
	int status;

	do {
		if (ptrace(PTRACE_SYSCALL, pid, 0, 0) ||
		    waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
			err(1, "ptrace");
	} while (WSTOPSIG(status) != (SIGTRAP | 0x80) ||
		 ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0 ||
		 info.op != PTRACE_SYSCALL_INFO_ENTRY);
	return info.entry.nr;
}

/* Counts system calls between two calls of a kind that is not made in between. */
static inline void trace(pid_t pid, int start, int result)
{
	unsigned int n = 0;
	int status;

	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) ||
	    waitpid(pid, &status, __WALL) != pid || write(start, "", 1) != 1)
		err(1, "PTRACE_SEIZE");
	while (next_syscall(pid) != SYS_getppid)
		;
	while (next_syscall(pid) != SYS_getppid)
		n++;
	if (write(result, &n, sizeof(n)) != sizeof(n) ||
	    ptrace(PTRACE_DETACH, pid, 0, 0))
		err(1, "PTRACE_DETACH");
}

/*
 * The system calls of fn(arg). A child traces this process: in a child the
 * library would not know this one's devices.
 */
static inline unsigned int count_syscalls(void (*fn)(void *), void *arg)
{
	int start[2], result[2];
	unsigned int n;
	pid_t pid;
	char c;

	fflush(stdout);
	if (pipe(start) || pipe(result))
		err(1, "pipe");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		trace(getppid(), start[1], result[1]);
		_exit(0);
	}
	prctl(PR_SET_PTRACER, pid);
	close(start[1]);
	close(result[1]);
	if (read(start[0], &c, 1) != 1)
		errx(1, "this process cannot be traced");
	syscall(SYS_getppid);
	fn(arg);
	syscall(SYS_getppid);
	if (read(result[0], &n, sizeof(n)) != sizeof(n))
		errx(1, "the tracer ended early");
	waitpid(pid, NULL, 0);
	close(start[0]);
	close(result[0]);
	return n;
}

#endif /* BENCH_H */
