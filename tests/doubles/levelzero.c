// SPDX-License-Identifier: MIT
/* See levelzero.h: drivers, devices, contexts, the loader's queries, the controls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/words.h"
#include "levelzero_objects.h"

struct fake_levelzero fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "levelzero";

static int the_driver;	/* its address is the handle */
static struct device tiles[2][2];
struct device devices[2];

/* ---------------------------------------------------------------- devices */

ze_result_t zeInit(ze_init_flags_t flags)
{
	BEGIN(NEEDS_DEVICE)
	if (flags & ~ZE_INIT_FLAG_GPU_ONLY)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "flags"));
	if (!fake.ndevices)
		return end(ZE_RESULT_ERROR_UNINITIALIZED);
	initialised = true;
	return end(ZE_RESULT_SUCCESS);
}

/* As the API lists: *n is the number of objects, at most the requested number. */
static bool list_some(uint32_t *n, uint32_t all, const void *list)
{
	if (!*n || *n > all)
		*n = all;
	return list;
}

ze_result_t zeDriverGet(uint32_t *n, ze_driver_handle_t *drivers)
{
	BEGIN(NEEDS_ALL)
	if (list_some(n, 1, drivers))
		*drivers = (ze_driver_handle_t)&the_driver;
	return end(ZE_RESULT_SUCCESS);
}

static ze_result_t check_driver(ze_driver_handle_t handle)
{
	return (void *)handle == &the_driver ? ZE_RESULT_SUCCESS :
	       refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, "no driver");
}

ze_result_t zeDriverGetApiVersion(ze_driver_handle_t handle,
				  ze_api_version_t *version)
{
	BEGIN(NEEDS_ALL)
	result = check_driver(handle);
	*version = fake.version;
	return end(result);
}

/* The loaders since 1.18 ask for it. */
static ze_result_t driver_properties(ze_driver_handle_t handle,
				     ze_driver_properties_t *props)
{
	memset(&props->uuid, 0xd0, sizeof(props->uuid));
	props->driverVersion = 1;
	return check_driver(handle);
}

static ze_result_t driver_extensions(ze_driver_handle_t handle, uint32_t *n,
				     ze_driver_extension_properties_t *props)
{
	*n = 0;
	return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t handle,
						const char *name, void **fn)
{
	BEGIN(NEEDS_ALL)
	result = check_driver(handle);
	*fn = NULL;
	if (!result && fake.no_zex)
		result = ZE_RESULT_ERROR_INVALID_ARGUMENT;
	else if (!strcmp(name, "zexDriverImportExternalPointer"))
		*fn = (void *)zexDriverImportExternalPointer;
	else if (!strcmp(name, "zexDriverReleaseImportedPointer"))
		*fn = (void *)zexDriverReleaseImportedPointer;
	return end(result);
}

struct device *device_of(ze_device_handle_t handle)
{
	for (unsigned int i = 0; i < fake.ndevices; i++) {
		if ((void *)handle == &devices[i])
			return &devices[i];
		for (int k = 0; fake.tiles && k < 2; k++)
			if ((void *)handle == &tiles[i][k])
				return &tiles[i][k];
	}
	return NULL;
}

#define DEVICE(var, handle)						\
	struct device *var = device_of(handle);				\
									\
	if (!var)							\
		return end(refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE,	\
				  "no device"));

ze_result_t zeDeviceGet(ze_driver_handle_t handle, uint32_t *n,
			ze_device_handle_t *list)
{
	BEGIN(NEEDS_ALL)
	result = check_driver(handle);
	if (!result && list_some(n, fake.ndevices, list))
		for (uint32_t i = 0; i < *n; i++)
			list[i] = (ze_device_handle_t)&devices[i];
	return end(result);
}

