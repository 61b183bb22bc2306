// SPDX-License-Identifier: MIT
/* The bridge's links, and the trial whether a timeline's value makes a sync_file. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "../dmabuf/fence.h"
#include "device.h"

/* ---- timelines */

int vulkan_timeline_create(struct vulkan_device *dev, bool shared,
			   VkSemaphore *out)
{
	VkExportSemaphoreCreateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
		.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT,
	};
	VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.pNext = shared ? &export : NULL,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
	};
	VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
		.pNext = &type,
	};

	return VULKAN_CALL(&dev->instance.vk, CreateSemaphore, dev->handle,
			   &info, NULL, out);
}

/* Tries three times, because otherwise a waiter for the value would never wake up. */
int vulkan_timeline_signal(struct vulkan_device *dev, VkSemaphore timeline,
			   uint64_t value)
{
	VkSemaphoreSignalInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
		.semaphore = timeline,
		.value = value,
	};
	int ret, tries = 3;

	do
		ret = VULKAN_CALL(&dev->instance.vk, SignalSemaphore,
				  dev->handle, &info);
	while (ret && --tries);
	return ret;
}

int vulkan_timeline_wait(struct vulkan_device *dev, VkSemaphore timeline,
			 uint64_t value)
{
	VkSemaphoreWaitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = 1,
		.pSemaphores = &timeline,
		.pValues = &value,
	};
	VkResult result;

	/* As vulkan_job_wait() */
	do
		result = VULKAN_RESULT(&dev->instance.vk, WaitSemaphores, dev->handle, &info,
				       1000000000);
	while (result == VK_TIMEOUT);
	return vulkan_check(result, VULKAN_FUNCTION(WaitSemaphores));
}

/* ---- links */

static int link_create(struct bridge *bridge, struct link **out)
{
	struct vulkan_device *dev = bridge->dev;
	struct link *link = sys_calloc(1, sizeof(*link));
	int ret;

	if (!link)
		return -ENOMEM;
	link->base.fd = -1;
	ret = vulkan_timeline_create(dev, bridge->links, &link->timeline);
	if (ret)
		goto err_free;
	if (bridge->links)
		ret = vulkan_export_semaphore(dev, link->timeline,
			VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT,
			&link->base.fd);
	if (ret)
		goto err_semaphore;
	*out = link;
	return 0;

err_semaphore:
	dev->instance.vk.DestroySemaphore(dev->handle, link->timeline, NULL);
err_free:
	free(link);
	return ret;
}

/* After an error the value counts as not reached. */
static bool reached(struct vulkan_device *dev, const struct link *link)
{
	uint64_t value;

	return VULKAN_RESULT(&dev->instance.vk, GetSemaphoreCounterValue,
			     dev->handle, link->timeline, &value) ==
	       VK_SUCCESS && value >= link->base.value;
}

static struct link *find_idle(struct bridge *bridge)
{
	struct link **p = &bridge->idle, *link;

	pthread_mutex_lock(&bridge->dev->lock);
	while ((link = *p) && !reached(bridge->dev, link))
		p = &link->next;
	if (link)
		*p = link->next;
	pthread_mutex_unlock(&bridge->dev->lock);
	return link;
}

int bridge_link_get(struct bridge *bridge, struct bridge_link **out)
{
	struct link *link = find_idle(bridge);
	int ret;

	if (!link) {
		ret = link_create(bridge, &link);
		if (ret)
			return ret;
	}
	link->base.value++;
	pthread_mutex_lock(&bridge->dev->lock);
	link->next = bridge->used;
	bridge->used = link;
	pthread_mutex_unlock(&bridge->dev->lock);
	*out = &link->base;
	return 0;
}

void bridge_link_put(struct bridge *bridge, struct bridge_link *base)
{
	struct link *link = container_of(base, struct link, base);
	struct link **p = &bridge->used;

	pthread_mutex_lock(&bridge->dev->lock);
	while (*p != link)
		p = &(*p)->next;
	*p = link->next;
	link->next = bridge->idle;
	bridge->idle = link;
	pthread_mutex_unlock(&bridge->dev->lock);
}

