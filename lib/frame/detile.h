/* SPDX-License-Identifier: MIT */
/* Tiled frames: a device that can read them copies them into rows. */
#ifndef DLBUF_LIB_DETILE_H
#define DLBUF_LIB_DETILE_H

#include <dlbuf/frame.h>

#include "format.h"

struct import;

/* A copy that a backend has to make. The core has checked all fields. */
struct detile {
	const struct format *format;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES]; /* the format's */
	/*
	 * The frame as it is in memory, including compression planes, which the
	 * format does not count. pitch > 0; offset < bytes, which is the size of
	 * the plane's dma-buf. The fds are borrowed.
	 */
	const struct dlbuf_frame *from;
	bool one_buffer;	/* all of its planes are in one dma-buf */
	/* The rows: each plane of the format, in order. */
	struct dlbuf_frame to;
	struct import *imp;	/* the dma-buf of the rows */
};

/*
 * Lays out the rows of a copy: fills in d->to and d->planes for d->from. Every pitch is
 * a multiple of `align`, so the planes follow one another without a gap, as the view
 * STACKED needs. Every pitch is also a multiple of a group of pixels, because devices
 * get the pitch in pixels. Pure arithmetic.
 * -EOVERFLOW  the bytes do not fit 64 bits
 */
int detile_rows(struct detile *d, uint32_t align, uint64_t *bytes);

/*
 * Copies the frame on dev and makes tensors of the copy: all of them or none. The
 * frame's lease fires when the copy is complete, and does not wait for the tensors.
 * frame and opts are the core's copies, of full size.
 */
int detile_import(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		  const struct format *format,
		  const struct dlbuf_import_opts *opts,
		  DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		  uint32_t *ntensors);

/* Whether the device can copy the frame: 0, or an error. -EOPNOTSUPP: the device cannot. */
int detile_check(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		 const struct format *format);

/*
 * Calls fn with each modifier whose frames of this format the device can copy. These
 * are the modifiers of backend->modifiers().
 */
int detile_modifiers(struct dlbuf_device *dev, const struct format *format,
		     void (*fn)(uint64_t modifier, uint32_t nplanes, void *data),
		     void *data);

/*
 * For tests: if set, linear frames are copied too if copies are allowed. So the
 * tests can run this code on drivers without tiled modifiers.
 */
extern bool detile_linear;

#endif /* DLBUF_LIB_DETILE_H */
