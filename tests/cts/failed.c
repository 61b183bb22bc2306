// SPDX-License-Identifier: MIT
/*
 * Fences that end with an error, of the lab's module (tests/guest/module): every way to wait
 * for failed work reports the error.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlbuf/interop/v4l2.h>

#include "cts.h"
#include "frame/detile.h"
#include "import/backend.h"
#include "lab_module.h"
#include "system/event.h"
#include "../tools/dmabuf-test/fence/call.h"

/* A lease's result that was not read. */
#define ANY 1

#define W 64u
#define H 32u
#define BYTES (W * H * 3 / 2)
#define PAST 1ull

/* ---- a call that may wait, on a thread */

/* A release with *fence if the access is 0; an acquire of one tensor, or of several at once. */
static int use(struct call *c)
{
	if (!c->access)
		return dlbuf_release(c->t[0], NULL, &c->fence);
	if (c->n > 1)
		return dlbuf_acquire_all(c->t, c->n, c->access, NULL, c->opts);
	return dlbuf_acquire(c->t[0], c->access, NULL, c->opts);
}

static void call(struct call *c)
{
	c->fn = use;
	call_run(c);
}

static void start(struct call *c)
{
	c->fn = use;
	REQUIRE(!call_start(c));
}

/* It waits now, and only the fence ends the wait. */
static void start_and_sleep(struct call *c)
{
	start(c);
	cts_until_asleep(&c->tid, &c->done);
	CHECK(!call_done(c));
}

static void join(struct call *c)
{
	REQUIRE(!pthread_join(c->thread, NULL));
}

static bool told(const struct call *c, int want)
{
	if (c->ret != want)
		return CHECK_MSG(c->ret == want, "%d, not %d: %s", c->ret, want, c->sentence);
	return CHECK_MSG(!want || strstr(c->sentence, "ended with error"), "%s", c->sentence);
}

/* ---- a frame and a fence that we end */

struct scene {
	int lab, fence;			/* the module's */
	int fd;
	struct dlbuf_device *dev;
	bool device_waits, early;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];	/* two, of NV12 */
	unsigned int fired;		/* atomic */
	int result;			/* of the lease, by then */
};

static void fire(void *data)
{
	struct scene *s = data;

	s->result = dlbuf_lease_result();
	__atomic_add_fetch(&s->fired, 1, __ATOMIC_RELEASE);
}

/* One device for many scenes, because opening a driver is slow. NULL: each scene has its own. */
static struct dlbuf_device *shared;

/* frame_fence: the fence is the frame's own. */
static void open_scene(struct scene *s, bool frame_fence)
{
	struct dlbuf_frame frame = PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .modifier = DLBUF_MOD_LINEAR,
		.release = fire, .release_data = s);
	DLBUF_INFO(dlbuf_device_info, info);
	uint32_t n = 0;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	*s = (struct scene){ .lab = cts_lab(), .result = ANY };
	s->fd = cts_alloc("udmabuf", BYTES);
	frame.planes[0] = (struct dlbuf_plane){ .fd = s->fd, .pitch = W };
	s->fence = lab_fence(s->lab);
	REQUIRE(s->fence >= 3);
	if (frame_fence) {
		frame.order = DLBUF_ORDER_FENCE;
		frame.fence = s->fence;
	}
	s->dev = shared ? shared : cts_open();
	CHECK_OK(dlbuf_device_get_info(s->dev, &info));
	s->device_waits = info.acquire == DLBUF_SYNC_FENCE;
	REQUIRE_OK(dlbuf_import_frame(s->dev, &frame, NULL, s->t, &n));
	CHECK_EQ(n, 2);
}

static void end_fence(struct scene *s, int error)
{
	REQUIRE(!lab_signal(s->lab, s->fence, error));
}

static void acquired(struct scene *s, uint32_t access)
{
	for (int i = 0; i < 2; i++) {
		DLBUF_INFO(dlbuf_tensor_info, info);

		CHECK_OK(dlbuf_tensor_get_info(s->t[i], &info));
		CHECK_EQ(info.acquired, access);
	}
}

