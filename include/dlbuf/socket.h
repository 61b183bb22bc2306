/* SPDX-License-Identifier: MIT */
/*
 * Tensors and frames to another process, over a Unix socket: the bytes stay
 * where they are, what travels is a description of some hundred bytes and the
 * dma-bufs' fds (SCM_RIGHTS). Nobody needs to trust the other side: a message
 * is looked at as a whole before anything is made of it.
 *
 *	dlbuf_send(sock, &t, 1, NULL);			// one process
 *
 *	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];	// another
 *	uint32_t n;
 *	if (dlbuf_recv(cpu, sock, NULL, t, &n, NULL))
 *		errx(1, "%s", dlbuf_last_error());
 *
 * Sockets. AF_UNIX of these types:
 *
 *	SOCK_SEQPACKET  the best one: the end of the connection is seen
 *	SOCK_DGRAM      connected; the end is not seen, and when a send finds the
 *	                peer gone the kernel drops what it has sent before
 *
 * Both keep a message and its fds together: it comes whole or not at all, no
 * peer can stop in the middle of one, and after anything that is no message the
 * next one is received as ever. SOCK_STREAM does not and is refused: ask
 * socketpair() or socket() for SOCK_SEQPACKET, which is otherwise the same.
 *
 * Leases. An fd keeps the memory alive, not the pixels. So a frame with a lease,
 * and a tensor over one, are not given back by the sender before the receiver is
 * done: a pipe's end goes with the message and is closed when the receiver's
 * last tensor is deleted and the last access to it complete, by the kernel if
 * the receiver dies, and the sender's library waits for that on its event
 * thread. A receiver that keeps a tensor keeps the buffer, as a consumer in the
 * same process does; and one that never gives it back cannot be made to. A child
 * that either side forks keeps the pipe's end until it calls exec() or ends.
 *
 * Order. The dma-buf's fences travel with it, and the receiver acquires as
 * everybody does. Release what you have written before you send it: the CPU's
 * writes have no fence. A frame's own fence is sent, too.
 *
 * Access. A tensor arrives with the access that it had, or less. That binds a
 * receiver which keeps to it; one that does not can do with the fd what the fd
 * was opened for. To be sure send what was imported from a read-only fd.
 *
 * Messages are of this machine, in its byte order. Programs of 32 and 64 bits
 * understand each other; versions of the library do or say -EPROTO. Closing an
 * fd that a peer has sent, as any use of it, may block if it is one of a file
 * system in user space: that is so for every program that takes fds.
 *
 * Specification: unix(7), cmsg(3).
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
	 * CLOCK_MONOTONIC nanoseconds after which a call that has to block
	 * gives up with -ETIME, on a non-blocking socket too; 0 means never. A
	 * moment in the past asks without waiting. The socket's own timeouts
	 * are not looked at.
	 */
	uint64_t deadline_ns;
	uint32_t flags;		/* DLBUF_SOCKET_... */
	uint32_t reserved;
	/*
	 * Of dlbuf_recv(), borrowed: how what comes is imported. view and flags
	 * are for frames; tensors come as they are. access 0 means all that the
	 * sender's tensor and the fd allow.
	 */
	const struct dlbuf_import_opts *import;
};

#define DLBUF_SOCKET_DONTWAIT	(1u << 0)	/* as if it were non-blocking */

/*
 * Sends tensors of dlbuf, of any device, as one message: DLBUF_MAX_PLANES of
 * them at most. Those over the same import share an fd.
 *
 * sock and tensors are borrowed: delete yours whenever you like. Of tensors
 * over a frame with a lease, or over a copy, the library keeps a share until
 * the receiver is done, and deletes it on its event thread.
 *
 * Blocks while the socket is full, and while work on the dma-bufs of devices of
 * DLBUF_SYNC_EVENT goes on, unless the socket is non-blocking. On failure
 * nothing is sent.
 * -EAGAIN        it would block
 * -ETIME         the deadline passed
 * -EPIPE         the other side has closed the socket. There is no SIGPIPE
 * -EINVAL        not tensors of dlbuf, none or too many, sock is no Unix socket
 *                of these types, bad opts
 * -EBADF         sock is not open
 * -ENOTCONN      sock is not connected
 * -ETOOMANYREFS  more fds of this user are on their way, sent and not received,
 *                than RLIMIT_NOFILE; privileged processes have no such limit
 * -EPERM         the receiver takes no fds (SO_PASSRIGHTS), or is connected to
 *                somebody else
 * -ENOMEM        also: the thread that waits for the receiver cannot be started
 * -EMFILE, and others of sendmsg()
 */
DLBUF_API int dlbuf_send(int sock, DLManagedTensorVersioned *const tensors[],
			 uint32_t ntensors, const struct dlbuf_socket_opts *opts);

/*
 * Sends a frame, all that is said of it: the receiver chooses the view.
 *
 * frame, its fds and its fence are borrowed. Its lease is as with
 * dlbuf_import_frame(): called exactly once, when the receiver is done, on the
 * library's event thread, perhaps before this returns; not when this fails.
 * Blocks as above.
 * -EINVAL  also: no or too many planes, or what no frame can have. The format
 *          is the receiver's to understand
 * -EBADF   also: a plane's fd or the fence is not open
 * and as above.
 */
DLBUF_API int dlbuf_send_frame(int sock, const struct dlbuf_frame *frame,
			       const struct dlbuf_socket_opts *opts);

/*
 * Receives one message and imports what is in it on dev: as many tensors as
 * were sent, or those of a frame as dlbuf_import_frame() makes them.
 *
 * sock and opts are borrowed. tensors has room for DLBUF_MAX_PLANES; they are
 * new and *ntensors says how many. All of them or none. frame, which may be
 * NULL and whose size the caller sets, says what is known of a frame: its
 * planes' fds are peeked, those of the tensors, or -1 for a plane that has none;
 * it has no lease and no fence, which is on its dma-bufs now. Of tensors its
 * nplanes is 0.
 *
 * An import that this call makes goes with its last tensor, so that nothing of a
 * message stays when the sender and the tensors are gone. DLBUF_IMPORT_KEEP in
 * opts->import keeps it idle instead, as dlbuf_import() does: a sender's few
 * buffers are then imported once and not with each message, and the receiver
 * holds the memory of up to cache_max_idle of them.
 *
 * Blocks until a message comes, unless the socket is non-blocking; signals
 * interrupt nothing. Does not wait for fences, except where the kernel cannot
 * attach the frame's, see dlbuf_import_frame().
 *
 * The arguments are checked first: what they are refused for takes no message
 * off the socket. After that a message that fails is gone, all fds that came
 * are closed and the sender's lease is over; the next one can be received.
 * -EAGAIN   there is no message and the socket is non-blocking
 * -ETIME    the deadline passed without one
 * -EPIPE    the other side has closed the socket, and all messages are read;
 *           or the socket is shut down for reading
 * -EPROTO   what came is no message, an empty packet for instance, or its fds
 *           are not those it speaks of
 * -EBADF    what it calls a dma-buf is none, or sock is not open
 * -EACCES   access was asked for that the sender does not give
 * -EMFILE   there is no room for its fds
 * -EINVAL   sock is no Unix socket of these types, bad opts, a view that is
 *           none, frame->size, a NULL
 * and what dlbuf_import() and dlbuf_import_frame() say: -ERANGE for what is not
 * inside its dma-buf.
 */
DLBUF_API int dlbuf_recv(struct dlbuf_device *dev, int sock,
			 const struct dlbuf_socket_opts *opts,
			 DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
			 uint32_t *ntensors, struct dlbuf_frame *frame);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SOCKET_H */
