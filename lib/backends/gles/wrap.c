// SPDX-License-Identifier: MIT
/* dlbuf/gles.h: devices on an application's EGLDisplay. */
#include <errno.h>
#include <stdio.h>

#include "gles.h"

int dlbuf_device_wrap_gles(void *display, const struct dlbuf_device_opts *opts,
			   struct dlbuf_device **out)
{
	NOT_CANCELLED;
	egl_device devices[GLES_MAX_DEVICES];
	struct dlbuf_device_opts o;
	struct gles_device *dev;
	char name[32] = "gles";
	struct gles_egl egl;
	egl_attrib device = 0;
	egl_int n = 0;
	int ret;

	if (!display || !out)
		return fail(-EINVAL, "%s is NULL", out ? "display" : "out");
	ret = device_opts_get(&o, opts);
	if (!ret)
		ret = gles_load(&egl);
	if (!ret)
		ret = gles_devices(&egl, devices, GLES_MAX_DEVICES, &n);
	if (ret)
		return ret;
	if (!egl.QueryString(display, EGLABI_VENDOR))
		return gles_failed(egl.GetError(), "gles", "eglQueryString", -EINVAL);
	/* EGL_EXT_device_query says which device the display has. */
	if (devices[0] && egl.QueryDisplayAttribEXT)
		egl.QueryDisplayAttribEXT(display, EGLABI_DEVICE, &device);
	for (egl_int i = 0; i < n; i++)
		if (device && devices[i] == (egl_device)device)
			snprintf(name, sizeof(name), "gles:%d", i);
	ret = gles_device_new(&egl, display, (egl_device)device, name, &dev);
	if (ret)
		return ret;
	dev->base.wrapped = true;
	device_init(&dev->base, &gles_backend, &o);
	log_at(DLBUF_LOG_INFO, "wrapped the application's display as %s", dev->base.name);
	*out = &dev->base;
	return 0;
}
