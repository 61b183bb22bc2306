/* SPDX-License-Identifier: MIT */
/* The report of a run, as a table and as JSON. */
#ifndef DMABUF_TEST_REPORT_H
#define DMABUF_TEST_REPORT_H

#include "out.h"
#include "verify.h"

struct report {
	struct verify *verify;
	const char *exporter;	/* NULL: the camera's own buffers */
	const char *png;	/* the picture's path, or NULL */
	const char *input;	/* the input's path, or NULL */
	uint32_t asked_width, asked_height;
	double asked_rate;	/* 0: none */
};

void report_print(const struct report *report);

/* New; NULL: no memory. */
cJSON *report_json(const struct report *report);

/* Reports the devices of "all" that were left out, in a line, and as a list in JSON. */
void report_left_out(const struct verify *v);
void report_put_left_out(cJSON *root, const struct verify *v);

#endif /* DMABUF_TEST_REPORT_H */
