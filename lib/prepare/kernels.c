// SPDX-License-Identifier: MIT
/* The inner loops for every processor: vectors of 16 bytes (SSE2, NEON, or plain words). */
#define LANES 4
#define KERNELS prepare_kernels
#ifdef __SSE2__
#include <emmintrin.h>
#define CLAMP(x, low, high) \
	((vf)_mm_min_ps(_mm_max_ps((__m128)(x), (__m128)(low)), (__m128)(high)))
#endif
#include "kernels.h"