ze_result_t zeDeviceGetSubDevices(ze_device_handle_t handle, uint32_t *n,
				  ze_device_handle_t *list)
{
	BEGIN(NEEDS_ALL)
	DEVICE(d, handle)
	if (list_some(n, d->parts ? 2 : 0, list))
		for (uint32_t i = 0; i < *n; i++)
			list[i] = (ze_device_handle_t)&d->parts[i];
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeDeviceGetProperties(ze_device_handle_t handle,
				  ze_device_properties_t *props)
{
	BEGIN(NEEDS_ALL)
	DEVICE(d, handle)
	if (props->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "stype"));
	props->type = ZE_DEVICE_TYPE_GPU;
	props->flags = fake.integrated ? ZE_DEVICE_PROPERTY_FLAG_INTEGRATED : 0;
	memset(&props->uuid, 0, sizeof(props->uuid));
	props->uuid.id[0] = 0xe0 + d->number;
	snprintf(props->name, sizeof(props->name), "Fake %s%u",
		 fake.integrated ? "iGPU " : "Arc ", d->number);
	return end(ZE_RESULT_SUCCESS);
}

/* The first group only copies. Intel's 26.27 lists it behind the one that computes. */
ze_result_t
zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t handle, uint32_t *n,
				       ze_command_queue_group_properties_t *list)
{
	BEGIN(NEEDS_ALL)
	DEVICE(d, handle)
	(void)d;
	if (list_some(n, 2, list))
		for (uint32_t i = 0; i < *n; i++) {
			list[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
				(i ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE : 0);
			list[i].numQueues = 1;
		}
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeDevicePciGetPropertiesExt(ze_device_handle_t handle,
					ze_pci_ext_properties_t *pci)
{
	BEGIN(NEEDS_ALL)
	DEVICE(d, handle)
	if (fake.no_pci)
		return end(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
	pci->address = (ze_pci_address_ext_t){ .bus = 1 + d->number };
	return end(ZE_RESULT_SUCCESS);
}

/* ---------------------------------------------------------------- contexts */

ze_result_t zeContextCreate(ze_driver_handle_t handle,
			    const ze_context_desc_t *desc,
			    ze_context_handle_t *out)
{
	BEGIN(NEEDS_ALL)
	result = check_driver(handle);
	if (desc->stype != ZE_STRUCTURE_TYPE_CONTEXT_DESC || desc->flags)
		result = refuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "desc");
	if (!result)
		*out = make(FAKE_CONTEXT, sizeof(struct context), NULL, false);
	return end(result);
}

/* The last first: events go before their pool. */
static void (*const destroy[FAKE_KINDS])(struct object *o) = {
	[FAKE_DEVICE_MEMORY] = range_free,
	[FAKE_HOST_MEMORY] = range_free,
	[FAKE_LIST] = list_free,
	[FAKE_EVENT_POOL] = unmake,
	[FAKE_EVENT] = event_free,
	[FAKE_MODULE] = unmake,
	[FAKE_BUILD_LOG] = unmake,
	[FAKE_KERNEL] = kernel_free,
};

const struct rules rules = {
	.in_function = ZE_RESULT_ERROR_INVALID_ARGUMENT,
	.in_child = ZE_RESULT_ERROR_UNINITIALIZED,
	.before_init = ZE_RESULT_ERROR_UNINITIALIZED,
	.nkinds = FAKE_KINDS,
	.destroy = destroy,
};

ze_result_t zeContextDestroy(ze_context_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	if (destroy_all_of(ctx))
		wrong("%s: the context still has objects", call);
	unmake(&ctx->object);
	return end(result);
}

ze_result_t zeContextGetStatus(ze_context_handle_t handle)
{
	BEGIN(NEEDS_ALL)
	if (!object_of(handle, FAKE_CONTEXT))
		return end(ZE_RESULT_ERROR_INVALID_ARGUMENT);
	return end(ZE_RESULT_SUCCESS);
}

/* ---------------------------------------------------------------- the loader */

#define TABLE(group, type, ...)						\
	EXPORT ze_result_t zeGet##group##ProcAddrTable(ze_api_version_t version, \
						       type *table)	\
	{								\
		if (ZE_MAJOR_VERSION(version) != 1)			\
			return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;	\
		__VA_ARGS__						\
		return ZE_RESULT_SUCCESS;				\
	}
#define HAS(name, fn) table->pfn##name = fn;

TABLE(Global, ze_global_dditable_t, HAS(Init, zeInit))
TABLE(Driver, ze_driver_dditable_t,
      HAS(Get, zeDriverGet)
      HAS(GetApiVersion, zeDriverGetApiVersion)
      HAS(GetExtensionFunctionAddress, zeDriverGetExtensionFunctionAddress)
      HAS(GetProperties, driver_properties)
      HAS(GetExtensionProperties, driver_extensions))
TABLE(Device, ze_device_dditable_t,
      HAS(Get, zeDeviceGet)
      HAS(GetSubDevices, zeDeviceGetSubDevices)
      HAS(GetProperties, zeDeviceGetProperties)
      HAS(GetCommandQueueGroupProperties, zeDeviceGetCommandQueueGroupProperties)
      HAS(PciGetPropertiesExt, zeDevicePciGetPropertiesExt))
TABLE(Context, ze_context_dditable_t,
      HAS(Create, zeContextCreate)
      HAS(Destroy, zeContextDestroy)
      HAS(GetStatus, zeContextGetStatus))
TABLE(Mem, ze_mem_dditable_t,
      HAS(AllocDevice, zeMemAllocDevice)
      HAS(AllocHost, zeMemAllocHost)
      HAS(Free, zeMemFree)
      HAS(GetAllocProperties, zeMemGetAllocProperties)
      HAS(GetAddressRange, zeMemGetAddressRange))
TABLE(CommandList, ze_command_list_dditable_t,
      HAS(CreateImmediate, zeCommandListCreateImmediate)
      HAS(Destroy, zeCommandListDestroy)
      HAS(AppendBarrier, zeCommandListAppendBarrier)
      HAS(AppendMemoryCopy, zeCommandListAppendMemoryCopy)
      HAS(AppendMemoryFill, zeCommandListAppendMemoryFill)
      HAS(AppendLaunchKernel, zeCommandListAppendLaunchKernel))
TABLE(Module, ze_module_dditable_t,
      HAS(Create, zeModuleCreate)
      HAS(Destroy, zeModuleDestroy))
TABLE(ModuleBuildLog, ze_module_build_log_dditable_t,
      HAS(Destroy, zeModuleBuildLogDestroy)
      HAS(GetString, zeModuleBuildLogGetString))
TABLE(Kernel, ze_kernel_dditable_t,
      HAS(Create, zeKernelCreate)
      HAS(Destroy, zeKernelDestroy)
      HAS(SetGroupSize, zeKernelSetGroupSize)
      HAS(SetArgumentValue, zeKernelSetArgumentValue))
TABLE(EventPool, ze_event_pool_dditable_t,
      HAS(Create, zeEventPoolCreate)
      HAS(Destroy, zeEventPoolDestroy))
TABLE(Event, ze_event_dditable_t,
      HAS(Create, zeEventCreate)
      HAS(Destroy, zeEventDestroy)
      HAS(HostSignal, zeEventHostSignal)
      HAS(HostSynchronize, zeEventHostSynchronize)
      HAS(QueryStatus, zeEventQueryStatus)
      HAS(HostReset, zeEventHostReset))

/* Old loaders want all groups, also those of tools and system management. */
#define EMPTY(prefix, group)						\
	EXPORT ze_result_t prefix##Get##group##ProcAddrTable(		\
		ze_api_version_t version, void *table);			\
	EXPORT ze_result_t prefix##Get##group##ProcAddrTable(		\
		ze_api_version_t version, void *table)			\
	{								\
		return ZE_RESULT_SUCCESS;				\
	}
