// SPDX-License-Identifier: MIT
/*
 * The CUDA backend against a double of the driver (tests/doubles/cuda.h): imports
 * and devices that go while work is under way, contexts that are lost, and
 * several threads.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <pthread.h>

#include "cuda_backend.h"

/* ---------------------------------------------------------------- the end */

/*
 * Nobody waits for what is under way: neither who gives up the import nor who
 * closes the device. The memory is there until that is over.
 */
static void check_leftover(enum dlbuf_path path, bool waits)
{
	struct dlbuf_device *dev;
	struct gate gate;
	struct fixture f;
	struct app app;
	int in, fence;

	begin("");
	dev = open_ok();
	import_ok(&f, dev, path);
	app_begin(&app, dev);
	in = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, waits ? in : -1));
	if (!waits)
		gate_close(&gate, app.stream);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x31);
	fence = release(&f, DLBUF_RW, app.stream);
	cuda_backend.unimport(&f.ci.base);
	dlbuf_device_close(dev);
	CHECK(!signalled(fence));
	CHECK_EQ(cux.StreamQuery(app.stream), CUABI_NOT_READY);
	signal_fence(in);
	if (!waits)
		gate_open(&gate);
	until_signalled(fence);
	settle();
	CHECK_EQ(f.bytes[77], 0x31);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	drain(&app);
	if (!waits)
		gate_end(&gate);
	close(in);
	close(fence);
	app_end(&app);
	fixture_end(&f);
	end();
}

TEST(unimport_waits_for_nothing)
{
	for (int waits = 0; waits <= 1; waits++) {
		check_leftover(DLBUF_PATH_HOST, waits);
		check_leftover(DLBUF_PATH_COPY, waits);
	}
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

/* Without a thread that could do it later it is waited for. */
static void open_gate(const char *call)
{
	if (!strcmp(call, "cuEventSynchronize")) {
		seen++;
		give_back_fds(); /* the double needs some */
		gate_open(later);
	}
}

TEST(unimport_without_fds)
{
	struct gate gate;
	struct fixture f;
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	gate_close(&gate, app.stream);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x31);
	CHECK_OK(cuda_backend.release(&f.ci.base, DLBUF_RW, app.stream, NULL,
				      NULL));
	later = &gate;
	watch(NULL);
	fake->look = open_gate;
	take_all_fds();
	cuda_backend.unimport(&f.ci.base);
	fake->look = NULL;
	CHECK_EQ(seen, 1);
	CHECK_EQ(f.bytes[77], 0x31);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	fixture_end(&f);
	gate_end(&gate);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

/* ---------------------------------------------------------------- lost */

static const cuda_result losses[] = {
	CUABI_ILLEGAL_ADDRESS, CUABI_LAUNCH_FAILED, CUABI_ASSERT,
	CUABI_ECC_UNCORRECTABLE, CUABI_DEINITIALIZED, CUABI_CONTAINED,
	CUABI_TENSOR_MEMORY_LEAK,
};

/* Whoever waits is told, whatever is asked next, and nothing stays behind. */
static void check_lost(cuda_result result, enum dlbuf_path path)
{
	struct fixture f;
	struct app app;
	struct gate gate;
	int out[3], in, ret;
	char code[16];

	begin("");
	import_ok(&f, open_ok(), path);
	app_begin(&app, f.dev);
	gate_close(&gate, app.stream);
	for (int i = 0; i < 3; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
		out[i] = release(&f, DLBUF_RW, app.stream);
	}
	fake->lose(result);
	for (int i = 0; i < 3; i++)
		CHECK(!signalled(out[i]));
	in = pending_fence();
	ktap_forget();
	ret = acquire(&f, DLBUF_RW, app.stream, in);
	CHECK_EQ(ret, result == CUABI_DEINITIALIZED ? -ENODEV : -EIO);
	snprintf(code, sizeof(code), "(%d)", result);
	CHECK_SAYS(code);
	CHECK_SAYS("CUDA_ERROR_");
	for (int i = 0; i < 3; i++) {
		CHECK(signalled(out[i]));
		close(out[i]);
	}
	signal_fence(in);
	close(in);
	ktap_forget();
	out[0] = 7;
	CHECK(cuda_backend.release(&f.ci.base, DLBUF_READ, app.stream,
				   &out[0], NULL) < 0);
	CHECK_EQ(out[0], -1);
	CHECK_SAYS(code);
	CHECK_OK(cuda_backend.wait(&f.ci.base, DLBUF_RW, 0));
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	settle();
	gate_end(&gate);
	app_end(&app);
	end();
}

TEST(lost)
{
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		check_lost(losses[i], DLBUF_PATH_HOST);
		check_lost(losses[i], DLBUF_PATH_COPY);
	}
}

