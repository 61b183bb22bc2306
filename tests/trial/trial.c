// SPDX-License-Identifier: MIT
/*
 * A backend to show how little one takes. Its device is a thread per stream and
 * memory of the host; it gives events, waits for no fence and takes no dma-buf.
 * So lib/queue brings its buffers by the paths `host` and `copy`.
 */
#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "queue/queue.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

struct event {
	_Atomic(uint64_t) recorded, over;
};

/* What a stream does: a call, a copy, a wait for an event, or its end. */
struct job {
	void (*fn)(void *data);
	void *data, *to;
	const void *from;
	size_t bytes;
	struct event *wait, *over;
	uint64_t number;
};

struct trial_stream {
	pthread_t thread;	/* reads jobs */
	int jobs[2];
};

struct trial_device {
	struct queue_device queue;
	struct trial_stream *own;	/* the default one */
};

static int get(void *out, size_t bytes)
{
	void *p = sys_calloc(1, bytes);

	memcpy(out, &p, sizeof(p));
	return p ? 0 : fail(-ENOMEM, "trial: no memory");
}

static void run(const struct job *job)
{
	if (job->fn)
		job->fn(job->data);
	if (job->bytes)
		memcpy(job->to, job->from, job->bytes);
	while (job->wait && job->wait->over < job->number)
		usleep(100);
	if (job->over)
		job->over->over = job->number;
}

static void *work(void *data)
{
	struct trial_stream *s = data;
	struct job job;

	while (read(s->jobs[0], &job, sizeof(job)) == sizeof(job))
		run(&job);
	return NULL;
}

static int add(struct trial_stream *s, struct job job)
{
	if (fault_hit() || write(s->jobs[1], &job, sizeof(job)) != sizeof(job))
		return fail(-EIO, "trial: a stream takes no job");
	return 0;
}

static int stream(struct queue_device *dev, void *handle, bool ends, void **out)
{
	*out = handle ? handle : ((struct trial_device *)dev)->own;
	return 0;
}

static int stream_create(struct queue_device *dev, void **out)
{
	struct trial_stream *s;
	int ret = get(&s, sizeof(*s));

	if (!ret && sys_pipe(s->jobs))
		ret = fail_errno("trial: pipe2()");
	else if (!ret && pthread_create(&s->thread, NULL, work, s))
		ret = fail(-ENOMEM, "trial: no thread");
	if (ret)
		free(s);
	else
		*out = s;
	return ret;
}

static void stream_destroy(struct queue_device *dev, void *handle)
{
	struct trial_stream *s = handle;

	close(s->jobs[1]);
	pthread_join(s->thread, NULL);
	close(s->jobs[0]);
	free(s);
}

static void post(void *semaphore) { sem_post(semaphore); }

static int finish(struct queue_device *dev, void *s)
{
	sem_t semaphore;
	int ret;

	sem_init(&semaphore, 0, 0);
	ret = add(s, (struct job){ .fn = post, .data = &semaphore });
	if (!ret)
		sem_wait(&semaphore);
	return ret;
}

static int finish_all(struct queue_device *dev)
{
	return finish(dev, ((struct trial_device *)dev)->own);
}

static int event_create(struct queue_device *dev, void **event)
{
	return get(event, sizeof(struct event));
}

static void release(struct queue_device *dev, void *memory) { free(memory); }

static int event_record(struct queue_device *dev, void *event, void *s)
{
	struct event *e = event;

	return add(s, (struct job){ .over = e, .number = ++e->recorded });
}

static int event_query(struct queue_device *dev, void *event)
{
	struct event *e = event;

	return e->over < e->recorded ? QUEUE_PENDING : 0;
}

static int stream_wait(struct queue_device *dev, void *s, void *event)
{
	struct event *e = event;

	return add(s, (struct job){ .wait = e, .number = e->recorded });
}

static int call_host(struct queue_device *dev, void *s, void (*fn)(void *data),
		     void *data)
{
	return add(s, (struct job){ .fn = fn, .data = data });
}

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
	int ret = get(&m->handle, m->bytes);

	m->data = (uintptr_t)m->handle;
	return ret;
}

static void free_memory(struct queue_memory *m) { free(m->handle); }

static int copy(struct queue_memory *m, void *s, bool out)
{
	void *data = (void *)m->data;

	return add(s, (struct job){ .to = out ? m->staging : data,
				    .from = out ? data : m->staging,
				    .bytes = m->bytes });
}

static void destroy(struct queue_device *dev)
{
	stream_destroy(dev, ((struct trial_device *)dev)->own);
	free(dev);
}

#define OPS .stream = stream, .stream_create = stream_create,		\
	.stream_destroy = stream_destroy, .event_create = event_create,	\
	.event_destroy = release, .event_record = event_record,		\
	.event_query = event_query, .stream_wait = stream_wait,		\
	.finish = finish, .finish_all = finish_all,			\
	.register_host = register_host, .alloc = alloc,			\
	.free = free_memory, .alloc_host = alloc_host,			\
	.free_host = release, .copy = copy, .destroy = destroy
static const struct queue_ops ops = { OPS, .call_host = call_host };

static int trial_open(const char *selector, const struct dlbuf_device_opts *opts,
		      struct dlbuf_device **out)
{
	struct trial_device *t;
	int ret;

	if (*selector && strcmp(selector, "0"))
		return fail(-ENODEV, "trial: no device is '%s'", selector);
	ret = get(&t, sizeof(*t));
	if (!ret)
		ret = stream_create(&t->queue, (void **)&t->own);
	if (ret) {
		free(t);
		return ret;
	}
	queue_init(&t->queue, &ops);
	t->queue.registers = t->queue.registers_read_only = true;
	strcpy(t->queue.base.name, "trial:0");
	queue_open_bridge(&t->queue, NULL, "there is no bridge");
	*out = &t->queue.base;
	return 0;
}

static void describe(struct dlbuf_device *dev, struct dlbuf_device_info *info)
{
	strcpy(info->description, "a trial");
}

static int each(const struct backend *backend, dlbuf_device_fn fn, void *data)
{
	return fn(&(struct dlbuf_device_info){
		.size = sizeof(struct dlbuf_device_info), .name = "trial:0",
		.backend = "trial", .device.device_type = backend->type,
		.description = "a trial", .acquire = DLBUF_SYNC_BLOCKS,
		.release = DLBUF_SYNC_EVENT, .pitch_align = 64,
		.offset_align = 64 }, data);
}

const struct backend trial_backend = {
	.name = "trial", .type = kDLExtDev,
	.paths = PATHS_SHARED | PATHS_COPIED,
	.import_size = sizeof(struct queue_import),
	.each = each, .describe = describe,
	.open = trial_open, .close = queue_close,
	.import = queue_import, .unimport = queue_unimport,
	.stream = queue_stream, .acquire = queue_acquire,
	.release = queue_release, .wait = queue_wait,
};
