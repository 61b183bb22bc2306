// SPDX-License-Identifier: MIT
/*
 * The rules of the double of an OpenCL driver (tests/doubles/opencl.h): what it refuses,
 * and what it does not do for who forgets a call.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "opencl_load.h"

#define BYTES 8192

/* Returns this; against the rules; or as it may happen to anybody. */
#define OK(call) CHECK_EQ(call, CL_SUCCESS)
#define REFUSED(code, call, wrongs)					\
	do {								\
		unsigned int wrong_ = fake->wrong;			\
									\
		CHECK_EQ(call, code);					\
		CHECK_EQ(fake->wrong, wrong_ + (wrongs));		\
		fake->wrong = wrong_;					\
	} while (0)
#define WRONG(code, call) REFUSED(CL_##code, call, 1)
#define FAILS(code, call) REFUSED(CL_##code, call, 0)
/* The same for a function that makes an object, and its last parameter. */
#define MAKES(code, wrongs, fn, ...)					\
	do {								\
		cl_int result_ = 1;					\
									\
		CHECK(!cl.fn(__VA_ARGS__, &result_));			\
		REFUSED(CL_##code, result_, 0);				\
		forgive(wrongs);					\
	} while (0)
#define WRONG_MAKE(code, ...) MAKES(code, 1, __VA_ARGS__)
#define FAILS_MAKE(code, ...) MAKES(code, 0, __VA_ARGS__)

static cl_device_id device;
static cl_context context;
static cl_command_queue q;

static void begin(const char *words)
{
	cl_int result;

	/* glibc keeps the stacks of threads, and the loader its driver. */
	KTAP_KEEPS(KTAP_HEAP, "a driver stays loaded");
	load(words);
	OK(cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &result);
	OK(result);
	q = cl.CreateCommandQueue(context, device, 0, &result);
	OK(result);
}

static void end(void)
{
	OK(cl.Finish(q));
	OK(cl.ReleaseCommandQueue(q));
	OK(cl.ReleaseContext(context));
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
}

static cl_mem buffer_of(cl_mem_flags flags, size_t bytes, void *host)
{
	cl_int result = 1;
	cl_mem m = cl.CreateBuffer(context, flags, bytes, host, &result);

	OK(result);
	return m;
}

static void fill(cl_mem m, uint8_t value)
{
	OK(cl.EnqueueFillBuffer(q, m, &value, 1, 0, BYTES, 0, NULL, NULL));
}

/* The last byte, as the device has it. */
static uint8_t last_of(cl_mem m)
{
	uint8_t byte = 0xee;

	OK(cl.EnqueueReadBuffer(q, m, CL_TRUE, BYTES - 1, 1, &byte, 0, NULL,
				NULL));
	return byte;
}

static cl_int status_of(cl_event e)
{
	cl_int status = 1;

	OK(cl.GetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
			   &status, NULL));
	return status;
}

/* An event that nobody has set. */
static cl_event gate(void)
{
	cl_int result;
	cl_event e = cl.CreateUserEvent(context, &result);

	OK(result);
	return e;
}

static void open_gate(cl_event e)
{
	OK(cl.SetUserEventStatus(e, CL_COMPLETE));
	OK(cl.ReleaseEvent(e));
}

static void behind(cl_event e)
{
	OK(cl.EnqueueBarrierWithWaitList(q, 1, &e, NULL));
}

static uint8_t *pages(int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED |
		       (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

static int memfd(void)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* ---------------------------------------------------------------- platform */

TEST(platform)
{
	cl_device_id two[2];
	char text[256];
	cl_uint n;

	load("two");
	OK(cl.GetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof(text),
			      text, NULL));
	CHECK(strstr(text, "cl_khr_icd"));
	OK(cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 2, two, &n));
	CHECK_EQ(n, 2);
	CHECK(two[0] != two[1]);
	FAILS(DEVICE_NOT_FOUND,
	      cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 2, two, &n));
	WRONG(INVALID_VALUE,
	      cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 0, two, &n));
	FAILS(INVALID_VALUE, cl.GetDeviceInfo(two[1], 0x9999, 4, text, NULL));
	WRONG(INVALID_VALUE,
	      cl.GetDeviceInfo(two[1], CL_DEVICE_TYPE, 1, text, NULL));
	fake_fn(true);
}

TEST(no_platform)
{
	cl_uint n = 7;

	load("none");
	CHECK_EQ(cl.GetPlatformIDs(0, NULL, &n), CL_PLATFORM_NOT_FOUND_KHR);
	CHECK_EQ(n, 0);
}

