// SPDX-License-Identifier: MIT
/* See vulkan.h: commands, submissions, fences and semaphores. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vulkan_objects.h"

/* ---------------------------------------------------------------- commands */

static VkResult CreateCommandPool(VkDevice device,
				  const VkCommandPoolCreateInfo *info,
				  const VkAllocationCallbacks *alloc,
				  VkCommandPool *out)
{
	BEGIN("vkCreateCommandPool")
	*out = TO_HANDLE(VkCommandPool, item_make(FAKE_POOL));
	return end();
}

DESTROYS(DestroyCommandPool, VkCommandPool, FAKE_POOL)

static VkResult AllocateCommandBuffers(VkDevice device,
				       const VkCommandBufferAllocateInfo *info,
				       VkCommandBuffer *out)
{
	BEGIN("vkAllocateCommandBuffers")
	check(FROM_HANDLE(info->commandPool), FAKE_POOL);
	for (uint32_t i = 0; i < info->commandBufferCount; i++)
		out[i] = TO_HANDLE(VkCommandBuffer, item_make(FAKE_COMMANDS));
	return end();
}

static void FreeCommandBuffers(VkDevice device, VkCommandPool pool, uint32_t n,
			       const VkCommandBuffer *cmd)
{
	LOCK("vkFreeCommandBuffers")
	check(FROM_HANDLE(pool), FAKE_POOL);
	for (uint32_t i = 0; i < n; i++)
		destroy(cmd[i], FAKE_COMMANDS);
	end();
}

static VkResult BeginCommandBuffer(VkCommandBuffer cmd,
				   const VkCommandBufferBeginInfo *info)
{
	struct item *o;

	BEGIN("vkBeginCommandBuffer")
	o = check(cmd, FAKE_COMMANDS);
	if (o)
		o->once = info->flags ==
			  VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
	if (o && !o->once &&
	    !(info->flags & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT))
		wrong("vkBeginCommandBuffer: not for simultaneous use");
	return end();
}

static VkResult EndCommandBuffer(VkCommandBuffer cmd)
{
	struct item *o;

	BEGIN("vkEndCommandBuffer")
	o = check(cmd, FAKE_COMMANDS);
	for (unsigned int i = 0; o && i < o->nimages; i++)
		if (o->images[i]->owned)
			wrong("vkEndCommandBuffer: an image is not given back");
	if (o && (o->held[0] || o->held[1]))
		wrong("vkEndCommandBuffer: a buffer is not given back");
	return end();
}

static void CmdPipelineBarrier(VkCommandBuffer cmd, VkPipelineStageFlags src,
			       VkPipelineStageFlags dst, VkDependencyFlags flags,
			       uint32_t nmemory, const VkMemoryBarrier *memory,
			       uint32_t nbuffers,
			       const VkBufferMemoryBarrier *buffers,
			       uint32_t nimages,
			       const VkImageMemoryBarrier *images)
{
	struct item *o;

	LOCK("vkCmdPipelineBarrier")
	o = check(cmd, FAKE_COMMANDS);
	for (uint32_t i = 0; o && i < nimages; i++)
		image_barrier(o, &images[i]);
	if (o && nbuffers > 1 && (src | dst) & VK_PIPELINE_STAGE_TRANSFER_BIT) {
		buffer_barriers(o, nbuffers, buffers);
	} else if (o && nbuffers) {
		o->barrier = *buffers;
		o->src_stage = src;
		o->dst_stage = dst;
		for (o->nbuffers = 0; o->nbuffers < nbuffers; o->nbuffers++)
			o->buffers[o->nbuffers] = check(FROM_HANDLE(
				buffers[o->nbuffers].buffer), FAKE_BUFFER);
		o->owned = buffers->dstQueueFamilyIndex == 1 &&
			buffers->dstAccessMask & VK_ACCESS_TRANSFER_WRITE_BIT;
	}
	end();
}

/* ---------------------------------------------------------------- queue */

static void use(struct submission *s, struct item *o)
{
	if (!o)
		return;
	o->pending++;
	s->uses[s->nuses++] = o;
}

static void complete(struct submission *s)
{
	if (s->cmd)
		execute_copy(s->cmd), execute_image_copies(s->cmd);
	for (unsigned int i = 0; i < s->nuses; i++) {
		s->uses[i]->pending--;
		s->uses[i]->signalled = true;
	}
	if (s->signal.timeline)
		timeline_set(s->signal.timeline, s->signal.value);
	if (s->wait >= 0)
		close(s->wait);
	fence_tell(&s->tell);
	memmove(s, s + 1, (--fake.pending - (s - submissions)) * sizeof(*s));
}

