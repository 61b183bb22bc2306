// SPDX-License-Identifier: MIT
/*
 * Accesses of the CUDA backend against a double of the driver (tests/doubles/cuda.h):
 * which streams, and where an access ends that began on one of them. cuda_queue.c has
 * the cases of lib/queue.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <pthread.h>

#include "cuda_backend.h"

/* ---------------------------------------------------------------- streams */

DOUBLE_CASE(which_streams, "")
{
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	cuda_context other;
	cuda_stream stream;
	struct app app;

	app_begin(&app, dev);
	CHECK_OK(cuda_backend.stream(dev, ON(NULL), false));
	CHECK_OK(cuda_backend.stream(dev, ON(DLBUF_CUDA_STREAM_LEGACY), false));
	CHECK_OK(cuda_backend.stream(dev, ON(DLBUF_CUDA_STREAM_PER_THREAD), false));
	CHECK_EQ(cuda_backend.stream(dev, ON(DLBUF_STREAM_NO_ORDER), false),
		 STREAM_UNORDERED);
	CHECK_OK(cuda_backend.stream(dev, ON(app.stream), false));
	REQUIRE(!cux.CtxCreate(&other, 0, 0));
	REQUIRE(!cu.StreamCreate(&stream, 0));
	/* Our own is not, whichever is current. */
	CHECK_OK(cuda_backend.stream(dev, ON(app.stream), false));
	CHECK_ERR(cuda_backend.stream(dev, ON(stream), false), -EINVAL);
	CHECK_SAYS("of another context than cuda:0's");
	CHECK_EQ(cu.StreamDestroy(stream), 0);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_ERR(cuda_backend.stream(dev, ON(&app), false), -EIO);
	CHECK_SAYS("cuStreamGetCtx: CUDA_ERROR_INVALID_HANDLE (400)");
	forgive(1);
	break_call("cuStreamIsCapturing", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.stream(dev, ON(app.stream), false), -EIO);
	CHECK_SAYS("cuStreamIsCapturing");
	heal();
	app_end(&app);
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.stream(dev, ON(NULL), false), -EIO);
	CHECK_EQ(cuda_backend.stream(dev, ON(DLBUF_STREAM_NO_ORDER), false),
		 STREAM_UNORDERED);
	heal();
}

/* A query does not end the capture of a graph. */
DOUBLE_CASE(captures, "")
{
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	cuda_stream blocking;
	struct fixture f;
	struct app app;
	void *graph;
	int fence;

	app_begin(&app, dev);
	REQUIRE(!cu.StreamCreate(&blocking, 0));
	import_ok(&f, dev, DLBUF_PATH_HOST);
	for (int mode = 0; mode <= 2; mode++) {
		CHECK_EQ(cux.StreamBeginCapture(app.stream, mode), 0);
		CHECK_ERR(cuda_backend.stream(dev, ON(app.stream), false), -EBUSY);
		CHECK_SAYS("is being captured");
		/* Another one meanwhile, with all that it needs. */
		CHECK_OK(cuda_backend.stream(dev, ON(blocking), false));
		fence = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, blocking, fence));
		signal_fence(fence);
		close(fence);
		close(release(&f, DLBUF_READ, blocking));
		import_finish(&f, 0);
		import_ok(&f, dev, DLBUF_PATH_HOST);
		CHECK_EQ(cux.StreamEndCapture(app.stream, &graph), 0);
		CHECK_EQ(cux.GraphDestroy(graph), 0);
	}
	/* The legacy stream would have to wait for a blocking one. */
	CHECK_EQ(cux.StreamBeginCapture(blocking, 0), 0);
	CHECK_ERR(cuda_backend.stream(dev, ON(NULL), false), -EBUSY);
	CHECK_ERR(cuda_backend.stream(dev, ON(DLBUF_CUDA_STREAM_PER_THREAD), true),
		  -EBUSY);
	CHECK_OK(cuda_backend.stream(dev, ON(DLBUF_CUDA_STREAM_PER_THREAD), false));
	CHECK_OK(cuda_backend.stream(dev, ON(app.stream), false));
	CHECK_EQ(cux.StreamEndCapture(blocking, &graph), 0);
	CHECK_EQ(cux.GraphDestroy(graph), 0);
	CHECK_EQ(cu.StreamDestroy(blocking), 0);
	import_finish(&f, 0);
	app_end(&app);
}

