/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the events' threads and of dlbuf_dispatch(). */
#ifndef UNIT_EVENT_LOOP_H
#define UNIT_EVENT_LOOP_H

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <dlbuf/dlbuf.h>

#include "common.h"
#include "emulated.h"
#include "eventfd.h"

#include "system/event.h"
#include "system/internal.h"
#include "dmabuf/memory.h"
#include "system/sys.h"

#define THREADS() KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks")

/* The library's threads that the kernel knows; sanitizers have threads too. */
static inline unsigned int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 e->d_name);
		comm = fopen(path, "re");
		if (comm && fgets(name, sizeof(name), comm))
			n += !strncmp(name, "dlbuf-", 6);
		if (comm)
			fclose(comm);
	}
	closedir(dir);
	return n;
}

static inline unsigned int fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static inline int unsignalled(void)
{
	return new_event(0);
}

static inline void signal_fd(int fd)
{
	signal_event(fd);
}

static inline unsigned int load(const unsigned int *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static inline void add_one(void *data)
{
	__atomic_add_fetch((unsigned int *)data, 1, __ATOMIC_ACQ_REL);
}

static inline void wait_until(const unsigned int *n, unsigned int value)
{
	UNTIL(load(n) == value);
}

static inline void wait_until_all_told(void)
{
	UNTIL(!event_pending());
}

static inline void wait_until_threads(unsigned int n)
{
	UNTIL(threads() == n);
}

static inline int status_of(pid_t pid)
{
	int status = -1;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/*
 * TSan lets no child of a process with threads start one, ASan's locks do not
 * know a fork() of busy threads, and qemu-user trips.
 */
static inline bool child_may_have_threads(void)
{
	return !KTAP_TSAN && !KTAP_ASAN && !is_emulated();
}

static inline void fire_one(void)
{
	unsigned int told = 0;
	int fd AUTO_FD = unsignalled();

	CHECK_OK(event_add(fd, add_one, &told));
	signal_fd(fd);
	wait_until_all_told();
	CHECK_EQ(load(&told), 1);
}

static inline void fire_one_in_child(void)
{
	if (child_may_have_threads())
		fire_one();
}

struct repeated {
	struct event_call call;
	unsigned int left, done; /* done is atomic */
};

static inline bool repeat(struct event_call *call)
{
	struct repeated *r = container_of(call, struct repeated, call);

	CHECK(event_is_here());
	if (r->left--)
		return false;
	add_one(&r->done);
	return true;
}

#endif /* UNIT_EVENT_LOOP_H */
