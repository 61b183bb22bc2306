/* SPDX-License-Identifier: MIT */
/*
 * VA-API: makes a frame from a surface. Header-only; needs libva's headers (1.1 or
 * newer) and, for dlbuf_vaapi_export(), libva.
 *
 *	VADRMPRIMESurfaceDescriptor desc;
 *	struct dlbuf_frame frame;
 *
 *	... vaEndPicture() ...
 *	if (dlbuf_vaapi_export(display, surface, DLBUF_READ, &desc, &frame))
 *		errx(1, "%s", dlbuf_last_error());
 *	ret = dlbuf_import_frame(dev, &frame, NULL, tensors, &ntensors);
 *	dlbuf_vaapi_release(&desc);
 *
 * Fds. Each vaExportSurfaceHandle() makes new fds, which the caller owns. Close
 * them with dlbuf_vaapi_release(&desc): directly after the import, which has
 * duplicates, or as the frame's lease. You may export a surface once and import
 * its frame each time the decoder has written it.
 *
 * Surfaces. The fds keep the memory of a surface alive, but not its pixels. Do not
 * decode into the surface before the lease fires. An application with a pool of
 * surfaces sets a lease that puts the surface back into the pool.
 */
#ifndef DLBUF_INTEROP_VAAPI_H
#define DLBUF_INTEROP_VAAPI_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <va/va.h>
#include <va/va_drmcommon.h>

#include <dlbuf/frame.h>
#include <dlbuf/interop/shared.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns DRM's code of a VA fourcc whose planes may be exported as separate
 * layers. 0: DRM has no such format (planar RGB), or VA's header and the drivers
 * disagree about the order of the planes (IMC3). For a single layer the driver
 * reports DRM's code itself.
 */
static inline uint32_t dlbuf_vaapi_code_(uint32_t fourcc)
{
	switch (fourcc) {
	case VA_FOURCC_NV12:
		return DLBUF_FOURCC('N', 'V', '1', '2');
	case VA_FOURCC_NV21:
		return DLBUF_FOURCC('N', 'V', '2', '1');
	case VA_FOURCC_P208:
		return DLBUF_FOURCC('N', 'V', '1', '6');
	case VA_FOURCC_P010:
		return DLBUF_FOURCC('P', '0', '1', '0');
#ifdef VA_FOURCC_P012
	case VA_FOURCC_P012:
		return DLBUF_FOURCC('P', '0', '1', '2');
#endif
	case VA_FOURCC_P016:
		return DLBUF_FOURCC('P', '0', '1', '6');
	case VA_FOURCC_I420:
	case VA_FOURCC_IYUV:
		return DLBUF_FOURCC('Y', 'U', '1', '2');
	case VA_FOURCC_YV12:
		return DLBUF_FOURCC('Y', 'V', '1', '2');
	case VA_FOURCC_422H:
		return DLBUF_FOURCC('Y', 'U', '1', '6');
	case VA_FOURCC_YV16:
		return DLBUF_FOURCC('Y', 'V', '1', '6');
	case VA_FOURCC_444P:
		return DLBUF_FOURCC('Y', 'U', '2', '4');
	case VA_FOURCC_YV24:
		return DLBUF_FOURCC('Y', 'V', '2', '4');
	case VA_FOURCC_411P:
		return DLBUF_FOURCC('Y', 'U', '1', '1');
	default:
		return 0;
	}
}

/* Adds the planes of all layers, in order. All must have one modifier. */
static inline int dlbuf_vaapi_planes_(const VADRMPRIMESurfaceDescriptor *desc,
				      struct dlbuf_frame *f)
{
	uint32_t i, j, object;

	for (i = 0; i < desc->num_layers; i++) {
		uint32_t n = desc->layers[i].num_planes;

		if (n < 1 || n > 4 || (n > 1 && desc->num_layers > 1))
			return dlbuf_fail(-EINVAL, "layer %u of %u of the surface "
					  "has %u planes", i, desc->num_layers,
					  n);
		for (j = 0; j < n; j++, f->nplanes++) {
			struct dlbuf_plane *plane = &f->planes[f->nplanes];

			object = desc->layers[i].object_index[j];
			if (object >= desc->num_objects)
				return dlbuf_fail(-EINVAL, "plane %u of the "
						  "surface is in object %u of "
						  "%u", f->nplanes, object,
						  desc->num_objects);
			if (!f->nplanes)
				f->modifier = desc->objects[object]
						      .drm_format_modifier;
			if (desc->objects[object].drm_format_modifier !=
			    f->modifier)
				return dlbuf_fail(-EOPNOTSUPP, "the surface's "
						  "planes have different "
						  "modifiers, 0x%llx and 0x%llx",
						  (unsigned long long)f->modifier,
						  (unsigned long long)
						  desc->objects[object]
							  .drm_format_modifier);
			plane->fd = desc->objects[object].fd;
			plane->offset = desc->layers[i].offset[j];
			plane->pitch = desc->layers[i].pitch[j];
			/* 0 means that the size is unknown. */
			if (desc->objects[object].size &&
			    plane->offset >= desc->objects[object].size)
				return dlbuf_fail(-ERANGE, "plane %u of the surface "
						  "begins at byte %llu of an object of "
						  "%u", f->nplanes,
						  (unsigned long long)plane->offset,
						  desc->objects[object].size);
			if (desc->objects[object].size)
				plane->bytes = desc->objects[object].size -
					       plane->offset;
		}
	}
	return 0;
}

