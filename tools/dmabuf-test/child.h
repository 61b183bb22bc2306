/* SPDX-License-Identifier: MIT */
/*
 * Processes that drivers run in, so that a driver that crashes or hangs costs one case.
 * A child sends messages over a socket, which keeps their boundaries.
 */
#ifndef DMABUF_TEST_CHILD_H
#define DMABUF_TEST_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Forks a child that dies with this process and ignores SIGINT. Returns 0 in the child,
 * where *fd sends messages; in the parent *fd receives them. -1: fail() has been called.
 * The standard output of the child, which drivers may use, is standard error.
 */
pid_t child_start(int *fd);

/*
 * The exit status of a child that has finished. It is not 0, because a driver may exit with 0.
 */
#define CHILD_WELL 100

/*
 * Starts this program anew with these arguments, in a process that has no thread, driver
 * or lock of this one. The child's messages go to the fd whose number replaces argv's
 * element that is CHILD_FD. Without `output`, its output is discarded.
 */
pid_t child_exec(const char *argv[], bool output, int *fd);
#define CHILD_FD "%fd"

/*
 * Receives one message. Returns its length, 0 after the last one, -1 if there
 * was none within limit_ms or the process was interrupted.
 */
ssize_t child_receive(int fd, void *message, size_t size, int limit_ms);

/* How a child ended. */
struct child_end {
	int signal;		/* that killed it, or 0 */
	bool stuck;		/* killed by child_end(), because of `stuck` */
	bool unkillable;	/* it has not ended: it is in a call of the kernel */
	char text[128];		/* in words, "" for CHILD_WELL */
};

/* Waits for a child to end. stuck: kills it; limit_ms is how long it was silent. */
struct child_end child_reap(pid_t pid, bool stuck, int limit_ms);

#endif /* DMABUF_TEST_CHILD_H */
