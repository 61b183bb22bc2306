// SPDX-License-Identifier: MIT
/* See cuda.h: devices, contexts, the common beginning of all calls, and the controls. */
#include <errno.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/words.h"
#include "cuda_objects.h"

struct fake_cuda fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "cuda";

static struct context *primaries[2];
static unsigned int resets;

/* The state of a thread, until a reset. */
static __thread struct {
	unsigned int resets;
	unsigned int id;
	unsigned int depth;
	struct context *stack[32];
	int capture_mode;
} thread;
static unsigned int threads;

/* ---------------------------------------------------------------- calls */

static void thread_begin(void)
{
	if (thread.id && thread.resets == resets)
		return;
	thread.resets = resets;
	thread.id = ++threads;
	thread.depth = 0;
	thread.capture_mode = CUABI_STREAM_CAPTURE_MODE_GLOBAL;
}

unsigned int this_thread(void)
{
	return thread.id;
}

int *capture_mode(void)
{
	return &thread.capture_mode;
}

static int needs_own(unsigned int needs)
{
	if (needs & NEEDS_CONTEXT && !current())
		return refuse(CUABI_INVALID_CONTEXT, "no context is current");
	if (needs & NEEDS_CONTEXT && !current()->object.live)
		return refuse(CUABI_CONTEXT_IS_DESTROYED,
			      "the current context is no more");
	if (needs & NEEDS_DEVICE && fake.lost)
		return fake.lost;
	if (needs & UNSAFE && capture_forbids())
		return refuse(CUABI_STREAM_CAPTURE_UNSUPPORTED,
			      "while a stream captures");
	return CUABI_SUCCESS;
}

/* ---------------------------------------------------------------- objects */

/* The last first: a mapping is freed before its memory. */
static void (*const destroy[FAKE_KINDS])(struct object *o) = {
	[FAKE_DEVICE_MEMORY] = range_free,
	[FAKE_HOST_MEMORY] = range_free,
	[FAKE_REGISTRATION] = range_free,
	[FAKE_STREAM] = queue_free,
	[FAKE_EVENT] = event_free,
	[FAKE_EXTERNAL_MEMORY] = external_free,
	[FAKE_MAPPED_BUFFER] = range_free,
	[FAKE_EXTERNAL_SEMAPHORE] = external_free,
	[FAKE_GRAPH] = unmake,
	[FAKE_MODULE] = unmake,
	[FAKE_PROGRAM] = unmake,
};

const struct rules rules = {
	.in_function = CUABI_NOT_PERMITTED,
	.in_child = CUABI_NOT_INITIALIZED,
	.before_init = CUABI_NOT_INITIALIZED,
	.enter = thread_begin,
	.own = needs_own,
	.nkinds = FAKE_KINDS,
	.destroy = destroy,
};

/* ---------------------------------------------------------------- devices */

cuda_result cuInit(unsigned int flags)
{
	BEGIN(0)
	while (fake.fault == FAKE_INIT_HANG)
		pause();
	if (fake.fault == FAKE_INIT_CRASH)
		raise(SIGSEGV);
	if (fake.fault == FAKE_INIT_EXIT) {
		puts("the driver says so");
		fflush(stdout);
		_exit(0);
	}
	if (flags)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	if (!fake.init && !fake.ndevices)
		return end(CUABI_NO_DEVICE);
	initialised = !fake.init;
	return end(fake.init);
}

cuda_result cuDriverGetVersion(int *version)
{
	BEGIN(0)
	*version = fake.version;
	return end(CUABI_SUCCESS);
}

