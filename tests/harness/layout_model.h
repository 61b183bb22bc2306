/* SPDX-License-Identifier: MIT */
/*
 * The expected result of dlbuf_layout_extent(), computed in 128 bits: for the unit
 * test's random layouts and for the fuzz targets. Without 128-bit integers in
 * the compiler there is no model.
 */
#ifndef DLBUF_TESTS_LAYOUT_MODEL_H
#define DLBUF_TESTS_LAYOUT_MODEL_H

#ifdef __SIZEOF_INT128__
#include <errno.h>
#include <stdbool.h>

#include <dlbuf/layout.h>

typedef __int128 wide;

/* A product that stops at 2^64, far from where 128 bits end. */
static inline wide model_times(wide a, wide b)
{
	const wide huge = (wide)1 << 64;

	if (a > huge || a < -huge)
		return b ? (a < 0) != (b < 0) ? -huge : huge : 0;
	a *= b;
	return a > huge ? huge : a < -huge ? -huge : a;
}

static inline uint64_t model_alignment(DLDataType dtype)
{
	for (unsigned int bytes = 1; bytes <= 16; bytes *= 2)
		if (dtype.bits == 8 * bytes)
			return (dtype.code == kDLComplex || dtype.code == kDLBcomplex) &&
			       bytes > 1 ? bytes / 2 : bytes;
	return 1;
}

/* The bits that DLPack gives to this code; 0: any. */
static inline unsigned int model_bits(uint8_t code)
{
	static const uint8_t own[] = { [kDLBool] = 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 6, 4 };

	return code < sizeof(own) ? own[code] : 0;
}

/* For a layout whose data is NULL and whose ndim is in range. */
static inline int layout_model(const DLTensor *l, uint64_t *first,
			       uint64_t *end)
{
	wide bits = (wide)l->dtype.bits * l->dtype.lanes, bytes = bits / 8;
	wide low = 0, high = 0, count = 1;
	bool empty = false;

	for (int i = 0; i < l->ndim; i++) {
		if (l->shape[i] < 0)
			return -EINVAL;
		empty |= !l->shape[i];
	}
	if (!bits || (model_bits(l->dtype.code) && l->dtype.bits != model_bits(l->dtype.code)))
		return -EINVAL;
	if (bits % 8)
		return -EOPNOTSUPP;
	if (l->byte_offset % model_alignment(l->dtype))
		return -EINVAL;
	if (empty) {
		*first = *end = l->byte_offset;
		return 0;
	}
	for (int i = l->ndim - 1; i >= 0; i--) {
		wide stride = l->strides ? l->strides[i] : count;
		wide reach = model_times(stride, l->shape[i] - 1);

		/* Sums of 64 of these are exact or far beyond 64 bits. */
		*(reach < 0 ? &low : &high) += reach;
		count = model_times(count, l->shape[i]);
	}
	if (count > INT64_MAX || count * bytes > INT64_MAX ||
	    low < INT64_MIN || high > INT64_MAX ||
	    -low * bytes > UINT64_MAX ||
	    l->byte_offset + (high + 1) * bytes > UINT64_MAX)
		return -EOVERFLOW;
	if (l->byte_offset + low * bytes < 0)
		return -ERANGE;
	*first = l->byte_offset + low * bytes;
	*end = l->byte_offset + (high + 1) * bytes;
	return 0;
}
#endif /* __SIZEOF_INT128__ */

#endif /* DLBUF_TESTS_LAYOUT_MODEL_H */
