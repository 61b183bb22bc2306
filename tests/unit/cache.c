// SPDX-License-Identifier: MIT
/*
 * The cache's lists and table, with many buffers and in random order. There
 * are no dma-bufs on a build machine, so memfds stand in for them: they have
 * inode numbers of their own too. Cases that need the kernel's dma-bufs are in
 * tests/cts.
 */
#define KTAP_UNSEEN
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common.h"
#include "emulated.h"
#include "ktap.h"

#include "dmabuf/buffer.h"
#include "system/event.h"
#include "access/pending.h"
#include "tensor/tensor.h"

static int memfd_size(int fd, int callers, uint64_t *bytes);
static unsigned int identified;	/* atomic */

static int identify(int fd, struct buffer_id *id)
{
	__atomic_add_fetch(&identified, 1, __ATOMIC_RELAXED);
	return buffer_identify(fd, id);
}
#define buffer_identify identify
#define buffer_size memfd_size
#include "../../lib/import/cache.c"
#include "../../lib/import/import.c"
#undef buffer_size
#undef buffer_identify

static int memfd_size(int fd, int callers, uint64_t *bytes)
{
	struct stat st;

	if (sys_fstat(fd, &st) < 0)
		return fail_errno("fd %d: fstat()", callers);
	*bytes = st.st_size;
	return 0;
}

/* ---------------------------------------------------------------- a backend */

static struct {
	unsigned int imports, unimports, closes; /* atomic */
	int refuse;		/* the result of import() */
	unsigned int waits;	/* for work that has no fence */
	bool starved;		/* atomic: -ENOMEM until something is given back */
	pthread_barrier_t *meet; /* inside import() */
	void (*gone)(struct import *imp);
	bool busy;		/* atomic: work of imports runs */
	bool held;		/* atomic: others hold their dma-bufs */
	unsigned int looks;	/* atomic: how often that was seen */
	void (*at_wait)(struct import *imp);
} fake;

static int fake_import(struct import *imp)
{
	if (fake.meet)
		pthread_barrier_wait(fake.meet);
	if (fault_hit())
		return fail(-EIO, "the driver failed");
	if (fake.refuse)
		return fail(fake.refuse, "the driver refused");
	if (__atomic_load_n(&fake.starved, __ATOMIC_RELAXED))
		return fail(-ENOMEM, "the driver has no memory");
	__atomic_add_fetch(&fake.imports, 1, __ATOMIC_RELAXED);
	imp->data = &fake;
	imp->path = DLBUF_PATH_DIRECT;
	return 0;
}

static bool fake_unimport(struct import *imp, bool wait)
{
	/* A driver's calls may be cancellation points. */
	pthread_testcancel();
	if ((__atomic_load_n(&fake.busy, __ATOMIC_ACQUIRE) && !wait) ||
	    !cache_unlist(imp))
		return false;
	imp->held = __atomic_load_n(&fake.held, __ATOMIC_ACQUIRE);
	__atomic_add_fetch(&fake.looks, imp->held, __ATOMIC_RELAXED);
	if (imp->held)
		return false;
	__atomic_add_fetch(&fake.unimports, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&fake.starved, false, __ATOMIC_RELAXED);
	if (fake.gone)
		fake.gone(imp);
	return true;
}

static void fake_close(struct dlbuf_device *dev)
{
	fake.closes++;
	free(dev);
}

static int fake_wait(struct import *imp, uint32_t access, uint64_t deadline_ns)
{
	fake.waits++;
	if (fake.at_wait)
		fake.at_wait(imp);
	return 0;
}

static const struct backend fake_backend = {
	.name = "fake",
	.type = kDLExtDev,
	.import_size = sizeof(struct import),
	.close = fake_close,
	.import = fake_import,
	.unimport = fake_unimport,
	.wait = fake_wait,
};

static struct dlbuf_device *device_of(uint32_t max_idle, uint64_t max_bytes,
				      uint32_t flags)
{
	struct dlbuf_device_opts opts = {
		.cache_max_idle = max_idle,
		.cache_max_bytes = max_bytes,
		.flags = flags,
	};
	struct dlbuf_device *dev = calloc(1, sizeof(*dev));

	REQUIRE(dev);
	strcpy(dev->name, "fake");
	device_init(dev, &fake_backend, &opts);
	return dev;
}

static struct dlbuf_device *device(uint32_t max_idle)
{
	return device_of(max_idle, 0, max_idle ? 0 : DLBUF_DEVICE_NO_CACHE);
}

static int buffer(uint64_t bytes)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(!ftruncate(fd, bytes));
	return fd;
}

