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

/* A list runs in any order what is not between barriers; dlbuf's commands are. */
TEST(commands_are_in_order)
{
	struct queue_memory *m;
	struct fixture f;
	struct app app;

	begin_with_import(&app, &f, "memfds");
	m = f.ci.memory;
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
	void *event, *other;

	begin_with_import(&app, &f, "memfds");
	dev = queue_device_of(f.dev);
	REQUIRE_OK(dev->ops->event_create(dev, &event));
	CHECK_OK(dev->ops->event_query(dev, event));
	CHECK_OK(dev->ops->event_wait(dev, event));
	CHECK_OK(dev->ops->stream_wait(dev, app.stream, event));
	other = list_make(&app.dev);
	CHECK_OK(dev->ops->event_record(dev, event, other));
	CHECK_OK(dev->ops->event_wait(dev, event));
	gate_close(&app);
	CHECK_OK(dev->ops->stream_wait(dev, app.stream, event));
	for (int i = 0; i < 100; i++) {
		CHECK_OK(dev->ops->event_record(dev, event, other));
		CHECK_OK(dev->ops->event_wait(dev, event));
	}
	CHECK_OK(dev->ops->event_record(dev, event, app.stream));
	CHECK_EQ(dev->ops->event_query(dev, event), QUEUE_PENDING);
	gate_open(&app);
	CHECK_OK(dev->ops->event_wait(dev, event));
	dev->ops->event_destroy(dev, event);
	drain(&app);
	CHECK_EQ(lz.CommandListDestroy(other), 0);
	end_with_import(&app, &f);
}

/* The library's events live until a list has passed its wait for them. */
TEST(device_closes_before_a_wait_is_passed)
{
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	struct dlbuf_levelzero_device of = { .size = sizeof(of) };
	struct dlbuf_device *own, *dev;
	ze_context_handle_t context;
	struct queue_device *queue;
	struct app app;
	void *event;

	begin("");
	own = open_ok();
	REQUIRE_OK(dlbuf_levelzero_get_device(own, &of));
	REQUIRE(!lz.ContextCreate(of.driver, &desc, &context));
	REQUIRE_OK(dlbuf_device_wrap_levelzero(context, of.device, NULL, &dev));
	dlbuf_device_close(own);
	app_begin(&app, dev);
	queue = queue_device_of(dev);
	REQUIRE_OK(queue->ops->event_create(queue, &event));
	CHECK_OK(queue->ops->event_record(queue, event, app.dev.list));
	gate_close(&app);
	CHECK_OK(queue->ops->stream_wait(queue, app.stream, event));
	queue->ops->event_destroy(queue, event);
	dlbuf_device_close(dev);
	CHECK(fake->live[FAKE_EVENT] > 4);
	gate_open(&app);
	settle();
	CHECK_EQ(fake->live[FAKE_EVENT], 4);
	drain(&app);
	app_end(&app);
	CHECK_EQ(lz.ContextDestroy(context), 0);
	end();
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
		CHECK_OK(f.dev->backend->wait(&f.ci.base, DLBUF_RW, 0));
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
			u->ret = u->f->dev->backend->release(&u->f->ci.base,
					DLBUF_READ, NULL, &fence, NULL);
		if (!u->ret && fence >= 0)
			close(fence);
	}
	return NULL;
}

/* The list of the stream NULL is the library's to lock. */
TEST(threads_on_one_list)
{
	struct user users[4];
	pthread_t threads[4];
	struct fixture f;

	begin("memfds");
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
	end();
}

/* ---------------------------------------------------------------- export */

static void *alloc_usm(const struct app *app, size_t bytes, bool exports)
{
	const ze_external_memory_export_desc_t for_export = {
		.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
		.flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
	};
	const ze_device_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
		.pNext = exports ? &for_export : NULL,
	};
	void *p = NULL;

	REQUIRE(!lz.MemAllocDevice(app->dev.context, &desc, bytes, 0,
				   app->dev.device, &p));
	return p;
}

/* Twice, because some drivers keep the fd that they gave. */
TEST(export)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	struct app app;
	uint8_t *p;

	for (int keeps = 0; keeps < 2; keeps++) {
		begin(keeps ? "memfds,keepsfd" : "memfds");
		dev = open_ok();
		app_begin(&app, dev);
		p = alloc_usm(&app, 100000, true);
		p[70001] = 0x77;
		for (int i = 0; i < 2; i++) {
			REQUIRE_OK(export_at(dev, p + 70000, 10, kDLOneAPI, 0,
					     &out));
			CHECK_EQ(out.offset, 70000);
			CHECK_EQ(out.bytes, 128 << 10);
			CHECK(out.fd >= 3 &&
			      fcntl(out.fd, F_GETFD) == FD_CLOEXEC);
			CHECK_EQ(byte_at(&out, 70001), 0x77);
			close(out.fd);
		}
		CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
		app_end(&app);
		dlbuf_device_close(dev);
		end();
	}
}

