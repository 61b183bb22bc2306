// SPDX-License-Identifier: MIT
/* See cuda.h: streams, their work, events, captures. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_objects.h"

/* ---------------------------------------------------------------- captures */

static struct cuda_queue *captures[16];

static void capture_end(struct cuda_queue *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(captures); i++)
		if (captures[i] == s)
			captures[i] = NULL;
	s->capturing = s->invalidated = false;
}

bool capture_forbids(void)
{
	int mode = *capture_mode();
	bool forbids = false;

	if (mode == CUABI_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(captures); i++) {
		struct cuda_queue *s = captures[i];
		bool mine = s && s->captor == this_thread();

		if (!s || s->mode == CUABI_STREAM_CAPTURE_MODE_RELAXED)
			continue;
		if (mine || (mode == CUABI_STREAM_CAPTURE_MODE_GLOBAL &&
			     s->mode == CUABI_STREAM_CAPTURE_MODE_GLOBAL))
			forbids = s->invalidated = true;
	}
	return forbids;
}

bool captures_end(void)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(captures); i++)
		if (captures[i])
			any = captures[i]->invalidated = true;
	return any;
}

/* A capture that the legacy stream would have to wait for. */
static struct cuda_queue *implied(const struct cuda_queue *s)
{
	for (size_t i = 0; s->stream.legacy && i < ARRAY_SIZE(captures); i++)
		if (captures[i] &&
		    stream_waits_for(&s->stream, &captures[i]->stream))
			return captures[i];
	return NULL;
}

/* Begins a call on a stream. */
#define BEGIN_ON(stream, needs)			\
	struct cuda_queue *s;			\
						\
	BEGIN(needs)				\
	result = stream_of(stream, &s);		\
	if (result)				\
		return end(result);

/* For calls that a stream which captures cannot take part in. */
static cuda_result not_capturing(struct cuda_queue *s)
{
	struct cuda_queue *other = implied(s);

	if (other) {
		other->invalidated = true;
		return refuse(CUABI_STREAM_CAPTURE_IMPLICIT,
			      "a blocking stream captures");
	}
	if (!s->capturing)
		return CUABI_SUCCESS;
	s->invalidated = true;
	return refuse(CUABI_STREAM_CAPTURE_UNSUPPORTED, "the stream captures");
}

/* ---------------------------------------------------------------- streams */

struct cuda_queue *queue_make(struct context *ctx, bool legacy, bool blocking,
			      bool ours)
{
	struct cuda_queue *s = make(FAKE_STREAM, sizeof(*s), ctx, ours);

	stream_init(&s->stream, ctx, legacy, blocking);
	return s;
}

void queue_free(struct object *o)
{
	struct cuda_queue *s = (struct cuda_queue *)o;

	capture_end(s);
	stream_end(&s->stream, false);
	unmake(o);
}

/* The default stream of a thread. */
static struct cuda_queue *per_thread(struct context *ctx)
{
	static struct cuda_queue *known[64];
	struct cuda_queue *s;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		s = object_of(known[i], FAKE_STREAM);
		if (s && s->thread == this_thread() && s->object.ctx == ctx)
			return s;
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (object_of(known[i], FAKE_STREAM))
			continue;
		known[i] = queue_make(ctx, false, true, true);
		known[i]->thread = this_thread();
		return known[i];
	}
	return NULL;
}

cuda_result stream_of(cuda_stream handle, struct cuda_queue **out)
{
	struct cuda_queue *s;

	if (handle && handle != CUABI_STREAM_LEGACY &&
	    handle != CUABI_STREAM_PER_THREAD) {
		s = object_of(handle, FAKE_STREAM);
		if (!s && was(handle, FAKE_STREAM) && fake.stream_gone)
			return fake.stream_gone;
		if (!s || s->object.ours)
			return refuse(CUABI_INVALID_HANDLE, "no live stream");
		*out = s;
		return !s->green || s->green->object.live ? CUABI_SUCCESS :
		       CUABI_STREAM_DETACHED;
	}
	if (!current())
		return refuse(CUABI_INVALID_CONTEXT, "no context is current");
	if (!current()->object.live)
		return refuse(CUABI_CONTEXT_IS_DESTROYED,
			      "the current context is no more");
	s = handle == CUABI_STREAM_PER_THREAD ? per_thread(current()) :
						current()->legacy;
	*out = s;
	return s ? CUABI_SUCCESS : CUABI_OUT_OF_MEMORY;
}

