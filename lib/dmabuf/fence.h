/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_FENCE_H
#define DLBUF_LIB_FENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <dlbuf/fence.h>

#include "../system/sys.h"
#include "buffer.h"

/*
 * Returns 1 if an access to a dma-buf would wait for no fence, 0 if it would, or a
 * negative errno. Does not block.
 */
int fence_buffer_idle(int fd, uint32_t access);

/*
 * Waits until the dma-buf's fences allow the access: a reader waits for writers, a
 * writer for readers and writers. deadline_ns is CLOCK_MONOTONIC; 0: no deadline; a
 * time in the past: does not block. Returns 1 if a fence was pending, otherwise 0.
 * -ETIME  the deadline passed
 * -EIO    the kernel failed, or, unless `damaged` is set, a fence ended with an error
 */
int fence_wait_buffer(int fd, uint32_t access, uint64_t deadline_ns,
		      bool damaged);

/*
 * Returns the error with which the fence has signalled, or 0. Also returns 0 for a file
 * that is not a sync_file. fence_check() returns -EIO instead, with an error text.
 */
int fence_error(int fence);
int fence_check(int fence);

/*
 * Merges two fences, taken; -1: none. If one has failed already, returns that one,
 * because a merged fence does not have the error of a fence that signalled before. If
 * they cannot be merged, waits for b and returns a.
 */
int fence_join(int a, int b);
/* The same with *at, a fence or 0, which other threads may change meanwhile. Takes fence. */
void fence_join_at(int *at, int fence);

/*
 * DMA_BUF_IOCTL_SYNC. The kernel's call may be interrupted, and linux/dma-buf.h advises
 * to repeat it after EAGAIN. bracket_once() is one call. bracket() repeats it, with
 * pauses, up to a second; between the calls of START it waits for the fences. Returns
 * 0 or -1 with errno.
 */
static inline int bracket_once(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	return sys_ioctl_once(fd, DMA_BUF_IOCTL_SYNC, &sync);
}

static inline bool bracket_refused(void)
{
	return errno == EINTR || errno == EAGAIN;
}

int bracket(int fd, uint64_t flags);

/*
 * START that does not wait for fences: returns 0 without a call if the dma-buf has a fence,
 * and 1 after START. Meanwhile the process adds no fence to any dma-buf. Otherwise a negative
 * errno.
 */
int bracket_idle(int fd, uint64_t flags);

/* How often a bracket is tried without a deadline. */
#define BRACKET_TRIES 1000

/*
 * Waits for events of poll(). Returns the events, which may include POLLHUP and
 * POLLERR; 0 at the deadline; or -EBADF, -ENOMEM, -EIO. deadline_ns as above.
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
 * Returns 0 if fence is a sync_file, otherwise the error above, or the error of a lack
 * of memory or fds. Any file that can be polled looks like a fence, and drivers trust
 * the fd, so a caller's fence is checked before it is used.
 */
int fence_check_file(int fence);

/*
 * Makes an eventfd with two fds. *out is for readers. fence_event_signal() takes
 * *writer and makes the eventfd readable, for any number of readers. It may be called
 * on any thread; -1 does nothing.
 */
int fence_event(int *writer, int *out);
void fence_event_signal(int writer);

/*
 * Sleeps between two polls, longer each time. *pause begins as PAUSE_FIRST. Returns
 * false, without a sleep, if the deadline has passed; deadline_ns as above.
 */
bool pause_until(struct timespec *pause, uint64_t deadline_ns);
/* CLOCK_MONOTONIC */
uint64_t now_ns(void);
#define PAUSE_FIRST { .tv_nsec = 10000 }

/* dlbuf_fence_import(), with the identity of the dma-buf; NULL: unknown. */
int fence_import(int dmabuf, const struct buffer_id *id, uint32_t access,
		 int fence);

/*
 * A count that changes when this process adds a writer's fence to the dma-buf of id, and
 * perhaps at other times.
 */
#define FENCES_BUCKETS 64
extern uint32_t fences_added[FENCES_BUCKETS];
static inline uint32_t fences_count(const struct buffer_id *id)
{
	return __atomic_load_n(&fences_added[id->ino % FENCES_BUCKETS],
			       __ATOMIC_RELAXED);
}

/* Returns 1 if a fence has signalled, 0 if not, or -EBADF. */
int fence_signalled(int fence);

#endif /* DLBUF_LIB_FENCE_H */
