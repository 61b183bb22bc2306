/* SPDX-License-Identifier: MIT */
/*
 * --prepare: a model's input of each frame, on each device that prepares. The devices' inputs
 * are compared with each other; what they are is docs/prepare.md's.
 */
#ifndef DMABUF_TEST_INPUT_H
#define DMABUF_TEST_INPUT_H

#include <dlbuf/dlbuf.h>

#include "out.h"

/* What a duration was, over and over; nanoseconds. */
struct series {
	uint64_t *ns;
	size_t n, max;
};

int series_add(struct series *s, uint64_t ns);

struct input {
	struct dlbuf_prepare *plan;
	struct dlbuf_prepare_info info;
	DLManagedTensorVersioned *out;
	float *values;			/* of the last frame, on the CPU */
	struct series ns;		/* until the input is complete */
	double difference;		/* the largest from the first device's, of 0 to 1 */
	char refused[256];		/* why the device does not prepare; "": it does */
};

struct device;
struct verify;

/* Prepares a frame, which the caller holds, on d. A device that cannot is no failure. */
int input_make(struct verify *v, struct device *d, const struct dlbuf_frame *frame);

/* Compares the devices' inputs of a frame, and saves that of the last frame. */
int input_check(struct verify *v);

/* Before the device is closed, or for another run. */
void input_free(struct input *in);

#endif /* DMABUF_TEST_INPUT_H */
