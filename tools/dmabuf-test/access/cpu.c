// SPDX-License-Identifier: MIT
/* Accesses to a tensor's memory by the CPU. */
#include "host.h"

const struct access access_cpu = {
	.backend = "cpu",
	.reads_by = "memcpy",
	.read = host_read,
	.write = host_write,
};
