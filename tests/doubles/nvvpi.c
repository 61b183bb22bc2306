// SPDX-License-Identifier: MIT
/* See nvvpi.h. -DMAJOR=3 or 4. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvvpi.h"
#include "streams.h"

/* VPI's own, as far as they are known: the plane of versions 2 and 3. */
struct data {
	int32_t type;		/* 1 and 2: pitch, 5: fd */
	union {
		struct {
			uint64_t format;
			int32_t nplanes;
			struct plane {
				uint64_t pixel_type;
				int32_t width, height, pitch;
				void *data;
			} planes[6];
		} pitch;
		int fd;
	};
};

struct image {
	struct object object;
	struct data data;
	ino_t inode;
	int locks;
};

static struct fake_nvvpi fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "nvvpi";

static int end(int status)
{
	pthread_mutex_unlock(&lock);
	return status;
}

/* A call that the test lets fail. */
#define BEGIN								\
	if (call_begin(__func__))					\
		return end(NVVPI_INTERNAL)

EXPORT const char *vpiStatusGetName(int number)
{
	return number == NVVPI_INVALID_ARGUMENT ? "VPI_ERROR_INVALID_ARGUMENT" :
	       fake.failure ? fake.failure : "VPI_ERROR_INTERNAL";
}

EXPORT int vpiGetLastStatusMessage(char *text, int32_t size)
{
	snprintf(text, (size_t)size, "the double wants it");
	return NVVPI_INTERNAL;
}

EXPORT int vpiImageFormatGetPlaneCount(uint64_t format)
{
	return !!(format & 0xff00) + !!(format & 0xff);
}

EXPORT uint64_t vpiImageFormatGetPlanePixelType(uint64_t format, int plane)
{
	return 0x5700 + (plane ? format & 0xff : format >> 8 & 0xff);
}

EXPORT int vpiPixelTypeGetBitsPerPixel(uint64_t type)
{
	return (int)(type - 0x5700);
}

static bool is_there(const struct image *image)
{
	if (image->data.type == 5)
		return inode_of(image->data.fd) == image->inode;
	for (int i = 0; i < image->data.pitch.nplanes; i++) {
		const struct plane *p = &image->data.pitch.planes[i];

		if (!is_mapped(p->data, (size_t)p->pitch * (p->height - 1) + 1))
			return false;
	}
	return true;
}

static struct image *image_of(void *handle)
{
	struct image *image = (void *)object_of(handle, NVVPI_IMAGE);

	if (!image)
		wrong("%s: no image", call);
	else if (!is_there(image))
		wrong("%s: the memory is gone while it is wrapped", call);
	return image;
}

/* Points it at memory. */
static int wrap(struct image *image, const struct data *data)
{
	if (MAJOR > 3 && data->type != 5)
		wrong("%s: a pitch-linear struct of version 3", call);
	if (image->locks)
		wrong("%s: locked", call);
	if (data->type == 5 && inode_of(data->fd) != fake.surface)
		return NVVPI_INVALID_ARGUMENT;
	image->data = *data;
	image->inode = data->type == 5 ? inode_of(data->fd) : 0;
	return 0;
}

EXPORT int vpiImageCreateWrapper(const void *data, const void *params, uint64_t flags, void **out)
{
	struct image tmp = { .locks = 0 }, *image;

	BEGIN;
	if (wrap(&tmp, data))
		return end(NVVPI_INVALID_ARGUMENT);
	*out = image = make(NVVPI_IMAGE, sizeof(*image), NULL, false);
	return end(wrap(image, data));
}

EXPORT int vpiImageSetWrapper(void *handle, const void *data)
{
	struct image *image;

	BEGIN;
	image = image_of(handle);
	return end(image ? wrap(image, data) : NVVPI_INVALID_ARGUMENT);
}

EXPORT void vpiImageDestroy(void *handle)
{
	struct image *image;

	call_begin(__func__);
	image = image_of(handle);
	if (image && image->locks)
		wrong("%s: locked", call);
	if (image)
		unmake(&image->object);
	end(0);
}

EXPORT int vpiImageLock(void *handle, int mode)
{
	struct image *image;

	BEGIN;
	image = image_of(handle);
	if (image)
		image->locks++;
	return end(0);
}

EXPORT int vpiImageUnlock(void *handle)
{
	struct image *image;

	BEGIN;
	image = image_of(handle);
	if (image && !image->locks--)
		wrong("%s: not locked", call);
	return end(0);
}

EXPORT int vpiStreamCreateWrapperCUDA(void *cuda, uint64_t flags, void **out)
{
	BEGIN;
	*out = make(NVVPI_STREAM, sizeof(struct object), NULL, false);
	return end(0);
}

EXPORT int vpiStreamSync(void *handle)
{
	BEGIN;
	if (!object_of(handle, NVVPI_STREAM))
		wrong("%s: no stream", call);
	return end(0);
}

EXPORT void vpiStreamDestroy(void *handle)
{
	call_begin(__func__);
	if (object_of(handle, NVVPI_STREAM))
		unmake(handle);
	else if (handle)
		wrong("%s: no stream", call);
	end(0);
}

EXPORT struct fake_nvvpi *fake_nvvpi(void);
EXPORT struct fake_nvvpi *fake_nvvpi(void)
{
	objects_free();
	fake = (struct fake_nvvpi){ .major = MAJOR };
	return &fake;
}
