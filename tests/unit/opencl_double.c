// SPDX-License-Identifier: MIT
/*
 * The double of an OpenCL driver (tests/doubles/opencl.h): its words and controls, its
 * behaviour after a missing call, and the extensions that no driver of the lab has.
 * opencl_contract.c has the promises of OpenCL.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include <fcntl.h>
#include <poll.h>

#include "opencl_contract.h"

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

/* ---------------------------------------------------------------- machines */

TEST(no_platform)
{
	cl_uint n = 7;

	load("none");
	CHECK_EQ(cl.GetPlatformIDs(0, NULL, &n), CL_PLATFORM_NOT_FOUND_KHR);
	CHECK_EQ(n, 0);
}

TEST(two_devices)
{
	cl_device_id two[2];
	char text[256];
	cl_uint n;

	load("two");
	OK(GET(Platform, platform, CL_PLATFORM_EXTENSIONS, text));
	CHECK(strstr(text, "cl_khr_icd"));
	OK(cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 2, two, &n));
	CHECK_EQ(n, 2);
	CHECK(two[0] != two[1]);
	fake_fn(true);
}

/* Each machine's description of itself. */
static const struct {
	const char *words;
	cl_device_type type;
	const char *has, *lacks;
	bool dma_bufs, fences, acquires;
} machines[] = {
	{ "khr", CL_DEVICE_TYPE_GPU, "cl_khr_external_memory_dma_buf", "_arm_", true, true, true },
	{ "intel", CL_DEVICE_TYPE_GPU, "cl_khr_external_memory", "dma_buf", true, false, true },
	{ "arm", CL_DEVICE_TYPE_GPU, "cl_arm_import_memory_dma_buf", "_khr_", false, false, false },
	{ "qcom", CL_DEVICE_TYPE_GPU, "cl_qcom_dmabuf_host_ptr", "_khr_", false, false, false },
	{ "userptr", CL_DEVICE_TYPE_GPU, "", "cl_", false, false, false },
	{ "shadow", CL_DEVICE_TYPE_GPU, "", "cl_", false, false, false },
	{ "cpu", CL_DEVICE_TYPE_CPU, "", "cl_", false, false, false },
	{ "old", CL_DEVICE_TYPE_GPU, "", "cl_", false, false, false },
};

TEST(machines)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		char extensions[256];
		cl_device_type type;
		cl_uint handle = 0;

		begin(machines[i].words);
		OK(GET(Device, device, CL_DEVICE_TYPE, type));
		OK(GET(Device, device, CL_DEVICE_EXTENSIONS, extensions));
		CHECK_EQ(type, machines[i].type);
		CHECK_MSG(strstr(extensions, machines[i].has) &&
			  !strstr(extensions, machines[i].lacks), "%s: %s",
			  machines[i].words, extensions);
		GET(Device, device, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR, handle);
		CHECK_EQ(handle == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, machines[i].dma_bufs);
		CHECK_EQ(!!cl.CreateSemaphoreWithPropertiesKHR, machines[i].fences);
		CHECK_EQ(!!cl.EnqueueAcquireExternalMemObjectsKHR, machines[i].acquires);
		end();
	}
}

DOUBLE_CASE(old_functions, "old")
{
	WRONG_MAKE(INVALID_OPERATION, CreateBufferWithProperties, context, NULL, 0, 16, NULL);
	WRONG_MAKE(INVALID_OPERATION, CreateCommandQueueWithProperties, context, device, NULL);
}

/* ---------------------------------------------------------------- order */

DOUBLE_CASE(nothing_runs_before_a_flush, "")
{
	cl_command_queue other = MAKE(CreateCommandQueue, context, device, 0);
	cl_event e;

	OK(MARK(0, NULL, NULL));
	OK(MARK(0, NULL, &e));
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
}

/* The last command runs first, and a marker without a list is after all of them. */
DOUBLE_CASE(out_of_order, "")
{
	cl_event e;
	cl_mem m;

	OK(cl.ReleaseCommandQueue(q));
	q = MAKE(CreateCommandQueue, context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	m = buffer_of(0, BYTES, NULL);
	fill(m, 1);
	fill(m, 2);
	OK(BARRIER(0, NULL));
	CHECK_EQ(last_of(m), 1);
	fill(m, 2);
	OK(MARK(0, NULL, &e));
	OK(cl.WaitForEvents(1, &e));
	CHECK_EQ(last_of(m), 2);
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseMemObject(m));
}

static void CL_CALLBACK block(cl_event e, cl_int status, void *data)
{
	CHECK_EQ(cl.Finish(q), CL_INVALID_OPERATION);
	CHECK_EQ(cl.WaitForEvents(1, &e), CL_INVALID_OPERATION);
	told = 1;
}

