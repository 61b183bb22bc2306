// SPDX-License-Identifier: MIT
/* See opencl.h: queues, commands, events and callbacks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl_objects.h"

static struct stream callbacks;
bool resetting;

/* ---------------------------------------------------------------- callbacks */

void call_later(enum progress (*run)(struct job *job), void *data)
{
	stream_add(&callbacks, &(struct job){
		.run = run, .data = data, .ends_lost = true });
}

struct notice {
	struct callback callback;
	struct event *event;
	cl_int status;
};

static enum progress run_notice(struct job *job)
{
	struct notice *n = job->data;

	if (!resetting) {
		fake.host_functions++;
		in_host_function = true;
		pthread_mutex_unlock(&lock);
		n->callback.fn((cl_event)n->event, n->status, n->callback.data);
		pthread_mutex_lock(&lock);
		in_host_function = false;
	}
	free(n);
	return JOB_DONE;
}

/* Calls the callbacks for this status, and for those that a command passes before it. */
static void notify(struct event *e)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < e->ncallbacks; i++) {
		struct notice *n;

		if (e->callbacks[i].type < e->status) {
			e->callbacks[kept++] = e->callbacks[i];
			continue;
		}
		n = malloc(sizeof(*n));
		*n = (struct notice){ e->callbacks[i], e, e->status < 0 ?
				      e->status : e->callbacks[i].type };
		call_later(run_notice, n);
	}
	e->ncallbacks = kept;
}

static void set_status(struct event *e, cl_int status)
{
	e->status = status;
	notify(e);
	pthread_cond_broadcast(&changed);
}

/* ---------------------------------------------------------------- commands */

static void let_go(struct event *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(e->memories) && e->memories[i]; i++) {
		e->memories[i]->users--;
		memory_put(e->memories[i]);
		e->memories[i] = NULL;
	}
	if (e->wait >= 0)
		close(e->wait);
	e->wait = -1;
}

static void complete(struct event *e, cl_int status)
{
	fence_tell(&e->tell);
	let_go(e);
	set_status(e, status);
}

/* Whether an event of the wait list is incomplete. *failed: whether one has failed. */
static bool waits_on(const struct event *e, bool *failed)
{
	*failed = false;
	for (cl_uint i = 0; i < e->nwaits; i++) {
		if (e->waits[i]->status > CL_COMPLETE)
			return true;
		if (e->waits[i]->status < 0)
			*failed = true;
	}
	return false;
}

static enum progress run_event(struct event *e)
{
	enum progress progress;
	bool failed;

	call = "a command";
	if (fake.lost) {
		complete(e, fake.lost);
		return JOB_DONE;
	}
	if (waits_on(e, &failed))
		return JOB_WAITS;
	if (failed) {
		complete(e, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
		return JOB_DONE;
	}
	if (e->status != CL_RUNNING)
		set_status(e, CL_RUNNING);
	progress = e->run ? e->run(e) : JOB_DONE;
	if (progress == JOB_DONE)
		complete(e, CL_COMPLETE);
	return progress;
}

static enum progress run_command(struct job *job)
{
	return run_event(job->data);
}

/*
 * An out-of-order queue runs the last command that may run, so that a missing barrier is
 * noticed. A barrier, and a marker without a list, waits for all commands before it.
 */
static struct event **pick(struct queue *q)
{
	struct event **link = &q->ready, **best = NULL;
	bool failed;

	for (; *link && !fake.lost; link = &(*link)->next) {
		struct event *e = *link;
		bool all = e->type == CL_COMMAND_BARRIER ||
			   (e->type == CL_COMMAND_MARKER && !e->nwaits);

		if (!waits_on(e, &failed) && (!all || link == &q->ready))
			best = link;
		if (e->type == CL_COMMAND_BARRIER)
			break;
	}
	return fake.lost ? &q->ready : best;
}

static enum progress run_any(struct job *job)
{
	struct event **link = pick(job->data), *e;
	enum progress progress;

