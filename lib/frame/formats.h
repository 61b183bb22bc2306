/* SPDX-License-Identifier: MIT */
/*
 * All formats that drm_fourcc.h and videodev2.h define. The library's lookups,
 * the manual's list and the tests are made from this table. A file that
 * includes it defines the macros for the rows that it needs; the others are
 * empty.
 *
 *	F(drm, code, v4l2, code, value, hsub, vsub, channels)
 *		both have it, under these names
 *	FD(drm, code, value, hsub, vsub, channels)	DRM alone
 *	FV(v4l2, code, value, hsub, vsub, channels)	V4L2 alone
 *	R, RD, RV: the same with a reason, for formats that are no strided tensor of their values
 *	W(row, letters, bits...)	a pixel's bit fields, from the highest bit of its word down
 *	WS(row, letters, bits...)	the same; the word's highest byte is the first in memory
 *	P(row, letters, depth)	samples of MIPI CSI-2: letters as channels, depth bits each
 *	M(v4l2, code, row)	V4L2's code for planes in buffers of their own
 *	L(libcamera, code, modifier, row)	where libcamera's code is not DRM's
 *	G(name, row)	GStreamer's name, and PipeWire's
 *	A(name, row)	FFmpeg's name
 *
 * channels are the values in memory order, as in dlbuf/format.h, with a comma
 * between planes; planes after the first are subsampled by hsub and vsub. In a
 * packed format with several Y, a group has as many pixels.
 *
 * The same bytes have different codes in the two spaces, and the same code
 * different bytes: 'RGB3' of V4L2 is R, G, B in memory, which DRM calls
 * BGR888, 'BG24', because DRM names channels from the highest bit down.
 */
#ifndef F
#define F(...)
#endif
#ifndef FD
#define FD(...)
#endif
#ifndef FV
#define FV(...)
#endif
#ifndef R
#define R(...)
#endif
#ifndef RD
#define RD(...)
#endif
#ifndef RV
#define RV(...)
#endif
#ifndef W
#define W(...)
#endif
#ifndef WS
#define WS(...)
#endif
#ifndef P
#define P(...)
#endif
#ifndef M
#define M(...)
#endif
#ifndef L
#define L(...)
#endif
#ifndef G
#define G(...)
#endif
#ifndef A
#define A(...)
#endif

/* The most common formats first: a lookup searches from the top. */
F(NV12, CC('N','V','1','2'), NV12, CC('N','V','1','2'), U8, 2, 2, "Y,UV")
F(YUYV, CC('Y','U','Y','V'), YUYV, CC('Y','U','Y','V'), U8, 1, 1, "YUYV")
F(YUV420, CC('Y','U','1','2'), YUV420, CC('Y','U','1','2'), U8, 2, 2, "Y,U,V")
F(BGR888, CC('B','G','2','4'), RGB24, CC('R','G','B','3'), U8, 1, 1, "RGB")
F(RGB888, CC('R','G','2','4'), BGR24, CC('B','G','R','3'), U8, 1, 1, "BGR")
F(XRGB8888, CC('X','R','2','4'), XBGR32, CC('X','R','2','4'), U8, 1, 1, "BGRX")
F(P010, CC('P','0','1','0'), P010, CC('P','0','1','0'), HIGH10, 2, 2, "Y,UV")

/* One value a pixel: luma, red, depth, the index of a palette's colour. */
FD(R8, CC('R','8',' ',' '), U8, 1, 1, "R")
F(Y8, CC('G','R','E','Y'), GREY, CC('G','R','E','Y'), U8, 1, 1, "Y")
F(R10, CC('R','1','0',' '), Y10, CC('Y','1','0',' '), LOW10, 1, 1, "Y")
F(R12, CC('R','1','2',' '), Y12, CC('Y','1','2',' '), LOW12, 1, 1, "Y")
FV(Y012, CC('Y','0','1','2'), HIGH12, 1, 1, "Y")
FV(Y14, CC('Y','1','4',' '), LOW14, 1, 1, "Y")
F(R16, CC('R','1','6',' '), Y16, CC('Y','1','6',' '), U16, 1, 1, "Y")
FV(Z16, CC('Z','1','6',' '), U16, 1, 1, "Z")
FD(C8, CC('C','8',' ',' '), U8, 1, 1, "C")
FD(D8, CC('D','8',' ',' '), U8, 1, 1, "D")
FV(PAL8, CC('P','A','L','8'), U8, 1, 1, "C")
FV(HI240, CC('H','I','2','4'), U8, 1, 1, "C")
FV(DELTA_TD08, CC('T','D','0','8'), S8, 1, 1, "T")
FV(DELTA_TD16, CC('T','D','1','6'), S16, 1, 1, "T")
FV(TU08, CC('T','U','0','8'), U8, 1, 1, "T")
FV(TU16, CC('T','U','1','6'), U16, 1, 1, "T")
FD(R16F, CC('R',' ',' ','H'), F16, 1, 1, "R")
FD(R32F, CC('R',' ',' ','F'), F32, 1, 1, "R")

/* Two values a pixel. */
FD(RG88, CC('R','G','8','8'), U8, 1, 1, "GR")
FD(GR88, CC('G','R','8','8'), U8, 1, 1, "RG")
FD(RG1616, CC('R','G','3','2'), U16, 1, 1, "GR")
FD(GR1616, CC('G','R','3','2'), U16, 1, 1, "RG")
FD(GR1616F, CC('G','R',' ','H'), F16, 1, 1, "RG")
FD(GR3232F, CC('G','R',' ','F'), F32, 1, 1, "RG")
FV(Y8I, CC('Y','8','I',' '), U8, 1, 1, "LR")
FV(Y16I, CC('Y','1','6','I'), U16, 1, 1, "LR")
FV(INZI, CC('I','N','Z','I'), U16, 1, 1, "I,Z")

