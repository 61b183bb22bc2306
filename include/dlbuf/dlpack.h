/* SPDX-License-Identifier: MIT */
/*
 * The DLPack 1.3 ABI, declared in dlbuf's own words.
 *
 * dlbuf needs no other header than its own, so the ABI that it speaks is here:
 * the same names, numbers and struct layouts as the official dlpack/dlpack.h,
 * which the test suite compares with this one, field by field, for the
 * official versions 1.0 and 1.3.
 *
 * One program may include both. They share the official include guard:
 *   official first   its declarations are used; they must be 1.0 or newer;
 *   this one first   the official header, included later, adds nothing;
 *   -DDLBUF_SYSTEM_DLPACK
 *                    this header includes <dlpack/dlpack.h> by itself.
 * It does not look for an installed header unasked: Debian 12 installs
 * version 0.6 under the same name, which has no versioned tensor, and the
 * preprocessor cannot learn a header's version without including it.
 *
 * Specification: https://dmlc.github.io/dlpack/latest/c_api.html
 */
#if defined(DLBUF_SYSTEM_DLPACK) && !defined(DLPACK_DLPACK_H_)
#include <dlpack/dlpack.h>
#endif

#ifdef DLPACK_DLPACK_H_
#if !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION != 1
#error "dlbuf needs DLPack 1.x: include <dlbuf/dlpack.h> before the installed <dlpack/dlpack.h>"
#endif
#ifndef __cplusplus
/* The official 1.0 gives it this name in C++ only. */
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
#endif
#else
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif
#define DLPACK_DLL

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

/*
 * Version of the ABI that a versioned tensor was written for. A consumer that
 * meets another major version calls the deleter and reads nothing else;
 * another minor version only brings codes that it may not know.
 */
typedef struct {
	uint32_t major;
	uint32_t minor;
} DLPackVersion;

/* Where the memory is. 5 and 6 were never given a meaning. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
	kDLCPU = 1,
	kDLCUDA = 2,
	kDLCUDAHost = 3,	/* page-locked host memory of CUDA */
	kDLOpenCL = 4,
	kDLVulkan = 7,
	kDLMetal = 8,
	kDLVPI = 9,		/* a Verilog simulator, not NVIDIA VPI */
	kDLROCM = 10,
	kDLROCMHost = 11,	/* page-locked host memory of HIP */
	kDLExtDev = 12,		/* for experiments */
	kDLCUDAManaged = 13,
	kDLOneAPI = 14,		/* USM of oneAPI and Level Zero */
	kDLWebGPU = 15,
	kDLHexagon = 16,
	kDLMAIA = 17,
	kDLTrn = 18,		/* AWS Trainium */
} DLDeviceType;

/* A device. device_id is 0 for host memory of every kind. */
typedef struct {
	DLDeviceType device_type;
	int32_t device_id;
} DLDevice;

/* What one lane of an element holds. */
typedef enum {
	kDLInt = 0U,
	kDLUInt = 1U,
	kDLFloat = 2U,
	kDLOpaqueHandle = 3U,
	kDLBfloat = 4U,
	kDLComplex = 5U,
	kDLBool = 6U,
	kDLFloat8_e3m4 = 7U,
	kDLFloat8_e4m3 = 8U,
	kDLFloat8_e4m3b11fnuz = 9U,
	kDLFloat8_e4m3fn = 10U,
	kDLFloat8_e4m3fnuz = 11U,
	kDLFloat8_e5m2 = 12U,
	kDLFloat8_e5m2fnuz = 13U,
	kDLFloat8_e8m0fnu = 14U,
	kDLFloat6_e2m3fn = 15U,		/* bits is always 6 */
	kDLFloat6_e3m2fn = 16U,		/* bits is always 6 */
	kDLFloat4_e2m1fn = 17U,		/* bits is always 4 */
} DLDataTypeCode;

/* An element: `lanes` values of `bits` bits each, in native byte order. */
typedef struct {
	uint8_t code;		/* a DLDataTypeCode */
	uint8_t bits;
	uint16_t lanes;
} DLDataType;

/*
 * The tensor itself. shape and strides have ndim entries; strides count
 * elements, not bytes, and may be NULL (row-major and compact) only in
 * tensors older than 1.2. Both are NULL when ndim is 0. A tensor without
 * elements has data == NULL.
 */
typedef struct {
	void *data;		/* a pointer or, on some devices, a handle */
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;	/* bytes from data to the first element */
} DLTensor;

/*
 * A tensor and how to give it back, as before 1.0: no version, no flags.
 * deleter(self) frees the struct too; it may be NULL.
 */
typedef struct DLManagedTensor {
	DLTensor dl_tensor;
	void *manager_ctx;	/* the producer's own */
	void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

/* Bits of DLManagedTensorVersioned.flags. */
#define DLPACK_FLAG_BITMASK_READ_ONLY			(1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED			(1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED	(1UL << 2UL)

/* A tensor and how to give it back. Everything up to flags stays for ever. */
typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;	/* the producer's own */
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

/*
 * The exchange API: a static table that a framework publishes to hand tensors
 * over without Python calls. Each function returns 0, or -1 with a Python
 * exception set; none of them synchronises.
 */
typedef int (*DLPackManagedTensorAllocator)(DLTensor *prototype,
		DLManagedTensorVersioned **out, void *error_ctx,
		void (*SetError)(void *error_ctx, const char *kind,
				 const char *message));
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void *py_object,
		DLManagedTensorVersioned **out);
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type,
		int32_t device_id, void **out_current_stream);
typedef int (*DLPackManagedTensorToPyObjectNoSync)(
		DLManagedTensorVersioned *tensor, void **out_py_object);

/* version first, then an older table for consumers of an older major. */
typedef struct DLPackExchangeAPIHeader {
	DLPackVersion version;
	struct DLPackExchangeAPIHeader *prev_api;	/* or NULL */
} DLPackExchangeAPIHeader;

typedef struct DLPackExchangeAPI {
	DLPackExchangeAPIHeader header;
	DLPackManagedTensorAllocator managed_tensor_allocator;
	DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
	DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
	DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync; /* or NULL */
	DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */
