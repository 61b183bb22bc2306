// SPDX-License-Identifier: MIT
/* A model's input of each frame: see input.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boxes.h"
#include "tool.h"
#include "verify.h"

/* docs/prepare.md allows a device this difference, as a part of full scale. */
#define TOLERANCE 2e-5

int series_add(struct series *s, uint64_t ns)
{
	if (s->n == s->max) {
		size_t max = s->max ? s->max * 2 : 64;
		uint64_t *more = realloc(s->ns, max * sizeof(*more));

		if (!more)
			return fail(STATUS_SYSTEM, "no memory for the times");
		s->ns = more;
		s->max = max;
	}
	s->ns[s->n++] = ns;
	return 0;
}

static size_t count_of(const struct input *in)
{
	return (size_t)in->info.width * in->info.height * CHANNELS;
}

static void free_host(DLManagedTensorVersioned *self)
{
	free(self);
}

/* Plain memory, because a machine without an exporter can prepare, too. */
static DLManagedTensorVersioned *host_tensor(DLTensor layout, float *values)
{
	struct {
		DLManagedTensorVersioned dl;
		int64_t shape[4];
	} *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	memcpy(t->shape, layout.shape, layout.ndim * sizeof(t->shape[0]));
	layout.shape = t->shape;
	layout.data = values;
	t->dl = (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.deleter = free_host,
		.dl_tensor = layout,
	};
	return &t->dl;
}

/* Whether the CPU's loops prepare, in memory of this program. */
static bool is_cpu(const struct device *d)
{
	return !strcmp(d->info.backend, "cpu");
}

/* A device without preparation, or without memory for its result, is no failure. */
static int refuse(const struct device *d, struct input *in)
{
	snprintf(in->refused, sizeof(in->refused), "%s",
		 reason_of(d->info.name, dlbuf_last_error()));
	make_printable(in->refused);
	return 0;
}

static int make_out(struct device *d, struct input *in)
{
	int64_t shape[] = { 1, CHANNELS, in->info.height, in->info.width };
	DLTensor layout = { .device = { kDLCPU, 0 }, .ndim = 4, .dtype = { kDLFloat, 32, 1 },
			    .shape = shape };

	in->values = calloc(count_of(in), sizeof(*in->values));
	if (!in->values)
		return fail(STATUS_SYSTEM, "no memory for an input");
	if (is_cpu(d)) {
		in->out = host_tensor(layout, in->values);
		return in->out ? 0 : fail(STATUS_SYSTEM, "no memory for an input");
	}
	return dlbuf_alloc(&d->dev, 1, &layout, NULL, &in->out) ? refuse(d, in) : 0;
}

static int begin(struct device *d, struct input *in, const struct dlbuf_frame *frame,
		 const struct dlbuf_prepare_opts *opts)
{
	int ret = dlbuf_prepare_create(d->dev, frame, opts, &in->plan);

	/* ENOSYS: the build is without preparation. */
	if (ret == -EOPNOTSUPP || ret == -ENOSYS)
		return refuse(d, in);
	in->info.size = sizeof(in->info);
	if (!ret)
		ret = dlbuf_prepare_get_info(in->plan, &in->info);
	return ret ? fail_dlbuf(ret) : make_out(d, in);
}

/* Reads the device's result with the CPU. */
static int read_back(const struct verify *v, struct device *d, struct input *in)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = now_ns() + v->timeout_ns);
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	int ret, end;

	if (is_cpu(d))
		return 0;
	ret = dlbuf_tensor_get_info(in->out, &info);
	if (!ret)
		ret = dlbuf_acquire(in->out, DLBUF_READ, NULL, &opts);
	if (ret)
		return fail_dlbuf(ret);
	ret = read_within(d->access, in->out, info.first, in->values,
			  count_of(in) * sizeof(float), v->timeout_ns);
	end = dlbuf_release(in->out, NULL, NULL);
	return ret ? fail(STATUS_SYSTEM, "%s: the input cannot be read: %s", d->info.name,
			  strerror(-ret)) : end ? fail_dlbuf(end) : 0;
}

