/* SPDX-License-Identifier: MIT */
/* The picture of the tests' USB camera: byte i of frame number n. */
#ifndef TESTS_FAKES_UVC_H
#define TESTS_FAKES_UVC_H

#include <stddef.h>
#include <stdint.h>

#define UVC_WIDTH 320u
#define UVC_HEIGHT 180u

/* The first four bytes are n itself, the lowest first. */
static inline uint8_t uvc_pattern(uint32_t n, size_t i)
{
	return i < 4 ? n >> 8 * i : i * 7 + (i >> 8) + n * 13;
}

#endif /* TESTS_FAKES_UVC_H */
