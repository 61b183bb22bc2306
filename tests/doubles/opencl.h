/* SPDX-License-Identifier: MIT */
/*
 * A double of an OpenCL driver over the host's memory: an ICD, which the real
 * loader loads if OCL_ICD_VENDORS has its path. It can be opened as the loader, too. It
 * implements the extensions of Khronos, Arm and Qualcomm that dlbuf uses. A call that breaks a
 * rule of OpenCL returns the documented error, is counted in `wrong`, and is explained on stderr.
 *
 * Rules that drivers rarely check and that are enforced here:
 *
 * - A command does not start before its queue is flushed.
 * - Memory of CL_MEM_USE_HOST_PTR stays mapped until the destructor callback. The
 *   host sees a GPU's writes to it after a map.
 * - A buffer that is mapped is not used by the device.
 * - A buffer of cl_khr_external_memory is acquired before each use, and released.
 * - A semaphore is signalled once for each wait. It is exported after a signal.
 * - Callbacks run on a thread of the driver and make no call that blocks.
 * - An fd of KHR imports is taken on success, and only then.
 *
 * A call that is made to fail has had its effect if it releases, or sets a user event.
 * After a loss all calls return the loss, and commands end with it as their status. As with real
 * drivers, nothing works in a child of a process that has made a context.
 *
 * The environment's FAKE_OPENCL has words. The first names the machine:
 *
 *	khr	GPU: imports dma-bufs and sync_files, exports sync_files
 *	intel	GPU: imports dma-bufs, which only the query of handle types says;
 *		fd 0 means no handle; no semaphores
 *	arm	GPU: clImportMemoryARM()
 *	qcom	GPU: CL_MEM_EXT_HOST_PTR_QCOM
 *	adreno8	the same; Khronos' import makes a buffer that shares nothing
 *	apart	Khronos' import only, which does so
 *	userptr	GPU: the memory of CL_MEM_USE_HOST_PTR is pinned and used in place;
 *		a map brings the device's writes to the host
 *	shadow	GPU: CL_MEM_USE_HOST_PTR makes a copy; a map and an unmap
 *		synchronise the mapped bytes
 *	cpu	CPU: uses the memory of CL_MEM_USE_HOST_PTR itself
 *	old	GPU: OpenCL 1.2 without extensions
 *
 * Further words: memfds (memfds stand for dma-bufs, and eventfds for sync_files),
 * two (devices), none (no platform), strict, armold (cl_arm_import_memory of 2017: its
 * buffers are for kernels only), padding (behind imports of qcom), noreimport,
 * noimport and noexport (of sync_files), waits (a buffer's release waits for its
 * commands), images (over buffers). The environment is read when the library is loaded and on
 * each reset.
 */
#ifndef FAKE_OPENCL_H
#define FAKE_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "common/driver.h"

/* Names that older headers lack, or no public header has. */
enum {
	FAKECL_MEM_DEVICE_HANDLE_LIST = 0x2051,
	FAKECL_SEMAPHORE_DEVICE_HANDLE_LIST = 0x2053,
	FAKECL_SEMAPHORE_EXPORTABLE = 0x2054,
	FAKECL_MEM_DMABUF_HOST_PTR_QCOM = 0x411D,
};

/* As in Qualcomm's SDK for Adreno. */
struct fakecl_dmabuf_host_ptr {
	cl_mem_ext_host_ptr ext_host_ptr;
	int dmabuf_filedesc;
	void *dmabuf_hostptr;
};

enum fake_kind {
	FAKE_CONTEXT,
	FAKE_QUEUE,
	FAKE_MEMORY,		/* until it is destroyed, so after its commands */
	FAKE_EVENT,
	FAKE_SEMAPHORE,
	FAKE_PROGRAM,
	FAKE_KERNEL,
	FAKE_KINDS
};

enum fake_host_ptr {
	HOST_PTR_DIRECT,
	HOST_PTR_PINNED,
	HOST_PTR_COPIED,
};