	if (!link)
		return JOB_WAITS;
	e = *link;
	if (!e)
		return JOB_DONE;
	progress = run_event(e);
	if (progress == JOB_DONE)
		*link = e->next;
	return progress;
}

static void start(struct queue *q, struct event *e)
{
	struct job job = { .run = run_command, .data = e, .ends_lost = true };
	struct event **link = &q->ready;

	if (q->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) {
		while (*link)
			link = &(*link)->next;
		*link = e;
		e->next = NULL;
		job.run = run_any;
		job.data = q;
	}
	stream_add(&q->stream, &job);
}

static struct event *event_make(cl_command_type type, struct queue *q,
				struct context *context)
{
	struct event *e = make_counted(FAKE_EVENT, sizeof(*e), context);

	e->type = type;
	e->queue = q;
	e->status = q ? CL_QUEUED : CL_SUBMITTED;
	e->wait = e->tell.fd = -1;
	return e;
}

struct event *command(cl_command_queue handle, cl_command_type type, cl_uint n,
		      const cl_event *list, cl_int *result)
{
	struct queue *q = live(handle, FAKE_QUEUE);
	struct event *e;

	*result = CL_SUCCESS;
	if (!q)
		*result = refuse(CL_INVALID_COMMAND_QUEUE, "no live queue");
	else if (!n != !list)
		*result = refuse(CL_INVALID_EVENT_WAIT_LIST, "half a list");
	else if (n > ARRAY_SIZE(e->waits))
		*result = CL_OUT_OF_HOST_MEMORY;
	for (cl_uint i = 0; !*result && i < n; i++) {
		e = live(list[i], FAKE_EVENT);
		if (!e)
			*result = refuse(CL_INVALID_EVENT_WAIT_LIST,
					 "no live event");
		else if (e->c.context != q->c.context)
			*result = refuse(CL_INVALID_CONTEXT,
					 "an event of another context");
	}
	if (*result)
		return NULL;
	e = event_make(type, q, q->c.context);
	for (cl_uint i = 0; i < n; i++)
		e->waits[e->nwaits++] = (struct event *)list[i];
	return e;
}

cl_int command_drop(struct event *e, cl_int result)
{
	let_go(e);
	e->c.refs = 0;
	unmake(&e->c.object);
	return result;
}

cl_int command_uses(struct event *e, unsigned int i, cl_mem handle)
{
	struct memory *m = live(handle, FAKE_MEMORY);

	if (!m)
		return refuse(CL_INVALID_MEM_OBJECT, "no live buffer");
	if (m->c.context != e->c.context)
		return refuse(CL_INVALID_CONTEXT, "a buffer of another context");
	m->users++;
	e->memories[i] = m;
	return CL_SUCCESS;
}

void queue_flush(struct queue *q)
{
	/* First, so that no other thread flushes commands between those that are taken here. */
	if (q->head)
		stream_start(&q->stream);
	while (q->head) {
		struct event *e = q->head;

		q->head = e->next;
		fake.not_started--;
		if (e->status == CL_QUEUED)
			set_status(e, CL_SUBMITTED);
		start(q, e);
	}
	q->tail = &q->head;
}

cl_int event_finish(struct event *e)
{
	fake.synchronising++;
	if (!fake.lost && e->status > CL_COMPLETE)
		begins_to_wait();
	while (!fake.lost && e->status > CL_COMPLETE)
		pthread_cond_wait(&changed, &lock);
	if (fake.lost)
		return fake.lost;
	return e->status < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST :
			       CL_SUCCESS;
}

cl_int enqueue(struct event *e, cl_event *out, bool blocks)
{
	struct queue *q = e->queue;
	cl_int result = CL_SUCCESS;

	*q->tail = e;
	q->tail = &e->next;
	fake.not_started++;
	if (blocks && in_host_function)
		result = refuse(CL_INVALID_OPERATION,
				"blocks within a callback");
	else if (blocks) {
		queue_flush(q);
		result = event_finish(e);
	}
	if (out && !result) {
		*out = (cl_event)e;
		return CL_SUCCESS;
	}
	e->c.refs = 0;
	unmake(&e->c.object);
	return result;
}

/* ---------------------------------------------------------------- queues */

static cl_command_queue make_queue(cl_context context_handle,
				   cl_device_id device_handle,
				   cl_command_queue_properties properties,
				   cl_int *errcode_ret)
{
	const struct device *device = device_of(device_handle);
	struct context *context = live(context_handle, FAKE_CONTEXT);
	cl_int result = CL_SUCCESS;
	struct queue *q = NULL;

	if (!context)
		result = refuse(CL_INVALID_CONTEXT, "no live context");
	else if (!has_device(context, device))
		result = refuse(CL_INVALID_DEVICE, "not of the context");
	else if (properties & ~(cl_command_queue_properties)
		 (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE |
		  CL_QUEUE_PROFILING_ENABLE))
		result = refuse(CL_INVALID_VALUE, "the properties");
	if (!result) {
		q = make_counted(FAKE_QUEUE, sizeof(*q), context);
		q->device = device;
		q->properties = properties;
		q->tail = &q->head;
		stream_init(&q->stream, NULL, false, false);
	}
	return end_make(q, result, errcode_ret);
}

cl_command_queue CL_API_CALL
clCreateCommandQueue(cl_context context, cl_device_id device,
		     cl_command_queue_properties properties,
		     cl_int *errcode_ret)
{
	BEGIN_MAKE(NEEDS_ALL | BLOCKS)
	return make_queue(context, device, properties, errcode_ret);
}

cl_command_queue CL_API_CALL
clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
				   const cl_queue_properties *list,
				   cl_int *errcode_ret)
{
	cl_command_queue_properties properties = 0;

	BEGIN_MAKE(NEEDS_ALL | BLOCKS | NEW_2_0)
	for (; list && *list; list += 2) {
		if (*list != CL_QUEUE_PROPERTIES)
			return end_make(NULL, refuse(CL_INVALID_VALUE,
						     "a property"), errcode_ret);
		properties = list[1];
	}
	return make_queue(context, device, properties, errcode_ret);
}

