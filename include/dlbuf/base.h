/* SPDX-License-Identifier: MIT */
/*
 * Definitions that all other headers use: version, error codes and error text,
 * ownership, threads, fork(), option structs, access modes, log.
 *
 * Errors. A function returns 0 or a negative errno. It writes its results
 * through its last arguments, and only on success. Its comment lists its codes.
 * These codes are not in every list: -ENOMEM, -EMFILE and -ENFILE of a function
 * that makes an object, -ENOSYS of a function that was left out of this
 * library, and -ESTALE. Each code has one meaning:
 *
 *   -EINVAL      an argument is wrong and can never be right
 *   -EBADF       an fd is not open, or should be a dma-buf, a memfd or a syncobj
 *                and is not
 *   -ENOTTY      an fd or a node is not of V4L2
 *   -EACCES      the access is not allowed: the fd was not opened for it, the owner
 *                of the tensor or frame excludes it, or the process may not open
 *                the device node
 *   -EBUSY       the object is in use, and that use excludes this call
 *   -ENOSYS      the feature was not built into this library
 *   -ENODEV      the driver library or the device is absent
 *   -ENOENT, -ENXIO  the same for a camera's node, as open() reports it
 *   -EOPNOTSUPP  the device, driver or kernel is present and cannot do it
 *   -EPROTO      a message in a socket comes from another program or version
 *   -EPIPE       the other end of the socket is closed
 *   -ENOTCONN, -ECONNREFUSED  the socket has no other end
 *   -EPERM, -ETOOMANYREFS  the kernel lets no fds through the socket, or no more
 *   -ECANCELED   the camera was stopped
 *   -ENODATA     a producer's buffer is empty (dlbuf/interop/)
 *   -ENOSPC      an array of the caller is too small (dlbuf/interop/, dlbuf/prepare.h)
 *   -ERANGE      the bytes are outside the buffer
 *   -EOVERFLOW   a product or a sum does not fit 64 bits
 *   -EAGAIN      the call would block, and the caller asked it not to; or a point
 *                has no fence yet (dlbuf/syncobj.h). A temporary lack of resources
 *                (no thread can be started) is -ENOMEM
 *   -ETIME       the deadline passed before the fences signalled, or before there
 *                was a message or a frame
 *   -ESTALE      the object belongs to the parent process, see Fork
 *   -EIO         a driver or the kernel failed, or work ended with an error
 *   -ENOMEM      no memory is left
 *   -ENOBUFS     the kernel has no memory for a message
 *   -EMFILE, -ENFILE  no fd is left, in the process or on the machine
 *
 * Ownership. Five words have a fixed meaning:
 *
 *   borrowed     dlbuf uses the object during the call; it stays yours
 *   duplicated   borrowed, and dlbuf keeps its own duplicate
 *   taken        dlbuf owns the object now, even when the call fails. Only
 *                functions that close or destroy an object take it
 *   new          the result is yours: close or free it
 *   peeked       the result belongs to the library: read it, do not close it
 *
 * A function that is "pure" only computes: it makes no system call, allocates
 * nothing and never blocks.
 *
 * Threads. You may call every function from any thread at any time, unless its
 * comment says otherwise. Only one thread at a time may use a tensor;
 * dlbuf_tensor_share() makes a second tensor for a second thread.
 *
 * Cancellation. No function is a cancellation point, even if it waits: use a
 * deadline.
 *
 * Fences. A fence is the fd of a sync_file. As an argument or a result of a function,
 * -1 is a fence that has signalled, and 0 is an fd like any other. A member `fence` of
 * a struct that the caller fills in (dlbuf_acquire_opts, dlbuf_frame) means none with
 * -1 and with 0, so that zeroed members are the defaults: duplicate a sync_file whose
 * fd is 0.
 *
 * Fork. A child of fork() cannot use objects of its parent. Calls with the
 * parent's devices, tensors and cameras return -ESTALE, closing or deleting them
 * does nothing, and the parent's leases and notifications do not fire in the
 * child. No call hangs, whatever the threads of the parent did during the fork(),
 * except in a driver that the parent has used without dlbuf: see the device's header.
 * The child opens its own devices and imports with them, but a driver may refuse
 * that (CUDA does). Mappings of CPU tensors and fds stay in the child, and keep
 * their memory alive, until the child calls exec() or ends. The child may
 * destroy pools and call dlbuf_pool_frame(); closing a camera closes the child's
 * fds of it. If a callback of dlbuf_device_each(), dlbuf_exporter_each() or
 * dlbuf_probe() forks, it must not return in the child.
 *
 * Options. A struct of options begins with its size, which DLBUF_OPTS() fills
 * in. A member that is zero has its default. An older library accepts a larger
 * struct of a newer header only if all members that it does not know are zero;
 * otherwise it returns -EINVAL. A NULL pointer means all defaults.
 *
 * Environment. DLBUF_LOG is the level of messages on standard error: none, error, warn,
 * info or debug; the default is warn. A file to open instead of the usual library:
 * DLBUF_VULKAN_LIBRARY (libvulkan.so.1), DLBUF_CUDA_LIBRARY (libcuda.so.1),
 * DLBUF_GLES_LIBRARY (libEGL.so.1),
 * DLBUF_HEXAGON_LIBRARY (libcdsprpc.so.1, libadsprpc.so.1 and so on),
 * DLBUF_HIP_LIBRARY (libamdhip64.so.N), DLBUF_HIPRTC_LIBRARY (libhiprtc.so.N),
 * DLBUF_LEVELZERO_LIBRARY (libze_loader.so.1), DLBUF_OPENCL_LIBRARY (libOpenCL.so.1).
 * Setuid programs ignore all of these.
 *
 * Structs without a size do not change while the soname stays the same. An addition
 * needs a new struct or function. A member `reserved` is 0. docs/abi.md has all rules.
 */
