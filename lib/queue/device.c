// SPDX-License-Identifier: MIT
/* Devices with queues: parts and lifetime. See open.c for their begin. */
#include <errno.h>

#include "../dmabuf/fence.h"
#include "engine.h"

void queue_lost(struct queue_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	__atomic_store_n(&dev->lost, true, __ATOMIC_SEQ_CST);
	queue_calls_cancel(dev);
	if (!dev->calls)
		queue_works_lost(dev);
	pthread_mutex_unlock(&dev->lock);
	if (dev->bridge)
		bridge_links_abandon(dev->bridge);
}

int queue_finish_own(struct queue_device *dev, void *stream, int ret)
{
	if (!ret) {
		ret = dev->ops->finish(dev, stream);
		if (ret)
			queue_set_unsure(dev);
	}
	dev->ops->stream_destroy(dev, stream);
	return ret;
}

void queue_ref(struct queue_device *dev)
{
	__atomic_fetch_add(&dev->refs, 1, __ATOMIC_RELAXED);
}

/* Frees the words once all streams have read them, and no free waits for a fence. */
static bool end_device(struct event_call *call)
{
	struct queue_device *dev = container_of(call, struct queue_device, ending);
	struct queue_scope scope;
	bool none;

	queue_gate_note(dev, &dev->ended);
	queue_enter_to_free(dev, &scope);
	none = queue_reap(dev, &dev->waits) && queue_gate_close(dev, &dev->ended, false);
	if (none) {
		queue_finish_join(dev);
		queue_bridge_close(dev);
		queue_works_free(dev);
		queue_words_free(dev);
	}
	queue_leave(dev, &scope);
	if (none) {
		queue_gate_leave(dev);
		/*
		 * destroy() may find a loss and take the lock, so the lock still works. It
		 * has nothing to free.
		 */
		dev->ops->destroy(dev);
	}
	return none;
}

void queue_unref(struct queue_device *dev)
{
	struct timespec pause = PAUSE_FIRST;

	if (__atomic_sub_fetch(&dev->refs, 1, __ATOMIC_ACQ_REL) || end_device(&dev->ending))
		return;
	if (!event_promise()) {
		dev->ending.fn = end_device;
		event_post(&dev->ending);
		return;
	}
	forget_failure();
	while (!end_device(&dev->ending))
		pause_until(&pause, 0);
}

void queue_close(struct dlbuf_device *base)
{
	struct queue_device *dev = queue_device_of(base);

	queue_poll_end(dev);
	queue_unref(dev);
}
