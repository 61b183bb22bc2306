/* SPDX-License-Identifier: MIT */
/* Shared by the files of the double; see vulkan.h. */
#ifndef FAKE_VULKAN_OBJECTS_H
#define FAKE_VULKAN_OBJECTS_H

#include "common/fences.h"
#include "common/memory.h"
#include "common/objects.h"
#include "vulkan.h"

extern struct fake_vulkan fake;

/* A handle is its address. */
struct item {
	union {
		struct object object;
		struct {
			OBJECT_FIELDS
		};
	};
	bool signalled, submitted; /* a fence */
	bool exportable;	/* a semaphore, memory */
	bool signal;		/* a signal for it was submitted, and no wait has taken it */
	struct item *buffers[16]; /* of a command buffer's barriers */
	unsigned int nbuffers;
	VkBufferMemoryBarrier barrier;
	VkPipelineStageFlags src_stage, dst_stage;
	struct item *images[4]; /* of a command buffer */
	unsigned int nimages;
	bool once;		/* a command buffer that is submitted once */
	bool owned;		/* by the device, a buffer or an image */
	VkImageLayout layout;	/* of an image */
	struct fake_image *seen;
	VkSubresourceLayout told[4], follows[4];
	struct item *rows;	/* of a command buffer: its images are copied there */
	bool address;		/* memory that has a device address */
	struct item *memory;	/* bound to an image */
	uint64_t size;
	int fd;			/* of memory; or the fd imported into a semaphore */
	ino_t inode;
	VkExternalMemoryHandleTypeFlags handles; /* of a buffer, of memory */
	uint64_t *value;	/* of a timeline */
	uint64_t last;		/* that was submitted, or signalled */
	struct item *from, *to; /* of a command buffer's copy */
	VkBufferCopy region;
	struct item *held[2];	/* buffers that it has acquired */
	unsigned int users[2];	/* of a device's queues, whose handles these are; atomic */
};

/* A value of a timeline. */
struct point {
	struct item *timeline;
	uint64_t value;
};

/* A submit that is not over. */
struct submission {
	struct item *uses[64];
	unsigned int nuses;
	VkQueue queue;
	struct item *cmd;
	struct point after, signal; /* of timelines, or of none */
	int wait;		/* a sync_file that it waits for, or -1 */
	struct teller tell;	/* of a fence that waits for it */
};

/* Oldest first: a queue does one thing after the other. */
extern struct submission submissions[4096];
extern const struct fake_physical *used; /* by the last device */
extern bool semaphore_fd, modifiers, foreign; /* a device has the extension */
extern bool timelines, timelines_khr; /* or the feature; by the extension */

struct item *item_make(enum fake_kind kind);
/* The object that it is, alive; else NULL, and the call was wrong. */
struct item *check(const void *handle, enum fake_kind kind);
void destroy(const void *handle, enum fake_kind kind);

#define TO_HANDLE(type, object) ((type)(uintptr_t)(object))
#define FROM_HANDLE(handle) ((void *)(uintptr_t)(handle))

/* Begins a function that returns VkResult, and fails it if it is to fail. */
#define BEGIN(name)					\
	if (call_begin(name)) {				\
		VkResult result_ = fake.result;		\
							\
		pthread_mutex_unlock(&lock);		\
		return result_;				\
	}

/* Begins one that does not fail. */
#define LOCK(name)					\
	if (fake.look)					\
		fake.look(name);			\
	pthread_mutex_lock(&lock);			\
	call = name;

/* Ends one, well. */
VkResult end(void);

/* A function that destroys one kind of object. */
#define DESTROYS(name, type, kind)					\
	static void name(VkDevice device, type handle,			\
			 const VkAllocationCallbacks *alloc)		\
	{								\
		LOCK("vk" #name)					\
		destroy(FROM_HANDLE(handle), kind);		\
		end();							\
	}

static inline const struct fake_physical *physical_of(VkPhysicalDevice p)
{
	return (const struct fake_physical *)(void *)p;
}

/* An image of a command buffer: to the device or from it, with its contents. */
void image_barrier(struct item *cmd, const VkImageMemoryBarrier *b);

/* The device executes the work that is ready. run() takes the lock. */
void progress(void);
void run(void);

/* Waits a moment for something to happen. Under the lock, which it releases meanwhile. */
void pause_briefly(int fd);

/* Buffers that go to the device and from it; and between each other. */
void buffer_barriers(struct item *cmd, uint32_t n,
		     const VkBufferMemoryBarrier *barriers);
void execute_copy(const struct item *cmd);
void execute_image_copies(const struct item *cmd);
void *map_memory(const struct item *resource, uint64_t bytes, int prot);

/* A timeline's memory, and its value. */
bool timeline_begin(struct item *o, bool shared);
void timeline_end(struct item *o);
uint64_t timeline_value(const struct item *o);
void timeline_set(struct item *o, uint64_t value);

/* The device's own thread. */
void thread_begin(void);
void thread_end(void);

/* The functions that vkGetDeviceProcAddr() finds, up to the first without a name. */
struct function {
	const char *name;
	PFN_vkVoidFunction fn;
};

#define FN(name) { "vk" #name, (PFN_vkVoidFunction)name }

extern const struct function image_functions[], queue_functions[],
	share_functions[];

#endif /* FAKE_VULKAN_OBJECTS_H */
