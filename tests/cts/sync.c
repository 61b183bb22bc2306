// SPDX-License-Identifier: MIT
/* Acquire and release: states, real fences, and the CPU's bracket. */
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "cts.h"

#define BYTES 4096

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void states(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES), fence = -2;
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES), *u = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_device_info, dinfo);

	(void)arg;
	CHECK_ERR(dlbuf_release(t, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire(t, 0, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire(t, 4, NULL, NULL), -EINVAL);
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
	CHECK_EQ(info.acquired, DLBUF_READ);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), -EBUSY);
	/* Another tensor over the same buffer is another access. */
	CHECK_EQ(dlbuf_tensor_share(t, &u), 0);
	CHECK_EQ(dlbuf_acquire(u, DLBUF_RW, NULL, NULL), 0);
	CHECK_EQ(dlbuf_release(u, NULL, NULL), 0);
	CHECK_EQ(dlbuf_release(t, NULL, &fence), 0);
	CHECK_EQ(dlbuf_device_get_info(dev, &dinfo), 0);
	if (dinfo.release == DLBUF_SYNC_BLOCKS)
		CHECK_EQ(fence, -1);
	else if (fence >= 0)
		close(fence);
	CHECK_ERR(dlbuf_release(t, NULL, NULL), -EINVAL);
	CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
	CHECK_EQ(info.acquired, 0);
	/* Left acquired: deletion releases. */
	CHECK_EQ(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL), 0);
	cts_delete(t);
	cts_delete(u);
	dlbuf_device_close(dev);
	close(fd);
}

static void streams(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES), x;
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);

	(void)arg;
	if (t->dl_tensor.device.device_type != kDLCPU) {
		cts_delete(t);
		dlbuf_device_close(dev);
		close(fd);
		SKIP("only the CPU has no streams");
	}
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, &x, NULL), -EINVAL);
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_ERR(dlbuf_release(t, &x, NULL), -EINVAL);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
	cts_delete(t);
	dlbuf_device_close(dev);
	close(fd);
}

/* ---- the bracket */

struct bracket {
	struct dlbuf_device *dev;
	int fd;
	DLManagedTensorVersioned *t;
};

static void bracket_before(void *arg)
{
	struct bracket *b = arg;

	b->dev = cts_open();
	b->t = cts_import(b->dev, b->fd, BYTES);
}

static void bracket_traced(void *arg)
{
	struct bracket *b = arg;

	dlbuf_acquire(b->t, DLBUF_READ, NULL, NULL);
	dlbuf_release(b->t, NULL, NULL);
	dlbuf_acquire(b->t, DLBUF_RW, NULL, NULL);
	dlbuf_release(b->t, NULL, NULL);
	dlbuf_acquire(b->t, DLBUF_WRITE, NULL, NULL);
	b->t->deleter(b->t);
}

/* The CPU's accesses are bracketed, each START with the END of its kind. */
static void bracket(void *arg)
{
	static const uint64_t want[] = {
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW,
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE,
	};
	struct cts_syscall calls[64];
	struct bracket b = { .fd = -1 };
	int n, found = 0;

	(void)arg;
	if (strcmp(cts_access->backend, "cpu"))
		SKIP("the bracket is the CPU's");
	b.fd = cts_alloc("udmabuf", BYTES);
	n = cts_trace(bracket_before, bracket_traced, &b, calls, 64);
	if (n < 0)
		SKIP("this system does not let a child be traced");
	CHECK(n <= 64);
	for (int i = 0; i < n && i < 64; i++) {
		if (calls[i].nr != SYS_ioctl ||
		    calls[i].args[1] != DMA_BUF_IOCTL_SYNC)
			continue;
		if (found < 6)
			CHECK_EQ(calls[i].value, want[found]);
		found++;
	}
	CHECK_EQ(found, 6);
	close(b.fd);
}

/* ---- real fences */

struct fence_state {
	uint32_t fence;		/* the fence on the buffer: read or write */
	uint32_t access;	/* what is acquired */
	bool blocks;		/* before the signal */
};

static const struct fence_state fence_states[] = {
	{ DLBUF_READ, DLBUF_READ, false },
	{ DLBUF_READ, DLBUF_WRITE, true },
	{ DLBUF_READ, DLBUF_RW, true },
	{ DLBUF_WRITE, DLBUF_READ, true },
	{ DLBUF_WRITE, DLBUF_WRITE, true },
	{ DLBUF_WRITE, DLBUF_RW, true },
};

/* A reader waits for writers, a writer for everybody, up to the deadline. */
static void fences(void *arg)
{
	const struct fence_state *s = arg;
	struct cts_fence f;
	int fd = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_acquire_opts, soon, .deadline_ns = 0);
	DLBUF_INFO(dlbuf_tensor_info, info);

	cts_fence_create(&f);
	cts_fence_attach(&f, fd, s->fence);
	soon.deadline_ns = now() + 20000000;
	if (s->blocks) {
		CHECK_ERR(dlbuf_acquire(t, s->access, NULL, &past), -ETIME);
		CHECK_ERR(dlbuf_acquire(t, s->access, NULL, &soon), -ETIME);
		CHECK(now() >= soon.deadline_ns);
		CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
		CHECK_EQ(info.acquired, 0);
	} else {
		CHECK_EQ(dlbuf_acquire(t, s->access, NULL, &past), 0);
		CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
	}
	cts_fence_signal(&f);
	CHECK_EQ(dlbuf_acquire(t, s->access, NULL, &past), 0);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
	cts_fence_destroy(&f);
	cts_delete(t);
	dlbuf_device_close(dev);
	close(fd);
}

struct waiter {
	DLManagedTensorVersioned *t;
	bool acquired;
	int ret;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	w->ret = dlbuf_acquire(w->t, DLBUF_READ, NULL, NULL);
	__atomic_store_n(&w->acquired, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Without a deadline it waits for the producer and no longer. */
static void waits(void *arg)
{
	struct cts_fence f;
	int fd = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	struct waiter w = { .t = cts_import(dev, fd, BYTES), .ret = 1 };
	struct dma_buf_export_sync_file export = {
		.flags = DMA_BUF_SYNC_READ,
	};
	pthread_t thread;

	(void)arg;
	cts_fence_create(&f);
	cts_fence_attach(&f, fd, DLBUF_WRITE);
	CHECK_EQ(ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export), 0);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_it, &w), 0);
	/* It cannot be through: the fence is not signalled. */
	for (int i = 0; i < 100; i++)
		sched_yield();
	CHECK(!__atomic_load_n(&w.acquired, __ATOMIC_ACQUIRE));
	cts_fence_signal(&f);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.ret, 0);
	CHECK_EQ(dlbuf_release(w.t, NULL, NULL), 0);
	close(export.fd);
	cts_fence_destroy(&f);
	cts_delete(w.t);
	dlbuf_device_close(dev);
	close(fd);
}

void cts_cases_sync(void)
{
	static const char *const names[] = { "", "read", "write", "rw" };

	ktap_case("sync/states", states, NULL);
	ktap_case("sync/streams", streams, NULL);
	ktap_case("sync/bracket", bracket, NULL);
	for (size_t i = 0; i < sizeof(fence_states) / sizeof(fence_states[0]);
	     i++)
		ktap_case(cts_name("sync/fence-%s/acquire-%s",
				   names[fence_states[i].fence],
				   names[fence_states[i].access]),
			  fences, (void *)&fence_states[i]);
	ktap_case("sync/waits", waits, NULL);
}
