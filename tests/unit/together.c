// SPDX-License-Identifier: MIT
/*
 * Several tensors in one call, with a backend that the test controls: the
 * brackets that begin and end, the state after a failure, and the one fd of
 * several. No dma-buf is needed: eventfds replace dma-bufs and sync_files.
 * tests/cts has the kernel's behaviour.
 */
#define KTAP_UNSEEN
#include <fcntl.h>

#include "common.h"
#include "eventfd.h"

#include "system/event.h"
#include "dmabuf/fence.h"
#include "access/lease.h"

#define NIMPORTS 20
#define NTENSORS 40

static struct {
	int fences[NIMPORTS];	/* of each dma-buf, lent, or -1: signalled */
	int export_ret;
	unsigned int exports, merges, imports;
	unsigned int import_fails;	/* the n-th; 0: none */
	int merge_ret;
} kernel;

static int note_export(int fd, uint32_t access, int *fence);
static int note_import(int fd, const struct buffer_id *id, uint32_t access,
		       int fence);
static int note_merge(int a, int b, int *out);
static int note_file(int fence);
/* No dma-buf is idle, so the fences of each are queried. */
#define fence_buffer_idle(fd, access) 0
#define dlbuf_fence_export note_export
#define fence_import note_import
#define dlbuf_fence_merge note_merge
#define fence_check_file note_file
#include "../../lib/access/pending.c"
#include "../../lib/tensor/sync.c"
#include "../../lib/tensor/together.c"

/* ---------------------------------------------------------------- a device */

static struct {
	unsigned int acquires, releases;
	unsigned int calls;	/* of acquire_all() and release_all() */
	unsigned int acquire_fails, release_fails;	/* the n-th; 0: none */
	int fence;		/* of the last acquire */
	void *stream;		/* of the last release */
	int out[NIMPORTS];	/* the results of a release, taken; -1 */
	int work;		/* the result of release_all(), lent; 0: -1 */
} device;

static unsigned int leases[2];	/* atomic; how often each has fired */

struct fixture {
	struct dlbuf_device dev, other;
	struct import imp[NIMPORTS];
	DLManagedTensorVersioned *t[NTENSORS];
	size_t n;
};

static struct fixture f;
static int x;			/* its address is a stream */

static int note_export(int fd, uint32_t access, int *fence)
{
	int i = 0;

	(void)access;
	kernel.exports++;
	if (kernel.export_ret)
		return fail(kernel.export_ret, "no export");
	while (f.imp[i].fd != fd)
		i++;
	*fence = kernel.fences[i] == -1 ? new_event(1) :
		 fcntl(kernel.fences[i], F_DUPFD_CLOEXEC, 3);
	return 0;
}

static int note_import(int fd, const struct buffer_id *id, uint32_t access,
		       int fence)
{
	kernel.imports++;
	return kernel.imports == kernel.import_fails ?
	       fail(-EIO, "no import %u", kernel.imports) : 0;
}

/* Eventfds replace sync_files here. */
static int note_file(int fence)
{
	return fence == -5 ? fail(-EBADF, "not open") : 0;
}

/* They cannot be merged, so the second is used for both. */
static int note_merge(int a, int b, int *out)
{
	kernel.merges++;
	if (kernel.merge_ret)
		return fail(kernel.merge_ret, "no merge");
	*out = fcntl(b, F_DUPFD_CLOEXEC, 3);
	return 0;
}

static int fake_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
			int fence)
{
	device.acquires++;
	device.fence = fence;
	return device.acquires == device.acquire_fails ?
	       fail(-EIO, "no acquire") : 0;
}

static int fake_release(struct import *imp, uint32_t access, const struct access_stream *stream,
			int *fence, int *end)
{
	int *out = &device.out[imp - f.imp];

	device.releases++;
	device.stream = stream->handle;
	if (fence) {
		*fence = *out;
		*out = -1;
	}
	return device.releases == device.release_fails ?
	       fail(-EIO, "no release %u", device.releases) : 0;
}

static int fake_stream(struct dlbuf_device *dev, struct access_stream *stream, bool ends)
{
	return 0;
}

