// SPDX-License-Identifier: MIT
/* The exporters of the matrix, each with its own way to touch its buffer. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "matrix.h"

int tensor_io(const struct access *access, DLManagedTensorVersioned *t, uint64_t offset,
	      void *dst, const void *src, size_t bytes)
{
	int ret = dlbuf_acquire(t, src ? DLBUF_WRITE : DLBUF_READ, NULL, NULL), io;

	if (ret)
		return fail_dlbuf(ret);
	io = src ? access->write(t, offset, src, bytes) :
		   access->read(t, offset, dst, bytes);
	ret = dlbuf_release(t, NULL, NULL);
	if (io)
		return fail(STATUS_SYSTEM, "the device does not %s %zu bytes at offset "
			    "%llu: %s", src ? "write" : "read", bytes,
			    (unsigned long long)offset, strerror(-io));
	return ret ? fail_dlbuf(ret) : 0;
}

static int buffer_io(struct buffer *b, uint64_t offset, void *dst, const void *src,
		     size_t bytes)
{
	uint64_t flags = src ? DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_READ;
	int status;

	if (b->t)
		return b->access ? tensor_io(b->access, b->t, offset, dst, src, bytes) :
		       fail(STATUS_ABSENT, "this tool cannot touch the exporter's memory");
	status = bracket(b->fd, DMA_BUF_SYNC_START | flags);
	if (status)
		return status;
	if (src)
		memcpy(b->map + offset, src, bytes);
	else
		memcpy(dst, b->map + offset, bytes);
	return bracket(b->fd, DMA_BUF_SYNC_END | flags);
}

int buffer_read(struct buffer *b, uint64_t offset, void *dst, size_t bytes)
{
	return buffer_io(b, offset, dst, NULL, bytes);
}

int buffer_write(struct buffer *b, uint64_t offset, const void *src, size_t bytes)
{
	return buffer_io(b, offset, NULL, src, bytes);
}

/* ---------------------------------------------------------------- each kind */

static int open_udmabuf(struct buffer *b, const char *exporter, uint64_t bytes)
{
	DLBUF_OPTS(dlbuf_udmabuf_opts, opts, .name = "dmabuf-test",
		   .flags = strcmp(exporter, "udmabuf") ? DLBUF_UDMABUF_2M : 0);
	int ret = dlbuf_udmabuf_create(bytes, &opts, &b->udmabuf);

	b->fd = b->udmabuf.fd;
	return ret ? fail_dlbuf(ret) : 0;
}

static int open_heap(struct buffer *b, const char *exporter, uint64_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter, .name = "dmabuf-test");
	int ret = dlbuf_alloc_fd(bytes, &opts, &b->fd);

	return ret ? fail_dlbuf(ret) : 0;
}

static int open_device(struct buffer *b, const char *device, uint64_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLBUF_INFO(dlbuf_tensor_info, info);
	int64_t shape = bytes;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &shape };
	int ret = dlbuf_device_open(device, NULL, &b->dev);

	if (!ret)
		ret = dlbuf_alloc(&b->dev, 1, &layout, &opts, &b->t);
	if (!ret)
		ret = dlbuf_tensor_get_info(b->t, &info);
	if (ret)
		return fail_dlbuf(ret);
	b->fd = info.fd;
	b->bytes = bytes;
	b->access = access_find(device);
	return 0;
}

static int open_kind(struct buffer *b, const char *exporter, uint64_t bytes)
{
	const char *rest = strchr(exporter, ':');

	if (!strncmp(exporter, "udmabuf", 7))
		return open_udmabuf(b, exporter, bytes);
	if (!strncmp(exporter, "dumb:", 5))
		return drm_buffer_open(b, rest + 1, bytes);
	if (!strncmp(exporter, "v4l2:", 5))
		return v4l2_buffer_open(b, rest + 1, false);
	if (!strncmp(exporter, "v4l2-out:", 9))
		return v4l2_buffer_open(b, rest + 1, true);
	if (!strncmp(exporter, "device:", 7))
		return open_device(b, rest + 1, bytes);
	return open_heap(b, exporter, bytes);
}

static int map_buffer(struct buffer *b)
{
	DLBUF_INFO(dlbuf_buffer_info, info);
	void *map;
	int ret;

	if (b->t || b->map)
		return 0;
	ret = dlbuf_buffer_query(b->fd, &info);
	if (ret)
		return fail_dlbuf(ret);
	map = mmap(NULL, info.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (map == MAP_FAILED)
		return fail(STATUS_SYSTEM, "mmap() of the dma-buf: %s", strerror(errno));
	b->map = map;
	b->mapped = b->bytes = info.bytes;
	return 0;
}

int buffer_open(struct buffer *b, const char *exporter, uint64_t bytes)
{
	int status;

	*b = (struct buffer)NO_BUFFER;
	status = open_kind(b, exporter, bytes);
	if (!status)
		status = map_buffer(b);
	if (status)
		buffer_close(b);
	return status;
}

void buffer_close(struct buffer *b)
{
	if (b->t)
		b->t->deleter(b->t);
	dlbuf_device_close(b->dev);
	if (b->map)
		munmap(b->map, b->mapped);
	if (b->udmabuf.fd >= 0)
		dlbuf_udmabuf_close(&b->udmabuf);
	else if (b->fd >= 0 && !b->dev)
		close(b->fd);
	if (b->type)
		v4l2_buffer_close(b);
	else if (b->node >= 0)
		drm_buffer_close(b);
	*b = (struct buffer)NO_BUFFER;
}
