/* SPDX-License-Identifier: MIT */
/* The kernel of lib/prepare in OpenCL C, for compilers of SPIR-V. */
#define KERNEL kernel __attribute__((reqd_work_group_size(8, 8, 1)))
#define FUNCTION static
#define GLOBAL global
#define AS_FLOAT as_float
#define AS_UINT as_uint
#define RINT rint
#define ITEM_X ((uint)get_global_id(0))
#define ITEM_Y ((uint)get_global_id(1))
#define ITEM_Z ((uint)get_group_id(2))
#define PROGRAM(...) __VA_ARGS__
#include "../../prepare/kernel.h"
