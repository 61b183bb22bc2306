// SPDX-License-Identifier: MIT
/*
 * Messages over sockets, also those of a hostile peer: every field, every length,
 * every kind of fd. There is no dma-buf here, so the best message ends with "is not a
 * dma-buf"; tests/cts has the later steps. A sender may send `picture`.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include <dlbuf/dlbuf.h>

#include "common.h"
#include "emulated.h"
#include "ktap.h"

#include "system/event.h"
#include "system/internal.h"
#include "packet.h"
#include "system/sys.h"
#include "thread.h"

#ifdef CONFIG_BACKEND_CPU
#define DEVICE "cpu"
#else
#define DEVICE "none"
#endif

static const int types[] = { SOCK_SEQPACKET, SOCK_DGRAM };
#define NTYPES 2

/* ---------------------------------------------------------------- messages */

static const int64_t shape[] = { 4, 6 }, strides[] = { 16, 2 };

static struct packet tensors_packet(unsigned int n)
{
	DLTensor layout = LAYOUT8(2, shape, .strides = (int64_t *)strides,
		.byte_offset = 7);

	return tensors_of(&layout, n, DLBUF_RW, 0);
}

static int picture;

__attribute__((constructor)) static void make_picture(void)
{
	picture = memfd_create("picture", MFD_CLOEXEC);
	if (picture < 0 || ftruncate(picture, 460800))
		abort();
}

/* By its number: a receiver's fd has another number, and is no dma-buf. */
int fstatfs(int fd, struct statfs *fs)
{
	*fs = (struct statfs){ .f_type = fd == picture ? 0x444d4142 : 0 };
	if (fcntl(fd, F_GETFD) >= 0)
		return 0;
	errno = EBADF;
	return -1;
}

static struct dlbuf_frame a_frame(int fd)
{
	return (struct dlbuf_frame)PICTURE(640, 480,
		DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
		.modifier = DLBUF_MOD_LINEAR,
		.flags = DLBUF_FRAME_SEQUENCE | DLBUF_FRAME_DAMAGED,
		.planes = { { .fd = fd, .pitch = 640, .bytes = 307200 },
			    { .fd = fd, .pitch = -640, .offset = 307200 } },
		.crop = { 1, 2, 3, 4 },
		.colour = { 1, 13, 2, DLBUF_RANGE_FULL, 5, DLBUF_HUE_256, { 0 } },
		.timestamp_ns = -5, .sequence = 1ull << 40,
		.clock = DLBUF_CLOCK_MONOTONIC, .field = DLBUF_FIELD_TOP,
		.order = DLBUF_ORDER_COMPLETE, .fence = -1,
		.orientation = DLBUF_ORIENTATION_TRANSVERSE);
}

static struct packet frame_packet(void)
{
	static const uint8_t buffer[] = { 0, 0 };
	struct dlbuf_frame f = a_frame(3);
	struct message_head head;
	struct packet p;

	message_begin(&p, &head, MESSAGE_FRAME);
	message_put_frame(&p, &f, buffer);
	head.nbuffers = 1;
	head.access[0] = DLBUF_READ;
	message_end(&p, &head);
	return p;
}

TEST(tensors_come_back)
{
	struct packet p = tensors_packet(3);
	static struct message m;

	REQUIRE_OK(message_parse(p.data, p.bytes, 1, &m));
	CHECK_EQ(m.head.ntensors, 3);
	for (int i = 0; i < 3; i++) {
		const DLTensor *l = &m.layouts[i].layout;

		CHECK_EQ(l->ndim, 2);
		CHECK(!memcmp(l->shape, shape, sizeof(shape)));
		CHECK(!memcmp(l->strides, strides, sizeof(strides)));
		CHECK_EQ(l->byte_offset, 7);
		CHECK_EQ(l->dtype.code, kDLUInt);
		CHECK_EQ(l->dtype.bits, 8);
		CHECK_EQ(l->dtype.lanes, 1);
	}
}

/* The largest message has exactly the bytes that there is room for. */
TEST(each_number_of_dimensions_comes_back)
{
	int64_t dims[DLBUF_MAX_NDIM], steps[DLBUF_MAX_NDIM];
	static struct message m;
	struct packet p;

	for (int ndim = 0; ndim <= DLBUF_MAX_NDIM; ndim++) {
		DLTensor layout = { .ndim = ndim, .dtype = { kDLFloat, 32, ndim + 1 },
				    .shape = dims, .strides = steps,
				    .byte_offset = 1024 + 4 * ndim };

		for (int i = 0; i < ndim; i++) {
			dims[i] = i == ndim / 2 ? ndim : 1;
			steps[i] = i % 2 ? INT64_MAX : INT64_MIN;
		}
		steps[ndim / 2 % DLBUF_MAX_NDIM] = 1;
		for (unsigned int n = 1; n <= DLBUF_MAX_PLANES; n++) {
			p = tensors_of(&layout, n, DLBUF_RW, 0);
			CHECK_EQ(p.bytes, sizeof(struct message_head) +
				 n * (sizeof(struct message_tensor) + 16 * ndim));
			REQUIRE_OK(message_parse(p.data, p.bytes, 1, &m));
			CHECK_EQ(m.head.ntensors, n);
			for (unsigned int k = 0; k < n; k++) {
				const DLTensor *l = &m.layouts[k].layout;

				CHECK_EQ(l->ndim, ndim);
				CHECK_EQ(l->dtype.lanes, ndim + 1);
				CHECK_EQ(l->byte_offset, layout.byte_offset);
				CHECK(!memcmp(l->shape, dims, ndim * sizeof(*dims)));
				CHECK(!memcmp(l->strides, steps, ndim * sizeof(*steps)));
			}
		}
	}
	CHECK_EQ(p.bytes, MESSAGE_MAX_BYTES);
}

