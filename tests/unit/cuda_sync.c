// SPDX-License-Identifier: MIT
/*
 * Accesses of the CUDA backend against a double of the driver
 * (tests/doubles/cuda.h): streams that wait for fences by themselves, copies, and
 * what a release leaves behind.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <pthread.h>

#include "cuda_backend.h"

/* ---------------------------------------------------------------- streams */

TEST(which_streams)
{
	struct dlbuf_device *dev;
	cuda_context other;
	cuda_stream stream;
	struct app app;

	begin("");
	dev = open_ok();
	app_begin(&app, dev);
	CHECK_OK(cuda_backend.stream(dev, NULL, false));
	CHECK_OK(cuda_backend.stream(dev, DLBUF_CUDA_STREAM_LEGACY, false));
	CHECK_OK(cuda_backend.stream(dev, DLBUF_CUDA_STREAM_PER_THREAD, false));
	CHECK_EQ(cuda_backend.stream(dev, DLBUF_CUDA_STREAM_NO_ORDER, false),
		 STREAM_UNORDERED);
	CHECK_OK(cuda_backend.stream(dev, app.stream, false));
	REQUIRE(!cux.CtxCreate(&other, 0, 0));
	REQUIRE(!cu.StreamCreate(&stream, 0));
	/* Our own is not, whichever is current. */
	CHECK_OK(cuda_backend.stream(dev, app.stream, false));
	CHECK_ERR(cuda_backend.stream(dev, stream, false), -EINVAL);
	CHECK_SAYS("of another context than cuda:0's");
	CHECK_EQ(cu.StreamDestroy(stream), 0);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_ERR(cuda_backend.stream(dev, &app, false), -EIO);
	CHECK_SAYS("cuStreamGetCtx: CUDA_ERROR_INVALID_HANDLE (400)");
	forgive(1);
	break_call("cuStreamIsCapturing", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.stream(dev, app.stream, false), -EIO);
	CHECK_SAYS("cuStreamIsCapturing");
	heal();
	app_end(&app);
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.stream(dev, NULL, false), -EIO);
	CHECK_EQ(cuda_backend.stream(dev, DLBUF_CUDA_STREAM_NO_ORDER, false),
		 STREAM_UNORDERED);
	heal();
	dlbuf_device_close(dev);
	end();
}

