// SPDX-License-Identifier: MIT
/* See vulkan.h. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vulkan.h"

#define EXPORT __attribute__((visibility("default")))

static struct fake_vulkan fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */

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
	bool exportable;	/* a semaphore */
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
};

/* What was submitted and is not over. */
struct submission {
	struct object *uses[16];
	unsigned int nuses;
	int wait;		/* a sync_file that it waits for, or -1 */
	int tell;		/* our end of a sync_file that waits for it, or -1 */
};

static struct object *objects;
/* Oldest first: one device, which does one thing after the other. */
static struct submission submissions[4096];
static struct object the_queue;
static bool semaphore_fd, modifiers; /* the device has the extension */
static struct fake_image nobody_looks;

static void wrong(const char *what)
{
	fake.wrong++;
	fprintf(stderr, "# fake vulkan: %s\n", what);
}

static struct object *make(enum fake_kind kind)
{
	struct object *o = calloc(1, sizeof(*o));

	o->kind = kind;
	o->live = true;
	o->fd = -1;
	o->next = objects;
	objects = o;
	fake.live[kind]++;
	fake.made[kind]++;
	return o;
}

static struct object *check(const void *handle, enum fake_kind kind,
			    const char *who)
{
	struct object *o = objects;

	while (o && o != handle)
		o = o->next;
	if (o && o->kind == kind && o->live)
		return o;
	wrong(who);
	return NULL;
}

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static void destroy(const void *handle, enum fake_kind kind, const char *who)
{
	struct object *o;

	if (!handle)
		return;
	o = check(handle, kind, who);
	if (!o)
		return;
	if (o->pending) {
		wrong(who);
		fprintf(stderr, "# it is in use by the device\n");
	}
	if (o->fd >= 0 && (inode_of(o->fd) != o->inode || close(o->fd)))
		wrong("an fd that it was given was closed by somebody else");
	o->live = false;
	fake.live[kind]--;
}

#define TO_HANDLE(type, object) ((type)(uintptr_t)(object))
#define FROM_HANDLE(handle) ((void *)(uintptr_t)(handle))

/* True when this call is to fail. Under the lock. */
static bool fails(const char *name)
{
	if (!fake.failing || strcmp(fake.failing, name))
		return false;
	if (fake.spared) {
		fake.spared--;
		return false;
	}
	return true;
}

/* Begins a function that returns VkResult, and fails it if it is to fail. */
#define BEGIN(name)					\
	pthread_mutex_lock(&lock);			\
	if (fails(name)) {				\
		VkResult result_ = fake.result;		\
							\
		pthread_mutex_unlock(&lock);		\
		return result_;				\
	}

static VkResult end(void)
{
	pthread_mutex_unlock(&lock);
	return VK_SUCCESS;
}

static const struct fake_physical *physical_of(VkPhysicalDevice p)
{
	return (const struct fake_physical *)(void *)p;
}

/* ---------------------------------------------------------------- loader */

static VkResult EnumerateInstanceVersion(uint32_t *version)
{
	BEGIN("vkEnumerateInstanceVersion")
	*version = fake.loader_version;
	return end();
}

static VkResult CreateInstance(const VkInstanceCreateInfo *info,
			       const VkAllocationCallbacks *alloc,
			       VkInstance *out)
{
	(void)alloc;
	BEGIN("vkCreateInstance")
	fake.api_version = info->pApplicationInfo->apiVersion;
	*out = TO_HANDLE(VkInstance, make(FAKE_INSTANCE));
	return end();
}

static void DestroyInstance(VkInstance instance,
			    const VkAllocationCallbacks *alloc)
{
	(void)alloc;
	pthread_mutex_lock(&lock);
	destroy(instance, FAKE_INSTANCE, "vkDestroyInstance");
	end();
}

/* ---------------------------------------------------------------- devices */

static VkResult EnumeratePhysicalDevices(VkInstance instance, uint32_t *n,
					 VkPhysicalDevice *list)
{
	BEGIN("vkEnumeratePhysicalDevices")
	check(instance, FAKE_INSTANCE, "vkEnumeratePhysicalDevices");
	*n = fake.nphysical;
	for (uint32_t i = 0; list && i < *n; i++)
		list[i] = (VkPhysicalDevice)(void *)&fake.physical[i];
	return end();
}

static VkResult
EnumerateDeviceExtensionProperties(VkPhysicalDevice physical, const char *layer,
				   uint32_t *n, VkExtensionProperties *list)
{
	const struct fake_physical *p = physical_of(physical);

	(void)layer;
	BEGIN("vkEnumerateDeviceExtensionProperties")
	for (*n = 0; *n < 16 && p->extensions[*n]; ++*n)
		if (list)
			snprintf(list[*n].extensionName,
				 sizeof(list[*n].extensionName), "%s",
				 p->extensions[*n]);
	return end();
}

static void GetPhysicalDeviceProperties(VkPhysicalDevice physical,
					VkPhysicalDeviceProperties *out)
{
	const struct fake_physical *p = physical_of(physical);

	out->apiVersion = p->version;
	snprintf(out->deviceName, sizeof(out->deviceName), "%s", p->name);
}

static void GetPhysicalDeviceProperties2(VkPhysicalDevice physical,
					 VkPhysicalDeviceProperties2 *out)
{
	const struct fake_physical *p = physical_of(physical);
	VkBaseOutStructure *s = (void *)out;

	GetPhysicalDeviceProperties(physical, &out->properties);
	out->properties.limits.optimalBufferCopyRowPitchAlignment = 1;
	out->properties.limits.optimalBufferCopyOffsetAlignment = p->copy_align;
	for (; s; s = s->pNext) {
		VkPhysicalDeviceDriverProperties *driver = (void *)s;

		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)
			((VkPhysicalDeviceIDProperties *)s)->deviceUUID[0] =
				p->uuid;
		if (s->sType !=
		    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)
			continue;
		strcpy(driver->driverName, "fake");
		strcpy(driver->driverInfo, "1.0");
	}
}