void bridge_link_abandon(struct bridge *bridge, struct bridge_link *base)
{
	struct link *link = container_of(base, struct link, base);
	struct vulkan_device *dev = bridge->dev;
	bool lost;

	/* bridge_links_abandon() may signal the value at the same time. */
	pthread_mutex_lock(&dev->lock);
	lost = !reached(dev, link) &&
	       vulkan_timeline_signal(dev, link->timeline, base->value);
	pthread_mutex_unlock(&dev->lock);
	if (lost) {
		log_at(DLBUF_LOG_WARN, "%s; what waits for it stays",
		       dlbuf_last_error());
		/* The next use signals this value again. */
		base->value--;
	}
	bridge_link_put(bridge, base);
}

static void abandon(struct vulkan_device *dev, struct link *link)
{
	for (; link; link = link->next)
		if (__atomic_load_n(&link->base.theirs, __ATOMIC_SEQ_CST) &&
		    !reached(dev, link) &&
		    vulkan_timeline_signal(dev, link->timeline, link->base.value))
			log_at(DLBUF_LOG_WARN, "%s; what waits for it stays",
			       dlbuf_last_error());
}

void bridge_links_abandon(struct bridge *bridge)
{
	struct vulkan_device *dev = bridge->dev;

	pthread_mutex_lock(&dev->lock);
	abandon(dev, bridge->idle);
	abandon(dev, bridge->used);
	pthread_mutex_unlock(&dev->lock);
}

void bridge_links_free(struct bridge *bridge,
		       void (*fn)(struct bridge_link *link, void *data),
		       void *data)
{
	struct vulkan_device *dev = bridge->dev;
	struct link *link;

	/* Submits of fences wait for values, and semaphores must outlive submits. */
	vulkan_jobs_finish(dev, &bridge->jobs);
	while ((link = bridge->idle)) {
		bridge->idle = link->next;
		/* A wait on a lost device would not end. */
		if (vulkan_timeline_wait(dev, link->timeline, link->base.value))
			log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
		if (fn)
			fn(&link->base, data);
		if (link->base.fd != -1)
			close(link->base.fd);
		dev->instance.vk.DestroySemaphore(dev->handle, link->timeline,
						  NULL);
		free(link);
	}
}

/* ---- the trial: can a value become a fence? */

/*
 * A SYNC_FD can be exported only after the signal that it depends on was submitted
 * (VUID-VkSemaphoreGetFdInfoKHR-handleType-03254). Vulkan does not know whether the
 * other API has submitted its signal, so drivers differ, and this is a trial.
 *
 * Some drivers block in the export until the value is signalled. So a second thread
 * signals the value after some time; if this was needed, the trial has failed. On a busy
 * machine this thread may not have run for that time, so there are several tries.
 */
#define TRIES 3
#define TRY_NS 100000000ull
#define SIGNAL_NS 1000000000ull

struct trial {
	struct vulkan_device *dev;
	VkSemaphore timeline;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool returned;		/* vkGetSemaphoreFdKHR() has returned */
	bool helped;		/* the value was signalled before that */
	bool signalled;		/* it was signalled at all */
};

static int signal_value(struct trial *t)
{
	t->signalled = true;
	return vulkan_timeline_signal(t->dev, t->timeline, 1);
}

static void *help(void *arg)
{
	struct trial *t = arg;
	uint64_t end = now_ns() + TRY_NS;
	struct timespec deadline = {
		.tv_sec = end / 1000000000,
		.tv_nsec = end % 1000000000,
	};
	int ret = 0;

	pthread_mutex_lock(&t->lock);
	while (!t->returned && !ret)
		ret = pthread_cond_timedwait(&t->cond, &t->lock, &deadline);
	t->helped = !t->returned;
	pthread_mutex_unlock(&t->lock);
	if (t->helped)
		signal_value(t);
	return NULL;
}