/* RGB. */
F(XBGR8888, CC('X','B','2','4'), RGBX32, CC('X','B','2','4'), U8, 1, 1, "RGBX")
F(RGBX8888, CC('R','X','2','4'), BGRX32, CC('R','X','2','4'), U8, 1, 1, "XBGR")
F(BGRX8888, CC('B','X','2','4'), XRGB32, CC('B','X','2','4'), U8, 1, 1, "XRGB")
F(ARGB8888, CC('A','R','2','4'), ABGR32, CC('A','R','2','4'), U8, 1, 1, "BGRA")
F(ABGR8888, CC('A','B','2','4'), RGBA32, CC('A','B','2','4'), U8, 1, 1, "RGBA")
F(RGBA8888, CC('R','A','2','4'), BGRA32, CC('R','A','2','4'), U8, 1, 1, "ABGR")
F(BGRA8888, CC('B','A','2','4'), ARGB32, CC('B','A','2','4'), U8, 1, 1, "ARGB")
FV(BGR32, CC('B','G','R','4'), U8, 1, 1, "BGRX")
FV(RGB32, CC('R','G','B','4'), U8, 1, 1, "XRGB")
F(RGB161616, CC('R','G','4','8'), BGR48, CC('B','G','R','6'), U16, 1, 1, "BGR")
F(BGR161616, CC('B','G','4','8'), RGB48, CC('R','G','B','6'), U16, 1, 1, "RGB")
FV(BGR48_12, CC('B','3','1','2'), HIGH12, 1, 1, "BGR")
FD(XRGB16161616, CC('X','R','4','8'), U16, 1, 1, "BGRX")
FD(XBGR16161616, CC('X','B','4','8'), U16, 1, 1, "RGBX")
FD(ARGB16161616, CC('A','R','4','8'), U16, 1, 1, "BGRA")
FD(ABGR16161616, CC('A','B','4','8'), U16, 1, 1, "RGBA")
FV(ABGR64_12, CC('B','4','1','2'), HIGH12, 1, 1, "BGRA")
FD(AXBXGXRX106106106106, CC('A','B','1','0'), HIGH10, 1, 1, "RGBA")
FD(BGR161616F, CC('B','G','R','H'), F16, 1, 1, "RGB")
FD(XRGB16161616F, CC('X','R','4','H'), F16, 1, 1, "BGRX")
FD(XBGR16161616F, CC('X','B','4','H'), F16, 1, 1, "RGBX")
FD(ARGB16161616F, CC('A','R','4','H'), F16, 1, 1, "BGRA")
FD(ABGR16161616F, CC('A','B','4','H'), F16, 1, 1, "RGBA")
FD(BGR323232F, CC('B','G','R','F'), F32, 1, 1, "RGB")
FD(ABGR32323232F, CC('A','B','8','F'), F32, 1, 1, "RGBA")
FD(XRGB8888_A8, CC('X','R','A','8'), U8, 1, 1, "BGRX,A")
FD(XBGR8888_A8, CC('X','B','A','8'), U8, 1, 1, "RGBX,A")
FD(RGBX8888_A8, CC('R','X','A','8'), U8, 1, 1, "XBGR,A")
FD(BGRX8888_A8, CC('B','X','A','8'), U8, 1, 1, "XRGB,A")
FD(RGB888_A8, CC('R','8','A','8'), U8, 1, 1, "BGR,A")
FD(BGR888_A8, CC('B','8','A','8'), U8, 1, 1, "RGB,A")
FV(HSV24, CC('H','S','V','3'), U8, 1, 1, "HSV")
FV(HSV32, CC('H','S','V','4'), U8, 1, 1, "XHSV")

/* Packed YCbCr. AYUV and XYUV are two different orders in the two spaces. */
F(YVYU, CC('Y','V','Y','U'), YVYU, CC('Y','V','Y','U'), U8, 1, 1, "YVYU")
F(UYVY, CC('U','Y','V','Y'), UYVY, CC('U','Y','V','Y'), U8, 1, 1, "UYVY")
F(VYUY, CC('V','Y','U','Y'), VYUY, CC('V','Y','U','Y'), U8, 1, 1, "VYUY")
FV(YYUV, CC('Y','Y','U','V'), U8, 1, 1, "YYUV")
FV(Y41P, CC('Y','4','1','P'), U8, 1, 1, "UYVYUYVYYYYY")
F(Y210, CC('Y','2','1','0'), Y210, CC('Y','2','1','0'), HIGH10, 1, 1, "YUYV")
F(Y212, CC('Y','2','1','2'), Y212, CC('Y','2','1','2'), HIGH12, 1, 1, "YUYV")
F(Y216, CC('Y','2','1','6'), Y216, CC('Y','2','1','6'), U16, 1, 1, "YUYV")
F(VUY888, CC('V','U','2','4'), YUV24, CC('Y','U','V','3'), U8, 1, 1, "YUV")
FV(YUV48_12, CC('Y','3','1','2'), HIGH12, 1, 1, "YUV")
F(AYUV, CC('A','Y','U','V'), VUYA32, CC('V','U','Y','A'), U8, 1, 1, "VUYA")
F(XYUV8888, CC('X','Y','U','V'), VUYX32, CC('V','U','Y','X'), U8, 1, 1, "VUYX")
F(AVUY8888, CC('A','V','U','Y'), YUVA32, CC('Y','U','V','A'), U8, 1, 1, "YUVA")
F(XVUY8888, CC('X','V','U','Y'), YUVX32, CC('Y','U','V','X'), U8, 1, 1, "YUVX")
FV(AYUV32, CC('A','Y','U','V'), U8, 1, 1, "AYUV")
FV(XYUV32, CC('X','Y','U','V'), U8, 1, 1, "XYUV")
FV(YUV32, CC('Y','U','V','4'), U8, 1, 1, "AYUV")
FD(Y412, CC('Y','4','1','2'), HIGH12, 1, 1, "UYVA")
FD(Y416, CC('Y','4','1','6'), U16, 1, 1, "UYVA")
FD(XVYU12_16161616, CC('X','V','3','6'), HIGH12, 1, 1, "UYVX")
FD(XVYU16161616, CC('X','V','4','8'), U16, 1, 1, "UYVX")

/* Luma, and a plane of both chromas. */
F(NV21, CC('N','V','2','1'), NV21, CC('N','V','2','1'), U8, 2, 2, "Y,VU")
F(NV16, CC('N','V','1','6'), NV16, CC('N','V','1','6'), U8, 2, 1, "Y,UV")
F(NV61, CC('N','V','6','1'), NV61, CC('N','V','6','1'), U8, 2, 1, "Y,VU")
F(NV24, CC('N','V','2','4'), NV24, CC('N','V','2','4'), U8, 1, 1, "Y,UV")
F(NV42, CC('N','V','4','2'), NV42, CC('N','V','4','2'), U8, 1, 1, "Y,VU")
F(P012, CC('P','0','1','2'), P012, CC('P','0','1','2'), HIGH12, 2, 2, "Y,UV")
FD(P016, CC('P','0','1','6'), U16, 2, 2, "Y,UV")
FD(P210, CC('P','2','1','0'), HIGH10, 2, 1, "Y,UV")

/* Three planes. */
F(YVU420, CC('Y','V','1','2'), YVU420, CC('Y','V','1','2'), U8, 2, 2, "Y,V,U")
F(YUV422, CC('Y','U','1','6'), YUV422P, CC('4','2','2','P'), U8, 2, 1, "Y,U,V")
FD(YVU422, CC('Y','V','1','6'), U8, 2, 1, "Y,V,U")
FD(YUV444, CC('Y','U','2','4'), U8, 1, 1, "Y,U,V")
FD(YVU444, CC('Y','V','2','4'), U8, 1, 1, "Y,V,U")
F(YUV411, CC('Y','U','1','1'), YUV411P, CC('4','1','1','P'), U8, 4, 1, "Y,U,V")
FD(YVU411, CC('Y','V','1','1'), U8, 4, 1, "Y,V,U")
F(YUV410, CC('Y','U','V','9'), YUV410, CC('Y','U','V','9'), U8, 4, 4, "Y,U,V")
F(YVU410, CC('Y','V','U','9'), YVU410, CC('Y','V','U','9'), U8, 4, 4, "Y,V,U")
FD(S010, CC('S','0','1','0'), LOW10, 2, 2, "Y,U,V")
FD(S210, CC('S','2','1','0'), LOW10, 2, 1, "Y,U,V")
FD(S410, CC('S','4','1','0'), LOW10, 1, 1, "Y,U,V")
FD(S012, CC('S','0','1','2'), LOW12, 2, 2, "Y,U,V")
FD(S212, CC('S','2','1','2'), LOW12, 2, 1, "Y,U,V")
FD(S412, CC('S','4','1','2'), LOW12, 1, 1, "Y,U,V")
FD(S016, CC('S','0','1','6'), U16, 2, 2, "Y,U,V")
FD(S216, CC('S','2','1','6'), U16, 2, 1, "Y,U,V")
FD(S416, CC('S','4','1','6'), U16, 1, 1, "Y,U,V")
FD(Q410, CC('Q','4','1','0'), HIGH10, 1, 1, "Y,U,V")
FD(Q401, CC('Q','4','0','1'), HIGH10, 1, 1, "Y,V,U")

