// SPDX-License-Identifier: MIT
/*
 * Acquire and release in the core, with a backend that the test controls: results
 * that no device of tests/cts gives on request, and the state after a failure. The
 * two ioctls of a dma-buf are noted instead of made, because there is no dma-buf on
 * a build machine; eventfds replace sync_files.
 */
#define KTAP_UNSEEN
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "common.h"
#include "eventfd.h"

#include "system/event.h"
#include "dmabuf/fence.h"
#include "access/lease.h"

/* The requests to the kernel, and their results. */
static struct {
	int fences;		/* the dma-buf's, lent, or -1: signalled */
	int export_ret, import_ret;
	int idle;		/* poll()'s result: 1, 0 or an error */
	unsigned int exports, imports;
	uint32_t import_access;
	int imported;		/* a duplicate of the fence that was put on it, or -1 */
} dmabuf;

static int note_export(int fd, uint32_t access, int *fence);
static int note_import(int fd, const struct buffer_id *id, uint32_t access,
		       int fence);
static int note_fence_wait(int fence, uint64_t deadline_ns);
static int note_idle(int fd, uint32_t access);
#define fence_buffer_idle note_idle
#define dlbuf_fence_export note_export
#define fence_import note_import
#define dlbuf_fence_wait note_fence_wait
#include "../../lib/access/pending.c"
#include "../../lib/tensor/sync.c"
#undef dlbuf_fence_wait

static int note_export(int fd, uint32_t access, int *fence)
{
	CHECK(fd >= 3);
	dmabuf.exports++;
	if (dmabuf.export_ret)
		return fail(dmabuf.export_ret, "no export");
	*fence = dmabuf.fences == -1 ? new_event(1) :
		 fcntl(dmabuf.fences, F_DUPFD_CLOEXEC, 3);
	return 0;
}

static int note_idle(int fd, uint32_t access)
{
	CHECK(fd >= 3 && access);
	return dmabuf.idle < 0 ? fail(dmabuf.idle, "no poll") : dmabuf.idle;
}

static int note_import(int fd, const struct buffer_id *id, uint32_t access,
		       int fence)
{
	CHECK(fd >= 3);
	dmabuf.imports++;
	dmabuf.import_access = access;
	if (dmabuf.import_ret)
		return fail(dmabuf.import_ret, "no import");
	dmabuf.imported = fcntl(fence, F_DUPFD_CLOEXEC, 3);
	return 0;
}

static unsigned int fence_waits; /* atomic; that have begun */

static int note_fence_wait(int fence, uint64_t deadline_ns)
{
	__atomic_add_fetch(&fence_waits, 1, __ATOMIC_RELEASE);
	return dlbuf_fence_wait(fence, deadline_ns);
}

/* ---------------------------------------------------------------- a backend */

static struct {
	int acquire_ret, release_ret;
	unsigned int acquires, releases;
	uint32_t access;	/* of the last call */
	void *stream;
	int fence;		/* of the last acquire: pending, or -1 */
	int out, end;		/* release's results, taken; -1 */
} device = { .fence = -1, .out = -1, .end = -1 };

static int fake_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
			int fence)
{
	device.acquires++;
	device.access = access;
	device.stream = stream->handle;
	device.fence = fence;
	if (fence != -1)
		CHECK_EQ(fence_signalled(fence), 0);
	return device.acquire_ret ? fail(device.acquire_ret, "no acquire") : 0;
}

static int fake_release(struct import *imp, uint32_t access, const struct access_stream *stream,
			int *fence, int *end)
{
	device.releases++;
	if (end) {
		*end = device.end;
		device.end = -1;
	}
	device.access = access;
	device.stream = stream->handle;
	*fence = device.out;
	device.out = -1;
	return device.release_ret ? fail(device.release_ret, "no release") : 0;
}

/* A driver's calls may be cancellation points. */
static int fake_stream(struct dlbuf_device *dev, struct access_stream *stream, bool ends)
{
	pthread_testcancel();
	return 0;
}

