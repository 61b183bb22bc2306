// SPDX-License-Identifier: MIT
/* The inner loops for every processor: vectors of 16 bytes (SSE2, NEON, or plain words). */
#define LANES 4
#define KERNELS prepare_kernels
#define LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#if defined(__SSSE3__) || (defined(__aarch64__) && LITTLE)
#define SHUFFLES
#endif
#if defined(__aarch64__) && LITTLE
#include <arm_neon.h>
#define WINDOW(row, at) ((vi)vld1q_u8((const uint8_t *)((row) + (at)[0])))
#define SHUFFLE(v, how) ((vi)vqtbl1q_u8((uint8x16_t)(v), vld1q_u8(how)))
#define SHUFFLE_TWO(v, w, how) \
	((vi)vqtbl2q_u8((uint8x16x2_t){ { (uint8x16_t)(v), (uint8x16_t)(w) } }, vld1q_u8(how)))
#define SHUFFLE_BYTES(v, how) ((vb)vqtbl1q_u8((uint8x16_t)(v), (uint8x16_t)(how)))
#define NO 255, 255, 255
#define WIDE_BYTES(v, k) ((vi)vqtbl1q_u8((uint8x16_t)(v), (uint8x16_t){ \
	4 * (k), NO, 4 * (k) + 1, NO, 4 * (k) + 2, NO, 4 * (k) + 3, NO }))
/* These instructions ignore NaN, so NaN becomes low. */
#define CLAMP(x, low, high) \
	((vf)vminnmq_f32(vmaxnmq_f32((float32x4_t)(x), (float32x4_t)(low)), (float32x4_t)(high)))
#define TO_HALVES(x) ((halves)vcvt_f16_f32((float32x4_t)(x)))
#define WIDE_HALVES(x) ((vi)vmovl_u16((uint16x4_t)TO_HALVES(x)))
#define PUT_PIXELS put_8_pixels
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#define CLAMP(x, low, high) \
	((vf)_mm_min_ps(_mm_max_ps((__m128)(x), (__m128)(low)), (__m128)(high)))
#endif
#include "kernels.h"
