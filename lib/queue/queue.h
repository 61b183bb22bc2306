/* SPDX-License-Identifier: MIT */
/*
 * The engine of devices with queues (GPUs with streams). It keeps the released work,
 * the streams that wait for fences, the copies, and the memory that outlives its
 * import. A backend of such a device fills in struct queue_ops, embeds struct
 * queue_device, and uses the queue_*() functions as its import functions.
 *
 * Two rules. No lock is held across a call of the table. And nothing that a stream
 * waits for may need a driver call, because a driver may wait for its streams
 * inside a free (see event.h).
 */
#ifndef DLBUF_QUEUE_H
#define DLBUF_QUEUE_H

#include <pthread.h>

#include <dlbuf/sync.h>

#include "../alloc/trial.h"
#include "../bridge/bridge.h"
#include "../import/backend.h"
#include "../import/select.h"
#include "../system/event.h"
#include "../system/internal.h"
#include "../system/sys.h"

struct queue_function;
struct queue_device;
struct queue_memory;
struct queue_program;
struct queue_work;

/* A range of device addresses. */
struct queue_range {
	uintptr_t base;
	uint64_t bytes;
};

/*
 * A launch of lib/prepare/kernel.h, whose arguments these are, in the order of `sources`, `out`,
 * `tables`, `run`: addresses, or with dev->opaque handles.
 */
struct queue_launch {
	uintptr_t sources[3], out, tables;
	struct {
		uint32_t at[3], pitches[3];
		uint32_t to, step_x, step_y, step_channel, step_image, words;
	} run;
	uint32_t width, height;		/* of an image; an item for each pixel, or more */
	uint32_t images;
};

/* Changes made by enter(), for leave() to undo. */
struct queue_scope {
	bool entered, clean;
	int mode;
	int device;
};

/* event_query(): the work before the event still runs. */
#define QUEUE_PENDING 1

/*
 * The driver's functions. They return 0, or a negative errno with an error text. A
 * backend that sees an error after which the device is unusable calls queue_lost(),
 * from any function. An absent function is NULL.
 */
struct queue_ops {
	size_t size;	/* of the backend's own struct */

	/*
	 * Loads the driver and sets *n to the number of its devices. Called with a
	 * zeroed struct, and undone by freeing it. -ENODEV: there is no driver.
	 * Required.
	 */
	int (*count)(struct queue_device *dev, unsigned int *n);
	/*
	 * Queries the n-th device: fills in dev->info, dev->place, and its own
	 * fields for start(). It is called for several devices, one after the
	 * other. Required.
	 */
	int (*probe)(struct queue_device *dev, unsigned int n);
	/*
	 * Opens the device of the last probe(), and sets the fields of dev that
	 * the backend fills in. destroy() undoes it, also after a failure.
	 * Required.
	 */
	int (*start)(struct queue_device *dev, uint32_t flags);

	/*
	 * Makes the device current on the thread. to_free: the calls that follow
	 * only free, and enter() must not fail. Absent: there is nothing to do.
	 */
	int (*enter)(struct queue_device *dev, struct queue_scope *scope,
		     bool to_free);
	void (*leave)(struct queue_device *dev, const struct queue_scope *scope);

	/*
	 * Gives the stream of a caller's handle. NULL is the default stream. With
	 * `ends`, an access ends, perhaps on another thread than it began on.
	 * -EINVAL: the stream is destroyed, with its work complete unless
	 * dev->orphans; or it belongs to another device. -EBUSY: it is being
	 * captured. Required.
	 */
	int (*stream)(struct queue_device *dev, void *handle, bool ends,
		      void **stream);
	/* A handle that means `no order`; NULL: the API has none. */
	void *no_order;
	/* Makes a stream for the library, unordered with all others. Required. */
	int (*stream_create)(struct queue_device *dev, void **stream);
	void (*stream_destroy)(struct queue_device *dev, void *stream);