/* It is the first of its queue, and its waits are fulfilled. */
static bool ready(const struct submission *s)
{
	for (const struct submission *t = submissions; t < s; t++)
		if (t->queue == s->queue)
			return false;
	if (s->after.timeline &&
	    timeline_value(s->after.timeline) < s->after.value)
		return false;
	return s->wait < 0 || is_readable(s->wait);
}

/* The device executes the work that is ready. */
void progress(void)
{
	struct submission *s = submissions;

	while (s < submissions + fake.pending) {
		if (ready(s)) {
			complete(s);
			s = submissions;
		} else {
			s++;
		}
	}
}

void run(void)
{
	pthread_mutex_lock(&lock);
	progress();
	pthread_mutex_unlock(&lock);
}

/* Other APIs write the values of timelines without a notification. */
void pause_briefly(int fd)
{
	struct pollfd p = {
		.fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3),
		.events = POLLIN,
	};

	pthread_mutex_unlock(&lock);
	poll(&p, 1, 1);
	if (p.fd >= 0)
		close(p.fd);
	pthread_mutex_lock(&lock);
}

/*
 * The device works until o, of a submission, is done with, or without one until
 * everything is. Under the lock, which it releases while it waits.
 */
static void work_until(const struct item *o)
{
	while (progress(), o ? !o->signalled && o->pending : fake.pending)
		pause_briefly(submissions[0].wait);
}

/* The use of a timeline semaphore by a submit. */
static struct point point_of(struct item *o, const VkSubmitInfo *info,
			     bool wait)
{
	const VkTimelineSemaphoreSubmitInfo *t = info->pNext;
	uint32_t n;

	n = !t ? 0 : wait ? t->waitSemaphoreValueCount :
			    t->signalSemaphoreValueCount;
	if (n != 1) {
		wrong("vkQueueSubmit: a timeline without a value");
		return (struct point){ .timeline = NULL };
	}
	return (struct point){ o, wait ? t->pWaitSemaphoreValues[0] :
					 t->pSignalSemaphoreValues[0] };
}

/* The semaphore that a submit waits for; a binary one's payload goes with it. */
static struct item *submit_wait(struct submission *s,
				  const VkSubmitInfo *info)
{
	struct item *o;

	if (!info->waitSemaphoreCount)
		return NULL;
	o = check(FROM_HANDLE(info->pWaitSemaphores[0]), FAKE_SEMAPHORE);
	if (info->waitSemaphoreCount > 1 || !info->pWaitDstStageMask[0])
		wrong("vkQueueSubmit: what waits where");
	if (o && o->value) {
		s->after = point_of(o, info, true);
		return o;
	}
	if (o && o->fd < 0)
		wrong("vkQueueSubmit: nobody signals what it waits for");
	if (o) {
		s->wait = o->fd;
		o->fd = -1;
	}
	return o;
}

static struct item *submit_signal(struct submission *s,
				    const VkSubmitInfo *info)
{
	struct item *o;

	if (!info->signalSemaphoreCount)
		return NULL;
	o = check(FROM_HANDLE(info->pSignalSemaphores[0]), FAKE_SEMAPHORE);
	if (o && o->value) {
		s->signal = point_of(o, info, false);
		if (s->signal.value <= o->last ||
		    s->signal.value <= timeline_value(o))
			wrong("vkQueueSubmit: the values of a timeline rise");
		o->last = s->signal.value;
		return o;
	}
	if (info->signalSemaphoreCount > 1 || (o && o->signal))
		wrong("vkQueueSubmit: signals a semaphore that is signalled");
	if (o) {
		o->signal = true;
		o->signalled = false;
	}
	return o;
}

/* Notes the objects that the device uses as it executes a command buffer. */
static void execute(struct submission *s, struct item *cmd)
{
	if (!cmd)
		return;
	s->cmd = cmd;
	fake.barrier = cmd->barrier;
	fake.barriers = cmd->nbuffers;
	fake.src_stage = cmd->src_stage;
	fake.dst_stage = cmd->dst_stage;
	if (cmd->once && cmd->submitted)
		wrong("vkQueueSubmit: a command buffer for one submit");
	cmd->submitted = true;
	use(s, cmd);
	for (unsigned int i = 0; i < cmd->nbuffers; i++)
		use(s, cmd->buffers[i]);
	if (cmd->from && cmd->to) {
		use(s, cmd->from);
		use(s, cmd->from->memory);
		use(s, cmd->to);
		use(s, cmd->to->memory);
	}
	for (unsigned int i = 0; i < cmd->nimages; i++) {
		use(s, cmd->images[i]);
		use(s, cmd->images[i]->memory);
	}
}

