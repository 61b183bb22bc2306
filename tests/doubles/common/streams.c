// SPDX-License-Identifier: MIT
/* See streams.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "streams.h"

static struct stream *streams;
static uint64_t sequence;

static void in_child(void)
{
	streams = NULL;
	driver->pending = 0;
}

__attribute__((constructor)) static void loaded(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

/* ---------------------------------------------------------------- jobs */

struct record *record_make(void)
{
	return record_get(calloc(1, sizeof(struct record)));
}

struct record *record_get(struct record *record)
{
	if (record)
		record->refs++;
	return record;
}

void record_put(struct record *record)
{
	if (record && !--record->refs)
		free(record);
}

bool record_is_done(const struct record *record)
{
	return !record || record->done;
}

/* The CPU's side may be gone without a word to the driver. */
static bool still_mapped(const struct job *job)
{
	bool mapped = (!job->to || is_mapped(job->to, job->bytes)) &&
		      (!job->from || is_mapped(job->from, job->bytes));

	for (size_t i = 0; i < ARRAY_SIZE(job->uses); i++)
		if (job->uses[i] && job->uses[i]->is_there &&
		    !job->uses[i]->is_there(job->uses[i]))
			mapped = false;
	if (!mapped)
		wrong("a stream uses memory that was unmapped");
	return mapped;
}

enum progress job_copy(struct job *job)
{
	if (still_mapped(job))
		memmove(job->to, job->from, job->bytes);
	return JOB_DONE;
}

enum progress job_set(struct job *job)
{
	if (still_mapped(job))
		memset(job->to, (int)job->value, job->bytes);
	return JOB_DONE;
}

enum progress job_wait_word(struct job *job)
{
	_Atomic(uint32_t) *word = (void *)job->to;

	return still_mapped(job) &&
	       (int32_t)(*word - (uint32_t)job->value) < 0 ? JOB_POLLS :
							     JOB_DONE;
}

enum progress job_write_word(struct job *job)
{
	if (still_mapped(job))
		*(_Atomic(uint32_t) *)(void *)job->to = (uint32_t)job->value;
	return JOB_DONE;
}

enum progress job_call(struct job *job)
{
	driver->host_functions++;
	in_host_function = true;
	pthread_mutex_unlock(&lock);
	job->fn(job->data);
	pthread_mutex_lock(&lock);
	in_host_function = false;
	return JOB_DONE;
}

enum progress job_kernel(struct job *job)
{
	const struct kernel_job *k = job->kernel;
	const char *why = still_mapped(job) ? prepare_check(k->buffers, k->bytes, k->run,
							    k->images) : "its memory is gone";

	if (why)
		wrong("the kernel does not run: %s", why);
	else
		prepare_kernel(k->buffers, k->run, k->across, k->down, k->images);
	return JOB_DONE;
}

enum progress job_record(struct job *job)
{
	job->record->done = true;
	return JOB_DONE;
}

enum progress job_wait_record(struct job *job)
{
	return record_is_done(job->record) ? JOB_DONE : JOB_WAITS;
}

/* ---------------------------------------------------------------- streams */

void stream_init(struct stream *s, const struct context *ctx, bool legacy,
		 bool blocking)
{
	s->ctx = ctx;
	s->legacy = legacy;
	s->blocking = blocking;
	s->tail = &s->head;
}

bool stream_waits_for(const struct stream *s, const struct stream *other)
{
	return s != other && s->ctx == other->ctx && s->blocking &&
	       other->blocking && s->legacy != other->legacy;
}

static bool may_start(const struct stream *s)
{
	for (const struct stream *t = streams; t; t = t->next)
		if (stream_waits_for(s, t) && t->head &&
		    t->head->sequence < s->head->sequence)
			return false;
	return true;
}

static enum progress step(const struct stream *s)
{
	struct job *job = s->head;

	if (!job)
		return JOB_WAITS;
	if (driver->lost)
		return job->ends_lost ? job->run(job) : JOB_DONE;
	if (!may_start(s))
		return JOB_WAITS;
	for (size_t i = 0; i < ARRAY_SIZE(job->uses); i++)
		if (job->uses[i] && !job->uses[i]->live)
			return JOB_DONE;
	return job->run(job);
}

