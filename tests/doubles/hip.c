// SPDX-License-Identifier: MIT
/* See hip.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/hip/api.h"
#include "common/words.h"
#include "cuda_objects.h"
#include "hip.h"

/* The compiler compares the definitions with dlbuf's declarations. */
#define X(name, needed, params) EXPORT hip_result hip##name params;
HIP_FUNCTIONS(X)
#undef X
#define X(name, params) EXPORT hiprtc_result hiprtc##name params;
HIPRTC_FUNCTIONS(X)
#undef X
#define X(name, params) EXPORT hip_result hip##name params;
FAKE_HIP_FUNCTIONS(X)
#undef X

EXPORT struct fake_cuda *fake_cuda(bool reset);

static struct fake_hip hip;

/* ---------------------------------------------------------------- calls */

/* Device 0 is a thread's first one. */
static void begin_call(const char *name)
{
	called_as = name;
	pthread_mutex_lock(&lock);
	if (!current())
		be_current(0);
	pthread_mutex_unlock(&lock);
}

/* The thread's. Since 7.0 a success keeps an earlier error, and 600 (not ready) is none. */
static __thread hip_result last_error;

static hip_result end_call(hip_result result)
{
	called_as = NULL;
	if (hip.version < 70000000 || (result && result != HIPABI_NOT_READY))
		last_error = result;
	return result;
}

hip_result hipPeekAtLastError(void)
{
	return last_error;
}

hip_result hipGetLastError(void)
{
	hip_result result = last_error;

	last_error = 0;
	return result;
}

/* The same call of CUDA's. */
#define AS(call) (begin_call(__func__), end_call(call))

/* A function that is this one of CUDA's. */
#define CALLS(name, params, call)					\
	hip_result hip##name params					\
	{								\
		return AS(call);					\
	}

/* A call that would end the process with the real driver. */
__attribute__((noreturn)) static void crash(const char *name, const char *why)
{
	fprintf(stderr, "# fake hip: %s: %s\n", name, why);
	abort();
}

static cuda_stream alive(const char *name, hip_stream s)
{
	bool gone;

	pthread_mutex_lock(&lock);
	gone = s && s != HIPABI_STREAM_PER_THREAD && s != HIPABI_STREAM_LEGACY &&
	       !object_of(s, FAKE_STREAM);
	pthread_mutex_unlock(&lock);
	if (gone && hip.version >= 70000000)
		crash(name, "the stream was destroyed");
	return (cuda_stream)s;
}

#define ON(s) alive(__func__, s)

/* Flags are against the rules. */
static unsigned int flags_of(const char *name, unsigned int flags, unsigned int known)
{
	if (flags & ~known)
		wrong("%s: flags %#x", name, flags);
	return flags & 3;
}

/* ---------------------------------------------------------------- devices */

hip_result hipInit(unsigned int flags)
{
	called_as = __func__;
	return end_call(cuInit(flags));
}

hip_result hipRuntimeGetVersion(int *version)
{
	hip_result result = AS(cuDriverGetVersion(version));

	*version = hip.version;
	return result;
}

static const struct result_text results[] = {
	{ 0, "hipSuccess", "no error" },
	{ 1, "hipErrorInvalidValue", "invalid argument" },
	{ 2, "hipErrorOutOfMemory", "out of memory" },
	{ 4, "hipErrorDeinitialized", "driver shutting down" },
	{ 100, "hipErrorNoDevice", "no ROCm-capable device is detected" },
	{ 101, "hipErrorInvalidDevice", "invalid device ordinal" },
	{ 709, "hipErrorContextIsDestroyed", "context is destroyed" },
	{ 719, "hipErrorLaunchFailure", "unspecified launch failure" },
	{ 801, "hipErrorNotSupported", "operation not supported" },
	{ 999, "hipErrorUnknown", "unknown error" },
};

hip_result hipDrvGetErrorName(hip_result code, const char **name)
{
	const struct result_text *t = TEXT_OF(results, code);

	if (t)
		*name = t->name;
	return t ? HIPABI_SUCCESS : HIPABI_INVALID_VALUE;
}

hip_result hipDrvGetErrorString(hip_result code, const char **text)
{
	const struct result_text *t = TEXT_OF(results, code);

	if (t)
		*text = t->text;
	return t ? HIPABI_SUCCESS : HIPABI_INVALID_VALUE;
}

