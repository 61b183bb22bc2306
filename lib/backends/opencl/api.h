/* SPDX-License-Identifier: MIT */
/*
 * OpenCL, loaded at run time: the list of its functions, and the macros that call
 * them. Functions of extensions are in struct opencl_device, because each platform
 * has its own.
 */
#ifndef DLBUF_OPENCL_API_H
#define DLBUF_OPENCL_API_H

#include <stdbool.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "../../system/sys.h"

/* X(name, needed): its name without "cl". OpenCL 1.2 has the NEEDED functions. */
#define OPENCL_FUNCTIONS(X)						\
	X(GetPlatformIDs, NEEDED)					\
	X(GetPlatformInfo, NEEDED)					\
	X(GetDeviceIDs, NEEDED)						\
	X(GetDeviceInfo, NEEDED)					\
	X(CreateContext, NEEDED)					\
	X(RetainContext, NEEDED)					\
	X(ReleaseContext, NEEDED)					\
	X(GetContextInfo, NEEDED)					\
	X(CreateCommandQueue, NEEDED)					\
	X(RetainCommandQueue, NEEDED)					\
	X(ReleaseCommandQueue, NEEDED)					\
	X(GetCommandQueueInfo, NEEDED)					\
	X(CreateBuffer, NEEDED)						\
	X(CreateBufferWithProperties, OPTIONAL)				\
	X(ReleaseMemObject, NEEDED)					\
	X(SetMemObjectDestructorCallback, NEEDED)			\
	X(CreateUserEvent, NEEDED)					\
	X(SetUserEventStatus, NEEDED)					\
	X(RetainEvent, NEEDED)						\
	X(ReleaseEvent, NEEDED)						\
	X(GetEventInfo, NEEDED)						\
	X(SetEventCallback, NEEDED)					\
	X(WaitForEvents, NEEDED)					\
	X(EnqueueMarkerWithWaitList, NEEDED)				\
	X(EnqueueBarrierWithWaitList, NEEDED)				\
	X(EnqueueReadBuffer, NEEDED)					\
	X(EnqueueWriteBuffer, NEEDED)					\
	X(EnqueueCopyBuffer, NEEDED)					\
	X(EnqueueMapBuffer, NEEDED)					\
	X(EnqueueUnmapMemObject, NEEDED)				\
	X(CreateProgramWithSource, NEEDED)				\
	X(BuildProgram, NEEDED)						\
	X(GetProgramBuildInfo, NEEDED)					\
	X(ReleaseProgram, NEEDED)					\
	X(CreateKernel, NEEDED)						\
	X(SetKernelArg, NEEDED)						\
	X(ReleaseKernel, NEEDED)					\
	X(EnqueueNDRangeKernel, NEEDED)					\
	X(Flush, NEEDED)						\
	X(Finish, NEEDED)						\
	X(GetExtensionFunctionAddressForPlatform, NEEDED)

struct opencl_api {
#define X(name, needed) __typeof__(cl##name) *name;
	OPENCL_FUNCTIONS(X)
#undef X
};

/*
 * Opens libOpenCL.so.1 (or DLBUF_OPENCL_LIBRARY), which is never closed.
 * -ENODEV  no loader
 * -ESTALE  a parent process has used OpenCL
 */
int opencl_load(struct opencl_api *cl);

/* The index of a function. */
#define OPENCL_FUNCTION(name) (offsetof(struct opencl_api, name) / sizeof(void *))

/* Returns 0 or an errno; the error text has the function, and the code's name. */
int opencl_check(cl_int result, size_t function);
/* The same for a function of an extension. */
int opencl_check_ext(cl_int result, const char *call);

/* Calls a function, unless the fault injection makes the call fail. */
#define OPENCL_RESULT(cl, name, ...) \
	(fault_hit() ? CL_OUT_OF_HOST_MEMORY : (cl)->name(__VA_ARGS__))

/* The same; returns 0, or a negative errno with an error text. */
#define OPENCL_CALL(cl, name, ...) \
	opencl_check(OPENCL_RESULT(cl, name, __VA_ARGS__), OPENCL_FUNCTION(name))

/*
 * For functions that return a new object and take the address of their result last:
 * sets *out.
 */
#define OPENCL_NEW(cl, out, name, ...) __extension__ ({			\
	cl_int new_result = CL_OUT_OF_HOST_MEMORY;			\
	*(out) = fault_hit() ? NULL : (cl)->name(__VA_ARGS__, &new_result); \
	new_result ? opencl_check(new_result, OPENCL_FUNCTION(name)) : 0; })

#endif /* DLBUF_OPENCL_API_H */
