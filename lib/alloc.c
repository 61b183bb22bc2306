// SPDX-License-Identifier: MIT
/* Allocates dma-bufs that all given devices can import. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/dma-buf.h>

#include <dlbuf/alloc.h>
#include <dlbuf/layout.h>

#include "backend.h"
#include "exporter.h"
#include "internal.h"
#include "memory.h"
#include "sys.h"
#include "tensor.h"
#include "uapi.h"

/*
 * generated/exporters.h is made from the symbols of Kconfig. It has EXPORTER(heap) for
 * an exporter that is built, and EXPORTER_OFF(heap) for one that is not.
 */
#define EXPORTER(name) extern const struct exporter name##_exporter;
#define EXPORTER_OFF(word) \
	static const struct exporter word##_exporter = { .name = #word };
#include "generated/exporters.h"
#undef EXPORTER
#undef EXPORTER_OFF

static const struct exporter *const exporters[] = {
#define EXPORTER(name) &name##_exporter,
#define EXPORTER_OFF(name) EXPORTER(name)
#include "generated/exporters.h"
};

/* Tried in this order if the caller names none. */
static const char defaults[][12] = { "udmabuf", "heap:system" };

int exporter_check_size(uint64_t bytes)
{
	uint64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (bytes / page > pages)
		return fail(-ENOMEM, "%llu bytes are more than this machine's "
			    "memory, %llu", (unsigned long long)bytes,
			    (unsigned long long)pages * page);
	return 0;
}

int exporter_set_name(int fd, const char *name)
{
	/* The argument is an address. _A and _B differ only in the pointer's size. */
	if (sys_ioctl(fd, DMA_BUF_SET_NAME_B, (void *)name) < 0)
		return fail(-EIO, "DMA_BUF_SET_NAME '%s': %m", name);
	return 0;
}

int exporter_check_name(const char *name)
{
	if (name && strlen(name) >= DMA_BUF_NAME_LEN)
		return fail(-EINVAL, "the name '%s' is longer than %d bytes",
			    name, DMA_BUF_NAME_LEN - 1);
	return 0;
}

static int opts_get_alloc(struct dlbuf_alloc_opts *ours,
			  const struct dlbuf_alloc_opts *src)
{
	int ret = OPTS_GET(ours, src, "dlbuf_alloc_opts");

	if (!ret && ours->flags)
		ret = unknown_flags("alloc", ours->flags);
	return ret ? ret : exporter_check_name(ours->name);
}

static void close_memfd(int memfd)
{
	if (memfd < 0)
		return;
	memory_forget(memfd);
	close(memfd);
}

static int alloc_from(const char *exporter, uint64_t bytes, const char *name,
		      int *fd, int *memfd)
{
	size_t len = strcspn(exporter, ":");

	for (size_t i = 0; i < ARRAY_SIZE(exporters); i++) {
		const struct exporter *e = exporters[i];

		if (strlen(e->name) != len || strncmp(e->name, exporter, len))
			continue;
		if (!e->alloc)
			return fail(-ENOSYS, "exporter %s is not built into "
				    "this library", e->name);
		return e->alloc(exporter[len] ? exporter + len + 1 : "", bytes,
				name, fd, memfd);
	}
	return fail(-EINVAL, "no exporter is named '%s'", exporter);
}

int dlbuf_alloc_fd(uint64_t bytes, const struct dlbuf_alloc_opts *opts, int *fd)
{
	NOT_CANCELLED;
	struct dlbuf_alloc_opts o;
	int memfd = -1, ret;
	bool tried = false;

	if (!fd)
		return fail(-EINVAL, "fd is NULL");
	ret = opts_get_alloc(&o, opts);
	if (ret)
		return ret;
	if (!o.exporter)
		return fail(-EINVAL, "dlbuf_alloc_fd() needs an exporter");
	do
		ret = alloc_from(o.exporter, bytes, o.name, fd, &memfd);
	while (device_relieve(ret, &tried));
	close_memfd(memfd);
	return ret;
}

static int alloc_and_try(const char *exporter, uint64_t bytes,
			 const char *name, exporter_try_fn try, void *data,
			 int *out)
{
	int fd = -1, memfd = -1, ret;

	ret = alloc_from(exporter, bytes, name, &fd, &memfd);
	if (ret)
		return ret;
	ret = try(fd, data);
	close_memfd(memfd);
	if (!ret && out)
		*out = fd;
	else
		close(fd);
	return ret;
}

/*
 * If no exporter works, the error text has the reason of each. The error is that of the
 * first exporter that exists and failed, because it says more than an absence.
 */
static int alloc_default(uint64_t bytes, const char *name, exporter_try_fn try,
			 void *data, int *fd)
{
	char said[ARRAY_SIZE(defaults)][200];
	int err = -ENOSYS;

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		int ret = alloc_and_try(defaults[i], bytes, name, try, data,
					fd);

		if (!ret)
			return 0;
		snprintf(said[i], sizeof(said[i]), "%s", dlbuf_last_error());
		log_at(DLBUF_LOG_INFO, "alloc: %s: %s", defaults[i], said[i]);
		if (err == -ENOSYS || (err == -ENODEV && ret != -ENOSYS))
			err = ret;
	}
	return fail(err, "%s: %s; %s: %s", defaults[0], said[0], defaults[1],
		    said[1]);
}

int exporter_try(const char *exporter, uint64_t bytes, const char *name,
		 exporter_try_fn try, void *data, int *fd)
{
	if (exporter)
		return alloc_and_try(exporter, bytes, name, try, data, fd);
	return alloc_default(bytes, name, try, data, fd);
}

struct request {
	struct dlbuf_device *const *devs;
	size_t ndevs;
	const DLTensor *layout;
	DLManagedTensorVersioned **tensors;
};