static void GetPhysicalDeviceFeatures2(VkPhysicalDevice physical,
				       VkPhysicalDeviceFeatures2 *out)
{
	VkPhysicalDeviceBufferDeviceAddressFeatures *address = out->pNext;

	address->bufferDeviceAddress = physical_of(physical)->address;
}

/* Type 0 is protected, 1 and 2 are plain, 3 is AMD's; the rest like 1. */
static void
GetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
				  VkPhysicalDeviceMemoryProperties *out)
{
	(void)physical;
	out->memoryTypeCount = 8;
	for (int i = 0; i < 8; i++)
		out->memoryTypes[i].propertyFlags =
			VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
	out->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_PROTECTED_BIT;
	out->memoryTypes[3].propertyFlags =
		VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
}

/* Family 0 only copies, family 1 computes. */
static void
GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice physical, uint32_t *n,
				       VkQueueFamilyProperties *out)
{
	*n = 2;
	for (int i = 0; i < 2; i++)
		out[i] = (VkQueueFamilyProperties){
			.queueFlags = i && !physical_of(physical)->no_compute ?
				VK_QUEUE_COMPUTE_BIT : VK_QUEUE_TRANSFER_BIT,
			.queueCount = 1,
		};
}

static void GetPhysicalDeviceExternalBufferProperties(
	VkPhysicalDevice physical,
	const VkPhysicalDeviceExternalBufferInfo *info,
	VkExternalBufferProperties *out)
{
	const struct fake_physical *p = physical_of(physical);
	VkExternalMemoryFeatureFlags features = 0;

	if (!p->no_import &&
	    !(p->no_import_with_address &&
	      info->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT))
		features = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
	if (p->dedicated_only)
		features |= VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
	out->externalMemoryProperties.externalMemoryFeatures = features;
}

static void GetPhysicalDeviceExternalSemaphoreProperties(
	VkPhysicalDevice physical,
	const VkPhysicalDeviceExternalSemaphoreInfo *info,
	VkExternalSemaphoreProperties *out)
{
	const struct fake_physical *p = physical_of(physical);

	pthread_mutex_lock(&lock);
	if (info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT)
		wrong("vkGetPhysicalDeviceExternalSemaphoreProperties: not "
		      "about SYNC_FD");
	pthread_mutex_unlock(&lock);
	out->externalSemaphoreFeatures =
		(p->sync_fd_in ?
		 VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT : 0) |
		(p->sync_fd_out ?
		 VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT : 0);
}

static const struct fake_physical *used; /* by the last device */

static VkResult CreateDevice(VkPhysicalDevice physical,
			     const VkDeviceCreateInfo *info,
			     const VkAllocationCallbacks *alloc, VkDevice *out)
{
	bool lists = false;

	(void)alloc;
	BEGIN("vkCreateDevice")
	fake.enabled = info->enabledExtensionCount;
	fake.address_enabled = info->pNext;
	if (info->pQueueCreateInfos->queueFamilyIndex != 1)
		wrong("vkCreateDevice: a queue that does not compute");
	semaphore_fd = modifiers = false;
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
		const char *name = info->ppEnabledExtensionNames[i];

		semaphore_fd |= !strcmp(name,
				VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
		modifiers |= !strcmp(name,
			VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME);
		lists |= !strcmp(name,
				 VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME);
	}
	if (modifiers && !lists &&
	    physical_of(physical)->version < VK_API_VERSION_1_2)
		wrong("vkCreateDevice: an extension that another needs");
	used = physical_of(physical);
	*out = TO_HANDLE(VkDevice, make(FAKE_DEVICE));
	return end();
}

static void DestroyDevice(VkDevice device, const VkAllocationCallbacks *alloc)
{
	(void)alloc;
	pthread_mutex_lock(&lock);
	for (int kind = FAKE_BUFFER; kind < FAKE_KINDS; kind++)
		if (fake.live[kind])
			wrong("vkDestroyDevice: it still has objects");
	destroy(device, FAKE_DEVICE, "vkDestroyDevice");
	end();
}

static void GetDeviceQueue(VkDevice device, uint32_t family, uint32_t index,
			   VkQueue *out)
{
	(void)device, (void)family, (void)index;
	*out = TO_HANDLE(VkQueue, &the_queue);
}

/* ---------------------------------------------------------------- memory */

static VkResult CreateBuffer(VkDevice device, const VkBufferCreateInfo *info,
			     const VkAllocationCallbacks *alloc, VkBuffer *out)
{
	struct object *o;

	(void)alloc;
	BEGIN("vkCreateBuffer")
	check(device, FAKE_DEVICE, "vkCreateBuffer");
	o = make(FAKE_BUFFER);
	o->size = info->size;
	if (!info->pNext)
		wrong("vkCreateBuffer: not external");
	*out = TO_HANDLE(VkBuffer, o);
	return end();
}

static void DestroyBuffer(VkDevice device, VkBuffer buffer,
			  const VkAllocationCallbacks *alloc)
{
	(void)device, (void)alloc;
	pthread_mutex_lock(&lock);
	destroy(FROM_HANDLE(buffer), FAKE_BUFFER, "vkDestroyBuffer");
	end();
}

static void
GetBufferMemoryRequirements2(VkDevice device,
			     const VkBufferMemoryRequirementsInfo2 *info,
			     VkMemoryRequirements2 *out)
{
	VkMemoryDedicatedRequirements *dedicated = out->pNext;
	struct object *o;

	(void)device;
	pthread_mutex_lock(&lock);
	o = check(FROM_HANDLE(info->buffer), FAKE_BUFFER,
		  "vkGetBufferMemoryRequirements2");
	if (o)
		out->memoryRequirements = (VkMemoryRequirements){
			.size = (o->size + used->granularity - 1) /
				used->granularity * used->granularity,
			.alignment = used->granularity,
			.memoryTypeBits = used->buffer_types,
		};
	dedicated->prefersDedicatedAllocation = used->prefers_dedicated;
	end();
}

