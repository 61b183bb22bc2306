// SPDX-License-Identifier: MIT
/* The inner loops for x86 with AVX2, FMA and F16C; rows.c asks the processor. */
#if defined(__x86_64__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#define LANES 8
#define SHUFFLES
#define KERNELS prepare_kernels_avx2
#define HALF_ROW(p) _mm_loadu_si128((const __m128i *)(p))
#define WINDOW(row, at) ((vi)_mm256_set_m128i(HALF_ROW((row) + (at)[4]), HALF_ROW((row) + (at)[0])))
#define SHUFFLE(v, how) \
	((vi)_mm256_shuffle_epi8((__m256i)(v), _mm256_loadu_si256((const __m256i *)(how))))
#define SHUFFLE_BYTES(v, how) ((vb)_mm_shuffle_epi8((__m128i)(v), (__m128i)(how)))
#define WIDE_BYTES(v, k) \
	((vi)_mm256_cvtepu8_epi32((k) ? _mm_srli_si128((__m128i)(v), 8) : (__m128i)(v)))
#define CLAMP(x, low, high) \
	((vf)_mm256_min_ps(_mm256_max_ps((__m256)(x), (__m256)(low)), (__m256)(high)))
#define TO_HALVES(x) ((halves)_mm256_cvtps_ph((__m256)(x), 0))
#define WIDE_HALVES(x) ((vi)_mm256_cvtepu16_epi32((__m128i)TO_HALVES(x)))
#include "kernels.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_avx2;
#endif