static int import_on_each(int fd, void *data)
{
	struct request *r = data;
	size_t done;
	int ret = 0;

	for (done = 0; done < r->ndevs; done++) {
		ret = tensor_import(r->devs[done], fd, r->layout, 0,
				    PATHS_SHARED | PATHS_BRIEF,
				    &r->tensors[done]);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	while (done--) {
		r->tensors[done]->deleter(r->tensors[done]);
		r->tensors[done] = NULL;
	}
	return ret;
}

int exporter_alloc(const char *exporter, struct dlbuf_device *const devs[],
		   size_t ndevs, const DLTensor *layout, uint64_t bytes,
		   const char *name, DLManagedTensorVersioned *tensors[],
		   int *fd)
{
	struct request request = { devs, ndevs, layout, tensors };
	uint32_t slack = 0;

	for (size_t i = 0; i < ndevs; i++)
		slack = devs[i]->slack > slack ? devs[i]->slack : slack;
	if (__builtin_add_overflow(bytes, slack, &bytes))
		return fail(-EOVERFLOW, "the size does not fit 64 bits with the "
			    "%u bytes that a device wants behind it", slack);
	return exporter_try(exporter, bytes, name, import_on_each, &request,
			    fd);
}

/* Allocates memory of the first device, which the others import. */
static int alloc_on_device(struct request *r, uint64_t bytes)
{
	struct dlbuf_device *dev = r->devs[0];
	struct request others = {
		r->devs + 1, r->ndevs - 1, r->layout, r->tensors + 1,
	};
	struct import *imp;
	struct tensor *t;
	uint64_t first, end;
	int ret;

	if (!dev->backend->alloc)
		return fail(-EOPNOTSUPP, "%s has no memory of its own to "
			    "allocate", dev->name);
	ret = dlbuf_layout_extent(r->layout, &first, &end);
	if (!ret)
		ret = import_alloc(dev, bytes, &imp);
	if (ret)
		return ret;
	cache_add(&dev->cache, imp);
	ret = tensor_create(imp, r->layout, first, end, NULL, NULL, &t);
	if (ret) {
		cache_unref(imp);
		return ret;
	}
	ret = import_on_each(imp->fd, &others);
	if (ret)
		t->versioned.deleter(&t->versioned);
	else
		r->tensors[0] = &t->versioned;
	return ret;
}

/* For a single device its own memory is best. */
static int alloc_for(struct request *r, const char *exporter, uint64_t bytes,
		     const char *name)
{
	int ret;

	if (exporter && !strcmp(exporter, "device"))
		return alloc_on_device(r, bytes);
	if (!exporter && r->ndevs == 1 && r->devs[0]->backend->alloc) {
		ret = alloc_on_device(r, bytes);
		if (!ret || ret == -ENOMEM)
			return ret;
		log_at(DLBUF_LOG_INFO, "alloc: %s", dlbuf_last_error());
		forget_failure();
	}
	return exporter_alloc(exporter, r->devs, r->ndevs, r->layout, bytes,
			      name, r->tensors, NULL);
}

int dlbuf_alloc(struct dlbuf_device *const devs[], size_t ndevs,
		const DLTensor *layout, const struct dlbuf_alloc_opts *opts,
		DLManagedTensorVersioned *tensors[])
{
	NOT_CANCELLED;
	DLManagedTensorVersioned **made;
	struct dlbuf_alloc_opts o;
	struct request request;
	uint64_t first, end;
	bool tried = false;
	int ret;

	if (!devs || !ndevs || !tensors)
		return fail(-EINVAL, "%s", !tensors ? "tensors is NULL" :
			    "no device is named");
	for (size_t i = 0; i < ndevs; i++) {
		ret = devs[i] ? device_check(devs[i]) :
		      fail(-EINVAL, "devs[%zu] is NULL", i);
		if (ret)
			return ret;
	}
	ret = opts_get_alloc(&o, opts);
	if (!ret)
		ret = dlbuf_layout_extent(layout, &first, &end);
	if (ret)
		return ret;
	made = sys_calloc(ndevs, sizeof(*made));
	if (!made)
		return -ENOMEM;
	if (!end)
		end = 1; /* a tensor without elements needs a buffer too */
	request = (struct request){ devs, ndevs, layout, made };
	do
		ret = alloc_for(&request, o.exporter, end, o.name);
	while (device_relieve(ret, &tried));
	for (size_t i = 0; !ret && i < ndevs; i++)
		tensors[i] = made[i];
	free(made);
	return ret;
}

struct walk {
	dlbuf_exporter_fn fn;
	void *data;
};

static int report(const char *name, const char *node, void *data)
{
	struct dlbuf_exporter_info info = { .size = sizeof(info) };
	struct walk *walk = data;
	int fd = -1, memfd = -1;

	snprintf(info.name, sizeof(info.name), "%s", name);
	snprintf(info.node, sizeof(info.node), "%s", node);
	/* Probes by an allocation. */
	info.status = alloc_from(name, 1, NULL, &fd, &memfd);
	if (!info.status) {
		close(fd);
		close_memfd(memfd);
	} else {
		snprintf(info.reason, sizeof(info.reason), "%s",
			 dlbuf_last_error());
		forget_failure();
	}
	return walk->fn(&info, walk->data);
}

int dlbuf_exporter_each(dlbuf_exporter_fn fn, void *data)
{
	NOT_CANCELLED;
	struct walk walk = { .fn = fn, .data = data };
	int ret = 0;

	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	for (size_t i = 0; !ret && i < ARRAY_SIZE(exporters); i++)
		if (exporters[i]->each)
			ret = exporters[i]->each(report, &walk);
	return ret;
}
