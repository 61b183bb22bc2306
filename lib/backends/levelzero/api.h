/* SPDX-License-Identifier: MIT */
/*
 * Level Zero's loader, loaded at run time: the list of its functions, and the macros
 * that call them.
 */
#ifndef DLBUF_LEVELZERO_API_H
#define DLBUF_LEVELZERO_API_H

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "../../system/sys.h"
#include "abi.h"

/*
 * X(name, needed, type) for each function: its name without "ze", whether dlbuf
 * requires it, and the type of a pointer to it. Every loader since 1.4 has the NEEDED
 * functions. A loader has the functions that were new when it was made; the driver
 * behind it may lack them, and they return UNSUPPORTED_FEATURE then.
 */
#define LZ(X, name) X(name, NEEDED, __typeof__(&ze##name))
#define LZ_OPT(X, name, params) X(name, OPTIONAL, ze_result_t (*) params)
#define LEVELZERO_FUNCTIONS(X)						\
	LZ(X, Init)							\
	LZ(X, DriverGet)						\
	LZ(X, DriverGetApiVersion)					\
	LZ(X, DeviceGet)						\
	LZ(X, DeviceGetSubDevices)					\
	LZ(X, DeviceGetProperties)					\
	LZ(X, DeviceGetCommandQueueGroupProperties)			\
	LZ(X, DevicePciGetPropertiesExt)				\
	LZ(X, ContextCreate)						\
	LZ(X, ContextDestroy)						\
	LZ(X, ContextGetStatus)						\
	LZ(X, MemAllocDevice)						\
	LZ(X, MemAllocHost)						\
	LZ(X, MemFree)							\
	LZ(X, MemGetAllocProperties)					\
	LZ(X, MemGetAddressRange)					\
	LZ(X, CommandListCreateImmediate)				\
	LZ(X, CommandListDestroy)					\
	LZ(X, CommandListAppendBarrier)					\
	LZ(X, CommandListAppendMemoryCopy)				\
	LZ(X, CommandListAppendMemoryFill)				\
	LZ(X, CommandListAppendLaunchKernel)				\
	LZ(X, ModuleCreate)						\
	LZ(X, ModuleDestroy)						\
	LZ(X, ModuleBuildLogGetString)					\
	LZ(X, ModuleBuildLogDestroy)					\
	LZ(X, KernelCreate)						\
	LZ(X, KernelDestroy)						\
	LZ(X, KernelSetGroupSize)					\
	LZ(X, KernelSetArgumentValue)					\
	LZ(X, EventPoolCreate)						\
	LZ(X, EventPoolDestroy)						\
	LZ(X, EventCreate)						\
	LZ(X, EventDestroy)						\
	LZ(X, EventHostReset)						\
	LZ(X, EventHostSignal)						\
	LZ(X, EventQueryStatus)						\
	LZ(X, EventHostSynchronize)					\
	LZ_OPT(X, DriverGetExtensionFunctionAddress,			\
	       (ze_driver_handle_t driver, const char *name, void **fn)) \
	/* Two of Intel's driver, found by that function. No loader has them. */ \
	LZ_OPT(X, xDriverImportExternalPointer,				\
	       (ze_driver_handle_t driver, void *at, size_t bytes))	\
	LZ_OPT(X, xDriverReleaseImportedPointer,			\
	       (ze_driver_handle_t driver, void *at))			\
	LZ_OPT(X, CommandListHostSynchronize,				\
	       (ze_command_list_handle_t list, uint64_t timeout))	\
	LZ_OPT(X, CommandListIsImmediate,				\
	       (ze_command_list_handle_t list, ze_bool_t *is))		\
	LZ_OPT(X, CommandListGetDeviceHandle,				\
	       (ze_command_list_handle_t list, ze_device_handle_t *device)) \
	LZ_OPT(X, CommandListAppendHostFunction,			\
	       (ze_command_list_handle_t list, lzabi_host_fn fn, void *data, \
		const void *next, ze_event_handle_t signal, uint32_t n,	\
		ze_event_handle_t *waits))

struct levelzero_api {
#define X(name, needed, type) __extension__ __typeof__(type) name;
	LEVELZERO_FUNCTIONS(X)
#undef X
};

/*
 * Opens libze_loader.so.1 (or DLBUF_LEVELZERO_LIBRARY) and initialises it. A library
 * that works is never closed.
 * -ENODEV  no loader, no driver or no device
 * -ESTALE  a parent of this process has used the drivers
 * -EIO     the driver is installed and does not work
 */
int levelzero_load(struct levelzero_api *lz);

/* The index of a function. */
#define LZ_FUNCTION(name) \
	(offsetof(struct levelzero_api, name) / sizeof(void *))

/* Returns 0 or an errno; the error text has the function, and the result's name. */
int levelzero_check(ze_result_t result, size_t function);

/* Whether a result means that the device is unusable from now on. */
bool levelzero_is_lost(ze_result_t result);

/* Calls a function, unless the fault injection makes the call fail. */
#define LZ_RESULT(lz, name, ...) \
	(fault_hit() ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY : \
		       (lz)->name(__VA_ARGS__))

/* The same; returns 0, or a negative errno with an error text. */
#define LZ_CALL(lz, name, ...) \
	levelzero_check(LZ_RESULT(lz, name, __VA_ARGS__), LZ_FUNCTION(name))

#endif /* DLBUF_LEVELZERO_API_H */
