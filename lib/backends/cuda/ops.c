// SPDX-License-Identifier: MIT
/* The operations of struct queue_ops for CUDA. */
#include <errno.h>

#include "cuda.h"

int cuda_done(struct queue_device *dev, cuda_result result, size_t function)
{
	int ret = cuda_check(&to_cuda(dev)->cu, result, function);

	if (cuda_is_lost(result))
		queue_lost(dev);
	return ret;
}

/*
 * Makes the device's context current on the thread. Also allows, on this thread, calls
 * that are forbidden while another thread captures a stream.
 */
static int enter(struct queue_device *base, struct queue_scope *scope,
		 bool to_free)
{
	struct cuda_device *dev = to_cuda(base);
	/* No fault is injected here: without a context nothing could be freed. */
	cuda_result result = to_free ? dev->cu.CtxPushCurrent(dev->context) :
		CUDA_RESULT(&dev->cu, CtxPushCurrent, dev->context);

	scope->entered = !result;
	if (result && !to_free)
		return cuda_check(&dev->cu, result, CUDA_FUNCTION(CtxPushCurrent));
	/* An error means that there is no capture mode to change. */
	scope->mode = CUABI_STREAM_CAPTURE_MODE_RELAXED;
	dev->cu.ThreadExchangeStreamCaptureMode(&scope->mode);
	return 0;
}

static void leave(struct queue_device *base, const struct queue_scope *scope)
{
	struct cuda_device *dev = to_cuda(base);
	int mode = scope->mode;
	cuda_context popped;

	dev->cu.ThreadExchangeStreamCaptureMode(&mode);
	if (scope->entered)
		dev->cu.CtxPopCurrent(&popped);
}

/* ---------------------------------------------------------------- one call each */

/* Results of calls that free are ignored: they report earlier errors. */
#define CALL(op, params, name, ...) \
	static int op params { return CUDA_DO(dev, name, __VA_ARGS__); }
#define FREE(op, params, name, ...) \
	static void op params { to_cuda(dev)->cu.name(__VA_ARGS__); }

CALL(stream_create, (struct queue_device *dev, void **out),
     StreamCreate, (cuda_stream *)out, CUABI_STREAM_NON_BLOCKING)
FREE(stream_destroy, (struct queue_device *dev, void *s), StreamDestroy, s)
CALL(finish, (struct queue_device *dev, void *s), StreamSynchronize, s)
CALL(finish_all, (struct queue_device *dev), CtxSynchronize)
CALL(call_host, (struct queue_device *dev, void *s, void (*fn)(void *), void *data),
     LaunchHostFunc, s, fn, data)
CALL(wait_word, (struct queue_device *dev, void *s, uintptr_t word, uint32_t value),
     StreamWaitValue32, s, word, value, CUABI_STREAM_WAIT_VALUE_GEQ)
CALL(flush, (struct queue_device *dev), FlushGPUDirectRDMAWrites,
     CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
     CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)

CALL(event_create, (struct queue_device *dev, void **out), EventCreate,
     (cuda_event *)out, CUABI_EVENT_DISABLE_TIMING | CUABI_EVENT_BLOCKING_SYNC)
FREE(event_destroy, (struct queue_device *dev, void *event), EventDestroy, event)
CALL(event_record, (struct queue_device *dev, void **event, void *s),
     EventRecord, *event, s)
CALL(event_wait, (struct queue_device *dev, void *event), EventSynchronize, event)
CALL(stream_wait, (struct queue_device *dev, void *s, void *event),
     StreamWaitEvent, s, event, 0)

FREE(free_host, (struct queue_device *dev, void *host), MemFreeHost, host)
FREE(semaphore_destroy, (struct queue_device *dev, void *semaphore),
     DestroyExternalSemaphore, semaphore)

/* ---------------------------------------------------------------- streams */

/*
 * The driver has one error for a destroyed stream and for a destroyed context. A query
 * of the context's legacy stream shows which of the two it is.
 */
