// SPDX-License-Identifier: MIT
/* A frame -> layouts -> a tensor per plane. */
#include <errno.h>
#include <string.h>

#include "format.h"
#include "frame.h"
#include "internal.h"
#include "sys.h"
#include "tensor.h"

static uint32_t groups(uint32_t pixels, uint32_t per_group)
{
	return pixels / per_group + (pixels % per_group != 0);
}

static int check_frame(const struct dlbuf_frame *f, const struct format **out)
{
	const struct format *format;

	if (f->code_space != DLBUF_CODE_DRM && f->code_space != DLBUF_CODE_V4L2)
		return fail(-EINVAL, "the frame's code space %d is neither DRM "
			    "nor V4L2", f->code_space);
	if (f->code & 1u << 31)
		return fail(-EOPNOTSUPP, "format %s is big-endian, DLPack has "
			    "native byte order only",
			    code_text(f->code & ~(1u << 31)).s);
	format = format_find(f->code, f->code_space);
	if (!format)
		return fail(-EINVAL, "%s has no format %s that dlbuf maps",
			    f->code_space == DLBUF_CODE_DRM ? "DRM" : "V4L2",
			    code_text(f->code).s);
	if (f->modifier == DLBUF_MOD_INVALID)
		return fail(-EOPNOTSUPP, "the frame's modifier is INVALID, "
			    "which means unknown: say LINEAR if it is");
	if (f->modifier != DLBUF_MOD_LINEAR)
		return fail(-EOPNOTSUPP, "modifier 0x%016llx is not linear, "
			    "and only rows one after another are a tensor",
			    (unsigned long long)f->modifier);
	if (!f->width || !f->height)
		return fail(-EINVAL, "the frame is %ux%u pixels", f->width,
			    f->height);
	/* Packed 4:2:2 shares chroma between two pixels of one group. */
	if (f->width % format->planes[0].hsub)
		return fail(-EINVAL, "a width of %u is not a multiple of %u, "
			    "as %s needs", f->width, format->planes[0].hsub,
			    format->name);
	if (f->nplanes > format->nplanes || !f->nplanes)
		return fail(-EINVAL, "a frame of %u planes, %s has %u",
			    f->nplanes, format->name, format->nplanes);
	*out = format;
	return 0;
}

/*
 * The planes of the frame, or where V4L2 gives one plane for all of a format,
 * the others behind it: each begins where the one before ends, the rows of
 * chroma as long as luma's in semi-planar formats.
 */
static int plane_of(const struct dlbuf_frame *f, const struct format *format,
		    uint32_t i, struct dlbuf_plane *out)
{
	uint64_t end = f->planes[0].offset;
	int64_t pitch = f->planes[0].pitch;

	if (i < f->nplanes) {
		*out = f->planes[i];
		return 0;
	}
	if (f->code_space != DLBUF_CODE_V4L2 || f->nplanes != 1)
		return fail(-EINVAL, "format %s has %u planes, the frame %u",
			    format->name, format->nplanes, f->nplanes);
	if (pitch <= 0)
		return fail(-EINVAL, "the other planes of %s cannot follow one "
			    "with a pitch of %lld", format->name,
			    (long long)pitch);
	for (uint32_t j = 0; j < i; j++) {
		uint64_t bytes;

		if (__builtin_mul_overflow((uint64_t)pitch, (uint64_t)
				groups(f->height, format->planes[j].vsub),
				&bytes) ||
		    __builtin_add_overflow(end, bytes, &end))
			return fail(-EOVERFLOW, "the planes of %ux%u pixels "
				    "with a pitch of %lld do not fit 64 bits",
				    f->width, f->height, (long long)pitch);
	}
	*out = (struct dlbuf_plane){
		.fd = f->planes[0].fd,
		.offset = end,
		.pitch = pitch,
	};
	return 0;
}

