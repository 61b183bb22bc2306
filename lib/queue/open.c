// SPDX-License-Identifier: MIT
/* Finds and opens devices with queues. */
#include <stdio.h>

#include "../import/select.h"
#include "engine.h"

/* Makes a device that is not open yet. *n: the number of the driver's devices. */
static int load_driver(const struct backend *backend, const struct queue_ops *ops,
		       struct queue_device **out, unsigned int *n)
{
	struct queue_device *dev = sys_calloc(1, ops->size);
	int ret;

	if (!dev)
		return -ENOMEM;
	dev->ops = ops;
	dev->base.backend = backend;
	*n = 0;
	ret = ops->count(dev, n);
	if (!ret && !*n)
		ret = fail(-ENODEV, "%s: the driver has no device", backend->name);
	if (ret) {
		free(dev);
		return ret;
	}
	*out = dev;
	return 0;
}

int queue_probe(struct queue_device *dev, unsigned int n)
{
	const struct backend *backend = dev->base.backend;
	struct dlbuf_device_info *info = &dev->info;

	*info = (struct dlbuf_device_info){
		.size = sizeof(*info),
		.device = { backend->type, n },
		.acquire = dev->ops->user_event_wait ? DLBUF_SYNC_FENCE :
						       DLBUF_SYNC_BLOCKS,
		.release = DLBUF_SYNC_EVENT,
		.pitch_align = 64,
		.offset_align = 64,
	};
	dev->place = (struct device_place){ 0 };
	snprintf(info->backend, sizeof(info->backend), "%s", backend->name);
	snprintf(info->name, sizeof(info->name), "%s:%u", backend->name, n);
	return dev->ops->probe(dev, n);
}

int queue_each(const struct backend *backend, const struct queue_ops *ops,
	       dlbuf_device_fn fn, void *data)
{
	struct queue_device *dev;
	unsigned int n;
	int ret = load_driver(backend, ops, &dev, &n);

	if (ret)
		return ret;
	for (unsigned int i = 0; !ret && i < n; i++) {
		dev->info.status = queue_probe(dev, i);
		if (dev->info.status) {
			snprintf(dev->info.reason, sizeof(dev->info.reason),
				 "%s", dlbuf_last_error());
			forget_failure();
		}
		ret = fn(&dev->info, data);
	}
	free(dev);
	return ret;
}

static void open_bridge(struct queue_device *dev)
{
	const char *why_not = dev->no_bridge;
	int ret = 0;

	if (!why_not)
		ret = bridge_open(dev->ops->semaphore_use ? dev->info.uuid : NULL,
				  dev->place.pci, &dev->bridge, &dev->caps);
	if (ret) {
		dev->caps = (struct bridge_caps){ 0 };
		dev->bridge = NULL;
		why_not = dlbuf_last_error();
	}
	if (why_not)
		snprintf(dev->caps.why_not, sizeof(dev->caps.why_not), "%s",
			 why_not);
	if (ret)
		forget_failure();
}

/* Opens the device of the last probe; frees it after a failure. */
static int start_device(struct queue_device *dev, uint32_t flags)
{
	struct queue_scope scope;
	int ret;

	dev->base.dl.device_id = dev->info.device.device_id;
	snprintf(dev->base.name, sizeof(dev->base.name), "%s", dev->info.name);
	dev->refs = 1;
	pthread_mutex_init(&dev->lock, NULL);
	ret = dev->ops->start(dev, flags);
	if (!ret)
		ret = queue_enter(dev, &scope);
	if (!ret) {
		ret = queue_gate_join(dev);
		if (ret)
			queue_leave(dev, &scope);
	}
	if (ret) {
		pthread_mutex_destroy(&dev->lock);
		dev->ops->destroy(dev);
		return ret;
	}
	dev->waits_for_words = dev->waits_for_words && queue_try_words(dev);
	open_bridge(dev);
	queue_leave(dev, &scope);
	dev->base.acquire_sync = dev->takes_fences || dev->caps.fences_in ||
				 dev->waits_for_words ||
				 dev->ops->user_event_wait ? DLBUF_SYNC_FENCE :
							     DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = dev->gives_fences || dev->caps.fences_out ?
				 DLBUF_SYNC_FENCE : DLBUF_SYNC_EVENT;
	return 0;
}

static int find_selected(struct queue_device *dev, unsigned int n, const void *text)
{
	struct selector s;
	int ret = selector_begin(&s, dev->base.backend->name, text, n);

	if (ret)
		return ret;
	while (selector_next(&s))
		if (selector_takes(&s, queue_probe(dev, s.at), &dev->info,
				   &dev->place))
			return 0;
	return selector_none(&s);
}

/* Opens the device that find() probes. */
static int open_found(const struct backend *backend, const struct queue_ops *ops, bool wrapped,
		      queue_find_fn find, const void *data, uint32_t flags,
		      struct dlbuf_device **out)
{
	struct queue_device *dev;
	unsigned int n;
	int ret = load_driver(backend, ops, &dev, &n);

	if (ret)
		return ret;
	dev->base.wrapped = wrapped;
	ret = find(dev, n, data);
	if (ret)
		free(dev);
	else
		ret = start_device(dev, flags);
	if (!ret)
		*out = &dev->base;
	return ret;
}

int queue_open(const struct backend *backend, const struct queue_ops *ops,
	       const char *selector, const struct dlbuf_device_opts *opts,
	       struct dlbuf_device **out)
{
	return open_found(backend, ops, false, find_selected, selector, opts->flags, out);
}

int queue_wrap(const struct backend *backend, const struct queue_ops *ops, queue_find_fn find,
	       const void *theirs, const struct dlbuf_device_opts *opts,
	       struct dlbuf_device **out)
{
	struct dlbuf_device_opts o;
	int ret = device_opts_get(&o, opts);

	if (!ret)
		ret = open_found(backend, ops, true, find, theirs, o.flags, out);
	if (ret)
		return ret;
	device_init(*out, backend, &o);
	log_at(DLBUF_LOG_INFO, "wrapped the application's context as %s", (*out)->name);
	return 0;
}

void queue_describe(struct dlbuf_device *base, struct dlbuf_device_info *info)
{
	struct queue_device *dev = queue_device_of(base);

	*info = dev->info;
	info->acquire = base->acquire_sync;
	info->release = base->release_sync;
	if (base->acquire_sync == DLBUF_SYNC_BLOCKS)
		snprintf(info->reason, sizeof(info->reason), "blocks: the driver"
			 "'s streams do not wait for memory, and %.180s",
			 dev->caps.why_not);
}
