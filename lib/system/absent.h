/* SPDX-License-Identifier: MIT */
/*
 * For the internal functions of a part that is not built, whose arguments are not
 * looked at. Its public functions are lib/stubs's.
 */
#ifndef DLBUF_LIB_ABSENT_H
#define DLBUF_LIB_ABSENT_H

#include <errno.h>

#include "internal.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif /* DLBUF_LIB_ABSENT_H */
