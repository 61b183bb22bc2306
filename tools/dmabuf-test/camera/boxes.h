/* SPDX-License-Identifier: MIT */
/* The picture of --input: the frame and the input, and boxes on both. */
#ifndef DMABUF_TEST_BOXES_H
#define DMABUF_TEST_BOXES_H

#include <dlbuf/frame.h>

#define MAX_BOXES 32

struct device;
struct verify;

/*
 * Draws d's input of this frame, which the caller holds, beside the frame, with boxes
 * around red areas. They are found in the input, and dlbuf_prepare_map() maps them to the
 * frame: v->boxes has them in the frame's pixels.
 */
int draw_input(struct verify *v, struct device *d, const struct dlbuf_frame *frame);

#endif /* DMABUF_TEST_BOXES_H */
