// SPDX-License-Identifier: MIT
/*
 * OpenCL: finds and opens devices. An import takes the first path that the driver
 * accepts. Order, copies and the end of work are in lib/queue, which calls ops.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"

#define MAX_PLATFORMS 32

int opencl_count(struct queue_device *base, unsigned int *n)
{
	struct opencl_device *dev = to_opencl(base);
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_device_id devices[OPENCL_MAX_DEVICES];
	cl_uint nplatforms = 0, more;
	int ret = opencl_load(&dev->cl);

	if (!ret)
		ret = OPENCL_CALL(&dev->cl, GetPlatformIDs, MAX_PLATFORMS,
				  platforms, &nplatforms);
	for (cl_uint p = 0; !ret && p < nplatforms && p < MAX_PLATFORMS; p++) {
		/* A platform without devices is no failure, and a broken one not ours. */
		if (OPENCL_RESULT(&dev->cl, GetDeviceIDs, platforms[p],
				  CL_DEVICE_TYPE_ALL, OPENCL_MAX_DEVICES, devices,
				  &more))
			continue;
		for (cl_uint i = 0; i < more && *n < OPENCL_MAX_DEVICES; i++)
			dev->list[(*n)++] = (struct opencl_place){
				platforms[p], devices[i], p, i
			};
	}
	return ret;
}

/* ---------------------------------------------------------------- queries */

static void get_string(struct opencl_device *dev, cl_device_info what, char *text,
		       size_t size)
{
	if (OPENCL_RESULT(&dev->cl, GetDeviceInfo, dev->device, what, size, text,
			  NULL))
		snprintf(text, size, "?");
}

static uint64_t get_number(struct opencl_device *dev, cl_device_info what,
			   size_t size)
{
	union {
		cl_uint u;
		cl_ulong ul;
	} value = { .ul = 0 };

	if (OPENCL_RESULT(&dev->cl, GetDeviceInfo, dev->device, what, size, &value,
			  NULL))
		return 0;
	return size == sizeof(value.u) ? value.u : value.ul;
}

static bool has_extension(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (; *list; list += strcspn(list, " ")) {
		list += strspn(list, " ");
		if (!strncmp(list, name, n) && (!list[n] || list[n] == ' '))
			return true;
	}
	return false;
}

/* Whether a list of handle types, which a driver without the extension lacks, has one. */
static bool has_type(struct opencl_device *dev, cl_device_info list, cl_uint type)
{
	cl_uint types[16];
	size_t bytes = 0;

	if (OPENCL_RESULT(&dev->cl, GetDeviceInfo, dev->device, list, sizeof(types),
			  types, &bytes))
		return false;
	for (size_t i = 0; i < bytes / sizeof(types[0]) && i < ARRAY_SIZE(types); i++)
		if (types[i] == type)
			return true;
	return false;
}

/* ---------------------------------------------------------------- probe */

static void find_import_types(struct opencl_device *dev, const char *extensions)
{
	bool semaphores = has_extension(extensions,
					"cl_khr_external_semaphore_sync_fd");

	dev->imports = OPENCL_IMPORTS_NONE;
	/* First: Adreno's import by Khronos' extension was seen to share nothing. */
	if (has_extension(extensions, "cl_qcom_dmabuf_host_ptr")) {
		dev->imports = OPENCL_IMPORTS_QCOM;
		dev->page = get_number(dev, CL_DEVICE_PAGE_SIZE_QCOM,
				       sizeof(size_t));
		if (!dev->page)
			dev->page = 4096;
		dev->padding = get_number(dev,
					  CL_DEVICE_EXT_MEM_PADDING_IN_BYTES_QCOM,
					  sizeof(size_t));
	/* Intel's driver shows the type, and not the extension of this type. */
	} else if (dev->cl.CreateBufferWithProperties &&
		   has_type(dev, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR,
			    CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR)) {
		dev->imports = OPENCL_IMPORTS_KHR;
	} else if (has_extension(extensions, "cl_arm_import_memory_dma_buf")) {
		dev->imports = OPENCL_IMPORTS_ARM;
	}
	dev->queue.takes_fences = semaphores &&
		has_type(dev, CL_DEVICE_SEMAPHORE_IMPORT_HANDLE_TYPES_KHR,
			 CL_SEMAPHORE_HANDLE_SYNC_FD_KHR);
	dev->queue.gives_fences = semaphores &&
		has_type(dev, CL_DEVICE_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR,
			 CL_SEMAPHORE_HANDLE_SYNC_FD_KHR);
}

