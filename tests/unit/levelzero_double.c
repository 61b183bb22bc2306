// SPDX-License-Identifier: MIT
/* The rules of the double of a Level Zero driver (tests/doubles/levelzero.h). */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include <fcntl.h>
#include <sys/mman.h>

#include "backends/levelzero/api.h"
#include "double.h"
#include "doubles/levelzero.h"
#include "rules.h"

#define BYTES 4096
#define FAILED(code) ZE_RESULT_ERROR_##code

static struct fake_levelzero *fake;
#include "counts.h"
static fake_levelzero_fn fake_fn;
static void *fake_lib;
static struct levelzero_api lz;
static ze_device_handle_t device;
static ze_context_handle_t context;
static ze_command_list_handle_t list;
static ze_event_pool_handle_t pool;
static ze_event_handle_t gate, done;
static uint8_t *host;

static void event_make(uint32_t index, ze_event_handle_t *event)
{
	const ze_event_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = index,
	};

	OK(lz.EventCreate(pool, &desc, event));
}

static void begin(const char *words)
{
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	const ze_command_queue_desc_t queue = {
		.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = 1,
		.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
	};
	const ze_event_pool_desc_t events = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
		.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 2,
	};
	const ze_host_mem_alloc_desc_t memory = {
		.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
	};
	ze_driver_handle_t driver;
	uint32_t n = 1;

	LOAD(levelzero, "LEVELZERO", words);
#define X(name, ...) lz.name = (__typeof__(lz.name))dlsym(fake_lib, "ze" #name);
	LEVELZERO_FUNCTIONS(X)
#undef X
	OK(lz.Init(0));
	OK(lz.DriverGet(&n, &driver));
	OK(lz.DeviceGet(driver, &n, &device));
	OK(lz.ContextCreate(driver, &desc, &context));
	OK(lz.CommandListCreateImmediate(context, device, &queue, &list));
	OK(lz.EventPoolCreate(context, &events, 0, NULL, &pool));
	event_make(0, &gate);
	event_make(1, &done);
	OK(lz.MemAllocHost(context, &memory, BYTES, 0, (void **)&host));
}

static void end(void)
{
	OK(lz.EventDestroy(gate));
	OK(lz.EventDestroy(done));
	OK(lz.EventPoolDestroy(pool));
	OK(lz.MemFree(context, host));
	OK(lz.CommandListDestroy(list));
	OK(lz.ContextDestroy(context));
	UNLOAD();
}

static void fill(uint8_t value, size_t bytes)
{
	OK(lz.CommandListAppendMemoryFill(list, host, &value, 1, bytes, NULL, 0,
					  NULL));
}

static void barrier(void)
{
	OK(lz.CommandListAppendBarrier(list, NULL, 0, NULL));
}

static void finish(void)
{
	OK(lz.CommandListAppendBarrier(list, done, 0, NULL));
	OK(lz.EventHostSynchronize(done, UINT64_MAX));
	OK(lz.EventHostReset(done));
}

/* Commands are in an order by barriers only. */
DOUBLE_CASE(order, "")
{
	fill(1, 2);
	fill(2, 1);
	finish();
	CHECK_EQ(host[0], 1);
	fill(1, 2);
	barrier();
	fill(2, 1);
	finish();
	CHECK_EQ(host[0], 2);
	/* A barrier that waits for an event is behind nothing. */
	fill(3, 1);
	OK(lz.CommandListAppendBarrier(list, NULL, 1, &gate));
	fill(4, 1);
	OK(lz.EventHostSignal(gate));
	finish();
	CHECK_EQ(host[0], 3);
}

DOUBLE_CASE(events, "")
{
	OK(lz.EventHostSignal(gate));
	OK(lz.EventQueryStatus(gate));
	BREAKS(1, 0, lz.EventHostSignal(gate));
	OK(lz.CommandListAppendBarrier(list, gate, 0, NULL));
	OK(lz.CommandListHostSynchronize(list, UINT64_MAX));
	/* By the call, and by the command, which signals it again. */
	CHECK_EQ(fake->wrong, 2);
	fake->wrong = 0;
	OK(lz.EventHostReset(gate));
	CHECK_EQ(lz.EventQueryStatus(gate), ZE_RESULT_NOT_READY);
	CHECK_EQ(lz.EventHostSynchronize(gate, 0), ZE_RESULT_NOT_READY);
	/* Neither reset nor destroyed under a command. */
	OK(lz.CommandListAppendBarrier(list, NULL, 1, &gate));
	BREAKS(1, FAILED(INVALID_SYNCHRONIZATION_OBJECT), lz.EventHostReset(gate));
	BREAKS(1, 0, lz.EventDestroy(gate));
	BREAKS(1, FAILED(INVALID_NULL_HANDLE), lz.EventQueryStatus(gate));
	finish();
	event_make(0, &gate);
	/* A place in a pool is one event's. */
	BREAKS(1, FAILED(INVALID_ARGUMENT), lz.EventCreate(pool,
	       &(ze_event_desc_t){ .stype = ZE_STRUCTURE_TYPE_EVENT_DESC }, &done));
}

static ze_result_t import(int fd, ze_external_memory_type_flags_t flags, void **p)
{
	const ze_external_memory_import_fd_t from = {
		.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
		.flags = flags, .fd = fd,
	};
	const ze_device_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, .pNext = &from,
	};

	return lz.MemAllocDevice(context, &desc, BYTES, 0, device, p);
}

/* The fd is the driver's if an import succeeds, which closes it at once. */
TEST(imports)
{
	ze_external_memory_type_flags_t type = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC);
	void *p;

	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	begin("memfds,noimport");
	CHECK_EQ(import(fd, type, &p), FAILED(INVALID_ARGUMENT));
	end();
	begin("memfds");
	BREAKS(1, FAILED(UNSUPPORTED_ENUMERATION), import(fd, 0, &p));
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	OK(import(fd, type, &p));
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	OK(lz.CommandListAppendMemoryCopy(list, p, host, BYTES, NULL, 0, NULL));
	BREAKS(1, FAILED(INVALID_ARGUMENT),
	       lz.CommandListAppendMemoryCopy(list, p, host, BYTES + 1, NULL, 0,
					      NULL));
	finish();
	BREAKS(1, FAILED(INVALID_ARGUMENT), lz.MemFree(context, (char *)p + 1));
	OK(lz.MemFree(context, p));
	BREAKS(1, FAILED(INVALID_ARGUMENT), lz.MemFree(context, p));
	end();
}

/* Objects of a context are destroyed before it. */
TEST(contexts)
{
	begin("");
	BREAKS(1, 0, lz.ContextDestroy(context));
	BREAKS(1, FAILED(INVALID_NULL_HANDLE), lz.ContextDestroy(context));
	CHECK_EQ(lz.ContextGetStatus(context), FAILED(INVALID_ARGUMENT));
	CHECK_EQ(fake->made[FAKE_EVENT], 2);
	UNLOAD();
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
