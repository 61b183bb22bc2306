// SPDX-License-Identifier: MIT
/* Handlers of fork(): see fork.h. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "fence.h"
#include "fork.h"
#include "internal.h"
#include "memory.h"

unsigned int fork_generation;

static void before(void)
{
	event_before_fork();
	memory_lock();
	socket_before_fork();
}

static void in_parent(void)
{
	socket_after_fork(false);
	memory_unlock();
	event_after_fork();
}

static void in_child(void)
{
	fork_generation++;
	socket_after_fork(true);
	memory_unlock();
	error_forked();
	event_forked();
	device_forked();
	pending_forked();
	import_forked();
	fence_forked();
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