/*
 * Describes an exported surface as a frame. With VA_EXPORT_SURFACE_COMPOSED_LAYERS
 * the one layer has the format. With VA_EXPORT_SURFACE_SEPARATE_LAYERS each layer
 * is an image of one plane, and VA's fourcc is the format of all layers together.
 *
 * desc is borrowed. *frame borrows its fds: keep them open until the frame is
 * imported. *frame is written completely, on failure with zeroes; set the lease
 * afterwards. Colour, time, crop and field belong to the stream and not to the
 * surface: set those that you know.
 *
 * The order is UNKNOWN, because an export does not wait. If you call
 * vaSyncSurface() before the frame is read, set the order to COMPLETE. Otherwise
 * an acquire waits for the fences that the driver has added to the dma-buf;
 * VA-API does not promise any.
 *
 * Pure. Returns 0, or, with an error text in dlbuf_last_error(),
 * -EINVAL      no, or more than 4, layers, planes or objects; a plane in no
 *              object; layers that are not the planes of the fourcc
 * -ERANGE      a plane begins after its object
 * -EOPNOTSUPP  objects with different modifiers; separate layers of a fourcc that
 *              DRM does not have
 * dlbuf_import_frame() checks the format itself.
 *
 * Units: width and height are those of the surface, which decoders round up. Set
 * the crop to the size of the picture.
 *
 * Specification: va/va_drmcommon.h, va/va.h: vaExportSurfaceHandle().
 */
static inline int dlbuf_vaapi_frame(const VADRMPRIMESurfaceDescriptor *desc,
				    struct dlbuf_frame *frame)
{
	struct dlbuf_format_info info;
	struct dlbuf_frame f;
	uint32_t i;
	int ret;

	memset(frame, 0, sizeof(*frame));
	if (desc->num_objects < 1 || desc->num_objects > 4 ||
	    desc->num_layers < 1 || desc->num_layers > 4)
		return dlbuf_fail(-EINVAL, "the surface has %u objects and %u "
				  "layers", desc->num_objects,
				  desc->num_layers);
	memset(&info, 0, sizeof(info));
	memset(&f, 0, sizeof(f));
	info.size = sizeof(info);
	f.size = sizeof(f);
	f.width = desc->width;
	f.height = desc->height;
	f.code_space = DLBUF_CODE_DRM;
	f.fence = -1;
	ret = dlbuf_vaapi_planes_(desc, &f);
	if (ret)
		return ret;
	f.code = desc->layers[0].drm_format;
	if (desc->num_layers > 1) {
		f.code = dlbuf_vaapi_code_(desc->fourcc);
		if (!f.code || dlbuf_format_find(f.code, DLBUF_MOD_LINEAR,
						 DLBUF_CODE_DRM, &info))
			return dlbuf_fail(-EOPNOTSUPP, "no DRM format has the "
					  "planes of VA's fourcc 0x%08x",
					  desc->fourcc);
		if (info.nplanes != f.nplanes)
			return dlbuf_fail(-EINVAL, "the surface has %u layers, "
					  "VA's fourcc 0x%08x has %u planes",
					  desc->num_layers, desc->fourcc,
					  info.nplanes);
		for (i = 0; i < f.nplanes; i++)
			if (!dlbuf_layer_is_plane_(desc->layers[i].drm_format,
						   f.code, i))
				return dlbuf_fail(-EINVAL, "layer %u of the "
						  "surface, 0x%08x, is not plane "
						  "%u of VA's fourcc 0x%08x", i,
						  desc->layers[i].drm_format, i,
						  desc->fourcc);
	}
	*frame = f;
	return 0;
}

#ifdef VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3
/*
 * dlbuf_vaapi_frame() for exports with VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3,
 * which libva 2.21 added and not all drivers support.
 * -EOPNOTSUPP  also: the surface is protected, so only its hardware can read it
 */
