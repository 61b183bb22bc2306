// SPDX-License-Identifier: MIT
/* Mappings of dma-bufs and their accesses, and mappings of the memfds of udmabufs. */
#include <errno.h>
#include <string.h>

#include <linux/dma-buf.h>

#include "../dmabuf/fence.h"
#include "../dmabuf/memory.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "backend.h"
#include "host.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static int map_fd(const struct import *imp, int fd, uint32_t access, void **map)
{
	bool writes = access & DLBUF_WRITE;
	void *p;

	if (imp->bytes > SIZE_MAX)
		return fail(-ENOMEM, "a dma-buf of %llu bytes exceeds the "
			    "address space", (unsigned long long)imp->bytes);
	p = sys_mmap(imp->bytes, PROT_READ | (writes ? PROT_WRITE : 0), fd);
	if (p == MAP_FAILED)
		return fail(errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP,
			    "mmap() of the dma-buf: %m");
	*map = p;
	return 0;
}

int host_map(const struct import *imp, void **map)
{
	return map_fd(imp, imp->fd, imp->id.access, map);
}

int host_map_pages(const struct import *imp, uint32_t access, void **map,
		   bool *by_memfd)
{
	int memfd = memory_of(&imp->id), ret;

	*by_memfd = memfd >= 0;
	ret = map_fd(imp, memfd >= 0 ? memfd : imp->fd, access, map);
	if (memfd >= 0)
		close(memfd);
	return ret;
}

void host_prefault(const struct import *imp, void *map)
{
	bool writes = imp->id.access & DLBUF_WRITE;
	size_t page = sysconf(_SC_PAGESIZE);

	if (!madvise(map, imp->bytes, writes ? MADV_POPULATE_WRITE :
					       MADV_POPULATE_READ))
		return;
	/* For Linux before 5.14, and for mappings without struct pages. */
	for (size_t i = 0; i < imp->bytes; i += page)
		(void)*((volatile const char *)map + i);
}

int host_import(struct import *imp)
{
	int prot = (imp->id.access & DLBUF_READ ? PROT_READ : 0) |
		   (imp->id.access & DLBUF_WRITE ? PROT_WRITE : 0);

	if (imp->bytes > SIZE_MAX)
		return fail(-ENOMEM, "a dma-buf of %llu bytes exceeds the "
			    "address space", (unsigned long long)imp->bytes);
	imp->data = sys_mmap(imp->bytes, prot, imp->fd);
	return imp->data != MAP_FAILED ? 0 :
	       fail_errno("%s: mmap() of the dma-buf", imp->dev->name);
}

bool host_unimport(struct import *imp, bool wait)
{
	(void)wait;
	munmap(imp->data, imp->bytes);
	return true;
}

/* START also waits for the fences. */
static int start_failed(const struct import *imp)
{
	return bracket_refused() ? -EAGAIN :
	       fail(-EIO, "%s: DMA_BUF_IOCTL_SYNC START: %m", imp->dev->name);
}

int host_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		 int fence)
{
	(void)stream, (void)fence;
	return bracket_once(imp->fd, DMA_BUF_SYNC_START | access) ?
	       start_failed(imp) : 0;
}

static int end_again(const struct import *imp, uint64_t flags)
{
	return bracket_refused() && !bracket(imp->fd, flags) ? 0 :
	       fail(-EIO, "%s: DMA_BUF_IOCTL_SYNC END: %m", imp->dev->name);
}

int host_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		 int *fence, int *end)
{
	(void)stream, (void)end;
	*fence = -1;
	return bracket_once(imp->fd, DMA_BUF_SYNC_END | access) ?
	       end_again(imp, DMA_BUF_SYNC_END | access) : 0;
}
