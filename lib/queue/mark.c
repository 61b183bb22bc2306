// SPDX-License-Identifier: MIT
/*
 * Events for drivers whose events are signalled once: marks. An event here is the mark
 * of its last record. Another thread may ask about it meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "queue.h"

struct event {
	pthread_mutex_t lock;
	void *mark;		/* NULL: never recorded, which is complete */
};

int queue_mark_create(struct queue_device *dev, void **out)
{
	struct event *event = sys_calloc(1, sizeof(*event));

	(void)dev;
	if (!event)
		return -ENOMEM;
	pthread_mutex_init(&event->lock, NULL);
	*out = event;
	return 0;
}

static void replace(struct queue_device *dev, struct event *event, void *mark)
{
	void *last;

	pthread_mutex_lock(&event->lock);
	last = event->mark;
	event->mark = mark;
	pthread_mutex_unlock(&event->lock);
	if (last)
		dev->ops->user_event_destroy(dev, last);
}

void queue_mark_destroy(struct queue_device *dev, void *event)
{
	replace(dev, event, NULL);
	pthread_mutex_destroy(&((struct event *)event)->lock);
	free(event);
}

int queue_mark_record(struct queue_device *dev, void *event, void *stream)
{
	void *mark;
	int ret = dev->ops->mark(dev, stream, &mark);

	if (!ret)
		replace(dev, event, mark);
	return ret;
}

/* Gives a reference to the mark, or NULL. */
static int last_mark(struct queue_device *dev, struct event *event, void **mark)
{
	int ret = 0;

	pthread_mutex_lock(&event->lock);
	*mark = event->mark;
	if (*mark)
		ret = dev->ops->mark_ref(dev, *mark);
	pthread_mutex_unlock(&event->lock);
	return ret;
}

static int with_mark(struct queue_device *dev, void *event,
		     int (*fn)(struct queue_device *dev, void *mark))
{
	void *mark;
	int ret = last_mark(dev, event, &mark);

	if (ret || !mark)
		return ret;
	ret = fn(dev, mark);
	dev->ops->user_event_destroy(dev, mark);
	return ret;
}

int queue_mark_query(struct queue_device *dev, void *event)
{
	return with_mark(dev, event, dev->ops->mark_query);
}

int queue_mark_wait(struct queue_device *dev, void *event)
{
	return with_mark(dev, event, dev->ops->mark_wait);
}

int queue_mark_stream_wait(struct queue_device *dev, void *stream, void *event)
{
	void *mark;
	int ret = last_mark(dev, event, &mark);

	if (ret || !mark)
		return ret;
	ret = dev->ops->user_event_wait(dev, stream, mark);
	dev->ops->user_event_destroy(dev, mark);
	return ret;
}
