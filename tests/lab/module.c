// SPDX-License-Identifier: MIT
/*
 * tests/guest/module, by the kernel's calls alone: behaviour that the cases of
 * sync/failed and sync/start (tests/cts/failed.c, start.c) do not test by using it.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include <linux/dma-buf.h>
#include <linux/sync_file.h>

#include "common.h"
#include "ktap.h"
#include "lab_module.h"

#define BYTES 8192

/* A call that succeeds; its result. */
#define CALL(expr)							\
	({								\
		int call_ret = (expr);					\
									\
		if (call_ret < 0)					\
			CHECK_MSG(call_ret >= 0, "%s", strerror(errno));\
		else							\
			CHECK(call_ret >= 0);				\
		call_ret;						\
	})
#define FAILS(expr, err)						\
	do {								\
		errno = 0;						\
		CHECK_EQ(expr, -1);					\
		CHECK_EQ(errno, err);					\
	} while (0)

static int open_lab(void)
{
	int lab = lab_open();

	if (lab < 0)
		SKIP("/dev/" DLBUF_LAB_NODE ": %s", strerror(errno));
	return lab;
}

/* 1 signalled, 0 pending, or its error. */
static int status(int sync_file)
{
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = {
		.num_fences = 1,
		.sync_fence_info = (uintptr_t)&fence,
	};

	CALL(ioctl(sync_file, SYNC_IOC_FILE_INFO, &info));
	CHECK_EQ(info.status, fence.status);
	return info.status;
}

static bool polls(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) == 1 && p.revents & events;
}

static int import(int fd, uint32_t access, int sync_file)
{
	struct dma_buf_import_sync_file import = {
		.flags = access,
		.fd = sync_file,
	};

	return ioctl(fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import);
}

static int sync_cpu(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
}

static int start(int fd)
{
	return sync_cpu(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
}

static struct dlbuf_lab_count count(int lab, int fd)
{
	struct dlbuf_lab_count c;

	CALL(lab_count(lab, fd, &c));
	CHECK_EQ(c.fd, fd);
	return c;
}

TEST(arguments)
{
	int lab AUTO_FD = open_lab(), fence AUTO_FD = CALL(lab_fence(lab));
	int fd AUTO_FD = CALL(lab_buffer(lab, 1, 0));
	struct dlbuf_lab_count c;

	CHECK_EQ(lseek(fd, 0, SEEK_END), sysconf(_SC_PAGESIZE));
	CHECK_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(fence, F_GETFD) & FD_CLOEXEC);
	FAILS(lab_buffer(lab, 0, 0), EINVAL);
	FAILS(lab_buffer(lab, DLBUF_LAB_MAX + 1ull, 0), EINVAL);
	FAILS(lab_buffer(lab, UINT64_MAX, 0), EINVAL);
	FAILS(lab_buffer(lab, 1, 1u << 31), EINVAL);
	FAILS(ioctl(lab, _IO('L', 99)), ENOTTY);
	FAILS(ioctl(lab, DLBUF_LAB_BUFFER, NULL), EFAULT);
	FAILS(ioctl(lab, DLBUF_LAB_COUNT, NULL), EFAULT);
	FAILS(lab_signal(lab, -1, 0), EINVAL);
	FAILS(lab_signal(lab, fd, 0), EINVAL);
	FAILS(lab_signal(lab, fence, 5), EINVAL);
	FAILS(lab_signal(lab, fence, -4096), EINVAL);
	FAILS(lab_count(lab, -1, &c), EBADF);
	FAILS(lab_count(lab, fence, &c), EINVAL);
	FAILS(lab_begin(lab, fd, -EIO, 0, 0), EINVAL);
	FAILS(lab_begin(lab, fd, EIO, 1, 0), EINVAL);
	FAILS(lab_begin(lab, fd, 0, 1, 0), EINVAL);
}

TEST(fence_signals)
{
	int lab AUTO_FD = open_lab(), f AUTO_FD = CALL(lab_fence(lab));

	CHECK_EQ(status(f), 0);
	CHECK(!polls(f, POLLIN));
	CALL(lab_signal(lab, f, 0));
	CHECK(polls(f, POLLIN));
	CHECK_EQ(status(f), 1);
	FAILS(lab_signal(lab, f, -EIO), EALREADY);
	CHECK_EQ(status(f), 1);
}

