// SPDX-License-Identifier: MIT
/* What the cases share: devices, buffers, patterns, fences. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <drm.h>
#include <drm_mode.h>
#include <linux/dma-buf.h>

#include "cts.h"

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
	DRM_IOWR(DRM_COMMAND_BASE + 1, struct vgem_fence_attach)
#define VGEM_FENCE_SIGNAL \
	DRM_IOW(DRM_COMMAND_BASE + 2, struct vgem_fence_signal)

const char *cts_name(const char *fmt, ...)
{
	static char name[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	return name;
}

struct dlbuf_device *cts_open(void)
{
	struct dlbuf_device *dev = NULL;
	int ret = dlbuf_device_open(cts_device, NULL, &dev);

	if (ret)
		FATAL("dlbuf_device_open(%s): %s", cts_device,
		      dlbuf_last_error());
	return dev;
}

int cts_alloc(const char *exporter, uint64_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter,
		   .name = "cts");
	int fd = -1, ret = dlbuf_alloc_fd(bytes, &opts, &fd);

	if (ret == -ENODEV)
		SKIP("%s", dlbuf_last_error());
	if (ret)
		FATAL("dlbuf_alloc_fd(%s): %s", exporter, dlbuf_last_error());
	return fd;
}

int cts_reuse(int fd, const char *exporter, uint64_t bytes)
{
	int other = cts_alloc(exporter, bytes);

	if (dup3(other, fd, O_CLOEXEC) != fd)
		FATAL("dup3: %s", strerror(errno));
	close(other);
	return fd;
}

DLManagedTensorVersioned *cts_import(struct dlbuf_device *dev, int fd,
				     uint64_t bytes)
{
	int64_t shape = bytes;
	DLTensor layout = {
		.ndim = 1,
		.dtype = { kDLUInt, 8, 1 },
		.shape = &shape,
	};
	DLManagedTensorVersioned *t = NULL;

	if (dlbuf_import(dev, fd, &layout, NULL, &t))
		FATAL("dlbuf_import: %s", dlbuf_last_error());
	return t;
}

void cts_delete(DLManagedTensorVersioned *t)
{
	if (t)
		t->deleter(t);
}

static void sync_ioctl(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		FATAL("DMA_BUF_IOCTL_SYNC: %s", strerror(errno));
}

static void touch(int fd, uint64_t offset, void *dst, const void *src,
		  size_t bytes, bool bracket)
{
	off_t size = lseek(fd, 0, SEEK_END);
	uint64_t dir = src ? DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_READ;
	char *p = mmap(NULL, size, PROT_READ | (src ? PROT_WRITE : 0),
		       MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		FATAL("mmap of the dma-buf: %s", strerror(errno));
	if (bracket)
		sync_ioctl(fd, DMA_BUF_SYNC_START | dir);
	if (src)
		memcpy(p + offset, src, bytes);
	else
		memcpy(dst, p + offset, bytes);
	if (bracket)
		sync_ioctl(fd, DMA_BUF_SYNC_END | dir);
	munmap(p, size);
}

void cts_peek(int fd, uint64_t offset, void *dst, size_t bytes)
{
	touch(fd, offset, dst, NULL, bytes, true);
}

void cts_poke(int fd, uint64_t offset, const void *src, size_t bytes)
{
	touch(fd, offset, NULL, src, bytes, true);
}

void cts_poke_raw(int fd, uint64_t offset, const void *src, size_t bytes)
{
	touch(fd, offset, NULL, src, bytes, false);
}

void cts_pattern(void *dst, size_t bytes, uint32_t seed)
{
	unsigned char *p = dst;
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < bytes; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		p[i] = x;
	}
}

void cts_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
	      size_t bytes)
{
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_EQ(cts_access->read(t, offset, dst, bytes), 0);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
}

void cts_write(DLManagedTensorVersioned *t, uint64_t offset, const void *src,
	       size_t bytes)
{
	CHECK_EQ(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL), 0);
	CHECK_EQ(cts_access->write(t, offset, src, bytes), 0);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
}

unsigned int cts_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		FATAL("/proc/self/fd: %s", strerror(errno));
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the directory's own */
}

void cts_until_fds(unsigned int fds)
{
	time_t end = time(NULL) + 60;

	while (cts_count_fds() != fds && time(NULL) < end)
		sched_yield();
	CHECK_EQ(cts_count_fds(), fds);
}

/* ---- fences */

bool cts_no_sync_file(int fd)
{
	struct dma_buf_export_sync_file export = {
		.flags = DMA_BUF_SYNC_READ,
	};

	if (ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export))
		return errno == ENOTTY;
	close(export.fd);
	return false;
}

static int open_vgem(void)
{
	/* Dumb buffers are not made on render nodes. */
	for (int i = 0; i < 8; i++) {
		char path[64], name[32] = "";
		struct drm_version v = { .name = name,
					 .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, DRM_IOCTL_VERSION, &v) && !strcmp(name, "vgem"))
			return fd;
		close(fd);
	}
	return -1;
}

void cts_fence_create(struct cts_fence *f)
{
	struct drm_mode_create_dumb dumb = { .width = 1024, .height = 1,
					     .bpp = 32 };
	struct vgem_fence_attach attach = { .flags = VGEM_FENCE_WRITE };
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC | DRM_RDWR };
	struct dma_buf_export_sync_file export = {
		.flags = DMA_BUF_SYNC_READ,
	};

	*f = (struct cts_fence){ .drm = open_vgem(), .sync_file = -1 };
	if (f->drm < 0)
		SKIP("there is no vgem device");
	if (ioctl(f->drm, DRM_IOCTL_MODE_CREATE_DUMB, &dumb))
		FATAL("DRM_IOCTL_MODE_CREATE_DUMB: %s", strerror(errno));
	f->handle = attach.handle = prime.handle = dumb.handle;
	if (ioctl(f->drm, VGEM_FENCE_ATTACH, &attach))
		FATAL("VGEM_FENCE_ATTACH: %s", strerror(errno));
	f->fence = attach.out_fence;
	if (ioctl(f->drm, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime))
		FATAL("DRM_IOCTL_PRIME_HANDLE_TO_FD: %s", strerror(errno));
	if (ioctl(prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export)) {
		if (errno == ENOTTY)
			SKIP("the kernel has no DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
		FATAL("DMA_BUF_IOCTL_EXPORT_SYNC_FILE: %s", strerror(errno));
	}
	close(prime.fd);
	f->sync_file = export.fd;
}

void cts_fence_signal(struct cts_fence *f)
{
	struct vgem_fence_signal signal = { .fence = f->fence };

	if (ioctl(f->drm, VGEM_FENCE_SIGNAL, &signal))
		FATAL("VGEM_FENCE_SIGNAL: %s", strerror(errno));
}

void cts_fence_destroy(struct cts_fence *f)
{
	close(f->sync_file);
	close(f->drm); /* signals what is left */
}
