#version 450
// SPDX-License-Identifier: MIT
// The checksum of reduce.h: a workgroup per row, its threads side by side.
// Whole words are loaded, from the one that the row begins in to the one that
// it ends in, so that offset and pitch may be any number of bytes.

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Frame {
	uint words[];
};

layout(set = 0, binding = 1, std430) buffer Result {
	uint result[];		// sum and hash per plane
};

layout(push_constant) uniform Rows {
	uint offset, pitch, rows, bytes, plane;
};

shared uint sum, hash;

void main()
{
	uint s = 0, h = 0;

	if (gl_LocalInvocationIndex == 0) {
		sum = 0;
		hash = 0;
	}
	barrier();
	for (uint y = gl_WorkGroupID.x; y < rows; y += gl_NumWorkGroups.x) {
		uint start = offset + y * pitch;
		uint end = (start + bytes + 3) / 4;
		uint turn = y * 40503u;

		for (uint w = start / 4 + gl_LocalInvocationIndex; w < end;
		     w += gl_WorkGroupSize.x) {
			uint word = words[w];
			// Before the row this wraps to more than `bytes`.
			uint x = w * 4 - start;

			for (int i = 0; i < 32; i += 8, x++) {
				uint b = bitfieldExtract(word, i, 8);

				if (x < bytes) {
					s += b;
					h += b * (((x * 2654435761u) ^ turn) | 1u);
				}
			}
		}
	}
	atomicAdd(sum, s);
	atomicAdd(hash, h);
	barrier();
	if (gl_LocalInvocationIndex == 0) {
		atomicAdd(result[plane * 2], sum);
		atomicAdd(result[plane * 2 + 1], hash);
	}
}
