// SPDX-License-Identifier: MIT
/*
 * lib/queue on OpenCL, against a double of a driver (tests/doubles/opencl.h): on each
 * machine, with the application's queue in order and out of order.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include "opencl_backend.h"
#include "queue_driver.h"

static const struct queue_loss losses[] = {
	{ CL_DEVICE_NOT_AVAILABLE, -ENODEV, "CL_DEVICE_NOT_AVAILABLE" },
	{ .ret = 0 }
};

#define IN_ORDER 0
#define ANY_ORDER CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
#define BY_SEMAPHORE "clEnqueueWaitSemaphoresKHR"
#define BY_EVENT "clSetUserEventStatus"
#define BY_CALLBACK "clCreateUserEvent"	/* where releases give events */

#define MACHINE(called, order, waits_by, tells, paths)			\
	.name = called, .device = "opencl", .properties = order, .losses = losses, \
	.walks = 20, .no_memory = CL_OUT_OF_HOST_MEMORY,		\
	.by_memfd = true, .no_order = NULL, .read_only = paths,		\
	.calls = { [WAIT_FENCE] = waits_by, [EVENT_WAIT] = "clWaitForEvents",	\
		   [SECOND] = "clEnqueueMarkerWithWaitList", [TELL] = tells }

#define NO_BRIDGE [DLBUF_PATH_BRIDGE] = "OpenCL has no bridge"
#define NO_IMPORT [DLBUF_PATH_DIRECT] = "does not import"
#define NO_REGISTER [DLBUF_PATH_HOST] = "cannot register"

#define KHR(words_)							\
	.words = { [DLBUF_PATH_DIRECT] = words_, [DLBUF_PATH_HOST] = words_, \
		   [DLBUF_PATH_COPY] = words_ },			\
	.why_not = { NO_BRIDGE }
#define ARM(words_)							\
	.words = { [DLBUF_PATH_DIRECT] = words_, [DLBUF_PATH_COPY] = words_ }, \
	.why_not = { NO_REGISTER, NO_BRIDGE }
#define USERPTR								\
	.words = { [DLBUF_PATH_HOST] = "userptr,memfds",		\
		   [DLBUF_PATH_COPY] = "userptr,memfds" },		\
	.why_not = { NO_IMPORT, NO_BRIDGE }
#define NEITHER(words_, why)						\
	.words = { [DLBUF_PATH_COPY] = words_ },			\
	.why_not = { [DLBUF_PATH_DIRECT] = why, NO_REGISTER, NO_BRIDGE }

static const char *const selects[] = { "1", "0.1", NULL };

static const struct queue_says infos[] = {
	{ "khr", "Fake: Fake GPU", "OpenCL 3.0 fake, 1.0", 0, 0, DLBUF_SYNC_FENCE, 128, 64 },
	{ "khr,noexport", "Fake: Fake GPU", "OpenCL 3.0 fake, 1.0", 0, 0,
	  DLBUF_SYNC_EVENT, 128, 64 },
	{ "arm", "Fake: Fake Mali", "OpenCL 3.0 fake, 1.0", 0, 0, DLBUF_SYNC_EVENT, 128, 64 },
	{ "old", "Fake: Fake GPU", "OpenCL 1.2 fake, 1.0", 0, 0, DLBUF_SYNC_EVENT, 128, 64 },
	{ .words = NULL }
};

static int get_device(struct dlbuf_device *dev, bool whole, int64_t *version)
{
	struct dlbuf_opencl_device of = { .size = whole ? sizeof(of) : 0 };

	return dlbuf_opencl_get_device(dev, &of);
}

static const struct queue_driver drivers[] = {
	{ MACHINE("khr", IN_ORDER, BY_SEMAPHORE, NULL, EACH), KHR("khr,memfds"),
	  .two = "two", .selects = selects, .says = infos, .get = get_device },
	{ MACHINE("khr-any", ANY_ORDER, BY_SEMAPHORE, NULL, EACH), KHR("khr,memfds") },
	{ MACHINE("nosync", ANY_ORDER, BY_EVENT, BY_CALLBACK, EACH),
	  KHR("khr,memfds,noimport,noexport") },
/* The threads are the same ones on all machines, and ten times slower under TSan. */
#ifndef __SANITIZE_THREAD__
	{ MACHINE("intel", IN_ORDER, BY_EVENT, BY_CALLBACK, EACH), KHR("intel,memfds") },
	{ MACHINE("arm", IN_ORDER, BY_EVENT, BY_CALLBACK, EACH), ARM("arm,memfds") },
	{ MACHINE("arm-any", ANY_ORDER, BY_EVENT, BY_CALLBACK, EACH), ARM("arm,memfds") },
	{ MACHINE("armold", IN_ORDER, BY_EVENT, BY_CALLBACK, EACH),
	  NEITHER("arm,armold,memfds", "clEnqueueReadBuffer") },
	{ MACHINE("qcom", ANY_ORDER, BY_EVENT, BY_CALLBACK, EACH), ARM("qcom,memfds") },
	{ MACHINE("userptr", IN_ORDER, BY_EVENT, BY_CALLBACK, EACH), USERPTR },
	{ MACHINE("userptr-any", ANY_ORDER, BY_EVENT, BY_CALLBACK, EACH), USERPTR },
	{ MACHINE("shadow", IN_ORDER, BY_EVENT, BY_CALLBACK, EACH),
	  NEITHER("shadow,memfds", "does not import") },
	{ MACHINE("old", ANY_ORDER, NULL, NULL, EACH),
	  NEITHER("old,memfds", "does not import") },
#endif
};

static int try_open(struct dlbuf_device **dev)
{
	app_properties = on->properties;
	return dlbuf_device_open("opencl:0", NULL, dev);
}

/* Other threads make calls meanwhile. */
#define FAIL_LATER(n) fake->fail_later(n)

#include "queue_cases.h"
#else
KTAP_SKIPPED("the OpenCL backend is not built")
#endif

KTAP_MAIN()
