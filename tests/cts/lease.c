// SPDX-License-Identifier: MIT
/*
 * Leases and fences: a frame's callback runs exactly once, after the last of
 * its tensors is deleted and the last fence of their releases has signalled.
 * Devices that wait by themselves get real fences, made by vgem; on the others
 * a release is complete when it returns, and the lease goes with the tensor.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cts.h"
#include "system/event.h"
#ifdef CONFIG_FAULT_INJECTION
#include "system/sys.h"
#endif

#define W 64u
#define H 32u
#define BYTES (W * H * 3 / 2)
#define NFENCES 4

/* ---- results of leases */

struct holder {
	pthread_mutex_t lock;
	unsigned int fired;
	pthread_t thread;	/* the last one's */
	void (*then)(void *);	/* a further action of the callback */
	void *arg;
};

#define HOLDER(...)                                     \
	{ .lock = PTHREAD_MUTEX_INITIALIZER,            \
	  __VA_ARGS__ }

static void fire(void *data)
{
	struct holder *h = data;

	if (h->then)
		h->then(h->arg);
	pthread_mutex_lock(&h->lock);
	h->fired++;
	h->thread = pthread_self();
	pthread_mutex_unlock(&h->lock);
}

static unsigned int fired(struct holder *h)
{
	unsigned int n;

	pthread_mutex_lock(&h->lock);
	n = h->fired;
	pthread_mutex_unlock(&h->lock);
	return n;
}

/* Waits until it has fired. */
static bool fires(struct holder *h)
{
	UNTIL(fired(h));
	return fired(h);
}

static bool fired_here(struct holder *h)
{
	return fired(h) == 1 && pthread_equal(h->thread, pthread_self());
}

static bool fired_elsewhere(struct holder *h)
{
	return fired(h) == 1 && !pthread_equal(h->thread, pthread_self());
}

/*
 * Waits for one callback on the event thread. Events that were ready before
 * have run their callbacks when this returns, so an event without a callback
 * was not ready.
 */
static void settle(void)
{
	struct holder h = HOLDER();
	int fd AUTO_FD = eventfd(0, EFD_CLOEXEC);

	if (fd < 0)
		FATAL("eventfd: %s", strerror(errno));
	if (dlbuf_fence_notify(fd, fire, &h))
		FATAL("dlbuf_fence_notify: %s", dlbuf_last_error());
	CHECK_EQ(eventfd_write(fd, 1), 0);
	CHECK(fires(&h));
	CHECK_EQ(fired(&h), 1);
}

/* An event is pending until its callback has returned. */
static void until_pending(unsigned int n)
{
	UNTIL(event_pending() == n);
}

/* ---- a frame on a device */

struct held {
	unsigned int fds;	/* open before */
	int fd;
	struct dlbuf_device *dev;
	bool fences;		/* the device waits for them by itself */
	bool events;		/* of a release, which end on another thread */
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
};

/* With a lease of its own, for h, or with the given one. */
static int import_with(struct held *f, struct holder *h,
		       struct dlbuf_lease *lease)
{
	struct dlbuf_frame frame = PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = f->fd, .pitch = W } },
		.release = lease ? NULL : fire, .release_data = h,
		.lease = lease);
	uint32_t n = 0;
	int ret = dlbuf_import_frame(f->dev, &frame, NULL, f->t, &n);

	if (!ret)
		CHECK_EQ(n, 2);
	return ret;
}

static int import_frame(struct held *f, struct holder *h)
{
	return import_with(f, h, NULL);
}

static void open_frame(struct held *f, struct holder *h)
{
	DLBUF_INFO(dlbuf_device_info, info);

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	*f = (struct held){ .fds = cts_count_fds() };
	f->fd = cts_alloc("udmabuf", BYTES);
	f->dev = cts_open();
	CHECK_OK(dlbuf_device_get_info(f->dev, &info));
	f->fences = info.acquire == DLBUF_SYNC_FENCE;
	f->events = info.release == DLBUF_SYNC_EVENT;
	REQUIRE_OK(import_frame(f, h));
}

static void close_frame(struct held *f)
{
	dlbuf_device_close(f->dev);
	close(f->fd);
}

static void close_frame_last(struct held *f)
{
	close_frame(f);
	cts_until_fds(f->fds);
}

static void delete_planes(struct held *f)
{
	cts_delete(f->t[1]);
	cts_delete(f->t[0]);
}

/*
 * An access that ends with this fence. If the device cannot take a fence, the
 * access ends by the device's own means, and is complete.
 */
