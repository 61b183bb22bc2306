// SPDX-License-Identifier: MIT
/* lib/queue on CUDA, against the double of its driver (tests/doubles/cuda.h). */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_backend.h"
#include "queue_driver.h"

static const struct queue_loss losses[] = {
	{ CUABI_LAUNCH_FAILED, -EIO, "CUDA_ERROR_LAUNCH_FAILED (719)" },
	{ CUABI_ILLEGAL_ADDRESS, -EIO, "CUDA_ERROR_ILLEGAL_ADDRESS (700)" },
	{ CUABI_ASSERT, -EIO, "CUDA_ERROR_ASSERT (710)" },
	{ CUABI_ECC_UNCORRECTABLE, -EIO, "CUDA_ERROR_ECC_UNCORRECTABLE (214)" },
	{ CUABI_DEINITIALIZED, -ENODEV, "CUDA_ERROR_DEINITIALIZED (4)" },
	{ CUABI_CONTAINED, -EIO, "CUDA_ERROR_" },
	{ CUABI_TENSOR_MEMORY_LEAK, -EIO, "CUDA_ERROR_" },
	{ CUABI_MPS_CLIENT_TERMINATED, -EIO, "(810)" },
	{ CUABI_EXTERNAL_DEVICE, -EIO, "(911)" },
	/* None by its name, but that the context keeps it. */
	{ CUABI_UNKNOWN, -EIO, "CUDA_ERROR_UNKNOWN (999)" },
	{ CUABI_DEVICE_UNAVAILABLE, -EIO, "CUDA_ERROR_DEVICE_UNAVAILABLE (46)" },
	{ CUABI_INVALID_CONTEXT, -EIO, "CUDA_ERROR_INVALID_CONTEXT (201)" },
	{ .ret = 0 }
};

static const struct queue_failure opens[] = {
	{ "cuInit", CUABI_STUB_LIBRARY, -ENODEV, "" },
	{ "cuInit", CUABI_OUT_OF_MEMORY, -ENOMEM, "" },
	{ "cuDeviceGetCount", CUABI_UNKNOWN, -EIO, "" },
	/* A result that the driver itself has no name for. */
	{ "cuDeviceGetCount", 12345, -EIO, "(12345)" },
	{ "cuDeviceGet", CUABI_INVALID_DEVICE, -ENODEV, "" },
	{ "cuDeviceGetName", CUABI_NOT_PERMITTED, -EOPNOTSUPP, "" },
	{ "cuDriverGetVersion", CUABI_UNKNOWN, -EIO, "" },
	{ "cuDeviceGetUuid_v2", CUABI_NOT_SUPPORTED, -EOPNOTSUPP, "" },
	{ "cuDevicePrimaryCtxRetain", CUABI_DEVICE_UNAVAILABLE, -EIO, "" },
	{ "cuCtxPushCurrent_v2", CUABI_DEINITIALIZED, -ENODEV, "" },
	{ .call = NULL }
};

static const char *const selects[] = {
	"1", "uuid=c1000000000000000000000000000000",
	"uuid=C1000000000000000000000000000000", "pci=02:00.0", "pci=0000:02:00.0", NULL
};

static const struct queue_says infos[] = {
	{ "uuid=a7", "Fake PC", "CUDA 13.0", 13000, 0xa7, DLBUF_SYNC_EVENT, 256, 256 },
	{ .words = NULL }
};

static const struct queue_first serve[] = {
	{ "thor,memfds", NULL, ALL, DLBUF_PATH_DIRECT },
	{ "thor,memfds", NULL, HOST, DLBUF_PATH_HOST },
	{ "thor,memfds", NULL, COPY | BRIDGE, DLBUF_PATH_COPY },
	{ "", NULL, ALL, DLBUF_PATH_HOST },
	{ "", NULL, SHARED, DLBUF_PATH_HOST },
	{ "noregister", NULL, ALL, DLBUF_PATH_COPY },
	{ "grace,noregister", NULL, ALL, DLBUF_PATH_HOST },
	{ .words = NULL }
};

#ifdef CONFIG_BACKEND_VULKAN
/* Before the copy by the CPU. */
static const struct queue_first bridge_serves[] = {
	{ "noregister", NULL, ALL, DLBUF_PATH_BRIDGE },
	{ .words = NULL }
};
#endif

static int get_device(struct dlbuf_device *dev, bool whole, int64_t *version)
{
	struct dlbuf_cuda_device of = { .size = whole ? sizeof(of) : 0 };
	int ret = dlbuf_cuda_get_device(dev, &of);

	CHECK(ret || (of.context && !of.ordinal));
	*version = of.driver;
	return ret;
}

