/* SPDX-License-Identifier: MIT */
/* What the benchmarks share: time, medians, system calls. */
#ifndef BENCH_H
#define BENCH_H

#include <err.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
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

/* What reading the clock costs itself; taken off every figure. */
static inline uint64_t clock_cost(void)
{
	static uint64_t v[64];

	for (size_t i = 0; i < 64; i++) {
		uint64_t t = now();

		v[i] = now() - t;
	}
	return median(v, 64);
}

/* Where things are mapped is part of what mapping costs. */
static inline void fix_addresses(char **argv)
{
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE) &&
	    personality(ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
}

static inline void nothing(void *arg)
{
	(void)arg;
}

/* Stops at system calls, two a call, between two raise() in a child. */
static inline unsigned int count_stops(void (*fn)(void *), void *arg)
{
	unsigned int stops = 0;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(1);
		raise(SIGSTOP);
		fn(arg);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		errx(1, "the traced child did not stop");
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, 0, 0))
			err(1, "ptrace");
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			errx(1, "the traced child ended early");
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			break;
		stops++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return stops;
}

/* The system calls of fn(arg), without those of the two raise() around it. */
static inline unsigned int count_syscalls(void (*fn)(void *), void *arg)
{
	return (count_stops(fn, arg) - count_stops(nothing, NULL)) / 2;
}

#endif /* BENCH_H */
