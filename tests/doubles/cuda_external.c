// SPDX-License-Identifier: MIT
/* See cuda.h: memory and semaphores of other APIs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_objects.h"

static struct external *external_make(enum fake_kind kind, int fd, int type,
				      size_t bytes)
{
	void *p = map_fd(fd, bytes, PROT_READ | PROT_WRITE);
	struct external *e;

	if (!p)
		return NULL;
	e = make(kind, sizeof(*e), current(), false);
	e->fd = fd;
	e->type = type;
	e->inode = inode_of(fd);
	e->map = p;
	e->bytes = e->mapped = bytes;
	return e;
}

void external_free(struct object *o)
{
	struct external *e = (struct external *)o;

	unmake(o);
	munmap(e->map, e->mapped);
	close_given(e->fd, e->inode);
}

/* ---------------------------------------------------------------- memory */

static cuda_result check_memory(const struct cuda_memory_desc *desc)
{
	int fd = desc->handle.fd;
	off_t size;

	if (desc->type != CUABI_MEMORY_OPAQUE_FD &&
	    desc->type != CUABI_MEMORY_DMABUF_FD)
		return refuse(CUABI_INVALID_VALUE, "no such type");
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return refuse(CUABI_INVALID_VALUE, "no fd with a size");
	look_at_fd(fd);
	if (desc->type == CUABI_MEMORY_DMABUF_FD) {
		if (desc->flags && desc->flags != FAKE_FOREIGN)
			return refuse(CUABI_INVALID_VALUE, "flags");
		if (!device_of(current())->dmabuf_in || desc->flags)
			return fake.dmabuf_result;
		if (!is_fit(fd, fake.memfd_exports))
			return refuse(CUABI_INVALID_VALUE, "no dma-buf");
	} else {
		if (desc->flags & ~(unsigned int)CUABI_EXTERNAL_MEMORY_DEDICATED)
			return refuse(CUABI_INVALID_VALUE, "flags");
		/* Seen with driver 580: it closes an fd that is not its own. */
		if (!is_memfd(fd)) {
			close(fd);
			return CUABI_UNKNOWN;
		}
	}
	if (!desc->size || desc->size > (unsigned long long)size)
		return refuse(CUABI_INVALID_VALUE, "larger than it is");
	return CUABI_SUCCESS;
}

cuda_result cuImportExternalMemory(cuda_external_memory *memory,
				   const struct cuda_memory_desc *desc)
{
	struct external *e;
	int fd;

	BEGIN(NEEDS_ALL)
	result = check_memory(desc);
	if (result)
		return end(result);
	/* A dma-buf's fd stays the caller's, in NVIDIA's sample. */
	fd = desc->type == CUABI_MEMORY_DMABUF_FD ?
	     fcntl(desc->handle.fd, F_DUPFD_CLOEXEC, 3) : desc->handle.fd;
	e = external_make(FAKE_EXTERNAL_MEMORY, fd, desc->type,
			  (size_t)desc->size);
	if (!e) {
		if (fd != desc->handle.fd)
			close(fd);
		return end(CUABI_OPERATING_SYSTEM);
	}
	if (desc->type == CUABI_MEMORY_DMABUF_FD &&
	    device_of(current())->wrong_pages)
		spoil_page(e->map + page_up(e->bytes) - page_up(1));
	if (fake.fault == FAKE_PAGE7 && e->bytes > 7 * page_up(1))
		spoil_page(e->map + 7 * page_up(1));
	if (fake.fault == FAKE_LEAK)
		fcntl(fd, F_DUPFD_CLOEXEC, 3);
	*memory = (cuda_external_memory)e;
	return end(CUABI_SUCCESS);
}

cuda_result
cuExternalMemoryGetMappedBuffer(cuda_pointer *p, cuda_external_memory memory,
				const struct cuda_buffer_desc *desc)
{
	struct external *e;
	struct range *r;
	size_t reserved;
	void *address;

	BEGIN(NEEDS_ALL)
	e = object_of(memory, FAKE_EXTERNAL_MEMORY);
	if (!e)
		return end(refuse(CUABI_INVALID_HANDLE, "no live memory"));
	if (desc->flags || !desc->size || desc->offset > e->bytes ||
	    desc->size > e->bytes - desc->offset)
		return end(refuse(CUABI_INVALID_VALUE,
				  "flags, or beyond the memory"));
	reserved = page_up((size_t)desc->size);
	address = reserve(reserved, page_up(1));
	if (!address)
		return end(CUABI_OUT_OF_MEMORY);
	r = range_make(FAKE_MAPPED_BUFFER, (uintptr_t)address,
		       (size_t)desc->size);
	r->reserved = reserved;
	r->host = e->map + desc->offset;
	r->external = e;
	if (fake.fault == FAKE_HALF)
		r->bytes /= 2;
	e->nbuffers++;
	*p = r->address;
	return end(CUABI_SUCCESS);
}