static const struct backend fake_backend = {
	.name = "fake",
	.stream = fake_stream,
	.acquire = fake_acquire,
	.release = fake_release,
};

static struct fixture {
	struct dlbuf_device dev;
	struct import imp;
	DLManagedTensorVersioned *t;
	struct tensor *tensor;
	bool used;		/* atomic */
} f;

static unsigned int leases; /* atomic */

static void lease_ends(void *data)
{
	__atomic_add_fetch(&leases, 1, __ATOMIC_ACQ_REL);
}

static void begin_with(enum dlbuf_sync in, enum dlbuf_sync out, bool leased)
{
	int64_t shape = 1;
	DLTensor layout = LAYOUT8(1, &shape);
	struct lease *lease = NULL;

	f = (struct fixture){
		.dev = {
			.backend = &fake_backend,
			.name = "fake",
			.acquire_sync = in,
			.release_sync = out,
			.refs = 1,
			.generation = fork_generation,
		},
		.imp = {
			.dev = &f.dev,
			.id.access = DLBUF_RW,
			.release_sync = out,
			.refs = 2, /* ours too: the cache has no part in this */
			.fd = memfd_create("a dma-buf", MFD_CLOEXEC),
		},
	};
	dmabuf.fences = dmabuf.imported = -1;
	cache_init(&f.dev.cache, &(struct dlbuf_device_opts){ 0 });
	if (leased) {
		lease = calloc(1, sizeof(*lease));
		lease->release = lease_ends;
	}
	REQUIRE_OK(tensor_create(&f.imp, &layout, 0, 1, lease, NULL, &f.tensor));
	f.t = &f.tensor->versioned;
}

static void delete(void)
{
	if (f.t)
		f.t->deleter(f.t);
	f.t = NULL;
}

static void end_with(void)
{
	delete();
	CHECK_EQ(f.imp.refs, 1);
	cache_finish(&f.dev.cache);
	close(f.imp.fd);
	if (dmabuf.imported != -1)
		close(dmabuf.imported);
}

static uint32_t acquired(void)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };

	CHECK_OK(dlbuf_tensor_get_info(f.t, &info));
	return info.acquired;
}

#define SYNC_CASE(name, in, out, leased)					\
	TEST_BETWEEN(name, begin_with(DLBUF_SYNC_##in, DLBUF_SYNC_##out, leased), end_with())

/* ---------------------------------------------------------------- in */

/* One call shows that nothing is pending. */
SYNC_CASE(an_idle_dma_buf, FENCE, FENCE, false)
{
	dmabuf.idle = 1;
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	CHECK_EQ(dmabuf.exports, 0);
	CHECK_EQ(device.fence, -1);
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	dmabuf.idle = -EIO;
	CHECK_ERR(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL), -EIO);
	CHECK_EQ(acquired(), 0);
}

/* ---------------------------------------------------------------- out */

SYNC_CASE(the_fence_of_the_work_goes_on_the_dma_buf, FENCE, FENCE, false)
{
	int out, fence = -1;

	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	out = new_event(0);
	device.out = out;
	CHECK_OK(dlbuf_release(f.t, NULL, &fence));
	CHECK_EQ(dmabuf.imports, 1);
	CHECK_EQ(dmabuf.import_access, DLBUF_RW);
	CHECK_EQ(acquired(), 0);
	/* The caller's, and the dma-buf's, is the device's. */
	CHECK_EQ(fence, out);
	CHECK_EQ(fence_signalled(dmabuf.imported), 0);
	signal_event(fence);
	CHECK_EQ(fence_signalled(dmabuf.imported), 1);
	close(fence);
	/* Work that is complete needs no fence. */
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	CHECK_OK(dlbuf_release(f.t, NULL, &fence));
	CHECK_EQ(fence, -1);
	CHECK_EQ(dmabuf.imports, 1);
	CHECK_ERR(dlbuf_release(f.t, NULL, &fence), -EINVAL);
}

/* An eventfd is no fence that the kernel would take. */
SYNC_CASE(an_event_stays_off_the_dma_buf, BLOCKS, EVENT, false)
{
	int fence AUTO_FD = -1;

	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	device.out = new_event(0);
	CHECK_OK(dlbuf_release(f.t, NULL, &fence));
	CHECK_EQ(fence_signalled(fence), 0);
	CHECK_EQ(dmabuf.imports, 0);
}

static unsigned int rounds;	/* atomic */

static void note_round(void *data)
{
	__atomic_add_fetch(&rounds, 1, __ATOMIC_ACQ_REL);
}

/* A fence may signal early; the device's own event does not. */
TEST(the_lease_waits_for_the_device)
{
	int fence AUTO_FD = -1, end AUTO_FD = new_event(0);

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin_with(DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, true);
	event_user_add();
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	device.out = new_event(1);
	device.end = dup(end);
	CHECK_OK(dlbuf_release(f.t, NULL, &fence));
	delete();
	CHECK_EQ(fence_signalled(fence), 1);
	/* Once through the thread: earlier ready leases have fired. */
	CHECK_OK(event_add(fence, note_round, NULL));
	UNTIL(__atomic_load_n(&rounds, __ATOMIC_ACQUIRE));
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_ACQUIRE), 0);
	signal_event(end);
	UNTIL(!event_pending());
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_ACQUIRE), 1);
	end_with();
	event_user_remove();
}

