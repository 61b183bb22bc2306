/* SPDX-License-Identifier: MIT */
/*
 * The part of CUDA's driver API that dlbuf uses, as the ABI of libcuda.so.1. dlbuf
 * declares it here because cuda.h is proprietary, and so that one binary works with
 * every driver since CUDA 11.7. The names are those of cuda.h with another prefix,
 * so both headers can be included. tests/abi/cuda compares them with the cuda.h of
 * each CUDA version.
 *
 * The declarations are also right on 32-bit machines, for which NVIDIA no longer
 * makes a driver.
 */
#ifndef DLBUF_CUDA_ABI_H
#define DLBUF_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int cuda_result;		/* CUresult */
typedef int cuda_device;		/* CUdevice */
/* Enumerations. In C they are as wide as int, and all values fit. */
typedef int cuda_device_attribute;	/* CUdevice_attribute */
typedef int cuda_pointer_attribute;	/* CUpointer_attribute */
typedef int cuda_range_handle_type;	/* CUmemRangeHandleType */
typedef int cuda_capture_status;	/* CUstreamCaptureStatus */
typedef int cuda_capture_mode;		/* CUstreamCaptureMode */
typedef int cuda_flush_target;	/* CUflushGPUDirectRDMAWritesTarget */
typedef int cuda_flush_scope;	/* CUflushGPUDirectRDMAWritesScope */
typedef struct cuda_context_st *cuda_context;
typedef struct cuda_green_st *cuda_green;
typedef struct cuda_stream_st *cuda_stream;
typedef struct cuda_event_st *cuda_event;
typedef struct cuda_memory_st *cuda_external_memory;
typedef struct cuda_semaphore_st *cuda_external_semaphore;
typedef struct cuda_module_st *cuda_module;
typedef struct cuda_function_st *cuda_function;
typedef void (*cuda_host_fn)(void *data);
#if UINTPTR_MAX > UINT32_MAX
typedef unsigned long long cuda_pointer; /* CUdeviceptr */
#else
typedef unsigned int cuda_pointer;
#endif

struct cuda_uuid {
	char bytes[16];
};

/* CUDA_ERROR_* */
enum {
	CUABI_SUCCESS = 0,
	CUABI_INVALID_VALUE = 1,
	CUABI_OUT_OF_MEMORY = 2,
	CUABI_DEINITIALIZED = 4,
	CUABI_STUB_LIBRARY = 34,
	CUABI_NO_DEVICE = 100,
	CUABI_INVALID_DEVICE = 101,
	CUABI_NO_BINARY_FOR_GPU = 209,
	CUABI_ECC_UNCORRECTABLE = 214,
	CUABI_INVALID_PTX = 218,
	CUABI_NVLINK_UNCORRECTABLE = 220,
	CUABI_JIT_COMPILER_NOT_FOUND = 221,
	CUABI_UNSUPPORTED_PTX_VERSION = 222,	/* since 11.1 */
	CUABI_JIT_COMPILATION_DISABLED = 223,	/* since 11.2 */
	CUABI_CONTAINED = 226,		/* since 12.8 */
	CUABI_NOT_READY = 600,
	CUABI_ILLEGAL_ADDRESS = 700,
	CUABI_LAUNCH_TIMEOUT = 702,
	CUABI_CONTEXT_IS_DESTROYED = 709,
	CUABI_ASSERT = 710,
	CUABI_HARDWARE_STACK_ERROR = 714,
	CUABI_ILLEGAL_INSTRUCTION = 715,
	CUABI_MISALIGNED_ADDRESS = 716,
	CUABI_INVALID_ADDRESS_SPACE = 717,
	CUABI_INVALID_PC = 718,
	CUABI_LAUNCH_FAILED = 719,
	CUABI_TENSOR_MEMORY_LEAK = 721,	/* since 12.8 */
	CUABI_NOT_PERMITTED = 800,
	CUABI_NOT_SUPPORTED = 801,
	CUABI_MPS_CLIENT_TERMINATED = 810,	/* since 11.8 */
	CUABI_STREAM_CAPTURE_IMPLICIT = 906,
	CUABI_EXTERNAL_DEVICE = 911,
	CUABI_STREAM_DETACHED = 917,	/* since 13.5 */
};

