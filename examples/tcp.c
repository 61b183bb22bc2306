// SPDX-License-Identifier: MIT
/*
 * A camera's frames to another machine, over TCP. The camera captures into udmabufs, whose pages
 * are sent by MSG_ZEROCOPY; it gets a buffer back when the kernel has reported that it no longer
 * uses the pages. The receiver's kernel writes the bytes into a dma-buf, which devices of that
 * machine import.
 *
 *	cc tcp.c $(pkg-config --cflags --libs dlbuf)
 *	./a.out -l 10.0.0.2 7000		the receiver, at its own address
 *	./a.out 10.0.0.2 7000 /dev/video0	the sender, until Ctrl-C
 *
 *	-n N	the sender ends after N frames
 *	-f NAME	the camera's format, by V4L2's name
 *	-t N	ends if the other machine does not answer for N seconds (10); the receiver has as long
 *		to take the rest after Ctrl-C or SIGTERM, and a second one ends the sender at once
 *	-s	prints a checksum of each frame, to compare both ends
 *	-e NAME	buffers of this exporter for the camera (udmabuf); the kernel may refuse their pages
 *	-k	the receiver waits for the next sender
 *
 * A frame has up to 64 MiB, in a format that dlbuf shows as planes. The addresses are IPv4's.
 *
 * Nothing is encrypted, and the receiver does not ask who sends: use it in a network that you
 * trust, or through a tunnel. The receiver validates each header before it allocates anything.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/videodev2.h>

#include <dlbuf/dlbuf.h>

#define BUFFERS 4
#define MOST_BYTES (1ull << 26)		/* of a frame that the receiver accepts */

/* A header is eight numbers of 64 bits, little-endian; a frame's bytes follow it. */
enum { MAGIC, WIDTH, HEIGHT, CODE, PITCH, BYTES, SEQUENCE, RESERVED, NUMBERS };
static const uint64_t magic = 0x3163746675626c64; /* "dlbuftc1" */

static struct dlbuf_device *cpu;
static const char *exporter = "udmabuf", *format;
static int seconds = 10;
static bool sums;

/* ---------------------------------------------------------------- both ends */

static bool works(int ret)
{
	if (ret)
		warnx("%s", dlbuf_last_error());
	return !ret;
}

static void must(int ret)
{
	if (!works(ret))
		exit(1);
}

/* A connected socket, or one that listens. Accepted sockets have the options of their listener. */
static int open_socket(const char *address, const char *port, bool listens)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *a;
	int new = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, ms = 1000 * seconds;
	int ret = getaddrinfo(address, port, &hints, &a);

	if (ret)
		errx(1, "%s port %s: %s", address, port, gai_strerror(ret));
	/* Bytes that are not acknowledged, and a peer that is silent, end after the same time. */
	if (new < 0 || setsockopt(new, SOL_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)) ||
	    setsockopt(new, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(new, SOL_TCP, TCP_KEEPIDLE, &on, sizeof(on)) ||
	    setsockopt(new, SOL_TCP, TCP_KEEPINTVL, &on, sizeof(on)) ||
	    setsockopt(new, SOL_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(new, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		err(1, "a TCP socket");
	if (listens ? bind(new, a->ai_addr, a->ai_addrlen) || listen(new, 1) :
		      connect(new, a->ai_addr, a->ai_addrlen))
		err(1, "%s port %s", address, port);
	freeaddrinfo(a);
	return new;
}

/* One tensor of all bytes of a buffer: of `fd`, or of a new one by an exporter. NULL: it fails. */
static DLManagedTensorVersioned *bytes_of(int fd, const char *by, uint64_t bytes)
{
	int64_t shape[] = { (int64_t)bytes };
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape };
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = by);
	DLManagedTensorVersioned *t;

	return works(fd >= 0 ? dlbuf_import(cpu, fd, &layout, NULL, &t) :
			       dlbuf_alloc(&cpu, 1, &layout, &opts, &t)) ? t : NULL;
}

