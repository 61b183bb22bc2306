// SPDX-License-Identifier: MIT
/*
 * The double of CUDA's driver (tests/doubles/cuda.h): the order of its streams, and
 * its refusals for streams and captures.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_double.h"
#include "doubles/common/prepare.h"
#include "prepare/program.h"

/* ---------------------------------------------------------------- streams */

DOUBLE_CASE(streams_are_queues, "")
{
	cuda_stream other;

	OK(cu.StreamCreate(&other, NONBLOCKING));
	wait_for(s, 3);
	add(s, 'c');
	add(s, 'd');
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	add(other, 'a');
	OK(cu.StreamSynchronize(other));
	strcat(told, "b");
	*flag = 2;
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	*flag = 4;
	OK(cu.StreamSynchronize(s));
	CHECK_STR(told, "abcd");
	OK(cux.StreamQuery(s));
	CHECK_EQ(fake->host_functions, 3);
	/* The comparison is cyclic. */
	*flag = 0;
	wait_for(s, 0xfffffff0);
	OK(cux.StreamWriteValue32(s, word, 7, 0));
	OK(cu.StreamSynchronize(s));
	CHECK_EQ(*flag, 7);
	/* One that is destroyed goes when its work is over. */
	wait_for(other, 8);
	add(other, 'e');
	OK(cu.StreamDestroy(other));
	CHECK_EQ(fake->live[FAKE_STREAM], 1);
	CHECK_STR(told, "abcd");
	*flag = 8;
	OK(cu.CtxSynchronize());
	CHECK_STR(told, "abcde");
}

/* All calls with a stream, or an event, that does not exist. */
DOUBLE_CASE(streams_that_are_not, "")
{
	cuda_stream gone;
	cuda_context ctx;
	void *graph;

	WRONG(INVALID_VALUE, cu.StreamCreate(&gone, 2));
	WRONG(INVALID_VALUE, cu.EventCreate(&e, 8));
	WRONG(INVALID_VALUE, cu.LaunchHostFunc(NULL, NULL, NULL));
	OK(cu.StreamCreate(&gone, 0));
	OK(cu.StreamDestroy(gone));
	WRONG(INVALID_HANDLE, cu.StreamDestroy(gone));
	WRONG(INVALID_HANDLE, cu.StreamSynchronize(gone));
	WRONG(INVALID_HANDLE, cux.StreamQuery(gone));
	WRONG(INVALID_HANDLE, cux.StreamBeginCapture(gone, 0));
	WRONG(INVALID_HANDLE, cux.StreamEndCapture(gone, &graph));
	WRONG(INVALID_HANDLE, cu.MemsetD8Async(d, 0, 1, gone));
	WRONG(INVALID_HANDLE, cu.MemcpyHtoDAsync(d, told, 1, gone));
	WRONG(INVALID_HANDLE, cu.MemcpyDtoHAsync(told, d, 1, gone));
	WRONG(INVALID_HANDLE, cu.StreamWaitValue32(gone, word, 0, 0));
	WRONG(INVALID_HANDLE, cu.LaunchHostFunc(gone, tell, NULL));
	WRONG(INVALID_HANDLE, cu.StreamWaitEvent(gone, e, 0));
	WRONG(INVALID_HANDLE, cu.EventRecord(e, gone));
	WRONG(INVALID_HANDLE, cu.StreamWaitEvent(NULL, NULL, 0));
	WRONG(INVALID_HANDLE, cu.EventRecord(NULL, NULL));
	WRONG(INVALID_HANDLE, cu.StreamGetCtx((cuda_stream)&ctx, &ctx));
}

DOUBLE_CASE(waits_for_values_have_rules, "")
{
	cuda_pointer m;

	OK(cux.MemAllocManaged(&m, 4, CUABI_MEM_ATTACH_GLOBAL));
	WRONG(INVALID_VALUE, cu.StreamWaitValue32(NULL, word + 2, 0, 0));
	WRONG(INVALID_VALUE, cu.StreamWaitValue32(NULL, word, 0, 9));
	WRONG(INVALID_VALUE, cu.StreamWaitValue32(NULL, word + 64, 0, 0));
	WRONG(INVALID_VALUE, cu.StreamWaitValue32(NULL, m, 0, 0));
	OK(cu.MemFree(m));
	end();
	begin("nomemops");
	FAILS(NOT_SUPPORTED, cu.StreamWaitValue32(NULL, word, 0, 0));
}

