/* SPDX-License-Identifier: MIT */
/* Shared by the files of the Vulkan backend. */
#ifndef DLBUF_VULKAN_BACKEND_H
#define DLBUF_VULKAN_BACKEND_H

#include <errno.h>
#include <pthread.h>

#include <dlbuf/format.h>
#include <dlbuf/vulkan.h>

#include "../../alloc/trial.h"
#include "../../frame/detile.h"
#include "../../import/backend.h"
#include "../../import/select.h"
#include "../../system/internal.h"
#include "../../system/sys.h"
#include "api.h"

/* The extensions that dlbuf uses. */
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
	EXT_MAINTENANCE4 = 2048,
};
#define VULKAN_EXT_REQUIRED (EXT_MEMORY_FD | EXT_DMA_BUF)

/* Usages of imported buffers; SHADER_DEVICE_ADDRESS is added if available. */
#define VULKAN_USAGE                                                          \
	(VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | \
	 VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |                                  \
	 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)

/* The loader and an instance. library is NULL if they are the application's. */
struct vulkan_instance {
	void *library;
	VkInstance handle;
	uint32_t version;
	struct vulkan_api vk;
};

/* A physical device, and the way in which dlbuf would use it. */
struct vulkan_physical {
	VkPhysicalDevice handle;
	uint32_t index;
	uint32_t version;	/* the lower one of instance and device */
	VkDriverId driver;	/* 0: the driver does not report it */
	uint32_t extensions;	/* EXT_* */
	bool given;		/* an application listed these; the driver may have more */
	uint32_t family;	/* queue family of the queue */
	uint32_t queues;	/* in that family */
	uint32_t memory_types;	/* types that need no feature */
	uint32_t local_types;	/* those of memory_types that are on the device */
	uint64_t max_buffer;	/* bytes of a VkBuffer */
	bool address;		/* bufferDeviceAddress */
	bool dedicated_only;	/* imports must be dedicated allocations */
	bool waits, signals;	/* imports, exports SYNC_FD semaphores */
	struct dlbuf_device_info info;
	struct device_place place;
};

#define VULKAN_MAX_DEVICES 32

/* Commands for one submit, and the images of a tiled frame that they copy. */
struct vulkan_copy {
	VkCommandBuffer cmd;
	uint32_t nimages;
	struct {
		VkImage image;
		VkDeviceMemory memory;
	} images[DLBUF_MAX_PLANES];
};

/* prepare.c: the shader of a device, and what one run of it uses. */
struct vulkan_shader {
	VkDescriptorSetLayout set_layout;	/* NULL: no program has been loaded */
	VkPipelineLayout layout;
	VkPipeline pipeline;
};
struct vulkan_binding;

/*
 * A running submit. The fence `done` is signalled at its end. The submit waits for the
 * semaphore `wait`, which has the payload of a sync_file, and signals the semaphore
 * `signal`, which is exported as a sync_file. A semaphore is NULL if the device has no
 * such semaphores.
 */
struct vulkan_job {
	VkFence done;
	VkSemaphore wait, signal;
	VkQueue queue;
	struct vulkan_copy *copy;	/* or NULL */
	struct vulkan_binding *binding;	/* or NULL */
	struct vulkan_job *next;
	/* Imports of a submit for several. They are only compared, and may be freed. */
	struct vulkan_import *imports[MAX_BRACKETS];
	uint32_t nimports;
	uint32_t waiters;	/* threads in vulkan_jobs_finish_together() */
};

struct vulkan_device {
	struct dlbuf_device base;
	struct vulkan_instance instance;
	struct vulkan_physical physical;
	bool shut;		/* atomic; the application has closed a wrapped device */
	VkDevice handle;
	VkQueue queue;
	VkBufferUsageFlags usage;
	uint32_t foreign;	/* the queue family of users outside Vulkan */

	/* Called around each use of a queue: the application's functions, or ours. */
	void (*lock_queue)(void *data, VkQueue queue);
	void (*unlock_queue)(void *data, VkQueue queue);
	void *lock_data;

	pthread_mutex_t lock;	/* protects what follows; not held during a submit */
	VkCommandPool pool;
	struct vulkan_job *free_jobs;	/* to use again */
	struct vulkan_job *together;	/* running submits for several imports */
	struct vulkan_import *imports;	/* all imports of the device */
	uint64_t serial;		/* of the newest of them */
	struct vulkan_shader shader;
};

struct vulkan_import {
	struct import base;
	struct dlbuf_vulkan_buffer buffer;
	/*
	 * The commands of acquire and release. Index: access - 1. They are recorded when
	 * an access of that kind first begins.
	 */
	VkCommandBuffer barriers[DLBUF_RW][2];
	/* Under dev->lock. */
	struct vulkan_job *jobs;	/* running submits for this import alone */
	struct vulkan_import *next, **prev;	/* in the device's list */
	uint64_t serial;		/* no other import of the device had it */
};

