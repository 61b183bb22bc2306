// SPDX-License-Identifier: MIT
/* dlbuf/vpi.h: attaching of simulators, and messages to them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../../dmabuf/fence.h"
#include "../../socket/socket.h"
#include "../../tensor/tensor.h"
#include "vpi.h"

/* ---------------------------------------------------------------- attaching */

#define NAME_CHARS \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
#define NAME_MAX_LEN 24

/*
 * An abstract name, which exists as long as the socket. It contains the user, so that
 * users do not block each other's names.
 */
static int address(const char *name, struct sockaddr_un *at, socklen_t *size)
{
	size_t n = strlen(name);

	if (!n || n > NAME_MAX_LEN || name[strspn(name, NAME_CHARS)])
		return fail(-EINVAL, "vpi: '%.64s' is not a name of 1 to %d of "
			    "A-Z a-z 0-9 _ . -", name, NAME_MAX_LEN);
	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1,
		     "dlbuf-vpi/%u/%s", (unsigned int)geteuid(), name);
	*size = offsetof(struct sockaddr_un, sun_path) + 1 + n;
	return 0;
}

static int open_socket(int *sock)
{
	*sock = fault_hit() ? (errno = EMFILE, -1) :
		sys_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
				SOCK_NONBLOCK, 0));
	return *sock < 0 ? fail_errno("socket()") : 0;
}

#ifndef SO_PASSRIGHTS /* asm/socket.h before 6.16 */
#define SO_PASSRIGHTS 83
#endif

/*
 * Any user can connect. If the kernel can refuse fds on a connection, it does so, because
 * closing queued fds may block.
 */
int vpi_listen(const char *name, int *listener)
{
	static const int none;
	struct sockaddr_un at;
	socklen_t size;
	int ret, sock;

	ret = address(name, &at, &size);
	if (!ret) {
		owned_lock();
		ret = open_socket(&sock);
		if (!ret)
			owned_add(sock);
		owned_unlock();
	}
	if (ret)
		return ret;
	setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof(none));
	if (bind(sock, (struct sockaddr *)&at, size) || listen(sock, SOMAXCONN))
		ret = errno == EADDRINUSE ?
		      fail(-EBUSY, "vpi:%s is open already, here or in another "
			   "process, or another user has taken its address", name) :
		      fail_errno("vpi:%s: bind()", name);
	if (ret)
		owned_close(sock);
	else
		*listener = sock;
	return ret;
}

/* The user of the other side: any user can take an abstract name. */
static uid_t user_of(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) ? (uid_t)-1 : peer.uid;
}

/* Whether fd is a Unix socket of type SOCK_SEQPACKET that is connected. */
static bool is_connected(int fd)
{
	int domain, type;
	socklen_t size = sizeof(int), at_size = sizeof(struct sockaddr_un);
	struct sockaddr_un at;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) &&
	       domain == AF_UNIX && type == SOCK_SEQPACKET &&
	       !getpeername(fd, (struct sockaddr *)&at, &at_size);
}

int dlbuf_vpi_connect(const char *name, int *out)
{
	NOT_CANCELLED;
	struct sockaddr_un at;
	socklen_t size;
	int ret, sock;

	if (!name || !out)
		return fail(-EINVAL, "%s is NULL", name ? "sock" : "name");
	ret = address(name, &at, &size);
	if (!ret)
		ret = open_socket(&sock);
	if (ret)
		return ret;
	if (connect(sock, (struct sockaddr *)&at, size))
		ret = errno == EAGAIN ?
		      fail(-ECONNREFUSED, "vpi:%s has too many connections, perhaps of "
			   "another user, that its process has not looked at", name) :
		      fail(-ECONNREFUSED, "no process of this user has the device "
			   "vpi:%s", name);
	else if (user_of(sock) != geteuid())
		ret = fail(-ECONNREFUSED, "user %d has taken the address of vpi:%s",
			   (int)user_of(sock), name);
	else if (fcntl(sock, F_SETFL, 0))
		ret = fail_errno("fcntl(F_SETFL)");
	if (ret)
		close(sock);
	else
		*out = sock;
	return ret;
}

