/* SPDX-License-Identifier: MIT */
/* The memfds that stand for dma-bufs have DMA_BUF_IOCTL_SYNC, which does nothing. */
#ifndef UNIT_BRACKET_H
#define UNIT_BRACKET_H

#include "ioctl.h"

/* A case may hold who calls START, as a fence of the dma-buf does. */
static void (*hold_start)(void);

static int answer_ioctl(int fd, unsigned int request, void *arg)
{
	int ret = real_ioctl(fd, request, arg);

	if (!ret || fd < 0 || request != DMA_BUF_IOCTL_SYNC ||
	    (errno != ENOTTY && errno != ENOSYS))
		return ret;
	if (hold_start && !(((struct dma_buf_sync *)arg)->flags & DMA_BUF_SYNC_END))
		hold_start();
	return 0;
}

#endif /* UNIT_BRACKET_H */
