// SPDX-License-Identifier: MIT
/*
 * The double of CUDA's driver (tests/fakes/cuda.h) itself, what it allows and
 * what it refuses: streams and captures. Tests of the backend lean on both.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_double.h"

/* ---------------------------------------------------------------- streams */

TEST(streams_are_queues)
{
	struct gate g;
	cuda_stream s, other;

	begin(NULL);
	g = gate_make();
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	other = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_WRONG(cu.StreamCreate(&s, 2), CUABI_INVALID_VALUE);
	CHECK_EQ(cux.StreamQuery(s), 0);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 3, 0), 0);
	TELL(s, 'c');
	TELL(s, 'd');
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	TELL(other, 'a');
	CHECK_EQ(cu.StreamSynchronize(other), 0);
	strcat(told, "b");
	atomic_store(g.flag, 2);
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	atomic_store(g.flag, 4);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_STR(told, "abcd");
	CHECK_EQ(cux.StreamQuery(s), 0);
	CHECK_EQ(fake->host_functions, 3);
	/* The comparison is cyclic. */
	atomic_store(g.flag, 0);
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 0xfffffff0, 0), 0);
	CHECK_EQ(cux.StreamWriteValue32(s, g.address, 7, 0), 0);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_EQ(*g.flag, 7);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_EQ(cu.StreamDestroy(other), 0);
	CHECK_WRONG(cu.StreamDestroy(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamSynchronize(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.LaunchHostFunc(NULL, NULL, NULL), CUABI_INVALID_VALUE);
	gate_free(&g);
	end();
}

TEST(waits_for_values_have_rules)
{
	cuda_pointer m;
	struct gate g;

	begin(NULL);
	g = gate_make();
	CHECK_EQ(cux.MemAllocManaged(&m, 4, CUABI_MEM_ATTACH_GLOBAL), 0);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, g.address + 2, 0, 0),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, g.address, 0, 9),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, g.address + 64, 0, 0),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, m, 0, 0), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(m), 0);
	gate_free(&g);
	end();
	begin("nomemops");
	g = gate_make();
	CHECK_REFUSED(cu.StreamWaitValue32(NULL, g.address, 0, 0),
		      CUABI_NOT_SUPPORTED);
	gate_free(&g);
	end();
}

/* The legacy stream waits for blocking streams, and they for it. */
TEST(legacy_stream)
{
	cuda_stream blocking, free_one;
	struct gate g;

	begin(NULL);
	g = gate_make();
	blocking = stream_make(0);
	free_one = stream_make(CUABI_STREAM_NON_BLOCKING);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(blocking, g.address, 1, 0), 0);
	TELL(blocking, 'b');
	TELL(NULL, 'c');
	TELL(CUABI_STREAM_PER_THREAD, 'd');
	TELL(free_one, 'a');
	CHECK_EQ(cu.StreamSynchronize(free_one), 0);
	CHECK_STR(told, "a");
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_LEGACY), CUABI_NOT_READY);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(CUABI_STREAM_PER_THREAD), 0);
	CHECK_STR(told, "abcd");
	/* Nothing is in it, but what it would wait for is not over. */
	CHECK_EQ(cu.StreamWaitValue32(blocking, g.address, 2, 0), 0);
	CHECK_EQ(cux.StreamQuery(NULL), CUABI_NOT_READY);
	atomic_store(g.flag, 2);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_EQ(cux.StreamQuery(blocking), 0);
	CHECK_EQ(cu.StreamDestroy(blocking), 0);
	CHECK_EQ(cu.StreamDestroy(free_one), 0);
	gate_free(&g);
	end();
}

static void *thread_streams(void *data)
{
	struct gate *g = data;

	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_PER_THREAD), 0);
	CHECK_EQ(cu.StreamWaitValue32(CUABI_STREAM_PER_THREAD, g->address, 2,
				      0), 0);
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_PER_THREAD), CUABI_NOT_READY);
	return NULL;
}

TEST(each_thread_has_a_stream)
{
	pthread_t thread;
	struct gate g;

	begin(NULL);
	g = gate_make();
	CHECK_EQ(cu.StreamWaitValue32(CUABI_STREAM_PER_THREAD, g.address, 1,
				      0), 0);
	REQUIRE(!pthread_create(&thread, NULL, thread_streams, &g));
	pthread_join(thread, NULL);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(CUABI_STREAM_PER_THREAD), 0);
	CHECK_EQ(fake->pending, 1);
	atomic_store(g.flag, 2);
	CHECK_EQ(cu.CtxSynchronize(), 0);
	CHECK_EQ(fake->pending, 0);
	gate_free(&g);
	end();
}

