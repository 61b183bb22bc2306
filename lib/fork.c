// SPDX-License-Identifier: MIT
/* fork(): what a child does not inherit. */
#include <pthread.h>

#include "fork.h"
#include "memory.h"

unsigned int fork_generation;

static void before(void)
{
	event_before_fork();
	memory_lock();
}

static void in_parent(void)
{
	memory_unlock();
	event_after_fork();
}

static void in_child(void)
{
	fork_generation++;
	memory_unlock();
	event_forked();
	device_forked();
}

/*
 * When the library is loaded: before any thread is in it, so that there is no
 * lock around this either.
 */
__attribute__((constructor))
static void watch(void)
{
	pthread_atfork(before, in_parent, in_child);
}
