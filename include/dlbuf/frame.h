/* SPDX-License-Identifier: MIT */
/*
 * Frames of a camera or a decoder. dlbuf_import_frame() makes a tensor per plane,
 * or reports why it cannot. The headers in dlbuf/interop/ fill in a struct
 * dlbuf_frame from the producers' own structs.
 *
 * Not all buffers of a producer are pictures. The adapters treat them by one rule:
 *   no picture            -ENODATA, and no frame: the producer reports that the buffer is
 *                         empty or was cancelled, or that it only marks the end of the
 *                         stream. dlbuf_camera_frame() takes the next buffer
 *   marked as in error    a frame with DLBUF_FRAME_DAMAGED, whose planes have all of their
 *                         memory
 *   shorter than the      dlbuf_import_frame() refuses it with -ERANGE: a plane ends after
 *   picture, not marked   dlbuf_plane.bytes
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
	uint32_t reserved;	/* 0 */
	uint64_t offset;	/* bytes from its start to the first row */
	int64_t pitch;		/* bytes from one row to the next, may be < 0 */
	/*
	 * Size of the plane from offset: the bytes that the producer filled, or the
	 * plane's part of the memory. No view shows more. 0 means unknown: the plane may
	 * extend to the end of the dma-buf. DLBUF_VIEW_BYTES needs the number.
	 */
	uint64_t bytes;
};

struct dlbuf_rect {
	uint32_t x, y, width, height;	/* pixels */
};

/*
 * The colour of the values, by the code points of ITU-T H.273, which FFmpeg, GStreamer,
 * VA-API and Wayland use too. 0 means that the producer did not report it. So two
 * fields, whose code points begin with 0, have the code point plus 1.
 */
struct dlbuf_colour {
	uint8_t primaries;	/* ColourPrimaries */
	uint8_t transfer;	/* TransferCharacteristics */
	uint8_t matrix;		/* MatrixCoefficients + 1: 0 of H.273 is RGB */
	uint8_t range;		/* enum dlbuf_range */
	uint8_t chroma_site;	/* Chroma420SampleLocType + 1, as in FFmpeg */
	/*
	 * For HSV, which H.273 does not define: the number of values of the 8-bit
	 * hue in a full turn.
	 */
	uint8_t hue;		/* enum dlbuf_hue */
	uint8_t reserved[2];	/* 0 */
};

enum dlbuf_range {
	DLBUF_RANGE_UNKNOWN = 0,
	DLBUF_RANGE_LIMITED = 1,	/* 8-bit Y is 16..235 */
	DLBUF_RANGE_FULL = 2,
};

enum dlbuf_hue {
	DLBUF_HUE_UNKNOWN = 0,
	DLBUF_HUE_180 = 1,		/* 180 steps are a full turn */
	DLBUF_HUE_256 = 2,
};

/* How the producer reports that the pixels are complete. */
enum dlbuf_order {
	DLBUF_ORDER_UNKNOWN = 0,
	/* The pixels were complete before the producer gave the frame: V4L2's DQBUF. */
	DLBUF_ORDER_COMPLETE = 1,
	/* The fences of the dma-buf signal: most GPUs (implicit sync). */
	DLBUF_ORDER_IMPLICIT = 2,
	/* The fence of the frame signals (explicit sync). */
	DLBUF_ORDER_FENCE = 3,
};

enum dlbuf_clock {
	DLBUF_CLOCK_NONE = 0,		/* there is no timestamp */
	DLBUF_CLOCK_MONOTONIC = 1,	/* CLOCK_MONOTONIC */
	DLBUF_CLOCK_REALTIME = 2,	/* CLOCK_REALTIME */
	DLBUF_CLOCK_BOOTTIME = 3,	/* CLOCK_BOOTTIME */
	DLBUF_CLOCK_STREAM = 4,		/* since the start of the stream: a PTS */
	DLBUF_CLOCK_UNKNOWN = 5,
};

/* Which lines of a picture the frame has. */
enum dlbuf_field {
	DLBUF_FIELD_UNKNOWN = 0,
	DLBUF_FIELD_NONE = 1,		/* progressive */
	DLBUF_FIELD_TOP = 2,		/* one field only */
	DLBUF_FIELD_BOTTOM = 3,
	DLBUF_FIELD_INTERLACED = 4,	/* both, line by line, order unknown */
	DLBUF_FIELD_INTERLACED_TB = 5,	/* ... top field first */
	DLBUF_FIELD_INTERLACED_BT = 6,
	DLBUF_FIELD_SEQ_TB = 7,		/* the whole top field, then the bottom one */
	DLBUF_FIELD_SEQ_BT = 8,
};