cuda_result cuStreamCreate(cuda_stream *stream, unsigned int flags)
{
	BEGIN(NEEDS_ALL)
	if (flags & ~(unsigned int)CUABI_STREAM_NON_BLOCKING)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	*stream = (cuda_stream)queue_make(current(), false, !flags, false);
	return end(CUABI_SUCCESS);
}

cuda_result cuStreamDestroy_v2(cuda_stream stream)
{
	struct cuda_queue *s;

	BEGIN_FREE(NEEDS_ALL)
	if (was(stream, FAKE_STREAM) && fake.stream_gone)
		return end(fake.stream_gone);
	s = object_of(stream, FAKE_STREAM);
	if (!s || s->object.ours)
		return end(refuse(CUABI_INVALID_HANDLE, "no live stream"));
	queue_free(&s->object);
	return end(result);
}

cuda_result cuStreamGetCtx(cuda_stream stream, cuda_context *ctx)
{
	struct cuda_queue *s;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	/* The driver returns this for a context that was destroyed, too. */
	if (was(stream, FAKE_STREAM))
		return end(CUABI_CONTEXT_IS_DESTROYED);
	result = stream_of(stream, &s);
	if (!result)
		*ctx = (cuda_context)(s->object.ours ? top() :
				      s->green ? s->green : s->object.ctx);
	return end(result);
}

/* The regular context, and the green one. */
cuda_result cuStreamGetCtx_v2(cuda_stream stream, cuda_context *ctx, cuda_green *out)
{
	struct context *green;

	BEGIN_ON(stream, NEEDS_INIT | NEEDS_DEVICE)
	green = s->object.ours && top()->of ? top() : s->green;
	if (green && stream == CUABI_STREAM_PER_THREAD)
		return end(refuse(CUABI_INVALID_HANDLE, "a green context is current"));
	*ctx = (cuda_context)s->object.ctx;
	*out = (cuda_green)green;
	return end(CUABI_SUCCESS);
}

cuda_result cuGreenCtxStreamCreate(cuda_stream *stream, cuda_green handle,
				   unsigned int flags, int priority)
{
	struct context *green;
	struct cuda_queue *s;

	(void)priority;
	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	green = object_of(handle, FAKE_CONTEXT);
	if (!green || !green->of || flags != CUABI_STREAM_NON_BLOCKING)
		return end(refuse(CUABI_INVALID_VALUE, "the context or the flags"));
	s = queue_make(green->of, false, false, false);
	s->green = green;
	*stream = (cuda_stream)s;
	return end(CUABI_SUCCESS);
}

cuda_result cuStreamBeginCapture_v2(cuda_stream stream, int mode)
{
	size_t i = 0;

	BEGIN_ON(stream, NEEDS_ALL)
	if (s->stream.legacy || s->capturing || mode < 0 || mode > 2)
		return end(refuse(CUABI_INVALID_VALUE,
				  "the legacy stream, again, or the mode"));
	while (i < ARRAY_SIZE(captures) - 1 && captures[i])
		i++;
	captures[i] = s;
	s->capturing = true;
	s->mode = mode;
	s->captor = this_thread();
	return end(CUABI_SUCCESS);
}

