/* SPDX-License-Identifier: MIT */
/*
 * Fences that user space signals, as real sync_files: vgem's, which signal by
 * themselves after ten seconds, and when the node is closed.
 */
#ifndef TESTS_VGEM_H
#define TESTS_VGEM_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/dma-buf.h>

/* Parts of drm.h and drm_mode.h, which a machine without libdrm's headers may lack. */
struct vgem_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};
struct vgem_create_dumb {
	uint32_t height, width, bpp, flags, handle, pitch;
	uint64_t size;
};
struct vgem_prime_handle {
	uint32_t handle, flags;
	int32_t fd;
};
#define VGEM_VERSION _IOWR('d', 0x00, struct vgem_version)
#define VGEM_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct vgem_prime_handle)
#define VGEM_CREATE_DUMB _IOWR('d', 0xb2, struct vgem_create_dumb)

/* drm/vgem_drm.h, which no package of user space installs. */
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
#define VGEM_FENCE_WRITE 1u
#define VGEM_FENCE_ATTACH \
	_IOWR('d', 0x41, struct vgem_fence_attach)
#define VGEM_FENCE_SIGNAL \
	_IOW('d', 0x42, struct vgem_fence_signal)

/* An fd of the node, new, or -1. */
static inline int vgem_open(void)
{
	/* Dumb buffers are not made on render nodes. */
	for (int i = 0; i < 8; i++) {
		char path[64], name[32] = "";
		struct vgem_version v = { .name = name,
					 .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, VGEM_VERSION, &v) && !strcmp(name, "vgem"))
			return fd;
		close(fd);
	}
	return -1;
}

/*
 * A fence, and *sync_file, new, of it. Each is on a buffer of its own, which
 * goes with the node's fd. NULL, or the call that failed, with errno.
 */
static inline const char *vgem_fence_create(int drm, uint32_t *fence,
					    int *sync_file)
{
	struct vgem_create_dumb dumb = { .width = 1024, .height = 1,
					     .bpp = 32 };
	struct vgem_fence_attach attach = { .flags = VGEM_FENCE_WRITE };
	struct vgem_prime_handle prime = { .flags = O_CLOEXEC | O_RDWR };
	struct dma_buf_export_sync_file export = {
		.flags = DMA_BUF_SYNC_READ,
	};
	int ret, err;

	if (ioctl(drm, VGEM_CREATE_DUMB, &dumb))
		return "DRM_IOCTL_MODE_CREATE_DUMB";
	attach.handle = prime.handle = dumb.handle;
	if (ioctl(drm, VGEM_FENCE_ATTACH, &attach))
		return "VGEM_FENCE_ATTACH";
	if (ioctl(drm, VGEM_PRIME_HANDLE_TO_FD, &prime))
		return "DRM_IOCTL_PRIME_HANDLE_TO_FD";
	ret = ioctl(prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export);
	err = errno;
	close(prime.fd);
	errno = err;
	if (ret)
		return "DMA_BUF_IOCTL_EXPORT_SYNC_FILE";
	*fence = attach.out_fence;
	*sync_file = export.fd;
	return NULL;
}

/* -1 and ETIMEDOUT when it has signalled by itself. */
static inline int vgem_fence_signal(int drm, uint32_t fence)
{
	struct vgem_fence_signal signal = { .fence = fence };

	return ioctl(drm, VGEM_FENCE_SIGNAL, &signal);
}

#endif /* TESTS_VGEM_H */