static int check_context(struct cuda_device *dev, cuda_stream stream)
{
	cuda_context ctx;
	cuda_result result;
	cuda_green green;

	if (stream == CUABI_STREAM_LEGACY || stream == CUABI_STREAM_PER_THREAD)
		return 0;
	result = CUDA_RESULT(&dev->cu, StreamGetCtx, stream, &ctx);
	/*
	 * The first call returns a green context for its streams; the memory belongs to another
	 * context.
	 */
	if (!result && ctx != dev->context && dev->cu.StreamGetCtx_v2)
		result = dev->cu.StreamGetCtx_v2(stream, &ctx, &green);
	if (result == CUABI_STREAM_DETACHED)
		return fail(-EINVAL, "%s: the green context of stream %p was destroyed",
			    dev->queue.base.name, (void *)stream);
	if (result == CUABI_CONTEXT_IS_DESTROYED &&
	    !dev->cu.StreamGetCtx(CUABI_STREAM_LEGACY, &ctx))
		return fail(-EINVAL, "%s: stream %p was destroyed",
			    dev->queue.base.name, (void *)stream);
	if (!result && ctx != dev->context)
		return fail(-EINVAL, "stream %p is of another context than %s's",
			    (void *)stream, dev->queue.base.name);
	return cuda_done(&dev->queue, result, CUDA_FUNCTION(StreamGetCtx));
}

/*
 * Handles are DLPack's: 0 and 1 are the legacy stream, 2 is the per-thread stream. An
 * access that began on 2 may end on another thread, which has another per-thread
 * stream. So it ends on the legacy stream, which waits for those of all threads.
 *
 * The legacy stream is unusable while a blocking stream of the context is captured
 * (see cuStreamIsCapturing()). Then a release on 1 or 2 is refused, because a copy
 * could not be written back later. The deletion of an acquired tensor cannot be
 * refused: its access ends late.
 */
static int stream(struct queue_device *base, void *handle, bool ends, void **out)
{
	struct cuda_device *dev = to_cuda(base);
	cuda_stream s = handle ? handle : CUABI_STREAM_LEGACY;
	int status = CUABI_STREAM_CAPTURE_STATUS_NONE, ret;
	cuda_result result;

	if (ends && s == CUABI_STREAM_PER_THREAD)
		s = CUABI_STREAM_LEGACY;
	ret = check_context(dev, s);
	if (ret)
		return ret;
	result = CUDA_RESULT(&dev->cu, StreamIsCapturing, s, &status);
	if (result == CUABI_STREAM_CAPTURE_IMPLICIT ||
	    status != CUABI_STREAM_CAPTURE_STATUS_NONE)
		return fail(-EBUSY, "%s: the stream is being captured into a "
			    "graph: acquire and release around its launch",
			    dev->queue.base.name);
	*out = s;
	return cuda_done(&dev->queue, result, CUDA_FUNCTION(StreamIsCapturing));
}

static int event_query(struct queue_device *dev, void *event)
{
	cuda_result result = CUDA_RESULT(&to_cuda(dev)->cu, EventQuery, event);

	return result == CUABI_NOT_READY ? QUEUE_PENDING :
	       cuda_done(dev, result, CUDA_FUNCTION(EventQuery));
}

/* ---------------------------------------------------------------- memory */

static int import_external(struct queue_memory *m,
			   const struct cuda_memory_desc *desc)
{
	const struct cuda_buffer_desc whole = { .size = m->base.bytes };
	cuda_pointer pointer = 0;
	int ret;

	ret = CUDA_DO(m->dev, ImportExternalMemory,
		      (cuda_external_memory *)&m->handle, desc);
	if (!ret)
		ret = CUDA_DO(m->dev, ExternalMemoryGetMappedBuffer, &pointer,
			      m->handle, &whole);
	m->allocated = !ret;
	m->data = pointer;
	return ret;
}

/* The driver does not take the fd: m->base.fd is closed after the memory is freed. */
static int import(struct queue_memory *m)
{
	return import_external(m, &(struct cuda_memory_desc){
		.type = CUABI_MEMORY_DMABUF_FD,
		.handle.fd = m->base.fd,
		.size = m->base.bytes,
	});
}

/* The driver gets a duplicate of fd. */
static int copy_fd(int fd)
{
	int copy = sys_dup(fd);

	return copy < 0 ? fail_errno("fcntl(F_DUPFD_CLOEXEC)") : copy;
}

/* Closes fd if the driver has taken the copy, otherwise the copy. */
static void close_other(int fd, int copy, bool taken)
{
	if (taken)
		close(fd);
	else
		sys_close_refused(copy, fd);
}

static int import_shared(struct queue_memory *m, int fd, uint64_t allocated,
			 bool dedicated)
{
	int copy = copy_fd(fd), ret;

	if (copy < 0)
		return copy;
	ret = import_external(m, &(struct cuda_memory_desc){
		.type = CUABI_MEMORY_OPAQUE_FD,
		.handle.fd = copy,
		.size = allocated,
		.flags = dedicated ? CUABI_EXTERNAL_MEMORY_DEDICATED : 0,
	});
	close_other(fd, copy, m->handle);
	return ret;
}