#define PTX(version) \
	".version " version "\n.target sm_50\n.address_size 64\n.visible .entry prepare(\n"

/* A row of four bytes, which become bytes or floats behind them. */
DOUBLE_CASE(kernels_have_rules, "")
{
	enum { ONE = 0x3f800000 };
	struct program head = {
		.bits = 8, .ncomponents = 1, .nout = 1, .width = 4, .height = 1, .across = 4,
		.down = 1, .matrix = { { 1 } }, .high = { 255 },
		.components = { { .step = 1, .y = 10, .mask = 255 } },
	};
	static const uint32_t axes[] = { 1, 4, 0, 1, 2, 3, ONE, ONE, ONE, ONE, 1, 1, 0, ONE };
	uint32_t run[PREPARE_RUN_BYTES / 4] = { [6] = 16, [7] = 1 };
	cuda_pointer t, nowhere = 4096;
	void *args[] = { &d, &d, &d, &d, &t, run };
	cuda_module module;
	cuda_function f;

#define LAUNCH(gy, by) LAUNCH_ALL(gy, by, 1)
#define LAUNCH_ALL(gy, by, images) cu.LaunchKernel(f, 1, gy, images, 32, by, 1, 0, s, args, NULL)
	WRONG(INVALID_PTX, cu.ModuleLoadData(&module, PTX("8.5")));
	WRONG(INVALID_PTX, cu.ModuleLoadData(&module, ".version 4.2\n"));
	OK(cu.ModuleLoadData(&module, PTX("4.2")));
	FAILS(NOT_FOUND, cu.ModuleGetFunction(&f, module, "main"));
	OK(cu.ModuleGetFunction(&f, module, "prepare"));
	OK(cu.MemAlloc(&t, sizeof(head) + sizeof(axes)));
	OK(cux.MemcpyHtoD(t, &head, sizeof(head)));
	OK(cux.MemcpyHtoD(t + sizeof(head), axes, sizeof(axes)));
	OK(cux.MemcpyHtoD(d, "abcd", 4));
	WRONG(INVALID_VALUE, LAUNCH(1, 33));
	WRONG(INVALID_VALUE, LAUNCH(65536, 8));
	WRONG(INVALID_VALUE, LAUNCH_ALL(1, 8, 65536));
	args[2] = &nowhere;
	WRONG(INVALID_VALUE, LAUNCH(1, 8));
	args[2] = &d;
	wait_for(s, 1);
	OK(LAUNCH(1, 8));
	run[6] = 0; /* which was copied */
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	*flag = 1;
	OK(cu.StreamSynchronize(s));
	OK(cux.MemcpyDtoH(told, d, 20));
	CHECK(!memcmp(told, "abcd", 4) && !memcmp(told + 16, "abcd", 4));
	/* A second image by the same program. */
	run[6] = 24;
	run[10] = 4;
	OK(LAUNCH_ALL(1, 8, 2));
	OK(cu.StreamSynchronize(s));
	OK(cux.MemcpyDtoH(told, d, 32));
	CHECK(!memcmp(told + 24, "abcdabcd", 8));
	/* Beyond the memory, and not aligned. */
	run[0] = 61;
	OK(LAUNCH(1, 8));
	run[0] = 0;
	run[6] = 61;
	OK(LAUNCH(1, 8));
	run[6] = 16;
	run[11] = sizeof(head) / 4;
	OK(LAUNCH_ALL(1, 8, 2));
	run[6] = 56;
	run[11] = 0;
	OK(LAUNCH_ALL(1, 8, 3));
	OK(cu.StreamSynchronize(s));
	CHECK_EQ(fake->wrong, 4);
	head.store = 4;
	OK(cux.MemcpyHtoD(t, &head, sizeof(head)));
	run[6] = 17;
	run[7] = 4;
	OK(LAUNCH(1, 8));
	OK(cu.StreamSynchronize(s));
	CHECK_EQ(fake->wrong, 5);
	fake->wrong = 0;
	OK(cu.MemFree(t));
	OK(cu.ModuleUnload(module));
	WRONG(INVALID_HANDLE, LAUNCH(1, 8));
	WRONG(INVALID_HANDLE, cu.ModuleUnload(module));
}

