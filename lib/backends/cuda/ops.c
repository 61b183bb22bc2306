// SPDX-License-Identifier: MIT
/* CUDA as a device with queues: the operations of queue.h. */
#include <errno.h>

#include "cuda.h"

int cuda_done(struct cuda_device *dev, cuda_result result, const char *call)
{
	int ret = cuda_check(&dev->cu, result, call);

	if (cuda_is_lost(result))
		queue_lost(&dev->queue);
	return ret;
}

/* ---------------------------------------------------------------- contexts */

/*
 * The device's context is the thread's, and calls that a capture elsewhere in
 * the process would forbid are allowed.
 */
static int enter(struct queue_device *base, struct queue_scope *scope,
		 bool to_free)
{
	struct cuda_device *dev = to_cuda(base);
	const char *call = "cuCtxGetCurrent";
	cuda_context current = NULL;
	cuda_result result;

	scope->mode = CUABI_STREAM_CAPTURE_MODE_RELAXED;
	scope->entered = false;
	/* Faults are injected elsewhere: without a context nothing is freed. */
	result = to_free ? dev->cu.CtxGetCurrent(&current) :
			   CUDA_RESULT(&dev->cu, CtxGetCurrent, &current);
	if (!result && current != dev->context) {
		call = "cuCtxPushCurrent";
		result = to_free ? dev->cu.CtxPushCurrent(dev->context) :
				   CUDA_RESULT(&dev->cu, CtxPushCurrent,
					       dev->context);
		scope->entered = !result;
	}
	if (result && !to_free)
		return cuda_check(&dev->cu, result, call);
	/* Fails where there is no capture to speak of, which is as good. */
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

/* ---------------------------------------------------------------- streams */

/*
 * The driver says of a stream that was destroyed what it says of a context that
 * was: whether the context is alive its legacy stream tells.
 */
static int check_context(struct cuda_device *dev, cuda_stream stream)
{
	cuda_context ctx;
	cuda_result result;

	if (stream == CUABI_STREAM_LEGACY || stream == CUABI_STREAM_PER_THREAD)
		return 0;
	result = CUDA_RESULT(&dev->cu, StreamGetCtx, stream, &ctx);
	if (result == CUABI_CONTEXT_IS_DESTROYED &&
	    !dev->cu.StreamGetCtx(CUABI_STREAM_LEGACY, &ctx))
		return fail(-EINVAL, "%s: stream %p was destroyed",
			    dev->queue.base.name, (void *)stream);
	if (!result && ctx != dev->context)
		return fail(-EINVAL, "stream %p is of another context than %s's",
			    (void *)stream, dev->queue.base.name);
	return cuda_done(dev, result, "cuStreamGetCtx");
}

/*
 * DLPack's names for streams; CUDA's 0 and 1 are the same one. The thread on
 * which an access ends may have another per-thread stream than that on which it
 * began: the legacy stream is behind those of all threads.
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
	return cuda_done(dev, result, "cuStreamIsCapturing");
}

static int stream_create(struct queue_device *base, void **out)
{
	return CUDA_DO(to_cuda(base), StreamCreate, (cuda_stream *)out,
		       CUABI_STREAM_NON_BLOCKING);
}

static void stream_destroy(struct queue_device *base, void *s)
{
	to_cuda(base)->cu.StreamDestroy(s);
}

static int finish(struct queue_device *base, void *s)
{
	return CUDA_DO(to_cuda(base), StreamSynchronize, s);
}

static int finish_all(struct queue_device *base)
{
	return CUDA_DO(to_cuda(base), CtxSynchronize);
}

static int call_host(struct queue_device *base, void *s,
		     void (*fn)(void *data), void *data)
{
	return CUDA_DO(to_cuda(base), LaunchHostFunc, s, fn, data);
}

static int wait_word(struct queue_device *base, void *s, uintptr_t word,
		     uint32_t value)
{
	return CUDA_DO(to_cuda(base), StreamWaitValue32, s, word, value,
		       CUABI_STREAM_WAIT_VALUE_GEQ);
}

/* ---------------------------------------------------------------- events */

static int event_create(struct queue_device *base, void **event)
{
	return CUDA_DO(to_cuda(base), EventCreate, (cuda_event *)event,
		       CUABI_EVENT_DISABLE_TIMING | CUABI_EVENT_BLOCKING_SYNC);
}

static void event_destroy(struct queue_device *base, void *event)
{
	to_cuda(base)->cu.EventDestroy(event);
}

static int event_record(struct queue_device *base, void *event, void *s)
{
	return CUDA_DO(to_cuda(base), EventRecord, event, s);
}

static int event_query(struct queue_device *base, void *event)
{
	struct cuda_device *dev = to_cuda(base);
	cuda_result result = CUDA_RESULT(&dev->cu, EventQuery, event);

	return result == CUABI_NOT_READY ? QUEUE_PENDING :
	       cuda_done(dev, result, "cuEventQuery");
}

static int event_wait(struct queue_device *base, void *event)
{
	return CUDA_DO(to_cuda(base), EventSynchronize, event);
}

static int stream_wait(struct queue_device *base, void *s, void *event)
{
	return CUDA_DO(to_cuda(base), StreamWaitEvent, s, event, 0);
}

/* ---------------------------------------------------------------- memory */

static int import_external(struct queue_memory *m,
			   const struct cuda_memory_desc *desc)
{
	const struct cuda_buffer_desc whole = { .size = m->bytes };
	struct cuda_device *dev = to_cuda(m->dev);
	cuda_pointer pointer;
	int ret;

	ret = CUDA_DO(dev, ImportExternalMemory,
		      (cuda_external_memory *)&m->handle, desc);
	if (!ret)
		ret = CUDA_DO(dev, ExternalMemoryGetMappedBuffer, &pointer,
			      m->handle, &whole);
	m->allocated = m->handle && !ret;
	if (m->allocated)
		m->data = pointer;
	return ret;
}

/* NVIDIA's dmabufInterop closes the fd itself, after the memory. */
static int import(struct queue_memory *m)
{
	return import_external(m, &(struct cuda_memory_desc){
		.type = CUABI_MEMORY_DMABUF_FD,
		.handle.fd = m->fd,
		.size = m->bytes,
	});
}

static int import_shared(struct queue_memory *m, int fd, uint64_t allocated,
			 bool dedicated)
{
	return import_external(m, &(struct cuda_memory_desc){
		.type = CUABI_MEMORY_OPAQUE_FD,
		.handle.fd = fd,
		.size = allocated,
		.flags = dedicated ? CUABI_EXTERNAL_MEMORY_DEDICATED : 0,
	});
}

static int register_host(struct queue_memory *m, uint32_t access)
{
	struct cuda_device *dev = to_cuda(m->dev);
	unsigned int flags = CUABI_MEMHOSTREGISTER_PORTABLE |
			     CUABI_MEMHOSTREGISTER_DEVICEMAP;
	cuda_pointer pointer;
	int ret;

	if (!(access & DLBUF_WRITE))
		flags |= CUABI_MEMHOSTREGISTER_READ_ONLY;
	ret = CUDA_DO(dev, MemHostRegister, m->map, m->bytes, flags);
	m->registered = !ret;
	if (!ret)
		ret = CUDA_DO(dev, MemHostGetDevicePointer, &pointer, m->map, 0);
	if (!ret)
		m->data = pointer;
	return ret;
}

static int alloc(struct queue_memory *m)
{
	cuda_pointer pointer;
	int ret = CUDA_DO(to_cuda(m->dev), MemAlloc, &pointer, m->bytes);

	m->allocated = !ret;
	if (!ret)
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

static int alloc_host(struct queue_device *base, size_t bytes, void **host,
		      uintptr_t *address)
{
	struct cuda_device *dev = to_cuda(base);
	cuda_pointer pointer = 0;
	int ret;

	ret = CUDA_DO(dev, MemHostAlloc, host, bytes,
		      CUABI_MEMHOSTALLOC_PORTABLE | (address ?
		      CUABI_MEMHOSTALLOC_DEVICEMAP : 0));
	if (ret || !address)
		return ret;
	ret = CUDA_DO(dev, MemHostGetDevicePointer, &pointer, *host, 0);
	if (ret)
		dev->cu.MemFreeHost(*host);
	*address = pointer;
	return ret;
}

static void free_host(struct queue_device *base, void *host)
{
	to_cuda(base)->cu.MemFreeHost(host);
}

static int copy(struct queue_memory *m, void *s, bool out)
{
	struct cuda_device *dev = to_cuda(m->dev);

	return out ? CUDA_DO(dev, MemcpyDtoHAsync, m->staging, m->data, m->bytes,
			     s) :
		     CUDA_DO(dev, MemcpyHtoDAsync, m->data, m->staging, m->bytes,
			     s);
}

/* ---------------------------------------------------------------- semaphores */

static int semaphore_import(struct queue_device *base, int fd, void **out)
{
	struct cuda_semaphore_desc desc = {
		.type = CUABI_SEMAPHORE_TIMELINE_FD,
		.handle.fd = fd,
	};

	return CUDA_DO(to_cuda(base), ImportExternalSemaphore,
		       (cuda_external_semaphore *)out, &desc);
}

static void semaphore_destroy(struct queue_device *base, void *semaphore)
{
	to_cuda(base)->cu.DestroyExternalSemaphore(semaphore);
}

static int semaphore_signal(struct queue_device *base, void *s, void *semaphore,
			    uint64_t value)
{
	struct cuda_semaphore_params signal = { .value = value };

	return CUDA_DO(to_cuda(base), SignalExternalSemaphoresAsync,
		       (cuda_external_semaphore *)&semaphore, &signal, 1, s);
}

static int semaphore_wait(struct queue_device *base, void *s, void *semaphore,
			  uint64_t value)
{
	struct cuda_semaphore_params wait = { .value = value };

	return CUDA_DO(to_cuda(base), WaitExternalSemaphoresAsync,
		       (cuda_external_semaphore *)&semaphore, &wait, 1, s);
}

static void destroy(struct queue_device *base)
{
	struct cuda_device *dev = to_cuda(base);

	if (dev->primary)
		dev->cu.DevicePrimaryCtxRelease(dev->gpu.handle);
	free(dev);
}

const struct queue_ops cuda_ops = {
	.enter = enter,
	.leave = leave,
	.stream = stream,
	.no_order = DLBUF_CUDA_STREAM_NO_ORDER,
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
	.semaphore_import = semaphore_import,
	.semaphore_destroy = semaphore_destroy,
	.semaphore_signal = semaphore_signal,
	.semaphore_wait = semaphore_wait,
	.destroy = destroy,
};