/* The tables of "ze", which ze_ddi.h declares. */
#define NOTHING(group, table) TABLE(group, table)
NOTHING(CommandQueue, ze_command_queue_dditable_t)
NOTHING(DeviceExp, ze_device_exp_dditable_t) NOTHING(EventExp, ze_event_exp_dditable_t)
NOTHING(FabricEdgeExp, ze_fabric_edge_exp_dditable_t)
NOTHING(FabricVertexExp, ze_fabric_vertex_exp_dditable_t)
NOTHING(Fence, ze_fence_dditable_t) NOTHING(Image, ze_image_dditable_t)
NOTHING(ImageExp, ze_image_exp_dditable_t)
NOTHING(KernelExp, ze_kernel_exp_dditable_t)
NOTHING(PhysicalMem, ze_physical_mem_dditable_t) NOTHING(Sampler, ze_sampler_dditable_t)
NOTHING(VirtualMem, ze_virtual_mem_dditable_t)
EMPTY(zet, CommandList) EMPTY(zet, Context) EMPTY(zet, Debug) EMPTY(zet, Device)
EMPTY(zet, Kernel) EMPTY(zet, Metric) EMPTY(zet, MetricGroup)
EMPTY(zet, MetricGroupExp) EMPTY(zet, MetricQuery) EMPTY(zet, MetricQueryPool)
EMPTY(zet, MetricStreamer) EMPTY(zet, Module) EMPTY(zet, TracerExp)
EMPTY(zes, Device) EMPTY(zes, Diagnostics) EMPTY(zes, Driver) EMPTY(zes, Engine)
EMPTY(zes, FabricPort) EMPTY(zes, Fan) EMPTY(zes, Firmware)
EMPTY(zes, Frequency) EMPTY(zes, Led) EMPTY(zes, Memory)
EMPTY(zes, PerformanceFactor) EMPTY(zes, Power) EMPTY(zes, Psu) EMPTY(zes, Ras)
EMPTY(zes, Scheduler) EMPTY(zes, Standby) EMPTY(zes, Temperature)

