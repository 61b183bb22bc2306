// SPDX-License-Identifier: MIT
/* Devices with queues: parts and lifetime. See open.c for their begin. */
#include <errno.h>

#include "../dmabuf/fence.h"
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

int queue_failed(struct queue_device *dev, int error)
{
	const struct queue_ops *ops = dev->ops;
	void *event = NULL, *stream = NULL;
	int ret = 0;

	if (error != -EIO && error != -ENODEV)
		return error;
	if (!ops->event_create)
		ret = ops->stream(dev, NULL, false, &stream);
	if (!ret)
		ret = ops->event_create ? ops->event_create(dev, &event) :
					  ops->event_record(dev, &event, stream);
	if (!ret)
		ops->event_destroy(dev, event);
	else if (ret == error)
		queue_lost(dev);
	return error;
}

int queue_find_stream(struct queue_device *dev, void *handle, bool ends, void **stream)
{
	return queue_failed(dev, dev->ops->stream(dev, handle, ends, stream));
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
static bool end(struct event_call *call)
{
	struct queue_device *dev = container_of(call, struct queue_device, ending);
	struct queue_scope scope;
	bool none;

	queue_gate_note(dev, &dev->ended);
	queue_enter_to_free(dev, &scope);
	none = queue_reap(dev, &dev->waits) && queue_gate_close(dev, &dev->ended, false);
	if (none) {
		queue_finish_end(dev);
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

	if (__atomic_sub_fetch(&dev->refs, 1, __ATOMIC_ACQ_REL) || end(&dev->ending))
		return;
	if (!event_promise()) {
		dev->ending.fn = end;
		event_post(&dev->ending);
		return;
	}
	forget_failure();
	while (!end(&dev->ending))
		pause_until(&pause, 0);
}

void queue_close(struct dlbuf_device *base)
{
	struct queue_device *dev = queue_device_of(base);

	queue_poll_end(dev);
	queue_unref(dev);
}
