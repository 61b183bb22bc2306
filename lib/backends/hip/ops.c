// SPDX-License-Identifier: MIT
/* The operations of struct queue_ops for HIP. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hip.h"

int hip_done(struct queue_device *dev, hip_result result, size_t function)
{
	int ret = hip_check(&to_hip(dev)->hip, result, function);

	if (hip_is_lost(result))
		queue_lost(dev);
	return ret;
}

/*
 * Makes the device current on the thread. Also allows, on this thread, calls that are
 * forbidden while another thread captures a stream. Both are variables of the thread,
 * which HIP sets without a call of the driver.
 */
static int enter(struct queue_device *base, struct queue_scope *scope,
		 bool to_free)
{
	struct hip_device *dev = to_hip(base);
	/*
	 * Since 7.0 a thread's errors persist: the errors of these calls are not the
	 * application's.
	 */
	bool clean = !dev->hip.PeekAtLastError();
	/* No fault is injected here: on another device nothing could be freed. */
	hip_result result = to_free ? dev->hip.GetDevice(&scope->device) :
		HIP_RESULT(&dev->hip, GetDevice, &scope->device);

	scope->clean = clean;
	scope->entered = !result && scope->device != dev->ordinal;
	if (scope->entered)
		result = dev->hip.SetDevice(dev->ordinal);
	if (result && !to_free) {
		scope->entered = false;
		return hip_check(&dev->hip, result, HIP_FUNCTION(SetDevice));
	}
	scope->mode = HIPABI_STREAM_CAPTURE_MODE_RELAXED;
	dev->hip.ThreadExchangeStreamCaptureMode(&scope->mode);
	return 0;
}

static void leave(struct queue_device *base, const struct queue_scope *scope)
{
	struct hip_device *dev = to_hip(base);
	int mode = scope->mode;

	dev->hip.ThreadExchangeStreamCaptureMode(&mode);
	if (scope->entered)
		dev->hip.SetDevice(scope->device);
	if (scope->clean)
		dev->hip.GetLastError();
}

/* ---------------------------------------------------------------- one call each */

/* Results of calls that free are ignored: they report earlier errors. */
#define CALL(op, params, name, ...) \
	static int op params { return HIP_DO(dev, name, __VA_ARGS__); }
#define FREE(op, params, name, ...) \
	static void op params { to_hip(dev)->hip.name(__VA_ARGS__); }

CALL(stream_create, (struct queue_device *dev, void **out),
     StreamCreateWithFlags, (hip_stream *)out, HIPABI_STREAM_NON_BLOCKING)
FREE(stream_destroy, (struct queue_device *dev, void *s), StreamDestroy, s)
CALL(finish, (struct queue_device *dev, void *s), StreamSynchronize, s)
CALL(finish_all, (struct queue_device *dev), DeviceSynchronize)
CALL(call_host, (struct queue_device *dev, void *s, void (*fn)(void *), void *data),
     LaunchHostFunc, s, fn, data)
CALL(wait_word, (struct queue_device *dev, void *s, uintptr_t word, uint32_t value),
     StreamWaitValue32, s, (void *)word, value, HIPABI_STREAM_WAIT_VALUE_GTE,
     UINT32_MAX)

CALL(event_create, (struct queue_device *dev, void **out), EventCreateWithFlags,
     (hip_event *)out, HIPABI_EVENT_DISABLE_TIMING | HIPABI_EVENT_BLOCKING_SYNC)
FREE(event_destroy, (struct queue_device *dev, void *event), EventDestroy, event)
CALL(event_record, (struct queue_device *dev, void **event, void *s),
     EventRecord, *event, s)
CALL(event_wait, (struct queue_device *dev, void *event), EventSynchronize, event)
CALL(stream_wait, (struct queue_device *dev, void *s, void *event),
     StreamWaitEvent, s, event, 0)

FREE(free_host, (struct queue_device *dev, void *host), HostFree, host)

/* ---------------------------------------------------------------- streams */

/*
 * hipStreamGetDevice() is the only call that is safe with a stream that was destroyed:
 * since HIP 7.0 others crash.
 */
static int check_stream(struct hip_device *dev, hip_stream s)
{
	hip_device_ordinal of = dev->ordinal;
	hip_result result;

	result = HIP_RESULT(&dev->hip, StreamGetDevice, s, &of);
	if (result == HIPABI_CONTEXT_IS_DESTROYED)
		return fail(-EINVAL, "%s: stream %p was destroyed",
			    dev->queue.base.name, (void *)s);
	if (!result && of != dev->ordinal)
		return fail(-EINVAL, "stream %p is of hip:%d, not of %s",
			    (void *)s, of, dev->queue.base.name);
	return hip_done(&dev->queue, result, HIP_FUNCTION(StreamGetDevice));
}