/* Strides of 0: any number of elements over one byte of memory. */
TEST(more_elements_than_64_bits_count)
{
	const int64_t huge[] = { 67280421310721, 274177 }, none[] = { 0, 0 };
	DLTensor layout = LAYOUT8(2, huge, .strides = (int64_t *)none);
	struct packet p = tensors_of(&layout, 1, DLBUF_READ, 0);
	static struct message m;

	CHECK_ERR_SAYS(message_parse(p.data, p.bytes, 1, &m), -EPROTO, "number of elements");
}

TEST(a_frame_comes_back)
{
	struct packet p = frame_packet();
	struct dlbuf_frame want = a_frame(-1);
	static struct message m;

	REQUIRE_OK(message_parse(p.data, p.bytes, 1, &m));
	CHECK(!memcmp(&m.frame, &want, sizeof(want)));
	CHECK_EQ(m.head.access[0], DLBUF_READ);
}

/* ---------------------------------------------------------------- peers */

static void raw_send(int sock, const void *data, size_t bytes, const int fds[],
		     unsigned int nfds)
{
	if (!CHECK_EQ(send_fds(sock, data, bytes, fds, nfds, MSG_NOSIGNAL),
		      (ssize_t)bytes))
		ktap_note(NULL, 0, "sendmsg: %s", strerror(errno));
}

struct peers {
	int us, them;
	struct dlbuf_device *dev;
};

static struct peers peers_open(int type)
{
	struct peers p = { -1, -1, NULL };
	int fds[2];

#ifndef CONFIG_BACKEND_CPU
	SKIP("this build has no CPU backend");
#endif
	if (CHECK_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), 0)) {
		p.us = fds[0];
		p.them = fds[1];
	}
	CHECK_OK(dlbuf_device_open(DEVICE, NULL, &p.dev));
	return p;
}

static void peers_close(struct peers *p)
{
	close(p->us);
	if (p->them >= 0)
		close(p->them);
	dlbuf_device_close(p->dev);
}

static void hang_up(struct peers *p)
{
	close(p->them);
	p->them = -1;
}

/* No message of these tests creates a tensor. */
static int receive(struct peers *p, uint32_t flags, uint64_t deadline)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_OPTS(dlbuf_socket_opts, opts, .flags = flags,
		   .deadline_ns = deadline);
	struct dlbuf_frame f = { .size = sizeof(f), .width = 77 };
	uint32_t n = 77;
	int ret = dlbuf_recv(p->dev, p->us, &opts, t, &n, &f);

	CHECK(ret < 0);
	CHECK_EQ(n, 77);
	CHECK_EQ(f.width, 77);
	CHECK(!t[0]);
	return ret;
}

static int memfd(void)
{
	int fd = memfd_create("no dma-buf", MFD_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* ---------------------------------------------------------------- sockets */

static void check_socket(int sock, int err)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_frame f = a_frame(picture);
	struct dlbuf_device *dev;
	uint32_t n;

	CHECK_ERR(dlbuf_send_frame(sock, &f, NULL), err);
#ifdef CONFIG_BACKEND_CPU
	REQUIRE_OK(dlbuf_device_open(DEVICE, NULL, &dev));
	CHECK_ERR(dlbuf_recv(dev, sock, NULL, t, &n, NULL), err);
	dlbuf_device_close(dev);
#else
	(void)t, (void)dev, (void)n;
#endif
}

TEST(what_is_no_unix_socket)
{
	int closed = eventfd(0, EFD_CLOEXEC), fds[2], inet;

	close(closed);
	check_socket(closed, -EBADF);
	check_socket(-1, -EBADF);
	REQUIRE(!pipe2(fds, O_CLOEXEC));
	check_socket(fds[1], -EINVAL);
	CHECK_SAYS("no socket");
	close(fds[0]);
	close(fds[1]);
	inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (inet >= 0) {
		/* TCP and UDP take SCM_RIGHTS and drop them. */
		check_socket(inet, -EINVAL);
		CHECK_SAYS("domain 2");
		close(inet);
	}
}

/*
 * A peer that stopped in the middle of a message held the receiver; now nothing
 * is taken off a stream.
 */
TEST(streams)
{
	struct peers p = peers_open(SOCK_STREAM);
	struct packet packet = tensors_packet(1);
	char rest[sizeof(packet.data)];
	struct dlbuf_frame f = a_frame(picture);
	int fd = memfd();

	raw_send(p.them, packet.data, 30, &fd, 1);
	CHECK_ERR_SAYS(receive(&p, 0, 1), -EINVAL, "create it with SOCK_SEQPACKET");
	CHECK_EQ(recv(p.us, rest, sizeof(rest), MSG_DONTWAIT), 30);
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EINVAL);
	CHECK_EQ(recv(p.them, rest, sizeof(rest), MSG_DONTWAIT), -1);
	close(fd);
	peers_close(&p);
}

/* Also a socket with a message of another sender, which is not received. */
TEST(not_connected)
{
	struct packet p = tensors_packet(1);
	int fd AUTO_FD = memfd();

	for (int i = 0; i < NTYPES; i++) {
		int sock AUTO_FD = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0), other;
		struct sockaddr_un at = { .sun_family = AF_UNIX };
		socklen_t size = sizeof(at);

		if (types[i] == SOCK_DGRAM) {
			/* An abstract address of the kernel's choice. */
			REQUIRE(!bind(sock, (struct sockaddr *)&at, sizeof(sa_family_t)));
			REQUIRE(!getsockname(sock, (struct sockaddr *)&at, &size));
			other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
			REQUIRE(!connect(other, (struct sockaddr *)&at, size));
			raw_send(other, p.data, p.bytes, &fd, 1);
			close(other);
		}
		check_socket(sock, -ENOTCONN);
	}
}

