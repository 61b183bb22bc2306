// SPDX-License-Identifier: MIT
/*
 * A backend to show how little one takes. Its device is a thread per stream and
 * memory of the host; it gives events, waits for no fence and takes no dma-buf.
 * So lib/queue brings its buffers by the paths `host` and `copy`. The device
 * "trial:quiet" calls no functions of ours, so that the library polls.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "queue/queue.h"
#include "trial.h"

struct trial_device {
	struct queue_device queue;
	struct trial_stream *first, *own;	/* all; the default one */
	pthread_mutex_t lock;	/* of the list */
};

/* What a stream does, one after the other. */
struct job {
	void (*fn)(void *data);
	void *data;
	/* Or a copy, ... */
	void *to;
	const void *from;
	size_t bytes;
	/* ... an event that is over, or that it waits for. */
	struct event *over, *wait;
	uint64_t number;
	struct job *next;
};

struct trial_stream {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job *first, **last;
	bool busy, stop;
	struct trial_stream *next;
};

struct event {
	uint64_t recorded, over;	/* atomic */
};

static void run(struct job *job)
{
	if (job->fn)
		job->fn(job->data);
	if (job->bytes)
		memcpy(job->to, job->from, job->bytes);
	while (job->wait && __atomic_load_n(&job->wait->over, __ATOMIC_ACQUIRE) <
			    job->number)
		usleep(100);
	if (job->over)
		__atomic_store_n(&job->over->over, job->number, __ATOMIC_RELEASE);
}