static const struct result_text results[] = {
	{ 0, "CUDA_SUCCESS", "no error" },
	{ 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
	{ 34, "CUDA_ERROR_STUB_LIBRARY",
	  "CUDA driver is a stub library" },
	{ 46, "CUDA_ERROR_DEVICE_UNAVAILABLE",
	  "CUDA-capable device(s) is/are busy or unavailable" },
	{ 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ 208, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE",
	  "uncorrectable ECC error encountered" },
	{ 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed" },
	{ 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE",
	  "uncorrectable NVLink error detected during the execution" },
	{ 221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
	  "PTX JIT compiler library not found" },
	{ 304, "CUDA_ERROR_OPERATING_SYSTEM",
	  "OS call failed or operation not supported on this OS" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ 600, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS",
	  "an illegal memory access was encountered" },
	{ 702, "CUDA_ERROR_LAUNCH_TIMEOUT",
	  "the launch timed out and was terminated" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ 710, "CUDA_ERROR_ASSERT", "device-side assert triggered" },
	{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	  "part or all of the requested memory range is already mapped" },
	{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "pointer does not correspond to a registered memory region" },
	{ 714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error" },
	{ 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	  "an illegal instruction was encountered" },
	{ 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address" },
	{ 717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	  "operation not supported on global/shared address space" },
	{ 718, "CUDA_ERROR_INVALID_PC", "invalid program counter" },
	{ 226, "CUDA_ERROR_CONTAINED", "contained error" },
	{ 721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory leak" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ 802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized" },
	{ 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	  "system has unsupported display driver / cuda driver combination" },
	{ 804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
	  "forward compatibility was attempted on non supported HW" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	  "operation would make the legacy stream depend on a capturing "
	  "blocking stream" },
	{ 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
	  "attempt to terminate a thread-local capture sequence from another "
	  "thread" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

cuda_result cuGetErrorName(cuda_result code, const char **name)
{
	const struct result_text *t = TEXT_OF(results, code);

	*name = t ? t->name : NULL;
	return t ? CUABI_SUCCESS : CUABI_INVALID_VALUE;
}

cuda_result cuGetErrorString(cuda_result code, const char **text)
{
	const struct result_text *t = TEXT_OF(results, code);

	*text = t ? t->text : NULL;
	return t ? CUABI_SUCCESS : CUABI_INVALID_VALUE;
}

static bool no_device(cuda_device dev)
{
	return dev < 0 || (unsigned int)dev >= fake.ndevices;
}

#define HAS(dev)							\
	if (no_device(dev))						\
		return end(refuse(CUABI_INVALID_DEVICE, "no such device"));

cuda_result cuDeviceGetCount(int *n)
{
	BEGIN(NEEDS_INIT)
	*n = (int)fake.ndevices;
	return end(CUABI_SUCCESS);
}

cuda_result cuDeviceGet(cuda_device *dev, int n)
{
	BEGIN(NEEDS_INIT)
	if (no_device(n))
		return end(refuse(CUABI_INVALID_DEVICE, "no such ordinal"));
	*dev = n;
	return end(CUABI_SUCCESS);
}

cuda_result cuDeviceGetName(char *name, int size, cuda_device dev)
{
	BEGIN(NEEDS_INIT)
	HAS(dev)
	if (size <= 0)
		return end(refuse(CUABI_INVALID_VALUE, "no room"));
	snprintf(name, (size_t)size, "%s", fake.devices[dev].name);
	return end(CUABI_SUCCESS);
}

#define GETS_UUID(name)							\
	cuda_result name(struct cuda_uuid *uuid, cuda_device dev)	\
	{								\
		BEGIN(NEEDS_INIT)					\
		HAS(dev)						\
		*uuid = (struct cuda_uuid){				\
			.bytes[0] = (char)fake.devices[dev].uuid,	\
		};							\
		return end(CUABI_SUCCESS);				\
	}
GETS_UUID(cuDeviceGetUuid)
GETS_UUID(cuDeviceGetUuid_v2)

/* -1 if there is no such attribute. */
static int attribute_of(const struct fake_device *d, int attribute)
{
	switch (attribute) {
	case CUABI_ATTR_INTEGRATED:
		return d->integrated;
	case CUABI_ATTR_CAN_MAP_HOST_MEMORY:
	case CUABI_ATTR_UNIFIED_ADDRESSING:
		return 1;
	case CUABI_ATTR_PCI_BUS_ID:
		return 1 + (int)(d - fake.devices);
	case CUABI_ATTR_PCI_DEVICE_ID:
	case CUABI_ATTR_PCI_DOMAIN_ID:
	case CUABI_ATTR_COMPUTE_CAPABILITY_MINOR:
		return 0;
	case CUABI_ATTR_COMPUTE_CAPABILITY_MAJOR:
		return 9;
	case CUABI_ATTR_PAGEABLE_MEMORY_ACCESS:
		return d->pageable;
	case CUABI_ATTR_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
		return d->host_page_tables;
	case CUABI_ATTR_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
		return !d->alias;
	case CUABI_ATTR_HOST_REGISTER_SUPPORTED:
		return !d->no_register;
	case CUABI_ATTR_READ_ONLY_HOST_REGISTER_SUPPORTED:
		return !d->no_read_only;
	case CUABI_ATTR_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
		return !d->no_timeline;
	case CUABI_ATTR_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
		return CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
	case CUABI_ATTR_GPU_DIRECT_RDMA_WRITES_ORDERING:
		return d->unordered ? 0 :
		       CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
	case CUABI_ATTR_DMA_BUF_SUPPORTED:
		return !d->no_export;
	case CUABI_ATTR_HOST_ALLOC_DMA_BUF_SUPPORTED:
		return fake.version >= 13000 ? d->host_export : -1;
	default:
		return -1;
	}
}

cuda_result cuDeviceGetAttribute(int *value, int attribute, cuda_device dev)
{
	int v;

	BEGIN(NEEDS_INIT)
	HAS(dev)
	v = attribute_of(&fake.devices[dev], attribute);
	if (v < 0)
		return end(CUABI_INVALID_VALUE);
	*value = v;
	return end(CUABI_SUCCESS);
}

/* ---------------------------------------------------------------- contexts */

struct context *top(void)
{
	return thread.depth ? thread.stack[thread.depth - 1] : NULL;
}

struct context *current(void)
{
	struct context *ctx = top();

	return ctx && ctx->of ? ctx->of : ctx;
}

const struct fake_device *device_of(const struct context *ctx)
{
	return &fake.devices[ctx->device];
}

static struct context *context_make(int dev, bool ours)
{
	struct context *ctx = make(FAKE_CONTEXT, sizeof(*ctx), NULL, ours);

	ctx->device = dev;
	ctx->legacy = queue_make(ctx, true, true, true);
	return ctx;
}

static struct context *primary_of(int dev)
{
	struct context *ctx = primaries[dev];

	if (!ctx) {
		ctx = primaries[dev] = context_make(dev, true);
		ctx->primary = true;
	}
	if (!ctx->object.live) {
		ctx->object.live = true;
		ctx->legacy = queue_make(ctx, true, true, true);
	}
	return ctx;
}

void be_current(int dev)
{
	thread_begin();
	thread.depth = 1;
	thread.stack[0] = primary_of(dev);
	if (!thread.stack[0]->retained)
		thread.stack[0]->retained = 1;
}

cuda_result cuDevicePrimaryCtxRetain(cuda_context *out, cuda_device dev)
{
	struct context *ctx;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	HAS(dev)
	ctx = primary_of(dev);
	ctx->retained++;
	fake.live[FAKE_CONTEXT]++;
	fake.made[FAKE_CONTEXT]++;
	*out = (cuda_context)ctx;
	return end(CUABI_SUCCESS);
}

cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device dev)
{
	struct context *ctx;

	/* A lost device's, too: tests/gpu/lost on an H200. */
	BEGIN_FREE(NEEDS_INIT)
	HAS(dev)
	ctx = primaries[dev];
	if (!ctx || !ctx->retained)
		return end(refuse(CUABI_INVALID_CONTEXT, "it is not retained"));
	fake.live[FAKE_CONTEXT]--;
	if (--ctx->retained)
		return end(result);
	if (destroy_all_of(ctx))
		wrong("%s: the context still has objects", call);
	ctx->object.live = false;
	return end(result);
}

cuda_result cuCtxGetCurrent(cuda_context *ctx)
{
	BEGIN(NEEDS_INIT)
	*ctx = (cuda_context)top();
	return end(CUABI_SUCCESS);
}

static cuda_result push(const void *handle)
{
	struct context *ctx = object_of(handle, FAKE_CONTEXT);

	if (!ctx)
		return refuse(CUABI_INVALID_CONTEXT, "it is no live context");
	if (thread.depth == ARRAY_SIZE(thread.stack))
		return refuse(CUABI_OUT_OF_MEMORY, "the stack is full");
	thread.stack[thread.depth++] = ctx;
	return CUABI_SUCCESS;
}

cuda_result cuCtxPushCurrent_v2(cuda_context ctx)
{
	BEGIN(NEEDS_INIT)
	return end(push(ctx));
}

cuda_result cuCtxPopCurrent_v2(cuda_context *ctx)
{
	BEGIN_FREE(NEEDS_INIT)
	if (!thread.depth)
		return end(refuse(CUABI_INVALID_CONTEXT, "the stack is empty"));
	if (ctx)
		*ctx = (cuda_context)top();
	thread.depth--;
	return end(result);
}

cuda_result cuCtxSetCurrent(cuda_context ctx)
{
	BEGIN(NEEDS_INIT)
	if (ctx && !object_of(ctx, FAKE_CONTEXT))
		return end(refuse(CUABI_INVALID_CONTEXT,
				  "it is no live context"));
	if (thread.depth)
		thread.depth--;
	return end(ctx ? push(ctx) : CUABI_SUCCESS);
}

cuda_result cuCtxGetDevice(cuda_device *dev)
{
	BEGIN(NEEDS_INIT | NEEDS_CONTEXT)
	*dev = current()->device;
	return end(CUABI_SUCCESS);
}

cuda_result cuCtxCreate_v2(cuda_context *out, unsigned int flags,
			   cuda_device dev)
{
	struct context *ctx;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	HAS(dev)
	ctx = context_make(dev, false);
	*out = (cuda_context)ctx;
	return end(push(ctx));
}

cuda_result cuCtxDestroy_v2(cuda_context handle)
{
	struct context *ctx;

	BEGIN_FREE(NEEDS_INIT | NEEDS_DEVICE)
	ctx = object_of(handle, FAKE_CONTEXT);
	if (!ctx || ctx->primary)
		return end(refuse(CUABI_INVALID_CONTEXT,
				  "it is not of cuCtxCreate()"));
	destroy_all_of(ctx);
	unmake(&ctx->object);
	if (current() == ctx)
		thread.depth--;
	return end(result);
}

/*
 * A green context is a part of a GPU. A stream is made for it, and as a CUcontext it is current;
 * all that is made then is the primary context's. After its end each call with its streams but
 * cuStreamDestroy() says that they are detached.
 */
cuda_result cuGreenCtxCreate(cuda_green *out, void *desc, cuda_device dev, unsigned int flags)
{
	struct context *green;

	(void)desc;
	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	HAS(dev)
	if (flags != 1)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	green = make(FAKE_CONTEXT, sizeof(*green), NULL, false);
	green->device = dev;
	green->of = primary_of(dev);
	*out = (cuda_green)green;
	return end(CUABI_SUCCESS);
}

cuda_result cuGreenCtxDestroy(cuda_green handle)
{
	struct context *green;

	BEGIN_FREE(NEEDS_INIT | NEEDS_DEVICE)
	green = object_of(handle, FAKE_CONTEXT);
	if (!green || !green->of)
		return end(refuse(CUABI_INVALID_CONTEXT, "it is no green context"));
	unmake(&green->object);
	return end(result);
}

cuda_result cuCtxFromGreenCtx(cuda_context *ctx, cuda_green green)
{
	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	*ctx = object_of(green, FAKE_CONTEXT);
	return end(*ctx ? CUABI_SUCCESS : CUABI_INVALID_CONTEXT);
}

/* ---------------------------------------------------------------- controls */

#define BOTH(word, field) \
	{ word, .sets = { &fake.devices[0].field, &fake.devices[1].field } }
#define FAULT(word, which) { word, .number = &fake.fault, .value = which }
static const struct word words[] = {
	BOTH("nomemops", no_mem_ops),
	BOTH("noregister", no_register),
	BOTH("alias", alias),
	BOTH("noreadonly", no_read_only),
	BOTH("noexport", no_export),
	BOTH("imports", dmabuf_in),
	BOTH("wrongpages", wrong_pages),
	BOTH("notimeline", no_timeline),
	FAULT("page7", FAKE_PAGE7),
	FAULT("half", FAKE_HALF),
	FAULT("hang", FAKE_HANG),
	FAULT("crash", FAKE_CRASH),
	FAULT("leak", FAKE_LEAK),
	FAULT("inithang", FAKE_INIT_HANG),
	FAULT("initcrash", FAKE_INIT_CRASH),
	FAULT("initexit", FAKE_INIT_EXIT),
	{ "memfds", .sets = { &fake.memfd_exports } },
	{ "privileged", .sets = { &fake.privileged } },
	{ "strict", .sets = { &fake.strict } },
	{ "two", .number = &fake.ndevices, .value = 2 },
	{ "thor", .sets = { &fake.devices[0].integrated,
			    &fake.devices[0].dmabuf_in } },
	{ "grace", .sets = { &fake.devices[0].pageable,
			     &fake.devices[0].host_page_tables } },
};

static void other_word(const char *word)
{
	if (!strcmp(word, "none"))
		fake.init = CUABI_NO_DEVICE;
	else if (!strcmp(word, "mismatch"))
		fake.init = CUABI_SYSTEM_DRIVER_MISMATCH;
	else if (!strncmp(word, "uuid=", 5))
		fake.devices[0].uuid = (uint8_t)strtoul(word + 5, NULL, 16);
}

static void preset(const char *text)
{
	words_apply(text, words, ARRAY_SIZE(words), other_word);
	if (fake.devices[0].integrated)
		fake.devices[0].name = "Fake Thor";
	if (fake.devices[0].pageable)
		fake.devices[0].name = "Fake Grace";
}

static void clear(void)
{
	clear_objects();
	blocks_drop();
	memset(primaries, 0, sizeof(primaries));
	resets++;
}

EXPORT struct fake_cuda *fake_cuda(bool reset);
EXPORT struct fake_cuda *fake_cuda(bool reset)
{
	if (!reset)
		return &fake;
	clear();
	fake = (struct fake_cuda){
		.version = 13000,
		.ndevices = 1,
		.devices = {
			{ .name = "Fake PC", .uuid = 0xc0 },
			{ .name = "Fake PC", .uuid = 0xc1 },
		},
		.dmabuf_result = CUABI_NOT_SUPPORTED,
		.result = CUABI_UNKNOWN,
		.lose = lose,
		.preset = preset,
	};
	preset(getenv("FAKE_CUDA"));
	return &fake;
}

LOADED(fake_cuda, clear)