static unsigned int queries;

static void count_queries(const char *call)
{
	queries += !strcmp(call, "cuEventQuery");
}

static int end_on(struct fixture *f, cuda_stream stream, uint32_t access)
{
	CHECK_OK(acquire(f, access, stream, -1));
	return cuda_backend.release(f->imp, access, ON(stream), NULL, NULL);
}

/* A green context's streams are those of the primary one, which has all memory and events. */
TEST(green_contexts)
{
	struct dlbuf_device *devices[3];
	cuda_context primary, ctx;
	cuda_green green;
	struct fixture f;
	struct app app;

	begin("");
	devices[0] = open_ok();
	app_begin(&app, devices[0]);
	primary = app.ctx;
	CHECK_EQ(cu.StreamDestroy(app.stream), 0);
	REQUIRE(!cux.GreenCtxCreate(&green, NULL, 0, 1));
	REQUIRE(!cux.GreenCtxStreamCreate(&app.stream, green, CUABI_STREAM_NON_BLOCKING, 0));
	REQUIRE(!cux.CtxFromGreenCtx(&ctx, green));
	CHECK_EQ(cu.CtxPushCurrent(ctx), 0);
	devices[1] = open_ok();
	REQUIRE_OK(dlbuf_device_wrap_cuda(ctx, NULL, &devices[2]));
	CHECK_EQ(cu.CtxPopCurrent(&ctx), 0);
	for (int i = 0; i < 3; i++) {
		int in = pending_fence(), out;

		CHECK(cuda_device_of(devices[i])->context == primary);
		import_ok(&f, devices[i], DLBUF_PATH_HOST);
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, in));
		gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x47);
		out = release(&f, DLBUF_RW, app.stream);
		CHECK(!signalled(out));
		signal_fence(in);
		close(in);
		until_over(out);
		CHECK_EQ(f.bytes[77], 0x47);
		if (i == 2)
			break;
		import_finish(&f, 0);
		dlbuf_device_close(devices[i]);
	}
	/* With the context go its streams, which is no loss. */
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	CHECK_EQ(cux.GreenCtxDestroy(green), 0);
	CHECK_ERR_SAYS(cuda_backend.stream(f.dev, ON(app.stream), true), -EINVAL, "green context");
	until_over(release(&f, DLBUF_READ, app.stream));
	CHECK_OK(cuda_backend.stream(f.dev, ON(NULL), true));
	app_finish(&app, &f);
}

/*
 * Earlier work of a stream needs no query, which is expensive: the stream's next work runs after
 * it.
 */
