// SPDX-License-Identifier: MIT
/*
 * A dma-buf by way of EGL: an EGLImage of it, which CUDA takes for a graphics
 * resource and gives a pointer to. For Jetsons before Thor, whose driver imports
 * no dma-buf by itself.
 *
 * EGL knows pictures only, so that the whole dma-buf is one of R8, whose rows
 * are without a gap: then a byte's place in the picture is that in the dma-buf.
 * What CUDA says of the picture has to agree, or the memory is refused.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

/* The part of EGL/egl.h and EGL/eglext.h that is used here. */
enum {
	EGL_BAD_ALLOC = 0x3003,
	EGL_EXTENSIONS = 0x3055,
	EGL_HEIGHT = 0x3056,
	EGL_WIDTH = 0x3057,
	EGL_NONE = 0x3038,
	EGL_IMAGE_PRESERVED = 0x30d2,
	EGL_PLATFORM_DEVICE = 0x313f,
	EGL_CUDA_DEVICE = 0x323a,
	EGL_LINUX_DMA_BUF = 0x3270,
	EGL_LINUX_DRM_FOURCC = 0x3271,
	EGL_DMA_BUF_PLANE0_FD = 0x3272,
	EGL_DMA_BUF_PLANE0_OFFSET = 0x3273,
	EGL_DMA_BUF_PLANE0_PITCH = 0x3274,
	R8 = 0x20203852,	/* DRM_FORMAT_R8 */
};

/* X(name, parameters, result): those of libEGL.so.1, and those it finds. */
#define EGL_FUNCTIONS(X)						\
	X(GetDisplay, (void *native), void *)				\
	X(Initialize, (void *display, int *major, int *minor), unsigned int) \
	X(QueryString, (void *display, int name), const char *)		\
	X(GetError, (void), int)					\
	X(GetProcAddress, (const char *name), void *)
#define EGL_FOUND(X)							\
	X(QueryDevicesEXT, (int max, void **devices, int *n), unsigned int) \
	X(QueryDeviceAttribEXT,						\
	  (void *device, int name, intptr_t *value), unsigned int)	\
	X(GetPlatformDisplayEXT,					\
	  (unsigned int platform, void *native, const int *attribs), void *) \
	X(CreateImageKHR,						\
	  (void *display, void *context, unsigned int target,		\
	   void *buffer, const int *attribs), void *)			\
	X(DestroyImageKHR, (void *display, void *image), unsigned int)

struct cuda_egl {
#define X(name, params, result) result (*name) params;
	EGL_FUNCTIONS(X)
	EGL_FOUND(X)
#undef X
	void *display;
};

