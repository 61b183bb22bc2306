/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of all system and libc calls that can fail, so that a test build
 * (CONFIG_FAULT_INJECTION) can make the n-th call fail.
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
#include <sys/timerfd.h>
#include <unistd.h>

#include <linux/dma-buf.h>
/* glibc before 2.27 has neither these nor memfd_create(). */
#ifndef MFD_CLOEXEC
#include <linux/memfd.h>
#endif

/* Android's C library has no thread cancellation and no secure_getenv(). */
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
 * Disables thread cancellation until the end of the scope. No call of the library is a
 * cancellation point, because a thread that is cancelled in the middle would leave a
 * tensor acquired, or lose a lease. Functions that close fds, wait or call a driver
 * begin with this.
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
/* Returns true if this call has to fail. */
bool fault_hit(void);
/*
 * Makes the n-th call that this thread makes from now on fail, once; 0: none. Resets the
 * count. fault_at_others() counts the calls of all other threads instead, such as "dlbuf-events".
 */
void fault_at(unsigned long n);
void fault_at_others(unsigned long n);
/* The number of calls since then. */
unsigned long fault_count(void);
#else
#define fault_hit() false
#endif

/* Allocates zeroed memory. On NULL the error text is set, for -ENOMEM. */
void *sys_calloc(size_t n, size_t size);

/*
 * Duplicates an fd as close-on-exec and 3 or above. Some drivers treat fd 0 as "no fd",
 * and a dma-buf must not become the standard output.
 */
int sys_dup(int fd);

/*
 * Closes a duplicate of `like` that a driver was given and refused. Drivers take an
 * fd only on success, but some have closed an fd that they refused: NVIDIA's an
 * opaque fd of another kind, lavapipe a dma-buf. Then another thread may have reused
 * the number for another file, which stays open.
 */
void sys_close_refused(int fd, int like);

/*
 * Moves a new fd, taken, to a number of 3 or above. Returns -1 with errno on failure, or
 * if fd is -1.
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

/* Tries again after EINTR. DMA_BUF_IOCTL_SYNC has bracket() in fence.h. */
int sys_ioctl(int fd, unsigned long request, void *arg);

/* Makes a condition variable whose deadlines are in CLOCK_MONOTONIC. */
void sys_cond_init(pthread_cond_t *cond);

/*
 * Starts a thread with the signals blocked, because they are for the application's threads.
 * Signals that a thread raises itself are not blocked: the kernel would kill the process, and a
 * handler of the application may be for frames, whose memory can disappear. On failure the error
 * text is set.
 */
int sys_thread(pthread_t *thread, void *(*fn)(void *), void *data);

/* One call, for a hot path. */
static inline int sys_ioctl_once(int fd, unsigned long request, void *arg)
{
	if (fault_hit()) {
		errno = EIO;
		return -1;
	}
	return ioctl(fd, request, arg);
}

/*
 * An exporter without mmap() returns EINVAL, or ENOTSUPP (524), for which libc has no
 * text: EOPNOTSUPP.
 */
static inline void *sys_mmap(size_t size, int prot, int fd)
{
	void *p;

	if (fault_hit()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED && (errno == EINVAL || errno == 524))
		errno = EOPNOTSUPP;
	return p;
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

static inline int sys_timerfd(void)
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	return sys_high(timerfd_create(CLOCK_MONOTONIC,
				       TFD_CLOEXEC | TFD_NONBLOCK));
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

/* sys_high() for two fds; after a failure both are closed. */
static inline int sys_high_pair(int fds[2])
{
	int err;

	for (int i = 0; i < 2; i++)
		fds[i] = sys_high(fds[i]);
	if (fds[0] >= 0 && fds[1] >= 0)
		return 0;
	err = errno;
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	errno = err;
	return -1;
}

static inline int sys_pipe(int fds[2])
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	return pipe2(fds, O_CLOEXEC) ? -1 : sys_high_pair(fds);
}

/*
 * All waiting happens in sys_poll(). Writing to a closed peer returns EPIPE and raises
 * no SIGPIPE. If a peer closes with unread messages, or connects elsewhere, one call
 * fails with ECONNRESET even if messages are queued.
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
	while (n < 0 && errno == EINTR);
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
	while (n < 0 && errno == EINTR);
	return n;
}

#endif /* DLBUF_SYS_H */
