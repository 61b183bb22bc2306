// SPDX-License-Identifier: MIT
/*
 * A surface of VA-API as tensors: makes one in place of a decoder, and prints
 * how bright it is. Nothing is copied.
 *
 *	cc vaapi.c $(pkg-config --cflags --libs dlbuf libva libva-drm) &&
 *	./a.out /dev/dri/renderD128
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <va/va_drm.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/vaapi.h>

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

int main(int argc, char **argv)
{
	const char *node = argc > 1 ? argv[1] : "/dev/dri/renderD128";
	DLBUF_OPTS(dlbuf_import_opts, luma, .access = DLBUF_READ,
		   .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	VADRMPRIMESurfaceDescriptor desc;
	struct dlbuf_frame frame;
	struct dlbuf_device *cpu;
	int drm = open(node, O_RDWR | O_CLOEXEC), major, minor, ret;
	VADisplay va = drm < 0 ? NULL : vaGetDisplayDRM(drm);
	VASurfaceID surface;
	VAStatus status;
	uint32_t n;

	if (!va)
		err(1, "%s", node);
	status = vaInitialize(va, &major, &minor);
	if (!status)
		status = vaCreateSurfaces(va, VA_RT_FORMAT_YUV420, 1280, 720,
					  &surface, 1, NULL, 0);
	if (status)
		errx(1, "%s: %s", node, vaErrorStr(status));
	if (dlbuf_device_open("cpu", NULL, &cpu) ||
	    dlbuf_vaapi_export(va, surface, DLBUF_READ, &desc, &frame))
		errx(1, "%s", dlbuf_last_error());
	ret = dlbuf_import_frame(cpu, &frame, &luma, t, &n);
	dlbuf_vaapi_release(&desc); /* the library has duplicates */
	if (ret || dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	printf("%ux%u: %.1f\n", frame.width, frame.height,
	       mean(&t[0]->dl_tensor));
	t[0]->deleter(t[0]); /* releases it, too */
	dlbuf_device_close(cpu);
	vaTerminate(va);
	close(drm);
	return 0;
}