static VkResult GetMemoryFdPropertiesKHR(VkDevice device,
					 VkExternalMemoryHandleTypeFlagBits type,
					 int fd, VkMemoryFdPropertiesKHR *out)
{
	(void)device, (void)type;
	BEGIN("vkGetMemoryFdPropertiesKHR")
	if (fcntl(fd, F_GETFD) < 0)
		wrong("vkGetMemoryFdPropertiesKHR: the fd is not open");
	out->memoryTypeBits = used->fd_types;
	return end();
}

static VkResult AllocateMemory(VkDevice device,
			       const VkMemoryAllocateInfo *info,
			       const VkAllocationCallbacks *alloc,
			       VkDeviceMemory *out)
{
	const VkBaseInStructure *s = info->pNext;
	struct object *o;
	int fd = -1;

	(void)alloc, (void)device;
	BEGIN("vkAllocateMemory")
	fake.memory_type = info->memoryTypeIndex;
	fake.dedicated = fake.address_memory = false;
	for (; s; s = s->pNext) {
		if (s->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR)
			fd = ((const VkImportMemoryFdInfoKHR *)s)->fd;
		if (s->sType == VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO)
			fake.dedicated = true;
		if (s->sType == VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO)
			fake.address_memory = true;
	}
	if (fcntl(fd, F_GETFD) != FD_CLOEXEC || fd < 3)
		wrong("vkAllocateMemory: the fd is not fit to be kept");
	o = make(FAKE_MEMORY);
	o->size = info->allocationSize;
	o->fd = fd;
	o->inode = inode_of(fd);
	*out = TO_HANDLE(VkDeviceMemory, o);
	return end();
}

static void FreeMemory(VkDevice device, VkDeviceMemory memory,
		       const VkAllocationCallbacks *alloc)
{
	(void)device, (void)alloc;
	pthread_mutex_lock(&lock);
	destroy(FROM_HANDLE(memory), FAKE_MEMORY, "vkFreeMemory");
	end();
}

static VkResult BindBufferMemory(VkDevice device, VkBuffer buffer,
				 VkDeviceMemory memory, VkDeviceSize offset)
{
	(void)device, (void)offset;
	BEGIN("vkBindBufferMemory")
	check(FROM_HANDLE(buffer), FAKE_BUFFER, "vkBindBufferMemory");
	check(FROM_HANDLE(memory), FAKE_MEMORY, "vkBindBufferMemory");
	return end();
}

static VkDeviceAddress
GetBufferDeviceAddress(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
	(void)device, (void)info;
	return 0x1000;
}

static VkDeviceAddress
GetBufferDeviceAddressKHR(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
	(void)device, (void)info;
	return 0x2000;
}

/* ---------------------------------------------------------------- commands */

static VkResult CreateCommandPool(VkDevice device,
				  const VkCommandPoolCreateInfo *info,
				  const VkAllocationCallbacks *alloc,
				  VkCommandPool *out)
{
	(void)device, (void)info, (void)alloc;
	BEGIN("vkCreateCommandPool")
	*out = TO_HANDLE(VkCommandPool, make(FAKE_POOL));
	return end();
}

static void DestroyCommandPool(VkDevice device, VkCommandPool pool,
			       const VkAllocationCallbacks *alloc)
{
	(void)device, (void)alloc;
	pthread_mutex_lock(&lock);
	destroy(FROM_HANDLE(pool), FAKE_POOL, "vkDestroyCommandPool");
	end();
}

static VkResult AllocateCommandBuffers(VkDevice device,
				       const VkCommandBufferAllocateInfo *info,
				       VkCommandBuffer *out)
{
	(void)device;
	BEGIN("vkAllocateCommandBuffers")
	check(FROM_HANDLE(info->commandPool), FAKE_POOL,
	      "vkAllocateCommandBuffers");
	for (uint32_t i = 0; i < info->commandBufferCount; i++)
		out[i] = TO_HANDLE(VkCommandBuffer, make(FAKE_COMMANDS));
	return end();
}

static void FreeCommandBuffers(VkDevice device, VkCommandPool pool, uint32_t n,
			       const VkCommandBuffer *cmd)
{
	(void)device;
	pthread_mutex_lock(&lock);
	check(FROM_HANDLE(pool), FAKE_POOL, "vkFreeCommandBuffers");
	for (uint32_t i = 0; i < n; i++)
		destroy(cmd[i], FAKE_COMMANDS, "vkFreeCommandBuffers");
	end();
}

static VkResult BeginCommandBuffer(VkCommandBuffer cmd,
				   const VkCommandBufferBeginInfo *info)
{
	struct object *o;

	BEGIN("vkBeginCommandBuffer")
	o = check(cmd, FAKE_COMMANDS, "vkBeginCommandBuffer");
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
	struct object *o;

	BEGIN("vkEndCommandBuffer")
	o = check(cmd, FAKE_COMMANDS, "vkEndCommandBuffer");
	for (unsigned int i = 0; o && i < o->nimages; i++)
		if (o->images[i]->owned)
			wrong("vkEndCommandBuffer: an image is not given back");
	return end();
}

