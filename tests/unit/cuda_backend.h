/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the CUDA backend share: the double of its driver
 * (tests/fakes/cuda.h), an import as the core would ask for it, and an
 * application with a stream of its own.
 */
#ifndef UNIT_CUDA_BACKEND_H
#define UNIT_CUDA_BACKEND_H

#include "cuda_load.h"
#include "emulated.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <dlbuf/dlbuf.h>

#include "backends/cuda/cuda.h"
#include "event.h"
#include "path.h"

static inline void nobody_reads(void *data, enum dlbuf_log_level level,
				const char *text)
{
}

/* With a driver of these words; see fakes/cuda.h. */
static inline void begin_with(const char *library, const char *words)
{
	need_64_bits();
	KTAP_KEEPS(KTAP_HEAP, "a driver stays loaded, glibc keeps stacks");
	setenv("DLBUF_VULKAN_LIBRARY", "/nonexistent/libvulkan.so.1", 1);
	load(library, words);
	dlbuf_log_set(nobody_reads, NULL, DLBUF_LOG_INFO);
}

static inline void begin(const char *words)
{
	begin_with("libcuda.so", words);
}

/* What the library's own thread has yet to do is done. */
static inline void settle(void)
{
	while (event_pending())
		sched_yield();
	/* The last user waits for the thread. */
	event_user_add();
	event_user_remove();
}

static inline void end(void)
{
	settle();
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_" DOUBLE_OF "_LIBRARY");
}

static inline struct dlbuf_device *open_as(const char *name)
{
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(dlbuf_device_open(name, NULL, &dev));
	return dev;
}

static inline struct dlbuf_device *open_ok(void)
{
	return open_as("cuda");
}

/* All calls of this function fail, but for the first ones, until healed. */
static inline void break_call(const char *symbol, cuda_result result,
			      unsigned int spared)
{
	fake->result = result;
	fake->spared = spared;
	fake->failing = symbol;
}

static inline void heal(void)
{
	fake->failing = NULL;
}

/* How often a function was called since watch(). */
static const char *watched;
static _Atomic(unsigned int) seen;

static inline void look_for_watched(const char *call)
{
	if (watched && !strcmp(call, watched))
		seen++;
}

static inline void watch(const char *symbol)
{
	watched = symbol;
	seen = 0;
	fake->look = look_for_watched;
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

/* ---------------------------------------------------------------- fences */

static inline bool signalled(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };

	return fence == -1 || poll(&p, 1, 0) == 1;
}

/*
 * And what was before it has been seen: by the double's lock, as no sanitizer
 * knows that an eventfd orders anything.
 */
static inline void until_signalled(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };
	int version;

	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK_EQ(cu.DriverGetVersion(&version), 0);
}

/* ---------------------------------------------------------------- imports */

#define IMPORT_BYTES 12288

/* An import as the core would ask for it; a memfd stands for the dma-buf. */
struct fixture {
	struct dlbuf_device *dev;
	struct queue_import ci;
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
	f->ci.base.dev = dev;
	f->ci.base.fd = open(path, O_CLOEXEC |
			     (access & DLBUF_WRITE ? O_RDWR : O_RDONLY));
	REQUIRE(f->ci.base.fd >= 0);
	REQUIRE(!fstat(f->memfd, &st));
	f->ci.base.id = (struct buffer_id){
		.dev = st.st_dev, .ino = st.st_ino,
		.access = access & DLBUF_WRITE ? DLBUF_RW : DLBUF_READ,
	};
	f->ci.base.paths = paths;
	f->ci.base.bytes = IMPORT_BYTES;
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		f->bytes[i] = (uint8_t)(i * 7 + i / 4096 * 13 + 1);
}

static inline int import_as(struct fixture *f, struct dlbuf_device *dev,
			    uint32_t paths, uint32_t access)
{
	fixture_make(f, dev, paths, access);
	return path_import(&f->ci.base);
}

static inline void fixture_end(struct fixture *f)
{
	munmap(f->bytes, IMPORT_BYTES);
	close(f->memfd);
	close(f->ci.base.fd);
}

static inline void import_finish(struct fixture *f, int ret)
{
	if (!ret)
		f->dev->backend->unimport(&f->ci.base);
	else
		CHECK(!f->ci.memory);
	fixture_end(f);
}

static inline void import_ok(struct fixture *f, struct dlbuf_device *dev,
			     enum dlbuf_path path)
{
	REQUIRE_OK(import_as(f, dev, PATH_BIT(path), DLBUF_RW));
	REQUIRE(f->ci.base.path == path && f->ci.base.data);
}

/* Gives up the import and its device. */
static inline void finish(struct fixture *f)
{
	import_finish(f, 0);
	dlbuf_device_close(f->dev);
}

static inline int acquire(struct fixture *f, uint32_t access, void *stream,
			  int fence)
{
	return f->dev->backend->acquire(&f->ci.base, access, stream, fence);
}

/* The eventfd or sync_file, or -1. */
static inline int release(struct fixture *f, uint32_t access, void *stream)
{
	int fence = -7;

	CHECK_OK(f->dev->backend->release(&f->ci.base, access, stream, &fence,
					  NULL));
	CHECK(fence == -1 || (fence > 2 &&
			      fcntl(fence, F_GETFD) == FD_CLOEXEC));
	return fence;
}

