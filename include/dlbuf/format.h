/* SPDX-License-Identifier: MIT */
/*
 * Pixel formats: four-character codes -> what their planes are as tensors, or
 * why they cannot be. Nothing here needs a device or a dma-buf.
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
 * Whose codes a format is written in. They share numbers that mean different
 * things ('RG16' is RGB565 to DRM and a Bayer pattern to V4L2), so a code
 * without its space is refused.
 */
enum dlbuf_code_space {
	DLBUF_CODE_DRM = 1,	/* drm_fourcc.h */
	DLBUF_CODE_V4L2 = 2,	/* videodev2.h */
	/*
	 * libcamera's PixelFormat: DRM's codes, and some of its own, told apart
	 * from others by modifiers that mean something else in drm_fourcc.h.
	 */
	DLBUF_CODE_LIBCAMERA = 3,
};

/* "DRM", "V4L2", "libcamera"; "unknown" for another number. Static. */
DLBUF_API const char *dlbuf_code_space_name(enum dlbuf_code_space space);

#define DLBUF_FOURCC(a, b, c, d)                                      \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 |   \
	 (uint32_t)(d) << 24)

/* DRM format modifiers (drm_fourcc.h): rows one after another, or unknown. */
#define DLBUF_MOD_LINEAR 0ull
#define DLBUF_MOD_INVALID 0x00ffffffffffffffull

/*
 * What to make of a frame. H and W are its height and width in pixels; where
 * chroma is subsampled its planes have as many rows and columns as cover the
 * picture, (H + 1) / 2 for 4:2:0. All are strided views of the same bytes;
 * none is a copy.
 */
enum dlbuf_view {
	/*
	 * A tensor per plane, in memory order: [H, W] for one value a pixel,
	 * [H, W, C] for packed ones, [H, W / 2, 4] for YUYV, and for NV12
	 * [H, W] and [H / 2, W / 2, 2].
	 */
	DLBUF_VIEW_PLANES = 0,
	/* One tensor [H, W, 3]: a packed format without its alpha or padding. */
	DLBUF_VIEW_COLOUR = 1,
	/* One tensor [H, W]: the luma of any format with a Y. */
	DLBUF_VIEW_LUMA = 2,
	/* A tensor per component, [H, W] or its subsampled size. */
	DLBUF_VIEW_COMPONENTS = 3,
	/* One tensor [H / 2, W / 2, 2, 2]: the mosaic's cells, of Bayer. */
	DLBUF_VIEW_CFA = 4,
	/*
	 * One tensor [rows, W] over all planes, [H * 3 / 2, W] for NV12, as
	 * computer vision libraries have it. The planes have to follow one
	 * another in one dma-buf at one pitch, or without padding.
	 */
	DLBUF_VIEW_STACKED = 5,
	/* One tensor [H, W] of whole pixels as unsigned integers: RGB565. */
	DLBUF_VIEW_WORDS = 6,
	/*
	 * A tensor per plane of its rows as bytes: those of the pixels, or where
	 * pixels share bytes the whole pitch, padding and all.
	 */
	DLBUF_VIEW_ROWS = 7,
	/* A tensor per plane [bytes] of what is in it: a JPEG, metadata. */
	DLBUF_VIEW_BYTES = 8,
};
#define DLBUF_NVIEWS 9

/* "planes", "colour", "luma" ...; "unknown" for another number. Static. */
DLBUF_API const char *dlbuf_view_name(enum dlbuf_view view);

struct dlbuf_format_plane {
	uint8_t channels;	/* values per group, 1: no such dimension */
	uint8_t bits;		/* of one value, 8 to 32 */
	uint8_t hsub, vsub;	/* pixels per group, across and down */
};

struct dlbuf_format_info {
	size_t size;			/* of this struct, set by the caller */
	/* Names and codes as each header has them; NULL and 0 where it has none. */
	const char *drm_name;		/* "XRGB8888" */
	const char *v4l2_name;		/* "XBGR32" */
	uint32_t drm_code;
	uint32_t v4l2_code;
	/*
	 * V4L2's second code for the same planes, each in a dma-buf of its own:
	 * NV12M.
	 */
	const char *v4l2_multi_name;
	uint32_t v4l2_multi_code;
	uint32_t nplanes;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES];
	DLDataType dtype;		/* of the values */
	/*
	 * How many bits of a value say something, and by how many they are
	 * shifted up: P010 has 10 and 6, Y10 has 10 and 0.
	 */
	uint8_t depth, shift;
	uint16_t reserved;
	/*
	 * Static. What the values are, in memory order, planes apart by commas:
	 * "Y,UV", "BGRX", "YUYV"; for Bayer rows apart by a slash: "RG/GB".
	 * U is Cb, V is Cr, A alpha, X padding, C an index of a palette, D
	 * darkness, Z depth, I infrared, L and R also left and right, T touch;
	 * W and B words and bytes of formats that PLANES refuses.
	 */
	const char *channels;
	uint32_t views;			/* 1 << DLBUF_VIEW_... of each it has */
	uint32_t reserved2;
	const char *reason;		/* static, why PLANES refuses; or NULL */
};

/*
 * Looks a format up by its code. Pure. modifier is the one of libcamera's
 * PixelFormat, which has formats that differ in nothing else; in the other
 * spaces it is not looked at.
 * -EINVAL  no such code in that space, or size not set
 */
DLBUF_API int dlbuf_format_find(uint32_t code, uint64_t modifier,
				enum dlbuf_code_space space,
				struct dlbuf_format_info *info);

/*
 * Only dlbuf_format_info.channels of it, "Y,UV", for who asks with every
 * frame. Static; NULL: no such code in that space.
 */
DLBUF_API const char *dlbuf_format_channels(uint32_t code, uint64_t modifier,
					    enum dlbuf_code_space space);

/*
 * dlbuf_format_find() by name, "NV12", without regard to case. space 0 looks among DRM's
 * names, then V4L2's: they agree where both have one, but for YUV444, which is
 * planar to DRM.
 */
DLBUF_API int dlbuf_format_find_name(const char *name,
				     enum dlbuf_code_space space,
				     struct dlbuf_format_info *info);

/*
 * Calls fn for each format of DRM and of V4L2, those that PLANES shows first,
 * then those that it refuses; a non-zero result ends the walk and is returned.
 */
typedef int (*dlbuf_format_fn)(const struct dlbuf_format_info *info, void *data);
DLBUF_API int dlbuf_format_each(dlbuf_format_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FORMAT_H */