/* What each machine says of itself. */
static const struct {
	const char *words;
	cl_device_type type;
	const char *has, *lacks;
	bool dma_bufs, fences, acquires;
} machines[] = {
	{ "khr", CL_DEVICE_TYPE_GPU, "cl_khr_external_memory_dma_buf", "_arm_",
	  true, true, true },
	{ "intel", CL_DEVICE_TYPE_GPU, "cl_khr_external_memory", "dma_buf",
	  true, false, true },
	{ "arm", CL_DEVICE_TYPE_GPU, "cl_arm_import_memory_dma_buf", "_khr_",
	  false, false, false },
	{ "qcom", CL_DEVICE_TYPE_GPU, "cl_qcom_dmabuf_host_ptr", "_khr_",
	  false, false, false },
	{ "userptr", CL_DEVICE_TYPE_GPU, "", "cl_",
	  false, false, false },
	{ "shadow", CL_DEVICE_TYPE_GPU, "", "cl_",
	  false, false, false },
	{ "cpu", CL_DEVICE_TYPE_CPU, "", "cl_",
	  false, false, false },
	{ "old", CL_DEVICE_TYPE_GPU, "", "cl_",
	  false, false, false },
};

TEST(machines)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		char extensions[256];
		cl_device_type type;
		cl_uint handle = 0;

		begin(machines[i].words);
		OK(cl.GetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type,
				    NULL));
		OK(cl.GetDeviceInfo(device, CL_DEVICE_EXTENSIONS,
				    sizeof(extensions), extensions, NULL));
		CHECK_EQ(type, machines[i].type);
		CHECK_MSG(strstr(extensions, machines[i].has), "%s: %s",
			  machines[i].words, extensions);
		CHECK_MSG(!strstr(extensions, machines[i].lacks), "%s: %s",
			  machines[i].words, extensions);
		cl.GetDeviceInfo(device,
				 CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR,
				 sizeof(handle), &handle, NULL);
		CHECK_EQ(handle == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR,
			 machines[i].dma_bufs);
		CHECK_EQ(!!cl.CreateSemaphoreWithPropertiesKHR,
			 machines[i].fences);
		CHECK_EQ(!!cl.EnqueueAcquireExternalMemObjectsKHR,
			 machines[i].acquires);
		end();
	}
}

TEST(old_functions)
{
	begin("old");
	WRONG_MAKE(INVALID_OPERATION, CreateBufferWithProperties, context, NULL,
		   0, 16, NULL);
	WRONG_MAKE(INVALID_OPERATION, CreateCommandQueueWithProperties, context,
		   device, NULL);
	end();
}

TEST(contexts_and_queues)
{
	cl_command_queue other;
	cl_context gone;
	cl_device_id of;
	cl_int result;
	cl_uint n;

	begin("");
	WRONG_MAKE(INVALID_DEVICE, CreateContext, NULL, 1,
		   (cl_device_id *)&platform, NULL, NULL);
	OK(cl.RetainContext(context));
	OK(cl.GetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof(n), &n,
			     NULL));
	CHECK_EQ(n, 2);
	OK(cl.ReleaseContext(context));
	gone = cl.CreateContext(NULL, 1, &device, NULL, NULL, NULL);
	other = cl.CreateCommandQueueWithProperties(gone, device, NULL, &result);
	OK(result);
	OK(cl.ReleaseContext(gone));
	WRONG(INVALID_CONTEXT, cl.ReleaseContext(gone));
	OK(cl.GetCommandQueueInfo(other, CL_QUEUE_DEVICE, sizeof(of), &of, NULL));
	CHECK(of == device);
	OK(cl.RetainCommandQueue(other));
	OK(cl.ReleaseCommandQueue(other));
	OK(cl.Finish(other));
	OK(cl.ReleaseCommandQueue(other));
	WRONG(INVALID_COMMAND_QUEUE, cl.Finish(other));
	WRONG_MAKE(INVALID_CONTEXT, CreateCommandQueue, gone, device, 0);
	end();
}

/* ---------------------------------------------------------------- order */

TEST(nothing_runs_before_a_flush)
{
	cl_command_queue other;
	cl_event e;
	cl_mem m;

	begin("");
	other = cl.CreateCommandQueue(context, device, 0, NULL);
	m = buffer_of(0, BYTES, NULL);
	fill(m, 1);
	OK(cl.EnqueueMarkerWithWaitList(q, 0, NULL, &e));
	CHECK_EQ(fake->not_started, 2);
	OK(cl.Finish(other));
	CHECK_EQ(status_of(e), CL_QUEUED);
	/* Another queue that waits for it waits for the flush, too. */
	OK(cl.EnqueueBarrierWithWaitList(other, 1, &e, NULL));
	OK(cl.Flush(other));
	CHECK_EQ(status_of(e), CL_QUEUED);
	OK(cl.Flush(q));
	OK(cl.Finish(other));
	CHECK_EQ(status_of(e), CL_COMPLETE);
	CHECK_EQ(fake->not_started, 0);
	OK(cl.ReleaseEvent(e));
	/* The release of a queue is a flush, and its commands go on. */
	OK(cl.EnqueueMarkerWithWaitList(other, 0, NULL, &e));
	OK(cl.ReleaseCommandQueue(other));
	OK(cl.WaitForEvents(1, &e));
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseMemObject(m));
	end();
}

