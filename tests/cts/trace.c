// SPDX-License-Identifier: MIT
/* Lists the system calls of a function, by ptrace of a child that runs it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "cts.h"

/* The mark before and after the recorded calls: a call that is not made in between. */
#define MARK SYS_getppid

static int record(pid_t pid, struct cts_syscall *calls, int max)
{
	bool recording = false;
	int n = 0, status;

	for (;;) {
		struct __ptrace_syscall_info info;

		if (ptrace(PTRACE_SYSCALL, pid, 0, 0))
			return -1;
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			return -1;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info),
			   &info) < 0)
			return -1;
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
			continue;
		if (info.entry.nr == MARK) {
			if (recording)
				return n;
			recording = true;
			continue;
		}
		if (!recording)
			continue;
		if (n < max) {
			struct cts_syscall *c = &calls[n];

			*c = (struct cts_syscall){ .nr = info.entry.nr };
			for (int i = 0; i < 3; i++)
				c->args[i] = info.entry.args[i];
			if (c->nr == SYS_ioctl)
				c->value = ptrace(PTRACE_PEEKDATA, pid,
						  c->args[2], 0);
		}
		n++;
	}
}

int cts_trace(void (*before)(void *), void (*traced)(void *), void *arg,
	      struct cts_syscall *calls, int max)
{
	int n = -1, status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		before(arg);
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(1);
		raise(SIGSTOP);
		syscall(MARK);
		traced(arg);
		syscall(MARK);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
		n = record(pid, calls, max);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	return n;
}

void cts_check_brackets(void (*before)(void *), void (*traced)(void *), void *arg,
			const uint64_t want[6])
{
	struct cts_syscall calls[64];
	int n = cts_trace(before, traced, arg, calls, 64), found = 0;

	if (n < 0)
		SKIP("this system does not let a child be traced");
	CHECK(n <= 64);
	for (int i = 0; i < n && i < 64; i++) {
		if (calls[i].nr != SYS_ioctl ||
		    calls[i].args[1] != DMA_BUF_IOCTL_SYNC)
			continue;
		if (found < 6)
			CHECK_EQ(calls[i].value, want[found]);
		found++;
	}
	CHECK_EQ(found, 6);
}