/* An error is reported once. */
static void works_again(struct scene *s, uint32_t access)
{
	acquired(s, 0);
	CHECK_OK(dlbuf_acquire(s->t[0], access, NULL, NULL));
	CHECK_OK(dlbuf_release(s->t[0], NULL, NULL));
}

/* The lease says how the work ended. */
static void close_scene(struct scene *s, int result)
{
	cts_delete(s->t[0]);
	cts_delete(s->t[1]);
	CHECK_OK(dlbuf_device_drain(s->dev, 0));
	CHECK_EQ(__atomic_load_n(&s->fired, __ATOMIC_ACQUIRE), 1);
	if (result != ANY)
		CHECK_EQ(s->result, result);
	CHECK_EQ(dlbuf_lease_result(), 0);
	if (!shared)
		dlbuf_device_close(s->dev);
	close(s->fd);
	close(s->fence);
	close(s->lab);
}

/* ---- every way to wait for one fence */

struct way {
	const char *name;
	enum { IMPORTED, OTHERS, OPTS, FRAME } where;
	uint32_t fence, access;
	uint64_t deadline_ns;
	bool all;		/* both planes in one call */
	bool damaged;		/* wanted nevertheless */
	bool early;		/* it has ended before the acquire */
	bool ignored;		/* the access need not wait for it */
};

#define R DLBUF_READ
#define WR DLBUF_WRITE
#define RW DLBUF_RW
static const struct way ways[] = {
	{ "read", IMPORTED, WR, R, .deadline_ns = 0 },
	{ "write", IMPORTED, WR, WR, .deadline_ns = 0 },
	{ "write-after-read", IMPORTED, R, RW, .deadline_ns = 0 },
	{ "read-after-read", IMPORTED, R, R, .ignored = true },
	{ "all", IMPORTED, WR, R, .all = true },
	{ "deadline", IMPORTED, WR, R, .deadline_ns = UINT64_MAX },
	{ "damaged", IMPORTED, WR, R, .damaged = true },
	{ "damaged-deadline", IMPORTED, WR, R, .deadline_ns = UINT64_MAX,
	  .damaged = true },
	{ "damaged-all", IMPORTED, WR, R, .all = true, .damaged = true },
	{ "others", OTHERS, WR, R, .deadline_ns = 0 },
	{ "others-all", OTHERS, WR, RW, .all = true },
	{ "others-deadline", OTHERS, WR, R, .deadline_ns = UINT64_MAX },
	{ "others-early", OTHERS, WR, R, .early = true, .ignored = true },
	{ "opts", OPTS, 0, R, .deadline_ns = 0 },
	{ "opts-all", OPTS, 0, R, .all = true },
	{ "opts-deadline", OPTS, 0, R, .deadline_ns = UINT64_MAX },
	{ "opts-damaged", OPTS, 0, R, .damaged = true },
	{ "opts-early", OPTS, 0, R, .early = true },
	{ "opts-early-all", OPTS, 0, R, .early = true, .all = true },
	{ "opts-early-deadline", OPTS, 0, R, .deadline_ns = PAST, .early = true },
	{ "opts-early-damaged", OPTS, 0, R, .early = true, .damaged = true },
	{ "frame", FRAME, 0, R, .deadline_ns = 0 },
	{ "frame-all", FRAME, 0, R, .all = true },
	{ "frame-deadline", FRAME, 0, R, .deadline_ns = UINT64_MAX },
	{ "frame-damaged", FRAME, 0, R, .damaged = true },
	{ "frame-early", FRAME, 0, R, .early = true },
	{ "frame-early-all", FRAME, 0, R, .early = true, .all = true },
	{ "frame-early-damaged", FRAME, 0, R, .early = true, .damaged = true },
};

static int release_both(struct scene *s, unsigned int n)
{
	return n > 1 ? dlbuf_release_all(s->t, n, NULL, NULL) :
		       dlbuf_release(s->t[0], NULL, NULL);
}

