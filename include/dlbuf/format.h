/* SPDX-License-Identifier: MIT */
/*
 * Pixel formats: maps a four-character code to the tensors of its planes, or to
 * the reason why it has none. These functions need no device and no dma-buf.
 *
 *	DLBUF_INFO(dlbuf_format_info, info);
 *
 *	if (dlbuf_format_find_name("NV12", DLBUF_CODE_DRM, &info))
 *		errx(1, "%s", dlbuf_last_error());
 *	printf("%u tensors: %s\n", info.nplanes, info.channels); // 2 tensors: Y,UV
 */
#ifndef DLBUF_FORMAT_H
#define DLBUF_FORMAT_H

#include <dlbuf/base.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLBUF_MAX_PLANES 4

/*
 * The header that defines a code. DRM and V4L2 use the same numbers for different
 * formats ('RG16' is RGB565 in DRM and a Bayer pattern in V4L2), so every code
 * needs its code space.
 */
enum dlbuf_code_space {
	DLBUF_CODE_DRM = 1,	/* drm_fourcc.h */
	DLBUF_CODE_V4L2 = 2,	/* videodev2.h */
	/*
	 * libcamera's PixelFormat: the codes of DRM and some of its own. Its
	 * modifiers, which differ from those of drm_fourcc.h, distinguish them.
	 */
	DLBUF_CODE_LIBCAMERA = 3,
	/*
	 * These spaces have names and no codes: for dlbuf_format_find_name() only. A
	 * library without FORMATS_ALL does not know them. Its adapters for GStreamer and
	 * PipeWire then find no format, and its adapter for FFmpeg finds none for a frame
	 * of several layers.
	 */
	DLBUF_CODE_GSTREAMER = 4,	/* also PipeWire's names */
	DLBUF_CODE_FFMPEG = 5,
};

#define DLBUF_FOURCC(a, b, c, d)                                      \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 |   \
	 (uint32_t)(d) << 24)

/* DRM format modifiers (drm_fourcc.h): linear rows, and unknown. */
#define DLBUF_MOD_LINEAR 0ull
#define DLBUF_MOD_INVALID 0x00ffffffffffffffull

/*
 * The tensors that an import makes of a frame. H and W are the frame's height and
 * width in pixels. A subsampled chroma plane has as many rows and columns as
 * cover the picture, (H + 1) / 2 for 4:2:0. Each view has other strides over
 * the same bytes; no view copies.
 */
enum dlbuf_view {
	/*
	 * A tensor per plane, in memory order: [H, W] for one value per pixel,
	 * [H, W, C] for packed formats, [H, W / 2, 4] for YUYV, and for NV12
	 * [H, W] and [H / 2, W / 2, 2].
	 */
	DLBUF_VIEW_PLANES = 0,
	/* One tensor [H, W, 3]: a packed format without alpha or padding. */
	DLBUF_VIEW_COLOUR = 1,
	/* One tensor [H, W]: the luma of a format that has Y. */
	DLBUF_VIEW_LUMA = 2,
	/* A tensor per component, [H, W] or its subsampled size. */
	DLBUF_VIEW_COMPONENTS = 3,
	/* One tensor [H / 2, W / 2, 2, 2]: the cells of a Bayer mosaic. */
	DLBUF_VIEW_CFA = 4,
	/*
	 * One tensor [rows, W] over all planes, [H * 3 / 2, W] for NV12, as
	 * computer vision libraries use it. The planes must follow one another in
	 * one dma-buf and have one pitch, or no padding.
	 */
	DLBUF_VIEW_STACKED = 5,
	/* One tensor [H, W]: whole pixels as unsigned integers, e.g. RGB565. */
	DLBUF_VIEW_WORDS = 6,
	/*
	 * A tensor per plane: its rows as bytes. A row has the bytes of its pixels.
	 * If pixels share bytes, each row has the whole pitch with its padding, also
	 * the last row.
	 */
	DLBUF_VIEW_ROWS = 7,
	/* A tensor [bytes] per plane: all its data, e.g. a JPEG or metadata. */
	DLBUF_VIEW_BYTES = 8,
};
#define DLBUF_NVIEWS 9

