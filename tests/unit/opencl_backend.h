/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the OpenCL backend: the double of a driver
 * (tests/doubles/opencl.h) behind the real loader, and an application with a queue of its
 * own. Memfds replace dma-bufs, and eventfds replace sync_files.
 */
#ifndef UNIT_OPENCL_BACKEND_H
#define UNIT_OPENCL_BACKEND_H

#include <dlbuf/opencl.h>

#include "opencl_load.h"

#include "backends/opencl/opencl.h"
#include "fixture.h"
#include "dmabuf/memory.h"

/* With a driver of these words; see doubles/opencl.h. */
static inline void begin(const char *words)
{
	KTAP_KEEPS(KTAP_HEAP, "a driver stays loaded, glibc keeps stacks");
	need_machine();
	load(words);
	dlbuf_log_set(nobody_reads, NULL, DLBUF_LOG_INFO);
}

static inline void end(void)
{
	settle();
	nothing_left();
	CHECK_EQ(fake->wrong, 0);
	CHECK_EQ(fake->not_started, 0);
	fake_fn(true);
}

static inline struct dlbuf_device *open_ok(void)
{
	return open_as("opencl:0");
}

/* ---------------------------------------------------------------- imports */

static inline cl_mem mem_of(const struct fixture *f)
{
	return (cl_mem)f->imp->data;
}

/* ---------------------------------------------------------------- the user */

struct app {
	struct dlbuf_opencl_device cl;
	cl_command_queue stream;
	uint8_t pinned[IMPORT_BYTES];
	cl_event gate, passed;
};

/* Properties of the application's queues. */
static cl_command_queue_properties app_properties;

static inline void *app_stream(struct app *app)
{
	cl_command_queue queue;
	cl_int result;

	queue = cl.CreateCommandQueue(app->cl.context, app->cl.device,
				      app_properties, &result);
	REQUIRE(!result);
	return queue;
}

static inline void app_stream_end(struct app *app, void *stream)
{
	CHECK_EQ(cl.ReleaseCommandQueue(stream), fake->lost);
}

static inline void app_begin(struct app *app, struct dlbuf_device *dev)
{
	*app = (struct app){ .cl.size = sizeof(app->cl) };
	REQUIRE_OK(dlbuf_opencl_get_device(dev, &app->cl));
	REQUIRE(!cl.RetainContext(app->cl.context));
	app->stream = app_stream(app);
}

static inline void app_away(struct app *app, bool away) { }

static inline void gate_end(struct app *app)
{
	if (!app->gate)
		return;
	CHECK_EQ(cl.ReleaseEvent(app->gate), fake->lost);
	CHECK_EQ(cl.ReleaseEvent(app->passed), fake->lost);
	app->gate = NULL;
}

static inline void app_end(struct app *app)
{
	gate_end(app);
	app_stream_end(app, app->stream);
	CHECK_EQ(cl.ReleaseContext(app->cl.context), fake->lost);
}

/* Commands that are added to the queue from now on wait until the gate opens. */
static inline void gate_close(struct app *app)
{
	cl_int result;

	gate_end(app);
	app->gate = cl.CreateUserEvent(app->cl.context, &result);
	REQUIRE(!result);
	CHECK_EQ(cl.EnqueueBarrierWithWaitList(app->stream, 1, &app->gate, NULL), 0);
	CHECK_EQ(cl.EnqueueMarkerWithWaitList(app->stream, 0, NULL, &app->passed), 0);
	CHECK_EQ(cl.EnqueueBarrierWithWaitList(app->stream, 0, NULL, NULL), 0);
}

static inline void gate_open(struct app *app)
{
	CHECK_EQ(cl.SetUserEventStatus(app->gate, CL_COMPLETE), 0);
}

/* See cuda_backend.h. */
static inline void gate_pass(struct app *app)
{
	CHECK_EQ(cl.Flush(app->stream), 0);
	gate_open(app);
	CHECK_EQ(cl.WaitForEvents(1, &app->passed), 0);
}

/* These come after the commands on the queue, which may be out of order. */
static inline void gpu_reads(struct app *app, struct fixture *f)
{
	CHECK_EQ(cl.EnqueueBarrierWithWaitList(app->stream, 0, NULL, NULL), 0);
	CHECK_EQ(cl.EnqueueReadBuffer(app->stream, mem_of(f), CL_FALSE, 0,
				      IMPORT_BYTES, app->pinned, 0, NULL, NULL), 0);
}

static inline void gpu_sets(struct app *app, struct fixture *f, size_t from,
			    size_t bytes, uint8_t value)
{
	CHECK_EQ(cl.EnqueueBarrierWithWaitList(app->stream, 0, NULL, NULL), 0);
	CHECK_EQ(cl.EnqueueFillBuffer(app->stream, mem_of(f), &value, 1, from,
				      bytes, 0, NULL, NULL), 0);
}

static inline void drain(struct app *app)
{
	CHECK_EQ(cl.Finish(app->stream), fake->lost);
}

/* It may say no of a queue that has just ended. */
static inline bool is_idle(struct app *app)
{
	cl_int status = CL_QUEUED;
	cl_event end;

	CHECK_EQ(cl.EnqueueMarkerWithWaitList(app->stream, 0, NULL, &end), 0);
	CHECK_EQ(cl.Flush(app->stream), 0);
	CHECK_EQ(cl.GetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS,
				 sizeof(status), &status, NULL), 0);
	CHECK_EQ(cl.ReleaseEvent(end), 0);
	return status == CL_COMPLETE;
}

static inline void driver_call(void)
{
	cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, NULL);
}

/* Callbacks come after a loss, too. */
static inline void lose(int result)
{
	fake->lose(result);
}

#endif /* UNIT_OPENCL_BACKEND_H */