static void access_until(struct held *f, DLManagedTensorVersioned *t,
			 struct cts_fence *fence)
{
	int before = -1;

	if (!f->fences) {
		CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
		CHECK_OK(dlbuf_release(t, NULL, NULL));
		return;
	}
	REQUIRE_OK(dlbuf_acquire_fence(t, DLBUF_READ, &before));
	CHECK_EQ(before, -1); /* readers do not wait for each other */
	CHECK_OK(dlbuf_release_fence(t, fence->sync_file));
}

/*
 * vgem's fences last ten seconds, and some devices take long to open. It is destroyed
 * after the frame.
 */
static void fence_after_open(struct held *f, struct cts_fence *fence)
{
	cts_fence_create(fence);
	f->fds += 2;
}

/* A frame with an access that ends with this fence. */
static void open_until(struct held *f, struct holder *h, int plane,
		       struct cts_fence *fence)
{
	open_frame(f, h);
	fence_after_open(f, fence);
	access_until(f, f->t[plane], fence);
}

/* The device waits by itself: nothing before the signal. */
static void signal_it(struct held *f, struct holder *h, struct cts_fence *fence)
{
	if (!f->fences)
		return;
	settle();
	CHECK_EQ(fired(h), 0);
	cts_fence_signal(fence);
}

/* The place where the lease fires: at the signal, on the event thread, or in the deletion. */
static void fires_once(struct held *f, struct holder *h,
		       struct cts_fence *fence)
{
	if (f->fences)
		until_pending(1);
	signal_it(f, h, fence);
	CHECK(f->fences || f->events ? fires(h) : fired_here(h));
	CHECK(!f->fences || fired_elsewhere(h));
	settle();
	until_pending(0);
	CHECK_EQ(fired(h), 1);
}

/* ---- one fence */

static void pending(void *arg)
{
	struct holder h = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct held f;

	open_until(&f, &h, 0, &fence);
	cts_delete(f.t[0]);
	CHECK_EQ(fired(&h), 0);
	cts_delete(f.t[1]);
	fires_once(&f, &h, &fence);
	close_frame_last(&f);
	CHECK_EQ(fired(&h), 1);
}

/* The other way round: the fence is first, and the lease goes at the delete. */
static void signalled(void *arg)
{
	struct holder h = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct held f;

	open_until(&f, &h, 0, &fence);
	cts_fence_signal(&fence);
	settle();
	/* One that has signalled is no reason to wait. */
	access_until(&f, f.t[1], &fence);
	settle();
	until_pending(0);
	cts_delete(f.t[1]);
	CHECK_EQ(fired(&h), 0);
	cts_delete(f.t[0]);
	CHECK(fired_here(&h));
	close_frame_last(&f);
	CHECK_EQ(fired(&h), 1);
}

/* ---- several */

/*
 * Planes, shares and a legacy share, accesses one after another on one tensor,
 * a fence for each; they are deleted and signal in other orders.
 */
static void several(void *arg)
{
	static const int order[NFENCES] = { 2, 0, 3, 1 };
	struct cts_fence fences[NFENCES];
	DLManagedTensorVersioned *share = NULL;
	DLManagedTensor *old = NULL;
	struct holder h = HOLDER();
	struct held f;

	open_frame(&f, &h);
	REQUIRE_OK(dlbuf_tensor_share(f.t[1], NULL, &share));
	REQUIRE_OK(dlbuf_tensor_share_legacy(f.t[1], &old));
	for (int i = 0; i < NFENCES; i++)
		fence_after_open(&f, &fences[i]);
	access_until(&f, f.t[0], &fences[0]);
	access_until(&f, f.t[0], &fences[1]);
	access_until(&f, f.t[1], &fences[2]);
	access_until(&f, share, &fences[3]);
	cts_delete(f.t[0]);
	cts_delete(share);
	cts_delete(f.t[1]);
	/* A framework has it still. */
	if (f.fences)
		cts_fence_signal(&fences[order[0]]);
	settle();
	CHECK_EQ(fired(&h), 0);
	old->deleter(old);
	for (int i = 1; f.fences && i < NFENCES; i++) {
		settle();
		CHECK_EQ(fired(&h), 0);
		until_pending(NFENCES - i);
		cts_fence_signal(&fences[order[i]]);
	}
	if (f.fences)
		CHECK(fires(&h) && fired_elsewhere(&h));
	else
		CHECK(f.events ? fires(&h) : fired_here(&h));
	settle();
	CHECK_EQ(fired(&h), 1);
	close_frame_last(&f);
	for (int i = 0; i < NFENCES; i++)
		cts_fence_destroy(&fences[i]);
}

