/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the CUDA backend: the double of its driver
 * (tests/doubles/cuda.h), an import as the core would ask for it, and an
 * application with a stream of its own.
 */
#ifndef UNIT_CUDA_BACKEND_H
#define UNIT_CUDA_BACKEND_H

#include "cuda_load.h"
#include "emulated.h"

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
	CHECK_EQ(fake->pageable_copies, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_" DOUBLE_OF "_LIBRARY");
}

static inline struct dlbuf_device *open_ok(void)
{
	return open_as("cuda");
}

static inline void driver_call(void)
{
	int version;

	cu.DriverGetVersion(&version);
}

/* ---------------------------------------------------------------- imports */

static inline cuda_pointer pointer_of(const struct fixture *f)
{
	return (uintptr_t)f->imp->data;
}

/* ---------------------------------------------------------------- the user */

/* An application's stream, and memory that copies of streams go to. */
struct app {
	int ordinal;
	cuda_context ctx;
	cuda_stream stream;
	uint8_t *pinned;
	_Atomic(uint32_t) *gate;	/* the stream waits until it is 1 */
	cuda_event passed;
};

/* Its context is current until app_end(). */
static inline void app_begin(struct app *app, struct dlbuf_device *dev)
{
	struct dlbuf_cuda_device cuda = { .size = sizeof(cuda) };
	cuda_context ctx;

	*app = (struct app){ .ordinal = dev->dl.device_id };
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
}

static inline void app_end(struct app *app)
{
	cu.StreamSynchronize(app->stream);
	CHECK_EQ(cu.StreamDestroy(app->stream), fake->lost);
	CHECK_EQ(cu.MemFreeHost(app->pinned), fake->lost);
	if (app->gate) {
		CHECK_EQ(cu.MemFreeHost((void *)app->gate), fake->lost);
		CHECK_EQ(cu.EventDestroy(app->passed), fake->lost);
	}
	CHECK_EQ(cu.CtxPopCurrent(&app->ctx), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(app->ordinal), 0);
}

/* No context is current, or the application's again. */
static inline void app_away(struct app *app, bool away)
{
	CHECK_EQ(away ? cux.CtxSetCurrent(NULL) : cu.CtxPushCurrent(app->ctx), 0);
}

static inline void *app_stream(struct app *app)
{
	cuda_stream stream;

	REQUIRE(!cu.StreamCreate(&stream, CUABI_STREAM_NON_BLOCKING));
	return stream;
}

static inline void app_stream_end(struct app *app, void *stream)
{
	CHECK_EQ(cu.StreamDestroy(stream), 0);
}

/* Memory of the application on the device. */
static inline void *app_alloc(struct app *app, size_t bytes)
{
	cuda_pointer p;

	REQUIRE(!cu.MemAlloc(&p, bytes));
	return (void *)(uintptr_t)p;
}

static inline void app_free(struct app *app, void *p)
{
	CHECK_EQ(cu.MemFree((uintptr_t)p), 0);
}

static inline void app_finish(struct app *app, struct fixture *f)
{
	app_end(app);
	give_up(f);
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

static inline bool is_idle(struct app *app)
{
	return !cux.StreamQuery(app->stream);
}

/* The stream waits until the application opens the gate. */
static inline void gate_close(struct app *app)
{
	bool no_mem_ops = fake->devices[0].no_mem_ops;
	cuda_pointer p;

	if (!app->gate) {
		REQUIRE(!cu.MemHostAlloc((void **)&app->gate, 4096,
					 CUABI_MEMHOSTALLOC_PORTABLE |
					 CUABI_MEMHOSTALLOC_DEVICEMAP));
		REQUIRE(!cu.EventCreate(&app->passed, CUABI_EVENT_DISABLE_TIMING));
	}
	*app->gate = 0;
	REQUIRE(!cu.MemHostGetDevicePointer(&p, (void *)app->gate, 0));
	fake->devices[0].no_mem_ops = false; /* which are dlbuf's */
	REQUIRE(!cu.StreamWaitValue32(app->stream, p, 1, 0));
	fake->devices[0].no_mem_ops = no_mem_ops;
	REQUIRE(!cu.EventRecord(app->passed, app->stream));
}

static inline void gate_open(struct app *app)
{
	*app->gate = 1;
}

/*
 * On return the stream has come as far as it can: the double's streams hold its lock from
 * job to job, until one has to wait.
 */
static inline void gate_pass(struct app *app)
{
	gate_open(app);
	CHECK_EQ(cu.EventSynchronize(app->passed), 0);
}

static inline void lose(int result)
{
	fake->lose(result);
}

#endif /* UNIT_CUDA_BACKEND_H */
