// SPDX-License-Identifier: MIT
/* See opencl.h: buffers, where their bytes are, and the commands on them. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl_objects.h"

/* ---------------------------------------------------------------- objects */

/* Memory of CL_MEM_USE_HOST_PTR must stay mapped until the buffer is destroyed. */
static bool host_is_there(const struct memory *m)
{
	if (!m->host || is_mapped(m->host, m->size))
		return true;
	wrong("memory of CL_MEM_USE_HOST_PTR was unmapped");
	return false;
}

static struct memory *memory_make(struct context *context, cl_mem_flags flags,
				  size_t size)
{
	struct memory *m = make_counted(FAKE_MEMORY, sizeof(*m), context);

	m->flags = flags;
	m->size = size;
	m->fd = -1;
	return m;
}

void memory_free(struct object *o)
{
	struct memory *m = (struct memory *)o;

	unmake(o);
	if (m->map)
		munmap(m->map, m->mapped);
	if (m->dirty)
		munmap(m->dirty, m->size);
	if (m->fd >= 0)
		close_given(m->fd, m->inode);
}

static void call_destructors(struct memory *m)
{
	fake.host_functions += m->ndestructors;
	in_host_function = true;
	pthread_mutex_unlock(&lock);
	while (m->ndestructors--)
		m->destructors[m->ndestructors].fn(
			(cl_mem)m, m->destructors[m->ndestructors].data);
	pthread_mutex_lock(&lock);
	in_host_function = false;
}

static enum progress run_destructors(struct job *job)
{
	call_destructors(job->data);
	return JOB_DONE;
}

/* Destroys it after the last reference and the last command. */
void memory_put(struct memory *m)
{
	if (m->c.refs || m->users || !m->c.object.live)
		return;
	host_is_there(m);
	memory_free(&m->c.object);
	if (m->ndestructors)
		call_later(run_destructors, m);
}

static void *get_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Memory of the device's own. */
static cl_int memory_alloc(struct memory *m)
{
	m->mapped = m->size;
	m->bytes = m->map = get_pages(m->size);
	return m->map ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

static bool is_importable(int fd, size_t size)
{
	off_t bytes = lseek(fd, 0, SEEK_END);

	return is_fit(fd, fake.memfds) && bytes >= 0 && size <= (size_t)bytes;
}

/* Memory of a dma-buf. The fd is its own from now on, unless this fails. */
static cl_int memory_import(struct memory *m, int fd)
{
	m->read_only = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
	m->map = map_fd(fd, m->size, PROT_READ |
			(m->read_only ? 0 : PROT_WRITE));
	if (!m->map)
		return CL_OUT_OF_RESOURCES;
	m->mapped = m->size;
	m->bytes = m->map;
	m->fd = fd;
	m->inode = inode_of(fd);
	return CL_SUCCESS;
}

static void *give_memory(struct memory *m, cl_int result, cl_int *errcode_ret)
{
	if (result && m) {
		m->c.refs = 0;
		memory_free(&m->c.object);
	}
	return end_make(m, result, errcode_ret);
}

/* ---------------------------------------------------------------- buffers */

#define HOST_FLAGS (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR |	\
		    CL_MEM_COPY_HOST_PTR)
#define ALL_FLAGS (HOST_FLAGS | CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY |	\
		   CL_MEM_READ_ONLY | CL_MEM_HOST_WRITE_ONLY |		\
		   CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

static unsigned int count(cl_mem_flags flags, cl_mem_flags of)
{
	return (unsigned int)__builtin_popcountll(flags & of);
}

