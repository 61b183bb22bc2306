// SPDX-License-Identifier: MIT
/*
 * Waiting with a deadline: the arithmetic and the signals, on pipes, which
 * poll() knows too and which have no DMA_BUF_IOCTL_EXPORT_SYNC_FILE, like
 * kernels without sync_file. And the helpers on fds that are no sync_files: an
 * eventfd, which some devices' release gives, and a closed fd. Fences
 * themselves are in tests/cts.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "common.h"
#include "emulated.h"
#include "eventfd.h"

#include "system/event.h"
#include "dmabuf/fence.h"
#include "system/internal.h"
#include "ioctl.h"
#include "system/sys.h"
#include "thread.h"

/* So many of the next ioctl()s are refused: with EAGAIN, as by the server of a FUSE file. */
static unsigned int refuse;
static int refuse_with = EAGAIN;

static int answer_ioctl(int fd, unsigned int request, void *arg)
{
	if (!refuse)
		return real_ioctl(fd, request, arg);
	refuse--;
	errno = refuse_with;
	return -1;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

TEST(ready_at_once)
{
	int fds[2];

	REQUIRE(!pipe(fds));
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_OK(fence_wait_buffer(fds[0], DLBUF_READ, 0, false));
	CHECK_OK(fence_wait_buffer(fds[0], DLBUF_READ, 1, false));
	CHECK_OK(fence_wait_buffer(fds[0], DLBUF_READ, UINT64_MAX, false));
	CHECK_OK(fence_wait_buffer(fds[1], DLBUF_WRITE, 1, false));
	CHECK_OK(fence_wait_buffer(fds[1], DLBUF_RW, 1, false));
	close(fds[0]);
	close(fds[1]);
}

TEST(a_deadline_in_the_past_asks)
{
	int fds[2];

	REQUIRE(!pipe(fds));
	need_machine();
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, 1, false), -ETIME);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, now(), false), -ETIME);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, now() + 1000, false), -ETIME);
	close(fds[0]);
	close(fds[1]);
}

/* ---------------------------------------------------------------- signals */

static unsigned int signals; /* atomic */

static void count_signal(int sig)
{
	__atomic_add_fetch(&signals, 1, __ATOMIC_SEQ_CST);
}

struct waiter {
	int fd;
	uint64_t deadline;
	int ret;
	bool done; /* atomic */
	pid_t tid; /* atomic */
	pthread_t thread;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	w->ret = fence_wait_buffer(w->fd, DLBUF_READ, w->deadline, false);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void check_signals(uint64_t deadline)
{
	struct sigaction on_signal = { .sa_handler = count_signal };
	struct waiter w = { .deadline = deadline, .ret = 1 };
	unsigned int before = __atomic_load_n(&signals, __ATOMIC_SEQ_CST);
	int fds[2];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE(!pipe(fds));
	need_machine();
	w.fd = fds[0];
	sigaction(SIGUSR1, &on_signal, NULL);
	REQUIRE(!pthread_create(&w.thread, NULL, wait_for_it, &w));
	/*
	 * Sent again until they have arrived: ThreadSanitizer keeps back the one
	 * that comes right before a system call, until that call has returned.
	 */
	while (__atomic_load_n(&signals, __ATOMIC_SEQ_CST) < before + 500 &&
	       !__atomic_load_n(&w.done, __ATOMIC_ACQUIRE)) {
		pthread_kill(w.thread, SIGUSR1);
		sched_yield();
	}
	/* Interrupted again and again, it is waiting still. */
	UNTIL(__atomic_load_n(&w.done, __ATOMIC_ACQUIRE) ||
	      thread_polls(__atomic_load_n(&w.tid, __ATOMIC_ACQUIRE)));
	CHECK(!__atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
	CHECK_EQ(write(fds[1], "x", 1), 1);
	pthread_join(w.thread, NULL);
	CHECK_EQ(w.ret, 1); /* it was pending */
	close(fds[0]);
	close(fds[1]);
}

TEST(signals_without_a_deadline)
{
	check_signals(0);
}

TEST(signals_with_a_deadline)
{
	check_signals(now() + 3600 * 1000000000ull);
}

TEST(closed)
{
	int fds[2];

	REQUIRE(!pipe(fds));
	need_machine();
	close(fds[0]);
	close(fds[1]);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, 1, false), -EBADF);
	CHECK_ERR(fence_wait_buffer(-1, DLBUF_READ, 1, false), -EBADF);
}

/* ---------------------------------------------------------------- the helpers */