static int get_end(struct dlbuf_device *dev, int fd, uint64_t end,
		   struct import **out)
{
	return cache_get(dev, fd, 0, PATHS_SHARED, end, out);
}

static struct import *get(struct dlbuf_device *dev, int fd)
{
	struct import *imp = NULL;

	REQUIRE_OK(get_end(dev, fd, 1, &imp));
	return imp;
}

static struct dlbuf_device_stats stats(struct dlbuf_device *dev)
{
	struct dlbuf_device_stats s = { .size = sizeof(s) };

	cache_get_stats(&dev->cache, &s);
	return s;
}

/* ---------------------------------------------------------------- cases */

/* ---- brief imports */

static struct import *get_as(struct dlbuf_device *dev, int fd, uint32_t paths)
{
	struct import *imp = NULL;

	REQUIRE_OK(cache_get(dev, fd, 0, paths, 1, &imp));
	return imp;
}

#define BRIEF (PATHS_SHARED | PATHS_BRIEF)

/* The requests of one buffer that leave an idle import. Twice: the guess, too. */
TEST(a_brief_import_goes_with_its_last_user)
{
	static const struct {
		uint32_t first, second, third;
		uint32_t idle;
	} rows[] = {
		{ BRIEF, BRIEF, BRIEF, 0 },
		{ BRIEF, PATHS_SHARED, BRIEF, 1 },
		{ BRIEF, BRIEF, PATHS_SHARED, 1 },
		{ PATHS_SHARED, BRIEF, BRIEF, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlbuf_device *dev AUTO_DEV = device(4);
		int fd AUTO_FD = buffer(4096);
		struct import *a = get_as(dev, fd, rows[i].first);

		CHECK(get_as(dev, fd, rows[i].second) == a);
		CHECK(get_as(dev, fd, rows[i].third) == a);
		for (int n = 0; n < 3; n++)
			cache_unref(a);
		CHECK_EQ(stats(dev).idle, rows[i].idle);
		CHECK_EQ(stats(dev).idle_bytes, rows[i].idle * 4096);
		CHECK_EQ(stats(dev).evictions, 0);
		/* Idle and used again, it stays one that is kept. */
		cache_unref(get_as(dev, fd, BRIEF));
		CHECK_EQ(stats(dev).idle, rows[i].idle);
	}
	CHECK_EQ(fake.imports, fake.unimports);
	CHECK_EQ(fake.closes, ARRAY_SIZE(rows));
}

/* A request that is refused, or a guess that was wrong, keeps nothing. */
TEST(a_brief_import_stays_brief)
{
	struct dlbuf_device *dev AUTO_DEV = device(4);
	int fd AUTO_FD = buffer(4096), other AUTO_FD = buffer(4096);
	struct import *a = get_as(dev, fd, BRIEF), *b = NULL;

	CHECK(get_as(dev, fd, BRIEF) == a);
	CHECK_ERR(get_end(dev, fd, 4097, &b), -ERANGE);
	CHECK_EQ(dup2(other, fd), fd);
	b = get(dev, fd);
	CHECK(b != a);
	cache_unref(a);
	cache_unref(a);
	CHECK_EQ(stats(dev).idle, 0);
	cache_unref(b);
	CHECK_EQ(stats(dev).idle, 1);
}

/* ---- staging buffers */

static struct import *staging(struct dlbuf_device *dev, uint64_t bytes)
{
	struct import *imp = cache_take_staging(&dev->cache, bytes);
	struct buffer_id id;
	int fd;

	if (imp)
		return imp;
	fd = buffer(bytes);
	REQUIRE_OK(buffer_identify(fd, &id));
	REQUIRE_OK(import_create(dev, fd, &id, id.access, PATHS_SHARED, 0,
				 &imp));
	imp->staging = true;
	cache_add(&dev->cache, imp);
	close(fd);
	return imp;
}

TEST(staging_is_used_again)
{
	struct dlbuf_device *dev = device(16);
	struct import *a = staging(dev, 8192), *b, *c;

	CHECK(a->staging);
	CHECK_EQ(stats(dev).live, 1);
	CHECK_EQ(stats(dev).live_bytes, 8192);
	/* In use it has no other user, and it is never found by identity. */
	b = staging(dev, 8192);
	CHECK(b != a);
	c = get(dev, a->fd);
	CHECK(c != a && c != b);
	cache_unref(c);
	cache_unref(b);
	cache_unref(a);
	CHECK_EQ(stats(dev).idle, 3);
	CHECK_EQ(stats(dev).idle_bytes, 3 * 8192);
	/* The last that was used, except one that is too small or too large. */
	CHECK(!cache_take_staging(&dev->cache, 8193));
	CHECK(!cache_take_staging(&dev->cache, 4096));
	CHECK(staging(dev, 4097) == a);
	CHECK(staging(dev, 8192) == b);
	CHECK_EQ(stats(dev).live, 2);
	cache_ref(a);
	cache_unref(a);
	CHECK_EQ(stats(dev).live, 2);
	cache_unref(a);
	cache_unref(b);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(stats(dev).idle, 0);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.imports, 3);
	CHECK_EQ(fake.unimports, 3);
}