/*
 * Handles are DLPack's for ROCm: 0 is the default stream, and 1 and 2 are refused. The
 * default stream is unusable while a blocking stream is captured. Then a release on it
 * is refused, because a copy could not be written back later.
 */
static int stream(struct queue_device *base, void *handle, bool ends, void **out)
{
	struct hip_device *dev = to_hip(base);
	int status = HIPABI_STREAM_CAPTURE_STATUS_NONE, ret = 0;
	hip_result result;

	(void)ends;
	if (handle == HIPABI_STREAM_LEGACY || handle == HIPABI_STREAM_PER_THREAD)
		return fail(-EINVAL, "%s: DLPack has no stream %d on ROCm; NULL is "
			    "the default stream", base->base.name,
			    (int)(uintptr_t)handle);
	if (handle)
		ret = check_stream(dev, handle);
	if (ret)
		return ret;
	result = HIP_RESULT(&dev->hip, StreamIsCapturing, handle, &status);
	if (result == HIPABI_STREAM_CAPTURE_IMPLICIT ||
	    status != HIPABI_STREAM_CAPTURE_STATUS_NONE)
		return fail(-EBUSY, "%s: the stream is being captured into a "
			    "graph: acquire and release around its launch",
			    base->base.name);
	*out = handle;
	return hip_done(base, result, HIP_FUNCTION(StreamIsCapturing));
}

static int event_query(struct queue_device *dev, void *event)
{
	hip_result result = HIP_RESULT(&to_hip(dev)->hip, EventQuery, event);

	return result == HIPABI_NOT_READY ? QUEUE_PENDING :
	       hip_done(dev, result, HIP_FUNCTION(EventQuery));
}

/* ---------------------------------------------------------------- memory */

static int foreign(void)
{
	return fail(-EOPNOTSUPP, "hip: hipImportExternalMemory: hipErrorOutOfMemory (2), "
		    "which the driver also reports for dma-bufs that are not amdgpu's");
}

/*
 * The driver imports dma-bufs of amdgpu only, and reports those of other drivers as a
 * lack of memory. It never closes the fd, and believes the size.
 */
static int import_external(struct queue_memory *m, int fd)
{
	const struct hip_memory_desc desc = {
		.type = HIPABI_EXTERNAL_MEMORY_OPAQUE_FD,
		.handle.fd = fd,
		.size = m->base.bytes,
	};
	const struct hip_buffer_desc whole = { .size = m->base.bytes };
	void *pointer = NULL;
	int ret;

	ret = HIP_DO(m->dev, ImportExternalMemory, &m->handle, &desc);
	if (ret) {
		m->handle = NULL;
		return ret != -ENOMEM ? ret : foreign();
	}
	ret = HIP_DO(m->dev, ExternalMemoryGetMappedBuffer, &pointer, m->handle,
		     &whole);
	m->allocated = !ret;
	m->data = (uintptr_t)pointer;
	return ret;
}

/*
 * A hash of the exporter's name of a dma-buf. 0: it is not known, or may be amdgpu's:
 * the kernel has one name for many DRM drivers.
 */
static uint32_t exporter_of(int dma_buf)
{
	char path[40], info[256];
	const char *name;
	uint32_t hash = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", dma_buf);
	fd = sys_open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	n = read(fd, info, sizeof(info) - 1);
	close(fd);
	info[n > 0 ? n : 0] = '\0';
	name = strstr(info, "exp_name:\t");
	if (!name || !strncmp(name + 10, "drm\n", 4))
		return 0;
	while (*name && *name != '\n')
		hash = hash * 31 + (unsigned char)*name++;
	return hash;
}

/* Older drivers lose memory with each dma-buf that they refuse. */
static int import(struct queue_memory *m)
{
	struct hip_device *dev = to_hip(m->dev);
	uint32_t exporter = exporter_of(m->base.fd);
	uint32_t *known = &dev->foreign[exporter % ARRAY_SIZE(dev->foreign)];
	int ret;

	if (exporter && __atomic_load_n(known, __ATOMIC_RELAXED) == exporter)
		return foreign();
	ret = import_external(m, m->base.fd);
	if (ret == -EOPNOTSUPP)
		__atomic_store_n(known, exporter, __ATOMIC_RELAXED);
	return ret;
}

