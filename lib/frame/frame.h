/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FRAME_H
#define DLBUF_LIB_FRAME_H

#include <errno.h>

#include <dlbuf/frame.h>

#include "../system/internal.h"
#include "format.h"

/* The part of a frame's plane inside the crop. */
struct grid {
	int fd;			/* borrowed from the frame */
	uint64_t offset;	/* bytes to the first group of the crop */
	int64_t pitch;		/* bytes */
	uint32_t rows, columns;	/* groups */
	uint32_t channels;	/* values in a group */
	uint32_t hsub;		/* pixels of a row in a group */
};

struct picture {
	const struct format *format;
	uint32_t width, height;	/* size of the crop, pixels */
	bool cropped;
	uint32_t value;		/* bytes */
	uint32_t nplanes;
	struct dlbuf_format_plane format_planes[DLBUF_MAX_PLANES];
	struct grid planes[DLBUF_MAX_PLANES];
};

#define FRAME_FLAGS (DLBUF_FRAME_DAMAGED | DLBUF_FRAME_SEQUENCE | DLBUF_FRAME_READ_ONLY)

/* -EINVAL if bits of flags, or reserved members, are set that have no meaning yet. */
int frame_bad_unused(const struct dlbuf_frame *f) __attribute__((cold));
static inline int frame_check_unused(const struct dlbuf_frame *f)
{
	uint32_t set = (f->flags & ~FRAME_FLAGS) | f->reserved | (f->reserved2 != NULL) |
		       f->colour.reserved[0] | f->colour.reserved[1];

	for (uint32_t i = 0; i < f->nplanes && i < DLBUF_MAX_PLANES; i++)
		set |= f->planes[i].reserved;
	return set ? frame_bad_unused(f) : 0;
}

/*
 * Finds the frame's format; linear: tensors can describe its rows. Checks the orientation
 * and frame_check_unused(), too. -EINVAL, -EOPNOTSUPP.
 */
int frame_find_format(const struct dlbuf_frame *f, const struct format **out, bool *linear);

/* Gets the crop, which may be all of the frame. -EINVAL: it is not inside. */
int frame_crop(const struct dlbuf_frame *f, struct dlbuf_rect *crop);

/* Whether a crop begins with a whole sample of plane i. -EOPNOTSUPP. */
static inline int frame_crop_begins(const struct dlbuf_rect *crop,
				    const struct dlbuf_format_plane *p, uint32_t i)
{
	if (!(crop->x % p->hsub || crop->y % p->vsub))
		return 0;
	return fail(-EOPNOTSUPP, "the crop begins at %u,%u, inside a "
		    "sample of plane %u that covers %ux%u pixels",
		    crop->x, crop->y, i, p->hsub, p->vsub);
}

/*
 * Gives the planes of a dma-buf one fd. A socket, some exporters, and pools give each
 * plane another fd.
 */
int frame_one_fd_each(struct dlbuf_frame *f);

/*
 * Computes the layouts of a frame's tensors: pure arithmetic. frame and opts are the
 * core's copies, of full size.
 */
int frame_layouts(const struct dlbuf_frame *frame,
		  const struct dlbuf_import_opts *opts,
		  struct dlbuf_frame_layout out[DLBUF_MAX_PLANES], uint32_t *n);

/* One for each tensor of a frame. */
struct frame_part {
	uint32_t access;	/* 0: all that the fd allows */
	uint64_t first, end;	/* bytes of the dma-buf that the layout covers */
};

/*
 * Fills in the part of a layout, and checks that it does not reach beyond `limit`, the end of
 * the frame's bytes in the dma-buf (UINT64_MAX: unknown). The layout has passed the other checks.
 * -EOVERFLOW, -ERANGE.
 */
int frame_part_of(const struct dlbuf_frame_layout *layout, uint32_t access, uint64_t limit,
		  struct frame_part *part);

/*
 * Imports n layouts from their fds, by one of paths (PATH_BIT()s). The tensors share a lease.
 * Makes all tensors or none; after a failure release is not called. Errors as for
 * dlbuf_import().
 */
int frame_tensors(struct dlbuf_device *dev,
		  const struct dlbuf_frame_layout layouts[],
		  const struct frame_part parts[], uint32_t paths, uint32_t n,
		  void (*release)(void *data), void *release_data,
		  DLManagedTensorVersioned *tensors[]);

/*
 * Imports a frame whose arguments were checked. f and o are the core's copies, of full size.
 * paths: PATH_BIT()s and PATHS_BRIEF.
 */
int frame_import(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		 const struct dlbuf_import_opts *o, uint32_t paths,
		 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		 uint32_t *ntensors);

/*
 * The same, after lease_share(). Without room it drops idle imports, and tries once more. After a
 * failure it drops f->lease.
 */
int frame_import_shared(struct dlbuf_device *dev, const struct dlbuf_frame *f,
			const struct dlbuf_import_opts *o, uint32_t paths,
			DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
			uint32_t *ntensors);

/* The frame's fence, borrowed; -1: none. */
static inline int frame_fence(const struct dlbuf_frame *f)
{
	return f->order == DLBUF_ORDER_FENCE && f->fence ? f->fence : -1;
}

/*
 * Adds the frame's fence to its dma-bufs, where all users wait for it. If the import
 * fails later, the fence stays there, which is harmless.
 */
int frame_attach_fence(const struct dlbuf_frame *frame);

#endif /* DLBUF_LIB_FRAME_H */
