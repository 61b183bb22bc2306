/* SPDX-License-Identifier: MIT */
/* What another thread of this process does, by the kernel's word. */
#ifndef TESTS_THREAD_H
#define TESTS_THREAD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>

/*
 * Whether the thread sleeps in ppoll(). There the library waits for fences, messages and
 * frames, and nowhere else. A thread that waits for a lock or for its turn does not.
 */
static inline bool thread_polls(pid_t tid)
{
	char path[64], line[256] = "", *end;
	FILE *f;
	long nr;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	f = fopen(path, "re");
	if (!f)
		return false; /* has ended */
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	nr = strtol(line, &end, 10);	/* or "running" */
#ifdef SYS_ppoll_time64
	if (end != line && nr == SYS_ppoll_time64)
		return true;
#endif
	return end != line && nr == SYS_ppoll;
}

#endif /* TESTS_THREAD_H */
