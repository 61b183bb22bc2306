/* SPDX-License-Identifier: MIT */
/*
 * Devices with queues share this engine: released work, streams that wait for fences,
 * copies, and memory that outlives its import. A backend of such a device fills
 * in struct queue_ops, embeds struct queue_device, and takes its imports from
 * here.
 *
 * Rules. No lock is held across a call of the table. A driver may wait inside a
 * free for whatever its streams wait for, so that nothing a stream waits for
 * needs a call of the driver (see event.h).
 */
#ifndef DLBUF_QUEUE_H
#define DLBUF_QUEUE_H

#include <pthread.h>

#include "../backend.h"
#include "../bridge.h"
#include "../event.h"
#include "../internal.h"
#include "../sys.h"

struct queue_device;
struct queue_memory;
struct queue_work;

/* Addresses of the device. */
struct queue_range {
	uintptr_t base;
	uint64_t bytes;
};

/* Records the changes of enter(), for leave(). */
struct queue_scope {
	bool entered;
	int mode;
};

/* The work is not over; see event_query(). */
#define QUEUE_PENDING 1

/*
 * The driver. Functions return 0 or a negative errno with a sentence. A backend
 * that sees an error which ends the device calls queue_lost(), from any of them.
 * An absent function is NULL, unless it is required.
 */
struct queue_ops {
	/*
	 * Makes the device current on the thread. to_free: cannot fail, for calls
	 * that give something back. Absent: there is nothing to do.
	 */
	int (*enter)(struct queue_device *dev, struct queue_scope *scope,
		     bool to_free);
	void (*leave)(struct queue_device *dev, const struct queue_scope *scope);

	/*
	 * The stream that a handle of the caller's means, NULL the device's
	 * default; `ends`: for the end of an access, perhaps on another thread
	 * than its begin. -EINVAL: another device's, or destroyed, -EBUSY: it
	 * records and runs nothing now. Required.
	 */
	int (*stream)(struct queue_device *dev, void *handle, bool ends,
		      void **stream);
	/* A handle that stands for no order at all; NULL: none does. */
	void *no_order;
	/* A stream of the library's own, in order with no other. Required. */
	int (*stream_create)(struct queue_device *dev, void **stream);
	void (*stream_destroy)(struct queue_device *dev, void *stream);

	/* Events. All but event_wait() required; absent, the library polls. */
	int (*event_create)(struct queue_device *dev, void **event);
	void (*event_destroy)(struct queue_device *dev, void *event);
	int (*event_record)(struct queue_device *dev, void *event, void *stream);
	/* 0: over, QUEUE_PENDING. */
	int (*event_query)(struct queue_device *dev, void *event);
	int (*event_wait)(struct queue_device *dev, void *event);
	int (*stream_wait)(struct queue_device *dev, void *stream, void *event);

	/* Waits for a stream, or for all streams of the device. Required. */
	int (*finish)(struct queue_device *dev, void *stream);
	int (*finish_all)(struct queue_device *dev);

	/*
	 * The stream calls fn, which makes no call of the driver, and goes on
	 * when it has returned. Not called if the device is lost. Absent: the
	 * library polls events for those who ask, and there is no path `copy`.
	 */
	int (*call_host)(struct queue_device *dev, void *stream,
			 void (*fn)(void *data), void *data);

	/*
	 * The stream waits until the word at a device address is value or more.
	 * Used where dev->waits_for_words. Absent: the caller waits for fences
	 * that the stream cannot wait for otherwise.
	 */
	int (*wait_word)(struct queue_device *dev, void *stream, uintptr_t word,
			 uint32_t value);

	/*
	 * The stream waits for a sync_file, borrowed; the work of the stream so
	 * far as a new one. Used where dev->takes_fences and dev->gives_fences.
	 * Absent: the bridge, words or events do it.
	 */
	int (*wait_fence)(struct queue_device *dev, void *stream, int fence);
	int (*export_fence)(struct queue_device *dev, void *stream, int *fence);

	/*
	 * Memory. Each sets m->data, what tensors have as their data, and what
	 * free() needs, which undoes all of them, also after they have failed.
	 * import(): the dma-buf m->fd, which stays open until after free().
	 * Absent: no path `direct`.
	 * register_host(): m->map, for path `host`. Used where dev->registers,
	 * and of what is read-only where dev->registers_read_only.
	 * alloc(): m->bytes of the device. Absent: no path `copy`.
	 * import_shared(): m->bytes that the bridge has allocated, by an
	 * OPAQUE_FD, which is taken on success. Absent: no bridge.
	 */
	int (*import)(struct queue_memory *m);
	int (*register_host)(struct queue_memory *m, uint32_t access);
	int (*alloc)(struct queue_memory *m);
	int (*import_shared)(struct queue_memory *m, int fd, uint64_t allocated,
			     bool dedicated);
	void (*free)(struct queue_memory *m);

