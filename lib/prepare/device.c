// SPDX-License-Identifier: MIT
/* Plans that a device runs: packs their programs, and runs these between acquire and release. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../access/pending.h"
#include "../dmabuf/buffer.h"
#include "../system/internal.h"
#include "../tensor/sync.h"
#include "prepare.h"
#include "program.h"

/* ---- packing */

static uint32_t axis_words(const struct axis *a)
{
	return a->n ? 2 + a->n * (a->taps + 1) : 0;
}

static void pack_axis(struct program *g, uint32_t at, const struct axis *a)
{
	uint32_t padded = (a->n + 7) & ~7u, *to = g->tables + at;

	*to++ = a->taps;
	*to++ = a->n;
	memcpy(to, a->first, a->n * sizeof(*to));
	for (uint32_t k = 0; k < a->taps; k++)
		memcpy(to + (size_t)(k + 1) * a->n, a->weights + (size_t)k * padded,
		       a->n * sizeof(*to));
}

/* Whether the device extracts bit fields of words. */
static bool has_fields(const struct source *s)
{
	return s->view == DLBUF_VIEW_WORDS && !s->group.swapped;
}

static void pack(const struct dlbuf_prepare *p, struct program *g)
{
	const struct source *s = &p->source;
	const struct axis *const axes[] = { &p->x[0], &p->x[1], &p->y[0], &p->y[1] };
	bool odd = p->info.turn % 2, fields = has_fields(s);
	uint32_t at[5] = { 0 };

	*g = (struct program){
		.bits = s->group.bytes * 8,
		.ncomponents = s->ncomponents, .nout = p->nout,
		.store = p->store, .zero_point = p->zero_point,
		.width = p->info.width, .height = p->info.height,
		.left = p->info.left > 0 ? p->info.left : 0,
		.top = p->info.top > 0 ? p->info.top : 0,
		.across = odd ? p->height : p->width, .down = odd ? p->width : p->height,
		.turned = odd, .back_x = p->back_x, .back_y = p->back_y,
	};
	for (uint32_t i = 0; i < ARRAY_SIZE(axes); i++) {
		if (axes[i]->n)
			pack_axis(g, at[i], axes[i]);
		at[i + 1] = at[i] + axis_words(axes[i]);
	}
	for (uint32_t i = 0; i < s->ncomponents; i++) {
		const struct component *c = &s->components[i];

		g->components[i].first = fields ? 0 : c->first;
		g->components[i].step = fields ? 1 : c->step;
		g->components[i].x = at[c->fine];
		g->components[i].y = at[2 + c->fine];
		g->components[i].shift = c->shift;
		g->components[i].mask = fields ? (1u << c->depth) - 1 : UINT32_MAX;
	}
	memcpy(g->matrix, p->values.matrix, sizeof(g->matrix));
	memcpy(g->low, p->values.low, sizeof(g->low));
	memcpy(g->high, p->values.high, sizeof(g->high));
	memcpy(g->pad, p->pad, sizeof(g->pad));
}

/* The kind of frames that only the CPU prepares, in the words of docs/prepare.md, or NULL. */
static const char *left_to_cpu(const struct source *s)
{
	if (s->mosaic)
		return "mosaics";
	if (s->packed.samples)
		return "samples that share bytes";
	if (s->sample >= SAMPLE_F16)
		return "floats";
	if (!s->group.words || has_fields(s))
		return NULL;
	if (s->group.turn)
		return "HSV";
	if (s->group.negative)
		return "signed values";
	return s->view == DLBUF_VIEW_PLANES ? "unevenly spaced values" :
	       s->group.swapped ? "big-endian words" : "words with a plane of alpha";
}

/* Makes a program. free() it. */
static int make_program(struct dlbuf_prepare *p, struct program **out, size_t *size)
{
	const char *left = left_to_cpu(&p->source);
	uint64_t bytes = sizeof(struct program);
	struct program *g;

	if (left)
		return fail(-EOPNOTSUPP, "device %s prepares no %s, the CPU does", p->dev->name,
			    left);
	for (int i = 0; i < 2; i++) {
		if ((uint64_t)p->x[i].taps * p->y[i].taps > PROGRAM_TAPS)
			return fail(-EOPNOTSUPP, "a value is made of %u x %u samples, device %s "
				    "makes it of %u at most", p->x[i].taps, p->y[i].taps,
				    p->dev->name, PROGRAM_TAPS);
		bytes += 4 * ((uint64_t)axis_words(&p->x[i]) + axis_words(&p->y[i]));
	}
	g = sys_calloc(1, bytes);
	if (!g)
		return fail(-ENOMEM, "no memory for a program of %llu bytes",
			    (unsigned long long)bytes);
	pack(p, g);
	*out = g;
	*size = bytes;
	return 0;
}

