// SPDX-License-Identifier: MIT
/* The inner loops for x86 with AVX2 and FMA; rows.c asks the processor. */
#if defined(__x86_64__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define LANES 8
#define KERNELS prepare_kernels_avx2
#define GATHER(row, at) ((vf)_mm256_i32gather_ps(row, *(const __m256i *)(at), 4))
#define GATHER_BYTES(row, at) \
	((vi)_mm256_i32gather_epi32((const int *)(row), *(const __m256i *)(at), 1))
#define GATHER_WORDS(row, at) \
	((vi)_mm256_i32gather_epi32((const int *)(row), *(const __m256i *)(at), 2))
#define CLAMP(x, low, high) \
	((vf)_mm256_min_ps(_mm256_max_ps((__m256)(x), (__m256)(low)), (__m256)(high)))
#include "kernels.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_avx2;
#endif
