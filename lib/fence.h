/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FENCE_H
#define DLBUF_LIB_FENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <dlbuf/fence.h>

/*
 * Waits until the dma-buf's fences allow the access: a reader waits for
 * writers, a writer for everybody. deadline_ns is CLOCK_MONOTONIC, 0 waits for
 * ever, a moment in the past asks. -ETIME, -EIO; also where a fence ended with
 * an error, unless `damaged` says that this will do.
 */
int fence_wait_buffer(int fd, uint32_t access, uint64_t deadline_ns,
		      bool damaged);

/*
 * -EIO if the fence has signalled, as far as is known now, and ended with an
 * error. 0 also for what is no sync_file.
 */
int fence_check(int fence);

/*
 * Waits for events of poll(): those that came, with POLLHUP and POLLERR, 0 at
 * the deadline, or -EBADF, -ENOMEM, -EIO. deadline_ns as above.
 */
int poll_until(int fd, short events, uint64_t deadline_ns);

/* The kernel's new fd (taken), close-on-exec and 3 or higher. */
int raise_fd(int fd, int *out);

/*
 * For a call that has refused a fence: -EBADF where fd is not open, which every
 * negative number is, -EINVAL otherwise.
 */
int not_a_sync_file(int fd);

/*
 * A new eventfd as two fds: *out for the readers, *writer for fence_event_tell(),
 * which takes it, makes it readable for all readers for ever, and is called on any
 * thread. -1 is told already.
 */
int fence_event(int *writer, int *out);
void fence_event_tell(int writer);

/*
 * Sleeps between two questions, longer each time; *pause begins as PAUSE_FIRST.
 * False, without a sleep: the deadline has passed; deadline_ns as above.
 */
bool pause_until(struct timespec *pause, uint64_t deadline_ns);
#define PAUSE_FIRST { .tv_nsec = 10000 }

/* Whether a fence has signalled: 1, 0, or -EBADF. */
int fence_signalled(int fence);

#endif /* DLBUF_LIB_FENCE_H */
