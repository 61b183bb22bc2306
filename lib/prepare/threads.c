// SPDX-License-Identifier: MIT
/* The threads of a plan: they sleep until a call has work, of which each takes the next part. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "prepare.h"

struct prepare_threads {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	void (*fn)(const void *data, uint32_t i);
	const void *data;
	uint32_t next, n, left;		/* the next part, all parts, and those not complete */
	bool stop;
	unsigned int generation;	/* of the process that has the threads */
	uint32_t nthreads;
	pthread_t threads[];
};

/* Is called under the lock; computes the part without the lock. */
static void compute_part(struct prepare_threads *t)
{
	uint32_t i = t->next++;

	pthread_mutex_unlock(&t->lock);
	t->fn(t->data, i);
	pthread_mutex_lock(&t->lock);
	if (!--t->left)
		pthread_cond_signal(&t->done);
}

static void *run_thread(void *arg)
{
	struct prepare_threads *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		if (t->next < t->n)
			compute_part(t);
		else
			pthread_cond_wait(&t->work, &t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int prepare_threads_start(uint32_t n, struct prepare_threads **out)
{
	struct prepare_threads *t = sys_calloc(1, sizeof(*t) + n * sizeof(*t->threads));
	int ret = 0;

	if (!t)
		return fail(-ENOMEM, "no memory for the threads of a plan");
	fork_watch();
	pthread_mutex_init(&t->lock, NULL);
	sys_cond_init(&t->work);
	sys_cond_init(&t->done);
	t->generation = fork_generation;
	for (; t->nthreads < n && !ret; t->nthreads += !ret) {
		ret = sys_thread(&t->threads[t->nthreads], run_thread, t);
		if (!ret)
			pthread_setname_np(t->threads[t->nthreads], "dlbuf-prepare");
	}
	if (ret)
		prepare_threads_end(t);
	else
		*out = t;
	return ret;
}

void prepare_threads_end(struct prepare_threads *t)
{
	NOT_CANCELLED;

	if (t && t->generation == fork_generation) {
		pthread_mutex_lock(&t->lock);
		t->stop = true;
		pthread_cond_broadcast(&t->work);
		pthread_mutex_unlock(&t->lock);
		while (t->nthreads)
			pthread_join(t->threads[--t->nthreads], NULL);
		pthread_cond_destroy(&t->done);
		pthread_cond_destroy(&t->work);
		pthread_mutex_destroy(&t->lock);
	}
	free(t);
}

void prepare_divide(struct prepare_threads *t, uint32_t n,
		    void (*fn)(const void *data, uint32_t i), const void *data)
{
	NOT_CANCELLED;

	if (!t || t->generation != fork_generation) {
		for (uint32_t i = 0; i < n; i++)
			fn(data, i);
		return;
	}
	pthread_mutex_lock(&t->lock);
	t->fn = fn;
	t->data = data;
	t->next = 0;
	t->n = t->left = n;
	pthread_cond_broadcast(&t->work);
	/* A thread that is not awake yet delays nothing. */
	while (t->next < n)
		compute_part(t);
	while (t->left)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
}
