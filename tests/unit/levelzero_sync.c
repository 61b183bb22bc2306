// SPDX-License-Identifier: MIT
/*
 * The Level Zero backend against a double of a driver (tests/doubles/levelzero.h): events,
 * which are flags and no moments of a stream, and exports.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include <pthread.h>

#include "levelzero_backend.h"

static void begin_with_import(struct app *app, struct fixture *f,
			      const char *words)
{
	begin(words);
	import_ok(f, open_ok(), DLBUF_PATH_DIRECT);
	app_begin(app, f->dev);
}

static void end_with_import(struct app *app, struct fixture *f)
{
	app_end(app);
	give_up(f);
	end();
}

/* ---------------------------------------------------------------- events */

/* A list runs commands in any order that are not between barriers; dlbuf's are. */
TEST(commands_are_in_order)
{
	struct queue_memory *m;
	struct fixture f;
	struct app app;

	begin_with_import(&app, &f, "memfds");
	m = queue_memory_of(f.imp);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x5c);
	CHECK_OK(m->dev->ops->clear(m, app.stream));
	read_all(&app, &f);
	CHECK_EQ(app.pinned[7], 0);
	CHECK_EQ(f.bytes[7], 0);
	end_with_import(&app, &f);
}

/*
 * A stream that comes to its wait late waits for the moment that was meant, although
 * the event of queue_ops was recorded again since, even behind that wait.
 */
TEST(late_waiters)
{
	struct queue_device *dev;
	struct fixture f;
	struct app app;
	void *event = NULL, *other;

	begin_with_import(&app, &f, "memfds");
	dev = queue_device_of(f.dev);
	other = list_make(&app.dev);
	CHECK_OK(dev->ops->event_record(dev, &event, other));
	CHECK_OK(dev->ops->event_wait(dev, event));
	gate_close(&app);
	CHECK_OK(dev->ops->stream_wait(dev, app.stream, event));
	for (int i = 0; i < 100; i++) {
		CHECK_OK(dev->ops->event_record(dev, &event, other));
		CHECK_OK(dev->ops->event_wait(dev, event));
	}
	CHECK_OK(dev->ops->event_record(dev, &event, app.stream));
	CHECK_EQ(dev->ops->event_query(dev, event), QUEUE_PENDING);
	gate_open(&app);
	CHECK_OK(dev->ops->event_wait(dev, event));
	dev->ops->event_destroy(dev, event);
	drain(&app);
	CHECK_EQ(lz.CommandListDestroy(other), 0);
	end_with_import(&app, &f);
}

/* No event has still a list to leave when the list goes: dlbuf's, or after a drain yours. */
DOUBLE_CASE(events_leave_their_list, "")
{
	struct queue_device *queue;
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	void *own, *event = NULL;
	struct app app;

	queue = queue_device_of(dev);
	app_begin(&app, dev);
	REQUIRE_OK(queue->ops->stream_create(queue, &own));
	for (int i = 0; i < 2; i++) {
		CHECK_OK(queue->ops->event_record(queue, &event, i ? app.stream : own));
		CHECK_OK(queue->ops->stream_wait(queue, i ? app.stream : own, event));
		if (!i)
			queue->ops->stream_destroy(queue, own);
	}
	drain(&app);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	app_end(&app);
	CHECK_EQ(fake->unasked, 0);
	queue->ops->event_destroy(queue, event);
}

/* The library's events live until a list has passed its wait for them, or is lost. */
static void check_closes_before_a_wait(bool lost)
{
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	struct dlbuf_levelzero_device of = { .size = sizeof(of) };
	struct dlbuf_device *own, *dev;
	ze_context_handle_t context;
	struct queue_device *queue;
	struct app app;
	void *event = NULL;

	begin("");
	own = open_ok();
	REQUIRE_OK(dlbuf_levelzero_get_device(own, &of));
	REQUIRE(!lz.ContextCreate(of.driver, &desc, &context));
	REQUIRE_OK(dlbuf_device_wrap_levelzero(context, of.device, NULL, &dev));
	dlbuf_device_close(own);
	app_begin(&app, dev);
	queue = queue_device_of(dev);
	CHECK_OK(queue->ops->event_record(queue, &event, app.dev.list));
	gate_close(&app);
	CHECK_OK(queue->ops->stream_wait(queue, app.stream, event));
	queue->ops->event_destroy(queue, event);
	dlbuf_device_close(dev);
	CHECK(fake->live[FAKE_EVENT] > 4);
	if (lost)
		lose(ZE_RESULT_ERROR_DEVICE_LOST);
	else
		gate_open(&app);
	settle();
	CHECK_EQ(fake->live[FAKE_EVENT], 4);
	if (!lost)
		drain(&app);
	app_end(&app);
	CHECK_EQ(lz.ContextDestroy(context), fake->lost);
	end();
}

TEST(device_closes_before_a_wait_is_passed)
{
	check_closes_before_a_wait(false);
}

TEST(device_is_lost_before_a_wait_is_passed)
{
	check_closes_before_a_wait(true);
}

