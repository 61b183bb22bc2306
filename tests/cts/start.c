// SPDX-License-Identifier: MIT
/*
 * START of DMA_BUF_IOCTL_SYNC that is slow, busy or fails, and memory that is gone, of the lab's
 * module (tests/guest/module). START is the CPU's.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "cts.h"
#include "lab_module.h"
#include "../tools/dmabuf-test/fence/call.h"

#define BYTES 4096
#define PAST 1ull

struct started {
	int lab, fd;
	struct dlbuf_device *dev;
	DLManagedTensorVersioned *t;
};

/* Imported, if its exporter refuses nothing. */
static void open_start(struct started *s, uint32_t flags)
{
	if (strcmp(cts_access->backend, "cpu"))
		SKIP("START is the CPU's");
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	*s = (struct started){ .lab = cts_lab() };
	s->fd = lab_buffer(s->lab, BYTES, flags);
	REQUIRE(s->fd >= 3);
	s->dev = cts_open();
	if (!flags)
		s->t = cts_import(s->dev, s->fd, BYTES);
}

/* The same with a fence of a writer, which is returned. */
static int open_busy(struct started *s)
{
	int fence;

	open_start(s, 0);
	fence = lab_fence(s->lab);
	REQUIRE(fence >= 3);
	CHECK_EQ(cts_import_fence(s->fd, DLBUF_WRITE, fence), 0);
	return fence;
}

static struct dlbuf_lab_count counts(const struct started *s)
{
	struct dlbuf_lab_count c;

	REQUIRE(!lab_count(s->lab, s->fd, &c));
	return c;
}

static void close_start(struct started *s)
{
	cts_delete(s->t);
	dlbuf_device_close(s->dev);
	CHECK_EQ(counts(s).mapped, 0);
	close(s->fd);
	close(s->lab);
}

static void not_acquired(const struct started *s)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_OK(dlbuf_tensor_get_info(s->t, &info));
	CHECK_EQ(info.acquired, 0);
}

static const int again[] = { -EAGAIN, -EINTR };

/* The exporter is busy for a while: START is repeated. */
static void start_again(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, late, .deadline_ns = UINT64_MAX);
	const struct dlbuf_acquire_opts *opts[] = { NULL, &late };
	struct started s;
	unsigned int n = 0;

	open_start(&s, 0);
	for (size_t i = 0; i < 4; i++) {
		CHECK_EQ(lab_begin(s.lab, s.fd, again[i / 2], 3, 0), 0);
		if (i % 2)
			CHECK_OK(dlbuf_acquire_all(&s.t, 1, DLBUF_RW, NULL, opts[i % 2]));
		else
			CHECK_OK(dlbuf_acquire(s.t, DLBUF_RW, NULL, opts[i % 2]));
		CHECK_OK(dlbuf_release(s.t, NULL, NULL));
		CHECK_EQ(counts(&s).begin, n += 4);
		CHECK_EQ(counts(&s).end, i + 1);
	}
	close_start(&s);
}

