// SPDX-License-Identifier: MIT
/*
 * Whether an import shares the dma-buf's memory. A driver may take a dma-buf and give a
 * buffer of its own, with a copy of the bytes or without. compare() (import.c) does not see
 * that. So before its first import a device imports a small buffer of the library's: it must
 * read what the CPU wrote after the import, and the CPU what the device wrote.
 */
#include <string.h>
#include <sys/mman.h>

#include <linux/dma-buf.h>

#include <dlbuf/alloc.h>

#include "../dmabuf/fence.h"
#include "../import/cache.h"
#include "queue.h"

#define BYTES 4096

static void fill(uint8_t *p, uint8_t first)
{
	for (size_t i = 0; i < BYTES; i++)
		p[i] = first + i * 7 + i / 256;
}

/* The CPU writes, or reads and compares. */
static int by_cpu(int fd, uint8_t *map, uint64_t access, uint8_t first, bool *same)
{
	uint8_t want[BYTES];
	int ret = bracket(fd, DMA_BUF_SYNC_START | access);

	fill(access == DMA_BUF_SYNC_WRITE ? map : want, first);
	if (same)
		*same = !memcmp(map, want, BYTES);
	return bracket(fd, DMA_BUF_SYNC_END | access) || ret ? -EIO : 0;
}

int queue_try_memory(struct queue_memory *m, int fd, uint8_t *map, bool *shares)
{
	uint8_t want[BYTES];
	bool same = false;
	int ret = by_cpu(fd, map, DMA_BUF_SYNC_WRITE, 1, NULL);

	if (!ret)
		ret = m->dev->ops->alloc_host(m->dev, m->base.bytes, &m->staging, NULL);
	if (!ret)
		ret = queue_copy_now(m, true);
	if (ret)
		return ret;
	fill(want, 1);
	*shares = !memcmp(m->staging, want, BYTES);
	fill(m->staging, 2);
	ret = queue_copy_now(m, false);
	if (!ret)
		ret = by_cpu(fd, map, DMA_BUF_SYNC_READ, 2, &same);
	*shares &= same;
	return ret;
}

/* Returns 0 if the buffer could be tried. */
static int try_buffer(struct queue_device *dev, int fd)
{
	uint8_t *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct buffer_id id;
	struct import *imp;
	bool shares = true;
	int ret;

	if (map == MAP_FAILED)
		return -ENOMEM;
	ret = buffer_identify(fd, &id);
	if (!ret)
		ret = import_create(&dev->base, fd, &id, DLBUF_RW,
				    PATH_BIT(DLBUF_PATH_DIRECT), BYTES, &imp);
	if (!ret) {
		ret = queue_try_memory(queue_memory_of(imp), fd, map, &shares);
		import_destroy(imp);
	}
	munmap(map, BYTES);
	if (!ret)
		__atomic_store_n(&dev->apart, !shares, __ATOMIC_RELEASE);
	return ret;
}

void queue_try_direct(struct queue_device *dev)
{
	DLBUF_OPTS(dlbuf_alloc_opts, udmabuf, .exporter = "udmabuf");
	DLBUF_OPTS(dlbuf_alloc_opts, heap, .exporter = "heap:system");
	int fd, ret = -ENOSYS;

	/* Another thread's import does not wait for the trial. */
	if (__atomic_load_n(&dev->believed, __ATOMIC_ACQUIRE) ||
	    __atomic_exchange_n(&dev->tried, 1, __ATOMIC_ACQ_REL))
		return;
	if (!dlbuf_alloc_fd(BYTES, &udmabuf, &fd)) {
		ret = try_buffer(dev, fd);
		close(fd);
	}
	if (ret && !dlbuf_alloc_fd(BYTES, &heap, &fd)) {
		ret = try_buffer(dev, fd);
		close(fd);
	}
	if (ret)
		log_at(DLBUF_LOG_INFO, "%s: no trial of its imports: %s", dev->base.name,
		       dlbuf_last_error());
	forget_failure();
}