/* The legacy stream waits for blocking streams, and they for it. */
DOUBLE_CASE(legacy_stream, "")
{
	cuda_stream blocking;

	OK(cu.StreamCreate(&blocking, 0));
	wait_for(blocking, 1);
	add(blocking, 'c');
	/* Blocking ones are in no order among themselves. */
	add(PER_THREAD, 'a');
	OK(cu.StreamSynchronize(PER_THREAD));
	add(NULL, 'd');
	add(PER_THREAD, 'e');
	add(s, 'b');
	OK(cu.StreamSynchronize(s));
	CHECK_STR(told, "ab");
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_LEGACY), CUABI_NOT_READY);
	*flag = 1;
	OK(cu.StreamSynchronize(PER_THREAD));
	CHECK_STR(told, "abcde");
	/* It is empty, but the work for which it would wait is not complete. */
	wait_for(blocking, 2);
	CHECK_EQ(cux.StreamQuery(NULL), CUABI_NOT_READY);
	*flag = 2;
	OK(cu.StreamSynchronize(NULL));
	OK(cux.StreamQuery(blocking));
	OK(cu.StreamDestroy(blocking));
}

static void *thread_stream(void *data)
{
	OK(cu.CtxPushCurrent(primary));
	OK(cux.StreamQuery(PER_THREAD));
	wait_for(PER_THREAD, 2);
	CHECK_EQ(cux.StreamQuery(PER_THREAD), CUABI_NOT_READY);
	return NULL;
}

DOUBLE_CASE(each_thread_has_a_stream, "")
{
	wait_for(PER_THREAD, 1);
	in_thread(thread_stream, NULL);
	*flag = 1;
	OK(cu.StreamSynchronize(PER_THREAD));
	CHECK_EQ(fake->pending, 1);
	*flag = 2;
	OK(cu.CtxSynchronize());
	CHECK_EQ(fake->pending, 0);
}

DOUBLE_CASE(pageable_copies_wait, "")
{
	char in[16] = "pageable", out[16];

	OK(cu.MemsetD8Async(d, 0, 16, s));
	CHECK_EQ(fake->synchronising, 0);
	OK(cu.MemcpyHtoDAsync(d, in, 9, s));
	memset(in, 0, sizeof(in));
	OK(cu.MemcpyDtoHAsync(out, d, 16, s));
	CHECK_STR(out, "pageable");
	OK(cu.MemcpyHtoDAsync(d, in, 0, s));
	CHECK_EQ(fake->pageable_copies, 2);
	CHECK_EQ(fake->synchronising, 2);
	/* Pinned memory, to which no stream has anything to do, is not waited for. */
	OK(cu.MemcpyHtoDAsync(d, (void *)flag, 16, NULL));
	CHECK_EQ(fake->pageable_copies, 2);
	CHECK_EQ(fake->synchronising, 2);
	OK(cu.CtxSynchronize());
}

DOUBLE_CASE(freed_under_the_device, "")
{
	cuda_pointer q;
	char *p = map(PROT_READ | PROT_WRITE, -1);

	OK(cu.MemAlloc(&q, 64));
	OK(cu.MemHostRegister(p, 64, 2));
	wait_for(s, 1);
	OK(cu.MemcpyHtoDAsync(q, p, 64, s));
	WRONG(SUCCESS, cu.MemHostUnregister(p));
	munmap(p, BYTES);
	WRONG(SUCCESS, cu.MemFree(q));
	CHECK_EQ(fake->synchronising, 0);
	*flag = 1;
	OK(cu.StreamSynchronize(s));
}

static _Atomic(unsigned int) freeing;

static void look_for_frees(const char *symbol)
{
	if (strstr(symbol, "Free") || strstr(symbol, "Unregister"))
		freeing++;
}

