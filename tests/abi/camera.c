// SPDX-License-Identifier: MIT
/*
 * The part of the library that a camera on a board needs, for tests/abi/size: a
 * frame on the CPU. Functions that such a library leaves out return -ENOSYS.
 */
#include <errno.h>
#include <stdio.h>

#include <dlbuf/dlbuf.h>
int main(void)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ);
	struct dlbuf_frame f = {
		.size = sizeof(f), .width = 640, .height = 480, .nplanes = 1,
		.code = DLBUF_FOURCC('Y', 'U', 'Y', 'V'),
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *dev;
	uint32_t n = DLBUF_MAX_PLANES;

#ifdef ABSENT
	struct dlbuf_camera *cam;
	struct dlbuf_pool *pool;
	int fd;

	if (dlbuf_recv(NULL, 0, NULL, t, &n, &f) != -ENOSYS ||
	    dlbuf_alloc_fd(1, NULL, &fd) != -ENOSYS ||
	    dlbuf_camera_open("", NULL, &cam) != -ENOSYS ||
	    dlbuf_pool_create(NULL, 0, NULL, &pool) != -ENOSYS)
		return 2;
	puts(dlbuf_last_error());
#endif
	if (dlbuf_device_open("cpu", NULL, &dev))
		return 1;
	if (!dlbuf_import_frame(dev, &f, &opts, t, &n)) {
		dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL);
		dlbuf_release(t[0], NULL, NULL);
		t[0]->deleter(t[0]);
	}
	dlbuf_device_close(dev);
	return 0;
}