static inline int dlbuf_vaapi_frame3(const VADRMPRIME3SurfaceDescriptor *desc,
				     struct dlbuf_frame *frame)
{
	VADRMPRIMESurfaceDescriptor old;

	if (desc->flags & VA_SURFACE_EXTBUF_DESC_PROTECTED)
		return dlbuf_fail(-EOPNOTSUPP, "the surface is protected");
	/* The new struct begins with the old one. */
	memset(&old, 0, sizeof(old));
	memcpy(&old, desc, offsetof(VADRMPRIMESurfaceDescriptor, layers) +
			   sizeof(old.layers));
	return dlbuf_vaapi_frame(&old, frame);
}
#endif

/*
 * Closes the fds of an exported surface and sets them to -1. desc is a
 * VADRMPRIMESurfaceDescriptor *, or a VADRMPRIME3SurfaceDescriptor *, which begins
 * in the same way. vaExportSurfaceHandle() has filled it in. The parameter is
 * void *, so that the function can be a lease:
 *
 *	frame.release = dlbuf_vaapi_release;
 *	frame.release_data = &desc;	// must live until then
 */
static inline void dlbuf_vaapi_release(void *desc)
{
	VADRMPRIMESurfaceDescriptor *d = (VADRMPRIMESurfaceDescriptor *)desc;
	uint32_t i;

	for (i = 0; i < d->num_objects && i < 4; i++) {
		if (d->objects[i].fd >= 0)
			close(d->objects[i].fd);
		d->objects[i].fd = -1;
	}
}

static inline int dlbuf_vaapi_fail_(VAStatus status, const char *call)
{
	int ret = -EIO;

	if (status == VA_STATUS_ERROR_INVALID_DISPLAY ||
	    status == VA_STATUS_ERROR_INVALID_SURFACE)
		ret = -EINVAL;
	else if (status == VA_STATUS_ERROR_UNIMPLEMENTED ||
		 status == VA_STATUS_ERROR_UNSUPPORTED_MEMORY_TYPE)
		ret = -EOPNOTSUPP;
	return dlbuf_fail(ret, "%s: 0x%x, %s", call, (unsigned int)status,
			  vaErrorStr(status));
}

/*
 * Calls vaSyncSurface() to wait until the driver is done with the surface, then
 * vaExportSurfaceHandle(), then dlbuf_vaapi_frame(). Asks for composed layers, and
 * for separate ones if the driver has none.
 *
 * display is borrowed. The fds in *desc are new, see the top of this file; *frame
 * borrows them. On failure no fd is left open, *desc is unchanged, and *frame is zeroes.
 * access is DLBUF_READ, DLBUF_WRITE or DLBUF_RW: the access that the fds allow.
 * Blocks until the surface is complete. The order is COMPLETE. VA-API allows one
 * call at a time per display, on any thread, unless the driver allows more.
 * -EINVAL      also: no such display or surface, bad access
 * -EOPNOTSUPP  also: the driver cannot export dma-bufs
 * -EIO         the driver failed; the error text has its words
 * and the errors of dlbuf_vaapi_frame()
 */
static inline int dlbuf_vaapi_export(VADisplay display, VASurfaceID surface,
				     uint32_t access,
				     VADRMPRIMESurfaceDescriptor *desc,
				     struct dlbuf_frame *frame)
{
	VADRMPRIMESurfaceDescriptor d;
	VAStatus status;
	int ret;

	memset(frame, 0, sizeof(*frame));
	/* VA_EXPORT_SURFACE_READ_ONLY and _WRITE_ONLY have the same values. */
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return dlbuf_fail(-EINVAL, "access %u is not READ, WRITE or RW",
				  access);
	status = vaSyncSurface(display, surface);
	if (status != VA_STATUS_SUCCESS)
		return dlbuf_vaapi_fail_(status, "vaSyncSurface");
	memset(&d, 0, sizeof(d));
	status = vaExportSurfaceHandle(display, surface,
				       VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2,
				       access |
				       VA_EXPORT_SURFACE_COMPOSED_LAYERS, &d);
	if (status != VA_STATUS_SUCCESS) {
		memset(&d, 0, sizeof(d));
		status = vaExportSurfaceHandle(display, surface,
				VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2,
				access | VA_EXPORT_SURFACE_SEPARATE_LAYERS, &d);
	}
	if (status != VA_STATUS_SUCCESS)
		return dlbuf_vaapi_fail_(status, "vaExportSurfaceHandle");
	ret = dlbuf_vaapi_frame(&d, frame);
	if (ret) {
		dlbuf_vaapi_release(&d);
		return ret;
	}
	frame->order = DLBUF_ORDER_COMPLETE;
	*desc = d;
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_VAAPI_H */