static void *open_while_freeing(void *data)
{
	while (!freeing)
		sched_yield();
	*flag = 1;
	return NULL;
}

/* With any work of a stream: it need not use the freed memory. */
DOUBLE_CASE(frees_wait_for_every_stream, "")
{
	pthread_t thread;
	cuda_pointer q;
	char *p = map(PROT_READ | PROT_WRITE, -1);
	void *h;

	fake->look = look_for_frees;
	for (int which = 0; which < 3; which++) {
		OK(which == 0 ? cu.MemAlloc(&q, 64) :
		   which == 1 ? cu.MemHostAlloc(&h, 64, 0) :
				cu.MemHostRegister(p, 64, 2));
		*flag = 0;
		wait_for(s, 1);
		freeing = 0;
		REQUIRE(!pthread_create(&thread, NULL, open_while_freeing, NULL));
		OK(which == 0 ? cu.MemFree(q) :
		   which == 1 ? cu.MemFreeHost(h) : cu.MemHostUnregister(p));
		OK(cux.StreamQuery(s));
		pthread_join(thread, NULL);
	}
	munmap(p, BYTES);
}

/* Memory may go without a word to CUDA, which is found when it is used. */
DOUBLE_CASE(unmapped_under_the_device, "")
{
	int fd AUTO_FD = memfd_of(BYTES);
	cuda_pointer q;
	char *p = map(PROT_READ | PROT_WRITE, fd);

	q = (uintptr_t)p;
	OK(cu.MemHostRegister(p, 64, 2));
	wait_for(NULL, 1);
	OK(cu.MemsetD8Async(q, 1, 64, NULL));
	OK(cu.MemcpyHtoDAsync(d, p, 64, NULL));
	OK(cux.StreamWriteValue32(NULL, q, 1, 0));
	OK(cu.StreamWaitValue32(NULL, q, 1, 0));
	replace(p);
	*flag = 1;
	OK(cu.StreamSynchronize(NULL));
	forgive(4);
	WRONG(SUCCESS, cu.MemHostUnregister(p));
	munmap(p, BYTES);
}

DOUBLE_CASE(events, "")
{
	cuda_event early, foreign;
	cuda_context other;
	cuda_stream b;

	OK(cu.StreamCreate(&b, NONBLOCKING));
	OK(cu.EventCreate(&early, 0));
	/* One that was never recorded is over. */
	OK(cu.EventQuery(e));
	OK(cu.StreamWaitEvent(b, e, 0));
	OK(cu.EventRecord(early, s));
	CHECK_EQ(fake->synchronising, 0);
	OK(cu.EventSynchronize(early));
	CHECK_EQ(fake->synchronising, 1);
	wait_for(s, 1);
	add(s, 'a');
	OK(cu.EventRecord(e, s));
	CHECK_EQ(cu.EventQuery(e), CUABI_NOT_READY);
	OK(cu.EventQuery(early));
	OK(cu.StreamWaitEvent(b, e, 0));
	add(b, 'b');
	/* b waits for the recorded point of e, also if e changes later. */
	OK(cu.EventRecord(e, NULL));
	OK(cu.EventSynchronize(e));
	CHECK_EQ(cux.StreamQuery(b), CUABI_NOT_READY);
	OK(cu.EventRecord(early, s));
	CHECK_EQ(cu.EventQuery(early), CUABI_NOT_READY);
	OK(cu.EventDestroy(early));
	WRONG(INVALID_HANDLE, cu.EventQuery(early));
	WRONG(INVALID_HANDLE, cu.EventDestroy(early));
	*flag = 1;
	OK(cu.StreamSynchronize(b));
	CHECK_STR(told, "ab");
	/* Events are recorded in their own context, and waited for in any. */
	OK(cux.CtxCreate(&other, 0, 0));
	OK(cu.EventCreate(&foreign, 0));
	WRONG(INVALID_HANDLE, cu.EventRecord(foreign, s));
	WRONG(INVALID_HANDLE, cu.EventRecord(e, NULL));
	OK(cu.EventRecord(foreign, NULL));
	OK(cu.StreamWaitEvent(s, foreign, 0));
	WRONG(INVALID_VALUE, cu.StreamWaitEvent(s, foreign, 4));
	OK(cu.EventDestroy(foreign));
	OK(cux.CtxDestroy(other));
	OK(cu.StreamSynchronize(s));
	OK(cu.StreamDestroy(b));
}

