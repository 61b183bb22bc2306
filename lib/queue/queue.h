/* SPDX-License-Identifier: MIT */
/*
 * The engine of devices with queues (GPUs with streams). It keeps the released work,
 * the streams that wait for fences, the copies, and the memory that outlives its
 * import. A backend of such a device fills in struct queue_ops, embeds struct
 * queue_device, and uses the queue_*() functions as its import functions. This header is
 * for backends, engine.h for the files of the engine.
 */
#ifndef DLBUF_QUEUE_H
#define DLBUF_QUEUE_H

#include <pthread.h>

#include <dlbuf/sync.h>

#include "../bridge/bridge.h"
#include "../import/backend.h"
#include "../import/select.h"
#include "../system/event.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "ops.h"

struct queue_function;
struct queue_gate;
struct queue_page;
struct queue_program;
struct queue_word;
struct queue_work;

/* The thread that waits for all streams: see finish.c. Under dev->lock. */
struct queue_finish {
	pthread_t thread;
	bool runs;
	bool started;		/* and not joined yet */
	uint64_t begun, done, wanted;	/* numbers of waits: last begun, last ended, needed */
};

/* A free that may wait for the gate. */
struct queue_free {
	uint64_t since;		/* the number of the next wait at that time */
	bool held;
};

/* A backend embeds this as the first member of its own struct. */
struct queue_device {
	struct dlbuf_device base;
	const struct queue_ops *ops;
	/* The last probe() filled these in. */
	struct dlbuf_device_info info;
	struct device_place place;
	/* Filled in by start(). */
	const char *no_bridge;	/* reason why it has no bridge; NULL: it may have one */
	bool waits_for_words;
	bool takes_fences, gives_fences;
	bool registers, registers_read_only;	/* host memory */
	bool coherent;		/* uses the CPU's page tables for host memory */
	bool memfds_only;	/* path `host` needs pages that can be pinned */
	bool is_cpu;		/* uses host memory through the CPU's caches */
	bool opaque;		/* m->data is a handle and no address */
	bool flushes;		/* needs flush() before it sees writes of others */
	bool slow_query;	/* a query of an event costs more than a stream's wait for it */
	bool orphans;		/* work may outlive its stream; finish_all() waits for it */
	uint64_t least;		/* smaller memory is reused with the same dma-buf */
	bool believed;		/* atomic; path `direct` once read the right bytes */
	bool apart;		/* atomic; its imports are memory of their own */
	int tried;		/* atomic; the trial was begun */
	int users;		/* atomic; count of a dma-buf that only this process holds */
	const void *context;	/* frees wait for all its streams; NULL: for this device's */

	struct bridge *bridge;	/* or NULL */
	struct bridge_caps caps;
	unsigned int refs;	/* atomic; see queue_ref() */
	bool lost;		/* atomic; see queue_lost() */
	struct event_call ending, polling;

	pthread_mutex_t lock;	/* protects what follows, and lists of work */
	struct queue_finish finish;
	uint64_t unsure;	/* frees wait for the end of this wait; 0: no restriction */
	struct queue_function *calls;	/* host functions that have not returned */
	struct queue_word *free_words;
	struct queue_page *pages;	/* of words */
	struct queue_work *free_works, *all_works;
	struct queue_work *waits;	/* streams that wait for words and semaphores */
	unsigned int npolled;	/* works that the library polls */
	bool polls;		/* `polling` is posted, also if npolled is 0 again */

	struct queue_gate *gate;
	struct queue_device *sibling;	/* in gate->devices */
	struct queue_free ended;
};

/* An import: memory, and the work that uses it. It lives until the memory is freed. */
struct queue_memory {
	struct import base;
	struct queue_device *dev;
	void *map;		/* of the dma-buf, or of the memfd behind it */
	void *staging;		/* pinned memory for path `copy` */
	struct bridge_buffer *buffer;	/* for path `bridge` */
	struct queue_program *program;	/* whose tables it has; freed with them */
	/* Filled in by the backend. */
	uintptr_t data;
	void *handle;
	bool registered, allocated;
	bool passes;		/* begin() and end() are called */

	bool exported;		/* other processes may hold its dma-buf: queue_is_held() */
	bool flushes;		/* exported, on a device that flushes */
	bool synced;		/* host memory of a device that is_cpu */
	bool copied;		/* the path is `bridge` or `copy` */
	/* With `copied` or `passes`: */
	struct queue_work *begun; /* after the last copy in, begin() or end(), or NULL */
	pthread_mutex_t order_lock; /* held while one of these is put on a stream */
	bool held;		/* under `order_lock`: begin() was called, end() not */
	uint32_t held_for;	/* and for which accesses */
	/* Under dev->lock. */
	struct queue_work *works;
	unsigned int open;	/* accesses that have begun and not ended */
	/* Atomic. Apart from the flags above, which compilers read together. */
	unsigned int failed;	/* see queue_access_failed() */
	unsigned int unstarted;	/* START was left out */
	struct queue_free dropped;	/* when unimport() was first called */
};

