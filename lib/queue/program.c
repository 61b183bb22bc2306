// SPDX-License-Identifier: MIT
/*
 * Plans of lib/prepare. A program is an import without a dma-buf, whose memory has the tables:
 * so it is freed as others are, when no run of it is on a stream. Its runs are on a stream of
 * its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../prepare/prepare.h"
#include "../prepare/program.h"
#include "engine.h"

struct queue_program {
	struct queue_device *dev;
	struct queue_memory *tables;
	void *stream, *kernel;
	uint32_t width, height;
	uint32_t words;			/* from a program to the next */
	uint32_t value_bytes;
};

/* ---------------------------------------------------------------- programs */

void queue_program_free(struct queue_program *g)
{
	struct queue_device *dev = g->dev;

	/*
	 * Destroys the stream first: Intel's driver accesses objects that its commands have used.
	 */
	if (g->stream)
		dev->ops->stream_destroy(dev, g->stream);
	if (g->kernel && dev->ops->kernel_destroy)
		dev->ops->kernel_destroy(dev, g->kernel);
	free(g);
}

/* Each program has the same room. */
static int fill_tables(struct queue_memory *m, const struct program_job *jobs, uint32_t n)
{
	size_t room = m->base.bytes / n;
	const struct queue_ops *ops = m->dev->ops;
	int ret = ops->alloc(m);

	if (!ret)
		ret = ops->alloc_host(m->dev, m->base.bytes, &m->staging, NULL);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		memcpy((char *)m->staging + i * room, jobs[i].program, jobs[i].bytes);
	ret = queue_copy_now(m, false);
	/* After a failure the copy may still run, so it is freed with the tables. */
	if (!ret)
		queue_staging_drop(m);
	return ret;
}

/* The programs of n images of one tensor. */
static int load_programs(struct dlbuf_device *base, const struct program_job *jobs, uint32_t n,
			 struct queue_program **out)
{
	struct queue_device *dev = queue_device_of(base);
	struct queue_program *g = sys_calloc(1, sizeof(*g));
	const struct program *p = jobs->program;
	struct queue_scope scope;
	size_t room = 0;
	int ret;

	if (!g)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		room = jobs[i].bytes > room ? jobs[i].bytes : room;
	*g = (struct queue_program){
		.dev = dev, .width = p->width, .height = p->height, .words = room / 4,
		.value_bytes = p->store <= STORE_I8 ? 1 : p->store == STORE_F32 ? 4 : 2,
	};
	g->tables = queue_memory_new(dev, n * room);
	if (!g->tables) {
		free(g);
		return -ENOMEM;
	}
	g->tables->program = g;
	ret = queue_enter(dev, &scope);
	if (!ret) {
		ret = dev->ops->kernel_create(dev, &g->kernel);
		if (!ret)
			ret = fill_tables(g->tables, jobs, n);
		if (!ret)
			ret = dev->ops->stream_create(dev, &g->stream);
		queue_leave(dev, &scope);
	}
	if (ret)
		queue_program_drop(g);
	else
		*out = g;
	return ret;
}

int queue_program_load(struct dlbuf_device *dev, const struct program *p, size_t bytes,
		       void **out)
{
	const struct program_job one = { .program = (struct program *)p, .bytes = bytes };

	return load_programs(dev, &one, 1, (struct queue_program **)out);
}

/* If no thread can be started to free the program later, this waits for its runs. */
void queue_program_drop(void *program)
{
	struct queue_program *g = program;

	import_destroy(&g->tables->base);
}

/* ---------------------------------------------------------------- runs */

/* A kernel counts bytes in 32 bits from an address, or in a handle from its begin. */
static int find_part(const struct queue_device *dev, const struct program_part *part,
		     uintptr_t *base, uint32_t *at)
{
	uintptr_t data = queue_memory_of(part->imp)->data;
	uint64_t low = dev->opaque ? 0 : part->low;

	if (part->high - low > UINT32_MAX)
		return fail(-EOPNOTSUPP, "%s prepares frames and tensors within 4 GiB, this one "
			    "is at byte %llu up to %llu", dev->base.name, (unsigned long long)low,
			    (unsigned long long)part->high);
	*base = data + low;
	*at = (uint32_t)(part->at - low);
	return 0;
}

static int find_launch(const struct queue_program *g, const struct program_job *jobs, uint32_t n,
		       struct queue_launch *l)
{
	const struct program_run *run = &jobs->run;
	const struct program_part *last = &jobs[n - 1].run.out;
	struct program_part out = run->out;
	uint32_t bytes = g->value_bytes;
	int ret = 0;

