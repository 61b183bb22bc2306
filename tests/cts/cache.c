// SPDX-License-Identifier: MIT
/* Buffers seen before: found by identity, bounded, given up in order. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cts.h"

static struct dlbuf_device *open_with(uint32_t max_idle, uint64_t max_bytes)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .cache_max_idle = max_idle,
		   .cache_max_bytes = max_bytes);
	struct dlbuf_device *dev = NULL;

	int ret = dlbuf_device_open(cts_device, &opts, &dev);

	if (ret == -EOPNOTSUPP || ret == -ENODEV)
		ABSENT("%s", dlbuf_last_error());
	if (ret)
		FATAL("%s", dlbuf_last_error());
	return dev;
}

static void hit(void *arg)
{
	int fd = cts_alloc("udmabuf", 4096), dup AUTO_FD = -1;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, 4096), *u;
	void *data = t->dl_tensor.data;
	struct dlbuf_device_stats s;

	/* While a tensor lives, after it, and by another fd of the buffer. */
	u = cts_import(dev, fd, 4096);
	CHECK(u->dl_tensor.data == data);
	cts_delete(u);
	cts_delete(t);
	s = cts_stats(dev);
	CHECK_EQ(s.live, 0);
	CHECK_EQ(s.idle, 1);
	CHECK_EQ(s.idle_bytes, 4096);
	CHECK_EQ(s.tensors, 0);
	dup = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	t = cts_import(dev, dup, 4096);
	CHECK(t->dl_tensor.data == data);
	s = cts_stats(dev);
	CHECK_EQ(s.misses, 1);
	CHECK_EQ(s.hits, 2);
	CHECK_EQ(s.live, 1);
	CHECK_EQ(s.idle, 0);
	CHECK_EQ(s.live_bytes, 4096);
	CHECK_EQ(s.tensors, 1);
	cts_delete(t);
}

/*
 * The bound that dlbuf/tensor.h promises. Counts acquire and release only on the
 * CPU, because other drivers allocate, too.
 */
static void allocations(void *arg)
{
	static const struct {
		uint32_t code, view, n;
	} frames[] = {
		{ DLBUF_FOURCC('R', '8', ' ', ' '), DLBUF_VIEW_PLANES, 1 },
		{ DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_VIEW_PLANES, 2 },
		{ DLBUF_FOURCC('Y', 'U', '1', '2'), DLBUF_VIEW_PLANES, 3 },
		{ DLBUF_FOURCC('A', 'R', '2', '4'), DLBUF_VIEW_COMPONENTS, 4 },
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL }, *u = NULL;
	int fd AUTO_FD = cts_alloc("udmabuf", 16384);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_lease *lease = NULL;
	int64_t shape = 4096;
	const DLTensor layout = LAYOUT8(1, &shape);
	DLManagedTensor *old = NULL;
	uint32_t n = 0;

	cts_delete(cts_import(dev, fd, 16384));
	CHECK_EQ(KTAP_ALLOCS(dlbuf_import(dev, fd, &layout, NULL, t)), 1);
	CHECK_EQ(KTAP_ALLOCS(dlbuf_tensor_share(t[0], NULL, &u)), 1);
	CHECK_EQ(KTAP_ALLOCS(dlbuf_tensor_share_legacy(t[0], &old)), 1);
	cts_delete(u);
	CHECK_EQ(KTAP_ALLOCS(dlbuf_tensor_share(t[0], &layout, &u)), 1);
	if (!strcmp(cts_access->backend, "cpu")) {
		CHECK_EQ(KTAP_ALLOCS(dlbuf_acquire(u, DLBUF_RW, NULL, NULL)), 0);
		CHECK_EQ(KTAP_ALLOCS(dlbuf_release(u, NULL, NULL)), 0);
	}
	cts_delete(t[0]);
	cts_delete(u);
	old->deleter(old);
	CHECK_EQ(KTAP_ALLOCS(dlbuf_lease_create(free, NULL, &lease)), 1);
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		DLBUF_OPTS(dlbuf_import_opts, opts, .view = frames[i].view);
		struct dlbuf_frame f = PICTURE(32, 32, frames[i].code,
			DLBUF_CODE_LIBCAMERA, 1,
			.planes = { { .fd = fd, .pitch = 128 } }, .lease = lease);

		/* A device's first frame makes the room that keeps layouts. */
		CHECK_EQ(KTAP_ALLOCS(dlbuf_import_frame(dev, &f, &opts, t, &n)), i ? 1 : 2);
		CHECK_EQ(n, frames[i].n);
		while (n)
			cts_delete(t[--n]);
	}
	dlbuf_lease_drop(lease);
}

