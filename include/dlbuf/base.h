/* SPDX-License-Identifier: MIT */
/*
 * What every other header of dlbuf uses: the version, the words that have one
 * meaning, access, and the sentence behind an error.
 *
 * Errors. Functions return 0 or a negative errno. Results come back through
 * the last argument and are written on success only. A code means one thing:
 *
 *   -EINVAL      the caller's mistake: an argument that can never be right
 *   -EBADF       the file descriptor is not open, or not a dma-buf
 *   -EACCES      the file descriptor was not opened for that access
 *   -EBUSY       in use in a way that excludes this use
 *   -ENOSYS      not built into this library
 *   -ENODEV      the driver library or the device is absent
 *   -EOPNOTSUPP  present, but cannot
 *   -EPROTO      not the language that is spoken here: a tensor of another
 *                DLPack major version, a message that is none
 *   -EPIPE       the other end of a socket is closed
 *   -ERANGE      outside the buffer
 *   -EOVERFLOW   a product or a sum does not fit 64 bits
 *   -EAGAIN      not yet: the call would block and was not to. Nothing else: a
 *                system that lacks a resource for now, a thread, is -ENOMEM
 *   -ETIME       the deadline passed before the fences
 *   -ESTALE      of the process that forked this one
 *   -EIO         a driver failed
 *   -ENOMEM, -EMFILE and others of the system, as the system said them
 *
 * Ownership. Five words, used in no other sense:
 *
 *   borrowed     used during the call, still yours
 *   duplicated   borrowed, and dlbuf keeps a duplicate of its own
 *   taken        given away to dlbuf, also when the call fails; only by
 *                functions named _take
 *   new          the result is yours to close or free
 *   peeked       the result stays the library's: look, do not close
 *
 * Threads. Every function may be called from any thread at any time, except
 * where its comment names a restriction. One tensor is used by one thread at
 * a time; dlbuf_tensor_share() makes another for another thread.
 *
 * Fork. In a child of fork() nothing of the parent's works: its devices and
 * tensors give -ESTALE, closing and deleting them does nothing, and its leases
 * and notifications do not fire there. No call hangs, whatever the parent's
 * threads were doing. The child opens devices of its own and imports with them;
 * a driver may refuse that (CUDA's does). The CPU's tensors stay mapped, and fds
 * stay open, with what they keep alive, until the child calls exec() or ends. A
 * pool can be destroyed, and describes its frames. A callback of
 * dlbuf_device_each(), dlbuf_exporter_each() or dlbuf_probe() that forks must not
 * return in the child.
 *
 * Options. A struct of options begins with its size, filled in by
 * DLBUF_OPTS(); what is zero is the default. A library that is older than the
 * caller's header accepts the part it does not know only when it is all zero,
 * else -EINVAL. NULL stands for all defaults.
 */
#ifndef DLBUF_BASE_H
#define DLBUF_BASE_H

#include <stddef.h>
#include <stdint.h>

#define DLBUF_VERSION_MAJOR 0
#define DLBUF_VERSION_MINOR 1
#define DLBUF_VERSION_PATCH 0

#define DLBUF_API __attribute__((visibility("default")))

/*
 * Declares and fills a struct of options:
 *	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ);
 * C only. In C++: struct dlbuf_import_opts opts = {}; opts.size = sizeof(opts);
 */
#define DLBUF_OPTS(type, name, ...) \
	struct type name = { .size = sizeof(struct type), __VA_ARGS__ }

/* Declares a struct that a function fills in: DLBUF_INFO(dlbuf_tensor_info, i); */
#define DLBUF_INFO(type, name) struct type name = { .size = sizeof(struct type) }

#ifdef __cplusplus
extern "C" {
#endif

/* How memory is used; the numbers are those of DMA_BUF_SYNC_READ and _WRITE. */
enum dlbuf_access {
	DLBUF_READ = 1,
	DLBUF_WRITE = 2,
	DLBUF_RW = 3,
};

/* The library's version at run time, "major.minor.patch". Static. */
DLBUF_API const char *dlbuf_version(void);

/*
 * The sentence behind the last negative errno that a dlbuf function returned
 * on this thread: which call of which driver said what. Peeked; it stands
 * until the next failure on this thread. "" when nothing has failed yet.
 */
DLBUF_API const char *dlbuf_last_error(void);

/*
 * Writes that sentence, for adapters that refuse something before the library
 * sees it, such as those under dlbuf/interop, and returns err, a negative
 * errno. fmt as for printf(); a control character becomes a question mark.
 */
DLBUF_API int dlbuf_fail(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Tells the compiler that a failure is one: the caller's results are unset. */
static inline int dlbuf_failure_(int err)
{
	if (err >= 0)
		__builtin_unreachable();
	return err;
}
#define dlbuf_fail(err, ...) dlbuf_failure_(dlbuf_fail(err, __VA_ARGS__))

enum dlbuf_log_level {
	DLBUF_LOG_NONE = 0,
	DLBUF_LOG_ERROR = 1,	/* something was lost */
	DLBUF_LOG_WARN = 2,	/* a driver that is present misbehaves */
	DLBUF_LOG_INFO = 3,	/* what was chosen and why */
	DLBUF_LOG_DEBUG = 4,	/* every import, hit and eviction */
};

/*
 * Sends the library's messages to fn, up to and including level. The text is
 * one line without a newline and is the library's (peeked). fn may be called
 * on any thread that is inside dlbuf and must not call dlbuf itself. NULL
 * goes back to the default: standard error, at the level that the environment
 * variable DLBUF_LOG names (none, error, warn, info, debug; default warn).
 *
 * Set it before other threads use dlbuf, or live with messages on the old fn
 * for a moment. Never fails.
 */
typedef void (*dlbuf_log_fn)(void *data, enum dlbuf_log_level level,
			     const char *text);
DLBUF_API void dlbuf_log_set(dlbuf_log_fn fn, void *data,
			     enum dlbuf_log_level level);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_BASE_H */
