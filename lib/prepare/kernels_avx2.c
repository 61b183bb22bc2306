// SPDX-License-Identifier: MIT
/* The inner loops for x86 with AVX2 and FMA; rows.c asks the processor. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#include <immintrin.h>

#define LANES 8
#define KERNELS prepare_kernels_avx2
#define GATHER(row, at) ((vf)_mm256_i32gather_ps(row, (__m256i)(at), 4))
#define GATHER_BYTES(row, at) ((vi)_mm256_i32gather_epi32((const int *)(row), (__m256i)(at), 1))
#define CLAMP(x) ((vf)_mm256_min_ps(_mm256_max_ps((__m256)(x), _mm256_setzero_ps()), \
				    _mm256_set1_ps(1)))
#include "kernels.h"
#else
typedef int no_avx2;
#endif