TEST(user_events)
{
	cl_event bad, e[2];

	begin("");
	bad = gate();
	CHECK_EQ(status_of(bad), CL_SUBMITTED);
	WRONG(INVALID_VALUE, cl.SetUserEventStatus(bad, CL_RUNNING));
	OK(cl.EnqueueMarkerWithWaitList(q, 1, &bad, &e[0]));
	OK(cl.EnqueueMarkerWithWaitList(q, 0, NULL, &e[1]));
	WRONG(INVALID_EVENT, cl.SetUserEventStatus(e[0], CL_COMPLETE));
	OK(cl.Flush(q));
	CHECK(status_of(e[1]) > CL_COMPLETE);
	OK(cl.SetUserEventStatus(bad, -7));
	WRONG(INVALID_OPERATION, cl.SetUserEventStatus(bad, CL_COMPLETE));
	FAILS(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
	      cl.WaitForEvents(2, e));
	CHECK_EQ(status_of(e[0]), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
	CHECK_EQ(status_of(e[1]), CL_COMPLETE);
	OK(cl.ReleaseEvent(bad));
	WRONG(INVALID_EVENT, cl.ReleaseEvent(bad));
	WRONG(INVALID_EVENT_WAIT_LIST,
	      cl.EnqueueMarkerWithWaitList(q, 1, &bad, NULL));
	WRONG(INVALID_EVENT_WAIT_LIST,
	      cl.EnqueueMarkerWithWaitList(q, 1, NULL, NULL));
	OK(cl.ReleaseEvent(e[0]));
	OK(cl.ReleaseEvent(e[1]));
	end();
}

/*
 * A queue that is out of order does not keep the order of its commands, except
 * around barriers.
 */
TEST(out_of_order)
{
	cl_command_queue_properties all = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
	cl_int result;
	cl_event e;
	cl_mem m;

	begin("");
	OK(cl.ReleaseCommandQueue(q));
	q = cl.CreateCommandQueue(context, device, all, &result);
	OK(result);
	m = buffer_of(0, BYTES, NULL);
	fill(m, 1);
	fill(m, 2);
	OK(cl.EnqueueBarrierWithWaitList(q, 0, NULL, NULL));
	CHECK_EQ(last_of(m), 1);
	fill(m, 1);
	OK(cl.EnqueueBarrierWithWaitList(q, 0, NULL, NULL));
	fill(m, 2);
	OK(cl.EnqueueMarkerWithWaitList(q, 0, NULL, &e));
	OK(cl.WaitForEvents(1, &e));
	OK(cl.Finish(q));
	CHECK_EQ(last_of(m), 2);
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseMemObject(m));
	end();
}

static _Atomic(int) told;
static pthread_t caller;

static void CL_CALLBACK on_event(cl_event e, cl_int status, void *data)
{
	CHECK(!pthread_equal(pthread_self(), caller));
	/* These do not block, and these do. */
	OK(cl.Flush(q));
	OK(cl.SetUserEventStatus(data, CL_COMPLETE));
	CHECK_EQ(cl.Finish(q), CL_INVALID_OPERATION);
	CHECK_EQ(cl.WaitForEvents(1, &e), CL_INVALID_OPERATION);
	told = status == CL_COMPLETE;
}

static void CL_CALLBACK on_failure(cl_event e, cl_int status, void *data)
{
	told = status;
}

TEST(callbacks)
{
	cl_event e, done, waits;

	begin("");
	caller = pthread_self();
	done = gate();
	waits = gate();
	OK(cl.EnqueueMarkerWithWaitList(q, 1, &waits, &e));
	WRONG(INVALID_VALUE, cl.SetEventCallback(e, 7, on_event, done));
	OK(cl.SetEventCallback(e, CL_COMPLETE, on_event, done));
	OK(cl.Flush(q));
	CHECK_EQ(told, 0);
	open_gate(waits);
	OK(cl.WaitForEvents(1, &done));
	while (!told)
		sched_yield();
	forgive(2);
	/* After the end, too; and a failure's status. */
	told = 1;
	OK(cl.SetEventCallback(e, CL_COMPLETE, on_failure, NULL));
	while (told)
		sched_yield();
	OK(cl.ReleaseEvent(e));
	e = gate();
	OK(cl.SetEventCallback(e, CL_COMPLETE, on_failure, NULL));
	OK(cl.SetUserEventStatus(e, -9));
	while (told != -9)
		sched_yield();
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseEvent(done));
	end();
}

