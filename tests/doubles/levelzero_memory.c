// SPDX-License-Identifier: MIT
/* See levelzero.h: USM memory, imports and exports of dma-bufs. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "levelzero_objects.h"

#define PAGE ((size_t)64 << 10)	/* of the device */
#define POOL_BYTES ((size_t)2 << 20)

struct range *ranges;
static struct range *pool;	/* that small allocations are parts of */

struct range *range_of(const void *p)
{
	struct range *r = ranges;

	while (r && !((uint8_t *)p >= r->at &&
		      (size_t)((uint8_t *)p - r->at) < r->bytes))
		r = r->next;
	return r;
}

static struct range *range_make(enum fake_kind kind, struct context *ctx,
				void *at, size_t bytes)
{
	struct range *r = make(kind, sizeof(*r), ctx, false);

	r->at = at;
	r->bytes = bytes;
	r->fd = r->exported = -1;
	r->next = ranges;
	ranges = r;
	return r;
}

void range_free(struct object *o)
{
	struct range *r = (struct range *)o, **link = &ranges, *whole = r->pool;

	while (*link && *link != r)
		link = &(*link)->next;
	if (*link)
		*link = r->next;
	unmake(o);
	if (r->mapped)
		munmap(r->at, r->mapped);
	if (r->fd >= 0)
		close(r->fd);
	if (r->exported >= 0)
		close(r->exported);
	if (whole && !--whole->parts) {
		pool = NULL;
		range_free(&whole->object);
	}
}

/* ---------------------------------------------------------------- new memory */

/* Whole pages of the device, above 2 MiB whole pools, of a memfd that can be a udmabuf. */
static struct range *memory_make(enum fake_kind kind, struct context *ctx,
				 size_t bytes)
{
	size_t all = align_up(bytes, bytes > POOL_BYTES ? POOL_BYTES : PAGE);
	int fd = memory_fd("usm", all);
	void *at = fd < 0 ? NULL : reserve(all, all < POOL_BYTES ? PAGE : POOL_BYTES);
	struct range *r;

	if (!at || mmap(at, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			fd, 0) != at)
		return NULL;
	r = range_make(kind, ctx, at, bytes);
	r->mapped = all;
	r->fd = fd;
	return r;
}

static struct range *part_make(struct context *ctx, size_t bytes)
{
	struct range *r;

	if (!pool) {
		pool = memory_make(FAKE_DEVICE_MEMORY, ctx, POOL_BYTES);
		/* Found by its parts only, and not the application's. */
		ranges = pool->next;
		pool->object.ours = true;
		fake.live[FAKE_DEVICE_MEMORY]--;
		fake.made[FAKE_DEVICE_MEMORY]--;
	}
	if (bytes > POOL_BYTES - pool->used)
		return memory_make(FAKE_DEVICE_MEMORY, ctx, bytes);
	r = range_make(FAKE_DEVICE_MEMORY, ctx, pool->at + pool->used, bytes);
	pool->used += align_up(bytes, 4096);
	pool->parts++;
	r->pool = pool;
	return r;
}

/* The size is the dma-buf's; the requested size is ignored. */
static ze_result_t import(struct context *ctx,
			  const ze_external_memory_import_fd_t *desc,
			  struct range **out)
{
	off_t bytes = lseek(desc->fd, 0, SEEK_END);
	uint8_t *at;

	if (desc->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF)
		return refuse(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
			      "not exactly one type, or not a dma-buf");
	if (fake.no_import)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	look_at_fd(desc->fd);
	if (!is_fit(desc->fd, fake.memfds))
		return refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "no dma-buf");
	at = map_fd(desc->fd, (size_t)bytes, PROT_READ | PROT_WRITE);
	if (!at)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	if (fake.wrong_pages)
		spoil_page(at + bytes - page_up(1));
	*out = range_make(FAKE_DEVICE_MEMORY, ctx, at, (size_t)bytes);
	(*out)->mapped = (size_t)bytes;
	(*out)->imported = true;
	close(desc->fd);
	return ZE_RESULT_SUCCESS;
}

ze_result_t zeMemAllocDevice(ze_context_handle_t handle,
			     const ze_device_mem_alloc_desc_t *desc, size_t bytes,
			     size_t alignment, ze_device_handle_t on, void **out)
{
	const ze_external_memory_export_desc_t *next = desc->pNext;
	struct device *device = device_of(on);
	struct range *r = NULL;

	BEGIN(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	if (!device || !bytes || alignment & (alignment - 1))
		return end(refuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
				  "no device, no bytes, or the alignment"));
	if (next && next->stype == ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD)
		result = import(ctx, desc->pNext, &r);
	else if (next && (next->stype !=
			  ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC ||
			  next->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF))
		result = refuse(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION, "pNext");
	else
		r = fake.pools && !next && bytes < POOL_BYTES ? part_make(ctx, bytes) :
			memory_make(FAKE_DEVICE_MEMORY, ctx, bytes);
	if (!result && !r)
		result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
	if (result)
		return end(result);
	r->device = device;
	r->exportable = next;
	*out = r->at;
	return end(ZE_RESULT_SUCCESS);
}