static int fake_acquire_all(const struct bracket *b, uint32_t n, const struct access_stream *stream,
			    int fence)
{
	unsigned int before = device.acquires;

	CHECK(n >= 1 && n <= MAX_BRACKETS);
	device.calls++;
	for (uint32_t i = 0; i < n; i++)
		if (fake_acquire(b[i].imp, b[i].access, stream, fence))
			return device.acquires = before, -EIO;
	return 0;
}

static int fake_release_all(const struct bracket *b, uint32_t n, const struct access_stream *stream,
			    int *fence)
{
	int ret = 0;

	CHECK(n >= 1 && n <= MAX_BRACKETS);
	device.calls++;
	for (uint32_t i = 0; !ret && i < n; i++)
		ret = fake_release(b[i].imp, b[i].access, stream, NULL, NULL);
	*fence = !ret && device.work ? dup(device.work) : -1;
	return ret;
}

static const struct backend fake_backend = {
	.name = "fake",
	.stream = fake_stream,
	.acquire = fake_acquire,
	.release = fake_release,
}, several_backend = {
	.name = "several",
	.stream = fake_stream,
	.acquire = fake_acquire,
	.release = fake_release,
	.acquire_all = fake_acquire_all,
	.release_all = fake_release_all,
};
static const struct backend *used = &fake_backend;

/* Runs a case for both, between these calls. */
#define BOTH_BETWEEN(fn, begin, end)				\
	static void fn##_with(void);				\
	TEST(fn)						\
	{							\
		used = &fake_backend;				\
		begin, fn##_with(), end;			\
		used = &several_backend;			\
		begin, fn##_with(), end;			\
	}							\
	static void fn##_with(void)
#define BOTH(fn) BOTH_BETWEEN(fn, (void)0, (void)0)
/* Tensors of these imports, see begin_with(). */
#define TENSORS_CASE(fn, imports) \
	TEST_BETWEEN(fn, begin_with(DLBUF_SYNC_FENCE, imports), end())
#define BOTH_TENSORS(fn, imports) \
	BOTH_BETWEEN(fn, begin_with(DLBUF_SYNC_FENCE, imports), end())

static void add_tensor(struct dlbuf_device *dev, struct import *imp,
		       struct lease *lease)
{
	int64_t shape = 1;
	DLTensor layout = LAYOUT8(1, &shape);
	struct tensor *t;

	imp->refs++;
	REQUIRE_OK(tensor_create(imp, &layout, 0, 1, lease, NULL, &t));
	f.t[f.n++] = &t->versioned;
}

/* A letter per tensor, that of its import. */
static void begin_with(enum dlbuf_sync in, const char *imports)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	f = (struct fixture){
		.dev = { .backend = used, .name = "fake", .refs = 1,
			 .acquire_sync = in, .release_sync = DLBUF_SYNC_FENCE,
			 .generation = fork_generation },
	};
	f.other = f.dev;
	memset(&device, 0, sizeof(device));
	memset(&kernel, 0, sizeof(kernel));
	memset(leases, 0, sizeof(leases));
	cache_init(&f.dev.cache, &(struct dlbuf_device_opts){ 0 });
	for (int i = 0; i < NIMPORTS; i++) {
		f.imp[i] = (struct import){ .dev = &f.dev, .refs = 1,
			.id.access = DLBUF_RW, .fd = new_event(0),
			.release_sync = DLBUF_SYNC_FENCE };
		kernel.fences[i] = device.out[i] = -1;
	}
	for (; *imports; imports++)
		add_tensor(&f.dev, &f.imp[*imports - 'a'], NULL);
	event_user_add();
}

static void delete(size_t i)
{
	f.t[i]->deleter(f.t[i]);
	f.t[i] = NULL;
}

static void end(void)
{
	for (size_t i = 0; i < f.n; i++)
		if (f.t[i])
			delete(i);
	UNTIL(!event_pending());
	event_user_remove();
	for (int i = 0; i < NIMPORTS; i++) {
		CHECK_EQ(f.imp[i].refs, 1);
		close(f.imp[i].fd);
		if (device.out[i] != -1)
			close(device.out[i]);
	}
	cache_finish(&f.dev.cache);
}

