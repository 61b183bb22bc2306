// SPDX-License-Identifier: MIT
/* Sends and receives tensors and frames, with their fds, over a Unix socket. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/fence.h>
#include <dlbuf/socket.h>

#include "../access/lease.h"
#include "../access/pending.h"
#include "../dmabuf/buffer.h"
#include "../dmabuf/fence.h"
#include "../frame/frame.h"
#include "../import/backend.h"
#include "../system/event.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../tensor/sync.h"
#include "../tensor/tensor.h"
#include "message.h"
#include "socket.h"

/* A call on a socket. */
struct call {
	int sock;
	bool wait;		/* block for room, or for a message */
	bool late;		/* the deadline has passed; one more try follows */
	unsigned int resets;	/* calls that failed with ECONNRESET */
	bool shut;		/* the socket is shut down: no more messages will come */
	uint64_t deadline_ns;	/* as for poll_until() */
	struct envelope *envelope;	/* or NULL */
	struct dlbuf_device *but;	/* the call does not wait for its work */
	DLManagedTensorVersioned *const *tensors;	/* to be sent */
	uint32_t ntensors;
};

/* ---------------------------------------------------------------- sockets */

static int socket_option(int sock, int option, int *value)
{
	socklen_t size = sizeof(*value);

	if (!fault_hit() &&
	    !getsockopt(sock, SOL_SOCKET, option, value, &size))
		return 0;
	if (errno == ENOTSOCK)
		return fail(-EINVAL, "fd %d is no socket", sock);
	return fail_errno("fd %d: getsockopt()", sock);
}

static int call_begin(struct call *c, int sock,
		      const struct dlbuf_socket_opts *o)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);
	int domain, type, flags, ret;

	ret = socket_option(sock, SO_DOMAIN, &domain);
	if (!ret)
		ret = socket_option(sock, SO_TYPE, &type);
	if (ret)
		return ret;
	if (domain == AF_UNIX && type == SOCK_STREAM)
		return fail(-EINVAL, "socket %d is of type SOCK_STREAM, which "
			    "does not keep a message and its fds together: "
			    "create it with SOCK_SEQPACKET", sock);
	if (domain != AF_UNIX ||
	    (type != SOCK_SEQPACKET && type != SOCK_DGRAM))
		return fail(-EINVAL, "fd %d is a socket of domain %d and type "
			    "%d, which carries no fds", sock, domain, type);
	/* Any process may send to a datagram socket that is not connected. */
	if (getpeername(sock, (struct sockaddr *)&peer, &size))
		return fail_errno("socket %d: getpeername()", sock);
	flags = fcntl(sock, F_GETFL);
	if (flags < 0)
		return fail_errno("fd %d: fcntl(F_GETFL)", sock);
	c->sock = sock;
	c->wait = o->deadline_ns || !(flags & O_NONBLOCK ||
				      o->flags & DLBUF_SOCKET_DONTWAIT);
	c->deadline_ns = o->deadline_ns;
	return 0;
}

static int opts_check(const struct dlbuf_socket_opts *opts,
		      struct dlbuf_socket_opts *o)
{
	int ret = OPTS_GET_RESERVED(o, opts, "dlbuf_socket_opts");

	if (ret)
		return ret;
	if (o->flags & ~DLBUF_SOCKET_DONTWAIT)
		return unknown_flags("socket", o->flags & ~DLBUF_SOCKET_DONTWAIT);
	return 0;
}

/* After EAGAIN: waits, and returns 0 if the system call may be tried again. */
static int call_wait(struct call *c, short events)
{
	short end = events == POLLIN ? POLLRDHUP : 0;
	bool late;
	int ret = poll_until(c->sock, events | end,
			     c->wait ? c->deadline_ns : 1);

	if (ret < 0)
		return ret;
	/*
	 * The other end of a datagram socket is not connected to it. Queued messages are read
	 * first.
	 */
	if (ret & end && c->shut)
		return fail(-EPIPE, "socket %d is shut down", c->sock);
	c->shut = ret & end;
	late = c->late;
	c->late = c->deadline_ns && now_ns() >= c->deadline_ns;
	if (c->shut || (ret && c->wait && !late))
		return 0;
	if (!c->wait)
		return fail(-EAGAIN, "socket %d: %s", c->sock,
			    events == POLLIN ? "there is no message" :
			    "it is full");
	return fail(-ETIME, "socket %d: %s before the deadline", c->sock,
		    events == POLLIN ? "no message came" : "it was full");
}