TEST(staging_is_bounded)
{
	struct dlbuf_device *dev = device(256);
	struct import *many[3 * CACHE_MAX_STAGING];
	int fd = buffer(4096);

	cache_unref(get(dev, fd));
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = staging(dev, 65536);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		cache_unref(many[i]);
	CHECK_EQ(stats(dev).idle, CACHE_MAX_STAGING + 1);
	CHECK_EQ(stats(dev).evictions, 2 * CACHE_MAX_STAGING);
	/* Others were not pushed out for it. */
	cache_unref(get(dev, fd));
	CHECK_EQ(stats(dev).hits, 1);
	close(fd);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.imports, fake.unimports);
}

TEST(staging_that_is_not_needed_goes)
{
	struct dlbuf_device *dev = device(256);
	struct import *a = staging(dev, 8192), *b = staging(dev, 8192);

	cache_unref(a);
	cache_unref(b);
	for (int i = 0; i <= CACHE_STALE; i++)
		cache_unref(staging(dev, 8192));
	CHECK_EQ(stats(dev).idle, 1);
	dlbuf_device_close(dev);

	/* Without a cache, at once. */
	dev = device(0);
	cache_unref(staging(dev, 8192));
	CHECK_EQ(stats(dev).idle, 0);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.closes, 2);
}

TEST(an_end_beyond_the_buffer)
{
	struct dlbuf_device *dev AUTO_DEV = device(4);
	int fd AUTO_FD = buffer(4096);
	struct import *imp = NULL;

	/* Seen first, and seen before. */
	CHECK_ERR(get_end(dev, fd, 4097, &imp), -ERANGE);
	CHECK_EQ(stats(dev).live + stats(dev).idle, 0);
	imp = get(dev, fd);
	cache_unref(imp);
	imp = NULL;
	CHECK_ERR(get_end(dev, fd, 4097, &imp), -ERANGE);
	CHECK(!imp);
	CHECK_EQ(stats(dev).idle, 1);
	CHECK_OK(get_end(dev, fd, 4096, &imp));
	cache_unref(imp);
}

TEST(a_refusal_leaves_nothing)
{
	struct dlbuf_device *dev = device(4);
	int fd = buffer(4096);
	struct import *imp = NULL;

	fake.refuse = -EOPNOTSUPP;
	CHECK_ERR_SAYS(get_end(dev, fd, 1, &imp), -EOPNOTSUPP, "refused");
	CHECK(!imp);
	CHECK_EQ(stats(dev).live + stats(dev).idle + stats(dev).misses, 0);
	close(fd);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.closes, 1);
}

TEST(a_number_replaced_in_between)
{
	struct dlbuf_device *dev = device(4);
	int fd = buffer(4096), other = buffer(4096);
	struct import *imp = NULL;
	struct buffer_id id;

	/* Another thread closes the fd and the number is given out again. */
	CHECK_OK(buffer_identify(fd, &id));
	CHECK_EQ(dup2(other, fd), fd);
	CHECK_ERR_SAYS(import_create(dev, fd, &id, id.access, PATHS_SHARED, 1, &imp), -EBADF,
		       "replaced");
	close(fd);
	close(other);
	CHECK_ERR(import_create(dev, fd, &id, id.access, PATHS_SHARED, 1,
				&imp), -EBADF);
	CHECK(!imp);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.imports, 0);
}

TEST(without_a_cache)
{
	struct dlbuf_device *dev AUTO_DEV = device(0);
	int fd AUTO_FD = buffer(4096);
	struct import *a = get(dev, fd), *b = get(dev, fd);

	/* Users at the same time share even so. */
	CHECK(a == b);
	cache_unref(a);
	CHECK_EQ(fake.unimports, 0);
	cache_unref(b);
	CHECK_EQ(fake.unimports, 1);
	CHECK_EQ(stats(dev).idle, 0);
}