/*
 * How to make the stored picture upright: turn it clockwise by a quarter, `value & 3` times,
 * and with `value & 4` then exchange left and right. In brackets the orientation of EXIF and
 * TIFF that means the same.
 */
enum dlbuf_orientation {
	DLBUF_ORIENTATION_NONE = 0,		/* upright, or not reported (1) */
	DLBUF_ORIENTATION_TURN_90 = 1,		/* a quarter clockwise (6) */
	DLBUF_ORIENTATION_TURN_180 = 2,		/* (3) */
	DLBUF_ORIENTATION_TURN_270 = 3,		/* a quarter counter-clockwise (8) */
	DLBUF_ORIENTATION_FLIP_X = 4,		/* left and right exchanged (2) */
	DLBUF_ORIENTATION_TRANSPOSE = 5,	/* rows become columns (5) */
	DLBUF_ORIENTATION_FLIP_Y = 6,		/* top and bottom exchanged (4) */
	DLBUF_ORIENTATION_TRANSVERSE = 7,	/* TRANSPOSE and then TURN_180 (7) */
};

/* Flags of a frame. */
#define DLBUF_FRAME_DAMAGED	(1u << 0)	/* some pixels may be old or wrong */
#define DLBUF_FRAME_SEQUENCE	(1u << 1)	/* sequence is valid */
#define DLBUF_FRAME_READ_ONLY	(1u << 2)	/* the buffer may only be read: others use it too */

struct dlbuf_lease;

struct dlbuf_frame {
	size_t size;			/* of this struct, set by the caller */
	uint32_t width, height;		/* pixels in memory */
	uint32_t code;
	enum dlbuf_code_space code_space;
	/*
	 * Modifier of all planes. INVALID means unknown; only DLBUF_VIEW_BYTES
	 * accepts such a frame.
	 */
	uint64_t modifier;
	/*
	 * The number of planes, as many as the format has. With a code of V4L2 or libcamera, one
	 * plane is enough for a format whose planes follow one another (NV12): the
	 * library derives the others from its pitch and the height.
	 */
	uint32_t nplanes;
	uint32_t flags;			/* DLBUF_FRAME_... */
	struct dlbuf_plane planes[DLBUF_MAX_PLANES];
	/* The visible part, which the tensors show. All 0: the whole frame. */
	struct dlbuf_rect crop;

	/* Metadata for the user of the frame; the import does not use it. */
	struct dlbuf_colour colour;
	int64_t timestamp_ns;
	uint64_t sequence;
	enum dlbuf_clock clock;
	enum dlbuf_field field;

	/*
	 * Used only with DLBUF_ORDER_FENCE: a sync_file, or 0 or -1 if the work is
	 * complete, see base.h. If it ends with an error, before or after the import, each
	 * acquire reports it (-EIO), see DLBUF_ACQUIRE_DAMAGED.
	 */
	enum dlbuf_order order;
	int fence;
	/*
	 * The lease: a callback that dlbuf calls exactly once, when the last tensor
	 * of this frame is deleted and the last access to it is complete. A camera's
	 * buffer may be queued again only after that. An fd keeps the memory alive,
	 * but not the pixels, and frameworks delete tensors while their GPU jobs
	 * still run.
	 *
	 * release is called on the thread that deletes the last tensor. If the
	 * device still works on the buffer then, release is called later on the
	 * library's event thread, or in dlbuf_dispatch() or dlbuf_device_drain().
	 * The callback may call dlbuf and must not block. It is not called if
	 * dlbuf_import_frame() fails. NULL: no lease. Tensors of a copied frame do
	 * not hold the lease, see dlbuf_import_frame().
	 */
	void (*release)(void *release_data);
	void *release_data;
	/*
	 * Instead of release: one lease for several imports of the frame, see
	 * dlbuf_lease_create(). Borrowed. NULL: none.
	 */
	struct dlbuf_lease *lease;
	/*
	 * How to make the picture upright. Only dlbuf/prepare.h applies it: tensors, width,
	 * height, crop and planes describe the stored picture. Set 0 to keep the picture as it
	 * is stored.
	 */
	enum dlbuf_orientation orientation;
	uint32_t reserved;		/* 0 */
	void *reserved2;		/* NULL */
};

