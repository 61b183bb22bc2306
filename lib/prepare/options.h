/* SPDX-License-Identifier: MIT */
/*
 * One table of the numbers in struct dlbuf_prepare_opts: plan.c checks them by it, Python fills
 * them in by it. Error texts name an option as the table does. The names suit every caller:
 * GStreamer's properties only have '-' in place of '_'.
 */
#ifndef DLBUF_LIB_PREPARE_OPTIONS_H
#define DLBUF_LIB_PREPARE_OPTIONS_H

/* Enums are PREPARE_I32. */
enum prepare_kind { PREPARE_DOUBLE, PREPARE_I32, PREPARE_U32, PREPARE_U64 };

/* The shortest side of a crop, in pixels, and the smallest part. */
#define PREPARE_MIN_SIDE (1 / 1024.)
/* A divisor is 0 (not given), or large enough that the quotient is finite. */
#define PREPARE_MIN_DIVISOR 1e-9
#define PREPARE_MOST 1e9

/* X(field, name, kind, count of numbers, lowest value, highest value, whether 0 is allowed, too) */
#define PREPARE_OPTIONS(X)								\
	X(crop_x, "the x of crop", DOUBLE, 1, 0, PREPARE_MOST, 0)			\
	X(crop_y, "the y of crop", DOUBLE, 1, 0, PREPARE_MOST, 0)			\
	X(crop_width, "the width of crop", DOUBLE, 1, 0, PREPARE_MOST, 0)		\
	X(crop_height, "the height of crop", DOUBLE, 1, 0, PREPARE_MOST, 0)		\
	X(rule, "rule", I32, 1, 0, DLBUF_SIZE_SCALED, 0)				\
	X(fit, "fit", I32, 1, 0, DLBUF_FIT_CROP, 0)					\
	X(width, "width", U32, 1, 0, UINT32_MAX, 0)					\
	X(height, "height", U32, 1, 0, UINT32_MAX, 0)					\
	X(shortest, "shortest", U32, 1, 0, UINT32_MAX, 0)				\
	X(longest, "longest", U32, 1, 0, UINT32_MAX, 0)					\
	X(min_pixels, "min_pixels", U64, 1, 0, UINT64_MAX, 0)				\
	X(max_pixels, "max_pixels", U64, 1, 0, UINT64_MAX, 0)				\
	X(multiple, "multiple", U32, 1, 0, UINT32_MAX, 0)				\
	X(turn, "turn", U32, 1, 0, 3, 0)						\
	X(crop_pct, "crop_pct", DOUBLE, 1, PREPARE_MIN_SIDE, 1, 1)			\
	X(filter, "filter", I32, 1, 0, DLBUF_FILTER_LANCZOS3, 0)			\
	X(flags, "flags", U32, 1, 0, UINT32_MAX, 0)					\
	X(pad, "the colour of pad", DOUBLE, 3, 0, 255, 0)				\
	X(channels, "channels", I32, 1, 0, DLBUF_CHANNELS_GREY, 0)			\
	X(scale, "scale", DOUBLE, 1, -PREPARE_MOST, PREPARE_MOST, 0)			\
	X(mean, "mean", DOUBLE, 3, -PREPARE_MOST, PREPARE_MOST, 0)			\
	X(std, "std", DOUBLE, 3, PREPARE_MIN_DIVISOR, PREPARE_MOST, 1)			\
	X(quant_scale, "quant_scale", DOUBLE, 1, PREPARE_MIN_DIVISOR, PREPARE_MOST, 1)	\
	X(zero_point, "zero_point", I32, 1, -256, 256, 0)				\
	X(threads, "threads", U32, 1, 0, 64, 0)						\
	X(scaled_width, "scaled_width", U32, 1, 0, UINT32_MAX, 0)			\
	X(scaled_height, "scaled_height", U32, 1, 0, UINT32_MAX, 0)

#endif /* DLBUF_LIB_PREPARE_OPTIONS_H */
