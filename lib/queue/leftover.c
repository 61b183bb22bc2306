// SPDX-License-Identifier: MIT
/*
 * Memory that cannot be freed yet. Its import is destroyed, but work on the memory
 * still runs, or streams wait for words. A driver may wait for these streams inside
 * the free, and block all other callers meanwhile. So the thread "dlbuf-events"
 * frees the memory after that work. Cameras may keep some stream waiting at any time:
 * see dev->closing_gate, and tests/proof/queue.pml.
 */
#include "queue.h"

/*
 * Returns true if the work on m is complete and no stream waits for a fence. Then
 * no stream begins such a wait before free_and_open().
 */
static bool close_gate(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;
	bool over = queue_reap(dev, &m->works), waits;

	queue_reap(dev, &dev->waits);
	pthread_mutex_lock(&dev->lock);
	waits = dev->waits || dev->beginning;
	if (over && waits && !queue_waits_stand(dev, m->dropped_at))
		dev->closing_gate = true;
	over &= !waits;
	dev->freeing += over;
	pthread_mutex_unlock(&dev->lock);
	return over;
}

static void free_and_open(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;

	queue_memory_free(m);
	pthread_mutex_lock(&dev->lock);
	dev->freeing--;
	dev->closing_gate = false;
	pthread_cond_broadcast(&dev->freed);
	pthread_mutex_unlock(&dev->lock);
}

static void count(struct queue_device *dev, int change)
{
	__atomic_add_fetch(&dev->leftovers, change, __ATOMIC_ACQ_REL);
}

static bool free_later(struct event_call *call)
{
	struct queue_memory *m = container_of(call, struct queue_memory,
					      leftover);
	struct queue_device *dev = m->dev;
	struct queue_scope scope;
	bool over;

	queue_enter_to_free(dev, &scope);
	over = close_gate(m);
	if (over)
		free_and_open(m);
	queue_leave(dev, &scope);
	if (over) {
		count(dev, -1);
		queue_unref(dev);
	}
	return over;
}

void queue_memory_drop(struct queue_memory *m)
{
	struct queue_device *dev = m->dev;

	pthread_mutex_lock(&dev->lock);
	m->dropped_at = dev->nwaits;
	pthread_mutex_unlock(&dev->lock);
	if (close_gate(m)) {
		free_and_open(m);
		return;
	}
	if (!event_promise()) {
		queue_ref(dev);
		count(dev, 1);
		m->leftover.fn = free_later;
		event_post(&m->leftover);
		return;
	}
	forget_failure();
	queue_work_finish(dev, &m->works);
	queue_memory_free(m);
}

void queue_staging_drop(struct queue_memory *m)
{
	struct queue_memory *s;

	if (queue_memory_create(m->dev, m->bytes, &s)) {
		/* It is freed with the import. */
		forget_failure();
		return;
	}
	s->staging = m->staging;
	m->staging = NULL;
	queue_memory_drop(s);
}
