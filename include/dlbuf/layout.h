/* SPDX-License-Identifier: MIT */
/*
 * A layout describes which bytes of a buffer are a tensor. It is a DLTensor whose
 * data is NULL:
 *
 *	int64_t shape[] = { 1080, 1920, 3 };
 *	int64_t strides[] = { 5760, 3, 1 };	// elements, not bytes
 *	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 },
 *			    .shape = shape, .strides = strides,
 *			    .byte_offset = 4096 };
 *
 * Rules:
 *   - strides == NULL means row-major and compact
 *   - strides may be 0 or negative if every element is inside the buffer
 *   - byte_offset is where element [0, 0, ...] begins. It must be a multiple of the
 *     size of one lane in bytes, if that size is a power of two. For complex types
 *     it must be a multiple of half a lane, the real or the imaginary part
 *   - an element has bits * lanes bits, which must be whole bytes (so a 4-bit type
 *     needs an even number of lanes)
 *   - ndim is at most 64. ndim == 0 is a single element
 *   - a 0 in shape means no elements, and is valid
 *   - device is ignored
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
 * Computes the range of bytes [first, end) that the layout uses, relative to the
 * start of the buffer. Without elements, first == end == byte_offset.
 *
 * layout is borrowed. Pure.
 * -EINVAL      NULL, data not NULL, ndim outside 0..64, shape NULL or negative,
 *              bits or lanes 0, bits that a dtype with this code cannot have,
 *              byte_offset not aligned
 * -EOPNOTSUPP  an element is not a whole number of bytes
 * -EOVERFLOW   the number of elements or of their bytes is above INT64_MAX,
 *              with any strides; or the end does not fit 64 bits
 * -ERANGE      negative strides reach before the start of the buffer
 */
DLBUF_API int dlbuf_layout_extent(const DLTensor *layout,
				  uint64_t *first, uint64_t *end);

/*
 * Checks that a buffer of `bytes` bytes contains the layout. Errors as for
 * dlbuf_layout_extent(), and
 * -ERANGE      the layout ends after the buffer
 */
DLBUF_API int dlbuf_layout_check(const DLTensor *layout, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_LAYOUT_H */