/* A graph that is being made does not end because somebody asked. */
TEST(captures)
{
	struct dlbuf_device *dev;
	cuda_stream blocking;
	struct fixture f;
	struct app app;
	void *graph;
	int fence;

	begin("");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.StreamCreate(&blocking, 0));
	import_ok(&f, dev, DLBUF_PATH_HOST);
	for (int mode = 0; mode <= 2; mode++) {
		CHECK_EQ(cux.StreamBeginCapture(app.stream, mode), 0);
		CHECK_ERR(cuda_backend.stream(dev, app.stream, false), -EBUSY);
		CHECK_SAYS("is being captured");
		/* Another one meanwhile, with all that it needs. */
		CHECK_OK(cuda_backend.stream(dev, blocking, false));
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
	CHECK_ERR(cuda_backend.stream(dev, NULL, false), -EBUSY);
	CHECK_ERR(cuda_backend.stream(dev, DLBUF_CUDA_STREAM_PER_THREAD, true),
		  -EBUSY);
	CHECK_OK(cuda_backend.stream(dev, DLBUF_CUDA_STREAM_PER_THREAD, false));
	CHECK_OK(cuda_backend.stream(dev, app.stream, false));
	CHECK_EQ(cux.StreamEndCapture(blocking, &graph), 0);
	CHECK_EQ(cux.GraphDestroy(graph), 0);
	CHECK_EQ(cu.StreamDestroy(blocking), 0);
	import_finish(&f, 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/*
 * Where an access ends that began on a stream of another kind of end: on another
 * thread's per-thread stream, on one that is being captured, on one that has been
 * destroyed. It is over when the work is, and neither the graph nor the device
 * is harmed.
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
	cuda_stream s;
	struct gate gate;
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
	gate_close(&gate, e.handle);
	CHECK_EQ(cu.MemsetD8Async(pointer_of(&f), 0x31, IMPORT_BYTES, e.handle),
		 0);
	if (end_of == CAPTURED || end_of == CAPTURED_BY_LEGACY)
		CHECK_EQ(cux.StreamBeginCapture(capturing, 0), 0);
	if (end_of == DESTROYED) {
		CHECK_EQ(cu.StreamDestroy(s), 0);
		CHECK_ERR(cuda_backend.stream(dev, s, true), -EINVAL);
		CHECK_SAYS("was destroyed");
		CHECK_OK(cuda_backend.stream(dev, app.stream, true));
	}
	if (end_of == ON_ANOTHER_THREAD) {
		REQUIRE(!pthread_create(&thread, NULL, end_access, &e));
		pthread_join(thread, NULL);
	} else {
		e.fence = release(&f, DLBUF_RW, e.handle);
	}
	CHECK(!signalled(e.fence));
	if (end_of == CAPTURED || end_of == CAPTURED_BY_LEGACY) {
		/* Who has to wait for that could wait for ever. */
		CHECK_ERR(cuda_backend.wait(&f.ci.base, DLBUF_RW, 0), -EBUSY);
		CHECK_EQ(cux.StreamEndCapture(capturing, &graph), 0);
		CHECK_EQ(cux.GraphDestroy(graph), 0);
		CHECK(!signalled(e.fence));
	}
	gate_open(&gate);
	until_signalled(e.fence);
	/* A stream that takes no work writes no copy back. */
	CHECK_EQ(f.bytes[77], path == DLBUF_PATH_HOST ? 0x31 : before);
	close(e.fence);
	CHECK_OK(cuda_backend.wait(&f.ci.base, DLBUF_RW, 0));
	if (end_of != DESTROYED)
		CHECK_EQ(cu.StreamDestroy(s), 0);
	gate_end(&gate);
	app_finish(&app, &f);
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

/* It ends when the device is idle, and what is used again is not late. */
TEST(late_work_is_used_again)
{
	struct fixture f;
	struct app app;
	cuda_stream s;
	int fence;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	app_begin(&app, f.dev);
	REQUIRE(!cu.StreamCreate(&s, CUABI_STREAM_NON_BLOCKING));
	CHECK_EQ(cu.StreamDestroy(s), 0);
	fence = release(&f, DLBUF_RW, s);
	until_signalled(fence);
	close(fence);
	while (event_pending())
		sched_yield();
	CHECK_OK(cuda_backend.wait(&f.ci.base, DLBUF_RW, 0));
	fence = pending_fence();
	fake->synchronising = 0;
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	finish(&f);
	CHECK_EQ(fake->synchronising, 0);
	signal_fence(fence);
	close(fence);
	drain(&app);
	app_end(&app);
	end();
}

/* ---------------------------------------------------------------- fences in */

#define OWN ((void *)-2)

/* On each kind of stream: behind the fence, and the caller goes on. */
static void check_waits(void *stream)
{
	struct fixture f;
	struct app app;
	cuda_stream s;
	int fence;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	s = stream ? stream : CUABI_STREAM_LEGACY;
	if (stream == OWN)
		stream = s = app.stream;
	fence = pending_fence();
	fake->synchronising = 0;
	CHECK_OK(acquire(&f, DLBUF_RW, stream, fence));
	CHECK_EQ(cu.MemcpyDtoHAsync(app.pinned, pointer_of(&f), IMPORT_BYTES,
				    s), 0);
	CHECK_EQ(fake->synchronising, 0);
	let_others_run(&app);
	f.bytes[9] = 0x99; /* what the producer does before it signals */
	CHECK_EQ(app.pinned[9], 0);
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	signal_fence(fence);
	close(fence);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_EQ(app.pinned[9], 0x99);
	CHECK(!memcmp(app.pinned, f.bytes, IMPORT_BYTES));
	app_finish(&app, &f);
}

TEST(the_default_stream_waits)
{
	check_waits(NULL);
}

TEST(the_legacy_stream_waits)
{
	check_waits(DLBUF_CUDA_STREAM_LEGACY);
}

TEST(the_per_thread_stream_waits)
{
	check_waits(DLBUF_CUDA_STREAM_PER_THREAD);
}

TEST(a_stream_waits)
{
	check_waits(OWN);
}

/* Nothing to say to the driver: the usual case costs no call. */
TEST(no_fence_no_call)
{
	struct fixture f;
	unsigned long calls;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	calls = fake->calls;
	CHECK_OK(acquire(&f, DLBUF_READ, NULL, -1));
	CHECK_EQ(fake->calls, calls);
	/* And who wants no order gets none. */
	CHECK_OK(acquire(&f, DLBUF_READ, DLBUF_CUDA_STREAM_NO_ORDER, f.memfd));
	CHECK_EQ(release(&f, DLBUF_READ, DLBUF_CUDA_STREAM_NO_ORDER), -1);
	CHECK_EQ(fake->calls, calls);
	CHECK_EQ(release(&f, DLBUF_READ, DLBUF_CUDA_STREAM_NO_ORDER), -1);
	finish(&f);
	end();
}

/* More at once than there are flags on a page, signalled from the last. */
TEST(many_fences)
{
	enum { MANY = 100 };
	cuda_stream streams[MANY];
	struct fixture f;
	int fences[MANY];
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	for (int i = 0; i < MANY; i++) {
		REQUIRE(!cu.StreamCreate(&streams[i],
					 CUABI_STREAM_NON_BLOCKING));
		fences[i] = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, streams[i], fences[i]));
	}
	for (int i = MANY; i--;) {
		CHECK_EQ(cux.StreamQuery(streams[i]), CUABI_NOT_READY);
		signal_fence(fences[i]);
		close(fences[i]);
		CHECK_EQ(cu.StreamSynchronize(streams[i]), 0);
		CHECK_EQ(cu.StreamDestroy(streams[i]), 0);
	}
	/* Those flags serve again: two pages, and ours. */
	settle();
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 4);
	for (int i = 0; i < MANY; i++) {
		fences[i] = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fences[i]));
	}
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(cux.StreamQuery(app.stream), CUABI_NOT_READY);
		signal_fence(fences[i]);
		close(fences[i]);
	}
	drain(&app);
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 4);
	app_finish(&app, &f);
}

