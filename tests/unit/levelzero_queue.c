// SPDX-License-Identifier: MIT
/* lib/queue on Level Zero, against a double of a driver (tests/doubles/levelzero.h). */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include "levelzero_backend.h"
#include "queue_driver.h"

static const struct queue_loss losses[] = {
	{ ZE_RESULT_ERROR_DEVICE_LOST, -EIO, "ZE_RESULT_ERROR_DEVICE_LOST" },
	{ ZE_RESULT_ERROR_UNINITIALIZED, -ENODEV, "ZE_RESULT_ERROR_UNINITIALIZED" },
	{ ZE_RESULT_ERROR_UNKNOWN, -EIO, "ZE_RESULT_ERROR_UNKNOWN" },
	{ .ret = 0 }
};

#define CALLS								\
	.device = "levelzero", .opens = opens, .two = "two",		\
	.compares = "memfds,wrongpages",				\
	.unknown = ZE_RESULT_ERROR_UNKNOWN, .losses = losses,		\
	.no_memory = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,		\
	.no_order = DLBUF_STREAM_NO_ORDER,	\
	.reused = FAKE_EVENT, .by_memfd = true,				\
	.renewed = 1,				\
	.exports_all = true, .no_pcie = "does not choose",		\
	.alloc = alloc_usm, .free = free_usm, .walks = 20,		\
	.memory = FAKE_DEVICE_MEMORY,					\
	.calls = { [ASK] = "zeCommandListIsImmediate",			\
		   [EVENT_WAIT] = "zeEventHostSynchronize",		\
		   [SECOND] = "zeEventPoolCreate, zeEventCreate, zeEventHostReset", \
		   [ALLOC] = "zeMemAllocDevice",			\
		   [STREAM_CREATE] = "zeCommandListCreateImmediate",	\
		   [CLEAR] = "zeCommandListAppendMemoryFill",		\
		   [IMPORT_FD] = "zeMemAllocDevice",			\
		   [EXPORT_FD] = "zeMemGetAllocProperties",		\
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

static const char *const selects[] = {
	"1", "arc 1", "uuid=e1000000000000000000000000000000", "pci=02:00.0", NULL
};

static const struct queue_says infos[] = {
	{ "integrated,nopci", "Fake iGPU 0", "Level Zero 1.4", ZE_API_VERSION_1_4, 0xe0,
	  DLBUF_SYNC_EVENT, 64, 64 },
	{ .words = NULL }
};

static int get_device(struct dlbuf_device *dev, bool whole, int64_t *version)
{
	struct dlbuf_levelzero_device of = { .size = whole ? sizeof(of) : 0 };
	int ret = dlbuf_levelzero_get_device(dev, &of);

	CHECK(ret || (of.driver && of.device && of.list && !of.ordinal));
	CHECK(ret || !lz.ContextGetStatus(of.context));
	*version = of.version;
	return ret;
}

static void *alloc_usm(struct app *app, size_t bytes)
{
	return usm(app, bytes, true);
}

static void free_usm(struct app *app, void *p)
{
	CHECK_EQ(lz.MemFree(app->dev.context, p), 0);
}

#define NO_BRIDGE "Level Zero imports no semaphores of other APIs"

static const struct queue_driver drivers[] = {
	{ "levelzero", CALLS, .read_only = COPY, .stale = 2, .selects = selects, .says = infos,
	  .get = get_device,
	  /* A driver that exports only memory that was allocated for export. */
	  .exports = "memfds,noexport,pools",
	  .words = { [DLBUF_PATH_DIRECT] = "memfds", [DLBUF_PATH_HOST] = "memfds",
		     [DLBUF_PATH_COPY] = "memfds,noimport" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = NO_BRIDGE } },
	/* Some drivers keep the fd that they gave. */
	{ "nohostsync", CALLS, .read_only = COPY, .exports = "memfds,keepsfd,nohostsync",
	  .words = { [DLBUF_PATH_DIRECT] = "memfds,nohostsync",
		     [DLBUF_PATH_HOST] = "memfds,nohostsync",
		     [DLBUF_PATH_COPY] = "memfds,noimport,nohostsync" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = NO_BRIDGE } },
	/* A driver behind a newer loader lacks host functions: ends are polled. */
	{ "nohost", CALLS, .read_only = HOST, .quiet = true, .exports = "memfds,nohost",
	  .words = { [DLBUF_PATH_DIRECT] = "memfds,integrated,nohost",
		     [DLBUF_PATH_HOST] = "memfds,nohost,nozex" },
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
