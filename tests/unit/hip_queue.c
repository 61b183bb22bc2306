// SPDX-License-Identifier: MIT
/* lib/queue on HIP, against the double of its driver (tests/doubles/hip.h). */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include "hip_backend.h"
#include "queue_driver.h"

static const struct queue_loss losses[] = {
	{ HIPABI_LAUNCH_FAILURE, -EIO, "hipErrorLaunchFailure (719)" },
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

#define CALLS								\
	.device = "hip", .unknown = HIPABI_UNKNOWN,			\
	.no_memory = HIPABI_OUT_OF_MEMORY, .losses = losses,		\
	.opens = opens, .two = "two", .compares = "amdgpu,memfds,wrongpages", \
	.no_order = DLBUF_HIP_STREAM_NO_ORDER,				\
	.reused = FAKE_HOST_MEMORY, .read_only = COPY,		\
	.calls = {							\
		[ENTER] = "hipGetDevice",				\
		[STREAM_WAIT] = "hipStreamWaitEvent",			\
		[WAIT_FENCE] = "hipStreamWaitValue32",			\
		[CALL_HOST] = "hipLaunchHostFunc",			\
		[COPY_IN] = "hipMemcpyHtoDAsync",			\
		[COPY_OUT] = "hipMemcpyDtoHAsync",			\
		[RECORD] = "hipEventRecord",				\
		[EVENT_CREATE] = "hipEventCreateWithFlags",		\
		[EVENT_QUERY] = "hipEventQuery",			\
		[EVENT_WAIT] = "hipEventSynchronize",			\
		[FINISH] = "hipStreamSynchronize",			\
		[UNREGISTER] = "hipHostUnregister",			\
		[REGISTER] = "hipHostRegister",				\
		[ALLOC] = "hipMalloc",					\
		[ALLOC_HOST] = "hipHostMalloc",				\
		[ADDRESS] = "hipHostGetDevicePointer",			\
		[COUNT] = "hipGetDeviceCount",				\
		[NAME] = "hipDeviceGetName",				\
		[STREAM_CREATE] = "hipStreamCreateWithFlags",		\
	}

static const struct queue_driver drivers[] = {
	{ "hip", CALLS,
	  .words = { [DLBUF_PATH_DIRECT] = "5.7,amdgpu,memfds",
		     [DLBUF_PATH_HOST] = "6.4", [DLBUF_PATH_COPY] = "5" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = "vulkan: " } },
	{ "hip-7", CALLS,
	  .words = { [DLBUF_PATH_DIRECT] = "7.1,amdgpu,memfds",
		     [DLBUF_PATH_HOST] = "7.1,alias", [DLBUF_PATH_COPY] = "7.1" },
	  .why_not = { [DLBUF_PATH_BRIDGE] = "vulkan: " } },
#ifdef CONFIG_BACKEND_VULKAN
	{ "bridge", .device = "hip", .losses = losses, .read_only = BRIDGE,
	  .words = { [DLBUF_PATH_BRIDGE] = "memfds", [DLBUF_PATH_HOST] = "memfds",
		     [DLBUF_PATH_COPY] = "memfds" },
	  .why_not = { [DLBUF_PATH_DIRECT] = "hipImportExternalMemory" } },
#endif
};

#ifdef CONFIG_BACKEND_VULKAN
#include "cuda_vulkan.h"

static bool is_bridged(void)
{
	return on->words[DLBUF_PATH_BRIDGE];
}

static void begin_one_or_both(const char *words)
{
	if (is_bridged())
		begin_both(words);
	else
		begin(words);
}

static void end_one_or_both(void)
{
	if (is_bridged())
		end_both();
	else
		end();
}
#define begin begin_one_or_both
#define end end_one_or_both
#endif

static int try_open(struct dlbuf_device **dev)
{
	return dlbuf_device_open("hip", NULL, dev);
}

#include "queue_cases.h"
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
