/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the GLES backend. A tensor is the CPU's mapping of the dma-buf. Beside it
 * an import has an EGLImage, by which a shader reads frames and writes tensors.
 */
#ifndef DLBUF_GLES_BACKEND_H
#define DLBUF_GLES_BACKEND_H

#include <pthread.h>

#include <dlbuf/format.h>
#include <dlbuf/gles.h>

#include "../../alloc/trial.h"
#include "../../import/backend.h"
#include "../../prepare/program.h"
#include "api.h"

/* Pixels of an image: a word each, with its first byte in the red channel. */
#define GLES_PIXELS DLBUF_FOURCC('A', 'B', '2', '4')

/*
 * Held while a context is current, and in calls of EGL with contexts and images. All devices have
 * one lock: llvmpipe (Mesa 25.0.7) crashes if contexts of two threads draw at the same time.
 */
extern pthread_mutex_t gles_lock;

struct gles_device {
	struct dlbuf_device base;
	struct gles_egl egl;
	struct gles_gl gl;
	egl_display display;
	egl_context context;
	int most;		/* GL_MAX_TEXTURE_SIZE */
	bool modifiers;		/* images have one */
	bool fences;		/* EGL_ANDROID_native_fence_sync */
	bool software;		/* llvmpipe on no DRM node */
	bool robust;		/* EGL_EXT_create_context_robustness */
	bool untried;		/* no exporter for a trial of its imports */
	bool lost;		/* atomic; the context is lost, for ever */
	gl_enum (*reset)(void);	/* glGetGraphicsResetStatusEXT(), or NULL */
	char renderer[128], driver[128];
	/* prepare.c, under gles_lock */
	struct gles_shader {
		gl_uint program;
		int run;	/* the location of its r[] */
	} pixels, words;
	gl_uint textures[2];	/* tables, pixels */
	gl_uint framebuffers[2];	/* of pixels, of words */
	uint32_t pixels_of[3];	/* format, width and height of the texture of pixels */
	uint64_t programs;	/* number of programs loaded so far */
	uint64_t loaded;	/* the number of the program whose tables are loaded */
	struct failure trial;
};

struct gles_import {
	struct import base;
	egl_image image;
	uint32_t shift;		/* a row has 1 << shift words */
	uint32_t rows;
};

/* The caller's context, while the device's is current. */
struct gles_scope {
	egl_display display;
	egl_surface draw, read;
	egl_context context;
	egl_enum api;
};

static inline struct gles_device *gles_device_of(struct dlbuf_device *dev)
{
	return container_of(dev, struct gles_device, base);
}

static inline struct gles_import *gles_import_of(struct import *imp)
{
	return container_of(imp, struct gles_import, base);
}

BACKEND_DECLARE(gles);

/*
 * Takes gles_lock and makes the device's context current. gles_leave() makes the caller's context
 * current again, and unlocks. After a failure it is not locked. -EIO: also if the context is lost.
 */
int gles_enter(struct gles_device *dev, struct gles_scope *scope);
void gles_leave(struct gles_device *dev, const struct gles_scope *scope);

/*
 * Returns 0, or -EIO or -ENOMEM with the first error of GLES since the last call, or -EIO if the
 * context is lost.
 */
int gles_check(struct gles_device *dev, const char *function);

/*
 * backend.c: makes a device with this name on a display that is initialised. The display stays the
 * caller's. text: the description if the driver gives none.
 */
int gles_device_new(const struct gles_egl *egl, egl_display display, egl_device device,
		    const char *name, struct gles_device **out);
/* Writes up to `room` devices. -ENODEV: there is none. No extension: one device, NULL. */
int gles_devices(const struct gles_egl *egl, egl_device devices[], egl_int room, egl_int *n);
#define GLES_MAX_DEVICES 32

/*
 * import.c: images without the mapping, of gi->base.bytes from byte `at` of the dma-buf, which is
 * a multiple of 256. Both take gles_lock.
 */
int gles_image_make(struct gles_import *gi, uint32_t at);
void gles_image_free(struct gles_import *gi);
int gles_import(struct import *imp);
bool gles_unimport(struct import *imp, bool wait);

/* prepare.c: shader_make() while the context is current. */
int gles_shader_make(struct gles_device *dev);
int gles_try_buffer(struct dlbuf_device *dev, const struct trial_buffer *t, bool *shares);
int gles_program_load(struct dlbuf_device *dev, const struct program *p, size_t bytes,
		      void **program);
int gles_program_run(void *program, const struct program_run *run, int fence, int *done);
void gles_program_drop(void *program);
int gles_program_run_all(struct dlbuf_device *dev, const struct program_job *jobs, uint32_t n,
			 int fence, int *done);
int gles_drain(struct dlbuf_device *dev, uint64_t deadline_ns);

#endif /* DLBUF_GLES_BACKEND_H */
