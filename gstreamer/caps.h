/* SPDX-License-Identifier: MIT */
/* The caps of dlbufprepare. Those of a function that returns caps are new. */
#ifndef DLBUF_GSTREAMER_CAPS_H
#define DLBUF_GSTREAMER_CAPS_H

#include <gst/video/video.h>

#include "options.h"

/*
 * Linear pictures. Caps of memory:DMABuf without a modifier, as before GStreamer 1.24, are not
 * among them, because the layout of the picture is unknown.
 */
GstCaps *caps_of_pictures(void);

/* All outputs: tensors, and pictures. */
GstCaps *caps_of_outputs(void);
gboolean caps_is_picture(const GstStructure *output);

/* Appends the outputs that pictures of these caps can become. */
void caps_append_outputs(GstCaps *caps, const GstStructure *in, const struct options *o);

/*
 * Completes the outputs of pictures `in` with all known values, so that the next element adds no
 * wrong ones.
 */
void caps_describe(GstCaps *outputs, const GstVideoInfo *in, const struct options *o,
		   const struct dlbuf_prepare_info *info);

/* The output that comes first in the order of the next element's caps; NULL: it takes none. */
GstCaps *caps_choose(const GstCaps *outputs, const GstCaps *peer);

#endif /* DLBUF_GSTREAMER_CAPS_H */
