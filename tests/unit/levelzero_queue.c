// SPDX-License-Identifier: MIT
/* lib/queue on Level Zero, against a double of a driver (tests/doubles/levelzero.h). */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include "levelzero_backend.h"
#include "queue_driver.h"

static const struct queue_loss losses[] = {
	{ ZE_RESULT_ERROR_DEVICE_LOST, -EIO, "ZE_RESULT_ERROR_DEVICE_LOST" },
	{ .ret = 0 }
};

#define CALLS								\
	.device = "levelzero", .opens = opens, .two = "two",		\
	.compares = "memfds,wrongpages",				\
	.unknown = ZE_RESULT_ERROR_UNKNOWN, .losses = losses,		\
	.no_order = DLBUF_LEVELZERO_STREAM_NO_ORDER,	\
	.reused = FAKE_EVENT, .by_memfd = true,				\
	.read_only = HOST | COPY, .renewed = 1,				\
	.calls = { [EVENT_WAIT] = "zeEventHostSynchronize",		\
		   [COUNT] = "zeDeviceGet", [NAME] = "zeDeviceGetProperties" }

static const struct queue_failure opens[] = {
	{ "zeInit", ZE_RESULT_ERROR_UNINITIALIZED, -ENODEV,
	  "ZE_RESULT_ERROR_UNINITIALIZED (0x78000001), there is no driver" },
	{ "zeInit", ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE, -ENODEV,
	  "a library is missing" },
	{ "zeInit", ZE_RESULT_ERROR_DEVICE_LOST, -EIO, "hung" },
	{ "zeDriverGet", ZE_RESULT_ERROR_UNKNOWN, -EIO, "unknown" },
	{ "zeDriverGetApiVersion", (ze_result_t)77, -EIO,
	  "a ze_result_t (0x4d)" },
	{ "zeDeviceGet", ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, -ENOMEM, "" },
	{ "zeDeviceGetProperties", ZE_RESULT_ERROR_UNSUPPORTED_VERSION,
	  -EOPNOTSUPP, "unsupported version" },
	{ "zeDeviceGetCommandQueueGroupProperties",
	  ZE_RESULT_ERROR_UNKNOWN, -EIO, "" },
	{ "zeContextCreate", ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY,
	  -ENOMEM, "out of device memory" },
	{ "zeCommandListCreateImmediate", ZE_RESULT_ERROR_UNKNOWN, -EIO,
	  "" },
	{ .call = NULL }
};

#define NO_BRIDGE "Level Zero imports no semaphores of other APIs"

static const struct queue_driver drivers[] = {
	{ "levelzero", CALLS,
	  .words = { [DLBUF_PATH_DIRECT] = "memfds", [DLBUF_PATH_HOST] = "memfds",
		     [DLBUF_PATH_COPY] = "memfds,noimport" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = NO_BRIDGE } },
	{ "nohostsync", CALLS,
	  .words = { [DLBUF_PATH_DIRECT] = "memfds,nohostsync",
		     [DLBUF_PATH_HOST] = "memfds,nohostsync",
		     [DLBUF_PATH_COPY] = "memfds,noimport,nohostsync" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = NO_BRIDGE } },
	/* A driver behind a newer loader lacks host functions: ends are polled. */
	{ "nohost", CALLS,
	  .words = { [DLBUF_PATH_DIRECT] = "memfds,integrated,nohost",
		     [DLBUF_PATH_HOST] = "memfds,nohost" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = NO_BRIDGE,
		       [DLBUF_PATH_COPY] = "its streams cannot call host functions" } },
};

static ze_context_handle_t context;

/* The application's context, which is there when the device has gone. */
static int try_open(struct dlbuf_device **dev)
{
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	struct dlbuf_levelzero_device of = { .size = sizeof(of) };
	struct dlbuf_device *own;
	int ret = dlbuf_device_open("levelzero", NULL, &own);

	if (ret)
		return ret;
	REQUIRE_OK(dlbuf_levelzero_get_device(own, &of));
	dlbuf_device_close(own);
	if (!context)
		REQUIRE(!lz.ContextCreate(of.driver, &desc, &context));
	return dlbuf_device_wrap_levelzero(context, of.device, NULL, dev);
}

static void end_context(void)
{
	settle();
	if (context)
		CHECK_EQ(lz.ContextDestroy(context), fake->lost);
	context = NULL;
	end();
}
#define end end_context

#include "queue_cases.h"
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