#define vulkan_device(dev) container_of(dev, struct vulkan_device, base)

#define vulkan_import(imp) container_of(imp, struct vulkan_import, base)

BACKEND_DECLARE(vulkan);

/* backend.c: also used for an application's device. */

int vulkan_device_alloc(struct vulkan_device **out);
void vulkan_device_free(struct vulkan_device *dev);

/*
 * Creates dev->handle, with the EXT_* of `extensions` that it has, a chain of features, or
 * NULL, and up to two queues of its family; and loads its functions. After a failure there
 * is no device.
 */
int vulkan_device_create(struct vulkan_device *dev, uint32_t extensions,
			 const void *features, uint32_t nqueues);

/* Fills in the rest, once handles, functions and p are set. */
int vulkan_device_finish(struct vulkan_device *dev);

/* physical.c: the devices of the machine. */

/* Opens the loader and makes an instance. -ENODEV: there is no loader. */
int vulkan_instance_open(struct vulkan_instance *inst);
void vulkan_instance_close(struct vulkan_instance *inst);

/* Lists the physical devices, at most VULKAN_MAX_DEVICES. -ENODEV: none. */
int vulkan_physical_list(const struct vulkan_instance *inst,
			 VkPhysicalDevice *list, uint32_t *n);

/* The EXT_* of an extension's name, or 0. */
uint32_t vulkan_extension(const char *name);

/* Gets the names to create a device with, of the bits; returns how many. */
uint32_t vulkan_extension_names(uint32_t bits, const char **names);

/* -EOPNOTSUPP: the device lacks an extension; `more` ends the sentence. */
int vulkan_lacks(const struct vulkan_physical *p, const char *extension,
		 const char *more);

/* -EOPNOTSUPP: by the function's answer the device lacks the named feature. */
int vulkan_refuses(const struct vulkan_physical *p, size_t function,
		   const char *what);

/*
 * Queries p->handle, and fills in p. If the device cannot be used (-EOPNOTSUPP), p->info
 * is filled in too.
 */
int vulkan_physical_probe(const struct vulkan_instance *inst,
			  struct vulkan_physical *p);

/*
 * Two parts of vulkan_physical_probe() that are also used for an application's
 * device: the identity of the device, and whether it imports dma-bufs with
 * p->extensions. The second one clears p->address if the driver does not import
 * buffers with a device address.
 */
int vulkan_physical_describe(const struct vulkan_instance *inst,
			     struct vulkan_physical *p);
int vulkan_physical_can_import(const struct vulkan_instance *inst,
			       struct vulkan_physical *p);

/* Sets p->info.reason: why calls block, from p->waits and p->signals. */
void vulkan_physical_say_why(struct vulkan_physical *p);

/* Finds how acquire and release handle fences, and sets that in p->info. */
void vulkan_physical_find_sync(const struct vulkan_instance *inst,
			       struct vulkan_physical *p);

/* Finds the queue family to submit to. -EOPNOTSUPP: there is none. */
int vulkan_physical_find_queue(const struct vulkan_instance *inst,
			       struct vulkan_physical *p);

/* Which of import and export work, for this memory and buffer usage. */
VkExternalMemoryFeatureFlags
vulkan_memory_features(const struct vulkan_instance *inst,
		       const struct vulkan_physical *p,
		       VkBufferUsageFlags usage,
		       VkExternalMemoryHandleTypeFlagBits type);

/* The same of semaphores, whose type `next` names, or NULL. 0 without the extension. */
VkExternalSemaphoreFeatureFlags
vulkan_semaphore_features(const struct vulkan_instance *inst,
			  const struct vulkan_physical *p, const void *next,
			  VkExternalSemaphoreHandleTypeFlagBits type);

/* Finds the device of a selector; "" is the first one that can be used. */
int vulkan_physical_select(const struct vulkan_instance *inst,
			   const char *selector, struct vulkan_physical *p);

/* Makes a buffer with dev->usage for memory of that kind. */
int vulkan_buffer_create(struct vulkan_device *dev,
			 VkExternalMemoryHandleTypeFlags handle, uint64_t bytes,
			 bool address, VkBuffer *out);

/*
 * Gets the memory requirements of a buffer or of an image; the other one is NULL.
 * Sets *alone if the driver requires a memory object for this one alone.
 */
VkMemoryRequirements vulkan_needs(struct vulkan_device *dev, VkBuffer buffer,
				  VkImage image, bool *alone);

/* import.c and sync.c: functions of struct backend. */
int vulkan_import_buffer(struct import *imp);
bool vulkan_unimport_buffer(struct import *imp, bool wait);
int vulkan_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		   int fence);
int vulkan_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		   int *fence, int *end);
int vulkan_acquire_all(const struct bracket *brackets, uint32_t n,
		       const struct access_stream *stream, int fence);
