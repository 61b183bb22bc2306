// SPDX-License-Identifier: MIT
/* Accesses to a tensor of GLES, which is the CPU's mapping of the dma-buf. */
#include "host.h"

/* The driver keeps threads, mappings and files when it has started. */
static bool gles_prepare(void)
{
	return true;
}

const struct access access_gles = {
	.backend = "gles",
	.reads_by = "memcpy",
	.read = host_read,
	.write = host_write,
	.prepare = gles_prepare,
	.no_children = true,
	.keeps_fds = true,
};