/* They do not block, and are called for failures, too: PoCL forgets a user event's. */
DOUBLE_CASE(callbacks, "")
{
	cl_event e = gate();

	OK(cl.SetEventCallback(e, CL_COMPLETE, block, NULL));
	OK(cl.SetUserEventStatus(e, CL_COMPLETE));
	until_told(1);
	forgive(2);
	OK(cl.ReleaseEvent(e));
	e = gate();
	OK(cl.SetEventCallback(e, CL_COMPLETE, tell_status, NULL));
	OK(cl.SetUserEventStatus(e, -9));
	until_told(-9);
	OK(cl.ReleaseEvent(e));
}

/* ---------------------------------------------------------------- memory */

DOUBLE_CASE(releases_are_counted_when_they_are_over, "")
{
	cl_event waits;
	cl_mem m = buffer_of(0, BYTES, NULL);

	waits = gate();
	OK(BARRIER(1, &waits));
	fill(m, 1);
	OK(cl.ReleaseMemObject(m));
	OK(cl.Flush(q));
	CHECK_EQ(fake->live[FAKE_MEMORY], 1);
	open_gate(waits);
	OK(cl.Finish(q));
	CHECK_EQ(fake->live[FAKE_MEMORY], 0);
}

DOUBLE_CASE(host_memory_stays, "cpu")
{
	uint8_t *p;
	cl_mem m;

	/* An address at which nothing else is mapped meanwhile. */
	p = mmap((void *)0x10000000, BYTES, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(p != MAP_FAILED);
	m = buffer_of(CL_MEM_USE_HOST_PTR, BYTES, p);
	munmap(p, BYTES);
	fill(m, 1);
	OK(cl.Finish(q));
	forgive(1);
	WRONG(SUCCESS, cl.ReleaseMemObject(m));
	WRONG_MAKE(INVALID_HOST_PTR, CreateBuffer, context, CL_MEM_USE_HOST_PTR, BYTES, p);
}

/* The device does not use it, and PoCL takes any flags. */
DOUBLE_CASE(mapped_memory_is_the_hosts, "")
{
	uint8_t *p, byte;
	cl_mem m = buffer_of(0, BYTES, NULL);

	fill(m, 1);
	p = MAKE(EnqueueMapBuffer, q, m, CL_TRUE, CL_MAP_READ, 16, 16, NO_LIST);
	fill(m, 2);
	OK(cl.Finish(q));
	forgive(1);
	CHECK_EQ(p[0], 1);
	OK(UNMAP(m, p));
	p = MAKE(EnqueueMapBuffer, q, m, CL_TRUE, CL_MAP_WRITE, 0, BYTES, NO_LIST);
	WRONG(SUCCESS, READ(m, 0, 1, &byte));
	OK(UNMAP(m, p));
	WRONG_MAKE(INVALID_VALUE, EnqueueMapBuffer, q, m, CL_TRUE,
		   CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 1, NO_LIST);
	OK(cl.ReleaseMemObject(m));
}

/* ---------------------------------------------------------------- imports */

static cl_mem import(int fd, size_t bytes)
{
	cl_mem_properties list[] = { CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR,
				     (cl_mem_properties)fd, 0 };

	return cl.CreateBufferWithProperties(context, list, CL_MEM_READ_WRITE,
					     bytes, NULL, &result);
}

static void pass(cl_mem m, bool acquire)
{
	OK((acquire ? cl.EnqueueAcquireExternalMemObjectsKHR :
	    cl.EnqueueReleaseExternalMemObjectsKHR)(q, 1, &m, 0, NULL, NULL));
}

DOUBLE_CASE(khr_imports, "khr,memfds")
{
	cl_mem m, plain;
	uint8_t *p;
	int fd = memfd();

	p = pages(fd);
	CHECK(!import(fd, BYTES + 1));
	CHECK_EQ(result, CL_INVALID_PROPERTY);
	CHECK(!import(fd, 0));
	CHECK_EQ(result, CL_INVALID_BUFFER_SIZE);
	forgive(2);
	fake->failing = "clCreateBufferWithProperties";
	CHECK(!import(fd, BYTES));
	CHECK(is_open(fd));
	fake->failing = NULL;
	m = import(fd, BYTES);
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
	      cl.EnqueueAcquireExternalMemObjectsKHR(q, 1, &plain, 0, NULL, NULL));
	OK(cl.ReleaseMemObject(plain));
	/* The fd is the driver's. */
	OK(cl.ReleaseMemObject(m));
	CHECK(!is_open(fd));
	munmap(p, BYTES);
}

static const struct {
	const char *words;
	unsigned int wrong;
	cl_int refusal;
} fd_rows[] = {
	{ "khr,memfds", 1, CL_INVALID_PROPERTY }, { "intel,memfds", 0, CL_INVALID_MEM_OBJECT },
};

