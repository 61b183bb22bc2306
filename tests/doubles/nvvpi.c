// SPDX-License-Identifier: MIT
/* See nvvpi.h. -DMAJOR=3 or 4. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvvpi.h"
#include "streams.h"

#define EXPORT __attribute__((visibility("default")))

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

struct queue {
	struct object object;
	struct stream stream;
};

static struct fake_nvvpi fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "nvvpi";
static STATIC_TLS int status;
static STATIC_TLS const char *said = "";

static const char *const status_names[] = {
	"VPI_SUCCESS", "VPI_ERROR_NOT_IMPLEMENTED", "VPI_ERROR_INVALID_ARGUMENT",
	"VPI_ERROR_INVALID_IMAGE_FORMAT", "VPI_ERROR_INVALID_ARRAY_TYPE",
	"VPI_ERROR_INVALID_PAYLOAD_TYPE", "VPI_ERROR_INVALID_OPERATION",
	"VPI_ERROR_INVALID_CONTEXT", "VPI_ERROR_DEVICE", "VPI_ERROR_NOT_READY",
	"VPI_ERROR_BUFFER_LOCKED", "VPI_ERROR_OUT_OF_MEMORY", "VPI_ERROR_INTERNAL",
};

/* Version 4 has one more status at an unknown place, so here all numbers differ. */
#define SHIFT (MAJOR > 3 ? 100 : 0)

static int end(int result, const char *text)
{
	status = result ? result + SHIFT : 0;
	said = text;
	pthread_mutex_unlock(&lock);
	return status;
}

/* A call that the test lets fail. */
#define BEGIN								\
	if (call_begin(__func__))					\
		return end(fake.result, "the test wants it")

EXPORT const char *vpiStatusGetName(int number)
{
	number -= number ? SHIFT : 0;
	return number < 0 || number > NVVPI_INTERNAL ? "VPI_ERROR_INTERNAL" :
						       status_names[number];
}

