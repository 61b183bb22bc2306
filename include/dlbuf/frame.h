/* SPDX-License-Identifier: MIT */
/*
 * Frames: what a camera or a decoder hands out. dlbuf_import_frame() turns
 * one into a tensor per plane, or says why it cannot. The headers under
 * dlbuf/interop/ fill in a struct dlbuf_frame from the producers' own types.
 */
#ifndef DLBUF_FRAME_H
#define DLBUF_FRAME_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/format.h>
#include <dlbuf/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_plane {
	int fd;			/* a dma-buf; planes may share one */
	uint32_t reserved;
	uint64_t offset;	/* bytes from its start to the first row */
	int64_t pitch;		/* bytes from one row to the next, may be < 0 */
	uint64_t bytes;		/* that are there from offset on; 0: not said */
};

struct dlbuf_rect {
	uint32_t x, y, width, height;	/* pixels */
};

/*
 * What the values mean, in the code points of ITU-T H.273, which FFmpeg,
 * GStreamer, VA-API and Wayland use too. 0: nobody said.
 */
struct dlbuf_colour {
	uint8_t primaries;	/* ColourPrimaries */
	uint8_t transfer;	/* TransferCharacteristics */
	uint8_t matrix;		/* MatrixCoefficients + 1: 0 of H.273 is RGB */
	uint8_t range;		/* enum dlbuf_range */
	uint8_t chroma_site;	/* Chroma420SampleLocType + 1, as FFmpeg has it */
	/*
	 * Of HSV, which H.273 does not know: into how many steps of 8 bits the
	 * circle of hues is divided.
	 */
	uint8_t hue;		/* enum dlbuf_hue */
	uint8_t reserved[2];
};

enum dlbuf_range {
	DLBUF_RANGE_UNKNOWN = 0,
	DLBUF_RANGE_LIMITED = 1,	/* Y of 8 bits is 16..235 */
	DLBUF_RANGE_FULL = 2,
};

enum dlbuf_hue {
	DLBUF_HUE_UNKNOWN = 0,
	DLBUF_HUE_180 = 1,		/* 180 steps are a full turn */
	DLBUF_HUE_256 = 2,
};

/* What the producer says about when the pixels are there. */
enum dlbuf_order {
	DLBUF_ORDER_UNKNOWN = 0,
	/* Before the frame was handed out: V4L2, whose DQBUF says so. */
	DLBUF_ORDER_COMPLETE = 1,
	/* The dma-buf's own fences say it: GPUs, most of the time. */
	DLBUF_ORDER_IMPLICIT = 2,
	/* The fence of the frame says it: explicit synchronisation. */
	DLBUF_ORDER_FENCE = 3,
};

enum dlbuf_clock {
	DLBUF_CLOCK_NONE = 0,		/* there is no timestamp */
	DLBUF_CLOCK_MONOTONIC = 1,	/* CLOCK_MONOTONIC */
	DLBUF_CLOCK_REALTIME = 2,	/* CLOCK_REALTIME */
	DLBUF_CLOCK_BOOTTIME = 3,	/* CLOCK_BOOTTIME */
	DLBUF_CLOCK_STREAM = 4,		/* since the stream began: a PTS */
	DLBUF_CLOCK_UNKNOWN = 5,
};

/* Which lines of a picture are in the frame. */
enum dlbuf_field {
	DLBUF_FIELD_UNKNOWN = 0,
	DLBUF_FIELD_NONE = 1,		/* progressive */
	DLBUF_FIELD_TOP = 2,		/* one field only */
	DLBUF_FIELD_BOTTOM = 3,
	DLBUF_FIELD_INTERLACED = 4,	/* both, line by line, order not said */
	DLBUF_FIELD_INTERLACED_TB = 5,	/* ... top field first */
	DLBUF_FIELD_INTERLACED_BT = 6,
	DLBUF_FIELD_SEQ_TB = 7,		/* all of the top field, then the other */
	DLBUF_FIELD_SEQ_BT = 8,
};

/* Flags of a frame. */
#define DLBUF_FRAME_DAMAGED	(1u << 0)	/* the producer says so */
#define DLBUF_FRAME_SEQUENCE	(1u << 1)	/* sequence is set */

struct dlbuf_frame {
	size_t size;			/* of this struct, set by the caller */
	uint32_t width, height;		/* pixels that are stored */
	uint32_t code;
	enum dlbuf_code_space code_space;
	/*
	 * Of all planes. INVALID means unknown, which is refused, not guessed.
	 */
	uint64_t modifier;
	/*
	 * As many planes as the format has. With a code of V4L2 or libcamera
	 * one is enough for a format whose planes lie one after another in it
	 * (NV12): the others follow from its pitch and the height.
	 */
	uint32_t nplanes;
	uint32_t flags;			/* DLBUF_FRAME_... */
	struct dlbuf_plane planes[DLBUF_MAX_PLANES];
	/* What is to be seen of it; all 0: all of it. The tensors show this. */
	struct dlbuf_rect crop;