static void pop(struct stream *s)
{
	struct job *job = s->head;

	s->head = job->next;
	if (!s->head)
		s->tail = &s->head;
	for (size_t i = 0; i < ARRAY_SIZE(job->uses); i++)
		if (job->uses[i])
			job->uses[i]->pending--;
	record_put(job->record);
	free(job->kernel);
	free(job);
	driver->pending--;
	pthread_cond_broadcast(&changed);
}

static void wait_briefly(void)
{
	struct timespec t;

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
	enum progress progress;

	pthread_mutex_lock(&lock);
	while (s->head || !s->closing) {
		progress = step(s);
		if (progress == JOB_DONE)
			pop(s);
		else if (progress == JOB_POLLS)
			wait_briefly();
		else
			pthread_cond_wait(&changed, &lock);
	}
	s->exited = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Takes a stream out of the list whose thread has ended. */
static void join(struct stream *s)
{
	struct stream **link = &streams;
	pthread_t worker = s->worker;

	while (*link && *link != s)
		link = &(*link)->next;
	if (!*link)
		return;
	*link = s->next;
	pthread_mutex_unlock(&lock);
	pthread_join(worker, NULL);
	pthread_mutex_lock(&lock);
}

void stream_end(struct stream *s, bool now)
{
	s->closing = true;
	pthread_cond_broadcast(&changed);
	while (now && s->started && !s->exited)
		pthread_cond_wait(&changed, &lock);
	if (now)
		join(s);
}

int stream_start(struct stream *s)
{
	struct stream *t = streams;
	int ret;

	/* By another thread, while join() was without the lock. */
	if (s->started)
		return 0;
	while (t && !t->exited)
		t = t->next;
	if (t) {
		join(t);
		return stream_start(s);
	}
	ret = pthread_create(&s->worker, NULL, work, s);
	if (ret)
		return ret;
	s->started = true;
	s->next = streams;
	streams = s;
	return 0;
}

int stream_add(struct stream *s, const struct job *model)
{
	struct job *job;
	int ret = stream_start(s);

	if (ret)
		return ret;
	job = malloc(sizeof(*job));
	*job = *model;
	job->next = NULL;
	job->sequence = ++sequence;
	record_get(job->record);
	for (size_t i = 0; i < ARRAY_SIZE(job->uses); i++)
		if (job->uses[i])
			job->uses[i]->pending++;
	*s->tail = job;
	s->tail = &job->next;
	driver->pending++;
	pthread_cond_broadcast(&changed);
	return 0;
}

void streams_reset(void)
{
	pthread_mutex_lock(&lock);
	/* Commands that would wait without end are dropped. */
	if (!driver->lost)
		driver->lost = -1;
	while (streams)
		stream_end(streams, true);
	initialised = forked = false;
	pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- waiting */

static bool is_idle(const struct stream *s, uint64_t until)
{
	return !s->head || s->head->sequence > until;
}

/* The stream, and the streams that come before it by the rules of legacy streams. */
static bool stream_is_over(const void *stream, uint64_t until)
{
	const struct stream *s = stream;

	for (const struct stream *t = streams; t; t = t->next)
		if (s->legacy && stream_waits_for(s, t) && !is_idle(t, until))
			return false;
	return is_idle(s, until);
}

static bool context_is_over(const void *ctx, uint64_t until)
{
	for (const struct stream *t = streams; t; t = t->next)
		if (t->ctx == ctx && !is_idle(t, until))
			return false;
	return true;
}

static bool record_is_over(const void *record, uint64_t until)
{
	return record_is_done(record);
}

static int wait_until(bool (*is_over)(const void *what, uint64_t until),
		      const void *what)
{
	uint64_t until = sequence;

	driver->synchronising++;
	if (!driver->lost && !is_over(what, until))
		begins_to_wait();
	while (!driver->lost && !is_over(what, until))
		pthread_cond_wait(&changed, &lock);
	return driver->lost;
}

bool stream_is_idle(const struct stream *s)
{
	return stream_is_over(s, sequence);
}

int stream_finish(const struct stream *s)
{
	return wait_until(stream_is_over, s);
}

int context_finish(const struct context *ctx)
{
	return wait_until(context_is_over, ctx);
}

int record_finish(struct record *record)
{
	int ret;

	record_get(record);
	ret = wait_until(record_is_over, record);
	record_put(record);
	return ret;
}

void wait_to_free(const struct object *o)
{
	if (driver->lost || o->pending || context_is_over(o->ctx, sequence))
		return;
	freeing = true;
	wait_until(context_is_over, o->ctx);
	freeing = false;
	pthread_cond_broadcast(&changed);
}