static int call_failed(const struct call *c, const char *what)
{
	/* Types of sockets differ in the errno for a closed peer. */
	if (errno == EPIPE || errno == ECONNREFUSED || errno == ECONNRESET)
		return fail(-EPIPE, "socket %d is closed at the other side: %s:"
			    " %m", c->sock, what);
	if (errno == ETOOMANYREFS)
		return fail(-ETOOMANYREFS, "socket %d: %s: this user's "
			    "messages that were not received yet have more fds "
			    "than RLIMIT_NOFILE allows", c->sock, what);
	return fail_errno("socket %d: %s", c->sock, what);
}

/* Linux reports a reset once. A peer that causes more resets is limited to this number. */
#define MOST_RESETS 16

/* After a failed system call: 0 if it may be tried again. */
static int call_again(struct call *c, short events, const char *what)
{
	if (errno == EAGAIN)
		return call_wait(c, events);
	return errno == ECONNRESET && c->resets++ < MOST_RESETS ? 0 :
								  call_failed(c, what);
}

/* ---------------------------------------------------------------- fds that no child keeps */

/* A bit for each fd: the pipes of leases, which keep a sender's buffer, and those of backends. */
static uint8_t few[128];
static struct {
	pthread_mutex_t lock;
	uint8_t *bits;
	size_t bytes;
} owned = { PTHREAD_MUTEX_INITIALIZER, few, sizeof(few) };

static void forked(enum fork_side side)
{
	if (side == FORK_BEFORE) {
		pthread_mutex_lock(&owned.lock);
		return;
	}
	for (size_t i = 0; side == FORK_CHILD && i < 8 * owned.bytes; i++)
		if (owned.bits[i / 8] & 1u << i % 8)
			close(i);
	if (side == FORK_CHILD)
		memset(owned.bits, 0, owned.bytes);
	pthread_mutex_unlock(&owned.lock);
}

static struct fork_handler fork_handler = { .fn = forked };

void owned_lock(void)
{
	fork_handle(&fork_handler);
	pthread_mutex_lock(&owned.lock);
}

void owned_unlock(void)
{
	pthread_mutex_unlock(&owned.lock);
}

void owned_add(int fd)
{
	size_t at = fd / 8;
	uint8_t *bits;

	if (fd < 0)
		return;
	if (at >= owned.bytes) {
		bits = sys_calloc(2, at);
		if (!bits)
			return;
		memcpy(bits, owned.bits, owned.bytes);
		if (owned.bits != few)
			free(owned.bits);
		owned.bits = bits;
		owned.bytes = 2 * at;
	}
	owned.bits[at] |= 1u << fd % 8;
}

void owned_close(int fd)
{
	/* Removes the number first, because another file may get it at once. */
	owned_lock();
	if ((size_t)fd / 8 < owned.bytes)
		owned.bits[fd / 8] &= ~(1u << fd % 8);
	owned_unlock();
	close(fd);
}