/* To the device or from it, with what is in it. */
static void image_barrier(struct object *cmd, const VkImageMemoryBarrier *b)
{
	struct object *o = check(FROM_HANDLE(b->image), FAKE_IMAGE,
				 "vkCmdPipelineBarrier");
	bool acquire = b->dstQueueFamilyIndex == 1;

	if (!o)
		return;
	if (!o->memory)
		wrong("vkCmdPipelineBarrier: an image without memory");
	if (b->subresourceRange.aspectMask != VK_IMAGE_ASPECT_COLOR_BIT ||
	    b->subresourceRange.levelCount != 1 ||
	    b->subresourceRange.layerCount != 1)
		wrong("vkCmdPipelineBarrier: not all of an image");
	if ((acquire ? b->srcQueueFamilyIndex : b->dstQueueFamilyIndex) !=
	    VK_QUEUE_FAMILY_FOREIGN_EXT || (!acquire &&
					    b->srcQueueFamilyIndex != 1))
		wrong("vkCmdPipelineBarrier: an image of whom, to whom");
	if (o->owned == acquire)
		wrong("vkCmdPipelineBarrier: an image goes the wrong way");
	if (acquire && b->oldLayout != VK_IMAGE_LAYOUT_GENERAL)
		wrong("vkCmdPipelineBarrier: what is in the image may go");
	if (!acquire && (b->oldLayout != o->layout ||
			 b->newLayout != VK_IMAGE_LAYOUT_GENERAL))
		wrong("vkCmdPipelineBarrier: the layout of an image");
	if (acquire && cmd->nimages < 4)
		cmd->images[cmd->nimages++] = o;
	o->owned = acquire;
	o->layout = b->newLayout;
	fake.image_barriers[!acquire] = *b;
}

static void CmdPipelineBarrier(VkCommandBuffer cmd, VkPipelineStageFlags src,
			       VkPipelineStageFlags dst, VkDependencyFlags flags,
			       uint32_t nmemory, const VkMemoryBarrier *memory,
			       uint32_t nbuffers,
			       const VkBufferMemoryBarrier *buffers,
			       uint32_t nimages,
			       const VkImageMemoryBarrier *images)
{
	struct object *o;

	(void)flags, (void)nmemory, (void)memory;
	pthread_mutex_lock(&lock);
	o = check(cmd, FAKE_COMMANDS, "vkCmdPipelineBarrier");
	for (uint32_t i = 0; o && i < nimages; i++)
		image_barrier(o, &images[i]);
	if (o && nbuffers == 1) {
		o->barrier = *buffers;
		o->src_stage = src;
		o->dst_stage = dst;
		o->buffer = check(FROM_HANDLE(buffers->buffer), FAKE_BUFFER,
				  "vkCmdPipelineBarrier");
		o->owned = buffers->dstQueueFamilyIndex == 1 &&
			buffers->dstAccessMask & VK_ACCESS_TRANSFER_WRITE_BIT;
	}
	end();
}

/* ---------------------------------------------------------------- images */

/* Of the formats that the tests use: planes, and a texel of each. */
struct texels {
	uint32_t nplanes;
	uint32_t bytes[3];
	uint32_t across;	/* texels in a block */
	uint32_t hsub, vsub;	/* of the planes after the first */
};

static struct texels texels_of(VkFormat format)
{
	switch (format) {
	case VK_FORMAT_R8_UNORM:
		return (struct texels){ 1, { 1 }, 1, 1, 1 };
	case VK_FORMAT_R8G8_UNORM:
	case VK_FORMAT_R16_UNORM:
		return (struct texels){ 1, { 2 }, 1, 1, 1 };
	case VK_FORMAT_R8G8B8_UNORM:
		return (struct texels){ 1, { 3 }, 1, 1, 1 };
	case VK_FORMAT_R16G16_UNORM:
	case VK_FORMAT_B8G8R8A8_UNORM:
		return (struct texels){ 1, { 4 }, 1, 1, 1 };
	case VK_FORMAT_G8B8G8R8_422_UNORM:
		return (struct texels){ 1, { 4 }, 2, 1, 1 };
	case VK_FORMAT_G8_B8R8_2PLANE_420_UNORM:
		return (struct texels){ 2, { 1, 2 }, 1, 2, 2 };
	case VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM:
		return (struct texels){ 3, { 1, 1, 1 }, 1, 2, 2 };
	default:
		wrong("a format that the double does not know");
		return (struct texels){ 1, { 1 }, 1, 1, 1 };
	}
}

static const struct fake_modifier *modifier_of(const struct fake_physical *p,
					       uint64_t modifier)
{
	for (unsigned int i = 0; i < p->nmodifiers; i++)
		if (p->modifiers[i].modifier == modifier)
			return &p->modifiers[i];
	return NULL;
}

static void GetPhysicalDeviceFormatProperties2(VkPhysicalDevice physical,
					       VkFormat format,
					       VkFormatProperties2 *out)
{
	const struct fake_physical *p = physical_of(physical);
	VkDrmFormatModifierPropertiesListEXT *list = out->pNext;
	uint32_t n = 0;

	pthread_mutex_lock(&lock);
	for (; n < p->nmodifiers && list->pDrmFormatModifierProperties &&
	     n < list->drmFormatModifierCount; n++)
		list->pDrmFormatModifierProperties[n] =
			(VkDrmFormatModifierPropertiesEXT){
			.drmFormatModifier = p->modifiers[n].modifier,
			.drmFormatModifierPlaneCount =
				texels_of(format).nplanes +
				p->modifiers[n].compression,
			.drmFormatModifierTilingFeatures =
				p->modifiers[n].no_copy ? 0 :
				VK_FORMAT_FEATURE_TRANSFER_SRC_BIT,
		};
	list->drmFormatModifierCount = list->pDrmFormatModifierProperties ? n :
				       p->nmodifiers;
	end();
}

