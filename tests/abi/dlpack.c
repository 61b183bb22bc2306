// SPDX-License-Identifier: MIT
/*
 * DLPack's ABI, field by field. Compiled with dlbuf's own header, and with
 * -DOFFICIAL with the official one: checks that hold for both prove that both
 * agree. As C and as C++, for 64 bits and for 32.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef OFFICIAL
#include <dlpack/dlpack.h>
#if DLPACK_MINOR_VERSION == 0
/* The official 1.0 gives it this name in C++ only. */
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
#endif
#else
#include <dlbuf/dlpack.h>
#endif

#ifdef __cplusplus
#include <type_traits>
#define ASSERT(what) static_assert(what, #what)
#define SAME(a, b) (std::is_same<a, b>::value)
#define FIELD_TYPE(type, field) decltype(type::field)
#else
#define ASSERT(what) _Static_assert(what, #what)
#define SAME(a, b) __builtin_types_compatible_p(a, b)
#define FIELD_TYPE(type, field) __typeof__(((type *)0)->field)
#endif

#define BITS(b64, b32) (sizeof(void *) == 8 ? (b64) : (b32))

#define STRUCT(type, s64, s32, a64, a32) \
	ASSERT(sizeof(type) == BITS(s64, s32)); \
	ASSERT(__alignof__(type) == BITS(a64, a32))

#define FIELD(type, field, o64, o32, as) \
	ASSERT(offsetof(type, field) == BITS(o64, o32)); \
	ASSERT(SAME(FIELD_TYPE(type, field), as))

ASSERT(DLPACK_MAJOR_VERSION == 1);
#ifdef MINOR
ASSERT(DLPACK_MINOR_VERSION == MINOR);
#endif

/* ---------------------------------------------------------------- structs */

STRUCT(DLPackVersion, 8, 8, 4, 4);
FIELD(DLPackVersion, major, 0, 0, uint32_t);
FIELD(DLPackVersion, minor, 4, 4, uint32_t);

STRUCT(DLDevice, 8, 8, 4, 4);
FIELD(DLDevice, device_type, 0, 0, DLDeviceType);
FIELD(DLDevice, device_id, 4, 4, int32_t);

STRUCT(DLDataType, 4, 4, 2, 2);
FIELD(DLDataType, code, 0, 0, uint8_t);
FIELD(DLDataType, bits, 1, 1, uint8_t);
FIELD(DLDataType, lanes, 2, 2, uint16_t);

STRUCT(DLTensor, 48, 40, 8, 8);
FIELD(DLTensor, data, 0, 0, void *);
FIELD(DLTensor, device, 8, 4, DLDevice);
FIELD(DLTensor, ndim, 16, 12, int32_t);
FIELD(DLTensor, dtype, 20, 16, DLDataType);
FIELD(DLTensor, shape, 24, 20, int64_t *);
FIELD(DLTensor, strides, 32, 24, int64_t *);
FIELD(DLTensor, byte_offset, 40, 32, uint64_t);

STRUCT(DLManagedTensor, 64, 48, 8, 8);
FIELD(DLManagedTensor, dl_tensor, 0, 0, DLTensor);
FIELD(DLManagedTensor, manager_ctx, 48, 40, void *);
FIELD(DLManagedTensor, deleter, 56, 44, void (*)(struct DLManagedTensor *));

STRUCT(DLManagedTensorVersioned, 80, 64, 8, 8);
FIELD(DLManagedTensorVersioned, version, 0, 0, DLPackVersion);
FIELD(DLManagedTensorVersioned, manager_ctx, 8, 8, void *);
FIELD(DLManagedTensorVersioned, deleter, 16, 12,
      void (*)(struct DLManagedTensorVersioned *));
FIELD(DLManagedTensorVersioned, flags, 24, 16, uint64_t);
FIELD(DLManagedTensorVersioned, dl_tensor, 32, 24, DLTensor);

ASSERT(DLPACK_FLAG_BITMASK_READ_ONLY == 1);
ASSERT(DLPACK_FLAG_BITMASK_IS_COPIED == 2);
ASSERT(SAME(__typeof__(DLPACK_FLAG_BITMASK_READ_ONLY), unsigned long));
ASSERT(SAME(__typeof__(DLPACK_FLAG_BITMASK_IS_COPIED), unsigned long));

/* ---------------------------------------------------------------- enums */