#define queue_device_of(dev) container_of(dev, struct queue_device, base)
#define queue_memory_of(imp) container_of(imp, struct queue_memory, base)

/* ---------------------------------------------------------------- open.c */

/* backend->each(), open() and describe(). */
int queue_each(const struct backend *backend, const struct queue_ops *ops,
	       dlbuf_device_fn fn, void *data);
int queue_open(const struct backend *backend, const struct queue_ops *ops,
	       const char *selector, const struct dlbuf_device_opts *opts,
	       struct dlbuf_device **out);
void queue_describe(struct dlbuf_device *dev, struct dlbuf_device_info *info);

/*
 * Opens a device around a context of the application. find() probes the device of
 * `theirs` among the n devices, and keeps the handles that start() uses instead of new
 * ones. After a failure of find() the struct is only freed.
 */
typedef int (*queue_find_fn)(struct queue_device *dev, unsigned int n, const void *theirs);
int queue_wrap(const struct backend *backend, const struct queue_ops *ops, queue_find_fn find,
	       const void *theirs, const struct dlbuf_device_opts *opts,
	       struct dlbuf_device **out);

/* Calls probe(), for find(). */
int queue_probe(struct queue_device *dev, unsigned int n);

/*
 * Defines the backend, whose table of driver calls is NAME_ops. The arguments after
 * the name set type, flags, paths and other fields.
 */
#define QUEUE_BACKEND(NAME, ...)						\
	static int NAME##_each(const struct backend *backend,		\
			       dlbuf_device_fn fn, void *data)		\
	{								\
		return queue_each(backend, &NAME##_ops, fn, data);	\
	}								\
	static int NAME##_open(const char *selector,			\
			       const struct dlbuf_device_opts *opts,	\
			       struct dlbuf_device **out)		\
	{								\
		return queue_open(&NAME##_backend, &NAME##_ops, selector, \
				  opts, out);				\
	}								\
	const struct backend NAME##_backend = {				\
		.name = #NAME,						\
		.import_size = sizeof(struct queue_memory),		\
		.each = NAME##_each,					\
		.open = NAME##_open,					\
		.close = queue_close,					\
		.describe = queue_describe,				\
		.import = queue_import,					\
		.unimport = queue_unimport,				\
		.stream = queue_stream,					\
		.acquire = queue_acquire,				\
		.release = queue_release,				\
		.wait = queue_wait,					\
		.pending = queue_pending,				\
		.drain = queue_drain,					\
		__VA_ARGS__						\
	}

/*
 * backend->close(). The struct lives until no stream waits for its words, and no stream of
 * its context waits for a fence.
 */
void queue_close(struct dlbuf_device *dev);

/*
 * Marks the device as lost, which ends all its work except the host functions that run
 * now. After these, all eventfds of works are readable.
 */
void queue_lost(struct queue_device *dev);

/* path.c: backend->import(). */
int queue_import(struct import *imp);

/* import.c: backend->unimport(). */
bool queue_unimport(struct import *imp, bool wait);

/*
 * A call has failed, and work may be on a stream without an event. Nothing is freed before
 * a later wait for all streams has ended.
 */
void queue_set_unsure(struct queue_device *dev);

/* Frees m->staging, now or later. */
void queue_staging_drop(struct queue_memory *m);

/* ---------------------------------------------------------------- export.c */

/* backend->alloc() and export(). */
int queue_alloc(struct import *imp);
int queue_export(struct dlbuf_device *dev, const DLTensor *tensor,
		 const struct dlbuf_export_opts *opts,
		 struct dlbuf_exported *out);

/* ---------------------------------------------------------------- sync.c */

int queue_stream(struct dlbuf_device *dev, struct access_stream *stream, bool ends);
int queue_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		  int fence);
int queue_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		  int *fence, int *end);
int queue_wait(struct import *imp, uint32_t access, uint64_t deadline_ns);
int queue_pending(struct import *imp, uint32_t access, int *fd);
int queue_drain(struct dlbuf_device *dev, uint64_t deadline_ns);

/* ---------------------------------------------------------------- program.c */

int queue_program_load(struct dlbuf_device *dev, const struct program *p, size_t bytes,
		       void **program);
int queue_program_run(void *program, const struct program_run *run, int fence, int *done);
int queue_program_run_all(struct dlbuf_device *dev, const struct program_job *jobs, uint32_t n,
			  int fence, int *done);
void queue_program_drop(void *program);

/* For QUEUE_BACKEND(), of backends with kernel_create(). */
#define QUEUE_PROGRAMS				\
	.program_load = queue_program_load,	\
	.program_run = queue_program_run,	\
	.program_run_all = queue_program_run_all, \
	.program_drop = queue_program_drop,

#endif /* DLBUF_QUEUE_H */
