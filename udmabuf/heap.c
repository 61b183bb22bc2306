// SPDX-License-Identifier: MIT
/* The exporter for dma-heaps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <linux/dma-heap.h>

#include <dlbuf/heap.h>

#include "../lib/alloc/exporter.h"
#include "../lib/system/internal.h"
#include "../lib/system/node.h"
#include "../lib/system/sys.h"

#define NODES "/dev/dma_heap"

static int open_heap(const char *heap, int *fd)
{
	char path[64 + sizeof(NODES)];

	/* A name that begins with a dot could be another folder. */
	if (!heap || !heap[0] || heap[0] == '.' || strchr(heap, '/') ||
	    strlen(heap) > 63)
		return fail(-EINVAL, "'%s' cannot be the name of a dma-heap",
			    heap ? heap : "");
	snprintf(path, sizeof(path), NODES "/%s", heap);
	/* Opening for reading is enough to allocate. */
	*fd = sys_open(path, O_RDONLY);
	return *fd >= 0 ? 0 : fail_open(path);
}

int dlbuf_heap_alloc(const char *heap, uint64_t bytes,
		     const struct dlbuf_heap_opts *src, int *out)
{
	NOT_CANCELLED;
	struct dma_heap_allocation_data data = { .len = bytes };
	struct dlbuf_heap_opts o;
	int node = -1, fd, ret;

	if (!out)
		return fail(-EINVAL, "fd is NULL");
	ret = OPTS_GET(&o, src, "dlbuf_heap_opts");
	if (!ret)
		ret = exporter_check_name(o.name);
	if (ret)
		return ret;
	if (o.flags)
		return unknown_flags("heap", o.flags);
	if (o.access && o.access != DLBUF_READ && o.access != DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ or RW", o.access);
	if (!bytes)
		return fail(-EINVAL, "a dma-buf cannot have 0 bytes");
	ret = exporter_check_size(bytes);
	if (ret)
		return ret;
	data.fd_flags = O_CLOEXEC | (o.access == DLBUF_READ ? O_RDONLY : O_RDWR);
	ret = open_heap(heap, &node);
	if (ret)
		return ret;
	if (sys_ioctl(node, DMA_HEAP_IOCTL_ALLOC, &data) < 0) {
		ret = fail(errno == ENOMEM || errno == EMFILE || errno == ENFILE ?
			   -errno : -EIO, "DMA_HEAP_IOCTL_ALLOC of %llu bytes from %s: %m",
			   (unsigned long long)bytes, heap);
		goto out_node;
	}
	fd = sys_high(data.fd);
	if (fd < 0) {
		ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
		goto out_node;
	}
	if (o.name)
		ret = exporter_set_name(fd, o.name);
	if (ret)
		close(fd);
	else
		*out = fd;

out_node:
	close(node);
	return ret;
}

static int heap_alloc(const char *selector, uint64_t bytes, const char *name,
		      int *fd, int *memfd)
{
	DLBUF_OPTS(dlbuf_heap_opts, o, .name = name);

	(void)memfd;
	return dlbuf_heap_alloc(selector[0] ? selector : "system", bytes, &o,
				fd);
}

static int heap_each(int (*fn)(const char *name, const char *node, void *data),
		     void *data)
{
	char name[300], node[300];
	struct dirent *e;
	DIR *dir = opendir(NODES);
	bool found = false;
	int ret = 0;

	while (dir && !ret && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "heap:%s", e->d_name);
		snprintf(node, sizeof(node), NODES "/%s", e->d_name);
		found = true;
		ret = fn(name, node, data);
	}
	if (dir)
		closedir(dir);
	/* The folder is missing, or empty as in some containers. */
	return found ? ret : fn("heap", NODES, data);
}

const struct exporter heap_exporter = {
	.name = "heap",
	.alloc = heap_alloc,
	.each = heap_each,
};