/* CU_DEVICE_ATTRIBUTE_* */
enum {
	CUABI_ATTR_INTEGRATED = 18,
	CUABI_ATTR_PCI_BUS_ID = 33,
	CUABI_ATTR_PCI_DEVICE_ID = 34,
	CUABI_ATTR_PCI_DOMAIN_ID = 50,
	CUABI_ATTR_HOST_REGISTER_SUPPORTED = 99,
	CUABI_ATTR_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
	CUABI_ATTR_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
	CUABI_ATTR_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED = 114,
	CUABI_ATTR_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
	CUABI_ATTR_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
	CUABI_ATTR_DMA_BUF_SUPPORTED = 124,	/* export as dma-buf */
	CUABI_ATTR_HOST_ALLOC_DMA_BUF_SUPPORTED = 146, /* since 13.0 */
};

/* Flags. */
enum {
	CUABI_STREAM_NON_BLOCKING = 1,
	CUABI_EVENT_BLOCKING_SYNC = 1,
	CUABI_EVENT_DISABLE_TIMING = 2,
	CUABI_MEMHOSTREGISTER_PORTABLE = 1,
	CUABI_MEMHOSTREGISTER_DEVICEMAP = 2,
	CUABI_MEMHOSTREGISTER_IOMEMORY = 4,
	CUABI_MEMHOSTREGISTER_READ_ONLY = 8,
	CUABI_MEMHOSTALLOC_PORTABLE = 1,
	CUABI_MEMHOSTALLOC_DEVICEMAP = 2,
	CUABI_STREAM_WAIT_VALUE_GEQ = 0,
	CUABI_STREAM_CAPTURE_STATUS_NONE = 0,
	CUABI_STREAM_CAPTURE_MODE_RELAXED = 2,
	CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 1,
	CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0,
	CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100, /* also orders the writes */
	CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
	CUABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 1,
};

/* The two predefined streams of CUDA; DLPack uses the same numbers. */
#define CUABI_STREAM_LEGACY ((cuda_stream)(uintptr_t)1)
#define CUABI_STREAM_PER_THREAD ((cuda_stream)(uintptr_t)2)

/* CU_POINTER_ATTRIBUTE_*, and the values of MEMORY_TYPE (unsigned int). */
enum {
	CUABI_POINTER_MEMORY_TYPE = 2,		/* unsigned int */
	CUABI_POINTER_IS_MANAGED = 8,		/* unsigned int */
	CUABI_POINTER_DEVICE_ORDINAL = 9,	/* int */
	CUABI_POINTER_RANGE_START_ADDR = 11,	/* cuda_pointer */
	CUABI_POINTER_RANGE_SIZE = 12,		/* size_t */
	CUABI_POINTER_MEMPOOL_HANDLE = 17,	/* void * */
	CUABI_MEMORYTYPE_HOST = 1,
};

/* CUexternalMemoryHandleType, CUexternalSemaphoreHandleType */
enum {
	CUABI_MEMORY_OPAQUE_FD = 1,
	CUABI_MEMORY_DMABUF_FD = 9,
	CUABI_SEMAPHORE_TIMELINE_FD = 9,
	CUABI_EXTERNAL_MEMORY_DEDICATED = 1,	/* a flag */
};

union cuda_handle {
	int fd;
	void *win32[2];
};

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC */
struct cuda_memory_desc {
	int type;
	union cuda_handle handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

/* CUDA_EXTERNAL_MEMORY_BUFFER_DESC */
struct cuda_buffer_desc {
	unsigned long long offset;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

/* CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC */
struct cuda_semaphore_desc {
	int type;
	union cuda_handle handle;
	unsigned int flags;
	unsigned int reserved[16];
};

/*
 * CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and _WAIT_PARAMS. The two have the value and
 * the flags at the same places; dlbuf uses nothing else of them.
 */
struct cuda_semaphore_params {
	unsigned long long value;
	unsigned long long reserved1[8];
	unsigned int flags;
	unsigned int reserved2[17];
};

#endif /* DLBUF_CUDA_ABI_H */
