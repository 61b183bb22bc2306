/* SPDX-License-Identifier: MIT */
/*
 * What a backend is: one importer of dma-bufs. A backend is a folder under
 * backends/ and one struct backend; the core has validated everything before
 * it calls one, and the backend trusts its input.
 *
 * Its name is the one word for it everywhere: the folder, `name` below, the
 * Kconfig symbol, the device name, the tests.
 */
#ifndef DLBUF_BACKEND_H
#define DLBUF_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/device.h>
#include <dlbuf/export.h>
#include <dlbuf/tensor.h>

#include "cache.h"
#include "fork.h"
#include "import.h"

struct detile;

/*
 * A device. A backend embeds it as the first member of its own struct. The
 * caller of dlbuf_device_open() holds one reference, each import in use one
 * more.
 */
struct dlbuf_device {
	const struct backend *backend;
	char name[32];
	DLDevice dl;
	enum dlbuf_sync acquire_sync;	/* what acquire() can do ... */
	enum dlbuf_sync release_sync;	/* ... and release() */
	uint32_t copy_align;	/* of rows for detile(): bytes, a power of 2 */
	uint32_t slack;		/* bytes to allocate behind what tensors use */
	unsigned int refs;	/* under cache.lock */
	unsigned int generation;	/* fork_generation when it was opened */
	struct dlbuf_device *next;	/* of the process; device.c's */
	struct cache cache;
};

struct backend {
	const char *name;
	DLDeviceType type;
	uint32_t flags;		/* its own, of dlbuf_device_opts: the upper 16 bits */
	uint32_t paths;		/* those that it has; 0: direct only */
	bool waits_implicitly;	/* acquire() waits for the dma-buf's fences */
	size_t import_size;

	/*
	 * Calls fn for each device of the machine, absent ones not; -ENODEV
	 * when the driver library or every device is absent. Required.
	 */
	int (*each)(const struct backend *backend, dlbuf_device_fn fn,
		    void *data);

	/*
	 * Opens the device that selector names, "" being the first. The core
	 * fills in struct dlbuf_device afterwards, except dl.device_id, name and
	 * what the device does about fences, which are the backend's. Required.
	 */
	int (*open)(const char *selector, const struct dlbuf_device_opts *opts,
		    struct dlbuf_device **out);

	/* Frees the device; nothing is imported any more. Required. */
	void (*close)(struct dlbuf_device *dev);

	/* Fills in what it knows better than the core. Required. */
	void (*describe)(struct dlbuf_device *dev,
			 struct dlbuf_device_info *info);

	/*
	 * Imports imp->fd, which stays the core's: a driver that takes fds is
	 * given a duplicate. By imp->path, and the sentence says why not. On
	 * failure nothing is left behind. Required.
	 */
	int (*import)(struct import *imp);

	/* Undoes import(); imp itself and imp->fd are the core's. Required. */
	void (*unimport)(struct import *imp);

	/*
	 * Refuses a stream that an access cannot begin or end on (-EINVAL,
	 * -EBUSY), before anything has changed. STREAM_UNORDERED: it stands for
	 * no order at all: nobody is waited for, and acquire()'s fence is -1.
	 * Optional, absence means that the device has no streams.
	 */
	int (*stream)(struct dlbuf_device *dev, void *stream, bool ends);
#define STREAM_UNORDERED 1

	/*
	 * Begins an access. The core has waited for the fences, or, on a
	 * device with acquire_sync FENCE, gives what is pending as one
	 * sync_file, borrowed, for the device to wait for; else fence is -1.
	 * Required.
	 */
	int (*acquire)(struct import *imp, uint32_t access, void *stream,
		       int fence);

	/*
	 * Ends an access, also when it fails: then the device is done with the
	 * buffer. *fence is a new fd by release_sync, a sync_file or an
	 * eventfd, or -1 when the work is complete; the core puts a sync_file
	 * on the dma-buf. NULL where it is an event and nobody asks.
	 * end: NULL, or set where fence may signal early, to a new eventfd that
	 * a lease waits for instead; fences of some drivers time out.
	 * Required.
	 */
	int (*release)(struct import *imp, uint32_t access, void *stream,
		       int *fence, int *end);

