/* SPDX-License-Identifier: MIT */
/*
 * The state of a round, which stress.c begins and ends, and in which the operations of
 * operations.c work.
 */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <dlbuf/dlbuf.h>

#include "../tools/dmabuf-test/access/access.h"
#include "common.h"
#include "doubles/common/driver.h"
#define KTAP_UNSEEN
#include "ktap.h"
#include "queue/queue.h"
#include "seam.h"

#define NDEVS 8u
#define NBUFFERS 10u
#define NORDERED 4u		/* of them: with a counter */
#define NSLOTS 40u
#define NSOCKS 2u
#define NSTREAMS 2u
#define NTHREADS 16u
#define NARGS 8u
#define BYTES 8192
#define COUNTER 4088		/* where the counter is, in two pages */

/* Atomic: */
#define load(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define add(p, n) __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST)
#define now_ns ktap_now_ns

/* A backend: its double, and the double's machines, of which a round chooses one. */
struct machine {
	const char *backend, *name, *library, *words, *double_;
	const char *kinds[10];
	int loss;		/* the result of a lost device; 0: it cannot be lost */
	bool one_at_a_time;	/* its calls with a stream: by one thread */
	bool no_access;		/* the double does not compute */
};

struct device {
	const struct machine *machine;
	struct dlbuf_device *dev;
	const struct access *access;	/* or NULL */
	struct driver *(*control)(bool reset);	/* of the double, or NULL */
	pthread_rwlock_t turn;		/* of a machine that allows one thread at a time */
	void *streams[NSTREAMS];
};

struct options {
	uint64_t seed;
	unsigned int seconds, ops, threads, patience;
	const char *only;
};
extern struct options opts;

/* A job of a device; `expected` has the bytes that it must read, or is 0. */
struct job {
	struct job *next;
	const struct access *access;
	void *job;
	uint64_t expected;
	bool asks;		/* a callback may ask about it: that does not block */
};

/* A callback that has to come once. */
struct lease {
	struct lease *next;
	unsigned int fired;	/* atomic */
	unsigned int tensors;	/* atomic; of the program, not yet being deleted */
	bool armed;		/* atomic; the library has it */
	uint32_t mode;		/* the action of its callback */
	struct job *jobs;
};

struct held {
	DLManagedTensorVersioned *t;
	struct device *d;
	struct lease *lease;	/* or NULL */
	uint32_t acquired;
	void *stream;		/* of the acquire */
	bool together;		/* acquired with others */
	bool stray;		/* its device is not d->dev */
};

struct pending {
	struct pending *next;
	int node;
	uint32_t id;
	int64_t due;
};

struct worker {
	pthread_t thread;
	pid_t tid;
	const char *op;		/* atomic, as what follows */
	uint32_t n, args[NARGS];
	int64_t since;
};

/* The state of a round. */
struct round {
	uint64_t seed;
	unsigned int number, ndevs;
	bool rough;		/* something goes wrong in it */
	bool loses, lacks_fds, fails, by_hand;
	/*
	 * The thread that signals calls the driver first, so no free may wait for a stream: none of
	 * the application, and none of another device of the same context.
	 */
	bool driven;
	struct device devs[NDEVS];
	struct {
		int fd, ro, memfd;
		pthread_mutex_t order;
		uint64_t value;
		const char *writer;
	} buffers[NBUFFERS];
	struct held *slots[NSLOTS];	/* atomic */
	int socks[NSOCKS][2];
	pthread_mutex_t fence_lock;
	struct pending *fences;
	pthread_mutex_t lock;		/* of what follows */
	struct lease *leases;
	bool stop;			/* atomic */
	int dispatch;
};
extern struct round round_;

extern struct worker workers[NTHREADS];
extern __thread struct worker *self;
extern __thread bool cancelling;	/* this thread is to be cancelled */
extern unsigned long progress, total_ops;	/* atomic */

uint64_t mix(uint64_t x);
/* A fence of the program, which signals soon; -1: no fd is left. */
int fence_new(uint32_t r);

/* ---------------------------------------------------------------- operations.c */

static DLBUF_OPTS(dlbuf_import_opts, may_copy, .flags = DLBUF_IMPORT_MAY_COPY);

extern struct rlimit all_fds;	/* the limit without an operation that lowers it */
void print_operations(void);
/* A thread of a round: the operations of its seed. */
void *work(void *worker);
void held_delete(struct held *h);
/* Waits for the job, and compares the bytes that it has read. */
void job_finish(struct job *j);

#endif /* TESTS_STRESS_H */
