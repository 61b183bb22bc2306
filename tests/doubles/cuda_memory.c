// SPDX-License-Identifier: MIT
/* See cuda.h: memory of the device, of the host, and access to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_objects.h"

#define BLOCK_BYTES ((size_t)2 << 20)
#define ALLOC_ALIGN 512

/* The block that small allocations share, as in the driver: a memfd and addresses. */
struct block {
	struct block *next;
	struct context *ctx;
	int fd;
	uint8_t *bytes;
	uintptr_t address;
	size_t size, used;
	unsigned int users;
	bool shared, exported;
};

struct range *ranges;
static struct block *blocks;

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---------------------------------------------------------------- ranges */

static bool covers(uintptr_t from, size_t bytes, uintptr_t p)
{
	return p >= from && p - from < bytes;
}

struct range *range_of_device(uintptr_t address)
{
	struct range *r = ranges;

	while (r && !covers(r->address, r->bytes, address))
		r = r->next;
	return r;
}

struct range *range_of_host(uintptr_t pointer)
{
	struct range *r = ranges;

	while (r && !(r->pointer &&
		      covers((uintptr_t)r->pointer, r->bytes, pointer)))
		r = r->next;
	return r;
}

struct range *range_make(enum fake_kind kind, uintptr_t address, size_t bytes)
{
	struct range *r = make(kind, sizeof(*r), current(), false);

	r->object.is_there = range_is_mapped;
	r->address = address;
	r->bytes = bytes;
	r->fd = -1;
	r->next = ranges;
	ranges = r;
	return r;
}

static void block_put(struct block *b)
{
	struct block **link = &blocks;

	if (--b->users)
		return;
	b->used = 0;
	/* No other process has memory of other blocks, and a kept block holds an fd. */
	if (fake.keeps_blocks && b->shared && b->exported)
		return;
	while (*link != b)
		link = &(*link)->next;
	*link = b->next;
	munmap(b->bytes, b->size);
	munmap((void *)b->address, b->size);
	close(b->fd);
	free(b);
}

void range_free(struct object *o)
{
	struct range *r = (struct range *)o, **link = &ranges;

	while (*link != r)
		link = &(*link)->next;
	*link = r->next;
	unmake(&r->object);
	if (r->block)
		block_put(r->block);
	if (r->external)
		r->external->nbuffers--;
	if (r->reserved)
		munmap((void *)(r->address - r->address % page_bytes()),
		       r->reserved);
	if (r->object.kind == FAKE_HOST_MEMORY || r->managed)
		munmap(r->pointer, page_up(r->bytes));
	if (r->fd >= 0)
		close(r->fd);
}

/* ---------------------------------------------------------------- cuMemAlloc */

static void *map(int fd, size_t bytes)
{
	return map_fd(fd, bytes, PROT_READ | PROT_WRITE);
}

static struct block *block_make(struct context *ctx, size_t size, bool shared)
{
	struct block *b = calloc(1, sizeof(*b));
	void *address;

	b->ctx = ctx;
	b->size = size;
	b->shared = shared;
	b->fd = memory_fd("cuda memory", size);
	b->bytes = b->fd < 0 ? NULL : map(b->fd, size);
	address = b->bytes ? reserve(size, BLOCK_BYTES) : NULL;
	if (!address) {
		if (b->bytes)
			munmap(b->bytes, size);
		if (b->fd >= 0)
			close(b->fd);
		free(b);
		return NULL;
	}
	b->address = (uintptr_t)address;
	b->next = blocks;
	blocks = b;
	return b;
}

void blocks_drop(void)
{
	struct block *b = blocks;

	fake.keeps_blocks = false;
	while (b && b->users)
		b = b->next;
	if (!b)
		return;
	b->users = 1;
	block_put(b);
	blocks_drop();
}

/* A block with room; one more user of it. */
static struct block *block_get(struct context *ctx, size_t bytes)
{
	struct block *b = blocks;

	/* A memfd in place of a dma-buf has the dma-buf's begin and end. */
	if (fake.memfd_exports && !fake.keeps_blocks && !(bytes % page_bytes()))
		b = block_make(ctx, bytes, false);
	else if (bytes >= BLOCK_BYTES + fake.keeps_blocks)
		b = block_make(ctx, align_up(bytes, BLOCK_BYTES), false);
	else
		while (b && !(b->shared && b->ctx == ctx &&
			      b->size - b->used >= bytes))
			b = b->next;
	if (!b)
		b = block_make(ctx, BLOCK_BYTES, true);
	if (b)
		b->users++;
	return b;
}

