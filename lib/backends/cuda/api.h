/* SPDX-License-Identifier: MIT */
/*
 * CUDA's driver API, found at run time: the one list of its functions, and the
 * one way to call them. No runtime API, no toolkit.
 */
#ifndef DLBUF_CUDA_API_H
#define DLBUF_CUDA_API_H

#include <stdbool.h>

#include "../../dl.h"
#include "../../internal.h"
#include "../../sys.h"
#include "abi.h"

/*
 * X(name, symbol, needed, parameters): cu##name, the symbol that has this
 * signature, and whether dlbuf can do without it. Every driver since CUDA 11.0
 * has what is NEEDED.
 */
#define CUDA_FUNCTIONS(X)						\
	X(Init, cuInit, NEEDED, (unsigned int flags))			\
	X(DriverGetVersion, cuDriverGetVersion, NEEDED, (int *version))	\
	X(GetErrorName, cuGetErrorName, NEEDED,				\
	  (cuda_result result, const char **name))			\
	X(GetErrorString, cuGetErrorString, NEEDED,			\
	  (cuda_result result, const char **text))			\
	X(DeviceGetCount, cuDeviceGetCount, NEEDED, (int *n))		\
	X(DeviceGet, cuDeviceGet, NEEDED, (cuda_device *dev, int n))	\
	X(DeviceGetName, cuDeviceGetName, NEEDED,			\
	  (char *name, int size, cuda_device dev))			\
	X(DeviceGetUuid, cuDeviceGetUuid, NEEDED,			\
	  (struct cuda_uuid *uuid, cuda_device dev))			\
	X(DeviceGetUuid_v2, cuDeviceGetUuid_v2, OPTIONAL,		\
	  (struct cuda_uuid *uuid, cuda_device dev))			\
	X(DeviceGetAttribute, cuDeviceGetAttribute, NEEDED,		\
	  (int *value, cuda_device_attribute attribute, cuda_device dev)) \
	X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, NEEDED,	\
	  (cuda_context *ctx, cuda_device dev))				\
	X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, NEEDED, \
	  (cuda_device dev))						\
	X(CtxGetCurrent, cuCtxGetCurrent, NEEDED, (cuda_context *ctx))	\
	X(CtxPushCurrent, cuCtxPushCurrent_v2, NEEDED, (cuda_context ctx)) \
	X(CtxPopCurrent, cuCtxPopCurrent_v2, NEEDED, (cuda_context *ctx)) \
	X(CtxGetDevice, cuCtxGetDevice, NEEDED, (cuda_device *dev))	\
	X(CtxSynchronize, cuCtxSynchronize, NEEDED, (void))		\
	X(MemAlloc, cuMemAlloc_v2, NEEDED,				\
	  (cuda_pointer *p, size_t bytes))				\
	X(MemFree, cuMemFree_v2, NEEDED, (cuda_pointer p))		\
	X(MemHostAlloc, cuMemHostAlloc, NEEDED,				\
	  (void **p, size_t bytes, unsigned int flags))			\
	X(MemFreeHost, cuMemFreeHost, NEEDED, (void *p))		\
	X(MemHostRegister, cuMemHostRegister_v2, NEEDED,		\
	  (void *p, size_t bytes, unsigned int flags))			\
	X(MemHostUnregister, cuMemHostUnregister, NEEDED, (void *p))	\
	X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, NEEDED, \
	  (cuda_pointer *dev, void *p, unsigned int flags))		\
	X(MemsetD8Async, cuMemsetD8Async, NEEDED,			\
	  (cuda_pointer p, unsigned char value, size_t bytes,		\
	   cuda_stream stream))						\
	X(PointerGetAttribute, cuPointerGetAttribute, NEEDED,		\
	  (void *value, cuda_pointer_attribute attribute,		\
	   cuda_pointer p))						\
	X(MemGetAddressRange, cuMemGetAddressRange_v2, NEEDED,		\
	  (cuda_pointer *base, size_t *bytes, cuda_pointer p))		\
	X(MemGetHandleForAddressRange, cuMemGetHandleForAddressRange,	\
	  OPTIONAL,							\
	  (void *handle, cuda_pointer p, size_t bytes,			\
	   cuda_range_handle_type type, unsigned long long flags))	\
	X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, NEEDED,		\
	  (cuda_pointer to, const void *from, size_t bytes,		\
	   cuda_stream stream))						\
	X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, NEEDED,		\
	  (void *to, cuda_pointer from, size_t bytes,			\
	   cuda_stream stream))						\
	X(StreamCreate, cuStreamCreate, NEEDED,				\
	  (cuda_stream *stream, unsigned int flags))			\
	X(StreamDestroy, cuStreamDestroy_v2, NEEDED, (cuda_stream stream)) \
	X(StreamSynchronize, cuStreamSynchronize, NEEDED,		\
	  (cuda_stream stream))						\
	X(StreamGetCtx, cuStreamGetCtx, NEEDED,				\
	  (cuda_stream stream, cuda_context *ctx))			\
	X(StreamIsCapturing, cuStreamIsCapturing, NEEDED,		\
	  (cuda_stream stream, cuda_capture_status *status))		\
	X(ThreadExchangeStreamCaptureMode,				\
	  cuThreadExchangeStreamCaptureMode, NEEDED,			\
	  (cuda_capture_mode *mode))					\
	X(StreamWaitEvent, cuStreamWaitEvent, NEEDED,			\
	  (cuda_stream stream, cuda_event event, unsigned int flags))	\
	X(StreamWaitValue32, cuStreamWaitValue32_v2, OPTIONAL,		\
	  (cuda_stream stream, cuda_pointer p, uint32_t value,		\
	   unsigned int flags))						\
	X(LaunchHostFunc, cuLaunchHostFunc, NEEDED,			\
	  (cuda_stream stream, cuda_host_fn fn, void *data))		\
	X(EventCreate, cuEventCreate, NEEDED,				\
	  (cuda_event *event, unsigned int flags))			\
	X(EventDestroy, cuEventDestroy_v2, NEEDED, (cuda_event event))	\
	X(EventRecord, cuEventRecord, NEEDED,				\
	  (cuda_event event, cuda_stream stream))			\
	X(EventQuery, cuEventQuery, NEEDED, (cuda_event event))		\
	X(EventSynchronize, cuEventSynchronize, NEEDED,			\
	  (cuda_event event))						\
	X(ImportExternalMemory, cuImportExternalMemory, NEEDED,		\
	  (cuda_external_memory *memory,				\
	   const struct cuda_memory_desc *desc))			\
	X(ExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, \
	  NEEDED,							\
	  (cuda_pointer *p, cuda_external_memory memory,		\
	   const struct cuda_buffer_desc *desc))			\
	X(DestroyExternalMemory, cuDestroyExternalMemory, NEEDED,	\
	  (cuda_external_memory memory))				\
	X(ImportExternalSemaphore, cuImportExternalSemaphore, NEEDED,	\
	  (cuda_external_semaphore *semaphore,				\
	   const struct cuda_semaphore_desc *desc))			\
	X(DestroyExternalSemaphore, cuDestroyExternalSemaphore, NEEDED,	\
	  (cuda_external_semaphore semaphore))				\
	X(SignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync, \
	  NEEDED,							\
	  (const cuda_external_semaphore *semaphores,			\
	   const struct cuda_semaphore_params *params, unsigned int n,	\
	   cuda_stream stream))						\
	X(WaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync,	\
	  NEEDED,							\
	  (const cuda_external_semaphore *semaphores,			\
	   const struct cuda_semaphore_params *params, unsigned int n,	\
	   cuda_stream stream))

struct cuda_api {
#define X(name, symbol, needed, params) cuda_result (*name) params;
	CUDA_FUNCTIONS(X)
#undef X
};

/*
 * Opens libcuda.so.1 (or DLBUF_CUDA_LIBRARY) and initialises it; from then on it
 * stays. -ENODEV where there is no driver or no device, -EIO where it is there
 * and broken.
 */
int cuda_load(struct cuda_api *cu);

/* In a child of fork(): see struct backend. */
void cuda_forked(void);

/* 0, or the errno for a result, with the call, the code and the driver's words. */
int cuda_check(const struct cuda_api *cu, cuda_result result, const char *call);

/* Whether a result means that the context is lost for good. */
bool cuda_is_lost(cuda_result result);

/* Calls a function, or lets the fault injection fail it. */
#define CUDA_RESULT(cu, name, ...) \
	(fault_hit() ? CUABI_OUT_OF_MEMORY : (cu)->name(__VA_ARGS__))

/* The same, as 0 or a negative errno with the sentence. */
#define CUDA_CALL(cu, name, ...) \
	cuda_check(cu, CUDA_RESULT(cu, name, __VA_ARGS__), "cu" #name)

#endif /* DLBUF_CUDA_API_H */