/* Returns "planes", "colour", "luma" and so on; "unknown" for another number. Static. */
DLBUF_API const char *dlbuf_view_name(enum dlbuf_view view);

struct dlbuf_format_plane {
	uint8_t channels;	/* values per group; 1: the tensor has no dimension for them */
	uint8_t bits;		/* bits of one value, 8 to 32 */
	uint8_t hsub, vsub;	/* pixels per group, horizontal and vertical */
};

struct dlbuf_format_info {
	size_t size;			/* of this struct, set by the caller */
	/* Name and code in each header; NULL and 0 if the header has none. */
	const char *drm_name;		/* "XRGB8888" */
	const char *v4l2_name;		/* "XBGR32" */
	uint32_t drm_code;
	uint32_t v4l2_code;
	/*
	 * V4L2's second code, for the same planes in a dma-buf each: NV12M.
	 */
	const char *v4l2_multi_name;
	uint32_t v4l2_multi_code;
	uint32_t nplanes;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES];
	DLDataType dtype;		/* type of the values */
	/*
	 * Number of significant bits of a value, and the number of unused low
	 * bits below them: P010 has 10 and 6, Y10 has 10 and 0.
	 */
	uint8_t depth, shift;
	uint16_t reserved;
	/*
	 * Static. The values in memory order, with a comma between planes:
	 * "Y,UV", "BGRX", "YUYV". Bayer has a slash between rows: "RG/GB".
	 * U is Cb, V is Cr, A is alpha, X padding, C a palette index, D
	 * darkness, Z depth, I infrared, T touch. L and R also mean left and
	 * right. W and B are words and bytes of formats that PLANES refuses.
	 */
	const char *channels;
	uint32_t views;			/* 1 << DLBUF_VIEW_... for each view */
	uint32_t reserved2;
	const char *reason;		/* static: why PLANES refuses it, or NULL */
};

/*
 * Finds a format by its code. Pure. modifier is used for libcamera's code space
 * only: it is the modifier of the PixelFormat, where some formats differ only in
 * the modifier.
 * -EINVAL  no such code in that space, or size not set
 */
DLBUF_API int dlbuf_format_find(uint32_t code, uint64_t modifier,
				enum dlbuf_code_space space,
				struct dlbuf_format_info *info);

/*
 * Returns only dlbuf_format_info.channels, "Y,UV", for callers that need it for
 * every frame. Static. NULL: no such code in that space.
 */
DLBUF_API const char *dlbuf_format_channels(uint32_t code, uint64_t modifier,
					    enum dlbuf_code_space space);

/*
 * dlbuf_format_find() by name, "NV12", ignoring case. space selects whose name it is: a
 * name of DRM, V4L2, GStreamer ("I420", and "rggb" of video/x-bayer) or FFmpeg
 * ("yuv420p"). The code for a frame is info->drm_code, or info->v4l2_code if drm_code is
 * 0. Some names mean other formats in another space: YUV444 is planar in DRM and packed in
 * V4L2.
 * -EINVAL  no such name in that space; libcamera has no names of its own
 */
DLBUF_API int dlbuf_format_find_name(const char *name,
				     enum dlbuf_code_space space,
				     struct dlbuf_format_info *info);

/*
 * Calls fn for each name that dlbuf_format_find_name() finds, with its space and its format.
 * If fn returns non-zero, the walk ends and this function returns that value.
 * -EINVAL  fn is NULL
 */
typedef int (*dlbuf_format_name_fn)(const char *name, enum dlbuf_code_space space,
				    const struct dlbuf_format_info *info, void *data);
DLBUF_API int dlbuf_format_names(dlbuf_format_name_fn fn, void *data);

/*
 * Calls fn for each format of DRM and V4L2: first the formats that PLANES shows,
 * then those that it refuses. If fn returns non-zero, the walk ends and this
 * function returns that value.
 * -EINVAL  fn is NULL
 */
typedef int (*dlbuf_format_fn)(const struct dlbuf_format_info *info, void *data);
DLBUF_API int dlbuf_format_each(dlbuf_format_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FORMAT_H */
