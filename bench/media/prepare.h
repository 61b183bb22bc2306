/* SPDX-License-Identifier: MIT */
/* Shared by bench/media/prepare.c and its peer in C++. */
#ifndef BENCH_PREPARE_H
#define BENCH_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum format { NV12, P010, I420, YUYV, XRGB, RGB, BAYER, BAYER10 };

struct rect {
	int x, y, width, height;
};

struct work {
	/* The case: a line of prepare.c's table. */
	const char *name;
	enum format format;
	int width, height;		/* of the frame */
	int out_width, out_height;	/* of an image */
	bool bytes;			/* uint8, NHWC; otherwise float32, NCHW */
	bool letterbox;
	bool normalised;		/* by mean and std of ImageNet */
	int filter;			/* enum dlbuf_filter */
	int crops;			/* number, TILES, or 0: the frame */

	/* Computed from the case. */
	uint8_t *planes[3];
	void *out;
	int images;
	struct rect *sources;		/* for each image */
	struct rect picture;		/* in an image */
	float factor[3], offset[3];	/* from 0..255 to floats */
};

/* False if OpenCV cannot do it by the same filter. */
bool by_opencv(struct work *w);

#ifdef __cplusplus
}
#endif
#endif /* BENCH_PREPARE_H */