/*
 * Makes a lease that several imports share: imports of one frame on several
 * devices, or of several frames in one buffer. Each successful dlbuf_import_frame()
 * or dlbuf_send_frame() of a frame with this lease holds one reference, until the
 * tensors of that import are deleted and the work on them is complete.
 * release(data) is called exactly once, when all these references and yours are
 * dropped. It is called on the thread that drops the last one; the rules of
 * dlbuf_frame.release apply.
 *
 *	dlbuf_lease_create(queue_again, buffer, &frame.lease);
 *	dlbuf_import_frame(cpu, &frame, NULL, a, &na);
 *	dlbuf_import_frame(gpu, &frame, NULL, b, &nb);
 *	dlbuf_lease_drop(frame.lease);
 *
 * An adapter of dlbuf/interop/ fills in frame.release. To import its frame on
 * several devices, move the callback to a lease:
 *
 *	dlbuf_lease_create(frame.release, frame.release_data, &frame.lease);
 *	frame.release = NULL;
 *
 * *lease is new and has one reference, which is yours. Does not block. After
 * fork() the child cannot use the parent's leases: a frame with one is refused
 * (-ESTALE), and dlbuf_lease_drop() does not call release.
 * -EINVAL  release or lease is NULL
 */
DLBUF_API int dlbuf_lease_create(void (*release)(void *data), void *data,
				 struct dlbuf_lease **lease);

/*
 * Returns your reference (taken; NULL does nothing). If it is the last one,
 * release is called before this function returns.
 */
DLBUF_API void dlbuf_lease_drop(struct dlbuf_lease *lease);

/*
 * For a release callback of a frame or a lease: reports how the work ended that the lease
 * waited for. So the producer of a pipeline learns that its consumers have used damaged
 * pixels, or lost their results:
 *
 *	static void give_back(void *data)
 *	{
 *		struct buffer *buffer = data;
 *
 *		buffer->failed = dlbuf_lease_result() < 0;
 *		queue_again(buffer);
 *	}
 *
 * 0: dlbuf has seen no error. Otherwise the first error, a negative errno, of
 *   - the frame's own fence
 *   - a fence that an access waited for, unless the access had DLBUF_ACQUIRE_DAMAGED or
 *     began with dlbuf_acquire_fence()
 *   - the fence of the work of an access
 *   - a release that failed
 * -EIO also if a lost device waited for a fence that is still pending. Outside of a
 * callback: 0.
 *
 * A device without fences (DLBUF_SYNC_EVENT) reports failed work by the errors of its
 * calls instead. A receiver of dlbuf_send_frame() reports no result. Does not block.
 */
DLBUF_API int dlbuf_lease_result(void);

/*
 * Makes the tensors of a frame. A view is a way to show a frame as tensors.
 * opts->view selects it; the default is a tensor for each plane. The tensors show
 * the frame's crop rectangle; one of 0 by 0 pixels means the whole frame.
 * dlbuf_format_each() reports the views of each format.
 *
 * The planes' fds are duplicated. frame, its fence and opts are borrowed. The
 * tensors are new: at most DLBUF_MAX_PLANES, *ntensors is their number. Either
 * all tensors are made or none.
 *
 * Fences. The call does not wait for the fences of the dma-bufs. If the frame has a
 * fence, the call adds it to the frame's dma-bufs, as the fence of a writer. Then
 * dlbuf_acquire() and all other users wait for it. If the kernel cannot add
 * fences (before 6.0), the call blocks until the fence has signalled.
 *
 * Tiled frames. A frame that is not linear can be copied, if opts->flags has
 * DLBUF_IMPORT_MAY_COPY and dev can read the frame's modifier. dev copies the pixels
 * into a linear dma-buf that the library allocates. Then:
 *   - the tensors have DLBUF_PATH_BRIDGE, and DLPACK_FLAG_BITMASK_IS_COPIED until
 *     dlbuf_tensor_share(), dlbuf_tensor_share_legacy() or dlbuf_send() gives the
 *     copy a second owner
 *   - the frame must have all its planes, also those of compression metadata
 *   - the copy waits for the producers as an acquire for reading does, on the
 *     device if it can wait there; an acquire of the tensors waits for the copy
 *   - the lease fires when the copy is complete, perhaps before this call
 *     returns, and does not wait for the tensors
 *   - opts->access must not have DLBUF_WRITE, because writes would not reach the
 *     frame. If opts->access is 0, the tensors can be written; writes change only
 *     the copy
 *   - the library reuses the copy's memory after the tensors are deleted
 * DLBUF_VIEW_BYTES shows the bytes of a frame with any modifier, also an unknown
 * one, without a copy.
 *
 * -EINVAL      no such code in its space, no such order, too few planes, size 0, a
 *              width that the format cannot have, a crop outside the frame, no such
 *              view, both release and lease are set, BYTES of a plane whose number
 *              of bytes is unknown, an orientation that is not in the list, unknown
 *              bits of flags, a reserved member that is not 0
 * -ESTALE      the lease belongs to the parent process
 * -EOPNOTSUPP  - the view cannot show the format: see dlbuf_format_info.reason
 *              - a tiled modifier without DLBUF_IMPORT_MAY_COPY, or one that the
 *                device cannot read; the error text lists the modifiers that it
 *                can read
 *              - writing to a copy
 *              - an unknown modifier
 *              - a pitch that is not a whole number of elements
 *              - a crop that splits a chroma sample
 * -EACCES      opts->access has DLBUF_WRITE, and the frame is READ_ONLY
 * -ERANGE      a view needs more bytes of a plane than dlbuf_plane.bytes, or than the
 *              dma-buf has
 * -ENODEV, -ENOSYS  no exporter can allocate a dma-buf for the copy, see dlbuf_alloc()
 * and the errors of dlbuf_import(), per plane.
 */