int input_prepare(const struct verify *v, struct device *d, struct input *in,
		  const struct dlbuf_frame *frame, const struct dlbuf_prepare_opts *opts)
{
	DLBUF_OPTS(dlbuf_prepare_run_opts, run);
	struct dlbuf_frame f = *frame;
	uint64_t start;
	int ret;

	f.release = NULL;
	f.lease = NULL;
	if (!in->plan && !*in->refused) {
		ret = begin(d, in, &f, opts);
		if (ret)
			return ret;
	}
	if (*in->refused)
		return 0;
	start = now_ns();
	run.deadline_ns = start + v->timeout_ns;
	ret = dlbuf_prepare_frame(in->plan, &f, &run, in->out);
	if (ret == -EOPNOTSUPP && !in->ns.n)
		return refuse(d, in);
	/* A GPU may still be working on it. */
	if (!ret)
		ret = dlbuf_device_drain(d->dev, start + v->timeout_ns);
	if (ret)
		return fail_dlbuf(ret);
	ret = series_add(&in->ns, now_ns() - start);
	return ret ? ret : read_back(v, d, in);
}

int input_make(struct verify *v, struct device *d, const struct dlbuf_frame *frame)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = v->input_width, .height = v->input_height,
		   .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 });

	return input_prepare(v, d, &d->input, frame, &opts);
}

void input_warm_up(const struct verify *v, struct device *d)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 16, .height = 16);
	DLBUF_OPTS(dlbuf_acquire_opts, by, .deadline_ns = now_ns() + v->timeout_ns);
	int64_t pixels[] = { 16, 16 }, values[] = { 1, CHANNELS, 16, 16 };
	DLTensor in = { .device = { kDLCPU, 0 }, .ndim = 2, .dtype = { kDLUInt, 8, 1 },
			.shape = pixels };
	DLTensor out = { .device = { kDLCPU, 0 }, .ndim = 4, .dtype = { kDLFloat, 32, 1 },
			 .shape = values };
	DLBUF_INFO(dlbuf_frame, grey);
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLManagedTensorVersioned *t, *input = NULL;
	struct dlbuf_prepare *plan = NULL;
	uint8_t bytes[16 * 16];

	if (is_cpu(d) || dlbuf_alloc(&d->dev, 1, &in, NULL, &t))
		return;
	if (!dlbuf_tensor_get_info(t, &info) && !dlbuf_acquire(t, DLBUF_READ, NULL, &by)) {
		read_within(d->access, t, info.first, bytes, sizeof(bytes), v->timeout_ns);
		dlbuf_release(t, NULL, NULL);
	}
	grey.code = DLBUF_FOURCC('R', '8', ' ', ' ');
	grey.code_space = DLBUF_CODE_DRM;
	grey.width = grey.height = 16;
	if (v->input_width && !dlbuf_prepare_create(d->dev, &grey, &opts, &plan) &&
	    !dlbuf_alloc(&d->dev, 1, &out, NULL, &input)) {
		DLBUF_OPTS(dlbuf_prepare_run_opts, run, .deadline_ns = now_ns() + v->timeout_ns);

		dlbuf_prepare_tensors(plan, &t, 1, &run, input);
		input->deleter(input);
	}
	dlbuf_prepare_destroy(plan);
	t->deleter(t);
	/* Memory that the library frees later would lower the count of files. */
	dlbuf_device_drain(d->dev, now_ns() + v->timeout_ns);
	dlbuf_device_trim(d->dev, 0);
}

int input_check(struct verify *v, const struct dlbuf_frame *frame)
{
	struct device *first = NULL;

	for (uint32_t i = 0; i < v->ndevices; i++) {
		struct device *d = &v->devices[i];
		struct input *in = &d->input;

		if (!in->ns.n)
			continue;
		if (!first)
			first = d;
		for (size_t j = 0; j < count_of(in); j++) {
			double difference = (double)in->values[j] -
					    (double)first->input.values[j];

			difference = difference < 0 ? -difference : difference;
			if (!(difference <= in->difference))
				in->difference = difference;
		}
		if (!(in->difference <= TOLERANCE) && !v->inputs_differ++ && !v->mismatched)
			fail(STATUS_MISMATCH, "frame %llu: the input of %s differs by %g from that "
			     "of %s", (unsigned long long)v->done, d->info.name,
			     in->difference, first->info.name);
	}
	if (!first && v->input_asked)
		return fail(STATUS_SYSTEM, "no device prepares this frame: %s",
			    v->devices[0].input.refused);
	return first && v->input_png && v->done + 1 == v->frames ?
	       draw_input(v, first, frame) : 0;
}

void input_free(struct input *in)
{
	dlbuf_prepare_destroy(in->plan);
	if (in->out)
		in->out->deleter(in->out);
	free(in->values);
	free(in->ns.ns);
	*in = (struct input){ 0 };
}