TEST(wrong_arguments)
{
	struct peers p = peers_open(SOCK_SEQPACKET);
	DLManagedTensorVersioned foreign = { .version = { 1, 0 } };
	DLManagedTensorVersioned *t[5] = { &foreign, NULL };
	DLBUF_OPTS(dlbuf_socket_opts, flags, .flags = 2);
	DLBUF_OPTS(dlbuf_import_opts, import, .flags = 8);
	DLBUF_OPTS(dlbuf_socket_opts, bad, .import = &import);
	struct dlbuf_frame f = a_frame(picture);
	uint32_t n = 0;

	CHECK_ERR(dlbuf_send(p.us, NULL, 1, NULL), -EINVAL);
	CHECK_ERR(dlbuf_send(p.us, t, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_send(p.us, t, 5, NULL), -EINVAL);
	CHECK_ERR_SAYS(dlbuf_send(p.us, t, 1, NULL), -EINVAL, "not one of dlbuf");
	CHECK_ERR(dlbuf_send(p.us, t + 1, 1, NULL), -EINVAL);
	CHECK_ERR(dlbuf_send(p.us, t, 1, &flags), -EINVAL);
	CHECK_ERR(dlbuf_send_frame(p.us, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_send_frame(p.us, &f, &flags), -EINVAL);
	/* The message has no place for it. */
	f.planes[1].reserved = 1;
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EINVAL);
	CHECK_SAYS("the frame's plane 1 has a reserved of 0x1");
	f.planes[1].reserved = 0;
	f.nplanes = 0;
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EINVAL);
	f.nplanes = 5;
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EINVAL);
	f = a_frame(picture);
	f.code_space = 0;
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EINVAL);
	f = a_frame(1000000);
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EBADF);
	f.planes[0].fd = f.planes[1].fd = -1;
	CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EBADF);
	/* The receiver would refuse these, and cannot report it to the sender. */
	f = a_frame(p.us);
	CHECK_ERR_SAYS(dlbuf_send_frame(p.us, &f, NULL), -EBADF, "is not a dma-buf but 'socket:");
	f = a_frame(picture);
	f.planes[1].offset = 460800;
	CHECK_ERR_SAYS(dlbuf_send_frame(p.us, &f, NULL), -ERANGE, "plane 1 begins at byte 460800");
	f = a_frame(picture);
	f.order = DLBUF_ORDER_FENCE;
	f.fence = p.us;
	CHECK_ERR_SAYS(dlbuf_send_frame(p.us, &f, NULL), -EINVAL, "not a sync_file");
	CHECK_ERR(dlbuf_recv(NULL, p.us, NULL, t, &n, NULL), -EINVAL);
	CHECK_ERR(dlbuf_recv(p.dev, p.us, NULL, NULL, &n, NULL), -EINVAL);
	CHECK_ERR(dlbuf_recv(p.dev, p.us, NULL, t, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_recv(p.dev, p.us, &flags, t, &n, NULL), -EINVAL);
	CHECK_ERR(dlbuf_recv(p.dev, p.us, &bad, t, &n, NULL), -EINVAL);
	peers_close(&p);
}

TEST(nothing_there)
{
	for (int i = 0; i < NTYPES; i++) {
		struct peers p = peers_open(types[i]);

		CHECK_ERR(receive(&p, 0, 1), -ETIME);
		CHECK_ERR(receive(&p, DLBUF_SOCKET_DONTWAIT, 0), -EAGAIN);
		fcntl(p.us, F_SETFL, O_NONBLOCK);
		CHECK_ERR(receive(&p, 0, 0), -EAGAIN);
		CHECK_ERR(receive(&p, 0, 1), -ETIME);
		peers_close(&p);
	}
}

TEST(the_other_side_is_gone)
{
	struct dlbuf_frame f = a_frame(picture);

	for (int i = 0; i < NTYPES; i++) {
		struct peers p = peers_open(types[i]);

		hang_up(&p);
		/* A datagram's peer may go and another come. */
		if (types[i] != SOCK_DGRAM)
			CHECK_ERR(receive(&p, 0, 0), -EPIPE);
		/* And no SIGPIPE, which would end this. */
		CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EPIPE);
		CHECK_SAYS("closed at the other side");
		peers_close(&p);
	}
}

/* After any end, earlier messages are received first. */
TEST(messages_before_the_end)
{
	static const int hows[] = { -1, SHUT_WR, SHUT_RDWR };
	struct packet packet = tensors_packet(1);
	struct dlbuf_frame f = a_frame(picture);
	int fd AUTO_FD = memfd();

	for (size_t i = 0; i < ARRAY_SIZE(hows); i++) {
		struct peers p = peers_open(SOCK_SEQPACKET);

		for (int j = 0; j < 3; j++)
			raw_send(p.them, packet.data, packet.bytes, &fd, 1);
		/* Their unread messages give us ECONNRESET, once. */
		CHECK_OK(dlbuf_send_frame(p.us, &f, NULL));
		if (hows[i] < 0)
			hang_up(&p);
		else
			CHECK_EQ(shutdown(p.them, hows[i]), 0);
		for (int j = 0; j < 3; j++)
			CHECK_ERR(receive(&p, 0, 0), -EBADF);
		CHECK_ERR(receive(&p, 0, 0), -EPIPE);
		CHECK_ERR(receive(&p, DLBUF_SOCKET_DONTWAIT, 0), -EPIPE);
		peers_close(&p);
	}
}