void foreign_close(int fd)
{
	static const struct linger none;

	/* ENOTSOCK or EBADF for other files. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	owned_close(fd);
}

/* ---------------------------------------------------------------- sending */

/*
 * Room for all control data that Linux has: 253 fds (SCM_MAX_FD), and the credentials, the
 * pidfd, the timestamp and the label, which the application may have enabled. recvmsg()
 * would close fds that do not fit.
 */
union control {
	struct cmsghdr head;
	char room[2048];
};

static void attach_fds(struct msghdr *msg, union control *control,
		       const int fds[], unsigned int n)
{
	struct cmsghdr *c;

	memset(control, 0, CMSG_SPACE(n * sizeof(int)));
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(n * sizeof(int));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
}

static int send_packet(struct call *c, const struct packet *p, const int fds[],
		       unsigned int nfds)
{
	struct iovec iov[2] = { { 0 }, { (void *)p->data, p->bytes } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	union control control;
	int ret = 0;

	if (c->envelope)
		iov[0] = (struct iovec){ c->envelope->data, c->envelope->bytes };
	attach_fds(&msg, &control, fds, nfds);
	while (!ret && sys_sendmsg(c->sock, &msg) < 0)
		ret = call_again(c, POLLOUT, "sendmsg()");
	return ret;
}

/*
 * The lease between processes. The sender keeps the writing end of a pipe, and the
 * receiver gets the reading end. When all reading ends are closed, the writing end
 * reports POLLERR, and the sender's lease fires. The receiver can fire the lease only
 * in this way. The sender closes its own reading end after it has sent the message.
 */
struct hold {
	bool cancelled;		/* atomic; nothing was sent */
	void (*release)(void *data);
	void *data;
	DLManagedTensorVersioned *shares[DLBUF_MAX_PLANES];
};

static void delete_all(DLManagedTensorVersioned *const tensors[])
{
	for (unsigned int i = 0; i < DLBUF_MAX_PLANES; i++)
		if (tensors[i])
			tensors[i]->deleter(tensors[i]);
}

/* Runs on the thread "dlbuf-events". */
static void hold_over(void *data)
{
	struct hold *hold = data;

	if (!__atomic_load_n(&hold->cancelled, __ATOMIC_ACQUIRE)) {
		delete_all(hold->shares);
		if (hold->release)
			hold->release(hold->data);
	}
	free(hold);
}

/* Takes hold on success; *fd is the receiver's end. */
static int hold_open(struct hold *hold, int *fd)
{
	int fds[2], ret;

	owned_lock();
	ret = sys_pipe(fds) < 0 ? fail_errno("pipe2()") : 0;
	if (!ret)
		owned_add(fds[0]);
	owned_unlock();
	if (ret)
		return ret;
	ret = event_add(fds[1], hold_over, hold);
	close(fds[1]);
	if (ret)
		owned_close(fds[0]);
	else
		*fd = fds[0];
	return ret;
}

/*
 * The receiver cannot wait for work without fences, so the sender does. Errors that the
 * tensors have not reported yet are not sent to the receiver.
 */
static int wait_unfenced(const struct call *c, const struct message_head *head,
			 const int fds[])
{
	const struct wait wait = { .dev = c->but, .fence = -1,
				   .deadline_ns = c->wait ? c->deadline_ns : 1 };
	struct use uses[MESSAGE_MAX_BUFFERS];
	int ret;

	for (unsigned int i = 0; i < head->nbuffers; i++)
		uses[i] = (struct use){ fds[i], head->access[i], NULL, NULL };
	ret = sync_wait(c->tensors, c->ntensors, uses, head->nbuffers, &wait, NULL);
	return ret == -ETIME && !c->wait ?
	       fail(-EAGAIN, "%s", dlbuf_last_error()) : ret;
}

/* fds has room for two more. hold is taken; it may be NULL. */
static int send_message(struct call *c, struct packet *p, struct message_head *head,
			int fds[], struct hold *hold)
{
	DLManagedTensorVersioned *shares[DLBUF_MAX_PLANES] = { NULL };
	unsigned int nfds = message_fds(head);
	int ret, end = -1;

	ret = wait_unfenced(c, head, fds);
	if (!ret && hold) {
		ret = hold_open(hold, &end);
		if (!ret) {
			fds[nfds++] = end;
			head->flags |= MESSAGE_HOLD;
		}
	}
	if (c->envelope)
		fds[nfds++] = c->envelope->fd;
	message_end(p, head);
	if (!ret)
		ret = send_packet(c, p, fds, nfds);
	if (ret && hold) {
		/* The shares are deleted by this call, not by the event. */
		memcpy(shares, hold->shares, sizeof(shares));
		if (end >= 0)
			__atomic_store_n(&hold->cancelled, true,
					 __ATOMIC_RELEASE);
		else
			free(hold);
		delete_all(shares);
	}
	if (end >= 0)
		owned_close(end);
	return ret;
}

/*
 * Whether the tensor must live until the receiver is done: it has a lease, or a buffer
 * that the library would use again.
 */
static bool wants_hold(const struct tensor *t)
{
	return (t->lease && t->lease->release) || t->imp->staging;
}

static int hold_shares(DLManagedTensorVersioned *const tensors[], uint32_t n,
		       struct hold **out)
{
	struct hold *hold = sys_calloc(1, sizeof(*hold));
	int ret = 0;

	if (!hold)
		return -ENOMEM;
	for (uint32_t i = 0; !ret && i < n; i++)
		ret = dlbuf_tensor_share(tensors[i], NULL, &hold->shares[i]);
	if (ret) {
		delete_all(hold->shares);
		free(hold);
		return ret;
	}
	*out = hold;
	return 0;
}

/* Finds the import in the message, or adds it; returns its number. */
static unsigned int buffer_of(const struct tensor *t, struct message_head *head,
			      int fds[])
{
	unsigned int i;

	for (i = 0; i < head->nbuffers; i++)
		if (fds[i] == t->imp->fd)
			return i;
	fds[i] = t->imp->fd;
	head->access[i] = t->imp->id.access;
	head->nbuffers++;
	return i;
}

static int send_tensors(struct call *c, int sock,
			DLManagedTensorVersioned *const tensors[],
			uint32_t ntensors, const struct dlbuf_socket_opts *opts)
{
	struct dlbuf_socket_opts o;
	int fds[MESSAGE_MAX_FDS + 1], ret;
	struct hold *hold = NULL;
	struct message_head head;
	bool holds = false;
	struct packet p;

	if (!tensors)
		return fail(-EINVAL, "tensors is NULL");
	if (!ntensors || ntensors > DLBUF_MAX_PLANES)
		return fail(-EINVAL, "a message cannot have %u tensors, 1 to %d "
			    "are possible", ntensors, DLBUF_MAX_PLANES);
	ret = opts_check(opts, &o);
	if (ret)
		return ret;
	message_begin(&p, &head, MESSAGE_TENSORS);
	for (uint32_t i = 0; i < ntensors; i++) {
		struct tensor *t;
		DLTensor layout;

		ret = tensor_of(tensors[i], &t);
		if (ret)
			return ret;
		layout = tensor_layout(t);
		/* Shape and strides are read up to ndim, and sent to another process. */
		if (layout.ndim && (layout.shape != t->dims ||
				    layout.strides != t->dims + layout.ndim))
			return fail(-EINVAL, "ndim, shape or strides of the tensor were "
				    "changed");
		message_put_tensor(&p, &layout, buffer_of(t, &head, fds));
		holds |= wants_hold(t);
	}
	head.ntensors = c->ntensors = ntensors;
	c->tensors = tensors;
	ret = call_begin(c, sock, &o);
	if (!ret && holds)
		ret = hold_shares(tensors, ntensors, &hold);
	return ret ? ret : send_message(c, &p, &head, fds, hold);
}

int dlbuf_send(int sock, DLManagedTensorVersioned *const tensors[],
	       uint32_t ntensors, const struct dlbuf_socket_opts *opts)
{
	NOT_CANCELLED;
	struct call c = { 0 };

	return send_tensors(&c, sock, tensors, ntensors, opts);
}

int socket_send(int sock, DLManagedTensorVersioned *tensor,
		const struct dlbuf_socket_opts *opts, struct envelope *envelope,
		struct dlbuf_device *but)
{
	struct call c = { .envelope = envelope, .but = but };

	return send_tensors(&c, sock, &tensor, 1, opts);
}

/* Collects the planes' fds, each once. */
static void collect_planes(const struct dlbuf_frame *f,
			   struct message_head *head, int fds[],
			   uint8_t buffer[])
{
	for (uint32_t i = 0; i < f->nplanes; i++) {
		unsigned int b = 0;

		while (b < head->nbuffers && fds[b] != f->planes[i].fd)
			b++;
		buffer[i] = b;
		if (b < head->nbuffers)
			continue;
		fds[b] = f->planes[i].fd;
		head->access[b] = f->flags & DLBUF_FRAME_READ_ONLY ? DLBUF_READ :
								     DLBUF_RW;
		head->nbuffers++;
	}
}

/* Parses the message as the receiver will; an error is then the caller's. */
static int check_own(struct packet *p, struct message_head *head)
{
	struct message m;

	message_end(p, head);
	return message_parse(p->data, p->bytes, message_fds(head), &m) ?
	       -EINVAL : 0;
}

/* The receiver refuses these fds, but cannot report this to the sender. */
static int check_files(const struct dlbuf_frame *f, const struct message_head *head,
		       const int fds[], const uint8_t buffer[])
{
	uint64_t bytes[MESSAGE_MAX_BUFFERS];
	uint32_t access = DLBUF_RW;
	struct buffer_id id;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < head->nbuffers; i++) {
		ret = buffer_size(fds[i], fds[i], &bytes[i]);
		if (!ret)
			ret = buffer_identify(fds[i], &id);
		if (!ret)
			access &= id.access & head->access[i];
	}
	if (!ret && !access)
		ret = fail(-EACCES, "the frame's dma-bufs have no access in common");
	for (uint32_t i = 0; !ret && i < f->nplanes; i++)
		if (f->planes[i].offset >= bytes[buffer[i]])
			ret = fail(-ERANGE, "plane %u begins at byte %llu, its dma-buf ends at "
				   "%llu", i, (unsigned long long)f->planes[i].offset,
				   (unsigned long long)bytes[buffer[i]]);
	if (!ret && head->flags & MESSAGE_FENCE)
		ret = fence_check_file(f->fence);
	return ret;
}

static int hold_release(const struct dlbuf_frame *f, struct hold **out)
{
	struct hold *hold = sys_calloc(1, sizeof(*hold));

	if (!hold)
		return -ENOMEM;
	hold->release = f->release;
	hold->data = f->release_data;
	*out = hold;
	return 0;
}

int dlbuf_send_frame(int sock, const struct dlbuf_frame *frame,
		     const struct dlbuf_socket_opts *opts)
{
	NOT_CANCELLED;
	int fds[MESSAGE_MAX_FDS], ret;
	uint8_t buffer[DLBUF_MAX_PLANES];
	struct dlbuf_socket_opts o;
	struct hold *hold = NULL;
	struct message_head head;
	struct call c = { 0 };
	struct dlbuf_frame f;
	struct packet p;

	if (!frame)
		return fail(-EINVAL, "the frame is NULL");
	ret = OPTS_GET(&f, frame, "dlbuf_frame");
	if (!ret)
		ret = frame_check_unused(&f);
	if (!ret)
		ret = opts_check(opts, &o);
	if (ret)
		return ret;
	if (!f.nplanes || f.nplanes > DLBUF_MAX_PLANES)
		return fail(-EINVAL, "the frame has %u planes, 1 to %d "
			    "are possible", f.nplanes, DLBUF_MAX_PLANES);
	message_begin(&p, &head, MESSAGE_FRAME);
	collect_planes(&f, &head, fds, buffer);
	message_put_frame(&p, &f, buffer);
	if (f.order == DLBUF_ORDER_FENCE && f.fence && f.fence != -1) {
		fds[head.nbuffers] = f.fence;
		head.flags |= MESSAGE_FENCE;
	}
	ret = check_own(&p, &head);
	if (!ret)
		ret = lease_share(&f);
	if (ret)
		return ret;
	ret = call_begin(&c, sock, &o);
	if (!ret)
		ret = check_files(&f, &head, fds, buffer);
	if (!ret && f.release)
		ret = hold_release(&f, &hold);
	if (!ret)
		ret = send_message(&c, &p, &head, fds, hold);
	if (ret)
		dlbuf_lease_drop(f.lease);
	return ret;
}

/* ---------------------------------------------------------------- receiving */

/* The bytes and fds received so far. */
struct parcel {
	struct packet packet;
	int fds[MESSAGE_MAX_FDS + 1];
	unsigned int nfds, room;
};

static void close_fds(struct parcel *p)
{
	while (p->nfds)
		foreign_close(p->fds[--p->nfds]);
}

/* fd is taken. */
static int keep_fd(struct parcel *p, int fd)
{
	int ret;

	if (p->nfds == p->room) {
		foreign_close(fd);
		return fail(-EPROTO, "a message came with more than %u fds",
			    p->room);
	}
	ret = raise_fd(fd, &fd);
	if (!ret)
		p->fds[p->nfds++] = fd;
	return ret;
}

#ifndef SCM_PIDFD /* linux/socket.h before 6.5 */
#define SCM_PIDFD 4
#endif

/* Keeps or closes all fds of the control data. Returns the first failure. */
static int take_fds(struct parcel *p, struct msghdr *msg)
{
	struct cmsghdr *c;
	int ret = 0;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET ||
		    (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_PIDFD))
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd, err = 0;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			/* The application has enabled SO_PASSPIDFD; the library does not use it. */
			if (c->cmsg_type == SCM_PIDFD)
				close(fd);
			else
				err = keep_fd(p, fd);
			ret = ret ? ret : err;
		}
	}
	return ret;
}

