// SPDX-License-Identifier: MIT
/* Refuses V4L2 nodes as parties, in a library without v4l2.c. */
#include "../system/absent.h"
#include "v4l2.h"

int nodes_open(const int *fds, size_t n, struct node **nodes)
{
	*nodes = NULL;
	return n ? fail(-ENOSYS, "V4L2 nodes as parties of an allocation are "
			"not built into this library") : 0;
}

/* The other functions are never called, because no node can be opened. */

int nodes_idle(const struct node *nodes, size_t n)
{
	return 0;
}

uint64_t nodes_bytes(const struct node *nodes, size_t n)
{
	return 0;
}

int node_try(struct node *node, const int fds[], uint32_t n)
{
	return -ENOSYS;
}

int node_alloc(struct node *node, uint64_t bytes, uint32_t i, int *fd)
{
	return -ENOSYS;
}

int nodes_ask(struct node *nodes, size_t n, unsigned long request,
	      const struct dlbuf_pool_opts *o,
	      const struct dlbuf_pool_info *info, uint64_t *pitch,
	      uint64_t bytes[DLBUF_MAX_PLANES])
{
	return 0;
}