static cuda_result in_function;

static void call_cuda(void *data)
{
	in_function = cu.EventQuery(data);
}

DOUBLE_CASE(host_functions_call_nothing, "")
{
	OK(cu.LaunchHostFunc(NULL, call_cuda, e));
	OK(cu.StreamSynchronize(NULL));
	forgive(1);
	CHECK_EQ(in_function, CUABI_NOT_PERMITTED);
}

DOUBLE_CASE(streams_have_contexts, "")
{
	cuda_context ctx, other;

	OK(cux.CtxCreate(&other, 0, 0));
	OK(cu.StreamGetCtx(s, &ctx));
	CHECK(ctx == primary);
	OK(cu.StreamGetCtx(NULL, &ctx));
	CHECK(ctx == other);
	OK(cu.StreamGetCtx(PER_THREAD, &ctx));
	CHECK(ctx == other);
	OK(cux.CtxDestroy(other));
}

/* ---------------------------------------------------------------- captures */

static void check_status(cuda_stream stream, int expected)
{
	int status = -1;

	OK(cu.StreamIsCapturing(stream, &status));
	CHECK_EQ(status, expected);
}

#define CHECK_STATUS(stream, word) \
	check_status(stream, CUABI_STREAM_CAPTURE_STATUS_##word)

static cuda_result end_capture(void)
{
	void *graph;
	cuda_result result = cux.StreamEndCapture(s, &graph);

	CHECK(!graph == !!result);
	if (graph)
		OK(cux.GraphDestroy(graph));
	return result;
}

DOUBLE_CASE(captures_record, "")
{
	void *graph;

	CHECK_STATUS(s, NONE);
	WRONG(INVALID_VALUE, end_capture());
	WRONG(INVALID_VALUE, cux.StreamBeginCapture(NULL, 0));
	WRONG(INVALID_VALUE, cux.StreamBeginCapture(s, 3));
	OK(cux.StreamBeginCapture(s, 0));
	WRONG(INVALID_VALUE, cux.StreamBeginCapture(s, 0));
	CHECK_STATUS(s, ACTIVE);
	add(s, 'a');
	OK(cu.EventRecord(e, s));
	CHECK_EQ(fake->pending, 0);
	OK(cux.StreamEndCapture(s, &graph));
	CHECK_STATUS(s, NONE);
	/* The event is the graph's. */
	WRONG(STREAM_CAPTURE_UNSUPPORTED, cu.EventQuery(e));
	WRONG(STREAM_CAPTURE_UNSUPPORTED, cu.EventSynchronize(e));
	WRONG(NOT_SUPPORTED, cu.StreamWaitEvent(NULL, e, 0));
	OK(cu.StreamSynchronize(s));
	CHECK_STR(told, "");
	OK(cu.EventRecord(e, s));
	OK(cu.EventSynchronize(e));
	OK(cux.GraphDestroy(graph));
	WRONG(INVALID_VALUE, cux.GraphDestroy(graph));
	/* A stream may go while it captures. */
	OK(cux.StreamBeginCapture(s, 0));
	add(s, 'b');
}

/* One call of each kind that a capture may forbid. */
static cuda_result unsafe(int which, void *p)
{
	cuda_pointer q;
	cuda_result ret;
	void *h;

	switch (which) {
	case 0:
		ret = cu.MemAlloc(&q, 8);
		return ret ? ret : cu.MemFree(q);
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
	default:
		return cu.EventSynchronize(e);
	}
}

DOUBLE_CASE(captures_forbid, "")
{
	void *p = map(PROT_READ | PROT_WRITE, -1);
	int mode = RELAXED;

	/* Captures of all threads, and of this one. */
	for (int i = 0; i < 7; i++) {
		OK(cux.StreamBeginCapture(s, i % 2));
		WRONG(STREAM_CAPTURE_UNSUPPORTED, unsafe(i, p));
		CHECK_STATUS(s, INVALIDATED);
		WRONG(STREAM_CAPTURE_INVALIDATED, cu.EventRecord(e, s));
		FAILS(STREAM_CAPTURE_INVALIDATED, end_capture());
	}
	/* A thread that says it knows is not stopped, and stops nothing. */
	OK(cux.StreamBeginCapture(s, 0));
	OK(cu.ThreadExchangeStreamCaptureMode(&mode));
	for (int i = 0; i < 7; i++)
		CHECK_EQ(unsafe(i, p), i == 5 ? CUABI_STREAM_CAPTURE_UNSUPPORTED : 0);
	WRONG(STREAM_CAPTURE_UNSUPPORTED, cux.StreamQuery(s));
	FAILS(STREAM_CAPTURE_INVALIDATED, end_capture());
	OK(cu.ThreadExchangeStreamCaptureMode(&mode));
	CHECK_EQ(mode, RELAXED);
	mode = 3;
	WRONG(INVALID_VALUE, cu.ThreadExchangeStreamCaptureMode(&mode));
	munmap(p, BYTES);
}

static cuda_result other_result;

static void *end_elsewhere(void *data)
{
	OK(cu.CtxPushCurrent(primary));
	other_result = end_capture();
	return NULL;
}

static void *allocate_elsewhere(void *data)
{
	int mode = *(const int *)data;

	OK(cu.CtxPushCurrent(primary));
	OK(cu.ThreadExchangeStreamCaptureMode(&mode));
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_GLOBAL);
	other_result = unsafe(0, NULL);
	return NULL;
}