/* Two frames on one buffer, each with a lease of its own. */
static void two_frames(void *arg)
{
	struct holder h = HOLDER(), other = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct held f, g;

	open_frame(&f, &h);
	fence_after_open(&f, &fence);
	g = f;
	REQUIRE_OK(import_frame(&g, &other));
	access_until(&f, f.t[0], &fence);
	delete_planes(&f);
	settle();
	if (f.fences)
		CHECK_EQ(fired(&h), 0);
	else
		CHECK(fires(&h));
	/* It has not touched the buffer; its fences are none of its business. */
	delete_planes(&g);
	CHECK(fired_here(&other));
	if (f.fences)
		cts_fence_signal(&fence);
	CHECK(fires(&h));
	settle();
	CHECK_EQ(fired(&h), 1);
	CHECK_EQ(fired(&other), 1);
	close_frame_last(&f);
}

/*
 * One lease for imports of a frame on this device, twice, and on the CPU: after
 * the last one's work, and its creator.
 */
static void shared(void *arg)
{
	struct holder own = HOLDER(), h = HOLDER(), late = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct dlbuf_lease *lease;
	struct held f, again, cpu;

	open_until(&f, &own, 0, &fence);
	again = cpu = f;
	cpu.fences = cpu.events = false;
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu.dev));
	REQUIRE_OK(dlbuf_lease_create(fire, &h, &lease));
	REQUIRE_OK(import_with(&cpu, NULL, lease));
	REQUIRE_OK(import_with(&again, NULL, lease));
	delete_planes(&f);
	REQUIRE_OK(import_with(&f, NULL, lease));
	dlbuf_lease_drop(lease);
	access_until(&cpu, cpu.t[1], NULL);
	access_until(&f, f.t[0], &fence);
	delete_planes(&cpu);
	CHECK_EQ(fired(&h), 0);
	delete_planes(&f);
	settle();
	CHECK_EQ(fired(&h), 0);
	delete_planes(&again);
	if (f.fences) {
		settle();
		CHECK_EQ(fired(&h), 0);
		cts_fence_signal(&fence);
	}
	CHECK(fires(&h));
	settle();
	CHECK_EQ(fired(&h), 1);
	CHECK(fires(&own));

	/* The creator is last; an import that failed holds nothing. */
	REQUIRE_OK(dlbuf_lease_create(fire, &late, &lease));
	REQUIRE_OK(import_with(&f, NULL, lease));
	REQUIRE_OK(import_with(&cpu, NULL, lease));
	again.fd = -1;
	CHECK_ERR(import_with(&again, NULL, lease), -EBADF);
	delete_planes(&f);
	delete_planes(&cpu);
	settle();
	CHECK_EQ(fired(&late), 0);
	dlbuf_lease_drop(lease);
	CHECK(fired_here(&late));
	dlbuf_device_close(cpu.dev);
	close_frame_last(&f);
	CHECK_EQ(fired(&h), 1);
}

/* ---- deleted while acquired */

static void deleted_acquired(void *arg)
{
	struct holder h = HOLDER();
	struct held f;
	int fence = -1;

	open_frame(&f, &h);
	CHECK_OK(dlbuf_acquire(f.t[0], DLBUF_RW, NULL, NULL));
	delete_planes(&f);
	CHECK(fires(&h));
	CHECK_EQ(fired(&h), 1);

	/* Begun without the device, ended by the deleter. */
	if (f.fences) {
		struct holder again = HOLDER();

		REQUIRE_OK(import_frame(&f, &again));
		REQUIRE_OK(dlbuf_acquire_fence(f.t[1], DLBUF_WRITE, &fence));
		if (fence != -1)
			close(fence);
		delete_planes(&f);
		CHECK(fires(&again));
		settle();
		CHECK_EQ(fired(&again), 1);
	}
	settle();
	CHECK_EQ(fired(&h), 1);
	close_frame_last(&f);
}

static void *delete_it(void *arg)
{
	delete_planes(arg);
	return NULL;
}

/*
 * The deleter releases work that waits for another device's: whether it blocks
 * for the work or leaves an event behind, the lease does not fire earlier.
 */