static int fd_of(const DLManagedTensorVersioned *t)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	must(dlbuf_tensor_get_info(t, &info));
	return info.fd;
}

/* FNV-1a. */
static uint64_t sum_of(const uint8_t *p, uint64_t bytes)
{
	uint64_t sum = 0xcbf29ce484222325;

	while (bytes--)
		sum = (sum ^ *p++) * 0x100000001b3;
	return sum;
}

/* Validates a header, from which the frame is described. */
static int describe(const uint64_t *h, struct dlbuf_frame *frame)
{
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	uint32_t n;

	uint64_t others = h[WIDTH] | h[HEIGHT] | h[CODE] | h[PITCH] | h[SEQUENCE];

	if (h[MAGIC] != magic || h[RESERVED] || (!h[BYTES] && others)) {
		warnx("this is no sender of frames");
		return -1;
	}
	if (h[WIDTH] > UINT32_MAX || h[HEIGHT] > UINT32_MAX || h[CODE] > UINT32_MAX ||
	    h[PITCH] > MOST_BYTES || h[BYTES] > MOST_BYTES) {
		warnx("a frame is too large");
		return -1;
	}
	*frame = (struct dlbuf_frame){
		.size = sizeof(*frame), .width = (uint32_t)h[WIDTH],
		.height = (uint32_t)h[HEIGHT], .code = (uint32_t)h[CODE],
		.code_space = DLBUF_CODE_V4L2, .modifier = DLBUF_MOD_LINEAR, .nplanes = 1,
		.planes[0] = { .pitch = (int64_t)h[PITCH], .bytes = h[BYTES] },
		.sequence = h[SEQUENCE], .flags = DLBUF_FRAME_SEQUENCE,
		.order = DLBUF_ORDER_COMPLETE,
	};
	if (h[BYTES] && dlbuf_frame_layouts(frame, NULL, layouts, &n)) {
		warnx("a frame that cannot be: %s", dlbuf_last_error());
		return -1;
	}
	return 0;
}

/* ---------------------------------------------------------------- the sender */

struct buffer {
	DLManagedTensorVersioned *t;	/* its bytes */
	const uint8_t *from;		/* what the kernel takes pages of */
	bool sending, complete;		/* `complete`: the socket has all bytes */
	bool copied;			/* by the kernel, which has reported it */
	int error;			/* of MSG_ZEROCOPY, when send() copied instead */
	uint32_t first, sent, done;	/* sends with MSG_ZEROCOPY: number of the first, counts */
	uint64_t sequence, sum;
};

static struct buffer buffers[BUFFERS];
static int sock, camera, signals, events; /* `events`: of the other three, by epoll */
static int failure;			/* errno of the connection, or 0 */
static uint64_t header[NUMBERS];
static uint32_t number;			/* of the next send with MSG_ZEROCOPY */
static unsigned int frames, zero_copies; /* that were delivered */
static unsigned int damaged;		/* frames, that were skipped */
static bool scatter_gather;		/* of the network card */

/* The number of signals. The first one ends the frames, the second one all waits. */
static int stops(void)
{
	struct signalfd_siginfo info;
	static int n;

	while (read(signals, &info, sizeof(info)) > 0) {
		n++;
		alarm((unsigned int)seconds);
	}
	return n;
}

/* Without scatter-gather the kernel copies the pages for the card, and may not report it. */
static bool has_scatter_gather(void)
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

static void queue(struct buffer *b)
{
	struct v4l2_buffer buf = { .index = (uint32_t)(b - buffers), .m.fd = fd_of(b->t),
				   .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				   .memory = V4L2_MEMORY_DMABUF };

	if (ioctl(camera, VIDIOC_QBUF, &buf))
		err(1, "VIDIOC_QBUF");
}