	/*
	 * Events: a point of a stream. event_record() takes *event, which is NULL, or
	 * the event of an earlier record that is not queried any more, and may replace
	 * it. Streams may still wait for the former point then, and when the event is
	 * destroyed. Absent event_create(): event_record() makes it. Absent
	 * event_wait(): the library polls. The others are required.
	 */
	int (*event_create)(struct queue_device *dev, void **event);
	void (*event_destroy)(struct queue_device *dev, void *event);
	int (*event_record)(struct queue_device *dev, void **event, void *stream);
	/* 0: complete. QUEUE_PENDING: not yet. */
	int (*event_query)(struct queue_device *dev, void *event);
	int (*event_wait)(struct queue_device *dev, void *event);
	int (*stream_wait)(struct queue_device *dev, void *stream, void *event);

	/* Waits for a stream, or for all streams of the device. Required. */
	int (*finish)(struct queue_device *dev, void *stream);
	int (*finish_all)(struct queue_device *dev);
	/* All work is over, and the application may destroy its streams. Or NULL. */
	void (*drained)(struct queue_device *dev);

	/*
	 * The stream calls fn, and continues after fn has returned. fn makes no
	 * driver call. A lost device calls it once or never; after a failure it is not
	 * called. Absent: the library polls events instead, and there is no path
	 * `copy`. The engine calls it only by queue_call_host().
	 */
	int (*call_host)(struct queue_device *dev, void *stream,
			 void (*fn)(void *data), void *data);

	/*
	 * The stream waits until the word at a device address is `value` or more.
	 * Used if dev->waits_for_words. Absent: user events are used.
	 */
	int (*wait_word)(struct queue_device *dev, void *stream, uintptr_t word,
			 uint32_t value);

	/*
	 * A user event, for which a stream waits until the library sets it. Used
	 * if there is no other way for the stream to wait for a fence. The library
	 * sets each event once, perhaps before user_event_wait(), and destroys it
	 * after both. Streams may still wait then, so the driver or the backend
	 * keeps what they need. Absent: the calling thread waits.
	 */
	int (*user_event_create)(struct queue_device *dev, void **event);
	int (*user_event_wait)(struct queue_device *dev, void *stream, void *event);
	void (*user_event_set)(struct queue_device *dev, void *event);
	void (*user_event_destroy)(struct queue_device *dev, void *event);

	/*
	 * wait_fence(): the stream waits for a sync_file, borrowed. Used if
	 * dev->takes_fences. export_fence(): makes a sync_file of the work that is
	 * on the stream. Used if dev->gives_fences. Absent: the bridge, words,
	 * user events or eventfds are used.
	 */
	int (*wait_fence)(struct queue_device *dev, void *stream, int fence);
	int (*export_fence)(struct queue_device *dev, void *stream, int *fence);

	/*
	 * Memory. Each function sets m->data, which becomes the data of tensors,
	 * and what free() needs. free() undoes each of them, also after a failure.
	 * import(): imports the dma-buf m->base.fd, which stays open until after
	 * free(). Absent: no path `direct`.
	 * register_host(): registers m->map, for path `host`. Used if
	 * dev->registers; for read-only buffers, if dev->registers_read_only.
	 * alloc(): allocates m->base.bytes on the device. Absent: no path `copy`.
	 * import_shared(): imports m->base.bytes that the bridge has allocated, from an
	 * OPAQUE_FD or a dma-buf (bridge.h), which is taken on success. Absent: no
	 * bridge.
	 */
	int (*import)(struct queue_memory *m);
	int (*register_host)(struct queue_memory *m, uint32_t access);
	int (*alloc)(struct queue_memory *m);
	int (*import_shared)(struct queue_memory *m, int fd, uint64_t allocated,
			     bool dedicated);
	void (*free)(struct queue_memory *m);

	/*
	 * For memory with m->passes. begin(): from now on the stream's work may
	 * use the memory. end(): from now on other users may; `access` is that of
	 * all accesses since begin().
	 */
	int (*begin)(struct queue_memory *m, void *stream);
	int (*end)(struct queue_memory *m, uint32_t access, void *stream);