/*
 * Under the lock. The lease is the last fd, or the last before the envelope's. Only a
 * pipe: closing another file of a peer may block. An fd below 3 is moved later.
 */
static void own_lease(const struct call *call, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	size_t n = 1 + !!call->envelope;
	int fd;

	while (c && (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS))
		c = CMSG_NXTHDR(msg, c);
	if (!c || c->cmsg_len < CMSG_LEN(n * sizeof(fd)))
		return;
	memcpy(&fd, (char *)c + c->cmsg_len - n * sizeof(fd), sizeof(fd));
	if (fd >= 3 && fcntl(fd, F_GETPIPE_SZ) >= 0)
		owned_add(fd);
}

/*
 * Interprets a read of 0 bytes: 0 for an empty packet, 1 to read again, -EPIPE for the
 * end. recvmsg() checks a SOCK_SEQPACKET socket twice: for a packet, then for the sender.
 * If the sender sends and closes between the two checks, Linux also returns 0. The
 * packets are still queued then. An empty packet before them looks the same and is
 * skipped.
 */
static int after_nothing(const struct call *c)
{
	int ret = poll_until(c->sock, POLLRDHUP, 1), queued = 0;

	if (ret < 0 || !(ret & POLLRDHUP))
		return ret < 0 ? ret : 0;
	if (sys_ioctl(c->sock, FIONREAD, &queued) < 0)
		return fail_errno("socket %d: ioctl(FIONREAD)", c->sock);
	return queued ? 1 : fail(-EPIPE, "socket %d is closed at the other "
				 "side", c->sock);
}