int vulkan_release_all(const struct bracket *brackets, uint32_t n,
		       const struct access_stream *stream, int *fence);
int vulkan_drain_device(struct dlbuf_device *dev, uint64_t deadline_ns);

/*
 * Finds the memory types, of those wanted and those of the memory, that can be used
 * without a condition. -EOPNOTSUPP: there is none.
 */
int vulkan_types(const struct vulkan_device *dev, uint32_t wanted, uint32_t memory,
		 uint32_t *types);

/*
 * Finds the memory types, of those wanted, that the dma-buf can be imported as; and
 * imports it as one of them, with a device address or without. dma_buf is borrowed. bytes
 * is what the resource needs, and next extends VkMemoryAllocateInfo.
 */
int vulkan_memory_types(struct vulkan_device *dev, int dma_buf, uint32_t wanted,
			uint32_t *types);
int vulkan_import_memory(struct vulkan_device *dev, int dma_buf, uint64_t bytes,
			 uint32_t types, bool address, const void *next,
			 VkDeviceMemory *out);
/* Frees imported memory; not under dev->lock. vulkan_import_memory() takes it, too. */
void vulkan_free_memory(struct vulkan_device *dev, VkDeviceMemory memory);
/*
 * Whether an import that failed with ret is to be tried again, without a device address:
 * ANV refuses a dma-buf that was imported into the same VkDevice without one before, for
 * example by the application.
 */
static inline bool vulkan_import_again(int ret, bool *address)
{
	if (ret != -EOPNOTSUPP || !*address)
		return false;
	forget_failure();
	*address = false;
	return true;
}

/*
 * Makes a buffer with dev->usage, bound to the imported dma-buf, which is borrowed. The
 * buffer covers the dma-buf but for the last `unusable` bytes. *address: whether it has a
 * device address.
 */
int vulkan_import_dma_buf(struct vulkan_device *dev, int dma_buf,
			  uint64_t bytes, uint64_t unusable, VkBuffer *buffer,
			  VkDeviceMemory *memory, bool *address);

/* Sets dev->base.slack. */
int vulkan_find_slack(struct vulkan_device *dev);

/*
 * Once for a device that is ready: -EOPNOTSUPP if its imports share no memory with the
 * dma-buf (trial.h). vulkan_try_buffer() is the trial.
 */
int vulkan_try_imports(struct vulkan_device *dev);
int vulkan_try_buffer(struct dlbuf_device *dev, const struct trial_buffer *t, bool *shares);

/* detile.c: functions of struct backend for tiled frames. */
int vulkan_can_detile(struct dlbuf_device *dev, const struct detile *d);
int vulkan_detile(const struct detile *d, int fence, int *done);
int vulkan_modifiers(struct dlbuf_device *dev, const struct detile *d,
		     modifier_fn fn, void *data);

/*
 * Makes an image over rows in a dma-buf: one plane, LINEAR, with a DRM code that has a
 * VkFormat. Fills in out->image, memory and format.
 */
int vulkan_image_of_rows(struct vulkan_device *dev, const struct dlbuf_frame *rows,
			 VkImageUsageFlags usage, struct dlbuf_vulkan_image *out);

/* Under dev->lock: frees a copy; NULL does nothing. */
void vulkan_copy_free(struct vulkan_device *dev, struct vulkan_copy *copy);

/*
 * sync.c: records a copy into the import by fn, and submits it on the default queue; see
 * backend->detile(). copy is taken.
 */
typedef void (*record_fn)(VkCommandBuffer cmd, uint32_t i, void *data);
int vulkan_submit_copy(struct vulkan_import *vi, struct vulkan_copy *copy,
		       record_fn fn, void *data, int fence, int *done);

/*
 * The same with commands that read and write several imports. binding is taken: after the
 * submit, or a failure, vulkan_binding_put() gets it.
 */
int vulkan_submit_binding(const struct bracket *brackets, uint32_t n,
			  struct vulkan_binding *binding, VkCommandBuffer cmd, int fence,
			  int *done);

/* prepare.c: functions of struct backend, and under dev->lock the end of a submit. */
int vulkan_program_load(struct dlbuf_device *dev, const struct program *p, size_t bytes,
			void **program);
int vulkan_program_run(void *program, const struct program_run *run, int fence, int *done);
int vulkan_program_run_all(struct dlbuf_device *dev, const struct program_job *jobs, uint32_t n,
			   int fence, int *done);