/* What the stream waits for lives as long as it waits. */
TEST(the_device_is_closed_before_the_fence)
{
	struct fixture f;
	struct app app;
	int fence;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	app_begin(&app, f.dev);
	fence = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	finish(&f);
	CHECK_EQ(cux.StreamQuery(app.stream), CUABI_NOT_READY);
	signal_fence(fence);
	close(fence);
	drain(&app);
	settle();
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 2);
	app_end(&app);
	end();
}

/* A fence that has signalled frees nothing that a stream has yet to look at. */
TEST(the_stream_looks_at_its_word_later)
{
	struct gate gate;
	struct fixture f;
	struct app app;
	int fence;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	app_begin(&app, f.dev);
	gate_close(&gate, app.stream);
	fence = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	signal_fence(fence);
	close(fence);
	while (event_pending())
		sched_yield();
	/* Nor does this thread wait for the stream. */
	finish(&f);
	gate_open(&gate);
	drain(&app);
	settle();
	gate_end(&gate);
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 2);
	app_end(&app);
	end();
}

/*
 * A free waits for all streams and holds up all other calls, perhaps that of whoever
 * signals the fence: no stream begins to wait for one meanwhile, and no free begins
 * while a stream does.
 */
static struct {
	struct fixture f, other;
	struct app app;
	pthread_t thread;
	int fence;
	unsigned int frees, waits;	/* calls that began */
	bool freed;
} gated;

static void *acquire_beside(void *arg)
{
	CHECK_OK(acquire(&gated.f, DLBUF_READ, gated.app.stream, gated.fence));
	return arg;
}

static void count(const char *call)
{
	if (!strcmp(call, "cuStreamWaitValue32_v2"))
		__atomic_fetch_add(&gated.waits, 1, __ATOMIC_RELEASE);
	else if (!strcmp(call, "cuMemHostUnregister"))
		__atomic_fetch_add(&gated.frees, 1, __ATOMIC_RELEASE);
}

