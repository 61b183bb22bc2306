/* SPDX-License-Identifier: MIT */
/*
 * --prepare: a model's input of each frame, on each device that prepares: the device's
 * computation reads the frame. The devices' inputs are compared with each other;
 * docs/prepare.md defines them.
 */
#ifndef DMABUF_TEST_INPUT_H
#define DMABUF_TEST_INPUT_H

#include <dlbuf/dlbuf.h>

#include "out.h"

/* Measurements of a duration, in nanoseconds. */
struct series {
	uint64_t *ns;
	size_t n, max;
};

int series_add(struct series *s, uint64_t ns);

#define CHANNELS 3

struct input {
	struct dlbuf_prepare *plan;
	struct dlbuf_prepare_info info;
	DLManagedTensorVersioned *out;
	float *values;			/* of the last frame, on the CPU: RGB planes */
	struct series ns;		/* time until the input is complete */
	double difference;		/* the largest from the first device's, of 0 to 1 */
	char refused[256];		/* why the device does not prepare; "": it does */
};

struct device;
struct verify;

/*
 * Prepares a frame, which the caller holds, on d. It is no failure if the device cannot prepare.
 */
int input_make(struct verify *v, struct device *d, const struct dlbuf_frame *frame);

/* The same for any size. The first call for a zeroed `in` makes the plan. */
int input_prepare(const struct verify *v, struct device *d, struct input *in,
		  const struct dlbuf_frame *frame, const struct dlbuf_prepare_opts *opts);

/* Compares the devices' inputs of a frame, and draws that of the last frame. */
int input_check(struct verify *v, const struct dlbuf_frame *frame);

/*
 * The first command, read and preparation of a device. Drivers keep files that they open
 * for these; before the files are counted, such files are no leak of the run. Failures
 * are left to the run.
 */
void input_warm_up(const struct verify *v, struct device *d);

/* Call it before the device is closed, or for another run. */
void input_free(struct input *in);

#endif /* DMABUF_TEST_INPUT_H */