/* The end of the access to a buffer, when neither this program nor the kernel uses it. */
static void give_back(struct buffer *b)
{
	bool zero = scatter_gather && !b->copied && !b->error;

	if (!b->sending || !b->complete || b->done != b->sent)
		return;
	b->sending = false;
	must(dlbuf_release(b->t, NULL, NULL));
	queue(b);
	if (failure) {
		printf("frame %" PRIu64 ": not delivered\n", b->sequence);
		return;
	}
	frames++;
	zero_copies += zero;
	printf("frame %" PRIu64 ": %" PRIu64 " bytes, ", b->sequence, header[BYTES]);
	if (b->error)
		printf("copied by send(): %s", strerror(b->error));
	else
		printf(zero ? "zero copy" : "copied by the kernel");
	if (sums)
		printf(", sum %016" PRIx64, b->sum);
	putchar('\n');
	fflush(stdout);
}

/* The number of buffers that are being sent, after what the kernel has reported. */
static int sending(void)
{
	union {
		struct cmsghdr align;
		char bytes[256];
	} control;
	socklen_t len = sizeof(failure);
	int n = 0;

	for (;;) {
		struct msghdr msg = { .msg_control = &control,
				      .msg_controllen = sizeof(control) };

		if (recvmsg(sock, &msg, MSG_ERRQUEUE) < 0)
			break;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
			struct sock_extended_err *e = (void *)CMSG_DATA(c);

			if (c->cmsg_level != SOL_IP || c->cmsg_type != IP_RECVERR ||
			    e->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
				continue;
			/* The sends with the numbers ee_info to ee_data, which wrap. */
			for (uint32_t i = e->ee_info; i != e->ee_data + 1; i++)
				for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
					if (b->sending && i - b->first < b->sent) {
						b->done++;
						b->copied |= e->ee_code &
							     SO_EE_CODE_ZEROCOPY_COPIED;
					}
		}
	}
	/* A failed connection drops its bytes, and the kernel reports them, but after the error. */
	if (!failure)
		getsockopt(sock, SOL_SOCKET, SO_ERROR, &failure, &len);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++) {
		give_back(b);
		n += b->sending;
	}
	return n;
}

/* Waits for an event. -1: the connection has failed, ms are over, or a second signal has come. */
static int wait_event(int ms)
{
	struct epoll_event event;
	int n = epoll_wait(events, &event, 1, ms);

	sending();
	if (!failure && (!n || stops() > 1))
		failure = n ? ECANCELED : ETIMEDOUT;
	return failure ? -1 : 0;
}

/* A buffer's bytes by MSG_ZEROCOPY where that works, others (b is NULL) by a copy. */
static int send_bytes(struct buffer *b, const void *from, uint64_t bytes, int flags)
{
	bool zero = b;

	for (uint64_t at = 0; at < bytes;) {
		ssize_t n = send(sock, (const char *)from + at, bytes - at,
				 flags | MSG_NOSIGNAL | MSG_DONTWAIT |
				 (zero ? MSG_ZEROCOPY : 0));

		if (n > 0) {
			at += (uint64_t)n;
			number += zero;
			if (b)
				b->sent += zero;
		} else if (zero && (errno == ENOBUFS || errno == EFAULT)) {
			/* RLIMIT_MEMLOCK or optmem_max; pages that cannot be taken. */
			zero = false;
			b->error = errno;
		} else if (errno != EAGAIN) {
			failure = errno;
			return -1;
		} else if (wait_event(1000 * seconds)) {
			return -1;
		}
	}
	return 0;
}

static void send_frame(struct buffer *b)
{
	uint64_t wire[NUMBERS];

	must(dlbuf_acquire(b->t, DLBUF_READ, NULL, NULL));
	b->sum = sums ? sum_of(b->t->dl_tensor.data, header[BYTES]) : 0;
	b->sending = true;
	b->complete = b->copied = false;
	b->error = 0;
	b->sent = b->done = 0;
	b->first = number;
	header[SEQUENCE] = b->sequence;
	for (int i = 0; i < NUMBERS; i++)
		wire[i] = htole64(header[i]);
	if (!send_bytes(NULL, wire, sizeof(wire), MSG_MORE))
		send_bytes(b, b->from, header[BYTES], 0);
	b->complete = true;
}