/* As the free begins. glibc counts who waits for the condition. */
static void acquire_inside_a_free(const char *call)
{
	struct queue_device *dev = queue_device_of(gated.f.dev);

	count(call);
	if (gated.thread || strcmp(call, "cuMemHostUnregister"))
		return;
	REQUIRE(!pthread_create(&gated.thread, NULL, acquire_beside, NULL));
	while (!__atomic_load_n(&gated.waits, __ATOMIC_ACQUIRE) &&
	       !(__atomic_load_n(&dev->freed.__data.__wrefs,
				 __ATOMIC_ACQUIRE) >> 3))
		sched_yield();
	/* Or this free waits for ever. */
	if (!CHECK_EQ(gated.waits, 0))
		signal_fence(gated.fence);
}

static void free_inside_a_wait(const char *call)
{
	count(call);
	if (gated.freed || strcmp(call, "cuStreamWaitValue32_v2"))
		return;
	gated.freed = true;
	import_finish(&gated.other, 0);
	CHECK_EQ(__atomic_load_n(&gated.frees, __ATOMIC_ACQUIRE), 0);
}

static void check_gate(void (*look)(const char *call))
{
	begin("");
	memset(&gated, 0, sizeof(gated));
	import_ok(&gated.f, open_ok(), DLBUF_PATH_HOST);
	import_ok(&gated.other, gated.f.dev, DLBUF_PATH_HOST);
	app_begin(&gated.app, gated.f.dev);
	gated.fence = pending_fence();
	fake->look = look;
	if (look == acquire_inside_a_free) {
		import_finish(&gated.other, 0);
		pthread_join(gated.thread, NULL);
	} else {
		acquire_beside(NULL);
	}
	CHECK_EQ(gated.waits, 1);
	signal_fence(gated.fence);
	close(gated.fence);
	drain(&gated.app);
	app_end(&gated.app);
	finish(&gated.f);
	end();
}

TEST(no_wait_begins_during_a_free)
{
	check_gate(acquire_inside_a_free);
}

TEST(no_free_begins_during_a_wait)
{
	check_gate(free_inside_a_wait);
}

static void *signal_soon(void *arg)
{
	/* Whenever that is: who waits for it is not to return before. */
	sched_yield();
	signal_fence(*(int *)arg);
	return NULL;
}

/* Nobody can be told of the fence: whoever acquires waits for it. */
TEST(no_event)
{
	pthread_t thread;
	int fence;
	struct fixture f;
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	fence = pending_fence();
	REQUIRE(!pthread_create(&thread, NULL, signal_soon, &fence));
	take_all_fds();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	CHECK(signalled(fence));
	CHECK_EQ(event_pending(), 0);
	give_back_fds();
	pthread_join(thread, NULL);
	close(fence);
	CHECK_EQ(cux.StreamQuery(app.stream), 0);
	app_finish(&app, &f);
}

/* The wait is not begun, or not told of: no stream is left hanging. */
TEST(every_failure_of_a_wait)
{
	static const char *const calls[] = {
		"cuStreamWaitValue32_v2", "cuEventCreate", "cuEventRecord",
		"cuCtxPushCurrent_v2",
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct dlbuf_device *dev;
		struct fixture f;
		struct app app;
		int fence;

		begin("");
		dev = open_ok();
		import_ok(&f, dev, DLBUF_PATH_HOST);
		app_begin(&app, dev);
		CHECK_EQ(cux.CtxSetCurrent(NULL), 0);
		fence = pending_fence();
		break_call(calls[i], CUABI_UNKNOWN, 0);
		CHECK_ERR(acquire(&f, DLBUF_READ, app.stream, fence), -EIO);
		CHECK_SAYS("CUDA_ERROR_UNKNOWN (999)");
		heal();
		signal_fence(fence);
		close(fence);
		CHECK_EQ(cu.CtxPushCurrent(app.ctx), 0);
		drain(&app);
		app_end(&app);
		finish(&f);
		end();
	}
}

/* ---------------------------------------------------------------- releases */

/* Readable after the work, for everybody who waits, however often. */
TEST(release_gives_an_event)
{
	struct gate gate;
	struct fixture f;
	struct app app;
	uint64_t n = 0;
	int fence, again;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gate_close(&gate, app.stream);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x42);
	fake->synchronising = 0;
	fence = release(&f, DLBUF_RW, app.stream);
	CHECK_EQ(fake->synchronising, 0);
	let_others_run(&app);
	CHECK(!signalled(fence));
	CHECK_EQ(f.bytes[0], 1);
	gate_open(&gate);
	until_signalled(fence);
	CHECK_EQ(f.bytes[IMPORT_BYTES - 1], 0x42);
	again = dup(fence);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(read(fence, &n, sizeof(n)), sizeof(n));
		CHECK_EQ(n, 1);
		CHECK(signalled(fence) && signalled(again));
	}
	close(again);
	close(fence);
	drain(&app);
	gate_end(&gate);
	app_finish(&app, &f);
}