static VkResult submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info,
		       VkFence fence)
{
	struct submission *s;
	struct item *f = NULL;

	BEGIN("vkQueueSubmit")
	if (fake.pending == sizeof(submissions) / sizeof(submissions[0])) {
		fprintf(stderr, "# fake vulkan: nobody waits\n");
		abort();
	}
	s = &submissions[fake.pending];
	*s = (struct submission){ .wait = -1, .tell.fd = -1, .queue = queue };
	/* Only a submission that turns a fence into a value or back has none. */
	if (n != 1 || info->commandBufferCount > 1 ||
	    (!info->commandBufferCount && !timelines))
		wrong("vkQueueSubmit: not one command buffer");
	if (info->commandBufferCount)
		execute(s, check(info->pCommandBuffers[0], FAKE_COMMANDS));
	if (fence) {
		f = check(FROM_HANDLE(fence), FAKE_FENCE);
		if (f && (f->signalled || f->pending))
			wrong("vkQueueSubmit: the fence was not reset");
		if (f)
			f->submitted = true;
		use(s, f);
	}
	use(s, submit_wait(s, info));
	use(s, submit_signal(s, info));
	fake.semaphores_in = info->waitSemaphoreCount;
	fake.semaphores_out = info->signalSemaphoreCount;
	fake.pending++;
	fake.submits++;
	fake.queue = queue;
	return end();
}

static VkResult wait_idle(void)
{
	BEGIN("vkQueueWaitIdle")
	fake.drains++;
	work_until(NULL);
	return end();
}

/* Only one thread at a time may use a queue. */
static unsigned int *enter(VkQueue queue)
{
	unsigned int *u = FROM_HANDLE(queue);

	if (__atomic_fetch_add(u, 1, __ATOMIC_ACQ_REL))
		wrong("a queue is used by two threads");
	return u;
}

static VkResult QueueSubmit(VkQueue queue, uint32_t n, const VkSubmitInfo *info,
			    VkFence fence)
{
	unsigned int *users = enter(queue);
	VkResult result = submit(queue, n, info, fence);

	__atomic_sub_fetch(users, 1, __ATOMIC_ACQ_REL);
	return result;
}

static VkResult QueueWaitIdle(VkQueue queue)
{
	unsigned int *users = enter(queue);
	VkResult result = wait_idle();

	__atomic_sub_fetch(users, 1, __ATOMIC_ACQ_REL);
	return result;
}

static VkResult DeviceWaitIdle(VkDevice device)
{
	LOCK("vkDeviceWaitIdle")
	check(device, FAKE_DEVICE);
	work_until(NULL);
	return end();
}

static VkResult CreateFence(VkDevice device, const VkFenceCreateInfo *info,
			    const VkAllocationCallbacks *alloc, VkFence *out)
{
	BEGIN("vkCreateFence")
	*out = TO_HANDLE(VkFence, item_make(FAKE_FENCE));
	return end();
}

DESTROYS(DestroyFence, VkFence, FAKE_FENCE)

static VkResult ResetFences(VkDevice device, uint32_t n, const VkFence *fences)
{
	struct item *f;

	BEGIN("vkResetFences")
	f = check(FROM_HANDLE(fences[0]), FAKE_FENCE);
	if (f && f->pending)
		wrong("vkResetFences: the fence is in use by the device");
	if (f)
		f->signalled = f->submitted = false;
	return end();
}

static VkResult WaitForFences(VkDevice device, uint32_t n, const VkFence *fences,
			      VkBool32 all, uint64_t timeout)
{
	struct item *f;

	BEGIN("vkWaitForFences")
	f = check(FROM_HANDLE(fences[0]), FAKE_FENCE);
	if (f && !f->submitted)
		wrong("vkWaitForFences: this would wait for ever");
	fake.waits++;
	work_until(f);
	return end();
}

static VkResult GetFenceStatus(VkDevice device, VkFence fence)
{
	struct item *f;
	bool signalled;

	BEGIN("vkGetFenceStatus")
	f = check(FROM_HANDLE(fence), FAKE_FENCE);
	if (f && !f->submitted)
		wrong("vkGetFenceStatus: nothing was submitted with it");
	if (!fake.busy)
		progress();
	signalled = f && f->signalled;
	end();
	return signalled ? VK_SUCCESS : VK_NOT_READY;
}

/* ---------------------------------------------------------------- semaphores */

