/* SPDX-License-Identifier: MIT */
/*
 * The adapters of dlbuf/interop/ share these functions. They find codes by the names that
 * frameworks use, and describe pictures as several layers or as one plane.
 */
#ifndef DLBUF_INTEROP_SHARED_H
#define DLBUF_INTEROP_SHARED_H

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/fence.h>
#include <dlbuf/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The code of the format with this name, for a frame. 0: neither DRM nor V4L2 has one. */
static inline uint32_t dlbuf_code_named_(const char *name, enum dlbuf_code_space names,
					 enum dlbuf_code_space *space)
{
	struct dlbuf_format_info info;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	*space = DLBUF_CODE_DRM;
	if (!name || dlbuf_format_find_name(name, names, &info))
		return 0;
	if (!info.drm_code)
		*space = DLBUF_CODE_V4L2;
	return info.drm_code ? info.drm_code : info.v4l2_code;
}

/*
 * Whether the name means the format f. A code alone is not enough: DRM and V4L2 use the same
 * codes for different formats.
 */
static inline int dlbuf_is_named_(const struct dlbuf_device_format *f, const char *name,
				  enum dlbuf_code_space names)
{
	enum dlbuf_code_space space;
	uint32_t code = dlbuf_code_named_(name, names, &space);

	return code && code == f->code && space == f->code_space;
}

/*
 * Computes the pitch of plane i if a producer gives only the first plane's. The ratio of the
 * pitches is the ratio of the bytes that a row of pixels has in both planes. NV12's chroma
 * has the same pitch as luma, I420's half of it, NV24's twice.
 */
static inline int dlbuf_plane_pitch_(const struct dlbuf_format_info *info, int64_t first,
				     uint32_t i, int64_t *pitch)
{
	const struct dlbuf_format_plane *luma = &info->planes[0], *p = &info->planes[i];
	int64_t num = (int64_t)p->channels * p->bits * luma->hsub;
	int64_t den = (int64_t)luma->channels * luma->bits * p->hsub;

	if (first > INT64_MAX / num || first < INT64_MIN / num || first * num % den)
		return dlbuf_fail(-EOPNOTSUPP, "a pitch of %lld gives no whole bytes for "
				  "plane %u", (long long)first, i);
	*pitch = first * num / den;
	return 0;
}

/* Waits for a fence. -EIO: the work ended with an error. */
static inline int dlbuf_fence_complete_(int fence)
{
	int status = 1, ret = dlbuf_fence_wait(fence, 0);

	if (!ret)
		ret = dlbuf_fence_status(fence, &status);
	if (!ret && status < 0)
		ret = dlbuf_fail(-EIO, "the work on the frame ended with %d", status);
	return ret;
}

/*
 * Waits for the work on an expanded frame, for a consumer that takes no fences. With order
 * FENCE it waits for the frame's fence, with order COMPLETE for nothing, otherwise for the
 * fences that the producer has added to the dma-bufs.
 */
static inline int dlbuf_frame_wait_(const struct dlbuf_frame *e)
{
	int fence, ret = 0;
	uint32_t i;

	if (e->order == DLBUF_ORDER_COMPLETE)
		return 0;
	if (e->order == DLBUF_ORDER_FENCE)
		return e->fence == -1 || !e->fence ? 0 : dlbuf_fence_complete_(e->fence);
	for (i = 0; !ret && i < e->nplanes; i++) {
		if (i && e->planes[i].fd == e->planes[0].fd)
			continue;
		ret = dlbuf_fence_export(e->planes[i].fd, DLBUF_READ, &fence);
		if (!ret) {
			ret = dlbuf_fence_complete_(fence);
			close(fence);
		} else if (ret == -EOPNOTSUPP) {
			/* Before Linux 6.0: poll() of a dma-buf waits for its writers. */
			ret = dlbuf_fence_wait(e->planes[i].fd, 0);
		}
	}
	return ret;
}

/*
 * Number of rows of plane i, by the format `info`. If the format has no such plane, it counts as
 * not subsampled.
 */
static inline uint64_t dlbuf_plane_rows_(const struct dlbuf_frame *f,
					 const struct dlbuf_format_info *info, uint32_t i)
{
	uint32_t vsub = i < info->nplanes ? info->planes[i].vsub : 1;

	return ((uint64_t)f->height + vsub - 1) / vsub;
}

/* dlbuf_frame_expand() into a new frame. e->release is a share of the lease, or NULL. */
static inline int dlbuf_frame_expand_(const struct dlbuf_frame *frame, uint32_t flags,
				      struct dlbuf_frame *e)
{
	memset(e, 0, sizeof(*e));
	e->size = sizeof(*e);
	return dlbuf_frame_expand(frame, flags, e);
}

/* Takes the frame for the consumer: moves its release to *e and clears it. */
static inline void dlbuf_frame_take_(struct dlbuf_frame *frame, struct dlbuf_frame *e)
{
	if (frame->release) {
		e->release = frame->release;
		e->release_data = frame->release_data;
	}
	memset(frame, 0, sizeof(*frame));
}

/*
 * Checks that the planes of a frame are laid out as V4L2 expects in one buffer: in one
 * dma-buf, each directly after the one before, with the pitches of dlbuf_plane_pitch_(). f
 * is expanded, info is its format. Returns 0, or -EOPNOTSUPP with the number of the first
 * other plane in the error text.
 */
static inline int dlbuf_planes_follow_(const struct dlbuf_frame *f,
				       const struct dlbuf_format_info *info)
{
	uint64_t end = f->planes[0].offset;
	uint32_t i;
	int ret;

	for (i = 0; i < f->nplanes; i++) {
		const struct dlbuf_plane *p = &f->planes[i];
		int64_t pitch;

		ret = dlbuf_plane_pitch_(info, f->planes[0].pitch, i, &pitch);
		if (ret)
			return ret;
		if (p->fd != f->planes[0].fd)
			return dlbuf_fail(-EOPNOTSUPP, "plane %u is in another dma-buf: one "
					  "buffer has all planes in one", i);
		if (p->offset != end || p->pitch != pitch || pitch <= 0)
			return dlbuf_fail(-EOPNOTSUPP, "plane %u has a pitch of %lld at byte "
					  "%llu: in one buffer it is %lld at %llu", i,
					  (long long)p->pitch, (unsigned long long)p->offset,
					  (long long)pitch, (unsigned long long)end);
		end += (uint64_t)pitch * dlbuf_plane_rows_(f, info, i);
	}
	return 0;
}

/*
 * Returns 1 if a layer of the DRM format `layer` has the samples of plane `plane`
 * of the DRM format `code`: the same number, of the same size. Otherwise 0. The
 * names of the channels are ignored, because drivers disagree: the chroma of NV12
 * is GR88 to most and RG88 to some, for the same bytes. Pure.
 */
static inline int dlbuf_layer_is_plane_(uint32_t layer, uint32_t code,
					uint32_t plane)
{
	struct dlbuf_format_info l, f;

	memset(&l, 0, sizeof(l));
	memset(&f, 0, sizeof(f));
	l.size = f.size = sizeof(f);
	return !dlbuf_format_find(layer, DLBUF_MOD_LINEAR, DLBUF_CODE_DRM,
				  &l) &&
	       !dlbuf_format_find(code, DLBUF_MOD_LINEAR, DLBUF_CODE_DRM, &f) &&
	       l.nplanes == 1 && plane < f.nplanes &&
	       l.planes[0].channels == f.planes[plane].channels &&
	       l.planes[0].bits == f.planes[plane].bits &&
	       l.planes[0].hsub == 1 && l.planes[0].vsub == 1;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_SHARED_H */
