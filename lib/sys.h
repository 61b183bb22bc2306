/* SPDX-License-Identifier: MIT */
/*
 * Every call of the library that the system can refuse goes through here, so
 * that a test build (CONFIG_FAULT_INJECTION) can make the n-th of them fail.
 */
#ifndef DLBUF_SYS_H
#define DLBUF_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/dma-buf.h>
/* glibc has these, and memfd_create(), since 2.27. */
#ifndef MFD_CLOEXEC
#include <linux/memfd.h>
#endif

/* Android's C library has neither, and cancels no thread. */
#ifdef __BIONIC__
#include <sys/auxv.h>

#define PTHREAD_CANCEL_DISABLE 1
static inline int pthread_setcancelstate(int state, int *old)
{
	(void)state, (void)old;
	return 0;
}

static inline char *secure_getenv(const char *name)
{
	return getauxval(AT_SECURE) ? NULL : getenv(name);
}
#endif

/*
 * No call of the library is a cancellation point: half of one would leave a tensor
 * acquired, or a lease lost. Stands first in what closes, waits or calls a driver;
 * the rest of the scope is not cancelled.
 */
#define NOT_CANCELLED \
	__attribute__((cleanup(cancel_restore), unused)) \
	int cancel_state = cancel_off()

static inline int cancel_off(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_restore(int *state)
{
	pthread_setcancelstate(*state, NULL);
}

#ifdef CONFIG_FAULT_INJECTION
/* True when this call is the one that has to fail. */
bool fault_hit(void);
/* The n-th call from now on fails, once; 0: none. Starts counting anew. */
void fault_at(unsigned long n);
/* Calls counted since fault_at(). */
unsigned long fault_count(void);
#else
static inline bool fault_hit(void)
{
	return false;
}
#endif

/* Zeroed. NULL: sets the error text of -ENOMEM. */
void *sys_calloc(size_t n, size_t size);

/*
 * Close-on-exec and 3 or higher: some drivers take fd 0 for "no fd", and
 * nobody wants a dma-buf to become standard output.
 */
int sys_dup(int fd);

/*
 * Moves a new fd (taken) to such a number. -1 passes through; -1 with errno on
 * failure.
 */
int sys_high(int fd);

static inline int sys_fstat(int fd, struct stat *st)
{
	if (fault_hit()) {
		errno = EIO;
		return -1;
	}
	return fstat(fd, st);
}

static inline int sys_stat(const char *path, struct stat *st)
{
	if (fault_hit()) {
		errno = EIO;
		return -1;
	}
	return stat(path, st);
}

static inline int sys_open(const char *path, int flags)
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	return sys_high(open(path, flags | O_CLOEXEC));
}

/*
 * Again after a signal; the bracket after EAGAIN, too, as linux/dma-buf.h advises.
 * Other calls go to fds that may be anybody's, a FUSE file for example, which says
 * EAGAIN for as long as it likes.
 */
int sys_ioctl(int fd, unsigned long request, void *arg);

/* A condition whose deadlines are in CLOCK_MONOTONIC. */
void sys_cond_init(pthread_cond_t *cond);

/*
 * A new thread, which receives no signals: they are the application's. Sets the
 * error text.
 */
int sys_thread(pthread_t *thread, void *(*fn)(void *), void *data);

/* The same for a call in a hot path. */
static inline int sys_ioctl_inline(int fd, unsigned long request, void *arg)
{
	int ret;

	if (fault_hit()) {
		errno = EIO;
		return -1;
	}
	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && (errno == EINTR ||
			   (errno == EAGAIN && request == DMA_BUF_IOCTL_SYNC)));
	return ret;
}

static inline void *sys_mmap(size_t size, int prot, int fd)
{
	if (fault_hit()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return mmap(NULL, size, prot, MAP_SHARED, fd, 0);
}

static inline int sys_memfd(const char *name, unsigned int flags)
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	return sys_high(syscall(SYS_memfd_create, name,
				flags | MFD_CLOEXEC));
}

static inline int sys_eventfd(int flags)
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	return sys_high(eventfd(0, flags | EFD_CLOEXEC));
}

static inline int sys_epoll(void)
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	return sys_high(epoll_create1(EPOLL_CLOEXEC));
}

static inline int sys_ftruncate(int fd, off_t size)
{
	if (fault_hit()) {
		errno = ENOSPC;
		return -1;
	}
	return ftruncate(fd, size);
}

static inline int sys_poll(struct pollfd *fds, nfds_t n,
			   const struct timespec *timeout)
{
	if (fault_hit()) {
		errno = ENOMEM;
		return -1;
	}
	return ppoll(fds, n, timeout, NULL);
}

static inline int sys_pipe(int fds[2])
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	if (pipe2(fds, O_CLOEXEC))
		return -1;
	for (int i = 0; i < 2; i++)
		fds[i] = sys_high(fds[i]);
	if (fds[0] >= 0 && fds[1] >= 0)
		return 0;
	close(fds[0] >= 0 ? fds[0] : fds[1]);
	return -1;
}

/*
 * All waiting happens in sys_poll(). Writing to a closed peer returns EPIPE and
 * raises no SIGPIPE. A peer that closes, or connects elsewhere, with messages
 * unread makes one call fail with ECONNRESET, whatever is queued: the next call
 * says how things are.
 */
static inline ssize_t sys_sendmsg(int fd, const struct msghdr *msg)
{
	ssize_t n;

	if (fault_hit()) {
		errno = ENOBUFS;
		return -1;
	}
	do
		n = sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	return n;
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *msg)
{
	ssize_t n;

	if (fault_hit()) {
		errno = ENOMEM;
		return -1;
	}
	do
		n = recvmsg(fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	return n;
}

#endif /* DLBUF_SYS_H */
