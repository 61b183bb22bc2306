// SPDX-License-Identifier: MIT
/* The function of dlbuf/heap.h in a library without dma-heaps. */
#include <dlbuf/heap.h>

#include "../lib/system/absent.h"

ABSENT("dma-heap", dlbuf_heap_alloc, (const char *heap, uint64_t bytes,
				      const struct dlbuf_heap_opts *opts,
				      int *fd))