static void find_place(struct opencl_device *dev, const char *extensions)
{
	uint8_t *uuid = dev->queue.info.uuid;
	cl_device_pci_bus_info_khr pci;

	if (has_extension(extensions, "cl_khr_device_uuid") &&
	    OPENCL_RESULT(&dev->cl, GetDeviceInfo, dev->device, CL_DEVICE_UUID_KHR,
			  CL_UUID_SIZE_KHR, uuid, NULL))
		memset(uuid, 0, CL_UUID_SIZE_KHR);
	if (has_extension(extensions, "cl_khr_pci_bus_info") &&
	    !OPENCL_RESULT(&dev->cl, GetDeviceInfo, dev->device,
			   CL_DEVICE_PCI_BUS_INFO_KHR, sizeof(pci), &pci, NULL))
		dev->queue.place.pci = PCI_ADDRESS(pci.pci_domain, pci.pci_bus,
						   pci.pci_device,
						   pci.pci_function);
}

static int find_extensions(struct opencl_device *dev)
{
	size_t bytes = 0;
	char *list;
	int ret;

	ret = OPENCL_CALL(&dev->cl, GetDeviceInfo, dev->device,
			  CL_DEVICE_EXTENSIONS, 0, NULL, &bytes);
	if (ret)
		return ret;
	list = sys_calloc(1, bytes + 1);
	if (!list)
		return -ENOMEM;
	ret = OPENCL_CALL(&dev->cl, GetDeviceInfo, dev->device,
			  CL_DEVICE_EXTENSIONS, bytes, list, NULL);
	if (!ret) {
		find_import_types(dev, list);
		find_place(dev, list);
	}
	free(list);
	return ret;
}

static uint32_t power_of_two(uint64_t n, uint32_t least)
{
	while (least < n && least < 1 << 16)
		least <<= 1;
	return least;
}

int opencl_probe(struct queue_device *base, unsigned int n)
{
	struct opencl_device *dev = to_opencl(base);
	struct dlbuf_device_info *info = &base->info;
	char platform[56], version[56], name[64];
	int ret;

	dev->platform = dev->list[n].platform;
	dev->device = dev->list[n].device;
	snprintf(base->place.alias, sizeof(base->place.alias), "%u.%u",
		 dev->list[n].platform_index, dev->list[n].index);
	ret = OPENCL_CALL(&dev->cl, GetDeviceInfo, dev->device, CL_DEVICE_TYPE,
			  sizeof(dev->type), &dev->type, NULL);
	if (!ret)
		ret = find_extensions(dev);
	if (ret)
		return ret;
	if (OPENCL_RESULT(&dev->cl, GetPlatformInfo, dev->platform,
			  CL_PLATFORM_NAME, sizeof(platform), platform, NULL))
		snprintf(platform, sizeof(platform), "?");
	get_string(dev, CL_DEVICE_NAME, name, sizeof(name));
	snprintf(info->description, sizeof(info->description), "%s: %s", platform,
		 name);
	get_string(dev, CL_DEVICE_VERSION, name, sizeof(name));
	get_string(dev, CL_DRIVER_VERSION, version, sizeof(version));
	snprintf(info->driver, sizeof(info->driver), "%s, %s", name, version);
	info->offset_align = power_of_two(
		get_number(dev, CL_DEVICE_MEM_BASE_ADDR_ALIGN,
			   sizeof(cl_uint)) / 8, 64);
	/* In pixels, of 4 bytes. */
	info->pitch_align = power_of_two(
		get_number(dev, CL_DEVICE_IMAGE_PITCH_ALIGNMENT,
			   sizeof(cl_uint)) * 4, 64);
	if (base->gives_fences)
		info->release = DLBUF_SYNC_FENCE;
	return 0;
}

