/* SPDX-License-Identifier: MIT */
/*
 * A double of libamdhip64.so over CUDA's (see cuda.h), whose streams, memory and
 * accounts it has: HIP's calls are made of CUDA's, in the context of the thread's
 * current device. This file has the parts that only HIP has.
 *
 * The environment's FAKE_HIP has a version (5, 6, 7, 7.1), and words: those of CUDA's
 * double that make sense here (two, none, nomemops, noregister, noexport, memfds,
 * strict), and
 *
 *   amdgpu	all dma-bufs are amdgpu's. Without it only those are that the double or
 *		Vulkan's double (as RADV) has exported, and others are refused as the driver
 *		refuses them: by hipErrorOutOfMemory
 *	noblocks	freed memory goes back to the kernel, so that its fds can be counted
 *
 * Memory of 2 MiB and less is a part of a block. The driver exports the block, and keeps it
 * for the next allocation. Registered memory has another address on the device. 6.4.3 over
 * tests/drivers/kfd.c does as this says and the comments in hip.c, but that it gives just 2
 * MiB back to the kernel.
 *
 * These end the process, as the driver's own do: any call but hipStreamGetDevice()
 * with a stream that was destroyed, since 7.0 (before, they return 709);
 * hipStreamGetDevice() with stream 1; hipEventQuery() of a destroyed event; an export of
 * memory that was imported; hipImportExternalSemaphore();
 * hipMemImportFromShareableHandle() with the fd as another version wants it.
 *
 * libhip-old.so is the same without hipMemGetHandleForAddressRange(), and is
 * libhsa-runtime64.so.1, too.
 */
#ifndef FAKE_HIP_H
#define FAKE_HIP_H

#include "backends/hip/abi.h"
#include "cuda.h"

/* Numbers of HIP's that dlbuf has no use for; compared by tests/abi/hip, too. */
enum {
	HIPABI_INVALID_VALUE = 1,
	HIPABI_STREAM_CAPTURE_UNSUPPORTED = 900,
	HIPABI_UNKNOWN = 999,
	HIPABI_MEMORY_TYPE_DEVICE_5 = 1,
	HIPABI_MEMORY_TYPE_DEVICE = 2,
	HIPABI_MEM_ATTACH_GLOBAL = 1,
};

struct fake_hip {
	struct fake_cuda *cuda;
	int version;		/* as hipRuntimeGetVersion() has it */
	bool amdgpu;
	uint64_t before;	/* number of bytes of other memory in HSA's exports */
};

/* The one there is; anew after a reset. */
typedef struct fake_hip *(*fake_hip_fn)(bool reset);

/* Functions that tests have a use for and dlbuf has none: X(name, parameters). */
#define FAKE_HIP_FUNCTIONS(X)						\
	X(MallocManaged, (void **p, size_t bytes, unsigned int flags))	\
	X(StreamBeginCapture, (hip_stream stream, int mode))		\
	X(StreamEndCapture, (hip_stream stream, void **graph))		\
	X(GraphDestroy, (void *graph))					\
	X(ImportExternalSemaphore, (void **semaphore, const void *desc)) \
	X(MemImportFromShareableHandle, (void **handle, void *fd, int type))

#endif /* FAKE_HIP_H */