int prepare_load(struct dlbuf_prepare *p)
{
	struct program *g = NULL;
	size_t bytes;
	int ret = make_program(p, &g, &bytes);

	if (!ret)
		ret = p->dev->backend->program_load(p->dev, g, bytes, &p->program);
	free(g);
	return ret;
}

/* ---- runs */

/* A step in bytes; 0 for a single element, whose step may have any value. */
static int64_t step_of(int64_t step, uint32_t n, int64_t bytes)
{
	return n > 1 ? step * bytes : 0;
}

/* Extends [low, high) for n elements, which are `step` apart. */
static void span(int64_t step, uint32_t n, struct program_part *part)
{
	int64_t length = step * (int64_t)(n - 1);

	if (length < 0 && (uint64_t)-length > part->low)
		part->high = UINT64_MAX;
	else if (length < 0)
		part->low += (uint64_t)length;
	else if (__builtin_add_overflow(part->high, (uint64_t)length, &part->high))
		part->high = UINT64_MAX;
}

/* Checks that the part is inside the tensor: everyone can write the fields of DLPack's struct. */
static int check_part(const char *what, const struct tensor *t, struct program_part *part)
{
	part->imp = t->imp;
	/* If `at` is behind the tensor, `high` may have wrapped at 2^64. */
	if (part->at > t->end || part->low < t->first || part->high > t->end)
		return fail(-EINVAL, "%s has fields of DLPack that reach beyond it", what);
	return 0;
}

static int find_source(const struct dlbuf_prepare *p, const struct tensor *t, uint32_t plane,
		       int64_t at, int64_t pitch, struct program_part *part, uint32_t *out)
{
	const struct dlbuf_format_plane *f = &p->source.planes[plane];
	const struct source *s = &p->source;
	uint32_t rows = (s->height + f->vsub - 1) / f->vsub;

	part->at = part->low = part->high = at;
	part->high += (uint64_t)((s->width + f->hsub - 1) / f->hsub) * f->channels * (f->bits / 8);
	span(pitch, rows, part);
	if (pitch != (int32_t)pitch)
		return fail(-EOVERFLOW, "the rows of plane %u are too far apart", plane);
	*out = (uint32_t)pitch;
	return check_part("a plane", t, part);
}

static int find_out(const struct dlbuf_prepare *p, const struct tensor *t, int64_t at,
		    const struct steps *steps, struct program_run *run)
{
	int64_t bytes = p->store <= STORE_I8 ? 1 : p->store == STORE_F32 ? 4 : 2;
	int64_t x = step_of(steps->x, p->info.width, bytes);
	int64_t y = step_of(steps->y, p->info.height, bytes);
	int64_t channel = step_of(steps->channel, p->nout, bytes);

	run->out = (struct program_part){ .at = at, .low = at, .high = at + bytes };
	span(x, p->info.width, &run->out);
	span(y, p->info.height, &run->out);
	span(channel, p->nout, &run->out);
	run->step_x = (uint32_t)x;
	run->step_y = (uint32_t)y;
	run->step_channel = (uint32_t)channel;
	return check_part("the tensor", t, &run->out);
}

static void add_bracket(struct program_run *run, struct import *imp, uint32_t access)
{
	uint32_t i = 0;

	while (i < run->nbrackets && run->brackets[i].imp != imp)
		i++;
	run->brackets[i].imp = imp;
	run->brackets[i].access |= access;
	if (i == run->nbrackets)
		run->nbrackets++;
}

static int run_by_backend(const struct dlbuf_prepare *p, const struct program_job *jobs,
			  uint32_t njobs, int before, int *done)
{
	const struct backend *backend = p->dev->backend;

	return jobs->program ? backend->program_run_all(p->dev, jobs, njobs, before, done) :
			       backend->program_run(p->program, &jobs->run, before, done);
}

/* Runs jobs after all pending work. After a failure nothing runs. */
static int submit(struct dlbuf_prepare *p, const struct program_job *jobs, uint32_t njobs,
		  DLManagedTensorVersioned *const tensors[], uint32_t n, uint64_t deadline_ns,
		  int *done)
{
	const struct program_run *run = &jobs->run;
	/* `own`: the caller cannot order work on other streams of the device before the run. */
	struct wait wait = { .dev = p->dev, .fence = -1, .deadline_ns = deadline_ns, .own = true };
	struct use uses[ARRAY_SIZE(run->brackets)];
	int before = -1, ret;

	for (uint32_t i = 0; i < run->nbrackets; i++) {
		uses[i] = sync_use(run->brackets[i].imp, run->brackets[i].access);
		/*
		 * The call waits for a run without a fence. So this thread waits for the uses
		 * before the run, until the deadline.
		 */
		wait.here |= import_gives_event(uses[i].imp);
	}
	ret = sync_wait(tensors, n, uses, run->nbrackets, &wait, &before);
	if (ret)
		return ret;
	do
		ret = run_by_backend(p, jobs, njobs, before, done);
	while (sync_again(&ret, &before, &wait));
	ret = sync_begun(tensors, n, ret, before, &wait);
	if (ret && *done != -1) {
		dlbuf_fence_wait(*done, 0);
		close(*done);
		*done = -1;
	}
	return ret;
}

