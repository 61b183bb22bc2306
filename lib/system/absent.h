/* SPDX-License-Identifier: MIT */
/*
 * For the internal functions of a part that is not built. They ignore their
 * arguments. lib/stubs makes the part's public functions.
 */
#ifndef DLBUF_LIB_ABSENT_H
#define DLBUF_LIB_ABSENT_H

#include <errno.h>

#include "internal.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif /* DLBUF_LIB_ABSENT_H */
