// SPDX-License-Identifier: MIT
/* See vulkan.h. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgem.h"
#include "vulkan_objects.h"

struct fake_vulkan fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "vulkan";

struct submission submissions[4096];
const struct fake_physical *used;
bool semaphore_fd, modifiers, foreign, timelines, timelines_khr;

struct item *item_make(enum fake_kind kind)
{
	struct item *o = make(kind, sizeof(*o), NULL, false);

	o->fd = -1;
	return o;
}

struct item *check(const void *handle, enum fake_kind kind)
{
	struct item *o = object_of(handle, kind);

	if (!o)
		wrong("%s: not a live object", call);
	return o;
}

void destroy(const void *handle, enum fake_kind kind)
{
	struct item *o = handle ? check(handle, kind) : NULL;

	if (!o)
		return;
	if (o->fd >= 0)
		close_given(o->fd, o->inode);
	if (o->value)
		timeline_end(o);
	unmake(&o->object);
}

VkResult end(void)
{
	pthread_mutex_unlock(&lock);
	return VK_SUCCESS;
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
	BEGIN("vkCreateInstance")
	fake.api_version = info->pApplicationInfo->apiVersion;
	*out = TO_HANDLE(VkInstance, item_make(FAKE_INSTANCE));
	return end();
}

static void DestroyInstance(VkInstance instance,
			    const VkAllocationCallbacks *alloc)
{
	LOCK("vkDestroyInstance")
	destroy(instance, FAKE_INSTANCE);
	end();
}

/* ---------------------------------------------------------------- devices */

static VkResult EnumeratePhysicalDevices(VkInstance instance, uint32_t *n,
					 VkPhysicalDevice *list)
{
	BEGIN("vkEnumeratePhysicalDevices")
	check(instance, FAKE_INSTANCE);
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
		VkPhysicalDeviceDriverProperties *names = (void *)s;
		VkPhysicalDevicePCIBusInfoPropertiesEXT *pci = (void *)s;
		VkPhysicalDeviceDrmPropertiesEXT *drm = (void *)s;

		if (s->sType ==
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT) {
			pci->pciDomain = 0x10;
			pci->pciBus = p->pci;
			pci->pciDevice = 3;
			pci->pciFunction = 1;
		}
		if (s->sType ==
		    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRM_PROPERTIES_EXT) {
			drm->hasPrimary = p->primary > 0;
			drm->hasRender = p->render > 0;
			drm->primaryMajor = drm->renderMajor = 226;
			drm->primaryMinor = p->primary;
			drm->renderMinor = p->render;
		}
		if (s->sType ==
		    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES)
			((VkPhysicalDeviceMaintenance4Properties *)s)->maxBufferSize =
				p->max_buffer;
		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)
			((VkPhysicalDeviceIDProperties *)s)->deviceUUID[0] =
				p->uuid;
		if (s->sType !=
		    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)
			continue;
		strcpy(names->driverName, "fake");
		strcpy(names->driverInfo, "1.0");
		names->driverID = p->driver;
	}
}

static void GetPhysicalDeviceFeatures2(VkPhysicalDevice physical,
				       VkPhysicalDeviceFeatures2 *out)
{
	const struct fake_physical *p = physical_of(physical);

	for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext) {
		VkPhysicalDeviceBufferDeviceAddressFeatures *address = (void *)s;
		VkPhysicalDeviceTimelineSemaphoreFeatures *timeline = (void *)s;

		if (s->sType ==
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
			timeline->timelineSemaphore = p->timeline;
		else
			address->bufferDeviceAddress = p->address;
	}
}

/* Type 0 is protected, 1 and 2 are plain, 3 is AMD's; the rest like 1. */
static void
GetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
				  VkPhysicalDeviceMemoryProperties *out)
{
	out->memoryTypeCount = 8;
	for (int i = 0; i < 8; i++)
		out->memoryTypes[i].propertyFlags =
			VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
	out->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_PROTECTED_BIT;
	out->memoryTypes[3].propertyFlags =
		VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
	for (int i = 1; physical_of(physical)->host_memory && i < 5; i++)
		out->memoryTypes[i].propertyFlags &=
			~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
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
			.queueCount = physical_of(physical)->queues > 1 ?
				physical_of(physical)->queues : 1,
		};
}