cuda_result cuMemAlloc_v2(cuda_pointer *p, size_t bytes)
{
	struct block *b;
	struct range *r;

	BEGIN(NEEDS_ALL | UNSAFE)
	if (!bytes)
		return end(refuse(CUABI_INVALID_VALUE, "no bytes"));
	if (bytes > SIZE_MAX / 4)
		return end(CUABI_OUT_OF_MEMORY);
	b = block_get(current(), bytes);
	if (!b)
		return end(CUABI_OUT_OF_MEMORY);
	r = range_make(FAKE_DEVICE_MEMORY, b->address + b->used, bytes);
	r->block = b;
	r->host = b->bytes + b->used;
	b->used += align_up(bytes, ALLOC_ALIGN);
	if (b->used > b->size)
		b->used = b->size;
	*p = r->address;
	return end(CUABI_SUCCESS);
}

cuda_result cuMemAllocManaged(cuda_pointer *p, size_t bytes, unsigned int flags)
{
	struct range *r;
	void *m;

	BEGIN(NEEDS_ALL | UNSAFE)
	if (!bytes || flags != CUABI_MEM_ATTACH_GLOBAL)
		return end(refuse(CUABI_INVALID_VALUE, "no bytes, or flags"));
	m = mmap(NULL, page_up(bytes), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return end(CUABI_OUT_OF_MEMORY);
	r = range_make(FAKE_DEVICE_MEMORY, (uintptr_t)m, bytes);
	r->host = r->pointer = m;
	r->managed = true;
	*p = r->address;
	return end(CUABI_SUCCESS);
}

cuda_result cuMemFree_v2(cuda_pointer p)
{
	struct range *r;

	BEGIN_FREE(NEEDS_ALL | UNSAFE)
	if (!p)
		return end(result);
	r = range_of_device(p);
	if (!r || r->address != p || (r->object.kind != FAKE_DEVICE_MEMORY &&
				      r->object.kind != FAKE_MAPPED_BUFFER))
		return end(refuse(CUABI_INVALID_VALUE,
				  "not what an allocation returned"));
	wait_to_free(&r->object);
	range_free(&r->object);
	return end(result);
}

cuda_result cuMemGetAddressRange_v2(cuda_pointer *base, size_t *bytes,
				    cuda_pointer p)
{
	struct range *r;
	size_t size;

	BEGIN(NEEDS_ALL)
	r = range_of_device(p);
	if (!r)
		return end(CUABI_NOT_FOUND);
	/* The piece around p that cuMemMap() has mapped. */
	size = fake.piece ? fake.piece : r->bytes;
	if (base)
		*base = p - (p - r->address) % size;
	if (bytes)
		*bytes = size;
	return end(CUABI_SUCCESS);
}

/* ---------------------------------------------------------------- the host's */

cuda_result cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	struct range *r;
	void *m = NULL;
	int fd;

	BEGIN(NEEDS_ALL | UNSAFE)
	if (!bytes || flags & ~7u)
		return end(refuse(CUABI_INVALID_VALUE, "no bytes, or flags"));
	fd = memory_fd("cuda host memory", page_up(bytes));
	if (fd >= 0)
		m = map(fd, page_up(bytes));
	if (!m) {
		if (fd >= 0)
			close(fd);
		return end(CUABI_OUT_OF_MEMORY);
	}
	r = range_make(FAKE_HOST_MEMORY, (uintptr_t)m, bytes);
	r->host = r->pointer = m;
	r->fd = fd;
	r->flags = flags;
	*p = m;
	return end(CUABI_SUCCESS);
}

cuda_result cuMemFreeHost(void *p)
{
	struct range *r;

	BEGIN_FREE(NEEDS_ALL | UNSAFE)
	r = range_of_host((uintptr_t)p);
	if (!r || r->pointer != p || r->object.kind != FAKE_HOST_MEMORY)
		return end(refuse(CUABI_INVALID_VALUE,
				  "not of cuMemHostAlloc()"));
	wait_to_free(&r->object);
	range_free(&r->object);
	return end(result);
}

/* The kernel's entry for a range of addresses. */
struct mapping {
	ino_t inode;	/* of its first file, 0 where it is of none */
	bool readable, writable; /* all of it */
	bool pfn;	/* some of it has no struct pages: VM_PFNMAP or VM_IO */
};