#ifndef DLBUF_BASE_H
#define DLBUF_BASE_H

#include <stddef.h>
#include <stdint.h>

#define DLBUF_VERSION_MAJOR 0
#define DLBUF_VERSION_MINOR 2
#define DLBUF_VERSION_PATCH 0

#define DLBUF_API __attribute__((visibility("default")))

/*
 * Declares and fills a struct of options:
 *	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ);
 * C only. In C++: struct dlbuf_import_opts opts = {}; opts.size = sizeof(opts);
 */
#define DLBUF_OPTS(type, ...) DLBUF_OPTS_(type, __VA_ARGS__, )
#define DLBUF_OPTS_(type, name, ...) \
	struct type name = { .size = sizeof(struct type), __VA_ARGS__ }

/* Declares a struct that a function fills in: DLBUF_INFO(dlbuf_tensor_info, i); */
#define DLBUF_INFO(type, name) struct type name = { .size = sizeof(struct type) }

#ifdef __cplusplus
extern "C" {
#endif

/* How memory is used. The values are those of DMA_BUF_SYNC_READ and _WRITE. */
enum dlbuf_access {
	DLBUF_READ = 1,
	DLBUF_WRITE = 2,
	DLBUF_RW = 3,
};

/* Returns the library's version at run time, "major.minor.patch". Static. */
DLBUF_API const char *dlbuf_version(void);

/*
 * Returns the error text of the last negative errno that a dlbuf function
 * returned on this thread: the cause, and if a call of the kernel or of a driver
 * failed, its name and its error. Peeked: valid
 * until this thread calls dlbuf again or ends. "" if nothing has failed, or if
 * there was no memory for the text.
 */
DLBUF_API const char *dlbuf_last_error(void);

/*
 * Sets that error text and returns err, a negative errno, or -EINVAL if err is not
 * negative. For adapters that refuse something before they call the library, such
 * as those in dlbuf/interop. fmt is as for printf(); a control character becomes a
 * question mark.
 */
DLBUF_API int dlbuf_fail(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The compiler sees that the result of dlbuf_fail() is negative. */
static inline int dlbuf_failure_(int err)
{
	return err < 0 ? err : -22;	/* -EINVAL */
}
#define dlbuf_fail(err, ...) dlbuf_failure_(dlbuf_fail(err, __VA_ARGS__))

enum dlbuf_log_level {
	DLBUF_LOG_NONE = 0,
	DLBUF_LOG_ERROR = 1,	/* data or work was lost */
	DLBUF_LOG_WARN = 2,	/* a driver is present and misbehaves */
	DLBUF_LOG_INFO = 3,	/* which choice the library made, and why */
	DLBUF_LOG_DEBUG = 4,	/* every import, cache hit and eviction */
};

/*
 * Sends the library's log messages of this level and all more severe levels to
 * fn. text is peeked: one line, without a newline. fn is called on any thread
 * that is inside dlbuf, and must not call dlbuf. fn == NULL restores the
 * default: standard error, at the level that the environment variable DLBUF_LOG
 * names (none, error, warn, info, debug; default warn).
 *
 * Call it before other threads use dlbuf; otherwise the old fn may still get
 * messages for a short time. Never fails.
 */
typedef void (*dlbuf_log_fn)(void *data, enum dlbuf_log_level level,
			     const char *text);
DLBUF_API void dlbuf_log_set(dlbuf_log_fn fn, void *data,
			     enum dlbuf_log_level level);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_BASE_H */
