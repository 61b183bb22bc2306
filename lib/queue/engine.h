/* SPDX-License-Identifier: MIT */
/* The engine of devices with queues: what its files share. See queue.h for backends. */
#ifndef DLBUF_QUEUE_ENGINE_H
#define DLBUF_QUEUE_ENGINE_H

#include "../alloc/trial.h"
#include "queue.h"

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

/* ---------------------------------------------------------------- device.c */

void queue_ref(struct queue_device *dev);
void queue_unref(struct queue_device *dev);

/* ---------------------------------------------------------------- gate.c */

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

/* See queue_set_unsure(). Under the lock. */
bool queue_is_unsure(struct queue_device *dev);

/*
 * Under the lock, or at the end of the device: joins a thread that does not run any more. Such a
 * thread does not take the lock.
 */
void queue_finish_join(struct queue_device *dev);

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

/* ---------------------------------------------------------------- import.c, export.c */

/*
 * export.c: whether others use the dma-buf of memory that dlbuf_alloc() made. Drivers
 * allocate freed memory again with its dma-buf, so it is not freed meanwhile.
 */
bool queue_is_held(const struct queue_memory *m);

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

/* Waits for a stream of the library. ret: result of the earlier calls, returned if not 0. */
int queue_finish_own(struct queue_device *dev, void *stream, int ret);

/* ---------------------------------------------------------------- sync.c */

/*
 * queue_acquire() and queue_release() with the device entered, and on a stream. queue_end_on()
 * ends the first n uses, and adds one work to all nworks of them. For memory that is `copied`,
 * the caller calls queue_access_over() after it. end: as for backend->release(); without
 * `fence`, no sync_file is made.
 */
int queue_begin_on(struct queue_memory *m, uint32_t access, void *stream, int fence);
int queue_end_on(struct queue_use *uses, uint32_t n, uint32_t nworks, void *stream, int *fence,
		 int *end);

/* ---------------------------------------------------------------- program.c */

/* Called with the free of the tables, when nothing uses them any more. */
void queue_program_free(struct queue_program *program);

/* ---------------------------------------------------------------- work.c */

int queue_enter(struct queue_device *dev, struct queue_scope *scope);
void queue_enter_to_free(struct queue_device *dev, struct queue_scope *scope);
void queue_leave(struct queue_device *dev, const struct queue_scope *scope);

/*
 * Call it after a failed call, with that call's result. If making an event fails with the
 * same result, the driver keeps the error, and the device is lost. Returns `error`.
 */
int queue_failed(struct queue_device *dev, int error);

/* ops->stream() */
int queue_find_stream(struct queue_device *dev, void *handle, bool ends, void **stream);

/* Callers of the following have entered the device. */

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

/* wait.c: makes the stream wait for a sync_file, borrowed; -1: nothing to do. */
int queue_wait_fence(struct queue_device *dev, void *stream, int fence);

/*
 * The same with a function that puts the wait on the stream; the function returns 1
 * if it has waited instead. Blocks while another thread is inside a free, so that no
 * free waits for a fence. -EAGAIN, without an error text: the core has to wait for the fence.
 */
typedef int (*queue_wait_fn)(struct queue_device *dev, void *stream, int fence,
			     struct bridge_buffer *buffer);
int queue_wait_by(struct queue_device *dev, queue_wait_fn wait, void *stream, int fence,
		  struct bridge_buffer *buffer);

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

#endif /* DLBUF_QUEUE_ENGINE_H */