/* ---------------------------------------------------------------- start */

/* A driver may name an extension and lack its functions. */
static void load_extensions(struct opencl_device *dev)
{
	struct queue_device *base = &dev->queue;
	bool semaphores;

#define X(name) dev->ext.name = (__typeof__(dev->ext.name))			\
	dev->cl.GetExtensionFunctionAddressForPlatform(dev->platform, "cl" #name);
	OPENCL_EXTENSIONS(X)
#undef X
	if (dev->imports == OPENCL_IMPORTS_KHR ?
	    !dev->ext.EnqueueAcquireExternalMemObjectsKHR ||
	    !dev->ext.EnqueueReleaseExternalMemObjectsKHR :
	    dev->imports == OPENCL_IMPORTS_ARM && !dev->ext.ImportMemoryARM)
		dev->imports = OPENCL_IMPORTS_NONE;
	semaphores = dev->ext.CreateSemaphoreWithPropertiesKHR &&
		     dev->ext.ReleaseSemaphoreKHR;
	base->takes_fences &= semaphores && dev->ext.EnqueueWaitSemaphoresKHR;
	base->gives_fences &= semaphores &&
			      dev->ext.EnqueueSignalSemaphoresKHR &&
			      dev->ext.GetSemaphoreHandleForTypeKHR;
}

/* The context and queue of an application get a reference each. */
static int get_context(struct opencl_device *dev)
{
	const cl_context_properties properties[] = {
		CL_CONTEXT_PLATFORM, (cl_context_properties)dev->platform, 0
	};
	cl_command_queue theirs = dev->stream;
	int ret;

	dev->stream = NULL;
	if (!dev->queue.base.wrapped)
		return OPENCL_NEW(&dev->cl, &dev->context, CreateContext,
				  properties, 1, &dev->device, NULL, NULL);
	ret = OPENCL_CALL(&dev->cl, RetainContext, dev->context);
	if (ret)
		dev->context = NULL;
	if (!ret && theirs)
		ret = OPENCL_CALL(&dev->cl, RetainCommandQueue, theirs);
	if (!ret)
		dev->stream = theirs;
	return ret;
}

int opencl_start(struct queue_device *base, uint32_t flags)
{
	struct opencl_device *dev = to_opencl(base);
	int ret = get_context(dev);

	(void)flags;
	if (!ret)
		ret = OPENCL_CALL(&dev->cl, GetContextInfo, dev->context,
				  CL_CONTEXT_NUM_DEVICES, sizeof(dev->ndevices),
				  &dev->ndevices, NULL);
	if (!ret)
		ret = opencl_ops.stream_create(base, (void **)&dev->own);
	if (ret)
		return ret;
	if (!dev->stream)
		dev->stream = dev->own;
	load_extensions(dev);
	base->opaque = true;
	base->is_cpu = dev->type & CL_DEVICE_TYPE_CPU;
	base->memfds_only = !base->is_cpu;
	base->registers = opencl_shares_host_memory(dev);
	base->registers_read_only = base->registers;
	base->base.slack = dev->imports == OPENCL_IMPORTS_QCOM && dev->padding ?
			   dev->page : 0;
	base->no_bridge = "OpenCL has no bridge";
	return 0;
}

QUEUE_BACKEND(opencl,
	.type = kDLOpenCL,
	.paths = PATHS_SHARED | PATH_BIT(DLBUF_PATH_COPY),
	.keep = opencl_keep,
	.drop = opencl_drop,
#ifdef CONFIG_PREPARE_OPENCL
	QUEUE_PROGRAMS
#endif
);
