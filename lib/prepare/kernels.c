// SPDX-License-Identifier: MIT
/* The inner loops for every processor: vectors of 16 bytes (SSE2, NEON, or plain words). */
#define LANES 4
#define KERNELS prepare_kernels
#if defined(__SSSE3__) || defined(__aarch64__)
#define SHUFFLES
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#define SPREAD(row, at, shuffles) \
	((vi)vqtbl1q_u8(vld1q_u8((row) + (at)[0]), vld1q_u8(shuffles)))
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#define CLAMP(x, low, high) \
	((vf)_mm_min_ps(_mm_max_ps((__m128)(x), (__m128)(low)), (__m128)(high)))
#endif
#include "kernels.h"