TEST(unused_for_a_thousand_imports)
{
	struct dlbuf_device *dev AUTO_DEV = device(8);
	int old AUTO_FD = buffer(4096), busy AUTO_FD = buffer(4096);
	struct import *imp = get(dev, busy);

	cache_unref(get(dev, old));
	for (int i = 0; i < CACHE_STALE; i++)
		cache_unref(get(dev, busy));
	CHECK_EQ(fake.unimports, 0);
	CHECK_EQ(stats(dev).idle, 1);
	cache_unref(get(dev, busy));
	CHECK_EQ(fake.unimports, 1);
	CHECK_EQ(stats(dev).idle, 0);
	CHECK_EQ(stats(dev).evictions, 1);
	cache_unref(imp);
}

/* ---- bounds */

TEST(bytes_are_bounded)
{
	struct dlbuf_device *dev AUTO_DEV = device_of(8, 40960, 0);
	int small AUTO_FD = buffer(4096), large AUTO_FD = buffer(36864);
	int huge AUTO_FD = buffer(40961);

	cache_unref(get(dev, small));
	cache_unref(get(dev, large));
	CHECK_EQ(stats(dev).idle_bytes, 40960);
	/* The least recently used goes; one that is too large by itself, too. */
	cache_unref(get(dev, small));
	cache_unref(get(dev, huge));
	CHECK_EQ(stats(dev).idle, 0);
	CHECK_EQ(stats(dev).evictions, 3);
	CHECK_EQ(fake.unimports, 3);
}

TEST(the_bounds_that_nobody_asked_for)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			  sysconf(_SC_PAGESIZE);
	struct rlimit files, few;
	struct dlbuf_device *dev;

	REQUIRE(!getrlimit(RLIMIT_NOFILE, &files));
	for (rlim_t n = 64; n <= 1024; n *= 4) {
		few = (struct rlimit){ n, files.rlim_max };
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
		dev = device_of(0, 0, 0);
		CHECK_EQ(dev->cache.max_idle, n / 4);
		CHECK_EQ(dev->cache.max_idle_bytes, memory / 8);
		dlbuf_device_close(dev);
	}
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &files));
}

static int import_by(struct dlbuf_device *dev, int fd,
		     DLManagedTensorVersioned **out)
{
	int64_t shape = 1;
	DLTensor layout = LAYOUT8(1, &shape);

	return dlbuf_import(dev, fd, &layout, NULL, out);
}

/* Idle imports, of any device, are dropped if their resources are missing. */
TEST(no_memory_while_others_idle)
{
	struct dlbuf_device *dev AUTO_DEV = device(8), *other AUTO_DEV = device(8);
	int a AUTO_FD = buffer(4096), b AUTO_FD = buffer(4096);
	int c AUTO_FD = buffer(4096);
	DLManagedTensorVersioned *t = NULL;

	cache_unref(get(dev, a));
	cache_unref(get(other, b));
	fake.starved = true;
	CHECK_OK(import_by(dev, c, &t));
	t->deleter(t);
	CHECK_EQ(fake.unimports, 2);
	CHECK_EQ(stats(other).idle, 0);
	/* Once more, and then it is the caller's. */
	fake.refuse = -EMFILE;
	CHECK_ERR(import_by(dev, a, &t), -EMFILE);
	CHECK_EQ(fake.unimports, 3);
	CHECK_EQ(stats(dev).idle, 0);
	fake.refuse = -EIO;
	CHECK_ERR(import_by(dev, a, &t), -EIO);
}

TEST(a_buffer_that_is_withdrawn)
{
	struct dlbuf_device *dev AUTO_DEV = device(8);
	int fd = buffer(4096), other = buffer(4096);
	struct import *imp = get(dev, fd), *r = NULL;
	struct buffer_id id;

	cache_unref(get(dev, other));
	CHECK_OK(cache_get(dev, fd, DLBUF_READ, PATHS_SHARED, 1, &r));
	cache_unref(r);
	CHECK_EQ(stats(dev).idle, 2);
	CHECK_OK(buffer_identify(fd, &id));
	cache_forget(dev, &id);
	/* The idle one goes, the one in use is found until its end. */
	CHECK_EQ(fake.unimports, 1);
	CHECK_EQ(stats(dev).idle, 1);
	cache_unref(imp);
	CHECK_EQ(fake.unimports, 2);
	/* One that comes back before its end is worth keeping again. */
	imp = get(dev, fd);
	cache_forget(dev, &id);
	cache_unref(get(dev, fd));
	cache_unref(imp);
	CHECK_EQ(stats(dev).idle, 2);
	cache_forget(dev, &id);
	CHECK_EQ(stats(dev).idle, 1);
	CHECK_ERR(dlbuf_device_forget(NULL, fd), -EINVAL);
	CHECK_ERR(dlbuf_device_forget(dev, fd), -EBADF); /* a memfd */
	close(fd);
	close(other);
	CHECK_ERR(dlbuf_device_forget(dev, fd), -EBADF);
}

/* ---- work without fences */