/* ---------------------------------------------------------------- controls */

#define SWITCH(word, field) { word, .sets = { &fake.field } }
static const struct word words[] = {
	SWITCH("integrated", integrated),
	SWITCH("tiles", tiles),
	SWITCH("noimport", no_import),
	SWITCH("wrongpages", wrong_pages),
	SWITCH("nohost", no_host),
	SWITCH("nohostsync", no_host_sync),
	SWITCH("nozex", no_zex),
	SWITCH("nosysmem", no_sysmem),
	SWITCH("ignoresysmem", ignore_sysmem),
	SWITCH("keepsfd", keeps_fd),
	SWITCH("pools", pools),
	SWITCH("noexport", no_export),
	SWITCH("memfds", memfds),
	SWITCH("nopci", no_pci),
	SWITCH("strict", strict),
	{ "two", .number = &fake.ndevices, .value = 2 },
	{ "none", .number = &fake.ndevices, .value = 0 },
};

static void preset(const char *text)
{
	words_apply(text, words, ARRAY_SIZE(words), NULL);
	for (unsigned int i = 0; i < 2; i++)
		devices[i].parts = fake.tiles ? tiles[i] : NULL;
}

EXPORT struct fake_levelzero *fake_levelzero(bool reset);
EXPORT struct fake_levelzero *fake_levelzero(bool reset)
{
	if (!reset)
		return &fake;
	clear_objects();
	fake = (struct fake_levelzero){
		.version = ZE_API_VERSION_1_4,
		.ndevices = 1,
		.result = ZE_RESULT_ERROR_UNKNOWN,
		.lose = lose,
	};
	fake.preset = preset;
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < 2; k++)
			devices[i].number = tiles[i][k].number = i;
	preset(getenv("FAKE_LEVELZERO"));
	return &fake;
}

LOADED(fake_levelzero, clear_objects)
