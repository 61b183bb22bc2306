// SPDX-License-Identifier: MIT
/*
 * Accesses to a tensor's memory by a simulator: the test bench tests/verilog/bench.v
 * copies between this tensor and another one.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "cts/cts.h"

#include "import/backend.h"
#include "system/event.h"
#include "frame/frame.h"
#include "import/import.h"

#define WAIT_NS 500000000000ull

/*
 * Gives bytes of a dma-buf to the bench. The tensor shares the import of the tensor under
 * test, or its import ends with it.
 */
static int give(struct dlbuf_device *dev, int fd, uint64_t offset, size_t bytes,
		uint32_t access, const char *name, int *done)
{
	struct dlbuf_frame_layout layout = {
		.shape = { bytes },
		.layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			    .byte_offset = offset },
		.fd = fd,
	};
	const struct frame_part part = { access, offset, offset + bytes };
	DLBUF_OPTS(dlbuf_socket_opts, opts);
	DLManagedTensorVersioned *t;
	struct timespec now;
	int ret;

	layout.layout.shape = layout.shape;
	clock_gettime(CLOCK_MONOTONIC, &now);
	opts.deadline_ns = now.tv_sec * 1000000000ull + WAIT_NS;
	ret = frame_tensors(dev, &layout, &part,
			    PATHS_BRIEF | PATH_BIT(DLBUF_PATH_DIRECT), 1, NULL,
			    NULL, &t);
	if (ret)
		return ret;
	ret = dlbuf_acquire(t, access, NULL, NULL);
	if (!ret) {
		ret = dlbuf_vpi_send(t, name, &opts);
		if (dlbuf_release(t, NULL, done))
			ret = -EIO;
	}
	t->deleter(t);
	return ret;
}

static int copy(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		const void *src, size_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, udmabuf, .exporter = "udmabuf");
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct pollfd done[2] = { { -1, POLLIN, 0 }, { -1, POLLIN, 0 } };
	uint64_t hits, misses;
	int fd, ret = dlbuf_tensor_get_info(t, &info);

	if (!ret)
		ret = dlbuf_alloc_fd(bytes, &udmabuf, &fd);
	if (ret)
		return ret;
	if (src)
		cts_poke(fd, 0, src, bytes);
	/* Cases count imports, which are not these. */
	hits = info.device->cache.hits;
	misses = info.device->cache.misses;
	ret = give(info.device, info.fd, offset, bytes, info.access,
		   src ? "write" : "read", &done[0].fd);
	if (!ret)
		ret = give(info.device, fd, 0, bytes, DLBUF_RW, "data",
			   &done[1].fd);
	for (int i = 0; i < 2; i++) {
		if (!ret && done[i].fd >= 0 &&
		    poll(&done[i], 1, WAIT_NS / 1000000) != 1)
			ret = -ETIME;
		if (done[i].fd >= 0)
			close(done[i].fd);
	}
	/* The simulator does not use the imports any more, either. */
	while (!ret && event_awaits(info.device))
		sched_yield();
	info.device->cache.hits = hits;
	info.device->cache.misses = misses;
	if (!ret && dst)
		cts_peek(fd, 0, dst, bytes);
	close(fd);
	return ret;
}

static int vpi_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		    size_t bytes)
{
	return copy(t, offset, dst, NULL, bytes);
}

static int vpi_write(DLManagedTensorVersioned *t, uint64_t offset,
		     const void *src, size_t bytes)
{
	return copy(t, offset, NULL, src, bytes);
}

const struct access access_vpi = {
	.backend = "vpi",
	.read = vpi_read,
	.write = vpi_write,
	.second = "vpi:cts2",
};