static void put_fence(struct scene *s, const struct way *way,
		      struct dlbuf_acquire_opts *opts)
{
	if (way->where == IMPORTED)
		CHECK_OK(dlbuf_fence_import(s->fd, way->fence, s->fence));
	if (way->where == OTHERS)
		CHECK_EQ(cts_import_fence(s->fd, way->fence, s->fence), 0);
	if (way->where == OPTS)
		opts->fence = s->fence;
}

/* The thread waits in the acquire, and the acquire reports the error. */
static void thread_waits(struct scene *s, struct call *c, int error, int want)
{
	start_and_sleep(c);
	end_fence(s, error);
	join(c);
	if (told(c, want) && !want)
		CHECK_OK(release_both(s, c->n));
}

/* The device waits behind the acquire: once the fence has ended the release reports the error. */
static void device_waits(struct scene *s, struct call *c, int error, int want)
{
	call(c);
	told(c, 0);
	end_fence(s, error);
	c->ret = release_both(s, c->n);
	snprintf(c->sentence, sizeof(c->sentence), "%s", dlbuf_last_error());
	told(c, want);
}

static void one_way(const struct way *way, int error)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = way->deadline_ns,
		   .flags = way->damaged ? DLBUF_ACQUIRE_DAMAGED : 0);
	struct scene s;
	struct call c = { .t = s.t, .n = way->all ? 2 : 1,
			  .access = way->access, .opts = &opts };
	int want = way->damaged || way->ignored ? 0 : error, result = error;

	open_scene(&s, way->where == FRAME);
	if (way->early)
		end_fence(&s, error);
	put_fence(&s, way, &opts);
	if (way->early || way->ignored) {
		call(&c);
		if (told(&c, want) && !want)
			CHECK_OK(release_both(&s, c.n));
		if (!way->early)
			end_fence(&s, error);
	} else if (s.device_waits) {
		device_waits(&s, &c, error, want);
	} else {
		thread_waits(&s, &c, error, want);
	}
	acquired(&s, 0);
	/* A frame's own fence stays with it; every other error is reported once. */
	opts.fence = 0;
	call(&c);
	if (told(&c, way->where == FRAME ? want : 0) && !c.ret)
		CHECK_OK(release_both(&s, c.n));
	if (way->ignored)
		result = 0;
	/* An access that did not begin has no work. */
	else if (way->damaged || (way->where != FRAME &&
				  (way->early || !s.device_waits)))
		result = ANY;
	close_scene(&s, result);
}

static void every_way(void *arg)
{
	shared = cts_open();
	one_way(arg, 0);
	one_way(arg, -EIO);
	dlbuf_device_close(shared);
}

/* ---- it fails when the access has been released */

static void need_device_that_waits(struct scene *s)
{
	if (s->device_waits)
		return;
	end_fence(s, 0);
	close_scene(s, 0);
	SKIP("the calling thread waits, not the device");
}

/*
 * Some drivers finish the work before they give a fence: their release waits, and can
 * report the error. Otherwise the fence that it returns has the error, if it is a
 * sync_file, and the next call of the tensor reports it.
 */
static void after_release(void *arg)
{
	struct scene s;
	struct call c = { .t = s.t, .fence = -1 };
	DLBUF_INFO(dlbuf_device_info, info);
	int status = 1;

	open_scene(&s, false);
	need_device_that_waits(&s);
	CHECK_OK(dlbuf_device_get_info(s.dev, &info));
	CHECK_EQ(cts_import_fence(s.fd, DLBUF_WRITE, s.fence), 0);
	CHECK_OK(dlbuf_acquire(s.t[0], DLBUF_READ, NULL, NULL));
	start(&c);
	cts_until_asleep(&c.tid, &c.done);
	end_fence(&s, -EIO);
	join(&c);
	acquired(&s, 0);
	if (!c.ret) {
		CHECK_OK(dlbuf_fence_wait(c.fence, 0));
		CHECK_OK(dlbuf_fence_status(c.fence, &status));
		if (info.release == DLBUF_SYNC_FENCE)
			CHECK_EQ(status, -EIO);
		c.access = DLBUF_READ;
		c.n = 1;
		call(&c);
	}
	told(&c, -EIO);
	if (c.fence != -1)
		close(c.fence);
	works_again(&s, DLBUF_READ);
	close_scene(&s, -EIO);
}