/* "VmFlags: rd wr sh mr ...": two letters each. */
static bool has_flag(const char *line, const char *flag)
{
	for (const char *c = strchr(line, ':'); c && c[1]; c = strchr(c + 1, ' '))
		if (!strncmp(c + 1, flag, 2))
			return true;
	return false;
}

/* Calls back with each line about a range of addresses. */
static void each_line(const char *path, uintptr_t from, size_t bytes,
		      void (*fn)(const char *line, struct mapping *m),
		      struct mapping *m)
{
	FILE *file = fopen(path, "re");
	unsigned long long start, stop;
	bool within = false;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &start, &stop) == 2)
			within = start < from + bytes && stop > from;
		if (within)
			fn(line, m);
	}
	if (file)
		fclose(file);
}

static void look_at_access(const char *line, struct mapping *m)
{
	unsigned long long inode;
	char access[5];

	if (sscanf(line, "%*x-%*x %4s %*x %*x:%*x %llu", access, &inode) != 2)
		return;
	if (access[0] != 'r')
		m->readable = false;
	if (access[1] != 'w')
		m->writable = false;
	if (!m->inode)
		m->inode = (ino_t)inode;
}

static void look_at_flags(const char *line, struct mapping *m)
{
	if (!strncmp(line, "VmFlags:", 8) &&
	    (has_flag(line, "pf") || has_flag(line, "io")))
		m->pfn = true;
}

/*
 * A mapping is of one kind from its begin to its end. smaps would say it of all
 * of them, and walks the page tables of the whole process first.
 */
static void look_at(uintptr_t from, size_t bytes, struct mapping *m)
{
	int first, last;

	*m = (struct mapping){ .readable = true, .writable = true };
	each_line("/proc/self/maps", from, bytes, look_at_access, m);
	if (!m->readable)
		return;
	first = is_pinned(from);
	last = is_pinned(from + bytes - 1);
	if (first >= 0 && last >= 0)
		m->pfn = !first || !last;
	else
		each_line("/proc/self/smaps", from, bytes, look_at_flags, m);
}

bool range_is_mapped(const struct object *o)
{
	const struct range *r = (const struct range *)o;
	struct mapping m = { .readable = true };

	if (!r->pointer)
		return true;
	if (!is_mapped(r->pointer, r->bytes))
		return false;
	if (r->object.kind != FAKE_REGISTRATION)
		return true;
	each_line("/proc/self/maps", (uintptr_t)r->pointer, r->bytes,
		  look_at_access, &m);
	return m.readable && m.inode == r->inode;
}

static bool overlaps(uintptr_t from, size_t bytes)
{
	for (struct range *r = ranges; r; r = r->next) {
		uintptr_t p = (uintptr_t)r->pointer;

		if (p && p < from + bytes && from < p + r->bytes)
			return true;
	}
	return false;
}

/* Whether the kernel would pin it. */
static cuda_result pin(void *p, size_t bytes, unsigned int flags)
{
	bool io = flags & CUABI_MEMHOSTREGISTER_IOMEMORY;
	struct mapping m;

	look_at((uintptr_t)p, bytes, &m);
	if (!is_mapped(p, bytes) || !m.readable)
		return refuse(CUABI_INVALID_VALUE, "it is not mapped");
	/* Nothing is pinned where the device walks the CPU's page tables. */
	if (device_of(current())->host_page_tables && !io)
		return CUABI_SUCCESS;
	if (io && !fake.privileged)
		return CUABI_NOT_PERMITTED;
	if (io != m.pfn)
		return CUABI_INVALID_VALUE;
	if (!m.writable && !(flags & CUABI_MEMHOSTREGISTER_READ_ONLY))
		return CUABI_INVALID_VALUE;
	return CUABI_SUCCESS;
}

cuda_result cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	uintptr_t from = (uintptr_t)p, address = from;
	size_t reserved = 0, page = page_bytes();
	struct mapping m;
	struct range *r;
	void *alias;

	BEGIN(NEEDS_ALL | UNSAFE)
	if (!p || !bytes || from + bytes < from || flags & ~15u)
		return end(refuse(CUABI_INVALID_VALUE,
				  "no pointer, no bytes, or flags"));
	if (device_of(current())->no_register)
		return end(CUABI_NOT_SUPPORTED);
	if (flags & CUABI_MEMHOSTREGISTER_READ_ONLY &&
	    device_of(current())->no_read_only)
		return end(refuse(CUABI_NOT_SUPPORTED, "READ_ONLY"));
	if (overlaps(from, bytes))
		return end(CUABI_HOST_MEMORY_ALREADY_REGISTERED);
	result = pin(p, bytes, flags);
	if (result)
		return end(result);
	if (device_of(current())->alias) {
		reserved = page_up(from % page + bytes);
		alias = reserve(reserved, page);
		if (!alias)
			return end(CUABI_OUT_OF_MEMORY);
		address = (uintptr_t)alias + from % page;
	}
	r = range_make(FAKE_REGISTRATION, address, bytes);
	r->host = r->pointer = p;
	r->reserved = reserved;
	r->flags = flags;
	r->read_only = flags & CUABI_MEMHOSTREGISTER_READ_ONLY;
	look_at(from, bytes, &m);
	r->inode = m.inode;
	return end(CUABI_SUCCESS);
}

