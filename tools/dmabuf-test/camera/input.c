// SPDX-License-Identifier: MIT
/* A model's input of each frame: see input.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "access/access.h"
#include "tool.h"
#include "verify.h"

#define CHANNELS 3

/* docs/prepare.md allows a device this, of full scale. */
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

static size_t count_of(const struct verify *v)
{
	return (size_t)v->input_width * v->input_height * CHANNELS;
}

static void free_host(DLManagedTensorVersioned *self)
{
	free(self);
}

/* Memory of the process: a machine without an exporter prepares too. */
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

static int make_out(const struct verify *v, struct device *d)
{
	struct input *in = &d->input;
	int64_t shape[] = { 1, CHANNELS, v->input_height, v->input_width };
	DLTensor layout = { .device = { kDLCPU, 0 }, .ndim = 4, .dtype = { kDLFloat, 32, 1 },
			    .shape = shape };
	int ret;

	in->values = calloc(count_of(v), sizeof(*in->values));
	if (!in->values)
		return fail(STATUS_SYSTEM, "no memory for an input");
	if (d->info.device.device_type == kDLCPU) {
		in->out = host_tensor(layout, in->values);
		return in->out ? 0 : fail(STATUS_SYSTEM, "no memory for an input");
	}
	ret = dlbuf_alloc(&d->dev, 1, &layout, NULL, &in->out);
	return ret ? fail_dlbuf(ret) : 0;
}

static int begin(const struct verify *v, struct device *d, const struct dlbuf_frame *frame)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = v->input_width, .height = v->input_height,
		   .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 });
	struct input *in = &d->input;
	int ret = dlbuf_prepare_create(d->dev, frame, &opts, &in->plan);

	if (ret == -EOPNOTSUPP) {
		snprintf(in->refused, sizeof(in->refused), "%s",
			 reason_of(d->info.name, dlbuf_last_error()));
		make_printable(in->refused);
		return 0;
	}
	if (ret)
		return fail_dlbuf(ret);
	in->info.size = sizeof(in->info);
	ret = dlbuf_prepare_get_info(in->plan, &in->info);
	return ret ? fail_dlbuf(ret) : make_out(v, d);
}

/* Reads with the CPU what the device has written. */
static int read_back(const struct verify *v, struct device *d)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = now_ns() + v->timeout_ns);
	const struct access *access = access_find(d->info.name);
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *out = d->input.out;
	int ret, end;

	if (d->info.device.device_type == kDLCPU)
		return 0;
	ret = dlbuf_tensor_get_info(out, &info);
	if (!ret)
		ret = dlbuf_acquire(out, DLBUF_READ, NULL, &opts);
	if (ret)
		return fail_dlbuf(ret);
	ret = access->read(out, info.first, d->input.values, count_of(v) * sizeof(float));
	end = dlbuf_release(out, NULL, NULL);
	return ret ? fail(STATUS_SYSTEM, "%s: the input cannot be read: %s", d->info.name,
			  strerror(-ret)) : end ? fail_dlbuf(end) : 0;
}

int input_make(struct verify *v, struct device *d, const struct dlbuf_frame *frame)
{
	struct dlbuf_frame f = *frame;
	struct input *in = &d->input;
	uint64_t start;
	int ret;

	f.release = NULL;
	f.lease = NULL;
	if (!in->plan && !*in->refused) {
		ret = begin(v, d, &f);
		if (ret)
			return ret;
	}
	if (*in->refused)
		return 0;
	start = now_ns();
	ret = dlbuf_prepare_frame(in->plan, &f, in->out, 0, start + v->timeout_ns);
	/* A GPU may be at it still. */
	if (!ret)
		ret = dlbuf_device_drain(d->dev, start + v->timeout_ns);
	if (ret)
		return fail_dlbuf(ret);
	ret = series_add(&in->ns, now_ns() - start);
	return ret ? ret : read_back(v, d);
}

struct lines {
	const float *values;
	uint32_t width, height;
};

static void draw_line(void *data, uint32_t y, uint8_t *row)
{
	const struct lines *l = data;
	size_t plane = (size_t)l->width * l->height;

	for (uint32_t x = 0; x < l->width; x++)
		for (uint32_t c = 0; c < CHANNELS; c++)
			row[x * CHANNELS + c] = l->values[c * plane + (size_t)y * l->width + x] *
						255 + .5f;
}

int input_check(struct verify *v)
{
	const struct input *first = NULL;

	for (uint32_t i = 0; i < v->ndevices; i++) {
		struct input *in = &v->devices[i].input;

		if (!in->plan)
			continue;
		if (!first)
			first = in;
		for (size_t j = 0; j < count_of(v); j++) {
			double difference = (double)in->values[j] - (double)first->values[j];

			difference = difference < 0 ? -difference : difference;
			if (!(difference <= in->difference))
				in->difference = difference;
		}
		if (!(in->difference <= TOLERANCE) && !v->inputs_differ++)
			fail(STATUS_MISMATCH, "frame %llu: the input of %s differs by %g from that "
			     "of %s", (unsigned long long)v->done, v->devices[i].info.name,
			     in->difference, v->devices[first == in ? i : 0].info.name);
	}
	if (!first)
		return fail(STATUS_SYSTEM, "no device prepares this frame: %s",
			    v->devices[0].input.refused);
	if (!v->input_png || v->done + 1 < v->frames)
		return 0;
	return png_write(v->input_png, v->input_width, v->input_height, false, draw_line,
			 &(struct lines){ first->values, v->input_width, v->input_height });
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
