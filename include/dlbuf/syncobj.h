/* SPDX-License-Identifier: MIT */
/*
 * drm_syncobj: a box for a fence, or with a timeline for one per point. GPU
 * drivers, Wayland and PipeWire hand them out; these turn points into
 * sync_files and back. drm_fd is a DRM node whose driver has syncobjs and
 * handle one of its; both are borrowed throughout. A point of 0 means the
 * binary fence.
 *
 * Errors of all: -EBADF drm_fd is not open; -EINVAL no such handle;
 * -EOPNOTSUPP not a DRM node, or its driver has no syncobjs (or timelines).
 *
 * Specification: drm/drm.h, drivers/gpu/drm/drm_syncobj.c.
 */
#ifndef DLBUF_SYNCOBJ_H
#define DLBUF_SYNCOBJ_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Takes the fence of a point as a sync_file. *fence is new. Does not block.
 * -EAGAIN  nobody has put a fence there yet
 */
DLBUF_API int dlbuf_syncobj_export(int drm_fd, uint32_t handle, uint64_t point,
				   int *fence);

/*
 * Puts a fence at a point. fence is borrowed; -1 puts a signalled one.
 * -EBADF   also: fence is not open
 * -EINVAL  also: not a sync_file
 */
DLBUF_API int dlbuf_syncobj_import(int drm_fd, uint32_t handle, uint64_t point,
				   int fence);

#define DLBUF_SYNCOBJ_AVAILABLE 1u	/* when a fence is there, signalled or not */

/*
 * Has the kernel write to an eventfd when the point has signalled, or with
 * DLBUF_SYNCOBJ_AVAILABLE when it has a fence. eventfd is borrowed; the kernel
 * keeps it until then.
 * -EBADF       also: eventfd is not open
 * -EINVAL      also: not an eventfd, or unknown flags
 * -EOPNOTSUPP  also: the kernel cannot (before 6.6)
 */
DLBUF_API int dlbuf_syncobj_eventfd(int drm_fd, uint32_t handle, uint64_t point,
				    uint32_t flags, int eventfd);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SYNCOBJ_H */
