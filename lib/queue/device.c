// SPDX-License-Identifier: MIT
/* Devices with queues: parts and lifetime. See open.c for their begin. */
#include "queue.h"

int queue_enter(struct queue_device *dev, struct queue_scope *scope)
{
	return dev->ops->enter ? dev->ops->enter(dev, scope, false) : 0;
}

void queue_enter_to_free(struct queue_device *dev, struct queue_scope *scope)
{
	if (dev->ops->enter)
		dev->ops->enter(dev, scope, true);
}

void queue_leave(struct queue_device *dev, const struct queue_scope *scope)
{
	if (dev->ops->leave)
		dev->ops->leave(dev, scope);
}

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

void queue_unref(struct queue_device *dev)
{
	struct queue_scope scope;

	if (__atomic_sub_fetch(&dev->refs, 1, __ATOMIC_ACQ_REL))
		return;
	queue_enter_to_free(dev, &scope);
	queue_finish_end(dev);
	queue_bridge_close(dev);
	queue_works_free(dev);
	queue_words_free(dev);
	queue_leave(dev, &scope);
	/* It may see a loss, and take the lock: queue_lost(). Nothing is in a lock to free. */
	dev->ops->destroy(dev);
}

/* Frees the words once all streams have read them. */
static bool close_later(struct event_call *call)
{
	struct queue_device *dev = container_of(call, struct queue_device,
						closing);
	struct queue_scope scope;
	bool none;

	queue_enter_to_free(dev, &scope);
	none = queue_reap(dev, &dev->waits);
	queue_leave(dev, &scope);
	if (none)
		queue_unref(dev);
	return none;
}

void queue_close(struct dlbuf_device *base)
{
	struct queue_device *dev = queue_device_of(base);
	struct queue_scope scope;

	queue_poll_end(dev);
	queue_enter_to_free(dev, &scope);
	if (!queue_reap(dev, &dev->waits)) {
		if (!event_promise()) {
			queue_leave(dev, &scope);
			dev->closing.fn = close_later;
			event_post(&dev->closing);
			return;
		}
		forget_failure();
	}
	queue_work_finish(dev, &dev->waits);
	queue_leave(dev, &scope);
	queue_unref(dev);
}
