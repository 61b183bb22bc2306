// SPDX-License-Identifier: MIT
/*
 * Accesses of the HIP backend against a double of the driver (tests/doubles/hip.h): its
 * streams and the driver's traps. hip_queue.c has the cases of lib/queue.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include <sys/wait.h>

#include "hip_backend.h"

static int check_stream(struct dlbuf_device *dev, void *stream)
{
	return dev->backend->stream(dev, ON(stream), false);
}

/* DLPack: "Using 1 and 2 is not supported". */
DOUBLE_CASE(which_streams, "two")
{
	struct dlbuf_device *dev AUTO_DEV = open_hip();
	cuda_context second;
	cuda_stream other;
	struct app app;

	app_begin(&app, dev);
	CHECK_OK(check_stream(dev, NULL));
	CHECK_ERR(check_stream(dev, (void *)1), -EINVAL);
	CHECK_SAYS("hip:0: DLPack has no stream 1 on ROCm; NULL is the default");
	CHECK_ERR(check_stream(dev, (void *)2), -EINVAL);
	CHECK_EQ(check_stream(dev, DLBUF_STREAM_NO_ORDER), STREAM_UNORDERED);
	CHECK_OK(check_stream(dev, app.stream));
	REQUIRE(!cux.CtxCreate(&second, 0, 1));
	REQUIRE(!cu.StreamCreate(&other, 0));
	REQUIRE(!cux.CtxSetCurrent(app.ctx));
	CHECK_ERR_SAYS(check_stream(dev, other), -EINVAL, "is of hip:1, not of hip:0");
	CHECK_EQ(cux.CtxDestroy(second), 0);
	break_call("hipStreamGetDevice", HIPABI_UNKNOWN, 0);
	CHECK_ERR(check_stream(dev, app.stream), -EIO);
	CHECK_SAYS("hipStreamGetDevice: hipErrorUnknown (999)");
	break_call("hipStreamIsCapturing", HIPABI_UNKNOWN, 0);
	CHECK_ERR_SAYS(check_stream(dev, app.stream), -EIO, "hipStreamIsCapturing");
	heal();
	app_end(&app);
}

DOUBLE_CASE(captures, "")
{
	struct dlbuf_device *dev AUTO_DEV = open_hip();
	cuda_stream blocking;
	struct fixture f;
	struct app app;
	void *graph;
	int fence;

	app_begin(&app, dev);
	REQUIRE(!cu.StreamCreate(&blocking, 0));
	import_ok(&f, dev, DLBUF_PATH_COPY);
	for (int mode = 0; mode <= 2; mode++) {
		CHECK_EQ(hipx.StreamBeginCapture((hip_stream)app.stream, mode), 0);
		CHECK_ERR_SAYS(check_stream(dev, app.stream), -EBUSY, "is being captured");
		/* Another one meanwhile, with all that it needs. */
		fence = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, blocking, fence));
		signal_fence(fence);
		close(fence);
		close(release(&f, DLBUF_READ, blocking));
		import_finish(&f, 0);
		import_ok(&f, dev, DLBUF_PATH_COPY);
		CHECK_EQ(hipx.StreamEndCapture((hip_stream)app.stream, &graph), 0);
		CHECK_EQ(hipx.GraphDestroy(graph), 0);
	}
	CHECK_EQ(hipx.StreamBeginCapture((hip_stream)blocking, 0), 0);
	CHECK_ERR(check_stream(dev, NULL), -EBUSY);
	CHECK_EQ(hipx.StreamEndCapture((hip_stream)blocking, &graph), 0);
	CHECK_EQ(hipx.GraphDestroy(graph), 0);
	CHECK_EQ(cu.StreamDestroy(blocking), 0);
	import_finish(&f, 0);
	app_end(&app);
}

/* ---------------------------------------------------------------- traps */

/* Since 7.0 a stream that was destroyed is looked at by one call only. */
TEST(trap_a_destroyed_stream_crashes)
{
	static const char *const words[] = { "5.7", "6.4", "7", "7.1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct fixture f;
		struct app app;
		cuda_stream gone;
		int event AUTO_FD = -1;

		app_import(&app, &f, words[i], DLBUF_PATH_HOST);
		REQUIRE(!cu.StreamCreate(&gone, 0));
		CHECK_OK(acquire(&f, DLBUF_RW, gone, -1));
		CHECK_EQ(cu.StreamDestroy(gone), 0);
		CHECK_ERR_SAYS(check_stream(f.dev, gone), -EINVAL, "was destroyed");
		/* As the deletion of a tensor does. */
		event = release(&f, DLBUF_RW, gone);
		until_signalled(event);
		app_finish(&app, &f);
	}
}

static void semaphore(void)
{
	void *out;

	hipx.ImportExternalSemaphore(&out, NULL);
}

static void by_value(void)
{
	void *out;

	hipx.MemImportFromShareableHandle(&out, (void *)3, 1);
}

static void by_pointer(void)
{
	int fd = 3;
	void *out;

	hipx.MemImportFromShareableHandle(&out, &fd, 1);
}

/* Whether a call ends the process. */
static bool crashes(void (*fn)(void))
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		close(STDERR_FILENO);
		fn();
		_exit(0);
	}
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status);
}

/*
 * Neither is in the list of functions, and no access ever calls them. This also shows
 * that the double ends the process.
 */
TEST(trap_calls_that_are_never_made)
{
	static const struct {
		const char *words;
		bool by_value, by_pointer;	/* crashes */
	} cases[] = {
		{ "7.0,memfds", true, false }, { "7.1,memfds", false, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin(cases[i].words);
		CHECK(crashes(semaphore));
		CHECK_EQ(crashes(by_value), cases[i].by_value);
		CHECK_EQ(crashes(by_pointer), cases[i].by_pointer);
		end();
	}
#define X(name, needed, params)						\
	CHECK(strcmp(#name, "ImportExternalSemaphore"));		\
	CHECK(strcmp(#name, "MemImportFromShareableHandle"));
	HIP_FUNCTIONS(X)
#undef X
}

/* The driver compares words as unsigned numbers. */
TEST(trap_words_do_not_wrap)
{
	struct queue_word *word;
	struct queue_device *q;
	struct fixture f;
	struct app app;
	int fence;

	app_import(&app, &f, "", DLBUF_PATH_HOST);
	q = &hip_device_of(f.dev)->queue;
	word = q->free_words;
	*word->host = word->value = UINT32_MAX - 1;
	for (int i = 0; i < 2; i++) {
		fence = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, fence));
		CHECK_EQ(word->value, UINT32_MAX);
		signal_fence(fence);
		close(release(&f, DLBUF_READ, app.stream));
		drain(&app);
		settle();
		close(fence);
	}
	CHECK(q->free_words != word);
	app_finish(&app, &f);
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
