// SPDX-License-Identifier: MIT
/*
 * A driver of VA-API for tests, which the real libva loads on a machine without
 * hardware: its surfaces are udmabufs, exported as real drivers export theirs.
 *
 *	LIBVA_DRIVERS_PATH=... LIBVA_DRIVER_NAME=dlbuf	dlbuf_drv_video.so
 *	DLBUF_VA		words: separate (no composed layers), none (no
 *				export), modifiers (they differ), rg88 (as some
 *				drivers call chroma)
 *
 * The picture is in the surface only after the first vaSyncSurface(): byte i
 * of it is va_pattern(i), until an image of the surface is written. Decodes
 * nothing.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/udmabuf.h>

#include <va/va_backend.h>
#include <va/va_drmcommon.h>

#include "va.h"

#define NSURFACES 16u
#define CODE(a, b, c, d) VA_FOURCC(a, b, c, d)

struct surface {
	int fd, memfd;		/* fd -1: not there */
	uint32_t fourcc, width, height, pitch;
	size_t bytes;
	int decoded;
	void *map;		/* of its image, which is one at most */
};

static struct surface surfaces[NSURFACES];

static int says(const char *word)
{
	const char *s = getenv("DLBUF_VA");

	return s && strstr(s, word);
}

static struct surface *find(VASurfaceID id)
{
	return id >= 1 && id <= NSURFACES && surfaces[id - 1].fd > 0 ?
	       &surfaces[id - 1] : NULL;
}

/* Bytes of one value, and whether the format is one of two planes or three. */
static int shape(uint32_t fourcc, uint32_t *value, uint32_t *nplanes)
{
	*value = fourcc == VA_FOURCC_P010 ? 2 : 1;
	*nplanes = 0;
	switch (fourcc) {
	case VA_FOURCC_NV12:
	case VA_FOURCC_P010:
		*nplanes = 2;
		return 1;
	case VA_FOURCC_YV12:
		*nplanes = 3;
		return 1;
	default:
		return 0;
	}
}