TEST(empty_packets)
{
	struct packet packet = tensors_packet(1);
	int fd AUTO_FD = memfd();

	for (int i = 0; i < NTYPES; i++) {
		struct peers p = peers_open(types[i]);

		raw_send(p.them, "", 0, NULL, 0);
		CHECK_ERR(receive(&p, 0, 0), -EPROTO);
		raw_send(p.them, "", 0, &fd, 1);
		raw_send(p.them, "", 0, NULL, 0);
		raw_send(p.them, packet.data, packet.bytes, &fd, 1);
		if (types[i] == SOCK_SEQPACKET)
			hang_up(&p);
		CHECK_ERR(receive(&p, 0, 0), -EPROTO);
		/* Without a sender it looks like the end, so it is skipped. */
		if (types[i] != SOCK_SEQPACKET)
			CHECK_ERR(receive(&p, 0, 0), -EPROTO);
		CHECK_ERR(receive(&p, 0, 0), -EBADF);
		CHECK_ERR(receive(&p, DLBUF_SOCKET_DONTWAIT, 0),
			  types[i] == SOCK_SEQPACKET ? -EPIPE : -EAGAIN);
		peers_close(&p);
	}
}

static struct peers *sends_and_leaves;
static int always;	/* each call fails with this errno; 0: none does */

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	errno = always;
	return always ? -1 : syscall(SYS_sendmsg, fd, msg, flags);
}

/*
 * Linux's recvmsg() looks for a packet first and for the other end second. A sender that
 * sends and closes between the two (about one of 10,000 do, on an idle machine) makes
 * it return 0, with its packet queued. This one brings such a sender about.
 */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct peers *p = sends_and_leaves;
	ssize_t n;

	errno = always;
	n = always ? -1 : syscall(SYS_recvmsg, fd, msg, flags);
	if (n < 0 && errno == EAGAIN && p) {
		struct packet packet = tensors_packet(1);
		int memory = memfd();

		sends_and_leaves = NULL;
		raw_send(p->them, packet.data, packet.bytes, &memory, 1);
		hang_up(p);
		close(memory);
		msg->msg_controllen = 0;
		n = 0;
	}
	return n;
}

TEST(sent_and_closed_at_once)
{
	struct peers p = peers_open(SOCK_SEQPACKET);

	sends_and_leaves = &p;
	CHECK_ERR(receive(&p, 0, 0), -EBADF);
	CHECK_ERR(receive(&p, 0, 0), -EPIPE);
	peers_close(&p);
}

/* A peer that resets again and again, and other readers that are always faster. */
TEST(a_call_that_always_fails_ends)
{
	static const struct { int errno_, sends, waits, receives; } cases[] = {
		{ ECONNRESET, -EPIPE, -EPIPE, -EPIPE },
		{ EAGAIN, -EAGAIN, -ETIME, -ETIME },
	};
	DLBUF_OPTS(dlbuf_socket_opts, dont, .flags = DLBUF_SOCKET_DONTWAIT);
	DLBUF_OPTS(dlbuf_socket_opts, past, .deadline_ns = 1);
	struct packet packet = tensors_packet(1);
	struct dlbuf_frame f = a_frame(picture);
	int fd AUTO_FD = memfd();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct peers p = peers_open(SOCK_SEQPACKET);

		raw_send(p.them, packet.data, packet.bytes, &fd, 1);
		always = cases[i].errno_;
		CHECK_ERR(dlbuf_send_frame(p.us, &f, &dont), cases[i].sends);
		CHECK_ERR(dlbuf_send_frame(p.us, &f, &past), cases[i].waits);
		CHECK_ERR(receive(&p, 0, 1), cases[i].receives);
		always = 0;
		CHECK_ERR(receive(&p, 0, 1), -EBADF);
		peers_close(&p);
	}
}

/* poll() then always returns POLLIN, and recvmsg() EAGAIN. */
TEST(shut_down_for_reading)
{
	struct packet packet = tensors_packet(1);
	int fd AUTO_FD = memfd();

	for (int i = 0; i < NTYPES; i++) {
		struct peers p = peers_open(types[i]);

		raw_send(p.them, packet.data, packet.bytes, &fd, 1);
		CHECK_EQ(shutdown(p.us, SHUT_RD), 0);
		CHECK_ERR(receive(&p, 0, 0), -EBADF);
		CHECK_ERR(receive(&p, 0, 0), -EPIPE);
		CHECK_ERR(receive(&p, 0, 1), -EPIPE);
		CHECK_ERR(receive(&p, DLBUF_SOCKET_DONTWAIT, 0), -EPIPE);
		peers_close(&p);
	}
}

