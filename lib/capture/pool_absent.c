// SPDX-License-Identifier: MIT
/* The functions of dlbuf/pool.h in a library without pools. */
#include <dlbuf/pool.h>

#include "../system/absent.h"

#define WHAT "dlbuf_pool"

ABSENT(WHAT, dlbuf_pool_create, (struct dlbuf_device *const devs[],
				 size_t ndevs,
				 const struct dlbuf_pool_opts *opts,
				 struct dlbuf_pool **pool))
ABSENT(WHAT, dlbuf_pool_layout, (struct dlbuf_device *const devs[],
				 size_t ndevs,
				 const struct dlbuf_pool_opts *opts,
				 struct dlbuf_pool_info *info))
ABSENT(WHAT, dlbuf_pool_get_info, (struct dlbuf_pool *pool,
				   struct dlbuf_pool_info *info))
ABSENT(WHAT, dlbuf_pool_frame, (struct dlbuf_pool *pool, uint32_t index,
				struct dlbuf_frame *frame))

void dlbuf_pool_destroy(struct dlbuf_pool *pool)
{
	/* never called: none can be made */
}