	/*
	 * Dma-bufs of the device's memory; required for queue_alloc() and
	 * queue_export().
	 * range(): finds the allocation that p is in, which any library may have
	 * made; `type` is the tensor's. -EINVAL: not memory of this device.
	 * -EOPNOTSUPP: the memory cannot become a dma-buf.
	 * export(): exports whole pages as a new fd. If the driver exports more
	 * than asked, sets *pages to the exported range.
	 * clear(): fills m->data with zeros on a stream.
	 * flush(): makes writes of other devices visible in this device's memory.
	 * Used if dev->flushes.
	 */
	int (*range)(struct queue_device *dev, DLDeviceType type, uintptr_t p,
		     struct queue_range *allocation);
	int (*export)(struct queue_device *dev, struct queue_range *pages,
		      uint32_t flags, int *fd);
	int (*clear)(struct queue_memory *m, void *stream);
	int (*flush)(struct queue_device *dev);

	/* Allocates pinned host memory. *address is its device address; may be NULL. */
	int (*alloc_host)(struct queue_device *dev, size_t bytes, void **host,
			  uintptr_t *address);
	void (*free_host)(struct queue_device *dev, void *host);

	/* Copies all of m->data to m->staging (out), or the other way, on a stream. */
	int (*copy)(struct queue_memory *m, void *stream, bool out);

	/*
	 * Timeline semaphores of the bridge; fd is taken on success. Absent: the
	 * bridge makes its copies in host functions, and call_host() is required.
	 */
	int (*semaphore_import)(struct queue_device *dev, int fd, void **semaphore);
	void (*semaphore_destroy)(struct queue_device *dev, void *semaphore);
	/* The stream signals the value, or waits for it. */
	int (*semaphore_use)(struct queue_device *dev, void *stream,
			     void *semaphore, uint64_t value, bool signals);

	/*
	 * Kernels of lib/prepare/kernel.h: kernel_create() gives one to a program, which uses
	 * it on one thread at a time. The code is compiled once for a device, and freed by
	 * destroy(). -EOPNOTSUPP: the device cannot run it. kernel_launch() puts a run on a
	 * stream of stream_create(); after a failure nothing is on the stream. Absent
	 * kernel_destroy(): there is nothing to free.
	 */
	int (*kernel_create)(struct queue_device *dev, void **kernel);
	void (*kernel_destroy)(struct queue_device *dev, void *kernel);
	int (*kernel_launch)(struct queue_device *dev, void *kernel, void *stream,
			     const struct queue_launch *launch);

	/* Frees the device, which nothing uses any more. Required. */
	void (*destroy)(struct queue_device *dev);
};

/*
 * A word of pinned memory. A stream waits until the word is `value` or more. The
 * value only grows, so a word can be used again before the last stream has read it.
 */
struct queue_word {
	struct queue_device *dev;
	uint32_t *host;
	uintptr_t address;
	uint32_t value;
	struct queue_word *next;	/* in the free list */
};

/* The thread that waits for all streams: see finish.c. Under dev->lock. */
struct queue_finish {
	pthread_t thread;
	bool runs;
	bool started;		/* and not joined yet */
	uint64_t begun, done, wanted;	/* numbers of waits: last begun, last ended, needed */
};

