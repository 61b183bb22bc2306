/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of backends with streams: an import as the core would request it,
 * and a driver whose calls fail. The includer has `fake`, the controls of the driver's
 * double; nothing_left(), which looks at its objects; and driver_call(), a call that
 * takes the double's lock.
 */
#ifndef UNIT_FIXTURE_H
#define UNIT_FIXTURE_H

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <dlbuf/dlbuf.h>

#include "bracket.h"
#include "system/event.h"
#include "import/host.h"
#include "queue/engine.h"
#include "tensor/sync.h"

static inline void nobody_reads(void *data, enum dlbuf_log_level level,
				const char *text)
{
}

/* Waits until the library's thread has run all pending calls. */
static inline void settle(void)
{
	while (event_pending()) {
		event_kick();
		sched_yield();
	}
	/* The last user waits for the thread. */
	event_user_add();
	event_user_remove();
}

static inline struct dlbuf_device *open_as(const char *name)
{
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(dlbuf_device_open(name, NULL, &dev));
	return dev;
}

/* All calls of this function fail, but for the first ones, until healed. */
static inline void break_call(const char *symbol, int result,
			      unsigned int spared)
{
	fake->result = result;
	fake->spared = spared;
	__atomic_store_n(&fake->failing, symbol, __ATOMIC_RELEASE);
}

static inline void heal(void)
{
	__atomic_store_n(&fake->failing, NULL, __ATOMIC_RELEASE);
}

/* The number of calls of a function since watch(). */
static _Atomic(const char *) watched;
static _Atomic(unsigned int) seen;

static inline void look_for_watched(const char *name)
{
	const char *of = watched;

	if (of && !strcmp(name, of))
		seen++;
}

static inline void watch(const char *symbol)
{
	watched = symbol;
	seen = 0;
	/* Other threads may make calls from the second time on. */
	if (fake->look != look_for_watched)
		__atomic_store_n(&fake->look, look_for_watched, __ATOMIC_RELEASE);
}

static inline bool signalled(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };

	return fence == -1 || poll(&p, 1, 0) == 1;
}

static inline void driver_call(void);

/*
 * Earlier writes are then visible: by the double's lock, because no sanitizer
 * knows that an eventfd orders memory.
 */
static inline void until_signalled(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };

	CHECK(fence == -1 || poll(&p, 1, -1) == 1);
	driver_call();
}

/* The same; it is not used any more. */
static inline void until_over(int fence)
{
	until_signalled(fence);
	if (fence != -1)
		close(fence);
}

/* A process that has no fd left. */
static struct rlimit fds_before;
static int held_fds[64], nheld;

static inline void take_all_fds(void)
{
	struct rlimit few;

	REQUIRE(!getrlimit(RLIMIT_NOFILE, &fds_before));
	few = fds_before;
	few.rlim_cur = 64;
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
	for (nheld = 0; (held_fds[nheld] = dup(0)) >= 0; nheld++)
		;
}

static inline void give_back_fds(void)
{
	while (nheld--)
		close(held_fds[nheld]);
	CHECK(!setrlimit(RLIMIT_NOFILE, &fds_before));
}

/* ---------------------------------------------------------------- imports */

#define IMPORT_BYTES 12288
#define ALL (PATHS_SHARED | PATHS_COPIED)

/* The bytes of a buffer, which differ with the seed. */
static inline void fill(uint8_t *p, unsigned int seed)
{
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		p[i] = (uint8_t)(i * 7 + i / 4096 * 13 + seed);
}

static inline bool filled(const uint8_t *p, unsigned int seed)
{
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		if (p[i] != (uint8_t)(i * 7 + i / 4096 * 13 + seed))
			return false;
	return true;
}

/* An import as the core would request it; a memfd replaces the dma-buf. */
struct fixture {
	struct dlbuf_device *dev;
	struct import *imp;
	int memfd;
	uint8_t *bytes;		/* of it, as the CPU sees them */
};

static inline void fixture_make(struct fixture *f, struct dlbuf_device *dev,
				uint32_t paths, uint32_t access)
{
	struct stat st;
	char path[40];

	*f = (struct fixture){ .dev = dev };
	f->memfd = memfd_create("a dma-buf", MFD_CLOEXEC);
	REQUIRE(f->memfd >= 0 && !ftruncate(f->memfd, IMPORT_BYTES));
	f->bytes = mmap(NULL, IMPORT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			f->memfd, 0);
	REQUIRE(f->bytes != MAP_FAILED);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->memfd);
	f->imp = calloc(1, dev->backend->import_size);
	REQUIRE(f->imp);
	f->imp->dev = dev;
	f->imp->refs = 1;
	f->imp->fd = open(path, O_CLOEXEC |
			     (access & DLBUF_WRITE ? O_RDWR : O_RDONLY));
	REQUIRE(f->imp->fd >= 0);
	REQUIRE(!fstat(f->memfd, &st));
	f->imp->id = (struct buffer_id){
		.dev = st.st_dev, .ino = st.st_ino,
		.access = access & DLBUF_WRITE ? DLBUF_RW : DLBUF_READ,
	};
	f->imp->paths = paths;
	f->imp->bytes = IMPORT_BYTES;
	fill(f->bytes, 1);
}

