// SPDX-License-Identifier: MIT
/* Accesses: which stream, what it waits for, what it leaves behind. */
#include <errno.h>

#include "cuda.h"

/* DLPack's names for streams; CUDA's 0 and 1 are the same one. */
static cuda_stream stream_of(void *stream)
{
	return stream ? stream : CUABI_STREAM_LEGACY;
}

bool cuda_unordered(const void *stream)
{
	return stream == DLBUF_CUDA_STREAM_NO_ORDER;
}

static int check_context(struct cuda_device *dev, cuda_stream stream)
{
	cuda_context ctx;
	int ret;

	if (stream == CUABI_STREAM_LEGACY || stream == CUABI_STREAM_PER_THREAD)
		return 0;
	ret = CUDA_DO(dev, StreamGetCtx, stream, &ctx);
	if (!ret && ctx != dev->context)
		ret = fail(-EINVAL, "stream %p is of another context than %s's",
			   (void *)stream, dev->base.name);
	return ret;
}

static int check_capture(struct cuda_device *dev, cuda_stream stream)
{
	int status = CUABI_STREAM_CAPTURE_STATUS_NONE;
	cuda_result result;

	result = CUDA_RESULT(&dev->cu, StreamIsCapturing, stream, &status);
	if (result == CUABI_STREAM_CAPTURE_IMPLICIT ||
	    status != CUABI_STREAM_CAPTURE_STATUS_NONE)
		return fail(-EBUSY, "%s: the stream is being captured into a "
			    "graph: acquire and release around its launch",
			    dev->base.name);
	return cuda_done(dev, result, "cuStreamIsCapturing");
}

int cuda_check_stream(struct dlbuf_device *base, void *stream)
{
	struct cuda_device *dev = to_cuda(base);
	struct cuda_scope scope;
	int ret;

	if (cuda_unordered(stream))
		return 0;
	ret = cuda_enter(dev, &scope);
	if (ret)
		return ret;
	ret = check_context(dev, stream_of(stream));
	if (!ret)
		ret = check_capture(dev, stream_of(stream));
	cuda_leave(dev, &scope);
	return ret;
}

int cuda_acquire(struct import *imp, uint32_t access, void *stream, int fence)
{
	struct cuda_import *ci = cuda_import_of(imp);
	struct cuda_device *dev = to_cuda(imp->dev);
	struct cuda_scope scope;
	int ret;

	(void)access;
	if (cuda_unordered(stream))
		return !cuda_copies(ci) ? 0 :
		       fail(-EINVAL, "%s: a copy is made on a stream, -1 is "
			    "none", dev->base.name);
	/* Nothing to say to the driver: the usual case. */
	if (fence == -1 && !cuda_copies(ci))
		return 0;
	ret = cuda_enter(dev, &scope);
	if (ret)
		return ret;
	ret = cuda_copies(ci) ? cuda_copy_in(ci, stream_of(stream), fence) :
				cuda_wait_fence(dev, stream_of(stream), fence);
	cuda_leave(dev, &scope);
	return ret;
}

static int release_on(struct cuda_import *ci, uint32_t access,
		      cuda_stream stream, int *fence)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);
	bool makes_fence = dev->caps.fences_out && fence && !ci->base.unfenced;
	bool writes = cuda_copies(ci) && access & DLBUF_WRITE;
	int out = -1, ret = 0, end;

	if (writes)
		ret = cuda_copy_out(ci, stream, &out);
	/* After the bridge's own copy -1 is complete. */
	if (!ret && makes_fence && !(writes && ci->memory->buffer))
		ret = cuda_bridge_out(dev, NULL, stream, &out);
	/* Also after a failure: then it is waited for. */
	end = cuda_work_add(ci, access, stream,
			    makes_fence || ret ? NULL : fence);
	if (ret) {
		CUDA_DO(dev, StreamSynchronize, stream);
		return ret;
	}
	if (makes_fence)
		*fence = out;
	return end;
}

static void close_copy(struct cuda_import *ci)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);

	pthread_mutex_lock(&dev->lock);
	ci->open--;
	pthread_mutex_unlock(&dev->lock);
}

/* The caller has waited for his work, but not for our copy if there was none. */
static int release_unordered(struct cuda_import *ci, uint32_t access)
{
	struct cuda_device *dev = to_cuda(ci->base.dev);
	struct cuda_scope scope;
	int ret;

	if (!cuda_copies(ci))
		return 0;
	close_copy(ci);
	ret = cuda_enter(dev, &scope);
	if (!ret) {
		ret = CUDA_DO(dev, EventSynchronize, ci->copied);
		cuda_leave(dev, &scope);
	}
	if (ret)
		cuda_set_unsure(dev);
	return ret || !(access & DLBUF_WRITE) ? ret :
	       fail(-EINVAL, "%s: a copy is written back on a stream, -1 is "
		    "none", dev->base.name);
}

int cuda_release(struct import *imp, uint32_t access, void *stream, int *fence)
{
	struct cuda_import *ci = cuda_import_of(imp);
	struct cuda_device *dev = to_cuda(imp->dev);
	struct cuda_scope scope;
	int ret;

	if (fence)
		*fence = -1;
	if (cuda_unordered(stream))
		return release_unordered(ci, access);
	ret = cuda_enter(dev, &scope);
	if (!ret) {
		ret = release_on(ci, access, stream_of(stream), fence);
		cuda_leave(dev, &scope);
	} else {
		cuda_set_unsure(dev);
	}
	if (cuda_copies(ci))
		close_copy(ci);
	return ret;
}

int cuda_wait(struct import *imp, uint32_t access, uint64_t deadline_ns)
{
	struct cuda_device *dev = to_cuda(imp->dev);
	struct cuda_scope scope;
	int ret;

	ret = cuda_enter(dev, &scope);
	if (ret)
		return ret;
	ret = cuda_work_wait(cuda_import_of(imp), access, deadline_ns);
	cuda_leave(dev, &scope);
	return ret;
}
