// SPDX-License-Identifier: MIT
/*
 * Host functions. After a loss a driver may still call one that it was given, or never:
 * some APIs drop them, others call them, and each may have decided before the loss.
 * So a function that has not begun at the loss will do nothing, and the memory of imports
 * is kept until the functions that have begun have returned. tests/proof/queue.pml is a
 * model of this.
 */
#include <errno.h>

#include "../dmabuf/fence.h"
#include "../dmabuf/memory.h"
#include "engine.h"

enum state { QUEUED, RUNNING, CANCELLED };

struct queue_function {
	struct queue_device *dev;	/* invalid if CANCELLED: it may be freed by now */
	void (*fn)(void *data);
	void *data;
	int state;		/* atomic */
	/* In dev->calls, under dev->lock; or in `cancelled`, under memory_lock(). */
	struct queue_function *next, **prev;
};

/*
 * The cancelled functions of all devices. Each is freed when the driver calls it; one that
 * the driver never calls stays. memory_lock() protects the list, because fork() takes it.
 */
static struct queue_function *cancelled;

static bool change(struct queue_function *call, int from, int to)
{
	return __atomic_compare_exchange_n(&call->state, &from, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Under the lock. */
static void functions_add(struct queue_function **list, struct queue_function *call)
{
	call->next = *list;
	call->prev = list;
	if (call->next)
		call->next->prev = &call->next;
	*list = call;
}

/* Under the lock: removes the function between prev and next from the list. */
static void join_list(struct queue_function **prev, struct queue_function *next)
{
	*prev = next;
	if (next)
		next->prev = prev;
}

/* The driver calls this at most once. */
static void run_function(void *data)
{
	struct queue_function *call = data;
	struct queue_device *dev;

	if (change(call, QUEUED, RUNNING)) {
		dev = call->dev;
		call->fn(call->data);
		pthread_mutex_lock(&dev->lock);
		join_list(call->prev, call->next);
		if (dev->lost && !dev->calls)
			queue_works_lost(dev);
		pthread_mutex_unlock(&dev->lock);
	} else {
		memory_lock();
		join_list(call->prev, call->next);
		memory_unlock();
	}
	free(call);
}

int queue_call_host(struct queue_device *dev, void *stream, void (*fn)(void *data),
		    void *data)
{
	struct queue_function *call = sys_calloc(1, sizeof(*call));
	bool lost;
	int ret;

	if (!call)
		return -ENOMEM;
	*call = (struct queue_function){ .dev = dev, .fn = fn, .data = data };
	pthread_mutex_lock(&dev->lock);
	lost = dev->lost;
	if (!lost)
		functions_add(&dev->calls, call);
	pthread_mutex_unlock(&dev->lock);
	ret = lost ? fail(-EIO, "%s is lost", dev->base.name) :
		     dev->ops->call_host(dev, stream, run_function, call);
	if (!ret)
		return 0;
	/* The driver did not get the function. A loss meanwhile has cancelled it. */
	pthread_mutex_lock(&dev->lock);
	memory_lock();
	if (!lost)
		join_list(call->prev, call->next);
	memory_unlock();
	pthread_mutex_unlock(&dev->lock);
	free(call);
	return ret;
}

void queue_calls_cancel(struct queue_device *dev)
{
	struct queue_function *call, *next;

	/* If the driver calls one now, it is freed after this. */
	memory_lock();
	for (call = dev->calls; call; call = next) {
		next = call->next;
		if (!change(call, QUEUED, CANCELLED))
			continue;
		join_list(call->prev, next);
		functions_add(&cancelled, call);
	}
	memory_unlock();
}

bool queue_is_dead(struct queue_device *dev)
{
	bool dead;

	if (!__atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&dev->lock);
	dead = !dev->calls;
	pthread_mutex_unlock(&dev->lock);
	return dead;
}

void queue_wait_dead(struct queue_device *dev)
{
	struct timespec pause = PAUSE_FIRST;

	while (__atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE) && !queue_is_dead(dev))
		pause_until(&pause, 0);
}
