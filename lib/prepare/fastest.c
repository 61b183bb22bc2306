// SPDX-License-Identifier: MIT
/* Finds the device that prepares frames of a kind fastest, by doing it on each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <dlbuf/alloc.h>
#include <dlbuf/prepare.h>
#include <dlbuf/sync.h>

#include "../dmabuf/fence.h"
#include "../import/backend.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "prepare.h"

enum { DEVICES = 32, RUNS = 5, FAR = 8 };

/* Trials of the CPU, which is the first, and of all devices with programs. */
struct trials {
	const struct dlbuf_frame *frame;
	const struct dlbuf_prepare_opts *opts;
	struct dlbuf_device *cpu;
	uint32_t n;
	struct dlbuf_prepare_trial list[DEVICES];
};

static void name_trial(struct dlbuf_prepare_trial *t, const char *name)
{
	*t = (struct dlbuf_prepare_trial){ .size = sizeof(*t) };
	snprintf(t->name, sizeof(t->name), "%s", name);
}

static void exclude(struct dlbuf_prepare_trial *t, int ret, const char *reason)
{
	t->status = ret;
	snprintf(t->reason, sizeof(t->reason), "%s", reason);
}

static int add_device(const struct dlbuf_device_info *info, void *data)
{
	struct trials *trials = data;
	struct dlbuf_prepare_trial *t = &trials->list[trials->n++];

	name_trial(t, info->name);
	if (info->status)
		exclude(t, info->status, info->reason);
	return trials->n == DEVICES;
}

static void nothing(DLManagedTensorVersioned *self)
{
	(void)self;
}

/* out: the tensor on the device, and on the CPU; the second is NULL if the first is the CPU's. */
static int run_once(struct dlbuf_prepare *plan, const struct dlbuf_frame *frame,
		    DLManagedTensorVersioned *const out[2], uint64_t deadline_ns, uint64_t *ns)
{
	DLBUF_OPTS(dlbuf_prepare_run_opts, opts, .deadline_ns = deadline_ns);
	DLBUF_OPTS(dlbuf_acquire_opts, acquire, .fence = -1, .deadline_ns = deadline_ns);
	uint64_t begin = now_ns();
	int ret = dlbuf_prepare_frame(plan, frame, &opts, out[0]);

	if (!ret && out[1])
		ret = dlbuf_acquire(out[1], DLBUF_READ, NULL, &acquire);
	if (!ret && out[1])
		ret = dlbuf_release(out[1], NULL, NULL);
	*ns = now_ns() - begin;
	return ret;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* best_ns: the least time of the devices before, or 0. */
static int time_device(const struct trials *trials, struct dlbuf_device *dev,
		       uint64_t deadline_ns, uint64_t best_ns, uint64_t *ns)
{
	const struct dlbuf_prepare_opts *o = trials->opts;
	DLBUF_INFO(dlbuf_prepare_info, info);
	DLManagedTensorVersioned memory = { .version = { DLPACK_MAJOR_VERSION,
		DLPACK_MINOR_VERSION }, .deleter = nothing };
	DLManagedTensorVersioned *out[2] = { NULL };
	bool nhwc = o->flags & DLBUF_PREPARE_NHWC;
	struct dlbuf_prepare *plan;
	uint64_t times[RUNS + 1];
	int64_t shape[3];
	int runs = RUNS, ret;

	ret = dlbuf_prepare_create(dev, trials->frame, o, &plan);
	if (ret)
		return ret;
	dlbuf_prepare_get_info(plan, &info);
	shape[0] = nhwc ? info.height : info.channels;
	shape[1] = nhwc ? info.width : info.height;
	shape[2] = nhwc ? info.channels : info.width;
	memory.dl_tensor = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 3, .shape = shape,
		.dtype = o->dtype.bits ? o->dtype : (DLDataType){ kDLFloat, 32, 1 } };
	if (!dev->backend->program_load) {
		memory.dl_tensor.data = sys_calloc((size_t)info.width * info.height,
						   info.channels * sizeof(float));
		out[0] = &memory;
		ret = memory.dl_tensor.data ? 0 : fail(-ENOMEM, "no memory for a tensor");
	} else {
		ret = dlbuf_alloc((struct dlbuf_device *[]){ dev, trials->cpu }, 2,
				  &memory.dl_tensor, NULL, out);
	}
	/* The first run makes imports and compiles; it does not count. */
	for (int i = 0; i <= runs && !ret; i++) {
		ret = run_once(plan, trials->frame, out, deadline_ns, &times[i]);
		/* One run shows that the device is not the fastest. */
		if (i == 1 && best_ns && times[1] / FAR > best_ns)
			runs = 1;
	}
	for (int i = 0; i < 2; i++)
		if (out[i])
			out[i]->deleter(out[i]);
	free(memory.dl_tensor.data);
	dlbuf_prepare_destroy(plan);
	if (ret)
		return ret;
	qsort(times + 1, runs, sizeof(times[0]), compare);
	*ns = times[1 + runs / 2];
	return 0;
}