cuda_result cuStreamEndCapture(cuda_stream stream, void **graph)
{
	struct cuda_queue *s;
	bool invalid;

	BEGIN(NEEDS_ALL)
	*graph = NULL;
	result = stream_of(stream, &s);
	if (result)
		return end(result);
	if (!s->capturing)
		return end(refuse(CUABI_INVALID_VALUE, "no capture"));
	if (s->mode != CUABI_STREAM_CAPTURE_MODE_RELAXED &&
	    s->captor != this_thread())
		return end(refuse(CUABI_STREAM_CAPTURE_WRONG_THREAD,
				  "another thread began it"));
	invalid = s->invalidated;
	capture_end(s);
	if (invalid)
		return end(CUABI_STREAM_CAPTURE_INVALIDATED);
	*graph = make(FAKE_GRAPH, sizeof(struct object), s->object.ctx, false);
	return end(CUABI_SUCCESS);
}

cuda_result cuGraphDestroy(void *graph)
{
	BEGIN_FREE(NEEDS_INIT | NEEDS_DEVICE)
	OBJECT(object, o, graph, FAKE_GRAPH, CUABI_INVALID_VALUE)
	unmake(o);
	return end(result);
}

cuda_result cuStreamIsCapturing(cuda_stream stream, int *status)
{
	BEGIN_ON(stream, NEEDS_INIT | NEEDS_DEVICE)
	if (implied(s))
		return end(CUABI_STREAM_CAPTURE_IMPLICIT);
	*status = s->invalidated ? CUABI_STREAM_CAPTURE_STATUS_INVALIDATED :
		  s->capturing ? CUABI_STREAM_CAPTURE_STATUS_ACTIVE :
				 CUABI_STREAM_CAPTURE_STATUS_NONE;
	return end(CUABI_SUCCESS);
}

cuda_result cuThreadExchangeStreamCaptureMode(int *mode)
{
	int *now, before;

	BEGIN(NEEDS_INIT)
	now = capture_mode();
	before = *now;
	if (*mode < 0 || *mode > CUABI_STREAM_CAPTURE_MODE_RELAXED)
		return end(refuse(CUABI_INVALID_VALUE, "no such mode"));
	*now = *mode;
	*mode = before;
	return end(CUABI_SUCCESS);
}

/* ---------------------------------------------------------------- queues */

cuda_result enqueue(struct cuda_queue *s, const struct job *job)
{
	cuda_result result;

	if (s->invalidated)
		return refuse(CUABI_STREAM_CAPTURE_INVALIDATED,
			      "the capture is invalid");
	if (s->capturing)
		return CUABI_SUCCESS;
	result = not_capturing(s);
	if (!result && stream_add(&s->stream, job))
		result = CUABI_OUT_OF_MEMORY;
	return result;
}

cuda_result cuStreamSynchronize(cuda_stream stream)
{
	BEGIN_ON(stream, NEEDS_ALL | UNSAFE)
	result = not_capturing(s);
	return end(result ? result : stream_finish(&s->stream));
}

cuda_result cuStreamQuery(cuda_stream stream)
{
	BEGIN_ON(stream, NEEDS_ALL)
	result = not_capturing(s);
	if (!result && !stream_is_idle(&s->stream))
		result = CUABI_NOT_READY;
	return end(result);
}

cuda_result cuCtxSynchronize(void)
{
	BEGIN(NEEDS_ALL | UNSAFE)
	/*
	 * In all modes: the context has a stream that captures. The caller cannot know that
	 * before.
	 */
	for (size_t i = 0; i < ARRAY_SIZE(captures); i++)
		if (captures[i] && captures[i]->object.ctx == current())
			return end(CUABI_STREAM_CAPTURE_UNSUPPORTED);
	return end(context_finish(current()));
}

/* ---------------------------------------------------------------- copies */

/* The host's side of a copy: a range, or NULL where it is pageable. */
static cuda_result host_bytes(const void *p, size_t bytes, bool write,
			      struct range **range)
{
	uintptr_t from = (uintptr_t)p;
	struct range *r = range_of_host(from), *d = range_of_device(from);