/* Work of the application itself, whose error only the lease reports. */
static void release_fence(void *arg)
{
	for (int early = 0; early < 2; early++) {
		struct scene s;
		int fence = -1;

		open_scene(&s, false);
		need_device_that_waits(&s);
		CHECK_OK(dlbuf_acquire_fence(s.t[0], DLBUF_WRITE, &fence));
		CHECK_EQ(fence, -1);
		if (early)
			end_fence(&s, -EIO);
		CHECK_OK(dlbuf_release_fence(s.t[0], s.fence));
		if (!early)
			end_fence(&s, -EIO);
		close_scene(&s, -EIO);
	}
}

/* And by a fence that the application waits for: it is the application that sees. */
static void acquire_fence(void *arg)
{
	struct scene s;
	int fence = -1, status = 1;

	open_scene(&s, false);
	need_device_that_waits(&s);
	CHECK_EQ(cts_import_fence(s.fd, DLBUF_WRITE, s.fence), 0);
	CHECK_OK(dlbuf_acquire_fence(s.t[0], DLBUF_READ, &fence));
	REQUIRE(fence >= 3);
	end_fence(&s, -EIO);
	CHECK_OK(dlbuf_fence_wait(fence, 0));
	CHECK_OK(dlbuf_fence_status(fence, &status));
	CHECK_EQ(status, -EIO);
	close(fence);
	dlbuf_release_fence(s.t[0], -1);
	acquired(&s, 0);
	close_scene(&s, ANY);
}

/* And by an adapter for a consumer that knows no fences. */
static void output(void *arg)
{
	const struct v4l2_format fmt = {
		.type = V4L2_BUF_TYPE_VIDEO_OUTPUT,
		.fmt.pix = { .width = W, .height = H, .pixelformat = V4L2_PIX_FMT_NV12,
			     .bytesperline = W, .sizeimage = BYTES },
	};
	struct v4l2_buffer buf = { .type = V4L2_BUF_TYPE_VIDEO_OUTPUT };
	struct scene s;

	open_scene(&s, false);
	end_fence(&s, -EIO);
	CHECK_ERR(dlbuf_v4l2_output(&fmt, &(struct dlbuf_frame)PICTURE(W, H,
		V4L2_PIX_FMT_NV12, DLBUF_CODE_V4L2, 1, .order = DLBUF_ORDER_FENCE,
		.fence = s.fence, .planes = { { .fd = s.fd, .pitch = W } }), &buf), -EIO);
	close_scene(&s, ANY);
}

/* If a sync_file has several fences, the failed one counts. */
static void merged(void *arg)
{
	for (int first = 0; first < 2; first++) {
		int lab AUTO_FD = cts_lab(), both AUTO_FD = -1, status = 0;
		int fences[2] = { lab_fence(lab), lab_fence(lab) };

		REQUIRE(fences[0] >= 3 && fences[1] >= 3);
		REQUIRE_OK(dlbuf_fence_merge(fences[0], fences[1], &both));
		CHECK_EQ(lab_signal(lab, fences[first], -ENODEV), 0);
		CHECK_OK(dlbuf_fence_status(fences[first], &status));
		CHECK_EQ(status, -ENODEV);
		CHECK_OK(dlbuf_fence_status(both, &status));
		CHECK_EQ(status, 0);
		CHECK_EQ(lab_signal(lab, fences[!first], 0), 0);
		CHECK_OK(dlbuf_fence_wait(both, 0));
		CHECK_OK(dlbuf_fence_status(both, &status));
		CHECK_EQ(status, -ENODEV);
		close(fences[0]);
		close(fences[1]);
	}
}

