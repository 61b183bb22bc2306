/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the Level Zero backend: the double of a driver
 * (tests/doubles/levelzero.h), which dlbuf loads as the loader, and an application with a
 * command list of its own.
 */
#ifndef UNIT_LEVELZERO_BACKEND_H
#define UNIT_LEVELZERO_BACKEND_H

#include "backends/levelzero/levelzero.h"
#include "common.h"
#include "double.h"
#include "emulated.h"
#include "doubles/levelzero.h"

static struct fake_levelzero *fake;
#include "counts.h"
static fake_levelzero_fn fake_fn;
static void *fake_lib;
static struct levelzero_api lz;

#include "fixture.h"

/* With a driver of these words; see doubles/levelzero.h. */
static inline void begin(const char *words)
{
	KTAP_KEEPS(KTAP_HEAP, "a driver stays loaded, glibc keeps stacks");
	setenv("FAKE_LEVELZERO", words, 1);
	fake_lib = double_open("liblevelzero.so", "DLBUF_LEVELZERO_LIBRARY");
	fake_fn = (fake_levelzero_fn)dlsym(fake_lib, "fake_levelzero");
	REQUIRE(fake_fn);
#define X(name, needed, type)						\
	lz.name = (__typeof__(lz.name))dlsym(fake_lib, "ze" #name);
	LEVELZERO_FUNCTIONS(X)
#undef X
	fake = fake_fn(true);
	dlbuf_log_set(nobody_reads, NULL, DLBUF_LOG_INFO);
}

static inline void end(void)
{
	settle();
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_LEVELZERO_LIBRARY");
}

static inline struct dlbuf_device *open_ok(void)
{
	return open_as("levelzero");
}

/* ---------------------------------------------------------------- the user */

/* An application's list and memory, in the context of a device. */
struct app {
	struct dlbuf_levelzero_device dev;
	void *stream;
	uint8_t *pinned;
	ze_event_pool_handle_t pool;
	ze_event_handle_t gate, passed, done, idle;
	bool asked;	/* `idle` is on the list */
};

static inline void *list_make(const struct dlbuf_levelzero_device *dev)
{
	const ze_command_queue_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
		.ordinal = 1,
		.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
	};
	ze_command_list_handle_t list;

	REQUIRE(!lz.CommandListCreateImmediate(dev->context, dev->device, &desc,
					       &list));
	return list;
}

static inline void app_begin(struct app *app, struct dlbuf_device *dev)
{
	const ze_event_pool_desc_t pool = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
		.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
		.count = 4,
	};
	const ze_host_mem_alloc_desc_t host = {
		.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
	};
	ze_event_desc_t event = { .stype = ZE_STRUCTURE_TYPE_EVENT_DESC };

	*app = (struct app){ .dev.size = sizeof(app->dev) };
	REQUIRE_OK(dlbuf_levelzero_get_device(dev, &app->dev));
	app->stream = list_make(&app->dev);
	REQUIRE(!lz.MemAllocHost(app->dev.context, &host, IMPORT_BYTES, 0,
				 (void **)&app->pinned));
	REQUIRE(!lz.EventPoolCreate(app->dev.context, &pool, 0, NULL,
				    &app->pool));
	for (ze_event_handle_t *e = &app->gate; e <= &app->idle; e++) {
		REQUIRE(!lz.EventCreate(app->pool, &event, e));
		event.index++;
	}
}

/* Memory of the application on the device. */
static inline void *usm(const struct app *app, size_t bytes, bool exports)
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

static inline void app_away(struct app *app, bool away) { }

static inline void *app_stream(struct app *app)
{
	return list_make(&app->dev);
}

static inline void list_drain(struct app *app, void *list)
{
	CHECK_EQ(lz.CommandListAppendBarrier(list, app->done, 0, NULL), 0);
	CHECK_EQ(lz.EventHostSynchronize(app->done, UINT64_MAX), 0);
	CHECK_EQ(lz.EventHostReset(app->done), 0);
}

static inline void list_end(struct app *app, void *list)
{
	list_drain(app, list);
	CHECK_EQ(lz.CommandListDestroy(list), 0);
}

static inline void app_stream_end(struct app *app, void *list)
{
	list_end(app, list);
}

/* Waits for the application's list. */
static inline void drain(struct app *app)
{
	list_drain(app, app->stream);
	if (app->asked)
		CHECK_EQ(lz.EventHostReset(app->idle), 0);
	app->asked = false;
}

/* It may say no of a list that has just ended. */
static inline bool is_idle(struct app *app)
{
	if (!app->asked)
		CHECK_EQ(lz.CommandListAppendBarrier(app->stream, app->idle, 0,
						     NULL), 0);
	app->asked = true;
	return !lz.EventQueryStatus(app->idle);
}

static inline void app_end(struct app *app)
{
	for (ze_event_handle_t *e = &app->gate; e <= &app->idle; e++)
		CHECK_EQ(lz.EventDestroy(*e), fake->lost);
	CHECK_EQ(lz.EventPoolDestroy(app->pool), fake->lost);
	CHECK_EQ(lz.MemFree(app->dev.context, app->pinned), fake->lost);
	CHECK_EQ(lz.CommandListDestroy(app->stream), fake->lost);
}

/* The list waits until the application opens the gate. */
static inline void gate_close(struct app *app)
{
	CHECK_EQ(lz.EventHostReset(app->gate), 0);
	CHECK_EQ(lz.EventHostReset(app->passed), 0);
	CHECK_EQ(lz.CommandListAppendBarrier(app->stream, NULL, 1, &app->gate), 0);
	CHECK_EQ(lz.CommandListAppendBarrier(app->stream, app->passed, 0, NULL), 0);
}

static inline void gate_open(struct app *app)
{
	CHECK_EQ(lz.EventHostSignal(app->gate), 0);
}

/* See cuda_backend.h. */
static inline void gate_pass(struct app *app)
{
	gate_open(app);
	CHECK_EQ(lz.EventHostSynchronize(app->passed, UINT64_MAX), 0);
}

static inline void driver_call(void)
{
	ze_driver_handle_t driver;
	uint32_t n = 1;

	CHECK_EQ(lz.DriverGet(&n, &driver), fake->lost);
}

static inline void lose(int result)
{
	fake->lose(result);
}

/* These come after the commands on the list. */
static inline void gpu_reads(struct app *app, struct fixture *f)
{
	CHECK_EQ(lz.CommandListAppendBarrier(app->stream, NULL, 0, NULL), 0);
	CHECK_EQ(lz.CommandListAppendMemoryCopy(app->stream, app->pinned,
						f->imp->data, IMPORT_BYTES,
						NULL, 0, NULL), 0);
}

static inline void gpu_sets(struct app *app, struct fixture *f, size_t from,
			    size_t bytes, uint8_t value)
{
	CHECK_EQ(lz.CommandListAppendBarrier(app->stream, NULL, 0, NULL), 0);
	CHECK_EQ(lz.CommandListAppendMemoryFill(app->stream,
						(uint8_t *)f->imp->data + from,
						&value, 1, bytes, NULL, 0, NULL),
		 0);
}

/* The list reads the tensor, and has done so on return. */
static inline void read_all(struct app *app, struct fixture *f)
{
	gpu_reads(app, f);
	drain(app);
}

#endif /* UNIT_LEVELZERO_BACKEND_H */