	*range = r;
	if (r && write && r->read_only)
		return refuse(CUABI_INVALID_VALUE, "registered as READ_ONLY");
	if (r && bytes <= r->bytes - (from - (uintptr_t)r->pointer))
		return CUABI_SUCCESS;
	if (r || range_of_host(from + bytes - 1))
		return refuse(CUABI_INVALID_VALUE,
			      "partly within memory that the device knows");
	if ((d && !d->pointer) || !is_mapped(p, bytes))
		return refuse(CUABI_INVALID_VALUE, "no memory of the host");
	return CUABI_SUCCESS;
}

static cuda_result copy(struct cuda_queue *s, struct job *job,
			struct range *device, struct range *host)
{
	cuda_result result;

	job->uses[0] = device ? &device->object : NULL;
	job->uses[1] = host ? &host->object : NULL;
	if (host || s->capturing || device_of(s->object.ctx)->pageable)
		return enqueue(s, job);
	/* Through the driver's own buffer: when the stream is there. */
	result = not_capturing(s);
	if (result)
		return result;
	fake.pageable_copies++;
	result = stream_finish(&s->stream);
	if (!result)
		memmove(job->to, job->from, job->bytes);
	return result;
}

static cuda_result copy_in(cuda_pointer to, const void *from, size_t bytes,
			   struct cuda_queue *s)
{
	struct job job = { .run = job_copy, .from = from, .bytes = bytes };
	struct range *device, *host;
	cuda_result result;

	if (!bytes)
		return CUABI_SUCCESS;
	result = device_bytes(s->object.ctx, to, bytes, true, &device, &job.to);
	if (!result)
		result = host_bytes(from, bytes, false, &host);
	return result ? result : copy(s, &job, device, host);
}

static cuda_result copy_out(void *to, cuda_pointer from, size_t bytes,
			    struct cuda_queue *s)
{
	struct job job = { .run = job_copy, .to = to, .bytes = bytes };
	struct range *device, *host;
	cuda_result result;
	uint8_t *source;

	if (!bytes)
		return CUABI_SUCCESS;
	result = device_bytes(s->object.ctx, from, bytes, false, &device,
			      &source);
	if (!result && device && device->external) {
		while (fake.fault == FAKE_HANG)
			pause();
		if (fake.fault == FAKE_CRASH)
			raise(SIGSEGV);
	}
	if (!result)
		result = host_bytes(to, bytes, true, &host);
	job.from = source;
	return result ? result : copy(s, &job, device, host);
}

cuda_result cuMemcpyHtoDAsync_v2(cuda_pointer to, const void *from,
				 size_t bytes, cuda_stream stream)
{
	BEGIN_ON(stream, NEEDS_ALL)
	return end(copy_in(to, from, bytes, s));
}

cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_pointer from, size_t bytes,
				 cuda_stream stream)
{
	BEGIN_ON(stream, NEEDS_ALL)
	return end(copy_out(to, from, bytes, s));
}

cuda_result cuMemcpyHtoD_v2(cuda_pointer to, const void *from, size_t bytes)
{
	BEGIN(NEEDS_ALL | UNSAFE)
	result = copy_in(to, from, bytes, current()->legacy);
	return end(result ? result : stream_finish(&current()->legacy->stream));
}

cuda_result cuMemcpyDtoH_v2(void *to, cuda_pointer from, size_t bytes)
{
	BEGIN(NEEDS_ALL | UNSAFE)
	result = copy_out(to, from, bytes, current()->legacy);
	return end(result ? result : stream_finish(&current()->legacy->stream));
}

cuda_result cuMemsetD8Async(cuda_pointer p, unsigned char value, size_t bytes,
			    cuda_stream stream)
{
	struct job job = { .run = job_set, .value = value, .bytes = bytes };
	struct range *r;

	BEGIN_ON(stream, NEEDS_ALL)
	if (bytes)
		result = device_bytes(s->object.ctx, p, bytes, true, &r, &job.to);
	if (result || !bytes)
		return end(result);
	job.uses[0] = r ? &r->object : NULL;
	return end(enqueue(s, &job));
}

/* ---------------------------------------------------------------- values */

