// SPDX-License-Identifier: MIT
/* Acquire and release: states, the cases of `dmabuf-test fence`, and the CPU's bracket. */
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "../tools/dmabuf-test/fence/call.h"
#include "../tools/dmabuf-test/fence/fence.h"
#include "cts.h"
#include "dmabuf/fence.h"

#define BYTES 4096

const struct access *access_find(const char *device)
{
	return cts_access;
}

static void states(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), fence = -2;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = cts_import(dev, fd, BYTES);
	DLManagedTensorVersioned *u AUTO_TENSOR = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_device_info, dinfo);

	CHECK_ERR(dlbuf_release(t, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire(t, 0, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire(t, 4, NULL, NULL), -EINVAL);
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
	CHECK_EQ(info.acquired, DLBUF_READ);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), -EBUSY);
	/* Another tensor over the same buffer is another access. */
	CHECK_EQ(dlbuf_tensor_share(t, NULL, &u), 0);
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
}

static void streams(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), x;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = cts_import(dev, fd, BYTES);

	if (t->dl_tensor.device.device_type != kDLCPU) {
		SKIP("only the CPU has no streams");
	}
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, &x, NULL), -EINVAL);
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_ERR(dlbuf_release(t, &x, NULL), -EINVAL);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
}

/* ---- a thread that is cancelled */

struct cancelled {
	int fd, socks[2];
	bool no_sync_file, ended;
};

/* close() is a cancellation point. */
static void shut(int fd)
{
	syscall(SYS_close, fd);
}

/* Each call that waits, closes, opens or calls a driver, with a cancellation pending. */
static void *goes_on(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_pool_opts, pool_opts, .width = 64, .height = 48,
		   .code = 0x3231564e, .code_space = DLBUF_CODE_V4L2,
		   .buffers = 2);
	DLManagedTensorVersioned *t, *u, *got[DLBUF_MAX_PLANES];
	int64_t shape[] = { BYTES };
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			    .shape = shape };
	struct cancelled *c = arg;
	struct dlbuf_device *dev;
	struct dlbuf_pool *pool;
	int fence = -1, fd, status;
	uint32_t n = 0;

	pthread_cancel(pthread_self());
	CHECK_OK(dlbuf_device_open(cts_device, NULL, &dev));
	CHECK_OK(dlbuf_import(dev, c->fd, &layout, NULL, &t));
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, &past));
	CHECK_OK(dlbuf_release(t, NULL, &fence));
	CHECK_OK(dlbuf_fence_wait(fence, 0));
	CHECK_OK(dlbuf_fence_status(fence, &status));
	if (fence != -1)
		shut(fence);
	if (!c->no_sync_file) {
		CHECK_OK(dlbuf_fence_export(c->fd, DLBUF_WRITE, &fence));
		CHECK_OK(dlbuf_fence_wait(fence, 0));
		shut(fence);
	}
	CHECK_OK(dlbuf_tensor_share(t, NULL, &u));
	CHECK_OK(dlbuf_acquire_all((DLManagedTensorVersioned *[]){ t, u }, 2,
				   DLBUF_WRITE, NULL, &past));
	CHECK_OK(dlbuf_release_all(&t, 1, NULL, NULL));
	u->deleter(u);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_OK(dlbuf_pending(t, DLBUF_WRITE, &fence));
	if (fence != -1)
		shut(fence);
	CHECK_OK(dlbuf_send(c->socks[0], &t, 1, NULL));
	CHECK_OK(dlbuf_recv(dev, c->socks[1], NULL, got, &n, NULL));
	CHECK_EQ(n, 1);
	got[0]->deleter(got[0]);
	t->deleter(t);
	CHECK_OK(dlbuf_alloc(&dev, 1, &layout, NULL, &t));
	t->deleter(t);
	CHECK_OK(dlbuf_alloc_fd(BYTES, &(struct dlbuf_alloc_opts){
		.size = sizeof(struct dlbuf_alloc_opts), .exporter = "udmabuf",
	}, &fd));
	CHECK_OK(dlbuf_device_forget(dev, fd));
	shut(fd);
	CHECK_OK(dlbuf_pool_create(&dev, 1, &pool_opts, &pool));
	dlbuf_pool_destroy(pool);
	dlbuf_device_trim(dev, 0);
	dlbuf_device_close(dev);
	c->ended = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled(void *arg)
{
	struct cancelled c = { .fd = cts_alloc("udmabuf", BYTES) };
	unsigned int fds;
	pthread_t thread;
	void *how;

	cts_need_cancel();
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack, drivers theirs");
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, c.socks));
	c.no_sync_file = cts_no_sync_file(c.fd);
	/* Drivers keep the files open that they open for the first device. */
	dlbuf_device_close(cts_open());
	fds = cts_count_fds();
	REQUIRE(!pthread_create(&thread, NULL, goes_on, &c));
	REQUIRE(!pthread_join(thread, &how));
	CHECK(how == PTHREAD_CANCELED);
	CHECK(c.ended);
	cts_until_fds(fds);
	close(c.socks[0]);
	close(c.socks[1]);
	close(c.fd);
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
static void brackets(void *arg)
{
	static const uint64_t want[] = {
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW,
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE,
	};
	struct bracket b = { .fd = -1 };

	if (strcmp(cts_access->backend, "cpu"))
		SKIP("the bracket is the CPU's");
	b.fd = cts_alloc("udmabuf", BYTES);
	cts_check_brackets(bracket_before, bracket_traced, &b, want);
	close(b.fd);
}

