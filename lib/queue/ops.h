/* SPDX-License-Identifier: MIT */
/*
 * The driver's functions that a backend over the engine of queue.h gives it. The engine holds no
 * lock across a call of these. And nothing that a stream waits for may need one, because a
 * driver may wait for its streams inside a free (see event.h).
 */
#ifndef DLBUF_QUEUE_OPS_H
#define DLBUF_QUEUE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dlbuf/dlpack.h>

struct queue_device;
struct queue_memory;

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

#endif /* DLBUF_QUEUE_OPS_H */
