// SPDX-License-Identifier: MIT
/* Marks on a Vulkan queue: submits of nothing, with a VkFence. */
#include <stdlib.h>

#include "fence.h"

#ifdef CONFIG_BACKEND_VULKAN
#include <dlbuf/vulkan.h>

struct fence_mark {
	VkDevice device;
	VkFence fence;
	PFN_vkWaitForFences WaitForFences;
	PFN_vkDestroyFence DestroyFence;
};

bool fence_mark_possible(const struct dlbuf_device_info *info)
{
	return info->device.device_type == kDLVulkan;
}

static VkResult submit(struct fence_mark *m, struct dlbuf_device *dev,
		       const struct dlbuf_vulkan_device *vk)
{
	PFN_vkGetDeviceProcAddr get = (PFN_vkGetDeviceProcAddr)
		vk->get_instance_proc_addr(vk->instance, "vkGetDeviceProcAddr");
	PFN_vkCreateFence create =
		(PFN_vkCreateFence)get(vk->device, "vkCreateFence");
	PFN_vkQueueSubmit queue_submit =
		(PFN_vkQueueSubmit)get(vk->device, "vkQueueSubmit");
	VkFenceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
	};
	VkResult result;

	m->device = vk->device;
	m->WaitForFences =
		(PFN_vkWaitForFences)get(vk->device, "vkWaitForFences");
	m->DestroyFence =
		(PFN_vkDestroyFence)get(vk->device, "vkDestroyFence");
	result = create(vk->device, &info, NULL, &m->fence);
	if (result)
		return result;
	dlbuf_vulkan_lock_queue(dev, vk->queue);
	result = queue_submit(vk->queue, 0, NULL, m->fence);
	dlbuf_vulkan_unlock_queue(dev, vk->queue);
	if (result)
		m->DestroyFence(vk->device, m->fence, NULL);
	return result;
}

struct fence_mark *fence_mark_submit(struct dlbuf_device *dev)
{
	struct dlbuf_vulkan_device vk = { .size = sizeof(vk) };
	struct fence_mark *m;
	VkResult result;

	if (dlbuf_vulkan_get_device(dev, &vk)) {
		fail(STATUS_SYSTEM, "%s", dlbuf_last_error());
		return NULL;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		fail(STATUS_SYSTEM, "no memory for a submit");
		return NULL;
	}
	result = submit(m, dev, &vk);
	if (!result)
		return m;
	fail(STATUS_SYSTEM, "vkQueueSubmit: VkResult %d", result);
	free(m);
	return NULL;
}

bool fence_mark_passed(struct fence_mark *m, uint64_t ns)
{
	return m->WaitForFences(m->device, 1, &m->fence, VK_TRUE, ns) ==
	       VK_SUCCESS;
}

void fence_mark_free(struct fence_mark *m)
{
	m->DestroyFence(m->device, m->fence, NULL);
	free(m);
}
#else
bool fence_mark_possible(const struct dlbuf_device_info *info)
{
	(void)info;
	return false;
}

struct fence_mark *fence_mark_submit(struct dlbuf_device *dev)
{
	(void)dev;
	return NULL;
}

bool fence_mark_passed(struct fence_mark *m, uint64_t ns)
{
	(void)m, (void)ns;
	return false;
}

void fence_mark_free(struct fence_mark *m)
{
	(void)m;
}
#endif
