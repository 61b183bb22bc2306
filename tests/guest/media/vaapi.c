// SPDX-License-Identifier: MIT
/* link: libva libva-drm */

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <va/va.h>
#include <va/va_drm.h>

/* vgem has no driver: this shows libva's error. */
int main(void)
{
	int major, minor, fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	VADisplay display = vaGetDisplayDRM(fd);
	VAStatus status;

	if (!vaDisplayIsValid(display))
		return 1;
	status = vaInitialize(display, &major, &minor);
	printf("vgem: %s\n", vaErrorStr(status));
	vaTerminate(display);
	close(fd);
	return 0;
}
