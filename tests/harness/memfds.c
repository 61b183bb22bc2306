// SPDX-License-Identifier: MIT
/* See memfds.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <linux/udmabuf.h>

#include "memfds.h"

bool memfds_stand_in;

/* ---------------------------------------------------------------- fences */

struct fence {
	unsigned int refs;
	int fd;
};

/* Of a dma-buf. */
struct added {
	struct added *next;
	dev_t dev;
	ino_t ino;
	uint32_t access;
	struct fence *fence;
};

/* A sync_file of several, which `out` signals. */
struct merged {
	struct merged *next;
	int out;
	unsigned int n;
	struct fence *of[];
};

#define MANY 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct added *all_added;
static struct merged *all_merged;
static int wake = -1;

static void take(void)
{
	REAL(pthread_mutex_lock)(&lock);
}

static void give(void)
{
	pthread_mutex_unlock(&lock);
}

static bool is_over(const struct fence *f)
{
	struct pollfd p = { .fd = f->fd, .events = POLLIN };

	return REAL(poll)(&p, 1, 0) == 1;
}

/* A reference, or NULL with errno. */
static struct fence *fence_of(int fd)
{
	int dup = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct fence *f;

	if (dup < 0)
		return NULL;
	f = calloc(1, sizeof(*f));
	*f = (struct fence){ 1, dup };
	return f;
}

static void put(struct fence *f)
{
	if (--f->refs)
		return;
	REAL(close)(f->fd);
	free(f);
}

/* Forgets fences of dma-bufs that have signalled. */
static void prune(void)
{
	for (struct added **p = &all_added, *a; (a = *p);) {
		if (!is_over(a->fence)) {
			p = &a->next;
			continue;
		}
		*p = a->next;
		put(a->fence);
		free(a);
	}
}

/* References to the fences that an access waits for. */
static unsigned int find(int fd, uint32_t access, struct fence *found[MANY])
{
	unsigned int n = 0;
	struct stat st;

	prune();
	for (struct added *a = fstat(fd, &st) ? NULL : all_added; a && n < MANY; a = a->next)
		if (a->ino == st.st_ino && a->dev == st.st_dev &&
		    (a->access | access) & DMA_BUF_SYNC_WRITE) {
			a->fence->refs++;
			found[n++] = a->fence;
		}
	return n;
}

/* A sync_file of fences, whose references it takes; or -1. */
static int join(struct fence **of, unsigned int n)
{
	int out = n == 1 ? fcntl(of[0]->fd, F_DUPFD_CLOEXEC, 3) : eventfd(!n, EFD_CLOEXEC);
	int dup = n > 1 && out >= 0 ? fcntl(out, F_DUPFD_CLOEXEC, 3) : -1;
	struct merged *m;
	uint64_t one = 1;

	if (dup < 0 && n > 1 && out >= 0) {
		REAL(close)(out);
		out = -1;
	}
	if (dup < 0) {
		while (n)
			put(of[--n]);
		return out;
	}
	m = calloc(1, sizeof(*m) + n * sizeof(*of));
	*m = (struct merged){ all_merged, dup, n };
	memcpy(m->of, of, n * sizeof(*of));
	all_merged = m;
	if (REAL(write)(wake, &one, sizeof(one)) < 0)
		abort();
	return out;
}

unsigned int memfds_pending(void)
{
	unsigned int n = 0;

	take();
	prune();
	for (struct added *a = all_added; a; a = a->next)
		n++;
	for (struct merged *m = all_merged; m; m = m->next)
		n++;
	give();
	return n;
}

static void *kernel(void *arg)
{
	uint64_t one = 1;

	(void)arg;
	for (;;) {
		struct pollfd polls[MANY] = { { .fd = wake, .events = POLLIN } };
		struct fence *held[MANY] = { NULL };
		nfds_t n = 1;

		take();
		for (struct merged **p = &all_merged, *m; (m = *p);) {
			while (m->n && is_over(m->of[m->n - 1]))
				put(m->of[--m->n]);
			if (!m->n) {
				*p = m->next;
				if (REAL(write)(m->out, &one, sizeof(one)) < 0)
					abort();
				REAL(close)(m->out);
				free(m);
				continue;
			}
			p = &m->next;
			if (n < MANY) {
				held[n] = m->of[m->n - 1];
				held[n]->refs++;
				polls[n] = (struct pollfd){ held[n]->fd, POLLIN, 0 };
				n++;
			}
		}
		give();
		REAL(poll)(polls, n, -1);
		if (polls[0].revents && REAL(read)(wake, &one, sizeof(one)) < 0)
			abort();
		one = 1;
		take();
		while (--n)
			put(held[n]);
		give();
	}
	return NULL;
}

static void in_child(void)
{
	pthread_mutex_unlock(&lock);
}

void memfds_begin(void)
{
	pthread_t thread;
	sigset_t all, old;

	wake = eventfd(0, EFD_CLOEXEC);
	pthread_atfork(take, give, in_child);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (wake < 0 || pthread_create(&thread, NULL, kernel, NULL))
		abort();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_setname_np(thread, "kernel");
	memfds_stand_in = true;
}

/* ---------------------------------------------------------------- the kernel's answers */

static bool is_buffer(int fd)
{
	return memfds_stand_in && fcntl(fd, F_GET_SEALS) >= 0;
}

static bool is_eventfd(int fd)
{
	char path[40], name[40] = "";

	if (!memfds_stand_in)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "[eventfd]");
}

