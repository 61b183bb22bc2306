// SPDX-License-Identifier: MIT
/*
 * The promises of OpenCL, for the double of a driver and for real ones: refusals and
 * their errors, the order of commands, and the visibility of bytes.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include "opencl_contract.h"

DOUBLE_CASE(queries, "")
{
	cl_device_id of, devices[2];
	char text[256];
	cl_uint n;

	WRONG(INVALID_VALUE,
	      cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, devices, &n));
	FAILS(DEVICE_NOT_FOUND,
	      cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 2, devices, &n));
	FAILS(INVALID_VALUE, cl.GetDeviceInfo(device, 0x9999, 4, text, NULL));
	WRONG(INVALID_VALUE, cl.GetDeviceInfo(device, CL_DEVICE_TYPE, 1, text, NULL));
	OK(cl.RetainContext(context));
	OK(GET(Context, context, CL_CONTEXT_REFERENCE_COUNT, n));
	CHECK(n >= 2);
	OK(cl.ReleaseContext(context));
	OK(GET(CommandQueue, q, CL_QUEUE_DEVICE, of));
	CHECK(of == device);
	UNDEFINED(CL_INVALID_DEVICE, (cl.CreateContext(NULL, 1,
		  (cl_device_id *)&platform, NULL, NULL, &result), result));
}

/* A queue has its context until it is released itself. */
DOUBLE_CASE(references, "")
{
	cl_command_queue other;
	cl_context gone = MAKE(CreateContext, NULL, 1, &device, NULL, NULL);

	other = MAKE(CreateCommandQueueWithProperties, gone, device, NULL);
	OK(cl.ReleaseContext(gone));
	OK(cl.RetainCommandQueue(other));
	OK(cl.ReleaseCommandQueue(other));
	OK(cl.Finish(other));
	OK(cl.ReleaseCommandQueue(other));
	UNDEFINED(CL_INVALID_CONTEXT, cl.ReleaseContext(gone));
	UNDEFINED(CL_INVALID_COMMAND_QUEUE, cl.Finish(other));
	UNDEFINED(CL_INVALID_CONTEXT,
		  (cl.CreateCommandQueue(gone, device, 0, &result), result));
}

/* A failed event fails the commands behind it, and no others. */
DOUBLE_CASE(user_events, "")
{
	cl_event bad = gate(), e[2];

	CHECK_EQ(status_of(bad), CL_SUBMITTED);
	WRONG(INVALID_VALUE, cl.SetUserEventStatus(bad, CL_RUNNING));
	OK(MARK(1, &bad, &e[0]));
	WRONG(INVALID_EVENT, cl.SetUserEventStatus(e[0], CL_COMPLETE));
	WRONG(INVALID_EVENT_WAIT_LIST, MARK(1, NULL, NULL));
	OK(cl.Flush(q));
	CHECK(status_of(e[0]) > CL_COMPLETE);
	OK(cl.SetUserEventStatus(bad, -7));
	WRONG(INVALID_OPERATION, cl.SetUserEventStatus(bad, CL_COMPLETE));
	FAILS(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, cl.WaitForEvents(1, e));
	CHECK(status_of(e[0]) < 0);
	OK(cl.ReleaseEvent(e[0]));
	OK(cl.ReleaseEvent(bad));
	UNDEFINED(CL_INVALID_EVENT, cl.ReleaseEvent(bad));
	UNDEFINED(CL_INVALID_EVENT_WAIT_LIST, MARK(1, &bad, NULL));
	OK(MARK(0, NULL, &e[1]));
	OK(cl.WaitForEvents(1, &e[1]));
	CHECK_EQ(status_of(e[1]), CL_COMPLETE);
	OK(cl.ReleaseEvent(e[1]));
}

