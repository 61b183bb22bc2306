/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_BUFFER_H
#define DLBUF_LIB_BUFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <dlbuf/buffer.h>

/* Identity of a dma-buf, and the access that an fd allows. */
struct buffer_id {
	dev_t dev;
	ino_t ino;
	uint32_t access;
};

/* Whether it is the same dma-buf. The accesses may differ. */
static inline bool buffer_same(const struct buffer_id *a, const struct buffer_id *b)
{
	return a->ino == b->ino && a->dev == b->dev;
}

/*
 * Identifies the file of an fd with two system calls. Does not check that the file is a
 * dma-buf: if its identity equals that of a known dma-buf, it is that dma-buf. For any
 * other file call buffer_size().
 */
int buffer_identify(int fd, struct buffer_id *id);

/*
 * Gets the size of a dma-buf. `callers` is the number for the error text, because fd
 * may be a duplicate of the caller's fd.
 * -EBADF  not a dma-buf
 */
int buffer_size(int fd, int callers, uint64_t *bytes);

/*
 * Returns ret. The error text names the expected kind, `want`, and the kernel's name of
 * the file, "pipe:[123]".
 */
int wrong_file(int ret, int fd, int callers, const char *want);

/*
 * Whether two fds are the same open file, and not only the same buffer. Always
 * false before Linux 6.10.
 */
bool buffer_same_file(int a, int b);

#endif /* DLBUF_LIB_BUFFER_H */
