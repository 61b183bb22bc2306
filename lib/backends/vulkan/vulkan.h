/* SPDX-License-Identifier: MIT */
/* What the files of the Vulkan backend share. */
#ifndef DLBUF_VULKAN_BACKEND_H
#define DLBUF_VULKAN_BACKEND_H

#include <pthread.h>

#include <dlbuf/format.h>
#include <dlbuf/vulkan.h>

#include "../../backend.h"
#include "../../detile.h"
#include "../../internal.h"
#include "../../select.h"
#include "../../sys.h"
#include "api.h"

/* Extensions, as far as dlbuf cares. */
enum {
	EXT_MEMORY_FD = 1,
	EXT_DMA_BUF = 2,
	EXT_FOREIGN = 4,
	EXT_SEMAPHORE_FD = 8,
	EXT_ADDRESS = 16,
	EXT_DRIVER_PROPERTIES = 32,
	EXT_MODIFIER = 64,
	EXT_FORMAT_LIST = 128,
	EXT_TIMELINE = 256,
	EXT_PCI = 512,
	EXT_DRM = 1024,
};
#define VULKAN_EXT_REQUIRED (EXT_MEMORY_FD | EXT_DMA_BUF)

/* Usages of the imported buffers; the address one comes on top. */
#define VULKAN_USAGE                                                          \
	(VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | \
	 VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |                                  \
	 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)

/* The loader and an instance; library is NULL when they are borrowed. */
struct vulkan_instance {
	void *library;
	VkInstance handle;
	uint32_t version;
	struct vulkan_api vk;
};

/* One physical device and how it would be used. */
struct vulkan_physical {
	VkPhysicalDevice handle;
	uint32_t index;
	uint32_t version;	/* the lower of the instance's and its own */
	uint32_t extensions;	/* EXT_* */
	uint32_t family;	/* of the queue */
	uint32_t queues;	/* that the family has */
	uint32_t memory_types;	/* those without a condition */
	uint32_t local_types;	/* of these, those on the device */
	bool address;		/* bufferDeviceAddress */
	bool dedicated_only;	/* imports have to be dedicated allocations */
	bool waits, signals;	/* SYNC_FD semaphores: into it, out of it */
	struct dlbuf_device_info info;
	struct device_place place;
};

#define VULKAN_MAX_DEVICES 32

/* A copy of tiled planes, which lives as long as its submit. */
struct vulkan_copy {
	VkCommandBuffer cmd;
	uint32_t nimages;
	struct {
		VkImage image;
		VkDeviceMemory memory;
	} images[DLBUF_MAX_PLANES];
};

/*
 * One submit of ours under way. `done` tells that it is over; `wait` carries a
 * sync_file into it, `signal` out of it; NULL where the device has no such.
 */
struct vulkan_job {
	VkFence done;
	VkSemaphore wait, signal;
	VkQueue queue;
	struct vulkan_copy *copy;	/* or NULL */
	struct vulkan_job *next;
};

struct vulkan_device {
	struct dlbuf_device base;
	struct vulkan_instance instance;
	struct vulkan_physical physical;
	bool wrapped;		/* handles below are the application's */
	VkDevice handle;
	VkQueue queue;
	VkBufferUsageFlags usage;
	uint32_t foreign;	/* the queue family of everybody else */

	/* Around each use of a queue: the application's, else ours. */
	void (*lock_queue)(void *data, VkQueue queue);
	void (*unlock_queue)(void *data, VkQueue queue);
	void *lock_data;
	pthread_mutex_t queue_lock;

	pthread_mutex_t lock;	/* of what follows; never held into a queue */
	VkCommandPool pool;
	struct vulkan_job *free_jobs;	/* for the next ones */
};

struct vulkan_import {
	struct import base;
	struct dlbuf_vulkan_buffer buffer;
	/* By access - 1, recorded when an access of that kind first begins. */
	struct vulkan_barriers {
		VkCommandBuffer acquire, release;
	} barriers[DLBUF_RW];
	struct vulkan_job *jobs;	/* under way, under dev->lock */
};

static inline struct vulkan_device *vulkan_device(struct dlbuf_device *dev)
{
	return container_of(dev, struct vulkan_device, base);
}

static inline struct vulkan_import *vulkan_import(struct import *imp)
{
	return container_of(imp, struct vulkan_import, base);
}

BACKEND_DECLARE(vulkan);

/* backend.c: the parts that an application's device needs too. */

int vulkan_device_alloc(struct vulkan_device **out);
void vulkan_device_free(struct vulkan_device *dev);

/* With handles, functions and p in place, the rest. */
int vulkan_device_finish(struct vulkan_device *dev);

/* physical.c: what there is. */

/* Opens the loader and makes an instance. -ENODEV where there is none. */
int vulkan_instance_open(struct vulkan_instance *inst);
void vulkan_instance_close(struct vulkan_instance *inst);

/* All physical devices, at most VULKAN_MAX_DEVICES. -ENODEV: none. */
int vulkan_physical_list(const struct vulkan_instance *inst,
			 VkPhysicalDevice *list, uint32_t *n);

/* The EXT_* that a name stands for, or 0. */
uint32_t vulkan_extension(const char *name);

/* The names of those in bits that a device is created with; returns how many. */
uint32_t vulkan_extension_names(uint32_t bits, const char **names);

/* -EOPNOTSUPP: the function's answer is that the device cannot do what is named. */
int vulkan_refuses(const struct vulkan_physical *p, size_t function,
		   const char *what);

/*
 * Looks at p->handle. p->info is filled in also where the device cannot be
 * used (-EOPNOTSUPP).
 */
int vulkan_physical_probe(const struct vulkan_instance *inst,
			  struct vulkan_physical *p);

