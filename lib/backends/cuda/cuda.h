/* SPDX-License-Identifier: MIT */
/* What the files of the CUDA backend share. */
#ifndef DLBUF_CUDA_BACKEND_H
#define DLBUF_CUDA_BACKEND_H

#include <pthread.h>

#include <dlbuf/cuda.h>

#include "../../backend.h"
#include "../../internal.h"
#include "../../sys.h"
#include "api.h"

#ifdef CONFIG_BACKEND_VULKAN
#include "../vulkan/bridge.h"
#else
struct vulkan_bridge;
struct vulkan_bridge_caps {
	bool buffers, fences_in, fences_out;
	char why_not[256];
};
struct vulkan_bridge_buffer;
#endif

/* A device of the machine, before anything is opened. */
struct cuda_gpu {
	cuda_device handle;
	int ordinal;
	int version;		/* of the driver, 1000 * major + 10 * minor */
	int integrated, registers, registers_read_only, coherent, timelines,
	    exports, exports_host;	/* attributes */
	struct dlbuf_device_info info;
};

/*
 * A word of pinned memory for which a stream waits until it is `value` or more,
 * and which the event thread sets when a fence has signalled. It only grows, so
 * that it can be used again while a stream has yet to look.
 */
struct cuda_flag {
	struct cuda_device *dev;
	uint32_t *host;
	cuda_pointer pointer;
	uint32_t value;
	struct cuda_flag *next;	/* of those that are free */
};

/*
 * Work that was released: what has to be over before the memory goes, and what
 * tells others that it is.
 */
struct cuda_work {
	cuda_event event;
	uint32_t access;
	int eventfd;		/* atomic; to write to, -1: nobody asks, or done */
	unsigned int users;	/* threads that wait for it */
	struct cuda_work *next;	/* of the import, or of those that are free */
	struct cuda_work *all;	/* of the device */
};

struct cuda_device {
	struct dlbuf_device base;
	struct cuda_api cu;
	struct cuda_gpu gpu;
	cuda_context context;
	bool primary;		/* the context is one that we retained */
	bool memops;		/* streams can wait for memory */
	struct vulkan_bridge *bridge;	/* or NULL */
	struct vulkan_bridge_caps caps;

	unsigned int refs;	/* atomic; see cuda_ref() */
	pthread_mutex_t lock;	/* of what follows, and of imports' works */
	struct cuda_flag *free_flags;
	struct cuda_page *pages;	/* of flags */
	struct cuda_work *free_works, *all_works;
	struct cuda_work *waits;	/* of streams for flags */
	cuda_stream cleanup;	/* for memory that is still in use; or NULL */
	bool direct_refused;	/* a desktop driver takes no dma-buf: asked once */
	char direct_said[160];
	bool lost;		/* the context is */
	bool unsure;		/* atomic; see cuda_settle() */
};

/*
 * The memory of an import: what may have to wait for the GPU when the import is
 * gone, and so is in an allocation of its own.
 */
struct cuda_memory {
	struct cuda_device *dev;
	uint64_t bytes;
	void *map;		/* of the dma-buf, or of the memfd behind it */
	bool registered;	/* map, with the driver */
	cuda_external_memory external;
	cuda_pointer pointer;	/* ours to free: mapped or allocated; or 0 */
	void *staging;		/* pinned, of path copy */
	int fd;			/* the dma-buf, of path copy; else -1 */
	pthread_mutex_t copying; /* in: until the stream has been told to */
	struct vulkan_bridge_buffer *buffer;	/* of path bridge */
};

struct cuda_import {
	struct import base;
	struct cuda_memory *memory;

	/* Under dev->lock. */
	struct cuda_work *works;
	unsigned int open;	/* accesses that have begun, of a copy */
	cuda_event copied;	/* the last copy in, of a copy */
};

static inline struct cuda_device *to_cuda(struct dlbuf_device *dev)
{
	return container_of(dev, struct cuda_device, base);
}

static inline struct cuda_import *cuda_import_of(struct import *imp)
{
	return container_of(imp, struct cuda_import, base);
}

static inline bool cuda_copies(const struct cuda_import *ci)
{
	return PATH_BIT(ci->base.path) & PATHS_COPIED;
}

BACKEND_DECLARE(cuda);

/* backend.c */

/*
 * A device around a context, which is given back also on failure if it is
 * `primary`. flags: DLBUF_DEVICE_*.
 */
int cuda_device_create(const struct cuda_api *cu, const struct cuda_gpu *gpu,
		       cuda_context context, bool primary, uint32_t flags,
		       struct cuda_device **out);

/* Looks at a device by its number. */
int cuda_gpu_probe(const struct cuda_api *cu, int ordinal,
		   struct cuda_gpu *gpu);

/*
 * One reference more or less; with the last one everything goes. The device's
 * own, one per flag in use and one per memory that waits for the GPU.
 */
void cuda_ref(struct cuda_device *dev);
void cuda_unref(struct cuda_device *dev);

/*
 * The context is lost: no function that the device was to call will be called,
 * so whoever waits for one is told.
 */
void cuda_lost(struct cuda_device *dev);
void cuda_lost_locked(struct cuda_device *dev);

