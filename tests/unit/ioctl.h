/* SPDX-License-Identifier: MIT */
/* The program's ioctl()s, also those of the library, are calls of answer_ioctl(). */
#ifndef UNIT_IOCTL_H
#define UNIT_IOCTL_H

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/dma-buf.h>

static int answer_ioctl(int fd, unsigned int request, void *arg);

static inline int real_ioctl(int fd, unsigned int request, void *arg)
{
	return syscall(SYS_ioctl, fd, request, arg);
}

#ifdef __GLIBC__
int ioctl(int fd, unsigned long request, ...)
#else
int ioctl(int fd, int request, ...)
#endif
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return answer_ioctl(fd, request, arg);
}

#endif /* UNIT_IOCTL_H */