CALLS(GetDeviceCount, (int *n), cuDeviceGetCount(n))
CALLS(DeviceGetName, (char *name, int size, hip_device_ordinal dev),
      cuDeviceGetName(name, size, dev))

/* 16 digits in ASCII. */
hip_result hipDeviceGetUuid(struct hip_uuid *uuid, hip_device_ordinal dev)
{
	struct cuda_uuid bytes;
	char digits[17];
	hip_result result = AS(cuDeviceGetUuid(&bytes, dev));

	if (!result) {
		snprintf(digits, sizeof(digits), "%02x%014x", bytes.bytes[0] & 0xff, 0);
		memcpy(uuid, digits, sizeof(*uuid));
	}
	return result;
}

hip_result hipDeviceGetAttribute(int *value, int attribute, int dev)
{
	/* The PCI addresses of Vulkan's double. */
	static const int pci[] = {
		[HIPABI_ATTR_PCI_DEVICE_ID] = 3, [HIPABI_ATTR_PCI_DOMAIN_ID] = 0x10,
	};
	hip_result result;

	result = AS(cuDeviceGetAttribute(value, CUABI_ATTR_PCI_BUS_ID, dev));
	if (!result && attribute != HIPABI_ATTR_PCI_BUS_ID)
		*value = pci[attribute];
	return result;
}

CALLS(GetDevice, (int *dev), cuCtxGetDevice(dev))

hip_result hipSetDevice(int dev)
{
	BEGIN_FREE(NEEDS_INIT)
	if (dev < 0 || (unsigned int)dev >= fake.ndevices)
		result = refuse(HIPABI_INVALID_DEVICE, "no such device");
	else
		be_current(dev);
	return end_call(end(result));
}

/* Refused while any stream captures, in every mode of the thread: the call ends the capture. */
hip_result hipDeviceSynchronize(void)
{
	bool captures;

	pthread_mutex_lock(&lock);
	captures = captures_end();
	pthread_mutex_unlock(&lock);
	return captures ? end_call(HIPABI_STREAM_CAPTURE_UNSUPPORTED) : AS(cuCtxSynchronize());
}

/* ---------------------------------------------------------------- memory */

static hip_result pointer(hip_result result, const cuda_pointer *p, void **out)
{
	if (!result)
		*out = (void *)(uintptr_t)*p;
	return result;
}

#define POINTER(call) pointer(AS(call), &p, out)

/* One that is of CUDA's, which gives p, where HIP gives a pointer. */
#define MAKES(name, params, call)					\
	hip_result hip##name params					\
	{								\
		cuda_pointer p;						\
									\
		return POINTER(call);					\
	}

MAKES(Malloc, (void **out, size_t bytes), cuMemAlloc_v2(&p, bytes))
MAKES(MallocManaged, (void **out, size_t bytes, unsigned int flags),
      cuMemAllocManaged(&p, bytes, flags))
CALLS(Free, (void *p), cuMemFree_v2((uintptr_t)p))

hip_result hipHostMalloc(void **p, size_t bytes, unsigned int flags)
{
	unsigned int known = HIPABI_HOST_MALLOC_PORTABLE |
			     HIPABI_HOST_MALLOC_MAPPED |
			     HIPABI_HOST_MALLOC_COHERENT;
	hip_result result;

	result = AS(cuMemHostAlloc(p, bytes, flags_of(__func__, flags, known)));
	if (!result) {
		pthread_mutex_lock(&lock);
		range_of_host((uintptr_t)*p)->flags |= flags;
		pthread_mutex_unlock(&lock);
	}
	return result;
}

CALLS(HostFree, (void *p), cuMemFreeHost(p))

/*
 * There is a flag for read-only memory, which the driver does not use. To register a
 * range again is a success that nothing undoes: a handle of the kernel stays.
 */
hip_result hipHostRegister(void *p, size_t bytes, unsigned int flags)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of_host((uintptr_t)p);
	if (r && (r->pointer != p || r->object.kind != FAKE_REGISTRATION))
		r = NULL;
	if (r)
		wrong("%s: the range is registered", __func__);
	pthread_mutex_unlock(&lock);
	return r ? HIPABI_SUCCESS : AS(cuMemHostRegister_v2(p, bytes, flags_of(__func__, flags,
		HIPABI_HOST_REGISTER_PORTABLE | HIPABI_HOST_REGISTER_MAPPED)));
}

