// SPDX-License-Identifier: MIT
/*
 * A camera's frames to another machine, over TCP. The camera captures into udmabufs, whose pages
 * are sent by MSG_ZEROCOPY; it gets a buffer back when the kernel has reported that it no longer
 * uses the pages. The receiver's kernel writes the bytes into a dma-buf, which devices of that
 * machine import.
 *
 *	cc tcp.c $(pkg-config --cflags --libs dlbuf)
 *	./a.out -l 10.0.0.2 7000		the receiver of one sender, at its own address
 *	./a.out 10.0.0.2 7000 /dev/video0	the sender
 *
 *	-n N	the sender ends after N frames; without it, Ctrl-C ends both
 *	-t N	both end if the other machine does not answer for N seconds (10)
 *	-s	prints a checksum of each frame, in the order sent, to compare both ends
 *
 * Nothing is encrypted, and the receiver does not ask who sends: use it in a network that you
 * trust, or through a tunnel. The receiver validates each header before it allocates anything.
 *
 * A program for daily use would add: a signal that ends it without a failure; a new connection
 * after one; several of them; a pool (pool.h) for a consumer that keeps frames; sends that do not
 * block; a frame's time, crop and colour; the choice of the format; names of machines, and IPv6.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/videodev2.h>

#include <dlbuf/dlbuf.h>

#define BUFFERS 4
#define MOST_BYTES (1ull << 26)		/* of a frame */

/* Numbers are little-endian. The frame's bytes follow. `end` ends the frames. */
struct header {
	char magic[8];
	uint64_t width, height, code, pitch, bytes, sequence, reserved;
};

static const struct header end = { .magic = "dlbuftc1" };
static struct dlbuf_device *cpu;
static int seconds = 10;
static bool sums;

/* ---------------------------------------------------------------- both ends */

static void must(int ret)
{
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

static void check_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		errx(1, "standard output: not all was written");
}