/* In each queue, and around barriers where a queue is out of order. */
DOUBLE_CASE(order, "")
{
	static const struct {
		cl_command_queue_properties properties;
		bool barriers;
	} rows[] = { { 0, false }, { CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, true } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cl_mem m = buffer_of(0, BYTES, NULL);

		OK(cl.ReleaseCommandQueue(q));
		q = MAKE(CreateCommandQueue, context, device, rows[i].properties);
		for (uint8_t value = 1; value < 4; value++) {
			fill(m, value);
			if (rows[i].barriers)
				OK(BARRIER(0, NULL));
		}
		CHECK_EQ(last_of(m), 3);
		OK(cl.ReleaseMemObject(m));
	}
}

static pthread_t caller;

static void CL_CALLBACK pass_on(cl_event e, cl_int status, void *data)
{
	CHECK(!pthread_equal(pthread_self(), caller));
	/* These do not block. */
	OK(cl.Flush(q));
	OK(cl.SetUserEventStatus(data, CL_COMPLETE));
	told = status == CL_COMPLETE;
}

DOUBLE_CASE(callbacks, "")
{
	cl_event e, done, waits;

	caller = pthread_self();
	done = gate();
	waits = gate();
	OK(MARK(1, &waits, &e));
	WRONG(INVALID_VALUE, cl.SetEventCallback(e, 7, pass_on, done));
	OK(cl.SetEventCallback(e, CL_COMPLETE, pass_on, done));
	OK(cl.Flush(q));
	CHECK_EQ(told, 0);
	open_gate(waits);
	OK(cl.WaitForEvents(1, &done));
	until_told(1);
	/* After the end, too. */
	OK(cl.SetEventCallback(e, CL_COMPLETE, tell_status, NULL));
	until_told(CL_COMPLETE);
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseEvent(done));
}

DOUBLE_CASE(buffers, "")
{
	uint8_t host[BYTES], one = 1;
	cl_ulong most;
	cl_mem a, b;

	memset(host, 7, sizeof(host));
	OK(GET(Device, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, most));
	WRONG_MAKE(INVALID_BUFFER_SIZE, CreateBuffer, context, 0, 0, NULL);
	WRONG_MAKE(INVALID_HOST_PTR, CreateBuffer, context, 0, 1, host);
	WRONG_MAKE(INVALID_HOST_PTR, CreateBuffer, context, CL_MEM_USE_HOST_PTR, 1, NULL);
	WRONG_MAKE(INVALID_VALUE, CreateBuffer, context,
		   CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 1, NULL);
	FAILS_MAKE(INVALID_BUFFER_SIZE, CreateBuffer, context, 0, most + 1, NULL);
	a = buffer_of(CL_MEM_COPY_HOST_PTR, BYTES, host);
	b = buffer_of(CL_MEM_HOST_NO_ACCESS, BYTES, NULL);
	WRONG(INVALID_OPERATION, READ(b, 0, 1, host));
	WRONG(INVALID_VALUE, WRITE(a, BYTES, 1, host));
	WRONG(INVALID_VALUE, WRITE(a, 0, 1, NULL));
	WRONG(MEM_COPY_OVERLAP, COPY(a, a, 0, 1, 2));
	WRONG(INVALID_VALUE, FILL(a, &one, 3, 0, 3));
	OK(WRITE(a, 128, 1, &one));
	OK(COPY(a, b, 128, BYTES - 1, 1));
	OK(COPY(b, a, BYTES - 1, 0, 1));
	OK(READ(a, 0, BYTES, host));
	CHECK_EQ(host[0], 1);
	CHECK_EQ(host[128], 1);
	CHECK_EQ(host[129], 7);
	OK(cl.ReleaseMemObject(a));
	UNDEFINED(CL_INVALID_MEM_OBJECT, cl.ReleaseMemObject(a));
	OK(cl.ReleaseMemObject(b));
}

static char letters[8];

static void CL_CALLBACK on_end(cl_mem m, void *data)
{
	strcat(letters, data);
	if (*(char *)data == 'b')
		told = 5;
}

