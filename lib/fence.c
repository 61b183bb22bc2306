// SPDX-License-Identifier: MIT
/* Fences as sync_files, and those of a dma-buf. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <dlbuf/base.h>

#include "buffer.h"
#include "fence.h"
#include "internal.h"
#include "sys.h"
#include "uapi.h"

/* EINTR-safe. */
int poll_until(int fd, short events, uint64_t deadline_ns)
{
	NOT_CANCELLED;
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec left = { 0 };
	int ret;

	/* poll() leaves negative numbers out, and would wait for nothing. */
	if (fd < 0)
		return fail(-EBADF, "fd %d is not open", fd);
	do {
		if (deadline_ns) {
			struct timespec now;
			uint64_t t;

			clock_gettime(CLOCK_MONOTONIC, &now);
			t = (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
			t = t < deadline_ns ? deadline_ns - t : 0;
			left.tv_sec = t / 1000000000;
			left.tv_nsec = t % 1000000000;
		}
		ret = sys_poll(&p, 1, deadline_ns ? &left : NULL);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return fail(errno == ENOMEM ? -ENOMEM : -EIO,
			    "fd %d: ppoll(): %m", fd);
	if (p.revents & POLLNVAL)
		return fail(-EBADF, "fd %d is not open", fd);
	return ret ? p.revents : 0;
}

/* 1 when events came, 0 when not, negative errno. */
static int ready(int fd, short events, uint64_t deadline_ns)
{
	int ret = poll_until(fd, events, deadline_ns);

	return ret < 0 ? ret : !!(ret & events);
}

int fence_signalled(int fence)
{
	return fence == -1 ? 1 : ready(fence, POLLIN, 1);
}

int dlbuf_fence_wait(int fence, uint64_t deadline_ns)
{
	int ret;

	if (fence == -1)
		return 0;
	ret = ready(fence, POLLIN, deadline_ns);
	if (ret)
		return ret < 0 ? ret : 0;
	return fail(-ETIME, "the fence did not signal before the deadline");
}

int dlbuf_fence_status(int fence, int *status)
{
	struct sync_file_info info = { 0 };
	int ret;

	if (!status)
		return fail(-EINVAL, "status is NULL");
	ret = fence_signalled(fence);
	if (ret < 0)
		return ret;
	/* Signalled by now, so that it is safe to look; an eventfd has no more. */
	if (ret && fence != -1 && !sys_ioctl(fence, SYNC_IOC_FILE_INFO, &info))
		ret = info.status;
	*status = ret;
	return 0;
}

int fence_check(int fence)
{
	int status = 0;

	if (fence == -1 || dlbuf_fence_status(fence, &status) || status >= 0)
		return 0;
	return fail(-EIO, "fence %d ended with error %d (%s): the work before it "
		    "did not complete", fence, -status, strerror(-status));
}

int not_a_sync_file(int fd)
{
	int err = errno == ENOENT ? EINVAL : errno;

	if (fcntl(fd, F_GETFD) < 0)
		return fail(-EBADF, "fd %d is not open", fd);
	return fail(-EINVAL, "fd %d is not a sync_file: %s", fd, strerror(err));
}

int raise_fd(int fd, int *out)
{
	int high = sys_high(fd);

	if (high < 0)
		return fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
	*out = high;
	return 0;
}

int dlbuf_fence_merge(int a, int b, int *out)
{
	struct sync_merge_data merge = { .name = "dlbuf", .fd2 = b };

	if (!out)
		return fail(-EINVAL, "out is NULL");
	if (a == -1 && b == -1) {
		*out = -1;
		return 0;
	}
	/* With itself where there is one: then it is looked at all the same. */
	if (a == -1)
		a = b;
	if (b == -1)
		merge.fd2 = a;
	if (sys_ioctl(a, SYNC_IOC_MERGE, &merge) < 0)
		return not_a_sync_file(errno == ENOENT ? merge.fd2 : a);
	return raise_fd(merge.fence, out);
}

static int check_access(uint32_t access)
{
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	return 0;
}

/* After an ioctl of a dma-buf has failed: why. */
static int buffer_refused(int fd, const char *call)
{
	int err = errno, ret;
	uint64_t bytes;

	/* On what is no dma-buf the number may mean anything. */
	ret = buffer_size(fd, fd, &bytes);
	if (ret)
		return ret;
	if (err == ENOTTY)
		return fail(-EOPNOTSUPP, "the kernel has no %s", call);
	return fail(err == EINVAL || err == EMFILE || err == ENOMEM ? -err :
		    -EIO, "fd %d: %s: %s", fd, call, strerror(err));
}

/* What DMA_BUF_IOCTL_EXPORT_SYNC_FILE gives; -1 with errno. */
static int export_sync_file(int fd, uint32_t access)
{
	struct dma_buf_export_sync_file export = {
		.flags = access & DLBUF_WRITE ? DMA_BUF_SYNC_RW :
						DMA_BUF_SYNC_READ,
	};

	if (sys_ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export) < 0)
		return -1;
	return export.fd;
}

int dlbuf_fence_export(int dmabuf, uint32_t access, int *fence)
{
	int ret, fd;

	if (!fence)
		return fail(-EINVAL, "fence is NULL");
	ret = check_access(access);
	if (ret)
		return ret;
	fd = export_sync_file(dmabuf, access);
	if (fd < 0)
		return buffer_refused(dmabuf, "DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
	return raise_fd(fd, fence);
}

int dlbuf_fence_import(int dmabuf, uint32_t access, int fence)
{
	struct dma_buf_import_sync_file import = {
		.flags = access,
		.fd = fence,
	};
	int ret;

	ret = check_access(access);
	if (ret || fence == -1)
		return ret;
	if (!sys_ioctl(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import))
		return 0;
	ret = buffer_refused(dmabuf, "DMA_BUF_IOCTL_IMPORT_SYNC_FILE");
	/* The flags are right, so that EINVAL is about the fence. */
	return ret == -EINVAL ? not_a_sync_file(fence) : ret;
}

int fence_wait_buffer(int fd, uint32_t access, uint64_t deadline_ns,
		      bool damaged)
{
	/* POLLOUT is ready when all fences have signalled, POLLIN the writers'. */
	short events = access & DLBUF_WRITE ? POLLOUT : POLLIN;
	int ret, fence, err;

	/* Most buffers are idle, and then one call says so. */
	ret = ready(fd, events, 1);
	if (ret)
		return ret < 0 ? ret : 0;
	/*
	 * A sync_file is a snapshot. Polling the dma-buf instead looks at all
	 * fences anew at each wake-up and can run after a fast producer for
	 * ever; it is what is left on kernels without the ioctl.
	 */
	fence = export_sync_file(fd, access);
	if (fence >= 0) {
		ret = ready(fence, POLLIN, deadline_ns);
		err = ret <= 0 || damaged ? 0 : fence_check(fence);
		close(fence);
		if (err)
			return err;
	} else if (errno == ENOTTY) {
		ret = ready(fd, events, deadline_ns);
	} else {
		return fail_errno("fd %d: DMA_BUF_IOCTL_EXPORT_SYNC_FILE", fd);
	}
	if (ret)
		return ret < 0 ? ret : 0;
	return fail(-ETIME, "the fences of the dma-buf did not signal before "
		    "the deadline");
}