static void GetPhysicalDeviceExternalBufferProperties(
	VkPhysicalDevice physical,
	const VkPhysicalDeviceExternalBufferInfo *info,
	VkExternalBufferProperties *out)
{
	const struct fake_physical *p = physical_of(physical);
	VkExternalMemoryFeatureFlags features = 0;

	if (info->handleType == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT) {
		out->externalMemoryProperties.externalMemoryFeatures =
			(p->memory_out ?
			 VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT : 0) |
			(p->shared_dedicated_only ?
			 VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT : 0);
		return;
	}
	if (!p->no_import &&
	    !(p->no_import_with_address &&
	      info->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT))
		features = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
	if (p->dedicated_only)
		features |= VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
	if (p->dma_buf_out)
		features |= VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT;
	out->externalMemoryProperties.externalMemoryFeatures = features;
}

static void GetPhysicalDeviceExternalSemaphoreProperties(
	VkPhysicalDevice physical,
	const VkPhysicalDeviceExternalSemaphoreInfo *info,
	VkExternalSemaphoreProperties *out)
{
	const struct fake_physical *p = physical_of(physical);
	const VkSemaphoreTypeCreateInfo *type = info->pNext;

	if (info->handleType ==
	    VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT && type &&
	    type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE) {
		out->externalSemaphoreFeatures = p->timeline_out ?
			VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT : 0;
		return;
	}
	LOCK("vkGetPhysicalDeviceExternalSemaphoreProperties")
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

static VkResult CreateDevice(VkPhysicalDevice physical,
			     const VkDeviceCreateInfo *info,
			     const VkAllocationCallbacks *alloc, VkDevice *out)
{
	const VkDeviceQueueCreateInfo *queue = info->pQueueCreateInfos;
	const VkBaseInStructure *feature = info->pNext;
	bool lists = false;

	BEGIN("vkCreateDevice")
	fake.enabled = info->enabledExtensionCount;
	fake.address_enabled = false;
	/* Functions of several devices are not distinguished. */
	if (!fake.live[FAKE_DEVICE])
		timelines = timelines_khr = semaphore_fd = modifiers = foreign = false;
	for (; feature; feature = feature->pNext) {
		if (feature->sType ==
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
			timelines = true;
		else
			fake.address_enabled = true;
	}
	if (timelines && !physical_of(physical)->timeline)
		wrong("vkCreateDevice: a feature that there is not");
	if (queue->queueFamilyIndex != 1)
		wrong("vkCreateDevice: a queue that does not compute");
	if (queue->queueCount > 1 &&
	    queue->queueCount > physical_of(physical)->queues)
		wrong("vkCreateDevice: more queues than there are");
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
		const char *name = info->ppEnabledExtensionNames[i];

		semaphore_fd |= !strcmp(name,
				VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
		modifiers |= !strcmp(name,
			VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME);
		foreign |= !strcmp(name,
				   VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME);
		timelines_khr |= !strcmp(name,
				VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
		lists |= !strcmp(name,
				 VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME);
	}
	if (modifiers && !lists &&
	    physical_of(physical)->version < VK_API_VERSION_1_2)
		wrong("vkCreateDevice: an extension that another needs");
	if (timelines && !timelines_khr &&
	    physical_of(physical)->version < VK_API_VERSION_1_2)
		wrong("vkCreateDevice: a feature without its extension");
	used = physical_of(physical);
	*out = TO_HANDLE(VkDevice, item_make(FAKE_DEVICE));
	if (fake.threaded)
		thread_begin();
	return end();
}

static void DestroyDevice(VkDevice device, const VkAllocationCallbacks *alloc)
{
	thread_end();
	LOCK("vkDestroyDevice")
	/* Objects have no owner here, so only the last device is checked. */
	for (int kind = FAKE_BUFFER; kind < FAKE_KINDS; kind++)
		if (fake.live[kind] && fake.live[FAKE_DEVICE] == 1)
			wrong("vkDestroyDevice: it still has objects");
	destroy(device, FAKE_DEVICE);
	end();
}

static void GetDeviceQueue(VkDevice device, uint32_t family, uint32_t index,
			   VkQueue *out)
{
	LOCK("vkGetDeviceQueue")
	*out = TO_HANDLE(VkQueue, &check(device, FAKE_DEVICE)->users[index]);
	end();
}

/* ---------------------------------------------------------------- memory */

static VkResult CreateBuffer(VkDevice device, const VkBufferCreateInfo *info,
			     const VkAllocationCallbacks *alloc, VkBuffer *out)
{
	struct item *o;

	BEGIN("vkCreateBuffer")
	check(device, FAKE_DEVICE);
	o = item_make(FAKE_BUFFER);
	o->size = info->size;
	if (used->max_buffer && o->size > used->max_buffer)
		wrong("vkCreateBuffer: VUID-VkBufferCreateInfo-size-06409");
	if (!info->pNext)
		wrong("vkCreateBuffer: not external");
	else
		o->handles = ((const VkExternalMemoryBufferCreateInfo *)
			      info->pNext)->handleTypes;
	*out = TO_HANDLE(VkBuffer, o);
	return end();
}

DESTROYS(DestroyBuffer, VkBuffer, FAKE_BUFFER)

/* Mesa 25.0.7, get_buffer_memory_requirements() of v3dv_device.c, for prefetch */
static uint64_t needs_of(const struct item *buffer)
{
	bool more = used->prefetch && buffer->size % 4096 == 0;

	return (buffer->size + (more ? used->granularity : 0) + used->granularity - 1) /
	       used->granularity * used->granularity;
}

static void
GetBufferMemoryRequirements2(VkDevice device,
			     const VkBufferMemoryRequirementsInfo2 *info,
			     VkMemoryRequirements2 *out)
{
	VkMemoryDedicatedRequirements *dedicated = out->pNext;
	struct item *o;

	LOCK("vkGetBufferMemoryRequirements2")
	o = check(FROM_HANDLE(info->buffer), FAKE_BUFFER);
	if (o)
		out->memoryRequirements = (VkMemoryRequirements){
			.size = needs_of(o),
			.alignment = used->granularity,
			.memoryTypeBits = used->buffer_types,
		};
	if (dedicated)
		dedicated->prefersDedicatedAllocation = used->prefers_dedicated;
	end();
}

static VkResult GetMemoryFdPropertiesKHR(VkDevice device,
					 VkExternalMemoryHandleTypeFlagBits type,
					 int fd, VkMemoryFdPropertiesKHR *out)
{
	BEGIN("vkGetMemoryFdPropertiesKHR")
	if (fcntl(fd, F_GETFD) < 0)
		wrong("vkGetMemoryFdPropertiesKHR: the fd is not open");
	out->memoryTypeBits = used->fd_types;
	return end();
}

/* VUID-VkMemoryDedicatedAllocateInfo-image-02964, -buffer-02965 */
static void check_dedicated(const VkMemoryDedicatedAllocateInfo *info,
			    uint64_t bytes)
{
	const struct item *image = FROM_HANDLE(info->image);
	const struct item *buffer = FROM_HANDLE(info->buffer);

	fake.dedicated = true;
	if (bytes != (image ? image->size : needs_of(buffer)))
		wrong("vkAllocateMemory: not the size of a dedicated resource");
}

/* Memory with the bytes of an fd, which is closed. */
static int copy_of(int fd)
{
	off_t bytes = lseek(fd, 0, SEEK_END);
	int copy = memory_fd("a copy", bytes);
	void *from = map_fd(fd, bytes, PROT_READ);

	if (!from || pwrite(copy, from, bytes, 0) != bytes)
		wrong("vkAllocateMemory: a copy of what cannot be read");
	if (from)
		munmap(from, bytes);
	close(fd);
	return copy;
}

static VkResult AllocateMemory(VkDevice device,
			       const VkMemoryAllocateInfo *info,
			       const VkAllocationCallbacks *alloc,
			       VkDeviceMemory *out)
{
	const VkBaseInStructure *s = info->pNext;
	VkExternalMemoryHandleTypeFlags handles =
		VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;
	static struct item *last;
	bool exportable = false, import = false;
	struct item *o;
	int fd = -1;

	BEGIN("vkAllocateMemory")
	fake.memory_type = info->memoryTypeIndex;
	fake.dedicated = fake.address_memory = false;
	for (; s; s = s->pNext) {
		if (s->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR) {
			fd = ((const VkImportMemoryFdInfoKHR *)s)->fd;
			import = true;
		}
		if (s->sType == VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO) {
			handles = ((const VkExportMemoryAllocateInfo *)s)->
				  handleTypes;
			fd = memory_fd("shared memory",
				       info->allocationSize - fake.shrinks);
			exportable = handles ==
				VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT ?
				used->memory_out : used->dma_buf_out;
			if (!exportable)
				wrong("vkAllocateMemory: it cannot be shared");
		}
		if (s->sType == VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO)
			check_dedicated((const void *)s, info->allocationSize);
		if (s->sType == VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO)
			fake.address_memory = true;
	}
	look_at_fd(fd);
	/* v3dv_AllocateMemory(), anv_device_import_bo() */
	if (import &&
	    ((used->prefetch && (off_t)((info->allocationSize + used->prefetch + 4095) &
					~4095ull) > lseek(fd, 0, SEEK_END)) ||
	     (used->one_address && last && last->live && last->inode == inode_of(fd) &&
	      last->address != fake.address_memory))) {
		end();
		return VK_ERROR_INVALID_EXTERNAL_HANDLE;
	}
	if (import && used->full_types & 1u << info->memoryTypeIndex) {
		end();
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	}
	if (import && used->apart)
		fd = copy_of(fd);
	o = item_make(FAKE_MEMORY);
	o->address = fake.address_memory;
	last = import ? o : last;
	o->size = info->allocationSize;
	o->handles = handles;
	o->exportable = exportable;
	o->fd = fd;
	o->inode = inode_of(fd);
	*out = TO_HANDLE(VkDeviceMemory, o);
	return end();
}

DESTROYS(FreeMemory, VkDeviceMemory, FAKE_MEMORY)

static VkResult BindBufferMemory(VkDevice device, VkBuffer buffer,
				 VkDeviceMemory memory, VkDeviceSize offset)
{
	struct item *b, *m;

	BEGIN("vkBindBufferMemory")
	b = check(FROM_HANDLE(buffer), FAKE_BUFFER);
	m = check(FROM_HANDLE(memory), FAKE_MEMORY);
	if (b && m && (b->memory || offset || b->size > m->size ||
		       b->handles != m->handles))
		wrong("vkBindBufferMemory: where is the buffer");
	if (b)
		b->memory = m;
	return end();
}

static VkDeviceAddress
GetBufferDeviceAddress(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
	return 0x1000;
}

static VkDeviceAddress
GetBufferDeviceAddressKHR(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
	return 0x2000;
}

/* ---------------------------------------------------------------- names */

static PFN_vkVoidFunction GetDeviceProcAddr(VkDevice device, const char *name);

static const struct function functions[] = {
	FN(CreateInstance), FN(DestroyInstance), FN(EnumeratePhysicalDevices),
	FN(EnumerateDeviceExtensionProperties),
	FN(GetPhysicalDeviceProperties), FN(GetPhysicalDeviceProperties2),
	FN(GetPhysicalDeviceFeatures2), FN(GetPhysicalDeviceMemoryProperties),
	FN(GetPhysicalDeviceQueueFamilyProperties),
	FN(GetPhysicalDeviceExternalBufferProperties),
	FN(GetPhysicalDeviceExternalSemaphoreProperties), FN(CreateDevice),
	FN(GetDeviceProcAddr), FN(DestroyDevice), FN(GetDeviceQueue),
	FN(CreateBuffer), FN(DestroyBuffer), FN(GetBufferMemoryRequirements2),
	FN(GetMemoryFdPropertiesKHR), FN(AllocateMemory), FN(FreeMemory),
	FN(BindBufferMemory), FN(GetBufferDeviceAddress),
	FN(GetBufferDeviceAddressKHR),
	{ NULL, NULL }
};

static PFN_vkVoidFunction find_in(const struct function *f, const char *name)
{
	while (f->name && strcmp(f->name, name))
		f++;
	return f->fn;
}

static PFN_vkVoidFunction find(const char *name)
{
	PFN_vkVoidFunction fn;

	if (fake.without && !strcmp(fake.without, name))
		return NULL;
	fn = find_in(functions, name);
	if (!fn)
		fn = find_in(image_functions, name);
	if (!fn)
		fn = find_in(share_functions, name);
	return fn ? fn : find_in(queue_functions, name);
}

static PFN_vkVoidFunction GetDeviceProcAddr(VkDevice device, const char *name)
{
	return find(name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	if (!strcmp(name, "vkEnumerateInstanceVersion"))
		return fake.loader_version ?
			(PFN_vkVoidFunction)EnumerateInstanceVersion : NULL;
	return find(name);
}

/* Ends an item, also at a reset. */
static void item_end(struct object *o)
{
	if (((struct item *)o)->value)
		timeline_end((struct item *)o);
}

static bool has_vgem(void)
{
	int drm = vgem_open();

	if (drm >= 0)
		close(drm);
	return drm >= 0;
}

/*
 * For programs that do not know of the double: with FAKE_VULKAN=tiled it reads two
 * of Intel's tilings, with `apart` its imports are copies. With FAKE_VULKAN=bridge it
 * is the GPU of CUDA's and of HIP's double, as far as a bridge needs one. Without
 * vgem, or with bridge-event, its SYNC_FDs are eventfds. The kernel would not take
 * those, so it exports none before they are ready; with bridge-plain it does.
 */
static void preset(void)
{
	static const char semaphores[] =
		VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME;
	const char *word = getenv("FAKE_VULKAN");
	struct fake_physical *p = &fake.physical[0];
	const char **names = p->extensions;

	p->apart = word && !strcmp(word, "apart");
	if (!word || (strncmp(word, "bridge", 6) && strcmp(word, "tiled")))
		return;
	while (*names)
		names++;
	if (!strcmp(word, "tiled")) {
		*names = VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME;
		p->modifiers[1].modifier = 0x0100000000000001ull;
		p->modifiers[2] = (struct fake_modifier){
			.modifier = 0x0100000000000004ull,
			.compression = 1,
		};
		p->nmodifiers = 3;
		return;
	}
	names[0] = semaphores;
	names[1] = VK_EXT_PCI_BUS_INFO_EXTENSION_NAME;
	p->pci = 1;
	p->dma_buf_out = true;
	p->uuid = 0xc0;
	p->sync_fd_in = p->sync_fd_out = true;
	p->timeline = p->timeline_out = p->memory_out = true;
	p->queues = 16;
	fake.threaded = true;
	fake.sync_files = !strcmp(word, "bridge") && has_vgem();
	fake.export_blocks = fake.sync_files || !strcmp(word, "bridge-plain") ? 0 : UINT_MAX;
}

EXPORT struct fake_vulkan *fake_vulkan(bool reset);
EXPORT struct fake_vulkan *fake_vulkan(bool reset)
{
	if (!reset)
		return &fake;
	for (unsigned int i = 0; i < fake.pending; i++) {
		if (submissions[i].wait >= 0)
			close(submissions[i].wait);
		if (submissions[i].tell.fd >= 0)
			close(submissions[i].tell.fd);
	}
	for (int kind = 0; kind < FAKE_KINDS; kind++)
		destroy_all(kind, NULL, item_end);
	objects_free();
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
	preset();
	return &fake;
}

__attribute__((constructor)) static void loaded(void)
{
	if (getenv("FAKE_VULKAN"))
		fake_vulkan(true);
}
