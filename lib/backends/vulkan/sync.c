// SPDX-License-Identifier: MIT
/*
 * Acquire and release. An acquire is a submit that waits for the producers' fences and
 * transfers the buffer from the foreign queue family. A release is a submit that
 * transfers it back and exports a fence of the work before it. Several buffers are one
 * submit. If the device has no
 * SYNC_FD semaphores, the calling thread waits: in the core before an acquire, and here
 * after a release.
 *
 * DMA_BUF_IOCTL_SYNC is not called here, because it is for accesses by the CPU.
 */
#include <errno.h>

#include "../../dmabuf/fence.h"
#include "vulkan.h"

static VkAccessFlags accesses(uint32_t access)
{
	return (access & DLBUF_READ ? VK_ACCESS_MEMORY_READ_BIT : 0) |
	       (access & DLBUF_WRITE ? VK_ACCESS_MEMORY_WRITE_BIT : 0);
}

/* The barriers of n accesses. */
struct barriers {
	struct vulkan_device *dev;
	const struct bracket *brackets;
	uint32_t n;
	bool acquire;
};

/*
 * All stages: an acquire comes after earlier work on the queue, and a release after all
 * work on it. Only the application knows which stages these are. Of two command buffers
 * the second one is that of the release.
 */
static void record_transfer(VkCommandBuffer cmd, uint32_t i, void *data)
{
	const struct barriers *s = data;
	bool acquire = s->acquire && !i;
	struct vulkan_owned list[MAX_BRACKETS];

	for (uint32_t k = 0; k < s->n; k++)
		list[k] = (struct vulkan_owned){
			vulkan_import(s->brackets[k].imp)->buffer.buffer,
			s->dev->foreign, accesses(s->brackets[k].access),
		};
	vulkan_transfer(s->dev, cmd, acquire, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, list,
			s->n, NULL, 0);
}

/*
 * Gets the commands of a submit. The barriers of one import are recorded once, and those
 * of the release at the same time, so that the end of an access needs no memory; they are
 * submitted again while the device is behind, or for a second tensor. Those of
 * several imports are recorded for this submit: *once is new then, otherwise NULL. A command
 * buffer for each import would cost drivers more.
 */
static int get_commands(struct vulkan_device *dev, const struct bracket *b,
			uint32_t n, bool acquire, VkCommandBuffer *cmd,
			struct vulkan_copy **once)
{
	VkCommandBuffer *both = vulkan_import(b->imp)->barriers[b->access - 1];
	struct barriers s = { dev, b, n, n == 1 || acquire };
	int ret = 0;

	if (n > 1) {
		*once = sys_calloc(1, sizeof(**once));
		if (!*once)
			return -ENOMEM;
	}
	pthread_mutex_lock(&dev->lock);
	if (n > 1)
		ret = vulkan_record(dev, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
				    record_transfer, &s, 1, &(*once)->cmd);
	else if (!both[0])
		ret = vulkan_record(dev, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
				    record_transfer, &s, 2, both);
	*cmd = n > 1 ? (*once)->cmd : both[!acquire];
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

static void barriers_free(struct vulkan_device *dev, struct vulkan_import *vi)
{
	pthread_mutex_lock(&dev->lock);
	for (size_t i = 0; i < ARRAY_SIZE(vi->barriers); i++)
		if (vi->barriers[i][0])
			dev->instance.vk.FreeCommandBuffers(dev->handle,
				dev->pool, 2, vi->barriers[i]);
	pthread_mutex_unlock(&dev->lock);
}

void vulkan_sync_finish(struct vulkan_import *vi)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);

	vulkan_jobs_finish(dev, &vi->jobs);
	vulkan_jobs_finish_together(dev, vi);
	barriers_free(dev, vi);
}

/* ---- begin and end */

/* A submit for several imports, or for one. */
struct work {
	const struct bracket *brackets;
	uint32_t n;
	VkQueue queue;
	VkCommandBuffer cmd;
	struct vulkan_copy *copy;	/* taken on success, or NULL */
	struct vulkan_binding *binding;	/* the same */
	bool ends;			/* the end of accesses: after a failure the queue is idle */
};

/*
 * Submits after the fence `in`. If out is not NULL, *out is a fence of the work, or the
 * work is complete. After a failure nothing runs.
 */
static int submit_work(const struct work *w, int in, int *out)
{
	struct vulkan_import *vi = vulkan_import(w->brackets->imp);
	struct vulkan_device *dev = vulkan_device(vi->base.dev);
	struct vulkan_job **list = w->n > 1 || w->binding ? &dev->together : &vi->jobs;
	struct vulkan_job *job = NULL;
	bool submitted = false;
	int ret;

	ret = vulkan_job_get(dev, list, &job);
	if (!ret && in != -1)
		ret = vulkan_import_fence(dev, in, job->wait);
	if (!ret) {
		ret = vulkan_job_submit(dev, job, w->queue, &(struct vulkan_submit){
			.cmd = w->cmd,
			.wait = in != -1 ? job->wait : VK_NULL_HANDLE,
			.signal = out ? job->signal : VK_NULL_HANDLE,
		});
		submitted = !ret;
	}
	if (!ret && out)
		ret = job->signal ? vulkan_export_fence(dev, job, out) :
				    vulkan_job_wait(dev, job);
	if (!ret) {
		for (uint32_t i = 0; i < w->n; i++)
			job->imports[i] = vulkan_import(w->brackets[i].imp);
		job->nimports = w->n;
		job->copy = w->copy;
		job->binding = w->binding;
		vulkan_job_put(dev, list, job);
		return 0;
	}
	if (submitted || w->ends)
		vulkan_drain(dev, w->queue);
	/* A semaphore may have a payload that nothing waits for: not usable again. */
	if (job)
		vulkan_job_destroy(dev, job);
	return ret;
}