/* The receiver closes the connection when it has all frames. */
static void send_end(void)
{
	uint64_t end[NUMBERS] = { htole64(magic) };
	char byte;
	ssize_t n;

	if (send_bytes(NULL, end, sizeof(end), 0))
		return;
	while ((n = recv(sock, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		if (wait_event(1000 * seconds))
			return;
	if (n)
		failure = n < 0 ? errno : EPROTO; /* it answers */
}

/* The next one that is not damaged. NULL: the sender is to end. */
static struct buffer *next_picture(void)
{
	struct v4l2_buffer buf = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
				   .memory = V4L2_MEMORY_DMABUF };
	struct dlbuf_frame frame;
	uint64_t h[NUMBERS];

	memcpy(h, header, sizeof(h));
	while (!stops()) {
		if (ioctl(camera, VIDIOC_DQBUF, &buf)) {
			if (errno != EAGAIN)
				err(1, "VIDIOC_DQBUF");
			if (wait_event(-1))
				break;
			continue;
		}
		buffers[buf.index].sequence = buf.sequence;
		/* sizeimage may be more than the picture. */
		h[BYTES] = buf.bytesused;
		if (!(buf.flags & V4L2_BUF_FLAG_ERROR) && !describe(h, &frame))
			return &buffers[buf.index];
		damaged++;
		queue(&buffers[buf.index]);
	}
	return NULL;
}

static void make_buffer(struct buffer *b)
{
	struct dlbuf_udmabuf mem;

	if (strcmp(exporter, "udmabuf")) {
		b->t = bytes_of(-1, exporter, header[BYTES]);
		b->from = b->t ? b->t->dl_tensor.data : NULL;
	} else {
		must(dlbuf_udmabuf_create(header[BYTES], NULL, &mem));
		b->t = bytes_of(mem.fd, NULL, header[BYTES]);
		/* The kernel takes pages of the memfd's mapping, not of the udmabuf's. */
		b->from = mmap(NULL, mem.bytes, PROT_READ, MAP_SHARED, mem.memfd, 0);
		if (b->from == MAP_FAILED)
			err(1, "mmap");
		dlbuf_udmabuf_close(&mem);
	}
	if (!b->t)
		exit(1);
	queue(b);
}

/* Ends with the camera's formats that the receiver takes. */
static void refuse_format(const char *node)
{
	struct v4l2_fmtdesc d = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	DLBUF_INFO(dlbuf_format_info, info);

	fprintf(stderr, "choose a format of %s by -f:", node);
	for (; !ioctl(camera, VIDIOC_ENUM_FMT, &d); d.index++)
		if (!dlbuf_format_find(d.pixelformat, 0, DLBUF_CODE_V4L2, &info) &&
		    info.views & 1u << DLBUF_VIEW_PLANES)
			fprintf(stderr, " %s", info.v4l2_name);
	fputc('\n', stderr);
	exit(1);
}

static void open_camera(const char *node)
{
	enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	struct v4l2_format fmt = { .type = type };
	DLBUF_INFO(dlbuf_format_info, info);
	struct dlbuf_frame frame;
	struct v4l2_requestbuffers req = { .count = BUFFERS, .type = type,
					   .memory = V4L2_MEMORY_DMABUF };

	camera = open(node, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (camera < 0)
		err(1, "%s", node);
	if (ioctl(camera, VIDIOC_G_FMT, &fmt))
		err(1, "%s: no single-planar camera", node);
	if (format) {
		must(dlbuf_format_find_name(format, DLBUF_CODE_V4L2, &info));
		fmt.fmt.pix.pixelformat = info.v4l2_code;
		fmt.fmt.pix.bytesperline = fmt.fmt.pix.sizeimage = 0;
		if (ioctl(camera, VIDIOC_S_FMT, &fmt))
			err(1, "%s: VIDIOC_S_FMT", node);
		if (fmt.fmt.pix.pixelformat != info.v4l2_code) {
			warnx("%s does not give %s", node, format);
			refuse_format(node);
		}
	}
	if (ioctl(camera, VIDIOC_REQBUFS, &req))
		err(1, "%s: no single-planar camera that takes dma-bufs", node);
	if (req.count != BUFFERS)
		errx(1, "%s wants %u buffers", node, req.count);
	header[MAGIC] = magic;
	header[WIDTH] = fmt.fmt.pix.width;
	header[HEIGHT] = fmt.fmt.pix.height;
	header[CODE] = fmt.fmt.pix.pixelformat;
	header[PITCH] = fmt.fmt.pix.bytesperline;
	header[BYTES] = fmt.fmt.pix.sizeimage;
	if (describe(header, &frame))
		refuse_format(node);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		make_buffer(b);
	if (ioctl(camera, VIDIOC_STREAMON, &type))
		err(1, "VIDIOC_STREAMON");
}

static int send_all(const char *address, const char *port, const char *node, unsigned int most)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int on = 1, left;
	sigset_t set;

	open_camera(node);
	sock = open_socket(address, port, false);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	events = epoll_create1(EPOLL_CLOEXEC);
	if (setsockopt(sock, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) ||
	    epoll_ctl(events, EPOLL_CTL_ADD, sock, &event) ||
	    epoll_ctl(events, EPOLL_CTL_ADD, camera, &event) ||
	    epoll_ctl(events, EPOLL_CTL_ADD, signals, &event))
		err(1, "SO_ZEROCOPY or epoll");
	scatter_gather = has_scatter_gather();
	for (unsigned int n = 0; !failure && (!most || n < most); n++) {
		struct buffer *b = NULL;

		while (sending() == BUFFERS && !wait_event(1000 * seconds))
			;
		if (!failure)
			b = next_picture();
		if (!b)
			break;
		send_frame(b);
	}
	if (!failure)
		send_end();
	if (failure) {
		warnx("the connection has failed after %u frames: %s%s", frames, strerror(failure),
		      failure == ETIMEDOUT ? " (or the receiver has another sender)" : "");
		/* Drops what the socket has. */
		connect(sock, &none, sizeof(none));
	}
	while ((left = sending()) && epoll_wait(events, &event, 1, 1000 * seconds))
		;
	printf("%u frames, %u of them zero copy; %u damaged; %d of %d buffers are back%s\n",
	       frames, zero_copies, damaged, BUFFERS - left, BUFFERS,
	       scatter_gather ? "" : "; the network card has no scatter-gather");
	close(sock);
	close(events);
	close(signals);
	close(camera);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		b->t->deleter(b->t);
	return failure || left;
}

/* ---------------------------------------------------------------- the receiver */

static int get(int from, void *to, uint64_t bytes, unsigned int n)
{
	for (uint64_t at = 0; at < bytes;) {
		ssize_t got = recv(from, (char *)to + at, bytes - at, MSG_WAITALL);

		if (got > 0) {
			at += (uint64_t)got;
		} else if (!got) {
			warnx("the sender has gone before its end, after %u frames", n);
			return -1;
		} else if (errno != EINTR) {
			warn("the connection has failed after %u frames", n);
			return -1;
		}
	}
	return 0;
}

static int consume(const struct dlbuf_frame *frame, const DLManagedTensorVersioned *bytes)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	int ret = -1;

	if (!works(dlbuf_import_frame(cpu, frame, NULL, t, &n)))
		return -1;
	if (works(dlbuf_acquire_all(t, n, DLBUF_READ, NULL, NULL))) {
		/* The program works on t[0]->dl_tensor here, or gives it to a framework. */
		printf("frame %" PRIu64 ": %" PRIu64 " bytes, planes: %u", frame->sequence,
		       frame->planes[0].bytes, n);
		if (sums)
			printf(", sum %016" PRIx64,
			       sum_of(bytes->dl_tensor.data, frame->planes[0].bytes));
		putchar('\n');
		fflush(stdout);
		ret = 0;
	}
	while (n--)
		t[n]->deleter(t[n]); /* releases it, too */
	return ret;
}

/*
 * The frames of one connection. Each is consumed before the next is received, so there is one
 * buffer; consumers that keep frames need a pool (pool.h).
 */
static int receive(int from)
{
	DLManagedTensorVersioned *t = NULL;
	uint64_t h[NUMBERS], first[NUMBERS];
	struct dlbuf_frame frame;
	int status = 1;

	for (unsigned int n = 0; !get(from, h, sizeof(h), n); n++) {
		for (int i = 0; i < NUMBERS; i++)
			h[i] = le64toh(h[i]);
		if (describe(h, &frame))
			break;
		if (!h[BYTES]) {
			printf("%u frames\n", n);
			fflush(stdout);
			status = 0;
			break;
		}
		if (!n)
			memcpy(first, h, sizeof(first));
		if (memcmp(first + WIDTH, h + WIDTH, (SEQUENCE - WIDTH) * sizeof(*h))) {
			warnx("the size or the format of the frames has changed");
			break;
		}
		if ((!t && !(t = bytes_of(-1, NULL, h[BYTES]))) ||
		    !works(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL)) ||
		    get(from, t->dl_tensor.data, h[BYTES], n) ||
		    !works(dlbuf_release(t, NULL, NULL)))
			break;
		frame.planes[0].fd = fd_of(t);
		if (consume(&frame, t))
			break;
	}
	if (t)
		t->deleter(t);
	return status;
}

