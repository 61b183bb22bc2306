// SPDX-License-Identifier: MIT
/*
 * The OpenCL backend against a double of a driver (tests/doubles/opencl.h): order, fences
 * in and out, and devices that are lost.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include "cuda_memfds.h"
#include "opencl_backend.h"

#define OUT_OF_ORDER CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE

/* How a queue waits for a fence, and what a release gives. */
static const struct row {
	const char *words, *waits_by;
	enum dlbuf_path path;
	cl_command_queue_properties queue;
} rows[] = {
	{ "khr,memfds", "clEnqueueWaitSemaphoresKHR", DLBUF_PATH_DIRECT, 0 },
	{ "khr,memfds", "clEnqueueWaitSemaphoresKHR", DLBUF_PATH_DIRECT,
	  OUT_OF_ORDER },
	{ "khr,memfds,noimport,noexport", "clSetUserEventStatus",
	  DLBUF_PATH_DIRECT, OUT_OF_ORDER },
	{ "arm,memfds", "clSetUserEventStatus", DLBUF_PATH_DIRECT, 0 },
	{ "qcom,memfds", "clSetUserEventStatus", DLBUF_PATH_DIRECT, OUT_OF_ORDER },
	{ "userptr,memfds", "clSetUserEventStatus", DLBUF_PATH_HOST, 0 },
	{ "userptr,memfds", "clSetUserEventStatus", DLBUF_PATH_HOST,
	  OUT_OF_ORDER },
	{ "old,memfds", NULL, DLBUF_PATH_COPY, OUT_OF_ORDER },
};

static void row_begin(const struct row *row, struct fixture *f, struct app *app)
{
	begin(row->words);
	REQUIRE_OK(import_by(f, open_ok(), row->path, DLBUF_RW));
	app_begin(app, f->dev, row->queue);
}

static void row_end(struct fixture *f, struct app *app)
{
	drain(app);
	app_end(app);
	give_up(f);
	end();
}

/* The queue waits, and nobody else; what it reads is what is there then. */
TEST(a_queue_waits_for_a_fence)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture f;
		struct app app;
		int in = -1, out;

		row_begin(&rows[i], &f, &app);
		watch(rows[i].waits_by);
		in = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_RW, app.queue, in));
		gpu_reads(&app, &f);
		out = release(&f, DLBUF_RW, app.queue);
		CHECK(!signalled(out));
		f.bytes[5] = 0x99;
		signal_fence(in);
		close(in);
		until_signalled(out);
		settle();
		CHECK_EQ(app.bytes[5], 0x99);
		if (rows[i].waits_by)
			CHECK_MSG(seen, "%s: %u", rows[i].words, seen);
		row_end(&f, &app);
	}
}

/* A fence of a release waits for the work of its queue. */
TEST(a_release_gives_a_fence)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture f;
		struct app app;
		int out;

		row_begin(&rows[i], &f, &app);
		CHECK_OK(acquire(&f, DLBUF_RW, app.queue, -1));
		gate_close(&app);
		gpu_sets(&app, &f, 0, 8, 0x44);
		out = release(&f, DLBUF_RW, app.queue);
		CHECK(out >= 0 && !signalled(out));
		CHECK(f.bytes[7] != 0x44);
		gate_open(&app);
		until_signalled(out);
		CHECK_EQ(f.bytes[7], 0x44);
		row_end(&f, &app);
	}
}

/* Accesses of two queues in a row, without the application's help. */
TEST(queues_in_turn)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct app app, other;
		struct fixture f;
		int out[2];

		row_begin(&rows[i], &f, &app);
		app_begin(&other, f.dev, 0);
		CHECK_OK(acquire(&f, DLBUF_RW, app.queue, -1));
		gate_close(&app);
		gpu_sets(&app, &f, 0, 8, 0x11);
		out[0] = release(&f, DLBUF_RW, app.queue);
		CHECK_OK(acquire(&f, DLBUF_RW, other.queue, out[0]));
		gpu_reads(&other, &f);
		out[1] = release(&f, DLBUF_RW, other.queue);
		CHECK(!signalled(out[1]));
		gate_open(&app);
		until_signalled(out[0]);
		until_signalled(out[1]);
		CHECK_EQ(other.bytes[7], 0x11);
		drain(&other);
		app_end(&other);
		row_end(&f, &app);
	}
}