	/*
	 * Dma-bufs of the device's memory; required for queue_alloc() and
	 * queue_export().
	 * range(): the allocation that p is in, perhaps somebody else's; type is the
	 * tensor's. -EINVAL: it is not the device's, -EOPNOTSUPP: it can have no
	 * dma-buf.
	 * export(): whole pages as a new fd. Sets *pages to what is exported, where
	 * that is more.
	 * clear(): zeros m->data on a stream.
	 * flush(): the device sees what others have written into its memory. Used
	 * where dev->flushes.
	 */
	int (*range)(struct queue_device *dev, DLDeviceType type, uintptr_t p,
		     struct queue_range *allocation);
	int (*export)(struct queue_device *dev, struct queue_range *pages,
		      uint32_t flags, int *fd);
	int (*clear)(struct queue_memory *m, void *stream);
	int (*flush)(struct queue_device *dev);

	/* Pinned memory of the host, and its device address if that is asked. */
	int (*alloc_host)(struct queue_device *dev, size_t bytes, void **host,
			  uintptr_t *address);
	void (*free_host)(struct queue_device *dev, void *host);

	/* Copies all of m->data to m->staging (out), or back, on a stream. */
	int (*copy)(struct queue_memory *m, void *stream, bool out);

	/*
	 * Timeline semaphores of the bridge; fd is taken on success. Absent, all
	 * of them: no bridge.
	 */
	int (*semaphore_import)(struct queue_device *dev, int fd, void **semaphore);
	void (*semaphore_destroy)(struct queue_device *dev, void *semaphore);
	/* The stream signals the value, or waits for it. */
	int (*semaphore_use)(struct queue_device *dev, void *stream,
			     void *semaphore, uint64_t value, bool signals);

	/* Frees the device, of which nothing is left. Required. */
	void (*destroy)(struct queue_device *dev);
};

/*
 * A word of pinned memory for which a stream waits until it is `value` or more.
 * It only grows, so that it can be used again while a stream has yet to look.
 */
struct queue_word {
	struct queue_device *dev;
	uint32_t *host;
	uintptr_t address;
	uint32_t value;
	struct queue_word *next;	/* of those that are free */
};

/* A device. A backend embeds it as the first member of its own struct. */
struct queue_device {
	struct dlbuf_device base;
	const struct queue_ops *ops;
	/* Filled in by the backend. */
	bool waits_for_words;
	bool takes_fences, gives_fences;
	bool registers, registers_read_only;	/* host memory */
	bool coherent;		/* reads host memory through the CPU's tables */
	bool flushes;		/* others' writes into its memory */
	bool believed;		/* atomic; bytes of `direct` need no comparison */

	struct bridge *bridge;	/* or NULL */
	struct bridge_caps caps;
	unsigned int refs;	/* atomic; see queue_ref() */
	bool lost;		/* atomic; see queue_lost() */
	int unsure;		/* atomic; see queue_set_unsure() */
	unsigned int leftovers;	/* atomic; see queue_memory_drop() */
	struct event_call closing, polling;

	pthread_mutex_t lock;	/* of what follows, and of lists of work */
	struct queue_word *free_words;
	struct queue_page *pages;	/* of words */
	struct queue_work *free_works, *all_works;
	struct queue_work *waits;	/* of streams, for words and semaphores */
	unsigned int npolled;	/* works for which the library polls */
	/*
	 * A driver's free may wait for all streams and hold up all calls, so no
	 * stream begins to wait for a fence meanwhile; see queue_wait_by().
	 */
	unsigned int freeing;	/* threads inside a free */
	unsigned int beginning;	/* waits that are not in `waits` yet */
	pthread_cond_t freed;
};

/*
 * The memory of an import and what uses it. In an allocation of its own, because
 * the import may go before the work on it is over.
 */
struct queue_memory {
	struct queue_device *dev;
	uint64_t bytes;
	int fd;			/* the dma-buf, a duplicate, or -1 */
	void *map;		/* of the dma-buf, or of the memfd behind it */
	void *staging;		/* pinned, of path copy */
	struct bridge_buffer *buffer;	/* of path bridge */
	/* The backend's. */
	uintptr_t data;
	void *handle;
	bool registered, allocated;

	bool flushes;		/* exported, on a device that flushes */
	bool copied;		/* by path bridge or copy: and then ... */
	void *copy_done;	/* the event of the last copy in */
	pthread_mutex_t copying; /* in: until the stream has been told to */
	/* Under dev->lock. */
	struct queue_work *works;
	unsigned int open;	/* accesses of a copy that have begun */
	struct event_call leftover;	/* when the import is gone */
};

struct queue_import {
	struct import base;
	struct queue_memory *memory;
};

static inline struct queue_device *queue_device_of(struct dlbuf_device *dev)
{
	return container_of(dev, struct queue_device, base);
}

static inline struct queue_memory *queue_memory_of(struct import *imp)
{
	return container_of(imp, struct queue_import, base)->memory;
}

/* ---------------------------------------------------------------- device.c */

/* One reference; the caller's until queue_close(). */
void queue_init(struct queue_device *dev, const struct queue_ops *ops);

