/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FRAME_H
#define DLBUF_LIB_FRAME_H

#include <dlbuf/frame.h>

/* One plane of a frame as a layout; layout points into this very struct. */
struct plane_layout {
	int fd;			/* borrowed from the frame */
	DLTensor layout;
	int64_t shape[3], strides[3];
};

/*
 * Turns a frame into layouts or says why it cannot: pure arithmetic. frame is
 * our own copy, of full size.
 */
int frame_layouts(const struct dlbuf_frame *frame,
		  struct plane_layout planes[DLBUF_MAX_PLANES],
		  uint32_t *nplanes);

#endif /* DLBUF_LIB_FRAME_H */
