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
#define MAX_DEVICES 64

/* ---------------------------------------------------------------- queries */

static void get_string(const struct opencl_api *cl, const struct opencl_target *t,
		       cl_platform_info of_platform, cl_device_info of_device,
		       char *text, size_t size)
{
	cl_int result = of_platform ?
		OPENCL_RESULT(cl, GetPlatformInfo, t->platform, of_platform, size,
			      text, NULL) :
		OPENCL_RESULT(cl, GetDeviceInfo, t->device, of_device, size, text,
			      NULL);

	if (result)
		snprintf(text, size, "?");
}

static uint64_t get_number(const struct opencl_api *cl,
			   const struct opencl_target *t, cl_device_info what,
			   size_t size)
{
	union {
		cl_uint u;
		cl_ulong ul;
	} value = { .ul = 0 };

	if (OPENCL_RESULT(cl, GetDeviceInfo, t->device, what, size, &value, NULL))
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
static bool has_type(const struct opencl_api *cl, const struct opencl_target *t,
		     cl_device_info list, cl_uint type)
{
	cl_uint types[16];
	size_t bytes = 0;

	if (OPENCL_RESULT(cl, GetDeviceInfo, t->device, list, sizeof(types), types,
			  &bytes))
		return false;
	for (size_t i = 0; i < bytes / sizeof(types[0]) && i < ARRAY_SIZE(types); i++)
		if (types[i] == type)
			return true;
	return false;
}

/* ---------------------------------------------------------------- targets */

static void find_imports(const struct opencl_api *cl, struct opencl_target *t,
			 const char *extensions)
{
	/* Intel's driver shows the type, and not the extension of this type. */
	if (cl->CreateBufferWithProperties &&
	    has_type(cl, t, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR,
		     CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR)) {
		t->imports = OPENCL_IMPORTS_KHR;
	} else if (has_extension(extensions, "cl_arm_import_memory_dma_buf")) {
		t->imports = OPENCL_IMPORTS_ARM;
	} else if (has_extension(extensions, "cl_qcom_dmabuf_host_ptr")) {
		t->imports = OPENCL_IMPORTS_QCOM;
		t->page = get_number(cl, t, CL_DEVICE_PAGE_SIZE_QCOM,
				     sizeof(cl_uint));
		if (!t->page)
			t->page = 4096;
		t->padding = get_number(cl, t,
					CL_DEVICE_EXT_MEM_PADDING_IN_BYTES_QCOM,
					sizeof(size_t));
	}
	if (!has_extension(extensions, "cl_khr_external_semaphore_sync_fd"))
		return;
	t->takes_fences = has_type(cl, t,
				   CL_DEVICE_SEMAPHORE_IMPORT_HANDLE_TYPES_KHR,
				   CL_SEMAPHORE_HANDLE_SYNC_FD_KHR);
	t->gives_fences = has_type(cl, t,
				   CL_DEVICE_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR,
				   CL_SEMAPHORE_HANDLE_SYNC_FD_KHR);
}

static void find_place(const struct opencl_api *cl, struct opencl_target *t,
		       const char *extensions)
{
	cl_device_pci_bus_info_khr pci;

	if (has_extension(extensions, "cl_khr_device_uuid") &&
	    OPENCL_RESULT(cl, GetDeviceInfo, t->device, CL_DEVICE_UUID_KHR,
			  sizeof(t->info.uuid), t->info.uuid, NULL))
		memset(t->info.uuid, 0, sizeof(t->info.uuid));
	if (has_extension(extensions, "cl_khr_pci_bus_info") &&
	    !OPENCL_RESULT(cl, GetDeviceInfo, t->device,
			   CL_DEVICE_PCI_BUS_INFO_KHR, sizeof(pci), &pci, NULL))
		t->place.pci = PCI_ADDRESS(pci.pci_domain, pci.pci_bus,
					   pci.pci_device, pci.pci_function);
}

static uint32_t power_of_two(uint64_t n, uint32_t least)
{
	while (least < n && least < 1 << 16)
		least <<= 1;
	return least;
}

static void find_info(const struct opencl_api *cl, struct opencl_target *t,
		      unsigned int n)
{
	struct dlbuf_device_info *info = &t->info;
	char version[56], platform[56], name[64];

	get_string(cl, t, CL_PLATFORM_NAME, 0, platform, sizeof(platform));
	get_string(cl, t, 0, CL_DEVICE_NAME, name, sizeof(name));
	snprintf(info->description, sizeof(info->description), "%s: %s", platform,
		 name);
	get_string(cl, t, 0, CL_DEVICE_VERSION, platform, sizeof(platform));
	get_string(cl, t, 0, CL_DRIVER_VERSION, version, sizeof(version));
	snprintf(info->driver, sizeof(info->driver), "%s, %s", platform, version);
	snprintf(info->name, sizeof(info->name), "opencl:%u", n);
	t->base_align = get_number(cl, t, CL_DEVICE_MEM_BASE_ADDR_ALIGN,
				   sizeof(cl_uint)) / 8;
	if (!t->base_align)
		t->base_align = 1;
	t->pitch_pixels = get_number(cl, t, CL_DEVICE_IMAGE_PITCH_ALIGNMENT,
				     sizeof(cl_uint));
	info->offset_align = power_of_two(t->base_align, 64);
	/* For pixels of 4 bytes. */
	info->pitch_align = power_of_two(t->pitch_pixels * 4, 64);
	/* A stream waits by a user event at least. */
	info->acquire = DLBUF_SYNC_FENCE;
	info->release = t->gives_fences ? DLBUF_SYNC_FENCE : DLBUF_SYNC_EVENT;
}

static int find_extensions(const struct opencl_api *cl, struct opencl_target *t)
{
	size_t bytes = 0;
	char *list;
	int ret;

	ret = OPENCL_CALL(cl, GetDeviceInfo, t->device, CL_DEVICE_EXTENSIONS, 0,
			  NULL, &bytes);
	if (ret)
		return ret;
	list = sys_calloc(1, bytes + 1);
	if (!list)
		return -ENOMEM;
	ret = OPENCL_CALL(cl, GetDeviceInfo, t->device, CL_DEVICE_EXTENSIONS,
			  bytes, list, NULL);
	if (!ret) {
		find_imports(cl, t, list);
		find_place(cl, t, list);
	}
	free(list);
	return ret;
}

/* Walks over all platforms. *total: how many devices there are before the n-th. */
static int walk(const struct opencl_api *cl, unsigned int n, unsigned int *total,
		struct opencl_target *t)
{
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_device_id devices[MAX_DEVICES];
	cl_uint nplatforms = 0, ndevices;
	int ret;

	*total = 0;
	ret = OPENCL_CALL(cl, GetPlatformIDs, MAX_PLATFORMS, platforms,
			  &nplatforms);
	for (cl_uint i = 0; !ret && i < nplatforms && i < MAX_PLATFORMS; i++) {
		cl_int result = OPENCL_RESULT(cl, GetDeviceIDs, platforms[i],
					      CL_DEVICE_TYPE_ALL, MAX_DEVICES,
					      devices, &ndevices);

		/* A platform without devices is no failure, and a broken one not ours. */
		if (result)
			continue;
		ndevices = ndevices < MAX_DEVICES ? ndevices : MAX_DEVICES;
		if (t && n - *total < ndevices) {
			t->platform = platforms[i];
			t->device = devices[n - *total];
			return 0;
		}
		*total += ndevices;
	}
	return ret;
}

int opencl_count(const struct opencl_api *cl, unsigned int *n)
{
	int ret = walk(cl, 0, n, NULL);

	return ret || *n ? ret : fail(-ENODEV, "opencl: the drivers have no device");
}

int opencl_probe(const struct opencl_api *cl, unsigned int n,
		 struct opencl_target *t)
{
	unsigned int total;
	int ret;

	*t = (struct opencl_target){
		.info = {
			.size = sizeof(t->info),
			.backend = "opencl",
			.device = { kDLOpenCL, n },
		},
	};
	ret = walk(cl, n, &total, t);
	if (!ret && !t->device)
		ret = fail(-ENODEV, "opencl: there is no device %u", n);
	if (!ret)
		ret = OPENCL_CALL(cl, GetDeviceInfo, t->device, CL_DEVICE_TYPE,
				  sizeof(t->type), &t->type, NULL);
	if (!ret)
		ret = find_extensions(cl, t);
	if (ret)
		return ret;
	t->svm = get_number(cl, t, CL_DEVICE_SVM_CAPABILITIES,
			    sizeof(cl_device_svm_capabilities)) &
		 CL_DEVICE_SVM_FINE_GRAIN_SYSTEM;
	find_info(cl, t, n);
	return 0;
}

/* ---------------------------------------------------------------- devices */

static void load_extensions(struct opencl_device *dev)
{
#define X(name) dev->ext.name = (__typeof__(dev->ext.name))			\
	dev->cl.GetExtensionFunctionAddressForPlatform(dev->target.platform, \
						       "cl" #name);
	OPENCL_EXTENSIONS(X)
#undef X
	/* A driver may name an extension and lack its functions. */
	if (!dev->ext.EnqueueAcquireExternalMemObjectsKHR ||
	    !dev->ext.EnqueueReleaseExternalMemObjectsKHR)
		if (dev->target.imports == OPENCL_IMPORTS_KHR)
			dev->target.imports = OPENCL_IMPORTS_NONE;
	if (!dev->ext.ImportMemoryARM)
		if (dev->target.imports == OPENCL_IMPORTS_ARM)
			dev->target.imports = OPENCL_IMPORTS_NONE;
	if (!dev->ext.CreateSemaphoreWithPropertiesKHR ||
	    !dev->ext.ReleaseSemaphoreKHR)
		dev->target.takes_fences = dev->target.gives_fences = false;
}

static int fill(struct opencl_device *dev, cl_command_queue stream)
{
	int ret = OPENCL_CALL(&dev->cl, GetContextInfo, dev->context,
			      CL_CONTEXT_NUM_DEVICES, sizeof(dev->ndevices),
			      &dev->ndevices, NULL);

	if (!ret)
		ret = OPENCL_NEW(&dev->cl, &dev->own, CreateCommandQueue,
				 dev->context, dev->target.device, 0);
	if (!ret && stream)
		ret = OPENCL_CALL(&dev->cl, RetainCommandQueue, stream);
	if (ret)
		return ret;
	dev->stream = stream ? stream : dev->own;
	load_extensions(dev);
	dev->queue.opaque = true;
	dev->queue.is_cpu = dev->target.type & CL_DEVICE_TYPE_CPU;
	dev->queue.memfds_only = !dev->queue.is_cpu;
	dev->queue.takes_fences = dev->target.takes_fences &&
				  dev->ext.EnqueueWaitSemaphoresKHR;
	dev->queue.gives_fences = dev->target.gives_fences &&
				  dev->ext.EnqueueSignalSemaphoresKHR &&
				  dev->ext.GetSemaphoreHandleForTypeKHR;
	dev->queue.registers = opencl_shares_host_memory(dev);
	dev->queue.registers_read_only = dev->queue.registers;
	dev->queue.base.slack = dev->target.imports == OPENCL_IMPORTS_QCOM &&
				dev->target.padding ? dev->target.page : 0;
	queue_open_bridge(&dev->queue, NULL, "OpenCL has no bridge");
	return 0;
}

int opencl_device_create(const struct opencl_api *cl,
			 const struct opencl_target *target,
			 cl_context context, cl_command_queue stream,
			 struct opencl_device **out)
{
	struct opencl_device *dev = sys_calloc(1, sizeof(*dev));
	int ret;

	if (!dev) {
		cl->ReleaseContext(context);
		return -ENOMEM;
	}
	dev->cl = *cl;
	dev->target = *target;
	dev->context = context;
	dev->queue.base.dl.device_id = target->info.device.device_id;
	memcpy(dev->queue.base.name, target->info.name, sizeof(target->info.name));
	queue_init(&dev->queue, &opencl_ops);
	ret = fill(dev, stream);
	if (ret) {
		queue_unref(&dev->queue);
		return ret;
	}
	*out = dev;
	return 0;
}

/* "P.D" is device D of platform P, as clinfo counts. */
static const char *plain_selector(const struct opencl_api *cl, const char *text,
				  char *room, size_t size)
{
	unsigned int platform, device, n = 0;
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_uint nplatforms = 0, ndevices;
	int end = 0;

	if (sscanf(text, "%3u.%3u%n", &platform, &device, &end) != 2 || text[end] ||
	    OPENCL_RESULT(cl, GetPlatformIDs, MAX_PLATFORMS, platforms,
			  &nplatforms) || platform >= nplatforms)
		return text;
	for (unsigned int i = 0; i <= platform; i++) {
		if (OPENCL_RESULT(cl, GetDeviceIDs, platforms[i],
				  CL_DEVICE_TYPE_ALL, 0, NULL, &ndevices))
			ndevices = 0;
		if (i == platform && device < ndevices) {
			snprintf(room, size, "%u", n + device);
			return room;
		}
		n += ndevices;
	}
	return text;
}

static int select_target(const struct opencl_api *cl, const char *text,
			 struct opencl_target *t)
{
	struct selector s;
	unsigned int n;
	char room[16];
	int ret;

	ret = opencl_count(cl, &n);
	if (!ret)
		ret = selector_begin(&s, "opencl", plain_selector(cl, text, room,
								  sizeof(room)),
				     n);
	if (ret)
		return ret;
	while (selector_next(&s))
		if (selector_takes(&s, opencl_probe(cl, s.at, t), &t->info,
				   &t->place))
			return 0;
	return selector_none(&s);
}

static int opencl_open(const char *selector, const struct dlbuf_device_opts *opts,
		       struct dlbuf_device **out)
{
	struct opencl_device *dev;
	struct opencl_target t;
	struct opencl_api cl;
	cl_context context;
	int ret;

	(void)opts;
	ret = opencl_load(&cl);
	if (!ret)
		ret = select_target(&cl, selector, &t);
	if (!ret)
		ret = OPENCL_NEW(&cl, &context, CreateContext,
				 ((cl_context_properties[]){
					CL_CONTEXT_PLATFORM,
					(cl_context_properties)t.platform, 0 }),
				 1, &t.device, NULL, NULL);
	if (!ret)
		ret = opencl_device_create(&cl, &t, context, NULL, &dev);
	if (!ret)
		*out = &dev->queue.base;
	return ret;
}

static int opencl_each(const struct backend *backend, dlbuf_device_fn fn,
		       void *data)
{
	struct opencl_target t;
	struct opencl_api cl;
	unsigned int n = 0;
	int ret;

	(void)backend;
	ret = opencl_load(&cl);
	if (!ret)
		ret = opencl_count(&cl, &n);
	for (unsigned int i = 0; !ret && i < n; i++) {
		ret = opencl_probe(&cl, i, &t);
		if (!ret)
			ret = fn(&t.info, data);
	}
	return ret;
}

static void opencl_describe(struct dlbuf_device *dev,
			    struct dlbuf_device_info *info)
{
	queue_describe(dev, &opencl_device_of(dev)->target.info, info);
}

const struct backend opencl_backend = {
	.name = "opencl",
	.type = kDLOpenCL,
	.paths = PATHS_SHARED | PATH_BIT(DLBUF_PATH_COPY),
	.import_size = sizeof(struct queue_import),
	.each = opencl_each,
	.open = opencl_open,
	.close = queue_close,
	.describe = opencl_describe,
	.import = queue_import,
	.unimport = queue_unimport,
	.stream = queue_stream,
	.acquire = queue_acquire,
	.release = queue_release,
	.wait = queue_wait,
	.pending = queue_pending,
	.drain = queue_drain,
};