struct fake_machine {
	const char *word, *name, *version, *extensions;
	cl_device_type type;
	enum fake_host_ptr host_ptr;
	bool dma_bufs;		/* imports them as Khronos' extension does */
	bool apart;		/* an import shares nothing with the dma-buf */
	bool fd_0_is_none;
	bool semaphores;
	bool arm, qcom;
};

struct fake_opencl {
	DRIVER;
	/* The machine to be; set before the first call. */
	struct fake_machine machine;
	unsigned int ndevices;
	bool no_platform;
	bool memfds;
	bool arm_old;
	unsigned int padding;			/* of qcom's imports */
	bool no_reimport, no_sync_in, no_sync_out;
	bool images;
	bool no_functions;		/* of extensions */
	bool release_waits;
	/* Counts of the double. */
	unsigned int not_started;	/* commands of queues that are not flushed */
	unsigned int flushes;
	/* Sets fail_at while other threads make calls, and gives the old value. */
	unsigned long (*fail_later)(unsigned long n);
	/* Waits for all commands that were flushed, and for callbacks. */
	void (*settle)(void);
};

/* The one there is; anew after a reset. The ICD has it under the name fake_opencl. */
typedef struct fake_opencl *(*fake_opencl_fn)(bool reset);

/* Functions that the loader passes on, and those of extensions: X(name). */
#define FAKE_OPENCL_FUNCTIONS(X)					\
	X(GetPlatformIDs) X(GetPlatformInfo)				\
	X(GetDeviceIDs) X(GetDeviceInfo)				\
	X(CreateContext) X(RetainContext) X(ReleaseContext)		\
	X(GetContextInfo)						\
	X(CreateCommandQueue) X(CreateCommandQueueWithProperties)	\
	X(RetainCommandQueue) X(ReleaseCommandQueue)			\
	X(GetCommandQueueInfo)						\
	X(CreateBuffer) X(CreateBufferWithProperties)			\
	X(RetainMemObject) X(ReleaseMemObject)				\
	X(GetMemObjectInfo) X(SetMemObjectDestructorCallback)		\
	X(CreateUserEvent) X(SetUserEventStatus)			\
	X(RetainEvent) X(ReleaseEvent) X(GetEventInfo)			\
	X(SetEventCallback) X(WaitForEvents)				\
	X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList)	\
	X(EnqueueReadBuffer) X(EnqueueWriteBuffer)			\
	X(EnqueueCopyBuffer) X(EnqueueFillBuffer)			\
	X(EnqueueMapBuffer) X(EnqueueUnmapMemObject)			\
	X(CreateProgramWithSource) X(BuildProgram)			\
	X(GetProgramBuildInfo) X(RetainProgram) X(ReleaseProgram)	\
	X(CreateKernel) X(SetKernelArg) X(RetainKernel)			\
	X(ReleaseKernel) X(EnqueueNDRangeKernel)			\
	X(Flush) X(Finish)						\
	X(GetExtensionFunctionAddressForPlatform)

#define FAKE_OPENCL_EXTENSIONS(X)					\
	X(EnqueueAcquireExternalMemObjectsKHR)				\
	X(EnqueueReleaseExternalMemObjectsKHR)				\
	X(CreateSemaphoreWithPropertiesKHR)				\
	X(EnqueueWaitSemaphoresKHR) X(EnqueueSignalSemaphoresKHR)	\
	X(GetSemaphoreHandleForTypeKHR)	X(GetSemaphoreInfoKHR)		\
	X(RetainSemaphoreKHR) X(ReleaseSemaphoreKHR)			\
	X(ReImportSemaphoreSyncFdKHR)					\
	X(ImportMemoryARM)

/* Headers before the extension's version 0.9.1 lack them. */
typedef cl_properties cl_semaphore_reimport_properties_khr;
cl_int CL_API_CALL clReImportSemaphoreSyncFdKHR(
	cl_semaphore_khr semaphore,
	cl_semaphore_reimport_properties_khr *properties, int fd);

#endif /* FAKE_OPENCL_H */