/*
 * 0, or the errno; sees to it that a lost context is noticed. The second is for
 * who has dev->lock.
 */
int cuda_done(struct cuda_device *dev, cuda_result result, const char *call);
int cuda_done_locked(struct cuda_device *dev, cuda_result result,
		     const char *call);

#define CUDA_DO(dev, name, ...) \
	cuda_done(dev, CUDA_RESULT(&(dev)->cu, name, __VA_ARGS__), "cu" #name)
#define CUDA_DO_LOCKED(dev, name, ...) \
	cuda_done_locked(dev, CUDA_RESULT(&(dev)->cu, name, __VA_ARGS__), \
			 "cu" #name)

/*
 * The device's context is the thread's until cuda_leave(), and calls that a
 * capture elsewhere in the process would forbid are allowed.
 */
struct cuda_scope {
	bool pushed;
	int mode;
};
int cuda_enter(struct cuda_device *dev, struct cuda_scope *scope);
/* To give something back: with a context that is gone those calls fail. */
void cuda_enter_to_free(struct cuda_device *dev, struct cuda_scope *scope);
void cuda_leave(struct cuda_device *dev, const struct cuda_scope *scope);

/* import.c */
int cuda_import(struct import *imp);
void cuda_unimport(struct import *imp);

/* Gives it all back; the GPU is done with it. */
void cuda_memory_free(struct cuda_memory *m);

/* sync.c */
bool cuda_unordered(const void *stream);
int cuda_check_stream(struct dlbuf_device *dev, void *stream);
int cuda_acquire(struct import *imp, uint32_t access, void *stream, int fence);
int cuda_release(struct import *imp, uint32_t access, void *stream, int *fence);
int cuda_wait(struct import *imp, uint32_t access, uint64_t deadline_ns);

/* work.c: what was released. */

/* What the stream has been given so far; *fence as backend->release(). */
int cuda_work_add(struct cuda_import *ci, uint32_t access, cuda_stream stream,
		  int *fence);

/* Gives back what is over; true: nothing is left. */
bool cuda_work_reap(struct cuda_import *ci);

/* The stream waits for all of it; or the calling thread does. */
int cuda_work_order(struct cuda_import *ci, cuda_stream stream);
int cuda_work_wait(struct cuda_import *ci, uint32_t access,
		   uint64_t deadline_ns);

/*
 * A stream's wait for a flag: what tells that it has looked at it, before the
 * stream is told to, and after that.
 */
int cuda_wait_get(struct cuda_device *dev, struct cuda_work **out);
int cuda_wait_begin(struct cuda_device *dev, struct cuda_work *work,
		    cuda_stream stream);
void cuda_wait_abandon(struct cuda_device *dev, struct cuda_work *work);

/* The device goes: what streams have yet to look at keeps a reference. */
void cuda_waits_finish(struct cuda_device *dev);

/*
 * Something may be on a stream of which no event tells, because that call has
 * failed: then whoever frees what streams use waits for all of them.
 */
void cuda_set_unsure(struct cuda_device *dev);
void cuda_settle(struct cuda_device *dev);

/* The import goes: its memory (taken) does when the work is over. */
void cuda_work_finish(struct cuda_import *ci, struct cuda_memory *m);

/* What the device has kept. */
void cuda_works_free(struct cuda_device *dev);

/* wait.c: a stream that waits for a sync_file, borrowed, which is pending. */
int cuda_wait_fence(struct cuda_device *dev, cuda_stream stream, int fence);

/* Whether streams can wait for memory, by doing so. */
bool cuda_has_memops(struct cuda_device *dev);
void cuda_flags_free(struct cuda_device *dev);

/*
 * copy.c: into the tensor's memory, after fence, on a stream; and back, *fence
 * being a sync_file of that where the bridge gives one, else it is the stream's
 * last work.
 */
int cuda_copy_import(struct cuda_import *ci);
int cuda_copy_in(struct cuda_import *ci, cuda_stream stream, int fence);
int cuda_copy_out(struct cuda_import *ci, cuda_stream stream, int *fence);

/*
 * bridge.c: CUDA's half of it; without Vulkan there is none. buffer NULL: the
 * fence only.
 */
void cuda_bridge_open(struct cuda_device *dev);
void cuda_bridge_close(struct cuda_device *dev);
/* Under dev->lock: what streams were to signal nobody will. */
void cuda_bridge_lost(struct cuda_device *dev);
int cuda_bridge_import(struct cuda_import *ci);
void cuda_bridge_unimport(struct cuda_memory *m);
int cuda_bridge_in(struct cuda_device *dev, struct vulkan_bridge_buffer *buffer,
		   cuda_stream stream, int fence);
int cuda_bridge_out(struct cuda_device *dev,
		    struct vulkan_bridge_buffer *buffer, cuda_stream stream,
		    int *fence);

/* export.c */
int cuda_alloc(struct import *imp);
int cuda_export(struct dlbuf_device *dev, const DLTensor *tensor,
		const struct dlbuf_export_opts *opts,
		struct dlbuf_exported *out);

#endif /* DLBUF_CUDA_BACKEND_H */
