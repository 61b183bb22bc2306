/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * /dev/dlbuf-lab: dma-bufs and fences that fail when a test asks for it. Only the
 * lab has it (tests/guest/lab --module). tests/harness/lab_module.h has the calls.
 *
 * Each open of the node owns the objects made with it. When it closes, its
 * fences that are still pending end with -ECANCELED, and its buffers do not
 * delay any call any longer.
 */
#ifndef DLBUF_LAB_H
#define DLBUF_LAB_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define DLBUF_LAB_NODE "dlbuf-lab"

/*
 * Makes a dma-buf of zeroes and returns its fd, O_CLOEXEC. `bytes` is rounded
 * up to pages. -EINVAL: no bytes, more than DLBUF_LAB_MAX, an unknown flag.
 */
struct dlbuf_lab_buffer {
	__u64 bytes;
	__u32 flags;
	__u32 pad;
};
#define DLBUF_LAB_MAX	(64u << 20)
#define DLBUF_LAB_NO_MMAP	(1u << 0)	/* mmap() fails: -EOPNOTSUPP */
#define DLBUF_LAB_BUFFER	_IOW('L', 0, struct dlbuf_lab_buffer)

/*
 * Makes a pending fence and returns a sync_file of it, O_CLOEXEC. Each fence
 * has a context of its own: no merge drops it for another. It never expires.
 */
#define DLBUF_LAB_FENCE		_IO('L', 1)

/*
 * Ends the fence of a sync_file: signalled when `error` is 0, failed when it
 * is a negative errno. -EALREADY: it has ended. -EINVAL: no such fence (that
 * of a merged sync_file is none), or no errno.
 */
struct dlbuf_lab_signal {
	__s32 sync_file;
	__s32 error;
};
#define DLBUF_LAB_SIGNAL	_IOW('L', 2, struct dlbuf_lab_signal)

/*
 * The behaviour of begin_cpu_access of a dma-buf from now on, and so of
 * DMA_BUF_IOCTL_SYNC with START. First it waits for `hold_ms`, interruptibly,
 * or until another call of this ioctl sets 0. Then it fails with `error`, a
 * negative errno, `times` times.
 */
struct dlbuf_lab_begin {
	__s32 fd;
	__s32 error;
	__u32 times;
	__u32 hold_ms;
};
#define DLBUF_LAB_FOREVER	0xffffffffu	/* times or ms */
#define DLBUF_LAB_BEGIN		_IOW('L', 3, struct dlbuf_lab_begin)

/*
 * Takes the memory away from a dma-buf, for good: accesses to its mappings
 * raise SIGBUS, and begin_cpu_access and mmap() fail with -ENODEV. The argument
 * points to the fd.
 */
#define DLBUF_LAB_REVOKE	_IOW('L', 4, __s32)

/* Counts of calls of the dma-buf's functions; `holding`: threads that are in
 * begin_cpu_access now; `mapped`: mappings that exist now. */
struct dlbuf_lab_count {
	__s32 fd;
	__u32 begin, end, mmap;
	__u32 holding, mapped;
};
#define DLBUF_LAB_COUNT		_IOWR('L', 5, struct dlbuf_lab_count)

#endif /* DLBUF_LAB_H */