static void *use_cancelled(void *data)
{
	pthread_cancel(pthread_self());
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	CHECK_OK(dlbuf_acquire_all(&f.t, 1, DLBUF_RW, NULL, NULL));
	CHECK_OK(dlbuf_release_all(&f.t, 1, NULL, NULL));
	__atomic_store_n(&f.used, true, __ATOMIC_RELEASE);
	pthread_testcancel();
	return NULL;
}

/* The check of a stream is a call of a driver. */
SYNC_CASE(a_cancelled_thread_checks_its_stream, FENCE, FENCE, false)
{
	pthread_t thread;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE(!pthread_create(&thread, NULL, use_cancelled, NULL));
	REQUIRE(!pthread_join(thread, NULL));
	CHECK(__atomic_load_n(&f.used, __ATOMIC_ACQUIRE));
	CHECK_EQ(device.acquires, 2);
	CHECK_EQ(device.releases, 2);
}

static void *delete_cancelled(void *data)
{
	pthread_cancel(pthread_self());
	delete();
	pthread_testcancel();
	return NULL;
}

static void log_cancelled(void *data, enum dlbuf_log_level level, const char *text)
{
	pthread_testcancel();
}

/* The log, by the library and by the application, does not end a cancelled thread. */
TEST(a_cancelled_deletion_is_logged)
{
	pthread_t thread;
	void *end;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (unsigned int i = 0; i < 2; i++) {
		begin_with(DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, true);
		CHECK_OK(dlbuf_acquire(f.t, DLBUF_WRITE, NULL, NULL));
		device.release_ret = -EIO;
		dlbuf_log_set(i ? log_cancelled : NULL, NULL, DLBUF_LOG_ERROR);
		REQUIRE(!pthread_create(&thread, NULL, delete_cancelled, NULL));
		REQUIRE(!pthread_join(thread, &end));
		CHECK(end == PTHREAD_CANCELED);
		CHECK_EQ(leases, i + 1);
		f.t = NULL;
		end_with();
	}
}

/* The application's own work is complete, and no stream is asked about it. */
SYNC_CASE(deletion_after_acquire_fence, FENCE, FENCE, true)
{
	int fence = 77;

	CHECK_OK(dlbuf_acquire_fence(f.t, DLBUF_RW, &fence));
	CHECK_EQ(fence, -1);
	delete();
	CHECK_EQ(device.releases, 0);
	CHECK_EQ(dmabuf.imports, 0);
	CHECK_EQ(leases, 1);
}

/* ---------------------------------------------------------------- failures */