/* A producer that has ended: its fences end with an error. */
static void producer_gone(void *arg)
{
	struct scene s;
	struct call c = { .t = s.t, .n = 1, .access = DLBUF_READ };
	int producer, fence;

	open_scene(&s, false);
	producer = cts_lab();
	fence = lab_fence(producer);
	CHECK_EQ(cts_import_fence(s.fd, DLBUF_WRITE, fence), 0);
	close(fence);
	if (s.device_waits) {
		call(&c);
		told(&c, 0);
		close(producer);
		c.ret = dlbuf_release(s.t[0], NULL, NULL);
		snprintf(c.sentence, sizeof(c.sentence), "%s", dlbuf_last_error());
	} else {
		start_and_sleep(&c);
		close(producer);
		join(&c);
	}
	told(&c, -EIO);
	works_again(&s, DLBUF_READ);
	close_scene(&s, ANY);
}

/* The tensor keeps a fence until it has reported its error, or is deleted. */
static void pending_on(struct scene *s, int fence)
{
	int fd = -1;

	CHECK_EQ(cts_import_fence(s->fd, DLBUF_WRITE, fence), 0);
	CHECK_OK(dlbuf_pending(s->t[0], DLBUF_READ, &fd));
	syscall(SYS_close, fd); /* close() is a cancellation point */
}

/* A fence that dlbuf_pending() and the wait both know is reported once, or not at all. */
static void told_once(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .flags = DLBUF_ACQUIRE_DAMAGED);

	for (int damaged = 0; damaged < 2; damaged++) {
		int want = damaged ? 0 : -EIO, ret;
		struct scene s;
		struct call c = { .t = s.t, .n = 1, .access = DLBUF_READ,
				  .opts = damaged ? &opts : NULL };

		open_scene(&s, false);
		pending_on(&s, s.fence);
		if (s.device_waits) {
			call(&c);
			CHECK_OK(c.ret);
			end_fence(&s, -EIO);
			ret = dlbuf_release(s.t[0], NULL, NULL);
			/* If the release was earlier, the next acquire reports the error. */
			if (!ret && want)
				ret = dlbuf_acquire(s.t[0], DLBUF_READ, NULL, NULL);
			CHECK_EQ(ret, want);
		} else {
			start_and_sleep(&c);
			end_fence(&s, -EIO);
			join(&c);
			if (told(&c, want) && !want)
				CHECK_OK(dlbuf_release(s.t[0], NULL, NULL));
		}
		works_again(&s, DLBUF_READ);
		close_scene(&s, ANY);
	}
}

/* An error is reported while another fence is pending, and nothing of that fence is kept. */
static void other_pending(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	unsigned int fds;
	struct scene s;
	int second;

	open_scene(&s, false);
	pending_on(&s, s.fence);
	end_fence(&s, -EIO);
	second = lab_fence(s.lab);
	CHECK_EQ(cts_import_fence(s.fd, DLBUF_WRITE, second), 0);
	fds = cts_count_fds();
	CHECK_ERR(dlbuf_acquire(s.t[0], DLBUF_READ, NULL, &past), -EIO);
	CHECK_EQ(cts_count_fds(), fds - 1); /* the tensor kept the fence */
	CHECK_EQ(lab_signal(s.lab, second, 0), 0);
	close(second);
	works_again(&s, DLBUF_READ);
	close_scene(&s, ANY);
}

/* ---- dlbuf_acquire() and dlbuf_acquire_all() agree, with all pending and failed fences */

enum { NONE, PENDING, FAILED };
struct state {
	int frame, opts;	/* the frame's fence, that of the options: as above */
	bool other;		/* a writer's fence is pending */
	bool kept;		/* a fence that dlbuf_pending() reported has failed */
	bool damaged;
};

/*
 * Makes the state, acquires, signals the pending fences, acquires again. n: 0: dlbuf_acquire().
 */
