/* SPDX-License-Identifier: MIT */
/*
 * Fences: plain sync_file fds, and the fences of a dma-buf as sync_files.
 *
 * A fence is an int: the fd of a sync_file, or -1, which is one that has
 * signalled already. dlbuf_release() of a device that can only tell by an
 * event (DLBUF_SYNC_EVENT) gives an eventfd instead: waiting and notifying
 * take it too, the kernel and the other functions do not. Any other negative
 * number is -EBADF in every function that takes a fence.
 *
 * A fence signals once and stays so. The kernel promises that every fence
 * signals in bounded time, and no program can make one of its own.
 *
 * Specification: linux/sync_file.h, linux/dma-buf.h; dma-buf.rst of the
 * kernel's documentation.
 */
#ifndef DLBUF_FENCE_H
#define DLBUF_FENCE_H

#include <dlbuf/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Waits until the fence has signalled, also with an error, which
 * dlbuf_fence_status() tells.
 *
 * fence is borrowed. deadline_ns is CLOCK_MONOTONIC; 0 waits for ever, a
 * moment in the past asks. Signals interrupt nothing.
 * -EBADF  not open
 * -ETIME  the deadline passed
 * -EIO    poll() failed
 */
DLBUF_API int dlbuf_fence_wait(int fence, uint64_t deadline_ns);

/*
 * Says where a fence is: *status is 0 while it is pending, 1 when it has
 * signalled, and a negative errno when it has signalled with that error.
 *
 * fence is borrowed. Does not block. A pending fence is only polled:
 * SYNC_IOC_FILE_INFO on a display's live fence has a race in the kernel.
 * -EBADF   not open
 * -EINVAL  status is NULL
 */
DLBUF_API int dlbuf_fence_status(int fence, int *status);

/*
 * Makes a fence that signals when both have. a and b are borrowed, *out is
 * new, or -1 when both are.
 * -EBADF   not open
 * -EINVAL  not a sync_file, or out is NULL
 */
DLBUF_API int dlbuf_fence_merge(int a, int b, int *out);

/*
 * Tells the driver behind a fence by when it is wanted: a hint, that some use
 * to raise clocks. fence is borrowed, deadline_ns is CLOCK_MONOTONIC.
 * -EBADF       not open
 * -EOPNOTSUPP  the kernel has no such hint (before 6.6), or not a sync_file
 */
DLBUF_API int dlbuf_fence_set_deadline(int fence, uint64_t deadline_ns);

/*
 * Takes the fences of a dma-buf as they are now: those that the access would
 * have to wait for, a reader for writers, a writer for everybody. Fences that
 * are added later are not in it.
 *
 * dmabuf is borrowed, *fence is new (signalled ones too). Does not block.
 * -EINVAL      access is not READ, WRITE or RW, or fence is NULL
 * -EBADF       not open or not a dma-buf
 * -EOPNOTSUPP  the kernel has not got the ioctl (before 6.0, or configured
 *              without sync_file); dlbuf_acquire() polls the dma-buf there
 */
DLBUF_API int dlbuf_fence_export(int dmabuf, uint32_t access, int *fence);

/*
 * Adds a fence to a dma-buf, as that of a reader or of a writer: others wait
 * for it as they do for a driver's. It cannot be taken back; it goes when it
 * signals. dmabuf and fence are borrowed; -1 adds nothing.
 *
 * -EINVAL      access is not READ, WRITE or RW; fence is not a sync_file
 * -EBADF       also: fence is not open
 * -EBADF, -EOPNOTSUPP  as for dlbuf_fence_export()
 */
DLBUF_API int dlbuf_fence_import(int dmabuf, uint32_t access, int fence);

/*
 * Calls fn(data) exactly once, when the fence has signalled: at once, on this
 * thread and before this returns, if it has already; else on a thread of the
 * library, of which there is one for all, started when first needed.
 *
 * fence is duplicated. fn may call dlbuf, must not block, and delays the
 * others while it runs. After fork() the child's fn is not called.
 * -EBADF, -EINVAL (fn is NULL), -ENOMEM (no thread can be started, too),
 * -EMFILE; then fn is not called
 */
DLBUF_API int dlbuf_fence_notify(int fence, void (*fn)(void *data), void *data);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_FENCE_H */