static cl_int check_flags(cl_mem_flags flags, size_t size, const void *host)
{
	bool wants = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR);

	if (fake.machine.qcom && flags & CL_MEM_USE_HOST_PTR)
		flags &= ~(cl_mem_flags)CL_MEM_EXT_HOST_PTR_QCOM;
	if (flags & ~(cl_mem_flags)ALL_FLAGS ||
	    count(flags, CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY |
			 CL_MEM_READ_ONLY) > 1 ||
	    count(flags, CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR) > 1 ||
	    count(flags, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) > 1)
		return refuse(CL_INVALID_VALUE, "the flags");
	if (!size)
		return refuse(CL_INVALID_BUFFER_SIZE, "no bytes");
	if (size > (size_t)1 << 30)
		return CL_INVALID_BUFFER_SIZE;
	if (wants != !!host)
		return refuse(CL_INVALID_HOST_PTR, "host_ptr and the flags");
	return CL_SUCCESS;
}

static cl_int use_host_ptr(struct memory *m, uint8_t *host)
{
	cl_int result;

	if (!is_mapped(host, m->size))
		return refuse(CL_INVALID_HOST_PTR, "nothing is mapped there");
	m->host_ptr = fake.machine.host_ptr;
	/* If the kernel does not report it (-1), the memory counts as pinned. */
	if (m->host_ptr == HOST_PTR_PINNED &&
	    (!is_pinned((uintptr_t)host) ||
	     !is_pinned((uintptr_t)host + m->size - 1)))
		return CL_INVALID_HOST_PTR;
	m->host = host;
	if (m->host_ptr == HOST_PTR_DIRECT) {
		m->bytes = host;
		return CL_SUCCESS;
	}
	result = memory_alloc(m);
	if (!result && m->host_ptr == HOST_PTR_PINNED)
		m->dirty = get_pages(m->size);
	else if (!result)
		memcpy(m->bytes, host, m->size);
	return result;
}

/* The rules of cl_qcom_ext_host_ptr. */
static cl_int import_qcom(struct memory *m, const void *host_ptr)
{
	const struct fakecl_dmabuf_host_ptr *p = host_ptr;
	uintptr_t address = (uintptr_t)p->dmabuf_hostptr;
	cl_uint policy = p->ext_host_ptr.host_cache_policy;
	cl_int result;
	int fd;

	if (p->ext_host_ptr.allocation_type != FAKECL_MEM_DMABUF_HOST_PTR_QCOM)
		return refuse(CL_INVALID_VALUE, "no dma-buf");
	if ((policy < CL_MEM_HOST_UNCACHED_QCOM ||
	     policy > CL_MEM_HOST_WRITE_COMBINING_QCOM) &&
	    policy != CL_MEM_HOST_IOCOHERENT_QCOM)
		return refuse(CL_INVALID_VALUE, "the policy of caches");
	if (address % 4096 || m->size % 4096)
		return refuse(CL_INVALID_VALUE, "the pages of the device");
	if (!is_importable(p->dmabuf_filedesc, m->size + fake.padding))
		return refuse(CL_INVALID_VALUE, "no dma-buf, or too small");
	if (address && !is_mapped(p->dmabuf_hostptr, m->size))
		return refuse(CL_INVALID_HOST_PTR, "nothing is mapped there");
	m->host = p->dmabuf_hostptr;
	m->host_ptr = HOST_PTR_DIRECT;
	fd = fcntl(p->dmabuf_filedesc, F_DUPFD_CLOEXEC, 3);
	result = memory_import(m, fd);
	if (result)
		close(fd);
	return result;
}

static cl_int fill_buffer(struct memory *m, void *host_ptr)
{
	cl_int result;

	if (m->flags & CL_MEM_EXT_HOST_PTR_QCOM)
		return import_qcom(m, host_ptr);
	if (m->flags & CL_MEM_USE_HOST_PTR)
		return use_host_ptr(m, host_ptr);
	result = memory_alloc(m);
	if (!result && m->flags & CL_MEM_COPY_HOST_PTR)
		memcpy(m->bytes, host_ptr, m->size);
	return result;
}

static cl_mem make_buffer(cl_context handle, cl_mem_flags flags, size_t size,
			  void *host_ptr, cl_int *errcode_ret)
{
	struct context *context = live(handle, FAKE_CONTEXT);
	cl_int result = check_flags(flags, size, host_ptr);
	struct memory *m = NULL;

	if (!context)
		result = refuse(CL_INVALID_CONTEXT, "no live context");
	if (!result) {
		m = memory_make(context, flags, size);
		result = fill_buffer(m, host_ptr);
	}
	return give_memory(m, result, errcode_ret);
}

cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags,
				  size_t size, void *host_ptr,
				  cl_int *errcode_ret)
{
	BEGIN_MAKE(NEEDS_ALL)
	return make_buffer(context, flags, size, host_ptr, errcode_ret);
}

/* Reads properties of an import; *fd is -1 without one. */
static cl_int look_at_properties(const struct context *context,
				 const cl_mem_properties *p, int *fd)
{
	for (*fd = -1; p && *p; p += 2) {
		if (*p == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR &&
		    fake.machine.dma_bufs && *fd == -1) {
			*fd = (int)p[1];
		} else if (*p == FAKECL_MEM_DEVICE_HANDLE_LIST &&
			   fake.machine.dma_bufs) {
			for (p++; *p; p++)
				if (!has_device(context, device_of((void *)
						(uintptr_t)*p)))
					return refuse(CL_INVALID_DEVICE,
						      "not of the context");
			p--;
		} else {
			return refuse(CL_INVALID_PROPERTY, "a property");
		}
	}
	return CL_SUCCESS;
}

static cl_int import_khr(struct memory *m, int fd)
{
	/* Intel's driver 26.27 names the other code. */
	if (!is_importable(fd, m->size))
		return refuse(fake.machine.fd_0_is_none ? CL_INVALID_MEM_OBJECT :
			      CL_INVALID_PROPERTY, "no dma-buf, or too small");
	look_at_fd(fd);
	m->external = true;
	/* As a public study saw it: a buffer that shares nothing. */
	if (fake.machine.apart) {
		close(fd);
		return memory_alloc(m);
	}
	return memory_import(m, fd);
}

cl_mem CL_API_CALL
clCreateBufferWithProperties(cl_context handle,
			     const cl_mem_properties *properties,
			     cl_mem_flags flags, size_t size, void *host_ptr,
			     cl_int *errcode_ret)
{
	struct context *context;
	struct memory *m = NULL;
	int fd;

	BEGIN_MAKE(NEEDS_ALL | NEW_2_0)
	context = live(handle, FAKE_CONTEXT);
	if (!context)
		return end_make(NULL, refuse(CL_INVALID_CONTEXT,
					     "no live context"), errcode_ret);
	result = look_at_properties(context, properties, &fd);
	if (result)
		return end_make(NULL, result, errcode_ret);
	if (fd == -1 || (!fd && fake.machine.fd_0_is_none))
		return make_buffer(handle, flags, size, host_ptr, errcode_ret);
	result = check_flags(flags, size, host_ptr);
	if (!result && flags & HOST_FLAGS)
		result = refuse(CL_INVALID_VALUE, "the flags of an import");
	if (!result) {
		m = memory_make(context, flags, size);
		result = import_khr(m, fd);
	}
	return give_memory(m, result, errcode_ret);
}

/* The caller keeps its fd. */
static cl_int import_arm(struct memory *m, int fd)
{
	cl_int result;

	if (!is_importable(fd, 1))
		return refuse(CL_INVALID_VALUE, "no dma-buf");
	if (!is_importable(fd, m->size))
		return refuse(CL_INVALID_BUFFER_SIZE, "larger than it is");
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	result = memory_import(m, fd);
	if (result)
		close(fd);
	return result;
}

