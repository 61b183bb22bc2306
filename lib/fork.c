// SPDX-License-Identifier: MIT
/* fork(): what a child does not inherit. */
#include <pthread.h>

#include "fork.h"

unsigned int fork_generation;

static void in_child(void)
{
	fork_generation++;
	event_forked();
	memory_forked();
	device_forked();
}

/*
 * When the library is loaded: before any thread is in it, so that there is no
 * lock around this either.
 */
__attribute__((constructor))
static void watch(void)
{
	pthread_atfork(event_before_fork, event_after_fork, in_child);
}
