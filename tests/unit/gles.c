// SPDX-License-Identifier: MIT
/* The shaders of GLES: what is the same text in GLSL and in C. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "ktap.h"

#ifdef CONFIG_BACKEND_GLES
#include "backends/gles/shader.h"

/* GLSL's constructors. */
#define uint(x) ((uint)(x))
#define int(x) ((int)(x))
#define float(x) ((float)(x))
#define AS_C(...) static __VA_ARGS__
GLES_QUOTIENT(AS_C)
#undef uint
#undef int
#undef float

/* lib/prepare limits a side of the tensor to so many pixels, the core a dma-buf to 2^28 bytes. */
#define SIDE 32768u
#define BYTES (1u << 29)

/*
 * Q() does not decrease while d grows, except by the correction, which is exact if the estimate is
 * off by one at most. So the first and the last d of each quotient stand for all between them.
 */
static bool divides(uint32_t step, float inverse)
{
	uint32_t most = BYTES / step < SIDE ? BYTES / step : SIDE;

	for (uint32_t i = 0; i < most; i++) {
		uint32_t d = i * step;

		if (Q(d, step, inverse) != i || Q(d + step - 1, step, inverse) != i)
			return CHECK_MSG(false, "%u / %u, by %a", d, step, (double)inverse);
	}
	return true;
}

/* A GPU's product and reciprocal may be off in their last places. */
static float moved(float f, int places)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	bits += (uint32_t)places;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

TEST(quotients)
{
	uint32_t step = 1, steps = 0;

	/* All small steps, which are those of pixels, and then those of rows and channels. */
	while (step < BYTES) {
		for (int places = -4; places <= 4; places += 4)
			if (!divides(step, moved(1 / (float)step, places)))
				return;
		steps++;
		step += step < 256 ? 1 : step / 61 + step % 7;
	}
	CHECK(steps > 1000);
	/* An axis of one value. */
	CHECK_EQ(Q(0, 1u << 31, 0x1p-31f), 0);
	CHECK_EQ(Q(INT32_MAX, 1u << 31, 0x1p-31f), 0);
}
#else
KTAP_SKIPPED("the GLES backend is not built")
#endif

KTAP_MAIN()
