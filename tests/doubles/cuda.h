/* SPDX-License-Identifier: MIT */
/*
 * A double of libcuda.so.1 over the host's memory: a driver for machines
 * without one, which follows cuda.h and records calls that do not. It returns
 * the documented error, counts the call in wrong, and prints the broken rule on
 * stderr.
 *
 * Device memory lies at addresses that the CPU cannot touch. Streams run, each
 * on a thread of its own, in the order that CUDA promises and in no other.
 * Memory is registered if the kernel could pin it. An fd that is passed to an
 * import is the double's from then on, except a dma-buf's.
 *
 * cuMemFree(), cuMemFreeHost() and cuMemHostUnregister() wait for all work of the context's
 * streams, and every other call waits meanwhile. (Driver 580 on an H200 was seen to wait in
 * these three, and not in cuEventDestroy() or cuStreamDestroy(). After a loss it waits in
 * none, and calls no function that has not begun: tests/gpu/lost.)
 *
 * A freeing call that is made to fail, or that comes after the context is
 * lost, has freed nonetheless, as the error is an earlier call's; so has
 * cuCtxPopCurrent() popped. Asking for devices and changing the thread's
 * context work on a lost device.
 *
 * As with CUDA, nothing works in a child of a process that has initialised it.
 *
 * The environment's FAKE_CUDA has words, as preset() takes them: pc, thor,
 * grace, two, none, mismatch, nomemops, noregister, alias, noreadonly, noexport,
 * notimeline, memfds, privileged, strict, uuid=HH, and page7, half, hang, crash, leak,
 * faults of imports that `dmabuf-test matrix` has to find. It is read when
 * the library is loaded and on each reset.
 *
 * libcuda-old.so is the same without the functions that old drivers lack.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "backends/cuda/abi.h"
#include "common/driver.h"

/* Numbers of CUDA's that dlbuf has no use for; compared by tests/abi/cuda, too. */
enum {
	CUABI_NOT_INITIALIZED = 3,
	CUABI_DEVICE_UNAVAILABLE = 46,
	CUABI_INVALID_CONTEXT = 201,
	CUABI_OPERATING_SYSTEM = 304,
	CUABI_INVALID_HANDLE = 400,
	CUABI_NOT_FOUND = 500,
	CUABI_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUABI_HOST_MEMORY_NOT_REGISTERED = 713,
	CUABI_SYSTEM_NOT_READY = 802,
	CUABI_SYSTEM_DRIVER_MISMATCH = 803,
	CUABI_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUABI_STREAM_CAPTURE_INVALIDATED = 901,
	CUABI_UNKNOWN = 999,
	CUABI_ATTR_CAN_MAP_HOST_MEMORY = 19,
	CUABI_ATTR_UNIFIED_ADDRESSING = 41,
	CUABI_ATTR_COMPUTE_CAPABILITY_MAJOR = 75,
	CUABI_ATTR_COMPUTE_CAPABILITY_MINOR = 76,
	CUABI_ATTR_PAGEABLE_MEMORY_ACCESS = 88,
	CUABI_ATTR_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
	CUABI_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CUABI_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CUABI_POINTER_CONTEXT = 1,
	CUABI_POINTER_DEVICE_POINTER = 3,
	CUABI_POINTER_HOST_POINTER = 4,
	CUABI_MEMORYTYPE_DEVICE = 2,
	CUABI_SEMAPHORE_OPAQUE_FD = 1,
	CUABI_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
	CUABI_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CUABI_STREAM_CAPTURE_WRONG_THREAD = 908,
	CUABI_MEM_ATTACH_GLOBAL = 1,
};

enum fake_kind {
	FAKE_CONTEXT,		/* each time that one is retained, too */
	FAKE_DEVICE_MEMORY,	/* managed memory, too */
	FAKE_HOST_MEMORY,
	FAKE_REGISTRATION,
	FAKE_STREAM,
	FAKE_EVENT,
	FAKE_EXTERNAL_MEMORY,
	FAKE_MAPPED_BUFFER,
	FAKE_EXTERNAL_SEMAPHORE,
	FAKE_GRAPH,
	FAKE_MODULE,
	FAKE_PROGRAM,		/* of hiprtc */
	FAKE_KINDS
};