/* A release waits for nothing, and destroys after the commands: the last callback first. */
DOUBLE_CASE(releases_are_deferred, "")
{
	cl_event waits;
	cl_mem m = buffer_of(0, BYTES, NULL);

	OK(cl.SetMemObjectDestructorCallback(m, on_end, (char *)"b"));
	OK(cl.SetMemObjectDestructorCallback(m, on_end, (char *)"a"));
	waits = gate();
	OK(BARRIER(1, &waits));
	fill(m, 1);
	OK(cl.ReleaseMemObject(m));
	UNDEFINED(CL_INVALID_MEM_OBJECT, cl.RetainMemObject(m));
	OK(cl.Flush(q));
	CHECK_STR(letters, "");
	open_gate(waits);
	OK(cl.Finish(q));
	until_told(5);
	CHECK_STR(letters, "ab");
}

/*
 * Memory of CL_MEM_USE_HOST_PTR: the host sees the device's writes after a map, and the
 * device the host's writes after an unmap. Without them the visible bytes differ.
 */
TEST(host_pointers)
{
	enum { OLD, NEW, ANY };
	static const struct {
		const char *words;
		int device_sees, host_sees;
	} rows[] = {
		{ "cpu", NEW, NEW }, { "userptr", NEW, OLD }, { "khr", NEW, OLD },
		{ "shadow", OLD, OLD }, { "old", OLD, OLD },
	};
	static const struct {
		cl_map_flags flags;
		uint8_t writes;
	} maps[] = {
		{ CL_MAP_READ, 0 }, { CL_MAP_WRITE_INVALIDATE_REGION, 4 },
		{ CL_MAP_WRITE, 5 },
	};
	bool real = getenv("OPENCL_CONTRACT");

	for (size_t i = 0; i < (real ? 1 : ARRAY_SIZE(rows)); i++) {
		int device_sees = real ? ANY : rows[i].device_sees;
		int host_sees = real ? ANY : rows[i].host_sees;
		uint8_t *p = pages(-1);
		cl_mem m;

		begin(rows[i].words);
		memset(p, 1, BYTES);
		m = buffer_of(CL_MEM_USE_HOST_PTR, BYTES, p);
		CHECK_EQ(last_of(m), 1);
		memset(p, 2, BYTES);
		CHECK(device_sees == ANY || last_of(m) == (device_sees ? 2 : 1));
		fill(m, 3);
		OK(cl.Finish(q));
		CHECK(host_sees == ANY || p[BYTES - 1] == (host_sees ? 3 : 2));
		for (size_t k = 0; k < ARRAY_SIZE(maps); k++) {
			CHECK(MAKE(EnqueueMapBuffer, q, m, CL_TRUE, maps[k].flags, 0,
				   BYTES, NO_LIST) == p);
			if (!maps[k].writes)
				CHECK_EQ(p[BYTES - 1], 3);
			else
				memset(p, maps[k].writes, BYTES);
			OK(UNMAP(m, p));
			CHECK_EQ(last_of(m), maps[k].writes ? maps[k].writes : 3);
		}
		OK(cl.ReleaseMemObject(m));
		munmap(p, BYTES);
		end();
	}
}

/* A map is a command, which begins when the ones before it have ended. */
DOUBLE_CASE(maps, "")
{
	uint8_t *p, byte;
	cl_mem m = buffer_of(0, BYTES, NULL);

	fill(m, 1);
	p = MAKE(EnqueueMapBuffer, q, m, CL_FALSE, CL_MAP_READ, 16, 16, NO_LIST);
	OK(READ(m, 0, 1, &byte));
	CHECK_EQ(p[0], 1);
	WRONG(INVALID_VALUE, UNMAP(m, p + 1));
	OK(UNMAP(m, p));
	WRONG(INVALID_VALUE, UNMAP(m, p));
	OK(cl.ReleaseMemObject(m));
}
#else
KTAP_SKIPPED("the OpenCL backend is not built")
#endif

KTAP_MAIN()