TEST(fence_fails)
{
	static const int errors[] = { -EIO, -ENODEV, -ECANCELED, -4095 };
	int lab AUTO_FD = open_lab();

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		int f = CALL(lab_fence(lab));

		CALL(lab_signal(lab, f, errors[i]));
		CHECK(polls(f, POLLIN));
		CHECK_EQ(status(f), errors[i]);
		close(f);
	}
}

/* On a buffer, as a reader's and a writer's, of this exporter and another one. */
TEST(fence_on_buffers)
{
	int lab AUTO_FD = open_lab(), fd AUTO_FD = CALL(lab_buffer(lab, BYTES, 0));
	int r AUTO_FD = CALL(lab_fence(lab)), w AUTO_FD = CALL(lab_fence(lab));

	CHECK(polls(fd, POLLOUT));
	CALL(import(fd, DMA_BUF_SYNC_READ, r));
	CHECK(polls(fd, POLLIN) && !polls(fd, POLLOUT));
	CALL(import(fd, DMA_BUF_SYNC_WRITE, w));
	CHECK(!polls(fd, POLLIN));
	CALL(lab_signal(lab, w, -EIO));
	CHECK(polls(fd, POLLIN) && !polls(fd, POLLOUT));
	CALL(lab_signal(lab, r, 0));
	CHECK(polls(fd, POLLOUT));
}

/* No call waits for an owner that has gone. */
TEST(owner_closes)
{
	int lab = open_lab(), second = open_lab();
	int fd AUTO_FD = CALL(lab_buffer(lab, BYTES, 0));
	int f AUTO_FD = CALL(lab_fence(lab)), kept AUTO_FD = CALL(lab_fence(second));
	int gone = CALL(lab_fence(lab));

	CALL(import(fd, DMA_BUF_SYNC_WRITE, f));
	CALL(lab_begin(lab, fd, 0, 0, DLBUF_LAB_FOREVER));
	close(gone);
	close(lab);
	CHECK_EQ(status(f), -ECANCELED);
	CHECK_EQ(status(kept), 0);
	CALL(start(fd));
	close(second);
	CHECK_EQ(status(kept), -ECANCELED);
}

/* Zeroes, shared memory, in each mapping and in a child. */
TEST(maps)
{
	int lab AUTO_FD = open_lab(), fd = CALL(lab_buffer(lab, BYTES, 0));
	char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *q = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);

	REQUIRE(p != MAP_FAILED && q != MAP_FAILED);
	CHECK_EQ(p[0], 0);
	p[4096] = 42;
	CHECK_EQ(q[0], 42);
	CHECK(mmap(NULL, 2 * BYTES, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	CHECK_EQ(count(lab, fd).mapped, 2);
	CHECK_EQ(count(lab, fd).mmap, 3);
	munmap(q, 4096);
	CHECK_EQ(count(lab, fd).mapped, 1);
	close(fd);
	p[1] = 1;
	munmap(p, BYTES);
}

static sigjmp_buf bus;

static void on_bus(int sig)
{
	siglongjmp(bus, 1);
}

static bool faults(volatile char *p)
{
	if (sigsetjmp(bus, 1))
		return true;
	(void)*p;
	return false;
}

TEST(revoked)
{
	struct sigaction sa = { .sa_handler = on_bus };
	int lab AUTO_FD = open_lab(), fd AUTO_FD = CALL(lab_buffer(lab, BYTES, 0));
	char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	sigaction(SIGBUS, &sa, NULL);
	REQUIRE(p != MAP_FAILED);
	CHECK(!faults(p));
	CALL(lab_revoke(lab, fd));
	/* The page that was mapped, and the one that was not yet. */
	CHECK(faults(p));
	CHECK(faults(p + 4096));
	FAILS(start(fd), ENODEV);
	errno = 0;
	CHECK(mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, ENODEV);
	CALL(lab_revoke(lab, fd));
	munmap(p, BYTES);
}

KTAP_MAIN()