cuda_result cuMemHostUnregister(void *p)
{
	struct range *r;

	BEGIN_FREE(NEEDS_ALL | UNSAFE)
	r = range_of_host((uintptr_t)p);
	if (!r || r->pointer != p || r->object.kind != FAKE_REGISTRATION)
		return end(refuse(CUABI_HOST_MEMORY_NOT_REGISTERED,
				  "not registered at this address"));
	if (!range_is_mapped(&r->object))
		wrong("%s: it was unmapped before", call);
	wait_to_free(&r->object);
	range_free(&r->object);
	return end(result);
}

cuda_result cuMemHostGetDevicePointer_v2(cuda_pointer *dev, void *p,
					 unsigned int flags)
{
	struct range *r;

	BEGIN(NEEDS_ALL)
	if (flags)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	r = range_of_host((uintptr_t)p);
	if (!r || r->managed)
		return end(refuse(CUABI_INVALID_VALUE,
				  "neither allocated nor registered"));
	if (!(r->flags & CUABI_MEMHOSTREGISTER_DEVICEMAP))
		return end(refuse(CUABI_INVALID_VALUE, "without DEVICEMAP"));
	*dev = r->address + ((uintptr_t)p - (uintptr_t)r->pointer);
	return end(CUABI_SUCCESS);
}

/* ---------------------------------------------------------------- pointers */

static cuda_result attribute_of(void *value, int attribute, struct range *r,
				size_t offset)
{
	switch (attribute) {
	case CUABI_POINTER_CONTEXT:
		*(cuda_context *)value = (cuda_context)r->object.ctx;
		return CUABI_SUCCESS;
	case CUABI_POINTER_MEMORY_TYPE:
		*(unsigned int *)value =
			r->object.kind == FAKE_HOST_MEMORY ||
			r->object.kind == FAKE_REGISTRATION ?
			CUABI_MEMORYTYPE_HOST : CUABI_MEMORYTYPE_DEVICE;
		return CUABI_SUCCESS;
	case CUABI_POINTER_DEVICE_POINTER:
		if (!current())
			return refuse(CUABI_INVALID_CONTEXT,
				      "no context is current");
		*(cuda_pointer *)value = r->address + offset;
		return CUABI_SUCCESS;
	case CUABI_POINTER_HOST_POINTER:
		if (!r->pointer)
			return CUABI_INVALID_VALUE;
		*(void **)value = (uint8_t *)r->pointer + offset;
		return CUABI_SUCCESS;
	case CUABI_POINTER_IS_MANAGED:
		*(unsigned int *)value = r->managed;
		return CUABI_SUCCESS;
	case CUABI_POINTER_DEVICE_ORDINAL:
		*(int *)value = r->object.ctx->device;
		return CUABI_SUCCESS;
	case CUABI_POINTER_RANGE_START_ADDR:
		*(cuda_pointer *)value = r->address;
		return CUABI_SUCCESS;
	case CUABI_POINTER_RANGE_SIZE:
		*(size_t *)value = r->bytes;
		return CUABI_SUCCESS;
	case CUABI_POINTER_MEMPOOL_HANDLE:
		*(void **)value = NULL;
		return CUABI_SUCCESS;
	default:
		return refuse(CUABI_INVALID_VALUE, "no such attribute");
	}
}

cuda_result cuPointerGetAttribute(void *value, int attribute, cuda_pointer p)
{
	size_t offset;
	struct range *r;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	r = range_of_device(p);
	offset = r ? p - r->address : 0;
	if (!r) {
		r = range_of_host(p);
		offset = r ? p - (uintptr_t)r->pointer : 0;
	}
	if (!r)
		return end(CUABI_INVALID_VALUE);
	return end(attribute_of(value, attribute, r, offset));
}