TEST(every_import_of_a_buffer_is_waited_for)
{
	struct dlbuf_device *devs[20];
	int fd AUTO_FD = buffer(4096), other AUTO_FD = buffer(4096);
	struct use uses[] = { { fd, DLBUF_WRITE, NULL, NULL },
			      { other, DLBUF_READ, NULL, NULL } };
	struct wait plain = { .fence = -1, .deadline_ns = 1 };
	int fence = -1;

	for (size_t i = 0; i < ARRAY_SIZE(devs); i++) {
		devs[i] = device(4);
		devs[i]->release_sync = i ? DLBUF_SYNC_EVENT : DLBUF_SYNC_FENCE;
		cache_unref(get(devs[i], fd));
	}
	cache_unref(get(devs[7], other));
	CHECK_OK(pending_wait_unfenced(&uses[0], NULL, 0));
	CHECK_EQ(fake.waits, 19);
	/* A device's own streams order its work; destinations of its copies count, too. */
	fake.waits = 0;
	plain.dev = devs[1];
	CHECK_OK(pending_before(uses, 2, &plain, &fence));
	CHECK_EQ(fake.waits, 18 + 1);
	for (size_t i = 0; i < ARRAY_SIZE(devs); i++)
		dlbuf_device_close(devs[i]);
}

/* A thread that waits for its work still finds it; after that no call does. */
static void end_of_work(struct import *imp)
{
	__atomic_store_n(&fake.busy, false, __ATOMIC_RELEASE);
	import_destroy_again(true);
	CHECK_EQ(fake.unimports, 0);
}

/* An import with work, which goes. */
static struct dlbuf_device *begin_to_go(int fd)
{
	struct dlbuf_device *dev = device(0);

	dev->release_sync = DLBUF_SYNC_EVENT;
	__atomic_store_n(&fake.busy, true, __ATOMIC_RELEASE);
	cache_unref(get(dev, fd));
	CHECK_EQ(__atomic_load_n(&fake.unimports, __ATOMIC_RELAXED), 0);
	CHECK_EQ(stats(dev).live, 0);
	CHECK_EQ(__atomic_load_n(&dev->ndying, __ATOMIC_ACQUIRE), 1);
	CHECK_ERR_SAYS(dlbuf_device_drain(dev, 1), -ETIME, "not all memory was free");
	return dev;
}

static void end_of_all(struct dlbuf_device *dev)
{
	dlbuf_device_close(dev);
	CHECK_EQ(fake.closes, 0);
	__atomic_store_n(&fake.busy, false, __ATOMIC_RELEASE);
	UNTIL(!event_pending());
	CHECK_EQ(fake.unimports, fake.imports);
	CHECK_EQ(fake.closes, 1);
}

TEST(work_is_found_after_the_import)
{
	int fd AUTO_FD = buffer(4096), status;
	struct use use = { fd, DLBUF_READ, NULL, NULL };
	struct dlbuf_device *dev = begin_to_go(fd);
	struct import *next;
	pid_t child;

	CHECK_OK(pending_wait_unfenced(&use, NULL, 0));
	CHECK_EQ(fake.waits, 1);
	/* It is not handed out, so a second one is made. */
	next = get(dev, fd);
	CHECK_EQ(stats(dev).misses, 2);
	CHECK_OK(pending_wait_unfenced(&use, NULL, 0));
	CHECK_EQ(fake.waits, 3);
	cache_unref(next);
	CHECK_EQ(__atomic_load_n(&dev->ndying, __ATOMIC_ACQUIRE), 2);
	/* A child has its own. */
	child = fork();
	/* TSan and qemu-user let no child of a process with threads start one; ASan's allocator has
	 * locks that a fork() beside a thread does not know. */
	if (!child && (KTAP_TSAN || KTAP_ASAN || is_emulated()))
		_exit(0);
	if (!child) {
		fake.imports = 0;
		end_of_all(begin_to_go(fd));
		_exit(fake.unimports != 1 || fake.closes != 1);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	end_of_all(dev);
}

TEST(no_import_goes_under_those_who_wait)
{
	int fd AUTO_FD = buffer(4096);
	struct use use = { fd, DLBUF_READ, NULL, NULL };
	struct dlbuf_device *dev AUTO_DEV = begin_to_go(fd);

	fake.at_wait = end_of_work;
	CHECK_OK(pending_wait_unfenced(&use, NULL, 0));
	fake.at_wait = NULL;
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(fake.unimports, 1);
	CHECK_OK(pending_wait_unfenced(&use, NULL, 0));
	CHECK_EQ(fake.waits, 1);
}

/* Each look is three system calls, however often the thread wakes up. */
TEST(few_looks_at_those_who_hold)
{
	int fd AUTO_FD = buffer(4096), n = 4 * MAX_LOOKS;
	struct dlbuf_device *dev = device(0);
	unsigned long wakes = event_wakeups();

	__atomic_store_n(&fake.held, true, __ATOMIC_RELEASE);
	for (int i = 0; i < n; i++)
		cache_unref(get(dev, fd));
	CHECK_OK(dlbuf_device_drain(dev, 0));	/* looks at each, and waits for none */
	for (int i = 0; i < 20; i++)
		import_destroy_again(false);
	/* A pass may have begun before its wakeup was counted. */
	wakes = event_wakeups() - wakes + 20 + 2;
	CHECK(__atomic_load_n(&fake.looks, __ATOMIC_RELAXED) <= 2 * n + wakes * MAX_LOOKS);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.closes, 0);
	__atomic_store_n(&fake.held, false, __ATOMIC_RELEASE);
	import_destroy_again(true);
	UNTIL(!event_pending());
	CHECK_EQ(fake.unimports, n);
	CHECK_EQ(fake.closes, 1);
}

