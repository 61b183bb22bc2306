// SPDX-License-Identifier: MIT
/* See vulkan.h: objects that are shared with another API. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "vulkan_objects.h"

#define TIMELINE_BYTES 4096

/* ---------------------------------------------------------------- timelines */

bool timeline_begin(struct item *o, bool shared)
{
	o->fd = memory_fd("a timeline", TIMELINE_BYTES);
	if (o->fd < 0)
		return false;
	o->inode = inode_of(o->fd);
	o->exportable = shared;
	o->value = map_fd(o->fd, TIMELINE_BYTES, PROT_READ | PROT_WRITE);
	return true;
}

void timeline_end(struct item *o)
{
	munmap(o->value, TIMELINE_BYTES);
	o->value = NULL;
}

uint64_t timeline_value(const struct item *o)
{
	return __atomic_load_n(o->value, __ATOMIC_ACQUIRE);
}

void timeline_set(struct item *o, uint64_t value)
{
	if (value <= timeline_value(o))
		wrong("the values of a timeline rise");
	__atomic_store_n(o->value, value, __ATOMIC_RELEASE);
}

static struct item *check_timeline(VkSemaphore semaphore)
{
	struct item *o = check(FROM_HANDLE(semaphore), FAKE_SEMAPHORE);

	if (o && o->value)
		return o;
	wrong("%s: not a timeline", call);
	return NULL;
}

static VkResult get_value(VkSemaphore semaphore, uint64_t *value)
{
	struct item *o;

	BEGIN("vkGetSemaphoreCounterValue")
	o = check_timeline(semaphore);
	if (!fake.busy)
		progress();
	*value = o ? timeline_value(o) : 0;
	return end();
}

static VkResult wait_for(const VkSemaphoreWaitInfo *info)
{
	struct item *o;

	BEGIN("vkWaitSemaphores")
	o = check_timeline(info->pSemaphores[0]);
	if (info->semaphoreCount != 1)
		wrong("vkWaitSemaphores: more than one");
	while (progress(), o && timeline_value(o) < info->pValues[0])
		pause_briefly(-1);
	return end();
}

static VkResult signal_from_host(const VkSemaphoreSignalInfo *info)
{
	struct item *o;

	BEGIN("vkSignalSemaphore")
	o = check_timeline(info->semaphore);
	if (o && info->value <= o->last)
		wrong("vkSignalSemaphore: the values of a timeline rise");
	if (o) {
		o->last = info->value;
		timeline_set(o, info->value);
	}
	if (!fake.busy)
		progress();
	fake.signals++;
	return end();
}

/* The function of the version, and of the extension before it. */
static void check_core(bool core)
{
	pthread_mutex_lock(&lock);
	if (core ? used->version < VK_API_VERSION_1_2 : !timelines_khr)
		wrong("a function of what was not switched on");
	pthread_mutex_unlock(&lock);
}

/* A function of Vulkan 1.2, and the extension's. */
#define BOTH(name, params, call)					\
	static VkResult name params					\
	{								\
		check_core(true);					\
		return call;						\
	}								\
	static VkResult name##KHR params				\
	{								\
		check_core(false);					\
		return call;						\
	}

BOTH(GetSemaphoreCounterValue,
     (VkDevice device, VkSemaphore semaphore, uint64_t *value),
     get_value(semaphore, value))
BOTH(WaitSemaphores,
     (VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout),
     wait_for(info))
BOTH(SignalSemaphore, (VkDevice device, const VkSemaphoreSignalInfo *info),
     signal_from_host(info))

/* ---------------------------------------------------------------- memory */

static VkResult GetMemoryFdKHR(VkDevice device, const VkMemoryGetFdInfoKHR *info,
			       int *fd)
{
	struct item *o;

	BEGIN("vkGetMemoryFdKHR")
	o = check(FROM_HANDLE(info->memory), FAKE_MEMORY);
	if (o && (!o->exportable || o->handles != info->handleType))
		wrong("vkGetMemoryFdKHR: it was not made for that");
	*fd = o ? fcntl(o->fd, F_DUPFD_CLOEXEC, 0) : -1;
	end();
	return o && *fd < 0 ? VK_ERROR_TOO_MANY_OBJECTS : VK_SUCCESS;
}

/* ---------------------------------------------------------------- copies */

/* Whom a buffer is of when it is not the device's. */
static uint32_t family_of(const struct item *buffer)
{
	return buffer->handles == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT ||
	       !foreign ? VK_QUEUE_FAMILY_EXTERNAL :
			  VK_QUEUE_FAMILY_FOREIGN_EXT;
}

