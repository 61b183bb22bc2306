/* SPDX-License-Identifier: MIT */
/*
 * Frames: what a camera or a decoder hands out. dlbuf_import_frame() turns
 * one into a tensor per plane, or says why it cannot.
 */
#ifndef DLBUF_FRAME_H
#define DLBUF_FRAME_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLBUF_MAX_PLANES 4

/*
 * Whose four-character codes a format is written in. The two share numbers
 * that mean different things ('RG16' is RGB565 in one and a Bayer pattern in
 * the other), so a code without its space is refused.
 */
enum dlbuf_code_space {
	DLBUF_CODE_DRM = 1,	/* drm_fourcc.h */
	DLBUF_CODE_V4L2 = 2,	/* videodev2.h */
};

#define DLBUF_FOURCC(a, b, c, d)                                      \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 |   \
	 (uint32_t)(d) << 24)

/* DRM format modifiers (drm_fourcc.h): rows one after another, or unknown. */
#define DLBUF_MOD_LINEAR 0ull
#define DLBUF_MOD_INVALID 0x00ffffffffffffffull

struct dlbuf_plane {
	int fd;			/* a dma-buf; planes may share one */
	uint32_t reserved;
	uint64_t offset;	/* bytes from its start to the first row */
	int64_t pitch;		/* bytes from one row to the next, may be < 0 */
};

struct dlbuf_frame {
	size_t size;			/* of this struct, set by the caller */
	uint32_t width, height;		/* pixels */
	uint32_t code;
	enum dlbuf_code_space code_space;
	uint64_t modifier;		/* INVALID is refused, not guessed */
	/*
	 * As many planes as the format has. With a V4L2 code one is enough
	 * for a format whose planes V4L2 lays out one after another (NV12):
	 * the others follow from its pitch and the height.
	 */
	uint32_t nplanes;
	uint32_t reserved;
	struct dlbuf_plane planes[DLBUF_MAX_PLANES];
	/*
	 * The lease. release(release_data) is called exactly once, when the
	 * last tensor over this frame is deleted and the last access to it is
	 * complete: that is when a camera's buffer may be queued again, because
	 * an fd keeps the memory alive, not the pixels, and frameworks delete
	 * tensors while their kernels still run. It is called on the thread
	 * that deletes the last tensor, or, where the device was not done by
	 * then, on the library's event thread. It may call dlbuf and must not
	 * block. It is not called when dlbuf_import_frame() fails. NULL: no
	 * lease.
	 */
	void (*release)(void *release_data);
	void *release_data;
};

/*
 * Makes a tensor of each plane, in the format's order: NV12 gives Y as
 * [H, W] and CbCr as [(H + 1) / 2, (W + 1) / 2, 2], both of 8-bit unsigned
 * integers; packed formats give [H, W, channels]; YUYV gives [H, W / 2, 4].
 * Channels are in memory order; dlbuf_format_each() lists all formats.
 *
 * The planes' fds are duplicated, frame and opts are borrowed; the tensors
 * are new, DLBUF_MAX_PLANES of them at most, *ntensors says how many. All of
 * them or none. Does not wait for fences.
 * -EINVAL      no such code in its space, too few planes, size 0, a width
 *              that the format cannot have
 * -EOPNOTSUPP  not a strided tensor: a tiled or unknown modifier, a pitch
 *              that is not a whole number of elements
 * and what dlbuf_import() says, per plane.
 */
DLBUF_API int dlbuf_import_frame(struct dlbuf_device *dev,
				 const struct dlbuf_frame *frame,
				 const struct dlbuf_import_opts *opts,
				 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
				 uint32_t *ntensors);

struct dlbuf_format_plane {
	uint8_t channels;		/* values per group, 1: no such dimension */
	uint8_t bits;			/* of one value */
	uint8_t hsub, vsub;		/* pixels per group, across and down */
};

struct dlbuf_format_info {
	size_t size;			/* of this struct, set by the caller */
	const char *name;		/* static, as DRM or else V4L2 calls it */
	uint32_t drm_code;		/* 0 where that space has none */
	uint32_t v4l2_code;
	uint32_t nplanes;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES];
	const char *channel_names;	/* static, memory order, "Y CbCr" */
};

/*
 * Looks a format up by its code. Pure. -EINVAL: no such code, or size not set.
 */
DLBUF_API int dlbuf_format_find(uint32_t code, enum dlbuf_code_space space,
				struct dlbuf_format_info *info);

/* Calls fn for each format that dlbuf maps; a non-zero result ends the walk. */
typedef int (*dlbuf_format_fn)(const struct dlbuf_format_info *info, void *data);
DLBUF_API int dlbuf_format_each(dlbuf_format_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FRAME_H */
