// SPDX-License-Identifier: MIT
/*
 * The public functions of what this configuration leaves out. The library's
 * symbols do not depend on its configuration; what is not built in says so.
 */
#include <errno.h>
#include <stdint.h>

#include <dlbuf/cuda.h>
#include <dlbuf/heap.h>
#include <dlbuf/udmabuf.h>

#include "internal.h"

#ifndef CONFIG_EXPORTER_UDMABUF
static int no_udmabuf(void)
{
	return fail(-ENOSYS, "udmabuf is not built into this library");
}

int dlbuf_udmabuf_create(uint64_t bytes, const struct dlbuf_udmabuf_opts *opts,
			 struct dlbuf_udmabuf *out)
{
	(void)bytes, (void)opts, (void)out;
	return no_udmabuf();
}

int dlbuf_udmabuf_create_list(const struct dlbuf_udmabuf_item *items,
			      size_t nitems,
			      const struct dlbuf_udmabuf_opts *opts, int *fd)
{
	(void)items, (void)nitems, (void)opts, (void)fd;
	return no_udmabuf();
}

int dlbuf_udmabuf_remember(int fd, int memfd)
{
	(void)fd, (void)memfd;
	return no_udmabuf();
}

void dlbuf_udmabuf_close(struct dlbuf_udmabuf *buf)
{
	(void)buf; /* nobody can have made one */
}
#endif

#ifndef CONFIG_EXPORTER_HEAP
int dlbuf_heap_alloc(const char *heap, uint64_t bytes,
		     const struct dlbuf_heap_opts *opts, int *fd)
{
	(void)heap, (void)bytes, (void)opts, (void)fd;
	return fail(-ENOSYS, "dma-heap is not built into this library");
}
#endif

#ifndef CONFIG_BACKEND_CUDA
static int no_cuda(void)
{
	return fail(-ENOSYS, "backend cuda is not built into this library");
}

int dlbuf_device_wrap_cuda(void *context, const struct dlbuf_device_opts *opts,
			   struct dlbuf_device **out)
{
	(void)context, (void)opts, (void)out;
	return no_cuda();
}

int dlbuf_cuda_get_device(struct dlbuf_device *dev,
			  struct dlbuf_cuda_device *cuda)
{
	(void)dev, (void)cuda;
	return no_cuda();
}
#endif

#ifndef CONFIG_BACKEND_VULKAN
/* Declared by hand: dlbuf/vulkan.h needs headers that need not be here. */
DLBUF_API int dlbuf_device_wrap_vulkan(const void *vk, const void *opts,
				       void **out);
DLBUF_API int dlbuf_vulkan_get_device(void *dev, void *vk);
DLBUF_API int dlbuf_vulkan_lock_queue(void *dev, void *queue);
DLBUF_API int dlbuf_vulkan_unlock_queue(void *dev, void *queue);

static int no_vulkan(void)
{
	return fail(-ENOSYS, "backend vulkan is not built into this library");
}

int dlbuf_device_wrap_vulkan(const void *vk, const void *opts, void **out)
{
	(void)vk, (void)opts, (void)out;
	return no_vulkan();
}

int dlbuf_vulkan_get_device(void *dev, void *vk)
{
	(void)dev, (void)vk;
	return no_vulkan();
}

int dlbuf_vulkan_lock_queue(void *dev, void *queue)
{
	(void)dev, (void)queue;
	return no_vulkan();
}

int dlbuf_vulkan_unlock_queue(void *dev, void *queue)
{
	(void)dev, (void)queue;
	return no_vulkan();
}
#endif