/* A mistake of the caller does not remove a message from the socket. */
TEST(arguments_come_first)
{
	static const struct dlbuf_import_opts imports[] = {
		{ .size = sizeof(imports[0]), .view = DLBUF_NVIEWS },
		{ .size = sizeof(imports[0]), .flags = 1u << 31 },
		{ .size = sizeof(imports[0]), .access = 4 },
		{ .size = sizeof(imports[0]), .paths = 1u << 31 },
		{ .size = sizeof(imports[0]),
		  .paths = DLBUF_PATH_BIT(DLBUF_PATH_COPY) },
		{ .size = 0 },
	};
	struct peers p = peers_open(SOCK_SEQPACKET);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct packet packet = frame_packet();
	struct dlbuf_frame unset = { .size = 0 };
	int fd = memfd();
	uint32_t n;

	raw_send(p.them, packet.data, packet.bytes, &fd, 1);
	CHECK_ERR_SAYS(dlbuf_recv(p.dev, p.us, NULL, t, &n, &unset), -EINVAL, "dlbuf_frame");
	for (size_t i = 0; i < ARRAY_SIZE(imports); i++) {
		DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &imports[i],
			   .deadline_ns = 1);

		CHECK_ERR(dlbuf_recv(p.dev, p.us, &opts, t, &n, NULL), -EINVAL);
	}
	CHECK_ERR(receive(&p, 0, 1), -EBADF);
	CHECK_ERR(receive(&p, 0, 1), -ETIME);
	close(fd);
	peers_close(&p);
}

