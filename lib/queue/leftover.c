// SPDX-License-Identifier: MIT
/*
 * Memory whose import is gone while work on it is under way, or while streams
 * wait for words: a driver may wait for these streams inside the free, and hold
 * up everybody else meanwhile. "dlbuf-events" frees it when that is over.
 */
#include "queue.h"

static bool is_over(struct queue_memory *m)
{
	bool waits = !queue_waits_reap(m->dev, m->last_wait);

	return queue_work_reap(m) && !waits;
}

static bool free_later(struct event_call *call)
{
	struct queue_memory *m = container_of(call, struct queue_memory,
					      leftover);
	struct queue_device *dev = m->dev;
	struct queue_scope scope;
	bool over;

	queue_enter_to_free(dev, &scope);
	over = is_over(m);
	if (over)
		queue_memory_free(m);
	queue_leave(dev, &scope);
	if (over)
		queue_unref(dev);
	return over;
}

void queue_memory_drop(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;

	pthread_mutex_lock(&dev->lock);
	m->last_wait = dev->nwaits;
	pthread_mutex_unlock(&dev->lock);
	if (!is_over(m)) {
		if (!event_promise()) {
			queue_ref(dev);
			m->leftover.fn = free_later;
			event_post(&m->leftover);
			return;
		}
		forget_failure();
		queue_work_finish(dev, &m->works);
	}
	queue_memory_free(m);
}