cuda_result device_bytes(struct context *ctx, cuda_pointer p, size_t bytes,
			 bool write, struct range **range, uint8_t **host)
{
	struct range *r = range_of_device(p);
	enum fake_kind kind;

	*range = r;
	if (!r && device_of(ctx)->pageable && is_mapped((void *)(uintptr_t)p,
							bytes)) {
		*host = (uint8_t *)(uintptr_t)p;
		return CUABI_SUCCESS;
	}
	if (!r || bytes > r->bytes - (p - r->address))
		return refuse(CUABI_INVALID_VALUE,
			      "not within memory that the device knows");
	kind = r->object.kind;
	if (r->object.ctx->device != ctx->device &&
	    kind != FAKE_HOST_MEMORY && !r->managed &&
	    !(kind == FAKE_REGISTRATION &&
	      r->flags & CUABI_MEMHOSTREGISTER_PORTABLE))
		return refuse(CUABI_INVALID_VALUE, "memory of another device");
	if (write && r->read_only)
		return refuse(CUABI_INVALID_VALUE, "registered as READ_ONLY");
	*host = r->host + (p - r->address);
	return CUABI_SUCCESS;
}

/* ---------------------------------------------------------------- exports */

static cuda_result export_memfd(int fd, size_t at, size_t bytes, int *out)
{
	struct stat st;

	if (!fake.memfd_exports)
		return CUABI_NOT_SUPPORTED;
	if (at || fstat(fd, &st) || (size_t)st.st_size != bytes) {
		fprintf(stderr, "# fake cuda: a memfd can stand for all of "
			"an allocation of whole pages only\n");
		return CUABI_NOT_SUPPORTED;
	}
	*out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return *out < 0 ? CUABI_OPERATING_SYSTEM : CUABI_SUCCESS;
}

static cuda_result export(int fd, size_t at, size_t bytes, int *out)
{
	*out = udmabuf_of(fd, at, bytes);
	if (*out == NO_UDMABUF)
		return export_memfd(fd, at, bytes, out);
	return *out < 0 ? CUABI_OPERATING_SYSTEM : CUABI_SUCCESS;
}

/* A block that an address lies in: its own, or what is around an allocation. */
static struct range *range_around(uintptr_t p)
{
	for (struct range *r = ranges; r; r = r->next)
		if (r->block && covers(r->block->address, r->block->size, p))
			return r;
	return range_of_device(p);
}

cuda_pointer block_around(cuda_pointer p, size_t *bytes)
{
	struct range *r = range_around(p);

	if (!r || !r->block)
		return 0;
	*bytes = r->block->size;
	return r->block->address;
}

cuda_result cuMemGetHandleForAddressRange(void *handle, cuda_pointer p,
					  size_t bytes, int type,
					  unsigned long long flags)
{
	size_t page = page_bytes(), at, size;
	const struct fake_device *d;
	struct range *r;
	int fd;

	BEGIN(NEEDS_ALL)
	d = device_of(current());
	if (type != CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    flags & ~(unsigned long long)
		    CUABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)
		return end(refuse(CUABI_INVALID_VALUE, "type or flags"));
	if (!bytes || p % page || bytes % page)
		return end(refuse(CUABI_INVALID_VALUE, "not of whole pages"));
	if (flags && !d->pcie)
		return end(CUABI_NOT_SUPPORTED);
	r = range_around(p);
	if (!r)
		return end(refuse(CUABI_INVALID_VALUE, "no device memory"));
	if (r->object.kind == FAKE_HOST_MEMORY && !d->host_export)
		return end(CUABI_INVALID_VALUE);
	if (r->object.kind != FAKE_HOST_MEMORY && (d->no_export || !r->block))
		return end(CUABI_NOT_SUPPORTED);
	at = p - (r->block ? r->block->address : r->address);
	size = r->block ? r->block->size : page_up(r->bytes);
	if (bytes > size - at)
		return end(refuse(CUABI_INVALID_VALUE,
				  "beyond the allocation's block"));
	result = export(r->block ? r->block->fd : r->fd, at, bytes, &fd);
	if (!result) {
		*(int *)handle = fd;
		if (r->block)
			r->block->exported = true;
	}
	return end(result);
}

cuda_result cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	BEGIN(NEEDS_ALL)
	if (target || scope != CUABI_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)
		return end(refuse(CUABI_INVALID_VALUE, "target or scope"));
	return end(CUABI_SUCCESS);
}
