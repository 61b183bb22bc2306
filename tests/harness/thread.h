/* SPDX-License-Identifier: MIT */
/* The state of another thread of this process, as the kernel reports it. */
#ifndef TESTS_THREAD_H
#define TESTS_THREAD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>

/* The first line of a thread's file in /proc, of any process; empty if the thread has ended. */
static inline void thread_line(pid_t tid, const char *file, char *line, size_t size)
{
	char path[64];
	FILE *f;

	line[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/%s", tid, file);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(line, size, f))
		line[0] = '\0';
	fclose(f);
}

static inline bool thread_sleeps(pid_t tid)
{
	char line[256], *state;

	thread_line(tid, "stat", line, sizeof(line));
	state = strrchr(line, ')');
	return state && state[1] && state[2] == 'S';
}

/*
 * Whether the thread sleeps in ppoll(). There the library waits for fences, messages and
 * frames, and nowhere else. A thread that waits for a lock or for its turn does not.
 */
static inline bool thread_polls(pid_t tid)
{
	char line[256], *end;
	long nr;

	thread_line(tid, "syscall", line, sizeof(line));
	nr = strtol(line, &end, 10);	/* or "running" */
#ifdef SYS_ppoll_time64
	if (end != line && nr == SYS_ppoll_time64)
		return true;
#endif
	return end != line && nr == SYS_ppoll;
}

#endif /* TESTS_THREAD_H */
