/* SPDX-License-Identifier: MIT */
/* Accesses to a tensor that is the CPU's mapping of the dma-buf. */
#ifndef DMABUF_TEST_ACCESS_HOST_H
#define DMABUF_TEST_ACCESS_HOST_H

#include <errno.h>
#include <string.h>

#include "access.h"

/* The address of a byte of the dma-buf, by the tensor's own data. */
static char *at(DLManagedTensorVersioned *t, uint64_t offset)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	if (dlbuf_tensor_get_info(t, &info))
		return NULL;
	return (char *)t->dl_tensor.data - info.first + offset;
}

static int host_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		     size_t bytes)
{
	char *p = at(t, offset);

	if (!p)
		return -EINVAL;
	memcpy(dst, p, bytes);
	return 0;
}

static int host_write(DLManagedTensorVersioned *t, uint64_t offset,
		      const void *src, size_t bytes)
{
	char *p = at(t, offset);

	if (!p)
		return -EINVAL;
	memcpy(p, src, bytes);
	return 0;
}

#endif /* DMABUF_TEST_ACCESS_HOST_H */