static void buffer_barrier(struct item *cmd, const VkBufferMemoryBarrier *b)
{
	struct item *o = check(FROM_HANDLE(b->buffer), FAKE_BUFFER);
	bool acquire = b->dstQueueFamilyIndex == 1;
	struct item **held;

	if (!o)
		return;
	if (b->offset || b->size != VK_WHOLE_SIZE)
		wrong("vkCmdPipelineBarrier: not all of a buffer");
	if ((acquire ? b->srcQueueFamilyIndex : b->dstQueueFamilyIndex) !=
	    family_of(o) || (!acquire && b->srcQueueFamilyIndex != 1))
		wrong("vkCmdPipelineBarrier: a buffer of whom, to whom");
	held = &cmd->held[acquire ? cmd->held[0] != NULL : cmd->held[0] != o];
	if (acquire ? *held != NULL : *held != o)
		wrong("vkCmdPipelineBarrier: a buffer goes the wrong way");
	*held = acquire ? o : NULL;
	if (acquire)
		o->owned = b->dstAccessMask == VK_ACCESS_TRANSFER_WRITE_BIT;
	else if (cmd->to == o && b->srcAccessMask !=
		 VK_ACCESS_TRANSFER_WRITE_BIT)
		wrong("vkCmdPipelineBarrier: what was written is not flushed");
}

void buffer_barriers(struct item *cmd, uint32_t n,
		     const VkBufferMemoryBarrier *barriers)
{
	for (uint32_t i = 0; i < n; i++)
		buffer_barrier(cmd, &barriers[i]);
}

static void CmdCopyBuffer(VkCommandBuffer cmd, VkBuffer from, VkBuffer to,
			  uint32_t n, const VkBufferCopy *regions)
{
	struct item *c, *a, *b;

	LOCK("vkCmdCopyBuffer")
	c = check(cmd, FAKE_COMMANDS);
	a = check(FROM_HANDLE(from), FAKE_BUFFER);
	b = check(FROM_HANDLE(to), FAKE_BUFFER);
	if (c && a && b) {
		if (!a->memory || !b->memory || n != 1 ||
		    regions->srcOffset + regions->size > a->size ||
		    regions->dstOffset + regions->size > b->size ||
		    (a == b && regions->srcOffset + regions->size > regions->dstOffset))
			wrong("vkCmdCopyBuffer: outside of a buffer");
		/* Within one buffer, which a barrier of its own acquires. */
		if (a == b ? c->buffers[0] != a || !c->owned :
		    (c->held[0] != a && c->held[1] != a) ||
		    (c->held[0] != b && c->held[1] != b) || a->owned || !b->owned)
			wrong("vkCmdCopyBuffer: a buffer is not ours");
		c->from = a;
		c->to = b;
		c->region = *regions;
	}
	end();
}

void *map_memory(const struct item *resource, uint64_t bytes, int prot)
{
	void *p = map_fd(resource->memory->fd, bytes, prot);

	if (!p)
		wrong("a copy of what cannot be mapped");
	return p;
}

void execute_copy(const struct item *cmd)
{
	const VkBufferCopy *r = &cmd->region;
	uint64_t nfrom = r->srcOffset + r->size, nto = r->dstOffset + r->size;
	char *from, *to;

	if (!cmd->from)
		return;
	from = map_memory(cmd->from, nfrom, PROT_READ);
	to = map_memory(cmd->to, nto, PROT_READ | PROT_WRITE);
	if (from && to)
		memcpy(to + r->dstOffset, from + r->srcOffset, r->size);
	if (from)
		munmap(from, nfrom);
	if (to)
		munmap(to, nto);
	fake.copies++;
}

/* ---------------------------------------------------------------- a thread */

struct worker {
	pthread_t thread;
	bool stop;		/* under the lock */
};

/* Under the lock. A thread that was asked to stop may still run beside its successor. */
static struct worker *worker;
static unsigned int working; /* devices that it works for */

static void *work(void *arg)
{
	const struct worker *w = arg;

	pthread_mutex_lock(&lock);
	while (!w->stop) {
		progress();
		pause_briefly(-1);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

void thread_begin(void)
{
	if (working++)
		return;
	worker = calloc(1, sizeof(*worker));
	if (!pthread_create(&worker->thread, NULL, work, worker))
		return;
	wrong("there is no thread for the device");
	free(worker);
	worker = NULL;
}

void thread_end(void)
{
	struct worker *w = NULL;

	pthread_mutex_lock(&lock);
	if (worker && !--working) {
		w = worker;
		w->stop = true;
		worker = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!w)
		return;
	pthread_join(w->thread, NULL);
	free(w);
}

const struct function share_functions[] = {
	FN(GetSemaphoreCounterValue), FN(GetSemaphoreCounterValueKHR),
	FN(WaitSemaphores), FN(WaitSemaphoresKHR), FN(SignalSemaphore),
	FN(SignalSemaphoreKHR), FN(GetMemoryFdKHR), FN(CmdCopyBuffer),
	{ NULL, NULL }
};
