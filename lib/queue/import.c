// SPDX-License-Identifier: MIT
/*
 * Imports a dma-buf into the device: the steps of each path. Frees the import when no work
 * on it runs, and no stream waits for a fence: see gate.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "../import/cache.h"
#include "../import/host.h"
#include "engine.h"

/* ---------------------------------------------------------------- direct */

int queue_copy_now(struct queue_memory *m, bool back)
{
	const struct queue_ops *ops = m->dev->ops;
	void *stream;
	int ret = ops->stream_create(m->dev, &stream);

	if (ret)
		return ret;
	if (m->passes)
		ret = ops->begin(m, stream);
	if (!ret)
		ret = ops->copy(m, stream, back);
	if (!ret && m->passes)
		ret = ops->end(m, back ? DLBUF_READ : DLBUF_WRITE, stream);
	return queue_finish_own(m->dev, stream, ret);
}

/*
 * Compares the bytes that the device reads with those that the CPU reads, because
 * a driver was reported to read wrong pages of buffers of other drivers. Imports
 * are compared until one was equal. A buffer full of one byte value proves nothing,
 * and neither does a buffer that a producer writes during the comparison.
 */
static int compare(struct queue_memory *m)
{
	size_t bytes = m->base.bytes - m->base.unusable;
	bool same = false;
	void *map;
	int ret;

	if (host_map(&m->base, &map)) {
		log_at(DLBUF_LOG_INFO, "%s: direct without comparison: %s",
		       m->dev->base.name, dlbuf_last_error());
		forget_failure();
		return 0;
	}
	ret = m->dev->ops->alloc_host(m->dev, m->base.bytes, &m->staging, NULL);
	for (int tries = 0; !ret && !same && tries < 3; tries++) {
		ret = queue_copy_now(m, true);
		same = !ret && !memcmp(m->staging, map, bytes);
	}
	if (!ret && !same)
		ret = fail(-EOPNOTSUPP, "the device reads other bytes than the "
			   "CPU does");
	if (!ret && memcmp(map, (uint8_t *)map + 1, bytes - 1))
		__atomic_store_n(&m->dev->believed, true, __ATOMIC_RELEASE);
	/* After a failure the copy may still run, so it is freed with the import. */
	if (!ret)
		queue_staging_drop(m);
	munmap(map, m->base.bytes);
	return ret;
}

int queue_try_memory(struct queue_memory *m, const struct trial_buffer *t, bool *shares)
{
	uint8_t want[TRIAL_PAGE];
	bool same = false;
	int ret = trial_by_cpu(t, 0, TRIAL_PAGE, 1, NULL);

	/* It has the staging buffer of compare() if that could not be dropped. */
	if (!ret && !m->staging)
		ret = m->dev->ops->alloc_host(m->dev, m->base.bytes, &m->staging, NULL);
	if (!ret)
		ret = queue_copy_now(m, true);
	if (ret)
		return ret;
	trial_fill(want, TRIAL_PAGE, 1);
	*shares = !memcmp(m->staging, want, TRIAL_PAGE);
	trial_fill(m->staging, TRIAL_PAGE, 2);
	ret = queue_copy_now(m, false);
	if (!ret)
		ret = trial_by_cpu(t, 0, TRIAL_PAGE, 2, &same);
	*shares &= same;
	return ret;
}

/* compare() does not see a copy of the dma-buf. */
static int try_buffer(struct dlbuf_device *dev, const struct trial_buffer *t, bool *shares)
{
	struct buffer_id id;
	struct import *imp;
	int ret = buffer_identify(t->fd, &id);

	if (!ret)
		ret = import_create(dev, t->fd, &id, DLBUF_RW, PATH_BIT(DLBUF_PATH_DIRECT),
				    TRIAL_PAGE, &imp);
	if (!ret) {
		ret = queue_try_memory(queue_memory_of(imp), t, shares);
		import_destroy(imp);
	}
	return ret;
}

void queue_try_direct(struct queue_device *dev)
{
	/* Another thread's import does not wait for the trial. */
	if (!__atomic_load_n(&dev->believed, __ATOMIC_ACQUIRE) &&
	    !__atomic_exchange_n(&dev->tried, 1, __ATOMIC_ACQ_REL))
		trial_run(&dev->base, try_buffer, &dev->apart);
}

