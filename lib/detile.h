/* SPDX-License-Identifier: MIT */
/* Frames that are not linear: copied into rows by a device that reads them. */
#ifndef DLBUF_LIB_DETILE_H
#define DLBUF_LIB_DETILE_H

#include <dlbuf/frame.h>

#include "format.h"

struct import;

/* One copy, as a backend is asked for it. The core has checked all of it. */
struct detile {
	const struct format *format;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES]; /* the format's */
	/*
	 * As it is in memory: with the planes of compression, which the format
	 * does not have. pitch > 0, offset < bytes, which is the size of the
	 * plane's dma-buf here. fds are borrowed.
	 */
	const struct dlbuf_frame *from;
	bool one_buffer;	/* all of its planes are in one dma-buf */
	/* Where the rows go: a plane each of the format's, in order. */
	struct dlbuf_frame to;
	struct import *imp;	/* the dma-buf that they are in */
};

/*
 * Lays out the rows of a copy, d->to of d->from, and fills in d->planes: the planes
 * one after another without a gap, as the view STACKED needs, because every pitch is a multiple
 * of what the device wants rows and offsets to be. Whole groups, too: devices
 * are told a pitch in pixels, so that with 3 bytes a pixel the step is three
 * times as large. Pure arithmetic. -EOVERFLOW
 */
int detile_rows(struct detile *d, uint32_t align, uint64_t *bytes);

/*
 * Makes the tensors of a copy of the frame on dev; its lease fires when that
 * copy is complete, and the tensors do not hold it. All or none. frame and opts
 * are our own copies, of full size.
 */
int detile_import(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		  const struct format *format,
		  const struct dlbuf_import_opts *opts,
		  DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		  uint32_t *ntensors);

/*
 * Calls fn with each modifier whose frames of this format the device copies: those
 * of backend->modifiers().
 */
int detile_modifiers(struct dlbuf_device *dev, const struct format *format,
		     void (*fn)(uint64_t modifier, void *data), void *data);

/*
 * For tests: frames that are linear are copied too, where copies are allowed,
 * so that drivers without a tiling of their own have something to copy.
 */
extern bool detile_linear;

#endif /* DLBUF_LIB_DETILE_H */
