/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_LAYOUT_H
#define DLBUF_LIB_LAYOUT_H

#include <stdbool.h>

#include <dlbuf/layout.h>

/*
 * Copies the shape and the strides of a checked layout; without strides it writes
 * compact ones. Returns true if the layout has no elements.
 */
bool layout_copy(const DLTensor *layout, int64_t *shape, int64_t *strides);

/* dlbuf_layout_extent() for a layout that has been checked. */
int layout_extent(const DLTensor *layout, uint64_t *first, uint64_t *end);

/* -ERANGE: the layout ends after the buffer. */
int layout_fits(uint64_t end, uint64_t bytes);

#endif /* DLBUF_LIB_LAYOUT_H */
