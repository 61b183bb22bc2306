/* SPDX-License-Identifier: MIT */
/* Cases that a foreign machine's program under qemu-user cannot run. */
#ifndef UNIT_EMULATED_H
#define UNIT_EMULATED_H

#include "ktap.h"

#include <errno.h>
#include <sys/ioctl.h>

#include <linux/dma-buf.h>

/* It does not know the ioctl, and looks at no fd: ENOSYS, of newer ones ENOTTY. */
static inline bool is_emulated(void)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_READ };

	return ioctl(-1, DMA_BUF_IOCTL_SYNC, &sync) < 0 && errno != EBADF;
}

static inline void need_machine(void)
{
	if (is_emulated())
		SKIP("ioctl() does not reach the kernel");
}

static inline void need_64_bits(void)
{
	if (sizeof(void *) < 8)
		SKIP("there is no driver of CUDA's for 32 bits");
}

#endif /* UNIT_EMULATED_H */