/* One driver refuses fd 0, another one takes it for no handle; and by which code. */
TEST(fd_0)
{
	for (int i = 0; i < 2; i++) {
		cl_mem m;
		int fd;

		begin(fd_rows[i].words);
		m = import(0, BYTES);
		CHECK_EQ(!m, fd_rows[i].wrong);
		forgive(fd_rows[i].wrong);
		if (m)
			OK(cl.ReleaseMemObject(m));
		fd = pending_fence();
		CHECK(!import(fd, BYTES));
		CHECK_EQ(result, fd_rows[i].refusal);
		OK(close(fd));
		forgive(1);
		end();
	}
}

DOUBLE_CASE(fds_that_are_not_fit, "khr,memfds")
{
	cl_mem m;
	int fd = memfd();

	CHECK(!fcntl(fd, F_SETFD, 0));
	m = import(fd, BYTES);
	OK(result);
	forgive(1);
	close(fd);
	WRONG(SUCCESS, cl.ReleaseMemObject(m));
}

DOUBLE_CASE(arm_imports, "arm,memfds")
{
	cl_import_properties_arm list[] = {
		CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM,
		CL_IMPORT_DMA_BUF_DATA_CONSISTENCY_WITH_HOST_ARM, CL_TRUE, 0
	};
	uint8_t *p, byte;
	cl_mem m;
	int fd AUTO_FD = memfd();

	p = pages(fd);
	WRONG_MAKE(INVALID_PROPERTY, ImportMemoryARM, context, 0, NULL, &fd, BYTES);
	WRONG_MAKE(INVALID_VALUE, ImportMemoryARM, context, 0, list, NULL, BYTES);
	WRONG_MAKE(INVALID_BUFFER_SIZE, ImportMemoryARM, context, 0, list, &fd, BYTES + 1);
	m = MAKE(ImportMemoryARM, context, CL_MEM_USE_HOST_PTR, list, &fd, BYTES);
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
	WRONG_MAKE(INVALID_PROPERTY, ImportMemoryARM, context, 0, list, &fd, BYTES);
	list[2] = 0;
	m = MAKE(ImportMemoryARM, context, 0, list, &fd, BYTES);
	FAILS(INVALID_OPERATION, READ(m, 0, 1, &byte));
	OK(cl.ReleaseMemObject(m));
}

DOUBLE_CASE(qcom_imports, "qcom,memfds,padding")
{
	cl_mem_flags flags = CL_MEM_USE_HOST_PTR | CL_MEM_EXT_HOST_PTR_QCOM;
	struct fakecl_dmabuf_host_ptr ptr = {
		.ext_host_ptr = { FAKECL_MEM_DMABUF_HOST_PTR_QCOM,
				  CL_MEM_HOST_UNCACHED_QCOM },
	};
	size_t page, padding;
	cl_mem m;

	ptr.dmabuf_filedesc = memfd();
	ptr.dmabuf_hostptr = pages(ptr.dmabuf_filedesc);
	OK(GET(Device, device, CL_DEVICE_PAGE_SIZE_QCOM, page));
	OK(GET(Device, device, CL_DEVICE_EXT_MEM_PADDING_IN_BYTES_QCOM, padding));
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
	OK(WRITE(m, 0, 2, "w"));
	CHECK_STR((char *)ptr.dmabuf_hostptr, "w");
	OK(cl.ReleaseMemObject(m));
	munmap(ptr.dmabuf_hostptr, BYTES);
	close(ptr.dmabuf_filedesc);
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
	cl_semaphore_khr s = cl.CreateSemaphoreWithPropertiesKHR(context, list, &result);

	CHECK_EQ(result, expected);
	return s;
}

#define WAIT(queue, e) \
	cl.EnqueueWaitSemaphoresKHR(queue, 1, &s, NULL, 0, NULL, e)
#define SIGNAL(queue, e) \
	cl.EnqueueSignalSemaphoresKHR(queue, 1, &s, NULL, 0, NULL, e)

