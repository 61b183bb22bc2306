/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the OpenCL backend share: the double of a driver
 * (tests/doubles/opencl.h) behind the real loader, and an application with a queue of its
 * own. Memfds stand for dma-bufs, and eventfds for sync_files.
 */
#ifndef UNIT_OPENCL_BACKEND_H
#define UNIT_OPENCL_BACKEND_H

#include <dlbuf/opencl.h>

#include "opencl_load.h"

#include "backends/opencl/opencl.h"
#include "fixture.h"
#include "memory.h"

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

/*
 * An import by this path. GPUs take the memory of path `host` from the memfd behind a
 * udmabuf only; here one memfd stands for both.
 */
static inline int import_by(struct fixture *f, struct dlbuf_device *dev,
			    enum dlbuf_path path, uint32_t access)
{
	int ret;

	fixture_make(f, dev, PATH_BIT(path), access);
	memory_remember(f->ci.base.fd, f->memfd);
	ret = path_import(&f->ci.base);
	memory_forget(f->memfd);
	return ret;
}

static inline cl_mem mem_of(const struct fixture *f)
{
	return (cl_mem)f->ci.base.data;
}

/* ---------------------------------------------------------------- the user */

struct app {
	struct dlbuf_opencl_device cl;
	cl_command_queue queue;
	uint8_t bytes[IMPORT_BYTES];
	cl_event gate;
};

static inline void app_begin(struct app *app, struct dlbuf_device *dev,
			     cl_command_queue_properties properties)
{
	cl_int result;

	*app = (struct app){ .cl.size = sizeof(app->cl) };
	REQUIRE_OK(dlbuf_opencl_get_device(dev, &app->cl));
	REQUIRE(!cl.RetainContext(app->cl.context));
	app->queue = cl.CreateCommandQueue(app->cl.context, app->cl.device,
					   properties, &result);
	REQUIRE(!result);
}

static inline void app_end(struct app *app)
{
	CHECK_EQ(cl.ReleaseCommandQueue(app->queue), fake->lost);
	CHECK_EQ(cl.ReleaseContext(app->cl.context), fake->lost);
}

/* What is on the queue now waits until the gate opens. */
static inline void gate_close(struct app *app)
{
	cl_int result;

	app->gate = cl.CreateUserEvent(app->cl.context, &result);
	REQUIRE(!result);
	CHECK_EQ(cl.EnqueueBarrierWithWaitList(app->queue, 1, &app->gate, NULL), 0);
}

static inline void gate_open(struct app *app)
{
	CHECK_EQ(cl.SetUserEventStatus(app->gate, CL_COMPLETE), 0);
	CHECK_EQ(cl.ReleaseEvent(app->gate), 0);
}

static inline void gpu_reads(struct app *app, struct fixture *f)
{
	CHECK_EQ(cl.EnqueueReadBuffer(app->queue, mem_of(f), CL_FALSE, 0,
				      IMPORT_BYTES, app->bytes, 0, NULL, NULL), 0);
}

static inline void gpu_sets(struct app *app, struct fixture *f, size_t from,
			    size_t bytes, uint8_t value)
{
	CHECK_EQ(cl.EnqueueFillBuffer(app->queue, mem_of(f), &value, 1, from,
				      bytes, 0, NULL, NULL), 0);
}

static inline void drain(struct app *app)
{
	CHECK_EQ(cl.Finish(app->queue), fake->lost);
}

/* And what was before it has been seen: by the double's lock. */
static inline void until_signalled(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };

	CHECK(fence == -1 || poll(&p, 1, -1) == 1);
	cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, NULL);
	if (fence >= 0)
		close(fence);
}

#endif /* UNIT_OPENCL_BACKEND_H */