CALLS(HostUnregister, (void *p), cuMemHostUnregister(p))
MAKES(HostGetDevicePointer, (void **out, void *host, unsigned int flags),
      cuMemHostGetDevicePointer_v2(&p, host, flags))
CALLS(MemsetD8Async, (hip_pointer p, unsigned char byte, size_t bytes, hip_stream s),
      cuMemsetD8Async((uintptr_t)p, byte, bytes, ON(s)))

/* One byte says whether memory is managed, and types have the version's numbers. */
hip_result hipPointerGetAttribute(void *value, int attribute, hip_pointer p)
{
	unsigned int n = 0;
	hip_result result;

	if (attribute == HIPABI_POINTER_DEVICE_ORDINAL)
		return AS(cuPointerGetAttribute(value, attribute, (uintptr_t)p));
	result = AS(cuPointerGetAttribute(&n, attribute, (uintptr_t)p));
	if (result)
		return result;
	if (attribute == HIPABI_POINTER_IS_MANAGED)
		*(bool *)value = n;
	else
		*(unsigned int *)value = hip.version < 60000000 ? n - 1 : n;
	return result;
}

/* Whether p is in memory that the driver did not allocate: imported, or registered. */
static bool is_theirs(const void *p)
{
	struct range *r;
	bool theirs;

	pthread_mutex_lock(&lock);
	r = range_of_device((uintptr_t)p);
	theirs = r && (r->object.kind == FAKE_MAPPED_BUFFER ||
		       r->object.kind == FAKE_REGISTRATION);
	pthread_mutex_unlock(&lock);
	return theirs;
}

/* The base is where the driver allocated the memory. */
hip_result hipMemGetAddressRange(hip_pointer *out, size_t *bytes, hip_pointer of)
{
	cuda_pointer p;
	hip_result result = AS(cuMemGetAddressRange_v2(&p, bytes, (uintptr_t)of));

	if (!result)
		*out = is_theirs(of) ? NULL : (void *)(uintptr_t)p;
	return result;
}

CALLS(MemcpyHtoDAsync, (hip_pointer to, void *from, size_t bytes, hip_stream s),
      cuMemcpyHtoDAsync_v2((uintptr_t)to, from, bytes, ON(s)))
CALLS(MemcpyDtoHAsync, (void *to, hip_pointer from, size_t bytes, hip_stream s),
      cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, ON(s)))

/* ---------------------------------------------------------------- exports */

/* Inodes of the dma-bufs that the double has made: these are amdgpu's. Under the lock. */
static ino_t exported[64];
static unsigned int nexported;

static hip_result export(cuda_pointer p, size_t bytes, unsigned long long flags,
			 int *fd)
{
	hip_result result = cuMemGetHandleForAddressRange(fd, p, bytes,
		CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);

	pthread_mutex_lock(&lock);
	if (!result)
		exported[nexported++ % ARRAY_SIZE(exported)] = inode_of(*fd);
	pthread_mutex_unlock(&lock);
	return result;
}

static bool is_amdgpu(int fd)
{
	ino_t inode = inode_of(fd);
	bool ours = hip.amdgpu;
	char path[40], name[40] = "";

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ARRAY_SIZE(exported); i++)
		ours |= inode && exported[i] == inode;
	pthread_mutex_unlock(&lock);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return ours || (readlink(path, name, sizeof(name) - 1) > 0 &&
			strstr(name, "shared memory"));
}

/*
 * The whole block of the kernel's memory there: memory of 2 MiB and less is a part of
 * such a block. Memory that was imported has none, and the driver looks into it.
 */
static cuda_pointer block_of(const char *name, const void *p, size_t *bytes)
{
	cuda_pointer block;

	if (is_theirs(p))
		crash(name, "the memory was imported");
	pthread_mutex_lock(&lock);
	block = block_around((uintptr_t)p, bytes);
	pthread_mutex_unlock(&lock);
	return block ? block : (uintptr_t)p;
}

