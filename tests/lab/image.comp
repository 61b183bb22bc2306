#version 450
// SPDX-License-Identifier: MIT
// Samples each texel of an image at its centre, by the nearest filter.

layout(local_size_x = 8, local_size_y = 8) in;

layout(set = 0, binding = 0) uniform sampler2D image;
layout(set = 0, binding = 1, std430) writeonly buffer Texels {
	uint texels[];		// of 8 bits, the first channel lowest
};

void main()
{
	ivec2 size = textureSize(image, 0), at = ivec2(gl_GlobalInvocationID.xy);

	if (any(greaterThanEqual(at, size)))
		return;
	vec4 texel = texture(image, (vec2(at) + 0.5) / vec2(size));
	uvec4 v = uvec4(texel * 255.0 + 0.5);
	texels[at.y * size.x + at.x] = v.r | v.g << 8 | v.b << 16 | v.a << 24;
}
