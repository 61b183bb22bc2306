// SPDX-License-Identifier: MIT
/* tests/guest/module, by the kernel's calls alone: what other tests build on. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/sync_file.h>
#include <linux/videodev2.h>

#include "ktap.h"
#include "lab_module.h"
#include "vgem.h"

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
	struct dma_heap_allocation_data other = {
		.len = BYTES,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	int lab = open_lab(), fence = CALL(lab_fence(lab)), heap;
	int fd = CALL(lab_buffer(lab, 1, 0));
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
	/* Another exporter's. */
	heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
	CALL(ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &other));
	FAILS(lab_revoke(lab, other.fd), EINVAL);
	close(other.fd);
	close(heap);
	close(fence);
	close(fd);
	close(lab);
}

TEST(fence_signals)
{
	int lab = open_lab(), f = CALL(lab_fence(lab));

	CHECK_EQ(status(f), 0);
	CHECK(!polls(f, POLLIN));
	CALL(lab_signal(lab, f, 0));
	CHECK(polls(f, POLLIN));
	CHECK_EQ(status(f), 1);
	FAILS(lab_signal(lab, f, -EIO), EALREADY);
	CHECK_EQ(status(f), 1);
	close(f);
	close(lab);
}

TEST(fence_fails)
{
	static const int errors[] = { -EIO, -ENODEV, -ECANCELED, -4095 };
	int lab = open_lab();

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		int f = CALL(lab_fence(lab));

		CALL(lab_signal(lab, f, errors[i]));
		CHECK(polls(f, POLLIN));
		CHECK_EQ(status(f), errors[i]);
		close(f);
	}
	close(lab);
}

/* Both of a merged sync_file, and the error of the one. */
TEST(fences_merge)
{
	int lab = open_lab(), a = CALL(lab_fence(lab)), b = CALL(lab_fence(lab));
	struct sync_merge_data merge = { .fd2 = b };
	struct sync_file_info info = { .num_fences = 0 };

	CALL(ioctl(a, SYNC_IOC_MERGE, &merge));
	CALL(ioctl(merge.fence, SYNC_IOC_FILE_INFO, &info));
	CHECK_EQ(info.num_fences, 2);
	FAILS(lab_signal(lab, merge.fence, 0), EINVAL);
	CALL(lab_signal(lab, a, -EIO));
	CHECK(!polls(merge.fence, POLLIN));
	CALL(lab_signal(lab, b, 0));
	CHECK(polls(merge.fence, POLLIN));
	info.num_fences = 0;
	CALL(ioctl(merge.fence, SYNC_IOC_FILE_INFO, &info));
	CHECK_EQ(info.status, -EIO);
	close(merge.fence);
	close(a);
	close(b);
	close(lab);
}

/* On a buffer, as a reader's and a writer's, of this exporter and another one. */
TEST(fence_on_buffers)
{
	int lab = open_lab(), fd = CALL(lab_buffer(lab, BYTES, 0));
	int r = CALL(lab_fence(lab)), w = CALL(lab_fence(lab));

	CHECK(polls(fd, POLLOUT));
	CALL(import(fd, DMA_BUF_SYNC_READ, r));
	CHECK(polls(fd, POLLIN) && !polls(fd, POLLOUT));
	CALL(import(fd, DMA_BUF_SYNC_WRITE, w));
	CHECK(!polls(fd, POLLIN));
	CALL(lab_signal(lab, w, -EIO));
	CHECK(polls(fd, POLLIN) && !polls(fd, POLLOUT));
	CALL(lab_signal(lab, r, 0));
	CHECK(polls(fd, POLLOUT));
	close(r);
	close(w);
	close(fd);
	close(lab);
}

/* Nobody waits for an owner who has gone. */
TEST(owner_closes)
{
	int lab = open_lab(), second = open_lab();
	int fd = CALL(lab_buffer(lab, BYTES, 0));
	int f = CALL(lab_fence(lab)), kept = CALL(lab_fence(second));
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
	close(kept);
	close(f);
	close(fd);
}

TEST(begin_fails)
{
	static const int errors[] = { EAGAIN, EINTR, EIO };
	int lab = open_lab(), fd = CALL(lab_buffer(lab, BYTES, 0));

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		CALL(lab_begin(lab, fd, -errors[i], 2, 0));
		FAILS(start(fd), errors[i]);
		FAILS(start(fd), errors[i]);
		CALL(start(fd));
	}
	CALL(lab_begin(lab, fd, -EAGAIN, DLBUF_LAB_FOREVER, 0));
	for (int i = 0; i < 20; i++)
		FAILS(start(fd), EAGAIN);
	CALL(lab_begin(lab, fd, 0, 0, 0));
	CALL(start(fd));
	CALL(sync_cpu(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ));
	CHECK_EQ(count(lab, fd).begin, 30);
	CHECK_EQ(count(lab, fd).end, 1);
	CHECK_EQ(count(lab, fd).holding, 0);
	close(fd);
	close(lab);
}

