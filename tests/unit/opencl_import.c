// SPDX-License-Identifier: MIT
/*
 * The OpenCL backend against a double of a driver (tests/doubles/opencl.h): what it makes
 * of a dma-buf on each machine, and what is left when a call fails.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include "cuda_memfds.h"
#include "opencl_backend.h"

/* The paths of each machine; the reason where there is none. */
static const struct row {
	const char *words;
	enum dlbuf_path path;
	const char *why_not;
} rows[] = {
	{ "khr,memfds", DLBUF_PATH_DIRECT, NULL },
	{ "khr,memfds", DLBUF_PATH_HOST, NULL },
	{ "khr,memfds", DLBUF_PATH_COPY, NULL },
	{ "khr,memfds,noimport,noexport", DLBUF_PATH_DIRECT, NULL },
	{ "intel,memfds", DLBUF_PATH_DIRECT, NULL },
	{ "arm,memfds", DLBUF_PATH_DIRECT, NULL },
	{ "arm,memfds", DLBUF_PATH_HOST, "cannot register" },
	{ "arm,memfds", DLBUF_PATH_COPY, NULL },
	{ "arm,armold,memfds", DLBUF_PATH_DIRECT, "clEnqueueReadBuffer" },
	{ "qcom,memfds", DLBUF_PATH_DIRECT, NULL },
	{ "userptr,memfds", DLBUF_PATH_DIRECT, "does not import" },
	{ "userptr,memfds", DLBUF_PATH_HOST, NULL },
	{ "shadow,memfds", DLBUF_PATH_HOST, "cannot register" },
	{ "shadow,memfds", DLBUF_PATH_COPY, NULL },
	{ "old,memfds", DLBUF_PATH_DIRECT, "does not import" },
	{ "old,memfds", DLBUF_PATH_COPY, NULL },
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

static const struct row *the_row;

/* The bytes go both ways, twice, and only between acquire and release. */
static void use(struct fixture *f, cl_command_queue_properties properties)
{
	struct app app;

	app_begin(&app, f->dev, properties);
	for (uint8_t i = 1; i <= 2; i++) {
		f->bytes[0] = i;
		CHECK_OK(acquire(f, DLBUF_RW, app.queue, -1));
		gpu_reads(&app, f);
		/* Commands of a queue that is out of order are the user's to order. */
		CHECK_EQ(cl.EnqueueBarrierWithWaitList(app.queue, 0, NULL, NULL), 0);
		gpu_sets(&app, f, 4096, 100, 0xe0 | i);
		until_signalled(release(f, DLBUF_RW, app.queue));
		CHECK_EQ(app.bytes[0], i);
		CHECK_EQ(app.bytes[IMPORT_BYTES - 1],
			 (uint8_t)((IMPORT_BYTES - 1) * 7 + 2 * 13 + 1));
		CHECK_EQ(f->bytes[4096], 0xe0 | i);
		CHECK_EQ(f->bytes[4096 + 100], (uint8_t)(4196 * 7 + 13 + 1));
	}
	drain(&app);
	app_end(&app);
}

TEST(paths)
{
	for (size_t i = 0; i < NROWS; i++)
		for (int k = 0; k < 2; k++) {
			struct dlbuf_device *dev;
			struct fixture f;
			int ret;

			begin(rows[i].words);
			dev = open_ok();
			ret = import_by(&f, dev, rows[i].path, DLBUF_RW);
			CHECK_MSG(!ret == !rows[i].why_not, "%s, path %d: %s",
				  rows[i].words, rows[i].path,
				  dlbuf_last_error());
			if (ret && rows[i].why_not)
				CHECK_MSG(strstr(dlbuf_last_error(),
						 rows[i].why_not), "%s: %s",
					  rows[i].words, dlbuf_last_error());
			if (!ret)
				use(&f, k ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
			import_finish(&f, ret);
			dlbuf_device_close(dev);
			end();
		}
}

/* What may not be written is imported for reading. */
TEST(read_only)
{
	for (size_t i = 0; i < NROWS; i++) {
		struct fixture f;
		struct app app;

		if (rows[i].why_not)
			continue;
		begin(rows[i].words);
		if (import_by(&f, open_ok(), rows[i].path, DLBUF_READ))
			CHECK_MSG(false, "%s, path %d: %s", rows[i].words,
				  rows[i].path, dlbuf_last_error());
		app_begin(&app, f.dev, 0);
		CHECK_OK(acquire(&f, DLBUF_READ, app.queue, -1));
		gpu_reads(&app, &f);
		until_signalled(release(&f, DLBUF_READ, app.queue));
		drain(&app);
		CHECK(!memcmp(app.bytes, f.bytes, IMPORT_BYTES));
		app_end(&app);
		give_up(&f);
		end();
	}
}

/* The driver's cl_mem is the tensor's data, and the offset is apart. */
TEST(handles)
{
	struct fixture f;
	size_t bytes;

	begin("khr,memfds");
	REQUIRE_OK(import_by(&f, open_ok(), DLBUF_PATH_DIRECT, DLBUF_RW));
	CHECK(f.ci.base.opaque);
	CHECK_EQ(cl.GetMemObjectInfo(mem_of(&f), CL_MEM_SIZE, sizeof(bytes),
				     &bytes, NULL), 0);
	CHECK_EQ(bytes, IMPORT_BYTES);
	give_up(&f);
	end();
}

/* The release of an import waits for nothing, and its memory stays for the queue. */
TEST(unimport_with_commands_on_the_queue)
{
	static const struct row *const some[] = { &rows[0], &rows[1], &rows[2],
						  &rows[5], &rows[9] };

	for (size_t i = 0; i < 5; i++) {
		struct fixture f;
		struct app app;
		int fence;

		begin(some[i]->words);
		REQUIRE_OK(import_by(&f, open_ok(), some[i]->path, DLBUF_RW));
		app_begin(&app, f.dev, 0);
		CHECK_OK(acquire(&f, DLBUF_RW, app.queue, -1));
		gate_close(&app);
		gpu_sets(&app, &f, 0, 4, 0x77);
		fence = release(&f, DLBUF_RW, app.queue);
		CHECK(!signalled(fence));
		f.dev->backend->unimport(&f.ci.base);
		dlbuf_device_close(f.dev);
		CHECK(!signalled(fence));
		gate_open(&app);
		until_signalled(fence);
		CHECK_EQ(f.bytes[3], 0x77);
		drain(&app);
		app_end(&app);
		fixture_end(&f);
		end();
	}
}

/* Qualcomm's driver wants bytes behind the buffer. */
TEST(padding)
{
	struct dlbuf_device *dev;
	struct fixture f;
	size_t bytes;

	begin("qcom,padding,memfds");
	dev = open_ok();
	CHECK_EQ(dev->slack, 4096);
	REQUIRE_OK(import_by(&f, dev, DLBUF_PATH_DIRECT, DLBUF_RW));
	CHECK_EQ(cl.GetMemObjectInfo(mem_of(&f), CL_MEM_SIZE, sizeof(bytes),
				     &bytes, NULL), 0);
	CHECK_EQ(bytes, IMPORT_BYTES - 4096);
	import_finish(&f, 0);
	fake->padding = 3 * 4096;
	dlbuf_device_close(dev);
	dev = open_ok();
	CHECK_ERR(import_by(&f, dev, DLBUF_PATH_DIRECT, DLBUF_RW), -EOPNOTSUPP);
	CHECK(strstr(dlbuf_last_error(), "no room"));
	import_finish(&f, -1);
	dlbuf_device_close(dev);
	end();
}

/* A driver that names an extension and lacks its functions. */
TEST(extensions_without_functions)
{
	static const struct {
		const char *words, *named;
		bool imports;
	} cases[] = {
		/* Neither import nor semaphores are tried. */
		{ "userptr,memfds", "cl_arm_import_memory_dma_buf ", false },
		{ "userptr,memfds", "cl_khr_external_semaphore_sync_fd ", false },
	};

	for (size_t i = 0; i < 2; i++) {
		struct dlbuf_device *dev;
		struct fixture f;

		begin(cases[i].words);
		fake->machine.extensions = cases[i].named;
		fake->no_functions = true;
		dev = open_ok();
		CHECK_ERR(import_by(&f, dev, DLBUF_PATH_DIRECT, DLBUF_RW),
			  -EOPNOTSUPP);
		import_finish(&f, -1);
		dlbuf_device_close(dev);
		end();
	}
}

/* ---------------------------------------------------------------- failures */

/* The application's own calls do not fail. */
#define APP(call)						\
	do {							\
		unsigned long at_ = fake->fail_later(0);	\
								\
		call;						\
		fake->fail_later(at_);				\
	} while (0)

static void *signal_it(void *fence)
{
	signal_fence(*(int *)fence);
	return NULL;
}

/* Where nobody can wait for the fence, acquire() does: so a thread signals it. */
static int use_once(struct fixture *f, struct app *app)
{
	int ret, fence = pending_fence();
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, signal_it, &fence));
	ret = acquire(f, DLBUF_RW, app->queue, fence);
	pthread_join(thread, NULL);
	close(fence);
	if (ret)
		return ret;
	APP(gpu_sets(app, f, 0, 4, 0x55));
	ret = f->dev->backend->release(&f->ci.base, DLBUF_RW, app->queue, &fence,
				       NULL);
	if (!ret)
		APP(until_signalled(fence));
	return ret;
}