/* Waits, as START does. */
static int sync_start(int fd, uint32_t access)
{
	struct fence *found[MANY];
	unsigned int n;

	take();
	n = find(fd, access, found);
	give();
	for (unsigned int i = 0; i < n; i++) {
		struct pollfd p = { .fd = found[i]->fd, .events = POLLIN };

		while (REAL(poll)(&p, 1, -1) < 0)
			;
	}
	take();
	while (n)
		put(found[--n]);
	give();
	return 0;
}

static int export_file(int fd, struct dma_buf_export_sync_file *arg)
{
	struct fence *found[MANY];

	take();
	arg->fd = join(found, find(fd, arg->flags, found));
	give();
	return arg->fd < 0 ? -1 : 0;
}

static int import_file(int fd, const struct dma_buf_import_sync_file *arg)
{
	struct fence *f = is_eventfd(arg->fd) ? fence_of(arg->fd) : (errno = EINVAL, NULL);
	struct added *a;
	struct stat st;

	if (!f)
		return -1;
	fstat(fd, &st);
	a = calloc(1, sizeof(*a));
	take();
	*a = (struct added){ all_added, st.st_dev, st.st_ino, arg->flags, f };
	all_added = a;
	give();
	return 0;
}

static int merge(int fd, struct sync_merge_data *arg)
{
	struct fence *both[2];

	if (!is_eventfd(arg->fd2)) {
		errno = ENOENT;
		return -1;
	}
	both[0] = fence_of(fd);
	both[1] = both[0] ? fence_of(arg->fd2) : NULL;
	take();
	if (both[1])
		arg->fence = join(both, 2);
	else if (both[0])
		put(both[0]);
	give();
	return both[1] && arg->fence >= 0 ? 0 : -1;
}

static int create(const struct udmabuf_create *arg)
{
	return fcntl(arg->memfd, F_DUPFD_CLOEXEC, 3);
}

static int answer(int fd, unsigned long request, void *arg, bool *mine)
{
	*mine = true;
	switch (request) {
	case DMA_BUF_IOCTL_SYNC:
		if (!is_buffer(fd))
			break;
		if (((struct dma_buf_sync *)arg)->flags & DMA_BUF_SYNC_END)
			return 0;
		return sync_start(fd, ((struct dma_buf_sync *)arg)->flags);
	case DMA_BUF_IOCTL_EXPORT_SYNC_FILE:
		if (!is_buffer(fd))
			break;
		return export_file(fd, arg);
	case DMA_BUF_IOCTL_IMPORT_SYNC_FILE:
		if (!is_buffer(fd))
			break;
		return import_file(fd, arg);
	case DMA_BUF_SET_NAME_A:
	case DMA_BUF_SET_NAME_B:
		if (!is_buffer(fd))
			break;
		return 0;
	case SYNC_IOC_MERGE:
		if (!is_eventfd(fd))
			break;
		return merge(fd, arg);
	case UDMABUF_CREATE:
		return create(arg);
	}
	*mine = false;
	return -1;
}

/* The stress test's. */
__attribute__((weak)) void seam_delay(const char *call);

static void delay(const char *call)
{
	if (seam_delay)
		seam_delay(call);
}

#ifdef __GLIBC__
SEAM int ioctl(int fd, unsigned long request, ...)
#else
SEAM int ioctl(int fd, int request, ...)
#endif
{
	bool mine = false;
	va_list args;
	void *arg;
	int ret = -1, state;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	delay("ioctl");
	if (memfds_stand_in) {
		/* Unlike the calls in here, an ioctl() is no cancellation point. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		ret = answer(fd, (unsigned int)request, arg, &mine);
		pthread_setcancelstate(state, NULL);
	}
	return mine ? ret : (int)syscall(SYS_ioctl, fd, request, arg);
}

SEAM int fstatfs(int fd, struct statfs *fs)
{
	if (is_buffer(fd)) {
		*fs = (struct statfs){ .f_type = 0x444d4142 };
		return 0;
	}
	return (int)syscall(SYS_fstatfs, fd, fs);
}

/* The node of udmabufs: any fd does. */
SEAM int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (memfds_stand_in && !strcmp(path, "/dev/udmabuf"))
		path = "/dev/null";
	return REAL(openat)(AT_FDCWD, path, flags, mode);
}

/* Nothing is held while it sleeps: a cancelled wait leaves no reference. */
SEAM int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	static const struct timespec slice = { .tv_nsec = 200000 };
	struct timespec begun, now;
	struct fence *found[MANY];
	unsigned int pending;
	int ret;

	delay("ppoll");
	if (n != 1 || !is_buffer(fds->fd))
		return REAL(ppoll)(fds, n, timeout, mask);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (;;) {
		take();
		pending = find(fds->fd, fds->events & POLLOUT ? DMA_BUF_SYNC_WRITE : 0, found);
		for (unsigned int i = 0; i < pending; i++)
			put(found[i]);
		give();
		fds->revents = pending ? 0 : fds->events;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!pending || (timeout && (now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec -
		    begun.tv_nsec >= timeout->tv_sec * 1000000000 + timeout->tv_nsec))
			return !pending;
		ret = REAL(ppoll)(NULL, 0, &slice, mask);
		if (ret < 0)
			return ret;
	}
}

/* The functions that calls become in builds with _FORTIFY_SOURCE. */
SEAM int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		     const sigset_t *mask, size_t bytes);
SEAM int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		     const sigset_t *mask, size_t bytes)
{
	(void)bytes;
	return ppoll(fds, n, timeout, mask);
}

SEAM int __open_2(const char *path, int flags);
SEAM int __open_2(const char *path, int flags)
{
	return open(path, flags, 0);
}