/* Colour filter arrays: the pattern is the mosaic's, row by row. */
FV(SRGGB8, CC('R','G','G','B'), U8, 1, 1, "RG/GB")
FV(SBGGR8, CC('B','A','8','1'), U8, 1, 1, "BG/GR")
FV(SGBRG8, CC('G','B','R','G'), U8, 1, 1, "GB/RG")
FV(SGRBG8, CC('G','R','B','G'), U8, 1, 1, "GR/BG")
FV(SRGGB10, CC('R','G','1','0'), LOW10, 1, 1, "RG/GB")
FV(SBGGR10, CC('B','G','1','0'), LOW10, 1, 1, "BG/GR")
FV(SGBRG10, CC('G','B','1','0'), LOW10, 1, 1, "GB/RG")
FV(SGRBG10, CC('B','A','1','0'), LOW10, 1, 1, "GR/BG")
FV(SRGGB12, CC('R','G','1','2'), LOW12, 1, 1, "RG/GB")
FV(SBGGR12, CC('B','G','1','2'), LOW12, 1, 1, "BG/GR")
FV(SGBRG12, CC('G','B','1','2'), LOW12, 1, 1, "GB/RG")
FV(SGRBG12, CC('B','A','1','2'), LOW12, 1, 1, "GR/BG")
FV(SRGGB14, CC('R','G','1','4'), LOW14, 1, 1, "RG/GB")
FV(SBGGR14, CC('B','G','1','4'), LOW14, 1, 1, "BG/GR")
FV(SGBRG14, CC('G','B','1','4'), LOW14, 1, 1, "GB/RG")
FV(SGRBG14, CC('G','R','1','4'), LOW14, 1, 1, "GR/BG")
FV(SRGGB16, CC('R','G','1','6'), U16, 1, 1, "RG/GB")
FV(SBGGR16, CC('B','Y','R','2'), U16, 1, 1, "BG/GR")
FV(SGBRG16, CC('G','B','1','6'), U16, 1, 1, "GB/RG")
FV(SGRBG16, CC('G','R','1','6'), U16, 1, 1, "GR/BG")
FV(SRGGB10ALAW8, CC('a','R','A','8'), U8, 1, 1, "RG/GB")
FV(SBGGR10ALAW8, CC('a','B','A','8'), U8, 1, 1, "BG/GR")
FV(SGBRG10ALAW8, CC('a','G','A','8'), U8, 1, 1, "GB/RG")
FV(SGRBG10ALAW8, CC('a','g','A','8'), U8, 1, 1, "GR/BG")

/*
 * The formats from here on are refused, with a reason. Pixels that are whole words, of bit
 * fields.
 */
R(RGB332, CC('R','G','B','8'), RGB332, CC('R','G','B','1'), U8, 1, 1, "W", BITS)
RD(BGR233, CC('B','G','R','8'), U8, 1, 1, "W", BITS)
RV(UV8, CC('U','V','8',' '), U8, 1, 1, "W", BITS)
R(XRGB4444, CC('X','R','1','2'), XRGB444, CC('X','R','1','2'), U16, 1, 1, "W", BITS)
R(XBGR4444, CC('X','B','1','2'), XBGR444, CC('X','B','1','2'), U16, 1, 1, "W", BITS)
R(RGBX4444, CC('R','X','1','2'), RGBX444, CC('R','X','1','2'), U16, 1, 1, "W", BITS)
R(BGRX4444, CC('B','X','1','2'), BGRX444, CC('B','X','1','2'), U16, 1, 1, "W", BITS)
R(ARGB4444, CC('A','R','1','2'), ARGB444, CC('A','R','1','2'), U16, 1, 1, "W", BITS)
R(ABGR4444, CC('A','B','1','2'), ABGR444, CC('A','B','1','2'), U16, 1, 1, "W", BITS)
R(RGBA4444, CC('R','A','1','2'), RGBA444, CC('R','A','1','2'), U16, 1, 1, "W", BITS)
R(BGRA4444, CC('B','A','1','2'), BGRA444, CC('G','A','1','2'), U16, 1, 1, "W", BITS)
RV(RGB444, CC('R','4','4','4'), U16, 1, 1, "W", BITS)
R(XRGB1555, CC('X','R','1','5'), XRGB555, CC('X','R','1','5'), U16, 1, 1, "W", BITS)
R(XBGR1555, CC('X','B','1','5'), XBGR555, CC('X','B','1','5'), U16, 1, 1, "W", BITS)
R(RGBX5551, CC('R','X','1','5'), RGBX555, CC('R','X','1','5'), U16, 1, 1, "W", BITS)
R(BGRX5551, CC('B','X','1','5'), BGRX555, CC('B','X','1','5'), U16, 1, 1, "W", BITS)
R(ARGB1555, CC('A','R','1','5'), ARGB555, CC('A','R','1','5'), U16, 1, 1, "W", BITS)
R(ABGR1555, CC('A','B','1','5'), ABGR555, CC('A','B','1','5'), U16, 1, 1, "W", BITS)
R(RGBA5551, CC('R','A','1','5'), RGBA555, CC('R','A','1','5'), U16, 1, 1, "W", BITS)
R(BGRA5551, CC('B','A','1','5'), BGRA555, CC('B','A','1','5'), U16, 1, 1, "W", BITS)
RV(RGB555, CC('R','G','B','O'), U16, 1, 1, "W", BITS)
R(RGB565, CC('R','G','1','6'), RGB565, CC('R','G','B','P'), U16, 1, 1, "W", BITS)
RD(BGR565, CC('B','G','1','6'), U16, 1, 1, "W", BITS)
RV(YUV444, CC('Y','4','4','4'), U16, 1, 1, "W", BITS)
RV(YUV555, CC('Y','U','V','O'), U16, 1, 1, "W", BITS)
RV(YUV565, CC('Y','U','V','P'), U16, 1, 1, "W", BITS)
RV(BGR666, CC('B','G','R','H'), U32, 1, 1, "W", BITS)
RD(XRGB2101010, CC('X','R','3','0'), U32, 1, 1, "W", BITS)
RD(XBGR2101010, CC('X','B','3','0'), U32, 1, 1, "W", BITS)
R(RGBX1010102, CC('R','X','3','0'), RGBX1010102, CC('R','X','3','0'), U32, 1, 1, "W", BITS)
RD(BGRX1010102, CC('B','X','3','0'), U32, 1, 1, "W", BITS)
R(ARGB2101010, CC('A','R','3','0'), ARGB2101010, CC('A','R','3','0'), U32, 1, 1, "W", BITS)
RD(ABGR2101010, CC('A','B','3','0'), U32, 1, 1, "W", BITS)
R(RGBA1010102, CC('R','A','3','0'), RGBA1010102, CC('R','A','3','0'), U32, 1, 1, "W", BITS)
RD(BGRA1010102, CC('B','A','3','0'), U32, 1, 1, "W", BITS)
RD(XVUY2101010, CC('X','Y','3','0'), U32, 1, 1, "W", BITS)
RD(Y410, CC('Y','4','1','0'), U32, 1, 1, "W", BITS)
RD(XVYU2101010, CC('X','V','3','0'), U32, 1, 1, "W", BITS)
RD(RGB565_A8, CC('R','5','A','8'), U8, 1, 1, "W,A", BITS)
RD(BGR565_A8, CC('B','5','A','8'), U8, 1, 1, "W,A", BITS)

