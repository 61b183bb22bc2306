// SPDX-License-Identifier: MIT
/* Opens a device, and prints the version of the library. */
#include <stdio.h>

#include <dlbuf/dlbuf.h>

int main(void)
{
	struct dlbuf_device *dev;

	if (dlbuf_device_open("cpu", NULL, &dev)) {
		fprintf(stderr, "%s\n", dlbuf_last_error());
		return 1;
	}
	dlbuf_device_close(dev);
	puts(dlbuf_version());
	return 0;
}