/* A connected socket, or one that listens. Accepted sockets have the options of their listener. */
static int open_socket(const char *address, int port, bool listens)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int new = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, ms = 1000 * seconds;

	/* Limits unacknowledged bytes and, by keepalive, a peer that is silent or does not read. */
	if (new < 0 || setsockopt(new, SOL_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)) ||
	    setsockopt(new, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(new, SOL_TCP, TCP_KEEPIDLE, &on, sizeof(on)) ||
	    setsockopt(new, SOL_TCP, TCP_KEEPINTVL, &on, sizeof(on)) ||
	    setsockopt(new, SOL_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(new, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		err(1, "a TCP socket");
	if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
		errx(1, "%s is no IPv4 address", address);
	if (listens ? bind(new, (void *)&a, sizeof(a)) || listen(new, 1) :
		      connect(new, (void *)&a, sizeof(a)))
		err(1, "%s port %d", address, port);
	return new;
}

/* A tensor of all bytes of a dma-buf. If *fd is -1, it is new. *fd becomes the tensor's own. */
static DLManagedTensorVersioned *bytes_of(int *fd, uint64_t bytes)
{
	int64_t shape[] = { (int64_t)bytes };
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape };
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLManagedTensorVersioned *t;

	must(*fd < 0 ? dlbuf_alloc(&cpu, 1, &layout, NULL, &t) :
		       dlbuf_import(cpu, *fd, &layout, NULL, &t));
	must(dlbuf_tensor_get_info(t, &info));
	*fd = info.fd;
	return t;
}

/* Describes a frame without its fd. False, with a message, if the header is not valid. */
static bool frame_of(const struct header *h, struct dlbuf_frame *frame)
{
	uint64_t width = le64toh(h->width), height = le64toh(h->height), code = le64toh(h->code);
	uint64_t pitch = le64toh(h->pitch), bytes = le64toh(h->bytes);
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	uint32_t n;

	*frame = (struct dlbuf_frame){
		.size = sizeof(*frame), .width = (uint32_t)width, .height = (uint32_t)height,
		.code = (uint32_t)code, .code_space = DLBUF_CODE_V4L2, .nplanes = 1,
		.modifier = DLBUF_MOD_LINEAR, .order = DLBUF_ORDER_COMPLETE,
		.planes[0] = { .pitch = (int64_t)pitch, .bytes = bytes },
		.sequence = le64toh(h->sequence), .flags = DLBUF_FRAME_SEQUENCE,
	};
	if (memcmp(h->magic, end.magic, sizeof(h->magic)) || h->reserved)
		warnx("this is no sender of frames");
	else if ((width | height | code) > UINT32_MAX || pitch > MOST_BYTES || bytes > MOST_BYTES)
		warnx("a frame is too large");
	else if (!bytes || dlbuf_frame_layouts(frame, NULL, layouts, &n))
		warnx("a frame that cannot be: %s", bytes ? dlbuf_last_error() : "it has no bytes");
	else
		return true;
	return false;
}

/* Ends a line about a frame: with a checksum (FNV-1a), if they are wanted. */
static void end_line(const DLManagedTensorVersioned *t, uint64_t bytes)
{
	const uint8_t *p = t->dl_tensor.data;
	uint64_t sum = 0xcbf29ce484222325;

	while (sums && bytes--)
		sum = (sum ^ *p++) * 0x100000001b3;
	if (sums)
		printf(", sum %016" PRIx64, sum);
	putchar('\n');
	check_output();
}

/* ---------------------------------------------------------------- the sender */

struct sender {
	struct buffer {
		DLManagedTensorVersioned *t; /* its bytes */
		int fd;
		const char *from;	/* the mapping whose pages the kernel takes */
		struct header header;
		bool copied;		/* by the kernel, which has reported it */
		int error;		/* of MSG_ZEROCOPY, when send() copied instead */
		uint32_t first, sent, done; /* sends with it: number of the first, counts */
	} buffers[BUFFERS];
	struct buffer *held[BUFFERS];	/* by the socket, which has all bytes; in the order sent */
	size_t nheld;
	int sock, camera;
	int failure;			/* errno of the connection, or 0 */
	uint32_t bytes;			/* of each frame, or 0 before the first one */
	uint32_t number;		/* of the next send with MSG_ZEROCOPY */
	int frames;			/* that were delivered */
	bool scatter_gather;		/* of the network card */
};

/* Without scatter-gather the kernel copies the pages for the card, and may not report it. */
static bool has_scatter_gather(int sock)
{
	struct ethtool_value sg = { .cmd = ETHTOOL_GSG };
	struct ifreq ifr = { .ifr_data = (void *)&sg };
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	struct ifaddrs *list, *i;

	if (getsockname(sock, (void *)&own, &len) || getifaddrs(&list))
		return false;
	for (i = list; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr == own.sin_addr.s_addr)
			strncpy(ifr.ifr_name, i->ifa_name, IFNAMSIZ - 1);
	freeifaddrs(list);
	return !ioctl(sock, SIOCETHTOOL, &ifr) && sg.data;
}

/* Gives the camera a buffer that neither this program nor the kernel uses. */
static void queue(struct sender *s, struct buffer *b)
{
	struct v4l2_buffer buf = { .index = (uint32_t)(b - s->buffers), .m.fd = b->fd,
				   .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				   .memory = V4L2_MEMORY_DMABUF };

	if (ioctl(s->camera, VIDIOC_QBUF, &buf))
		err(1, "VIDIOC_QBUF");
}

/* The end of the access that send_frame() began, of the first buffer of `held`. */
static void complete(struct sender *s)
{
	struct buffer *b = s->held[0];
	bool zero_copy = s->scatter_gather && !b->copied;
	uint64_t bytes = le64toh(b->header.bytes);

	printf("frame %" PRIu64 ": ", le64toh(b->header.sequence));
	if (s->failure) {
		printf("not delivered\n");
	} else {
		s->frames++;
		printf("%" PRIu64 " bytes, %s%s", bytes, b->error ? "copied by send(): " : zero_copy ?
		       "zero copy" : "copied by the kernel", b->error ? strerror(b->error) : "");
		end_line(b->t, bytes);
	}
	memmove(s->held, s->held + 1, --s->nheld * sizeof(b));
	must(dlbuf_release(b->t, NULL, NULL));
	queue(s, b);
}

/* Takes the kernel's reports of sends whose pages it no longer uses. */
static void take_reports(struct sender *s)
{
	_Alignas(struct cmsghdr) char control[256];
	struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };
	socklen_t len = sizeof(s->failure);

	for (; recvmsg(s->sock, &msg, MSG_ERRQUEUE) >= 0; msg.msg_controllen = sizeof(control)) {
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		struct sock_extended_err *e = (void *)CMSG_DATA(c);

		if (!c || c->cmsg_level != SOL_IP || c->cmsg_type != IP_RECVERR ||
		    e->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
			continue;
		/* The sends with the numbers ee_info to ee_data, which wrap. */
		for (uint32_t i = e->ee_info; i != e->ee_data + 1; i++)
			for (struct buffer *b = s->buffers; b < s->buffers + BUFFERS; b++)
				if (i - b->first < b->sent) {
					b->done++;
					b->copied |= e->ee_code & SO_EE_CODE_ZEROCOPY_COPIED;
				}
	}
	/* A failed connection drops its bytes, and the kernel reports them, but after the error. */
	if (!s->failure)
		getsockopt(s->sock, SOL_SOCKET, SO_ERROR, &s->failure, &len);
	while (s->nheld && s->held[0]->done == s->held[0]->sent)
		complete(s);
}

/* A buffer's bytes by MSG_ZEROCOPY where that works, a header (b is NULL) by a copy. */
static void send_bytes(struct sender *s, struct buffer *b, const void *from, uint64_t bytes,
		       int flags)
{
	int zero_copy = b ? MSG_ZEROCOPY : 0;

	for (uint64_t at = 0; at < bytes && !s->failure;) {
		ssize_t n = send(s->sock, (const char *)from + at, bytes - at,
				 flags | zero_copy | MSG_NOSIGNAL);

		if (n >= 0) {
			at += (uint64_t)n;
			if (zero_copy) {
				s->number++;
				b->sent++;
			}
		} else if (zero_copy && (errno == ENOBUFS || errno == EFAULT)) {
			/* RLIMIT_MEMLOCK or optmem_max; pages that cannot be taken. */
			zero_copy = 0;
			b->error = errno;
		} else {
			s->failure = errno;
		}
	}
}

static void send_frame(struct sender *s, struct buffer *b)
{
	must(dlbuf_acquire(b->t, DLBUF_READ, NULL, NULL));
	b->copied = false;
	b->error = 0;
	b->first = s->number;
	b->sent = b->done = 0;
	send_bytes(s, NULL, &b->header, sizeof(b->header), MSG_MORE);
	send_bytes(s, b, b->from, le64toh(b->header.bytes), 0);
	s->held[s->nheld++] = b;
}

/* The next frame, of the size of the first one, or NULL when the connection has failed. */
static struct buffer *next_frame(struct sender *s)
{
	/* A report is POLLERR. If the socket holds all buffers, only a report can come. */
	struct pollfd fds[] = { { s->sock, 0, 0 }, { s->camera, POLLIN, 0 } };
	struct v4l2_buffer buf = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				   .memory = V4L2_MEMORY_DMABUF };
	struct dlbuf_frame frame;
	struct buffer *b;

	for (take_reports(s); !s->failure; take_reports(s)) {
		if (poll(fds, 2, -1) < 0 || !fds[1].revents)
			continue;
		if (ioctl(s->camera, VIDIOC_DQBUF, &buf))
			err(1, "VIDIOC_DQBUF");
		b = &s->buffers[buf.index];
		b->header.bytes = htole64(buf.bytesused);
		b->header.sequence = htole64(buf.sequence);
		if (!(buf.flags & V4L2_BUF_FLAG_ERROR) && (!s->bytes || buf.bytesused == s->bytes) &&
		    frame_of(&b->header, &frame)) {
			s->bytes = buf.bytesused;
			return b;
		}
		printf("frame %u: damaged\n", buf.sequence);
		check_output();
		queue(s, b);
	}
	return NULL;
}