/* ---------------------------------------------------------------- polling */

/* The caller finds that polled work is over before the thread does, again and again. */
TEST(polled_work_is_found_by_the_caller)
{
	struct fixture f;
	struct app app;
	int fence;

	begin_with_import(&app, &f, "memfds,nohost");
	for (int i = 0; i < 300; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
		fence = release(&f, DLBUF_RW, app.stream);
		drain(&app);
		CHECK_OK(f.dev->backend->wait(f.imp, DLBUF_RW, 0));
		/* The thread may be about to write to it. */
		REQUIRE(fence >= 0);
		CHECK_EQ(poll(&(struct pollfd){ fence, POLLIN, 0 }, 1, -1), 1);
		close(fence);
	}
	end_with_import(&app, &f);
}

/* ---------------------------------------------------------------- threads */

struct user {
	struct fixture *f;
	int in, ret;
};

static void *use(void *arg)
{
	struct user *u = arg;
	int fence;

	for (int i = 0; i < 20 && !u->ret; i++) {
		u->ret = acquire(u->f, DLBUF_READ, NULL, i ? -1 : u->in);
		if (!u->ret)
			u->ret = u->f->dev->backend->release(u->f->imp,
					DLBUF_READ, ON(NULL), &fence, NULL);
		if (!u->ret && fence >= 0)
			close(fence);
	}
	return NULL;
}

/* The list of the stream NULL is the library's to lock. */
DOUBLE_CASE(threads_on_one_list, "memfds")
{
	struct user users[4];
	pthread_t threads[4];
	struct fixture f;

	import_ok(&f, open_ok(), DLBUF_PATH_DIRECT);
	for (int i = 0; i < 4; i++) {
		users[i] = (struct user){ .f = &f, .in = pending_fence() };
		REQUIRE(!pthread_create(&threads[i], NULL, use, &users[i]));
	}
	for (int i = 0; i < 4; i++) {
		signal_fence(users[i].in);
		pthread_join(threads[i], NULL);
		CHECK_EQ(users[i].ret, 0);
		close(users[i].in);
	}
	give_up(&f);
}

/* ---------------------------------------------------------------- export */

/* The dma-buf has the device's pages. */
DOUBLE_CASE(export, "memfds")
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	struct app app;
	uint8_t *p;

	app_begin(&app, dev);
	p = usm(&app, 100000, true);
	p[70001] = 0x77;
	REQUIRE_OK(export_at(dev, p + 70000, 10, kDLOneAPI, 0, &out));
	CHECK_EQ(out.offset, 70000);
	CHECK_EQ(out.bytes, 128 << 10);
	CHECK_EQ(byte_at(&out, 70001), 0x77);
	close(out.fd);
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	app_end(&app);
}

DOUBLE_CASE(every_refusal_of_an_export, "two,memfds,pools,noexport")
{
	struct dlbuf_device *dev AUTO_DEV = open_as("levelzero:0"), *other AUTO_DEV = NULL;
	struct dlbuf_exported out;
	struct app app;
	void *p, *first, *small, *of_other;
	uint8_t byte;

	other = open_as("levelzero:1");
	app_begin(&app, dev);
	p = usm(&app, 100000, true);
	REFUSES(dev, &byte, 1, kDLOneAPI, 0, -EINVAL,
		"is not USM memory of levelzero:0's context");
	REFUSES(other, p, 1, kDLOneAPI, 0, -EINVAL, "is not USM memory");
	fake->shared = true;
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EOPNOTSUPP,
		"shared memory has no dma-buf");
	fake->shared = false;
	break_call("zeMemGetAddressRange", ZE_RESULT_ERROR_UNKNOWN, 0);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EIO, "zeMemGetAddressRange");
	heal();
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	/* A context may have several devices. */
	REQUIRE_OK(dlbuf_levelzero_get_device(other, &app.dev));
	of_other = app.dev.device;
	REQUIRE_OK(dlbuf_levelzero_get_device(dev, &app.dev));
	app.dev.device = of_other;
	p = usm(&app, 4096, true);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EINVAL, "is of another device");
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	REQUIRE_OK(dlbuf_levelzero_get_device(dev, &app.dev));
	/* Not allocated for it: that is the driver's word. */
	p = usm(&app, 100000, false);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EOPNOTSUPP,
		"zeMemGetAllocProperties: ZE_RESULT_ERROR_UNSUPPORTED_FEATURE");
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	/* Parts of the memory that the driver would export, one at its beginning. */
	fake->no_export = false;
	first = usm(&app, 4096, false);
	small = usm(&app, (2 << 20) - 4096, false);
	REFUSES(dev, first, 1, kDLOneAPI, 0, -EOPNOTSUPP,
		"the dma-buf has 2097152 bytes, and the allocation 4096");
	REFUSES(dev, small, 1, kDLOneAPI, 0, -EOPNOTSUPP, "it is a part of another one");
	CHECK_EQ(lz.MemFree(app.dev.context, small), 0);
	CHECK_EQ(lz.MemFree(app.dev.context, first), 0);
	app_end(&app);
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
