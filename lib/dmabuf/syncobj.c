// SPDX-License-Identifier: MIT
/* Converts points of drm_syncobjs to sync_files, and back. */
#include <errno.h>
#include <string.h>

#include <dlbuf/syncobj.h>

#include "../system/internal.h"
#include "../system/sys.h"
#include "../system/uapi.h"
#include "fence.h"

static int refused(int drm_fd, const char *call)
{
	int ret = -EIO;

	switch (errno) {
	case EBADF:
		return fail(-EBADF, "fd %d is not open", drm_fd);
	case ENOENT:
		return fail(-EINVAL, "fd %d: %s: there is no such syncobj",
			    drm_fd, call);
	case ENOTTY:
	case EOPNOTSUPP:
	case ENOSYS:
		ret = -EOPNOTSUPP;
		break;
	case EINVAL:
	case ENOMEM:
	case EMFILE:
		ret = -errno;
	}
	return fail(ret, "fd %d: %s: %m", drm_fd, call);
}

static void destroy_syncobj(int drm_fd, uint32_t handle)
{
	struct uapi_syncobj_destroy destroy = { .handle = handle };

	ioctl(drm_fd, UAPI_IOCTL_SYNCOBJ_DESTROY, &destroy);
}

/*
 * Makes a temporary binary syncobj. Every kernel converts binary syncobjs from and to
 * sync_files, but timeline points only since 6.16. `other` is the caller's handle: if
 * it does not exist, the new syncobj may get its number, which is an error.
 */
static int temporary(int drm_fd, bool signalled, uint32_t other,
		     uint32_t *handle)
{
	struct uapi_syncobj_create create = {
		.flags = signalled ? UAPI_SYNCOBJ_CREATE_SIGNALED : 0,
	};

	if (sys_ioctl(drm_fd, UAPI_IOCTL_SYNCOBJ_CREATE, &create) < 0)
		return refused(drm_fd, "DRM_IOCTL_SYNCOBJ_CREATE");
	if (create.handle == other) {
		destroy_syncobj(drm_fd, create.handle);
		return fail(-EINVAL, "fd %d: there is no such syncobj, %u",
			    drm_fd, other);
	}
	*handle = create.handle;
	return 0;
}

static int transfer_point(int drm_fd, uint32_t src, uint64_t src_point, uint32_t dst,
			  uint64_t dst_point)
{
	struct uapi_syncobj_transfer t = {
		.src_handle = src,
		.dst_handle = dst,
		.src_point = src_point,
		.dst_point = dst_point,
	};

	if (sys_ioctl(drm_fd, UAPI_IOCTL_SYNCOBJ_TRANSFER, &t) < 0)
		return refused(drm_fd, "DRM_IOCTL_SYNCOBJ_TRANSFER");
	return 0;
}

static int handle_to_fence(int drm_fd, uint32_t handle, int *fence)
{
	struct uapi_syncobj_handle h = {
		.handle = handle,
		.flags = UAPI_SYNCOBJ_SYNC_FILE,
		.fd = -1,
	};
	int fd;

	if (sys_ioctl(drm_fd, UAPI_IOCTL_SYNCOBJ_HANDLE_TO_FD, &h) < 0)
		return refused(drm_fd, "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD");
	if (h.fd >= 3) {
		*fence = h.fd;
		return 0;
	}
	fd = sys_dup(h.fd);
	close(h.fd);
	if (fd < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	*fence = fd;
	return 0;
}

static int fence_to_handle(int drm_fd, uint32_t handle, int fence)
{
	struct uapi_syncobj_handle h = {
		.handle = handle,
		.flags = UAPI_SYNCOBJ_SYNC_FILE,
		.fd = fence,
	};

	if (!sys_ioctl(drm_fd, UAPI_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h))
		return 0;
	if (errno == EINVAL)
		return not_a_sync_file(fence);
	return refused(drm_fd, "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE");
}

/* The kernel returns EINVAL both for a missing fence and for a missing syncobj. */
static int nothing_there(int ret, uint64_t point)
{
	if (ret != -EINVAL || !strstr(dlbuf_last_error(), strerror(EINVAL)))
		return ret;
	return fail(-EAGAIN, "point %llu of the syncobj has no fence yet",
		    (unsigned long long)point);
}

int dlbuf_syncobj_export(int drm_fd, uint32_t handle, uint64_t point, int *fence)
{
	NOT_CANCELLED;
	uint32_t tmp = 0;
	int ret;

	if (!fence)
		return fail(-EINVAL, "fence is NULL");
	if (!point)
		return nothing_there(handle_to_fence(drm_fd, handle, fence), 0);
	ret = temporary(drm_fd, false, handle, &tmp);
	if (ret)
		return ret;
	ret = nothing_there(transfer_point(drm_fd, handle, point, tmp, 0), point);
	if (!ret)
		ret = handle_to_fence(drm_fd, tmp, fence);
	destroy_syncobj(drm_fd, tmp);
	return ret;
}

int dlbuf_syncobj_import(int drm_fd, uint32_t handle, uint64_t point, int fence)
{
	NOT_CANCELLED;
	uint32_t tmp = 0;
	int ret;

	if (!point && fence != -1)
		return fence_to_handle(drm_fd, handle, fence);
	ret = temporary(drm_fd, fence == -1, handle, &tmp);
	if (ret)
		return ret;
	if (fence != -1)
		ret = fence_to_handle(drm_fd, tmp, fence);
	if (!ret)
		ret = transfer_point(drm_fd, tmp, 0, handle, point);
	destroy_syncobj(drm_fd, tmp);
	return ret;
}
