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
/* The names of EGL's errors, from 0x3000 on, without "EGL_". The last one is any other. */
static const char errors[] =
	"SUCCESS\0" "NOT_INITIALIZED\0" "BAD_ACCESS\0" "BAD_ALLOC\0" "BAD_ATTRIBUTE\0"
	"BAD_CONFIG\0" "BAD_CONTEXT\0" "BAD_CURRENT_SURFACE\0" "BAD_DISPLAY\0" "BAD_MATCH\0"
	"BAD_NATIVE_PIXMAP\0" "BAD_NATIVE_WINDOW\0" "BAD_PARAMETER\0" "BAD_SURFACE\0"
	"CONTEXT_LOST\0" "error";
enum { OTHER_ERROR = EGLABI_CONTEXT_LOST - EGLABI_SUCCESS + 1 };

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

	/* No name is the end of another one, but some are the begin of longer ones. */
	for (; list && (list = strstr(list, name)); list += n)
		if (!list[n] || list[n] == ' ')
			return true;
	return false;
}

int gles_failed(egl_int error, const char *device, const char *function, int err)
{
	uint32_t n = (uint32_t)error - EGLABI_SUCCESS;

	if (error == EGLABI_BAD_ALLOC && err == -EIO)
		err = -ENOMEM;
	return fail(err, "%s: %s(): EGL_%s (0x%x)", device, function,
		    dl_name(errors, n < OTHER_ERROR ? n : OTHER_ERROR), error);
}