TEST(one_stream_is_not_asked)
{
	struct dlbuf_device *dev;
	struct fixture f;
	struct app app;

	begin("");
	dev = open_ok();
	app_begin(&app, dev);
	import_ok(&f, dev, DLBUF_PATH_HOST);
	gate_close(&app);
	fake->look = count_queries;
	CHECK_OK(end_on(&f, app.stream, DLBUF_RW));
	for (int i = 0; i < 20; i++)
		CHECK_OK(end_on(&f, app.stream, DLBUF_RW));
	fake->look = NULL;
	CHECK_EQ(queries, 0);
	/* A reader's end says nothing about the writer before: both are waited for. */
	CHECK_OK(end_on(&f, app.stream, DLBUF_READ));
	CHECK_ERR(cuda_backend.wait(f.imp, DLBUF_READ, 1), -ETIME);
	gate_open(&app);
	CHECK_OK(cuda_backend.wait(f.imp, DLBUF_RW, 0));
	import_finish(&f, 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/*
 * The end of an access on special streams: another thread's per-thread stream, a
 * stream that is being captured, a stream that was destroyed. It is over when the
 * work is, and neither the graph nor the device is harmed.
 */
enum end { ON_ANOTHER_THREAD, CAPTURED, CAPTURED_BY_LEGACY, DESTROYED };

struct ending {
	struct fixture *f;
	void *handle;
	int fence;
};

static void *end_access(void *arg)
{
	struct ending *e = arg;

	e->fence = release(e->f, DLBUF_RW, e->handle);
	CHECK_EQ(cu.CtxPushCurrent(((struct cuda_device *)e->f->dev)->context),
		 0);
	CHECK_EQ(cu.StreamSynchronize(CUABI_STREAM_PER_THREAD), 0);
	CHECK_EQ(cu.CtxPopCurrent(&(cuda_context){ NULL }), 0);
	return NULL;
}

static void check_end(enum end end_of, enum dlbuf_path path)
{
	struct ending e = { .fence = -1 };
	void *graph, *capturing;
	struct dlbuf_device *dev;
	pthread_t thread;
	cuda_stream s, own;
	struct fixture f;
	struct app app;
	uint8_t before;

	begin("strict");
	dev = open_ok();
	import_ok(&f, dev, path);
	before = f.bytes[77];
	app_begin(&app, dev);
	REQUIRE(!cu.StreamCreate(&s, end_of == CAPTURED_BY_LEGACY ?
				 0 : CUABI_STREAM_NON_BLOCKING));
	capturing = s;
	e.f = &f;
	e.handle = end_of == ON_ANOTHER_THREAD ? DLBUF_CUDA_STREAM_PER_THREAD :
		   end_of == CAPTURED_BY_LEGACY ? NULL : s;
	CHECK_OK(acquire(&f, DLBUF_RW, e.handle, -1));
	own = app.stream;
	app.stream = e.handle;
	gate_close(&app);
	app.stream = own;
	CHECK_EQ(cu.MemsetD8Async(pointer_of(&f), 0x31, IMPORT_BYTES, e.handle),
		 0);
	if (end_of == CAPTURED || end_of == CAPTURED_BY_LEGACY)
		CHECK_EQ(cux.StreamBeginCapture(capturing, 0), 0);
	if (end_of == DESTROYED) {
		CHECK_EQ(cu.StreamDestroy(s), 0);
		CHECK_ERR_SAYS(cuda_backend.stream(dev, ON(s), true), -EINVAL, "was destroyed");
		CHECK_OK(cuda_backend.stream(dev, ON(app.stream), true));
	}
	if (end_of == ON_ANOTHER_THREAD) {
		REQUIRE(!pthread_create(&thread, NULL, end_access, &e));
		pthread_join(thread, NULL);
	} else if (path == DLBUF_PATH_COPY) {
		CHECK_ERR_SAYS(cuda_backend.release(f.imp, DLBUF_RW, ON(e.handle), &e.fence, NULL),
			       -EIO, "a copy is not written back");
	} else {
		e.fence = release(&f, DLBUF_RW, e.handle);
	}
	CHECK(path == DLBUF_PATH_COPY ? e.fence == -1 : !signalled(e.fence));
	/* Nor does a call wait longer than it may. */
	CHECK_ERR(cuda_backend.wait(f.imp, DLBUF_RW, 1), -ETIME);
	if (end_of == CAPTURED || end_of == CAPTURED_BY_LEGACY) {
		/* A wait for that may never end. */
		CHECK_ERR(cuda_backend.wait(f.imp, DLBUF_RW, 0), -EBUSY);
		CHECK_EQ(cux.StreamEndCapture(capturing, &graph), 0);
		CHECK_EQ(cux.GraphDestroy(graph), 0);
		CHECK(path == DLBUF_PATH_COPY || !signalled(e.fence));
	}
	gate_open(&app);
	until_over(e.fence);
	CHECK_OK(cuda_backend.wait(f.imp, DLBUF_RW, UINT64_MAX));
	/* A stream that takes no work writes no copy back. */
	CHECK_EQ(f.bytes[77], path == DLBUF_PATH_HOST ? 0x31 : before);
	CHECK_OK(cuda_backend.wait(f.imp, DLBUF_RW, 0));
	if (end_of != DESTROYED)
		CHECK_EQ(cu.StreamDestroy(s), 0);
	app_finish(&app, &f);
}

/* The resources of a path are freed when no stream waits any more. */
DOUBLE_CASE(a_path_fails_beside_a_wait, "thor,memfds")
{
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	struct fixture f, g;
	struct app app;
	int fence;

	app_begin(&app, dev);
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	fence = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	break_call("cuExternalMemoryGetMappedBuffer", CUABI_UNKNOWN, 0);
	REQUIRE_OK(import_as(&g, dev, PATHS_SHARED, DLBUF_RW));
	CHECK_EQ(g.imp->path, DLBUF_PATH_HOST);
	heal();
	CHECK_EQ(__atomic_load_n(&dev->ndying, __ATOMIC_RELAXED), 1);
	signal_fence(fence);
	close(fence);
	until_over(release(&f, DLBUF_READ, app.stream));
	while (__atomic_load_n(&dev->ndying, __ATOMIC_ACQUIRE))
		sched_yield();
	import_finish(&g, 0);
	import_finish(&f, 0);
	app_end(&app);
}

static bool may_free;
static struct app *gated_app;

static void look_for_frees(const char *name)
{
	look_for_watched(name);
	/* Otherwise this free never returns. */
	if (!strcmp(name, "cuMemFree_v2") &&
	    !CHECK(__atomic_exchange_n(&may_free, true, __ATOMIC_ACQ_REL)))
		gate_open(gated_app);
}

/*
 * After a failed call work may be on a stream, unknown to the library. No wait for
 * all streams is possible while one is captured: then nothing is freed, and no call waits.
 */
DOUBLE_CASE(a_free_beside_a_capture, "")
{
	struct fixture f;
	struct app app;
	void *graph;
	cuda_stream s;

	import_ok(&f, open_ok(), DLBUF_PATH_COPY);
	app_begin(&app, f.dev);
	gated_app = &app;
	REQUIRE(!cu.StreamCreate(&s, CUABI_STREAM_NON_BLOCKING));
	gate_close(&app);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.release(f.imp, DLBUF_RW, ON(app.stream), NULL, NULL), -EIO);
	heal();
	CHECK_EQ(cux.StreamBeginCapture(s, CUABI_STREAM_CAPTURE_MODE_RELAXED), 0);
	may_free = false;
	watch("cuCtxSynchronize");
	fake->look = look_for_frees;
	import_finish(&f, 0);
	/* It was tried, and again. */
	UNTIL(seen > 1 || __atomic_load_n(&may_free, __ATOMIC_ACQUIRE));
	CHECK_EQ(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE), 1);
	CHECK_EQ(cux.StreamEndCapture(s, &graph), 0);
	__atomic_store_n(&may_free, true, __ATOMIC_RELEASE);
	gate_open(&app);
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	CHECK_EQ(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE), 0);
	/* Nor is "dlbuf-finish" left. */
	CHECK(!queue_device_of(f.dev)->finish.started);
	CHECK_EQ(cux.GraphDestroy(graph), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	watch(NULL);
	app_end(&app);
	dlbuf_device_close(f.dev);
}

