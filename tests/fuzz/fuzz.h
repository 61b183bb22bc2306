/* SPDX-License-Identifier: MIT */
/*
 * Shared by the fuzz targets. An input is a string of small decisions and not
 * a struct, so that a byte changed is a field changed and the corpus outlives
 * the struct.
 */
#ifndef DLBUF_TESTS_FUZZ_H
#define DLBUF_TESTS_FUZZ_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                             \
	do {                                                                 \
		if (!(x)) {                                                  \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__,         \
				__LINE__, #x, dlbuf_last_error());           \
			abort();                                             \
		}                                                            \
	} while (0)

struct input {
	const uint8_t *at, *end;
};

static inline uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* A number: a small one, one near a power of two, or any. */
static inline uint64_t number(struct input *in)
{
	uint8_t how = byte(in);
	uint64_t n = 0;

	switch (how >> 6) {
	case 0:
		return how & 63;
	case 1:
		return (how & 63) << 8 | byte(in);
	case 2:
		return (1ull << (how & 63)) + (int8_t)byte(in);
	}
	for (int i = 0; i < 8; i++)
		n = n << 8 | byte(in);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* DLBUF_TESTS_FUZZ_H */
