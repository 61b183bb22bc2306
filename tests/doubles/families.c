// SPDX-License-Identifier: MIT
/*
 * A layer of Vulkan for drivers with one queue family: the device has a second one, of the
 * same kind, and each has a queue. Both are the driver's only queue, so an application and
 * Khronos' validation, above the layer, see two. For one instance and one device, and for
 * the calls of examples/wrap.c.
 */
#include <string.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))
#define NEXT(name) ((PFN_vk##name)next_device(device, "vk" #name))

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance instance;
static VkDevice device;
static VkQueue queue;			/* the driver's */
static void *second[16];		/* the other one: the loader writes to its beginning */

/* The link to the next layer in a chain of pNext; the same for instances and devices. */
static VkLayerInstanceCreateInfo *link_in(const void *chain, VkStructureType type)
{
	VkLayerInstanceCreateInfo *c = (void *)chain;

	while (c && (c->sType != type || c->function != VK_LAYER_LINK_INFO))
		c = (void *)c->pNext;
	return c;
}

static VkResult CreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a,
			       VkInstance *out)
{
	VkLayerInstanceCreateInfo *c = link_in(info->pNext,
					       VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
	VkResult result;

	next_instance = c->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	c->u.pLayerInfo = c->u.pLayerInfo->pNext;
	result = ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(info, a, out);
	instance = *out;
	return result;
}

static VkResult CreateDevice(VkPhysicalDevice p, const VkDeviceCreateInfo *info,
			     const VkAllocationCallbacks *a, VkDevice *out)
{
	VkLayerDeviceCreateInfo *c = (void *)link_in(info->pNext,
						     VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
	VkDeviceQueueCreateInfo one = info->pQueueCreateInfos[0];
	VkDeviceCreateInfo ours = *info;
	VkResult result;

	next_device = c->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	c->u.pLayerInfo = c->u.pLayerInfo->pNext;
	one.queueFamilyIndex = 0;
	ours.queueCreateInfoCount = 1;
	ours.pQueueCreateInfos = &one;
	result = ((PFN_vkCreateDevice)next_instance(instance, "vkCreateDevice"))(p, &ours, a, out);
	device = *out;
	return result;
}

static void GetPhysicalDeviceQueueFamilyProperties2(VkPhysicalDevice p, uint32_t *n,
						    VkQueueFamilyProperties2 *list)
{
	uint32_t one = 1;

	if (list && *n)
		((PFN_vkGetPhysicalDeviceQueueFamilyProperties2)next_instance(instance,
			"vkGetPhysicalDeviceQueueFamilyProperties2"))(p, &one, list);
	if (list && *n > 1)
		list[1].queueFamilyProperties = list[0].queueFamilyProperties;
	if (!list || *n > 2)
		*n = 2;
}

static void GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice p, uint32_t *n,
						   VkQueueFamilyProperties *list)
{
	VkQueueFamilyProperties2 both[2] = {
		{ .sType = VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2 },
		{ .sType = VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2 },
	};

	GetPhysicalDeviceQueueFamilyProperties2(p, n, list ? both : NULL);
	for (uint32_t i = 0; list && i < *n; i++)
		list[i] = both[i].queueFamilyProperties;
}

static void GetDeviceQueue(VkDevice d, uint32_t family, uint32_t index, VkQueue *out)
{
	NEXT(GetDeviceQueue)(d, 0, 0, &queue);
	*out = family ? (VkQueue)(void *)second : queue;
}

static VkResult QueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
	return NEXT(QueueSubmit)(queue, n, info, fence);
}

static VkResult CreateCommandPool(VkDevice d, const VkCommandPoolCreateInfo *info,
				  const VkAllocationCallbacks *a, VkCommandPool *out)
{
	VkCommandPoolCreateInfo ours = *info;

	ours.queueFamilyIndex = 0;
	return NEXT(CreateCommandPool)(d, &ours, a, out);
}

static uint32_t family_of(uint32_t family)
{
	return family == 1 ? 0 : family;
}

static void CmdPipelineBarrier(VkCommandBuffer cmd, VkPipelineStageFlags src,
			       VkPipelineStageFlags dst, VkDependencyFlags flags, uint32_t nmemory,
			       const VkMemoryBarrier *memory, uint32_t n,
			       const VkBufferMemoryBarrier *list, uint32_t nimages,
			       const VkImageMemoryBarrier *images)
{
	VkBufferMemoryBarrier one = *list;	/* all that the example has in one command */

	one.srcQueueFamilyIndex = family_of(one.srcQueueFamilyIndex);
	one.dstQueueFamilyIndex = family_of(one.dstQueueFamilyIndex);
	NEXT(CmdPipelineBarrier)(cmd, src, dst, flags, nmemory, memory, n, &one, nimages, images);
}

#define FN(name) { "vk" #name, (PFN_vkVoidFunction)name }
static const struct {
	const char *name;
	PFN_vkVoidFunction fn;
} functions[] = {
	FN(CreateInstance), FN(CreateDevice), FN(GetPhysicalDeviceQueueFamilyProperties),
	FN(GetPhysicalDeviceQueueFamilyProperties2), FN(GetDeviceQueue), FN(QueueSubmit),
	FN(CreateCommandPool), FN(CmdPipelineBarrier),
};

static PFN_vkVoidFunction ours(const char *name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name))
			return functions[i].fn;
	return NULL;
}

static PFN_vkVoidFunction of_instance(VkInstance i, const char *name)
{
	return ours(name) ? ours(name) : next_instance(i, name);
}

static PFN_vkVoidFunction of_device(VkDevice d, const char *name)
{
	return ours(name) ? ours(name) : next_device(d, name);
}

EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *v)
{
	v->loaderLayerInterfaceVersion = 2;
	v->pfnGetInstanceProcAddr = of_instance;
	v->pfnGetDeviceProcAddr = of_device;
	v->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
