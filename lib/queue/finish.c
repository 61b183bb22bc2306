// SPDX-License-Identifier: MIT
/*
 * Waits for all streams of a device: for work whose stream was destroyed, and after calls
 * that have failed. "dlbuf-events" must not wait for streams, because a stream may
 * wait for a call of that thread. So another thread waits, which runs as long as
 * callers ask for it.
 */
#include "engine.h"

static void *finish_streams(void *arg)
{
	struct queue_device *dev = arg;
	struct queue_finish *f = &dev->finish;
	struct queue_scope scope;
	uint64_t n;
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	while (!ret && f->done < f->wanted) {
		n = ++f->begun;
		pthread_mutex_unlock(&dev->lock);
		ret = queue_enter(dev, &scope);
		if (!ret) {
			ret = queue_failed(dev, dev->ops->finish_all(dev));
			queue_leave(dev, &scope);
		}
		pthread_mutex_lock(&dev->lock);
		f->done = ret ? f->done : n;
	}
	/* After a failure the next caller tries again. */
	f->runs = false;
	pthread_mutex_unlock(&dev->lock);
	return NULL;
}

void queue_finish_join(struct queue_device *dev)
{
	if (dev->finish.started)
		pthread_join(dev->finish.thread, NULL);
	dev->finish.started = false;
}

bool queue_finished(struct queue_device *dev, uint64_t n)
{
	struct queue_finish *f = &dev->finish;

	if (f->done >= n || dev->lost)
		return f->done >= n || !dev->calls;
	f->wanted = f->wanted < n ? n : f->wanted;
	if (f->runs)
		return false;
	queue_finish_join(dev);
	f->started = f->runs = !sys_thread(&f->thread, finish_streams, dev);
	if (f->runs)
		pthread_setname_np(f->thread, "dlbuf-finish");
	else
		forget_failure();
	return false;
}

bool queue_is_unsure(struct queue_device *dev)
{
	if (dev->unsure && queue_finished(dev, dev->unsure))
		dev->unsure = 0;
	return dev->unsure;
}

bool queue_finish_ended(struct queue_device *dev)
{
	bool ended;

	pthread_mutex_lock(&dev->lock);
	ended = !queue_is_unsure(dev) && !dev->finish.runs;
	if (ended)
		queue_finish_join(dev);
	pthread_mutex_unlock(&dev->lock);
	return ended;
}

void queue_set_unsure(struct queue_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	dev->unsure = dev->finish.begun + 1;
	pthread_mutex_unlock(&dev->lock);
}