TEST(pageable_copies_wait)
{
	char in[16] = "pageable", out[16];
	cuda_pointer d, other;
	cuda_stream s;
	void *h;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.MemAlloc(&d, 16), 0);
	CHECK_EQ(cu.MemsetD8Async(d, 0, 16, s), 0);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_EQ(cu.MemcpyHtoDAsync(d, in, 9, s), 0);
	memset(in, 0, sizeof(in));
	CHECK_EQ(cu.MemcpyDtoHAsync(out, d, 16, s), 0);
	CHECK_STR(out, "pageable");
	CHECK_EQ(cu.MemcpyHtoDAsync(d, in, 0, s), 0);
	CHECK_EQ(cu.MemcpyDtoHAsync(out, d, 0, s), 0);
	CHECK_EQ(fake->pageable_copies, 2);
	CHECK_EQ(fake->synchronising, 2);
	CHECK_EQ(cu.MemHostAlloc(&h, 16, 0), 0);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	CHECK_EQ(cu.MemAlloc(&other, 16), 0);
	CHECK_EQ(cu.MemFree(other), 0);
	CHECK_EQ(fake->synchronising, 2);
	CHECK_WRONG(cu.MemcpyHtoDAsync(d, (void *)(uintptr_t)16, 9, s),
		    CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(d), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

TEST(freed_under_the_device)
{
	cuda_stream s;
	struct gate g;
	cuda_pointer d;
	char *p;

	begin(NULL);
	g = gate_make();
	p = map_memory(PROT_READ | PROT_WRITE);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.MemAlloc(&d, 64), 0);
	CHECK_EQ(cu.MemHostRegister(p, 64, 2), 0);
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
	CHECK_EQ(cu.MemcpyHtoDAsync(d, p, 64, s), 0);
	CHECK_WRONG(cu.MemHostUnregister(p), 0);
	munmap(p, REGISTER_BYTES);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_WRONG(cu.MemFree(d), 0);
	CHECK_EQ(fake->synchronising, 0);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	gate_free(&g);
	end();
}

static _Atomic(unsigned int) freeing;

static void look_for_frees(const char *call)
{
	if (strstr(call, "Free") || strstr(call, "Unregister"))
		freeing++;
}

static void *open_while_freeing(void *flag)
{
	while (!freeing)
		sched_yield();
	atomic_store((_Atomic(uint32_t) *)flag, 1);
	return NULL;
}

/* Whatever a stream does: it need not use what is freed. */
TEST(frees_wait_for_every_stream)
{
	cuda_pointer d;
	pthread_t thread;
	cuda_stream s;
	struct gate g;
	void *h;
	char *p;

	begin(NULL);
	p = map_memory(PROT_READ | PROT_WRITE);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	fake->look = look_for_frees;
	for (int which = 0; which < 3; which++) {
		g = gate_make();
		CHECK_EQ(cu.MemAlloc(&d, 64), 0);
		CHECK_EQ(cu.MemHostAlloc(&h, 64, 0), 0);
		CHECK_EQ(cu.MemHostRegister(p, 64, 2), 0);
		CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
		freeing = 0;
		REQUIRE(!pthread_create(&thread, NULL, open_while_freeing,
					(void *)g.flag));
		CHECK_EQ(which == 0 ? cu.MemFree(d) :
			 which == 1 ? cu.MemFreeHost(h) :
				      cu.MemHostUnregister(p), 0);
		CHECK_EQ(cux.StreamQuery(s), 0);
		pthread_join(thread, NULL);
		if (which != 0)
			CHECK_EQ(cu.MemFree(d), 0);
		if (which != 1)
			CHECK_EQ(cu.MemFreeHost(h), 0);
		if (which != 2)
			CHECK_EQ(cu.MemHostUnregister(p), 0);
		gate_free(&g);
	}
	fake->look = NULL;
	munmap(p, REGISTER_BYTES);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

/* Memory may go without a word to CUDA, which is found when it is used. */
TEST(unmapped_under_the_device)
{
	int fd = memfd_of(REGISTER_BYTES);
	cuda_pointer d;
	struct gate g;
	char *p;

	begin(NULL);
	g = gate_make();
	p = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	REQUIRE(p != MAP_FAILED);
	CHECK_EQ(cu.MemAlloc(&d, 64), 0);
	CHECK_EQ(cu.MemHostRegister(p, 64, 2), 0);
	CHECK_EQ(cu.StreamWaitValue32(NULL, g.address, 1, 0), 0);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)p, 1, 64, NULL), 0);
	CHECK_EQ(cu.MemcpyHtoDAsync(d, p, 64, NULL), 0);
	CHECK_EQ(cux.StreamWriteValue32(NULL, (uintptr_t)p, 1, 0), 0);
	CHECK_EQ(cu.StreamWaitValue32(NULL, (uintptr_t)p, 1, 0), 0);
	replace(p);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	forgive(4);
	CHECK_WRONG(cu.MemHostUnregister(p), 0);
	CHECK_EQ(cu.MemFree(d), 0);
	gate_free(&g);
	munmap(p, REGISTER_BYTES);
	close(fd);
	end();
}

