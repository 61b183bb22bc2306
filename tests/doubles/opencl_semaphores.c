// SPDX-License-Identifier: MIT
/* See opencl.h: semaphores, and sync_files in and out. */
#include <fcntl.h>
#include <unistd.h>

#include "opencl_objects.h"

/* ---------------------------------------------------------------- objects */

void semaphore_free(struct object *o)
{
	struct semaphore *s = (struct semaphore *)o;

	unmake(o);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* -1 means a sync_file that has signalled. */
static cl_int check_sync_file(int fd)
{
	if (fd == -1)
		return CL_SUCCESS;
	if (fcntl(fd, F_GETFD) < 0 || is_dma_buf(fd) || is_memfd(fd))
		return refuse(CL_INVALID_VALUE, "no sync_file");
	look_at_fd(fd);
	return CL_SUCCESS;
}

static cl_int look_at_properties(const struct context *context,
				 const cl_semaphore_properties_khr *p,
				 struct semaphore *s)
{
	bool binary = false;

	if (!p)
		return refuse(CL_INVALID_VALUE, "no properties");
	for (; *p; p += 2) {
		if (*p == CL_SEMAPHORE_TYPE_KHR) {
			binary = p[1] == CL_SEMAPHORE_TYPE_BINARY_KHR;
		} else if (*p == CL_SEMAPHORE_HANDLE_SYNC_FD_KHR &&
			   !s->imports && !fake.no_sync_in) {
			s->imports = true;
			s->fd = (int)p[1];
		} else if (*p == CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR &&
			   p[1] == CL_SEMAPHORE_HANDLE_SYNC_FD_KHR && !p[2] &&
			   !fake.no_sync_out) {
			s->exports = true;
			p++;
		} else if (*p == FAKECL_SEMAPHORE_DEVICE_HANDLE_LIST &&
			   has_device(context, device_of((void *)
							 (uintptr_t)p[1])) &&
			   !p[2]) {
			p++;
		} else {
			return refuse(CL_INVALID_PROPERTY, "a property");
		}
	}
	if (!binary)
		return refuse(CL_INVALID_VALUE, "no type");
	if (s->imports && s->exports)
		return refuse(CL_INVALID_OPERATION, "imported and exported");
	return s->imports ? check_sync_file(s->fd) : CL_SUCCESS;
}

cl_semaphore_khr CL_API_CALL
clCreateSemaphoreWithPropertiesKHR(cl_context handle,
				   const cl_semaphore_properties_khr *properties,
				   cl_int *errcode_ret)
{
	struct semaphore model = { .fd = -1 }, *s;
	struct context *context;

	BEGIN_MAKE(NEEDS_ALL)
	context = live(handle, FAKE_CONTEXT);
	result = context ? look_at_properties(context, properties, &model) :
			   refuse(CL_INVALID_CONTEXT, "no live context");
	if (result)
		return end_make(NULL, result, errcode_ret);
	s = make_counted(FAKE_SEMAPHORE, sizeof(*s), context);
	s->imports = s->payload = model.imports;
	s->exports = model.exports;
	s->fd = model.fd;
	return end_make(s, CL_SUCCESS, errcode_ret);
}

cl_int CL_API_CALL
clReImportSemaphoreSyncFdKHR(cl_semaphore_khr handle,
			     cl_semaphore_reimport_properties_khr *properties,
			     int fd)
{
	struct semaphore *s;

	BEGIN(NEEDS_ALL)
	s = live(handle, FAKE_SEMAPHORE);
	if (!s || !s->imports)
		return end(refuse(CL_INVALID_SEMAPHORE_KHR, "no import"));
	if (properties && *properties)
		return end(refuse(CL_INVALID_PROPERTY, "a property"));
	result = check_sync_file(fd);
	if (result)
		return end(result);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = fd;
	s->payload = true;
	return end(CL_SUCCESS);
}

COUNTED(SemaphoreKHR, cl_semaphore_khr, semaphore, FAKE_SEMAPHORE,
	CL_INVALID_SEMAPHORE_KHR, semaphore_free)

static cl_int get_semaphore(const struct semaphore *s,
			    cl_semaphore_info_khr name, size_t size, void *out,
			    size_t *size_ret)
{
	switch (name) {
	case CL_SEMAPHORE_CONTEXT_KHR:
		GIVE(const void *, s->c.context);
	case CL_SEMAPHORE_REFERENCE_COUNT_KHR:
		GIVE(cl_uint, s->c.refs);
	case CL_SEMAPHORE_TYPE_KHR:
		GIVE(cl_semaphore_type_khr, CL_SEMAPHORE_TYPE_BINARY_KHR);
	case CL_SEMAPHORE_PAYLOAD_KHR:
		GIVE(cl_semaphore_payload_khr, s->payload &&
		     (!s->signal || s->signal->status == CL_COMPLETE));
	case FAKECL_SEMAPHORE_EXPORTABLE:
		GIVE(cl_bool, s->exports);
	default:
		return refuse(CL_INVALID_VALUE, "no such query");
	}
}

GETTER(clGetSemaphoreInfoKHR, semaphore, cl_semaphore_khr, FAKE_SEMAPHORE,
       CL_INVALID_SEMAPHORE_KHR, cl_semaphore_info_khr, get_semaphore)

/* ---------------------------------------------------------------- commands */

/* Without an fd, the command waits for the event of the signalling command. */
static enum progress run_wait(struct event *e)
{
	return e->wait < 0 || is_readable(e->wait) ? JOB_DONE : JOB_POLLS;
}

/* One semaphore per command is enough for the tests. */
static cl_int semaphore_command(cl_command_queue queue, cl_command_type type,
				cl_uint n, const cl_semaphore_khr *list,
				cl_uint nwaits, const cl_event *waits,
				cl_event *out)
{
	bool wait = type == CL_COMMAND_SEMAPHORE_WAIT_KHR;
	struct semaphore *s = NULL;
	struct event *e;
	cl_int result;

	e = command(queue, type, nwaits, waits, &result);
	if (!e)
		return result;
	if (!n || !list)
		result = refuse(CL_INVALID_VALUE, "no semaphores");
	else if (n > 1)
		result = CL_OUT_OF_RESOURCES;
	else
		s = live(list[0], FAKE_SEMAPHORE);
	if (!result && !s)
		result = refuse(CL_INVALID_SEMAPHORE_KHR, "no semaphore");
	else if (!result && s->c.context != e->c.context)
		result = refuse(CL_INVALID_CONTEXT, "of another context");
	else if (!result && wait && !s->payload)
		result = refuse(CL_INVALID_OPERATION, "nobody signals it");
	else if (!result && !wait && s->payload)
		result = refuse(CL_INVALID_OPERATION, "it is signalled");
	if (result || (wait && s->signal &&
		       e->nwaits == ARRAY_SIZE(e->waits)))
		return command_drop(e, result ? result : CL_OUT_OF_RESOURCES);
	if (wait) {
		e->run = run_wait;
		e->wait = s->fd;
		s->fd = -1;
		if (s->signal)
			e->waits[e->nwaits++] = s->signal;
	}
	s->payload = !wait;
	s->signal = wait ? NULL : e;
	return enqueue(e, out, false);
}

cl_int CL_API_CALL
clEnqueueWaitSemaphoresKHR(cl_command_queue queue, cl_uint n,
			   const cl_semaphore_khr *list,
			   const cl_semaphore_payload_khr *payloads,
			   cl_uint nwaits, const cl_event *waits, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	return end(semaphore_command(queue, CL_COMMAND_SEMAPHORE_WAIT_KHR, n,
				     list, nwaits, waits, out));
}

cl_int CL_API_CALL
clEnqueueSignalSemaphoresKHR(cl_command_queue queue, cl_uint n,
			     const cl_semaphore_khr *list,
			     const cl_semaphore_payload_khr *payloads,
			     cl_uint nwaits, const cl_event *waits,
			     cl_event *out)
{
	BEGIN(NEEDS_ALL)
	return end(semaphore_command(queue, CL_COMMAND_SEMAPHORE_SIGNAL_KHR, n,
				     list, nwaits, waits, out));
}

/* ---------------------------------------------------------------- sync_files */

cl_int CL_API_CALL
clGetSemaphoreHandleForTypeKHR(cl_semaphore_khr handle, cl_device_id device,
			       cl_external_semaphore_handle_type_khr type,
			       size_t size, void *out, size_t *size_ret)
{
	struct event *e;
	int fd = -1;

	BEGIN(NEEDS_ALL)
	LIVE(semaphore, s, handle, FAKE_SEMAPHORE, CL_INVALID_SEMAPHORE_KHR)
	if (!has_device(s->c.context, device_of(device)))
		return end(refuse(CL_INVALID_DEVICE, "not of the context"));
	if (!s->exports || type != CL_SEMAPHORE_HANDLE_SYNC_FD_KHR)
		return end(refuse(CL_INVALID_VALUE, "not made for that"));
	if (!s->payload)
		return end(refuse(CL_INVALID_OPERATION, "nobody signals it"));
	if (out && size < sizeof(fd))
		return end(refuse(CL_INVALID_VALUE, "no room for an fd"));
	if (!out)
		return end(give(&fd, sizeof(fd), size, out, size_ret));
	/* An export has the effect of a wait. */
	e = s->signal;
	s->payload = false;
	s->signal = NULL;
	if (e->status > CL_COMPLETE)
		fd = fence_new(fake.memfds, false, &e->tell);
	/* Without a sync_file, -1 means a complete signal. */
	if (fd < 0 && e->status > CL_COMPLETE) {
		queue_flush(e->queue);
		event_finish(e);
	}
	return end(give(&fd, sizeof(fd), size, out, size_ret));
}
