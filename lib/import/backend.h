/* SPDX-License-Identifier: MIT */
/*
 * A backend imports dma-bufs into one kind of device. It is a folder under backends/
 * that defines one struct backend. The core validates all arguments before it calls a
 * backend, and the backend does not check them again.
 *
 * The same name is used for the folder, `name` below, the Kconfig symbol, device names
 * and the tests.
 */
#ifndef DLBUF_BACKEND_H
#define DLBUF_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/device.h>
#include <dlbuf/export.h>
#include <dlbuf/tensor.h>

#include "../system/fork.h"
#include "cache.h"
#include "import.h"

struct detile;
struct program;
struct program_run;
struct program_job;

/* One of several accesses that begin or end together. */
struct bracket {
	struct import *imp;
	uint32_t access;
};

/* Their largest number. */
#define MAX_BRACKETS 16

/*
 * The stream of an access. The core asks backend->stream() about it once, before the access begins
 * or ends, and passes the answer to acquire() or release().
 */
struct access_stream {
	void *handle;	/* the caller's; NULL: the default stream */
	bool asked;	/* the rest is set. False if a tensor is deleted: then release() asks */
	int refused;	/* the error, if an access has to end nevertheless */
	void *found;	/* the driver's stream */
};

typedef void (*modifier_fn)(uint64_t modifier, uint32_t nplanes, void *data);

/*
 * A device. A backend embeds this struct as the first member of its own. The caller of
 * dlbuf_device_open() holds one reference, and each import in use holds one.
 */
struct dlbuf_device {
	const struct backend *backend;
	char name[32];
	DLDevice dl;
	enum dlbuf_sync acquire_sync;	/* how acquire() handles fences */
	enum dlbuf_sync release_sync;	/* how release() handles fences */
	uint32_t copy_align;	/* alignment of rows for detile(): bytes, a power of 2 */
	uint32_t slack;		/* extra bytes of a buffer, behind the bytes of its tensors */
	unsigned int refs;	/* under cache.lock */
	unsigned int generation;	/* fork_generation when it was opened */
	unsigned int ndying;	/* atomic; see import_destroy() */
	unsigned int nheld;	/* atomic; of these, those that drain() does not wait for */
	bool wrapped;		/* the context is the application's */
	struct dlbuf_device *next;	/* list of the process's devices, see device.c */
	struct cache cache;
	/*
	 * Layouts of the last frame, while no thread uses them: atomic, exchanged for NULL.
	 * free() them.
	 */
	void *last_frame;
};

struct backend {
	const char *name;
	DLDeviceType type;	/* of its tensors. Without program_load(), kDLCPU has the CPU's loops */
	uint32_t paths;		/* PATH_BIT()s that it has; 0: only `direct` */
	bool waits_implicitly;	/* acquire() waits for the dma-buf's fences */
	const char *exporter;	/* dlbuf_alloc() tries it first; NULL: udmabuf */
	size_t import_size;

	/*
	 * Calls fn for each device of the machine. -ENODEV: there is no driver
	 * library, or no device. Required.
	 */
	int (*each)(const struct backend *backend, dlbuf_device_fn fn,
		    void *data);

	/*
	 * Opens the device that selector names; "" is the first one. The backend
	 * sets dl.device_id, name, acquire_sync and release_sync; the core fills
	 * in the rest of struct dlbuf_device afterwards. Required.
	 */
	int (*open)(const char *selector, const struct dlbuf_device_opts *opts,
		    struct dlbuf_device **out);

	/*
	 * The application closes the device, which may still have imports for a
	 * long time. Optional.
	 */
	void (*shut)(struct dlbuf_device *dev);

	/* Frees the device, which has no imports any more. Required. */
	void (*close)(struct dlbuf_device *dev);

	/* Fills in the fields of info that the core does not know. Required. */
	void (*describe)(struct dlbuf_device *dev,
			 struct dlbuf_device_info *info);

	/*
	 * Imports imp->fd. A backend with `paths` tries those of imp->paths, and
	 * sets imp->path, which is `direct` at first. The fd stays the core's: a
	 * driver that takes fds gets a duplicate. On failure the error text has
	 * the reason, and everything is undone. Required.
	 */
	int (*import)(struct import *imp);

	/*
	 * Undoes import() and alloc(). The core then closes imp->fd and frees imp.
	 * False: work of imp still runs, or the driver would wait in a free. Then imp stays as it
	 * is, and the core calls again, after a longer pause if imp->held is set. wait: the call
	 * waits instead. A backend with wait() first waits until cache_unlist() is true.
	 * Required.
	 */
	bool (*unimport)(struct import *imp, bool wait);