/* A number that now means another buffer is another buffer. */
static void fd_number_reused(void *arg)
{
	int fd = cts_alloc("udmabuf", 4096), other AUTO_FD = -1;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, 4096);
	unsigned char a[64], b[64], got[64];

	cts_pattern(a, sizeof(a), 1);
	cts_pattern(b, sizeof(b), 2);
	cts_poke(fd, 0, a, sizeof(a));
	cts_delete(t); /* stays in the cache */
	other = cts_reuse(fd, "udmabuf", 4096);
	cts_poke(other, 0, b, sizeof(b));
	t = cts_import(dev, other, 4096);
	cts_read(t, 0, got, sizeof(got));
	CHECK(!memcmp(got, b, sizeof(got)));
	CHECK_EQ(cts_stats(dev).misses, 2);
	cts_delete(t);
}

static void trim(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *live;
	int fds[4];
	unsigned int before;

	for (int i = 0; i < 4; i++)
		fds[i] = cts_alloc("udmabuf", 4096);
	live = cts_import(dev, fds[3], 4096);
	before = cts_count_fds();
	for (int i = 0; i < 3; i++)
		cts_delete(cts_import(dev, fds[i], 4096));
	CHECK(cts_count_fds() > before);
	dlbuf_device_trim(dev, 1);
	CHECK_EQ(cts_stats(dev).idle, 1);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_stats(dev).idle, 0);
	CHECK_EQ(cts_stats(dev).live, 1);
	CHECK_EQ(cts_count_fds(), before);
	cts_delete(live);
	dlbuf_device_trim(NULL, 0);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

/* ---- cost */

struct cost {
	struct dlbuf_device *dev;
	int fd;
};

static void first_import(void *arg)
{
	struct cost *c = arg;

	c->dev = cts_open();
	cts_delete(cts_import(c->dev, c->fd, 4096));
}

static void second_import(void *arg)
{
	struct cost *c = arg;

	cts_delete(cts_import(c->dev, c->fd, 4096));
}

/* The number is worth a guess by now, and then means another buffer. */
static void wrong_guess(void *arg)
{
	struct cost *c = arg;

	c->dev = cts_open();
	for (int i = 0; i < 3; i++)
		cts_delete(cts_import(c->dev, c->fd, 4096));
	c->fd = cts_reuse(c->fd, "udmabuf", 4096);
	cts_delete(cts_import(c->dev, c->fd, 4096));
}

/* At most two system calls, on every backend, also after a wrong guess. */
static void costs(void *arg)
{
	struct cost c = { .fd = cts_alloc("udmabuf", 4096) };
	struct cts_syscall calls[16];
	int n = cts_trace(arg ? wrong_guess : first_import, second_import, &c,
			  calls, 16);

	if (n < 0)
		SKIP("this system does not let a child be traced");
	for (int i = 0; i < n && i < 16; i++)
		ktap_note(NULL, 0, "system call %ld", calls[i].nr);
	CHECK(n >= 1);
	CHECK(n <= 2);
	close(c.fd);
}

/*
 * A number in turn one buffer, the same buffer opened for reading only, and
 * another buffer: never the wrong bytes, never more access than the fd has.
 */
static void number_changes_hands(void *arg)
{
	DLBUF_OPTS(dlbuf_import_opts, ro, .access = DLBUF_READ);
	int a AUTO_FD = cts_alloc("udmabuf", 4096);
	int b AUTO_FD = cts_alloc("udmabuf", 4096);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape = 4096;
	DLTensor layout = LAYOUT8(1, &shape);
	uint32_t in[2] = { 0xaaaa, 0xbbbb }, got;
	int fd AUTO_FD = fcntl(a, F_DUPFD_CLOEXEC, 3);

	cts_poke(a, 0, &in[0], sizeof(in[0]));
	cts_poke(b, 0, &in[1], sizeof(in[1]));
	for (int i = 0; i < 60; i++) {
		bool second = i / 4 % 2;
		DLManagedTensorVersioned *t = NULL;

		if (i % 4 == 0)
			CHECK_EQ(dup3(second ? b : a, fd, O_CLOEXEC), fd);
		REQUIRE_OK(dlbuf_import(dev, fd, &layout,
					i % 3 ? NULL : &ro, &t));
		CHECK_EQ(!(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY), i % 3 > 0);
		got = 0;
		cts_read(t, 0, &got, sizeof(got));
		CHECK_EQ(got, in[second]);
		cts_delete(t);
	}
	CHECK_EQ(cts_stats(dev).misses, 4);
}

/* ---- threads */

