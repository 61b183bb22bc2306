/* SPDX-License-Identifier: MIT */
/*
 * The ABI of DLPack 1.3, declared by dlbuf.
 *
 * This header declares the same names, numbers and struct layouts as the official
 * dlpack/dlpack.h, so that dlbuf needs no other header. The test suite compares
 * it, field by field, with the official versions 1.0, 1.2 and 1.3.
 *
 * It also names the codes that DLPack has added since 1.3 without a new version: kDLTPU,
 * kDLTPUHost, kDLAscend and kDLBcomplex. After an official header these are macros, because
 * the preprocessor cannot test whether that header declares them. So write kDLTPU, not
 * DLDeviceType::kDLTPU.
 *
 * One program may include both headers. They have the same include guard:
 *   official first   its declarations are used; it must be 1.0 or newer
 *   this one first   the official header, included later, adds nothing
 *   -DDLBUF_SYSTEM_DLPACK
 *                    this header includes <dlpack/dlpack.h>
 * By default it does not include an installed header: Debian 12 installs version
 * 0.6 under the same name, which has no versioned tensor, and the preprocessor
 * cannot read a header's version before including it.
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
#if !defined(__cplusplus) && !defined(DLBUF_HAS_VERSIONED)
#define DLBUF_HAS_VERSIONED
/* The official 1.0 declares this name in C++ only. */
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
#endif
#if DLPACK_MINOR_VERSION < 4 && !defined(kDLTPU)
#ifdef __cplusplus
#define DLBUF_DLPACK_CODE(type, n) (static_cast<type>(n))
#else
#define DLBUF_DLPACK_CODE(type, n) ((type)(n))
#endif
#define kDLTPU DLBUF_DLPACK_CODE(DLDeviceType, 19)
#define kDLTPUHost DLBUF_DLPACK_CODE(DLDeviceType, 20)
#define kDLAscend DLBUF_DLPACK_CODE(DLDeviceType, 21)
#define kDLBcomplex DLBUF_DLPACK_CODE(DLDataTypeCode, 18U)
#if DLPACK_MINOR_VERSION < 2
#define kDLTrn DLBUF_DLPACK_CODE(DLDeviceType, 18)
#endif
#endif
#else
#define DLPACK_DLPACK_H_
#define DLBUF_HAS_VERSIONED

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
 * Version of the ABI of a versioned tensor. If a consumer reads another major
 * version, it must call the deleter and read nothing else. Another minor version
 * only adds codes that the consumer may not know.
 */
typedef struct {
	uint32_t major;
	uint32_t minor;
} DLPackVersion;

/* The kind of memory. 5 and 6 never had a meaning. */
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
	kDLTPU = 19,		/* Google TPU */
	kDLTPUHost = 20,	/* page-locked host memory of a TPU */
	kDLAscend = 21,		/* Huawei Ascend */
} DLDeviceType;

/* A device. device_id is 0 for host memory of every kind. */
typedef struct {
	DLDeviceType device_type;
	int32_t device_id;
} DLDevice;

/* The type of one lane of an element. */
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
	kDLBcomplex = 18U,		/* two bfloat16: bits is always 32 */
} DLDataTypeCode;

/* An element: `lanes` values of `bits` bits each, in native byte order. */
typedef struct {
	uint8_t code;		/* a DLDataTypeCode */
	uint8_t bits;
	uint16_t lanes;
} DLDataType;

/*
 * The tensor. shape and strides have ndim entries. Strides count elements, not
 * bytes. They may be NULL (row-major and compact) only in tensors older than 1.2.
 * If ndim is 0, shape and strides are NULL. A tensor without elements has data == NULL.
 */
typedef struct {
	void *data;		/* an address, or a handle on some devices */
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;	/* bytes from data to the first element */
} DLTensor;

/*
 * A tensor and its deleter, as before DLPack 1.0: without version and flags.
 * deleter(self) also frees the struct. deleter may be NULL.
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

/* A tensor and its deleter. The members up to flags never change. */
typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;	/* the producer's own */
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

/*
 * The exchange API: a static table that a framework publishes. Consumers use it
 * to exchange tensors without Python calls. Each function returns 0, or -1 with a
 * Python exception set. No function synchronises.
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

/* prev_api points to an older table, for consumers of an older major version. */
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