/* The table grows twice, and every import is found again, from the third time on by its fd. */
#define MANY 1100

TEST(more_than_the_table_begins_with)
{
	static struct import *imports[MANY];
	struct rlimit files;
	struct dlbuf_device *dev = device(MANY);
	unsigned int lost = 0;

	REQUIRE(!getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max;
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &files));
	for (int i = 0; i < MANY; i++) {
		int fd AUTO_FD = buffer(4096);

		imports[i] = get(dev, fd);
	}
	CHECK(dev->cache.nbuckets > CACHE_BUCKETS * 4);
	CHECK_EQ(stats(dev).live, MANY);
	for (int round = 0; round < 3; round++) {
		identified = 0;
		for (int i = 0; i < MANY; i++) {
			lost += get(dev, imports[i]->fd) != imports[i];
			cache_unref(imports[i]);
		}
	}
	CHECK_EQ(lost, 0);
	/* Before Linux 6.10 no guess can be confirmed. */
	CHECK_EQ(identified, buffer_same_file(imports[0]->fd, imports[0]->fd) ? 0 : MANY);
	CHECK_EQ(stats(dev).misses, MANY);
	for (int i = 0; i < MANY; i++)
		cache_unref(imports[i]);
	/* So many may stay, and the first is not stale before all others were used. */
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++)
			cache_unref(get(dev, imports[i]->fd));
	CHECK_EQ(stats(dev).idle, MANY);
	CHECK_EQ(stats(dev).idle_bytes, 4096 * MANY);
	cache_trim(dev, 100);
	CHECK_EQ(stats(dev).idle, 100);
	CHECK_EQ(fake.unimports, MANY - 100);
	/* The latest to become idle are the ones left. */
	for (int i = MANY - 100; i < MANY; i++) {
		lost += get(dev, imports[i]->fd) != imports[i];
		cache_unref(imports[i]);
	}
	CHECK_EQ(lost, 0);
	dlbuf_device_close(dev);
	CHECK_EQ(fake.unimports, MANY);
}

/* ---------------------------------------------------------------- a model */

#define BUFFERS 24
#define IDLE 6
#define IDLE_BYTES (4096 * 60)

static uint64_t seed = 20261120;

static unsigned int draw(unsigned int n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * 2685821657736338717ull >> 33) % n;
}

/* The expected state: users of each buffer, and the idle ones, the last first. */
static struct {
	int fds[BUFFERS];
	struct import *imp[BUFFERS];	/* NULL: not in the cache */
	unsigned int users[BUFFERS];
	unsigned int idle[BUFFERS], nidle;
	unsigned int gone[64], ngone, nseen; /* buffers given up, a ring */
} model;

static void model_gone(struct import *imp)
{
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (model.imp[i] == imp)
			model.gone[model.ngone++ % 64] = i;
}

static void model_unidle(unsigned int b)
{
	unsigned int i = 0;

	while (i < model.nidle && model.idle[i] != b)
		i++;
	CHECK(i < model.nidle);
	model.nidle--;
	for (; i < model.nidle; i++)
		model.idle[i] = model.idle[i + 1];
}

/* The oldest idle one must be the next that the cache drops. */
static void model_evict(void)
{
	unsigned int oldest = model.idle[model.nidle - 1];

	CHECK(model.nseen < model.ngone);
	CHECK_EQ(model.gone[model.nseen++ % 64], oldest);
	model.imp[oldest] = NULL;
	model.nidle--;
}

static uint64_t model_bytes(void)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < model.nidle; i++)
		bytes += 4096 * (model.idle[i] + 1);
	return bytes;
}

static void model_get(struct dlbuf_device *dev, unsigned int b)
{
	struct import *imp = get(dev, model.fds[b]);

	if (model.imp[b])
		CHECK(imp == model.imp[b]);
	if (model.imp[b] && !model.users[b])
		model_unidle(b);
	model.imp[b] = imp;
	model.users[b]++;
}

static void model_put(unsigned int b)
{
	cache_unref(model.imp[b]);
	if (--model.users[b])
		return;
	for (unsigned int i = model.nidle++; i; i--)
		model.idle[i] = model.idle[i - 1];
	model.idle[0] = b;
	while (model.nidle > IDLE || model_bytes() > IDLE_BYTES)
		model_evict();
	CHECK_EQ(model.nseen, model.ngone);
}

TEST(random_against_a_model)
{
	struct dlbuf_device *dev = device_of(IDLE, IDLE_BYTES, 0);
	struct dlbuf_device_stats s;

	fake.gone = model_gone;
	for (unsigned int b = 0; b < BUFFERS; b++)
		model.fds[b] = buffer(4096 * (b + 1));
	for (int round = 0; round < 20000 && !ktap.result->failures; round++) {
		uint64_t live = 0, idle = 0, live_bytes = 0, idle_bytes = 0;
		unsigned int b = draw(BUFFERS), what = draw(100);

		if (what == 0) {
			unsigned int keep = draw(IDLE);

			cache_trim(dev, keep);
			while (model.nidle > keep)
				model_evict();
		} else if (what < 50 && model.users[b] < 3) {
			model_get(dev, b);
		} else if (model.users[b]) {
			model_put(b);
		}
		for (b = 0; b < BUFFERS; b++) {
			live += !!model.users[b];
			live_bytes += model.users[b] ? 4096 * (b + 1) : 0;
			idle += model.imp[b] && !model.users[b];
			idle_bytes += model.imp[b] && !model.users[b] ?
				      4096 * (b + 1) : 0;
		}
		s = stats(dev);
		CHECK_EQ(s.live, live);
		CHECK_EQ(s.idle, idle);
		CHECK_EQ(s.live_bytes, live_bytes);
		CHECK_EQ(s.idle_bytes, idle_bytes);
		CHECK_EQ(s.misses, fake.imports);
		CHECK_EQ(s.evictions, fake.unimports);
	}
	CHECK(fake.unimports > 1000);
	fake.gone = NULL;
	dlbuf_device_close(dev);
	for (unsigned int b = 0; b < BUFFERS; b++) {
		while (model.users[b]--)
			cache_unref(model.imp[b]);
		close(model.fds[b]);
	}
	CHECK_EQ(fake.imports, fake.unimports);
	CHECK_EQ(fake.closes, 1);
}

/* ---------------------------------------------------------------- threads */

static struct dlbuf_device *shared_dev;
static int shared_fds[8];

static void *import_once(void *arg)
{
	struct import **out = arg;

	pthread_cancel(pthread_self());
	CHECK_OK(get_end(shared_dev, shared_fds[0], 1, out));
	pthread_testcancel();
	return NULL;
}

/* They are cancelled, which no call of the library acts on. */
TEST(two_threads_import_the_same)
{
	struct import *imports[2] = { NULL };
	pthread_barrier_t meet;
	pthread_t threads[2];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	shared_dev = device(4);
	shared_fds[0] = buffer(4096);
	/* Both are inside the driver before either is in the table. */
	pthread_barrier_init(&meet, NULL, 2);
	fake.meet = &meet;
	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, import_once,
					&imports[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&meet);
	CHECK(imports[0] && imports[0] == imports[1]);
	CHECK_EQ(fake.imports, 2);
	CHECK_EQ(fake.unimports, 1);
	CHECK_EQ(stats(shared_dev).live, 1);
	CHECK_EQ(stats(shared_dev).live_bytes, 4096);
	cache_unref(imports[0]);
	CHECK_EQ(stats(shared_dev).live, 1);
	cache_unref(imports[1]);
	CHECK_EQ(stats(shared_dev).idle, 1);
	close(shared_fds[0]);
	dlbuf_device_close(shared_dev);
	CHECK_EQ(fake.unimports, 2);
}

static void *import_often(void *arg)
{
	unsigned int n = *(unsigned int *)arg;

	for (int i = 0; i < 1000; i++) {
		struct import *imp = NULL;

		n = n * 1664525 + 1013904223;
		if (get_end(shared_dev, shared_fds[n >> 29], 1, &imp)) {
			CHECK(!"an import failed");
			break;
		}
		cache_ref(imp);
		cache_unref(imp);
		if (n >> 20 & 1)
			cache_trim(shared_dev, n >> 21 & 3);
		cache_unref(imp);
	}
	return NULL;
}