DLBUF_API int dlbuf_import_frame(struct dlbuf_device *dev,
				 const struct dlbuf_frame *frame,
				 const struct dlbuf_import_opts *opts,
				 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
				 uint32_t *ntensors);

/*
 * Describes tensors as a frame, the opposite of dlbuf_import_frame(), for a consumer of
 * frames: an encoder, a display, another process (dlbuf_send_frame()). The adapters of
 * dlbuf/interop/ make the consumers' own structs of this frame. tensors are as
 * DLBUF_VIEW_PLANES makes them, one for each plane of the format, in rows from top to
 * bottom, for example those of a buffer of a pool.
 *
 * Before the call set frame->size, code, code_space, and the colour, time, orientation and crop
 * if you know them; modifier stays LINEAR. width and height may be 0: then they are computed from
 * the first tensor, times the number of pixels that share a value there. The call sets the
 * planes, the order, the fence and the release. It clears lease, and sets READ_ONLY in flags
 * if a tensor is read-only. Tensors of a crop make a frame of the crop.
 *
 * Order. If work that writes to the tensors' memory has fences, frame->fence is a
 * sync_file of all this work: the consumer has to wait for it, or you wait with
 * dlbuf_fence_wait(). The dma-bufs have these fences too. For work without fences
 * (DLBUF_SYNC_EVENT) the call waits, until deadline_ns (CLOCK_MONOTONIC, 0: none).
 *
 * Lease. The frame holds a share of each tensor, and the fence, until you call its
 * release once, when the consumer is done: dlbuf_frame_drop(). The fds are peeked and
 * valid until then. Delete your own tensors when you like. Do not write to them before the
 * release: most consumers add no fences, so an acquire does not wait for the consumer.
 *
 * tensors are borrowed. On failure *frame is unchanged.
 * -EINVAL      not tensors of dlbuf; no such format; not one tensor for each plane of it;
 *              a tensor of another type or size than the plane; the modifier is not
 *              LINEAR; a crop outside the frame; no such orientation; unknown bits of
 *              flags; a reserved member that is not 0
 * -EOPNOTSUPP  strides that do not describe rows of a picture; a format without PLANES;
 *              a tensor that is the library's own copy of a frame
 * -EBUSY       a tensor is acquired
 * -ETIME       the deadline passed
 * -EIO         the work or the kernel failed
 */
DLBUF_API int dlbuf_frame_from_tensors(DLManagedTensorVersioned *const tensors[],
				       size_t n, uint64_t deadline_ns,
				       struct dlbuf_frame *frame);