/* ---- real fences */

static enum dlbuf_sync acquire_of(struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_info, info);

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	return info.acquire;
}

static bool polls(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) == 1 && p.revents & events;
}

static void noted(void *data, const char *line)
{
	ktap_note(NULL, 0, "%s", line);
}

/*
 * The cases of `dmabuf-test fence`. Those of one function share a process and a device, because
 * drivers take long to open; the first one's name is the name of all.
 */
static void fence_rows(void *arg)
{
	const struct fence_case *first = arg;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct fence_run r = { .lent = fd, .dev = dev, .info.size = sizeof(r.info),
			       .note = noted };
	char reason[sizeof(r.reason)] = "";

	/* Less than the ten seconds after which vgem's fences signal by themselves. */
	ktap_lasts(9500000000);
	REQUIRE_OK(dlbuf_device_get_info(dev, &r.info));
	for (const struct fence_case *c = first; c < fence_cases + fence_ncases; c++) {
		if (c->fn != first->fn)
			continue;
		fence_case_run(&r, c);
		CHECK_MSG(!r.failures, "%s", c->name);
		if (r.skipped && !reason[0])
			strcpy(reason, r.reason);
	}
	if (reason[0])
		SKIP("%s", reason);
}

/* Wrong fds: neither fence nor dma-buf. None ends an access or begins one. */
static void refused(void *arg)
{
	struct cts_fence f AUTO_FENCE;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), fence = -2, status = -2;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = cts_import(dev, fd, BYTES);
	DLBUF_OPTS(dlbuf_acquire_opts, opts);
	DLBUF_INFO(dlbuf_tensor_info, info);

	cts_fence_create(&f);
	CHECK_OK(dlbuf_fence_merge(-1, f.sync_file, &fence));
	CHECK(fence >= 3 && fcntl(fence, F_GETFD) & FD_CLOEXEC && !polls(fence, POLLIN));
	close(fence);
	CHECK_OK(dlbuf_fence_merge(-1, -1, &fence));
	CHECK_EQ(fence, -1);
	CHECK_OK(dlbuf_fence_wait(-1, 1));
	CHECK_OK(dlbuf_fence_status(-1, &status));
	CHECK_EQ(status, 1);

	fence = -7;
	CHECK_ERR(dlbuf_fence_merge(fd, f.sync_file, &fence), -EINVAL);
	CHECK_ERR(dlbuf_fence_merge(f.sync_file, fd, &fence), -EINVAL);
	CHECK_ERR(dlbuf_fence_merge(f.sync_file, 4711, &fence), -EBADF);
	CHECK_ERR(dlbuf_fence_merge(f.sync_file, -5, &fence), -EBADF);
	CHECK_ERR(dlbuf_fence_export(f.sync_file, DLBUF_READ, &fence), -EBADF);
	CHECK_ERR(dlbuf_fence_export(fd, 0, &fence), -EINVAL);
	CHECK_ERR(dlbuf_fence_wait(4711, 0), -EBADF);
	CHECK_ERR(dlbuf_fence_import(f.sync_file, DLBUF_READ, f.sync_file), -EBADF);
	CHECK_ERR_SAYS(dlbuf_fence_import(fd, DLBUF_WRITE, -5), -EBADF, "fd -5 is not open");
	CHECK_ERR(dlbuf_fence_import(fd, DLBUF_WRITE, 4711), -EBADF);
	CHECK_ERR_SAYS(dlbuf_fence_import(fd, DLBUF_READ, fd), -EINVAL, "not a sync_file");
	CHECK_EQ(fence, -7);
	for (int i = 0; i < 2; i++) {
		opts.fence = i ? 4711 : -5;
		CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, &opts), -EBADF);
		CHECK_OK(dlbuf_tensor_get_info(t, &info));
		CHECK_EQ(info.acquired, 0);
	}
	if (acquire_of(dev) != DLBUF_SYNC_FENCE) {
		CHECK_ERR(dlbuf_acquire_fence(t, DLBUF_READ, &fence), -EOPNOTSUPP);
		CHECK_ERR(dlbuf_release_fence(t, -1), -EOPNOTSUPP);
		CHECK_EQ(fence, -7);
		return;
	}
	REQUIRE_OK(dlbuf_acquire_fence(t, DLBUF_READ, &fence));
	CHECK_EQ(fence, -1);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), -EBUSY);
	CHECK_ERR(dlbuf_release_fence(t, -5), -EBADF);
	CHECK_ERR(dlbuf_release_fence(t, fd), -EINVAL);
	CHECK_OK(dlbuf_release_fence(t, f.sync_file));
	CHECK_ERR(dlbuf_release_fence(t, f.sync_file), -EINVAL);
}

