// SPDX-License-Identifier: MIT
/*
 * The CPU. An import is a shared mapping. An acquire and a release call
 * DMA_BUF_IOCTL_SYNC, whose START also waits for the fences.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/dma-buf.h>

#include "../../dmabuf/fence.h"
#include "../../import/backend.h"
#include "../../system/internal.h"
#include "../../system/sys.h"

BACKEND_DECLARE(cpu);

static void cpu_describe(struct dlbuf_device *dev,
			 struct dlbuf_device_info *info)
{
	(void)dev;
	snprintf(info->description, sizeof(info->description), "CPU");
}

static int cpu_open(const char *selector, const struct dlbuf_device_opts *opts,
		    struct dlbuf_device **out)
{
	struct dlbuf_device *dev;

	(void)opts;
	if (selector[0] && strcmp(selector, "0"))
		return fail(-ENODEV, "there is one cpu device, not cpu:%s",
			    selector);
	dev = sys_calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	strcpy(dev->name, "cpu");
	dev->acquire_sync = DLBUF_SYNC_BLOCKS;
	dev->release_sync = DLBUF_SYNC_BLOCKS;
	*out = dev;
	return 0;
}

static void cpu_close(struct dlbuf_device *dev)
{
	free(dev);
}

static int cpu_each(const struct backend *backend, dlbuf_device_fn fn,
		    void *data)
{
	struct dlbuf_device_info info = {
		.size = sizeof(info),
		.name = "cpu",
		.backend = "cpu",
		.device.device_type = backend->type,
		.acquire = DLBUF_SYNC_BLOCKS,
		.release = DLBUF_SYNC_BLOCKS,
		.pitch_align = 64,
		.offset_align = 64,
	};

	cpu_describe(NULL, &info);
	return fn(&info, data);
}

static int cpu_import(struct import *imp)
{
	int prot = (imp->id.access & DLBUF_READ ? PROT_READ : 0) |
		   (imp->id.access & DLBUF_WRITE ? PROT_WRITE : 0);

	if (imp->bytes > SIZE_MAX)
		return fail(-ENOMEM, "a dma-buf of %llu bytes exceeds the "
			    "address space", (unsigned long long)imp->bytes);
	imp->data = sys_mmap(imp->bytes, prot, imp->fd);
	return imp->data != MAP_FAILED ? 0 : fail_errno("cpu: mmap() of the dma-buf");
}

static bool cpu_unimport(struct import *imp, bool wait)
{
	(void)wait;
	munmap(imp->data, imp->bytes);
	return true;
}

/* START also waits for the fences. */
static int start_failed(void)
{
	return bracket_refused() ? -EAGAIN :
	       fail(-EIO, "cpu: DMA_BUF_IOCTL_SYNC START: %m");
}

static int cpu_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		       int fence)
{
	(void)stream, (void)fence;
	return bracket_once(imp->fd, DMA_BUF_SYNC_START | access) ?
	       start_failed() : 0;
}

static int end_again(const struct import *imp, uint64_t flags)
{
	return bracket_refused() && !bracket(imp->fd, flags) ? 0 :
	       fail(-EIO, "cpu: DMA_BUF_IOCTL_SYNC END: %m");
}

static int cpu_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		       int *fence, int *end)
{
	(void)stream, (void)end;
	*fence = -1;
	return bracket_once(imp->fd, DMA_BUF_SYNC_END | access) ?
	       end_again(imp, DMA_BUF_SYNC_END | access) : 0;
}

const struct backend cpu_backend = {
	.name = "cpu",
	.type = kDLCPU,
	.waits_implicitly = true,
	.import_size = sizeof(struct import),
	.each = cpu_each,
	.open = cpu_open,
	.close = cpu_close,
	.describe = cpu_describe,
	.import = cpu_import,
	.unimport = cpu_unimport,
	.acquire = cpu_acquire,
	.release = cpu_release,
};
