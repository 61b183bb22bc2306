// SPDX-License-Identifier: MIT
/*
 * Accesses to a tensor's memory by a Level Zero device: copies between the tensor and
 * host memory, on dlbuf's own command list.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/levelzero.h>

#include "backends/levelzero/api.h"
#include "access.h"

static struct levelzero_api lz;

static const char *library(void)
{
	const char *file = getenv("DLBUF_LEVELZERO_LIBRARY");

	return file ? file : "libze_loader.so.1";
}

static int load_all(void)
{
	static const char *const names[] = {
#define X(name, needed, type) "ze" #name,
		LEVELZERO_FUNCTIONS(X)
#undef X
	};
	void *lib = dlopen(library(), RTLD_NOW), *sym;

	if (!lib)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		sym = dlsym(lib, names[i]);
		memcpy((char *)&lz + i * sizeof(sym), &sym, sizeof(sym));
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
	struct dlbuf_levelzero_device dev;
	ze_event_pool_handle_t pool;
	ze_event_handle_t event;
	void *at, *staging;
	size_t bytes;
};

static int check(ze_result_t result)
{
	return result ? -EIO : 0;
}

static int copy_begin(struct copy *c, DLManagedTensorVersioned *t,
		      uint64_t offset, size_t bytes)
{
	const ze_host_mem_alloc_desc_t host = {
		.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
	};
	const ze_event_pool_desc_t pool = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
		.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
		.count = 1,
	};
	const ze_event_desc_t event = {
		.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
		.signal = ZE_EVENT_SCOPE_FLAG_HOST,
	};
	DLBUF_INFO(dlbuf_tensor_info, info);
	int ret;

	pthread_once(&once, load_once);
	*c = (struct copy){ .dev.size = sizeof(c->dev), .bytes = bytes };
	ret = loaded;
	if (!ret)
		ret = dlbuf_tensor_get_info(t, &info);
	if (!ret)
		ret = dlbuf_levelzero_get_device(info.device, &c->dev);
	if (ret)
		return ret;
	c->at = (char *)t->dl_tensor.data - info.first + offset;
	return check(lz.MemAllocHost(c->dev.context, &host, bytes, 0,
				     &c->staging) ||
		     lz.EventPoolCreate(c->dev.context, &pool, 0, NULL,
					&c->pool) ||
		     lz.EventCreate(c->pool, &event, &c->event));
}

static void copy_end(struct copy *c)
{
	if (c->event)
		lz.EventDestroy(c->event);
	if (c->pool)
		lz.EventPoolDestroy(c->pool);
	if (c->staging)
		lz.MemFree(c->dev.context, c->staging);
}

static int copy_submit(struct copy *c, bool out)
{
	ze_command_list_handle_t list = c->dev.list;

	return check(lz.CommandListAppendMemoryCopy(list,
				out ? c->staging : c->at,
				out ? c->at : c->staging, c->bytes, NULL, 0,
				NULL) ||
		     lz.CommandListAppendBarrier(list, c->event, 0, NULL));
}

static int copy_wait(struct copy *c)
{
	return check(lz.EventHostSynchronize(c->event, UINT64_MAX));
}

static int levelzero_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
			  size_t bytes)
{
	struct copy c;
	int ret = copy_begin(&c, t, offset, bytes);

	if (!ret)
		ret = copy_submit(&c, true);
	if (!ret)
		ret = copy_wait(&c);
	if (!ret)
		memcpy(dst, c.staging, bytes);
	copy_end(&c);
	return ret;
}

static int levelzero_write(DLManagedTensorVersioned *t, uint64_t offset,
			   const void *src, size_t bytes)
{
	struct copy c;
	int ret = copy_begin(&c, t, offset, bytes);

	if (!ret) {
		memcpy(c.staging, src, bytes);
		ret = copy_submit(&c, false);
	}
	if (!ret)
		ret = copy_wait(&c);
	copy_end(&c);
	return ret;
}

/* Writes the bytes at src. If src is NULL, it reads. */
static int levelzero_submit_write(DLManagedTensorVersioned *t, uint64_t offset,
				  const void *src, size_t bytes, void **job)
{
	struct copy *c = calloc(1, sizeof(*c));
	int ret = c ? copy_begin(c, t, offset, bytes) : -ENOMEM;

	if (!ret && src)
		memcpy(c->staging, src, bytes);
	if (!ret)
		ret = copy_submit(c, !src);
	if (ret && c)
		copy_end(c);
	if (ret)
		free(c);
	else
		*job = c;
	return ret;
}

static int levelzero_submit_read(DLManagedTensorVersioned *t, uint64_t offset,
				 size_t bytes, void **job)
{
	return levelzero_submit_write(t, offset, NULL, bytes, job);
}

static bool levelzero_job_done(void *job)
{
	return lz.EventQueryStatus(((struct copy *)job)->event) != ZE_RESULT_NOT_READY;
}

static int levelzero_finish_read(void *job, void *dst, size_t bytes)
{
	struct copy *c = job;
	int ret = copy_wait(c);

	if (!ret)
		memcpy(dst, c->staging, bytes);
	copy_end(c);
	free(c);
	return ret;
}

/*
 * The loader keeps its driver from the first use on; the double does not, if it replaces the
 * loader.
 */
static bool levelzero_prepare(void)
{
	void *lib = dlopen(library(), RTLD_NOW);

	return !lib || !dlsym(lib, "fake_levelzero");
}

const struct access access_levelzero = {
	.backend = "levelzero",
	.reads_by = "zeCommandListAppendMemoryCopy",
	.read = levelzero_read,
	.write = levelzero_write,
	.submit_read = levelzero_submit_read,
	.submit_write = levelzero_submit_write,
	.job_done = levelzero_job_done,
	.finish_read = levelzero_finish_read,
	.prepare = levelzero_prepare,
	.fences_early = true,
	.no_children = true,
};
