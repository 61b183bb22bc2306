// SPDX-License-Identifier: MIT
/*
 * The gate of frees. A driver may wait inside a free for all streams of a context, and block
 * all other callers meanwhile, perhaps the caller that must signal a fence. So no free begins
 * while a stream waits for a fence, and no stream begins such a wait during a free. All
 * devices of a context share its gate.
 *
 * With cameras there may always be a stream that waits. So when more than a few frees wait,
 * and every wait that was pending when one of them began has ended, acquires block on the
 * calling thread (`closing`) until a free has run. tests/proof/queue.pml is a model of
 * this.
 */
#include <errno.h>

#include "../dmabuf/memory.h"
#include "../system/fork.h"
#include "engine.h"

/* This many frees may wait longer than the waits that were pending when they began. */
#define FEW_WAIT 8

/* Under memory_lock(), because fork() takes it. A child uses none of its parent's. */
static struct queue_gate *gates;

int queue_gate_join(struct queue_device *dev)
{
	const void *context = dev->context ? dev->context : dev;
	struct queue_gate *gate, *new = sys_calloc(1, sizeof(*new));

	if (!new)
		return -ENOMEM;
	memory_lock();
	for (gate = gates; gate; gate = gate->next)
		if (gate->context == context && gate->generation == fork_generation)
			break;
	if (!gate) {
		gate = new;
		*gate = (struct queue_gate){
			.context = context,
			.generation = fork_generation,
			.next = gates,
			.lock = PTHREAD_MUTEX_INITIALIZER,
			.freed = PTHREAD_COND_INITIALIZER,
		};
		gates = gate;
		new = NULL;
	}
	pthread_mutex_lock(&gate->lock);
	dev->gate = gate;
	dev->sibling = gate->devices;
	gate->devices = dev;
	pthread_mutex_unlock(&gate->lock);
	memory_unlock();
	free(new);
	return 0;
}

/* Under the lock. */
static void open_gate(struct queue_gate *gate)
{
	gate->freeing--;
	gate->closing = false;
	pthread_cond_broadcast(&gate->freed);
}

void queue_gate_leave(struct queue_device *dev)
{
	struct queue_gate *gate = dev->gate, **g = &gates;
	struct queue_device **d = &gate->devices;

	memory_lock();
	pthread_mutex_lock(&gate->lock);
	open_gate(gate);
	while (*d != dev)
		d = &(*d)->sibling;
	*d = dev->sibling;
	if (gate->devices)
		gate = NULL;
	pthread_mutex_unlock(&dev->gate->lock);
	while (gate && *g != gate)
		g = &(*g)->next;
	if (gate)
		*g = gate->next;
	memory_unlock();
	if (!gate)
		return;
	pthread_mutex_destroy(&gate->lock);
	pthread_cond_destroy(&gate->freed);
	free(gate);
}

/*
 * Under the lock, which it releases meanwhile: removes waits that are over. True: a wait
 * that began before `since` is pending.
 */
static bool reap_waits(struct queue_gate *gate, uint64_t since)
{
	struct queue_scope scope;
	bool stands = false;

	gate->reaping++;	/* so none of the devices ends meanwhile */
	for (struct queue_device *dev = gate->devices; dev; dev = dev->sibling) {
		pthread_mutex_unlock(&gate->lock);
		queue_enter_to_free(dev, &scope);
		stands |= queue_waits_stand(dev, since);
		queue_leave(dev, &scope);
		pthread_mutex_lock(&gate->lock);
	}
	gate->reaping--;
	return stands;
}

void queue_gate_note(struct queue_device *dev, struct queue_free *f)
{
	pthread_mutex_lock(&dev->gate->lock);
	if (!f->since)
		f->since = dev->gate->nwaits + 1;
	pthread_mutex_unlock(&dev->gate->lock);
}

bool queue_gate_close(struct queue_device *dev, struct queue_free *f, bool wait)
{
	struct queue_gate *gate = dev->gate;
	bool closed;

	pthread_mutex_lock(&gate->lock);
	if (!wait && gate->busy && !reap_waits(gate, f->since) && gate->held > FEW_WAIT)
		gate->closing = gate->busy;
	closed = wait || (!gate->busy && !gate->reaping);
	gate->held += !closed - f->held;
	f->held = !closed;
	gate->freeing += closed;
	pthread_mutex_unlock(&gate->lock);
	return closed;
}

void queue_gate_open(struct queue_device *dev)
{
	pthread_mutex_lock(&dev->gate->lock);
	open_gate(dev->gate);
	pthread_mutex_unlock(&dev->gate->lock);
}

uint64_t queue_gate_pass(struct queue_device *dev, bool for_fence)
{
	struct queue_gate *gate = dev->gate;
	uint64_t n = 0;

	pthread_mutex_lock(&gate->lock);
	while (gate->freeing)
		pthread_cond_wait(&gate->freed, &gate->lock);
	if (!gate->closing || !for_fence) {
		gate->busy++;
		n = ++gate->nwaits;
	}
	pthread_mutex_unlock(&gate->lock);
	return n;
}

void queue_gate_passed(struct queue_device *dev)
{
	pthread_mutex_lock(&dev->gate->lock);
	dev->gate->busy--;
	pthread_mutex_unlock(&dev->gate->lock);
}

bool queue_gate_frees(struct queue_device *dev)
{
	struct queue_gate *gate = dev->gate;
	bool frees;

	pthread_mutex_lock(&gate->lock);
	if (gate->held && gate->busy)
		reap_waits(gate, 0);
	frees = gate->held && !gate->busy;
	pthread_mutex_unlock(&gate->lock);
	return frees;
}
