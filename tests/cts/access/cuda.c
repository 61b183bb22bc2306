// SPDX-License-Identifier: MIT
/*
 * How a CUDA device touches a tensor's memory: its copy engine, between the
 * tensor and pinned memory, on the legacy default stream.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/cuda.h>

#include "backends/cuda/abi.h"
#include "cts/cts.h"

static struct {
	cuda_result (*push)(cuda_context ctx);
	cuda_result (*pop)(cuda_context *ctx);
	cuda_result (*host_alloc)(void **p, size_t bytes, unsigned int flags);
	cuda_result (*free_host)(void *p);
	cuda_result (*from_device)(void *to, cuda_pointer from, size_t bytes,
				   cuda_stream stream);
	cuda_result (*to_device)(cuda_pointer to, const void *from,
				 size_t bytes, cuda_stream stream);
	cuda_result (*event_create)(cuda_event *event, unsigned int flags);
	cuda_result (*event_destroy)(cuda_event event);
	cuda_result (*event_record)(cuda_event event, cuda_stream stream);
	cuda_result (*event_query)(cuda_event event);
	cuda_result (*event_synchronize)(cuda_event event);
} cu;

static int load_all(void)
{
	static const struct {
		const char *name;
		void *fn;
	} list[] = {
		{ "cuCtxPushCurrent_v2", &cu.push },
		{ "cuCtxPopCurrent_v2", &cu.pop },
		{ "cuMemHostAlloc", &cu.host_alloc },
		{ "cuMemFreeHost", &cu.free_host },
		{ "cuMemcpyDtoHAsync_v2", &cu.from_device },
		{ "cuMemcpyHtoDAsync_v2", &cu.to_device },
		{ "cuEventCreate", &cu.event_create },
		{ "cuEventDestroy_v2", &cu.event_destroy },
		{ "cuEventRecord", &cu.event_record },
		{ "cuEventQuery", &cu.event_query },
		{ "cuEventSynchronize", &cu.event_synchronize },
	};
	const char *file = getenv("DLBUF_CUDA_LIBRARY");
	void *lib = dlopen(file ? file : "libcuda.so.1", RTLD_NOW);

	if (!lib)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		void *sym = dlsym(lib, list[i].name);

		if (!sym)
			return -ENOENT;
		memcpy(list[i].fn, &sym, sizeof(sym));
	}
	return 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded;

static void load_once(void)
{
	loaded = load_all();
}

struct copy {
	cuda_context context;
	cuda_pointer at;
	void *staging;
	cuda_event event;
};

static int copy_begin(struct copy *c, DLManagedTensorVersioned *t,
		      uint64_t offset, size_t bytes)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_cuda_device, dev);
	int ret;

	pthread_once(&once, load_once);
	ret = loaded;
	if (!ret)
		ret = dlbuf_tensor_get_info(t, &info);
	if (!ret)
		ret = dlbuf_cuda_get_device(info.device, &dev);
	if (ret)
		return ret;
	*c = (struct copy){ .context = dev.context };
	c->at = (uintptr_t)t->dl_tensor.data - info.first + offset;
	if (cu.push(c->context))
		return -EIO;
	if (cu.host_alloc(&c->staging, bytes, 0) ||
	    cu.event_create(&c->event, CUABI_EVENT_DISABLE_TIMING))
		return -EIO;
	return 0;
}

static void copy_end(struct copy *c)
{
	cuda_context popped;

	if (c->event)
		cu.event_destroy(c->event);
	if (c->staging)
		cu.free_host(c->staging);
	if (c->context)
		cu.pop(&popped);
}

static int finish(struct copy *c, cuda_result result)
{
	if (result || cu.event_record(c->event, CUABI_STREAM_LEGACY) ||
	    cu.event_synchronize(c->event))
		return -EIO;
	return 0;
}

static int cuda_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		     size_t bytes)
{
	struct copy c = { 0 };
	int ret = copy_begin(&c, t, offset, bytes);

	if (!ret)
		ret = finish(&c, cu.from_device(c.staging, c.at, bytes,
						CUABI_STREAM_LEGACY));
	if (!ret)
		memcpy(dst, c.staging, bytes);
	copy_end(&c);
	return ret;
}

static int cuda_write(DLManagedTensorVersioned *t, uint64_t offset,
		      const void *src, size_t bytes)
{
	struct copy c = { 0 };
	int ret = copy_begin(&c, t, offset, bytes);

	if (!ret) {
		memcpy(c.staging, src, bytes);
		ret = finish(&c, cu.to_device(c.at, c.staging, bytes,
					      CUABI_STREAM_LEGACY));
	}
	copy_end(&c);
	return ret;
}

static int cuda_submit_read(DLManagedTensorVersioned *t, uint64_t offset,
			    size_t bytes, void **job)
{
	struct copy *c = calloc(1, sizeof(*c));
	cuda_context popped;
	int ret = c ? copy_begin(c, t, offset, bytes) : -ENOMEM;

	if (!ret && (cu.from_device(c->staging, c->at, bytes,
				    CUABI_STREAM_LEGACY) ||
		     cu.event_record(c->event, CUABI_STREAM_LEGACY)))
		ret = -EIO;
	if (ret) {
		if (c)
			copy_end(c);
		free(c);
		return ret;
	}
	cu.pop(&popped);
	*job = c;
	return 0;
}

static bool cuda_job_done(void *job)
{
	struct copy *c = job;

	return cu.event_query(c->event) == CUABI_SUCCESS;
}

static int cuda_finish_read(void *job, void *dst, size_t bytes)
{
	struct copy *c = job;
	int ret = 0;

	if (cu.push(c->context) || cu.event_synchronize(c->event))
		ret = -EIO;
	else
		memcpy(dst, c->staging, bytes);
	copy_end(c);
	free(c);
	return ret;
}

/*
 * A real driver keeps files and memory from its first use on; and none may be
 * used before a fork(), so that this cannot be had first. The double gives all
 * of it back.
 */
static void cuda_prepare(void)
{
	const char *file = getenv("DLBUF_CUDA_LIBRARY");
	void *lib = dlopen(file ? file : "libcuda.so.1", RTLD_NOW);

	if (!lib || !dlsym(lib, "fake_cuda"))
		KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the driver's");
}

const struct cts_access cts_cuda = {
	.backend = "cuda",
	.read = cuda_read,
	.write = cuda_write,
	.submit_read = cuda_submit_read,
	.job_done = cuda_job_done,
	.finish_read = cuda_finish_read,
	.prepare = cuda_prepare,
	.wants_memfds = true,
	.fences_early = true,
	.no_children = true,
};
