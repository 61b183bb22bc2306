/* SPDX-License-Identifier: MIT */
/* The picture of the tests' VA driver: byte i of a surface. */
#ifndef TESTS_FAKES_VA_H
#define TESTS_FAKES_VA_H

#include <stddef.h>
#include <stdint.h>

static inline uint8_t va_pattern(size_t i)
{
	return (i * 2654435761u >> 13 ^ i) & 0xff;
}

#endif /* TESTS_FAKES_VA_H */
