/* SPDX-License-Identifier: MIT */
/*
 * Sends tensors and frames to another process over a Unix socket. The bytes of
 * the tensors are not sent: a message has a description of some hundred bytes and
 * the fds of the dma-bufs (SCM_RIGHTS). The receiver need not trust the sender:
 * it checks the whole message before it imports anything.
 *
 *	if (dlbuf_send(sock, &t, 1, NULL))
 *		errx(1, "%s", dlbuf_last_error());
 *
 * The process at the other end:
 *
 *	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
 *	uint32_t n;
 *
 *	if (dlbuf_recv(cpu, sock, NULL, t, &n, NULL))
 *		errx(1, "%s", dlbuf_last_error());
 *
 * Sockets. AF_UNIX of these types:
 *
 *	SOCK_SEQPACKET  recommended: each side detects that the other side has ended
 *	SOCK_DGRAM      must be connected. The receiver does not detect that the
 *			sender has ended. If the receiver has ended when the
 *			sender sends, the kernel drops the earlier messages
 *
 * Both types deliver a message whole, with its fds, or not at all. So no peer
 * can stop in the middle of a message, and the message after an invalid one can
 * be received. SOCK_STREAM cannot guarantee this and is refused.
 *
 * Leases. An fd keeps the memory alive but not the pixels, so the sender must not
 * reuse a buffer that the receiver still reads. For a frame with a lease, and for
 * tensors of such a frame, each message contains one end of a pipe. The library
 * of the receiver closes that end when the last tensor is deleted and the last
 * access is complete; the kernel closes it if the receiver dies. Then the library
 * of the sender fires the lease, on its event thread. A receiver that keeps a
 * tensor keeps the buffer, and the sender cannot take it back.
 *
 * Leases and fork(). A child of fork() does not hold its parent's leases, neither a
 * sender's nor a receiver's: in the child the library closes the pipes. So a lease waits
 * only for the parent's tensors. If the child of a receiver reads the memory that it has
 * inherited, the parent must not delete the tensors before the child has finished; it is
 * better to send the tensors to the child. The library does not notice clone() and
 * vfork(): such a child keeps the pipes until exec().
 *
 * Order. The fences of a dma-buf belong to it, so the receiver acquires as usual.
 * The frame's own fence is sent too. Release a tensor that you wrote before you
 * send it: writes of the CPU have no fence.
 *
 * Access. A received tensor has the access of the sent tensor, or less. Only this
 * library enforces the limit: another receiver can do everything that the fd was
 * opened for. To be safe, send an import of a read-only fd.
 *
 * Messages are for one machine, in its byte order. Programs of 32 and 64 bits can
 * exchange them. Another version of the library accepts a message or returns
 * -EPROTO.
 *
 * Closing a peer's fds. dlbuf_recv() closes the fds of a message that fails. Closing
 * some files blocks, also with DLBUF_SOCKET_DONTWAIT or a deadline. The library
 * removes SO_LINGER from a socket before it closes it, and holds no lock. These limits
 * remain, as for every program that receives fds:
 *   - using or closing a file of a network file system, or of one in user space, waits
 *     for that file system; closing a terminal may wait for its output;
 *   - closing a socket still waits if the peer also has this socket open and sets SO_LINGER
 *     again between the library's setsockopt() and close(). It also waits if the peer has
 *     sent a Unix socket, and the socket with SO_LINGER is in a message in that socket's
 *     queue. While a thread of the peer locks the socket, e.g. in a page fault,
 *     setsockopt() and close() wait for that thread;
 *   - if the process has no room for all fds of a message (-EMFILE), the kernel closes
 *     the rest of them in recvmsg(). The library holds a lock during recvmsg(), so
 *     other calls of dlbuf_recv(), the end of leases and fork() wait, too;
 *   - when you close your socket, the kernel closes the fds of the unread messages.
 * A process that must not wait should let another process receive from untrusted
 * peers.
 *
 * Specification: unix(7), cmsg(3); docs/wire.md has the messages.
 */
#ifndef DLBUF_SOCKET_H
#define DLBUF_SOCKET_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/frame.h>
#include <dlbuf/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_socket_opts {
	size_t size;
	/*
	 * Options for the imports of dlbuf_recv(), borrowed. view and flags are
	 * used for frames; tensors keep the sender's layout. access 0 means the
	 * access that both the sender's tensor and the fd allow.
	 */
	const struct dlbuf_import_opts *import;
	/*
	 * CLOCK_MONOTONIC nanoseconds. A call that must wait longer fails with
	 * -ETIME, also on a non-blocking socket. 0 means no deadline; a time in
	 * the past means: try without waiting. The library ignores the socket's
	 * own timeouts.
	 */
	uint64_t deadline_ns;
	uint32_t flags;		/* DLBUF_SOCKET_... */
	uint32_t reserved;	/* 0 */
};

/* As if the socket were non-blocking. A deadline_ns that is not 0 has priority. */
#define DLBUF_SOCKET_DONTWAIT	(1u << 0)

