/* SPDX-License-Identifier: MIT */
/*
 * Fences: sync_file fds, and the fences of a dma-buf as sync_files.
 *
 * A fence is an int: the fd of a sync_file, or -1 for a fence that has already
 * signalled. Every other negative number is -EBADF, and 0 is an fd. On a device with
 * DLBUF_SYNC_EVENT, dlbuf_release() returns an eventfd instead of a sync_file.
 * dlbuf_fence_wait(), _status() and _notify() accept an eventfd; the other
 * functions and the kernel do not. Any other fd is taken for what poll() says of it:
 * a regular file has signalled, a terminal has when there is input.
 *
 * A fence signals once and stays signalled. Only drivers make fences, because
 * the kernel guarantees that every fence signals in bounded time.
 *
 * Waits until the device has done its work on a tensor, and asks how it ended:
 *
 *	int fence, status;
 *
 *	if (dlbuf_release(t, stream, &fence) || dlbuf_fence_wait(fence, 0) ||
 *	    dlbuf_fence_status(fence, &status))
 *		errx(1, "%s", dlbuf_last_error());
 *	if (status < 0)
 *		warnx("the work failed: %s", strerror(-status));
 *	if (fence != -1)
 *		close(fence);
 *
 * Specification: linux/sync_file.h, linux/dma-buf.h; dma-buf.rst in the kernel's
 * documentation.
 */
#ifndef DLBUF_FENCE_H
#define DLBUF_FENCE_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Waits until the fence has signalled. A fence that signals with an error counts
 * as signalled; dlbuf_fence_status() reports that error.
 *
 * fence is borrowed. deadline_ns is in CLOCK_MONOTONIC nanoseconds: 0 waits
 * without a limit, a time in the past only checks. Signals do not interrupt it.
 * -EBADF  fence is not open
 * -ETIME  the deadline passed
 * -EIO    poll() failed
 */
DLBUF_API int dlbuf_fence_wait(int fence, uint64_t deadline_ns);

/*
 * Reports the state of a fence: *status is 0 while it is pending, 1 when it has
 * signalled, and a negative errno when it has signalled with that error.
 *
 * fence is borrowed. Does not block. For a pending fence it only calls poll(),
 * because SYNC_IOC_FILE_INFO on a pending fence of a display has a race in the
 * kernel.
 * -EBADF   fence is not open
 * -EINVAL  status is NULL
 */
DLBUF_API int dlbuf_fence_status(int fence, int *status);

/*
 * Makes a fence that signals when both a and b have signalled. a and b are
 * borrowed. *out is new; it is -1 if both are -1.
 * -EBADF   a or b is not open
 * -EINVAL  a or b is not a sync_file, or out is NULL
 */
DLBUF_API int dlbuf_fence_merge(int a, int b, int *out);

/*
 * Gives the fence's driver a hint when the result is needed. Some drivers then
 * raise their clocks. fence is borrowed, deadline_ns is CLOCK_MONOTONIC.
 * -EBADF       fence is not open
 * -EOPNOTSUPP  the kernel has no such hint (before 6.6), or fence is not a sync_file
 */
DLBUF_API int dlbuf_fence_set_deadline(int fence, uint64_t deadline_ns);

/*
 * Makes a sync_file of the fences that an access to the dma-buf must wait for
 * now: a reader waits for writers, a writer waits for readers and writers. The
 * sync_file does not contain fences that are added later.
 *
 * dmabuf is borrowed. *fence is new, even if all fences have signalled. Does not
 * block.
 * -EINVAL      access is not READ, WRITE or RW, or fence is NULL
 * -EBADF       dmabuf is not open or not a dma-buf
 * -EOPNOTSUPP  the kernel lacks the ioctl (before 6.0, or configured without
 *              sync_file); dlbuf_acquire() polls the dma-buf in that case
 */
DLBUF_API int dlbuf_fence_export(int dmabuf, uint32_t access, int *fence);

/*
 * Adds a fence to a dma-buf, as the fence of a reader or of a writer. Other users then
 * wait for it as for a driver's fence. Nobody can remove the fence; the kernel removes
 * it when it signals. dmabuf and fence are borrowed. A fence of -1 adds nothing, and
 * then dmabuf is not checked.
 *
 * -EINVAL      access is not READ, WRITE or RW; fence is not a sync_file
 * -EBADF       also: fence is not open
 * -EBADF, -EOPNOTSUPP  as for dlbuf_fence_export()
 */
DLBUF_API int dlbuf_fence_import(int dmabuf, uint32_t access, int fence);

/*
 * Calls fn(data) exactly once, when the fence has signalled. If it has signalled
 * already, fn is called on this thread before this function returns. Otherwise fn
 * is called in dlbuf_dispatch() or on the library's event thread, which is
 * started when it is first needed.
 *
 * fence is duplicated. fn may call dlbuf. It must not block, because it delays
 * all other callbacks of that thread. After fork() fn is not called in the child.
 * On failure fn is not called:
 * -EBADF   fence is not open
 * -EINVAL  fn is NULL
 * -ENOMEM  also: no thread can be started
 * -EIO     epoll failed
 */
DLBUF_API int dlbuf_fence_notify(int fence, void (*fn)(void *data), void *data);

/*
 * Moves the library's callbacks from its event thread to the application's main
 * loop. After this call the library does not start its event thread. When *fd is
 * readable, the application calls dlbuf_dispatch(). That call runs the callbacks of
 * leases and of dlbuf_fence_notify(), and frees imports that had to wait for work. This
 * applies to the whole process. A device whose streams wait until a word in memory has
 * a value still has a thread. This thread only stores the words.
 *
 *	struct pollfd p = { .events = POLLIN };
 *
 *	if (dlbuf_dispatch_fd(&p.fd))
 *		errx(1, "%s", dlbuf_last_error());
 *	open_devices();
 *	while (poll(&p, 1, -1) == 1)	// beside the program's other fds
 *		if (dlbuf_dispatch() < 0)
 *			errx(1, "%s", dlbuf_last_error());
 *
 * *fd is new. Poll it for POLLIN, and close it at the end. Each call gives a new fd
 * for the same events. Call this function before the first device is opened.
 *
 * With fd NULL the library uses its event thread again. Do this after the last
 * device is closed and all callbacks have run. A child of fork() begins with the
 * event thread.
 *
 * Only dlbuf_dispatch() and dlbuf_device_drain() run the callbacks. A program that
 * waits for a callback in another way never returns from the wait. The library
 * also writes to eventfds in dlbuf_dispatch(): to those of dlbuf_pending() and
 * dlbuf_release_all(), and to those of devices whose driver has no host functions.
 * So do not wait for such an eventfd alone: poll *fd as well.
 * -EBUSY   the event thread runs already, because an open device needed it;
 *          with fd NULL: a device is open, or callbacks have not run yet
 * -EIO     epoll failed
 */
DLBUF_API int dlbuf_dispatch_fd(int *fd);

/*
 * Runs the callbacks and frees that are due, and returns how many it ran. 0: there
 * were none, or another thread is in this call. The call does not wait, but a
 * callback or a driver's free may wait.
 * -EINVAL  dlbuf_dispatch_fd() was not called, or not in this process
 * -EBUSY   called in a callback that this function runs
 * -EIO     the application has closed an fd of the library
 */
DLBUF_API int dlbuf_dispatch(void);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FENCE_H */
