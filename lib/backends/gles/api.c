// SPDX-License-Identifier: MIT
/* Loads EGL and GLES, and turns EGL's errors into errnos. */
#include <errno.h>

#include "../../system/fork.h"
#include "api.h"

#define X(result, name, params) "egl" #name "\0"
static const char core[] = GLES_CORE(X);
#undef X
#define X(result, name, params) "egl" #name "\0"
static const char extensions[] = GLES_EXTENSIONS(X);
#undef X
#define X(result, name, params) "gl" #name "\0"
static const char gl_names[] = GLES_GL(X);
#undef X

/* In the order of GLES_CORE(), GLES_EXTENSIONS(). */
static void get_all(const struct gles_egl *egl, const char *names, void *table)
{
	char *slot = table;

	FOR_EACH_STRING(name, names) {
		void *function = egl->GetProcAddress(name);

		memcpy(slot, &function, sizeof(function));
		slot += sizeof(function);
	}
}

int gles_load(struct gles_egl *egl)
{
	static unsigned int used;
	void *library;
	int ret = dl_open("gles", "libEGL.so.1\0libEGL.so\0", core, egl, &library);

	if (!ret)
		ret = fork_use_driver(&used, "gles");
	if (!ret)
		get_all(egl, extensions, &egl->QueryDevicesEXT);
	return ret;
}

int gles_load_gl(const struct gles_egl *egl, const char *device, struct gles_gl *gl)
{
	void *const *table = (void *)gl;

	get_all(egl, gl_names, gl);
	for (size_t i = 0; i < sizeof(*gl) / sizeof(*table); i++)
		if (!table[i])
			return fail(-EOPNOTSUPP, "%s: eglGetProcAddress() has no %s()", device,
				    dl_name(gl_names, i));
	return 0;
}

bool gles_has(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (; list && *list; list += strcspn(list, " ")) {
		list += strspn(list, " ");
		if (!strncmp(list, name, n) && (!list[n] || list[n] == ' '))
			return true;
	}
	return false;
}

int gles_failed(egl_int error, const char *device, const char *function, int err)
{
	if (error == EGLABI_BAD_ALLOC && err == -EIO)
		err = -ENOMEM;
	return fail(err, "%s: %s(): EGL error 0x%x", device, function, error);
}