int dlbuf_device_wrap_vpi(int sock, const struct dlbuf_device_opts *opts,
			  struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct dlbuf_device_opts o;
	struct vpi_device *dev;
	int own, ret;

	if (!out)
		return fail(-EINVAL, "out is NULL");
	ret = device_opts_get(&o, opts);
	if (ret)
		return ret;
	owned_lock();
	own = sys_dup(sock);
	owned_add(own);
	owned_unlock();
	if (own < 0)
		return errno == EBADF ? fail(-EBADF, "fd %d is not open", sock) :
					fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	if (!is_connected(own))
		ret = fail(-EINVAL, "fd %d is not a Unix socket of type "
			   "SOCK_SEQPACKET that is connected", sock);
	if (!ret)
		ret = vpi_device_create("socket", -1, own, &dev);
	if (ret) {
		owned_close(own);
		return ret;
	}
	device_init(&dev->base, &vpi_backend, &o);
	*out = &dev->base;
	return 0;
}

/* ---------------------------------------------------------------- sending */

static bool is_name(const char *name)
{
	size_t n = 0;

	while (n < DLBUF_VPI_MAX_NAME && name[n] > ' ' && name[n] <= '~')
		n++;
	return n && n < DLBUF_VPI_MAX_NAME && !name[n];
}

static void drop_simulator(struct vpi_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	owned_close(dev->sock);
	dev->sock = -1;
	pthread_mutex_unlock(&dev->lock);
}

/*
 * A head without a name reports the reason, so that the second simulator does not end as after a
 * success.
 */
static void refuse(int sock)
{
	static const struct vpi_head head = { .magic = VPI_MAGIC, .version = VPI_VERSION };
	ssize_t n = send(sock, &head, sizeof(head), MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)n;
	owned_close(sock);
}

