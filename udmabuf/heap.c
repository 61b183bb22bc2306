// SPDX-License-Identifier: MIT
/* The exporter for dma-heaps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <linux/dma-heap.h>

#include "../lib/alloc/exporter.h"
#include "../lib/system/internal.h"
#include "../lib/system/node.h"
#include "../lib/system/sys.h"

#define NODES "/dev/dma_heap"

static int open_heap(const char *heap, int *fd)
{
	char path[64 + sizeof(NODES)];

	/* A name that begins with a dot may be another folder. */
	if (heap[0] == '.' || strchr(heap, '/') || strlen(heap) > 63)
		return fail(-EINVAL, "'%s' cannot be the name of a dma-heap", heap);
	snprintf(path, sizeof(path), NODES "/%s", heap);
	/* Opening for reading is enough to allocate. */
	*fd = sys_open(path, O_RDONLY);
	return *fd >= 0 ? 0 : fail_open(path);
}

static int heap_alloc(const char *selector, uint64_t bytes, const char *name,
		      int *out, int *memfd)
{
	struct dma_heap_allocation_data data = {
		.len = bytes, .fd_flags = O_RDWR | O_CLOEXEC,
	};
	const char *heap = selector[0] ? selector : "system";
	int node = -1, fd, ret = exporter_check_name(name);

	(void)memfd;
	if (!ret && !bytes)
		ret = fail(-EINVAL, "a dma-buf cannot have 0 bytes");
	if (!ret)
		ret = exporter_check_size(bytes);
	if (!ret)
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
	if (name)
		ret = exporter_set_name(fd, name);
	if (ret)
		close(fd);
	else
		*out = fd;

out_node:
	close(node);
	return ret;
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