static int import_direct(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;
	int ret;

	if (!dev->ops->import)
		return fail(-EOPNOTSUPP, "the driver does not import dma-bufs");
	if (__atomic_load_n(&dev->apart, __ATOMIC_ACQUIRE))
		return trial_apart();
	ret = dev->ops->import(m);
	if (!ret && !__atomic_load_n(&dev->believed, __ATOMIC_ACQUIRE))
		ret = compare(m);
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
static uint32_t access_to_map(const struct queue_memory *m)
{
	int flags = m->dev->registers_read_only ? -1 :
		    fcntl(m->base.fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) == O_RDWR ? DLBUF_RW :
							     m->base.id.access;
}

static int import_host(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;
	uint32_t access = access_to_map(m);
	bool by_memfd, asked = false;
	char said[200];
	int ret;

	ret = host_map_pages(&m->base, access, &m->map, &by_memfd);
	if (ret)
		return ret;
	ret = check_registers(dev, access);
	if (!ret && dev->memfds_only && !by_memfd)
		ret = fail(-EOPNOTSUPP, "the driver needs memory that can be pinned");
	m->synced = dev->is_cpu;
	if (!ret) {
		asked = true;
		ret = dev->ops->register_host(m, access);
	}
	if (!ret)
		return 0;
	/* A device that uses the CPU's page tables needs no registration. */
	if (dev->coherent && !m->registered) {
		host_prefault(&m->base, m->map);
		m->data = (uintptr_t)m->map;
		return 0;
	}
	if (by_memfd || !asked)
		return ret;
	snprintf(said, sizeof(said), "%s", dlbuf_last_error());
	return fail(ret, "%s (of the dma-buf's mapping; the memfd behind it is "
		    "not known)", said);
}

static int import_copy(struct queue_memory *m)
{
	const struct queue_ops *ops = m->dev->ops;
	int ret;

	if (!ops->call_host)
		return fail(-EOPNOTSUPP, "its streams cannot call host functions");
	ret = host_map(&m->base, &m->map);
	if (!ret)
		ret = ops->alloc_host(m->dev, m->base.bytes, &m->staging, NULL);
	return ret ? ret : ops->alloc(m);
}

int queue_import_path(struct queue_memory *m)
{
	m->copied = PATH_BIT(m->base.path) & PATHS_COPIED;
	switch (m->base.path) {
	case DLBUF_PATH_DIRECT:
		return import_direct(m);
	case DLBUF_PATH_HOST:
		return import_host(m);
	case DLBUF_PATH_BRIDGE:
		return queue_bridge_import(m, m->base.fd);
	default:
		return import_copy(m);
	}
}

/* ---------------------------------------------------------------- frees */

static void free_now(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;

	queue_work_put(dev, m->begun);
#ifdef CONFIG_PREPARE_QUEUE
	if (m->program)
		queue_program_free(m->program);
#endif
	dev->ops->free(m);
	if (m->staging)
		dev->ops->free_host(dev, m->staging);
	if (m->map)
		munmap(m->map, m->base.bytes);
	if (m->buffer)
		bridge_buffer_destroy(m->buffer);
	pthread_mutex_destroy(&m->order_lock);
}

/* A caller that may wait also waits in the driver's free, and not at the gate. */
bool queue_unimport(struct import *imp, bool wait)
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_device *dev = m->dev;
	struct queue_scope scope;
	bool over;

	queue_gate_note(dev, &m->dropped);
	queue_enter_to_free(dev, &scope);
	if (wait)
		queue_work_finish(dev, &m->works);
	over = queue_reap(dev, &m->works) && cache_unlist(imp);
	imp->held = over && queue_is_held(m);
	over = over && !imp->held && queue_gate_close(dev, &m->dropped, wait);
	if (over) {
		free_now(m);
		queue_gate_open(dev);
	}
	queue_leave(dev, &scope);
	return over;
}

/* ---------------------------------------------------------------- memory */

static void prepare(struct queue_memory *m)
{
	m->dev = queue_device_of(m->base.dev);
	pthread_mutex_init(&m->order_lock, NULL);
}

struct queue_memory *queue_memory_new(struct queue_device *dev, uint64_t bytes)
{
	struct import *imp = import_new(&dev->base);
	struct queue_memory *m = imp ? queue_memory_of(imp) : NULL;

	if (!m)
		return NULL;
	prepare(m);
	imp->bytes = bytes;
	/* This buffer is never exported. */
	m->copied = true;
	return m;
}

void queue_staging_drop(struct queue_memory *m)
{
	struct queue_memory *own = queue_memory_new(m->dev, 0);

	if (!own) {
		/* It is freed with the import. */
		forget_failure();
		return;
	}
	own->staging = m->staging;
	m->staging = NULL;
	import_destroy(&own->base);
}

/* Moves everything but the struct import, which can be used again after a failure. */
#define OWN(m) ((char *)(m) + sizeof((m)->base))
#define OWN_BYTES (sizeof(struct queue_memory) - sizeof(struct import))

/*
 * A struct for the memory of a failed import that the device may still use. It is
 * allocated before the import, because the failure may be a lack of memory or of fds.
 */
static int spare_new(const struct import *imp, struct import **out)
{
	struct import *spare = import_new(imp->dev);

	if (!spare)
		return -ENOMEM;
	spare->fd = imp->fd >= 0 ? sys_dup(imp->fd) : -1;
	if (spare->fd < 0 && imp->fd >= 0) {
		free(spare);
		return fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", imp->fd);
	}
	*out = spare;
	return 0;
}

static void spare_free(struct import *spare)
{
	if (spare->fd >= 0)
		close(spare->fd);
	free(spare);
}

int queue_import_by(struct import *imp, int (*fill)(struct queue_memory *m))
{
	struct queue_memory *m = queue_memory_of(imp);
	struct queue_scope scope;
	struct import *spare;
	int ret = spare_new(imp, &spare);

	if (ret)
		return ret;
	prepare(m);
	ret = queue_enter(m->dev, &scope);
	if (ret) {
		spare_free(spare);
		return ret;
	}
	ret = fill(m);
	queue_leave(m->dev, &scope);
	if (!ret) {
		spare_free(spare);
		imp->data = (void *)m->data;
		imp->opaque = m->dev->opaque;
		return 0;
	}
	if (queue_unimport(imp, false)) {
		spare_free(spare);
	} else {
		spare->bytes = imp->bytes;
		memcpy(OWN(queue_memory_of(spare)), OWN(m), OWN_BYTES);
		import_destroy(spare);
	}
	memset(OWN(m), 0, OWN_BYTES);
	imp->unusable = 0;
	return ret;
}
