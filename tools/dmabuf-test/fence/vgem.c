// SPDX-License-Identifier: MIT
/* vgem's fences. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <dlbuf/base.h>

#include "../../../lib/system/node.h"
#include "vgem.h"

/*
 * drm/drm.h and drm/vgem_drm.h, of which the first needs a package of its own
 * and the second is in none. The numbers are the kernel's ABI.
 */
struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};
struct drm_gem_close {
	uint32_t handle;
	uint32_t pad;
};
struct drm_prime_handle {
	uint32_t handle;
	uint32_t flags;
	int32_t fd;
};
struct drm_mode_create_dumb {
	uint32_t height, width, bpp, flags;
	uint32_t handle, pitch;
	uint64_t size;
};
struct vgem_fence_attach {
	uint32_t handle;
	uint32_t flags;
	uint32_t out_fence;
	uint32_t pad;
};
struct vgem_fence_signal {
	uint32_t fence;
	uint32_t flags;
};
#define IOCTL_VERSION _IOWR('d', 0x00, struct drm_version)
#define IOCTL_GEM_CLOSE _IOW('d', 0x09, struct drm_gem_close)
#define IOCTL_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct drm_prime_handle)
#define IOCTL_CREATE_DUMB _IOWR('d', 0xb2, struct drm_mode_create_dumb)
#define IOCTL_FENCE_ATTACH _IOWR('d', 0x41, struct vgem_fence_attach)
#define IOCTL_FENCE_SIGNAL _IOW('d', 0x42, struct vgem_fence_signal)
#define FENCE_WRITE 1u

static int call(int fd, unsigned long request, void *arg)
{
	int ret;

	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && (errno == EINTR || errno == EAGAIN));
	return ret < 0 ? -errno : 0;
}

static void say_why(struct vgem *vgem, int err)
{
	char who[NODE_ACCESS];

	node_access(vgem->node, err, who);
	snprintf(vgem->reason, sizeof(vgem->reason), "there is no vgem that "
		 "may be opened: %s: %s%s", vgem->node, strerror(err), who);
}

void vgem_open(struct vgem *vgem)
{
	*vgem = (struct vgem){ .fd = -1 };
	snprintf(vgem->reason, sizeof(vgem->reason),
		 "there is no vgem on this machine (modprobe vgem)");
	/* Its render nodes make no buffers. */
	for (int i = 0; i < 64; i++) {
		char name[16] = "";
		struct drm_version version = {
			.name = name,
			.name_len = sizeof(name) - 1,
		};
		int fd;

		snprintf(vgem->node, sizeof(vgem->node), "/dev/dri/card%d", i);
		fd = open(vgem->node, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			/* Reports the first failure of any driver, because it may be vgem. */
			if (errno != ENOENT && errno != ENXIO &&
			    errno != ENODEV)
				say_why(vgem, errno);
			continue;
		}
		if (!call(fd, IOCTL_VERSION, &version) &&
		    !strcmp(name, "vgem")) {
			vgem->fd = fd;
			return;
		}
		close(fd);
	}
}

void vgem_close(struct vgem *vgem)
{
	if (vgem->fd >= 0)
		close(vgem->fd);
	vgem->fd = -1;
}

int vgem_alloc(struct vgem *vgem, uint64_t bytes, uint32_t *handle, int *fd)
{
	struct drm_mode_create_dumb dumb = {
		.width = bytes,
		.height = 1,
		.bpp = 8,
	};
	struct drm_prime_handle prime = { .flags = O_CLOEXEC | O_RDWR };
	int ret = call(vgem->fd, IOCTL_CREATE_DUMB, &dumb);

	if (ret)
		return ret;
	prime.handle = dumb.handle;
	ret = call(vgem->fd, IOCTL_PRIME_HANDLE_TO_FD, &prime);
	if (ret) {
		vgem_free(vgem, dumb.handle);
		return ret;
	}
	*handle = dumb.handle;
	*fd = prime.fd;
	return 0;
}

void vgem_free(struct vgem *vgem, uint32_t handle)
{
	struct drm_gem_close gem = { .handle = handle };

	call(vgem->fd, IOCTL_GEM_CLOSE, &gem);
}

int vgem_attach(struct vgem *vgem, uint32_t handle, uint32_t access,
		uint32_t *fence)
{
	struct vgem_fence_attach attach = {
		.handle = handle,
		.flags = access & DLBUF_WRITE ? FENCE_WRITE : 0,
	};
	int ret = call(vgem->fd, IOCTL_FENCE_ATTACH, &attach);

	if (!ret)
		*fence = attach.out_fence;
	return ret;
}

int vgem_signal(struct vgem *vgem, uint32_t fence)
{
	struct vgem_fence_signal signal = { .fence = fence };

	return call(vgem->fd, IOCTL_FENCE_SIGNAL, &signal);
}
