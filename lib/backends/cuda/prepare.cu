/* SPDX-License-Identifier: MIT */
/* The kernel of plans for clang, which `ptx` calls. */
#define PROGRAM(...) __VA_ARGS__
#define uchar unsigned char
#define ushort unsigned short
#define uint unsigned int
#define KERNEL extern "C" __attribute__((global))
#define FUNCTION static __attribute__((device))
#define GLOBAL
#define AS_FLOAT(bits) __builtin_bit_cast(float, (uint)(bits))
#define AS_UINT(f) __builtin_bit_cast(uint, (float)(f))
#define RINT(f) __builtin_rintf(f)
#define ITEM(x) (__nvvm_read_ptx_sreg_ctaid_##x() * __nvvm_read_ptx_sreg_ntid_##x() + \
		 __nvvm_read_ptx_sreg_tid_##x())
#define ITEM_X ITEM(x)
#define ITEM_Y ITEM(y)
#define ITEM_Z __nvvm_read_ptx_sreg_ctaid_z()

#include "../../prepare/kernel.h"