/*
 * Opens the bridge to the device of that UUID, or none, for the reason why_not,
 * which goes to caps.why_not; and says in base what the device does about fences.
 */
void queue_open_bridge(struct queue_device *dev, const uint8_t uuid[16],
		       const char *why_not);

/* For backend->describe(), where each() gives `known`. */
void queue_describe(struct dlbuf_device *dev,
		    const struct dlbuf_device_info *known,
		    struct dlbuf_device_info *info);

/* backend->close(). What streams have yet to look at keeps the device. */
void queue_close(struct dlbuf_device *dev);

void queue_ref(struct queue_device *dev);
void queue_unref(struct queue_device *dev);

int queue_enter(struct queue_device *dev, struct queue_scope *scope);
void queue_enter_to_free(struct queue_device *dev, struct queue_scope *scope);
void queue_leave(struct queue_device *dev, const struct queue_scope *scope);

/*
 * The device is gone: nothing that it was to call will be called, so whoever
 * waits for that is told.
 */
void queue_lost(struct queue_device *dev);

/*
 * Something may be on a stream that no event knows of, because a call has
 * failed: who frees next waits for all streams.
 */
void queue_set_unsure(struct queue_device *dev);

/* ---------------------------------------------------------------- import.c */

/* backend->import(), by imp->path, and unimport(). */
int queue_import(struct import *imp);
void queue_unimport(struct import *imp);

/* The work of a stream of the library's own is over. -EIO, and so on. */
int queue_finish_own(struct queue_device *dev, void *stream, int ret);

/* Memory for imp, which fill(), entered, makes of nothing. */
int queue_memory_new(struct import *imp, uint64_t bytes,
		     int (*fill)(struct queue_memory *m, struct import *imp));
/* Entered. */
void queue_memory_free(struct queue_memory *m);

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

/* ---------------------------------------------------------------- the engine's own
 * Callers have entered. */

/* work.c: an event each. One reference, for queue_work_put(). */
int queue_work_get(struct queue_device *dev, struct queue_work **out);
void queue_work_put(struct queue_device *dev, struct queue_work *work);

/*
 * The end of an access: what the stream has been given so far. eventfd may be
 * NULL, else *eventfd is a new one that becomes readable, or -1: it is over.
 * Without an event this waits for the stream.
 * late: stream is a handle on which nothing can be put now. The access ends once
 * that is possible, or when all of the device's work is over.
 */
int queue_work_add(struct queue_memory *m, uint32_t access, void *stream,
		   bool late, int *eventfd);

/* Gives back what is over of m->works or dev->waits; true: nothing is left. */
bool queue_reap(struct queue_device *dev, struct queue_work **works);

/* The stream waits for all of it, or the caller does for some, or for all. */
int queue_work_order(struct queue_memory *m, void *stream);
int queue_work_wait(struct queue_memory *m, uint32_t access,
		    uint64_t deadline_ns);
void queue_work_finish(struct queue_device *dev, struct queue_work **works);

/*
 * For what queue_work_wait() would wait for now, a new eventfd that becomes
 * readable when it is over, or -1. And waits for all work of the device.
 */
int queue_work_watch(struct queue_memory *m, uint32_t access, int *out);
int queue_work_drain(struct queue_device *dev, uint64_t deadline_ns);

/* Behind a stream's wait: the event tells that it has looked. Takes work. */
int queue_wait_begun(struct queue_device *dev, struct queue_work *work,
		     void *stream);

void queue_works_free(struct queue_device *dev);
void queue_works_lost(struct queue_device *dev);

/* wait.c: the stream waits for a sync_file, borrowed, or -1. */
int queue_wait_fence(struct queue_device *dev, void *stream, int fence);

/*
 * The same by a function of the engine, which puts the wait on the stream, or
 * returns 1: it has waited. Blocks while another thread is inside a free, so that
 * no free waits for a fence.
 */
int queue_wait_by(struct queue_device *dev,
		  int (*wait)(struct queue_device *dev, void *stream, int fence,
			      struct bridge_buffer *buffer),
		  void *stream, int fence, struct bridge_buffer *buffer);

/* Whether wait_word() works, by doing so. */
bool queue_try_words(struct queue_device *dev);
void queue_words_free(struct queue_device *dev);

/* copy.c: into the tensor's memory after fence, and back; see queue_bridge_out(). */
int queue_copy_in(struct queue_memory *m, void *stream, int fence);
int queue_copy_out(struct queue_memory *m, void *stream, int *fence);

/* bridge.c: buffer NULL: the fence only. */
int queue_bridge_import(struct queue_memory *m, int dma_buf);
int queue_bridge_in(struct queue_device *dev, struct bridge_buffer *buffer,
		    void *stream, int fence);
int queue_bridge_out(struct queue_device *dev, struct bridge_buffer *buffer,
		     void *stream, int *fence);
void queue_bridge_close(struct queue_device *dev);

/* leftover.c: takes m, and frees it when its work is over: perhaps later. */
void queue_memory_drop(struct queue_memory *m);

#endif /* DLBUF_QUEUE_H */