	/* Carried along, for whoever interprets the values. */
	struct dlbuf_colour colour;
	int64_t timestamp_ns;
	uint64_t sequence;
	enum dlbuf_clock clock;
	enum dlbuf_field field;

	/*
	 * fence is looked at with DLBUF_ORDER_FENCE only: a sync_file, or -1
	 * for one that has signalled.
	 */
	enum dlbuf_order order;
	int fence;
	/*
	 * The lease. release(release_data) is called exactly once, when the
	 * last tensor over this frame is deleted and the last access to it is
	 * complete: that is when a camera's buffer may be queued again, because
	 * an fd keeps the memory alive, not the pixels, and frameworks delete
	 * tensors while their kernels still run. It is called on the thread
	 * that deletes the last tensor, or, where the device was not done by
	 * then, on the library's event thread. It may call dlbuf and must not
	 * block. It is not called when dlbuf_import_frame() fails. NULL: no
	 * lease. Tensors over a copy do not hold it, see there.
	 */
	void (*release)(void *release_data);
	void *release_data;
};

/*
 * Makes the tensors that opts->view asks for, of the frame's crop rectangle or
 * with DLBUF_IMPORT_UNCROPPED of all that is stored. dlbuf_format_each() tells
 * the formats and their views.
 *
 * The planes' fds are duplicated; frame, its fence and opts are borrowed; the
 * tensors are new, DLBUF_MAX_PLANES of them at most, *ntensors says how many.
 * All of them or none.
 *
 * Does not wait for the dma-buf's fences. The frame's own fence is added to
 * its dma-bufs as a writer's, so that acquire of any tensor, and every other
 * importer, waits for it; where the kernel cannot do that (before 6.0) it is
 * waited for here, the one case in which this call blocks for a producer.
 *
 * A frame that is not linear is copied into rows by a device that can read its
 * modifier, when opts->flags has DLBUF_IMPORT_MAY_COPY: the tensors then have
 * DLPACK_FLAG_BITMASK_IS_COPIED set and DLBUF_PATH_BRIDGE. All of its planes
 * are to be there, those of compression too. The copy waits for the producers
 * as an acquire for reading does, on the device where that can, and acquire of
 * the tensors waits for the copy. The frame's part is over when the copy is
 * complete: its lease fires then, whatever tensors there are, perhaps before
 * this call returns. The dma-buf behind the tensors is the library's, and for
 * another copy when they are gone. What is written to it does not reach the
 * frame: DLBUF_WRITE is refused, and with no access named both are allowed.
 * DLBUF_VIEW_BYTES shows any frame, without a copy.
 *
 * -EINVAL      no such code in its space, too few planes, size 0, a width
 *              that the format cannot have, a crop outside, no such view
 * -EOPNOTSUPP  not a strided tensor of the view: what dlbuf_format_info.reason
 *              says; a tiled modifier without DLBUF_IMPORT_MAY_COPY, or that
 *              the device cannot read, and then the sentence has those that it
 *              can; writing to a copy; an unknown modifier; a pitch that is not
 *              a whole number of elements; a crop that splits a chroma sample
 * -ENODEV, -ENOSYS  no exporter has a dma-buf for the copy, see dlbuf_alloc()
 * and what dlbuf_import() says, per plane.
 */
DLBUF_API int dlbuf_import_frame(struct dlbuf_device *dev,
				 const struct dlbuf_frame *frame,
				 const struct dlbuf_import_opts *opts,
				 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
				 uint32_t *ntensors);

/* One tensor of a frame as a layout of dlbuf_import(). */
struct dlbuf_frame_layout {
	DLTensor layout;	/* points at shape and strides: do not copy */
	int64_t shape[4], strides[4];
	uint32_t plane;		/* the frame's plane that it begins in ... */
	int fd;			/* ... and its dma-buf, borrowed from the frame */
};

/*
 * The first half of dlbuf_import_frame(): frame -> layouts. Pure arithmetic: no
 * system call, no allocation, no look at the fds, so that bounds are not
 * checked. opts as there, of which view and DLBUF_IMPORT_UNCROPPED count.
 * On failure layouts is undefined and *nlayouts untouched.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW as there
 */
DLBUF_API int dlbuf_frame_layouts(const struct dlbuf_frame *frame,
				  const struct dlbuf_import_opts *opts,
				  struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES],
				  uint32_t *nlayouts);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FRAME_H */