/* The gate of frees: see gate.c. */
struct queue_gate {
	const void *context;
	unsigned int generation;	/* see fork.h */
	struct queue_gate *next;
	pthread_mutex_t lock;	/* protects what follows; no other is taken under it */
	pthread_cond_t freed;
	struct queue_device *devices;
	uint64_t nwaits;	/* waits for fences that have begun */
	unsigned int busy;	/* waits that begin, or are in a device's list `waits` */
	unsigned int freeing;	/* threads inside a free */
	unsigned int reaping;	/* threads that check the waits of all devices */
	unsigned int held;	/* frees that only wait for the gate */
	bool closing;
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
	struct queue_watch *watches;	/* eventfds that wait for several works */

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

/* An access that ends. */
struct queue_use {
	struct queue_memory *m;
	uint32_t access;
	/*
	 * The bridge copies after the work, and the access ends with the copy. The bridge's
	 * fences do not show that end: drivers let them time out.
	 */
	bool copies;
};

/* The brackets of a program's run, and its tables. */
#define QUEUE_MAX_USES 5

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
int queue_wrap(const struct backend *backend, const struct queue_ops *ops,
	       int (*find)(struct queue_device *dev, unsigned int n,
			   const void *theirs),
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

/* ---------------------------------------------------------------- device.c */

/*
 * backend->close(). The struct lives until no stream waits for its words, and no stream of
 * its context waits for a fence.
 */
void queue_close(struct dlbuf_device *dev);

void queue_ref(struct queue_device *dev);
void queue_unref(struct queue_device *dev);

int queue_enter(struct queue_device *dev, struct queue_scope *scope);
void queue_enter_to_free(struct queue_device *dev, struct queue_scope *scope);
void queue_leave(struct queue_device *dev, const struct queue_scope *scope);

/*
 * Marks the device as lost, which ends all its work except the host functions that run
 * now. After these, all eventfds of works are readable.
 */
void queue_lost(struct queue_device *dev);

/*
 * Call it after a failed call, with that call's result. If making an event fails with the
 * same result, the driver keeps the error, and the device is lost. Returns `error`.
 */
int queue_failed(struct queue_device *dev, int error);

/* ops->stream() */
int queue_find_stream(struct queue_device *dev, void *handle, bool ends, void **stream);

/* ---------------------------------------------------------------- gate.c */

/* Finds or makes the gate of dev->context. leave() opens it, too. */
int queue_gate_join(struct queue_device *dev);
void queue_gate_leave(struct queue_device *dev);

/* On the first call notes the waits that are pending now: the free waits for these only. */
void queue_gate_note(struct queue_device *dev, struct queue_free *f);

/*
 * Closes the gate if no stream waits for a fence, or with `wait` after these waits.
 * Then no stream begins such a wait before queue_gate_open().
 */
bool queue_gate_close(struct queue_device *dev, struct queue_free *f, bool wait);
void queue_gate_open(struct queue_device *dev);

/*
 * Before a stream's wait: blocks during a free, and returns the wait's number, or 0 if
 * the caller must wait for the fence. queue_gate_passed() when the stream no longer
 * waits.
 */
uint64_t queue_gate_pass(struct queue_device *dev, bool for_fence);
void queue_gate_passed(struct queue_device *dev);

/* Whether "dlbuf-events" is about to free something of the context. */
bool queue_gate_frees(struct queue_device *dev);

/* ---------------------------------------------------------------- finish.c */

/*
 * Under the lock: whether the n-th wait for all streams has ended. If not, it begins, and
 * the caller asks again. The next wait is dev->finish.begun + 1.
 */
bool queue_finished(struct queue_device *dev, uint64_t n);

/*
 * Whether the device is not `unsure`, and no thread waits for streams or runs its last
 * instructions.
 */
bool queue_finish_ended(struct queue_device *dev);

/*
 * A call has failed, and work may be on a stream without an event. Nothing is freed before
 * a later wait for all streams has ended. is_unsure(): under the lock.
 */
void queue_set_unsure(struct queue_device *dev);
bool queue_is_unsure(struct queue_device *dev);

/* The end of a device. */
void queue_finish_end(struct queue_device *dev);

/* ---------------------------------------------------------------- call.c */

/* ops->call_host(), with a function that does nothing if it begins after a loss. */
int queue_call_host(struct queue_device *dev, void *stream, void (*fn)(void *data),
		    void *data);

/* Under the lock, after the loss: host functions that have not begun will do nothing. */
void queue_calls_cancel(struct queue_device *dev);

/* Whether the device is lost and no host function runs: it uses no memory any more. */
bool queue_is_dead(struct queue_device *dev);

/* If the device is lost, waits until it is dead. */
void queue_wait_dead(struct queue_device *dev);

/* ---------------------------------------------------------------- import.c */

/* path.c: backend->import(). */
int queue_import(struct import *imp);

/*
 * export.c: whether others use the dma-buf of memory that dlbuf_alloc() made. Drivers
 * allocate freed memory again with its dma-buf, so it is not freed meanwhile.
 */
bool queue_is_held(const struct queue_memory *m);

/* import.c: backend->unimport(). */
bool queue_unimport(struct import *imp, bool wait);

/*
 * Calls fill() with the device entered. After a failure the import is undone, and can be
 * used again.
 */
int queue_import_by(struct import *imp,
		    int (*fill)(struct queue_memory *m));

/* Imports by m->base.path. */
int queue_import_path(struct queue_memory *m);
/* Copies between m->staging and the device's memory, and waits for that. */
int queue_copy_now(struct queue_memory *m, bool back);
/* Runs once for a device, and sets dev->apart: see trial.h. */
void queue_try_direct(struct queue_device *dev);
/* Whether the import and the mapping of its dma-buf have the same memory. */
int queue_try_memory(struct queue_memory *m, const struct trial_buffer *t, bool *shares);

/*
 * Memory of the library's own, without a dma-buf; NULL: no memory is left. For import_destroy().
 */
struct queue_memory *queue_memory_new(struct queue_device *dev, uint64_t bytes);

/* Frees m->staging, now or later. */
void queue_staging_drop(struct queue_memory *m);

/* Waits for a stream of the library. ret: result of the earlier calls, returned if not 0. */
int queue_finish_own(struct queue_device *dev, void *stream, int ret);

/* ---------------------------------------------------------------- export.c */

/* backend->alloc() and export(). */
int queue_alloc(struct import *imp);
int queue_export(struct dlbuf_device *dev, const DLTensor *tensor,
		 const struct dlbuf_export_opts *opts,
		 struct dlbuf_exported *out);

/* ---------------------------------------------------------------- sync.c */

int queue_stream(struct dlbuf_device *dev, void *handle, bool ends);
int queue_acquire(struct import *imp, uint32_t access, void *handle, int fence);
int queue_release(struct import *imp, uint32_t access, void *handle, int *fence,
		  int *end);
int queue_wait(struct import *imp, uint32_t access, uint64_t deadline_ns);
int queue_pending(struct import *imp, uint32_t access, int *fd);
int queue_drain(struct dlbuf_device *dev, uint64_t deadline_ns);

/*
 * The same with the device entered, and on a stream. queue_end_on() ends the first n uses, and adds
 * one work to all nworks of them. After it, of memory that is `copied`, the caller calls
 * queue_access_over(). end: as for backend->release(); without `fence`, no sync_file is made.
 */
int queue_begin_on(struct queue_memory *m, uint32_t access, void *stream, int fence);
int queue_end_on(struct queue_use *uses, uint32_t n, uint32_t nworks, void *stream, int *fence,
		 int *end);

/* ---------------------------------------------------------------- program.c */

int queue_program_load(struct dlbuf_device *dev, const struct program *p, size_t bytes,
		       void **program);
int queue_program_run(void *program, const struct program_run *run, int fence, int *done);
int queue_program_run_all(struct dlbuf_device *dev, const struct program_job *jobs, uint32_t n,
			  int fence, int *done);
void queue_program_drop(void *program);

/* Called with the free of the tables, when nothing uses them any more. */
void queue_program_free(struct queue_program *program);

/* For QUEUE_BACKEND(), of backends with kernel_create(). */
#define QUEUE_PROGRAMS				\
	.program_load = queue_program_load,	\
	.program_run = queue_program_run,	\
	.program_run_all = queue_program_run_all, \
	.program_drop = queue_program_drop,

/* ---------------------------------------------------------------- the engine's own
 * Callers have entered the device. */

/*
 * work.c: a work with its event. *out has one reference, for queue_work_put(). In the
 * other functions a work may be NULL: it is complete.
 */
int queue_work_get(struct queue_device *dev, struct queue_work **out);
struct queue_work *queue_work_ref(struct queue_device *dev, struct queue_work *work);
void queue_work_put(struct queue_device *dev, struct queue_work *work);

/* Replaces *at by the work that is on the stream now. */
int queue_work_mark(struct queue_device *dev, struct queue_work **at, void *stream);
/*
 * queue_work_await(): the stream waits for the work. queue_work_end(): the caller waits, and puts
 * the work.
 */
int queue_work_await(struct queue_device *dev, struct queue_work *work, void *stream);
int queue_work_end(struct queue_device *dev, struct queue_work *work);

/*
 * Adds one work to the memory of n uses, after what is on the stream now: each access ends with it.
 * Unless eventfd is NULL, *eventfd is a new eventfd that becomes readable at that end, or -1 if the
 * work is complete; then n is 1. If no event can be made, the call waits for the stream.
 *
 * late: 0, or the error because of which nothing can be put on this stream now; `stream` is
 * the caller's handle, and n is 1. The access ends when an event could be recorded there and is
 * complete. If the stream is destroyed, the access ends at once; if dev->orphans, when all
 * work of the device is complete.
 */
int queue_work_add_all(const struct queue_use *uses, uint32_t n, void *stream, int late,
		       int *eventfd);
/* The same for one access, on a stream that takes the event. */
int queue_work_add(struct queue_memory *m, uint32_t access, void *stream);

/*
 * Removes completed works from m->works or dev->waits. True: the list is empty, a lost
 * device runs no host function, and the device is not `unsure`.
 */
bool queue_reap(struct queue_device *dev, struct queue_work **works);

/* Makes the stream wait for all works of m. If it cannot, the caller waits. */
int queue_work_order(struct queue_memory *m, void *stream);
int queue_work_wait(struct queue_memory *m, uint32_t access,
		    uint64_t deadline_ns);
void queue_work_finish(struct queue_device *dev, struct queue_work **works);

/* Stops polling when all eventfds are readable: the device has no more work. */
int queue_poll_end(struct queue_device *dev);

/* Waits for all work of the device. */
int queue_work_drain(struct queue_device *dev, uint64_t deadline_ns);

/* Removes waits that are over. True: one with a number below `next` is pending. */
bool queue_waits_stand(struct queue_device *dev, uint64_t next);

/*
 * Call it after a stream's wait, with the wait's number: the work's event is complete
 * after the wait. Takes the work.
 */
int queue_wait_begun(struct queue_device *dev, struct queue_work *work, void *stream,
		     uint64_t n);

void queue_works_free(struct queue_device *dev);
/* Under the lock: writes to the eventfds of all works. */
void queue_works_lost(struct queue_device *dev);

/* wait.c: makes the stream wait for a sync_file, borrowed; -1: nothing to do. */
int queue_wait_fence(struct queue_device *dev, void *stream, int fence);

/*
 * The same with a function that puts the wait on the stream; the function returns 1
 * if it has waited instead. Blocks while another thread is inside a free, so that no
 * free waits for a fence. -EAGAIN, without an error text: the core has to wait for the fence.
 */
int queue_wait_by(struct queue_device *dev,
		  int (*wait)(struct queue_device *dev, void *stream, int fence,
			      struct bridge_buffer *buffer),
		  void *stream, int fence, struct bridge_buffer *buffer);

/* Tests whether wait_word() works. */
bool queue_try_words(struct queue_device *dev);
void queue_words_free(struct queue_device *dev);

/* copy.c: copies into the tensor's memory after `fence`, and back. */
int queue_copy_in(struct queue_memory *m, void *stream, int fence);
int queue_copy_out(struct queue_memory *m, void *stream, int *fence);

/*
 * A call in a host function has failed and has no caller to return to: the error is
 * logged, and the next access fails with it.
 */
void queue_access_failed(struct queue_memory *m);
int queue_access_check(struct queue_memory *m);
/*
 * DMA_BUF_IOCTL_SYNC in a host function, for an access READ, WRITE or RW of the CPU. START
 * is left out if the dma-buf has fences: see sync.c.
 */
void queue_cpu_start(struct queue_memory *m, uint32_t access);
void queue_cpu_stop(struct queue_memory *m, uint32_t access);
/* The access has ended without queue_end_on(), or was one to a copy. */
void queue_access_over(struct queue_memory *m);

/* bridge.c. With buffer NULL they only pass on the fence. */
int queue_bridge_import(struct queue_memory *m, int dma_buf);
int queue_bridge_in(struct queue_device *dev, struct bridge_buffer *buffer,
		    void *stream, int fence);
int queue_bridge_out(struct queue_device *dev, struct bridge_buffer *buffer,
		     void *stream, int *fence);
void queue_bridge_close(struct queue_device *dev);

#endif /* DLBUF_QUEUE_H */