/* Whether an earlier tensor has the same lease, which waits once. */
static bool has_lease_before(struct tensor *const list[], uint32_t i)
{
	for (uint32_t j = 0; j < i; j++)
		if (list[j]->lease == list[i]->lease)
			return true;
	return false;
}

/* Adds the fence of the run, taken, to the dma-bufs and the leases. */
static int give_fence(const struct program_run *run, struct tensor *const list[], uint32_t n,
		      int done)
{
	struct lease *last = NULL;
	int ret = 0, err;

	for (uint32_t i = 0; i < run->nbrackets && done != -1; i++) {
		const struct import *imp = run->brackets[i].imp;

		err = pending_after(imp->fd, &imp->id, run->brackets[i].access, done);
		ret = ret ? ret : err;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!list[i]->lease || has_lease_before(list, i))
			continue;
		if (last)
			lease_hold(last, done, list[i]->imp->dev);
		last = list[i]->lease;
	}
	lease_hold_take(last, done, list[0]->imp->dev);
	return ret;
}

int prepare_tensors(const struct dlbuf_prepare *p, DLManagedTensorVersioned *const planes[],
		    uint32_t n, DLManagedTensorVersioned *out, struct tensor *list[])
{
	int ret = 0;

	for (uint32_t i = 0; i <= n && !ret; i++) {
		DLManagedTensorVersioned *dl = i < n ? planes[i] : out;

		/* A GPU whose tensors are the CPU's mappings of dma-bufs. */
		if (p->dev->dl.device_type == kDLCPU && dl->deleter != tensor_delete)
			return fail(-EOPNOTSUPP, "a tensor is no dma-buf of device %s, which "
				    "prepares; a plan for cpu takes it", p->dev->name);
		ret = tensor_of(dl, &list[i]);
		if (!ret && list[i]->imp->dev != p->dev)
			ret = fail(-EOPNOTSUPP, "a tensor is of another device than the plan's, %s",
				   p->dev->name);
		if (!ret)
			ret = tensor_check_access(list[i], i < n ? DLBUF_READ : DLBUF_WRITE);
	}
	return ret;
}

int prepare_job(struct dlbuf_prepare *p, bool pack, struct tensor *const list[], uint32_t n,
		const void *const data[], const int64_t pitches[], const struct image *image,
		struct program_job *job)
{
	struct program_run *run = &job->run;
	const struct source *s = &p->source;
	int ret = 0;

	*job = (struct program_job){ .program = NULL };
	for (uint32_t i = 0; i < 3 && !ret; i++) {
		uint32_t plane = s->components[i < s->ncomponents ? i : 0].plane;

		ret = find_source(p, list[plane], plane, (const char *)data[plane] -
				  (const char *)list[plane]->imp->data, pitches[plane],
				  &run->sources[i], &run->pitches[i]);
		if (!ret)
			add_bracket(run, run->sources[i].imp, DLBUF_READ);
	}
	if (!ret)
		ret = find_out(p, list[n], image->data - (char *)list[n]->imp->data,
			       &image->steps, run);
	for (uint32_t i = 0; i < 3 && !ret; i++)
		if (buffer_same(&run->sources[i].imp->id, &run->out.imp->id) &&
		    run->sources[i].low < run->out.high && run->out.low < run->sources[i].high)
			ret = fail(-EOPNOTSUPP, "the tensor overlaps a plane of the frame");
	if (ret)
		return ret;
	add_bracket(run, run->out.imp, DLBUF_WRITE);
	return pack ? make_program(p, &job->program, &job->bytes) : 0;
}

int prepare_run(struct dlbuf_prepare *p, struct tensor *const list[], uint32_t n,
		const struct program_job *jobs, uint32_t njobs, uint64_t deadline_ns)
{
	NOT_CANCELLED;
	DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES + 1];
	int done = -1, ret = 0;
	uint32_t taken = 0;
	bool tried = false;

	for (uint32_t i = 0; i <= n; i++)
		tensors[i] = &list[i]->versioned;
	while (taken <= n && !ret) {
		ret = sync_set_acquired(list[taken], taken < n ? DLBUF_READ : DLBUF_WRITE, NULL);
		taken += !ret;
	}
	if (!ret) {
		do
			ret = submit(p, jobs, njobs, tensors, n + 1, deadline_ns, &done);
		while (ret && device_relieve(ret, &tried));
		if (!ret)
			ret = give_fence(&jobs->run, list, n + 1, done);
	}
	while (taken--)
		sync_drop(list[taken]);
	return ret;
}