/* Makes a buffer for frames of this format, if the receiver will accept them. */
static void make_buffer(struct sender *s, struct buffer *b, const struct v4l2_pix_format *pix)
{
	struct dlbuf_udmabuf mem = { .fd = -1, .memfd = -1 };
	struct dlbuf_frame frame;

	b->header = (struct header){
		.magic = "dlbuftc1", .width = htole64(pix->width), .height = htole64(pix->height),
		.code = htole64(pix->pixelformat), .pitch = htole64(pix->bytesperline),
		.bytes = htole64(pix->sizeimage) };
	if (!frame_of(&b->header, &frame))
		exit(1);
	/* Any dma-buf will do, but the kernel takes no pages of a dma-buf's own mapping. */
	if (dlbuf_udmabuf_create(pix->sizeimage, NULL, &mem))
		warnx("frames are copied: %s", dlbuf_last_error());
	b->fd = mem.fd;
	b->t = bytes_of(&b->fd, pix->sizeimage);
	b->from = mem.memfd < 0 ? b->t->dl_tensor.data :
		  mmap(NULL, mem.bytes, PROT_READ, MAP_SHARED, mem.memfd, 0);
	if (b->from == MAP_FAILED)
		err(1, "mmap");
	dlbuf_udmabuf_close(&mem);
	queue(s, b);
}

