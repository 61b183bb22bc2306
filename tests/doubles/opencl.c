// SPDX-License-Identifier: MIT
/* See opencl.h: calls, the platform, devices, contexts, and the controls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/words.h"
#include "opencl_objects.h"
#include <CL/cl_icd.h>

struct fake_opencl fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "opencl";

static const cl_icd_dispatch dispatch;
/* The loader keeps them, also over a reset. */
static const struct platform {
	const void *dispatch;
} platform = { &dispatch };
static const struct device devices[] = {
	{ &dispatch, 0 }, { &dispatch, 1 },
};

/* ---------------------------------------------------------------- calls */

void *end_make(void *object, cl_int result, cl_int *errcode)
{
	pthread_mutex_unlock(&lock);
	if (errcode)
		*errcode = result;
	return result ? NULL : object;
}

cl_int give(const void *value, size_t bytes, size_t size, void *out,
	    size_t *size_ret)
{
	if (size_ret)
		*size_ret = bytes;
	if (!out)
		return CL_SUCCESS;
	if (size < bytes)
		return refuse(CL_INVALID_VALUE, "no room for the value");
	memcpy(out, value, bytes);
	return CL_SUCCESS;
}

static cl_int give_text(const char *text, size_t size, void *out,
			size_t *size_ret)
{
	return give(text, strlen(text) + 1, size, out, size_ret);
}

/* ---------------------------------------------------------------- objects */

void *make_counted(enum fake_kind kind, size_t size, struct context *context)
{
	struct counted *c = make(kind, size, NULL, false);

	c->object.dispatch = &dispatch;
	c->refs = 1;
	c->context = context;
	return c;
}

void *live(const void *handle, enum fake_kind kind)
{
	struct counted *c = object_of(handle, kind);

	return c && c->refs ? c : NULL;
}

cl_int retain(const void *handle, enum fake_kind kind, cl_int invalid)
{
	struct counted *c = live(handle, kind);

	if (!c)
		return refuse(invalid, "no live object");
	c->refs++;
	return CL_SUCCESS;
}

bool release(const void *handle, enum fake_kind kind, cl_int invalid,
	     void *out, cl_int *result)
{
	struct counted *c = live(handle, kind);

	*(struct counted **)out = c;
	if (!c)
		*result = refuse(invalid, "no live object");
	return c && !--c->refs;
}

/* ---------------------------------------------------------------- machines */

#define KHR_MEMORY "cl_khr_external_memory "
#define KHR_SEMAPHORES "cl_khr_semaphore cl_khr_external_semaphore " \
		       "cl_khr_external_semaphore_sync_fd "

static const struct fake_machine machines[] = {
	{ .word = "khr", .name = "Fake GPU", .version = "OpenCL 3.0 fake",
	  .extensions = KHR_MEMORY "cl_khr_external_memory_dma_buf "
			KHR_SEMAPHORES,
	  .type = CL_DEVICE_TYPE_GPU, .host_ptr = HOST_PTR_PINNED,
	  .dma_bufs = true, .semaphores = true },
	{ .word = "intel", .name = "Fake Intel", .version = "OpenCL 3.0 fake",
	  .extensions = KHR_MEMORY, .type = CL_DEVICE_TYPE_GPU,
	  .host_ptr = HOST_PTR_PINNED, .dma_bufs = true,
	  .fd_0_is_none = true },
	{ .word = "arm", .name = "Fake Mali", .version = "OpenCL 3.0 fake",
	  .extensions = "cl_arm_import_memory cl_arm_import_memory_dma_buf ",
	  .type = CL_DEVICE_TYPE_GPU, .host_ptr = HOST_PTR_COPIED, .arm = true },
	{ .word = "qcom", .name = "Fake Adreno", .version = "OpenCL 2.0 fake",
	  .extensions = "cl_qcom_ext_host_ptr cl_qcom_ext_host_ptr_iocoherent "
			"cl_qcom_dmabuf_host_ptr ",
	  .type = CL_DEVICE_TYPE_GPU, .host_ptr = HOST_PTR_COPIED,
	  .qcom = true },
	{ .word = "adreno8", .name = "Fake Adreno", .version = "OpenCL 3.0 fake",
	  .extensions = KHR_MEMORY "cl_khr_external_memory_dma_buf "
			"cl_qcom_ext_host_ptr cl_qcom_dmabuf_host_ptr ",
	  .type = CL_DEVICE_TYPE_GPU, .host_ptr = HOST_PTR_COPIED,
	  .dma_bufs = true, .qcom = true, .apart = true },
	{ .word = "apart", .name = "Fake GPU", .version = "OpenCL 3.0 fake",
	  .extensions = KHR_MEMORY "cl_khr_external_memory_dma_buf ",
	  .type = CL_DEVICE_TYPE_GPU, .host_ptr = HOST_PTR_PINNED, .dma_bufs = true,
	  .apart = true },
	{ .word = "userptr", .name = "Fake GPU", .version = "OpenCL 3.0 fake",
	  .extensions = "", .type = CL_DEVICE_TYPE_GPU,
	  .host_ptr = HOST_PTR_PINNED },
	{ .word = "shadow", .name = "Fake GPU", .version = "OpenCL 3.0 fake",
	  .extensions = "", .type = CL_DEVICE_TYPE_GPU,
	  .host_ptr = HOST_PTR_COPIED },
	{ .word = "cpu", .name = "Fake CPU", .version = "OpenCL 3.0 fake",
	  .extensions = "", .type = CL_DEVICE_TYPE_CPU,
	  .host_ptr = HOST_PTR_DIRECT },
	{ .word = "old", .name = "Fake GPU", .version = "OpenCL 1.2 fake",
	  .extensions = "", .type = CL_DEVICE_TYPE_GPU,
	  .host_ptr = HOST_PTR_COPIED },
};

