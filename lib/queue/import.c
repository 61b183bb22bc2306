// SPDX-License-Identifier: MIT
/* Imports a dma-buf into the device: the steps of each path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "../path.h"
#include "queue.h"

void queue_memory_free(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;

	queue_make_sure(dev);
	queue_work_put(dev, m->begun);
	dev->ops->free(m);
	if (m->staging)
		dev->ops->free_host(dev, m->staging);
	if (m->map)
		munmap(m->map, m->bytes);
	if (m->buffer)
		bridge_buffer_destroy(m->buffer);
	if (m->fd >= 0)
		close(m->fd);
	pthread_mutex_destroy(&m->beginning);
	free(m);
}

static int keep_fd(struct queue_memory *m, const struct import *imp)
{
	m->fd = sys_dup(imp->fd);
	return m->fd < 0 ? fail_errno("fcntl(F_DUPFD_CLOEXEC)") : 0;
}

/* ---------------------------------------------------------------- direct */

/* Copies the device's bytes to m->staging, and waits for the copy. */
static int read_back(struct queue_memory *m)
{
	const struct queue_ops *ops = m->dev->ops;
	void *stream;
	int ret = ops->stream_create(m->dev, &stream);

	if (ret)
		return ret;
	if (m->passes)
		ret = ops->begin(m, stream);
	if (!ret)
		ret = ops->copy(m, stream, true);
	if (!ret && m->passes)
		ret = ops->end(m, DLBUF_READ, stream);
	return queue_finish_own(m->dev, stream, ret);
}

/*
 * Compares the bytes that the device reads with those that the CPU reads, because
 * a driver was reported to read wrong pages of buffers of other drivers. Imports
 * are compared until one was equal. A buffer full of one byte value proves nothing,
 * and neither does a buffer that a producer writes during the comparison.
 */
static int compare(struct queue_memory *m, const struct import *imp)
{
	size_t bytes = m->bytes - m->unusable;
	bool same = false;
	void *map;
	int ret;

	if (host_map(imp, &map)) {
		log_at(DLBUF_LOG_INFO, "%s: direct without comparison: %s",
		       m->dev->base.name, dlbuf_last_error());
		forget_failure();
		return 0;
	}
	ret = m->dev->ops->alloc_host(m->dev, m->bytes, &m->staging, NULL);
	for (int tries = 0; !ret && !same && tries < 3; tries++) {
		ret = read_back(m);
		same = !ret && !memcmp(m->staging, map, bytes);
	}
	if (!ret && !same)
		ret = fail(-EOPNOTSUPP, "the device reads other bytes than the "
			   "CPU does");
	if (!ret && memcmp(map, (uint8_t *)map + 1, bytes - 1))
		__atomic_store_n(&m->dev->believed, true, __ATOMIC_RELEASE);
	/* After a failure the copy may still run, so queue_memory_free() frees it. */
	if (!ret)
		queue_staging_drop(m);
	munmap(map, m->bytes);
	return ret;
}

static int import_direct(struct queue_memory *m, const struct import *imp)
{
	struct queue_device *dev = m->dev;
	int ret;

	if (!dev->ops->import)
		return fail(-EOPNOTSUPP, "the driver does not import dma-bufs");
	ret = keep_fd(m, imp);
	if (!ret)
		ret = dev->ops->import(m);
	if (!ret && !__atomic_load_n(&dev->believed, __ATOMIC_ACQUIRE))
		ret = compare(m, imp);
	return ret;
}

/* ---------------------------------------------------------------- others */

static int check_registers(const struct queue_device *dev, uint32_t access)
{
	if (!dev->registers)
		return fail(-EOPNOTSUPP, "the device cannot register host memory");
	if (!(access & DLBUF_WRITE) && !dev->registers_read_only)
		return fail(-EOPNOTSUPP, "the device cannot register read-only "
			    "memory");
	return 0;
}

/*
 * A device that cannot register read-only memory gets a writable mapping, if the fd
 * allows it. The tensor stays read-only.
 */
static uint32_t access_to_map(const struct queue_device *dev,
			      const struct import *imp)
{
	int flags = dev->registers_read_only ? -1 : fcntl(imp->fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) == O_RDWR ? DLBUF_RW :
							     imp->id.access;
}

