/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_BUFFER_H
#define DLBUF_LIB_BUFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <dlbuf/buffer.h>

/* Which dma-buf an fd is and what the fd allows. */
struct buffer_id {
	dev_t dev;
	ino_t ino;
	uint32_t access;
};

/*
 * Two system calls. Says nothing about whether the fd is a dma-buf at all:
 * a pair that equals one known to be a dma-buf is that dma-buf, any other is
 * put to buffer_size().
 */
int buffer_identify(int fd, struct buffer_id *id);

/*
 * -EBADF unless the fd is a dma-buf. The sentence names it by the caller's
 * number, which fd may be a duplicate of.
 */
int buffer_size(int fd, int callers, uint64_t *bytes);

/*
 * Whether two fds are the same open file, not only the same buffer. False
 * where the kernel cannot tell (before 6.10).
 */
bool buffer_same_file(int a, int b);

#endif /* DLBUF_LIB_BUFFER_H */
