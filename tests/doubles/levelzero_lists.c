// SPDX-License-Identifier: MIT
/* See levelzero.h: command lists and events. */
#include <string.h>

#include "levelzero_objects.h"

/* ---------------------------------------------------------------- lists */

ze_result_t zeCommandListCreateImmediate(ze_context_handle_t handle,
					 ze_device_handle_t on,
					 const ze_command_queue_desc_t *desc,
					 ze_command_list_handle_t *out)
{
	struct device *device = device_of(on);
	struct list *l;

	BEGIN(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	if (!device || desc->stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC ||
	    desc->ordinal != 1 || desc->index ||
	    desc->mode != ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "desc"));
	l = make(FAKE_LIST, sizeof(*l), ctx, false);
	l->device = device;
	stream_init(&l->stream, ctx, false, false);
	*out = (ze_command_list_handle_t)l;
	return end(ZE_RESULT_SUCCESS);
}

void list_free(struct object *o)
{
	struct list *l = (struct list *)o;

	if ((l->nheld || !stream_is_idle(&l->stream)) && !fake.lost)
		wrong("%s: the list has not ended", call);
	fake.unasked += l->unasked;
	if (l->kernel)
		l->kernel->pending--;
	stream_end(&l->stream, false);
	unmake(o);
}

ze_result_t zeCommandListDestroy(ze_command_list_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	list_free(&l->object);
	return end(result);
}

ze_result_t zeCommandListIsImmediate(ze_command_list_handle_t handle,
				     ze_bool_t *is)
{
	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	*is = !fake.no_immediate;
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeCommandListGetDeviceHandle(ze_command_list_handle_t handle,
					 ze_device_handle_t *device)
{
	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	*device = (ze_device_handle_t)l->device;
	return end(ZE_RESULT_SUCCESS);
}

/* ---------------------------------------------------------------- commands */

static ze_result_t add(struct list *l, const struct job *job)
{
	return stream_add(&l->stream, job) ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY :
					     ZE_RESULT_SUCCESS;
}

/* Commands without a barrier between them run in the opposite order. */
static ze_result_t flush(struct list *l)
{
	ze_result_t result = ZE_RESULT_SUCCESS;

	while (l->nheld && !result)
		result = add(l, &l->held[--l->nheld]);
	return result;
}

ze_result_t list_hold(struct list *l, const struct job *job)
{
	if (l->nheld == ARRAY_SIZE(l->held))
		return refuse(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
			      "too many commands without a barrier");
	l->held[l->nheld++] = *job;
	return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListHostSynchronize(ze_command_list_handle_t handle,
					 uint64_t timeout)
{
	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	if (fake.no_host_sync)
		return end(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
	result = flush(l);
	if (!result && timeout)
		result = stream_finish(&l->stream) ? fake.lost : 0;
	return end(result);
}

static enum progress wait_event(struct job *job)
{
	return ((struct event *)job->uses[0])->signalled ? JOB_DONE : JOB_WAITS;
}

static enum progress signal_event(struct job *job)
{
	struct event *e = (struct event *)job->uses[0];

	if (e->signalled)
		wrong("an event is signalled that was not reset");
	e->signalled = true;
	return JOB_DONE;
}

/* An event of Intel's driver writes to its list when it is asked for the first time. */
static void leave_list(struct event *e)
{
	if (e->list)
		e->list->unasked--;
	e->list = NULL;
}

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t handle,
				       ze_event_handle_t signal, uint32_t n,
				       ze_event_handle_t *waits)
{
	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	/* With waits, commands before the barrier need not have ended. */
	if (!n)
		result = flush(l);
	for (uint32_t i = 0; i < n && !result; i++) {
		LIVE(event, e, waits[i], FAKE_EVENT)
		result = add(l, &(struct job){ .run = wait_event,
					       .uses[0] = &e->object });
	}
	if (signal && !result) {
		LIVE(event, e, signal, FAKE_EVENT)
		if (e->object.pending || e->signalled)
			wrong("%s: the event to signal is in use", call);
		leave_list(e);
		e->list = l;
		l->unasked++;
		result = add(l, &(struct job){ .run = signal_event,
					       .uses[0] = &e->object });
	}
	return end(result);
}

/* Memory of the list's context, or NULL. */
static struct range *usable(const struct list *l, const void *p, size_t bytes,
			    bool write)
{
	struct range *r = range_of(p);

	return r && (r->object.ctx == l->object.ctx || !r->object.ctx) &&
	       bytes <= r->bytes - (size_t)((uint8_t *)p - r->at) &&
	       !(write && r->read_only) ? r : NULL;
}

struct range *list_uses(const struct list *l, const void *p, bool write)
{
	return usable(l, p, 1, write);
}

ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t handle,
					  void *to, const void *from,
					  size_t bytes, ze_event_handle_t signal,
					  uint32_t n, ze_event_handle_t *waits)
{
	struct job job = { .run = job_copy, .to = to, .from = from,
			   .bytes = bytes };
	struct range *a, *b;

	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	a = usable(l, to, bytes, true);
	b = usable(l, from, bytes, false);
	if (!a || !b || signal || n)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
				  "not within USM memory, or events"));
	job.uses[0] = &a->object;
	job.uses[1] = &b->object;
	return end(list_hold(l, &job));
}

ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t handle,
					  void *to, const void *pattern,
					  size_t size, size_t bytes,
					  ze_event_handle_t signal, uint32_t n,
					  ze_event_handle_t *waits)
{
	struct job job = { .run = job_set, .to = to, .bytes = bytes };
	struct range *r;

	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	r = usable(l, to, bytes, true);
	if (!r || size != 1 || signal || n)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
				  "not within USM memory, or the pattern"));
	job.value = *(const uint8_t *)pattern;
	job.uses[0] = &r->object;
	return end(list_hold(l, &job));
}

