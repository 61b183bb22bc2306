// SPDX-License-Identifier: MIT
/*
 * Acquires with a deadline on a device whose acquire() waits itself (the CPU). The core
 * has waited for the fences, but fences may be added after that. The kernel's START
 * waits for them without a timeout, so it runs on a thread of its own. At the deadline
 * the caller abandons the attempt; the thread then ends the access as soon as START
 * returns.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "backend.h"
#include "fence.h"
#include "internal.h"
#include "pending.h"
#include "sys.h"

struct attempt {
	struct import *imp;
	uint32_t access;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. The one that sets the second of these frees the struct. */
	bool over, abandoned;
	int ret;
	char said[256];
};

static void attempt_free(struct attempt *a)
{
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->changed);
	cache_unref(a->imp);
	free(a);
}

static void *attempt_thread(void *data)
{
	struct attempt *a = data;
	const struct backend *backend = a->imp->dev->backend;
	int ret = backend->acquire(a->imp, a->access, NULL, -1), fence = -1;
	bool abandoned;

	pthread_mutex_lock(&a->lock);
	a->ret = ret;
	a->over = true;
	snprintf(a->said, sizeof(a->said), "%s", ret ? dlbuf_last_error() : "");
	abandoned = a->abandoned;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	if (abandoned) {
		if (!ret)
			backend->release(a->imp, a->access, NULL, &fence, NULL);
		attempt_free(a);
	}
	return NULL;
}

/*
 * Under the lock. At the deadline the attempt is abandoned only if fences are pending.
 * So a deadline in the past still acquires an idle buffer, however slow START is.
 */
static void wait_for(struct attempt *a, uint64_t deadline_ns)
{
	short events = a->access & DLBUF_WRITE ? POLLOUT : POLLIN;
	struct timespec until = { .tv_sec = deadline_ns / 1000000000,
				  .tv_nsec = deadline_ns % 1000000000 };

	while (!a->over) {
		if (pthread_cond_timedwait(&a->changed, &a->lock, &until) !=
		    ETIMEDOUT)
			continue;
		if (a->over || !poll_until(a->imp->fd, events, 1))
			return;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
	}
}

static int attempt_create(struct import *imp, uint32_t access,
			  struct attempt **out)
{
	struct attempt *a = sys_calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->imp = imp;
	a->access = access;
	pthread_mutex_init(&a->lock, NULL);
	sys_cond_init(&a->changed);
	cache_ref(imp);
	*out = a;
	return 0;
}

int bounded_acquire(struct import *imp, uint32_t access, uint64_t deadline_ns)
{
	struct attempt *a;
	pthread_t thread;
	bool over;
	int ret;

	ret = attempt_create(imp, access, &a);
	if (ret)
		return ret;
	ret = sys_thread(&thread, attempt_thread, a);
	if (ret) {
		attempt_free(a);
		return ret;
	}
	pthread_detach(thread);
	pthread_mutex_lock(&a->lock);
	wait_for(a, deadline_ns);
	over = a->over;
	a->abandoned = !over;
	pthread_mutex_unlock(&a->lock);
	/* If it is abandoned, the thread now owns the attempt. */
	if (!over)
		return fail(-ETIME, "%s: fences that came meanwhile did not "
			    "signal before the deadline", imp->dev->name);
	if (a->ret)
		ret = fail(a->ret, "%s", a->said);
	attempt_free(a);
	return ret;
}