static int start_helper(struct trial *t, pthread_t *thread)
{
	int ret;

	sys_cond_init(&t->cond);
	pthread_mutex_init(&t->lock, NULL);
	ret = sys_thread(thread, help, t);
	if (!ret)
		return 0;
	pthread_cond_destroy(&t->cond);
	pthread_mutex_destroy(&t->lock);
	return ret;
}

/* Exports while the second thread is ready to signal the value. */
static int export_helped(struct trial *t, struct vulkan_job *job, int *fence)
{
	pthread_t thread;
	int ret, started;

	started = start_helper(t, &thread);
	if (started)
		return started;
	ret = vulkan_export_fence(t->dev, job, fence);
	pthread_mutex_lock(&t->lock);
	t->returned = true;
	pthread_cond_broadcast(&t->cond);
	pthread_mutex_unlock(&t->lock);
	pthread_join(thread, NULL);
	pthread_cond_destroy(&t->cond);
	pthread_mutex_destroy(&t->lock);
	return ret;
}

/* The sync_file must signal after the value, and not before. */
static int check_fence(struct trial *t, int fence)
{
	const char *who = t->dev->physical.info.description;
	int ret;

	if (t->helped)
		return fail(-EOPNOTSUPP, "vulkan: %s: vkGetSemaphoreFdKHR waits "
			    "for the other API's signal", who);
	ret = fence_signalled(fence);
	if (ret < 0)
		return ret;
	if (ret)
		return fail(-EOPNOTSUPP, "vulkan: %s: vkGetSemaphoreFdKHR gives "
			    "a fence that does not wait for the other API's "
			    "signal", who);
	ret = signal_value(t);
	if (!ret)
		ret = dlbuf_fence_wait(fence, now_ns() + SIGNAL_NS);
	if (ret == -ETIME)
		return fail(-EOPNOTSUPP, "vulkan: %s: the fence of a timeline's "
			    "value does not signal", who);
	return ret;
}

static int try_out(struct bridge *bridge, struct trial *t,
		   struct vulkan_job *job)
{
	struct vulkan_device *dev = bridge->dev;
	int fence = -1, ret;

	ret = vulkan_job_submit(dev, job, bridge->out,
				   &(struct vulkan_submit){
		.wait = t->timeline,
		.wait_value = 1,
		.signal = job->signal,
	});
	if (ret)
		return ret;
	ret = export_helped(t, job, &fence);
	/* An export that fails means that the driver cannot do it. */
	if (ret == -EIO)
		ret = -EOPNOTSUPP;
	if (!ret)
		ret = check_fence(t, fence);
	if (!t->signalled)
		signal_value(t);
	vulkan_job_finish(dev, job);
	if (fence != -1)
		close(fence);
	return ret;
}

static int try_once(struct bridge *bridge, bool *helped)
{
	struct vulkan_device *dev = bridge->dev;
	struct trial t = { .dev = dev };
	struct vulkan_job *job;
	int ret;

	ret = vulkan_timeline_create(dev, bridge->links, &t.timeline);
	if (ret)
		return ret;
	ret = vulkan_job_get(dev, &bridge->jobs, &job);
	if (!ret) {
		ret = try_out(bridge, &t, job);
		/* Its semaphore may be signalled, and only the trial can use it. */
		vulkan_job_destroy(dev, job);
	}
	dev->instance.vk.DestroySemaphore(dev->handle, t.timeline, NULL);
	*helped = t.helped;
	return ret;
}

int vulkan_bridge_try_out(struct bridge *bridge)
{
	const struct vulkan_physical *p = &bridge->dev->physical;
	bool helped = false;
	int ret, tries = TRIES;

	if (!p->signals)
		return vulkan_refuses(p, VULKAN_FUNCTION(
				GetPhysicalDeviceExternalSemaphoreProperties),
				"SYNC_FD is not exportable");
	do
		ret = try_once(bridge, &helped);
	while (helped && --tries);
	return ret;
}
