// SPDX-License-Identifier: MIT
/* Computes which bytes a layout covers. Pure arithmetic. */
#include <errno.h>

#include <dlbuf/layout.h>

#include "../system/internal.h"
#include "layout.h"

/* The bits that DLPack gives to a code; 0 for a code of any size. */
static unsigned int bits_of_code(uint8_t code)
{
	if (code == kDLBool || (code >= kDLFloat8_e3m4 && code <= kDLFloat8_e8m0fnu))
		return 8;
	if (code == kDLFloat6_e2m3fn || code == kDLFloat6_e3m2fn)
		return 6;
	return code == kDLFloat4_e2m1fn ? 4 : 0;
}

static int check_dtype(DLDataType dtype, uint32_t *bytes)
{
	uint32_t bits = (uint32_t)dtype.bits * dtype.lanes;
	unsigned int own = bits_of_code(dtype.code);

	if (!bits)
		return fail(-EINVAL, "a dtype of %u bits in %u lanes has no "
			    "size", dtype.bits, dtype.lanes);
	if (own && dtype.bits != own)
		return fail(-EINVAL, "a dtype of DLPack's code %u has %u bits, "
			    "not %u", dtype.code, own, dtype.bits);
	if (bits % 8)
		return fail(-EOPNOTSUPP, "an element of %u bits is not a whole "
			    "number of bytes; packed sub-byte types need "
			    "lanes that make it one", bits);
	*bytes = bits / 8;
	return 0;
}

/* Bytes of one lane if they are a power of two, else 1. */
static uint32_t lane_alignment(DLDataType dtype)
{
	uint32_t lane = dtype.bits / 8;

	if (dtype.bits % 8 || !lane || (lane & (lane - 1)))
		return 1;
	/* A complex number is aligned as its real part. */
	return (dtype.code == kDLComplex || dtype.code == kDLBcomplex) && lane > 1 ?
	       lane / 2 : lane;
}

static int check_layout(const DLTensor *layout, uint32_t *bytes)
{
	int ret;

	if (!layout)
		return fail(-EINVAL, "the layout is NULL");
	if (layout->data)
		return fail(-EINVAL, "the layout's data is not NULL: it "
			    "describes memory, it does not hold any");
	if (layout->ndim < 0 || layout->ndim > DLBUF_MAX_NDIM)
		return fail(-EINVAL, "ndim %d is outside 0..%d", layout->ndim,
			    DLBUF_MAX_NDIM);
	if (layout->ndim && !layout->shape)
		return fail(-EINVAL, "shape is NULL with ndim %d", layout->ndim);
	for (int i = 0; i < layout->ndim; i++)
		if (layout->shape[i] < 0)
			return fail(-EINVAL, "shape[%d] is %lld", i,
				    (long long)layout->shape[i]);
	ret = check_dtype(layout->dtype, bytes);
	if (ret)
		return ret;
	if (layout->byte_offset % lane_alignment(layout->dtype))
		return fail(-EINVAL, "byte_offset %llu is not a multiple of "
			    "the %u bytes of a %u-bit value",
			    (unsigned long long)layout->byte_offset,
			    lane_alignment(layout->dtype), layout->dtype.bits);
	return 0;
}

bool layout_copy(const DLTensor *layout, int64_t *shape, int64_t *strides)
{
	uint64_t stride = 1; /* may overflow if there are no elements; not used then */
	bool empty = false;

	if (layout->strides) {
		for (int i = 0; i < layout->ndim; i++) {
			shape[i] = layout->shape[i];
			strides[i] = layout->strides[i];
			empty |= !shape[i];
		}
		return empty;
	}
	for (int i = layout->ndim - 1; i >= 0; i--) {
		int64_t n = layout->shape[i];

		shape[i] = n;
		strides[i] = (int64_t)stride;
		stride *= n ? n : 1;
		empty |= !n;
	}
	return empty;
}

static bool is_empty(const DLTensor *layout)
{
	for (int i = 0; i < layout->ndim; i++)
		if (!layout->shape[i])
			return true;
	return false;
}

static int no_bytes(const DLTensor *layout, uint64_t *first, uint64_t *end)
{
	*first = *end = layout->byte_offset;
	return 0;
}

/*
 * Only this function limits the number of elements and of their bytes. Strides do not
 * limit these numbers: with a stride of 0 any number of elements share the same
 * memory. A layout without elements needs no limit.
 */
static int extent(const DLTensor *layout, uint32_t bytes, uint64_t *first,
		  uint64_t *end)
{
	const int64_t *shape = layout->shape, *strides = layout->strides;
	int64_t low = 0, high = 0; /* lowest and highest element, in elements */
	int64_t count = 1, total;
	uint64_t below, above;

	for (int i = layout->ndim - 1; i >= 0; i--) {
		int64_t n = shape[i], stride = strides ? strides[i] : count;
		int64_t reach;

		if (!n)
			return no_bytes(layout, first, end);
		if (__builtin_mul_overflow(n - 1, stride, &reach) ||
		    (reach < 0 ? __builtin_add_overflow(low, reach, &low) :
				 __builtin_add_overflow(high, reach, &high)) ||
		    __builtin_mul_overflow(count, n, &total))
			return is_empty(layout) ? no_bytes(layout, first, end) :
			       fail(-EOVERFLOW, "the number of elements, or "
				    "shape[%d] %lld times stride %lld, does not "
				    "fit 64 bits", i, (long long)n,
				    (long long)stride);
		count = total;
	}
	if (__builtin_mul_overflow(count, (int64_t)bytes, &total))
		return fail(-EOVERFLOW, "%lld elements of %u bytes do not fit "
			    "64 bits", (long long)count, bytes);
	/* -low is at most 2^63; this does not negate INT64_MIN. */
	if (__builtin_mul_overflow(-(uint64_t)low, (uint64_t)bytes, &below) ||
	    __builtin_mul_overflow((uint64_t)high + 1, (uint64_t)bytes, &above) ||
	    __builtin_add_overflow(above, layout->byte_offset, end))
		return fail(-EOVERFLOW, "the layout's end, in bytes, does not "
			    "fit 64 bits");
	if (below > layout->byte_offset)
		return fail(-ERANGE, "negative strides reach %llu bytes before "
			    "the start of the buffer", (unsigned long long)
			    (below - layout->byte_offset));
	*first = layout->byte_offset - below;
	return 0;
}

int dlbuf_layout_extent(const DLTensor *layout, uint64_t *first, uint64_t *end)
{
	uint64_t f, e;
	uint32_t bytes;
	int ret;

	if (!first || !end)
		return fail(-EINVAL, "first or end is NULL");
	ret = check_layout(layout, &bytes);
	if (!ret)
		ret = extent(layout, bytes, &f, &e);
	if (ret)
		return ret;
	*first = f;
	*end = e;
	return 0;
}

int layout_extent(const DLTensor *layout, uint64_t *first, uint64_t *end)
{
	return extent(layout, (uint32_t)layout->dtype.bits *
		      layout->dtype.lanes / 8, first, end);
}

int layout_fits(uint64_t end, uint64_t bytes)
{
	if (end > bytes)
		return fail(-ERANGE, "the layout ends at byte %llu of a buffer "
			    "of %llu", (unsigned long long)end,
			    (unsigned long long)bytes);
	return 0;
}