static const struct word words[] = {
	{ "none", .sets = { &fake.no_platform } },
	{ "memfds", .sets = { &fake.memfds } },
	{ "strict", .sets = { &fake.strict } },
	{ "armold", .sets = { &fake.arm_old } },
	{ "noreimport", .sets = { &fake.no_reimport } },
	{ "noimport", .sets = { &fake.no_sync_in } },
	{ "noexport", .sets = { &fake.no_sync_out } },
	{ "waits", .sets = { &fake.release_waits } },
	{ "images", .sets = { &fake.images } },
	{ "two", .number = &fake.ndevices, .value = 2 },
	{ "padding", .number = &fake.padding, .value = 4096 },
};

static void other_word(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (!strcmp(word, machines[i].word))
			fake.machine = machines[i];
}

/* ---------------------------------------------------------------- platform */

EXPORT cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *out,
						 cl_uint *found);
cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *out,
					  cl_uint *found)
{
	if (found)
		*found = !fake.no_platform;
	if (fake.no_platform)
		return CL_PLATFORM_NOT_FOUND_KHR;
	if (n)
		*out = (cl_platform_id)&platform;
	return CL_SUCCESS;
}

cl_int CL_API_CALL clGetPlatformIDs(cl_uint n, cl_platform_id *out,
				    cl_uint *found)
{
	return clIcdGetPlatformIDsKHR(n, out, found);
}

static cl_int external_types(bool has, cl_uint type, size_t size, void *out,
			     size_t *size_ret)
{
	return give(&type, has ? sizeof(type) : 0, size, out, size_ret);
}

#define NOT_ASKED 1

/* The answers of a platform and its devices about handles, or NOT_ASKED. */
static cl_int get_handles(cl_uint name, size_t size, void *out,
			  size_t *size_ret)
{
	bool fences = fake.machine.semaphores;

	switch (name) {
	case CL_PLATFORM_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR:
	case CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR:
		if (!fake.machine.dma_bufs)
			return CL_INVALID_VALUE;
		GIVE(cl_uint, CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR);
	case CL_PLATFORM_SEMAPHORE_TYPES_KHR:
	case CL_DEVICE_SEMAPHORE_TYPES_KHR:
		if (!fences)
			return CL_INVALID_VALUE;
		GIVE(cl_uint, CL_SEMAPHORE_TYPE_BINARY_KHR);
	case CL_PLATFORM_SEMAPHORE_IMPORT_HANDLE_TYPES_KHR:
	case CL_DEVICE_SEMAPHORE_IMPORT_HANDLE_TYPES_KHR:
		return !fences ? CL_INVALID_VALUE :
		       external_types(!fake.no_sync_in,
				      CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, size, out,
				      size_ret);
	case CL_PLATFORM_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR:
	case CL_DEVICE_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR:
		return !fences ? CL_INVALID_VALUE :
		       external_types(!fake.no_sync_out,
				      CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, size, out,
				      size_ret);
	default:
		return NOT_ASKED;
	}
}