static void deleted_waiting(void *arg)
{
	struct holder h = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	pthread_t thread;
	struct held f;

	open_frame(&f, &h);
	fence_after_open(&f, &fence);
	if (!f.fences)
		cts_fence_signal(&fence); /* or the acquire would wait */
	CHECK_OK(dlbuf_fence_import(f.fd, DLBUF_WRITE, fence.sync_file));
	CHECK_OK(dlbuf_acquire(f.t[0], DLBUF_READ, NULL, NULL));
	CHECK_EQ(pthread_create(&thread, NULL, delete_it, &f), 0);
	signal_it(&f, &h, &fence);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(fires(&h));
	settle();
	CHECK_EQ(fired(&h), 1);
	close_frame_last(&f);
}

/* ---- drained */

struct drains {
	struct holder holder;
	struct dlbuf_device *dev;
	int ret;
};

static void drain_here(void *arg)
{
	struct drains *d = arg;

	d->ret = dlbuf_device_drain(d->dev, 0);
}

/* The state when the device is closed. */
static void dispatch_all(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (dlbuf_dispatch_fd(NULL)) {
		CHECK_EQ(poll(&p, 1, -1), 1);
		CHECK(dlbuf_dispatch() >= 0);
	}
	close(fd);
}

/*
 * Waits until the device's leases have fired that wait for its work, and not for
 * a live tensor. A callback of the library's thread must not call this. by_hand:
 * there is no such thread, and the callbacks run in the calls.
 */
static void drained(void *by_hand)
{
	int poll_fd = -1;
	struct drains d = { .holder = HOLDER(.then = drain_here, .arg = &d),
			    .ret = 1 };
	struct holder other = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct held f, g;

	if (by_hand)
		CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	open_until(&f, &d.holder, 0, &fence);
	d.dev = f.dev;
	g = f;
	REQUIRE_OK(import_frame(&g, &other));
	CHECK_ERR(dlbuf_device_drain(NULL, 0), -EINVAL);
	CHECK_OK(f.fences ? 0 : dlbuf_device_drain(f.dev, 0));
	delete_planes(&f);
	if (f.fences) {
		CHECK_ERR_SAYS(dlbuf_device_drain(f.dev, 1), -ETIME, "leases");
		CHECK_EQ(fired(&d.holder), 0);
		cts_fence_signal(&fence);
	}
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	CHECK_EQ(fired(&d.holder), 1);
	CHECK(!by_hand || fired_here(&d.holder));
	/* Only if the deletion fires the lease, no wait for the callback is needed. */
	if (f.fences)
		CHECK_EQ(d.ret, -EBUSY);
	else
		CHECK(!d.ret || (f.events && d.ret == -EBUSY));
	CHECK_EQ(fired(&other), 0);
	delete_planes(&g);
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	CHECK_EQ(fired(&other), 1);
	if (!by_hand) {
		close_frame_last(&f);
		return;
	}
	close_frame(&f);
	dispatch_all(poll_fd);
	cts_until_fds(f.fds - 4);
}

/* A stream may wait for an action of dlbuf_dispatch(), so a drain without a limit dispatches. */
static void drain_dispatches(void *arg)
{
	struct cts_fence fence AUTO_FENCE;
	DLBUF_INFO(dlbuf_device_info, info);
	DLManagedTensorVersioned *t;
	struct dlbuf_device *dev;
	int fd AUTO_FD = -1, poll_fd;

	(void)arg;
	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	fd = cts_alloc("udmabuf", BYTES);
	dev = cts_open();
	t = cts_import(dev, fd, BYTES);
	cts_fence_create(&fence);
	CHECK_OK(dlbuf_fence_import(fd, DLBUF_WRITE, fence.sync_file));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE)
		cts_fence_signal(&fence);
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	if (info.acquire == DLBUF_SYNC_FENCE)
		cts_fence_signal(&fence);
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK_OK(dlbuf_device_drain(dev, 0));
	cts_delete(t);
	dlbuf_device_close(dev);
	dispatch_all(poll_fd);
}

/* ---- other ends */

/* The test never signals; vgem does after 10 s, as a kernel must. */
static void expiry(void *arg)
{
	struct holder h = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct held f;

	open_until(&f, &h, 1, &fence);
	delete_planes(&f);
	CHECK(fires(&h));
	if (f.fences)
		CHECK_OK(dlbuf_fence_wait(fence.sync_file, 1));
	settle();
	CHECK_EQ(fired(&h), 1);
	close_frame_last(&f);
}

struct busy {
	struct held f;
	struct holder inner;
	struct cts_fence fence;
};

