/* SPDX-License-Identifier: MIT */
/*
 * A layout says which bytes of a buffer are a tensor. It is a plain DLTensor
 * whose data is NULL:
 *
 *	int64_t shape[] = { 1080, 1920, 3 };
 *	int64_t strides[] = { 5760, 3, 1 };	// elements, not bytes
 *	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 },
 *			    .shape = shape, .strides = strides,
 *			    .byte_offset = 4096 };
 *
 * strides == NULL means row-major and compact. device is not looked at.
 * Strides may be zero or negative as long as every element is inside the
 * buffer: byte_offset is where element [0, 0, ...] lies. An element is
 * bits * lanes bits, which must be whole bytes (4-bit types come in lanes of
 * two), and byte_offset must be a multiple of one lane's bytes where those
 * are a power of two. ndim is at most 64. A layout with a zero in its shape
 * has no elements and is valid, and so is ndim == 0, a single element.
 */
#ifndef DLBUF_LAYOUT_H
#define DLBUF_LAYOUT_H

#include <dlbuf/base.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLBUF_MAX_NDIM 64

/*
 * Computes the bytes that the layout touches, [first, end), relative to the
 * start of the buffer. Without elements, first == end == byte_offset.
 *
 * layout is borrowed. Pure arithmetic: no system call, no allocation.
 * -EINVAL      NULL, data not NULL, ndim outside 0..64, shape NULL or
 *              negative, bits or lanes 0, byte_offset not aligned
 * -EOPNOTSUPP  an element is not a whole number of bytes
 * -EOVERFLOW   the number of elements, or of their bytes, is above INT64_MAX,
 *              whatever the strides are; or the end does not fit 64 bits
 * -ERANGE      negative strides reach before the start of the buffer
 */
DLBUF_API int dlbuf_layout_extent(const DLTensor *layout,
				  uint64_t *first, uint64_t *end);

/*
 * Checks that a buffer of `bytes` bytes holds the layout. As above, and
 * -ERANGE      it ends after the buffer
 */
DLBUF_API int dlbuf_layout_check(const DLTensor *layout, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_LAYOUT_H */