/* The listener does not block. */
static int accept_one(int listener)
{
	int sock;

	owned_lock();
	sock = sys_high(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	owned_add(sock);
	owned_unlock();
	return sock;
}

/* Accepts a simulator if none is attached, and refuses it otherwise. */
static void look_for_simulators(struct vpi_device *dev)
{
	int sock;

	while (dev->listener >= 0 && (sock = accept_one(dev->listener)) >= 0)
		if (dev->sock < 0 && user_of(sock) == geteuid()) {
			pthread_mutex_lock(&dev->lock);
			dev->sock = sock;
			pthread_mutex_unlock(&dev->lock);
		} else {
			refuse(sock);
		}
}

static bool is_shut(const struct vpi_device *dev)
{
	return __atomic_load_n(&dev->shut, __ATOMIC_ACQUIRE);
}

/* Waits for a simulator. Called with dev->sending. */
static int find_simulator(struct vpi_device *dev,
			  const struct dlbuf_socket_opts *o)
{
	bool wait = o->deadline_ns || !(o->flags & DLBUF_SOCKET_DONTWAIT);
	int ret;

	if (!is_shut(dev) && dev->sock >= 0 && poll_until(dev->sock, POLLRDHUP, 1)) {
		drop_simulator(dev);
		return fail(-EPIPE, "%s: the simulator has ended",
			    dev->base.name);
	}
	look_for_simulators(dev);
	while (dev->sock < 0 || is_shut(dev)) {
		if (is_shut(dev))
			return fail(-EPIPE, "%s is closed", dev->base.name);
		if (dev->listener < 0)
			return fail(-EPIPE, "%s: the simulator has ended",
				    dev->base.name);
		ret = poll_until(dev->listener, POLLIN,
				 wait ? o->deadline_ns : 1);
		if (ret < 0)
			return ret;
		if (!ret)
			return fail(wait ? -ETIME : -EAGAIN, "no simulator is "
				    "attached to %s", dev->base.name);
		look_for_simulators(dev);
	}
	return 0;
}

/* Called with dev->sending. */
static int send_pass(struct vpi_device *dev, struct tensor *t, struct vpi_head *head,
		     const struct dlbuf_socket_opts *opts)
{
	struct envelope envelope = { .data = head, .bytes = sizeof(*head), .fd = -1 };
	struct dlbuf_socket_opts o;
	int ret = OPTS_GET_RESERVED(&o, opts, "dlbuf_socket_opts");

	if (!ret)
		ret = find_simulator(dev, &o);
	if (!ret)
		ret = vpi_pass_begin(vpi_import_of(t->imp), head->access,
				     &envelope.fd);
	if (ret)
		return ret;
	ret = socket_send(dev->sock, &t->versioned, opts, &envelope, &dev->base);
	/* If nothing was sent, this ends the pass. */
	if (ret)
		vpi_pass_complete(envelope.fd);
	owned_close(envelope.fd);
	if (ret == -EPIPE)
		drop_simulator(dev);
	return ret;
}

int dlbuf_vpi_send(DLManagedTensorVersioned *dl, const char *name,
		   const struct dlbuf_socket_opts *opts)
{
	NOT_CANCELLED;
	struct vpi_head head = { VPI_MAGIC, VPI_VERSION, 0, "" };
	struct vpi_device *dev;
	struct tensor *t;
	int ret = tensor_of(dl, &t);

	if (ret)
		return ret;
	if (t->imp->dev->backend != &vpi_backend)
		return fail(-EINVAL, "the tensor is of %s, not of a simulator",
			    t->imp->dev->name);
	if (!name || !is_name(name))
		return fail(-EINVAL, "a tensor's name for a simulator has 1 to %d "
			    "printable characters without spaces",
			    DLBUF_VPI_MAX_NAME - 1);
	strcpy(head.name, name);
	head.access = __atomic_load_n(&t->acquired, __ATOMIC_ACQUIRE);
	if (!head.access)
		return fail(-EINVAL, "the tensor is not acquired");
	dev = vpi_device_of(t->imp->dev);
	pthread_mutex_lock(&dev->sending);
	ret = send_pass(dev, t, &head, opts);
	if (is_shut(dev))
		vpi_end(dev);
	pthread_mutex_unlock(&dev->sending);
	return ret;
}

/* ---------------------------------------------------------------- the simulator's side */

static int check_head(const struct vpi_head *head, int end, uint32_t n)
{
	if (head->magic != VPI_MAGIC || head->version != VPI_VERSION ||
	    !head->access || head->access & ~DLBUF_RW || !is_name(head->name))
		return fail(-EPROTO, "the packet is not one of dlbuf_vpi_send()");
	if (n != 1)
		return fail(-EPROTO, "a message for a simulator has %u tensors", n);
	/* The fd is closed later, and closing another file may have an effect. */
	if (!is_connected(end))
		return fail(-EPROTO, "the fd for the end is not a connected Unix "
			    "socket of type SOCK_SEQPACKET");
	return 0;
}

int dlbuf_vpi_recv(struct dlbuf_device *dev, int sock,
		   const struct dlbuf_socket_opts *opts,
		   struct dlbuf_vpi_arrival *arrival)
{
	NOT_CANCELLED;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct vpi_head head = { 0 };
	struct envelope envelope = { .data = &head, .bytes = sizeof(head), .fd = -1 };
	uint32_t n;
	int ret;

	if (!arrival)
		return fail(-EINVAL, "arrival is NULL");
	ret = INFO_CHECK(arrival, "dlbuf_vpi_arrival");
	if (!ret)
		ret = socket_recv(dev, sock, opts, t, &n, &envelope);
	if (envelope.alone && head.magic == VPI_MAGIC && !head.access && !*head.name)
		return fail(-EBUSY, "the program's device has another simulator");
	if (ret)
		return ret;
	ret = check_head(&head, envelope.fd, n);
	if (!ret) {
		struct dlbuf_vpi_arrival a = {
			.tensor = t[0], .done = envelope.fd, .access = head.access,
		};

		strcpy(a.name, head.name);
		return INFO_PUT(arrival, &a, "dlbuf_vpi_arrival");
	}
	while (n)
		n--, t[n]->deleter(t[n]);
	foreign_close(envelope.fd);
	return ret;
}
