// SPDX-License-Identifier: MIT
/*
 * lib/backends/cuda/abi.h and the functions of api.h against a real cuda.h, and the
 * further numbers of the double.
 *
 * With __CUDA_API_VERSION_INTERNAL, cuda.h declares each symbol by its own name
 * and these are compared; without, it maps a plain name to the symbol that has
 * the newest signature, which has to be the one that api.h takes.
 */
#include <cuda.h>

#include "../doubles/cuda.h"
#include "backends/cuda/api.h"

#define NUMBER(ours, theirs) \
	_Static_assert((long long)(ours) == (long long)(theirs), \
		       #ours " is not " #theirs)
#define SAME(ours, theirs) \
	_Static_assert(__builtin_types_compatible_p(ours, theirs), \
		       #ours " is not " #theirs)
/* Two types of one size and one class: integers, or pointers. */
#define LIKE(ours, theirs) \
	_Static_assert(sizeof(ours) == sizeof(theirs) && \
		       _Alignof(ours) == _Alignof(theirs) && \
		       __builtin_classify_type((ours)0) == \
		       __builtin_classify_type((theirs)0), \
		       #ours " is not like " #theirs)
#define STRUCT(ours, theirs) \
	_Static_assert(sizeof(struct ours) == sizeof(theirs) && \
		       _Alignof(struct ours) == _Alignof(theirs), \
		       #ours " is not like " #theirs)
#define AT(ours, a, theirs, b) \
	_Static_assert(offsetof(struct ours, a) == offsetof(theirs, b), \
		       #ours "." #a " is not where " #theirs "." #b " is")
#define FIELD2(ours, a, theirs, b) \
	AT(ours, a, theirs, b); \
	SAME(__typeof__(((struct ours *)0)->a), __typeof__(((theirs *)0)->b))
#define FIELD(ours, theirs, name) FIELD2(ours, name, theirs, name)
#define ENUM(ours, theirs, name) \
	AT(ours, name, theirs, name); \
	LIKE(__typeof__(((struct ours *)0)->name), \
	     __typeof__(((theirs *)0)->name))
#define END_OF(type, field) \
	(offsetof(type, field) + sizeof(((type *)0)->field))

#ifdef __CUDA_API_VERSION_INTERNAL

NUMBER(CUABI_SUCCESS, CUDA_SUCCESS);
#define ERROR(name) NUMBER(CUABI_##name, CUDA_ERROR_##name)
ERROR(INVALID_VALUE);
ERROR(OUT_OF_MEMORY);
ERROR(NOT_INITIALIZED);
ERROR(DEINITIALIZED);
ERROR(STUB_LIBRARY);
ERROR(DEVICE_UNAVAILABLE);
ERROR(NO_DEVICE);
ERROR(INVALID_DEVICE);
ERROR(INVALID_CONTEXT);
ERROR(NO_BINARY_FOR_GPU);
ERROR(ECC_UNCORRECTABLE);
ERROR(INVALID_PTX);
ERROR(NVLINK_UNCORRECTABLE);
ERROR(JIT_COMPILER_NOT_FOUND);
ERROR(UNSUPPORTED_PTX_VERSION);
ERROR(JIT_COMPILATION_DISABLED);
ERROR(OPERATING_SYSTEM);
ERROR(INVALID_HANDLE);
ERROR(NOT_FOUND);
ERROR(NOT_READY);
ERROR(ILLEGAL_ADDRESS);
ERROR(LAUNCH_TIMEOUT);
ERROR(CONTEXT_IS_DESTROYED);
ERROR(ASSERT);
ERROR(HOST_MEMORY_ALREADY_REGISTERED);
ERROR(HOST_MEMORY_NOT_REGISTERED);
ERROR(HARDWARE_STACK_ERROR);
ERROR(ILLEGAL_INSTRUCTION);
ERROR(MISALIGNED_ADDRESS);
ERROR(INVALID_ADDRESS_SPACE);
ERROR(INVALID_PC);
ERROR(LAUNCH_FAILED);
ERROR(NOT_PERMITTED);
ERROR(NOT_SUPPORTED);
ERROR(SYSTEM_NOT_READY);
ERROR(SYSTEM_DRIVER_MISMATCH);
ERROR(STREAM_CAPTURE_UNSUPPORTED);
ERROR(STREAM_CAPTURE_INVALIDATED);
ERROR(STREAM_CAPTURE_IMPLICIT);
ERROR(UNKNOWN);
ERROR(STREAM_CAPTURE_WRONG_THREAD);
ERROR(EXTERNAL_DEVICE);
#if CUDA_VERSION >= 11080
ERROR(MPS_CLIENT_TERMINATED);
#endif
#if CUDA_VERSION >= 13050
ERROR(STREAM_DETACHED);
#endif

#define ATTR(name) NUMBER(CUABI_ATTR_##name, CU_DEVICE_ATTRIBUTE_##name)
ATTR(INTEGRATED);
ATTR(CAN_MAP_HOST_MEMORY);
ATTR(PCI_BUS_ID);
ATTR(PCI_DEVICE_ID);
ATTR(UNIFIED_ADDRESSING);
ATTR(PCI_DOMAIN_ID);
ATTR(COMPUTE_CAPABILITY_MAJOR);
ATTR(COMPUTE_CAPABILITY_MINOR);
ATTR(PAGEABLE_MEMORY_ACCESS);
ATTR(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
ATTR(HOST_REGISTER_SUPPORTED);
ATTR(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
ATTR(READ_ONLY_HOST_REGISTER_SUPPORTED);
ATTR(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
ATTR(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
ATTR(GPU_DIRECT_RDMA_WRITES_ORDERING);
ATTR(DMA_BUF_SUPPORTED);
#if CUDA_VERSION >= 13000
ATTR(HOST_ALLOC_DMA_BUF_SUPPORTED);
#endif

#define FLAG(name) NUMBER(CUABI_##name, CU_##name)
FLAG(STREAM_NON_BLOCKING);
FLAG(EVENT_BLOCKING_SYNC);
FLAG(EVENT_DISABLE_TIMING);
FLAG(MEMHOSTREGISTER_PORTABLE);
FLAG(MEMHOSTREGISTER_DEVICEMAP);
FLAG(MEMHOSTREGISTER_IOMEMORY);
FLAG(MEMHOSTREGISTER_READ_ONLY);
FLAG(MEMHOSTALLOC_PORTABLE);
FLAG(MEMHOSTALLOC_DEVICEMAP);
FLAG(STREAM_WAIT_VALUE_GEQ);
FLAG(STREAM_CAPTURE_STATUS_NONE);
FLAG(STREAM_CAPTURE_STATUS_ACTIVE);
FLAG(STREAM_CAPTURE_STATUS_INVALIDATED);
FLAG(STREAM_CAPTURE_MODE_GLOBAL);
FLAG(STREAM_CAPTURE_MODE_THREAD_LOCAL);
FLAG(STREAM_CAPTURE_MODE_RELAXED);
FLAG(FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
FLAG(FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
FLAG(FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
NUMBER(CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER,
       CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
FLAG(MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
#if CUDA_VERSION >= 12080
ERROR(CONTAINED);
ERROR(TENSOR_MEMORY_LEAK);
FLAG(MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
#endif
FLAG(MEM_ATTACH_GLOBAL);
FLAG(MEMORYTYPE_HOST);
FLAG(MEMORYTYPE_DEVICE);
/* A pointer is not a constant expression, so the streams are compared as integers. */
#define CUstream uintptr_t
#define cuda_stream uintptr_t
NUMBER(CUABI_STREAM_LEGACY, CU_STREAM_LEGACY);
NUMBER(CUABI_STREAM_PER_THREAD, CU_STREAM_PER_THREAD);
#undef CUstream
#undef cuda_stream

#define POINTER(name) NUMBER(CUABI_POINTER_##name, CU_POINTER_ATTRIBUTE_##name)
POINTER(CONTEXT);
POINTER(MEMORY_TYPE);
POINTER(DEVICE_POINTER);
POINTER(HOST_POINTER);
POINTER(IS_MANAGED);
POINTER(DEVICE_ORDINAL);
POINTER(RANGE_START_ADDR);
POINTER(RANGE_SIZE);
POINTER(MEMPOOL_HANDLE);

NUMBER(CUABI_MEMORY_OPAQUE_FD, CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
#if CUDA_VERSION >= 13000
NUMBER(CUABI_MEMORY_DMABUF_FD, CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD);
#endif
NUMBER(CUABI_SEMAPHORE_OPAQUE_FD, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD);
NUMBER(CUABI_SEMAPHORE_TIMELINE_FD,
       CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD);
NUMBER(CUABI_EXTERNAL_MEMORY_DEDICATED, CUDA_EXTERNAL_MEMORY_DEDICATED);

STRUCT(cuda_uuid, CUuuid);
FIELD(cuda_uuid, CUuuid, bytes);

STRUCT(cuda_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
ENUM(cuda_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, type);
FIELD(cuda_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle.fd);
AT(cuda_memory_desc, handle, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle);
NUMBER(sizeof(union cuda_handle),
       sizeof(((CUDA_EXTERNAL_MEMORY_HANDLE_DESC *)0)->handle));
FIELD(cuda_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
FIELD(cuda_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags);
FIELD(cuda_memory_desc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, reserved);

STRUCT(cuda_buffer_desc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
FIELD(cuda_buffer_desc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, offset);
FIELD(cuda_buffer_desc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size);
FIELD(cuda_buffer_desc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags);
FIELD(cuda_buffer_desc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, reserved);

STRUCT(cuda_semaphore_desc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
ENUM(cuda_semaphore_desc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, type);
FIELD(cuda_semaphore_desc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, handle.fd);
AT(cuda_semaphore_desc, handle, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, handle);
FIELD(cuda_semaphore_desc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, flags);
FIELD(cuda_semaphore_desc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, reserved);

/* Fields that dlbuf does not use are one array before and one after the flags. */
#define PARAMS(theirs) \
	STRUCT(cuda_semaphore_params, theirs); \
	FIELD2(cuda_semaphore_params, value, theirs, params.fence.value); \
	AT(cuda_semaphore_params, reserved1, theirs, params.nvSciSync); \
	NUMBER(END_OF(struct cuda_semaphore_params, reserved1), \
	       END_OF(theirs, params)); \
	FIELD(cuda_semaphore_params, theirs, flags); \
	AT(cuda_semaphore_params, reserved2, theirs, reserved); \
	NUMBER(sizeof(struct cuda_semaphore_params), \
	       END_OF(struct cuda_semaphore_params, reserved2))
PARAMS(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
PARAMS(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS);

LIKE(cuda_result, CUresult);
LIKE(cuda_device_attribute, CUdevice_attribute);
LIKE(cuda_pointer_attribute, CUpointer_attribute);
LIKE(cuda_range_handle_type, CUmemRangeHandleType);
LIKE(cuda_capture_status, CUstreamCaptureStatus);
LIKE(cuda_capture_mode, CUstreamCaptureMode);
LIKE(cuda_flush_target, CUflushGPUDirectRDMAWritesTarget);
LIKE(cuda_flush_scope, CUflushGPUDirectRDMAWritesScope);
SAME(cuda_device, CUdevice);
SAME(cuda_pointer, CUdeviceptr);
SAME(cuda_host_fn, CUhostFn);
LIKE(cuda_context, CUcontext);
LIKE(cuda_stream, CUstream);
LIKE(cuda_event, CUevent);
#if CUDA_VERSION >= 12060
LIKE(cuda_green, CUgreenCtx);
#define cuda_green CUgreenCtx
#else
CUresult cuStreamGetCtx_v2(CUstream, CUcontext *, cuda_green *);
#endif
LIKE(cuda_external_memory, CUexternalMemory);
LIKE(cuda_external_semaphore, CUexternalSemaphore);
LIKE(cuda_module, CUmodule);
LIKE(cuda_function, CUfunction);

/* The types that have just been compared: from here on theirs for ours. */
#define cuda_result CUresult
#define cuda_device CUdevice
#define cuda_device_attribute CUdevice_attribute
#define cuda_pointer_attribute CUpointer_attribute
#define cuda_range_handle_type CUmemRangeHandleType
#define cuda_capture_status CUstreamCaptureStatus
#define cuda_capture_mode CUstreamCaptureMode
#define cuda_flush_target CUflushGPUDirectRDMAWritesTarget
#define cuda_flush_scope CUflushGPUDirectRDMAWritesScope
#define cuda_context CUcontext
#define cuda_stream CUstream
#define cuda_event CUevent
#define cuda_external_memory CUexternalMemory
#define cuda_external_semaphore CUexternalSemaphore
#define cuda_module CUmodule
#define cuda_function CUfunction
#define cuda_uuid CUuuid_st
#define cuda_memory_desc CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st
#define cuda_buffer_desc CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st
#define cuda_semaphore_desc CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st
/* Ours for both of theirs. */
#define cuda_semaphore_params CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st
#define X(name, symbol, needed, params) typedef CUresult wait_##name params;
CUDA_FUNCTIONS(X)
#undef X
#undef cuda_semaphore_params
#define cuda_semaphore_params CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st
#define X(name, symbol, needed, params) \
	typedef CUresult signal_##name params; \
	_Static_assert(__builtin_types_compatible_p(signal_##name, \
						    __typeof__(symbol)) || \
		       __builtin_types_compatible_p(wait_##name, \
						    __typeof__(symbol)), \
		       #symbol " has other parameters");
CUDA_FUNCTIONS(X)
#undef X

#else

/* Differences of a version's cuda.h from api.h, and the reasons. */
#if CUDA_VERSION < 12000
/* The first one requires a module parameter of the driver's. */
#undef cuStreamWaitValue32
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#endif
#if CUDA_VERSION >= 13000
/* Both are queried, because an old driver does not have the second. */
#undef cuDeviceGetUuid
#endif

#define STRING(s) STRING_(s)
#define STRING_(s) #s
#define X(name, symbol, needed, params) \
	_Static_assert(!__builtin_strcmp(STRING(cu##name), #symbol), \
		       "cuda.h takes another symbol than " #symbol);
CUDA_FUNCTIONS(X)
#undef X

#endif
