// SPDX-License-Identifier: MIT
/* The way back in a library without it. */
#include <dlbuf/frame.h>

#include "../system/absent.h"

ABSENT("dlbuf_frame_from_tensors", dlbuf_frame_from_tensors,
       (DLManagedTensorVersioned *const tensors[], size_t n, uint64_t deadline_ns,
	struct dlbuf_frame *frame))
ABSENT("dlbuf_frame_expand", dlbuf_frame_expand,
       (const struct dlbuf_frame *frame, uint32_t flags, struct dlbuf_frame *out))