static cuda_result value_job(enum progress (*run)(struct job *job),
			     cuda_stream stream, cuda_pointer p, uint32_t value,
			     unsigned int flags)
{
	struct job job = { .run = run, .value = value, .bytes = 4 };
	cuda_result result;
	struct range *r;
	struct cuda_queue *s;

	result = stream_of(stream, &s);
	if (result)
		return result;
	if (device_of(s->object.ctx)->no_mem_ops)
		return CUABI_NOT_SUPPORTED;
	if (flags || p % 4)
		return refuse(CUABI_INVALID_VALUE, "flags, or alignment");
	result = device_bytes(s->object.ctx, p, 4, run == job_write_word, &r,
			      &job.to);
	if (result)
		return result;
	if (r && r->managed)
		return refuse(CUABI_INVALID_VALUE, "managed memory");
	job.uses[0] = r ? &r->object : NULL;
	return enqueue(s, &job);
}

cuda_result cuStreamWaitValue32_v2(cuda_stream stream, cuda_pointer p,
				   uint32_t value, unsigned int flags)
{
	BEGIN(NEEDS_ALL)
	return end(value_job(job_wait_word, stream, p, value, flags));
}

cuda_result cuStreamWriteValue32_v2(cuda_stream stream, cuda_pointer p,
				    uint32_t value, unsigned int flags)
{
	BEGIN(NEEDS_ALL)
	return end(value_job(job_write_word, stream, p, value, flags));
}

cuda_result cuLaunchHostFunc(cuda_stream stream, cuda_host_fn fn, void *data)
{
	struct job job = {
		.run = job_call, .fn = fn, .data = data,
	};

	BEGIN_ON(stream, NEEDS_ALL)
	if (!fn)
		result = refuse(CUABI_INVALID_VALUE, "no function");
	return end(result ? result : enqueue(s, &job));
}

/* ---------------------------------------------------------------- kernels */

/* PTX that old drivers accept, too: its header has the version, and it has one kernel. */
cuda_result cuModuleLoadData(cuda_module *module, const void *image)
{
	unsigned int major = 0, minor = 0;
	const char *text = image;

	BEGIN(NEEDS_ALL | UNSAFE)
	if (sscanf(text, ".version %u.%u", &major, &minor) != 2 || major > 4 ||
	    !strstr(text, "\n.target sm_50\n.address_size 64\n") ||
	    !strstr(text, "\n.visible .entry prepare(\n"))
		return end(refuse(CUABI_INVALID_PTX, "it is not for all drivers, or no PTX"));
	*module = make(FAKE_MODULE, sizeof(struct object), current(), false);
	return end(CUABI_SUCCESS);
}

cuda_result cuModuleUnload(cuda_module module)
{
	BEGIN_FREE(NEEDS_ALL | UNSAFE)
	OBJECT(object, o, module, FAKE_MODULE, CUABI_INVALID_HANDLE)
	unmake(o);
	return end(result);
}

/* Its handle is the module's. */
cuda_result cuModuleGetFunction(cuda_function *f, cuda_module module, const char *name)
{
	BEGIN(NEEDS_ALL)
	OBJECT(object, o, module, FAKE_MODULE, CUABI_INVALID_HANDLE)
	if (strcmp(name, "prepare"))
		return end(CUABI_NOT_FOUND);
	*f = (cuda_function)o;
	return end(CUABI_SUCCESS);
}

