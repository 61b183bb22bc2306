/* SPDX-License-Identifier: MIT */
/*
 * CUDA's driver API, loaded at run time: the list of its functions, and the macros
 * that call them. dlbuf uses neither the runtime API nor the toolkit.
 */
#ifndef DLBUF_CUDA_API_H
#define DLBUF_CUDA_API_H

#include <stdbool.h>

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "../../system/sys.h"
#include "abi.h"

/*
 * X(name, symbol, needed, parameters) for each function: its name without "cu", the
 * exported symbol with this signature, and whether dlbuf requires it. Every driver
 * since CUDA 11.0 has the NEEDED functions.
 */
#define CU(X, name, suffix, params) X(name, cu##name##suffix, NEEDED, params)
#define CU_OPT(X, name, suffix, params) \
	X(name, cu##name##suffix, OPTIONAL, params)
#define CUDA_FUNCTIONS(X)						\
	CU(X, Init, , (unsigned int flags))				\
	CU(X, DriverGetVersion, , (int *version))			\
	CU(X, GetErrorName, , (cuda_result result, const char **name))	\
	CU(X, GetErrorString, , (cuda_result result, const char **text)) \
	CU(X, DeviceGetCount, , (int *n))				\
	CU(X, DeviceGet, , (cuda_device *dev, int n))			\
	CU(X, DeviceGetName, , (char *name, int size, cuda_device dev))	\
	CU(X, DeviceGetUuid, , (struct cuda_uuid *uuid, cuda_device dev)) \
	CU_OPT(X, DeviceGetUuid_v2, ,					\
	  (struct cuda_uuid *uuid, cuda_device dev))			\
	CU(X, DeviceGetAttribute, ,					\
	  (int *value, cuda_device_attribute, cuda_device dev))		\
	CU(X, DevicePrimaryCtxRetain, , (cuda_context *ctx, cuda_device dev)) \
	CU(X, DevicePrimaryCtxRelease, _v2, (cuda_device dev))		\
	CU(X, CtxGetCurrent, , (cuda_context *ctx))			\
	CU(X, CtxPushCurrent, _v2, (cuda_context ctx))			\
	CU(X, CtxPopCurrent, _v2, (cuda_context *ctx))			\
	CU(X, CtxGetDevice, , (cuda_device *dev))			\
	CU(X, CtxSynchronize, , (void))					\
	CU(X, MemAlloc, _v2, (cuda_pointer *p, size_t bytes))		\
	CU(X, MemFree, _v2, (cuda_pointer p))				\
	CU(X, MemHostAlloc, , (void **p, size_t bytes, unsigned int flags)) \
	CU(X, MemFreeHost, , (void *p))					\
	CU(X, MemHostRegister, _v2,					\
	  (void *p, size_t bytes, unsigned int flags))			\
	CU(X, MemHostUnregister, , (void *p))				\
	CU(X, MemHostGetDevicePointer, _v2,				\
	  (cuda_pointer *dev, void *p, unsigned int))			\
	CU(X, MemsetD8Async, ,						\
	  (cuda_pointer p, unsigned char byte, size_t bytes, cuda_stream s)) \
	CU(X, PointerGetAttribute, ,					\
	  (void *value, cuda_pointer_attribute, cuda_pointer p))	\
	CU(X, MemGetAddressRange, _v2,					\
	  (cuda_pointer *base, size_t *bytes, cuda_pointer p))		\
	CU_OPT(X, MemGetHandleForAddressRange, ,			\
	  (void *handle, cuda_pointer p, size_t bytes,			\
	   cuda_range_handle_type, unsigned long long flags))		\
	CU_OPT(X, FlushGPUDirectRDMAWrites, , (cuda_flush_target, cuda_flush_scope)) \
	CU(X, MemcpyHtoDAsync, _v2,					\
	  (cuda_pointer to, const void *from, size_t bytes, cuda_stream s)) \
	CU(X, MemcpyDtoHAsync, _v2,					\
	  (void *to, cuda_pointer from, size_t bytes, cuda_stream s))	\
	CU(X, StreamCreate, , (cuda_stream *s, unsigned int flags))	\
	CU(X, StreamDestroy, _v2, (cuda_stream s))			\
	CU(X, StreamSynchronize, , (cuda_stream s))			\
	CU(X, StreamGetCtx, , (cuda_stream s, cuda_context *ctx))	\
	CU_OPT(X, StreamGetCtx_v2, ,					\
	  (cuda_stream s, cuda_context *ctx, cuda_green *green))	\
	CU(X, StreamIsCapturing, ,					\
	  (cuda_stream s, cuda_capture_status *status))			\
	CU(X, ThreadExchangeStreamCaptureMode, , (cuda_capture_mode *mode)) \
	CU(X, StreamWaitEvent, ,					\
	  (cuda_stream s, cuda_event event, unsigned int flags))	\
	CU_OPT(X, StreamWaitValue32, _v2,				\
	  (cuda_stream s, cuda_pointer p, uint32_t value, unsigned int flags)) \
	CU(X, LaunchHostFunc, , (cuda_stream s, cuda_host_fn fn, void *data)) \
	CU(X, ModuleLoadData, , (cuda_module *module, const void *image)) \
	CU(X, ModuleUnload, , (cuda_module module))			\
	CU(X, ModuleGetFunction, ,					\
	  (cuda_function *f, cuda_module module, const char *name))	\
	CU(X, LaunchKernel, ,						\
	  (cuda_function f, unsigned int gx, unsigned int gy, unsigned int gz, \
	   unsigned int bx, unsigned int by, unsigned int bz,		\
	   unsigned int shared, cuda_stream s, void **params, void **extra)) \
	CU(X, EventCreate, , (cuda_event *event, unsigned int flags))	\
	CU(X, EventDestroy, _v2, (cuda_event event))			\
	CU(X, EventRecord, , (cuda_event event, cuda_stream s))		\
	CU(X, EventQuery, , (cuda_event event))				\
	CU(X, EventSynchronize, , (cuda_event event))			\
	CU(X, ImportExternalMemory, ,					\
	  (cuda_external_memory *, const struct cuda_memory_desc *))	\
	CU(X, ExternalMemoryGetMappedBuffer, ,				\
	  (cuda_pointer *, cuda_external_memory, const struct cuda_buffer_desc *)) \
	CU(X, DestroyExternalMemory, , (cuda_external_memory memory))	\
	CU(X, ImportExternalSemaphore, ,				\
	  (cuda_external_semaphore *, const struct cuda_semaphore_desc *)) \
	CU(X, DestroyExternalSemaphore, , (cuda_external_semaphore semaphore)) \
	CU(X, SignalExternalSemaphoresAsync, ,				\
	  (const cuda_external_semaphore *,				\
	   const struct cuda_semaphore_params *, unsigned int n, cuda_stream s)) \
	CU(X, WaitExternalSemaphoresAsync, ,				\
	  (const cuda_external_semaphore *,				\
	   const struct cuda_semaphore_params *, unsigned int n, cuda_stream s))

struct cuda_api {
#define X(name, symbol, needed, params) cuda_result (*name) params;
	CUDA_FUNCTIONS(X)
#undef X
};

/*
 * Opens libcuda.so.1 (or DLBUF_CUDA_LIBRARY) and initialises it. A library that works
 * is never closed.
 * -ENODEV  no driver or no device
 * -EIO     the driver is installed and does not work
 */
int cuda_load(struct cuda_api *cu);

/* The index of a function. */
#define CUDA_FUNCTION(name) (offsetof(struct cuda_api, name) / sizeof(void *))

/* Returns 0 or an errno; the error text has the function, CUDA's code and its name. */
int cuda_check(const struct cuda_api *cu, cuda_result result, size_t function);

/* Whether a result means that the context is unusable from now on. */
bool cuda_is_lost(cuda_result result);

/* Calls a function, unless the fault injection makes the call fail. */
#define CUDA_RESULT(cu, name, ...) \
	(fault_hit() ? CUABI_OUT_OF_MEMORY : (cu)->name(__VA_ARGS__))

/* The same; returns 0, or a negative errno with an error text. */
#define CUDA_CALL(cu, name, ...) \
	cuda_check(cu, CUDA_RESULT(cu, name, __VA_ARGS__), CUDA_FUNCTION(name))

#endif /* DLBUF_CUDA_API_H */
