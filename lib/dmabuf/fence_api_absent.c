// SPDX-License-Identifier: MIT
/* These functions of dlbuf/fence.h in a library without them. */
#include <dlbuf/fence.h>

#include "../system/absent.h"

ABSENT("dlbuf_fence_set_deadline()", dlbuf_fence_set_deadline,
       (int fence, uint64_t deadline_ns))
ABSENT("dlbuf_fence_notify()", dlbuf_fence_notify,
       (int fence, void (*fn)(void *data), void *data))