static VkResult GetPhysicalDeviceImageFormatProperties2(
	VkPhysicalDevice physical, const VkPhysicalDeviceImageFormatInfo2 *info,
	VkImageFormatProperties2 *out)
{
	const struct fake_physical *p = physical_of(physical);
	const VkPhysicalDeviceExternalImageFormatInfo *external = info->pNext;
	const VkPhysicalDeviceImageDrmFormatModifierInfoEXT *modifier =
		external->pNext;
	VkExternalImageFormatProperties *features = out->pNext;
	const struct fake_modifier *m;

	BEGIN("vkGetPhysicalDeviceImageFormatProperties2")
	if (info->tiling != VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT ||
	    external->handleType !=
	    VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT ||
	    info->usage != VK_IMAGE_USAGE_TRANSFER_SRC_BIT)
		wrong("vkGetPhysicalDeviceImageFormatProperties2: of what");
	m = modifier_of(p, modifier->drmFormatModifier);
	if (!m || (p->no_planar && texels_of(info->format).nplanes > 1)) {
		end();
		return VK_ERROR_FORMAT_NOT_SUPPORTED;
	}
	out->imageFormatProperties.maxExtent =
		(VkExtent3D){ p->max_image, p->max_image, 1 };
	features->externalMemoryProperties.externalMemoryFeatures =
		(m->no_import ? 0 : VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) |
		(p->image_dedicated_only ?
		 VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT : 0);
	return end();
}

/* VUIDs 01443 and 02264 to 02269, and those of planar formats. */
static void check_image(const VkImageCreateInfo *info,
			const VkExternalMemoryImageCreateInfo *external,
			const VkImageDrmFormatModifierExplicitCreateInfoEXT *e)
{
	const struct fake_modifier *m = modifier_of(used, e->drmFormatModifier);
	struct texels t = texels_of(info->format);

	if (!modifiers)
		wrong("vkCreateImage: the extension is not switched on");
	if (info->tiling != VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT ||
	    info->imageType != VK_IMAGE_TYPE_2D || info->mipLevels != 1 ||
	    info->arrayLayers != 1 || info->extent.depth != 1 ||
	    info->samples != VK_SAMPLE_COUNT_1_BIT || info->flags ||
	    info->usage != VK_IMAGE_USAGE_TRANSFER_SRC_BIT ||
	    info->initialLayout != VK_IMAGE_LAYOUT_UNDEFINED)
		wrong("vkCreateImage: not an image of a dma-buf");
	if (external->handleTypes !=
	    VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT)
		wrong("vkCreateImage: not external");
	if (!m || e->drmFormatModifierPlaneCount != t.nplanes + m->compression)
		wrong("vkCreateImage: the modifier has other planes");
	if (used->no_planar && t.nplanes > 1)
		wrong("vkCreateImage: the device has no such images");
	if (info->extent.width > used->max_image ||
	    info->extent.height > used->max_image)
		wrong("vkCreateImage: an image that is too large");
	if (info->extent.width % (t.hsub * t.across) ||
	    info->extent.height % t.vsub)
		wrong("vkCreateImage: half a sample of chroma");
	for (uint32_t i = 0; i < e->drmFormatModifierPlaneCount; i++)
		if (e->pPlaneLayouts[i].size || !e->pPlaneLayouts[i].rowPitch ||
		    e->pPlaneLayouts[i].arrayPitch ||
		    e->pPlaneLayouts[i].depthPitch)
			wrong("vkCreateImage: a plane has a size");
}

static VkResult CreateImage(VkDevice device, const VkImageCreateInfo *info,
			    const VkAllocationCallbacks *alloc, VkImage *out)
{
	const VkExternalMemoryImageCreateInfo *external = info->pNext;
	const VkImageDrmFormatModifierExplicitCreateInfoEXT *e =
		external->pNext;
	struct object *o;

	(void)alloc;
	BEGIN("vkCreateImage")
	check(device, FAKE_DEVICE, "vkCreateImage");
	check_image(info, external, e);
	o = make(FAKE_IMAGE);
	o->layout = info->initialLayout;
	o->seen = fake.nimages < 4 ? &fake.images[fake.nimages++] :
				     &nobody_looks;
	*o->seen = (struct fake_image){
		.format = info->format,
		.width = info->extent.width,
		.height = info->extent.height,
		.modifier = e->drmFormatModifier,
		.nlayouts = e->drmFormatModifierPlaneCount,
	};
	for (uint32_t i = 0; i < o->seen->nlayouts; i++) {
		uint64_t plane = e->pPlaneLayouts[i].offset +
			e->pPlaneLayouts[i].rowPitch * info->extent.height /
			(i ? texels_of(info->format).vsub : 1);

		o->seen->layouts[i] = e->pPlaneLayouts[i];
		o->size = plane > o->size ? plane : o->size;
	}
	*out = TO_HANDLE(VkImage, o);
	return end();
}

static void DestroyImage(VkDevice device, VkImage image,
			 const VkAllocationCallbacks *alloc)
{
	(void)device, (void)alloc;
	pthread_mutex_lock(&lock);
	destroy(FROM_HANDLE(image), FAKE_IMAGE, "vkDestroyImage");
	end();
}

static void GetImageMemoryRequirements2(VkDevice device,
					const VkImageMemoryRequirementsInfo2 *info,
					VkMemoryRequirements2 *out)
{
	VkMemoryDedicatedRequirements *dedicated = out->pNext;
	struct object *o;

	(void)device;
	pthread_mutex_lock(&lock);
	o = check(FROM_HANDLE(info->image), FAKE_IMAGE,
		  "vkGetImageMemoryRequirements2");
	if (o)
		out->memoryRequirements = (VkMemoryRequirements){
			.size = o->size,
			.alignment = used->granularity,
			.memoryTypeBits = used->image_types,
		};
	dedicated->prefersDedicatedAllocation = used->image_prefers_dedicated;
	end();
}

static VkResult BindImageMemory(VkDevice device, VkImage image,
				VkDeviceMemory memory, VkDeviceSize offset)
{
	struct object *o, *m;

	(void)device;
	BEGIN("vkBindImageMemory")
	o = check(FROM_HANDLE(image), FAKE_IMAGE, "vkBindImageMemory");
	m = check(FROM_HANDLE(memory), FAKE_MEMORY, "vkBindImageMemory");
	if (o && m && (o->memory || offset || o->size > m->size))
		wrong("vkBindImageMemory: where is the image");
	if (o)
		o->memory = m;
	return end();
}

