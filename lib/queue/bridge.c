// SPDX-License-Identifier: MIT
/* The device's half of the bridge, see bridge.h. */
#include <errno.h>

#include "engine.h"

static void free_semaphore(struct bridge_link *link, void *data)
{
	struct queue_device *dev = data;

	if (link->user)
		dev->ops->semaphore_destroy(dev, link->user);
}

void queue_bridge_close(struct queue_device *dev)
{
	if (!dev->bridge)
		return;
	/* Transfers of a lost device never end: their links are abandoned. */
	if (dev->lost)
		bridge_links_abandon(dev->bridge);
	bridge_links_free(dev->bridge, free_semaphore, dev);
	bridge_close(dev->bridge);
}

/* Takes a link that has the semaphore imported by this device. */
static int link_get(struct queue_device *dev, struct bridge_link **out)
{
	struct bridge_link *link;
	int ret;

	ret = bridge_link_get(dev->bridge, &link);
	if (ret)
		return ret;
	if (!link->user) {
		ret = dev->ops->semaphore_import(dev, link->fd, &link->user);
		if (ret) {
			link->user = NULL;
			bridge_link_abandon(dev->bridge, link);
			return ret;
		}
		link->fd = -1;
	}
	*out = link;
	return 0;
}

static int wait_by_value(struct queue_device *dev, void *stream, int fence,
			 struct bridge_buffer *buffer)
{
	struct bridge_link *link;
	int ret;

	ret = link_get(dev, &link);
	if (ret)
		return ret;
	ret = bridge_in(dev->bridge, buffer, fence, link);
	if (ret) {
		bridge_link_abandon(dev->bridge, link);
		return ret;
	}
	__atomic_store_n(&link->theirs, false, __ATOMIC_SEQ_CST);
	ret = dev->ops->semaphore_use(dev, stream, link->user, link->value,
				      false);
	bridge_link_put(dev->bridge, link);
	return ret;
}

/* The work keeps the link's semaphore until the stream has waited for it. */
int queue_bridge_in(struct queue_device *dev, struct bridge_buffer *buffer,
		    void *stream, int fence)
{
	return queue_wait_by(dev, wait_by_value, stream, fence, buffer);
}

int queue_bridge_out(struct queue_device *dev, struct bridge_buffer *buffer,
		     void *stream, int *fence)
{
	struct bridge_link *link;
	int ret;

	ret = link_get(dev, &link);
	if (ret)
		return ret;
	/* A loss signals the value. If the loss was earlier, this check finds it. */
	__atomic_store_n(&link->theirs, true, __ATOMIC_SEQ_CST);
	ret = __atomic_load_n(&dev->lost, __ATOMIC_SEQ_CST) ?
	      fail(-EIO, "%s is lost", dev->base.name) :
	      dev->ops->semaphore_use(dev, stream, link->user, link->value, true);
	if (ret) {
		bridge_link_abandon(dev->bridge, link);
		return ret;
	}
	ret = bridge_out(dev->bridge, buffer, link, fence);
	bridge_link_put(dev->bridge, link);
	return ret;
}

int queue_bridge_import(struct queue_memory *m, int dma_buf)
{
	struct queue_device *dev = m->dev;
	uint64_t allocated;
	bool dedicated;
	int fd, ret;

	if (!dev->caps.buffers)
		return fail(-EOPNOTSUPP, "%s", dev->caps.why_not);
	ret = bridge_buffer_create(dev->bridge, dma_buf, m->base.bytes, &m->buffer,
				   &fd, &allocated, &dedicated);
	if (ret) {
		m->buffer = NULL;
		return ret;
	}
	ret = dev->ops->import_shared(m, fd, allocated, dedicated);
	if (ret && !m->handle)
		close(fd);
	return ret;
}
