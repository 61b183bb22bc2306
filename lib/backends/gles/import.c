// SPDX-License-Identifier: MIT
/*
 * Imports: the CPU's mapping, and one EGLImage of the whole dma-buf, in any format: rows of 32-bit
 * words, as pixels of ABGR8888 without tiles. All drivers take this image as a texture and as a
 * target, while each has other rules for pitches and offsets of pictures.
 */
#include <errno.h>

#include "../../import/host.h"
#include "gles.h"

#define WORD 4

/*
 * Chooses the rows. Many drivers check neither the end of the buffer nor the largest texture. A
 * row is a part of a page, or a page, so that no page is left out; longer if the driver has no
 * textures with so many rows. llvmpipe writes blocks of 4 x 4 words, also beyond the last row.
 */
static int find_rows(const struct gles_device *dev, struct gles_import *gi)
{
	/* The first is for parts of a page. */
	static const uint8_t shifts[] = { 6, 8, 10, 12 };
	uint64_t rows = 0;

	for (size_t i = gi->base.bytes >= TRIAL_PAGE; i < ARRAY_SIZE(shifts); i++) {
		gi->shift = shifts[i];
		rows = gi->base.bytes / WORD >> gi->shift;
		if (dev->software)
			rows &= ~(uint64_t)3;
		if (rows <= (uint64_t)dev->most)
			break;
	}
	gi->rows = (uint32_t)rows;
	if (rows && rows <= (uint64_t)dev->most && 1 << gi->shift <= dev->most)
		return 0;
	return fail(-EOPNOTSUPP, "%s: a dma-buf of %llu bytes; its textures have up to %d rows of "
		    "%d words", dev->base.name, (unsigned long long)gi->base.bytes, dev->most,
		    dev->most < 4096 ? dev->most : 4096);
}

int gles_image_make(struct gles_import *gi, uint32_t at)
{
	struct gles_device *dev = gles_device_of(gi->base.dev);
	int ret = find_rows(dev, gi);
	const egl_int attribs[] = {
		EGLABI_WIDTH, 1 << gi->shift,
		EGLABI_HEIGHT, (egl_int)gi->rows,
		EGLABI_LINUX_DRM_FOURCC, GLES_PIXELS,
		EGLABI_DMA_BUF_PLANE0_FD, gi->base.fd,
		EGLABI_DMA_BUF_PLANE0_OFFSET, (egl_int)at,
		EGLABI_DMA_BUF_PLANE0_PITCH, WORD << gi->shift,
		dev->modifiers ? EGLABI_DMA_BUF_PLANE0_MODIFIER_LO : EGLABI_NONE, 0,
		EGLABI_DMA_BUF_PLANE0_MODIFIER_HI, 0,
		EGLABI_NONE,
	};

	if (ret)
		return ret;
	/* EGL does not take the fd. */
	pthread_mutex_lock(&gles_lock);
	gi->image = fault_hit() ? NULL :
		dev->egl.CreateImageKHR(dev->display, NULL, EGLABI_LINUX_DMA_BUF, NULL, attribs);
	if (!gi->image)
		ret = gles_failed(dev->egl.GetError(), dev->base.name, "eglCreateImageKHR", -EOPNOTSUPP);
	pthread_mutex_unlock(&gles_lock);
	return ret;
}

/* GLES keeps the memory while a texture or work of the image exists. */
void gles_image_free(struct gles_import *gi)
{
	struct gles_device *dev = gles_device_of(gi->base.dev);

	pthread_mutex_lock(&gles_lock);
	dev->egl.DestroyImageKHR(dev->display, gi->image);
	pthread_mutex_unlock(&gles_lock);
}

int gles_import(struct import *imp)
{
	int ret = host_import(imp);

	if (ret)
		return ret;
	ret = gles_image_make(gles_import_of(imp), 0);
	if (ret)
		host_unimport(imp, true);
	return ret;
}

bool gles_unimport(struct import *imp, bool wait)
{
	gles_image_free(gles_import_of(imp));
	return host_unimport(imp, wait);
}
