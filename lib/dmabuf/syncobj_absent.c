// SPDX-License-Identifier: MIT
/* The functions of dlbuf/syncobj.h in a library without DRM's syncobjs. */
#include <dlbuf/syncobj.h>

#include "../system/absent.h"

#define WHAT "dlbuf_syncobj"

ABSENT(WHAT, dlbuf_syncobj_export, (int drm_fd, uint32_t handle, uint64_t point,
				    int *fence))
ABSENT(WHAT, dlbuf_syncobj_import, (int drm_fd, uint32_t handle, uint64_t point,
				    int fence))