/* Takes the envelope's fd, and computes the message's bytes from the packet's n. */
static int open_envelope(const struct call *c, struct parcel *p, size_t n)
{
	struct envelope *e = c->envelope;

	p->packet.bytes = e ? n - e->bytes : n;
	if (!e)
		return 0;
	e->alone = n == e->bytes && !p->nfds;
	if (n < e->bytes || !p->nfds)
		return fail(-EPROTO, "socket %d: a packet of %zu bytes and %u fds "
			    "has no envelope", c->sock, n, p->nfds);
	e->fd = p->fds[--p->nfds];
	return 0;
}

static int receive_packet(struct call *c, struct parcel *p)
{
	struct iovec iov[2] = { { 0 }, { p->packet.data, MESSAGE_MAX_BYTES } };
	union control control;
	struct msghdr msg;
	ssize_t n;
	int ret;

	if (c->envelope)
		iov[0] = (struct iovec){ c->envelope->data, c->envelope->bytes };
	do {
		msg = (struct msghdr){
			.msg_iov = iov,
			.msg_iovlen = 2,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		owned_lock();
		n = sys_recvmsg(c->sock, &msg);
		if (n >= 0)
			own_lease(c, &msg);
		owned_unlock();
		ret = n >= 0 ? 0 : call_again(c, POLLIN, "recvmsg()");
		if (ret)
			return ret;
	} while (n < 0);
	ret = take_fds(p, &msg);
	/* The control data has room for all fds. */
	if (ret == -EMFILE || (!ret && msg.msg_flags & MSG_CTRUNC))
		return fail(-EMFILE, "socket %d: this process has no room for "
			    "the message's fds; this message is lost", c->sock);
	if (ret)
		return ret;
	if (msg.msg_flags & MSG_TRUNC)
		return fail(-EPROTO, "socket %d: a message of more than %zu "
			    "bytes", c->sock, MESSAGE_MAX_BYTES);
	if (!n && !p->nfds)
		ret = after_nothing(c);
	return ret ? ret : open_envelope(c, p, n);
}

static int receive(struct call *c, struct parcel *p)
{
	int ret;

	p->nfds = 0;
	p->room = MESSAGE_MAX_FDS + !!c->envelope;
	do
		ret = receive_packet(c, p);
	while (ret > 0);
	if (ret)
		close_fds(p);
	return ret;
}

/* ---------------------------------------------------------------- importing */

/* A message that is being imported. fds are those of the parcel, in its order. */
struct arrival {
	struct message m;
	struct buffer_id ids[MESSAGE_MAX_BUFFERS];
	uint32_t access[MESSAGE_MAX_BUFFERS];	/* of the import */
	int *fds;
	int hold;		/* or -1 */
};

/* Checks the kinds of the fds before they are used. */
static int check_fds(struct arrival *a, uint32_t want)
{
	const struct message_head *h = &a->m.head;
	uint64_t bytes;
	int ret;

	for (unsigned int i = 0; i < h->nbuffers; i++) {
		uint32_t given;

		ret = buffer_size(a->fds[i], a->fds[i], &bytes);
		if (!ret)
			ret = buffer_identify(a->fds[i], &a->ids[i]);
		if (ret)
			return ret;
		/* As for an import, WRITE means RW. */
		given = (h->access[i] & DLBUF_WRITE ? DLBUF_RW : DLBUF_READ) & a->ids[i].access;
		if (!given || want & ~given)
			return fail(-EACCES, "dma-buf %u of the message is for "
				    "access %u, not %u", i, given, want);
		a->access[i] = want ? want : given;
	}
	/* The lease's fd is closed later, and closing another file may have an effect. */
	if (a->hold >= 0 && fcntl(a->hold, F_GETPIPE_SZ) < 0)
		return fail(-EPROTO, "the message's lease is not a pipe");
	return 0;
}

/* Ends the lease on the receiver's side. */
static void hold_close(void *data)
{
	owned_close((int)(intptr_t)data);
}

/* Imports are destroyed with the message's tensors, unless the caller keeps them. */
static uint32_t paths_of(const struct dlbuf_import_opts *opts)
{
	return import_paths(opts) |
	       (opts->flags & DLBUF_IMPORT_KEEP ? 0 : PATHS_BRIEF);
}

static int import_tensors(struct dlbuf_device *dev, struct arrival *a,
			  const struct dlbuf_import_opts *opts,
			  DLManagedTensorVersioned *tensors[], uint32_t *n)
{
	struct frame_part parts[DLBUF_MAX_PLANES];
	int ret = 0;

	for (uint32_t i = 0; i < a->m.head.ntensors && !ret; i++) {
		a->m.layouts[i].fd = a->fds[a->m.buffer[i]];
		ret = frame_part_of(&a->m.layouts[i], a->access[a->m.buffer[i]], UINT64_MAX,
				    &parts[i]);
	}
	if (!ret)
		ret = frame_tensors(dev, a->m.layouts, parts, paths_of(opts),
				    a->m.head.ntensors, a->hold >= 0 ? hold_close : NULL,
				    (void *)(intptr_t)a->hold, tensors);
	if (!ret)
		*n = a->m.head.ntensors;
	return ret;
}

static int import_frame(struct dlbuf_device *dev, struct arrival *a,
			const struct dlbuf_import_opts *opts,
			DLManagedTensorVersioned *tensors[], uint32_t *n)
{
	struct dlbuf_import_opts o = *opts;
	struct dlbuf_frame *f = &a->m.frame;
	int ret = 0;

	o.access = DLBUF_RW;
	for (uint32_t i = 0; i < a->m.head.nbuffers; i++)
		o.access &= a->access[i];
	if (!o.access)
		return fail(-EACCES, "the frame's dma-bufs have no access in "
			    "common");
	for (uint32_t i = 0; i < f->nplanes; i++)
		f->planes[i].fd = a->fds[a->m.buffer[i]];
	if (a->m.head.flags & MESSAGE_FENCE) {
		f->fence = a->fds[a->m.head.nbuffers];
		ret = fence_check_file(f->fence);
		if (ret == -EINVAL)
			ret = -EPROTO;
	}
	/* A copy cannot be written, so RW fails; leave the access to the import. */
	if (!opts->access && o.access == DLBUF_RW)
		o.access = 0;
	f->release = a->hold >= 0 ? hold_close : NULL;
	f->release_data = (void *)(intptr_t)a->hold;
	return ret ? ret : frame_import(dev, f, &o, paths_of(&o), tensors, n);
}

/* Describes the frame to the caller, with fds that stay valid. */
static void describe_arrival(const struct arrival *a, struct dlbuf_frame *out,
			     DLManagedTensorVersioned *const tensors[], uint32_t n)
{
	*out = a->m.frame;
	out->fence = -1;
	out->release = NULL;
	out->release_data = NULL;
	if (out->order == DLBUF_ORDER_FENCE)
		out->order = DLBUF_ORDER_IMPLICIT;
	for (uint32_t i = 0; i < out->nplanes; i++) {
		const struct buffer_id *id = &a->ids[a->m.buffer[i]];

		out->planes[i].fd = -1;
		for (uint32_t j = 0; j < n; j++) {
			DLBUF_INFO(dlbuf_tensor_info, info);

			dlbuf_tensor_get_info(tensors[j], &info);
			if (info.dev == id->dev && info.ino == id->ino)
				out->planes[i].fd = info.fd;
		}
	}
}

static int open_parcel(struct dlbuf_device *dev, struct parcel *p,
		       const struct dlbuf_import_opts *import,
		       DLManagedTensorVersioned *tensors[], uint32_t *ntensors,
		       struct dlbuf_frame *frame)
{
	struct arrival a = { .fds = p->fds, .hold = -1 };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_frame known;
	uint32_t n = 0;
	int ret;

	ret = message_parse(p->packet.data, p->packet.bytes, p->nfds, &a.m);
	if (ret)
		return ret;
	if (a.m.head.flags & MESSAGE_HOLD)
		a.hold = p->fds[p->nfds - 1];
	ret = check_fds(&a, import->access);
	if (ret)
		return ret;
	ret = a.m.head.kind == MESSAGE_FRAME ?
	      import_frame(dev, &a, import, t, &n) :
	      import_tensors(dev, &a, import, t, &n);
	if (ret)
		return ret;
	/* From here on the tensors own the lease's fd. */
	if (a.hold >= 0)
		p->nfds--;
	if (frame) {
		describe_arrival(&a, &known, t, n);
		INFO_PUT(frame, &known, "dlbuf_frame");
	}
	memcpy(tensors, t, n * sizeof(t[0]));
	*ntensors = n;
	return 0;
}

static int recv_tensors(struct call *c, struct dlbuf_device *dev, int sock,
			const struct dlbuf_socket_opts *opts,
			DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
			uint32_t *ntensors, struct dlbuf_frame *frame)
{
	struct dlbuf_import_opts import;
	struct dlbuf_socket_opts o;
	struct parcel p;
	int ret;

	if (!dev || !tensors || !ntensors)
		return fail(-EINVAL, "%s is NULL", !dev ? "dev" : !tensors ?
			    "tensors" : "ntensors");
	/* Checks all arguments before it reads a message. */
	ret = device_check(dev);
	if (!ret)
		ret = opts_check(opts, &o);
	if (!ret)
		ret = import_opts_get(o.import, &import);
	if (!ret && frame)
		ret = INFO_CHECK(frame, "dlbuf_frame");
	if (!ret)
		ret = call_begin(c, sock, &o);
	if (!ret)
		ret = receive(c, &p);
	if (ret)
		return ret;
	ret = open_parcel(dev, &p, &import, tensors, ntensors, frame);
	close_fds(&p);
	if (ret && c->envelope)
		foreign_close(c->envelope->fd);
	return ret;
}

int dlbuf_recv(struct dlbuf_device *dev, int sock,
	       const struct dlbuf_socket_opts *opts,
	       DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
	       uint32_t *ntensors, struct dlbuf_frame *frame)
{
	NOT_CANCELLED;
	struct call c = { 0 };

	return recv_tensors(&c, dev, sock, opts, tensors, ntensors, frame);
}

int socket_recv(struct dlbuf_device *dev, int sock,
		const struct dlbuf_socket_opts *opts,
		DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		uint32_t *ntensors, struct envelope *envelope)
{
	struct call c = { .envelope = envelope };

	return recv_tensors(&c, dev, sock, opts, tensors, ntensors, NULL);
}