/*
 * Sends at most DLBUF_MAX_PLANES tensors of dlbuf, of any devices, as one
 * message. Tensors of one import share one fd.
 *
 * sock and tensors are borrowed: you may delete your tensors afterwards. If a
 * tensor belongs to a frame with a lease, or is a copy, the library keeps a share
 * of it until the receiver is done, and deletes the share on its event thread.
 *
 * Blocks while the socket is full, and while devices with DLBUF_SYNC_EVENT still
 * work on the dma-bufs, unless the socket is non-blocking. On failure nothing is
 * sent.
 * -EAGAIN        it would block
 * -ETIME         the deadline passed
 * -EPIPE         the other side has closed the socket; no SIGPIPE is raised
 * -EINVAL        not tensors of dlbuf, or their ndim, shape or strides were changed, none
 *                or too many, sock is not a Unix socket of these types, bad opts
 * -EBADF         sock is not open
 * -ENOTCONN      sock is not connected
 * -ETOOMANYREFS  this user has more fds in unread messages than RLIMIT_NOFILE;
 *                privileged processes have no such limit
 * -EPERM         the receiver accepts no fds (SO_PASSRIGHTS), or is connected to
 *                another socket
 * -ENOMEM        also: the thread that waits for the receiver cannot be started
 * -EIO, -ENOBUFS  the kernel failed, or has no memory for the message
 * -EIO           also: work on a dma-buf has failed, as for dlbuf_acquire()
 */
DLBUF_API int dlbuf_send(int sock, DLManagedTensorVersioned *const tensors[],
			 uint32_t ntensors, const struct dlbuf_socket_opts *opts);

/*
 * Sends a frame with all its metadata. The receiver chooses the view.
 *
 * frame, its fds and its fence are borrowed. The lease is called exactly once,
 * when the receiver is done, on the library's event thread, perhaps before this
 * call returns. It is not called if this call fails. Blocks like dlbuf_send().
 * -EINVAL  also: no planes or too many, values that no frame can have, release and
 *          lease, or a fence that is not a sync_file. The receiver checks that the
 *          dma-bufs are large enough for the format
 * -EBADF   also: a plane's fd or the fence is not open, or a plane's fd is not a dma-buf
 * -EACCES  the dma-bufs have no access in common: one is read-only, one write-only
 * -ERANGE  a plane begins after the end of its dma-buf
 * and the errors of dlbuf_send().
 */
DLBUF_API int dlbuf_send_frame(int sock, const struct dlbuf_frame *frame,
			       const struct dlbuf_socket_opts *opts);

/*
 * Receives one message and imports it on dev: as many tensors as were sent, or
 * the tensors that dlbuf_import_frame() makes of a frame.
 *
 * sock and opts are borrowed. tensors has room for DLBUF_MAX_PLANES; they are new
 * and *ntensors is their number. Either all tensors are made or none.
 *
 * frame may be NULL. Otherwise the caller sets frame->size, and the call describes
 * the received frame. Its planes' fds are peeked: they belong to the tensors, or
 * are -1 if no tensor has that plane. *frame has no lease, and no fence, because
 * the fence is now in the dma-bufs. If the message has tensors and no frame,
 * nplanes is 0.
 *
 * When the last tensor of an import of this call is deleted, the device drops the
 * import, so that nothing of a message remains. With DLBUF_IMPORT_KEEP in
 * opts->import the import stays idle in the cache, as for dlbuf_import(). Then a
 * sender's few buffers are imported once and not for each message, and the receiver
 * keeps the memory of up to cache_max_idle buffers.
 *
 * Blocks until there is a message, unless the socket is non-blocking. Signals do
 * not interrupt it. Does not wait for fences, unless the kernel cannot add the
 * frame's fence to the dma-bufs, see dlbuf_import_frame().
 *
 * The arguments are checked first: if they are wrong, the message stays in the
 * socket. Later failures lose the message: the call closes its fds, the sender's
 * lease fires, and the next message can be received.
 * -EAGAIN   there is no message and the socket is non-blocking
 * -ETIME    the deadline passed without a message
 * -EPIPE    the other side has closed the socket and all messages are read, or
 *           the socket is shut down for reading
 * -EPROTO   the packet is not a message of dlbuf (an empty packet, for example),
 *           or its fds do not match it
 * -EBADF    an fd of the message is not a dma-buf, or sock is not open
 * -ENOTCONN  sock is not connected. A SOCK_DGRAM socket is no longer connected after
 *            a send that returned -EPIPE because the peer has ended
 * -EACCES   the requested access is more than the sender allows
 * -EMFILE   the process has no room for the fds of the message
 * -EINVAL   sock is not a Unix socket of these types, bad opts, no such view,
 *           frame->size is not set, a NULL
 * and the errors of dlbuf_import() and dlbuf_import_frame(), e.g. -ERANGE for
 * bytes outside the dma-buf.
 */
DLBUF_API int dlbuf_recv(struct dlbuf_device *dev, int sock,
			 const struct dlbuf_socket_opts *opts,
			 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
			 uint32_t *ntensors, struct dlbuf_frame *frame);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SOCKET_H */
