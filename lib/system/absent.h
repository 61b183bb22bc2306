/* SPDX-License-Identifier: MIT */
/*
 * Defines public functions of parts that are not built, so that every configuration
 * of the library has the same symbols. The macro also declares the function, because
 * a backend's public header may include headers that are not installed.
 */
#ifndef DLBUF_LIB_ABSENT_H
#define DLBUF_LIB_ABSENT_H

#include <errno.h>

#include "internal.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ABSENT(what, name, params)					\
	DLBUF_API int name params;					\
	int name params							\
	{								\
		return fail(-ENOSYS, what " is not built into this library"); \
	}

#endif /* DLBUF_LIB_ABSENT_H */