	*l = (struct queue_launch){
		.tables = g->tables->data, .width = g->width, .height = g->height, .images = n,
		.run = { .step_x = run->step_x, .step_y = run->step_y,
			 .step_channel = run->step_channel, .words = g->words,
			 .step_image = (uint32_t)(jobs[n > 1].run.out.at - out.at) },
	};
	out.low = last->low < out.low ? last->low : out.low;
	out.high = last->high > out.high ? last->high : out.high;
	for (int i = 0; i < 3 && !ret; i++) {
		ret = find_part(g->dev, &run->sources[i], &l->sources[i], &l->run.at[i]);
		l->run.pitches[i] = run->pitches[i];
	}
	if (!ret)
		ret = find_part(g->dev, &out, &l->out, &l->run.to);
	/* Strides are whole values, and dma-bufs begin with a page. */
	if (!ret && ((g->dev->opaque ? 0 : l->out) + l->run.to) % bytes)
		ret = fail(-EOPNOTSUPP, "%s writes values of %u bytes at multiples of that, and "
			   "the tensor begins at byte %llu", g->dev->base.name, bytes,
			   (unsigned long long)out.at);
	return ret;
}

/* Waits for the run, and for the errors of its host functions. */
static int finish_run(struct queue_program *g, const struct program_run *run)
{
	struct queue_device *dev = g->dev;
	int ret = dev->ops->finish(dev, g->stream);

	if (ret)
		queue_set_unsure(dev);
	queue_wait_dead(dev);
	for (uint32_t i = 0; i < run->nbrackets && !ret; i++)
		ret = queue_access_check(queue_memory_of(run->brackets[i].imp));
	return ret;
}

/*
 * Ends the accesses of the first n brackets. Their imports and the tables share the event of the
 * run. The writer is the last: its copy back must follow all work on the stream. If the launch
 * failed, nothing was written, and nothing is copied back.
 */
static int end_run(struct queue_program *g, const struct program_run *run, uint32_t n,
		   bool launched, int *fence)
{
	struct queue_use uses[QUEUE_MAX_USES], swap;
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		struct queue_memory *m = queue_memory_of(run->brackets[i].imp);
		uint32_t access = run->brackets[i].access;

		if (m->copied && !launched)
			access = DLBUF_READ;
		uses[i] = (struct queue_use){ m, access, false };
		if (i && uses[i - 1].access & DLBUF_WRITE) {
			swap = uses[i];
			uses[i] = uses[i - 1];
			uses[i - 1] = swap;
		}
	}
	uses[n] = (struct queue_use){ g->tables, DLBUF_READ, false };
	ret = queue_end_on(uses, n, n + 1, g->stream, fence, NULL);
	for (uint32_t i = 0; i < n; i++)
		if (uses[i].m->copied)
			queue_access_over(uses[i].m);
	return ret;
}

static int run_on(struct queue_program *g, const struct program_run *run,
		  const struct queue_launch *l, int fence, int *done)
{
	struct queue_device *dev = g->dev;
	bool waits = false, launched = false;
	uint32_t n = 0;
	int ret = 0, err;

	for (uint32_t i = 0; i < run->nbrackets; i++)
		waits |= import_gives_event(run->brackets[i].imp);
	while (n < run->nbrackets && !ret) {
		ret = queue_begin_on(queue_memory_of(run->brackets[n].imp),
				     run->brackets[n].access, g->stream, fence);
		n += !ret;
	}
	if (!ret) {
		ret = dev->ops->kernel_launch(dev, g->kernel, g->stream, l);
		launched = !ret;
		if (ret)
			queue_failed(dev, ret);
	}
	err = end_run(g, run, n, launched, waits || ret ? NULL : done);
	ret = ret ? ret : err;
	if (launched && (waits || ret)) {
		err = finish_run(g, run);
		ret = ret ? ret : err;
	}
	if (ret && *done != -1) {
		close(*done);
		*done = -1;
	}
	return ret;
}

static int run_jobs(struct queue_program *g, const struct program_job *jobs, uint32_t n, int fence,
		    int *done)
{
	struct queue_launch launch;
	struct queue_scope scope;
	int ret = find_launch(g, jobs, n, &launch);

	*done = -1;
	if (!ret)
		ret = queue_enter(g->dev, &scope);
	if (ret)
		return ret;
	ret = run_on(g, &jobs->run, &launch, fence, done);
	queue_leave(g->dev, &scope);
	return ret;
}

int queue_program_run(void *program, const struct program_run *run, int fence, int *done)
{
	const struct program_job one = { .run = *run };

	return run_jobs(program, &one, 1, fence, done);
}

int queue_program_run_all(struct dlbuf_device *dev, const struct program_job *jobs, uint32_t n,
			  int fence, int *done)
{
	struct queue_program *g;
	int ret = load_programs(dev, jobs, n, &g);

	*done = -1;
	if (ret)
		return ret;
	ret = run_jobs(g, jobs, n, fence, done);
	queue_program_drop(g);
	return ret;
}
