/* SPDX-License-Identifier: MIT */
/* What the files of the double share; see vulkan.h. */
#ifndef FAKE_VULKAN_OBJECTS_H
#define FAKE_VULKAN_OBJECTS_H

#include <pthread.h>
#include <sys/types.h>

#include "vulkan.h"

extern struct fake_vulkan fake;
extern pthread_mutex_t lock; /* of all of this */

/*
 * An object is never given back to the allocator, so that a handle that was
 * destroyed is still known as one. A dispatchable handle is its address, the
 * others are its address too.
 */
struct object {
	void *loader_data;	/* as a dispatchable handle begins */
	struct object *next;
	enum fake_kind kind;
	bool live;
	unsigned int pending;	/* submissions that use it */
	bool signalled, submitted; /* a fence */
	bool exportable;	/* a semaphore, memory */
	bool signal;		/* a signal for it was submitted, nobody took it */
	struct object *buffer;	/* of a command buffer's barrier */
	VkBufferMemoryBarrier barrier;
	VkPipelineStageFlags src_stage, dst_stage;
	struct object *images[4]; /* of a command buffer */
	unsigned int nimages;
	bool once;		/* a command buffer that is submitted once */
	bool owned;		/* by the device, a buffer or an image */
	VkImageLayout layout;	/* of an image */
	struct fake_image *seen;
	struct object *memory;	/* bound to an image */
	uint64_t size;
	int fd;			/* of memory; what was imported into a semaphore */
	ino_t inode;
	VkExternalMemoryHandleTypeFlags handles; /* of a buffer, of memory */
	uint64_t *value;	/* of a timeline */
	uint64_t last;		/* that was submitted, or signalled */
	struct object *from, *to; /* of a command buffer's copy */
	uint64_t bytes;
	struct object *held[2];	/* buffers that it has acquired */
};

/* A value of a timeline. */
struct point {
	struct object *timeline;
	uint64_t value;
};

/* What was submitted and is not over. */
struct submission {
	struct object *uses[16];
	unsigned int nuses;
	VkQueue queue;
	struct object *cmd;
	struct point after, signal; /* of timelines, or of none */
	int wait;		/* a sync_file that it waits for, or -1 */
	int tell;		/* our end of a sync_file that waits for it, or -1 */
	uint32_t fence;		/* where that is a vgem node: which, else 0 */
};

/* Oldest first: a queue does one thing after the other. */
extern struct submission submissions[4096];
extern const struct fake_physical *used; /* by the last device */
extern bool semaphore_fd, modifiers, foreign; /* that has the extension */
extern bool timelines, timelines_khr; /* that has the feature; by the extension */

/* Against the rules: counted, and said. */
void wrong(const char *what);
struct object *make(enum fake_kind kind);
/* The object that it is, alive; else NULL, and who did wrong. */
struct object *check(const void *handle, enum fake_kind kind, const char *who);
void destroy(const void *handle, enum fake_kind kind, const char *who);
ino_t inode_of(int fd);

#define TO_HANDLE(type, object) ((type)(uintptr_t)(object))
#define FROM_HANDLE(handle) ((void *)(uintptr_t)(handle))

/* True when this call is to fail. Under the lock. */
bool fails(const char *name);

/* Begins a function that returns VkResult, and fails it if it is to fail. */
#define BEGIN(name)					\
	pthread_mutex_lock(&lock);			\
	if (fails(name)) {				\
		VkResult result_ = fake.result;		\
							\
		pthread_mutex_unlock(&lock);		\
		return result_;				\
	}

/* Ends one, well. */
VkResult end(void);

/* A function that destroys one kind of object. */
#define DESTROYS(name, type, kind)					\
	static void name(VkDevice device, type handle,			\
			 const VkAllocationCallbacks *alloc)		\
	{								\
		pthread_mutex_lock(&lock);				\
		destroy(FROM_HANDLE(handle), kind, "vk" #name);		\
		end();							\
	}

static inline const struct fake_physical *physical_of(VkPhysicalDevice p)
{
	return (const struct fake_physical *)(void *)p;
}

/* An image of a command buffer: to the device or from it, with what is in it. */
void image_barrier(struct object *cmd, const VkImageMemoryBarrier *b);

/* The device does what it can do without waiting. run() takes the lock. */
void progress(void);
void run(void);

/* fake.look, if there is one; not under the lock. */
void look(char what);

/* Waits a moment for something to happen. Under the lock, let go meanwhile. */
void pause_briefly(int fd);

/* Buffers that go to the device and from it; and between each other. */
void buffer_barriers(struct object *cmd, uint32_t n,
		     const VkBufferMemoryBarrier *barriers);
void execute_copy(const struct object *cmd);

/* A new memfd. */
int shared_memory(const char *name, uint64_t bytes);

/* A timeline's memory, and its value. */
void timeline_begin(struct object *o, bool shared);
void timeline_end(struct object *o);
uint64_t timeline_value(const struct object *o);
void timeline_set(struct object *o, uint64_t value);

/* The device's own thread. */
void thread_begin(void);
void thread_end(void);

/* What vkGetDeviceProcAddr() finds, up to the first without a name. */
struct function {
	const char *name;
	PFN_vkVoidFunction fn;
};

#define FN(name) { "vk" #name, (PFN_vkVoidFunction)name }

extern const struct function image_functions[], queue_functions[],
	share_functions[];

#endif /* FAKE_VULKAN_OBJECTS_H */
