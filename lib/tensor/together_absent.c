// SPDX-License-Identifier: MIT
/* The calls for several tensors, and dlbuf_pending(), in a library without them. */
#include <dlbuf/sync.h>

#include "../system/absent.h"
#include "sync.h"

ABSENT("dlbuf_acquire_all", dlbuf_acquire_all,
       (DLManagedTensorVersioned *const tensors[], size_t n, uint32_t access,
	void *stream, const struct dlbuf_acquire_opts *opts))
ABSENT("dlbuf_release_all", dlbuf_release_all,
       (DLManagedTensorVersioned *const tensors[], size_t n, void *stream,
	int *fence))
ABSENT("dlbuf_pending", dlbuf_pending, (DLManagedTensorVersioned *tensor,
					uint32_t access, int *fd))

/* Never called: no tensor is acquired together with others. */
int together_check(const struct tensor *t, unsigned int n, const void *stream,
		   bool fence)
{
	return 0;
}

int together_release(struct tensor *t, uint32_t access, void *stream, int *out)
{
	return 0;
}
