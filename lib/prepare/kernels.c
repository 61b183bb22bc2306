// SPDX-License-Identifier: MIT
/* The inner loops for every processor: vectors of 16 bytes (SSE2, NEON, or plain words). */
#define LANES 4
#define KERNELS prepare_kernels
#ifdef __SSE2__
#include <emmintrin.h>
#define CLAMP(x) ((vf)_mm_min_ps(_mm_max_ps((__m128)(x), _mm_setzero_ps()), _mm_set1_ps(1)))
#endif
#include "kernels.h"