cl_mem CL_API_CALL clImportMemoryARM(cl_context handle, cl_mem_flags flags,
				     const cl_import_properties_arm *p,
				     void *memory, size_t size,
				     cl_int *errcode_ret)
{
	struct context *context;
	struct memory *m = NULL;
	bool dma_buf = false;

	BEGIN_MAKE(NEEDS_ALL)
	context = live(handle, FAKE_CONTEXT);
	if (!context)
		result = refuse(CL_INVALID_CONTEXT, "no live context");
	for (; !result && p && *p; p += 2)
		if (*p == CL_IMPORT_TYPE_ARM)
			dma_buf = p[1] == CL_IMPORT_TYPE_DMA_BUF_ARM;
		else if (*p !=
			 CL_IMPORT_DMA_BUF_DATA_CONSISTENCY_WITH_HOST_ARM ||
			 fake.arm_old)
			result = refuse(CL_INVALID_PROPERTY, "a property");
	if (!result && !dma_buf)
		result = refuse(CL_INVALID_PROPERTY, "only dma-bufs");
	if (!result && !memory)
		result = refuse(CL_INVALID_VALUE, "no pointer to an fd");
	if (!result)
		result = check_flags(flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR,
				     size, NULL);
	if (!result) {
		m = memory_make(context, flags, size);
		m->kernels_only = fake.arm_old;
		result = import_arm(m, *(int *)memory);
	}
	return give_memory(m, result, errcode_ret);
}

static void memory_release(struct object *o)
{
	struct memory *m = (struct memory *)o;

	while (fake.release_waits && m->users && !fake.lost)
		pthread_cond_wait(&changed, &lock);
	memory_put(m);
}

COUNTED(MemObject, cl_mem, memory, FAKE_MEMORY, CL_INVALID_MEM_OBJECT,
	memory_release)

cl_int CL_API_CALL
clSetMemObjectDestructorCallback(cl_mem handle,
				 void (CL_CALLBACK *fn)(cl_mem memory,
							void *data),
				 void *data)
{
	BEGIN(NEEDS_ALL)
	LIVE(memory, m, handle, FAKE_MEMORY, CL_INVALID_MEM_OBJECT)
	if (!fn)
		return end(refuse(CL_INVALID_VALUE, "nothing to call"));
	if (m->ndestructors == ARRAY_SIZE(m->destructors))
		return end(CL_OUT_OF_HOST_MEMORY);
	m->destructors[m->ndestructors++] = (struct destructor){ fn, data };
	return end(CL_SUCCESS);
}

static cl_uint map_count(const struct memory *m)
{
	cl_uint n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(m->maps); i++)
		n += m->maps[i].used;
	return n;
}

static cl_int get_memory(const struct memory *m, cl_mem_info name, size_t size,
			 void *out, size_t *size_ret)
{
	switch (name) {
	case CL_MEM_TYPE:
		GIVE(cl_mem_object_type, CL_MEM_OBJECT_BUFFER);
	case CL_MEM_FLAGS:
		GIVE(cl_mem_flags, m->flags);
	case CL_MEM_SIZE:
		GIVE(size_t, m->size);
	case CL_MEM_HOST_PTR:
		GIVE(void *, m->host);
	case CL_MEM_MAP_COUNT:
		GIVE(cl_uint, map_count(m));
	case CL_MEM_REFERENCE_COUNT:
		GIVE(cl_uint, m->c.refs);
	case CL_MEM_CONTEXT:
		GIVE(const void *, m->c.context);
	default:
		return refuse(CL_INVALID_VALUE, "no such query");
	}
}

GETTER(clGetMemObjectInfo, memory, cl_mem, FAKE_MEMORY,
       CL_INVALID_MEM_OBJECT, cl_mem_info, get_memory)

/* ---------------------------------------------------------------- commands */

static void check_acquired(const struct memory *m)
{
	if (m->external && !m->acquired)
		wrong("a command uses external memory that is not acquired");
}

/*
 * Updates the device's view of memory that it uses in place: the host's bytes, except
 * where the device has written.
 */
static void look_at_host(struct memory *m, size_t offset, size_t bytes,
			 bool writes)
{
	for (size_t i = offset; m->dirty && i < offset + bytes; i++)
		if (!m->dirty[i])
			m->bytes[i] = m->host[i];
	if (m->dirty && writes)
		memset(m->dirty + offset, 1, bytes);
}

