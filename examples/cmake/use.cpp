// SPDX-License-Identifier: MIT
// Opens a device, and prints the version of the library.
#include <iostream>

#include <dlbuf/dlbuf.h>

int main()
{
	struct dlbuf_device *dev;

	if (dlbuf_device_open("cpu", nullptr, &dev)) {
		std::cerr << dlbuf_last_error() << "\n";
		return 1;
	}
	dlbuf_device_close(dev);
	std::cout << dlbuf_version() << "\n";
	return 0;
}