/* All calls that a callback may make; the last user closes the device. */
static void do_much(void *arg)
{
	struct busy *b = arg;

	if (!CHECK_OK(import_frame(&b->f, &b->inner)))
		return;
	CHECK_OK(dlbuf_acquire(b->f.t[0], DLBUF_RW, NULL, NULL));
	CHECK_OK(dlbuf_release(b->f.t[0], NULL, NULL));
	delete_planes(&b->f);
	dlbuf_device_trim(b->f.dev, 0);
	dlbuf_device_close(b->f.dev);
}

static void callback(void *arg)
{
	struct busy b = { .inner = HOLDER() };
	struct holder h = HOLDER(.then = do_much, .arg = &b);

	open_until(&b.f, &h, 0, &b.fence);
	delete_planes(&b.f);
	fires_once(&b.f, &h, &b.fence);
	CHECK(fires(&b.inner));
	close(b.f.fd);
	cts_until_fds(b.f.fds);
	CHECK_EQ(fired(&h), 1);
	CHECK_EQ(fired(&b.inner), 1);
	cts_fence_destroy(&b.fence);
}

/* The device is closed, the tensors go, and the fence is the last. */
static void device_closed(void *arg)
{
	struct holder h = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	struct held f;

	open_until(&f, &h, 0, &fence);
	close_frame(&f);
	CHECK_EQ(fired(&h), 0);
	delete_planes(&f);
	fires_once(&f, &h, &fence);
	cts_until_fds(f.fds);
	CHECK_EQ(fired(&h), 1);
}

/* ---- cancellation */

static void *delete_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	delete_planes(arg);
	pthread_testcancel();
	return NULL;
}

/*
 * The thread that deletes has been cancelled, and everything that the last
 * tensor holds goes with it, through calls that are cancellation points.
 */
static void cancelled(void *arg)
{
	struct holder h = HOLDER();
	struct cts_fence fence AUTO_FENCE;
	void *end = NULL;
	pthread_t thread;
	struct held f;

	cts_need_cancel();
	open_until(&f, &h, 0, &fence);
	CHECK_OK(dlbuf_acquire(f.t[1], DLBUF_READ, NULL, NULL));
	close_frame(&f);
	CHECK_EQ(pthread_create(&thread, NULL, delete_cancelled, &f), 0);
	CHECK_EQ(pthread_join(thread, &end), 0);
	CHECK(end == PTHREAD_CANCELED);
	signal_it(&f, &h, &fence);
	CHECK(fires(&h));
	cts_until_fds(f.fds);
	CHECK_EQ(fired(&h), 1);
}

/* ---- the process ends */

static int pipe_end;

static void tell(void *arg)
{
	ssize_t n = write(pipe_end, "x", 1);

	(void)n;
}

/* In a child: leave main() with a lease that is pending. */
static void exit_pending(void)
{
	static struct holder h = HOLDER(.then = tell);
	static struct cts_fence fence;
	static struct held f;

	open_until(&f, &h, 0, &fence);
	if (!f.fences)
		CHECK_OK(dlbuf_acquire(f.t[0], DLBUF_READ, NULL, NULL));
	else
		delete_planes(&f);
	exit(0);
}

static void exits(void *arg)
{
	int fds[2], status = -1;
	struct cts_fence fence;
	char c;
	pid_t pid;

	/* The child has its own; without vgem this skips the case. */
	cts_fence_create(&fence);
	cts_fence_destroy(&fence);
	REQUIRE(!pipe(fds));
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid) {
		close(fds[0]);
		pipe_end = fds[1];
		exit_pending();
	}
	close(fds[1]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	/* Not called early in the name of order. */
	CHECK_EQ(read(fds[0], &c, 1), 0);
	close(fds[0]);
}

/* ---- failures */

#ifdef CONFIG_FAULT_INJECTION
static void silent(void *data, enum dlbuf_log_level level, const char *text)
{
}

/* Each call inside of a release or a deleter fails once; the lease does not. */
static bool failing_release(unsigned long n, bool by_delete)
{
	struct holder h = HOLDER();
	unsigned long calls;
	struct held f;
	int ret = 0;

	open_frame(&f, &h);
	CHECK_OK(dlbuf_acquire(f.t[0], DLBUF_RW, NULL, NULL));
	fault_at(n);
	if (!by_delete)
		ret = dlbuf_release(f.t[0], NULL, NULL);
	delete_planes(&f);
	calls = fault_count();
	fault_at(0);
	if (ret) {
		CHECK(ret < 0 && dlbuf_last_error()[0]);
		CHECK(n <= calls);
	}
	CHECK(fires(&h));
	close_frame_last(&f);
	CHECK_EQ(fired(&h), 1);
	return n < calls;
}