static VAStatus create(struct surface *s, uint32_t fourcc, uint32_t width,
		       uint32_t height)
{
	struct udmabuf_create create = { 0 };
	uint32_t value, nplanes;
	int dev;

	if (!shape(fourcc, &value, &nplanes))
		return VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
	*s = (struct surface){ .fourcc = fourcc, .width = width,
			       .height = height };
	/* As hardware has it: wider than the picture. */
	s->pitch = (width * value + 63) / 64 * 64;
	s->bytes = ((size_t)s->pitch * height * 2 + 4095) / 4096 * 4096;
	dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	s->memfd = memfd_create("va", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (dev < 0 || s->memfd < 0 || ftruncate(s->memfd, s->bytes) ||
	    fcntl(s->memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return VA_STATUS_ERROR_ALLOCATION_FAILED;
	create.memfd = s->memfd;
	create.flags = UDMABUF_FLAGS_CLOEXEC;
	create.size = s->bytes;
	s->fd = ioctl(dev, UDMABUF_CREATE, &create);
	close(dev);
	return s->fd < 0 ? VA_STATUS_ERROR_ALLOCATION_FAILED :
			   VA_STATUS_SUCCESS;
}

static VAStatus create_surfaces2(VADriverContextP ctx, unsigned int format,
				 unsigned int width, unsigned int height,
				 VASurfaceID *ids, unsigned int n,
				 VASurfaceAttrib *attribs, unsigned int nattribs)
{
	uint32_t fourcc = format == VA_RT_FORMAT_YUV420_10 ? VA_FOURCC_P010 :
							     VA_FOURCC_NV12;
	VAStatus status;

	for (unsigned int i = 0; i < nattribs; i++)
		if (attribs[i].type == VASurfaceAttribPixelFormat)
			fourcc = attribs[i].value.value.i;
	for (unsigned int i = 0; i < n; i++) {
		uint32_t k = 0;

		while (k < NSURFACES && surfaces[k].fd > 0)
			k++;
		if (k == NSURFACES)
			return VA_STATUS_ERROR_ALLOCATION_FAILED;
		status = create(&surfaces[k], fourcc, width, height);
		if (status)
			return status;
		ids[i] = k + 1;
	}
	return VA_STATUS_SUCCESS;
}

static VAStatus create_surfaces(VADriverContextP ctx, int width, int height,
				int format, int n, VASurfaceID *ids)
{
	return create_surfaces2(ctx, format, width, height, ids, n, NULL, 0);
}

static VAStatus destroy_surfaces(VADriverContextP ctx, VASurfaceID *ids, int n)
{
	for (int i = 0; i < n; i++) {
		struct surface *s = find(ids[i]);

		if (!s)
			return VA_STATUS_ERROR_INVALID_SURFACE;
		close(s->fd);
		close(s->memfd);
		*s = (struct surface){ 0 };
	}
	return VA_STATUS_SUCCESS;
}

static VAStatus sync_surface(VADriverContextP ctx, VASurfaceID id)
{
	struct surface *s = find(id);
	uint8_t *p;

	if (!s)
		return VA_STATUS_ERROR_INVALID_SURFACE;
	if (s->decoded)
		return VA_STATUS_SUCCESS;
	s->decoded = 1;
	p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd, 0);
	if (p == MAP_FAILED)
		return VA_STATUS_ERROR_OPERATION_FAILED;
	for (size_t i = 0; i < s->bytes; i++)
		p[i] = va_pattern(i);
	munmap(p, s->bytes);
	return VA_STATUS_SUCCESS;
}

/* The planes' positions, in the simplest way of all drivers. */
static void place(const struct surface *s, uint32_t plane, uint32_t *offset,
		  uint32_t *pitch)
{
	uint32_t luma = s->pitch * s->height;

	*pitch = s->fourcc == VA_FOURCC_YV12 && plane ? s->pitch / 2 : s->pitch;
	*offset = !plane ? 0 : plane == 1 ? luma :
		  luma + s->pitch / 2 * ((s->height + 1) / 2);
}

static uint32_t layer_code(const struct surface *s, uint32_t plane)
{
	if (s->fourcc == VA_FOURCC_P010)
		return plane ? CODE('G', 'R', '3', '2') : CODE('R', '1', '6', ' ');
	if (s->fourcc == VA_FOURCC_YV12 || !plane)
		return CODE('R', '8', ' ', ' ');
	return says("rg88") ? CODE('R', 'G', '8', '8') : CODE('G', 'R', '8', '8');
}

/* VADRMPRIMESurfaceDescriptor and flags. Debian 12's headers lack it. */
static int is_prime_3(uint32_t type)
{
#ifdef VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3
	return type == VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3;
#else
	return 0;
#endif
}

static VAStatus export_surface(VADriverContextP ctx, VASurfaceID id,
			       uint32_t type, uint32_t flags, void *out)
{
	VADRMPRIMESurfaceDescriptor d = { 0 };
	const struct surface *s = find(id);
	uint32_t value, nplanes;

	if (says("none"))
		return VA_STATUS_ERROR_UNIMPLEMENTED;
	if (says("broken"))
		return VA_STATUS_ERROR_OPERATION_FAILED;
	if (!s)
		return VA_STATUS_ERROR_INVALID_SURFACE;
	if (type != VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2 && !is_prime_3(type))
		return VA_STATUS_ERROR_UNSUPPORTED_MEMORY_TYPE;
	if (flags & VA_EXPORT_SURFACE_COMPOSED_LAYERS && says("separate"))
		return VA_STATUS_ERROR_INVALID_SURFACE;
	shape(s->fourcc, &value, &nplanes);
	d.fourcc = s->fourcc;
	d.width = s->width;
	d.height = s->height;
	/* An object for each plane where they are to differ. */
	d.num_objects = says("modifiers") ? 2 : 1;
	for (uint32_t i = 0; i < d.num_objects; i++) {
		d.objects[i].fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
		d.objects[i].size = s->bytes;
		d.objects[i].drm_format_modifier = i;
	}
	d.num_layers = flags & VA_EXPORT_SURFACE_COMPOSED_LAYERS ? 1 : nplanes;
	for (uint32_t i = 0; i < nplanes; i++) {
		uint32_t layer = d.num_layers == 1 ? 0 : i;
		uint32_t plane = d.num_layers == 1 ? i : 0;

		d.layers[layer].drm_format = d.num_layers == 1 ?
					     s->fourcc : layer_code(s, i);
		d.layers[layer].num_planes = d.num_layers == 1 ? nplanes : 1;
		d.layers[layer].object_index[plane] = i % d.num_objects;
		place(s, i, &d.layers[layer].offset[plane],
		      &d.layers[layer].pitch[plane]);
	}
	memcpy(out, &d, sizeof(d));
#ifdef VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3
	if (is_prime_3(type))
		((VADRMPRIME3SurfaceDescriptor *)out)->flags = 0;
#endif
	return VA_STATUS_SUCCESS;
}

/* Images are the surfaces themselves, under their numbers. */
static VAStatus derive_image(VADriverContextP ctx, VASurfaceID id,
			     VAImage *image)
{
	const struct surface *s = find(id);
	uint32_t value;

	if (!s || s->fourcc != VA_FOURCC_NV12)
		return VA_STATUS_ERROR_OPERATION_FAILED;
	*image = (VAImage){
		.image_id = id,
		.format = { .fourcc = s->fourcc, .byte_order = VA_LSB_FIRST,
			    .bits_per_pixel = 12 },
		.buf = id,
		.width = s->width,
		.height = s->height,
		.data_size = s->bytes,
	};
	shape(s->fourcc, &value, &image->num_planes);
	for (uint32_t i = 0; i < image->num_planes; i++)
		place(s, i, &image->offsets[i], &image->pitches[i]);
	return VA_STATUS_SUCCESS;
}

static VAStatus map_buffer(VADriverContextP ctx, VABufferID id, void **out)
{
	struct surface *s = find(id);

	if (!s || s->map)
		return VA_STATUS_ERROR_INVALID_BUFFER;
	s->map = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		      s->memfd, 0);
	if (s->map == MAP_FAILED) {
		s->map = NULL;
		return VA_STATUS_ERROR_OPERATION_FAILED;
	}
	*out = s->map;
	return VA_STATUS_SUCCESS;
}

static VAStatus map_buffer2(VADriverContextP ctx, VABufferID id, void **out,
			    uint32_t flags)
{
	return map_buffer(ctx, id, out);
}

static VAStatus unmap_buffer(VADriverContextP ctx, VABufferID id)
{
	struct surface *s = find(id);

	if (!s || !s->map)
		return VA_STATUS_ERROR_INVALID_BUFFER;
	munmap(s->map, s->bytes);
	s->map = NULL;
	return VA_STATUS_SUCCESS;
}

static VAStatus destroy_image(VADriverContextP ctx, VAImageID id)
{
	return find(id) ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_IMAGE;
}

static VAStatus query_image_formats(VADriverContextP ctx, VAImageFormat *list,
				    int *n)
{
	list[0] = (VAImageFormat){ .fourcc = VA_FOURCC_NV12,
				   .byte_order = VA_LSB_FIRST,
				   .bits_per_pixel = 12 };
	*n = 1;
	return VA_STATUS_SUCCESS;
}

static VAStatus nothing_to_list(VADriverContextP ctx, VAProfile *list, int *n)
{
	*n = 0;
	return VA_STATUS_SUCCESS;
}

static VAStatus terminate(VADriverContextP ctx)
{
	for (uint32_t i = 0; i < NSURFACES; i++) {
		VASurfaceID id = i + 1;

		if (surfaces[i].fd > 0)
			destroy_surfaces(ctx, &id, 1);
	}
	return VA_STATUS_SUCCESS;
}

/* Everything else. The caller clears what it passed, as C's ABIs have it. */
static VAStatus unimplemented(void)
{
	return VA_STATUS_ERROR_UNIMPLEMENTED;
}

#define INIT2(major, minor) __vaDriverInit_##major##_##minor
#define INIT(major, minor) INIT2(major, minor)

VAStatus INIT(VA_MAJOR_VERSION, VA_MINOR_VERSION)(VADriverContextP ctx);
VAStatus INIT(VA_MAJOR_VERSION, VA_MINOR_VERSION)(VADriverContextP ctx)
{
	VAStatus (**slot)(void) = (void *)ctx->vtable;

	/* libva refuses a driver with holes; the slots are all alike. */
	for (size_t i = 0; i < offsetof(struct VADriverVTable, reserved) /
			       sizeof(*slot); i++)
		slot[i] = unimplemented;
	ctx->version_major = VA_MAJOR_VERSION;
	ctx->version_minor = VA_MINOR_VERSION;
	ctx->max_profiles = ctx->max_entrypoints = ctx->max_attributes = 1;
	ctx->max_image_formats = ctx->max_subpic_formats = 1;
	ctx->max_display_attributes = 1;
	ctx->str_vendor = "dlbuf's tests";
	ctx->vtable->vaTerminate = terminate;
	ctx->vtable->vaQueryConfigProfiles = nothing_to_list;
	ctx->vtable->vaCreateSurfaces = create_surfaces;
	ctx->vtable->vaCreateSurfaces2 = create_surfaces2;
	ctx->vtable->vaDestroySurfaces = destroy_surfaces;
	ctx->vtable->vaSyncSurface = sync_surface;
	ctx->vtable->vaExportSurfaceHandle = export_surface;
	ctx->vtable->vaQueryImageFormats = query_image_formats;
	ctx->vtable->vaDeriveImage = derive_image;
	ctx->vtable->vaDestroyImage = destroy_image;
	ctx->vtable->vaMapBuffer = map_buffer;
	ctx->vtable->vaUnmapBuffer = unmap_buffer;
#if VA_CHECK_VERSION(1, 21, 0)
	ctx->vtable->vaMapBuffer2 = map_buffer2;
#else
	(void)map_buffer2;
#endif
	return VA_STATUS_SUCCESS;
}
