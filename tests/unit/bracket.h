/* SPDX-License-Identifier: MIT */
/* The memfds that stand for dma-bufs have DMA_BUF_IOCTL_SYNC, which does nothing. */
#ifndef UNIT_BRACKET_H
#define UNIT_BRACKET_H

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#ifdef __GLIBC__
int ioctl(int fd, unsigned long request, ...)
#else
int ioctl(int fd, int request, ...)
#endif
{
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	ret = syscall(SYS_ioctl, fd, request, arg);
	return ret && fd >= 0 && (unsigned int)request == DMA_BUF_IOCTL_SYNC &&
	       (errno == ENOTTY || errno == ENOSYS) ? 0 : ret;
}

#endif /* UNIT_BRACKET_H */
