// SPDX-License-Identifier: MIT
/* See host.h. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/sync_file.h>
#include <linux/udmabuf.h>

#include "core.h"
#include "host.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* the syncobjs' */
static pthread_mutex_t lock_files = PTHREAD_MUTEX_INITIALIZER;

/* ---- exporters: inodes of memfds */

static uint64_t nodes[256], dma_bufs[1 << 14], sync_files[1 << 14];
static unsigned int nnodes, ndma_bufs, nsync_files;

static bool listed(const uint64_t *list, unsigned int n, int fd)
{
	struct stat st;
	bool found = false;

	if (syscall(SYS_fstat, fd, &st))
		return false;
	pthread_mutex_lock(&lock_files);
	while (n && !found)
		found = list[--n] == inode_key(&st);
	pthread_mutex_unlock(&lock_files);
	return found;
}

/* Adds the inode of a new fd to the list. */
static int add(uint64_t *list, unsigned int *n, unsigned int max, int fd)
{
	struct stat st;

	if (fd < 0 || syscall(SYS_fstat, fd, &st))
		return -1;
	pthread_mutex_lock(&lock_files);
	if (*n == max)
		abort();
	list[(*n)++] = inode_key(&st);
	pthread_mutex_unlock(&lock_files);
	return fd;
}

/*
 * As dma_buf_show_fdinfo() counts: fds and mappings, those of other processes are left out. The
 * slash keeps core.c's opendir() from hiding the stub's fds, which are the kernel's handles.
 */
static int fdinfo(int fd)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	DIR *dir = opendir("/proc/self/fd/");
	int out = memfd_create("fdinfo", MFD_CLOEXEC), count = 0;
	struct stat want, st;
	unsigned long long ino;
	struct dirent *e;
	char line[512];

	syscall(SYS_fstat, fd, &want);
	while ((e = readdir(dir)))
		count += !syscall(SYS_fstat, atoi(e->d_name), &st) &&
			 inode_key(&st) == inode_key(&want);
	while (fgets(line, sizeof(line), maps))
		count += sscanf(line, "%*s %*s %*s %*s %llu", &ino) == 1 && ino == want.st_ino;
	closedir(dir);
	fclose(maps);
	dprintf(out, "pos:\t0\nflags:\t02\nsize:\t%lld\ncount:\t%d\nexp_name:\tstub\n",
		(long long)want.st_size, count);
	lseek(out, 0, SEEK_SET);
	return out;
}