static uint32_t acquired(size_t i)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_OK(dlbuf_tensor_get_info(f.t[i], &info));
	return info.acquired;
}

static void all_acquired(uint32_t access)
{
	for (size_t i = 0; i < f.n; i++)
		CHECK_EQ(acquired(i), access);
}

static int acquire(const struct dlbuf_acquire_opts *opts)
{
	return dlbuf_acquire_all(f.t, f.n, DLBUF_RW, &x, opts);
}

/* ---------------------------------------------------------------- brackets */

static const struct brackets {
	const char *imports;
	unsigned int brackets;
} brackets[] = {
	{ "a", 1 }, { "aa", 1 }, { "ab", 2 }, { "aab", 2 }, { "abab", 2 },
	{ "abc", 3 }, { "cbacba", 3 }, { "abcabcabcabc", 3 },
};

/* One bracket and one look at the fences for each import, in any order. */
BOTH(one_bracket_per_import)
{
	for (size_t i = 0; i < ARRAY_SIZE(brackets); i++) {
		const struct brackets *b = &brackets[i];
		int fence = 77;

		begin_with(DLBUF_SYNC_FENCE, b->imports);
		CHECK_OK(acquire(NULL));
		CHECK_EQ(device.acquires, b->brackets);
		CHECK_EQ(kernel.exports, b->brackets);
		all_acquired(DLBUF_RW);
		CHECK_ERR(acquire(NULL), -EBUSY);
		all_acquired(DLBUF_RW);
		CHECK_OK(dlbuf_release_all(f.t, f.n, NULL, &fence));
		CHECK_EQ(fence, -1);
		CHECK_EQ(device.releases, b->brackets);
		CHECK(!device.stream);
		all_acquired(0);
		end();
	}
}

/* The device waits for the pending fences of all of them, merged. */
BOTH(one_merged_fence)
{
	int one AUTO_FD = new_event(0), two AUTO_FD = new_event(0);
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .fence = new_event(0));

	begin_with(DLBUF_SYNC_FENCE, "aabc");
	kernel.fences[0] = one;
	kernel.fences[2] = two;
	CHECK_OK(acquire(&opts));
	CHECK_EQ(kernel.merges, 2);
	CHECK(device.fence != -1);
	CHECK_OK(dlbuf_release_all(f.t, f.n, &x, NULL));
	end();
	/* The tensors have kept it, to report its error. */
	CHECK(fcntl(device.fence, F_GETFD) < 0);
	close(opts.fence);
}

static void release_one(size_t i)
{
	CHECK_OK(dlbuf_release(f.t[i], &x, NULL));
}

static void release_list(size_t i)
{
	CHECK_OK(dlbuf_release_all(&f.t[i], 1, &x, NULL));
}

/* The last of them ends the bracket, however it ends itself. */
BOTH(the_last_one_ends_it)
{
	static void (*const ways[])(size_t i) = { release_one, release_list,
						   delete };

	for (int i = 0; i < 9; i++) {
		begin_with(DLBUF_SYNC_FENCE, "aaa");
		CHECK_OK(acquire(NULL));
		ways[i / 3](1);
		ways[i % 3](0);
		CHECK_EQ(device.releases, 0);
		CHECK_EQ(acquired(2), DLBUF_RW);
		ways[(i + 1) % 3](2);
		CHECK_EQ(device.releases, 1);
		CHECK(device.stream == &x);
		end();
	}
}