/*
 * The parts of it that an application's device needs too: who it is, and
 * whether it imports dma-bufs with p->extensions. The latter drops p->address
 * where the two do not go together.
 */
int vulkan_physical_describe(const struct vulkan_instance *inst,
			     struct vulkan_physical *p);
int vulkan_physical_can_import(const struct vulkan_instance *inst,
			       struct vulkan_physical *p);

/* Why it blocks, from waits and signals, into p->info.reason. */
void vulkan_physical_say_why(struct vulkan_physical *p);

/* What its acquire and release do about fences, into p->info too. */
void vulkan_physical_find_sync(const struct vulkan_instance *inst,
			       struct vulkan_physical *p);

/* The queue family that work goes to. -EOPNOTSUPP: there is none. */
int vulkan_physical_find_queue(const struct vulkan_instance *inst,
			       struct vulkan_physical *p);

/* What can be done with memory of that kind behind a buffer of that usage. */
VkExternalMemoryFeatureFlags
vulkan_memory_features(const struct vulkan_instance *inst,
		       const struct vulkan_physical *p,
		       VkBufferUsageFlags usage,
		       VkExternalMemoryHandleTypeFlagBits type);

/* Finds the device that selector names; "" is the first that can be used. */
int vulkan_physical_select(const struct vulkan_instance *inst,
			   const char *selector, struct vulkan_physical *p);

/* import.c and sync.c: the operations of the backend. */
int vulkan_import_buffer(struct import *imp);
void vulkan_unimport_buffer(struct import *imp);
int vulkan_acquire(struct import *imp, uint32_t access, void *stream,
		   int fence);
int vulkan_release(struct import *imp, uint32_t access, void *stream,
		   int *fence, int *end);

/*
 * A memory type of those wanted that the dma-buf, borrowed, can be imported
 * as; and its import. next is more of VkMemoryAllocateInfo.
 */
int vulkan_memory_type(struct vulkan_device *dev, int dma_buf, uint32_t wanted,
		       uint32_t *type);
int vulkan_import_memory(struct vulkan_device *dev, int dma_buf, uint64_t bytes,
			 uint32_t type, const void *next, VkDeviceMemory *out);

/*
 * A new buffer of dev->usage, bound to memory that is the dma-buf, borrowed, and
 * over all of it but the `unusable` bytes at its end.
 */
int vulkan_import_dma_buf(struct vulkan_device *dev, int dma_buf,
			  uint64_t bytes, uint64_t unusable, VkBuffer *buffer,
			  VkDeviceMemory *memory);

/* Sets dev->base.slack. */
int vulkan_find_slack(struct vulkan_device *dev);

/* detile.c: the operations for tiled frames. */
int vulkan_can_detile(struct dlbuf_device *dev, const struct detile *d);
int vulkan_detile(const struct detile *d, int fence, int *done);

/* Gives all of a copy back, under dev->lock; NULL is nothing. */
void vulkan_copy_free(struct vulkan_device *dev, struct vulkan_copy *copy);

/*
 * Submits a copy (taken on success) into the import to the default queue, as
 * backend->detile() has it. sync.c
 */
int vulkan_submit_copy(struct vulkan_import *vi, struct vulkan_copy *copy,
		       int fence, int *done);

/*
 * Waits for what is under way on an import and gives its command buffers back;
 * no access is open.
 */
void vulkan_sync_finish(struct vulkan_import *vi);

/*
 * jobs.c: submits under way, on a list of what they use. Job and list change
 * under dev->lock, which these take.
 */

/* One to submit with; those of the list that are over are used again. */
int vulkan_job_get(struct vulkan_device *dev, struct vulkan_job **list,
		   struct vulkan_job **out);

/* What was submitted is under way until its fence says otherwise. */
int vulkan_job_submit(struct vulkan_device *dev, struct vulkan_job *job,
		      VkQueue queue, const VkSubmitInfo *info);
void vulkan_job_put(struct vulkan_device *dev, struct vulkan_job **list,
		    struct vulkan_job *job);

/* One without a copy: nothing was submitted, or the copy was taken off. */
void vulkan_job_destroy(struct vulkan_device *dev, struct vulkan_job *job);

/* Waits for what was submitted with it. */
int vulkan_job_wait(struct vulkan_device *dev, struct vulkan_job *job);

/* The same, whatever fails; the sentence stays. */
void vulkan_job_finish(struct vulkan_device *dev, struct vulkan_job *job);

/* Takes back those that are over. */
void vulkan_jobs_reap(struct vulkan_device *dev, struct vulkan_job **list);

/* Waits for all of a list that nobody else knows any more. */
void vulkan_jobs_finish(struct vulkan_device *dev, struct vulkan_job **list);

/* Frees the jobs that are kept. */
void vulkan_jobs_free(struct vulkan_device *dev);

/*
 * What failed after its submit is over too, because what comes next may destroy
 * what it uses. A device that is lost is done with everything.
 */
void vulkan_drain(struct vulkan_device *dev, VkQueue queue);

/* Puts a sync_file (borrowed) into a semaphore, for one wait. */
int vulkan_import_fence(struct vulkan_device *dev, int fence,
			VkSemaphore semaphore);

/* A semaphore as a new fd; -1: a SYNC_FD whose work is complete. */
int vulkan_export_semaphore(struct vulkan_device *dev, VkSemaphore semaphore,
			    VkExternalSemaphoreHandleTypeFlagBits type,
			    int *out);

/* The work up to the submit as a sync_file; -1: it is complete. */
int vulkan_export_fence(struct vulkan_device *dev, struct vulkan_job *job,
			int *fence);

#endif /* DLBUF_VULKAN_BACKEND_H */