static void copy_free(struct vulkan_device *dev, struct vulkan_copy *copy)
{
	pthread_mutex_lock(&dev->lock);
	vulkan_copy_free(dev, copy);
	pthread_mutex_unlock(&dev->lock);
}

/* Begins accesses after the fence `in`, or with `out` ends them. */
static int begin_or_end(const struct bracket *b, uint32_t n, const struct access_stream *stream,
			int in, int *out)
{
	struct vulkan_device *dev = vulkan_device(b->imp->dev);
	struct work w = {
		.brackets = b, .n = n, .ends = out,
		.queue = stream->handle ? stream->handle : dev->queue,
	};
	int ret;

	/* A release finds its commands, unless dlbuf_acquire_fence() began the access. */
	ret = get_commands(dev, b, n, !out, &w.cmd, &w.copy);
	if (!ret)
		ret = submit_work(&w, in, out);
	else if (out)
		vulkan_drain(dev, w.queue);
	if (ret)
		copy_free(dev, w.copy);
	return ret;
}

int vulkan_acquire_all(const struct bracket *b, uint32_t n, const struct access_stream *stream,
		       int fence)
{
	return begin_or_end(b, n, stream, fence, NULL);
}

int vulkan_release_all(const struct bracket *b, uint32_t n, const struct access_stream *stream,
		       int *fence)
{
	*fence = -1;
	return begin_or_end(b, n, stream, -1, fence);
}

int vulkan_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		   int fence)
{
	struct bracket one = { imp, access };

	return vulkan_acquire_all(&one, 1, stream, fence);
}

int vulkan_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		   int *fence, int *end)
{
	struct bracket one = { imp, access };

	(void)end;
	return vulkan_release_all(&one, 1, stream, fence);
}

bool vulkan_is_busy(struct vulkan_device *dev, const struct vulkan_import *of)
{
	const struct vulkan_import *vi;
	bool busy;

	pthread_mutex_lock(&dev->lock);
	busy = vulkan_jobs_run(dev, dev->together, of);
	for (vi = of ? of : dev->imports; vi && !busy; vi = of ? NULL : vi->next)
		busy = vulkan_jobs_run(dev, vi->jobs, vi);
	pthread_mutex_unlock(&dev->lock);
	return busy;
}

int vulkan_drain_device(struct dlbuf_device *base, uint64_t deadline_ns)
{
	struct timespec pause = PAUSE_FIRST;

	while (vulkan_is_busy(vulkan_device(base), NULL))
		if (!pause_until(&pause, deadline_ns))
			return fail(-ETIME, "%s: work was not complete at the "
				    "deadline", base->name);
	return 0;
}

int vulkan_submit_copy(struct vulkan_import *vi, struct vulkan_copy *copy,
		       record_fn fn, void *data, int fence, int *done)
{
	struct vulkan_device *dev = vulkan_device(vi->base.dev);
	struct bracket one = { &vi->base, DLBUF_WRITE };
	struct work w = {
		.brackets = &one, .n = 1, .queue = dev->queue, .copy = copy,
	};
	int ret;

	*done = -1;
	pthread_mutex_lock(&dev->lock);
	ret = vulkan_record(dev, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, fn, data, 1,
			    &copy->cmd);
	pthread_mutex_unlock(&dev->lock);
	w.cmd = copy->cmd;
	if (!ret)
		ret = submit_work(&w, fence, done);
	if (ret)
		copy_free(dev, copy);
	/*
	 * Some drivers complete the submit before they give a fence. Then its
	 * images, which hold the producer's memory, can be destroyed now.
	 */
	if (!ret)
		vulkan_jobs_reap(dev, &vi->jobs);
	return ret;
}

int vulkan_submit_binding(const struct bracket *brackets, uint32_t n,
			  struct vulkan_binding *binding, VkCommandBuffer cmd, int fence,
			  int *done)
{
	struct vulkan_device *dev = vulkan_device(brackets->imp->dev);
	const struct work w = {
		.brackets = brackets, .n = n, .queue = dev->queue, .cmd = cmd,
		.binding = binding,
	};
	int ret = submit_work(&w, fence, done);

	if (ret) {
		pthread_mutex_lock(&dev->lock);
		vulkan_binding_put(binding);
		pthread_mutex_unlock(&dev->lock);
	}
	return ret;
}
