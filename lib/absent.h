/* SPDX-License-Identifier: MIT */
/*
 * For the public functions of what this configuration leaves out: the symbols of
 * the library do not depend on its configuration. Declared here, too, because a
 * backend's own header may need headers that are not installed.
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
