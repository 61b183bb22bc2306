// SPDX-License-Identifier: MIT
/*
 * Waiting with a deadline: the arithmetic and the signals, on pipes, which
 * poll() knows too and which have no DMA_BUF_IOCTL_EXPORT_SYNC_FILE, like
 * kernels without sync_file. Fences themselves are in tests/cts.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <time.h>

#include <linux/dma-buf.h>

#include "ktap.h"

#include "fence.h"
#include "internal.h"

/* A foreign machine's program under qemu-user is told ENOSYS, not ENOTTY. */
static void need_ioctl(int fd)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_READ };

	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0 && errno == ENOSYS)
		SKIP("ioctl() does not reach the kernel");
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
	CHECK_OK(fence_wait_buffer(fds[0], DLBUF_READ, 0));
	CHECK_OK(fence_wait_buffer(fds[0], DLBUF_READ, 1));
	CHECK_OK(fence_wait_buffer(fds[0], DLBUF_READ, UINT64_MAX));
	CHECK_OK(fence_wait_buffer(fds[1], DLBUF_WRITE, 1));
	CHECK_OK(fence_wait_buffer(fds[1], DLBUF_RW, 1));
	close(fds[0]);
	close(fds[1]);
}

TEST(a_deadline_in_the_past_asks)
{
	int fds[2];

	REQUIRE(!pipe(fds));
	need_ioctl(fds[0]);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, 1), -ETIME);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, now()), -ETIME);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, now() + 1000), -ETIME);
	close(fds[0]);
	close(fds[1]);
}

/* ---------------------------------------------------------------- signals */

static unsigned int signals; /* atomic */

static void count_signal(int sig)
{
	(void)sig;
	__atomic_add_fetch(&signals, 1, __ATOMIC_SEQ_CST);
}

struct waiter {
	int fd;
	uint64_t deadline;
	int ret;
	bool done; /* atomic */
	pthread_t thread;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	w->ret = fence_wait_buffer(w->fd, DLBUF_READ, w->deadline);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void check_signals(uint64_t deadline)
{
	struct sigaction on_signal = { .sa_handler = count_signal };
	struct waiter w = { .deadline = deadline, .ret = 1 };
	int fds[2];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE(!pipe(fds));
	need_ioctl(fds[0]);
	w.fd = fds[0];
	sigaction(SIGUSR1, &on_signal, NULL);
	REQUIRE(!pthread_create(&w.thread, NULL, wait_for_it, &w));
	for (unsigned int i = 1; i <= 20; i++) {
		pthread_kill(w.thread, SIGUSR1);
		while (__atomic_load_n(&signals, __ATOMIC_SEQ_CST) < i &&
		       !__atomic_load_n(&w.done, __ATOMIC_ACQUIRE))
			sched_yield();
	}
	/* Interrupted again and again, it is waiting still. */
	CHECK(!__atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
	CHECK_EQ(write(fds[1], "x", 1), 1);
	pthread_join(w.thread, NULL);
	CHECK_EQ(w.ret, 0);
	close(fds[0]);
	close(fds[1]);
}

TEST(signals_without_a_deadline)
{
	check_signals(0);
}

TEST(signals_with_a_deadline)
{
	check_signals(now() + 100 * 1000000000ull);
}

TEST(closed)
{
	int fds[2];

	REQUIRE(!pipe(fds));
	need_ioctl(fds[0]);
	close(fds[0]);
	close(fds[1]);
	CHECK_ERR(fence_wait_buffer(fds[0], DLBUF_READ, 1), -EBADF);
	CHECK_ERR(fence_wait_buffer(-1, DLBUF_READ, 1), -EBADF);
}

KTAP_MAIN()