TEST(events)
{
	cuda_event e, early, foreign;
	cuda_stream a, b;
	cuda_context other;
	struct gate g;

	begin(NULL);
	g = gate_make();
	a = stream_make(CUABI_STREAM_NON_BLOCKING);
	b = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, CUABI_EVENT_DISABLE_TIMING), 0);
	CHECK_EQ(cu.EventCreate(&early, 0), 0);
	CHECK_WRONG(cu.EventCreate(&foreign, 8), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.EventQuery(e), 0);
	CHECK_EQ(cu.StreamWaitEvent(b, e, 0), 0);
	told[0] = '\0';
	CHECK_EQ(cu.EventRecord(early, a), 0);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_EQ(cu.EventSynchronize(early), 0);
	CHECK_EQ(fake->synchronising, 1);
	CHECK_EQ(cu.StreamWaitValue32(a, g.address, 1, 0), 0);
	TELL(a, 'a');
	CHECK_EQ(cu.EventRecord(e, a), 0);
	CHECK_EQ(cu.EventQuery(e), CUABI_NOT_READY);
	CHECK_EQ(cu.EventQuery(early), 0);
	CHECK_EQ(cu.StreamWaitEvent(b, e, 0), 0);
	TELL(b, 'b');
	/* b waits for what e was, whatever becomes of e. */
	CHECK_EQ(cu.EventRecord(e, NULL), 0);
	CHECK_EQ(cu.EventSynchronize(e), 0);
	CHECK_EQ(cux.StreamQuery(b), CUABI_NOT_READY);
	CHECK_EQ(cu.EventRecord(e, a), 0);
	CHECK_EQ(cu.EventDestroy(e), 0);
	CHECK_WRONG(cu.EventQuery(e), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.EventDestroy(e), CUABI_INVALID_HANDLE);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(b), 0);
	CHECK_STR(told, "ab");
	/* Events are recorded in their own context, and waited for in any. */
	CHECK_EQ(cux.CtxCreate(&other, 0, 0), 0);
	CHECK_EQ(cu.EventCreate(&foreign, 0), 0);
	CHECK_WRONG(cu.EventRecord(foreign, a), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.EventRecord(early, NULL), CUABI_INVALID_HANDLE);
	CHECK_EQ(cu.EventRecord(foreign, NULL), 0);
	CHECK_EQ(cu.StreamWaitEvent(a, foreign, 0), 0);
	CHECK_WRONG(cu.StreamWaitEvent(a, foreign, 4), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.EventDestroy(foreign), 0);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_EQ(cu.StreamSynchronize(a), 0);
	CHECK_EQ(cu.EventDestroy(early), 0);
	CHECK_EQ(cu.StreamDestroy(a), 0);
	CHECK_EQ(cu.StreamDestroy(b), 0);
	gate_free(&g);
	end();
}

/* A stream that is destroyed goes when its work is over. */
TEST(streams_end_later)
{
	struct gate g;
	cuda_stream s;

	begin(NULL);
	g = gate_make();
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
	TELL(s, 'a');
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_EQ(fake->live[FAKE_STREAM], 0);
	CHECK_STR(told, "");
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.CtxSynchronize(), 0);
	CHECK_STR(told, "a");
	gate_free(&g);
	end();
}

static cuda_result in_function;

static void call_cuda(void *data)
{
	in_function = cu.EventQuery(data);
}