/* Pixels that share bytes. */
RD(XYYY2101010, CC('Y','P','A','4'), U8, 1, 1, "B", PACKED)
RD(C1, CC('C','1',' ',' '), U8, 1, 1, "B", PACKED)
RD(C2, CC('C','2',' ',' '), U8, 1, 1, "B", PACKED)
RD(C4, CC('C','4',' ',' '), U8, 1, 1, "B", PACKED)
RD(D1, CC('D','1',' ',' '), U8, 1, 1, "B", PACKED)
RD(D2, CC('D','2',' ',' '), U8, 1, 1, "B", PACKED)
RD(D4, CC('D','4',' ',' '), U8, 1, 1, "B", PACKED)
RD(R1, CC('R','1',' ',' '), U8, 1, 1, "B", PACKED)
RD(R2, CC('R','2',' ',' '), U8, 1, 1, "B", PACKED)
RD(R4, CC('R','4',' ',' '), U8, 1, 1, "B", PACKED)
R(NV15, CC('N','V','1','5'), NV15, CC('N','V','1','5'), U8, 2, 2, "B,BB", PACKED)
R(NV20, CC('N','V','2','0'), NV20, CC('N','V','2','0'), U8, 2, 1, "B,BB", PACKED)
RD(NV30, CC('N','V','3','0'), U8, 1, 1, "B,BB", PACKED)
RD(P030, CC('P','0','3','0'), U8, 2, 2, "B,BB", PACKED)
RD(P230, CC('P','2','3','0'), U8, 2, 1, "B,BB", PACKED)
RD(T430, CC('T','4','3','0'), U8, 1, 1, "B,B,B", PACKED)
RV(Y10BPACK, CC('Y','1','0','B'), U8, 1, 1, "B", PACKED)
RV(Y10P, CC('Y','1','0','P'), U8, 1, 1, "B", PACKED)
RV(Y12P, CC('Y','1','2','P'), U8, 1, 1, "B", PACKED)
RV(Y14P, CC('Y','1','4','P'), U8, 1, 1, "B", PACKED)
RV(Y12I, CC('Y','1','2','I'), U8, 1, 1, "B", PACKED)
RV(CNF4, CC('C','N','F','4'), U8, 1, 1, "B", PACKED)
RV(SRGGB10P, CC('p','R','A','A'), U8, 1, 1, "B", PACKED)
RV(SBGGR10P, CC('p','B','A','A'), U8, 1, 1, "B", PACKED)
RV(SGBRG10P, CC('p','G','A','A'), U8, 1, 1, "B", PACKED)
RV(SGRBG10P, CC('p','g','A','A'), U8, 1, 1, "B", PACKED)
RV(SRGGB12P, CC('p','R','C','C'), U8, 1, 1, "B", PACKED)
RV(SBGGR12P, CC('p','B','C','C'), U8, 1, 1, "B", PACKED)
RV(SGBRG12P, CC('p','G','C','C'), U8, 1, 1, "B", PACKED)
RV(SGRBG12P, CC('p','g','C','C'), U8, 1, 1, "B", PACKED)
RV(SRGGB14P, CC('p','R','E','E'), U8, 1, 1, "B", PACKED)
RV(SBGGR14P, CC('p','B','E','E'), U8, 1, 1, "B", PACKED)
RV(SGBRG14P, CC('p','G','E','E'), U8, 1, 1, "B", PACKED)
RV(SGRBG14P, CC('p','g','E','E'), U8, 1, 1, "B", PACKED)
RV(IPU3_Y10, CC('i','p','3','y'), U8, 1, 1, "B", PACKED)
RV(IPU3_SRGGB10, CC('i','p','3','r'), U8, 1, 1, "B", PACKED)
RV(IPU3_SBGGR10, CC('i','p','3','b'), U8, 1, 1, "B", PACKED)
RV(IPU3_SGBRG10, CC('i','p','3','g'), U8, 1, 1, "B", PACKED)
RV(IPU3_SGRBG10, CC('i','p','3','G'), U8, 1, 1, "B", PACKED)
RV(RAW_CRU10, CC('C','R','1','0'), U8, 1, 1, "B", PACKED)
RV(RAW_CRU12, CC('C','R','1','2'), U8, 1, 1, "B", PACKED)
RV(RAW_CRU14, CC('C','R','1','4'), U8, 1, 1, "B", PACKED)
RV(RAW_CRU20, CC('C','R','2','0'), U8, 1, 1, "B", PACKED)

RV(MJPEG, CC('M','J','P','G'), U8, 1, 1, "B", COMPRESSED)

#ifdef CONFIG_FORMATS_ALL
/* The other byte order. */
RV(RGB555X, CC('R','G','B','Q'), U8, 1, 1, "B", ENDIAN)
RV(ARGB555X, BE('A','R','1','5'), U8, 1, 1, "B", ENDIAN)
RV(XRGB555X, BE('X','R','1','5'), U8, 1, 1, "B", ENDIAN)
RV(RGB565X, CC('R','G','B','R'), U8, 1, 1, "B", ENDIAN)
RV(Y16_BE, BE('Y','1','6',' '), U8, 1, 1, "B", ENDIAN)

/* Lines of luma and lines of chroma in turn. */
RV(M420, CC('M','4','2','0'), U8, 1, 1, "B", LINES)
RV(CIT_YYVYUY, CC('C','I','T','V'), U8, 1, 1, "B", LINES)
RV(SPCA501, CC('S','5','0','1'), U8, 1, 1, "B", LINES)
RV(SPCA505, CC('S','5','0','5'), U8, 1, 1, "B", LINES)
RV(SPCA508, CC('S','5','0','8'), U8, 1, 1, "B", LINES)

