// SPDX-License-Identifier: MIT
/* link: -lyuv */

#include <libyuv.h>
#include <stdio.h>

int main(void)
{
	uint8_t y[4] = { 235, 235, 235, 235 }, uv[2] = { 128, 128 }, argb[16];

	if (NV12ToARGB(y, 2, uv, 2, argb, 8, 2, 2))
		return 1;
	printf("white is %d\n", argb[0]);
	return argb[0] < 250;
}
