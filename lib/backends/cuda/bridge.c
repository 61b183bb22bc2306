// SPDX-License-Identifier: MIT
/* The bridge to Vulkan, see vulkan/bridge.h: CUDA's half of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

#ifdef CONFIG_BACKEND_VULKAN

void cuda_bridge_open(struct cuda_device *dev)
{
	struct vulkan_bridge_caps caps = { 0 };
	int ret;

	ret = vulkan_bridge_open(dev->gpu.info.uuid, &dev->bridge, &caps);
	if (ret) {
		snprintf(dev->caps.why_not, sizeof(dev->caps.why_not), "%s",
			 dlbuf_last_error());
		forget_failure();
		dev->bridge = NULL;
		return;
	}
	dev->caps = caps;
	if (!dev->gpu.timelines)
		snprintf(dev->caps.why_not, sizeof(dev->caps.why_not),
			 "the driver shares no timeline semaphores");
	/* Copies, too, are ordered by values. */
	if (!dev->gpu.timelines)
		dev->caps.buffers = dev->caps.fences_in =
			dev->caps.fences_out = false;
}

static void free_semaphore(struct vulkan_link *link, void *data)
{
	struct cuda_device *dev = data;

	if (link->user)
		dev->cu.DestroyExternalSemaphore(link->user);
}

void cuda_bridge_lost(struct cuda_device *dev)
{
	if (dev->bridge)
		vulkan_links_abandon(dev->bridge);
}

void cuda_bridge_close(struct cuda_device *dev)
{
	if (!dev->bridge)
		return;
	/* One that was under way when the others were. */
	if (dev->lost)
		vulkan_links_abandon(dev->bridge);
	vulkan_links_free(dev->bridge, free_semaphore, dev);
	vulkan_bridge_close(dev->bridge);
}

/* A link with CUDA's semaphore of it. */
static int link_get(struct cuda_device *dev, struct vulkan_link **out)
{
	struct cuda_semaphore_desc desc = {
		.type = CUABI_SEMAPHORE_TIMELINE_FD,
	};
	cuda_external_semaphore semaphore;
	struct vulkan_link *link;
	int ret;

	ret = vulkan_link_get(dev->bridge, &link);
	if (ret)
		return ret;
	if (!link->user) {
		desc.handle.fd = link->fd;
		ret = CUDA_DO(dev, ImportExternalSemaphore, &semaphore, &desc);
		if (ret) {
			vulkan_link_abandon(dev->bridge, link);
			return ret;
		}
		link->fd = -1;
		link->user = semaphore;
	}
	*out = link;
	return 0;
}

int cuda_bridge_in(struct cuda_device *dev, struct vulkan_bridge_buffer *buffer,
		   cuda_stream stream, int fence)
{
	struct cuda_semaphore_params wait = { 0 };
	cuda_external_semaphore semaphore;
	struct vulkan_link *link;
	struct cuda_work *work;
	int ret;

	/* The semaphore stays until the stream has waited, as a flag does. */
	ret = cuda_wait_get(dev, &work);
	if (ret)
		return ret;
	ret = link_get(dev, &link);
	if (ret)
		goto err_work;
	ret = vulkan_bridge_in(dev->bridge, buffer, fence, link);
	if (ret) {
		vulkan_link_abandon(dev->bridge, link);
		goto err_work;
	}
	link->theirs = false;
	wait.value = link->value;
	semaphore = link->user;
	ret = CUDA_DO(dev, WaitExternalSemaphoresAsync, &semaphore, &wait, 1,
		      stream);
	vulkan_link_put(dev->bridge, link);
	if (!ret)
		return cuda_wait_begin(dev, work, stream);

err_work:
	cuda_wait_abandon(dev, work);
	return ret;
}

int cuda_bridge_out(struct cuda_device *dev,
		    struct vulkan_bridge_buffer *buffer, cuda_stream stream,
		    int *fence)
{
	struct cuda_semaphore_params signal = { 0 };
	cuda_external_semaphore semaphore;
	struct vulkan_link *link;
	int ret;

	ret = link_get(dev, &link);
	if (ret)
		return ret;
	link->theirs = true;
	signal.value = link->value;
	semaphore = link->user;
	ret = CUDA_DO(dev, SignalExternalSemaphoresAsync, &semaphore, &signal, 1,
		      stream);
	if (ret) {
		vulkan_link_abandon(dev->bridge, link);
		return ret;
	}
	ret = vulkan_bridge_out(dev->bridge, buffer, link, fence);
	vulkan_link_put(dev->bridge, link);
	return ret;
}

int cuda_bridge_import(struct cuda_import *ci)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	struct cuda_memory_desc desc = { .type = CUABI_MEMORY_OPAQUE_FD };
	struct cuda_buffer_desc whole = { .size = m->bytes };
	uint64_t allocated;
	bool dedicated;
	int fd, ret;

	if (!dev->caps.buffers)
		return fail(-EOPNOTSUPP, "%s", dev->caps.why_not);
	ret = vulkan_bridge_buffer_create(dev->bridge, ci->base.fd, m->bytes,
					  &m->buffer, &fd, &allocated,
					  &dedicated);
	if (ret) {
		m->buffer = NULL;
		return ret;
	}
	desc.handle.fd = fd;
	desc.size = allocated;
	desc.flags = dedicated ? CUABI_EXTERNAL_MEMORY_DEDICATED : 0;
	ret = CUDA_DO(dev, ImportExternalMemory, &m->external, &desc);
	if (ret) {
		close(fd);
		return ret;
	}
	return CUDA_DO(dev, ExternalMemoryGetMappedBuffer, &m->pointer,
		       m->external, &whole);
}

void cuda_bridge_unimport(struct cuda_memory *m)
{
	vulkan_bridge_buffer_destroy(m->buffer);
}

#else

void cuda_bridge_open(struct cuda_device *dev)
{
	snprintf(dev->caps.why_not, sizeof(dev->caps.why_not),
		 "backend vulkan is not built into this library");
}

void cuda_bridge_close(struct cuda_device *dev)
{
	(void)dev;
}

void cuda_bridge_lost(struct cuda_device *dev)
{
	(void)dev;
}

int cuda_bridge_in(struct cuda_device *dev, struct vulkan_bridge_buffer *buffer,
		   cuda_stream stream, int fence)
{
	(void)buffer, (void)stream, (void)fence;
	return fail(-ENOSYS, "%s", dev->caps.why_not);
}

int cuda_bridge_out(struct cuda_device *dev,
		    struct vulkan_bridge_buffer *buffer, cuda_stream stream,
		    int *fence)
{
	(void)fence;
	return cuda_bridge_in(dev, buffer, stream, -1);
}

int cuda_bridge_import(struct cuda_import *ci)
{
	return fail(-EOPNOTSUPP, "%s", ci->memory->dev->caps.why_not);
}

void cuda_bridge_unimport(struct cuda_memory *m)
{
	(void)m;
}

#endif
