/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FRAME_H
#define DLBUF_LIB_FRAME_H

#include <dlbuf/frame.h>

#include "format.h"

/* One plane of a frame, as far as it is to be seen. */
struct grid {
	int fd;			/* borrowed from the frame */
	uint64_t offset;	/* bytes to the first group that is seen */
	int64_t pitch;		/* bytes */
	uint32_t rows, columns;	/* groups */
	uint32_t channels;	/* values in a group */
	uint32_t hsub;		/* pixels in a group, across */
};

struct picture {
	const struct format *format;
	uint32_t width, height;	/* what is to be seen, pixels */
	uint32_t value;		/* bytes */
	uint32_t nplanes;
	struct dlbuf_format_plane format_planes[DLBUF_MAX_PLANES];
	struct grid planes[DLBUF_MAX_PLANES];
};

/*
 * Turns a frame into layouts or says why it cannot: pure arithmetic. frame
 * and opts are our own copies, of full size.
 */
int frame_layouts(const struct dlbuf_frame *frame,
		  const struct dlbuf_import_opts *opts,
		  struct dlbuf_frame_layout out[DLBUF_MAX_PLANES], uint32_t *n);

/*
 * Makes the tensors of n layouts, which have been checked, over their fds, each
 * with its access (0: all that the fd allows), by one of paths (PATH_BIT()s),
 * and a lease over all of them.
 * All or none, and release is not called when it fails. As dlbuf_import().
 */
int frame_tensors(struct dlbuf_device *dev,
		  const struct dlbuf_frame_layout layouts[],
		  const uint32_t access[], uint32_t paths, uint32_t n,
		  void (*release)(void *data), void *release_data,
		  DLManagedTensorVersioned *tensors[]);

/*
 * dlbuf_import_frame() after its arguments have been looked at: f and o are our
 * own copies, of full size. paths: PATH_BIT()s and PATHS_BRIEF.
 */
int frame_import(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		 const struct dlbuf_import_opts *o, uint32_t paths,
		 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		 uint32_t *ntensors);

/*
 * Puts the frame's own fence where everybody looks for it: on the dma-bufs.
 * It stays there if the import fails, and holds nobody up for longer than its
 * producer takes.
 */
int frame_attach_fence(const struct dlbuf_frame *frame);

#endif /* DLBUF_LIB_FRAME_H */
