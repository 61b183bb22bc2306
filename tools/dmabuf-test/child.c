// SPDX-License-Identifier: MIT
/* Processes that drivers run in. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "tool.h"

/* The time that the kernel has to end a process that was killed. */
#define KILL_MS 5000

pid_t child_start(int *fd)
{
	pid_t pid, parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		fail(STATUS_SYSTEM, "socketpair(): %s", strerror(errno));
		return -1;
	}
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail(STATUS_SYSTEM, "fork(): %s", strerror(errno));
	close(ends[pid ? 1 : 0]);
	*fd = ends[pid ? 0 : 1];
	if (pid < 0)
		close(*fd);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		signal(SIGINT, SIG_IGN);
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	return pid;
}

pid_t child_exec(const char *argv[], bool output, int *fd)
{
	pid_t pid = child_start(fd);
	char number[16];
	int null;

	if (pid)
		return pid;
	snprintf(number, sizeof(number), "%d", *fd);
	for (const char **arg = argv; *arg; arg++)
		if (!strcmp(*arg, CHILD_FD))
			*arg = number;
	null = open("/dev/null", O_RDWR);
	dup2(null, STDIN_FILENO);
	dup2(output ? STDERR_FILENO : null, STDOUT_FILENO);
	if (!output)
		dup2(null, STDERR_FILENO);
	if (null > STDERR_FILENO)
		close(null);
	fcntl(*fd, F_SETFD, 0);
	signal(SIGPIPE, SIG_DFL);
	execv("/proc/self/exe", (char **)argv);
	_exit(127);
}

ssize_t child_receive(int fd, void *message, size_t size, int limit_ms)
{
	struct timespec limit = { limit_ms / 1000, limit_ms % 1000 * 1000000 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t end = now_ns() + limit_ms * 1000000ull;
	sigset_t signals, before;
	int ret;

	/* Blocked until ppoll() waits: a signal after the look at interrupted ends the wait. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &before);
	do
		ret = interrupted ? -1 : ppoll(&p, 1, &limit, &before);
	while (ret < 0 && errno == EINTR && !interrupted && now_ns() < end);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret <= 0 ? -1 : recv(fd, message, size, 0);
}

/* False: the process has not ended. */
static bool wait_for(pid_t pid, bool killed, int *status)
{
	uint64_t end = now_ns() + KILL_MS * 1000000ull;
	pid_t ret;

	do {
		ret = waitpid(pid, status, killed ? WNOHANG : 0);
		if (!ret)
			poll(NULL, 0, 5);
	} while ((ret < 0 && errno == EINTR) || (!ret && now_ns() < end));
	return ret != 0;
}

struct child_end child_reap(pid_t pid, bool stuck, int limit_ms)
{
	struct child_end end = { .stuck = stuck };
	int status = 0;

	if (stuck)
		kill(pid, SIGKILL);
	end.unkillable = !wait_for(pid, stuck, &status);
	if (stuck) {
		snprintf(end.text, sizeof(end.text), "nothing happened for %d s%s",
			 limit_ms / 1000, end.unkillable ? ", and the kernel "
			 "does not let the process end" : "");
	} else if (WIFSIGNALED(status)) {
		end.signal = WTERMSIG(status);
		snprintf(end.text, sizeof(end.text),
			 "the process was killed by signal %d, %s", end.signal,
			 strsignal(end.signal));
	} else if (WEXITSTATUS(status) != CHILD_WELL) {
		snprintf(end.text, sizeof(end.text),
			 "the process ended with status %d", WEXITSTATUS(status));
	}
	return end;
}
