// SPDX-License-Identifier: MIT
/* Devices with queues: parts and lifetime. */
#include <stdio.h>

#include "queue.h"

void queue_init(struct queue_device *dev, const struct queue_ops *ops)
{
	dev->ops = ops;
	dev->refs = 1;
	pthread_mutex_init(&dev->lock, NULL);
	pthread_cond_init(&dev->freed, NULL);
}

/* ret: of opening the bridge, which was not tried if there is a why_not. */
static void bridge_opened(struct queue_device *dev, int ret, const char *why_not)
{
	if (why_not || ret) {
		dev->bridge = NULL;
		dev->caps = (struct bridge_caps){ 0 };
		snprintf(dev->caps.why_not, sizeof(dev->caps.why_not), "%s",
			 why_not ? why_not : dlbuf_last_error());
		forget_failure();
	}
	dev->base.acquire_sync = dev->takes_fences || dev->caps.fences_in ||
				 dev->waits_for_words ||
				 dev->ops->user_event_wait ? DLBUF_SYNC_FENCE :
							     DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = dev->gives_fences || dev->caps.fences_out ?
				 DLBUF_SYNC_FENCE : DLBUF_SYNC_EVENT;
}

void queue_open_bridge(struct queue_device *dev, const uint8_t uuid[16],
		       const char *why_not)
{
	bridge_opened(dev, why_not ? 0 :
		      bridge_open(uuid, &dev->bridge, &dev->caps), why_not);
}

void queue_open_bridge_pci(struct queue_device *dev, uint64_t pci,
			   const char *why_not)
{
	bridge_opened(dev, why_not ? 0 :
		      bridge_open_pci(pci, &dev->bridge, &dev->caps), why_not);
}

void queue_describe(struct dlbuf_device *dev,
		    const struct dlbuf_device_info *known,
		    struct dlbuf_device_info *info)
{
	*info = *known;
	info->acquire = dev->acquire_sync;
	info->release = dev->release_sync;
	if (dev->acquire_sync == DLBUF_SYNC_BLOCKS)
		snprintf(info->reason, sizeof(info->reason), "blocks: the driver"
			 "'s streams do not wait for memory, and %.180s",
			 queue_device_of(dev)->caps.why_not);
}

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
	__atomic_store_n(&dev->lost, true, __ATOMIC_RELEASE);
	queue_works_lost(dev);
	if (dev->bridge)
		bridge_links_abandon(dev->bridge);
}

void queue_set_unsure(struct queue_device *dev)
{
	__atomic_store_n(&dev->unsure, 1, __ATOMIC_RELEASE);
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
	if (dev->unsure)
		dev->ops->finish_all(dev);
	queue_bridge_close(dev);
	queue_works_free(dev);
	queue_words_free(dev);
	queue_leave(dev, &scope);
	pthread_mutex_destroy(&dev->lock);
	pthread_cond_destroy(&dev->freed);
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
