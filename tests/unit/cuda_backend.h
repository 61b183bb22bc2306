/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the CUDA backend share: the double of its driver
 * (tests/doubles/cuda.h), an import as the core would ask for it, and an
 * application with a stream of its own.
 */
#ifndef UNIT_CUDA_BACKEND_H
#define UNIT_CUDA_BACKEND_H

#include "cuda_load.h"
#include "emulated.h"

#include <sys/resource.h>

#include "backends/cuda/cuda.h"
#include "fixture.h"

/* With a driver of these words; see doubles/cuda.h. */
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

static inline void end(void)
{
	settle();
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_" DOUBLE_OF "_LIBRARY");
}

static inline struct dlbuf_device *open_ok(void)
{
	return open_as("cuda");
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