	/*
	 * Checks stream->handle before an access begins or ends on it, and may set the other
	 * fields. -EINVAL, -EBUSY: it cannot. STREAM_UNORDERED: the handle means `no
	 * order`, so the core does not wait for fences, and acquire() gets fence -1.
	 * Optional: without it the device has no streams.
	 */
	int (*stream)(struct dlbuf_device *dev, struct access_stream *stream, bool ends);
#define STREAM_UNORDERED 1

	/*
	 * Keeps a stream that is not NULL, from before an access begins on it until after
	 * the access has ended, perhaps on another stream. Optional, together: without
	 * them the application keeps the stream, or stream() detects that it was
	 * destroyed.
	 */
	int (*keep)(struct dlbuf_device *dev, void *stream);
	void (*drop)(struct dlbuf_device *dev, void *stream);

	/*
	 * Begins an access. On a device with acquire_sync FENCE, `fence` is one
	 * sync_file, borrowed, of all pending work, and the device must wait for
	 * it; -1: nothing is pending. On other devices the core has waited, and
	 * fence is -1. With waits_implicitly, -EAGAIN without an error text: it was
	 * interrupted, or the exporter is busy, and the core tries again. On other
	 * devices it means that the device cannot wait now, as -EMFILE, -ENFILE and
	 * -ENOMEM do with a fence: the core waits for the fence, and calls with -1.
	 * Required.
	 */
	int (*acquire)(struct import *imp, uint32_t access, const struct access_stream *stream,
		       int fence);

	/*
	 * Ends an access. If it fails the access ends too, and the device no longer
	 * uses the buffer. *fence is new: a sync_file or an eventfd, as
	 * release_sync says, or -1 if the work is complete. The core adds a
	 * sync_file to the dma-buf. fence is NULL if release_sync is EVENT and
	 * the caller wants no fd.
	 * end: NULL if there is no lease. Otherwise *end may be set to a new
	 * eventfd, for which the lease waits instead of *fence: the fences of some
	 * drivers time out and then signal before the work is complete. Required.
	 */
	int (*release)(struct import *imp, uint32_t access, const struct access_stream *stream,
		       int *fence, int *end);

	/*
	 * acquire() and release() of 2 to MAX_BRACKETS imports of the device, one of
	 * which may be in the list twice. All of them begin, or none does; all end, and
	 * *fence is for all of them. Optional, together: without them the core calls
	 * acquire() and release() for each. Not for backends with wait() or keep().
	 */
	int (*acquire_all)(const struct bracket *brackets, uint32_t n,
			   const struct access_stream *stream, int fence);
	int (*release_all)(const struct bracket *brackets, uint32_t n,
			   const struct access_stream *stream, int *fence);

	/*
	 * Waits for released work on imp that conflicts with the access. With
	 * release_sync EVENT the dma-buf has no fence to wait for. deadline_ns as
	 * in dlbuf_acquire_opts. Required if release_sync of an import may be
	 * EVENT.
	 */
	int (*wait)(struct import *imp, uint32_t access, uint64_t deadline_ns);

	/*
	 * Notes work on imp that failed, by pending_failed(). Does not wait. Called
	 * before an acquire on the device itself, which does not call wait(). Optional.
	 */
	void (*look)(struct import *imp);

	/*
	 * Gives a new eventfd that becomes readable when the work is complete
	 * that wait() would wait for now; -1: there is no work. Required with
	 * wait().
	 */
	int (*pending)(struct import *imp, uint32_t access, int *fd);

	/*
	 * Waits until the device has completed everything that the library has
	 * submitted. -ETIME: the deadline passed. -EBUSY: the application has to act
	 * first. Optional: without it no work runs after release() has returned.
	 */
	int (*drain)(struct dlbuf_device *dev, uint64_t deadline_ns);

	/*
	 * Allocates imp->bytes of zero-filled device memory and exports it: sets
	 * imp->fd to a new fd, may increase imp->bytes, and fills in imp as
	 * import() does. Optional: without it the device cannot allocate.
	 */
	int (*alloc)(struct import *imp);

	/*
	 * Exports memory that the application or another library has allocated on
	 * the device. Optional: without it the device cannot export.
	 */
	int (*export)(struct dlbuf_device *dev, const DLTensor *tensor,
		      const struct dlbuf_export_opts *opts,
		      struct dlbuf_exported *out);