/* The fault of an imported dma-buf. */
enum fake_fault {
	FAKE_NO_FAULT,
	FAKE_PAGE7,		/* page 7 is another one */
	FAKE_HALF,		/* only half of it is there */
	FAKE_HANG,		/* a read never returns ... */
	FAKE_CRASH,		/* ... or ends the process */
	FAKE_INIT_HANG,		/* cuInit() does */
	FAKE_INIT_CRASH,
	FAKE_INIT_EXIT,		/* prints, and ends the process without an error */
	FAKE_LEAK,		/* an fd stays open */
};

struct fake_device {
	const char *name;
	uint8_t uuid;		/* its first byte */
	bool integrated;
	bool dmabuf_in;		/* imports DMABUF_FD ... */
	bool wrong_pages;	/* ... and reads others behind the first ones */
	bool no_register;
	bool alias;		/* registered memory has another address there */
	bool no_read_only;	/* does not register memory that may not be written */
	bool no_timeline;
	bool no_export;		/* of device memory */
	bool host_export;	/* of cuMemHostAlloc() */
	bool pageable;		/* any host memory is the device's */
	bool host_page_tables;	/* ... through the CPU's page tables */
	bool no_mem_ops;
	bool unordered;		/* peers' writes are seen after a flush */
	bool pcie;		/* exports over PCIe if asked to */
};

struct fake_cuda {
	DRIVER;
	/* The machine to be; fields about devices must be set before cuInit(). */
	int version;
	cuda_result init;		/* of cuInit() */
	unsigned int ndevices;
	struct fake_device devices[2];
	cuda_result dmabuf_result;	/* where there is no dmabuf_in */
	bool privileged;		/* may register IOMEMORY */
	enum fake_fault fault;
	bool memfd_exports;		/* memfds replace dma-bufs, in both directions */
	size_t piece;			/* memory is mapped in such pieces */
	bool keeps_blocks;		/* small memory goes back to its block, not to the kernel */
	cuda_result stream_gone;	/* the result of calls with a destroyed stream, if not 0 */
	unsigned int pageable_copies;	/* that it saw */
	void (*preset)(const char *words);
};

/* The one there is; anew after a reset. */
typedef struct fake_cuda *(*fake_cuda_fn)(bool reset);

/*
 * Functions that tests have a use for and dlbuf has none:
 * X(name, symbol, parameters).
 */
#define FAKE_CUDA_FUNCTIONS(X)						\
	X(CtxCreate, cuCtxCreate_v2,					\
	  (cuda_context *ctx, unsigned int flags, cuda_device dev))	\
	X(CtxDestroy, cuCtxDestroy_v2, (cuda_context ctx))		\
	X(CtxSetCurrent, cuCtxSetCurrent, (cuda_context ctx))		\
	X(GreenCtxCreate, cuGreenCtxCreate,				\
	  (cuda_green *green, void *desc, cuda_device dev, unsigned int flags)) \
	X(GreenCtxDestroy, cuGreenCtxDestroy, (cuda_green green))	\
	X(GreenCtxStreamCreate, cuGreenCtxStreamCreate,			\
	  (cuda_stream *stream, cuda_green green, unsigned int flags, int priority)) \
	X(CtxFromGreenCtx, cuCtxFromGreenCtx, (cuda_context *ctx, cuda_green green)) \
	X(MemAllocManaged, cuMemAllocManaged,				\
	  (cuda_pointer *p, size_t bytes, unsigned int flags))		\
	X(MemcpyHtoD, cuMemcpyHtoD_v2,					\
	  (cuda_pointer to, const void *from, size_t bytes))		\
	X(MemcpyDtoH, cuMemcpyDtoH_v2,					\
	  (void *to, cuda_pointer from, size_t bytes))			\
	X(StreamQuery, cuStreamQuery, (cuda_stream stream))		\
	X(StreamWriteValue32, cuStreamWriteValue32_v2,			\
	  (cuda_stream stream, cuda_pointer p, uint32_t value,		\
	   unsigned int flags))						\
	X(StreamBeginCapture, cuStreamBeginCapture_v2,			\
	  (cuda_stream stream, int mode))				\
	X(StreamEndCapture, cuStreamEndCapture,				\
	  (cuda_stream stream, void **graph))				\
	X(GraphDestroy, cuGraphDestroy, (void *graph))

/* The first bytes of an fd of a timeline semaphore. */
struct fake_timeline {
	_Atomic(uint64_t) value;
	uint64_t reserved;
};

#endif /* FAKE_CUDA_H */