static void on_signal(int sig)
{
}

struct starter {
	int fd, ret, err;
};

static void *start_it(void *arg)
{
	struct starter *s = arg;

	s->ret = start(s->fd);
	s->err = errno;
	return NULL;
}

/* Until it is let go, a signal comes, or the time is over. */
TEST(begin_holds)
{
	struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART */
	int lab = open_lab(), fd = CALL(lab_buffer(lab, BYTES, 0));
	struct starter s = { .fd = fd };
	pthread_t thread;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	sigaction(SIGUSR1, &sa, NULL);
	CALL(lab_begin(lab, fd, 0, 0, DLBUF_LAB_FOREVER));
	for (int i = 0; i < 2; i++) {
		REQUIRE(!pthread_create(&thread, NULL, start_it, &s));
		UNTIL(count(lab, fd).holding);
		if (!i)
			pthread_kill(thread, SIGUSR1);
		else
			CALL(lab_begin(lab, fd, -EIO, 1, 0));
		REQUIRE(!pthread_join(thread, NULL));
		CHECK_EQ(s.ret, -1);
		CHECK_EQ(s.err, i ? EIO : EINTR);
	}
	CALL(lab_begin(lab, fd, 0, 0, 1));
	CALL(start(fd));
	close(fd);
	close(lab);
}

/* Zeroes, shared memory, in each mapping and in a child. */
TEST(maps)
{
	int lab = open_lab(), fd = CALL(lab_buffer(lab, BYTES, 0));
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
	close(lab);
}

TEST(unmappable)
{
	int lab = open_lab(), fd = CALL(lab_buffer(lab, BYTES, DLBUF_LAB_NO_MMAP));

	errno = 0;
	CHECK(mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, EOPNOTSUPP);
	CALL(start(fd));
	close(fd);
	close(lab);
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
	int lab = open_lab(), fd = CALL(lab_buffer(lab, BYTES, 0));
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
	close(fd);
	close(lab);
}

/* vivid's node that captures: it vmaps what it is given. */
static int capture_node(void)
{
	for (int i = 0; i < 8; i++) {
		struct v4l2_capability cap;
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/video%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, VIDIOC_QUERYCAP, &cap) &&
		    cap.device_caps & V4L2_CAP_VIDEO_CAPTURE)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	SKIP("there is no vivid");
}

static int queue(int node, int fd, uint64_t bytes)
{
	struct v4l2_buffer buf = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
		.m.fd = fd,
		.length = bytes,
	};

	return ioctl(node, VIDIOC_QBUF, &buf);
}

/* The kernel's own mapping, by a driver that takes dma-bufs. */
TEST(vmaps)
{
	struct v4l2_format format = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct v4l2_requestbuffers want = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
		.count = 1,
	};
	int lab = open_lab(), node = capture_node(), fd;
	uint64_t bytes;

	CALL(ioctl(node, VIDIOC_G_FMT, &format));
	CALL(ioctl(node, VIDIOC_REQBUFS, &want));
	bytes = format.fmt.pix.sizeimage;
	fd = CALL(lab_buffer(lab, bytes, DLBUF_LAB_NO_VMAP));
	CHECK_EQ(queue(node, fd, bytes), -1);
	CHECK_EQ(count(lab, fd).vmap, 1);
	close(fd);
	fd = CALL(lab_buffer(lab, bytes, 0));
	CALL(queue(node, fd, bytes));
	CHECK_EQ(count(lab, fd).vmap, 1);
	want.count = 0;
	CALL(ioctl(node, VIDIOC_REQBUFS, &want));
	CHECK_EQ(count(lab, fd).vunmap, 1);
	CALL(lab_revoke(lab, fd));
	want.count = 1;
	CALL(ioctl(node, VIDIOC_REQBUFS, &want));
	CHECK_EQ(queue(node, fd, bytes), -1);
	close(fd);
	close(node);
	close(lab);
}

/* A driver that maps it for its device. */
TEST(maps_for_devices)
{
	int lab = open_lab(), drm = vgem_open(), fd;
	struct vgem_prime_handle prime = { .handle = 0 };

	if (drm < 0)
		SKIP("there is no vgem");
	fd = prime.fd = CALL(lab_buffer(lab, BYTES, DLBUF_LAB_NO_MAP));
	FAILS(ioctl(drm, VGEM_PRIME_FD_TO_HANDLE, &prime), EOPNOTSUPP);
	close(fd);
	fd = prime.fd = CALL(lab_buffer(lab, BYTES, 0));
	CALL(ioctl(drm, VGEM_PRIME_FD_TO_HANDLE, &prime));
	CHECK_EQ(count(lab, fd).map, 1);
	close(drm);
	CHECK_EQ(count(lab, fd).unmap, 1);
	close(fd);
	close(lab);
}

KTAP_MAIN()