static void ask(const struct state *st, unsigned int n, int *first, int *second)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = PAST,
		   .flags = st->damaged ? DLBUF_ACQUIRE_DAMAGED : 0);
	const struct way way = { .all = n > 1 };
	struct scene s;
	int fences[2];

	open_scene(&s, st->frame);
	if (st->frame == FAILED)
		end_fence(&s, -EIO);
	for (int i = 0; i < 2; i++) {
		fences[i] = lab_fence(s.lab);
		REQUIRE(fences[i] >= 3);
	}
	if (st->kept) {
		DLManagedTensorVersioned *last = s.t[way.all];
		int fence AUTO_FD = lab_fence(s.lab), fd AUTO_FD = -1;

		REQUIRE(!cts_import_fence(s.fd, DLBUF_WRITE, fence));
		REQUIRE_OK(dlbuf_pending(last, DLBUF_READ, &fd));
		REQUIRE(!lab_signal(s.lab, fence, -EIO));
	}
	if (st->other)
		REQUIRE(!cts_import_fence(s.fd, DLBUF_WRITE, fences[0]));
	if (st->opts)
		opts.fence = fences[1];
	if (st->opts == FAILED)
		REQUIRE(!lab_signal(s.lab, fences[1], -EIO));
	*first = n ? dlbuf_acquire_all(s.t, n, DLBUF_READ, NULL, &opts) :
		     dlbuf_acquire(s.t[0], DLBUF_READ, NULL, &opts);
	if (*first == -EIO)
		CHECK_SAYS("ended with error");
	for (int i = 0; i < 2; i++) {
		lab_signal(s.lab, fences[i], 0);
		close(fences[i]);
	}
	lab_signal(s.lab, s.fence, 0);
	if (!*first)
		CHECK_OK(release_both(&s, n));
	acquired(&s, 0);
	opts.fence = 0;
	*second = n ? dlbuf_acquire_all(s.t, n, DLBUF_READ, NULL, &opts) :
		      dlbuf_acquire(s.t[0], DLBUF_READ, NULL, &opts);
	if (!*second)
		CHECK_OK(release_both(&s, n));
	close_scene(&s, ANY);
}

static void same_states(void *arg)
{
	DLBUF_INFO(dlbuf_device_info, info);

	shared = cts_open();
	CHECK_OK(dlbuf_device_get_info(shared, &info));
	for (unsigned int i = 0; i < 3 * 3 * 8; i++) {
		const struct state st = { i % 3, i / 3 % 3, i / 9 & 1, i / 18 & 1,
					  i / 36 };
		/* The fence that was reported is merged with the frame's. */
		bool failed = st.frame == FAILED || st.opts == FAILED ||
			      (st.kept && st.frame != PENDING);
		bool pending = st.other || st.frame == PENDING || st.opts == PENDING;
		int want, first[3], second[3];

		want = failed && !st.damaged ? -EIO :
		       pending && info.acquire != DLBUF_SYNC_FENCE ? -ETIME : 0;
		for (unsigned int n = 0; n < 3; n++) {
			ask(&st, n, &first[n], &second[n]);
			CHECK_MSG(first[n] == want, "frame %d opts %d other %d kept %d "
				  "damaged %d: %u tensors: %d, not %d", st.frame, st.opts,
				  st.other, st.kept, st.damaged, n, first[n], want);
			CHECK_MSG(second[n] == second[0], "frame %d opts %d other %d kept "
				  "%d damaged %d: %u tensors, then: %d, not %d", st.frame,
				  st.opts, st.other, st.kept, st.damaged, n, second[n],
				  second[0]);
		}
	}
	dlbuf_device_close(shared);
}

/* ---- others that use tensors answer as dlbuf_acquire() does */

static int to_frame(struct scene *s)
{
	struct dlbuf_frame f = { .size = sizeof(f), .code_space = DLBUF_CODE_V4L2,
				 .code = DLBUF_FOURCC('N', 'V', '1', '2'),
				 .modifier = DLBUF_MOD_LINEAR };
	int ret = dlbuf_frame_from_tensors(s->t, 2, PAST, &f);

	if (!ret)
		dlbuf_frame_drop(&f);
	return ret;
}

