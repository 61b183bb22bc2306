/* SPDX-License-Identifier: MIT */
/* The formats that tests/unit/prepare.c compares, written by hand from their specifications. */
#define CC DLBUF_FOURCC

/* The position of a value in a format: plane and element, by a component and its sample. */
struct layout {
	const char *name;
	uint32_t code;
	int space, depth, shift, bits;	/* bits < 0: floats */
	int hsub, vsub;
	bool yuv;
	struct {
		int plane, first, step;
	} at[3];
	int groups[3];	/* values of a group of plane i; 0: no plane */
	const char *mosaic;
	struct {
		int shift, depth;
	} field[3];		/* of a word: the bits of each component */
	bool swapped, rows;	/* the word's first byte is the highest; planes are rows of bytes */
	bool negative, hsv;
	const char *order;	/* of a group whose values are not evenly spaced */
	int packed;		/* samples of MIPI CSI-2 that share bytes: number in a group */
};

#define DRM DLBUF_CODE_DRM
#define V4L2 DLBUF_CODE_V4L2
/* Rows omit members that their format does not have. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define PACKED(n) { 1 }, .rows = true, .packed = n
#define WORD { { 0, 0, 1 }, { 0, 0, 1 }, { 0, 0, 1 } }, { 1 }, 0

static const struct layout layouts[] = {
	{ "NV12", CC('N','V','1','2'), DRM, 8, 0, 8, 2, 2, true,
	  { { 0, 0, 1 }, { 1, 0, 2 }, { 1, 1, 2 } }, { 1, 2 }, 0 },
	{ "NV21", CC('N','V','2','1'), DRM, 8, 0, 8, 2, 2, true,
	  { { 0, 0, 1 }, { 1, 1, 2 }, { 1, 0, 2 } }, { 1, 2 }, 0 },
	{ "NV16", CC('N','V','1','6'), DRM, 8, 0, 8, 2, 1, true,
	  { { 0, 0, 1 }, { 1, 0, 2 }, { 1, 1, 2 } }, { 1, 2 }, 0 },
	{ "NV24", CC('N','V','2','4'), DRM, 8, 0, 8, 1, 1, true,
	  { { 0, 0, 1 }, { 1, 0, 2 }, { 1, 1, 2 } }, { 1, 2 }, 0 },
	{ "YUV420", CC('Y','U','1','2'), DRM, 8, 0, 8, 2, 2, true,
	  { { 0, 0, 1 }, { 1, 0, 1 }, { 2, 0, 1 } }, { 1, 1, 1 }, 0 },
	{ "YVU410", CC('Y','V','U','9'), DRM, 8, 0, 8, 4, 4, true,
	  { { 0, 0, 1 }, { 2, 0, 1 }, { 1, 0, 1 } }, { 1, 1, 1 }, 0 },
	{ "YUV411", CC('Y','U','1','1'), DRM, 8, 0, 8, 4, 1, true,
	  { { 0, 0, 1 }, { 1, 0, 1 }, { 2, 0, 1 } }, { 1, 1, 1 }, 0 },
	{ "P010", CC('P','0','1','0'), DRM, 10, 6, 16, 2, 2, true,
	  { { 0, 0, 1 }, { 1, 0, 2 }, { 1, 1, 2 } }, { 1, 2 }, 0 },
	{ "S012", CC('S','0','1','2'), DRM, 12, 0, 16, 2, 2, true,
	  { { 0, 0, 1 }, { 1, 0, 1 }, { 2, 0, 1 } }, { 1, 1, 1 }, 0 },
	{ "YUYV", CC('Y','U','Y','V'), DRM, 8, 0, 8, 2, 1, true,
	  { { 0, 0, 2 }, { 0, 1, 4 }, { 0, 3, 4 } }, { 4 }, 0 },
	{ "VYUY", CC('V','Y','U','Y'), DRM, 8, 0, 8, 2, 1, true,
	  { { 0, 1, 2 }, { 0, 2, 4 }, { 0, 0, 4 } }, { 4 }, 0 },
	{ "Y210", CC('Y','2','1','0'), DRM, 10, 6, 16, 2, 1, true,
	  { { 0, 0, 2 }, { 0, 1, 4 }, { 0, 3, 4 } }, { 4 }, 0 },
	{ "VUY888", CC('V','U','2','4'), DRM, 8, 0, 8, 1, 1, true,
	  { { 0, 0, 3 }, { 0, 1, 3 }, { 0, 2, 3 } }, { 3 }, 0 },
	{ "AYUV", CC('A','Y','U','V'), DRM, 8, 0, 8, 1, 1, true,
	  { { 0, 2, 4 }, { 0, 1, 4 }, { 0, 0, 4 } }, { 4 }, 0 },
	{ "BGR888", CC('B','G','2','4'), DRM, 8, 0, 8, 1, 1, false,
	  { { 0, 0, 3 }, { 0, 1, 3 }, { 0, 2, 3 } }, { 3 }, 0 },
	{ "XRGB8888", CC('X','R','2','4'), DRM, 8, 0, 8, 1, 1, false,
	  { { 0, 2, 4 }, { 0, 1, 4 }, { 0, 0, 4 } }, { 4 }, 0 },
	{ "RGBX8888", CC('R','X','2','4'), DRM, 8, 0, 8, 1, 1, false,
	  { { 0, 3, 4 }, { 0, 2, 4 }, { 0, 1, 4 } }, { 4 }, 0 },
	{ "RGB161616", CC('R','G','4','8'), DRM, 16, 0, 16, 1, 1, false,
	  { { 0, 2, 3 }, { 0, 1, 3 }, { 0, 0, 3 } }, { 3 }, 0 },
	{ "XBGR16161616", CC('X','B','4','8'), DRM, 16, 0, 16, 1, 1, false,
	  { { 0, 0, 4 }, { 0, 1, 4 }, { 0, 2, 4 } }, { 4 }, 0 },
	{ "Y412", CC('Y','4','1','2'), DRM, 12, 4, 16, 1, 1, true,
	  { { 0, 1, 4 }, { 0, 0, 4 }, { 0, 2, 4 } }, { 4 }, 0 },
	{ "BGR161616F", CC('B','G','R','H'), DRM, 0, 0, -16, 1, 1, false,
	  { { 0, 0, 3 }, { 0, 1, 3 }, { 0, 2, 3 } }, { 3 }, 0 },
	{ "BGR323232F", CC('B','G','R','F'), DRM, 0, 0, -32, 1, 1, false,
	  { { 0, 0, 3 }, { 0, 1, 3 }, { 0, 2, 3 } }, { 3 }, 0 },
	{ "GREY", CC('G','R','E','Y'), V4L2, 8, 0, 8, 1, 1, true, { { 0, 0, 1 }, { -1, 0, 0 } },
	  { 1 }, 0 },
	{ "Y10", CC('Y','1','0',' '), V4L2, 10, 0, 16, 1, 1, true, { { 0, 0, 1 }, { -1, 0, 0 } },
	  { 1 }, 0 },
	{ "SRGGB8", CC('R','G','G','B'), V4L2, 8, 0, 8, 1, 1, false, { { 0, 0, 1 } }, { 1 },
	  "RGGB" },
	{ "SGBRG10", CC('G','B','1','0'), V4L2, 10, 0, 16, 1, 1, false, { { 0, 0, 1 } }, { 1 },
	  "GBRG" },
	{ "SGRBG12", CC('B','A','1','2'), V4L2, 12, 0, 16, 1, 1, false, { { 0, 0, 1 } }, { 1 },
	  "GRBG" },
	{ "SBGGR16", CC('B','Y','R','2'), V4L2, 16, 0, 16, 1, 1, false, { { 0, 0, 1 } }, { 1 },
	  "BGGR" },
	{ "SBGGR10P", CC('p','B','A','A'), V4L2, 10, 0, 8, 1, 1, false, { { 0, 0, 1 } }, PACKED(4),
	  .mosaic = "BGGR" },
	{ "SGRBG12P", CC('p','g','C','C'), V4L2, 12, 0, 8, 1, 1, false, { { 0, 0, 1 } }, PACKED(2),
	  .mosaic = "GRBG" },
	{ "SGBRG14P", CC('p','G','E','E'), V4L2, 14, 0, 8, 1, 1, false, { { 0, 0, 1 } }, PACKED(4),
	  .mosaic = "GBRG" },
	{ "Y10P", CC('Y','1','0','P'), V4L2, 10, 0, 8, 1, 1, true, { { 0, 0, 1 }, { -1, 0, 0 } },
	  PACKED(4) },
	{ "RGB565", CC('R','G','1','6'), DRM, 0, 0, 16, 1, 1, false, WORD,
	  { { 11, 5 }, { 5, 6 }, { 0, 5 } } },
	{ "Y410", CC('Y','4','1','0'), DRM, 0, 0, 32, 1, 1, true, WORD,
	  { { 10, 10 }, { 0, 10 }, { 20, 10 } } },
	{ "HSV32", CC('H','S','V','4'), V4L2, 8, 0, 8, 1, 1, false,
	  { { 0, 1, 4 }, { 0, 2, 4 }, { 0, 3, 4 } }, { 4 }, .hsv = true },
	{ "Y41P", CC('Y','4','1','P'), V4L2, 8, 0, 8, 4, 1, true, { { 0, 0, 0 } }, { 12 },
	  .order = "UYVYUYVYYYYY" },
	{ "DELTA_TD16", CC('T','D','1','6'), V4L2, 16, 0, 16, 1, 1, false,
	  { { 0, 0, 1 }, { -1, 0, 0 } }, { 1 }, .negative = true },
	{ "Y8I", CC('Y','8','I',' '), V4L2, 8, 0, 8, 1, 1, false, { { 0, 0, 2 }, { -1, 0, 0 } },
	  { 2 }, 0 },
	{ "INZI", CC('I','N','Z','I'), V4L2, 16, 0, 16, 1, 1, false, { { 0, 0, 1 }, { -1, 0, 0 } },
	  { 1, 1 }, 0 },
};