static inline cuda_pointer pointer_of(const struct fixture *f)
{
	return (uintptr_t)f->ci.base.data;
}

/* ---------------------------------------------------------------- the user */

/* An application's stream, and memory that copies of streams go to. */
struct app {
	int ordinal;
	cuda_context ctx;
	cuda_stream stream;
	uint8_t *pinned, *own;
};

/* Its context is current until app_end(). */
static inline void app_begin(struct app *app, struct dlbuf_device *dev)
{
	struct dlbuf_cuda_device cuda = { .size = sizeof(cuda) };
	cuda_context ctx;

	app->ordinal = dev->dl.device_id;
	/* It outlives the device. */
	REQUIRE(!cu.DevicePrimaryCtxRetain(&ctx, app->ordinal));
	app->ctx = ctx;
	if (!dlbuf_cuda_get_device(dev, &cuda))
		app->ctx = cuda.context;
	REQUIRE(!cu.CtxPushCurrent(app->ctx));
	REQUIRE(!cu.StreamCreate(&app->stream, CUABI_STREAM_NON_BLOCKING));
	REQUIRE(!cu.MemHostAlloc((void **)&app->pinned, IMPORT_BYTES,
				 CUABI_MEMHOSTALLOC_PORTABLE));
	memset(app->pinned, 0, IMPORT_BYTES);
	REQUIRE(!cu.MemHostAlloc((void **)&app->own, 16,
				 CUABI_MEMHOSTALLOC_PORTABLE));
}

/* With an import by this path. */
static inline void app_import(struct app *app, struct fixture *f,
			      const char *words, enum dlbuf_path path)
{
	begin(words);
	import_ok(f, open_ok(), path);
	app_begin(app, f->dev);
}

static inline void app_end(struct app *app)
{
	cu.StreamSynchronize(app->stream);
	CHECK_EQ(cu.StreamDestroy(app->stream), fake->lost);
	CHECK_EQ(cu.MemFreeHost(app->pinned), fake->lost);
	CHECK_EQ(cu.MemFreeHost(app->own), fake->lost);
	CHECK_EQ(cu.CtxPopCurrent(&app->ctx), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(app->ordinal), fake->lost);
}

static inline void app_finish(struct app *app, struct fixture *f)
{
	app_end(app);
	finish(f);
	end();
}

/* The stream reads the tensor, or sets some of its bytes. */
static inline void gpu_reads(struct app *app, struct fixture *f)
{
	CHECK_EQ(cu.MemcpyDtoHAsync(app->pinned, pointer_of(f), IMPORT_BYTES,
				    app->stream), 0);
}

static inline void gpu_sets(struct app *app, struct fixture *f, size_t from,
			    size_t bytes, unsigned char value)
{
	CHECK_EQ(cu.MemsetD8Async(pointer_of(f) + from, value, bytes,
				  app->stream), 0);
}

static inline void drain(struct app *app)
{
	CHECK_EQ(cu.StreamSynchronize(app->stream), 0);
}

/* Any other stream that can go on has had its turn. */
static inline void let_others_run(struct app *app)
{
	cuda_stream other;

	REQUIRE(!cu.StreamCreate(&other, CUABI_STREAM_NON_BLOCKING));
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(cu.MemcpyHtoDAsync((uintptr_t)app->own, app->own + 8,
					    1, other), 0);
		CHECK_EQ(cu.StreamSynchronize(other), 0);
	}
	CHECK_EQ(cu.StreamDestroy(other), 0);
}

/* A word that streams wait for, until the application sets it. */
struct gate {
	_Atomic(uint32_t) *word;
};

static inline void gate_close(struct gate *gate, cuda_stream stream)
{
	cuda_pointer p;

	REQUIRE(!cu.MemHostAlloc((void **)&gate->word, 4096,
				 CUABI_MEMHOSTALLOC_PORTABLE |
				 CUABI_MEMHOSTALLOC_DEVICEMAP));
	*gate->word = 0;
	REQUIRE(!cu.MemHostGetDevicePointer(&p, (void *)gate->word, 0));
	REQUIRE(!cu.StreamWaitValue32(stream, p, 1, 0));
}

static inline void gate_open(struct gate *gate)
{
	*gate->word = 1;
}

static inline void gate_end(struct gate *gate)
{
	CHECK_EQ(cu.MemFreeHost((void *)gate->word), fake->lost);
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
/* Each call of a walk fails once, and nothing stays behind. */
static inline void check_walks(int (*walk)(void))
{
	unsigned long calls;

	fault_at(0);
	CHECK_OK(walk());
	settle();
	calls = fault_count();
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		ktap_forget();
		fault_at(n);
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
#endif

/* ---------------------------------------------------------------- waiting */

struct waiter {
	struct fixture *f;
	uint32_t access;
	int ret;
	bool done; /* atomic */
};

static inline void *wait_for(void *arg)
{
	struct waiter *w = arg;

	w->ret = w->f->dev->backend->wait(&w->f->ci.base, w->access, 0);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static inline bool is_done(struct waiter *w)
{
	return __atomic_load_n(&w->done, __ATOMIC_ACQUIRE);
}

static struct gate *later;

static inline void open_later(const char *call)
{
	if (!strcmp(call, "cuEventQuery") && ++seen > 5)
		gate_open(later);
}

#endif /* UNIT_CUDA_BACKEND_H */
