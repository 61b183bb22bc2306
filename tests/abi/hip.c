// SPDX-License-Identifier: MIT
/*
 * lib/backends/hip/abi.h and the functions of api.h against a real hip_runtime_api.h,
 * and the numbers that the double has besides.
 */
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "../doubles/hip.h"
#include "backends/hip/api.h"

#define NUMBER(ours, theirs) \
	_Static_assert((long long)(ours) == (long long)(theirs), \
		       #ours " is not " #theirs)
#define ERROR(name, theirs) NUMBER(HIPABI_##name, hipError##theirs)
#define ATTR(name, theirs) NUMBER(HIPABI_##name, hipDeviceAttribute##theirs)
#define FLAG(name, theirs) NUMBER(HIPABI_##name, hip##theirs)
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
#define FIELD(ours, theirs, name) \
	_Static_assert(offsetof(struct ours, name) == offsetof(theirs, name) && \
		       sizeof(((struct ours *)0)->name) == \
		       sizeof(((theirs *)0)->name), \
		       #ours "." #name " is not where " #theirs "." #name " is")
#define END_OF(type, field) \
	(offsetof(type, field) + sizeof(((type *)0)->field))

FLAG(SUCCESS, Success);
ERROR(INVALID_VALUE, InvalidValue);
ERROR(OUT_OF_MEMORY, OutOfMemory);
ERROR(DEINITIALIZED, Deinitialized);
ERROR(INSUFFICIENT_DRIVER, InsufficientDriver);
ERROR(NO_DEVICE, NoDevice);
ERROR(INVALID_DEVICE, InvalidDevice);
ERROR(ECC_NOT_CORRECTABLE, ECCNotCorrectable);
ERROR(NOT_READY, NotReady);
ERROR(ILLEGAL_ADDRESS, IllegalAddress);
ERROR(LAUNCH_TIME_OUT, LaunchTimeOut);
ERROR(CONTEXT_IS_DESTROYED, ContextIsDestroyed);
ERROR(ASSERT, Assert);
ERROR(LAUNCH_FAILURE, LaunchFailure);
ERROR(NOT_SUPPORTED, NotSupported);
ERROR(STREAM_CAPTURE_UNSUPPORTED, StreamCaptureUnsupported);
ERROR(STREAM_CAPTURE_IMPLICIT, StreamCaptureImplicit);
ERROR(UNKNOWN, Unknown);

ATTR(ATTR_PCI_BUS_ID, PciBusId);
ATTR(ATTR_PCI_DEVICE_ID, PciDeviceId);
ATTR(ATTR_PCI_DOMAIN_ID, PciDomainID);

FLAG(STREAM_NON_BLOCKING, StreamNonBlocking);
FLAG(EVENT_BLOCKING_SYNC, EventBlockingSync);
FLAG(EVENT_DISABLE_TIMING, EventDisableTiming);
FLAG(HOST_MALLOC_PORTABLE, HostMallocPortable);
FLAG(HOST_MALLOC_MAPPED, HostMallocMapped);
FLAG(HOST_MALLOC_COHERENT, HostMallocCoherent);
FLAG(HOST_REGISTER_PORTABLE, HostRegisterPortable);
FLAG(HOST_REGISTER_MAPPED, HostRegisterMapped);
FLAG(STREAM_WAIT_VALUE_GTE, StreamWaitValueGte);
FLAG(STREAM_CAPTURE_STATUS_NONE, StreamCaptureStatusNone);
FLAG(STREAM_CAPTURE_MODE_RELAXED, StreamCaptureModeRelaxed);
FLAG(EXTERNAL_MEMORY_OPAQUE_FD, ExternalMemoryHandleTypeOpaqueFd);
FLAG(MEM_ATTACH_GLOBAL, MemAttachGlobal);
/* A pointer is not a constant expression, so the streams are compared as integers. */
#define hipStream_t uintptr_t
#define hip_stream uintptr_t
FLAG(STREAM_PER_THREAD, StreamPerThread);
#if HIP_VERSION_MAJOR >= 6
FLAG(STREAM_LEGACY, StreamLegacy);
#endif
#undef hipStream_t
#undef hip_stream

#define POINTER(name) NUMBER(HIPABI_POINTER_##name, HIP_POINTER_ATTRIBUTE_##name)
POINTER(MEMORY_TYPE);
POINTER(IS_MANAGED);
POINTER(DEVICE_ORDINAL);

/* The trap: the numbers of one name differ. */
#if HIP_VERSION_MAJOR >= 6
FLAG(MEMORY_TYPE_HOST, MemoryTypeHost);
FLAG(MEMORY_TYPE_DEVICE, MemoryTypeDevice);
#else
FLAG(MEMORY_TYPE_HOST_5, MemoryTypeHost);
FLAG(MEMORY_TYPE_DEVICE_5, MemoryTypeDevice);
#endif
#if HIP_VERSION_MAJOR >= 7
FLAG(MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, MemRangeHandleTypeDmaBufFd);
FLAG(MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, MemRangeFlagDmaBufMappingTypePcie);
LIKE(hip_range_handle_type, hipMemRangeHandleType);
#else
typedef unsigned int hipMemRangeHandleType;
hipError_t hipMemGetHandleForAddressRange(void *handle, hipDeviceptr_t p, size_t bytes,
					  hipMemRangeHandleType type,
					  unsigned long long flags);
typedef hip_range_handle_type not_before_hip_7;
#endif

/* HIP 5 has less behind `flags`, and reads nothing there. */
FIELD(hip_memory_desc, hipExternalMemoryHandleDesc, type);
FIELD(hip_memory_desc, hipExternalMemoryHandleDesc, handle);
FIELD(hip_memory_desc, hipExternalMemoryHandleDesc, handle.fd);
FIELD(hip_memory_desc, hipExternalMemoryHandleDesc, size);
FIELD(hip_memory_desc, hipExternalMemoryHandleDesc, flags);
NUMBER(sizeof(union hip_handle), sizeof(((hipExternalMemoryHandleDesc *)0)->handle));
FIELD(hip_buffer_desc, hipExternalMemoryBufferDesc, offset);
FIELD(hip_buffer_desc, hipExternalMemoryBufferDesc, size);
FIELD(hip_buffer_desc, hipExternalMemoryBufferDesc, flags);
#if HIP_VERSION_MAJOR >= 6
FIELD(hip_memory_desc, hipExternalMemoryHandleDesc, reserved);
FIELD(hip_buffer_desc, hipExternalMemoryBufferDesc, reserved);
NUMBER(sizeof(struct hip_memory_desc), sizeof(hipExternalMemoryHandleDesc));
NUMBER(sizeof(struct hip_buffer_desc), sizeof(hipExternalMemoryBufferDesc));
#endif
NUMBER(sizeof(struct hip_uuid), sizeof(hipUUID));

/* HIP 6 has renamed its struct and its function, and the old names are those of HIP 5. */
#if HIP_VERSION_MAJOR >= 6
FIELD(hip_properties, hipDeviceProp_tR0600, gcnArchName);
NUMBER(sizeof(struct hip_properties), sizeof(hipDeviceProp_tR0600));
#undef hipGetDeviceProperties
hipError_t hipGetDeviceProperties(struct hip_properties_5 *p, int dev);
#define hip_properties hipDeviceProp_tR0600
typedef struct hip_properties_5 not_since_hip_6;
#else
FIELD(hip_properties_5, hipDeviceProp_t, gcnArch);
FIELD(hip_properties_5, hipDeviceProp_t, gcnArchName);
NUMBER(sizeof(struct hip_properties_5), sizeof(hipDeviceProp_t));
hipError_t hipGetDevicePropertiesR0600(struct hip_properties *p, int dev);
#define hip_properties_5 hipDeviceProp_t
#endif
NUMBER(HIPRTCABI_OUT_OF_MEMORY, HIPRTC_ERROR_OUT_OF_MEMORY);

LIKE(hip_result, hipError_t);
LIKE(hip_device_attribute, hipDeviceAttribute_t);
LIKE(hip_pointer_attribute, hipPointer_attribute);
LIKE(hip_capture_status, hipStreamCaptureStatus);
LIKE(hip_capture_mode, hipStreamCaptureMode);
LIKE(hip_stream, hipStream_t);
LIKE(hip_event, hipEvent_t);
SAME(hip_device_ordinal, hipDevice_t);
SAME(hip_pointer, hipDeviceptr_t);
SAME(hip_external_memory, hipExternalMemory_t);
SAME(hip_host_fn, hipHostFn_t);
LIKE(hsa_result, hsa_status_t);
SAME(hip_module, hipModule_t);
SAME(hip_function, hipFunction_t);
LIKE(hiprtc_result, hiprtcResult);
LIKE(hiprtc_program, hiprtcProgram);

/* The types that have just been compared: from here on theirs for ours. */
#define hip_result hipError_t
#define hiprtc_result hiprtcResult
#define hiprtc_program hiprtcProgram
#define hip_device_attribute hipDeviceAttribute_t
#define hip_pointer_attribute hipPointer_attribute
#define hip_range_handle_type hipMemRangeHandleType
#define hip_capture_status hipStreamCaptureStatus
#define hip_capture_mode hipStreamCaptureMode
#define hip_stream hipStream_t
#define hip_event hipEvent_t
#define hip_uuid hipUUID_t
#define hip_memory_desc hipExternalMemoryHandleDesc_st
#define hip_buffer_desc hipExternalMemoryBufferDesc_st
#define TAKES(name, params) \
	typedef hipError_t ours_##name params; \
	_Static_assert(__builtin_types_compatible_p(ours_##name, \
						    __typeof__(hip##name)), \
		       "hip" #name " has other parameters");
#if HIP_VERSION_MAJOR >= 7
typedef const void *source_of_7;
LIKE(hip_source, source_of_7);
#define hip_source source_of_7
typedef const char *const *strings_of_7;
LIKE(hiprtc_strings, strings_of_7);
#define hiprtc_strings strings_of_7
#endif
#define X(name, needed, params) TAKES(name, params)
HIP_FUNCTIONS(X)
#undef X
#define X(name, params) \
	typedef hiprtcResult rtc_##name params; \
	SAME(rtc_##name, __typeof__(hiprtc##name));
HIPRTC_FUNCTIONS(X)
#undef X
SAME(hsa_export_fn, hsa_result (*)(const void *, size_t, int *, uint64_t *));
typedef hsa_status_t theirs_export(const void *, size_t, int *, uint64_t *);
SAME(theirs_export, __typeof__(hsa_amd_portable_export_dmabuf));