/* ---------------------------------------------------------------- buffers */

TEST(buffers)
{
	uint8_t host[BYTES], one = 1;
	cl_mem a, b;

	begin("");
	memset(host, 7, sizeof(host));
	WRONG_MAKE(INVALID_BUFFER_SIZE, CreateBuffer, context, 0, 0, NULL);
	WRONG_MAKE(INVALID_HOST_PTR, CreateBuffer, context, 0, 1, host);
	WRONG_MAKE(INVALID_HOST_PTR, CreateBuffer, context,
		   CL_MEM_USE_HOST_PTR, 1, NULL);
	WRONG_MAKE(INVALID_VALUE, CreateBuffer, context,
		   CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 1, NULL);
	FAILS_MAKE(INVALID_BUFFER_SIZE, CreateBuffer, context, 0,
		   ((size_t)1 << 30) + 1, NULL);
	a = buffer_of(CL_MEM_COPY_HOST_PTR, BYTES, host);
	b = buffer_of(CL_MEM_HOST_NO_ACCESS, BYTES, NULL);
	WRONG(INVALID_OPERATION, cl.EnqueueReadBuffer(q, b, CL_TRUE, 0, 1, host,
						      0, NULL, NULL));
	WRONG(INVALID_VALUE, cl.EnqueueWriteBuffer(q, a, CL_TRUE, BYTES, 1, host,
						   0, NULL, NULL));
	WRONG(INVALID_VALUE, cl.EnqueueWriteBuffer(q, a, CL_TRUE, 0, 1, NULL, 0,
						   NULL, NULL));
	WRONG(MEM_COPY_OVERLAP, cl.EnqueueCopyBuffer(q, a, a, 0, 1, 2, 0, NULL,
						     NULL));
	WRONG(INVALID_VALUE, cl.EnqueueFillBuffer(q, a, &one, 3, 0, 3, 0, NULL,
						  NULL));
	OK(cl.EnqueueWriteBuffer(q, a, CL_TRUE, 128, 1, &one, 0, NULL, NULL));
	OK(cl.EnqueueCopyBuffer(q, a, b, 128, BYTES - 1, 1, 0, NULL, NULL));
	OK(cl.EnqueueCopyBuffer(q, b, a, BYTES - 1, 0, 1, 0, NULL, NULL));
	OK(cl.EnqueueReadBuffer(q, a, CL_TRUE, 0, BYTES, host, 0, NULL, NULL));
	CHECK_EQ(host[0], 1);
	CHECK_EQ(host[128], 1);
	CHECK_EQ(host[129], 7);
	OK(cl.ReleaseMemObject(a));
	WRONG(INVALID_MEM_OBJECT, cl.ReleaseMemObject(a));
	OK(cl.ReleaseMemObject(b));
	end();
}

static char letters[8];

static void CL_CALLBACK on_end(cl_mem m, void *data)
{
	strcat(letters, data);
	if (*(char *)data == 'b')
		told = 5;
}

/* A release waits for nothing, and destroys after the commands. */
TEST(releases_are_deferred)
{
	cl_event waits;
	cl_mem m;

	begin("");
	m = buffer_of(0, BYTES, NULL);
	OK(cl.SetMemObjectDestructorCallback(m, on_end, (char *)"b"));
	OK(cl.SetMemObjectDestructorCallback(m, on_end, (char *)"a"));
	waits = gate();
	behind(waits);
	fill(m, 1);
	OK(cl.ReleaseMemObject(m));
	WRONG(INVALID_MEM_OBJECT, cl.RetainMemObject(m));
	OK(cl.Flush(q));
	CHECK_EQ(fake->live[FAKE_MEMORY], 1);
	CHECK_STR(letters, "");
	open_gate(waits);
	OK(cl.Finish(q));
	CHECK_EQ(fake->live[FAKE_MEMORY], 0);
	while (told != 5)
		sched_yield();
	CHECK_STR(letters, "ab");
	end();
}

/* ---------------------------------------------------------------- host memory */

static const struct {
	const char *words;
	bool device_sees;	/* what the host writes without a map */
	bool host_sees;		/* what the device has written */
} host_rows[] = {
	{ "cpu", true, true }, { "userptr", true, false },
	{ "khr", true, false }, { "shadow", false, false },
	{ "old", false, false },
};