hip_result hipMemGetHandleForAddressRange(void *handle, hip_pointer p, size_t bytes,
					  int type, unsigned long long flags)
{
	cuda_pointer from = block_of(__func__, p, &bytes);

	if (type != HIPABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		crash(__func__, "the type");
	return AS(export(from, bytes, flags, handle));
}

EXPORT hsa_result hsa_amd_portable_export_dmabuf(const void *p, size_t bytes, int *fd,
						 uint64_t *offset);
/* HSA_STATUS_ERROR_INVALID_AGENT: host memory; HSA_STATUS_ERROR. */
hsa_result hsa_amd_portable_export_dmabuf(const void *p, size_t bytes, int *fd,
					  uint64_t *offset)
{
	cuda_pointer from = block_of(__func__, p, &bytes);
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of_device((uintptr_t)p);
	pthread_mutex_unlock(&lock);
	if (r && r->object.kind == FAKE_HOST_MEMORY)
		return 0x1004;
	*offset = (uintptr_t)p - from + hip.before;
	if (hip.before) {
		*fd = memfd_create("amdgpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		return ftruncate(*fd, (off_t)(bytes + hip.before));
	}
	return AS(export(from, bytes, 0, fd)) ? 0x1000 : 0;
}

/* ---------------------------------------------------------------- externals */

/* Fields that came with HIP 6 have to be there, and zero. */
static void check_reserved(const char *name, const unsigned int *reserved)
{
	for (int i = 0; hip.version >= 60000000 && i < 16; i++)
		if (reserved[i])
			wrong("%s: reserved fields", name);
}

/*
 * The fd is the caller's in every case. All types are the same call. CUDA's double has
 * a dma-buf of its own.
 */
hip_result hipImportExternalMemory(hip_external_memory *memory,
				   const struct hip_memory_desc *desc)
{
	struct cuda_memory_desc cuda = {
		.type = CUABI_MEMORY_DMABUF_FD,
		.handle.fd = desc->handle.fd,
		.size = desc->size,
	};

	if (desc->type != HIPABI_EXTERNAL_MEMORY_OPAQUE_FD || desc->flags & ~1u)
		wrong("%s: type or flags", __func__);
	check_reserved(__func__, desc->reserved);
	/* As GET_DMABUF_INFO does: it cannot handle others. */
	if (!is_amdgpu(desc->handle.fd))
		cuda.flags = FAKE_FOREIGN;
	return AS(cuImportExternalMemory((cuda_external_memory *)memory, &cuda));
}

hip_result hipExternalMemoryGetMappedBuffer(void **out, hip_external_memory memory,
					    const struct hip_buffer_desc *desc)
{
	struct cuda_buffer_desc cuda = {
		.offset = desc->offset, .size = desc->size, .flags = desc->flags,
	};
	cuda_pointer p;

	check_reserved(__func__, desc->reserved);
	return POINTER(cuExternalMemoryGetMappedBuffer(&p, memory, &cuda));
}

CALLS(DestroyExternalMemory, (hip_external_memory memory),
      cuDestroyExternalMemory(memory))

/* ShouldNotReachHere(), with assertions. */
hip_result hipImportExternalSemaphore(void **semaphore, const void *desc)
{
	(void)semaphore, (void)desc;
	crash(__func__, "it is not for Linux");
}

/* A pointer to the fd before 7.1, and the fd since. */
hip_result hipMemImportFromShareableHandle(void **handle, void *fd, int type)
{
	(void)handle, (void)type;
	if (((uintptr_t)fd < 4096) != (hip.version >= 70100000))
		crash(__func__, "the fd is by value since 7.1, by pointer before");
	return HIPABI_NOT_SUPPORTED;
}

/* ---------------------------------------------------------------- streams */

CALLS(StreamCreateWithFlags, (hip_stream *s, unsigned int flags),
      cuStreamCreate((cuda_stream *)s, flags))
CALLS(StreamDestroy, (hip_stream s), cuStreamDestroy_v2(ON(s)))
CALLS(StreamSynchronize, (hip_stream s), cuStreamSynchronize(ON(s)))

/* The one call that looks at the stream first. */
hip_result hipStreamGetDevice(hip_stream s, hip_device_ordinal *dev)
{
	cuda_context ctx;
	hip_result result;

	if (s == HIPABI_STREAM_LEGACY)
		crash(__func__, "it is no stream");
	result = AS(cuStreamGetCtx((cuda_stream)s, &ctx));
	if (!result)
		*dev = ((struct context *)ctx)->device;
	return result;
}

CALLS(StreamIsCapturing, (hip_stream s, int *status),
      cuStreamIsCapturing(ON(s), status))
CALLS(ThreadExchangeStreamCaptureMode, (int *mode),
      cuThreadExchangeStreamCaptureMode(mode))
CALLS(StreamBeginCapture, (hip_stream s, int mode),
      cuStreamBeginCapture_v2(ON(s), mode))
CALLS(StreamEndCapture, (hip_stream s, void **graph),
      cuStreamEndCapture(ON(s), graph))
CALLS(GraphDestroy, (void *graph), cuGraphDestroy(graph))
CALLS(StreamWaitEvent, (hip_stream s, hip_event event, unsigned int flags),
      cuStreamWaitEvent(ON(s), (cuda_event)event, flags))

/* The CPU's stores are seen in memory that is coherent. */
hip_result hipStreamWaitValue32(hip_stream s, void *p, uint32_t value,
				unsigned int flags, uint32_t mask)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of_device((uintptr_t)p);
	if (mask != UINT32_MAX || (r && !(r->flags & HIPABI_HOST_MALLOC_COHERENT)))
		wrong("%s: the mask, or memory that is not coherent", __func__);
	pthread_mutex_unlock(&lock);
	return AS(cuStreamWaitValue32_v2(ON(s), (uintptr_t)p, value, flags));
}

CALLS(LaunchHostFunc, (hip_stream s, hip_host_fn fn, void *data),
      cuLaunchHostFunc(ON(s), fn, data))

/* ---------------------------------------------------------------- kernels */

#define ARCH "gfx90a:sramecc+:xnack-"

/* HIP 5 has it; later versions keep it for programs that were compiled with 5. */
hip_result hipGetDeviceProperties(struct hip_properties_5 *p, int dev)
{
	int n;
	hip_result result = AS(cuDeviceGetAttribute(&n, CUABI_ATTR_PCI_BUS_ID, dev));

	if (!result)
		*p = (struct hip_properties_5){ .gcnArchName = ARCH };
	return result;
}

hip_result hipGetDevicePropertiesR0600(struct hip_properties *p, int dev)
{
	int n;
	hip_result result = AS(cuDeviceGetAttribute(&n, CUABI_ATTR_PCI_BUS_ID, dev));

	if (!result)
		*p = (struct hip_properties){ .gcnArchName = ARCH };
	return result;
}

/* The code that hiprtc makes of the kernel for this GPU. */
static const char code[] = "\177ELF " ARCH;

hip_result hipModuleLoadData(hip_module *module, const void *image)
{
	static const char ptx[] = ".version 4.2\n.target sm_50\n.address_size 64\n"
				  ".visible .entry prepare(\n";

	return AS(cuModuleLoadData((cuda_module *)module,
				   memcmp(image, code, sizeof(code)) ? "" : ptx));
}

CALLS(ModuleUnload, (hip_module module), cuModuleUnload((cuda_module)module))
CALLS(ModuleGetFunction, (hip_function *f, hip_module module, const char *name),
      cuModuleGetFunction((cuda_function *)f, (cuda_module)module, name))
CALLS(ModuleLaunchKernel, (hip_function f, unsigned int gx, unsigned int gy, unsigned int gz,
			   unsigned int bx, unsigned int by, unsigned int bz,
			   unsigned int shared, hip_stream s, void **params, void **extra),
      cuLaunchKernel((cuda_function)f, gx, gy, gz, bx, by, bz, shared, ON(s), params, extra))

/* ---------------------------------------------------------------- hiprtc */

/* Results are hiprtcResult: invalid input, invalid program, invalid option. */
enum { RTC_INVALID_INPUT = 3, RTC_INVALID_PROGRAM, RTC_INVALID_OPTION };

struct program {
	struct object object;
	bool compiled;
};

hiprtc_result hiprtcCreateProgram(hiprtc_program *program, const char *source, const char *name,
				  int n, hiprtc_strings headers, hiprtc_strings names)
{
	BEGIN(0)
	if (n != 1 || strcmp(headers[0], prepare_text) || strcmp(names[0], "kernel.h") || !name ||
	    !strstr(source, "#include \"kernel.h\""))
		return end(refuse(RTC_INVALID_INPUT, "the source, or headers"));
	*program = make(FAKE_PROGRAM, sizeof(struct program), NULL, false);
	return end(0);
}

/* Without an option it looks for libamdhip64.so, which only the SDK has. */
hiprtc_result hiprtcCompileProgram(hiprtc_program program, int n, hiprtc_strings options)
{
	BEGIN(0)
	OBJECT(program, p, program, FAKE_PROGRAM, RTC_INVALID_PROGRAM)
	if (n != 1 || strcmp(options[0], "--offload-arch=" ARCH))
		return end(refuse(RTC_INVALID_OPTION, "the GPU"));
	p->compiled = true;
	return end(0);
}

static const char said[] = "prepare:1:1: error: as the test has it";

hiprtc_result hiprtcGetProgramLogSize(hiprtc_program program, size_t *bytes)
{
	BEGIN(0)
	OBJECT(program, p, program, FAKE_PROGRAM, RTC_INVALID_PROGRAM)
	*bytes = p->compiled ? 0 : sizeof(said);
	return end(0);
}

hiprtc_result hiprtcGetProgramLog(hiprtc_program program, char *log)
{
	BEGIN(0)
	OBJECT(program, p, program, FAKE_PROGRAM, RTC_INVALID_PROGRAM)
	if (!p->compiled)
		memcpy(log, said, sizeof(said));
	return end(0);
}

hiprtc_result hiprtcGetCodeSize(hiprtc_program program, size_t *bytes)
{
	BEGIN(0)
	OBJECT(program, p, program, FAKE_PROGRAM, RTC_INVALID_PROGRAM)
	*bytes = p->compiled ? sizeof(code) : 0;
	return end(0);
}

hiprtc_result hiprtcGetCode(hiprtc_program program, char *to)
{
	BEGIN(0)
	OBJECT(program, p, program, FAKE_PROGRAM, RTC_INVALID_PROGRAM)
	if (!p->compiled)
		return end(refuse(RTC_INVALID_PROGRAM, "it is not compiled"));
	memcpy(to, code, sizeof(code));
	return end(0);
}

hiprtc_result hiprtcDestroyProgram(hiprtc_program *program)
{
	BEGIN_FREE(0)
	OBJECT(program, p, *program, FAKE_PROGRAM, RTC_INVALID_PROGRAM)
	unmake(&p->object);
	*program = NULL;
	return end(result);
}

/* ---------------------------------------------------------------- events */

CALLS(EventCreateWithFlags, (hip_event *event, unsigned int flags),
      cuEventCreate((cuda_event *)event, flags))
CALLS(EventDestroy, (hip_event event), cuEventDestroy_v2((cuda_event)event))
CALLS(EventRecord, (hip_event event, hip_stream s),
      cuEventRecord((cuda_event)event, ON(s)))

hip_result hipEventQuery(hip_event event)
{
	bool gone;

	pthread_mutex_lock(&lock);
	gone = was(event, FAKE_EVENT);
	pthread_mutex_unlock(&lock);
	if (gone)
		crash(__func__, "the event was destroyed");
	return AS(cuEventQuery((cuda_event)event));
}

CALLS(EventSynchronize, (hip_event event),
      cuEventSynchronize((cuda_event)event))

/* ---------------------------------------------------------------- controls */

static const struct word words[] = {
	{ "amdgpu", .sets = { &hip.amdgpu } },
};

static void version(const char *word)
{
	int major, minor = 0;

	if (!strcmp(word, "noblocks"))
		fake.keeps_blocks = false;
	if (sscanf(word, "%d.%d", &major, &minor) >= 1)
		hip.version = major * 10000000 + minor * 100000;
}

EXPORT struct fake_hip *fake_hip(bool reset);
struct fake_hip *fake_hip(bool reset)
{
	const char *env = getenv("FAKE_HIP");

	if (!reset)
		return &hip;
	hip = (struct fake_hip){ .cuda = fake_cuda(true), .version = 60400000 };
	memset(exported, 0, sizeof(exported));
	fake.dmabuf_result = HIPABI_OUT_OF_MEMORY;
	fake.keeps_blocks = true;
	fake.stream_gone = HIPABI_CONTEXT_IS_DESTROYED;
	for (int i = 0; i < 2; i++) {
		fake.devices[i].name = "Fake Radeon", fake.devices[i].dmabuf_in = true;
		fake.devices[i].alias = true;
	}
	fake.preset(env);
	words_apply(env, words, ARRAY_SIZE(words), version);
	return &hip;
}

__attribute__((constructor)) static void loaded(void)
{
	fake_hip(true);
}