/* Where only memory is exported that was allocated for that. */
TEST(alloc)
{
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int64_t shape = 5000;
	const DLTensor layout = LAYOUT8(1, &shape);

	begin("memfds,noexport,pools");
	dev = open_ok();
	REQUIRE_OK(dlbuf_alloc(&dev, 1, &layout, NULL, &t));
	CHECK_EQ(*(uint8_t *)t->dl_tensor.data, 0);
	t->deleter(t);
	dlbuf_device_close(dev);
	end();
}

TEST(every_refusal_of_an_export)
{
	struct dlbuf_device *dev, *other;
	struct dlbuf_exported out;
	struct app app;
	void *p, *first, *small, *of_other;
	uint8_t byte;

	begin("two,memfds,pools,noexport");
	dev = open_as("levelzero:0");
	other = open_as("levelzero:1");
	app_begin(&app, dev);
	p = alloc_usm(&app, 100000, true);
	REFUSES(dev, p, 1, kDLCPU, 0, -EINVAL, "DLPack's type 1");
	REFUSES(dev, &byte, 1, kDLOneAPI, 0, -EINVAL,
		"is not USM memory of levelzero:0's context");
	REFUSES(other, p, 1, kDLOneAPI, 0, -EINVAL, "is not USM memory");
	REFUSES(dev, p, 100001, kDLOneAPI, 0, -EINVAL, "ends 1 bytes after");
	REFUSES(dev, p, 1, kDLOneAPI, DLBUF_EXPORT_PCIE, -EOPNOTSUPP,
		"does not choose");
	fake->shared = true;
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EOPNOTSUPP,
		"shared memory has no dma-buf");
	fake->shared = false;
	break_call("zeMemGetAllocProperties", ZE_RESULT_ERROR_UNKNOWN, 0);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EIO, "zeMemGetAllocProperties");
	break_call("zeMemGetAddressRange", ZE_RESULT_ERROR_UNKNOWN, 0);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EIO, "zeMemGetAddressRange");
	heal();
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EINVAL, "freed, or never allocated");
	/* A context may have several devices. */
	REQUIRE_OK(dlbuf_levelzero_get_device(other, &app.dev));
	of_other = app.dev.device;
	REQUIRE_OK(dlbuf_levelzero_get_device(dev, &app.dev));
	app.dev.device = of_other;
	p = alloc_usm(&app, 4096, true);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EINVAL, "is of another device");
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	REQUIRE_OK(dlbuf_levelzero_get_device(dev, &app.dev));
	/* Not allocated for it: that is the driver's word. */
	p = alloc_usm(&app, 100000, false);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EOPNOTSUPP,
		"zeMemGetAllocProperties: ZE_RESULT_ERROR_UNSUPPORTED_FEATURE");
	/* A part of what the driver would export. */
	fake->no_export = false;
	first = alloc_usm(&app, 4096, false);
	small = alloc_usm(&app, 4096, false);
	REFUSES(dev, small, 1, kDLOneAPI, 0, -EOPNOTSUPP,
		"the dma-buf has 2097152 bytes, and the allocation 4096");
	CHECK_EQ(lz.MemFree(app.dev.context, small), 0);
	CHECK_EQ(lz.MemFree(app.dev.context, first), 0);
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
	app_end(&app);
	dlbuf_device_close(other);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static int walk_export(void)
{
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_exported out;
	int64_t shape = 5000;
	const DLTensor layout = LAYOUT8(1, &shape);
	int ret;

	ret = dlbuf_device_open("levelzero", NULL, &dev);
	if (ret)
		return ret;
	ret = dlbuf_alloc(&dev, 1, &layout, NULL, &t);
	if (!ret)
		ret = export_at(dev, t->dl_tensor.data, 100, kDLOneAPI, 0, &out);
	if (!ret)
		close(out.fd);
	if (t)
		t->deleter(t);
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_of_an_export_fails_once)
{
	static const char *const words[] = { "memfds", "memfds,keepsfd,nohost,nohostsync" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		begin(words[i]);
		check_walks(walk_export);
		end();
	}
}
#endif

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
