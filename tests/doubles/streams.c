// SPDX-License-Identifier: MIT
/* See streams.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "streams.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
STATIC_TLS bool in_host_function;
STATIC_TLS const char *call;
bool initialised, forked;

/* Pointers, hashed: handles are looked up in each call. */
static struct object *objects[1024];
static struct stream *streams;
static uint64_t sequence;
static bool freeing;	/* somebody is in wait_to_free() */

/* ---------------------------------------------------------------- calls */

void wrong(const char *fmt, ...)
{
	va_list ap;

	driver->wrong++;
	fprintf(stderr, "# fake %s: ", driver_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	if (driver->strict)
		abort();
}

bool call_begin(const char *name)
{
	if (driver->look)
		driver->look(name);
	pthread_mutex_lock(&lock);
	while (freeing && !in_host_function)
		pthread_cond_wait(&changed, &lock);
	call = name;
	driver->calls++;
	/* A test may have set it without a word. */
	if (driver->lost)
		pthread_cond_broadcast(&changed);
	if (in_host_function)
		return false;
	if (driver->fail_at && !--driver->fail_at)
		return true;
	if (!driver->failing || strcmp(driver->failing, name))
		return false;
	if (!driver->spared)
		return true;
	driver->spared--;
	return false;
}

void lose(int result)
{
	pthread_mutex_lock(&lock);
	driver->lost = result;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	forked = initialised;
	streams = NULL;
	driver->pending = 0;
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void loaded(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---------------------------------------------------------------- objects */

static struct object **bucket_of(const void *handle)
{
	return &objects[((uintptr_t)handle >> 5) % 1024];
}

void *make(unsigned int kind, size_t size, struct context *ctx, bool ours)
{
	struct object *o = calloc(1, size);
	struct object **bucket = bucket_of(o);

	o->kind = kind;
	o->live = true;
	o->ctx = ctx;
	o->ours = ours;
	o->next = *bucket;
	*bucket = o;
	if (!ours) {
		driver->live[kind]++;
		driver->made[kind]++;
	}
	return o;
}

static struct object *find(const void *handle, unsigned int kind)
{
	struct object *o = *bucket_of(handle);

	while (o && o != handle)
		o = o->next;
	return o && o->kind == kind ? o : NULL;
}

void *object_of(const void *handle, unsigned int kind)
{
	struct object *o = find(handle, kind);

	return o && o->live ? o : NULL;
}

bool was(const void *handle, unsigned int kind)
{
	struct object *o = find(handle, kind);

	return o && !o->live;
}

void unmake(struct object *o)
{
	if (o->pending && !driver->lost)
		wrong("%s: in use by the device", call);
	o->live = false;
	if (!o->ours)
		driver->live[o->kind]--;
	pthread_cond_broadcast(&changed);
}

unsigned int destroy_all(unsigned int kind, struct context *ctx,
			 void (*destroy)(struct object *o))
{
	unsigned int n = 0;

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		for (struct object *o = objects[i]; o; o = o->next) {
			if (!o->live || o->kind != kind || (ctx && o->ctx != ctx))
				continue;
			n += !o->ours;
			if (destroy)
				destroy(o);
		}
	return n;
}

void objects_free(void)
{
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		while (objects[i]) {
			struct object *o = objects[i];

			objects[i] = o->next;
			free(o);
		}
}

bool is_mapped(const void *p, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)p / page * page;
	unsigned char seen[256];

	bytes += (uintptr_t)p - from;
	while (bytes) {
		size_t n = bytes < sizeof(seen) * page ? bytes :
							 sizeof(seen) * page;

		if (mincore((void *)from, n, seen))
			return false;
		from += n;
		bytes -= n;
	}
	return true;
}

/*
 * Whether the kernel pins the page of an address, by having it do so: a pipe that
 * is given a page by vmsplice() does.
 */
int is_pinned(uintptr_t p)
{
	struct iovec page = { (void *)p, 1 };
	int pipes[2], ret = -1;

	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
		return -1;
	if (vmsplice(pipes[1], &page, 1, SPLICE_F_NONBLOCK) == 1)
		ret = 1;
	else if (errno == EFAULT)
		ret = 0;
	close(pipes[0]);
	close(pipes[1]);
	return ret;
}

static bool is_on(int fd, long magic)
{
	struct statfs st;

	return !fstatfs(fd, &st) && (long)st.f_type == magic;
}

bool is_memfd(int fd)
{
	return is_on(fd, TMPFS_MAGIC);
}

bool is_dma_buf(int fd)
{
	return is_on(fd, DMA_BUF_MAGIC);
}

ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

void look_at_fd(int fd)
{
	if (fcntl(fd, F_GETFD) != FD_CLOEXEC || fd < 3)
		wrong("%s: the fd is not fit to be kept", call);
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
	bool mapped = is_mapped(job->to, job->bytes) &&
		      (!job->from || is_mapped(job->from, job->bytes));

	for (int i = 0; i < 2; i++)
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
	for (int i = 0; i < 2; i++)
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
	for (int i = 0; i < 2; i++)
		if (job->uses[i])
			job->uses[i]->pending--;
	record_put(job->record);
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

static int start(struct stream *s)
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
		return start(s);
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
	int ret = start(s);

	if (ret)
		return ret;
	job = malloc(sizeof(*job));
	*job = *model;
	job->next = NULL;
	job->sequence = ++sequence;
	record_get(job->record);
	for (int i = 0; i < 2; i++)
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
	/* What waits for ever is dropped. */
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

/* The stream, and what is before it by what legacy streams mean. */
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