TEST(ends_on_another_threads_stream)
{
	check_end(ON_ANOTHER_THREAD, DLBUF_PATH_HOST);
}

TEST(ends_on_a_stream_that_is_captured)
{
	check_end(CAPTURED, DLBUF_PATH_HOST);
	check_end(CAPTURED, DLBUF_PATH_COPY);
}

TEST(ends_on_the_legacy_stream_beside_a_capture)
{
	check_end(CAPTURED_BY_LEGACY, DLBUF_PATH_HOST);
}

TEST(ends_on_a_stream_that_is_gone)
{
	check_end(DESTROYED, DLBUF_PATH_HOST);
	check_end(DESTROYED, DLBUF_PATH_COPY);
}

/* No call waits for it either if the context keeps an error, of any name. */
TEST(ends_in_a_context_that_keeps_an_error)
{
	struct fixture f;
	struct app app;
	cuda_stream s;
	int fence;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	app_begin(&app, f.dev);
	gate_close(&app);
	REQUIRE(!cu.StreamCreate(&s, CUABI_STREAM_NON_BLOCKING));
	CHECK_EQ(cu.StreamDestroy(s), 0);
	fence = release(&f, DLBUF_RW, s);
	CHECK(!signalled(fence));
	lose(CUABI_UNKNOWN);
	until_over(fence);
	app_finish(&app, &f);
}

