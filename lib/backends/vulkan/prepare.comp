#version 450
// SPDX-License-Identifier: MIT
// Runs a plan of lib/prepare/program.h, whose struct this is. An invocation makes as many
// pixels of the tensor as values are in a word: nout words, which nobody else writes.

layout(local_size_x = 8, local_size_y = 8) in;

struct Component {
	uint first, step, x, y, shift, mask;
};

layout(binding = 0, std430) readonly buffer Source0 {
	uint source0[];
};
layout(binding = 1, std430) readonly buffer Source1 {
	uint source1[];
};
layout(binding = 2, std430) readonly buffer Source2 {
	uint source2[];
};
layout(binding = 3, std430) buffer Tensor {
	uint tensor[];
};
layout(binding = 4, std430) readonly buffer Program {
	uint bits, ncomponents, nout, store;
	int zero_point;
	uint width, height, left, top, across, down, turned, back_x, back_y;
	Component components[3];
	float matrix[12], low[3], high[3], pad[3];
	uint tables[];
};

// Places are bytes of the buffers.
layout(push_constant) uniform Run {
	uint at[3], pitches[3];
	uint to, step_x, step_y, step_channel;
	uint words;
};

// How the values are in words: each channel's row, or all channels of a pixel side by side, or
// neither, then others may write other bytes of a word at once.
const uint ROWS = 0, PIXELS = 1, APART = 2;
const uint U8 = 0, I8 = 1, F16 = 2, BF16 = 3, F32 = 4;

float value(uint c, uint place)
{
	uint i = place >> 2, word;

	if (c == 0)
		word = source0[i];
	else if (c == 1)
		word = source1[i];
	else
		word = source2[i];
	word = bitfieldExtract(word, int((place & 3) << 3), int(bits));
	return float(word >> components[c].shift & components[c].mask);
}

float component(uint c, uint i, uint j)
{
	Component k = components[c];
	uint taps_x = tables[k.x], nx = tables[k.x + 1], taps_y = tables[k.y], ny = tables[k.y + 1];
	uint row = at[c] + tables[k.y + 2 + j] * pitches[c] +
		   (k.first + tables[k.x + 2 + i] * k.step) * (bits >> 3);
	uint step = k.step * (bits >> 3), weight_y = k.y + 2 + ny + j;
	float sum = 0;

	for (uint v = 0; v < taps_y; v++) {
		uint place = row, weight_x = k.x + 2 + nx + i;
		float part = 0;

		for (uint u = 0; u < taps_x; u++) {
			part += value(c, place) * uintBitsToFloat(tables[weight_x]);
			place += step;
			weight_x += nx;
		}
		sum += part * uintBitsToFloat(tables[weight_y]);
		row += pitches[c];
		weight_y += ny;
	}
	return sum;
}

vec3 pixel(uint x, uint y)
{
	vec3 from = vec3(0), v;

	x -= left;
	y -= top;
	if (x >= across || y >= down)
		return vec3(pad[0], pad[1], pad[2]);
	x = back_x != 0 ? across - 1 - x : x;
	y = back_y != 0 ? down - 1 - y : y;
	if (turned != 0) {
		uint i = y;

		y = x;
		x = i;
	}
	for (uint c = 0; c < ncomponents; c++)
		from[c] = component(c, x, y);
	for (uint c = 0; c < nout; c++)
		v[c] = clamp(matrix[c * 4] * from.x + matrix[c * 4 + 1] * from.y +
			     matrix[c * 4 + 2] * from.z + matrix[c * 4 + 3], low[c], high[c]);
	return v;
}

uint to_half(float f)
{
	uint b = floatBitsToUint(f), sign = b >> 16 & 0x8000;

	b &= 0x7fffffff;
	// Below 2^-14: a sum whose last place is that of a subnormal rounds it.
	if (b < 0x38800000)
		b = floatBitsToUint(uintBitsToFloat(b) + 0.5) - 0x3f000000;
	else
		b = b >= 0x477ff000 ? 0x7c00 : b - 0x38000000 + 0xfff + (b >> 13 & 1) >> 13;
	return sign | b;
}

uint converted(float f)
{
	uint b = floatBitsToUint(f);

	if (store == F32)
		return b;
	if (store == F16)
		return to_half(f);
	if (store == BF16)
		return b + 0x7fff + (b >> 16 & 1) >> 16;
	f = clamp(f, float((store == I8 ? -128 : 0) - zero_point),
		  float((store == I8 ? 127 : 255) - zero_point));
	return uint(int(roundEven(f)) + zero_point) & 255;
}

void main()
{
	uint size = store == F32 ? 32 : store >= F16 ? 16 : 8, group = 32 / size;
	uint x = gl_GlobalInvocationID.x * group, y = gl_GlobalInvocationID.y;
	uint place = to + x * step_x + y * step_y;
	uvec3 made = uvec3(0);

	if (y >= height)
		return;
	for (uint p = 0; p < group && x + p < width; p++) {
		vec3 v = pixel(x + p, y);

		for (uint c = 0; c < nout; c++) {
			uint b = converted(v[c]), i = words == ROWS ? c * group + p : p * nout + c;

			if (words != APART) {
				made[i / group] |= b << i % group * size;
			} else {
				uint one = place + p * step_x + c * step_channel;
				int bit = int((one & 3) << 3);

				atomicAnd(tensor[one >> 2],
					  ~bitfieldInsert(0u, ~0u, bit, int(size)));
				atomicOr(tensor[one >> 2], b << bit);
			}
		}
	}
	for (uint k = 0; k < nout && words != APART && x < width; k++)
		tensor[(place + k * (words == ROWS ? step_channel : 4)) >> 2] = made[k];
}