static int to_peer(struct scene *s)
{
	DLBUF_OPTS(dlbuf_socket_opts, opts, .flags = DLBUF_SOCKET_DONTWAIT);
	int ends[2], ret;

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	ret = dlbuf_send(ends[0], s->t, 2, &opts);
	close(ends[0]);
	close(ends[1]);
	/* Until the tensors that the message kept are deleted. */
	while (event_pending())
		sched_yield();
	return ret;
}

static const struct user {
	const char *name;
	int (*use)(struct scene *s);
} users[] = { { "to-frame", to_frame }, { "to-peer", to_peer } };

/* A frame's own fence, whose error stays, and one that is reported once. */
static void other_user(void *arg)
{
	const struct user *user = arg;

	for (int kept = 0; kept < 2; kept++) {
		struct scene s;

		open_scene(&s, !kept);
		if (kept)
			pending_on(&s, s.fence);
		end_fence(&s, -EIO);
		if (CHECK_ERR(user->use(&s), -EIO))
			CHECK_SAYS("ended with error");
		CHECK_EQ(user->use(&s), kept ? 0 : -EIO);
		close_scene(&s, ANY);
	}
}

struct copy {
	struct scene s;
	struct dlbuf_frame frame;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
	struct call c;
};

static int make_copy(struct call *c)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .flags = DLBUF_IMPORT_MAY_COPY);
	struct copy *copy = c->data;

	return dlbuf_import_frame(copy->s.dev, &copy->frame, &opts, copy->t, &copy->n);
}

/*
 * The tensors of a copy, and the frame's lease, report the fence that the copy waited for.
 * Some drivers finish the copy before they give its fence: then the import waits.
 */
static void copied(void *arg)
{
	struct scene other = { .result = ANY };
	struct copy copy = {
		.frame = PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_V4L2, 2,
				 .modifier = DLBUF_MOD_LINEAR, .order = DLBUF_ORDER_FENCE,
				 .release = fire, .release_data = &other),
		.c = { .fn = make_copy, .data = &copy },
	};
	struct scene *s = &copy.s;

	open_scene(s, false);
	need_device_that_waits(s);
	detile_linear = true;
	if (!s->dev->backend->can_detile)
		SKIP("the device makes no copies");
	for (int i = 0; i < 2; i++)
		copy.frame.planes[i] = (struct dlbuf_plane){ .fd = s->fd, .pitch = W,
							     .offset = i * W * H };
	copy.frame.fence = s->fence;
	REQUIRE(!call_start(&copy.c));
	cts_until_asleep(&copy.c.tid, &copy.c.done);
	end_fence(s, -EIO);
	join(&copy.c);
	detile_linear = false;
	if (copy.c.ret == -EOPNOTSUPP)
		SKIP("%s", copy.c.sentence);
	REQUIRE_OK(copy.c.ret);
	for (uint32_t i = 0; i < copy.n; i++) {
		CHECK_ERR(dlbuf_acquire(copy.t[i], DLBUF_READ, NULL, NULL), -EIO);
		CHECK_OK(dlbuf_acquire(copy.t[i], DLBUF_READ, NULL, NULL));
		CHECK_OK(dlbuf_release(copy.t[i], NULL, NULL));
		cts_delete(copy.t[i]);
	}
	CHECK_OK(dlbuf_device_drain(s->dev, 0));
	CHECK_EQ(__atomic_load_n(&other.fired, __ATOMIC_ACQUIRE), 1);
	CHECK_EQ(other.result, -EIO);
	close_scene(s, ANY);
}

