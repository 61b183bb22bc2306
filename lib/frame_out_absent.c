// SPDX-License-Identifier: MIT
/* dlbuf_frame_from_tensors() in a library without it. */
#include <dlbuf/frame.h>

#include "absent.h"

ABSENT("dlbuf_frame_from_tensors", dlbuf_frame_from_tensors,
       (DLManagedTensorVersioned *const tensors[], size_t n, uint64_t deadline_ns,
	struct dlbuf_frame *frame))