/* It ends when the device is idle, and objects are reused in time. */
DOUBLE_CASE(late_work_is_used_again, "")
{
	struct fixture f;
	struct app app;
	cuda_stream s;
	int fence;

	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	app_begin(&app, f.dev);
	REQUIRE(!cu.StreamCreate(&s, CUABI_STREAM_NON_BLOCKING));
	CHECK_EQ(cu.StreamDestroy(s), 0);
	fence = release(&f, DLBUF_RW, s);
	until_signalled(fence);
	close(fence);
	while (event_pending())
		sched_yield();
	CHECK_OK(cuda_backend.wait(f.imp, DLBUF_RW, 0));
	gate_close(&app);
	fence = release(&f, DLBUF_RW, app.stream);
	CHECK_ERR(cuda_backend.wait(f.imp, DLBUF_RW, 1), -ETIME);
	gate_open(&app);
	until_over(fence);
	fence = pending_fence();
	fake->synchronising = 0;
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	give_up(&f);
	CHECK_EQ(fake->synchronising, 0);
	signal_fence(fence);
	close(fence);
	drain(&app);
	app_end(&app);
}

/*
 * The driver waits for every stream while it frees, and every other call of it
 * waits meanwhile. A lease frees: streams go on all the same when their fences
 * signal.
 */
static void free_here(void *memory)
{
	cuda_context ctx = *(cuda_context *)memory;

	CHECK_EQ(cu.CtxPushCurrent(ctx), 0);
	CHECK_EQ(cu.MemFreeHost(memory), 0);
	CHECK_EQ(cu.CtxPopCurrent(&ctx), 0);
}

TEST(a_free_in_a_lease_holds_up_no_stream)
{
	cuda_stream streams[2];
	struct fixture f;
	int fences[2], now;
	struct app app;
	void *memory;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	app_begin(&app, f.dev);
	REQUIRE(!cu.MemHostAlloc(&memory, 64, 0));
	*(cuda_context *)memory = app.ctx;
	for (int i = 0; i < 2; i++) {
		REQUIRE(!cu.StreamCreate(&streams[i],
					 CUABI_STREAM_NON_BLOCKING));
		fences[i] = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, streams[i], fences[i]));
	}
	now = pending_fence();
	watch("cuMemFreeHost");
	REQUIRE_OK(event_add(now, free_here, memory));
	signal_fence(now);
	while (!seen)
		sched_yield();
	for (int i = 0; i < 2; i++)
		signal_fence(fences[i]);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(cu.StreamSynchronize(streams[i]), 0);
		CHECK_EQ(cu.StreamDestroy(streams[i]), 0);
		close(fences[i]);
	}
	close(now);
	settle();
	app_finish(&app, &f);
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