TEST(an_eventfd_is_waited_for)
{
	int fd AUTO_FD = new_event(0), status = 77;

	CHECK_ERR(dlbuf_fence_wait(fd, 1), -ETIME);
	CHECK_ERR(dlbuf_fence_wait(fd, now()), -ETIME);
	CHECK_OK(dlbuf_fence_status(fd, &status));
	CHECK_EQ(status, 0);
	signal_event(fd);
	CHECK_OK(dlbuf_fence_wait(fd, 0));
	CHECK_OK(dlbuf_fence_wait(fd, 1));
	CHECK_OK(dlbuf_fence_status(fd, &status));
	CHECK_EQ(status, 1);
	/* Nothing of it was consumed. */
	CHECK_OK(dlbuf_fence_wait(fd, 1));
}

TEST(minus_one_has_signalled)
{
	int status = 77, out = 77;

	CHECK_OK(dlbuf_fence_wait(-1, 0));
	CHECK_OK(dlbuf_fence_wait(-1, 1));
	CHECK_OK(dlbuf_fence_status(-1, &status));
	CHECK_EQ(status, 1);
	CHECK_OK(dlbuf_fence_merge(-1, -1, &out));
	CHECK_EQ(out, -1);
	CHECK_OK(dlbuf_fence_set_deadline(-1, 1));
}

/* The error does not blame the fences. */
TEST(no_room_for_a_merged_fence)
{
	static const int errors[] = { EMFILE, ENFILE, ENOMEM };
	int fd AUTO_FD = new_event(1), out = 77;

	need_machine();
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		refuse = 1;
		refuse_with = errors[i];
		CHECK_ERR_SAYS(dlbuf_fence_merge(fd, -1, &out), -errors[i], "SYNC_IOC_MERGE");
	}
	CHECK_EQ(out, 77);
}

static void closed_told(void *data)
{
}

/* As an argument, 0 is an fd and does not mean "none". */
static void closed_fence(int fd)
{
	int status = 77, out = 77;

	close(fd);
	CHECK_ERR(dlbuf_fence_wait(fd, 1), -EBADF);
	CHECK_ERR(dlbuf_fence_wait(fd, 0), -EBADF);
	CHECK_ERR(dlbuf_fence_status(fd, &status), -EBADF);
	CHECK_ERR(dlbuf_fence_merge(fd, -1, &out), -EBADF);
	CHECK_ERR(dlbuf_fence_merge(-1, fd, &out), -EBADF);
	CHECK_ERR(dlbuf_fence_merge(fd, fd, &out), -EBADF);
	CHECK_ERR(dlbuf_fence_set_deadline(fd, 1), -EBADF);
	CHECK_ERR(dlbuf_fence_export(fd, DLBUF_READ, &out), -EBADF);
	CHECK_ERR(dlbuf_fence_import(fd, DLBUF_READ, fd), -EBADF);
	CHECK_ERR(dlbuf_fence_notify(fd, closed_told, NULL), -EBADF);
	CHECK_EQ(status, 77);
	CHECK_EQ(out, 77);
}

TEST(a_closed_fence)
{
	int in AUTO_FD = dup(STDIN_FILENO);

	need_machine();
	closed_fence(new_event(1));
	closed_fence(STDIN_FILENO);
	CHECK_EQ(dup2(in, STDIN_FILENO), STDIN_FILENO);
}

/* poll() leaves a negative fd out and would wait without end. */
TEST(a_negative_number_is_no_fence)
{
	static const int numbers[] = { -2, -5, INT_MIN };
	int status = 77, out = 77;

	need_machine();
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int bad = numbers[i];

		CHECK_ERR(poll_until(bad, POLLIN, 1), -EBADF);
		CHECK_ERR(dlbuf_fence_wait(bad, 1), -EBADF);
		CHECK_ERR(dlbuf_fence_wait(bad, 0), -EBADF);
		CHECK_ERR(dlbuf_fence_status(bad, &status), -EBADF);
		CHECK_ERR(dlbuf_fence_merge(bad, -1, &out), -EBADF);
		CHECK_ERR(dlbuf_fence_merge(-1, bad, &out), -EBADF);
		CHECK_ERR(dlbuf_fence_merge(bad, bad, &out), -EBADF);
		CHECK_ERR_SAYS(dlbuf_fence_set_deadline(bad, 1), -EBADF, "is not open");
	}
	CHECK_EQ(status, 77);
	CHECK_EQ(out, 77);
}

TEST(what_is_no_sync_file)
{
	int fd AUTO_FD = new_event(1), memfd AUTO_FD = memfd_create("a file", MFD_CLOEXEC);
	int out = 77;

	need_machine();
	for (int i = 0; i < 2; i++) {
		int other = i ? memfd : fd;

		CHECK_ERR(dlbuf_fence_merge(other, other, &out), -EINVAL);
		CHECK_ERR(dlbuf_fence_merge(other, -1, &out), -EINVAL);
		CHECK_ERR_SAYS(dlbuf_fence_merge(-1, other, &out), -EINVAL, "not a sync_file");
		CHECK_ERR(dlbuf_fence_set_deadline(other, 1), -EOPNOTSUPP);
		CHECK_ERR(dlbuf_fence_export(other, DLBUF_READ, &out), -EBADF);
		CHECK_SAYS("not a dma-buf");
		CHECK_ERR_SAYS(dlbuf_fence_import(other, DLBUF_RW, fd), -EBADF, "not a dma-buf");
	}
	/* -1 adds nothing, to any file. */
	CHECK_OK(dlbuf_fence_import(memfd, DLBUF_WRITE, -1));
	CHECK_EQ(out, 77);
}

