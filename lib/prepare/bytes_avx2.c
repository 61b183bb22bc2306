// SPDX-License-Identifier: MIT
/* The inner loops for bytes, for x86 with AVX2; rows.c asks the processor. */
#if defined(__x86_64__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define WIDE 16
#define KERNELS byte_kernels_avx2
#include "bytes.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_avx2;
#endif