static ze_result_t map_sysmem(struct context *ctx,
			      const struct lzabi_memmap_sysmem *map,
			      bool read_only, struct range **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (fake.no_sysmem)
		return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
	if ((uintptr_t)map->memory % page || map->bytes % page)
		return refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "no whole pages");
	if (!is_mapped(map->memory, map->bytes))
		return refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "not mapped");
	*out = range_make(FAKE_HOST_MEMORY, ctx, map->memory, map->bytes);
	(*out)->read_only = read_only;
	return ZE_RESULT_SUCCESS;
}

/* Intel's. Neither a context's nor USM: queries do not know it, and zeMemFree() refuses it. */
ze_result_t zexDriverImportExternalPointer(ze_driver_handle_t handle, void *p, size_t bytes)
{
	BEGIN(NEEDS_ALL)
	if (!is_mapped(p, bytes) || range_of(p))
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
				  "not mapped, or known already"));
	range_make(FAKE_HOST_MEMORY, NULL, p, bytes);
	return end(result);
}

ze_result_t zexDriverReleaseImportedPointer(ze_driver_handle_t handle, void *p)
{
	struct range *r;

	BEGIN_FREE(NEEDS_ALL)
	r = range_of(p);
	if (!r || r->at != p || r->object.ctx)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "not imported"));
	range_free(&r->object);
	return end(result);
}

/* Above 2 MiB Intel's driver keeps a mapping, and returns it again, unmapped or not. */
static struct range stale;

ze_result_t zeMemAllocHost(ze_context_handle_t handle,
			   const ze_host_mem_alloc_desc_t *desc, size_t bytes,
			   size_t alignment, void **out)
{
	const struct lzabi_memmap_sysmem *next = desc->pNext;
	struct range *r = NULL;

	BEGIN(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	if (!bytes || alignment & (alignment - 1))
		return end(refuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
				  "no bytes, or the alignment"));
	if (next && (int)next->stype == LZABI_STYPE_EXTERNAL_MEMMAP_SYSMEM &&
	    !fake.ignore_sysmem)
		result = map_sysmem(ctx, next,
				    desc->flags & LZABI_HOST_MEM_READ_ONLY, &r);
	else if (bytes > POOL_BYTES && bytes <= stale.bytes)
		r = range_make(FAKE_HOST_MEMORY, ctx, stale.at, bytes);
	else
		r = memory_make(FAKE_HOST_MEMORY, ctx, bytes);
	if (!result && !r)
		result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
	if (!result)
		*out = r->at;
	return end(result);
}

ze_result_t zeMemFree(ze_context_handle_t handle, void *p)
{
	struct range *r;

	BEGIN_FREE(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	r = range_of(p);
	if (!r || r->at != p || r->object.ctx != ctx)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
				  "no allocation of this context begins there"));
	/* As Intel's driver: memory of its own is freed at once, in use or not. */
	if (r->imported)
		wait_to_free(&r->object);
	else if (!r->mapped && !r->pool)
		stale = *r;
	range_free(&r->object);
	return end(result);
}

/* ---------------------------------------------------------------- queries */

static int export_fd(const struct range *r)
{
	return fake.memfds ? fcntl(r->fd, F_DUPFD_CLOEXEC, 0) :
			     udmabuf_of(r->fd, 0, r->mapped);
}

static ze_result_t export(struct range *r, ze_external_memory_export_fd_t *out)
{
	struct range *whole = r->pool ? r->pool : r;

	if (out->stype != ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD ||
	    out->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF)
		return refuse(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION, "pNext");
	/* Intel's driver: memory that the application maps. */
	if (!r->device && whole->fd < 0)
		return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
	if (r->imported || whole->fd < 0 || (fake.no_export && !r->exportable))
		return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
	out->fd = whole->exported >= 0 ? whole->exported : export_fd(whole);
	if (fake.keeps_fd)
		whole->exported = out->fd;
	return out->fd < 0 ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY : ZE_RESULT_SUCCESS;
}

ze_result_t zeMemGetAllocProperties(ze_context_handle_t handle, const void *p,
				    ze_memory_allocation_properties_t *props,
				    ze_device_handle_t *device)
{
	struct range *r;

	BEGIN(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	r = range_of(p);
	if (r && r->object.ctx != ctx)
		r = NULL;
	props->type = !r ? ZE_MEMORY_TYPE_UNKNOWN :
		      fake.shared ? ZE_MEMORY_TYPE_SHARED :
		      r->device ? ZE_MEMORY_TYPE_DEVICE : ZE_MEMORY_TYPE_HOST;
	if (device)
		*device = r ? (ze_device_handle_t)r->device : NULL;
	if (r && props->pNext)
		result = export(r, props->pNext);
	return end(result);
}

ze_result_t zeMemGetAddressRange(ze_context_handle_t handle, const void *p,
				 void **at, size_t *bytes)
{
	struct range *r;

	BEGIN(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	r = range_of(p);
	if (!r || r->object.ctx != ctx)
		return end((ze_result_t)LZABI_RESULT_ADDRESS_NOT_FOUND);
	*at = r->at;
	*bytes = r->bytes;
	return end(ZE_RESULT_SUCCESS);
}