static void *work(void *data)
{
	struct trial_stream *s = data;
	struct job *job;

	pthread_mutex_lock(&s->lock);
	while (s->first || !s->stop) {
		job = s->first;
		if (!job) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		s->first = job->next;
		s->last = s->first ? s->last : &s->first;
		s->busy = true;
		pthread_mutex_unlock(&s->lock);
		run(job);
		free(job);
		pthread_mutex_lock(&s->lock);
		s->busy = false;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int add(struct trial_stream *s, const struct job *model)
{
	struct job *job = sys_calloc(1, sizeof(*job));

	if (!job)
		return fail(-ENOMEM, "trial: no memory for a job");
	*job = *model;
	pthread_mutex_lock(&s->lock);
	*s->last = job;
	s->last = &job->next;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static struct trial_device *trial(struct queue_device *dev)
{
	return container_of(dev, struct trial_device, queue);
}

int trial_copy(struct dlbuf_device *dev, void *to, const void *from, size_t bytes)
{
	struct trial_device *t = trial(queue_device_of(dev));

	return add(t->own, &(struct job){ .to = to, .from = from,
					  .bytes = bytes });
}

/* ---------------------------------------------------------------- operations */

static int stream(struct queue_device *dev, void *handle, bool ends, void **out)
{
	(void)ends;
	*out = handle ? handle : trial(dev)->own;
	return 0;
}

static int stream_create(struct queue_device *dev, void **out)
{
	struct trial_stream *s = sys_calloc(1, sizeof(*s));

	if (!s)
		return fail(-ENOMEM, "trial: no memory for a stream");
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (fault_hit() || pthread_create(&s->thread, NULL, work, s)) {
		free(s);
		return fail(-EAGAIN, "trial: no thread for a stream");
	}
	pthread_mutex_lock(&trial(dev)->lock);
	s->next = trial(dev)->first;
	trial(dev)->first = s;
	pthread_mutex_unlock(&trial(dev)->lock);
	*out = s;
	return 0;
}

/* Its work goes on; destroy() joins the thread. */
static void stream_destroy(struct queue_device *dev, void *handle)
{
	struct trial_stream *s = handle;

	(void)dev;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static int finish(struct queue_device *dev, void *handle)
{
	struct trial_stream *s = handle;

	(void)dev;
	if (fault_hit())
		return fail(-EIO, "trial: a stream fails");
	pthread_mutex_lock(&s->lock);
	while (s->first || s->busy)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int finish_all(struct queue_device *dev)
{
	pthread_mutex_lock(&trial(dev)->lock);
	for (struct trial_stream *s = trial(dev)->first; s; s = s->next)
		finish(dev, s);
	pthread_mutex_unlock(&trial(dev)->lock);
	return 0;
}

static int event_create(struct queue_device *dev, void **event)
{
	(void)dev;
	*event = sys_calloc(1, sizeof(struct event));
	return *event ? 0 : fail(-ENOMEM, "trial: no memory for an event");
}

static void event_destroy(struct queue_device *dev, void *event)
{
	(void)dev;
	free(event);
}

static int event_record(struct queue_device *dev, void *event, void *s)
{
	struct event *e = event;

	(void)dev;
	return add(s, &(struct job){ .over = e, .number = ++e->recorded });
}

static int event_query(struct queue_device *dev, void *event)
{
	struct event *e = event;

	(void)dev;
	return __atomic_load_n(&e->over, __ATOMIC_ACQUIRE) < e->recorded ?
	       QUEUE_PENDING : 0;
}

static int stream_wait(struct queue_device *dev, void *s, void *event)
{
	struct event *e = event;

	(void)dev;
	return add(s, &(struct job){ .wait = e, .number = e->recorded });
}

static int call_host(struct queue_device *dev, void *s, void (*fn)(void *data),
		     void *data)
{
	(void)dev;
	return add(s, &(struct job){ .fn = fn, .data = data });
}

static int register_host(struct queue_memory *m, uint32_t access)
{
	(void)access;
	m->registered = true;
	m->data = (uintptr_t)m->map;
	return 0;
}

static int alloc_host(struct queue_device *dev, size_t bytes, void **host,
		      uintptr_t *address)
{
	(void)dev;
	*host = sys_calloc(1, bytes);
	if (address)
		*address = (uintptr_t)*host;
	return *host ? 0 : fail(-ENOMEM, "trial: no memory");
}

static void free_host(struct queue_device *dev, void *host)
{
	(void)dev;
	free(host);
}

static int alloc(struct queue_memory *m)
{
	return alloc_host(m->dev, m->bytes, &m->handle, &m->data);
}

static void free_memory(struct queue_memory *m)
{
	free(m->handle);
}

static int copy(struct queue_memory *m, void *s, bool out)
{
	struct job job = { .bytes = m->bytes };

	job.to = out ? m->staging : (void *)m->data;
	job.from = out ? (void *)m->data : m->staging;
	return add(s, &job);
}

static void destroy(struct queue_device *dev)
{
	struct trial_stream *s;

	while ((s = trial(dev)->first)) {
		trial(dev)->first = s->next;
		stream_destroy(dev, s);
		pthread_join(s->thread, NULL);
		free(s);
	}
	free(trial(dev));
}

#define OPS								\
	.stream = stream, .stream_create = stream_create,		\
	.stream_destroy = stream_destroy, .event_create = event_create,	\
	.event_destroy = event_destroy, .event_record = event_record,	\
	.event_query = event_query, .stream_wait = stream_wait,		\
	.finish = finish, .finish_all = finish_all,			\
	.register_host = register_host, .alloc = alloc,			\
	.free = free_memory, .alloc_host = alloc_host,			\
	.free_host = free_host, .copy = copy, .destroy = destroy
static const struct queue_ops ops = { OPS, .call_host = call_host };
static const struct queue_ops quiet_ops = { OPS };

/* ---------------------------------------------------------------- the backend */

static void describe(struct dlbuf_device *dev, struct dlbuf_device_info *info)
{
	(void)dev;
	snprintf(info->description, sizeof(info->description), "a trial");
}

static int trial_open(const char *selector, const struct dlbuf_device_opts *opts,
		      struct dlbuf_device **out)
{
	bool quiet = !strcmp(selector, "quiet");
	struct trial_device *t;
	int ret;

	(void)opts;
	if (*selector && strcmp(selector, "0") && !quiet)
		return fail(-ENODEV, "trial: no device is '%s'", selector);
	t = sys_calloc(1, sizeof(*t));
	if (!t)
		return fail(-ENOMEM, "no memory for a device");
	queue_init(&t->queue, quiet ? &quiet_ops : &ops);
	pthread_mutex_init(&t->lock, NULL);
	t->queue.registers = t->queue.registers_read_only = true;
	snprintf(t->queue.base.name, sizeof(t->queue.base.name), "trial:%s",
		 quiet ? "quiet" : "0");
	queue_open_bridge(&t->queue, NULL, "there is no bridge");
	ret = stream_create(&t->queue, (void **)&t->own);
	if (ret)
		queue_unref(&t->queue);
	else
		*out = &t->queue.base;
	return ret;
}

static int each(const struct backend *backend, dlbuf_device_fn fn, void *data)
{
	struct dlbuf_device_info info = {
		.size = sizeof(info), .name = "trial:0", .backend = "trial",
		.device.device_type = backend->type,
		.acquire = DLBUF_SYNC_BLOCKS, .release = DLBUF_SYNC_EVENT,
		.pitch_align = 64, .offset_align = 64,
	};

	describe(NULL, &info);
	return fn(&info, data);
}

const struct backend trial_backend = {
	.name = "trial",
	.type = kDLExtDev,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.import_size = sizeof(struct queue_import),
	.each = each,
	.open = trial_open,
	.close = queue_close,
	.describe = describe,
	.import = queue_import,
	.unimport = queue_unimport,
	.stream = queue_stream,
	.acquire = queue_acquire,
	.release = queue_release,
	.wait = queue_wait,
};
