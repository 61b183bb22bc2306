/* SPDX-License-Identifier: MIT */
/*
 * HIP's runtime API, loaded at run time: the list of its functions, and the macros
 * that call them.
 *
 * The list lacks two functions on purpose. hipImportExternalSemaphore() aborts the
 * process in builds of ROCm with assertions, because Linux has no such semaphores.
 * hipMemImportFromShareableHandle() takes a pointer to the fd before HIP 7.1 and the
 * fd itself since.
 */
#ifndef DLBUF_HIP_API_H
#define DLBUF_HIP_API_H

#include <stdbool.h>

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "../../system/sys.h"
#include "abi.h"

/*
 * X(name, needed, parameters) for each function: its name without "hip", and whether
 * dlbuf requires it. HIP 5.7 has the NEEDED functions.
 */
#define HIP_FUNCTIONS(X)						\
	X(Init, NEEDED, (unsigned int flags))				\
	X(RuntimeGetVersion, NEEDED, (int *version))			\
	X(DrvGetErrorName, NEEDED, (hip_result result, const char **name)) \
	X(DrvGetErrorString, NEEDED, (hip_result result, const char **text)) \
	X(PeekAtLastError, NEEDED, (void))				\
	X(GetLastError, NEEDED, (void))					\
	X(GetDeviceCount, NEEDED, (int *n))				\
	X(DeviceGetName, NEEDED,					\
	  (char *name, int size, hip_device_ordinal dev))		\
	X(DeviceGetUuid, NEEDED,					\
	  (struct hip_uuid *uuid, hip_device_ordinal dev))		\
	X(DeviceGetAttribute, NEEDED,					\
	  (int *value, hip_device_attribute, int dev))			\
	X(GetDevice, NEEDED, (int *dev))				\
	X(SetDevice, NEEDED, (int dev))					\
	X(DeviceSynchronize, NEEDED, (void))				\
	X(Malloc, NEEDED, (void **p, size_t bytes))			\
	X(Free, NEEDED, (void *p))					\
	X(HostMalloc, NEEDED, (void **p, size_t bytes, unsigned int flags)) \
	X(HostFree, NEEDED, (void *p))					\
	X(HostRegister, NEEDED, (void *p, size_t bytes, unsigned int flags)) \
	X(HostUnregister, NEEDED, (void *p))				\
	X(HostGetDevicePointer, NEEDED,					\
	  (void **dev, void *p, unsigned int flags))			\
	X(MemsetD8Async, NEEDED,					\
	  (hip_pointer p, unsigned char byte, size_t bytes, hip_stream s)) \
	X(PointerGetAttribute, NEEDED,					\
	  (void *value, hip_pointer_attribute, hip_pointer p))		\
	X(MemGetAddressRange, NEEDED,					\
	  (hip_pointer *base, size_t *bytes, hip_pointer p))		\
	X(MemGetHandleForAddressRange, OPTIONAL,			\
	  (void *handle, hip_pointer p, size_t bytes,			\
	   hip_range_handle_type, unsigned long long flags))		\
	X(MemcpyHtoDAsync, NEEDED,					\
	  (hip_pointer to, hip_source from, size_t bytes, hip_stream s))	\
	X(MemcpyDtoHAsync, NEEDED,					\
	  (void *to, hip_pointer from, size_t bytes, hip_stream s))	\
	X(StreamCreateWithFlags, NEEDED, (hip_stream *s, unsigned int flags)) \
	X(StreamDestroy, NEEDED, (hip_stream s))			\
	X(StreamSynchronize, NEEDED, (hip_stream s))			\
	X(StreamGetDevice, NEEDED, (hip_stream s, hip_device_ordinal *dev)) \
	X(StreamIsCapturing, NEEDED,					\
	  (hip_stream s, hip_capture_status *status))			\
	X(ThreadExchangeStreamCaptureMode, NEEDED, (hip_capture_mode *mode)) \
	X(StreamWaitEvent, NEEDED,					\
	  (hip_stream s, hip_event event, unsigned int flags))		\
	X(StreamWaitValue32, OPTIONAL,					\
	  (hip_stream s, void *p, uint32_t value, unsigned int flags,	\
	   uint32_t mask))						\
	X(LaunchHostFunc, NEEDED, (hip_stream s, hip_host_fn fn, void *data)) \
	X(GetDeviceProperties, OPTIONAL, (struct hip_properties_5 *p, int dev)) \
	X(GetDevicePropertiesR0600, OPTIONAL, (struct hip_properties *p, int dev)) \
	X(ModuleLoadData, NEEDED, (hip_module *module, const void *image)) \
	X(ModuleUnload, NEEDED, (hip_module module))			\
	X(ModuleGetFunction, NEEDED,					\
	  (hip_function *f, hip_module module, const char *name))	\
	X(ModuleLaunchKernel, NEEDED,					\
	  (hip_function f, unsigned int gx, unsigned int gy, unsigned int gz, \
	   unsigned int bx, unsigned int by, unsigned int bz,		\
	   unsigned int shared, hip_stream s, void **params, void **extra)) \
	X(EventCreateWithFlags, NEEDED, (hip_event *event, unsigned int flags)) \
	X(EventDestroy, NEEDED, (hip_event event))			\
	X(EventRecord, NEEDED, (hip_event event, hip_stream s))		\
	X(EventQuery, NEEDED, (hip_event event))			\
	X(EventSynchronize, NEEDED, (hip_event event))			\
	X(ImportExternalMemory, NEEDED,					\
	  (hip_external_memory *, const struct hip_memory_desc *))	\
	X(ExternalMemoryGetMappedBuffer, NEEDED,			\
	  (void **, hip_external_memory, const struct hip_buffer_desc *)) \
	X(DestroyExternalMemory, NEEDED, (hip_external_memory memory))

