/* SPDX-License-Identifier: MIT */
/* Begin and end of tests of all kinds. */
#ifndef TESTS_COMMON_H
#define TESTS_COMMON_H

#include <unistd.h>

#include <dlbuf/dlbuf.h>

/* Initializers of requests: bytes, and a picture. */
#define LAYOUT8(n, of, ...)							\
	{ .ndim = (n), .dtype = { kDLUInt, 8, 1 },			\
	  .shape = (int64_t *)(of), ##__VA_ARGS__ }
#define PICTURE(w, h, cc, space, n, ...)					\
	{ .size = sizeof(struct dlbuf_frame), .width = (w),		\
	  .height = (h), .code = (cc), .code_space = (space),		\
	  .nplanes = (n), ##__VA_ARGS__ }

/*
 * Locals that are given back at the end of their block, the last one first:
 *
 *	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
 */
static inline void auto_fd(int *fd)
{
	close(*fd);
}

static inline void auto_device(struct dlbuf_device **dev)
{
	dlbuf_device_close(*dev);
}

static inline void auto_tensor(DLManagedTensorVersioned **t)
{
	if (*t)
		(*t)->deleter(*t);
}

#define AUTO_FD __attribute__((cleanup(auto_fd)))
#define AUTO_DEV __attribute__((cleanup(auto_device)))
#define AUTO_TENSOR __attribute__((cleanup(auto_tensor)))

#endif /* TESTS_COMMON_H */