/* Fds in flight have a limit of their own, but for root. */
TEST(too_many_fds_on_their_way)
{
	struct peers p = peers_open(SOCK_SEQPACKET); /* or skips */
	int status = -1;
	pid_t pid;

	peers_close(&p);
	pid = fork();
	if (!pid) {
		const struct rlimit few = { 32, 32 };
		struct dlbuf_frame f = a_frame(picture);
		int ret = 0;

		/* A device of the child's own. */
		p = peers_open(SOCK_SEQPACKET);
		if ((!getuid() && setuid(65534)) ||
		    setrlimit(RLIMIT_NOFILE, &few))
			_exit(2);
		while (!ret)
			ret = dlbuf_send_frame(p.them, &f, NULL);
		if (ret != -ETOOMANYREFS ||
		    !strstr(dlbuf_last_error(), "RLIMIT_NOFILE"))
			_exit(3);
		/* And there is room again when one is received. */
		if (receive(&p, 0, 0) != -EBADF ||
		    dlbuf_send_frame(p.them, &f, NULL))
			_exit(4);
		_exit(5);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(WEXITSTATUS(status), 5);
}

TEST(a_full_socket)
{
	struct dlbuf_frame f = a_frame(picture);
	DLBUF_OPTS(dlbuf_socket_opts, dontwait, .flags = DLBUF_SOCKET_DONTWAIT);
	DLBUF_OPTS(dlbuf_socket_opts, past, .deadline_ns = 1);

	for (int i = 0; i < NTYPES; i++) {
		struct peers p = peers_open(types[i]);
		int sent = 0, ret;

		while (!(ret = dlbuf_send_frame(p.us, &f, &dontwait)))
			sent++;
		CHECK_EQ(ret, -EAGAIN);
		CHECK(sent > 0);
		CHECK_ERR(dlbuf_send_frame(p.us, &f, &past), -ETIME);
		peers_close(&p);
	}
}

/* ---------------------------------------------------------------- hostile */

/* Sends it and checks the result; the fds stay the caller's. */
static int sent_as(int type, const void *data, size_t bytes, const int fds[],
		   unsigned int nfds)
{
	struct peers p = peers_open(type);
	int ret;

	raw_send(p.them, data, bytes, fds, nfds);
	hang_up(&p);
	ret = receive(&p, 0, 0);
	peers_close(&p);
	return ret;
}

/*
 * Each byte is changed to each other value: a message still, or none, and never
 * with another head but for the access.
 */
static void every_byte(struct packet p)
{
	unsigned int refused = 0;
	static struct message m;

	for (uint32_t at = 0; at < p.bytes; at++) {
		for (int flip = 1; flip < 256; flip++) {
			int ret;

			p.data[at] ^= flip;
			ret = message_parse(p.data, p.bytes, 1, &m);
			p.data[at] ^= flip;
			CHECK(ret == 0 || ret == -EPROTO);
			refused += ret != 0;
			if (!ret && at < sizeof(m.head))
				CHECK_EQ(at, offsetof(struct message_head,
						      access));
		}
	}
	CHECK(refused > 255 * 20);
}

TEST(every_byte_of_tensors)
{
	every_byte(tensors_packet(2));
}

TEST(every_byte_of_a_frame)
{
	every_byte(frame_packet());
}

struct poke {
	const char *what;
	unsigned int at, bytes;
	uint64_t value;
	bool frame;
	const char *says;
};

#define HEAD(field, value, says) \
	{ #field, offsetof(struct message_head, field), \
	  sizeof(((struct message_head *)0)->field), value, false, says }
#define IN(type, frame, field, value, says) \
	{ #field, sizeof(struct message_head) + offsetof(struct type, field), \
	  sizeof(((struct type *)0)->field), value, frame, says }
#define TENSOR(...) IN(message_tensor, false, __VA_ARGS__)
#define FRAME(...) IN(message_frame, true, __VA_ARGS__)
#define DIM(n, value, says) \
	{ "dimension " #n, sizeof(struct message_head) + \
	  sizeof(struct message_tensor) + (n) * 8, 8, value, false, says }

static const struct poke pokes[] = {
	HEAD(magic, 0x42424242, "begins with 0x42424242"),
	HEAD(version, 0, "version 0"),
	HEAD(version, 2, "version 2"),
	HEAD(kind, 0, "kind 0"),
	HEAD(kind, 3, "kind 3"),
	HEAD(kind, MESSAGE_FRAME, "kind 2 cannot have 1 tensors"),
	HEAD(bytes, 0, "0 bytes"),
	HEAD(bytes, 23, "23 bytes"),
	HEAD(bytes, ~0u, "4294967295 bytes"),
	HEAD(nbuffers, 0, "0 dma-bufs"),
	HEAD(nbuffers, 5, "5 dma-bufs"),
	HEAD(nbuffers, 255, "255 dma-bufs"),
	HEAD(nbuffers, 2, "access 0"),
	HEAD(ntensors, 0, "0 tensors"),
	HEAD(ntensors, 5, "5 tensors"),
	HEAD(ntensors, 2, "bytes early"),
	HEAD(flags, 1, "flags 0x1"),
	HEAD(flags, 2, "needs 2 fds and came with 1"),
	HEAD(flags, 4, "flags 0x4"),
	HEAD(reserved, 1, "0x1, and 0x0 after"),
	HEAD(reserved2, 1, "0x0, and 0x1 after"),
	HEAD(access[0], 0, "access 0"),
	HEAD(access[0], 4, "access 4"),
	HEAD(access[1], 1, "access 1"),
	HEAD(access[3], 3, "access 3"),
	TENSOR(buffer, 1, "dma-buf 1 of 1"),
	TENSOR(buffer, 255, "dma-buf 255 of 1"),
	TENSOR(ndim, 0, "goes on for 32 bytes"),
	TENSOR(ndim, 1, "goes on for 16 bytes"),
	TENSOR(ndim, 3, "bytes early"),
	TENSOR(ndim, 65, "65 dimensions"),
	TENSOR(ndim, 255, "255 dimensions"),
	TENSOR(bits, 0, "no size"),
	TENSOR(bits, 7, "whole"),
	TENSOR(lanes, 0, "no size"),
	TENSOR(reserved, 1, "0x1 after"),
	TENSOR(byte_offset, ~0ull, "64 bits"),
	DIM(0, 1ull << 63, "shape[0]"),
	DIM(1, ~0ull, "shape[1]"),
	DIM(0, 1ull << 62, "64 bits"),
	DIM(2, 1ull << 63, "64 bits"),
	DIM(2, -16ull, "before the start"),
	FRAME(nplanes, 0, "0 planes"),
	FRAME(nplanes, 5, "5 planes"),
	FRAME(nplanes, ~0u, "planes"),
	FRAME(nplanes, 1, "not empty"),
	FRAME(flags, 4, "flags 0x4 are unknown"),
	FRAME(code_space, 0, "code space 0"),
	FRAME(code_space, 4, "code space 4"),
	FRAME(clock, 6, "the frame's clock is 6: 0 to 5 are possible"),
	FRAME(field, 9, "the frame's field is 9:"),
	FRAME(order, 4, "the frame's order is 4:"),
	FRAME(orientation, 8, "the frame's orientation is 8: 0 to 7 are possible"),
	FRAME(orientation, ~0u, "the frame's orientation is -1:"),
	FRAME(colour[3], 3, "range 3"),
	FRAME(colour[5], 3, "hue 3"),
	FRAME(colour[6], 1, "0x0100 after"),
	FRAME(planes[0].buffer, 1, "dma-buf 1 of 1"),
	FRAME(planes[1].buffer, ~0u, "of 1"),
	FRAME(planes[1].reserved, 1, "0x1 after"),
	FRAME(planes[2].bytes, 1, "not empty"),
	FRAME(planes[3].offset, 1, "not empty"),
};

/* Over each socket, with its fd. */
TEST(every_field)
{
	int fd AUTO_FD = memfd();

	for (size_t i = 0; i < ARRAY_SIZE(pokes); i++) {
		const struct poke *k = &pokes[i];
		struct packet p = k->frame ? frame_packet() : tensors_packet(1);

		memcpy(p.data + k->at, (const char *)&k->value +
		       (__BYTE_ORDER == __BIG_ENDIAN ? 8 - k->bytes : 0),
		       k->bytes);
		for (int j = 0; j < NTYPES; j++) {
			int ret = sent_as(types[j], p.data, p.bytes, &fd, 1);

			if (!CHECK_EQ(ret, -EPROTO) ||
			    !strstr(dlbuf_last_error(), k->says))
				ktap_check(__FILE__, __LINE__, false,
					   "%s %llu: %d, %s", k->what,
					   (unsigned long long)k->value, ret,
					   dlbuf_last_error());
		}
	}
}

TEST(every_length)
{
	struct packet p = tensors_packet(2);
	unsigned char longer[sizeof(p.data) + 1] = { 0 };
	int fd AUTO_FD = memfd();

	for (int i = 0; i < NTYPES; i++)
		for (uint32_t n = 1; n < p.bytes; n++) {
			int ret = sent_as(types[i], p.data, n, &fd, 1);

			if (!CHECK_EQ(ret, -EPROTO))
				ktap_note(NULL, 0, "length %u", n);
		}
	memcpy(longer, p.data, p.bytes);
	CHECK_ERR(sent_as(SOCK_SEQPACKET, longer, p.bytes + 1, &fd, 1), -EPROTO);
	CHECK_ERR_SAYS(sent_as(SOCK_DGRAM, longer, sizeof(longer), &fd, 1), -EPROTO, "more than");
}

static void with_so_many_fds(unsigned int n)
{
	struct packet p = tensors_packet(1);
	int fds[253];

	fds[0] = memfd();
	for (int i = 1; i < 253; i++)
		fds[i] = fds[0];
	for (int i = 0; i < NTYPES; i++)
		CHECK_ERR(sent_as(types[i], p.data, p.bytes, fds, n), -EPROTO);
	close(fds[0]);
}

TEST(wrong_numbers_of_fds)
{
	static const unsigned int counts[] = { 0, 2, 6, 7, 8, 60, 253 };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		with_so_many_fds(counts[i]);
}

/*
 * A close that lingers takes as long as the peer wishes. The library takes the linger away
 * before it closes a socket, also the last of the most fds that there can be: those that it
 * had no room for would be closed by the kernel, in recvmsg(). This test holds the socket,
 * too, so it is not closed here.
 */
TEST(refused_sockets_do_not_linger)
{
	static const struct {
		unsigned int nfds;	/* the socket is the last one */
		uint8_t flags;
	} cases[] = {
		{ 1, 0 }, { 2, MESSAGE_HOLD }, { 7, 0 }, { 8, 0 }, { 60, 0 }, { 253, 0 },
	};
	static const struct linger on = { 1, 1000 };
	DLTensor layout = LAYOUT8(2, shape, .strides = (int64_t *)strides);

	for (size_t i = 0; i < NTYPES * ARRAY_SIZE(cases); i++) {
		unsigned int n = cases[i / NTYPES].nfds;
		struct packet p = tensors_of(&layout, 1, DLBUF_RW, cases[i / NTYPES].flags);
		struct linger now = on;
		socklen_t size = sizeof(now);
		int fd AUTO_FD = memfd(), fds[253];
		int sock AUTO_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		for (unsigned int j = 0; j < n; j++)
			fds[j] = j == n - 1 ? sock : fd;
		REQUIRE(!setsockopt(sock, SOL_SOCKET, SO_LINGER, &on, sizeof(on)));
		CHECK(sent_as(types[i % NTYPES], p.data, p.bytes, fds, n) < 0);
		CHECK(!getsockopt(sock, SOL_SOCKET, SO_LINGER, &now, &size));
		if (!CHECK(!now.l_onoff))
			ktap_note(NULL, 0, "%u fds", n);
	}
}

TEST(wrong_fds)
{
	struct packet p = tensors_packet(1);
	int pair[2], fds[4];

	REQUIRE(!pipe2(pair, O_CLOEXEC));
	fds[0] = pair[0];
	fds[1] = memfd();
	fds[2] = open("/", O_PATH | O_CLOEXEC);
	fds[3] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < NTYPES; i++)
		for (int j = 0; j < 4; j++) {
			CHECK_ERR(sent_as(types[i], p.data, p.bytes, &fds[j], 1),
				  -EBADF);
			CHECK_SAYS(j == 1 ? "not a dma-buf but '/memfd:no dma-buf" :
				   "not a dma-buf");
		}
	close(pair[1]);
	for (int j = 0; j < 4; j++)
		close(fds[j]);
}

