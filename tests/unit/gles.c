// SPDX-License-Identifier: MIT
/* GLES: the text that the shaders and C share, the names of errors, lists of extensions. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "ktap.h"

#ifdef CONFIG_BACKEND_GLES
#include "backends/gles/api.h"
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

/* EGL's errors have their names. */
TEST(errors)
{
	static const struct {
		egl_int error;
		int err, ret;
		const char *says;
	} rows[] = {
		{ 0x3000, -EIO, -EIO, "gles:0: eglNone(): EGL_SUCCESS (0x3000)" },
		{ 0x3001, -EOPNOTSUPP, -EOPNOTSUPP, "EGL_NOT_INITIALIZED (0x3001)" },
		{ 0x3002, -EIO, -EIO, "EGL_BAD_ACCESS (0x3002)" },
		{ 0x3003, -EIO, -ENOMEM, "EGL_BAD_ALLOC (0x3003)" },
		{ 0x3003, -EOPNOTSUPP, -EOPNOTSUPP, "EGL_BAD_ALLOC (0x3003)" },
		{ 0x3004, -EIO, -EIO, "EGL_BAD_ATTRIBUTE (0x3004)" },
		{ 0x3005, -EIO, -EIO, "EGL_BAD_CONFIG (0x3005)" },
		{ 0x3006, -EIO, -EIO, "EGL_BAD_CONTEXT (0x3006)" },
		{ 0x3007, -EIO, -EIO, "EGL_BAD_CURRENT_SURFACE (0x3007)" },
		{ 0x3008, -EINVAL, -EINVAL, "EGL_BAD_DISPLAY (0x3008)" },
		{ 0x3009, -EIO, -EIO, "EGL_BAD_MATCH (0x3009)" },
		{ 0x300a, -EIO, -EIO, "EGL_BAD_NATIVE_PIXMAP (0x300a)" },
		{ 0x300b, -EIO, -EIO, "EGL_BAD_NATIVE_WINDOW (0x300b)" },
		{ 0x300c, -EIO, -EIO, "EGL_BAD_PARAMETER (0x300c)" },
		{ 0x300d, -EIO, -EIO, "EGL_BAD_SURFACE (0x300d)" },
		{ 0x300e, -EIO, -EIO, "EGL_CONTEXT_LOST (0x300e)" },
		{ 0x300f, -EIO, -EIO, "EGL_error (0x300f)" },
		{ 0, -EIO, -EIO, "EGL_error (0x0)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_EQ(gles_failed(rows[i].error, "gles:0", "eglNone", rows[i].err), rows[i].ret);
		CHECK_SAYS(rows[i].says);
	}
}

/* The names of extensions are words of a list. */
TEST(extensions)
{
	CHECK(!gles_has(NULL, "EGL_A"));
	CHECK(!gles_has("", "EGL_A"));
	CHECK(gles_has("EGL_A", "EGL_A"));
	CHECK(gles_has("EGL_B EGL_A ", "EGL_A"));
	CHECK(gles_has("EGL_A_more EGL_A EGL_B", "EGL_A"));
	CHECK(!gles_has("EGL_A_more EGL_AB EGL_B", "EGL_A"));
}
#else
KTAP_SKIPPED("the GLES backend is not built")
#endif

KTAP_MAIN()
