/* SPDX-License-Identifier: MIT */
/*
 * dma-bufs and fences that fail on request: the calls of /dev/dlbuf-lab,
 * which tests/guest/module/dlbuf_lab.h describes. Each returns ioctl()'s result.
 */
#ifndef TESTS_LAB_MODULE_H
#define TESTS_LAB_MODULE_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "../guest/module/dlbuf_lab.h"

/* An fd of the node, new, or -1: the lab runs without --module. */
static inline int lab_open(void)
{
	return open("/dev/" DLBUF_LAB_NODE, O_RDWR | O_CLOEXEC);
}

/* A new dma-buf, or -1; flags: DLBUF_LAB_NO_*. */
static inline int lab_buffer(int lab, uint64_t bytes, uint32_t flags)
{
	struct dlbuf_lab_buffer b = { .bytes = bytes, .flags = flags };

	return ioctl(lab, DLBUF_LAB_BUFFER, &b);
}

/* A new sync_file with a pending fence, or -1. */
static inline int lab_fence(int lab)
{
	return ioctl(lab, DLBUF_LAB_FENCE);
}

/* Ends the fence of lab_fence(): signalled (0), or failed (-errno). */
static inline int lab_signal(int lab, int sync_file, int error)
{
	struct dlbuf_lab_signal s = { .sync_file = sync_file, .error = error };

	return ioctl(lab, DLBUF_LAB_SIGNAL, &s);
}

/* The next `times` STARTs of the dma-buf fail with error, after hold_ms. */
static inline int lab_begin(int lab, int fd, int error, uint32_t times,
			    uint32_t hold_ms)
{
	struct dlbuf_lab_begin b = {
		.fd = fd,
		.error = error,
		.times = times,
		.hold_ms = hold_ms,
	};

	return ioctl(lab, DLBUF_LAB_BEGIN, &b);
}

static inline int lab_revoke(int lab, int fd)
{
	__s32 arg = fd;

	return ioctl(lab, DLBUF_LAB_REVOKE, &arg);
}

static inline int lab_count(int lab, int fd, struct dlbuf_lab_count *count)
{
	*count = (struct dlbuf_lab_count){ .fd = fd };
	return ioctl(lab, DLBUF_LAB_COUNT, count);
}

#endif /* TESTS_LAB_MODULE_H */