struct hip_api {
#define X(name, needed, params) hip_result (*name) params;
	HIP_FUNCTIONS(X)
#undef X
};

/* The same for hiprtc, HIP's compiler: X(name, parameters). */
#define HIPRTC_FUNCTIONS(X)						\
	X(CreateProgram,						\
	  (hiprtc_program *program, const char *source, const char *name, \
	   int n, hiprtc_strings headers, hiprtc_strings names))	\
	X(CompileProgram, (hiprtc_program program, int n, hiprtc_strings options)) \
	X(GetProgramLogSize, (hiprtc_program program, size_t *bytes))	\
	X(GetProgramLog, (hiprtc_program program, char *log))		\
	X(GetCodeSize, (hiprtc_program program, size_t *bytes))		\
	X(GetCode, (hiprtc_program program, char *code))		\
	X(DestroyProgram, (hiprtc_program *program))

struct hiprtc_api {
#define X(name, params) hiprtc_result (*name) params;
	HIPRTC_FUNCTIONS(X)
#undef X
};

/*
 * Finds a function of libhsa-runtime64.so.1, which libamdhip64 has loaded. Returns NULL if
 * that library lacks it.
 */
typedef hsa_result (*hsa_export_fn)(const void *p, size_t bytes, int *fd,
				    uint64_t *offset);
hsa_export_fn hsa_export_find(void);

/*
 * Opens libamdhip64 (or DLBUF_HIP_LIBRARY) and initialises it. The library is never
 * closed, because it has threads.
 * -ENODEV  no driver or no device
 * -ESTALE  a parent of this process has used the driver
 * -EIO     the driver is installed and does not work
 */
int hip_load(struct hip_api *hip);

/*
 * Finds hiprtc: before HIP 7 in libamdhip64, since then in libhiprtc of the same version (or
 * DLBUF_HIPRTC_LIBRARY). The library is never closed.
 * -EOPNOTSUPP  it is not installed
 */
int hiprtc_load(struct hiprtc_api *rtc, int version);

/* The index of a function. */
#define HIP_FUNCTION(name) (offsetof(struct hip_api, name) / sizeof(void *))

/* Returns 0 or an errno; the error text has the function, HIP's code and its name. */
int hip_check(const struct hip_api *hip, hip_result result, size_t function);

/* Whether a result means that the device is unusable from now on. */
bool hip_is_lost(hip_result result);

/* Calls a function, unless the fault injection makes the call fail. */
#define HIP_RESULT(hip, name, ...) \
	(fault_hit() ? HIPABI_OUT_OF_MEMORY : (hip)->name(__VA_ARGS__))

/* The same; returns 0, or a negative errno with an error text. */
#define HIP_CALL(hip, name, ...) \
	hip_check(hip, HIP_RESULT(hip, name, __VA_ARGS__), HIP_FUNCTION(name))

/* hiprtc's, likewise. Its results have numbers of their own. */
#define HIPRTC_RESULT(rtc, name, ...) \
	(fault_hit() ? HIPRTCABI_OUT_OF_MEMORY : (rtc)->name(__VA_ARGS__))
#define HIPRTC_CALL(rtc, name, ...) \
	hiprtc_check(HIPRTC_RESULT(rtc, name, __VA_ARGS__), #name)

int hiprtc_check(hiprtc_result result, const char *function);

#endif /* DLBUF_HIP_API_H */