/* The fd is a dma-buf of RADV's memory. It is taken once there is an m->handle. */
static int import_shared(struct queue_memory *m, int fd, uint64_t allocated,
			 bool dedicated)
{
	off_t bytes = lseek(fd, 0, SEEK_END);
	int ret;

	(void)allocated, (void)dedicated;
	if (bytes < 0 || (uint64_t)bytes < m->base.bytes)
		return fail(-EOPNOTSUPP, "vulkan: the exported dma-buf has %lld bytes, "
			    "not %llu", (long long)bytes,
			    (unsigned long long)m->base.bytes);
	ret = import_external(m, fd);
	if (m->handle)
		close(fd);
	return ret;
}

static int address_of(struct queue_device *dev, void *host, uintptr_t *address)
{
	void *pointer = NULL;
	int ret = HIP_DO(dev, HostGetDevicePointer, &pointer, host, 0);

	*address = (uintptr_t)pointer;
	return ret;
}

static int register_host(struct queue_memory *m, uint32_t access)
{
	int ret;

	(void)access;
	ret = HIP_DO(m->dev, HostRegister, m->map, m->base.bytes,
		     HIPABI_HOST_REGISTER_PORTABLE |
		     HIPABI_HOST_REGISTER_MAPPED);
	m->registered = !ret;
	return ret ? ret : address_of(m->dev, m->map, &m->data);
}

static int alloc(struct queue_memory *m)
{
	void *pointer = NULL;
	int ret = HIP_DO(m->dev, Malloc, &pointer, m->base.bytes);

	m->allocated = !ret;
	m->data = (uintptr_t)pointer;
	return ret;
}

static void free_memory(struct queue_memory *m)
{
	const struct hip_api *hip = &to_hip(m->dev)->hip;

	if (m->allocated)
		hip->Free((void *)m->data);
	if (m->handle)
		hip->DestroyExternalMemory(m->handle);
	if (m->registered)
		hip->HostUnregister(m->map);
}

/* Words that streams wait for have to be coherent, which not all host memory is. */
static int alloc_host(struct queue_device *dev, size_t bytes, void **host,
		      uintptr_t *address)
{
	int ret = HIP_DO(dev, HostMalloc, host, bytes,
			 HIPABI_HOST_MALLOC_PORTABLE |
			 (address ? HIPABI_HOST_MALLOC_MAPPED |
				    HIPABI_HOST_MALLOC_COHERENT : 0));

	if (ret || !address)
		return ret;
	ret = address_of(dev, *host, address);
	if (ret)
		free_host(dev, *host);
	return ret;
}

static int copy(struct queue_memory *m, void *s, bool out)
{
	return out ? HIP_DO(m->dev, MemcpyDtoHAsync, m->staging,
			    (hip_pointer)m->data, m->base.bytes, s) :
		     HIP_DO(m->dev, MemcpyHtoDAsync, (hip_pointer)m->data,
			    m->staging, m->base.bytes, s);
}

static int clear(struct queue_memory *m, void *s)
{
	return HIP_DO(m->dev, MemsetD8Async, (hip_pointer)m->data, 0, m->base.bytes, s);
}

static void destroy(struct queue_device *dev)
{
#ifdef CONFIG_PREPARE_HIP
	hip_kernel_free(dev);
#endif
	free(to_hip(dev));
}

const struct queue_ops hip_ops = {
	.size = sizeof(struct hip_device),
	.count = hip_count,
	.probe = hip_probe,
	.start = hip_start,
	.enter = enter,
	.leave = leave,
	.stream = stream,
	.no_order = DLBUF_STREAM_NO_ORDER,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_record = event_record,
	.event_query = event_query,
	.event_wait = event_wait,
	.stream_wait = stream_wait,
	.finish = finish,
	.finish_all = finish_all,
	.call_host = call_host,
	.wait_word = wait_word,
	.import = import,
	.register_host = register_host,
	.alloc = alloc,
	.import_shared = import_shared,
	.free = free_memory,
	.alloc_host = alloc_host,
	.free_host = free_host,
	.copy = copy,
	.range = hip_range,
	.export = hip_export,
	.clear = clear,
#ifdef CONFIG_PREPARE_HIP
	.kernel_create = hip_kernel_create,
	.kernel_launch = hip_kernel_launch,
#endif
	.destroy = destroy,
};
