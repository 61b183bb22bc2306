/* SPDX-License-Identifier: MIT */
/*
 * EGL and GLES, loaded at run time. EGL's core functions are symbols of libEGL, all others are
 * those of eglGetProcAddress().
 */
#ifndef DLBUF_GLES_API_H
#define DLBUF_GLES_API_H

#include <stdbool.h>

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "../../system/sys.h"
#include "abi.h"

/* X(result, name, parameters): symbols of libEGL, without "egl". */
#define GLES_CORE(X)								\
	X(void *, GetProcAddress, (const char *name))				\
	X(egl_bool, BindAPI, (egl_enum api))					\
	X(egl_bool, ChooseConfig, (egl_display display, const egl_int *attribs,	\
				   egl_config *configs, egl_int room, egl_int *n)) \
	X(egl_context, CreateContext, (egl_display display, egl_config config,	\
				       egl_context share, const egl_int *attribs)) \
	X(egl_bool, DestroyContext, (egl_display display, egl_context context))	\
	X(egl_context, GetCurrentContext, (void))				\
	X(egl_display, GetCurrentDisplay, (void))				\
	X(egl_surface, GetCurrentSurface, (egl_int which))			\
	X(egl_display, GetDisplay, (void *native))				\
	X(egl_int, GetError, (void))						\
	X(egl_bool, Initialize, (egl_display display, egl_int *major, egl_int *minor)) \
	X(egl_bool, MakeCurrent, (egl_display display, egl_surface draw,	\
				  egl_surface read, egl_context context))	\
	X(egl_enum, QueryAPI, (void))						\
	X(const char *, QueryString, (egl_display display, egl_int name))

/* Functions of extensions, with "egl". Any may be NULL; the extension strings decide. */
#define GLES_EXTENSIONS(X)							\
	X(egl_bool, QueryDevicesEXT, (egl_int room, egl_device *devices, egl_int *n)) \
	X(const char *, QueryDeviceStringEXT, (egl_device device, egl_int name)) \
	X(egl_display, GetPlatformDisplayEXT, (egl_enum platform, void *native,	\
					       const egl_int *attribs))		\
	X(egl_bool, QueryDisplayAttribEXT, (egl_display display, egl_int name,	\
					    egl_attrib *value))			\
	X(egl_image, CreateImageKHR, (egl_display display, egl_context context,	\
				      egl_enum target, void *buffer, const egl_int *attribs)) \
	X(egl_bool, DestroyImageKHR, (egl_display display, egl_image image))	\
	X(egl_bool, QueryDmaBufModifiersEXT, (egl_display display, egl_int format, \
					      egl_int room, uint64_t *modifiers, \
					      egl_bool *external_only, egl_int *n)) \
	X(egl_sync, CreateSyncKHR, (egl_display display, egl_enum type,		\
				    const egl_int *attribs))			\
	X(egl_bool, DestroySyncKHR, (egl_display display, egl_sync sync))	\
	X(egl_int, DupNativeFenceFDANDROID, (egl_display display, egl_sync sync))

/* Functions of GLES, without "gl". The device needs all of them. */
#define GLES_GL(X)								\
	X(void, ActiveTexture, (gl_enum unit))					\
	X(void, AttachShader, (gl_uint program, gl_uint shader))		\
	X(void, BindFramebuffer, (gl_enum target, gl_uint framebuffer))		\
	X(void, BindRenderbuffer, (gl_enum target, gl_uint renderbuffer))	\
	X(void, BindTexture, (gl_enum target, gl_uint texture))			\
	X(void, ColorMask, (unsigned char r, unsigned char g, unsigned char b,	\
			    unsigned char a))					\
	X(void, CompileShader, (gl_uint shader))				\
	X(gl_uint, CreateProgram, (void))					\
	X(gl_uint, CreateShader, (gl_enum type))				\
	X(void, DeleteRenderbuffers, (int n, const gl_uint *renderbuffers))	\
	X(void, DeleteTextures, (int n, const gl_uint *textures))		\
	X(void, Disable, (gl_enum what))					\
	X(void, DrawArrays, (gl_enum mode, int first, int n))			\
	X(void, EGLImageTargetRenderbufferStorageOES, (gl_enum target, egl_image image)) \
	X(void, EGLImageTargetTexture2DOES, (gl_enum target, egl_image image))	\
	X(void, Finish, (void))							\
	X(void, Flush, (void))							\
	X(void, FramebufferRenderbuffer, (gl_enum target, gl_enum attachment,	\
					  gl_enum renderbuffer_target, gl_uint renderbuffer)) \
	X(void, FramebufferTexture2D, (gl_enum target, gl_enum attachment,	\
				       gl_enum texture_target, gl_uint texture, int level)) \
	X(void, GenFramebuffers, (int n, gl_uint *framebuffers))		\
	X(void, GenRenderbuffers, (int n, gl_uint *renderbuffers))		\
	X(void, GenTextures, (int n, gl_uint *textures))			\
	X(gl_enum, GetError, (void))						\
	X(void, GetIntegerv, (gl_enum name, int *value))			\
	X(void, GetProgramiv, (gl_uint program, gl_enum name, int *value))	\
	X(void, GetShaderInfoLog, (gl_uint shader, int room, int *length, char *text)) \
	X(const char *, GetString, (gl_enum name))				\
	X(int, GetUniformLocation, (gl_uint program, const char *name))		\
	X(void, LinkProgram, (gl_uint program))					\
	X(void, ShaderSource, (gl_uint shader, int n, const char *const *texts,	\
			       const int *lengths))				\
	X(void, TexImage2D, (gl_enum target, int level, int format, int width, int height, \
			     int border, gl_enum layout, gl_enum type, const void *texels)) \
	X(void, TexParameteri, (gl_enum target, gl_enum name, int value))	\
	X(void, Uniform1iv, (int location, int n, const int *values))		\
	X(void, Uniform1uiv, (int location, int n, const gl_uint *values))	\
	X(void, UseProgram, (gl_uint program))					\
	X(void, Viewport, (int x, int y, int width, int height))

#define X(result, name, params) result (*name) params;
struct gles_egl {
	GLES_CORE(X)
	GLES_EXTENSIONS(X)
};

struct gles_gl {
	GLES_GL(X)
};
#undef X

/*
 * Opens libEGL.so.1, or DLBUF_GLES_LIBRARY, and finds EGL's functions. The library is never
 * closed: drivers have threads, and keep pointers to it.
 * -ENODEV  none is installed
 * -ESTALE  a parent of this process has used it: a driver's threads are missing in a child
 * -EIO     a function of EGL is missing
 */
int gles_load(struct gles_egl *egl);

/* Finds GLES' functions. -EOPNOTSUPP: EGL does not give them, or not one of them. */
int gles_load_gl(const struct gles_egl *egl, const char *device, struct gles_gl *gl);

/* Whether a list of extensions, which may be NULL, has this one. */
bool gles_has(const char *list, const char *name);

/*
 * Returns `err` with the error text "DEVICE: FUNCTION(): EGL_BAD_ALLOC (0x3003)", for a result of
 * eglGetError(). -EIO becomes -ENOMEM after EGL_BAD_ALLOC, which eglCreateImageKHR() also gives for
 * buffers that the driver does not take.
 */
int gles_failed(egl_int error, const char *device, const char *function, int err)
	__attribute__((cold));

#endif /* DLBUF_GLES_API_H */
