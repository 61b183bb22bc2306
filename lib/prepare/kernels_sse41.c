// SPDX-License-Identifier: MIT
/* The inner loops for x86 with SSE4.1; rows.c asks the processor. */
#if defined(__x86_64__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("sse4.1"))), apply_to = function)
#else
#pragma GCC target("sse4.1")
#endif

#define LANES 4
#define SSE41
#define SHUFFLES
#define KERNELS prepare_kernels_sse41
#define WINDOW(row, at) ((vi)_mm_loadu_si128((const __m128i *)((row) + (at)[0])))
#define SHUFFLE(v, how) \
	((vi)_mm_shuffle_epi8((__m128i)(v), _mm_loadu_si128((const __m128i *)(how))))
#define CLAMP(x, low, high) \
	((vf)_mm_min_ps(_mm_max_ps((__m128)(x), (__m128)(low)), (__m128)(high)))
#include "kernels.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_sse41;
#endif