	/*
	 * Checks whether the device can read this tiled frame; d->to and d->imp
	 * are not set yet. -EOPNOTSUPP: it cannot, and the error text lists the
	 * modifiers that it can read. Optional, together with detile(): without
	 * them the device cannot read tiled frames.
	 */
	int (*can_detile)(struct dlbuf_device *dev, const struct detile *d);

	/*
	 * Copies the planes into rows of d->imp, after `fence`, as for acquire().
	 * *done is a new sync_file of the copy, or -1 if the copy is complete: a
	 * device that cannot make a sync_file waits. After a failure no copy
	 * runs. Needs dev->copy_align. Optional, as above.
	 */
	int (*detile)(const struct detile *d, int fence, int *done);

	/*
	 * Calls fn with each modifier for which can_detile() accepts frames of d->format, and
	 * with the number of planes that the driver requires; the rest of d is as for
	 * can_detile(). LINEAR may be among the modifiers; each is given once. Optional: absence
	 * means that the driver has no list.
	 */
	int (*modifiers)(struct dlbuf_device *dev, const struct detile *d,
			 modifier_fn fn, void *data);

	/*
	 * Loads a program of `bytes` bytes (prepare/program.h), which is borrowed.
	 * -EOPNOTSUPP: the device cannot run it. Optional, with the two below: without
	 * them the CPU's loops prepare frames of a device of type kDLCPU, and other devices
	 * prepare none.
	 */
	int (*program_load)(struct dlbuf_device *dev, const struct program *p, size_t bytes,
			    void **program);

	/*
	 * Runs it after `fence`, as for acquire(), with the imports acquired and released in
	 * the same work. *done is a new sync_file of it, or -1 if it is complete: a device
	 * that cannot make a sync_file waits. After a failure nothing runs.
	 */
	int (*program_run)(void *program, const struct program_run *run, int fence, int *done);

	/*
	 * The core does not run the program any more; its runs may not be complete. Does not
	 * wait.
	 */
	void (*program_drop)(void *program);

	/*
	 * Loads n programs and runs each once, in one piece of work, as program_run(). The runs
	 * differ only in the image of the tensor. The images have equal distances, and the last
	 * one begins within 1 GiB. Required with program_load().
	 */
	int (*program_run_all)(struct dlbuf_device *dev, const struct program_job *jobs,
			       uint32_t n, int fence, int *done);
};

/* Declares the table of a backend. */
#define BACKEND_DECLARE(name) extern const struct backend name##_backend

/*
 * Fills in the core's fields of a new device, which then has one reference and an empty
 * cache. Never fails.
 */
void device_init(struct dlbuf_device *dev, const struct backend *backend,
		 const struct dlbuf_device_opts *opts);

/* Whether a parent process opened the device, before a fork(). */
#define device_inherited(dev) ((dev)->generation != fork_generation)

/*
 * Checks a caller's device. Every public function calls this first.
 * -EINVAL  NULL
 * -ESTALE  a parent process opened the device
 */
int device_check(const struct dlbuf_device *dev);

/* Adds a reference to a device that has one. */
void device_ref(struct dlbuf_device *dev);

/* Drops a reference. The last one destroys the device. */
void device_unref(struct dlbuf_device *dev);

/* Destroys a device without references. */
void device_destroy(struct dlbuf_device *dev);

/*
 * Walks over the devices of the process: returns the one after dev, with a new
 * reference, and drops the reference of dev. NULL begins and ends the walk.
 */
struct dlbuf_device *device_next(struct dlbuf_device *dev);

/*
 * The number of the process's devices whose work may have no fences: their backends have wait().
 */
extern unsigned int devices_nunfenced;	/* atomic */
#define devices_unfenced() __atomic_load_n(&devices_nunfenced, __ATOMIC_ACQUIRE)

/*
 * Drops all idle imports of the process if ret is -ENOMEM, -EMFILE or -ENFILE. Returns
 * true if it dropped any: then the caller tries its call again, once, as *tried notes.
 * The caller must hold no lock.
 */
bool device_relieve(int ret, bool *tried);

/* dlbuf_device_each(), with `programs` only of backends that have program_load(). */
int device_each(bool programs, dlbuf_device_fn fn, void *data);

/* Checks and copies a caller's options. The wrap functions use it too. */
int device_opts_get(struct dlbuf_device_opts *ours, const struct dlbuf_device_opts *src);

#endif /* DLBUF_BACKEND_H */
