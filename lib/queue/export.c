// SPDX-License-Identifier: MIT
/* Exports device memory as dma-bufs: the application's memory, and dlbuf_alloc()'s. */
#include <errno.h>
#include <stdio.h>

#include <dlbuf/layout.h>

#include "../dmabuf/fence.h"
#include "engine.h"

/* Whole blocks of the driver, so that the dma-buf has no bytes of other users. */
#define BLOCK (2u << 20)

/* Moves *fd to 3 or above. */
static int export(struct queue_device *dev, struct queue_range *pages,
		  uint32_t flags, int *fd)
{
	int made, ret = dev->ops->export(dev, pages, flags, &made);

	return ret ? ret : raise_fd(made, fd);
}

static bool no_fd(void)
{
	return errno == EMFILE || errno == ENFILE;
}

/* After a call that makes a dma-buf: drivers return other results when no fd is left. */
static int without_fds(int ret)
{
	int fd = ret ? sys_eventfd(0) : -1;

	if (fd >= 0)
		close(fd);
	else if (ret && no_fd())
		return fail(-errno, "the process has no free fd for a dma-buf: %m");
	return ret;
}

/* Finds the whole pages around the tensor's bytes, all in one allocation. */
static int find_pages(struct queue_device *dev, const DLTensor *t, uintptr_t p,
		      struct queue_range *pages)
{
	uint64_t first, end, page = sysconf(_SC_PAGESIZE);
	struct queue_range all;
	DLTensor layout = *t;
	int ret;

	ret = dev->ops->range(dev, t->device.device_type, p, &all);
	if (ret)
		return ret;
	layout.data = NULL;
	layout.byte_offset = p - all.base;
	ret = dlbuf_layout_extent(&layout, &first, &end);
	if (ret)
		return ret;
	if (end > all.bytes)
		return fail(-EINVAL, "the tensor ends %llu bytes after its "
			    "allocation of %llu",
			    (unsigned long long)(end - all.bytes),
			    (unsigned long long)all.bytes);
	pages->base = (all.base + first) & ~(page - 1);
	end = (all.base + end + page - 1) & ~(page - 1);
	pages->bytes = end - pages->base;
	/* The rest of such a page may belong to another allocation. */
	if (pages->base < all.base || end > all.base + all.bytes)
		return fail(-EOPNOTSUPP, "the pages of the tensor are not its allocation's "
			    "alone: allocate whole pages");
	return 0;
}

int queue_export(struct dlbuf_device *base, const DLTensor *tensor,
		 const struct dlbuf_export_opts *opts,
		 struct dlbuf_exported *out)
{
	struct queue_device *dev = queue_device_of(base);
	uintptr_t p = (uintptr_t)tensor->data + tensor->byte_offset;
	struct queue_range pages = { 0 };
	struct queue_scope scope;
	int ret;

	ret = queue_enter(dev, &scope);
	if (ret)
		return ret;
	ret = find_pages(dev, tensor, p, &pages);
	if (!ret)
		ret = without_fds(export(dev, &pages, opts->flags, &out->fd));
	queue_leave(dev, &scope);
	out->offset = p - pages.base;
	out->bytes = pages.bytes;
	return ret;
}

/* ---------------------------------------------------------------- ours */

/* How many fds, mappings and imports there are of the file. Not 0: with errno. */
static int count_users(int fd, int *users)
{
	char text[512];
	const char *count;

	snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", fd);
	fd = sys_open(text, O_RDONLY);
	if (fd < 0)
		return fd;
	memset(text, 0, sizeof(text));
	(void)!read(fd, text, sizeof(text) - 1);
	close(fd);
	count = strstr(text, "\ncount:");
	*users = count ? atoi(count + 7) : 0;
	return 0;
}

/*
 * The count of a dma-buf that only this process holds: the smallest count seen so far. One
 * count alone may be too high by one: while another thread is in fork() or posix_spawn(), a
 * child has the fd for a moment, too.
 */
static int least_users(struct queue_device *dev, int users)
{
	int least = __atomic_load_n(&dev->users, __ATOMIC_RELAXED);

	while ((!least || users < least) &&
	       !__atomic_compare_exchange_n(&dev->users, &least, users, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return least && least < users ? least : users;
}

bool queue_is_held(const struct queue_memory *m)
{
	int users;

	return m->exported && (count_users(m->base.fd, &users) ||
			       users > least_users(m->dev, users));
}

static int alloc_memory(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;
	struct queue_range r;
	void *stream;
	int users, ret;

	m->flushes = dev->flushes;
	ret = dev->ops->alloc(m);
	if (!ret)
		ret = dev->ops->range(dev, dev->base.dl.device_type, m->data, &r);
	if (!ret && m->data & (sysconf(_SC_PAGESIZE) - 1))
		ret = fail(-EOPNOTSUPP, "%s: the driver gave no whole pages",
			   dev->base.name);
	if (!ret)
		ret = dev->ops->stream_create(dev, &stream);
	if (!ret)
		ret = queue_finish_own(dev, stream, dev->ops->clear(m, stream));
	r = (struct queue_range){ m->data, m->base.bytes };
	if (!ret)
		ret = export(dev, &r, 0, &m->base.fd);
	if (ret)
		return ret;
	if (r.base != m->data)
		ret = fail(-EOPNOTSUPP, "%s: the driver exports memory before the "
			   "allocation, too", dev->base.name);
	else if (count_users(m->base.fd, &users))
		ret = fail(no_fd() ? -errno : -EOPNOTSUPP, "whether others hold the dma-buf: "
			   "/proc/self/fdinfo: %m");
	if (!ret) {
		least_users(dev, users);
		m->exported = true;
		return 0;
	}
	close(m->base.fd);
	m->base.fd = -1;
	return ret;
}

int queue_alloc(struct import *imp)
{
	uint64_t bytes = queue_device_of(imp->dev)->least;

	if (bytes < imp->bytes)
		bytes = (imp->bytes + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
	if (bytes < imp->bytes)
		return fail(-EOVERFLOW, "the size does not fit 64 bits in blocks "
			    "of the driver's");
	imp->bytes = bytes;
	return without_fds(queue_import_by(imp, alloc_memory));
}