/* Accesses at the same time share what the driver is told at their begin and end. */
TEST(overlapping_accesses)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct app app, other;
		struct fixture f;
		int out[2];

		row_begin(&rows[i], &f, &app);
		app_begin(&other, f.dev, 0);
		CHECK_OK(acquire(&f, DLBUF_READ, app.queue, -1));
		CHECK_OK(acquire(&f, DLBUF_READ, other.queue, -1));
		gate_close(&app);
		gpu_reads(&app, &f);
		out[0] = release(&f, DLBUF_READ, app.queue);
		gpu_reads(&other, &f);
		out[1] = release(&f, DLBUF_READ, other.queue);
		gate_open(&app);
		until_signalled(out[0]);
		until_signalled(out[1]);
		CHECK(!memcmp(other.bytes, f.bytes, IMPORT_BYTES));
		CHECK(!memcmp(app.bytes, f.bytes, IMPORT_BYTES));
		drain(&other);
		app_end(&other);
		row_end(&f, &app);
	}
}

TEST(the_cpu_waits)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture f;
		struct app app;

		row_begin(&rows[i], &f, &app);
		CHECK_OK(acquire(&f, DLBUF_RW, app.queue, -1));
		gate_close(&app);
		gpu_sets(&app, &f, 0, 8, 0x22);
		CHECK_OK(f.dev->backend->release(&f.ci.base, DLBUF_RW, app.queue,
						 NULL, NULL));
		CHECK_ERR(f.dev->backend->wait(&f.ci.base, DLBUF_READ, 1),
			  -ETIME);
		gate_open(&app);
		CHECK_OK(f.dev->backend->wait(&f.ci.base, DLBUF_READ, 0));
		CHECK_EQ(f.bytes[0], 0x22);
		CHECK_OK(f.dev->backend->drain(f.dev, 0));
		row_end(&f, &app);
	}
}

/* The device is gone: its fences signal, and nothing is left. */
TEST(lost)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture f;
		struct app app;
		int out;

		row_begin(&rows[i], &f, &app);
		CHECK_OK(acquire(&f, DLBUF_RW, app.queue, -1));
		gate_close(&app);
		gpu_sets(&app, &f, 0, 8, 0x33);
		out = release(&f, DLBUF_RW, app.queue);
		fake->lose(CL_DEVICE_NOT_AVAILABLE);
		until_signalled(out);
		cl.ReleaseEvent(app.gate);
		app_end(&app);
		give_up(&f);
		end();
	}
}

/* Threads share an import, each with its queue. */
struct worker {
	struct fixture *f;
	cl_command_queue_properties queue;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct app app;

	app_begin(&app, w->f->dev, w->queue);
	for (int i = 0; i < 20; i++) {
		CHECK_OK(acquire(w->f, DLBUF_READ, app.queue, -1));
		gpu_reads(&app, w->f);
		until_signalled(release(w->f, DLBUF_READ, app.queue));
		CHECK(!memcmp(app.bytes, w->f->bytes, IMPORT_BYTES));
	}
	drain(&app);
	app_end(&app);
	return NULL;
}

/* Asks about events that others record. */
static void *drains(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 200; i++)
		CHECK_OK(dlbuf_device_drain(w->f->dev, 0));
	return NULL;
}

TEST(threads)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct worker workers[4];
		struct fixture f;

		begin(rows[i].words);
		REQUIRE_OK(import_by(&f, open_ok(), rows[i].path, DLBUF_RW));
		for (int k = 0; k < 4; k++) {
			workers[k] = (struct worker){
				.f = &f, .queue = rows[i].queue };
			REQUIRE(!pthread_create(&workers[k].thread, NULL,
						k < 3 ? work : drains,
						&workers[k]));
		}
		for (int k = 0; k < 4; k++)
			pthread_join(workers[k].thread, NULL);
		give_up(&f);
		end();
	}
}
#else
TEST(nothing)
{
	SKIP("the OpenCL backend is not built");
}
#endif

KTAP_MAIN()