static void check_region(const struct object *image, const struct object *buffer,
			 const VkBufferImageCopy *r)
{
	struct texels t = texels_of(image->seen->format);
	VkImageAspectFlags aspect = r->imageSubresource.aspectMask;
	uint32_t plane = aspect == VK_IMAGE_ASPECT_PLANE_1_BIT ? 1 :
			 aspect == VK_IMAGE_ASPECT_PLANE_2_BIT ? 2 : 0;
	uint32_t width = image->seen->width / (plane ? t.hsub : 1);
	uint32_t height = image->seen->height / (plane ? t.vsub : 1);
	uint32_t row = r->bufferRowLength / t.across * t.bytes[plane];

	if ((t.nplanes == 1) != (aspect == VK_IMAGE_ASPECT_COLOR_BIT) ||
	    plane >= t.nplanes || r->imageSubresource.layerCount != 1)
		wrong("vkCmdCopyImageToBuffer: not a plane of the image");
	if (r->imageExtent.width != width || r->imageExtent.height != height ||
	    r->imageExtent.depth != 1)
		wrong("vkCmdCopyImageToBuffer: not all of the plane");
	if (r->bufferRowLength < width || r->bufferRowLength % t.across)
		wrong("vkCmdCopyImageToBuffer: rows that overlap");
	if (r->bufferOffset % t.bytes[plane] || !buffer ||
	    r->bufferOffset + (uint64_t)row * height > buffer->size)
		wrong("vkCmdCopyImageToBuffer: rows outside of the buffer");
}

static void CmdCopyImageToBuffer(VkCommandBuffer cmd, VkImage image,
				 VkImageLayout layout, VkBuffer buffer,
				 uint32_t n, const VkBufferImageCopy *regions)
{
	struct object *c, *o, *b;

	pthread_mutex_lock(&lock);
	c = check(cmd, FAKE_COMMANDS, "vkCmdCopyImageToBuffer");
	o = check(FROM_HANDLE(image), FAKE_IMAGE, "vkCmdCopyImageToBuffer");
	b = check(FROM_HANDLE(buffer), FAKE_BUFFER, "vkCmdCopyImageToBuffer");
	if (o && (!o->owned || o->layout != layout ||
		  layout != VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL))
		wrong("vkCmdCopyImageToBuffer: the image is not ready for it");
	if (c && (c->buffer != b || !c->owned))
		wrong("vkCmdCopyImageToBuffer: the buffer is not ours");
	if (o)
		o->seen->nregions = n;
	for (uint32_t i = 0; o && i < n && i < 4; i++) {
		check_region(o, b, &regions[i]);
		o->seen->regions[i] = regions[i];
	}
	end();
}

/* ---------------------------------------------------------------- queue */