struct shared {
	struct dlbuf_device *dev;
	int fds[4];
	int failures;
};

static void *importer(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; i < 400; i++) {
		int64_t shape = 4096;
		DLTensor layout = LAYOUT8(1, &shape);
		DLManagedTensorVersioned *t, *u;

		if (dlbuf_import(s->dev, s->fds[i % 4], &layout, NULL, &t) ||
		    dlbuf_tensor_share(t, NULL, &u)) {
			__atomic_add_fetch(&s->failures, 1, __ATOMIC_RELAXED);
			continue;
		}
		t->deleter(t);
		if (i % 50 == 0)
			dlbuf_device_trim(s->dev, 1);
		u->deleter(u);
	}
	return NULL;
}

static void threads(void *arg)
{
	struct shared s = { .dev = open_with(2, 0) };
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		s.fds[i] = cts_alloc("udmabuf", 4096);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, importer, &s), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK_EQ(s.failures, 0);
	CHECK_EQ(cts_stats(s.dev).live, 0);
	CHECK_EQ(cts_stats(s.dev).tensors, 0);
	CHECK(cts_stats(s.dev).idle <= 2);
	for (int i = 0; i < 4; i++)
		close(s.fds[i]);
	dlbuf_device_close(s.dev);
}

/* Buffers that come once and never again: import, delete, close. */
static void pass_by(struct dlbuf_device *dev, int n, uint64_t bytes)
{
	for (int i = 0; i < n; i++) {
		int fd AUTO_FD = cts_alloc("udmabuf", bytes);

		cts_delete(cts_import(dev, fd, bytes));
	}
}

static void memory(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = open_with(0, 1 << 20);

	pass_by(dev, 8, 300 << 10);
	CHECK_EQ(cts_stats(dev).idle, 3);
	CHECK_EQ(cts_stats(dev).evictions, 5);
}

/* Idle imports do not use up the process's fds, with the default limit and with another one. */
static void few_fds(void *arg)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	DLBUF_OPTS(dlbuf_import_opts, may_copy,
		   .flags = DLBUF_IMPORT_MAY_COPY);
	int64_t shape = 4096;
	DLTensor layout = LAYOUT8(1, &shape);
	int next = cts_alloc("udmabuf", 4096);
	unsigned int spare = next + 20;
	struct rlimit files, few;

	close(next);
	REQUIRE(!getrlimit(RLIMIT_NOFILE, &files));
	for (int asked = 0; asked < 2; asked++) {
		struct dlbuf_device *dev = open_with(asked ? 500 : 0, 0);
		DLManagedTensorVersioned *t = NULL;

		few = (struct rlimit){ spare, files.rlim_max };
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
		for (int i = 0; i < 64; i++) {
			int fd = -1;

			/* Kept, as an allocation's own import is not. */
			if (!CHECK_OK(dlbuf_alloc_fd(4096, &opts, &fd)) ||
			    !CHECK_OK(dlbuf_import(dev, fd, &layout, &may_copy,
						   &t)))
				break;
			cts_delete(t);
			close(fd);
		}
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &files));
		dlbuf_device_close(dev);
	}
}

static void forget(void *arg)
{
	int fd = cts_alloc("udmabuf", 4096);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, 4096);

	CHECK_OK(dlbuf_device_forget(dev, fd));
	CHECK_EQ(cts_stats(dev).live, 1);
	cts_delete(t);
	CHECK_EQ(cts_stats(dev).idle, 0);
	cts_delete(cts_import(dev, fd, 4096));
	CHECK_EQ(cts_stats(dev).idle, 1);
	CHECK_OK(dlbuf_device_forget(dev, fd));
	CHECK_OK(dlbuf_device_forget(dev, fd)); /* not having it is no error */
	CHECK_EQ(cts_stats(dev).idle, 0);
	close(fd);
	CHECK_ERR(dlbuf_device_forget(dev, fd), -EBADF);
}

void cts_cases_cache(void)
{
	ktap_case("cache/hit", hit, NULL);
	ktap_case("cache/allocations", allocations, NULL);
	ktap_case("cache/fd-number-reused", fd_number_reused, NULL);
	ktap_case("cache/trim", trim, NULL);
	ktap_case("cache/memory", memory, NULL);
	ktap_case("cache/few-fds", few_fds, NULL);
	ktap_case("cache/forget", forget, NULL);
	ktap_case("cache/costs-two-system-calls", costs, NULL);
	ktap_case("cache/costs-of-a-wrong-guess", costs, (void *)"a wrong guess");
	ktap_case("cache/number-changes-hands", number_changes_hands, NULL);
	ktap_case("cache/threads", threads, NULL);
}