cl_int CL_API_CALL clRetainCommandQueue(cl_command_queue queue)
{
	BEGIN(NEEDS_ALL)
	return end(retain(queue, FAKE_QUEUE, CL_INVALID_COMMAND_QUEUE));
}

/* The commands of the queue continue. */
void queue_free(struct object *o)
{
	struct queue *q = (struct queue *)o;

	if (!resetting)
		queue_flush(q);
	unmake(o);
	stream_end(&q->stream, false);
}

cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue handle)
{
	struct queue *q;

	BEGIN_FREE(NEEDS_ALL)
	if (release(handle, FAKE_QUEUE, CL_INVALID_COMMAND_QUEUE, &q, &result))
		queue_free(&q->c.object);
	else if (q)
		queue_flush(q);
	return end(result);
}

static cl_int get_queue(const struct queue *q, cl_command_queue_info name,
			size_t size, void *out, size_t *size_ret)
{
	switch (name) {
	case CL_QUEUE_CONTEXT:
		GIVE(const void *, q->c.context);
	case CL_QUEUE_DEVICE:
		GIVE(const void *, q->device);
	case CL_QUEUE_REFERENCE_COUNT:
		GIVE(cl_uint, q->c.refs);
	case CL_QUEUE_PROPERTIES:
		GIVE(cl_command_queue_properties, q->properties);
	default:
		return refuse(CL_INVALID_VALUE, "no such query");
	}
}

GETTER(clGetCommandQueueInfo, queue, cl_command_queue, FAKE_QUEUE,
       CL_INVALID_COMMAND_QUEUE, cl_command_queue_info, get_queue)

cl_int CL_API_CALL clFlush(cl_command_queue handle)
{
	BEGIN(NEEDS_ALL)
	LIVE(queue, q, handle, FAKE_QUEUE, CL_INVALID_COMMAND_QUEUE)
	fake.flushes++;
	queue_flush(q);
	return end(CL_SUCCESS);
}

cl_int CL_API_CALL clFinish(cl_command_queue handle)
{
	BEGIN(NEEDS_ALL | BLOCKS)
	LIVE(queue, q, handle, FAKE_QUEUE, CL_INVALID_COMMAND_QUEUE)
	queue_flush(q);
	return end(stream_finish(&q->stream));
}

/* ---------------------------------------------------------------- events */

static cl_int enqueue_nothing(cl_command_queue queue, cl_command_type type,
			      cl_uint n, const cl_event *list, cl_event *out)
{
	cl_int result;
	struct event *e = command(queue, type, n, list, &result);

	return e ? enqueue(e, out, false) : result;
}

cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n,
					       const cl_event *list,
					       cl_event *out)
{
	BEGIN(NEEDS_ALL)
	return end(enqueue_nothing(queue, CL_COMMAND_MARKER, n, list, out));
}

cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue,
						cl_uint n, const cl_event *list,
						cl_event *out)
{
	BEGIN(NEEDS_ALL)
	return end(enqueue_nothing(queue, CL_COMMAND_BARRIER, n, list, out));
}

cl_event CL_API_CALL clCreateUserEvent(cl_context handle, cl_int *errcode_ret)
{
	struct context *context;

	BEGIN_MAKE(NEEDS_ALL)
	context = live(handle, FAKE_CONTEXT);
	if (!context)
		return end_make(NULL, refuse(CL_INVALID_CONTEXT,
					     "no live context"), errcode_ret);
	return end_make(event_make(CL_COMMAND_USER, NULL, context), CL_SUCCESS,
			errcode_ret);
}

cl_int CL_API_CALL clSetUserEventStatus(cl_event handle, cl_int status)
{
	struct event *e;

	BEGIN_FREE(NEEDS_ALL)
	e = live(handle, FAKE_EVENT);
	if (!e || e->queue)
		return end(refuse(CL_INVALID_EVENT, "no live user event"));
	if (status > CL_COMPLETE)
		return end(refuse(CL_INVALID_VALUE, "no status of the end"));
	if (e->status <= CL_COMPLETE)
		return end(refuse(CL_INVALID_OPERATION, "it is set"));
	set_status(e, status);
	return end(result);
}

/* Commands keep waiting for a released event. */
COUNTED(Event, cl_event, event, FAKE_EVENT, CL_INVALID_EVENT, unmake)

static cl_int get_event(const struct event *e, cl_event_info name, size_t size,
			void *out, size_t *size_ret)
{
	switch (name) {
	case CL_EVENT_COMMAND_QUEUE:
		GIVE(const void *, e->queue);
	case CL_EVENT_CONTEXT:
		GIVE(const void *, e->c.context);
	case CL_EVENT_COMMAND_TYPE:
		GIVE(cl_command_type, e->type);
	case CL_EVENT_COMMAND_EXECUTION_STATUS:
		GIVE(cl_int, e->status);
	case CL_EVENT_REFERENCE_COUNT:
		GIVE(cl_uint, e->c.refs);
	default:
		return refuse(CL_INVALID_VALUE, "no such query");
	}
}

GETTER(clGetEventInfo, event, cl_event, FAKE_EVENT,
       CL_INVALID_EVENT, cl_event_info, get_event)

cl_int CL_API_CALL
clSetEventCallback(cl_event handle, cl_int type,
		   void (CL_CALLBACK *fn)(cl_event event, cl_int status,
					  void *data), void *data)
{
	BEGIN(NEEDS_ALL)
	/* Before the event is looked at, because this may let the lock go. */
	stream_start(&callbacks);
	LIVE(event, e, handle, FAKE_EVENT, CL_INVALID_EVENT)
	if (!fn || type < CL_COMPLETE || type > CL_SUBMITTED)
		return end(refuse(CL_INVALID_VALUE, "what to call when"));
	if (e->ncallbacks == ARRAY_SIZE(e->callbacks))
		return end(CL_OUT_OF_HOST_MEMORY);
	e->callbacks[e->ncallbacks++] = (struct callback){ fn, data, type };
	if (e->status <= type)
		notify(e);
	return end(CL_SUCCESS);
}

cl_int CL_API_CALL clWaitForEvents(cl_uint n, const cl_event *list)
{
	BEGIN(NEEDS_ALL | BLOCKS)
	if (!n || !list)
		return end(refuse(CL_INVALID_VALUE, "no events"));
	for (cl_uint i = 0; i < n; i++) {
		struct event *e = live(list[i], FAKE_EVENT);

		if (!e)
			return end(refuse(CL_INVALID_EVENT, "no live event"));
		if (e->queue)
			queue_flush(e->queue);
	}
	for (cl_uint i = 0; i < n; i++) {
		cl_int status = event_finish((struct event *)list[i]);

		result = result ? result : status;
	}
	return end(result);
}

/* ---------------------------------------------------------------- reset */

void queues_reset(bool begins)
{
	pthread_mutex_lock(&lock);
	resetting = begins;
	if (!begins) {
		callbacks = (struct stream){ .head = NULL };
		stream_init(&callbacks, NULL, false, false);
	}
	pthread_mutex_unlock(&lock);
}