/* An import of the row, and an access to it. */
static int walk(void)
{
	struct dlbuf_device *dev;
	struct fixture f;
	struct app app;
	int ret;

	ret = dlbuf_device_open("opencl:0", NULL, &dev);
	if (ret)
		return ret;
	ret = import_by(&f, dev, the_row->path, DLBUF_RW);
	if (ret) {
		import_finish(&f, ret);
	} else {
		APP(app_begin(&app, dev, 0));
		ret = use_once(&f, &app);
		import_finish(&f, 0);
		APP(drain(&app));
		APP(app_end(&app));
	}
	dlbuf_device_close(dev);
	return ret;
}

/* The driver fails the n-th call of it, each in turn, and nothing stays behind. */
static void check_calls(void)
{
	unsigned long calls;

	begin(the_row->words);
	CHECK_OK(walk());
	settle();
	nothing_left();
	calls = fake->calls;
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fake->fail_later(n);
		ret = walk();
		fake->fail_later(0);
		settle();
		if (!nothing_left() || fake->wrong || fake->not_started)
			ktap_note(NULL, 0, "%s, path %d: call %lu of %lu gave %d: %s",
				  the_row->words, the_row->path, n, calls, ret,
				  dlbuf_last_error());
		CHECK_EQ(fake->wrong, 0);
		CHECK_EQ(fake->not_started, 0);
		fake->wrong = 0;
	}
	end();
}

TEST(every_call_of_the_driver_fails_once)
{
	for (size_t i = 0; i < NROWS; i++) {
		the_row = &rows[i];
		if (!rows[i].why_not)
			check_calls();
	}
}

#ifdef CONFIG_FAULT_INJECTION
TEST(every_call_fails_once)
{
	for (size_t i = 0; i < NROWS; i++) {
		the_row = &rows[i];
		if (rows[i].why_not)
			continue;
		begin(rows[i].words);
		check_walks(walk);
		end();
	}
}
#endif
#else
TEST(nothing)
{
	SKIP("the OpenCL backend is not built");
}
#endif

KTAP_MAIN()