void vulkan_program_drop(void *program);
#ifdef CONFIG_PREPARE_VULKAN
void vulkan_binding_put(struct vulkan_binding *binding);
void vulkan_shader_free(struct vulkan_device *dev);
#else
static inline void vulkan_binding_put(struct vulkan_binding *binding)
{
	(void)binding;
}
static inline void vulkan_shader_free(struct vulkan_device *dev)
{
	(void)dev;
}
#endif

/*
 * Waits for the running submits of an import, which has no open access, and frees its
 * command buffers.
 */
void vulkan_sync_finish(struct vulkan_import *vi);

/* jobs.c: a lock of the queues, if the application gives none. */
int vulkan_lock_get(struct vulkan_device *dev);
void vulkan_lock_put(struct vulkan_device *dev);

/* Whether a submit of the import runs, or with NULL one of the device. Does not wait. */
bool vulkan_is_busy(struct vulkan_device *dev, const struct vulkan_import *of);

/*
 * jobs.c: running submits. The import or buffer that they use has the list, or the device
 * if they use several imports. These functions take dev->lock, which protects jobs and
 * lists.
 */

/*
 * Under dev->lock, which protects the command pool: makes n command buffers, and calls fn
 * to record each. On failure out[0] is NULL.
 */
int vulkan_record(struct vulkan_device *dev, VkCommandBufferUsageFlags usage,
		  record_fn fn, void *data, uint32_t n, VkCommandBuffer *out);

/* A buffer that the queue family `other` has while the device has not, and its use. */
struct vulkan_owned {
	VkBuffer buffer;
	uint32_t other;
	VkAccessFlags access;
};

/*
 * Records that the device acquires or releases buffers, at most MAX_BRACKETS, and images.
 * stages: of the work between the two.
 */
void vulkan_transfer(struct vulkan_device *dev, VkCommandBuffer cmd, bool acquire,
		     VkPipelineStageFlags stages, const struct vulkan_owned *buffers,
		     uint32_t n, const VkImageMemoryBarrier *images, uint32_t nimages);

/* Gets a job to submit with, perhaps a completed one of the list. */
int vulkan_job_get(struct vulkan_device *dev, struct vulkan_job **list,
		   struct vulkan_job **out);

/* Commands, and semaphores that a submit waits for and signals, or NULL. */
struct vulkan_submit {
	VkCommandBuffer cmd;
	VkSemaphore wait, signal;
	uint64_t wait_value, signal_value;	/* of timelines */
};

/* Submits; the job then runs until its fence is signalled. */
int vulkan_job_submit(struct vulkan_device *dev, struct vulkan_job *job,
		      VkQueue queue, const struct vulkan_submit *s);
void vulkan_job_put(struct vulkan_device *dev, struct vulkan_job **list,
		    struct vulkan_job *job);

/* For a job that is not running and has no copy. */
void vulkan_job_destroy(struct vulkan_device *dev, struct vulkan_job *job);

/* Waits for the job's submit. */
int vulkan_job_wait(struct vulkan_device *dev, struct vulkan_job *job);

/* The same; ignores errors and keeps the error text. */
void vulkan_job_finish(struct vulkan_device *dev, struct vulkan_job *job);

/* Recycles the completed jobs of a list. */
void vulkan_jobs_reap(struct vulkan_device *dev, struct vulkan_job **list);

/* Waits for all jobs of a list that no other thread uses. */
void vulkan_jobs_finish(struct vulkan_device *dev, struct vulkan_job **list);

/* Waits for those jobs of dev->together that use the import. */
void vulkan_jobs_finish_together(struct vulkan_device *dev,
				 const struct vulkan_import *vi);

/*
 * Under dev->lock: whether a job of a list runs that uses the import, or with NULL any. An
 * error means no: a lost device runs nothing.
 */
bool vulkan_jobs_run(struct vulkan_device *dev, const struct vulkan_job *list,
		     const struct vulkan_import *of);

/* Frees the jobs that were kept for reuse. */
void vulkan_jobs_free(struct vulkan_device *dev);

/*
 * Waits until the queue is idle, after a call failed whose submit may run: the caller
 * will destroy objects that the submit uses. A lost device counts as idle.
 */
void vulkan_drain(struct vulkan_device *dev, VkQueue queue);

/* Imports a sync_file, borrowed, into a semaphore, for one wait. */
int vulkan_import_fence(struct vulkan_device *dev, int fence,
			VkSemaphore semaphore);

/* Exports a semaphore as a new fd; -1: its work is complete (SYNC_FD only). */
int vulkan_export_semaphore(struct vulkan_device *dev, VkSemaphore semaphore,
			    VkExternalSemaphoreHandleTypeFlagBits type,
			    int *out);

/* Makes a sync_file of the work up to the submit; -1: the work is complete. */
int vulkan_export_fence(struct vulkan_device *dev, struct vulkan_job *job,
			int *fence);

#endif /* DLBUF_VULKAN_BACKEND_H */
