// SPDX-License-Identifier: MIT
/* The functions of dlbuf/alloc.h in a library that makes no dma-bufs. */
#include <dlbuf/alloc.h>

#include "../system/absent.h"

#define WHAT "dlbuf_alloc()"

ABSENT(WHAT, dlbuf_alloc, (struct dlbuf_device *const devs[], size_t ndevs,
			   const DLTensor *layout,
			   const struct dlbuf_alloc_opts *opts,
			   DLManagedTensorVersioned *tensors[]))
ABSENT(WHAT, dlbuf_exporter_each, (dlbuf_exporter_fn fn, void *data))
ABSENT(WHAT, dlbuf_alloc_fd, (uint64_t bytes,
			      const struct dlbuf_alloc_opts *opts, int *fd))