/* Another process, which has fds for that, signals when this thread sleeps. */
static pid_t signal_later(struct cts_fence *a, struct cts_fence *b)
{
	const pid_t waiter = syscall(SYS_gettid);
	const bool over = false;
	pid_t child = fork();

	if (child)
		return child;
	cts_until_asleep(&waiter, &over);
	cts_fence_signal(a);
	cts_fence_signal(b);
	_exit(0);
}

/*
 * With each number of free fds: where the device gets no fd for its wait, the thread waits.
 * It waits for a fence of the buffer and for the caller's, for one tensor or for two.
 */
static void fence_with_few_fds(void *arg)
{
	const size_t n = *(const size_t *)arg;
	int fds[2] = { cts_alloc("udmabuf", BYTES), cts_alloc("udmabuf", BYTES) };
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[] = { cts_import(dev, fds[0], BYTES),
					  cts_import(dev, fds[1], BYTES) };
	DLBUF_OPTS(dlbuf_acquire_opts, opts);
	struct rlimit all, few;
	int last;

	REQUIRE(!getrlimit(RLIMIT_NOFILE, &all));
	for (unsigned int left = 0; left < 16; left++) {
		struct cts_fence a, b;
		pid_t child;

		cts_fence_create(&a);
		cts_fence_create(&b);
		for (size_t i = 0; i < n; i++)
			CHECK_OK(dlbuf_fence_import(fds[i], DLBUF_WRITE, a.sync_file));
		opts.fence = b.sync_file;
		child = signal_later(&a, &b);
		REQUIRE(child > 0);
		last = dup(0);
		close(last);
		few = (struct rlimit){ .rlim_cur = last + left, .rlim_max = all.rlim_max };
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
		if (n == 1)
			CHECK_OK(dlbuf_acquire(t[0], DLBUF_READ, NULL, &opts));
		else
			CHECK_OK(dlbuf_acquire_all(t, n, DLBUF_READ, NULL, &opts));
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &all));
		CHECK_EQ(waitpid(child, NULL, 0), child);
		CHECK_OK(dlbuf_release_all(t, n, NULL, NULL));
		cts_fence_destroy(&a);
		cts_fence_destroy(&b);
	}
	for (size_t i = 0; i < 2; i++) {
		cts_delete(t[i]);
		close(fds[i]);
	}
}

/* ---- kernels without the ioctls */

/* From here on this process's kernel has not got them. */
static void hide_ioctls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[1]) +
			 (__BYTE_ORDER == __BIG_ENDIAN ? 4 : 0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 (uint32_t)DMA_BUF_IOCTL_EXPORT_SYNC_FILE, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 (uint32_t)DMA_BUF_IOCTL_IMPORT_SYNC_FILE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	cts_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

/* A missing capability has an error text, and does not prevent an access. */
static void works_without(struct dlbuf_device *dev, DLManagedTensorVersioned *t,
			  int fd)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	static const uint32_t accesses[] = { DLBUF_READ, DLBUF_WRITE, DLBUF_RW };
	int fence = -2;

	CHECK_ERR(dlbuf_fence_export(fd, DLBUF_READ, &fence), -EOPNOTSUPP);
	CHECK_EQ(fence, -2);
	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
		CHECK_OK(dlbuf_acquire(t, accesses[i], NULL, NULL));
		CHECK_OK(dlbuf_release(t, NULL, NULL));
		CHECK_OK(dlbuf_acquire(t, accesses[i], NULL, &past));
		CHECK_OK(dlbuf_release(t, NULL, NULL));
	}
	if (acquire_of(dev) != DLBUF_SYNC_FENCE)
		return;
	CHECK_OK(dlbuf_acquire_fence(t, DLBUF_READ, &fence));
	CHECK_EQ(fence, -1);
	CHECK_OK(dlbuf_release_fence(t, -1));
}