/* Nobody asks: an event of the driver's, no fd, no function. */
TEST(release_nobody_asks)
{
	struct fixture f;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	for (int i = 0; i < 3; i++)
		CHECK_OK(cuda_backend.release(&f.ci.base, DLBUF_READ, NULL,
					      NULL, NULL));
	CHECK_EQ(fake->host_functions, 0);
	finish(&f);
	end();
}

TEST(events_are_used_again)
{
	struct fixture f;
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	for (int i = 0; i < 100; i++) {
		int fence = release(&f, DLBUF_READ, app.stream);

		until_signalled(fence);
		close(fence);
		drain(&app);
	}
	CHECK_EQ(fake->made[FAKE_EVENT], 1);
	app_finish(&app, &f);
}

/* No event: the work is over when the release returns. */
TEST(release_without_an_event)
{
	static const char *const calls[] = {
		"cuEventCreate", "cuLaunchHostFunc", "cuEventRecord",
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct fixture f;
		struct app app;

		begin("");
		import_ok(&f, open_ok(), DLBUF_PATH_HOST);
		app_begin(&app, f.dev);
		gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x42);
		break_call(calls[i], CUABI_UNKNOWN, 0);
		fake->synchronising = 0;
		CHECK_EQ(release(&f, DLBUF_RW, app.stream), -1);
		CHECK_EQ(fake->synchronising, 1);
		CHECK_EQ(f.bytes[IMPORT_BYTES - 1], 0x42);
		heal();
		app_end(&app);
		finish(&f);
		end();
	}
}

TEST(release_fails)
{
	struct fixture f;
	struct app app;
	int fence = 7;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.release(&f.ci.base, DLBUF_READ, NULL, &fence, NULL),
		  -EIO);
	CHECK_EQ(fence, -1);
	heal();
	app_begin(&app, f.dev);
	break_call("cuStreamSynchronize", CUABI_UNKNOWN, 0);
	fake->fail_at = 5; /* what comes before that */
	fence = 7;
	CHECK_ERR(cuda_backend.release(&f.ci.base, DLBUF_READ, app.stream,
				       &fence, NULL), -EIO);
	CHECK_SAYS("cuStreamSynchronize");
	CHECK_EQ(fence, -1);
	heal();
	app_finish(&app, &f);
}

/* ---------------------------------------------------------------- waits */