/* The limits are those of all GPUs: compute capabilities, in CUDA's programming guide. */
cuda_result cuLaunchKernel(cuda_function f, unsigned int gx, unsigned int gy, unsigned int gz,
			   unsigned int bx, unsigned int by, unsigned int bz,
			   unsigned int shared, cuda_stream stream, void **params, void **extra)
{
	struct kernel_job k = { .across = gx * bx, .down = gy * by, .images = gz };
	struct job job = { .run = job_kernel };

	BEGIN_ON(stream, NEEDS_ALL)
	OBJECT(object, module, f, FAKE_MODULE, CUABI_INVALID_HANDLE)
	if (!gx || !gy || gy > 65535 || !gz || gz > 65535 || !bx || !by || bx * by > 1024 ||
	    bz != 1 || shared || extra || module->ctx != s->object.ctx)
		return end(refuse(CUABI_INVALID_VALUE, "the grid, the block, or the context"));
	for (size_t i = 0; i < PREPARE_BUFFERS; i++) {
		cuda_pointer p = *(cuda_pointer *)params[i];
		struct range *r;

		result = device_bytes(s->object.ctx, p, 1, i == 3, &r, &k.buffers[i]);
		if (result)
			return end(result);
		k.bytes[i] = r ? r->bytes - (p - r->address) : SIZE_MAX;
		job.uses[i] = r ? &r->object : NULL;
	}
	memcpy(k.run, params[PREPARE_BUFFERS], sizeof(k.run));
	job.kernel = malloc(sizeof(k));
	*job.kernel = k;
	result = enqueue(s, &job);
	if (result || s->capturing)
		free(job.kernel);
	return end(result);
}

/* ---------------------------------------------------------------- events */

cuda_result cuEventCreate(cuda_event *event, unsigned int flags)
{
	BEGIN(NEEDS_ALL)
	if (flags & ~7u)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	*event = make(FAKE_EVENT, sizeof(struct event), current(), false);
	return end(CUABI_SUCCESS);
}

void event_free(struct object *o)
{
	struct event *e = (struct event *)o;

	record_put(e->record);
	e->record = NULL;
	unmake(o);
}

cuda_result cuEventDestroy_v2(cuda_event event)
{
	BEGIN_FREE(NEEDS_ALL)
	OBJECT(event, e, event, FAKE_EVENT, CUABI_INVALID_HANDLE)
	event_free(&e->object);
	return end(result);
}

cuda_result cuEventRecord(cuda_event event, cuda_stream stream)
{
	struct job job = { .run = job_record };
	struct event *e;

	BEGIN_ON(stream, NEEDS_ALL)
	e = object_of(event, FAKE_EVENT);
	if (!e || e->object.ctx != s->object.ctx)
		return end(refuse(CUABI_INVALID_HANDLE,
				  "no live event of the stream's context"));
	job.record = record_make();
	result = enqueue(s, &job);
	if (result) {
		record_put(job.record);
		return end(result);
	}
	record_put(e->record);
	e->record = job.record;
	e->captured = s->capturing;
	return end(CUABI_SUCCESS);
}

cuda_result cuStreamWaitEvent(cuda_stream stream, cuda_event event,
			      unsigned int flags)
{
	struct job job = { .run = job_wait_record };

	BEGIN_ON(stream, NEEDS_ALL)
	OBJECT(event, e, event, FAKE_EVENT, CUABI_INVALID_HANDLE)
	if (flags)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	/* With CUDA the stream would take part in that capture. */
	if (e->captured && !s->capturing)
		return end(refuse(CUABI_NOT_SUPPORTED,
				  "the event is of a capture"));
	job.record = e->record;
	return end(enqueue(s, &job));
}

/* The event, if it can be asked about. */
static cuda_result event_of(cuda_event handle, struct record **out)
{
	struct event *e = object_of(handle, FAKE_EVENT);

	if (!e)
		return refuse(CUABI_INVALID_HANDLE, "no live event");
	*out = e->record;
	if (e->captured)
		return refuse(CUABI_STREAM_CAPTURE_UNSUPPORTED,
			      "the event is of a capture");
	return CUABI_SUCCESS;
}

cuda_result cuEventQuery(cuda_event event)
{
	struct record *record;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE | UNSAFE)
	result = event_of(event, &record);
	if (!result && !record_is_done(record))
		result = CUABI_NOT_READY;
	return end(result);
}

cuda_result cuEventSynchronize(cuda_event event)
{
	struct record *record;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE | UNSAFE)
	result = event_of(event, &record);
	return end(result ? result : record_finish(record));
}