/* If it fails, f->imp is NULL. */
static inline int import_now(struct fixture *f)
{
	int ret = f->dev->backend->import(f->imp);

	if (ret) {
		close(f->imp->fd);
		free(f->imp);
		f->imp = NULL;
	}
	return ret;
}

static inline int import_as(struct fixture *f, struct dlbuf_device *dev,
			    uint32_t paths, uint32_t access)
{
	fixture_make(f, dev, paths, access);
	return import_now(f);
}

static inline void fixture_end(struct fixture *f)
{
	munmap(f->bytes, IMPORT_BYTES);
	close(f->memfd);
}

static inline void import_finish(struct fixture *f, int ret)
{
	if (!ret)
		import_destroy(f->imp);
	else
		CHECK(!f->imp);
	fixture_end(f);
}

static inline void import_ok(struct fixture *f, struct dlbuf_device *dev,
			     enum dlbuf_path path)
{
	REQUIRE_OK(import_as(f, dev, PATH_BIT(path), DLBUF_RW));
	REQUIRE(f->imp->path == path && f->imp->data);
}

/* Gives up the import and its device. */
static inline void give_up(struct fixture *f)
{
	import_finish(f, 0);
	dlbuf_device_close(f->dev);
}

/* The fence is lent. If the device cannot wait for it, this thread does. */
static inline int acquire_until(struct fixture *f, uint32_t access, void *stream, int fence,
				uint64_t deadline_ns)
{
	static const struct dlbuf_acquire_opts none;
	int ret = sync_begin(f->imp, access, ON(stream), fence, &none);

	if (fence == -1 || (ret != -EAGAIN && !lacks_room(ret)))
		return ret;
	ret = dlbuf_fence_wait(fence, deadline_ns);
	return ret ? ret : sync_begin(f->imp, access, ON(stream), -1, &none);
}

static inline int acquire(struct fixture *f, uint32_t access, void *stream, int fence)
{
	return acquire_until(f, access, stream, fence, 0);
}

/* The eventfd or sync_file, or -1. */
static inline int release(struct fixture *f, uint32_t access, void *stream)
{
	int fence = -7;

	CHECK_OK(f->dev->backend->release(f->imp, access, ON(stream), &fence, NULL));
	CHECK(fence == -1 || (fence > 2 &&
			      fcntl(fence, F_GETFD) == FD_CLOEXEC));
	return fence;
}

/* As the core asks for a new buffer. */
static inline int alloc_import(struct dlbuf_device *dev, uint64_t bytes,
			       struct import **out)
{
	struct import *imp = calloc(1, dev->backend->import_size);
	int ret;

	REQUIRE(imp);
	imp->dev = dev;
	imp->fd = -1;
	imp->refs = 1;
	imp->bytes = bytes;
	ret = dev->backend->alloc(imp);
	if (ret)
		free(imp);
	else
		*out = imp;
	return ret;
}

/* ---------------------------------------------------------------- exports */

/* A failing call does not touch *out: its fd stays 77. */
static inline int export_at(struct dlbuf_device *dev, const void *data, int64_t bytes,
			    DLDeviceType type, uint32_t flags,
			    struct dlbuf_exported *out)
{
	DLBUF_OPTS(dlbuf_export_opts, opts, .flags = flags);
	int64_t strides = 1;
	DLTensor t = {
		.data = (void *)data, .device = { type, 0 }, .ndim = 1,
		.dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};

	*out = (struct dlbuf_exported){ .size = sizeof(*out), .fd = 77 };
	return dlbuf_export(dev, &t, &opts, out);
}

/* As the CPU sees the dma-buf; -1: not at all. */
static inline int byte_at(const struct dlbuf_exported *out, size_t i)
{
	uint8_t *p = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, out->fd, 0);
	int byte = -1;

	if (p != MAP_FAILED) {
		byte = p[i];
		munmap(p, out->bytes);
	}
	return byte;
}

#define REFUSES(dev, pointer, bytes, type, flags, ret, says)		\
	do {								\
		CHECK_ERR(export_at(dev, (void *)(uintptr_t)(pointer),	\
				    bytes, type, flags, &out), ret);	\
		CHECK_SAYS(says);					\
		CHECK_EQ(out.fd, 77);					\
	} while (0)

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static inline void check_walks_by(void (*fault)(unsigned long n), int (*walk)(void),
				  unsigned long some)
{
	unsigned long calls;

	fault(0);
	CHECK_OK(walk());
	settle();
	calls = fault_count();
	CHECK(calls >= some);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		ktap_forget();
		fault(n);
		ret = walk();
		fault_at(0);
		settle();
		CHECK(!ret || dlbuf_last_error()[0]);
		if (!nothing_left() || fake->wrong)
			ktap_note(NULL, 0, "call %lu of %lu gave %d: %s", n,
				  calls, ret, dlbuf_last_error());
		CHECK_EQ(fake->wrong, 0);
		fake->wrong = 0;
		fault_at(0);
	}
}

/*
 * Each call of a walk, of which there are some, fails once, and nothing stays behind. So
 * does each one of the library's threads meanwhile.
 */
static inline void check_walks(int (*walk)(void), unsigned long some)
{
	check_walks_by(fault_at, walk, some + 1);
	check_walks_by(fault_at_others, walk, 0);
}
#endif

#endif /* UNIT_FIXTURE_H */