static void map_and_unmap(cl_mem m, cl_map_flags flags, uint8_t *p, int write)
{
	cl_int result;

	CHECK(cl.EnqueueMapBuffer(q, m, CL_TRUE, flags, 0, BYTES, 0, NULL, NULL,
				  &result) == p);
	OK(result);
	if (write)
		memset(p, write, BYTES);
	OK(cl.EnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
}

TEST(host_pointers)
{
	for (size_t i = 0; i < sizeof(host_rows) / sizeof(host_rows[0]); i++) {
		uint8_t *p = pages(-1);
		cl_mem m;

		begin(host_rows[i].words);
		memset(p, 1, BYTES);
		m = buffer_of(CL_MEM_USE_HOST_PTR, BYTES, p);
		CHECK_EQ(last_of(m), 1);
		memset(p, 2, BYTES);
		CHECK_EQ(last_of(m), host_rows[i].device_sees ? 2 : 1);
		fill(m, 3);
		OK(cl.Finish(q));
		CHECK_EQ(p[BYTES - 1], host_rows[i].host_sees ? 3 : 2);
		map_and_unmap(m, CL_MAP_READ, p, 0);
		CHECK_EQ(p[BYTES - 1], 3);
		map_and_unmap(m, CL_MAP_WRITE_INVALIDATE_REGION, p, 4);
		CHECK_EQ(last_of(m), 4);
		map_and_unmap(m, CL_MAP_WRITE, p, 5);
		CHECK_EQ(last_of(m), 5);
		OK(cl.ReleaseMemObject(m));
		munmap(p, BYTES);
		end();
	}
}

TEST(host_memory_stays)
{
	uint8_t *p;
	cl_mem m;

	begin("cpu");
	/* Where nothing else is mapped meanwhile. */
	p = mmap((void *)0x10000000, BYTES, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(p != MAP_FAILED);
	m = buffer_of(CL_MEM_USE_HOST_PTR, BYTES, p);
	munmap(p, BYTES);
	fill(m, 1);
	OK(cl.Finish(q));
	forgive(1);
	WRONG(SUCCESS, cl.ReleaseMemObject(m));
	WRONG_MAKE(INVALID_HOST_PTR, CreateBuffer, context,
		   CL_MEM_USE_HOST_PTR, BYTES, p);
	end();
}

TEST(mapped_memory_is_the_hosts)
{
	uint8_t *p, byte;
	cl_int result;
	cl_mem m;

	begin("");
	m = buffer_of(0, BYTES, NULL);
	fill(m, 1);
	p = cl.EnqueueMapBuffer(q, m, CL_FALSE, CL_MAP_READ, 16, 16, 0, NULL,
				NULL, &result);
	OK(result);
	/* Before the flush the map has not begun: this is of the fill. */
	CHECK_EQ(fake->wrong, 0);
	OK(cl.EnqueueReadBuffer(q, m, CL_TRUE, 0, 1, &byte, 0, NULL, NULL));
	CHECK_EQ(p[0], 1);
	fill(m, 2);
	OK(cl.Finish(q));
	forgive(1);
	CHECK_EQ(p[0], 1);
	WRONG(INVALID_VALUE,
	      cl.EnqueueUnmapMemObject(q, m, p + 1, 0, NULL, NULL));
	OK(cl.EnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
	WRONG(INVALID_VALUE, cl.EnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
	p = cl.EnqueueMapBuffer(q, m, CL_TRUE, CL_MAP_WRITE, 0, BYTES, 0, NULL,
				NULL, &result);
	OK(cl.EnqueueReadBuffer(q, m, CL_TRUE, 0, 1, &byte, 0, NULL, NULL));
	forgive(1);
	OK(cl.EnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
	WRONG_MAKE(INVALID_VALUE, EnqueueMapBuffer, q, m, CL_TRUE,
		   CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 1, 0, NULL,
		   NULL);
	OK(cl.ReleaseMemObject(m));
	end();
}

/* ---------------------------------------------------------------- imports */

static cl_mem import(int fd, size_t bytes, cl_int *result)
{
	cl_mem_properties list[] = { CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR,
				     (cl_mem_properties)fd, 0 };

	return cl.CreateBufferWithProperties(context, list, CL_MEM_READ_WRITE,
					     bytes, NULL, result);
}

static void pass(cl_mem m, bool acquire)
{
	OK((acquire ? cl.EnqueueAcquireExternalMemObjectsKHR :
	    cl.EnqueueReleaseExternalMemObjectsKHR)(q, 1, &m, 0, NULL, NULL));
}

TEST(khr_imports)
{
	cl_mem m, plain;
	uint8_t *p;
	cl_int result;
	int fd;

	begin("khr,memfds");
	fd = memfd();
	p = pages(fd);
	CHECK(!import(fd, BYTES + 1, &result));
	CHECK_EQ(result, CL_INVALID_PROPERTY);
	CHECK(!import(fd, 0, &result));
	CHECK_EQ(result, CL_INVALID_BUFFER_SIZE);
	forgive(2);
	fake->failing = "clCreateBufferWithProperties";
	CHECK(!import(fd, BYTES, &result));
	CHECK(is_open(fd));
	fake->failing = NULL;
	m = import(fd, BYTES, &result);
	OK(result);
	/* Not before it is acquired, and not after its release. */
	last_of(m);
	forgive(1);
	pass(m, true);
	fill(m, 3);
	pass(m, false);
	OK(cl.Finish(q));
	CHECK_EQ(p[BYTES - 1], 3);
	last_of(m);
	forgive(1);
	pass(m, false);
	pass(m, true);
	pass(m, true);
	OK(cl.Finish(q));
	forgive(2);
	plain = buffer_of(0, BYTES, NULL);
	WRONG(INVALID_MEM_OBJECT,
	      cl.EnqueueAcquireExternalMemObjectsKHR(q, 1, &plain, 0, NULL,
						     NULL));
	OK(cl.ReleaseMemObject(plain));
	/* The fd is the driver's. */
	OK(cl.ReleaseMemObject(m));
	CHECK(!is_open(fd));
	munmap(p, BYTES);
	end();
}

static const struct {
	const char *words;
	unsigned int wrong;
} fd_rows[] = { { "khr,memfds", 1 }, { "intel,memfds", 0 } };

/* What one driver refuses another one takes for no handle at all. */
TEST(fd_0)
{
	for (int i = 0; i < 2; i++) {
		cl_int result;
		cl_mem m;

		begin(fd_rows[i].words);
		m = import(0, BYTES, &result);
		CHECK_EQ(!m, fd_rows[i].wrong);
		forgive(fd_rows[i].wrong);
		if (m)
			OK(cl.ReleaseMemObject(m));
		end();
	}
}

TEST(fds_that_are_not_fit)
{
	cl_int result;
	cl_mem m;
	int fd;

	begin("khr,memfds");
	fd = memfd();
	CHECK(!fcntl(fd, F_SETFD, 0));
	m = import(fd, BYTES, &result);
	OK(result);
	forgive(1);
	close(fd);
	WRONG(SUCCESS, cl.ReleaseMemObject(m));
	end();
}

TEST(arm_imports)
{
	cl_import_properties_arm list[] = {
		CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM,
		CL_IMPORT_DMA_BUF_DATA_CONSISTENCY_WITH_HOST_ARM, CL_TRUE, 0
	};
	uint8_t *p, byte;
	cl_int result;
	cl_mem m;
	int fd;

	begin("arm,memfds");
	fd = memfd();
	p = pages(fd);
	WRONG_MAKE(INVALID_PROPERTY, ImportMemoryARM, context, 0, NULL, &fd,
		   BYTES);
	WRONG_MAKE(INVALID_VALUE, ImportMemoryARM, context, 0, list, NULL,
		   BYTES);
	WRONG_MAKE(INVALID_BUFFER_SIZE, ImportMemoryARM, context, 0, list, &fd,
		   BYTES + 1);
	m = cl.ImportMemoryARM(context, CL_MEM_USE_HOST_PTR, list, &fd, BYTES,
			       &result);
	OK(result);
	/* It has no need of the fd, and no acquires. */
	close(fd);
	fill(m, 6);
	OK(cl.Finish(q));
	CHECK_EQ(p[0], 6);
	OK(cl.ReleaseMemObject(m));
	munmap(p, BYTES);
	end();

	begin("arm,armold,memfds");
	fd = memfd();
	WRONG_MAKE(INVALID_PROPERTY, ImportMemoryARM, context, 0, list, &fd,
		   BYTES);
	list[2] = 0;
	m = cl.ImportMemoryARM(context, 0, list, &fd, BYTES, &result);
	OK(result);
	FAILS(INVALID_OPERATION, cl.EnqueueReadBuffer(q, m, CL_TRUE, 0, 1, &byte,
						      0, NULL, NULL));
	OK(cl.ReleaseMemObject(m));
	close(fd);
	end();
}

TEST(qcom_imports)
{
	cl_mem_flags flags = CL_MEM_USE_HOST_PTR | CL_MEM_EXT_HOST_PTR_QCOM;
	struct fakecl_dmabuf_host_ptr ptr = {
		.ext_host_ptr = { FAKECL_MEM_DMABUF_HOST_PTR_QCOM,
				  CL_MEM_HOST_UNCACHED_QCOM },
	};
	size_t page, padding;
	cl_mem m;

	begin("qcom,memfds,padding");
	ptr.dmabuf_filedesc = memfd();
	ptr.dmabuf_hostptr = pages(ptr.dmabuf_filedesc);
	OK(cl.GetDeviceInfo(device, CL_DEVICE_PAGE_SIZE_QCOM, sizeof(page),
			    &page, NULL));
	OK(cl.GetDeviceInfo(device, CL_DEVICE_EXT_MEM_PADDING_IN_BYTES_QCOM,
			    sizeof(padding), &padding, NULL));
	CHECK_EQ(page, 4096);
	CHECK_EQ(padding, 4096);
	WRONG_MAKE(INVALID_VALUE, CreateBuffer, context, flags, BYTES, &ptr);
	WRONG_MAKE(INVALID_VALUE, CreateBuffer, context, flags, 4095, &ptr);
	WRONG_MAKE(INVALID_VALUE, CreateBuffer, context,
		   flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR, 4096, NULL);
	ptr.ext_host_ptr.host_cache_policy = 0;
	WRONG_MAKE(INVALID_VALUE, CreateBuffer, context, flags, 4096, &ptr);
	ptr.ext_host_ptr.host_cache_policy = CL_MEM_HOST_WRITEBACK_QCOM;
	m = buffer_of(flags, 4096, &ptr);
	OK(cl.EnqueueWriteBuffer(q, m, CL_TRUE, 0, 2, "w", 0, NULL, NULL));
	CHECK_STR((char *)ptr.dmabuf_hostptr, "w");
	OK(cl.ReleaseMemObject(m));
	munmap(ptr.dmabuf_hostptr, BYTES);
	close(ptr.dmabuf_filedesc);
	end();
}

/* ---------------------------------------------------------------- semaphores */

static cl_semaphore_khr semaphore_of(cl_semaphore_properties_khr name,
				     cl_semaphore_properties_khr value,
				     cl_int expected)
{
	cl_semaphore_properties_khr list[] = {
		CL_SEMAPHORE_TYPE_KHR, CL_SEMAPHORE_TYPE_BINARY_KHR, name,
		value, 0, 0
	};
	cl_int result;
	cl_semaphore_khr s;

	s = cl.CreateSemaphoreWithPropertiesKHR(context, list, &result);
	CHECK_EQ(result, expected);
	return s;
}

TEST(imported_semaphores)
{
	cl_semaphore_khr s;
	cl_event e;
	int fd, ours;

	begin("khr,memfds");
	s = semaphore_of(CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, 9999,
			 CL_INVALID_VALUE);
	CHECK(!s);
	forgive(1);
	fd = pending_fence();
	/* The driver's thread may close fd as soon as the fence has signalled. */
	ours = dup(fd);
	s = semaphore_of(CL_SEMAPHORE_HANDLE_SYNC_FD_KHR,
			 (cl_semaphore_properties_khr)fd, CL_SUCCESS);
	OK(cl.EnqueueWaitSemaphoresKHR(q, 1, &s, NULL, 0, NULL, &e));
	WRONG(INVALID_OPERATION, cl.EnqueueWaitSemaphoresKHR(q, 1, &s, NULL, 0,
							     NULL, NULL));
	OK(cl.Flush(q));
	CHECK(status_of(e) > CL_COMPLETE);
	signal_fence(ours);
	close(ours);
	OK(cl.WaitForEvents(1, &e));
	CHECK(!is_open(fd));
	OK(cl.ReleaseEvent(e));
	OK(cl.ReImportSemaphoreSyncFdKHR(s, NULL, -1));
	OK(cl.EnqueueWaitSemaphoresKHR(q, 1, &s, NULL, 0, NULL, NULL));
	OK(cl.Finish(q));
	/* A payload that nobody waits for goes with the semaphore. */
	fd = pending_fence();
	OK(cl.ReImportSemaphoreSyncFdKHR(s, NULL, fd));
	OK(cl.ReleaseSemaphoreKHR(s));
	CHECK(!is_open(fd));
	end();
}

TEST(exported_semaphores)
{
	cl_semaphore_khr s;
	cl_event waits;
	int fd = -7;

	begin("khr,memfds");
	s = semaphore_of(CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR,
			 CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, CL_SUCCESS);
#define EXPORT(size) cl.GetSemaphoreHandleForTypeKHR(s, device,		\
	CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, size, &fd, NULL)
	WRONG(INVALID_OPERATION, EXPORT(sizeof(fd)));
	waits = gate();
	behind(waits);
	OK(cl.EnqueueSignalSemaphoresKHR(q, 1, &s, NULL, 0, NULL, NULL));
	WRONG(INVALID_OPERATION, cl.EnqueueSignalSemaphoresKHR(q, 1, &s, NULL, 0,
							       NULL, NULL));
	WRONG(INVALID_VALUE, EXPORT(1));
	OK(EXPORT(sizeof(fd)));
	/* That was a wait. */
	WRONG(INVALID_OPERATION, EXPORT(sizeof(fd)));
	CHECK(fd > 2 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	open_gate(waits);
	CHECK(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 0);
	OK(cl.Finish(q));
	CHECK(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1);
	close(fd);
	/* A signal that is over needs no sync_file. */
	OK(cl.EnqueueSignalSemaphoresKHR(q, 1, &s, NULL, 0, NULL, NULL));
	OK(cl.Finish(q));
	OK(EXPORT(sizeof(fd)));
	CHECK_EQ(fd, -1);
	OK(cl.ReleaseSemaphoreKHR(s));
	WRONG(INVALID_SEMAPHORE_KHR, cl.RetainSemaphoreKHR(s));
	end();
}

/* A signal in one queue, and a wait in another one. */
TEST(semaphores_between_queues)
{
	cl_command_queue other;
	cl_semaphore_khr s;
	cl_event e;

	begin("khr");
	other = cl.CreateCommandQueue(context, device, 0, NULL);
	s = semaphore_of(0, 0, CL_SUCCESS);
	WRONG(INVALID_OPERATION, cl.EnqueueWaitSemaphoresKHR(
		other, 1, &s, NULL, 0, NULL, NULL));
	OK(cl.EnqueueSignalSemaphoresKHR(q, 1, &s, NULL, 0, NULL, NULL));
	OK(cl.EnqueueWaitSemaphoresKHR(other, 1, &s, NULL, 0, NULL, &e));
	OK(cl.Flush(other));
	CHECK(status_of(e) > CL_COMPLETE);
	OK(cl.Flush(q));
	OK(cl.WaitForEvents(1, &e));
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseSemaphoreKHR(s));
	OK(cl.ReleaseCommandQueue(other));
	end();
}

/* ---------------------------------------------------------------- failures */

TEST(calls_fail_when_told)
{
	cl_mem m;

	begin("");
	fake->failing = "clCreateBuffer";
	fake->result = CL_OUT_OF_HOST_MEMORY;
	fake->spared = 1;
	m = buffer_of(0, BYTES, NULL);
	FAILS_MAKE(OUT_OF_HOST_MEMORY, CreateBuffer, context, 0, 16, NULL);
	fake->failing = NULL;
	fake->fail_at = 2;
	OK(cl.Flush(q));
	/* What releases has released. */
	FAILS(OUT_OF_HOST_MEMORY, cl.ReleaseMemObject(m));
	CHECK_EQ(fake->live[FAKE_MEMORY], 0);
	end();
}

TEST(lost_for_good)
{
	cl_event e, waits;
	cl_mem m;

	begin("");
	m = buffer_of(0, BYTES, NULL);
	waits = gate();
	behind(waits);
	fill(m, 1);
	OK(cl.EnqueueMarkerWithWaitList(q, 0, NULL, &e));
	OK(cl.SetEventCallback(e, CL_COMPLETE, on_failure, NULL));
	OK(cl.Flush(q));
	fake->lose(CL_DEVICE_NOT_AVAILABLE);
	FAILS(DEVICE_NOT_AVAILABLE, cl.Finish(q));
	FAILS(DEVICE_NOT_AVAILABLE, cl.Flush(q));
	while (told != CL_DEVICE_NOT_AVAILABLE)
		sched_yield();
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseEvent(e));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseEvent(waits));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseMemObject(m));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseCommandQueue(q));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseContext(context));
	nothing_left();
	CHECK_EQ(fake->wrong, 0);
	fake_fn(true);
}

/* A reset ends what would wait for ever. */
TEST(resets_end_everything)
{
	cl_event waits;

	begin("");
	waits = gate();
	behind(waits);
	OK(cl.Flush(q));
	OK(cl.EnqueueMarkerWithWaitList(q, 0, NULL, NULL));
	fake_fn(true);
	CHECK_EQ(fake->not_started, 0);
	CHECK_EQ(fake->pending, 0);
	nothing_left();
}

TEST(children)
{
	int status = 0;
	pid_t pid;

	begin("");
	OK(cl.Finish(q));
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid) {
		WRONG(OUT_OF_HOST_MEMORY, cl.Flush(q));
		_exit(7);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	end();
}
#else
KTAP_SKIPPED("the OpenCL backend is not built")
#endif

KTAP_MAIN()