/* The kernel gives the lowest numbers that are free. */
TEST(fds_below_three)
{
	struct packet p = tensors_packet(1);
	struct peers peers = peers_open(SOCK_SEQPACKET);
	int fd = memfd(), kept[3], number = -1;

	for (int i = 0; i < 3; i++)
		kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
	raw_send(peers.them, p.data, p.bytes, &fd, 1);
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		close(i);
	receive(&peers, 0, 0);
	for (int i = 0; i < 3; i++) {
		if (kept[i] < 0)
			continue;
		dup2(kept[i], i);
		close(kept[i]);
	}
	CHECK_SAYS("not a dma-buf");
	CHECK_EQ(sscanf(dlbuf_last_error(), "fd %d", &number), 1);
	CHECK_MSG(number >= 3, "%s", dlbuf_last_error());
	close(fd);
	peers_close(&peers);
}

/*
 * With no number free the kernel drops the fds; with one below 3 free they are
 * moved, where there is no room either. The message is lost, the next is not.
 */
TEST(no_room_for_fds)
{
	struct packet p = frame_packet();
	struct peers peers = peers_open(SOCK_SEQPACKET);
	int fd = memfd(), in = fcntl(0, F_DUPFD_CLOEXEC, 10);
	struct rlimit old, now;

	getrlimit(RLIMIT_NOFILE, &old);
	now = old;
	now.rlim_cur = 3;
	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < 2; j++)
			raw_send(peers.them, p.data, p.bytes, &fd, 1);
		if (i)
			close(0);
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &now));
		CHECK_ERR_SAYS(receive(&peers, 0, 0), -EMFILE, "this message is lost");
		setrlimit(RLIMIT_NOFILE, &old);
		CHECK_ERR(receive(&peers, 0, 0), -EBADF);
		CHECK_ERR(receive(&peers, 0, 1), -ETIME);
	}
	if (in >= 0) {
		dup2(in, 0);
		close(in);
	}
	close(fd);
	peers_close(&peers);
}

/* ---------------------------------------------------------------- leases */

static unsigned int released; /* atomic */

static void count_release(void *data)
{
	__atomic_add_fetch((unsigned int *)data, 1, __ATOMIC_SEQ_CST);
}

static unsigned int releases(void)
{
	return __atomic_load_n(&released, __ATOMIC_SEQ_CST);
}

static void until_released(unsigned int n)
{
	UNTIL(releases() >= n);
	CHECK_EQ(releases(), n);
}

/* The fds of the next message; how many. */
static unsigned int take_fds(int sock, int fds[8])
{
	char control[CMSG_SPACE(8 * sizeof(int))], data[1024];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	unsigned int n;

	if (!CHECK(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) > 0))
		return 0;
	c = CMSG_FIRSTHDR(&msg);
	n = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	if (n)
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return n;
}

