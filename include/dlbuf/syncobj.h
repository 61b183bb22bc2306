/* SPDX-License-Identifier: MIT */
/*
 * drm_syncobj: a kernel object that holds a fence, or with a timeline one fence
 * per point. GPU drivers, Wayland and PipeWire use them. These functions convert
 * points to sync_files and back.
 *
 * drm_fd is a DRM node whose driver has syncobjs. handle is a syncobj of that
 * node. Both are borrowed. Point 0 means the fence of a binary syncobj.
 *
 * Errors of all functions:
 *   -EBADF       drm_fd is not open
 *   -EINVAL      no such handle
 *   -EOPNOTSUPP  not a DRM node, or its driver has no syncobjs (or timelines)
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
 * Returns the fence of a point as a sync_file. *fence is new. Does not block.
 * -EAGAIN  the point has no fence yet
 */
DLBUF_API int dlbuf_syncobj_export(int drm_fd, uint32_t handle, uint64_t point,
				   int *fence);

/*
 * Sets the fence of a point. fence is borrowed. -1 sets a signalled fence.
 * -EBADF   also: fence is not open
 * -EINVAL  also: fence is not a sync_file
 */
DLBUF_API int dlbuf_syncobj_import(int drm_fd, uint32_t handle, uint64_t point,
				   int fence);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SYNCOBJ_H */