cuda_result cuDestroyExternalMemory(cuda_external_memory memory)
{
	BEGIN_FREE(NEEDS_INIT | NEEDS_DEVICE)
	OBJECT(external, e, memory, FAKE_EXTERNAL_MEMORY, CUABI_INVALID_HANDLE)
	if (e->nbuffers) {
		wrong("%s: buffers of it are not freed", call);
		for (struct range *r = ranges, *next; r; r = next) {
			next = r->next;
			if (r->external == e)
				range_free(&r->object);
		}
	}
	external_free(&e->object);
	return end(result);
}

/* ---------------------------------------------------------------- semaphores */

cuda_result cuImportExternalSemaphore(cuda_external_semaphore *semaphore,
				      const struct cuda_semaphore_desc *desc)
{
	int fd = desc->handle.fd;
	struct external *e;

	BEGIN(NEEDS_ALL)
	if (desc->type != CUABI_SEMAPHORE_TIMELINE_FD &&
	    desc->type != CUABI_SEMAPHORE_OPAQUE_FD)
		return end(refuse(CUABI_INVALID_VALUE, "no such type"));
	if (desc->flags)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	look_at_fd(fd);
	if (desc->type == CUABI_SEMAPHORE_OPAQUE_FD ||
	    device_of(current())->no_timeline)
		return end(CUABI_NOT_SUPPORTED);
	if (!is_memfd(fd) ||
	    lseek(fd, 0, SEEK_END) < (off_t)sizeof(struct fake_timeline))
		return end(CUABI_INVALID_VALUE);
	e = external_make(FAKE_EXTERNAL_SEMAPHORE, fd, desc->type,
			  sizeof(struct fake_timeline));
	if (!e)
		return end(CUABI_OPERATING_SYSTEM);
	*semaphore = (cuda_external_semaphore)e;
	return end(CUABI_SUCCESS);
}

cuda_result cuDestroyExternalSemaphore(cuda_external_semaphore semaphore)
{
	BEGIN_FREE(NEEDS_INIT | NEEDS_DEVICE)
	OBJECT(external, e, semaphore, FAKE_EXTERNAL_SEMAPHORE, CUABI_INVALID_HANDLE)
	external_free(&e->object);
	return end(result);
}

static enum progress signal_semaphore(struct job *job)
{
	struct fake_timeline *t = job->data;

	if (t->value >= job->value)
		wrong("a timeline is signalled with %llu and is %llu",
		      (unsigned long long)job->value,
		      (unsigned long long)t->value);
	t->value = job->value;
	return JOB_DONE;
}

static enum progress wait_semaphore(struct job *job)
{
	struct fake_timeline *t = job->data;

	return t->value < job->value ? JOB_POLLS : JOB_DONE;
}

static cuda_result semaphores(enum progress (*run)(struct job *job),
			      const cuda_external_semaphore *list,
			      const struct cuda_semaphore_params *params,
			      unsigned int n, cuda_stream stream)
{
	struct job job = { .run = run };
	struct cuda_queue *q;
	struct external *e;
	cuda_result result;

	result = stream_of(stream, &q);
	for (unsigned int i = 0; !result && i < n; i++) {
		e = object_of(list[i], FAKE_EXTERNAL_SEMAPHORE);
		if (!e)
			return refuse(CUABI_INVALID_HANDLE,
				      "no live semaphore");
		if (params[i].flags)
			return refuse(CUABI_INVALID_VALUE, "flags");
		job.uses[0] = &e->object;
		job.data = e->map;
		job.value = params[i].value;
		result = enqueue(q, &job);
	}
	return result;
}

cuda_result cuSignalExternalSemaphoresAsync(
	const cuda_external_semaphore *list,
	const struct cuda_semaphore_params *params, unsigned int n,
	cuda_stream stream)
{
	BEGIN(NEEDS_ALL)
	return end(semaphores(signal_semaphore, list, params, n, stream));
}

cuda_result cuWaitExternalSemaphoresAsync(
	const cuda_external_semaphore *list,
	const struct cuda_semaphore_params *params, unsigned int n,
	cuda_stream stream)
{
	BEGIN(NEEDS_ALL)
	return end(semaphores(wait_semaphore, list, params, n, stream));
}
