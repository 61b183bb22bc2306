// SPDX-License-Identifier: MIT
/*
 * lib/queue on the trial backend (tests/trial): a driver with the least that one can
 * have, that takes and gives sync_files, or that calls no functions.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_QUEUE
#include "../trial/trial.c"

static struct driver *const fake = &controls;

static bool nothing_left(void)
{
	return CHECK_EQ(fake->pending, 0);
}

#include "double.h"
#include "fixture.h"
#include "queue_driver.h"

static const struct queue_ops quiet_ops = { OPS };	/* calls no functions */
static const struct queue_ops *ops;

static void begin(const char *words)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	ops = *words ? &quiet_ops : &trial_ops;
}

static void end(void)
{
	settle();
	nothing_left();
	CHECK_EQ(fake->wrong, 0);
}

static int try_open(struct dlbuf_device **dev)
{
	DLBUF_OPTS(dlbuf_device_opts, opts);
	int ret = queue_open(&trial_backend, ops, "", &opts, dev);

	if (!ret)
		device_init(*dev, &trial_backend, &opts);
	return ret;
}

static inline void driver_call(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- the user */

struct app {
	void *stream;
	uint8_t *pinned;
	struct record *passed;
	_Atomic(uint32_t) open;
};

static void app_adds(struct app *app, struct job job)
{
	pthread_mutex_lock(&lock);
	CHECK_EQ(stream_add(app->stream, &job), 0);
	pthread_mutex_unlock(&lock);
}

static void *app_stream(struct app *app)
{
	void *s = NULL;

	REQUIRE_OK(stream_create(NULL, &s));
	return s;
}

static void app_stream_end(struct app *app, void *s)
{
	stream_destroy(NULL, s);
}

static void app_begin(struct app *app, struct dlbuf_device *dev)
{
	*app = (struct app){ .stream = app_stream(app) };
	app->pinned = calloc(1, IMPORT_BYTES);
}

static void app_end(struct app *app)
{
	app_stream_end(app, app->stream);
	record_put(app->passed);
	free(app->pinned);
}

static void app_away(struct app *app, bool away) { }

static void gpu_reads(struct app *app, struct fixture *f)
{
	app_adds(app, (struct job){ .run = job_copy, .to = app->pinned,
				    .from = f->imp->data, .bytes = IMPORT_BYTES });
}

static void gpu_sets(struct app *app, struct fixture *f, size_t from, size_t bytes,
		     uint8_t value)
{
	app_adds(app, (struct job){ .run = job_set, .bytes = bytes, .value = value,
				    .to = (uint8_t *)f->imp->data + from });
}

static bool is_idle(struct app *app)
{
	bool idle;

	pthread_mutex_lock(&lock);
	idle = stream_is_idle(app->stream);
	pthread_mutex_unlock(&lock);
	return idle;
}

static void drain(struct app *app)
{
	finish(NULL, app->stream);
}

static void gate_close(struct app *app)
{
	app->open = 0;
	pthread_mutex_lock(&lock);
	record_put(app->passed);
	app->passed = record_make();
	pthread_mutex_unlock(&lock);
	app_adds(app, (struct job){ .run = job_wait_word, .bytes = 4, .value = 1,
				    .to = (uint8_t *)&app->open });
	app_adds(app, (struct job){ .run = job_record, .record = app->passed });
}

static void gate_open(struct app *app)
{
	app->open = 1;
}

static void gate_pass(struct app *app)
{
	gate_open(app);
	pthread_mutex_lock(&lock);
	record_finish(app->passed);
	pthread_mutex_unlock(&lock);
}

static const struct queue_driver drivers[] = {
	{ "trial", .device = "trial", .walks = 5, .blocks = true, .read_only = HOST | COPY,
	  .words = { [DLBUF_PATH_HOST] = "", [DLBUF_PATH_COPY] = "" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "the driver does not import dma-bufs",
		       [DLBUF_PATH_BRIDGE] = "there is no bridge" } },
	{ "quiet", .device = "trial", .quiet = true, .walks = 5, .blocks = true, .read_only = HOST,
	  .words = { [DLBUF_PATH_HOST] = "quiet" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "the driver does not import dma-bufs",
		       [DLBUF_PATH_BRIDGE] = "there is no bridge",
		       [DLBUF_PATH_COPY] = "its streams cannot call host functions" } },
};

#define ONE_DEVICE
#include "queue_cases.h"

static bool polls_slowly(void)
{
	struct queue_device *q = queue_device_of(f.dev);
	bool slow;

	pthread_mutex_lock(&q->lock);
	slow = q->polling.slow;
	pthread_mutex_unlock(&q->lock);
	return slow;
}

/* A waiter is notified nevertheless, by a thread of the library that polls. */
QUEUE_CASE(ends_are_polled, HOST, NOTHING)
{
	int ends[3];

	gate_close(&app);
	for (int i = 0; i < 3; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
		ends[i] = release(&f, DLBUF_RW, app.stream);
		CHECK(!signalled(ends[i]));
	}
	/* It also polls if host functions notify, but slowly: the device may be lost. */
	CHECK_EQ(event_pending(), 1);
	UNTIL(polls_slowly() == !!ops->call_host);
	CHECK_ERR(wait_until(DLBUF_READ, 1), -ETIME);
	gate_open(&app);
	CHECK_OK(wait_until(DLBUF_READ, 0));
	for (int i = 0; i < 3; i++)
		until_over(ends[i]);
	settle();
	/* No caller waits: nothing polls. */
	gate_close(&app);
	CHECK_OK(release_to(NULL));
	CHECK_EQ(event_pending(), 0);
	gate_open(&app);
}

/* ---------------------------------------------------------------- fences */

static int waited, given;

static int wait_fence(struct queue_device *dev, void *s, int fence)
{
	waited = fence;
	return 0;
}

static int export_fence(struct queue_device *dev, void *s, int *fence)
{
	*fence = given = eventfd(0, EFD_CLOEXEC);
	return given < 0 ? fail_errno("eventfd()") : 0;
}

static int start_with_fences(struct queue_device *dev, uint32_t flags)
{
	dev->takes_fences = dev->gives_fences = true;
	return start(dev, flags);
}

/* Fences go to the driver and come from it; a lease has the device's event. */
DOUBLE_CASE(a_driver_with_fences, "")
{
	/* The device ends after this function: in settle(), by the thread of events. */
	static struct queue_ops with;
	int fence, end_of = -1;

	with = (struct queue_ops){ OPS, .call_host = call_host,
		.wait_fence = wait_fence, .export_fence = export_fence };
	with.start = start_with_fences;
	ops = &with;
	on = &drivers[0];
	REQUIRE_OK(import_by(&f, open_device(), DLBUF_PATH_HOST, DLBUF_RW));
	CHECK_EQ(f.dev->acquire_sync, DLBUF_SYNC_FENCE);
	CHECK_EQ(f.dev->release_sync, DLBUF_SYNC_FENCE);
	CHECK_OK(acquire(&f, DLBUF_RW, NULL, f.memfd));
	CHECK_EQ(waited, f.memfd);
	CHECK_OK(trial_backend.release(f.imp, DLBUF_RW, ON(NULL), &fence, &end_of));
	CHECK_EQ(fence, given);
	CHECK(end_of >= 3);
	until_over(end_of);
	close(fence);
	give_up(&f);
}
#else
KTAP_SKIPPED("no device with queues is built")
#endif

KTAP_MAIN()