static void release_fails(void *arg)
{
	unsigned long n;

	dlbuf_log_set(silent, NULL, DLBUF_LOG_NONE);
	for (n = 1; failing_release(n, false); n++)
		;
	for (n = 1; failing_release(n, true); n++)
		;
}

struct releasing {
	struct held f;
	struct cts_fence *fence;
	unsigned long fault, calls;
	pid_t tid;		/* atomic */
	bool done;		/* atomic */
	bool ended;		/* the access, with the fence */
};

static void *release_with_fault(void *arg)
{
	struct releasing *r = arg;
	DLBUF_INFO(dlbuf_tensor_info, info);
	int ret;

	fault_at(r->fault);
	__atomic_store_n(&r->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	ret = dlbuf_release_fence(r->f.t[0], r->fence->sync_file);
	r->calls = fault_count();
	fault_at(0);
	if (ret)
		CHECK(ret < 0 && dlbuf_last_error()[0]);
	CHECK_OK(dlbuf_tensor_get_info(r->f.t[0], &info));
	r->ended = !info.acquired;
	/* A release that failed but ended the access has waited for the fence. */
	if (ret && r->ended)
		CHECK_OK(dlbuf_fence_wait(r->fence->sync_file, 1));
	if (r->ended)
		delete_planes(&r->f);
	__atomic_store_n(&r->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * One call of a release with a pending fence fails: of the event, its thread
 * or the dma-buf's ioctl. With any way of waiting, the lease is not early.
 */
static bool failing_event(unsigned long n, unsigned int *waited)
{
	struct holder h = HOLDER();
	struct cts_fence fence;
	struct releasing r = { .fence = &fence, .fault = n };
	pthread_t thread;
	int before = -1;

	open_frame(&r.f, &h);
	fence_after_open(&r.f, &fence);
	REQUIRE_OK(dlbuf_acquire_fence(r.f.t[0], DLBUF_READ, &before));
	CHECK_EQ(pthread_create(&thread, NULL, release_with_fault, &r), 0);
	/* It is through, or waits for the fence. */
	cts_until_polls(&r.tid, &r.done);
	*waited += !__atomic_load_n(&r.done, __ATOMIC_ACQUIRE);
	CHECK_MSG(!fired(&h), "with failure %lu", n);
	cts_fence_signal(&fence);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	if (!r.ended)
		delete_planes(&r.f);
	CHECK(fires(&h));
	close_frame_last(&r.f);
	CHECK_EQ(fired(&h), 1);
	cts_fence_destroy(&fence);
	return n <= r.calls;
}

static void no_thread(void *arg)
{
	struct holder h = HOLDER();
	unsigned int waited = 0;
	unsigned long n;
	struct held f;

	dlbuf_log_set(silent, NULL, DLBUF_LOG_NONE);
	open_frame(&f, &h);
	delete_planes(&f);
	close_frame_last(&f);
	if (!f.fences)
		SKIP("no release of this device waits for an event");
	for (n = 1; failing_event(n, &waited); n++)
		;
	ktap_note(NULL, 0, "%lu calls, the failure of %u made it wait", n - 1,
		  waited);
	/* Memory, the dup, epoll, eventfd, the thread, epoll_ctl, the import. */
	CHECK(waited >= 6);
}
#endif

void cts_cases_lease(void)
{
	ktap_case("lease/pending", pending, NULL);
	ktap_case("lease/signalled", signalled, NULL);
	ktap_case("lease/several", several, NULL);
	ktap_case("lease/two-frames", two_frames, NULL);
	ktap_case("lease/shared", shared, NULL);
	ktap_case("lease/deleted-acquired", deleted_acquired, NULL);
	ktap_case("lease/deleted-waiting", deleted_waiting, NULL);
	ktap_case("drain/leases", drained, NULL);
	ktap_case("drain/dispatched", drained, (void *)"by hand");
	ktap_case("drain/dispatches", drain_dispatches, NULL);
	ktap_case("lease/expiry", expiry, NULL);
	ktap_case("lease/callback", callback, NULL);
	ktap_case("lease/device-closed", device_closed, NULL);
	ktap_case("lease/cancelled", cancelled, NULL);
	ktap_case("lease/exit", exits, NULL);
#ifdef CONFIG_FAULT_INJECTION
	ktap_case("fault/lease-release", release_fails, NULL);
	ktap_case("fault/lease-event", no_thread, NULL);
#endif
}
