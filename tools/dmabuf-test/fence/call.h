/* SPDX-License-Identifier: MIT */
/* A call that may block, on a thread of its own: also for the cases of tests/cts. */
#ifndef DMABUF_TEST_CALL_H
#define DMABUF_TEST_CALL_H

#include <pthread.h>
#include <stdbool.h>

#include <dlbuf/dlbuf.h>

#define SECOND 1000000000ull
/* The limit for calls that must not wait. */
#define SOON (5 * SECOND)

struct call {
	int (*fn)(struct call *call);
	/* Arguments of fn, of which it reads those that it needs. */
	void *data;
	DLManagedTensorVersioned **t;
	unsigned int n;			/* tensors */
	uint32_t access;
	const struct dlbuf_acquire_opts *opts;
	int fence;			/* in or out */

	pthread_t thread;
	pid_t tid;			/* atomic; 0: the thread does not run yet */
	bool done;			/* atomic */
	int ret;
	char sentence[256];		/* the error text, "" without an error */
};

/* Calls fn on this thread. */
void call_run(struct call *call);
/* Calls fn on a new thread; the result is pthread_create()'s. call_join() ends the thread. */
int call_start(struct call *call);
bool call_done(const struct call *call);
/* Waits until the call has returned or the thread sleeps in the kernel. False: neither, SOON. */
bool call_settle(struct call *call);
/* 0, or ETIMEDOUT after SOON: a thread that is stuck in a driver ends with the process. */
int call_join(struct call *call);

#endif /* DMABUF_TEST_CALL_H */