static void open_camera(struct sender *s, const char *node)
{
	enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	struct v4l2_format fmt = { .type = type };
	struct v4l2_requestbuffers req = { .count = BUFFERS, .type = type,
					   .memory = V4L2_MEMORY_DMABUF };

	s->camera = open(node, O_RDWR | O_CLOEXEC);
	if (s->camera < 0)
		err(1, "%s", node);
	if (ioctl(s->camera, VIDIOC_G_FMT, &fmt) || ioctl(s->camera, VIDIOC_REQBUFS, &req))
		err(1, "%s: no single-planar camera that takes dma-bufs", node);
	if (req.count != BUFFERS)
		errx(1, "%s wants %u buffers", node, req.count);
	for (int i = 0; i < BUFFERS; i++)
		make_buffer(s, &s->buffers[i], &fmt.fmt.pix);
	if (ioctl(s->camera, VIDIOC_STREAMON, &type))
		err(1, "VIDIOC_STREAMON");
}

static int send_all(const char *address, int port, const char *node, int most)
{
	struct timeval limit = { .tv_sec = seconds };
	struct sender s = { .failure = 0 };
	struct buffer *b;
	int on = 1;
	ssize_t n;
	char byte;

	open_camera(&s, node);
	s.sock = open_socket(address, port, false);
	s.scatter_gather = has_scatter_gather(s.sock);
	if (setsockopt(s.sock, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) ||
	    setsockopt(s.sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		err(1, "SO_ZEROCOPY");
	while (most-- && (b = next_frame(&s)))
		send_frame(&s, b);
	/* It closes the connection when it has all. What it acknowledged before is delivered. */
	send_bytes(&s, NULL, &end, sizeof(end), 0);
	n = s.failure ? 0 : recv(s.sock, &byte, 1, 0);
	if (n < 0 && errno != EAGAIN)
		s.failure = errno;
	take_reports(&s);
	if (n && !s.failure)
		s.failure = n > 0 ? EPROTO : ETIMEDOUT;
	if (s.failure) {
		warnx("the connection has failed (frames: %d): %s%s", s.frames,
		      strerror(s.failure), s.failure == ETIMEDOUT ?
		      " (or the receiver has another sender)" : "");
		/* Drops what the socket has. */
		connect(s.sock, &(struct sockaddr){ AF_UNSPEC }, sizeof(struct sockaddr));
	}
	/* The card may still use some pages. The socket has failed, so poll() would not wait. */
	for (int i = 0; take_reports(&s), s.nheld && i < 100 * seconds; i++)
		poll(NULL, 0, 10);
	printf("frames: %d; buffers back: %zu of %d\n", s.frames, BUFFERS - s.nheld, BUFFERS);
	close(s.sock);
	close(s.camera);
	for (b = s.buffers; b < s.buffers + BUFFERS; b++)
		b->t->deleter(b->t);
	return s.failure || s.nheld;
}

/* ---------------------------------------------------------------- the receiver */

static void get(int from, void *to, uint64_t bytes, int frames)
{
	for (uint64_t at = 0; at < bytes;) {
		ssize_t n = recv(from, (char *)to + at, bytes - at, MSG_WAITALL);

		if (n < 0)
			err(1, "the connection has failed (frames: %d)", frames);
		if (!n)
			errx(1, "the sender has gone before its end (frames: %d)", frames);
		at += (uint64_t)n;
	}
}

/* Each frame is consumed before the next one overwrites it. A failure ends the program. */
static int receive_all(const char *address, int port)
{
	int listener = open_socket(address, port, true), from = accept(listener, NULL, NULL);
	DLManagedTensorVersioned *bytes = NULL, *t[DLBUF_MAX_PLANES];
	struct header first, h;
	int frames = 0, fd = -1;
	struct dlbuf_frame frame;
	uint32_t n;

	if (from < 0)
		err(1, "accept");
	for (; get(from, &h, sizeof(h), frames), memcmp(&h, &end, sizeof(h)); frames++) {
		if (!frame_of(&h, &frame))
			exit(1);
		first = bytes ? first : h;
		bytes = bytes ? bytes : bytes_of(&fd, frame.planes[0].bytes);
		if (memcmp(&first, &h, offsetof(struct header, sequence)))
			errx(1, "the size or the format of the frames has changed");
		must(dlbuf_acquire(bytes, DLBUF_WRITE, NULL, NULL));
		get(from, bytes->dl_tensor.data, frame.planes[0].bytes, frames);
		must(dlbuf_release(bytes, NULL, NULL));
		frame.planes[0].fd = fd;
		must(dlbuf_import_frame(cpu, &frame, NULL, t, &n));
		must(dlbuf_acquire_all(t, n, DLBUF_READ, NULL, NULL));
		/* The program works on t[0]->dl_tensor here, or gives it to a framework. */
		printf("frame %" PRIu64 ": %" PRIu64 " bytes, planes: %u", frame.sequence,
		       frame.planes[0].bytes, n);
		end_line(bytes, frame.planes[0].bytes);
		while (n--)
			t[n]->deleter(t[n]); /* releases it, too */
	}
	printf("frames: %d\n", frames);
	if (bytes)
		bytes->deleter(bytes);
	close(from);
	close(listener);
	return 0;
}

/* Reads a number from 1 to `most`. Returns 0 for anything else. */
static int number_of(const char *word, long most)
{
	char *rest;
	long n = strtol(word, &rest, 10);

	return *rest || n < 1 || n > most ? 0 : (int)n;
}

int main(int argc, char **argv)
{
	int c, port, most = INT32_MAX, status;
	bool listens = false;

	while ((c = getopt(argc, argv, "lsn:t:")) != -1) {
		listens |= c == 'l';
		sums |= c == 's';
		most = c == 'n' ? number_of(optarg, INT32_MAX) : most;
		seconds = c == 't' ? number_of(optarg, 86400) : seconds;
		if (c == '?')
			return 2;
	}
	argv += optind;
	argc -= optind;
	port = argc > 1 ? number_of(argv[1], 65535) : 0;
	if (argc != (listens ? 2 : 3) || !port || !most || !seconds)
		errx(2, "usage: [-s] [-n N] [-t N] [-l] ADDRESS PORT [NODE]");
	must(dlbuf_device_open("cpu", NULL, &cpu));
	status = listens ? receive_all(argv[0], port) : send_all(argv[0], port, argv[2], most);
	dlbuf_device_close(cpu);
	check_output();
	return status;
}