/* A deleter, even on the event thread, does not block if there is no fd. */
TEST(a_lease_waits_without_a_new_fd)
{
	struct rlimit files, none;
	int warm = new_event(1), pending AUTO_FD = -1;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin_with(DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, true);
	event_user_add();
	CHECK_OK(event_add(warm, lease_ends, NULL)); /* starts the thread */
	UNTIL(!event_pending());
	close(warm);
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	device.out = new_event(0);
	pending = dup(device.out);
	REQUIRE(!getrlimit(RLIMIT_NOFILE, &files));
	none = (struct rlimit){ 0, files.rlim_max };
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &none));
	delete();
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &files));
	CHECK_EQ(event_pending(), 1);
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_ACQUIRE), 1);
	signal_event(pending);
	UNTIL(!event_pending());
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_ACQUIRE), 2);
	end_with();
	event_user_remove();
}

SYNC_CASE(a_failed_acquire_has_not_begun, FENCE, FENCE, false)
{
	int pending AUTO_FD = new_event(0);

	dmabuf.fences = pending;
	device.acquire_ret = -EIO;
	CHECK_ERR(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL), -EIO);
	CHECK_EQ(acquired(), 0);
	CHECK_EQ(device.releases, 0);
	device.acquire_ret = 0;
	dmabuf.export_ret = -EIO;
	CHECK_ERR(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL), -EIO);
	CHECK_EQ(acquired(), 0);
	CHECK_EQ(device.acquires, 1);
	CHECK_ERR(dlbuf_acquire_fence(f.t, DLBUF_RW, &pending), -EIO);
	CHECK_EQ(acquired(), 0);
	dmabuf.export_ret = 0;
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	CHECK_ERR(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL), -EBUSY);
	CHECK_EQ(acquired(), DLBUF_RW);
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
}

SYNC_CASE(a_failed_release_has_ended, FENCE, FENCE, false)
{
	int fence = 77;

	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	device.release_ret = -EIO;
	CHECK_ERR(dlbuf_release(f.t, NULL, &fence), -EIO);
	CHECK_EQ(acquired(), 0);
	CHECK_EQ(fence, 77);
	CHECK_EQ(dmabuf.imports, 0);
	device.release_ret = 0;
	/* If a fence cannot be added to the dma-buf, the call has waited for it. */
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	dmabuf.import_ret = -EIO;
	device.out = new_event(1);
	CHECK_ERR(dlbuf_release(f.t, NULL, &fence), -EIO);
	CHECK_EQ(acquired(), 0);
	CHECK_EQ(fence, 77);
}

struct releaser {
	int ret;
	bool done; /* atomic */
};

static void *release_it(void *arg)
{
	struct releaser *r = arg;

	r->ret = dlbuf_release(f.t, NULL, NULL);
	__atomic_store_n(&r->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void check_waits(int import_ret, int ret)
{
	struct releaser r = { 0 };
	pthread_t thread;
	int writer AUTO_FD = -1;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin_with(DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, false);
	CHECK_OK(dlbuf_acquire(f.t, DLBUF_RW, NULL, NULL));
	dmabuf.import_ret = import_ret;
	device.out = new_event(0);
	writer = fcntl(device.out, F_DUPFD_CLOEXEC, 3);
	REQUIRE(!pthread_create(&thread, NULL, release_it, &r));
	/* Through, or waiting for the fence. */
	UNTIL(__atomic_load_n(&r.done, __ATOMIC_ACQUIRE) ||
	      __atomic_load_n(&fence_waits, __ATOMIC_ACQUIRE));
	CHECK(!__atomic_load_n(&r.done, __ATOMIC_ACQUIRE));
	signal_event(writer);
	pthread_join(thread, NULL);
	CHECK_EQ(r.ret, ret);
	end_with();
}

TEST(a_fence_that_the_kernel_cannot_take_is_waited_for)
{
	check_waits(-EOPNOTSUPP, 0);
}

TEST(a_fence_that_the_kernel_refuses_is_waited_for)
{
	check_waits(-EIO, -EIO);
}

KTAP_MAIN()