/* V4L2 defines only their names. */
RV(Y4, CC('Y','0','4',' '), U8, 1, 1, "B", UNDOCUMENTED)
RV(Y6, CC('Y','0','6',' '), U8, 1, 1, "B", UNDOCUMENTED)

/* Blocks of pixels. */
RD(VUY101010, CC('V','U','3','0'), U8, 1, 1, "B", TILED)
RD(YUV420_8BIT, CC('Y','U','0','8'), U8, 1, 1, "B", TILED)
RD(YUV420_10BIT, CC('Y','U','1','0'), U8, 1, 1, "B", TILED)
RD(Y0L0, CC('Y','0','L','0'), U8, 1, 1, "B", TILED)
RD(X0L0, CC('X','0','L','0'), U8, 1, 1, "B", TILED)
RD(Y0L2, CC('Y','0','L','2'), U8, 1, 1, "B", TILED)
RD(X0L2, CC('X','0','L','2'), U8, 1, 1, "B", TILED)
RV(NV12_4L4, CC('V','T','1','2'), U8, 2, 2, "B,BB", TILED)
RV(NV12_16L16, CC('H','M','1','2'), U8, 2, 2, "B,BB", TILED)
RV(NV12_32L32, CC('S','T','1','2'), U8, 2, 2, "B,BB", TILED)
RV(NV15_4L4, CC('V','T','1','5'), U8, 2, 2, "B,BB", TILED)
RV(P010_4L4, CC('T','0','1','0'), U8, 2, 2, "B,BB", TILED)
RV(NV12_8L128, CC('A','T','1','2'), U8, 2, 2, "B,BB", TILED)
RV(NV12_10BE_8L128, BE('A','X','1','2'), U8, 2, 2, "B,BB", TILED)
RV(NV12MT, CC('T','M','1','2'), U8, 2, 2, "B,BB", TILED)
RV(MM21, CC('M','M','2','1'), U8, 2, 2, "B,BB", TILED)
RV(MT2110T, CC('M','T','2','T'), U8, 2, 2, "B,BB", TILED)
RV(MT2110R, CC('M','T','2','R'), U8, 2, 2, "B,BB", TILED)
RV(KONICA420, CC('K','O','N','I'), U8, 1, 1, "B", TILED)