static int import_host(struct queue_memory *m, const struct import *imp)
{
	struct queue_device *dev = m->dev;
	uint32_t access = access_to_map(dev, imp);
	bool by_memfd, asked = false;
	char said[200];
	int ret;

	ret = host_map_pages(imp, access, &m->map, &by_memfd);
	if (ret)
		return ret;
	ret = check_registers(dev, access);
	if (!ret && dev->memfds_only && !by_memfd)
		ret = fail(-EOPNOTSUPP, "the driver needs memory that can be pinned");
	m->synced = dev->is_cpu;
	if (!ret && m->synced)
		ret = keep_fd(m, imp);
	if (!ret) {
		asked = true;
		ret = dev->ops->register_host(m, access);
	}
	if (!ret)
		return 0;
	/* A device that uses the CPU's page tables needs no registration. */
	if (dev->coherent && !m->registered) {
		host_prefault(imp, m->map);
		m->data = (uintptr_t)m->map;
		return 0;
	}
	if (by_memfd || !asked)
		return ret;
	snprintf(said, sizeof(said), "%s", dlbuf_last_error());
	return fail(ret, "%s (of the dma-buf's mapping; the memfd behind it is "
		    "not known)", said);
}

static int import_copy(struct queue_memory *m, const struct import *imp)
{
	const struct queue_ops *ops = m->dev->ops;
	int ret;

	if (!ops->call_host)
		return fail(-EOPNOTSUPP, "its streams cannot call host functions");
	ret = keep_fd(m, imp);
	if (!ret)
		ret = host_map(imp, &m->map);
	if (!ret)
		ret = ops->alloc_host(m->dev, m->bytes, &m->staging, NULL);
	return ret ? ret : ops->alloc(m);
}

static int import_by(struct queue_memory *m, struct import *imp)
{
	m->copied = PATH_BIT(imp->path) & PATHS_COPIED;
	switch (imp->path) {
	case DLBUF_PATH_DIRECT:
		return import_direct(m, imp);
	case DLBUF_PATH_HOST:
		return import_host(m, imp);
	case DLBUF_PATH_BRIDGE:
		return queue_bridge_import(m, imp->fd);
	default:
		return import_copy(m, imp);
	}
}

int queue_memory_create(struct queue_device *dev, uint64_t bytes,
			struct queue_memory **out)
{
	struct queue_memory *m = sys_calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->dev = dev;
	m->bytes = bytes;
	m->fd = -1;
	pthread_mutex_init(&m->beginning, NULL);
	*out = m;
	return 0;
}

int queue_memory_new(struct import *imp, uint64_t bytes,
		     int (*fill)(struct queue_memory *m, struct import *imp))
{
	struct queue_device *dev = queue_device_of(imp->dev);
	struct queue_scope scope;
	struct queue_memory *m;
	int ret;

	ret = queue_enter(dev, &scope);
	if (ret)
		return ret;
	ret = queue_memory_create(dev, bytes, &m);
	if (!ret) {
		m->access = imp->id.access;
		ret = fill(m, imp);
		if (ret)
			queue_memory_drop(m);
	}
	queue_leave(dev, &scope);
	if (ret)
		return ret;
	container_of(imp, struct queue_import, base)->memory = m;
	imp->data = (void *)m->data;
	imp->opaque = dev->opaque;
	imp->unusable = m->unusable;
	return 0;
}

int queue_import(struct import *imp)
{
	int ret = queue_memory_new(imp, imp->bytes, import_by);

	/*
	 * If a host function of the stream waits for fences, releases give events and
	 * no fences: see copy.c.
	 */
	if (!ret)
		imp->release_sync = imp->path == DLBUF_PATH_COPY ||
				    queue_memory_of(imp)->synced ?
				    DLBUF_SYNC_EVENT : imp->dev->release_sync;
	return ret;
}

void queue_unimport(struct import *imp)
{
	struct queue_device *dev = queue_device_of(imp->dev);
	struct queue_scope scope;

	queue_enter_to_free(dev, &scope);
	queue_memory_drop(queue_memory_of(imp));
	queue_leave(dev, &scope);
}
