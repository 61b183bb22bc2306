/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FENCE_H
#define DLBUF_LIB_FENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <dlbuf/fence.h>

/*
 * Returns 1 if an access to a dma-buf would wait for no fence, 0 if it would, or a
 * negative errno. Does not block.
 */
int fence_buffer_idle(int fd, uint32_t access);

/*
 * Waits until the dma-buf's fences allow the access: a reader waits for writers, a
 * writer for readers and writers. deadline_ns is CLOCK_MONOTONIC; 0: no deadline; a
 * time in the past: does not block.
 * -ETIME  the deadline passed
 * -EIO    the kernel failed, or, unless `damaged` is set, a fence ended with an error
 */
int fence_wait_buffer(int fd, uint32_t access, uint64_t deadline_ns,
		      bool damaged);

/*
 * Returns -EIO if the fence has signalled with an error, and 0 otherwise. Also returns
 * 0 for a file that is not a sync_file.
 */
int fence_check(int fence);

/*
 * Waits for events of poll(). Returns the events that came, which may include POLLHUP
 * and POLLERR; 0 at the deadline; or -EBADF, -ENOMEM, -EIO. deadline_ns as above.
 */
int poll_until(int fd, short events, uint64_t deadline_ns);

/* Takes a new fd, and gives one that is close-on-exec and 3 or above. */
int raise_fd(int fd, int *out);

/*
 * The error of a call that refused a fence: -EBADF if fd is negative or not open,
 * otherwise -EINVAL.
 */
int not_a_sync_file(int fd);

/*
 * Makes an eventfd with two fds. *out is for readers. fence_event_tell() takes
 * *writer and makes the eventfd readable, for any number of readers. It may be called
 * on any thread; -1 does nothing.
 */
int fence_event(int *writer, int *out);
void fence_event_tell(int writer);

/*
 * Sleeps between two polls, longer each time. *pause begins as PAUSE_FIRST. Returns
 * false, without a sleep, if the deadline has passed; deadline_ns as above.
 */
bool pause_until(struct timespec *pause, uint64_t deadline_ns);
#define PAUSE_FIRST { .tv_nsec = 10000 }

/* Returns 1 if a fence has signalled, 0 if not, or -EBADF. */
int fence_signalled(int fence);

#endif /* DLBUF_LIB_FENCE_H */
