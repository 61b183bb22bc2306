/* SPDX-License-Identifier: MIT */
/* The memfds that stand for dma-bufs have DMA_BUF_IOCTL_SYNC, which does nothing. */
#ifndef UNIT_BRACKET_H
#define UNIT_BRACKET_H

#include "ioctl.h"

static int answer_ioctl(int fd, unsigned int request, void *arg)
{
	int ret = real_ioctl(fd, request, arg);

	return ret && fd >= 0 && request == DMA_BUF_IOCTL_SYNC &&
	       (errno == ENOTTY || errno == ENOSYS) ? 0 : ret;
}

#endif /* UNIT_BRACKET_H */