DOUBLE_CASE(imported_semaphores, "khr,memfds")
{
	cl_semaphore_khr s;
	cl_event e;
	int fd, ours;

	s = semaphore_of(CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, 9999, CL_INVALID_VALUE);
	CHECK(!s);
	forgive(1);
	fd = pending_fence();
	/* The driver's thread may close fd as soon as the fence has signalled. */
	ours = dup(fd);
	s = semaphore_of(CL_SEMAPHORE_HANDLE_SYNC_FD_KHR,
			 (cl_semaphore_properties_khr)fd, CL_SUCCESS);
	OK(WAIT(q, &e));
	WRONG(INVALID_OPERATION, WAIT(q, NULL));
	OK(cl.Flush(q));
	CHECK(status_of(e) > CL_COMPLETE);
	signal_fence(ours);
	close(ours);
	OK(cl.WaitForEvents(1, &e));
	CHECK(!is_open(fd));
	OK(cl.ReleaseEvent(e));
	OK(cl.ReImportSemaphoreSyncFdKHR(s, NULL, -1));
	OK(WAIT(q, NULL));
	OK(cl.Finish(q));
	/* A payload without a wait is destroyed with the semaphore. */
	fd = pending_fence();
	OK(cl.ReImportSemaphoreSyncFdKHR(s, NULL, fd));
	OK(cl.ReleaseSemaphoreKHR(s));
	CHECK(!is_open(fd));
}

DOUBLE_CASE(exported_semaphores, "khr,memfds")
{
	cl_semaphore_khr s;
	cl_event waits;
	int fd = -7;

	s = semaphore_of(CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR,
			 CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, CL_SUCCESS);
#define EXPORT(size) cl.GetSemaphoreHandleForTypeKHR(s, device,		\
	CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, size, &fd, NULL)
	WRONG(INVALID_OPERATION, EXPORT(sizeof(fd)));
	waits = gate();
	OK(BARRIER(1, &waits));
	OK(SIGNAL(q, NULL));
	WRONG(INVALID_OPERATION, SIGNAL(q, NULL));
	WRONG(INVALID_VALUE, EXPORT(1));
	OK(EXPORT(sizeof(fd)));
	/* The call above was a wait. */
	WRONG(INVALID_OPERATION, EXPORT(sizeof(fd)));
	CHECK(fd > 2 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	open_gate(waits);
	CHECK(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 0);
	OK(cl.Finish(q));
	CHECK(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1);
	close(fd);
	/* A signal that is over needs no sync_file. */
	OK(SIGNAL(q, NULL));
	OK(cl.Finish(q));
	OK(EXPORT(sizeof(fd)));
	CHECK_EQ(fd, -1);
	OK(cl.ReleaseSemaphoreKHR(s));
	WRONG(INVALID_SEMAPHORE_KHR, cl.RetainSemaphoreKHR(s));
}

DOUBLE_CASE(semaphores_between_queues, "khr")
{
	cl_command_queue other = cl.CreateCommandQueue(context, device, 0, NULL);
	cl_semaphore_khr s = semaphore_of(0, 0, CL_SUCCESS);
	cl_event e;

	WRONG(INVALID_OPERATION, WAIT(other, NULL));
	OK(SIGNAL(q, NULL));
	OK(WAIT(other, &e));
	OK(cl.Flush(other));
	CHECK(status_of(e) > CL_COMPLETE);
	OK(cl.Flush(q));
	OK(cl.WaitForEvents(1, &e));
	OK(cl.ReleaseEvent(e));
	OK(cl.ReleaseSemaphoreKHR(s));
	OK(cl.ReleaseCommandQueue(other));
}

/* ---------------------------------------------------------------- controls */

/* All calls return the loss from now on, and have released; commands end with it. */
TEST(lost_for_good)
{
	cl_event e, waits;
	cl_mem m;

	begin("");
	m = buffer_of(0, BYTES, NULL);
	waits = gate();
	OK(BARRIER(1, &waits));
	fill(m, 1);
	OK(MARK(0, NULL, &e));
	OK(cl.SetEventCallback(e, CL_COMPLETE, tell_status, NULL));
	OK(cl.Flush(q));
	fake->lose(CL_DEVICE_NOT_AVAILABLE);
	FAILS(DEVICE_NOT_AVAILABLE, cl.Finish(q));
	until_told(CL_DEVICE_NOT_AVAILABLE);
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseEvent(e));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseEvent(waits));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseMemObject(m));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseCommandQueue(q));
	FAILS(DEVICE_NOT_AVAILABLE, cl.ReleaseContext(context));
	nothing_left();
	CHECK_EQ(fake->wrong, 0);
	fake_fn(true);
}

/* A reset ends waits that would never end. */
TEST(resets_end_everything)
{
	cl_event waits;

	begin("");
	waits = gate();
	OK(BARRIER(1, &waits));
	OK(cl.Flush(q));
	OK(MARK(0, NULL, NULL));
	fake_fn(true);
	CHECK_EQ(fake->not_started, 0);
	CHECK_EQ(fake->pending, 0);
	nothing_left();
}

static void flush(void)
{
	WRONG(OUT_OF_HOST_MEMORY, cl.Flush(q));
}

DOUBLE_CASE(children, "")
{
	OK(cl.Finish(q));
	CHECK(returned(child(flush)));
}
#else
KTAP_SKIPPED("the OpenCL backend is not built")
#endif

KTAP_MAIN()