static cl_int get_platform(cl_platform_info name, size_t size, void *out,
			   size_t *size_ret)
{
	char extensions[256] = "cl_khr_icd ";
	cl_int result = get_handles(name, size, out, size_ret);

	if (result != NOT_ASKED)
		return result;
	switch (name) {
	case CL_PLATFORM_PROFILE:
		return give_text("FULL_PROFILE", size, out, size_ret);
	case CL_PLATFORM_VERSION:
		return give_text(fake.machine.version, size, out, size_ret);
	case CL_PLATFORM_NAME:
		return give_text("Fake", size, out, size_ret);
	case CL_PLATFORM_VENDOR:
		return give_text("dlbuf's tests", size, out, size_ret);
	case CL_PLATFORM_EXTENSIONS:
		strcat(extensions, fake.machine.extensions);
		return give_text(extensions, size, out, size_ret);
	case CL_PLATFORM_ICD_SUFFIX_KHR:
		return give_text("FAKE", size, out, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

/* The loader calls it first of all, so it is not made to fail. */
cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id handle,
				     cl_platform_info name, size_t size,
				     void *out, size_t *size_ret)
{
	pthread_mutex_lock(&lock);
	call = __func__;
	if (handle && (void *)handle != &platform)
		return end(refuse(CL_INVALID_PLATFORM, "no platform"));
	return end(get_platform(name, size, out, size_ret));
}

/* ---------------------------------------------------------------- devices */

const struct device *device_of(const void *handle)
{
	for (unsigned int i = 0; i < fake.ndevices; i++)
		if (handle == &devices[i])
			return &devices[i];
	return NULL;
}

cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id handle, cl_device_type type,
				  cl_uint n, cl_device_id *out, cl_uint *found)
{
	BEGIN(NEEDS_ALL)
	if (handle && (void *)handle != &platform)
		return end(refuse(CL_INVALID_PLATFORM, "no platform"));
	if ((!n && out) || (!out && !found))
		return end(refuse(CL_INVALID_VALUE, "no room for devices"));
	if (!(type & (fake.machine.type | CL_DEVICE_TYPE_DEFAULT)))
		return end(CL_DEVICE_NOT_FOUND);
	if (found)
		*found = fake.ndevices;
	for (cl_uint i = 0; i < n && i < fake.ndevices; i++)
		out[i] = (cl_device_id)&devices[i];
	return end(CL_SUCCESS);
}

static cl_int get_device(const struct device *dev, cl_device_info name,
			 size_t size, void *out, size_t *size_ret)
{
	cl_int result = get_handles(name, size, out, size_ret);
	cl_uchar uuid[CL_UUID_SIZE_KHR] = { 0xc1, (cl_uchar)dev->number };

	if (result != NOT_ASKED)
		return result;
	switch (name) {
	case CL_DEVICE_TYPE:
		GIVE(cl_device_type, fake.machine.type);
	case CL_DEVICE_VENDOR_ID:
		GIVE(cl_uint, 0x1234);
	case CL_DEVICE_MAX_COMPUTE_UNITS:
		GIVE(cl_uint, 1);
	case CL_DEVICE_ADDRESS_BITS:
		GIVE(cl_uint, 8 * sizeof(void *));
	case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
		GIVE(cl_uint, 1024);
	case CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE:
		GIVE(cl_uint, 64);
	case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
	case CL_DEVICE_GLOBAL_MEM_SIZE:
		GIVE(cl_ulong, (cl_ulong)1 << 30);
	case CL_DEVICE_HOST_UNIFIED_MEMORY:
		GIVE(cl_bool, fake.machine.host_ptr == HOST_PTR_DIRECT);
	case CL_DEVICE_AVAILABLE:
	case CL_DEVICE_COMPILER_AVAILABLE:
	case CL_DEVICE_ENDIAN_LITTLE:
		GIVE(cl_bool, CL_TRUE);
	case CL_DEVICE_IMAGE_SUPPORT:
		GIVE(cl_bool, fake.images);
	case CL_DEVICE_IMAGE_PITCH_ALIGNMENT:
		GIVE(cl_uint, fake.images ? 16 : 0);
	case CL_DEVICE_QUEUE_PROPERTIES:
		GIVE(cl_command_queue_properties, CL_QUEUE_PROFILING_ENABLE);
	case CL_DEVICE_PLATFORM:
		GIVE(const void *, &platform);
	case CL_DEVICE_NAME:
		return give_text(fake.machine.name, size, out, size_ret);
	case CL_DEVICE_VENDOR:
		return give_text("dlbuf's tests", size, out, size_ret);
	case CL_DRIVER_VERSION:
		return give_text("1.0", size, out, size_ret);
	case CL_DEVICE_PROFILE:
		return give_text("FULL_PROFILE", size, out, size_ret);
	case CL_DEVICE_VERSION:
		return give_text(fake.machine.version, size, out, size_ret);
	case CL_DEVICE_EXTENSIONS:
		return give_text(fake.machine.extensions, size, out, size_ret);
	case CL_DEVICE_UUID_KHR:
		return give(uuid, sizeof(uuid), size, out, size_ret);
	case CL_DEVICE_PAGE_SIZE_QCOM:
		if (!fake.machine.qcom)
			return CL_INVALID_VALUE;
		GIVE(size_t, 4096);
	case CL_DEVICE_EXT_MEM_PADDING_IN_BYTES_QCOM:
		if (!fake.machine.qcom)
			return CL_INVALID_VALUE;
		GIVE(size_t, fake.padding);
	default:
		return CL_INVALID_VALUE;
	}
}

cl_int CL_API_CALL clGetDeviceInfo(cl_device_id handle, cl_device_info name,
				   size_t size, void *out, size_t *size_ret)
{
	const struct device *dev;

	BEGIN(NEEDS_ALL)
	dev = device_of(handle);
	if (!dev)
		return end(refuse(CL_INVALID_DEVICE, "no device"));
	return end(get_device(dev, name, size, out, size_ret));
}

/* ---------------------------------------------------------------- contexts */

bool has_device(const struct context *context, const struct device *device)
{
	return device && (device == context->devices[0] ||
			  device == context->devices[1]);
}

cl_context CL_API_CALL clCreateContext(
	const cl_context_properties *properties, cl_uint n,
	const cl_device_id *list,
	void (CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
	void *data, cl_int *errcode_ret)
{
	struct context *context;

	BEGIN_MAKE(NEEDS_ALL | BLOCKS)
	for (; properties && *properties; properties += 2)
		if (*properties != CL_CONTEXT_PLATFORM ||
		    (void *)properties[1] != &platform)
			return end_make(NULL, refuse(CL_INVALID_PROPERTY,
						     "a property"), errcode_ret);
	if (!list || !n || n > 2 || (!notify && data))
		return end_make(NULL, refuse(CL_INVALID_VALUE, "the devices"),
				errcode_ret);
	for (cl_uint i = 0; i < n; i++)
		if (!device_of(list[i]))
			return end_make(NULL, refuse(CL_INVALID_DEVICE,
						     "no device"), errcode_ret);
	context = make_counted(FAKE_CONTEXT, sizeof(*context), NULL);
	context->ndevices = n;
	for (cl_uint i = 0; i < n; i++)
		context->devices[i] = device_of(list[i]);
	/* The driver has threads from now on. */
	initialised = true;
	return end_make(context, CL_SUCCESS, errcode_ret);
}

COUNTED(Context, cl_context, context, FAKE_CONTEXT, CL_INVALID_CONTEXT, unmake)

static cl_int get_context(const struct context *context, cl_context_info name,
			  size_t size, void *out, size_t *size_ret)
{
	switch (name) {
	case CL_CONTEXT_REFERENCE_COUNT:
		GIVE(cl_uint, context->c.refs);
	case CL_CONTEXT_NUM_DEVICES:
		GIVE(cl_uint, context->ndevices);
	case CL_CONTEXT_DEVICES:
		return give(context->devices, context->ndevices *
			    sizeof(context->devices[0]), size, out, size_ret);
	case CL_CONTEXT_PROPERTIES:
		return give(NULL, 0, size, out, size_ret);
	default:
		return refuse(CL_INVALID_VALUE, "no such query");
	}
}

GETTER(clGetContextInfo, context, cl_context, FAKE_CONTEXT,
       CL_INVALID_CONTEXT, cl_context_info, get_context)

/* ---------------------------------------------------------------- names */

/* The functions that the machine has, by their extension. */
static const struct {
	const char *name, *extension;
	void *fn;
} functions[] = {
#define KHR(extension, name) { #name, #extension, (void *)name }
	KHR(cl_khr_external_memory, clEnqueueAcquireExternalMemObjectsKHR),
	KHR(cl_khr_external_memory, clEnqueueReleaseExternalMemObjectsKHR),
	KHR(cl_khr_semaphore, clCreateSemaphoreWithPropertiesKHR),
	KHR(cl_khr_semaphore, clEnqueueWaitSemaphoresKHR),
	KHR(cl_khr_semaphore, clEnqueueSignalSemaphoresKHR),
	KHR(cl_khr_semaphore, clGetSemaphoreInfoKHR),
	KHR(cl_khr_semaphore, clRetainSemaphoreKHR),
	KHR(cl_khr_semaphore, clReleaseSemaphoreKHR),
	KHR(cl_khr_external_semaphore, clGetSemaphoreHandleForTypeKHR),
	KHR(cl_khr_external_semaphore_sync_fd, clReImportSemaphoreSyncFdKHR),
	KHR(cl_arm_import_memory, clImportMemoryARM),
	{ "clIcdGetPlatformIDsKHR", "", (void *)clIcdGetPlatformIDsKHR },
	{ "clGetPlatformInfo", "", (void *)clGetPlatformInfo },
};

static void *function_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strcmp(name, functions[i].name))
			return !(*functions[i].extension &&
				 fake.no_functions) &&
			       strstr(fake.machine.extensions,
				      functions[i].extension) &&
			       !(fake.no_reimport && strstr(name, "ReImport")) ?
			       functions[i].fn : NULL;
	return NULL;
}

