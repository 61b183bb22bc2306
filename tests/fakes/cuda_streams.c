// SPDX-License-Identifier: MIT
/* See cuda.h: streams, what is in them, events, captures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_objects.h"

struct stream *streams;
static uint64_t sequence;

/* ---------------------------------------------------------------- records */

static void record_put(struct record *record)
{
	if (record && !--record->refs)
		free(record);
}

static struct record *record_get(struct record *record)
{
	if (record)
		record->refs++;
	return record;
}

static struct record *record_make(void)
{
	struct record *record = calloc(1, sizeof(*record));

	record->refs = 1;
	return record;
}

/* ---------------------------------------------------------------- operations */

static void operation_free(struct operation *op)
{
	for (int i = 0; i < 2; i++)
		if (op->uses[i])
			op->uses[i]->pending--;
	record_put(op->record);
	free(op);
}

static struct operation *operation_copy(const struct operation *model)
{
	struct operation *op = malloc(sizeof(*op));

	*op = *model;
	op->next = NULL;
	op->sequence = ++sequence;
	record_get(op->record);
	for (int i = 0; i < 2; i++)
		if (op->uses[i])
			op->uses[i]->pending++;
	return op;
}

/* What it works on has not been freed, which was said when it happened. */
static bool is_alive(const struct operation *op)
{
	return (!op->uses[0] || op->uses[0]->live) &&
	       (!op->uses[1] || op->uses[1]->live);
}

static bool is_range(const struct object *o)
{
	return o && o->kind != FAKE_EXTERNAL_SEMAPHORE;
}

/* The CPU's side may be gone without a word to CUDA. */
static bool still_mapped(const struct operation *op)
{
	bool mapped = is_mapped(op->to, op->bytes) &&
		      (op->kind != OP_COPY || is_mapped(op->from, op->bytes));

	for (int i = 0; i < 2; i++)
		if (is_range(op->uses[i]) &&
		    !range_is_mapped((const struct range *)op->uses[i]))
			mapped = false;
	if (!mapped)
		wrong("a stream uses memory that was unmapped");
	return mapped;
}

static void signal_semaphore(const struct operation *op)
{
	struct fake_timeline *t = (void *)op->semaphore->map;

	if (t->value >= op->value)
		wrong("a timeline is signalled with %llu and is %llu",
		      (unsigned long long)op->value,
		      (unsigned long long)t->value);
	t->value = op->value;
}

/* False while it has to wait. Drops the lock for a host function. */
static bool run(struct operation *op)
{
	if (!is_alive(op))
		return true;
	switch (op->kind) {
	case OP_COPY:
		if (still_mapped(op))
			memmove(op->to, op->from, op->bytes);
		return true;
	case OP_SET:
		if (still_mapped(op))
			memset(op->to, (int)op->value, op->bytes);
		return true;
	case OP_WAIT_VALUE:
		return !still_mapped(op) ||
		       (int32_t)(atomic_load((_Atomic(uint32_t) *)op->to) -
				 (uint32_t)op->value) >= 0;
	case OP_WRITE_VALUE:
		if (still_mapped(op))
			atomic_store((_Atomic(uint32_t) *)op->to,
				     (uint32_t)op->value);
		return true;
	case OP_HOST_FUNCTION:
		fake.host_functions++;
		in_host_function = true;
		pthread_mutex_unlock(&lock);
		op->fn(op->data);
		pthread_mutex_lock(&lock);
		in_host_function = false;
		return true;
	case OP_RECORD:
		op->record->done = true;
		return true;
	case OP_WAIT_RECORD:
		return op->record->done;
	case OP_SIGNAL:
		signal_semaphore(op);
		return true;
	case OP_WAIT:
		return ((struct fake_timeline *)op->semaphore->map)->value >=
		       op->value;
	}
	return true;
}

/* ---------------------------------------------------------------- workers */

/* The legacy stream waits for the blocking ones, and they for it. */
static bool waits_for(const struct stream *s, const struct stream *other)
{
	return s != other && s->object.ctx == other->object.ctx &&
	       s->blocking && other->blocking && s->legacy != other->legacy;
}

static bool may_start(const struct stream *s)
{
	for (const struct stream *t = streams; t; t = t->next)
		if (waits_for(s, t) && t->head &&
		    t->head->sequence < s->head->sequence)
			return false;
	return true;
}