static int receive_all(const char *address, const char *port, bool keep)
{
	int listener = open_socket(address, port, true), status, from;

	do {
		from = accept(listener, NULL, NULL);
		if (from < 0)
			err(1, "accept");
		status = receive(from);
		close(from);
		dlbuf_device_trim(cpu, 0);
	} while (keep);
	close(listener);
	return status;
}

/* 1 to `most`; 0 for other words. */
static unsigned int number_of(const char *word, unsigned int most)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	return *word >= '0' && *word <= '9' && !*end && n <= most ? (unsigned int)n : 0;
}

int main(int argc, char **argv)
{
	bool listens = false, keep = false, wrong = false;
	unsigned int most = 0;
	int c, status;

	while ((c = getopt(argc, argv, "lksn:t:e:f:")) != -1) {
		if (c == 'n')
			wrong |= !(most = number_of(optarg, UINT32_MAX));
		else if (c == 't')
			wrong |= !(seconds = (int)number_of(optarg, 86400));
		else if (c == 'e')
			exporter = optarg;
		else if (c == 'f')
			format = optarg;
		else if (c == '?')
			return 2;
		listens |= c == 'l';
		keep |= c == 'k';
		sums |= c == 's';
	}
	if (wrong || argc - optind != (listens ? 2 : 3) || !number_of(argv[optind + 1], 65535))
		errx(2, "usage: [-l] [-k] [-s] [-n N] [-t N] [-e NAME] [-f NAME] ADDRESS PORT [NODE]");
	must(dlbuf_device_open("cpu", NULL, &cpu));
	status = listens ? receive_all(argv[optind], argv[optind + 1], keep) :
			   send_all(argv[optind], argv[optind + 1], argv[optind + 2], most);
	dlbuf_device_close(cpu);
	if (fflush(stdout) || ferror(stdout))
		errx(1, "standard output: not all was written");
	return status;
}