ASSERT(sizeof(DLDeviceType) == 4);
#ifdef __cplusplus
ASSERT(SAME(std::underlying_type<DLDeviceType>::type, int32_t));
#endif
ASSERT(kDLCPU == 1);
ASSERT(kDLCUDA == 2);
ASSERT(kDLCUDAHost == 3);
ASSERT(kDLOpenCL == 4);
ASSERT(kDLVulkan == 7);
ASSERT(kDLMetal == 8);
ASSERT(kDLVPI == 9);
ASSERT(kDLROCM == 10);
ASSERT(kDLROCMHost == 11);
ASSERT(kDLExtDev == 12);
ASSERT(kDLCUDAManaged == 13);
ASSERT(kDLOneAPI == 14);
ASSERT(kDLWebGPU == 15);
ASSERT(kDLHexagon == 16);
ASSERT(kDLMAIA == 17);

ASSERT(sizeof(DLDataTypeCode) == 4);
ASSERT(kDLInt == 0);
ASSERT(kDLUInt == 1);
ASSERT(kDLFloat == 2);
ASSERT(kDLOpaqueHandle == 3);
ASSERT(kDLBfloat == 4);
ASSERT(kDLComplex == 5);
ASSERT(kDLBool == 6);

/* ---------------------------------------------------------------- since 1.1 */

#if DLPACK_MINOR_VERSION >= 1
ASSERT(kDLFloat8_e3m4 == 7);
ASSERT(kDLFloat8_e4m3 == 8);
ASSERT(kDLFloat8_e4m3b11fnuz == 9);
ASSERT(kDLFloat8_e4m3fn == 10);
ASSERT(kDLFloat8_e4m3fnuz == 11);
ASSERT(kDLFloat8_e5m2 == 12);
ASSERT(kDLFloat8_e5m2fnuz == 13);
ASSERT(kDLFloat8_e8m0fnu == 14);
ASSERT(kDLFloat6_e2m3fn == 15);
ASSERT(kDLFloat6_e3m2fn == 16);
ASSERT(kDLFloat4_e2m1fn == 17);
ASSERT(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED == 4);
ASSERT(SAME(__typeof__(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED),
	    unsigned long));
#endif

/* ---------------------------------------------------------------- since 1.3 */

#if !defined(OFFICIAL)
ASSERT(kDLTPU == 19);
ASSERT(kDLTPUHost == 20);
ASSERT(kDLAscend == 21);
ASSERT(kDLBcomplex == 18);
#endif

/* ---------------------------------------------------------------- since 1.2 */

#if DLPACK_MINOR_VERSION >= 2
ASSERT(kDLTrn == 18);

typedef void (*set_error_fn)(void *, const char *, const char *);
typedef int (*allocator_fn)(DLTensor *, DLManagedTensorVersioned **, void *,
			    set_error_fn);
typedef int (*from_py_fn)(void *, DLManagedTensorVersioned **);
typedef int (*to_py_fn)(DLManagedTensorVersioned *, void **);
typedef int (*dltensor_from_py_fn)(void *, DLTensor *);
typedef int (*stream_fn)(DLDeviceType, int32_t, void **);

ASSERT(SAME(DLPackManagedTensorAllocator, allocator_fn));
ASSERT(SAME(DLPackManagedTensorFromPyObjectNoSync, from_py_fn));
ASSERT(SAME(DLPackManagedTensorToPyObjectNoSync, to_py_fn));
ASSERT(SAME(DLPackDLTensorFromPyObjectNoSync, dltensor_from_py_fn));
ASSERT(SAME(DLPackCurrentWorkStream, stream_fn));

STRUCT(DLPackExchangeAPIHeader, 16, 12, 8, 4);
FIELD(DLPackExchangeAPIHeader, version, 0, 0, DLPackVersion);
FIELD(DLPackExchangeAPIHeader, prev_api, 8, 8,
      struct DLPackExchangeAPIHeader *);

STRUCT(DLPackExchangeAPI, 56, 32, 8, 4);
FIELD(DLPackExchangeAPI, header, 0, 0, DLPackExchangeAPIHeader);
FIELD(DLPackExchangeAPI, managed_tensor_allocator, 16, 12, allocator_fn);
FIELD(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync, 24, 16,
      from_py_fn);
FIELD(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync, 32, 20,
      to_py_fn);
FIELD(DLPackExchangeAPI, dltensor_from_py_object_no_sync, 40, 24,
      dltensor_from_py_fn);
FIELD(DLPackExchangeAPI, current_work_stream, 48, 28, stream_fn);
#endif