int host_open(const char *path, int flags)
{
	int fd;

	if (sscanf(path, "/proc/self/fdinfo/%d", &fd) == 1 && host_is_dma_buf(fd))
		return fdinfo(fd);
	return strcmp(path, "/dev/udmabuf") && strcmp(path, "/dev/dma_heap/system") ? -1 :
	       add(nodes, &nnodes, 256,
		   memfd_create(path, flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
}

bool host_is_dma_buf(int fd)
{
	return listed(dma_bufs, ndma_bufs, fd);
}

bool host_is_sync_file(int fd)
{
	return listed(sync_files, nsync_files, fd);
}

static int add_dma_buf(int fd)
{
	return add(dma_bufs, &ndma_bufs, 1 << 14, fd);
}

int host_dma_buf(const char *name, uint64_t bytes)
{
	int fd = add_dma_buf(memfd_create(name, MFD_CLOEXEC));

	return fd < 0 || ftruncate(fd, (bytes + 4095) & ~4095ull) ? -errno : fd;
}

/* A pipe with a byte is readable, as a sync_file that has signalled; epoll takes no memfd. */
int host_sync_file(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	if (write(fds[1], "", 1) != 1)
		abort();
	close(fds[1]);
	return add(sync_files, &nsync_files, 1 << 14, fds[0]);
}

static int sync_file_ioctl(unsigned long request, void *arg)
{
	struct sync_merge_data *merge = arg;
	struct sync_file_info *info = arg;

	switch (request) {
	case SYNC_IOC_MERGE:
		merge->fence = host_sync_file();
		return merge->fence < 0 ? -ENOMEM : 0;
	case SYNC_IOC_FILE_INFO:
		info->status = 1;
		info->num_fences = 0;
		return 0;
	}
	unknown("sync_file ioctl", request);
}

/*
 * All of a memfd is the memfd itself, so that both show the same bytes. A part is memory of its
 * own, and so is one of large pages, which may have none here.
 */
static int udmabuf(const struct udmabuf_create *c)
{
	char path[32];
	int fd;

	if (fcntl(c->memfd, F_GET_SEALS) < 0 || c->offset ||
	    lseek(c->memfd, 0, SEEK_END) != (off_t)c->size)
		return host_dma_buf("dmabuf", c->size);
	snprintf(path, sizeof(path), "/proc/self/fd/%u", c->memfd);
	fd = add_dma_buf(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
	return fd < 0 ? -errno : fd;
}

/* No fence of a dma-buf is pending. */
static int dma_buf_ioctl(unsigned long request, void *arg)
{
	struct dma_buf_export_sync_file *export = arg;
	struct dma_buf_import_sync_file *import = arg;

	switch (request) {
	case DMA_BUF_IOCTL_SYNC:
	case DMA_BUF_SET_NAME_A:
	case DMA_BUF_SET_NAME_B:
		return 0;
	case DMA_BUF_IOCTL_EXPORT_SYNC_FILE:
		export->fd = host_sync_file();
		return export->fd < 0 ? -EMFILE : 0;
	case DMA_BUF_IOCTL_IMPORT_SYNC_FILE:
		return host_is_sync_file(import->fd) ? 0 : -EINVAL;
	}
	return -ENOTTY;
}

int host_ioctl(int fd, unsigned long request, void *arg, bool *ours)
{
	struct dma_heap_allocation_data *heap = arg;
	int ret;

	*ours = true;
	if (_IOC_TYPE(request) == DMA_BUF_BASE && host_is_dma_buf(fd))
		return dma_buf_ioctl(request, arg);
	if (_IOC_TYPE(request) == SYNC_IOC_MAGIC && listed(sync_files, nsync_files, fd))
		return sync_file_ioctl(request, arg);
	if (request == UDMABUF_CREATE && listed(nodes, nnodes, fd))
		return udmabuf(arg);
	if (request == DMA_HEAP_IOCTL_ALLOC && listed(nodes, nnodes, fd)) {
		ret = host_dma_buf("dmabuf", heap->len);
		if (ret >= 0)
			heap->fd = ret;
		return ret < 0 ? ret : 0;
	}
	*ours = false;
	return 0;
}

/* ---- syncobjs: the point that each has reached, or none */

#define NONE UINT64_MAX

static uint64_t *points;
static uint32_t npoints;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static bool reached(uint32_t handle, uint64_t point)
{
	if (!handle || handle > npoints)
		unknown("a syncobj that is none:", handle);
	return points[handle - 1] != NONE && points[handle - 1] >= point;
}

static void set(uint32_t handle, uint64_t point)
{
	reached(handle, 0);
	points[handle - 1] = point;
	pthread_cond_broadcast(&changed);
}

/* Numbers are not used again: a syncobj is 8 bytes. */
static int create(struct drm_syncobj_create *c)
{
	points = realloc(points, (npoints + 1) * sizeof(*points));
	points[npoints] = c->flags & DRM_SYNCOBJ_CREATE_SIGNALED ? 0 : NONE;
	c->handle = ++npoints;
	return 0;
}

static int wait(const uint32_t *handles, const uint64_t *at, uint32_t n, uint32_t flags,
		int64_t timeout, uint32_t *first)
{
	struct timespec until = { timeout / 1000000000, timeout % 1000000000 };
	uint32_t done;
	int ret = 0;

	for (;;) {
		done = 0;
		for (uint32_t i = 0; i < n; i++) {
			if (!reached(handles[i], at ? at[i] : 0))
				continue;
			*first = i;
			done++;
		}
		if (done == n || (done && !(flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL)))
			return 0;
		/* There is no fence, and without these flags none is waited for. */
		if (!(flags & (DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
			       DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE)))
			return -EINVAL;
		if (ret)
			return -ETIME;
		ret = pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &until);
	}
}

static int host_syncobj_locked(unsigned long request, void *arg)
{
	struct drm_syncobj_timeline_array *a = arg;
	struct drm_syncobj_timeline_wait *tw = arg;
	struct drm_syncobj_transfer *t = arg;
	struct drm_syncobj_handle *h = arg;
	struct drm_syncobj_wait *w = arg;
	uint32_t *handles = PTR(a->handles);	/* the first member of all arrays */
	uint64_t *at;

	switch (_IOC_NR(request)) {
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_CREATE):
		return create(arg);
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_DESTROY):
		return 0;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_SIGNAL):
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_RESET):
		for (uint32_t i = 0; i < ((struct drm_syncobj_array *)arg)->count_handles; i++)
			set(handles[i], _IOC_NR(request) == _IOC_NR(DRM_IOCTL_SYNCOBJ_RESET) ?
			    NONE : 0);
		return 0;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL):
		for (uint32_t i = 0; i < a->count_handles; i++)
			set(handles[i], ((uint64_t *)PTR(a->points))[i]);
		return 0;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_QUERY):
		at = PTR(a->points);
		for (uint32_t i = 0; i < a->count_handles; i++)
			at[i] = reached(handles[i], 0) ? points[handles[i] - 1] : 0;
		return 0;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TRANSFER):
		if (!reached(t->src_handle, t->src_point))
			return -EINVAL;
		set(t->dst_handle, t->dst_point);
		return 0;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_WAIT):
		return wait(handles, NULL, w->count_handles, w->flags, w->timeout_nsec,
			    &w->first_signaled);
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
		return wait(handles, PTR(tw->points), tw->count_handles, tw->flags,
			    tw->timeout_nsec, &tw->first_signaled);
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
		if (h->flags != DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE)
			unknown("flags of HANDLE_TO_FD", h->flags);
		if (!reached(h->handle, 0))
			return -EINVAL;
		h->fd = host_sync_file();
		return h->fd < 0 ? -EMFILE : 0;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE):
		if (!host_is_sync_file(h->fd))
			return -EINVAL;
		set(h->handle, 0);
		return 0;
	}
	unknown("syncobj ioctl", _IOC_NR(request));
}

int host_syncobj(unsigned long request, void *arg)
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = host_syncobj_locked(request, arg);
	pthread_mutex_unlock(&lock);
	return ret;
}
