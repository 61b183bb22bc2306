// SPDX-License-Identifier: MIT
/* Waiting for the fences of a dma-buf. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <linux/dma-buf.h>

#include <dlbuf/base.h>

#include "fence.h"
#include "internal.h"
#include "sys.h"

#ifndef DMA_BUF_IOCTL_EXPORT_SYNC_FILE /* linux/dma-buf.h before 6.0 */
struct dma_buf_export_sync_file {
	__u32 flags;
	__s32 fd;
};
#define DMA_BUF_IOCTL_EXPORT_SYNC_FILE \
	_IOWR(DMA_BUF_BASE, 2, struct dma_buf_export_sync_file)
#endif

/* 1 when events came, 0 at the deadline, negative errno. EINTR-safe. */
static int poll_until(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec left = { 0 };
	int ret;

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
		return fail_errno("fd %d: ppoll()", fd);
	return ret && p.revents & events;
}

int fence_wait_buffer(int fd, uint32_t access, uint64_t deadline_ns)
{
	/* POLLOUT is ready when all fences have signalled, POLLIN the writers'. */
	short events = access & DLBUF_WRITE ? POLLOUT : POLLIN;
	struct dma_buf_export_sync_file export = {
		.flags = access & DLBUF_WRITE ? DMA_BUF_SYNC_RW :
						DMA_BUF_SYNC_READ,
	};
	int ret;

	/* Most buffers are idle, and then one call says so. */
	ret = poll_until(fd, events, 1);
	if (ret)
		return ret < 0 ? ret : 0;
	/*
	 * A sync_file is a snapshot. Polling the dma-buf instead looks at all
	 * fences anew at each wake-up and can run after a fast producer for
	 * ever; it is what is left on kernels without the ioctl (ENOTTY).
	 */
	if (!sys_ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export)) {
		ret = poll_until(export.fd, POLLIN, deadline_ns);
		close(export.fd);
	} else if (errno == ENOTTY) {
		ret = poll_until(fd, events, deadline_ns);
	} else {
		return fail_errno("fd %d: DMA_BUF_IOCTL_EXPORT_SYNC_FILE", fd);
	}
	if (ret)
		return ret < 0 ? ret : 0;
	return fail(-ETIME, "the fences of the dma-buf did not signal before "
		    "the deadline");
}