TEST(wait)
{
	static const struct {
		uint32_t released, access;
		bool waits;
	} cases[] = {
		{ DLBUF_READ, DLBUF_READ, false },
		{ DLBUF_READ, DLBUF_WRITE, true },
		{ DLBUF_WRITE, DLBUF_READ, true },
		{ DLBUF_RW, DLBUF_RW, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pthread_t thread;
		struct waiter w;
		struct gate gate;
		struct fixture f;
		struct app app;

		begin("");
		import_ok(&f, open_ok(), DLBUF_PATH_HOST);
		w = (struct waiter){ .f = &f, .access = cases[i].access };
		app_begin(&app, f.dev);
		gate_close(&gate, app.stream);
		CHECK_OK(cuda_backend.release(&f.ci.base, cases[i].released,
					      app.stream, NULL, NULL));
		if (cases[i].waits)
			CHECK_ERR(cuda_backend.wait(&f.ci.base,
						    cases[i].access, 1),
				  -ETIME);
		watch("cuEventSynchronize");
		REQUIRE(!pthread_create(&thread, NULL, wait_for, &w));
		while (!is_done(&w) && !seen)
			sched_yield();
		CHECK_EQ(is_done(&w), !cases[i].waits);
		gate_open(&gate);
		pthread_join(thread, NULL);
		CHECK_OK(w.ret);
		drain(&app);
		CHECK_OK(cuda_backend.wait(&f.ci.base, DLBUF_RW, 1));
		gate_end(&gate);
		app_end(&app);
		finish(&f);
		end();
	}
}

/* A deadline far away, and work that ends before. */
TEST(wait_with_a_deadline)
{
	struct gate gate;
	struct fixture f;
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	gate_close(&gate, app.stream);
	CHECK_OK(cuda_backend.release(&f.ci.base, DLBUF_RW, app.stream, NULL, NULL));
	watch(NULL);
	later = &gate;
	fake->look = open_later;
	fake->synchronising = 0;
	CHECK_OK(cuda_backend.wait(&f.ci.base, DLBUF_RW, UINT64_MAX));
	CHECK_EQ(fake->synchronising, 0);
	fake->look = NULL;
	drain(&app);
	gate_end(&gate);
	gate_close(&gate, app.stream);
	CHECK_OK(cuda_backend.release(&f.ci.base, DLBUF_RW, app.stream, NULL, NULL));
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	CHECK_EQ(cux.CtxSetCurrent(NULL), 0);
	CHECK_ERR(cuda_backend.wait(&f.ci.base, DLBUF_RW, 0), -EIO);
	heal();
	CHECK_EQ(cu.CtxPushCurrent(app.ctx), 0);
	break_call("cuEventQuery", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.wait(&f.ci.base, DLBUF_RW, UINT64_MAX), -EIO);
	heal();
	gate_open(&gate);
	drain(&app);
	gate_end(&gate);
	app_finish(&app, &f);
}

/* ---------------------------------------------------------------- copies */

static bool sums(const uint8_t *p, unsigned int seed)
{
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		if (p[i] != (uint8_t)(i * 7 + i / 4096 * 13 + seed))
			return false;
	return true;
}

static void fill(struct fixture *f, unsigned int seed)
{
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		f->bytes[i] = (uint8_t)(i * 7 + i / 4096 * 13 + seed);
}

TEST(copy_in)
{
	DLBUF_INFO(dlbuf_device_stats, stats);
	struct fixture f;
	struct app app;
	int fence;

	app_import(&app, &f, "", DLBUF_PATH_COPY);
	fake->synchronising = 0;
	fence = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
	gpu_reads(&app, &f);
	fill(&f, 5);
	CHECK_EQ(app.pinned[0], 0);
	CHECK_EQ(cux.StreamQuery(app.stream), CUABI_NOT_READY);
	signal_fence(fence);
	close(fence);
	fence = release(&f, DLBUF_READ, app.stream);
	CHECK_EQ(fake->synchronising, 0);
	until_signalled(fence);
	close(fence);
	CHECK(sums(app.pinned, 5));
	/* The next access is of what is there then. */
	drain(&app);
	fill(&f, 6);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	gpu_reads(&app, &f);
	close(release(&f, DLBUF_READ, app.stream));
	drain(&app);
	CHECK(sums(app.pinned, 6));
	CHECK(sums(f.bytes, 6));
	CHECK_EQ(fake->pageable_copies, 0);
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.copies, 2);
	CHECK_EQ(stats.copied_bytes, 2 * IMPORT_BYTES);
	app_finish(&app, &f);
}

/* What is not written stays as it was. */
TEST(copy_out)
{
	struct fixture f;
	struct app app;
	int fence;

	app_import(&app, &f, "", DLBUF_PATH_COPY);
	CHECK_OK(acquire(&f, DLBUF_WRITE, app.stream, -1));
	gpu_sets(&app, &f, 4000, 200, 0x77);
	fake->synchronising = 0;
	fence = release(&f, DLBUF_WRITE, app.stream);
	CHECK_EQ(fake->synchronising, 0);
	until_signalled(fence);
	close(fence);
	for (size_t i = 4000; i < 4200; i++) {
		if (!CHECK_EQ(f.bytes[i], 0x77))
			break;
		f.bytes[i] = (uint8_t)(i * 7 + i / 4096 * 13 + 1);
	}
	CHECK(sums(f.bytes, 1));
	drain(&app);
	app_finish(&app, &f);
}