static void pop(struct stream *s)
{
	struct operation *op = s->head;

	s->head = op->next;
	if (!s->head)
		s->tail = &s->head;
	operation_free(op);
	fake.pending--;
	pthread_cond_broadcast(&changed);
}

/* Memory changes without a word: it is looked at again and again. */
static void wait_for_change(const struct operation *op)
{
	struct timespec t;

	if (!op || (op->kind != OP_WAIT_VALUE && op->kind != OP_WAIT)) {
		pthread_cond_wait(&changed, &lock);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 100000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	pthread_cond_timedwait(&changed, &lock, &t);
}

static void *work(void *data)
{
	struct stream *s = data;

	pthread_mutex_lock(&lock);
	while (s->head || !s->closing) {
		if (s->head && (fake.lost || (may_start(s) && run(s->head))))
			pop(s);
		else
			wait_for_change(s->head);
	}
	s->exited = true;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Takes streams out of the list whose thread is gone, or is to go. */
static void reap(bool all)
{
	struct stream **link = &streams;

	while (*link) {
		struct stream *s = *link;

		if (!s->exited && !all) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		s->closing = true;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		pthread_join(s->worker, NULL);
		pthread_mutex_lock(&lock);
		link = &streams;
	}
}

void streams_reset(void)
{
	pthread_mutex_lock(&lock);
	/* What waits for ever is dropped. */
	if (!fake.lost)
		fake.lost = CUABI_DEINITIALIZED;
	pthread_cond_broadcast(&changed);
	reap(true);
	pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- captures */

static struct stream *captures[16];

static void capture_end(struct stream *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(captures); i++)
		if (captures[i] == s)
			captures[i] = NULL;
	while (s->recorded) {
		struct operation *op = s->recorded;

		s->recorded = op->next;
		operation_free(op);
	}
	s->capturing = s->invalidated = false;
}

bool capture_forbids(void)
{
	int mode = *capture_mode();
	bool forbids = false;

	if (mode == CUABI_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(captures); i++) {
		struct stream *s = captures[i];
		bool mine = s && s->captor == this_thread();

		if (!s || s->mode == CUABI_STREAM_CAPTURE_MODE_RELAXED)
			continue;
		if (mine || (mode == CUABI_STREAM_CAPTURE_MODE_GLOBAL &&
			     s->mode == CUABI_STREAM_CAPTURE_MODE_GLOBAL))
			forbids = s->invalidated = true;
	}
	return forbids;
}

/* A capture that the legacy stream would have to wait for. */
static struct stream *implied(const struct stream *s)
{
	for (size_t i = 0; s->legacy && i < ARRAY_SIZE(captures); i++)
		if (captures[i] && waits_for(s, captures[i]))
			return captures[i];
	return NULL;
}

/* For calls that a stream which captures cannot take part in. */
static cuda_result not_capturing(struct stream *s)
{
	struct stream *other = implied(s);

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

struct stream *stream_make(struct context *ctx, bool legacy, bool blocking,
			   bool ours)
{
	struct stream *s = make(FAKE_STREAM, sizeof(*s), ctx, ours);

	s->legacy = legacy;
	s->blocking = blocking;
	s->tail = &s->head;
	return s;
}

void stream_free(struct stream *s)
{
	capture_end(s);
	s->closing = true;
	unmake(&s->object);
}

/* The one that a thread has for itself. */
static struct stream *per_thread(struct context *ctx)
{
	static struct stream *known[64];
	struct stream *s;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		s = object_of(known[i], FAKE_STREAM);
		if (s && s->thread == this_thread() && s->object.ctx == ctx)
			return s;
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (object_of(known[i], FAKE_STREAM))
			continue;
		known[i] = stream_make(ctx, false, true, true);
		known[i]->thread = this_thread();
		return known[i];
	}
	return NULL;
}

cuda_result stream_of(cuda_stream handle, struct stream **out)
{
	struct stream *s;

	if (handle && handle != CUABI_STREAM_LEGACY &&
	    handle != CUABI_STREAM_PER_THREAD) {
		s = object_of(handle, FAKE_STREAM);
		if (!s || s->object.ours)
			return refuse(CUABI_INVALID_HANDLE, "no live stream");
		*out = s;
		return CUABI_SUCCESS;
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
	reap(false);
	*stream = (cuda_stream)stream_make(current(), false, !flags, false);
	return end(CUABI_SUCCESS);
}

cuda_result cuStreamDestroy_v2(cuda_stream stream)
{
	struct stream *s;

	BEGIN_FREE(NEEDS_ALL)
	s = object_of(stream, FAKE_STREAM);
	if (!s || s->object.ours)
		return end(refuse(CUABI_INVALID_HANDLE, "no live stream"));
	stream_free(s);
	reap(false);
	return end(result);
}

cuda_result cuStreamGetCtx(cuda_stream stream, cuda_context *ctx)
{
	struct stream *s;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	/* What the driver says of a context that was destroyed, too. */
	if (was(stream, FAKE_STREAM))
		return end(CUABI_CONTEXT_IS_DESTROYED);
	result = stream_of(stream, &s);
	if (!result)
		*ctx = (cuda_context)s->object.ctx;
	return end(result);
}

cuda_result cuStreamBeginCapture_v2(cuda_stream stream, int mode)
{
	struct stream *s;
	size_t i = 0;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	if (result)
		return end(result);
	if (s->legacy || s->capturing || mode < 0 || mode > 2)
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
	struct stream *s;
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

void graph_free(struct object *graph)
{
	unmake(graph);
}

cuda_result cuGraphDestroy(void *graph)
{
	struct object *o;

	BEGIN_FREE(NEEDS_INIT | NEEDS_DEVICE)
	o = object_of(graph, FAKE_GRAPH);
	if (!o)
		return end(refuse(CUABI_INVALID_VALUE, "no live graph"));
	graph_free(o);
	return end(result);
}

cuda_result cuStreamIsCapturing(cuda_stream stream, int *status)
{
	struct stream *s;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE)
	result = stream_of(stream, &s);
	if (result)
		return end(result);
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

static cuda_result start(struct stream *s)
{
	if (s->started)
		return CUABI_SUCCESS;
	if (pthread_create(&s->worker, NULL, work, s))
		return CUABI_OUT_OF_MEMORY;
	s->started = true;
	s->next = streams;
	streams = s;
	return CUABI_SUCCESS;
}

cuda_result enqueue(struct stream *s, const struct operation *model)
{
	struct operation *op, **tail = s->tail;
	cuda_result result;

	if (s->invalidated)
		return refuse(CUABI_STREAM_CAPTURE_INVALIDATED,
			      "the capture is invalid");
	result = s->capturing ? CUABI_SUCCESS : not_capturing(s);
	if (!result)
		result = start(s);
	if (result)
		return result;
	op = operation_copy(model);
	if (s->capturing) {
		op->next = s->recorded;
		s->recorded = op;
		return CUABI_SUCCESS;
	}
	*tail = op;
	s->tail = &op->next;
	fake.pending++;
	pthread_cond_broadcast(&changed);
	return CUABI_SUCCESS;
}

static bool is_idle(const struct stream *s, uint64_t until)
{
	return !s->head || s->head->sequence > until;
}

/* The stream, and what is before it by what legacy streams mean. */
static bool is_over(const struct stream *s, uint64_t until)
{
	for (const struct stream *t = streams; t; t = t->next)
		if (s->legacy && waits_for(s, t) && !is_idle(t, until))
			return false;
	return is_idle(s, until);
}

cuda_result drain(struct stream *s)
{
	uint64_t until = sequence;

	fake.synchronising++;
	while (!fake.lost && !is_over(s, until))
		pthread_cond_wait(&changed, &lock);
	return fake.lost;
}

static bool context_is_over(const struct context *ctx, uint64_t until)
{
	for (const struct stream *t = streams; t; t = t->next)
		if (t->object.ctx == ctx && !is_idle(t, until))
			return false;
	return true;
}

bool freeing;

void wait_to_free(const struct object *o)
{
	uint64_t until = sequence;

	if (fake.lost || o->pending || context_is_over(o->ctx, until))
		return;
	fake.synchronising++;
	freeing = true;
	while (!fake.lost && !context_is_over(o->ctx, until))
		pthread_cond_wait(&changed, &lock);
	freeing = false;
	pthread_cond_broadcast(&changed);
}

cuda_result cuStreamSynchronize(cuda_stream stream)
{
	struct stream *s;

	BEGIN(NEEDS_ALL | UNSAFE)
	result = stream_of(stream, &s);
	if (!result)
		result = not_capturing(s);
	return end(result ? result : drain(s));
}

cuda_result cuStreamQuery(cuda_stream stream)
{
	struct stream *s;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	if (!result)
		result = not_capturing(s);
	if (!result && !is_over(s, sequence))
		result = CUABI_NOT_READY;
	return end(result);
}

cuda_result cuCtxSynchronize(void)
{
	uint64_t until;

	BEGIN(NEEDS_ALL | UNSAFE)
	until = sequence;
	fake.synchronising++;
	while (!fake.lost && !context_is_over(current(), until))
		pthread_cond_wait(&changed, &lock);
	return end(fake.lost);
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

static cuda_result copy(struct stream *s, struct operation *op,
			struct range *device, struct range *host)
{
	cuda_result result;

	op->uses[0] = device ? &device->object : NULL;
	op->uses[1] = host ? &host->object : NULL;
	if (host || s->capturing || device_of(s->object.ctx)->pageable)
		return enqueue(s, op);
	/* Through the driver's own buffer: when the stream is there. */
	result = not_capturing(s);
	if (result)
		return result;
	fake.pageable_copies++;
	result = drain(s);
	if (!result)
		memmove(op->to, op->from, op->bytes);
	return result;
}

static cuda_result copy_in(cuda_pointer to, const void *from, size_t bytes,
			   struct stream *s)
{
	struct operation op = { .kind = OP_COPY, .from = from, .bytes = bytes };
	struct range *device, *host;
	cuda_result result;

	if (!bytes)
		return CUABI_SUCCESS;
	result = device_bytes(s->object.ctx, to, bytes, true, &device, &op.to);
	if (!result)
		result = host_bytes(from, bytes, false, &host);
	return result ? result : copy(s, &op, device, host);
}

static cuda_result copy_out(void *to, cuda_pointer from, size_t bytes,
			    struct stream *s)
{
	struct operation op = { .kind = OP_COPY, .to = to, .bytes = bytes };
	struct range *device, *host;
	cuda_result result;
	uint8_t *source;

	if (!bytes)
		return CUABI_SUCCESS;
	result = device_bytes(s->object.ctx, from, bytes, false, &device,
			      &source);
	if (!result)
		result = host_bytes(to, bytes, true, &host);
	op.from = source;
	return result ? result : copy(s, &op, device, host);
}

cuda_result cuMemcpyHtoDAsync_v2(cuda_pointer to, const void *from,
				 size_t bytes, cuda_stream stream)
{
	struct stream *s;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	return end(result ? result : copy_in(to, from, bytes, s));
}

cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_pointer from, size_t bytes,
				 cuda_stream stream)
{
	struct stream *s;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	return end(result ? result : copy_out(to, from, bytes, s));
}

cuda_result cuMemcpyHtoD_v2(cuda_pointer to, const void *from, size_t bytes)
{
	BEGIN(NEEDS_ALL | UNSAFE)
	result = copy_in(to, from, bytes, current()->legacy);
	return end(result ? result : drain(current()->legacy));
}

cuda_result cuMemcpyDtoH_v2(void *to, cuda_pointer from, size_t bytes)
{
	BEGIN(NEEDS_ALL | UNSAFE)
	result = copy_out(to, from, bytes, current()->legacy);
	return end(result ? result : drain(current()->legacy));
}

cuda_result cuMemsetD8Async(cuda_pointer p, unsigned char value, size_t bytes,
			    cuda_stream stream)
{
	struct operation op = { .kind = OP_SET, .value = value, .bytes = bytes };
	struct range *r;
	struct stream *s;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	if (!result && bytes)
		result = device_bytes(s->object.ctx, p, bytes, true, &r, &op.to);
	if (result || !bytes)
		return end(result);
	op.uses[0] = r ? &r->object : NULL;
	return end(enqueue(s, &op));
}

/* ---------------------------------------------------------------- values */

static cuda_result value_operation(enum operation_kind kind, cuda_stream stream,
				   cuda_pointer p, uint32_t value,
				   unsigned int flags)
{
	struct operation op = { .kind = kind, .value = value, .bytes = 4 };
	cuda_result result;
	struct range *r;
	struct stream *s;

	result = stream_of(stream, &s);
	if (result)
		return result;
	if (device_of(s->object.ctx)->no_mem_ops)
		return CUABI_NOT_SUPPORTED;
	if (flags || p % 4)
		return refuse(CUABI_INVALID_VALUE, "flags, or alignment");
	result = device_bytes(s->object.ctx, p, 4, kind == OP_WRITE_VALUE, &r,
			      &op.to);
	if (result)
		return result;
	if (r && r->managed)
		return refuse(CUABI_INVALID_VALUE, "managed memory");
	op.uses[0] = r ? &r->object : NULL;
	return enqueue(s, &op);
}

cuda_result cuStreamWaitValue32_v2(cuda_stream stream, cuda_pointer p,
				   uint32_t value, unsigned int flags)
{
	BEGIN(NEEDS_ALL)
	return end(value_operation(OP_WAIT_VALUE, stream, p, value, flags));
}

cuda_result cuStreamWriteValue32_v2(cuda_stream stream, cuda_pointer p,
				    uint32_t value, unsigned int flags)
{
	BEGIN(NEEDS_ALL)
	return end(value_operation(OP_WRITE_VALUE, stream, p, value, flags));
}

cuda_result cuLaunchHostFunc(cuda_stream stream, cuda_host_fn fn, void *data)
{
	struct operation op = {
		.kind = OP_HOST_FUNCTION, .fn = fn, .data = data,
	};
	struct stream *s;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	if (!result && !fn)
		result = refuse(CUABI_INVALID_VALUE, "no function");
	return end(result ? result : enqueue(s, &op));
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

void event_free(struct event *e)
{
	record_put(e->record);
	e->record = NULL;
	unmake(&e->object);
}

cuda_result cuEventDestroy_v2(cuda_event event)
{
	struct event *e;

	BEGIN_FREE(NEEDS_ALL)
	e = object_of(event, FAKE_EVENT);
	if (!e)
		return end(refuse(CUABI_INVALID_HANDLE, "no live event"));
	event_free(e);
	return end(result);
}

cuda_result cuEventRecord(cuda_event event, cuda_stream stream)
{
	struct operation op = { .kind = OP_RECORD };
	struct stream *s;
	struct event *e;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	if (result)
		return end(result);
	e = object_of(event, FAKE_EVENT);
	if (!e || e->object.ctx != s->object.ctx)
		return end(refuse(CUABI_INVALID_HANDLE,
				  "no live event of the stream's context"));
	op.record = record_make();
	op.record->captured = s->capturing;
	result = enqueue(s, &op);
	if (result) {
		record_put(op.record);
		return end(result);
	}
	record_put(e->record);
	e->record = op.record;
	return end(CUABI_SUCCESS);
}

cuda_result cuStreamWaitEvent(cuda_stream stream, cuda_event event,
			      unsigned int flags)
{
	struct operation op = { .kind = OP_WAIT_RECORD };
	struct stream *s;
	struct event *e;

	BEGIN(NEEDS_ALL)
	result = stream_of(stream, &s);
	if (result)
		return end(result);
	e = object_of(event, FAKE_EVENT);
	if (!e)
		return end(refuse(CUABI_INVALID_HANDLE, "no live event"));
	if (flags)
		return end(refuse(CUABI_INVALID_VALUE, "flags"));
	if (!e->record)
		return end(CUABI_SUCCESS);
	/* With CUDA the stream would take part in that capture. */
	if (e->record->captured && !s->capturing)
		return end(refuse(CUABI_NOT_SUPPORTED,
				  "the event is of a capture"));
	op.record = e->record;
	return end(enqueue(s, &op));
}

/* The event, if it can be asked about. */
static cuda_result event_of(cuda_event handle, struct record **out)
{
	struct event *e = object_of(handle, FAKE_EVENT);

	if (!e)
		return refuse(CUABI_INVALID_HANDLE, "no live event");
	*out = e->record;
	if (e->record && e->record->captured)
		return refuse(CUABI_STREAM_CAPTURE_UNSUPPORTED,
			      "the event is of a capture");
	return CUABI_SUCCESS;
}

cuda_result cuEventQuery(cuda_event event)
{
	struct record *record;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE | UNSAFE)
	result = event_of(event, &record);
	if (!result && record && !record->done)
		result = CUABI_NOT_READY;
	return end(result);
}

cuda_result cuEventSynchronize(cuda_event event)
{
	struct record *record;

	BEGIN(NEEDS_INIT | NEEDS_DEVICE | UNSAFE)
	result = event_of(event, &record);
	if (result)
		return end(result);
	fake.synchronising++;
	record_get(record);
	while (!fake.lost && record && !record->done)
		pthread_cond_wait(&changed, &lock);
	record_put(record);
	return end(fake.lost);
}