TEST(a_lease_ends_with_the_receiver)
{
	struct dlbuf_frame f = a_frame(picture);
	int fds[8];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack");
	f.release = count_release;
	f.release_data = &released;
	for (int i = 0; i < NTYPES; i++) {
		struct peers p = peers_open(types[i]);
		unsigned int n = releases();

		/* Given back by closing it, ... */
		CHECK_OK(dlbuf_send_frame(p.us, &f, NULL));
		CHECK_EQ(take_fds(p.them, fds), 2);
		CHECK_EQ(releases(), n);
		/* ... and in no other way. */
		CHECK_EQ(write(fds[1], "x", 1), -1);
		close(fds[0]);
		CHECK_EQ(releases(), n);
		close(fds[1]);
		until_released(n + 1);
		/* Never read. */
		CHECK_OK(dlbuf_send_frame(p.us, &f, NULL));
		hang_up(&p);
		until_released(n + 2);
		/* Not sent: not released. */
		CHECK_ERR(dlbuf_send_frame(p.us, &f, NULL), -EPIPE);
		UNTIL(!event_pending());
		CHECK_EQ(releases(), n + 2);
		peers_close(&p);
	}
}

/* Two receivers of a frame with one lease, and one that is not there. */
TEST(a_lease_of_several_receivers)
{
	struct dlbuf_frame f = a_frame(picture);

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack");
	for (int i = 0; i < NTYPES; i++) {
		struct peers p[2] = { peers_open(types[i]),
				      peers_open(types[i]) };
		unsigned int n = releases();
		int fds[2][8];

		REQUIRE_OK(dlbuf_lease_create(count_release, &released,
					      &f.lease));
		for (int j = 0; j < 2; j++) {
			CHECK_OK(dlbuf_send_frame(p[j].us, &f, NULL));
			CHECK_EQ(take_fds(p[j].them, fds[j]), 2);
		}
		hang_up(&p[1]);
		CHECK_ERR(dlbuf_send_frame(p[1].us, &f, NULL), -EPIPE);
		dlbuf_lease_drop(f.lease);
		close(fds[0][0]);
		close(fds[0][1]);
		UNTIL(event_pending() <= 1);
		CHECK_EQ(releases(), n);
		close(fds[1][0]);
		close(fds[1][1]);
		until_released(n + 1);
		UNTIL(!event_pending());
		CHECK_EQ(releases(), n + 1);
		for (int j = 0; j < 2; j++)
			peers_close(&p[j]);
	}
}

struct sender {
	const struct dlbuf_frame *f;
	int sock, ret;
	pid_t tid; /* atomic */
};

static void *send_frame(void *arg)
{
	struct sender *s = arg;

	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	s->ret = dlbuf_send_frame(s->sock, s->f, NULL);
	return NULL;
}

/* A child that is forked while the sender waits has no part in the lease. */
TEST(a_lease_of_a_sender_that_forks)
{
	DLBUF_OPTS(dlbuf_socket_opts, dontwait, .flags = DLBUF_SOCKET_DONTWAIT);
	struct dlbuf_frame f = a_frame(picture), leased = f;
	struct peers p = peers_open(SOCK_SEQPACKET);
	struct sender s = { .f = &leased, .sock = p.us };
	int fds[8], gate[2], status;
	unsigned int sent = 0, n;
	pthread_t thread;
	pid_t child;
	char c;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	/* Under qemu-user the kernel's word about a thread is in another machine's numbers. */
	need_machine();
	leased.release = count_release;
	leased.release_data = &released;
	while (!dlbuf_send_frame(p.us, &f, &dontwait))
		sent++;
	REQUIRE(!pthread_create(&thread, NULL, send_frame, &s));
	UNTIL(__atomic_load_n(&s.tid, __ATOMIC_ACQUIRE) && thread_polls(s.tid));
	REQUIRE(!pipe2(gate, O_CLOEXEC));
	child = fork();
	if (!child) {
		close(gate[1]);
		_exit(read(gate[0], &c, 1));
	}
	for (unsigned int i = 0; i <= sent; i++) {
		n = take_fds(p.them, fds);
		CHECK_EQ(n, i < sent ? 1 : 2);
		while (n)
			close(fds[--n]);
	}
	pthread_join(thread, NULL);
	CHECK_EQ(s.ret, 0);
	until_released(1);
	close(gate[0]);
	close(gate[1]);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	peers_close(&p);
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
/* One message there and back as far as it goes; the first failure ends it. */
static int walk(int type)
{
	struct peers p = { .us = -1 };
	struct dlbuf_frame f = a_frame(picture);
	uint32_t n;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fds[2], ret;

	f.release = count_release;
	f.release_data = &released;
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds))
		return -errno;
	p.us = fds[0];
	p.them = fds[1];
	ret = dlbuf_device_open(DEVICE, NULL, &p.dev);
	if (!ret)
		ret = dlbuf_send_frame(p.us, &f, NULL);
	if (!ret)
		ret = dlbuf_recv(p.dev, p.them, NULL, t, &n, NULL);
	peers_close(&p);
	UNTIL(!event_pending());
	return ret;
}

TEST(every_call_fails_once)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack");
	for (int i = 0; i < NTYPES; i++) {
		unsigned long calls;

		fault_at(0);
		CHECK_EQ(walk(types[i]), -EBADF);
		calls = fault_count();
		CHECK(calls > 8);
		for (unsigned long n = 1; n <= calls; n++) {
			unsigned int before = releases();
			int ret;

			fault_at(n);
			ret = walk(types[i]);
			fault_at(0);
			CHECK(ret < 0 && dlbuf_last_error()[0]);
			CHECK(releases() - before <= 1);
		}
	}
}
#endif

KTAP_MAIN()
