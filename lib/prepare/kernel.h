/* SPDX-License-Identifier: MIT */
/*
 * The kernel that runs a plan of program.h, for backends whose languages are like C. Each
 * backend includes this file with its own PROGRAM(), which makes code or a string. So the file
 * has no preprocessor directives. The backend defines:
 *
 *	uchar, ushort, uint		of 8, 16 and 32 bits
 *	KERNEL, FUNCTION		qualifiers of the kernel and of its functions
 *	GLOBAL				of pointers to the device's memory
 *	AS_FLOAT(bits), AS_UINT(f)	the same 32 bits as a float, as a uint
 *	RINT(f)				rounded half to even
 *	ITEM_X, ITEM_Y			the pixel of an image
 *	ITEM_Z				the image
 *
 * A backend's prepare.comp is the same in GLSL.
 */
PROGRAM(
struct component {
	uint first, step, x, y, shift, mask;
};

/* As in program.h, without the tables, which follow the struct. */
struct program {
	uint bits, ncomponents, nout, store;
	int zero_point;
	uint width, height, left, top, across, down, turned, back_x, back_y;
	struct component components[3];
	float matrix[12], low[3], high[3], pad[3];
};

/*
 * `at` and `to` are byte offsets from the pointers, modulo 2^32. Each image has a program. The
 * programs are `words` 32-bit words apart.
 */
struct run {
	uint at[3], pitches[3];
	uint to, step_x, step_y, step_channel, step_image, words;
};

FUNCTION float sample(GLOBAL const uchar *p, uint bits, uint shift, uint mask)
{
	uint v = p[0];

	if (bits > 8)
		v |= (uint)p[1] << 8;
	if (bits > 16)
		v |= (uint)p[2] << 16 | (uint)p[3] << 24;
	return (float)(v >> shift & mask);
}

FUNCTION float component(GLOBAL const struct program *g, uint c, GLOBAL const uchar *from, uint at,
			 uint pitch, uint i, uint j)
{
	GLOBAL const uint *x = (GLOBAL const uint *)(g + 1) + g->components[c].x;
	GLOBAL const uint *y = (GLOBAL const uint *)(g + 1) + g->components[c].y;
	uint taps_x = x[0], nx = x[1], taps_y = y[0], ny = y[1], bytes = g->bits >> 3;
	uint step = g->components[c].step * bytes, shift = g->components[c].shift;
	uint row = at + y[2 + j] * pitch + g->components[c].first * bytes + x[2 + i] * step;
	uint mask = g->components[c].mask, v, u;
	float sum = 0;

	for (v = 0; v < taps_y; v++) {
		float part = 0;

		for (u = 0; u < taps_x; u++)
			part += sample(from + (uint)(row + u * step), g->bits, shift, mask) *
				AS_FLOAT(x[2 + nx + u * nx + i]);
		sum += part * AS_FLOAT(y[2 + ny + v * ny + j]);
		row += pitch;
	}
	return sum;
}

FUNCTION float limited(float v, float low, float high)
{
	return v < low ? low : v > high ? high : v;
}

FUNCTION uint to_half(float f)
{
	uint b = AS_UINT(f), sign = b >> 16 & 0x8000;

	b &= 0x7fffffff;
	/* Below 2^-14: the last place of b + 0.5 is that of a subnormal half. So the sum rounds. */
	if (b < 0x38800000)
		b = AS_UINT(AS_FLOAT(b) + 0.5f) - 0x3f000000;
	else
		b = b >= 0x477ff000 ? 0x7c00 : (b - 0x38000000 + 0xfff + (b >> 13 & 1)) >> 13;
	return sign | b;
}

/* Stores are those of prepare.h: U8, I8, F16, BF16, F32. */
FUNCTION void put(GLOBAL uchar *to, uint store, int zero_point, float f)
{
	uint b = AS_UINT(f);
	float least = (float)((store == 1 ? -128 : 0) - zero_point);

	if (store == 4)
		*(GLOBAL uint *)to = b;
	else if (store == 3)
		*(GLOBAL ushort *)to = (ushort)((b + 0x7fff + (b >> 16 & 1)) >> 16);
	else if (store == 2)
		*(GLOBAL ushort *)to = (ushort)to_half(f);
	else
		*to = (uchar)((int)RINT(limited(f, least, least + 255)) + zero_point);
}

KERNEL void prepare(GLOBAL const uchar *source0, GLOBAL const uchar *source1,
		    GLOBAL const uchar *source2, GLOBAL uchar *tensor,
		    GLOBAL const uint *programs, struct run run)
{
	GLOBAL const struct program *g =
		(GLOBAL const struct program *)(programs + ITEM_Z * run.words);
	uint tx = ITEM_X, ty = ITEM_Y, x = tx - g->left, y = ty - g->top, c;
	uint to = run.to + tx * run.step_x + ty * run.step_y + ITEM_Z * run.step_image;
	uint inside = x < g->across && y < g->down;
	float v[3] = { 0, 0, 0 };

	if (tx >= g->width || ty >= g->height)
		return;
	if (inside) {
		x = g->back_x ? g->across - 1 - x : x;
		y = g->back_y ? g->down - 1 - y : y;
		for (c = 0; c < g->ncomponents; c++)
			v[c] = component(g, c, c == 0 ? source0 : c == 1 ? source1 : source2,
					 run.at[c], run.pitches[c], g->turned ? y : x,
					 g->turned ? x : y);
	}
	for (c = 0; c < g->nout; c++) {
		GLOBAL const float *m = g->matrix + c * 4;
		float f = limited(m[0] * v[0] + m[1] * v[1] + m[2] * v[2] + m[3], g->low[c],
				  g->high[c]);

		put(tensor + (uint)(to + c * run.step_channel), g->store, g->zero_point,
		    inside ? f : g->pad[c]);
	}
}
)