static void idle_without_ioctls(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = cts_import(dev, fd, BYTES);

	if (!cts_no_sync_file(fd))
		hide_ioctls();
	works_without(dev, t, fd);
}

static int acquire_to_write(struct call *c)
{
	return dlbuf_acquire(c->data, DLBUF_WRITE, NULL, NULL);
}

/* A thread that has to wait polls the dma-buf, and never longer than the timeout. */
static void pending_without_ioctls(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_acquire_opts, soon, .deadline_ns = 0);
	struct cts_fence f;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	struct call write = { .fn = acquire_to_write, .data = t };
	DLBUF_INFO(dlbuf_tensor_info, info);
	int later;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	cts_fence_create(&f);
	CHECK_OK(dlbuf_fence_import(fd, DLBUF_READ, f.sync_file));
	hide_ioctls();
	CHECK_ERR(dlbuf_fence_import(fd, DLBUF_READ, f.sync_file), -EOPNOTSUPP);
	/* A reader's fence: readers go, writers wait. */
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, &past));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK_ERR(dlbuf_acquire(t, DLBUF_WRITE, NULL, &past), -ETIME);
	soon.deadline_ns = now_ns() + 20000000;
	CHECK_ERR(dlbuf_acquire(t, DLBUF_RW, NULL, &soon), -ETIME);
	CHECK(now_ns() >= soon.deadline_ns);
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_EQ(info.acquired, 0);
	CHECK_OK(dlbuf_pending(t, DLBUF_READ, &later));
	CHECK_EQ(later, -1);
	CHECK_OK(dlbuf_pending(t, DLBUF_WRITE, &later));
	CHECK(later >= 3 && !polls(later, POLLIN));
	REQUIRE(!call_start(&write));
	cts_until_polls(&write.tid, &write.done);
	CHECK(!call_done(&write));
	cts_fence_signal(&f);
	CHECK_EQ(pthread_join(write.thread, NULL), 0);
	CHECK_EQ(write.ret, 0);
	CHECK_OK(dlbuf_fence_wait(later, 0));
	close(later);
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	works_without(dev, t, fd);
	cts_fence_destroy(&f);
	cts_delete(t);
}

/* ---- release */

/* The dma-buf has the kind of fence that dlbuf_device_info.release promises. */
static void fence_out(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), fence = -2;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = cts_import(dev, fd, BYTES);
	uint32_t value = 42, got = 0;

	CHECK_OK(dlbuf_acquire(t, DLBUF_RW, NULL, NULL));
	CHECK_EQ(cts_access->write(t, 0, &value, sizeof(value)), 0);
	CHECK_OK(dlbuf_release(t, NULL, &fence));
	CHECK(fence == -1 || fence >= 3);
	CHECK_OK(dlbuf_fence_wait(fence, now_ns() + 60000000000));
	/* The kernel's own bracket waits for it, if need be. */
	cts_peek(fd, 0, &got, sizeof(got));
	CHECK_EQ(got, value);
	if (fence >= 0)
		close(fence);
}

void cts_cases_sync(void)
{
	static const size_t counts[] = { 1, 2 };

	ktap_case("sync/states", states, NULL);
	ktap_case("sync/streams", streams, NULL);
	ktap_case("sync/cancelled", cancelled, NULL);
	ktap_case("sync/bracket", brackets, NULL);
	for (unsigned int i = 0; i < fence_ncases; i++)
		if (!i || fence_cases[i].fn != fence_cases[i - 1].fn)
			ktap_case(cts_name("sync/fence/%s", fence_cases[i].name), fence_rows,
				  (void *)&fence_cases[i]);
	ktap_case("sync/refused", refused, NULL);
	ktap_case("sync/few-fds/acquire", fence_with_few_fds, (void *)&counts[0]);
	ktap_case("sync/few-fds/acquire-all", fence_with_few_fds, (void *)&counts[1]);
	ktap_case("sync/no-ioctls/idle", idle_without_ioctls, NULL);
	ktap_case("sync/no-ioctls/pending", pending_without_ioctls, NULL);
	ktap_case("sync/fence-out", fence_out, NULL);
}