static const struct dl_symbol symbols[] = {
#define X(name, params, result) \
	{ "egl" #name, offsetof(struct cuda_egl, name), false },
	EGL_FUNCTIONS(X)
#undef X
};

/* What a library finds that it has not got says nothing when it is called. */
static void find_functions(struct cuda_egl *egl)
{
	void *fn;

#define X(name, params, result)						\
	fn = egl->GetProcAddress("egl" #name);				\
	memcpy(&egl->name, &fn, sizeof(fn));
	EGL_FOUND(X)
#undef X
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (; words; words = strchr(words, ' ')) {
		words += strspn(words, " ");
		if (!strncmp(words, word, n) && (!words[n] || words[n] == ' '))
			return true;
	}
	return false;
}

static int failed(struct cuda_egl *egl, const char *call)
{
	int error = egl->GetError();

	return fail(error == EGL_BAD_ALLOC ? -ENOMEM : -EOPNOTSUPP,
		    "egl: %s: 0x%04x", call, (unsigned int)error);
}

/* The EGL device that says it is this CUDA device; else NULL. */
static void *find_device(struct cuda_egl *egl, cuda_device gpu)
{
	const char *words = egl->QueryString(NULL, EGL_EXTENSIONS);
	void *devices[16];
	intptr_t number;
	int n = 0;

	if (!has_word(words, "EGL_EXT_platform_device") ||
	    !egl->QueryDevicesEXT || !egl->QueryDeviceAttribEXT ||
	    !egl->GetPlatformDisplayEXT || fault_hit() ||
	    !egl->QueryDevicesEXT(ARRAY_SIZE(devices), devices, &n))
		return NULL;
	for (int i = 0; i < n; i++)
		if (egl->QueryDeviceAttribEXT(devices[i], EGL_CUDA_DEVICE,
					      &number) && number == gpu)
			return devices[i];
	return NULL;
}

/*
 * A display is shared by all in the process who ask for it, so that it is never
 * terminated: others' images would go with it.
 */
static int open_display(struct cuda_egl *egl, cuda_device gpu)
{
	void *device = find_device(egl, gpu);
	int major, minor;

	if (device)
		egl->display = egl->GetPlatformDisplayEXT(EGL_PLATFORM_DEVICE,
							  device, NULL);
	else
		egl->display = egl->GetDisplay(NULL);
	if (!egl->display)
		return failed(egl, device ? "eglGetPlatformDisplayEXT" :
			      "eglGetDisplay");
	if (fault_hit() || !egl->Initialize(egl->display, &major, &minor))
		return failed(egl, "eglInitialize");
	if (!has_word(egl->QueryString(egl->display, EGL_EXTENSIONS),
		      "EGL_EXT_image_dma_buf_import") ||
	    !egl->CreateImageKHR || !egl->DestroyImageKHR)
		return fail(-EOPNOTSUPP, "egl: the display has no "
			    "EGL_EXT_image_dma_buf_import");
	return 0;
}

static int open_egl(struct cuda_device *dev)
{
	static const char *const sonames[] = { "libEGL.so.1", NULL };
	struct cuda_egl *egl;
	void *library;
	int ret;

	if (!dev->cu.GraphicsEGLRegisterImage ||
	    !dev->cu.GraphicsResourceGetMappedEglFrame ||
	    !dev->cu.GraphicsUnregisterResource)
		return fail(-EOPNOTSUPP, "egl: the driver has no "
			    "cuGraphicsEGLRegisterImage");
	egl = sys_calloc(1, sizeof(*egl));
	if (!egl)
		return fail(-ENOMEM, "no memory for EGL");
	ret = dl_open("egl", sonames, symbols, ARRAY_SIZE(symbols), egl,
		      &library);
	if (ret)
		goto err_free;
	find_functions(egl);
	/* From here on it stays: it may have begun to work, as its display. */
	ret = open_display(egl, dev->gpu.handle);
	if (ret)
		goto err_free;
	dev->egl = egl;
	return 0;

err_free:
	free(egl);
	return ret;
}

void cuda_egl_open(struct cuda_device *dev)
{
	if (!open_egl(dev))
		return;
	snprintf(dev->egl_said, sizeof(dev->egl_said), "%s",
		 dlbuf_last_error());
	forget_failure();
}

void cuda_egl_close(struct cuda_device *dev)
{
	free(dev->egl);
}

/* ---------------------------------------------------------------- imports */

#define MIN_PITCH 4096		/* a page, and more than any driver's alignment */
#define MAX_SIDE 16384		/* of a picture, on every GPU there is */

/*
 * Rows of a page, which every dma-buf has a whole number of; longer ones where
 * there would be too many.
 */
static int find_rows(uint64_t bytes, unsigned int *pitch, unsigned int *rows)
{
	uint64_t row = MIN_PITCH;

	while (bytes / row > MAX_SIDE && row < MAX_SIDE && !(bytes % (2 * row)))
		row *= 2;
	if (bytes % row || bytes / row > MAX_SIDE)
		return fail(-EOPNOTSUPP, "egl: %llu bytes are not %d rows or "
			    "less of as many bytes", (unsigned long long)bytes,
			    MAX_SIDE);
	*pitch = row;
	*rows = bytes / row;
	return 0;
}

/* EGL keeps no fd: it is borrowed, as it is to us. */
static int create_image(struct cuda_import *ci, unsigned int pitch,
			unsigned int rows)
{
	struct cuda_egl *egl = ci->memory->dev->egl;
	const int attribs[] = {
		EGL_WIDTH, (int)pitch,
		EGL_HEIGHT, (int)rows,
		EGL_LINUX_DRM_FOURCC, R8,
		EGL_DMA_BUF_PLANE0_FD, ci->base.fd,
		EGL_DMA_BUF_PLANE0_OFFSET, 0,
		EGL_DMA_BUF_PLANE0_PITCH, (int)pitch,
		EGL_IMAGE_PRESERVED, 1,
		EGL_NONE
	};

	if (!fault_hit())
		ci->memory->image = egl->CreateImageKHR(egl->display, NULL,
			EGL_LINUX_DMA_BUF, NULL, attribs);
	return ci->memory->image ? 0 : failed(egl, "eglCreateImageKHR");
}

static int check_frame(const struct cuda_egl_frame *f, unsigned int pitch,
		       unsigned int rows)
{
	if (f->type != CUABI_EGL_FRAME_TYPE_PITCH)
		return fail(-EOPNOTSUPP, "egl: CUDA has the image as an array");
	if (f->nplanes != 1 || f->channels != 1 ||
	    f->format != CUABI_AD_FORMAT_UNSIGNED_INT8)
		return fail(-EOPNOTSUPP, "egl: CUDA has the image as %u planes "
			    "of %u channels of format %d", f->nplanes,
			    f->channels, f->format);
	/* Of pictures without a depth it is 0 or 1. */
	if (f->width != pitch || f->height != rows || f->depth > 1 ||
	    f->pitch != pitch)
		return fail(-EOPNOTSUPP, "egl: CUDA has the image as %ux%ux%u, "
			    "pitch %u, which is %ux%u", f->width, f->height,
			    f->depth, f->pitch, pitch, rows);
	if (!f->planes[0])
		return fail(-EOPNOTSUPP, "egl: CUDA has no memory of the image");
	return 0;
}

int cuda_egl_import(struct cuda_import *ci)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	struct cuda_egl_frame frame = { .nplanes = 0 };
	unsigned int pitch, rows;
	int ret;

	if (!dev->egl)
		return fail(-EOPNOTSUPP, "%s", dev->egl_said);
	ret = find_rows(m->bytes, &pitch, &rows);
	if (!ret)
		ret = create_image(ci, pitch, rows);
	if (!ret)
		ret = CUDA_DO(dev, GraphicsEGLRegisterImage, &m->graphics,
			      m->image, ci->base.id.access & DLBUF_WRITE ?
			      CUABI_GRAPHICS_REGISTER_FLAGS_NONE :
			      CUABI_GRAPHICS_REGISTER_FLAGS_READ_ONLY);
	if (!ret)
		ret = CUDA_DO(dev, GraphicsResourceGetMappedEglFrame, &frame,
			      m->graphics, 0, 0);
	if (!ret)
		ret = check_frame(&frame, pitch, rows);
	if (!ret)
		ci->base.data = frame.planes[0];
	return ret;
}

void cuda_egl_unimport(struct cuda_memory *m)
{
	struct cuda_egl *egl = m->dev->egl;

	if (m->graphics)
		m->dev->cu.GraphicsUnregisterResource(m->graphics);
	egl->DestroyImageKHR(egl->display, m->image);
}