void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
	return function_of(name);
}

void *CL_API_CALL clGetExtensionFunctionAddressForPlatform(
	cl_platform_id handle, const char *name)
{
	return (void *)handle == &platform ?
	       function_of(name) : NULL;
}

static const cl_icd_dispatch dispatch = {
#define X(name) .cl##name = cl##name,
	FAKE_OPENCL_FUNCTIONS(X)
#undef X
};

/* ---------------------------------------------------------------- controls */

static int needs_own(unsigned int needs)
{
	if (in_host_function && needs & BLOCKS)
		return refuse(CL_INVALID_OPERATION, "within a callback");
	if (needs & NEW_2_0 && strstr(fake.machine.version, "1.2"))
		return refuse(CL_INVALID_OPERATION, "not in OpenCL 1.2");
	return CL_SUCCESS;
}

/* The last first: commands are freed before the objects that they use. */
static void (*const destroy[FAKE_KINDS])(struct object *o) = {
	[FAKE_CONTEXT] = unmake,
	[FAKE_QUEUE] = queue_free,
	[FAKE_MEMORY] = memory_free,
	[FAKE_EVENT] = unmake,
	[FAKE_SEMAPHORE] = semaphore_free,
	[FAKE_PROGRAM] = unmake,
	[FAKE_KERNEL] = unmake,
};

const struct rules rules = {
	.in_child = CL_OUT_OF_HOST_MEMORY,
	.own = needs_own,
	.nkinds = FAKE_KINDS,
	.destroy = destroy,
};

static unsigned long fail_later(unsigned long n)
{
	unsigned long before;

	pthread_mutex_lock(&lock);
	before = fake.fail_at;
	fake.fail_at = n;
	pthread_mutex_unlock(&lock);
	return before;
}

static void settle(void)
{
	pthread_mutex_lock(&lock);
	while (fake.pending)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void clear(void)
{
	queues_reset(true);
	clear_objects();
	queues_reset(false);
}

EXPORT struct fake_opencl *fake_opencl(bool reset);
struct fake_opencl *fake_opencl(bool reset)
{
	if (!reset)
		return &fake;
	clear();
	fake = (struct fake_opencl){
		.ndevices = 1,
		.machine = machines[0],
		.result = CL_OUT_OF_RESOURCES,
		.lose = lose,
		.fail_later = fail_later,
		.settle = settle,
	};
	words_apply(getenv("FAKE_OPENCL"), words, ARRAY_SIZE(words), other_word);
	return &fake;
}

LOADED(fake_opencl, clear)
