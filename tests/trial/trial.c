// SPDX-License-Identifier: MIT
/*
 * A backend that shows the smallest possible size. Its driver is the common part of the
 * doubles (tests/doubles/common/streams.h), its memory the host's; it gives events,
 * waits for no fence and takes no dma-buf. So lib/queue brings its buffers by the paths
 * `host` and `copy`.
 */
#include <errno.h>
#include <string.h>

#include "doubles/common/streams.h"
#include "queue/queue.h"

struct event {
	struct record *record;
};

struct trial_device {
	struct queue_device queue;
	struct stream *own;	/* the default one */
};

static struct driver controls = { .strict = true };
struct driver *const driver = &controls;
const char driver_name[] = "trial";

static int get(void *out, size_t bytes)
{
	void *p = sys_calloc(1, bytes);

	memcpy(out, &p, sizeof(p));
	return p ? 0 : fail(-ENOMEM, "trial: no memory");
}

static int add(void *stream, struct job job)
{
	int ret = fault_hit() ? EIO : 0;

	pthread_mutex_lock(&lock);
	if (!ret)
		ret = stream_add(stream, &job);
	pthread_mutex_unlock(&lock);
	return ret ? fail(-ret, "trial: a stream takes no job") : 0;
}

static int stream(struct queue_device *dev, void *handle, bool ends, void **out)
{
	*out = handle ? handle : ((struct trial_device *)dev)->own;
	return 0;
}

static int stream_create(struct queue_device *dev, void **out)
{
	int ret = get(out, sizeof(struct stream));

	if (!ret)
		stream_init(*out, (struct context *)dev, false, false);
	return ret;
}

static void stream_destroy(struct queue_device *dev, void *s)
{
	pthread_mutex_lock(&lock);
	stream_end(s, true);
	pthread_mutex_unlock(&lock);
	free(s);
}

static int finish(struct queue_device *dev, void *s)
{
	pthread_mutex_lock(&lock);
	stream_finish(s);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int finish_all(struct queue_device *dev)
{
	pthread_mutex_lock(&lock);
	context_finish((struct context *)dev);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int event_create(struct queue_device *dev, void **event)
{
	return get(event, sizeof(struct event));
}

static void set_record(struct event *e, struct record *record)
{
	pthread_mutex_lock(&lock);
	record_put(e->record);
	e->record = record;
	pthread_mutex_unlock(&lock);
}

static void event_destroy(struct queue_device *dev, void *event)
{
	set_record(event, NULL);
	free(event);
}

static int event_record(struct queue_device *dev, void **event, void *s)
{
	set_record(*event, record_make());
	return add(s, (struct job){ .run = job_record,
				    .record = ((struct event *)*event)->record });
}

static int event_query(struct queue_device *dev, void *event)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = record_is_done(((struct event *)event)->record);
	pthread_mutex_unlock(&lock);
	return done ? 0 : QUEUE_PENDING;
}

static int stream_wait(struct queue_device *dev, void *s, void *event)
{
	return add(s, (struct job){ .run = job_wait_record,
				    .record = ((struct event *)event)->record });
}

static int call_host(struct queue_device *dev, void *s, void (*fn)(void *data),
		     void *data)
{
	return add(s, (struct job){ .run = job_call, .fn = fn, .data = data });
}

static void free_host(struct queue_device *dev, void *memory) { free(memory); }

static int register_host(struct queue_memory *m, uint32_t access)
{
	m->data = (uintptr_t)m->map;
	return 0;
}

static int alloc_host(struct queue_device *dev, size_t bytes, void **host,
		      uintptr_t *address)
{
	return get(host, bytes);
}

static int alloc(struct queue_memory *m)
{
	int ret = get(&m->handle, m->base.bytes);

	m->data = (uintptr_t)m->handle;
	return ret;
}

static void free_memory(struct queue_memory *m) { free(m->handle); }

static int copy(struct queue_memory *m, void *s, bool out)
{
	void *data = (void *)m->data;

	return add(s, (struct job){ .run = job_copy, .bytes = m->base.bytes,
				    .to = out ? m->staging : data,
				    .from = out ? data : m->staging });
}

static int count(struct queue_device *dev, unsigned int *n)
{
	*n = 1;
	return 0;
}

static int probe(struct queue_device *dev, unsigned int n)
{
	strcpy(dev->info.description, "a trial");
	return 0;
}

static int start(struct queue_device *dev, uint32_t flags)
{
	dev->registers = dev->registers_read_only = true;
	dev->no_bridge = "there is no bridge";
	return stream_create(dev, (void **)&((struct trial_device *)dev)->own);
}

static void destroy(struct queue_device *dev)
{
	struct stream *own = ((struct trial_device *)dev)->own;

	if (own)
		stream_destroy(dev, own);
	free(dev);
}

#define OPS .size = sizeof(struct trial_device), .count = count,		\
	.probe = probe, .start = start, .stream = stream,		\
	.stream_create = stream_create,					\
	.stream_destroy = stream_destroy, .event_create = event_create,	\
	.event_destroy = event_destroy, .event_record = event_record,	\
	.event_query = event_query, .stream_wait = stream_wait,		\
	.finish = finish, .finish_all = finish_all,			\
	.register_host = register_host, .alloc = alloc,			\
	.free = free_memory, .alloc_host = alloc_host,			\
	.free_host = free_host, .copy = copy, .destroy = destroy
static const struct queue_ops trial_ops = { OPS, .call_host = call_host };

BACKEND_DECLARE(trial);
QUEUE_BACKEND(trial, .type = kDLExtDev, .paths = PATHS_SHARED | PATHS_COPIED);