	/*
	 * Waits for the device's work on imp that was released, as far as the
	 * access has to wait for it: what a fence on the dma-buf does for
	 * others. deadline_ns as in dlbuf_acquire_opts. Required where
	 * release_sync of an import may be EVENT.
	 */
	int (*wait)(struct import *imp, uint32_t access, uint64_t deadline_ns);

	/*
	 * What wait() would wait for now, as a new eventfd that becomes readable
	 * when it is complete, or -1. Required together with wait().
	 */
	int (*pending)(struct import *imp, uint32_t access, int *fd);

	/*
	 * Waits until the device is done with all that the library has given it,
	 * and the memory is freed that waited for this. -ETIME, -EBUSY: not
	 * before the caller does something. Optional, absence means that nothing
	 * is under way when release() has returned.
	 */
	int (*drain)(struct dlbuf_device *dev, uint64_t deadline_ns);

	/*
	 * Allocates imp->bytes, zero-filled, of the device's own memory and
	 * exports it: imp->fd is new, imp->bytes may grow, the rest is as
	 * import()'s. Optional, absence means that it cannot.
	 */
	int (*alloc)(struct import *imp);

	/*
	 * The dma-buf of memory that somebody else has allocated on the device.
	 * Optional, likewise.
	 */
	int (*export)(struct dlbuf_device *dev, const DLTensor *tensor,
		      const struct dlbuf_export_opts *opts,
		      struct dlbuf_exported *out);

	/*
	 * Whether the device can read a frame that is not linear, of which
	 * d->to and d->imp are not there yet. -EOPNOTSUPP, and the sentence has
	 * what it can read. Optional, together with detile(): absence means
	 * that the device cannot read tiled frames.
	 */
	int (*can_detile)(struct dlbuf_device *dev, const struct detile *d);

	/*
	 * Copies the planes into rows of d->imp, after fence, which is as
	 * acquire()'s. *done is a new sync_file of the copy, or -1 when it is
	 * complete: a device that cannot give one waits. On failure nothing is
	 * under way. Needs dev->copy_align. Optional, as above.
	 */
	int (*detile)(const struct detile *d, int fence, int *done);
};

/* The table of a backend, as the registry knows it. */
#define BACKEND_DECLARE(name) extern const struct backend name##_backend

/*
 * Finishes a device that a backend has made: the core's fields, one
 * reference, an empty cache. Never fails.
 */
void device_init(struct dlbuf_device *dev, const struct backend *backend,
		 const struct dlbuf_device_opts *opts);

/* Whether the device was opened before the last fork(), by the parent. */
static inline bool device_inherited(const struct dlbuf_device *dev)
{
	return dev->generation != fork_generation;
}

/*
 * Checks a caller's device; every public function begins with this:
 * -EINVAL for NULL, -ESTALE for the parent's.
 */
int device_check(const struct dlbuf_device *dev);

/* Drops a reference, with the last one the device. */
void device_unref(struct dlbuf_device *dev);

/* What happens to a device without references. */
void device_destroy(struct dlbuf_device *dev);

/*
 * The devices of the process, one after another: NULL begins and ends the walk.
 * dev's reference is given back, the result has one.
 */
struct dlbuf_device *device_next(struct dlbuf_device *dev);

/* How many devices of the process have wait(): work without fences. */
unsigned int devices_unfenced(void);

/*
 * For a call that has returned ret and holds no lock: if ret is -ENOMEM, -EMFILE
 * or -ENFILE, drops all idle imports of the process. True when that has given
 * something back, so that the call is worth a second try; once per *tried.
 */
bool device_relieve(int ret, bool *tried);

/* Checks a caller's options; also used by the wrap functions. */
int device_opts_get(const struct backend *backend,
		    struct dlbuf_device_opts *ours,
		    const struct dlbuf_device_opts *src);

#endif /* DLBUF_BACKEND_H */