/* A reader's bytes do not come back. */
TEST(readers_copy_nothing_out)
{
	struct fixture f;
	struct app app;
	int fence;

	begin("");
	REQUIRE_OK(import_as(&f, open_ok(), PATH_BIT(DLBUF_PATH_COPY),
			     DLBUF_READ));
	app_begin(&app, f.dev);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	drain(&app);
	fill(&f, 9);
	fence = release(&f, DLBUF_READ, app.stream);
	until_signalled(fence);
	close(fence);
	drain(&app);
	CHECK(sums(f.bytes, 9));
	app_finish(&app, &f);
}

/* Accesses that overlap see one copy, and a later stream waits for it. */
TEST(overlapping_copies)
{
	DLBUF_INFO(dlbuf_device_stats, stats);
	cuda_stream second;
	struct fixture f;
	struct app app;
	int first, fence;

	app_import(&app, &f, "", DLBUF_PATH_COPY);
	REQUIRE(!cu.StreamCreate(&second, CUABI_STREAM_NON_BLOCKING));
	first = pending_fence();
	fence = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, first));
	CHECK_OK(acquire(&f, DLBUF_READ, second, fence));
	CHECK_EQ(cu.MemcpyDtoHAsync(app.pinned, pointer_of(&f), IMPORT_BYTES,
				    second), 0);
	signal_fence(fence);
	let_others_run(&app);
	CHECK_EQ(cux.StreamQuery(second), CUABI_NOT_READY);
	fill(&f, 3);
	signal_fence(first);
	CHECK_EQ(cu.StreamSynchronize(second), 0);
	CHECK(sums(app.pinned, 3));
	fill(&f, 4);
	CHECK_OK(acquire(&f, DLBUF_READ, second, -1));
	close(release(&f, DLBUF_READ, app.stream));
	close(release(&f, DLBUF_READ, second));
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.copied_bytes, IMPORT_BYTES);
	CHECK_EQ(stats.copies, 3);
	close(release(&f, DLBUF_READ, second));
	/* All are over: the next one is a new copy. */
	CHECK_OK(acquire(&f, DLBUF_READ, second, -1));
	CHECK_EQ(cu.MemcpyDtoHAsync(app.pinned, pointer_of(&f), IMPORT_BYTES,
				    second), 0);
	close(release(&f, DLBUF_READ, second));
	CHECK_EQ(cu.StreamSynchronize(second), 0);
	CHECK(sums(app.pinned, 4));
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.copied_bytes, 2 * IMPORT_BYTES);
	close(first);
	close(fence);
	CHECK_EQ(cu.StreamDestroy(second), 0);
	app_finish(&app, &f);
}

/* The next copy in does not overwrite what an earlier stream still reads. */
TEST(copies_in_order)
{
	cuda_stream second;
	struct gate gate;
	struct fixture f;
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_COPY);
	REQUIRE(!cu.StreamCreate(&second, CUABI_STREAM_NON_BLOCKING));
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	drain(&app);
	gate_close(&gate, app.stream);
	gpu_reads(&app, &f);
	close(release(&f, DLBUF_READ, app.stream));
	fill(&f, 8);
	CHECK_OK(acquire(&f, DLBUF_READ, second, -1));
	let_others_run(&app);
	CHECK_EQ(cux.StreamQuery(second), CUABI_NOT_READY);
	gate_open(&gate);
	drain(&app);
	CHECK(sums(app.pinned, 1));
	close(release(&f, DLBUF_READ, second));
	CHECK_EQ(cu.StreamSynchronize(second), 0);
	CHECK_EQ(cu.StreamDestroy(second), 0);
	gate_end(&gate);
	app_finish(&app, &f);
}

/* A copy is made on a stream, and written back on one. */
TEST(copies_need_an_order)
{
	struct fixture f;
	struct app app;
	int fence = 7;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_COPY);
	CHECK_ERR(acquire(&f, DLBUF_READ, DLBUF_CUDA_STREAM_NO_ORDER, -1),
		  -EINVAL);
	CHECK_SAYS("this handle is none");
	app_begin(&app, f.dev);
	/* It ends all the same: the next one is a new copy. */
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	CHECK_EQ(release(&f, DLBUF_READ, DLBUF_CUDA_STREAM_NO_ORDER), -1);
	drain(&app);
	fill(&f, 2);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gpu_reads(&app, &f);
	CHECK_ERR(cuda_backend.release(&f.ci.base, DLBUF_RW,
				       DLBUF_CUDA_STREAM_NO_ORDER, &fence, NULL),
		  -EINVAL);
	CHECK_EQ(fence, -1);
	drain(&app);
	CHECK(sums(app.pinned, 2));
	/* Nothing of it is left for the next one to copy out. */
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	close(release(&f, DLBUF_READ, app.stream));
	drain(&app);
	CHECK(sums(f.bytes, 2));
	app_finish(&app, &f);
}