uint8_t *memory_bytes(struct memory *m, size_t offset, size_t bytes, bool writes)
{
	check_acquired(m);
	for (size_t k = 0; k < ARRAY_SIZE(m->maps); k++)
		if (m->maps[k].begun && (writes || m->maps[k].flags &
		    (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION))) {
			wrong("a command uses memory that is mapped");
			return NULL;
		}
	if (writes && m->read_only) {
		wrong("a command writes to a dma-buf that is read-only");
		return NULL;
	}
	if (!host_is_there(m))
		return NULL;
	look_at_host(m, offset, bytes, writes);
	return m->bytes + offset;
}

static uint8_t *device_bytes(struct event *e, unsigned int i, bool writes)
{
	return memory_bytes(e->memories[i], e->offsets[i], e->bytes, writes);
}

static bool host_is_mapped(const struct event *e)
{
	if (is_mapped(e->host, e->bytes))
		return true;
	wrong("a command uses host memory that was unmapped");
	return false;
}

static enum progress run_read(struct event *e)
{
	uint8_t *p = device_bytes(e, 0, false);

	if (p && host_is_mapped(e))
		memcpy(e->host, p, e->bytes);
	return JOB_DONE;
}

static enum progress run_write(struct event *e)
{
	uint8_t *p = device_bytes(e, 0, true);

	if (p && host_is_mapped(e))
		memcpy(p, e->host, e->bytes);
	return JOB_DONE;
}

static enum progress run_copy(struct event *e)
{
	uint8_t *from = device_bytes(e, 0, false), *to = device_bytes(e, 1, true);

	if (from && to)
		memcpy(to, from, e->bytes);
	return JOB_DONE;
}

static enum progress run_fill(struct event *e)
{
	uint8_t *p = device_bytes(e, 0, true);

	for (size_t i = 0; p && i < e->bytes; i++)
		p[i] = e->pattern[i % e->pattern_bytes];
	return JOB_DONE;
}

/* Copies between the device's bytes and the host's, unless they are the same. */
static void synchronise(struct memory *m, const struct mapping *range, bool in)
{
	size_t offset = range->offset, bytes = range->bytes;

	if (!m->host || !m->map || m->fd >= 0 || !host_is_there(m))
		return;
	for (size_t i = offset; m->dirty && i < offset + bytes && !in; i++)
		if (m->dirty[i] && !(range->flags & CL_MAP_WRITE_INVALIDATE_REGION))
			m->host[i] = m->bytes[i];
	if (m->dirty && !in)
		memset(m->dirty + offset, 0, bytes);
	if (m->dirty)
		return;
	if (in && range->flags != CL_MAP_READ)
		memcpy(m->bytes + offset, m->host + offset, bytes);
	if (!in && !(range->flags & CL_MAP_WRITE_INVALIDATE_REGION))
		memcpy(m->host + offset, m->bytes + offset, bytes);
}

static enum progress run_map(struct event *e)
{
	check_acquired(e->memories[0]);
	e->mapping->begun = true;
	synchronise(e->memories[0], e->mapping, false);
	return JOB_DONE;
}

static enum progress run_unmap(struct event *e)
{
	synchronise(e->memories[0], e->mapping, true);
	e->mapping->used = e->mapping->begun = false;
	return JOB_DONE;
}

static enum progress run_pass(struct event *e)
{
	bool acquires = e->type == CL_COMMAND_ACQUIRE_EXTERNAL_MEM_OBJECTS_KHR;

	for (size_t i = 0; i < ARRAY_SIZE(e->memories) && e->memories[i]; i++) {
		if (e->memories[i]->acquired == acquires)
			wrong(acquires ? "memory is acquired twice" :
					 "memory is released twice");
		e->memories[i]->acquired = acquires;
	}
	return JOB_DONE;
}

/* Checks a buffer of a command, and its range. */
static cl_int use(struct event *e, unsigned int i, cl_mem handle, size_t offset,
		  size_t bytes)
{
	cl_int result = command_uses(e, i, handle);

	if (result)
		return result;
	if (!bytes || offset > e->memories[i]->size ||
	    bytes > e->memories[i]->size - offset)
		return refuse(CL_INVALID_VALUE, "beyond the buffer");
	/* Callers cannot know the extension's version, so this is not counted. */
	if (e->memories[i]->kernels_only)
		return CL_INVALID_OPERATION;
	e->offsets[i] = offset;
	e->bytes = bytes;
	return CL_SUCCESS;
}