static int plane_layout(const struct dlbuf_frame *f,
			const struct format *format, uint32_t i,
			struct plane_layout *out)
{
	const struct dlbuf_format_plane *p = &format->planes[i];
	uint32_t value = p->bits / 8, group = p->channels * value;
	uint32_t rows = groups(f->height, p->vsub);
	uint32_t columns = groups(f->width, p->hsub);
	struct dlbuf_plane plane = { 0 };
	int ret;

	ret = plane_of(f, format, i, &plane);
	if (ret)
		return ret;
	if (plane.pitch % value || plane.offset % value)
		return fail(-EOPNOTSUPP, "plane %u: a pitch of %lld and an "
			    "offset of %llu bytes are not whole %u-bit values",
			    i, (long long)plane.pitch,
			    (unsigned long long)plane.offset, p->bits);
	if (plane.pitch < (int64_t)columns * group &&
	    plane.pitch > -(int64_t)columns * group)
		return fail(-EINVAL, "plane %u: a pitch of %lld bytes is less "
			    "than the %llu of a row", i, (long long)plane.pitch,
			    (unsigned long long)columns * group);
	out->fd = plane.fd;
	out->shape[0] = rows;
	out->shape[1] = columns;
	out->shape[2] = p->channels;
	out->strides[0] = plane.pitch / value;
	out->strides[1] = p->channels;
	out->strides[2] = 1;
	out->layout = (DLTensor){
		.ndim = p->channels > 1 ? 3 : 2,
		.dtype = { kDLUInt, p->bits, 1 },
		.shape = out->shape,
		.strides = out->strides,
		.byte_offset = plane.offset,
	};
	return 0;
}

int frame_layouts(const struct dlbuf_frame *frame,
		  struct plane_layout planes[DLBUF_MAX_PLANES],
		  uint32_t *nplanes)
{
	const struct format *format = NULL;
	int ret = check_frame(frame, &format);

	if (ret)
		return ret;
	for (uint32_t i = 0; i < format->nplanes; i++) {
		ret = plane_layout(frame, format, i, &planes[i]);
		if (ret)
			return ret;
	}
	*nplanes = format->nplanes;
	return 0;
}

int dlbuf_import_frame(struct dlbuf_device *dev,
		       const struct dlbuf_frame *frame,
		       const struct dlbuf_import_opts *opts,
		       DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		       uint32_t *ntensors)
{
	DLManagedTensorVersioned *made[DLBUF_MAX_PLANES] = { NULL };
	struct plane_layout planes[DLBUF_MAX_PLANES];
	struct lease *lease = NULL;
	struct dlbuf_frame f;
	uint32_t access, n, i;
	int ret;

	if (!dev || !frame || !tensors || !ntensors)
		return fail(-EINVAL, "%s is NULL", !dev ? "dev" : !frame ?
			    "frame" : !tensors ? "tensors" : "ntensors");
	ret = OPTS_GET(&f, frame, "dlbuf_frame");
	if (!ret)
		ret = import_opts_get(opts, &access);
	if (!ret)
		ret = frame_layouts(&f, planes, &n);
	if (ret)
		return ret;
	if (f.release) {
		lease = sys_calloc(1, sizeof(*lease));
		if (!lease)
			return fail(-ENOMEM, "no memory for a lease");
		lease->release = f.release;
		lease->data = f.release_data;
		/* One reference of ours, so that a failure cannot fire it. */
		lease->refs = 1;
	}
	for (i = 0; i < n; i++) {
		ret = tensor_import(dev, planes[i].fd, &planes[i].layout,
				    access, lease, &made[i]);
		if (ret)
			goto err;
	}
	for (i = 0; i < n; i++)
		tensors[i] = made[i];
	*ntensors = n;
	lease_unref(lease);
	return 0;

err:
	while (i--)
		made[i]->deleter(made[i]);
	/* The tensors have given their references back; ours is the last. */
	free(lease);
	return ret;
}