ze_result_t zeCommandListAppendHostFunction(ze_command_list_handle_t handle,
					    lzabi_host_fn fn, void *data,
					    const void *next,
					    ze_event_handle_t signal, uint32_t n,
					    ze_event_handle_t *waits)
{
	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	if (fake.no_host)
		return end(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
	if (!fn || next || signal || n)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "arguments"));
	return end(list_hold(l, &(struct job){ .run = job_call, .fn = fn,
					       .data = data }));
}

/* ---------------------------------------------------------------- events */

ze_result_t zeEventPoolCreate(ze_context_handle_t handle,
			      const ze_event_pool_desc_t *desc, uint32_t n,
			      ze_device_handle_t *on, ze_event_pool_handle_t *out)
{
	struct pool *p;

	BEGIN(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	if (desc->stype != ZE_STRUCTURE_TYPE_EVENT_POOL_DESC ||
	    desc->flags != ZE_EVENT_POOL_FLAG_HOST_VISIBLE ||
	    !desc->count || desc->count > 256)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "desc"));
	p = make(FAKE_EVENT_POOL, sizeof(*p), ctx, false);
	p->n = desc->count;
	*out = (ze_event_pool_handle_t)p;
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(pool, p, handle, FAKE_EVENT_POOL)
	for (uint32_t i = 0; i < p->n; i++)
		if (p->events[i])
			wrong("%s: it still has events", call);
	unmake(&p->object);
	return end(result);
}

ze_result_t zeEventCreate(ze_event_pool_handle_t handle,
			  const ze_event_desc_t *desc, ze_event_handle_t *out)
{
	struct event *e;

	BEGIN(NEEDS_ALL)
	LIVE(pool, p, handle, FAKE_EVENT_POOL)
	if (desc->stype != ZE_STRUCTURE_TYPE_EVENT_DESC || desc->index >= p->n ||
	    p->events[desc->index])
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
				  "the index is no free one of the pool"));
	e = make(FAKE_EVENT, sizeof(*e), p->object.ctx, false);
	e->pool = p;
	e->index = desc->index;
	p->events[e->index] = e;
	*out = (ze_event_handle_t)e;
	return end(ZE_RESULT_SUCCESS);
}

void event_free(struct object *o)
{
	struct event *e = (struct event *)o;

	e->pool->events[e->index] = NULL;
	unmake(o);
}

ze_result_t zeEventDestroy(ze_event_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(event, e, handle, FAKE_EVENT)
	leave_list(e);
	event_free(&e->object);
	return end(result);
}

ze_result_t zeEventHostSignal(ze_event_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(event, e, handle, FAKE_EVENT)
	if (e->signalled)
		wrong("%s: it is signalled", call);
	e->signalled = true;
	pthread_cond_broadcast(&changed);
	return end(result);
}

ze_result_t zeEventHostReset(ze_event_handle_t handle)
{
	BEGIN(NEEDS_ALL)
	LIVE(event, e, handle, FAKE_EVENT)
	if (e->object.pending)
		return end(refuse(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
				  "a command uses it"));
	e->signalled = false;
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeEventQueryStatus(ze_event_handle_t handle)
{
	BEGIN(NEEDS_ALL)
	LIVE(event, e, handle, FAKE_EVENT)
	if (e->signalled)
		leave_list(e);
	return end(e->signalled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
}

ze_result_t zeEventHostSynchronize(ze_event_handle_t handle, uint64_t timeout)
{
	BEGIN(NEEDS_ALL)
	LIVE(event, e, handle, FAKE_EVENT)
	fake.synchronising++;
	if (!e->signalled && !fake.lost && timeout)
		begins_to_wait();
	while (!e->signalled && !fake.lost && timeout)
		pthread_cond_wait(&changed, &lock);
	if (fake.lost)
		return end(fake.lost);
	if (e->signalled)
		leave_list(e);
	return end(e->signalled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
}
