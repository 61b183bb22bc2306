/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_LAYOUT_H
#define DLBUF_LIB_LAYOUT_H

#include <stdbool.h>

#include <dlbuf/layout.h>

/*
 * Copies the shape and the strides of a checked layout, compact ones where it has
 * none. True when it has no elements.
 */
bool layout_copy(const DLTensor *layout, int64_t *shape, int64_t *strides);

/* dlbuf_layout_extent() of a layout that is known to be right. */
int layout_extent(const DLTensor *layout, uint64_t *first, uint64_t *end);

/* -ERANGE, with a sentence, unless a layout's end is within the buffer. */
int layout_fits(uint64_t end, uint64_t bytes);

#endif /* DLBUF_LIB_LAYOUT_H */
