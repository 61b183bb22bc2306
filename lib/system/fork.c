// SPDX-License-Identifier: MIT
/* Handlers of fork(): see fork.h. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "fork.h"
#include "internal.h"

unsigned int fork_generation;

static struct {
	pthread_mutex_t lock;
	struct fork_handler *first;
} handlers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void call_handlers(enum fork_side side)
{
	for (struct fork_handler *h = handlers.first; h; h = h->next)
		h->fn(side);
}

static void before(void)
{
	pthread_mutex_lock(&handlers.lock);
	call_handlers(FORK_BEFORE);
}

static void in_parent(void)
{
	call_handlers(FORK_PARENT);
	pthread_mutex_unlock(&handlers.lock);
}

static void in_child(void)
{
	fork_generation++;
	call_handlers(FORK_CHILD);
	pthread_mutex_unlock(&handlers.lock);
}

static void watch(void)
{
	if (pthread_atfork(before, in_parent, in_child))
		log_at(DLBUF_LOG_ERROR, "pthread_atfork(): no memory; a child "
		       "of fork() must not call dlbuf");
}

void fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch);
}

void fork_add(struct fork_handler *h)
{
	fork_watch();
	pthread_mutex_lock(&handlers.lock);
	if (!h->added) {
		h->next = handlers.first;
		handlers.first = h;
		__atomic_store_n(&h->added, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&handlers.lock);
}

int fork_use_driver(unsigned int *used, const char *backend)
{
	unsigned int now = fork_generation + 1, first = 0;

	if (__atomic_compare_exchange_n(used, &first, now, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
	    first == now)
		return 0;
	return fail(-ESTALE, "%s: the driver works in no child of the process that "
		    "has used it: use it first after fork(), or call exec()",
		    backend);
}
