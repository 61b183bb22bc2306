/* SPDX-License-Identifier: MIT */
/*
 * A context, a queue and short names, for tests of an OpenCL driver's promises. The driver is
 * the double, or a real one if OPENCL_CONTRACT has the path of its .icd.
 */
#ifndef UNIT_OPENCL_CONTRACT_H
#define UNIT_OPENCL_CONTRACT_H

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "common.h"
#include "system/internal.h"
#include "opencl_load.h"
#include "rules.h"

#define BYTES 8192

/* The call returns this: a broken rule; or a failure without one. */
#define WRONG(code, call) BREAKS(1, CL_##code, call)
#define FAILS(code, call) BREAKS(0, CL_##code, call)
/* The same for a function that makes an object, and its last parameter. */
#define MAKES(wrongs, code, fn, ...)					\
	do {								\
		cl_int result_ = 1;					\
									\
		BREAKS(wrongs, CL_##code,				\
		       (CHECK(!cl.fn(__VA_ARGS__, &result_)), result_));	\
	} while (0)
#define WRONG_MAKE(code, ...) MAKES(1, code, __VA_ARGS__)
#define FAILS_MAKE(code, ...) MAKES(0, code, __VA_ARGS__)

#define NO_LIST 0, NULL, NULL
#define READ(m, at, n, to) cl.EnqueueReadBuffer(q, m, CL_TRUE, at, n, to, NO_LIST)
#define WRITE(m, at, n, from) \
	cl.EnqueueWriteBuffer(q, m, CL_TRUE, at, n, from, NO_LIST)
#define COPY(a, b, from, to, n) \
	cl.EnqueueCopyBuffer(q, a, b, from, to, n, NO_LIST)
#define FILL(m, pattern, of, at, n) \
	cl.EnqueueFillBuffer(q, m, pattern, of, at, n, NO_LIST)
#define UNMAP(m, p) cl.EnqueueUnmapMemObject(q, m, p, NO_LIST)
#define MARK(n, list, e) cl.EnqueueMarkerWithWaitList(q, n, list, e)
#define BARRIER(n, list) cl.EnqueueBarrierWithWaitList(q, n, list, NULL)
#define GET(fn, of, name, to) cl.Get##fn##Info(of, name, sizeof(to), &(to), NULL)

static cl_device_id device;
static cl_context context;
static cl_command_queue q;
static cl_int result;		/* of make() */

/* A function that makes an object, with the place of its result. */
#define MAKE(fn, ...)							\
	({								\
		__typeof__(cl.fn(__VA_ARGS__, &result)) made_ =		\
			cl.fn(__VA_ARGS__, &result);			\
		OK(result);						\
		made_;							\
	})

static inline void begin(const char *words)
{
	const char *icd = getenv("OPENCL_CONTRACT");

	/* glibc keeps the stacks of threads, and the loader its driver. */
	if (icd) {
		KTAP_KEEPS(KTAP_HEAP | KTAP_FDS | KTAP_MAPS, "so does a driver");
		setenv("OCL_ICD_VENDORS", icd, 1);
		load_functions(dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL));
		REQUIRE(!cl.GetPlatformIDs(1, &platform, NULL));
	} else {
		KTAP_KEEPS(KTAP_HEAP, "a driver stays loaded");
		load(words);
	}
	OK(cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	context = MAKE(CreateContext, NULL, 1, &device, NULL, NULL);
	q = MAKE(CreateCommandQueue, context, device, 0);
}

static inline void end(void)
{
	OK(cl.Finish(q));
	OK(cl.ReleaseCommandQueue(q));
	OK(cl.ReleaseContext(context));
	if (!fake)
		return;
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
}

static inline cl_mem buffer_of(cl_mem_flags flags, size_t bytes, void *host)
{
	return MAKE(CreateBuffer, context, flags, bytes, host);
}

static inline void fill(cl_mem m, uint8_t value)
{
	OK(FILL(m, &value, 1, 0, BYTES));
}

/* The last byte, as the device has it. */
static inline uint8_t last_of(cl_mem m)
{
	uint8_t byte = 0xee;

	OK(READ(m, BYTES - 1, 1, &byte));
	return byte;
}

static inline cl_int status_of(cl_event e)
{
	cl_int status = 1;

	OK(GET(Event, e, CL_EVENT_COMMAND_EXECUTION_STATUS, status));
	return status;
}

/* An event that was not set. */
static inline cl_event gate(void)
{
	return MAKE(CreateUserEvent, context);
}

static inline void open_gate(cl_event e)
{
	OK(cl.SetUserEventStatus(e, CL_COMPLETE));
	OK(cl.ReleaseEvent(e));
}

static inline uint8_t *pages(int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED |
		       (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

/* The values that a callback got. */
static _Atomic(int) told;

static inline void until_told(int value)
{
	while (told != value)
		sched_yield();
}

static inline void CL_CALLBACK tell_status(cl_event e, cl_int status, void *data)
{
	told = status;
}

#endif /* UNIT_OPENCL_CONTRACT_H */