/* The exporter stays busy: tries until the deadline, or this many times, with pauses. */
static void start_again_for_ever(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = PAST);
	struct timespec now;
	struct started s;
	unsigned int n;

	open_start(&s, 0);
	for (size_t i = 0; i < 2; i++) {
		CHECK_EQ(lab_begin(s.lab, s.fd, again[i], DLBUF_LAB_FOREVER, 0), 0);
		n = counts(&s).begin;
		opts.deadline_ns = PAST;
		CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &opts), -ETIME);
		CHECK(counts(&s).begin - n <= 10);
		clock_gettime(CLOCK_MONOTONIC, &now);
		opts.deadline_ns = now.tv_sec * 1000000000ull + now.tv_nsec + 20000000;
		n = counts(&s).begin;
		CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &opts), -ETIME);
		/* A pause of some microseconds each time. */
		CHECK_MSG(counts(&s).begin - n <= 2000, "%u", counts(&s).begin - n);
		n = counts(&s).begin;
		CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, NULL), -EIO);
		CHECK_MSG(counts(&s).begin - n <= 2000, "%u", counts(&s).begin - n);
		not_acquired(&s);
	}
	CHECK_EQ(counts(&s).end, 0);
	CHECK_EQ(lab_begin(s.lab, s.fd, 0, 0, 0), 0);
	CHECK_OK(dlbuf_acquire(s.t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	close_start(&s);
}

/* Another error is final. */
static void start_fails(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = PAST);
	struct started s;

	open_start(&s, 0);
	CHECK_EQ(lab_begin(s.lab, s.fd, -EIO, 3, 0), 0);
	CHECK_ERR_SAYS(dlbuf_acquire(s.t, DLBUF_READ, NULL, NULL), -EIO, "START");
	CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &past), -EIO);
	CHECK_ERR(dlbuf_acquire_all(&s.t, 1, DLBUF_READ, NULL, NULL), -EIO);
	CHECK_EQ(counts(&s).begin, 3);
	CHECK_EQ(counts(&s).end, 0);
	not_acquired(&s);
	CHECK_OK(dlbuf_acquire(s.t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	CHECK_EQ(counts(&s).end, 1);
	close_start(&s);
}

static void on_signal(int sig)
{
}

static int acquire(struct call *c)
{
	return dlbuf_acquire(*c->t, DLBUF_READ, NULL, c->opts);
}

/*
 * An exporter that is slow is waited for, which is the deadline's limit: the access that
 * begins then is the caller's. Signals make no difference to one without a deadline.
 */
static void start_slow(void *arg)
{
	struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART */
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = PAST);
	const struct dlbuf_acquire_opts *opts[] = { NULL, &past };
	struct started s;

	open_start(&s, 0);
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 2; i++) {
		struct call c = { .fn = acquire, .t = &s.t, .opts = opts[i] };
		unsigned int n = counts(&s).begin;

		CHECK_EQ(lab_begin(s.lab, s.fd, 0, 0, DLBUF_LAB_FOREVER), 0);
		REQUIRE(!call_start(&c));
		UNTIL(counts(&s).holding);
		if (!i) {
			pthread_kill(c.thread, SIGUSR1);
			while (counts(&s).begin == n + 1 || !counts(&s).holding)
				sched_yield();
		}
		CHECK(!call_done(&c));
		CHECK_EQ(lab_begin(s.lab, s.fd, 0, 0, 0), 0);
		REQUIRE(!pthread_join(c.thread, NULL));
		CHECK_MSG(!c.ret, "%s", c.sentence);
		CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	}
	CHECK_EQ(counts(&s).end, 2);
	close_start(&s);
}

/* From here on this process makes no threads. */
static void refuse_threads(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	cts_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

/* From here on this process gets no fd. */
static void take_fds(struct rlimit *before)
{
	int last = dup(0);
	struct rlimit few;

	REQUIRE(last >= 0);
	close(last);
	REQUIRE(!getrlimit(RLIMIT_NOFILE, before));
	few = (struct rlimit){ .rlim_cur = last, .rlim_max = before->rlim_max };
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
	CHECK_EQ(dup(0), -1);
}

/* An idle buffer needs nothing with a deadline: no thread, no fd, no memory. */
static void needs_nothing(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = PAST);
	DLBUF_OPTS(dlbuf_acquire_opts, later, .deadline_ns = UINT64_MAX);
	const struct dlbuf_acquire_opts *opts[] = { NULL, &past, &later };
	static const uint32_t accesses[] = { DLBUF_READ, DLBUF_WRITE, DLBUF_RW };
	struct rlimit files;
	struct started s;
	int fence AUTO_FD = open_busy(&s);

	/* A fence that has ended is no different. */
	CHECK_EQ(lab_signal(s.lab, fence, 0), 0);
	refuse_threads();
	take_fds(&files);
	for (int i = 0; i < 9; i++) {
		CHECK_EQ(KTAP_ALLOCS(dlbuf_acquire(s.t, accesses[i / 3], NULL, opts[i % 3])), 0);
		CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	}
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &files));
	CHECK_EQ(counts(&s).begin, 9);
	close_start(&s);
}

