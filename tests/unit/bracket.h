/* SPDX-License-Identifier: MIT */
/* The memfds in place of dma-bufs have DMA_BUF_IOCTL_SYNC, which does nothing. */
#ifndef UNIT_BRACKET_H
#define UNIT_BRACKET_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "ioctl.h"
#include "system/uapi.h"

/* A case may hold the caller of START, as a fence of the dma-buf does. */
static void (*hold_start)(void);

/* Fences that were added; dma-bufs have a fence that has not signalled. Atomic. */
static unsigned int added_fences;
static bool busy;

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	/* The header says that the function only writes there. */
	struct pollfd *volatile of = fds;

	if (__atomic_load_n(&busy, __ATOMIC_ACQUIRE) && fcntl(of->fd, F_GET_SEALS) >= 0) {
		fds->revents = 0;
		return 0;
	}
#ifdef SYS_ppoll_time64
	long long t[2] = { timeout ? timeout->tv_sec : 0, timeout ? timeout->tv_nsec : 0 };

	return syscall(SYS_ppoll_time64, fds, n, timeout ? t : NULL, mask, 8);
#else
	return syscall(SYS_ppoll, fds, n, timeout, mask, 8);
#endif
}

static int answer_ioctl(int fd, unsigned int request, void *arg)
{
	int ret = real_ioctl(fd, request, arg);

	if (request == DMA_BUF_IOCTL_IMPORT_SYNC_FILE)
		__atomic_add_fetch(&added_fences, 1, __ATOMIC_RELEASE);
	if (!ret || fd < 0 || request != DMA_BUF_IOCTL_SYNC ||
	    (errno != ENOTTY && errno != ENOSYS))
		return ret;
	if (hold_start && !(((struct dma_buf_sync *)arg)->flags & DMA_BUF_SYNC_END))
		hold_start();
	return 0;
}

#endif /* UNIT_BRACKET_H */
