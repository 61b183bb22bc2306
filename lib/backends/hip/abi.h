/* SPDX-License-Identifier: MIT */
/*
 * The part of HIP's runtime API that dlbuf uses, as the ABI of libamdhip64.so.5 and
 * later. dlbuf declares it here so that one binary works with every version: the
 * headers of one version describe that version only. The names are those of
 * hip_runtime_api.h with another prefix, so both headers can be included.
 * tests/abi/hip compares them with the headers of each major version.
 */
#ifndef DLBUF_HIP_ABI_H
#define DLBUF_HIP_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int hip_result;			/* hipError_t */
typedef int hip_device_ordinal;		/* hipDevice_t */
/* Enumerations. In C they are as wide as unsigned int, and all values fit. */
typedef int hip_device_attribute;	/* hipDeviceAttribute_t */
typedef int hip_pointer_attribute;	/* hipPointer_attribute */
typedef int hip_range_handle_type;	/* hipMemRangeHandleType */
typedef int hip_capture_status;		/* hipStreamCaptureStatus */
typedef int hip_capture_mode;		/* hipStreamCaptureMode */
typedef struct ihipStream_t *hip_stream;
typedef struct ihipEvent_t *hip_event;
typedef void *hip_pointer;		/* hipDeviceptr_t */
typedef void *hip_source;		/* since HIP 7 a const void * */
typedef void *hip_external_memory;
typedef struct ihipModule_t *hip_module;
typedef struct ihipModuleSymbol_t *hip_function;
typedef void (*hip_host_fn)(void *data);

struct hip_uuid {
	char bytes[16];
};

/* hipError* */
enum {
	HIPABI_SUCCESS = 0,
	HIPABI_OUT_OF_MEMORY = 2,
	HIPABI_DEINITIALIZED = 4,
	HIPABI_INSUFFICIENT_DRIVER = 35,
	HIPABI_NO_DEVICE = 100,
	HIPABI_INVALID_DEVICE = 101,
	HIPABI_ECC_NOT_CORRECTABLE = 214,
	HIPABI_NOT_READY = 600,
	HIPABI_ILLEGAL_ADDRESS = 700,
	HIPABI_LAUNCH_TIME_OUT = 702,
	HIPABI_CONTEXT_IS_DESTROYED = 709,
	HIPABI_ASSERT = 710,
	HIPABI_LAUNCH_FAILURE = 719,
	HIPABI_NOT_SUPPORTED = 801,
	HIPABI_STREAM_CAPTURE_IMPLICIT = 906,
};

/* hipDeviceAttribute* */
enum {
	HIPABI_ATTR_PCI_BUS_ID = 67,
	HIPABI_ATTR_PCI_DEVICE_ID = 68,
	HIPABI_ATTR_PCI_DOMAIN_ID = 69,
};

/* Flags. */
enum {
	HIPABI_STREAM_NON_BLOCKING = 1,
	HIPABI_EVENT_BLOCKING_SYNC = 1,
	HIPABI_EVENT_DISABLE_TIMING = 2,
	HIPABI_HOST_MALLOC_PORTABLE = 1,
	HIPABI_HOST_MALLOC_MAPPED = 2,
	HIPABI_HOST_MALLOC_COHERENT = 0x40000000,
	HIPABI_HOST_REGISTER_PORTABLE = 1,
	HIPABI_HOST_REGISTER_MAPPED = 2,
	HIPABI_STREAM_WAIT_VALUE_GTE = 0,
	HIPABI_STREAM_CAPTURE_STATUS_NONE = 0,
	HIPABI_STREAM_CAPTURE_MODE_RELAXED = 2,
	HIPABI_EXTERNAL_MEMORY_OPAQUE_FD = 1,	/* a type */
	HIPABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,	/* since 7.0 */
	HIPABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 1,
};

/* Values of `stream` that HIP has and DLPack refuses. */
#define HIPABI_STREAM_LEGACY ((hip_stream)(uintptr_t)1)		/* since 6.x */
#define HIPABI_STREAM_PER_THREAD ((hip_stream)(uintptr_t)2)

/* HIP_POINTER_ATTRIBUTE_* */
enum {
	HIPABI_POINTER_MEMORY_TYPE = 2,		/* unsigned int: hipMemoryType */
	HIPABI_POINTER_IS_MANAGED = 8,		/* bool */
	HIPABI_POINTER_DEVICE_ORDINAL = 9,	/* int */
};

/* hipMemoryType, whose values HIP 6 has renumbered. */
enum {
	HIPABI_MEMORY_TYPE_HOST_5 = 0,
	HIPABI_MEMORY_TYPE_HOST = 1,
};

union hip_handle {
	int fd;
	void *win32[2];
};

/*
 * hipExternalMemoryHandleDesc, hipExternalMemoryBufferDesc. Before HIP 6 they have no
 * reserved fields; the fields before these are at the same places.
 */
struct hip_memory_desc {
	int type;
	union hip_handle handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

struct hip_buffer_desc {
	unsigned long long offset;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

/* hipDeviceProp_t before HIP 6 and since, of which dlbuf reads one field. */
struct hip_properties_5 {
	uint64_t before[49];
	int gcnArch;
	char gcnArchName[256];
	int behind[35];
};

struct hip_properties {
	uint64_t before[145];
	char gcnArchName[256];
	int behind[14];
};

/* Types of hiprtc, which is in libhiprtc.so.N, and before HIP 7 in libamdhip64, too. */
typedef int hiprtc_result;		/* hiprtcResult */
typedef struct hiprtc_program_st *hiprtc_program;
typedef const char **hiprtc_strings;	/* since HIP 7 a const char *const * */

enum {
	HIPRTCABI_OUT_OF_MEMORY = 1,
};

/* hsa_status_t of libhsa-runtime64.so.1. */
typedef int hsa_result;

#endif /* DLBUF_HIP_ABI_H */