/* Coded pictures. */
RV(JPEG, CC('J','P','E','G'), U8, 1, 1, "B", COMPRESSED)
RV(DV, CC('d','v','s','d'), U8, 1, 1, "B", COMPRESSED)
RV(MPEG, CC('M','P','E','G'), U8, 1, 1, "B", COMPRESSED)
RV(H264, CC('H','2','6','4'), U8, 1, 1, "B", COMPRESSED)
RV(H264_NO_SC, CC('A','V','C','1'), U8, 1, 1, "B", COMPRESSED)
RV(H264_MVC, CC('M','2','6','4'), U8, 1, 1, "B", COMPRESSED)
RV(H264_SLICE, CC('S','2','6','4'), U8, 1, 1, "B", COMPRESSED)
RV(H263, CC('H','2','6','3'), U8, 1, 1, "B", COMPRESSED)
RV(MPEG1, CC('M','P','G','1'), U8, 1, 1, "B", COMPRESSED)
RV(MPEG2, CC('M','P','G','2'), U8, 1, 1, "B", COMPRESSED)
RV(MPEG2_SLICE, CC('M','G','2','S'), U8, 1, 1, "B", COMPRESSED)
RV(MPEG4, CC('M','P','G','4'), U8, 1, 1, "B", COMPRESSED)
RV(XVID, CC('X','V','I','D'), U8, 1, 1, "B", COMPRESSED)
RV(VC1_ANNEX_G, CC('V','C','1','G'), U8, 1, 1, "B", COMPRESSED)
RV(VC1_ANNEX_L, CC('V','C','1','L'), U8, 1, 1, "B", COMPRESSED)
RV(VP8, CC('V','P','8','0'), U8, 1, 1, "B", COMPRESSED)
RV(VP8_FRAME, CC('V','P','8','F'), U8, 1, 1, "B", COMPRESSED)
RV(VP9, CC('V','P','9','0'), U8, 1, 1, "B", COMPRESSED)
RV(VP9_FRAME, CC('V','P','9','F'), U8, 1, 1, "B", COMPRESSED)
RV(HEVC, CC('H','E','V','C'), U8, 1, 1, "B", COMPRESSED)
RV(HEVC_SLICE, CC('S','2','6','5'), U8, 1, 1, "B", COMPRESSED)
RV(AV1, CC('A','V','0','1'), U8, 1, 1, "B", COMPRESSED)
RV(AV1_FRAME, CC('A','V','1','F'), U8, 1, 1, "B", COMPRESSED)
RV(FWHT, CC('F','W','H','T'), U8, 1, 1, "B", COMPRESSED)
RV(FWHT_STATELESS, CC('S','F','W','H'), U8, 1, 1, "B", COMPRESSED)
RV(SPK, CC('S','P','K','0'), U8, 1, 1, "B", COMPRESSED)
RV(RV30, CC('R','V','3','0'), U8, 1, 1, "B", COMPRESSED)
RV(RV40, CC('R','V','4','0'), U8, 1, 1, "B", COMPRESSED)
RV(PJPG, CC('P','J','P','G'), U8, 1, 1, "B", COMPRESSED)
RV(JPGL, CC('J','P','G','L'), U8, 1, 1, "B", COMPRESSED)
RV(AJPG, CC('A','J','P','G'), U8, 1, 1, "B", COMPRESSED)
RV(OV511, CC('O','5','1','1'), U8, 1, 1, "B", COMPRESSED)
RV(OV518, CC('O','5','1','8'), U8, 1, 1, "B", COMPRESSED)
RV(S5C_UYVY_JPG, CC('S','5','C','I'), U8, 1, 1, "B", COMPRESSED)
RV(HEXTILE, CC('H','X','T','L'), U8, 1, 1, "B", COMPRESSED)
RV(QC08C, CC('Q','0','8','C'), U8, 1, 1, "B", COMPRESSED)
RV(QC10C, CC('Q','1','0','C'), U8, 1, 1, "B", COMPRESSED)
RV(MT21C, CC('M','T','2','1'), U8, 2, 2, "B,BB", COMPRESSED)
RV(SRGGB10DPCM8, CC('b','R','A','8'), U8, 1, 1, "B", COMPRESSED)
RV(SBGGR10DPCM8, CC('b','B','A','8'), U8, 1, 1, "B", COMPRESSED)
RV(SGBRG10DPCM8, CC('b','G','A','8'), U8, 1, 1, "B", COMPRESSED)
RV(SGRBG10DPCM8, CC('B','D','1','0'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP1_RGGB, CC('P','C','1','R'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP1_GRBG, CC('P','C','1','G'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP1_GBRG, CC('P','C','1','g'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP1_BGGR, CC('P','C','1','B'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP1_MONO, CC('P','C','1','M'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP2_RGGB, CC('P','C','2','R'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP2_GRBG, CC('P','C','2','G'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP2_GBRG, CC('P','C','2','g'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP2_BGGR, CC('P','C','2','B'), U8, 1, 1, "B", COMPRESSED)
RV(PISP_COMP2_MONO, CC('P','C','2','M'), U8, 1, 1, "B", COMPRESSED)
RV(SN9C10X, CC('S','9','1','0'), U8, 1, 1, "B", COMPRESSED)
RV(PWC1, CC('P','W','C','1'), U8, 1, 1, "B", COMPRESSED)
RV(PWC2, CC('P','W','C','2'), U8, 1, 1, "B", COMPRESSED)
RV(ET61X251, CC('E','6','2','5'), U8, 1, 1, "B", COMPRESSED)
RV(SPCA561, CC('S','5','6','1'), U8, 1, 1, "B", COMPRESSED)
RV(PAC207, CC('P','2','0','7'), U8, 1, 1, "B", COMPRESSED)
RV(MR97310A, CC('M','3','1','0'), U8, 1, 1, "B", COMPRESSED)
RV(JL2005BCD, CC('J','L','2','0'), U8, 1, 1, "B", COMPRESSED)
RV(SN9C2028, CC('S','O','N','X'), U8, 1, 1, "B", COMPRESSED)
RV(SQ905C, CC('9','0','5','C'), U8, 1, 1, "B", COMPRESSED)
RV(SE401, CC('S','4','0','1'), U8, 1, 1, "B", COMPRESSED)

/* Formats of one camera's chip, which only its driver knows. */
RV(CPIA1, CC('C','P','I','A'), U8, 1, 1, "B", VENDOR)
RV(WNVA, CC('W','N','V','A'), U8, 1, 1, "B", VENDOR)
RV(SN9C20X_I420, CC('S','9','2','0'), U8, 1, 1, "B", VENDOR)
RV(STV0680, CC('S','6','8','0'), U8, 1, 1, "B", VENDOR)
RV(TM6000, CC('T','M','6','0'), U8, 1, 1, "B", VENDOR)

/* No pictures. */
RV(CU8, CC('C','U','0','8'), U8, 1, 1, "B", RADIO)
RV(CU16LE, CC('C','U','1','6'), U8, 1, 1, "B", RADIO)
RV(CS8, CC('C','S','0','8'), U8, 1, 1, "B", RADIO)
RV(CS14LE, CC('C','S','1','4'), U8, 1, 1, "B", RADIO)
RV(RU12LE, CC('R','U','1','2'), U8, 1, 1, "B", RADIO)
RV(PCU16BE, CC('P','C','1','6'), U8, 1, 1, "B", RADIO)
RV(PCU18BE, CC('P','C','1','8'), U8, 1, 1, "B", RADIO)
RV(PCU20BE, CC('P','C','2','0'), U8, 1, 1, "B", RADIO)
RV(VSP1_HGO, CC('V','S','P','H'), U8, 1, 1, "B", METADATA)
RV(VSP1_HGT, CC('V','S','P','T'), U8, 1, 1, "B", METADATA)
RV(UVC, CC('U','V','C','H'), U8, 1, 1, "B", METADATA)
RV(UVC_MSXU_1_5, CC('U','V','C','M'), U8, 1, 1, "B", METADATA)
RV(D4XX, CC('D','4','X','X'), U8, 1, 1, "B", METADATA)
RV(VIVID, CC('V','I','V','D'), U8, 1, 1, "B", METADATA)
RV(RK_ISP1_PARAMS, CC('R','K','1','P'), U8, 1, 1, "B", METADATA)
RV(RK_ISP1_STAT_3A, CC('R','K','1','S'), U8, 1, 1, "B", METADATA)
RV(RK_ISP1_EXT_PARAMS, CC('R','K','1','E'), U8, 1, 1, "B", METADATA)
RV(C3ISP_PARAMS, CC('C','3','P','M'), U8, 1, 1, "B", METADATA)
RV(C3ISP_STATS, CC('C','3','S','T'), U8, 1, 1, "B", METADATA)
RV(RPI_BE_CFG, CC('R','P','B','C'), U8, 1, 1, "B", METADATA)
RV(RPI_FE_CFG, CC('R','P','F','C'), U8, 1, 1, "B", METADATA)
RV(RPI_FE_STATS, CC('R','P','F','S'), U8, 1, 1, "B", METADATA)
RV(MALI_C55_PARAMS, CC('C','5','5','P'), U8, 1, 1, "B", METADATA)
RV(MALI_C55_STATS, CC('C','5','5','S'), U8, 1, 1, "B", METADATA)
#endif

/*
 * The bit fields, as both headers have them.
 */
W(RGB332, "RGB", 3, 3, 2) W(BGR233, "BGR", 2, 3, 3)
W(XRGB4444, "XRGB", 4, 4, 4, 4) W(XBGR4444, "XBGR", 4, 4, 4, 4)
W(RGBX4444, "RGBX", 4, 4, 4, 4) W(BGRX4444, "BGRX", 4, 4, 4, 4)
W(ARGB4444, "ARGB", 4, 4, 4, 4) W(ABGR4444, "ABGR", 4, 4, 4, 4)
W(RGBA4444, "RGBA", 4, 4, 4, 4) W(BGRA4444, "BGRA", 4, 4, 4, 4)
W(V4L2_RGB444, "XRGB", 4, 4, 4, 4) W(V4L2_YUV444, "AYUV", 4, 4, 4, 4)
W(XRGB1555, "XRGB", 1, 5, 5, 5) W(XBGR1555, "XBGR", 1, 5, 5, 5)
W(RGBX5551, "RGBX", 5, 5, 5, 1) W(BGRX5551, "BGRX", 5, 5, 5, 1)
W(ARGB1555, "ARGB", 1, 5, 5, 5) W(ABGR1555, "ABGR", 1, 5, 5, 5)
W(RGBA5551, "RGBA", 5, 5, 5, 1) W(BGRA5551, "BGRA", 5, 5, 5, 1)
W(V4L2_RGB555, "XRGB", 1, 5, 5, 5) W(V4L2_YUV555, "AYUV", 1, 5, 5, 5)
W(RGB565, "RGB", 5, 6, 5) W(BGR565, "BGR", 5, 6, 5) W(V4L2_YUV565, "YUV", 5, 6, 5)
W(RGB565_A8, "RGB", 5, 6, 5) W(BGR565_A8, "BGR", 5, 6, 5)
W(XRGB2101010, "XRGB", 2, 10, 10, 10) W(XBGR2101010, "XBGR", 2, 10, 10, 10)
W(RGBX1010102, "RGBX", 10, 10, 10, 2) W(BGRX1010102, "BGRX", 10, 10, 10, 2)
W(ARGB2101010, "ARGB", 2, 10, 10, 10) W(ABGR2101010, "ABGR", 2, 10, 10, 10)
W(RGBA1010102, "RGBA", 10, 10, 10, 2) W(BGRA1010102, "BGRA", 10, 10, 10, 2)
W(XVUY2101010, "XVUY", 2, 10, 10, 10) W(XVYU2101010, "XVYU", 2, 10, 10, 10)
W(Y410, "AVYU", 2, 10, 10, 10)
WS(V4L2_BGR666, "BGRX", 6, 6, 6, 14)
#ifdef CONFIG_FORMATS_ALL
WS(V4L2_RGB555X, "XRGB", 1, 5, 5, 5) WS(V4L2_XRGB555X, "XRGB", 1, 5, 5, 5)
WS(V4L2_ARGB555X, "ARGB", 1, 5, 5, 5) WS(V4L2_RGB565X, "RGB", 5, 6, 5)
WS(V4L2_Y16_BE, "Y", 16)
#endif

/* Samples of MIPI CSI-2 that share bytes. */
P(V4L2_Y10P, "Y", 10) P(V4L2_Y12P, "Y", 12) P(V4L2_Y14P, "Y", 14)
P(V4L2_SRGGB10P, "RG/GB", 10) P(V4L2_SBGGR10P, "BG/GR", 10)
P(V4L2_SGBRG10P, "GB/RG", 10) P(V4L2_SGRBG10P, "GR/BG", 10)
P(V4L2_SRGGB12P, "RG/GB", 12) P(V4L2_SBGGR12P, "BG/GR", 12)
P(V4L2_SGBRG12P, "GB/RG", 12) P(V4L2_SGRBG12P, "GR/BG", 12)
P(V4L2_SRGGB14P, "RG/GB", 14) P(V4L2_SBGGR14P, "BG/GR", 14)
P(V4L2_SGBRG14P, "GB/RG", 14) P(V4L2_SGRBG14P, "GR/BG", 14)

/* V4L2's codes for planes in buffers of their own. */
M(NV12M, CC('N','M','1','2'), NV12)
M(YUV420M, CC('Y','M','1','2'), YUV420)
M(NV21M, CC('N','M','2','1'), NV21)
M(NV16M, CC('N','M','1','6'), NV16)
M(NV61M, CC('N','M','6','1'), NV61)
M(P012M, CC('P','M','1','2'), P012)
M(YVU420M, CC('Y','M','2','1'), YVU420)
M(YUV422M, CC('Y','M','1','6'), YUV422)
M(YVU422M, CC('Y','M','6','1'), YVU422)
M(YUV444M, CC('Y','M','2','4'), YUV444)
M(YVU444M, CC('Y','M','4','2'), YVU444)
#ifdef CONFIG_FORMATS_ALL
M(NV12MT_16X16, CC('V','M','1','2'), V4L2_NV12_16L16)
M(NV12M_8L128, CC('N','A','1','2'), V4L2_NV12_8L128)
M(NV12M_10BE_8L128, BE('N','T','1','2'), V4L2_NV12_10BE_8L128)
#endif

/* libcamera's own codes; all others are DRM's. */
L(MJPEG, CC('M','J','P','G'), 0, V4L2_MJPEG)
L(SRGGB8, CC('R','G','G','B'), 0, V4L2_SRGGB8)
L(SGRBG8, CC('G','R','B','G'), 0, V4L2_SGRBG8)
L(SGBRG8, CC('G','B','R','G'), 0, V4L2_SGBRG8)
L(SBGGR8, CC('B','A','8','1'), 0, V4L2_SBGGR8)
L(SRGGB10, CC('R','G','1','0'), 0, V4L2_SRGGB10)
L(SGRBG10, CC('B','A','1','0'), 0, V4L2_SGRBG10)
L(SGBRG10, CC('G','B','1','0'), 0, V4L2_SGBRG10)
L(SBGGR10, CC('B','G','1','0'), 0, V4L2_SBGGR10)
L(SRGGB12, CC('R','G','1','2'), 0, V4L2_SRGGB12)
L(SGRBG12, CC('B','A','1','2'), 0, V4L2_SGRBG12)
L(SGBRG12, CC('G','B','1','2'), 0, V4L2_SGBRG12)
L(SBGGR12, CC('B','G','1','2'), 0, V4L2_SBGGR12)
L(SRGGB14, CC('R','G','1','4'), 0, V4L2_SRGGB14)
L(SGRBG14, CC('B','A','1','4'), 0, V4L2_SGRBG14)
L(SGBRG14, CC('G','B','1','4'), 0, V4L2_SGBRG14)
L(SBGGR14, CC('B','G','1','4'), 0, V4L2_SBGGR14)
L(SRGGB16, CC('R','G','B','6'), 0, V4L2_SRGGB16)
L(SGRBG16, CC('G','R','1','6'), 0, V4L2_SGRBG16)
L(SGBRG16, CC('G','B','1','6'), 0, V4L2_SGBRG16)
L(SBGGR16, CC('B','Y','R','2'), 0, V4L2_SBGGR16)
L(R10_CSI2P, CC('R','1','0',' '), CSI2_PACKED, V4L2_Y10P)
L(R12_CSI2P, CC('R','1','2',' '), CSI2_PACKED, V4L2_Y12P)
L(SRGGB10_CSI2P, CC('R','G','1','0'), CSI2_PACKED, V4L2_SRGGB10P)
L(SGRBG10_CSI2P, CC('B','A','1','0'), CSI2_PACKED, V4L2_SGRBG10P)
L(SGBRG10_CSI2P, CC('G','B','1','0'), CSI2_PACKED, V4L2_SGBRG10P)
L(SBGGR10_CSI2P, CC('B','G','1','0'), CSI2_PACKED, V4L2_SBGGR10P)
L(SRGGB12_CSI2P, CC('R','G','1','2'), CSI2_PACKED, V4L2_SRGGB12P)
L(SGRBG12_CSI2P, CC('B','A','1','2'), CSI2_PACKED, V4L2_SGRBG12P)
L(SGBRG12_CSI2P, CC('G','B','1','2'), CSI2_PACKED, V4L2_SGBRG12P)
L(SBGGR12_CSI2P, CC('B','G','1','2'), CSI2_PACKED, V4L2_SBGGR12P)
L(SRGGB14_CSI2P, CC('R','G','1','4'), CSI2_PACKED, V4L2_SRGGB14P)
L(SGRBG14_CSI2P, CC('B','A','1','4'), CSI2_PACKED, V4L2_SGRBG14P)
L(SGBRG14_CSI2P, CC('G','B','1','4'), CSI2_PACKED, V4L2_SGBRG14P)
L(SBGGR14_CSI2P, CC('B','G','1','4'), CSI2_PACKED, V4L2_SBGGR14P)
L(SRGGB10_IPU3, CC('R','G','1','0'), IPU3_PACKED, V4L2_IPU3_SRGGB10)
L(SGRBG10_IPU3, CC('B','A','1','0'), IPU3_PACKED, V4L2_IPU3_SGRBG10)
L(SGBRG10_IPU3, CC('G','B','1','0'), IPU3_PACKED, V4L2_IPU3_SGBRG10)
L(SBGGR10_IPU3, CC('B','G','1','0'), IPU3_PACKED, V4L2_IPU3_SBGGR10)
#ifdef CONFIG_FORMATS_ALL
L(RGGB_PISP_COMP1, CC('R','G','B','6'), PISP_COMP1, V4L2_PISP_COMP1_RGGB)
L(GRBG_PISP_COMP1, CC('G','R','1','6'), PISP_COMP1, V4L2_PISP_COMP1_GRBG)
L(GBRG_PISP_COMP1, CC('G','B','1','6'), PISP_COMP1, V4L2_PISP_COMP1_GBRG)
L(BGGR_PISP_COMP1, CC('B','Y','R','2'), PISP_COMP1, V4L2_PISP_COMP1_BGGR)
L(MONO_PISP_COMP1, CC('R','1','6',' '), PISP_COMP1, V4L2_PISP_COMP1_MONO)
#endif

#ifdef CONFIG_FORMATS_ALL
/*
 * GStreamer's names, names that only PipeWire has, and those of video/x-bayer. Names such
 * as RGB give the order of the bytes; names of words of bit fields begin with the highest
 * bit.
 */
G("NV12", NV12) G("NV21", NV21) G("NV16", NV16) G("NV61", NV61) G("NV24", NV24)
G("P010_10LE", P010) G("P012_LE", P012) G("P016_LE", P016) G("NV12_10LE40", NV15)
G("I420", YUV420) G("YV12", YVU420) G("Y41B", YUV411) G("Y42B", YUV422) G("Y444", YUV444)
G("YUV9", YUV410) G("YVU9", YVU410) G("I420_10LE", S010) G("I422_10LE", S210)
G("Y444_10LE", S410) G("I420_12LE", S012) G("I422_12LE", S212) G("Y444_12LE", S412)
G("Y444_16LE", S416) G("YUY2", YUYV) G("YVYU", YVYU) G("UYVY", UYVY) G("VYUY", VYUY)
G("Y210", Y210) G("Y212_LE", Y212) G("Y410", Y410) G("Y412_LE", Y412) G("Y216_LE", Y216)
G("Y416_LE", Y416) G("VUYA", AYUV) G("v308", VUY888) G("RGB", BGR888) G("BGR", RGB888)
G("BGRx", XRGB8888) G("RGBx", XBGR8888) G("xRGB", BGRX8888) G("xBGR", RGBX8888)
G("BGRA", ARGB8888) G("RGBA", ABGR8888) G("ARGB", BGRA8888) G("ABGR", RGBA8888)
G("RGBA64_LE", ABGR16161616) G("BGRA64_LE", ARGB16161616) G("BGR10A2_LE", ARGB2101010)
G("RGB10A2_LE", ABGR2101010) G("RGB16", RGB565) G("BGR16", BGR565) G("RGB15", XRGB1555)
G("BGR15", XBGR1555) G("GRAY8", Y8) G("GRAY16_LE", R16) G("GRAY10_LE16", R10)
G("AYUV", V4L2_AYUV32) G("RGBA_F16", ABGR16161616F) G("RGBA_F32", ABGR32323232F)
G("xRGB_210LE", XRGB2101010) G("xBGR_210LE", XBGR2101010) G("RGBx_102LE", RGBX1010102)
G("BGRx_102LE", BGRX1010102) G("ARGB_210LE", ARGB2101010) G("ABGR_210LE", ABGR2101010)
G("RGBA_102LE", RGBA1010102) G("BGRA_102LE", BGRA1010102) G("bggr", V4L2_SBGGR8)
G("bggr10le", V4L2_SBGGR10) G("bggr12le", V4L2_SBGGR12) G("bggr14le", V4L2_SBGGR14)
G("bggr16le", V4L2_SBGGR16) G("gbrg", V4L2_SGBRG8) G("gbrg10le", V4L2_SGBRG10)
G("gbrg12le", V4L2_SGBRG12) G("gbrg14le", V4L2_SGBRG14) G("gbrg16le", V4L2_SGBRG16)
G("grbg", V4L2_SGRBG8) G("grbg10le", V4L2_SGRBG10) G("grbg12le", V4L2_SGRBG12)
G("grbg14le", V4L2_SGRBG14) G("grbg16le", V4L2_SGRBG16) G("rggb", V4L2_SRGGB8)
G("rggb10le", V4L2_SRGGB10) G("rggb12le", V4L2_SRGGB12) G("rggb14le", V4L2_SRGGB14)
G("rggb16le", V4L2_SRGGB16)

/* FFmpeg's names, in the same order. */
A("nv12", NV12) A("nv21", NV21) A("nv16", NV16) A("nv24", NV24) A("nv42", NV42)
A("p010le", P010) A("p012le", P012) A("p016le", P016) A("p210le", P210) A("yuv420p", YUV420)
A("yuvj420p", YUV420) A("yuv422p", YUV422) A("yuvj422p", YUV422) A("yuv444p", YUV444)
A("yuvj444p", YUV444) A("yuv411p", YUV411) A("yuvj411p", YUV411) A("yuv410p", YUV410)
A("yuv420p10le", S010) A("yuv422p10le", S210) A("yuv444p10le", S410) A("yuv420p12le", S012)
A("yuv422p12le", S212) A("yuv444p12le", S412) A("yuv420p16le", S016) A("yuv422p16le", S216)
A("yuv444p16le", S416) A("yuyv422", YUYV) A("uyvy422", UYVY) A("yvyu422", YVYU)
A("y210le", Y210) A("y212le", Y212) A("vuya", AYUV) A("vuyx", XYUV8888) A("ayuv", V4L2_AYUV32)
A("xv30le", XVYU2101010) A("xv36le", XVYU12_16161616) A("rgb24", BGR888) A("bgr24", RGB888)
A("rgba", ABGR8888) A("bgra", ARGB8888) A("argb", BGRA8888) A("abgr", RGBA8888)
A("rgb0", XBGR8888) A("bgr0", XRGB8888) A("0rgb", BGRX8888) A("0bgr", RGBX8888)
A("rgb565le", RGB565) A("bgr565le", BGR565) A("rgb555le", XRGB1555) A("bgr555le", XBGR1555)
A("rgb444le", XRGB4444) A("bgr444le", XBGR4444) A("x2rgb10le", XRGB2101010)
A("x2bgr10le", XBGR2101010) A("rgb48le", BGR161616) A("bgr48le", RGB161616)
A("rgba64le", ABGR16161616) A("bgra64le", ARGB16161616) A("rgbaf16le", ABGR16161616F)
A("gray", Y8) A("gray10le", R10) A("gray12le", R12) A("gray14le", V4L2_Y14) A("gray16le", R16)
A("bayer_bggr8", V4L2_SBGGR8) A("bayer_gbrg8", V4L2_SGBRG8) A("bayer_grbg8", V4L2_SGRBG8)
A("bayer_rggb8", V4L2_SRGGB8) A("bayer_bggr16le", V4L2_SBGGR16)
A("bayer_gbrg16le", V4L2_SGBRG16) A("bayer_grbg16le", V4L2_SGRBG16)
A("bayer_rggb16le", V4L2_SRGGB16)
#endif

#undef F
#undef FD
#undef FV
#undef R
#undef RD
#undef RV
#undef W
#undef WS
#undef P
#undef M
#undef L
#undef G
#undef A