static void use(struct submission *s, struct object *o)
{
	if (!o)
		return;
	o->pending++;
	s->uses[s->nuses++] = o;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void complete_one(void)
{
	struct submission *s = &submissions[0];
	uint64_t one = 1;

	for (unsigned int i = 0; i < s->nuses; i++) {
		s->uses[i]->pending--;
		s->uses[i]->signalled = true;
	}
	if (s->wait >= 0)
		close(s->wait);
	if (s->tell >= 0 && (write(s->tell, &one, sizeof(one)) < 0 ||
			     close(s->tell)))
		wrong("a sync_file of ours was closed by somebody else");
	memmove(s, s + 1, --fake.pending * sizeof(*s));
}

/* The device does what it can do without waiting. */
static void progress(void)
{
	while (fake.pending && (submissions[0].wait < 0 ||
				readable(submissions[0].wait)))
		complete_one();
}

static void run(void)
{
	pthread_mutex_lock(&lock);
	progress();
	pthread_mutex_unlock(&lock);
}

/*
 * The device works until f has signalled, or without one until it is done
 * with everything. Under the lock, which is let go while it waits itself.
 */
static void work_until(const struct object *f)
{
	while (progress(), f ? !f->signalled && f->pending : fake.pending) {
		struct pollfd p = {
			.fd = fcntl(submissions[0].wait, F_DUPFD_CLOEXEC, 3),
			.events = POLLIN,
		};

		pthread_mutex_unlock(&lock);
		poll(&p, 1, -1);
		close(p.fd);
		pthread_mutex_lock(&lock);
	}
}

static void look(char what)
{
	if (fake.look)
		fake.look(what);
}

/* The semaphore that a submit waits for, whose payload goes with that. */
static struct object *submit_wait(struct submission *s,
				  const VkSubmitInfo *info)
{
	struct object *o;

	if (!info->waitSemaphoreCount)
		return NULL;
	o = check(FROM_HANDLE(info->pWaitSemaphores[0]), FAKE_SEMAPHORE,
		  "vkQueueSubmit");
	if (info->waitSemaphoreCount > 1 || !info->pWaitDstStageMask[0])
		wrong("vkQueueSubmit: what waits where");
	if (o && o->fd < 0)
		wrong("vkQueueSubmit: nobody signals what it waits for");
	if (o) {
		s->wait = o->fd;
		o->fd = -1;
	}
	return o;
}

static struct object *submit_signal(const VkSubmitInfo *info)
{
	struct object *o;

	if (!info->signalSemaphoreCount)
		return NULL;
	o = check(FROM_HANDLE(info->pSignalSemaphores[0]), FAKE_SEMAPHORE,
		  "vkQueueSubmit");
	if (info->signalSemaphoreCount > 1 || (o && o->signal))
		wrong("vkQueueSubmit: signals a semaphore that is signalled");
	if (o)
		o->signal = true;
	return o;
}

static VkResult QueueSubmit(VkQueue queue, uint32_t n, const VkSubmitInfo *info,
			    VkFence fence)
{
	struct submission *s;
	struct object *cmd, *f = NULL;

	look('s');
	BEGIN("vkQueueSubmit")
	if (fake.pending == sizeof(submissions) / sizeof(submissions[0])) {
		fprintf(stderr, "# fake vulkan: nobody waits\n");
		abort();
	}
	s = &submissions[fake.pending];
	*s = (struct submission){ .wait = -1, .tell = -1 };
	if (n != 1 || info->commandBufferCount != 1)
		wrong("vkQueueSubmit: not one command buffer");
	cmd = check(info->pCommandBuffers[0], FAKE_COMMANDS, "vkQueueSubmit");
	if (cmd) {
		fake.barrier = cmd->barrier;
		fake.src_stage = cmd->src_stage;
		fake.dst_stage = cmd->dst_stage;
		if (cmd->once && cmd->submitted)
			wrong("vkQueueSubmit: a command buffer for one submit");
		cmd->submitted = true;
		use(s, cmd);
		use(s, cmd->buffer);
		for (unsigned int i = 0; i < cmd->nimages; i++) {
			use(s, cmd->images[i]);
			use(s, cmd->images[i]->memory);
		}
	}
	if (fence) {
		f = check(FROM_HANDLE(fence), FAKE_FENCE, "vkQueueSubmit");
		if (f && (f->signalled || f->pending))
			wrong("vkQueueSubmit: the fence was not reset");
		if (f)
			f->submitted = true;
		use(s, f);
	}
	use(s, submit_wait(s, info));
	use(s, submit_signal(info));
	fake.semaphores_in = info->waitSemaphoreCount;
	fake.semaphores_out = info->signalSemaphoreCount;
	fake.pending++;
	fake.submits++;
	fake.queue = queue;
	return end();
}

static VkResult QueueWaitIdle(VkQueue queue)
{
	(void)queue;
	look('d');
	pthread_mutex_lock(&lock);
	fake.drains++;
	work_until(NULL);
	return end();
}

static VkResult DeviceWaitIdle(VkDevice device)
{
	pthread_mutex_lock(&lock);
	check(device, FAKE_DEVICE, "vkDeviceWaitIdle");
	work_until(NULL);
	return end();
}

static VkResult CreateFence(VkDevice device, const VkFenceCreateInfo *info,
			    const VkAllocationCallbacks *alloc, VkFence *out)
{
	(void)device, (void)info, (void)alloc;
	BEGIN("vkCreateFence")
	*out = TO_HANDLE(VkFence, make(FAKE_FENCE));
	return end();
}

static void DestroyFence(VkDevice device, VkFence fence,
			 const VkAllocationCallbacks *alloc)
{
	(void)device, (void)alloc;
	pthread_mutex_lock(&lock);
	destroy(FROM_HANDLE(fence), FAKE_FENCE, "vkDestroyFence");
	end();
}

static VkResult ResetFences(VkDevice device, uint32_t n, const VkFence *fences)
{
	struct object *f;

	(void)device, (void)n;
	BEGIN("vkResetFences")
	f = check(FROM_HANDLE(fences[0]), FAKE_FENCE, "vkResetFences");
	if (f && f->pending)
		wrong("vkResetFences: the fence is in use by the device");
	if (f)
		f->signalled = f->submitted = false;
	return end();
}

static VkResult WaitForFences(VkDevice device, uint32_t n, const VkFence *fences,
			      VkBool32 all, uint64_t timeout)
{
	struct object *f;

	(void)device, (void)n, (void)all, (void)timeout;
	look('w');
	BEGIN("vkWaitForFences")
	f = check(FROM_HANDLE(fences[0]), FAKE_FENCE, "vkWaitForFences");
	if (f && !f->submitted)
		wrong("vkWaitForFences: this would wait for ever");
	fake.waits++;
	work_until(f);
	return end();
}

static VkResult GetFenceStatus(VkDevice device, VkFence fence)
{
	struct object *f;
	bool signalled;

	(void)device;
	BEGIN("vkGetFenceStatus")
	f = check(FROM_HANDLE(fence), FAKE_FENCE, "vkGetFenceStatus");
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
	const VkExportSemaphoreCreateInfo *export = info->pNext;
	struct object *o;

	(void)device, (void)alloc;
	BEGIN("vkCreateSemaphore")
	o = make(FAKE_SEMAPHORE);
	o->exportable = export && export->handleTypes ==
			VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;
	if (o->exportable && !(semaphore_fd && used->sync_fd_out))
		wrong("vkCreateSemaphore: the device cannot export it");
	*out = TO_HANDLE(VkSemaphore, o);
	return end();
}

static void DestroySemaphore(VkDevice device, VkSemaphore semaphore,
			     const VkAllocationCallbacks *alloc)
{
	(void)device, (void)alloc;
	pthread_mutex_lock(&lock);
	destroy(FROM_HANDLE(semaphore), FAKE_SEMAPHORE, "vkDestroySemaphore");
	end();
}

static VkResult ImportSemaphoreFdKHR(VkDevice device,
				     const VkImportSemaphoreFdInfoKHR *info)
{
	struct object *o;

	(void)device;
	BEGIN("vkImportSemaphoreFdKHR")
	o = check(FROM_HANDLE(info->semaphore), FAKE_SEMAPHORE,
		  "vkImportSemaphoreFdKHR");
	if (!semaphore_fd || !used->sync_fd_in)
		wrong("vkImportSemaphoreFdKHR: the device cannot");
	if (info->flags != VK_SEMAPHORE_IMPORT_TEMPORARY_BIT ||
	    info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT)
		wrong("vkImportSemaphoreFdKHR: SYNC_FD is imported temporarily");
	if (fcntl(info->fd, F_GETFD) != FD_CLOEXEC || info->fd < 3)
		wrong("vkImportSemaphoreFdKHR: the fd is not fit to be kept");
	if (o && (o->pending || o->fd >= 0 || o->signal))
		wrong("vkImportSemaphoreFdKHR: the semaphore is not free");
	if (o) {
		o->fd = info->fd;
		o->inode = inode_of(info->fd);
	}
	fake.imports++;
	return end();
}

/* The submit that will signal o; NULL when that is over. */
static struct submission *submission_of(const struct object *o)
{
	for (unsigned int i = 0; i < fake.pending; i++)
		for (unsigned int j = 0; j < submissions[i].nuses; j++)
			if (submissions[i].uses[j] == o)
				return &submissions[i];
	return NULL;
}

static VkResult GetSemaphoreFdKHR(VkDevice device,
				  const VkSemaphoreGetFdInfoKHR *info, int *fd)
{
	struct submission *s = NULL;
	struct object *o;

	(void)device;
	BEGIN("vkGetSemaphoreFdKHR")
	o = check(FROM_HANDLE(info->semaphore), FAKE_SEMAPHORE,
		  "vkGetSemaphoreFdKHR");
	if (info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT ||
	    (o && !o->exportable))
		wrong("vkGetSemaphoreFdKHR: it was not made for SYNC_FD");
	if (o && !o->signal)
		wrong("vkGetSemaphoreFdKHR: no signal was submitted for it");
	if (fake.no_fd)
		work_until(NULL);
	if (o) {
		s = submission_of(o);
		o->signal = false;
	}
	*fd = -1;
	if (!fake.no_fd) {
		*fd = eventfd(!s, EFD_CLOEXEC);
		if (s)
			s->tell = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
	}
	fake.exports++;
	return end();
}

/* ---------------------------------------------------------------- names */

static PFN_vkVoidFunction GetDeviceProcAddr(VkDevice device, const char *name);

static const struct {
	const char *name;
	PFN_vkVoidFunction fn;
} functions[] = {
#define FN(name) { "vk" #name, (PFN_vkVoidFunction)name }
	FN(CreateInstance), FN(DestroyInstance), FN(EnumeratePhysicalDevices),
	FN(EnumerateDeviceExtensionProperties), FN(GetPhysicalDeviceProperties),
	FN(GetPhysicalDeviceProperties2), FN(GetPhysicalDeviceFeatures2),
	FN(GetPhysicalDeviceMemoryProperties),
	FN(GetPhysicalDeviceQueueFamilyProperties),
	FN(GetPhysicalDeviceFormatProperties2),
	FN(GetPhysicalDeviceImageFormatProperties2),
	FN(GetPhysicalDeviceExternalBufferProperties),
	FN(GetPhysicalDeviceExternalSemaphoreProperties), FN(CreateDevice),
	FN(GetDeviceProcAddr), FN(DestroyDevice), FN(DeviceWaitIdle),
	FN(GetDeviceQueue), FN(CreateBuffer), FN(DestroyBuffer),
	FN(GetBufferMemoryRequirements2), FN(CreateImage), FN(DestroyImage),
	FN(GetImageMemoryRequirements2), FN(BindImageMemory),
	FN(CmdCopyImageToBuffer), FN(GetMemoryFdPropertiesKHR),
	FN(AllocateMemory), FN(FreeMemory), FN(BindBufferMemory),
	FN(GetBufferDeviceAddress), FN(GetBufferDeviceAddressKHR),
	FN(CreateCommandPool), FN(DestroyCommandPool),
	FN(AllocateCommandBuffers), FN(FreeCommandBuffers),
	FN(BeginCommandBuffer), FN(EndCommandBuffer), FN(CmdPipelineBarrier),
	FN(CreateFence), FN(DestroyFence), FN(ResetFences), FN(WaitForFences),
	FN(GetFenceStatus), FN(CreateSemaphore), FN(DestroySemaphore),
	FN(ImportSemaphoreFdKHR), FN(GetSemaphoreFdKHR), FN(QueueSubmit),
	FN(QueueWaitIdle),
#undef FN
};

static PFN_vkVoidFunction find(const char *name)
{
	if (fake.without && !strcmp(fake.without, name))
		return NULL;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name))
			return functions[i].fn;
	return NULL;
}