/* While somebody waits for it. */
TEST(lost_while_waiting)
{
	pthread_t thread;
	struct waiter w;
	struct gate gate;
	struct fixture f;
	struct app app;
	int fence;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	w = (struct waiter){ .f = &f, .access = DLBUF_RW };
	app_begin(&app, f.dev);
	gate_close(&gate, app.stream);
	fence = release(&f, DLBUF_RW, app.stream);
	watch("cuEventSynchronize");
	REQUIRE(!pthread_create(&thread, NULL, wait_for, &w));
	while (!seen)
		sched_yield();
	fake->lose(CUABI_LAUNCH_FAILED);
	pthread_join(thread, NULL);
	CHECK_EQ(w.ret, -EIO);
	CHECK(signalled(fence));
	close(fence);
	finish(&f);
	gate_end(&gate);
	app_end(&app);
	end();
}

/* ---------------------------------------------------------------- threads */

/* Writers on streams without an order between them keep it themselves. */
static pthread_rwlock_t order = PTHREAD_RWLOCK_INITIALIZER;

static void *accesses(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < 100; i++) {
		uint32_t access = 1 + i % 3;
		int in = eventfd(0, EFD_CLOEXEC), out = -1;

		if (access & DLBUF_WRITE)
			pthread_rwlock_wrlock(&order);
		else
			pthread_rwlock_rdlock(&order);
		CHECK_OK(acquire(f, access, DLBUF_CUDA_STREAM_PER_THREAD,
				 i % 2 ? in : -1));
		signal_fence(in);
		CHECK_OK(cuda_backend.release(&f->ci.base, access,
					      DLBUF_CUDA_STREAM_PER_THREAD,
					      i % 4 ? &out : NULL, NULL));
		if (i % 4 == 0)
			CHECK_OK(cuda_backend.wait(&f->ci.base, access, 0));
		if (out != -1) {
			until_signalled(out);
			close(out);
		}
		pthread_rwlock_unlock(&order);
		close(in);
	}
	return NULL;
}

static void check_threads(enum dlbuf_path path)
{
	pthread_t threads[4];
	struct fixture f;

	begin("");
	import_ok(&f, open_ok(), path);
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, accesses, &f));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(f.ci.memory->open, 0);
	finish(&f);
	end();
}

TEST(threads)
{
	check_threads(DLBUF_PATH_HOST);
}

TEST(threads_with_copies)
{
	check_threads(DLBUF_PATH_COPY);
}

static pthread_barrier_t together;

struct user {
	struct fixture *f;
	cuda_stream stream;
};

static void *acquire_together(void *arg)
{
	struct user *user = arg;

	pthread_barrier_wait(&together);
	CHECK_OK(acquire(user->f, DLBUF_READ, user->stream, -1));
	pthread_barrier_wait(&together);
	close(release(user->f, DLBUF_READ, user->stream));
	return NULL;
}

/* However they meet: those that overlap are one copy. */
TEST(threads_overlap)
{
	DLBUF_INFO(dlbuf_device_stats, stats);
	struct user users[4];
	pthread_t threads[4];
	struct fixture f;
	struct app app;

	app_import(&app, &f, "", DLBUF_PATH_COPY);
	for (int i = 0; i < 4; i++) {
		users[i].f = &f;
		REQUIRE(!cu.StreamCreate(&users[i].stream,
					 CUABI_STREAM_NON_BLOCKING));
	}
	pthread_barrier_init(&together, NULL, 4);
	for (int round = 1; round <= 50; round++) {
		for (int i = 0; i < 4; i++)
			REQUIRE(!pthread_create(&threads[i], NULL,
						acquire_together, &users[i]));
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
		CHECK_EQ(stats.copies, 4 * round);
		if (!CHECK_EQ(stats.copied_bytes, round * IMPORT_BYTES))
			break;
	}
	pthread_barrier_destroy(&together);
	for (int i = 0; i < 4; i++) {
		cu.StreamSynchronize(users[i].stream);
		CHECK_EQ(cu.StreamDestroy(users[i].stream), 0);
	}
	app_finish(&app, &f);
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