/* Wrong arguments, one and several at once: the same code and the same text. */
static void same_arguments(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), closed = cts_alloc("udmabuf", BYTES);
	DLBUF_OPTS(dlbuf_import_opts, read, .access = DLBUF_READ);
	int64_t shape[] = { BYTES };
	DLTensor layout = LAYOUT8(1, shape);
	DLManagedTensorVersioned *t = NULL, *list[1];

	REQUIRE_OK(dlbuf_import(dev, fd, &layout, &read, &t));
	close(closed);
	for (unsigned int i = 0; i < 64; i++) {
		DLBUF_OPTS(dlbuf_acquire_opts, opts, .flags = i & 2 ? 1u << 30 : 0,
			   .fence = i & 4 ? closed : 0);
		uint32_t access = i & 8 ? 77 : i & 16 ? DLBUF_WRITE : DLBUF_READ;
		char said[256] = "";
		int one, all;

		list[0] = i & 1 ? NULL : t;
		if (i & 32)
			CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
		one = dlbuf_acquire(list[0], access, NULL, &opts);
		if (one)
			snprintf(said, sizeof(said), "%s", dlbuf_last_error());
		else
			CHECK_OK(dlbuf_release(t, NULL, NULL));
		all = dlbuf_acquire_all(list, 1, access, NULL, &opts);
		CHECK_MSG(all == one, "%u: %d, not %d: %s", i, all, one, dlbuf_last_error());
		if (all)
			CHECK_SAYS(said);
		else
			CHECK_OK(dlbuf_release(t, NULL, NULL));
		if (i & 32)
			CHECK_OK(dlbuf_release(t, NULL, NULL));
	}
	cts_delete(t);
}

/* ---- a thread that is cancelled, and a child */

struct cancelled {
	struct scene s;
	bool ended;
};

static void *goes_on(void *arg)
{
	struct cancelled *c = arg;
	int second = lab_fence(c->s.lab);

	pthread_cancel(pthread_self());
	pending_on(&c->s, c->s.fence);
	CHECK_EQ(lab_signal(c->s.lab, c->s.fence, -EIO), 0);
	CHECK_ERR(dlbuf_acquire(c->s.t[0], DLBUF_READ, NULL, NULL), -EIO);
	pending_on(&c->s, second);
	CHECK_EQ(lab_signal(c->s.lab, second, -EIO), 0);
	cts_delete(c->s.t[0]);
	cts_delete(c->s.t[1]);
	c->s.t[0] = c->s.t[1] = NULL;
	syscall(SYS_close, second);
	c->ended = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled(void *arg)
{
	struct cancelled c = { .ended = false };
	pthread_t thread;
	void *how;

	cts_need_cancel();
	open_scene(&c.s, false);
	REQUIRE(!pthread_create(&thread, NULL, goes_on, &c));
	REQUIRE(!pthread_join(thread, &how));
	CHECK(how == PTHREAD_CANCELED);
	REQUIRE(c.ended);
	close_scene(&c.s, -EIO);
}

/* A child that deletes its parent's tensors has no fd of theirs left. */
static void forked(void *arg)
{
	struct scene s;
	unsigned int fds;
	int status = 1;
	pid_t child;

	open_scene(&s, false);
	fds = cts_count_fds();
	pending_on(&s, s.fence);
	child = fork();
	if (!child) {
		cts_delete(s.t[0]);
		cts_delete(s.t[1]);
		/* Less: a child closes the sockets of simulators. */
		_exit(cts_count_fds() > fds);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	end_fence(&s, 0);
	close_scene(&s, 0);
}

void cts_cases_failed(void)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		ktap_case(cts_name("sync/failed/%s", ways[i].name), every_way, (void *)&ways[i]);
	ktap_case("sync/failed/told-once", told_once, NULL);
	ktap_case("sync/failed/other-pending", other_pending, NULL);
	ktap_case("sync/failed/same-states", same_states, NULL);
	ktap_case("sync/same-arguments", same_arguments, NULL);
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++)
		ktap_case(cts_name("sync/failed/%s", users[i].name), other_user,
			  (void *)&users[i]);
	ktap_case("sync/failed/copied", copied, NULL);
	ktap_case("sync/failed/after-release", after_release, NULL);
	ktap_case("sync/failed/release-fence", release_fence, NULL);
	ktap_case("sync/failed/acquire-fence", acquire_fence, NULL);
	ktap_case("sync/failed/merged", merged, NULL);
	ktap_case("sync/failed/producer-gone", producer_gone, NULL);
	ktap_case("sync/failed/output", output, NULL);
	ktap_case("sync/failed/cancelled", cancelled, NULL);
	ktap_case("sync/failed/forked", forked, NULL);
}