static int address_of(struct queue_device *dev, void *host, uintptr_t *address)
{
	cuda_pointer pointer = 0;
	int ret = CUDA_DO(dev, MemHostGetDevicePointer, &pointer, host, 0);

	*address = pointer;
	return ret;
}

static int register_host(struct queue_memory *m, uint32_t access)
{
	int ret = CUDA_DO(m->dev, MemHostRegister, m->map, m->base.bytes,
			  CUABI_MEMHOSTREGISTER_PORTABLE |
			  CUABI_MEMHOSTREGISTER_DEVICEMAP |
			  (access & DLBUF_WRITE ? 0 :
			   CUABI_MEMHOSTREGISTER_READ_ONLY));

	m->registered = !ret;
	return ret ? ret : address_of(m->dev, m->map, &m->data);
}

static int alloc(struct queue_memory *m)
{
	cuda_pointer pointer = 0;
	int ret = CUDA_DO(m->dev, MemAlloc, &pointer, m->base.bytes);

	m->allocated = !ret;
	m->data = pointer;
	return ret;
}

static void free_memory(struct queue_memory *m)
{
	const struct cuda_api *cu = &to_cuda(m->dev)->cu;

	if (m->allocated)
		cu->MemFree(m->data);
	if (m->handle)
		cu->DestroyExternalMemory(m->handle);
	if (m->registered)
		cu->MemHostUnregister(m->map);
}

static int alloc_host(struct queue_device *dev, size_t bytes, void **host,
		      uintptr_t *address)
{
	int ret = CUDA_DO(dev, MemHostAlloc, host, bytes,
			  CUABI_MEMHOSTALLOC_PORTABLE |
			  (address ? CUABI_MEMHOSTALLOC_DEVICEMAP : 0));

	if (ret || !address)
		return ret;
	ret = address_of(dev, *host, address);
	if (ret)
		free_host(dev, *host);
	return ret;
}

static int copy(struct queue_memory *m, void *s, bool out)
{
	return out ? CUDA_DO(m->dev, MemcpyDtoHAsync, m->staging, m->data,
			     m->base.bytes, s) :
		     CUDA_DO(m->dev, MemcpyHtoDAsync, m->data, m->staging,
			     m->base.bytes, s);
}

static int clear(struct queue_memory *m, void *s)
{
	return CUDA_DO(m->dev, MemsetD8Async, m->data, 0, m->base.bytes, s);
}

static int semaphore_import(struct queue_device *dev, int fd, void **out)
{
	int copy = copy_fd(fd), ret;

	if (copy < 0)
		return copy;
	ret = CUDA_DO(dev, ImportExternalSemaphore, (cuda_external_semaphore *)out,
		      (&(struct cuda_semaphore_desc){
			      .type = CUABI_SEMAPHORE_TIMELINE_FD,
			      .handle.fd = copy,
		      }));
	close_other(fd, copy, !ret);
	return ret;
}

static int semaphore_use(struct queue_device *dev, void *s, void *semaphore,
			 uint64_t value, bool signals)
{
	struct cuda_semaphore_params params = { .value = value };
	cuda_external_semaphore on = semaphore;

	return signals ? CUDA_DO(dev, SignalExternalSemaphoresAsync, &on, &params,
				 1, s) :
			 CUDA_DO(dev, WaitExternalSemaphoresAsync, &on, &params,
				 1, s);
}

static void destroy(struct queue_device *base)
{
	struct cuda_device *dev = to_cuda(base);

#ifdef CONFIG_PREPARE_CUDA
	cuda_kernel_free(base);
#endif
	if (dev->primary)
		dev->cu.DevicePrimaryCtxRelease(dev->handle);
	free(dev);
}

const struct queue_ops cuda_ops = {
	.size = sizeof(struct cuda_device),
	.count = cuda_count,
	.probe = cuda_probe,
	.start = cuda_start,
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
	.range = cuda_range,
	.export = cuda_export,
	.clear = clear,
	.flush = flush,
	.semaphore_import = semaphore_import,
	.semaphore_destroy = semaphore_destroy,
	.semaphore_use = semaphore_use,
#ifdef CONFIG_PREPARE_CUDA
	.kernel_create = cuda_kernel_create,
	.kernel_launch = cuda_kernel_launch,
#endif
	.destroy = destroy,
};