TEST(wrong_arguments)
{
	int fd AUTO_FD = new_event(1), out = 77;

	CHECK_ERR(dlbuf_fence_status(fd, NULL), -EINVAL);
	CHECK_ERR(dlbuf_fence_merge(fd, fd, NULL), -EINVAL);
	CHECK_ERR(dlbuf_fence_export(fd, DLBUF_READ, NULL), -EINVAL);
	CHECK_ERR(dlbuf_fence_export(fd, 0, &out), -EINVAL);
	CHECK_ERR(dlbuf_fence_export(fd, 4, &out), -EINVAL);
	CHECK_ERR(dlbuf_fence_import(fd, 0, -1), -EINVAL);
	CHECK_ERR(dlbuf_fence_import(fd, 7, fd), -EINVAL);
	CHECK_EQ(out, 77);
}

/* ---------------------------------------------------------------- notify */

struct told {
	unsigned int n; /* atomic */
	pthread_t by;
};

static void tell(void *data)
{
	struct told *told = data;

	told->by = pthread_self();
	__atomic_add_fetch(&told->n, 1, __ATOMIC_ACQ_REL);
}

TEST(notify_at_once)
{
	struct told told = { 0 };
	int fd AUTO_FD = new_event(1);

	CHECK_OK(dlbuf_fence_notify(fd, tell, &told));
	CHECK_EQ(told.n, 1);
	CHECK(pthread_equal(told.by, pthread_self()));
	CHECK_OK(dlbuf_fence_notify(-1, tell, &told));
	CHECK_EQ(told.n, 2);
	CHECK(pthread_equal(told.by, pthread_self()));
	/* There was no need for the thread. */
	CHECK_EQ(event_pending() + event_wakeups(), 0);
}

TEST(notify_later)
{
	struct told told = { 0 };
	int fd = new_event(0), writer AUTO_FD = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	event_user_add();
	CHECK_OK(dlbuf_fence_notify(fd, tell, &told));
	close(fd); /* it was duplicated */
	CHECK_EQ(__atomic_load_n(&told.n, __ATOMIC_ACQUIRE), 0);
	CHECK_EQ(event_pending(), 1);
	signal_event(writer);
	UNTIL(!event_pending());
	CHECK_EQ(__atomic_load_n(&told.n, __ATOMIC_ACQUIRE), 1);
	CHECK(!pthread_equal(told.by, pthread_self()));
	event_user_remove();
}

TEST(a_file_that_says_again_for_ever)
{
	int fd AUTO_FD = new_event(1), out = -2, status = -2;

	refuse = 1000;
	CHECK_ERR(dlbuf_fence_merge(fd, fd, &out), -EINVAL);
	CHECK_OK(dlbuf_fence_status(fd, &status));
	CHECK_EQ(status, 1);
	CHECK_ERR(dlbuf_fence_set_deadline(fd, 1), -EOPNOTSUPP);
	CHECK_EQ(refuse, 997);
	CHECK_EQ(out, -2);
	refuse = 0;
}

TEST(notify_refusals)
{
	struct told told = { 0 };
	int fd = new_event(1);

	CHECK_ERR(dlbuf_fence_notify(fd, NULL, &told), -EINVAL);
	CHECK_ERR(dlbuf_fence_notify(-1, NULL, &told), -EINVAL);
	close(fd);
	CHECK_ERR(dlbuf_fence_notify(fd, tell, &told), -EBADF);
	CHECK_ERR(dlbuf_fence_notify(-2, tell, &told), -EBADF);
	CHECK_ERR(dlbuf_fence_notify(INT_MIN, tell, &told), -EBADF);
	CHECK_EQ(told.n, 0);
	CHECK_EQ(event_pending(), 0);
}

#ifdef CONFIG_FAULT_INJECTION
TEST(faults_of_a_notification)
{
	struct told told = { 0 };
	int fd AUTO_FD = new_event(0), ret = -1;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (unsigned long n = 1; ret; n++) {
		fault_at(n);
		ret = dlbuf_fence_notify(fd, tell, &told);
		fault_at(0);
		CHECK(!ret || (ret < 0 && dlbuf_last_error()[0]));
	}
	CHECK_EQ(told.n, 0);
	signal_event(fd);
	UNTIL(!event_pending());
	CHECK_EQ(told.n, 1);
}
#endif

KTAP_MAIN()