BOTH_TENSORS(parts_end_on_the_stream_of_the_acquire, "aab")
{
	int fence AUTO_FD = 77;

	CHECK_OK(acquire(NULL));
	CHECK_ERR_SAYS(dlbuf_release(f.t[0], NULL, NULL), -EINVAL, "on the stream of the acquire");
	CHECK_ERR(dlbuf_release_all(&f.t[1], 2, NULL, NULL), -EINVAL);
	CHECK_ERR_SAYS(dlbuf_release(f.t[0], &x, &fence), -EBUSY, "not released yet");
	CHECK_ERR(dlbuf_release_all(&f.t[1], 2, &x, &fence), -EBUSY);
	all_acquired(DLBUF_RW);
	CHECK_EQ(device.releases, 0);
	/* A bracket of one tensor ends on any stream. */
	CHECK_OK(dlbuf_release(f.t[2], NULL, &fence));
	CHECK_OK(dlbuf_release(f.t[0], &x, NULL));
	/* The end must include earlier work of that stream. */
	CHECK_ERR(dlbuf_release(f.t[1], NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_release_all(&f.t[1], 1, NULL, NULL), -EINVAL);
	device.out[0] = new_event(0);
	CHECK_OK(dlbuf_release(f.t[1], &x, &fence));
	CHECK_EQ(fence_signalled(fence), 0);
}

/* The caller's own fence of one tensor does not hide the work of the others. */
BOTH_TENSORS(release_fence_of_one, "aa")
{
	CHECK_OK(acquire(NULL));
	CHECK_OK(dlbuf_release(f.t[0], &x, NULL));
	CHECK_EQ(device.releases, 0);
	CHECK_OK(dlbuf_release_fence(f.t[1], -1));
	CHECK_EQ(device.releases, 1);
	CHECK(device.stream == &x);
}

/* ---------------------------------------------------------------- all or nothing */

TEST(a_failure_leaves_nothing)
{
	DLBUF_OPTS(dlbuf_acquire_opts, bad, .fence = -5);
	DLBUF_OPTS(dlbuf_acquire_opts, unknown, .flags = 2);

	begin_with(DLBUF_SYNC_FENCE, "aabcc");
	for (unsigned int i = 1; i <= 3; i++) {
		device.acquires = device.releases = 0;
		device.acquire_fails = i;
		CHECK_ERR_SAYS(acquire(NULL), -EIO, "no acquire");
		CHECK_EQ(device.acquires, i);
		CHECK_EQ(device.releases, i - 1);
		all_acquired(0);
	}
	device.acquires = device.acquire_fails = 0;
	CHECK_ERR(acquire(&bad), -EBADF);
	CHECK_ERR(acquire(&unknown), -EINVAL);
	kernel.export_ret = -EIO;
	CHECK_ERR(acquire(NULL), -EIO);
	kernel.export_ret = 0;
	CHECK_ERR(dlbuf_acquire_all(f.t, f.n, 4, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire_all(NULL, 1, DLBUF_RW, NULL, NULL), -EINVAL);
	f.imp[2].id.access = DLBUF_READ;
	CHECK_ERR(acquire(NULL), -EACCES);
	f.imp[2].id.access = DLBUF_RW;
	/* The same tensor twice, another one that is acquired, another device. */
	add_tensor(&f.dev, &f.imp[0], NULL);
	CHECK_OK(dlbuf_acquire(f.t[5], DLBUF_READ, NULL, NULL));
	CHECK_ERR(acquire(NULL), -EBUSY);
	CHECK_OK(dlbuf_release(f.t[5], NULL, NULL));
	all_acquired(0);
	CHECK_ERR(dlbuf_acquire_all((DLManagedTensorVersioned *[]){ f.t[0],
		f.t[1], f.t[0] }, 3, DLBUF_READ, NULL, NULL), -EBUSY);
	CHECK_SAYS("tensor 2 is in the list twice: tensor 0 is the same");
	CHECK_ERR(dlbuf_acquire_all((DLManagedTensorVersioned *[]){ f.t[0],
		NULL }, 2, DLBUF_READ, NULL, NULL), -EINVAL);
	all_acquired(0);
	device.acquires = 0;
	f.imp[2].dev = &f.other;
	CHECK_ERR_SAYS(acquire(NULL), -EINVAL, "tensor 3 is of another device");
	f.imp[2].dev = &f.dev;
	CHECK_EQ(device.acquires, 0);
	all_acquired(0);
	end();
}

BOTH_TENSORS(a_refused_release_changes_nothing, "aabc")
{
	int fence = 77;

	CHECK_OK(dlbuf_acquire_all(f.t, 3, DLBUF_RW, &x, NULL));
	CHECK_ERR_SAYS(dlbuf_release_all(f.t, 4, &x, &fence), -EINVAL, "tensor 3 is not acquired");
	CHECK_ERR(dlbuf_release_all((DLManagedTensorVersioned *[]){ f.t[2],
		f.t[2] }, 2, &x, &fence), -EINVAL);
	CHECK_SAYS("twice");
	f.imp[1].dev = &f.other;
	CHECK_ERR(dlbuf_release_all(f.t, 3, &x, &fence), -EINVAL);
	f.imp[1].dev = &f.dev;
	CHECK_EQ(device.releases, 0);
	CHECK_EQ(fence, 77);
	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(acquired(i), DLBUF_RW);
	/* All accesses end, and the first failure is reported. */
	device.out[0] = new_event(0);
	device.release_fails = 2;
	CHECK_ERR_SAYS(dlbuf_release_all(f.t, 3, &x, &fence), -EIO, "no release 2");
	CHECK_EQ(fence, 77);
	all_acquired(0);
}

TEST(nothing_at_all)
{
	int fence = 77;

	CHECK_OK(dlbuf_acquire_all(NULL, 0, DLBUF_RW, NULL, NULL));
	CHECK_OK(dlbuf_release_all(NULL, 0, NULL, NULL));
	CHECK_OK(dlbuf_release_all(NULL, 0, NULL, &fence));
	CHECK_EQ(fence, -1);
}

/* ---------------------------------------------------------------- several at once */

static void lease_ends(void *data)
{
	__atomic_add_fetch((unsigned int *)data, 1, __ATOMIC_ACQ_REL);
}

static unsigned int fired(int i)
{
	return __atomic_load_n(&leases[i], __ATOMIC_ACQUIRE);
}

static const char *const letters = "abcdefghijklmnopqrst";

static unsigned int calls_for(unsigned int n)
{
	return (n + MAX_BRACKETS - 1) / MAX_BRACKETS;
}

/* The fence is added to each dma-buf, and each lease waits for it. */
TEST(calls_for_several)
{
	used = &several_backend;
	for (unsigned int n = 1; n <= NIMPORTS; n++) {
		int work AUTO_FD = new_event(0), fence AUTO_FD = -1;
		struct lease *lease;

		begin_with(DLBUF_SYNC_FENCE, letters + NIMPORTS - n);
		lease = lease_create(0);
		REQUIRE(lease);
		lease->release = lease_ends;
		lease->data = &leases[0];
		add_tensor(&f.dev, &f.imp[NIMPORTS - n], lease);
		lease_unref(lease);
		CHECK_OK(acquire(NULL));
		CHECK_EQ(device.calls, calls_for(n + 1));
		CHECK_EQ(device.acquires, n + 1);
		device.work = work;
		CHECK_OK(dlbuf_release_all(f.t, f.n, &x, &fence));
		CHECK_EQ(device.calls, 2 * calls_for(n + 1));
		CHECK_EQ(kernel.imports, n + 1);
		delete(n);
		CHECK_EQ(fired(0), 0);
		signal_event(work);
		UNTIL(fired(0) == 1);
		CHECK_EQ(fence_signalled(fence), 1);
		end();
	}
}

/* One call fails, or one dma-buf of several does. */
TEST(failures_of_several)
{
	int fence = 77;

	used = &several_backend;
	for (unsigned int i = 1; i <= NIMPORTS; i++) {
		begin_with(DLBUF_SYNC_FENCE, letters);
		device.acquire_fails = i;
		CHECK_ERR_SAYS(acquire(NULL), -EIO, "no acquire");
		/* The accesses of the call before it have begun, and end. */
		CHECK_EQ(device.acquires, i > MAX_BRACKETS ? MAX_BRACKETS : 0);
		CHECK_EQ(device.releases, device.acquires);
		all_acquired(0);
		device.acquire_fails = device.releases = 0;
		CHECK_OK(acquire(NULL));
		device.work = f.imp[0].fd;
		signal_event(device.work);
		kernel.import_fails = i;
		CHECK_ERR_SAYS(dlbuf_release_all(f.t, f.n, &x, &fence), -EIO, "no import");
		CHECK_EQ(device.releases, NIMPORTS);
		CHECK_EQ(kernel.imports, NIMPORTS);
		all_acquired(0);
		end();
	}
	CHECK_EQ(fence, 77);
}

/* ---------------------------------------------------------------- one fd */

static const struct one_row {
	const char *kinds;	/* of each import's fence: s, e, - */
	const char *signals;	/* in this order; after the last it is readable */
	unsigned int merges;
} one_rows[] = {
	{ "s--", "a", 0 }, { "-e-", "b", 0 }, { "ss-", "b", 1 },
	/* On one stream the last event is the end of all. */
	{ "ee-", "b", 0 }, { "e-e", "c", 0 },
	/* A sync_file and an event: both. */
	{ "se-", "ab", 0 }, { "es-", "ab", 0 }, { "es-", "ba", 0 },
	{ "sse", "bc", 1 }, { "sse", "cb", 1 },
};

static void one_fd_of(const struct one_row *r)
{
	int ends[3], fence = -1;

	begin_with(DLBUF_SYNC_FENCE, "abc");
	CHECK_OK(acquire(NULL));
	kernel.merges = 0;
	for (int i = 0; i < 3; i++) {
		ends[i] = new_event(0);
		if (r->kinds[i] == '-')
			continue;
		device.out[i] = dup(ends[i]);
		if (r->kinds[i] == 'e')
			f.imp[i].release_sync = DLBUF_SYNC_EVENT;
	}
	CHECK_OK(dlbuf_release_all(f.t, f.n, &x, &fence));
	CHECK_EQ(kernel.merges, r->merges);
	for (const char *s = r->signals; *s; s++) {
		CHECK_EQ(fence_signalled(fence), 0);
		signal_event(ends[*s - 'a']);
		/* Through the library's thread, if it is in this. */
		UNTIL(event_pending() <= strlen(s + 1));
	}
	CHECK_EQ(fence_signalled(fence), 1);
	close(fence);
	for (int i = 0; i < 3; i++)
		close(ends[i]);
	end();
}

TEST(one_fd_for_all)
{
	for (size_t i = 0; i < ARRAY_SIZE(one_rows); i++)
		one_fd_of(&one_rows[i]);
}

/* The call has waited for fences that cannot be merged. */
TENSORS_CASE(without_a_merge, "ab")
{
	int fence AUTO_FD = -1;

	CHECK_OK(acquire(NULL));
	kernel.merge_ret = -EMFILE;
	device.out[0] = new_event(0);
	device.out[1] = new_event(1);
	CHECK_OK(dlbuf_release_all(f.t, f.n, &x, &fence));
	CHECK_EQ(fence_signalled(fence), 0);
}

/* ---------------------------------------------------------------- leases */

/*
 * A lease fires when the bracket's work is complete, though its tensor was
 * released before that began. Two frames of one dma-buf have a bracket each.
 */
BOTH_TENSORS(leases_wait_for_the_bracket, "")
{
	struct lease *lease[2];
	int pending AUTO_FD = new_event(0);

	for (int i = 0; i < 2; i++) {
		lease[i] = lease_create(0);
		REQUIRE(lease[i]);
		lease[i]->release = lease_ends;
		lease[i]->data = &leases[i];
		add_tensor(&f.dev, &f.imp[0], lease[i]);
		add_tensor(&f.dev, &f.imp[0], lease[i]);
		lease_unref(lease[i]);
	}
	CHECK_OK(acquire(NULL));
	CHECK_EQ(device.acquires, 2);
	CHECK_OK(dlbuf_release(f.t[0], &x, NULL));
	delete(0);
	CHECK_EQ(device.releases, 0);
	device.out[0] = dup(pending);
	delete(1);
	CHECK_EQ(device.releases, 1);
	CHECK_EQ(fired(0), 0);
	CHECK(event_awaits(&f.dev) && !event_awaits(&f.other));
	delete(2);
	delete(3);
	CHECK_EQ(device.releases, 2);
	CHECK_EQ(fired(1), 1);
	signal_event(pending);
	UNTIL(!event_awaits(&f.dev));
	CHECK_EQ(fired(0), 1);
}

/* ---------------------------------------------------------------- pending */

TEST(what_is_pending)
{
	uint64_t full = UINT64_MAX - 1, all;
	int one AUTO_FD = -1, fd = 77;

	begin_with(DLBUF_SYNC_BLOCKS, "a");
	/* For a reader the fd in place of the dma-buf is not readable. */
	one = kernel.fences[0] = new_event(0);
	CHECK_OK(dlbuf_pending(f.t[0], DLBUF_READ, &fd));
	CHECK(fd >= 3 && fd != one && !fence_signalled(fd));
	signal_event(one);
	CHECK_EQ(fence_signalled(fd), 1);
	close(fd);
	/* Without sync_file: the dma-buf, and for a writer an event behind it. */
	kernel.export_ret = -EOPNOTSUPP;
	CHECK_OK(dlbuf_pending(f.t[0], DLBUF_READ, &fd));
	CHECK(!fence_signalled(fd));
	signal_event(f.imp[0].fd);
	CHECK_EQ(fence_signalled(fd), 1);
	close(fd);
	CHECK_OK(dlbuf_pending(f.t[0], DLBUF_READ, &fd));
	CHECK_EQ(fd, -1);
	CHECK_EQ(read(f.imp[0].fd, &all, sizeof(all)), sizeof(all));
	CHECK_EQ(write(f.imp[0].fd, &full, sizeof(full)), sizeof(full));
	CHECK_OK(dlbuf_pending(f.t[0], DLBUF_RW, &fd));
	/* Once through the thread: earlier ready leases have fired. */
	CHECK_OK(event_add(one, lease_ends, &leases[0]));
	UNTIL(fired(0));
	CHECK(!fence_signalled(fd));
	CHECK_EQ(read(f.imp[0].fd, &all, sizeof(all)), sizeof(all));
	CHECK_OK(dlbuf_fence_wait(fd, 0));
	close(fd);
	kernel.export_ret = -EIO;
	fd = 77;
	CHECK_ERR(dlbuf_pending(f.t[0], DLBUF_READ, &fd), -EIO);
	CHECK_ERR(dlbuf_pending(f.t[0], 0, &fd), -EINVAL);
	CHECK_ERR(dlbuf_pending(NULL, DLBUF_READ, &fd), -EINVAL);
	CHECK_ERR(dlbuf_pending(f.t[0], DLBUF_READ, NULL), -EINVAL);
	CHECK_EQ(fd, 77);
	end();
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static int walk(unsigned long n, unsigned long *calls)
{
	int ret, fd = -1, later = -1, ends[2];

	begin_with(DLBUF_SYNC_FENCE, "abab");
	for (int i = 0; i < 2; i++)
		device.out[i] = dup(ends[i] = new_event(1));
	device.work = ends[0];
	if (used == &fake_backend)
		f.imp[1].release_sync = DLBUF_SYNC_EVENT;
	fault_at(n);
	ret = acquire(NULL);
	if (!ret)
		ret = dlbuf_release_all(f.t, f.n, &x, &fd);
	/* An eventfd that is not readable replaces the dma-buf. */
	kernel.export_ret = -EOPNOTSUPP;
	if (!ret)
		ret = dlbuf_pending(f.t[0], DLBUF_READ, &later);
	kernel.export_ret = 0;
	*calls = fault_count();
	fault_at(0);
	all_acquired(0);
	CHECK_EQ(!ret, fd >= 3 && later >= 3);
	CHECK_OK(dlbuf_fence_wait(fd, 0));
	for (int i = 0; i < 2; i++)
		close(ends[i]);
	if (fd != -1)
		close(fd);
	if (later != -1)
		close(later);
	end();
	return ret;
}

BOTH(every_call_fails_once)
{
	unsigned long failed = 0, calls, some;

	CHECK_OK(walk(0, &calls));
	for (unsigned long n = 1; n <= calls; n++)
		failed += walk(n, &some) < 0;
	CHECK_MSG(failed > 3, "%lu of %lu calls", failed, calls);
}
#endif

KTAP_MAIN()