static void *end_both(void *arg)
{
	const int *fds = arg;

	CHECK_EQ(lab_signal(fds[0], fds[1], 0), 0);
	CHECK_EQ(lab_signal(fds[0], fds[2], 0), 0);
	return NULL;
}

/* A busy one waits without an fd of its own. */
static void no_fd(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = PAST);
	struct rlimit files;
	struct started s;
	pthread_t thread;
	int fds[3];

	fds[1] = open_busy(&s);
	fds[0] = s.lab;
	fds[2] = lab_fence(s.lab);
	REQUIRE(fds[2] >= 3);
	take_fds(&files);
	CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &opts), -ETIME);
	CHECK_ERR(dlbuf_acquire_all(&s.t, 1, DLBUF_RW, NULL, &opts), -ETIME);
	opts.fence = fds[2];
	CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &opts), -ETIME);
	opts.fence = s.lab;
	CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &opts), -EINVAL);
	REQUIRE(!pthread_create(&thread, NULL, end_both, fds));
	opts.deadline_ns = 0;
	opts.fence = fds[2];
	CHECK_OK(dlbuf_acquire(s.t, DLBUF_READ, NULL, &opts));
	CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	CHECK_OK(dlbuf_acquire(s.t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	pthread_join(thread, NULL);
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &files));
	close(fds[1]);
	close(fds[2]);
	close_start(&s);
}

/* A busy one waits without a thread of its own. */
static void no_thread(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = PAST);
	struct started s;
	int fence AUTO_FD = open_busy(&s);

	refuse_threads();
	CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &past), -ETIME);
	CHECK_EQ(counts(&s).begin, 0);
	CHECK_EQ(lab_signal(s.lab, fence, 0), 0);
	CHECK_OK(dlbuf_acquire(s.t, DLBUF_READ, NULL, &past));
	CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	close_start(&s);
}

/* ---- memory that is not there */

static void unmappable(void *arg)
{
	int64_t shape[] = { BYTES };
	DLTensor layout = LAYOUT8(1, shape);
	struct started s;

	open_start(&s, DLBUF_LAB_NO_MMAP);
	for (int i = 0; i < 2; i++) {
		CHECK_ERR_SAYS(dlbuf_import(s.dev, s.fd, &layout, NULL, &s.t), -EOPNOTSUPP, "mmap");
		CHECK(!s.t);
	}
	CHECK_EQ(counts(&s).mmap, 2);
	close_start(&s);
}

/* The owner revokes the memory: every acquire reports it. */
static void revoked(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = PAST);
	int64_t shape[] = { BYTES };
	DLTensor layout = LAYOUT8(1, shape);
	DLManagedTensorVersioned *u = NULL;
	struct started s;

	open_start(&s, 0);
	CHECK_OK(dlbuf_acquire(s.t, DLBUF_WRITE, NULL, NULL));
	CHECK_EQ(lab_revoke(s.lab, s.fd), 0);
	CHECK_OK(dlbuf_release(s.t, NULL, NULL));
	CHECK_ERR_SAYS(dlbuf_acquire(s.t, DLBUF_READ, NULL, NULL), -EIO, strerror(ENODEV));
	CHECK_ERR(dlbuf_acquire(s.t, DLBUF_READ, NULL, &past), -EIO);
	not_acquired(&s);
	cts_delete(s.t);
	s.t = NULL;
	CHECK_OK(dlbuf_device_forget(s.dev, s.fd));
	CHECK_ERR_SAYS(dlbuf_import(s.dev, s.fd, &layout, NULL, &u), -ENODEV, strerror(ENODEV));
	close_start(&s);
}

void cts_cases_start(void)
{
	ktap_case("sync/start/again", start_again, NULL);
	ktap_case("sync/start/again-for-ever", start_again_for_ever, NULL);
	ktap_case("sync/start/fails", start_fails, NULL);
	ktap_case("sync/start/slow", start_slow, NULL);
	ktap_case("sync/start/needs-nothing", needs_nothing, NULL);
	ktap_case("sync/start/no-thread", no_thread, NULL);
	ktap_case("sync/start/no-fd", no_fd, NULL);
	ktap_case("sync/unmappable", unmappable, NULL);
	ktap_case("sync/revoked", revoked, NULL);
}
