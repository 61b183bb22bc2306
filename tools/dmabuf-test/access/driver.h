/* SPDX-License-Identifier: MIT */
/*
 * Accesses to a tensor's memory by a device of a driver with streams: its copy
 * engine copies between the tensor and pinned memory, on the default stream. CUDA's
 * and HIP's functions differ only in their names.
 *
 * The file that includes this defines CALLS, the functions' names in the order of
 * struct calls; LIBRARY and its VARIABLE, DOUBLE, a function that only the double has;
 * STREAM; and enter(), which makes the device current and keeps in `scope` what leave()
 * needs.
 */
#ifndef DMABUF_TEST_ACCESS_DRIVER_H
#define DMABUF_TEST_ACCESS_DRIVER_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"

static struct calls {
	int (*host_alloc)(void **p, size_t bytes, unsigned int flags);
	int (*free_host)(void *p);
	int (*from_device)(void *to, uintptr_t from, size_t bytes, void *stream);
	int (*to_device)(uintptr_t to, const void *from, size_t bytes, void *stream);
	int (*event_create)(void **event, unsigned int flags);
	int (*event_destroy)(void *event);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_synchronize)(void *event);
} calls;

#define DISABLE_TIMING 2	/* a flag of events */
#define NOT_READY 600

static int load_symbols(const char *const *names, void *table, size_t n)
{
	const char *file = getenv(VARIABLE);
	void *lib = dlopen(file ? file : LIBRARY, RTLD_NOW), *sym;

	for (size_t i = 0; i < n; i++) {
		sym = lib ? dlsym(lib, names[i]) : NULL;
		if (!sym)
			return -ENOENT;
		memcpy((char *)table + i * sizeof(sym), &sym, sizeof(sym));
	}
	return 0;
}

static int enter(struct dlbuf_device *dev, void **scope);
static void leave(void **scope);
static int load_scope(void);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded;

static void load_once(void)
{
	static const char *const names[] = { CALLS };

	loaded = load_symbols(names, &calls, sizeof(names) / sizeof(names[0]));
	if (!loaded)
		loaded = load_scope();
}

struct copy {
	struct dlbuf_device *dev;
	void *scope;
	bool entered;
	uintptr_t at;
	void *staging, *event;
};

static int copy_enter(struct copy *c)
{
	int ret = enter(c->dev, &c->scope);

	c->entered = !ret;
	return ret;
}

static int copy_begin(struct copy *c, DLManagedTensorVersioned *t,
		      uint64_t offset, size_t bytes)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	int ret;

	pthread_once(&once, load_once);
	ret = loaded;
	if (!ret)
		ret = dlbuf_tensor_get_info(t, &info);
	if (ret)
		return ret;
	*c = (struct copy){ .dev = info.device };
	c->at = (uintptr_t)t->dl_tensor.data - info.first + offset;
	ret = copy_enter(c);
	if (!ret && (calls.host_alloc(&c->staging, bytes, 0) ||
		     calls.event_create(&c->event, DISABLE_TIMING)))
		ret = -EIO;
	return ret;
}

static void copy_end(struct copy *c)
{
	if (c->event)
		calls.event_destroy(c->event);
	if (c->staging)
		calls.free_host(c->staging);
	if (c->entered)
		leave(&c->scope);
}

static int finish(struct copy *c, int result)
{
	if (result || calls.event_record(c->event, STREAM) ||
	    calls.event_synchronize(c->event))
		return -EIO;
	return 0;
}

static int device_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		       size_t bytes)
{
	struct copy c = { 0 };
	int ret = copy_begin(&c, t, offset, bytes);

	if (!ret)
		ret = finish(&c, calls.from_device(c.staging, c.at, bytes, STREAM));
	if (!ret)
		memcpy(dst, c.staging, bytes);
	copy_end(&c);
	return ret;
}

static int device_write(DLManagedTensorVersioned *t, uint64_t offset,
			const void *src, size_t bytes)
{
	struct copy c = { 0 };
	int ret = copy_begin(&c, t, offset, bytes);

	if (!ret) {
		memcpy(c.staging, src, bytes);
		ret = finish(&c, calls.to_device(c.at, c.staging, bytes, STREAM));
	}
	copy_end(&c);
	return ret;
}

/* Writes the bytes at src. If src is NULL, it reads. */
static int device_submit_write(DLManagedTensorVersioned *t, uint64_t offset,
			       const void *src, size_t bytes, void **job)
{
	struct copy *c = calloc(1, sizeof(*c));
	int ret = c ? copy_begin(c, t, offset, bytes) : -ENOMEM;

	if (!ret && src)
		memcpy(c->staging, src, bytes);
	if (!ret && ((src ? calls.to_device(c->at, c->staging, bytes, STREAM) :
			    calls.from_device(c->staging, c->at, bytes, STREAM)) ||
		     calls.event_record(c->event, STREAM)))
		ret = -EIO;
	if (ret) {
		if (c)
			copy_end(c);
		free(c);
		return ret;
	}
	leave(&c->scope);
	c->entered = false;
	*job = c;
	return 0;
}

static int device_submit_read(DLManagedTensorVersioned *t, uint64_t offset,
			      size_t bytes, void **job)
{
	return device_submit_write(t, offset, NULL, bytes, job);
}

static bool device_job_done(void *job)
{
	struct copy *c = job;

	return calls.event_query(c->event) != NOT_READY;
}

static int device_finish_read(void *job, void *dst, size_t bytes)
{
	struct copy *c = job;
	int ret = copy_enter(c);

	if (ret || calls.event_synchronize(c->event))
		ret = -EIO;
	else
		memcpy(dst, c->staging, bytes);
	copy_end(c);
	free(c);
	return ret;
}

/*
 * A real driver keeps files and memory from its first use on, and cannot be
 * used before a fork(), so this cannot be done in advance. The double frees all
 * of it.
 */
static bool device_prepare(void)
{
	const char *file = getenv(VARIABLE);
	void *lib = dlopen(file ? file : LIBRARY, RTLD_NOW);

	return !lib || !dlsym(lib, DOUBLE);
}

#define ACCESS(name, call)						\
	const struct access access_##name = {				\
		.backend = #name,					\
		.reads_by = call,					\
		.read = device_read,					\
		.write = device_write,					\
		.submit_read = device_submit_read,			\
		.submit_write = device_submit_write,			\
		.job_done = device_job_done,				\
		.finish_read = device_finish_read,			\
		.prepare = device_prepare,				\
		.wants_memfds = true,					\
		.fences_early = true,					\
		.no_children = true,					\
	}

#endif /* DMABUF_TEST_ACCESS_DRIVER_H */