static VkResult CreateSemaphore(VkDevice device,
				const VkSemaphoreCreateInfo *info,
				const VkAllocationCallbacks *alloc,
				VkSemaphore *out)
{
	const VkSemaphoreTypeCreateInfo *type = info->pNext;
	const VkExportSemaphoreCreateInfo *export = info->pNext;
	VkExternalSemaphoreHandleTypeFlags handles;
	struct item *o;

	BEGIN("vkCreateSemaphore")
	o = item_make(FAKE_SEMAPHORE);
	if (!type ||
	    type->sType != VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO)
		type = NULL;
	else
		export = type->pNext;
	handles = export ? export->handleTypes : 0;
	if (type) {
		if (!timelines)
			wrong("vkCreateSemaphore: a timeline");
		if (handles && (!semaphore_fd || !used->timeline_out ||
		    handles != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT))
			wrong("vkCreateSemaphore: the device cannot export it");
		if (!timeline_begin(o, handles)) {
			unmake(&o->object);
			end();
			return VK_ERROR_OUT_OF_HOST_MEMORY;
		}
	} else {
		o->exportable = handles ==
			VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;
		if (o->exportable && !(semaphore_fd && used->sync_fd_out))
			wrong("vkCreateSemaphore: the device cannot export it");
	}
	*out = TO_HANDLE(VkSemaphore, o);
	return end();
}

DESTROYS(DestroySemaphore, VkSemaphore, FAKE_SEMAPHORE)

static VkResult ImportSemaphoreFdKHR(VkDevice device,
				     const VkImportSemaphoreFdInfoKHR *info)
{
	struct item *o;

	BEGIN("vkImportSemaphoreFdKHR")
	o = check(FROM_HANDLE(info->semaphore), FAKE_SEMAPHORE);
	if (!semaphore_fd || !used->sync_fd_in)
		wrong("vkImportSemaphoreFdKHR: the device cannot");
	if (info->flags != VK_SEMAPHORE_IMPORT_TEMPORARY_BIT ||
	    info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT)
		wrong("vkImportSemaphoreFdKHR: SYNC_FD is imported temporarily");
	look_at_fd(info->fd);
	if (o && (o->pending || o->fd >= 0 || o->signal || o->value))
		wrong("vkImportSemaphoreFdKHR: the semaphore is not free");
	if (o) {
		o->fd = info->fd;
		o->inode = inode_of(info->fd);
	}
	fake.imports++;
	return end();
}

/* The submit that will signal o; NULL when that is over. */
static struct submission *submission_of(const struct item *o)
{
	for (unsigned int i = 0; i < fake.pending; i++)
		for (unsigned int j = 0; j < submissions[i].nuses; j++)
			if (submissions[i].uses[j] == o)
				return &submissions[i];
	return NULL;
}

/* A fence of a submit (NULL: it is over). Without one its work is waited for. */
static int fence_of(struct item *o, struct submission *s)
{
	struct teller tell = { -1, 0 };
	bool over = !s || (!fake.sync_files && fake.export_early);
	int fd = fence_new(!fake.sync_files, over, &tell);

	if (fd < 0)
		work_until(o);
	else if (fake.export_late && tell.fd >= 0)
		close(tell.fd);
	else if (s)
		s->tell = tell;
	return fd;
}

static VkResult GetSemaphoreFdKHR(VkDevice device,
				  const VkSemaphoreGetFdInfoKHR *info, int *fd)
{
	struct submission *s = NULL;
	struct item *o;

	BEGIN("vkGetSemaphoreFdKHR")
	o = check(FROM_HANDLE(info->semaphore), FAKE_SEMAPHORE);
	if (o && o->value && info->handleType ==
	    VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT) {
		if (!o->exportable)
			wrong("vkGetSemaphoreFdKHR: it was not made for it");
		*fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
		end();
		return *fd < 0 ? VK_ERROR_TOO_MANY_OBJECTS : VK_SUCCESS;
	}
	if (info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT ||
	    (o && (!o->exportable || o->value)))
		wrong("vkGetSemaphoreFdKHR: it was not made for SYNC_FD");
	if (o && !o->signal)
		wrong("vkGetSemaphoreFdKHR: no signal was submitted for it");
	if (fake.no_fd)
		work_until(NULL);
	if (fake.export_blocks) {
		fake.export_blocks--;
		work_until(o);
	}
	if (o) {
		s = submission_of(o);
		o->signal = false;
	}
	*fd = -1;
	if (!fake.no_fd)
		*fd = fence_of(o, s);
	fake.exports++;
	return end();
}

/* ---------------------------------------------------------------- names */

const struct function queue_functions[] = {
	FN(DeviceWaitIdle), FN(CreateCommandPool), FN(DestroyCommandPool),
	FN(AllocateCommandBuffers), FN(FreeCommandBuffers),
	FN(BeginCommandBuffer), FN(EndCommandBuffer), FN(CmdPipelineBarrier),
	FN(CreateFence), FN(DestroyFence), FN(ResetFences), FN(WaitForFences),
	FN(GetFenceStatus), FN(CreateSemaphore), FN(DestroySemaphore),
	FN(ImportSemaphoreFdKHR), FN(GetSemaphoreFdKHR), FN(QueueSubmit),
	FN(QueueWaitIdle),
	{ NULL, NULL }
};
