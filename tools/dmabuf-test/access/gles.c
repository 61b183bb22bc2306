// SPDX-License-Identifier: MIT
/* Accesses to a tensor of GLES, which is the CPU's mapping of the dma-buf. */
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

static int gles_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst, size_t bytes)
{
	char *p = at(t, offset);

	if (!p)
		return -EINVAL;
	memcpy(dst, p, bytes);
	return 0;
}

static int gles_write(DLManagedTensorVersioned *t, uint64_t offset, const void *src, size_t bytes)
{
	char *p = at(t, offset);

	if (!p)
		return -EINVAL;
	memcpy(p, src, bytes);
	return 0;
}

/* The driver keeps threads, mappings and files when it has started. */
static bool gles_prepare(void)
{
	return true;
}

const struct access access_gles = {
	.backend = "gles",
	.reads_by = "memcpy",
	.read = gles_read,
	.write = gles_write,
	.prepare = gles_prepare,
	.no_children = true,
	.keeps_fds = true,
};