/* Whatever of a copy has begun is waited for before its memory goes. */
TEST(every_failure_of_a_copy)
{
	static const struct {
		const char *call;
		unsigned int spared;
		bool acquired;
	} cases[] = {
		{ "cuStreamWaitEvent", 0, false },
		{ "cuStreamWaitValue32_v2", 0, false },
		{ "cuLaunchHostFunc", 0, false },
		{ "cuMemcpyHtoDAsync_v2", 0, false },
		{ "cuEventRecord", 1, false },
		{ "cuCtxPushCurrent_v2", 0, false },
		{ "cuMemcpyDtoHAsync_v2", 0, true },
		{ "cuLaunchHostFunc", 1, true },
		{ "cuCtxPushCurrent_v2", 1, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		struct app app;
		int fence, out = 7, ret;

		begin("");
		import_ok(&f, open_ok(), DLBUF_PATH_COPY);
		app_begin(&app, f.dev);
		CHECK_EQ(cux.CtxSetCurrent(NULL), 0);
		fence = pending_fence();
		signal_fence(fence);
		break_call(cases[i].call, CUABI_UNKNOWN, cases[i].spared);
		ret = acquire(&f, DLBUF_RW, app.stream, fence);
		if (!CHECK_EQ(ret, cases[i].acquired ? 0 : -EIO))
			ktap_note(NULL, 0, "%s: %s", cases[i].call,
				  dlbuf_last_error());
		if (!ret) {
			CHECK_ERR(cuda_backend.release(&f.ci.base, DLBUF_RW,
						       app.stream, &out, NULL),
				  -EIO);
			CHECK_EQ(out, -1);
		}
		heal();
		CHECK_EQ(f.ci.memory->open, 0);
		/* Its memory goes before anybody has waited. */
		import_finish(&f, 0);
		close(fence);
		CHECK_EQ(cu.CtxPushCurrent(app.ctx), 0);
		drain(&app);
		app_end(&app);
		dlbuf_device_close(f.dev);
		end();
	}
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static enum dlbuf_path walk_path;

static int walk(void)
{
	struct dlbuf_device *dev = NULL;
	int in, out = -1, ret;
	pthread_t thread;
	struct fixture f;

	ret = dlbuf_device_open("cuda", NULL, &dev);
	if (ret)
		return ret;
	in = dev->acquire_sync == DLBUF_SYNC_FENCE ? pending_fence() : -1;
	ret = import_as(&f, dev, PATH_BIT(walk_path), DLBUF_RW);
	if (ret) {
		import_finish(&f, ret);
		goto out;
	}
	/* The acquire may have to wait. */
	if (in != -1)
		REQUIRE(!pthread_create(&thread, NULL, signal_soon, &in));
	ret = acquire(&f, DLBUF_RW, NULL, in);
	if (in != -1)
		pthread_join(thread, NULL);
	if (!ret) {
		ret = cuda_backend.release(&f.ci.base, DLBUF_RW, NULL, &out, NULL);
		CHECK(!ret || out == -1);
	}
	if (!ret)
		ret = cuda_backend.wait(&f.ci.base, DLBUF_RW, 0);
	CHECK_EQ(f.ci.memory->open, 0);
	import_finish(&f, 0);
	if (out != -1) {
		until_signalled(out);
		close(out);
	}
out:
	if (in != -1)
		close(in);
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_fails_once)
{
	static const struct {
		const char *words;
		enum dlbuf_path path;
	} cases[] = {
		{ "thor,memfds", DLBUF_PATH_DIRECT },
		{ "", DLBUF_PATH_HOST },
		{ "", DLBUF_PATH_COPY },
		{ "nomemops", DLBUF_PATH_COPY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin(cases[i].words);
		walk_path = cases[i].path;
		check_walks(walk);
		end();
	}
}
#endif
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