static cl_int transfer(struct event *e, cl_mem memory, size_t offset,
		       size_t bytes, const void *host, cl_bool blocks,
		       cl_event *out)
{
	cl_int result = use(e, 0, memory, offset, bytes);

	if (!result && !host)
		result = refuse(CL_INVALID_VALUE, "no host memory");
	if (!result && e->memories[0]->flags & (e->run == run_read ?
	    CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS :
	    CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS))
		result = refuse(CL_INVALID_OPERATION, "not for the host");
	e->host = (uint8_t *)host;
	return result ? command_drop(e, result) : enqueue(e, out, blocks);
}

cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory,
				       cl_bool blocks, size_t offset,
				       size_t bytes, void *host, cl_uint n,
				       const cl_event *list, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	COMMAND(e, queue, CL_COMMAND_READ_BUFFER, n, list)
	e->run = run_read;
	return end(transfer(e, memory, offset, bytes, host, blocks, out));
}

cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory,
					cl_bool blocks, size_t offset,
					size_t bytes, const void *host,
					cl_uint n, const cl_event *list,
					cl_event *out)
{
	BEGIN(NEEDS_ALL)
	COMMAND(e, queue, CL_COMMAND_WRITE_BUFFER, n, list)
	e->run = run_write;
	return end(transfer(e, memory, offset, bytes, host, blocks, out));
}

cl_int CL_API_CALL clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from,
				       cl_mem to, size_t from_offset,
				       size_t to_offset, size_t bytes, cl_uint n,
				       const cl_event *list, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	COMMAND(e, queue, CL_COMMAND_COPY_BUFFER, n, list)
	result = use(e, 0, from, from_offset, bytes);
	if (!result)
		result = use(e, 1, to, to_offset, bytes);
	if (!result && from == to && from_offset < to_offset + bytes &&
	    to_offset < from_offset + bytes)
		result = refuse(CL_MEM_COPY_OVERLAP, "onto itself");
	e->run = run_copy;
	return end(result ? command_drop(e, result) : enqueue(e, out, false));
}

cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory,
				       const void *pattern, size_t pattern_bytes,
				       size_t offset, size_t bytes, cl_uint n,
				       const cl_event *list, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	COMMAND(e, queue, CL_COMMAND_FILL_BUFFER, n, list)
	result = use(e, 0, memory, offset, bytes);
	if (!result && (!pattern || !pattern_bytes ||
			pattern_bytes > sizeof(e->pattern) ||
			pattern_bytes & (pattern_bytes - 1) ||
			offset % pattern_bytes || bytes % pattern_bytes))
		result = refuse(CL_INVALID_VALUE, "the pattern");
	if (result)
		return end(command_drop(e, result));
	memcpy(e->pattern, pattern, pattern_bytes);
	e->pattern_bytes = pattern_bytes;
	e->run = run_fill;
	return end(enqueue(e, out, false));
}

/* ---------------------------------------------------------------- mapping */

#define MAP_FLAGS (CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)

static uint8_t *host_bytes(struct memory *m)
{
	return m->host ? m->host : m->fd >= 0 && fake.machine.qcom ? NULL :
	       m->bytes;
}

static cl_int map(struct event *e, cl_map_flags flags)
{
	struct memory *m = e->memories[0];
	size_t i = 0;

	if (!flags || flags & ~(cl_map_flags)MAP_FLAGS ||
	    (flags & CL_MAP_WRITE_INVALIDATE_REGION &&
	     flags != CL_MAP_WRITE_INVALIDATE_REGION))
		return refuse(CL_INVALID_VALUE, "the flags");
	if (!host_bytes(m))
		return refuse(CL_INVALID_OPERATION, "without a host pointer");
	while (i < ARRAY_SIZE(m->maps) && m->maps[i].used)
		i++;
	if (i == ARRAY_SIZE(m->maps))
		return CL_OUT_OF_RESOURCES;
	e->mapping = &m->maps[i];
	*e->mapping = (struct mapping){
		.offset = e->offsets[0],
		.bytes = e->bytes, .flags = flags, .used = true,
	};
	e->run = run_map;
	return CL_SUCCESS;
}