EXPORT int vpiGetLastStatusMessage(char *text, int32_t size)
{
	int last = status;

	snprintf(text, (size_t)size, "%s", said);
	status = 0;
	said = "";
	return last;
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

static bool is_there(const struct object *o)
{
	const struct image *image = (const void *)o;

	if (image->data.type == 5)
		return inode_of(image->data.fd) == image->inode;
	for (int i = 0; i < image->data.pitch.nplanes; i++) {
		const struct plane *p = &image->data.pitch.planes[i];

		if (!is_mapped(p->data, (size_t)p->pitch * (p->height - 1) + 1))
			return false;
	}
	return true;
}

static bool is_refused(const struct data *data)
{
	if (data->type == 5)
		return !fake.surface || inode_of(data->fd) != fake.surface;
	if (MAJOR > 3)
		wrong("%s: a pitch-linear struct of version 3", call);
	return MAJOR > 3;
}

static void keep(struct image *image, const struct data *data)
{
	image->data = *data;
	if (data->type == 5)
		image->inode = inode_of(data->fd);
}

EXPORT int vpiImageCreateWrapper(const void *data, const void *params,
				 uint64_t flags, void **out)
{
	struct image *image;

	BEGIN;
	if (is_refused(data))
		return end(NVVPI_INVALID_ARGUMENT, "file descriptor is invalid");
	image = make(NVVPI_IMAGE, sizeof(*image), NULL, false);
	image->object.is_there = is_there;
	keep(image, data);
	*out = image;
	return end(0, "");
}

static struct image *image_of(void *handle)
{
	struct image *image = (void *)object_of(handle, NVVPI_IMAGE);

	if (!image)
		wrong("%s: no image", call);
	else if (!is_there(&image->object))
		wrong("%s: the memory is gone while it is wrapped", call);
	return image;
}

EXPORT int vpiImageSetWrapper(void *handle, const void *data)
{
	struct image *image;

	BEGIN;
	image = image_of(handle);
	if (image && (image->locks || image->object.pending))
		wrong("%s: locked", call);
	if (!image || is_refused(data))
		return end(NVVPI_INVALID_ARGUMENT, "file descriptor is invalid");
	keep(image, data);
	return end(0, "");
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
	pthread_mutex_unlock(&lock);
}

EXPORT int vpiImageLock(void *handle, int mode)
{
	struct image *image;

	BEGIN;
	image = image_of(handle);
	if (!image || mode < 1 || mode > 3)
		return end(NVVPI_INVALID_ARGUMENT, "image or mode");
	image->locks++;
	return end(0, "");
}

EXPORT int vpiImageUnlock(void *handle)
{
	struct image *image;

	BEGIN;
	image = image_of(handle);
	if (!image || !image->locks)
		return end(NVVPI_INVALID_OPERATION, "isn't locked");
	image->locks--;
	return end(0, "");
}

EXPORT int vpiStreamCreateWrapperCUDA(void *cuda, uint64_t flags, void **out)
{
	struct queue *queue;

	BEGIN;
	queue = make(NVVPI_STREAM, sizeof(*queue), NULL, false);
	stream_init(&queue->stream, NULL, false, false);
	*out = queue;
	return end(0, "");
}

static struct queue *queue_of(void *handle)
{
	struct queue *queue = (void *)object_of(handle, NVVPI_STREAM);

	if (!queue)
		wrong("%s: no stream", call);
	return queue;
}

EXPORT int vpiStreamSync(void *handle)
{
	struct queue *queue;

	BEGIN;
	queue = queue_of(handle);
	return end(queue ? stream_finish(&queue->stream) : NVVPI_INVALID_ARGUMENT, "");
}

EXPORT void vpiStreamDestroy(void *handle)
{
	struct queue *queue;

	call_begin(__func__);
	queue = handle ? queue_of(handle) : NULL;
	if (queue) {
		stream_end(&queue->stream, true);
		unmake(&queue->object);
	}
	pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- controls */

static enum progress invert(struct job *job)
{
	const struct image *image = (void *)job->uses[0];

	if (fake.held)
		return JOB_WAITS;
	if (!is_there(job->uses[0])) {
		wrong("a stream uses memory that is gone");
		return JOB_DONE;
	}
	fake.last = image->data.type == 5 ? NULL : image->data.pitch.planes[0].data;
	/* The CPU cannot touch memory of CUDA's double. */
	for (int i = 0; image->data.type == 1 && i < image->data.pitch.nplanes; i++) {
		const struct plane *p = &image->data.pitch.planes[i];
		int row = p->width * vpiPixelTypeGetBitsPerPixel(p->pixel_type) / 8;

		for (int y = 0; y < p->height; y++)
			for (int x = 0; x < row; x++)
				((uint8_t *)p->data)[y * p->pitch + x] ^= 0xff;
	}
	return JOB_DONE;
}

static int submit(void *stream, void *handle)
{
	struct job job = { .run = invert };
	struct queue *queue;
	struct image *image;

	call_begin("fake_nvvpi_submit");
	queue = queue_of(stream);
	image = image_of(handle);
	if (!queue || !image)
		return end(NVVPI_INVALID_ARGUMENT, "NULL");
	if (image->locks)
		return end(NVVPI_BUFFER_LOCKED, "by the user");
	job.uses[0] = &image->object;
	return end(stream_add(&queue->stream, &job) ? NVVPI_OUT_OF_MEMORY : 0, "");
}

static void hold(bool held)
{
	pthread_mutex_lock(&lock);
	fake.held = held;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void destroy(struct object *o)
{
	if (o->kind == NVVPI_STREAM)
		stream_end(&((struct queue *)o)->stream, true);
	o->live = false;
}

static void clear(void)
{
	hold(false);
	streams_reset();
	for (unsigned int kind = 0; kind < NVVPI_KINDS; kind++)
		destroy_all(kind, NULL, destroy);
	objects_free();
}

EXPORT struct fake_nvvpi *fake_nvvpi(void);
EXPORT struct fake_nvvpi *fake_nvvpi(void)
{
	clear();
	fake = (struct fake_nvvpi){
		.major = MAJOR, .result = NVVPI_INTERNAL, .hold = hold, .submit = submit,
	};
	return &fake;
}

__attribute__((destructor)) static void unloaded(void)
{
	clear();
}