/* *best is the fastest until now, and is replaced if this device is faster. */
static int try_device(const struct trials *trials, struct dlbuf_prepare_trial *t,
		      uint64_t deadline_ns, struct dlbuf_device **best, uint64_t *best_ns)
{
	struct dlbuf_device *dev = NULL;
	int ret;

	ret = dlbuf_device_open(t->name, NULL, &dev);
	if (!ret)
		ret = time_device(trials, dev, deadline_ns, *best_ns, &t->ns);
	if (ret) {
		exclude(t, ret, dlbuf_last_error());
		forget_failure();
	} else if (!*best || t->ns < *best_ns) {
		dlbuf_device_close(*best);
		*best = dev;
		*best_ns = t->ns;
		return 0;
	}
	dlbuf_device_close(dev);
	return ret;
}

static int try_all(struct trials *trials, uint64_t deadline_ns, dlbuf_prepare_trial_fn fn,
		   void *data, struct dlbuf_device **best)
{
	struct dlbuf_prepare_trial *t = trials->list;
	uint64_t best_ns = 0;
	int ret;

	name_trial(t, "cpu");
	trials->n = 1;
	ret = try_device(trials, t, deadline_ns, best, &best_ns);
	/* No device would accept the options, or the frame is not complete. */
	if (ret == -EINVAL || ret == -ETIME)
		return fail(ret, "%s", t->reason);
	device_each(true, add_device, trials);
	for (uint32_t i = 0; i < trials->n; i++, t++) {
		if (i && !t->status)
			ret = try_device(trials, t, *best ? 0 : deadline_ns, best, &best_ns);
		if (ret == -ETIME && !*best)
			return fail(ret, "%s", t->reason);
		if (fn)
			fn(t, data);
	}
	return *best ? 0 : fail(trials->list[0].status, "%s", trials->list[0].reason);
}

int dlbuf_prepare_fastest(const struct dlbuf_frame *frame, const struct dlbuf_prepare_opts *opts,
			  uint64_t deadline_ns, dlbuf_prepare_trial_fn fn, void *data,
			  struct dlbuf_device **dev)
{
	NOT_CANCELLED;
	struct dlbuf_device *best = NULL;
	struct dlbuf_prepare_opts o;
	struct trials *trials;
	struct dlbuf_frame f;
	int ret;

	if (!frame || !opts || !dev)
		return fail(-EINVAL, "%s is NULL", !frame ? "frame" : !opts ? "opts" : "dev");
	ret = OPTS_GET(&o, opts, "dlbuf_prepare_opts");
	if (!ret)
		ret = OPTS_GET(&f, frame, "dlbuf_frame");
	if (ret)
		return ret;
	/* The lease is for the caller's own import. */
	f.release = NULL;
	f.lease = NULL;
	trials = sys_calloc(1, sizeof(*trials));
	if (!trials)
		return fail(-ENOMEM, "no memory for trials");
	trials->frame = &f;
	trials->opts = &o;
	ret = dlbuf_device_open("cpu", NULL, &trials->cpu);
	if (!ret)
		ret = try_all(trials, deadline_ns, fn, data, &best);
	dlbuf_device_close(trials->cpu);
	free(trials);
	if (ret)
		dlbuf_device_close(best);
	else
		*dev = best;
	return ret;
}