TEST(many_threads)
{
	unsigned int seeds[4] = { 1, 2, 3, 4 };
	pthread_t threads[4];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	shared_dev = device(3);
	for (int i = 0; i < 8; i++)
		shared_fds[i] = buffer(4096);
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, import_often,
					&seeds[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(stats(shared_dev).live, 0);
	CHECK_EQ(stats(shared_dev).live_bytes, 0);
	CHECK_EQ(stats(shared_dev).hits + stats(shared_dev).misses, 4000);
	CHECK(stats(shared_dev).idle <= 3);
	dlbuf_device_close(shared_dev);
	for (int i = 0; i < 8; i++)
		close(shared_fds[i]);
	CHECK_EQ(fake.imports, fake.unimports);
	CHECK_EQ(fake.closes, 1);
}

static int shared_pipe[2];

static void *share_and_forget(void *arg)
{
	DLManagedTensorVersioned *t = arg, *other;

	CHECK_OK(dlbuf_tensor_share(t, NULL, &other));
	/* Forgotten, the import is a brief one. */
	cache_forget(shared_dev, &container_of(t, struct tensor, versioned)->imp->id);
	CHECK_EQ(syscall(SYS_write, shared_pipe[1], "x", 1), 1);
	return other;
}

/* One after the other; ThreadSanitizer does not know the order that these system calls make. */
TEST(threads_share_a_tensor)
{
	DLManagedTensorVersioned *t, *other[3];
	int64_t shape = 4096;
	DLTensor layout = LAYOUT8(1, &shape);
	pthread_t thread;
	char c;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	shared_dev = device(3);
	shared_fds[0] = buffer(4096);
	REQUIRE(!pipe(shared_pipe));
	REQUIRE_OK(dlbuf_import(shared_dev, shared_fds[0], &layout, NULL, &t));
	t->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
	REQUIRE(!pthread_create(&thread, NULL, share_and_forget, t));
	CHECK_EQ(syscall(SYS_read, shared_pipe[0], &c, 1), 1);
	CHECK_OK(dlbuf_tensor_share(t, NULL, &other[0]));
	CHECK_OK(dlbuf_tensor_import(shared_dev, t, NULL, &other[1]));
	pthread_join(thread, (void **)&other[2]);
	CHECK_EQ(t->flags, 0);
	for (int i = 0; i < 3; i++)
		other[i]->deleter(other[i]);
	t->deleter(t);
	CHECK_EQ(fake.unimports, 1);
	dlbuf_device_close(shared_dev);
	close(shared_fds[0]);
	close(shared_pipe[0]);
	close(shared_pipe[1]);
}

/* IS_COPIED promises a single owner, and each of these makes a second one. */
TEST(a_shared_copy_has_no_single_owner)
{
	int64_t shape = 4096, half = 2048;
	const DLTensor layout = LAYOUT8(1, &shape), view = LAYOUT8(1, &half);
	struct dlbuf_device *dev AUTO_DEV = device(3);
	DLManagedTensorVersioned *t, *other;
	DLManagedTensor *legacy;
	int fd AUTO_FD = buffer(4096);

	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
	for (int i = 0; i < 3; i++) {
		t->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
		if (i < 2) {
			REQUIRE_OK(dlbuf_tensor_share(t, i ? &view : NULL, &other));
			CHECK_EQ(other->flags, 0);
			other->deleter(other);
		} else {
			REQUIRE_OK(dlbuf_tensor_share_legacy(t, &legacy));
			legacy->deleter(legacy);
		}
		CHECK_EQ(t->flags, 0);
	}
	t->deleter(t);
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
TEST(each_call_that_can_fail)
{
	unsigned long n = 0;
	int ret;

	/* The n-th call fails, until there is none left that could. */
	do {
		struct dlbuf_device *dev AUTO_DEV = device(4);
		int fd AUTO_FD = buffer(4096);
		struct import *imp = NULL;

		fault_at(++n);
		ktap_forget();
		ret = get_end(dev, fd, 1, &imp);
		fault_at(0);
		if (ret) {
			CHECK(ret < 0);
			CHECK(dlbuf_last_error()[0]);
			CHECK(!imp);
		} else {
			cache_unref(imp);
		}
		CHECK_EQ(stats(dev).live, 0);
	} while (ret && n < 100);
	CHECK_EQ(ret, 0);
	CHECK(n > 4);
	CHECK_EQ(fake.imports, 1);
	CHECK_EQ(fake.unimports, 1);
}
#endif

KTAP_MAIN()