TEST(host_functions_call_nothing)
{
	cuda_event e;

	begin(NULL);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	CHECK_EQ(cu.LaunchHostFunc(NULL, call_cuda, e), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	forgive(1);
	CHECK_EQ(in_function, CUABI_NOT_PERMITTED);
	CHECK_EQ(cu.EventDestroy(e), 0);
	end();
}

TEST(streams_have_contexts)
{
	cuda_context ctx, other;
	cuda_stream s;

	begin(NULL);
	s = stream_make(0);
	CHECK_EQ(cux.CtxCreate(&other, 0, 0), 0);
	CHECK_EQ(cu.StreamGetCtx(s, &ctx), 0);
	CHECK(ctx == primary);
	CHECK_EQ(cu.StreamGetCtx(NULL, &ctx), 0);
	CHECK(ctx == other);
	CHECK_EQ(cu.StreamGetCtx(CUABI_STREAM_PER_THREAD, &ctx), 0);
	CHECK(ctx == other);
	CHECK_WRONG(cu.StreamGetCtx((cuda_stream)&ctx, &ctx),
		    CUABI_INVALID_HANDLE);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

/* ---------------------------------------------------------------- captures */

static int capture_status(cuda_stream s)
{
	int status = -1;

	CHECK_EQ(cu.StreamIsCapturing(s, &status), 0);
	return status;
}

TEST(captures_record)
{
	void *graph;
	cuda_stream s;
	cuda_event e;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_NONE);
	CHECK_WRONG(cux.StreamEndCapture(s, &graph), CUABI_INVALID_VALUE);
	CHECK_WRONG(cux.StreamBeginCapture(NULL, 0), CUABI_INVALID_VALUE);
	CHECK_WRONG(cux.StreamBeginCapture(s, 3), CUABI_INVALID_VALUE);
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	CHECK_WRONG(cux.StreamBeginCapture(s, 0), CUABI_INVALID_VALUE);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_ACTIVE);
	told[0] = '\0';
	TELL(s, 'a');
	CHECK_EQ(cu.EventRecord(e, s), 0);
	CHECK_EQ(fake->pending, 0);
	CHECK_EQ(cux.StreamEndCapture(s, &graph), 0);
	CHECK(graph);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_NONE);
	/* The event is the graph's. */
	CHECK_WRONG(cu.EventQuery(e), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_WRONG(cu.EventSynchronize(e), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_WRONG(cu.StreamWaitEvent(NULL, e, 0), CUABI_NOT_SUPPORTED);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_STR(told, "");
	CHECK_EQ(cu.EventRecord(e, s), 0);
	CHECK_EQ(cu.EventSynchronize(e), 0);
	CHECK_EQ(cux.GraphDestroy(graph), 0);
	CHECK_WRONG(cux.GraphDestroy(graph), CUABI_INVALID_VALUE);
	/* A stream may go while it captures. */
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	TELL(s, 'b');
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_EQ(cu.EventDestroy(e), 0);
	end();
}

/* One call of each kind that a capture may forbid. */
static cuda_result unsafe(int which, cuda_event e, void *p)
{
	cuda_pointer d;
	cuda_result ret;
	void *h;

	switch (which) {
	case 0:
		ret = cu.MemAlloc(&d, 8);
		return ret ? ret : cu.MemFree(d);
	case 1:
		ret = cu.MemHostAlloc(&h, 8, 0);
		return ret ? ret : cu.MemFreeHost(h);
	case 2:
		ret = cu.MemHostRegister(p, 8, 0);
		return ret ? ret : cu.MemHostUnregister(p);
	case 3:
		return cu.EventQuery(e);
	case 4:
		return cu.StreamSynchronize(NULL);
	case 5:
		return cu.CtxSynchronize();
	case 6:
		return cu.EventSynchronize(e);
	default:
		return -1;
	}
}

static int other_mode;
static cuda_result other_result;

static void *other_thread(void *data)
{
	int mode = other_mode;
	cuda_pointer d;

	(void)data;
	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_EQ(cu.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_GLOBAL);
	other_result = cu.MemAlloc(&d, 8);
	if (!other_result)
		CHECK_EQ(cu.MemFree(d), 0);
	return NULL;
}

static cuda_result in_other_thread(int mode)
{
	pthread_t thread;

	other_mode = mode;
	REQUIRE(!pthread_create(&thread, NULL, other_thread, NULL));
	pthread_join(thread, NULL);
	return other_result;
}

TEST(captures_forbid)
{
	void *graph, *p = map_memory(PROT_READ | PROT_WRITE);
	int mode = CUABI_STREAM_CAPTURE_MODE_RELAXED;
	cuda_stream s;
	cuda_event e;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	for (int i = 0; i < 7; i++) {
		CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
		CHECK_WRONG(unsafe(i, e, p), CUABI_STREAM_CAPTURE_UNSUPPORTED);
		CHECK_EQ(capture_status(s),
			 CUABI_STREAM_CAPTURE_STATUS_INVALIDATED);
		CHECK_WRONG(cu.EventRecord(e, s),
			    CUABI_STREAM_CAPTURE_INVALIDATED);
		CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
			      CUABI_STREAM_CAPTURE_INVALIDATED);
		CHECK(!graph);
	}
	/* A thread that says it knows is not stopped, and stops nothing. */
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	CHECK_EQ(cu.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_GLOBAL);
	for (int i = 0; i < 7; i++)
		CHECK_EQ(unsafe(i, e, p), 0);
	CHECK_WRONG(cux.StreamQuery(s), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
		      CUABI_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cu.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_RELAXED);
	mode = 3;
	CHECK_WRONG(cu.ThreadExchangeStreamCaptureMode(&mode),
		    CUABI_INVALID_VALUE);
	CHECK_EQ(cu.EventDestroy(e), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	munmap(p, REGISTER_BYTES);
	end();
}

static void *end_elsewhere(void *data)
{
	void *graph;

	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	other_result = cux.StreamEndCapture(data, &graph);
	CHECK(!graph == !!other_result);
	if (graph)
		CHECK_EQ(cux.GraphDestroy(graph), 0);
	return NULL;
}

/* Two at once; who has begun one ends it, unless it is relaxed. */
TEST(captures_end_where_they_began)
{
	cuda_stream relaxed, s;
	pthread_t thread;
	void *graph;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	relaxed = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	CHECK_EQ(cux.StreamBeginCapture(relaxed,
				CUABI_STREAM_CAPTURE_MODE_RELAXED), 0);
	REQUIRE(!pthread_create(&thread, NULL, end_elsewhere, s));
	pthread_join(thread, NULL);
	CHECK_EQ(other_result, CUABI_STREAM_CAPTURE_WRONG_THREAD);
	forgive(1);
	REQUIRE(!pthread_create(&thread, NULL, end_elsewhere, relaxed));
	pthread_join(thread, NULL);
	CHECK_EQ(other_result, 0);
	/* The other one is not over, and still forbids. */
	CHECK_WRONG(cu.CtxSynchronize(), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
		      CUABI_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cu.StreamDestroy(relaxed), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_WRONG(cux.StreamBeginCapture(s, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cux.StreamEndCapture(s, &graph), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cux.StreamQuery(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.MemsetD8Async(0, 0, 1, s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.MemcpyHtoDAsync(0, &s, 1, s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.MemcpyDtoHAsync(&s, 0, 1, s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamWaitValue32(s, 0, 0, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.LaunchHostFunc(s, tell, NULL), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamWaitEvent(s, NULL, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamWaitEvent(NULL, NULL, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.EventRecord(NULL, NULL), CUABI_INVALID_HANDLE);
	end();
}

TEST(captures_and_threads)
{
	static const struct {
		int capture, thread;
		bool forbidden;
	} cases[] = {
		{ 0, 0, true }, { 0, 1, false }, { 0, 2, false },
		{ 1, 0, false }, { 2, 0, false },
	};
	void *graph;
	cuda_stream s;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cuda_result ret;

		CHECK_EQ(cux.StreamBeginCapture(s, cases[i].capture), 0);
		ret = in_other_thread(cases[i].thread);
		CHECK_EQ(!!ret, cases[i].forbidden);
		CHECK_EQ(fake->wrong, cases[i].forbidden);
		fake->wrong = 0;
		CHECK_EQ(!!cux.StreamEndCapture(s, &graph), cases[i].forbidden);
		if (graph)
			CHECK_EQ(cux.GraphDestroy(graph), 0);
	}
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

TEST(legacy_stream_and_captures)
{
	void *graph;
	cuda_stream s;
	int status;

	begin(NULL);
	s = stream_make(0);
	CHECK_EQ(cux.StreamBeginCapture(s, 2), 0);
	CHECK_REFUSED(cu.StreamIsCapturing(NULL, &status),
		      CUABI_STREAM_CAPTURE_IMPLICIT);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK_WRONG(cu.LaunchHostFunc(NULL, tell, NULL),
		    CUABI_STREAM_CAPTURE_IMPLICIT);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_INVALIDATED);
	CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
		      CUABI_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	/* One that does not block is none of its business. */
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cux.StreamBeginCapture(s, 2), 0);
	CHECK_EQ(capture_status(NULL), CUABI_STREAM_CAPTURE_STATUS_NONE);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

#else
TEST(cuda_double_streams)
{
	SKIP("the backend is not built");
}
#endif

KTAP_MAIN()
