// SPDX-License-Identifier: MIT
/* The inner loops for bytes, for x86 with SSE4.1; rows.c asks the processor. */
#if defined(__x86_64__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("sse4.1"))), apply_to = function)
#else
#pragma GCC target("sse4.1")
#endif

#define WIDE 8
#define KERNELS byte_kernels_sse41
#include "bytes.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_sse41;
#endif
