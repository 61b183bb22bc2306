// SPDX-License-Identifier: MIT
/* Functions of sys.h that are not inline, and the counter of injected faults. */
#include <signal.h>

#include "internal.h"
#include "sys.h"

void *sys_calloc(size_t n, size_t size)
{
	size_t bytes;
	void *p = NULL;

	if (!fault_hit() && !__builtin_mul_overflow(n, size, &bytes)) {
		/*
		 * glibc's calloc() does not use the thread's cache of free memory.
		 * The barrier keeps the compiler from making a calloc() of this.
		 */
		p = malloc(bytes);
		__asm__("" : "+r"(p));
	}
	if (p)
		return memset(p, 0, bytes);
	fail(-ENOMEM, "no memory for %zu times %zu bytes", n, size);
	return NULL;
}

void sys_close_refused(int fd, int like)
{
	struct stat given, st;

	if (!fstat(fd, &st) && !fstat(like, &given) && st.st_dev == given.st_dev &&
	    st.st_ino == given.st_ino)
		close(fd);
}

int sys_dup(int fd)
{
	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	/* The kernel returns EINVAL if RLIMIT_NOFILE is below 3. */
	if (fd < 0 && errno == EINVAL)
		errno = EMFILE;
	return fd;
}

int sys_high(int fd)
{
	int high, err;

	if (fd < 0 || fd >= 3)
		return fd;
	NOT_CANCELLED;
	high = sys_dup(fd);
	err = errno;
	close(fd);
	errno = err;
	return high;
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	if (fault_hit()) {
		errno = EIO;
		return -1;
	}
	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && errno == EINTR);
	return ret;
}

void sys_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int sys_thread(pthread_t *thread, void *(*fn)(void *), void *data)
{
	static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
	sigset_t others, old;

	sigfillset(&others);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigdelset(&others, own[i]);
	pthread_sigmask(SIG_SETMASK, &others, &old);
	errno = fault_hit() ? EAGAIN : pthread_create(thread, NULL, fn, data);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return errno ? fail_errno("pthread_create()") : 0;
}

#ifdef CONFIG_FAULT_INJECTION
static unsigned long fault_counter, fault_target;
static const char *fault_thread;	/* the thread that asked: the address of its `self` */
static bool fault_others;
static _Thread_local char self;

bool fault_hit(void)
{
	bool other = __atomic_load_n(&fault_thread, __ATOMIC_RELAXED) != &self;
	unsigned long n;

	if (other != __atomic_load_n(&fault_others, __ATOMIC_RELAXED))
		return false;
	n = __atomic_add_fetch(&fault_counter, 1, __ATOMIC_RELAXED);
	if (n != __atomic_load_n(&fault_target, __ATOMIC_RELAXED))
		return false;
	/* For callers that do not set one. */
	errno = EIO;
	return true;
}

static void set_fault(unsigned long n, bool others)
{
	__atomic_store_n(&fault_target, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&fault_thread, &self, __ATOMIC_RELAXED);
	__atomic_store_n(&fault_others, others, __ATOMIC_RELAXED);
	__atomic_store_n(&fault_counter, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&fault_target, n, __ATOMIC_RELAXED);
}

void fault_at(unsigned long n)
{
	set_fault(n, false);
}

void fault_at_others(unsigned long n)
{
	set_fault(n, true);
}

unsigned long fault_count(void)
{
	return __atomic_load_n(&fault_counter, __ATOMIC_RELAXED);
}
#endif