/*
 * The thread that has begun a capture ends it, unless it is relaxed. The calls that a capture
 * forbids, and to which threads.
 */
DOUBLE_CASE(captures_and_threads, "")
{
	static const struct {
		int capture, thread;
		bool forbidden;
	} cases[] = {
		{ 0, 0, true }, { 0, 1, false }, { 0, 2, false },
		{ 1, 0, false }, { 2, 0, false },
	};
	cuda_stream first;
	void *graph;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		OK(cux.StreamBeginCapture(s, cases[i].capture));
		in_thread(allocate_elsewhere, (void *)&cases[i].thread);
		CHECK_EQ(!!other_result, cases[i].forbidden);
		forgive(cases[i].forbidden);
		CHECK_EQ(!!end_capture(), cases[i].forbidden);
	}
	/* Two at once: while one is not over, it forbids. */
	OK(cu.StreamCreate(&first, NONBLOCKING));
	OK(cux.StreamBeginCapture(first, 0));
	OK(cux.StreamBeginCapture(s, 0));
	in_thread(end_elsewhere, NULL);
	CHECK_EQ(other_result, CUABI_STREAM_CAPTURE_WRONG_THREAD);
	forgive(1);
	OK(end_capture());
	OK(cux.StreamBeginCapture(s, RELAXED));
	in_thread(end_elsewhere, NULL);
	OK(other_result);
	WRONG(STREAM_CAPTURE_UNSUPPORTED, cu.CtxSynchronize());
	FAILS(STREAM_CAPTURE_INVALIDATED, cux.StreamEndCapture(first, &graph));
	OK(cu.StreamDestroy(first));
}

DOUBLE_CASE(legacy_stream_and_captures, "")
{
	int status;

	/* One that does not block is none of its business. */
	OK(cux.StreamBeginCapture(s, RELAXED));
	CHECK_STATUS(NULL, NONE);
	OK(cu.StreamDestroy(s));
	OK(cu.StreamCreate(&s, 0));
	OK(cux.StreamBeginCapture(s, RELAXED));
	FAILS(STREAM_CAPTURE_IMPLICIT, cu.StreamIsCapturing(NULL, &status));
	CHECK_STATUS(s, ACTIVE);
	WRONG(STREAM_CAPTURE_IMPLICIT, cu.LaunchHostFunc(NULL, tell, NULL));
	CHECK_STATUS(s, INVALIDATED);
	FAILS(STREAM_CAPTURE_INVALIDATED, end_capture());
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