void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory,
				     cl_bool blocks, cl_map_flags flags,
				     size_t offset, size_t bytes, cl_uint n,
				     const cl_event *list, cl_event *out,
				     cl_int *errcode_ret)
{
	struct mapping *mapping;
	struct memory *m;
	struct event *e;

	BEGIN_MAKE(NEEDS_ALL)
	e = command(queue, CL_COMMAND_MAP_BUFFER, n, list, &result);
	if (!e)
		return end_make(NULL, result, errcode_ret);
	result = use(e, 0, memory, offset, bytes);
	if (!result)
		result = map(e, flags);
	if (result)
		return end_make(NULL, command_drop(e, result), errcode_ret);
	m = e->memories[0];
	mapping = e->mapping;
	result = enqueue(e, out, blocks);
	return end_make(host_bytes(m) + mapping->offset, result, errcode_ret);
}

cl_int CL_API_CALL clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memory,
					   void *mapped, cl_uint n,
					   const cl_event *list, cl_event *out)
{
	struct memory *m;

	BEGIN(NEEDS_ALL)
	COMMAND(e, queue, CL_COMMAND_UNMAP_MEM_OBJECT, n, list)
	result = command_uses(e, 0, memory);
	if (result)
		return end(command_drop(e, result));
	m = e->memories[0];
	for (size_t i = 0; i < ARRAY_SIZE(m->maps) && !e->mapping; i++)
		if (m->maps[i].used && !m->maps[i].ends &&
		    host_bytes(m) + m->maps[i].offset == mapped)
			e->mapping = &m->maps[i];
	if (!e->mapping)
		return end(command_drop(e, refuse(CL_INVALID_VALUE,
						  "nothing is mapped there")));
	e->mapping->ends = true;
	e->run = run_unmap;
	return end(enqueue(e, out, false));
}

/* ---------------------------------------------------------------- passing on */

static cl_int pass(cl_command_queue queue, cl_command_type type, cl_uint n,
		   const cl_mem *list, cl_uint nwaits, const cl_event *waits,
		   cl_event *out)
{
	cl_int result;
	struct event *e = command(queue, type, nwaits, waits, &result);

	if (!e)
		return result;
	if (!n != !list)
		result = refuse(CL_INVALID_VALUE, "half a list");
	else if (n > ARRAY_SIZE(e->memories))
		result = CL_OUT_OF_RESOURCES;
	for (cl_uint i = 0; !result && i < n; i++) {
		result = command_uses(e, i, list[i]);
		if (!result && !e->memories[i]->external)
			result = refuse(CL_INVALID_MEM_OBJECT,
					"it is not external");
	}
	e->run = run_pass;
	return result ? command_drop(e, result) : enqueue(e, out, false);
}

cl_int CL_API_CALL
clEnqueueAcquireExternalMemObjectsKHR(cl_command_queue queue, cl_uint n,
				      const cl_mem *list, cl_uint nwaits,
				      const cl_event *waits, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	return end(pass(queue, CL_COMMAND_ACQUIRE_EXTERNAL_MEM_OBJECTS_KHR, n,
			list, nwaits, waits, out));
}

cl_int CL_API_CALL
clEnqueueReleaseExternalMemObjectsKHR(cl_command_queue queue, cl_uint n,
				      const cl_mem *list, cl_uint nwaits,
				      const cl_event *waits, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	return end(pass(queue, CL_COMMAND_RELEASE_EXTERNAL_MEM_OBJECTS_KHR, n,
			list, nwaits, waits, out));
}
