// SPDX-License-Identifier: MIT
/* A camera's buffers and frames, for the tool. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/dma-buf.h>

#include <dlbuf/alloc.h>

#include "out.h"
#include "tool.h"
#include "v4l2.h"

int camera_status(const struct camera *cam, int ret)
{
	return ret ? fail(cam->absent ? STATUS_ABSENT : STATUS_SYSTEM, "%s",
			  dlbuf_last_error()) : 0;
}

int open_camera(struct camera *cam, const char *node)
{
	int ret = camera_open(cam, node);

	make_printable(cam->driver);
	make_printable(cam->card);
	make_printable(cam->bus);
	return camera_status(cam, ret);
}

static int alloc_import(struct camera *cam, uint32_t index,
			const char *exporter)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter,
		   .name = "dmabuf-test");
	int ret = 0;

	for (uint32_t i = 0; !ret && i < cam->nplanes; i++)
		ret = dlbuf_alloc_fd(cam->size[i], &opts,
				     &cam->buffers[index][i].fd);
	return ret ? fail_dlbuf(ret) : 0;
}

int camera_alloc(struct camera *cam, uint32_t nbuffers, const char *exporter)
{
	int ret = camera_request(cam, exporter ? V4L2_MEMORY_DMABUF :
				 V4L2_MEMORY_MMAP, nbuffers), status;

	for (uint32_t i = 0; !ret && i < cam->nbuffers; i++) {
		status = exporter ? alloc_import(cam, i, exporter) : 0;
		if (status)
			return status;
		if (!exporter)
			ret = camera_export(cam, i);
		if (!ret)
			ret = camera_map(cam, i);
	}
	if (ret && cam->absent && !exporter)
		return fail(STATUS_ABSENT, "%s: try --import udmabuf",
			    dlbuf_last_error());
	return camera_status(cam, ret);
}

static int wait_for_frame(struct camera *cam, uint64_t deadline,
			  int timeout_ms)
{
	struct pollfd p = { .fd = cam->fd, .events = POLLIN };
	uint64_t now = now_ns();
	int n = 0;

	/* Rounded up, so that the last millisecond is not spun through. */
	if (now < deadline)
		n = poll(&p, 1, (deadline - now) / 1000000 + 1);
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted after %llu frames",
			    (unsigned long long)cam->dequeued);
	if (n < 0 && errno != EINTR)
		return fail(STATUS_SYSTEM, "%s: poll(): %s", cam->node,
			    strerror(errno));
	if (!n)
		return fail(STATUS_SYSTEM, "%s gave no frame for %g s, after "
			    "%llu frames", cam->node, timeout_ms / 1e3,
			    (unsigned long long)cam->dequeued);
	/* POLLERR and POLLHUP: the reason is what VIDIOC_DQBUF returns. */
	return 0;
}

int camera_wait(struct camera *cam, int timeout_ms, uint32_t *index)
{
	uint64_t deadline = now_ns() + timeout_ms * 1000000ull;
	int ret, status;

	do {
		status = wait_for_frame(cam, deadline, timeout_ms);
		if (status)
			return status;
		ret = camera_dequeue(cam, index);
	} while (ret == -EAGAIN);
	return camera_status(cam, ret);
}

int camera_map_sync(struct camera *cam, uint32_t index, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags | DMA_BUF_SYNC_READ };
	int ret = 0;

	if (cam->memory != V4L2_MEMORY_DMABUF)
		return 0;
	for (uint32_t i = 0; !ret && i < cam->nplanes; i++)
		do
			ret = ioctl(cam->buffers[index][i].fd,
				    DMA_BUF_IOCTL_SYNC, &sync);
		while (ret < 0 && errno == EINTR);
	return ret ? fail(STATUS_SYSTEM, "%s: DMA_BUF_IOCTL_SYNC: %s",
			  cam->node, strerror(errno)) : 0;
}