static PFN_vkVoidFunction GetDeviceProcAddr(VkDevice device, const char *name)
{
	(void)device;
	return find(name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	(void)instance;
	if (!strcmp(name, "vkEnumerateInstanceVersion"))
		return fake.loader_version ?
			(PFN_vkVoidFunction)EnumerateInstanceVersion : NULL;
	return find(name);
}

EXPORT struct fake_vulkan *fake_vulkan(bool reset);
EXPORT struct fake_vulkan *fake_vulkan(bool reset)
{
	if (!reset)
		return &fake;
	for (unsigned int i = 0; i < fake.pending; i++) {
		if (submissions[i].wait >= 0)
			close(submissions[i].wait);
		if (submissions[i].tell >= 0)
			close(submissions[i].tell);
	}
	while (objects) {
		struct object *o = objects;

		objects = o->next;
		free(o);
	}
	fake = (struct fake_vulkan){
		.run = run,
		.loader_version = VK_API_VERSION_1_2,
		.nphysical = 1,
		.physical[0] = {
			.name = "Able",
			.version = VK_API_VERSION_1_2,
			.extensions = {
				VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
				VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
				VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,
			},
			.uuid = 0xab,
			.address = true,
			.granularity = 4096,
			.buffer_types = 0xff,
			.fd_types = 0xff,
			.image_types = 0xff,
			.max_image = 16384,
			.copy_align = 64,
		},
	};
	for (int i = 1; i < 4; i++)
		fake.physical[i] = fake.physical[0];
	used = &fake.physical[0];
	return &fake;
}