#define CALLS								\
	.device = "cuda", .walks = 20, .unknown = CUABI_UNKNOWN,	\
	.no_memory = CUABI_OUT_OF_MEMORY, .losses = losses,		\
	.opens = opens, .two = "two", .compares = "memfds,imports,wrongpages", \
	.no_order = DLBUF_STREAM_NO_ORDER,				\
	.calls = {							\
		[ENTER] = "cuCtxPushCurrent_v2",			\
		[STREAM_WAIT] = "cuStreamWaitEvent",			\
		[WAIT_FENCE] = "cuStreamWaitValue32_v2",		\
		[CALL_HOST] = "cuLaunchHostFunc",			\
		[COPY_IN] = "cuMemcpyHtoDAsync_v2",			\
		[COPY_OUT] = "cuMemcpyDtoHAsync_v2",			\
		[RECORD] = "cuEventRecord",				\
		[EVENT_CREATE] = "cuEventCreate", [SECOND] = "cuEventCreate", \
		[EVENT_QUERY] = "cuEventQuery",				\
		[ASK] = "cuStreamIsCapturing",				\
		[EVENT_WAIT] = "cuEventSynchronize",			\
		[FINISH] = "cuStreamSynchronize",			\
		[UNREGISTER] = "cuMemHostUnregister",			\
		[REGISTER] = "cuMemHostRegister_v2",			\
		[ALLOC] = "cuMemAlloc_v2",				\
		[ALLOC_HOST] = "cuMemHostAlloc",			\
		[FREE_HOST] = "cuMemFreeHost",				\
		[ADDRESS] = "cuMemHostGetDevicePointer_v2",		\
		[COUNT] = "cuDeviceGetCount",				\
		[NAME] = "cuDeviceGetName",				\
		[STREAM_CREATE] = "cuStreamCreate",			\
		[CLEAR] = "cuMemsetD8Async",				\
		[IMPORT_FD] = "cuImportExternalMemory",			\
		[MAP_FD] = "cuExternalMemoryGetMappedBuffer",		\
		[EXPORT_FD] = "cuMemGetHandleForAddressRange",		\
	}

static const struct queue_driver drivers[] = {
	{ "cuda", CALLS, .read_only = HOST | COPY, .reused = FAKE_HOST_MEMORY,
	  .first = serve, .selects = selects, .says = infos, .get = get_device,
	  .exports = "memfds", .alloc = app_alloc, .free = app_free, .memory = FAKE_DEVICE_MEMORY,
	  .no_pcie = "cuMemGetHandleForAddressRange: CUDA_ERROR_",
	  .words = { [DLBUF_PATH_DIRECT] = "thor,memfds",
		     [DLBUF_PATH_HOST] = "", [DLBUF_PATH_COPY] = "" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = "vulkan: " } },
	/* Callers wait for fences. */
	{ "nomemops", .device = "cuda", .walks = 20, .blocks = true, .read_only = COPY,
	  .words = { [DLBUF_PATH_COPY] = "nomemops,noregister" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "cuda: cuImportExternalMemory: "
				"CUDA_ERROR_NOT_SUPPORTED (801), operation not supported",
		       [DLBUF_PATH_HOST] = "cannot register host memory",
		       [DLBUF_PATH_BRIDGE] = "vulkan: " } },
	/* Registered memory has another address; there is no registered memory. */
	{ "alias", .device = "cuda", .walks = 20, .read_only = HOST,
	  .words = { [DLBUF_PATH_HOST] = "alias", [DLBUF_PATH_COPY] = "alias" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "cuImportExternalMemory",
		       [DLBUF_PATH_BRIDGE] = "vulkan: " } },
	{ "grace", .device = "cuda", .walks = 20, .read_only = HOST,
	  .words = { [DLBUF_PATH_HOST] = "grace,noregister",
		     [DLBUF_PATH_COPY] = "grace" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "cuImportExternalMemory",
		       [DLBUF_PATH_BRIDGE] = "vulkan: " } },
#ifdef CONFIG_BACKEND_VULKAN
	{ "bridge", .device = "cuda", .walks = 20, .losses = losses, .read_only = BRIDGE,
	  .first = bridge_serves,
	  .words = { [DLBUF_PATH_BRIDGE] = "noregister", [DLBUF_PATH_COPY] = "noregister" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "cuImportExternalMemory",
		       [DLBUF_PATH_HOST] = "cannot register host memory" } },
#endif
};

#include "queue_bridge.h"

static int try_open(struct dlbuf_device **dev)
{
	return dlbuf_device_open("cuda", NULL, dev);
}

#include "queue_cases.h"

/* So does each stream that CUDA has by itself. */
QUEUE_CASE(streams_without_a_handle_wait, HOST, WAITS)
{
	void *const handles[] = {
		NULL, DLBUF_CUDA_STREAM_LEGACY, DLBUF_CUDA_STREAM_PER_THREAD,
	};
	cuda_stream own = app.stream;

	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		fill(f.bytes, 1);
		memset(app.pinned, 0, IMPORT_BYTES);
		app.stream = handles[i];
		a_stream_waits_on();
		app.stream = own;
	}
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
