// SPDX-License-Identifier: MIT
/* lib/queue on HIP, against the double of its driver (tests/doubles/hip.h). */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include "hip_backend.h"
#include "queue_driver.h"

static const struct queue_loss losses[] = {
	{ HIPABI_LAUNCH_FAILURE, -EIO, "hipErrorLaunchFailure (719)" },
	{ HIPABI_UNKNOWN, -EIO, "hipErrorUnknown (999)" },
	{ .ret = 0 }
};

static const struct queue_failure opens[] = {
	{ "hipInit", HIPABI_INSUFFICIENT_DRIVER, -ENODEV, "" },
	{ "hipInit", HIPABI_UNKNOWN, -EIO, "" },
	{ "hipGetDeviceCount", 12345, -EIO,
	  "hip: hipGetDeviceCount: a hipError_t (12345), unknown" },
	{ "hipDeviceGetName", HIPABI_INVALID_DEVICE, -ENODEV, "" },
	{ "hipRuntimeGetVersion", HIPABI_OUT_OF_MEMORY, -ENOMEM, "" },
	{ "hipDeviceGetUuid", HIPABI_NOT_SUPPORTED, -EOPNOTSUPP, "" },
	{ "hipGetDevice", HIPABI_DEINITIALIZED, -ENODEV, "hip: hipSetDevice" },
	{ .call = NULL }
};

static const char *const selects[] = {
	"1", "uuid=63313030303030303030303030303030", "pci=0010:02:03.0", NULL
};

static const struct queue_says infos[] = {
	{ "5.7,uuid=a7", "Fake Radeon", "HIP 5.7", 50700000, 0x61, DLBUF_SYNC_EVENT, 256, 256 },
	{ "6.4,uuid=a7", "Fake Radeon", "HIP 6.4", 60400000, 0x61, DLBUF_SYNC_EVENT, 256, 256 },
	{ "7,uuid=a7", "Fake Radeon", "HIP 7.0", 70000000, 0x61, DLBUF_SYNC_EVENT, 256, 256 },
	{ "10.1,uuid=a7", "Fake Radeon", "HIP 10.1", 100100000, 0x61, DLBUF_SYNC_EVENT,
	  256, 256 },
	{ .words = NULL }
};

static const struct queue_first serve[] = {
	{ "amdgpu,memfds", NULL, ALL, DLBUF_PATH_DIRECT },
	{ "6.4,amdgpu,memfds", NULL, ALL, DLBUF_PATH_DIRECT },
	{ "", NULL, ALL, DLBUF_PATH_HOST },
	{ "", "hipHostRegister", ALL, DLBUF_PATH_COPY },
	{ "amdgpu,memfds", NULL, COPY | BRIDGE, DLBUF_PATH_COPY },
	{ .words = NULL }
};

static int get_device(struct dlbuf_device *dev, bool whole, int64_t *version)
{
	struct dlbuf_hip_device of = { .size = whole ? sizeof(of) : 0, .ordinal = 7 };
	int ret = dlbuf_hip_get_device(dev, &of);

	CHECK(ret || !of.ordinal);
	*version = of.runtime;
	return ret;
}

#define EXPORTS_ALL							\
	.exports_all = true, .least = 4 << 20, .alloc = app_alloc, .free = app_free,	\
	.memory = FAKE_DEVICE_MEMORY

#define CALLS(export_call)						\
	.device = "hip", .walks = 20, .unknown = HIPABI_UNKNOWN,	\
	.no_memory = HIPABI_OUT_OF_MEMORY, .losses = losses,		\
	.opens = opens, .two = "two", .compares = "amdgpu,memfds,wrongpages", \
	.no_order = DLBUF_STREAM_NO_ORDER,				\
	.lies = true, .stale = 1, .reused = FAKE_HOST_MEMORY, .read_only = COPY, \
	.calls = {							\
		[ENTER] = "hipGetDevice",				\
		[STREAM_WAIT] = "hipStreamWaitEvent",			\
		[WAIT_FENCE] = "hipStreamWaitValue32",			\
		[CALL_HOST] = "hipLaunchHostFunc",			\
		[COPY_IN] = "hipMemcpyHtoDAsync",			\
		[COPY_OUT] = "hipMemcpyDtoHAsync",			\
		[RECORD] = "hipEventRecord",				\
		[EVENT_CREATE] = "hipEventCreateWithFlags",		\
		[SECOND] = "hipEventCreateWithFlags",			\
		[EVENT_QUERY] = "hipEventQuery",			\
		[ASK] = "hipStreamIsCapturing",				\
		[EVENT_WAIT] = "hipEventSynchronize",			\
		[FINISH] = "hipStreamSynchronize",			\
		[UNREGISTER] = "hipHostUnregister",			\
		[REGISTER] = "hipHostRegister",				\
		[ALLOC] = "hipMalloc",					\
		[ALLOC_HOST] = "hipHostMalloc",				\
		[FREE_HOST] = "hipHostFree",				\
		[ADDRESS] = "hipHostGetDevicePointer",			\
		[COUNT] = "hipGetDeviceCount",				\
		[NAME] = "hipDeviceGetName",				\
		[STREAM_CREATE] = "hipStreamCreateWithFlags",		\
		[CLEAR] = "hipMemsetD8Async",				\
		[IMPORT_FD] = "hipImportExternalMemory",		\
		[MAP_FD] = "hipExternalMemoryGetMappedBuffer",		\
		[EXPORT_FD] = export_call,					\
	}

static const struct queue_driver drivers[] = {
	{ "hip", CALLS(NULL), .first = serve, .selects = selects, .says = infos, .get = get_device,
	  .words = { [DLBUF_PATH_DIRECT] = "5.7,amdgpu,memfds",
		     [DLBUF_PATH_HOST] = "6.4", [DLBUF_PATH_COPY] = "5" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = "vulkan: " } },
	{ "hip-7", CALLS("hipMemGetHandleForAddressRange"), EXPORTS_ALL,
	  .exports = "memfds,7.1",
	  .no_pcie = "hipMemGetHandleForAddressRange: hipErrorNotSupported (801)",
	  .words = { [DLBUF_PATH_DIRECT] = "7.1,amdgpu,memfds",
		     [DLBUF_PATH_HOST] = "7.1,alias", [DLBUF_PATH_COPY] = "7.1" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = "vulkan: " } },
	/* By HSA's call, as HIP has none. */
	{ "hsa", CALLS(NULL), EXPORTS_ALL, .library = "libhip-old.so",
	  .exports = "memfds,6.4",
	  .no_pcie = "HIP 6.4 exports no device memory over PCI Express" },
#ifdef CONFIG_BACKEND_VULKAN
	{ "bridge", .device = "hip", .walks = 20, .losses = losses, .read_only = BRIDGE,
	  .words = { [DLBUF_PATH_BRIDGE] = "memfds", [DLBUF_PATH_HOST] = "memfds",
		     [DLBUF_PATH_COPY] = "memfds" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "hipImportExternalMemory" } },
#endif
};

static void begin_of_library(const char *words)
{
	begin_with(on->library ? on->library : "libhip.so", words);
}
#define begin begin_of_library

#include "queue_bridge.h"

static int try_open(struct dlbuf_device **dev)
{
	return dlbuf_device_open("hip", NULL, dev);
}

#include "queue_cases.h"
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