/*
 * Prepares a frame for a consumer that is not a device of dlbuf; the adapters of
 * dlbuf/interop/ call it. *out is the same frame:
 *   - with an entry for each plane of its format: fd (planes of one dma-buf share one),
 *     offset and pitch, also if the frame has one plane of V4L2 for all of them
 *   - checked: the dma-bufs have all rows, the crop is inside, the fence is a sync_file
 *   - READ_ONLY in flags if an fd is
 *   - with DLBUF_EXPAND_CROPPED, only the pixels of the crop: the planes begin at the
 *     crop, and width and height are its size
 *   - with a share of the frame's lease, if it has one, as its release. Drop the share
 *     with dlbuf_frame_drop(), or give it to the consumer. The frame's own release stays
 *     in *frame
 * If the frame is not linear, the function checks only where the planes begin.
 *
 * frame is borrowed, and so are the fds and the fence of *out; set out->size before. Does
 * not wait for the fence. On failure *out is unchanged.
 * -EINVAL      no such format, size, planes, crop or orientation; unknown bits of flags; a
 *              reserved member that is not 0; the fence is no sync_file; both release and
 *              lease are set
 * -EBADF       an fd is no dma-buf, or not open
 * -ERANGE      rows after the end of the dma-buf or of dlbuf_plane.bytes
 * -EOVERFLOW   positions that do not fit 64 bits
 * -EOPNOTSUPP  an unknown modifier; a format without rows; with CROPPED a crop that
 *              splits a sample, or a crop of a frame that is not linear
 */
#define DLBUF_EXPAND_CROPPED	(1u << 0)
DLBUF_API int dlbuf_frame_expand(const struct dlbuf_frame *frame, uint32_t flags,
				 struct dlbuf_frame *out);

/*
 * Gives a frame back that was not imported: calls its release, if it has one, and clears
 * it. A second call does nothing. A call after an adapter has failed does nothing either,
 * because the frame then has no release. A lease is dropped with dlbuf_lease_drop().
 */
static inline void dlbuf_frame_drop(struct dlbuf_frame *frame)
{
	void (*release)(void *release_data) = frame->release;

	frame->release = NULL;
	if (release)
		release(frame->release_data);
}

struct dlbuf_device_format {
	size_t size;			/* of this struct */
	const char *name;		/* of the format, static: "NV12" */
	uint32_t code;
	enum dlbuf_code_space code_space; /* DRM, or V4L2 if DRM has no code */
	uint64_t modifier;
	uint32_t nplanes;		/* with compression planes */
	uint32_t flags;			/* one of DLBUF_DEVICE_FORMAT_... */
};

#define DLBUF_DEVICE_FORMAT_DIRECT 1u	/* the tensors are the frame's own bytes */
#define DLBUF_DEVICE_FORMAT_COPY 2u	/* needs DLBUF_IMPORT_MAY_COPY */

/*
 * Calls fn for each format and modifier with which dlbuf_import_frame() on this device
 * accepts frames: for each format that PLANES shows, first LINEAR, whose tensors are the
 * frame's own bytes, then the driver's modifiers in its order, which are copied. Use it
 * to negotiate with the producer: a format's modifiers can be passed to
 * gbm_bo_create_with_modifiers2() and VkImageDrmFormatModifierListCreateInfoEXT, or put
 * into a choice of PipeWire or a drm-format list of GStreamer. DLBUF_MOD_INVALID is never
 * among them. A frame can still be refused for its size, its planes or its memory: DIRECT
 * depends on the memory, see enum dlbuf_path.
 *
 * f is peeked and valid during the callback. If fn returns non-zero, the walk ends and
 * this function returns that value. Calls the driver for each format, and does not
 * wait for the device.
 * -EINVAL  dev or fn is NULL
 * -EIO     the driver failed
 */
typedef int (*dlbuf_device_format_fn)(const struct dlbuf_device_format *f,
				      void *data);
DLBUF_API int dlbuf_device_formats(struct dlbuf_device *dev,
				   dlbuf_device_format_fn fn, void *data);

/* One tensor of a frame, as a layout for dlbuf_import(). */
struct dlbuf_frame_layout {
	DLTensor layout;	/* points into this struct: do not copy it */
	int64_t shape[4], strides[4];
	uint32_t plane;		/* index of the plane where it begins */
	int fd;			/* dma-buf of that plane, borrowed from frame */
};

/*
 * Computes the layouts that dlbuf_import_frame() would import. Pure: it does not look
 * at the fds. So the only bound that it checks is dlbuf_plane.bytes, and it takes
 * different fds for different dma-bufs (DLBUF_VIEW_STACKED). It uses only the option
 * view. On failure layouts is undefined and *nlayouts is unchanged.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW, -ERANGE as for dlbuf_import_frame()
 */
DLBUF_API int dlbuf_frame_layouts(const struct dlbuf_frame *frame,
				  const struct dlbuf_import_opts *opts,
				  struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES],
				  uint32_t *nlayouts);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FRAME_H */
